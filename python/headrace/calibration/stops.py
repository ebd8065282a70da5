"""Seconds in which clients wait for a full redo log: as a run had them, and as the model has.

Only where the model's server stops its clients (`checkpoint` of the database, `stop_s`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.base import core
from headrace.calibration.observations import Observation

# A row below this share of the median counts as waiting: half, so that of stops that begin at any
# moment of a row as much is counted as there is, if they last half a row or more.
WAITING_BELOW = 0.5
# Rows longer than this hide a stop, which takes one or two seconds.
LONGEST_ROW_S = 2.0
# Standard deviation of the measured share from the share that the model means. The division of a
# device while a flush goes on is a guess: if it takes a third of their rate from clients instead of
# a fifth, they come to the end of the log half a second later, of a cycle of some ten.
SHARE_SPREAD = 0.05
# Least share of a run's rows that tells of stops. Chosen: a stop of a second in ten whose edges are
# a fifth of a second off.
LEAST_SHARE = 0.02


def stops_clients(database: Mapping[str, Any]) -> bool:
    """Returns whether the server of a core database stops its clients when its redo log is full,
    and how large that is is known."""
    law = database.get("checkpoint")
    return law is not None and law["stop_s"] > 0.0 and database["log"].get("redo_capacity_bytes") is not None


def find_waiting(seconds_tps: np.ndarray) -> np.ndarray:
    """Marks the rows of a run in which clients waited: below half of the median."""
    return seconds_tps < WAITING_BELOW * np.nanmedian(seconds_tps)


def measure_stopped_share(observation: Observation, database: Mapping[str, Any]) -> float | None:
    """Returns the share of a run's rows in which clients waited; None where rows do not tell it."""
    if not stops_clients(database) or observation.run.interval_s > LONGEST_ROW_S:
        return None
    return float(np.mean(find_waiting(observation.seconds_tps)))


def compare_stopped_share(measured: float | None, columns: core.DatabaseRows) -> list[np.ndarray]:
    """Compares modelled with measured share of stopped time, in standard deviations."""
    if measured is None:
        return []
    return [np.array([(float(np.mean(columns["stopped_share"])) - measured) / SHARE_SPREAD])]


# Pages touched at which a search for stops begins, over the standard's: what reads leave of the
# volume to clients decides whether a log fills at all, and how many that are is what nobody knows.
TOUCHED = (1.0, 0.7, 0.5)


def list_stopping_begins(
    names: Sequence[str], database: Mapping[str, Any], observations: Sequence[Observation]
) -> list[np.ndarray]:
    """Lists starts of a fit in which the log fills as often as the runs had it: an array of
    logarithms, in the order of `names`, for each of TOUCHED; none where no run stopped.

    All that transactions make due is written, while clients run by the page cleaner up to its
    ceiling, and while they wait by the volume as fast as it goes. If no log fills, no small step
    makes one fill, so that no other start finds the way there.
    """
    flushed = [each for each in map(lambda seen: _estimate_flushed_per_tx(seen, database), observations) if each]
    if not flushed:
        return []
    moved = {"flush_per_tx": np.log(np.mean(flushed) / database["writes"]["flush_per_tx"])}
    return [
        np.array([(moved | {"pages_touched": np.log(touched)}).get(name, 0.0) for name in names]) for touched in TOUCHED
    ]


def _estimate_flushed_per_tx(observation: Observation, database: Mapping[str, Any]) -> float | None:
    """Estimates pages that a transaction makes due, from the time clients waited; None of a run in
    which they did not."""
    stopped = measure_stopped_share(observation, database)
    if not stopped or stopped < LEAST_SHARE:
        return None
    writes = database["writes"]
    ceiling = writes["flush_limit_per_s"]
    ios_of_page, _ = core.page_write_cost(database["cached_bytes"], writes["doublewrite"])
    volume = observation.run.caps.iops / ios_of_page
    at_once = volume if np.isfinite(volume) else ceiling
    return ((1.0 - stopped) * ceiling + stopped * at_once) / float(np.mean(observation.seconds_tps))
