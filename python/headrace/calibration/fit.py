"""The fit: parameters that make the core's throughput follow the measured one, state by state.

The state (transactions done) is taken from the run, so an error early in the run does not push
everything after it out of place. The fit is the most probable set of parameters given their spreads
before; a soft loss keeps a stall or a checkpoint from pulling on them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.base import core
from headrace.base.units import GIB
from headrace.calibration.counted import average_counted_pages, compare_counted
from headrace.calibration.observations import STANDSTILL_SHARE, Observation, find_client_bound_windows
from headrace.calibration.prior import find_own_spreads
from headrace.calibration.processor_time import ProcessorTime
from headrace.calibration.starts import find_lowest
from headrace.calibration.stops import compare_stopped_share, measure_stopped_share
from headrace.workload.parameters import count_data_bytes, list_parameters, scale_parameters

# Relative standard deviation of a bin's mean for reasons outside the model: the same volume an hour
# later; the published pairs of runs scatter so.
BIN_SPREAD = 0.05
# Relative standard deviation of bins in which the volumes do less than they can: another bottleneck
# binds, and I/Os per transaction then show only through the latency of the volume, which differs
# by some 20 % from volume to volume.
WAITING_SPREAD = 0.2
# Least standard deviation that is added to a fitted parameter: this share of its spread before the
# runs (chosen), at most this relative one, since the model is not exact. Fits to the published runs
# of one database lie further apart (3 % in the pages of InnoDB), but along directions in which
# parameters make up for each other, which the covariance of the fit has already.
LEAST_NARROWED, LEAST_SPREAD = 0.1, 0.01
# The mean of a second half is known better than its bins: a fit that misses it describes nothing
# (workload/misfit.py), and two of these are less than what is refused.
HALF_SPREAD = 0.02
# InnoDB, sysbench-tpcc: (cache over data, KiB of an I/O). m5 runs with vmstat recorded (pools of
# 5 and 25 GB over 94 GB: 20.4 and 23.2); c5 (54 over 471 GB): the published knee of gp2 at 2,600 GB
# (160 MiB/s over 7,800 IOPS) says 21.0, io1 under 500 MiB/s (26,000 IOPS) 20.7.
TPCC_KIB_PER_IO = ((0.053, 20.4), (0.115, 20.85), (0.266, 23.2))
TPCC_KIB_SPREAD = 0.015  # relative standard deviation: how far these figures lie apart
# The figures are of full caches: of runs that go on to this many times the transactions of the
# fill.
SETTLED_AFTER = 1.5
# Bins whose errors are correlated: those of the published runs are over about a tenth of the 90
# bins (what the model misses goes on for a while), so that ten of them weigh as much as one.
ERR_TOGETHER = 10.0


@dataclass(frozen=True)
class Fit:
    """Result of a fit: the `deltas` of the parameters `names` (logarithms of factors), their
    `spreads` before the runs and `covariance` after them in the same order, the `database` with the
    deltas applied, and the `cost` (half the sum of squares)."""

    names: tuple[str, ...]
    spreads: np.ndarray
    deltas: np.ndarray
    covariance: np.ndarray
    database: dict
    cost: float


class Objective:
    """The residuals of runs under a database with scaled parameters, in standard deviations: first
    the distances of the parameters from their values before the runs, then those of each run."""

    def __init__(
        self,
        database: dict,
        engine: str,
        observations: list[Observation],
        kib_known: bool = False,
        measured_cpu: ProcessorTime | None = None,
        lenient: bool = False,
    ) -> None:
        """Prepares the measured figures. With `kib_known` the KiB of an I/O are those of InnoDB
        under sysbench-tpcc; with `lenient` a bin in which clients bind in the model weighs as
        little as one in which the volumes were not at a cap."""
        self.lenient = lenient
        cache_bytes = max(each.run.cache_gib for each in observations) * GIB
        parameters = list_parameters(engine, database, observations[0].run.benchmark.name, cache_bytes)
        self.database, self.engine, self.observations = database, engine, observations
        self.kib_known, self.measured_cpu = kib_known, measured_cpu
        self.names = tuple(parameter.name for parameter in parameters)
        own = find_own_spreads(observations[0].run, database)
        self.spreads = np.array([own.get(parameter.name, parameter.spread) for parameter in parameters])
        self.runs = [observation.core_run for observation in observations]
        self.binned = [_bin_measurements(observation) for observation in observations]
        self.counted = [average_counted_pages(observation) for observation in observations]
        self.stopped_shares = [measure_stopped_share(observation, database) for observation in observations]
        self.bin_spreads = [_estimate_bin_spreads(observation) for observation in observations]
        self.full_at = {
            run.cache_gib: core.mysql_warm_up(database, run.cache_gib * GIB)["full_at_tx"]
            for run in (observation.run for observation in observations)
        }

    def restrict_to(self, observation: Observation) -> Objective:
        """Returns the objective of one of the runs alone."""
        cpu = self.measured_cpu
        own = cpu if cpu is not None and observation.run.name in cpu.runs else None
        return Objective(self.database, self.engine, [observation], self.kib_known, own, self.lenient)

    def apply(self, deltas: np.ndarray) -> dict:
        """Returns the database with each parameter multiplied by the exponential of its delta, in
        the order of `names`."""
        return scale_parameters(self.database, self.engine, dict(zip(self.names, deltas, strict=True)))

    def __call__(self, deltas: np.ndarray) -> np.ndarray:
        """Returns the residuals in standard deviations, one array: the parameters', then those of
        each run."""
        changed = self.apply(deltas)
        modelled = core.mysql_runs(changed, self.runs)
        parts = [deltas / self.spreads]
        if (cpu := self.measured_cpu) is not None:
            modelled_ms = self._model_cpu(changed, modelled, cpu.runs)
            parts.append(np.array([np.log(modelled_ms / cpu.cpu_ms) / cpu.spread]))
        for observation, columns, binned, spreads, pages, stopped_shares in zip(
            self.observations, modelled, self.binned, self.bin_spreads, self.counted, self.stopped_shares, strict=True
        ):
            parts.append(_compare_half(observation, np.array(columns["tps"])))
            if self.lenient:
                client_bound_share = observation.average_in_bins(find_client_bound_windows(columns).astype(float))
                spreads = np.maximum(
                    spreads, BIN_SPREAD + (WAITING_SPREAD - BIN_SPREAD) * np.nan_to_num(client_bound_share)
                )
            parts += _compare(observation, columns, binned, spreads)
            parts += compare_counted(pages, observation, columns)
            parts += compare_stopped_share(stopped_shares, columns)
            if self.kib_known and _is_steady_without_bytes(observation, self.full_at[observation.run.cache_gib]):
                last = slice(-20, None)
                kib = np.mean(columns["mib_s"][last]) * 1024 / np.mean(columns["iops"][last])
                usual = _interpolate_usual_kib(observation, self.database)
                parts.append(np.array([np.log(kib / usual) / TPCC_KIB_SPREAD]))
        return np.concatenate(parts)

    def _model_cpu(self, database: dict, modelled: list[core.DatabaseRows], names: Collection[str]) -> float:
        """Returns the modelled processor time of a transaction with its I/Os, ms: the mean over the
        transactions of the runs with these names. It includes what the clients cost each other in
        processor caches, as a measured time does."""
        busy, done = 0.0, 0.0
        for observation, columns in zip(self.observations, modelled, strict=True):
            run = observation.run
            if run.name in names and run.vcpus:
                tps, iops = (float(np.sum(columns[name])) for name in ("tps", "iops"))
                ios = iops / max(tps, 1e-9)
                among = core.cpu_ms_among(database["clients"], run.threads, ios, run.vcpus, run.threads_per_core)
                busy, done = busy + tps * among, done + tps
        return busy / max(done, 1e-9)


def fit(
    objective: Objective, starts: Sequence[np.ndarray], finalists: int = 1, fixed: Collection[str] = frozenset()
) -> Fit:
    """Returns the fit with the lowest objective that least squares reach from any of `starts`,
    arrays of logarithms in the order of the objective's names; only the best `finalists` are
    followed to their end. Parameters named in `fixed` stay at their values before the runs."""
    is_free = np.array([name not in fixed for name in objective.names])

    def spread_out(moved: np.ndarray) -> np.ndarray:
        deltas = np.zeros(len(is_free))
        deltas[is_free] = moved
        return deltas

    spreads = objective.spreads[is_free]
    end = find_lowest(
        lambda moved: objective(spread_out(moved)), spreads, [begin[is_free] for begin in starts], finalists
    )
    covariance = np.diag(objective.spreads**2)
    covariance[np.ix_(is_free, is_free)] = np.linalg.pinv(end.jac.T @ end.jac)
    covariance[np.ix_(is_free, is_free)] += np.diag(np.minimum(LEAST_NARROWED * spreads, LEAST_SPREAD) ** 2)
    deltas = spread_out(end.deltas)
    return Fit(objective.names, objective.spreads, deltas, covariance, objective.apply(deltas), end.cost)


def _compare_half(observation: Observation, tps: np.ndarray) -> np.ndarray:
    """Returns the logarithm of modelled over measured mean tps of the second half, in standard
    deviations: an array with one value, empty if all its windows were disturbed. The fewer of them
    were undisturbed, the larger is the standard deviation."""
    half = observation.judged_half
    if not half.any():
        return np.zeros(0)
    ratio = np.mean(tps[half]) / max(float(np.mean(observation.tps[half])), 1e-9)
    spread = HALF_SPREAD * np.sqrt(len(half) / (2.0 * half.sum()))
    return np.array([np.log(np.clip(ratio, STANDSTILL_SHARE, 1.0 / STANDSTILL_SHARE)) / spread])


def _is_steady_without_bytes(observation: Observation, full_at_tx: float | None) -> bool:
    """Returns whether no bytes were measured and the end of the run lies well behind the fill of
    the cache, during which an I/O is mostly a page read."""
    settled = full_at_tx is not None and (
        observation.run.start == "warm" or observation.tx[-1] > SETTLED_AFTER * full_at_tx
    )
    return settled and not np.isfinite(observation.mib_s).any()


def _interpolate_usual_kib(observation: Observation, database: dict) -> float:
    """Returns KiB of an I/O of InnoDB under sysbench-tpcc, by how much of the data the cache
    holds."""
    cached_share = observation.core_run["cache_bytes"] / count_data_bytes(database)
    return float(np.interp(cached_share, *np.array(TPCC_KIB_PER_IO).T))


def _bin_measurements(observation: Observation) -> dict[str, np.ndarray]:
    """Returns the measured means of each bin by name: tps, and I/Os, reads and MiB a transaction;
    nan in bins without windows."""
    per_tx = np.maximum(observation.tps, 1e-9)
    return {
        "tps": observation.average_in_bins(observation.undisturbed_tps),
        "ios_per_tx": observation.average_in_bins(observation.iops / per_tx),
        "reads_per_tx": observation.average_in_bins(observation.reads_per_s / per_tx),
        "mib_per_tx": observation.average_in_bins(observation.mib_s / per_tx),
    }


def _estimate_bin_spreads(observation: Observation) -> np.ndarray:
    """Returns the relative standard deviation of each bin's mean tps, from the measurement alone:
    the scatter of its windows, and a fixed part for what the model leaves out."""
    idle = np.nan_to_num(observation.average_in_bins(observation.underused.astype(float)))
    return np.hypot(BIN_SPREAD + (WAITING_SPREAD - BIN_SPREAD) * idle, _estimate_noise(observation))


def _estimate_noise(observation: Observation) -> np.ndarray:
    """Returns the relative standard deviation of each bin's mean tps by the scatter of its windows;
    a bin with one window takes the median of the others, 0 if there are none."""
    tps = observation.undisturbed_tps
    mean, squares = observation.average_in_bins(tps), observation.average_in_bins(tps**2)
    count = observation.count_in_bins(tps)
    several = count > 1
    variance = np.maximum(squares - mean**2, 0.0) * count / np.maximum(count - 1, 1)
    of_a_window = np.sqrt(np.nan_to_num(variance)) / np.where(mean > 0, mean, 1.0)
    usual = float(np.median(of_a_window[several])) if several.any() else 0.0
    return np.where(several, of_a_window, usual) / np.sqrt(np.maximum(count, 1))


def _compare(
    observation: Observation, columns: core.DatabaseRows, binned: dict[str, np.ndarray], spreads: np.ndarray
) -> list[np.ndarray]:
    """Compares modelled with measured means per bin: returns an array of softened residuals for
    each figure that was measured, in standard deviations of ERR_TOGETHER bins."""
    tps = np.array(columns["tps"])
    per_tx = np.maximum(tps, 1e-9)
    modelled = {
        "tps": tps,
        "ios_per_tx": np.array(columns["iops"]) / per_tx,
        "reads_per_tx": np.array(columns["reads_per_tx"]),
        "mib_per_tx": np.array(columns["mib_s"]) / per_tx,
    }
    parts = []
    for name, values in modelled.items():
        if np.isfinite(binned[name]).any():
            modelled_bins = observation.average_in_bins(values)
            # The set of bins that count may not depend on the parameters, so a model that makes
            # next to nothing of a bin gets a small value, not a gap.
            good = np.isfinite(binned[name]) & np.isfinite(modelled_bins) & (binned[name] > 0)
            modelled_bins[good] = np.maximum(modelled_bins[good], STANDSTILL_SHARE * binned[name][good])
            spread = spreads if name == "tps" else np.full(len(modelled_bins), BIN_SPREAD)
            parts.append(
                _soften(np.log(modelled_bins[good] / binned[name][good]) / spread[good]) / np.sqrt(ERR_TOGETHER)
            )
    return parts


def _soften(residual: np.ndarray) -> np.ndarray:
    """Returns residuals that grow like a root beyond one standard deviation, so that a stall counts
    but does not decide. Those of the parameters before the runs are not softened."""
    return np.sign(residual) * np.sqrt(2.0 * (np.sqrt(1.0 + residual**2) - 1.0))
