"""A comparison of services as a chart and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.report.charts import services as charts
from headrace.report.html import write_chart
from headrace.report.services import words

if TYPE_CHECKING:
    from headrace.simulation.services import ServiceComparison


def write_comparison(path: Path, comparison: ServiceComparison) -> None:
    """Writes the chart or the page, by the ending of `path`. Raises CouldNotRun."""
    chart = charts.side_by_side(comparison, words.title_of(comparison))
    write_chart(path, chart, lambda: words.view_of(comparison))
