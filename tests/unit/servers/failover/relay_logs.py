"""A naive model of one source and its replicas: what a relay log keeps and what it loses.

No networks, no clocks, no servers: transactions are numbers in lists. A source appends to its
binary log and waits; a replica receives the next transaction into its relay log and acknowledges;
its applier moves it into its own binary log. The losses and their times are the point:

    kill -9 of a server      flushed or not, files stay; MariaDB's relay log goes at the next start
    power cut                what was not flushed goes too; a relay log with sync_relay_log = 1 stays
    both threads stopped     MariaDB with GTID throws the relay log away at the next start of one
    timeout of semi-sync     the source acknowledges alone, and says so in its status

Acknowledgements are kept outside. The watcher sees what its links let it see.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import BinaryLog, Channel, Durability, SemiSync, ServerState
from headrace.servers.failover.planning.guarantee import carry_proof, find_proof
from headrace.servers.failover.planning.members import (
    NEVER_S,
    AckProof,
    FailoverStep,
    FailoverWish,
    Outcome,
    Seen,
    ThreadRun,
)
from headrace.servers.failover.planning.progress import Elected, Progress

OUTCOME = Outcome("s1", True, (), "", {}, 1.0, None)  # of a failover
Transaction = tuple[int, int]  # who wrote it (index of the server), number


@dataclass
class Model:
    """One server. `binlog`: executed, in order; `relay`: received and not executed; `safe`: how many
    of the relay log are flushed. `follows`: index of its source. Threads have numbers while they
    run."""

    index: int
    flavor: str
    up: bool = True
    binlog: list[Transaction] = field(default_factory=list)
    relay: list[Transaction] = field(default_factory=list)
    safe: int = 0
    sync_relay_log: int = 10_000
    follows: int | None = None
    receiver: int = 0
    applier: int = 0
    start: float = -1_000.0  # long before the first look, s
    delayed: bool = False
    apply_error: str = ""
    logs_updates: bool = True
    by_position: bool = False  # MariaDB does not note then what it received
    read_only: bool = True
    acks: bool = True
    source_role: bool = False
    status: bool = False
    has_acked: dict[int, int] = field(default_factory=dict)

    def knows(self) -> set[Transaction]:
        return {*self.binlog, *self.relay}


class Cluster:
    """A source (0) and replicas, a watcher, links between all of them that can be cut."""

    def __init__(
        self, replicas: int, flavor: str, count: int, timeout_s: float, fence: bool, *, first: int = 0
    ) -> None:
        self.flavor, self.count, self.timeout_s, self.fence_possible = flavor, count, timeout_s, fence
        self.first = first  # number of its source among the servers of a lab with several clusters
        self.now, self.threads = 0.0, 0
        self.servers = [Model(index, flavor) for index in range(replicas + 1)]
        self.source = self.servers[0]
        self.source.read_only, self.source.source_role, self.source.status = False, timeout_s > 0, timeout_s > 0
        self.cut: set[tuple[int, int]] = set()  # between servers; -1: the watcher
        self.waiting: list[tuple[Transaction, float]] = []
        self.acknowledged: list[tuple[Transaction, float]] = []
        self.fenced_s: float | None = None
        self.proof: AckProof | None = None
        self.source_waits_alone = True
        self.numbers = 0
        for server in self.servers[1:]:
            server.follows = 0
            self.start_threads(server)

    # --- what goes on -----------------------------------------------------------------------------

    def linked(self, near: int, other: int) -> bool:
        return (min(near, other), max(near, other)) not in self.cut

    def write(self) -> Transaction | None:
        """A client of the old source commits; it is answered at once or when replicas have it."""
        source = self.source
        if not source.up or source.read_only:
            return None
        self.numbers += 1
        transaction = (0, self.numbers)
        source.binlog.append(transaction)
        self.waiting.append((transaction, self.now))
        self.settle()
        return transaction

    def receive(self, index: int) -> None:
        """The next transaction that the replica has not, into its relay log; then it acknowledges."""
        replica = self.servers[index]
        if not (replica.up and replica.receiver and replica.follows is not None):
            return
        above = self.servers[replica.follows]
        if not (above.up and self.linked(index, replica.follows)):
            return
        present = replica.knows()
        for transaction in above.binlog:
            if transaction not in present:
                replica.relay.append(transaction)
                break
        if replica.sync_relay_log == 1:
            replica.safe = len(replica.relay)
        if replica.follows == 0 and replica.acks:
            # Acknowledged is the position up to which it has everything.
            self.acked(replica)

    def acked(self, replica: Model) -> None:
        present = replica.knows()
        position = 0
        for transaction in self.source.binlog:
            if transaction not in present:
                break
            position += 1
        self.source.has_acked[replica.index] = position
        self.settle()

    def settle(self) -> None:
        """Answers the clients whose transactions enough replicas have; in order."""
        source = self.source
        if not source.up:
            return
        if source.status:
            while self.waiting:
                position = source.binlog.index(self.waiting[0][0]) + 1
                if sum(reached >= position for reached in source.has_acked.values()) < self.count:
                    break
                self.acknowledged.append((self.waiting.pop(0)[0], self.now))
        else:
            self.acknowledged += [(transaction, self.now) for transaction, _ in self.waiting]
            self.waiting = []
            caught_up = sum(reached >= len(source.binlog) for reached in source.has_acked.values())
            source.status = source.source_role and caught_up >= self.count

    def apply(self, index: int) -> None:
        server = self.servers[index]
        if server.up and server.applier and server.relay and not server.delayed and not server.apply_error:
            server.binlog.append(server.relay.pop(0))
            server.safe = max(0, server.safe - 1)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        source = self.source
        if source.up and source.status and self.waiting and self.now - self.waiting[0][1] > self.timeout_s:
            source.status = False
        self.settle()

    # --- threads, starts, faults ------------------------------------------------------------------

    def thread(self) -> int:
        self.threads += 1
        return self.threads

    def start_threads(self, server: Model, receive: bool = True, apply: bool = True) -> None:
        if server.flavor == "mariadb" and not server.receiver and not server.applier:
            server.relay, server.safe = [], 0  # MDEV-4698
        if receive and not server.receiver:
            server.receiver = self.thread()
        if apply and not server.applier and not server.apply_error:
            server.applier = self.thread()

    def stop_threads(self, server: Model, receive: bool = True, apply: bool = True) -> None:
        if receive:
            server.receiver = 0
            self.source.has_acked.pop(server.index, None)
        if apply:
            server.applier = 0

    def restart(self, index: int, power: bool) -> None:
        """A replica goes and comes back with its threads."""
        server = self.servers[index]
        if not server.up or server.follows is None:
            return
        self.stop_threads(server)
        if power:
            server.relay = server.relay[: server.safe]
        self.now += 10.0
        server.start = self.now
        self.start_threads(server)

    def kill_source(self) -> None:
        self.source.up = False
        self.waiting = []

    # --- what the watcher sees --------------------------------------------------------------------

    def name(self, index: int) -> str:
        return f"s{self.first + index}"

    def gtids(self, transactions: set[Transaction]) -> GtidSet:
        if self.flavor == "mysql":
            text = ",".join(f"{uuid(self.first + writer)}:{number}" for writer, number in sorted(transactions))
        else:
            top = max(transactions, key=lambda transaction: transaction[1], default=None)
            text = "" if top is None else f"0-{self.first + top[0] + 1}-{top[1]}"
        return GtidSet.parse(text, self.flavor)

    def state(self, server: Model) -> ServerState:
        executed = self.gtids(set(server.binlog))
        connected = [
            other
            for other in self.servers
            if other.follows == server.index and other.up and other.receiver and self.linked(server.index, other.index)
        ]
        channels = ()
        if server.follows is not None:
            linked = self.servers[server.follows].up and self.linked(server.index, server.follows)
            channels = (
                Channel(
                    name="",
                    source_host=self.name(server.follows),
                    source_port=1,
                    source_server_id=self.first + server.follows + 1,
                    receive="off" if not server.receiver else "on" if linked else "connecting",
                    apply="on" if server.applier else "off",
                    received=executed if server.by_position else self.gtids(server.knows()),
                    executed=executed,
                    read_file="",
                    read_pos=0,
                    applied_file="",
                    applied_pos=0,
                    seconds_behind=0,
                    receive_error="",
                    apply_error=server.apply_error,
                    delay_s=3600 if server.delayed else 0,
                    filters=(),
                    workers=0,
                    uses_gtid=not server.by_position,
                ),
            )
        semi = SemiSync(
            source_enabled=server.source_role,
            source_status=server.status,
            clients=sum(other.acks for other in connected),
            wait_count=self.count,
            wait_point="AFTER_SYNC",
            timeout_ms=int(self.timeout_s * 1000),
            waits_alone=server.index != 0 or self.source_waits_alone,
            replica_enabled=server.acks and server.index != 0,
            replica_status=server.acks and bool(server.receiver),
        )
        return ServerState(
            name=self.name(server.index),
            flavor=self.flavor,
            version=(10, 11, 0) if self.flavor == "mariadb" else (9, 7, 0),
            server_id=self.first + server.index + 1,
            uuid=uuid(self.first + server.index),
            read_only=server.read_only,
            super_read_only=server.read_only,
            executed=executed,
            binary_log=BinaryLog(on=True, replica_updates=server.logs_updates),
            durability=Durability(sync_binlog=1, flush_log=1, sync_relay_log=server.sync_relay_log),
            gtid_on=True,
            gtid_strict=True,
            semi_sync=semi,
            channels=channels,
            # The position of its channel outlives it.
            applied=channels[0].executed if channels else GtidSet(self.flavor),
        )

    def seen(self) -> dict[str, Seen]:
        members = {}
        for server in self.servers:
            name = self.name(server.index)
            fence = "done" if self.fenced_s is not None else "possible" if self.fence_possible else "none"
            base = Seen(name, host=name, port=1, fence=fence if server.index == 0 else "none")
            if server.up and self.linked(-1, server.index):
                wrote: dict[tuple[int, int], int] = {}
                if self.flavor == "mariadb":
                    for writer, number in server.binlog:
                        key = (0, self.first + writer + 1)
                        wrote[key] = max(number, wrote.get(key, 0))
                run = ThreadRun(server.start, self.now - server.start, server.receiver, server.applier)
                base = replace(base, state=self.state(server), run=run, wrote=wrote)
            else:
                base = replace(base, error="no answer")
            members[name] = base
        return members

    def look(self) -> dict[str, Seen]:
        """Looks, writes, and looks at the source again, like the watcher's tick."""
        before, began = self.seen(), self.now
        if self.proof is not None:
            self.proof = carry_proof(self.proof, before)
        source = before["s0"]
        if source.state is None or source.state.read_only:
            return before
        transaction = self.write()
        for server in self.servers[1:]:
            # The probe waits a moment, in which the replicas go on.
            for _ in range(len(self.source.binlog)):
                self.receive(server.index)
        acknowledged = bool(self.acknowledged) and any(entry[0] == transaction for entry in self.acknowledged[-50:])
        after = replace(self.seen()["s0"], write="ok" if acknowledged else "stalled")
        proof = find_proof(before, after, began)
        if proof is not None:
            self.proof = proof
        return before | {"s0": replace(source, write=after.write)}

    # --- what the executor does -------------------------------------------------------------------

    def do(self, step: FailoverStep) -> bool:
        """One step of a plan. False: it could not be done now."""
        index = int(step.server[1:])
        server = self.servers[index]
        if step.action == "fence":
            self.kill_source()
            self.fenced_s = self.now
            return True
        if not server.up or not self.linked(-1, index):
            return False
        match step.action:
            case "start-apply":
                self.start_threads(server, receive=False)
            case "stop-receive":
                self.stop_threads(server, apply=False)
            case "read-only":
                server.read_only = True
            case "wait-near":
                pass
            case "wait-applied":
                if step.gtid is None:  # all that the source of a switchover has, which is read-only
                    assert self.source.read_only
                    return self.fetched(server, set(self.source.binlog))
                for _ in range(len(server.relay)):
                    self.apply(index)
                return self.gtids(set(server.binlog)).contains(step.gtid)
            case "leave-source":
                server.follows, server.relay, server.safe = None, [], 0
                self.stop_threads(server)
            case "semi-sync-source-on" | "semi-sync-source-off":
                server.source_role = server.status = step.action.endswith("on")
            case "semi-sync-replica-off":
                server.acks = False
            case "writable":
                server.read_only = False
            case "repoint":
                self.stop_threads(server)
                server.relay, server.safe = [], 0
                server.follows = int(step.to[1:])
                self.start_threads(server)
            case "repoint-early":
                above = self.servers[int(step.to[1:])]
                self.stop_threads(server, apply=False)
                while server.relay and self.applied(server):
                    pass
                if server.relay or not above.up or not self.fetched(above, set(server.binlog)):
                    self.start_threads(server, apply=False)
                    return False
                self.stop_threads(server)
                server.follows = above.index
                self.start_threads(server)
            case "clients":
                pass
            case _:
                raise AssertionError(step.action)
        return True

    def applied(self, server: Model) -> bool:
        """Applies a transaction of the relay log; returns whether there was one."""
        before = len(server.relay)
        self.apply(server.index)
        return len(server.relay) < before

    def fetched(self, server: Model, target: set[Transaction]) -> bool:
        """Waits for a replica; returns whether it has applied all of these transactions."""
        for _ in range(2 * len(target)):
            self.receive(server.index)
            self.applied(server)
        return target <= set(server.binlog)


def going(
    source: str = "s0",
    elected: str | None = None,
    had: GtidSet | None = None,
    sure: tuple[bool, tuple[str, ...]] = (True, ()),
    **values: Any,
) -> Progress:
    """A change that began, with the choices of a wish and what has become of it since."""
    names = {each.name for each in fields(FailoverWish)}
    wish = FailoverWish(source, **{name: value for name, value in values.items() if name in names})
    decision = None if elected is None else Elected(elected, had, sure[0], sure[1])
    return Progress(wish, decision=decision, **{name: value for name, value in values.items() if name not in names})


def uuid(index: int) -> str:
    return f"{index:08x}-0000-0000-0000-000000000000"


__all__ = ["NEVER_S", "OUTCOME", "Cluster", "Model", "going", "uuid"]
