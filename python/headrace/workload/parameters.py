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
from headrace.workload.unexplained import spreads as unexplained_spreads


@dataclass(frozen=True)
class ModelParameter:
    """One parameter: `path` in the core's database, `spread` its relative standard deviation before
    a run (1 = a factor of e), `limit` and `least` what the core takes at most and at least."""

    name: str
    path: tuple[str, ...]
    spread: float
    words: str
    limit: float = math.inf
    least: float = 0.0


# One machine stands behind each standard's processor time (SPREADS of the core's sysbench
# standard).
CPU_SPREAD = 0.35
# Guess: the standard's serial share is one itself, known to a factor of e.
SERIAL_SPREAD = 1.0
# Network, sleep and wake-up: the client may be on the server's host or in another zone, which is
# from nothing to a millisecond a statement. Chosen.
BASE_SPREAD = 0.4
# Alike in both engines.
OF_CLIENTS = (
    ModelParameter("base_ms", ("clients", "base_ms"), BASE_SPREAD, "response time without I/O and processor"),
    ModelParameter("cpu_ms", ("clients", "cpu_ms"), CPU_SPREAD, "processor time of a transaction"),
    ModelParameter(
        "serial_share",
        ("clients", "serial_share"),
        SERIAL_SPREAD,
        "share of the processor time that one transaction at a time can be in",
        1.0,
    ),
    ModelParameter(
        "sharpness", ("clients", "sharpness"), 0.2, "how sharply one limit takes over from the next", 64.0, 1.0
    ),
)
# Spreads: how far the standard benchmark's values differ between the published m5 and c5 runs of
# 2018, or a guess of like size.
INNODB = (
    ModelParameter("pages_touched", ("popularity",), 0.25, "distinct pages that transactions touch"),
    ModelParameter("usable_share", ("usable_share",), 0.02, "share of the buffer pool that holds pages", 1.0),
    ModelParameter("old_share", ("old_share",), 0.15, "effective share of the LRU list's old sublist", 1.0, 0.05),
    ModelParameter(
        "flush_per_tx", ("writes", "flush_per_tx"), 0.5, "pages flushed from the flush list per transaction", 1e5
    ),
    ModelParameter(
        "flush_ramp_tx", ("writes", "flush_ramp_tx"), 0.7, "transactions until flushing reaches its full rate"
    ),
    ModelParameter(
        "first_dirty", ("writes", "first_dirty"), 0.3, "dirty share of pages read while the pool fills", 2.0
    ),
    ModelParameter("later_dirty", ("writes", "later_dirty"), 0.4, "dirty share of pages read later", 2.0),
    ModelParameter(
        "dirty_slope",
        ("writes", "dirty_slope"),
        0.35,
        "how much likelier a rarely used page is dirty when evicted",
        2.0,
    ),
    ModelParameter(
        "background_per_s", ("writes", "background_per_s"), 0.25, "pages written in the background a second", 1e6
    ),
    *OF_CLIENTS,
)
MYROCKS = (
    ModelParameter("pages_touched", ("popularity",), 0.4, "distinct blocks that transactions touch"),
    ModelParameter("usable_share", ("usable_share",), 0.05, "share of the block cache that holds blocks", 1.0),
    ModelParameter("read_bytes", ("read_bytes",), 0.2, "bytes of a compressed block", 262_144.0, 512.0),
    ModelParameter(
        "compaction_bytes", ("compaction", "bytes"), 0.5, "bytes that compaction reads and writes per transaction"
    ),
    *OF_CLIENTS,
)


# Relative spread of the speed of a local disk that the catalog has no figure of. The speed before
# the run is the core's `local_disk`, known as far as this if not even its size is known (the
# standard deviation over drives of some TB behind SATA and NVMe); a run's own: `find_own_spreads`.
LOCAL_DISK_SPREAD = 0.82
# It takes more reads than writes, by a ratio that differs less from disk to disk: the deviation of
# the six families in data/instances_local_iops.csv (1.25 to 2.5) and of the disk of m5d that the
# catalog's guess was measured on (67,700 to 32,000) is 0.29; how a load shares the disk between
# them adds to it.
LOCAL_DISK = (
    ModelParameter(
        "local_disk",
        ("local_disk",),
        LOCAL_DISK_SPREAD,
        "speed at which the local disk writes over the catalog's guess",
        1e3,
        1e-3,
    ),
    ModelParameter(
        "local_disk_reads",
        ("local_disk_reads",),
        0.29,
        "reads of the local disk for each write over the catalog's guess",
        1e3,
        1e-3,
    ),
)


# Blocks that TPC-C's stock level looks at on MyRocks. The specification says which: 200 rows in one
# of 23 transactions, on a block each at most. In data that a run before has left they are next to
# none (the m5 runs of 2018): known to a factor of e^2, below.
LAST_ORDERS = ModelParameter(
    "last_orders",
    ("last_orders", "touches_per_tx"),
    2.0,
    "blocks of the last orders' stock that a transaction looks at",
    200.0 / 23.0,
)
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


def estimate_pages_spread(engine: str, database: Mapping[str, Any], benchmark: str, cache_bytes: float) -> float | None:
    """Estimates how far the pages touched are known before a run behind such a cache, as a relative
    standard deviation; None where that does not depend on it."""
    if engine != "innodb" or benchmark != "sysbench-tpcc":
        return None
    data_bytes = sum(item["pages"] for item in database["popularity"]) * database["read_bytes"]
    beyond = math.log(max(1.0, min(1.0, cache_bytes / data_bytes) / TPCC_CACHED_SHARE))
    usual = next(each.spread for each in INNODB if each.name == "pages_touched")
    return math.hypot(usual, TPCC_PAGES_BEYOND * beyond)


def of_engine(
    engine: str, database: Mapping[str, Any] | None = None, benchmark: str = "", cache_bytes: float | None = None
) -> tuple[ModelParameter, ...]:
    """Returns the parameters of `innodb` or `myrocks`; with those that only some databases have,
    and the spreads that are theirs and their `benchmark`'s, where a database is given; behind a
    cache of the largest run, where that is."""
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
    # On a machine of which nobody says how fast its cores are, that adds to what the processor time
    # is known to.
    unknown = 0.0 if database["clients"].get("core_speed") else unexplained_spreads()["unknown_speed"]
    spreads["cpu_ms"] = math.hypot(CPU_SPREAD, unknown)
    parameters = tuple(replace(each, spread=spreads.get(each.name, each.spread)) for each in parameters)
    # Files before they were kept have no ratio of reads, and no last orders.
    return parameters + tuple(each for each in (LAST_ORDERS, *LOCAL_DISK) if database.get(each.name) is not None)


def applied(database: dict, engine: str, deltas: dict[str, float]) -> dict:
    """Returns a copy of a core database with parameters multiplied by exp(delta)."""
    changed = copy.deepcopy(database)
    for parameter in of_engine(engine, database):
        delta = deltas.get(parameter.name, 0.0)
        if delta:
            _multiply(changed, parameter, math.exp(delta))
    return changed


def value(database: dict, parameter: ModelParameter) -> float:
    """Returns the parameter's value: touched pages for the popularity, bytes a transaction for
    compaction (0 without one); of the response time without I/O what is not processor time."""
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
    """Multiplies the response time without I/O, which is processor time and what else it takes. A
    transaction with more work has more of both, so that the processor time moves both, and the
    response time without it that alone. The I/Os are the same processors' work."""
    if name == "cpu_ms":
        for each in ("cpu_ms", "io_ms", "base_ms"):
            clients[each] *= factor
        return
    rest = max(0.0, clients["base_ms"] - core.core_ms(clients))
    clients["base_ms"] += (factor - 1.0) * rest
