"""Pages and chart files of databases in transactions."""

from __future__ import annotations

from pathlib import Path

from headrace.report import database_charts as charts
from headrace.report import databases as words
from headrace.report.html import Page
from headrace.report.pages import write_chart


def write_prediction(path: Path, run, workload) -> None:
    """A prediction as a chart or a page, by the ending of `path`. Raises CouldNotRun."""
    title = f"{workload.name} on {run.storage}"
    chart = charts.prediction(run, title)

    def page() -> Page:
        made = Page(title, f"Limits of {run.as_of}")
        made.items(words.in_words(run, workload))
        made.chart(chart, f"{title} over time: transactions, I/Os, bytes, cache")
        made.heading("What stands behind it")
        made.items(words.workload_in_words(workload))
        return made

    write_chart(path, chart, page)


def write_comparison(path: Path, found, workload) -> None:
    """A run beside its prediction as a chart or a page, by the ending of `path`. Raises CouldNotRun."""
    chart = charts.comparison(found)

    def page() -> Page:
        made = Page(f"{found.run.name}: measured and simulated", f"Predicted with {workload.name}")
        made.table(("figure", "unit", "measured", "predicted", "error %"), [
            (row["what"], row["unit"], _cell(row["measured"]), _cell(row["predicted"]), _cell(row["error_percent"], 2)) for row in found.figures
        ], right=("measured", "predicted", "error %"))  # fmt: skip
        made.chart(chart, "One-second throughput, measured and simulated, over time and as densities of the second half")
        made.heading("What stands behind the prediction")
        made.items([*found.prediction.warnings, *words.workload_in_words(workload)])
        return made

    write_chart(path, chart, page)


def _cell(value: float | None, digits: int = 4) -> str:
    from headrace.report.words import number

    return "" if value is None else number(value, digits)
