"""Buffer pool, its start and its parts; caches of open tables; what the server measures of
itself."""

from __future__ import annotations

from headrace.advice.buffers import compute_pool_room_gib
from headrace.advice.model import SAFE, SLOWER
from headrace.advice.situation import PAGE_BYTES, Rule, RuleValue, Situation, WorkloadDemand
from headrace.advice.table import read_parameters
from headrace.advice.values import as_bytes, format_size
from headrace.base.units import GIB, MIB, format_percent

# innodb_buffer_pool_chunk_size, default: the server rounds the pool up to a multiple of it times
# its instances (MySQL manual, "Configuring InnoDB Buffer Pool Size").
CHUNK = 128 * MIB
LEAST_POOL = 64 * MIB  # a guess: a smaller pool is of no use to any load
GROWTH = 1.1  # room above today's data: a guess
ROCKS_POOL_SHARE = 0.01  # a guess: under MyRocks InnoDB caches system tables only
UNKNOWN_INSTANCES = 8  # the default of MySQL 5.7 to 8.3 from 1 GiB on
VCPUS_PER_INSTANCE = 4  # a default of MySQL 8.4: at most a quarter of the logical processors
# A hot set up to this factor larger than the pool fits: both follow from the memory, and differ by
# rounding alone.
ROUNDING = 1.0001
MOST_INSTANCES = 64  # the largest value of innodb_buffer_pool_instances


def advise_pool_size(s: Situation) -> RuleValue:
    """Sizes the buffer pool by the memory, less where connections may need it or the data are
    fewer; under MyRocks it is small."""
    if s.engine == "myrocks":
        size = min(max(s.memory_gib * GIB * ROCKS_POOL_SHARE, CHUNK), GIB)
        return RuleValue(format_size(_round_down(size, CHUNK)), "the tables are in MyRocks; InnoDB caches little else")
    room, why = _compute_pool_room(s)
    size = room
    if s.demand is None:
        why += "; it should hold the hot set: --workload tells how large that is"
    else:
        data = s.demand.data_gib
        if data is not None and data * GROWTH < room:
            size = data * GROWTH
            why = f"the data of {data:,.4g} GiB and a tenth; memory has room for {room:,.4g} GiB"
        why += f"; {_describe_hot_set(s.demand, size)}"
    value, today = _round_pool(size * GIB), as_bytes(s.current.get("innodb_buffer_pool_size"))
    if (
        s.most_memory is not None
        and value / GIB > compute_pool_room_gib(s.most_memory, s.memory_gib)
        and value > (today or 0.0)
    ):
        # Not a line of the option file: with it the server could take more than there is.
        why += f". First lower what connections may take: {s.most_memory.words}"
        return RuleValue(format_size(value), why, settable=False)
    return RuleValue(format_size(value), why)


def _compute_pool_room(s: Situation) -> tuple[float, str]:
    """Returns the GiB that the pool may have, and why: less than usual where the connections'
    buffers may need it, but never less than half of that, nor less than today's pool."""
    usual = s.cache_limit_gib
    why = f"{format_percent(usual / s.memory_gib)} of {s.memory_gib:,.4g} GiB of memory"
    if s.most_memory is None:
        return usual, why
    room = compute_pool_room_gib(s.most_memory, s.memory_gib)
    today = min((as_bytes(s.current.get("innodb_buffer_pool_size")) or 0.0) / GIB, usual)
    if room >= usual or room < usual / 2.0:
        return usual, why
    if room <= today:
        return today, f"as today: {s.most_memory.words}"
    return room, f"what {s.memory_gib:,.4g} GiB of memory leave with {s.most_memory.words}"


def _describe_hot_set(demand: WorkloadDemand, pool_gib: float) -> str:
    """Returns in words how large the hot set is, and whether a pool of this size holds it."""
    hot = demand.hot_gib
    if hot is None:
        return f"the hot set is larger than {demand.largest_cache_gib:,.3g} GiB: every GiB more saves reads"
    hot_set = f"the hot set, {hot:,.3g} GiB (within 1 % of the best tps),"
    return f"{hot_set} fits" if hot <= pool_gib * ROUNDING else f"{hot_set} does not fit, so reads continue"


def _round_pool(size_bytes: float) -> float:
    """Rounds bytes to whole chunks of all instances, so that the server does not round them up."""
    if size_bytes >= CHUNK:
        return _round_down(size_bytes, GIB if size_bytes >= 16 * GIB else CHUNK)
    return max(_round_down(size_bytes, 8 * MIB), LEAST_POOL)


def _round_down(size_bytes: float, unit_bytes: float) -> float:
    return max(unit_bytes, size_bytes // unit_bytes * unit_bytes)


def advise_pool_instances(s: Situation) -> RuleValue:
    """Divides a pool of 1 GiB or more by the processors, so that each part has whole chunks."""
    pool = s.get_chosen_bytes("innodb_buffer_pool_size")
    if pool < GIB:
        return RuleValue("1", "a pool below 1 GiB is not divided")
    chunks = int(pool / CHUNK)
    target_count = UNKNOWN_INSTANCES if s.vcpus is None else s.vcpus // VCPUS_PER_INSTANCE
    # A divisor of the pool's chunks, of which each instance has two: else the server rounds the
    # pool up.
    count = max(1, min(target_count, chunks // 2, MOST_INSTANCES))
    while chunks % count:
        count -= 1
    return RuleValue(str(count), f"{s.vcpus_words}, {format_size(pool)} of pool in chunks of 128 MiB")


def advise_load_at_startup(s: Situation) -> RuleValue:
    """Advises a pool that fills itself at the start, with the minutes that clients take for it."""
    pool = s.get_chosen_bytes("innodb_buffer_pool_size")
    # Page by page in random order, and in the order of the files.
    minutes = pool / min(s.storage.iops * PAGE_BYTES, s.storage.bytes_s) / 60.0
    in_order = pool / s.storage.bytes_s / 60.0
    why = (
        f"a cold pool of {pool / GIB:,.3g} GiB takes {minutes:,.3g} min to fill at {s.storage.iops:,.0f} random reads "
        f"a second, {in_order:,.3g} min in order at {s.storage.mib_s:,.0f} MiB/s"
    )
    return RuleValue("ON", why)


def advise_cache_instances(s: Situation) -> RuleValue:
    """Divides the cache of open tables in 16."""
    why = "sessions that open tables do not wait for one lock; the whitepaper's tuned server had 16"
    if s.server.flavor == "mariadb":
        why += ". MariaDB starts with fewer where open_files_limit is below 2 x table_open_cache x instances"
    return RuleValue("16", why)


def advise_performance_schema(s: Situation) -> RuleValue:
    """Advises the server's measures of itself, which are slower only where they are off today."""
    why = "shows which statements and files wait"
    if read_parameters()["performance_schema"].get_default(s.server) == "ON":
        return RuleValue("ON", why, SAFE)
    return RuleValue("ON", f"{why}; costs memory and some processor time", SLOWER)


MEMORY: dict[str, Rule] = {
    "innodb_buffer_pool_size": advise_pool_size,
    "innodb_buffer_pool_instances": advise_pool_instances,
    "innodb_buffer_pool_load_at_startup": advise_load_at_startup,
    "table_open_cache_instances": advise_cache_instances,
    "performance_schema": advise_performance_schema,
}
