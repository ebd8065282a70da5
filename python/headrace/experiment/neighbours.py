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
    """`others`: processors that other programs used, on average. `pressure`: share of the time in
    which some task waited for a processor (None where the kernel does not count it). `load1`: the
    load average before."""

    others: float
    pressure: float | None
    load1: float

    @property
    def disturb(self) -> bool:
        """True if other programs had too much of the processors."""
        return self.others > OTHERS_SHARE * count_cores()


def keep(neighbours: Neighbours, folder: Path) -> None:
    """Writes what others did into the folder of a run."""
    write_whole(folder / FILE, msgspec.json.encode(neighbours))


def read(folder: Path) -> Neighbours | None:
    """Returns what others did during a run; None where nobody looked."""
    path = folder / FILE
    return msgspec.json.decode(path.read_bytes(), type=Neighbours) if path.exists() else None


@dataclass(frozen=True)
class _Look:
    """Seconds of work since the machine started: of all processors, and of each process: its
    parent, its own work, and that of its children that have ended."""

    at_s: float
    work_s: float
    waited_s: float | None
    processes: dict[int, tuple[int, float, float]]

    def sum_others(self) -> float:
        """Sums the work of all other processes. It stays the same when one of them ends: its parent
        has it from then on."""
        return sum(
            own_s + ended_s for process, (_, own_s, ended_s) in self.processes.items() if not _is_own(self, process)
        )


def _look() -> _Look:
    """Reads the seconds of work of all processors and of every process so far; those of this
    process include its children that have ended."""
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
    return _Look(time.monotonic(), sum(counters[name] for name in WORK), waited_s, processes)


def _is_own(look: _Look, process: int) -> bool:
    """Returns whether a process is this one, its descendant (lab, server) or a kernel thread."""
    while process in look.processes:
        if process in (os.getpid(), KERNEL):
            return True
        process = look.processes[process][0]
    return False


@contextmanager
def watch() -> Iterator[list[Neighbours]]:
    """Yields a list that is empty until the end, and then holds what others did meanwhile."""
    result: list[Neighbours] = []
    load1, before = os.getloadavg()[0], _look()
    try:
        yield result
    finally:
        after = _look()
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
