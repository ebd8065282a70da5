"""Estimates the scatter of one-second tps, and response times over their mean."""

from __future__ import annotations

import numpy as np

from headrace.base import core
from headrace.base.extras import import_optional
from headrace.calibration.observations import Observation
from headrace.calibration.stops import find_waiting, stops_clients

# Relative standard deviation below which rows were rounded or averaged when they were written: such
# a run is left out, and the standard's scatter stays if all are.
NO_SCATTER = 1e-4


def estimate_scatter(database: dict, observations: list[Observation]) -> dict[str, float]:
    """Returns `fano` and `cv` of one-second tps in the second halves of the runs: variance = fano x
    mean + (cv x mean)^2. The database's values stay if no run shows a scatter."""
    with import_optional():
        from scipy.optimize import nnls

    means, variances = [], []
    # The cycle of compaction may drift against the model's: the model is run without it, and the
    # variance of the cycle alone subtracted (little where clients bind).
    compaction = database.get("compaction")
    smooth = database | {"compaction": {**compaction, "profile": [1.0]}} if compaction else database
    for observation in observations:
        windows = np.array(core.mysql_runs(smooth, [observation.core_run])[0]["tps"])
        rows_per_window = len(observation.seconds_tps) // len(observation.tps)
        model = np.repeat(windows, rows_per_window)
        half = slice(len(model) // 2, None)
        usable = model[half] > 0
        if stops_clients(database):
            usable &= ~find_waiting(observation.seconds_tps[half])
        if not usable.any():
            continue
        ratio = observation.seconds_tps[half][usable] / model[half][usable]
        mean = float(np.nanmean(observation.seconds_tps[half]))
        if mean <= 0:
            continue
        # Divided by its mean, so that a misfit of the calibration does not count as scatter.
        relative, cycle = _estimate_variance(ratio / np.nanmean(ratio)), 0.0
        if compaction:
            cycle = _estimate_variance(
                np.repeat(core.mysql_runs(database, [observation.core_run])[0]["tps"], rows_per_window)[half][usable]
                / model[half][usable]
            )
        if relative < NO_SCATTER**2:
            continue
        means.append(mean)
        variances.append(max(relative - cycle, 0.1 * relative) * mean**2 * observation.run.interval_s)
    noise = database["noise"]
    prior = np.array([noise["fano"], noise["cv"] ** 2])
    if not means:
        return dict(noise)
    # Relative to each variance, so that a fast run does not count for more; the standard values
    # weigh as much as a third of a run.
    rows = [
        [prior[0] * mean / variance, prior[1] * mean**2 / variance]
        for mean, variance in zip(means, variances, strict=True)
    ]
    mean_scale = float(np.mean([1.0 / sum(row) for row in rows]))
    factors, _ = nnls(
        np.array([*rows, [0.33, 0.0], [0.0, 0.33]]), np.array([1.0] * len(rows) + [0.33 * mean_scale] * 2)
    )
    return {"fano": float(prior[0] * factors[0]), "cv": float(np.sqrt(prior[1] * factors[1]))}


def _estimate_variance(ratio: np.ndarray) -> float:
    """Returns the variance of a normal distribution with these 5th and 95th percentiles, which are
    3.29 standard deviations apart, so that the tails of stalls do not count."""
    low, high = np.nanpercentile(ratio, [5, 95])
    return float((high - low) / 3.29) ** 2


def estimate_p95_over_mean(observations: list[Observation], default: float) -> float:
    """Returns the 95th percentile of response times over their mean (threads / tps), averaged over
    the runs: from the percentile of the whole run if it is known, else the median over the seconds
    of its second half. `default` if no run has percentiles.

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
