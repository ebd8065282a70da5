"""`headrace study`: published experiments, run again: on the model, or for real on the lab."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import TableOrJson, complete_study, data, progress, say

EPILOG = """\b
Examples:
  headrace study list
  headrace study run gp2-burst --report gp2-burst.html
  sudo headrace study run iops-900-vs-3000 --on lab --report iops.html
  sudo headrace study run raid-2009 --on lab --quick
  sudo headrace study run scaling-2018 --on lab --minutes 30 --resume      cells measured before are not measured again"""

app = typer.Typer(
    no_args_is_help=True, help="Published experiments run again: their figures, ours, and the error.",
    epilog=EPILOG,
)  # fmt: skip


class Where(StrEnum):
    """What runs a study."""

    model = "model"
    lab = "lab"


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A study of `headrace study list`.", autocompletion=complete_study)]
OutputOption = Annotated[TableOrJson, typer.Option("--output", help="What to print on stdout.")]


@app.command("list")
def list_all(output: OutputOption = TableOrJson.table) -> None:
    """List the studies."""
    from headrace.report.output import as_json
    from headrace.report.tables import show as print_parts
    from headrace.report.tables import table
    from headrace.studies import every_study, runs_on

    studies = every_study()
    if output is TableOrJson.json:
        return data(as_json(studies))
    rows = [(study.name, ", ".join(runs_on(study.name)), study.title, "; ".join(map(str, study.sources))) for study in studies]
    print_parts(table(("name", "runs on", "title", "sources"), rows))


@app.command()
def show(name: NameArgument, output: OutputOption = TableOrJson.table) -> None:
    """Say what a study asks and where its figures were published."""
    from headrace.report.output import as_json
    from headrace.report.tables import show as print_parts
    from headrace.studies import get, runs_on

    study = get(name)
    if output is TableOrJson.json:
        return data(as_json(study))
    runs = f"Runs on: {', '.join(runs_on(name))}"
    print_parts(f"{study.name}: {study.title}", study.question, "", runs, "Published by:", *(f"  {source}" for source in study.sources))


@app.command()
def run(
    name: NameArgument,
    on: Annotated[
        Where, typer.Option("--on", help="model: simulated, seconds. lab: a real server on this machine, minutes; needs Linux and root.")
    ] = Where.model,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts (.html).")] = None,
    scale: Annotated[
        float | None,
        typer.Option("--scale", metavar="F", help="Lab: data and cache against the published ones. Default: what fits the time."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", metavar="M", help="Lab: about how long all of it may take. Default: 10, with --quick 3.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Lab: the fewest cells that answer the question.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Lab: take complete runs of the store with the same configuration; measure the others.")
    ] = False,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Lab: of the clients' random numbers. Default: 1.")] = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Lab: where runs are kept. Default: HEADRACE_RUNS, as for headrace bench.")
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            "--work",
            metavar="DIR",
            help="Lab: where volumes are put while it runs. Default: memory, where they fit, else the system's folder for temporary files.",
        ),
    ] = None,
    output: OutputOption = TableOrJson.table,
) -> None:
    """Run a study; exit code 1 when a figure is off by more than promised, or a direction does not hold."""
    from headrace import studies
    from headrace.report.output import as_json, check_chart_path
    from headrace.report.study import misses

    check_chart_path(report, (".html",))
    given = {
        "scale": scale,
        "minutes": minutes,
        "quick": quick or None,
        "resume": resume or None,
        "seed": seed,
        "store": store,
        "work": work,
    }
    given = {key: value for key, value in given.items() if value is not None}
    with progress(f"running {name}") as tick:
        if on is Where.lab:
            result = studies.run_on_lab(name, progress=_telling(tick), say=_lines(tick), **given)
        else:
            studies.refuse_lab_options(given)
            result = studies.run_study(name, progress=tick)
    if report is not None:
        from headrace.report.study import write_study

        write_study(report, result)
        say(f"report written to {report}")
    if output is TableOrJson.json:
        data(as_json(result))
    else:
        _print(result)
    if misses(result):
        raise typer.Exit(1)


def _telling(tick):
    """The bar says which cell it is at."""

    def tell(share: float, what: str) -> None:
        tick(share)
        if tick.bar is not None:
            tick.bar.update(tick.task, description=what[:60])

    return tell


def _lines(tick):
    """A line for each cell that is done, where no bar stands in its way."""

    def line(text: str) -> None:
        if tick.bar is not None:
            tick.bar.console.print(text, highlight=False, markup=False)
        else:
            say(text)

    return line


def _print(result) -> None:
    from headrace.report.study import misses, verdict_table
    from headrace.report.tables import show as print_parts
    from headrace.report.tables import table
    from headrace.report.words import number

    def cell(value: object) -> object:
        return number(value, 4) if isinstance(value, float) else value

    columns, rows, right = verdict_table(result)
    verdicts = table(columns, rows, title=f"{result.study.name}: {result.study.title}", right=right)
    parts = [verdicts, ""]
    for item in result.tables:
        parts += [table(item.columns, [[cell(value) for value in row] for row in item.rows], title=item.title), ""]
    off, promised = misses(result), sum(verdict.within is not None for verdict in result.verdicts)
    what = "directions and ratios hold" if result.on == "lab" else "figures are within what was promised"
    parts.append(f"{promised - off} of {promised} {what}.")
    print_parts(*parts, *(f"note: {note}" for note in result.notes))
