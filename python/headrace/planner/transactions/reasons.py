"""Why each family of data volumes won or lost, which engine wins, and the arithmetic, in words with numbers."""

from __future__ import annotations

from collections.abc import Sequence

from headrace import _core
from headrace.core import MIB
from headrace.errors import core_errors
from headrace.planner.candidates import Family
from headrace.planner.choice import number
from headrace.planner.reasons import SIGNIFICANTLY_DEARER
from headrace.planner.transactions.result import EngineComparison, TransactionChoice, TransactionPlan, TransactionVerdict


def family_verdict(family: Family, best: TransactionChoice | None, winner: TransactionChoice | None, found, goals) -> TransactionVerdict:
    """The verdict on a family whose best (or nearest) choice is `best`."""
    if best is None:
        none = (
            "no instance given has local disks of that layout that hold the data"
            if family.volume_type == "instance-store"
            else f"no {family.name} holds the data with a known price"
        )
        why = f"every {family.name} costs far more than the best of the others" if found.too_dear else none
        return TransactionVerdict(family.name, "costs more" if found.too_dear else "impossible", why)
    ratio = best.cost_usd_month / winner.cost_usd_month if winner and winner.cost_usd_month > 0 else None
    if winner is not None and best.place == winner.place:
        why = f"cheapest that meets every goal with {best.probability:.0%}; binds: {best.binds['words']}"
        return TransactionVerdict(
            family.name, "wins", why + ("" if best.persistent else "; the data is gone when the instance stops"), best, 1.0
        )
    if best.meets_goals:
        return TransactionVerdict(family.name, "costs more", _dearer(best, winner, ratio), best, ratio)
    if winner is not None and found.passing and best.cost_usd_month > winner.cost_usd_month and not best.misses:
        return TransactionVerdict(family.name, "costs more", _dearer(best, winner, ratio), best, ratio)
    return TransactionVerdict(family.name, "fails", _failing(best), best, ratio)


def _dearer(best: TransactionChoice, winner: TransactionChoice, ratio: float | None) -> str:
    more = best.cost_usd_month - winner.cost_usd_month
    if ratio is None or ratio < SIGNIFICANTLY_DEARER:
        return "costs the same" + (" with more volumes" if best.members > winner.members else "")
    parts = {part: best.usd(part) - winner.usd(part) for part in ("instance", "data", "log")}
    part = max(parts, key=lambda name: (parts[name], name))
    why = f"costs {ratio:.3g} x: {best.cost_usd_month:,.2f} against {winner.cost_usd_month:,.2f} USD a month; {parts[part]:,.2f} more for the {part}"
    if part == "instance" and best.instance != winner.instance:
        why += f" ({best.instance} instead of {winner.instance})"
    return why if more > 0 else "costs the same"


def _failing(best: TransactionChoice) -> str:
    words = "; ".join(best.misses) or "not sure enough"
    if best.runs_dry_at_s is not None:
        words += f"; credits are gone after {best.runs_dry_at_s / 3600:.3g} h"
    return f"{words}; binds: {best.binds['words']}"


def compare_engines(plans: tuple[TransactionPlan, TransactionPlan]) -> EngineComparison:
    """Which of two databases meets the goals for less."""
    costs = [plan.winner.cost_usd_month if plan.winner else None for plan in plans]
    told = [_engine_in_words(plan) for plan in plans]
    names = [plan.engine if plans[0].engine != plans[1].engine else plan.workload for plan in plans]
    if costs[0] is None and costs[1] is None:
        return EngineComparison(plans, None, f"Neither meets the goals. {told[0]} {told[1]}")
    if costs[0] is None or costs[1] is None:
        place = 0 if costs[1] is None else 1
        return EngineComparison(plans, place, f"Only {names[place]} meets the goals. {told[0]} {told[1]}")
    place = 0 if costs[0] <= costs[1] else 1
    less = abs(costs[0] - costs[1])
    share = less / max(costs)
    if share < SIGNIFICANTLY_DEARER - 1.0:
        return EngineComparison(plans, place, f"Both cost the same. {told[0]} {told[1]}")
    return EngineComparison(plans, place, f"{names[place]} wins: {less:,.2f} USD a month less ({share:.0%}). {told[0]} {told[1]}")


def _engine_in_words(plan: TransactionPlan) -> str:
    holds = f"{plan.engine} ({plan.size_gib:,.0f} GiB)"
    best = plan.winner or (plan.closest[0] if plan.closest else None)
    if best is None:
        return f"{holds}: nothing comes close."
    cost = f"{best.place}, cache {best.cache_gib:.3g} GiB, {best.cost_usd_month:,.2f} USD a month, {best.metrics['tps']:,.0f} tps"
    return f"{holds}: {cost}." if plan.winner else f"{holds}: closest is {cost}: {'; '.join(best.misses)}."


def explain(evaluator, setting, choices: Sequence[TransactionChoice]) -> list[str]:
    """The arithmetic of some choices, line by line."""
    lines = [
        f"data: {setting.data_gib:,} GiB; redo and a day of binlogs: {setting.log_gib:,} GiB, beside the data or on a volume of their own"
    ]
    about = evaluator.conditions
    asks = f"{about.threads} clients" if about.threads else f"{about.arrivals_tps:g} transactions a second arrive"
    lines.append(f"{asks}; {about.start} start, {about.hours:g} h; what is sustained is the worst hour")
    for choice in {choice.place: choice for choice in choices}.values():
        lines += ["", choice.place, *(f"  {line}" for line in _of(choice, evaluator))]
    return lines


def _of(choice: TransactionChoice, evaluator) -> list[str]:
    per, tps = choice.per_transaction, choice.metrics["tps"]
    conditions = evaluator.conditions
    with core_errors():
        limits = _core.storage_limits(choice.storage, conditions.as_of, choice.instance)
    iops, mib_s = (sum(limit[name] or 0 for limit in limits) for name in ("iops", "throughput_bytes_s"))
    lines = []
    if choice.instance:
        lines.append(f"cache: {choice.memory_gib:,.4g} GiB of memory -> {choice.cache_gib:,.4g} GiB")
    lines.append(
        f"a transaction: {per['reads']:.3g} page reads, {per['ios']:.3g} I/Os of up to 256 KiB, {per['mib'] * 1024:,.0f} KiB, on all devices, log included"
    )
    lines.append(
        f"{tps:,.0f} tps x {per['ios']:.3g} = {tps * per['ios']:,.0f} IOPS; x {per['mib'] * 1024:,.0f} KiB = {tps * per['mib']:,.0f} MiB/s"
    )
    lines.append(
        f"data volumes sell {iops:,} IOPS and {mib_s / MIB:,.0f} MiB/s ({choice.members} x {choice.volume_type}; writes to mirrors count twice)"
    )
    if choice.vcpus:
        cpu = evaluator.database["clients"]["cpu_ms"]
        lines.append(f"processors: {tps:,.0f} tps x {cpu:.3g} ms = {tps * cpu / 1000:.3g} of {choice.vcpus} virtual CPUs")
    if choice.runs_dry_at_s is not None:
        lines.append(f"credits are gone after {choice.runs_dry_at_s / 3600:.3g} h")
    lines.append(f"binds: {choice.binds['words']}")
    lines.append(
        f"tps {number(tps)}, 80 % interval {number(choice.tps_low)} to {number(choice.tps_high)}; one-second tps above {number(choice.metrics['tps_p5'])} 95 % of the time; p95 {number(choice.metrics['p95_ms'])} ms"
    )
    for goal, probability in choice.goal_probabilities.items():
        lines.append(f"goal {goal}: holds with {probability:.0%}")
    lines += [
        f"{item['part']}: {item['item']}: {item['quantity']:,.6g} {item['unit']} x {item['unit_price_usd']:g} = {item['usd']:,.2f} USD ({item['source']}, {item['as_of']})"
        for item in choice.items
    ]
    lines.append(f"together {choice.cost_usd_month:,.2f} USD a month; data: {choice.durability}")
    if choice.regret_expected_usd is not None:
        lines.append(
            f"regret over what the calibration leaves open: {choice.regret_expected_usd:,.2f} USD a month expected, {choice.regret_worst_usd:,.2f} worst"
        )
    return lines
