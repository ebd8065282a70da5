"""Compares the time in which clients wait for a full redo log, as measured and as modelled.

Only where the model's server stops its clients (`checkpoint` of the database, `stop_s`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.base import core
from headrace.calibration.observations import Observation

# A row below this share of the median counts as waiting. With half, stops that begin at random in a
# row and last half a row or more are counted at their true length on average.
WAITING_BELOW = 0.5
# Rows longer than this hide a stop, which takes one or two seconds.
LONGEST_ROW_S = 2.0
# Standard deviation of the measured share from the share that the model means. The division of a
# device while a flush goes on is a guess: if it takes a third of their rate from clients instead of
# a fifth, they come to the end of the log half a second later, of a cycle of some ten.
SHARE_SPREAD = 0.05
# With a smaller share of its rows a run is taken to have no stops. Chosen: the error of a stop of a
# second in ten whose edges are a fifth of a second off.
LEAST_SHARE = 0.02


def stops_clients(database: Mapping[str, Any]) -> bool:
    """Returns whether the server of a core database stops its clients when its redo log is full,
    and the size of its redo log is known."""
    law = database.get("checkpoint")
    return law is not None and law["stop_s"] > 0.0 and database["log"].get("redo_capacity_bytes") is not None


def find_waiting(seconds_tps: np.ndarray) -> np.ndarray:
    """Returns a mask of the rows of a run in which clients waited: tps below half the median."""
    return seconds_tps < WAITING_BELOW * np.nanmedian(seconds_tps)


def measure_stopped_share(observation: Observation, database: Mapping[str, Any]) -> float | None:
    """Returns the share of a run's rows in which clients waited for the redo log; None if the
    server does not stop its clients, or the rows are too long to show it."""
    if not stops_clients(database) or observation.run.interval_s > LONGEST_ROW_S:
        return None
    return float(np.mean(find_waiting(observation.seconds_tps)))


def compare_stopped_share(measured: float | None, columns: core.DatabaseRows) -> list[np.ndarray]:
    """Returns modelled less measured share of stopped time, in standard deviations: a list of one
    array with one value; an empty list if the share was not measured."""
    if measured is None:
        return []
    return [np.array([(float(np.mean(columns["stopped_share"])) - measured) / SHARE_SPREAD])]


# Factors on the standard's pages touched at which a search for stops begins: whether the redo log
# fills depends on how many I/Os the reads leave, which is not known before the fit.
TOUCHED = (1.0, 0.7, 0.5)


def list_stopping_starts(
    names: Sequence[str], database: Mapping[str, Any], observations: Sequence[Observation]
) -> list[np.ndarray]:
    """Returns starts of a fit in which the redo log fills as often as in the runs: an array of
    logarithms, in the order of `names`, for each of TOUCHED; none if clients waited in no run. From
    a start in which no log fills, no small step makes one fill.
    """
    due_pages = [each for each in map(lambda seen: _estimate_due_pages_per_tx(seen, database), observations) if each]
    if not due_pages:
        return []
    deltas = {"flush_per_tx": np.log(np.mean(due_pages) / database["writes"]["flush_per_tx"])}
    return [
        np.array([(deltas | {"pages_touched": np.log(touched)}).get(name, 0.0) for name in names])
        for touched in TOUCHED
    ]


def _estimate_due_pages_per_tx(observation: Observation, database: Mapping[str, Any]) -> float | None:
    """Returns the pages whose writing a transaction makes due, from the time clients waited: the
    page cleaner writes them at its limit while clients run, and the volume as fast as it can while
    they wait. None for a run in which they did not wait."""
    stopped = measure_stopped_share(observation, database)
    if not stopped or stopped < LEAST_SHARE:
        return None
    writes = database["writes"]
    ceiling = writes["flush_limit_per_s"]
    ios_of_page, _ = core.page_write_cost(database["cached_bytes"], writes["doublewrite"])
    volume = observation.run.caps.iops / ios_of_page
    at_once = volume if np.isfinite(volume) else ceiling
    return ((1.0 - stopped) * ceiling + stopped * at_once) / float(np.mean(observation.seconds_tps))
