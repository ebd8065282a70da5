"""What a workload asks, as lines for a terminal."""

from __future__ import annotations

from dataclasses import asdict

from headrace.report.tables import sparkline
from headrace.report.words import clock, number
from headrace.workload.points import with_totals

WIDTH = 72


def open_parts(workload) -> dict:
    """What JSON says of an open workload beside its figures: where it comes from, its clock, the stretches at a limit, its points."""
    return {
        "source": workload.source,
        "clock_zone": workload.clock_zone,
        "censored": [asdict(window) for window in workload.censored],
        "points": workload.points.to_dicts(),
    }


def spark_lines(workload, width: int = WIDTH) -> list[str]:
    """Two rows of blocks, IOPS and MiB/s over time, with the highest value and the times at both ends."""
    points = _spread(with_totals(workload.points), width)
    start = workload.source.get("clock_start")
    lines = []
    for column, unit in (("ops_per_s", "IOPS"), ("mib_s", "MiB/s")):
        lines.append(f"{unit:>6} {sparkline(points[column], width)} peak {number(max(points[column]))}")
    first, last = clock(0.0, start), clock(workload.span_s, start)
    return [*lines, f"{'':>6} {first}{last.rjust(max(1, len(sparkline(points['mib_s'], width)) - len(first)))}"]


def _spread(points, width: int) -> dict[str, list[float]]:
    """The highest value of each of `width` equal stretches of time."""
    starts, lengths = points["t_s"].to_list(), points["duration_s"].to_list()
    span = starts[-1] + lengths[-1]
    spread: dict[str, list[float]] = {}
    for column in ("ops_per_s", "mib_s"):
        bins = [0.0] * width
        for t, length, value in zip(starts, lengths, points[column].to_list(), strict=True):
            first = min(width - 1, int(t / span * width))
            last = min(width - 1, max(first, int((t + length) / span * width - 1e-9)))
            for index in range(first, last + 1):
                bins[index] = max(bins[index], value)
        spread[column] = bins
    return spread
