"""Parameters of a database that a calibration identifies, each with the spread it has before
anything is measured.

A parameter is positive and known by a factor, so everything is in logarithms: a value of 0.1 means
10 % more than the standard database says.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.base import core
from headrace.base.packaged import read_rows
from headrace.workload.unexplained import read_spreads as unexplained_spreads


@dataclass(frozen=True)
class ModelParameter:
    """A parameter of a calibration: its `path` in the core's database, its relative standard
    deviation before a run (`spread`, 1 is a factor of e), its description, and the most (`limit`)
    and `least` values that the core takes."""

    name: str
    path: tuple[str, ...]
    spread: float
    words: str
    limit: float = math.inf
    least: float = 0.0


def _read_group(name: str) -> tuple[ModelParameter, ...]:
    """Returns the parameters of a group in parameters.csv, which has the source of each spread."""
    return tuple(
        ModelParameter(
            row["name"],
            tuple(row["path"].split(".")),
            float(row["spread"]),
            row["words"],
            float(row["limit"] or math.inf),
            float(row["least"] or 0.0),
        )
        for row in read_rows("headrace.workload", "parameters.csv")
        if row["group"] == name
    )


OF_CLIENTS = _read_group("clients")  # alike in both engines
INNODB, MYROCKS = _read_group("innodb") + OF_CLIENTS, _read_group("myrocks") + OF_CLIENTS
LOCAL_DISK, (LAST_ORDERS,) = _read_group("local_disk"), _read_group("last_orders")
CPU_SPREAD = next(parameter.spread for parameter in OF_CLIENTS if parameter.name == "cpu_ms")


# With the last orders apart, blocks of sysbench-tpcc follow from its rows and statements, to 5 %
# each as pages of sysbench's own scripts do; and from superseded versions, which take between
# nothing and a ninth of the data where levels grow tenfold (RocksDB's default), and up to a quarter
# where their sizes are static (a guess): even from 0 to 25 %.
TPCC_BLOCKS_SPREAD = math.hypot(0.05, 0.05, 0.25 / math.sqrt(12.0))


# Rows and statements of sysbench's own scripts and of HammerDB's TPROC-C are known, so pages and
# touches of a transaction in InnoDB are to 5 % each (SPREADS of the core's sysbench standard): what
# is left, the disk tells.
SIZED_BENCHMARKS = ("sysbench-oltp", "hammerdb-tprocc")
SIZED_PAGES_SPREAD = math.hypot(0.05, 0.05)
# Those statements decide which touches change a page, and so how dirty pages leave the cache: as
# far as touches and changes are known. The delay of the page cleaner is another parameter.
FOLLOWED_DIRTY_SPREAD = math.hypot(0.05, 0.05)


# The standard of sysbench-tpcc was measured with up to this share of its data cached (25 of 94 GB,
# m5 2018). Beyond it TPC-C's tables say how many pages are touched, as the core has it
# (`mysql/standard.rs`); half of that step is not known: 0.62 / 2 by an e-fold of the cached share
# of all data, which is 1.62 e-folds of the share of the pages that are left.
TPCC_CACHED_SHARE = 0.27
TPCC_PAGES_BEYOND = 0.19


def count_data_bytes(database: Mapping) -> float:
    """Returns the bytes on disk of all pages that the transactions touch."""
    return sum(item["pages"] for item in database["popularity"]) * database["read_bytes"]


def estimate_pages_spread(engine: str, database: Mapping[str, Any], benchmark: str, cache_bytes: float) -> float | None:
    """Returns the relative standard deviation of the pages touched before a run with such a cache,
    for sysbench-tpcc on InnoDB; None for others, where it does not depend on the cache."""
    if engine != "innodb" or benchmark != "sysbench-tpcc":
        return None
    cached_share = min(1.0, cache_bytes / count_data_bytes(database))
    beyond = math.log(max(1.0, cached_share / TPCC_CACHED_SHARE))
    usual = next(each.spread for each in INNODB if each.name == "pages_touched")
    return math.hypot(usual, TPCC_PAGES_BEYOND * beyond)


def list_parameters(
    engine: str, database: Mapping[str, Any] | None = None, benchmark: str = "", cache_bytes: float | None = None
) -> tuple[ModelParameter, ...]:
    """Returns the parameters of the engine `innodb` or `myrocks`. A database adds those that only
    some have; it, its `benchmark` and the `cache_bytes` of the largest run decide spreads."""
    parameters = INNODB if engine == "innodb" else MYROCKS
    if database is None:
        return parameters
    spreads = {}
    if engine == "innodb" and benchmark in SIZED_BENCHMARKS:
        spreads["pages_touched"] = SIZED_PAGES_SPREAD
    if engine == "innodb" and benchmark in SIZED_BENCHMARKS and database.get("dirtying") is not None:
        spreads |= {"first_dirty": FOLLOWED_DIRTY_SPREAD, "later_dirty": FOLLOWED_DIRTY_SPREAD}
    if cache_bytes is not None and (pages := estimate_pages_spread(engine, database, benchmark, cache_bytes)):
        spreads["pages_touched"] = pages
    if database.get("last_orders") is not None:
        spreads["pages_touched"] = TPCC_BLOCKS_SPREAD
    # If the speed of the cores is not known, the processor time is known less well.
    unknown = 0.0 if database["clients"].get("core_speed") else unexplained_spreads()["unknown_speed"]
    spreads["cpu_ms"] = math.hypot(CPU_SPREAD, unknown)
    parameters = tuple(replace(each, spread=spreads.get(each.name, each.spread)) for each in parameters)
    # Older files have no ratio of reads, and no last orders.
    return parameters + tuple(each for each in (LAST_ORDERS, *LOCAL_DISK) if database.get(each.name) is not None)


def scale_parameters(database: dict, engine: str, deltas: dict[str, float]) -> dict:
    """Returns a copy of a core database with parameters multiplied by exp(delta)."""
    changed = copy.deepcopy(database)
    for parameter in list_parameters(engine, database):
        delta = deltas.get(parameter.name, 0.0)
        if delta:
            _multiply(changed, parameter, math.exp(delta))
    return changed


def get_value(database: dict, parameter: ModelParameter) -> float:
    """Returns the value of a parameter in a database: for the popularity the pages touched, for
    compaction the bytes a transaction (0 without compaction), for `base_ms` the response time
    without I/O and processor time."""
    if parameter.path == ("popularity",):
        return sum(item["pages"] for item in database["popularity"])
    if parameter.path == ("compaction", "bytes"):
        if database["compaction"] is None:  # a script that only reads
            return 0.0
        return database["compaction"]["read_bytes_per_tx"] + database["compaction"]["write_bytes_per_tx"]
    if parameter.name == "base_ms":
        return max(0.0, database["clients"]["base_ms"] - core.core_ms(database["clients"]))
    place: Any = database
    for key in parameter.path:
        place = place[key]
    return place


def _multiply(database: dict, parameter: ModelParameter, factor: float) -> None:
    """Multiplies a parameter in `database`, which is changed, within its range; popularity and
    compaction are scaled as a whole."""
    if parameter.path == ("popularity",):
        for item in database["popularity"]:
            item["pages"] *= factor
        return
    if parameter.path == ("compaction", "bytes"):
        compaction = database["compaction"]
        for key in ("read_bytes_per_tx", "write_bytes_per_tx") if compaction else ():
            compaction[key] *= factor
        return
    if parameter.name in ("base_ms", "cpu_ms"):
        return _multiply_time(database["clients"], parameter.name, factor)
    *tables, last = parameter.path
    place = database
    for key in tables:
        place = place[key]
    place[last] = max(min(place[last] * factor, parameter.limit), parameter.least)


def _multiply_time(clients: dict, name: str, factor: float) -> None:
    """Multiplies a time in `clients`, which is changed. `cpu_ms` scales the processor times of
    transactions and I/Os and the response time without I/O, since a transaction with more work has
    more of all; `base_ms` scales the part of that response time that is not processor time."""
    if name == "cpu_ms":
        for each in clients.keys() & {"cpu_ms", "io_ms", "io_device_ms", "base_ms"}:
            clients[each] *= factor
        return
    rest = max(0.0, clients["base_ms"] - core.core_ms(clients))
    clients["base_ms"] += (factor - 1.0) * rest
