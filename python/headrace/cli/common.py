"""What every command shares: output formats, options, completion, progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.errors import InputError


class Output(StrEnum):
    """How a command prints its answer."""

    table = "table"
    json = "json"
    csv = "csv"


class TableOrJson(StrEnum):
    """The same, where rows of one kind do not exist."""

    table = "table"
    json = "json"


def complete_type(incomplete: str) -> list[str]:
    """Volume types for the shell."""
    from headrace.catalog.facts import volume_types

    return [name for name in volume_types() if name.startswith(incomplete)]


def complete_storage(incomplete: str) -> list[str]:
    """The type of a storage, up to the size the user must choose."""
    from headrace.catalog.facts import volume_types

    head = incomplete.rpartition("x")[0] + "x" if "x" in incomplete else ""
    return [f"{head}{name}:" for name in volume_types() if f"{head}{name}:".startswith(incomplete)]


def complete_region(incomplete: str) -> list[str]:
    """Regions with prices for the shell."""
    from headrace.base import core

    return [name for name in core.regions() if name.startswith(incomplete)]


def complete_instance(incomplete: str) -> list[str]:
    """Instance types for the shell."""
    from headrace.base import core

    return [item["instance_type"] for item in core.instances() if item["instance_type"].startswith(incomplete)]


def complete_study(incomplete: str) -> list[str]:
    """Names of studies for the shell."""
    from headrace.studies import every_study

    return [study.name for study in every_study() if study.name.startswith(incomplete)]


OutputOption = Annotated[Output, typer.Option("--output", help="What to print on stdout.")]
AsOfOption = Annotated[
    str | None, typer.Option("--as-of", metavar="YYYY-MM-DD", help="Limits and prices of this day. Default: the newest known.")
]
RegionOption = Annotated[str, typer.Option("--region", metavar="REGION", help="Prices of this AWS region.", autocompletion=complete_region)]
GrowthOption = Annotated[
    float, typer.Option("--growth", metavar="FACTOR", help="Multiply the demand and the data: 1.5 is half as much again.")
]
WorkloadArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="WORKLOAD",
        help="A workload file; or demo:day, demo:hour (the recorded example); or a closed load in fio's words: "
        "fio:rw=randread,bs=16k,iodepth=16,numjobs=1; or a standard benchmark: sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16",
    ),
]


def read_workload(text: str):
    """A workload from a file, an inline closed load or the recorded example. Raises InputError or CouldNotRun."""
    from headrace import workload

    if text.startswith("fio:"):
        from headrace.cli.inline import closed_load

        return closed_load(text)
    if text.startswith(("sysbench-tpcc:", "sysbench:")):
        from headrace.cli.inline import standard_benchmark

        return standard_benchmark(text)
    if text.startswith("demo:") and not Path(text).exists():
        made = {"demo:day": workload.demo_day, "demo:hour": workload.recorded_hour}.get(text)
        if made is None:
            raise InputError(text, "is neither demo:day nor demo:hour", "headrace workload demo --help", "Use demo:day.")
        return made()
    return workload.load(text)


PROGRESS_AFTER_S = 2.0


class Ticker:
    """A progress bar on stderr that appears once the work has taken two seconds. Never without a terminal."""

    def __init__(self, what: str) -> None:
        self.what, self.began, self.bar, self.task = what, time.monotonic(), None, None
        self.wanted = sys.stderr.isatty()

    def __call__(self, done: float, *rest: object) -> None:
        """`done`: share of the work, 0..1."""
        if not self.wanted or (self.bar is None and time.monotonic() - self.began < PROGRESS_AFTER_S):
            return
        if self.bar is None:
            self.start()
        self.bar.update(self.task, completed=max(0.0, min(1.0, float(done))))

    def start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(self.what, total=1.0)
        self.bar.start()

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()


@contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """`with progress("planning") as tick: work(progress=tick)`."""
    ticker = Ticker(what)
    try:
        yield ticker
    finally:
        ticker.stop()


def data(text: str) -> None:
    """Prints data on stdout as it is."""
    sys.stdout.write(text)


def say(text: str) -> None:
    """Tells the user something on stderr."""
    from headrace.report.output import plain

    print(plain(text), file=sys.stderr)
