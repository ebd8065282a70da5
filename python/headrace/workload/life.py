"""Turnovers of a cache since a cold start: those of a run, and those of a prediction.

I/Os a transaction go on falling for long after the pool has filled, by more than the model has: a
run that ends early does not show where they settle.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from headrace.base import core
from headrace.base.units import GIB

if TYPE_CHECKING:
    from headrace.workload.transactions import TransactionWorkload

# Turnovers of the cache after which I/Os a transaction change by less than 1 %: the three published
# runs of 2018 that go on for longer (InnoDB at 20,000 and 26,000 IOPS, MyRocks at 20,000).
SETTLED_TURNOVERS = 12.0
# A pool that has just filled: the first tenth of a turnover is where the core's shape begins.
LEAST_TURNOVERS = 0.1


def count_turnovers(workload: TransactionWorkload, cache_gib: float, transactions: float | None) -> float:
    """Counts how often a cache was turned over after `transactions` from a cold start (None: warm,
    settled), between LEAST_TURNOVERS (where it never fills too) and SETTLED_TURNOVERS."""
    places, turned = _follow(workload, cache_gib)
    if transactions is None:
        count = turned[-1]
    else:
        import numpy as np  # a tenth of a second that no other command should pay

        count = float(np.interp(transactions, places, turned))
    return min(max(count, LEAST_TURNOVERS), SETTLED_TURNOVERS)


def measure_life(workload: TransactionWorkload, cache_gib: float, transactions: float | None) -> float:
    """Returns the e-folds of turnovers by which a cache lives longer than in any of the runs, 0
    where it does not. `transactions`: at the end of what is asked, as of `count_turnovers`."""
    grown = workload.covered.grown
    seen = [
        count_turnovers(
            workload, run["cache_gib"] * grown, None if run["start"] == "warm" else run["transactions"] * grown
        )
        for run in workload.runs
    ]
    if not seen:
        return 0.0
    return max(0.0, math.log(count_turnovers(workload, cache_gib, transactions) / max(seen)))


@lru_cache(maxsize=1024)
def _follow(workload: TransactionWorkload, cache_gib: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Follows a cache from a cold start: transactions, and its turnovers by then."""
    curve = core.mysql_warm_up(workload.database, cache_gib * GIB)
    return tuple(curve["tx"]), tuple(curve["turned"])
