"""The workloads that the page offers to begin with."""

from __future__ import annotations

from dataclasses import dataclass, field

# A cache of 25 GiB, 16 clients and 1,000 warehouses are those of the published runs in
# docs/accuracy.md; the goals are a beginning to be moved.
TPCC = "warehouses=1000,cache_gib=25,threads=16"


@dataclass(frozen=True)
class Example:
    """A workload by its text, with settings of a plan to begin with and a storage to run it on."""

    title: str
    workload: str
    kind: str
    settings: dict[str, object] = field(default_factory=dict)
    storage: str = "gp3:500:6000"


EXAMPLES = (
    Example("Recorded day, TPC-C on gp2", "demo:day", "demand", {"compare": "gp2:1200"}),
    Example("sysbench-tpcc, InnoDB", f"sysbench-tpcc:{TPCC}", "database", {"goals": ["tps>=300"]}),
    Example(
        "sysbench-tpcc, MyRocks",
        f"sysbench-tpcc:{TPCC},engine=myrocks",
        "database",
        {"goals": ["tps>=300"]},
    ),
    Example("HammerDB TPROC-C", f"hammerdb-tprocc:{TPCC}", "database", {"goals": ["tps>=300"]}),
    Example(
        "sysbench oltp_read_write",
        "sysbench:script=oltp_read_write,tables=20,table_size=10000000,cache_gib=24,threads=32",
        "database",
        {"goals": ["tps>=500"]},
    ),
)
