"""Runs cells one after the other, and keeps every run in the run store, from which complete runs
can be reused. An error or Ctrl-C ends the rest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from itertools import groupby

import polars as pl

from headrace.bench import RunRecord, Second, Store, Target, run
from headrace.bench.comparison.statistics import estimate_standard_error
from headrace.bench.drivers.benchmark import Say, stay_silent
from headrace.bench.running import environment
from headrace.experiment import neighbours
from headrace.experiment.cell import Cell, OnFiles, OnServer, Parts, Progress
from headrace.experiment.data import ExperimentLab

# Longest wait for a busy machine before a cell, s. A guess: short jobs end meanwhile, and the
# result notes a lasting one.
REST_S = 10.0
# Share of a cell's progress that building its server takes. A guess: 9 s of 45.
BUILD_SHARE = 0.2

# A function whose context is entered around a measurement.
Gate = Callable[[], AbstractContextManager]


@dataclass(frozen=True)
class MeasuredCell:
    """A cell with its run; `reused` if the run is from an earlier session."""

    cell: Cell
    record: RunRecord
    reused: bool = False

    @property
    def tps(self) -> float:
        """Returns the mean tps of the measured seconds."""
        return float(self.record.summary["tps"] or 0.0)

    @property
    def error(self) -> float:
        """Returns the standard error of `tps`, from the scatter of neighbouring seconds."""
        return estimate_standard_error(self.select_measured()["tps"].drop_nulls().to_list())

    @property
    def relative(self) -> float:
        """Returns the relative standard error, `error` over `tps`; infinite without
        transactions."""
        return self.error / self.tps if self.tps else math.inf

    def select_measured(self) -> pl.DataFrame:
        """Returns the rows of the run after its warm-up."""
        return self.record.read_series().filter(pl.col("phase") == "measure")


def measure(
    lab: ExperimentLab,
    cell: Cell,
    store: Store,
    name: str,
    *,
    progress: Progress = stay_silent,
    gate: Gate = nullcontext,
    on_second: Callable[[Second], None] | None = None,
) -> RunRecord:
    """Starts the server of a cell with a copy of its data, runs the benchmark from an empty cache,
    removes the server, and returns the run, which is stored as `name` with the load of other
    programs. Raises InputError, CouldNotRun, LabRefused, and BrokenRun and InterruptedRun with what
    was measured until then.
    """
    assert isinstance(cell.place, OnServer), cell.words
    with lab.open_server(cell.place, lambda share, what: progress(BUILD_SHARE * share, what)) as target, gate():
        share_left = 1.0 - BUILD_SHARE
        report_share = lambda share, what: progress(BUILD_SHARE + share_left * share, what)  # noqa: E731
        with neighbours.watch() as beside:
            record = _run(cell, target, store, name, report_share, "cold", on_second)
        neighbours.keep(beside[-1], record.folder)
        return record


def _run(
    cell: Cell,
    target: Target,
    store: Store,
    name: str,
    progress: Progress,
    start: str | None = None,
    on_second: Callable[[Second], None] | None = None,
) -> RunRecord:
    """Runs the benchmark of a cell on a target, and keeps the run in the store under `name`.
    `start`, `on_second`: as bench.run takes them."""
    return run(
        cell.benchmark,
        target,
        seconds=cell.seconds,
        warmup_s=cell.warmup_s,
        threads=cell.threads,
        seed=cell.seed,
        store=store,
        name=name,
        progress=progress,
        start=start,
        on_second=on_second,
    )


def find_reusable(
    experiment: str, cells: Sequence[Cell], store: Store, machine: Mapping[str, object]
) -> dict[tuple, MeasuredCell]:
    """Returns, by their keys, the cells that have a complete run of their configuration in the
    store, each with the newest."""
    by_name = {cell.make_run_name(experiment, machine): cell for cell in cells}
    measured_cells = {}
    for record in store.list_runs():
        cell = by_name.get(record.document.get("name") or "")
        if cell is not None and record.state == "complete" and record.summary.get("tps"):
            measured_cells[cell.key] = MeasuredCell(cell, record, reused=True)
    return measured_cells


@dataclass(frozen=True)
class CellRunner:
    """Runs the cells of one experiment; `machine` has the facts of `collect_machine_facts`."""

    experiment: str
    lab: ExperimentLab
    store: Store
    machine: Mapping[str, object]
    parts: Parts
    say: Say = stay_silent

    def run(self, cells: Sequence[Cell], have: Mapping[tuple, MeasuredCell]) -> dict[tuple, MeasuredCell]:
        """Runs every cell in order, except those of `have`, and returns all results by key. Raises
        as bench.run and ExperimentLab."""
        results = dict(have)
        remaining = [cell for cell in cells if cell.key not in have]
        if have:
            self.say(f"{len(have)} of {len(cells)} cells are in the store already")
        try:
            # Consecutive cells on the same files share them; every cell on a server gets a new one.
            for _, group in groupby(remaining, key=_get_shared_place):
                with ExitStack() as stack:
                    target = None
                    for cell in group:
                        what = f"{len(results) + 1} of {len(cells)}: {cell.words}"
                        with self.parts.begin_part(cell.length_s, what) as inside:
                            target = target or stack.enter_context(self._open_place(cell))
                            wait_for_rest()
                            name = cell.make_run_name(self.experiment, self.machine)
                            tell = lambda share, _, inside=inside, what=what: inside(share, what)  # noqa: E731
                            result = MeasuredCell(cell, _run(cell, target, self.store, name, tell))
                        results[cell.key] = result
                        self.say(f"{what}: {result.tps:,.1f} {cell.benchmark.unit} a second (run {result.record.id})")
        except KeyboardInterrupt:
            rest = "the same command with --resume measures the others"
            self.say(f"stopped: {len(results)} of {len(cells)} cells are in the store; {rest}")
            raise
        return {cell.key: results[cell.key] for cell in cells}

    def _open_place(self, cell: Cell) -> AbstractContextManager[Target]:
        if isinstance(cell.place, OnFiles):
            return self.lab.open_files(cell.place, cell.benchmark)
        return self.lab.open_server(cell.place)


def _get_shared_place(cell: Cell) -> tuple:
    return repr(cell.place), isinstance(cell.place, OnFiles) or cell.words


def wait_for_rest() -> None:
    """Waits until nothing else keeps the processors busy, at most REST_S seconds."""
    deadline = time.monotonic() + REST_S
    while time.monotonic() < deadline and environment.load_before()["busy_share"] > environment.BUSY_SHARE:
        continue
