"""Answers a plan for services: the best choice of each deployment, the rate from which Aurora's
I/O-Optimized pays, and the comparison of then and now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from headrace.base import core
from headrace.planner.candidates import AURORA
from headrace.planner.database import DatabaseJudge
from headrace.planner.market.growth import storage_growth
from headrace.planner.market.rules import NO_AUTOSCALING, storage_rules
from headrace.planner.market.services import managed_items
from headrace.planner.market.survival import option_of
from headrace.planner.result import Choice, ServiceAnswer, ServicesPart
from headrace.planner.search import FamilyResult, rank
from headrace.simulation.services import BreakEven, break_even_of, confidence

if TYPE_CHECKING:
    from headrace.planner.engine import PlanEngine


def services_part(
    engine: PlanEngine, searched: Sequence[FamilyResult], recommended: Choice | None = None
) -> ServicesPart:
    """Says what each deployment that was asked about comes to: the `recommended` choice on its own,
    the cheapest on the others."""
    answers = tuple(_answer(engine, service, searched, recommended) for service in engine.question.settings.on)
    even, million, tps = _io_optimized(engine, answers)
    return ServicesPart(answers, even, million, tps, tuple(map(dict, core.service_comparison())))


def _answer(
    engine: PlanEngine, service: str, searched: Sequence[FamilyResult], recommended: Choice | None
) -> ServiceAnswer:
    own = [result for result in searched if result.family.service == service]
    passing = sorted((passing_result for result in own for passing_result in result.passing), key=rank)
    near = [] if passing else [choice for result in own if (choice := engine.nearest(result)) is not None]
    best = engine.chooser.choose([passing[0].candidate])[0] if passing else min(near, key=_missing_least, default=None)
    if recommended is not None and recommended.service == service:
        best = recommended
    if best is None:
        why = next(
            (verdict.why for verdict in engine.verdicts if verdict.family == service), "nothing holds these data"
        )
    else:
        why = "meets every goal" if best.meets_goals else "; ".join(best.misses)
    as_of, about = engine.question.prices.as_of, engine.question.conditions
    readers = 0 if about is None or not service.startswith(AURORA) else about.readers
    option = None if about is None else option_of(service, readers)

    def fact(key: str, of: str | None = None) -> dict | None:
        return _fact(core.managed_rule(service, key, as_of, of))

    near_runs = 0
    if best is not None and isinstance(engine.judge, DatabaseJudge):
        near_runs = engine.judge.near(engine.host_of(best))
    return ServiceAnswer(
        service,
        best,
        why,
        (fact("rto_low", option), fact("rto_high", option)),
        (fact("rpo_instance"), fact("rpo_zone")),
        tuple(map(dict, core.service_limits(service))),
        storage_rules(service, as_of),
        _growth(engine, service, best),
        confidence(service, near_runs),
        readers,
    )


def _growth(engine: PlanEngine, service: str, best: Choice | None) -> str | None:
    question = engine.question
    if not question.settings.gib_per_day or best is None or not service.startswith("rds"):
        return None
    stored_gib = float(question.size_gib + question.need.log_gib)
    used = min(stored_gib, best.usable_gib)
    grows = service != NO_AUTOSCALING
    growth = storage_growth(
        best.usable_gib, used, question.settings.gib_per_day, autoscaling=grows, as_of=question.prices.as_of
    )
    return growth.in_words()


def _missing_least(choice: Choice) -> tuple:
    return (-(choice.probability or 0.0), choice.cost_usd_month)


def _fact(rule: core.ManagedRule | None) -> dict | None:
    if rule is None:
        return None
    value = float(rule["value"]) if rule["value"] else None
    return {"value": value} | {name: rule[name] for name in ("source", "first_seen", "confirmed", "note")}


def _io_optimized(
    engine: PlanEngine, answers: Sequence[ServiceAnswer]
) -> tuple[BreakEven | None, float | None, float | None]:
    """Finds where I/O-Optimized pays on the class of the cheapest Standard, what is billed there a
    month, millions, and at what rate."""
    standard = next((answer.best for answer in answers if answer.deployment == "aurora:standard" and answer.best), None)
    judge = engine.judge
    if standard is None or not isinstance(judge, DatabaseJudge):
        return None, None, None
    candidate = engine.candidate_of(standard)
    items = judge.items(candidate)
    other = replace(judge.hosts[candidate[2]], service="aurora:io-optimized")
    about = judge.conditions
    optimized = managed_items(other, AURORA, judge.prices, readers=about.readers, data_gib=about.data_gib)
    even = None if optimized is None else break_even_of(_cost_items(items), _cost_items(optimized))
    million = sum(item["quantity"] for item in items if "I/O" in item["item"])
    return even, million, judge.billed(candidate)[2]


def _cost_items(items: Sequence[dict]) -> list[core.CostItem]:
    names = ("item", "quantity", "unit", "unit_price_usd", "usd", "source", "as_of")
    return [cast("core.CostItem", {name: item[name] for name in names}) for item in items]
