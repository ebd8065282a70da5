"""Workloads that a word names, without a file: the recorded example, closed loads in fio's words,
standard benchmarks."""

from __future__ import annotations

from headrace import workload as workloads
from headrace.calibration import from_runs
from headrace.errors import InputError
from headrace.simulation import notation

STANDARDS = {
    "sysbench-tpcc": from_runs.sysbench_tpcc,
    "sysbench": from_runs.sysbench_oltp,
    "hammerdb-tprocc": from_runs.hammerdb_tprocc,
}
EXAMPLES = {"demo:day": workloads.demo_day, "demo:hour": workloads.recorded_hour}


def read_named(text: str) -> workloads.Workload | workloads.TransactionWorkload | None:
    """Returns the workload that a text names: `demo:day`, `fio:rw=randread`,
    `sysbench-tpcc:warehouses=1000,...`; None where it names none of these. Raises InputError."""
    kind = text.partition(":")[0] if ":" in text else ""
    if kind == "fio":
        return notation.closed_load(text)
    if kind in STANDARDS:
        return STANDARDS[kind](**notation.standard_settings(text))
    if kind != "demo":
        return None
    if text not in EXAMPLES:
        raise InputError(text, "is neither demo:day nor demo:hour", "headrace workload show --help", "Use demo:day.")
    return EXAMPLES[text]()
