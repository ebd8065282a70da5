"""What this machine has, by its /proc."""

from __future__ import annotations

from headrace.errors import CouldNotRun

MEMORY_FILE = "/proc/meminfo"


def memory_bytes(field: str) -> float:
    """A field of /proc/meminfo in bytes: MemTotal, or MemAvailable (to be had without swapping).

    0 where this Linux does not have the field. Raises CouldNotRun where there is no /proc.
    """
    try:
        with open(MEMORY_FILE, encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError as error:
        hint = "Memory is read as Linux tells it."
        raise CouldNotRun(MEMORY_FILE, f"cannot be read: {error.strerror}", "proc_meminfo(5)", hint) from None
    # The unit there is KiB, whatever the `kB` says (proc_meminfo(5)).
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0.0)
