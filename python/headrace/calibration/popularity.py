"""Fits the part that the physics leaves unexplained: I/Os per transaction, measured over modelled,
along the life of the cache.

While the cache fills it belongs to transactions (the same pages are touched whatever the cache
holds), afterwards to turnovers of the cache: a smaller cache lives through the same in fewer
transactions. It is bounded, and it is an average over runs, so that one run's accidents do not
become a law; and over as many windows as it takes to tell it from their scatter, so that neither
does a checkpoint in a short run.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headrace.base import core
from headrace.calibration.cycle import average_windows
from headrace.calibration.observations import Observation, compare_ios_per_tx, find_client_bound_windows
from headrace.calibration.runs import Run

# Bounds of the scale, as factors on the physics: guesses, so that a run's accidents do not become a
# law.
LEAST, MOST = 0.6, 1.7
# Largest relative standard deviation of a part's mean; parts are joined until it is reached. The
# fit takes as much for a bin.
LARGEST_ERROR = 0.05
# Least share of a part's windows in which the storage binds, for the part to count: in a part that
# clients mostly bind, the few windows that the storage binds are the slow ones, not a sample.
LEAST_BOUND_SHARE = 0.5
NO_SHAPE: dict = {"filling": [], "full": []}
# Twelve parts of the fill; tenths of a turnover while the first pages leave, then ever wider.
FILLING_PARTS = np.concatenate([[0.0], np.geomspace(0.01, 1.0, 14)])
FULL_PARTS = np.concatenate([np.arange(0.0, 2.0, 0.1), np.geomspace(2.0, 256.0, 26)])


@dataclass(frozen=True)
class _Windows:
    """Windows of a run: their `position` along the life of the cache (transactions while it fills,
    then turnovers), the logarithm `ratio` of measured over modelled I/Os a transaction, whether
    each is `usable`, and the variance of a window by chance (`scatter`)."""

    position: np.ndarray
    ratio: np.ndarray
    usable: np.ndarray
    scatter: float

    def select_between(self, low: float, high: float) -> np.ndarray:
        """Returns the ratios of the usable windows from position `low` to `high`; an empty array if
        they are less than LEAST_BOUND_SHARE of the windows there."""
        inside = (self.position >= low) & (self.position < high)
        counted = inside & self.usable
        return self.ratio[counted] if counted.sum() >= LEAST_BOUND_SHARE * inside.sum() else self.ratio[:0]


def draws_pages_alike(run: Run) -> bool:
    """Returns whether a run's script draws all rows alike: its pages follow from its rows, so that
    nothing of their popularity is left to explain."""
    return (run.benchmark.name, run.benchmark.distribution) == ("sysbench-oltp", "uniform")


def derive_popularity_scale(database: dict, observations: list[Observation], period_tx: float | None) -> dict:
    """Returns the factors on the I/Os a transaction by which the runs differ from the model of
    `database`: `filling` in pairs of transactions and a factor, `full` in pairs of turnovers of the
    cache and a factor. Both are empty for a script that draws its pages alike: the rest that its
    runs leave belongs to their minutes and disks, not to every cache. `period_tx` is the period of
    compaction, in transactions, to average over."""
    if any(draws_pages_alike(each.run) for each in observations):
        return NO_SHAPE
    filling: list[_Windows] = []
    full: list[_Windows] = []
    fill_tx = 0.0
    for observation in observations:
        columns = core.mysql_runs(database, [observation.core_run])[0]
        curve = core.mysql_warm_up(database, observation.core_run["cache_bytes"])
        ratio, usable = compare_ios_per_tx(columns, observation)
        usable &= ~find_client_bound_windows(columns) | (observation.iops > 0)
        scatter = _estimate_scatter(ratio[usable])
        usable &= _mark_whole_periods(observation.tx, period_tx)
        ratio = _average_over_period(ratio, observation.tx, period_tx)
        tx = observation.tx + (curve["tx"][-1] if observation.run.start == "warm" else 0.0)
        at = curve["full_at_tx"] or np.inf
        before, after = tx < at, tx >= at
        filling.append(_Windows(tx[before], ratio[before], usable[before], scatter))
        turned = np.interp(tx[after], curve["tx"], curve["turned"])
        full.append(_Windows(turned, ratio[after], usable[after], scatter))
        fill_tx = max(fill_tx, at if np.isfinite(at) else tx[-1])
    return {"filling": _average_parts(filling, FILLING_PARTS * fill_tx), "full": _average_parts(full, FULL_PARTS)}


def _estimate_scatter(ratio: np.ndarray) -> float:
    """Returns the variance of a window by chance, from the differences of neighbours: 3.29 standard
    deviations lie between their 5th and 95th percentiles, so that one absurd window does not count.
    Infinite with fewer than three windows."""
    if len(ratio) < 3:
        return np.inf
    low, high = np.percentile(np.diff(ratio), [5, 95])
    return float((high - low) / 3.29) ** 2 / 2


def multiply_shapes(first: dict, second: dict) -> dict:
    """Returns the product of two shapes (`filling` and `full`): it has a point wherever either has
    one, and its factors lie between LEAST and MOST."""

    def multiply(a: list, b: list) -> list:
        if not a or not b:
            return a or b
        places = sorted({point[0] for point in a} | {point[0] for point in b})
        value = [np.exp(np.interp(places, [p[0] for p in part], np.log([p[1] for p in part]))) for part in (a, b)]
        return [(place, float(np.clip(x * y, LEAST, MOST))) for place, x, y in zip(places, *value, strict=True)]

    return {key: multiply(first[key], second[key]) for key in ("filling", "full")}


def _mark_whole_periods(tx: np.ndarray, period_tx: float | None) -> np.ndarray:
    """Marks the windows that end half a period or more before the run: the later ones would show
    where in a compaction the run ended, and would stand for all that comes after it. All are marked
    without a period, or if the run has not two of them."""
    if period_tx is None or tx[-1] < 2 * period_tx:
        return np.ones(len(tx), bool)
    return tx < tx[-1] - period_tx / 2


def _average_over_period(values: np.ndarray, tx: np.ndarray, period_tx: float | None) -> np.ndarray:
    """Returns the mean of the values over the period of transactions around each; those of the
    first half period, and of a run of less than two periods, are unchanged."""
    if period_tx is None or tx[-1] < 2 * period_tx:
        return values
    smooth = average_windows(tx, values, tx - period_tx / 2, tx + period_tx / 2)
    return np.where(tx <= period_tx / 2, values, smooth)


def _average_parts(runs: list[_Windows], edges: np.ndarray) -> list[tuple[float, float]]:
    """Returns pairs of position and factor, one for each part between `edges`; a single pair over
    the whole range if the runs are too short for any part."""
    return _list_points(runs, edges) or _list_points(runs, edges[[0, -1]])


def _list_points(runs: list[_Windows], edges: np.ndarray) -> list[tuple[float, float]]:
    """Returns pairs of position (the middle of a part) and factor (the mean over the runs). A part
    whose mean is not known to LARGEST_ERROR is joined with the next."""
    points, begin = [], edges[0]
    for low, high in pairwise(edges):
        means = [(run.select_between(begin, high), run.scatter) for run in runs]
        means = [(windows.mean(), scatter / len(windows)) for windows, scatter in means if len(windows) >= 2]
        if means and np.sqrt(np.mean([variance for _, variance in means]) / len(means)) > LARGEST_ERROR:
            continue
        if means:
            points.append(
                (float((begin + high) / 2), float(np.clip(np.exp(np.mean([mean for mean, _ in means])), LEAST, MOST)))
            )
        # A part in which no run has windows stays empty.
        begin = high if means or begin == low else begin
    return points
