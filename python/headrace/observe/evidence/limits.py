"""The limits that hold for a volume or array on its instance, from the catalog.

An array is one device: its rates are those of its members together, as long as the load spreads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.storage import Storage
from headrace.base.units import KIB, MIB
from headrace.observe.run_storage import sum_rates

# A volume cannot give more than its limits. The margin: CloudWatch's sums are whole, and a rested
# volume has saved a second's worth, so that rates have to be means of LEAST_MEAN_S and more.
MOST_OVER, LEAST_MEAN_S = 1.05, 60.0


@dataclass(frozen=True)
class NearestLimit:
    """The limit that rates come nearest to, or exceed most. `name`: as in base.caps; `rate`, and
    `allowed`, the limit itself: bytes a second (`in_bytes`), or I/Os a second."""

    name: str
    rate: float
    allowed: float
    in_bytes: bool

    @property
    def times(self) -> float:
        """Returns the rate over what is allowed."""
        return self.rate / self.allowed

    @property
    def is_exceeded(self) -> bool:
        """True when this storage cannot have given that rate."""
        return self.times > MOST_OVER


@dataclass(frozen=True)
class HoldingLimits:
    """The limits of storage, perhaps on an instance. `iops` and `bytes_s`: without credits;
    `burst_iops` and `burst_bytes_s`: with them (the same where there are none); `credits`: I/Os
    (gp2) or bytes (st1, sc1) of a full balance, None without.

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

    def find_rate(self, name: str) -> float | None:
        """Returns what a limit of base.caps allows: I/Os a second, or bytes a second; with credits
        spent for `volume-credits` and `instance-credits`."""
        return {
            "volume-iops": self.burst_iops,
            "volume-throughput": self.burst_bytes_s,
            "volume-credits": self.iops if self.credit_unit == "ios" else self.bytes_s,
            "instance-iops": self.instance_burst_iops,
            "instance-throughput": self.instance_burst_bytes_s,
            "instance-credits": self.instance_iops,
        }.get(name)

    def list_levels(self) -> list[tuple[str, float, bool]]:
        """Returns the limits of the volume and of its instance that a rate can stop at: name of
        base.caps, I/Os or bytes a second, and whether it is in bytes. Those of credits are the
        baselines, which remain when the credits are spent, for the instance only where it
        bursts."""
        rates: list[tuple[str, float | None, bool]] = [
            ("volume-iops", self.burst_iops, False),
            ("volume-throughput", self.burst_bytes_s, True),
            ("instance-iops", self.instance_burst_iops, False),
            ("instance-throughput", self.instance_burst_bytes_s, True),
        ]
        if self.credits is not None:
            in_bytes = self.credit_unit == "bytes"
            rates.append(("volume-credits", self.bytes_s if in_bytes else self.iops, in_bytes))
        if self.instance_iops != self.instance_burst_iops:
            rates.append(("instance-credits", self.instance_iops, False))
        if self.instance_bytes_s != self.instance_burst_bytes_s:
            rates.append(("instance-credits", self.instance_bytes_s, True))
        return [(name, allowed, in_bytes) for name, allowed, in_bytes in rates if allowed]

    def find_nearest_limit(self, iops: float, bytes_s: float) -> NearestLimit:
        """Returns the limit that these rates come nearest to, of those that hold with full
        credits."""
        most = [
            NearestLimit(name, bytes_s if in_bytes else iops, allowed, in_bytes)
            for name, allowed, in_bytes in self.list_levels()
            if not name.endswith("credits")
        ]
        return max(most, key=lambda limit: limit.times)

    def compute_charged_rates(
        self, reads: float, writes: float, read_mib_s: float, write_mib_s: float
    ) -> tuple[float, float]:
        """Returns I/Os and bytes a second as the members are charged for them, at least: requests
        of one kind are taken to be of one size."""
        split = self.io_kib * KIB / MIB  # MiB that one I/O may have
        ios = max(reads, read_mib_s / split) * self.per_read + max(writes, write_mib_s / split) * self.per_write
        return ios, (read_mib_s * self.per_read + write_mib_s * self.per_write) * MIB


@lru_cache(maxsize=1_024)  # a fleet asks for today's of each volume over and over
def get_holding_limits(storage: str, instance: str | None = None, as_of: str | None = None) -> HoldingLimits:
    """Returns the limits for this storage on this instance. The answers are cached. Raises
    InputError if AWS does not sell such storage."""
    parsed = Storage.parse(storage)
    members = parsed.list_limits(as_of, instance)
    cost = core.storage_cost(parsed.text)
    io_burst = [member["io_burst"] for member in members]
    byte_burst = [member["byte_burst"] for member in members]
    iops, burst_iops, bytes_s, burst_bytes_s = sum_rates(members)
    limits = HoldingLimits(
        parsed.text,
        iops,
        bytes_s,
        burst_iops,
        burst_bytes_s,
        io_kib=members[0]["io_unit_bytes"] / KIB,
        per_read=cost["ios_per_read"],
        per_write=cost["ios_per_write"],
        as_of=members[0]["as_of"],
    )
    if any(io_burst):
        limits = replace(
            limits, credits=float(sum(burst["capacity_ios"] for burst in io_burst if burst)), credit_unit="ios"
        )
    elif any(byte_burst):
        total = float(sum(burst["capacity_bytes"] for burst in byte_burst if burst))
        limits = replace(limits, credits=total, credit_unit="bytes")
    return limits if instance is None else on_instance(limits, instance, as_of)


def on_instance(limits: HoldingLimits, instance: str, as_of: str | None = None) -> HoldingLimits:
    """Returns limits with those of an instance. Raises InputError for an unknown instance."""
    with translate_core_errors():
        host = core.instance(instance, as_of)

    def as_float(value: int | None) -> float | None:
        return None if value is None else float(value)

    return replace(
        limits,
        instance=instance,
        instance_iops=as_float(host["baseline_iops"]),
        instance_bytes_s=as_float(host["baseline_bytes_s"]),
        instance_burst_iops=as_float(host["max_iops"]),
        instance_burst_bytes_s=as_float(host["max_bytes_s"]),
        instance_burst_s=float(host["burst_seconds"]),
    )
