"""What a check found on a host."""

from __future__ import annotations

from dataclasses import dataclass

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
    """A check on one thing. `subject`: the device, mount or interface, or "". `state`: one of
    STATES. `value`: as it is; `note`: what to know, such as why it was not readable. `settings`:
    what sets it right."""

    check: str
    subject: str
    state: str
    value: str
    note: str = ""
    settings: tuple[KernelSetting, ...] = ()


@dataclass(frozen=True)
class HostQuestion:
    """What is known of the data volume: `iops` and `mib_s` it sustains, and whether it is a hard
    disk type (st1, sc1, standard); None: not said."""

    iops: float | None = None
    mib_s: float | None = None
    hdd: bool = False
