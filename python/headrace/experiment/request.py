"""The request of a proof: its configurations, from a plan, or from a workload and storages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.base.checks import check_whole
from headrace.base.storage import Placement, Storage, parse_placement
from headrace.base.units import GIB
from headrace.calibration.from_runs import sysbench_tpcc
from headrace.calibration.prior import TPCC_BYTES
from headrace.errors import Refusals
from headrace.experiment.standin import compute_settled_miss
from headrace.workload.transactions import TransactionWorkload

if TYPE_CHECKING:
    from headrace.planner.result import Choice, Plan

refuse = Refusals("docs/guide/prove.md")
LEAST_CACHE_GIB = 0.005  # innodb_buffer_pool_size is at least 5 MiB
MOST_THREADS = 4_096  # a guess: more connections than a test machine serves

WINNER, RUNNER_UP, CURRENT, GIVEN = "winner", "runner-up", "current", "given"
MOST_CONFIGURATIONS = 8  # a guess: more leave too little time for each
# Page touches of a database are taken to be spread as those of sysbench-tpcc where a plan comes
# without its workload.
ASSUMED = (
    "The plan does not say how skewed the database's accesses are: sysbench-tpcc's skew was taken. "
    "Give --workload, and it is the workload's own."
)


@dataclass(frozen=True)
class Configuration:
    """A configuration of a proof: a storage with a cache and clients.

    `name`: its name in tables. `storage`, `log_storage`: in storage notation. `cache_gib`: buffer
    pool or block cache. `threads`: clients of the closed load. `balance_percent`: credits at the
    start; None: as AWS starts them. Raises InputError for impossible values.
    """

    name: str
    storage: str
    cache_gib: float
    threads: int
    log_storage: str | None = None
    balance_percent: float | None = None

    def __post_init__(self) -> None:
        """Checks the notation of the storages, the cache and the number of clients. Raises
        InputError."""
        for spec in filter(None, (self.storage, self.log_storage)):
            Storage.parse(spec)
        if not self.cache_gib >= LEAST_CACHE_GIB:
            value = f"{self.name}: a cache of {self.cache_gib:g} GiB"
            raise refuse.input(value, f"must be at least {LEAST_CACHE_GIB:g} GiB")
        check_whole(f"{self.name}: clients", self.threads, 1, MOST_THREADS, refuse)

    @property
    def place(self) -> str:
        """Returns the storage, with that of the log, in words."""
        return self.storage if self.log_storage is None else f"{self.storage}, log on {self.log_storage}"


@dataclass(frozen=True)
class Request:
    """The request of a proof. `configurations` are pairs of role and configuration, those of the
    plan first; `miss` has the share of page touches that miss the cache, by a configuration's
    name."""

    source: str
    engine: str
    size_gib: float
    as_of: str | None
    configurations: tuple[tuple[str, Configuration], ...]
    miss: dict[str, float]
    notes: tuple[str, ...] = ()

    def with_current(self, storage: str) -> Request:
        """Returns the request with today's storage, on which the proof then calibrates, with cache
        and clients of the first configuration. Raises InputError."""
        first = self.configurations[0][1]
        placement = read_placement(storage)
        log = placement.log and str(placement.log)
        current = replace(first, name=CURRENT, storage=str(placement.data), log_storage=log)
        others = [(role, configuration) for role, configuration in self.configurations if role != CURRENT]
        miss = self.miss | {CURRENT: self.miss[first.name]}
        return replace(self, configurations=(*others, (CURRENT, current)), miss=miss)


def from_plan(plan: Plan, text: str, workload: TransactionWorkload | None = None) -> Request:
    """Returns a request with the winner (without one the closest choice), the runner-up and today's
    storage of a plan. `text` is the name of its file, for errors. Raises InputError."""
    engine, size, growth = plan.engine, plan.load.size_gib, plan.load.data_growth
    if plan.subject != "database":
        hint = "Plan a database: a workload that `headrace calibrate` wrote, or sysbench-tpcc:..."
        raise refuse.input(f"{text}: a plan for a {plan.subject}", "a proof needs a plan for a database", hint)
    if not plan.load.threads:
        rule = "plans for arrivals, and a proof drives a closed load of clients"
        raise refuse.input(text, rule, "Plan it with --threads.")
    if engine not in ("innodb", "myrocks") or not size > 0:
        raise refuse.input(f"{text}: engine {engine!r}, {size:g} GiB", "must be innodb or myrocks, and more than 0 GiB")
    if workload is not None and workload.engine != engine:
        raise refuse.input(f"--workload of {workload.engine}", f"the plan is for {engine}")
    configurations = tuple(
        (role, Configuration(role, choice.storage, choice.cache_gib or 0.0, plan.load.threads, choice.log_storage))
        for role, choice in _list_choices(plan, text)
    )
    database = (
        _assume_database(engine, size)
        if workload is None
        else (workload.scale_data(growth) if growth != 1.0 else workload).database
    )
    miss = {
        configuration.name: compute_settled_miss(database, configuration.cache_gib)
        for _, configuration in configurations
    }
    return Request(
        f"{plan.name} (plan {Path(text).name})",
        engine,
        size,
        plan.search.as_of,
        configurations,
        miss,
        () if workload else (ASSUMED,),
    )


def read_placement(text: str) -> Placement:
    """Reads a placement `DATA` or `DATA,log=LOG`. Raises InputError, for an instance too."""
    placement = parse_placement(text)
    if placement.instance is not None:
        rule = "names an instance, and a proof runs on this machine"
        raise refuse.input(text, rule, f"Write {replace(placement, instance=None)}.")
    if len(set(placement.data.members)) > 1:
        hint = placement.note or "A log volume is written DATA,log=LOG."
        raise refuse.input(text, "an array of unlike members cannot be proved: its members are scaled alike", hint)
    return placement


def _list_choices(plan: Plan, text: str) -> list[tuple[str, Choice]]:
    """Lists the choices to prove with their roles. Raises InputError for a plan without any."""
    ranked = [*([plan.recommended] if plan.recommended else []), *(plan.choices.winners or plan.choices.closest)]
    if not ranked:
        raise refuse.input(text, "has no choice: nothing meets its goals, or comes close", "Plan with other goals.")
    # The recommended storage is proved first, then the cheapest.
    choices = [(WINNER, ranked[0])]
    # The runner-up: the next choice that is another; else the best of the families that cost more.
    losers = [family.best for family in plan.choices.families if family.best and family.outcome != "impossible"]
    losers.sort(key=lambda choice: (not choice.meets_goals, choice.cost_usd_month))
    others = [choice for choice in [*ranked[1:], *losers] if _get_place(choice) != _get_place(ranked[0])]
    choices += [(RUNNER_UP, others[0])] if others else []
    choices += [(CURRENT, plan.choices.compared)] if plan.choices.compared else []
    return choices


def _get_place(choice: Choice) -> tuple[str, str | None, float | None]:
    return choice.storage, choice.log_storage, choice.cache_gib


def _assume_database(engine: str, size_gib: float) -> dict:
    warehouses = max(1.0, size_gib * GIB / TPCC_BYTES[engine])
    return sysbench_tpcc(warehouses=warehouses, engine=engine, cache_gib=1.0, threads=1).database


def from_workload(workload: TransactionWorkload, storages: list[str], text: str) -> Request:
    """Returns the request of a workload on storages, each `DATA` or `DATA,log=LOG`, with its own
    cache and clients. Raises InputError."""
    if not storages:
        hint = "Add --storage gp3:500:6000 --storage io1:500:3000, or give a plan: headrace plan --output json."
        raise refuse.input(text, "is a workload: name the storages to prove it on", hint)
    if len(storages) > MOST_CONFIGURATIONS:
        raise refuse.input(f"{len(storages)} storages", f"at most {MOST_CONFIGURATIONS}")
    if workload.size_gib is None:
        raise refuse.input(workload.name, "does not say how large its data are", "Give size_gib in the workload file.")
    configurations = []
    for placement in dict.fromkeys(map(read_placement, storages)):
        log = placement.log and str(placement.log)
        configurations.append(
            (GIVEN, Configuration(str(placement), str(placement.data), workload.cache_gib, workload.threads, log))
        )
    miss = compute_settled_miss(workload.database, workload.cache_gib)
    return Request(
        workload.name,
        workload.engine,
        workload.size_gib,
        workload.as_of,
        tuple(configurations),
        {configuration.name: miss for _, configuration in configurations},
    )
