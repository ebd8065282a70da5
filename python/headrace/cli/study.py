"""`headrace study`: published experiments, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import TableOrJson, complete_study, data, progress, say

EPILOG = """\b
Examples:
  headrace study list
  headrace study run gp2-burst --report gp2-burst.html"""

app = typer.Typer(
    no_args_is_help=True, help="Published experiments run again: their figures, ours, and the error.",
    epilog=EPILOG,
)  # fmt: skip

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A study of `headrace study list`.", autocompletion=complete_study)]
OutputOption = Annotated[TableOrJson, typer.Option("--output", help="What to print on stdout.")]


@app.command("list")
def list_all(output: OutputOption = TableOrJson.table) -> None:
    """List the studies."""
    from headrace.report.output import as_json
    from headrace.report.tables import show as print_parts
    from headrace.report.tables import table
    from headrace.studies import list_studies

    studies = list_studies()
    if output is TableOrJson.json:
        return data(as_json(studies))
    print_parts(table(("name", "title", "sources"), [(study.name, study.title, "; ".join(map(str, study.sources))) for study in studies]))


@app.command()
def show(name: NameArgument, output: OutputOption = TableOrJson.table) -> None:
    """Say what a study asks and where its figures were published."""
    from headrace.report.output import as_json
    from headrace.report.tables import show as print_parts
    from headrace.studies import get

    study = getattr(get(name), "study", None) or get(name)
    if output is TableOrJson.json:
        return data(as_json(study))
    print_parts(f"{study.name}: {study.title}", study.question, "", "Published by:", *(f"  {source}" for source in study.sources))


@app.command()
def run(
    name: NameArgument,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts (.html).")] = None,
    output: OutputOption = TableOrJson.table,
) -> None:
    """Run a study; exit code 1 when a figure is off by more than promised."""
    from headrace import studies
    from headrace.report.output import as_json, check_chart_path
    from headrace.report.study import misses

    check_chart_path(report, (".html",))
    with progress(f"running {name}") as tick:
        result = studies.run(name, progress=tick)
    if report is not None:
        from headrace.report.pages import write_study

        write_study(report, result)
        say(f"report written to {report}")
    if output is TableOrJson.json:
        data(as_json(result))
    else:
        _print(result)
    if misses(result):
        raise typer.Exit(1)


def _print(result) -> None:
    from headrace.report.study import VERDICT_COLUMNS, VERDICT_RIGHT, misses, verdict_cells
    from headrace.report.tables import show as print_parts
    from headrace.report.tables import table
    from headrace.report.words import number

    def cell(value: object) -> object:
        return number(value, 4) if isinstance(value, float) else value

    verdicts = table(
        VERDICT_COLUMNS,
        [verdict_cells(verdict) for verdict in result.verdicts],
        title=f"{result.study.name}: {result.study.title}",
        right=VERDICT_RIGHT,
    )
    parts = [verdicts, ""]
    for item in result.tables:
        parts += [table(item.columns, [[cell(value) for value in row] for row in item.rows], title=item.title), ""]
    off, promised = misses(result), sum(verdict.within is not None for verdict in result.verdicts)
    parts.append(f"{promised - off} of {promised} figures are within what was promised.")
    print_parts(*parts, *(f"note: {note}" for note in result.notes))
