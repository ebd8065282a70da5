"""The part of a plan about services: each deployment's best, the bills, when I/O-Optimized pays,
rules, and the comparison of then and now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.planner.market.durability import small_percent
from headrace.report.view import Block, Fold, Heading, Items, Sentence, Table, columns
from headrace.report.words import latency, number, span, usd

if TYPE_CHECKING:
    from headrace.planner.result import ServiceAnswer, ServicesPart

COLUMNS = columns(
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
)
BILL = columns(
    ("service", "item", "quantity", "unit", "USD per unit", "USD", "price of"),
    number=("quantity", "USD per unit", "USD"),
)
QUESTIONS = ("question", "whitepaper 2017", "EC2", "RDS", "Aurora", "source")
THEN_NOW = columns(QUESTIONS, prose=QUESTIONS)
UNKNOWN, GUESS = "not known", "guess"


def rows(part: ServicesPart) -> list[tuple[str, ...]]:
    """Returns the cells of COLUMNS, a row for each deployment."""
    table_rows = []
    for answer in part.answers:
        best = answer.best
        if best is None:
            table_rows.append(
                (
                    answer.deployment,
                    "none",
                    "-",
                    "-",
                    "-",
                    "-",
                    _pair(answer.failover_s),
                    _lost(answer),
                    "-",
                    answer.why,
                )
            )
            continue
        tps, p95, interval = "-", latency(best.metrics.get("p99_ms")), "-"
        if best.tps_low is not None:
            tps, p95 = number(best.metrics["tps"], 3), latency(best.metrics["p95_ms"])
            interval = f"{number(best.tps_low, 3)} to {number(best.tps_high, 3)}"
        readers = f" with {answer.readers} {'reader' if answer.readers == 1 else 'readers'}" if answer.readers else ""
        cells = (f"{best.place}{readers}", usd(best.cost_usd_month), tps, interval, p95)
        afr = best.durability_afr_percent
        durability = "lost on stop" if not best.persistent else "-" if afr is None else small_percent(afr)
        table_rows.append((answer.deployment, *cells, _pair(answer.failover_s), _lost(answer), durability, answer.why))
    return table_rows


def _pair(pair: tuple[dict | None, dict | None]) -> str:
    low, high = pair
    if not low or not high or low["value"] is None or high["value"] is None:
        return UNKNOWN
    return f"{span(low['value'])} to {span(high['value'])}" + ("" if high["confirmed"] else f" ({GUESS})")


def _lost(answer: ServiceAnswer) -> str:
    fact = answer.lost_s[1]
    if not fact or fact["value"] is None:
        return (fact or {}).get("note") or UNKNOWN
    words = "nothing" if fact["value"] == 0 else span(fact["value"])
    return words if fact["confirmed"] else f"{words} ({GUESS})"


def bill_rows(part: ServicesPart) -> list[tuple[str, ...]]:
    """Returns the bills of the best, item by item, with day and source."""
    table_rows = []
    for answer in part.answers:
        for item in answer.best.items if answer.best else ():
            price = (number(item["quantity"], 6), item["unit"], number(item["unit_price_usd"], 4), usd(item["usd"]))
            table_rows.append((answer.deployment, item["item"], *price, f"{item['as_of']}, {item['source']}"))
        if answer.best:
            table_rows.append((answer.deployment, "together", "", "", "", usd(answer.best.cost_usd_month), ""))
    return table_rows


def even_lines(part: ServicesPart) -> list[str]:
    """Says when I/O-Optimized pays, and at what rate Aurora was billed."""
    even = part.break_even
    if even is None or part.million_ios is None:
        return []
    verdict = "I/O-Optimized is cheaper" if part.million_ios > even.million_ios else "Standard is cheaper"
    costs = f"from {number(even.million_ios, 4)} million I/Os a month ({number(even.ios_per_s, 3)} a second all month)"
    share = f"{usd(even.usd)} USD of I/O, {even.share_percent:.0f} % of the Standard bill"
    billed = f"Billed at {number(part.billed_tps, 4)} tps this database does {number(part.million_ios, 4)} million"
    return [f"Aurora I/O-Optimized pays {costs}: {share}. {billed}; {verdict}."]


def rule_lines(part: ServicesPart) -> list[str]:
    """Returns the rules of each service's storage, the evidence behind each, and what each cannot
    do."""
    services_by_rule: dict[str, list[str]] = {}
    for answer in part.answers:
        for words in (*answer.rules, answer.confidence):
            services_by_rule.setdefault(words, []).append(answer.deployment)
    lines = [
        f"{', '.join(names)}: {words}{'' if words.endswith('.') else '.'}" for words, names in services_by_rule.items()
    ]
    limits: dict[str, None] = {}
    for answer in part.answers:
        for row in answer.cannot:
            name = row["service"] if row["option"] == "any" else f"{row['service']}:{row['option']}"
            limits[f"{name} cannot {row['what']}: {row['detail']} ({row['source']})."] = None
    return [*lines, *limits]


def growth_lines(part: ServicesPart) -> list[str]:
    """Says what becomes of storage as data come."""
    return [f"{answer.deployment}: {answer.growth}." for answer in part.answers if answer.growth]


def then_and_now(part: ServicesPart) -> list[tuple[str, ...]]:
    """Returns the whitepaper's comparison, then and now."""
    names = ("question", "whitepaper_2017", "ec2", "rds", "aurora")
    doubt = {True: "", False: ", not confirmed"}
    return [(*(row[name] for name in names), f"{row['source']}{doubt[row['confirmed']]}") for row in part.comparison]


def service_blocks(part: ServicesPart, explain: bool) -> Iterator[Block]:
    """Yields the part; on a terminal the comparison and the rules only where `explain` is true."""
    yield Heading("EC2, RDS and Aurora", "page")
    yield Table(COLUMNS, rows(part), "Services", place="terminal")
    brief = ("service", "USD/month", "tps", "p95", "goals")
    yield Table([replace(column, brief=column.title in brief) for column in COLUMNS], rows(part), place="page")
    yield Table(BILL, bill_rows(part), "Bill of a month", place="terminal")
    yield Heading("", "terminal")
    yield Items([*even_lines(part), *growth_lines(part)])
    if explain:
        yield Table(THEN_NOW, then_and_now(part), "Then and now", place="terminal")
        yield from (Heading("", "terminal"), Items(rule_lines(part), "terminal"))
    else:
        words = "--explain adds the whitepaper's comparison then and now, and the rules of each service's storage."
        yield Sentence(words, place="terminal")
    yield Fold("Bills of a month", [Table(BILL, bill_rows(part))])
    yield Fold("Then and now", [Table(THEN_NOW, then_and_now(part))])
    yield Fold("Rules of each service's storage, and limitations of each service", [Items(rule_lines(part))])
