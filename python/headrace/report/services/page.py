"""A comparison of services as a chart and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.report.charts import services as charts
from headrace.report.html import Page, write_chart
from headrace.report.services import words

if TYPE_CHECKING:
    from headrace.simulation.services import ServiceComparison


def write_comparison(path: Path, comparison: ServiceComparison) -> None:
    """Writes the chart or the page, by the ending of `path`. Raises CouldNotRun."""
    title = f"{comparison.workload}: EC2, RDS and Aurora"
    chart = charts.side_by_side(comparison, title)

    def page() -> Page:
        report = Page(title, f"Limits and prices of {comparison.as_of}, {comparison.region}")
        report.items(words.head(comparison))
        report.chart(chart, f"{title}: transactions a second with intervals, and the bill of a month by item")
        report.table(words.COLUMNS, words.summary_rows(comparison), right=words.RIGHT)
        report.items([*words.billed(comparison), *words.break_even(comparison)])
        report.heading("Bill of a month")
        report.table(words.ITEMS, words.item_rows(comparison), right=words.ITEMS_RIGHT)
        report.heading("What stands behind it")
        report.items(words.doubts(comparison))
        report.heading("What each cannot do")
        report.items(words.limits(comparison))
        return report

    write_chart(path, chart, page)
