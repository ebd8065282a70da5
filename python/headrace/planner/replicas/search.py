"""The cheapest replica whose lag stays below a bound with a probability.

Candidates are an instance (its cache), a data volume, and where the relay log lies; workers cost
nothing, so each candidate has the number of them that applies fastest. They are looked at in the
order of their price, so the first that holds is the cheapest of those listed; the ones before it
are shown with the lag that they come to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.base.checks import Shown, check_number, check_whole
from headrace.base.storage import parse_placement
from headrace.base.units import Day
from headrace.catalog.price_list import PriceList
from headrace.errors import InputError
from headrace.planner.candidates import OWN_SHARE, Host, hosts_named
from headrace.simulation.replica import Replica, ReplicaPrediction, predict_replica
from headrace.workload.transactions import TransactionWorkload

SOURCE = "headrace plan --help"
# Numbers of workers that are tried, and steps of provisioned IOPS: each half as much again or twice
# the one before, to bound what is looked at (chosen).
WORKERS = (0, 4, 8, 16, 32, 64)
IOPS = (3_000, 4_500, 6_000, 9_000, 12_000, 16_000)
IO2_IOPS = (1_000, 2_000, 4_000, 8_000, 16_000)
# Throughput of a gp3 beyond the 125 MiB/s that come with it, where IOPS alone do not do (chosen).
MIB_S = (None, 250, 500)
# A relay log's own volume: the smallest gp3 that holds an hour of it comfortably (chosen).
RELAY_GIB = 20
# Room next to the data, as every plan leaves.
FREE_PERCENT = 25.0
# Load looked at, s: an hour, in which credits of small volumes run dry and lag adds up.
LOAD_S = 3_600
PROBABILITY, DRAWS = 0.8, 24
# Hosts beyond the first whose cache holds all data, up to this many times its price (chosen).
FURTHER_HOSTS = 4.0
# Candidates looked at with their doubt, once their mean holds (a bound on time).
MOST_DOUBTED = 40


@dataclass(frozen=True)
class ReplicaChoice:
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

    def to_dict(self) -> dict[str, Any]:
        """For JSON and tables."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False, repr=False)
class ReplicaPlan(Shown):
    """The answer of `plan_replica`: `chosen` (None: no candidate holds), `looked_at` in the order
    of their price up to it, `prediction` of the chosen one."""

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

    def in_short(self) -> str:
        """The choice and its price; see `Shown`."""
        if self.chosen is None:
            return f"no replica of {len(self.looked_at)} keeps its lag below {self.lag_s:g} s"
        one = self.chosen
        return f"{one.instance}/{one.storage}, {one.workers} workers: {one.usd_month:,.0f} USD a month"

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "schema": "headrace-replica-plan/1",
            "goal": {"replica_lag_s": self.lag_s, "probability": self.probability},
            "source": self.source,
            "source_tps": self.source_tps,
            "region": self.region,
            "as_of": self.as_of,
            "chosen": None if self.chosen is None else self.chosen.to_dict(),
            "looked_at": [one.to_dict() for one in self.looked_at],
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
    probability: float = PROBABILITY,
    draws: int = DRAWS,
    region: str = "us-east-1",
    as_of: Day = None,
    progress: Callable[[float], None] | None = None,
) -> ReplicaPlan:
    """Finds the cheapest replica whose lag stays at most `lag_s` over an hour of the source's load,
    with `probability`.

    `source`: where the source runs, `[INSTANCE/]STORAGE[,log=STORAGE]`; None: where it was
    measured. `instances`: types or patterns; None: the source's type and its family.
    `hosts`: these instead, with their caches and prices. Raises InputError.
    """
    check_number("replica-lag-s", lag_s, 0.001, 86_400.0, "s")
    check_number("confidence", probability, 0.01, 0.99)
    check_whole("draws", draws, 1, 10_000)
    place = parse_placement(_source_of(workload, source))
    prices = PriceList(region, as_of)
    base = Replica(
        "gp3:8", version=version or Replica("gp3:8").version, mode=mode, sync_relay_log=sync_relay_log, log_bin=log_bin
    )
    settings = base.settings()
    given = _hosts(workload, instances, place.instance, prices) if hosts is None else hosts
    run: dict[str, Any] = {
        "log_storage": None if place.log is None else place.log.text,
        "instance": place.instance,
        "threads": threads,
        "arrivals_tps": arrivals_tps,
        "as_of": prices.as_of,
        "seconds": LOAD_S,
        "drain_s": 0,
        "seed": None,
    }
    first = predict_replica(workload, place.data.text, replace(base, storage="gp3:500"), draws=0, **run)
    # The source is the same for all candidates: it is run once.
    tps = first.rows["source_tps"].to_list()
    judged = _Judge(workload, place.data.text, run | {"source_tps": tps}, lag_s, base, settings["mode"])
    candidates = _candidates(workload, given, prices, settings["sync_relay_log"] == 1)
    looked, chosen, found, doubted = [], None, None, 0
    for index, candidate in enumerate(candidates):
        if progress is not None:
            progress(index / len(candidates))
        one, told = judged.mean(candidate)
        if one.peak_lag_s <= lag_s and doubted < MOST_DOUBTED:
            doubted += 1
            share, told = judged.doubt(one, draws)
            one = replace(one, probability=share)
        looked.append(one)
        if one.probability is not None and one.probability >= probability:
            chosen, found = one, told
            break
    warnings = list(found.warnings if found is not None else first.warnings)
    return ReplicaPlan(
        chosen,
        tuple(looked),
        found,
        lag_s,
        probability,
        str(place),
        sum(tps) / len(tps),
        region,
        prices.as_of,
        tuple(warnings),
    )


# A host, its data volume, its relay log's volume, USD a month.
_Candidate = tuple[Host, str, str | None, float]


@dataclass(frozen=True)
class _Judge:
    """Runs candidates behind the same source."""

    workload: TransactionWorkload
    source: str
    run: dict[str, Any]
    lag_s: float
    base: Replica
    mode: str

    def mean(self, candidate: _Candidate) -> tuple[ReplicaChoice, ReplicaPrediction]:
        """The candidate with the workers that apply fastest."""
        host, storage, relay, usd = candidate
        place = replace(
            self.base, storage=storage, relay_storage=relay, instance=host.name or "", cache_gib=host.cache_gib
        )
        tried = [self._predict(replace(place, workers=workers), 0) for workers in self._workers()]
        best = max(tried, key=lambda found: (found.summary["peak_lag_s"] <= self.lag_s, found.summary["applier_tps"]))
        told = best.summary
        workers = best.replica.workers or 0
        choice = ReplicaChoice(
            host.name or "",
            host.cache_gib,
            storage,
            relay,
            workers,
            usd,
            told["applier_tps"],
            told["peak_lag_s"],
            None,
            told["binding"],
        )
        return choice, best

    def doubt(self, one: ReplicaChoice, draws: int) -> tuple[float, ReplicaPrediction]:
        """The share of the databases and appliers drawn with which it holds."""
        replica = replace(
            self.base,
            storage=one.storage,
            relay_storage=one.relay_storage,
            instance=one.instance,
            cache_gib=one.cache_gib,
            workers=one.workers,
        )
        found = self._predict(replica, draws)
        lags = found.summary["drawn"]["peak_lag_s"]
        return sum(lag <= self.lag_s for lag in lags) / len(lags), found

    def _workers(self) -> tuple[int, ...]:
        if self.base.workers is not None:
            return (self.base.workers,)
        return (0,) if self.mode == "single" else WORKERS

    def _predict(self, replica: Replica, draws: int) -> ReplicaPrediction:
        return predict_replica(self.workload, self.source, replica, draws=draws, **self.run)


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


def _hosts(
    workload: TransactionWorkload, instances: Sequence[str] | None, own: str | None, prices: PriceList
) -> list[Host]:
    """Instances looked at: as named, or of the source's family, or of the families of today."""
    wanted = list(instances or [])
    if not wanted:
        name = own or workload.instance
        wanted = [f"{name.partition('.')[0]}.*"] if name else ["r7i.*", "m7i.*"]
    hosts, _ = hosts_named(wanted, prices, OWN_SHARE)
    # A cache beyond the data does no more; processors may.
    enough = [host for host in hosts if workload.size_gib is not None and host.cache_gib >= workload.size_gib]
    return [host for host in hosts if not enough or host.usd_month <= FURTHER_HOSTS * enough[0].usd_month]


def _candidates(
    workload: TransactionWorkload, hosts: Sequence[Host], prices: PriceList, own_relay: bool
) -> list[_Candidate]:
    """Every candidate, the cheapest first. A relay log's own volume is looked at where each event
    is flushed; otherwise it takes bytes alone off the data."""
    gib = math.ceil((workload.size_gib or 1.0) * (1.0 + FREE_PERCENT / 100.0)) + 1
    data = [f"gp2:{gib * times}" for times in (1, 2, 4)]
    for iops in IOPS:
        # A gp3 has at most 500 IOPS for each GiB, and a MiB/s for each 4 IOPS; an io2 1,000 IOPS.
        size = max(gib, math.ceil(iops / 500))
        data += [
            f"gp3:{size}:{iops}" + ("" if mib_s is None else f":{mib_s}") for mib_s in MIB_S if (mib_s or 0) <= iops / 4
        ]
    data += [f"io2:{max(gib, math.ceil(iops / 1_000))}:{iops}" for iops in IO2_IOPS]
    relays = [None, f"gp3:{RELAY_GIB}", f"io2:{RELAY_GIB}:1000"] if own_relay else [None]
    texts = list(dict.fromkeys([*data, *(relay for relay in relays if relay is not None)]))
    usd = dict(zip(texts, prices.volume_totals(texts), strict=True))
    made = [
        (host, storage, relay, host.usd_month + usd[storage] + (0.0 if relay is None else usd[relay]))
        for host in hosts
        for storage in data
        for relay in relays
        if math.isfinite(usd[storage])
    ]
    return sorted(made, key=lambda one: (one[3], one[1]))
