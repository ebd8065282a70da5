"""Purge and pauses of MariaDB with a small pool: both grow with the rate of transactions, so a
calibration on a slow volume shows less of them than the runs that are predicted from it.

Purge is a quarter of a second behind, when a pool of 64 MiB has evicted pages that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import GIB
from headrace.workload.misfit import find_misfit
from headrace.workload.transactions import TransactionWorkload


def estimate_pauses(calibrated: TransactionWorkload, cache_gib: float, tps: float, seconds: float) -> core.Pauses:
    """Returns the share of the time that pauses take of a run of `seconds` at `tps` beyond those in
    the calibration's run, and the relative standard deviation that they add to its mean; 0 for
    servers other than MariaDB."""
    if not _is_of_mariadb(calibrated):
        return {"lost_share": 0.0, "spread": 0.0}
    return core.pool_pauses(cache_gib, tps, _find_calibrated_tps(calibrated) or tps, seconds)


def adjust_purge(
    workload: TransactionWorkload,
    calibrated: TransactionWorkload,
    cache_gib: float,
    tps: float,
    changed: Sequence[float],
) -> TransactionWorkload:
    """Returns the `workload` with the pages that purge reads again in a cache at `tps`, instead of
    those at the rate of the calibration's run; unchanged for servers other than MariaDB. `changed`
    has the share of touches that change a page by page class. Raises InputError."""
    run_tps = _find_calibrated_tps(calibrated)
    if not _is_of_mariadb(calibrated) or run_tps is None or not tps > 0.0:
        return workload
    with translate_core_errors():
        database = core.purged_at(
            workload.database, (calibrated.cache_gib * GIB, run_tps), (cache_gib * GIB, tps), changed
        )
    return replace(workload, database=database)


def _is_of_mariadb(calibrated: TransactionWorkload) -> bool:
    return calibrated.engine == "innodb" and calibrated.server.flavor == "mariadb"


def _find_calibrated_tps(calibrated: TransactionWorkload) -> float | None:
    """Returns the transactions a second of the run that was calibrated on; None if there was no
    run, or several."""
    misfit = find_misfit(calibrated.runs[0]) if len(calibrated.runs) == 1 else None
    return None if misfit is None else misfit.measured_tps
