"""A study's verdicts as cells, and its page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.report.words import number

if TYPE_CHECKING:
    from headrace.studies.base import StudyResult, Verdict

VERDICT_COLUMNS = ("what", "published", "ours", "unit", "error", "within", "source", "note")
VERDICT_RIGHT = ("published", "ours", "error")
LAB_COLUMNS = ("what", "published", "simulated", "measured", "unit", "error", "held", "source", "note")
LAB_RIGHT = ("error",)


def verdict_table(result: StudyResult) -> tuple[tuple[str, ...], list[tuple[str, ...]], tuple[str, ...]]:
    """Returns (columns, rows, columns of numbers) of a study's verdicts; one that ran on the lab
    has simulated and measured side by side."""
    if result.on != "lab":
        return VERDICT_COLUMNS, [verdict_cells(verdict) for verdict in result.verdicts], VERDICT_RIGHT
    rows = []
    for verdict in result.verdicts:
        cells = verdict_cells(verdict)
        simulated = "" if verdict.simulated is None else _figure(verdict.simulated)
        rows.append((cells[0], cells[1], simulated, *cells[2:]))
    return LAB_COLUMNS, rows, LAB_RIGHT


def verdict_cells(verdict: Verdict) -> tuple[str, ...]:
    """Returns a published figure and ours as text."""
    error = "" if verdict.error_percent is None else f"{verdict.error_percent:+.2f} %"
    within = "" if verdict.within is None else "yes" if verdict.within else "NO"
    if within and verdict.tolerance_percent is not None:
        within += f" (±{verdict.tolerance_percent:g} %)"
    published, ours = _figure(verdict.published), _figure(verdict.ours)
    return (verdict.what, published, ours, verdict.unit, error, within, str(verdict.source), verdict.note)


def _figure(value: object) -> str:
    return value if isinstance(value, str) else number(float(value), 4)  # type: ignore[arg-type]


def misses(result: StudyResult) -> int:
    """Counts the verdicts that are outside what was promised."""
    return sum(verdict.within is False for verdict in result.verdicts)


def write_study(path: Path, result: StudyResult) -> None:
    """Writes a study as a page. Raises CouldNotRun."""
    from headrace.report.charts.studies import study
    from headrace.report.html import Page, write_page

    report = Page(result.study.title, result.study.question)
    if result.on == "lab":
        report.paragraph(
            "Published, simulated beforehand and measured on this machine's lab, at the scale in the table below."
        )
    report.table(*verdict_table(result))
    for chart in result.charts:
        report.chart(study(chart), chart.title)
    for table in result.tables:
        report.heading(table.title)
        report.table(table.columns, table.rows)
    if result.notes:
        report.heading("Notes")
        report.items(result.notes)
    report.heading("Sources")
    report.items(str(source) for source in result.study.sources)
    write_page(path, report)
