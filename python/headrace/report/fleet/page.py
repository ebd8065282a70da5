"""The answers for a fleet as one page, or savings against risk as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.errors import InputError
from headrace.report.fleet import words
from headrace.report.fleet.chart import savings_against_risk
from headrace.report.html import write_chart
from headrace.report.output import PAGE_FORMATS


def write_fleet(path: Path, answers: Sequence, prices: str, notes: Sequence[str] = ()) -> None:
    """Writes the page, or the chart alone, by the ending of `path`. Raises InputError where there
    is nothing to draw, CouldNotRun."""
    chart = savings_against_risk(answers)
    if chart is None and path.suffix.lower() not in PAGE_FORMATS:
        raise InputError(str(path), "nothing can be changed, so there is no chart", "", "Write a page: .html.")
    write_chart(path, chart, lambda: words.view_of(answers, prices, notes, chart))
