"""The part of a plan about services: each deployment's best, the bills, when I/O-Optimized pays,
rules, and the comparison of then and now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.planner.market.durability import small_percent
from headrace.report.tables import table
from headrace.report.words import latency, number, span, usd

if TYPE_CHECKING:
    from headrace.report.html import Page

COLUMNS = (
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
)
RIGHT = ("USD/month", "tps", "80 %", "p95")
BILL = ("service", "item", "quantity", "unit", "USD per unit", "USD", "price of")
BILL_RIGHT = ("quantity", "USD per unit", "USD")
THEN_NOW = ("question", "whitepaper 2017", "EC2", "RDS", "Aurora", "source")
UNKNOWN, GUESS = "not known", "guess"


def rows(part) -> list[tuple[str, ...]]:
    """The cells of COLUMNS, a row a deployment."""
    found = []
    for one in part.answers:
        best = one.best
        if best is None:
            found.append((one.deployment, "none", "-", "-", "-", "-", _pair(one.failover_s), _lost(one), "-", one.why))
            continue
        tps, p95, interval = "-", latency(best.metrics.get("p99_ms")), "-"
        if best.tps_low is not None:
            tps, p95 = number(best.metrics["tps"], 3), latency(best.metrics["p95_ms"])
            interval = f"{number(best.tps_low, 3)} to {number(best.tps_high, 3)}"
        readers = f" with {one.readers} {'reader' if one.readers == 1 else 'readers'}" if one.readers else ""
        cells = (f"{best.place}{readers}", usd(best.cost_usd_month), tps, interval, p95)
        afr = best.durability_afr_percent
        kept = "lost on stop" if not best.persistent else "-" if afr is None else small_percent(afr)
        found.append((one.deployment, *cells, _pair(one.failover_s), _lost(one), kept, one.why))
    return found


def _pair(pair) -> str:
    low, high = pair
    if not low or not high or low["value"] is None or high["value"] is None:
        return UNKNOWN
    return f"{span(low['value'])} to {span(high['value'])}" + ("" if high["confirmed"] else f" ({GUESS})")


def _lost(one) -> str:
    fact = one.lost_s[1]
    if not fact or fact["value"] is None:
        return (fact or {}).get("note") or UNKNOWN
    words = "nothing" if fact["value"] == 0 else span(fact["value"])
    return words if fact["confirmed"] else f"{words} ({GUESS})"


def bill_rows(part) -> list[tuple[str, ...]]:
    """The bills of the best, item by item, with day and source."""
    found = []
    for one in part.answers:
        for item in one.best.items if one.best else ():
            price = (number(item["quantity"], 6), item["unit"], number(item["unit_price_usd"], 4), usd(item["usd"]))
            found.append((one.deployment, item["item"], *price, f"{item['as_of']}, {item['source']}"))
        if one.best:
            found.append((one.deployment, "together", "", "", "", usd(one.best.cost_usd_month), ""))
    return found


def even_lines(part) -> list[str]:
    """When I/O-Optimized pays, and at what rate Aurora was billed."""
    even = part.break_even
    if even is None:
        return []
    verdict = "I/O-Optimized is cheaper" if part.million_ios > even.million_ios else "Standard is cheaper"
    costs = f"from {number(even.million_ios, 4)} million I/Os a month ({number(even.ios_per_s, 3)} a second all month)"
    share = f"{usd(even.usd)} USD of I/O, {even.share_percent:.0f} % of the Standard bill"
    billed = f"Billed at {number(part.billed_tps, 4)} tps this database does {number(part.million_ios, 4)} million"
    return [f"Aurora I/O-Optimized pays {costs}: {share}. {billed}; {verdict}."]


def rule_lines(part) -> list[str]:
    """What storage there lives by, what stands behind each, what each cannot do."""
    told: dict[str, list[str]] = {}
    for one in part.answers:
        for words in (*one.rules, one.confidence):
            told.setdefault(words, []).append(one.deployment)
    lines = [f"{', '.join(names)}: {words}{'' if words.endswith('.') else '.'}" for words, names in told.items()]
    limits: dict[str, None] = {}
    for one in part.answers:
        for row in one.cannot:
            name = row["service"] if row["option"] == "any" else f"{row['service']}:{row['option']}"
            limits[f"{name} cannot {row['what']}: {row['detail']} ({row['source']})."] = None
    return [*lines, *limits]


def growth_lines(part) -> list[str]:
    """What becomes of storage as data come."""
    return [f"{one.deployment}: {one.growth}." for one in part.answers if one.growth]


def then_and_now(part) -> list[tuple[str, ...]]:
    """The whitepaper's comparison, then and now."""
    names = ("question", "whitepaper_2017", "ec2", "rds", "aurora")
    doubt = {True: "", False: ", not confirmed"}
    return [(*(one[name] for name in names), f"{one['source']}{doubt[one['confirmed']]}") for one in part.comparison]


def services_shown(plan, explain: bool) -> list[Any]:
    """Everything for a terminal; `explain`: with the comparison and the rules."""
    part = plan.services
    prose = ("goals", "best candidate")
    parts: list[Any] = [table(COLUMNS, rows(part), title="Services", right=RIGHT, keep=COLUMNS[:3], prose=prose), ""]
    parts += [
        table(BILL, bill_rows(part), right=BILL_RIGHT, title="Bill of a month"),
        "",
        *even_lines(part),
        *growth_lines(part),
    ]
    if explain:
        parts += ["", table(THEN_NOW, then_and_now(part), title="Then and now", prose=THEN_NOW), "", *rule_lines(part)]
    else:
        parts.append(
            "--explain adds the whitepaper's comparison then and now, and the rules of each service's storage."
        )
    return parts


def services_page(made: Page, plan) -> None:
    """The same for a page."""
    part = plan.services
    made.heading("EC2, RDS and Aurora")
    made.table(COLUMNS, rows(part), right=RIGHT)
    made.items([*even_lines(part), *growth_lines(part)])
    made.heading("Bills of a month")
    made.table(BILL, bill_rows(part), right=BILL_RIGHT)
    made.heading("Then and now")
    made.table(THEN_NOW, then_and_now(part))
    made.heading("What storage there lives by, and what each service cannot do")
    made.items(rule_lines(part))
