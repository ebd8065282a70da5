"""Charts of studies: published, simulated and measured, always in the same three colours.

Several series of one role are told apart by the shape of their points and the dashes of their lines, never by another colour.
"""

from __future__ import annotations

import altair as alt
import polars as pl

from headrace.report import mysql_charts, style
from headrace.report.charts import SHORT, decades
from headrace.report.words import number

FEW_POINTS = 24  # up to here every point of a line is marked


def study(chart_data) -> alt.LayerChart:
    """A chart of a study. `chart_data`: `title`, `kind` (line, bar, quantiles, scatter, ridge, curves), `x_title`,
    `y_title`, `series` with `label`, `role`, `x`, `y`; kind panels: `panels`, charts of lines on one x axis."""
    if chart_data.kind == "panels":
        return _panels(chart_data)
    rows = [
        {"series": series.label, "role": series.role, "x": x, "y": float(y)}
        for series in chart_data.series
        for x, y in zip(series.x, series.y, strict=True)
        if y is not None
    ]
    named = chart_data.kind == "bar" or any(isinstance(row["x"], str) for row in rows)
    for row in rows:
        row["x"] = _name(row["x"]) if named else float(row["x"])
    frame = pl.DataFrame(rows)
    draw = {"line": _line, "bar": _bar, "quantiles": _quantiles, "scatter": _scatter, "ridge": _ridge, "curves": _curves}[chart_data.kind]
    return style.configured(draw(frame, chart_data, named).properties(title=chart_data.title))


PANEL_STEP = 120


def _panels(chart_data) -> alt.VConcatChart:
    """Lines in panels above each other: one time axis for all, titled at the lowest."""
    drawn = []
    for index, panel in enumerate(chart_data.panels):
        last = index == len(chart_data.panels) - 1
        frame = pl.DataFrame(
            [
                {"series": series.label, "role": series.role, "x": float(x), "y": float(y)}
                for series in panel.series
                for x, y in zip(series.x, series.y, strict=True)
                if y is not None
            ]
        )
        roles = list(style.ROLE_COLOURS)
        legend = alt.Legend(title=None, orient="top") if index == 0 else None
        colour = alt.Color("role:N", scale=alt.Scale(domain=roles, range=[style.ROLE_COLOURS[role] for role in roles]), legend=legend)
        x = alt.X(
            "x:Q",
            scale=alt.Scale(nice=False, zero=False),
            axis=alt.Axis(title=chart_data.x_title if last else None, labels=last, tickCount=10),
        )
        y = alt.Y("y:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title=panel.y_title, labelExpr=SHORT, tickCount=4, minExtent=44))
        # Published lies broad and pale below, so that a line on it can still be seen.
        below, above = frame.filter(pl.col("role") == "published"), frame.filter(pl.col("role") != "published")
        layers = [alt.Chart(below).mark_line(strokeWidth=5, opacity=0.5)] if below.height else []
        layers.append(alt.Chart(above).mark_line(strokeWidth=1.5))
        lines = [layer.encode(x=x, y=y, color=colour, detail="series:N") for layer in layers]
        drawn.append(alt.layer(*lines).properties(width=style.WIDTH, height=PANEL_STEP, title=panel.title))
    stacked = alt.vconcat(*drawn, spacing=14).resolve_scale(x="shared", color="shared")
    return style.configured(stacked.properties(title=alt.TitleParams(chart_data.title, offset=10)))


def _name(x: object) -> str:
    return x if isinstance(x, str) else f"{x:g}"


def _colour(frame: pl.DataFrame) -> alt.Color:
    roles = [role for role in style.ROLE_COLOURS if role in set(frame["role"])]
    scale = alt.Scale(domain=roles, range=[style.ROLE_COLOURS[role] for role in roles])
    return alt.Color("role:N", scale=scale, legend=alt.Legend(title=None, orient="top"))


def _several(frame: pl.DataFrame) -> bool:
    """Whether a colour alone does not tell the series apart."""
    return frame["series"].n_unique() > frame["role"].n_unique()


def _marks(frame: pl.DataFrame, line: bool) -> dict:
    """How series of one role are told apart, with a legend below that shows both shape and dash."""
    if not _several(frame):
        return {}
    legend = alt.Legend(title=None, orient="bottom", columns=2, labelLimit=360, symbolStrokeColor=style.QUIET, symbolFillColor=style.QUIET)
    order = frame["series"].unique(maintain_order=True).to_list()
    channel = alt.StrokeDash if line else alt.Shape
    return {"strokeDash" if line else "shape": channel("series:N", sort=order, scale=alt.Scale(domain=order), legend=legend)}


def _spread(frame: pl.DataFrame, column: str) -> bool:
    low, high = frame[column].min(), frame[column].max()
    return low > 0 and high > 30 * low


def _quantity(channel, frame: pl.DataFrame, column: str, title: str, zero: bool):
    """An axis of numbers: with powers of ten where the values are far apart, from zero where that is asked."""
    if _spread(frame, column):
        low, high = frame[column].min(), frame[column].max()
        axis = alt.Axis(title=title, labelExpr=SHORT, values=decades(low, high))
        return channel(f"{column}:Q", scale=alt.Scale(type="log", nice=False, padding=6), axis=axis)
    return channel(f"{column}:Q", scale=alt.Scale(zero=zero, nice=zero), axis=alt.Axis(title=title, labelExpr=SHORT, tickCount=7))


def _line(frame: pl.DataFrame, chart_data, named: bool) -> alt.LayerChart:
    axis = alt.Axis(title=chart_data.x_title, labelAngle=0)
    x = alt.X("x:N", sort=None, axis=axis) if named else _quantity(alt.X, frame, "x", chart_data.x_title, False)
    base = alt.Chart(frame).encode(x=x, y=_quantity(alt.Y, frame, "y", chart_data.y_title, True), color=_colour(frame), detail="series:N")
    few = frame.group_by("series").len()["len"].max() <= FEW_POINTS
    # Published lies broad and pale, so that a simulated line on it can still be seen.
    width = {
        "strokeWidth": alt.condition("datum.role == 'published'", alt.value(4.5), alt.value(1.7)),
        "strokeOpacity": alt.condition("datum.role == 'published'", alt.value(0.5), alt.value(1.0)),
    }
    lines = base.mark_line().encode(**width, **({} if few else _marks(frame, True)))
    layers = [lines, base.mark_point(filled=True, size=60).encode(**_marks(frame, False))] if few else [lines]
    return alt.layer(*layers).properties(width=style.WIDTH, height=260)


def _bar(frame: pl.DataFrame, chart_data, named: bool) -> alt.LayerChart:
    text = pl.col("y").map_elements(number, return_dtype=pl.String)
    told = pl.concat_str([text, pl.col("series")], separator="  ") if _several(frame) else text
    order = frame["series"].unique(maintain_order=True).to_list()
    base = alt.Chart(frame.with_columns(told.alias("text"))).encode(
        y=alt.Y("x:N", sort=None, axis=alt.Axis(title=chart_data.x_title)),
        x=alt.X("y:Q", axis=alt.Axis(title=chart_data.y_title, labelExpr=SHORT, tickCount=6)),
        yOffset=alt.YOffset("series:N", sort=order),
    )
    labels = base.mark_text(align="left", dx=3, fontSize=10).encode(text="text:N")
    return alt.layer(base.mark_bar().encode(color=_colour(frame)), labels).properties(width=style.WIDTH - 160, height=alt.Step(15))


def _quantiles(frame: pl.DataFrame, chart_data, named: bool) -> alt.LayerChart:
    # 1 / (1 - q) on a log axis: p90, p99 and p99.9 stand equally far apart, and the tail can be seen.
    nines = frame.with_columns((1.0 / (1.0 - pl.col("x").clip(upper_bound=0.99999))).round(3).alias("nines"))
    ticks = {2: "p50", 10: "p90", 20: "p95", 100: "p99", 1_000: "p99.9", 10_000: "p99.99", 100_000: "p99.999"}
    words = ", ".join(f"'{value}': '{label}'" for value, label in ticks.items())
    axis = alt.Axis(title=chart_data.x_title, values=list(ticks), labelExpr=f"{{{words}}}[format(datum.value, 'd')]")
    base = alt.Chart(nines).encode(
        x=alt.X("nines:Q", scale=alt.Scale(type="log", nice=False, padding=10), axis=axis),
        y=_quantity(alt.Y, nines, "y", chart_data.y_title, True), color=_colour(frame), detail="series:N",
    )  # fmt: skip
    points = base.mark_point(filled=True, size=55).encode(**_marks(frame, False))
    return alt.layer(base.mark_line(strokeWidth=1.6), points).properties(width=style.WIDTH, height=280)


def _scatter(frame: pl.DataFrame, chart_data, named: bool) -> alt.Chart:
    x = (
        alt.X("x:N", sort=None, axis=alt.Axis(title=chart_data.x_title))
        if named
        else _quantity(alt.X, frame, "x", chart_data.x_title, False)
    )
    base = alt.Chart(frame).encode(
        x=x, y=_quantity(alt.Y, frame, "y", chart_data.y_title, True), color=_colour(frame), **_marks(frame, False)
    )
    return base.mark_point(size=55, opacity=0.9).properties(width=style.WIDTH, height=300)


def _ridge(frame: pl.DataFrame, chart_data, named: bool) -> alt.LayerChart:
    return mysql_charts.ridge(frame, chart_data, _colour(frame))


def _curves(frame: pl.DataFrame, chart_data, named: bool) -> alt.LayerChart:
    return mysql_charts.curves(frame, chart_data, _colour(frame))
