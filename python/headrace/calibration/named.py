"""Workloads that a word names, without a file: the recorded example, closed loads in fio's words,
standard benchmarks."""

from __future__ import annotations

from headrace import workload as workloads
from headrace.base.lazy import defer_imports
from headrace.errors import InputError
from headrace.simulation import notation

# A plan for a recorded day reads no run: what reads runs takes a tenth of the time of such a plan.
with defer_imports():
    from headrace.calibration import from_runs

# Function of `from_runs` that makes the database of a standard benchmark.
STANDARDS = {"sysbench-tpcc": "sysbench_tpcc", "sysbench": "sysbench_oltp", "hammerdb-tprocc": "hammerdb_tprocc"}
EXAMPLES = {"demo:day": workloads.demo_day, "demo:hour": workloads.recorded_hour}


def read_named(text: str) -> workloads.Workload | workloads.TransactionWorkload | None:
    """Returns the workload that a text names, such as `demo:day`, `fio:rw=randread` or
    `sysbench-tpcc:warehouses=1000,...`; None if it begins with no such word. Raises InputError."""
    kind = text.partition(":")[0] if ":" in text else ""
    if kind == "fio":
        return notation.parse_closed_load(text)
    if kind in STANDARDS:
        return getattr(from_runs, STANDARDS[kind])(**notation.parse_standard_settings(text))
    if kind != "demo":
        return None
    if text not in EXAMPLES:
        raise InputError(text, "is neither demo:day nor demo:hour", "headrace workload show --help", "Use demo:day.")
    return EXAMPLES[text]()
