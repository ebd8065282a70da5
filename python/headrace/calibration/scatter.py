"""One-second tps around their mean, and the 95th percentile over the mean response time."""

from __future__ import annotations

import numpy as np

from headrace.base import core
from headrace.base.extras import import_optional
from headrace.calibration.observations import Observation
from headrace.calibration.stops import find_waiting, stops_clients

# Rows that hardly differ were rounded or averaged when they were written, and nothing can be said
# of a half in which nothing was done: the standard's scatter stays.
NO_SCATTER = 1e-4


def estimate_scatter(database: dict, observations: list[Observation]) -> dict[str, float]:
    """Estimates `fano` and `cv` of the second halves: variance = fano x mean + (cv x mean)^2.

    One run gives one variance: both then move together.
    """
    with import_optional():
        from scipy.optimize import nnls

    means, variances = [], []
    # The cycle of compaction may drift against the model's: it is left out of the model here, and
    # what it alone scatters taken off (little where clients bind).
    compaction = database.get("compaction")
    smooth = database | {"compaction": {**compaction, "profile": [1.0]}} if compaction else database
    for observation in observations:
        windows = np.array(core.mysql_runs(smooth, [observation.core_run])[0]["tps"])
        per = len(observation.seconds_tps) // len(observation.tps)
        model = np.repeat(windows, per)
        half = slice(len(model) // 2, None)
        good = model[half] > 0
        if stops_clients(database):
            good &= ~find_waiting(observation.seconds_tps[half])
        if not good.any():
            continue
        ratio = observation.seconds_tps[half][good] / model[half][good]
        mean = float(np.nanmean(observation.seconds_tps[half]))
        if mean <= 0:
            continue
        # A run that is missed does not scatter more.
        relative, cycle = _estimate_variance(ratio / np.nanmean(ratio)), 0.0
        if compaction:
            cycle = _estimate_variance(
                np.repeat(core.mysql_runs(database, [observation.core_run])[0]["tps"], per)[half][good]
                / model[half][good]
            )
        if relative < NO_SCATTER**2:
            continue
        means.append(mean)
        variances.append(max(relative - cycle, 0.1 * relative) * mean**2 * observation.run.interval_s)
    noise = database["noise"]
    before = np.array([noise["fano"], noise["cv"] ** 2])
    if not means:
        return dict(noise)
    # Relative to each variance, so that a fast run does not count for more; the standard values
    # weigh as much as a third of a run.
    rows = [
        [before[0] * mean / variance, before[1] * mean**2 / variance]
        for mean, variance in zip(means, variances, strict=True)
    ]
    mean_scale = float(np.mean([1.0 / sum(row) for row in rows]))
    factors, _ = nnls(
        np.array([*rows, [0.33, 0.0], [0.0, 0.33]]), np.array([1.0] * len(rows) + [0.33 * mean_scale] * 2)
    )
    return {"fano": float(before[0] * factors[0]), "cv": float(np.sqrt(before[1] * factors[1]))}


def _estimate_variance(ratio: np.ndarray) -> float:
    """Estimates a variance: from the 5th to the 95th percentile lie 3.29 standard deviations of a
    normal distribution; tails of stalls do not count."""
    low, high = np.nanpercentile(ratio, [5, 95])
    return float((high - low) / 3.29) ** 2


def estimate_p95_over_mean(observations: list[Observation], default: float) -> float:
    """Estimates the 95th percentile of response times over threads / tps: of whole runs, else the
    median over the seconds of their second halves; `default` where no run tells it.

    A second's percentile leaves out what makes seconds differ (a checkpoint, a stall): in lab runs
    of oltp_read_write it was 1.6 to 3.3 times the mean where that of the run was 3.0 to 3.6
    throughout.
    """
    ratios = []
    for observation in observations:
        run = observation.run
        if run.p95_ms is not None:
            ratios.append(run.p95_ms * run.transactions / run.span_s / (run.threads * 1e3))
            continue
        half = slice(len(observation.seconds_tps) // 2, None)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = observation.seconds_p95_ms[half] * observation.seconds_tps[half] / (run.threads * 1e3)
        good = ratio[np.isfinite(ratio) & (ratio > 0)]
        if len(good):
            ratios.append(float(np.median(good)))
    return max(1.0, float(np.mean(ratios))) if ratios else default
