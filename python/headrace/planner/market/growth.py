"""Storage of RDS that fills: when autoscaling adds some, and whether the server stops first.

The rules are AWS's (data/managed/rules.csv): free space at or below a tenth for five minutes, a
step of the most of 10 GiB, a tenth, and seven hours of growth, then nothing for six hours; and the
server is stopped where too little is free. Growth is taken as even.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.base import core
from headrace.base.checks import check_number
from headrace.base.encoding import Document
from headrace.base.units import GIB, MIB, span_in_words

HOUR_MIN = 60  # minutes of an hour
# Sizes between which the share counts (data/managed/rules.csv: storage_full_*), MiB.
SMALL_MIB, LARGE_MIB = 20_000, 102_400
MOST_DAYS = 3_650
# GiB from which storage of RDS lies on four volumes (data/managed/features.csv, "change storage").
STRIPED_FROM_GIB = 400
MIB_A_GIB = GIB // MIB


@dataclass(frozen=True)
class StorageGrowth(Document):
    """Growth of storage under its data. `steps`: hour and GiB allocated after it, of each step of
    autoscaling; `stopped_h`: hour at which the server is stopped for want of space, None: not
    within `hours`; `hours`: length of the time that was simulated."""

    allocated_gib: float
    used_gib: float
    gib_per_day: float
    hours: float
    steps: tuple[tuple[float, float], ...]
    stopped_h: float | None

    def in_words(self) -> str:
        """Writes the growth as a sentence."""
        what = f"{self.gib_per_day:g} GiB a day into {self.allocated_gib:,.0f} GiB with {self.used_gib:,.0f} in use"
        added = ""
        if self.steps:
            hour, size = self.steps[0]
            added = f"autoscaling comes first after {_span(hour)}, to {size:,.0f} GiB; {len(self.steps)} steps in all"
        copied = next((hour for hour, size in self.steps if self.allocated_gib < STRIPED_FROM_GIB <= size), None)
        if copied is not None:
            added += (
                f"; the one after {_span(copied)} passes {STRIPED_FROM_GIB} GiB, where RDS copies all data to four "
                "volumes: hours of more I/O, and no other change until it is done (rds-guide-2026-04)"
            )
        if self.stopped_h is None:
            return f"{what}: {added or 'nothing happens'} in {_span(self.hours)}"
        without = "; autoscaling adds at most one step in its six hours" if self.steps else ""
        return f"{what}: RDS stops the server after {_span(self.stopped_h)}{without}" + (f" ({added})" if added else "")


def _span(hours: float) -> str:
    return span_in_words(round(hours * 3_600))


def storage_growth(
    allocated_gib: float,
    used_gib: float,
    gib_per_day: float,
    *,
    days: float = 30.0,
    autoscaling: bool = True,
    most_gib: float | None = None,
    as_of: str | None = None,
) -> StorageGrowth:
    """Follows storage of RDS minute by minute. `most_gib`: the limit given to autoscaling; None:
    the largest that RDS has. Raises InputError."""
    check_number("allocated_gib", allocated_gib, 5.0, 65_536.0, "GiB")
    check_number("used_gib", used_gib, 0.0, allocated_gib, "GiB")
    check_number("gib_per_day", gib_per_day, 0.0, 1e6, "GiB a day")
    check_number("days", days, 0.01, MOST_DAYS)
    rule = {name: _figure(name, as_of) for name in FIGURES}
    most = most_gib or rule["largest_storage"] * 1024
    size, low_for, cooled_at, hour = allocated_gib, 0, 0.0, 0.0
    steps: list[tuple[float, float]] = []
    for minute in range(1, int(days * 24 * HOUR_MIN) + 1):
        hour = minute / HOUR_MIN
        free = size - used_gib - gib_per_day * hour / 24
        if free * MIB_A_GIB <= least_free_mib(size * MIB_A_GIB, rule):
            return StorageGrowth(allocated_gib, used_gib, gib_per_day, days * 24, tuple(steps), hour)
        low_for = low_for + 1 if free <= size * rule["autoscaling_free"] / 100 else 0
        if autoscaling and low_for >= rule["autoscaling_wait"] and hour >= cooled_at and size < most:
            expected = gib_per_day / 24 * rule["autoscaling_ahead"]
            step = max(rule["autoscaling_least_step"], size * rule["autoscaling_step"] / 100, expected)
            size, low_for, cooled_at = min(size + step, most), 0, hour + rule["modification_cooldown"]
            steps.append((hour, size))
    return StorageGrowth(allocated_gib, used_gib, gib_per_day, days * 24, tuple(steps), None)


FIGURES = (
    "autoscaling_free",
    "autoscaling_wait",
    "autoscaling_step",
    "autoscaling_least_step",
    "autoscaling_ahead",
    "modification_cooldown",
    "storage_full_small",
    "storage_full_share",
    "storage_full_large",
    "largest_storage",
)


def least_free_mib(allocated_mib: float, rule: dict[str, float]) -> float:
    """Returns the free MiB at which RDS stops the server."""
    if allocated_mib < SMALL_MIB:
        return rule["storage_full_small"]
    if allocated_mib > LARGE_MIB:
        return rule["storage_full_large"]
    return allocated_mib * rule["storage_full_share"] / 100


def _figure(name: str, as_of: str | None) -> float:
    rule = core.managed_rule("rds:single-az", name, as_of)
    assert rule is not None, name
    return float(rule["value"])
