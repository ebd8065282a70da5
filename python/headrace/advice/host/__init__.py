"""Settings of the host under a server: 28 checks of files in /proc and /sys, which are only read.

    table     what is looked at, wanted and why (checks.csv)
    tree      this machine, a folder or a tarball of another
    facts     disks, arrays, mounts, interfaces, processors
    devices, system   the checks
    install   files for sysctl, udev and tuned

>>> from headrace.advice.host import advise_host
>>> found = advise_host()
>>> len({one.check for one in found.readings})
28
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.advice.host.devices import device_readings
from headrace.advice.host.facts import HostFacts
from headrace.advice.host.install import as_sysctl, as_tuned, as_udev
from headrace.advice.host.reading import FINDING, STATES, UNREAD, HostQuestion, HostReading
from headrace.advice.host.system import system_readings
from headrace.advice.host.table import HostCheck, host_checks
from headrace.advice.host.tree import SOURCE, open_tree
from headrace.advice.model import RISKS
from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.units import MIB, Day, day_of
from headrace.errors import InputError

SCHEMA = "headrace-host/1"

__all__ = ["HostAdvice", "HostCheck", "HostReading", "advise_host", "host_checks"]


@dataclass(frozen=True)
class HostAdvice:
    """What the checks found. `host`: system and kernel; `root`: the tree that was read; `datadir`;
    `notes`: what to know of all of it."""

    host: str
    root: str
    datadir: str
    readings: tuple[HostReading, ...]
    notes: tuple[str, ...]

    @property
    def findings(self) -> tuple[HostReading, ...]:
        """What should be otherwise."""
        return tuple(one for one in self.readings if one.state == FINDING)

    def rows(self) -> list[dict]:
        """A row a reading, findings first and of these what can cost most: for tables, json and
        csv."""

        def order(one: HostReading) -> tuple[int, int]:
            costs = -RISKS.index(host_checks()[one.check].risk) if one.state == FINDING else 0
            return STATES.index(one.state), costs

        found = []
        for one in sorted(self.readings, key=order):
            check = host_checks()[one.check]
            told = {name: getattr(one, name) for name in ("check", "subject", "state", "value", "note")}
            names = ("title", "where", "wanted", "why", "risk", "install", "old_advice", "outdated_because")
            told |= {name: getattr(check, name) for name in names} | {"source": check.citation}
            found.append(told | {"settings": [asdict(setting) for setting in one.settings]})
        return found

    def to_dict(self) -> dict:
        """JSON-able."""
        head = {"schema": SCHEMA, "host": self.host, "root": self.root, "datadir": self.datadir}
        return head | {"notes": list(self.notes), "readings": self.rows()}

    def to_file(self, form: str) -> str:
        """A file to install: `sysctl`, `udev` or `tuned`."""
        return {"sysctl": as_sysctl, "udev": as_udev, "tuned": as_tuned}[form](self.host, self.findings)


def advise_host(
    root: str | Path | None = None, *, datadir: str | None = None, storage: str | None = None, as_of: Day = None
) -> HostAdvice:
    """Looks at this machine, or at a captured tree (`root`: a folder or a tarball). `datadir`:
    where the data lie (/var/lib/mysql). `storage`: the volume below them, for figures that follow
    from it. Writes nothing. Raises InputError."""
    tree = open_tree(None if root is None else Path(root))
    if tree.live and datadir is not None and not Path(datadir).exists():
        raise InputError(f"--datadir {datadir}", "is not on this machine", SOURCE, "Name the folder of the data.")
    facts, asked = HostFacts(tree, datadir), _asked(storage, as_of)
    readings = (*device_readings(facts, asked), *system_readings(facts, asked))
    order = list(host_checks())
    ordered = tuple(sorted(readings, key=lambda one: order.index(one.check)))
    return HostAdvice(facts.name, str(root or "/"), facts.datadir, ordered, tuple(_notes(facts, ordered)))


def _asked(storage: str | None, as_of: Day) -> HostQuestion:
    if storage is None:
        return HostQuestion()
    with core_errors():
        limits = core.storage_limits(storage, day_of(as_of))
    hdd = any(one["random_charges_full_unit"] for one in limits)
    iops = sum(one["iops"] or 0 for one in limits)
    mib_s = sum(one["throughput_bytes_s"] or 0 for one in limits) / MIB
    return HostQuestion(iops, mib_s, hdd)


def _notes(facts: HostFacts, readings: tuple[HostReading, ...]) -> list[str]:
    found = []
    if facts.container:
        found.append(f"This is a container ({facts.container}): most of these settings are its host's. Ask there.")
    if facts.tree.live and not Path(facts.datadir).exists():
        found.append(
            f"There is no {facts.datadir} here: what it would lie on was looked at. Name the data with --datadir."
        )
    if not facts.tree.has("/sys"):
        found.append("There is no /sys: devices and network could not be looked at.")
    mapped = [name for name in facts.tree.names("/sys/block") if name.startswith("dm-")]
    for name in [*facts.arrays, *mapped]:
        members = facts.members(name)
        told = ", ".join(members) if members else "members that are not known"
        found.append(f"{name} stands on {told}: the disks below it are what was checked.")
    unread = list(dict.fromkeys(one.check for one in readings if one.state == UNREAD))
    if unread:
        found.append(f"Not readable here: {', '.join(unread)}. Everything else was read as this user.")
    return found
