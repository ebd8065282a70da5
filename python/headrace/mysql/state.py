"""The state of a server: position, settings that decide what can be lost, semi-sync, and its
channels. The failover planner, lag and `replica status` read a server through this alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from headrace.base.encoding import Document
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.mysql.dialect import FILTERS, Dialect, refuse
from headrace.mysql.gtid import GtidSet
from headrace.mysql.statements import (
    NamedRow,
    SqlConnection,
    ask_named,
    ask_pairs,
    ask_row,
    ask_value,
    get_error_number,
    get_error_words,
)

VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)", re.ASCII)
# MySQL manual and MariaDB documentation: what SHOW REPLICA STATUS and SHOW SLAVE STATUS and the
# variables need. REPLICATION CLIENT is BINLOG MONITOR in MariaDB from 10.5 on.
GRANTS = {"mysql": "REPLICATION CLIENT", "mariadb": "REPLICA MONITOR, BINLOG MONITOR"}
OLDEST = {"mysql": (8, 0, 22), "mariadb": (10, 5, 2)}


@dataclass(frozen=True)
class SemiSync:
    """Semi-synchronous replication of a server. `*_enabled` is the setting, `*_status` whether it
    works now: only the second counts. `clients`: replicas that are connected and can acknowledge;
    `wait_count`: those whose answer a commit waits for. `waits_alone`: a source with fewer replicas
    than that waits for the whole timeout; else it goes on alone at once. `no_tx`: commits that were
    acknowledged without a replica, `yes_tx`: with one, since the server started."""

    source_enabled: bool = False
    source_status: bool = False
    clients: int = 0
    wait_count: int = 1
    wait_point: str = ""
    timeout_ms: int = 0
    waits_alone: bool = True
    no_tx: int = 0
    yes_tx: int = 0
    replica_enabled: bool = False
    replica_status: bool = False


@dataclass(frozen=True)
class Channel(Document):
    """A channel of a server: how it follows a source.

    `receive`: on, connecting or off; `apply`: on or off. `received`: transactions of the source
    that it received or executed; MariaDB's relay log has them only until its threads are started
    anew. `executed`: applied ones. `seconds_behind`: the server's own figure, None if it has none.
    `ssl_ca`: the file of the authority that checks its source's certificate, "" for none.
    """

    name: str
    source_host: str
    source_port: int
    source_server_id: int
    receive: str
    apply: str
    received: GtidSet
    executed: GtidSet
    read_file: str = ""
    read_pos: int = 0
    applied_file: str = ""
    applied_pos: int = 0
    seconds_behind: int | None = None
    receive_error: str = ""
    apply_error: str = ""
    delay_s: int = 0
    filters: tuple[tuple[str, str], ...] = ()
    workers: int = 0
    uses_gtid: bool = True
    ssl_ca: str = ""

    def list_entries(self) -> dict[str, object]:
        """Returns the fields by name, the filters by their kind."""
        return super().list_entries() | {"filters": dict(self.filters)}

    @property
    def place(self) -> tuple[str, int]:
        """Host and port of its source."""
        return self.source_host, self.source_port

    @property
    def where(self) -> str:
        """HOST:PORT of its source."""
        return f"{self.source_host}:{self.source_port}"

    @property
    def is_broken(self) -> bool:
        """True when one of its threads does not work."""
        return self.receive != "on" or self.apply != "on"


@dataclass(frozen=True)
class BinaryLog:
    """The binary log of a server. `replica_updates`: whether it has what a replica applies."""

    on: bool
    replica_updates: bool
    format: str = ""
    row_image: str = ""


@dataclass(frozen=True)
class Durability:
    """Settings that decide what a power cut loses, by their names. `flush_log`:
    innodb_flush_log_at_trx_commit; `info_repository`: where it keeps its position as a replica."""

    sync_binlog: int
    flush_log: int
    sync_relay_log: int
    relay_log_recovery: bool = False
    info_repository: str = "TABLE"


@dataclass(frozen=True)
class ServerState(Document):
    """A server at the moment of the query. `executed`: the transactions in its data, its own and
    those that it applied. `uuid`: MySQL's, "" on MariaDB. `applied`: the last transactions that
    MariaDB applied as a replica (gtid_slave_pos), which outlive the channel; the same as `executed`
    on MySQL. `max_packet`: largest statement or row, bytes; `apply_packet`: the same for received
    ones."""

    name: str
    flavor: str
    version: tuple[int, ...]
    server_id: int
    uuid: str
    read_only: bool
    super_read_only: bool
    executed: GtidSet
    binary_log: BinaryLog
    durability: Durability
    gtid_on: bool
    gtid_strict: bool
    semi_sync: SemiSync
    channels: tuple[Channel, ...]
    applied: GtidSet
    uptime_s: int = 0
    group: str = ""
    event_scheduler: str = ""
    max_packet: int = 0
    apply_packet: int = 0

    @property
    def dialect(self) -> Dialect:
        return Dialect(self.flavor, self.version)

    def find_channel(self, name: str = "") -> Channel | None:
        """Returns the channel of a name, None if it does not exist."""
        return next((channel for channel in self.channels if channel.name == name), None)

    def list_entries(self) -> dict[str, object]:
        """Returns the fields by name, the version as text."""
        return super().list_entries() | {"version": ".".join(map(str, self.version))}


def observe(connection: SqlConnection, name: str = "") -> ServerState:
    """Returns the state of a server, which is queried now. File and offset of its binary log are
    left out: for them both flavors take a lock that commits hold while they wait for a volume or a
    replica.

    Raises CouldNotRun if it does not answer, InputError if the account lacks rights or the
    server is too old.
    """
    try:
        return _query_state(connection, name)
    except HeadraceError:
        raise
    except Exception as error:
        raise _translate_error(error, name) from None


def read_dialect(connection: SqlConnection) -> Dialect:
    """Returns the dialect of a connected server. Raises InputError for an old version."""
    return parse_dialect(str(ask_value(connection, "SELECT @@version") or ""))


def parse_dialect(text: str) -> Dialect:
    """Returns the dialect by @@version. Raises InputError for versions that are too old."""
    flavor, version = parse_version(text)
    if version < OLDEST[flavor]:
        oldest = ".".join(map(str, OLDEST[flavor]))
        raise refuse.input(text[:60], f"replication is handled from version {oldest} on", "Upgrade the server.")
    return Dialect(flavor, version)


def parse_version(text: str, comment: str = "") -> tuple[str, tuple[int, ...]]:
    """Returns flavor (mysql or mariadb) and numbers of @@version, (0,) if it has none; `comment`:
    @@version_comment."""
    match = VERSION.search(text.removeprefix("5.5.5-"))
    flavor = "mariadb" if "mariadb" in (text + comment).lower() else "mysql"
    return flavor, tuple(map(int, match.groups())) if match else (0,)


def _translate_error(error: Exception, name: str) -> HeadraceError:
    """Returns the error for the user of a query that failed: InputError for a lack of rights, else
    CouldNotRun."""
    code = get_error_number(error)
    # ER_ACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR
    if code in (1045, 1227, 1142):
        grants = " or ".join(dict.fromkeys(GRANTS.values()))
        rule = "this account may not see the state of replication"
        return InputError(name or "the server", rule, f"error {code} of the server", f"GRANT {grants} ON *.* to it.")
    rule = f"does not answer: {get_error_words(error) or type(error).__name__}"
    return CouldNotRun(name or "the server", rule, "", "Is it running?")


def _query_state(connection: SqlConnection, name: str) -> ServerState:
    """Returns what `observe` returns. Raises InputError for a server that is too old, and the
    errors of PyMySQL as they are."""
    variables = ask_pairs(connection, "SHOW GLOBAL VARIABLES")
    status = ask_pairs(connection, "SHOW GLOBAL STATUS LIKE 'rpl_semi%'")
    status |= ask_pairs(connection, "SHOW GLOBAL STATUS LIKE 'uptime'")
    dialect = parse_dialect(variables.get("version", ""))
    mariadb = dialect.is_mariadb
    channels = tuple(_make_channel(row, variables, dialect) for row in read_channel_rows(connection, dialect))
    # Read last, so that it includes everything that was received or applied before.
    executed, applied = read_executed_sets(connection, dialect)
    return ServerState(
        name=name,
        flavor=dialect.flavor,
        version=dialect.version,
        server_id=int(variables["server_id"]),
        uuid=variables.get("server_uuid", "") if not mariadb else "",
        read_only=_is_on(variables.get("read_only")),
        super_read_only=_is_on(variables.get("super_read_only")),
        executed=executed,
        binary_log=BinaryLog(
            on=_is_on(variables.get("log_bin")),
            replica_updates=_is_on(variables.get("log_slave_updates", variables.get("log_replica_updates"))),
            format=variables.get("binlog_format", "ROW"),
            row_image=variables.get("binlog_row_image", ""),
        ),
        durability=Durability(
            sync_binlog=int(variables.get("sync_binlog", 0)),
            flush_log=int(variables.get("innodb_flush_log_at_trx_commit", 1)),
            sync_relay_log=int(variables.get("sync_relay_log", 0)),
            relay_log_recovery=_is_on(variables.get("relay_log_recovery")),
            # MariaDB keeps master.info in a file, and its GTID position in a table of InnoDB.
            info_repository=variables.get("relay_log_info_repository", "FILE+GTID TABLE" if mariadb else "TABLE"),
        ),
        gtid_on=mariadb or variables.get("gtid_mode") == "ON",
        gtid_strict=_is_on(variables.get("gtid_strict_mode" if mariadb else "enforce_gtid_consistency")),
        semi_sync=_read_semi_sync(variables, status),
        channels=channels,
        applied=applied,
        uptime_s=int(status.get("uptime", 0)),
        group=variables.get("group_replication_group_name", ""),
        event_scheduler=variables.get("event_scheduler", ""),
        max_packet=int(variables.get("max_allowed_packet", 0)),
        apply_packet=int(variables.get("replica_max_allowed_packet", variables.get("slave_max_allowed_packet", 0))),
    )


def read_channel_rows(connection: SqlConnection, dialect: Dialect) -> list[NamedRow]:
    """Returns the replica status: a row for each channel, by the names of the columns in lower
    case. The channels of group replication are left out: they follow no server."""
    rows = [
        {name.lower(): value for name, value in row.items()}
        for row in ask_named(connection, dialect.query_replica_status())
    ]
    return [row for row in rows if not str(row.get("channel_name") or "").startswith("group_replication_")]


def read_executed_sets(connection: SqlConnection, dialect: Dialect) -> tuple[GtidSet, GtidSet]:
    """Returns the transactions in a server's data, and those up to the last that it applied as a
    replica; on MySQL both are the same set."""
    row = ask_row(connection, dialect.query_executed())
    applied, *logs = [GtidSet.parse(str(text or ""), dialect.flavor) for text in row]
    return applied.union(logs[0]) if logs else applied, applied


def read_executed_now(connection: SqlConnection, state: ServerState) -> GtidSet:
    """Returns the executed GTIDs of a server, which are queried now in a single statement."""
    return read_executed_sets(connection, state.dialect)[0]


def read_gtid_purged(connection: SqlConnection) -> GtidSet:
    """Returns the transactions that MySQL has executed but not in its binary logs: they were
    purged, or came with a copy."""
    return GtidSet.parse(str(ask_value(connection, "SELECT @@GLOBAL.gtid_purged") or ""), "mysql")


def read_written(connection: SqlConnection, state: ServerState) -> dict[tuple[int, int], int]:
    """Returns the last number of each (domain, server) in MariaDB's binary log; {} for MySQL."""
    if state.flavor != "mariadb":
        return {}
    text = str(ask_value(connection, "SELECT @@GLOBAL.gtid_binlog_state") or "")
    numbers = {}
    for part in filter(None, text.split(",")):
        domain, server, number = (int(word) for word in part.strip().split("-"))
        numbers[domain, server] = max(number, numbers.get((domain, server), 0))
    return numbers


def _is_on(value: str | None) -> bool:
    return (value or "").upper() in ("ON", "1", "YES", "TRUE")


def _read_semi_sync(variables: dict[str, str], status: dict[str, str]) -> SemiSync:
    """Returns semi-sync by either names: source and replica, or master and slave."""

    def find_value(values: dict[str, str], new: str, old: str) -> str:
        return values.get(f"rpl_semi_sync_{new}") or values.get(f"rpl_semi_sync_{old}", "")

    count = find_value(variables, "source_wait_for_replica_count", "master_wait_for_slave_count")
    waits_alone = find_value(variables, "source_wait_no_replica", "master_wait_no_slave")
    return SemiSync(
        source_enabled=_is_on(find_value(variables, "source_enabled", "master_enabled")),
        source_status=_is_on(find_value(status, "source_status", "master_status")),
        clients=int(find_value(status, "source_clients", "master_clients") or 0),
        wait_count=int(count or 1),
        wait_point=find_value(variables, "source_wait_point", "master_wait_point"),
        timeout_ms=int(find_value(variables, "source_timeout", "master_timeout") or 0),
        waits_alone=_is_on(waits_alone or "ON"),
        no_tx=int(find_value(status, "source_no_tx", "master_no_tx") or 0),
        yes_tx=int(find_value(status, "source_yes_tx", "master_yes_tx") or 0),
        replica_enabled=_is_on(find_value(variables, "replica_enabled", "slave_enabled")),
        replica_status=_is_on(find_value(status, "replica_status", "slave_status")),
    )


@dataclass(frozen=True)
class ChannelThreads:
    """The threads of a channel and their last errors, as Channel has them."""

    receive: str
    apply: str
    receive_error: str
    apply_error: str

    @classmethod
    def from_row(cls, row: NamedRow) -> ChannelThreads:
        """Returns the threads in a row of the replica status, whose names are in lower case."""
        receive, apply = (
            str(row.get(f"replica_{thread}_running", row.get(f"slave_{thread}_running")) or "").lower()
            for thread in ("io", "sql")
        )
        return cls(
            receive=RECEIVE.get(receive, "connecting"),
            apply="on" if apply == "yes" else "off",
            receive_error=_format_error(row.get("last_io_errno"), str(row.get("last_io_error") or "")),
            apply_error=_format_error(row.get("last_sql_errno"), str(row.get("last_sql_error") or "")),
        )


def read_channel_name(row: NamedRow) -> str:
    """Returns the name of a channel from its row of the replica status, "" for the default one."""
    return str(row.get("channel_name", row.get("connection_name")) or "")


RECEIVE = {"yes": "on", "no": "off"}  # anything else is on its way: Connecting, Preparing


def _make_channel(row: NamedRow, variables: dict[str, str], dialect: Dialect) -> Channel:
    """Returns a channel from a row of the replica status, whose names are in lower case: either
    those of source and replica, or of master and slave."""

    def find_first(*names: str) -> Any:
        for name in names:
            if (value := row.get(name)) is not None:
                return value
        return None

    def text(*names: str) -> str:
        return str(find_first(*names) or "")

    applied = GtidSet.parse(text("executed_gtid_set", "gtid_slave_pos"), dialect.flavor)
    retrieved = GtidSet.parse(text("retrieved_gtid_set", "gtid_io_pos"), dialect.flavor)
    workers = variables.get("slave_parallel_threads" if dialect.is_mariadb else "replica_parallel_workers", "0")
    filters = tuple((kind, patterns) for kind in FILTERS if (patterns := text(kind.replace("-", "_"))))
    behind, auto = find_first("seconds_behind_source", "seconds_behind_master"), find_first("auto_position")
    threads = ChannelThreads.from_row(row)
    return Channel(
        name=read_channel_name(row),
        source_host=text("source_host", "master_host"),
        source_port=int(find_first("source_port", "master_port") or 0),
        source_server_id=int(find_first("source_server_id", "master_server_id") or 0),
        receive=threads.receive,
        apply=threads.apply,
        received=applied.union(retrieved),
        executed=applied,
        read_file=text("source_log_file", "master_log_file"),
        read_pos=int(find_first("read_source_log_pos", "read_master_log_pos") or 0),
        applied_file=text("relay_source_log_file", "relay_master_log_file"),
        applied_pos=int(find_first("exec_source_log_pos", "exec_master_log_pos") or 0),
        seconds_behind=None if behind is None else int(behind),
        receive_error=threads.receive_error,
        apply_error=threads.apply_error,
        delay_s=int(find_first("sql_delay") or 0),
        filters=filters,
        workers=int(workers),
        uses_gtid=str(auto) == "1" if auto is not None else str(find_first("using_gtid")) not in ("No", "None"),
        ssl_ca=text("source_ssl_ca_file", "master_ssl_ca_file"),
    )


def _format_error(number: object, words: str) -> str:
    """Returns the number and message of an error as a printable line, "" without an error."""
    if not number and not words:
        return ""
    return f"{number}: " + "".join(character if character.isprintable() else " " for character in words)[:500]
