"""Which programs the drivers need, and whether they are here."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.bench.drivers.tool import PROGRAMS, NotInstalled, find
from headrace.errors import CouldNotRun

USED_BY = {"sysbench": "sysbench-oltp, sysbench-fileio, tpcc", "fio": "fio, headrace lab verify", "mysqlslap": "mysqlslap"}
COLUMNS = ("tool", "state", "version", "path", "used_by", "hint")


@dataclass(frozen=True)
class Seen:
    """`state`: fine, missing, or unfit (too old, or does not answer); `hint`: what to do."""

    tool: str
    state: str
    version: str
    path: str
    used_by: str
    hint: str


def look() -> list[Seen]:
    """All programs."""
    found = []
    for name in PROGRAMS:
        try:
            tool = find(name)
            found.append(Seen(name, "fine", tool.version, tool.path, USED_BY[name], ""))
        except CouldNotRun as lack:
            state = "missing" if isinstance(lack, NotInstalled) else "unfit"
            found.append(
                Seen(
                    name,
                    state,
                    "",
                    "" if state == "missing" else lack.value,
                    USED_BY[name],
                    f"{lack.rule}: {lack.hint}" if state == "unfit" else lack.hint,
                )
            )
    return found
