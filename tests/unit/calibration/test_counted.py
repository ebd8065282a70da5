"""Counters of a server take the place of the standard benchmark's guesses: redo, WAL, compaction,
pages the pool holds.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date

import polars as pl
import pytest

from headrace.calibration import prior
from headrace.calibration.prior import build_prior
from headrace.calibration.runs import BenchmarkLoad, Run
from headrace.observe.run_storage import Caps

SECONDS, TPS = 200, 100.0


def make_run(engine: str = "innodb", status: dict[str, float] | None = None, **changes: object) -> Run:
    """Makes a run whose status samples say the same in every second."""
    series = pl.DataFrame(
        {"t_s": [float(t) for t in range(SECONDS)], "duration_s": [1.0] * SECONDS, "tps": [TPS] * SECONDS}
    )
    frame = (
        None
        if status is None
        else pl.DataFrame(
            {"t_s": series["t_s"], "duration_s": series["duration_s"]}
            | {name: [value] * SECONDS for name, value in status.items()}
        )
    )
    benchmark = BenchmarkLoad("sysbench-oltp", 8, 1_000_000, None, "oltp_read_write", "uniform", {})
    return Run(
        name="r", engine=engine, engine_version="10.11.6-MariaDB", flavor="mariadb", storage="gp3:20", log_storage=None, as_of=date(2026, 11, 1), instance=None, cache_gib=0.5, threads=16,
        start="cold", seconds=None, benchmark=benchmark, settings={}, caveats=(), caps=Caps(3000, 3000, 125, 125, 20), files={}, interval_s=1.0, series=series, status=frame, findings=(),
        **changes,
    )  # fmt: skip


def test_without_counters_nothing_changes():
    assert prior.measure_usable_share(make_run()) is None
    plain, silent = build_prior(make_run()), build_prior(make_run(status={"com_commit_per_s": TPS}))
    assert plain == silent


def test_redo_is_what_was_counted():
    """Redo of any amount changes nothing in the rate of page flushes."""
    begin = build_prior(make_run())
    for seed in range(8):
        per_tx = random.Random(seed).uniform(3_000, 40_000)
        database = build_prior(make_run(status={"innodb_os_log_written_per_s": per_tx * TPS}))
        assert database["log"]["redo_bytes_per_tx"] == pytest.approx(per_tx), f"seed {seed}"
        assert database["writes"] == begin["writes"], f"seed {seed}"


def test_a_pool_that_keeps_pages_free_holds_fewer():
    pages = 0.5 * 2**30 / 16_384
    status = {"innodb_buffer_pool_pages_free": 1_250.0, "innodb_buffer_pool_pages_total": 0.99 * pages}
    assert prior.measure_usable_share(make_run(status=status)) == pytest.approx(0.99 - 1_250 / pages)
    # A pool that never filled tells nothing.
    assert prior.measure_usable_share(make_run(status=status | {"innodb_buffer_pool_pages_free": 0.5 * pages})) is None
    # The page cleaner of MariaDB keeps up to 1,536 of them free (innodb_lru_scan_depth): that is
    # more than an eighth of this pool, and it is full; with more free it is not.
    tiny = {name: value / 8 for name, value in status.items()} | {"innodb_buffer_pool_pages_free": 1_160.0}
    settings = {"lru_scan_depth": 1_536}
    small = replace(make_run(status=tiny), cache_gib=0.5 / 8, settings=settings)
    assert prior.measure_usable_share(small) == pytest.approx(0.99 - 1_160 / (pages / 8))
    filling = replace(make_run(status=tiny | {"innodb_buffer_pool_pages_free": 1_600.0}), settings=settings)
    assert prior.measure_usable_share(filling) is None
    # Pages of 4 KiB: four times as many.
    small = replace(make_run(status={name: 4 * value for name, value in status.items()}), settings={"page_kib": 4})
    assert prior.measure_usable_share(small) == pytest.approx(0.99 - 1_250 / pages)


def test_myrocks_says_what_compaction_moves():
    status = {
        "rocksdb_wal_bytes_per_s": 2_000 * TPS,
        "rocksdb_compact_read_bytes_per_s": 5_000 * TPS,
        "rocksdb_compact_write_bytes_per_s": 6_000 * TPS,
        "rocksdb_flush_write_bytes_per_s": 900 * TPS,
    }
    begin, database = build_prior(make_run("myrocks")), build_prior(make_run("myrocks", status))
    assert database["compaction"]["read_bytes_per_tx"] == pytest.approx(5_000) and database["compaction"][
        "write_bytes_per_tx"
    ] == pytest.approx(6_900)
    assert database["log"]["redo_bytes_per_tx"] == pytest.approx(2_000)
    # Equal bytes in the memtables mean fewer transactions by the same factor.
    assert database["compaction"]["period_tx"] * 2_000 == pytest.approx(
        begin["compaction"]["period_tx"] * begin["log"]["redo_bytes_per_tx"]
    )


@pytest.mark.parametrize("value", [0.0, None])
def test_counters_that_stand_still_say_nothing(value):
    silent = make_run(status={"innodb_os_log_written_per_s": value})
    assert prior.sum_per_transaction(silent, "innodb_os_log_written") is None
