"""`headrace compare-run`: a prediction against a measured run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.base.lazy import defer_imports
from headrace.base.options import Seed
from headrace.cli.inputs import read_database
from headrace.cli.options import OutputOption, PageOrChartOption
from headrace.cli.output import print_data, print_json, show, write_report
from headrace.cli.sharing import read_epilog
from headrace.report.output import as_csv, check_chart_path

with defer_imports():
    import polars as pl

    from headrace.calibration import runs, score
    from headrace.report import databases

EPILOG = read_epilog("compare-run")


def compare_run(
    run: Annotated[Path, typer.Argument(metavar="RUN.toml", help="Description of a measured run.")],
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD.toml", help="File of `headrace calibrate`.")],
    seed: Seed = 1,
    output: OutputOption = "table",
    report: PageOrChartOption = None,
) -> None:
    """Score a prediction against a run: means, quarters, one-second scatter, stalls."""
    check_chart_path(report)
    database = read_database(workload)
    comparison = score.compare_run(runs.load_run(run), database, seed=seed)
    write_report(report, lambda: databases.build_comparison_view(comparison, database))
    if output == "json":
        print_json(comparison.to_document(database))
    elif output == "csv":
        print_data(as_csv(pl.DataFrame(list(comparison.figures))))
    else:
        show(
            *[f"WARNING: {text}" for text in comparison.prediction.warnings],
            databases.build_comparison_table(comparison),
        )
