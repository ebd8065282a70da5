"""Checks of memory, processors, network and the server's own process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from headrace.advice.host.facts import SERVERS, HostFacts
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
from headrace.base.units import GIB, MIB

# Shares of memory, percent: what is written in the background, and from when writers wait
# (checks.csv).
BACKGROUND_PERCENT, DIRTY_PERCENT = 5, 10
CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter")
# Bit of CAP_SYS_ADMIN in a capability set (linux/capability.h).
SYS_ADMIN = 21


def check_system(facts: HostFacts, volume: DataVolume) -> Iterator[HostReading]:
    """Yields every check of this file, in the order of the table."""
    yield _check_number("swappiness", facts, "/proc/sys/vm/swappiness", "vm.swappiness", "1")
    yield _check_dirty(facts, volume)
    yield _check_huge_pages(facts)
    yield from _check_nodes(facts)
    yield _check_aio(facts)
    yield _check_io_uring(facts)
    yield from _check_open_files(facts)
    yield _check_clock(facts)
    yield _check_interrupts(facts)
    yield from _check_network(facts)
    yield _check_number("somaxconn", facts, "/proc/sys/net/core/somaxconn", "net.core.somaxconn", "4096")
    yield _check_governor(facts)
    yield _check_space(facts)
    yield from _check_statistics(facts)


def _check_number(check: str, facts: HostFacts, path: str, key: str, advised_value: str) -> HostReading:
    """Checks a whole number in a file against the table's bounds; `key`, `advised_value`: the
    setting of the kernel that corrects it."""
    value = facts.tree.read_number(path)
    if value is None:
        return report_unread(check, "", facts.tree, path)
    table = read_host_checks()[check]
    fine = (table.least is None or value >= table.least) and (table.most is None or value <= table.most)
    return judge(check, "", fine, f"{value:,}", "", (KernelSetting("sysctl", key, advised_value),))


def _check_dirty(facts: HostFacts, volume: DataVolume) -> HostReading:
    """Checks how much memory may wait to be written: in bytes against the volume's MiB/s, else in
    percent of the memory."""
    folder = "/proc/sys/vm"
    names = ("dirty_bytes", "dirty_background_bytes", "dirty_ratio", "dirty_background_ratio")
    bytes_, _, ratio, background = (facts.tree.read_number(f"{folder}/{name}") for name in names)
    if bytes_:
        rate = None if volume.mib_s is None else volume.mib_s * MIB
        fine = rate is None or bytes_ <= DIRTY_SECONDS * rate
        note = "" if rate is None else f"{bytes_ / rate:.1f} s of the volume"
        return judge("dirty", "", fine, f"{bytes_ / MIB:,.0f} MiB", note, _choose_dirty_settings(volume))
    if ratio is None or background is None:
        return report_unread("dirty", "", facts.tree, f"{folder}/dirty_ratio")
    most = read_host_checks()["dirty"].most or 0
    fine = ratio <= most and background <= BACKGROUND_PERCENT
    memory = facts.memory_bytes
    note = ""
    if memory is not None:
        dirty_bytes = memory * ratio / 100
        waits = "" if volume.mib_s is None else f", {dirty_bytes / (volume.mib_s * MIB):,.0f} s of the volume"
        note = f"{ratio} % of memory are {dirty_bytes / GIB:,.1f} GiB{waits}"
    return judge("dirty", "", fine, f"{background} % and {ratio} %", note, _choose_dirty_settings(volume))


# Seconds of the volume's MiB/s that may wait to be written before it is a finding (a judgement).
DIRTY_SECONDS = 5.0


def _choose_dirty_settings(volume: DataVolume) -> tuple[KernelSetting, ...]:
    """Returns the settings that bound dirty memory: a second of the volume's MiB/s where known,
    else percent of the memory."""
    if volume.mib_s is None:
        pairs = (("vm.dirty_background_ratio", BACKGROUND_PERCENT), ("vm.dirty_ratio", DIRTY_PERCENT))
    else:
        second = int(volume.mib_s * MIB)
        pairs = (("vm.dirty_background_bytes", second // 2), ("vm.dirty_bytes", second))
    return tuple(KernelSetting("sysctl", key, str(value)) for key, value in pairs)


def _check_huge_pages(facts: HostFacts) -> HostReading:
    """Checks that transparent huge pages are not forced on every process."""
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    text = facts.tree.read(path)
    match = re.search(r"\[(\w+)\]", text or "")
    if match is None:
        return report_unread("thp", "", facts.tree, path)
    fine = match[1] in ("madvise", "never")
    return judge("thp", "", fine, match[1], "", (KernelSetting("sysfs", path, "madvise"),))


def _check_nodes(facts: HostFacts) -> Iterator[HostReading]:
    """Checks the memory nodes and the kernel's balancing among them; neither matters with one
    node."""
    nodes = facts.nodes
    if nodes is None:
        yield report_unread("numa", "", facts.tree, "/sys/devices/system/node/online")
        yield report_unread("numa_balancing", "", facts.tree, "/proc/sys/kernel/numa_balancing")
        return
    if len(nodes) <= 1:
        yield HostReading("numa", "", FINE, "one node")
        yield HostReading("numa_balancing", "", NOT_HERE, "", "one node")
        return
    note = "set innodb_numa_interleave=ON, if it is not: the host does not say"
    yield HostReading("numa", "", FINDING, f"{len(nodes)} nodes", note)
    yield _check_number("numa_balancing", facts, "/proc/sys/kernel/numa_balancing", "kernel.numa_balancing", "0")


def _check_aio(facts: HostFacts) -> HostReading:
    """Checks how many asynchronous I/Os the kernel allows, with those in use as a note."""
    reading = _check_number("aio", facts, "/proc/sys/fs/aio-max-nr", "fs.aio-max-nr", "1048576")
    used = facts.tree.read_number("/proc/sys/fs/aio-nr")
    note = "" if used is None else f"{used:,} in use"
    return HostReading(reading.check, "", reading.state, reading.value, reading.note or note, reading.settings)


# MySQL's server, and MariaDB's before 10.5, is mysqld; io_uring came with MariaDB 10.6
# (checks.csv).
MARIADB = "mariadbd"


def _check_io_uring(facts: HostFacts) -> HostReading:
    """Checks whether io_uring is allowed, where a MariaDB that uses it runs or no server does."""
    path = "/proc/sys/kernel/io_uring_disabled"
    if facts.tree.read_number(path) is None and path not in facts.tree.unreadable:
        return HostReading("io_uring", "", NOT_HERE, "", "the kernel has no such switch (before Linux 6.6)")
    servers = {facts.tree.read(f"/proc/{process}/comm") for process in facts.list_processes(SERVERS)}
    if servers and MARIADB not in servers:
        return HostReading("io_uring", "", NOT_HERE, "", "the server that runs is not a MariaDB that knows io_uring")
    return _check_number("io_uring", facts, path, "kernel.io_uring_disabled", "0")


def _check_open_files(facts: HostFacts) -> Iterator[HostReading]:
    """Checks the limit of open files of each server's process."""
    least = read_host_checks()["nofile"].least or 0
    servers = facts.list_processes(SERVERS)
    if not servers:
        yield HostReading("nofile", "", NOT_HERE, "", "no server runs, or its process is not in the tree")
    for process in servers:
        path = f"/proc/{process}/limits"
        match = re.search(r"^Max open files\s+(\d+|unlimited)", facts.tree.read(path) or "", re.M)
        if match is None:
            yield report_unread("nofile", "", facts.tree, path)
            continue
        fine = match[1] == "unlimited" or int(match[1]) >= least
        name = (facts.tree.read(f"/proc/{process}/comm") or "").strip()
        yield judge("nofile", f"{name} {process}", fine, match[1])


def _check_clock(facts: HostFacts) -> HostReading:
    """Checks that the kernel's clock source is one that is read without a system call, and names a
    better one that is offered."""
    place = "/sys/devices/system/clocksource/clocksource0"
    value = facts.tree.read(f"{place}/current_clocksource")
    if not value:
        return report_unread("clock", "", facts.tree, f"{place}/current_clocksource")
    if value in CLOCKS:
        return HostReading("clock", "", FINE, value)
    offered = (facts.tree.read(f"{place}/available_clocksource") or "").split()
    better = next((name for name in CLOCKS if name in offered), None)
    if better is None:
        return HostReading("clock", "", FINDING, value, "the kernel offers no better one")
    return HostReading(
        "clock", "", FINDING, value, f"{better} is offered", (KernelSetting("kernel", "clocksource", better),)
    )


def _check_interrupts(facts: HostFacts) -> HostReading:
    """Checks whether the interrupts of the network's queues are spread over the processors."""
    processors = facts.processors
    if processors == 1:
        return HostReading("irq", "", NOT_HERE, "", "one processor")
    if facts.list_processes(("irqbalance",)):
        return HostReading("irq", "", FINE, "irqbalance runs")
    text = facts.tree.read("/proc/interrupts")
    if text is None:
        return report_unread("irq", "", facts.tree, "/proc/interrupts")
    lines = [line for line in text.splitlines() if re.search(r"\b(?:eth|ens|enp|ena|ixgbe)[\w-]*-?Tx|-TxRx", line)]
    numbers = [line.split(":")[0].strip() for line in lines]
    masks = {facts.tree.read(f"/proc/irq/{number}/smp_affinity_list") for number in numbers if number.isdigit()}
    masks.discard(None)
    if not masks:
        note = "no queue of a network interface is in /proc/interrupts with its affinity"
        return HostReading("irq", "", UNREAD, "", note)
    spread = len(masks) > 1 or len(numbers) == 1
    value = f"{_format_count(len(numbers), 'queue')} on {_format_count(len(masks), 'set')} of processors"
    return judge("irq", "", spread, value, "" if spread else "start irqbalance")


# --- network --------------------------------------------------------------------------------------


def _check_network(facts: HostFacts) -> Iterator[HostReading]:
    """Yields the checks of packet steering for each interface, and of the table of flows."""
    if not facts.interfaces:
        for check in ("rps", "rfs"):
            yield HostReading(check, "", UNREAD, "", "no interface with a device is in /sys/class/net")
        return
    for interface in facts.interfaces:
        yield _check_steering(facts, interface)
    yield _check_flows(facts)


def _check_steering(facts: HostFacts, interface: str) -> HostReading:
    """Checks packet steering of an interface: on where it has fewer receive queues than processors,
    else off."""
    queues, processors = facts.list_queues(interface), facts.processors
    masks = [facts.tree.read(f"{queue}/rps_cpus") for queue in queues]
    readable_masks = [mask for mask in masks if mask is not None]
    if not readable_masks or processors is None:
        return report_unread("rps", "", facts.tree, f"/sys/class/net/{interface}/queues")
    on = any(mask.strip("0,") for mask in readable_masks)
    enough = len(queues) >= min(processors, int(read_host_checks()["rps"].least or 0))
    value = f"{_format_count(len(queues), 'queue')}, {_format_count(processors, 'processor')}, {'on' if on else 'off'}"
    if on != enough:
        note = "" if enough else "fewer queues than processors: steering helps"
        return HostReading("rps", interface, FINE, value, note)
    mask = "0" if enough else f"{(1 << processors) - 1:x}"
    note = "the queues are enough without it" if enough else "fewer queues than processors"
    # Long masks are written in groups of 32 bits.
    mask = ",".join(re.findall(r".{1,8}", mask[::-1]))[::-1]
    settings = tuple(
        KernelSetting("udev", f"queues/{queue.rsplit('/', 1)[1]}/rps_cpus", mask, interface) for queue in queues
    )
    return HostReading("rps", interface, FINDING, value, note, settings)


def _check_flows(facts: HostFacts) -> HostReading:
    """Checks that the table of flows (entries) and the counts of the queues fit each other."""
    path = "/proc/sys/net/core/rps_sock_flow_entries"
    entries = facts.tree.read_number(path)
    if entries is None:
        return report_unread("rfs", "", facts.tree, path)
    queues = [(name, queue) for name in facts.interfaces for queue in facts.list_queues(name)]
    counts = {
        pair: count for pair in queues if (count := facts.tree.read_number(f"{pair[1]}/rps_flow_cnt")) is not None
    }
    per_queue = sum(counts.values())
    value = f"table {entries:,}, queues {per_queue:,} together"
    # The kernel rounds each count up to a power of two, so that together they may come to almost
    # twice the table (docs.kernel.org/networking/scaling.html).
    if (not entries and not per_queue) or entries <= per_queue < 2 * entries:
        return HostReading("rfs", "", FINE, value)
    # Steering helps if queues are fewer than processors: the counts are set to fit the table.
    few = facts.processors is not None and len(queues) < min(
        facts.processors, int(read_host_checks()["rps"].least or 0)
    )
    each = entries // len(counts) if entries and counts and few else 0
    settings = [] if each or not entries else [KernelSetting("sysctl", "net.core.rps_sock_flow_entries", "0")]
    settings += [
        KernelSetting("udev", f"queues/{queue.rsplit('/', 1)[1]}/rps_flow_cnt", str(each), name)
        for (name, queue), count in counts.items()
        if count != each
    ]
    return HostReading("rfs", "", FINDING, value, "the table and the queues' counts do not add up", tuple(settings))


def _format_count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# --- the rest -------------------------------------------------------------------------------------


def _check_governor(facts: HostFacts) -> HostReading:
    """Checks that the processors keep their highest frequency, where this machine can set it."""
    path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    value = facts.tree.read(path)
    if value is None:
        return HostReading("governor", "", NOT_HERE, "", "the hypervisor keeps the frequency to itself")
    settings = (KernelSetting("sysfs", path.replace("cpu0", "cpu*"), "performance"),)
    return judge("governor", "", value == "performance", value, "", settings)


def _check_space(facts: HostFacts) -> HostReading:
    """Checks the free share of space and inodes under the data, percent; unread in a captured
    tree."""
    if not facts.tree.live:
        return HostReading("space", "", UNREAD, "", "captured files do not say; headrace forecast does")
    shares = facts.measure_free_share()
    mount = facts.data_mount
    if shares is None or mount is None:
        return HostReading("space", "", UNREAD, "", "the mount of the data is not known")
    least = read_host_checks()["space"].least or 0
    value = f"{shares[0]:.0f} % of space, {shares[1]:.0f} % of inodes free"
    return judge("space", mount.place, min(shares) >= least, value)


def _check_statistics(facts: HostFacts) -> Iterator[HostReading]:
    """Checks for each NVMe disk whether this user may read its statistics (CAP_SYS_ADMIN)."""
    disks = [disk for disk in facts.disks if disk.startswith("nvme")]
    if not disks:
        yield HostReading("nvme_stats", "", NOT_HERE, "", "no NVMe disk")
        return
    if not facts.tree.live:
        yield HostReading("nvme_stats", "", UNREAD, "", "captured files do not say who may read them")
        return
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", facts.tree.read("/proc/self/status") or "", re.M)
    allowed = match is not None and bool(int(match[1], 16) >> SYS_ADMIN & 1)
    for disk in disks:
        fine = allowed and os.access(f"/dev/{disk}", os.R_OK)
        note = "" if fine else "this user may not: run the watcher with CAP_SYS_ADMIN, or through a helper"
        yield judge("nvme_stats", disk, fine, "readable" if fine else "refused", note)
