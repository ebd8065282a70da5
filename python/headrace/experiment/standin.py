"""The stand-in of a database on the lab: sysbench's oltp_read_write over data of the same size,
with accesses skewed so that the same share of page touches misses the cache. The other figures of
the load (statements, pages touched by each) are the same in every configuration, and the
calibration determines them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import GIB, format_percent
from headrace.bench import SysbenchOltp
from headrace.calibration.prior import DISTRIBUTION_OPTIONS
from headrace.errors import Refusals

refuse = Refusals("docs/guide/prove.md")
# A row of sbtest with its index entry, bytes on disk: 8 x 1,000,000 rows take 1.84 GiB (InnoDB) and
# 1.59 GiB (MyRocks, not compressed): MariaDB 10.11, 2026-11-21.
ROW_BYTES = {"innodb": 247.0, "myrocks": 214.0}
# Tables: as many as sysbench prepares in parallel; the least rows of each are a guess.
TABLES, LEAST_ROWS = 8, 10_000
SCRIPT = "oltp_read_write"
# sysbench's --rand-pareto-h: at 0.5 every row is as likely as another; below 0.02 nearly all
# touches go to a few pages.
MOST_SKEWED_H, UNIFORM_H = 0.02, 0.5
# Halving the range of h this often leaves a thousandth of it.
HALVINGS = 10


@dataclass(frozen=True)
class StandIn:
    """The stand-in: `benchmark` with `data_gib` of data, and the parameter `h` of its distribution
    (0.5: uniform). `miss` is its share of touches that miss the settled cache, `database_miss` that
    of the database."""

    benchmark: SysbenchOltp
    data_gib: float
    h: float
    miss: float
    database_miss: float

    @property
    def words(self) -> str:
        """Returns a sentence on the load, its distribution and both shares of misses."""
        skew = "uniform" if self.h >= UNIFORM_H else f"pareto, h = {self.h:.3f}"
        return (
            f"sysbench {SCRIPT} over {self.benchmark.tables} x {self.benchmark.rows:,} rows ({self.data_gib:.2f} GiB, "
            f"{skew}): {format_percent(self.miss, 1)} of its page touches miss the cache, {format_percent(self.database_miss, 1)} of the database's."
        )


def make_stand_in(engine: str, data_gib: float, cache_gib: float, threads: int, target_miss: float) -> StandIn:
    """Returns the stand-in over `data_gib` of data whose share of misses in a cache of `cache_gib`
    is nearest to `target_miss` (0..1). Raises InputError for too little data."""
    rows = int(data_gib * GIB / ROW_BYTES[engine] / TABLES)
    if rows < LEAST_ROWS:
        least = LEAST_ROWS * TABLES * ROW_BYTES[engine] / GIB
        rule = f"are too few: at least {least:.2f} GiB"
        raise refuse.input(f"{data_gib:.3f} GiB of data", rule, "Prove at a larger scale.")
    low, high = MOST_SKEWED_H, UNIFORM_H
    most = compute_miss(engine, rows, cache_gib, threads, None)
    if target_miss >= most:
        return StandIn(SysbenchOltp(SCRIPT, TABLES, rows, "uniform"), data_gib, UNIFORM_H, most, target_miss)
    miss = most
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        miss = compute_miss(engine, rows, cache_gib, threads, middle)
        low, high = (middle, high) if miss < target_miss else (low, middle)
    h = round(math.sqrt(low * high), 4)
    miss = compute_miss(engine, rows, cache_gib, threads, h)
    return StandIn(SysbenchOltp(SCRIPT, TABLES, rows, "pareto", {"rand_pareto_h": h}), data_gib, h, miss, target_miss)


def compute_miss(engine: str, rows: int, cache_gib: float, threads: int, h: float | None) -> float:
    """Returns the share of page touches (0 to 1) that read a page once a cache of `cache_gib` has
    settled. `rows`: of each table; `h`: of the Pareto distribution, None: uniform."""
    options = _build_options(engine, rows, threads=threads, cache_gib=cache_gib, h=h)
    with translate_core_errors():
        database = core.mysql_sysbench(options)["database"]
    return compute_settled_miss(database, cache_gib)


def _build_options(engine: str, rows: int, cache_gib: float, threads: int, h: float | None) -> dict:
    """Returns the options of sysbench for the core. `rows`: of each table; `h`: of the Pareto
    distribution of accesses, None: uniform."""
    return {
        "script": SCRIPT,
        "engine": engine,
        "tables": TABLES,
        "table_size": rows,
        "distribution": {"type": "uniform"} if h is None else {"type": "pareto", "h": h},
        "threads": threads,
        "cache_gib": cache_gib,
    }


def compute_changed(engine: str, benchmark: SysbenchOltp) -> list[float]:
    """Returns the share of touches that change a page, per class of pages. Raises InputError."""
    options = _build_options(engine, benchmark.rows, cache_gib=1.0, threads=1, h=None)
    with translate_core_errors():
        return core.mysql_sysbench(options | {"distribution": describe_distribution(benchmark)})["changed"]


def describe_distribution(load: SysbenchOltp) -> dict[str, str | float]:
    """Returns the distribution of a load's accesses as the core names it."""
    described: dict[str, str | float] = {"type": load.distribution}
    for name, value in load.list_options()["parameters"].items():
        if name in DISTRIBUTION_OPTIONS:
            described[DISTRIBUTION_OPTIONS[name]] = float(value)
    return described


def compute_settled_miss(database: Mapping[str, Any], cache_gib: float) -> float:
    """Returns the share of a database's page touches (0 to 1) that miss a settled cache of
    `cache_gib`."""
    with translate_core_errors():
        curve = core.mysql_warm_up(database, cache_gib * GIB)
    touches = sum(item["pages"] * item["touches_per_tx"] for item in database["popularity"])
    return float(min(1.0, curve["reads"][-1] / max(touches, 1e-12)))
