"""The data of a benchmark: made when they are missing, made anew when asked, removed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headrace.bench.drivers.benchmark import Benchmark, Say, silent
from headrace.bench.server import create_database
from headrace.bench.target import Target
from headrace.errors import InputError

PREFIX = "headrace-bench-"


def prepare(benchmark: Benchmark, target: Target, *, threads: int = 8, seed: int = 1, fresh: bool = False, say: Say = silent) -> bool:
    """Makes the data where they are missing, and the database; whether anything was made. `threads`: clients of the run to come. `fresh`: what is there is dropped first.

    Raises InputError when other data are in the way (without `fresh`), CouldNotRun when they cannot be made; then what was half made is removed.
    """
    benchmark.check_target(target)
    benchmark.tool()
    if target.address is not None:
        create_database(target)
    if fresh:
        cleanup(benchmark, target)
    elif benchmark.prepared(target, threads):
        return False
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        try:
            benchmark.prepare(target, Path(folder), threads, seed, say)
            whole = benchmark.prepared(target, threads)
        except BaseException:
            _undo(benchmark, target, Path(folder))
            raise
    if not whole:
        raise InputError(
            f"{benchmark.name} on {target.label}", "was prepared, but the data are not there", "", "Is something else dropping them?"
        )
    return True


def _undo(benchmark: Benchmark, target: Target, folder: Path) -> None:
    """Half a data set is no data set: the next run must not take it for one."""
    try:
        benchmark.cleanup(target, folder)
    except Exception:  # what went wrong first is what the user must hear
        return


def cleanup(benchmark: Benchmark, target: Target) -> None:
    """Removes the data. Raises CouldNotRun, InputError."""
    benchmark.check_target(target)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        benchmark.cleanup(target, Path(folder))
