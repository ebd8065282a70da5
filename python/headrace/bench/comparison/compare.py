"""Compares two runs, or two groups of runs: differences with their intervals (`statistics`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.base.packaged import read_text
from headrace.bench.comparison.statistics import Rows, compute_statistic, estimate_group_change, estimate_run_change
from headrace.bench.store.store import RunRecord
from headrace.bench.target import DOC
from headrace.errors import InputError

# Data sets whose sizes differ by no more than this share are alike (a guess: pages fill up).
DATA_SHARE = 0.05
# name: (words, unit, whether more is better; None: neither).
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
RUN_PERCENTILES = {
    "p50_ms": "p50 of the run",
    "p95_ms": "p95 of the run",
    "p99_ms": "p99 of the run",
    "p999_ms": "p99.9 of the run",
}
# Variables that differ from start to start, or say where a server lives.
NOT_SETTINGS = frozenset(read_text("headrace.bench.comparison", "not_settings.txt").split())


@dataclass(frozen=True)
class Difference:
    """A figure of both sides and its change: `change_percent` from a to b, with its 95 % interval
    (None without one). `verdict`: higher, lower, same (the interval includes 0) or "" (no
    interval). `better`: whether b is better, None if unknown. `how`: the method of the interval.
    """

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
class BenchComparison:
    """`a` and `b`: the runs.

    `unlike`: the differences in load, tool, machine or data (empty unless they were allowed).
    `differs`: the intended differences of storage and server: (name, value of a, value of b).
    `notes`: doubts that a reader must know.
    """

    a: tuple[RunRecord, ...]
    b: tuple[RunRecord, ...]
    differences: tuple[Difference, ...]
    unlike: tuple[str, ...]
    differs: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]


def compare(
    a: RunRecord | Sequence[RunRecord], b: RunRecord | Sequence[RunRecord], *, allow_unlike: bool = False
) -> BenchComparison:
    """Compares `b` with `a`, each a run or a group of repeated runs. Raises InputError for runs
    that are not alike (unless `allow_unlike`), for a run against a group, and for a run on both
    sides."""
    first_group, second_group = (tuple([side] if isinstance(side, RunRecord) else side) for side in (a, b))
    if not first_group or not second_group or (len(first_group) == 1) != (len(second_group) == 1):
        raise InputError(
            f"{len(first_group)} and {len(second_group)} runs",
            "one is compared with one, or two and more with two and more",
            f"{DOC}, Comparing",
            "Repeat the run that is alone.",
        )
    shared = {record.id for record in first_group} & {record.id for record in second_group}
    if shared:
        raise InputError(sorted(shared)[0], "is on both sides", f"{DOC}, Comparing", "Name two runs.")
    mismatches = list(
        dict.fromkeys(
            words for first in first_group for second in second_group for words in describe_differences(first, second)
        )
    )
    mismatches += [
        words
        for side in (first_group, second_group)
        for repetition in side[1:]
        for words in _compare_repetitions(side[0], repetition)
    ]
    mismatches = list(dict.fromkeys(mismatches))
    if mismatches and not allow_unlike:
        hint = "Compare runs of one load on one machine, or say --unlike."
        rule = "are not alike: " + "; ".join(mismatches[:4])
        raise InputError(f"{first_group[0].id} and {second_group[0].id}", rule, f"{DOC}, Comparing", hint)
    differences = (
        _compare_runs(first_group[0], second_group[0])
        if len(first_group) == 1
        else _compare_groups(first_group, second_group)
    )
    return BenchComparison(
        first_group,
        second_group,
        tuple(differences),
        tuple(mismatches),
        tuple(list_differences(first_group[0], second_group[0])),
        tuple(_list_notes(first_group, second_group)),
    )


# --- alike ---


# Keys of a run's document whose values must be alike: (part, key, words).
SHARED_KEYS = (
    ("load", "threads", "threads"),
    ("load", "seconds", "seconds"),
    ("load", "warmup_s", "seconds of warm-up"),
    ("environment", "cpu", "processor"),
    ("environment", "cpus", "processors"),
    ("environment", "memory_gib", "memory (GiB)"),
    ("environment", "kernel", "kernel"),
    ("environment", "host", "host"),
)


def describe_differences(a: RunRecord, b: RunRecord) -> list[str]:
    """Returns a text for each difference of two runs in load, tool, machine, data and end."""
    first, second = a.document, b.document
    mismatches = [f"{record.id} is {record.state}" for record in (a, b) if record.state != "complete"]
    options = [document["benchmark"]["options"] for document in (first, second)]
    tools = [f"{document['tool']['name']} {document['tool']['version']}" for document in (first, second)]
    pairs = [
        ("benchmark", first["benchmark"]["name"], second["benchmark"]["name"]),
        *((key, options[0].get(key), options[1].get(key)) for key in sorted(set(options[0]) | set(options[1]))),
        *((words, first[part].get(key), second[part].get(key)) for part, key, words in SHARED_KEYS[:3]),
        ("tool", *tools),
        ("start", first.get("start"), second.get("start")),
        *((words, first[part].get(key), second[part].get(key)) for part, key, words in SHARED_KEYS[3:]),
    ]
    mismatches += [
        f"{what} {_format_value(first_value)} and {_format_value(second_value)}"
        for what, first_value, second_value in pairs
        if first_value != second_value
    ]
    sizes = [document["target"].get("data_gib") for document in (first, second)]
    same_engine = first["target"].get("engine") == second["target"].get("engine")
    # Engines pack the same rows differently.
    if all(sizes) and same_engine and abs(sizes[0] - sizes[1]) > DATA_SHARE * max(sizes):
        mismatches.append(f"data of {sizes[0]:.3g} and {sizes[1]:.3g} GiB")
    return mismatches


def _compare_repetitions(first: RunRecord, repetition: RunRecord) -> list[str]:
    """Returns the differences between two runs of a group, which must repeat a configuration."""
    return [
        f"{what} {first_value} and {second_value} within one group"
        for what, first_value, second_value in list_differences(first, repetition)
    ]


def list_differences(a: RunRecord, b: RunRecord) -> list[tuple[str, str, str]]:
    """Returns the differences of storage and server: (name, value of a, value of b)."""
    # MariaDB adds -log to its version where a log is on.
    first, second = (
        {
            **record.document["target"],
            "version": re.sub(r"-log$", "", record.document["target"].get("version") or "") or None,
        }
        for record in (a, b)
    )
    keys = ("storage", "log_storage", "instance", "engine", "flavor", "version", "cache_gib")
    differences = [
        (key, _format_value(first.get(key)), _format_value(second.get(key)))
        for key in keys
        if first.get(key) != second.get(key)
    ]
    if first.get("flavor") == second.get("flavor") and first.get("version") == second.get("version"):
        first_config, second_config = a.document.get("config") or {}, b.document.get("config") or {}
        differences += [
            (key, _format_value(first_config.get(key)), _format_value(second_config.get(key)))
            for key in sorted(set(first_config) | set(second_config))
            if first_config.get(key) != second_config.get(key) and not _depends_on_place(key)
        ]
    return differences


def _depends_on_place(key: str) -> bool:
    """Returns whether a variable only describes the place where the server lives: paths, names, and
    sizes that follow performance_schema=ON."""
    return key in NOT_SETTINGS or key.startswith("performance_schema_") or key.endswith(("_home_dir", "_file_path"))


def _format_value(value: object) -> str:
    """Returns a value as text: "none" for None, numbers with four digits, texts cut to 60
    characters."""
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:60] or "empty"


def _list_notes(first_group: Sequence[RunRecord], second_group: Sequence[RunRecord]) -> list[str]:
    """Returns sentences: how far the intervals reach with one run a side, then the findings of
    every run after its id."""
    notes = []
    if len(first_group) == 1:
        notes.append(
            "Intervals cover what went up and down within these two runs, not what differs between repetitions: "
            "for that, repeat both and compare the groups."
        )
    for record in (*first_group, *second_group):
        notes += [f"{record.id}: {text}" for text in record.findings if not text.startswith("There is no RUN.toml")]
    return notes


# --- a run against a run ---


def _compare_runs(a: RunRecord, b: RunRecord) -> list[Difference]:
    """Returns the differences of two runs from their measured rows, with a bootstrap's interval
    where there are rows enough; latencies of whole runs (ms) have none."""
    parts = [record.read_series().filter(pl.col("phase") == "measure") for record in (a, b)]
    seed = int.from_bytes(hashlib.sha256(f"{a.id} {b.id}".encode()).digest()[:8], "big")
    unit = a.document["benchmark"].get("unit", "transactions")
    differences = []
    for name, (words, kind, more) in METRICS.items():
        columns = [part[name].drop_nulls().to_numpy() if name in part.columns else np.array([]) for part in parts]
        if all(len(column) for column in columns):
            rows: list[Rows] = [(column, None) for column in columns]
            differences.append(_estimate_difference(name, words.format(unit=unit), kind, more, rows, seed))
    for name, (words, column) in RATIOS.items():
        pairs = [part.select(column, "tps").drop_nulls() for part in parts if {column, "tps"} <= set(part.columns)]
        if len(pairs) == 2 and all((pair["tps"] > 0).any() for pair in pairs):
            sums: list[Rows] = [(pair[column].to_numpy(), pair["tps"].to_numpy()) for pair in pairs]
            differences.append(_estimate_difference(name, words, "", False, sums, seed))
    for name, words in RUN_PERCENTILES.items():
        values = _collect_figures((a, b), name)
        if len(values) == 2:
            differences.append(_judge_difference(f"run_{name}", words, "ms", values, None, None, "one number a run"))
    return differences


def _collect_figures(records: Sequence[RunRecord], name: str) -> list[float]:
    """Returns a figure of those summaries that contain it."""
    return [value for record in records if (value := record.summary.get(name)) is not None]


def _estimate_difference(
    name: str, words: str, unit: str, more: bool | None, rows: list[Rows], seed: int
) -> Difference:
    """Returns the difference of a mean, or of a ratio of sums, with its bootstrap interval; `more`:
    whether more is better, None where neither is."""
    interval = estimate_run_change(*rows, seed=seed)
    how = "too few rows for an interval" if interval is None else interval[2]
    return _judge_difference(
        name, words, unit, [compute_statistic(row_values) for row_values in rows], more, interval and interval[:2], how
    )


def _judge_difference(
    name: str,
    words: str,
    unit: str,
    values: Sequence[float],
    more: bool | None,
    interval: tuple[float, float] | None,
    how: str,
) -> Difference:
    """Returns a difference with its change in percent and a verdict: higher, lower, same, ""
    without an interval. `interval`: of the change, percent; `how`: how it was computed."""
    low, high = interval or (None, None)
    verdict = "" if low is None or high is None else "higher" if low > 0 else "lower" if high < 0 else "same"
    better = None if more is None or verdict in ("", "same") else (verdict == "higher") == more
    a, b = map(float, values)
    change = 100.0 * (b / a - 1.0) if a else None
    return Difference(name, words, unit, a, b, change, low, high, verdict, better, how)


# --- groups ---


def _compare_groups(first_group: Sequence[RunRecord], second_group: Sequence[RunRecord]) -> list[Difference]:
    """Returns the differences of two groups, for figures that every run has: means with the
    interval of Welch's t where all values are positive."""
    unit = first_group[0].document["benchmark"].get("unit", "transactions")
    metrics = {
        name: (words.format(unit=unit), kind, more) for name, (words, kind, more) in METRICS.items() if name != "p95_ms"
    }
    metrics |= {name: (words, "", False) for name, (words, _) in RATIOS.items()} | {
        name: (words, "ms", False) for name, words in RUN_PERCENTILES.items()
    }
    differences = []
    for name, (words, kind, more) in metrics.items():
        values = [_collect_figures(side, name) for side in (first_group, second_group)]
        if (len(values[0]), len(values[1])) != (len(first_group), len(second_group)):
            continue
        means = [sum(side) / len(side) for side in values]
        interval = estimate_group_change(*values) if all(value > 0 for side in values for value in side) else None
        how = f"{len(first_group)} and {len(second_group)} runs"
        differences.append(
            _judge_difference(
                name if name not in RUN_PERCENTILES else f"run_{name}", words, kind, means, more, interval, how
            )
        )
    return differences
