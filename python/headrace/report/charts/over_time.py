"""A demand, its simulation and the credit balances of several storages over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from headrace.report.charts import style
from headrace.report.charts.builders import (
    ABOVE,
    MOST_POINTS,
    PERCENT,
    Drawing,
    Panel,
    Part,
    TimeAxis,
    close_at_end,
    draw_lines,
    draw_panels,
    find_ends,
    make_linear_axes,
    shade,
    stack_panels,
    with_figures,
)
from headrace.report.charts.rows import shorten_rows
from headrace.report.words import format_number
from headrace.workload.points import with_totals

if TYPE_CHECKING:
    from headrace.workload import OpenWorkload

# Latencies of a volume that keeps up and of one that never recovers are eight powers of ten apart:
# ticks people read.
MS_TICKS = {
    0.1: "0.1 ms", 1: "1 ms", 10: "10 ms", 100: "100 ms", 1e3: "1 s", 1e4: "10 s", 6e4: "1 min", 6e5: "10 min", 3.6e6: "1 h",
    3.6e7: "10 h", 2.592e8: "3 days", 2.592e9: "30 days",
}  # fmt: skip
# From this ratio of the highest to the lowest latency on, the axis is logarithmic (chosen by eye).
LATENCIES_APART = 20
BALANCES = (
    ("balance_percent", "volume credits", style.SIMULATED),
    ("instance_io_balance_percent", "instance I/Os", style.SECOND),
    ("instance_byte_balance_percent", "instance bytes", style.THIRD),
)
LATENCIES = (("mean_ms", "mean", style.QUIET), ("p50_ms", "p50", style.SIMULATED), ("p99_ms", "p99", style.SECOND))


def make_ms_axis(title: str, ticks: int = 6) -> alt.Axis:
    """Returns a logarithmic axis of milliseconds, its ticks in the units people read."""
    words = "".join(f"abs(datum.value / {value!r} - 1) < 1e-6 ? '{label}' : " for value, label in MS_TICKS.items())
    return alt.Axis(title=title, values=list(MS_TICKS), labelExpr=f"{words}''", labelOverlap="greedy", tickCount=ticks)


def find_throttled_spans(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns `at` and `until` of the stretches in which requests waited for a limit."""
    waits = pl.col("throttled_s") > 0
    marked = frame.with_columns(waits.rle_id().alias("stretch")).filter(waits)
    return marked.group_by("stretch", maintain_order=True).agg(pl.col("at").first(), pl.col("until").last())


def draw_simulation(
    rows: pl.DataFrame, title: str, clock_start: object = None, closed: bool = False
) -> alt.VConcatChart:
    """Returns the chart of a run over time: offered and delivered IOPS and MiB/s, queue, balances
    and latency, with the time in which requests waited shaded."""
    axis = TimeAxis(clock_start, rows["t_s"][-1] + rows["duration_s"][-1])
    frame = axis.add(shorten_rows(rows, MOST_POINTS))
    panels = [_make_delivered_panel("IOPS", "iops", closed), _make_delivered_panel("MiB/s", "mib_s", closed)]
    if frame["queue"].max() and not closed:  # the queue of a closed load is its depth
        panels.append(("requests waiting", [("queue", "queue", style.SIMULATED)]))
    panels += with_figures([("balance (%)", BALANCES)], frame)
    axes = {"balance (%)": make_linear_axes("balance (%)", *PERCENT)}
    latencies = [part for part in LATENCIES if find_ends(frame, part[0])[1] > 0]
    far_apart = _make_latency_axis(frame, latencies) if latencies else None
    if far_apart is not None:
        # Null where a logarithm has no value.
        names = [name for name, _, _ in latencies]
        frame = frame.with_columns(pl.when(pl.col(name) > 0).then(pl.col(name)).alias(name) for name in names)
        panels.append(("I/O latency", latencies))
        axes["I/O latency"] = far_apart
    elif latencies:
        panels.append(("I/O latency (ms)", latencies))
    spans = find_throttled_spans(frame)
    height = 90 if len(panels) > 4 else style.PANEL_HEIGHT
    words = "Shaded: requests waited for a limit." if spans.height else "No request waited for a limit."
    return stack_panels(draw_panels(frame, axis, panels, height, axes, shaded=spans), title, words)


def _make_delivered_panel(title: str, column: str, closed: bool) -> Panel:
    delivered = (column, "delivered", style.SIMULATED)
    return (title, [delivered] if closed else [(f"asked_{column}", "offered", style.QUIET), delivered])


def _make_latency_axis(frame: pl.DataFrame, latencies: Sequence[Part]) -> Callable[[str], alt.Y] | None:
    """Returns a maker of logarithmic axes where the latencies (ms) are far apart; else None."""
    ends = [find_ends(frame.filter(pl.col(name) > 0), name) for name, _, _ in latencies]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    if high <= LATENCIES_APART * low:
        return None
    scale, axis = alt.Scale(type="log", domainMax=1.5 * high), make_ms_axis("I/O latency", 5)
    return lambda column: alt.Y(f"{column}:Q", scale=scale, axis=axis)


def draw_workload(load: OpenWorkload) -> alt.VConcatChart:
    """Returns the chart of a demand over time: IOPS and MiB/s, of reads, writes and all."""
    points = with_totals(load.points).with_columns(
        (pl.col("reads_per_s") * pl.col("read_kib") / 1024).alias("read_mib_s"),
        (pl.col("writes_per_s") * pl.col("write_kib") / 1024).alias("write_mib_s"),
    )
    axis = TimeAxis(load.source.get("clock_start"), load.span_s)
    panels = {"IOPS": ("reads_per_s", "writes_per_s", "ops_per_s"), "MiB/s": ("read_mib_s", "write_mib_s", "mib_s")}
    frame = axis.add(_find_busiest(points, [name for names in panels.values() for name in names]))
    labels = (("reads", style.SIMULATED), ("writes", style.SECOND), ("all", style.QUIET))
    drawn = []
    for title, names in panels.items():
        parts = [(name, *label) for name, label in zip(names, labels, strict=True)]
        drawn.append(draw_lines(frame, axis.make_axis(title == "MiB/s"), title, parts, height=150))
    return stack_panels(drawn, f"Demand of {load.name}")


def _find_busiest(points: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Returns at most MOST_POINTS rows, each with the highest figures of consecutive points in
    these columns."""
    count = -(-points.height // MOST_POINTS)
    return points.group_by(pl.int_range(points.height) // count, maintain_order=True).agg(
        pl.col("t_s").first(), pl.col("duration_s").sum(), pl.col(names).max()
    )


# A limit this many times higher than the busiest moment would press the day into the axis: it is
# named below the title (chosen by eye).
FAR_ABOVE = 3.0


def draw_day_panels(
    load: OpenWorkload, limits: Sequence[tuple[str, float, str]], waits: pl.DataFrame | None
) -> Drawing:
    """Returns the IOPS of a demand over time, with lines at limits.

    `limits`: label, IOPS and colour of each. `waits`: rows of a simulation in which the stretches
    are shaded in which requests waited for a limit; None: nothing is shaded.
    """
    axis = TimeAxis(load.source.get("clock_start"), load.span_s)
    frame, x = axis.add(_find_busiest(with_totals(load.points), ["ops_per_s"])), axis.make_axis(True)
    highest = find_ends(frame, "ops_per_s")[1]
    near = [limit for limit in limits if limit[1] <= FAR_ABOVE * highest]
    top = max([highest, *(iops for _, iops, _ in near)]) * ABOVE or 1.0
    y, height = make_linear_axes("IOPS", 0, top), 220
    spans = None if waits is None else find_throttled_spans(axis.add(shorten_rows(waits, MOST_POINTS)))
    shaded = [] if spans is None or not spans.height else [shade(spans, x, height)]
    demand = alt.Chart(close_at_end(frame).select("at", "ops_per_s"))
    area = demand.mark_area(interpolate="step-after", color=style.SIMULATED, opacity=0.15)
    line = demand.mark_line(interpolate="step-after", color=style.SIMULATED, strokeWidth=1.5)
    layers = [*shaded, area.encode(x=x, y=y("ops_per_s")), line.encode(x=x, y=y("ops_per_s"))]
    for label, iops, colour in near:
        at = alt.Chart(pl.DataFrame({"iops": [float(iops)], "label": [f"{label}: {format_number(iops, 6)}"]}))
        layers.append(at.mark_rule(color=colour, strokeWidth=2, strokeDash=[6, 3]).encode(y=y("iops")))
        name = at.mark_text(align="left", baseline="bottom", fontWeight="bold", color=colour, dy=-3, dx=4)
        layers.append(name.encode(text="label:N", x=alt.value(0), y=y("iops")))
    above = [
        f"{label}: {format_number(iops, 6)} IOPS, above this chart"
        for label, iops, _ in limits
        if (label, iops, _) not in near
    ]
    words = ["Shaded: today's storage makes requests wait."] if shaded else []
    title = alt.TitleParams(
        "IOPS asked for over the day, and the limits", subtitle=" ".join([*words, *above]), offset=10
    )
    return style.configure_chart(alt.layer(*layers).properties(width=style.WIDTH, height=height, title=title))


def draw_credit_balances(runs: list[tuple[str, pl.DataFrame]], clock_start: object = None) -> Drawing | None:
    """Draws the credit balance over the day of several storages, each named in its colour; None
    when none of them has credits.

    `runs`: name and the rows of its simulation. Those without credits are named below the title.
    """
    with_credits = [(name, rows) for name, rows in runs if rows["balance_percent"].is_not_null().any()]
    if not with_credits:
        return None
    axis = TimeAxis(clock_start, max(rows["t_s"][-1] + rows["duration_s"][-1] for _, rows in with_credits))
    y = make_linear_axes("credit balance (%)", *PERCENT, ticks=5)("balance_percent")
    layers = []
    for index, (name, rows) in enumerate(with_credits):
        frame = axis.add(shorten_rows(rows, MOST_POINTS))
        colour = style.PALETTE[index % len(style.PALETTE)]
        line = alt.Chart(close_at_end(frame)).mark_line(interpolate="step-after", color=colour, strokeWidth=2)
        label = alt.Chart(pl.DataFrame({"label": [name]}))
        text = label.mark_text(align="left", baseline="middle", fontWeight="bold", color=colour)
        place = {"x": alt.value(style.WIDTH - 92), "y": alt.value(20 + 20 * index)}
        layers += [line.encode(x=axis.make_axis(True), y=y), text.encode(text="label:N", **place)]
    without = [name for name, rows in runs if name not in dict(with_credits)]
    subtitle = f"No credits to lose: {', '.join(without)}" if without else ""
    title = alt.TitleParams("Lowest credit balance of the members", subtitle=subtitle, offset=10)
    return style.configure_chart(alt.layer(*layers).properties(width=style.WIDTH - 100, height=200, title=title))
