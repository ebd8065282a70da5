"""`headrace study`: published experiments, listed, and run again: on the model, or for real on the
lab."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.base.lazy import defer_imports
from headrace.cli.options import ReportOption, TableOrJsonOption, make_choice, make_flag, make_option
from headrace.cli.output import Ticker, exit_if, make_table, print_json, show, show_progress, write_report
from headrace.cli.sharing import read_epilog
from headrace.errors import InputError
from headrace.report.output import PAGE_FORMATS, check_chart_path

if TYPE_CHECKING:
    from headrace.studies import StudyResult

with defer_imports():
    from headrace import studies as published_studies
    from headrace.report import study as study_report
    from headrace.report import words

EPILOG = read_epilog("study")


def complete_study(incomplete: str) -> list[str]:
    """Returns names of studies for the shell."""
    return [study.name for study in published_studies.list_all_studies() if study.name.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class LabRunOptions:
    """Options of a run on the lab, which the model has none of."""

    scale: Annotated[
        float | None,
        make_option("F", "Lab: data and cache as a share of the published ones. Default: what fits the time."),
    ] = None
    minutes: Annotated[
        float | None, make_option("M", "Lab: approximate minutes for all cells. Default: 10, with --quick 3.")
    ] = None
    quick: Annotated[bool, make_flag("--quick", "Lab: run the fewest cells that answer the question.")] = False
    resume: Annotated[
        bool,
        make_flag("--resume", "Lab: take complete runs of the store with the same configuration; measure the others."),
    ] = False
    seed: Annotated[int | None, make_option("N", "Lab: seed for the clients' random numbers. Default: 1.")] = None
    store: Annotated[
        Path | None, make_option("DIR", "Lab: folder of the runs. Default: $HEADRACE_RUNS, as for headrace bench.")
    ] = None
    work: Annotated[
        Path | None,
        make_option(
            "DIR",
            "Lab: folder of the volumes during the study. Default: memory if they fit, else the system's folder for temporary files.",
        ),
    ] = None


def study(
    on_lab: LabRunOptions,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A study. Default: list all studies.", autocompletion=complete_study),
    ] = None,
    on: Annotated[
        Literal["model", "lab"],
        make_choice("model: simulated, seconds. lab: a real server on this machine, minutes; needs Linux and root."),
    ] = "model",
    report: ReportOption = None,
    output: TableOrJsonOption = "table",
) -> None:
    """Run a published experiment again: its figures, ours, and the error; exit code 1 when a figure
    is off by more than promised, or a direction does not hold. Without a name: list the studies."""
    check_chart_path(report, PAGE_FORMATS)
    given: dict[str, Any] = {
        option: value for option, value in vars(on_lab).items() if value is not None and value is not False
    }
    if name is None:
        if given or on != "model" or report is not None:
            raise InputError("NAME", "is missing: which study is to run?", "headrace study", "For example gp2-burst.")
        return _print_studies(output)
    with show_progress(f"running {name}") as tick:
        if on == "lab":
            result = published_studies.run_on_lab(name, progress=_make_progress(tick), say=tick.say, **given)
        else:
            published_studies.refuse_lab_options(given)
            result = published_studies.run_study(name, progress=tick)
    write_report(report, lambda: study_report.build_view(result))
    if output == "json":
        print_json(result)
    else:
        _print(result)
    exit_if(study_report.count_misses(result))


def _print_studies(output: str) -> None:
    """Prints the studies with the places where each runs and their sources."""
    studies = published_studies.list_all_studies()
    if output == "json":
        return print_json(studies)
    rows = [
        (
            study.name,
            ", ".join(published_studies.list_places(study.name)),
            study.title,
            "; ".join(map(str, study.sources)),
        )
        for study in studies
    ]
    show(make_table(("name", "runs on", "title", "sources"), rows))


def _make_progress(tick: Ticker):
    """Makes a progress function whose bar says which cell is being run."""

    def tell(share: float, what: str) -> None:
        tick(share)
        tick.describe(what[:60])

    return tell


def _print(result: StudyResult) -> None:
    """Prints the verdicts, tables and notes of a study."""

    def format_cell(value: object) -> object:
        return words.format_number(value, 4) if isinstance(value, float) else value

    verdicts = replace(study_report.build_verdict_table(result), title=f"{result.study.name}: {result.study.title}")
    parts: list[object] = [result.study.question, "", verdicts, ""]
    for item in result.tables:
        parts += [
            make_table(item.columns, [[format_cell(value) for value in row] for row in item.rows], title=item.title),
            "",
        ]
    count, what = study_report.tally(result)
    show(*parts, f"{count or '0 of 0'} {what}.", *(f"note: {note}" for note in result.notes))
