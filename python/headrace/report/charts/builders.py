"""Building blocks of charts: axes of time, quantities and percentiles, step lines, shades,
densities, colours with a legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeVar

import altair as alt
import polars as pl

from headrace.base.units import DAY_S
from headrace.report.charts import style
from headrace.report.words import parse_clock_start

# Rows of a chart at most: nearly one for each of its 760 pixels; more would only make the file
# larger.
MOST_POINTS = 720
# Each tick by itself (k, M); the built-in axis format would write 0 as "0k".
SHORT = "abs(datum.value) < 1 ? format(datum.value, '~g') : format(datum.value, '~s')"
# Top of an axis as a multiple of the highest value (chosen by eye): a line at a limit must not lie
# on the frame.
ABOVE = 1.06
PERCENT = [0, 100 * ABOVE]
# From this ratio of the highest to the lowest value on, an axis has powers of ten (chosen by eye).
FAR_APART = 30
DAY_ONE = datetime(2000, 1, 1)  # of runs without a date; the day itself is never shown
CLOCK_ONLY = len("HH:MM:SS")  # a start that is longer has a date
# A percentile axis shows 1 / (1 - q), so that p90, p99 and p99.9 stand equally far apart.
NINES = {2: "p50", 10: "p90", 20: "p95", 100: "p99", 1_000: "p99.9", 10_000: "p99.99", 100_000: "p99.999"}
MOST_NINES = float(max(NINES))
alt.data_transformers.disable_max_rows()

# Types of altair's layers: with a property set, altair declares no narrower type.
Drawing = alt.LayerChart | alt.FacetChart
Channel = TypeVar("Channel", alt.X, alt.Y)
Orient = Literal["top", "bottom", "right"]  # of a legend
# A column, its label and its colour.
Part = tuple[str, str, str]
# A panel of a time line: its title, and the columns that it shows.
Panel = tuple[str, Sequence[Part]]


class TimeAxis:
    """The axis of time of a run: dates and clock times if the run has a date, clock times of its
    days if it has a time of day alone, else the time since its start."""

    def __init__(self, clock_start: object, span_s: float) -> None:
        """Chooses the start, format and title of the axis. `clock_start`: date and time, or time of
        day, at the start of the run (None: not known); `span_s`: its length."""
        clock_time = parse_clock_start(clock_start)
        dated = clock_time is not None and len(str(clock_start)) > CLOCK_ONLY
        self.start = clock_time or DAY_ONE
        is_short = span_s <= 600
        is_long = span_s > (1.5 * DAY_S if clock_time else DAY_S)
        self.format, self.words = "%H:%M:%S" if is_short else "%H:%M", None
        unit = "h:min:s" if is_short else "h:min"
        self.title = f"time of day ({unit})" if clock_time else f"time since the start ({unit})"
        if is_short and not clock_time:
            self.format, self.title = "%M:%S", "time since the start (min:s)"
        elif is_long and dated:
            self.format, self.title = "%-d %b %H:%M", "day and time (h:min)"
        elif is_long:
            days = f"floor((toNumber(datum.value) - utc({DAY_ONE.year}, 0, 1)) / {1_000 * DAY_S})"
            day_words = f"'day ' + ({days} + 1) + ' '" if clock_time else f"{days} + ' d '"
            self.words = f"{day_words} + utcFormat(datum.value, '%H:%M')"
            self.title = "day and time of day (h:min)" if clock_time else "time since the start (days and h:min)"

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Returns the frame with `at` and `until`, start and end of each row as moments."""
        # Marked as UTC: without a zone, what draws the chart would take them for times of the
        # zone of the machine, and show them shifted.
        start = pl.lit(self.start).dt.replace_time_zone("UTC")
        at = start + pl.duration(milliseconds=(pl.col("t_s") * 1e3).round())
        until = start + pl.duration(milliseconds=((pl.col("t_s") + pl.col("duration_s")) * 1e3).round())
        return frame.with_columns(at.alias("at"), until.alias("until"))

    def make_axis(self, shown: bool) -> alt.X:
        """Returns the axis; panels above each other show it once, at the lowest."""
        title = self.title if shown else None
        axis = alt.Axis(title=title, tickCount=9, labels=shown, ticks=shown, labelOverlap=True, labelFlush=False)
        axis["format" if self.words is None else "labelExpr"] = self.words or self.format
        return alt.X("at:T", scale=alt.Scale(type="utc", nice=False), axis=axis)


def thin_rows(rows: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
    """Returns at most MOST_POINTS rows, each of as many consecutive ones: means of numbers, the sum
    of `duration_s`, and the aggregates `more`."""
    count = -(-rows.height // MOST_POINTS)
    times = ("t_s", "duration_s")
    numbers = [name for name, kind in rows.schema.items() if kind.is_numeric() and name not in times]
    summed = [pl.col("duration_s").sum()] if "duration_s" in rows.columns else []
    return rows.group_by(pl.int_range(rows.height) // max(1, count), maintain_order=True).agg(
        pl.col("t_s").first(), *summed, pl.col(numbers).mean(), *more
    )


def find_ends(frame: pl.DataFrame, column: str) -> tuple[float, float]:
    """Returns the lowest and the highest number of a column; 0 and 0 where it has none."""
    values = frame[column].drop_nulls().cast(pl.Float64)
    return (values.to_numpy().min().item(), values.to_numpy().max().item()) if values.len() else (0.0, 0.0)


def list_decades(low: float, high: float) -> list[float]:
    """Returns ticks 1, 2, 5, 10, ... around `low` to `high`, both above 0, for a log axis that can
    be read."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]


def make_quantity_axis(
    channel: type[Channel],
    frame: pl.DataFrame,
    column: str,
    title: str,
    *,
    zero: bool,
    far: float = FAR_APART,
    ticks: int = 7,
) -> Channel:
    """Returns an axis of numbers: logarithmic, with powers of ten, where the highest is more than
    `far` times the lowest; else from 0 with `zero`."""
    low, high = find_ends(frame, column)
    if low > 0 and high > far * low:
        axis = alt.Axis(title=title, labelExpr=SHORT, values=list_decades(low, high))
        return channel(f"{column}:Q", scale=alt.Scale(type="log", nice=False, padding=6), axis=axis)
    axis = alt.Axis(title=title, labelExpr=SHORT, tickCount=ticks)
    return channel(f"{column}:Q", scale=alt.Scale(zero=zero, nice=zero), axis=axis)


def make_percentile_axis(title: str) -> alt.X:
    """Returns the axis of a column `nines`, 1 / (1 - q), with the names of the percentiles."""
    words = ", ".join(f"'{value}': '{label}'" for value, label in NINES.items())
    axis = alt.Axis(title=title, values=list(NINES), labelExpr=f"{{{words}}}[format(datum.value, 'd')]")
    return alt.X("nines:Q", scale=alt.Scale(type="log", nice=False, padding=10), axis=axis)


def make_colour(
    field: str, colours: Mapping[str, str], orient: Orient | None = "bottom", title: str | None = None
) -> alt.Color:
    """Returns the colours of a column's names, with a legend below the chart (`orient`; None:
    without one)."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    legend = None if orient is None else alt.Legend(title=title, orient=orient)
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def make_role_colour(present: Sequence[str] | None = None, orient: Orient | None = "top") -> alt.Color:
    """Returns the colours of published, simulated and measured, of those that are `present`."""
    named = {role: hue for role, hue in style.ROLE_COLOURS.items() if present is None or role in present}
    return make_colour("role", named, orient)


def close_at_end(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the frame with a row at the end of its last interval, for a step line."""
    return pl.concat([frame, frame.tail(1).with_columns(pl.col("until").alias("at"))])


def make_linear_axes(title: str, low: float, high: float, ticks: int = 4) -> Callable[[str], alt.Y]:
    """Returns a function that returns the axis of a column: from `low` to `high`, with this
    title."""
    axis = alt.Axis(title=title, tickCount=ticks, labelExpr=SHORT)
    return lambda column: alt.Y(f"{column}:Q", scale=alt.Scale(domain=[low, high], nice=False), axis=axis)


def draw_lines(
    frame: pl.DataFrame,
    x: alt.X,
    title: str,
    parts: Sequence[Part],
    y: Callable[[str], alt.Y] | None = None,
    height: int = style.PANEL_HEIGHT,
) -> Drawing:
    """Draws step lines of several columns over time, each named at the top right in its own colour.
    `y`: the axis of a column, from 0 up if left out; a column has no line where it is null."""
    highest = max(find_ends(frame, column)[1] for column, _, _ in parts)
    y = y or make_linear_axes(title, 0, ABOVE * (highest or 1.0))
    drawn, layers = close_at_end(frame), []
    for column, _, colour in parts:
        line = alt.Chart(drawn.select("at", column))
        mark = line.mark_line(interpolate="step-after", color=colour, strokeWidth=1.5, clip=True)
        layers.append(mark.encode(x=x, y=y(column)))
    offset = 0
    for _, label, colour in reversed(parts):
        text = alt.Chart(pl.DataFrame({"label": [label]}))
        mark = text.mark_text(align="right", baseline="bottom", fontWeight="bold", color=colour)
        layers.append(mark.encode(text="label:N", x=alt.value(style.WIDTH - offset), y=alt.value(-4)))
        offset += 7 * len(label) + 14  # px; letters of the bold font are 7 wide at most
    return alt.layer(*layers).properties(width=style.WIDTH, height=height)


def shade(spans: pl.DataFrame, x: alt.X, height: int, colour: str = style.WARN, until: str = "until:T") -> alt.Chart:
    """Returns the layer that shades stretches of time, rows of `at` and `until`, behind a panel."""
    rect = alt.Chart(spans).mark_rect(color=colour, opacity=0.13)
    return rect.encode(x=x, x2=until, y=alt.value(0), y2=alt.value(height))


def has_figures(frame: pl.DataFrame, name: str) -> bool:
    """Returns True when a column has any figure."""
    return name in frame.columns and frame[name].drop_nulls().len() > 0


def with_figures(panels: Sequence[Panel], frame: pl.DataFrame) -> list[Panel]:
    """Returns the panels with the columns that have any figure; a panel without one is left out."""
    parted = [(title, [part for part in parts if has_figures(frame, part[0])]) for title, parts in panels]
    return [panel for panel in parted if panel[1]]


def draw_panels(
    frame: pl.DataFrame,
    time: TimeAxis,
    panels: Sequence[Panel],
    height: int,
    axes: Mapping[str, Callable[[str], alt.Y]] | None = None,
    *,
    shaded: pl.DataFrame | None = None,
    colour: str = style.WARN,
    last: bool = True,
) -> list[Drawing]:
    """Draws panels of `height` px that stand above each other, for `stack_panels`.

    `axes`: the axis of a column, by the panel's title, where it is not from 0 up. `shaded`: rows of
    `at` and `until`, stretches of time that are shaded behind all panels in `colour`. `last`: False
    where more is drawn below, so that no panel shows the time.
    """
    drawn: list[Drawing] = []
    for index, (title, parts) in enumerate(panels):
        x = time.make_axis(last and index == len(panels) - 1)
        panel = draw_lines(frame, x, title, parts, (axes or {}).get(title), height)
        if shaded is not None and shaded.height:
            panel = alt.layer(shade(shaded, x, height, colour), panel)
        drawn.append(panel)
    return drawn


def stack_panels(panels: Sequence, title: str, subtitle: str = "", spacing: int = 26) -> alt.VConcatChart:
    """Returns the chart of panels above each other on one axis of time."""
    above = alt.vconcat(*panels, spacing=spacing).resolve_scale(x="shared")
    return style.configure_chart(above.properties(title=alt.TitleParams(title, subtitle=subtitle, offset=16)))


def draw_density(values: pl.DataFrame, by: str, colour: alt.Color, title: str) -> alt.Chart:
    """Draws how often each value of `tps` occurs, an area for each name in the column `by`."""
    low, high = find_ends(values, "tps")
    room = 0.1 * (high - low)
    x_axis = alt.Axis(title=title, labelExpr=SHORT, tickCount=9)
    y_axis = alt.Axis(title="density (share per unit)", tickCount=4)
    extent = [max(0.0, low - room), high + room]
    return (
        alt.Chart(values)
        .transform_density("tps", groupby=[by], as_=["tps", "density"], extent=extent, steps=200)
        .mark_area(opacity=0.5)
        .encode(
            x=alt.X("tps:Q", axis=x_axis, scale=alt.Scale(zero=False, nice=False)),
            y=alt.Y("density:Q", stack=None, axis=y_axis),
            color=colour,
        )
    )
