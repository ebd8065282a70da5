"""`headrace calibrate`: from measured runs to a database in transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import NameOption, TableOrJsonOption, flag, option
from headrace.cli.output import print_json, progress, say, show
from headrace.errors import InputError

EPILOG = """\b
Examples:
  headrace calibrate run.toml --to shop.toml
  headrace calibrate io1-5000.toml io1-20000.toml gp2.toml --to shop.toml
  headrace calibrate --check *.toml          how well runs predict a run they do not include

A RUN.toml names the engine, storage, day, instance, cache, clients, data, start (cold or warm) and the measured files:
sysbench output or CSV, and where there are any iostat -x, vmstat, SHOW GLOBAL STATUS. See
docs/reference/run-description.md."""

SOURCE = "headrace calibrate --help"


def calibrate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN.toml...", help="Descriptions of measured runs.")],
    to: Annotated[Path | None, option("FILE", "Write the workload here.", "--to", "-o")] = None,
    name: NameOption = None,
    check: Annotated[bool, flag("--check", "Score instead: predict every run from the others.")] = False,
    from_one: Annotated[bool, flag("--from-one", "With --check: predict every run from each other one alone.")] = False,
    output: TableOrJsonOption = "table",
) -> None:
    """Identify a database from measured runs: what its transactions demand of any storage, and how
    surely."""
    from headrace.calibration.runs import describe, load_run

    if from_one and not check:
        raise InputError("--from-one", "belongs to --check", SOURCE, "Add --check.")
    if check and (to is not None or name is not None):
        given = "--to" if to is not None else "--name"
        raise InputError(given, "--check scores and makes no workload", SOURCE, "Leave one of them out.")
    if to is not None and not to.parent.is_dir():
        raise InputError(str(to), "the folder does not exist", "", "Make it, or name another.")
    if to is None and not check and output == "table":
        say("nothing is written: name a file with --to to keep the workload")
    loaded = [load_run(path) for path in runs]
    for run in loaded:
        for line in describe(run):
            say(line)
    if check:
        print_scores(loaded, from_one, output)
    else:
        fit_and_keep(loaded, name, to, output)


def print_scores(runs: list, from_one: bool, output: str) -> None:
    """How well runs predict the others."""
    from headrace.calibration.score import leave_out
    from headrace.report import databases

    with progress("scoring") as tick:
        rows = leave_out(runs, from_one=from_one, progress=tick)
    if output == "json":
        print_json({"schema": "headrace-calibration-check/1", "rows": rows})
    else:
        show(databases.score_table(rows), "", *databases.score_words(rows))


def fit_and_keep(runs: list, name: str | None, to: Path | None, output: str) -> None:
    """The database behind the runs, printed, and written where a file is named."""
    from headrace.calibration.from_runs import calibrate as fit
    from headrace.report import databases
    from headrace.workload import save

    with progress("calibrating") as tick:
        workload = fit(runs, name=name, progress=tick)
    if to is not None:
        save(workload, to)
    if output == "json":
        print_json(workload.to_document())
    else:
        show(*databases.workload_in_words(workload), "", databases.parameter_table(workload))
    if to is not None:
        say(f"workload written to {to}; next: headrace predict {to} --storage gp3:500 --seconds 3600")
