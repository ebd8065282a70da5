"""The pages and chart files: of a workload, a run, a study. Each takes results and writes one file, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headrace.base.files import write_whole
from headrace.report import charts
from headrace.report.html import Page, png, svg
from headrace.report.output import write_text
from headrace.report.simulation import clock_start, in_words
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
        made.items(line for line in workload.describe().splitlines() if line.removeprefix("Caveat: ") not in notes)
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
