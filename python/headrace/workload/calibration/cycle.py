"""MyRocks' compaction cycle in a run: its period in transactions, and how I/Os per transaction go through it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace import _core
from headrace.workload.calibration.observe import LEAST_TPS, Observation

PARTS = 16
# Memtables and trigger say the period; bytes per transaction, and so the period, are known to some 4 % (one standard deviation).
SEARCH = np.geomspace(0.88, 1.14, 131)
PERIOD_SPREAD = 0.04
# Of the variance within periods, the share the cycle must explain to be called one: 16 parts of noise alone explain about 16 / windows, a tenth of this.
LEAST_EXPLAINED = 0.10


@dataclass(frozen=True)
class Cycle:
    """`period_tx`, the transactions `first_tx` at which one begins, the `profile` of I/Os per transaction, the share of variance `explained`."""

    period_tx: float
    first_tx: float
    profile: tuple[float, ...]
    explained: float


def find(database: dict, observations: list[Observation], expected_tx: float) -> Cycle | None:
    """The cycle common to the runs, or None where it does not show. Each run may begin in another phase of it."""
    waves = [wave for observation in observations if (wave := _wave(database, observation, expected_tx)) is not None]
    if not waves:
        return None
    scores = [float(np.mean([_explained(wave, expected_tx * factor) for wave in waves])) for factor in SEARCH]
    best = int(np.argmax(scores * np.exp(-0.5 * (np.log(SEARCH) / PERIOD_SPREAD) ** 2)))
    if scores[best] < LEAST_EXPLAINED:
        return None
    period = expected_tx * SEARCH[best]
    profiles = [_profile(wave, period) for wave in waves]
    # A period begins where I/Os per transaction jump up: the merged files have just come, uncached.
    begins = [int(np.argmax(_climb(profile))) for profile in profiles]
    shape = np.exp(np.mean([np.roll(profile, -begin) for profile, begin in zip(profiles, begins, strict=True)], axis=0))
    first = period * (1.0 + begins[0] / PARTS)
    return Cycle(float(period), float(first), tuple(float(x) for x in shape / shape.mean()), scores[best])


def _wave(database: dict, observation: Observation, period: float) -> tuple[np.ndarray, np.ndarray] | None:
    """(transactions, log of measured over modelled I/Os per transaction with its trend taken out), from the second period on."""
    columns = _core.mysql_runs(database, [observation.core_run])[0]
    value = np.log(np.maximum(columns["tps"], LEAST_TPS) / np.maximum(observation.tps, LEAST_TPS))
    tx = observation.tx
    sums = np.concatenate([[0.0], np.cumsum(value)])
    low, high = np.searchsorted(tx, tx - period / 2), np.searchsorted(tx, tx + period / 2)
    trend = (sums[high] - sums[low]) / np.maximum(high - low, 1)
    whole = (tx > period) & (tx < tx[-1] - period / 2)
    return (tx[whole], (value - trend)[whole]) if whole.sum() > 3 * PARTS and tx[-1] > 3 * period else None


def _phase(tx: np.ndarray, period: float) -> np.ndarray:
    return ((tx / period % 1.0) * PARTS).astype(int) % PARTS


def _profile(wave: tuple[np.ndarray, np.ndarray], period: float) -> np.ndarray:
    phase = _phase(wave[0], period)
    return np.bincount(phase, wave[1], minlength=PARTS) / np.maximum(np.bincount(phase, minlength=PARTS), 1)


def _climb(profile: np.ndarray) -> np.ndarray:
    """How much higher the quarter of a period from each part on lies than the quarter before it."""
    ahead = sum(np.roll(profile, -k) for k in range(PARTS // 4))
    return ahead - sum(np.roll(profile, k) for k in range(1, PARTS // 4 + 1))


def _explained(wave: tuple[np.ndarray, np.ndarray], period: float) -> float:
    left = wave[1] - _profile(wave, period)[_phase(wave[0], period)]
    return 1.0 - float((left**2).sum()) / float((wave[1] ** 2).sum())
