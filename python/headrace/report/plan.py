"""A plan as text, frame and page: the answer, ranked choices, why others lost, what to do next, the bill. Of demand and of databases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.report.words import latency, number, percent, span, usd

if TYPE_CHECKING:
    from headrace.planner import Choice

RIGHT = ("rank", "USD/month", "I/O p99", "throttled", "head-room", "AFR a year", "tps", "p95", "probability", "cache GiB", "lowest balance")
KEEP = ("rank", "storage", "instance", "log", "80 % of tps")
PROSE = ("bottleneck", "credits", "why", "what")
DROP = ("throttled", "lowest balance", "80 % of tps", "cache GiB", "AFR a year")
VERDICTS = ("family", "outcome", "best candidate", "USD/month", "why")
BILL = ("part", "item", "quantity", "unit", "unit price", "USD", "source", "as of")
BILL_RIGHT = ("quantity", "unit price", "USD")
# A family so much dearer than the cheapest, or so far from carrying the demand, gets no line of its own unless it is asked for.
FAR = 3.0
MOST_HEADROOM_PERCENT = 400  # where the search for head-room ends (planner/goals.py)
# Metrics that stand in columns of their own.
STATED = ("cost_usd_month", "headroom_percent", "durability_afr_percent")
REGRET = (
    "Regret: what is spent beyond the cheapest that would have met the goals, or on a choice that misses them and must be bought again."
)


# --- the answer in sentences --------------------------------------------------------------------------------------------


def found(plan) -> list[tuple[str, str]]:
    """The answer in a few sentences, each with a mark: "good", "warn" or ""."""
    lines: list[tuple[str, str]] = [(words, "warn") for words in plan.warnings]
    if plan.recommended is not None:
        lines += _recommended(plan)
    elif plan.closest:
        near = plan.closest[0]
        lines.append(
            (f"Nothing meets every goal. Closest: {near.place}, {usd(near.cost_usd_month)} USD a month: {'; '.join(near.misses)}.", "warn")
        )
    else:
        lines.append(("Nothing meets every goal, and nothing comes close: no volume of that day can hold or carry this load.", "warn"))
    lines += _regret(plan)
    if plan.compared is not None:
        lines += _today(plan)
    lines += [(_check_words(check), "") for check in plan.checks]
    lines.append((_considered(plan), ""))
    lines.append((f"{plan.prices}.", ""))
    return lines


def _recommended(plan) -> list[tuple[str, str]]:
    best, cheapest = plan.recommended, plan.winner
    same = cheapest is not None and cheapest.key == best.key
    lines = [
        (
            f"Recommended{', and the cheapest that meets every goal' if same else ''}: {best.place}, {usd(best.cost_usd_month)} USD a month; {_facts(plan, best)}.",
            "good",
        )
    ]
    if not same and plan.why_recommended:
        lines.append((f"Cheapest that meets every goal: {plan.why_recommended}", ""))
    if not best.persistent:
        lines.append(("Its data are on local disks: all gone when the instance stops, hibernates or terminates.", "warn"))
    if best.headroom_percent == 0:
        lines.append(("It has no head-room: any growth of the demand breaks a goal.", "warn"))
    lines += [(words, "warn") for words in best.far_from_runs]
    if best.runs_dry:
        lines.append((f"Credits: {best.runs_dry['words']}.", "warn"))
    if best.first_day:
        lines.append((_first_day(best), ""))
    return lines


def _facts(plan, choice) -> str:
    """What a DBA asks first, in one line."""
    parts = []
    if plan.subject == "database":
        apart = " with the head-room" if plan.arrivals_tps and (choice.headroom_percent or 0) > 0 else ""
        parts.append(
            f"{number(choice.metrics['tps'])} tps{apart}, p95 {latency(choice.metrics['p95_ms'])}, probability {percent(choice.probability)}"
        )
    else:
        parts.append(f"I/O p99 of the worst 5 min {latency(choice.metrics['p99_ms'])}")
    if choice.headroom_percent is not None:
        parts.append(f"head-room {headroom(choice)}")
    parts.append(durability(choice))
    return "; ".join(parts)


def headroom(choice) -> str:
    """`+21 %`, or that there is none."""
    if choice.headroom_percent is None:
        return "-"
    if choice.headroom_percent >= MOST_HEADROOM_PERCENT:
        return f"{MOST_HEADROOM_PERCENT} % or more"
    return f"+{number(choice.headroom_percent)} %" if choice.headroom_percent else "none"


def durability(choice) -> str:
    """The chance to lose the data in a year, in words."""
    if not choice.persistent:
        return "the data are gone when the instance stops"
    if choice.durability_afr_percent is None:
        return "no annual failure rate is published"
    one_in = 100.0 / choice.durability_afr_percent if choice.durability_afr_percent else float("inf")
    return f"up to {number(choice.durability_afr_percent, 2)} % a year to lose the data (1 in {number(one_in, 2)})"


def _first_day(choice) -> str:
    first = choice.first_day
    parts = []
    if first.get("tps") is not None:
        parts.append(f"{number(first['tps'])} tps on average on the first day, {number(choice.metrics['tps'])} once they are spent")
    if first.get("lowest_balance_percent") is not None:
        parts.append(
            f"credits fall to {number(first['lowest_balance_percent'])} % on the first day, to {number(choice.metrics['lowest_balance_percent'])} % once days repeat"
        )
    if first.get("p99_ms") is not None and choice.metrics["p99_ms"] is not None:
        parts.append(f"I/O p99 of the worst 5 min {latency(first['p99_ms'])} on the first, {latency(choice.metrics['p99_ms'])} then")
    return f"With full credits: {'; '.join(parts)}."


def _today(plan) -> list[tuple[str, str]]:
    now, best, saving = plan.compared, plan.recommended, plan.saving
    line = f"Today {now.place} costs {usd(now.cost_usd_month)} USD a month and " + (
        "meets every goal" if now.meets_goals else f"fails: {'; '.join(now.misses)}"
    )
    lines = [(line + ".", "" if now.meets_goals else "warn")]
    if now.runs_dry:
        lines.append((f"Today's credits: {now.runs_dry['words']}.", "warn"))
    if saving is not None and best is not None and best.key != now.key and (abs(saving.as_planned) >= 0.005 or saving.equal_space):
        lines.append((_saving(saving, best, now), ""))
    if best is not None and best.migration:
        lines.append((f"From today to the recommendation: {best.migration}.", ""))
    if plan.in_place is not None and (best is None or plan.in_place.key != best.key) and plan.in_place.key != now.key:
        place = plan.in_place
        less = now.cost_usd_month - place.cost_usd_month
        lines.append(
            (
                f"Without moving data: modify today's volumes into {place.storage}, {usd(place.cost_usd_month)} USD a month ({usd(abs(less))} {'less' if less >= 0 else 'more'} than today).",
                "",
            )
        )
    return lines


def _saving(saving, best, now) -> str:
    def words(amount: float) -> str:
        return f"{'saves' if amount >= 0 else 'costs'} {usd(abs(amount))} USD a month{'' if amount >= 0 else ' more'}"

    if saving.equal_space is None:
        return f"The recommendation {words(saving.as_planned)}; it holds less than today's."
    if abs(saving.equal_space - saving.as_planned) < 0.005:
        # A year of it: what a budget is made of.
        return f"The recommendation {words(saving.as_planned)}, {usd(abs(saving.as_planned) * 12)} a year."
    return (
        f"At equal usable space ({number(saving.gib, 6)} GiB) the recommendation {words(saving.equal_space)}, {usd(abs(saving.equal_space) * 12)} a year; "
        f"as planned it {words(saving.as_planned)}, because it holds {number(best.usable_gib + best.log_gib, 6)} GiB and today's {number(now.usable_gib + now.log_gib, 6)}."
    )


def _regret(plan) -> list[tuple[str, str]]:
    best = plan.least_regret
    if best is None:
        return []
    figures = f"{usd(best.regret_expected_usd)} USD a month expected, {usd(best.regret_worst_usd)} worst"
    if plan.recommended and best.key == plan.recommended.key:
        lines = [(f"It is also the choice of least regret: {figures}. {REGRET}", "")]
    else:
        less = "" if best.meets_goals else ", less than asked"
        lines = [
            (
                f"Least regret over what the calibration leaves open: {best.place}, {usd(best.cost_usd_month)} USD a month, probability {percent(best.probability)}{less}: {figures}. {REGRET}",
                "",
            )
        ]
    if plan.undecided:
        lines.append(
            (
                f"In {percent(plan.undecided)} of the cases the calibration leaves open nothing looked at meets the goals; regret leaves them out.",
                "warn",
            )
        )
    return lines


def _check_words(check) -> str:
    return f"Recorded I/O latency beside the model's on today's storage, {check['what']}: recorded {latency(check['recorded_ms'])}, model {latency(check['model_ms'])} (means)."


def _considered(plan) -> str:
    on = f" on {plan.instances:,} {'instance' if plan.instances == 1 else 'instances'}" if plan.instances else ""
    cannot = "cannot reach the goals" if plan.subject == "database" else "cannot deliver the demand"
    words = f"{plan.considered:,} candidates{on} looked at: {plan.simulated:,} simulated, {plan.bounded:,} {cannot}, {plan.invalid:,} not possible"
    words += "; all others are proved to cost more or to fail" if plan.subject == "demand" else ""
    return words + (f". Doubt from {plan.draws} databases drawn from the calibration." if plan.draws else ".")


def title(plan) -> str:
    """Workload, goals and conditions in a line."""
    goals = " and ".join(map(str, plan.goals))
    parts = [f"{plan.name}: {goals}"]
    if plan.subject == "database":
        asks = f"{plan.threads} clients" if plan.threads else f"{plan.arrivals_tps:g} arriving a second"
        parts += [asks, f"{plan.start} start", f"{plan.hours:g} h"]
    else:
        parts.append(f"demand x {plan.demand_growth:.4g}")
        parts.append("credits of the settled day" if plan.cycle == "settled" else "credits of the first day")
    parts += [f"{plan.size_gib:,.5g} GiB of data with {plan.free_percent:g} % free: {plan.needed_gib:,.6g} GiB", plan.region, plan.as_of]
    return ", ".join(parts)


# --- tables -------------------------------------------------------------------------------------------------------------


def ranked(plan) -> list[tuple[object, Choice]]:
    """Rank and choice: winners or what comes closest, then the recommended, the least regretted, the one in place and today's."""
    shown: list[tuple[object, Choice]] = list(enumerate(plan.winners or plan.closest, 1))
    known = {choice.key for _, choice in shown}
    for rank, choice in (
        ("recommended", plan.recommended),
        ("least regret", plan.least_regret),
        ("in place", plan.in_place),
        ("today", plan.compared),
    ):
        if choice is not None and (rank == "today" or choice.key not in known):
            known.add(choice.key)
            shown.append((rank, choice))
    return shown


def choice_table(plan) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the ranked table; columns that say nothing are left out."""
    cells = [
        (_database_cells if plan.subject == "database" else _demand_cells)(_rank(plan, rank, choice), choice)
        for rank, choice in ranked(plan)
    ]
    columns = list(cells[0]) if cells else []
    kept = [name for name in columns if any(row[name] not in ("-", "", "0 s", "none") for row in cells) or name == "head-room"]
    return kept, [[row[name] for name in kept] for row in cells]


def _rank(plan, rank: object, choice) -> str:
    return f"{rank} *" if isinstance(rank, int) and plan.recommended is not None and choice.key == plan.recommended.key else str(rank)


def _demand_cells(rank: str, choice) -> dict[str, str]:
    metrics = choice.metrics
    throttled, balance = metrics.get("throttled_min"), metrics.get("lowest_balance_percent")
    credits = choice.volume_type in ("gp2", "st1", "sc1") and balance is not None
    return {
        "rank": rank, "storage": choice.storage, "instance": choice.instance or "-", "USD/month": usd(choice.cost_usd_month),
        "I/O p99": latency(metrics.get("p99_ms")), "throttled": "-" if throttled is None else span(60 * throttled), "head-room": headroom(choice),
        "AFR a year": _afr(choice), "lowest balance": f"{number(balance)} %" if credits else "-",
        "bottleneck": choice.binds.get("short", "-"), "credits": choice.runs_dry["words"] if choice.runs_dry else "",
    }  # fmt: skip


def _database_cells(rank: str, choice) -> dict[str, str]:
    return {
        "rank": rank, "instance": choice.instance or "-", "storage": choice.storage, "log": choice.log_storage or "with data",
        "cache GiB": number(choice.cache_gib), "USD/month": usd(choice.cost_usd_month), "tps": number(choice.metrics["tps"]),
        "80 % of tps": f"{number(choice.tps_low)} to {number(choice.tps_high)}", "p95": latency(choice.metrics["p95_ms"]),
        "probability": percent(choice.probability), "head-room": headroom(choice), "AFR a year": _afr(choice),
        "bottleneck": choice.binds.get("short", "-"), "credits": choice.runs_dry["words"] if choice.runs_dry else "",
    }  # fmt: skip


def _afr(choice) -> str:
    if not choice.persistent:
        return "lost on stop"
    return "-" if choice.durability_afr_percent is None else f"{number(choice.durability_afr_percent, 2)} %"


def verdict_rows(plan, every: bool = True) -> tuple[list[tuple[str, ...]], list[str]]:
    """Why each family lost, and the names of those that are far off and have no line (`every` False)."""
    rows, far = [], []
    for one in plan.families:
        if one.outcome == "wins":
            continue
        if not every and _is_far(one):
            far.append(one.family)
            continue
        rows.append(
            (one.family, one.outcome, one.best.place if one.best else "-", usd(one.best.cost_usd_month) if one.best else "-", one.why)
        )
    return rows, far


def _is_far(one) -> bool:
    if one.best is None:
        return one.outcome != "impossible" or "does not exist" in one.why or "is what io2 is" in one.why
    return (one.cost_ratio or 0.0) > FAR or (one.outcome == "fails" and (one.overload or 0.0) > 1.0)


def bill_rows(choice) -> list[tuple[str, ...]]:
    """The monthly bill, item by item, with the total."""
    rows = [
        (
            item["part"],
            item["item"],
            number(item["quantity"], 6),
            item["unit"],
            f"{item['unit_price_usd']:.6g}",
            usd(item["usd"]),
            item["source"] or "",
            item["as_of"] or "",
        )
        for item in choice.items
    ]
    return [*rows, ("together", "", "", "", "", usd(choice.cost_usd_month), "", "")]


def next_lines(plan) -> list[str]:
    """What to do next, with the lines to paste and how to undo it."""
    lines = []
    for action in plan.actions:
        lines.append(f"{action['what']}:")
        lines += [f"    {line}" for line in action["lines"]]
        lines += [f"    undo: {action['undo']}"] if action["undo"] else []
    if plan.alarms:
        lines.append("CloudWatch alarms worth having:")
        lines += [f"    {alarm_words(alarm)}" for alarm in plan.alarms]
    return lines


def alarm_words(alarm: dict) -> str:
    """An alarm in a line."""
    when = f"{alarm['points']} of {alarm['of']} x {span(alarm['period_s'])}" if alarm["of"] > 1 else span(alarm["period_s"])
    return f"{alarm['namespace']} {alarm['metric']} {alarm['statistic']} {alarm['comparison']} {number(alarm['threshold'])}, {when}: {alarm['why']}"


def text_parts(plan, *, explain: bool = False, families: bool = False) -> list:
    """The plan for a terminal: sentences and tables."""
    from headrace.report.tables import table

    columns, rows = choice_table(plan)
    parts: list = [line for line, _ in found(plan)]
    parts += ["", table(columns, rows, title=title(plan), right=RIGHT, keep=KEEP, prose=PROSE, drop=DROP)]
    parts += ["* recommended"] if any(row[0].endswith("*") for row in rows) else []
    lost, far = verdict_rows(plan, families)
    if lost:
        parts += [
            "",
            table(
                VERDICTS,
                lost,
                title="Why the others lost",
                right=("USD/month",),
                keep=("family", "outcome", "best candidate"),
                prose=("why",),
            ),
        ]
    parts += [f"Far off, or not possible: {', '.join(far)} (--families says why)."] if far else []
    steps = next_lines(plan)
    parts += ["", "What to do next", *(_pasted(f"  {line}") for line in steps)] if steps else []
    parts += ["", "The arithmetic", *(f"  {line}" for line in plan.explain)] if explain else []
    parts += [
        "",
        *(f"note: {name} was left out: {why}" for name, why in plan.skipped_instances),
        *(f"note: {note}" for note in plan.caveats),
    ]
    return parts


def _pasted(line: str):
    """A line that is to be copied: never broken."""
    from rich.text import Text

    return Text(line) if line.startswith("      ") else line


# --- numbers ------------------------------------------------------------------------------------------------------------


def frame_of(plan):
    """The ranked choices as a frame for CSV (today's rank 0, recommended -1, least regret -2, in place -3): one row each, numbers in the
    units of their names."""
    import polars as pl

    ranks = {"today": 0, "recommended": -1, "least regret": -2, "in place": -3}
    rows = []
    for rank, choice in ranked(plan):
        row = {
            "rank": ranks.get(str(rank), rank), "recommended": plan.recommended is not None and choice.key == plan.recommended.key,
            "storage": choice.storage, "log_storage": choice.log_storage, "instance": choice.instance, "family": choice.family, "members": choice.members,
            "usable_gib": choice.usable_gib, "cost_usd_month": choice.cost_usd_month, "meets_goals": choice.meets_goals,
            "headroom_percent": choice.headroom_percent, "binds": choice.binds.get("cap"), "persistent": choice.persistent,
            "durability_afr_percent": choice.durability_afr_percent, "migration": choice.migration,
        } | {key: value for key, value in choice.metrics.items() if key not in STATED}  # fmt: skip
        if plan.subject == "database":
            row |= {
                "vcpus": choice.vcpus, "cache_gib": choice.cache_gib, "tps_low": choice.tps_low, "tps_high": choice.tps_high, "probability": choice.probability,
                "instance_usd_month": choice.usd("instance"), "data_usd_month": choice.usd("data"), "log_usd_month": choice.usd("log"),
                "regret_expected_usd": choice.regret_expected_usd, "regret_worst_usd": choice.regret_worst_usd,
            }  # fmt: skip
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


# --- the page -----------------------------------------------------------------------------------------------------------


def write_plans(path: Path, plans: Sequence, words: str | None = None, workload=None, runs: Sequence[tuple[str, object]] = ()) -> None:
    """One or two plans as a page; `words`: which engine wins. `workload`, `runs`: of a plan for demand, what is asked and the simulations
    whose balance is drawn, made by the caller. Raises CouldNotRun."""
    from headrace.report.html import Page
    from headrace.report.output import write_text

    first = plans[0]
    made = Page(f"Storage for {' or '.join(dict.fromkeys(plan.name for plan in plans))}", title(first))
    if words:
        made.paragraph(words, "good" if any(plan.recommended for plan in plans) else "warn")
    for plan in plans:
        if len(plans) > 1:
            made.heading(f"{plan.name} ({plan.engine}, {plan.size_gib:,.0f} GiB)")
        _section(made, plan, workload, runs)
    write_text(path, made.render())


def _section(made, plan, workload, runs) -> None:
    from headrace.report import plan_charts

    for line, mark in found(plan):
        made.paragraph(line, mark)
    made.heading("Goals")
    made.items(f"{goal}: {goal.about.meaning}" for goal in plan.goals)
    made.heading("The cheapest that meet them" if plan.winners else "What comes closest")
    columns, rows = choice_table(plan)
    made.table(columns, rows, RIGHT, first=bool(plan.winners))
    plan_charts.add(made, plan, workload, runs)
    steps = next_lines(plan)
    if steps:
        made.heading("What to do next")
        made.lines(steps)
    made.heading("Why the others lost")
    made.table(VERDICTS, verdict_rows(plan)[0], ("USD/month",))
    shown = plan.recommended or (plan.closest[0] if plan.closest else None)
    if shown:
        made.heading(f"The bill of {shown.place}")
        made.table(BILL, bill_rows(shown), BILL_RIGHT)
    made.heading("The arithmetic")
    made.lines(plan.explain)
    made.heading("What to know before buying")
    made.items([*plan.caveats, *(f"{name} was left out: {why}" for name, why in plan.skipped_instances)])
