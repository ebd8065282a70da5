"""Rules about opening, reading, writing and flushing files, and about the host below."""

from __future__ import annotations

from headrace.advice.situation import PAGE_BYTES, Rule, RuleValue, Situation
from headrace.advice.table import read_parameters

LEAST_CAPACITY = 100  # the smallest value of innodb_io_capacity
# Without a workload: the share of the sustained rate for the background. A guess between the
# default (200 I/Os a second) and half: the server holds the rate rather than staying below it, and
# a page that is written early may have to be written again.
BACKGROUND_SHARE = 0.25
MOST_BACKGROUND_SHARE = 0.5  # a guess: the other half is for reads
BEHIND_SHARE = 0.9  # a guess: a server that is behind with its checkpoint may use nearly all
HEADROOM = 1.2  # a guess: above what the workload flushes on average
QUEUE_PER_IOPS = 200.0  # the whitepaper: one request outstanding for every 200 IOPS
# Smallest and largest: the defaults of the server, and its maximum of 64; 16 is a guess.
READ_THREADS, WRITE_THREADS = (4, 64), (4, 16)
# Guesses: each write thread has a request of a quarter of a millisecond in flight.
IOPS_PER_WRITE_THREAD, WRITE_THREADS_CARRY = 4_000.0, 16_000.0
DOUBLEWRITE_RUN = 16.0  # pages of 16 KiB in an I/O of 256 KiB
DOUBLEWRITE_DEFAULT = 4.0  # innodb_doublewrite_pages up to MySQL 8.3, as many as write threads


def advise_log_file_buffering(s: Situation) -> RuleValue:
    """Advises whether the kernel buffers the redo log: not with full durability."""
    if s.durability == "relaxed":
        setting = "innodb_flush_log_at_trx_commit=2"
        return RuleValue("ON", f"the server turns it on itself with {setting}: the kernel holds what is not synced yet")
    return RuleValue("OFF", "the redo log is read after a crash only")


def advise_flush_neighbors(s: Situation) -> RuleValue:
    """Advises whether a page is written with its neighbours: on rotating disks alone."""
    if s.storage.on_disks:
        return RuleValue("1", f"{s.storage.text}: a scattered write costs a rotating disk more than its neighbours do")
    return RuleValue("0", f"{s.storage.text}: on SSD neighbours are extra writes with I/Os of their own")


def advise_read_ahead(s: Situation) -> RuleValue:
    """Advises how many pages of an extent must be read in order before the next extent is fetched:
    fewer on rotating disks."""
    if s.storage.on_disks:
        why = f"{s.storage.text}: a whole extent in sequence costs its bytes, scattered pages 1 MiB each"
        return RuleValue("32", why)
    return RuleValue("56", "an extent is fetched in 4 I/Os of 256 KiB, but only in a real scan")


def advise_read_threads(s: Situation) -> RuleValue:
    """Advises the threads that read, by the virtual CPUs."""
    count = READ_THREADS[0] if s.vcpus is None else min(max(s.vcpus // 2, READ_THREADS[0]), READ_THREADS[1])
    depth = max(1.0, s.storage.iops / QUEUE_PER_IOPS)
    why = f"{s.storage.iops:,.0f} IOPS need {depth:,.0f} outstanding requests; each thread has up to 256"
    return RuleValue(str(count), why)


def advise_write_threads(s: Situation) -> RuleValue:
    """Advises the number of threads that write, by the IOPS of the storage."""
    more = int(max(0.0, s.storage.iops - WRITE_THREADS_CARRY) // IOPS_PER_WRITE_THREAD)
    why = f"4 threads are enough for {WRITE_THREADS_CARRY:,.0f} IOPS; this storage has {s.storage.iops:,.0f}"
    return RuleValue(str(min(WRITE_THREADS[0] + more, WRITE_THREADS[1])), why)


def advise_doublewrite(s: Situation) -> RuleValue:
    why = "the redo log cannot repair a page torn by a crash; OFF can lose data without torn write prevention"
    return RuleValue("ON", why)


def advise_doublewrite_pages(s: Situation) -> RuleValue:
    """Advises the pages of a doublewrite batch, which go in I/Os of 16 pages (256 KiB)."""
    pages = s.storage.iops * MOST_BACKGROUND_SHARE
    many, few = pages / DOUBLEWRITE_DEFAULT, pages / DOUBLEWRITE_RUN
    effect = f"at {pages:,.0f} pages a second {few:,.0f} I/Os instead of {many:,.0f} with 4"
    return RuleValue("128", "16 pages make one I/O of 256 KiB", effect=effect)


def advise_io_capacity(s: Situation) -> RuleValue:
    """Advises the pages a second written in the background: what the workload flushes and a fifth,
    at most half of the storage's rate; without a workload a quarter of it."""
    rate, write_rate = s.storage.pages_s, _describe_write_rate(s)
    if s.demand is None or s.demand.flushed_pages_s <= 0.0:
        why = f"a quarter of it (a guess: no workload was given) for background writes; {write_rate}"
        return _make_capacity(rate * BACKGROUND_SHARE, why)
    target_rate = s.demand.flushed_pages_s * HEADROOM
    value = min(target_rate, rate * MOST_BACKGROUND_SHARE)
    limited = "" if value == target_rate else f", limited to half of the rate of {s.storage.text}"
    flushed = f"{s.demand.flushed_pages_s:,.0f} pages a second at {s.demand.tps:,.4g} tps"
    return _make_capacity(value, f"the workload flushes {flushed}, and a fifth{limited}; {write_rate}")


def advise_io_capacity_max(s: Situation) -> RuleValue:
    """Advises the pages a second that a server behind with its checkpoint may write: nine tenths of
    what the storage can."""
    value = max(s.storage.pages_s * BEHIND_SHARE, float(s.chosen["innodb_io_capacity"]))
    return _make_capacity(
        value, f"nine tenths of it, for a server behind with its checkpoint; {_describe_write_rate(s)}"
    )


def _make_capacity(value: float, why: str) -> RuleValue:
    return RuleValue(str(max(LEAST_CAPACITY, _round_down(value))), why)


def _round_down(value: float) -> int:
    """Returns the value rounded down to two significant digits, as exact as the rates are known."""
    step = 10 ** max(0, len(str(int(value))) - 2)
    return int(value // step * step)


def _describe_write_rate(s: Situation) -> str:
    """Returns in words how many pages a second the storage can write."""
    cost = "" if s.storage.write_cost == 1.0 else f", {s.storage.write_cost:g} I/Os a write in {s.storage.layout}"
    return f"{s.storage.words}{cost} can write {s.storage.pages_s:,.0f} pages a second with doublewrite"


def advise_page_cleaners(s: Situation) -> RuleValue:
    """Advises a page cleaner for each instance of the pool."""
    count = s.chosen.get("innodb_buffer_pool_instances", "1")
    return RuleValue(
        count, "the pool is not divided" if count == "1" else f"one for each of the {count} pool instances"
    )


def advise_lru_scan_depth(s: Situation) -> RuleValue:
    """Advises how many pages each pool instance makes free a second: as many as can be read, at
    most the default."""
    instances = int(s.chosen.get("innodb_buffer_pool_instances", "1"))
    reads = min(s.storage.iops, s.storage.bytes_s / PAGE_BYTES)
    default = int(read_parameters()["innodb_lru_scan_depth"].get_default(s.server))
    # 100 is the smallest value that the server takes.
    value = min(max(100, _round_down(reads / instances)), default)
    over = f"{instances} instance{'s' if instances > 1 else ''}"
    return RuleValue(
        str(value), f"at most {reads:,.0f} pages a second are read, into {over}; the default is {default:,}"
    )


def advise_tmpdir(s: Situation) -> RuleValue | None:
    """Advises a folder for temporary files: the one given, else local disks of the instance, None
    without any."""
    if s.tmp_dir is not None:
        return RuleValue(s.tmp_dir, "the folder given with --tmp-dir")
    if s.instance is not None and s.instance["instance_store_gb"]:
        why = f"{s.instance_type} has {s.instance['instance_store_gb']:,} GB of local disks; name it with --tmp-dir"
        return RuleValue("a folder on the instance store", why, settable=False)
    return None


IO: dict[str, Rule] = {
    "innodb_log_file_buffering": advise_log_file_buffering,
    "innodb_flush_neighbors": advise_flush_neighbors,
    "innodb_read_ahead_threshold": advise_read_ahead,
    "innodb_read_io_threads": advise_read_threads,
    "innodb_write_io_threads": advise_write_threads,
    "innodb_doublewrite": advise_doublewrite,
    "innodb_doublewrite_pages": advise_doublewrite_pages,
    "tmpdir": advise_tmpdir,
    "innodb_io_capacity": advise_io_capacity,
    "innodb_io_capacity_max": advise_io_capacity_max,
    "innodb_page_cleaners": advise_page_cleaners,
    "innodb_lru_scan_depth": advise_lru_scan_depth,
}


# --- the host: comments in the option file --------------------------------------------------------


def advise_raid_chunk(s: Situation) -> RuleValue | None:
    """Advises the chunk of a striped array, in words only; None for other storage."""
    if s.storage.members < 2 or s.storage.layout == "raid1":
        return None
    return RuleValue("256 KiB", f"{s.storage.text}: one I/O of EBS stays on one member", settable=False)


def advise_log_volume(s: Situation) -> RuleValue:
    """Advises a volume for the logs, in words only: it is not a setting."""
    if s.log_storage is not None:
        why = "redo log, binlog and relay log have a volume of their own"
        return RuleValue(s.log_storage.words, why, settable=False)
    return RuleValue("none", "redo and binlog are with the data; --log-storage plans a volume for them", settable=False)


HOST: dict[str, Rule] = {
    "raid_chunk": advise_raid_chunk,
    "log_volume": advise_log_volume,
}
