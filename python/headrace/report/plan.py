"""A plan as a view and as a frame: the answer, the choices in order, what to do next, why not the
others, the bill. For demand and for databases. `plan_words` has its sentences, `plan_charts` its
charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from headrace.base.lazy import defer_imports
from headrace.planner.market.durability import format_small_percent
from headrace.report.plan_charts import Runs, draw_balances, draw_bills, draw_cost, draw_day
from headrace.report.plan_words import (
    CENT,
    describe_conditions,
    describe_durability,
    describe_headroom,
    describe_place,
    list_answer_lines,
    list_next_lines,
    make_headline,
    make_title,
)
from headrace.report.services import build_service_blocks
from headrace.report.simulation import DEMAND, find_clock_start
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
    make_columns,
)
from headrace.report.words import (
    describe_storage,
    format_latency,
    format_number,
    format_percent,
    format_span,
    format_usd,
)
from headrace.workload.points import with_totals

with defer_imports():
    from headrace.report.charts import over_time

if TYPE_CHECKING:
    from headrace.planner import Choice
    from headrace.planner.result import EngineComparison, FamilyVerdict, Plan
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
VERDICTS = make_columns(
    ("family", "outcome", "best candidate", "USD/month", "why"),
    number=("USD/month",),
    key=("family", "outcome", "best candidate"),
    prose=("why",),
)
BILL = make_columns(
    ("part", "item", "quantity", "unit", "unit price USD", "USD", "source", "as of"),
    number=("quantity", "unit price USD", "USD"),
)
# A family this many times dearer than the cheapest gets no line of its own unless it is asked for
# (chosen by eye).
FAR = 3.0
# Metrics that stand in columns of their own.
STATED = ("cost_usd_month", "headroom_percent", "durability_afr_percent")
TODAY, IN_PLACE = "Today", "Without moving data"


# --- tables ---------------------------------------------------------------------------------------


def rank_choices(plan: Plan) -> list[tuple[str, Choice]]:
    """Returns rank and choice of the rows of a plan's table: winners or the closest choices, then,
    under these words, the recommended, that of least regret, that in place and today's."""
    choices = plan.choices
    first = choices.winners or choices.closest
    ranked: list[tuple[str, Choice]] = [(str(rank), choice) for rank, choice in enumerate(first, 1)]
    keys = {choice.key for _, choice in ranked}
    more = {
        "recommended": plan.recommended,
        "least regret": choices.least_regret,
        "in place": choices.in_place,
        "today": choices.compared,
    }
    for rank, choice in more.items():
        if choice is not None and (rank == "today" or choice.key not in keys):
            keys.add(choice.key)
            ranked.append((rank, choice))
    return ranked


def tabulate_choices(plan: Plan) -> tuple[list[str], list[list[str]]]:
    """Returns titles and rows of the ranked table, without columns that are empty."""
    best = plan.recommended
    rows = []
    for rank, choice in rank_choices(plan):
        mark = " *" if rank.isdigit() and best is not None and choice.key == best.key else ""
        own = _make_database_cells(choice) if plan.subject == "database" else _make_demand_cells(choice)
        service = {"service": "-" if plan.services is None else choice.service}
        rows.append({"rank": rank + mark} | service | own | _make_common_cells(choice))
    empty, names = ("-", "", "0 s", "none"), list(rows[0]) if rows else []
    titles = [name for name in names if name == "head-room" or any(row[name] not in empty for row in rows)]
    return titles, [[row[name] for name in titles] for row in rows]


def _make_demand_cells(choice: Choice) -> dict[str, str]:
    """Returns the cells of a choice for a demand in I/Os, by column: USD a month, latency, time
    throttled."""
    throttled = choice.metrics.get("throttled_min")
    return {
        "storage": choice.storage,
        "instance": choice.instance or "-",
        "USD/month": format_usd(choice.cost_usd_month),
        "I/O p99": format_latency(choice.metrics.get("p99_ms"))
        if choice.asks is None
        else _describe_excess(choice.asks),
        "throttled": "-" if throttled is None else format_span(60 * throttled),
    }


def _describe_excess(asks: dict) -> str:
    """Returns how many times the limit the demand is, for a demand so high that no latency
    holds."""
    return f"{asks['ratio']:.2g} x limit"


def _make_database_cells(choice: Choice) -> dict[str, str]:
    """Returns the cells of a choice for a database, by column: USD a month, transactions a second
    with their interval, response time p95, probability."""
    return {
        "instance": choice.instance or "-",
        "storage": choice.storage,
        "log": choice.log_storage or "with data",
        "cache GiB": format_number(choice.cache_gib),
        "USD/month": format_usd(choice.cost_usd_month),
        "tps": format_number(choice.metrics["tps"]),
        INTERVAL: f"{format_number(choice.tps_low)} to {format_number(choice.tps_high)}",
        "p95": format_latency(choice.metrics["p95_ms"]),
        "probability": format_percent(choice.probability),
    }


def _make_common_cells(choice: Choice) -> dict[str, str]:
    """Returns the cells that every choice has, by column: head-room, AFR and lowest balance in %,
    bottleneck, credits."""
    afr, balance = choice.durability_afr_percent, choice.metrics.get("lowest_balance_percent")
    credits = choice.volume_type in ("gp2", "st1", "sc1") and balance is not None
    return {
        "head-room": describe_headroom(choice),
        "AFR a year": "lost on stop" if not choice.persistent else "-" if afr is None else format_small_percent(afr),
        "lowest balance": f"{format_number(balance)} %" if credits else "-",
        "bottleneck": choice.binds.get("short", "-"),
        "credits": choice.runs_dry["words"] if choice.runs_dry else "",
    }


def list_verdict_rows(plan: Plan, with_far: bool = True) -> tuple[list[tuple[str, ...]], list[str]]:
    """Returns a row for each family that lost: its name, outcome, best place, USD a month, reason.
    Also returns the names of those that are far off and, without `with_far`, have no row."""
    rows, far = [], []
    for family in plan.choices.families:
        if family.outcome == "wins":
            continue
        if not with_far and _is_far(family):
            far.append(family.family)
            continue
        best = ("-", "-") if family.best is None else (family.best.place, format_usd(family.best.cost_usd_month))
        rows.append((family.family, family.outcome, *best, family.why))
    return rows, far


def _is_far(family: FamilyVerdict) -> bool:
    if family.best is None:
        return family.outcome != "impossible" or not family.exists
    return (family.cost_ratio or 0.0) > FAR or (family.outcome == "fails" and (family.overload or 0.0) > 1.0)


def list_bill_rows(choice: Choice) -> list[tuple[str, ...]]:
    """Returns the cells of BILL, a row for each item of a choice's monthly bill, and the total."""
    rows = []
    for item in choice.items:
        price = (
            format_number(item["quantity"], 6),
            item["unit"],
            f"{item['unit_price_usd']:.6g}",
            format_usd(item["usd"]),
        )
        rows.append((item["part"], item["item"], *price, item["source"] or "", item["as_of"] or ""))
    return [*rows, ("together", "", "", "", "", format_usd(choice.cost_usd_month), "", "")]


def _explain_skipped(plan: Plan) -> list[str]:
    return [f"{name} was left out: {why}" for name, why in plan.search.skipped_instances]


def build_frame(plan: Plan) -> pl.DataFrame:
    """Returns the ranked choices as a frame for CSV (today's rank 0, recommended -1, least regret
    -2, in place -3): one row each, numbers in the units of their names."""
    ranks = {"today": 0, "recommended": -1, "least regret": -2, "in place": -3}
    place = ("service", "storage", "log_storage", "instance", "family", "members", "usable_gib")
    plain = (*place, "cost_usd_month", "meets_goals", "headroom_percent")
    after = ("persistent", "durability_afr_percent", "migration")
    database = ("vcpus", "cache_gib", "tps_low", "tps_high", "probability")
    rows = []
    for rank, choice in rank_choices(plan):
        best = plan.recommended is not None and choice.key == plan.recommended.key
        row = {"rank": ranks[rank] if rank in ranks else int(rank), "recommended": best}
        row |= {name: getattr(choice, name) for name in plain}
        row |= {"binds": choice.binds.get("cap")} | {name: getattr(choice, name) for name in after}
        row |= {name: value for name, value in choice.metrics.items() if name not in STATED}
        if plan.subject == "database":
            row |= {name: getattr(choice, name) for name in database}
            row |= {f"{part}_usd_month": choice.sum_usd(part) for part in ("instance", "data", "log")}
            row |= {name: getattr(choice, name) for name in ("regret_expected_usd", "regret_worst_usd")}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


# --- the view -------------------------------------------------------------------------------------


def build_plan_view(
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
    blocks = _build_blocks(plan, workload, runs, explain=explain, families=families, charts=charts)
    return View(make_headline(plan), describe_conditions(plan), build_cards(plan), list(blocks))


def build_engine_view(
    comparison: EngineComparison, *, explain: bool = False, families: bool = False, charts: bool = True
) -> View:
    """Returns the view of the plans of two engines under the same goals; the options are those of
    `build_plan_view`."""
    mark: Mark = "good" if any(plan.recommended for plan in comparison.plans) else "warn"
    blocks: list[Block] = [Sentence(comparison.words, mark, "terminal")]
    if rest := comparison.words.partition(". ")[2]:
        blocks.append(Sentence(rest, mark, "page"))
    for plan in comparison.plans:
        data = f"{plan.load.size_gib:,.0f} GiB"
        blocks += [Heading("", "terminal"), Heading(f"{plan.name} ({plan.engine}, {data})", "page")]
        blocks += _build_blocks(plan, None, (), explain=explain, families=families, charts=charts)
    names = " or ".join(dict.fromkeys(plan.name for plan in comparison.plans))
    figures = [
        _build_card(f"{plan.name} ({plan.engine})", best)
        for plan in comparison.plans
        if (best := plan.nearest) is not None
    ]
    head = comparison.describe_briefly().rstrip(".") or f"Storage for {names}"
    return View(head, describe_conditions(comparison.plans[0]), figures, blocks)


def build_cards(plan: Plan) -> list[Card]:
    """Returns the cards of a plan: the recommended (or closest) choice, today's, and that which
    needs no data moved."""
    best, today, in_place = plan.nearest, plan.choices.compared, plan.choices.in_place
    labelled: list[tuple[str, Choice]] = []
    if best is not None:
        labelled.append(("Recommended" if plan.recommended else "Closest", best))
    if today is not None:
        labelled.append((TODAY, today))
    if in_place is not None and all(in_place.key != choice.key for _, choice in labelled):
        labelled.append((IN_PLACE, in_place))
    return [_build_card(label, choice, _describe_equal_space(plan, choice)) for label, choice in labelled]


def _describe_equal_space(plan: Plan, choice: Choice) -> str:
    """Returns what the recommendation saves at the usable space of today's storage, if that is not
    what its price saves; for the choice in place, what it saves; "" for others."""
    saving, best, today, in_place = plan.choices.saving, plan.recommended, plan.choices.compared, plan.choices.in_place
    if today is not None and in_place is not None and choice.key == in_place.key:
        less = today.cost_usd_month - choice.cost_usd_month
        return f" Saves {format_usd(less)} USD a month." if less > CENT else ""
    if saving is None or saving.equal_space is None or best is None or today is None:
        return ""
    if choice.key != best.key or best.key == today.key or abs(saving.equal_space - saving.as_planned) < CENT:
        return ""
    amount = f"{format_usd(saving.equal_space)} USD a month" if saving.equal_space > 0 else "nothing"
    return f" With today's {format_number(saving.gib, 6)} GiB it would save {amount}."


def _build_card(label: str, choice: Choice, more: str = "") -> Card:
    """Returns the card of a choice: what it costs, whether it meets the goals, and how likely data
    are lost. The recommended choice alone is marked as good."""
    meaning = f"Fails: {'; '.join(choice.misses)}."
    if choice.meets_goals:
        risk = "" if choice.durability_afr_percent is None else f"; {describe_durability(choice).partition(' (')[0]}"
        meaning = f"Meets every goal: {_describe_delivered(choice)}{risk}."
    figure = f"{format_usd(choice.cost_usd_month)} USD a month"
    mark: Mark = "warn" if not choice.meets_goals else "" if label in (TODAY, IN_PLACE) else "good"
    return Card(f"{label}: {describe_place(choice)}", figure, meaning + more, mark)


def _describe_delivered(choice: Choice) -> str:
    """Returns what a choice delivers, and how much more it could."""
    figures = choice.metrics
    if "tps" in figures:
        parts = [f"{format_number(figures['tps'])} tps, p95 {format_latency(figures['p95_ms'])}"]
    else:
        parts = [f"I/O p99 {format_latency(figures['p99_ms'])}"]
    if choice.headroom_percent is not None:
        parts.append(f"head-room {describe_headroom(choice)}")
    return ", ".join(parts)


def _build_blocks(
    plan: Plan, workload: OpenWorkload | None, runs: Runs, *, explain: bool, families: bool, charts: bool
) -> Iterator[Block]:
    """Yields the blocks of a plan, for the terminal and for the page. `families`: families that are
    far off get a row too; `explain`: with the arithmetic."""
    lines = list_answer_lines(plan)
    yield from (Sentence(words, mark, "terminal") for words, mark in lines)
    yield from (
        Sentence(words, mark, "page") for words, mark in lines if mark == "warn" and not _is_in_cards(plan, words)
    )
    if charts:
        yield from draw_day(plan, workload, runs)
    if charts and plan.subject == "database":
        yield from draw_cost(plan)
    yield Heading("Choices, the cheapest first" if plan.choices.winners else "Closest to the goals", "page")
    yield build_choice_table(plan, place="page")
    yield build_choice_table(plan)
    best = plan.recommended
    if best is not None and any(rank.isdigit() and choice.key == best.key for rank, choice in rank_choices(plan)):
        yield Sentence("* recommended", place="terminal")
    yield from _build_losers(plan, families)
    if plan.services is not None:
        yield from build_service_blocks(plan.services, explain)
    if steps := list_next_lines(plan):
        yield from (Heading("Next steps"), Code(steps))
    if charts and plan.subject != "database":
        yield from draw_cost(plan)
    if charts:
        yield from (*draw_balances(workload, runs), *draw_bills(plan))
    if explain:
        yield from (Heading("The arithmetic", "terminal"), Code(plan.choices.explain, "terminal"))
    yield from (
        Heading("", "terminal"),
        Items([f"note: {note}" for note in [*_explain_skipped(plan), *plan.doubts.caveats]], "terminal"),
    )
    yield from _build_small_print(plan, workload, [words for words, mark in lines if mark != "warn"])


def _is_in_cards(plan: Plan, words: str) -> bool:
    """Returns whether a sentence repeats a card: that today's storage fails, or what is closest."""
    today = plan.choices.compared
    if today is not None and words.startswith(f"Today {today.place} costs "):
        return True
    return bool(plan.choices.closest) and words.startswith("Nothing meets every goal. Closest: ")


def _build_losers(plan: Plan, families: bool) -> Iterator[Block]:
    """Yields why other families lost, and the names of those far off, for the terminal."""
    lost, far = list_verdict_rows(plan, families)
    if lost:
        yield Table(VERDICTS, lost, "Why not the others", place="terminal")
    if far:
        yield Sentence(f"Far off, or not possible: {', '.join(far)} (--families says why).", place="terminal")


def _build_small_print(plan: Plan, workload: OpenWorkload | None, reasons: Sequence[str]) -> Iterator[Block]:
    """Yields the folded blocks of a page. `reasons`: the answer in sentences."""
    yield Heading("Behind the answer", "page")
    yield Fold("Why", [Items(reasons)])
    yield Fold("Goals", [Items([*(f"{goal}: {goal.about.meaning}" for goal in plan.goals), make_title(plan)])])
    if workload is not None:
        described = f"IOPS and MiB/s of {workload.name} over time"
        drawn = Chart(lambda: over_time.draw_workload(workload), described)
        figures = fold_of("", with_totals(workload.points), DEMAND, find_clock_start(workload)).blocks
        yield Fold("The demand", [Items(workload.describe().splitlines()[:5]), drawn, *figures])
    yield Fold("Why not the others", [Table(VERDICTS, list_verdict_rows(plan)[0])])
    if choice := plan.nearest:
        yield Fold(f"The bill of {choice.place}", [Table(BILL, list_bill_rows(choice))])
    yield Fold("The arithmetic", [Code(plan.choices.explain)])
    yield Fold("Caveats before buying", [Items([*plan.doubts.caveats, *_explain_skipped(plan)])])


def build_choice_table(plan: Plan, most: int | None = None, place: Place = "terminal") -> Table:
    """Returns the ranked choices, or the first `most`, as a table for a `place`. The recommended
    choice is marked, with a star on a terminal."""
    titles, rows = tabulate_choices(plan)
    rows, best = rows[:most], plan.recommended
    keys = [choice.key for _, choice in rank_choices(plan)[:most]]
    marked = keys.index(best.key) if best is not None and best.key in keys else None
    if place == "terminal":
        return Table([COLUMNS[name] for name in titles], rows, make_title(plan), marked, place)
    # A page begins a row with the choice in words and says there what it is; its rank stands among
    # all columns.
    at = titles.index("storage") if "storage" in titles else 0
    own = {"rank": replace(COLUMNS["rank"], kind="", brief=not at), "storage": replace(COLUMNS["storage"], kind="")}
    heads = [own.get(name, COLUMNS[name]) for name in titles]
    cells, failing = [], []
    for index, (row, (rank, choice)) in enumerate(zip(rows, rank_choices(plan), strict=False)):
        words = [row[0].removesuffix(" *"), *row[1:]]
        if at:
            name = describe_storage(choice.storage) if choice.service == "ec2" else row[at]
            roles = [
                *(["recommended"] if index == marked and rank != "recommended" else []),
                *([] if rank.isdigit() else [rank]),
            ]
            if not choice.meets_goals:
                failing.append(index)
                roles += [] if rank.isdigit() else ["fails"]
            words[at] = f"{name} ({', '.join(roles)})" if roles else name
            words = [words[at], choice.storage, *words[:at], *words[at + 1 :]]
        cells.append(words)
    if at:
        heads = [heads[at], Column("notation", "key"), *heads[:at], *heads[at + 1 :]]
    # If nothing meets the goals, every row fails, and the colour tells nothing.
    return Table(heads, cells, marked=marked, place=place, failing=failing if len(failing) < len(cells) else ())


def build_short_view(plan: Plan, most: int) -> View:
    """Returns the view for a notebook: the answer, the first `most` choices, cost against what is
    delivered."""
    line, mark = list_answer_lines(plan)[len(plan.doubts.warnings)]
    return View(
        make_headline(plan), blocks=[Sentence(line, mark), build_choice_table(plan, most, "page"), *draw_cost(plan)]
    )
