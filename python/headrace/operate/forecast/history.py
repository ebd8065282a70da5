"""A recording as days of five minutes, on the clock it was recorded with.

Five minutes are the period that CloudWatch keeps for 63 days (CloudWatch guide, Concepts: metrics
retention); a finer recording is averaged to it, so that a forecast does not depend on the tool.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from headrace.base.units import DAY_S
from headrace.errors import Refusals
from headrace.workload import OpenWorkload
from headrace.workload.points import MAX_IO_KIB, MIN_IO_KIB, make_points

SLOT_S = 300  # CloudWatch's period, see above
SLOTS_PER_DAY = DAY_S // SLOT_S
SLOTS_PER_HOUR = 3_600 // SLOT_S
refuse = Refusals("docs/guide/forecast.md")
# Columns of a history, per second: I/Os and KiB of reads and of writes.
READS, WRITES, READ_KIB, WRITE_KIB = range(4)
# The date of a recording without one, a Saturday; no forecast depends on it.
SOME_DAY = "2000-01-01"


@dataclass(frozen=True)
class DemandHistory:
    """Demand in slots of five minutes.

    `begin`: clock time of the first slot, a multiple of five minutes; `recorded_from` that of the
    recording. `rates`: a row per slot with
    reads/s, writes/s, KiB read/s and KiB written/s. `dated`: False where the recording told no
    date (weekdays are then unknown) and `clocked` False where it told no time of day either.
    """

    begin: datetime
    recorded_from: datetime
    rates: np.ndarray
    dated: bool
    clocked: bool

    @property
    def end(self) -> datetime:
        """Clock time of the end of the last slot: the present of the forecast."""
        return self.begin + timedelta(seconds=SLOT_S * len(self.rates))

    @property
    def iops(self) -> np.ndarray:
        """Reads and writes a second of each slot."""
        return sum_iops(self.rates)

    def compute_slot(self, index: int = 0) -> int:
        """Returns the place of the slot `index` in its day, 0 at midnight."""
        first = (self.begin.hour * 3_600 + self.begin.minute * 60) // SLOT_S
        return (first + index) % SLOTS_PER_DAY

    def list_whole_days(self) -> tuple[datetime, np.ndarray]:
        """Returns the first midnight, and the whole days: an array of days x slots x columns."""
        skipped = -self.compute_slot() % SLOTS_PER_DAY
        days = max(0, (len(self.rates) - skipped) // SLOTS_PER_DAY)
        whole = self.rates[skipped : skipped + days * SLOTS_PER_DAY]
        return self.begin + timedelta(seconds=SLOT_S * skipped), whole.reshape(days, SLOTS_PER_DAY, 4)


def build_history(workload: OpenWorkload) -> DemandHistory:
    """Returns the demand of a recording in slots of five minutes; the ends that fill no slot are
    left out.

    Demand at a limit is raised to the least that was there (`OpenWorkload.uncensor` with a margin
    of 1). Raises InputError for a recording shorter than an hour.
    """
    start = workload.source.get("clock_start")
    dated = start is not None and len(start) > 8
    text = start if start is not None and dated else f"{SOME_DAY}T{start or '00:00:00'}"
    began = datetime.fromisoformat(text).replace(tzinfo=None)
    points = workload.uncensor(1.0).points
    edges = np.append(points["t_s"].to_numpy(), workload.span_s)
    midnight = began.replace(hour=0, minute=0, second=0, microsecond=0)
    offset_s = (began - midnight).total_seconds()
    first = int(-(-offset_s // SLOT_S))
    slots = int((offset_s + workload.span_s) // SLOT_S) - first
    if slots < SLOTS_PER_HOUR:
        rule = "a forecast needs at least an hour of demand"
        raise refuse.input(f"{workload.name}: {workload.span_s / 60:.0f} min", rule, "Record longer.")
    at = (first + np.arange(slots + 1)) * SLOT_S - offset_s
    reads, writes = points["reads_per_s"].to_numpy(), points["writes_per_s"].to_numpy()
    columns = (reads, writes, reads * points["read_kib"].to_numpy(), writes * points["write_kib"].to_numpy())
    rates = np.column_stack([compute_means(at, edges, column) for column in columns])
    # A difference of sums of billions leaves rounding below zero where nothing was asked.
    begin = midnight + timedelta(seconds=SLOT_S * first)
    return DemandHistory(begin, began, np.maximum(rates, 0.0), dated, start is not None)


def compute_means(at: np.ndarray, edges: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Returns the mean rate between each two moments of `at`; `rates[i]` holds from `edges[i]` to
    the next.

    The sum up to a moment is a broken line: its differences are exact for any moments.
    """
    sums = np.concatenate(([0.0], np.cumsum(rates * np.diff(edges))))
    return np.diff(np.interp(at, edges, sums)) / np.diff(at)


def sum_iops(rates: np.ndarray) -> np.ndarray:
    """Returns reads and writes a second of slots (the last axis has the four columns)."""
    return rates[..., READS] + rates[..., WRITES]


def make_workload(history: DemandHistory, rates: np.ndarray, name: str) -> OpenWorkload:
    """Returns slots of demand (rows as of `DemandHistory.rates`) as a workload that begins at the
    history's end."""
    with np.errstate(divide="ignore", invalid="ignore"):
        read_kib = np.clip(np.nan_to_num(rates[:, READ_KIB] / rates[:, READS]), MIN_IO_KIB, MAX_IO_KIB)
        write_kib = np.clip(np.nan_to_num(rates[:, WRITE_KIB] / rates[:, WRITES]), MIN_IO_KIB, MAX_IO_KIB)
    at = np.arange(len(rates)) * float(SLOT_S)
    points = make_points(at, np.full(len(rates), float(SLOT_S)), rates[:, READS], rates[:, WRITES], read_kib, write_kib)
    source = {"clock_start": history.end.isoformat()} if history.clocked else {}
    return OpenWorkload(name=name, kind="recorded", points=points, source=source)
