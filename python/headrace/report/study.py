"""A study as tables and as a page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.base.lazy import defer_imports
from headrace.report.charts.rows import TABLE_ROWS
from headrace.report.view import Block, Card, Chart, Fold, Heading, Items, Sentence, Table, View, make_columns
from headrace.report.words import format_number

with defer_imports():
    from headrace.report.charts import studies

if TYPE_CHECKING:
    from headrace.studies.base import ChartData, StudyResult, Verdict

BRIEF = ("what", "published", "ours", "measured", "unit", "within", "held")
VERDICTS = make_columns(
    ("what", "published", "ours", "unit", "error", "within", "source", "note"),
    number=("published", "ours", "error"),
    brief=BRIEF,
)
LAB_VERDICTS = make_columns(
    ("what", "published", "simulated", "measured", "unit", "error", "held", "source", "note"),
    number=("error",),
    brief=BRIEF,
)


def build_verdict_table(result: StudyResult) -> Table:
    """Returns a study's verdicts as a table, with simulated and measured side by side if it ran on
    the lab."""
    if result.on != "lab":
        return Table(VERDICTS, [list_verdict_cells(verdict) for verdict in result.verdicts])
    rows = []
    for verdict in result.verdicts:
        cells = list_verdict_cells(verdict)
        simulated = "" if verdict.simulated is None else _format_figure(verdict.simulated)
        rows.append((cells[0], cells[1], simulated, *cells[2:]))
    return Table(LAB_VERDICTS, rows)


def list_verdict_cells(verdict: Verdict) -> tuple[str, ...]:
    """Returns a published figure and the repeated one as text, with the error in % and whether it
    is within its bounds."""
    error = "" if verdict.error_percent is None else f"{verdict.error_percent:+.2f} %"
    within = "" if verdict.within is None else "yes" if verdict.within else "NO"
    if within and verdict.tolerance_percent is not None:
        within += f" (±{verdict.tolerance_percent:g} %)"
    published, repeated = _format_figure(verdict.published), _format_figure(verdict.ours)
    return (verdict.what, published, repeated, verdict.unit, error, within, str(verdict.source), verdict.note)


def _format_figure(value: object) -> str:
    return value if isinstance(value, str) else format_number(float(value), 4)  # type: ignore[arg-type]


def count_misses(result: StudyResult) -> int:
    """Returns the number of figures that are outside the tolerance that the study promises."""
    return sum(verdict.within is False for verdict in result.verdicts)


def build_view(result: StudyResult) -> View:
    """Returns a study as a view."""
    blocks: list[Block] = []
    if result.on == "lab":
        words = "Published, simulated beforehand and measured on this machine's lab, at the scale in the table below."
        blocks.append(Sentence(words))
    blocks += [Chart(partial(studies.draw_study, chart), chart.title) for chart in result.charts]
    blocks += [Heading("Published and simulated" if result.on != "lab" else "Published, simulated and measured")]
    blocks.append(build_verdict_table(result))
    for table in result.tables:
        blocks += [Heading(table.title), Table(make_columns(table.columns), table.rows)]
    blocks += [_build_points(panel) for chart in result.charts for panel in chart.panels or (chart,)]
    if result.notes:
        blocks.append(Fold("Caveats", [Items(result.notes)]))
    blocks.append(Fold("Sources", [Items([str(source) for source in result.study.sources])]))
    return View(result.study.title, result.study.question, build_cards(result), blocks)


def _build_points(chart: ChartData) -> Fold:
    """Returns the points of a chart as a folded table, with at most TABLE_ROWS of each line."""
    rows = []
    for series in chart.series:
        points = [(x, y) for x, y in zip(series.x, series.y, strict=True) if y is not None]
        for x, y in points[:: -(-len(points) // TABLE_ROWS) or 1]:
            label = x if isinstance(x, str) else format_number(float(x), 4)
            rows.append((series.label, series.role, label, format_number(y, 4)))
    titles = ("series", "kind", chart.x_title, chart.y_title)
    return Fold(f"{chart.title} as a table", [Table(make_columns(titles, number=titles[2:]), rows)])


def tally(result: StudyResult) -> tuple[str, str]:
    """Returns how many of the figures with a tolerance are within it, `5 of 6` ("" where none has
    one), and the words that follow."""
    promised = sum(verdict.within is not None for verdict in result.verdicts)
    words = "directions and ratios hold" if result.on == "lab" else "figures are within what was promised"
    return f"{promised - count_misses(result)} of {promised}" if promised else "", words


def build_cards(result: StudyResult) -> list[Card]:
    """Returns cards with the number of figures within tolerance, and the largest error."""
    count, what = tally(result)
    figures = [Card("Repeated", count, what, "warn" if count_misses(result) else "good")] if count else []
    judged = [
        verdict for verdict in result.verdicts if verdict.error_percent is not None and verdict.within is not None
    ]
    if judged:
        worst = max(judged, key=lambda verdict: abs(verdict.error_percent or 0.0))
        allowed = "" if worst.tolerance_percent is None else f"; ±{worst.tolerance_percent:g} % was promised"
        label = f"Largest error: {worst.what}"
        figures.append(
            Card(
                label,
                f"{worst.error_percent:+.2f} %",
                f"{_format_figure(worst.ours)} against {_format_figure(worst.published)} {worst.unit}{allowed}.",
            )
        )
    return figures
