"""The machine of a run: its facts, and how busy it was before the run."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

from headrace.base.machine import count_cores, count_threads_per_core
from headrace.observe.live import host

# Length of the measurement of the load, s: long compared with the kernel's ticks of 10 ms.
LOOK_S = 1.0
# A machine is busy if other programs use more than this share of its processors before the run.
BUSY_SHARE = 0.10


def capture() -> dict:
    """Returns the facts of this machine by name: versions of Headrace, Python and kernel,
    distribution, processors, memory and settings of the kernel; None for one that cannot be
    read."""
    info = _read_key_values("/proc/cpuinfo", ":")
    memory = _read_key_values("/proc/meminfo", ":").get("MemTotal", "0").split()[0]
    return {
        "headrace": version("headrace"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "system": _read_key_values("/etc/os-release", "=").get("PRETTY_NAME", "").strip('"') or None,
        "cpu": info.get("model name") or info.get("CPU part"),
        "cpus": os.cpu_count(),
        "cpus_usable": count_cores(),
        "threads_per_core": count_threads_per_core(),
        "memory_gib": round(int(memory) / (1 << 20), 2) if memory.isdigit() else None,
        "virtual": "hypervisor" in info.get("flags", "").split(),
        "governor": _read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "transparent_hugepage": _read_text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "swappiness": _read_text("/proc/sys/vm/swappiness"),
        "host": platform.node(),
    }


def load_before() -> dict:
    """Measures for LOOK_S how busy the machine is before a run: shares (0..1) of all processors,
    load averages, and available memory in GiB."""
    first = host.read_host()
    time.sleep(LOOK_S)
    second = host.read_host()
    spent = {name: second[name] - first[name] for name in host.CPU}
    total = sum(spent.values()) or 1.0
    idle = spent["idle_s"] + spent["iowait_s"]
    load1, load5, load15 = os.getloadavg()
    return {
        "busy_share": round(max(0.0, 1 - idle / total), 4),
        "iowait_share": round(spent["iowait_s"] / total, 4),
        "steal_share": round(spent["steal_s"] / total, 4),
        "load1": load1,
        "load5": load5,
        "load15": load15,
        "memory_available_gib": round(second.get("memory_available_bytes", 0.0) / (1 << 30), 3),
    }


def read_device_facts(devices: tuple[str, ...]) -> dict[str, dict]:
    """Returns by device its size (GiB), scheduler, read-ahead (KiB), file system, mount and its
    options; None where unknown."""
    facts = {}
    mounts = {
        line.split()[0]: line.split()[1:4]
        for line in (_read_text("/proc/mounts") or "").splitlines()
        if len(line.split()) > 3
    }
    for device in devices:
        name = os.path.basename(os.path.realpath(device))
        base = f"/sys/block/{name}"
        sectors = _read_text(f"{base}/size")
        mount = mounts.get(device) or mounts.get(os.path.realpath(device))
        facts[device] = {
            "size_gib": round(int(sectors) / 2**21, 3) if sectors and sectors.isdigit() else None,
            "scheduler": _read_text(f"{base}/queue/scheduler"),
            "read_ahead_kb": _read_text(f"{base}/queue/read_ahead_kb"),
            "mount": mount[0] if mount else None,
            "file_system": mount[1] if mount else None,
            "mount_options": mount[2] if mount else None,
        }
    return facts


def _read_text(path: str) -> str | None:
    """Returns the text of a file of the kernel without space around it; None if empty or
    unreadable."""
    try:
        return Path(path).read_text(errors="replace").strip() or None
    except OSError:
        return None


def _read_key_values(path: str, mark: str) -> dict[str, str]:
    """Returns the first value of each key in a file of `KEY mark VALUE` lines; empty if
    unreadable."""
    values: dict[str, str] = {}
    for line in (_read_text(path) or "").splitlines():
        key, sign, value = line.partition(mark)
        if sign:
            values.setdefault(key.strip(), value.strip())
    return values
