"""Buffer pool and what lives beside it in memory."""

from __future__ import annotations

from headrace.advice.effects import fill_time_s
from headrace.advice.model import SAFE, SLOWER
from headrace.advice.rules.answer import Answer, Rule, fixed
from headrace.advice.situation import GIB, MIB, Situation
from headrace.advice.table import parameters
from headrace.advice.values import as_bytes, size_text

CHUNK = 128 * MIB  # innodb_buffer_pool_chunk_size, default: the pool is a multiple of it (times its instances)
LEAST_POOL = 64 * MIB
GROWTH = 1.1  # room above the data of today
ROCKS_POOL_SHARE = 0.01  # InnoDB has little to cache under MyRocks: system tables
UNKNOWN_INSTANCES = 8  # the default of MySQL 5.7 to 8.3 from 1 GiB on
MOST_INSTANCES = 64


def pool_size(s: Situation) -> Answer:
    if s.engine == "myrocks":
        size = min(max(s.memory_gib * GIB * ROCKS_POOL_SHARE, CHUNK), GIB)
        return Answer(size_text(_down(size, CHUNK)), "the tables are in MyRocks; InnoDB caches little beside them")
    room = s.cache_limit_gib
    why = f"{room / s.memory_gib:.0%} of {s.memory_gib:,.4g} GiB of memory"
    size, demand = room, s.demand
    if demand is not None:
        if demand.data_gib is not None and demand.data_gib * GROWTH < room:
            size = demand.data_gib * GROWTH
            why = f"the data of {demand.data_gib:,.4g} GiB and a tenth; memory has room for {room:,.4g} GiB"
        why += "; " + _hot(s, size)
    else:
        why += "; it should hold the hot set: --workload tells how large that is"
    return Answer(size_text(_pool(size * GIB)), why)


def _hot(s: Situation, size_gib: float) -> str:
    hot = s.demand.hot_gib
    if hot is None:
        return f"the hot set is larger than {s.demand.looked_gib:,.3g} GiB: every GiB more saves reads"
    if hot <= size_gib * 1.0001:
        return f"the hot set, {hot:,.3g} GiB (within 1 % of the best tps), fits"
    return f"the hot set, {hot:,.3g} GiB (within 1 % of the best tps), does not fit: reads go on"


def _pool(size: float) -> float:
    """Whole chunks of all its instances, so that the server does not round it up."""
    if size < GIB:
        return max(_down(size, CHUNK) if size >= CHUNK else _down(size, 8 * MIB), LEAST_POOL)
    return _down(size, GIB) if size >= 16 * GIB else _down(size, CHUNK)


def _down(size: float, unit: float) -> float:
    return max(unit, size // unit * unit)


def pool_instances(s: Situation) -> Answer:
    pool = as_bytes(s.chosen["innodb_buffer_pool_size"])
    if pool < GIB:
        return Answer("1", "a pool below 1 GiB is not divided")
    chunks = int(pool / CHUNK / 2)
    wanted = UNKNOWN_INSTANCES if s.vcpus is None else s.vcpus // 4
    # A divisor of the pool's chunks: otherwise the server rounds the pool up to one.
    count = max(1, min(wanted, chunks, MOST_INSTANCES))
    while int(pool / CHUNK) % count:
        count -= 1
    known = "virtual CPUs not given" if s.vcpus is None else f"{s.vcpus} virtual CPUs"
    return Answer(str(count), f"{known}, {size_text(pool)} of pool in chunks of 128 MiB")


def load_at_startup(s: Situation) -> Answer:
    pool_gib = as_bytes(s.chosen["innodb_buffer_pool_size"]) / GIB
    minutes = fill_time_s(pool_gib, s.storage.iops, s.storage.bytes_s) / 60.0
    in_order = pool_gib * GIB / s.storage.bytes_s / 60.0
    return Answer("ON", f"a cold pool of {pool_gib:,.3g} GiB takes {minutes:,.3g} min to fill at {s.storage.iops:,.0f} random reads a second, "
                  f"{in_order:,.3g} min in order at {s.storage.mib_s:,.0f} MiB/s")  # fmt: skip


def cache_instances(s: Situation) -> Answer:
    why = "sessions that open tables do not wait for one lock; the whitepaper's tuned server had 16"
    if s.server.flavor == "mariadb":
        why += ". MariaDB starts with fewer where open_files_limit is below 2 x table_open_cache x instances"
    return Answer("16", why)


def performance_schema(s: Situation) -> Answer:
    default = parameters()["performance_schema"].name_on(s.server).default
    why = "shows which statements and files wait"
    return Answer("ON", why if default == "ON" else f"{why}; costs memory and some processor time", SAFE if default == "ON" else SLOWER)


MEMORY: dict[str, Rule] = {
    "innodb_buffer_pool_size": pool_size,
    "innodb_buffer_pool_instances": pool_instances,
    "innodb_buffer_pool_dump_at_shutdown": fixed("ON", "keeps the list of cached pages for the next start"),
    "innodb_buffer_pool_load_at_startup": load_at_startup,
    "innodb_buffer_pool_dump_pct": fixed("100", "a page left out of the list is a random read later"),
    "innodb_dedicated_server": fixed("OFF", "it would choose pool and redo log by memory alone"),
    "table_open_cache_instances": cache_instances,
    "performance_schema": performance_schema,
}
