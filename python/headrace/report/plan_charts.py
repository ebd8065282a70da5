"""The charts of a plan: demand over its time, cost against what is delivered, balances, bills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.base import core
from headrace.base.lazy import defer_imports
from headrace.report.simulation import find_clock_start
from headrace.report.view import Block, Chart, Sentence, make_drawn_chart
from headrace.report.words import format_usd

with defer_imports():
    from headrace.report.charts import cost, over_time, style

if TYPE_CHECKING:
    from headrace.planner.result import Plan
    from headrace.simulation.demand import Simulation
    from headrace.workload import OpenWorkload

# The simulations whose balance is drawn: names and results, made by the caller.
Runs: TypeAlias = "Sequence[tuple[str, Simulation]]"


def draw_day(plan: Plan, workload: OpenWorkload | None, runs: Runs) -> Iterator[Block]:
    """Yields the chart of the demand over time, with the limits of today's storage and of the
    recommended; nothing without a `workload`."""
    if workload is None:
        return
    choices = (("recommended", plan.recommended, style.GOOD), ("today", plan.choices.compared, style.WARN))
    limits = [
        (label, iops, colour)
        for label, choice, colour in choices
        if choice is not None
        and choice.service == "ec2"
        and (iops := core.sustained_iops(choice.storage, plan.search.as_of)) is not None
    ]
    today = plan.choices.compared
    waits = next((run.rows for _, run in runs if today is not None and run.storage == today.storage), None)
    described = ", ".join(
        [f"IOPS of {workload.name} over time", *(f"{label} {iops:,.0f} IOPS" for label, iops, _ in limits)]
    )
    yield Chart(lambda: over_time.draw_day_panels(workload, limits, waits), described)


def draw_cost(plan: Plan) -> Iterator[Block]:
    """Yields the chart of cost against what is delivered, where there is something to draw."""
    if plan.subject == "database":
        chart = cost.draw_against_tps(plan)
        described = (
            "Sustained tps with their 80 % interval against monthly cost, along the best candidates of each family"
        )
    else:
        best = plan.recommended
        name = None if best is None else f"{best.storage} on {best.instance}" if best.instance else best.storage
        limit = next((goal.limit for goal in plan.goals if goal.metric == "p99_ms"), None)
        chart = cost.draw_frontier(list_points(plan), name, limit)
        described = "Storages of every family by monthly cost and I/O p99 of the worst five minutes"
    if chart is not None:
        yield make_drawn_chart(chart, described)


def list_points(plan: Plan) -> list[dict]:
    """Returns the points of a demand's chart of cost: each family's frontier, and the recommended
    choice, today's and that in place, with the `role` "", "today" and "in place"."""
    points = plan.choices.frontier.to_dicts()
    named = (("", plan.recommended), ("today", plan.choices.compared), ("in place", plan.choices.in_place))
    for role, choice in named:
        if choice is None or (role and plan.recommended is not None and choice.key == plan.recommended.key):
            continue
        names = ("storage", "instance", "family", "cost_usd_month", "meets_goals")
        own = {name: getattr(choice, name) for name in names} | {"p99_ms": choice.metrics.get("p99_ms"), "role": role}
        points = [
            point for point in points if (point["storage"], point["instance"]) != (own["storage"], own["instance"])
        ]
        points.append(own)
    return points


def draw_balances(workload: OpenWorkload | None, runs: Runs) -> Iterator[Block]:
    """Yields the chart of the credit balances of the runs, or a sentence that none has credits."""
    if not runs or workload is None:
        return
    names = ", ".join(name for name, _ in runs)
    chart = over_time.draw_credit_balances([(name, run.rows) for name, run in runs], find_clock_start(workload))
    if chart is None:
        words = f"None of these has credits: {names}. What they deliver does not change over the day."
        yield Sentence(words, place="page")
    else:
        yield make_drawn_chart(chart, f"Credit balance over the day of {names}")


def draw_bills(plan: Plan) -> Iterator[Block]:
    """Yields the chart of the monthly bills of the best choices and of today's storage."""
    services = [] if plan.services is None else [answer.best for answer in plan.services.answers]
    few = 4 if len(services) < 2 else 1
    best, in_place, today = plan.recommended, plan.choices.in_place, plan.choices.compared
    choices = [best, *plan.choices.winners[:few], *plan.choices.closest[:few], *services, in_place, today]
    bills = list({choice.key: choice for choice in choices if choice is not None}.values())
    roles = {"today": today, "in place": in_place, "recommended": best}
    keys = {choice.key: f" ({role})" for role, choice in roles.items() if choice is not None}
    if any(item["usd"] for choice in bills for item in choice.items):
        described = ", ".join(f"{choice.place} {format_usd(choice.cost_usd_month)} USD" for choice in bills)
        rows = [(f"{choice.place}{keys.get(choice.key, '')}", choice.items) for choice in bills]
        yield Chart(lambda: cost.draw_bill_chart(rows), f"Monthly bill by item: {described}")
