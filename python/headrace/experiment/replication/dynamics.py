"""Measures lag over time: a paced load begins, ends, and the replica catches up.

The positions of source and replica are read several times a second. The lag is the time since the
source was at the replica's position: it needs a single clock and no writes, and is right while
nothing is applied.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from headrace import servers
from headrace.base.processes import Command
from headrace.base.waiting import wait_until
from headrace.bench import SysbenchOltp, Target
from headrace.bench.drivers.benchmark import RunLoad
from headrace.errors import CouldNotRun
from headrace.experiment.data import apply_load, make_target, scan
from headrace.experiment.replication.cell import ReplicaCell
from headrace.experiment.replication.run import (
    MOST_WARM_S,
    ReplicationLab,
    WrittenSource,
    has_turned_over,
    holds_all,
)
from headrace.experiment.replication.statements import Statements

if TYPE_CHECKING:
    from pathlib import Path

# Both positions are read this often: the lag is known to a fifth of a second and less, because
# positions between two looks are interpolated.
LOOK_S = 0.2
# Lag from which the replica counts as behind: the usual goal is a second.
ONSET_S = 1.0
# Longest wait for the replica to catch up, as a multiple of the load; a guess.
PATIENCE = 20.0
# Share of the load's rate for the warm-up, which runs WARM_S at a time until the replica's cache
# has been turned over, so that both caches hold what they hold under the load.
WARM_RATE_SHARE, WARM_S = 0.4, 6


@dataclass(frozen=True)
class PacedOltp(SysbenchOltp):
    """OLTP transactions of sysbench at `rate` a second on average, exponentially spaced, whatever
    the server does (sysbench's --rate)."""

    rate: int = 100

    def build_command(self, target: Target, load: RunLoad, folder: Path) -> Command:
        command = super().build_command(target, load, folder)
        return replace(command, arguments=(*command.arguments[:-1], f"--rate={self.rate}", command.arguments[-1]))


@dataclass(frozen=True)
class Look:
    """A reading of both positions, `at_s` after the load began: transactions `written` by the
    source and `applied` by the replica."""

    at_s: float
    written: float
    applied: float


@dataclass(frozen=True)
class Course:
    """The course of the lag over a load, from the source's first transaction until the replica has
    applied the last: readings of both servers (`looks`), and the machine's load average before and
    after. Times are in s."""

    cell: ReplicaCell
    looks: tuple[Look, ...]
    load_average: tuple[float, float]

    @cached_property
    def lag(self) -> list[tuple[float, float]]:
        """Returns (time, lag) at each look."""
        return compute_lags(self.looks)

    @cached_property
    def _end(self) -> int:
        """Returns the index of the look at which the load had ended."""
        return next(index for index, look in enumerate(self.looks) if look.written >= self.looks[-1].written)

    @property
    def load_s(self) -> float:
        """Returns the length of the load in seconds."""
        return self.looks[self._end].at_s

    @property
    def rate(self) -> float:
        """Returns the transactions a second of the load."""
        return self.looks[-1].written / self.load_s

    @property
    def onset_s(self) -> float | None:
        """Returns the time at which the lag reached ONSET_S, s; None: never."""
        return next((at for at, seconds in self.lag if seconds >= ONSET_S), None)

    @property
    def lag_at_end_s(self) -> float:
        """Returns the lag at the end of the load, s."""
        return self.lag[self._end][1]

    @property
    def peak(self) -> tuple[float, float]:
        """Returns time and lag of the longest lag."""
        return max(self.lag, key=lambda pair: pair[1])

    @property
    def catch_up_s(self) -> float:
        """Returns the seconds from the end of the load until all of it was applied."""
        done = self.looks[-1].written
        return next(look.at_s for look in self.looks[self._end :] if look.applied >= done) - self.load_s


def compute_lags(looks: Sequence[Look]) -> list[tuple[float, float]]:
    """Returns (time, lag) at each look: the time since the source was at the replica's position,
    interpolated between looks; 0 if the replica has applied everything."""
    times = [look.at_s for look in looks]
    written = [look.written for look in looks]
    points = []
    for look in looks:
        if look.applied >= look.written:
            points.append((look.at_s, 0.0))
            continue
        # The source wrote the transaction after the replica's last one between two looks.
        after = bisect_right(written, look.applied)
        before = max(after - 1, 0)
        span = written[after] - written[before] if after < len(written) else 0.0
        share = (look.applied - written[before]) / span if span > 0 else 0.0
        moment = times[before] + share * (times[min(after, len(times) - 1)] - times[before])
        points.append((look.at_s, max(look.at_s - moment, 0.0)))
    return points


class _Watch(threading.Thread):
    """A thread that reads the positions of both servers until `end` is called."""

    def __init__(self, source: Statements, replica: Statements) -> None:
        super().__init__(daemon=True)
        self._source, self._replica, self._end = source, replica, threading.Event()
        self.looks: list[tuple[float, int, int]] = []
        self.error: Exception | None = None

    def run(self) -> None:
        """Appends both positions to `looks` every LOOK_S seconds: (monotonic time in seconds,
        transactions written by the source, applied by the replica). An error ends it and is raised
        by `has_caught_up`."""
        try:
            while not self._end.wait(LOOK_S):
                # The replica first: what it has, the source had before.
                applied = self._replica.count_done()
                self.looks.append((time.monotonic(), self._source.count_done(), applied))
        except Exception as error:  # shown by the thread that waits
            self.error = error

    def end(self) -> None:
        self._end.set()
        self.join()

    def has_caught_up(self) -> bool:
        """Returns whether the replica has applied everything. Raises the error of the watching
        thread."""
        if self.error is not None:
            raise self.error
        return bool(self.looks) and self.looks[-1][2] >= self.looks[-1][1]


@dataclass(frozen=True)
class LiveReplica:
    """A replica that applies while its source is written to, for the measurement of courses."""

    lab: ReplicationLab
    cell: ReplicaCell
    source: WrittenSource
    server: servers.Server
    at_source: Statements
    sql: Statements

    def run_course(self, rate: int, load_s: int, patience: float = PATIENCE) -> Course:
        """Runs `rate` transactions a second for `load_s` seconds, and returns the course of the lag
        until all are applied. Raises CouldNotRun if that takes longer than `patience` times the
        load."""
        self.lab.set_balance(self.cell, self.server)
        watch = _Watch(self.at_source, self.sql)
        before = os.getloadavg()[0]
        watch.start()
        try:
            began = time.monotonic()
            _run_paced(self.source, rate, load_s)
            self._wait(watch, patience * load_s)
        finally:
            watch.end()
        return _build_course(self.cell, watch.looks, began, (before, os.getloadavg()[0]))

    def _wait(self, watch: _Watch, longest_s: float) -> None:
        if not wait_until(watch.has_caught_up, longest_s, LOOK_S):
            raise CouldNotRun(self.cell.words, f"has not caught up {longest_s:g} s after the load", "")


@contextmanager
def open_live_replica(lab: ReplicationLab, cell: ReplicaCell, rate: int) -> Iterator[LiveReplica]:
    """Yields a replica of a new source, with a cache warmed by a share of `rate` transactions a
    second; both servers are removed afterwards."""
    idle_load = replace(cell.load, name=f"{cell.load.name}, live", seconds=0)
    with (
        lab.open_written_source(idle_load) as source,
        Statements(source.server) as at_source,
        lab.open_replica(cell, source) as (server, sql),
    ):
        sql.run(sql.dialect.start_receive())
        sql.run(sql.dialect.start_apply())
        scan(make_target(server))
        _warm(source, cell, sql, round(WARM_RATE_SHARE * rate) or 1)
        yield LiveReplica(lab, cell, source, server, at_source, sql)


def measure_course(lab: ReplicationLab, cell: ReplicaCell, rate: int, load_s: int) -> Course:
    """Returns the course of the lag of a new, warmed replica under `rate` transactions a second for
    `load_s`, until it has caught up. Raises CouldNotRun if it does not."""
    with open_live_replica(lab, cell, rate) as replica:
        return replica.run_course(rate, load_s)


def _warm(source: WrittenSource, cell: ReplicaCell, sql: Statements, rate: int) -> None:
    """Runs the load at `rate` until the replica's cache has been turned over or holds all data, at
    most about MOST_WARM_S."""
    began, before = time.monotonic(), sql.read_status()
    _run_paced(source, rate, WARM_S)
    while (
        not holds_all(cell)
        and time.monotonic() - began < MOST_WARM_S
        and not has_turned_over(before, sql.read_status())
    ):
        _run_paced(source, rate, WARM_S)


def _run_paced(source: WrittenSource, rate: int, seconds: int) -> None:
    """Runs the source's load at `rate` transactions a second for `seconds`, without keeping the
    run."""
    load = source.load
    assert isinstance(load.benchmark, SysbenchOltp), load.name
    paced = PacedOltp(**{**vars(load.benchmark), "rate": rate})
    apply_load(paced, make_target(source.server), seconds, load.clients, load.seed)


def _build_course(
    cell: ReplicaCell, raw: Sequence[tuple[float, int, int]], began: float, load_average: tuple[float, float]
) -> Course:
    """Returns the course of the looks `raw` (monotonic seconds, written, applied), with times since
    the source's first transaction, or since `began` if it wrote none."""
    first = raw[0][1]
    # The load begins when the source writes its first transaction, and ends with its last.
    begun = next((at for at, written, _ in raw if written > first), began)
    looks = tuple(Look(at - begun, written - first, applied - first) for at, written, applied in raw)
    return Course(cell, looks, load_average)
