"""Any result of Headrace as a page in a file, and as HTML for a notebook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.base.files import make_path
from headrace.errors import Refusals
from headrace.report import databases, plan, proof, simulation, study
from headrace.report.charts import over_time, predictions, studies
from headrace.report.html import render_fragment, write_view
from headrace.report.output import CHART_FORMATS, PAGE_FORMATS, check_chart_path
from headrace.report.view import Block, Chart, Column, Items, Sentence, Table, View
from headrace.report.words import format_latency, format_number, format_span
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
refuse = Refusals("docs/reference/python.md")


@dataclass(frozen=True)
class Presentation:
    """The views of results of one type: in a notebook (`build_short`: with a few blocks), and in a
    file (`build_page`; None: there is no page), whose name may have one of `endings`."""

    build_short: Callable[[Any], View]
    build_page: Callable[[Any], View] | None = None
    endings: tuple[str, ...] = PAGE_FORMATS


def report_html(result: object) -> str:
    """Returns a result as HTML for a notebook: a compact table and a chart as inline SVG. Raises
    InputError for other things."""
    return render_fragment(_find_presentation(result).build_short(result))


def write_report(result: object, path: str | Path) -> None:
    """Writes a plan, simulation, prediction, comparison with a run, study, proof or workload as a
    page with its charts (.html) or as Markdown (.md); those over time also as the chart alone
    (.svg, .png). Raises InputError for other things, CouldNotRun."""
    presentation = _find_presentation(result)
    if presentation.build_page is None:
        raise refuse.input(type(result).__name__, "has no page of its own", "Give the result it belongs to.")
    file = make_path(path)
    check_chart_path(file, presentation.endings)
    write_view(file, presentation.build_page(result))


def _find_presentation(result: object) -> Presentation:
    """Returns the presentation of a result by the name of its class, so that no class of results is
    imported here. Raises InputError for other values."""
    is_own = type(result).__module__.startswith("headrace.")
    presentation = KINDS.get(type(result).__name__) if is_own else None
    if presentation is None:
        raise refuse.input(type(result).__name__, "is not a result that can be shown", f"Known: {', '.join(KINDS)}.")
    return presentation


# --- in a notebook --------------------------------------------------------------------------------


def _build_plan_view(result: Plan) -> View:
    return plan.build_short_view(result, SHOWN_CHOICES)


def _build_choice_view(result: Choice) -> View:
    return View(
        result.place, blocks=[Sentence(result.describe_briefly()), Table(plan.BILL, plan.list_bill_rows(result))]
    )


def _build_engine_view(result: EngineComparison) -> View:
    blocks = [block for engine_plan in result.plans for block in _build_plan_view(engine_plan).blocks]
    return View("", blocks=[Sentence(result.words), *blocks])


def _make_figure_columns(title: str) -> tuple[Column, ...]:
    return (Column(title), Column("", "number"))


def _build_simulation_view(result: Simulation) -> View:
    """Returns rates, waits, latency and credits of a simulation, with its chart if it has its
    demand."""
    summary, title = result.summary, result.describe_briefly()
    seconds = summary["seconds"]
    rows = [
        ("delivered", f"{format_number(summary['delivered_ios'] / seconds, 4)} IOPS"),
        ("requests waited for a limit", format_span(summary["throttled_s"])),
        ("I/O p99", format_latency(summary["p99_ms"])),
        (
            "lowest credit balance",
            "-" if (low := summary["lowest_balance_percent"]) is None else f"{format_number(low)} %",
        ),
    ]
    blocks: list[Block] = [Table(_make_figure_columns(title), rows)]
    if (workload := result.workload) is not None:
        drawn = Chart(lambda: simulation.draw_chart(result, workload, title, SHOWN_POINTS), f"{title} over time")
        blocks.append(drawn)
    return View(title, blocks=blocks)


def _build_prediction_view(result: Prediction) -> View:
    """Returns transactions a second, response times in ms and the load of the storage in a
    prediction, with its chart."""
    summary, title = result.summary, result.describe_briefly()
    interval = (
        ""
        if summary["tps_low"] is None
        else f" ({format_number(summary['tps_low'])} to {format_number(summary['tps_high'])}, 80 % interval)"
    )
    rows = [
        ("second half of the run", f"{format_number(summary['tps'], 4)} tps{interval}"),
        ("response times p50, p95, p99", f"{', '.join(format_number(summary[name]) for name in RESPONSES)} ms"),
        ("storage", f"{format_number(summary['iops'], 4)} IOPS, {format_number(summary['mib_s'])} MiB/s"),
    ]
    warnings = [Sentence(words, "warn") for words in result.warnings]
    drawn = Chart(lambda: predictions.draw_prediction(result, title), f"{title} over time")
    return View(title, blocks=[Table(_make_figure_columns(title), rows), *warnings, drawn])


def _build_comparison_view(result: ComparedRun) -> View:
    drawn = Chart(lambda: predictions.draw_comparison(result), "Transactions a second, measured and simulated")
    return View("", blocks=[databases.build_comparison_table(result), drawn])


def _build_demand_view(result: OpenWorkload) -> View:
    drawn = Chart(lambda: over_time.draw_workload(result), f"IOPS and MiB/s of {result.name} over time")
    return View(result.name, blocks=[Items(result.describe().splitlines()), drawn])


def _build_closed_view(result: ClosedWorkload) -> View:
    return View(result.name, blocks=[Items(result.describe().splitlines())])


def _build_database_view(result: TransactionWorkload) -> View:
    rows = databases.list_parameter_rows(result)
    table: list[Block] = [Table(databases.PARAMETERS, rows)] if result.parameters else []
    return View(result.name, blocks=[Items(databases.describe_database(result)), *table])


def _build_study_view(result: StudyResult) -> View:
    drawn = [Chart(partial(studies.draw_study, chart), chart.title) for chart in result.charts[:1]]
    return View(result.study.title, blocks=[Sentence(result.study.question), study.build_verdict_table(result), *drawn])


def _build_proof_view(result: Proof) -> View:
    drawn = [chart for chart in proof.build_view(result).blocks if isinstance(chart, Chart)][:1]
    return View(result.verdict, blocks=[Sentence(result.verdict), proof.build_table(result), *drawn])


# By the name of the result's class.
KINDS = {
    "Plan": Presentation(_build_plan_view, plan.build_plan_view),
    "EngineComparison": Presentation(_build_engine_view, plan.build_engine_view),
    "Choice": Presentation(_build_choice_view),
    "Simulation": Presentation(
        _build_simulation_view, lambda result: simulation.build_view(result, result.workload, []), CHART_FORMATS
    ),
    "Prediction": Presentation(
        _build_prediction_view, lambda result: databases.build_view(result, result.workload), CHART_FORMATS
    ),
    "ComparedRun": Presentation(
        _build_comparison_view,
        lambda result: databases.build_comparison_view(result, result.prediction.workload),
        CHART_FORMATS,
    ),
    "StudyResult": Presentation(_build_study_view, study.build_view),
    "Proof": Presentation(_build_proof_view, proof.build_view),
    "OpenWorkload": Presentation(_build_demand_view, simulation.build_demand_view, CHART_FORMATS),
    "ClosedWorkload": Presentation(_build_closed_view),
    "TransactionWorkload": Presentation(_build_database_view),
}
