"""Processor time of a transaction, from runs during which vmstat or iostat was running: virtual
CPUs at work over transactions a second.

busy_ms = share of processors at work x virtual CPUs x 1,000 / tps

The time includes that of its I/Os and of other threads meanwhile. The work in it depends on the
number of a core's threads that were busy, and on its speed and clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headrace.base import core
from headrace.calibration.runs import Run

# Relative standard deviation of a busy share as a measure of the processors' capacity. Guess:
# clients on the same machine, the kernel and background threads work besides the transactions, and
# the gain from the second thread of a core differs from load to load.
SYSTEMATIC = 0.15
# Parts of a run whose scatter gives the error of its mean; a run with fewer rows is not used.
PARTS = 8
LEAST_ROWS = 16  # a guess
# Below this share of the processors at work, their background decides the figure.
LEAST_BUSY = 0.01


@dataclass(frozen=True)
class ProcessorTime:
    """Processor time of a transaction without I/O, ms at the speed of the first run's cores, its
    relative standard deviation, and the names of the runs it was measured in."""

    cpu_ms: float
    spread: float
    runs: tuple[str, ...]


def measure_processor_time(runs: list[Run]) -> ProcessorTime | None:
    """Returns the mean processor time of a transaction over the runs, weighted by their errors;
    None if none has a busy share, known virtual CPUs, and no other load."""
    speed = runs[0].machine.core_speed if runs else None
    times = [(run.name, time) for run in runs if (time := _measure_run(run, speed)) is not None]
    if not times:
        return None
    logs = np.log([cpu_ms for _, (cpu_ms, _) in times])
    weights = np.array([1.0 / spread**2 for _, (_, spread) in times])
    mean = float((logs * weights).sum() / weights.sum())
    # The error is that of the runs' own scatter, or that of the differences between runs if larger.
    apart = float(np.std(logs, ddof=1) / math.sqrt(len(logs))) if len(logs) > 1 else 0.0
    return ProcessorTime(
        math.exp(mean),
        math.hypot(SYSTEMATIC, max(apart, 1.0 / math.sqrt(float(weights.sum())))),
        tuple(name for name, _ in times),
    )


def has_foreign_load(run: Run) -> bool:
    """Returns whether other programs had more of the processors before the run than the systematic
    error of its busy share, so that the run's own part is not known."""
    return (run.machine.busy_before or 0.0) > SYSTEMATIC * (run.busy_share or 1.0)


def _measure_run(run: Run, speed: float | None) -> tuple[float, float] | None:
    """Returns the processor time of a transaction of one run (ms on cores of `speed`) and its
    relative standard deviation by the scatter of PARTS parts; None if the run has other load, too
    few rows, or no known virtual CPUs."""
    if run.vcpus is None or has_foreign_load(run):
        return None
    busy, tps = (run.series[name].cast(float).to_numpy() for name in ("busy_share", "tps"))
    good = np.isfinite(busy) & np.isfinite(tps)
    if good.sum() < LEAST_ROWS or not tps[good].sum() > 0 or not busy[good].mean() > LEAST_BUSY:
        return None
    of_parts = [
        part_busy.sum() / part_tps.sum()
        for part_busy, part_tps in zip(np.array_split(busy[good], PARTS), np.array_split(tps[good], PARTS), strict=True)
        if part_tps.sum() > 0 and part_busy.sum() > 0
    ]
    scatter = float(np.std(np.log(of_parts), ddof=1) / math.sqrt(len(of_parts))) if len(of_parts) > 1 else SYSTEMATIC
    busy_ms = float(busy[good].sum() / tps[good].sum() * run.vcpus * 1e3)
    faster = run.machine.core_speed / speed if run.machine.core_speed and speed else 1.0
    own_vcpus = None if run.instance else run.vcpus
    cpu_ms = core.processor_ms(
        busy_ms, float(busy[good].mean()), run.threads_per_core, own_vcpus, run.machine.alone_faster
    )
    return cpu_ms * faster, max(scatter, 1e-3)
