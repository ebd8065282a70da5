"""A cluster in virtual time: its servers, its network, its clients, and the programs that fail it over. The programs are
Headrace's own, with a clock, threads, files and connections of this world.

After every acknowledgement it is checked that no other server was opened for writes since, unless it has the transaction.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulated_servers import Channel, Connection, Server, connect
from simulated_time import Process, Task, Time

from headrace.errors import CouldNotRun
from headrace.mysql.address import Address, Secret
from headrace.mysql.dialect import SourceOf
from headrace.mysql.statements import SqlConnection
from headrace.servers.failover.executor import Executor
from headrace.servers.failover.hosts import AddressHost
from headrace.servers.failover.journal import DECODER, Journal
from headrace.servers.failover.lease import Lease, LeaseTaken
from headrace.servers.failover.observer import Observer
from headrace.servers.failover.planning.progress import JournalHistory
from headrace.servers.failover.run import LEASE_TAKEN_AGAIN
from headrace.servers.failover.surroundings import Surroundings

UNIX_S = 1_800_000_000.0  # at the beginning
CLIENTS = Path("clients.json")
# Settings of semi-sync, by their names in the simulated servers, and whether they are numbers.
STORED = {
    "master_enabled": ("source", False),
    "source_enabled": ("source", False),
    "slave_enabled": ("replica", False),
    "replica_enabled": ("replica", False),
    "master_timeout": ("timeout_ms", True),
    "source_timeout": ("timeout_ms", True),
    "source_wait_for_replica_count": ("count", True),
    "master_wait_no_slave": ("waits_alone", False),
    "source_wait_no_replica": ("waits_alone", False),
}


class SimulatedCluster:
    """A source, s0, and its replicas. `timeout_s`: of semi-sync, 0 for none; `can_fence`: the old source can be ended
    from here, which fails now and then."""

    def __init__(self, chance: random.Random, replicas: int, flavor: str, timeout_s: float, can_fence: bool) -> None:
        self.chance, self.time, self.flavor = chance, Time(), flavor
        self.timeout_s, self.can_fence, self.fence_fails = timeout_s, can_fence, 0.1
        self.count = 1 if flavor == "mariadb" else chance.randint(1, replicas)
        self.scheduler = chance.random() < 0.2
        self.apply_s = chance.choice([0.0005, 0.05, 0.5, 2.0])  # the last two fall behind
        self.max_wait_s = chance.choice([1.0, 10.0])
        self.stubborn = chance.random() < 0.7  # clients that go on with whoever takes their writes
        self.cut: set[frozenset[str]] = set()
        self.slow: dict[str, float] = {}
        self.trace: list[str] = []
        self.files: dict[str, str] = {}
        self.acknowledged: list[tuple[str, tuple[int, int]]] = []
        self.openings, self.stopped, self.struck = 0, False, False
        self.away: set[str] = set()  # servers that something happened to
        self.turns: list[tuple[str, int]] = []  # runs in the order in which they began steps
        self.young = ""  # a replica that has only just started
        self.whole_s = 0.0  # when a source that was cut off is back
        self.closing: Callable[[], object] = lambda: None  # what happens when the writes of s0 are stopped
        self.machines: dict[str, Machine] = {}
        self.processes: list[Process] = []
        self.servers: dict[str, Server] = {}
        for number in range(replicas + 1):
            server = Server(self, number, replica=number > 0)
            server.started_s = -1_000.0
            self.servers[server.name] = server
        self.source = self.servers["s0"]
        self.open(self.source)
        for server in list(self.servers.values())[1:]:
            server.channel = Channel(self.source)
            server.start_threads()
        self.files[str(CLIENTS)] = self.source.name
        self.time.at(0.0, self.write)

    # --- network ----------------------------------------------------------------------------------

    def linked(self, near: str, far: str) -> bool:
        return frozenset((near, far)) not in self.cut

    def link(self, near: str, far: str, on: bool) -> None:
        """Cuts or restores a link."""
        pair = frozenset((near, far))
        (self.cut.discard if on else self.cut.add)(pair)
        for name in pair & self.servers.keys():
            self.servers[name].link_changed()

    def delay_s(self) -> float:
        """Returns the delay of a message between servers, s."""
        return self.chance.uniform(0.0002, 0.001)

    def travel_s(self, near: str, far: str) -> float | None:
        """Returns the time that a message travels, s; None if it is lost."""
        if self.cut and not self.linked(near.partition(".")[0], far):
            return None
        return self.delay_s() + self.slow.get(far, 0.0) * self.chance.random()

    # --- servers and clients ----------------------------------------------------------------------

    def followers(self, source: Server) -> list[Server]:
        return [each for each in self.servers.values() if each.channel is not None and each.channel.source is source]

    def open(self, server: Server) -> None:
        """A server takes writes from now on."""
        self.openings += 1
        server.opened = self.openings
        self.say(f"{server.name} is open")

    def say(self, text: str) -> None:
        self.trace.append(f"{self.time.now_s:.4f} {text}")

    def write(self) -> None:
        """Clients write, on the server that their file names, or where they always did."""
        if self.stopped:
            return
        self.time.at(self.chance.uniform(0.05, 0.6), self.write)
        names = [self.files[str(CLIENTS)], *(self.servers if self.stubborn else ())]
        server = self.servers[self.chance.choice(names)]
        if server.up and not server.closed:
            server.commit(lambda: None)

    def acknowledge(self, server: Server, transaction: tuple[int, int]) -> None:
        """A client, or a probe, got its answer. Raises AssertionError for one that another server has replaced and that
        lacks the transaction. A late answer to what the new source has is true: the last replica that it waited for
        came back."""
        later = [
            each.name
            for each in self.servers.values()
            if each.opened > server.opened and transaction not in each.places
        ]
        assert not later, f"{server.name} acknowledged {transaction} after {later} had been opened"
        self.acknowledged.append((server.name, transaction))

    def change(self, turn: tuple[str, int]) -> None:
        """A run, by its machine and number, begins a step. Raises AssertionError for one that goes on after another
        has begun steps of its own."""
        if self.turns[-1:] != [turn]:
            assert turn not in self.turns, f"{turn[0]} and {self.turns[-1][0]} changed servers at once"
            self.turns.append(turn)

    def machine(self, name: str) -> Machine:
        return self.machines.setdefault(name, Machine(name))

    def program(self, machine: str) -> Program:
        """Starts a program on a machine."""
        program = Program(self, self.machine(machine))
        self.processes.append(program.process)
        return program


@dataclass
class Machine:
    """Machine on which programs run. `journal`: its lines, and `history` the fold of the first
    `folded` of them; `busy`: the program that has the journal for itself; `runs`: how many have had
    it, or have begun anew with a lease that was lost."""

    name: str
    journal: list[str] = field(default_factory=list)
    history: JournalHistory = JournalHistory()
    folded: int = 0
    busy: Process | None = None
    runs: int = 0
    programs: int = 0


class Program:
    """A process of Headrace with an executor. `lines`: it is killed before it writes this line of its journal; `room`:
    so many lines find room on its disk, None for all."""

    def __init__(self, cluster: SimulatedCluster, machine: Machine, lines: int | None = None) -> None:
        machine.programs += 1
        self.cluster, self.machine, self.lines = cluster, machine, lines
        self.room: int | None = None
        self.process = Process(f"{machine.name}.{machine.programs}")
        self.surroundings = SimulatedSurroundings(self)
        hosts = {name: SimulatedHost(self, server) for name, server in cluster.servers.items()}
        observer = Observer(hosts, surroundings=self.surroundings)
        journal = SimulatedJournal(self)
        self.executor = Executor(observer, journal, Lease(hosts, self.surroundings), CLIENTS, self.say)
        self.executor.max_wait_s = cluster.max_wait_s

    def say(self, text: str) -> None:
        self.cluster.say(f"{self.process.name}: {text}")
        if text == LEASE_TAKEN_AGAIN:
            self.machine.runs += 1  # its further steps follow from what it sees now

    def begin(self, call: Callable[[], Any]) -> Task:
        return self.cluster.time.begin(self.process, call)

    def kill(self) -> None:
        self.cluster.say(f"{self.process.name} is killed")
        self.cluster.time.kill(self.process)
        if self.machine.busy is self.process:
            self.machine.busy = None
        for server in self.cluster.servers.values():
            server.notify()  # locks of its connections are free


class SimulatedSurroundings(Surroundings):
    """The clock, threads and files of a program."""

    def __init__(self, program: Program) -> None:
        self.program, self.cluster, self.time = program, program.cluster, program.cluster.time

    def read_now_s(self) -> float:
        return self.time.now_s

    def read_unix_s(self) -> float:
        return UNIX_S + self.time.now_s

    def read_boot(self) -> str:
        return "boot"

    def sleep(self, seconds: float) -> None:
        until = self.time.now_s + seconds
        while True:
            self.time.pause(max(0.0, until - self.time.now_s))
            if self.time.now_s >= until:
                return

    def run_all(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        tasks = [self.program.begin(call) for call in calls]
        for task in tasks:
            while not self.time.join(task, 1e6):
                pass
        for task in tasks:
            if task.error is not None:
                raise task.error
        return [task.result for task in tasks]

    def begin(self, call: Callable[[], object]) -> Any:
        task, time = self.program.begin(call), self.time

        class Thread:
            def join(self, timeout: float | None = None) -> None:
                time.join(task, 1e6 if timeout is None else timeout)

        return Thread()

    def write(self, path: Path, content: bytes) -> None:
        self.time.check()
        self.cluster.files[str(path)] = content.decode().split('"name": "')[-1].split('"')[0]
        self.cluster.say(f"{path} names {self.cluster.files[str(path)]}")


class SimulatedStop:
    """A request to end a watch."""

    def __init__(self, surroundings: SimulatedSurroundings) -> None:
        self.surroundings, self.requested = surroundings, False

    def is_set(self) -> bool:
        return self.requested

    def wait(self, timeout: float | None = None) -> bool:
        self.surroundings.sleep(timeout or 0.0)
        return self.requested


class SimulatedJournal(Journal):
    """A journal in the memory of a machine."""

    def __init__(self, program: Program) -> None:
        self.program, self.machine = program, program.machine
        super().__init__(Path("journal"), program.surroundings)

    def _open(self) -> None:
        pass

    def close(self) -> None:
        pass

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        self.program.cluster.time.check()
        if self.machine.busy is not None:
            raise LeaseTaken("journal", "another failover of this cluster is under way")
        self.machine.busy = self.program.process
        self.machine.runs += 1
        try:
            self.read()
            yield
        finally:
            if self.machine.busy is self.program.process:
                self.machine.busy = None

    def _append(self, text: str, sync: bool) -> None:
        program = self.program
        program.cluster.time.check()
        if program.lines is not None:
            program.lines -= 1
            if program.lines < 0:
                program.kill()
                program.cluster.time.check()
        if program.room is not None:
            program.room -= 1
            if program.room < 0:
                raise CouldNotRun("journal", "cannot be written: No space left on device", "", "")
        self.machine.journal.append(text)
        if '"StepBegan"' in text:
            program.cluster.change((self.machine.name, self.machine.runs))

    def read(self) -> JournalHistory:
        """Goes on where the last program of this machine ended: lines are only added. To fold all of them each time
        takes an eighth of a run."""
        machine = self.machine
        for text in machine.journal[machine.folded :]:
            line = DECODER.decode(text)
            machine.history = machine.history.add_event(line.at.timestamp(), line.event)
        machine.folded, self.history = len(machine.journal), machine.history
        return self.history


@dataclass(frozen=True)
class SimulatedHost(AddressHost):
    """Connection of a program to a server."""

    program: Any = None
    server: Any = None

    def __init__(self, program: Program, server: Server) -> None:
        can_fence = program.cluster.can_fence and server is program.cluster.source
        values = {"name": server.name, "address": Address("ops", server.name, 3306), "can_fence": can_fence}
        for name, value in (values | {"program": program, "server": server, "has_volume": False}).items():
            object.__setattr__(self, name, value)

    def open_connection(self, timeout_s: float) -> Any:
        return connect(self.program.cluster, self.program.process, self.server, timeout_s)

    def fence(self) -> str:
        cluster = self.program.cluster
        self.program.surroundings.sleep(cluster.chance.choice([0.001, 0.1, 5.0]))
        if cluster.chance.random() < cluster.fence_fails:
            raise CouldNotRun(self.name, "could not be ended")
        self.server.stop()
        self.server.fenced = True
        cluster.say(f"{self.name} is fenced")
        return "killed"

    def admit_follower(self, follower: Any, connection: SqlConnection, dialect: Any) -> SourceOf:
        assert isinstance(connection, Connection)
        connection.ask("SELECT @@version")
        return SourceOf(self.host, self.port, f"headrace_{follower.name}", Secret("secret"))

    def remember(self, **settings: str | None) -> None:
        self.program.cluster.time.check()
        for name, value in settings.items():
            key, number = STORED.get(name.removeprefix("rpl_semi_sync_"), (name, False))
            self.server.settings[key] = int(value or 0) if number else value == "ON"
