"""A comparison of services as a chart and a page."""

from __future__ import annotations

from pathlib import Path

from headrace.report.charts import services as charts
from headrace.report.html import Page, write_chart
from headrace.report.services import words


def write_comparison(path: Path, found) -> None:
    """The chart or the page, by the ending of `path`. Raises CouldNotRun."""
    title = f"{found.workload}: EC2, RDS and Aurora"
    chart = charts.side_by_side(found, title)

    def page() -> Page:
        made = Page(title, f"Limits and prices of {found.as_of}, {found.region}")
        made.items(words.head(found))
        made.chart(chart, f"{title}: transactions a second with intervals, and the bill of a month by item")
        made.table(words.COLUMNS, words.summary_rows(found), right=words.RIGHT)
        made.items([*words.billed(found), *words.break_even(found)])
        made.heading("Bill of a month")
        made.table(words.ITEMS, words.item_rows(found), right=words.ITEMS_RIGHT)
        made.heading("What stands behind it")
        made.items(words.doubts(found))
        made.heading("What each cannot do")
        made.items(words.limits(found))
        return made

    write_chart(path, chart, page)
