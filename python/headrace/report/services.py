"""Services in sentences, tables and rows for CSV: a database on EC2, RDS and Aurora side by side,
and the part of a plan about services: each deployment's best, the bills, when I/O-Optimized pays,
rules, and the comparison of then and now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.base import caps
from headrace.base.encoding import pick_fields
from headrace.base.lazy import defer_imports
from headrace.planner.market.durability import format_small_percent
from headrace.report.databases import format_clients
from headrace.report.view import Block, Card, Chart, Fold, Heading, Items, Sentence, Table, View, make_columns
from headrace.report.words import format_latency, format_number, format_percent, format_span, format_usd

with defer_imports():
    from headrace.report.charts import predictions

if TYPE_CHECKING:
    from headrace.base import core
    from headrace.planner.result import ServicesPart
    from headrace.simulation.services import Fact, ServiceComparison, ServiceOutcome


COLUMNS = make_columns(
    (
        "service",
        "tps",
        "80 %",
        "p95 ms",
        "limited by",
        "reader's lag",
        "failover",
        "lost with instance",
        "lost with zone",
        "USD/month",
    ),
    number=("tps", "80 %", "p95 ms", "USD/month"),
    key=("service", "limited by", "reader's lag", "failover", "lost with instance", "lost with zone"),
    brief=("service", "tps", "failover", "lost with zone", "USD/month"),
)
ITEMS = make_columns(
    ("service", "item", "quantity", "unit", "USD per unit", "USD", "price of"),
    number=("quantity", "USD per unit", "USD"),
)
SERVICES = {"ec2": "EC2", "rds": "RDS", "aurora": "Aurora"}
# Options as AWS writes them.
OPTIONS = {
    "single-az": "Single-AZ", "multi-az": "Multi-AZ", "multi-az-cluster": "Multi-AZ cluster", "standard": "Standard",
    "io-optimized": "I/O-Optimized",
}  # fmt: skip
UNKNOWN, GUESS = "not known", "guess"
NO_PRICE = "no price"


def describe_question(comparison: ServiceComparison) -> list[str]:
    """Returns a sentence with workload, instance, storage, cache, load and day of a comparison."""
    load = format_clients(comparison.threads) if comparison.threads else "open load"
    cache = f"cache {format_number(comparison.cache_gib)} GiB, {load}, {format_number(comparison.data_gib)} GiB of data"
    where = f"{comparison.workload} on {comparison.instance} with {comparison.storage}; {cache}"
    return [
        f"{where}; limits and prices of {comparison.as_of} in {comparison.region}. Simulated, each with its 80 % interval."
    ]


def list_summary_rows(comparison: ServiceComparison) -> list[tuple[str, ...]]:
    """Returns the cells of COLUMNS, a row for each deployment that is possible."""
    rows = []
    for outcome in comparison.outcomes:
        if outcome.refusal is not None or outcome.rto_s is None or outcome.rpo_s is None:
            continue
        interval = f"{format_number(outcome.tps_low, 3)} to {format_number(outcome.tps_high, 3)}"
        bill = NO_PRICE if outcome.bill.usd_month is None else format_usd(outcome.bill.usd_month)
        rows.append(
            (
                outcome.deployment,
                format_number(outcome.tps, 3),
                interval,
                format_number(outcome.p95_ms),
                caps.label_cap(outcome.cap),
                _describe_lag(outcome),
                _describe_failover(outcome.rto_s),
                _describe_loss(outcome.rpo_s[0]),
                _describe_loss(outcome.rpo_s[1]),
                bill,
            )
        )
    return rows


def _describe_lag(outcome: ServiceOutcome) -> str:
    """Returns a reader's mean and highest lag, and the share of draws in which it keeps up."""
    lag = outcome.lag
    if lag is None or lag.ms is None:
        return lag.words if lag is not None and "binary log" not in lag.words else "not predicted"
    mean, highest = (format_span(ms / 1e3) for ms in lag.ms)
    keeps_up_text = "" if lag.keeps_up is None else f" (keeps up: {format_percent(lag.keeps_up)} of draws)"
    return f"{mean}, at most {highest}{keeps_up_text}"


def _describe_failover(pair: tuple[Fact, Fact]) -> str:
    """Returns how long a failover takes, in words; `pair`: the shortest and the longest time, in
    seconds."""
    low, high = pair
    if low.value is None or high.value is None:
        return UNKNOWN
    guess = "" if high.confirmed else f" ({GUESS})"
    return f"{format_span(low.value)} to {format_span(high.value)}{guess}"


def _describe_loss(fact: Fact) -> str:
    """Returns the span of the latest writes that a failure loses, in words; `fact` is in
    seconds."""
    if fact.value is None:
        return fact.note or UNKNOWN
    words = "nothing" if fact.value == 0 else format_span(fact.value)
    return words if fact.confirmed else f"{words} ({GUESS})"


def list_item_rows(comparison: ServiceComparison) -> list[tuple[str, ...]]:
    """Returns the cells of ITEMS, a row for each item of each deployment's bill."""
    rows = []
    for outcome in comparison.outcomes:
        rows += [_list_item_cells(outcome.deployment, item, 4) for item in outcome.bill.items]
        rows += [(outcome.deployment, what, "", "", "", NO_PRICE, "") for what in outcome.bill.missing]
    return rows


def _list_item_cells(deployment: str, item: core.CostItem | dict, digits: int) -> tuple[str, ...]:
    """Returns the cells of ITEMS: an item of a deployment's bill, its quantity to `digits`."""
    price = (
        format_number(item["quantity"], digits),
        item["unit"],
        format_number(item["unit_price_usd"], 4),
        format_usd(item["usd"]),
    )
    return (deployment, item["item"], *price, f"{item['as_of']}, {item['source']}")


def list_doubts(comparison: ServiceComparison) -> list[str]:
    """Returns why some deployments are not possible, the evidence for the others, and notes."""
    lines = [
        f"{outcome.deployment}: not possible: {outcome.refusal}."
        for outcome in comparison.outcomes
        if outcome.refusal is not None
    ]
    services_by_confidence: dict[str, list[str]] = {}
    for outcome in comparison.outcomes:
        if outcome.refusal is None:
            services_by_confidence.setdefault(outcome.confidence, []).append(outcome.deployment)
    lines += [f"{', '.join(names)}: {words}" for words, names in services_by_confidence.items()]
    lags = {
        outcome.deployment: outcome.lag.words
        for outcome in comparison.outcomes
        if outcome.lag is not None and "binary log" in outcome.lag.words
    }
    lines += [f"{name}: {words}." for name, words in lags.items()]
    return lines + list(comparison.notes)


def list_limits(comparison: ServiceComparison) -> list[str]:
    """Returns what each service or option cannot do, each limitation once."""
    lines = (f"{_describe_limitation(row)}." for outcome in comparison.outcomes for row in outcome.cannot)
    return list(dict.fromkeys(lines))


def _describe_limitation(row: Mapping[str, object]) -> str:
    name = row["service"] if row["option"] == "any" else f"{row['service']}:{row['option']}"
    return f"{name} cannot {row['what']}: {row['detail']}"


def describe_break_even(comparison: ServiceComparison) -> list[str]:
    """Returns a sentence on the I/Os from which I/O-Optimized is cheaper; [] if unknown."""
    even = comparison.break_even
    if even is None:
        return []
    ios = next(
        (outcome.bill.million_ios for outcome in comparison.outcomes if outcome.deployment == "aurora:standard"), 0.0
    )
    verdict = "I/O-Optimized is cheaper here" if ios > even.million_ios else "Standard is cheaper here"
    costs = f"from {format_number(even.million_ios, 3)} million I/Os a month ({format_number(even.ios_per_s, 3)} a second all month)"
    share = f"{format_usd(even.usd)} of I/O, {even.share_percent:.0f} % of the Standard bill"
    return [f"Aurora I/O-Optimized pays {costs}: {share}. This load does {format_number(ios, 3)} million; {verdict}."]


def describe_billed_ios(comparison: ServiceComparison) -> list[str]:
    """Returns a sentence on the I/Os that Aurora bills for a transaction, and on the processors
    that a reader needs; empty without Aurora."""
    for outcome in comparison.outcomes:
        if outcome.ios_per_tx is not None:
            reads, writes = outcome.ios_per_tx
            line = f"Aurora bills {format_number(reads)} reads and {format_number(writes)} writes of log a transaction"
            cpu = (
                ""
                if outcome.lag is None or outcome.lag.cpu_share is None
                else f"; a reader applies with {format_percent(outcome.lag.cpu_share)} of its processors"
            )
            return [f"{line}{cpu}."]
    return []


def build_view(comparison: ServiceComparison) -> View:
    """Returns the comparison as a view."""
    title = make_title(comparison)
    described = f"{title}: transactions a second with intervals, and the bill of a month by item"
    rows, bills = list_summary_rows(comparison), list_item_rows(comparison)
    blocks: list[Block] = [
        Items(describe_question(comparison), "terminal"),
        Chart(lambda: predictions.draw_side_by_side(comparison, title), described),
    ]
    blocks += [Table(COLUMNS, rows)] if rows else []
    blocks += [Table(ITEMS, bills, "Bill of a month", place="terminal")] if bills else []
    blocks += [Heading("", "terminal"), Items([*describe_billed_ios(comparison), *describe_break_even(comparison)])]
    blocks += [
        Items(list_doubts(comparison), "terminal"),
        Heading("", "terminal"),
        Items(list_limits(comparison), "terminal"),
    ]
    blocks += [Fold("Bill of a month", [Table(ITEMS, bills)])] if bills else []
    blocks += [Fold("Basis of the comparison", [Items(list_doubts(comparison))])]
    blocks += [Fold("Limitations of each", [Items(list_limits(comparison))])]
    return View(make_headline(comparison), describe_question(comparison)[0], list(_build_cards(comparison)), blocks)


def make_headline(comparison: ServiceComparison) -> str:
    """Says in a sentence which service costs least; names them where no price is known."""
    priced = _sort_by_price(comparison)
    if not priced:
        return make_title(comparison)
    best = priced[0]
    return f"{_describe_deployment(best.deployment)} costs least for {comparison.workload}: {format_usd(best.bill.usd_month)} USD a month"


def _describe_deployment(deployment: str) -> str:
    """Returns a deployment in a reader's words: `RDS Multi-AZ`, `Aurora I/O-Optimized`."""
    service, _, option = deployment.partition(":")
    return f"{SERVICES.get(service, service)} {OPTIONS.get(option, option)}".strip()


def _sort_by_price(comparison: ServiceComparison) -> list[ServiceOutcome]:
    """Returns the deployments that are possible and have a price, the cheapest first."""
    possible = [
        outcome for outcome in comparison.outcomes if outcome.refusal is None and outcome.bill.usd_month is not None
    ]
    return sorted(possible, key=lambda outcome: (outcome.bill.usd_month or 0.0, outcome.deployment))


def _build_cards(comparison: ServiceComparison) -> Iterator[Card]:
    """Yields a card for the cheapest deployment of each service: cost, tps, p95 and main limit."""
    services: set[str] = set()
    for outcome in _sort_by_price(comparison):
        service = outcome.deployment.partition(":")[0]
        if service not in services:
            services.add(service)
            figures = f"{format_number(outcome.tps, 3)} tps, p95 {format_number(outcome.p95_ms)} ms; limited by {caps.describe_cap(outcome.cap or 'none')}."
            yield Card(
                _describe_deployment(outcome.deployment), f"{format_usd(outcome.bill.usd_month)} USD a month", figures
            )


def make_title(comparison: ServiceComparison) -> str:
    """Names the workload and the services."""
    return f"{comparison.workload}: EC2, RDS and Aurora"


# Times of a failover, and of the writes that a failure loses, as columns.
TIMES = ("rto_low_s", "rto_high_s", "rpo_instance_s", "rpo_zone_s")
CSV = (
    "deployment", "class", "possible", "volumes", "tps", "tps_low", "tps_high", "p50_ms", "p95_ms", "p99_ms", "cap", "reader_lag_ms", "reader_lag_highest_ms",
    "reader_keeps_up", *TIMES, "billed_reads_per_tx", "billed_writes_per_tx", "million_ios_month", "usd_month", "refusal", "confidence",
)  # fmt: skip


def list_csv_rows(comparison: ServiceComparison) -> list[dict]:
    """Returns a row for each deployment, for CSV."""
    rows = []
    for outcome in comparison.outcomes:
        row = pick_fields(outcome, *(name for name in CSV if hasattr(outcome, name)))
        row |= {"class": outcome.class_name, "possible": outcome.refusal is None}
        row["reader_lag_ms"], row["reader_lag_highest_ms"] = (outcome.lag and outcome.lag.ms) or (None, None)
        row["reader_keeps_up"] = outcome.lag and outcome.lag.keeps_up
        times = (*(outcome.rto_s or (None, None)), *(outcome.rpo_s or (None, None)))
        row |= {name: fact and fact.value for name, fact in zip(TIMES, times, strict=True)}
        row["billed_reads_per_tx"], row["billed_writes_per_tx"] = outcome.ios_per_tx or (None, None)
        rows.append(row | {"million_ios_month": outcome.bill.million_ios, "usd_month": outcome.bill.usd_month})
    return rows


# --- the part of a plan ---------------------------------------------------------------------------


PLANNED = make_columns(
    (
        "service",
        "best candidate",
        "USD/month",
        "tps",
        "80 %",
        "p95",
        "failover",
        "lost with zone",
        "AFR a year",
        "goals",
    ),
    number=("USD/month", "tps", "80 %", "p95"),
    key=("service",),
    prose=("goals", "best candidate"),
    brief=("service", "USD/month", "tps", "p95", "goals"),
)
QUESTIONS = ("question", "whitepaper 2017", "EC2", "RDS", "Aurora", "source")
THEN_NOW = make_columns(QUESTIONS, prose=QUESTIONS)


def list_planned_rows(part: ServicesPart) -> list[tuple[str, ...]]:
    """Returns the cells of PLANNED, a row for the best candidate of each deployment."""
    table_rows = []
    for answer in part.answers:
        best = answer.best
        survives = _describe_failover(answer.failover_s), _describe_loss(answer.lost_s[1])
        if best is None:
            table_rows.append((answer.deployment, "none", "-", "-", "-", "-", *survives, "-", answer.why))
            continue
        tps, p95, interval = "-", format_latency(best.metrics.get("p99_ms")), "-"
        if best.tps_low is not None:
            tps, p95 = format_number(best.metrics["tps"], 3), format_latency(best.metrics["p95_ms"])
            interval = f"{format_number(best.tps_low, 3)} to {format_number(best.tps_high, 3)}"
        readers = f" with {answer.readers} {'reader' if answer.readers == 1 else 'readers'}" if answer.readers else ""
        cells = (f"{best.place}{readers}", format_usd(best.cost_usd_month), tps, interval, p95)
        afr = best.durability_afr_percent
        durability = "lost on stop" if not best.persistent else "-" if afr is None else format_small_percent(afr)
        table_rows.append((answer.deployment, *cells, *survives, durability, answer.why))
    return table_rows


def list_bill_rows(part: ServicesPart) -> list[tuple[str, ...]]:
    """Returns rows of ITEMS: the bill of each deployment's best candidate, and its total."""
    table_rows = []
    for answer in part.answers:
        if answer.best:
            table_rows += [_list_item_cells(answer.deployment, item, 6) for item in answer.best.items]
            table_rows.append((answer.deployment, "together", "", "", "", format_usd(answer.best.cost_usd_month), ""))
    return table_rows


def describe_planned_break_even(part: ServicesPart) -> list[str]:
    """Returns a sentence on the I/Os a month from which I/O-Optimized is cheaper, and the rate at
    which Aurora was billed; empty if unknown."""
    even = part.break_even
    if even is None or part.million_ios is None:
        return []
    verdict = "I/O-Optimized is cheaper" if part.million_ios > even.million_ios else "Standard is cheaper"
    costs = f"from {format_number(even.million_ios, 4)} million I/Os a month ({format_number(even.ios_per_s, 3)} a second all month)"
    share = f"{format_usd(even.usd)} USD of I/O, {even.share_percent:.0f} % of the Standard bill"
    billed = f"Billed at {format_number(part.billed_tps, 4)} tps this database does {format_number(part.million_ios, 4)} million"
    return [f"Aurora I/O-Optimized pays {costs}: {share}. {billed}; {verdict}."]


def list_storage_rules(part: ServicesPart) -> list[str]:
    """Returns the rules of each service's storage, the evidence behind each, and what each cannot
    do."""
    services_by_rule: dict[str, list[str]] = {}
    for answer in part.answers:
        for words in (*answer.rules, answer.confidence):
            services_by_rule.setdefault(words, []).append(answer.deployment)
    lines = [
        f"{', '.join(names)}: {words}{'' if words.endswith('.') else '.'}" for words, names in services_by_rule.items()
    ]
    limits = (f"{_describe_limitation(row)} ({row['source']})." for answer in part.answers for row in answer.cannot)
    return [*lines, *dict.fromkeys(limits)]


def describe_growth(part: ServicesPart) -> list[str]:
    """Returns a sentence for each deployment on how its storage grows with the data."""
    return [f"{answer.deployment}: {answer.growth}." for answer in part.answers if answer.growth]


def compare_then_and_now(part: ServicesPart) -> list[tuple[str, ...]]:
    """Returns the rows of THEN_NOW: the whitepaper's comparison, and what holds now."""
    names = ("question", "whitepaper_2017", "ec2", "rds", "aurora")
    doubt = {True: "", False: ", not confirmed"}
    return [(*(row[name] for name in names), f"{row['source']}{doubt[row['confirmed']]}") for row in part.comparison]


def build_service_blocks(part: ServicesPart, explain: bool) -> Iterator[Block]:
    """Yields a plan's blocks on services; on a terminal, then and now only with `explain`."""
    yield Heading("EC2, RDS and Aurora", "page")
    yield Table(PLANNED, list_planned_rows(part), "Services", place="terminal")
    yield Table(PLANNED, list_planned_rows(part), place="page")
    yield Table(ITEMS, list_bill_rows(part), "Bill of a month", place="terminal")
    yield Heading("", "terminal")
    yield Items([*describe_planned_break_even(part), *describe_growth(part)])
    if explain:
        yield Table(THEN_NOW, compare_then_and_now(part), "Then and now", place="terminal")
        yield from (Heading("", "terminal"), Items(list_storage_rules(part), "terminal"))
    else:
        words = "--explain adds the whitepaper's comparison then and now, and the rules of each service's storage."
        yield Sentence(words, place="terminal")
    yield Fold("Bills of a month", [Table(ITEMS, list_bill_rows(part))])
    yield Fold("Then and now", [Table(THEN_NOW, compare_then_and_now(part))])
    yield Fold("Rules of each service's storage, and limitations of each service", [Items(list_storage_rules(part))])
