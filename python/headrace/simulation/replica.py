"""Predicts a replica of a database: the rate at which it applies, its lag, the cost of semi-sync.

>>> import headrace
>>> shop = headrace.sysbench_tpcc(warehouses=100, engine="innodb", cache_gib=8, threads=16)
>>> prediction = headrace.predict_replica(shop, "gp3:500:6000", headrace.Replica("gp3:500:3000"), seconds=60, draws=0)
>>> prediction.rows.columns[:4]
['t_s', 'source_tps', 'applied_tps', 'possible_tps']
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, TypedDict, cast, get_args

import polars as pl

from headrace.base import core
from headrace.base.checks import Shown, check_choice, check_number, check_whole, quote_value
from headrace.base.core import translate_core_errors
from headrace.base.releases import (
    NEWEST_PATCH,
    describe_newest,
    detect_flavor,
    exists,
    find_number,
    parse_version,
    split_release,
)
from headrace.base.units import GIB, Day, describe_span, normalise_day
from headrace.errors import InputError, Refusals
from headrace.simulation.database import DRAWS, check_cache, coarsen_run, find_host, find_vcpus, make_run_settings
from headrace.simulation.settings import MOST_SYNC, ReplicaMode
from headrace.workload.replica import get_replica_spread, make_applier
from headrace.workload.transactions import LEAST_CACHE_GIB, MOST_CACHE_GIB, TransactionWorkload
from headrace.workload.unexplained import Distances

if TYPE_CHECKING:
    # The core's types exist for a type checker alone.

    class WithoutBursts(TypedDict):
        """Rate and onset with every burst spent."""

        applier_tps: float
        onset_s: float | None

    class ReplicaDoubt(TypedDict):
        """The 80 % interval of DRAWN_FIGURES, their values in each draw (`drawn`), and the share of
        draws in which the replica keeps up."""

        low: dict[str, float | None] | None
        high: dict[str, float | None] | None
        keeps_up: float | None
        drawn: dict[str, list[float]] | None

    class ReplicaOutcome(core.ReplicaFigures, ReplicaDoubt):
        """The core's figures, their interval, and rate and onset without bursts."""

        shares: dict[str, float]
        if_halved: dict[str, float]
        without_bursts: WithoutBursts | None


refuse = Refusals("headrace predict --help")
MODES: tuple[str, ...] = get_args(ReplicaMode)
MODES_OF = {
    "mysql": ("single", "database", "logical-clock", "writeset"),
    "mariadb": ("single", "minimal", "conservative", "optimistic", "aggressive"),
}
WAIT_POINTS = ("after-sync", "after-commit")
# Largest innodb_flush_log_at_trx_commit (the servers' manuals, read 2026-11).
MOST_FLUSH = {"mysql": 2, "mariadb": 3}
# Longest large transaction and latest begin, s: the core's.
MOST_LARGE_S, LATEST_LARGE_S = 1e7, 1e9
# The version whose defaults hold where neither a version is named nor the source's is known: the
# long-term release of MySQL of 2024.
DEFAULT_VERSION = "mysql-8.4"
# Longest time that a run goes on after its load, s: a day.
MOST_DRAIN_S = 86_400
DRAIN_S = 3_600  # where nothing is said: an hour
# Processors where no instance is named: of so few MySQL makes one buffer pool instance.
UNKNOWN_VCPUS = 4
# A buffer pool that the server makes larger than it was set by more than this factor is noted.
ROUNDED = 1.01
# Bounds of the 80 % interval.
LOW, HIGH = 0.1, 0.9
# Figures of a replica's summary of which an interval is given.
DRAWN_FIGURES = ("applier_tps", "lag_at_load_end_s", "peak_lag_s", "catch_up_s", "source_tps")
COLUMNS = (
    "t_s",
    "source_tps",
    "applied_tps",
    "possible_tps",
    "backlog",
    "lag_s",
    "binding",
    "iops",
    "mib_s",
    "balance_percent",
    "reads_per_tx",
)
# Settings of the core in which a replica may differ from the defaults of its version.
SETTINGS = (
    "mode",
    "workers",
    "preserve_order",
    "log_bin",
    "flush_log_at_trx_commit",
    "sync_binlog",
    "sync_relay_log",
)


@dataclass(frozen=True)
class SemiSyncOptions:
    """Semi-synchronous replication: the round trip to each replica that acknowledges, ms; how many
    must; the timeout, ms (the servers' default is 10 s); where commits wait: after-sync or
    after-commit."""

    round_trips_ms: tuple[float, ...]
    acknowledgements: int = 1
    timeout_ms: float = 10_000.0
    wait_point: str = "after-sync"


@dataclass(frozen=True)
class Replica:
    """Settings of a replica. A setting of None is the version's default, or the source's
    (`cache_gib`, `instance`, `version`; `log_bin`: see `as_behind`).

    `storage`: the catalog's notation; `log_storage`, `relay_storage`: separate volumes for redo and
    binary log, and for the relay log. `version`: such as mysql-8.0.36 or mariadb-10.11; a series
    without a patch number is its newest release. `mode`: the rule by which transactions may be
    applied at once. `reads_per_tx`: transactions of reading clients per transaction applied.
    """

    storage: str
    log_storage: str | None = None
    relay_storage: str | None = None
    instance: str | None = None
    cache_gib: float | None = None
    version: str | None = None
    mode: str | None = None
    workers: int | None = None
    preserve_order: bool | None = None
    log_bin: bool | None = None
    flush_log_at_trx_commit: int | None = None
    sync_binlog: int | None = None
    sync_relay_log: int | None = None
    start: str = "warm"
    start_balance_percent: float | None = None
    reads_per_tx: float = 0.0

    @property
    def release(self) -> str:
        """Returns flavor and version number whose defaults hold, such as mysql-8.4."""
        flavor, version = self._split_version()
        return f"{flavor}-{find_number(version)}"

    @property
    def names_series(self) -> bool:
        """Returns whether a version is given without its patch number, as the name of a series."""
        parsed = parse_version(self._split_version()[1])
        return self.version is not None and parsed is not None and parsed[2] is None

    def _split_version(self) -> tuple[str, str]:
        """Returns flavor and version number of `version` (None: DEFAULT_VERSION), which may begin
        with a flavor; Percona Server counts as MySQL."""
        flavor, number = split_release(DEFAULT_VERSION if self.version is None else self.version)
        if flavor is None and not number.strip()[:1].isdigit():
            # An unknown server: `settings` refuses it by its name.
            flavor, _, number = number.strip().partition("-")
        flavor = detect_flavor(number) if flavor is None else flavor
        return "mysql" if flavor == "percona" else flavor, number

    def find_version(self) -> tuple[str, str]:
        """Returns the flavor and the version whose defaults hold; a series without a patch number
        gets the newest, where the core would take the first. Raises InputError."""
        flavor, number = self._split_version()
        check_choice("flavor", flavor, tuple(MODES_OF))
        what, parsed = f"replica version {quote_value(self.version)}", parse_version(number)
        if parsed is None:
            hint = "Write it as SELECT VERSION() does, for example mysql-8.0.36, or its series: mysql-8.4."
            raise refuse.input(what, "is not a version number", hint)
        major, minor, patch = parsed
        if not exists(flavor, major, minor):
            rule = "is not known here; known are MySQL 5.6 to 5.7, 8.0 to 8.4 and 9, MariaDB 10.0 to 10.11, 11.0 to 11.8 and 12"
            raise refuse.input(what, rule, "Give the nearest known version.")
        return flavor, f"{major}.{minor}.{NEWEST_PATCH if patch is None else patch}"

    def as_behind(self, workload: TransactionWorkload) -> Replica:
        """Returns the replica with defaults from its source: the source's version if it has none,
        and if the flavors are known to be the same, a binary log (log_bin, log_slave_updates), so
        that it can take over, as `headrace replica up` makes it."""
        source_release = workload.server.known_release
        replica = self if self.version is not None or source_release is None else replace(self, version=source_release)
        is_same_flavor = (
            source_release is not None and replica.release.partition("-")[0] == source_release.partition("-")[0]
        )
        return replace(replica, log_bin=True) if is_same_flavor and replica.log_bin is None else replica

    def make_settings(self) -> core.ReplicaSettings:
        """Returns the core's settings of the version with those that are given. Raises
        InputError."""
        flavor, version = self.find_version()
        with translate_core_errors():
            settings = core.replica_settings(flavor, version)
        if self.mode is not None:
            check_choice("replica mode", self.mode, MODES)
            if self.mode not in MODES_OF[flavor]:
                rule = f"is not a mode of {flavor}, which has {', '.join(MODES_OF[flavor])}"
                raise refuse.input(f"replica mode {self.mode}", rule, "Name the other flavour with the version.")
        if self.workers is not None:
            check_whole("workers", self.workers, 0, 1024)
        if self.flush_log_at_trx_commit is not None:
            level = self.flush_log_at_trx_commit
            check_whole(f"innodb_flush_log_at_trx_commit of {flavor}", level, 0, MOST_FLUSH[flavor], refuse)
        for name in ("sync_binlog", "sync_relay_log"):
            if (count := getattr(self, name)) is not None:
                check_whole(name, count, 0, MOST_SYNC, refuse)
        changed = {name: value for name in SETTINGS if (value := getattr(self, name)) is not None}
        return cast("core.ReplicaSettings", settings | changed)


@dataclass(frozen=True, eq=False, repr=False)
class ReplicaPrediction(Shown):
    """The answer of `predict_replica`.

    `rows`, one a second: `t_s` (start), `source_tps`, `applied_tps`, `possible_tps` (what the
    applier could do), `backlog` (transactions), `lag_s`, `binding` (what holds the applier back),
    `iops`, `mib_s` and `balance_percent` of the replica's volumes, `reads_per_tx`. `summary`: the
    core's figures (`applier_tps`, `onset_s`, `peak_lag_s`, `catch_up_s`, `shares`, `if_halved`,
    ...), `without_bursts` (`applier_tps` and `onset_s` with every burst spent; None where the run
    begins with a balance that was given), and `low`, `high`: the 80 % interval of some of them,
    `drawn` behind it, and `keeps_up`, the share of the databases drawn that the replica keeps up
    with. `warnings`: what to know. `source`: the source's run as the core takes it.
    """

    rows: pl.DataFrame
    summary: ReplicaOutcome
    warnings: tuple[str, ...]
    replica: Replica
    settings: core.ReplicaSettings
    source: core.DatabaseRun
    cache_gib: float
    as_of: str
    workload: TransactionWorkload

    def describe_briefly(self) -> str:
        """Returns the storage, rate and lag; see `Shown`."""
        summary = self.summary
        rate = f"applies {summary['applier_tps']:,.4g} tps of {summary['source_tps']:,.4g}"
        length = self.rows["t_s"][-1] + (self.rows["t_s"][1] - self.rows["t_s"][0] if self.rows.height > 1 else 1.0)
        return f"{self.replica.storage}, {describe_span(length)}: {rate}, at most {summary['peak_lag_s']:,.3g} s behind"


def predict_replica(
    workload: TransactionWorkload,
    storage: str,
    replica: Replica,
    *,
    log_storage: str | None = None,
    instance: str | None = None,
    vcpus: int | None = None,
    cache_gib: float | None = None,
    threads: int | None = None,
    arrivals_tps: float | Sequence[float] | None = None,
    as_of: Day = None,
    seconds: int = 600,
    start: str | float = "warm",
    start_balance_percent: float | None = None,
    growth: float = 1.0,
    semi_sync: SemiSyncOptions | None = None,
    large: Sequence[tuple[float, float, float]] = (),
    drain_s: int = DRAIN_S,
    source_tps: Sequence[float] | None = None,
    received: bool = False,
    step_s: float = 1.0,
    seed: int | None = 1,
    draws: int = DRAWS,
) -> ReplicaPrediction:
    """Runs the source for `seconds` and its replica until it has caught up, at most `drain_s`
    longer.

    The source's arguments are those of `predict`. `semi_sync`: commits wait for acknowledgements.
    `large`: transactions that nothing passes, each (begin, length on the source, length on the
    replica) in s; they begin within the load and commit before the run ends. `source_tps`: the
    source's transactions a second as measured, instead of its run; `received`: the relay log has
    all of them from the start. `step_s`: seconds that a row stands for, and each figure of
    `source_tps`. `draws`: databases and appliers drawn from their covariances for the interval.
    Raises InputError.
    """
    if not isinstance(workload, TransactionWorkload):
        raise InputError(quote_value(workload), "is not a database in transactions", "headrace.predict_replica")
    cache = workload.cache_gib if cache_gib is None else cache_gib
    check_whole("drain", drain_s, 0, MOST_DRAIN_S)
    source, host = make_run_settings(
        storage,
        log_storage=log_storage,
        instance=instance,
        vcpus=find_vcpus(workload, instance, vcpus),
        as_of=normalise_day(as_of),
        cache_gib=cache,
        clients=workload.threads if threads is None else threads,
        arrivals_tps=arrivals_tps,
        start=start,
        seconds=seconds,
        seed=seed,
        start_balance_percent=start_balance_percent,
        growth=growth,
        draws=draws,
    )
    source["step_s"] = check_number("step", step_s, 1.0, 3_600.0, "s")
    load_s = seconds if source_tps is None else len(source_tps) * source["step_s"]
    grown = workload.scale_data(growth) if growth != 1.0 else workload
    replica = replica.as_behind(workload)
    settings = replica.make_settings()
    replica_cache, cache_warnings = _compute_replica_cache(replica, cache, instance, source["as_of"], grown.engine)
    run: core.ReplicaRun = {
        **_make_core_replica(replica, settings, replica_cache, instance),
        "semi_sync": _make_semi_sync(semi_sync, replica.release),
        "large": [_check_large(transaction, load_s, drain_s) for transaction in large],
        "drain_s": drain_s,
        "source_tps": None if source_tps is None else [float(rate) for rate in source_tps],
        "received": received,
    }
    with translate_core_errors():
        answer = core.replica_run(grown.database, source, {**run, "applier": make_applier(grown)})
    figures = answer["summary"]
    summary: ReplicaOutcome = {
        **figures,
        "shares": dict(figures["shares"]),
        "if_halved": dict(figures["if_halved"]),
        **draw_doubts(grown, source, [run], [figures["usual_binding"]], draws)[0],
        "without_bursts": _run_without_bursts(grown, source, run, answer["source_tps"], round(figures["load_s"])),
    }
    columns = {name: column for name, column in answer.items() if name != "summary"}
    rows = pl.DataFrame(columns).with_columns(
        pl.col("t_s") - source["step_s"], pl.col("balance_percent").cast(pl.Float64)
    )
    return ReplicaPrediction(
        rows.select(COLUMNS),
        summary,
        (*_list_warnings(grown, replica, settings, summary), *check_cache(cache, host), *cache_warnings),
        replica,
        settings,
        source,
        replica_cache,
        source["as_of"] or core.newest_date(),
        grown,
    )


@dataclass(frozen=True, eq=False)
class SourceLoad:
    """The load of a source of which many replicas are predicted: the database, the source's run as
    the core takes it, and its transactions a second in each step of the run (`tps`)."""

    workload: TransactionWorkload
    source: core.DatabaseRun
    tps: Sequence[float]

    def coarsen(self, most: int) -> SourceLoad:
        """Returns the same load in at most `most` steps, each with its mean."""
        per = math.ceil(len(self.tps) / most)
        means = [fmean(self.tps[at : at + per]) for at in range(0, len(self.tps), per)]
        return SourceLoad(self.workload, {**self.source, "step_s": self.source["step_s"] * per}, means)

    def summarize(self, replicas: Sequence[Replica]) -> list[core.ReplicaSummary]:
        """Runs each replica until the load ends and returns its summary. Raises InputError."""
        applier = make_applier(self.workload)
        with translate_core_errors():
            return core.replica_summaries(
                [self.workload.database],
                self.source,
                [(0, {**self._make_run(replica), "applier": applier}) for replica in replicas],
            )

    def draw(
        self, replicas: Sequence[Replica], summaries: Sequence[core.ReplicaSummary], draws: int
    ) -> list[ReplicaDoubt]:
        """Returns the interval of each replica's figures from `draws` draws; `summaries` are those
        of `summarize`. Raises InputError."""
        runs = [self._make_run(replica) for replica in replicas]
        bindings = [summary["usual_binding"] for summary in summaries]
        return draw_doubts(self.workload, self.source, runs, bindings, draws)

    def _make_run(self, replica: Replica) -> core.ReplicaRun:
        cache_gib, instance = self.source["cache_bytes"] / GIB, self.source["instance"]
        replica_cache, _ = _compute_replica_cache(
            replica, cache_gib, instance, self.source["as_of"], self.workload.engine
        )
        return {
            **_make_core_replica(replica, replica.make_settings(), replica_cache, instance),
            "source_tps": list(self.tps),
        }


def _compute_replica_cache(
    replica: Replica, cache_gib: float, instance: str | None, as_of: str | None, engine: str
) -> tuple[float, list[str]]:
    """Returns the replica's cache, GiB, rounded up as its server does, and warnings on it. Raises
    InputError if it does not fit the memory of its instance."""
    given = cache_gib if replica.cache_gib is None else replica.cache_gib
    cache = check_number("replica-cache-gib", given, LEAST_CACHE_GIB, MOST_CACHE_GIB, "GiB")
    if replica.instance is None and replica.cache_gib is None:
        return cache, []  # as the source's, which has been checked
    host = find_host(instance if replica.instance is None else replica.instance, as_of)
    warnings = check_cache(cache, host, "replica-cache-gib")
    if replica.cache_gib is None or engine != "innodb":
        return cache, warnings
    pool_gib = (
        core.innodb_pool_bytes(*replica.find_version(), cache * GIB, UNKNOWN_VCPUS if host is None else host["vcpus"])
        / GIB
    )
    if pool_gib > ROUNDED * cache:
        rule = "its server rounds it up to whole chunks of 128 MiB"
        warnings = [f"a buffer pool of {cache:.4g} GiB becomes {pool_gib:.4g} GiB: {rule}", *warnings]
    return pool_gib, warnings


def _check_large(transaction: tuple[float, float, float], load_s: float, drain_s: float) -> tuple[float, float, float]:
    """Returns a large transaction as floats. Raises InputError for times out of range, and if it
    begins after the load of `load_s` or commits after `drain_s` more."""
    at_s, source_s, replica_s = transaction
    what = f"large {at_s:.10g}:{source_s:.10g}:{replica_s:.10g}"
    check_number(f"{what}, begin", at_s, 0.0, LATEST_LARGE_S, "s", refuse)
    check_number(f"{what}, length on the source", source_s, 0.0, MOST_LARGE_S, "s", refuse)
    check_number(f"{what}, length on the replica", replica_s, 0.0, MOST_LARGE_S, "s", refuse)
    if at_s >= load_s:
        rule = f"begins at {at_s:,.10g} s, when the load of {load_s:,.10g} s has ended"
        raise refuse.input(what, rule, "Let it begin earlier, or the load be longer (--seconds).")
    if at_s + source_s > load_s + drain_s:
        rule = f"commits at {at_s + source_s:,.10g} s, and the replica is followed for {load_s + drain_s:,.10g} s"
        raise refuse.input(what, rule, "Follow it for longer (--drain), or let it begin earlier.")
    return float(at_s), float(source_s), float(replica_s)


def _make_core_replica(
    replica: Replica, settings: core.ReplicaSettings, replica_cache_gib: float, instance: str | None
) -> core.ReplicaRun:
    """Returns the replica as the core takes it, without a load. `replica_cache_gib`: its cache,
    GiB. Raises InputError."""
    check_choice("replica start", replica.start, ("cold", "warm"))
    if replica.start_balance_percent is not None:
        check_number("replica start-balance", replica.start_balance_percent, 0.0, 100.0)
    return {
        "storage": replica.storage,
        "log_storage": replica.log_storage,
        "relay_storage": replica.relay_storage,
        "instance": instance if replica.instance is None else replica.instance,
        "cache_bytes": replica_cache_gib * GIB,
        "start": replica.start,
        "start_balance_percent": replica.start_balance_percent,
        "reads_per_tx": check_number("replica-reads", replica.reads_per_tx, 0.0, 1e4),
        "settings": settings,
        "semi_sync": None,
        "large": [],
        "drain_s": 0,
        "source_tps": None,
        "received": False,
    }


# Most steps of the run without bursts, which gives a rate, not a chart.
STEPS_WITHOUT_BURSTS = 360


def _run_without_bursts(
    workload: TransactionWorkload, source: core.DatabaseRun, run: core.ReplicaRun, tps: Sequence[float], load_s: int
) -> WithoutBursts | None:
    """Returns rate and onset of a replica whose volumes have no credits and whose instance no EBS
    burst; None if the balance at the start of the run is given."""
    if run["start_balance_percent"] is not None:
        return None
    load = list(tps)[: max(1, round(load_s / source["step_s"]))]
    steps = SourceLoad(workload, {**source, "seed": None}, load).coarsen(STEPS_WITHOUT_BURSTS)
    spent = {"start_balance_percent": 0.0, "source_tps": steps.tps, "drain_s": 0, "applier": make_applier(workload)}
    with translate_core_errors():
        [summary] = core.replica_summaries([workload.database], steps.source, [(0, {**run, **spent})])
    return {"applier_tps": summary["applier_tps"], "onset_s": summary["onset_s"]}


def _make_semi_sync(options: SemiSyncOptions | None, version: str) -> core.SemiSync | None:
    """Returns semi-sync as the core takes it for a server of `version` (such as mysql-8.4); None
    without options. Raises InputError."""
    if options is None:
        return None
    trips = [check_number("semi-sync", trip, 0.0, 60_000.0, "ms") for trip in options.round_trips_ms]
    acknowledgements = check_whole("acknowledgements", options.acknowledgements, 1, 65_535)
    timeout = check_number("semi-sync timeout", options.timeout_ms, 1.0, 4_294_967_295.0, "ms")
    check_choice("wait point", options.wait_point, WAIT_POINTS)
    return {
        "round_trips_ms": trips,
        "acknowledgements": acknowledgements,
        "timeout_ms": timeout,
        "wait_point": options.wait_point,
        "groups_merge": not version.startswith("mariadb"),
    }


# Limits that hold an applier back and are not storage: its own processor time, and transactions
# that it may not apply at once.
SERVER_BINDINGS = ("processor", "cores", "dependencies", "workers", "large-transaction")


def _measure_distances(
    workload: TransactionWorkload, run: core.ReplicaRun, as_of: str | None, binding: str
) -> Distances:
    """Returns the distances of a replica's prediction from the runs of its source; `binding` is the
    limit of the applier most of the time."""
    host = find_host(run["instance"], as_of)
    return workload.compute_distances(
        cache_gib=run["cache_bytes"] / GIB,
        # None counts as in the runs: the warm-up of a cold replica is not judged, workers are not
        # clients, and the settings have the differences between versions.
        transactions=None,
        threads=None,
        tps=None,
        release=None,
        storage=run["storage"],
        limit="demand" if binding in ("none", "receive") else "cpu" if binding in SERVER_BINDINGS else "storage",
        core_speed=None if host is None else host["core_speed"],
        vcpus=None if host is None else host["vcpus"],
    )


def draw_doubts(
    workload: TransactionWorkload,
    source: core.DatabaseRun,
    runs: Sequence[core.ReplicaRun],
    bindings: Sequence[str],
    draws: int,
) -> list[ReplicaDoubt]:
    """Returns for each replica the 80 % interval of DRAWN_FIGURES, from databases and appliers
    drawn from their spreads, the same for all replicas, and the error that no parameter covers.
    `bindings` has the usual limit of each applier."""
    if draws == 0 or not runs:
        return [{"low": None, "high": None, "keeps_up": None, "drawn": None} for _ in runs]
    import numpy as np  # a tenth of a second that no other command should pay

    chance = np.random.default_rng(1)
    spread = get_replica_spread(workload)
    databases = workload.draw_databases(draws, 1) or [workload.database] * draws
    coarse = coarsen_run(source, series=runs[0]["source_tps"] is not None)
    widths = [
        workload.compute_unexplained(_measure_distances(workload, run, source["as_of"], binding))
        for run, binding in zip(runs, bindings, strict=True)
    ]
    drawn_runs: list[tuple[int, dict[str, object]]] = []
    for index, database in enumerate(databases):
        drawn_workload = replace(workload, database=database)
        # Three standard deviations at most, so that tails without evidence decide nothing.
        deltas = {name: spread[name] * float(np.clip(chance.standard_normal(), -3.0, 3.0)) for name in spread}
        unexplained = float(chance.standard_normal())
        for run, width in zip(runs, widths, strict=True):
            widened = {name: deltas[name] + width * unexplained for name in ("cpu_ms", "flush_factor")}
            drawn_runs.append((index, {**run, "applier": make_applier(drawn_workload, deltas | widened)}))
    with translate_core_errors():
        summaries = core.replica_summaries(databases, coarse, drawn_runs)
    return [_compute_doubt(summaries[index :: len(runs)]) for index in range(len(runs))]


def _compute_doubt(summaries: Sequence[core.ReplicaSummary]) -> ReplicaDoubt:
    """Returns the interval of a replica's figures from its summaries, one per draw."""
    figures = [cast("dict[str, float | None]", summary) for summary in summaries]
    drawn = {
        name: [math.inf if (value := summary[name]) is None else value for summary in figures] for name in DRAWN_FIGURES
    }
    return {
        "low": {name: _quantile(values, LOW) for name, values in drawn.items()},
        "high": {name: _quantile(values, HIGH) for name, values in drawn.items()},
        "keeps_up": sum(summary["onset_s"] is None for summary in summaries) / len(summaries),
        "drawn": drawn,
    }


def _quantile(values: list[float], share: float) -> float | None:
    """Returns a quantile (`share`, 0 to 1) of values; None where it is beyond the run."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    value = low if low == high else low + (high - low) * (place - math.floor(place))
    return value if math.isfinite(value) else None


def _list_warnings(
    workload: TransactionWorkload, replica: Replica, settings: core.ReplicaSettings, summary: ReplicaOutcome
) -> list[str]:
    """Returns warnings on the assumptions and results of a replica's prediction, in sentences."""
    warnings = []
    if workload.replica is None or not workload.replica.values:
        warnings.append(
            "No replica of this database was measured: the applier's costs are derived from the source's run, "
            "and its processor time may be half or twice as much."
        )
    if replica.version is None:
        warnings.append(
            f"The version of the source is not known: the replica is taken for a {DEFAULT_VERSION} with its defaults. "
            "Name it (--replica-version)."
        )
    if replica.names_series:
        warnings.append(f"{describe_newest(replica.release)}.")
    spent = summary["without_bursts"]
    if spent is not None and summary["onset_s"] is None and spent["onset_s"] is not None:
        warnings.append(
            f"It keeps up on bursts, which outlast the {describe_span(round(summary['load_s']))} of this load: with credits "
            f"and the instance's EBS burst spent it applies {spent['applier_tps']:,.4g} tps of {summary['source_tps']:,.4g}, "
            "and falls behind. A day (--seconds 86400) shows when."
        )
    semi_sync = summary["semi_sync"]
    if semi_sync is not None and settings["sync_relay_log"] != 1:
        warnings.append(
            f"Semi-sync with sync_relay_log = {settings['sync_relay_log']:,}: an acknowledged transaction is in the replica's "
            "memory, not on its disk. If both hosts lose power it is gone; sync_relay_log = 1 prevents that."
        )
    if semi_sync is not None and semi_sync["times_out"]:
        warnings.append(
            f"A commit would wait {semi_sync['added_ms']:,.4g} ms, longer than the timeout: the source goes on without semi-sync."
        )
    if settings["mode"] != "single" and (settings["workers"] or 0) <= 1 and summary["onset_s"] is not None:
        warnings.append(f"{replica.release} applies with one thread here: workers = {settings['workers']}.")
    return warnings
