"""Observations: a measured run in windows of a few seconds, each with the transactions done by
then, and the same run as the core simulates it.
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
# Bins of equal width in the logarithm of transactions, so that the fill of the cache weighs as much
# as the hour after it.
BINS = 90
# A window below this share of the model's tps is a stall, as in run descriptions: it says nothing
# of I/Os per transaction.
STALL_SHARE = 0.1
# Volumes below this share of their cap, in the mean of SMOOTHED_WINDOWS windows, did not limit the
# run: I/Os per transaction then follow from counts alone, not from tps. A single window scatters by
# some 3 %.
AT_CAP_SHARE, SMOOTHED_WINDOWS = 0.95, 9
# Windows in which the same clients did less than this of what they did elsewhere at no fewer I/Os a
# transaction were disturbed: twice what a bin is off for reasons outside the model, since the best
# of many windows is also the luckiest.
UNDISTURBED = 0.9
# Below this share of the median a window stood still: however long that took, it is not a
# throughput to fit.
STANDSTILL_SHARE = 0.02


@dataclass(frozen=True)
class Observation:
    """A run in windows of `step_s` seconds. `tps`, `tx` (transactions by the middle of the window),
    I/Os, reads and MiB a second and `bins` have a value per window, nan if it was not measured; if
    InnoDB's bytes alone were counted, the reads are those in pages. `seconds_tps` and
    `seconds_p95_ms` have a value per row of the run. `begun_tx` is the number of transactions after
    which an empty pool would be as full as it was at the start; 0: as the description says."""

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
        """Returns the run as `core.mysql_runs` takes it, its state following the transactions that
        were measured."""
        begun = {"start": self.begun_tx} if self.begun_tx > 0.0 else {}
        followed = {"follow": self.tx.tolist()}
        return make_core_run(self.run, len(self.tps) * self.step_s, self.step_s) | begun | followed

    @property
    def undisturbed_tps(self) -> np.ndarray:
        """Returns tps, nan in windows that were disturbed or stood still (a cold cache is some
        tenfold slower than a full one, not fiftyfold)."""
        positive = self.tps[self.tps > 0]
        if not len(positive):
            return self.tps
        return np.where((self.tps > STANDSTILL_SHARE * np.median(positive)) & ~self.disturbed, self.tps, np.nan)

    @cached_property
    def disturbed(self) -> np.ndarray:
        """Marks the windows that something other than the database slowed down: the volumes were
        below their cap, and the clients did more elsewhere in the run with no fewer I/Os a
        transaction (reads, if they were counted apart). Clients, processors and contention limit
        the rate in the same way throughout a run."""
        underused = self.underused
        if not underused.any():
            return underused
        ios = self.reads_per_s if np.isfinite(self.reads_per_s).all() else self.iops
        measured = (self.iops > 0) & (self.tps > 0)
        tps = _average_around(self.tps, measured)
        ios_per_tx = _average_around(ios, measured) / np.maximum(tps, 1e-9)
        by_ios = np.argsort(-ios_per_tx, kind="stable")
        by_ios = by_ios[measured[by_ios]]
        best = np.zeros(len(tps))
        best[by_ios] = np.maximum.accumulate(tps[by_ios])
        return underused & measured & (tps < UNDISTURBED * best)

    @cached_property
    def judged_half(self) -> np.ndarray:
        """Marks the windows of the second half that were not disturbed."""
        return (np.arange(len(self.tps)) >= len(self.tps) // 2) & ~self.disturbed

    @cached_property
    def underused(self) -> np.ndarray:
        """Marks the windows in which I/Os were counted and the volumes were below their caps, in
        I/Os and in bytes: something else limited the rate."""
        counted = self.iops > 0
        if not counted.any():
            return counted
        share = _average_around(self.iops / self.run.caps.iops, counted)
        bytes_counted = counted & np.isfinite(self.mib_s)
        byte_share = (
            _average_around(self.mib_s / self.run.caps.mib_s, bytes_counted)
            if bytes_counted.any()
            else np.zeros(len(counted))
        )
        return counted & (share < AT_CAP_SHARE) & (byte_share < AT_CAP_SHARE)

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
    """Returns the core's run of `seconds` on the storage, cache and clients of a measured run, in
    windows of `step_s`; `changes` replace its fields."""
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
    """Returns the observation of a run: its rows averaged over windows of whole rows, each about
    WINDOW_S long or a single row. Stalled and suspect rows count: they were delivered so."""
    series = run.series
    step_s = max(WINDOW_S, run.interval_s)
    per = max(1, int(round(step_s / run.interval_s)))
    windows = series.height // per

    def read_column(name: str) -> np.ndarray:
        return series[name].cast(float).to_numpy().astype(float, copy=True)[: windows * per]

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
    transaction, and whether the window is usable. I/Os that were counted are compared directly;
    otherwise modelled over measured tps stands for them, which is the same at a cap. Stalled
    windows are not usable, and their values are interpolated.
    """
    modelled, ios = np.array(columns["tps"]), np.array(columns["iops"])
    good = (observation.tps > STALL_SHARE * modelled) & (modelled > 0)
    if not good.any():
        return np.zeros(len(modelled)), good
    index, counted = np.arange(len(modelled)), observation.iops > 0
    by_tps = modelled / np.where(good, observation.tps, 1.0)
    by_count = by_tps * np.where(counted, observation.iops, 1.0) / np.where(counted, ios, 1.0)
    value = np.log(np.where(counted, by_count, by_tps), where=good, out=np.zeros(len(modelled)))
    return np.interp(index, index[good], value[good]), good


def _average_around(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Returns the mean of the counted values over the SMOOTHED_WINDOWS windows around each."""
    window = np.ones(min(SMOOTHED_WINDOWS, len(values)))  # "same" is as long as the longer of the two
    return np.convolve(np.where(counted, values, 0.0), window, "same") / np.maximum(
        np.convolve(counted, window, "same"), 1.0
    )


def find_client_bound_windows(columns: core.DatabaseRows) -> np.ndarray:
    """Marks the windows of a modelled run in which clients or processors bind, not the storage."""
    return np.isin(columns["cap"], ("clients", "cpu", "contention"))
