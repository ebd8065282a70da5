"""The distance of a cache from those of the runs: in turnovers since a cold start, and in what its
size changes of the I/Os of a transaction.

I/Os a transaction go on falling for long after the pool has filled, by more than the model has: a
run that ends early does not show where they settle. Another size is as far as the model says that
it matters: a law of the misses that is off by a share is off by that share of what it adds or
takes away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from headrace.base import core
from headrace.base.units import GIB
from headrace.workload.unexplained import compute_distance_from

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
    course = _follow(workload, cache_gib)
    if transactions is None:
        count = course.turned[-1]
    else:
        import numpy as np  # a tenth of a second that no other command should pay

        count = float(np.interp(transactions, course.places, course.turned))
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


def measure_size(workload: TransactionWorkload, cache_gib: float) -> float:
    """Returns the e-folds of I/Os a transaction between a settled cache and those of the runs: 0 of
    a size that a run had, and of one that changes nothing. A cache larger than the data counts as
    one of their size."""
    covered, largest = workload.covered, workload.size_gib or math.inf
    caches = [run["cache_gib"] * covered.grown for run in workload.runs] or list(covered.cache_gib or ())
    if not caches:
        return 0.0
    here, *measured = (_count_ios(workload, min(size, largest)) for size in (cache_gib, *caches))
    return compute_distance_from(measured, here)


def _count_ios(workload: TransactionWorkload, cache_gib: float) -> float:
    """Counts the I/Os of a transaction with a settled cache: pages read and written, and one more
    for its commit, so that a cache which holds everything is not infinitely far."""
    ios_of_page, _ = core.page_write_cost(workload.database["cached_bytes"], workload.database["writes"]["doublewrite"])
    reads, written = _follow(workload, cache_gib).settled
    return 1.0 + reads + ios_of_page * written


@dataclass(frozen=True)
class _Course:
    """A cache from a cold start: transactions (`places`), its turnovers by then, and where it is
    settled pages read and written by a transaction."""

    places: tuple[float, ...]
    turned: tuple[float, ...]
    settled: tuple[float, float]


@lru_cache(maxsize=1024)
def _follow(workload: TransactionWorkload, cache_gib: float) -> _Course:
    """Follows a cache from a cold start."""
    curve = core.mysql_warm_up(workload.database, cache_gib * GIB)
    reads, evicted, flushed, shape = (curve[name][-1] for name in ("reads", "evicted_dirty", "flushed", "shape"))
    return _Course(tuple(curve["tx"]), tuple(curve["turned"]), (reads * shape, (evicted + flushed) * shape))
