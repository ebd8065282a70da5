"""Programs that others wrote: where they are, which version, and what to install when they are missing."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass

from headrace.errors import CouldNotRun


class NotInstalled(CouldNotRun):
    """A program is not there at all."""


ASK_S = 10.0


@dataclass(frozen=True)
class Program:
    """How a program is recognised. `names`: tried in this order. `version`: its number in what `ask` prints. `least`: the oldest whose output is read here;
    `package`: of Debian."""

    names: tuple[str, ...]
    version: str
    least: tuple[int, ...]
    package: str
    ask: tuple[str, ...] = ("--version",)


@dataclass(frozen=True)
class Tool:
    """A program that was found."""

    name: str
    path: str
    version: str


PROGRAMS = {
    "sysbench": Program(("sysbench",), r"sysbench (\d+(?:\.\d+)+)", (1, 0), "sysbench"),
    "fio": Program(("fio",), r"fio-(\d+(?:\.\d+)+)", (3, 0), "fio"),
    # MySQL's prints "mysqlslap  Ver 8.0.36 for Linux", MariaDB's "mysqlslap  Ver 1.0 Distrib 10.11.6-MariaDB".
    "mysqlslap": Program(("mariadb-slap", "mysqlslap"), r"(?:Distrib |from |Ver )(\d+\.\d+\.\d+(?:-MariaDB)?)", (5, 5), "mariadb-client"),
}


def find(name: str) -> Tool:
    """The program `name` of PROGRAMS. Raises CouldNotRun when it is missing, does not answer, or is too old."""
    program = PROGRAMS[name]
    path = next(filter(None, (shutil.which(candidate) for candidate in program.names)), None)
    if path is None:
        raise NotInstalled(name, "is not installed", "", f"apt-get install {program.package}")
    try:
        asked = subprocess.run(
            [path, *program.ask], capture_output=True, text=True, timeout=ASK_S, stdin=subprocess.DEVNULL, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        what = "did not answer" if isinstance(error, subprocess.TimeoutExpired) else f"could not be started: {error.strerror}"
        raise CouldNotRun(path, f"{what} when asked for its version", "", f"Install it anew: apt-get install {program.package}") from None
    said = (asked.stdout + asked.stderr).strip()
    match = re.search(program.version, said)
    if match is None:
        first = said.splitlines()[0][:80] if said else "nothing"
        raise CouldNotRun(path, f"does not tell a version known here: {first}", "", f"Is it {name}? apt-get install {program.package}")
    if numbers(match[1]) < program.least:
        oldest = ".".join(str(part) for part in program.least)
        raise CouldNotRun(f"{path} {match[1]}", f"is too old: {oldest} or newer is read here", "", f"apt-get install {program.package}")
    return Tool(name, path, match[1])


def numbers(version: str) -> tuple[int, ...]:
    """`1.0.20` as (1, 0, 20)."""
    return tuple(int(part) for part in re.findall(r"\d+", version))
