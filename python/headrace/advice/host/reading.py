"""The result of a check on a host."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.advice.host.tree import HostTree

FINE, FINDING, UNREAD, NOT_HERE = "fine", "finding", "not readable", "does not apply"
STATES = (FINDING, UNREAD, FINE, NOT_HERE)


@dataclass(frozen=True)
class KernelSetting:
    """A line of a file to install. `kind`: sysctl (key, value), udev (match of a device, attribute
    and value), sysfs (path and value), kernel (an option of the command line)."""

    kind: str
    key: str
    value: str
    match: str = ""


@dataclass(frozen=True)
class HostReading:
    """A check of one subject. `subject`: the device, mount or interface, or "". `state`: one of
    STATES. `value`: today's; `note`: why it was not readable, or another doubt. `settings`: lines
    that set it right."""

    check: str
    subject: str
    state: str
    value: str
    note: str = ""
    settings: tuple[KernelSetting, ...] = ()


def judge(
    check: str, subject: str, fine: bool, value: str, note: str = "", settings: tuple[KernelSetting, ...] = ()
) -> HostReading:
    """Returns a reading that is fine, or a finding with the `settings` that set it right."""
    return HostReading(check, subject, FINE if fine else FINDING, value, note, () if fine else settings)


def report_unread(check: str, subject: str, tree: HostTree, path: str) -> HostReading:
    """Returns the reading of a file that is not there or cannot be read, with the reason."""
    return HostReading(check, subject, UNREAD, "", f"{path}: {tree.unreadable.get(path, 'is not there')}")


@dataclass(frozen=True)
class DataVolume:
    """The volume below the data: `iops` and `mib_s` that it sustains (None: not given), and whether
    it is of a hard disk type (st1, sc1, standard)."""

    iops: float | None = None
    mib_s: float | None = None
    hdd: bool = False
