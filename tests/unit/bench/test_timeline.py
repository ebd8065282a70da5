"""One time line out of sources with clocks of their own: nothing counted twice, nothing made up."""

from __future__ import annotations

import math
import random

import numpy as np
import polars as pl
import pytest

from headrace.bench.drivers.benchmark import IntervalReport
from headrace.bench.running import timeline
from headrace.observe.live.host import FIELDS, WRAP
from headrace.observe.live.samples import Samples

MIB = 2**20


def reports(seconds: int, tps: float = 100.0) -> list[IntervalReport]:
    return [IntervalReport(float(end), tps, 2 * tps, 5.0, 0.0, 4) for end in range(1, seconds + 1)]


def counter(times: list[float], rate, begin: float) -> list[float]:
    """A counter that stands still until `begin` and then follows `rate(seconds since)`'s integral (steps of 1 ms)."""
    totals = []
    for at in times:
        steps = max(0, round((at - begin) * 1000))
        totals.append(sum(rate(step / 1000) for step in range(steps)) / 1000)
    return totals


def disk_of(times: list[float], **columns: list[float]) -> pl.DataFrame:
    data = {"t_unix": times, "device": ["loop3"] * len(times)} | {
        name: columns.get(name, [0.0] * len(times)) for name in FIELDS
    }
    return pl.DataFrame(data, schema_overrides={name: pl.Float64 for name in FIELDS})


def samples_of(disk=None, status=None, host=None, lab=None) -> Samples:
    empty = pl.DataFrame(schema={"t_unix": pl.Float64})
    return Samples(
        status if status is not None else empty,
        disk if disk is not None else pl.DataFrame(schema={"t_unix": pl.Float64, "device": pl.String}),
        host if host is not None else empty,
        lab=lab or {},
    )


def test_rows_begin_where_the_one_before_ended():
    frame = timeline.make_rows(
        [IntervalReport(1.0, 10.0), IntervalReport(2.0, 20.0), IntervalReport(4.0, 40.0)], 1000.0, 1.0
    )
    assert frame["t_s"].to_list() == [0.0, 1.0, 3.0] and frame["duration_s"].to_list() == [1.0, 1.0, 1.0]
    assert frame["t_unix"].to_list() == [1000.0, 1001.0, 1003.0]
    assert frame["phase"].to_list() == ["warmup", "measure", "measure"]


@pytest.mark.parametrize("case", range(20))
def test_rates_add_up_to_what_was_counted(case):
    """For any offset between the clocks the sum over rows is what the counter rose by between their
    edges."""
    chance = random.Random(case)
    begin = 1_000_000.0 + chance.random()
    times = [1_000_000.0 - 3 + second + chance.uniform(0.0, 0.02) for second in range(20)]
    base, wave = chance.uniform(100, 5000), chance.uniform(0, 1)
    values = counter(times, lambda since: base * (1 + wave * math.sin(since)), begin)
    frame = timeline.join_samples(timeline.make_rows(reports(10), begin, 0.0), samples_of(disk_of(times, reads=values)))
    total = counter([begin + 10.0], lambda since: base * (1 + wave * math.sin(since)), begin)[0]
    # The end lies between two samples: a straight line between them is off by the curvature, at most wave/8 of a second's rate.
    assert frame["read_iops"].sum() == pytest.approx(total, abs=(0.13 * wave + 0.01) * base)


def test_the_first_second_is_not_smeared_over_the_rest_before():
    """A load that begins between two samples: 1,000 a second from the first moment on, although the counter rose by 400 in the second around it."""
    begin = 1_000_000.6
    times = [1_000_000.0 + second for second in range(-3, 10)]
    values = counter(times, lambda since: 1000.0, begin)
    frame = timeline.join_samples(timeline.make_rows(reports(5), begin, 0.0), samples_of(disk_of(times, writes=values)))
    assert frame["write_iops"].to_list() == pytest.approx([1000.0] * 5, abs=2.0)


def test_what_goes_on_before_the_load_is_never_more_than_was_counted():
    """A flush that ends where the load begins: its slope carried on would pass the next sample, and the first row would be negative."""
    begin = 1_000_000.9
    times = [1_000_000.0 + second for second in range(-3, 6)]
    values = [0.0, 5e8, 1e9, 1.5e9, 1.51e9, 1.51e9, 1.51e9, 1.51e9, 1.51e9]
    frame = timeline.join_samples(
        timeline.make_rows(reports(3), begin, 0.0), samples_of(disk_of(times, write_bytes=values))
    )
    assert frame["write_mib_s"].min() >= 0.0


def test_counters_of_32_bits_start_over():
    times = [float(second) for second in range(10)]
    waited = [(WRAP - 2500.0 + 1000.0 * second) % WRAP for second in range(10)]
    frame = timeline.join_samples(
        timeline.make_rows(reports(6), 1.5, 0.0), samples_of(disk_of(times, weighted_ms=waited))
    )
    assert frame["queue"].to_list() == pytest.approx([1.0] * 6)


def test_a_server_that_was_started_anew_has_no_rate_there():
    times = [float(second) for second in range(12)]
    status = pl.DataFrame(
        {
            "t_unix": times,
            "com_commit": [100.0 * second if second < 6 else 100.0 * (second - 6) for second in range(12)],
            "threads_running": [4.0] * 12,
        }
    )
    frame = timeline.join_samples(timeline.make_rows(reports(8), 2.0, 0.0), samples_of(status=status))
    rates = frame["com_commit_per_s"].to_list()
    assert rates[3] is None and rates[:3] == pytest.approx([100.0] * 3) and rates[4:] == pytest.approx([100.0] * 4)
    assert frame["threads_running"].to_list() == [4.0] * 8


def test_a_hole_in_the_samples_is_null():
    times = [0.0, 1.0, 2.0, 3.0, 9.0, 10.0, 11.0, 12.0]
    status = pl.DataFrame({"t_unix": times, "com_commit": [at * 50 for at in times]})
    frame = timeline.join_samples(timeline.make_rows(reports(9), 1.0, 0.0), samples_of(status=status))
    assert [value is None for value in frame["com_commit_per_s"]] == [
        False,
        False,
        True,
        True,
        True,
        True,
        True,
        True,
        False,
    ]


def test_beyond_the_samples_nothing_is_known():
    times = [float(second) for second in range(5)]
    frame = timeline.join_samples(
        timeline.make_rows(reports(6), 0.0, 0.0), samples_of(disk_of(times, reads=[10.0 * at for at in times]))
    )
    assert [value is None for value in frame["read_iops"]] == [False] * 4 + [True] * 2


def test_devices_are_added_and_waits_weighted():
    times = [float(second) for second in range(8)]
    disk = disk_of(
        times,
        reads=[100.0 * at for at in times],
        read_ms=[100.0 * at for at in times],
        io_ms=[500.0 * at for at in times],
    )
    two = disk_of(
        times,
        reads=[300.0 * at for at in times],
        read_ms=[900.0 * at for at in times],
        io_ms=[900.0 * at for at in times],
    ).with_columns(pl.lit("loop4").alias("device"))
    frame = timeline.join_samples(timeline.make_rows(reports(4), 2.0, 0.0), samples_of(pl.concat([disk, two])))
    row = frame.row(1, named=True)
    assert (
        row["read_iops"] == pytest.approx(400.0)
        and row["read_wait_ms"] == pytest.approx((100 * 1.0 + 300 * 3.0) / 400)
        and row["busy"] == pytest.approx(0.9)
    )
    assert row["read_iops:loop3"] == pytest.approx(100.0) and row["read_wait_ms:loop4"] == pytest.approx(3.0)


def test_the_figures_of_the_lab():
    seconds = list(range(-3, 10))
    rows = {"t_s": [1000 + second for second in seconds], "volume_iops_exceeded_us": [500_000] * len(seconds), "volume_throughput_exceeded_us": [0] * len(seconds),
            "balance_percent": [50.0 - second for second in seconds], "read_p99_us": [1000 * (10 + second) for second in seconds]}  # fmt: skip
    other = pl.DataFrame(rows).with_columns(
        pl.lit(200_000).alias("volume_iops_exceeded_us"),
        pl.lit(99.0).alias("balance_percent"),
        pl.lit(0).alias("read_p99_us"),
    )
    frame = timeline.join_samples(
        timeline.make_rows(reports(4), 1000.0, 0.0), samples_of(lab={"data": pl.DataFrame(rows), "log": other})
    )
    assert frame["cap_volume_iops"].to_list() == pytest.approx([0.5] * 4)
    assert frame["cap_volume_throughput"].to_list() == [0.0] * 4
    # The balance is that at the end of the lab's row, and of the volume with the least.
    assert frame["balance_percent"].to_list() == pytest.approx([50.0, 49.0, 48.0, 47.0])
    # A percentile is that of the second in which the row lies.
    assert frame["lab_read_p99_ms"].to_list() == pytest.approx([10.0, 11.0, 12.0, 13.0])


def test_no_source_at_all():
    frame = timeline.join_samples(timeline.make_rows(reports(3), 5.0, 1.0), samples_of())
    assert frame.columns == ["t_s", "duration_s", "t_unix", "phase", "threads", "tps", "qps", "p95_ms", "errors_per_s"]
    assert np.allclose(frame["tps"], 100.0)


def test_a_grid_for_a_tool_that_says_nothing():
    frame = timeline.make_empty_rows(3.7, 100.0, 1.0)
    assert frame["t_s"].to_list() == [0.0, 1.0, 2.0] and frame["tps"].null_count() == 3


def test_requests_are_those_a_volume_counts():
    """A flush is no I/O of a volume, and a loop device hands on what was merged in its parts; a disk does not."""
    times = [float(second) for second in range(8)]
    loop = disk_of(
        times,
        writes=[100.0 * at for at in times],
        flushes=[30.0 * at for at in times],
        writes_merged=[5.0 * at for at in times],
    )
    frames = [
        timeline.join_samples(timeline.make_rows(reports(3), 2.0, 0.0), samples_of(disk))
        for disk in (loop, loop.with_columns(pl.lit("nvme1n1").alias("device")))
    ]
    assert [frame["write_iops"][1] for frame in frames] == pytest.approx([75.0, 70.0]) and frames[0]["flush_iops"][
        1
    ] == pytest.approx(30.0)
