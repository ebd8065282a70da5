"""EC2, RDS and Aurora side by side: transactions a second with their intervals, and the monthly
bill by what it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from headrace.report.charts import style
from headrace.report.charts.builders import SHORT

if TYPE_CHECKING:
    from headrace.simulation.services import ServiceComparison

# Parts of a bill, each with a colour and a name in the legend.
KINDS = ("server", "storage", "IOPS and MiB/s", "I/O requests", "snapshots")


def side_by_side(comparison: ServiceComparison, title: str) -> alt.VConcatChart:
    """Draws rates and bills; both panels share the deployments, in the order of the services."""
    order = [outcome.deployment for outcome in comparison.outcomes if outcome.refusal is None]
    return style.configured(
        alt.vconcat(_rates(comparison, order), _bills(comparison, order), spacing=24).properties(title=title)
    )


def _rates(comparison: ServiceComparison, order: list[str]):
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


def _bills(comparison: ServiceComparison, order: list[str]) -> alt.Chart:
    rows = [
        {"service": outcome.deployment, "part": (kind := kind_of(item)), "place": KINDS.index(kind), "usd": item["usd"]}
        for outcome in comparison.outcomes
        if outcome.refusal is None and outcome.bill.usd_month is not None
        for item in outcome.bill.items
    ]
    schema = {"service": pl.String, "part": pl.String, "place": pl.Int64, "usd": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema)
    hues = {kind: hue for kind, hue in zip(KINDS, style.PARTS, strict=True) if kind in set(frame["part"])}
    colours = alt.Scale(domain=list(hues), range=list(hues.values()))
    return (
        alt.Chart(frame.group_by("service", "part", "place", maintain_order=True).agg(pl.col("usd").sum()))
        .mark_bar()
        .encode(
            y=alt.Y("service:N", sort=order, scale=alt.Scale(domain=order), title=None),
            x=alt.X(
                "usd:Q",
                title="USD a month; no bar: no price known",
                axis=alt.Axis(labelExpr=SHORT, labelFlush=False, tickCount=8),
            ),
            color=alt.Color("part:N", scale=colours, legend=alt.Legend(title=None, orient="bottom")),
            order=alt.Order("place:Q"),
        )
        .properties(width=style.WIDTH - 180, height=30 * max(1, len(order)))
    )


def kind_of(item: Mapping[str, Any]) -> str:
    """Returns the kind (KINDS) of an item of a bill."""
    name = item["item"]
    if item.get("part") in ("instance", "snapshots"):
        return KINDS[0 if item["part"] == "instance" else 4]
    if item["unit"] == "h":
        return KINDS[0]
    if "I/O" in name:
        return KINDS[3]
    return KINDS[2] if "IOPS" in name or "throughput" in name else KINDS[1]
