"""Watches servers: samples their positions and reads every clock of lag.

    gtid        age of the first transaction that the replica lacks (`clocks`)
    heartbeat   age of a row that is written on the source, if that was asked for
    server      Seconds_Behind_Source of the server: whole seconds, nothing when broken
    commit      MySQL: age of the oldest transaction that is being applied, by worker
    estimate    age of the backlog, if it was written at the source's present rate

Each server has its own thread, so that a server that hangs does not block the others.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.mysql import connect
from headrace.mysql.address import Address
from headrace.mysql.state import Channel, ServerState, observe, read_executed_now
from headrace.mysql.statements import SqlConnection, ask, ask_value
from headrace.servers.topology.lag.clocks import (
    STALE_S,
    Age,
    Trace,
    compute_age,
    compute_rate,
    count_backlog,
    estimate_age,
)

# s. Between two samples of a position: ten small reads a second and server. Transactions between
# two are spread evenly over the time between them.
SAMPLE_S = 0.1
# s. Between two looks at channels: SHOW REPLICA STATUS takes locks of the replica's threads.
STATUS_S = 0.5
# s. The longest wait for an answer, and between two tries to connect.
ANSWER_S = 2.0
RETRY_S = 0.5
# s. Over which rates are taken.
RATE_S = 1.0
HEARTBEAT_S = 0.1
SCHEMA = "headrace"
TABLE = f"{SCHEMA}.heartbeat"


@dataclass(frozen=True)
class WorkerLag:
    """A worker of MySQL's applier: `age_s` of the transaction that it applies, 0 if it is idle."""

    number: int
    age_s: float


@dataclass(frozen=True)
class LagClocks:
    """The lag of a channel by each clock, s; None for a clock without an answer. `gtid_s`: age of
    the oldest transaction that it lacks; `heartbeat_s`: of the newest row of `--heartbeat`;
    `server_s`: the server's own figure; `commit_s`: by commit timestamps (MySQL); `estimate_s`: of
    the backlog at the source's present rate."""

    gtid_s: float | None = None
    heartbeat_s: float | None = None
    server_s: int | None = None
    commit_s: float | None = None
    estimate_s: float | None = None


@dataclass(frozen=True)
class LagReading:
    """The lag of a channel at a moment (`at_unix`, s, Unix). `lag_s`: by GTIDs if that clock is
    `exact`; else the largest of all `clocks`, as each of them may miss a part. `at_least`: no other
    clock exceeds the GTIDs, which give a lower bound. `backlog`: transactions that the replica
    lacks; `unapplied`: those of them that it has received."""

    at_unix: float
    replica: str
    channel: str
    source: str
    lag_s: float | None
    exact: bool
    clocks: LagClocks
    backlog: int | None
    unapplied: int | None
    applied_tps: float | None
    source_tps: float | None
    receive: str
    apply: str
    delay_s: int = 0
    workers: tuple[WorkerLag, ...] = ()
    problem: str = ""
    at_least: bool = False


@dataclass
class _WatchedServer:
    """The latest observations of a server, written by its thread under the lock."""

    name: str
    address: Address
    trace: Trace = field(default_factory=Trace)
    state: ServerState | None = None
    state_s: float = 0.0
    heartbeat_us: int | None = None
    heartbeat_s: float = 0.0
    commit: dict[str, tuple[float | None, tuple[WorkerLag, ...]]] = field(default_factory=dict)
    error: str = ""


class LagWatch:
    """Watches servers while it is entered. `places`: names of servers by the host and port that
    channels name; `heartbeat_on`: the server that heartbeats are written on.

    >>> with LagWatch({"db": db.address(), "r1": r1.address()}) as watch:       # doctest: +SKIP
    ...     time.sleep(2)
    ...     print(watch.read()[0].lag_s)
    """

    def __init__(
        self,
        servers: Mapping[str, Address],
        places: Mapping[tuple[str, int], str],
        heartbeat_on: str | None = None,
    ) -> None:
        self.places = dict(places)
        self.heartbeat_on = heartbeat_on
        self._watched = {name: _WatchedServer(name, address) for name, address in servers.items()}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
        # Heartbeats use a clock that nobody sets: the machine's may jump by an hour.
        self._wall_s = time.time() - time.monotonic()

    def __enter__(self) -> LagWatch:
        """Begins to sample every server, and to write heartbeats, each in a thread of its own."""
        for server in self._watched.values():
            self._begin(self._sample, server)
        if self.heartbeat_on is not None:
            self._begin(self._beat, self._watched[self.heartbeat_on])
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(2 * ANSWER_S)

    def _read_now_s(self) -> float:
        """Returns Unix seconds: those at the begin of the watch, counted on monotonically."""
        return self._wall_s + time.monotonic()

    def _begin(self, work: Callable[[SqlConnection, _WatchedServer], None], server: _WatchedServer) -> None:
        """Begins a thread that does the work on a connection to the server."""
        thread = threading.Thread(
            target=self._keep_connected, args=(work, server), name=f"lag of {server.name}", daemon=True
        )
        thread.start()
        self._threads.append(thread)

    def _keep_connected(self, work: Callable[[SqlConnection, _WatchedServer], None], server: _WatchedServer) -> None:
        """Does the work on a connection, and begins it again on a new one when that is lost, until
        the watch ends; the server's `error` says why."""
        while not self._end.is_set():
            try:
                with contextlib.closing(connect(server.address, ANSWER_S)) as connection:
                    work(connection, server)
            except HeadraceError as error:
                reason = error.rule
            except Exception as error:
                reason = f"no answer: {error.args[-1] if error.args else type(error).__name__}"
            else:
                return
            with self._lock:
                server.error = reason
            self._end.wait(RETRY_S)

    # --- sampling ---------------------------------------------------------------------------------

    def _sample(self, connection: SqlConnection, server: _WatchedServer) -> None:
        """Reads a server's GTIDs every SAMPLE_S seconds, and its state every STATUS_S, until the
        watch ends. Raises the errors of the connection."""
        state = observe(connection, server.name)
        due_status = 0.0
        while not self._end.is_set():
            began = time.monotonic()
            gtids = read_executed_now(connection, state)
            took = time.monotonic() - began
            with self._lock:
                # The server read the GTIDs at some moment in between.
                server.trace.add(began + took / 2, gtids)
                server.error = ""
            if began >= due_status:
                state = observe(connection, server.name)
                commit = {each.name: read_commit_age(connection, state, each) for each in state.channels}
                beat = self._read_beat(connection, state)
                with self._lock:
                    server.state, server.state_s, server.commit = state, time.monotonic(), commit
                    if beat is not None:
                        server.heartbeat_us, server.heartbeat_s = beat, self._read_now_s()
                due_status = began + STATUS_S
            self._end.wait(max(0.0, began + SAMPLE_S - time.monotonic()))

    def _read_beat(self, connection: SqlConnection, state: ServerState) -> int | None:
        """Returns when the last heartbeat that has reached a replica was written, µs, Unix; None
        for a source, and before the first one."""
        if self.heartbeat_on is None or not state.channels:
            return None
        try:
            at_us = ask_value(connection, f"SELECT MAX(at_us) FROM {TABLE}")
        except Exception:
            return None  # it has not come here yet
        return None if at_us is None else int(at_us)

    def _beat(self, connection: SqlConnection, server: _WatchedServer) -> None:
        """Writes the time, µs, Unix, into the table of heartbeats every HEARTBEAT_S seconds."""
        ask(connection, f"CREATE DATABASE IF NOT EXISTS {SCHEMA}")
        ask(connection, f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT PRIMARY KEY, at_us BIGINT NOT NULL)")
        while not self._end.wait(HEARTBEAT_S):
            ask(connection, f"REPLACE INTO {TABLE} VALUES (1, %s)", (int(self._read_now_s() * 1e6),))

    # --- reading ----------------------------------------------------------------------------------

    def read(self) -> list[LagReading]:
        """Returns the reading of every channel of every server, from the latest observations."""
        with self._lock:
            now = time.monotonic()
            return [
                self._make_reading(server, each, now)
                for server in self._watched.values()
                if server.state is not None
                for each in server.state.channels
            ]

    def list_problems(self) -> dict[str, str]:
        """Returns the servers that do not answer, with the reason."""
        with self._lock:
            return {server.name: server.error for server in self._watched.values() if server.error}

    def list_server_figures(self) -> list[tuple[str, dict[str, str], float]]:
        """Returns the metrics of servers, not of channels: name, labels and value of each."""
        figures: list[tuple[str, dict[str, str], float]] = []
        with self._lock:
            for server in self._watched.values():
                labels = {"server": server.name}
                figures.append(("headrace_replica_server_up", labels, float(not server.error)))
                if server.state is None or not server.state.semi_sync.source_enabled:
                    continue
                sync = server.state.semi_sync
                figures.append(("headrace_semi_sync_status", labels, float(sync.source_status)))
                figures.append(("headrace_semi_sync_clients", labels, sync.clients))
                figures.append(("headrace_semi_sync_unanswered_total", labels, sync.no_tx))
        return figures

    def _make_reading(self, server: _WatchedServer, channel: Channel, now: float) -> LagReading:
        """Returns the reading of a channel from the latest observations. `now`: monotonic time,
        s."""
        name = self.places.get(channel.place, "")
        source = self._watched.get(name)
        gtid_age = None if source is None else compute_age(source.trace, server.trace, now)
        silent = now - server.state_s > 2 * STALE_S
        commit, workers = server.commit.get(channel.name, (None, ()))
        beat = None
        if server.heartbeat_us is not None:
            beat = max(0.0, self._read_now_s() - server.heartbeat_us / 1e6 - HEARTBEAT_S - STATUS_S)
            if not silent:
                beat = max(0.0, server.heartbeat_s - server.heartbeat_us / 1e6 - HEARTBEAT_S)
        lacks = None if source is None else count_backlog(source.trace, server.trace)
        applied_tps = compute_rate(server.trace, RATE_S)
        source_tps = None if source is None else compute_rate(source.trace, RATE_S)
        estimate = estimate_age(lacks, source_tps, applied_tps)
        best = _choose_largest(gtid_age, commit, beat, channel.seconds_behind, estimate)
        return LagReading(
            at_unix=time.time() - (0.0 if gtid_age is None else now - gtid_age.at_s),
            replica=server.name,
            channel=channel.name,
            source=name or channel.where,
            lag_s=None if best is None else round(best.seconds, 4),
            exact=best is not None and best.exact,
            at_least=best is not None and best is gtid_age and not best.exact,
            clocks=LagClocks(
                gtid_s=None if gtid_age is None else round(gtid_age.seconds, 4),
                heartbeat_s=None if beat is None else round(beat, 4),
                server_s=channel.seconds_behind,
                commit_s=commit,
                estimate_s=None if estimate is None else round(estimate, 4),
            ),
            backlog=lacks,
            unapplied=channel.received.minus(channel.executed).count(),
            applied_tps=applied_tps,
            source_tps=source_tps,
            receive="not seen" if silent else channel.receive,
            apply="not seen" if silent else channel.apply,
            delay_s=channel.delay_s,
            workers=workers,
            problem=self._describe_problem(server, source, channel, silent),
        )

    def _describe_problem(
        self, server: _WatchedServer, source: _WatchedServer | None, channel: Channel, silent: bool
    ) -> str:
        """Returns in words why a channel does not work or is not seen, "" for no reason. `silent`:
        the replica's state is too old to count."""
        words = []
        if silent or server.error:
            words.append(f"{server.name} does not answer: {server.error or 'no answer'}")
        if source is not None and source.error:
            words.append(f"{source.name} does not answer: {source.error}")
        if channel.receive != "on":
            words.append(f"receives nothing ({channel.receive}): {channel.receive_error or 'no error'}")
        if channel.apply != "on":
            words.append(f"applies nothing: {channel.apply_error or 'stopped'}")
        return "; ".join(words)


def _choose_largest(gtid_age: Age | None, *clocks: float | None) -> Age | None:
    """Returns the lag by GTIDs if it is exact. If the watch began after the missing transactions
    were written, it returns the largest of all clocks, as each of them may miss a part. A server
    whose clock is wrong makes that too large, until the GTIDs are exact."""
    if gtid_age is not None and gtid_age.exact:
        return gtid_age
    ages = [Age(float(seconds), exact=False) for seconds in clocks if seconds is not None]
    # The first of equals: the GTIDs' own, with the moment that it holds for.
    ages = ages if gtid_age is None else [gtid_age, *ages]
    return max(ages, key=lambda candidate: candidate.seconds, default=None)


# By the replica's clock, against commit timestamps of the source's. A transaction that is being
# applied is as old as its commit; an applier that has nothing to do is not behind.
WORKERS = """SELECT worker_id, applying_transaction <> '',
TIMESTAMPDIFF(MICROSECOND, applying_transaction_original_commit_timestamp, NOW(6)) / 1e6,
TIMESTAMPDIFF(MICROSECOND, last_applied_transaction_original_commit_timestamp, NOW(6)) / 1e6
FROM performance_schema.replication_applier_status_by_worker WHERE channel_name = %s"""
RECEIVED = """SELECT TIMESTAMPDIFF(MICROSECOND, GREATEST(last_heartbeat_timestamp,
last_queued_transaction_end_queue_timestamp), NOW(6)) / 1e6
FROM performance_schema.replication_connection_status WHERE channel_name = %s"""


def read_commit_age(
    connection: SqlConnection, state: ServerState, channel: Channel
) -> tuple[float | None, tuple[WorkerLag, ...]]:
    """Returns the lag by MySQL's own clock of a channel, s, and the channel's workers; None and no
    workers for MariaDB."""
    if state.dialect.is_mariadb:
        return None, ()
    rows = ask(connection, WORKERS, (channel.name,))
    silent_s = ask_value(connection, RECEIVED, (channel.name,))
    workers = tuple(
        WorkerLag(int(number), round(float(busy or 0), 6) if is_busy else 0.0) for number, is_busy, busy, _ in rows
    )
    oldest = max((worker.age_s for worker in workers), default=0.0)
    if channel.apply != "on" and not channel.executed.contains(channel.received):
        # The next transaction to be applied was committed after the last applied one.
        oldest = max(oldest, min((float(last) for *_, last in rows if last is not None), default=0.0))
    if channel.receive != "on" and silent_s is not None:
        oldest = max(oldest, float(silent_s))
    return round(oldest, 6), workers
