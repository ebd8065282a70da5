"""Charts of a plan for transactions."""

from __future__ import annotations

import altair as alt
import polars as pl

from headrace.report import style


def cost_against_tps(plan) -> alt.LayerChart | None:
    """Sustained tps with the 80 % interval against monthly cost: a line for each family, the goal dashed, the winner ringed. None where there are under two points."""
    points = [
        point | {"name": f"{point['family']} on {point['instance']}" if point["instance"] else point["family"]} for point in plan.frontier
    ]
    if len(points) < 2:
        return None
    frame = pl.DataFrame(points, infer_schema_length=None).sort("name", "cost_usd_month")
    names = frame["name"].unique(maintain_order=True).to_list()
    types = dict(zip(frame["name"], frame["family"], strict=True))
    colours = [style.FAMILY_COLOURS.get(types[name].split(" ")[0], style.OTHER_FAMILY) for name in names]
    dashes = [[4, 3] if "RAID" in name else [1, 0] for name in names]
    x = alt.X("cost_usd_month:Q", title="USD a month, instance included", scale=alt.Scale(zero=False))
    y = alt.Y("tps:Q", title="sustained tps (80 % interval)", scale=alt.Scale(zero=True))
    colour = alt.Color("name:N", scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(title=None, orient="bottom", columns=2))
    dash = alt.StrokeDash("name:N", scale=alt.Scale(domain=names, range=dashes), legend=None)
    base = alt.Chart(frame)
    layers = [
        base.mark_rule(opacity=0.35, strokeWidth=3).encode(x=x, y=alt.Y("tps_low:Q"), y2="tps_high:Q", color=colour),
        base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash),
        base.mark_point(size=30, filled=True).encode(x=x, y=y, color=colour),
    ]
    goal = next((goal.limit for goal in plan.goals if goal.metric == "tps"), None)
    if goal is not None:
        wanted = alt.Chart(pl.DataFrame({"tps": [goal], "text": [f"goal {goal:g} tps"]}))
        layers.append(wanted.mark_rule(strokeDash=[6, 4], color=style.WARN).encode(y="tps:Q"))
        layers.append(wanted.mark_text(align="left", dy=-7, color=style.WARN).encode(x=alt.value(4), y="tps:Q", text="text:N"))
    if plan.winner:
        best = pl.DataFrame({"cost_usd_month": [plan.winner.cost_usd_month], "tps": [plan.winner.metrics["tps"]], "text": ["cheapest"]})
        ring = alt.Chart(best).encode(x="cost_usd_month:Q", y="tps:Q")
        layers += [ring.mark_point(size=220, strokeWidth=2, color=style.INK), ring.mark_text(dy=18, color=style.INK).encode(text="text:N")]
    return style.configured(alt.layer(*layers).properties(width=style.WIDTH, height=2.5 * style.PANEL_HEIGHT))
