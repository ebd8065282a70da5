"""When the credits run out: in the next minutes at today's rate, and in the next days.

The next days are made of days like those recorded. Whole days are drawn, which keeps the shape of
a morning; the first hours lean to the level of the last hour by as much as one hour resembles the
next in the recording. Each of the made futures is simulated on the storage from today's balances,
of the volumes and of the instance, and what happens in 200 of them is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from headrace.errors import InputError
from headrace.observe.evidence.limits import get_holding_limits
from headrace.operate.forecast.balances import Balances, estimate_balances, follow
from headrace.operate.forecast.history import (
    SLOT_S,
    SLOTS_PER_DAY,
    SLOTS_PER_HOUR,
    DemandHistory,
    compute_means,
    make_workload,
    refuse,
    sum_iops,
)
from headrace.operate.forecast.trend import SHOWN, find_days_with_demand, fit_trend
from headrace.workload import OpenWorkload
from headrace.workload.points import make_points

RUNS = 200  # futures: a share of 10 % is then known to 2 %
LEAST_DAYS = 3  # whole days: fewer show no spread between days
WEEKDAY_DAYS = 3  # of one weekday before it stands for itself (the specification of this forecast)
ENOUGH_DAYS = 10  # alike, before whole days are drawn from them alone; a guess
CLASS_DAYS = 2  # of working days and of days of a weekend before they are told apart; a guess
TREND_DAYS = 14  # with demand, before the level of days is given a trend
MARKS_H = (1, 6, 24, 48, 72)  # hours ahead at which the balance is kept, to be scored later
# A future's first hours may lie this far from the drawn day: beyond, the hour was an accident.
MOST_FACTOR = 10.0
QUIET_SHARE = 0.01  # of the mean demand: keeps ratios of idle hours finite
LAST_S = 60.0  # seconds of the mean that is taken to continue; a single sample is too much chance. Ours
SOON_MINUTES = 15  # whose one-minute means give the interval of the next minutes
MOST_HOURS = 24 * 14  # two weeks: days drawn from the past say nothing of later ones


@dataclass(frozen=True)
class BalanceMark:
    """The balance in percent `hours` from now: 10th, 50th and 90th percentile of the futures. It is
    the volumes' (the instance's where they have none), as a recording can tell it later."""

    hours: float
    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class CreditsSoon:
    """Seconds until the credits are gone if the demand stays as in the last minute; infinite
    where the balance does not fall. `earliest`, `latest`: at the 90th and 10th percentile of the
    one-minute means of the last 15 minutes; None where the recording is coarser than that."""

    seconds: float
    earliest: float | None
    latest: float | None


@dataclass(frozen=True)
class CreditForecast:
    """Credits over the next `hours`, from `runs` futures.

    `balance_percent`: where they begin, of the volumes (of the instance where they have none);
    `balance_source`: recorded, given, or simulated; `balance_age_s`: how long before the end of the
    recording it was recorded, and from when on it is simulated. `instance_percent`: where those of
    the instance begin, simulated; None where not both have credits. `share_empty`: futures in which
    credits run out. `empty_after_h`: 10th, 50th and 90th percentile of when, in hours, infinite
    where they do not. `outage_h`: how long they are gone in all, of the futures in which they run
    out; None where there is none. `throttled_by_hour`: for each hour of the day, the mean minutes
    an hour in which requests wait. `fan`: `hours`, `low`, `middle`, `high` of the lowest balance
    after each five minutes. `drawn_from`: of how many days the futures are made.
    """

    hours: int
    runs: int
    balance_percent: float
    balance_source: str
    balance_age_s: float
    instance_percent: float | None
    share_empty: float
    empty_after_h: tuple[float, float, float]
    outage_h: tuple[float, float, float] | None
    throttled_by_hour: tuple[float, ...]
    marks: tuple[BalanceMark, ...]
    fan: pl.DataFrame
    drawn_from: int
    soon: CreditsSoon


def has_credits(storage: str, instance: str | None, as_of: str | None) -> bool:
    """Returns whether anything on this storage and instance can run out. Raises InputError for an
    instance that is not known."""
    limits = get_holding_limits(storage, instance, as_of)
    return limits.credits is not None or limits.instance_burst_s > 0


def check_balance(percent: float, storage: str, instance: str | None, as_of: str | None) -> None:
    """Raises InputError for a balance, percent, of storage that has no credits."""
    if has_credits(storage, instance, as_of):
        return
    rule = f"{storage}{'' if instance is None else f' on {instance}'} has no credits that could run out"
    raise InputError(f"--balance {percent:g}", rule, "data/volumes", "Leave it out, or name other storage.")


def forecast_credits(
    workload: OpenWorkload,
    history: DemandHistory,
    storage: str,
    *,
    hours: int = 72,
    balance_percent: float | None = None,
    instance: str | None = None,
    as_of: str | None = None,
    runs: int = RUNS,
    seed: int = 1,
    progress: Callable[[float], None] | None = None,
) -> CreditForecast:
    """Forecasts the credits of `storage` over the next hours, if demand goes on as in the history:
    simulates `runs` futures. `balance_percent`: of the volumes now; None: recorded or simulated.

    Raises InputError for fewer than three whole days, or for a storage without credits.
    """
    if not has_credits(storage, instance, as_of):
        place = storage if instance is None else f"{storage} on {instance}"
        rule = "has no credits that could run out"
        raise InputError(place, rule, "headrace catalog", "There is nothing to forecast.")
    _, days = history.list_whole_days()
    if len(days) < LEAST_DAYS:
        rule = f"days are drawn from at least {LEAST_DAYS} whole ones, from midnight to midnight"
        raise refuse.input(f"whole days of demand: {len(days)}", rule, "Record longer.")
    balances = estimate_balances(workload, storage, balance_percent, instance=instance, as_of=as_of)
    drawn = sample_futures(history, hours, runs, seed)
    empty_h, outage_h, own, lowest, waits = [], [], [], [], np.zeros(24)
    hourly = slice(SLOTS_PER_HOUR - 1, None, SLOTS_PER_HOUR)
    waiting = _compute_backlog(history, balances.backlog)
    for index, rates in enumerate(drawn):
        rates[0] += waiting
        future = make_workload(history, rates, "future")
        run = follow(future, storage, balances, interval_s=float(SLOT_S), instance=instance, as_of=as_of)
        empty_h.append(run.empty_at_s / 3_600)
        outage_h.append(run.empty_s / 3_600)
        own.append(run.own[hourly])
        lowest.append(run.lowest)
        waits += _sum_by_hour(run.t_s, run.throttled_s, history.end)
        if progress is not None:
            progress((index + 1) / runs)
    return _summarize_futures(
        hours,
        balances,
        empty_h=empty_h,
        outage_h=outage_h,
        own=np.array(own),
        lowest=np.array(lowest),
        waits=waits,
        days=len(days),
        soon=estimate_emptying(
            workload, storage, balances.volume, instance_balance=balances.instance, instance=instance, as_of=as_of
        ),
    )


def _compute_backlog(history: DemandHistory, ios: float) -> np.ndarray:
    """Returns the I/Os that wait at the end of the recording, as demand of the first slot that
    follows: the simulation that a forecast is scored by carries them on too. Their mix is that of
    the last slot with demand."""
    busy = np.flatnonzero(history.iops > 0)
    if not len(busy) or ios <= 0.0:
        return np.zeros(history.rates.shape[1])
    last = history.rates[busy[-1]]
    return last / sum_iops(last) * (ios / SLOT_S)


def estimate_emptying(
    workload: OpenWorkload,
    storage: str,
    balance: float | None,
    *,
    instance_balance: float | None = None,
    instance: str | None = None,
    as_of: str | None = None,
) -> CreditsSoon:
    """Returns when the credits are gone if the demand stays at the mean of the last minute (or
    point). `balance`, `instance_balance`: of the volumes and of the instance now, percent."""
    minute = _average_last_minute(workload)
    last = minute[0] + minute[1]
    balances = Balances(balance, instance_balance, "given")

    def compute_time_to_empty(rate: float) -> float:
        return _simulate_steady(minute, rate / last if last else 0.0, storage, balances, instance, as_of)

    if workload.points["duration_s"][-1] > LAST_S or workload.span_s < SOON_MINUTES * 60:
        return CreditsSoon(compute_time_to_empty(last), None, None)
    edges = np.append(workload.points["t_s"].to_numpy(), workload.span_s)
    rates = (workload.points["reads_per_s"] + workload.points["writes_per_s"]).to_numpy()
    means = compute_means(workload.span_s - 60.0 * np.arange(SOON_MINUTES, -1, -1), edges, rates)
    low, _, high = _unpack_percentiles(np.percentile(means, SHOWN))
    return CreditsSoon(compute_time_to_empty(last), compute_time_to_empty(high), compute_time_to_empty(low))


def _average_last_minute(workload: OpenWorkload) -> tuple[float, float, float, float]:
    """Returns reads and writes a second and their sizes in KiB, on average over the last minute."""
    points = workload.points
    begins = points["t_s"].to_numpy()
    ends = begins + points["duration_s"].to_numpy()
    seconds = np.clip(ends - np.maximum(begins, workload.span_s - LAST_S), 0.0, None)

    def mean(rates: np.ndarray) -> float:
        return float(rates @ seconds) / float(seconds.sum())

    directions = []
    for rate, size in (("reads_per_s", "read_kib"), ("writes_per_s", "write_kib")):
        rates = points[rate].to_numpy()
        ios = mean(rates)
        directions.append((ios, mean(rates * points[size].to_numpy()) / ios if ios else 0.0))
    (reads, read_kib), (writes, write_kib) = directions
    return reads, writes, read_kib, write_kib


def sample_futures(history: DemandHistory, hours: int, runs: int, seed: int) -> np.ndarray:
    """Returns `runs` demands of the next hours, drawn from days of the history: an array of runs x
    slots x columns."""
    first_midnight, days = history.list_whole_days()
    draw = np.random.default_rng(seed)
    slots = hours * SLOTS_PER_HOUR
    offset = history.compute_slot(len(history.rates))
    midnight = history.end.replace(hour=0, minute=0, second=0)
    drawers = [
        _make_drawer(first_midnight, days, midnight + timedelta(days=day), history.dated)
        for day in range(-(-(offset + slots) // SLOTS_PER_DAY))
    ]
    growth = _compute_growth(days, seed)
    nearness, level, quiet = _compute_level(history, days)
    last_hour = (offset - 1 - np.arange(SLOTS_PER_HOUR)) % SLOTS_PER_DAY
    most = math.log(MOST_FACTOR)
    fading = nearness ** (np.arange(slots) / SLOTS_PER_HOUR)
    demand = np.empty((runs, slots, 4))
    for run in range(runs):
        parts = []
        for ahead, drawer in enumerate(drawers):
            day, rates = drawer(int(draw.integers(len(days))))
            parts.append(rates * growth ** ((midnight - first_midnight).days + ahead - day))
        usual = math.log(float(sum_iops(parts[0][last_hour]).mean()) + quiet)
        factor = np.exp(np.clip(level - usual, -most, most) * fading)
        demand[run] = np.concatenate(parts)[offset : offset + slots] * factor[:, None]
    return demand


def _make_drawer(
    first: datetime, days: np.ndarray, day: datetime, dated: bool
) -> Callable[[int], tuple[int, np.ndarray]]:
    """Returns the function that makes a future `day` from a drawn number: the index of the recorded
    day that it stands for, and its slots.

    If few days are like it (its weekday, a weekend), it has their usual shape and the deviation of
    any day from its own like: three days alone would make three futures.
    """
    every = np.arange(len(days))
    weekday = (first.weekday() + every) % 7 if dated else np.zeros(len(days), dtype=int)
    alike = _find_like_days(weekday, day.weekday() if dated else 0)
    if len(alike) >= ENOUGH_DAYS or len(alike) == len(days):
        return lambda number: (int(alike[number % len(alike)]), days[alike[number % len(alike)]])
    usual = np.median(days[alike], axis=0)
    iops = sum_iops(days)
    quiet = _compute_quiet(iops)
    apart = np.empty_like(iops)
    for index in every:
        # Against the others of its like: with itself among three it would be too near.
        others = [other for other in _find_like_days(weekday, int(weekday[index])) if other != index]
        apart[index] = (iops[index] + quiet) / (np.median(iops[others], axis=0) + quiet)
    middle = int(np.median(alike))
    return lambda number: (middle, usual * np.minimum(apart[number], MOST_FACTOR)[:, None])


def _compute_quiet(iops: np.ndarray) -> float:
    """Returns the IOPS that are added to demands before ratios, which idle hours would make
    endless."""
    return QUIET_SHARE * max(float(iops.mean()), 1.0)


def _find_like_days(weekday: np.ndarray, day: int) -> np.ndarray:
    """Returns the days that may stand for a weekday: the same one where three are known, else
    working days for working days and weekends for weekends, else all."""
    same = np.flatnonzero(weekday == day)
    if len(same) >= WEEKDAY_DAYS:
        return same
    alike = np.flatnonzero((weekday >= 5) == (day >= 5))
    return alike if len(alike) >= CLASS_DAYS else np.arange(len(weekday))


def _compute_growth(days: np.ndarray, seed: int) -> float:
    """Returns the factor by which demand grows from a day to the next; 1 where there is no
    trend."""
    totals = sum_iops(days).mean(axis=1)
    days_with_demand = find_days_with_demand(totals)  # the others keep their place in time
    if len(days_with_demand) < TREND_DAYS:
        return 1.0
    trend = fit_trend(np.log(totals[days_with_demand]), seed, days_with_demand - (len(totals) - 1), logarithms=True)
    return math.exp(trend.per_day) if trend.claimed else 1.0


def _compute_level(history: DemandHistory, days: np.ndarray) -> tuple[float, float, float]:
    """Returns how much an hour resembles the next (0..1), the logarithm of the last hour's demand,
    and what was added to keep it finite."""
    iops = sum_iops(days)
    quiet = _compute_quiet(iops)
    hourly = np.log(iops.reshape(len(days), 24, SLOTS_PER_HOUR).mean(axis=2) + quiet)
    apart = (hourly - np.median(hourly, axis=0)).ravel()
    spread = float(apart @ apart)
    nearness = float(np.clip(apart[1:] @ apart[:-1] / spread, 0.0, 1.0)) if spread > 0 else 0.0
    return nearness, math.log(float(history.iops[-SLOTS_PER_HOUR:].mean()) + quiet), quiet


def _sum_by_hour(t_s: np.ndarray, throttled_s: np.ndarray, begin: datetime) -> np.ndarray:
    """Returns the minutes of waiting in each hour of the day, 24 figures. `t_s`: seconds since
    `begin`."""
    minutes = np.zeros(24)
    for at_s, waited_s in zip(t_s, throttled_s, strict=True):
        minutes[(begin + timedelta(seconds=float(at_s))).hour] += waited_s / 60
    return minutes


def _simulate_steady(
    minute: tuple[float, float, float, float],
    factor: float,
    storage: str,
    balances: Balances,
    instance: str | None,
    as_of: str | None,
) -> float:
    """Returns seconds until the credits are gone at `factor` times the demand of the last minute;
    infinite where they last two weeks."""
    if factor == 0.0:
        return math.inf
    reads, writes, read_kib, write_kib = minute
    count = MOST_HOURS  # points of an hour, the longest that a recording may have
    columns = [[value] * count for value in (reads * factor, writes * factor, read_kib, write_kib)]
    points = make_points([3_600.0 * hour for hour in range(count)], [3_600.0] * count, *columns)
    load = OpenWorkload(name="steady", kind="recorded", points=points)
    return follow(load, storage, balances, instance=instance, as_of=as_of).empty_at_s


def _summarize_futures(
    hours: int,
    balances: Balances,
    *,
    empty_h: list[float],
    outage_h: list[float],
    own: np.ndarray,
    lowest: np.ndarray,
    waits: np.ndarray,
    days: int,
    soon: CreditsSoon,
) -> CreditForecast:
    """Returns the forecast of all futures together. `empty_h`: hours until credits are empty, and
    `outage_h`: for how long they are, by future; `own`, `lowest`: balances, percent, by future and
    hour or slot; `waits`: minutes of waiting by hour of the day; `days`: that were recorded."""
    runs = len(empty_h)
    drawn, promised = (np.percentile(levels, SHOWN, axis=0) for levels in (lowest, own))
    fan = pl.DataFrame(
        {"hours": np.arange(1, hours * SLOTS_PER_HOUR + 1) / SLOTS_PER_HOUR}
        | dict(zip(("low", "middle", "high"), drawn, strict=True))
    )
    marks = tuple(
        BalanceMark(float(hour), *(float(value) for value in promised[:, hour - 1]))
        for hour in MARKS_H
        if hour <= hours
    )
    empty_after = _unpack_percentiles(np.percentile(empty_h, SHOWN, method="closest_observation"))
    outages = [length for length in outage_h if length > 0]
    balance = next((percent for percent in (balances.volume, balances.instance) if percent is not None), math.nan)
    longest = _unpack_percentiles(np.percentile(outages, SHOWN)) if outages else None
    return CreditForecast(
        hours,
        runs,
        balance,
        balances.source,
        balances.age_s,
        None if balances.volume is None else balances.instance,
        sum(map(math.isfinite, empty_h)) / runs,
        empty_after,
        longest,
        tuple(float(value) for value in waits / (runs * hours / 24)),
        marks,
        fan,
        days,
        soon,
    )


def _unpack_percentiles(values: np.ndarray) -> tuple[float, float, float]:
    low, middle, high = (float(value) for value in values)
    return low, middle, high
