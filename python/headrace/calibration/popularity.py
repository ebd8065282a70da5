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
from headrace.calibration.observations import Observation, compare_ios_per_tx, find_client_bound_windows
from headrace.calibration.runs import Run

# Bounds of the scale, as factors on the physics: guesses, so that a run's accidents do not become a
# law.
LEAST, MOST = 0.6, 1.7
# A part's mean is known so well by itself, as a relative standard deviation, or parts are put
# together until it is: as well as the fit takes a bin to be.
TOLD_TO = 0.05
# Least share of a part's windows in which the storage binds, for the part to count: in a part that
# clients mostly bind, the few windows that the storage binds are the slow ones, not a sample.
LEAST_SEEN = 0.5
NONE: dict = {"filling": [], "full": []}
# Twelve parts of the fill; tenths of a turnover while the first pages leave, then ever wider.
FILLING_PARTS = np.concatenate([[0.0], np.geomspace(0.01, 1.0, 14)])
FULL_PARTS = np.concatenate([np.arange(0.0, 2.0, 0.1), np.geomspace(2.0, 256.0, 26)])


@dataclass(frozen=True)
class _Windows:
    """Windows of a run: their `place` along the life of the cache, the logarithm `ratio` of
    measured over modelled I/Os a transaction, whether each tells it (`moving`), and the variance of
    one window (`scatter`)."""

    place: np.ndarray
    ratio: np.ndarray
    moving: np.ndarray
    scatter: float

    def select_between(self, low: float, high: float) -> np.ndarray:
        """Returns the ratios in a part; none where too few of its windows tell it."""
        inside = (self.place >= low) & (self.place < high)
        telling = inside & self.moving
        return self.ratio[telling] if telling.sum() >= LEAST_SEEN * inside.sum() else self.ratio[:0]


def draws_pages_alike(run: Run) -> bool:
    """Returns whether a run's script draws all rows alike: its pages follow from its rows, so that
    nothing of their popularity is left to explain."""
    return (run.benchmark.name, run.benchmark.distribution) == ("sysbench-oltp", "uniform")


def derive_popularity_scale(database: dict, observations: list[Observation], period_tx: float | None) -> dict:
    """Derives the shape that observations ask for beyond `database`, whose own shape and compaction
    profile are left as they are: `filling` in pairs of transactions and a factor, `full` in pairs
    of turnovers and a factor; neither of a script that draws its pages alike: what a run of it
    leaves unexplained belongs to its minutes and its disk, and no other cache lives through it.
    `period_tx`: the length, in transactions, to smooth over."""
    if any(draws_pages_alike(each.run) for each in observations):
        return NONE
    filling: list[_Windows] = []
    full: list[_Windows] = []
    fill_tx = 0.0
    for observation in observations:
        columns = core.mysql_runs(database, [observation.core_run])[0]
        curve = core.mysql_warm_up(database, observation.core_run["cache_bytes"])
        ratio, moving = compare_ios_per_tx(columns, observation)
        moving &= ~find_client_bound_windows(columns) | (observation.iops > 0)
        scatter = _estimate_scatter(ratio[moving])
        moving &= _find_whole_periods(observation.tx, period_tx)
        ratio = _smooth(ratio, observation.tx, period_tx)
        tx = observation.tx + (curve["tx"][-1] if observation.run.start == "warm" else 0.0)
        at = curve["full_at_tx"] or np.inf
        before, after = tx < at, tx >= at
        filling.append(_Windows(tx[before], ratio[before], moving[before], scatter))
        turned = np.interp(tx[after], curve["tx"], curve["turned"])
        full.append(_Windows(turned, ratio[after], moving[after], scatter))
        fill_tx = max(fill_tx, at if np.isfinite(at) else tx[-1])
    return {"filling": _average_parts(filling, FILLING_PARTS * fill_tx), "full": _average_parts(full, FULL_PARTS)}


def _estimate_scatter(ratio: np.ndarray) -> float:
    """Estimates the variance of a window by chance: what neighbours differ by. 3.29 standard
    deviations lie from the 5th to the 95th percentile; one absurd window does not count. Infinite
    of fewer than three windows."""
    if len(ratio) < 3:
        return np.inf
    low, high = np.percentile(np.diff(ratio), [5, 95])
    return float((high - low) / 3.29) ** 2 / 2


def multiply_shapes(first: dict, second: dict) -> dict:
    """Multiplies two shapes: a point wherever either has one, the factor bounded by LEAST and
    MOST."""

    def multiply(a: list, b: list) -> list:
        if not a or not b:
            return a or b
        places = sorted({point[0] for point in a} | {point[0] for point in b})
        value = [np.exp(np.interp(places, [p[0] for p in part], np.log([p[1] for p in part]))) for part in (a, b)]
        return [(place, float(np.clip(x * y, LEAST, MOST))) for place, x, y in zip(places, *value, strict=True)]

    return {key: multiply(first[key], second[key]) for key in ("filling", "full")}


def _find_whole_periods(tx: np.ndarray, period_tx: float | None) -> np.ndarray:
    """Finds the windows that are not within half a period of a run's end: the last ones would tell
    where in a compaction the run ended, and hold for all that comes later. All count where there is
    no period, or the run has not two of them."""
    if period_tx is None or tx[-1] < 2 * period_tx:
        return np.ones(len(tx), bool)
    return tx < tx[-1] - period_tx / 2


def _smooth(values: np.ndarray, tx: np.ndarray, period_tx: float | None) -> np.ndarray:
    """Averages the values over one period of transactions around each, from the first whole one
    on."""
    if period_tx is None or tx[-1] < 2 * period_tx:
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    low = np.searchsorted(tx, tx - period_tx / 2)
    high = np.searchsorted(tx, tx + period_tx / 2)
    smooth = (sums[high] - sums[low]) / np.maximum(high - low, 1)
    return np.where(tx <= period_tx / 2, values, smooth)


def _average_parts(runs: list[_Windows], edges: np.ndarray) -> list[tuple[float, float]]:
    """Averages over runs the means over windows, at the middle of each part between `edges`: pairs
    of place and factor. Neighbouring parts are put together where one alone does not tell it; of
    runs too short for any part, all of it tells one factor."""
    return _list_points(runs, edges) or _list_points(runs, edges[[0, -1]])


def _list_points(runs: list[_Windows], edges: np.ndarray) -> list[tuple[float, float]]:
    """Lists place (the middle) and factor of each part that the runs tell well enough; parts that
    they do not are put together with the next."""
    points, begin = [], edges[0]
    for low, high in pairwise(edges):
        means = [(run.select_between(begin, high), run.scatter) for run in runs]
        means = [(windows.mean(), scatter / len(windows)) for windows, scatter in means if len(windows) >= 2]
        if means and np.sqrt(np.mean([chance for _, chance in means]) / len(means)) > TOLD_TO:
            continue
        if means:
            points.append(
                (float((begin + high) / 2), float(np.clip(np.exp(np.mean([mean for mean, _ in means])), LEAST, MOST)))
            )
        # A part in which no run has windows stays empty.
        begin = high if means or begin == low else begin
    return points
