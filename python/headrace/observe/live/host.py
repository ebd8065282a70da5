"""Counters of this machine: /proc/diskstats, /proc/stat, /proc/loadavg, /proc/meminfo."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.base.machine import read_memory_bytes
from headrace.errors import CouldNotRun, InputError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

SOURCE = "Documentation/admin-guide/iostats.rst of Linux"
SECTOR = 512  # /proc/diskstats counts in sectors of 512 bytes, whatever the device's own
# (field of /proc/diskstats counted from 0, behind the name; factor)
FIELDS = {
    "reads": (3, 1), "reads_merged": (4, 1), "read_bytes": (5, SECTOR), "read_ms": (6, 1),
    "writes": (7, 1), "writes_merged": (8, 1), "write_bytes": (9, SECTOR), "write_ms": (10, 1),
    "in_flight": (11, 1), "io_ms": (12, 1), "weighted_ms": (13, 1), "discards": (14, 1), "flushes": (18, 1),
}  # fmt: skip
# Milliseconds are unsigned 32-bit numbers there (block/genhd.c, diskstats_show).
WRAPPING = ("read_ms", "write_ms", "io_ms", "weighted_ms")
WRAP = 2.0**32
LEVEL = "in_flight"  # of FIELDS, the only one that may fall
Figures = TypeVar("Figures", float, "np.ndarray", "pl.Expr")  # arithmetic is the same of all
CPU = {
    "user_s": (0, 1),
    "nice_s": (1,),  # part of user_s: processes that yield to all others
    "system_s": (2, 5, 6),
    "idle_s": (3,),
    "iowait_s": (4,),
    "steal_s": (7,),
}  # proc(5), /proc/stat; user and nice; irq is system


def resolve_device_names(devices: Sequence[str]) -> dict[str, str]:
    """Returns `devices` (`/dev/nvme1n1`, `loop3`, `/dev/disk/by-id/...`) by their kernel names.
    Raises InputError for a device that is not there or named twice, CouldNotRun."""
    disks = read_disks(None)
    by_name: dict[str, str] = {}
    for device in devices:
        path = device if device.startswith("/") else f"/dev/{device}"
        # A path below /dev is `!` in sysfs and `/` here, as in cciss/c0d0.
        name = os.path.realpath(path).removeprefix("/dev/")
        if name not in disks:
            busy = [other for other, row in disks.items() if row["reads"] + row["writes"]]
            hint = f"There are: {', '.join(busy[:20]) or 'none'}."
            raise InputError(device, "is not a block device of this machine", "/proc/diskstats", hint)
        if name in by_name:
            rule = f"is {by_name[name]} once more" if device != by_name[name] else "is named twice"
            raise InputError(device, rule, "", "Name each device once.")
        by_name[name] = device
    return by_name


def find_device(path: str) -> str | None:
    """Returns the block device on which a file or folder lies, by its kernel name; None where it
    cannot be told (overlay, btrfs, no right to look)."""
    try:
        number = os.stat(path).st_dev
        name = os.path.basename(os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}", strict=True))
    except (OSError, ValueError):
        return None
    return name if name in read_disks([name]) else None


def find_volume_id(name: str) -> str | None:
    """Returns the EBS volume behind an NVMe device on EC2 (its serial number), else None."""
    disk = name.split("p")[0] if name.startswith("nvme") else name
    try:
        with open(f"/sys/block/{disk}/device/serial", encoding="ascii") as file:
            serial = file.read().strip()
    except (OSError, ValueError):
        return None
    return f"vol-{serial[3:]}" if serial.startswith("vol") and serial[3:].isalnum() else None


def list_members(name: str) -> list[str]:
    """Returns the devices that an md or dm device lies on; none where the kernel does not say."""
    try:
        return sorted(os.listdir(f"/sys/block/{name}/slaves"))
    except OSError:
        return []


def read_disks(names: Sequence[str] | None) -> dict[str, dict[str, float]]:
    """Returns the counters of FIELDS of each device, by kernel name; `names` None: of all devices.
    A device that is gone is left out. Raises CouldNotRun without /proc.
    """
    counters = {}
    for line in _read("/proc/diskstats").splitlines():
        words = line.split()
        if len(words) > 13 and (names is None or words[2] in names):
            counters[words[2]] = {
                key: float(words[at]) * factor for key, (at, factor) in FIELDS.items() if at < len(words)
            }
    return counters


def compute_change(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float] | None:
    """Returns by how much the counters of a device rose between two readings; None where a counter
    fell, since the device was attached again."""
    change = {name: after[name] - before[name] for name in after if name in before}
    change |= {name: change[name] + WRAP for name in WRAPPING if change.get(name, 0.0) < 0}
    return None if any(value < 0 for name, value in change.items() if name != LEVEL) else change


def count_volume_requests(device: str, change: Mapping[str, Figures]) -> tuple[Figures, Figures]:
    """Returns the reads and the writes of `change` (FIELDS, counts or rates) as requests that a
    volume counts.

    Linux counts a flush among the writes too on a device with a volatile cache (a loop device, a
    local disk; EBS has none), as the request that asked for it (block/blk-flush.c); no volume
    counts it as an I/O. And what was merged in the queue of a loop device is handed on in the parts
    it came in. So requests of a volume are writes less flushes, on a loop device with merged ones
    added: compared with a lab's own count to 1 % (Linux 6.18, MariaDB on xfs, minutes at 300 to
    3,000 IOPS).
    """
    counts: Mapping[str, Any] = change
    reads, writes = counts["reads"], counts["writes"]
    if "flushes" in counts:
        others = writes - counts["flushes"]
        writes = (others + abs(others)) / 2.0  # what is above zero, of numbers and of columns alike
    if device.startswith("loop") and "reads_merged" in counts:
        reads, writes = reads + counts["reads_merged"], writes + counts["writes_merged"]
    return reads, writes


def read_host() -> dict[str, float]:
    """Returns the seconds of all processors in each mode since boot (`*_s`), the load average of a
    minute, and the bytes of memory that are available without swapping."""
    ticks = os.sysconf("SC_CLK_TCK")
    # guest time (8, 9) is in user and nice already.
    times = [float(word) / ticks for word in _read("/proc/stat").partition("\n")[0].split()[1:9]]
    row = {name: sum((times[at] for at in places if at < len(times)), 0.0) for name, places in CPU.items()}
    row["load1"] = float(_read("/proc/loadavg").split()[0])
    return row | {"memory_available_bytes": read_memory_bytes("MemAvailable")}


def read_pressure() -> dict[str, float]:
    """Returns seconds since boot in which something waited for processors, or for I/O (`some`, and
    `full`: nothing else could run); nothing where the kernel keeps no PSI."""
    seconds = {}
    for what, kinds in {"cpu": ("some",), "io": ("some", "full")}.items():
        try:
            text = _read(f"/proc/pressure/{what}")
        except CouldNotRun:
            continue
        for line in text.splitlines():
            words = line.split()
            if words and words[0] in kinds:
                # Microseconds (Documentation/accounting/psi.rst of Linux).
                seconds[f"{what}_{words[0]}_s"] = float(words[-1].partition("=")[2]) / 1e6
    return seconds


def _read(path: str) -> str:
    """Returns the text of a file in /proc. Raises CouldNotRun where it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError as error:
        hint = "Counters of disk and host are those of Linux."
        raise CouldNotRun(path, f"cannot be read: {error.strerror}", "proc(5)", hint) from None
