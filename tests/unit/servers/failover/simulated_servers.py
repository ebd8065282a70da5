"""Servers of MariaDB and MySQL in virtual time, as far as a failover sees them: they take its statements.

commits       into the binary log; answered when as many replicas have acknowledged as are asked for, or alone after
              the time-out of semi-sync; a replica with the source's role applies its next transaction no sooner
relay logs    a replica receives, acknowledges, and applies later; MariaDB with GTID throws its relay log away when a
              thread is started while none runs (MDEV-4698), also at a start of the server
kill -9       files stay; a power cut takes what was not flushed (sync_relay_log, sync_binlog)
read-only     waits for commits under way, at most lock_wait_timeout
network       each link may be cut, or slow; a connection over a cut link is silent until its time-out
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pymysql.err import OperationalError

from headrace.errors import CouldNotRun
from headrace.mysql.connection import UNREACHABLE
from headrace.mysql.dialect import CONNECT_RETRY_S, HEARTBEAT_S, NET_TIMEOUT_S
from headrace.servers.failover import scheduler

if TYPE_CHECKING:
    from simulated_cluster import SimulatedCluster
    from simulated_time import Process

Transaction = tuple[int, int]  # server_id of the writer, number
Rows = list[tuple[Any, ...]]
UNFLUSHED = 10_000  # sync_relay_log as shipped
LOST = (2013, "Lost connection to MySQL server during query")
LOCK_WAIT_S = 1.0


@dataclass
class Channel:
    """Replication from another server. `connected`: to which start of the source, 0 for none;
    `cursor`: place of the next transaction in the source's binary log; `acks`: it takes part in
    semi-sync since it connected."""

    source: Server
    relay: list[Transaction] = field(default_factory=list)
    flushed: int = 0
    receiver: int = 0
    applier: int = 0
    connected: int = 0
    since_s: float = 0.0
    cursor: int = 0
    acks: bool = False
    pumping: bool = False
    applying: bool = False
    beats: int = 0
    error: str = ""
    silent_since_s: float | None = None


class Server:
    """A server. `boots`: how often it was started; `settings`: for its next start."""

    def __init__(self, cluster: SimulatedCluster, number: int, replica: bool) -> None:
        self.cluster, self.time, self.chance = cluster, cluster.time, cluster.chance
        self.name, self.id, self.flavor = f"s{number}", number + 1, cluster.flavor
        self.log: list[Transaction] = []
        self.places: dict[Transaction, int] = {}  # with its place in the log
        self.last: dict[int, int] = {}  # number by writer
        self.flushed = 0
        self.applied: Transaction | None = None
        self.channel: Channel | None = None
        self.up, self.fenced, self.boots, self.threads, self.started_s = False, False, 0, 0, 0.0
        self.log_text: str | None = None  # GTIDs of the log, once they were asked for
        self.variable_rows: Rows | None = None
        self.opened = 0  # order in which servers were opened for writes
        self.purged: set[Transaction] = set()  # executed, and not in its binary log: MySQL sends none of it
        self.pending: dict[Transaction, tuple[set[str], Callable[[], None]]] = {}
        self.waiting: list[Any] = []
        self.locks: dict[str, Connection] = {}
        semi = cluster.timeout_s > 0
        self.settings: dict[str, Any] = {
            "read_only": replica,
            "super_read_only": replica and self.flavor == "mysql",
            "source": semi and not replica,
            "replica": semi and replica and self.chance.random() > 0.1,
            "sync_relay_log": self.chance.choice([1, UNFLUSHED]),
            "sync_binlog": 1,
            "event_scheduler": cluster.scheduler and not replica,
            "timeout_ms": int(cluster.timeout_s * 1000),
            "count": cluster.count,
            "waits_alone": True,
        }
        self.events = "REPLICA_SIDE_DISABLED" if replica else "ENABLED"
        self.start()

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.up or self.fenced:
            return
        self.up, self.boots, self.threads, self.started_s = True, self.boots + 1, 0, self.time.now_s
        was_closed = self.boots > 1 and self.closed
        self.has, self.variable_rows = dict(self.settings), None
        self.status = self.has["source"]
        if was_closed and not self.closed:
            self.cluster.open(self)
        self.locks, self.pending = {}, {}
        if self.channel is not None:
            self.start_threads()

    def stop(self, power: bool = False) -> None:
        """Ends it by SIGKILL, or with its machine."""
        if not self.up:
            return
        self.up, self.pending, self.locks = False, {}, {}
        if power:
            earlier, self.log, self.places, self.last, self.log_text = self.log, [], {}, {}, None
            for transaction in earlier if self.has["sync_binlog"] == 1 else earlier[: self.flushed]:
                self.places[transaction] = len(self.log)
                self.log.append(transaction)
                self.last[transaction[0]] = max(transaction[1], self.last.get(transaction[0], 0))
            self.purged &= self.places.keys()
        if (channel := self.channel) is not None:
            if power:
                channel.relay = channel.relay[: channel.flushed]
            channel.receiver = channel.applier = channel.connected = 0
            channel.applying = False
            channel.source.miss_replicas()
            if self.flavor == "mariadb":
                self.applied = self.log[-1] if self.log else None
        for replica in self.cluster.followers(self):
            replica.disconnect()
        self.notify()

    def number(self) -> int:
        """Returns the number of a new thread or connection: a server counts them from its start on,
        so that they return after a restart."""
        self.threads += 1
        return self.threads

    def notify(self) -> None:
        """Lets statements that wait look again."""
        waiting, self.waiting = self.waiting, []
        for task in waiting:
            self.time.wake(task)

    # --- commits ----------------------------------------------------------------------------------

    def next(self) -> Transaction:
        numbers = self.last.values() if self.flavor == "mariadb" else [self.last.get(self.id, 0)]
        return self.id, max(numbers, default=0) + 1

    def commit(self, answer: Callable[[], None]) -> Transaction:
        """Commits a transaction; `answer` is called when the client gets its acknowledgement."""
        transaction = self.next()

        def acknowledge() -> None:
            self.cluster.acknowledge(self, transaction)
            answer()

        self.log_and_wait(transaction, acknowledge)
        return transaction

    def log_and_wait(self, transaction: Transaction, go_on: Callable[[], None]) -> None:
        """Logs a transaction, and goes on once replicas have acknowledged it where semi-sync asks for that."""
        self.append(transaction)
        if not (self.has["source"] and self.status):
            go_on()
            return
        boot = self.boots
        self.pending[transaction] = (set(), go_on)
        if self.has["timeout_ms"] < 1e10:
            self.time.at(self.has["timeout_ms"] / 1000, lambda: self.fall_back(transaction, boot))

    def append(self, transaction: Transaction) -> None:
        self.places[transaction] = len(self.log)
        self.log.append(transaction)
        self.log_text = None
        writer, number = transaction
        self.last[writer] = max(number, self.last.get(writer, 0))
        if self.has["sync_binlog"] == 1:
            self.flushed = len(self.log)
        for replica in self.cluster.followers(self):
            replica.pump()
        self.notify()

    def fall_back(self, transaction: Transaction, boot: int) -> None:
        if self.up and boot == self.boots and transaction in self.pending:
            self.status = False
            self.release()

    def release(self) -> None:
        """Answers all that wait: semi-sync is off, or fell back."""
        pending, self.pending = self.pending, {}
        for _, go_on in pending.values():
            go_on()
        self.notify()

    def switch_semi_sync_off(self) -> None:
        """Somebody switches the source's role off until the next start: what waits is answered, and later commits wait
        for nobody."""
        if self.up:
            self.has["source"] = self.status = False
            self.variable_rows = None
            self.release()

    def acked(self, replica: str, transaction: Transaction, boot: int) -> None:
        if not self.up or boot != self.boots:
            return
        if self.has["source"] and not self.status:
            self.status = transaction == self.log[-1]  # a replica has caught up
        for earlier in list(self.pending):
            acks, go_on = self.pending[earlier]
            if self.places[earlier] <= self.places[transaction]:
                acks.add(replica)
                if len(acks) >= self.has["count"]:
                    del self.pending[earlier]
                    go_on()
        self.notify()

    # --- replication ------------------------------------------------------------------------------

    def start_threads(self, receive: bool = True, apply: bool = True) -> None:
        channel = self.channel
        if channel is None or not self.up:
            return
        if self.flavor == "mariadb" and not channel.receiver and not channel.applier:
            channel.relay, channel.flushed = [], 0
        if receive and not channel.receiver:
            channel.receiver, channel.error = self.number(), ""
            self.connect(channel.receiver)
        if apply and not channel.applier:
            channel.applier = self.number()
            self.apply_soon()

    def stop_threads(self, receive: bool = True, apply: bool = True) -> None:
        if (channel := self.channel) is not None:
            if receive:
                channel.receiver = channel.connected = 0
                channel.source.miss_replicas()
            if apply:
                channel.applier, channel.applying = 0, False

    def miss_replicas(self) -> None:
        """Goes on alone at once where it does not wait for replicas that are gone."""
        if self.up and self.has["source"] and self.status and not self.has["waits_alone"]:
            channels = [each.channel for each in self.cluster.followers(self)]
            there = sum(channel is not None and bool(channel.connected) and channel.acks for channel in channels)
            if there < self.has["count"]:
                self.status = False
                self.release()

    def connect(self, receiver: int) -> None:
        """Tries to connect to its source, again and again."""
        channel = self.channel
        if channel is None or channel.receiver != receiver or channel.connected or not self.up:
            return
        source = channel.source
        if not (source.up and self.cluster.linked(self.name, source.name)):
            self.time.at(CONNECT_RETRY_S, lambda: self.connect(receiver))
            return
        places = self.places.keys() | set(channel.relay)
        if self.flavor == "mariadb":
            last = channel.relay[-1] if channel.relay else self.applied
            if last is not None and last not in source.places:
                channel.receiver, channel.error = 0, "1236: the position is not in the source's binary log"
                return
            channel.cursor = 0 if last is None else source.places[last] + 1
        else:
            if any(transaction[0] == source.id and transaction not in source.places for transaction in places):
                channel.receiver, channel.error = 0, "1236: the replica has more GTIDs than the source"
                return
            if not source.purged <= places:
                channel.receiver, channel.error = 0, "1236: the source has purged GTIDs that the replica requires"
                return
            channel.cursor = 0
        channel.connected, channel.since_s, channel.silent_since_s = source.boots, self.time.now_s, None
        channel.acks = self.has["replica"]
        if channel.acks:
            common = [transaction for transaction in source.log if transaction in places]
            if common and common == source.log[: len(common)]:
                source.acked(self.name, common[-1], source.boots)
        self.pump()

    def disconnect(self) -> None:
        """Drops the connection to the source, and tries again later."""
        channel = self.channel
        if channel is not None and channel.connected:
            channel.beats += int((self.time.now_s - channel.since_s) / HEARTBEAT_S)
            channel.connected = 0
            channel.source.miss_replicas()
            receiver = channel.receiver
            self.time.at(CONNECT_RETRY_S, lambda: self.connect(receiver))

    def link_changed(self) -> None:
        """A link was cut or restored: a silent connection ends after the time-out of its network."""
        channel = self.channel
        if channel is None or not channel.connected:
            return
        if self.cluster.linked(self.name, channel.source.name):
            if channel.silent_since_s is not None:
                channel.since_s += self.time.now_s - channel.silent_since_s
                channel.silent_since_s = None
            self.pump()
        elif channel.silent_since_s is None:
            since = channel.silent_since_s = self.time.now_s

            def give_up() -> None:
                if self.channel is channel and channel.silent_since_s == since:
                    self.disconnect()

            self.time.at(NET_TIMEOUT_S, give_up)

    def pump(self) -> None:
        """Receives the next transaction a moment later."""
        channel = self.channel
        if channel is None or channel.pumping or not channel.connected:
            return
        channel.pumping = True

        def receive() -> None:
            channel.pumping = False
            source = channel.source
            alive = self.up and self.channel is channel and source.up and channel.connected == source.boots
            if not (alive and self.cluster.linked(self.name, source.name)):
                return
            while channel.cursor < len(source.log):
                transaction = source.log[channel.cursor]
                channel.cursor += 1
                if transaction in self.places or transaction in channel.relay:
                    continue
                channel.relay.append(transaction)
                if self.has["sync_relay_log"] == 1:
                    channel.flushed = len(channel.relay)
                if channel.acks:
                    self.acknowledge(source, transaction)
                self.apply_soon()
                break
            if channel.cursor < len(source.log):
                self.pump()

        self.time.at(self.cluster.delay_s(), receive)

    def acknowledge(self, source: Server, transaction: Transaction) -> None:
        boot = source.boots

        def arrive() -> None:
            if self.cluster.linked(self.name, source.name):
                source.acked(self.name, transaction, boot)

        self.time.at(self.cluster.delay_s(), arrive)

    def apply_soon(self) -> None:
        channel = self.channel
        if channel is None or channel.applying or not channel.applier or not channel.relay:
            return
        channel.applying, applier = True, channel.applier

        def apply() -> None:
            if self.channel is channel and channel.applier == applier and self.up:
                if channel.relay:
                    transaction = channel.relay.pop(0)
                    channel.flushed = max(0, channel.flushed - 1)
                    self.applied = transaction
                    self.log_and_wait(transaction, go_on)
                else:
                    go_on()

        def go_on() -> None:
            if self.channel is channel and channel.applier == applier:
                channel.applying = False
                self.apply_soon()

        self.time.at(self.chance.expovariate(1 / self.cluster.apply_s), apply)

    # --- what it shows ----------------------------------------------------------------------------

    def gtids(self, transactions: list[Transaction]) -> str:
        if self.flavor == "mariadb":
            return "" if not transactions else f"0-{transactions[-1][0]}-{transactions[-1][1]}"
        numbers: dict[int, list[int]] = {}
        for writer, number in transactions:
            numbers.setdefault(writer, []).append(number)
        return ",".join(f"{uuid(writer)}:{':'.join(intervals(each))}" for writer, each in sorted(numbers.items()))

    def executed(self) -> str:
        """The GTIDs of its binary log."""
        if self.log_text is None:
            self.log_text = self.gtids(self.log)
        return self.log_text

    def covers(self, text: str) -> bool:
        """Returns whether the server has executed a set, in its notation."""
        if self.flavor == "mariadb":
            last = int(text.rpartition("-")[2]) if text else 0
            return not last or (self.log[-1][1] if self.log else 0) >= last
        from headrace.mysql.gtid import GtidSet

        return GtidSet.parse(self.executed(), "mysql").contains(GtidSet.parse(text, "mysql"))

    def variables(self) -> Rows:
        """Returns the settings, written anew after a change."""
        if self.variable_rows is None:
            self.variable_rows = self.write_variables()
        return self.variable_rows

    def write_variables(self) -> Rows:
        has, word = self.has, lambda on: "ON" if on else "OFF"
        old = self.flavor == "mariadb"
        source, replica = ("master", "slave") if old else ("source", "replica")
        rows = {
            "version": "10.11.9-MariaDB" if old else "8.4.3",
            "server_id": self.id,
            "read_only": word(has["read_only"]),
            "log_bin": "ON",
            "log_slave_updates" if old else "log_replica_updates": "ON",
            "sync_binlog": has["sync_binlog"],
            "innodb_flush_log_at_trx_commit": 1,
            "sync_relay_log": has["sync_relay_log"],
            f"rpl_semi_sync_{source}_enabled": word(has["source"]),
            f"rpl_semi_sync_{replica}_enabled": word(has["replica"]),
            f"rpl_semi_sync_{source}_timeout": has["timeout_ms"],
            f"rpl_semi_sync_{source}_wait_no_{replica}": word(has["waits_alone"]),
            f"rpl_semi_sync_{source}_wait_point": "AFTER_SYNC",
            "event_scheduler": word(has["event_scheduler"]),
        }
        if old:
            rows |= {"gtid_strict_mode": "ON", "slave_parallel_threads": 0}
        else:
            rows |= {
                "server_uuid": uuid(self.id),
                "super_read_only": word(has["super_read_only"]),
                "gtid_mode": "ON",
                "enforce_gtid_consistency": "ON",
                "rpl_semi_sync_source_wait_for_replica_count": has["count"],
                "replica_parallel_workers": 4,
                "replica_preserve_commit_order": "ON",
            }
        return [(name, str(value)) for name, value in rows.items()]

    def statuses(self) -> Rows:
        source, replica = ("master", "slave") if self.flavor == "mariadb" else ("source", "replica")
        channels = [each.channel for each in self.cluster.followers(self)]
        clients = [channel for channel in channels if channel is not None and channel.connected and channel.acks]
        acks = self.channel is not None and bool(self.channel.connected) and self.channel.acks
        return [
            (f"Rpl_semi_sync_{source}_status", "ON" if self.has["source"] and self.status else "OFF"),
            (f"Rpl_semi_sync_{source}_clients", str(len(clients))),
            (f"Rpl_semi_sync_{replica}_status", "ON" if acks else "OFF"),
        ]

    def channels(self) -> list[dict[str, Any]]:
        channel = self.channel
        if channel is None:
            return []
        old = self.flavor == "mariadb"
        source, replica = ("Master", "Slave") if old else ("Source", "Replica")
        receives = "No" if not channel.receiver else "Yes" if channel.connected else "Connecting"
        common = {
            f"{source}_Host": channel.source.name,
            f"{source}_Port": 3306,
            f"{source}_Server_Id": channel.source.id,
            f"{replica}_IO_Running": receives,
            f"{replica}_SQL_Running": "Yes" if channel.applier else "No",
            "Last_IO_Errno": 1236 if channel.error else 0,
            "Last_IO_Error": channel.error,
            "SQL_Delay": 0,
            f"{source}_Log_File": "b",
            f"Read_{source}_Log_Pos": channel.cursor,
        }
        if old:
            position = channel.relay or ([self.applied] if self.applied else [])
            applied = self.gtids([self.applied] if self.applied else [])
            named = {"Connection_name": "", "Using_Gtid": "Slave_Pos"}
            return [named | {"Gtid_IO_Pos": self.gtids(position), "Gtid_Slave_Pos": applied} | common]
        retrieved = {"Retrieved_Gtid_Set": self.gtids(channel.relay), "Executed_Gtid_Set": self.executed()}
        return [{"Channel_Name": "", "Auto_Position": 1} | retrieved | common]

    def beats(self) -> int:
        channel = self.channel
        if channel is None or not channel.connected:
            return 0 if channel is None else channel.beats
        until = self.time.now_s if channel.silent_since_s is None else channel.silent_since_s
        return channel.beats + int((until - channel.since_s) / HEARTBEAT_S)

    # --- statements -------------------------------------------------------------------------------

    def answer(self, connection: Connection, text: str) -> Rows | list[dict[str, Any]]:
        """Runs a statement, which may wait."""
        act, match = meaning(text)
        return act(self, connection, match) or []

    def set_global(self, connection: Connection, name: str, value: str) -> None:
        number, value = value, value.strip("'")  # a number in quotes is refused
        on = value in ("1", "ON")
        match name.removeprefix("rpl_semi_sync_"):
            case "read_only" | "super_read_only":
                if on and not connection.wait(lambda: not self.pending, LOCK_WAIT_S):
                    raise OperationalError(1205, "Lock wait timeout exceeded")
                was = self.closed
                self.has[name] = on
                if name == "super_read_only" and on:
                    self.has["read_only"] = True
                if name == "read_only" and not on:
                    self.has["super_read_only"] = False
                if was and not self.closed:
                    self.cluster.open(self)
                if not was and self.closed and self is self.cluster.source:
                    self.cluster.closing()
            case "master_enabled" | "source_enabled":
                self.status = self.has["source"] = on
                if not on:
                    self.switch_semi_sync_off()
            case "slave_enabled" | "replica_enabled":
                self.has["replica"] = on
            case "master_timeout" | "source_timeout":
                self.has["timeout_ms"] = int(number)
            case "source_wait_for_replica_count":
                self.has["count"] = int(number)
            case "master_wait_no_slave" | "source_wait_no_replica":
                self.has["waits_alone"] = on
            case "sync_binlog":
                self.has["sync_binlog"] = int(number)
            case "event_scheduler":
                self.has["event_scheduler"] = on
            case "gtid_slave_pos":
                self.applied = self.log[-1] if self.log else None
            case "master_wait_point" | "source_wait_point" | "innodb_flush_log_at_trx_commit":
                pass
            case "slave_net_timeout" | "replica_net_timeout":
                pass
            case _:
                raise AssertionError(f"the simulated server has no {name}")
        self.variable_rows = None
        self.notify()

    @property
    def closed(self) -> bool:
        return self.has["read_only"] or self.has["super_read_only"]

    def change_source(self, host: str) -> None:
        source = self.cluster.servers[host]
        if self.channel is not None and (self.channel.receiver or self.channel.applier):
            raise OperationalError(1198, "This operation cannot be performed as you have a running replica")
        beats = 0 if self.channel is None else self.channel.beats
        self.channel = Channel(source, beats=beats)

    def probe(self, connection: Connection) -> None:
        """The write of a look, by an account with SUPER, which read_only does not stop on MariaDB."""
        if self.has["super_read_only"] or (self.flavor == "mysql" and self.has["read_only"]):
            raise OperationalError(1290, "The MySQL server is running with the --read-only option")
        answered = []

        def answer() -> None:
            answered.append(True)
            self.notify()

        self.commit(answer)
        connection.wait(lambda: bool(answered), 1e9)

    def get_lock(self, connection: Connection, name: str, seconds: float) -> Rows:
        def is_free() -> bool:
            holder = self.locks.get(name)
            return holder is None or holder is connection or holder.closed_there

        if not connection.wait(is_free, seconds):
            return [(0,)]
        self.locks[name] = connection
        return [(1,)]

    def release_lock(self, connection: Connection, name: str) -> None:
        if self.locks.get(name) is connection:
            del self.locks[name]
            self.notify()

    def kill(self, number: int) -> None:
        if (channel := self.channel) is not None and channel.receiver == number:
            self.stop_threads(apply=False)

    def reset_all(self) -> None:
        self.stop_threads()
        self.channel = None


def statement(text: str, act: Callable[[Server, Connection, re.Match[str]], Any]) -> tuple[re.Pattern[str], Any]:
    return re.compile(text, re.DOTALL), act


def threads(words: str) -> dict[str, bool]:
    return {"receive": "SQL_THREAD" not in words, "apply": "IO_THREAD" not in words}


STATEMENTS = [
    statement(r"SHOW GLOBAL VARIABLES", lambda s, c, m: s.variables()),
    statement(r"SHOW GLOBAL STATUS LIKE 'rpl", lambda s, c, m: s.statuses()),
    statement(r"SHOW GLOBAL STATUS LIKE 'uptime'", lambda s, c, m: [("Uptime", str(int(s.time.now_s - s.started_s)))]),
    statement(r"SHOW ALL SLAVES STATUS|SHOW REPLICA STATUS", lambda s, c, m: s.channels()),
    statement(r"SELECT @@version", lambda s, c, m: [(dict(s.variables())["version"],)]),
    statement(r"SELECT @@GLOBAL\.gtid_slave_pos, ", lambda s, c, m: [(s.gtids([s.applied] if s.applied else []), s.executed())]),
    statement(r"SELECT @@GLOBAL\.gtid_executed", lambda s, c, m: [(s.executed(),)]),
    statement(r"SELECT @@GLOBAL\.gtid_purged", lambda s, c, m: [(s.gtids(sorted(s.purged)),)]),
    statement(r"SELECT @@GLOBAL\.gtid_binlog_state", lambda s, c, m: [(",".join(f"0-{writer}-{number}" for writer, number in s.last.items()),)]),
    statement(r"SELECT .*heartbeat_interval|SELECT .*'slave_heartbeat_period'", lambda s, c, m: [(HEARTBEAT_S,)]),
    statement(r"SELECT .*received_heartbeats", lambda s, c, m: [(s.beats(),)]),
    statement(r"SELECT command, MAX\(id\)", lambda s, c, m: [(name, number) for name, number in (("Slave_IO", s.channel.receiver), ("Slave_SQL", s.channel.applier)) if number] if s.channel else []),
    statement(r"SELECT id FROM .*'Slave_IO'|SELECT processlist_id FROM .*connection_status", lambda s, c, m: [(s.channel.receiver,)] if s.channel and s.channel.receiver else []),
    statement(r"SELECT processlist_id, applying|SELECT 1 FROM performance_schema", lambda s, c, m: []),
    statement(r"SELECT state FROM information_schema.processlist", lambda s, c, m: [("Waiting for semi-sync ACK from replica" if s.pending else "",)]),
    statement(r"SELECT p\.id|SELECT p\.time|SELECT 1 FROM DUAL|SELECT DISTINCT grantee", lambda s, c, m: []),
    statement(r"SELECT (?:MASTER_GTID_WAIT|WAIT_FOR_EXECUTED_GTID_SET)\('(.*)', ([\d.]+)\)", lambda s, c, m: [(0 if c.wait(lambda: s.covers(m[1]), float(m[2])) else -1,)]),
    statement(r"SELECT GET_LOCK\('(.*)', ([\d.]+)\)", lambda s, c, m: s.get_lock(c, m[1], float(m[2]))),
    statement(r"SELECT IS_USED_LOCK\('(.*)'\)", lambda s, c, m: [(int(s.locks.get(m[1]) is c),)]),
    statement(r"SELECT RELEASE_LOCK\('(.*)'\)", lambda s, c, m: s.release_lock(c, m[1])),
    statement(re.escape(scheduler.RUNNING), lambda s, c, m: [("shop", "nightly", "ops@%")] if s.events == "ENABLED" else []),
    statement(re.escape(scheduler.ASLEEP), lambda s, c, m: [("shop", "nightly")] if s.events != "ENABLED" else []),
    statement(r"ALTER .*EVENT", lambda s, c, m: setattr(s, "events", "ENABLED")),
    statement(r"SET SESSION ", lambda s, c, m: None),
    statement(r"SET GLOBAL (\w+) = (.*)", lambda s, c, m: s.set_global(c, m[1], m[2])),
    statement(r"FLUSH ", lambda s, c, m: setattr(s, "flushed", len(s.log))),
    statement(r"INSERT INTO headrace_failover", lambda s, c, m: s.probe(c)),
    statement(r"START (?:SLAVE|REPLICA)(.*)", lambda s, c, m: s.start_threads(**threads(m[1]))),
    statement(r"STOP (?:SLAVE|REPLICA)(.*)", lambda s, c, m: s.stop_threads(**threads(m[1]))),
    statement(r"RESET (?:SLAVE|REPLICA)", lambda s, c, m: s.reset_all()),
    statement(r"CHANGE .*(?:MASTER|SOURCE)_HOST = '(\w+)'", lambda s, c, m: s.change_source(m[1])),
    statement(r"KILL (?:CONNECTION )?(\d+)", lambda s, c, m: s.kill(int(m[1]))),
]  # fmt: skip


@lru_cache(maxsize=10_000)
def meaning(text: str) -> tuple[Callable[[Server, Connection, re.Match[str]], Any], re.Match[str]]:
    """Returns the function that carries out a statement, and the match of its text. Raises
    AssertionError for a statement that no server here knows."""
    for pattern, act in STATEMENTS:
        if match := pattern.match(text):
            return act, match
    raise AssertionError(f"the simulated server does not know {text[:200]}")


class Connection:
    """A connection of a program to a server, as PyMySQL has it."""

    def __init__(self, cluster: SimulatedCluster, process: Process, server: Server, timeout_s: float) -> None:
        self.cluster, self.process, self.server, self.time = cluster, process, server, cluster.time
        self._read_timeout = timeout_s
        self.boot, self.id, self.broken = server.boots, server.number(), False
        self.asked_s = 0.0

    @property
    def closed_there(self) -> bool:
        """True if the server has noticed the end of the connection."""
        return self.broken or self.process.killed

    def thread_id(self) -> int:
        return self.id

    def ping(self, reconnect: bool = True) -> None:
        self.ask("SET SESSION ping")

    def close(self) -> None:
        self._force_close()

    def _force_close(self) -> None:
        self.time.check()
        self.broken = True
        self.server.notify()

    def cursor(self) -> Cursor:
        return Cursor(self)

    def travel(self) -> None:
        """A question, or an answer, on its way."""
        spent_s = self.time.now_s - self.asked_s
        delay_s = self.cluster.travel_s(self.process.name, self.server.name)
        if delay_s is None or spent_s + delay_s > self._read_timeout:
            self.time.pause(max(0.0, self._read_timeout - spent_s))
            raise self.failed()
        self.time.pause(delay_s)
        if not self.server.up or self.server.boots != self.boot:
            raise self.failed()

    def failed(self) -> OperationalError:
        self.broken = True
        return OperationalError(*LOST)

    def wait(self, ready: Callable[[], bool], seconds: float) -> bool:
        """Waits on the server. Raises OperationalError when the answer is waited for no longer."""
        until, patience = self.time.now_s + seconds, self.asked_s + self._read_timeout
        while not ready():
            if self.time.now_s >= until:
                return False
            if self.time.now_s >= patience:
                raise self.failed()
            self.server.waiting.append(self.time.current)
            self.time.pause(max(1e-6, min(until, patience) - self.time.now_s))
            if not self.server.up or self.server.boots != self.boot:
                raise self.failed()
        return True

    def ask(self, text: str) -> Rows | list[dict[str, Any]]:
        self.time.check()
        if self.broken:
            raise OperationalError(*LOST)
        self.asked_s = self.time.now_s
        self.travel()
        rows = self.server.answer(self, text)
        # Most answers are there at once, which saves a third of the time that a run takes here.
        if self.server.name in self.cluster.slow or self.cluster.cut or self.cluster.chance.random() < 0.2:
            self.travel()
        return rows


class Cursor:
    """Rows of an answer."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.rows: list[Any] = []
        self.description: tuple[tuple[str], ...] = ()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, text: str, parameters: object = None) -> None:
        rows = self.connection.ask(text)
        first = rows[0] if rows else ()
        self.description = tuple((name,) for name in first) if isinstance(first, dict) else ()
        self.rows = [tuple(row.values()) for row in rows if isinstance(row, dict)] if self.description else rows

    def fetchall(self) -> list[Any]:
        return self.rows


def connect(cluster: SimulatedCluster, process: Process, server: Server, timeout_s: float) -> Connection:
    """Connects. Raises CouldNotRun, as `headrace.mysql.connect` does."""
    cluster.time.check()
    delay_s = cluster.travel_s(process.name, server.name)
    silent = delay_s is None or delay_s > timeout_s
    cluster.time.pause(timeout_s if delay_s is None else min(delay_s, timeout_s))
    if silent or not server.up:
        rule = f"did not answer within {timeout_s:g} s" if silent else "no server listens there"
        raise CouldNotRun(server.name, rule, "", "", kind=UNREACHABLE)
    return Connection(cluster, process, server, timeout_s)


def uuid(number: int) -> str:
    return f"{number:08x}-0000-0000-0000-000000000000"


def intervals(numbers: list[int]) -> Iterator[str]:
    """MySQL's notation of a set of numbers."""
    ordered, begin = sorted(numbers), 0
    for place in range(1, len(ordered) + 1):
        if place == len(ordered) or ordered[place] != ordered[place - 1] + 1:
            first, last = ordered[begin], ordered[place - 1]
            yield str(first) if first == last else f"{first}-{last}"
            begin = place
