"""Finds the points of a recording whose rates are a limit of the volume, not a demand.

A volume at its limit gives a flat rate however much is asked. Such points are *censored*: the
demand is known only from below. The rule that finds them, and what it misses, is in
docs/reference/import-formats.md, "Demand and recorded rate". Every threshold below
is ours (a guess, tried on simulated recordings in tests/unit/workload/test_observed.py) unless it
names a source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.workload.observed import CensoredWindow, Unit, compute_recorded_latency

# A point is slow from this many times the usual latency on; at the figure of a known limit less is
# enough.
SLOW_FACTOR = 3.0
SLOW_FACTOR_AT_KNOWN_LIMIT = 1.5  # times the usual
SLOW_LEAST_MS = 0.5  # above the usual latency; less is noise of the tool
# The usual latency is this quantile of the points with I/O: most of a recording may be throttled.
USUAL_QUANTILE = 0.2
# No SSD volume at rest takes longer on average (EBS user guide: single-digit milliseconds, io2
# below one). If even the fastest fifth of a recording is slower, all of it may be throttled, so the
# usual is not believed above this.
USUAL_AT_MOST_MS = 1.5
# Below this many outstanding, requests wait for each other's answers (one thread), not for a limit.
WAITING_LEAST = 2.0
UTIL_FULL_PERCENT = 99.0  # busy all the time but for rounding
CREDITS_GONE_PERCENT = 1.0  # CloudWatch prints whole per cents
# A rate is flat within this share, and one clock tick (10 ms) at each end of a point.
FLAT_SHARE = 0.01
TICKS_S = 0.01  # the tick of Linux's accounting (USER_HZ)
FLAT_SHARE_AT_KNOWN_LIMIT = 0.005  # of the limit
# The top of a recording without latency, if it is not a known limit, must be flatter and longer;
# steady demand is that flat too, so not the greater part of a recording.
FLAT_SHARE_OF_ANY_TOP = 0.002
LEAST_RUN_OF_ANY_TOP = 10  # points in a row
# A level this little below another is that limit with a little less demand, not a second limit.
ECHO_SHARE = 0.05
FLAT_SHARE_OF_STRETCH = 0.5  # of the slow points in a row
# A rested volume gives a second's worth above its limit (docs/semantics.md, the saved second); half
# of one more for the tool's clock.
SAVED_S = 1.5
LONG_RUN = 10  # points whose scatter tells how flat a run is
LEAST_BAND = 0.001  # share: figures are printed to two decimals
LEAST_RUN = 3  # points: two alike may be chance
LEAST_RUN_WITHOUT_LATENCY = 5  # points, where nothing but the rate tells
LEAST_SCATTERED = 5  # points at one level that do not follow each other
# Share of all points at a level that must be slow: a rate the volume often gave without waiting is
# not a limit.
SLOW_SHARE_AT_LEVEL = 0.75
# Limits of EBS volume types (data/volumes): gp3 base, gp2 and gp3 before and since 2025-09-26, io1,
# io2; IOPS and MiB/s.
KNOWN_IOPS = (3_000.0, 10_000.0, 16_000.0, 20_000.0, 32_000.0, 64_000.0, 80_000.0, 256_000.0)
KNOWN_MIB_S = (125.0, 128.0, 160.0, 250.0, 320.0, 500.0, 1_000.0, 2_000.0, 4_000.0)


@dataclass(frozen=True)
class Censoring:
    """Result of `find_censored`: the windows, and for each point the factor from the recorded rate
    to the least demand, and whether it is censored; None without windows."""

    windows: tuple[CensoredWindow, ...]
    at_least_factor: pl.Series | None = None
    censored: pl.Series | None = None


@dataclass
class _Series:
    """The points of a recording as arrays, NaN for values that were not recorded. `rates` are by
    unit, IOPS or MiB/s; `queue` is in requests outstanding, `util` and `balance` in %; `usual_ms`
    is the usual latency; `members` the number of volumes of the array."""

    t_s: np.ndarray
    duration_s: np.ndarray
    rates: dict[Unit, np.ndarray]
    latency_ms: np.ndarray
    queue: np.ndarray
    util: np.ndarray
    balance: np.ndarray
    usual_ms: float  # NaN without latencies
    members: int
    counts_ios: bool  # vmstat counts bytes only


@dataclass
class _Run:
    """A run of points, index `first` to `last`, whose rates are at one `level` in `unit`. `spread`:
    standard deviation over the level; `is_known`: a volume is sold with this limit; `credits`: the
    level is a limit only while credits are spent."""

    unit: Unit
    first: int
    last: int
    level: float
    spread: float
    is_known: bool
    credits: bool


def find_censored(points: pl.DataFrame, source: dict) -> Censoring:
    """Finds the points of a recording at which the rate, in IOPS or in MiB/s, was a limit of the
    volume. `points` and `source` are those of an open workload; of the source `tool`, `device` and
    `scaled_by` are read."""
    series = _make_series(points, source)
    slow, at_known = _find_slow(series)
    runs = []
    for unit in series.rates:
        if unit == "MiB/s" or series.counts_ios:
            runs += _find_flat_runs(series, unit, slow) + _find_top_runs(series, unit, at_known)
    owner = _assign_owners(series, runs, slow)
    return _join_windows(series, runs, owner)


def _make_series(points: pl.DataFrame, source: dict) -> _Series:
    """Returns the recording as arrays, with rates as they were measured: the factor `scaled_by` of
    the source is divided out. A queue that was not recorded follows by Little's law."""
    scale = float(source.get("scaled_by", 1.0))

    def read_column(name: str) -> np.ndarray:
        if name not in points.columns:
            return np.full(points.height, np.nan)
        return points[name].fill_null(float("nan")).to_numpy()

    reads, writes = points["reads_per_s"].to_numpy() / scale, points["writes_per_s"].to_numpy() / scale
    mib_s = (reads * points["read_kib"].to_numpy() + writes * points["write_kib"].to_numpy()) / 1024.0
    latency = compute_recorded_latency(points, scale)
    latency_ms = (
        np.full(points.height, np.nan) if latency is None else latency["mean_ms"].fill_null(float("nan")).to_numpy()
    )
    finite_ms = latency_ms[np.isfinite(latency_ms)]
    queue = read_column("queue")
    queue = np.where(np.isfinite(queue), queue, (reads + writes) * latency_ms / 1_000.0)
    return _Series(
        points["t_s"].to_numpy(),
        points["duration_s"].to_numpy(),
        {"IOPS": reads + writes, "MiB/s": mib_s},
        latency_ms,
        queue,
        read_column("util_percent"),
        read_column("balance_percent"),
        float(np.quantile(finite_ms, USUAL_QUANTILE)) if finite_ms.size else float("nan"),
        str(source.get("device", "")).count("+") + 1,
        source.get("tool") != "vmstat",
    )


def _find_slow(series: _Series) -> tuple[np.ndarray, np.ndarray]:
    """Returns two masks of points at which requests waited for a limit: the slow ones, and those
    that are slow enough at the figure of a known limit."""
    usual = min(series.usual_ms, USUAL_AT_MOST_MS) if np.isfinite(series.usual_ms) else float("nan")
    has_no_latency = ~np.isfinite(series.latency_ms)
    with np.errstate(invalid="ignore"):
        is_slow = (series.latency_ms >= SLOW_FACTOR * usual) & (series.latency_ms >= usual + SLOW_LEAST_MS)
        slow = is_slow & (series.queue >= WAITING_LEAST)
        # Utilisation alone says only that the device was never idle: it counts where no latency was
        # recorded.
        slow |= has_no_latency & (series.util >= UTIL_FULL_PERCENT)
        slow |= series.balance <= CREDITS_GONE_PERCENT
        idle = series.util < 90.0
        at_known = (has_no_latency & ~idle) | (series.latency_ms >= SLOW_FACTOR_AT_KNOWN_LIMIT * usual)
    return slow & (series.rates["IOPS"] > 0), at_known | slow


def _compute_tolerance(series: _Series) -> np.ndarray:
    """Returns for each point the share by which it may differ from a level: more for short
    points."""
    return FLAT_SHARE + TICKS_S / series.duration_s


def _find_flat_runs(series: _Series, unit: Unit, slow: np.ndarray) -> list[_Run]:
    """Finds runs of slow points at one level that the volume seldom reached at other points."""
    rate, tolerance = series.rates[unit], _compute_tolerance(series)
    slow_points = np.flatnonzero(slow)
    judged_runs: list[_Run] = []
    for stretch in np.split(slow_points, np.flatnonzero(np.diff(slow_points) > 1) + 1):
        runs = _split_levels(stretch.tolist(), rate, tolerance)
        # Slow all along but at many rates is a volume in trouble or under mixed load, not one at a
        # limit.
        is_mostly_flat = sum(last - first + 1 for first, last in runs) >= FLAT_SHARE_OF_STRETCH * stretch.size
        judged = (_judge_run(series, unit, first, last, slow, is_mostly_flat) for first, last in runs)
        judged_runs += [run for run in judged if run is not None]
    scattered = _find_scattered(series, unit, slow)
    return _drop_echoes([*judged_runs, *([scattered] if scattered else [])])


def _split_levels(stretch: list[int], rate: np.ndarray, tolerance: np.ndarray) -> list[tuple[int, int]]:
    """Splits a stretch of consecutive points where the rate leaves the mean so far by more than the
    tolerance; returns the first and last index of each part of LEAST_RUN points or more."""
    parts, first, total = [], 0, 0.0
    for index, at in enumerate(stretch):
        level = total / (index - first) if index > first else float(rate[at])
        if abs(rate[at] - level) > tolerance[at] * level:
            parts.append((first, index - 1))
            first, total = index, 0.0
        total += float(rate[at])
    parts.append((first, len(stretch) - 1))
    return [(stretch[first], stretch[last]) for first, last in parts if last - first + 1 >= LEAST_RUN]


def _drop_echoes(runs: list[_Run]) -> list[_Run]:
    """Returns the runs without those just below the level of a longer run: there demand nearly
    reached the limit."""
    # The longest run of each level: a day has few levels and may have thousands of runs.
    longest: dict[int, _Run] = {}
    for run in runs:
        best = longest.setdefault(_compute_level_key(run.level), run)
        if run.last - run.first > best.last - best.first:
            longest[_compute_level_key(run.level)] = run
    return [
        run
        for run in runs
        if not any(
            run.level * (1 + FLAT_SHARE) < other.level <= run.level * (1 + ECHO_SHARE)
            and other.last - other.first > run.last - run.first
            for other in longest.values()
        )
    ]


def _compute_level_key(level: float) -> int:
    """Returns a number that levels within half a per cent share."""
    return round(math.log(level) / 0.005)


def _judge_run(
    series: _Series, unit: Unit, first: int, last: int, slow: np.ndarray, mostly_flat: bool = True
) -> _Run | None:
    """Returns the run of points `first` to `last` if its level may be a limit, else None: if points
    at that level were mostly slow, and higher rates, if any, came from credits."""
    rate, tolerance = series.rates[unit], float(_compute_tolerance(series)[first])
    level = float(np.median(rate[first : last + 1]))
    spread = float(np.std(rate[first : last + 1]) / level) if level > 0 else 0.0
    # Demand may pass the level of spent credits on its way up and down; a long run is known closely
    # enough not to count that.
    band = min(tolerance, max(3.0 * spread, LEAST_BAND)) if last - first + 1 >= LONG_RUN else tolerance
    near = np.abs(rate - level) <= band * level
    if level <= 0 or slow[near].mean() < SLOW_SHARE_AT_LEVEL:
        return None
    exceeded = _is_exceeded(series, rate, level, tolerance)
    credits = exceeded or _has_spent_credits(series, first, last)
    # A level that the volume exceeded at other times is a limit only while credits are gone, and
    # that lasts.
    if exceeded and (last - first + 1 < LEAST_RUN_WITHOUT_LATENCY or not mostly_flat):
        return None
    return _Run(
        unit, first, last, level, spread, _find_limit(unit, level, series.members, tolerance) is not None, credits
    )


def _has_spent_credits(series: _Series, first: int, last: int) -> bool:
    """Returns whether the burst balance was recorded for points `first` to `last`, and its median
    was next to nothing."""
    balance = series.balance[first : last + 1]
    return bool(np.isfinite(balance).any() and np.nanmedian(balance) <= CREDITS_GONE_PERCENT)


def _is_exceeded(series: _Series, rate: np.ndarray, level: float, tolerance: float) -> bool:
    """Returns whether the volume gave more than `level` at some time, by more I/Os or bytes than
    the SAVED_S seconds' worth that a rested volume saves."""
    places = np.flatnonzero(rate > level * (1 + 2 * tolerance))
    above = (rate[places] - level) * series.duration_s[places]
    starts = np.flatnonzero(np.diff(places, prepend=-2) > 1)
    return bool(places.size and (np.add.reduceat(above, starts) > SAVED_S * level).any())


def _find_scattered(series: _Series, unit: Unit, slow: np.ndarray) -> _Run | None:
    """Returns the highest level if slow points reach it repeatedly without staying there, as a run
    of a single point that `_assign_owners` adds others to; None if they do not."""
    rate = series.rates[unit]
    top = float(rate.max())
    at_top = slow & (rate >= top * (1 - _compute_tolerance(series)))
    if at_top.sum() < LEAST_SCATTERED:
        return None
    places = np.flatnonzero(at_top)
    judged = _judge_run(series, unit, int(places[0]), int(places[0]), slow)
    if judged is None:
        return None
    level = float(np.median(rate[at_top]))
    return _Run(unit, int(places[0]), int(places[0]), level, 1.0, judged.is_known, judged.credits)


def _find_limit(unit: str, level: float, members: int, share: float) -> float | None:
    """Returns the known limit within `share` of a level, of a volume or of all `members`; None
    without one."""
    limits = KNOWN_IOPS if unit == "IOPS" else KNOWN_MIB_S
    near = [
        limit * count
        for limit in limits
        for count in {1, members}
        if abs(level - limit * count) <= share * limit * count
    ]
    return near[0] if near else None


def _find_top_runs(series: _Series, unit: Unit, may_wait: np.ndarray) -> list[_Run]:
    """Finds runs at the highest rate without evidence from latency: at a known limit, or flatter
    than demand can be. `may_wait` marks points at which requests may have waited."""
    rate = series.rates[unit]
    top = float(np.quantile(rate, 0.999) if rate.size > 1_000 else rate.max())
    share, least = FLAT_SHARE_AT_KNOWN_LIMIT + TICKS_S / float(np.median(series.duration_s)), LEAST_RUN_WITHOUT_LATENCY
    limit = _find_limit(unit, top, series.members, share)
    is_known = limit is not None
    if limit is None:
        may_wait, share, least = may_wait & ~np.isfinite(series.latency_ms), FLAT_SHARE_OF_ANY_TOP, LEAST_RUN_OF_ANY_TOP
        limit = float(np.median(rate[rate >= top * (1 - share)]))
    near = np.abs(rate - limit) <= share * limit
    flat = near & may_wait
    whole = near.mean() > 0.5  # flat all along may be a steady demand
    if not flat.any() or flat.sum() < SLOW_SHARE_AT_LEVEL * near.sum() or (least == LEAST_RUN_OF_ANY_TOP and whole):
        return []
    runs = []
    places = np.flatnonzero(flat)
    for part in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
        first, last = int(part[0]), int(part[-1])
        # A limit holds its rate more closely than demand that happens to come near it.
        deviation = np.std(rate[first : last + 1])
        if part.size >= least and deviation <= share / 2 * limit:
            credits = _has_spent_credits(series, first, last)
            runs.append(_Run(unit, first, last, limit, float(deviation / limit), is_known, credits))
    return runs


def _assign_owners(series: _Series, runs: list[_Run], slow: np.ndarray) -> np.ndarray:
    """Returns for each point the index of the run that it belongs to, or -1; sorts `runs`, known
    limits first, then the flattest, of which the first wins. Single slow points at a level join
    its run."""
    owner = np.full(series.t_s.size, -1)
    runs.sort(key=lambda run: (not run.is_known, round(run.spread, 3), run.unit, run.first))
    for index, run in enumerate(runs):
        part = owner[run.first : run.last + 1]
        if run.last - run.first + 1 < LEAST_RUN or (part < 0).sum() >= LEAST_RUN:
            part[part < 0] = index
    tolerance = _compute_tolerance(series)
    levels: dict[tuple[Unit, int], int] = {}
    for index, run in enumerate(runs):
        levels.setdefault((run.unit, _compute_level_key(run.level)), index)
    for (unit, _), index in levels.items():
        level = runs[index].level
        owner[(owner < 0) & slow & (np.abs(series.rates[unit] - level) <= tolerance * level)] = index
    # A slow point between two censored ones: the tool's clock put some of its I/Os into its
    # neighbours.
    between = np.flatnonzero((owner[1:-1] < 0) & slow[1:-1] & (owner[:-2] >= 0) & (owner[2:] >= 0)) + 1
    for at in between.tolist():
        run = runs[owner[at - 1]]
        if series.rates[run.unit][at] >= 0.95 * run.level:
            owner[at] = owner[at - 1]
    return owner


def _join_windows(series: _Series, runs: list[_Run], owner: np.ndarray) -> Censoring:
    """Returns the windows of neighbouring points at the same limit; `owner` has for each point the
    index of its run, -1 for none."""
    places = np.flatnonzero(owner >= 0)
    if not places.size:
        return Censoring(())
    same = [
        after == before + 1 and _have_same_limit(runs[owner[before]], runs[owner[after]])
        for before, after in zip(places.tolist(), places[1:].tolist(), strict=False)
    ]
    factor, windows, start = np.ones(owner.size), [], 0
    for end in range(places.size):
        if end + 1 < places.size and same[end]:
            continue
        first, last = int(places[start]), int(places[end])
        windows.append(_make_window(series, runs[owner[first]], first, last, factor))
        start = end + 1
    return Censoring(tuple(windows), pl.Series("factor", factor), pl.Series("censored", owner >= 0))


def _have_same_limit(run: _Run, other: _Run) -> bool:
    return run.unit == other.unit and abs(run.level - other.level) <= 0.02 * run.level


def _make_window(series: _Series, run: _Run, first: int, last: int, factor: np.ndarray) -> CensoredWindow:
    """Returns the window of points `first` to `last`, means weighted by time; raises the factors of
    its points in `factor` to the least demand."""
    part = slice(first, last + 1)
    weights = series.duration_s[part]

    def mean(values: np.ndarray) -> float | None:
        values = values[part]
        measured = np.isfinite(values)
        return float(np.average(values[measured], weights=weights[measured])) if measured.any() else None

    rates = {unit: float(np.average(rate[part], weights=weights)) for unit, rate in series.rates.items()}
    growth = _measure_queue_growth(series, first, last)
    if growth:
        peak, rate = growth
        demand = series.rates["IOPS"][first : peak + 1]
        factor[first : peak + 1] = np.where(demand > 0, (demand + rate) / np.where(demand > 0, demand, 1.0), 1.0)
    latency, queue = mean(series.latency_ms), mean(series.queue)
    usual = series.usual_ms if np.isfinite(series.usual_ms) else None
    if usual is not None and latency is not None and latency < SLOW_FACTOR_AT_KNOWN_LIMIT * usual:
        usual = None  # the whole recording is like this: nothing to compare with
    at_least = rates["IOPS"] + (growth[1] if growth else 0.0)
    at_most = max(at_least, queue / usual * 1_000.0) if queue is not None and usual else None
    return CensoredWindow(
        from_s=float(series.t_s[first]),
        to_s=float(series.t_s[last] + series.duration_s[last]),
        limit="credits" if run.credits else "iops" if run.unit == "IOPS" else "mib_s",
        recorded=rates[run.unit],
        unit=run.unit,
        usual_latency_ms=usual,
        latency_ms=latency,
        queue=queue,
        at_least_iops=at_least,
        at_most_iops=at_most,
        util_percent=mean(series.util),
        balance_percent=mean(series.balance),
    )


def _measure_queue_growth(series: _Series, first: int, last: int) -> tuple[int, float] | None:
    """Returns the point with the longest queue of a window, and the I/Os a second by which the
    queue grew up to its end; None if no queue was recorded or it did not grow.

    Demand less delivered rate is the growth of the queue. A mean queue is met somewhere inside its
    point, so growth is counted from the mean of the point before the window to the longest mean in
    it, over the time from the window's start to that point's end: never more than was asked.
    """
    queue = series.queue[first : last + 1]
    if not np.isfinite(queue).any():
        return None
    peak = first + int(np.nanargmax(queue))
    before = series.queue[first - 1] if first > 0 and np.isfinite(series.queue[first - 1]) else series.queue[first]
    seconds = float(series.t_s[peak] + series.duration_s[peak] - series.t_s[first])
    grown = float(series.queue[peak] - before) / seconds
    return (peak, grown) if np.isfinite(grown) and grown > 0 else None
