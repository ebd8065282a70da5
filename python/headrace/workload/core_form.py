"""Workloads as the Rust core takes them."""

from __future__ import annotations

from headrace.base.units import GIB, KIB, MIB  # noqa: F401  # others take MIB from here
from headrace.workload import ClosedWorkload, OpenWorkload


def core_load(workload: OpenWorkload | ClosedWorkload) -> dict:
    """A workload as the core takes it: bytes instead of KiB, points as columns."""
    span_bytes = int((workload.size_gib or 0) * GIB)
    if isinstance(workload, ClosedWorkload):
        return {
            "kind": "closed",
            "rw": workload.rw,
            "block_bytes": int(workload.bs_kib * KIB),
            "iodepth": workload.iodepth,
            "numjobs": workload.numjobs,
            "rwmixread": workload.rwmixread,
            "span_bytes": span_bytes,
        }
    points = workload.points
    return {
        "kind": "open",
        "duration_s": points["duration_s"].to_list(),
        "reads_per_s": points["reads_per_s"].to_list(),
        "writes_per_s": points["writes_per_s"].to_list(),
        "read_bytes": (points["read_kib"] * KIB).to_list(),
        "write_bytes": (points["write_kib"] * KIB).to_list(),
        "sequential_read_share": workload.sequential_read_share,
        "sequential_write_share": workload.sequential_write_share,
        "arrivals": workload.arrivals,
        "max_outstanding": 1024,
        "span_bytes": span_bytes,
    }
