"""Any result of Headrace as a page in a file, and as the fragment of a page that a notebook
shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.base.files import path_of
from headrace.errors import InputError
from headrace.report import databases, plan, proof, simulation, study
from headrace.report.charts import over_time, predictions, studies
from headrace.report.html import Page
from headrace.report.output import CHART_FORMATS, check_chart_path
from headrace.report.words import latency, number, span
from headrace.workload.transactions import RESPONSES

if TYPE_CHECKING:
    from headrace.calibration.score import ComparedRun
    from headrace.experiment.proof import Proof
    from headrace.planner.result import Choice, EngineComparison, Plan
    from headrace.simulation.database import Prediction
    from headrace.simulation.demand import Simulation
    from headrace.studies.base import StudyResult
    from headrace.workload import ClosedWorkload, OpenWorkload, TransactionWorkload

SHOWN_CHOICES = 5  # rows of a notebook's table of choices
# Points of a notebook's chart of a simulation: a notebook keeps every output in its file.
SHOWN_POINTS = 240
SOURCE = "docs/reference/python.md"


@dataclass(frozen=True)
class Presentation:
    """The presentation of results of one type: in a notebook (`fill` adds to a page), and in a file
    (`write`), whose name may have one of `endings`."""

    fill: Callable[[Page, Any], None]
    write: Callable[[Path, Any], None] | None = None
    endings: tuple[str, ...] = (".html",)


def report_html(result: object) -> str:
    """Returns a result as HTML for a notebook: a compact table and a chart as inline SVG. Raises
    InputError for other things."""
    page = Page("")
    _presentation_of(result).fill(page, result)
    return page.fragment()


def write_report(result: object, path: str | Path) -> None:
    """Writes a plan, simulation, prediction, comparison with a run, study, proof or workload as a
    page with its charts (.html); those over time also as the chart alone (.svg, .png). Raises
    InputError for other things, CouldNotRun."""
    shown = _presentation_of(result)
    if shown.write is None:
        raise InputError(type(result).__name__, "has no page of its own", SOURCE, "Give the result it belongs to.")
    file = path_of(path)
    check_chart_path(file, shown.endings)
    shown.write(file, result)


def _presentation_of(result: object) -> Presentation:
    """Finds the presentation by the name of the class: no result is imported before its report is
    asked for."""
    ours = type(result).__module__.startswith("headrace.")
    shown = KINDS.get(type(result).__name__) if ours else None
    if shown is None:
        raise InputError(
            type(result).__name__, "is not a result that can be shown", SOURCE, f"Known: {', '.join(KINDS)}."
        )
    return shown


# --- in a notebook --------------------------------------------------------------------------------


def _plan(page: Page, result: Plan) -> None:
    line, mark = plan.answer_lines(result)[len(result.warnings)]
    page.paragraph(line, mark)
    plan.add_choices(page, result, SHOWN_CHOICES)
    plan.add_cost(page, result, headed=False)


def _choice(page: Page, result: Choice) -> None:
    page.paragraph(result.in_short())
    page.table(plan.BILL, plan.bill_rows(result), plan.BILL_RIGHT)


def _engines(page: Page, result: EngineComparison) -> None:
    page.paragraph(result.words)
    for engine_plan in result.plans:
        _plan(page, engine_plan)


def _simulation(page: Page, result: Simulation) -> None:
    summary, title = result.summary, result.in_short()
    seconds = summary["seconds"]
    rows = [
        ("delivered", f"{number(summary['delivered_ios'] / seconds, 4)} IOPS"),
        ("requests waited for a limit", span(summary["throttled_s"])),
        ("I/O p99", latency(summary["p99_ms"])),
        ("lowest credit balance", "-" if (low := summary["lowest_balance_percent"]) is None else f"{number(low)} %"),
    ]
    page.table((title, ""), rows, ("",))
    if result.workload is not None:
        page.chart(simulation.chart_of(result, result.workload, title, SHOWN_POINTS), f"{title} over time")


def _prediction(page: Page, result: Prediction) -> None:
    summary = result.summary
    interval = (
        ""
        if summary["tps_low"] is None
        else f" ({number(summary['tps_low'])} to {number(summary['tps_high'])}, 80 % interval)"
    )
    rows = [
        ("second half of the run", f"{number(summary['tps'], 4)} tps{interval}"),
        ("response times p50, p95, p99", f"{', '.join(number(summary[name]) for name in RESPONSES)} ms"),
        ("storage", f"{number(summary['iops'], 4)} IOPS, {number(summary['mib_s'])} MiB/s"),
    ]
    page.table((result.in_short(), ""), rows, ("",))
    for words in result.warnings:
        page.paragraph(words, "warn")
    page.chart(predictions.prediction(result, result.in_short()), f"{result.in_short()} over time")


def _comparison(page: Page, result: ComparedRun) -> None:
    page.table(databases.COMPARED, databases.comparison_rows(result), databases.COMPARED_RIGHT)
    page.chart(predictions.comparison(result), "Transactions a second, measured and simulated")


def _demand(page: Page, result: OpenWorkload) -> None:
    page.items(result.describe().splitlines())
    page.chart(over_time.workload(result), f"IOPS and MiB/s of {result.name} over time")


def _closed(page: Page, result: ClosedWorkload) -> None:
    page.items(result.describe().splitlines())


def _database(page: Page, result: TransactionWorkload) -> None:
    page.items(databases.workload_in_words(result))
    if result.parameters:
        page.table(databases.PARAMETERS, databases.parameter_rows(result), databases.PARAMETERS_RIGHT)


def _study(page: Page, result: StudyResult) -> None:
    page.paragraph(result.study.question)
    page.table(*study.verdict_table(result))
    for chart in result.charts[:1]:
        page.chart(studies.study(chart), chart.title)


def _proof(page: Page, result: Proof) -> None:
    page.paragraph(result.verdict)
    page.table(proof.COLUMNS, proof.rows(result), proof.RIGHT)
    for chart, described in list(predictions.of_proof(result, proof.name_of))[:1]:
        page.chart(chart, described)


# By the name of the result's class.
KINDS = {
    "Plan": Presentation(_plan, lambda path, result: plan.write_plans(path, [result])),
    "EngineComparison": Presentation(_engines, lambda path, result: plan.write_plans(path, result.plans, result.words)),
    "Choice": Presentation(_choice),
    "Simulation": Presentation(
        _simulation, lambda path, result: simulation.write_simulation(path, result, result.workload, []), CHART_FORMATS
    ),
    "Prediction": Presentation(
        _prediction, lambda path, result: databases.write_prediction(path, result, result.workload), CHART_FORMATS
    ),
    "ComparedRun": Presentation(
        _comparison,
        lambda path, result: databases.write_comparison(path, result, result.prediction.workload),
        CHART_FORMATS,
    ),
    "StudyResult": Presentation(_study, study.write_study),
    "Proof": Presentation(_proof, proof.write_proof),
    "OpenWorkload": Presentation(_demand, simulation.write_workload, CHART_FORMATS),
    "ClosedWorkload": Presentation(_closed),
    "TransactionWorkload": Presentation(_database),
}
