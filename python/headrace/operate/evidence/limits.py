"""The limits that hold for a volume or array on its instance, from the catalog.

An array is one device: its rates are those of its members together, as long as the load spreads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.storage import Storage
from headrace.base.units import KIB, MIB


@dataclass(frozen=True)
class HoldingLimits:
    """`iops` and `bytes_s`: what the volume gives without credits; `burst_iops` and
    `burst_bytes_s`: what it gives with them (equal without credits); `credits`: I/Os (gp2) or bytes
    (st1, sc1) of a full balance, None without.

    `instance_*`: the same of the instance, None where none is named: `instance_iops` is the
    baseline, `instance_burst_iops` the most, kept for `instance_burst_s` with a full bucket.
    `io_kib`: up to here a request counts once. `per_read`, `per_write`: I/Os of the members that
    one of the device takes. `source`: where the figures are from.
    """

    storage: str
    iops: float
    bytes_s: float
    burst_iops: float
    burst_bytes_s: float
    credits: float | None = None
    credit_unit: str = ""
    instance: str | None = None
    instance_iops: float | None = None
    instance_bytes_s: float | None = None
    instance_burst_iops: float | None = None
    instance_burst_bytes_s: float | None = None
    instance_burst_s: float = 0.0
    io_kib: float = 256.0
    per_read: float = 1.0
    per_write: float = 1.0
    as_of: str = ""
    source: str = "data/volumes, data/instances.csv"

    def rate_of(self, name: str) -> float | None:
        """What a limit of base.caps allows: I/Os a second, or bytes a second; with credits spent
        for `volume-credits` and `instance-credits`."""
        return {
            "volume-iops": self.burst_iops,
            "volume-throughput": self.burst_bytes_s,
            "volume-credits": self.iops if self.credit_unit == "ios" else self.bytes_s,
            "instance-iops": self.instance_burst_iops,
            "instance-throughput": self.instance_burst_bytes_s,
            "instance-credits": self.instance_iops,
        }.get(name)

    def levels(self) -> list[tuple[str, float, bool]]:
        """What a rate can be held at: name of base.caps, I/Os or bytes a second, and whether they
        are bytes. The credits' are those of the baseline, of the instance only where it bursts."""
        known: list[tuple[str, float | None, bool]] = [
            ("volume-iops", self.burst_iops, False),
            ("volume-throughput", self.burst_bytes_s, True),
            ("instance-iops", self.instance_burst_iops, False),
            ("instance-throughput", self.instance_burst_bytes_s, True),
        ]
        if self.credits is not None:
            in_bytes = self.credit_unit == "bytes"
            known.append(("volume-credits", self.bytes_s if in_bytes else self.iops, in_bytes))
        if self.instance_iops != self.instance_burst_iops:
            known.append(("instance-credits", self.instance_iops, False))
        if self.instance_bytes_s != self.instance_burst_bytes_s:
            known.append(("instance-credits", self.instance_bytes_s, True))
        return [(name, allowed, in_bytes) for name, allowed, in_bytes in known if allowed]

    def charged(self, reads: float, writes: float, read_mib_s: float, write_mib_s: float) -> tuple[float, float]:
        """I/Os and bytes a second as the members are charged for them, at least: requests of one
        kind are taken to be of one size."""
        split = self.io_kib * KIB / MIB  # MiB that one I/O may have
        ios = max(reads, read_mib_s / split) * self.per_read + max(writes, write_mib_s / split) * self.per_write
        return ios, (read_mib_s * self.per_read + write_mib_s * self.per_write) * MIB


@lru_cache(maxsize=1_024)  # a fleet asks for today's of each volume over and over
def holding(storage: str, instance: str | None = None, as_of: str | None = None) -> HoldingLimits:
    """What holds for this storage on this instance. Raises InputError where it is not sold."""
    parsed = Storage.parse(storage)
    members = parsed.limits(as_of, instance)
    cost = core.storage_cost(parsed.text)
    io_burst = [one["io_burst"] for one in members]
    byte_burst = [one["byte_burst"] for one in members]
    iops = float(sum(one["iops"] for one in members))
    bytes_s = float(sum(one["throughput_bytes_s"] for one in members))
    found = HoldingLimits(
        parsed.text,
        iops,
        float(
            sum(
                burst["baseline_bytes_s"] if burst else one["throughput_bytes_s"]
                for one, burst in zip(members, byte_burst, strict=True)
            )
        ),
        float(
            sum(
                max(one["iops"], burst["iops"]) if burst else one["iops"]
                for one, burst in zip(members, io_burst, strict=True)
            )
        ),
        bytes_s,
        io_kib=members[0]["io_unit_bytes"] / KIB,
        per_read=cost["ios_per_read"],
        per_write=cost["ios_per_write"],
        as_of=members[0]["as_of"],
    )
    if any(io_burst):
        found = replace(found, credits=float(sum(one["capacity_ios"] for one in io_burst if one)), credit_unit="ios")
    elif any(byte_burst):
        total = float(sum(one["capacity_bytes"] for one in byte_burst if one))
        found = replace(found, credits=total, credit_unit="bytes")
    return found if instance is None else on_instance(found, instance, as_of)


def on_instance(limits: HoldingLimits, instance: str, as_of: str | None = None) -> HoldingLimits:
    """The same with the limits of an instance. Raises InputError for one that is not known."""
    with core_errors():
        host = core.instance(instance, as_of)

    def known(value: int | None) -> float | None:
        return None if value is None else float(value)

    return replace(
        limits,
        instance=instance,
        instance_iops=known(host["baseline_iops"]),
        instance_bytes_s=known(host["baseline_bytes_s"]),
        instance_burst_iops=known(host["max_iops"]),
        instance_burst_bytes_s=known(host["max_bytes_s"]),
        instance_burst_s=float(host["burst_seconds"]),
    )
