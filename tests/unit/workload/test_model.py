"""Workload values: their limits, figures and words."""

import math
import random

import polars as pl
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.workload import ClosedWorkload, OpenWorkload, make_points, new_constant
from headrace.workload.points import find_busiest_window, with_totals


def open_workload(rates, duration_s=60.0, **changes):
    count = len(rates)
    points = make_points(
        [duration_s * i for i in range(count)],
        [duration_s] * count,
        [r for r, _ in rates],
        [w for _, w in rates],
        [16.0] * count,
        [32.0] * count,
    )
    return OpenWorkload(**{"name": "test", "kind": "recorded", "points": points} | changes)


def test_error_says_value_rule_source_and_hint():
    error = InputError("size = 0", "must be above 0", "AWS guide", "Take 1.")
    assert str(error) == "size = 0: must be above 0 (AWS guide). Take 1."
    assert str(HeadraceError("a", "b")) == "a: b"
    assert (
        InputError("", "").exit_code,
        CouldNotRun("", "").exit_code,
        HeadraceError("", "", exit_code=130).exit_code,
    ) == (2, 3, 130)


def test_summary_against_hand_count():
    # 60 s at 100 reads (16 KiB) and 50 writes (32 KiB), then 60 s at 300 reads and none.
    figures = open_workload([(100, 50), (300, 0)]).summarize()
    assert figures["mean_iops"] == 225
    assert figures["peak_iops"] == 300 and figures["peak_at_s"] == 60
    assert figures["mean_mib_s"] == pytest.approx((3200 + 4800) / 2 / 1024)
    assert figures["read_share"] == pytest.approx(400 / 450)
    assert figures["read_bytes_share"] == pytest.approx(6400 / 8000)
    assert figures["mean_io_kib"] == pytest.approx(8000 / 450)
    assert figures["span_s"] == 120


def test_p95_is_weighted_by_time():
    # One point of 5 s at 1,000 and one of 95 s at 10: exactly 95 % of the time at most 10.
    points = make_points([0, 5], [5, 95], [1000, 10], [0, 0], [16, 16], [0, 0])
    assert OpenWorkload("t", "recorded", points).summarize()["p95_iops"] == 10
    points = make_points([0, 6], [6, 94], [1000, 10], [0, 0], [16, 16], [0, 0])
    assert OpenWorkload("t", "recorded", points).summarize()["p95_iops"] == 1000


@settings(max_examples=200, print_blob=True, deadline=None)
@given(st.integers(0, 2**32))
def test_busiest_window_is_the_best_of_all_windows(seed):
    """Against the plain way: try every start, add up every overlap."""
    note(f"seed {seed}")
    rng = random.Random(seed)
    durations = [float(rng.randint(1, 900)) for _ in range(rng.randint(1, 40))]
    starts = [sum(durations[:i]) for i in range(len(durations))]
    rates = [float(rng.randint(0, 500)) for _ in durations]
    zeros = [0.0] * len(rates)
    points = with_totals(make_points(starts, durations, rates, zeros, [16.0] * len(rates), zeros))
    span = sum(durations)
    window = min(3600.0, span)

    def mean(start):
        overlaps = [
            max(0.0, min(s + d, start + window) - max(s, start)) for s, d in zip(starts, durations, strict=True)
        ]
        return sum(o * r for o, r in zip(overlaps, rates, strict=True)) / window

    best = max(mean(start) for start in starts if start + window <= span)
    # Sums of at most 40 products below 1e6: double rounding stays far below 1e-9 of them.
    assert find_busiest_window(points, "ops_per_s", 3600.0)[1] == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_scaled_grows_rates_and_data_only():
    workload = open_workload([(100, 50), (10, 5)], size_gib=200)
    grown = workload.scale(1.5)
    assert grown.points["reads_per_s"].to_list() == [150, 15]
    assert grown.points["read_kib"].equals(workload.points["read_kib"])
    assert grown.size_gib == 300 and grown.source["scaled_by"] == 1.5
    assert grown.scale(2).source["scaled_by"] == 3.0
    assert workload.scale(1.0) is workload
    for bad in (0, -1, math.nan, math.inf, 1e9, "2", True):
        with pytest.raises(InputError):
            workload.scale(bad)


BAD_POINTS = {
    "negative rate": ("reads_per_s", [1.0, -1.0]),
    "NaN": ("writes_per_s", [1.0, math.nan]),
    "infinite": ("read_kib", [16.0, math.inf]),
    "absurd rate": ("reads_per_s", [1.0, 1e8]),
    "tiny I/O": ("read_kib", [16.0, 0.1]),
    "huge I/O": ("write_kib", [1e6, 16.0]),
    "no size where there is I/O": ("read_kib", [16.0, 0.0]),
    "gap": ("t_s", [0.0, 61.0]),
    "overlap": ("t_s", [0.0, 59.0]),
    "late start": ("t_s", [1.0, 61.0]),
    "zero duration": ("duration_s", [0.0, 60.0]),
    "two hours": ("duration_s", [7200.0, 60.0]),
}


@pytest.mark.parametrize("case", BAD_POINTS)
def test_bad_points_are_refused(case):
    column, values = BAD_POINTS[case]
    good = open_workload([(10, 10), (20, 20)]).points
    with pytest.raises(InputError) as caught:
        OpenWorkload("t", "recorded", good.with_columns(pl.Series(column, values)))
    assert caught.value.exit_code == 2 and caught.value.source
    assert column.split("_")[0] in caught.value.value or column in ("t_s", "duration_s")


def test_other_bad_frames_are_refused():
    good = open_workload([(10, 10)]).points
    for frame in (
        good.clear(),
        good.drop("t_s"),
        good.with_columns(pl.lit("x").alias("t_s")),
        None,
        good.with_columns(pl.lit(None, dtype=pl.Float64).alias("read_kib")),
    ):
        with pytest.raises(InputError):
            OpenWorkload("t", "recorded", frame)


def test_bad_fields_are_refused_with_a_suggestion():
    good = open_workload([(10, 10)]).points
    with pytest.raises(InputError, match="Did you mean recorded"):
        OpenWorkload("t", "recored", good)
    for changes in (
        {"name": ""},
        {"name": "a\nb"},
        {"arrivals": "never"},
        {"size_gib": 0},
        {"size_gib": -1},
        {"sequential_read_share": 1.1},
        {"growth_per_year": -1},
        {"size_gib": 10**400},
        {"name": 5},
    ):
        with pytest.raises(InputError):
            open_workload([(10, 10)], **changes)


def test_coarse_points_are_said():
    assert not open_workload([(1, 1)], 300.0).caveats
    assert "bursts shorter" in open_workload([(1, 1)], 301.0).caveats[0]


def test_closed():
    load = ClosedWorkload("fio", "randrw", 16, 32, 4, rwmixread=70)
    assert load.read_share == 0.7 and not load.sequential and load.summarize()["queue_depth"] == 128
    assert "70 % of them reads" in load.describe()
    assert ClosedWorkload("fio", "write", 1024, 1, 1).read_share == 0.0
    assert load.scale(1.0) is load
    with pytest.raises(InputError, match="iodepth"):
        load.scale(2)
    for changes in (
        {"rw": "randreed"},
        {"iodepth": 0},
        {"iodepth": 1.5},
        {"numjobs": True},
        {"bs_kib": 0},
        {"rwmixread": 101},
    ):
        with pytest.raises(InputError):
            ClosedWorkload(**{"name": "f", "rw": "read", "bs_kib": 4, "iodepth": 1, "numjobs": 1} | changes)


def test_words_hold_the_figures():
    text = new_constant(700, 300, size_gib=100, sequential_read_share=0.25, growth_per_year=0.3).describe()
    for part in ("1,000 IOPS", "70 % of the I/Os are reads", "100 GiB", "25 % of the reads", "+30 %"):
        assert part in text
    assert "no I/O at all" in new_constant(0, 0).describe()


def test_equality_compares_points():
    assert open_workload([(1, 2)]) == open_workload([(1, 2)])
    assert open_workload([(1, 2)]) != open_workload([(1, 3)])
    assert open_workload([(1, 2)]) != 5
