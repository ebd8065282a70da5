"""Demand of an array or a volume over time, from CloudWatch's points of a device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import DAY_S, format_percent
from headrace.errors import Refusals
from headrace.observe.evidence.limits import HoldingLimits, get_holding_limits
from headrace.operate.fleet.answer import Verdict
from headrace.operate.fleet.inventory import FleetDevice
from headrace.operate.fleet.points import METRICS, SUMS
from headrace.workload.points import MAX_OPS_PER_S

refuse = Refusals("docs/guide/fleet.md")
FORTNIGHT_DAYS = 14  # days: the span of Compute Optimizer and of this fleet's advice
# Above this share of periods without a point the demand is not known well enough; below it they
# count as idle (a volume that is not attached publishes nothing). Ours.
MOST_MISSING = 0.1
LEAST_IO_BYTES = 512.0  # a sector: bytes and I/Os of a period are rounded apart
MOST_IO_BYTES = 64.0 * 1024 * 1024  # what the model takes for one I/O
# A delivered rate this near a limit of the volume is the limit's, not the demand's: rounding of
# CloudWatch's sums and of the second's worth that a rested volume has saved.
AT_LIMIT = 0.97
# Points longer than this hide bursts: an hour's mean of five busy minutes is a twelfth of them. s:
# the period that metric-data of a fortnight is fetched with (docs/guide/fleet.md).
MOST_GRAIN_S = 300.0
# Balances are whole percents: at or below this the credits are gone.
GONE_PERCENT = 1.0


@dataclass(frozen=True)
class DeviceHistory:
    """Points of a device, without holes, each `grain_s` long.

    `columns`: arrays of f64 by COLUMNS, as the core takes them. `balance_percent`: the lowest of
    the members, NaN where not published; `exceeded`: 1 where a member's IOPS or throughput check
    was 1, 0 where none was, NaN where the check was not published; `exceeded_of`: whether the check
    of IOPS, and that of throughput, was ever 1; `queue`: sum of the members',
    NaN where not published. `given_iops`, `given_bytes_s`: what was delivered. `censored_share`: of
    the points, those at a limit. `missing_share`: of the periods, those without a point. `at_rate`:
    points without a check whose rate is that of a limit of the volume; `at_instance`: points in
    which all volumes of the instance together had the rate of a limit of the instance; None where
    that was not determined."""

    COLUMNS: ClassVar = ("duration_s", "reads_per_s", "writes_per_s", "read_bytes", "write_bytes")

    begin_unix: float
    grain_s: float
    columns: dict[str, np.ndarray]
    balance_percent: np.ndarray
    exceeded: np.ndarray
    exceeded_of: tuple[bool, bool]
    queue: np.ndarray
    given_iops: np.ndarray
    given_bytes_s: np.ndarray
    missing_share: float
    at_rate: np.ndarray | None = None
    at_instance: np.ndarray | None = None

    @property
    def span_s(self) -> float:
        """Length of the history, s."""
        return self.grain_s * len(self.columns["duration_s"])

    @cached_property
    def censored(self) -> np.ndarray:
        """The points at a limit: by the check, by spent credits, or by a rate that is a limit's."""
        at_limit = self.throttled
        return at_limit if self.at_instance is None else at_limit | self.at_instance

    @cached_property
    def without_credits(self) -> np.ndarray:
        """The points whose published balance is at most `GONE_PERCENT`."""
        with np.errstate(invalid="ignore"):
            return self.balance_percent <= GONE_PERCENT

    @cached_property
    def throttled(self) -> np.ndarray:
        """The points at a limit of the volume itself."""
        with np.errstate(invalid="ignore"):
            at_limit = (self.exceeded > 0) | self.without_credits
        return at_limit if self.at_rate is None else at_limit | self.at_rate

    @cached_property
    def censored_share(self) -> float:
        """Share of the points at a limit."""
        return float(self.censored.mean())

    def find_shortage(self, storage: str, as_of: str | None) -> tuple[bool, bool]:
        """Returns whether the device was at its limit of IOPS, and of MiB/s; both True where
        nothing says which it was."""
        limits = get_holding_limits(storage, as_of=as_of)
        gone = bool(self.without_credits.any())
        iops, throughput = self.exceeded_of
        iops |= (gone and limits.credit_unit == "ios") or self.given_iops.max() >= AT_LIMIT * limits.burst_iops
        throughput |= gone and limits.credit_unit == "bytes"
        throughput |= self.given_bytes_s.max() >= AT_LIMIT * limits.burst_bytes_s
        return (bool(iops), bool(throughput)) if iops or throughput else (True, True)

    @property
    def first_balance(self) -> float | None:
        """The balance of the first point, percent; None where it is not published."""
        first = self.balance_percent[:1]
        return None if np.isnan(first).any() else float(first[0])

    @property
    def per_day(self) -> int:
        """Points of a day."""
        return round(DAY_S / self.grain_s)

    def sample_fortnights(self, count: int, seed: int) -> tuple[list[int], list[float]] | None:
        """Draws the days of `count` fortnights, one after the other, and returns the index of the
        recorded day for each, and a factor on its demand, as the levels of days differ. None for
        less than two days."""
        days = len(self.columns["duration_s"]) // self.per_day
        if days < 2:
            return None
        rates = self.columns["reads_per_s"] + self.columns["writes_per_s"]
        totals = rates[: days * self.per_day].reshape(days, self.per_day).mean(axis=1)
        # Weekends differ from working days by more than days do: each is compared with its like.
        # Day 0 of 1970 was a Thursday, the fourth day of a week that begins on Monday.
        weekend = (int(self.begin_unix // DAY_S) + 3 + np.arange(days)) % 7 >= 5
        apart = [
            np.log(like / np.median(like))
            for like in (totals[weekend], totals[~weekend])
            if like.size and like.min() > 0
        ]
        spread = float(np.std(np.concatenate(apart))) if apart else 0.0
        draw = np.random.default_rng(seed)
        drawn = draw.integers(0, days, count * FORTNIGHT_DAYS)
        # Half of the spread comes with the day that is drawn; the other half with its level.
        return drawn.tolist(), np.exp(draw.normal(0.0, spread / 2, len(drawn))).tolist()


def build_history(
    device: FleetDevice,
    points: Mapping[str, pl.DataFrame],
    least_days: float,
    limits: HoldingLimits | None = None,
) -> DeviceHistory:
    """Returns the points of all members on one axis, from the last modification of any member on.
    `limits`: of the device; where no check was published, a rate at one of them is a point at a
    limit. Raises InputError for a member without points or without one of the four metrics, for
    fewer days than `least_days`, for points too long or beyond any volume, and for a recording with
    too many holes."""
    series = [_select_rows(member.id, points.get(member.id)) for member in device.members]
    grains = {float(rows["period_s"].min()) for rows in series} | {float(rows["period_s"].max()) for rows in series}  # pyright: ignore[reportArgumentType]
    if len(grains) > 1:
        rule = f"has points of {', '.join(f'{grain:g}' for grain in sorted(grains))} s; one period is needed"
        raise refuse.input(device.key, rule, "Import one period for a device.")
    (grain,) = grains
    if grain > MOST_GRAIN_S:
        rule = f"has points of {grain:,.0f} s, which hide bursts: {MOST_GRAIN_S:g} s at most"
        raise refuse.input(device.key, rule, "Import points of five minutes: CloudWatch keeps them for 63 days.")
    begin, modified = _find_begin(device, series, grain)
    end = min(float(rows["t_unix"][-1]) for rows in series) + grain
    count = max(0, round((end - begin) / grain))
    if count * grain < least_days * DAY_S:
        since = f" since it was modified on {modified:%Y-%m-%d}" if modified is not None else ""
        value = f"{device.key}: {count * grain / DAY_S:.1f} days{since}"
        raise refuse.input(value, f"at least {least_days:g} are needed")
    sums: dict[str, np.ndarray] = {
        name: np.zeros(count) for name in ("read_ops", "write_ops", "read_bytes", "write_bytes")
    }
    balance, exceeded, queue = np.full(count, np.nan), np.full(count, np.nan), np.zeros(count)
    missing = 0
    exceeded_of = (False, False)
    for rows in series:
        index = np.round((rows["t_unix"].to_numpy() - begin) / grain).astype(int)
        inside = (index >= 0) & (index < count)
        index = index[inside]
        missing = max(missing, count - len(index))
        for name, total in sums.items():
            total[index] += rows[name].to_numpy()[inside]
        here = rows["balance_percent"].to_numpy()[inside]
        balance[index] = np.fmin(balance[index], here)
        iops, throughput = (rows[f"{name}_exceeded"].to_numpy()[inside] for name in ("iops", "throughput"))
        exceeded[index] = np.fmax(exceeded[index], np.fmax(iops, throughput))
        exceeded_of = (exceeded_of[0] or bool((iops > 0).any()), exceeded_of[1] or bool((throughput > 0).any()))
        queue[index] += rows["queue"].to_numpy()[inside]
    if missing > MOST_MISSING * count:
        rule = f"has no points for {format_percent(missing / count)} of its periods"
        raise refuse.input(device.key, rule, "Volumes that are seldom attached get no advice.")
    given = ((sums["read_ops"] + sums["write_ops"]) / grain, (sums["read_bytes"] + sums["write_bytes"]) / grain)
    demand = _compute_demand(_combine_members(sums, device), grain)
    if (most := max(float(demand[name].max()) for name in ("reads_per_s", "writes_per_s"))) > MAX_OPS_PER_S:
        rule = f"a point has {most:,.0f} operations a second, more than any volume can"
        raise refuse.input(device.key, rule, "Are counts and periods of its points right?")
    at_rate = None
    if limits is not None:
        at_rate = np.isnan(exceeded) & find_rates_at_limit(given[0], limits.burst_iops)
        at_rate |= np.isnan(exceeded) & find_rates_at_limit(given[1], limits.burst_bytes_s)
    history = DeviceHistory(
        begin, grain, demand, balance, exceeded, exceeded_of, queue, *given, missing / count, at_rate
    )
    return _uncensor_demand(history)


def _select_rows(volume: str, rows: pl.DataFrame | None) -> pl.DataFrame:
    """Returns the periods of a volume in which all four metrics have a figure. Raises InputError
    for a volume without points, or without one of the metrics in all of them."""
    if rows is None or not rows.height:
        raise refuse.input(volume, "has no points", "Import its metrics: headrace fleet import.")
    lacking = [metric for metric, (name, _) in METRICS.items() if name in SUMS and rows[name].is_nan().all()]
    if lacking:
        rule = f"has points, but none of {', '.join(lacking)}"
        raise refuse.input(volume, rule, "Import this metric too (Sum): what it was asked for is not known without.")
    return rows.filter(pl.all_horizontal(pl.col(name).is_not_nan() for name in SUMS))


def find_rates_at_limit(rates: np.ndarray, limit: float | None) -> np.ndarray:
    """Returns which rates are AT_LIMIT of a limit in the same unit, or more; none
    where the limit is None."""
    return np.zeros(len(rates), bool) if not limit else rates >= AT_LIMIT * limit


def _find_begin(device: FleetDevice, series: list[pl.DataFrame], grain: float) -> tuple[float, datetime | None]:
    """Returns when the history begins, Unix seconds, and the last modification if that is the
    reason, else None. `grain`: length of a period, seconds."""
    begin = max(float(rows["t_unix"][0]) for rows in series)
    last = max(
        (
            modification.ended or modification.started
            for member in device.members
            for modification in member.modifications
        ),
        default=None,
    )
    if last is None or last.timestamp() <= begin:
        return begin, None
    return begin + grain * math.ceil((last.timestamp() - begin) / grain), last


def _combine_members(sums: dict[str, np.ndarray], device: FleetDevice) -> dict[str, np.ndarray]:
    """Returns the demand on an array from the sums of its members: a mirror writes everything
    twice, and parity reads before it writes."""
    with translate_core_errors():
        cost = core.storage_cost(device.make_storage().text)
    reads_per_write = cost["reads_per_write"]
    writes_per_write = cost["ios_per_write"] - reads_per_write
    demand = {}
    for unit in ("ops", "bytes"):
        writes = sums[f"write_{unit}"] / writes_per_write
        reads = np.maximum(sums[f"read_{unit}"] - reads_per_write * writes, 0.0)
        demand |= {f"read_{unit}": reads / cost["ios_per_read"], f"write_{unit}": writes}
    return demand


def _uncensor_demand(history: DeviceHistory) -> DeviceHistory:
    """Returns the history with its demand raised where the volume was at a limit: to the I/Os
    given, and the growth of the queue within the period."""
    if not history.censored.any():
        return history
    columns = history.columns
    waiting = np.nan_to_num(history.queue)
    given = history.given_iops * history.grain_s
    # Requests are counted when they are answered; those answered from the queue arrived before, so
    # the demand is the answered requests and the growth of the queue.
    more = np.diff(waiting, prepend=0.0)
    near = history.censored | np.roll(history.censored, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(near & (given > 0), np.maximum(given + more, 0.0) / given, 1.0)
    raised = {name: columns[name] * factor for name in ("reads_per_s", "writes_per_s")}
    return replace(history, columns=columns | raised)


def _compute_demand(sums: dict[str, np.ndarray], grain: float) -> dict[str, np.ndarray]:
    """Returns the columns of DeviceHistory (rates a second, mean bytes of an I/O; 0 without I/Os)
    from the operations and bytes of each period of `grain` seconds."""

    def compute_size(ops: np.ndarray, total: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(ops > 0, total / ops, 0.0)
        return np.where(ops > 0, np.clip(mean, LEAST_IO_BYTES, MOST_IO_BYTES), 0.0)

    return {
        "duration_s": np.full(len(sums["read_ops"]), grain),
        "reads_per_s": sums["read_ops"] / grain,
        "writes_per_s": sums["write_ops"] / grain,
        "read_bytes": compute_size(sums["read_ops"], sums["read_bytes"]),
        "write_bytes": compute_size(sums["write_ops"], sums["write_bytes"]),
    }


# --- unused volumes -------------------------------------------------------------------------------


# I/Os a second in the mean of a day, as AWS counts them: "less than 1 IOPS a day" is read as one
# I/O a day (Trusted Advisor, check DAvU99Dc4C, which leaves boot volumes out too).
LEAST_IOS_A_DAY = 1.0


def judge_use(device: FleetDevice, points: Mapping[str, pl.DataFrame], least_days: float) -> tuple[Verdict, str] | None:
    """Returns a verdict and its reason: "unused", or "withheld" for a volume that is attached to
    nothing and did I/O within the points; None where it is in use, or not known."""
    if any(member.managed_by or member.root for member in device.members):
        return None
    detached = all(member.state == "available" and not member.attachments for member in device.members)
    last = max((_find_last_io(points.get(member.id)) for member in device.members), default=0.0)
    what = "It is" if len(device.members) == 1 else f"All {len(device.members)} volumes are"
    if detached and last:
        at = f"{datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M} UTC"
        return "withheld", f"{what.lower()} attached to nothing now, and did I/O until {at}: ask before it is deleted"
    if detached:
        created = max((member.created for member in device.members if member.created), default=None)
        since = f" (made on {created:%Y-%m-%d})" if created else ""
        return "unused", f"{what} attached to nothing{since}. Keep a snapshot and delete it."
    days = min((_count_idle_days(points.get(member.id)) for member in device.members), default=0.0)
    if days < least_days:
        return None
    return "unused", f"no I/O in {days:.0f} days, and attached. Ask its owner; keep a snapshot and delete it."


def _find_last_io(rows: pl.DataFrame | None) -> float:
    """Returns the end of the last period with I/O, seconds since 1970; 0 without any."""
    if rows is None or not rows.height:
        return 0.0
    busy = rows.filter(pl.any_horizontal(pl.col("read_ops") > 0, pl.col("write_ops") > 0))
    return float((busy["t_unix"] + busy["period_s"]).max() or 0.0) if busy.height else 0.0  # pyright: ignore[reportArgumentType]


def _count_idle_days(rows: pl.DataFrame | None) -> float:
    """Returns the days of points of a volume with hardly an I/O; 0 where it had more, or without
    points."""
    if rows is None or not rows.height:
        return 0.0
    whole = rows.filter(pl.all_horizontal(pl.col(name).is_not_nan() for name in SUMS))
    days = float(whole["period_s"].sum()) / DAY_S
    ios = float(whole["read_ops"].sum()) + float(whole["write_ops"].sum())
    return days if days > 0 and ios < LEAST_IOS_A_DAY * days else 0.0
