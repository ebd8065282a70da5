"""Runs cells one after the other: progress with the time that is left, everything kept in the run store, cells that are there already taken from it when asked."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby

import polars as pl

from headrace.bench import RunRecord, run
from headrace.bench.run import environment
from headrace.studies.measured.bed import Bed
from headrace.studies.measured.plan import FILES_CELL_S, SERVER_CELL_S, Cell, OnFiles, OnServer, Options, Say, Tell, silent

# Fewer seconds say nothing of how much they scatter.
FEWEST_SECONDS = 4
# How long a cell waits for a machine that has something else to do.
REST_S = 10.0


@dataclass(frozen=True)
class Found:
    """A cell's run. `tps`: mean over its seconds; `error`: standard error of it, from the scatter of neighbouring seconds; `reused`: from an earlier session."""

    cell: Cell
    record: RunRecord
    reused: bool = False

    @property
    def tps(self) -> float:
        return float(self.record.summary["tps"] or 0.0)

    @property
    def error(self) -> float:
        return standard_error(self.measured()["tps"].drop_nulls().to_list())

    @property
    def relative(self) -> float:
        """`error` over `tps`."""
        return self.error / self.tps if self.tps else math.inf

    def measured(self) -> pl.DataFrame:
        """Its seconds that count."""
        return self.record.series().filter(pl.col("phase") == "measure")


def standard_error(values: Sequence[float]) -> float:
    """Of the mean of a series that may rise or fall as a cache fills: sqrt(mean square of successive differences / 2) / sqrt(n) (von Neumann 1941). A trend is no doubt: every
    cell begins from the same copy."""
    n = len(values)
    if n < FEWEST_SECONDS:
        return math.inf
    steps = [after - before for before, after in zip(values, values[1:], strict=False)]
    return math.sqrt(sum(step * step for step in steps) / (2.0 * (n - 1)) / n)


@dataclass
class Progress:
    """Shares of a whole whose parts are guessed in seconds beforehand: told to `tell` as they go."""

    tell: Tell
    all_s: float
    done_s: float = 0.0
    _part_s: float = field(default=0.0, repr=False)

    @contextmanager
    def part(self, seconds: float, what: str) -> Iterator[Tell]:
        """A part of about so long; inside, its own share (0..1) may be told."""
        self._part_s = seconds

        def inside(share: float, words: str = "") -> None:
            self.tell(min(1.0, (self.done_s + share * seconds) / self.all_s), words or what)

        inside(0.0)
        yield inside
        self.done_s += seconds
        inside(0.0)

    def skip(self, seconds: float) -> None:
        """A part that need not be done."""
        self.all_s = max(self.done_s + 1e-9, self.all_s - seconds)


def length_s(cell: Cell) -> float:
    """About how long a cell takes, s."""
    return cell.warmup_s + cell.seconds + (SERVER_CELL_S if isinstance(cell.place, OnServer) else FILES_CELL_S)


def kept(study: str, cells: Sequence[Cell], options: Options, machine: Mapping[str, object]) -> dict[tuple, Found]:
    """Cells of which the store has a complete run with the same configuration, the newest; nothing without `resume`."""
    if not options.resume:
        return {}
    by_name = {cell.run_name(study, machine): cell for cell in cells}
    found = {}
    for record in options.kept.runs():
        cell = by_name.get(record.document.get("name") or "")
        if cell is not None and record.state == "complete" and record.summary.get("tps"):
            found[cell.key] = Found(cell, record, reused=True)
    return found


def run_cells(
    study: str,
    cells: Sequence[Cell],
    bed: Bed,
    options: Options,
    machine: Mapping[str, object],
    have: Mapping[tuple, Found],
    progress: Progress,
    say: Say = silent,
) -> dict[tuple, Found]:
    """Every cell in its order; those of `have` are not run again. An error, Ctrl-C included, ends it: what is finished is in the store. Raises as bench.run and Bed."""
    found = dict(have)
    left = [cell for cell in cells if cell.key not in have]
    if have:
        say(f"{len(have)} of {len(cells)} cells are in the store already")
    number = len(have)
    try:
        # Neighbours of one place share its files; every cell on a server has a server of its own.
        for _, group in groupby(left, key=lambda cell: (repr(cell.place), isinstance(cell.place, OnFiles) or cell.words)):
            with ExitStack() as stack:
                target = None
                for cell in group:
                    number += 1
                    what = f"{number} of {len(cells)}: {cell.words}"
                    with progress.part(length_s(cell), what) as inside:
                        target = target or stack.enter_context(_place(bed, cell))
                        wait_for_rest()
                        found[cell.key] = _run(
                            study, cell, target, options, machine, lambda share, _, inside=inside, what=what: inside(share, what)
                        )
                    say(f"{what}: {found[cell.key].tps:,.1f} {cell.benchmark.unit} a second (run {found[cell.key].record.id})")
    except KeyboardInterrupt:
        say(f"stopped: {len(found)} of {len(cells)} cells are in the store; the same command with --resume measures the others")
        raise
    return {cell.key: found[cell.key] for cell in cells}


def wait_for_rest() -> None:
    """Until nothing else keeps the processors busy, but no longer than `REST_S`: a passing job is waited for, a lasting one is told of in the result."""
    deadline = time.monotonic() + REST_S
    while time.monotonic() < deadline and environment.load_before()["busy_share"] > environment.BUSY_SHARE:
        continue


def _place(bed: Bed, cell: Cell):
    return bed.files(cell.place, cell.benchmark) if isinstance(cell.place, OnFiles) else bed.server(cell.place)


def _run(study: str, cell: Cell, target, options: Options, machine: Mapping[str, object], tell: Tell) -> Found:
    record = run(
        cell.benchmark, target, seconds=cell.seconds, warmup_s=cell.warmup_s, threads=cell.threads, seed=cell.seed, store=options.kept,
        name=cell.run_name(study, machine), progress=tell,
    )  # fmt: skip
    return Found(cell, record)
