"""How long each part of a proof takes, from the minutes it may have."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import InputError
from headrace.prove.configuration import DOC

# Loading by sysbench on two processors: 8 x 1,000,000 rows (1.84 GiB) in 90 to 220 s on a machine in use; and a fixed part for making and saving the data directory.
LOAD_MIB_S, LOAD_MORE_S = 9.0, 12.0
# Of the time beyond the first minutes, for the load before the data are saved (measuring.load); more than MOST_SETTLE_S changes little.
SETTLE_SHARE, SETTLE_BEYOND, MOST_SETTLE_S = 0.06, 2.0, 60
# Copying the data, starting, looking at the machine, taking away; a run's samples before and after.
AROUND_S = 14.0
# The calibration tells more the longer it is; it must also do as many transactions as the quicker ones will.
CALIBRATION_WEIGHT = 2.0
# A part below this is no mean.
LEAST_S, LEAST_CALIBRATION_S, MOST_S = 12, 24, 600
# Share of a run that fills the cache and does not count.
WARMUP_SHARE = 0.3
LEAST_MINUTES, MOST_MINUTES = 1.5, 24 * 60.0


@dataclass(frozen=True)
class Timing:
    """Seconds: `loading` (an estimate) with its `settle`, of the calibration, of each other configuration with its `warmup`. `data_gib`: what can be loaded meanwhile."""

    loading_s: float
    settle_s: int
    calibration_s: int
    each_s: int
    warmup_s: int
    data_gib: float


def timing(minutes: float, configurations: int, loaded: bool = False) -> Timing:
    """Divides the time: at most a quarter for loading. `configurations`: beside the calibration. Raises InputError for too little of it."""
    if not LEAST_MINUTES <= minutes <= MOST_MINUTES:
        raise InputError(f"--minutes {minutes:g}", f"must be {LEAST_MINUTES:g} to {MOST_MINUTES:,.0f}", DOC)
    loading = 0.0 if loaded else 0.25 * minutes * 60.0
    settle = 0 if loaded else int(min(MOST_SETTLE_S, SETTLE_SHARE * max(0.0, minutes - SETTLE_BEYOND) * 60.0))
    data_gib = LOAD_MIB_S * max(0.0, 0.25 * minutes * 60.0 - LOAD_MORE_S) / 1024.0
    left = minutes * 60.0 - loading - settle - (configurations + 1) * AROUND_S
    each = int(min(MOST_S, left / (configurations + CALIBRATION_WEIGHT)))
    calibration = int(min(CALIBRATION_WEIGHT * MOST_S, CALIBRATION_WEIGHT * each))
    if each < LEAST_S or calibration < LEAST_CALIBRATION_S:
        needed = (LEAST_S * (configurations + CALIBRATION_WEIGHT) + (configurations + 1) * AROUND_S) / 0.75 / 60.0
        raise InputError(
            f"--minutes {minutes:g}",
            f"leave {max(each, 0)} s for each of {configurations} configurations, and {LEAST_S} s are the least",
            DOC,
            f"Give it {needed:.1f} minutes or more.",
        )
    return Timing(loading + settle, settle, calibration, each, max(3, int(WARMUP_SHARE * each)), data_gib)
