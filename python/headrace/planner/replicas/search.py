"""The cheapest replica whose lag stays below a bound with a probability.

Candidates are an instance (its cache), a data volume, and where the relay log lies; workers cost
nothing, so each candidate has the number of them that applies fastest. They are looked at in the
order of their price, so the first that holds is the cheapest of those listed; the ones before it
are shown with the lag that they come to.

The load is the same day after day, so a replica that lives on bursts has them spent: it is judged
with every bucket of its volumes and of its instance empty at the start. No bucket can then end
lower than it began, and what is left is what they refill with (the baseline). The source's day is
its first, bursts included: the most that it can send.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, TypedDict

from headrace.base import core
from headrace.base.checks import Shown, check_number, check_whole
from headrace.base.core import core_errors
from headrace.base.encoding import Document
from headrace.base.storage import parse_placement
from headrace.base.units import Day
from headrace.catalog.price_list import PriceList
from headrace.errors import InputError
from headrace.planner.candidates import OWN_SHARE, Host, check_exclude, hosts_named
from headrace.planner.database import LogRoom, log_room
from headrace.planner.settings import BINLOG_DAYS, FREE_PERCENT
from headrace.simulation.database import MAX_SECONDS
from headrace.simulation.replica import Replica, ReplicaPrediction, predict_replica
from headrace.workload.transactions import TransactionWorkload

SOURCE = "headrace plan --help"
# Numbers of workers that are tried, and steps of provisioned IOPS: each half as much again or twice
# the one before, to bound what is looked at (chosen).
WORKERS = (0, 4, 8, 16, 32, 64)
IOPS = (3_000, 4_500, 6_000, 9_000, 12_000, 16_000)
IO2_IOPS = (1_000, 2_000, 4_000, 8_000, 16_000)
# Throughput of a gp3 beyond the 125 MiB/s that come with it, where IOPS alone do not do (chosen).
MIB_S = (None, 250, 500, 1_000)
# A relay log's own volume: the smallest gp3 that holds an hour of it comfortably (chosen).
RELAY_GIB = 20
# Load looked at, h: a day, as in every plan of a database.
HOURS = 24.0
# Steps in which candidates are run, at most: two minutes of a day. Bursts of the source within a
# step are looked at second by second, of the one that is taken.
STEPS = 720
PROBABILITY, DRAWS = 0.8, 24
# Hosts beyond the first whose cache holds all data, up to this many times its price (chosen).
FURTHER_HOSTS = 4.0
# Candidates looked at with their doubt, once their mean holds (a bound on time).
MOST_DOUBTED = 40
# The scatter of the source's seconds: the one that `headrace predict` draws without --seed.
SEED = 1


@dataclass(frozen=True)
class ReplicaChoice(Document):
    """A replica that was looked at: what it costs a month, its lag, and how probably it holds
    (None: not looked at, because the mean does not)."""

    instance: str
    cache_gib: float
    storage: str
    relay_storage: str | None
    workers: int
    usd_month: float
    applier_tps: float
    peak_lag_s: float
    probability: float | None
    binding: str


@dataclass(frozen=True, eq=False, repr=False)
class ReplicaPlan(Shown):
    """The answer of `plan_replica`: `chosen` (None: no candidate holds), `looked_at` in the order
    of their price up to it, `prediction` of the chosen one, second by second with its buckets empty
    at the start. `hours` of load; `release` and `settings` that the replica is assumed to have;
    `needed_gib` on its data volume, of which `data_gib` are data and `logged` logs, the rest free
    (`free_percent`)."""

    chosen: ReplicaChoice | None
    looked_at: tuple[ReplicaChoice, ...]
    prediction: ReplicaPrediction | None
    lag_s: float
    probability: float
    source: str
    source_tps: float
    region: str
    as_of: str
    warnings: tuple[str, ...]
    hours: float
    release: str
    settings: core.ReplicaSettings
    needed_gib: int
    data_gib: float
    logged: LogRoom
    free_percent: float

    def in_short(self) -> str:
        """Returns the choice and its price; see `Shown`."""
        if self.chosen is None:
            return f"no replica of {len(self.looked_at)} keeps its lag below {self.lag_s:g} s"
        choice = self.chosen
        return f"{choice.instance}/{choice.storage}, {choice.workers} workers: {choice.usd_month:,.0f} USD a month"

    def to_dict(self) -> dict[str, object]:
        """Returns everything, for JSON."""
        return {
            "schema": "headrace-replica-plan/1",
            "goal": {"replica_lag_s": self.lag_s, "probability": self.probability},
            "source": self.source,
            "source_tps": self.source_tps,
            "region": self.region,
            "as_of": self.as_of,
            "hours": self.hours,
            "replica": {"version": self.release, **self.settings},
            "needed_gib": self.needed_gib,
            "data_gib": self.data_gib,
            "log_gib": self.logged.gib,
            "free_percent": self.free_percent,
            "chosen": None if self.chosen is None else self.chosen.to_dict(),
            "looked_at": [choice.to_dict() for choice in self.looked_at],
            "warnings": list(self.warnings),
        }


def plan_replica(
    workload: TransactionWorkload,
    *,
    lag_s: float,
    source: str | None = None,
    version: str | None = None,
    mode: str | None = None,
    sync_relay_log: int | None = None,
    log_bin: bool | None = None,
    instances: Sequence[str] | None = None,
    hosts: Sequence[Host] | None = None,
    arrivals_tps: float | None = None,
    threads: int | None = None,
    hours: float | None = None,
    size_gib: float | None = None,
    free_percent: float = FREE_PERCENT,
    binlog_days: float | None = None,
    exclude: Sequence[str] | str = (),
    cache_share: float = OWN_SHARE,
    probability: float = PROBABILITY,
    draws: int = DRAWS,
    region: str = "us-east-1",
    as_of: Day = None,
    pricing: Mapping[str, Any] | None = None,
    progress: Callable[[float], None] | None = None,
) -> ReplicaPlan:
    """Finds the cheapest replica whose lag stays at most `lag_s` over `hours` (24) of the source's
    load, with `probability`, when all its bursts are spent.

    `source`: where the source runs, `[INSTANCE/]STORAGE[,log=STORAGE]`; None: where it was
    measured. `version`: None: the source's, else mysql-8.4. `instances`: types or patterns; None:
    the source's type and its family. `hosts`: these instead, with their caches and prices.
    `size_gib` of data, None: the workload's; with the redo log and, if the replica writes one, the
    binary logs of `binlog_days` (1) they fill the data volume but for `free_percent`. `exclude`:
    volume types. `cache_share`: of an instance's memory. `pricing`: further arguments of
    `PriceList`. Raises InputError.
    """
    check_number("replica-lag-s", lag_s, 0.001, 86_400.0, "s")
    check_number("confidence", probability, 0.01, 0.99)
    check_whole("draws", draws, 1, 10_000)
    length = check_number("hours", HOURS if hours is None else hours, 0.1, MAX_SECONDS / 3_600, "h")
    check_number("free_percent", free_percent, 0.0, 90.0, "percent")
    days = check_number("binlog_days", BINLOG_DAYS if binlog_days is None else binlog_days, 0.0, 3_650.0, "days")
    place = parse_placement(_source_of(workload, source))
    prices = PriceList(region, as_of, **(pricing or {}))
    base = Replica(
        "gp3:8",
        version=version,
        mode=mode,
        sync_relay_log=sync_relay_log,
        log_bin=log_bin,
        start_balance_percent=0.0,
    ).as_behind(workload)
    settings = base.settings()
    given = _hosts(workload, instances, place.instance, prices, cache_share) if hosts is None else hosts
    run: _SourceRun = {
        "log_storage": None if place.log is None else place.log.text,
        "instance": place.instance,
        "threads": threads,
        "arrivals_tps": arrivals_tps,
        "as_of": prices.as_of,
        "seconds": round(length * 3_600),
        "drain_s": 0,
        "seed": SEED,
    }
    first = predict_replica(workload, place.data.text, replace(base, storage="gp3:500"), draws=0, **run)
    # The source is the same for all candidates: it is run once.
    tps: list[float] = first.rows["source_tps"].to_list()
    logged = log_room(workload.database, fmean(tps), days if settings["log_bin"] else 0.0)
    data_gib = float(_data_gib(workload, size_gib))
    needed = math.ceil(round((data_gib + logged.gib) / (1.0 - free_percent / 100.0), 6))
    judged = _Judge(workload, place.data.text, run, tps, lag_s, base, settings["mode"])
    candidates = _candidates(needed, given, prices, settings["sync_relay_log"] == 1, check_exclude(exclude))
    looked, chosen, prediction = _search(judged, candidates, prices.as_of, probability, draws, progress)
    return ReplicaPlan(
        chosen=chosen,
        looked_at=tuple(looked),
        prediction=prediction,
        lag_s=lag_s,
        probability=probability,
        source=str(place),
        source_tps=fmean(tps),
        region=region,
        as_of=prices.as_of,
        warnings=tuple(prediction.warnings if prediction is not None else first.warnings),
        hours=length,
        release=base.release,
        settings=settings,
        needed_gib=needed,
        data_gib=data_gib,
        logged=logged,
        free_percent=float(free_percent),
    )


class _SourceRun(TypedDict):
    """The arguments of `predict_replica` that say how the source runs, the same for all
    candidates."""

    log_storage: str | None
    instance: str | None
    threads: int | None
    arrivals_tps: float | None
    as_of: str
    seconds: int
    drain_s: int
    seed: int


def _search(
    judged: _Judge,
    candidates: Sequence[_Candidate],
    as_of: str,
    probability: float,
    draws: int,
    progress: Callable[[float], None] | None,
) -> tuple[list[ReplicaChoice], ReplicaChoice | None, ReplicaPrediction | None]:
    """Looks at candidates in the order of their price; returns them, the choice that holds, and its
    run."""
    looked: list[ReplicaChoice] = []
    failed, doubted = _Failed(as_of), 0
    for index, candidate in enumerate(candidates):
        if progress is not None:
            progress(index / len(candidates))
        if failed.cover(candidate):
            continue
        choice = judged.mean(candidate)
        if choice.peak_lag_s <= judged.lag_s and doubted < MOST_DOUBTED:
            doubted += 1
            choice = replace(choice, probability=judged.doubt(choice, draws))
        if choice.probability is not None and choice.probability >= probability:
            # Its doubt is of means over steps: every second has to hold, too.
            prediction = judged.seconds(choice, draws)
            choice = replace(
                choice, peak_lag_s=prediction.summary["peak_lag_s"], applier_tps=prediction.summary["applier_tps"]
            )
            if choice.peak_lag_s <= judged.lag_s:
                looked.append(choice)
                return looked, choice, prediction
        looked.append(choice)
        failed.note(candidate)
    return looked, None, None


# A host, its data volume, its relay log's volume, USD a month.
_Candidate = tuple[Host, str, str | None, float]


class _Failed:
    """Candidates that did not hold: no other on the same host and type of volume holds that gets
    as many I/Os and MiB a second, or fewer, of its volumes and of its instance."""

    def __init__(self, as_of: str) -> None:
        self.as_of = as_of
        self._by_kind: dict[tuple[str | None, float, str, str | None], list[tuple[float, float]]] = {}
        self._limits: dict[str, tuple[float, float]] = {}

    def cover(self, candidate: _Candidate) -> bool:
        """Says whether a candidate need not be looked at."""
        iops, bytes_s = self._sustained(candidate)
        return any(iops <= most and bytes_s <= more for most, more in self._by_kind.get(self._kind(candidate), ()))

    def note(self, candidate: _Candidate) -> None:
        """Remembers a candidate that does not hold."""
        self._by_kind.setdefault(self._kind(candidate), []).append(self._sustained(candidate))

    @staticmethod
    def _kind(candidate: _Candidate) -> tuple[str | None, float, str, str | None]:
        host, storage, relay, _ = candidate
        return host.name, host.cache_gib, storage.partition(":")[0], relay

    def _sustained(self, candidate: _Candidate) -> tuple[float, float]:
        """Returns the I/Os and bytes a second without any burst."""
        host, storage, relay, _ = candidate
        if storage not in self._limits:
            with core_errors():
                [limits] = core.storage_limits(storage, self.as_of)
            self._limits[storage] = (float(limits["iops"]), float(limits["throughput_bytes_s"]))
        iops, bytes_s = self._limits[storage]
        if host.instance is None or relay is not None:
            return iops, bytes_s
        return (
            min(iops, host.instance["baseline_iops"] or host.instance["max_iops"] or math.inf),
            min(bytes_s, host.instance["baseline_bytes_s"] or host.instance["max_bytes_s"] or math.inf),
        )


@dataclass(frozen=True)
class _Judge:
    """Runs candidates behind the same source, which does `tps` in each second."""

    workload: TransactionWorkload
    source: str
    run: _SourceRun
    tps: list[float]
    lag_s: float
    base: Replica
    mode: str

    def mean(self, candidate: _Candidate) -> ReplicaChoice:
        """Runs the candidate with the workers that apply fastest, by means over steps."""
        host, storage, relay, usd = candidate
        place = replace(
            self.base, storage=storage, relay_storage=relay, instance=host.name or "", cache_gib=host.cache_gib
        )
        tried = [self._by_steps(replace(place, workers=workers), 0) for workers in self._workers()]
        best = max(
            tried,
            key=lambda prediction: (prediction.summary["peak_lag_s"] <= self.lag_s, prediction.summary["applier_tps"]),
        )
        summary = best.summary
        return ReplicaChoice(
            host.name or "",
            host.cache_gib,
            storage,
            relay,
            best.replica.workers or 0,
            usd,
            summary["applier_tps"],
            summary["peak_lag_s"],
            None,
            summary["binding"],
        )

    def doubt(self, choice: ReplicaChoice, draws: int) -> float:
        """Returns the share of the databases and appliers drawn with which it holds."""
        drawn = self._by_steps(self._replica(choice), draws).summary["drawn"]
        lags = [] if drawn is None else drawn["peak_lag_s"]
        return sum(lag <= self.lag_s for lag in lags) / len(lags)

    def seconds(self, choice: ReplicaChoice, draws: int) -> ReplicaPrediction:
        """Runs a choice second by second; the doubt is that of means over steps."""
        prediction = self._predict(self._replica(choice), 0, self.tps)
        doubt = self._by_steps(self._replica(choice), draws).summary
        drawn = {name: value for name, value in doubt.items() if name in ("low", "high", "keeps_up", "drawn")}
        return replace(prediction, summary=prediction.summary | drawn)

    def _replica(self, choice: ReplicaChoice) -> Replica:
        return replace(
            self.base,
            storage=choice.storage,
            relay_storage=choice.relay_storage,
            instance=choice.instance,
            cache_gib=choice.cache_gib,
            workers=choice.workers,
        )

    def _workers(self) -> tuple[int, ...]:
        if self.base.workers is not None:
            return (self.base.workers,)
        return (0,) if self.mode == "single" else WORKERS

    def _by_steps(self, replica: Replica, draws: int) -> ReplicaPrediction:
        step = math.ceil(len(self.tps) / STEPS)
        means = [fmean(self.tps[at : at + step]) for at in range(0, len(self.tps), step)]
        return self._predict(replica, draws, means, float(step))

    def _predict(self, replica: Replica, draws: int, tps: Sequence[float], step_s: float = 1.0) -> ReplicaPrediction:
        return predict_replica(
            self.workload, self.source, replica, draws=draws, source_tps=tps, step_s=step_s, **self.run
        )


def _source_of(workload: TransactionWorkload, source: str | None) -> str:
    if source is not None:
        return source
    if workload.storage is None:
        rule = "is not known: this workload was not measured on a storage"
        raise InputError(
            "the source's storage", rule, SOURCE, "Say --compare [INSTANCE/]STORAGE, where the source runs."
        )
    place = workload.storage if workload.instance is None else f"{workload.instance}/{workload.storage}"
    return place if workload.log_storage is None else f"{place},log={workload.log_storage}"


def _data_gib(workload: TransactionWorkload, size_gib: float | None) -> float:
    """Returns the GiB of data that the replica holds. Raises InputError where nobody says."""
    size = workload.size_gib if size_gib is None else check_number("size_gib", size_gib, 0.001, 1e6, "GiB")
    if size is None:
        rule = "does not say how many GiB of data there are, so no volume can be sized"
        raise InputError(workload.name, rule, SOURCE, "Give --size-gib, or write size_gib into the workload file.")
    return size


def _hosts(
    workload: TransactionWorkload,
    instances: Sequence[str] | None,
    own: str | None,
    prices: PriceList,
    cache_share: float,
) -> list[Host]:
    """Lists the instances to look at: as named, or of the source's family, or of the families of
    today."""
    patterns = list(instances or [])
    if not patterns:
        name = own or workload.instance
        patterns = [f"{name.partition('.')[0]}.*"] if name else ["r7i.*", "m7i.*"]
    hosts, _ = hosts_named(patterns, prices, cache_share)
    # A cache beyond the data does no more; processors may.
    enough = [host for host in hosts if workload.size_gib is not None and host.cache_gib >= workload.size_gib]
    return [host for host in hosts if not enough or host.usd_month <= FURTHER_HOSTS * enough[0].usd_month]


def _candidates(
    gib: int, hosts: Sequence[Host], prices: PriceList, own_relay: bool, excluded: frozenset[str]
) -> list[_Candidate]:
    """Lists every candidate with at least `gib`, the cheapest first. A relay log's own volume is
    looked at where each event is flushed; otherwise it takes bytes alone off the data."""
    data = [f"gp2:{gib * times}" for times in (1, 2, 4)]
    for iops in IOPS:
        # A gp3 has at most 500 IOPS for each GiB, and a MiB/s for each 4 IOPS; an io2 1,000 IOPS.
        size = max(gib, math.ceil(iops / 500))
        data += [
            f"gp3:{size}:{iops}" + ("" if mib_s is None else f":{mib_s}") for mib_s in MIB_S if (mib_s or 0) <= iops / 4
        ]
    data += [f"io2:{max(gib, math.ceil(iops / 1_000))}:{iops}" for iops in IO2_IOPS]
    data = [text for text in data if text.partition(":")[0] not in excluded]
    relays = [None, f"gp3:{RELAY_GIB}", f"io2:{RELAY_GIB}:1000"] if own_relay else [None]
    texts = list(dict.fromkeys([*data, *(relay for relay in relays if relay is not None)]))
    usd = dict(zip(texts, prices.volume_totals(texts), strict=True))
    candidates = [
        (host, storage, relay, host.usd_month + usd[storage] + (0.0 if relay is None else usd[relay]))
        for host in hosts
        for storage in data
        for relay in relays
        if math.isfinite(usd[storage])
    ]
    return sorted(candidates, key=lambda candidate: (candidate[3], candidate[1]))
