"""`headrace.plan`, `headrace.plan_against`, the simulations of what a plan chose, and a plan that
`headrace plan --output json` wrote, read again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from headrace.base.checks import quote_value
from headrace.base.files import read_bytes
from headrace.base.options import takes
from headrace.errors import InputError, Refusals
from headrace.planner.engine import PlanEngine
from headrace.planner.goals import SUBJECTS, Goal
from headrace.planner.question import make_question
from headrace.planner.reasons import compare_engines
from headrace.planner.result import PLAN_SCHEMA, VERSION, EngineComparison, Plan
from headrace.planner.settings import PlanSettings
from headrace.workload import OpenWorkload, TransactionWorkload

if TYPE_CHECKING:
    from headrace.simulation.demand import Simulation


@takes(PlanSettings, "a plan")
def plan(workload: OpenWorkload | TransactionWorkload, settings: PlanSettings) -> Plan:
    """Plans storage for `workload`: over volume types, sizes, IOPS, MiB/s, RAID 0 and 10, instances
    and, of a database, log volumes.

    `goals`: metrics are `planner.DEMAND`, or `planner.DATABASE` for a workload that `headrace
    calibrate` wrote. Defaults stay unless their own metric is given: p99_ms<=20, throttled_min<=0
    and headroom_percent>=20 of a demand, head-room alone of a database, which needs a goal such as
    `"tps>=300"`. `growth` multiplies data and demand, `demand_growth` and `data_growth` each of
    them. `on`: services or deployments, such as "ec2,rds,aurora" or `["rds:multi-az"]`. `cycle`:
    credits are judged in the repeated day, or in the first. `discount_percent`, `price_file`,
    `commitment`: see docs/reference/prices.md. `arrivals_tps`: an open load, in place of `threads`.
    `progress` is called with the share done.

    Nothing meets the goals: `recommended` is None, `winners` empty, and `closest` says what comes
    nearest. IOPS, MiB/s and GiB are found to the unit. Equal questions have equal answers. Raises
    InputError for what cannot be planned.
    """
    return PlanEngine(make_question(workload, settings), settings.progress).answer()


@takes(PlanSettings, "a plan")
def plan_against(workload: TransactionWorkload, other: TransactionWorkload, settings: PlanSettings) -> EngineComparison:
    """Plans the same goals for two databases, InnoDB against MyRocks as a rule. Raises
    InputError."""
    if settings.size_gib is not None:
        rule, hint = "one size cannot hold for two databases", "Write it into both workload files."
        raise InputError(f"size_gib = {settings.size_gib}", rule, "headrace plan --against", hint)
    progress = settings.progress or (lambda done: None)
    halves = (lambda done: progress(0.5 * done), lambda done: progress(0.5 + 0.5 * done))
    first = PlanEngine(make_question(workload, settings), halves[0]).answer()
    return compare_engines((first, PlanEngine(make_question(other, settings), halves[1]).answer()))


# Choices that are drawn, the best ones: more than four or five lines cannot be told apart.
DRAWN = 3


def simulate_choices(
    answer: Plan, demand: OpenWorkload, start_balance: float | None = None
) -> list[tuple[str, Simulation]]:
    """Simulates the choices to draw and returns their names with the runs: the best, one with
    credits, and today's."""
    from headrace.simulation.demand import simulate

    every, today = (answer.recommended, *answer.choices.winners, *answer.choices.closest), answer.choices.compared
    choices = [choice for choice in every if choice is not None]
    bursting = [choice for choice in choices if choice.volume_type in ("gp2", "st1", "sc1")][:1]
    drawn = [*choices[:DRAWN], *bursting, *([today] if today else [])]
    chosen = {
        f"{choice.storage} on {choice.instance}" if choice.instance else choice.storage: choice for choice in drawn
    }
    day, cycle = answer.search.as_of, answer.load.cycle
    settings = {"as_of": day, "form": "interval", "start_balance": start_balance, "cycle": cycle}
    return [
        (name, simulate(demand, choice.storage, instance=choice.instance, **settings))
        for name, choice in chosen.items()
    ]


refuse = Refusals("docs/guide/planning.md")
MOST_BYTES = 64 << 20  # longest file that is read; a guess: a plan has some 100 KiB
AGAIN = "Write it again with: headrace plan WORKLOAD --output json > plan.json"


def read_plan(path: str) -> Plan | None:
    """Reads a plan from a file of JSON; None for another kind of file. Raises InputError,
    CouldNotRun."""
    if not os.path.isfile(path) or not path.endswith(".json"):
        return None
    try:
        document = json.loads(read_bytes(Path(path), MOST_BYTES))
    except (ValueError, RecursionError):
        raise refuse.input(path, "is not JSON", AGAIN) from None
    return restore_plan(document, path)


def restore_plan(document: object, name: str) -> Plan:
    """Returns the plan in parsed JSON. `name`: of its file, for errors. Raises InputError, also for
    a damaged plan and for one of another version."""
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith(PLAN_SCHEMA):
        raise refuse.input(name, "is not a plan", AGAIN)
    _check_version(str(document["schema"]), name)
    subject = document.get("subject")
    if subject not in SUBJECTS:
        raise refuse.input(name, f"is damaged: subject = {quote_value(subject)}", AGAIN)
    try:
        goals = [vars(Goal.parse(text, subject)) for text in msgspec.convert(document, _GoalTexts).goals]
        return msgspec.convert(document | {"goals": goals}, Plan, dec_hook=_restore_frame)
    except (msgspec.ValidationError, pl.exceptions.PolarsError) as error:
        raise refuse.input(name, f"is damaged: {' '.join(str(error).split())[:200]}", AGAIN) from None


class _GoalTexts(msgspec.Struct):
    """The goals of a plan as its document has them."""

    goals: list[str]


def _restore_frame(_kind: type, rows: object) -> pl.DataFrame:
    """Converts rows of the document into a frame, all of a plan that msgspec does not know. Raises
    ValueError, to which msgspec adds the place, and PolarsError."""
    try:
        plain = msgspec.convert(rows, list[dict[str, str | float | bool | None]])
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    return pl.DataFrame(plain, infer_schema_length=None)


def _check_version(schema: str, name: str) -> None:
    """Raises InputError where a plan was written by a newer Headrace or in another form. `schema`:
    as in the file; `name`: of the file."""
    version = schema.removeprefix(PLAN_SCHEMA)
    if version == str(VERSION):
        return
    rule, hint = f"is a plan of another form ({quote_value(schema)}, this Headrace reads {VERSION})", AGAIN
    if version.isdecimal() and int(version) > VERSION:
        rule = f"was written by a newer Headrace ({quote_value(schema)}, this one reads {VERSION})"
        hint = "Update Headrace, or write the plan with this one."
    raise refuse.input(name, rule, hint)
