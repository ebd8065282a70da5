"""Data and log volumes that are looked at.

Data: the families and lines of plan/candidates.py, with what the IOPS axis reaches from the least to the most a type sells; MiB/s in steps. Log: nothing (redo and binlog
with the data), or one small volume of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.planner.candidates import IOPS_STEP, Family, Line, local_disks
from headrace.planner.transactions.hosts import Host

MIB_S = (125, 150, 175, 200, 250, 300, 400, 500, 600, 750, 1000, 1250, 1500, 2000)
LOG_IOPS = (1000, 3000)
LOG_SIZES = (1, 4)  # times what the log needs: gp2 buys IOPS by size
REDO_GIB = 8  # of redo log or WAL files; innodb_redo_log_capacity is 100 MiB by default and several GiB where writes are heavy
BINLOG_S = 86_400.0  # binlogs kept: a day


@dataclass(frozen=True)
class Route:
    """A line of data volumes (or local disks), a log volume or none, and a host: what is searched along one axis."""

    line: Line | None
    family: Family
    log: str | None
    host: int
    local: str | None = None
    # Notations made so far, shared by all routes of the line: a search asks for the same ones on every host.
    texts: dict[int, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def last(self) -> int:
        """Index of the most the axis offers."""
        return 0 if self.line is None else self.line.last

    def storage(self, index: int) -> str:
        """Data storage in notation."""
        if self.line is None:
            return self.local
        text = self.texts.get(index)
        if text is None:
            text = self.texts[index] = self.line.storage(index)
        return text


def log_gib(database: dict, tps: float) -> int:
    """GiB that redo and a day of binlogs take at `tps`."""
    kept = database["log"]["binlog_bytes_per_tx"] * tps * BINLOG_S / 1024**3
    return REDO_GIB + math.ceil(kept)


def log_volumes(families: Sequence[Family], size_gib: int) -> list[str]:
    """Small volumes for redo and binlog alone, of the SSD types among the families (single volumes)."""
    found: list[str] = []
    for family in families:
        if family.layout != "single" or family.volume_type not in ("gp2", "gp3", "io1", "io2"):
            continue
        gib = family.member_gib(1, size_gib)
        if family.axis == "size":
            found += [family.text(1, gib * times) for times in LOG_SIZES if gib * times <= family.max_gib]
        elif family.buys_throughput:
            found.append(family.text(1, gib))
        else:
            per_gib = family.figure("iops", "per_gib") or math.inf
            found += [family.text(1, max(gib, math.ceil(iops / per_gib)), iops) for iops in LOG_IOPS]
    return list(dict.fromkeys(found))


def lines(family: Family, size_gib: int) -> list[Line]:
    """The lines of a family that hold `size_gib`."""
    found = []
    for members in family.counts:
        gib = family.member_gib(members, size_gib)
        if gib > family.max_gib:
            continue
        if family.axis != "iops":
            found.append(Line(family, members, gib, gib, family.max_gib if family.axis == "size" else gib, 1))
            continue
        most = int(family.figure("iops", "max"))
        floor = int(family.figure("iops", "included") or family.figure("iops", "min") or 1)
        per_gib = family.figure("iops", "per_gib")
        most = max(floor, min(most, int(per_gib * family.max_gib))) if per_gib else most
        if not family.buys_throughput:
            found.append(Line(family, members, gib, floor, most, IOPS_STEP))
            continue
        included, highest = int(family.figure("throughput", "included_mib_s")), int(family.figure("throughput", "max_mib_s"))
        ratio = family.figure("throughput", "mib_s_per_iops") or math.inf
        steps = [included, *(step for step in MIB_S if included < step <= highest)]
        bought = [(mib_s, max(floor, math.ceil(mib_s / ratio))) for mib_s in steps]
        found += [Line(family, members, gib, low, most, IOPS_STEP, mib_s) for mib_s, low in bought if low <= most]
    return found


def routes(family: Family, hosts: Sequence[tuple[int, Host]], logs: Sequence[str], data_gib: int, logged_gib: int) -> list[Route]:
    """All routes of a family over some hosts (with their indices). Without a log volume the log needs room beside the data."""
    if family.volume_type == "instance-store":
        return [
            Route(None, family, log, index, storage)
            for index, host in hosts
            for layout, storage, members in local_disks(host.instance)
            if layout == family.layout
            for log in (None, *logs)
            if _local_gib(storage, members, family) >= data_gib + (logged_gib if log is None else 0)
        ]
    together, apart = ([(line, {}) for line in lines(family, gib)] for gib in (data_gib + logged_gib, data_gib))
    return [
        Route(line, family, log, index, None, texts)
        for index, _ in hosts
        for log in (None, *logs)
        for line, texts in (together if log is None else apart)
    ]


def _local_gib(storage: str, members: int, family: Family) -> int:
    return int(storage.rsplit(":", 1)[1]) * members // family.data_share
