"""Databases, replicas, services and lab volumes, predicted and measured: over time, as densities,
as bars with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from headrace.report.charts import style
from headrace.report.charts.builders import (
    PERCENT,
    SHORT,
    Drawing,
    Panel,
    TimeAxis,
    draw_density,
    draw_lines,
    draw_panels,
    make_colour,
    make_linear_axes,
    make_quantity_axis,
    make_role_colour,
    shade,
    stack_panels,
    thin_rows,
)

if TYPE_CHECKING:
    from headrace.calibration.score import ComparedRun
    from headrace.experiment.proof import Proof
    from headrace.simulation.database import Prediction
    from headrace.simulation.replica import ReplicaOutcome, ReplicaPrediction
    from headrace.simulation.services import ServiceComparison


DENSITY_HEIGHT, PROOF_HEIGHT = 150, 90  # px
# Predicted figures are simulated ones.
ROLES = ("simulated", "measured")


def draw_prediction(run: Prediction, title: str) -> alt.VConcatChart:
    """Draws tps, p95, IOPS, MiB/s, cache and balance of a prediction over time."""
    time = TimeAxis(None, float(run.rows.height))
    frame = time.add(_thin_seconds(run.rows))
    panels: list[Drawing] = [_draw_band(frame, time.make_axis(False), style.SIMULATED)]
    for column, name in (("p95_ms", "p95 (ms)"), ("iops", "I/Os a second"), ("mib_s", "MiB/s")):
        y = make_quantity_axis(alt.Y, frame, column, name, zero=True, far=float("inf"), ticks=4)
        line = alt.Chart(frame).mark_line(color=style.SIMULATED, strokeWidth=1.2).encode(x=time.make_axis(False), y=y)
        panels.append(alt.layer(line).properties(width=style.WIDTH, height=80))
    shares = frame.with_columns(pl.col("cached_share", "dirty_share") * 100)
    parts = [("cached_share", "cached", style.SIMULATED), ("dirty_share", "dirty", style.SECOND)]
    if run.rows["balance_percent"].is_not_null().any():
        parts.append(("balance_percent", "credit balance", style.THIRD))
    panels.append(draw_lines(shares, time.make_axis(True), "%", parts, make_linear_axes("%", *PERCENT), 80))
    return stack_panels(panels, title, spacing=8)


def _thin_seconds(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns means over stretches of rows of one second, with the least and the most of tps in
    each."""
    thin = thin_rows(rows, pl.col("tps").min().alias("least"), pl.col("tps").max().alias("most"))
    return thin.with_columns(pl.lit(1.0).alias("duration_s"))


def _draw_band(frame: pl.DataFrame, x: alt.X, colour: str, height: int = style.PANEL_HEIGHT) -> Drawing:
    """Draws the mean tps of each row as a line, with its lowest and highest as a band."""
    title = "transactions a second"
    y = make_quantity_axis(alt.Y, frame, "tps", title, zero=True, far=float("inf"), ticks=5)
    base = alt.Chart(frame).encode(x=x)
    band = base.mark_area(color=colour, opacity=0.2).encode(y=alt.Y("least:Q", title=title), y2="most:Q")
    line = base.mark_line(color=colour, strokeWidth=1.2).encode(y=y)
    return alt.layer(band, line).properties(width=style.WIDTH, height=height)


def draw_comparison(result: ComparedRun) -> alt.VConcatChart:
    """Draws tps, measured and predicted, in rows as long as those of the run: over time, and how
    often each value occurs in the second half."""
    time = TimeAxis(None, result.run.span_s)
    parts = {
        "measured": result.run.series.select("t_s", "tps"),
        "simulated": result.predicted_rows.select("t_s", "tps"),
    }
    bands = [
        _draw_band(time.add(_thin_seconds(rows)), time.make_axis(True), style.ROLE_COLOURS[role], 220)
        for role, rows in parts.items()
    ]
    halves = pl.concat(
        [rows[rows.height // 2 :].select("tps", pl.lit(role).alias("role")) for role, rows in parts.items()]
    )
    title = f"tps over {max(1.0, result.run.interval_s):g} s, second half"
    area = draw_density(halves, "role", make_role_colour(list(parts), "bottom"), title).properties(
        width=style.WIDTH, height=DENSITY_HEIGHT
    )
    over_time = alt.layer(*bands).properties(width=style.WIDTH, height=220)
    return style.configure_chart(
        alt.vconcat(over_time, area, title=f"{result.run.name}: measured and simulated", spacing=14)
    )


def draw_proof(proof: Proof, name_of: Callable) -> Iterator[tuple[alt.TopLevelMixin, str]]:
    """Yields the charts of a proof, each with its description."""
    for column, title in (("tps", "transactions a second"), ("p95_ms", "p95 (ms)")):
        chart = _draw_bars(proof, name_of, column, title)
        if chart is not None:
            yield chart, f"{title}, predicted and measured, of each configuration"
    chart = _draw_seconds(proof, name_of)
    if chart is not None:
        yield chart, "transactions a second over time, predicted and measured, of each configuration"


def _draw_bars(proof: Proof, name_of: Callable, column: str, title: str) -> Drawing | None:
    """Draws bars of predicted and measured, with the 80 % interval of a predicted tps."""
    rows = []
    for step in proof.steps:
        for role, figures in zip(ROLES, (step.predicted, step.measured), strict=True):
            value = getattr(figures, column, None)
            if value is not None:
                ends = ("tps_low", "tps_high") if (column, role) == ("tps", "simulated") else ("", "")
                low, high = (getattr(figures, end, None) for end in ends)
                text = f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"
                rows.append((name_of(step), role, float(value), low, high, text))
    if not rows:
        return None
    numbers = {name: pl.Float64 for name in ("value", "low", "high")}
    schema = {"configuration": pl.String, "role": pl.String, **numbers, "text": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    axis = alt.Axis(title=title, labelExpr=SHORT, tickCount=6)
    y = alt.Y("configuration:N", sort=None, axis=alt.Axis(title=None))
    base = alt.Chart(frame).encode(y=y, yOffset=alt.YOffset("role:N", sort=list(ROLES)))
    layers: list = [
        base.mark_bar().encode(x=alt.X("value:Q", axis=axis), color=make_role_colour(frame["role"].to_list()))
    ]
    if frame["low"].drop_nulls().len():
        layers.append(base.mark_rule(color=style.INK, strokeWidth=1.4).encode(x=alt.X("low:Q", axis=axis), x2="high:Q"))
    at = base.transform_calculate(at="isValid(datum.high) ? max(datum.high, datum.value) : datum.value")
    layers.append(at.mark_text(align="left", dx=4, fontSize=10).encode(x=alt.X("at:Q", axis=axis), text="text:N"))
    return style.configure_chart(
        alt.layer(*layers).properties(width=style.WIDTH - 220, height=alt.Step(18), title=title)
    )


def _draw_seconds(proof: Proof, name_of: Callable) -> alt.VConcatChart | None:
    """Draws predicted and measured over time, a panel for each configuration; the warm-up is
    shaded."""
    panels = []
    warm = pl.DataFrame({"t_s": [0.0], "until": [float(proof.warmup_s)]})
    for step in proof.steps:
        rows = [
            {"t_s": float(second), "role": role, "tps": value}
            for role, figures in zip(ROLES, (step.predicted, step.measured), strict=True)
            if figures is not None
            for second, value in enumerate(figures.series)
        ]
        if not rows:
            continue
        frame = pl.DataFrame(rows)
        x = alt.X("t_s:Q", scale=alt.Scale(nice=False), axis=alt.Axis(title="seconds from an empty cache", tickCount=8))
        y = make_quantity_axis(alt.Y, frame, "tps", "tps", zero=True, far=float("inf"), ticks=4)
        line = alt.Chart(frame).mark_line(strokeWidth=1.5).encode(x=x, y=y, color=make_role_colour(ROLES))
        shaded = shade(warm, x, PROOF_HEIGHT, style.QUIET, "until:Q")
        panels.append(alt.layer(shaded, line).properties(width=style.WIDTH, height=PROOF_HEIGHT, title=name_of(step)))
    return style.configure_chart(alt.vconcat(*panels, spacing=18)) if panels else None


def draw_conformance(findings: Sequence) -> alt.FacetChart:
    """Draws p50 and p99 of the loads of a lab's volumes: published, simulated and measured, a row
    for each volume."""
    rows = [
        {"volume": finding.spec, "load": finding.load, "figure": finding.what, "ms": value, "role": role}
        for finding in findings
        if finding.unit == "ms" and finding.what in ("p50", "p99")
        for role, value in (
            ("published", finding.published),
            ("simulated", finding.model),
            ("measured", finding.measured),
        )
        if value is not None
    ]
    points = alt.Chart(pl.DataFrame(rows)).mark_point(filled=True, size=55, opacity=0.9)
    drawn = points.encode(
        x=alt.X("ms:Q", scale=alt.Scale(type="log"), title="completion latency (ms)"),
        y=alt.Y("load:N", title=None, sort=None),
        shape=alt.Shape("figure:N", legend=alt.Legend(title=None, orient="bottom")),
        color=make_role_colour(orient="bottom"),
    )
    rows_of_volumes = alt.Row("volume:N", title=None, sort=None)
    facets = drawn.properties(width=style.WIDTH - 200).facet(row=rows_of_volumes, spacing=6)
    return style.configure_chart(facets.resolve_scale(y="independent"))


HEIGHT = 100  # px
SOURCE_COLOUR, REPLICA_COLOUR = style.QUIET, style.SIMULATED


def draw_lag(run: ReplicaPrediction, title: str) -> alt.VConcatChart:
    """Draws lag, backlog, rates and I/Os on one time line; the time after the load is shaded, the
    most lag is marked."""
    rows = run.rows
    length = rows["t_s"][1] - rows["t_s"][0] if rows.height > 1 else 1.0
    time = TimeAxis(None, rows["t_s"][-1] + length)
    frame = time.add(thin_rows(rows.with_columns(pl.lit(length).alias("duration_s"))))
    summary = run.summary
    panels: list[Panel] = [
        ("lag (s)", [("lag_s", "lag", REPLICA_COLOUR)]),
        ("transactions waiting", [("backlog", "backlog", REPLICA_COLOUR)]),
        (
            "transactions a second",
            [("source_tps", "source", SOURCE_COLOUR), ("applied_tps", "applied", REPLICA_COLOUR)],
        ),
        ("replica's I/Os a second", [("iops", "I/Os", REPLICA_COLOUR)]),
    ]
    if rows["balance_percent"].is_not_null().any():
        panels.append(("credits (%)", [("balance_percent", "balance", REPLICA_COLOUR)]))
    # The end of the load, and the most lag.
    times, lags = [summary["load_s"], summary["peak_at_s"]], [0.0, summary["peak_lag_s"]]
    moments = time.add(pl.DataFrame({"t_s": times, "duration_s": [0.0, 0.0], "lag_s": lags}))
    end = frame["until"].to_list()[-1]
    drained = moments[:1].select("at", pl.lit(end).alias("until"))
    shaded = rows["t_s"][-1] > summary["load_s"]
    drawn = draw_panels(frame, time, panels, HEIGHT, shaded=drained if shaded else None)
    peak, x = alt.Chart(moments[1:].with_columns(pl.lit(_describe_peak(summary)).alias("text"))), time.make_axis(False)
    point = peak.mark_point(color=style.WARN, filled=True, size=60).encode(x=x, y=alt.Y("lag_s:Q"))
    # At the bottom, since above stand the names of the lines.
    late = summary["peak_at_s"] > rows["t_s"][-1] / 2
    text = peak.mark_text(align="right" if late else "left", dx=-8 if late else 8, baseline="bottom")
    drawn[0] = alt.layer(drawn[0], point, text.encode(text="text", x=x, y=alt.value(HEIGHT - 6)))
    return stack_panels(drawn, title, "Shaded: after the load has stopped." if shaded else "")


def _describe_peak(summary: ReplicaOutcome) -> str:
    after = " after the load has stopped" if summary["peak_at_s"] > summary["load_s"] else ""
    return f"most: {summary['peak_lag_s']:,.3g} s{after}"


# Kinds of items of a bill, each with a colour and a name in the legend.
KINDS = ("server", "storage", "IOPS and MiB/s", "I/O requests", "snapshots")


def draw_side_by_side(comparison: ServiceComparison, title: str) -> alt.VConcatChart:
    """Draws the rates of deployments, and below them their bills, in the same order."""
    order = [outcome.deployment for outcome in comparison.outcomes if outcome.refusal is None]
    return style.configure_chart(
        alt.vconcat(_draw_rates(comparison, order), _draw_bills(comparison, order), spacing=24).properties(title=title)
    )


def _draw_rates(comparison: ServiceComparison, order: list[str]):
    """Draws transactions a second of each service that can be predicted, with their 80 %
    interval."""
    rows = [
        {"service": outcome.deployment, "tps": outcome.tps, "low": outcome.tps_low, "high": outcome.tps_high}
        for outcome in comparison.outcomes
        if outcome.refusal is None
    ]
    schema = {"service": pl.String, "tps": pl.Float64, "low": pl.Float64, "high": pl.Float64}
    base = alt.Chart(pl.DataFrame(rows, schema=schema)).encode(y=alt.Y("service:N", sort=order, title=None))
    title = "transactions a second, simulated, with 80 % interval"
    axis = alt.Axis(labelExpr=SHORT, labelFlush=False, tickCount=8)
    x = alt.X("low:Q", title=title, scale=alt.Scale(zero=True), axis=axis)
    interval = base.mark_rule(strokeWidth=3, opacity=0.45, color=style.SIMULATED).encode(x=x, x2="high:Q")
    point = base.mark_point(filled=True, size=90, opacity=1, color=style.SIMULATED).encode(x="tps:Q")
    return alt.layer(interval, point).properties(width=style.WIDTH - 180, height=30 * max(1, len(order)))


def _draw_bills(comparison: ServiceComparison, order: list[str]) -> alt.Chart:
    """Draws the bill of each service in USD a month, part by part; services without a price have no
    bar."""
    bills = [
        (outcome.deployment, outcome.bill.items)
        for outcome in comparison.outcomes
        if outcome.refusal is None and outcome.bill.usd_month is not None
    ]
    y = alt.Y("choice:N", sort=order, scale=alt.Scale(domain=order), title=None)
    axis = alt.Axis(labelExpr=SHORT, labelFlush=False, tickCount=8)
    x = alt.X("usd:Q", title="USD a month; no bar: no price known", axis=axis)
    return draw_bill_bars(bills, y, x).properties(width=style.WIDTH - 180, height=30 * max(1, len(order)))


def draw_bill_bars(bills: Sequence[tuple[str, Sequence[Mapping]]], y: alt.Y, x: alt.X) -> alt.Chart:
    """Draws bills as stacked bars, by kind of item. `bills`: name and items (`item`, `unit`,
    `usd`). `y`, `x`: axes of `choice`, the names, and of `usd`, USD a month."""
    rows = [
        {"choice": name, "kind": (kind := classify_item(item)), "place": KINDS.index(kind), "usd": float(item["usd"])}
        for name, items in bills
        for item in items
        if item["usd"]
    ]
    schema = {"choice": pl.String, "kind": pl.String, "place": pl.Int64, "usd": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema)
    sums = frame.group_by("choice", "kind", "place", maintain_order=True).agg(pl.col("usd").sum())
    hues = {kind: hue for kind, hue in zip(KINDS, style.PARTS, strict=True) if kind in set(frame["kind"])}
    return alt.Chart(sums).mark_bar().encode(y=y, x=x, color=make_colour("kind", hues), order=alt.Order("place:Q"))


def classify_item(item: Mapping) -> str:
    """Returns the kind (KINDS) of an item of a bill."""
    name = item["item"]
    if item.get("part") in ("instance", "snapshots"):
        return KINDS[0 if item["part"] == "instance" else 4]
    if item["unit"] == "h":
        return KINDS[0]
    if "I/O" in name:
        return KINDS[3]
    return KINDS[2] if "IOPS" in name or "throughput" in name else KINDS[1]
