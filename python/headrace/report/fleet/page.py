"""The answers for a fleet as one page, or savings against risk as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import InputError
from headrace.report.fleet import words
from headrace.report.fleet.chart import savings_against_risk
from headrace.report.html import Page, write_chart, write_page

if TYPE_CHECKING:
    import altair as alt

MOST_ROWS = 500  # of each table; a page of ten thousand opens slowly, and Parquet has them all


def write_fleet(path: Path, answers: Sequence, prices: str, notes: Sequence[str] = ()) -> None:
    """Writes the page, or the chart alone, by the ending of `path`. Raises InputError where there
    is nothing to draw, CouldNotRun."""
    chart = savings_against_risk(answers)
    if chart is None:
        if path.suffix.lower() != ".html":
            raise InputError(str(path), "nothing can be changed, so there is no chart", "", "Write a page: .html.")
        write_page(path, fleet_page(answers, prices, notes, None))
    else:
        write_chart(path, chart, lambda: fleet_page(answers, prices, notes, chart))


def fleet_page(answers: Sequence, prices: str, notes: Sequence[str], chart: alt.TopLevelMixin | None) -> Page:
    """Returns the whole page."""
    page = Page("Fleet: what each volume needs", f"{words.head(answers, prices)[0]}")
    page.items([*words.head(answers, prices)[1:], *notes])
    change = words.of_verdict(answers, "change")
    if chart is not None:
        page.chart(
            chart,
            f"Savings against risk of what can be changed ({words.counted(len(change), 'device')}); the table below has the "
            "same figures",
        )
    for verdict, title in words.TITLES.items():
        groups = words.groups_of(answers, verdict)
        if groups or verdict == "change":
            page.heading(title)
            _table(page, verdict, groups)
    if bound := words.bound_rows(answers):
        page.heading("The instance binds")
        page.paragraph("A larger volume brings nothing there: the instance's own limit to EBS is what they take.")
        page.table(words.BOUND, bound[:MOST_ROWS], right=words.RIGHT)
        _cut(page, len(bound))
    page.heading("Advice withheld")
    withheld = words.withheld_rows(answers)
    if withheld:
        page.paragraph(
            "A volume is first predicted as it is. Where that fails, or too little is known of it, it gets no advice."
        )
        page.table(words.REASONS, words.reasons(answers)[:MOST_ROWS], right=words.RIGHT)
        page.table(words.WITHHELD, withheld[:MOST_ROWS])
        _cut(page, len(withheld))
    else:
        page.paragraph("No volume was left without an answer.", "good")
    keep = words.of_verdict(answers, "keep")
    page.heading("Right as they are")
    page.paragraph(
        f"{words.counted(len(keep), 'device')} {'stays as it is' if len(keep) == 1 else 'stay as they are'}."
    )
    return page


def _table(page: Page, verdict: str, groups: Sequence[words.AnswerGroup]) -> None:
    if not groups:
        page.paragraph("Nothing can be changed that saves noticeably and meets the goals.")
        return
    if verdict == "unused":
        page.table(words.UNUSED, words.unused_rows(groups[:MOST_ROWS]), right=words.RIGHT)
    else:
        page.table(words.COLUMNS, words.rows(groups[:MOST_ROWS]), right=words.RIGHT)
    _cut(page, len(groups))


def _cut(page: Page, count: int) -> None:
    if count > MOST_ROWS:
        page.paragraph(f"The first {MOST_ROWS:,} of {count:,}; all are in the Parquet and CSV output.")
