"""What the commands of `headrace bench` share: where runs are kept, and how one is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import Output, data, say
from headrace.errors import HeadraceError


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of runs for the shell."""
    from headrace.bench.store.store import Store

    try:
        return [name for name in ["latest", *reversed(Store(context.params.get("store")).ids())] if name.startswith(incomplete)]
    except (HeadraceError, OSError):
        return []


StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store", metavar="DIR", readable=False, help="Where runs are kept. Default: $HEADRACE_RUNS, else ~/.local/share/headrace/runs."
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="An id, a part of it that no other has, `latest`, or `latest~1` (the one before).", autocompletion=complete_run
    ),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts (.html), or the time line alone (.svg, .png).")
]


def show_run(record, output: Output, report: Path | None = None) -> None:
    """A run on stdout, and as a page where one is wanted."""
    from headrace.cli.lab_common import as_csv, pairs
    from headrace.report import benchmarks
    from headrace.report.output import as_json
    from headrace.report.tables import show

    if report is not None:
        benchmarks.write_run(report, record)
        say(f"report written to {report}")
    if output is Output.json:
        return data(as_json(record.document | {"folder": record.folder, "run_toml": record.run_toml}))
    if output is Output.csv:
        row = {"run": record.id, "state": record.state, **record.summary}
        return data(as_csv([row], tuple(row)))
    show(pairs(benchmarks.setup_rows(record)), "", pairs(benchmarks.figure_rows(record)), "")
    for text in record.findings:
        say(f"note: {text}")
    say(
        f"kept as {record.id} in {record.folder.parent}"
        + (f"; calibrate from it: headrace calibrate {record.run_toml}" if record.run_toml else "")
    )
