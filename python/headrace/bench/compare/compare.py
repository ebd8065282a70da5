"""Two runs, or two groups of runs, side by side: differences with the doubt in them.

One run against one. Seconds of a run are not independent: a slow second is followed by slow ones (flushing, compaction, credits). So the interval is a bootstrap of whole blocks (circular
block bootstrap, Politis and Romano 1992), with the length of a block chosen from the autocorrelation (Politis and White 2004, corrected by Patton, Politis and White 2009). It covers what
goes up and down inside these two runs, not what differs from one run to its repetition.

Two or more against two or more. Each run is one observation, so repetitions count: Welch's t on the logarithms of the means, which also covers what differs between repetitions.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.bench.store.store import RunRecord
from headrace.bench.target import DOC
from headrace.errors import InputError

CONFIDENCE = 0.95
RESAMPLES = 4_000
MOST_PIECES = 500
# Of fewer rows, or fewer blocks than this in them, a bootstrap says nothing.
FEWEST_ROWS, FEWEST_BLOCKS = 20, 4
DATA_SHARE = 0.05
# name: (words, unit, is more better; None: neither). Ratios of sums: (numerator columns, denominator).
METRICS: dict[str, tuple[str, str, bool | None]] = {
    "tps": ("{unit} a second", "/s", True),
    "qps": ("queries a second", "/s", True),
    "p95_ms": ("p95 of a second, mean", "ms", False),
    "read_iops": ("reads a second", "IOPS", None),
    "write_iops": ("writes a second", "IOPS", None),
    "read_mib_s": ("MiB read a second", "MiB/s", None),
    "write_mib_s": ("MiB written a second", "MiB/s", None),
    "read_wait_ms": ("mean wait of a read", "ms", False),
    "write_wait_ms": ("mean wait of a write", "ms", False),
    "queue": ("requests under way", "", None),
}
RATIOS = {
    "reads_per_transaction": ("reads a transaction", "read_iops"),
    "writes_per_transaction": ("writes a transaction", "write_iops"),
}
WHOLE = {"p50_ms": "p50 of the run", "p95_ms": "p95 of the run", "p99_ms": "p99 of the run", "p999_ms": "p99.9 of the run"}
# Variables that differ from start to start, or say where a server lives.
NOT_SETTINGS = (
    "hostname", "pid_file", "socket", "port", "datadir", "basedir", "tmpdir", "slave_load_tmpdir", "replica_load_tmpdir", "server_uuid", "server_id", "timestamp", "pseudo_thread_id",
    "rand_seed1", "rand_seed2", "last_insert_id", "identity", "insert_id", "general_log_file", "slow_query_log_file", "log_error", "log_bin_basename", "log_bin_index",
    "relay_log", "relay_log_basename", "relay_log_index", "gtid_executed", "gtid_purged", "gtid_binlog_pos", "gtid_binlog_state", "gtid_current_pos", "gtid_slave_pos", "error_count",
    "warning_count", "secure_file_priv", "plugin_dir", "character_sets_dir", "lc_messages_dir", "innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory",
    "ssl_ca", "ssl_cert", "ssl_key", "tls_ca", "in_transaction", "proxy_user", "external_user", "wsrep_node_name", "innodb_version", "version", "version_comment", "version_compile_os",
    "version_compile_machine", "version_source_revision", "version_ssl_library", "version_malloc_library", "innodb_redo_log_archive_dirs", "system_time_zone", "innodb_buffer_pool_filename",
    "rocksdb_datadir", "rocksdb_wal_dir", "build_id", "caching_sha2_password_private_key_path", "caching_sha2_password_public_key_path", "sha256_password_private_key_path",
    "sha256_password_public_key_path", "aria_log_dir_path", "mysqlx_socket", "report_host", "innodb_temp_tablespaces_dir", "innodb_tmpdir", "init_file",
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One figure of both. `change_percent`: b against a; `low_percent`, `high_percent`: its 95 % interval, None where there is none. `verdict`: higher, lower, same (the interval holds 0)
    or "" (no interval). `better`: whether b is better, None where that cannot be said. `how`: of the interval."""

    name: str
    words: str
    unit: str
    a: float
    b: float
    change_percent: float | None
    low_percent: float | None
    high_percent: float | None
    verdict: str
    better: bool | None
    how: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """`a` and `b`: the runs. `unlike`: what is not alike in load, tool, machine or data (empty unless it was allowed). `differs`: what was meant to differ: (what, of a, of b). `notes`:
    what to know before trusting it."""

    a: tuple[RunRecord, ...]
    b: tuple[RunRecord, ...]
    differences: tuple[Difference, ...]
    unlike: tuple[str, ...]
    differs: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]


def compare(a: RunRecord | Sequence[RunRecord], b: RunRecord | Sequence[RunRecord], *, allow_unlike: bool = False) -> Comparison:
    """`b` against `a`. Raises InputError for runs that are not alike (unless `allow_unlike`), for one against several, and for a run on both sides."""
    left, right = (tuple([side] if isinstance(side, RunRecord) else side) for side in (a, b))
    if not left or not right or (len(left) == 1) != (len(right) == 1):
        raise InputError(
            f"{len(left)} and {len(right)} runs",
            "one is compared with one, or two and more with two and more",
            f"{DOC}, Comparing",
            "Repeat the run that is alone.",
        )
    both = {record.id for record in left} & {record.id for record in right}
    if both:
        raise InputError(sorted(both)[0], "is on both sides", f"{DOC}, Comparing", "Name two runs.")
    strange = list(dict.fromkeys(words for one in left for other in right for words in unlike(one, other)))
    strange += [words for side in (left, right) for one in side[1:] for words in _repeated(side[0], one)]
    strange = list(dict.fromkeys(strange))
    if strange and not allow_unlike:
        raise InputError(f"{left[0].id} and {right[0].id}", "are not alike: " + "; ".join(strange[:4]), f"{DOC}, Comparing",
                         "Compare runs of one load on one machine, or say --unlike.")  # fmt: skip
    made = _single(left[0], right[0]) if len(left) == 1 else _groups(left, right)
    return Comparison(left, right, tuple(made), tuple(strange), tuple(differing(left[0], right[0])), tuple(_notes(left, right)))


# --- alike ------------------------------------------------------------------------------------------------------------


def unlike(a: RunRecord, b: RunRecord) -> list[str]:
    """What makes a difference between them no difference of server or storage."""
    one, other = a.document, b.document
    found = [f"{record.id} is {record.state}" for record in (a, b) if record.state != "complete"]
    pairs = [
        ("benchmark", one["benchmark"]["name"], other["benchmark"]["name"]),
        *(
            (key, one["benchmark"]["options"].get(key), other["benchmark"]["options"].get(key))
            for key in sorted(set(one["benchmark"]["options"]) | set(other["benchmark"]["options"]))
        ),
        *((what, one["load"].get(key), other["load"].get(key)) for what, key in (("threads", "threads"), ("seconds", "seconds"), ("seconds of warm-up", "warmup_s"))),
        ("tool", f"{one['tool']['name']} {one['tool']['version']}", f"{other['tool']['name']} {other['tool']['version']}"),
        ("start", one.get("start"), other.get("start")),
        *((what, one["environment"].get(key), other["environment"].get(key)) for what, key in
          (("processor", "cpu"), ("processors", "cpus"), ("memory (GiB)", "memory_gib"), ("kernel", "kernel"), ("host", "host"))),
    ]  # fmt: skip
    found += [f"{what} {_shown(left)} and {_shown(right)}" for what, left, right in pairs if left != right]
    sizes = [document["target"].get("data_gib") for document in (one, other)]
    same_engine = one["target"].get("engine") == other["target"].get("engine")
    # Engines pack the same rows differently.
    if all(sizes) and same_engine and abs(sizes[0] - sizes[1]) > DATA_SHARE * max(sizes):
        found.append(f"data of {sizes[0]:.3g} and {sizes[1]:.3g} GiB")
    return found


def _repeated(first: RunRecord, other: RunRecord) -> list[str]:
    """A group is one configuration, repeated."""
    return [f"{what} {left} and {right} within one group" for what, left, right in differing(first, other)]


def differing(a: RunRecord, b: RunRecord) -> list[tuple[str, str, str]]:
    """What differs of storage and server: (what, of a, of b)."""
    # MariaDB adds -log to its version where a log is on.
    one, other = (
        {**record.document["target"], "version": re.sub(r"-log$", "", record.document["target"].get("version") or "") or None}
        for record in (a, b)
    )
    keys = ("storage", "log_storage", "instance", "engine", "flavor", "version", "cache_gib")
    found = [(key, _shown(one.get(key)), _shown(other.get(key))) for key in keys if one.get(key) != other.get(key)]
    if one.get("flavor") == other.get("flavor") and one.get("version") == other.get("version"):
        left, right = a.document.get("config") or {}, b.document.get("config") or {}
        found += [
            (key, _shown(left.get(key)), _shown(right.get(key)))
            for key in sorted(set(left) | set(right))
            if left.get(key) != right.get(key) and not _of_the_place(key)
        ]
    return found


def _of_the_place(key: str) -> bool:
    """No setting of the server: where it lives, what it is called, sizes that follow performance_schema=ON."""
    return key in NOT_SETTINGS or key.startswith("performance_schema_") or key.endswith(("_home_dir", "_file_path"))


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:60] or "empty"


def _notes(left: Sequence[RunRecord], right: Sequence[RunRecord]) -> list[str]:
    found = []
    if len(left) == 1:
        found.append(
            "Intervals cover what went up and down within these two runs, not what differs between repetitions: for that, repeat both and compare the groups."
        )
    for record in (*left, *right):
        found += [f"{record.id}: {text}" for text in record.findings if not text.startswith("There is no RUN.toml")]
    return found


# --- one against one --------------------------------------------------------------------------------------------------


def _single(a: RunRecord, b: RunRecord) -> list[Difference]:
    parts = [record.series().filter(pl.col("phase") == "measure") for record in (a, b)]
    seed = int.from_bytes(hashlib.sha256(f"{a.id} {b.id}".encode()).digest()[:8], "big")
    unit = a.document["benchmark"].get("unit", "transactions")
    found = []
    for name, (words, kind, more) in METRICS.items():
        columns = [part[name].drop_nulls().to_numpy() if name in part.columns else np.array([]) for part in parts]
        if all(len(column) for column in columns):
            found.append(_difference(name, words.format(unit=unit), kind, more, [(column, None) for column in columns], seed))
    for name, (words, column) in RATIOS.items():
        pairs = [part.select(column, "tps").drop_nulls() for part in parts if {column, "tps"} <= set(part.columns)]
        if len(pairs) == 2 and all((pair["tps"] > 0).any() for pair in pairs):
            found.append(_difference(name, words, "", False, [(pair[column].to_numpy(), pair["tps"].to_numpy()) for pair in pairs], seed))
    for name, words in WHOLE.items():
        values = [record.summary.get(name) for record in (a, b)]
        if all(value is not None for value in values):
            found.append(
                Difference(f"run_{name}", words, "ms", values[0], values[1], _change(*values), None, None, "", None, "one number a run")
            )
    return found


def _difference(
    name: str, words: str, unit: str, more: bool | None, series: list[tuple[np.ndarray, np.ndarray | None]], seed: int
) -> Difference:
    chance = np.random.default_rng(seed)
    values = [_statistic(top, bottom) for top, bottom in series]
    # Longer blocks than needed do no harm, and a day of seconds is not drawn one by one.
    blocks = [max(block_length(top), 1 if bottom is None else block_length(bottom), len(top) // MOST_PIECES) for top, bottom in series]
    known = all(len(top) >= max(FEWEST_ROWS, FEWEST_BLOCKS * block) for (top, _), block in zip(series, blocks, strict=True))
    low = high = None
    if known and values[0] > 0:
        drawn = [_resampled(top, bottom, block, chance) for (top, bottom), block in zip(series, blocks, strict=True)]
        with np.errstate(divide="ignore", invalid="ignore"):
            changes = 100.0 * (drawn[1] / drawn[0] - 1.0)
        changes = changes[np.isfinite(changes)]
        if len(changes) >= RESAMPLES // 2:
            low, high = (float(value) for value in np.quantile(changes, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    how = f"blocks of {blocks[0]} and {blocks[1]} rows" if low is not None else "too few rows for an interval"
    return _made(name, words, unit, values, low, high, more, how)


def _made(
    name: str, words: str, unit: str, values: Sequence[float], low: float | None, high: float | None, more: bool | None, how: str
) -> Difference:
    verdict = "" if low is None else "higher" if low > 0 else "lower" if high < 0 else "same"
    better = None if more is None or verdict in ("", "same") else (verdict == "higher") == more
    return Difference(name, words, unit, float(values[0]), float(values[1]), _change(*values), low, high, verdict, better, how)


def _change(a: float, b: float) -> float | None:
    return 100.0 * (b / a - 1.0) if a else None


def _statistic(top: np.ndarray, bottom: np.ndarray | None) -> float:
    return float(top.mean()) if bottom is None else float(top.sum() / bottom.sum())


def _resampled(top: np.ndarray, bottom: np.ndarray | None, block: int, chance: np.random.Generator) -> np.ndarray:
    """RESAMPLES values of the statistic, of series put together from blocks; the series is taken as a circle."""
    count = len(top)
    pieces = -(-count // block)
    starts = chance.integers(0, count, size=(RESAMPLES, pieces))
    sums = []
    for series in (top,) if bottom is None else (top, bottom):
        # Sums of all blocks at once, from running sums; the last block of a resample is cut to the length of the series.
        running = np.concatenate([[0.0], np.cumsum(np.concatenate([series, series]))])
        whole = running[starts + block] - running[starts]
        rest = count - block * (pieces - 1)
        last = running[starts[:, -1] + rest] - running[starts[:, -1]]
        sums.append(whole[:, :-1].sum(axis=1) + last)
    return sums[0] / count if bottom is None else sums[0] / sums[1]


def block_length(series: np.ndarray) -> int:
    """Rows of a block for the circular bootstrap of a mean: 1 for what is not autocorrelated, at most a quarter of the series."""
    count = len(series)
    centred = series - series.mean()
    variance = float(centred @ centred) / count
    if count < 8 or variance <= 1e-12 * max(1.0, float(series.mean()) ** 2):
        return 1
    most = min(count - 1, int(math.ceil(math.sqrt(count))) + max(5, math.ceil(math.sqrt(math.log10(count)))))
    covariance = np.array([float(centred[: count - lag] @ centred[lag:]) / count for lag in range(most + 1)])
    correlation = covariance / covariance[0]
    # The first lag behind which this many in a row are no more than noise.
    quiet = max(5, math.ceil(math.sqrt(math.log10(count))))
    band = 2.0 * math.sqrt(math.log10(count) / count)
    last = next((lag for lag in range(most - quiet + 1) if (np.abs(correlation[lag + 1 : lag + 1 + quiet]) < band).all()), most // 2)
    lags = np.arange(-min(2 * last, most), min(2 * last, most) + 1)
    window = np.clip(2.0 * (1.0 - np.abs(lags) / max(2 * last, 1)), 0.0, 1.0)  # flat-top
    spectrum = float((window * covariance[np.abs(lags)]).sum())
    slope = float((window * np.abs(lags) * covariance[np.abs(lags)]).sum())
    if spectrum <= 0 or last == 0:
        return 1
    length = (2.0 * slope**2 / (4.0 / 3.0 * spectrum**2)) ** (1 / 3) * count ** (1 / 3)
    return int(min(max(1, round(length)), max(1, count // 4)))


# --- groups -----------------------------------------------------------------------------------------------------------


def _groups(left: Sequence[RunRecord], right: Sequence[RunRecord]) -> list[Difference]:
    unit = left[0].document["benchmark"].get("unit", "transactions")
    named = {name: (words.format(unit=unit), kind, more) for name, (words, kind, more) in METRICS.items() if name != "p95_ms"}
    named |= {name: (words, "", False) for name, (words, _) in RATIOS.items()} | {
        name: (words, "ms", False) for name, words in WHOLE.items()
    }
    found = []
    for name, (words, kind, more) in named.items():
        values = [[record.summary.get(name) for record in side] for side in (left, right)]
        if any(value is None for side in values for value in side):
            continue
        means = [sum(side) / len(side) for side in values]
        low = high = None
        if all(value > 0 for side in values for value in side):
            low, high = _welch(*values)
        how = f"{len(left)} and {len(right)} runs"
        found.append(_made(name if name not in WHOLE else f"run_{name}", words, kind, means, low, high, more, how))
    return found


def _welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """The interval of the ratio of (geometric) means, in percent of change."""
    from scipy import stats

    logs = [np.log(side) for side in (a, b)]
    parts = [log.var(ddof=1) / len(log) for log in logs]
    middle, error = logs[1].mean() - logs[0].mean(), math.sqrt(sum(parts))
    if error == 0:
        return (100.0 * math.expm1(middle),) * 2
    freedom = sum(parts) ** 2 / sum(part**2 / (len(log) - 1) for part, log in zip(parts, logs, strict=True))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return 100.0 * math.expm1(middle - reach), 100.0 * math.expm1(middle + reach)
