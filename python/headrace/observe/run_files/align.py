"""One time axis: which second of the disk's file is which second of the benchmark's.

It is found by the clock where both files have one. Else both are taken to begin together, or up to
a minute apart if the correlation of their changes with such a lag is clearly higher.
"""

from __future__ import annotations

import math

import polars as pl

from headrace.observe.recording import Recording
from headrace.observe.series import DOC, RunFinding, TimeSeries, refuse

MAX_LAG_S = 60.0  # starting two tools by hand takes less; a guess
# what is slower than a minute is the run's course, the same in all files at any lag
WINDOW_ROWS = 61
FEWEST_ROWS = 120  # fewer tell no correlation; a guess
LEAST_CORRELATION = 0.3  # a guess
# The largest of 121 correlations of n unrelated pairs stays below about 3.3 / sqrt(n) in 19 of 20
# cases; 4 leaves room.
CLEAR = 4.0
LEAST_GAIN = 0.1  # a guess
# A file without times whose length fits the run this closely is taken to have the benchmark's
# interval.
SAME_LENGTH_SHARE = 0.05
# A row is kept when at least half of it was measured.
LEAST_COVERAGE = 0.5


def infer_interval(
    recording: Recording, key: str, count: int, span_s: float, row_s: float, findings: list[RunFinding]
) -> float:
    """Returns the interval of a file of `count` reports that does not state it: `row_s`, that of
    the benchmark's rows, with a finding. `span_s`: length of the run. Raises InputError where the
    reports do not fill the run.
    """
    if abs(count * row_s - span_s) > max(SAME_LENGTH_SHARE * span_s, 2 * row_s):
        rule = f"do not fill the {span_s:,.0f} s of the run at {row_s:g} s each"
        hint = f"Say how far apart they are (files.{key}_interval_s), or record with times."
        raise recording.make_error("", f"{count} reports without times", rule, hint, DOC)
    findings.append(
        RunFinding(
            "alignment",
            f"{recording.name} has no times: its {count} reports were taken to be {row_s:g} s apart, as the benchmark's.",
        )
    )
    return row_s


def find_offset(
    series: TimeSeries, reference: str, rows: pl.DataFrame, clock_at_zero_s: float | None, findings: list[RunFinding]
) -> float:
    """Returns the seconds to add to the times of a series to get the run's, with a finding.
    `reference`: the column whose changes are correlated with tps. Raises InputError when both have
    clocks and do not overlap.
    """
    if clock_at_zero_s is not None and series.begin_s is not None:
        return _find_clock_offset(series, rows, clock_at_zero_s, findings)
    lag_s, best, without_lag = _find_best_lag(series, reference, rows)
    if lag_s:
        text = (
            f"{series.name}: no clock in both files; moved by {lag_s:+g} s, where its correlation "
            f"with tps is {best:.2f} ({without_lag:.2f} if both began together)."
        )
    else:
        text = f"{series.name}: no clock in both files; taken to begin together with the benchmark."
    findings.append(RunFinding("alignment", text))
    return lag_s


def _find_clock_offset(
    series: TimeSeries, rows: pl.DataFrame, clock_at_zero_s: float, findings: list[RunFinding]
) -> float:
    """Returns the second of the run at which the series begins, by its clock with or without a
    zone. Raises InputError where neither puts both into the same time."""
    end_s = rows["t_s"][-1] + rows["duration_s"][-1]
    for begin, words in (
        (series.begin_s, "by the clock"),
        (series.begin_local_s, "by the clock as printed, without its zone"),
    ):
        if begin is None:
            continue
        offset = begin - clock_at_zero_s
        overlap_s = min(end_s, offset + series.span_s) - max(0.0, offset)
        if overlap_s >= 0.5 * min(end_s, series.span_s):
            findings.append(
                RunFinding("alignment", f"{series.name}: {words}; it begins at {round(offset):+,} s of the run.")
            )
            return offset
    apart = (series.begin_s or 0.0) - clock_at_zero_s
    hint = "Are they of the same run? Clocks that differ by whole hours: give files.clock_start in the zone of the other file."
    rule = "files of one run lie in the same time"
    raise refuse.input(f"{series.name} begins {apart:+,.0f} s from the benchmark's start", rule, hint)


def _find_best_lag(series: TimeSeries, reference: str, rows: pl.DataFrame) -> tuple[float, float, float]:
    """Returns the lag in s (0: none is clear), the correlation with it, and that without it."""
    interval = rows["duration_s"][0]
    most = int(MAX_LAG_S // interval)
    if rows.height < FEWEST_ROWS or most < 1:
        return 0.0, 0.0, 0.0
    # Both on one even grid, with a margin of the largest lag on each side of the disk's file.
    first = rows["t_s"][0]
    starts = [first + interval * (k - most) for k in range(round((rows["t_s"][-1] - first) / interval) + 1 + 2 * most)]
    disk = pl.Series(
        "disk", resample_series(series, 0.0, starts, [interval] * len(starts))[reference], dtype=pl.Float64
    )
    grid = pl.DataFrame({"t_s": starts, "disk": disk}).with_row_index("row")
    slot = ((rows["t_s"] - first) / interval).round().cast(pl.Int64) + most
    tps = pl.DataFrame({"row": slot.cast(pl.UInt32), "tps": rows["tps"]}).unique("row", keep="first")
    grid = grid.join(tps, on="row", how="left", maintain_order="left")
    grid = grid.select(_subtract_median("disk"), _subtract_median("tps"))
    correlations = []
    for lag in range(-most, most + 1):
        pair = grid.select(pl.col("disk").shift(lag), pl.col("tps")).drop_nulls()
        r = pair.select(pl.corr("disk", "tps")).item() if pair.height >= FEWEST_ROWS // 2 else None
        correlations.append((r if r is not None and math.isfinite(r) else 0.0, lag, pair.height))
    best, without_lag = max(correlations), next(entry for entry in correlations if entry[1] == 0)
    clear = best[0] >= LEAST_CORRELATION and best[0] - without_lag[0] >= max(
        LEAST_GAIN, CLEAR / math.sqrt(max(best[2], 1))
    )
    # At the edge the true lag may lie outside: nothing is clear then.
    if not clear or abs(best[1]) == most:
        return 0.0, without_lag[0], without_lag[0]
    return best[1] * interval, best[0], without_lag[0]


def _subtract_median(column: str) -> pl.Expr:
    return pl.col(column) - pl.col(column).rolling_median(WINDOW_ROWS, center=True, min_samples=WINDOW_ROWS // 4)


def resample_series(
    series: TimeSeries, offset_s: float, starts: list[float], durations: list[float]
) -> dict[str, list[float | None]]:
    """Returns means of the series over other intervals, weighted by time; None where less than half
    of one was measured.

    Both are in order; intervals do not overlap.
    """
    means: dict[str, list[float | None]] = {column: [] for column in series.columns}
    count, at = len(series.start_s), 0
    for start, duration in zip(starts, durations, strict=True):
        end = start + duration
        while at < count and series.start_s[at] + series.duration_s[at] + offset_s <= start:
            at += 1
        sums, covered, k = dict.fromkeys(series.columns, 0.0), dict.fromkeys(series.columns, 0.0), at
        while k < count and series.start_s[k] + offset_s < end:
            begin = series.start_s[k] + offset_s
            part = min(end, begin + series.duration_s[k]) - max(start, begin)
            for column, values in series.columns.items():
                if (value := values[k]) is not None:
                    sums[column] += value * part
                    covered[column] += part
            k += 1
        for column, values in means.items():
            values.append(sums[column] / covered[column] if covered[column] >= LEAST_COVERAGE * duration else None)
    return means
