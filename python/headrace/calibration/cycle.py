"""MyRocks' compaction cycle in a run: its period in transactions, and how I/Os per transaction go
through it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.base import core
from headrace.calibration.observations import Observation, compare_ios_per_tx

PARTS = 16  # of a period: as fine as windows of the published runs allow
# Shares of a period: the means of the first before and after a transaction are compared to find
# where a cycle starts, and two starts are at least the second apart.
EDGE, APART = 0.12, 0.6
# Only intervals within this share of the period that memtables and trigger give are counted: in
# longer ones the compaction before was still running.
NEAR = 0.12
# Fewer intervals than this, or a climb that is not this many standard deviations of chance, are no
# cycle.
LEAST_INTERVALS, LEAST_SIGMAS = 3, 3.0


@dataclass(frozen=True)
class CompactionCycle:
    """The compaction cycle of a run: its period in transactions, the transactions `first_tx` at
    which a period starts, the `profile` (PARTS factors on the I/Os per transaction, mean 1), and
    the number of `intervals` it was found from."""

    period_tx: float
    first_tx: float
    profile: tuple[float, ...]
    intervals: int

    def as_core(self) -> dict:
        """Returns the keys of the core's table `compaction` that the cycle decides."""
        return {"period_tx": self.period_tx, "first_tx": self.first_tx, "profile": list(self.profile)}


def find(database: dict, observations: list[Observation], expected_tx: float) -> CompactionCycle | None:
    """Finds the compaction cycle that the runs share; None if too few of its periods show.
    `expected_tx` is the period in transactions by memtable size and trigger."""
    intervals, profiles, first = [], [], None
    for observation in observations:
        tx, value = _compute_wave(database, observation, expected_tx)
        starts = _find_cycle_starts(tx, value, expected_tx)
        gaps = np.diff(starts)
        near = gaps[np.abs(gaps / expected_tx - 1.0) < NEAR]
        if len(near) < min(LEAST_INTERVALS, max(1, int(tx[-1] / expected_tx) - 2 if len(tx) else LEAST_INTERVALS)):
            continue
        intervals += near.tolist()
        profiles.append(_average_profile(tx, value, starts, expected_tx))
        first = starts[0] if first is None else first
    if not intervals or first is None:
        return None
    period = float(np.median(intervals))
    shape = np.exp(np.mean(profiles, axis=0))
    return CompactionCycle(
        period, float(first % period + period), tuple(float(x) for x in shape / shape.mean()), len(intervals)
    )


def _compute_wave(database: dict, observation: Observation, period: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns two arrays with a value per window of a run, from the second period of compaction
    on to half a period before the end: transactions since the start, and the logarithm of
    measured over modelled I/Os per transaction, less its mean over the period around it."""
    columns = core.mysql_runs(database, [observation.core_run])[0]
    value, _ = compare_ios_per_tx(columns, observation)
    tx = observation.tx
    whole = (tx > period) & (tx < tx[-1] - period / 2)
    return tx[whole], (value - average_windows(tx, value, tx - period / 2, tx + period / 2))[whole]


def average_windows(tx: np.ndarray, value: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Returns the mean of `value` over the windows whose `tx` lies between each pair of `low` and
    `high` transactions; 0 without such windows."""
    sums = np.concatenate([[0.0], np.cumsum(value)])
    start, end = np.searchsorted(tx, low), np.searchsorted(tx, high)
    return (sums[end] - sums[start]) / np.maximum(end - start, 1)


def _find_cycle_starts(tx: np.ndarray, value: np.ndarray, period: float) -> np.ndarray:
    """Returns the transactions, ascending, at which a cycle starts: I/Os per transaction rise,
    since files that a compaction has just merged are not in the cache."""
    if len(tx) < 2 * PARTS:
        return np.array([])
    climb = average_windows(tx, value, tx, tx + EDGE * period) - average_windows(tx, value, tx - EDGE * period, tx)
    # Standard deviation, by chance, of the difference of two means over as many windows as an edge
    # has.
    per_edge = max(1.0, EDGE * period / max((tx[-1] - tx[0]) / len(tx), 1e-9))
    chance = float(np.std(np.diff(value))) / np.sqrt(2.0) * np.sqrt(2.0 / per_edge)
    starts: list[float] = []
    for index in np.argsort(-climb):
        if climb[index] < LEAST_SIGMAS * chance:
            break
        if all(abs(tx[index] - other) >= APART * period for other in starts):
            starts.append(float(tx[index]))
    return np.sort(starts)


def _average_profile(tx: np.ndarray, value: np.ndarray, starts: np.ndarray, period: float) -> np.ndarray:
    """Returns the mean logarithm in each of the PARTS of a period, over all cycles; of a cycle that
    is longer than a period the rest is left out."""
    since = tx - starts[np.maximum(np.searchsorted(starts, tx, side="right") - 1, 0)]
    inside = (since >= 0) & (since < period)
    part = (since[inside] / period * PARTS).astype(int)
    return np.bincount(part, value[inside], minlength=PARTS) / np.maximum(np.bincount(part, minlength=PARTS), 1)
