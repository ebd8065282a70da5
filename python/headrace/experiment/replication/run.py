"""Measures replicas: one source writes its load and stops, then replica after replica applies
it."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from headrace import servers
from headrace.base.signals import ignore_interrupts
from headrace.base.waiting import wait_until
from headrace.bench import SysbenchOltp, Target
from headrace.bench.drivers.benchmark import Say, stay_silent
from headrace.errors import CouldNotRun, InputError
from headrace.experiment.cell import OnServer
from headrace.experiment.data import ExperimentLab, apply_load, make_target, scan, scan_index
from headrace.experiment.replication.cell import ReplicaCell, ReplicaLoad, build_source_settings
from headrace.experiment.replication.counters import PerTransaction, compute_per_transaction, count
from headrace.experiment.replication.statements import Statements
from headrace.observe.formats.binary_log import BinaryLogSample, read_binary_log
from headrace.servers.topology.topology import find_free_port

# Storage and size (GiB) of a source without limits: the volume only has to be large enough.
SOURCE_STORAGE = "io2:{size_gib}:20000"
SOURCE_GIB = 50
# Longest wait for the load to be received; a guess, minutes on a slow volume.
RECEIVE_S = 300.0
LOOK_S = 0.25
# Share of the backlog at its end that is not counted: workers run out of transactions.
LEFT_SHARE = 0.05
# A cache of this times the data holds all of them, with undo and dictionary (a guess).
FITS = 1.1
# Random reads by 16 clients for 4 s fill a cache of some hundred MiB (chosen).
PRIME_CLIENTS, PRIME_S = 16, 4
# A warm-up ends when the cache was turned over once, so that evicted pages are those of the load;
# at the latest after this (s; chosen, to bound the time of a cell).
MOST_WARM_S = 30.0
# After credits were taken away, what the page cleaner began at the rate before is written first (s;
# chosen: 1,500 free pages at 600 I/Os a second are 3 s, and the redo log's age takes some seconds
# more).
CREDITS_S = 10.0
# MySQL's page cleaner goes by averages over innodb_flushing_avg_loops (30) rounds of a second (its
# manual).
AVERAGES_S = 30.0
READS, PAGES, FREE = "innodb_buffer_pool_reads", "innodb_buffer_pool_pages_total", "innodb_buffer_pool_pages_free"
# Least transactions for a rate: that of 100 is known to 10 % by chance alone.
LEAST_TRANSACTIONS = 200


@dataclass(frozen=True)
class WrittenSource:
    """A source that has written its load; `transactions` is the number in its binary log."""

    load: ReplicaLoad
    server: servers.Server
    transactions: int

    @property
    def tps(self) -> float:
        """Returns the transactions written a second during the load; 0 without a load."""
        return self.transactions / self.load.seconds if self.load.seconds else 0.0

    def read_sample(self) -> BinaryLogSample:
        """Returns a sample of the source's binary log, its first file with transactions. Raises
        CouldNotRun without one."""
        folder = self.server.paths.datadir.parent / "log"
        for path in sorted(folder.glob("binlog.[0-9]*")):
            try:
                return read_binary_log(path)
            except InputError:
                continue
        raise CouldNotRun(self.server.name, "has no transactions in its binary log", str(folder))


@dataclass(frozen=True)
class Drained:
    """The result of a replica that applied a backlog. `per`: figures per transaction after the
    warm-up; `samples`: (s since it began to apply, transactions applied); `received_s`: time to
    receive `received` transactions; `load_average`: of the machine, before and after."""

    cell: ReplicaCell
    per: PerTransaction
    samples: tuple[tuple[float, int], ...]
    received: int
    received_s: float
    load_average: tuple[float, float]

    @property
    def tps(self) -> float:
        """Transactions applied a second."""
        return self.per.tps


@dataclass
class ReplicationLab:
    """A lab for replicas: `with ExperimentLab(...) as lab, ReplicationLab(lab) as cells: ...`; its
    sources are removed at the end."""

    lab: ExperimentLab
    say: Say = stay_silent
    _sources: dict[str, WrittenSource] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> ReplicationLab:
        return self

    def __exit__(self, *_: object) -> None:
        with ignore_interrupts():
            self._sources.clear()
            self._stack.close()

    def get_source(self, load: ReplicaLoad) -> WrittenSource:
        """Returns the source of a load; the first call makes it and writes the load. Raises as
        servers.bring_up and bench.run."""
        key = repr(load)
        if key not in self._sources:
            self._sources[key] = self._stack.enter_context(self.open_written_source(load))
        return self._sources[key]

    @contextmanager
    def open_written_source(self, load: ReplicaLoad, storage: str | None = None) -> Iterator[WrittenSource]:
        """Yields a new source that has written the load, and removes it afterwards. `storage` is
        its volume, with its limits; None: a volume without limits."""
        self.lab.load(load.data)
        size = max(SOURCE_GIB, round(4 * load.data.gib))
        place = OnServer(load.data, storage or SOURCE_STORAGE.format(size_gib=size), build_source_settings(load))
        name = f"source-{next(self._numbers)}"
        with self.lab.start(place, name, port=find_free_port(), unpaced=storage is None) as server:
            with Statements(server) as sql:
                sql.create_account()
                before = sql.count_done()
                target = make_target(server)
                scan(target)
                if load.seconds:
                    apply_load(load.benchmark, target, load.seconds, load.clients, load.seed)
                source = WrittenSource(load, server, sql.count_done())
            if load.seconds:
                self.say(f"{load.name}: {source.transactions - before:,} transactions ({source.tps:,.0f} tps)")
            yield source

    def set_balance(self, cell: ReplicaCell, server: servers.Server) -> None:
        """Sets the credits of the replica's volume to those of the cell; until then they are full,
        so that caches fill quickly."""
        self.lab.set_credits(server.volumes.data, cell.balance_percent)

    @contextmanager
    def open_replica(self, cell: ReplicaCell, source: WrittenSource) -> Iterator[tuple[servers.Server, Statements]]:
        """Yields a replica with the data from before the load, pointed at the source but not
        receiving, and a connection to it; removes it afterwards."""
        place = OnServer(cell.load.data, cell.storage, cell.server_settings, cell.log_storage)
        with self.lab.start(place, "replica") as server, Statements(server) as sql:
            sql.follow(source.server)
            yield server, sql

    def drain(self, cell: ReplicaCell) -> Drained:
        """Lets a new replica receive the whole load, then apply it for the cell's seconds, and
        returns the result. Raises CouldNotRun if too little was applied for a rate."""
        source = self.get_source(cell.load)
        with self.open_replica(cell, source) as (server, sql):
            sql.run(sql.dialect.start_receive())
            received_s = wait_received(sql, source.transactions)
            prime(cell, make_target(server))
            load_before = os.getloadavg()[0]
            per, samples = apply_backlog(sql, cell, source.transactions, lambda: self.set_balance(cell, server))
            loads = (load_before, os.getloadavg()[0])
        drained = Drained(cell, per, samples, source.transactions, received_s, loads)
        self.say(f"{cell.words}: {drained.tps:,.1f} tps, load average {loads[0]:.1f} to {loads[1]:.1f}")
        return drained


def prime(cell: ReplicaCell, target: Target) -> None:
    """Fills the replica's cache as the load would: with all data if they fit, else with the leaves
    of the index, which every transaction touches, and rows at random."""
    benchmark = cell.load.benchmark
    if holds_all(cell) or not isinstance(benchmark, SysbenchOltp):
        return scan(target)
    scan_index(target)
    reads = replace(benchmark, script="oltp_point_select")
    apply_load(reads, target, PRIME_S, PRIME_CLIENTS, cell.load.seed)


def holds_all(cell: ReplicaCell) -> bool:
    """Returns whether the cell's cache can hold all data."""
    return cell.cache_mib > FITS * 1024 * cell.load.data.gib


def has_turned_over(before: dict[str, float], after: dict[str, float]) -> bool:
    """Returns whether the server read as many pages between two readings of its counters as its
    cache holds."""
    return after[READS] - before[READS] >= after[PAGES] - after[FREE]


def apply_backlog(
    sql: Statements, cell: ReplicaCell, transactions: int, set_balance: Callable[[], None] = lambda: None
) -> tuple[PerTransaction, tuple[tuple[float, int], ...]]:
    """Starts to apply a backlog of `transactions` and waits until the cell's time is over or the
    backlog nearly gone. Returns the figures per transaction after the warm-up, and samples (s since
    the start, transactions applied). `set_balance` is called when the cache is warm. Raises
    CouldNotRun if too little was applied."""
    began = time.monotonic()
    start, at_start = sql.count_done(), sql.read_status()
    end_at = transactions - LEFT_SHARE * (transactions - start)
    sql.run(sql.dialect.start_apply())
    samples: list[tuple[float, int]] = [(0.0, start)]
    first, warm_at = None, None
    warmup_s = cell.warmup_s if sql.mariadb else max(cell.warmup_s, AVERAGES_S)
    while True:
        time.sleep(LOOK_S)
        applied = sql.count_done()
        elapsed_s = time.monotonic() - began
        samples.append((elapsed_s, applied))
        if (
            warm_at is None
            and elapsed_s >= warmup_s
            and (holds_all(cell) or elapsed_s >= MOST_WARM_S or has_turned_over(at_start, sql.read_status()))
        ):
            set_balance()
            warm_at = elapsed_s if cell.balance_percent is None else elapsed_s + CREDITS_S
        if first is None and warm_at is not None and elapsed_s >= warm_at:
            first = count(sql)
        if applied >= end_at or (first is not None and time.monotonic() - first.at >= cell.seconds):
            break
        sql.count_received()
    if first is None or samples[-1][1] - first.applied < LEAST_TRANSACTIONS:
        counted = 0 if first is None else samples[-1][1] - first.applied
        rule = f"applied {counted} transactions in {samples[-1][0]:.0f} s, of which {warmup_s:g} s do not count"
        raise CouldNotRun(cell.words, rule, "", "Let the source write more, or measure longer.")
    return compute_per_transaction(first, count(sql)), tuple(samples)


def wait_received(sql: Statements, transactions: int) -> float:
    """Waits until the relay log has all transactions, and returns how long that took, s. Raises
    CouldNotRun."""
    began = time.monotonic()
    if not wait_until(lambda: sql.count_received() >= transactions, RECEIVE_S, LOOK_S / 5):
        raise CouldNotRun(sql.server.name, f"did not receive the load within {RECEIVE_S:g} s", "")
    return time.monotonic() - began
