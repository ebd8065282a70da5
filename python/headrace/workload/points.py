"""The points of a workload: a frame of rates over time, its limits, and its figures.

Percentiles and means are weighted by time: a point of 300 s counts 300 times as much as one of 1 s.
The 95th percentile is the lowest rate that is not exceeded in at least 95 % of the time (nearest
rank, no interpolation).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from headrace.base.checks import check_number, quote_value
from headrace.base.units import HOUR_S, write_clock
from headrace.errors import InputError, Refusals

if TYPE_CHECKING:
    import numpy as np

# Numbers of one column.
Floats: TypeAlias = "Sequence[float] | np.ndarray | pl.Series"

POINT_COLUMNS = ("t_s", "duration_s", "reads_per_s", "writes_per_s", "read_kib", "write_kib")
# Columns that a recording may have with the rates; null in a point without the value.
OBSERVED_COLUMNS = ("read_await_ms", "write_await_ms", "await_ms", "queue", "util_percent", "balance_percent")

# Limits. They are ours, wide enough for any EBS volume: the fastest does 256,000 IOPS, and Linux
# splits I/Os at a few MiB.
MAX_POINTS = 3_000_000
MAX_OPS_PER_S = 10_000_000.0  # forty of the fastest volumes
MIN_IO_KIB = 0.5  # one sector
MAX_IO_KIB = 64.0 * 1024  # KiB
MIN_POINT_S = 1.0  # the model counts whole seconds
MAX_POINT_S = 86_400.0  # a day
MAX_RECORDED_POINT_S = 3_600.0  # CloudWatch keeps an hour after two months
MAX_SPAN_S = 3_660 * 86_400.0  # ten years
MAX_SIZE_GIB = 1_048_576.0  # a pebibyte
MAX_GROWTH = 1_000.0  # factor
MAX_OBSERVED = 1e9  # of latencies in ms and queues: 12 days, more than a host's memory of requests
# A point longer than this hides bursts that empty a bucket; CloudWatch's basic period is exactly
# this long.
COARSE_POINT_S = 300.0

refuse = Refusals("docs/reference/workload-file.md, Limits")
# times are kept as f64 seconds; ten years of them still resolve to 0.1 us
CONTIGUOUS_SLACK_S = 1e-6

KINDS = ("constant", "daily", "recorded")
ARRIVALS = ("even", "poisson")
LOCAL_ZONE = "local, not stated"
CLOCK_ZONE = re.compile(r"UTC(?:[+-]\d{2}:\d{2})?", re.ASCII)
RW_KINDS = ("read", "write", "randread", "randwrite", "rw", "randrw")


def make_points(
    t_s: Floats, duration_s: Floats, reads_per_s: Floats, writes_per_s: Floats, read_kib: Floats, write_kib: Floats
) -> pl.DataFrame:
    """Returns the points of an `OpenWorkload` from six equally long sequences; the size of reads or
    writes becomes 0 in points without any."""
    frame = pl.DataFrame(
        {
            "t_s": pl.Series(t_s, dtype=pl.Float64),
            "duration_s": pl.Series(duration_s, dtype=pl.Float64),
            "reads_per_s": pl.Series(reads_per_s, dtype=pl.Float64),
            "writes_per_s": pl.Series(writes_per_s, dtype=pl.Float64),
            "read_kib": pl.Series(read_kib, dtype=pl.Float64),
            "write_kib": pl.Series(write_kib, dtype=pl.Float64),
        }
    )
    return frame.with_columns(
        pl.when(pl.col("reads_per_s") == 0).then(0.0).otherwise(pl.col("read_kib")).alias("read_kib"),
        pl.when(pl.col("writes_per_s") == 0).then(0.0).otherwise(pl.col("write_kib")).alias("write_kib"),
    )


# --- checks ---------------------------------------------------------------------------------------


def check_points(points: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Returns the points with their columns in order, as f64, without observed columns that are all
    null. Raises InputError, which names the first row that breaks a limit."""
    if not isinstance(points, pl.DataFrame):
        raise InputError(f"points is {type(points).__name__}", "must be a polars DataFrame", "OpenWorkload")
    if sorted(set(points.columns) - set(OBSERVED_COLUMNS)) != sorted(POINT_COLUMNS):
        rule = f"must be {', '.join(POINT_COLUMNS)}, and may be {', '.join(OBSERVED_COLUMNS)}"
        raise InputError(f"columns {points.columns}", rule, "OpenWorkload")
    if not all(points[column].dtype.is_numeric() or points[column].dtype == pl.Null for column in points.columns):
        raise InputError("points", "every column must hold numbers", "OpenWorkload")
    observed = [column for column in OBSERVED_COLUMNS if column in points.columns]
    points = points.select(pl.col(POINT_COLUMNS).cast(pl.Float64), pl.col(observed).cast(pl.Float64).fill_nan(None))
    points = points.drop([column for column in observed if points[column].is_null().all() and points.height])
    if points.height == 0:
        raise refuse.input("0 points", "a workload has at least one point")
    if points.height > MAX_POINTS:
        hint = "Cut the recording or take means over a longer interval."
        raise refuse.input(f"{points.height:,} points", f"at most {MAX_POINTS:,} are taken", hint)
    for column in POINT_COLUMNS:
        _refuse(points, ~pl.col(column).is_finite().fill_null(False), column, "must be a finite number")
    longest = MAX_RECORDED_POINT_S if kind == "recorded" else MAX_POINT_S
    duration = pl.col("duration_s")
    _refuse(
        points,
        (duration < MIN_POINT_S) | (duration > longest),
        "duration_s",
        f"a point of a {kind} workload lasts {MIN_POINT_S:g} to {longest:g} s",
    )
    for rate in ("reads_per_s", "writes_per_s"):
        _refuse(points, pl.col(rate) < 0, rate, "a rate cannot be negative")
        _refuse(points, pl.col(rate) > MAX_OPS_PER_S, rate, f"at most {MAX_OPS_PER_S:,.0f} I/Os a second are believed")
    for size, rate in (("read_kib", "reads_per_s"), ("write_kib", "writes_per_s")):
        outside = (pl.col(size) < MIN_IO_KIB) | (pl.col(size) > MAX_IO_KIB)
        wrong = outside & ~((pl.col(rate) == 0) & (pl.col(size) == 0))
        _refuse(points, wrong, size, f"an I/O is {MIN_IO_KIB:g} to {MAX_IO_KIB:g} KiB (0 only where the rate is 0)")
    for column in points.columns[len(POINT_COLUMNS) :]:
        most = 100.0 if column.endswith("_percent") else MAX_OBSERVED
        outside = (~pl.col(column).is_finite() | (pl.col(column) < 0) | (pl.col(column) > most)).fill_null(False)
        _refuse(points, outside, column, f"what was recorded is 0 to {most:,.0f}, or left out")
    _check_contiguous(points)
    return points


def check_clock_zone(zone: object) -> None:
    """Raises InputError for a clock zone other than UTC, an offset from it, or LOCAL_ZONE."""
    if zone != LOCAL_ZONE and not (isinstance(zone, str) and CLOCK_ZONE.fullmatch(zone)):
        rule = f'must be "UTC", "UTC+01:00" or the like, or "{LOCAL_ZONE}"'
        raise refuse.input(f"clock_zone = {quote_value(zone)}", rule)


def check_clock_start(start: object) -> None:
    """Raises InputError if the start of a recording is not None, a time of day, or a date and time
    of the years 1990 to 2100."""
    if start is None:
        return
    rule = "must be a time of day like 10:00:00, or a date and time like 2025-11-21T10:00:00 of the years 1990 to 2100, in quotes"
    try:
        moment = (
            datetime.fromisoformat(start if len(start) > 8 else f"2000-01-01T{start}")
            if isinstance(start, str)
            else None
        )
    except ValueError:
        moment = None
    if moment is None or not 1990 <= moment.year <= 2100:
        raise refuse.input(f"clock_start = {quote_value(start)}", rule, "Leave it out when it is not known.")


def _check_contiguous(points: pl.DataFrame) -> None:
    """Raises InputError if points do not begin at 0, leave a gap or overlap, or last too many
    days."""
    if points["t_s"][0] != 0.0:
        raise refuse.input(f"t_s[0] = {points['t_s'][0]:g}", "the first point starts at 0")
    expected = (pl.col("t_s") + pl.col("duration_s")).shift(1)
    apart = (pl.col("t_s") - expected).abs().fill_null(0.0) > CONTIGUOUS_SLACK_S
    _refuse(points, apart, "t_s", "each point starts where the one before ends")
    span_s = points["t_s"][-1] + points["duration_s"][-1]
    if span_s > MAX_SPAN_S:
        raise refuse.input(f"{span_s / 86_400:,.0f} days", f"at most {MAX_SPAN_S / 86_400:,.0f} days are taken")


def _refuse(points: pl.DataFrame, wrong: pl.Expr, column: str, rule: str) -> None:
    """Raises InputError with the first row where `wrong` holds, or is null."""
    mask = points.select(wrong.fill_null(True).alias("wrong"))["wrong"]
    if mask.any():
        row = mask.arg_true()[0]
        raise refuse.input(f"{column}[{row}] = {points[column][row]}", rule)


def describe_coarse_caveat(points: pl.DataFrame) -> str | None:
    """Returns a caveat if points are longer than COARSE_POINT_S, so that bursts inside them do not
    show; else None."""
    longest_s = float(points["duration_s"].to_numpy().max())
    if longest_s <= COARSE_POINT_S:
        return None
    return (
        f"Points last up to {longest_s:g} s: bursts shorter than "
        "that are not in the figures, and short bursts are what "
        "empties a burst bucket or fills a queue. Record at one minute or less before you trust a narrow margin."
    )


def check_size(size_gib: object) -> float | None:
    """Returns the size of the data in GiB, or None if it is None. Raises InputError unless it is a
    number above 0 within the limits."""
    if size_gib is None:
        return None
    size = check_number("size_gib", size_gib, 0.0, MAX_SIZE_GIB, "GiB")
    if size == 0.0:
        raise refuse.input("size_gib = 0", "must be above 0 GiB", "Leave it out when it is not known.")
    return size


# --- figures --------------------------------------------------------------------------------------


def with_totals(points: pl.DataFrame) -> pl.DataFrame:
    """Returns the points of a demand with the sums of reads and writes: `ops_per_s` (I/Os a
    second) and `mib_s` (MiB/s)."""
    kib_s = pl.col("reads_per_s") * pl.col("read_kib") + pl.col("writes_per_s") * pl.col("write_kib")
    return points.with_columns(
        (pl.col("reads_per_s") + pl.col("writes_per_s")).alias("ops_per_s"), (kib_s / 1024.0).alias("mib_s")
    )


def compute_figures(points: pl.DataFrame, clock_start: str | None) -> dict:
    """Returns the figures of `OpenWorkload.summarize` that follow from its points; `clock_start` is
    that of the workload's source."""
    points = with_totals(points)
    span_s = points["t_s"][-1] + points["duration_s"][-1]
    totals = points.select(
        (pl.col("reads_per_s") * pl.col("duration_s")).sum().alias("reads"),
        (pl.col("writes_per_s") * pl.col("duration_s")).sum().alias("writes"),
        (pl.col("reads_per_s") * pl.col("read_kib") * pl.col("duration_s")).sum().alias("read_kib"),
        (pl.col("writes_per_s") * pl.col("write_kib") * pl.col("duration_s")).sum().alias("write_kib"),
    ).row(0, named=True)
    ops = totals["reads"] + totals["writes"]
    kib = totals["read_kib"] + totals["write_kib"]
    hour_start_s, hour_ops = find_busiest_window(points, "ops_per_s", HOUR_S)
    hour_s = min(HOUR_S, span_s)
    return {
        "points": points.height,
        "shortest_point_s": points["duration_s"].min(),
        "longest_point_s": points["duration_s"].max(),
        "span_s": span_s,
        "mean_iops": ops / span_s,
        "p95_iops": compute_time_percentile(points, "ops_per_s", 0.95),
        "peak_iops": points["ops_per_s"].max(),
        "peak_at_s": points["t_s"][int(points["ops_per_s"].to_numpy().argmax())],
        "mean_mib_s": kib / 1024.0 / span_s,
        "p95_mib_s": compute_time_percentile(points, "mib_s", 0.95),
        "peak_mib_s": points["mib_s"].max(),
        "mean_io_kib": kib / ops if ops else 0.0,
        "mean_read_kib": totals["read_kib"] / totals["reads"] if totals["reads"] else 0.0,
        "mean_write_kib": totals["write_kib"] / totals["writes"] if totals["writes"] else 0.0,
        "read_share": totals["reads"] / ops if ops else None,
        "read_bytes_share": totals["read_kib"] / kib if kib else None,
        "busiest_hour_start_s": hour_start_s,
        "busiest_hour_clock": write_clock(clock_start, hour_start_s),
        "busiest_hour_iops": hour_ops,
        "busiest_hour_mib_s": _average_window(points, "mib_s", hour_start_s, hour_s),
    }


def compute_time_percentile(points: pl.DataFrame, column: str, share: float) -> float:
    """Returns the least value of `column` not exceeded for `share` (0..1) of the time."""
    by_value = points.select(column, "duration_s").sort(column)
    reached = by_value["duration_s"].cum_sum() >= share * float(by_value["duration_s"].sum()) * (1 - 1e-12)
    return by_value[column][reached.arg_true()[0]]


def find_busiest_window(points: pl.DataFrame, column: str, window_s: float) -> tuple[float, float]:
    """Returns the start (s) and mean of the window of `window_s` seconds with the highest mean of
    `column`, weighted by time, among those that start with a point; of equal ones the earliest. A
    span shorter than the window is one window."""
    starts, durations, values = (points[name].to_list() for name in ("t_s", "duration_s", column))
    span_s = starts[-1] + durations[-1]
    if span_s <= window_s:
        return 0.0, sum(d * v for d, v in zip(durations, values, strict=True)) / span_s
    best_start, best_sum, sum_inside, end = 0.0, -1.0, 0.0, 0
    for first, start in enumerate(starts):
        if start + window_s > span_s + 1e-6:
            break
        while end < len(starts) and starts[end] + durations[end] <= start + window_s + 1e-6:
            sum_inside += durations[end] * values[end]
            end += 1
        # The last point may reach past the window: count the part inside.
        part = (start + window_s - starts[end]) * values[end] if end < len(starts) else 0.0
        if sum_inside + part > best_sum * (1 + 1e-12):
            best_start, best_sum = start, sum_inside + part
        if end > first:
            sum_inside -= durations[first] * values[first]
        else:
            end = first + 1  # one point longer than the window
    return best_start, best_sum / window_s


def _average_window(points: pl.DataFrame, column: str, start_s: float, window_s: float) -> float:
    """Returns the mean of a column over the `window_s` seconds from `start_s`, weighted by time."""
    end = pl.min_horizontal(pl.col("t_s") + pl.col("duration_s"), pl.lit(start_s + window_s))
    overlap = (end - pl.max_horizontal(pl.col("t_s"), pl.lit(start_s))).clip(lower_bound=0.0)
    return points.select((overlap * pl.col(column)).sum().alias("sum"))["sum"][0] / window_s
