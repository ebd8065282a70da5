"""Finds the filesystems of a server's files, and the block devices below them.

Read from /proc and /sys. `root` is where those two are: / but for tests.

A filesystem is known by its device number and not by where it is mounted: one may be mounted at
several places (bind mounts), and is frozen once.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.base.mounts import Mount, find_mount, parse_mounts
from headrace.errors import CouldNotRun, Refusals

refuse = Refusals("docs/guide/consistent-snapshots.md")
# Those that have a block device of their own and can be frozen (Linux, fs/*/super.c, freeze_fs).
# btrfs has as well, but its device number is of no block device and its members cannot be told.
FREEZABLE = ("xfs", "ext4", "ext3", "f2fs")
# An NVMe device of EBS has its volume's id as serial number, without the hyphen (EC2 User Guide,
# "Map Amazon EBS volumes to NVMe device names").
SERIAL = re.compile(r"vol-?([0-9a-f]{8,17})")
BY_ID = "nvme-Amazon_Elastic_Block_Store_vol"


@dataclass(frozen=True)
class Filesystem:
    """A mounted filesystem with a block device. `number`: MAJOR:MINOR. `device`: its name in
    /sys/class/block. `place`: where it is mounted, one of the places. `read_only`: the whole of it,
    for everyone."""

    number: str
    device: str
    place: str
    kind: str
    read_only: bool


def list_mounts(root: Path = Path("/"), process: str = "self") -> list[Mount]:
    """Returns what is mounted, in order: a later mount hides an earlier one at its place."""
    return parse_mounts(_read_text(root, f"proc/{process}/mountinfo"))


def _read_text(root: Path, name: str) -> str:
    """Returns the text of a file below `root`; "" where it cannot be read."""
    try:
        return (root / name).read_text(errors="surrogateescape")
    except OSError:
        return ""


def get_mount(path: str, mounted: list[Mount]) -> Mount:
    """Returns the mount that a path without symbolic links is on. Raises CouldNotRun."""
    mount = find_mount(path, mounted)
    if mount is None:
        raise CouldNotRun(path, "is on no filesystem that is mounted here", "proc_pid_mountinfo(5)")
    return mount


def format_number(device: int) -> str:
    """Returns a device number (`st_dev`) as mountinfo has it: MAJOR:MINOR."""
    return f"{os.major(device)}:{os.minor(device)}"


def find_filesystems(paths: Iterable[str], root: Path = Path("/")) -> tuple[Filesystem, ...]:
    """Returns the filesystems that these paths are on, each once, in the order of the paths.

    Raises InputError for what must not or cannot be frozen: the root filesystem, also where it is
    reached by a bind mount, and filesystems without a block device of their own.
    """
    mounted = list_mounts(root)
    slash = get_mount("/", mounted)
    by_number: dict[str, Filesystem] = {}
    for path in paths:
        mount = get_mount(path, mounted)
        if mount.number in by_number:
            continue
        if mount.number == slash.number:
            bound = "" if mount.place == "/" else f" (bind mount at {escape_text(mount.place)})"
            rule = f"is on the root filesystem{bound}, which is never frozen: logging in and this program need it"
            hint = "Put the server's files on volumes of their own, or leave the freeze out: --no-freeze."
            raise refuse.input(escape_text(path), rule, hint)
        device = os.path.basename(os.path.realpath(root / "sys/dev/block" / mount.number))
        if mount.kind not in FREEZABLE or not (root / "sys/class/block" / device).exists():
            rule = f"is on {mount.kind} ({escape_text(mount.source)}), and only {', '.join(FREEZABLE)} on block devices can be frozen"
            raise refuse.input(escape_text(path), rule, "Put the server's files on a volume of their own.")
        by_number[mount.number] = Filesystem(mount.number, device, mount.place, mount.kind, mount.read_only)
    return tuple(by_number.values())


def escape_text(path: str) -> str:
    """Returns a path or name as it may stand in a message: without newlines and the like."""
    return "".join(letter if letter.isprintable() else "?" for letter in path[:200])


# --- the members below a device -------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceStack:
    """The devices below a filesystem. `disks`: names of the disks, without partitions, in order.
    `layout`: the arrays and logical volumes from the filesystem down, by the keys of `_read_array`
    and `_read_mapping`."""

    disks: tuple[str, ...]
    layout: tuple[dict[str, str], ...]


def find_disks(device: str, root: Path = Path("/")) -> DeviceStack:
    """Returns the devices below a device, through md arrays, LVM and partitions down to the
    disks."""
    disks: dict[str, None] = {}
    layout: dict[str, dict[str, str]] = {}

    def follow(name: str) -> None:
        if name in layout:  # seen: each device of a group leads to the whole group
            return
        folder = root / "sys/class/block" / name
        if (folder / "partition").exists():
            # /sys/class/block/nvme1n1p1 leads to .../nvme1n1/nvme1n1p1.
            disks[Path(os.path.realpath(folder)).parent.name] = None
            return
        slaves = sorted(entry.name for entry in _list_entries(folder / "slaves"))
        if not slaves:
            disks[name] = None
            return
        if (folder / "md").exists():
            layout[name] = _read_array(root, name)
            slaves = sorted(slaves, key=lambda slave: _read_slot(root, name, slave))
        else:
            layout[name] = _read_mapping(root, name)
            slaves = _list_group_devices(root, layout[name].get("uuid", ""), slaves)
        for slave in slaves:
            follow(slave)

    follow(device)
    return DeviceStack(tuple(disks), tuple(layout.values()))


def _list_entries(folder: Path) -> list[Path]:
    """Returns the entries of a folder; none where it cannot be read."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _read_array(root: Path, name: str) -> dict[str, str]:
    """Returns an md array as /sys has it (Documentation/admin-guide/md.rst). An old kernel has its
    level in /proc/mdstat alone."""
    at = f"sys/class/block/{name}/md"
    level = _read_text(root, f"{at}/level").strip()
    if not level:
        for line in _read_text(root, "proc/mdstat").splitlines():
            if line.startswith(f"{name} :"):
                level = next((word for word in line.split() if word.startswith(("raid", "linear"))), "")
    array = {"md": name, "level": level}
    for key, file in (("members", "raid_disks"), ("chunk_bytes", "chunk_size"), ("uuid", "uuid")):
        array[key] = _read_text(root, f"{at}/{file}").strip()
    return {key: value for key, value in array.items() if value}


def _read_slot(root: Path, array: str, member: str) -> tuple[int, str]:
    slot = _read_text(root, f"sys/class/block/{array}/md/dev-{member}/slot").strip()
    return (int(slot) if slot.isdigit() else 1 << 30, member)


def _read_mapping(root: Path, name: str) -> dict[str, str]:
    """Returns name and uuid of a device-mapper device as /sys has them, without those that are
    empty."""
    at = f"sys/class/block/{name}/dm"
    volume = {"dm": _read_text(root, f"{at}/name").strip() or name, "uuid": _read_text(root, f"{at}/uuid").strip()}
    return {key: value for key, value in volume.items() if value}


# `LVM-`, then 32 characters of the volume group's id and 32 of the logical volume's (libdevmapper).
LVM, GROUP_CHARACTERS = "LVM-", 32


def _list_group_devices(root: Path, uuid: str, own: list[str]) -> list[str]:
    """Returns the devices below all logical volumes of a group, which comes back whole or not at
    all: disks, arrays, and encrypted devices, but no other parts of the group itself."""
    if not uuid.startswith(LVM):
        return own
    group, devices = uuid[: len(LVM) + GROUP_CHARACTERS], dict.fromkeys(own)

    def is_of_group(name: str) -> bool:
        return _read_text(root, f"sys/class/block/{name}/dm/uuid").startswith(group)

    for folder in sorted(_list_entries(root / "sys/class/block")):
        if is_of_group(folder.name):
            devices.update(dict.fromkeys(sorted(entry.name for entry in _list_entries(folder / "slaves"))))
    # Without any, the own devices are followed, and refused where they are not volumes.
    return [name for name in devices if not is_of_group(name)] or own


def find_volume_id(disk: str, root: Path = Path("/")) -> str | None:
    """Returns the id of a disk's EBS volume, from its serial number or udev's name; None without
    either."""
    serial = SERIAL.fullmatch(_read_text(root, f"sys/class/block/{disk}/device/serial").strip())
    if serial is not None:
        return f"vol-{serial[1]}"
    for link in _list_entries(root / "dev/disk/by-id"):
        # Partitions end in -part1, namespaces in _1.
        named = SERIAL.match(link.name.removeprefix(BY_ID[:-3])) if link.name.startswith(BY_ID) else None
        with contextlib.suppress(OSError):
            if named is not None and os.path.basename(os.readlink(link)) == disk:
                return f"vol-{named[1]}"
    return None
