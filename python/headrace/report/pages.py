"""The pages and chart files: of a workload, a run, a plan, a study. Each takes results and writes one file, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headrace.report import charts
from headrace.report.html import Page, png, svg
from headrace.report.output import write_text
from headrace.report.plan import CHOICE_RIGHT, bill_rows, choice_table, found, goals_in_words, name_of, verdict_rows
from headrace.report.simulation import clock_start, in_words
from headrace.report.words import usd
from headrace.workload.files import write_whole
from headrace.workload.model import ClosedWorkload


def write_chart(path: Path, chart, page: Callable[[], Page]) -> None:
    """A chart as .svg or .png, or the page around it as .html."""
    match path.suffix.lower():
        case ".svg":
            write_text(path, svg(chart))
        case ".png":
            write_whole(path, png(chart))
        case _:
            write_text(path, page().render())


def write_simulation(path: Path, run, workload, notes: list[str]) -> None:
    """A run as a chart or a page, by the ending of `path`. Raises CouldNotRun."""
    where = f"{run.storage} on {run.instance}" if run.instance else run.storage
    title = f"{workload.name} on {where}"
    chart = charts.simulation(run.rows, title, clock_start(workload), isinstance(workload, ClosedWorkload))

    def page() -> Page:
        made = Page(title, f"Limits of {run.as_of}, seed {run.seed}")
        made.items(in_words(run, workload))
        made.chart(chart, f"{title} over time: demand, what was delivered, queue, balances and latency")
        made.heading("What was asked")
        made.items(workload.describe().splitlines())
        if notes:
            made.heading("What to know before trusting this")
            made.items(notes)
        return made

    write_chart(path, chart, page)


def write_workload(path: Path, workload) -> None:
    """A workload as a chart or a page, by the ending of `path`. Raises InputError for a closed load, CouldNotRun."""
    from headrace.errors import InputError

    if isinstance(workload, ClosedWorkload):
        raise InputError(workload.name, "a closed load has no shape to draw", "docs/reference/workload-file.md, Closed workloads",
                         "Simulate it, and plot that.")  # fmt: skip
    chart = charts.workload(workload)

    def page() -> Page:
        made = Page(f"What {workload.name} asks")
        made.items(workload.describe().splitlines())
        made.chart(chart, f"IOPS and MiB/s of {workload.name} over time")
        return made

    write_chart(path, chart, page)


def write_plan(path: Path, plan, workload, runs: list[tuple[str, object]]) -> None:
    """A plan as a page. `runs`: names and simulations of the choices whose balance is drawn, made by the caller. Raises CouldNotRun."""
    made = Page(
        f"Storage for {workload.name}",
        f"Prices of {plan.region}, limits of {plan.as_of}, demand times {plan.growth:g}, {plan.size_gib:g} GiB of data",
    )
    for line, mark in found(plan):
        made.paragraph(line, mark)
    made.heading("Goals")
    made.items(goals_in_words(plan))
    made.heading("The cheapest that meet them" if plan.winners else "What comes closest")
    shown = plan.winners or plan.closest
    if shown:
        columns, rows = choice_table(plan)
        made.table(columns, rows, CHOICE_RIGHT, first=bool(plan.winners))
    _plan_charts(made, plan, workload, runs, shown)
    made.heading("Why the others lost")
    made.table(("family", "outcome", "best candidate", "USD/month", "why"), verdict_rows(plan), ("USD/month",))
    if shown:
        made.heading(f"The bill of {name_of(shown[0])}")
        made.table(
            ("item", "quantity", "unit", "unit price", "USD", "source", "as of"), bill_rows(shown[0]), ("quantity", "unit price", "USD")
        )
    made.heading("The arithmetic")
    made.lines(plan.explain)
    made.heading("What to know before buying")
    made.items(list(dict.fromkeys([*plan.caveats, *(note for choice in shown[:1] for note in choice.caveats)])))
    made.items(f"{name} was left out: {why}" for name, why in plan.skipped_instances)
    write_text(path, made.render())


def _plan_charts(made: Page, plan, workload, runs, shown) -> None:
    made.heading("What is asked")
    made.items(workload.describe().splitlines()[:5])
    made.chart(charts.workload(workload), f"IOPS and MiB/s of {workload.name} over time")
    limit = next((goal.limit for goal in plan.goals if goal.metric == "p99_ms"), None)
    scatter = charts.frontier(plan.frontier, name_of(shown[0]) if plan.winners else None, limit)
    if scatter is not None:
        made.heading("Cost against delivered performance")
        made.chart(scatter, "Every family's storages by monthly cost and p99 latency")
    if runs:
        made.heading("How the burst balance moves")
        moving = charts.balances([(name, run.rows) for name, run in runs], clock_start(workload))
        if moving is None:
            made.paragraph(
                f"None of these has credits: {', '.join(name for name, _ in runs)}. What they deliver does not change over the day."
            )
        else:
            made.chart(moving, "Credit balance over the day of " + ", ".join(name for name, _ in runs))
    bills = [*shown[:5], *([plan.compared] if plan.compared else [])]
    if bills and any(item["usd"] for choice in bills for item in choice.items):
        made.heading("What it costs")
        made.chart(
            charts.cost_items([(name_of(choice), list(choice.items)) for choice in bills]),
            "Monthly bill by item: " + ", ".join(f"{name_of(c)} {usd(c.cost_usd_month)} USD" for c in bills),
        )


def write_study(path: Path, result) -> None:
    """A study as a page. Raises CouldNotRun."""
    from headrace.report.study import verdict_table
    from headrace.report.study_charts import study

    made = Page(result.study.title, result.study.question)
    if result.on == "lab":
        made.paragraph("Published, simulated beforehand and measured on this machine's lab, at the scale in the table below.")
    made.table(*verdict_table(result))
    for chart in result.charts:
        made.chart(study(chart), chart.title)
    for table in result.tables:
        made.heading(table.title)
        made.table(table.columns, table.rows)
    if result.notes:
        made.heading("Notes")
        made.items(result.notes)
    made.heading("Sources")
    made.items(str(source) for source in result.study.sources)
    write_text(path, made.render())
