"""Merges rows of a run, so that a chart or a table has no more than it can show."""

from __future__ import annotations

import math

import polars as pl

from headrace.report.words import parse_clock_start

TABLE_ROWS = 24  # an hour each of a day
# Lengths of rows that lie on a clock, s.
STEPS_S = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1_200, 1_800,
    3_600, 7_200, 10_800, 14_400, 21_600, 28_800, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000,
)  # fmt: skip
# A moment is a floating point number: half a millisecond does not make a row.
ROUNDING_S = 5e-4


def shorten_rows(rows: pl.DataFrame, most: int = TABLE_ROWS) -> pl.DataFrame:
    """Returns the rows merged to at most `most`: rates are means over time, queues, waits and
    latencies the highest, balances the lowest, `cap` the limit waited for longest."""
    if rows.height <= most:
        return rows
    size = -(-rows.height // most)
    return _merge_groups(rows.with_columns(group=pl.int_range(rows.height) // size))


def choose_clock_step_s(first_s: float, last_s: float, most: int = TABLE_ROWS) -> float:
    """Returns the shortest step of a clock that cuts the time between two moments (seconds since a
    midnight) into at most `most` rows."""
    for step in STEPS_S:
        if math.ceil((last_s - ROUNDING_S) / step) - math.floor((first_s + ROUNDING_S) / step) <= most:
            return step
    return STEPS_S[-1]


def group_by_clock(
    rows: pl.DataFrame, until_s: float, start: object = None, most: int = TABLE_ROWS
) -> tuple[pl.DataFrame, float]:
    """Returns the rows with the number of a stretch of time as `group`, and the length of a stretch
    in seconds. The stretches, at most `most`, begin at 10:00, 11:00, ... (the first and the last
    may be shorter). `until_s`: the end of the last row; `start`: the clock at 0 s, None without
    it."""
    moment = parse_clock_start(start)
    midnight = moment and moment.replace(hour=0, minute=0, second=0, microsecond=0)
    since_s = 0.0 if moment is None or midnight is None else (moment - midnight).total_seconds()
    step_s = choose_clock_step_s(since_s + rows["t_s"][0], since_s + until_s, most)
    group = ((pl.col("t_s") + (since_s + ROUNDING_S)) / step_s).floor().cast(pl.Int64)
    return rows.with_columns(group=group), step_s


def on_clock(rows: pl.DataFrame, start: object = None, most: int = TABLE_ROWS) -> tuple[pl.DataFrame, float]:
    """Returns the rows merged to the stretches of `group_by_clock`, and the length of these in
    seconds; the rows themselves if they are not more than `most`."""
    if rows.height <= most:
        return rows, rows["duration_s"][0]
    parted, step_s = group_by_clock(rows, rows["t_s"][-1] + rows["duration_s"][-1], start, most)
    return _merge_groups(parted), step_s


def _merge_groups(grouped: pl.DataFrame) -> pl.DataFrame:
    """Returns one row for each `group`, merged as `shorten_rows` says."""
    rates = ("asked_iops", "asked_mib_s", "iops", "mib_s")
    lowest = ("balance_percent", "instance_io_balance_percent", "instance_byte_balance_percent")
    highest = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms")
    duration = pl.col("duration_s")
    short = grouped.group_by("group", maintain_order=True).agg(
        pl.col("t_s").first(),
        duration.sum().alias("duration_s"),
        *((pl.col(name) * duration).sum().truediv(duration.sum()).alias(name) for name in rates),
        pl.col("queue").max(),
        *(pl.col(name).min() for name in lowest),
        pl.col("throttled_s").sum(),
        *(pl.col(name).max() for name in highest),
    )
    # The limit waited for longest in each group that waited.
    waited = grouped.filter(pl.col("cap") != "none").group_by("group", "cap", maintain_order=True)
    longest = waited.agg(pl.col("throttled_s").sum()).sort("throttled_s", descending=True, maintain_order=True)
    caps = longest.group_by("group", maintain_order=True).agg(pl.col("cap").first())
    joined = short.join(caps, on="group", how="left", maintain_order="left")
    return joined.with_columns(pl.col("cap").fill_null("none")).drop("group")
