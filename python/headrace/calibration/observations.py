"""A measured run as a fit sees it: windows of a few seconds with their state, and the same run as
the core would simulate it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headrace.base import core
from headrace.base.encoding import pick_fields
from headrace.base.units import GIB
from headrace.calibration.runs import Run

PAGE_KIB = 16.0  # InnoDB's default page
WINDOW_S = 5.0  # five seconds of a run: a window scatters by some 3 %
# Bins of like width in the logarithm of transactions: the fill of the cache counts as much as the
# hour after it.
BINS = 90
# A window below this share of the model's tps is a stall, as in run descriptions: it says nothing
# of I/Os per transaction.
STALL_SHARE = 0.1
# Volumes that are seen to do less than this of what they can did not hold the run: tps then does
# not tell the I/Os per transaction, their count does. Over TOGETHER windows: one alone scatters by
# some 3 % of itself.
USED_WHOLE, TOGETHER = 0.95, 9
# Windows in which the same clients did less than this of what they did elsewhere at no fewer I/Os a
# transaction were disturbed: twice what a bin is off for reasons outside the model, since the best
# of many windows is also the luckiest.
UNDISTURBED = 0.9
# Below this share of the median a window stood still: however long that took, it is not a
# throughput to fit.
STANDSTILL_SHARE = 0.02


@dataclass(frozen=True)
class Observation:
    """Measurements in windows of `step_s`, one value per window, nan where it was not: `tps`, `tx`
    (transactions by the middle of the window), I/Os and reads a second (of InnoDB, where bytes
    alone were counted, the pages that these are), MiB a second, and the bin. `seconds_tps` and
    `seconds_p95_ms` have a value per row of the run. `begun_tx`: transactions after which an empty
    pool would have been as full as it was when the run began; 0: as its description says."""

    run: Run
    step_s: float
    tps: np.ndarray
    tx: np.ndarray
    iops: np.ndarray
    reads_per_s: np.ndarray
    mib_s: np.ndarray
    seconds_tps: np.ndarray
    seconds_p95_ms: np.ndarray
    bins: np.ndarray
    begun_tx: float = 0.0

    @property
    def core_run(self) -> dict:
        """The run as `core.mysql_runs` takes it, its state following the measured transactions."""
        begun = {"start": self.begun_tx} if self.begun_tx > 0.0 else {}
        followed = {"follow": self.tx.tolist()}
        return make_core_run(self.run, len(self.tps) * self.step_s, self.step_s) | begun | followed

    @property
    def moving_tps(self) -> np.ndarray:
        """tps, nan in windows that stood still (a cold cache is some tenfold slower than a full
        one, not fiftyfold) or were disturbed."""
        moving = self.tps[self.tps > 0]
        if not len(moving):
            return self.tps
        return np.where((self.tps > STANDSTILL_SHARE * np.median(moving)) & ~self.disturbed, self.tps, np.nan)

    @cached_property
    def disturbed(self) -> np.ndarray:
        """Windows in which something other than the database took its time: the volumes had room,
        and the same clients did more elsewhere in the run with no fewer I/Os a transaction.

        Clients, processors and contention hold a run by the same law throughout: the rate falls
        only where a transaction waits for more I/Os. Reads, where they were counted apart, are what
        it waits for.
        """
        underused = self.underused
        if not underused.any():
            return underused
        ios = self.reads_per_s if np.isfinite(self.reads_per_s).all() else self.iops
        seen = (self.iops > 0) & (self.tps > 0)
        tps = _average_around(self.tps, seen)
        ios_per_tx = _average_around(ios, seen) / np.maximum(tps, 1e-9)
        by_ios = np.argsort(-ios_per_tx, kind="stable")
        by_ios = by_ios[seen[by_ios]]
        best = np.zeros(len(tps))
        best[by_ios] = np.maximum.accumulate(tps[by_ios])
        return underused & seen & (tps < UNDISTURBED * best)

    @cached_property
    def judged_half(self) -> np.ndarray:
        """Windows of the second half that were not disturbed."""
        return (np.arange(len(self.tps)) >= len(self.tps) // 2) & ~self.disturbed

    @cached_property
    def underused(self) -> np.ndarray:
        """Windows in which I/Os were counted and the volumes did less than they can, in I/Os and in
        bytes: something else held the run."""
        counted = self.iops > 0
        if not counted.any():
            return counted
        share = _average_around(self.iops / self.run.caps.iops, counted)
        bytes_counted = counted & np.isfinite(self.mib_s)
        of_bytes = (
            _average_around(self.mib_s / self.run.caps.mib_s, bytes_counted)
            if bytes_counted.any()
            else np.zeros(len(counted))
        )
        return counted & (share < USED_WHOLE) & (of_bytes < USED_WHOLE)

    def average_in_bins(self, values: np.ndarray) -> np.ndarray:
        """Averages one value per window in each of BINS + 1 bins; nan in bins without windows."""
        good = np.isfinite(values)
        counts = self.count_in_bins(values)
        sums = np.bincount(self.bins[good], values[good], minlength=BINS + 1)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def count_in_bins(self, values: np.ndarray) -> np.ndarray:
        """Counts the finite values (one per window) in each of BINS + 1 bins."""
        return np.bincount(self.bins[np.isfinite(values)], minlength=BINS + 1)


def make_core_run(run: Run, seconds: float, step_s: float, **changes: object) -> dict:
    """Returns a run of the core on the storage, cache and clients of a measured run; `seconds` and
    `step_s`: its length and that of a window."""
    return {
        **pick_fields(run, "storage", "log_storage", "instance", "start", "start_balance_percent"),
        "vcpus": run.settings.get("vcpus"),
        "as_of": run.as_of.isoformat(),
        "cache_bytes": run.cache_gib * GIB,
        "clients": run.threads,
        "arrivals": None,
        "seconds": int(round(seconds)),
        "step_s": float(step_s),
        "seed": None,
        "follow": None,
    } | changes


def observe(run: Run) -> Observation:
    """Cuts a run into windows of whole rows, each about WINDOW_S long or a single row.

    Stalled and suspect seconds stay: they are part of what was delivered.
    """
    series = run.series
    step_s = max(WINDOW_S, run.interval_s)
    per = max(1, int(round(step_s / run.interval_s)))
    windows = series.height // per

    def read_column(name: str) -> np.ndarray:
        values = series[name].cast(float).to_numpy().astype(float, copy=True)[: windows * per]
        return values

    def average(values: np.ndarray) -> np.ndarray:
        return values.reshape(windows, per).mean(axis=1)

    seconds = read_column("tps")
    tps = average(np.nan_to_num(seconds))
    step_s = per * run.interval_s
    before = np.concatenate([[0.0], np.cumsum(tps * step_s)])[:-1]
    tx = before + tps * step_s / 2
    reads, writes = average(read_column("read_iops")), average(read_column("write_iops"))
    read_mib, written_mib = average(read_column("read_mib_s")), average(read_column("write_mib_s"))
    edges = np.geomspace(max(tx[0], tx[-1] * 1e-4, 1.0), tx[-1] * (1 + 1e-9), BINS)
    mib, bins = read_mib + written_mib, np.searchsorted(edges, tx)
    pages = reads if run.engine != "innodb" or np.isfinite(reads).any() else read_mib * 1024 / get_page_kib(run)
    return Observation(run, step_s, tps, tx, reads + writes, pages, mib, seconds, read_column("p95_ms"), bins)


def get_page_kib(run: Run) -> float:
    """Returns the size of a page of InnoDB, KiB: as described, else the default."""
    return float(run.settings.get("page_kib", PAGE_KIB))


def compare_ios_per_tx(columns: core.DatabaseRows, observation: Observation) -> tuple[np.ndarray, np.ndarray]:
    """Returns two arrays with a value per window: the logarithm of measured over modelled I/Os per
    transaction, and whether the window tells it. They are counted if the server counted them, else
    modelled over measured tps, which is the same at a cap that is used whole (a second in which the
    machine did something else does not mean more I/Os).

    Stalled windows do not tell it; their values are bridged from their neighbours.
    """
    modelled, ios = np.array(columns["tps"]), np.array(columns["iops"])
    good = (observation.tps > STALL_SHARE * modelled) & (modelled > 0)
    if not good.any():
        return np.zeros(len(modelled)), good
    at, counted = np.arange(len(modelled)), observation.iops > 0
    by_tps = modelled / np.where(good, observation.tps, 1.0)
    by_count = by_tps * np.where(counted, observation.iops, 1.0) / np.where(counted, ios, 1.0)
    value = np.log(np.where(counted, by_count, by_tps), where=good, out=np.zeros(len(modelled)))
    return np.interp(at, at[good], value[good]), good


def _average_around(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Averages what was counted over the TOGETHER windows around each."""
    window = np.ones(min(TOGETHER, len(values)))  # "same" is as long as the longer of the two
    return np.convolve(np.where(counted, values, 0.0), window, "same") / np.maximum(
        np.convolve(counted, window, "same"), 1.0
    )


def find_client_bound_windows(columns: core.DatabaseRows) -> np.ndarray:
    """Marks the windows of a modelled run in which clients or processors bind, not the storage."""
    return np.isin(columns["cap"], ("clients", "cpu", "contention"))
