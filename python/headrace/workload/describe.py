"""Figures and words for a workload: what `workload show` prints.

Percentiles and means are weighted by time: a point of 300 s counts 300 times as much as one of 1 s. The 95th percentile is
the lowest rate that is not exceeded in at least 95 % of the time (nearest rank, no interpolation).
"""

from __future__ import annotations

import polars as pl

from headrace.base.clocks import clock_text, span_in_words
from headrace.workload.model import ClosedWorkload, OpenWorkload

KIB_PER_MIB = 1024.0
HOUR_S = 3_600.0


def with_totals(points: pl.DataFrame) -> pl.DataFrame:
    """The points with `ops_per_s` (I/Os a second) and `mib_s` (MiB/s), reads and writes together."""
    kib_s = pl.col("reads_per_s") * pl.col("read_kib") + pl.col("writes_per_s") * pl.col("write_kib")
    return points.with_columns((pl.col("reads_per_s") + pl.col("writes_per_s")).alias("ops_per_s"), (kib_s / KIB_PER_MIB).alias("mib_s"))


def summarise(workload: OpenWorkload) -> dict:
    """The figures of an open workload.

    Rates in I/Os a second (`*_iops`) and MiB/s (`*_mib_s`), sizes in KiB, times in seconds. `read_share` is of I/Os,
    `read_bytes_share` of bytes; both None when nothing is asked. `busiest_hour_start_s` is where the hour with the
    highest mean rate starts, `busiest_hour_iops`/`_mib_s` its means (the whole span when it is shorter than an hour).
    """
    points = with_totals(workload.points)
    span_s = workload.span_s
    totals = points.select(
        (pl.col("reads_per_s") * pl.col("duration_s")).sum().alias("reads"),
        (pl.col("writes_per_s") * pl.col("duration_s")).sum().alias("writes"),
        (pl.col("reads_per_s") * pl.col("read_kib") * pl.col("duration_s")).sum().alias("read_kib"),
        (pl.col("writes_per_s") * pl.col("write_kib") * pl.col("duration_s")).sum().alias("write_kib"),
    ).row(0, named=True)
    ops = totals["reads"] + totals["writes"]
    kib = totals["read_kib"] + totals["write_kib"]
    hour_start_s, hour_ops = busiest_window(points, "ops_per_s", HOUR_S)
    hour_s = min(HOUR_S, span_s)
    return {
        "name": workload.name,
        "model": "open",
        "kind": workload.kind,
        "points": points.height,
        "shortest_point_s": points["duration_s"].min(),
        "longest_point_s": points["duration_s"].max(),
        "span_s": span_s,
        "mean_iops": ops / span_s,
        "p95_iops": time_percentile(points, "ops_per_s", 0.95),
        "peak_iops": points["ops_per_s"].max(),
        "peak_at_s": points["t_s"][points["ops_per_s"].arg_max()],
        "mean_mib_s": kib / KIB_PER_MIB / span_s,
        "p95_mib_s": time_percentile(points, "mib_s", 0.95),
        "peak_mib_s": points["mib_s"].max(),
        "mean_io_kib": kib / ops if ops else 0.0,
        "mean_read_kib": totals["read_kib"] / totals["reads"] if totals["reads"] else 0.0,
        "mean_write_kib": totals["write_kib"] / totals["writes"] if totals["writes"] else 0.0,
        "read_share": totals["reads"] / ops if ops else None,
        "read_bytes_share": totals["read_kib"] / kib if kib else None,
        "busiest_hour_start_s": hour_start_s,
        "busiest_hour_clock": clock_at(workload, hour_start_s),
        "busiest_hour_iops": hour_ops,
        "busiest_hour_mib_s": _window_mean(points, "mib_s", hour_start_s, hour_s),
        "size_gib": workload.size_gib,
        "growth_per_year": workload.growth_per_year,
    }


def time_percentile(points: pl.DataFrame, column: str, share: float) -> float:
    """The lowest value of `column` not exceeded during at least `share` (0..1) of the time."""
    by_value = points.select(column, "duration_s").sort(column)
    reached = by_value["duration_s"].cum_sum() >= share * by_value["duration_s"].sum() * (1 - 1e-12)
    return by_value[column][reached.arg_true()[0]]


def busiest_window(points: pl.DataFrame, column: str, window_s: float) -> tuple[float, float]:
    """Start and mean of the window of `window_s` seconds, starting with a point, whose time-weighted mean is highest.

    The earliest wins a tie. A span shorter than the window is one window.
    """
    starts, durations, values = (points[name].to_list() for name in ("t_s", "duration_s", column))
    span_s = starts[-1] + durations[-1]
    if span_s <= window_s:
        return 0.0, sum(d * v for d, v in zip(durations, values, strict=True)) / span_s
    best_start, best_sum, inside, right = 0.0, -1.0, 0.0, 0
    for left, start in enumerate(starts):
        if start + window_s > span_s + 1e-6:
            break
        while right < len(starts) and starts[right] + durations[right] <= start + window_s + 1e-6:
            inside += durations[right] * values[right]
            right += 1
        # The last point may reach past the window: count the part inside.
        part = (start + window_s - starts[right]) * values[right] if right < len(starts) else 0.0
        if inside + part > best_sum * (1 + 1e-12):
            best_start, best_sum = start, inside + part
        if right > left:
            inside -= durations[left] * values[left]
        else:
            right = left + 1  # one point longer than the window
    return best_start, best_sum / window_s


def _window_mean(points: pl.DataFrame, column: str, start_s: float, window_s: float) -> float:
    end = pl.min_horizontal(pl.col("t_s") + pl.col("duration_s"), pl.lit(start_s + window_s))
    overlap = (end - pl.max_horizontal(pl.col("t_s"), pl.lit(start_s))).clip(lower_bound=0.0)
    return points.select((overlap * pl.col(column)).sum().alias("sum"))["sum"][0] / window_s


def clock_at(workload: OpenWorkload, t_s: float) -> str | None:
    """The time of day at `t_s` as HH:MM (with the date when known), or None when the recording has no clock."""
    return clock_text(workload.source.get("clock_start"), t_s)


def in_words(workload: OpenWorkload) -> str:
    """What an open workload asks of a volume, as a few sentences and the list of caveats."""
    figures = summarise(workload)
    lines = [
        f"{workload.name}: {workload.kind} demand over {span_in_words(figures['span_s'])}, "
        f"{figures['points']:,} point{'s' if figures['points'] > 1 else ''} of {_point_lengths(figures)}."
    ]
    if figures["read_share"] is None:
        lines.append("It asks for no I/O at all.")
    else:
        lines += _demand_lines(figures)
        lines += _pattern_lines(workload)
    if workload.size_gib is not None:
        lines.append(f"The volume must hold {workload.size_gib:,.4g} GiB.")
    if workload.growth_per_year:
        lines.append(f"Demand is expected to change by {workload.growth_per_year:+.0%} a year (not yet in these figures).")
    if "tool" in workload.source:
        lines.append("Source: " + source_in_words(workload.source) + ".")
    lines += [f"Caveat: {note}" for note in workload.notes()]
    return "\n".join(lines)


def _demand_lines(figures: dict) -> list[str]:
    read = figures["read_share"]
    when = (
        f"from {figures['busiest_hour_clock']}"
        if figures["busiest_hour_clock"]
        else (f"from {span_in_words(figures['busiest_hour_start_s'])} after the start")
    )
    lines = [
        f"On average {figures['mean_iops']:,.0f} IOPS and {figures['mean_mib_s']:,.1f} MiB/s; "
        f"95 % of the time at most {figures['p95_iops']:,.0f} IOPS and {figures['p95_mib_s']:,.1f} MiB/s; "
        f"peak {figures['peak_iops']:,.0f} IOPS, {figures['peak_mib_s']:,.1f} MiB/s.",
        f"{read:.0%} of the I/Os are reads (mean {figures['mean_read_kib']:.1f} KiB), "
        f"the rest writes (mean {figures['mean_write_kib']:.1f} KiB); all together {figures['mean_io_kib']:.1f} KiB an I/O.",
    ]
    if figures["span_s"] > HOUR_S:
        lines.append(
            f"Busiest hour: {when}, {figures['busiest_hour_iops']:,.0f} IOPS and {figures['busiest_hour_mib_s']:,.1f} MiB/s on average."
        )
    return lines


def _pattern_lines(workload: OpenWorkload) -> list[str]:
    reads, writes = workload.sequential_read_share, workload.sequential_write_share
    lines = []
    if reads or writes:
        lines.append(f"Sequential: {reads:.0%} of the reads, {writes:.0%} of the writes.")
    if workload.arrivals == "even":
        lines.append("I/Os inside a point arrive evenly spaced.")
    return lines


def closed_in_words(workload: ClosedWorkload) -> str:
    """What a closed workload asks of a volume, in words."""
    depth = workload.iodepth * workload.numjobs
    order = "sequential" if workload.sequential else "random"
    what = {1.0: "reads", 0.0: "writes"}.get(workload.read_share, f"I/Os, {workload.read_share:.0%} of them reads")
    lines = [
        f"{workload.name}: {order} {workload.bs_kib:g} KiB {what}, as fast as the volume allows with {depth:,} in flight "
        f"({workload.numjobs:,} job{'s' if workload.numjobs > 1 else ''}, depth {workload.iodepth:,} each)."
    ]
    if workload.size_gib is not None:
        lines.append(f"It runs over {workload.size_gib:,.4g} GiB.")
    lines += [f"Caveat: {caveat}" for caveat in workload.caveats]
    return "\n".join(lines)


def source_in_words(source: dict) -> str:
    """`iostat, file db1.txt, device nvme1n1, from 2025-11-21T10:00:00`."""
    parts = [str(source["tool"])]
    for key, word in (("file", "file"), ("device", "device"), ("clock_start", "from")):
        if source.get(key):
            parts.append(f"{word} {source[key]}")
    if source.get("scaled_by"):
        parts.append(f"scaled by {source['scaled_by']:g}")
    return ", ".join(parts)


def _point_lengths(figures: dict) -> str:
    shortest, longest = figures["shortest_point_s"], figures["longest_point_s"]
    return span_in_words(shortest) if shortest == longest else f"{span_in_words(shortest)} to {span_in_words(longest)}"
