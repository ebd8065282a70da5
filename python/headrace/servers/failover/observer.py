"""Observes all servers at once, with a deadline, and tries a write on the source.

A server may take connections and no writes (its volume is paused or full, somebody holds a lock),
so a write is tried, on a row of a table of Headrace's.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.errors import CouldNotRun, HeadraceError
from headrace.mysql.connection import DENIED, DENIED_DATABASE, EXPIRED, UNREACHABLE, NoRoom, cut
from headrace.mysql.state import ServerState, observe, read_gtid_purged, read_written
from headrace.mysql.statements import SqlConnection, ask, ask_value, get_error_number, get_error_words
from headrace.servers.failover import scheduler
from headrace.servers.failover.hosts import AddressHost
from headrace.servers.failover.planning.guarantee import find_proof
from headrace.servers.failover.planning.members import AckProof, Members, ScheduledEvent, Seen, ThreadRun, Write
from headrace.servers.failover.surroundings import REAL, Surroundings

# s. A server that is well answers within milliseconds; a busy one on two cores took 0.3 s here.
LOOK_S = 1.0
# s. For one that did not answer the last time, a guess: a connection takes a tenth of that.
HURRIED_S = 0.4
# s. A commit takes some flushes of a volume, 2 ms each on gp3, and a round trip of semi-sync; the
# slowest volume types take 50 ms. Longer is a write that does not come through.
WRITE_S = 1.0
# Heartbeats that a replica may miss before its source counts as silent (a guess: one may be late
# on a busy machine, two in a row are not).
MISSED_BEATS = 2.5
SCHEMA = "headrace_failover"
EVENTS_S = 10.0  # between two questions for the events of a source, a guess: they change seldom
ROWS = 1_000  # of the probe's table; far more than probes can hang at once
MAKE = (
    f"CREATE DATABASE IF NOT EXISTS {SCHEMA}",
    f"CREATE TABLE IF NOT EXISTS {SCHEMA}.probe (id INT NOT NULL PRIMARY KEY, number BIGINT NOT NULL) ENGINE=InnoDB",
)
# A row of its own for each connection: a probe that still hangs holds the lock of its row.
PROBE = f"INSERT INTO {SCHEMA}.probe VALUES (CONNECTION_ID() % {ROWS}, 1) ON DUPLICATE KEY UPDATE number = number + 1"
NO_TABLE = (1146, 1049)  # ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR
# Missing rights on a database, table, column, server or routine (MySQL's error reference).
UNPRIVILEGED = (DENIED_DATABASE, 1142, 1143, 1227, 1370)
# The account of the probe, not the server: rights, password, expired.
PROBE_ITSELF = (*DENIED, *EXPIRED, *UNPRIVILEGED)
READ_ONLY = (1290, 1836, 3100)  # the server runs with --read-only, in its three forms
# States, in the list of processes, of a write that waits for a lock: no failover resolves that.
LOCKS = ("global read lock", "commit lock", "backup lock", "metadata lock", "Waiting for backup")
SEMI_SYNC = "semi-sync ACK"
LOGIN = "cannot log in as "
LACKS = "the account lacks a privilege: "


@dataclass
class Observer:
    """Observes servers by connections that stay open. `hosts`: by name."""

    hosts: Mapping[str, AddressHost]
    look_s: float = LOOK_S
    write_s: float = WRITE_S
    surroundings: Surroundings = REAL
    fenced: set[str] = field(default_factory=set)
    _scheduled: dict[str, tuple[tuple[ScheduledEvent, ...], float]] = field(default_factory=dict)
    _heard: dict[str, tuple[object, float]] = field(default_factory=dict)
    _flushes: dict[str, bool] = field(default_factory=dict)  # whether sync_binlog was 1, by server
    _open: dict[str, SqlConnection] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        """Closes its connections at once, without waiting for servers that may not answer."""
        for name in list(self._open):
            self._drop(name)

    def look(self, names: Sequence[str] | None = None, hurried: str = "") -> dict[str, Seen]:
        """Returns the observations of all servers, or those in `names`, made at once; one that does
        not answer has an error in its own. `hurried`: a server with the shorter wait HURRIED_S, as
        it did not answer the last time."""
        calls = {
            name: lambda name=name: self._look_at(name, HURRIED_S if name == hurried else self.look_s)
            for name in names or self.hosts
        }
        return dict(zip(calls, self.surroundings.run_all(list(calls.values())), strict=True))

    def probe_source(
        self, source: str, write_s: float | None = None, silent: bool = False
    ) -> tuple[dict[str, Seen], AckProof | None]:
        """Observes all servers, writes a row on the source, and observes the source again. Returns
        the members with the result of the write, and the proof that semi-sync worked, None for
        none. `write_s`: the deadline of the write; `silent`: it did not answer before."""
        before = self.look(hurried=source if silent else "")
        seen = before[source]
        if seen.state is None or seen.state.read_only:
            return before, None
        began = self.surroundings.read_now_s()
        write, why = self._try_write(source, before, write_s or self.write_s)
        after = replace(seen, write=write, error=why, waited_s=self.surroundings.read_now_s() - began)
        proof = None
        if write == "ok":
            again = self._look_at(source, self.look_s)
            proof = find_proof(before, replace(again, write="ok"), began)
        return before | {source: after}, proof

    def _look_at(self, name: str, look_s: float) -> Seen:
        """Returns the observation of a server, made on its open connection, or a new one if that
        fails; an error is in the observation. `look_s`: longest wait for an answer."""
        host = self.hosts[name]
        fence = "done" if name in self.fenced else "possible" if host.can_fence else "none"
        seen = Seen(name, host=host.host, port=host.port, fence=fence, volume=host.has_volume)
        if host.has_volume:
            flushes = self._flushes[name] if name in self._flushes else host.is_log_flushed()
            seen = replace(seen, log_flushed=flushes)
        if name in self.fenced:
            return replace(seen, error="it is fenced")
        if look_s < self.look_s:
            self._drop(name)  # the timeout of a connection is set when it is made
        for fresh in (False, True):
            connection, began = None, self.surroundings.read_now_s()
            try:
                connection = self._get_connection(name, fresh, look_s)
                state = observe(connection, name)
                run = _read_thread_run(connection, state, self.surroundings.read_now_s())
                wrote = read_written(connection, state)
                deaf = self._is_deaf(name, connection, state)
                events = None if state.read_only or state.channels else self._read_events(name, connection, state)
                purged = read_gtid_purged(connection) if state.flavor == "mysql" else None
                self._flushes[name] = flushes = state.durability.sync_binlog == 1
                seen = replace(seen, state=state, run=run, wrote=wrote, deaf=deaf, events=events)
                return replace(seen, purged=purged, log_flushed=flushes)
            except Exception as error:
                self._drop(name)
                failure = describe_failure(error, host)
                if connection is not None and self.surroundings.read_now_s() - began >= self.look_s:
                    return self._check_silent(seen)
                # An old connection may have died while the server did not.
                if fresh or connection is None:
                    return replace(seen, error=failure)
        return seen

    def _is_deaf(self, name: str, connection: SqlConnection, state: ServerState) -> bool:
        """Returns whether a replica has had no sign of life of its source for MISSED_BEATS
        heartbeats: its position and the number of heartbeats did not change. This shows a dead host
        within three seconds; the receive thread notices it only after its network timeout."""
        if not state.channels:
            return False
        period_s, beats = (float(ask_value(connection, statement) or 0) for statement in state.dialect.query_beats())
        mark = (beats, *((channel.place, channel.read_file, channel.read_pos) for channel in state.channels))
        now = self.surroundings.read_now_s()
        last_mark, since = self._heard.get(name, (None, now))
        if mark != last_mark:
            self._heard[name] = (mark, now)
            return False
        return period_s > 0 and now - since > MISSED_BEATS * period_s

    def _read_events(self, name: str, connection: SqlConnection, state: ServerState) -> tuple[ScheduledEvent, ...]:
        """Returns the events that a source's scheduler runs, cached for EVENTS_S seconds."""
        events, at = self._scheduled.get(name, ((), -EVENTS_S))
        if self.surroundings.read_now_s() - at >= EVENTS_S:
            events = scheduler.list_running(connection, state)
            self._scheduled[name] = (events, self.surroundings.read_now_s())
        return events

    def _check_silent(self, seen: Seen) -> Seen:
        """Returns the observation of a server that did not answer a query: stalled if it still
        takes connections, as it waits, for example a commit for its volume under a lock that SHOW
        needs; else with the error of connecting."""
        try:
            cut(self.hosts[seen.name].open_connection(HURRIED_S))
        except Exception as error:
            return replace(seen, error=error.rule if isinstance(error, HeadraceError) else str(error)[:200])
        error = f"takes connections, and answers nothing within {self.look_s:g} s"
        return replace(seen, write="stalled", error=error, waited_s=self.look_s)

    def _get_connection(self, name: str, fresh: bool = False, look_s: float | None = None) -> SqlConnection:
        """Returns the open connection to a server, or a new one if none is open or `fresh` is set.
        `look_s`: longest wait for its answers; None: the observer's."""
        with self._lock:
            cached = self._open.get(name)
        if cached is not None and not fresh:
            return cached
        connection = self.hosts[name].open_connection(look_s or self.look_s)
        with self._lock:
            self._open[name] = connection
        return connection

    def _drop(self, name: str) -> None:
        """Ends the connection to a server at once, if it is open."""
        with self._lock:
            connection = self._open.pop(name, None)
        if connection is not None:
            with contextlib.suppress(Exception):
                cut(connection)

    # --- the write probe --------------------------------------------------------------------------

    def _try_write(self, name: str, before: Members, write_s: float) -> tuple[Write, str]:
        """Tries a write; returns its result, and in words why it failed, "" for none. `write_s`:
        longest wait for each answer."""
        from pymysql.err import MySQLError

        connection, number = None, 0
        try:
            connection = self.hosts[name].open_connection(write_s)
            number = connection.thread_id()
            ask(connection, "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1")
            write_probe(connection)
            connection.close()
            return "ok", ""
        except CouldNotRun as error:
            # All connections taken: another server with as many clients would be as full, unless
            # writes hang already. Another refusal is of this client, not of all.
            if isinstance(error, NoRoom):
                return "full", error.rule
            return ("stalled" if error.kind == UNREACHABLE else "blocked"), error.rule
        except MySQLError as error:
            code = get_error_number(error)
            if code in READ_ONLY:
                return "blocked", "it is read-only"
            if code in PROBE_ITSELF:
                return "blocked", f"the account may not write its probe ({code}: {get_error_words(error, 160)})"
            if code not in (0, 2013):  # 2013: no answer within the deadline
                return ("blocked" if code == 1205 else "refused"), f"{code}: {get_error_words(error)}"
            words = f"no answer to a write within {write_s:g} s"
            return self._find_cause(name, number, before, words)
        except HeadraceError as error:
            return "blocked", f"the probe is not let in: {error.rule}"
        except Exception as error:
            return "stalled", f"no answer to a write within {write_s:g} s ({type(error).__name__})"
        finally:
            if connection is not None:
                with contextlib.suppress(Exception):
                    cut(connection)

    def _find_cause(self, name: str, number: int, before: Members, words: str) -> tuple[Write, str]:
        """Returns the state of a write without an answer, and in words why it waits, by the list of
        processes. `number`: the id of its connection; `words`: the reason if none is found."""
        with contextlib.suppress(Exception):
            text = "SELECT state FROM information_schema.processlist WHERE id = %s"
            state = str(ask_value(self._get_connection(name), text, (number,)) or "")
            if any(lock in state for lock in LOCKS):
                return "blocked", f"a write waits for a lock: {state}"
            if SEMI_SYNC in state or "slave ACK" in state:
                return _judge_missing_replicas(name, before, state)
            words += f" ({state})" if state else ""
        return "stalled", words


def _judge_missing_replicas(name: str, before: Members, state: str) -> tuple[Write, str]:
    """Returns the state of a write that waits for acknowledgements, and why: stalled if enough
    replicas answer Headrace and cannot reach the source, which is cut off, so that another server
    could take over; else blocked, as no other could. `state`: of the write's thread."""
    source = before[name]
    away = [
        member
        for member in before.values()
        if member.name != name
        and member.state is not None
        and any(
            channel.place == source.place and (channel.receive == "connecting" or member.deaf)
            for channel in member.state.channels
        )
    ]
    wait_count = source.state.semi_sync.wait_count if source.state else 1
    if len(away) >= wait_count:
        return "stalled", f"its replicas cannot reach it: {state}"
    return "blocked", f"a write waits for replicas that are not there: {state}"


def describe_failure(error: Exception, host: AddressHost) -> str:
    """Returns why a server could not be observed, in words: LOGIN with name and cause for a refused
    account, LACKS for an account without the rights to observe."""
    if isinstance(error, HeadraceError) and error.source in {f"error {code} of the server" for code in DENIED}:
        given = host.address.password is not None and host.address.password.reveal()
        return f"{LOGIN}{host.address.user}: {'wrong password' if given else 'no password was given'}"
    if isinstance(error, HeadraceError):
        return error.rule
    if get_error_number(error) in UNPRIVILEGED:
        return f"{LACKS}{get_error_words(error, 160)}"
    return f"{type(error).__name__}: {error}"[:200]


def write_probe(connection: SqlConnection) -> None:
    """Writes a row of Headrace's own table, which it creates if it is missing."""
    from pymysql.err import MySQLError

    try:
        ask(connection, PROBE)
    except MySQLError as error:
        if not error.args or error.args[0] not in NO_TABLE:
            raise
        for statement in (*MAKE, PROBE):
            ask(connection, statement)


def _read_thread_run(connection: SqlConnection, state: ServerState, now_s: float) -> ThreadRun:
    """Returns the server's start, and the ids of its replication threads. MySQL keeps its relay log
    when they are started anew, so only the server's start counts there."""
    start = now_s - state.uptime_s
    if state.flavor != "mariadb" or not state.channels:
        return ThreadRun(start, state.uptime_s)
    text = "SELECT command, MAX(id) FROM information_schema.processlist WHERE command IN ('Slave_IO', 'Slave_SQL') GROUP BY command"
    threads = {str(command): int(number) for command, number in ask(connection, text)}
    return ThreadRun(start, state.uptime_s, threads.get("Slave_IO", 0), threads.get("Slave_SQL", 0))
