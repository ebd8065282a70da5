"""What every benchmark can do: look whether it fits the target, prepare, run, check, clean up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import polars as pl

from headrace.base.processes import Command, Ended, Tool, find_tool
from headrace.bench.drivers.percentiles import Histogram
from headrace.bench.target import Target

Say = Callable[[str], None]


def silent(text: str) -> None:
    """A `say` that says nothing."""


@dataclass(frozen=True)
class Load:
    """How a benchmark is run: `threads` clients, `warmup_s` that do not count, then `seconds`; `seed` of its random numbers."""

    threads: int
    warmup_s: int
    seconds: int
    seed: int

    @property
    def all_s(self) -> int:
        """Both together."""
        return self.warmup_s + self.seconds


@dataclass(frozen=True)
class Report:
    """What the tool said of an interval that ended `end_s` after its start. `tps`: transactions, or requests of a benchmark of files, a second; None: not told."""

    end_s: float
    tps: float | None = None
    qps: float | None = None
    p95_ms: float | None = None
    errors_per_s: float | None = None
    threads: int | None = None
    more: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What the tool said at its end, about the part that counts. `reports`: where they come from files, not from lines. `figures`: further totals with units in their
    names. `histogram`: latencies of transactions. `notes`: what a reader must know. `began_unix`: when the tool's time was 0, where it says so itself."""

    histogram: Histogram | None = None
    reports: tuple[Report, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    began_unix: float | None = None


class Benchmark(ABC):
    """A load with its options. Subclasses are frozen dataclasses; two that are equal ask the same of a server."""

    name: ClassVar[str]
    program: ClassVar[str]
    needs: ClassVar[str]  # server or folder
    unit: ClassVar[str] = "transactions"
    # Nothing is reported on the way: the server's own counters are the series.
    unit_from_status: ClassVar[bool] = False
    # The tool knows no time: it is ended when the time is up.
    ended_by_time: ClassVar[bool] = False
    # Its seconds are in files, read at its end.
    reports_in_files: ClassVar[bool] = False
    # Files of the private folder that are kept beside the output.
    kept_files: ClassVar[tuple[str, ...]] = ()

    def tool(self) -> Tool:
        """The program. Raises CouldNotRun."""
        return find_tool(self.program)

    @abstractmethod
    def options(self) -> dict:
        """What is asked for, as JSON: runs with equal options are alike."""

    @abstractmethod
    def check_target(self, target: Target) -> None:
        """Raises InputError when the benchmark cannot be run there at all."""

    @abstractmethod
    def prepared(self, target: Target, threads: int) -> bool:
        """Whether the data for so many clients are there and whole. Raises InputError when others are there."""

    @abstractmethod
    def prepare(self, target: Target, folder: Path, threads: int, seed: int = 1, say: Say = silent) -> None:
        """Makes the data; `folder` is for files of the moment. Raises CouldNotRun, InputError."""

    @abstractmethod
    def command(self, target: Target, load: Load, folder: Path) -> Command:
        """What runs the load. Files with passwords go into `folder`, which is removed."""

    def line(self, text: str) -> Report | None:
        """A line of the tool's output, where it is a report of an interval."""
        return None

    @abstractmethod
    def outcome(self, raw: str, load: Load, folder: Path) -> Outcome:
        """What the output says. Raises InputError when it is not whole."""

    def partial(self, raw: str, load: Load, folder: Path) -> Outcome:
        """What can be said of a run that ended early."""
        return Outcome(notes=("Ended early: there is no histogram, and no percentile of the whole.",))

    def why(self, raw: str, ended: Ended) -> str:
        """Why the tool ended with an error, in its own words."""
        return f"ended with exit code {ended.code}: {ended.said}"

    def completed(self, series: pl.DataFrame) -> pl.DataFrame:
        """The time line, with what the tool did not report put in from what was sampled."""
        return series

    def verify(self, target: Target) -> list[str]:
        """Looks at the data after a run: sentences about what is wrong."""
        return []

    @abstractmethod
    def cleanup(self, target: Target, folder: Path) -> None:
        """Removes the data."""

    def described(self) -> dict | None:
        """The [benchmark] table of RUN.toml; None where a calibration cannot use the runs."""
        return None
