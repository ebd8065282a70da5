"""Facts in a host's files: its disks, arrays, mounts, network interfaces and processors."""

from __future__ import annotations

import os
import posixpath
import re
from functools import cached_property

from headrace.advice.host.tree import HostTree
from headrace.base.mounts import Mount, find_mount, parse_mounts

# Made of memory, files or other devices: no disk of a server.
NO_DISKS = re.compile(r"(loop|ram|zram|sr|fd|nbd|md|dm-)\d*")
SERVERS = ("mysqld", "mariadbd")
DATADIR = "/var/lib/mysql"


class HostFacts:
    """Finds facts in a host's files and remembers them. `datadir`: the folder of the data."""

    def __init__(self, tree: HostTree, datadir: str | None = None) -> None:
        self.tree = tree
        self.datadir = datadir or DATADIR

    @cached_property
    def disks(self) -> list[str]:
        """Names of the disks, without loop devices and arrays."""
        return [name for name in self.tree.list_names("/sys/block") if not NO_DISKS.fullmatch(name)]

    @cached_property
    def arrays(self) -> list[str]:
        """Names of the md devices."""
        return [name for name in self.tree.list_names("/sys/block") if re.fullmatch(r"md\d+", name)]

    def list_members(self, device: str) -> list[str]:
        """Returns the disks below an md or dm device; a partition counts as its disk."""
        disks: list[str] = []
        for name in self.tree.list_names(f"/sys/block/{device}/slaves"):
            deeper = self.list_members(name) if name in self.tree.list_names("/sys/block") else []
            disks += deeper or [self.find_disk(name)]
        return list(dict.fromkeys(disks))

    def find_disk(self, name: str) -> str:
        """Returns the disk of a partition; a disk itself."""
        return next((disk for disk in self.disks if name in (disk, *self.list_partitions(disk))), name)

    def list_partitions(self, disk: str) -> list[str]:
        """Returns partitions of a disk."""
        return [name for name in self.tree.list_names(f"/sys/block/{disk}") if name.startswith(disk)]

    @cached_property
    def mounts(self) -> list[Mount]:
        """All mounts, in their order."""
        return parse_mounts(self.tree.read("/proc/self/mountinfo") or "")

    @cached_property
    def data_mount(self) -> Mount | None:
        """The mount that holds the data: the last with the longest path above it."""
        return find_mount(self.datadir, self.mounts)

    @cached_property
    def data_device(self) -> str | None:
        """The name in /sys/block of the device that holds the data: a disk, an array, a mapping."""
        mount = self.data_mount
        if mount is None:
            return None
        for name in self.tree.list_names("/sys/block"):
            own = [f"/sys/block/{name}", *(f"/sys/block/{name}/{part}" for part in self.list_partitions(name))]
            if any(self.tree.read(f"{place}/dev") == mount.number for place in own):
                return name
        name = posixpath.basename(mount.source)
        return name if name in self.tree.list_names("/sys/block") else None

    @cached_property
    def processors(self) -> int | None:
        """Virtual CPUs online."""
        text = self.tree.read("/sys/devices/system/cpu/online")
        return len(parse_numbers(text)) if text else None

    @cached_property
    def nodes(self) -> list[int] | None:
        """Numbers of the NUMA nodes that are online; None where /sys does not have them."""
        text = self.tree.read("/sys/devices/system/node/online")
        return parse_numbers(text) if text else None

    @cached_property
    def interfaces(self) -> list[str]:
        """Network interfaces with a device behind them."""
        place = "/sys/class/net"
        return [name for name in self.tree.list_names(place) if name != "lo" and self._has_device(f"{place}/{name}")]

    def _has_device(self, place: str) -> bool:
        return self.tree.read_target(f"{place}/device") is not None or self.tree.has(f"{place}/device")

    def list_queues(self, interface: str) -> list[str]:
        """Returns paths of an interface's receive queues."""
        place = f"/sys/class/net/{interface}/queues"
        return [f"{place}/{name}" for name in self.tree.list_names(place) if name.startswith("rx-")]

    def list_processes(self, names: tuple[str, ...]) -> list[str]:
        """Returns the ids of processes of these names."""
        process_ids = [process_id for process_id in self.tree.list_names("/proc") if process_id.isdigit()]
        return [process_id for process_id in process_ids if self.tree.read(f"/proc/{process_id}/comm") in names]

    @cached_property
    def memory_bytes(self) -> int | None:
        """Memory of the machine."""
        match = re.search(r"MemTotal:\s+(\d+) kB", self.tree.read("/proc/meminfo") or "")
        return int(match[1]) * 1024 if match else None

    @cached_property
    def container(self) -> str | None:
        """The evidence that this is a container, or None."""
        for path in ("/.dockerenv", "/run/.containerenv"):
            if posixpath.basename(path) in self.tree.list_names(posixpath.dirname(path)):
                return path
        root = next((mount for mount in self.mounts if mount.place == "/"), None)
        return "the root file system is an overlay" if root is not None and root.kind == "overlay" else None

    @cached_property
    def name(self) -> str:
        """System and kernel, as far as the tree says."""
        release = re.search(r'^PRETTY_NAME="?([^"\n]*)', self.tree.read("/etc/os-release") or "", re.M)
        kernel = self.tree.read("/proc/sys/kernel/osrelease")
        parts = [release and release[1], kernel and f"Linux {kernel}"]
        return ", ".join(filter(None, parts)) or "a Linux host"

    def measure_free_share(self) -> tuple[float, float] | None:
        """Returns the free share of space and of inodes, percent; None in a captured tree."""
        if not self.tree.live or self.data_mount is None:
            return None
        try:
            file_system = os.statvfs(self.data_mount.place)
        except OSError:
            return None
        inodes = 100.0 * file_system.f_favail / file_system.f_files if file_system.f_files else 100.0
        return 100.0 * file_system.f_bavail / max(1, file_system.f_blocks), inodes


def parse_numbers(text: str) -> list[int]:
    """Returns the numbers in a list as the kernel writes it, `0-3,8`; none for other text."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        if not low.isdigit() or (high and not high.isdigit()):
            return []
        numbers += range(int(low), int(high or low) + 1)
    return numbers
