"""Charts of plans: cost against what is delivered, of I/Os or of transactions, and the monthly
bill."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from headrace.report.charts import style
from headrace.report.charts.builders import SHORT, Drawing, colour_of, decades, lowest_and_highest
from headrace.report.charts.over_time import ms_axis
from headrace.report.words import number, usd

# Costs or latencies over more than one power of ten need a logarithmic axis; less reads better on a
# linear one.
APART = 10
MEETS, FAILS = "meets every goal", "fails a goal"


def frontier(
    points: Sequence[dict], winner: str | None, goal_ms: float | None, goal_name: str = "I/O p99"
) -> Drawing | None:
    """Cost against delivered latency: a point per storage, types in colours, the winner named, the
    latency goal as a line.

    `points`: dicts of `storage`, `instance`, `family`, `cost_usd_month`, `p99_ms`, `meets_goals`.
    None where there is nothing to draw.
    """
    known = [point for point in points if point.get("cost_usd_month") and (point.get("p99_ms") or 0) > 0]
    if not known:
        return None
    frame = pl.DataFrame(
        {
            "label": [
                f"{point['storage']} on {point['instance']}" if point.get("instance") else point["storage"]
                for point in known
            ],
            "type": [_volume_type(point) for point in known],
            "cost": [float(point["cost_usd_month"]) for point in known],
            "ms": [float(point["p99_ms"]) for point in known],
            "meets": [MEETS if point.get("meets_goals") else FAILS for point in known],
        }
    )
    present = set(frame["type"])
    colours = {name: hue for name, hue in style.FAMILY_COLOURS.items() if name in present}
    shapes = alt.Scale(domain=[MEETS, FAILS], range=["circle", "cross"])
    legend = alt.Legend(title=None, symbolFillColor=style.INK, symbolStrokeColor=style.INK)
    x, y = _cost_axis(frame), _latency_axis(frame)
    points_drawn = alt.Chart(frame).mark_point(filled=True, opacity=0.8, size=80)
    colour = colour_of("type", colours, "right", title="volume type")
    layers: list = [
        points_drawn.encode(x=x, y=y, color=colour, shape=alt.Shape("meets:N", scale=shapes, legend=legend))
    ]
    if goal_ms is not None:
        layers += _goal("ms", goal_ms, f"goal: {goal_name} ≤ {number(goal_ms)} ms", style.QUIET)
    best = frame.filter(pl.col("label") == pl.lit(winner, pl.String)).head(1)
    if best.height:
        to_left = best["cost"][0] > 0.6 * lowest_and_highest(frame, "cost")[1]
        ringed = alt.Chart(best).encode(x="cost:Q", y="ms:Q")
        name = ringed.mark_text(
            align="right" if to_left else "left", dx=-14 if to_left else 6, dy=-18, fontWeight="bold"
        )
        layers += [
            ringed.mark_point(size=280, strokeWidth=2, color=style.INK, filled=False),
            name.encode(text="label:N"),
        ]
    drawn = alt.layer(*layers).properties(width=style.WIDTH - 140, height=320, title="Cost against delivered latency")
    return style.configured(drawn)


def _cost_axis(frame: pl.DataFrame) -> alt.X:
    (low, high), title = lowest_and_highest(frame, "cost"), "cost (USD a month)"
    far = high > APART * low
    values = decades(low, high) if far else alt.Undefined
    return alt.X("cost:Q", scale=_scale(far), axis=alt.Axis(title=title, labelExpr=SHORT, tickCount=6, values=values))


def _latency_axis(frame: pl.DataFrame) -> alt.Y:
    (low, high), title = lowest_and_highest(frame, "ms"), "I/O p99, waiting included"
    far = high > APART * low
    return alt.Y(
        "ms:Q", scale=_scale(far), axis=ms_axis(title) if far else alt.Axis(title=f"{title} (ms)", tickCount=6)
    )


def _scale(far: bool) -> alt.Scale:
    return alt.Scale(type="log" if far else "linear", zero=False, nice=True, padding=16)


def _goal(column: str, limit: float, label: str, colour: str) -> list[alt.Chart]:
    """A goal as a dashed line with its name at the left."""
    data = alt.Chart(pl.DataFrame({column: [float(limit)], "label": [label]})).encode(y=f"{column}:Q")
    name = data.mark_text(align="right", baseline="bottom", dy=-3, color=colour)
    return [data.mark_rule(strokeDash=[5, 4], color=colour), name.encode(x=alt.value("width"), text="label:N")]


def _volume_type(point: dict) -> str:
    named = str(point.get("family") or "").split(" ")[0]
    return named if named in style.FAMILY_COLOURS else "standard"


def against_tps(plan) -> Drawing | None:
    """Sustained tps with the 80 % interval against monthly cost: a line for each family, the goal
    dashed, the recommended choice ringed. None where there are fewer than two points."""
    frame = plan.frontier
    if frame.height < 2:
        return None
    on = pl.when(pl.col("instance").is_null()).then(pl.lit("")).otherwise(pl.lit(" on ") + pl.col("instance"))
    frame = frame.with_columns((pl.col("family") + on).alias("name")).sort("name", "cost_usd_month")
    types = dict(frame.select("name", "family").unique(maintain_order=True).iter_rows())
    colours = {
        name: style.FAMILY_COLOURS.get(family.split(" ")[0], style.OTHER_FAMILY) for name, family in types.items()
    }
    dashes = [[4, 3] if "RAID" in name else [1, 0] for name in types]
    x = alt.X("cost_usd_month:Q", title="USD a month, instance included", scale=alt.Scale(zero=False))
    y = alt.Y("tps:Q", title="sustained tps (80 % interval)", scale=alt.Scale(zero=True))
    legend = {"columns": 2, "symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": 2, "symbolSize": 400}
    drawn = alt.Legend(title=None, orient="bottom", **legend)
    dash = alt.StrokeDash("name:N", scale=alt.Scale(domain=list(types), range=dashes), legend=drawn)
    base = alt.Chart(frame).encode(x=x, color=colour_of("name", colours, **legend))
    layers: list = [
        base.mark_rule(opacity=0.35, strokeWidth=3).encode(y=alt.Y("tps_low:Q"), y2="tps_high:Q"),
        base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash),
        base.mark_point(size=30, filled=True).encode(y=y),
    ]
    goal = next((goal.limit for goal in plan.goals if goal.metric == "tps"), None)
    if goal is not None:
        layers += _goal("tps", goal, f"goal {goal:g} tps", style.WARN)
    if plan.recommended:
        place = {
            "cost_usd_month": plan.recommended.cost_usd_month,
            "tps": plan.recommended.metrics["tps"],
            "text": "recommended",
        }
        ring = alt.Chart(pl.DataFrame([place])).encode(x="cost_usd_month:Q", y="tps:Q")
        layers += [
            ring.mark_point(size=220, strokeWidth=2, color=style.INK),
            ring.mark_text(dy=18, color=style.INK).encode(text="text:N"),
        ]
    return style.configured(alt.layer(*layers).properties(width=style.WIDTH, height=2.5 * style.PANEL_HEIGHT))


def bills(choices: Sequence[tuple[str, Sequence[dict]]]) -> Drawing:
    """The monthly bill of several choices as stacked bars. `choices`: name and its items (`item`,
    `usd`)."""
    rows = [
        {"choice": name, "item": item["item"], "usd": float(item["usd"])}
        for name, items in choices
        for item in items
        if item["usd"]
    ]
    frame = pl.DataFrame(rows, schema={"choice": pl.String, "item": pl.String, "usd": pl.Float64}, orient="row")
    totals = frame.group_by("choice", maintain_order=True).agg(pl.col("usd").sum())
    items = frame["item"].unique(maintain_order=True).to_list()
    colours = {item: style.PALETTE[index % len(style.PALETTE)] for index, item in enumerate(items)}
    y = alt.Y("choice:N", sort=[name for name, _ in choices], axis=alt.Axis(title=None))
    x = alt.X("usd:Q", axis=alt.Axis(title="USD a month", labelExpr=SHORT, tickCount=6))
    bars = (
        alt.Chart(frame)
        .mark_bar()
        .encode(y=y, x=x, color=colour_of("item", colours, columns=3), order=alt.Order("item:N"))
    )
    told = alt.Chart(totals.with_columns(pl.col("usd").map_elements(usd, return_dtype=pl.String).alias("text")))
    labels = told.mark_text(align="left", dx=4).encode(y=y, x="usd:Q", text="text:N")
    drawn = (bars + labels).properties(width=style.WIDTH - 180, height=alt.Step(24), title="The monthly bill")
    return style.configured(drawn)
