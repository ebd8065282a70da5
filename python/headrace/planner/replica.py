"""The judge of plans for a replica, and the cheapest one whose lag stays below a bound with a
probability: `headrace plan --replica-lag-s`.

Candidates are an instance (its cache), a data volume, and where the relay log lies; workers cost
nothing, so each candidate has the number of them that applies fastest. The search is the one of
every plan (`planner.search`): more IOPS, MiB/s or GiB never make a lag worse.

The load is the same day after day, so a replica that lives on bursts has them spent: it is judged
with every bucket of its volumes and of its instance empty at the start. No bucket can then end
lower than it began, and what is left is what they refill with (the baseline). The source's day is
its first, bursts included: the most that it can send.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, TypedDict

from headrace.base import core
from headrace.base.checks import Shown
from headrace.base.encoding import Document
from headrace.base.options import complete, list_given, takes
from headrace.base.storage import parse_placement
from headrace.catalog.price_list import PriceList
from headrace.errors import Refusals
from headrace.planner.candidates import (
    BY_YOU,
    DEFAULT_SHARE,
    Candidate,
    Family,
    Host,
    Need,
    check_exclude,
    get_instance_family,
    list_families,
    list_hosts,
    list_spaces,
)
from headrace.planner.database import LogRoom, compute_log_room, list_log_volumes
from headrace.planner.judging import WeighingJudge
from headrace.planner.question import compute_data_size, list_instances, make_price_list
from headrace.planner.search import BY_GUESS, Search, SpaceResult, rank
from headrace.planner.settings import ReplicaPlanSettings
from headrace.simulation.replica import Replica, ReplicaPrediction, SourceLoad, predict_replica
from headrace.workload.transactions import TransactionWorkload

if TYPE_CHECKING:
    from headrace.simulation.replica import ReplicaDoubt

refuse = Refusals("headrace plan --help")
# Settings of `headrace plan` that a replica's plan looks at; and those without an effect on it,
# which miss no wish: goals are refused by name.
LOOKED_AT = (
    "compare", "instances", "arrivals_tps", "threads", "confidence", "draws", "hours", "size_gib", "free_percent",
    "binlog_days", "exclude", "cache_share", "region", "as_of", "discount_percent", "price_file", "commitment",
    "replica_lag_s", "replica_version", "replica_mode", "replica_binlog", "sync_relay_log",
)  # fmt: skip
WITHOUT_EFFECT = ("goals", "on", "top", "default_goals", "max_volumes")
# Numbers of workers that are tried: each half as much again or twice the one before (chosen).
WORKERS = (0, 4, 8, 16, 32, 64)
# Types that are looked at, single volumes: latencies of hard disks are a guess, and a replica is
# one server with one volume.
TYPES = ("gp3", "gp2", "io1", "io2")
# A relay log's own volume: the smallest that holds an hour of it comfortably, of the types whose
# IOPS do not hang on the size (chosen).
RELAY_GIB, RELAY_TYPES = 20, ("gp3", "io2")
# Steps in which candidates are run, at most: two minutes of a day. Bursts of the source within a
# step are looked at second by second, of those that hold so far.
STEPS = 720
DRAWS = 24
# Hosts beyond the first whose cache holds all data, up to this many times its price (chosen).
FURTHER_HOSTS = 4.0
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
class ReplicaPlan(
    Shown,
    Document,
    schema="headrace-replica-plan/1",
    omitted=("prediction", "lag_s", "probability", "release", "settings", "logged"),
):
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

    def describe_briefly(self) -> str:
        """Returns the choice and its price; see `Shown`."""
        if self.chosen is None:
            return f"no replica of {len(self.looked_at)} keeps its lag below {self.lag_s:g} s"
        choice = self.chosen
        return f"{choice.instance}/{choice.storage}, {choice.workers} workers: {choice.usd_month:,.0f} USD a month"

    def list_entries(self) -> dict[str, object]:
        """Returns everything but the prediction, the goal and the replica as tables."""
        goal = {"replica_lag_s": self.lag_s, "probability": self.probability}
        replica = {"version": self.release, **self.settings}
        return {"goal": goal, "replica": replica, "log_gib": self.logged.gib} | super().list_entries()


@takes(ReplicaPlanSettings, "a plan of a replica")
def plan_replica(workload: TransactionWorkload, settings: ReplicaPlanSettings) -> ReplicaPlan:
    """Finds the cheapest replica whose lag stays at most `replica_lag_s` over `hours` of the
    source's load, with the `confidence`, when all its bursts are spent.

    `compare`: where the source runs; None: where it was measured. `instances`: None: the source's
    type and its family. Data, the redo log and, if the replica writes one, the binary logs of
    `binlog_days` fill the data volume but for `free_percent`. Raises InputError, also for a setting
    of plans that is not looked at.
    """
    _refuse_ignored_settings(settings)
    settings = complete(replace(settings, draws=DRAWS if settings.draws is None else settings.draws))
    if settings.replica_lag_s is None:
        raise refuse.input("replica_lag_s", "is missing: the most lag that is allowed", "For example 1.0.")
    lag_s, prices = settings.replica_lag_s, make_price_list(settings)
    place = parse_placement(_find_source(workload, settings.compare))
    base = _make_base_replica(settings).as_behind(workload)
    assumed = base.make_settings()
    run: _SourceRun = {
        "log_storage": None if place.log is None else place.log.text,
        "instance": place.instance,
        "threads": settings.threads,
        "arrivals_tps": settings.arrivals_tps,
        "as_of": prices.as_of,
        "seconds": round(settings.hours * 3_600),
        "drain_s": 0,
        "seed": SEED,
    }
    # The source is the same for all candidates: it is run once.
    first = predict_replica(workload, place.data.text, base, draws=0, **run)
    load = SourceLoad(first.workload, first.source, first.rows["source_tps"].to_list())
    logged = compute_log_room(workload.database, fmean(load.tps), settings.binlog_days if assumed["log_bin"] else 0.0)
    data_gib = compute_data_size(workload, settings, 1.0)
    needed = math.ceil(round((data_gib + logged.gib) / (1.0 - settings.free_percent / 100.0), 6))
    hosts = _list_hosts(workload, settings, place.instance, prices) if settings.hosts is None else settings.hosts
    hosts = sorted(hosts, key=lambda host: host.usd_month)
    judge = ReplicaJudge(load, base, prices, hosts, lag_s, (settings.confidence, settings.draws))
    excluded = dict.fromkeys(check_exclude(settings.exclude), BY_YOU)
    families, _ = list_families(judge.directory, prices, excluded, 1, hosts)
    fitting = [family for family in families if family.volume_type in TYPES]
    refuted, chosen = judge.search(fitting, needed, settings.progress)
    prediction = None
    if chosen is not None:
        judged = judge.judged[chosen]
        run_of_chosen = predict_replica(workload, place.data.text, judged.replica, draws=0, source_tps=load.tps, **run)
        # The doubt is about means over steps, as the candidate was judged.
        prediction = replace(run_of_chosen, summary={**run_of_chosen.summary, **(judged.doubt or {})})
    looked_at = [judge.make_choice(candidate) for candidate in (*refuted, *([] if chosen is None else [chosen]))]
    return ReplicaPlan(
        chosen=None if chosen is None else looked_at[-1],
        looked_at=tuple(looked_at),
        prediction=prediction,
        lag_s=lag_s,
        probability=settings.confidence,
        source=str(place),
        source_tps=fmean(load.tps),
        region=settings.region,
        as_of=prices.as_of,
        warnings=(first if prediction is None else prediction).warnings,
        hours=settings.hours,
        release=base.release,
        settings=assumed,
        needed_gib=needed,
        data_gib=data_gib,
        logged=logged,
        free_percent=settings.free_percent,
    )


def _make_base_replica(settings: ReplicaPlanSettings) -> Replica:
    """Returns the replica without its place, its bursts spent."""
    return Replica(
        "gp3:500",
        version=settings.replica_version,
        mode=settings.replica_mode,
        sync_relay_log=settings.sync_relay_log,
        log_bin=settings.replica_binlog,
        start_balance_percent=0.0,
    )


def _refuse_ignored_settings(settings: ReplicaPlanSettings) -> None:
    """Raises InputError for settings that a plan of a replica would ignore."""
    for goal in [settings.goals] if isinstance(settings.goals, str) else settings.goals:
        rule = "is a goal of the database itself; with --replica-lag-s a replica is planned"
        raise refuse.input(f"--goal {goal}", rule, "Leave it out.")
    for setting in list_given(settings):
        if setting.name not in (*LOOKED_AT, *WITHOUT_EFFECT):
            rule = "is not looked at where a replica is planned (--replica-lag-s)"
            raise refuse.input(setting.flag, rule, "Leave it out.")


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


@dataclass(slots=True)
class JudgedReplica:
    """A replica with its simulations: by means over steps (`summary`); where these keep the lag,
    its `doubt`; and where that is small enough, second by second (`exact`). `is_fastest`: all
    numbers of workers were tried, and the replica has the one that applies fastest."""

    replica: Replica
    summary: core.ReplicaSummary
    is_fastest: bool = False
    doubt: ReplicaDoubt | None = None
    exact: core.ReplicaSummary | None = None

    def compute_chance(self, lag_s: float) -> float | None:
        """Returns the share, 0 to 1, of the databases and appliers drawn with which the lag stays
        at or below `lag_s`; None: nothing was drawn."""
        drawn = None if self.doubt is None else self.doubt["drawn"]
        return None if drawn is None else fmean(lag <= lag_s for lag in drawn["peak_lag_s"])


class ReplicaJudge(WeighingJudge):
    """Judges candidates for the replica of one source by their lag."""

    def __init__(
        self,
        load: SourceLoad,
        base: Replica,
        prices: PriceList,
        hosts: list[Host],
        lag_s: float,
        confidence: tuple[float, int],
    ) -> None:
        """Keeps the source's load in steps and the numbers of workers to try. `base`: the replica
        without storage and instance; `lag_s`: the goal, seconds; `confidence`: the probability from
        which a lag counts as kept, and the number of draws for it."""
        super().__init__(prices, hosts)
        self.load, self.base, self.lag_s = load, base, lag_s
        self.probability, self.draws = confidence
        self.steps = load.coarsen(STEPS)
        settings = base.make_settings()
        self.flushes_relay_log = settings["sync_relay_log"] == 1
        usual = (0,) if settings["mode"] == "single" else WORKERS
        self.workers = usual if base.workers is None else (base.workers,)
        self.judged: dict[Candidate, JudgedReplica] = {}

    def list_logs(self, families: Sequence[Family], need: Need) -> list[str | None]:
        """Lists volumes for the relay log alone, None first. They are looked at where each event is
        flushed; otherwise the relay log takes bytes alone off the data."""
        own = [family for family in families if family.volume_type in RELAY_TYPES]
        return [None, *(list_log_volumes(own, RELAY_GIB) if self.flushes_relay_log else [])]

    def performs(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Says which candidates keep the lag, by means over steps, with any number of workers."""
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self.judged]
        # The most workers keep it almost everywhere where others do: the search asks no more.
        self._run_with(new, self.workers[-1:])
        self._run_with_others([candidate for candidate in new if not self._keeps_lag(self.judged[candidate])])
        return [self._keeps_lag(self.judged[candidate]) for candidate in candidates]

    def _keeps_lag(self, judged: JudgedReplica) -> bool:
        return judged.summary["peak_lag_s"] <= self.lag_s

    def _run_with_others(self, candidates: Sequence[Candidate]) -> None:
        """Tries the numbers of workers that were not tried yet."""
        waiting = [candidate for candidate in candidates if not self.judged[candidate].is_fastest]
        self._run_with(waiting, self.workers[:-1])
        for candidate in waiting:
            self.judged[candidate].is_fastest = True

    def _run_with(self, candidates: Sequence[Candidate], numbers: Sequence[int]) -> None:
        """Runs candidates with these numbers of workers, and keeps the fastest of those that keep
        the lag; of equals, that with the fewest."""

        def rank_replica(judged: JudgedReplica) -> tuple[bool, float, int]:
            return self._keeps_lag(judged), judged.summary["applier_tps"], -(judged.replica.workers or 0)

        tried = [(candidate, self._make_replica(candidate, workers)) for candidate in candidates for workers in numbers]
        summaries = self.steps.summarize([replica for _, replica in tried]) if tried else []
        for (candidate, replica), summary in zip(tried, summaries, strict=True):
            judged, best = JudgedReplica(replica, summary), self.judged.get(candidate)
            self.judged[candidate] = judged if best is None else max(best, judged, key=rank_replica)

    def meets_with_confidence(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Says which candidates keep the lag with the probability required, and in every second."""
        on_average = dict(zip(candidates, self.performs(candidates), strict=True))
        self._run_with_others([candidate for candidate, holds in on_average.items() if holds])
        new = [
            judged
            for candidate, holds in on_average.items()
            if holds and (judged := self.judged[candidate]).doubt is None
        ]
        if new:
            summaries = [judged.summary for judged in new]
            doubts = self.steps.draw([judged.replica for judged in new], summaries, self.draws)
            for judged, doubt in zip(new, doubts, strict=True):
                judged.doubt = doubt
            # The doubt is of means over steps: every second has to hold, too.
            likely = [judged for judged in new if (judged.compute_chance(self.lag_s) or 0.0) >= self.probability]
            for judged, exact in zip(likely, self.load.summarize([judged.replica for judged in likely]), strict=True):
                judged.exact = exact
        return [self.holds(self.judged[candidate]) for candidate in candidates]

    def holds(self, judged: JudgedReplica) -> bool:
        """Says whether a replica keeps the lag in every second, with the probability required."""
        return judged.exact is not None and judged.exact["peak_lag_s"] <= self.lag_s

    def search(
        self, families: Sequence[Family], needed_gib: int, progress: Callable[[float], None] | None
    ) -> tuple[list[Candidate], Candidate | None]:
        """Returns the cheapest candidate with at least `needed_gib` that holds, None where none
        does; and what was looked at and does not hold, by price, up to that one."""
        best_usd, chosen = math.inf, None
        logs = self.list_logs(families, Need(needed_gib))
        spaces = [space for family in families for space in list_spaces(family, self.hosts, logs, needed_gib, 0)]
        least = [math.inf]

        def note(cheaper: SpaceResult) -> None:
            least[0] = min(least[0], cheaper.usd)

        guessed = Search(self, self.performs, lambda space: BY_GUESS * least[0], note).run(spaces)
        # By the means a candidate costs no more than it does when it is sure: the cheapest first.
        waiting = sorted((result for result in guessed if result.best is not None), key=rank)
        for done, guess in enumerate(waiting):
            if guess.usd >= best_usd:
                break
            if progress is not None:
                progress(done / len(waiting))
            start = SpaceResult(guess.space, guess.low, guess.high)
            [sure] = Search(self, self.meets_with_confidence, lambda space, most=best_usd: most).run([start])
            if sure.best is not None and sure.usd < best_usd:
                best_usd, chosen = sure.usd, sure.candidate
        # Candidates that hold on average but were not weighed are neither chosen nor refuted.
        refuted = [
            candidate
            for candidate, judged in self.judged.items()
            if self.compute_cost(candidate) <= best_usd
            and not self.holds(judged)
            and (judged.doubt is not None or judged.summary["peak_lag_s"] > self.lag_s)
        ]
        return sorted(refuted, key=lambda candidate: (self.compute_cost(candidate), candidate[0])), chosen

    def make_choice(self, candidate: Candidate) -> ReplicaChoice:
        """Returns a candidate that was looked at as the answer shows it."""
        judged = self.judged[candidate]
        summary = judged.exact or judged.summary
        return ReplicaChoice(
            judged.replica.instance or "",
            self.hosts[candidate[2]].cache_gib,
            candidate[0],
            candidate[1],
            judged.replica.workers or 0,
            self.compute_cost(candidate),
            summary["applier_tps"],
            summary["peak_lag_s"],
            judged.compute_chance(self.lag_s),
            judged.summary["binding"],
        )

    def _make_replica(self, candidate: Candidate, workers: int) -> Replica:
        """Returns the replica that a candidate with this number of workers is."""
        data, relay, place = candidate
        host = self.hosts[place]
        return replace(
            self.base,
            storage=data,
            relay_storage=relay,
            instance=host.name or "",
            cache_gib=host.cache_gib,
            workers=workers,
        )


def _find_source(workload: TransactionWorkload, source: str | None) -> str:
    """Returns where the source runs, as [INSTANCE/]STORAGE: as given, else that of the calibration.
    Raises InputError where neither is known."""
    if source is not None:
        return source
    if workload.storage is None:
        rule = "is not known: this workload was not measured on a storage"
        raise refuse.input("the source's storage", rule, "Say --compare [INSTANCE/]STORAGE, where the source runs.")
    place = workload.storage if workload.instance is None else f"{workload.instance}/{workload.storage}"
    return place if workload.log_storage is None else f"{place},log={workload.log_storage}"


def _list_hosts(
    workload: TransactionWorkload, settings: ReplicaPlanSettings, own: str | None, prices: PriceList
) -> list[Host]:
    """Lists the hosts of a replica, cheapest first: the instances named, else those of the source's
    family, else r7i and m7i. Those much dearer than the first whose cache holds all data are left
    out."""
    patterns = list_instances(settings.instances)
    if not patterns:
        name = own or workload.instance
        patterns = [f"{get_instance_family(name)}.*"] if name else ["r7i.*", "m7i.*"]
    share = DEFAULT_SHARE if settings.cache_share is None else settings.cache_share
    hosts, _ = list_hosts(patterns, prices, share)
    # A cache beyond the data does no more; processors may.
    enough = [host for host in hosts if workload.size_gib is not None and host.cache_gib >= workload.size_gib]
    return [host for host in hosts if not enough or host.usd_month <= FURTHER_HOSTS * enough[0].usd_month]
