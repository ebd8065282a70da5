"""A plan as a view and as a frame: the answer, the choices in order, what to do next, why not the
others, the bill. For demand and for databases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from headrace.base import core
from headrace.base.lazy import lazily
from headrace.planner.goals import MAX_HEADROOM_PERCENT
from headrace.planner.market.durability import LEAST_TOLD, small_percent
from headrace.report.services import service_blocks
from headrace.report.simulation import DEMAND, clock_start
from headrace.report.tables import fold_of
from headrace.report.view import (
    Block,
    Card,
    Chart,
    Code,
    Column,
    Fold,
    Heading,
    Items,
    Mark,
    Place,
    Sentence,
    Table,
    View,
    columns,
    drawn,
)
from headrace.report.words import goal_words, latency, number, percent, span, storage_words, usd
from headrace.workload.points import with_totals

with lazily():
    from headrace.report.charts import cost, over_time, style

if TYPE_CHECKING:
    from headrace.planner import Choice
    from headrace.planner.result import EngineComparison, FamilyVerdict, Plan, Saving
    from headrace.simulation.demand import Simulation
    from headrace.workload import OpenWorkload

INTERVAL = "tps, 80 % interval"
# Every column that a table of choices may have, in no order.
COLUMNS = {
    column.title: column
    for column in (
        Column("rank", "number", brief=True),
        Column("service"),
        Column("storage", "key", brief=True),
        Column("instance", "key", brief=True),
        Column("log", "key"),
        Column("cache GiB", "number", drop=4),
        Column("USD/month", "number", brief=True),
        Column("I/O p99", "number", brief=True),
        Column("tps", "number", brief=True),
        Column(INTERVAL, "key", drop=3),
        Column("p95", "number", brief=True),
        Column("probability", "number"),
        Column("throttled", "number", drop=1),
        Column("head-room", "number", brief=True),
        Column("AFR a year", "number", drop=5),
        Column("lowest balance", "number", drop=2),
        Column("bottleneck", "prose"),
        Column("credits", "prose"),
    )
}
VERDICTS = columns(
    ("family", "outcome", "best candidate", "USD/month", "why"),
    number=("USD/month",),
    key=("family", "outcome", "best candidate"),
    prose=("why",),
)
BILL = columns(
    ("part", "item", "quantity", "unit", "unit price USD", "USD", "source", "as of"),
    number=("quantity", "unit price USD", "USD"),
)
# A family this many times dearer than the cheapest gets no line of its own unless it is asked for
# (chosen by eye).
FAR = 3.0
# Metrics that stand in columns of their own.
STATED = ("cost_usd_month", "headroom_percent", "durability_afr_percent")
REGRET = "Regret: money wasted if the calibration is off: on a choice dearer than needed, or on one that misses the goals and must be replaced."
TODAY, IN_PLACE = "Today", "Without moving data"
CENT = 0.005  # USD: a smaller difference does not show on a bill
# A line of the answer: a sentence and its mark.
Line: TypeAlias = tuple[str, Mark]


# --- the answer in sentences ----------------------------------------------------------------------


def answer_lines(plan: Plan) -> list[Line]:
    """Returns the answer in a few sentences, each with a mark: "good", "warn" or ""."""
    lines: list[Line] = [(words, "warn") for words in plan.warnings]
    if plan.recommended is not None:
        lines += _recommended(plan, plan.recommended)
    elif plan.closest:
        near = plan.closest[0]
        cost = f"{near.place}, {usd(near.cost_usd_month)} USD a month"
        lines.append((f"Nothing meets every goal. Closest: {cost}: {'; '.join(near.misses)}.", "warn"))
    else:
        why = "no storage of that day holds these data or sustains this load"
        lines.append((f"Nothing meets every goal, and nothing comes close: {why}.", "warn"))
    lines += _regret(plan)
    if plan.compared is not None:
        lines += _today(plan, plan.compared)
    for check in plan.checks:
        means = f"recorded {latency(check['recorded_ms'])}, model {latency(check['model_ms'])} (means)"
        lines.append((f"Recorded I/O latency and the model's on today's storage, {check['what']}: {means}.", ""))
    return [*lines, (_considered(plan), ""), (f"{plan.prices}.", "")]


def _recommended(plan: Plan, best: Choice) -> list[Line]:
    cheapest = plan.winner
    same = cheapest is not None and cheapest.key == best.key
    named = "Recommended, and the cheapest that meets every goal" if same else "Recommended"
    lines: list[Line] = [
        (f"{named}: {best.place}, {usd(best.cost_usd_month)} USD a month; {_facts(plan, best)}.", "good")
    ]
    if cheapest is not None and not same and plan.why_recommended:
        # The cheapest of all, or what would be recommended if it needed no migration.
        named = "Cheapest that meets every goal" if plan.why_recommended.startswith(f"{cheapest.place} ") else "Cheaper"
        lines.append((f"{named}: {plan.why_recommended}{_counts_on(cheapest)}", ""))
    if not best.persistent:
        lines.append(
            ("The data are on local disks: all gone when the instance stops, hibernates or terminates.", "warn")
        )
    if best.headroom_percent == 0:
        lines.append(("It has no head-room: any growth of the demand breaks a goal.", "warn"))
    if plan.stepped_up:
        below = ", ".join(plan.stepped_up)
        many = len(plan.stepped_up) > 1
        verb = "miss" if many else "misses"
        lines.append(
            (f"A step above {below}, which {verb} a goal request by request, or in an unlucky run near a cap.", "")
        )
    for words in best.far_from_runs:
        lines.append((words, "warn"))
    if best.runs_dry:
        lines.append((f"Credits: {best.runs_dry['words']}.", "warn"))
    if best.first_day:
        lines.append((_first_day(best, best.first_day), ""))
    return lines


def _facts(plan: Plan, choice: Choice) -> str:
    """Returns the facts that a DBA asks for first, in one line."""
    if plan.subject == "database":
        tps, p95 = number(choice.metrics["tps"]), latency(choice.metrics["p95_ms"])
        parts = [f"{tps} tps, p95 {p95}, probability {percent(choice.probability)}"]
    else:
        parts = [f"I/O p99 of the worst 5 min {latency(choice.metrics['p99_ms'])}"]
    if choice.headroom_percent is not None:
        parts.append(f"head-room {headroom(choice)}")
    return "; ".join([*parts, durability(choice)])


def headroom(choice: Choice) -> str:
    """`+21 %`, or that there is none."""
    if choice.headroom_percent is None:
        return "-"
    if choice.headroom_percent >= MAX_HEADROOM_PERCENT:
        return f"{MAX_HEADROOM_PERCENT} % or more"
    return f"+{number(choice.headroom_percent)} %" if choice.headroom_percent else "none"


def durability(choice: Choice) -> str:
    """Returns the chance to lose the data in a year, in words."""
    if not choice.persistent:
        return "the data are gone when the instance stops"
    if choice.durability_afr_percent is None:
        return "no annual failure rate is published"
    chance = small_percent(choice.durability_afr_percent)
    if choice.durability_afr_percent < LEAST_TOLD:
        return f"{chance} a year to lose the data"
    return f"up to {chance} a year to lose the data (1 in {number(100.0 / choice.durability_afr_percent, 2)})"


def _first_day(choice: Choice, first: dict) -> str:
    then, parts = choice.metrics, []
    if first.get("tps") is not None:
        parts.append(
            f"{number(first['tps'])} tps on average on the first day, {number(then['tps'])} once they are spent"
        )
    if (lowest := first.get("lowest_balance_percent")) is not None:
        settled = number(then["lowest_balance_percent"])
        parts.append(f"credits fall to {number(lowest)} % on the first day, to {settled} % once days repeat")
    if first.get("p99_ms") is not None and then["p99_ms"] is not None:
        parts.append(
            f"I/O p99 of the worst 5 min {latency(first['p99_ms'])} on the first day, {latency(then['p99_ms'])} then"
        )
    return f"With full credits: {'; '.join(parts)}."


def _today(plan: Plan, now: Choice) -> list[Line]:
    best, saving, place = plan.recommended, plan.saving, plan.in_place
    meets = "meets every goal" if now.meets_goals else f"fails: {'; '.join(now.misses)}"
    cost = f"Today {now.place} costs {usd(now.cost_usd_month)} USD a month"
    lines: list[Line] = [(f"{cost} and {meets}.", "" if now.meets_goals else "warn")]
    if now.runs_dry:
        lines.append((f"Today's credits: {now.runs_dry['words']}.", "warn"))
    if (
        best is not None
        and saving is not None
        and best.key != now.key
        and (abs(saving.as_planned) >= CENT or saving.equal_space)
    ):
        lines.append((_saving(saving, best, now), ""))
    if best is not None and best.migration:
        lines.append((f"From today to the recommendation: {best.migration}.", ""))
    if place is not None and (best is None or place.key != best.key) and place.key != now.key:
        less = now.cost_usd_month - place.cost_usd_month
        cost = (
            f"{usd(place.cost_usd_month)} USD a month ({usd(abs(less))} {'less' if less >= 0 else 'more'} than today)"
        )
        settings = "".join(f", and {words}" for words in place.changes)
        same = place.storage == now.storage and place.log_storage == now.log_storage
        volumes = (
            "keep today's volumes" if same else f"modify today's volumes into {place.storage}{_log_too(place, now)}"
        )
        lines.append((f"Without moving data: {volumes}{settings}, for {cost}; {_facts(plan, place)}.", ""))
    return lines


def _log_too(place: Choice, now: Choice) -> str:
    return "" if place.log_storage == now.log_storage else f", the log's into {place.log_storage}"


def _counts_on(choice: Choice) -> str:
    """Returns settings that the figures of an alternative count on, in a sentence of their own."""
    return "".join(f" The figures need another setting: {words}." for words in choice.changes)


def _saving(saving: Saving, best: Choice, now: Choice) -> str:
    def words(amount: float) -> str:
        return f"{'saves' if amount >= 0 else 'costs'} {usd(abs(amount))} USD a month{'' if amount >= 0 else ' more'}"

    if saving.equal_space is None:
        return f"The recommendation {words(saving.as_planned)}; it holds less than today's."
    if abs(saving.equal_space - saving.as_planned) < CENT:
        # A year of it: what a budget is made of.
        return f"The recommendation {words(saving.as_planned)}, {usd(abs(saving.as_planned) * 12)} a year."
    holds = [number(choice.usable_gib + choice.log_gib, 6) for choice in (best, now)]
    return (
        f"At equal usable space ({number(saving.gib, 6)} GiB) the recommendation {words(saving.equal_space)}, "
        f"{usd(abs(saving.equal_space) * 12)} a year; as planned it {words(saving.as_planned)}, because it holds {holds[0]} GiB "
        f"and today's {holds[1]} GiB."
    )


def _regret(plan: Plan) -> list[Line]:
    best = plan.least_regret
    if best is None:
        return []
    figures = f"{usd(best.regret_expected_usd)} USD a month expected, {usd(best.regret_worst_usd)} USD at worst"
    if plan.recommended and best.key == plan.recommended.key:
        lines: list[Line] = [(f"It also has the least expected regret: {figures}. {REGRET}", "")]
    else:
        less = "" if best.meets_goals else ", less than the confidence wanted"
        place = f"{best.place}, {usd(best.cost_usd_month)} USD a month, probability {percent(best.probability)}{less}"
        named = f"Least expected regret, over what the calibration leaves open: {place}; regret {figures}."
        lines = [(f"{named}{_counts_on(best)} {REGRET}", "")]
    if plan.undecided:
        share = f"In {percent(plan.undecided)} of the cases that the calibration leaves open"
        lines.append((f"{share} no candidate meets the goals; regret leaves these cases out.", "warn"))
    return lines


def _considered(plan: Plan) -> str:
    on = f" on {plan.instances:,} {'instance' if plan.instances == 1 else 'instances'}" if plan.instances else ""
    database = plan.subject == "database"
    cannot = "cannot reach the goals" if database else "cannot deliver the demand"
    counts = ((plan.simulated, "simulated"), (plan.bounded, cannot), (plan.invalid, "not possible"))
    counts_text = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    if not plan.considered:
        # No family can hold the data, or has a price: probabilities of nothing are not told.
        return f"No candidate{on} was there to be looked at."
    words = f"{plan.considered:,} candidates{on} considered: {counts_text}"
    words += "" if database else "; all others are proved to cost more or to fail"
    if not database:
        return f"{words}."
    if not plan.draws:
        return (
            f"{words}. Probabilities count only how runs scatter: nothing is known of how sure the parameters of this "
            "workload are, since no calibration made them."
        )
    drawn = "1 database" if plan.draws == 1 else f"{plan.draws:,} databases"
    return f"{words}. Probabilities from {drawn} drawn from the calibration."


def title(plan: Plan) -> str:
    """Names workload, goals and conditions in a line."""
    parts = [f"{plan.name}: {' and '.join(map(str, plan.goals))}"]
    if plan.subject == "database":
        load = f"{plan.threads} clients" if plan.threads else f"{plan.arrivals_tps:g} transactions a second arrive"
        parts += [load, f"{plan.start} start", f"{plan.hours:g} h"]
    else:
        parts.append(f"demand x {plan.demand_growth:.4g}")
        parts.append("credits of the settled day" if plan.cycle == "settled" else "credits of the first day")
    data = f"{plan.size_gib:,.5g} GiB of data with {plan.free_percent:g} % free: {plan.needed_gib:,.6g} GiB"
    return ", ".join([*parts, data, plan.region, plan.as_of])


# --- tables ---------------------------------------------------------------------------------------


def ranked(plan: Plan) -> list[tuple[str, Choice]]:
    """Returns rank and choice: winners or the closest choices, then the recommended, that of least
    regret, the one in place and today's."""
    shown: list[tuple[str, Choice]] = [
        (str(rank), choice) for rank, choice in enumerate(plan.winners or plan.closest, 1)
    ]
    keys = {choice.key for _, choice in shown}
    more = {
        "recommended": plan.recommended,
        "least regret": plan.least_regret,
        "in place": plan.in_place,
        "today": plan.compared,
    }
    for rank, choice in more.items():
        if choice is not None and (rank == "today" or choice.key not in keys):
            keys.add(choice.key)
            shown.append((rank, choice))
    return shown


def choice_table(plan: Plan) -> tuple[list[str], list[list[str]]]:
    """Returns columns and rows of the ranked table; columns that say nothing are left out."""
    best = plan.recommended
    rows = []
    for rank, choice in ranked(plan):
        mark = " *" if rank.isdigit() and best is not None and choice.key == best.key else ""
        own = _database_cells(choice) if plan.subject == "database" else _demand_cells(choice)
        service = {"service": "-" if plan.services is None else choice.service}
        rows.append({"rank": rank + mark} | service | own | _common_cells(choice))
    columns = list(rows[0]) if rows else []
    shown_columns = [
        name
        for name in columns
        if any(row[name] not in ("-", "", "0 s", "none") for row in rows) or name == "head-room"
    ]
    return shown_columns, [[row[name] for name in shown_columns] for row in rows]


def _demand_cells(choice: Choice) -> dict[str, str]:
    throttled = choice.metrics.get("throttled_min")
    return {
        "storage": choice.storage,
        "instance": choice.instance or "-",
        "USD/month": usd(choice.cost_usd_month),
        "I/O p99": latency(choice.metrics.get("p99_ms")) if choice.asks is None else _asks(choice.asks),
        "throttled": "-" if throttled is None else span(60 * throttled),
    }


def _asks(asks: dict) -> str:
    """Says how many times the possible rate is asked for, in place of a wait that no client could
    make."""
    return f"asks {asks['ratio']:.2g} x"


def _database_cells(choice: Choice) -> dict[str, str]:
    return {
        "instance": choice.instance or "-",
        "storage": choice.storage,
        "log": choice.log_storage or "with data",
        "cache GiB": number(choice.cache_gib),
        "USD/month": usd(choice.cost_usd_month),
        "tps": number(choice.metrics["tps"]),
        INTERVAL: f"{number(choice.tps_low)} to {number(choice.tps_high)}",
        "p95": latency(choice.metrics["p95_ms"]),
        "probability": percent(choice.probability),
    }


def _common_cells(choice: Choice) -> dict[str, str]:
    afr, balance = choice.durability_afr_percent, choice.metrics.get("lowest_balance_percent")
    credits = choice.volume_type in ("gp2", "st1", "sc1") and balance is not None
    return {
        "head-room": headroom(choice),
        "AFR a year": "lost on stop" if not choice.persistent else "-" if afr is None else small_percent(afr),
        "lowest balance": f"{number(balance)} %" if credits else "-",
        "bottleneck": choice.binds.get("short", "-"),
        "credits": choice.runs_dry["words"] if choice.runs_dry else "",
    }


def verdict_rows(plan: Plan, every: bool = True) -> tuple[list[tuple[str, ...]], list[str]]:
    """Returns why each family is not the answer, and the names of those that are far off and have
    no line (`every` False)."""
    rows, far = [], []
    for family in plan.families:
        if family.outcome == "wins":
            continue
        if not every and _is_far(family):
            far.append(family.family)
            continue
        best = ("-", "-") if family.best is None else (family.best.place, usd(family.best.cost_usd_month))
        rows.append((family.family, family.outcome, *best, family.why))
    return rows, far


def _is_far(family: FamilyVerdict) -> bool:
    if family.best is None:
        return family.outcome != "impossible" or "does not exist" in family.why or "is what io2 is" in family.why
    return (family.cost_ratio or 0.0) > FAR or (family.outcome == "fails" and (family.overload or 0.0) > 1.0)


def bill_rows(choice: Choice) -> list[tuple[str, ...]]:
    """Returns the monthly bill, item by item, with the total."""
    rows = []
    for item in choice.items:
        price = (number(item["quantity"], 6), item["unit"], f"{item['unit_price_usd']:.6g}", usd(item["usd"]))
        rows.append((item["part"], item["item"], *price, item["source"] or "", item["as_of"] or ""))
    return [*rows, ("together", "", "", "", "", usd(choice.cost_usd_month), "", "")]


def next_lines(plan: Plan) -> list[str]:
    """Returns the next steps, with the lines to paste and how to undo them; then the same for the
    alternative in place."""
    lines = _action_lines(plan.actions)
    if plan.in_place is not None and plan.in_place_actions:
        lines.append(f"Instead, without moving data, {plan.in_place.place}:")
        lines += _action_lines(plan.in_place_actions)
    if plan.alarms:
        lines.append("CloudWatch alarms worth having:")
        lines += [f"    {alarm_words(alarm)}" for alarm in plan.alarms]
    return lines


def _action_lines(actions: Sequence[dict]) -> list[str]:
    lines = []
    for action in actions:
        lines.append(f"{action['what']}:")
        lines += [f"    {line}" for line in action["lines"]]
        lines += [f"    undo: {action['undo']}"] if action["undo"] else []
    return lines


def alarm_words(alarm: dict) -> str:
    """Returns an alarm in a line."""
    period = span(alarm["period_s"])
    when = f"{alarm['points']} of {alarm['of']} x {period}" if alarm["of"] > 1 else period
    level = f"{alarm['statistic']} {alarm['comparison']} {number(alarm['threshold'])}"
    return f"{alarm['namespace']} {alarm['metric']} {level}, {when}: {alarm['why']}"


def _left_out(plan: Plan) -> list[str]:
    return [f"{name} was left out: {why}" for name, why in plan.skipped_instances]


def frame_of(plan: Plan) -> pl.DataFrame:
    """Returns the ranked choices as a frame for CSV (today's rank 0, recommended -1, least regret
    -2, in place -3): one row each, numbers in the units of their names."""
    ranks = {"today": 0, "recommended": -1, "least regret": -2, "in place": -3}
    plain = (
        "service",
        "storage",
        "log_storage",
        "instance",
        "family",
        "members",
        "usable_gib",
        "cost_usd_month",
        "meets_goals",
    )
    after = ("persistent", "durability_afr_percent", "migration")
    database = ("vcpus", "cache_gib", "tps_low", "tps_high", "probability")
    rows = []
    for rank, choice in ranked(plan):
        best = plan.recommended is not None and choice.key == plan.recommended.key
        row = {"rank": ranks[rank] if rank in ranks else int(rank), "recommended": best}
        row |= {name: getattr(choice, name) for name in (*plain, "headroom_percent")}
        row |= {"binds": choice.binds.get("cap")} | {name: getattr(choice, name) for name in after}
        row |= {name: value for name, value in choice.metrics.items() if name not in STATED}
        if plan.subject == "database":
            row |= {name: getattr(choice, name) for name in database}
            row |= {f"{part}_usd_month": choice.usd(part) for part in ("instance", "data", "log")}
            row |= {name: getattr(choice, name) for name in ("regret_expected_usd", "regret_worst_usd")}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


# --- the view -------------------------------------------------------------------------------------

# The simulations whose balance is drawn: names and results, made by the caller.
Runs: TypeAlias = "Sequence[tuple[str, Simulation]]"


def view_of(
    plan: Plan,
    workload: OpenWorkload | None = None,
    runs: Runs = (),
    *,
    explain: bool = False,
    families: bool = False,
    charts: bool = True,
) -> View:
    """Returns the view of a plan. `workload`, `runs`: of a plan for demand, the demand and the
    simulations whose balance is drawn. On a terminal, `explain` adds the arithmetic and `families`
    why each family lost that is far off. `charts`: False for a view that only a terminal shows,
    which then needs no library that draws."""
    blocks = _blocks(plan, workload, runs, explain=explain, families=families, charts=charts)
    return View(headline(plan), conditions(plan), cards(plan), list(blocks))


def view_of_engines(
    comparison: EngineComparison, *, explain: bool = False, families: bool = False, charts: bool = True
) -> View:
    """Returns the view of two databases under the same goals; the options are those of
    `view_of`."""
    mark: Mark = "good" if any(plan.recommended for plan in comparison.plans) else "warn"
    blocks: list[Block] = [Sentence(comparison.words, mark, "terminal")]
    if rest := comparison.words.partition(". ")[2]:
        blocks.append(Sentence(rest, mark, "page"))
    for plan in comparison.plans:
        blocks += [Heading("", "terminal"), Heading(f"{plan.name} ({plan.engine}, {plan.size_gib:,.0f} GiB)", "page")]
        blocks += _blocks(plan, None, (), explain=explain, families=families, charts=charts)
    names = " or ".join(dict.fromkeys(plan.name for plan in comparison.plans))
    figures = [
        _card(f"{plan.name} ({plan.engine})", best)
        for plan in comparison.plans
        if (best := plan.recommended or next(iter(plan.closest), None)) is not None
    ]
    head = comparison.in_short().rstrip(".") or f"Storage for {names}"
    return View(head, conditions(comparison.plans[0]), figures, blocks)


def headline(plan: Plan) -> str:
    """Says in a sentence what to buy and what it saves."""
    best = plan.recommended
    if best is None:
        return f"No storage meets every goal of {plan.name}"
    words = f"{_words_of(best, brief=True)} meets every goal of {plan.name} for {usd(best.cost_usd_month)} USD a month"
    if plan.saving is None or plan.compared is None or plan.compared.key == best.key:
        return words
    saved = plan.saving.as_planned
    if abs(saved) < CENT:
        return words
    return f"{words}, {usd(abs(saved))} {'less' if saved > 0 else 'more'} than today"


def conditions(plan: Plan) -> str:
    """Returns what the answer holds for, in a reader's words: goals, data, load, region, day."""
    goals = ", ".join(goal_words(goal) for goal in plan.goals)
    data = f"{number(plan.size_gib, 5)} GiB of data with {plan.free_percent:g} % free"
    if plan.subject == "database":
        load = f"{plan.threads} clients" if plan.threads else f"{plan.arrivals_tps:g} transactions a second arrive"
    else:
        load = f"demand x {plan.demand_growth:.4g}" if plan.demand_growth != 1 else ""
    parts = [f"Goals: {goals}", data, *([load] if load else []), f"{plan.region}, limits and prices of {plan.as_of}"]
    return f"{'; '.join(parts)}; simulated"


def cards(plan: Plan) -> list[Card]:
    """Returns the figures of the headline: what is recommended (or closest), today, and what can be
    done without moving data."""
    best, now, place = plan.recommended, plan.compared, plan.in_place
    labelled: list[tuple[str, Choice]] = []
    if best is not None:
        labelled.append(("Recommended", best))
    elif plan.closest:
        labelled.append(("Closest", plan.closest[0]))
    if now is not None:
        labelled.append((TODAY, now))
    if place is not None and all(place.key != choice.key for _, choice in labelled):
        labelled.append((IN_PLACE, place))
    return [_card(label, choice, _at_equal_space(plan, choice)) for label, choice in labelled]


def _at_equal_space(plan: Plan, choice: Choice) -> str:
    """Says what the recommendation saves with as much room as today's storage, where that is less
    or more than its price says; and what today's volumes save once they are modified."""
    saving, best, now = plan.saving, plan.recommended, plan.compared
    if now is not None and plan.in_place is not None and choice.key == plan.in_place.key:
        less = now.cost_usd_month - choice.cost_usd_month
        return f" Saves {usd(less)} USD a month." if less > CENT else ""
    if saving is None or saving.equal_space is None or best is None or now is None:
        return ""
    if choice.key != best.key or best.key == now.key or abs(saving.equal_space - saving.as_planned) < CENT:
        return ""
    amount = f"{usd(saving.equal_space)} USD a month" if saving.equal_space > 0 else "nothing"
    return f" With today's {number(saving.gib, 6)} GiB it would save {amount}."


def _card(label: str, choice: Choice, more: str = "") -> Card:
    """Returns what a choice costs, whether it holds, and how safe the data are. The recommended
    choice alone is green."""
    meaning = f"Fails: {'; '.join(choice.misses)}."
    if choice.meets_goals:
        risk = "" if choice.durability_afr_percent is None else f"; {durability(choice).partition(' (')[0]}"
        meaning = f"Meets every goal: {_delivered(choice)}{risk}."
    figure = f"{usd(choice.cost_usd_month)} USD a month"
    mark: Mark = "warn" if not choice.meets_goals else "" if label in (TODAY, IN_PLACE) else "good"
    return Card(f"{label}: {_words_of(choice)}", figure, meaning + more, mark)


def _delivered(choice: Choice) -> str:
    """Returns what a choice delivers, and how much more it could."""
    figures = choice.metrics
    if "tps" in figures:
        parts = [f"{number(figures['tps'])} tps, p95 {latency(figures['p95_ms'])}"]
    else:
        parts = [f"I/O p99 {latency(figures['p99_ms'])}"]
    if choice.headroom_percent is not None:
        parts.append(f"head-room {headroom(choice)}")
    return ", ".join(parts)


def _words_of(choice: Choice, brief: bool = False) -> str:
    """Names a choice in a reader's words; `brief`: without what is bought besides the size."""
    if choice.service != "ec2":
        return choice.place
    words = storage_words(choice.storage, brief)
    if choice.log_storage is not None and not brief:
        words = f"{words}, log on {storage_words(choice.log_storage)}"
    return f"{choice.instance} with {words}" if choice.instance else words


def _blocks(
    plan: Plan, workload: OpenWorkload | None, runs: Runs, *, explain: bool, families: bool, charts: bool
) -> Iterator[Block]:
    lines = answer_lines(plan)
    yield from (Sentence(words, mark, "terminal") for words, mark in lines)
    yield from (Sentence(words, mark, "page") for words, mark in lines if mark == "warn" and not _in_cards(plan, words))
    if charts:
        yield from _day(plan, workload, runs)
    if charts and plan.subject == "database":
        yield from _cost(plan)
    yield Heading("Choices, the cheapest first" if plan.winners else "Closest to the goals", "page")
    yield choices(plan, place="page")
    yield choices(plan)
    if any(
        rank.isdigit() and plan.recommended is not None and choice.key == plan.recommended.key
        for rank, choice in ranked(plan)
    ):
        yield Sentence("* recommended", place="terminal")
    yield from _losers_on_terminal(plan, families)
    if plan.services is not None:
        yield from service_blocks(plan.services, explain)
    if steps := next_lines(plan):
        yield from (Heading("Next steps"), Code(steps))
    if charts and plan.subject != "database":
        yield from _cost(plan)
    if charts:
        yield from (*_balances(workload, runs), *_bills(plan))
    if explain:
        yield from (Heading("The arithmetic", "terminal"), Code(plan.explain, "terminal"))
    yield from (
        Heading("", "terminal"),
        Items([f"note: {note}" for note in [*_left_out(plan), *plan.caveats]], "terminal"),
    )
    yield from _small_print(plan, workload, [words for words, mark in lines if mark != "warn"])


def _in_cards(plan: Plan, words: str) -> bool:
    """Returns whether a card says it already: that today's storage fails, or what comes closest."""
    if plan.compared is not None and words.startswith(f"Today {plan.compared.place} costs "):
        return True
    return bool(plan.closest) and words.startswith("Nothing meets every goal. Closest: ")


def _losers_on_terminal(plan: Plan, families: bool) -> Iterator[Block]:
    lost, far = verdict_rows(plan, families)
    if lost:
        yield Table(VERDICTS, lost, "Why not the others", place="terminal")
    if far:
        yield Sentence(f"Far off, or not possible: {', '.join(far)} (--families says why).", place="terminal")


def _small_print(plan: Plan, workload: OpenWorkload | None, reasons: Sequence[str]) -> Iterator[Block]:
    """Yields what a reader looks up: folded on a page. `reasons`: the answer in sentences."""
    yield Heading("Behind the answer", "page")
    yield Fold("Why", [Items(reasons)])
    yield Fold("Goals", [Items([*(f"{goal}: {goal.about.meaning}" for goal in plan.goals), title(plan)])])
    if workload is not None:
        described = f"IOPS and MiB/s of {workload.name} over time"
        drawn = Chart(lambda: over_time.workload(workload), described)
        figures = fold_of("", with_totals(workload.points), DEMAND, clock_start(workload)).blocks
        yield Fold("The demand", [Items(workload.describe().splitlines()[:5]), drawn, *figures])
    yield Fold("Why not the others", [Table(VERDICTS, verdict_rows(plan)[0])])
    if choice := plan.recommended or (plan.closest[0] if plan.closest else None):
        yield Fold(f"The bill of {choice.place}", [Table(BILL, bill_rows(choice))])
    yield Fold("The arithmetic", [Code(plan.explain)])
    yield Fold("Caveats before buying", [Items([*plan.caveats, *_left_out(plan)])])


def choices(plan: Plan, most: int | None = None, place: Place = "terminal") -> Table:
    """Returns the ranked choices as a table, or the first `most`; that which is recommended is
    marked, with a star on a terminal."""
    titles, rows = choice_table(plan)
    rows = rows[:most]
    best = plan.recommended
    marked = next(
        (index for index, (_, choice) in enumerate(ranked(plan)[:most]) if best is not None and choice.key == best.key),
        None,
    )
    if place == "terminal":
        return Table([COLUMNS[name] for name in titles], rows, title(plan), marked, place)
    # A page begins a row with the choice in words and says there what it is; its rank stands among
    # all columns.
    at = titles.index("storage") if "storage" in titles else 0
    own = {"rank": replace(COLUMNS["rank"], kind="", brief=not at), "storage": replace(COLUMNS["storage"], kind="")}
    heads = [own.get(name, COLUMNS[name]) for name in titles]
    cells, failing = [], []
    for index, (row, (rank, choice)) in enumerate(zip(rows, ranked(plan), strict=False)):
        words = [row[0].removesuffix(" *"), *row[1:]]
        if at:
            named = storage_words(choice.storage) if choice.service == "ec2" else row[at]
            roles = [
                *(["recommended"] if index == marked and rank != "recommended" else []),
                *([] if rank.isdigit() else [rank]),
            ]
            if not choice.meets_goals:
                failing.append(index)
                roles += [] if rank.isdigit() else ["fails"]
            words[at] = f"{named} ({', '.join(roles)})" if roles else named
            words = [words[at], choice.storage, *words[:at], *words[at + 1 :]]
        cells.append(words)
    if at:
        heads = [heads[at], Column("notation", "key"), *heads[:at], *heads[at + 1 :]]
    # If nothing meets the goals, every row fails, and the colour tells nothing.
    return Table(heads, cells, marked=marked, place=place, failing=failing if len(failing) < len(cells) else ())


def _day(plan: Plan, workload: OpenWorkload | None, runs: Runs) -> Iterator[Block]:
    """Yields the demand over its time, with the limits of today's storage and of the
    recommended."""
    if workload is None:
        return
    choices = (("recommended", plan.recommended, style.GOOD), ("today", plan.compared, style.WARN))
    limits = [
        (label, iops, colour)
        for label, choice, colour in choices
        if choice is not None
        and choice.service == "ec2"
        and (iops := core.sustained_iops(choice.storage, plan.as_of)) is not None
    ]
    now = None if plan.compared is None else plan.compared.storage
    waits = next((run.rows for _, run in runs if run.storage == now), None)
    described = ", ".join(
        [f"IOPS of {workload.name} over time", *(f"{label} {iops:,.0f} IOPS" for label, iops, _ in limits)]
    )
    yield Chart(lambda: over_time.day(workload, limits, waits), described)


def _cost(plan: Plan) -> Iterator[Block]:
    """Yields the chart of cost against what is delivered, where there is something to draw."""
    if plan.subject == "database":
        chart = cost.against_tps(plan)
        described = (
            "Sustained tps with their 80 % interval against monthly cost, along the best candidates of each family"
        )
    else:
        best = plan.recommended
        name = None if best is None else f"{best.storage} on {best.instance}" if best.instance else best.storage
        limit = next((goal.limit for goal in plan.goals if goal.metric == "p99_ms"), None)
        chart = cost.frontier(_points(plan), name, limit)
        described = "Storages of every family by monthly cost and I/O p99 of the worst five minutes"
    if chart is not None:
        yield drawn(chart, described)


def in_short(plan: Plan, most: int) -> View:
    """Returns the view for a notebook: the answer, the first `most` choices, cost against what is
    delivered."""
    line, mark = answer_lines(plan)[len(plan.warnings)]
    return View(headline(plan), blocks=[Sentence(line, mark), choices(plan, most, "page"), *_cost(plan)])


def _points(plan: Plan) -> list[dict]:
    """Returns the points of a demand's chart. The recommended, today's and the one in place are
    among them, also where they lie on no family's cheapest line; the latter two have a `role`."""
    points = plan.frontier.to_dicts()
    named = (("", plan.recommended), ("today", plan.compared), ("in place", plan.in_place))
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


def _balances(workload: OpenWorkload | None, runs: Runs) -> Iterator[Block]:
    if not runs or workload is None:
        return
    names = ", ".join(name for name, _ in runs)
    moving = over_time.balances([(name, run.rows) for name, run in runs], clock_start(workload))
    if moving is None:
        words = f"None of these has credits: {names}. What they deliver does not change over the day."
        yield Sentence(words, place="page")
    else:
        yield drawn(moving, f"Credit balance over the day of {names}")


def _bills(plan: Plan) -> Iterator[Block]:
    services = [] if plan.services is None else [answer.best for answer in plan.services.answers]
    few = 4 if len(services) < 2 else 1
    shown = [plan.recommended, *plan.winners[:few], *plan.closest[:few], *services, plan.in_place, plan.compared]
    bills = list({choice.key: choice for choice in shown if choice is not None}.values())
    roles = {"today": plan.compared, "in place": plan.in_place, "recommended": plan.recommended}
    keys = {choice.key: f" ({role})" for role, choice in roles.items() if choice is not None}
    if any(item["usd"] for choice in bills for item in choice.items):
        described = ", ".join(f"{choice.place} {usd(choice.cost_usd_month)} USD" for choice in bills)
        rows = [(f"{choice.place}{keys.get(choice.key, '')}", choice.items) for choice in bills]
        yield Chart(lambda: cost.bills(rows), f"Monthly bill by item: {described}")
