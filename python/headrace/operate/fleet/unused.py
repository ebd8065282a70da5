"""Volumes that nobody uses: attached to nothing, or without an I/O in all days of the points."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import polars as pl

from headrace.base.units import DAY_S
from headrace.operate.fleet.answer import Verdict
from headrace.operate.fleet.inventory import FleetDevice
from headrace.operate.fleet.points import SUMS

# I/Os a second in the mean of a day, as AWS counts them: "less than 1 IOPS a day" is read as one
# I/O a day (Trusted Advisor, check DAvU99Dc4C, which leaves boot volumes out too).
LEAST_IOS_A_DAY = 1.0


def unused_because(
    device: FleetDevice, points: Mapping[str, pl.DataFrame], least_days: float
) -> tuple[Verdict, str] | None:
    """Returns a verdict and its reason: "unused", or "withheld" for a volume that is attached to
    nothing and did I/O within the points; None where it is in use, or not known."""
    if any(member.managed_by or member.root for member in device.members):
        return None
    detached = all(member.state == "available" and not member.attachments for member in device.members)
    last = max((_last_io(points.get(member.id)) for member in device.members), default=0.0)
    what = "It is" if len(device.members) == 1 else f"All {len(device.members)} volumes are"
    if detached and last:
        at = f"{datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M} UTC"
        return "withheld", f"{what.lower()} attached to nothing now, and did I/O until {at}: ask before it is deleted"
    if detached:
        created = max((member.created for member in device.members if member.created), default=None)
        since = f" (made on {created:%Y-%m-%d})" if created else ""
        return "unused", f"{what} attached to nothing{since}. Keep a snapshot and delete it."
    days = min((_idle_days(points.get(member.id)) for member in device.members), default=0.0)
    if days < least_days:
        return None
    return "unused", f"no I/O in {days:.0f} days, and attached. Ask its owner; keep a snapshot and delete it."


def _last_io(rows: pl.DataFrame | None) -> float:
    """Returns the end of the last period with I/O, seconds since 1970; 0 without any."""
    if rows is None or not rows.height:
        return 0.0
    busy = rows.filter(pl.any_horizontal(pl.col("read_ops") > 0, pl.col("write_ops") > 0))
    return float((busy["t_unix"] + busy["period_s"]).max() or 0.0) if busy.height else 0.0  # pyright: ignore[reportArgumentType]


def _idle_days(rows: pl.DataFrame | None) -> float:
    """Returns for how many days it had hardly an I/O; 0 where it had, or that is unknown."""
    if rows is None or not rows.height:
        return 0.0
    whole = rows.filter(pl.all_horizontal(pl.col(name).is_not_nan() for name in SUMS))
    days = float(whole["period_s"].sum()) / DAY_S
    ios = float(whole["read_ops"].sum()) + float(whole["write_ops"].sum())
    return days if days > 0 and ios < LEAST_IOS_A_DAY * days else 0.0
