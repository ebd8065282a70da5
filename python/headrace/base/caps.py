"""Names the limits that can be the bottleneck, in sentences and in tables.

The names are the core's: `Cap::name` (crates/model/src/io.rs) for demand on a storage,
`Binding::name` (crates/sim/src/mysql/interval.rs) for a database, which adds the clients, the
processors, what transactions share, and `log-` before a limit of the log volume.
"""

from __future__ import annotations

# name: (in a sentence, in a table)
WORDS = {
    "none": ("nothing", "nothing"),
    "clients": ("the clients", "clients"),
    "cpu": ("the processors", "processors"),
    "contention": ("the latches that transactions share", "latches"),
    "volume-iops": ("the volume's IOPS", "volume IOPS"),
    "volume-throughput": ("the volume's throughput", "volume MiB/s"),
    "volume-credits": ("the volume's burst credits are gone", "credits gone"),
    "instance-iops": ("the instance's EBS IOPS", "instance IOPS"),
    "instance-throughput": ("the instance's EBS throughput", "instance MiB/s"),
    "instance-credits": ("the instance's EBS burst is gone", "instance burst gone"),
    "first-touch": ("the initialization (first touch) of blocks from a snapshot", "initialization"),
    "network": ("the instance's network", "network"),
    "page-reads": ("the pages a second that Aurora's storage gives", "page reads"),
    "degraded": ("a degradation of the volume", "degraded"),
}
LOG = "log-"
# The limits for which a lab counts how long requests of a volume waited, as its tables order them.
COUNTED = ("volume-iops", "volume-throughput", "instance-iops", "instance-throughput")
# Columns of a tick with the share of its time, 0 to 1, in which requests waited for each of them.
OVER = {name: f"over_{name.replace('-', '_')}" for name in COUNTED}


def describe_cap(name: str | None) -> str:
    """Returns `the volume's IOPS` for `volume-iops`, and `the log volume's IOPS` for
    `log-volume-iops`. None is `nothing`; a name that is not in the table is returned as it is."""
    name = name or "none"
    limit = name.removeprefix(LOG)
    words = WORDS.get(limit, (limit, limit))[0]
    if limit == name:
        return words
    return words.replace("the volume", "the log volume") if "the volume" in words else f"{words}, on the log volume"


def label_cap(name: str | None) -> str:
    """Returns `volume IOPS` for `volume-iops`, `log: volume IOPS` for `log-volume-iops`."""
    name = name or "none"
    limit = name.removeprefix(LOG)
    words = WORDS.get(limit, (limit, limit))[1]
    return words if limit == name else f"log: {words}"


def name_column(name: str) -> str:
    """Returns the column of a measured run that holds the share of time (0 to 1) in which requests
    waited for a limit: `cap_volume_iops` for `volume-iops`."""
    return f"cap_{name.replace('-', '_')}"
