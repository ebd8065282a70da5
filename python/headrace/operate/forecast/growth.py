"""When growth meets a limit: a trend of the busiest five minutes of each day.

Charged rates, as EBS counts them (the core's `demand_on_volumes`): I/Os of 256 KiB, members of an
array one by one. The limit is met at 90 % of it, where queues begin to show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.base import core
from headrace.base.storage import Storage
from headrace.base.units import MIB
from headrace.observe.evidence.limits import get_holding_limits
from headrace.operate.forecast.history import SLOTS_PER_DAY, DemandHistory, make_workload, refuse
from headrace.operate.forecast.trend import LEAST_DAYS, Trend, find_days_with_demand, fit_trend

BUSY_PERCENTILE = 99.0  # of the five-minute rates of a day: its third busiest slot of 288
MET_AT = 0.9  # share of the limit


@dataclass(frozen=True)
class GrowthForecast:
    """One limit. `cap`: its name as in a simulation's rows; `limit`: in `unit`. `share_now`: the
    trend's busy rate on the last day, divided by the limit. `trend`: of the logarithm of the busy
    rate, per day; where it is not `claimed` there is "no trend". `days`: 10th, 50th and 90th
    percentile of days until 90 % of the limit, infinite where it is not in sight. `busy`: the 99th
    percentile of the five-minute rates of each whole day, in `unit`; the trend leaves out days that
    were idle, or nearly so."""

    cap: str
    unit: str
    limit: float
    share_now: float
    trend: Trend
    days: tuple[float, float, float]
    busy: np.ndarray = field(repr=False)

    @property
    def at_limit(self) -> bool:
        """True when 90 % of the limit is met now."""
        return self.share_now >= MET_AT

    @property
    def growth_per_month(self) -> tuple[float, float, float]:
        """Growth in 30 days as a share: the 10th percentile, the trend and the 90th."""
        slopes = (self.trend.low, self.trend.per_day, self.trend.high)
        low, middle, high = (math.expm1(30.0 * slope) for slope in slopes)
        return low, middle, high


def forecast_limits(
    history: DemandHistory, storage: str, *, instance: str | None = None, as_of: str | None = None, seed: int = 1
) -> tuple[GrowthForecast, ...]:
    """Forecasts when each limit of the storage (and of the instance) is met, the earliest first.

    A day without demand, or with hardly any, tells nothing of growth and is left out; the others
    keep their place in time. Raises InputError for fewer than 14 whole days with demand, or an
    instance that is not known.
    """
    _, days = history.list_whole_days()
    if len(days) < LEAST_DAYS:
        rule = f"growth needs at least {LEAST_DAYS} whole days, from midnight to midnight"
        raise refuse.input(f"whole days of demand: {len(days)}", rule, "Record longer.")
    load = replace(make_workload(history, days.reshape(-1, 4), "history"), size_gib=None)
    charged = core.demand_on_volumes(load.to_core(), storage)  # on all volumes together
    idle = len(days) - len(find_days_with_demand(_compute_busy_rates(charged["iops"])))
    if len(days) - idle < LEAST_DAYS:
        rule = (
            f"growth needs at least {LEAST_DAYS} whole days with demand; {idle} of {len(days)} were idle or nearly idle"
        )
        raise refuse.input(f"whole days with demand: {len(days) - idle}", rule, "Record longer.")
    full_units = any(member["random_charges_full_unit"] for member in core.storage_limits(storage, as_of, instance))
    mib_s = charged["hdd_mib_s" if full_units else "mib_s"]
    # The volumes' rates with credits count: `credits` answers when these run out.
    # Members carry like shares, so a stripe is met where its weakest member is.
    members = [get_holding_limits(str(member), instance, as_of) for member in Storage.parse(storage).members]
    count, whole = len(members), members[0]
    limits = [
        ("volume-iops", "IOPS", min(member.burst_iops for member in members) * count, charged["iops"]),
        ("volume-throughput", "MiB/s", min(member.burst_bytes_s for member in members) * count / MIB, mib_s),
        ("instance-iops", "IOPS", whole.instance_iops or 0.0, charged["iops"]),
        ("instance-throughput", "MiB/s", (whole.instance_bytes_s or 0.0) / MIB, mib_s),
    ]
    forecasts = [_forecast_limit(cap, unit, limit, rates, seed) for cap, unit, limit, rates in limits if limit > 0]
    return tuple(sorted(forecasts, key=lambda forecast: (forecast.days[1], -forecast.share_now)))


def _compute_busy_rates(rates: Sequence[float]) -> np.ndarray:
    """Returns the busy rate of each day, the 99th percentile of its five-minute rates."""
    return np.percentile(np.reshape(rates, (-1, SLOTS_PER_DAY)), BUSY_PERCENTILE, axis=1)


def _forecast_limit(cap: str, unit: str, limit: float, rates: Sequence[float], seed: int) -> GrowthForecast:
    """Forecasts when `rates`, five-minute rates of whole days in `unit`, meet 90 % of the limit."""
    busy = _compute_busy_rates(rates)
    days_with_demand = find_days_with_demand(busy)
    trend = fit_trend(np.log(busy[days_with_demand]), seed, days_with_demand - (len(busy) - 1), logarithms=True)
    never = (math.inf, math.inf, math.inf)
    growing = trend.claimed and trend.per_day > 0
    days = trend.forecast_days(math.log(MET_AT * limit)) if growing else never
    return GrowthForecast(cap, unit, limit, math.exp(trend.now) / limit, trend, days, busy)
