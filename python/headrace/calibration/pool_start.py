"""Estimates the share of the buffer pool that was in use when a run began.

A server that starts reads pages back that its pool held before (innodb_buffer_pool_load_at_startup;
by default a quarter of them, those that were used last, in MySQL from 5.7.7 and MariaDB from
10.2.2), from a pool of whatever size that one had. So a pool is seldom empty, and a small one may
be full. A description says "cold" for all of them. If pages are drawn alike, the rate falls at once
where the pool is full, so that a run tells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.base import core
from headrace.base.units import GIB, format_percent
from headrace.calibration.fit import Objective, fit
from headrace.calibration.observations import Observation
from headrace.calibration.popularity import draws_pages_alike
from headrace.calibration.starts import list_directions

# Shares of a pool with which a run may have begun, as likely as each other before it (chosen: steps
# of what is read back by default).
POOL_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def find_pool_starts(database: dict, observations: Sequence[Observation]) -> tuple[list[Observation], list[str]]:
    """Returns the observations with `begun_tx`, the transactions after which an empty pool would be
    as full as it was at the start of the run, and a sentence for each run whose pool was not empty.
    `database` is the one before the runs."""
    starts = [_find_pool_start(database, observation) for observation in observations]
    notes = [
        f"{observation.run.name}: about {format_percent(share)} of the pool was in use when it began, as its first minutes say."
        for observation, share in starts
        if share > 0.0
    ]
    return [observation for observation, _ in starts], notes


def _find_pool_start(database: dict, observation: Observation) -> tuple[Observation, float]:
    """Returns the observation with its `begun_tx`, and the likeliest of POOL_SHARES for the pool in
    use at its start; 0 unless it is a cold run of InnoDB whose pages are accessed alike."""
    run = observation.run
    full_at_tx = core.mysql_warm_up(database, run.cache_gib * GIB)["full_at_tx"]
    if run.engine != "innodb" or run.start != "cold" or not draws_pages_alike(run) or not full_at_tx:
        return observation, 0.0
    candidates = {share: replace(observation, begun_tx=share * full_at_tx) for share in POOL_SHARES}
    cost = {share: _measure_misfit(database, each) for share, each in candidates.items()}
    likeliest = min(POOL_SHARES, key=lambda share: cost[share])
    return candidates[likeliest], likeliest


def _measure_misfit(database: dict, observation: Observation) -> float:
    """Returns the cost of the best fit to one run: half a sum of squares."""
    objective = Objective(database | {"shape": {"filling": [], "full": []}}, "innodb", [observation], lenient=True)
    return fit(objective, list_directions(objective.names)[:1]).cost
