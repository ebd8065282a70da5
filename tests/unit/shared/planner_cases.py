"""Days and databases that the planner's tests share."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl

from headrace.base import core
from headrace.base.storage import Storage
from headrace.calibration.from_runs import sysbench_tpcc
from headrace.planner import Plan, plan
from headrace.planner.candidates import GIB_STEPS, IOPS_STEPS, MIB_S_STEPS, round_figure_up
from headrace.workload import OpenWorkload
from headrace.workload.daily import new_constant
from headrace.workload.points import make_points

NO_ARRAYS = ("raid0", "raid10")
TYPES = ("standard", "gp2", "gp3", "io1", "io2", "st1", "sc1")
SSD_TYPES = ("gp2", "gp3", "io1", "io2")
DAY_S = 86_400
# Settings of golden figures that are about something else than what a plan adds by default.
BARE = {"free_percent": 0, "goals": ["headroom_percent>=0"]}


def only(*kinds: str, arrays: bool = False) -> tuple[str, ...]:
    """Returns the types to exclude so that only some types are left, as single volumes."""
    return (*(kind for kind in (*TYPES, "instance-store") if kind not in kinds), *(() if arrays else NO_ARRAYS))


def steady(**changes) -> OpenWorkload:
    """2,500 IOPS of 16 KiB all day on 500 GiB."""
    usual = {
        "reads_per_s": 1_500,
        "writes_per_s": 1_000,
        "write_kib": 16.0,
        "seconds": DAY_S,
        "size_gib": 500,
        "arrivals": "even",
    }
    return new_constant(**usual | changes)


def recorded(
    reads, writes=None, *, interval_s: float, size_gib: float, read_kib: float = 16.0, write_kib: float = 16.0, **more
) -> OpenWorkload:
    """A recording with a point every `interval_s`."""
    count = len(reads)
    writes = [0.0] * count if writes is None else writes
    times = [interval_s * i for i in range(count)]
    sizes = [[kib if rate else 0.0 for rate in rates] for kib, rates in ((read_kib, reads), (write_kib, writes))]
    points = make_points(times, [interval_s] * count, list(map(float, reads)), list(map(float, writes)), *sizes)
    return OpenWorkload(**{"name": "recorded", "kind": "recorded", "points": points, "size_gib": size_gib} | more)


def burst_day() -> OpenWorkload:
    """200 IOPS for 12 h, 2,500 IOPS for one hour, 200 IOPS for 11 h; 16 KiB reads on 300 GiB."""
    return recorded([200.0] * 12 + [2_500.0] + [200.0] * 11, interval_s=3_600.0, size_gib=300.0, name="burst day")


def repeated(workload: OpenWorkload, times: int) -> OpenWorkload:
    """Returns a recording repeated some times in a row, as a load without an end."""
    from dataclasses import replace

    span = float(workload.points["duration_s"].sum())
    parts = [workload.points.with_columns(pl.col("t_s") + span * i) for i in range(times)]
    return replace(workload, kind="recorded", points=pl.concat(parts))


def as_ordered(text: str) -> str:
    """A storage with every figure of its volumes rounded up to what one would order: the cheapest
    that a plan may be compared with."""
    storage = Storage.parse(text)
    first = storage.members[0]
    storage = storage.with_(size_gib=round_figure_up(first.size_gib, GIB_STEPS, 1, 65_536))
    if first.iops:
        storage = storage.with_(iops=round_figure_up(first.iops, IOPS_STEPS, 100, 256_000))
    if first.mib_s:
        storage = storage.with_(mib_s=round_figure_up(first.mib_s, MIB_S_STEPS, 125, 2_000))
    return str(storage)


def verdict(plan: Plan, name: str):
    return next(family for family in plan.choices.families if family.family == name)


def bare(workload, **settings) -> Plan:
    """A plan without free space and without head-room, unless asked for."""
    return plan(workload, **BARE | settings)


def judge(
    workload: OpenWorkload,
    storages: list[str],
    *,
    demand: float = 1.0,
    instance: str | None = None,
    as_of: str | None = None,
) -> pl.DataFrame:
    """Storages under `demand` times the load in the settled cycle, by the core alone: nothing pruned, nothing of the planner."""
    load = workload.to_core()
    load = {**load, **{rate: [value * demand for value in load[rate]] for rate in ("reads_per_s", "writes_per_s")}}
    names = [] if instance is None else [instance]
    raw = core.evaluate(
        load,
        storages,
        [None if instance is None else 0] * len(storages),
        names,
        as_of=as_of,
        prune_above=math.inf,
        cycle="settled",
    )
    columns = ("status", "worst_p99_ms", "throttled_s", "queue_at_end", "settled")
    costs = core.monthly_totals(storages, "us-east-1", as_of)
    return pl.DataFrame({"storage": storages, "usd": costs} | {name: raw[name] for name in columns}, strict=False)


def shop(engine: str = "innodb", **changes):
    """100 warehouses: 9 GiB in InnoDB."""
    return sysbench_tpcc(**{"warehouses": 100, "engine": engine, "cache_gib": 8, "threads": 16} | changes)


def certain(engine: str = "innodb", **changes):
    """`shop` with nothing in doubt but how runs scatter: there is one database to judge under."""
    return replace(shop(engine, **changes), parameters=())
