"""Shared parts of the commands of `headrace bench`: the store of runs, and the output of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.lazy import lazily
from headrace.cli.options import Output, option
from headrace.cli.output import pairs, print_csv, print_json, say, show

if TYPE_CHECKING:
    from headrace.bench import RunRecord, Store

with lazily():
    from headrace import bench
    from headrace.base import settings
    from headrace.calibration.runs import model
    from headrace.report import benchmarks


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Returns ids of runs for the shell, the newest first: the names of their folders, because the
    store itself takes half a second to import."""
    try:
        ids = sorted(os.listdir(context.params.get("store") or settings.folder("HEADRACE_RUNS")), reverse=True)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        ids = []
    return [name for name in ["latest", *ids] if name.startswith(incomplete) and not name.startswith(".")]


@dataclass(frozen=True, kw_only=True)
class StorePlace:
    """The store of the runs that a command uses."""

    store: Annotated[
        Path | None,
        option("DIR", "Store of the runs. Default: $HEADRACE_RUNS, else ~/.local/share/headrace/runs.", readable=False),
    ] = None

    def open_store(self) -> Store:
        """Returns the store. Raises InputError."""
        return bench.Store(self.store)


RUN_HELP = "An id, a part of it that no other has, `latest`, or `latest~1` (the one before)."
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=complete_run)]


def show_run(record: RunRecord, output: Output, report: Path | None = None) -> None:
    """Prints a run, and writes its page where a file is named."""
    if report is not None:
        benchmarks.write_run(report, record)
        say(f"report written to {report}")
    if output == "json":
        return print_json(record.document | {"folder": record.folder, "run_toml": record.run_toml})
    if output == "csv":
        row = {"run": record.id, "state": record.state, **record.summary}
        return print_csv([row], tuple(row))
    show(pairs(benchmarks.setup_rows(record)), "", pairs(benchmarks.figure_rows(record)), "")
    for text in record.findings:
        say(f"note: {text}")
    long_enough = record.document["load"]["warmup_s"] + record.document["load"]["seconds"] >= model.LEAST_SECONDS
    usable = record.run_toml is not None and long_enough and record.document["state"] == "complete"
    more = f"; calibrate from it: headrace calibrate {record.run_toml}" if usable else ""
    say(f"kept as {record.id} in {record.folder.parent}{more}")
