"""A plan as text: ranked choices, the reasons others lost, the bill."""

from __future__ import annotations

from headrace.report.words import latency, number, span, usd

CHOICE_COLUMNS = (
    "rank",
    "storage",
    "instance",
    "USD/month",
    "p99",
    "throttled",
    "lowest balance",
    "binds",
    "head-room",
    "runs dry",
    "AFR %",
)
CHOICE_RIGHT = ("rank", "USD/month", "p99", "throttled", "lowest balance", "head-room", "AFR %")
BILL_COLUMNS = ("item", "quantity", "unit", "unit price", "USD", "source", "as of")


def name_of(choice) -> str:
    """Storage, and the instance where there is one."""
    return f"{choice.storage} on {choice.instance}" if choice.instance else choice.storage


def choice_table(plan) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the ranked table, today's storage last; columns that say nothing are left out."""
    rows = [choice_row(rank, choice) for rank, choice in enumerate(plan.winners or plan.closest, 1)]
    if plan.compared is not None:
        rows.append(choice_row("now", plan.compared))
    kept = [index for index, _ in enumerate(CHOICE_COLUMNS) if any(row[index] not in ("-", "none", "no") for row in rows)]
    return [CHOICE_COLUMNS[index] for index in kept], [[row[index] for index in kept] for row in rows]


def choice_row(rank: object, choice) -> tuple[str, ...]:
    """One row of the ranked table."""
    metrics = choice.metrics
    throttled = metrics.get("throttled_min")
    balance = metrics.get("lowest_balance_percent")
    credits = choice.volume_type in ("gp2", "st1", "sc1") and balance is not None
    head_room = "-" if choice.headroom_percent is None else f"+{number(choice.headroom_percent)} %"
    dry = choice.runs_dry or {}
    return (
        str(rank), choice.storage, choice.instance or "-", usd(choice.cost_usd_month), latency(metrics.get("p99_ms")),
        "-" if throttled is None else span(60 * throttled), f"{number(balance)} %" if credits else "none",
        choice.binds.get("words", "-"), head_room, dry.get("words", "no" if credits else "-"),
        number(choice.durability_afr_percent, 2) if choice.persistent else "lost with the instance",
    )  # fmt: skip


def verdict_rows(plan) -> list[tuple[str, ...]]:
    """Why each family won or lost."""
    return [
        (verdict.family, verdict.outcome, name_of(verdict) if verdict.storage else "-",
         usd(verdict.cost_usd_month), verdict.why)
        for verdict in plan.families
    ]  # fmt: skip


def bill_rows(choice) -> list[tuple[str, ...]]:
    """The monthly bill, item by item, with the total."""
    rows = [
        (item["item"], number(item["quantity"], 6), item["unit"], f"{item['unit_price_usd']:g}", usd(item["usd"]),
         item.get("source") or "", item.get("as_of") or "")
        for item in choice.items
    ]  # fmt: skip
    return [*rows, ("together", "", "", "", usd(choice.cost_usd_month), "", "")]


def goals_in_words(plan) -> list[str]:
    """The goals as they were understood."""
    return [str(goal) for goal in plan.goals]


def found(plan) -> list[tuple[str, str]]:
    """The answer in a few sentences, each with a mark: "good", "warn" or ""."""
    lines = []
    if plan.winners:
        best = plan.winners[0]
        lines.append((f"Cheapest that meets every goal: {name_of(best)}, {usd(best.cost_usd_month)} USD a month.", "good"))
    elif plan.closest:
        near = plan.closest[0]
        lines.append(
            (
                f"Nothing meets every goal. Closest: {name_of(near)}, {usd(near.cost_usd_month)} USD a month: {'; '.join(near.misses)}.",
                "warn",
            )
        )
    else:
        lines.append(("Nothing meets every goal, and nothing comes close: no volume of that day can hold or carry this load.", "warn"))
    if plan.compared is not None:
        lines.append((compared(plan), ""))
    lines.append(
        (
            f"{plan.considered:,} candidates considered: {plan.simulated:,} simulated, {plan.bounded:,} cannot deliver the demand, "
            f"{plan.invalid:,} not possible.",
            "",
        )
    )
    return lines


def compared(plan) -> str:
    """Today's volume beside the answer."""
    now = plan.compared
    line = f"Today {name_of(now)} costs {usd(now.cost_usd_month)} USD a month and " + (
        "meets every goal" if now.meets_goals else f"fails: {'; '.join(now.misses)}"
    )
    if plan.saving_usd_month is not None:
        saving = plan.saving_usd_month
        line += f"; the plan {'saves' if saving >= 0 else 'costs'} {usd(abs(saving))} USD a month" + ("" if saving >= 0 else " more")
        # A year of it: what a budget is made of.
        line += f", {usd(abs(saving) * 12)} a year"
    return line + "."


# Metrics that stand in columns of their own.
STATED = ("cost_usd_month", "headroom_percent", "durability_afr_percent")


def frame_of(plan):
    """The ranked choices (and today's, rank 0) as a frame for CSV: one row each, numbers in the units of their names."""
    import polars as pl

    choices = [(rank, choice) for rank, choice in enumerate(plan.winners or plan.closest, 1)]
    if plan.compared is not None:
        choices.append((0, plan.compared))
    rows = [
        {
            "rank": rank, "storage": choice.storage, "instance": choice.instance, "family": choice.family, "members": choice.members,
            "usable_gib": choice.usable_gib, "cost_usd_month": choice.cost_usd_month, "meets_goals": choice.meets_goals,
            "headroom_percent": choice.headroom_percent, "binds": choice.binds.get("cap"),
            "durability_afr_percent": choice.durability_afr_percent,
        }
        | {key: value for key, value in choice.metrics.items() if key not in STATED}
        for rank, choice in choices
    ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)
