"""Estimates intervals: of the mean of a run, of the change between two runs, or two groups of runs.

Seconds of a run are not independent: a slow second is followed by slow ones (flushing, compaction,
credits). So the interval of two runs is a bootstrap of whole blocks (circular block bootstrap,
Politis and Romano 1992), with the length of a block chosen from the autocorrelation (Politis and
White 2004, corrected by Patton, Politis and White 2009). It covers what goes up and down inside
these two runs, not what differs from one run to its repetition.

In groups each run is one observation, so repetitions count: Welch's t on the logarithms of the
means also covers what differs between repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

CONFIDENCE = 0.95  # the usual convention
# Resamples of a bootstrap: the ends of a 95 % interval are known to some 3 % of its width.
RESAMPLES = 4_000
# Blocks drawn for each resample at most: longer blocks than needed do no harm, and a day of seconds
# need not be drawn one by one.
MAX_PIECES = 500
# Fewest rows and fewest blocks in them from which a bootstrap says something (guesses).
FEWEST_ROWS, FEWEST_BLOCKS = 20, 4
# Fewer seconds say nothing of how much they scatter (a guess).
FEWEST_SECONDS = 4

# The rows of one run: of a mean, or the numerator and denominator of a ratio of sums.
Rows = tuple[np.ndarray, np.ndarray | None]


def estimate_standard_error(values: Sequence[float]) -> float:
    """Returns the standard error of the mean of a series: sqrt(mean square of successive
    differences / 2) / sqrt(n) (von Neumann 1941), to which a trend, as of a filling cache, adds
    nothing. Infinite for fewer than FEWEST_SECONDS values."""
    n = len(values)
    if n < FEWEST_SECONDS:
        return math.inf
    steps = [after - before for before, after in zip(values, values[1:], strict=False)]
    return math.sqrt(sum(step * step for step in steps) / (2.0 * (n - 1)) / n)


def compute_statistic(rows: Rows) -> float:
    """Returns the mean of the rows, or the ratio of their sums where there is a denominator."""
    top, bottom = rows
    return float(top.mean()) if bottom is None else float(top.sum() / bottom.sum())


def estimate_run_change(a: Rows, b: Rows, seed: int) -> tuple[float, float, str] | None:
    """Returns the interval of the change from `a` to `b` in percent, and how it was computed; None
    for too few rows."""
    chance, drawn, blocks = np.random.default_rng(seed), [], []
    for top, bottom in (a, b):
        block = max(
            choose_block_length(top), 1 if bottom is None else choose_block_length(bottom), len(top) // MAX_PIECES
        )
        if len(top) < max(FEWEST_ROWS, FEWEST_BLOCKS * block):
            return None
        blocks.append(block)
    if compute_statistic(a) <= 0:
        return None
    drawn = [_resample(rows, block, chance) for rows, block in zip((a, b), blocks, strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = 100.0 * (drawn[1] / drawn[0] - 1.0)
    changes = changes[np.isfinite(changes)]
    if len(changes) < RESAMPLES // 2:
        return None
    low, high = np.quantile(changes, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high), f"blocks of {blocks[0]} and {blocks[1]} rows"


def _resample(rows: Rows, block: int, chance: np.random.Generator) -> np.ndarray:
    """Returns RESAMPLES values of the statistic, each of a series made of random blocks of the
    rows, which are taken as a circle."""
    top, bottom = rows
    count = len(top)
    pieces = -(-count // block)
    starts = chance.integers(0, count, size=(RESAMPLES, pieces))
    sums = []
    for series in (top,) if bottom is None else (top, bottom):
        # Sums of all blocks at once, from running sums; the last block is cut to the series'
        # length.
        running = np.concatenate([[0.0], np.cumsum(np.concatenate([series, series]))])
        whole = running[starts + block] - running[starts]
        rest = count - block * (pieces - 1)
        last = running[starts[:, -1] + rest] - running[starts[:, -1]]
        sums.append(whole[:, :-1].sum(axis=1) + last)
    return sums[0] / count if bottom is None else sums[0] / sums[1]


def choose_block_length(series: np.ndarray) -> int:
    """Returns the number of rows of a block for the circular bootstrap of a mean, by Politis and
    White (2004): 1 without autocorrelation, at most a quarter of the series."""
    count = len(series)
    centred = series - series.mean()
    variance = float(centred @ centred) / count
    if count < 8 or variance <= 1e-12 * max(1.0, float(series.mean()) ** 2):
        return 1
    # The first lag behind which this many in a row are no more than noise.
    quiet = max(5, math.ceil(math.sqrt(math.log10(count))))
    most = min(count - 1, math.ceil(math.sqrt(count)) + quiet)
    covariance = np.array([float(centred[: count - lag] @ centred[lag:]) / count for lag in range(most + 1)])
    noise = np.abs(covariance / covariance[0]) < 2.0 * math.sqrt(math.log10(count) / count)
    last = next((lag for lag in range(most - quiet + 1) if noise[lag + 1 : lag + 1 + quiet].all()), most // 2)
    lags = np.arange(-min(2 * last, most), min(2 * last, most) + 1)
    window = np.clip(2.0 * (1.0 - np.abs(lags) / max(2 * last, 1)), 0.0, 1.0)  # flat-top
    spectrum = float((window * covariance[np.abs(lags)]).sum())
    slope = float((window * np.abs(lags) * covariance[np.abs(lags)]).sum())
    if spectrum <= 0 or last == 0:
        return 1
    length = (2.0 * slope**2 / (4.0 / 3.0 * spectrum**2)) ** (1 / 3) * count ** (1 / 3)
    return int(min(max(1, round(length)), max(1, count // 4)))


def estimate_group_change(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Returns the 95 % interval of the change of geometric means from `a` to `b`, percent (Welch's
    t)."""
    from scipy import stats

    first_logs, second_logs = np.log(a), np.log(b)
    if not first_logs.var() and not second_logs.var():
        change = 100.0 * math.expm1(float(second_logs.mean() - first_logs.mean()))
        return change, change
    interval = stats.ttest_ind(second_logs, first_logs, equal_var=False).confidence_interval(CONFIDENCE)
    return 100.0 * math.expm1(interval.low), 100.0 * math.expm1(interval.high)
