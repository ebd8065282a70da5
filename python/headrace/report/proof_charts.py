"""Charts of a proof: means with their intervals, and second by second; simulated and measured in their colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import altair as alt
import polars as pl

from headrace.report import style
from headrace.report.charts import SHORT

ROLES = ("simulated", "measured")
PANEL_HEIGHT = 90


def all_of(proof, name_of: Callable) -> Iterator[tuple[object, str]]:
    """Charts with what they show, in words."""
    for column, y_title, low in (("tps", "transactions a second", "tps_low"), ("p95_ms", "p95 (ms)", None)):
        chart = means(proof, name_of, column, y_title, low)
        if chart is not None:
            yield chart, f"{y_title}, predicted and measured, of each configuration"
    chart = seconds(proof, name_of)
    if chart is not None:
        yield chart, "transactions a second over time, predicted and measured, of each configuration"


def _colour(present: set[str]) -> alt.Color:
    roles = [role for role in ROLES if role in present]
    return alt.Color(
        "role:N",
        scale=alt.Scale(domain=roles, range=[style.ROLE_COLOURS[role] for role in roles]),
        legend=alt.Legend(title=None, orient="top"),
    )


def means(proof, name_of: Callable, column: str, x_title: str, low: str | None) -> alt.LayerChart | None:
    """Bars of both, with the 80 % interval of the predicted."""
    found = []
    for step in proof.steps:
        for role, figures in (("simulated", step.predicted), ("measured", step.measured)):
            value = None if figures is None else getattr(figures, column)
            if value is not None:
                spread = (figures.tps_low, figures.tps_high) if low and role == "simulated" else (None, None)
                found.append({"configuration": name_of(step), "role": role, "value": float(value), "low": spread[0], "high": spread[1]})
    if not found:
        return None
    frame = pl.DataFrame(
        found, schema={"configuration": pl.String, "role": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
    )
    frame = frame.with_columns(pl.col("value").map_elements(_text, return_dtype=pl.String).alias("text"))
    x = alt.X("value:Q", axis=alt.Axis(title=x_title, labelExpr=SHORT, tickCount=6))
    base = alt.Chart(frame).encode(
        y=alt.Y("configuration:N", sort=None, axis=alt.Axis(title=None)), yOffset=alt.YOffset("role:N", sort=list(ROLES))
    )
    layers = [base.mark_bar().encode(x=x, color=_colour(set(frame["role"])))]
    if frame["low"].drop_nulls().len():
        layers.append(base.mark_rule(color=style.INK, strokeWidth=1.4).encode(x=alt.X("low:Q", axis=alt.Axis(title=x_title)), x2="high:Q"))
    at = base.transform_calculate(at="isValid(datum.high) ? max(datum.high, datum.value) : datum.value")
    layers.append(at.mark_text(align="left", dx=4, fontSize=10).encode(x=alt.X("at:Q", axis=alt.Axis(title=x_title)), text="text:N"))
    return style.configured(alt.layer(*layers).properties(width=style.WIDTH - 220, height=alt.Step(18), title=x_title))


def _text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"


def seconds(proof, name_of: Callable) -> alt.VConcatChart | None:
    """Both over time, one panel a configuration; the warm-up shaded."""
    panels = []
    for step in proof.steps:
        found = [
            {"t_s": float(second), "role": role, "tps": value}
            for role, figures in (("simulated", step.predicted), ("measured", step.measured))
            if figures is not None
            for second, value in enumerate(figures.series)
        ]
        if not found:
            continue
        frame = pl.DataFrame(found)
        x = alt.X("t_s:Q", scale=alt.Scale(nice=False), axis=alt.Axis(title="seconds from an empty cache", tickCount=8))
        line = alt.Chart(frame).mark_line(strokeWidth=1.5).encode(
            x=x, y=alt.Y("tps:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title="tps", labelExpr=SHORT, tickCount=4)), color=_colour(set(ROLES)),
        )  # fmt: skip
        warm = pl.DataFrame({"t_s": [0.0], "until": [float(proof.warmup_s)]})
        shade = (
            alt.Chart(warm).mark_rect(color=style.QUIET, opacity=0.12).encode(x=x, x2="until:Q", y=alt.value(0), y2=alt.value(PANEL_HEIGHT))
        )
        panels.append(alt.layer(shade, line).properties(width=style.WIDTH, height=PANEL_HEIGHT, title=name_of(step)))
    return style.configured(alt.vconcat(*panels, spacing=18)) if panels else None
