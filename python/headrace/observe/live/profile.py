"""Reads the profile of a server: version, engine, cache, settings, the size of its data, and the
rights of the account.

Everything here is read once, with SELECT and SHOW only, in a session that is set to read only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headrace.base.units import GIB, MIB
from headrace.errors import CouldNotRun, InputError, Refusals
from headrace.mysql.address import Address
from headrace.mysql.statements import Row, SqlConnection, ask
from headrace.observe.settings import PAGES_KIB, SETTINGS, RunSetting, check_version

if TYPE_CHECKING:
    from collections.abc import Callable


refuse = Refusals("docs/reference/capture.md")
# A grant of one of these lets the account change something; a capture needs none.
WRITING = re.compile(
    r"\b(ALL PRIVILEGES|INSERT|UPDATE|DELETE|DROP|CREATE|ALTER|SUPER|GRANT OPTION|SHUTDOWN|RELOAD|FILE"
    r"|\w+_ADMIN|\w+ ADMIN)\b"
)
# Errors of the server that mean a privilege is missing: 1142 on a table, 1143 on a column, 1044 on
# a schema, 1227 of a global one.
NO_PRIVILEGE = (1142, 1143, 1044, 1227)
# include/rocksdb/options.h: what a column family has where nothing is said.
ROCKSDB_DEFAULTS = "write_buffer_size=64m;level0_file_num_compaction_trigger=4"
# Threads of other accounts are visible with PROCESS; without it, these count as clients.
IDLE = (
    "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND IN ('Daemon', 'Binlog Dump', 'Binlog Dump GTID')"
)
# The variable with the size of each engine's cache, bytes.
CACHES = {"innodb": "innodb_buffer_pool_size", "myrocks": "rocksdb_block_cache_size"}
# Bytes on disk of all tables. InnoDB's own list needs PROCESS; it opens no table.
SIZES = {
    "innodb": (
        "SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE IN ('Single', 'General', 'System')",
        "SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_SYS_TABLESPACES",
    ),
    "myrocks": ("SELECT SUM(DATA_BLOCK_SIZE) FROM information_schema.ROCKSDB_SST_PROPS",),
}


@dataclass(frozen=True)
class Profile:
    """A server as it describes itself. `version` as it writes it, `flavor` mysql, percona or
    mariadb, its global `variables` by name.

    `idle_threads`: of Threads_running, those that do no client's work: this connection, the event
    scheduler, senders of the binlog. `notes`: what could not be read, and doubts.
    """

    version: str
    flavor: str
    hostname: str
    variables: dict[str, str]
    idle_threads: int = 1
    notes: list[str] = field(default_factory=list)

    @property
    def engines(self) -> tuple[str, ...]:
        """Returns the engines of CACHES that are loaded."""
        return tuple(engine for engine, name in CACHES.items() if name in self.variables)

    def get_cache_gib(self, engine: str) -> float:
        """Returns the size of an engine's cache, GiB."""
        return int(self.variables[CACHES[engine]]) / GIB

    def make_settings(self, engine: str) -> dict[str, float | int | bool]:
        """Returns the [settings] of RUN.toml that the server's variables state."""
        table: dict[str, float | int | bool] = {}
        for name, setting in SETTINGS.items():
            if setting.variable in self.variables:
                text = self.variables[setting.variable]
                _keep_setting(table, engine, name, partial(_convert_to_unit, setting), text)
        prefix = "innodb" if engine == "innodb" else "rocksdb"
        _keep_setting(
            table, engine, "flush_log_at_trx_commit", int, self.variables.get(f"{prefix}_flush_log_at_trx_commit", "")
        )
        _keep_setting(table, engine, "redo_gib", lambda _: _compute_redo_bytes(self.variables) / GIB, "")
        family = self.variables.get("rocksdb_default_cf_options", "")
        _keep_setting(
            table, engine, "memtable_mib", lambda text: _parse_option_bytes(family, text) / MIB, "write_buffer_size"
        )
        _keep_setting(
            table,
            engine,
            "l0_trigger",
            lambda text: int(_parse_option_bytes(family, text)),
            "level0_file_num_compaction_trigger",
        )
        if table.get("io_capacity_max", 2**64) < table.get("io_capacity", 0):
            del table["io_capacity_max"]  # the server takes the larger as both
        if table.get("page_kib", 16) not in PAGES_KIB:
            del table["page_kib"]
        return table


def _convert_to_unit(setting: RunSetting, text: str) -> float:
    """Returns the value of a variable in the unit of its setting. Raises ValueError."""
    if setting.kind is bool:
        return text.upper() not in ("OFF", "0", "DETECT_ONLY")
    return int(text) // setting.unit if setting.kind is int else float(text) / setting.unit


def _keep_setting(settings: dict, engine: str, name: str, make: Callable[[str], float], text: str) -> None:
    """Adds the setting that `make` makes of `text` to `settings`, if it is one of this engine, and
    in the range that a run description allows."""
    owner, _, _, low, high, *_ = SETTINGS[name]
    try:
        value = make(text)
    except (ValueError, KeyError):
        return
    if owner in (None, engine) and low <= value <= high:
        settings[name] = value


def _compute_redo_bytes(variables: dict[str, str]) -> float:
    """Returns the capacity of the redo log in bytes, from the variables of either flavor; 0 if they
    do not give it."""
    if "innodb_redo_log_capacity" in variables:
        return float(variables["innodb_redo_log_capacity"])
    # MariaDB has one file since 10.5 and no number of files.
    return float(variables.get("innodb_log_file_size", 0)) * float(variables.get("innodb_log_files_in_group", 1))


def _parse_option_bytes(options: str, name: str) -> float:
    """Returns a number of RocksDB's option string, such as write_buffer_size=64m; its own default
    where it has none. Raises KeyError."""
    match = re.search(rf"(?:^|[;{{])\s*{name}=(\d+)([kmgKMG]?)\b", options)
    if match is None:
        match = re.search(rf"{name}=(\d+)([kmg]?)", ROCKSDB_DEFAULTS)
    if match is None:
        raise KeyError(name)
    return float(match[1]) * {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}[match[2].lower()]


def read_profile(connection: SqlConnection, address: Address) -> Profile:
    """Returns the profile of a server, and sets the session to read only. Raises InputError for a
    server that cannot be calibrated, CouldNotRun for a lost connection.
    """
    ask_live(connection, "SET SESSION TRANSACTION READ ONLY")
    variables = {name.lower(): value for name, value in ask_live(connection, "SHOW GLOBAL VARIABLES")}
    version = variables.get("version", "")
    if "aurora_version" in variables:
        rule = "is Aurora, which keeps its data in storage of its own, not on EBS volumes"
        raise refuse.input(address.label, rule, "It cannot be calibrated here.")
    comment = f"{version} {variables.get('version_comment', '')}".lower()
    flavor = "mariadb" if "mariadb" in comment else "percona" if "percona" in comment else "mysql"
    check_version(version, flavor, "innodb")
    ((idle,),) = ask_live(connection, IDLE)
    server = Profile(version, flavor, variables.get("hostname", ""), variables, 1 + int(idle))
    grants = [str(row[0]) for row in ask_live(connection, "SHOW GRANTS FOR CURRENT_USER")]
    # The name and the hash of the password stand in there: nothing of it is repeated.
    if any(WRITING.search(text.partition(" ON ")[0]) for text in grants):
        server.notes.append(
            "the account may write; a capture needs none of that: see the GRANTs in docs/reference/capture.md"
        )
    return server


def ask_data_gib(connection: SqlConnection, engine: str, account: str) -> float | None:
    """Returns the size of all tables on disk, GiB; None where the server does not have it.
    `account`: for the GRANT in the error. Raises InputError where the privilege is missing.
    """
    import pymysql

    denied = False
    for statement in SIZES[engine]:
        try:
            ((size,),) = ask_live(connection, statement)
        except pymysql.err.MySQLError as error:
            denied |= error.args[0] in NO_PRIVILEGE
            continue
        return float(size) / GIB if size else None
    if denied:
        hint = f"GRANT PROCESS ON *.* TO {account}; or give --size-gib GIB."
        raise InputError(
            f"account {account}", "may not see how large the data are", f"{refuse.source}, Privileges", hint
        )
    return None


def ask_account(connection: SqlConnection) -> str:
    """Returns the account as the server knows it, quoted for a GRANT."""
    user, _, host = str(ask_live(connection, "SELECT CURRENT_USER()")[0][0]).rpartition("@")
    return f"'{user}'@'{host}'"


def ask_live(connection: SqlConnection, statement: str) -> list[Row]:
    """Returns the rows of a statement. Raises CouldNotRun when the connection is lost, and other
    errors of the server as PyMySQL's.
    """
    import pymysql

    try:
        return ask(connection, statement)
    except pymysql.err.MySQLError as error:
        if error.args and error.args[0] in (2006, 2013, 1053, 1927, 0):
            hint = "Is it still running? See its error log."
            raise CouldNotRun("the server", "was lost while it was asked", statement[:60], hint) from None
        raise


# --- latency --------------------------------------------------------------------------------------
# Reads transactions and the latency of statements from performance_schema: read at the beginning
# and at the end, the difference is the capture's.
#
# No server keeps a histogram of transactions. MySQL since 8.0 keeps one of all statements; MariaDB
# none.


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
    """Counters since the server's start, None if it has none; `notes`: what is missing, and why."""

    transactions: tuple[float, float] | None = None  # how many, ms in all
    statements: list[tuple[float, float]] | None = None  # (upper end of the bucket, ms; how many)
    notes: list[str] = field(default_factory=list)


def read_latencies(connection: SqlConnection, variables: dict[str, str], account: str) -> Latencies:
    """Returns the counters of performance_schema. Raises CouldNotRun when the server is lost."""
    latencies = Latencies()
    if variables.get("performance_schema", "OFF").upper() not in ("ON", "1"):
        latencies.notes.append(
            "performance_schema is off on this server: no response times of transactions or statements could be had"
        )
        return latencies
    rows = _query_if_permitted(connection, TRANSACTIONS, latencies, account)
    if rows:
        latencies.transactions = (float(rows[0][0]), float(rows[0][1]) / PICOSECONDS_PER_MS)
    rows = _query_if_permitted(connection, STATEMENTS, latencies, account)
    if rows:
        latencies.statements = [(float(high) / PICOSECONDS_PER_MS, float(count)) for high, count in rows]
    elif rows is not None or not latencies.notes:
        latencies.notes.append(
            "this server keeps no histogram of statements (MySQL does since 8.0): no percentiles could be had"
        )
    return latencies


def _query_if_permitted(
    connection: SqlConnection, statement: str, latencies: Latencies, account: str
) -> list[Row] | None:
    """Returns the rows of a statement; None where the server refuses it, with a note in `latencies`
    if a privilege is missing."""
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


def summarize_latencies(before: Latencies, after: Latencies) -> dict[str, float]:
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
                f"statement_p{percent:g}_ms": _find_percentile(buckets, percent * count / 100)
                for percent in PERCENTILES
            }
    return changes


def _find_percentile(buckets: list[tuple[float, float]], rank: float) -> float:
    """Returns the upper end of the bucket in which the value of this rank (a count from the
    smallest) lies; `buckets` are upper ends with counts, ascending."""
    seen = 0.0
    for high, count in buckets:
        seen += count
        if seen >= rank:
            return high
    return buckets[-1][0]
