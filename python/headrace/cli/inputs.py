"""Workloads as they are typed: files, the recorded example, closed loads, benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import InputError

if TYPE_CHECKING:
    from headrace.workload import TransactionWorkload, Workload

SOURCE = "docs/reference/workload-file.md"


def read_workload(text: str) -> Workload | TransactionWorkload:
    """The workload a user means. Raises InputError or CouldNotRun."""
    from headrace import workload

    if text.startswith("fio:"):
        from headrace.simulation.notation import closed_load

        return closed_load(text)
    if text.startswith(("sysbench-tpcc:", "sysbench:")):
        from headrace.calibration.from_runs import sysbench_oltp, sysbench_tpcc
        from headrace.simulation.notation import standard_settings

        make = sysbench_tpcc if text.startswith("sysbench-tpcc:") else sysbench_oltp
        return make(**standard_settings(text))
    if text.startswith("demo:") and not Path(text).exists():
        made = {"demo:day": workload.demo_day, "demo:hour": workload.recorded_hour}.get(text)
        if made is None:
            raise InputError(
                text, "is neither demo:day nor demo:hour", "headrace workload demo --help", "Use demo:day."
            )
        return made()
    return workload.load(text)


def read_demand(text: str) -> Workload:
    """Demand in I/Os. Raises InputError for a database, and as `read_workload`."""
    from headrace.workload import TransactionWorkload

    found = read_workload(text)
    if isinstance(found, TransactionWorkload):
        raise InputError(
            text,
            "is a database in transactions, not demand in I/Os",
            SOURCE,
            "`headrace predict` runs a database on a storage.",
        )
    return found


def read_database(text: str) -> TransactionWorkload:
    """A database in transactions. Raises InputError for demand, and as `read_workload`."""
    from headrace.workload import TransactionWorkload

    found = read_workload(text)
    if not isinstance(found, TransactionWorkload):
        hint = "Give a workload that `headrace calibrate` wrote, or sysbench-tpcc:..."
        raise InputError(text, "is demand in I/Os, not a database in transactions", SOURCE, hint)
    return found
