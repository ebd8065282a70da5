"""What other programs take of this machine's processors while something is measured on it.

A busy machine measures itself, not a storage. Its idle share does not tell whose work it was: what
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

from headrace.base.machine import cores
from headrace.observe.live import host

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")  # of times in /proc/PID/stat
KERNEL = 2  # the parent of all kernel threads
# Fields of /proc/PID/stat behind the name in brackets (proc(5)): parent, user and system time.
PARENT, USER, SYSTEM = 1, 11, 12
WORK = ("user_s", "system_s")  # of host.CPU


@dataclass(frozen=True)
class Neighbours:
    """`others`: processors that other programs used, on average. `pressure`: share of the time in
    which some task waited for a processor (None where the kernel does not count it). `load1`: the
    load average before."""

    others: float
    pressure: float | None
    load1: float


@dataclass(frozen=True)
class _Look:
    """Seconds of work since the machine started: of all processors, and of each process."""

    at_s: float
    work_s: float
    waited_s: float | None
    processes: dict[int, tuple[int, float]]
    words: dict[int, str]


def _look() -> _Look:
    processes: dict[int, tuple[int, float]] = {}
    words: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            words[int(entry.name)] = (entry / "cmdline").read_text(errors="replace")
        except OSError:
            continue  # it has ended
        processes[int(entry.name)] = (int(fields[PARENT]), TICK_S * (int(fields[USER]) + int(fields[SYSTEM])))
    counters = host.read_host()
    return _Look(time.monotonic(), sum(counters[name] for name in WORK), _read_waited(), processes, words)


def _read_waited() -> float | None:
    """Returns the seconds in which some task waited for a processor (Documentation/accounting/psi.rst
    of Linux)."""
    try:
        line = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return None
    return 1e-6 * float(line.rpartition("total=")[2])


def _is_own(look: _Look, process: int, mark: str) -> bool:
    """Whether a process is this one, descends from it, is a thread of the kernel, or names `mark`
    in its command line."""
    seen = process
    while seen in look.processes:
        if seen in (os.getpid(), KERNEL) or mark in look.words[seen]:
            return True
        seen = look.processes[seen][0]
    return False


@contextmanager
def watch(mark: str) -> Iterator[list[Neighbours]]:
    """Yields a list that holds, at the end, what others did meanwhile. `mark`: a folder that only
    the command lines of the measurement's own processes name."""
    result: list[Neighbours] = []
    load1, before = os.getloadavg()[0], _look()
    try:
        yield result
    finally:
        after = _look()
        spent_s = after.at_s - before.at_s
        own_s = sum(
            total_s - before.processes.get(process, (0, 0.0))[1]
            for process, (_, total_s) in after.processes.items()
            if _is_own(after, process, mark)
        )
        others = min(float(cores()), max(0.0, after.work_s - before.work_s - own_s) / spent_s)
        waited = None
        if before.waited_s is not None and after.waited_s is not None:
            waited = (after.waited_s - before.waited_s) / spent_s
        result.append(Neighbours(others, waited, load1))
