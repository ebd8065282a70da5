"""The cheapest storage that meets the goals, and why the others lose.

    >>> import headrace
    >>> from headrace.planner import plan
    >>> from headrace.workload.daily import new_constant
    >>> steady = new_constant(1500, 1000, size_gib=500, write_kib=16, seconds=86_400)
    >>> plan(steady, goals=["p99_ms<=20", "throttled_min<=0"], exclude=["raid0"]).winner.storage
    'gp3:500'

    goals.py       what must hold                    candidates.py  families, grids, lines
    evaluate.py    simulate and price a batch        search.py      grid, bisection, instances
    market.py      what can be bought: day, region   choice.py      one storage with all that speaks for it
    reasons.py     why families lose, the arithmetic result.py      the answer
    transactions/  the same for a database, in transactions a second

The model is the interval form of `headrace.simulate`; what it leaves out (docs/semantics.md) the plan leaves out too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from headrace import _core
from headrace.core import core_load
from headrace.errors import InputError, core_errors
from headrace.planner.candidates import Demand, Family
from headrace.planner.choice import Chooser, overload_of
from headrace.planner.evaluate import Batch, Evaluator
from headrace.planner.goals import DEFAULT_GOALS, METRICS, Goal, parse_goals
from headrace.planner.market import check_exclude, families_on, instances_named
from headrace.planner.reasons import explain, verdict
from headrace.planner.result import Choice, FamilyVerdict, Plan
from headrace.planner.search import RANK, Found, on_instances, search_family, search_local
from headrace.workload import ClosedWorkload, OpenWorkload, TransactionWorkload
from headrace.workload.model import check_number, check_size, check_whole

if TYPE_CHECKING:
    from headrace.planner.transactions import TransactionPlan

__all__ = ["DEFAULT_GOALS", "METRICS", "Choice", "FamilyVerdict", "Goal", "Plan", "parse_goals", "plan"]

MAX_VOLUMES = 128  # the most EBS attachments of any instance type (crates/catalog/src/spec.rs)
CLOSEST_SHOWN = 5


@dataclass
class Held:
    """A family with its rows and, once made, the choices of its best ones."""

    found: Found
    fits: bool
    row: dict | None
    choice: Choice | None = None


def plan(
    workload: OpenWorkload | TransactionWorkload,
    *,
    goals: Sequence[str | Goal] = (),
    size_gib: float | None = None,
    region: str = "us-east-1",
    as_of: str | None = None,
    growth: float = 1.0,
    instances: Sequence[str] | None = None,
    max_volumes: int = 8,
    exclude: Sequence[str] = (),
    compare: str | None = None,
    start_balance: float | None = None,
    top: int = 10,
    progress: Callable[[float], None] | None = None,
    **of_transactions,
) -> Plan | TransactionPlan:
    """Plans storage for `workload`: over volume types, sizes, IOPS, MiB/s, RAID 0 and 10 member counts and instances.

    `goals`: such as `"p99_ms<=20"` (metrics: `METRICS`); none: p99_ms<=20 and throttled_min<=0. `size_gib`: GiB of data the
    storage must hold; None: the workload's, times `growth`. `region`, `as_of` (ISO day; None: the newest known): prices and
    limits. `growth`: factor on the demand. `instances`: EC2 types or patterns (`r6i.*`) to combine with, their EBS limits and
    price included; None: volumes alone. `max_volumes`: most volumes of an array, 1 to 128. `exclude`: volume types, `raid0`,
    `raid10`. `compare`: a storage set beside (on the winner's instance, where there are any). `start_balance`: percent of
    credits at the start; None: as AWS gives them. `top`: winners returned at most. `progress`: told the share done.

    A TransactionWorkload (`headrace calibrate`) is planned in transactions a second: see `headrace.planner.transactions.plan_transactions` for its goals and for
    `of_transactions` (threads, arrivals_tps, start, hours, cache_share, confidence, draws, seed). The answer is then a TransactionPlan.

    Nothing meets the goals: `winners` is empty and `closest` says what comes nearest. Steps: 50 IOPS, 5 MiB/s, 1 GiB. The same answer every
    time. Raises InputError for what cannot be planned.
    """
    if isinstance(workload, TransactionWorkload):
        from headrace.planner.transactions import plan_transactions  # numpy: a tenth of a second that no other command should pay

        return plan_transactions(
            workload, goals=goals, size_gib=size_gib, region=region, as_of=as_of, growth=growth, instances=instances, max_volumes=max_volumes, exclude=exclude,
            compare=compare, start_balance=start_balance, top=top, progress=progress, **of_transactions,
        )  # fmt: skip
    for name in of_transactions:
        hint = "Give a database: a workload that `headrace calibrate` wrote."
        raise InputError(name, "belongs to plans for transactions", "headrace plan --help", hint)
    parsed, excluded = parse_goals(goals), check_exclude(exclude)
    check_whole("max_volumes", max_volumes, 1, MAX_VOLUMES)
    check_whole("top", top, 1, 1_000)
    if start_balance is not None:
        check_number("start_balance", start_balance, 0.0, 100.0, "percent")
    demand, needed_gib = _demand(workload, growth, size_gib)
    with core_errors():
        as_of = as_of or _core.newest_date()
        prices = _core.volume_prices(region, as_of)
        region = prices["region"]
    hosts, skipped = instances_named(instances, region, as_of)
    families, verdicts = families_on(as_of, prices, excluded, max_volumes, hosts)
    evaluator = Evaluator(demand, core_load(demand.workload), parsed, region, as_of, start_balance, hosts)
    held = _search(evaluator, families, needed_gib, progress)
    chooser = Chooser(evaluator, needed_gib)
    winners = _winners(chooser, held, top)
    winner = winners[0][1] if winners else None
    for family in held:
        if family.row is not None and family.choice is None:
            family.choice = chooser.choose(family.found.family, [family.row], headroom=False)[0]
    closest = (
        [] if winner else sorted((h for h in held if h.choice), key=lambda h: (round(h.row["distance"], 6), *_rank(h.row)))[:CLOSEST_SHOWN]
    )
    for h in held:
        failing = h.choice is not None and not h.choice.meets_goals
        overload = overload_of(chooser, h.found.family, h.row) if failing else None
        verdicts.append(verdict(h.choice, h.found.family, winner, overload, needed_gib))
    compared = None if compare is None else _compare(chooser, compare, hosts, winner)
    shown = winners or [(h.found.family, h.choice) for h in closest]
    choices = [choice for _, choice in shown] + ([compared] if compared else [])
    caveats = [*demand.workload.caveats, *(caveat for choice in choices for caveat in choice.caveats)]
    return Plan(
        winners=[choice for _, choice in winners],
        families=sorted(verdicts, key=_verdict_order),
        closest=[h.choice for h in closest],
        compared=compared,
        saving_usd_month=compared.cost_usd_month - winner.cost_usd_month if compared and winner else None,
        goals=parsed, workload=demand.workload.summary(), size_gib=float(needed_gib), region=region, as_of=as_of, growth=float(growth),
        considered=len(evaluator.counts.seen), simulated=evaluator.counts.of("simulated"), bounded=evaluator.counts.of("bounded"),
        invalid=evaluator.counts.of("invalid"), frontier=_frontier(held, hosts), skipped_instances=skipped,
        caveats=list(dict.fromkeys(caveats)), explain=explain(chooser, shown[:2]),
    )  # fmt: skip


def _demand(workload: OpenWorkload, growth: float, size_gib: float | None) -> tuple[Demand, int]:
    """The demand to plan for, grown, and the whole GiB of data it must find room for."""
    if isinstance(workload, ClosedWorkload):
        hint = "Describe the demand over time: headrace workload new, or import a recording."
        raise InputError(workload.name, "a plan needs demand over time; a closed load asks as fast as it is served", "headrace plan", hint)
    if not isinstance(workload, OpenWorkload):
        raise InputError(
            type(workload).__name__, "a plan needs an OpenWorkload", "headrace plan", "Load one: headrace.workload.files.load."
        )
    grown = workload.scaled(growth)
    size = check_size(size_gib) if size_gib is not None else grown.size_gib
    if size is None:
        hint = "Give size_gib (--size-gib), or write it into the workload file."
        raise InputError(workload.name, "does not say how many GiB of data there are, so no volume can be sized", "headrace plan", hint)
    demand = Demand(grown)
    if demand.totals["reads"] + demand.totals["writes"] <= 0:
        raise InputError(
            workload.name, "asks for no I/O at all, so there is nothing to plan", "headrace plan", "Check the recording's device."
        )
    return demand, math.ceil(size)


def _search(evaluator: Evaluator, families: Sequence[Family], needed_gib: int, progress: Callable[[float], None] | None) -> list[Held]:
    """All families searched, with instances where there are any; each with its best row, else its nearest."""
    held = []
    volumes = [family for family in families if family.volume_type != "instance-store"]
    local = [family for family in families if family.volume_type == "instance-store"]
    for done, family in enumerate(volumes):
        if progress:
            progress(done / max(1, len(volumes)))
        alone = search_family(evaluator, family, evaluator.demand, needed_gib)
        found = on_instances(evaluator, alone, len(volumes)) if evaluator.instances else alone
        held.append(_hold(found))
    held += [_hold(found) for found in search_local(evaluator, local, needed_gib)]
    if progress:
        progress(1.0)
    return held


def _hold(found: Found) -> Held:
    passing = found.passing()
    rows = passing if passing.height else found.nearest()
    return Held(found, passing.height > 0, rows.row(0, named=True) if rows.height else None)


def _rank(row: dict) -> tuple:
    """The order of RANK as a sort key."""
    return tuple(-1 if row[name] is None else row[name] for name in RANK)


def _winners(chooser: Chooser, held: Sequence[Held], top: int) -> list[tuple[Family, Choice]]:
    """The cheapest passing row of each family and instance, in order, at most `top`."""
    rows = []
    for family in held:
        if family.fits:
            best = family.found.passing().unique("instance", keep="first", maintain_order=True).head(top)
            rows += [(family, row) for row in best.to_dicts()]
    rows.sort(key=lambda pair: _rank(pair[1]))
    chosen = []
    for family, row in rows[:top]:
        choice = chooser.choose(family.found.family, [row])[0]
        family.choice = family.choice or choice
        chosen.append((family.found.family, choice))
    return chosen


def _compare(chooser: Chooser, storage: str, hosts: Sequence[dict], winner: Choice | None) -> Choice:
    """Today's storage, judged like a candidate: on the winner's instance, else the cheapest one given."""
    evaluator = chooser.evaluator
    index = None
    if hosts:
        names = [host["instance_type"] for host in hosts]
        index = names.index(winner.instance) if winner else 0
    with core_errors():
        parsed = _core.parse_storage(storage)
        _core.storage_limits(storage, evaluator.as_of, None if index is None else hosts[index]["instance_type"])
        _core.monthly_cost(storage, evaluator.region, evaluator.as_of, 0.0)
        eras = {era["volume_type"]: era for era in _core.volume_eras(evaluator.as_of)}
    kind, members = parsed["members"][0]["volume_type"], len(parsed["members"])
    family = Family(kind, parsed["raid"] or "single", eras[kind], (members,))
    row = evaluator.run(Batch(family, [parsed["text"]], [members], [index]), prune=False).row(0, named=True)
    return chooser.choose(family, [row])[0]


FRONTIER = ("storage", "family", "cost_usd_month", "delivered_iops", "delivered_percent", "p99_ms", "throttled_min")

# A point of the chart delivers 5 % more than every cheaper one, or waits less by 5 % of the time, or is the first to meet the goals.
FRONTIER_GAIN, FRONTIER_WAIT = 1.05, 0.05


def _frontier(held: Sequence[Held], hosts: Sequence[dict]) -> list[dict]:
    """The rows of each family that deliver more, or wait less, than every cheaper one of it: cost against delivered performance."""
    points = []
    for family in held:
        known = family.found.rows.filter((pl.col("status") == "simulated") & pl.col("cost_usd_month").is_not_null())
        known = known.with_columns((100.0 - pl.col("unserved_percent")).alias("delivered_percent")).sort(*RANK, nulls_last=True)
        best_iops, best_min, met = 0.0, math.inf, False
        for row in known.to_dicts():
            delivers_more = row["delivered_iops"] > best_iops * FRONTIER_GAIN
            waits_less = row["throttled_min"] < best_min - FRONTIER_WAIT * row["seconds"] / 60
            if not (delivers_more or waits_less or (row["passes"] and not met)):
                continue
            best_iops, best_min, met = max(best_iops, row["delivered_iops"]), min(best_min, row["throttled_min"]), met or row["passes"]
            instance = None if row["instance"] is None else hosts[row["instance"]]["instance_type"]
            points.append({**{name: row[name] for name in FRONTIER}, "instance": instance, "meets_goals": row["passes"]})
    return points


def _verdict_order(one: FamilyVerdict) -> tuple:
    place = ("wins", "costs more", "fails", "impossible", "excluded").index(one.outcome)
    cost = one.cost_usd_month if one.cost_usd_month is not None else math.inf
    return (place, cost, one.family)
