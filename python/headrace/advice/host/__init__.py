"""Settings of the host under a server: 28 checks of files in /proc and /sys, which are only read.

    table     what is looked at, its target and why (checks.csv)
    tree      this machine, a folder or a tarball of another
    facts     disks, arrays, mounts, interfaces, processors
    devices, system   the checks
    install   files for sysctl, udev and tuned

>>> from headrace.advice.host import advise_host
>>> answer = advise_host()
>>> len({reading.check for reading in answer.readings})
28
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.advice.host.devices import check_devices
from headrace.advice.host.facts import HostFacts
from headrace.advice.host.install import as_sysctl, as_tuned, as_udev
from headrace.advice.host.reading import FINDING, STATES, UNREAD, DataVolume, HostReading
from headrace.advice.host.system import check_system
from headrace.advice.host.table import read_host_checks
from headrace.advice.host.tree import open_tree, refuse
from headrace.advice.model import RISKS
from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.encoding import Document, pick_fields
from headrace.base.units import MIB, Day, normalise_day

__all__ = ["advise_host", "read_host_checks"]


@dataclass(frozen=True)
class HostAdvice(Document, schema="headrace-host/1"):
    """The readings of all checks. `host`: system and kernel; `root`: the tree that was read;
    `datadir`: the folder of the data; `notes`: doubts about all of it."""

    host: str
    root: str
    datadir: str
    readings: tuple[HostReading, ...]
    notes: tuple[str, ...]

    @property
    def findings(self) -> tuple[HostReading, ...]:
        """The readings that should be otherwise."""
        return tuple(reading for reading in self.readings if reading.state == FINDING)

    def list_rows(self) -> list[dict]:
        """Returns a row for each reading, findings first and of these the costliest first: for
        tables, json and csv."""

        def rank_reading(reading: HostReading) -> tuple[int, int]:
            costs = -RISKS.index(read_host_checks()[reading.check].risk) if reading.state == FINDING else 0
            return STATES.index(reading.state), costs

        rows = []
        for reading in sorted(self.readings, key=rank_reading):
            check = read_host_checks()[reading.check]
            row = pick_fields(reading, "check", "subject", "state", "value", "note", "settings")
            row |= pick_fields(check, "title", "where", "why", "risk", "install", "old_advice", "outdated_because")
            rows.append(row | {"wanted": check.target, "source": check.citation})
        return rows

    def list_entries(self) -> dict[str, object]:
        """Returns the fields by name, and the readings as rows."""
        return super().list_entries() | {"readings": self.list_rows()}

    def to_file(self, form: str) -> str:
        """Returns a file to install: `sysctl`, `udev` or `tuned`."""
        return {"sysctl": as_sysctl, "udev": as_udev, "tuned": as_tuned}[form](self.host, self.findings)


def advise_host(
    root: str | Path | None = None, *, datadir: str | None = None, storage: str | None = None, as_of: Day = None
) -> HostAdvice:
    """Checks this machine, or a captured tree (`root`: a folder or a tarball). `datadir`: where the
    data lie (/var/lib/mysql). `storage`: the volume below them, for figures that follow from it.
    Writes nothing. Raises InputError."""
    tree = open_tree(None if root is None else Path(root))
    if tree.live and datadir is not None and not Path(datadir).exists():
        raise refuse.input(f"--datadir {datadir}", "is not on this machine", "Name the folder of the data.")
    facts, volume = HostFacts(tree, datadir), _describe_volume(storage, as_of)
    readings = (*check_devices(facts, volume), *check_system(facts, volume))
    order = list(read_host_checks())
    ordered = tuple(sorted(readings, key=lambda reading: order.index(reading.check)))
    return HostAdvice(facts.name, str(root or "/"), facts.datadir, ordered, tuple(_list_doubts(facts, ordered)))


def _describe_volume(storage: str | None, as_of: Day) -> DataVolume:
    """Returns the sustained rates of a storage, all volumes together, for checks that depend on
    them. Raises InputError."""
    if storage is None:
        return DataVolume()
    with translate_core_errors():
        limits = core.storage_limits(storage, normalise_day(as_of))
    hdd = any(limit["random_charges_full_unit"] for limit in limits)
    iops = sum(limit["iops"] or 0 for limit in limits)
    mib_s = sum(limit["throughput_bytes_s"] or 0 for limit in limits) / MIB
    return DataVolume(iops, mib_s, hdd)


def _list_doubts(facts: HostFacts, readings: tuple[HostReading, ...]) -> list[str]:
    """Lists the doubts about all readings: a container, a missing folder or /sys, arrays, what
    could not be read."""
    notes = []
    if facts.container:
        notes.append(f"This is a container ({facts.container}): most of these settings are its host's. Ask there.")
    if facts.tree.live and not Path(facts.datadir).exists():
        notes.append(
            f"There is no {facts.datadir} here: what it would lie on was looked at. Name the data with --datadir."
        )
    if not facts.tree.has("/sys"):
        notes.append("There is no /sys: devices and network could not be looked at.")
    mapped = [name for name in facts.tree.list_names("/sys/block") if name.startswith("dm-")]
    for name in [*facts.arrays, *mapped]:
        members = facts.list_members(name)
        disks = ", ".join(members) if members else "members that are not known"
        notes.append(f"{name} stands on {disks}: the disks below it are what was checked.")
    unread = list(dict.fromkeys(reading.check for reading in readings if reading.state == UNREAD))
    if unread:
        notes.append(f"Not readable here: {', '.join(unread)}. Everything else was read as this user.")
    return notes
