"""Measures the distance of a cache from those of the runs: in turnovers since a cold start, and in
the I/Os of a transaction that its size changes.

I/Os a transaction go on falling for long after the pool has filled, by more than the model has: a
run that ends early does not show where they settle. The distance of another size is its effect on
I/Os in the model, since the error of the model is a share of that effect.
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


def compute_turnovers(workload: TransactionWorkload, cache_gib: float, transactions: float | None) -> float:
    """Returns the turnovers of a cache after `transactions` from a cold start (None: warm,
    settled), limited to LEAST_TURNOVERS, which a cache that never fills has, and
    SETTLED_TURNOVERS."""
    warm_up = _simulate_warm_up(workload, cache_gib)
    if transactions is None:
        turnovers = warm_up.turnovers[-1]
    else:
        import numpy as np  # a tenth of a second that no other command should pay

        turnovers = float(np.interp(transactions, warm_up.transactions, warm_up.turnovers))
    return min(max(turnovers, LEAST_TURNOVERS), SETTLED_TURNOVERS)


def measure_life(workload: TransactionWorkload, cache_gib: float, transactions: float | None) -> float:
    """Returns the logarithm of a cache's turnovers over the most in any run; 0 if it has fewer, and
    without runs. `transactions` are those at the end of the prediction, as in
    `compute_turnovers`."""
    grown = workload.covered.grown
    seen = [
        compute_turnovers(
            workload, run["cache_gib"] * grown, None if run["start"] == "warm" else run["transactions"] * grown
        )
        for run in workload.runs
    ]
    if not seen:
        return 0.0
    return max(0.0, math.log(compute_turnovers(workload, cache_gib, transactions) / max(seen)))


def measure_size(workload: TransactionWorkload, cache_gib: float) -> float:
    """Returns the distance of a settled cache from those of the runs, as `compute_distance_from` of
    the I/Os a transaction: 0 for a size that a run had, and for one that changes no I/Os. A cache
    larger than the data counts as one of their size."""
    covered, largest = workload.covered, workload.size_gib or math.inf
    caches = [run["cache_gib"] * covered.grown for run in workload.runs] or list(covered.cache_gib or ())
    if not caches:
        return 0.0
    here, *measured = (_compute_ios_per_tx(workload, min(size, largest)) for size in (cache_gib, *caches))
    return compute_distance_from(measured, here)


def _compute_ios_per_tx(workload: TransactionWorkload, cache_gib: float) -> float:
    """Returns the I/Os of a transaction with a settled cache: pages read and written, and one for
    its commit, so that the distance of a cache that holds all data is finite."""
    ios_of_page, _ = core.page_write_cost(workload.database["cached_bytes"], workload.database["writes"]["doublewrite"])
    reads, written = _simulate_warm_up(workload, cache_gib).settled
    return 1.0 + reads + ios_of_page * written


@dataclass(frozen=True)
class _WarmUp:
    """The warm-up of a cache from a cold start: its turnovers after these numbers of transactions,
    and the pages that a transaction reads and writes once it is settled."""

    transactions: tuple[float, ...]
    turnovers: tuple[float, ...]
    settled: tuple[float, float]


@lru_cache(maxsize=1024)
def _simulate_warm_up(workload: TransactionWorkload, cache_gib: float) -> _WarmUp:
    """Returns the warm-up of a cache from a cold start by the core; results are cached."""
    curve = core.mysql_warm_up(workload.database, cache_gib * GIB)
    reads, evicted, flushed, shape = (curve[name][-1] for name in ("reads", "evicted_dirty", "flushed", "shape"))
    return _WarmUp(tuple(curve["tx"]), tuple(curve["turned"]), (reads * shape, (evicted + flushed) * shape))
