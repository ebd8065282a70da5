"""Processor time that other programs take on this machine while something is measured on it.

A busy machine measures itself, not a storage. The idle share does not tell whose work it was: what
all processors did, less what the measurement's own processes and the kernel's threads did, was
somebody else's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace.base.files import write_whole
from headrace.base.machine import count_cores
from headrace.observe.live import host

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")  # of times in /proc/PID/stat
KERNEL = 2  # the parent of all kernel threads
# Fields of /proc/PID/stat behind the name in brackets (proc(5)): parent; user and system time; the
# same of children that have ended, such as a benchmark's program.
PARENT, TIMES, ENDED_TIMES = 1, (11, 12), (13, 14)
WORK = ("user_s", "system_s")  # of host.CPU
FILE = "neighbours.json"  # in the folder of a run
# With more of the processors used by others, what is measured is theirs too (a guess).
OTHERS_SHARE = 0.25


@dataclass(frozen=True)
class Neighbours:
    """Load of other programs during a measurement. `others`: processors that they used, on average;
    `pressure`: share of the time in which some task waited for a processor (None: the kernel does
    not count it); `load1`: load average over a minute before the measurement."""

    others: float
    pressure: float | None
    load1: float

    @property
    def disturb(self) -> bool:
        """Returns whether other programs used more than OTHERS_SHARE of the processors."""
        return self.others > OTHERS_SHARE * count_cores()


def keep(neighbours: Neighbours, folder: Path) -> None:
    """Writes the load of other programs into FILE in the folder of a run."""
    write_whole(folder / FILE, msgspec.json.encode(neighbours))


def read(folder: Path) -> Neighbours | None:
    """Returns the load of other programs during the run of a folder; None if it was not
    measured."""
    path = folder / FILE
    return msgspec.json.decode(path.read_bytes(), type=Neighbours) if path.exists() else None


@dataclass(frozen=True)
class _Snapshot:
    """Processor time at a moment, in seconds since the machine started: `work_s` of all processors,
    `waited_s` with tasks that waited for one, and of each process its parent, its own work, and
    that of its ended children."""

    at_s: float
    work_s: float
    waited_s: float | None
    processes: dict[int, tuple[int, float, float]]

    def sum_others(self) -> float:
        """Returns the work of all other processes, s. When one of them ends, its parent has its
        work from then on."""
        return sum(
            own_s + ended_s for process, (_, own_s, ended_s) in self.processes.items() if not _is_own(self, process)
        )


def _take_snapshot() -> _Snapshot:
    """Reads the processor time of the machine and of every process; that of this process includes
    its ended children."""
    processes: dict[int, tuple[int, float, float]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        own_s, ended_s = (TICK_S * sum(int(fields[field]) for field in times) for times in (TIMES, ENDED_TIMES))
        if int(entry.name) == os.getpid():
            own_s, ended_s = own_s + ended_s, 0.0
        processes[int(entry.name)] = (int(fields[PARENT]), own_s, ended_s)
    counters = host.read_host()
    waited_s = host.read_pressure().get("cpu_some_s")
    return _Snapshot(time.monotonic(), sum(counters[name] for name in WORK), waited_s, processes)


def _is_own(snapshot: _Snapshot, process: int) -> bool:
    """Returns whether a process is this one, its descendant (lab, server) or a kernel thread."""
    while process in snapshot.processes:
        if process in (os.getpid(), KERNEL):
            return True
        process = snapshot.processes[process][0]
    return False


@contextmanager
def watch() -> Iterator[list[Neighbours]]:
    """Yields a list that is empty until the end of the block, when the load of other programs
    during it is appended."""
    result: list[Neighbours] = []
    load1, before = os.getloadavg()[0], _take_snapshot()
    try:
        yield result
    finally:
        after = _take_snapshot()
        spent_s = after.at_s - before.at_s
        own_s = sum(
            total_s - before.processes.get(process, (0, 0.0, 0.0))[1]
            for process, (_, total_s, _) in after.processes.items()
            if _is_own(after, process)
        )
        others_s = max(0.0, after.work_s - before.work_s - own_s, after.sum_others() - before.sum_others())
        others = min(float(count_cores()), others_s / spent_s)
        waited = None
        if before.waited_s is not None and after.waited_s is not None:
            # The kernel's sum and the clock are read a moment apart.
            waited = min(1.0, (after.waited_s - before.waited_s) / spent_s)
        result.append(Neighbours(others, waited, load1))
