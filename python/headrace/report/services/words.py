"""A comparison of services as sentences, tables and rows for CSV."""

from __future__ import annotations

from typing import Any

from headrace.base import caps
from headrace.report.databases import clients
from headrace.report.tables import table
from headrace.report.words import number, percent, span, usd

SCHEMA = "headrace-services/1"
COLUMNS = (
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
)
RIGHT = ("tps", "80 %", "p95 ms", "USD/month")
ITEMS = ("service", "item", "quantity", "unit", "USD per unit", "USD", "price of")
ITEMS_RIGHT = ("quantity", "USD per unit", "USD")
UNKNOWN, GUESS = "not known", "guess"
NO_PRICE = "no price"


def head(found) -> list[str]:
    """What was asked."""
    load = clients(found.threads) if found.threads else "open load"
    cache = f"cache {number(found.cache_gib)} GiB, {load}, {number(found.data_gib)} GiB of data"
    where = f"{found.workload} on {found.instance} with {found.storage}; {cache}"
    return [f"{where}; limits and prices of {found.as_of} in {found.region}. Simulated, each with its 80 % interval."]


def summary_rows(found) -> list[tuple[str, ...]]:
    """The cells of COLUMNS, a row a deployment that is possible."""
    rows = []
    for one in found.outcomes:
        if one.refusal is not None:
            continue
        interval = f"{number(one.tps_low, 3)} to {number(one.tps_high, 3)}"
        bill = NO_PRICE if one.usd_month is None else usd(one.usd_month)
        rows.append(
            (
                one.deployment,
                number(one.tps, 3),
                interval,
                number(one.p95_ms),
                caps.short(one.cap),
                _lag(one),
                _failover(one.rto_s),
                _lost(one.rpo_s[0]),
                _lost(one.rpo_s[1]),
                bill,
            )
        )
    return rows


def _lag(one) -> str:
    if one.lag_ms is None:
        return "not predicted" if "binary log" in one.lag_words else one.lag_words
    mean, highest = (span(ms / 1e3) for ms in one.lag_ms)
    kept = "" if one.keeps_up is None else f" (keeps up: {percent(one.keeps_up)} of draws)"
    return f"{mean}, at most {highest}{kept}"


def _failover(pair) -> str:
    low, high = pair
    if low.value is None or high.value is None:
        return UNKNOWN
    guess = "" if high.confirmed else f" ({GUESS})"
    return f"{span(low.value)} to {span(high.value)}{guess}"


def _lost(fact) -> str:
    if fact.value is None:
        return fact.note or UNKNOWN
    words = "nothing" if fact.value == 0 else span(fact.value)
    return words if fact.confirmed else f"{words} ({GUESS})"


def item_rows(found) -> list[tuple[str, ...]]:
    """The bills, item by item, with day and source."""
    rows = []
    for one in found.outcomes:
        for item in one.items:
            price = number(item["unit_price_usd"], 4)
            told = (
                number(item["quantity"], 4),
                item["unit"],
                price,
                f"{item['usd']:,.2f}",
                f"{item['as_of']}, {item['source']}",
            )
            rows.append((one.deployment, item["item"], *told))
        rows += [(one.deployment, what, "", "", "", NO_PRICE, "") for what in one.missing]
    return rows


def doubts(found) -> list[str]:
    """What stands behind each, why some cannot be, and what each cannot do."""
    lines = [f"{one.deployment}: not possible: {one.refusal}." for one in found.outcomes if one.refusal is not None]
    told: dict[str, list[str]] = {}
    for one in found.outcomes:
        if one.refusal is None:
            told.setdefault(one.confidence, []).append(one.deployment)
    lines += [f"{', '.join(names)}: {words}" for words, names in told.items()]
    lags = {one.deployment: one.lag_words for one in found.outcomes if "binary log" in one.lag_words}
    lines += [f"{name}: {words}." for name, words in lags.items()]
    return lines + list(found.notes)


def limits(found) -> list[str]:
    """What each cannot do, once for each service or option."""
    lines: dict[str, None] = {}
    for one in found.outcomes:
        for row in one.cannot:
            name = row["service"] if row["option"] == "any" else f"{row['service']}:{row['option']}"
            lines[f"{name} cannot {row['what']}: {row['detail']}."] = None
    return list(lines)


def break_even(found) -> list[str]:
    """When I/O-Optimized pays."""
    even = found.break_even
    if even is None:
        return []
    ios = next((one.million_ios for one in found.outcomes if one.deployment == "aurora:standard"), 0.0)
    verdict = "I/O-Optimized is cheaper here" if ios > even.million_ios else "Standard is cheaper here"
    costs = f"from {number(even.million_ios, 3)} million I/Os a month ({number(even.ios_per_s, 3)} a second all month)"
    share = f"{usd(even.usd)} of I/O, {even.share_percent:.0f} % of the Standard bill"
    return [f"Aurora I/O-Optimized pays {costs}: {share}. This load does {number(ios, 3)} million; {verdict}."]


def billed(found) -> list[str]:
    """Billed I/Os of a transaction, and what a reader's processors do."""
    for one in found.outcomes:
        if one.ios_per_tx is not None:
            reads, writes = one.ios_per_tx
            line = f"Aurora bills {number(reads)} reads and {number(writes)} writes of log a transaction"
            cpu = (
                ""
                if one.reader_cpu_share is None
                else f"; a reader applies with {percent(one.reader_cpu_share)} of its processors"
            )
            return [f"{line}{cpu}."]
    return []


def shown(found) -> list[Any]:
    """Everything for a terminal."""
    parts: list[Any] = [*head(found), ""]
    rows = summary_rows(found)
    if rows:
        parts += [table(COLUMNS, rows, right=RIGHT, keep=COLUMNS), ""]
    bills = item_rows(found)
    if bills:
        parts += [table(ITEMS, bills, right=ITEMS_RIGHT, title="Bill of a month"), ""]
    return [*parts, *billed(found), *break_even(found), *doubts(found), "", *limits(found)]


def document(found) -> dict:
    """Everything, for JSON."""
    return {"schema": SCHEMA, **{name: getattr(found, name) for name in found.__dataclass_fields__}}


CSV = (
    "deployment", "class", "possible", "volumes", "tps", "tps_low", "tps_high", "p95_ms", "cap", "reader_lag_ms", "reader_lag_highest_ms",
    "reader_keeps_up",
    "rto_low_s", "rto_high_s", "rpo_instance_s", "rpo_zone_s", "billed_reads_per_tx", "billed_writes_per_tx", "million_ios_month",
    "usd_month", "refusal", "confidence"
)  # fmt: skip


def csv_rows(found) -> list[dict]:
    """A row a deployment, of CSV."""
    rows = []
    for one in found.outcomes:
        lag = one.lag_ms or (None, None)
        rto, rpo = one.rto_s or (None, None), one.rpo_s or (None, None)
        reads, writes = one.ios_per_tx or (None, None)
        facts = [fact and fact.value for fact in (*rto, *rpo)]
        cells = (
            one.deployment,
            one.class_name,
            one.refusal is None,
            one.volumes,
            one.tps,
            one.tps_low,
            one.tps_high,
            one.p95_ms,
        )
        more = (
            one.cap,
            *lag,
            one.keeps_up,
            *facts,
            reads,
            writes,
            one.million_ios,
            one.usd_month,
            one.refusal,
            one.confidence,
        )
        rows.append(dict(zip(CSV, (*cells, *more), strict=True)))
    return rows
