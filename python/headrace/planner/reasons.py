"""Why each family won or lost, and the arithmetic of the winner, in words with numbers."""

from __future__ import annotations

from collections.abc import Sequence

from headrace import _core
from headrace.core import MIB
from headrace.errors import core_errors
from headrace.planner.candidates import Family
from headrace.planner.choice import CAP_WORDS, Chooser
from headrace.planner.goals import MAX_HEADROOM_PERCENT
from headrace.planner.result import Choice, FamilyVerdict

SIGNIFICANTLY_DEARER = 1.005  # below this two costs are called the same


def verdict(choice: Choice | None, family: Family, winner: Choice | None, overload: float | None, size_gib: int) -> FamilyVerdict:
    """The verdict on a family whose best (or nearest) candidate is `choice`; None: no candidate could be simulated and priced."""
    if choice is None:
        return FamilyVerdict(family.name, "impossible", f"no {family.name} holds {size_gib:,} GiB with a known price")
    ratio = choice.cost_usd_month / winner.cost_usd_month if winner and winner.cost_usd_month > 0 else None
    if winner is not None and (choice.storage, choice.instance) == (winner.storage, winner.instance):
        outcome, why = "wins", f"cheapest that meets every goal; binds: {choice.binds['words']}"
        why += "" if choice.persistent else "; the data is gone with the instance"
    elif choice.meets_goals:
        outcome, why = "costs more", _dearer(choice, family, winner, ratio, size_gib)
    else:
        outcome, why = "fails", _failing(choice, overload)
    return FamilyVerdict(family.name, outcome, why, choice.storage, choice.instance, choice.cost_usd_month, ratio, overload, choice.metrics)


def _dearer(choice: Choice, family: Family, winner: Choice, ratio: float | None, size_gib: int) -> str:
    more = choice.cost_usd_month - winner.cost_usd_month
    if ratio is None or ratio < SIGNIFICANTLY_DEARER:
        return "costs the same" + (" with more volumes" if choice.members > winner.members else "")
    why = f"costs {ratio:.3g} x: {choice.cost_usd_month:,.2f} against {winner.cost_usd_month:,.2f} USD a month"
    paid = {item["item"]: item["usd"] for item in winner.items}
    extra, item = max((item["usd"] - paid.get(item["item"], 0.0), item["item"]) for item in choice.items)
    why += f"; {extra:,.2f} more for {item}" if extra > 0.5 * more else ""
    if family.min_gib > size_gib * family.data_share / choice.members and family.min_gib > 1:
        why += f"; smallest size {family.min_gib:,} GiB a volume"
    elif choice.usable_gib >= 1.5 * size_gib and family.axis == "size":
        why += f"; performance is bought by size: {choice.usable_gib:,.0f} GiB for {size_gib:,} GiB of data"
    return why


def _failing(choice: Choice, overload: float | None) -> str:
    parts = []
    if overload is not None and overload > 1:
        parts.append(f"cannot deliver: asks {overload:.3g} x what {choice.storage} sustains")
    if choice.runs_dry:
        parts.append(choice.runs_dry["words"])
    # Hours of backlog say nothing more once it is known that the demand cannot be delivered.
    parts += [
        miss
        for miss in choice.misses
        if not (parts and overload and overload > 1 and not miss.startswith(("throttled", "monthly", "holds")))
    ]
    if choice.binds["throttled_s"] > 0:
        parts.append(f"binds: {choice.binds['words']}")
    return "; ".join(parts)


def explain(chooser: Chooser, choices: Sequence[tuple[Family, Choice]]) -> list[str]:
    """The arithmetic of each choice, line by line: capacity, demand against limits, balance, bill, head-room."""
    lines = []
    for place, (family, choice) in enumerate(choices, 1):
        lines.append(f"{place}. {choice.storage}" + (f" on {choice.instance}" if choice.instance else ""))
        lines += ["   " + line for line in _arithmetic(chooser, family, choice)]
    return lines


def _arithmetic(chooser: Chooser, family: Family, choice: Choice) -> list[str]:
    evaluator = chooser.evaluator
    instance = next((entry for entry in evaluator.instances if entry["instance_type"] == choice.instance), None)
    with core_errors():
        limits = _core.storage_limits(choice.storage, evaluator.as_of, choice.instance)[0]
    lines = [
        f"data: {chooser.size_gib:,} GiB needed, {choice.usable_gib:,.0f} GiB usable "
        f"of {choice.members} x {limits['spec']['size_gib']:,} GiB"
    ]
    lines += _capacity(family, limits)
    for used in chooser.utilisations(family, choice.members, limits, instance):
        whose = "all volumes together" if used["cap"].startswith("instance") else "a volume"
        lines.append(
            f"peak {chooser.moment(used['at_s'])}: {used['asked']:,.1f} {used['unit']} asked of {whose}, "
            f"{CAP_WORDS[used['cap']]} {used['allowed']:,.1f}: {used['utilisation']:.1%}"
        )
    if choice.metrics["lowest_balance_percent"] is not None and (limits["io_burst"] or limits["byte_burst"]):
        lines.append(f"lowest credit balance {choice.metrics['lowest_balance_percent']:.1f} %")
    if choice.runs_dry:
        lines.append(choice.runs_dry["words"])
    lines.append(f"binds: {choice.binds['words']}")
    for item in choice.items:
        price = f"{item['quantity']:,.10g} {item['unit']} x {item['unit_price_usd']:.10g} USD = {item['usd']:,.2f} USD"
        lines.append(f"bill: {item['item']}: {price} ({item['source']}, {item['as_of']})")
    lines.append(f"bill: together {choice.cost_usd_month:,.2f} USD a month")
    lines += [
        f"goal: {goal}: {_shown(choice.metrics[goal.metric])} {'met' if goal.met_by(choice.metrics[goal.metric]) else 'MISSED'}"
        for goal in evaluator.goals
    ]
    if choice.headroom_percent is not None:
        lines.append(
            f"head-room: demand can grow by {choice.headroom_percent:.0f} % before a goal on performance fails "
            f"(1 % steps, up to {MAX_HEADROOM_PERCENT} %; data aside)"
        )
    lines.append(f"durability: {choice.durability}; consistency: {choice.consistency}")
    return lines


def _capacity(family: Family, limits: dict) -> list[str]:
    size = limits["spec"]["size_gib"]
    mib_s = limits["throughput_bytes_s"] / MIB
    if limits["io_burst"]:
        burst, per_gib = limits["io_burst"], family.figure("iops", "per_gib")
        seconds = burst["capacity_ios"] / max(1, burst["iops"] - limits["iops"])
        return [
            f"baseline: {per_gib:g} IOPS/GiB x {size:,} GiB = {per_gib * size:,.0f}, "
            f"within limits {limits['iops']:,} IOPS a volume; {mib_s:,.0f} MiB/s",
            f"burst: {burst['iops']:,} IOPS; {burst['capacity_ios']:,} credits / ({burst['iops']:,} - {limits['iops']:,}) "
            f"= {seconds:,.0f} s at full burst",
        ]
    if limits["byte_burst"]:
        burst = limits["byte_burst"]
        baseline, capacity = burst["baseline_bytes_s"] / MIB, burst["capacity_bytes"] / MIB
        lines = [f"baseline: {baseline:,.1f} MiB/s a volume of {size:,} GiB; burst {mib_s:,.1f} MiB/s"]
        if mib_s > baseline:
            seconds = capacity / (mib_s - baseline)
            lines.append(f"credits: {capacity:,.0f} MiB / ({mib_s:,.1f} - {baseline:,.1f}) = {seconds:,.0f} s at full burst")
        return lines
    return [f"capacity: {limits['iops']:,} IOPS and {mib_s:,.0f} MiB/s a volume"]


def _shown(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.4g}"
