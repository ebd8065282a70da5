"""`headrace replay`: what a volume of the lab recorded, repeated on the virtual clock."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.base.lazy import defer_imports
from headrace.cli.options import TableOrJsonOption
from headrace.cli.output import exit_if, print_json, show, show_progress
from headrace.cli.sharing import read_epilog

with defer_imports():
    from headrace.report import simulation
    from headrace.simulation import replay as simulation_replay

EPILOG = read_epilog("replay")


def replay(
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="A file that `headrace volume record` wrote.")],
    output: TableOrJsonOption = "table",
) -> None:
    """Repeat what a volume of the lab recorded on the virtual clock, and compare every decision of
    the model."""
    with show_progress("replaying") as tick:
        comparison = simulation_replay.replay(record, progress=tick)
    if output == "json":
        print_json(comparison.to_dict())
    else:
        show(*simulation.describe_replay(comparison.to_dict()))
    exit_if(not comparison.agrees)
