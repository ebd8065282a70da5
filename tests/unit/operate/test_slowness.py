"""Explanations of a slow stretch: each threshold of bursts, first reads of blocks and degraded
volumes, on rows made by hand."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.observe.evidence.limits import get_holding_limits
from headrace.operate.doctor.signals import ModelLatency
from headrace.operate.doctor.slowness import (
    find_cause,
    find_clearly_slow_points,
    find_slow_points,
    find_stalled_points,
    find_stretches,
    has_separate_latencies,
)
from headrace.operate.doctor.thresholds import Thresholds

T = Thresholds()
MODEL = ModelLatency(read_p50=0.5, read_p99=1.2, write_p50=0.7, write_p99=2.0)
GP3 = get_holding_limits("gp3:500")


def rows(count=20, *, reads=300.0, writes=100.0, read_ms=14.0, write_ms=18.0, busy=1.0, every=60.0, first=0.0, **more):
    """So many points that are alike; a value may be a function of the number of the point."""
    figures = {
        "read_iops": reads, "write_iops": writes, "charged_iops": reads + writes, "read_mib_s": reads / 64,
        "write_mib_s": writes / 64, "read_ms": read_ms, "write_ms": write_ms, "idle_share": None if busy is None else 1 - busy,
    } | more  # fmt: skip
    result = {"t_unix": [first + every * index for index in range(count)], "duration_s": [every] * count}
    result |= {
        name: [value(index) if callable(value) else value for index in range(count)]
        for name, value in figures.items()
        if value is not None
    }
    return pl.DataFrame(result)


CALM = rows(read_ms=0.6, write_ms=0.8, busy=0.25)


def cause(part, calm=CALM, before=CALM, limits=GP3, **changed):
    return find_cause(part, calm, before, limits, MODEL, Thresholds(**changed)).cause


def test_degraded_is_what_nothing_else_explains():
    """400 IOPS keep a device busy for 24 % of the time by themselves (0.6 ms each), and are 13 % of the
    limit: no burst makes it busy all the time. Writes are slow as well, so no block is cold."""
    assert cause(rows()) == "degraded"


def test_a_burst_hides_in_a_point():
    """Six seconds of a minute at 3,000 IOPS and 150 IOPS beside: 435 on the mean, busy for 20 %."""
    assert cause(rows(reads=300.0, writes=135.0, busy=0.20)) == "bursts"
    assert cause(rows(busy=None)) == "bursts", "nobody counted how long it was busy"


def test_requests_that_overlap_keep_a_device_busy_for_less_than_their_sum():
    """1,800 IOPS of 0.6 ms are 1.08 s of a second in sum; calm points with as many show 0.7."""
    part = rows(reads=1_200.0, writes=500.0)
    assert cause(part) == "bursts", "no calm point had as many"
    calm = rows(reads=1_300.0, writes=500.0, read_ms=0.6, write_ms=0.8, busy=0.7)
    assert cause(part, calm, calm) == "degraded"


def test_a_rate_near_a_limit_is_no_fault_of_ebs():
    assert cause(rows(reads=2_000.0, writes=500.0)) == "bursts"


def test_slow_reads_beside_quick_writes_are_first_reads():
    assert cause(rows(write_ms=0.9)) == "first-touch"


def test_quick_writes_rule_out_bursts_of_reads():
    """300 reads a second that wait for 13.5 ms (14 less the median of 0.5) are 10 % of the limit of 3,000:
    a burst at it would make writes wait for 1.35 ms on average. Half of that rules it out, 0.68 ms above the
    usual 0.8, though the device rested for 80 % of the time."""
    rested = {"busy": 0.20}
    assert cause(rows(write_ms=1.4, **rested)) == "first-touch"
    assert cause(rows(write_ms=1.4, busy=None)) == "first-touch", "nobody counted how long it was busy"
    assert cause(rows(write_ms=1.6, **rested)) == "bursts"
    assert cause(rows(write_ms=0.8, reads=2_600.0, **rested)) == "bursts", "near a limit"
    # 75 reads a second mean 0.34 ms, less than half of the usual latency: too little to be seen.
    assert cause(rows(write_ms=0.8, reads=75.0, **rested)) == "bursts"
    assert cause(rows(write_ms=0.6, **rested), limits=None) == "bursts", "no limit is known"


def test_a_device_that_answers_nothing_while_requests_wait_has_stalled():
    silent = [7, 8]
    zero = {name: lambda index: 0.0 if index in silent else 200.0 for name in ("read_iops", "write_iops")}
    part = rows(read_ms=0.6, write_ms=0.8, queue=lambda index: 32.0 if index in silent else 0.4, **zero)
    assert [index for index, stalled in enumerate(find_stalled_points(part)) if stalled] == silent
    assert not find_stalled_points(part.with_columns(queue=pl.lit(0.4))).any(), "nothing waited: it was idle"
    assert not find_stalled_points(part.with_columns(queue=pl.lit(1.0))).any(), "a count that never falls is wrong"
    assert not find_stalled_points(part.drop("queue")).any(), "nobody counted them"


def test_one_latency_for_both_leaves_cold_blocks_open():
    """Unless it rose at once on a volume that served the same load quickly, and stays."""
    both = {"read_ms": 14.0, "write_ms": 14.0}
    calm = rows(read_ms=0.6, write_ms=0.6, busy=0.25)
    assert not has_separate_latencies(rows(**both)) and has_separate_latencies(rows())
    assert cause(rows(**both), calm, calm) == "degraded"
    assert cause(rows(**both), calm, calm[:0]) == "first-touch", "nothing was there before"
    fall = lambda index: 30.0 - 1.4 * index  # noqa: E731
    assert cause(rows(read_ms=fall, write_ms=fall), calm, calm) == "first-touch", "it falls"
    assert cause(rows(read_ms=fall, write_ms=fall, busy=None), calm, calm) == "first-touch"
    assert cause(rows(reads=1.0, writes=400.0, **both), calm, calm[:0]) == "degraded", "hardly a read"


def test_thresholds():
    """Each threshold of the table on both sides of its value."""
    # busy_margin, busy_least: 400 IOPS of 0.55 ms (300 x 0.5 and 100 x 0.7) explain 0.22.
    assert cause(rows(busy=0.55), CALM[:0]) == "degraded"
    assert cause(rows(busy=0.45), CALM[:0]) == "bursts"
    assert cause(rows(busy=0.55), CALM[:0], busy_margin=2.6) == "bursts"
    # steady_latency_share: a latency that falls to 0.5 of what it was, and to 0.7.
    calm = rows(read_ms=0.6, write_ms=0.6, busy=0.25)
    for share, expected in ((0.5, "first-touch"), (0.7, "degraded")):
        fall = lambda index, share=share: 20.0 if index < 10 else 20.0 * share  # noqa: E731
        assert cause(rows(read_ms=fall, write_ms=fall), calm, calm) == expected
    # slow_mean_factor: the mean of a minute counts from the p99 on, that of a second from 2.
    for every, factor, slow in ((60.0, 1.1, True), (60.0, 0.95, False), (1.0, 1.9, False), (1.0, 2.1, True)):
        part = rows(read_ms=factor * MODEL.write_p99, write_ms=0.8, every=every)
        assert find_slow_points(part, MODEL, T).any() == slow
    assert not find_clearly_slow_points(rows(read_ms=1.5 * MODEL.write_p99, write_ms=0.8), MODEL, T).any()


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ([True, True, False, True], [(0, 2), (3, 4)]),
        ([False, True, False, True, True], [(3, 5), (1, 2)]),
        ([False], []),
    ],
)
def test_stretches(mask, expected):
    assert find_stretches(pl.Series(mask)) == expected
