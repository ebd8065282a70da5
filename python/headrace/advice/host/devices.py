"""Checks of block devices, arrays and the file system of the data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from headrace.advice.host.facts import HostFacts
from headrace.advice.host.reading import (
    FINDING,
    FINE,
    NOT_HERE,
    UNREAD,
    DataVolume,
    HostReading,
    KernelSetting,
    judge,
    report_unread,
)
from headrace.advice.host.table import read_host_checks
from headrace.base.mounts import Mount
from headrace.base.units import KIB

# Patterns that match devices by kind: their numbers change from start to start.
MATCHES = (("nvme", "nvme[0-9]*n[0-9]*"), ("xvd", "xvd[a-z]*"), ("sd", "sd[a-z]*"), ("vd", "vd[a-z]*"))
# With nothing known of the volume, latency of SSD types, ms (AWS: single-digit milliseconds).
LATENCY_MS = 1.0
ST1_READAHEAD_KIB = 1024  # one I/O of st1 and sc1 (AWS, EBS user guide)
SECTOR = 512  # bytes; sysfs and xfs count in these
FILE_SYSTEMS = ("xfs", "ext4")
KERNEL_TIMEOUT = "nvme_core.io_timeout"


def check_devices(facts: HostFacts, volume: DataVolume) -> Iterator[HostReading]:
    """Yields every check of this file, in the order of the table."""
    for name in ("scheduler", "readahead", "max_sectors", "nr_requests"):
        if not facts.disks:
            yield HostReading(name, "", UNREAD, "", "no disk is in /sys/block")
        for disk in facts.disks:
            yield _check_queue(name, facts, disk, volume)
    yield _check_timeout(facts)
    yield from _check_file_system(facts)
    yield from _check_alignment(facts)
    yield from _check_arrays(facts)


def _check_queue(name: str, facts: HostFacts, disk: str, volume: DataVolume) -> HostReading:
    """Checks one attribute of a disk's queue: scheduler, read-ahead and largest request in KiB, or
    number of requests."""
    attribute = {"readahead": "read_ahead_kb", "max_sectors": "max_sectors_kb"}.get(name, name)
    text = facts.tree.read(f"/sys/block/{disk}/queue/{attribute}")
    if text is None:
        return report_unread(name, disk, facts.tree, f"/sys/block/{disk}/queue/{attribute}")
    if name == "scheduler":
        return _check_scheduler(disk, text)
    value = _parse_whole(text)
    if value is None:
        return HostReading(name, disk, UNREAD, text, "is not a number")
    unit = "" if name == "nr_requests" else " KiB"
    advised_value, note = _advise_queue(name, facts, disk, value, volume)
    settings = (_make_udev_rule(disk, f"queue/{attribute}", advised_value),)
    return judge(name, disk, advised_value is None, f"{value:,}{unit}", note, settings)


def _advise_queue(name: str, facts: HostFacts, disk: str, value: int, volume: DataVolume) -> tuple[int | None, str]:
    """Returns the value that an attribute should have, None where today's may stay, and a note."""
    check = read_host_checks()[name]
    if name == "readahead":
        if volume.hdd:
            return (None if value >= ST1_READAHEAD_KIB else ST1_READAHEAD_KIB), "the volume is a hard disk type"
        most = int(check.most or 0)
        return (None if value <= most else most), ""
    if name == "max_sectors":
        least = int(check.least or 0)
        hardware = facts.tree.read_number(f"/sys/block/{disk}/queue/max_hw_sectors_kb")
        if hardware is not None and hardware < least:
            return None, f"the device takes no more than {hardware} KiB"
        return (None if value >= least else least), ""
    least = int(check.least or 0)
    if volume.iops:
        # Little's law says how many are under way at once; twice, since they come in bursts.
        least = max(least, math.ceil(2 * volume.iops * LATENCY_MS / 1e3))
    return (None if value >= least else least), ""


def _check_scheduler(disk: str, text: str) -> HostReading:
    """Checks the scheduler in brackets in `text`: none on NVMe, elsewhere mq-deadline or noop
    too."""
    match = re.search(r"\[([^\]]+)\]", text)
    chosen = match[1] if match else text
    fine = chosen == "none" or (chosen in ("mq-deadline", "noop") and not disk.startswith("nvme"))
    return judge("scheduler", disk, fine, chosen, "", (_make_udev_rule(disk, "queue/scheduler", "none"),))


def _make_udev_rule(disk: str, attribute: str, value: object) -> KernelSetting:
    """Returns a rule of udev for all disks of the same kind: their numbers change."""
    match = next((pattern for start, pattern in MATCHES if disk.startswith(start)), disk)
    return KernelSetting("udev", attribute, str(value), match)


def _check_timeout(facts: HostFacts) -> HostReading:
    """Checks the seconds after which the NVMe driver gives up a request."""
    if not any(disk.startswith("nvme") for disk in facts.disks):
        return HostReading("io_timeout", "", NOT_HERE, "", "no NVMe disk")
    path = "/sys/module/nvme_core/parameters/io_timeout"
    value = facts.tree.read_number(path)
    if value is None:
        return report_unread("io_timeout", "", facts.tree, path)
    least = int(read_host_checks()["io_timeout"].least or 0)
    # Kernels before 4.15 take one byte.
    fine = value >= least or value == 255
    return judge("io_timeout", "", fine, f"{value:,} s", "", (KernelSetting("kernel", KERNEL_TIMEOUT, str(least)),))


# --- the file system ------------------------------------------------------------------------------


def _check_file_system(facts: HostFacts) -> Iterator[HostReading]:
    """Yields the checks of the data's file system: kind, barriers, atime, discard."""
    mount = facts.data_mount
    if mount is None:
        for name in ("fs", "barrier", "atime", "discard"):
            yield report_unread(name, "", facts.tree, "/proc/self/mountinfo")
        return
    place = f"{mount.place} ({facts.datadir})"
    if mount.kind == "overlay":
        note = "a container's own file system: look on its host, or name the volume with --datadir"
        for name in ("fs", "barrier", "atime", "discard"):
            yield HostReading(name, place, UNREAD, mount.kind, note)
        return
    yield judge("fs", place, mount.kind in FILE_SYSTEMS, mount.kind)
    off = next((option for option in ("nobarrier", "barrier=0") if option in mount.options), None)
    yield judge("barrier", place, off is None, off or "on")
    yield _check_atime(mount, place)
    discards = "discard" in mount.options
    yield judge("discard", place, not discards, "discard" if discards else "none")


def _check_atime(mount: Mount, place: str) -> HostReading:
    """Checks that reads do not write access times."""
    for option in ("noatime", "relatime"):
        if option in mount.options:
            return HostReading("atime", place, FINE, option)
    return HostReading("atime", place, FINDING, "strictatime", "neither noatime nor relatime is among its options")


def _check_alignment(facts: HostFacts) -> Iterator[HostReading]:
    """Checks that each partition of data starts at a multiple of the table's sectors of 512
    bytes."""
    unit = int(read_host_checks()["align"].least or 1)
    seen = False
    for disk in facts.disks:
        for part in facts.list_partitions(disk):
            start = facts.tree.read_number(f"/sys/block/{disk}/{part}/start")
            if start is None:
                continue
            # Small partitions of the boot loader hold no data.
            size = facts.tree.read_number(f"/sys/block/{disk}/{part}/size")
            if size is not None and size * SECTOR < BOOT_BYTES:
                continue
            seen = True
            yield judge("align", part, start % unit == 0, f"{start:,} sectors")
    if not seen:
        yield HostReading("align", "", NOT_HERE, "", "no partition: volumes as a whole start at 0")


# Largest BIOS boot and EFI partitions: at most 512 MiB by the installers' habit, mostly 1 to 100
# MiB. Here bytes.
BOOT_BYTES = 256 * 1024 * 1024


# --- arrays ---------------------------------------------------------------------------------------


def _check_arrays(facts: HostFacts) -> Iterator[HostReading]:
    """Yields the checks of the md arrays: chunk in KiB, and the stripe of the file system on it."""
    check = read_host_checks()["raid_chunk"]
    if not facts.arrays:
        yield HostReading("raid_chunk", "", NOT_HERE, "", "no md array")
        yield HostReading("raid_fs", "", NOT_HERE, "", "no md array")
        return
    chunks = {}
    for name in facts.arrays:
        chunk = facts.tree.read_number(f"/sys/block/{name}/md/chunk_size")
        if chunk is None:
            yield report_unread("raid_chunk", name, facts.tree, f"/sys/block/{name}/md/chunk_size")
        elif chunk == 0:
            yield HostReading("raid_chunk", name, NOT_HERE, "none", "a mirror has no chunk")
        else:
            chunks[name] = chunk
            fine = (check.least or 0) <= chunk <= (check.most or 0)
            yield judge("raid_chunk", name, fine, f"{chunk // KIB} KiB", ", ".join(facts.list_members(name)))
    yield _check_stripe(facts, chunks)


def _check_stripe(facts: HostFacts, chunks: dict[str, int]) -> HostReading:
    """Checks that xfs knows the chunk and width of the array below the data. `chunks`: bytes by
    array."""
    mount, device = facts.data_mount, facts.data_device
    if mount is None or device is None or device not in chunks:
        return HostReading("raid_fs", "", NOT_HERE, "", "the data lie on no striped array, as far as the host says")
    if mount.kind != "xfs":
        return HostReading("raid_fs", mount.place, NOT_HERE, mount.kind, "only xfs tells its stripe in mountinfo")
    unit, width = (_parse_whole(mount.find_option(name) or "") for name in ("sunit", "swidth"))
    if not unit or not width:
        return HostReading(
            "raid_fs", mount.place, FINDING, "no sunit, no swidth", "mkfs.xfs was run without a stripe geometry"
        )
    fits = unit * SECTOR == chunks[device] and width % unit == 0
    value = f"sunit {unit * SECTOR // KIB} KiB, swidth {width * SECTOR // KIB} KiB"
    return judge("raid_fs", mount.place, fits, value, f"chunk {chunks[device] // KIB} KiB")


def _parse_whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,18}", text.strip()) else None
