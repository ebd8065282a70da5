"""MyRocks: block cache, memtables, compaction and its rate."""

from __future__ import annotations

from headrace.advice.rules.log import advise_flush_at_commit, make_folder_rule
from headrace.advice.situation import Rule, RuleValue, Situation
from headrace.advice.values import format_size
from headrace.base.units import GIB, MIB, format_percent

# Blocks are cached uncompressed: the published runs had 471 GB in InnoDB and 100 GB in MyRocks, of
# which a part is InnoDB's unfilled pages.
UNCOMPRESSED = 3.0
MEMTABLE = 256 * MIB  # as in the published runs
LEAST_MEMTABLE = 16 * MIB  # a guess
MEMTABLES = 2.0  # one is filled while one is written
JOBS, UNKNOWN_JOBS = (2, 8), 4  # the published runs had 8; the others are guesses
WAL, LEAST_WAL = 4 * GIB, 256 * MIB  # a guess: an eighth of the memory within these
# Guesses: what compaction may have of the storage's write rate, at most, and above its mean.
RATE_SHARE, MOST_RATE_SHARE, RATE_HEADROOM = 0.3, 0.6, 1.5
IO_UNIT = 256 * 1024  # EBS counts up to 256 KiB as one I/O on SSD
READ_AHEAD = {"ssd": 2 * MIB, "disk": 16 * MIB}  # guesses: 8 I/Os of an SSD, 16 of 1 MiB of a disk
COMPRESSED_BLOCK = 7_066.0  # bytes: the mean read of MyRocks in the published runs


def compute_memtable_bytes(s: Situation) -> float:
    """Returns the size of a memtable, bytes: a power of two, at most a 32nd of the memory."""
    size = MEMTABLE
    while size > LEAST_MEMTABLE and size > s.memory_gib * GIB / 32:
        size /= 2
    return size


def advise_cache_size(s: Situation) -> RuleValue:
    """Advises the block cache: the memory for caches less memtables and InnoDB's pool, not more
    than the data uncompressed."""
    tables = MEMTABLES * compute_memtable_bytes(s)
    pool = s.get_chosen_bytes("innodb_buffer_pool_size")
    room = max(s.cache_limit_gib * GIB - tables - pool, 16 * MIB)
    why = (
        f"{format_percent(s.cache_limit_gib / s.memory_gib)} of {s.memory_gib:,.4g} GiB of memory, less {tables / MIB:,.0f} MiB of "
        f"memtables and {pool / MIB:,.0f} MiB of InnoDB's pool"
    )
    if s.demand is not None:
        data, hot = s.demand.data_gib, s.demand.hot_gib
        if data is not None and data * UNCOMPRESSED * GIB < room:
            room, why = data * UNCOMPRESSED * GIB, f"the data of {data:,.4g} GiB, uncompressed"
        if hot is None:
            why += f"; the hot set is larger than {s.demand.largest_cache_gib:,.3g} GiB"
        else:
            why += f"; the hot set (within 1 % of the best tps) takes {hot:,.3g} GiB"
    unit = 128 * MIB if room >= GIB else 16 * MIB
    return RuleValue(format_size(max(room // unit, 1) * unit), why)


def advise_options(s: Situation) -> RuleValue:
    """Advises the options of column families: size of memtables in bytes, compression, bloom
    filters."""
    size = compute_memtable_bytes(s)
    parts = [f"write_buffer_size={size:.0f}", "level0_file_num_compaction_trigger=4"]
    why = f"memtables of {size / MIB:,.0f} MiB: fewer, larger files; bloom filters spare reads of files without the key"
    if "LZ4" in s.current.get("rocksdb_supported_compression_types", "").split(","):
        parts.append("compression=kLZ4Compression")
        why += "; LZ4, which this server has"
    else:
        why += "; compression stays the server's own (name the server, and LZ4 is set where it has it)"
    parts.append(
        "block_based_table_factory={cache_index_and_filter_blocks=1;filter_policy=bloomfilter:10:false;whole_key_filtering=1}"
    )
    return RuleValue(";".join(parts), why)


def advise_jobs(s: Situation) -> RuleValue:
    """Advises how many flushes and compactions run at once, by the virtual CPUs."""
    count = UNKNOWN_JOBS if s.vcpus is None else min(max(s.vcpus, JOBS[0]), JOBS[1])
    return RuleValue(str(count), s.vcpus_words + ("" if s.vcpus is None else "; the published runs had 8"))


def advise_readahead(s: Situation) -> RuleValue:
    """Advises the bytes that a compaction reads at a time, more on rotating disks."""
    size = READ_AHEAD["disk" if s.storage.on_disks else "ssd"]
    blocks = MIB / COMPRESSED_BLOCK
    effect = f"a compaction reads 1 MiB in 4 I/Os instead of {blocks:,.0f} blocks of some 7 KB"
    return RuleValue(format_size(size), f"{size / IO_UNIT:,.0f} I/Os of 256 KiB at a time", effect=effect)


def advise_rate_limit(s: Situation) -> RuleValue:
    """Advises the bytes a second that flushes and compactions may write: a share of the storage,
    raised for the workload up to a bound."""
    budget = s.storage.bytes_s / s.storage.write_cost
    rate = budget * RATE_SHARE
    why = f"{format_percent(RATE_SHARE)} of {s.storage.mib_s:,.0f} MiB/s for flushes and compactions; their reads take nearly as much again"
    if s.demand is not None and s.demand.compaction_bytes_s > 0.0:
        target_rate = s.demand.compaction_bytes_s * RATE_HEADROOM
        rate = min(max(rate, target_rate), budget * MOST_RATE_SHARE)
        written = f"{s.demand.compaction_bytes_s / MIB:,.3g} MiB/s"
        why += f"; the workload writes {written} that way at {s.demand.tps:,.4g} tps"
        if rate < target_rate:
            why += ": more than this storage has room for, so compaction will fall behind"
    return RuleValue(format_size(max(rate // MIB, 1) * MIB), why)


def advise_wal_size(s: Situation) -> RuleValue:
    """Advises the bytes of write-ahead logs that a restart has to read at most."""
    size = min(max(s.memory_gib * GIB / 8, LEAST_WAL), WAL) // (64 * MIB) * 64 * MIB
    seconds = size / s.storage.bytes_s
    return RuleValue(
        format_size(size), f"a restart reads at most this back: {seconds:,.0f} s at {s.storage.mib_s:,.0f} MiB/s"
    )


MYROCKS: dict[str, Rule] = {
    "rocksdb_block_cache_size": advise_cache_size,
    "rocksdb_default_cf_options": advise_options,
    "rocksdb_max_background_jobs": advise_jobs,
    "rocksdb_compaction_readahead_size": advise_readahead,
    "rocksdb_rate_limiter_bytes_per_sec": advise_rate_limit,
    "rocksdb_max_total_wal_size": advise_wal_size,
    "rocksdb_flush_log_at_trx_commit": advise_flush_at_commit,
    "rocksdb_wal_dir": make_folder_rule("write-ahead logs"),
}
