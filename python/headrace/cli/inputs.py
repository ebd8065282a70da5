"""Workloads and recordings as they are typed: files, the recorded example, closed loads,
benchmarks, and what is said besides a recording."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from headrace.base.lazy import defer_imports
from headrace.cli.options import make_option
from headrace.errors import InputError, Refusals

if TYPE_CHECKING:
    from headrace.observe.remote.span import TimeSpan
    from headrace.operate.targets import SourceOptions
    from headrace.workload import TransactionWorkload, Workload

with defer_imports():
    from headrace import workload as workloads
    from headrace.calibration import named
    from headrace.observe.remote import span as remote_span
    from headrace.operate import targets

refuse = Refusals("docs/reference/workload-file.md")


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """Facts that a recording lacks, and the time that a service is asked for."""

    interval: Annotated[
        float | None,
        make_option(
            "S", "Seconds between the reports of a recording without times; of Prometheus, between the points."
        ),
    ] = None
    clock_start: Annotated[
        str | None,
        make_option("TIME", "Time of the first report of a recording without times (ISO 8601)."),
    ] = None
    last: Annotated[
        str | None, make_option("SPAN", "Time span to request from prometheus: or aws:, such as 36h. Default: 14d.")
    ] = None
    until: Annotated[
        str | None, make_option("TIME", "Ask prometheus: or aws: for the time before this (ISO 8601). Default: now.")
    ] = None

    def read_span(self) -> TimeSpan | None:
        """Returns the time that a service is asked for; None where no time was given. Raises
        InputError."""
        return None if self.last is None and self.until is None else remote_span.parse_span(self.last, self.until)

    def check(self, recording: str) -> None:
        """Raises InputError for an option that does not belong to this kind of recording."""
        targets.check_times(recording, self.apply_to(targets.SourceOptions()))

    def check_any(self, recordings: list[str]) -> None:
        """Raises InputError, of the first recording, where the options belong to none of them."""
        refused = None
        for recording in recordings:
            try:
                return self.check(recording)
            except InputError as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def apply_to(self, options: SourceOptions) -> SourceOptions:
        """Returns the options of a target with interval, clock and time span of these. Raises
        InputError."""
        return replace(options, interval_s=self.interval, clock_start=self.clock_start, span=self.read_span())


def read_workload(text: str) -> Workload | TransactionWorkload:
    """Returns the workload that a text names: demo:, fio:, a standard benchmark or a file. Raises
    InputError or CouldNotRun."""
    if text.startswith("demo:") and Path(text).exists():
        return workloads.load(text)
    return named.read_named(text) or workloads.load(text)


def read_demand(text: str) -> Workload:
    """Returns demand in I/Os. Raises InputError for a database, and as `read_workload`."""
    workload = read_workload(text)
    if isinstance(workload, workloads.TransactionWorkload):
        raise refuse.input(
            text,
            "is a database in transactions, not demand in I/Os",
            "`headrace predict` runs a database on a storage.",
        )
    return workload


def read_database(text: str) -> workloads.TransactionWorkload:
    """Returns a database in transactions. Raises InputError for demand, and as `read_workload`."""
    workload = read_workload(text)
    if not isinstance(workload, workloads.TransactionWorkload):
        hint = "Give a workload that `headrace calibrate` wrote, or sysbench-tpcc:..."
        raise refuse.input(text, "is demand in I/Os, not a database in transactions", hint)
    return workload
