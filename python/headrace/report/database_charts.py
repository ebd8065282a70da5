"""Charts of a database on a storage: throughput over time, and a run beside its prediction."""

from __future__ import annotations

import altair as alt
import polars as pl

from headrace.report import style
from headrace.report.charts import SHORT, TimeAxis, lines

MOST_POINTS = 720
DENSITY_HEIGHT = 150


def prediction(run, title: str) -> alt.VConcatChart:
    """tps, IOPS and MiB/s, cache and balance over time."""
    frame = _thinned(run.rows)
    time = TimeAxis(None, float(run.rows.height))
    frame = time.add(frame.with_columns(pl.lit(1.0).alias("duration_s")))
    panels = [
        _band(frame, time.x(False), "tps", "transactions a second", style.SIMULATED),
        _line(frame, time.x(False), "p95_ms", "p95 (ms)"),
        _line(frame, time.x(False), "iops", "I/Os a second"),
        _line(frame, time.x(False), "mib_s", "MiB/s"),
        _shares(frame, time.x(True), has_balance=run.rows["balance_percent"].null_count() < run.rows.height),
    ]
    return style.configured(alt.vconcat(*panels, title=title, spacing=8))


def comparison(found) -> alt.VConcatChart:
    """tps measured and predicted, in rows of the run's length: over time, and how often each value occurs in the second half."""
    time = TimeAxis(None, found.run.span_s)
    parts = [("measured", found.run.series.select("t_s", "tps")), ("simulated", found.predicted_rows.select("t_s", "tps"))]
    frames = [time.add(_thinned(rows).with_columns(pl.lit(1.0).alias("duration_s"), pl.lit(name).alias("what"))) for name, rows in parts]
    over_time = alt.layer(
        *(
            _band(frame, time.x(True), "tps", "transactions a second", style.ROLE_COLOURS[name])
            for (name, _), frame in zip(parts, frames, strict=True)
        )
    )
    halves = pl.concat([rows[rows.height // 2 :].select("tps").with_columns(pl.lit(name).alias("what")) for name, rows in parts])
    density = (
        alt.Chart(halves)
        .transform_density("tps", groupby=["what"], as_=["tps", "density"])
        .mark_area(opacity=0.45)
        .encode(
            x=alt.X("tps:Q", title=f"tps over {max(1.0, found.run.interval_s):g} s, second half", axis=alt.Axis(labelExpr=SHORT)),
            y=alt.Y("density:Q", title="density (share per tps)", stack=None),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=["measured", "simulated"], range=[style.MEASURED, style.SIMULATED]),
                legend=alt.Legend(title=None, orient="bottom"),
            ),
        )
        .properties(width=style.WIDTH, height=DENSITY_HEIGHT)
    )
    return style.configured(
        alt.vconcat(
            over_time.properties(width=style.WIDTH, height=220), density, title=f"{found.run.name}: measured and simulated", spacing=14
        )
    )


def _thinned(rows: pl.DataFrame) -> pl.DataFrame:
    """Means over stretches, with the least and the most of tps in each."""
    each = max(1, -(-rows.height // MOST_POINTS))
    numbers = [name for name in rows.columns if rows[name].dtype.is_numeric() and name != "t_s"]
    return rows.group_by(pl.int_range(rows.height) // each, maintain_order=True).agg(
        pl.col("t_s").first(), pl.col(numbers).mean(), pl.col("tps").min().alias("least"), pl.col("tps").max().alias("most")
    )


def _band(frame: pl.DataFrame, x: alt.X, column: str, title: str, colour: str) -> alt.LayerChart:
    y = alt.Y(f"{column}:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(labelExpr=SHORT, tickCount=5))
    band = alt.Chart(frame).mark_area(color=colour, opacity=0.2).encode(x=x, y=alt.Y("least:Q", title=title), y2="most:Q")
    line = alt.Chart(frame).mark_line(color=colour, strokeWidth=1.2).encode(x=x, y=y)
    return alt.layer(band, line).properties(width=style.WIDTH, height=style.PANEL_HEIGHT)


def _line(frame: pl.DataFrame, x: alt.X, column: str, title: str) -> alt.Chart:
    y = alt.Y(f"{column}:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(labelExpr=SHORT, tickCount=4))
    return alt.Chart(frame).mark_line(color=style.SIMULATED, strokeWidth=1.2).encode(x=x, y=y).properties(width=style.WIDTH, height=80)


def _shares(frame: pl.DataFrame, x: alt.X, has_balance: bool) -> alt.LayerChart:
    drawn = frame.with_columns(pl.col("cached_share") * 100, pl.col("dirty_share") * 100)
    parts = [("cached_share", "cached", style.SIMULATED), ("dirty_share", "dirty", style.FAMILY_COLOURS["io2"])]
    if has_balance:
        parts.append(("balance_percent", "credit balance", style.FAMILY_COLOURS["st1"]))
    return lines(drawn, x, "%", parts, domain=[0, 100], height=80)
