"""The interface of every benchmark (check the target, prepare, run, verify, remove its data), and
histograms of latencies."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import polars as pl

from headrace.base.checks import check_choice, check_number, check_whole
from headrace.base.machine import Tool, find_tool
from headrace.base.processes import Command, Ended
from headrace.bench.target import Target
from headrace.errors import Refusals

Say = Callable[[str], None]


def stay_silent(*_: object) -> None:
    """Does nothing: a `say` or progress function for callers that want no messages."""


def check_choices(refusals: Refusals, **given: tuple[str, Collection[str]]) -> None:
    """Raises InputError for an option that is none of its choices; `given`: value and choices."""
    for what, (value, choices) in given.items():
        check_choice(what, value, choices, refusals)


def check_numbers(refusals: Refusals, **given: tuple[object, float, float]) -> None:
    """Raises InputError for an option (value, least, most) out of bounds."""
    for what, (value, low, high) in given.items():
        check_number(what, value, low, high, refusals=refusals)


def check_counts(refusals: Refusals, **given: tuple[object, int, int]) -> None:
    """Raises InputError for an option (value, least, most) out of bounds, or not whole."""
    for what, (value, low, high) in given.items():
        check_whole(what, value, low, high, refusals)


@dataclass(frozen=True)
class RunLoad:
    """The load of a run: `threads` clients for `warmup_s` that do not count, then for `seconds`;
    `seed` is that of its random numbers."""

    threads: int
    warmup_s: int
    seconds: int
    seed: int

    @property
    def all_s(self) -> int:
        """Returns warm-up and measured seconds together."""
        return self.warmup_s + self.seconds


@dataclass(frozen=True)
class IntervalReport:
    """The tool's report of an interval that ended `end_s` after its start.

    `tps`: transactions a second, or requests of a benchmark of files. None: not reported.
    """

    end_s: float
    tps: float | None = None
    qps: float | None = None
    p95_ms: float | None = None
    errors_per_s: float | None = None
    threads: int | None = None
    more: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolOutcome:
    """The tool's report at its end, about the part that counts.

    `histogram`: latencies of transactions. `reports`: where they come from files, not from lines.
    `figures`: further totals with units in their names. `notes`: what a reader must know.
    `began_unix`: when the tool's time was 0, where it reports that itself.
    """

    histogram: Histogram | None = None
    reports: tuple[IntervalReport, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    began_unix: float | None = None


class Benchmark(ABC):
    """A load with its options. Subclasses are frozen dataclasses; equal ones are the same load."""

    name: ClassVar[str]
    program: ClassVar[str]
    needs: ClassVar[str]  # server or folder
    unit: ClassVar[str] = "transactions"
    # The tool reports no intervals: the rows of the run are made from the server's counters.
    unit_from_status: ClassVar[bool] = False
    # The tool has no limit of time: it is ended when the time is over.
    ended_by_time: ClassVar[bool] = False
    # The tool writes its seconds to files, which are read at its end.
    reports_in_files: ClassVar[bool] = False
    # Files of the private folder that are kept with the output.
    kept_files: ClassVar[tuple[str, ...]] = ()

    def get_tool(self) -> Tool:
        """Returns the installed program. Raises CouldNotRun."""
        return find_tool(self.program)

    @abstractmethod
    def list_options(self) -> dict:
        """Returns the options as JSON: runs with equal options are alike."""

    @abstractmethod
    def check_target(self, target: Target) -> None:
        """Raises InputError when the benchmark cannot be run there at all."""

    @abstractmethod
    def is_prepared(self, target: Target, threads: int) -> bool:
        """Returns whether the target has complete data for `threads` clients; False without any.
        Raises InputError for other data in their place."""

    @abstractmethod
    def prepare(self, target: Target, folder: Path, threads: int, seed: int = 1, say: Say = stay_silent) -> None:
        """Makes the data; `folder` is for temporary files. Raises CouldNotRun, InputError."""

    @abstractmethod
    def build_command(self, target: Target, load: RunLoad, folder: Path) -> Command:
        """Returns the command of the load. Files with passwords go into `folder`, later removed."""

    def parse_line(self, text: str) -> IntervalReport | None:
        """Reads a line of the tool's output; None where it is not a report of an interval."""
        return None

    @abstractmethod
    def read_outcome(self, raw: str, load: RunLoad, folder: Path) -> ToolOutcome:
        """Reads the complete output. Raises InputError when it is cut off."""

    def read_partial_outcome(self, raw: str, load: RunLoad, folder: Path) -> ToolOutcome:
        """Reads the output of a run that ended early, as far as it goes."""
        return ToolOutcome(notes=("Ended early: it has neither a histogram nor percentiles of the whole run.",))

    def explain_failure(self, raw: str, ended: Ended) -> str:
        """Returns the reason why the tool ended with an error, in the tool's words."""
        return f"ended with exit code {ended.code}: {ended.message}"

    def complete_series(self, series: pl.DataFrame) -> pl.DataFrame:
        """Returns the time line with figures that the tool did not report filled in from
        samples."""
        return series

    def verify(self, target: Target) -> list[str]:
        """Checks the data after a run, and returns sentences about what is wrong."""
        return []

    @abstractmethod
    def remove_data(self, target: Target, folder: Path) -> None:
        """Removes the data."""

    def make_benchmark_table(self) -> dict | None:
        """Returns the [benchmark] table of RUN.toml; None where it cannot be calibrated from."""
        return None


# --- histograms -----------------------------------------------------------------------------------
# Latency histograms and the percentiles read from them.
#
# The percentile q of a histogram is the value of the bucket in which the q-th part of all
# observations, in order of size, is reached (the smallest value with at least that share at or
# below it). It is as exact as the bucket is narrow: sysbench's 1,024 buckets from 0.001 ms to 100 s
# are 1.8 % apart and named by their middle, so a percentile is within 0.9 %; fio's within 0.8 %.


SHARES = {"p50_ms": 0.50, "p90_ms": 0.90, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
# Least observations above a percentile for it to be given.
FEWEST_ABOVE = 10


@dataclass(frozen=True)
class Histogram:
    """`values_ms`: of each bucket, rising; `counts`: observations in it. `source`: how it was made;
    `error_percent`: half a bucket."""

    values_ms: tuple[float, ...]
    counts: tuple[int, ...]
    source: str
    error_percent: float

    @property
    def total(self) -> int:
        """Returns the number of observations."""
        return sum(self.counts)

    def percentile(self, share: float) -> float | None:
        """Returns the value with at least `share` (0..1) at or below it, ms; None of an empty
        histogram."""
        total = self.total
        if not total:
            return None
        for value, reached in zip(self.values_ms, itertools.accumulate(self.counts), strict=True):
            if reached >= share * total:
                return value
        return self.values_ms[-1]

    def summarize(self) -> dict[str, float | None]:
        """Returns p50_ms to p999_ms; None where fewer than ten observations lie above."""
        total = self.total
        return {
            name: self.percentile(share) if (1 - share) * total >= FEWEST_ABOVE else None
            for name, share in SHARES.items()
        }

    def list_rows(self) -> Iterable[tuple[float, int, float]]:
        """Yields (value_ms, count, share at or below) of every bucket that has any."""
        total = self.total
        for value, count, reached in zip(self.values_ms, self.counts, itertools.accumulate(self.counts), strict=True):
            if count:
                yield value, count, reached / total


def merge_histograms(parts: Sequence[Histogram]) -> Histogram:
    """Returns histograms with the same kind of buckets as one. Raises ValueError for none."""
    sums: dict[float, int] = {}
    for part in parts:
        for value, count in zip(part.values_ms, part.counts, strict=True):
            sums[value] = sums.get(value, 0) + count
    first = parts[0] if parts else None
    if first is None:
        raise ValueError("no histogram")
    return Histogram(
        tuple(sorted(sums)), tuple(sums[value] for value in sorted(sums)), first.source, first.error_percent
    )
