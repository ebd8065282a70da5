"""Purge and pauses of a small pool of MariaDB: it does more of both the faster its clients are, so
a calibration on a slow volume shows less of it than the runs that are predicted from it.

Purge comes a quarter of a second behind: a pool of 64 MiB has lost pages by then. And the server
pauses at times.
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
    """Estimates what pauses take of a run of `seconds` at `tps` beyond those of its calibration:
    the share of its time, and the relative standard deviation that their chance gives its mean."""
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
    """Returns the `workload` with what purge reads again in a cache at `tps`, which is not what it
    reads at the rate of the run that was calibrated on. `changed`: per class of pages the share of
    touches that change one. Raises InputError."""
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
