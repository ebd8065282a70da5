"""`headrace calibrate` and `headrace compare-run`: from measured runs to a workload in transactions, and back against runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import Output, OutputOption, TableOrJson, complete_storage, data, progress, say

CALIBRATE_EPILOG = """\b
Examples:
  headrace calibrate run.toml -o shop.toml
  headrace calibrate io1-5000.toml io1-20000.toml gp2.toml -o shop.toml
  headrace calibrate --check *.toml          how well runs predict a run they do not include

A RUN.toml names the engine, storage, day, instance, cache, clients, data, start (cold or warm) and the files measured: sysbench output or CSV, and
where there are any iostat -x, vmstat, SHOW GLOBAL STATUS. See docs/reference/run-description.md."""
COMPARE_EPILOG = """\b
Examples:
  headrace compare-run run.toml shop.toml
  headrace compare-run run.toml shop.toml --plot run.html"""


def calibrate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN.toml...", help="Descriptions of measured runs.")],
    to: Annotated[Path | None, typer.Option("-o", "--to", metavar="WORKLOAD.toml", help="Write the workload here.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the workload. Default: that of the longest run.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Score instead: predict every run from the others.")] = False,
    from_one: Annotated[bool, typer.Option("--from-one", help="With --check: every run from each single other one.")] = False,
    output: Annotated[TableOrJson, typer.Option("--output", help="What to print on stdout.")] = TableOrJson.table,
) -> None:
    """Identify a database from measured runs: what its transactions ask of any storage, and how surely."""
    from headrace.calibration.runs import describe, load_run
    from headrace.errors import InputError
    from headrace.report import databases as report
    from headrace.report.output import as_json
    from headrace.report.tables import show

    if from_one and not check:
        raise InputError("--from-one", "belongs to --check", "headrace calibrate --help", "Add --check.")
    if check and (to is not None or name is not None):
        raise InputError(
            "-o" if to is not None else "--name",
            "--check scores and makes no workload",
            "headrace calibrate --help",
            "Leave one of them out.",
        )
    if to is not None and not to.parent.is_dir():
        raise InputError(str(to), "the folder does not exist", "", "Make it, or name another.")
    if to is None and not check and output is TableOrJson.table:
        say("nothing is written: name a file with -o to keep the workload")
    loaded = [load_run(path) for path in runs]
    for run in loaded:
        for line in describe(run):
            say(line)
    if check:
        from headrace.calibration.score import leave_out

        with progress("scoring") as tick:
            rows = leave_out(loaded, from_one=from_one, progress=tick)
        if output is TableOrJson.json:
            data(as_json({"schema": "headrace-calibration-check/1", "rows": rows}))
        else:
            show(report.score_table(rows), "", *report.score_words(rows))
        return
    from headrace.calibration.from_runs import calibrate as fit
    from headrace.workload import save

    with progress("calibrating") as tick:
        workload = fit(loaded, name=name, progress=tick)
    if to is not None:
        save(workload, to)
    if output is TableOrJson.json:
        data(as_json({"schema": "headrace-calibration/1", "name": workload.name, "engine": workload.engine, "parameters": list(workload.parameters),
                      "runs": list(workload.runs), "caveats": list(workload.caveats), "database": workload.database}))  # fmt: skip
    else:
        show(*report.workload_in_words(workload), "", report.parameter_table(workload), report.PARAMETER_COLUMNS)
    if to is not None:
        say(f"workload written to {to}; next: headrace simulate {to} --storage gp3:500 --seconds 3600")


def compare_run(
    run: Annotated[Path, typer.Argument(metavar="RUN.toml", help="Description of a measured run.")],
    workload: Annotated[Path, typer.Argument(metavar="WORKLOAD.toml", help="What `headrace calibrate` wrote.")],
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Same seed, same answer.")] = 1,
    output: OutputOption = Output.table,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Write a chart of both: .html (a page), .svg or .png.")
    ] = None,
) -> None:
    """Score a prediction against a run: means, quarters, one-second scatter, stalls."""
    from headrace.calibration.runs import load_run
    from headrace.calibration.score import compare_run as compare
    from headrace.report import databases as report
    from headrace.report.output import as_csv, as_json, check_chart_path
    from headrace.report.tables import show

    check_chart_path(plot)
    known = read_transactions(str(workload))
    found = compare(load_run(run), known, seed=seed)
    if plot is not None:
        from headrace.report.database_pages import write_comparison

        write_comparison(plot, found, known)
        say(f"chart written to {plot}")
    if output is Output.json:
        data(as_json({"schema": "headrace-comparison/1", "run": found.run.name, "workload": known.name, "figures": list(found.figures),
                      "warnings": list(found.prediction.warnings)}))  # fmt: skip
    elif output is Output.csv:
        import polars as pl

        data(as_csv(pl.DataFrame(list(found.figures))))
    else:
        show(*[f"WARNING: {text}" for text in found.prediction.warnings], report.comparison_table(found))


def read_transactions(path: str):
    """A workload in transactions. Raises InputError for another kind."""
    from headrace.cli.common import read_workload
    from headrace.errors import InputError
    from headrace.workload import TransactionWorkload

    workload = read_workload(path)
    if not isinstance(workload, TransactionWorkload):
        raise InputError(
            path,
            "is a demand on disks, not a database in transactions",
            "docs/reference/workload-file.md",
            "`headrace calibrate` makes one.",
        )
    return workload


def simulate_transactions(workload, storage: str, output: Output, plot: Path | None, **settings) -> None:
    """Predicts and prints a database on a storage."""
    from headrace.report import databases as report
    from headrace.report.output import as_csv, as_json
    from headrace.report.tables import show
    from headrace.simulation.database import predict

    with progress("simulating") as tick:
        run = predict(workload, storage, progress=tick, **settings)
    run = replace(run, warnings=(*run.warnings, *report.log_warnings(run, workload)))
    if plot is not None:
        from headrace.report.database_pages import write_prediction

        write_prediction(plot, run, workload)
        say(f"chart written to {plot}")
    if output is Output.json:
        data(as_json(report.document(run, workload)))
    elif output is Output.csv:
        for text in run.warnings:
            say(f"warning: {text}")
        data(as_csv(run.rows))
    else:
        show(*report.in_words(run, workload), "", report.table_of(run))


LogStorageOption = Annotated[
    str | None,
    typer.Option("--log-storage", metavar="SPEC", help="A volume of their own for redo and binlog.", autocompletion=complete_storage, rich_help_panel="Databases in transactions"),
]  # fmt: skip
