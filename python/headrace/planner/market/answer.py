"""Answers a plan for services: the best choice of each deployment, the rate from which Aurora's
I/O-Optimized pays, storage that fills, and the comparison of then and now.

Growth of storage follows AWS's rules (data/managed/rules.csv): free space at or below a tenth for
five minutes, a step of the most of 10 GiB, a tenth, and seven hours of growth, then nothing for six
hours; and the server is stopped where too little is free. Growth is taken as even.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from headrace.base import core
from headrace.base.checks import check_number
from headrace.base.encoding import Document
from headrace.base.units import GIB, MIB, describe_span
from headrace.planner.candidates import AURORA
from headrace.planner.database import DatabaseJudge
from headrace.planner.market.durability import NO_AUTOSCALING, list_storage_rules
from headrace.planner.market.services import list_managed_items
from headrace.planner.result import Choice, ServiceAnswer, ServicesPart
from headrace.planner.search import FamilyResult, rank
from headrace.simulation.services import (
    BreakEven,
    compute_break_even,
    describe_confidence,
    get_failover_facts,
    get_loss_facts,
)

if TYPE_CHECKING:
    from headrace.planner.engine import PlanEngine


# --- storage that fills ---------------------------------------------------------------------------


HOUR_MIN = 60  # minutes of an hour
# Sizes between which the share counts (data/managed/rules.csv: storage_full_*), MiB.
SMALL_MIB, LARGE_MIB = 20_000, 102_400
MOST_DAYS = 3_650
# GiB from which storage of RDS lies on four volumes (data/managed/features.csv, "change storage").
STRIPED_FROM_GIB = 400
MIB_A_GIB = GIB // MIB
# GiB of the units of `largest_storage` (data/managed/rules.csv). The whitepaper of 2017 writes TB
# for TiB: RDS took 6,144 GiB then (PyPI botocore 1.5.50, CreateDBInstance, AllocatedStorage).
GIB_OF_UNIT = {"TB": 1_024, "TiB": 1_024}


@dataclass(frozen=True)
class StorageGrowth(Document):
    """Growth of storage under its data. `steps`: hour and GiB allocated after it, of each step of
    autoscaling; `stopped_h`: hour at which the server is stopped for want of space, None: not
    within `hours`; `hours`: length of the time that was simulated."""

    allocated_gib: float
    used_gib: float
    gib_per_day: float
    hours: float
    steps: tuple[tuple[float, float], ...]
    stopped_h: float | None

    def describe(self) -> str:
        """Writes the growth as a sentence."""
        what = f"{self.gib_per_day:g} GiB a day into {self.allocated_gib:,.0f} GiB with {self.used_gib:,.0f} in use"
        added = ""
        if self.steps:
            hour, size = self.steps[0]
            added = f"autoscaling comes first after {_describe_span(hour)}, to {size:,.0f} GiB; {len(self.steps)} steps in all"
        copied = next((hour for hour, size in self.steps if self.allocated_gib < STRIPED_FROM_GIB <= size), None)
        if copied is not None:
            added += (
                f"; the one after {_describe_span(copied)} passes {STRIPED_FROM_GIB} GiB, where RDS copies all data to four "
                "volumes: hours of more I/O, and no other change until it is done (rds-guide-2026-04)"
            )
        if self.stopped_h is None:
            return f"{what}: {added or 'nothing happens'} in {_describe_span(self.hours)}"
        without = "; autoscaling adds at most one step in its six hours" if self.steps else ""
        return f"{what}: RDS stops the server after {_describe_span(self.stopped_h)}{without}" + (
            f" ({added})" if added else ""
        )


def _describe_span(hours: float) -> str:
    return describe_span(round(hours * 3_600))


def simulate_storage_growth(
    allocated_gib: float,
    used_gib: float,
    gib_per_day: float,
    *,
    days: float = 30.0,
    autoscaling: bool = True,
    most_gib: float | None = None,
    as_of: str | None = None,
) -> StorageGrowth:
    """Follows storage of RDS minute by minute. `most_gib`: the limit given to autoscaling; None:
    the largest that RDS has. Raises InputError."""
    check_number("allocated_gib", allocated_gib, 5.0, 65_536.0, "GiB")
    check_number("used_gib", used_gib, 0.0, allocated_gib, "GiB")
    check_number("gib_per_day", gib_per_day, 0.0, 1e6, "GiB a day")
    check_number("days", days, 0.01, MOST_DAYS)
    rule = {name: _get_figure(name, as_of) for name in FIGURES}
    most = most_gib or _get_largest_gib(as_of)
    size, low_for, cooled_at, hour = allocated_gib, 0, 0.0, 0.0
    steps: list[tuple[float, float]] = []
    for minute in range(1, int(days * 24 * HOUR_MIN) + 1):
        hour = minute / HOUR_MIN
        free = size - used_gib - gib_per_day * hour / 24
        if free * MIB_A_GIB <= compute_least_free_mib(size * MIB_A_GIB, rule):
            return StorageGrowth(allocated_gib, used_gib, gib_per_day, days * 24, tuple(steps), hour)
        low_for = low_for + 1 if free <= size * rule["autoscaling_free"] / 100 else 0
        if autoscaling and low_for >= rule["autoscaling_wait"] and hour >= cooled_at and size < most:
            expected = gib_per_day / 24 * rule["autoscaling_ahead"]
            step = max(rule["autoscaling_least_step"], size * rule["autoscaling_step"] / 100, expected)
            size, low_for, cooled_at = min(size + step, most), 0, hour + rule["modification_cooldown"]
            steps.append((hour, size))
    return StorageGrowth(allocated_gib, used_gib, gib_per_day, days * 24, tuple(steps), None)


FIGURES = (
    "autoscaling_free",
    "autoscaling_wait",
    "autoscaling_step",
    "autoscaling_least_step",
    "autoscaling_ahead",
    "modification_cooldown",
    "storage_full_small",
    "storage_full_share",
    "storage_full_large",
)


def compute_least_free_mib(allocated_mib: float, rule: dict[str, float]) -> float:
    """Returns the free MiB at which RDS stops the server."""
    if allocated_mib < SMALL_MIB:
        return rule["storage_full_small"]
    if allocated_mib > LARGE_MIB:
        return rule["storage_full_large"]
    return allocated_mib * rule["storage_full_share"] / 100


def _get_largest_gib(as_of: str | None) -> float:
    """Returns the most GiB that RDS allocates on a day; None: the newest known."""
    rule = core.managed_rule("rds:single-az", "largest_storage", as_of)
    assert rule is not None
    return float(rule["value"]) * GIB_OF_UNIT[rule["unit"]]


def _get_figure(name: str, as_of: str | None) -> float:
    """Returns the value of a rule on the storage of RDS on a day, in the unit that the table of
    rules gives it; None: the newest known."""
    rule = core.managed_rule("rds:single-az", name, as_of)
    assert rule is not None, name
    return float(rule["value"])


# --- the answer -----------------------------------------------------------------------------------


def build_services_part(
    engine: PlanEngine, searched: Sequence[FamilyResult], recommended: Choice | None = None
) -> ServicesPart:
    """Returns the answer for each deployment of the question: the `recommended` choice for its own,
    the cheapest for the others."""
    answers = tuple(_answer(engine, service, searched, recommended) for service in engine.question.settings.on)
    even, million, tps = _find_break_even(engine, answers)
    return ServicesPart(answers, even, million, tps, tuple(map(dict, core.service_comparison())))


def _answer(
    engine: PlanEngine, service: str, searched: Sequence[FamilyResult], recommended: Choice | None
) -> ServiceAnswer:
    """Answers for one deployment: its choice (the recommended one, else the cheapest, else the
    nearest, or None) with limits, failover and growth."""
    own = [result for result in searched if result.family.service == service]
    passing = sorted((passing_result for result in own for passing_result in result.passing), key=rank)
    near = [] if passing else [choice for result in own if (choice := engine.find_nearest(result)) is not None]
    best = engine.chooser.choose([passing[0].candidate])[0] if passing else min(near, key=_rank_choice, default=None)
    if recommended is not None and recommended.service == service:
        best = recommended
    if best is None:
        why = next(
            (verdict.why for verdict in engine.verdicts if verdict.family == service), "nothing holds these data"
        )
    else:
        why = "meets every goal" if best.meets_goals else "; ".join(best.misses)
    as_of, conditions = engine.question.prices.as_of, engine.question.conditions
    readers = 0 if conditions is None or not service.startswith(AURORA) else conditions.readers
    near_runs = 0
    if best is not None and isinstance(engine.judge, DatabaseJudge):
        near_runs = engine.judge.count_near_runs(engine.get_host(best))
    return ServiceAnswer(
        service,
        best,
        why,
        get_failover_facts(service, as_of, readers),
        get_loss_facts(service, as_of),
        tuple(map(dict, core.service_limits(service))),
        list_storage_rules(service, as_of),
        _describe_growth(engine, service, best),
        describe_confidence(service, near_runs),
        readers,
    )


def _describe_growth(engine: PlanEngine, service: str, best: Choice | None) -> str | None:
    """Says in words when the storage of an RDS choice must grow, by the GiB a day that were given;
    None without them."""
    question = engine.question
    if not question.settings.gib_per_day or best is None or not service.startswith("rds"):
        return None
    stored_gib = float(question.load.size_gib + question.need.log_gib)
    used = min(stored_gib, best.usable_gib)
    grows = service != NO_AUTOSCALING
    growth = simulate_storage_growth(
        best.usable_gib, used, question.settings.gib_per_day, autoscaling=grows, as_of=question.prices.as_of
    )
    return growth.describe()


def _rank_choice(choice: Choice) -> tuple:
    return (-(choice.probability or 0.0), choice.cost_usd_month)


def _find_break_even(
    engine: PlanEngine, answers: Sequence[ServiceAnswer]
) -> tuple[BreakEven | None, float | None, float | None]:
    """Returns the rate from which Aurora's I/O-Optimized pays on the class of the cheapest
    Standard, the I/Os that Standard bills a month in millions, and the transactions a second they
    are for; None each without a database or a choice on Standard."""
    standard = next((answer.best for answer in answers if answer.deployment == "aurora:standard" and answer.best), None)
    judge = engine.judge
    if standard is None or not isinstance(judge, DatabaseJudge):
        return None, None, None
    candidate = engine.get_candidate(standard)
    items = judge.list_items(candidate)
    other = replace(judge.hosts[candidate[2]], service="aurora:io-optimized")
    conditions = judge.conditions
    optimized = list_managed_items(
        other, AURORA, judge.prices, readers=conditions.readers, data_gib=conditions.data_gib
    )
    even = None if optimized is None else compute_break_even(_convert_cost_items(items), _convert_cost_items(optimized))
    million = sum(item["quantity"] for item in items if "I/O" in item["item"])
    return even, million, judge.compute_billed_ios(candidate)[2]


def _convert_cost_items(items: Sequence[dict]) -> list[core.CostItem]:
    names = ("item", "quantity", "unit", "unit_price_usd", "usd", "source", "as_of")
    return [cast("core.CostItem", {name: item[name] for name in names}) for item in items]
