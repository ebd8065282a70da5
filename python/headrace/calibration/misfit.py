"""Checks whether a calibration describes the runs it was fitted from: compares the mean tps of each
second half as predicted and as measured. A fit that misses its own runs predicts no others.
"""

from __future__ import annotations

import numpy as np

from headrace.base import core
from headrace.base.units import format_percent
from headrace.calibration.observations import Observation, make_core_run
from headrace.workload.misfit import Misfit

# Parts of a second half whose scatter gives the error of its mean: each of some minutes, so that
# neighbouring parts are hardly correlated.
PARTS = 8
# Caps that are not the storage's.
NOT_STORAGE = {"clients": "the clients", "cpu": "the processors"}


def measure_misfits(database: dict, observations: list[Observation]) -> list[Misfit | None]:
    """Returns the misfit of the calibration on each run, predicted from the run's start as
    `headrace predict` does; None for a run without transactions in its second half."""
    runs = [make_core_run(each.run, len(each.tps) * each.step_s, each.step_s) for each in observations]
    return [
        _measure_misfit(*pair, len(runs)) for pair in zip(observations, core.mysql_runs(database, runs), strict=True)
    ]


def _measure_misfit(observation: Observation, columns: core.DatabaseRows, runs: int) -> Misfit | None:
    """Returns the misfit of one run of `runs`: mean tps of the second half as measured and as
    predicted, and the likely cause if the calibration misses it; None without transactions."""
    half = slice(len(observation.tps) // 2, None)
    measured = float(np.mean(observation.tps[half]))
    if measured <= 0:
        return None
    predicted = float(np.mean(np.array(columns["tps"])[half]))
    caps, counts = np.unique(np.array(columns["cap"])[half], return_counts=True)
    limit = str(caps[np.argmax(counts)])
    misfit = Misfit(measured, predicted, _estimate_noise(observation.tps[half]), limit)
    if not misfit.misses:
        return misfit
    return Misfit(measured, predicted, misfit.noise, limit, _name_cause(observation, misfit, runs))


def _estimate_noise(tps: np.ndarray) -> float:
    """Returns the relative standard deviation of the mean tps, from the scatter of PARTS parts; 0
    with a single part."""
    parts = [float(np.mean(part)) for part in np.array_split(tps, min(PARTS, len(tps)))]
    return float(np.std(parts, ddof=1) / np.sqrt(len(parts)) / np.mean(tps)) if len(parts) > 1 else 0.0


def _name_cause(observation: Observation, misfit: Misfit, runs: int) -> str:
    """Returns the likely cause of a misfit and what to do about it, in sentences."""
    run = observation.run
    disturbed = float(np.mean(observation.disturbed[len(observation.tps) // 2 :]))
    if misfit.off > 0 and disturbed > misfit.bar:
        slow = f"in {format_percent(disturbed)} of that time it did less than before with as many I/Os a transaction"
        hint = "Measure again with the machine to itself."
        return f"Likely cause: {slow}, so something other than the database took its time. {hint}"
    limit = NOT_STORAGE.get(misfit.limit, f"the storage ({misfit.limit})")
    if misfit.off < 0 and misfit.limit not in NOT_STORAGE:
        hint = "Check storage, instance, cache and as_of of its description."
        return f"Likely cause: {limit} as described gives less than the run had. {hint}"
    if runs > 1:
        hint = "Calibrate them apart."
        return f"Likely cause: the runs differ in something that is not modelled; {limit} hold this one in the model. {hint}"
    if run.select_findings("stall"):
        return "Likely cause: it stood still for a part of the time, which is not modelled."
    if run.select_findings("start"):
        return f'Likely cause: its start is not "{run.start}", as its figures say too. Check start of its description.'
    hint = "Check threads, vcpus and instance of its description."
    return f"Likely cause: {limit} hold it in the model; locks, flushing or another load are not modelled. {hint}"
