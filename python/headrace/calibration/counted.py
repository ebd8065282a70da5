"""What the server itself counted during a run, put in place of the standard benchmark's guesses: bytes of redo and WAL, compaction, and how much of the pool holds pages.

A counter is of the whole server, so it is taken over the transactions of the run, which no other load may share (`checks.check_commits` refuses runs in which another did).
"""

from __future__ import annotations

import numpy as np

from headrace.calibration.runs import Run

PAGE_KIB = 16.0
GIB = 1024.0**3
# A pool with more of its pages free than this was not full: its free list says nothing.
FULL_FREE_SHARE = 0.12
LEAST_SHARE, MOST_SHARE = 0.5, 0.995


def per_transaction(run: Run, *names: str) -> float | None:
    """Sum of counters over transactions; None where one was not counted, or nothing of them."""
    if run.status is None or run.transactions <= 0:
        return None
    total = 0.0
    for name in names:
        column = f"{name}_per_s"
        if column not in run.status.columns or run.status[column].drop_nulls().is_empty():
            return None
        known = run.status.select(column, "duration_s").drop_nulls()
        total += float((known[column] * known["duration_s"]).sum()) / float(known["duration_s"].sum()) * run.span_s / run.transactions
    return total if np.isfinite(total) and total > 0 else None


def usable_share(run: Run) -> float | None:
    """Share of the pool that holds pages once it is full: what is not control blocks, and not kept free for reads to come (innodb_lru_scan_depth). None where that was not seen."""
    if run.status is None or not {"innodb_buffer_pool_pages_free", "innodb_buffer_pool_pages_total"} <= set(run.status.columns):
        return None
    known = run.status.select("innodb_buffer_pool_pages_free", "innodb_buffer_pool_pages_total").drop_nulls()
    last = known[-max(4, known.height // 4) :]
    free, total = last["innodb_buffer_pool_pages_free"].median(), last["innodb_buffer_pool_pages_total"].median()
    if free is None or total is None or known.height < 4 or not 0 <= free < FULL_FREE_SHARE * total:
        return None
    page_bytes = 1024.0 * float(run.settings.get("page_kib", PAGE_KIB))
    return float(np.clip((total - free) * page_bytes / (run.cache_gib * GIB), LEAST_SHARE, MOST_SHARE))


def as_counted(database: dict, run: Run) -> dict:
    """The database with what was counted in place."""
    changed = dict(database)
    if run.engine == "innodb":
        share, redo = usable_share(run), per_transaction(run, "innodb_os_log_written")
        if share is not None:
            changed["usable_share"] = share
        if redo is not None:
            changed["log"] = {**changed["log"], "redo_bytes_per_tx": redo}
        return changed
    wal = per_transaction(run, "rocksdb_wal_bytes")
    if wal is not None:
        factor = changed["log"]["redo_bytes_per_tx"] / wal if changed["log"]["redo_bytes_per_tx"] > 0 else 1.0
        changed["log"] = {**changed["log"], "redo_bytes_per_tx": wal}
        if changed["compaction"] is not None:
            compaction = changed["compaction"]
            changed["compaction"] = {
                **compaction,
                "period_tx": compaction["period_tx"] * factor,
                "first_tx": compaction["first_tx"] * factor,
            }
    read, written = (
        per_transaction(run, "rocksdb_compact_read_bytes"),
        per_transaction(run, "rocksdb_compact_write_bytes", "rocksdb_flush_write_bytes"),
    )
    if changed["compaction"] is not None and read is not None and written is not None:
        changed["compaction"] = {**changed["compaction"], "read_bytes_per_tx": read, "write_bytes_per_tx": written}
    return changed
