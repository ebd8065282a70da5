"""Charts of plans: cost against what is delivered, of I/Os or of transactions, and the monthly
bill."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from headrace.report.charts import style
from headrace.report.charts.builders import SHORT, Drawing, find_ends, list_decades
from headrace.report.charts.over_time import make_ms_axis
from headrace.report.charts.predictions import draw_bill_bars
from headrace.report.words import format_number, format_usd

if TYPE_CHECKING:
    from headrace.planner.result import Choice, Plan

# From this ratio of the highest to the lowest cost or latency on, an axis is logarithmic (chosen by
# eye).
FAR_APART = 10
MEETS, FAILS = "meets every goal", "fails a goal"
SINGLE, OTHER = "no RAID", "other"
AURORA_STORAGE = {"aurora:standard": "Standard", "aurora:io-optimized": "I/O-Optimized"}
TYPE_COLOURS = style.FAMILY_COLOURS | {
    "Standard": style.FAMILY_COLOURS["st1"],
    "I/O-Optimized": style.FAMILY_COLOURS["sc1"],
    OTHER: style.OTHER_FAMILY,
}
# A service is told by the shape of its points, so that it needs no colour.
SHAPES = {
    "ec2": "circle",
    "rds:single-az": "square",
    "rds:multi-az": "diamond",
    "rds:multi-az-cluster": "triangle-up",
    "aurora:standard": "triangle-down",
    "aurora:io-optimized": "cross",
}
DASHES = {SINGLE: [1, 0], "RAID 0": [7, 3], "RAID 10": [2, 3]}
ROUNDED = 0.7  # a tick this far outside the lowest or highest cost is still shown (chosen by eye)
# A wait of more than a minute is a queue that grows: such choices stand together at the top, as in
# the page (report/live/figures.js), so that those that hold are told apart.
NEVER_MS = 60_000.0
ROOM_RIGHT = 110  # px, for the name of a goal next to the axes


def draw_frontier(
    points: Sequence[dict], winner: str | None, goal_ms: float | None, goal_name: str = "I/O p99"
) -> Drawing | None:
    """Draws cost against delivered latency: a point per storage, types in colours, the winner
    named, the latency goal as a line.

    `points`: dicts of `storage`, `instance`, `family`, `cost_usd_month`, `p99_ms`, `meets_goals`,
    and `role` for what is named at its point, such as today. None where there is nothing to
    draw.
    """
    priced = [point for point in points if point.get("cost_usd_month") and (point.get("p99_ms") or 0) > 0]
    if not priced:
        return None
    frame = pl.DataFrame(
        {
            "label": [
                f"{point['storage']} on {point['instance']}" if point.get("instance") else point["storage"]
                for point in priced
            ],
            "type": [get_storage(point.get("family")) for point in priced],
            "service": [get_service(point.get("family")) for point in priced],
            "cost": [float(point["cost_usd_month"]) for point in priced],
            "ms": [min(float(point["p99_ms"]), NEVER_MS) for point in priced],
            "meets": [MEETS if point.get("meets_goals") else FAILS for point in priced],
            "role": [point.get("role") or "" for point in priced],
        }
    )
    present, services = set(frame["type"]), frame["service"].unique(maintain_order=True).sort().to_list()
    colours = {name: hue for name, hue in TYPE_COLOURS.items() if name in present}
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    filled = alt.Scale(domain=[MEETS, FAILS], range=[0.8, 0.0])
    x, y = _make_cost_axis(frame), _make_latency_axis(frame)
    solid = alt.Legend(title="volume type", symbolType="circle")
    layers: list = [
        alt.Chart(frame)
        .mark_point(size=70, strokeWidth=1.6)
        .encode(
            x=x,
            y=y,
            stroke=alt.Stroke("type:N", scale=scale, legend=solid),
            fill=alt.Fill("type:N", scale=scale, legend=solid),
            fillOpacity=alt.FillOpacity("meets:N", scale=filled, legend=None),
            **_make_service_shapes(services),
        )
    ]
    if goal_ms is not None:
        layers += _draw_goal("ms", goal_ms, f"goal: {goal_name} ≤ {format_number(goal_ms)} ms", style.QUIET)
    best = frame.filter(pl.col("label") == pl.lit(winner, pl.String)).head(1)
    if best.height:
        to_left = best["cost"][0] > 0.6 * find_ends(frame, "cost")[1]
        ringed = alt.Chart(best).encode(x="cost:Q", y="ms:Q")
        name = ringed.mark_text(
            align="right" if to_left else "left", dx=-12 if to_left else 8, dy=-16, fontWeight="bold", color=style.GOOD
        )
        layers += [
            ringed.mark_point(size=220, strokeWidth=2, color=style.GOOD, filled=True, opacity=1),
            name.transform_calculate(words="'recommended: ' + datum.label").encode(text="words:N"),
        ]
    labelled = frame.filter(pl.col("role") != "").with_columns(
        (pl.col("role") + ": " + pl.col("label")).alias("words"),
        pl.when(pl.col("role") == "today").then(pl.lit(style.WARN)).otherwise(pl.lit(style.INK)).alias("ink"),
    )
    if labelled.height:
        middle = sum(find_ends(frame, "cost")) / 2
        for align, dx, side in (("left", 10, pl.col("cost") <= middle), ("right", -10, pl.col("cost") > middle)):
            # Below their points: the recommended has its name above.
            words = alt.Chart(labelled.filter(side)).mark_text(align=align, dx=dx, dy=16)  # pyright: ignore[reportArgumentType]
            ink = alt.Color("ink:N", scale=None, legend=None)
            layers.append(words.encode(x="cost:Q", y="ms:Q", text="words:N", color=ink))
    at_top = " At the top: a minute or more." if frame["ms"].max() == NEVER_MS else ""
    subtitle = f"Filled: {MEETS}. Hollow: {FAILS}.{at_top}"
    title = alt.TitleParams("Cost against delivered latency", subtitle=subtitle, offset=10)
    return style.configure_chart(alt.layer(*layers).properties(width=style.WIDTH - 140, height=320, title=title))


def _is_far_apart(low: float, high: float) -> bool:
    """Returns True when the values are so far apart that only a logarithmic axis shows them."""
    return low > 0 and high > FAR_APART * low


def _make_cost_axis(frame: pl.DataFrame, column: str = "cost", title: str = "cost (USD a month)") -> alt.X:
    """Returns the horizontal axis for costs in USD a month: logarithmic where the cheapest and the
    dearest are far apart."""
    low, high = find_ends(frame, column)
    far = _is_far_apart(low, high)
    values = (
        [value for value in list_decades(low, high) if ROUNDED * low <= value <= high / ROUNDED]
        if far
        else alt.Undefined
    )
    overlap = False if far else alt.Undefined
    axis = alt.Axis(title=title, labelExpr=SHORT, tickCount=6, values=values, labelFlush=False, labelOverlap=overlap)
    return alt.X(f"{column}:Q", scale=_make_scale(far, nice=not far), axis=axis)


def _make_latency_axis(frame: pl.DataFrame) -> alt.Y:
    """Returns the vertical axis for the I/O p99 in ms: logarithmic where the lowest and the highest
    are far apart."""
    (low, high), title = find_ends(frame, "ms"), "I/O p99, waiting included"
    far = _is_far_apart(low, high)
    return alt.Y(
        "ms:Q",
        scale=_make_scale(far),
        axis=make_ms_axis(title) if far else alt.Axis(title=f"{title} (ms)", tickCount=6),
    )


def _make_scale(far: bool, nice: bool = True) -> alt.Scale:
    return alt.Scale(type="log" if far else "linear", zero=False, nice=nice, padding=16)


def _draw_goal(column: str, limit: float, label: str, colour: str, outside: bool = False) -> list[alt.Chart]:
    """Returns a goal as a dashed line with its name at its right end; `outside`: next to the
    axes."""
    data = alt.Chart(pl.DataFrame({column: [float(limit)], "label": [label]})).encode(y=f"{column}:Q")
    if outside:
        name = data.mark_text(align="left", baseline="middle", dx=6, color=colour)
    else:
        name = data.mark_text(align="right", baseline="bottom", dy=-3, color=colour)
    return [data.mark_rule(strokeDash=[5, 4], color=colour), name.encode(x=alt.value("width"), text="label:N")]


def get_service(family: object) -> str:
    """Returns the deployment in a family's name: `ec2`, `rds:multi-az`, `aurora:standard`."""
    first = str(family or "").split(" ")[0]
    return first if ":" in first else "ec2"


def get_storage(family: object) -> str:
    """Returns the storage in a family's name: the volume type on EC2 and RDS, Standard or
    I/O-Optimized on Aurora, `other` for another name."""
    words = str(family or "").split(" ")
    if words[0].startswith("aurora:"):
        return AURORA_STORAGE.get(words[0], words[0])
    kind = words[1] if ":" in words[0] and len(words) > 1 else words[0]
    return kind if kind in TYPE_COLOURS else OTHER


def _get_layout(family: str) -> str:
    return family.partition(" ")[2] if get_service(family) == "ec2" and " " in family else SINGLE


def _make_service_shapes(services: Sequence[str]) -> dict:
    """Returns the encoding of services by the shape of points; empty for a single one."""
    if len(services) < 2:
        return {}
    shapes = alt.Scale(domain=list(services), range=[SHAPES.get(name, "stroke") for name in services])
    legend = alt.Legend(title="service", symbolFillColor=style.INK)
    return {"shape": alt.Shape("service:N", scale=shapes, legend=legend)}


def choose_line_colours(families: Mapping[str, str]) -> dict[str, str]:
    """Chooses a colour for each line by its name and family: its storage's own where that is free,
    else the next free colour; colours repeat only where there are more lines than colours."""
    colours: dict[str, str] = {}
    for own in (True, False):
        for name, family in families.items():
            colour = TYPE_COLOURS[get_storage(family)]
            if own and _get_layout(family) == SINGLE and colour not in colours.values():
                colours[name] = colour
            elif not own and name not in colours:
                free = [hue for hue in style.PALETTE if hue not in colours.values()]
                colours[name] = (free or list(style.PALETTE))[0 if free else len(colours) % len(style.PALETTE)]
    return {name: colours[name] for name in families}


def draw_against_tps(plan: Plan) -> Drawing | None:
    """Draws sustained tps with the 80 % interval against monthly cost: a line for each family,
    points in the shape of its service, the goal dashed, the recommended choice ringed. None where
    there are fewer than two points."""
    frame = plan.choices.frontier
    if frame.height < 2:
        return None
    on = pl.when(pl.col("instance").is_null()).then(pl.lit("")).otherwise(pl.lit(" on ") + pl.col("instance"))
    frame = frame.with_columns(
        (pl.col("family") + on).alias("name"),
        pl.col("family").map_elements(get_service, return_dtype=pl.String).alias("service"),
        pl.col("family").map_elements(_get_layout, return_dtype=pl.String).alias("layout"),
    ).sort("service", "name", "cost_usd_month")
    families = dict(frame.select("name", "family").unique(maintain_order=True).iter_rows())
    shapes = [SHAPES.get(get_service(family), "stroke") for family in families.values()]
    # Colour and shape have one legend, since both are of the name.
    legend = alt.Legend(title=None, orient="bottom", columns=2, symbolSize=90, symbolOpacity=1)
    colours = choose_line_colours(families)
    colour = alt.Color("name:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), legend=legend)
    shape = alt.Shape("name:N", scale=alt.Scale(domain=list(families), range=shapes), legend=legend)
    y = alt.Y("tps:Q", title="sustained tps (80 % interval)", scale=alt.Scale(zero=True))
    base = alt.Chart(frame).encode(
        x=_make_cost_axis(frame, "cost_usd_month", "USD a month, instance included"), color=colour
    )
    layers: list = [
        base.mark_rule(opacity=0.22, strokeWidth=2).encode(y=alt.Y("tps_low:Q"), y2="tps_high:Q"),
        base.mark_line(strokeWidth=2).encode(
            y=y, **_make_dashes(frame["layout"].unique(maintain_order=True).to_list())
        ),
        base.mark_point(size=45, filled=True, opacity=1).encode(y=y, shape=shape),
    ]
    goal = next((goal.limit for goal in plan.goals if goal.metric == "tps"), None)
    if goal is not None:
        layers += _draw_goal("tps", goal, f"goal {goal:g} tps", style.WARN, outside=True)
    if plan.recommended:
        layers += _draw_recommended(frame, plan.recommended)
    drawn = alt.layer(*layers).properties(width=style.WIDTH - ROOM_RIGHT, height=2.5 * style.PANEL_HEIGHT)
    title = alt.TitleParams("Cost against transactions a second", offset=20)
    return style.configure_chart(drawn.properties(title=title))


def _make_dashes(layouts: Sequence[str]) -> dict:
    """Returns the encoding of layouts by dashes; empty for a single one."""
    if len(layouts) < 2:
        return {}
    shown = [name for name in DASHES if name in layouts]
    scale = alt.Scale(domain=shown, range=[DASHES[name] for name in shown])
    legend = alt.Legend(
        title=None,
        orient="bottom",
        symbolType="stroke",
        symbolSize=400,
        symbolStrokeWidth=2,
        symbolStrokeColor=style.INK,
    )
    return {"strokeDash": alt.StrokeDash("layout:N", scale=scale, legend=legend)}


def _draw_recommended(frame: pl.DataFrame, choice: Choice) -> list[alt.Chart]:
    """Draws a ring around the recommended choice, and its name above the axes, where nothing else
    is drawn."""
    low, high = find_ends(frame, "cost_usd_month")
    cost = choice.cost_usd_month
    on_left = cost < (math.sqrt(low * high) if _is_far_apart(low, high) else (low + high) / 2)
    place = pl.DataFrame([{"cost_usd_month": cost, "tps": choice.metrics["tps"], "text": "recommended"}])
    ring = alt.Chart(place).encode(x="cost_usd_month:Q", y="tps:Q")
    name = ring.mark_text(align="left" if on_left else "right", baseline="bottom", fontWeight="bold", color=style.GOOD)
    return [
        ring.mark_rule(strokeDash=[1, 3], color=style.QUIET).encode(y2=alt.value(0)),
        ring.mark_point(size=160, filled=True, opacity=1, color=style.GOOD),
        name.encode(y=alt.value(-4), text="text:N"),
    ]


def draw_bill_chart(choices: Sequence[tuple[str, Sequence[dict]]]) -> Drawing:
    """Draws the monthly bill of several choices as stacked bars, by kind of item. `choices`: name
    and its items (`item`, `unit`, `usd`)."""
    y = alt.Y("choice:N", sort=[name for name, _ in choices], axis=alt.Axis(title=None))
    x = alt.X("usd:Q", axis=alt.Axis(title="USD a month", labelExpr=SHORT, tickCount=6))
    sums = [(name, sum(item["usd"] for item in items)) for name, items in choices]
    totals = [{"choice": name, "usd": total, "text": format_usd(total)} for name, total in sums if total]
    labels = alt.Chart(pl.DataFrame(totals)).mark_text(align="left", dx=4).encode(y=y, x="usd:Q", text="text:N")
    drawn = (draw_bill_bars(choices, y, x) + labels).properties(
        width=style.WIDTH - 180, height=alt.Step(24), title="The monthly bill"
    )
    return style.configure_chart(drawn)
