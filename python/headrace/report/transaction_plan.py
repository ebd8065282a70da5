"""A plan for transactions as text, frame and page."""

from __future__ import annotations

from pathlib import Path

from headrace.report.words import latency, number, percent, span, usd

COLUMNS = (
    "rank", "instance", "storage", "log", "cache GiB", "USD/month", "instance USD", "data USD", "log USD", "tps", "80 %", "p95", "binds", "runs dry", "probability",
    "regret USD", "data survives a stop",
)  # fmt: skip
RIGHT = ("rank", "cache GiB", "USD/month", "instance USD", "data USD", "log USD", "tps", "p95", "probability", "regret USD")
VERDICTS = ("family", "outcome", "best candidate", "USD/month", "why")
BILL = ("part", "item", "quantity", "unit", "unit price", "USD", "source", "as of")
# Of the table; the whole words are in the arithmetic.
BINDS = {
    "none": "nothing", "clients": "clients", "cpu": "processors", "volume-iops": "IOPS", "volume-throughput": "MiB/s", "volume-credits": "credits gone",
    "instance-iops": "EBS IOPS", "instance-throughput": "EBS MiB/s", "instance-credits": "EBS burst gone",
}  # fmt: skip
REGRET = (
    "Regret: what is spent beyond the cheapest that would have met the goals, or on a choice that misses them and must be bought again."
)


def durability_class(choice) -> str:
    """Whether the data outlives a stop of the instance, and the annual failure rate of its storage."""
    if not choice.persistent:
        return "no"
    return "yes" if choice.durability_afr_percent is None else f"yes, AFR {number(choice.durability_afr_percent, 2)} %"


def binds_shortly(choice) -> str:
    """What binds, in a word or two; `log:` before what binds on the log volume."""
    cap = choice.binds["cap"] or "none"
    name = cap.removeprefix("log-")
    return ("log: " if name != cap else "") + BINDS.get(name, name)


def row(rank: object, choice) -> list[str]:
    """One row of the ranked table."""
    regret = (
        "-" if choice.regret_expected_usd is None else f"{number(choice.regret_expected_usd)} (worst {number(choice.regret_worst_usd)})"
    )
    return [
        str(rank), choice.instance or "-", choice.storage, choice.log_storage or "with data", number(choice.cache_gib), usd(choice.cost_usd_month),
        *(usd(choice.usd(part)) for part in ("instance", "data", "log")), number(choice.metrics["tps"]), f"{number(choice.tps_low)} to {number(choice.tps_high)}",
        latency(choice.metrics["p95_ms"]), binds_shortly(choice), "-" if choice.runs_dry_at_s is None else f"after {span(choice.runs_dry_at_s)}",
        percent(choice.probability), regret, durability_class(choice),
    ]  # fmt: skip


def ranked(plan) -> list[tuple[object, object]]:
    """Rank and choice: winners or what comes closest, then the least regretted, the lasting one and today's where they are others."""
    shown = list(enumerate(plan.winners or plan.closest, 1))
    places = {choice.place for _, choice in shown}
    for rank, choice in (("least regret", plan.least_regret), ("lasting", plan.lasting), ("now", plan.compared)):
        if choice is not None and (rank == "now" or choice.place not in places):
            places.add(choice.place)
            shown.append((rank, choice))
    return shown


def choice_table(plan, narrow: bool = False) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the ranked table; columns that say nothing are left out, and where it is to be `narrow` also those that --explain and the page tell."""
    rows = [row(rank, choice) for rank, choice in ranked(plan)]
    dropped = {"cache GiB", "instance USD", "data USD", "log USD", "80 %", "runs dry", "regret USD"} if narrow else set()
    if narrow:
        rows = [[*cells[:-1], cells[-1].split(",")[0]] for cells in rows]
    kept = [index for index, name in enumerate(COLUMNS) if name not in dropped and any(cells[index] not in ("-", "0.00") for cells in rows)]
    return [COLUMNS[index] for index in kept], [[cells[index] for index in kept] for cells in rows]


def verdict_rows(plan) -> list[tuple[str, ...]]:
    """Why each family won or lost."""
    return [
        (one.family, one.outcome, one.best.place if one.best else "-", usd(one.best.cost_usd_month) if one.best else "-", one.why)
        for one in plan.families
    ]


def bill_rows(choice) -> list[tuple[str, ...]]:
    """The monthly bill, item by item, with the total."""
    rows = [
        (
            item["part"],
            item["item"],
            number(item["quantity"], 6),
            item["unit"],
            f"{item['unit_price_usd']:g}",
            usd(item["usd"]),
            item["source"] or "",
            item["as_of"] or "",
        )
        for item in choice.items
    ]
    return [*rows, ("together", "", "", "", "", usd(choice.cost_usd_month), "", "")]


def found(plan) -> list[tuple[str, str]]:
    """The answer in a few sentences, each with a mark: "good", "warn" or ""."""
    lines = []
    if plan.winner:
        lines += _winner(plan)
    elif plan.closest:
        near = plan.closest[0]
        lines.append(
            (f"Nothing meets every goal. Closest: {near.place}, {usd(near.cost_usd_month)} USD a month: {'; '.join(near.misses)}.", "warn")
        )
    else:
        lines.append(("Nothing meets every goal, and nothing comes close.", "warn"))
    lines += _regret(plan)
    if plan.compared is not None:
        lines.append((compared(plan), ""))
    lines.append(
        (
            f"{plan.considered:,} candidates on {plan.instances:,} instances considered: {plan.simulated:,} simulated, {plan.bounded:,} cannot reach the goals even "
            f"with full credits, {plan.invalid:,} not possible. Doubt from {plan.draws} databases drawn from the calibration.",
            "",
        )
    )
    return lines


def _winner(plan) -> list[tuple[str, str]]:
    """The cheapest; where its data are on local disks, first the cheapest whose data survive a stop of the instance."""
    best, lasting = plan.winner, plan.lasting
    words = f"that meets every goal with {plan.confidence:.0%} or more"

    def told(choice) -> str:
        return f"{choice.place}, {usd(choice.cost_usd_month)} USD a month; {number(choice.metrics['tps'])} tps, probability {percent(choice.probability)}."

    if best.persistent:
        return [(f"Cheapest {words}: {told(best)}", "good")]
    gone = "on local disks: all data is gone when the instance stops, hibernates or terminates"
    if lasting is None:
        return [(f"Cheapest {words}: {told(best)}", "good"), (f"It is {gone}.", "warn")]
    return [(f"Cheapest {words} and keeps its data: {told(lasting)}", "good"), (f"Cheaper, but {gone}: {told(best)}", "warn")]


def _regret(plan) -> list[tuple[str, str]]:
    best = plan.least_regret
    if best is None:
        return []
    figures = f"{usd(best.regret_expected_usd)} USD a month expected, {usd(best.regret_worst_usd)} worst"
    if plan.winner and best.place == plan.winner.place:
        lines = [(f"{best.place} is also the choice of least regret: {figures}.", "")]
    else:
        less = "" if best.meets_goals else ", less than asked"
        words = f"Least regret over what the calibration leaves open: {best.place}, {usd(best.cost_usd_month)} USD a month, probability {percent(best.probability)}{less}: {figures}"
        cheap = plan.winner.regret_expected_usd if plan.winner else None
        lines = [
            (words + ("." if cheap is None else f"; the cheapest: {usd(cheap)} expected, {usd(plan.winner.regret_worst_usd)} worst."), "")
        ]
    lines[0] = (f"{lines[0][0]} {REGRET}", "")
    if plan.undecided:
        lines.append(
            (
                f"In {percent(plan.undecided)} of the cases the calibration leaves open nothing looked at meets the goals; regret leaves them out.",
                "warn",
            )
        )
    return lines


def compared(plan) -> str:
    """Today's beside the answer."""
    now = plan.compared
    line = f"Today {now.place} costs {usd(now.cost_usd_month)} USD a month and " + (
        "meets every goal" if now.meets_goals else f"fails: {'; '.join(now.misses)}"
    )
    if plan.saving_usd_month is not None:
        saving = plan.saving_usd_month
        line += (
            f"; the plan {'saves' if saving >= 0 else 'costs'} {usd(abs(saving))} USD a month"
            + ("" if saving >= 0 else " more")
            + f", {usd(abs(saving) * 12)} a year"
        )
    return line + "."


def title(plan) -> str:
    """Workload, goals and conditions in a line."""
    goals = " and ".join(map(str, plan.goals))
    asks = f"{plan.threads} clients" if plan.threads else f"{plan.arrivals_tps:g} arriving a second"
    return f"{plan.workload} ({plan.engine}): {goals}, {asks}, {plan.start} start, {plan.hours:g} h, {plan.size_gib:g} GiB, {plan.region}, {plan.as_of}"


def frame_of(plan):
    """The ranked choices (least regret -1, lasting -2, today's 0) as a frame for CSV: one row each, numbers in the units of their names."""
    import polars as pl

    ranks = {"least regret": -1, "lasting": -2, "now": 0}
    rows = [
        {
            "rank": ranks.get(rank, rank), "instance": choice.instance, "storage": choice.storage, "log_storage": choice.log_storage, "family": choice.family,
            "members": choice.members, "vcpus": choice.vcpus, "cache_gib": choice.cache_gib, "usable_gib": choice.usable_gib, "cost_usd_month": choice.cost_usd_month,
            "instance_usd_month": choice.usd("instance"), "data_usd_month": choice.usd("data"), "log_usd_month": choice.usd("log"), "tps": choice.metrics["tps"],
            "tps_low": choice.tps_low, "tps_high": choice.tps_high, "tps_p5": choice.metrics["tps_p5"], "p95_ms": choice.metrics["p95_ms"],
            "backlog_s": choice.metrics["backlog_s"], "binds": choice.binds["cap"], "runs_dry_at_s": choice.runs_dry_at_s, "probability": choice.probability,
            "meets_goals": choice.meets_goals, "regret_expected_usd": choice.regret_expected_usd, "regret_worst_usd": choice.regret_worst_usd,
            "persistent": choice.persistent, "durability_afr_percent": choice.durability_afr_percent,
        }
        for rank, choice in ranked(plan)
    ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def write_plans(path: Path, plans, words: str | None = None) -> None:
    """One or two plans as a page; `words`: which engine wins. Raises CouldNotRun."""
    from headrace.report.html import Page
    from headrace.report.output import write_text

    first = plans[0]
    made = Page(f"Instance and storage for {' or '.join(dict.fromkeys(plan.workload for plan in plans))}", title(first))
    if words:
        made.paragraph(words, "good" if any(plan.winner for plan in plans) else "warn")
    for plan in plans:
        if len(plans) > 1:
            made.heading(f"{plan.workload} ({plan.engine}, {plan.size_gib:,.0f} GiB)")
        _section(made, plan)
    write_text(path, made.render())


def _section(made, plan) -> None:
    from headrace.report.transaction_charts import cost_against_tps

    for line, mark in found(plan):
        made.paragraph(line, mark)
    made.heading("Goals")
    made.items(map(str, plan.goals))
    made.heading("The cheapest that meet them" if plan.winners else "What comes closest")
    columns, rows = choice_table(plan)
    made.table(columns, rows, RIGHT, first=bool(plan.winners))
    chart = cost_against_tps(plan)
    if chart is not None:
        made.heading("Cost against transactions a second")
        made.chart(
            chart, "Sustained transactions a second with their 80 % interval against monthly cost, along the best candidates of each family"
        )
    made.heading("Why the others lost")
    made.table(VERDICTS, verdict_rows(plan), ("USD/month",))
    shown = plan.winners or plan.closest
    if shown:
        made.heading(f"The bill of {shown[0].place}")
        made.table(BILL, bill_rows(shown[0]), ("quantity", "unit price", "USD"))
    made.heading("The arithmetic")
    made.lines(plan.explain)
    made.heading("What to know before buying")
    made.items([*plan.caveats, *(f"{name} was left out: {why}" for name, why in plan.skipped_instances)])
