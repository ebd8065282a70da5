"""Checks whether a calibration describes the runs it was fitted from: the mean of each second half,
as predicted and as measured.

A fit that misses its own runs tells nothing of others.
"""

from __future__ import annotations

import numpy as np

from headrace.base import core
from headrace.base.units import format_percent
from headrace.calibration.observations import Observation, make_core_run
from headrace.workload.misfit import Misfit

# Parts of a second half whose scatter tells how far its mean is off: each of some minutes, as long
# as what goes on for a while.
PARTS = 8
# Caps that are not the storage's.
NOT_STORAGE = {"clients": "the clients", "cpu": "the processors"}


def measure_misfits(database: dict, observations: list[Observation]) -> list[Misfit | None]:
    """Measures how far the calibration is off on each run, predicted from its own start as
    `headrace predict` would; None of a run that did nothing in its second half."""
    runs = [make_core_run(each.run, len(each.tps) * each.step_s, each.step_s) for each in observations]
    return [
        _measure_misfit(*pair, len(runs)) for pair in zip(observations, core.mysql_runs(database, runs), strict=True)
    ]


def _measure_misfit(observation: Observation, columns: core.DatabaseRows, runs: int) -> Misfit | None:
    """Compares the mean tps of a second half as measured and as predicted, with the likely cause
    where it is missed; None where nothing was done."""
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
    """Returns the relative standard deviation of a mean, from that of its parts; 0 of a single
    part."""
    parts = [float(np.mean(part)) for part in np.array_split(tps, min(PARTS, len(tps)))]
    return float(np.std(parts, ddof=1) / np.sqrt(len(parts)) / np.mean(tps)) if len(parts) > 1 else 0.0


def _name_cause(observation: Observation, misfit: Misfit, runs: int) -> str:
    """Says what is most likely behind a misfit, and what to do about it."""
    run = observation.run
    disturbed = float(np.mean(observation.disturbed[len(observation.tps) // 2 :]))
    if misfit.off > 0 and disturbed > misfit.bar:
        slow = f"in {format_percent(disturbed)} of that time it did less than before with as many I/Os a transaction"
        hint = "Measure again with the machine to itself."
        return f"Likely cause: {slow}, so something other than the database took its time. {hint}"
    held_by = NOT_STORAGE.get(misfit.limit, f"the storage ({misfit.limit})")
    if misfit.off < 0 and misfit.limit not in NOT_STORAGE:
        hint = "Check storage, instance, cache and as_of of its description."
        return f"Likely cause: {held_by} as described gives less than the run had. {hint}"
    if runs > 1:
        hint = "Calibrate them apart."
        return f"Likely cause: the runs differ in something that is not modelled; {held_by} hold this one in the model. {hint}"
    if run.select_findings("stall"):
        return "Likely cause: it stood still for a part of the time, which is not modelled."
    if run.select_findings("start"):
        return f'Likely cause: its start is not "{run.start}", as its figures say too. Check start of its description.'
    hint = "Check threads, vcpus and instance of its description."
    return f"Likely cause: {held_by} hold it in the model; locks, flushing or another load are not modelled. {hint}"
