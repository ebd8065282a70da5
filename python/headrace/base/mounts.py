"""Mounts of a process, as the kernel lists them in mountinfo: proc_pid_mountinfo(5)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MOUNT_TABLE = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo. `number`: MAJOR:MINOR of the filesystem. `options`: of the mount and of
    the filesystem. `read_only`: whether the whole filesystem is read-only, not this mount alone."""

    number: str
    place: str
    kind: str
    source: str
    options: frozenset[str]
    read_only: bool

    def find_option(self, name: str) -> str | None:
        """Returns the value of the option `name=value`, None if the mount has no such option."""
        return next((option.partition("=")[2] for option in self.options if option.startswith(f"{name}=")), None)


def parse_mounts(text: str) -> list[Mount]:
    """Returns the mounts in order: a later mount hides an earlier one at the same place."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) > 5 and len(rest) > 1:
            own = rest[2].split(",") if len(rest) > 2 else []
            options = frozenset((*fields[5].split(","), *own))
            mounts.append(Mount(fields[2], _unescape(fields[4]), rest[0], _unescape(rest[1]), options, "ro" in own))
    return mounts


def read_mount_table() -> list[Mount]:
    """Returns the mounts that this process sees, in order; none where the kernel has no table. Only
    the table is read: to look at a mount itself would wait for one whose server hangs."""
    try:
        return parse_mounts(MOUNT_TABLE.read_text(errors="replace"))
    except OSError:
        return []


def find_mount(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """Returns the mount of a path without symbolic links: the last with the longest place."""
    best: Mount | None = None
    for mount in mounts:
        inside = f"{path}/".startswith(f"{mount.place.rstrip('/')}/")
        if inside and (best is None or len(mount.place) >= len(best.place)):
            best = mount
    return best


def _unescape(text: str) -> str:
    """Decodes the octal codes in which the kernel writes space, tab, newline and backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
