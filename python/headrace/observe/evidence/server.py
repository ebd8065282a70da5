"""Reads the counters of a MySQL or MariaDB server, one statement a second over one connection."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.base.processes import read_cpu_seconds
from headrace.errors import CouldNotRun, HeadraceError
from headrace.mysql import Address, connect, statements
from headrace.mysql.dialect import Dialect
from headrace.mysql.state import ChannelThreads, parse_version, read_channel_name, read_channel_rows
from headrace.mysql.statements import NamedRow, parse_numbers
from headrace.observe.evidence.counters import (
    OWN_SELECT,
    OWN_SHOW,
    TRANSACTIONS,
    WAITS,
    explain_new_server,
    make_status_row,
)
from headrace.observe.evidence.model import Row, SeenChannel, SeenServer
from headrace.observe.live import host, profile
from headrace.observe.run_files.status import COMMITS, READS, WRITES

ANSWER_S = 20.0  # a server that has not answered for so long is gone; as observe.live.sampler
# Beginnings of the variables in a recording: those that say how the server uses storage, without
# names and paths.
RECORDED_VARIABLES = (
    "innodb_",
    "rocksdb_",
    "sync_binlog",
    "log_bin",
    "binlog_group",
    "replica_parallel",
    "slave_parallel",
    "max_connections",
    "thread_cache_size",
    "log_slave_updates",
    "log_replica_updates",
    "performance_schema",
)
LONGEST = 80  # characters of a value; longer ones are paths and lists
STATUS = "SHOW GLOBAL STATUS"
# Status and waits in one statement, so one question a second.
BOTH = (
    "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM {schema}.{table} UNION ALL SELECT EVENT_NAME, SUM_TIMER_WAIT FROM "
    "performance_schema.events_waits_summary_global_by_event_name WHERE EVENT_NAME IN ({names})"
)
# MySQL leaves the counters of statements out of that table (MySQL manual, "Performance Schema
# Status Variable Tables"); MariaDB has them in information_schema. Prepared statements stand under
# statement/com/Execute whatever they do, so transactions are counted as such: explicit ones and
# autocommit alike (instrument `transaction`, on by default since MySQL 8.0).
STATEMENTS = (
    " UNION ALL SELECT CONCAT('com_', SUBSTRING(EVENT_NAME, 15)), COUNT_STAR FROM "
    "performance_schema.events_statements_summary_global_by_event_name WHERE EVENT_NAME IN ({names})"
    " UNION ALL SELECT '" + TRANSACTIONS + "', SUM(COUNT_STAR) FROM "
    "performance_schema.events_transactions_summary_global_by_event_name"
)
# A replica's own state, asked for in place of the status this often, s.
REPLICA_EVERY_S = 5.0
UNSEEN_REPLICA = (
    "whether the server is a replica: it refuses its replica status; REPLICATION CLIENT shows it "
    "(REPLICA MONITOR in MariaDB from 10.5 on)"
)


@dataclass
class Reading:
    """A reading of the server: when (s, monotonic clock), its counters, and the processor time of
    its process in s (None: on another machine)."""

    at_s: float = 0.0
    counters: dict[str, float] = field(default_factory=dict)
    cpu_s: float | None = None


class ServerReader:
    """Reads the counters of a server: `facts`, then `read()` once a second. Raises InputError and
    CouldNotRun as `connect` when it is made. When the server is lost, `read` connects again, and
    raises CouldNotRun."""

    def __init__(self, address: Address) -> None:
        """Connects, and reads the profile of the server, and its process and devices if it runs on
        this machine."""
        self.address = address
        self.notes: list[str] = []
        self.missing: list[str] = []
        self._before = Reading()
        self._replica_at = 0.0
        self._replica: Row = {}
        self._channels: tuple[SeenChannel, ...] = ()
        self._connection = connect(address, ANSWER_S)
        server = profile.read_profile(self._connection, address)
        self._idle_threads = server.idle_threads
        self.local = server.hostname == socket.gethostname()
        self._statement, timed = self._choose_statement(server.variables)
        self._pid = _read_pid(server.variables) if self.local else None
        self._dialect = Dialect(*parse_version(server.version, server.variables.get("version_comment", "")))
        replica = bool(self._ask_replica())
        variables = {
            name: value
            for name, value in server.variables.items()
            if name.startswith(RECORDED_VARIABLES) and len(value) < LONGEST
        }
        label = address.label
        self.facts = SeenServer(label, server.version, server.flavor, variables, timed, replica, self._channels)
        self.data_device = host.find_device(server.variables.get("datadir", "")) if self.local else None
        self.log_device = host.find_device(_find_log_folder(server.variables)) if self.local else None
        self.clocks_apart_s = self._measure_clock_offset()
        if not self.local:
            self.missing.append(f"counters of the host: the server runs on {server.hostname}, this is another machine")

    def _choose_statement(self, variables: Mapping[str, str]) -> tuple[str, bool]:
        """Returns the statement of every second, and whether its answer has the waits of WAITS;
        where not, `missing` gets the reason."""
        names = ", ".join(f"'{name}'" for name in WAITS)
        if variables.get("performance_schema", "OFF").upper() not in ("ON", "1"):
            self.missing.append("waits by class: performance_schema is off; they follow from the disks' latency")
            return STATUS, False
        for schema, table in (("information_schema", "GLOBAL_STATUS"), ("performance_schema", "global_status")):
            statement = BOTH.format(schema=schema, table=table, names=names)
            if schema == "performance_schema":
                counted = (f"'statement/sql/{name.removeprefix('com_')}'" for name in (*COMMITS, *WRITES, *READS))
                statement += STATEMENTS.format(names=", ".join(counted))
            try:
                rows = dict(profile.ask_live(self._connection, statement))
            except HeadraceError:
                raise
            except Exception:
                continue
            if any(float(rows.get(name) or 0) > 0 for name in WAITS):
                return statement, True
        account = profile.ask_account(self._connection)
        self.missing.append(
            f"waits by class: GRANT SELECT ON performance_schema.* TO {account}, with file instruments timed, gives them"
        )
        return STATUS, False

    def _measure_clock_offset(self) -> float | None:
        """Returns the server's clock less this machine's, seconds."""
        began = time.time()
        ((moment,),) = profile.ask_live(self._connection, "SELECT UNIX_TIMESTAMP(NOW(6))")
        return float(moment) - (began + time.time()) / 2

    def read(self) -> tuple[Row, Row, float]:
        """Returns the rows of the server and of the replica since the last reading, and its length
        in seconds. Empty rows and 0 at the first, and after a restart of the server. Every
        REPLICA_EVERY_S the replica status is read instead of the server's counters."""
        at_s = time.monotonic()
        if self.facts.replica and at_s - self._replica_at >= REPLICA_EVERY_S and self._before.counters:
            self._replica, self._replica_at = self._ask_replica(), at_s
            self.facts = replace(self.facts, channels=self._channels)
            return {}, dict(self._replica), 0.0
        try:
            counters = parse_numbers(self._ask(self._statement))
        except CouldNotRun:
            self._before = Reading()
            with contextlib.suppress(Exception):
                self._connection.close()
            self._connection = connect(self.address, ANSWER_S)
            raise
        cpu_s = None if self._pid is None else read_cpu_seconds(self._pid)
        before, self._before = self._before, Reading(at_s, counters, cpu_s)
        took = at_s - before.at_s
        if not before.counters or took <= 0:
            return {}, {}, 0.0
        if reason := explain_new_server(before.counters, counters, took):
            self._note(reason)
            return {}, {}, 0.0
        own = OWN_SHOW if self._statement == STATUS else OWN_SELECT
        variables, idle_threads = self.facts.variables, self._idle_threads
        row = make_status_row(before.counters, counters, took, variables, idle_threads, self._note, own)
        if cpu_s is not None and before.cpu_s is not None and cpu_s >= before.cpu_s:
            row["server_cpus"] = (cpu_s - before.cpu_s) / took
        return row, dict(self._replica), took

    def _ask_replica(self) -> Row:
        """Returns the worst of all replication channels: lag and delay, in seconds, of the channel
        that is furthest behind; the relay logs together, in bytes; 1 for a kind of thread that runs
        in every channel, else 0. Empty without a channel, or where the server refuses the
        statement, which `missing` then names. Sets `_channels`."""
        self._channels = ()
        try:
            rows = read_channel_rows(self._connection, self._dialect)
        except Exception:  # mostly no REPLICATION CLIENT; a connection that is lost says so in `read`
            if UNSEEN_REPLICA not in self.missing:
                self.missing.append(UNSEEN_REPLICA)
            return {}
        self._channels = tuple(_make_seen_channel(row) for row in rows)
        channels = [_make_channel_row(row) for row in rows]
        if not channels:
            return {}
        timed = [channel for channel in channels if channel["lag_s"] is not None] or channels
        furthest = max(timed, key=lambda channel: (channel["lag_s"] or 0.0) - (channel["delay_s"] or 0.0))
        return furthest | {
            "relay_log_bytes": sum(channel["relay_log_bytes"] or 0.0 for channel in channels),
            "sql_running": min(channel["sql_running"] or 0.0 for channel in channels),
            "io_running": min(channel["io_running"] or 0.0 for channel in channels),
        }

    def _ask(self, statement: str) -> list[statements.Row]:
        """Returns the rows that the server answers to a statement. Raises CouldNotRun if it
        refuses, or the connection is lost."""
        import pymysql

        try:
            return profile.ask_live(self._connection, statement)
        except pymysql.err.MySQLError as error:
            rule = f"refused a request: {str(error)[:120]}"
            raise CouldNotRun(self.address.label, rule, "SHOW GLOBAL STATUS") from None

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def close(self) -> None:
        """Ends the connection."""
        with contextlib.suppress(Exception):
            self._connection.close()


def _make_channel_row(columns: NamedRow) -> Row:
    """Returns the row of a channel from its replica status, whose names are in lower case."""

    def find_first(*keys: str) -> object:
        return next((columns[key] for key in keys if key in columns), None)

    lag, threads = find_first("seconds_behind_source", "seconds_behind_master"), ChannelThreads.from_row(columns)
    return {
        "lag_s": None if lag is None else float(str(lag)),
        "delay_s": float(str(find_first("sql_delay") or 0)),
        "relay_log_bytes": float(str(find_first("relay_log_space") or 0)),
        "sql_running": 1.0 if threads.apply == "on" else 0.0,
        "io_running": 1.0 if threads.receive == "on" else 0.0,
    }


def _make_seen_channel(columns: NamedRow) -> SeenChannel:
    """Returns the facts of a channel from its replica status, whose names are in lower case."""
    threads = ChannelThreads.from_row(columns)
    errors = [threads.apply_error] if threads.apply != "on" else []
    errors += [threads.receive_error] if threads.receive != "on" else []
    return SeenChannel(read_channel_name(columns), threads.receive, threads.apply, next(filter(None, errors), ""))


def _find_log_folder(variables: Mapping[str, str]) -> str:
    """Returns the path of the redo log's folder."""
    folder = variables.get("innodb_log_group_home_dir", "./")
    return folder if folder.startswith("/") else os.path.join(variables.get("datadir", ""), folder)


def _read_pid(variables: Mapping[str, str]) -> int | None:
    """Returns the process id in the server's pid file, or None where the file cannot be read."""
    try:
        path = variables.get("pid_file", "")
        path = path if path.startswith("/") else os.path.join(variables.get("datadir", ""), path)
        with open(path, encoding="ascii") as file:
            return int(file.read().strip())
    except (OSError, ValueError):
        return None
