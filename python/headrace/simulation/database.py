"""Predicts the transactions a second of a database on a storage.

>>> import headrace
>>> shop = headrace.sysbench_tpcc(warehouses=1000, engine="innodb", cache_gib=25, threads=16)
>>> run = headrace.predict(shop, "gp2:1200", seconds=600, start="warm")
>>> run.rows.columns[:5]
['t_s', 'tps', 'p50_ms', 'p95_ms', 'p99_ms']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from headrace.base import core
from headrace.base.checks import Shown, check_choice, check_number, check_text, check_whole, quote_value
from headrace.base.core import translate_core_errors
from headrace.base.instances import check_fits_memory
from headrace.base.options import takes
from headrace.base.units import GIB, describe_span, normalise_day
from headrace.errors import InputError, Refusals
from headrace.simulation.settings import (
    DATABASE_SECONDS,
    EVENTS_SECONDS,
    MAX_SECONDS,
    MOST_TPS,
    MOST_VCPUS,
    PredictionSettings,
)
from headrace.simulation.settings import DRAWS as DRAWS
from headrace.workload.transactions import RESPONSES, TransactionWorkload
from headrace.workload.unexplained import Distances, compute_interval

refuse = Refusals("headrace predict --help")
# A second below this share of the median counts as a stall: a guess.
STALL_SHARE = 0.1
# Rows of the runs that give the interval, which needs no more: about as many in any length.
INTERVAL_ROWS = 360.0
# Above this share of the memory of an instance, a server lacks room for what it needs besides its
# cache (docs/decisions/0006 leaves a quarter).
TIGHT_SHARE = 0.9
COLUMNS = (
    "t_s",
    "tps",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "iops",
    "mib_s",
    "balance_percent",
    "instance_balance_percent",
    "cap",
    "dirty_share",
    "cached_share",
    "reads_per_tx",
    "backlog",
    "stopped_share",
)


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Shown):
    """The answer of `predict`.

    `rows`, one per second: `t_s` (start of the second, s), `tps`, `p50_ms`, `p95_ms`, `p99_ms`
    (response times), `iops` (in 256 KiB units), `mib_s`, `balance_percent` (lowest credit balance
    of a volume; null without credits), `instance_balance_percent`, `cap` (the bottleneck; `log-`
    before those of the log volumes), `dirty_share`, `cached_share` (0..1), `reads_per_tx`,
    `backlog` (transactions that wait, open loads), `stopped_share` (of the second, in which clients
    wait for a full redo log). `summary`: `tps` and its 5th, 50th and 95th
    percentile over the second half, `quarters`, `p50_ms`, `p95_ms`, `p99_ms` (medians of its
    seconds), `iops`, `mib_s`, `stalls_s` (seconds below a tenth of the median), `stalled_share` (of
    all seconds), `response_ms` (mean, p50, p95, p99 over the run; events
    only), `lowest_balance_percent`, `caps` (share of seconds), `tps_low` and `tps_high` (80 %
    interval of the mean of the second half, from the calibration), `relative_spread` (its standard
    deviation over the mean). `warnings`: where the prediction leaves the range of the runs.
    `workload`: the database that was run, grown. `distances`: how far the question lies from the
    runs. Two predictions are equal when they are one object.
    """

    rows: pl.DataFrame
    summary: dict
    warnings: tuple[str, ...]
    storage: str
    log_storage: str | None
    instance: str | None
    as_of: str
    cache_gib: float
    threads: int | None
    seed: int | None
    workload: TransactionWorkload | None = None
    distances: Distances = field(default_factory=Distances)

    def describe_briefly(self) -> str:
        """Returns the storage, length and tps of the second half; see `Shown`."""
        name = "" if self.workload is None else f"{self.workload.name} on "
        where = self.storage if self.instance is None else f"{self.storage} on {self.instance}"
        return f"{name}{where}, {describe_span(self.rows.height)}: {self.summary['tps']:,.4g} tps"

    def with_warnings(self, more: Iterable[str]) -> Prediction:
        """Returns the prediction with more warnings added."""
        return replace(self, warnings=(*self.warnings, *more))


@takes(PredictionSettings, "a prediction")
def predict(workload: TransactionWorkload, storage: str, settings: PredictionSettings) -> Prediction:
    """Runs the database second by second on a storage in the catalog's notation, under `settings`.

    Without an instance no instance limit is the bottleneck, and without virtual CPUs of the runs no
    processor is. With `form` "events" every I/O is simulated, so that response times have their
    true distribution, and `summary` has `response_ms`. Raises InputError.
    """
    if not isinstance(workload, TransactionWorkload):
        hint = "For example headrace.sysbench_tpcc(...), or what headrace.calibrate gives."
        raise InputError(quote_value(workload), "is not a database in transactions", "headrace.predict", hint)
    as_of, form, growth, draws = normalise_day(settings.as_of), settings.form, settings.growth, settings.draws
    start, release = "cold" if settings.start is None else settings.start, settings.release
    cache = workload.cache_gib if settings.cache_gib is None else settings.cache_gib
    clients = workload.threads if settings.threads is None else settings.threads
    usual_s = EVENTS_SECONDS if form == "events" else DATABASE_SECONDS
    check_choice("form", form, ("interval", "events"), refuse)
    run, host = make_run_settings(
        storage,
        log_storage=settings.log_storage,
        instance=settings.instance,
        vcpus=find_vcpus(workload, settings.instance, settings.vcpus),
        as_of=as_of,
        cache_gib=cache,
        clients=clients,
        arrivals_tps=settings.arrivals_tps,
        start=start,
        seconds=usual_s if settings.seconds is None else settings.seconds,
        seed=settings.seed,
        start_balance_percent=settings.start_balance_percent,
        growth=growth,
        draws=draws,
    )
    database = (workload.scale_data(growth) if growth != 1.0 else workload).on_release(release)
    rows, response_ms = _run(database, run, form, settings.progress)
    summary = summarise(rows)
    transactions = float(rows["tps"].sum()) if start == "cold" else None
    vcpus = run["vcpus"] or (None if host is None else host["vcpus"])
    warnings = database.describe_extrapolation(cache_gib=cache, threads=clients, transactions=transactions, vcpus=vcpus)
    warnings += check_cache(cache, host) + _warn_of_full_storage(database, storage)
    warnings += warn_of_bursts(rows, "A longer run (--seconds) or --start-balance 0 shows it.")
    summary["response_ms"] = response_ms
    distances = database.compute_distances(
        cache_gib=cache,
        transactions=count_transactions(start, rows),
        threads=run["clients"],
        storage=storage,
        limit=find_usual_cap(rows),
        release=release,
        tps=summary["tps"],
        core_speed=None if host is None else host["core_speed"],
        vcpus=vcpus,
    )
    summary |= _estimate_interval(database, run, distances, summary["tps"], draws)
    return Prediction(
        rows,
        summary,
        tuple(warnings),
        storage,
        settings.log_storage,
        settings.instance,
        as_of or core.newest_date(),
        cache,
        None if settings.arrivals_tps is not None else clients,
        settings.seed,
        database,
        distances,
    )


# Least percent of a full bucket that it loses in the second half of a run, and that is left, for a
# warning: less is the filling of a cache, not the load.
LEAST_FALL_PERCENT = 1.0


def warn_of_bursts(rows: pl.DataFrame, hint: str) -> list[str]:
    """Returns a warning for each bucket of credits that falls in the second half of a run and is
    not empty at its end. `hint`, a sentence on how to see it empty, is appended."""
    warnings = []
    half = rows.height // 2
    kinds = (
        ("balance_percent", "The volume's burst credits stand"),
        ("instance_balance_percent", "The instance's EBS burst stands"),
    )
    for name, words in kinds:
        levels = rows[name].drop_nulls().to_list()
        if len(levels) < rows.height or rows.height < 2:
            continue
        fall, last = levels[half] - levels[-1], levels[-1]
        if fall < LEAST_FALL_PERCENT or last < LEAST_FALL_PERCENT:
            continue
        lasts_s = last / (fall / (rows.height - 1 - half))
        warnings.append(
            f"{words} at {last:.0f} % when this run ends: at this rate nothing is left {describe_span(round(lasts_s))} later, "
            f"and the database slower from then on. {hint}"
        )
    return warnings


def find_vcpus(workload: TransactionWorkload, instance: str | None, vcpus: int | None) -> int | None:
    """Returns the virtual CPUs of a run: `vcpus` if given, None (the instance's) if the run or the
    measured server has an instance, else those of the measured server."""
    if vcpus is not None or instance is not None or workload.instance is not None:
        return vcpus
    return workload.server.vcpus


def make_run_settings(
    storage: str,
    *,
    log_storage: str | None,
    instance: str | None,
    vcpus: int | None,
    as_of: str | None,
    cache_gib: float,
    clients: int,
    arrivals_tps: float | Iterable[float] | None,
    start: str | float,
    seconds: int,
    seed: int | None,
    start_balance_percent: float | None,
    growth: float,
    draws: int,
) -> tuple[core.DatabaseRun, core.Instance | None]:
    """Returns a run as the core takes it, and the catalog's facts of its instance (None without).
    Raises InputError for a setting out of range, and for a cache beyond the instance's memory."""
    check_run_settings(seconds, cache_gib, clients, growth, draws, start_balance_percent, seed)
    if vcpus is not None:
        check_whole("vcpus", vcpus, 1, MOST_VCPUS)
    _check_texts(storage=storage, log_storage=log_storage, instance=instance, as_of=as_of)
    host = find_host(instance, as_of)
    check_cache(cache_gib, host)
    run: core.DatabaseRun = {
        "storage": storage,
        "log_storage": log_storage,
        "instance": instance,
        "vcpus": vcpus,
        "as_of": as_of,
        "cache_bytes": cache_gib * GIB,
        "clients": None if arrivals_tps is not None else clients,
        "arrivals": _list_arrivals(arrivals_tps),
        "start": _check_start(start),
        "seconds": seconds,
        "step_s": 1.0,
        "seed": seed,
        "start_balance_percent": start_balance_percent,
        "follow": None,
    }
    return run, host


def _run(
    workload: TransactionWorkload, run: core.DatabaseRun, form: str, progress: Callable[[float], None] | None
) -> tuple[pl.DataFrame, dict[str, float] | None]:
    """Runs the database and returns a row per second, and with the form "events" mean and
    percentiles of the response times of the run, ms (else None)."""
    response_ms = None
    with translate_core_errors():
        if form == "events":
            columns = core.mysql_clients(workload.database, run, progress)
            summary = columns["summary"]
            response_ms = {name: summary[f"{name}_ms"] for name in ("mean", "p50", "p95", "p99")}
        else:
            columns = core.mysql_runs(workload.database, [run])[0]
    frame = pl.DataFrame({name: column for name, column in columns.items() if name != "summary"})
    balances = pl.col("balance_percent", "instance_balance_percent").cast(pl.Float64)
    return frame.with_columns(pl.col("t_s") - 1.0, balances).select(COLUMNS), response_ms


def summarise(rows: pl.DataFrame) -> dict[str, Any]:
    """Returns the `summary` of a `Prediction` from rows with `tps`, and with other columns of a
    prediction if present. Response times are None if no transaction ends in the second half."""
    half = rows[rows.height // 2 :]
    quarter = max(1, rows.height // 4)
    quarters = [rows[i * quarter : (i + 1) * quarter if i < 3 else None] for i in range(4)]
    tps: Any = half["tps"]
    stalls = rows.filter(pl.col("tps") < STALL_SHARE * pl.col("tps").median()).height
    summary: dict[str, Any] = {
        "tps": float(tps.mean() or 0.0),
        "tps_p5": float(tps.quantile(0.05, "linear") or 0.0),
        "tps_p50": float(tps.quantile(0.5, "linear") or 0.0),
        "tps_p95": float(tps.quantile(0.95, "linear") or 0.0),
        "quarters": [_average_tps(part) for part in quarters],
        "stalls_s": stalls,
        "stalled_share": stalls / max(rows.height, 1),
    }
    for name in RESPONSES:
        if name in rows.columns:
            summary[name] = half[name].median() if summary["tps"] > 0 else None
    for name in ("iops", "mib_s"):
        if name in rows.columns:
            summary[name] = half[name].mean()
    if "balance_percent" in rows.columns:
        summary["lowest_balance_percent"] = rows["balance_percent"].min()
    if "cap" in rows.columns:
        counts = rows["cap"].value_counts().sort("count", descending=True)
        summary["caps"] = {cap: count / rows.height for cap, count in counts.iter_rows()}
    return summary


def _average_tps(rows: pl.DataFrame) -> float:
    return float(rows.select(pl.col("tps").mean()).item() or 0.0)


def find_host(instance: str | None, as_of: str | None) -> core.Instance | None:
    """Returns the catalog's facts of an instance; None without one. Raises InputError."""
    if instance is None:
        return None
    with translate_core_errors():
        return core.instance(instance, as_of)


def check_cache(cache_gib: float, host: core.Instance | None, option: str = "cache-gib") -> list[str]:
    """Returns a list with a warning if a cache leaves little of the instance's memory, else an
    empty list. Raises InputError, which names `option`, if the cache does not fit."""
    if host is None or not host["memory_mib"]:
        return []
    memory, name = host["memory_mib"] / 1024, host["instance_type"]
    room = math.floor(core.cache_gib_for(memory) * 100) / 100
    python = option.removeprefix("replica-").replace("-", "_")
    hint = (
        f"Say --{option} {room:g} ({python}={room:g} in Python), what {name} has room for, or name a larger instance."
    )
    check_fits_memory(f"cache of {cache_gib:,.4g} GiB", cache_gib, name, host["memory_mib"], hint)
    if cache_gib > TIGHT_SHARE * memory:
        remainder = f"leaves {memory - cache_gib:,.3g} of the {memory:,.4g} GiB of {name}"
        return [f"A cache of {cache_gib:,.4g} GiB {remainder}: the server would swap; {room:g} GiB have room."]
    return []


def _warn_of_full_storage(workload: TransactionWorkload, storage: str) -> list[str]:
    """Returns a list with a warning if the data do not fit the storage, else an empty list."""
    usable = core.parse_storage(storage)["usable_gib"]
    if workload.size_gib is None or workload.size_gib <= usable:
        return []
    return [
        f"{workload.size_gib:,.0f} GiB of data do not fit {storage}, which holds {usable:,} GiB: this run could not be."
    ]


def coarsen_run(run: core.DatabaseRun, series: bool = False) -> core.DatabaseRun:
    """Returns the run without scatter, in the INTERVAL_ROWS steps that an interval needs; arrivals
    that change every second, or another `series`, keep every second."""
    changing = series or (run["arrivals"] is not None and len(run["arrivals"]) > 1)
    step_s = run["step_s"] if changing else max(1.0, run["seconds"] / INTERVAL_ROWS)
    return {**run, "seed": None, "step_s": step_s}


def _estimate_interval(
    workload: TransactionWorkload,
    run: core.DatabaseRun,
    distances: Distances,
    tps: float,
    draws: int,
) -> dict[str, float | None]:
    """Returns the 80 % interval of the mean tps of the second half and its relative standard
    deviation, from databases drawn from the calibration and the error that no parameter covers;
    None for each without draws."""
    databases = workload.draw_databases(draws, 1)
    if not databases:
        return {"tps_low": None, "tps_high": None, "relative_spread": None}
    coarse = coarsen_run(run)

    def compute_log_tps(database: dict) -> float:
        values = core.mysql_runs(database, [coarse])[0]["tps"]
        half = values[len(values) // 2 :]
        return math.log(max(sum(half) / len(half), 1e-9))

    with translate_core_errors():
        logs = [compute_log_tps(database) for database in databases]
    centre = sum(logs) / len(logs)
    variance = sum((value - centre) ** 2 for value in logs) / max(1, len(logs) - 1)
    spread = math.sqrt(variance + workload.compute_unexplained(distances) ** 2)
    low, high = compute_interval(tps, spread)
    return {"tps_low": low, "tps_high": high, "relative_spread": spread}


def count_transactions(start: str | float, rows: pl.DataFrame) -> float | None:
    """Returns the transactions since a cold start at the end of a run; None for a run that began
    warm."""
    if start == "warm":
        return None
    seconds = rows["t_s"][1] - rows["t_s"][0] if rows.height > 1 else 1.0
    return (0.0 if isinstance(start, str) else float(start)) + float(rows["tps"].sum()) * seconds


def find_usual_cap(rows: pl.DataFrame) -> str:
    """Returns the bottleneck of most rows of the second half; of equal ones the first by name."""
    counts = rows[rows.height // 2 :]["cap"].value_counts().sort("count", "cap", descending=[True, False])
    return counts["cap"][0]


def _list_arrivals(arrivals_tps: float | Iterable[float] | None) -> list[float] | None:
    """Returns arrivals as a list of transactions a second; None for a closed load. Raises
    InputError."""
    if arrivals_tps is None:
        return None
    given = [arrivals_tps] if isinstance(arrivals_tps, (int, float)) else list(arrivals_tps)
    for value in given:
        check_number("arrivals-tps", value, 0.0, MOST_TPS)
    return [float(value) for value in given]


def _check_start(start: str | float) -> str | float:
    """Returns the start of a run: cold, warm, or transactions since a cold start. Raises
    InputError for any other."""
    if isinstance(start, str):
        if start in ("cold", "warm"):
            return start
        raise refuse.input(f"start = {start!r}", "must be cold, warm or transactions since a cold start")
    check_number("start", start, 0.0, 1e15)  # beyond every run: a guess
    return float(start)


def check_run_settings(
    seconds: int,
    cache_gib: float,
    threads: int | None,
    growth: float,
    draws: int,
    balance: float | None = None,
    seed: int | None = None,
) -> None:
    """Raises InputError for a setting of a run that is out of range; `balance` is in percent, and
    None stands for the default of each."""
    check_whole("seconds", seconds, 1, MAX_SECONDS)
    check_number("cache-gib", cache_gib, 0.001, 65_536)
    if threads is not None:
        check_whole("threads", threads, 1, 65_536)
    check_number("growth", growth, 0.001, 1000)
    check_whole("draws", draws, 0, 10_000)
    if balance is not None:
        check_number("start-balance", balance, 0.0, 100.0)
    if seed is not None:
        check_whole("seed", seed, 0, 2**63 - 1)


def _check_texts(**texts: str | None) -> None:
    """Raises InputError for a value that is not text, and for a storage of None."""
    for name, text in texts.items():
        if text is not None:
            check_text(name, text, refusals=refuse)
    if texts["storage"] is None:
        raise refuse.input("storage = None", "must be named, such as gp3:500")
