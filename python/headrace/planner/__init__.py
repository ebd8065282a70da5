"""The cheapest storage that meets the goals, what a DBA would sign, and why the others lose.

    >>> import headrace
    >>> from headrace.workload.daily import new_constant
    >>> steady = new_constant(1500, 1000, size_gib=500, write_kib=16, seconds=86_400)
    >>> headrace.plan(steady, goals=["p99_ms<=20", "throttled_min<=0"]).recommended.storage
    'gp3:670:3200'

One engine for demand in I/Os and for databases in transactions:

    question    what the plan is for, checked
    goals       what must hold, and the one way to be met
    candidates  what can be chosen: families, hosts, shapes, spaces
    demand      the judge of I/Os;  database  the judge of transactions, and how sure it is
    search      the least of every space, proved, and the search of families
    choice      one candidate with all that speaks for it
    reasons     why not the others, what to recommend, the arithmetic
    actions     lines to paste, alarms
    result      the answer
    plan        the engine

The model is the interval form of `headrace.simulate` and `headrace.predict`; what it leaves out
(docs/semantics.md) a plan leaves out too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Unpack

from headrace.errors import InputError
from headrace.planner.arguments import PlanAgainstArguments, PlanArguments
from headrace.planner.goals import DATABASE, DEMAND, Goal, parse_goals
from headrace.planner.plan import PlanEngine
from headrace.planner.question import PlanSettings, make_question
from headrace.planner.reasons import compare_engines
from headrace.planner.result import Choice, EngineComparison, FamilyVerdict, Plan
from headrace.workload import OpenWorkload, TransactionWorkload

if TYPE_CHECKING:
    from headrace.simulation.demand import Simulation

__all__ = [
    "DATABASE",
    "DEMAND",
    "Choice",
    "EngineComparison",
    "FamilyVerdict",
    "Goal",
    "Plan",
    "parse_goals",
    "plan",
    "plan_against",
    "simulations_of",
]


def plan(
    workload: OpenWorkload | TransactionWorkload,
    *,
    goals: Sequence[str | Goal] | str = (),
    progress: Callable[[float], None] | None = None,
    **settings: Unpack[PlanArguments],
) -> Plan:
    """Plans storage for `workload`: over volume types, sizes, IOPS, MiB/s, RAID 0 and 10, instances
    and, of a database, log volumes.

    `goals`: such as `"p99_ms<=20"` (metrics: `DEMAND`, or `DATABASE` for a workload that `headrace
    calibrate` wrote). Defaults stay unless their own metric is given: p99_ms<=20, throttled_min<=0
    and headroom_percent>=20 of a demand, head-room alone of a database, which needs a goal such as
    `"tps>=300"`. `progress`: told the share done. `settings`:

    - `default_goals` (True): False leaves the defaults out.
    - `size_gib`: GiB of data; None: the workload's, grown. `free_percent` (25): of the volumes that
      stays free.
    - `region` ("us-east-1"), `as_of` (a day, ISO text or date; None: the newest known): prices and
      limits.
    - `growth` (1): factor on demand and data; `demand_growth`, `data_growth`: on each. `months`
      (0): months of the workload's `growth_per_year` that are added.
    - `instances`: EC2 types or patterns (`r6i.*`). None: volumes alone; of a database m, r, c and i
      of the two newest generations and today's family; `["none"]`: volumes alone with the
      workload's cache. `on` ("ec2"): services or deployments, such as "ec2,rds,aurora" or
      `["rds:multi-az"]`; `readers` (1) of an Aurora cluster, `busy_percent` (100) of the month that
      is billed by use; `gib_per_day` (0): data that come, for RDS's autoscaling.
    - `max_volumes` (8): most data volumes, 1 to 128. `exclude`: volume types, `raid0`, `raid10`.
      `allow_instance_store` (False).
    - `compare`: today's, `STORAGE[,log=STORAGE]` or `INSTANCE/STORAGE[,log=STORAGE]`.
    - `cycle` ("settled"): credits are judged in the repeated day; "first": in the first, with full
      credits or `start_balance` percent.
    - `discount_percent`, `price_file`, `commitment`: see docs/reference/prices.md. `nodes` (1):
      servers that are paid for. `snapshot_days` (0), `daily_change_percent` (5): daily snapshots on
      the bill.
    - `top` (10): winners returned at most.
    - Of a database: `threads` (clients; None: the workload's) or `arrivals_tps` (an open load),
      `start` ("warm"), `hours` (24), `binlog_days` (1), `cache_share` (of memory), `confidence`
      (0.8): probability from which a goal counts as met, `draws` (32), `seed` (1): databases drawn
      from the calibration.

    Nothing meets the goals: `recommended` is None, `winners` empty, and `closest` says what comes
    nearest. IOPS, MiB/s and GiB are found to the unit. The same answer every time. Raises
    InputError for what cannot be planned.
    """
    return PlanEngine(make_question(workload, _settings(goals, dict(settings))), progress).answer()


def plan_against(
    workload: TransactionWorkload, other: TransactionWorkload, **settings: Unpack[PlanAgainstArguments]
) -> EngineComparison:
    """Plans two databases under the same goals, InnoDB against MyRocks as a rule. `settings`: as
    `plan`. Raises InputError."""
    given: dict[str, Any] = dict(settings)
    if given.get("size_gib") is not None:
        value = f"size_gib = {given['size_gib']}"
        raise InputError(
            value,
            "one size cannot hold for two databases",
            "headrace plan --against",
            "Write it into both workload files.",
        )
    progress = given.pop("progress", None)
    halves = (
        [None, None]
        if progress is None
        else [lambda done: progress(0.5 * done), lambda done: progress(0.5 + 0.5 * done)]
    )
    first, second = (plan(each, **given, progress=half) for each, half in zip((workload, other), halves, strict=True))
    return compare_engines((first, second))


def _settings(goals: Sequence[str | Goal] | str, settings: dict[str, Any]) -> PlanSettings:
    names = {field.name for field in fields(PlanSettings)}
    for name in settings:
        if name not in names:
            raise InputError(
                f"{name} = {settings[name]!r}",
                "is not a setting of a plan",
                "headrace.plan",
                f"Known: {', '.join(sorted(names))}.",
            )
    return PlanSettings(goals=goals, **settings)


# How many of the best choices are drawn: more lines than four or five cannot be told apart.
DRAWN = 3


def simulations_of(
    answer: Plan, demand: OpenWorkload, start_balance: float | None = None
) -> list[tuple[str, Simulation]]:
    """Simulates the choices to draw and returns their names with the runs: the best, one with
    credits, and today's."""
    from headrace.simulation.demand import simulate

    choices = [choice for choice in (answer.recommended, *answer.winners, *answer.closest) if choice is not None]
    bursting = [choice for choice in choices if choice.volume_type in ("gp2", "st1", "sc1")][:1]
    shown = [*choices[:DRAWN], *bursting, *([answer.compared] if answer.compared else [])]
    chosen = {
        f"{choice.storage} on {choice.instance}" if choice.instance else choice.storage: choice for choice in shown
    }
    settings = {"as_of": answer.as_of, "form": "interval", "start_balance": start_balance, "cycle": answer.cycle}
    return [
        (name, simulate(demand, choice.storage, instance=choice.instance, **settings))
        for name, choice in chosen.items()
    ]
