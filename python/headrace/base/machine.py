"""Finds what this machine has: programs with their versions, memory, and processors."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace.base.processes import Command, run_to_end
from headrace.errors import CouldNotRun

# Longest time that a program may take to print its version, s: a guess, far above the 0.1 s of a
# loaded machine.
VERSION_S = 10.0
MEMORY_FILE = "/proc/meminfo"
# Documentation/admin-guide/cputopology.rst of Linux: a list such as 0,8 or 0-1.
SIBLINGS_FILE = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")


class NotInstalled(CouldNotRun):
    """A program is not installed."""


@dataclass(frozen=True)
class ToolKind:
    """Describes a tool. `names`: of its program, tried in this order. `version`: pattern of the
    number that `--version` prints. `least`: the oldest version whose output is read here.
    `package`: its package in Debian. `used_by`: the benchmarks that run it."""

    names: tuple[str, ...]
    version: str
    least: tuple[int, ...]
    package: str
    used_by: str


@dataclass(frozen=True)
class Tool:
    """A program of this machine, with its path and version."""

    name: str
    path: str
    version: str


TOOLS = {
    "sysbench": ToolKind(
        ("sysbench",), r"sysbench (\d+(?:\.\d+)+)", (1, 0), "sysbench", "sysbench-oltp, sysbench-fileio, tpcc"
    ),
    "fio": ToolKind(("fio",), r"fio-(\d+(?:\.\d+)+)", (3, 0), "fio", "fio, headrace lab verify"),
    # MySQL: "mysqlslap Ver 8.0.36 for Linux"; MariaDB: "mysqlslap Ver 1.0 Distrib 10.11.6-MariaDB".
    "mysqlslap": ToolKind(
        ("mariadb-slap", "mysqlslap"), r"(?:Distrib |from |Ver )(\d+\.\d+\.\d+(?:-MariaDB)?)", (5, 5),
        "mariadb-client", "mysqlslap",
    ),
}  # fmt: skip


def count_threads_per_core() -> int | None:
    """Returns how many of this machine's processors share a core (hyper-threads), as the kernel
    says; None where it does not. In a virtual machine this is what the host shows it."""
    try:
        text = SIBLINGS_FILE.read_text().strip()
    except OSError:
        return None
    parts = [part.partition("-") for part in text.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in parts)


def find_executable(name: str) -> str | None:
    """Returns the path of a program, None if it is not installed. /usr/sbin and /sbin are searched
    even when they are not in PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin:/sbin")


def require_program(name: str, package: str) -> str:
    """Returns the path of a program. Raises NotInstalled, which names the package of Debian."""
    path = find_executable(name)
    if path is None:
        raise NotInstalled(name, "is not installed", "", f"apt-get install {package}")
    return path


def add_death_signal(*arguments: str) -> tuple[str, ...]:
    """Returns a command with setpriv(1) before it, so that it gets SIGKILL when the thread that
    starts it ends, also where this process is killed. Raises NotInstalled."""
    return (require_program("setpriv", "util-linux"), "--pdeathsig", "KILL", "--", *arguments)


def find_tool(name: str) -> Tool:
    """Returns a tool of TOOLS. Raises CouldNotRun when it is missing, silent, or too old."""
    kind = TOOLS[name]
    path = next(filter(None, (shutil.which(candidate) for candidate in kind.names)), None)
    install = f"apt-get install {kind.package}"
    if path is None:
        raise NotInstalled(name, "is not installed", "", install)
    answer = run_to_end(
        Command((path, "--version"), what=f"{path} --version"), VERSION_S, f"Install it again: {install}"
    )
    match = re.search(kind.version, answer.output + answer.errors)
    if match is None:
        first = (answer.output + answer.errors).strip().partition("\n")[0][:80] or "nothing"
        raise CouldNotRun(path, f"does not tell a version known here: {first}", "", f"Is it {name}? {install}")
    if tuple(int(part) for part in re.findall(r"\d+", match[1])) < kind.least:
        oldest = ".".join(map(str, kind.least))
        raise CouldNotRun(f"{path} {match[1]}", f"is too old: {oldest} or newer is read here", "", install)
    return Tool(name, path, match[1])


@dataclass(frozen=True)
class ToolState:
    """A tool on this machine. `state`: fine, missing, or unfit (too old, or silent)."""

    tool: str
    state: str
    version: str
    path: str
    used_by: str
    hint: str


def list_tools() -> list[ToolState]:
    """Returns the state of every tool in TOOLS; runs those that are installed for their version."""
    states = []
    for name, kind in TOOLS.items():
        try:
            tool = find_tool(name)
            states.append(ToolState(name, "fine", tool.version, tool.path, kind.used_by, ""))
        except NotInstalled as error:
            states.append(ToolState(name, "missing", "", "", kind.used_by, error.hint))
        except CouldNotRun as error:
            states.append(ToolState(name, "unfit", "", error.value, kind.used_by, f"{error.rule}: {error.hint}"))
    return states


def read_memory_bytes(field: str) -> float:
    """Returns a field of /proc/meminfo in bytes: MemTotal, or MemAvailable (usable without
    swapping).

    It is 0 if this Linux does not have the field. Raises CouldNotRun where there is no /proc.
    """
    try:
        with open(MEMORY_FILE, encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError as error:
        hint = "Memory is read as Linux tells it."
        raise CouldNotRun(MEMORY_FILE, f"cannot be read: {error.strerror}", "proc_meminfo(5)", hint) from None
    # The unit there is KiB, whatever the `kB` says (proc_meminfo(5)).
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0.0)


def count_cores() -> int:
    """Counts the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
