"""Charts of a plan: cost against what is delivered, of I/Os or of transactions; balances over the day; the bill."""

from __future__ import annotations

import altair as alt
import polars as pl

from headrace.report import charts, style
from headrace.report.simulation import clock_start
from headrace.report.words import usd


def add(made, plan, workload, runs) -> None:
    """Adds the charts of a plan to a page."""
    if plan.subject == "database":
        chart = cost_against_tps(plan)
        if chart is not None:
            made.heading("Cost against transactions a second")
            made.chart(
                chart,
                "Sustained transactions a second with their 80 % interval against monthly cost, along the best candidates of each family",
            )
    else:
        _demand(made, plan, workload, runs)
    _bills(made, plan)


def _demand(made, plan, workload, runs) -> None:
    if workload is not None:
        made.heading("What is asked")
        made.items(workload.describe().splitlines()[:5])
        made.chart(charts.workload(workload), f"IOPS and MiB/s of {workload.name} over time")
    limit = next((goal.limit for goal in plan.goals if goal.metric == "p99_ms"), None)
    best = plan.recommended
    name = None if best is None else f"{best.storage} on {best.instance}" if best.instance else best.storage
    scatter = charts.frontier(plan.frontier, name, limit, "I/O p99")
    if scatter is not None:
        made.heading("Cost against delivered performance")
        made.chart(scatter, "Storages of every family by monthly cost and I/O p99 of the worst five minutes")
    if runs:
        made.heading("How the burst balance moves")
        moving = charts.balances([(name, run.rows) for name, run in runs], clock_start(workload))
        if moving is None:
            made.paragraph(
                f"None of these has credits: {', '.join(name for name, _ in runs)}. What they deliver does not change over the day."
            )
        else:
            made.chart(moving, "Credit balance over the day of " + ", ".join(name for name, _ in runs))


def _bills(made, plan) -> None:
    shown = [plan.recommended, *plan.winners[:4], *plan.closest[:4], plan.in_place, plan.compared]
    bills = list({choice.key: choice for choice in shown if choice is not None}.values())
    if bills and any(item["usd"] for choice in bills for item in choice.items):
        made.heading("What it costs")
        described = "Monthly bill by item: " + ", ".join(f"{choice.place} {usd(choice.cost_usd_month)} USD" for choice in bills)
        made.chart(charts.cost_items([(choice.place, list(choice.items)) for choice in bills]), described)


def cost_against_tps(plan) -> alt.TopLevelMixin | None:
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
    if plan.recommended:
        best = pl.DataFrame(
            {"cost_usd_month": [plan.recommended.cost_usd_month], "tps": [plan.recommended.metrics["tps"]], "text": ["recommended"]}
        )
        ring = alt.Chart(best).encode(x="cost_usd_month:Q", y="tps:Q")
        layers += [ring.mark_point(size=220, strokeWidth=2, color=style.INK), ring.mark_text(dy=18, color=style.INK).encode(text="text:N")]
    return style.configured(alt.layer(*layers).properties(width=style.WIDTH, height=2.5 * style.PANEL_HEIGHT))
