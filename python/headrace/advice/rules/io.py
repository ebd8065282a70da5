"""How files are opened, read, written and flushed."""

from __future__ import annotations

from headrace.advice.rules.answer import Answer, Rule, fixed
from headrace.advice.situation import Situation
from headrace.advice.table import parameters

LEAST_CAPACITY = 100  # the least innodb_io_capacity takes
# Without a workload: what the background may have of the sustained rate. A guess between the default (200) and half: it is a rate more than a ceiling, and what it writes
# early it may have to write again.
BACKGROUND_SHARE = 0.25
MOST_BACKGROUND_SHARE = 0.5
BEHIND_SHARE = 0.9  # a server behind its checkpoint may use nearly all
HEADROOM = 1.2  # above what the workload flushes on average
QUEUE_PER_IOPS = 200.0  # the whitepaper: one request outstanding for every 200 IOPS
READ_THREADS, WRITE_THREADS = (4, 64), (4, 16)
IOPS_PER_WRITE_THREAD, WRITE_THREADS_CARRY = 4_000.0, 16_000.0


def log_file_buffering(s: Situation) -> Answer:
    if s.durability == "relaxed":
        return Answer(
            "ON", "the server turns it on by itself with innodb_flush_log_at_trx_commit=2: the kernel holds what is not synced yet"
        )
    return Answer("OFF", "the redo log is read after a crash only")


def flush_neighbors(s: Situation) -> Answer:
    if s.storage.on_disks:
        return Answer("1", f"{s.storage.text}: turning disks charge a scattered write more than its neighbours in one run")
    return Answer("0", f"{s.storage.text}: on SSD neighbours are extra writes that pay I/Os of their own")


def read_ahead(s: Situation) -> Answer:
    if s.storage.on_disks:
        return Answer("32", f"{s.storage.text}: a whole extent in sequence is charged its bytes, scattered pages 1 MiB each")
    return Answer("56", "an extent is fetched in 4 I/Os of 256 KiB, but only in a real scan")


def read_threads(s: Situation) -> Answer:
    count = READ_THREADS[0] if s.vcpus is None else min(max(s.vcpus // 2, READ_THREADS[0]), READ_THREADS[1])
    depth = max(1.0, s.storage.iops / QUEUE_PER_IOPS)
    return Answer(str(count), f"{s.storage.iops:,.0f} IOPS want {depth:,.0f} requests outstanding; each thread has up to 256")


def write_threads(s: Situation) -> Answer:
    more = int(max(0.0, s.storage.iops - WRITE_THREADS_CARRY) // IOPS_PER_WRITE_THREAD)
    return Answer(
        str(min(WRITE_THREADS[0] + more, WRITE_THREADS[1])),
        f"4 threads carry {WRITE_THREADS_CARRY:,.0f} IOPS; here are {s.storage.iops:,.0f}",
    )


def doublewrite(s: Situation) -> Answer:
    return Answer("ON", "a page torn by a crash cannot be mended from the redo log; OFF can lose data unless torn write prevention holds")


def doublewrite_pages(s: Situation) -> Answer:
    pages = s.storage.iops * MOST_BACKGROUND_SHARE
    now = pages / 4.0
    return Answer(
        "128",
        "16 pages make one I/O of 256 KiB",
        effect=f"at {pages:,.0f} pages a second {pages / 16.0:,.0f} I/Os instead of {now:,.0f} with 4",
    )


def io_capacity(s: Situation) -> Answer:
    carried, why = s.storage.pages_s, _carried(s)
    if s.demand is not None and s.demand.flushed_pages_s > 0.0:
        wanted = s.demand.flushed_pages_s * HEADROOM
        value = min(wanted, carried * MOST_BACKGROUND_SHARE)
        held = "" if value == wanted else f", held to half of what {s.storage.text} carries"
        return _capacity(
            value,
            f"the workload flushes {s.demand.flushed_pages_s:,.0f} pages a second at {s.demand.tps:,.4g} tps, and a fifth{held}; {why}",
        )
    return _capacity(carried * BACKGROUND_SHARE, f"a quarter of it (guess: no workload given) for background writes; {why}")


def io_capacity_max(s: Situation) -> Answer:
    value = max(s.storage.pages_s * BEHIND_SHARE, float(s.chosen["innodb_io_capacity"]))
    return _capacity(value, f"nine tenths of it, for a server behind its checkpoint; {_carried(s)}")


def _capacity(value: float, why: str) -> Answer:
    return Answer(str(max(LEAST_CAPACITY, _rounded(value))), why)


def _rounded(value: float) -> int:
    """Two significant digits, downwards: nothing here is known better."""
    step = 10 ** max(0, len(str(int(value))) - 2)
    return int(value // step * step)


def _carried(s: Situation) -> str:
    twice = "" if s.storage.write_cost == 1.0 else f", {s.storage.write_cost:g} I/Os a write in {s.storage.layout}"
    return f"{s.storage.words}{twice} carries {s.storage.pages_s:,.0f} pages a second with doublewrite"


def page_cleaners(s: Situation) -> Answer:
    count = s.chosen.get("innodb_buffer_pool_instances", "1")
    return Answer(count, f"one for each of the {count} pool instances" if count != "1" else "the pool is not divided")


def lru_scan_depth(s: Situation) -> Answer:
    instances = int(s.chosen.get("innodb_buffer_pool_instances", "1"))
    reads = min(s.storage.iops, s.storage.bytes_s / 16_384.0)
    default = int(parameters()["innodb_lru_scan_depth"].name_on(s.server).default)
    value = min(max(100, _rounded(reads / instances)), default)
    return Answer(
        str(value),
        f"at most {reads:,.0f} pages a second come in, over {instances} instance{'s' if instances > 1 else ''}; the default is {default:,}",
    )


def tmpdir(s: Situation) -> Answer | None:
    if s.tmp_dir is not None:
        return Answer(s.tmp_dir, "the folder given with --tmp-dir")
    if s.instance is not None and s.instance["instance_store_gb"]:
        return Answer(
            "a folder on the instance store",
            f"{s.instance_type} has {s.instance['instance_store_gb']:,} GB of local disks; name it with --tmp-dir",
            settable=False,
        )
    return None


IO: dict[str, Rule] = {
    "innodb_flush_method": fixed("O_DIRECT", "pages are cached in the pool alone, not in the kernel too"),
    "innodb_data_file_buffering": fixed("OFF", "pages are cached in the pool alone, not in the kernel too"),
    "innodb_data_file_write_through": fixed("OFF", "one fdatasync makes many pages durable"),
    "innodb_log_file_buffering": log_file_buffering,
    "innodb_use_native_aio": fixed("ON", "EBS gives its IOPS to requests that are outstanding together"),
    "innodb_flush_neighbors": flush_neighbors,
    "innodb_read_ahead_threshold": read_ahead,
    "innodb_random_read_ahead": fixed("OFF", "whole extents nobody asked for are I/Os that are paid for"),
    "innodb_read_io_threads": read_threads,
    "innodb_write_io_threads": write_threads,
    "innodb_doublewrite": doublewrite,
    "innodb_doublewrite_pages": doublewrite_pages,
    "tmpdir": tmpdir,
    "innodb_io_capacity": io_capacity,
    "innodb_io_capacity_max": io_capacity_max,
    "innodb_page_cleaners": page_cleaners,
    "innodb_lru_scan_depth": lru_scan_depth,
}
