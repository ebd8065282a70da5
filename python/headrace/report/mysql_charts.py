"""Charts of the MySQL studies: densities of one-second tps in rows, and curves that carry their names at their ends.

Colours are those of every study chart: published, simulated, measured. What shares a colour is told apart by its name beside it.
"""

from __future__ import annotations

import altair as alt
import polars as pl

from headrace.report import style
from headrace.report.charts import SHORT

# A row's density may reach this many rows up: ridges overlap a little, and their shapes can still be told.
RIDGE_ROWS = 1.6
RIDGE_STEP = 34
CURVE_HEIGHT = 300
# Names at the ends of curves stand at least this far apart, in shares of the height.
NAME_GAP = 0.05


def ridge(frame: pl.DataFrame, chart_data, colour: alt.Color) -> alt.LayerChart:
    """Densities of one role, one row for each `series`, the first at the bottom; rows of height 0 are marks (published percentiles)."""
    labels = frame["series"].unique(maintain_order=True).to_list()
    row_of = {label: float(i) for i, label in enumerate(labels)}
    placed = frame.with_columns(pl.col("series").replace_strict(row_of, return_dtype=pl.Float64).alias("row"))
    marks = placed.filter(pl.col("role") == "published")
    areas = placed.filter(pl.col("role") != "published").with_columns((pl.col("row") + RIDGE_ROWS * pl.col("y")).alias("top"))
    words = " : ".join(f"datum.value == {i} ? '{label}'" for i, label in enumerate(labels)) + " : ''"
    axis = alt.Axis(title=chart_data.y_title, values=list(range(len(labels))), labelExpr=words, grid=False, ticks=False)
    y = alt.Y("row:Q", axis=axis, scale=alt.Scale(domain=[0, len(labels) - 1 + RIDGE_ROWS], nice=False))
    x = alt.X("x:Q", axis=alt.Axis(title=chart_data.x_title, labelExpr=SHORT, tickCount=9), scale=alt.Scale(zero=False, nice=False))
    layers = []
    # The lowest row is in front, so it is drawn last.
    for label in reversed(labels):
        part = alt.Chart(areas.filter(pl.col("series") == label)).encode(x=x, y=y, color=colour)
        layers += [
            part.mark_area(opacity=0.55).encode(y2="top:Q"),
            part.mark_line(strokeWidth=1.2).encode(y=alt.Y("top:Q", axis=axis, title=chart_data.y_title)),
        ]
    if marks.height:
        layers.append(alt.Chart(marks).mark_tick(orient="vertical", thickness=3, size=20, yOffset=-8).encode(x=x, y=y, color=colour))
    return alt.layer(*layers).properties(width=style.WIDTH - 90, height=RIDGE_STEP * (len(labels) + 1))


def curves(frame: pl.DataFrame, chart_data, colour: alt.Color) -> alt.LayerChart:
    """A line for each simulated series with its name at its end; published ones as points in their own colour."""
    x = alt.X("x:Q", axis=alt.Axis(title=chart_data.x_title, labelExpr=SHORT, tickCount=8), scale=alt.Scale(zero=False, nice=False))
    y = alt.Y("y:Q", axis=alt.Axis(title=chart_data.y_title, labelExpr=SHORT, tickCount=7), scale=alt.Scale(zero=True, nice=True))
    lines = frame.filter(pl.col("role") != "published")
    points = frame.filter(pl.col("role") == "published")
    layers = [alt.Chart(lines).mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour, detail="series:N")]
    if points.height:
        shapes = alt.Shape(
            "series:N", legend=alt.Legend(title=None, orient="bottom", columns=2, labelLimit=360, symbolFillColor=style.PUBLISHED)
        )
        layers.append(alt.Chart(points).mark_point(filled=True, size=75).encode(x=x, y=y, color=colour, shape=shapes))
    names = _names(lines, frame["y"].max())
    layers.append(
        alt.Chart(names)
        .mark_text(align="left", dx=6, fontSize=10, clip=False)
        .encode(x=x, y=alt.Y("at:Q", title=chart_data.y_title), text="name:N", color=colour)
    )
    return alt.layer(*layers).properties(width=style.WIDTH - 150, height=CURVE_HEIGHT)


def _names(lines: pl.DataFrame, top: float) -> pl.DataFrame:
    """Where each name stands: at the end of its curve, moved up where another is too near."""
    ends = lines.group_by("series", maintain_order=True).agg(
        pl.col("role").first(), pl.col("x").sort_by("x").last(), pl.col("y").sort_by("x").last()
    )
    beside = lines["x"].max() - 0.2 * (lines["x"].max() - lines["x"].min())
    rows: list[dict] = []
    lowest = float("-inf")
    for row in ends.sort("y").iter_rows(named=True):
        at = row["y"]
        # Only names at the right edge stand in one column.
        if row["x"] >= beside:
            at = max(at, lowest)
            lowest = at + NAME_GAP * top
        rows.append({"name": row["series"].removesuffix(", simulated"), "role": row["role"], "x": row["x"], "at": at})
    return pl.DataFrame(rows)
