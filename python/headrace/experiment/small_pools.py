"""Purge and pauses of a small pool of MariaDB: it does more of both the faster its clients are, so
a calibration on a slow volume shows less of it than the runs that are predicted from it.

Purge comes a quarter of a second behind: a pool of 64 MiB has lost pages by then. And the server
pauses at times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.units import GIB
from headrace.workload.misfit import misfit_of
from headrace.workload.transactions import TransactionWorkload

# Pauses in which nothing reaches the device: one of 0.31 s (0.12 to 0.48) in 2,000 transactions, 19
# in 39,000 (10.11.19, a pool of 64 MiB, 21 runs of seven proofs on the lab, 2026-11-28). From
# 0.5 GiB on they were not seen (docs/semantics.md).
PAUSE_S, TX_PER_PAUSE, PAUSES_BELOW_GIB = 0.31, 2_000.0, 0.5


@dataclass(frozen=True)
class Pauses:
    """Effect of pauses on a run beyond those of its calibration: the share of its time, and the
    relative standard deviation that their chance gives its mean."""

    lost_share: float = 0.0
    spread: float = 0.0


def estimate_pauses(calibrated: TransactionWorkload, cache_gib: float, tps: float, seconds: float) -> Pauses:
    """Estimates the pauses of a run of `seconds` at `tps`: they come by chance, with the
    transactions. The calibration's mean has its own in it."""
    if not _is_of_mariadb(calibrated) or cache_gib >= PAUSES_BELOW_GIB or not tps > 0.0:
        return Pauses()
    more_tps = tps - (_find_calibrated_tps(calibrated) or tps)
    spread = PAUSE_S * math.sqrt(tps * seconds / TX_PER_PAUSE) / seconds
    return Pauses(more_tps * PAUSE_S / TX_PER_PAUSE, spread)


def purge_at(
    workload: TransactionWorkload,
    calibrated: TransactionWorkload,
    cache_gib: float,
    tps: float,
    changed: Sequence[float],
) -> TransactionWorkload:
    """Returns the `workload` with what purge reads again in a cache at `tps`, which is not what it
    reads at the rate of the run that was calibrated on. `changed`: per class of pages the share of
    touches that change one. Raises InputError."""
    run_tps = _find_calibrated_tps(calibrated)
    if not _is_of_mariadb(calibrated) or run_tps is None or not tps > 0.0:
        return workload
    with core_errors():
        database = core.purged_at(
            workload.database, (calibrated.cache_gib * GIB, run_tps), (cache_gib * GIB, tps), changed
        )
    return replace(workload, database=database)


def _is_of_mariadb(calibrated: TransactionWorkload) -> bool:
    return calibrated.engine == "innodb" and calibrated.server.flavor == "mariadb"


def _find_calibrated_tps(calibrated: TransactionWorkload) -> float | None:
    """Returns the rate of the run that was calibrated on; None without one, and of several."""
    misfit = misfit_of(calibrated.runs[0]) if len(calibrated.runs) == 1 else None
    return None if misfit is None else misfit.measured_tps
