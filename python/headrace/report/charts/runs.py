"""Measured runs: the time line, how often each throughput occurred, latency percentiles, when each
limit was reached; and two runs over each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from headrace.base import caps
from headrace.report.charts import style
from headrace.report.charts.builders import (
    FAR_APART,
    MOST_NINES,
    Drawing,
    Panel,
    TimeAxis,
    draw_density,
    draw_panels,
    find_ends,
    has_figures,
    make_colour,
    make_linear_axes,
    make_percentile_axis,
    make_quantity_axis,
    stack_panels,
    thin_rows,
    with_figures,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.bench.comparison.compare import Difference

STRIP_HEIGHT, DENSITY_HEIGHT = 22, 150  # px
CAPS = {caps.name_column(name): caps.label_cap(name) for name in caps.COUNTED}
# Fewer seconds than this make no distribution, and of the slowest ones this many must be slower
# than a percentile.
FEWEST_SECONDS, FEWEST_SLOWER = 5, 10
# The first run of a comparison is quiet, so that the second stands out.
FIRST, SECOND = style.QUIET, style.MEASURED

# A run in a chart of several: label, frame, colour.
Labelled = tuple[str, pl.DataFrame, str]


def list_panels(unit: str) -> list[Panel]:
    """Returns the panels of a run over time. `unit`: what the benchmark counts, such as
    transactions."""
    return [
        (f"{unit} a second", [("tps", unit, style.MEASURED)]),
        ("p95 (ms)", [("p95_ms", "p95 of a second", style.MEASURED)]),
        ("IOPS", [("read_iops", "reads", style.MEASURED), ("write_iops", "writes", style.SECOND)]),
        ("MiB/s", [("read_mib_s", "read", style.MEASURED), ("write_mib_s", "written", style.SECOND)]),
        ("mean wait (ms)", [("read_wait_ms", "reads", style.MEASURED), ("write_wait_ms", "writes", style.SECOND)]),
        ("requests under way", [("queue", "queue", style.MEASURED)]),
        ("credit balance (%)", [("balance_percent", "balance", style.MEASURED)]),
    ]


def draw_time_line(series: pl.DataFrame, title: str, unit: str = "transactions") -> alt.VConcatChart:
    """Draws throughput, latency, the disks, balance and limits on one time axis; the warm-up is
    shaded."""
    axis = TimeAxis(None, float(series["t_s"][-1] + series["duration_s"][-1]))
    frame = axis.add(thin_rows(series, pl.col("phase").first()))
    panels = with_figures(list_panels(unit), frame)
    # An instance without limits holds nothing back: of its limits only those that were reached are
    # shown.
    strip = [
        name
        for name in CAPS
        if has_figures(frame, name) and (name.startswith("cap_volume") or find_ends(frame, name)[1] > 0)
    ]
    height = 84 if len(panels) > 4 else style.PANEL_HEIGHT
    warm = frame.filter(pl.col("phase") == "warmup")
    span = warm.select(pl.col("at").first(), pl.col("until").last())
    shaded = span if warm.height else None
    drawn: list = draw_panels(
        frame, axis, panels, height, _make_balance_axis(frame), shaded=shaded, colour=style.QUIET, last=not strip
    )
    if strip:
        drawn.append(_draw_limits(frame, axis, strip))
    warmup_s = warm["duration_s"].sum()
    return stack_panels(drawn, title, f"Shaded: {warmup_s:,.0f} s of warm-up, which do not count." if warmup_s else "")


def _make_balance_axis(frame: pl.DataFrame) -> dict[str, Callable[[str], alt.Y]]:
    """Returns the axis of the balance, by the title of its panel: 0 to 100 %; empty for a volume
    that has at most 10 %, whose panel then ends at its highest balance."""
    title = "credit balance (%)"
    nearly_empty = not has_figures(frame, "balance_percent") or find_ends(frame, "balance_percent")[1] <= 10
    return {} if nearly_empty else {title: make_linear_axes(title, 0, 100)}


def _draw_limits(frame: pl.DataFrame, axis: TimeAxis, names: list[str]) -> alt.Chart:
    """Draws a strip for each limit: the darker, the longer requests waited for it in that
    second."""
    labels = [pl.lit(CAPS[name]).alias("cap") for name in names]
    shares = [pl.col(name).fill_null(0.0).alias("share") for name in names]
    rows = pl.concat([frame.select("at", "until", share, cap) for share, cap in zip(shares, labels, strict=True)])
    scale = alt.Scale(domain=[0, 1], range=["#f3f4f6", style.WARN], interpolate="rgb")
    title = "share of the time in which requests waited for it"
    legend = alt.Legend(title=title, orient="bottom", format=".0%", tickCount=3, gradientLength=180, titleLimit=400)
    y = alt.Y("cap:N", sort=[CAPS[name] for name in names], axis=alt.Axis(title="limited by", ticks=False))
    strip = (
        alt.Chart(rows)
        .mark_rect()
        .encode(x=axis.make_axis(True), x2="until:T", y=y, color=alt.Color("share:Q", scale=scale, legend=legend))
    )
    return strip.properties(width=style.WIDTH, height=STRIP_HEIGHT * len(names))


def _make_colours(parts: list[Labelled]) -> alt.Color:
    """Returns the colours of runs, with a legend where there are several."""
    return make_colour("run", {label: shade for label, _, shade in parts}, "bottom" if len(parts) > 1 else None)


def draw_spread(parts: list[Labelled], unit: str = "transactions") -> Drawing | None:
    """Draws how often each throughput of a second occurred after the warm-up. None where a run has
    few seconds, or they are all alike."""
    frames = []
    for label, series, _ in parts:
        measured = series.filter(pl.col("phase") == "measure").select("tps").drop_nulls()
        frames.append(measured.with_columns(pl.lit(label).alias("run")))
    if any(frame.height < FEWEST_SECONDS or frame["tps"].min() == frame["tps"].max() for frame in frames):
        return None
    values, colour = pl.concat(frames), _make_colours(parts)
    means = values.group_by("run", maintain_order=True).agg(pl.col("tps").mean().alias("mean"))
    marks = alt.Chart(means.with_columns(pl.format("mean {}", pl.col("mean").round(0).cast(pl.Int64)).alias("text")))
    layers = [
        draw_density(values, "run", colour, f"{unit} in one second"),
        marks.mark_rule(strokeDash=[4, 3], strokeWidth=1.6).encode(x="mean:Q", color=colour),
    ]
    if len(parts) == 1:
        layers.append(
            marks.mark_text(align="left", dx=4, baseline="top").encode(x="mean:Q", y=alt.value(2), text="text:N")
        )
    drawn = alt.layer(*layers).properties(width=style.WIDTH, height=DENSITY_HEIGHT)
    return style.configure_chart(drawn.properties(title="Seconds at each throughput"))


def draw_percentiles(parts: list[Labelled]) -> Drawing | None:
    """Draws latency over the percentile, up to where ten transactions are slower. Frames:
    `value_ms`, `count`, `share`."""
    frames, share = [], pl.col("share")
    for label, histogram, _ in parts:
        slower = (1 - share) * histogram["count"].sum()
        frame = histogram.filter((share < 1.0) & (share >= 0.5) & (slower >= FEWEST_SLOWER))
        nines = (1.0 / (1.0 - share)).clip(upper_bound=MOST_NINES).alias("nines")
        frames.append(frame.select("value_ms", nines, pl.lit(label).alias("run")))
    rows = pl.concat(frames) if frames else pl.DataFrame()
    if rows.height < 2:
        return None
    y = make_quantity_axis(alt.Y, rows, "value_ms", "latency (ms)", zero=True, far=FAR_APART, ticks=6)
    line = alt.Chart(rows).mark_line(strokeWidth=1.8, interpolate="step-after")
    drawn = line.encode(
        x=make_percentile_axis("percentile of the transactions after the warm-up"), y=y, color=_make_colours(parts)
    )
    return style.configure_chart(
        alt.layer(drawn).properties(width=style.WIDTH, height=220, title="Latency percentiles")
    )


def draw_over_each_other(parts: list[Labelled], column: str, y_title: str) -> Drawing | None:
    """Draws a figure of several runs over time, from the end of each one's warm-up. None where a
    run does not have it."""
    if not all(has_figures(series, column) for _, series, _ in parts):
        return None
    frames = []
    for label, series, _ in parts:
        part = series.filter(pl.col("phase") == "measure")
        if not part.height:
            return None
        frames.append((label, thin_rows(part.with_columns(pl.col("t_s") - part["t_s"][0]))))
    axis = TimeAxis(None, max(float(frame["t_s"][-1]) + 1.0 for _, frame in frames))
    rows = pl.concat([axis.add(frame).select("at", column, pl.lit(label).alias("run")) for label, frame in frames])
    y = make_quantity_axis(alt.Y, rows, column, y_title, zero=True, far=float("inf"), ticks=5)
    line = alt.Chart(rows).mark_line(strokeWidth=1.4).encode(x=axis.make_axis(True), y=y, color=_make_colours(parts))
    return style.configure_chart(
        alt.layer(line.properties(width=style.WIDTH, height=180)).properties(title=f"{y_title} after the warm-up")
    )


def draw_intervals(differences: Sequence[Difference]) -> Drawing | None:
    """Draws changes with their intervals, in percent; a change without an interval is left out."""
    rows = [
        {
            "figure": difference.words,
            "change": difference.change_percent,
            "low": difference.low_percent,
            "high": difference.high_percent,
            "seen": "differs" if difference.verdict in ("higher", "lower") else "may be the same",
        }
        for difference in differences
        if difference.low_percent is not None and difference.change_percent is not None
    ]
    if not rows:
        return None
    axis = alt.Axis(title="change of the second against the first (%), 95 % interval")
    colour = make_colour("seen", {"differs": SECOND, "may be the same": FIRST})
    base = alt.Chart(pl.DataFrame(rows)).encode(y=alt.Y("figure:N", sort=None, axis=alt.Axis(title=None)), color=colour)
    zero = alt.Chart(pl.DataFrame({"zero": [0.0]})).mark_rule(color=style.INK).encode(x=alt.X("zero:Q", axis=axis))
    bars = base.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", axis=axis), x2="high:Q")
    points = base.mark_point(filled=True, size=60, opacity=1).encode(x="change:Q")
    return style.configure_chart(
        alt.layer(zero, bars, points).properties(width=style.WIDTH - 200, height=24 * len(rows))
    )
