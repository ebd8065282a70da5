"""Reads transactions and the latency of statements from performance_schema: read at the beginning
and at the end, the difference is the capture's.

No server keeps a histogram of transactions. MySQL since 8.0 keeps one of all statements; MariaDB
none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.mysql.statements import Row, SqlConnection
from headrace.observe.live.profile import NO_PRIVILEGE, ask_live

PICOSECONDS_PER_MS = 1e9  # performance_schema counts in picoseconds
TRANSACTIONS = (
    "SELECT COUNT_STAR, SUM_TIMER_WAIT FROM "
    "performance_schema.events_transactions_summary_global_by_event_name WHERE EVENT_NAME = 'transaction'"
)
# Buckets are closed above (MySQL 8.0 manual, "Statement Histogram Summary Tables"): a percentile is
# the upper end of its bucket, at most 4.7 % too high.
STATEMENTS = "SELECT BUCKET_TIMER_HIGH, COUNT_BUCKET FROM performance_schema.events_statements_histogram_global ORDER BY BUCKET_NUMBER"
PERCENTILES = (50.0, 95.0, 99.0, 99.9)  # as reports of benchmarks have them
# A histogram of fewer statements tells no 95th percentile.
FEWEST = 200


@dataclass
class Latencies:
    """Counters since the server began, None where it has none; `notes`: what is missing and why."""

    transactions: tuple[float, float] | None = None  # how many, ms in all
    statements: list[tuple[float, float]] | None = None  # (upper end of the bucket, ms; how many)
    notes: list[str] = field(default_factory=list)


def read_latencies(connection: SqlConnection, variables: dict[str, str], account: str) -> Latencies:
    """Asks performance_schema. Raises CouldNotRun when the server is lost."""
    latencies = Latencies()
    if variables.get("performance_schema", "OFF").upper() not in ("ON", "1"):
        latencies.notes.append(
            "performance_schema is off on this server: no response times of transactions or statements could be had"
        )
        return latencies
    rows = _try(connection, TRANSACTIONS, latencies, account)
    if rows:
        latencies.transactions = (float(rows[0][0]), float(rows[0][1]) / PICOSECONDS_PER_MS)
    rows = _try(connection, STATEMENTS, latencies, account)
    if rows:
        latencies.statements = [(float(high) / PICOSECONDS_PER_MS, float(count)) for high, count in rows]
    elif rows is not None or not latencies.notes:
        latencies.notes.append(
            "this server keeps no histogram of statements (MySQL does since 8.0): no percentiles could be had"
        )
    return latencies


def _try(connection: SqlConnection, statement: str, latencies: Latencies, account: str) -> list[Row] | None:
    import pymysql

    try:
        return ask_live(connection, statement)
    except pymysql.err.MySQLError as error:
        if error.args[0] in NO_PRIVILEGE:
            text = (
                f"response times could not be had: the account lacks GRANT SELECT ON performance_schema.* TO {account}"
            )
            if text not in latencies.notes:
                latencies.notes.append(text)
        return None


def between(before: Latencies, after: Latencies) -> dict[str, float]:
    """Returns `transactions`, `transaction_mean_ms`, `statements`, `statement_pNN_ms` of the time
    between two readings; what is not known is left out."""
    changes: dict[str, float] = {}
    if before.transactions and after.transactions:
        count, took = (b - a for a, b in zip(before.transactions, after.transactions, strict=True))
        if count > 0 and took >= 0:
            changes |= {"transactions": count, "transaction_mean_ms": took / count}
    if before.statements and after.statements and len(before.statements) == len(after.statements):
        buckets = [(high, b - a) for (high, a), (_, b) in zip(before.statements, after.statements, strict=True)]
        count = sum(change for _, change in buckets)
        if count >= FEWEST and all(change >= 0 for _, change in buckets):
            changes["statements"] = count
            changes |= {
                f"statement_p{percent:g}_ms": _percentile(buckets, percent * count / 100) for percent in PERCENTILES
            }
    return changes


def _percentile(buckets: list[tuple[float, float]], rank: float) -> float:
    seen = 0.0
    for high, count in buckets:
        seen += count
        if seen >= rank:
            return high
    return buckets[-1][0]
