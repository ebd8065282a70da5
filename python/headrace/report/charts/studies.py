"""Charts of studies: published, simulated and measured, always in the same three colours.

Several series of one role are told apart by the shape of their points, the dashes of their lines or
the names at their ends, never by another colour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from headrace.report.charts import style
from headrace.report.charts.builders import (
    SHORT,
    Drawing,
    find_ends,
    make_percentile_axis,
    make_quantity_axis,
    make_role_colour,
)
from headrace.report.words import format_number

if TYPE_CHECKING:
    from headrace.studies.base import ChartData

FEW_POINTS = 24  # up to here every point of a line is marked
PANEL_STEP = 120  # px
# A row's density may reach this many rows up: ridges overlap a little, and their shapes can still
# be told apart.
RIDGE_ROWS, RIDGE_STEP = 1.6, 34
# Names at the ends of curves stand at least this far apart, in shares of the height.
NAME_GAP = 0.05
LEAST_LEFT_OVER = 1e-5  # of a percentile: what lies above p99.999 is drawn there
LEGEND = {"title": None, "orient": "bottom", "columns": 2, "labelLimit": 360}


def draw_study(chart_data: ChartData) -> alt.TopLevelMixin:
    """Returns a chart of a study. `chart_data`: `title`, `kind` (line, bar, quantiles, scatter,
    ridge, curves), `x_title`, `y_title`, `series` with `label`, `role`, `x`, `y`; kind panels:
    `panels`, charts of lines on one x axis."""
    if chart_data.kind == "panels":
        return _draw_panels(chart_data)
    rows = _list_rows(chart_data.series)
    named = chart_data.kind == "bar" or any(isinstance(row["x"], str) for row in rows)
    for row in rows:
        row["x"] = float(row["x"]) if not named else row["x"] if isinstance(row["x"], str) else f"{row['x']:g}"
    return style.configure_chart(
        KINDS[chart_data.kind](pl.DataFrame(rows), chart_data, named).properties(title=chart_data.title)
    )


def _list_rows(series: Iterable) -> list[dict]:
    """Returns a row for each point of the curves; points without a value are left out."""
    return [
        {"series": curve.label, "role": curve.role, "x": x, "y": float(y)}
        for curve in series
        for x, y in zip(curve.x, curve.y, strict=True)
        if y is not None
    ]


def _draw_panels(chart_data: ChartData) -> alt.VConcatChart:
    """Draws lines in panels above each other: one time axis for all, titled at the lowest."""
    drawn = []
    for index, panel in enumerate(chart_data.panels):
        last = index == len(chart_data.panels) - 1
        frame = pl.DataFrame(_list_rows(panel.series)).with_columns(pl.col("x").cast(pl.Float64))
        axis = alt.Axis(title=chart_data.x_title if last else None, labels=last, tickCount=10)
        x = alt.X("x:Q", scale=alt.Scale(nice=False, zero=False), axis=axis)
        y_axis = alt.Axis(title=panel.y_title, labelExpr=SHORT, tickCount=4, minExtent=44)
        y = alt.Y("y:Q", scale=alt.Scale(zero=True), axis=y_axis)
        # Published lies broad and pale below, so that a line on it can still be seen.
        below, above = frame.filter(pl.col("role") == "published"), frame.filter(pl.col("role") != "published")
        layers = [alt.Chart(below).mark_line(strokeWidth=5, opacity=0.5)] if below.height else []
        layers.append(alt.Chart(above).mark_line(strokeWidth=1.5))
        colour = make_role_colour(orient="top" if index == 0 else None)
        encoded = [layer.encode(x=x, y=y, color=colour, detail="series:N") for layer in layers]
        drawn.append(alt.layer(*encoded).properties(width=style.WIDTH, height=PANEL_STEP, title=panel.title))
    above_each_other = alt.vconcat(*drawn, spacing=14).resolve_scale(x="shared", color="shared")
    return style.configure_chart(above_each_other.properties(title=alt.TitleParams(chart_data.title, offset=10)))


def _make_colour(frame: pl.DataFrame) -> alt.Color:
    return make_role_colour(frame["role"].unique().to_list())


def _needs_marks(frame: pl.DataFrame) -> bool:
    """Returns whether several series have the same role, and so the same colour."""
    return frame["series"].n_unique() > frame["role"].n_unique()


def _choose_marks(frame: pl.DataFrame, line: bool = False) -> dict:
    """Returns the encoding of series by shape, or by dashes of a `line`, with a legend below; empty
    where colours tell them apart."""
    if not _needs_marks(frame):
        return {}
    legend = alt.Legend(**LEGEND, symbolStrokeColor=style.QUIET, symbolFillColor=style.QUIET)
    order = frame["series"].unique(maintain_order=True).to_list()
    channel = alt.StrokeDash if line else alt.Shape
    return {
        "strokeDash" if line else "shape": channel("series:N", sort=order, scale=alt.Scale(domain=order), legend=legend)
    }


def _make_x_axis(frame: pl.DataFrame, chart_data: ChartData, named: bool, level: bool = False) -> alt.X:
    """Returns the horizontal axis: of names, level or upright, or of numbers."""
    if named:
        axis = alt.Axis(title=chart_data.x_title, labelAngle=0 if level else alt.Undefined)
        return alt.X("x:N", sort=None, axis=axis)
    return make_quantity_axis(alt.X, frame, "x", chart_data.x_title, zero=False)


def _draw_lines(frame: pl.DataFrame, chart_data: ChartData, named: bool) -> Drawing:
    """Draws the curves as lines, with points where each has few of them."""
    x = _make_x_axis(frame, chart_data, named, level=True)
    y = make_quantity_axis(alt.Y, frame, "y", chart_data.y_title, zero=True)
    base = alt.Chart(frame).encode(x=x, y=y, color=_make_colour(frame), detail="series:N")
    few = all(count <= FEW_POINTS for count in frame.group_by("series").len()["len"])
    # Published lies broad and pale, so that a simulated line on it can still be seen.
    published = "datum.role == 'published'"
    width = {
        "strokeWidth": alt.condition(published, alt.value(4.5), alt.value(1.7)),
        "strokeOpacity": alt.condition(published, alt.value(0.5), alt.value(1.0)),
    }
    drawn = base.mark_line().encode(**width, **({} if few else _choose_marks(frame, line=True)))
    layers = [drawn, base.mark_point(filled=True, size=60).encode(**_choose_marks(frame))] if few else [drawn]
    return alt.layer(*layers).properties(width=style.WIDTH, height=260)


def _draw_bars(frame: pl.DataFrame, chart_data: ChartData, named: bool) -> Drawing:
    """Draws horizontal bars, each labelled with its value, and with its curve if there are
    several."""
    text = pl.col("y").map_elements(format_number, return_dtype=pl.String)
    label = pl.concat_str([text, pl.col("series")], separator="  ") if _needs_marks(frame) else text
    order = frame["series"].unique(maintain_order=True).to_list()
    base = alt.Chart(frame.with_columns(label.alias("text"))).encode(
        y=alt.Y("x:N", sort=None, axis=alt.Axis(title=chart_data.x_title)),
        x=alt.X("y:Q", axis=alt.Axis(title=chart_data.y_title, labelExpr=SHORT, tickCount=6)),
        yOffset=alt.YOffset("series:N", sort=order),
    )
    labels = base.mark_text(align="left", dx=3, fontSize=10).encode(text="text:N")
    bars = base.mark_bar().encode(color=_make_colour(frame))
    return alt.layer(bars, labels).properties(width=style.WIDTH - 160, height=alt.Step(15))


def _draw_quantiles(frame: pl.DataFrame, chart_data: ChartData, named: bool) -> Drawing:
    """Draws percentiles: `x` is a share 0 to 1, on an axis that gives each further nine the same
    room."""
    left_over = (1.0 - pl.col("x")).clip(lower_bound=LEAST_LEFT_OVER)
    nines = frame.with_columns((1.0 / left_over).round(3).alias("nines"))
    y = make_quantity_axis(alt.Y, nines, "y", chart_data.y_title, zero=True)
    x = make_percentile_axis(chart_data.x_title)
    base = alt.Chart(nines).encode(x=x, y=y, color=_make_colour(frame), detail="series:N")
    points = base.mark_point(filled=True, size=55).encode(**_choose_marks(frame))
    return alt.layer(base.mark_line(strokeWidth=1.6), points).properties(width=style.WIDTH, height=280)


def _draw_scatter(frame: pl.DataFrame, chart_data: ChartData, named: bool) -> alt.Chart:
    x, y = _make_x_axis(frame, chart_data, named), make_quantity_axis(alt.Y, frame, "y", chart_data.y_title, zero=True)
    base = alt.Chart(frame).encode(x=x, y=y, color=_make_colour(frame), **_choose_marks(frame))
    return base.mark_point(size=55, opacity=0.9).properties(width=style.WIDTH, height=300)


def _draw_ridge(frame: pl.DataFrame, chart_data: ChartData, named: bool) -> Drawing:
    """Draws densities, one row for each series, the first at the bottom; published percentiles are
    marks on their rows."""
    labels = frame["series"].unique(maintain_order=True).to_list()
    row_of = {label: float(index) for index, label in enumerate(labels)}
    placed = frame.with_columns(pl.col("series").replace_strict(row_of, return_dtype=pl.Float64).alias("row"))
    marks = placed.filter(pl.col("role") == "published")
    areas = placed.filter(pl.col("role") != "published").with_columns(
        (pl.col("row") + RIDGE_ROWS * pl.col("y")).alias("top")
    )
    words = " : ".join(f"datum.value == {index} ? '{label}'" for index, label in enumerate(labels)) + " : ''"
    axis = alt.Axis(title=chart_data.y_title, values=list(range(len(labels))), labelExpr=words, grid=False, ticks=False)
    y = alt.Y("row:Q", axis=axis, scale=alt.Scale(domain=[0, len(labels) - 1 + RIDGE_ROWS], nice=False))
    x = make_quantity_axis(alt.X, frame, "x", chart_data.x_title, zero=False, far=float("inf"), ticks=9)
    layers, colour = [], _make_colour(frame)
    # The lowest row is in front, so it is drawn last.
    for label in reversed(labels):
        part = alt.Chart(areas.filter(pl.col("series") == label)).encode(x=x, y=y, color=colour)
        top = alt.Y("top:Q", axis=axis, title=chart_data.y_title)
        layers += [part.mark_area(opacity=0.55).encode(y2="top:Q"), part.mark_line(strokeWidth=1.2).encode(y=top)]
    if marks.height:
        ticks = alt.Chart(marks).mark_tick(orient="vertical", thickness=3, size=20, yOffset=-8)
        layers.append(ticks.encode(x=x, y=y, color=colour))
    return alt.layer(*layers).properties(width=style.WIDTH - 90, height=RIDGE_STEP * (len(labels) + 1))


def _draw_curves(frame: pl.DataFrame, chart_data: ChartData, named: bool) -> Drawing:
    """Draws a line for each simulated series with its name at its end, and published ones as
    points."""
    x = make_quantity_axis(alt.X, frame, "x", chart_data.x_title, zero=False, far=float("inf"), ticks=8)
    y = make_quantity_axis(alt.Y, frame, "y", chart_data.y_title, zero=True, far=float("inf"))
    colour = _make_colour(frame)
    drawn, points = frame.filter(pl.col("role") != "published"), frame.filter(pl.col("role") == "published")
    layers = [alt.Chart(drawn).mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour, detail="series:N")]
    if points.height:
        shapes = alt.Shape("series:N", legend=alt.Legend(**LEGEND, symbolFillColor=style.PUBLISHED))
        layers.append(alt.Chart(points).mark_point(filled=True, size=75).encode(x=x, y=y, color=colour, shape=shapes))
    names = alt.Chart(_place_names(drawn, find_ends(frame, "y")[1])).mark_text(
        align="left", dx=6, fontSize=10, clip=False
    )
    layers.append(names.encode(x=x, y=alt.Y("at:Q", title=chart_data.y_title), text="name:N", color=colour))
    return alt.layer(*layers).properties(width=style.WIDTH - 150, height=300)


def _place_names(drawn: pl.DataFrame, top: float) -> pl.DataFrame:
    """Returns the place of each name: the end of its curve, or above another that is near."""
    last = [pl.col(name).sort_by("x").last() for name in ("x", "y")]
    ends = drawn.group_by("series", maintain_order=True).agg(pl.col("role").first(), *last)
    # Only names at the right edge, its last fifth, stand in one column.
    low, high = find_ends(drawn, "x")
    edge = high - 0.2 * (high - low)
    rows: list[dict] = []
    lowest = float("-inf")
    for row in ends.sort("y").iter_rows(named=True):
        at = row["y"]
        if row["x"] >= edge:
            at = max(at, lowest)
            lowest = at + NAME_GAP * top
        rows.append({"name": row["series"].removesuffix(", simulated"), "role": row["role"], "x": row["x"], "at": at})
    return pl.DataFrame(rows)


KINDS: dict[str, Callable] = {
    "line": _draw_lines, "bar": _draw_bars, "quantiles": _draw_quantiles, "scatter": _draw_scatter, "ridge": _draw_ridge, "curves": _draw_curves,
}  # fmt: skip
