"""A source and two replicas under the load of clients that note every acknowledgement outside of all
servers, and find the source by the address file as an application would."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab_servers import sql
from waiting import wait_until

from headrace import servers
from headrace.lab import Lab
from headrace.mysql import Address, Secret, connect
from headrace.servers.failover.cluster import FailoverCluster, make_cluster
from headrace.servers.failover.hosts import query_host_state
from headrace.servers.failover.planning.members import FailoverWish, Outcome
from headrace.servers.failover.rejoin import Diverged, RejoinAnswer, rejoin
from headrace.servers.failover.watcher import Watcher
from headrace.servers.topology.topology import Following, bring_up_replica

FLAVORS = os.environ.get("FLAVORS", "mariadb").split(",")
SCHEMA = "failover_load"
# An application's account: no SUPER, no READ ONLY ADMIN, so that read_only holds for it.
PASSWORD = Secret("not-a-secret-of-anyone")
WORKERS = 4  # as MySQL has it; MariaDB's default is one thread, which 8 clients outrun
NEVER_MS = 4_000_000_000  # 46 days: semi-sync waits instead of falling back
ANSWER_S = 60.0
PAYLOAD = "x" * 200
# Treatment of transactions that only the old source has: MySQL cannot take them back.
REWINDS: dict[str, Diverged] = {"mariadb": "rewind", "mysql": "seed"}


@dataclass
class Acknowledged:
    """Commit that a client was told of: the client, the transaction, the server's port, the moment
    (monotonic, s)."""

    client: int
    number: int
    host: str
    port: int | None
    at: float


@dataclass
class Load:
    """Clients that commit as fast as they are answered, and go where the file says."""

    file: Path
    clients: int = 8
    notes: list[Acknowledged] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)

    def start(self) -> None:
        self._stop.clear()
        self._threads = [
            threading.Thread(target=self._go, args=(number,), daemon=True) for number in range(self.clients)
        ]
        self._threads.append(threading.Thread(target=self._follow, daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * ANSWER_S)

    def _go(self, client: int) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(Exception):
                where = json.loads(self.file.read_text())
                # An application gives up on an answer after a while; a dead host sends none.
                with connect(app(where["host"], where["port"]), 3.0) as connection, connection.cursor() as cursor:
                    while not self._stop.is_set():
                        number = self._numbers[client] = self._numbers.get(client, 0) + 1
                        cursor.execute(f"INSERT INTO entries VALUES ({client}, {number}, '{PAYLOAD}')")
                        self.notes.append(Acknowledged(client, number, where["host"], where["port"], time.monotonic()))
                        if json.loads(self.file.read_text()) != where:
                            break
            # The client pauses as a pool of connections does; eight clients that knock without a
            # pause take a core.
            self._stop.wait(0.1)

    def _follow(self) -> None:
        """A client that does what a pool behind a proxy does: it waits for no answer of a server
        that the file names no more."""
        was, client = "", self.clients
        while not self._stop.wait(0.02):
            with contextlib.suppress(Exception):
                text = self.file.read_text()
                if text == was:
                    continue
                where = json.loads(text)
                with connect(app(where["host"], where["port"]), 3.0) as connection, connection.cursor() as cursor:
                    number = self._numbers[client] = self._numbers.get(client, 0) + 1
                    cursor.execute(f"INSERT INTO entries VALUES ({client}, {number}, '{PAYLOAD}')")
                    self.notes.append(Acknowledged(client, number, where["host"], where["port"], time.monotonic()))
                was = text

    def reached(self, acknowledged: Acknowledged, place: object) -> bool:
        return place in (acknowledged.port, acknowledged.host)

    def missing(self, server: servers.Server) -> list[Acknowledged]:
        """Acknowledged, and not there."""
        there = {tuple(row) for row in sql(server, f"SELECT client, number FROM {SCHEMA}.entries")}
        return [note for note in list(self.notes) if (note.client, note.number) not in there]

    def first_on(self, place: int | str | None, after: float) -> float | None:
        """Returns the moment of a server's first acknowledgement after a moment, monotonic, s; None
        for none."""
        return min(
            (note.at for note in list(self.notes) if self.reached(note, place) and note.at > after), default=None
        )

    def wait_for(self, place: int | str | None, after: float) -> None:
        """Waits until a server acknowledges. Raises AssertionError where none does."""
        wait_until(lambda: self.first_on(place, after) is not None, f"an acknowledgement of {place}")


def app(host: str, port: int) -> Address:
    return Address("app", host, port, database=SCHEMA, password=PASSWORD, ssl_mode="REQUIRED")


def event(name: str) -> list[str]:
    """An event that writes a row each second, and is counted by its rows."""
    return [
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{name} (server VARCHAR(64), at TIMESTAMP(6))",
        f"CREATE EVENT IF NOT EXISTS {SCHEMA}.{name} ON SCHEDULE EVERY 1 SECOND DO INSERT INTO {SCHEMA}.{name} VALUES (@@hostname, NOW(6))",
        f"CREATE EVENT IF NOT EXISTS {SCHEMA}.{name}_off ON SCHEDULE EVERY 1 SECOND DISABLE DO INSERT INTO {SCHEMA}.{name} VALUES ('off', NOW(6))",
        f"ALTER EVENT {SCHEMA}.{name} ENABLE",
        f"ALTER EVENT {SCHEMA}.{name}_off DISABLE",
    ]


def states_of_events(server: servers.Server) -> dict[str, str]:
    return dict(
        sql(server, f"SELECT event_name, status FROM information_schema.events WHERE event_schema = '{SCHEMA}'")
    )


class Trio:
    """Three servers that replicate with semi-sync (or without), and what acts on them."""

    def __init__(
        self, lab: Lab, folder: Path, flavor: str = "mariadb", semi_sync: bool = True, links: bool = False
    ) -> None:
        self.lab, self.folder, self.flavor, self.semi_sync = lab, folder, flavor, semi_sync
        self.names = ("a", "b", "c")
        settings = {
            "innodb_buffer_pool_size": "32M",
            "innodb_flush_log_at_trx_commit": "1",
            "sync_binlog": "1",
            # For the time when it is a replica itself.
            "slave_parallel_threads" if flavor == "mariadb" else "replica_parallel_workers": str(WORKERS),
        }
        servers.bring_up(lab, name="a", own_address=links, storage="gp3:4", flavor=flavor, settings=settings)
        for name in "bc":
            bring_up_replica(lab, name, "a", Following(semi_sync=semi_sync, prepare_source=True, workers=WORKERS))
        self.source = "a"
        if semi_sync:
            self.set_timeout("a", NEVER_MS)
        sql(
            self.server("a"),
            f"CREATE DATABASE {SCHEMA}",
            f"CREATE USER app@'%' IDENTIFIED BY '{PASSWORD.reveal()}'",
            f"GRANT SELECT, INSERT ON {SCHEMA}.* TO app@'%'",
            f"CREATE TABLE {SCHEMA}.entries (client INT, number INT, payload VARCHAR(255), PRIMARY KEY (client, number))",
        )
        self.clients = folder / "clients.json"
        self.tell("a")
        self.load = Load(self.clients)

    def server(self, name: str) -> servers.Server:
        return servers.find(self.lab, name)

    def set_timeout(self, name: str, milliseconds: int) -> None:
        variable = "rpl_semi_sync_master_timeout" if self.flavor == "mariadb" else "rpl_semi_sync_source_timeout"
        sql(self.server(name), f"SET GLOBAL {variable} = {milliseconds}")

    def tell(self, name: str) -> None:
        server = self.server(name)
        self.clients.write_text(json.dumps({"host": server.host, "port": server.port}))

    def named(self) -> str:
        """Returns the server that the clients' file names."""
        document = json.loads(self.clients.read_text())
        place = (document["host"], document["port"])
        return next(name for name in self.names if (self.server(name).host, self.server(name).port) == place)

    def cluster(self) -> FailoverCluster:
        return make_cluster(self.names, self.lab, self.folder / "journal")

    @contextlib.contextmanager
    def watched(self, fence: bool = True, **choices):
        """A watcher in a thread, which has seen semi-sync at work."""
        executor = self.cluster().make_executor(self.clients, say=self.say)
        if not fence:
            hosts = executor.observer.hosts
            executor.observer.hosts = {**hosts, self.source: replace(hosts[self.source], can_fence=False)}

        def report(seen, result, proof):
            entry = seen[self.source]
            if entry.write != "ok":
                self.say(f"look: {entry.write} {entry.error}")

        watch = Watched(Watcher(executor, FailoverWish(self.source, **choices), say=self.say, report=report))
        watch.start()
        try:
            wait_until(lambda: not self.semi_sync or watch.watcher.proof or watch.error, "semi-sync at work")
            assert not watch.error, watch.error
            yield watch
        finally:
            watch.stop.set()
            watch.thread.join(60)
            executor.close()

    def say(self, text: str) -> None:
        print(f"{time.monotonic():.2f} {text}")

    def forget_failover(self) -> None:
        """A person has looked at it: another may happen."""
        for path in (self.folder / "journal").glob("*.jsonl"):
            path.unlink()

    def rejoin(self, name: str, diverged: Diverged = "refuse") -> RejoinAnswer:
        return rejoin(self.cluster(), name, self.source, diverged, say=self.say)

    def rows_of(self, server: servers.Server, client: int) -> set[int]:
        """Numbers of one client's rows."""
        result = sql(server, f"SELECT number FROM {SCHEMA}.entries WHERE client = {client}")
        return {row[0] for row in result}

    def equal(self, timeout_s: float = 90.0) -> bool:
        """Returns whether all three have the same rows, once they have caught up."""

        def are_equal() -> bool:
            sums = {sql(self.server(name), f"CHECKSUM TABLE {SCHEMA}.entries")[0][1] for name in self.names}
            return len(sums) == 1

        try:
            return wait_until(are_equal, "equal rows on all servers", timeout_s)
        except AssertionError as late:
            self.say(str(late))
            for host in self.cluster().hosts.values():
                state = query_host_state(host)
                self.say(f"{host.name}: {state.executed}, {state.channels}")
            return False


@dataclass
class Watched:
    watcher: Watcher
    stop: threading.Event = field(default_factory=threading.Event)
    outcomes: list[Outcome] = field(default_factory=list)
    error: Exception | None = None
    thread: threading.Thread = field(default_factory=threading.Thread)

    def start(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.outcomes = self.watcher.watch(self.stop)
        except Exception as error:
            self.error = error

    def outcome(self, timeout_s: float = 60.0) -> Outcome:
        self.thread.join(timeout_s)
        if self.error is not None:
            raise self.error
        assert self.outcomes, "no failover in time"
        return self.outcomes[0]
