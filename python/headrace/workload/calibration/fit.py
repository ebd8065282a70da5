"""The fit: parameters that make the core's throughput follow the measured one, state by state.

The state (transactions done) is taken from the run, so an error early in the run does not push everything after it out of place. What is asked for is the
most probable set of parameters given their spreads before; a soft loss keeps a stall or a checkpoint from pulling on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from headrace import _core
from headrace.workload.calibration.observe import Observation
from headrace.workload.parameters import applied, of_engine

# How far a bin's mean is off for reasons outside the model, as a relative standard deviation: the same volume an hour later; the published pairs of runs scatter so.
BIN_SPREAD = 0.05
# InnoDB, sysbench-tpcc: KiB of an I/O. The published knee of gp2 at 2,600 GB (160 MiB/s over 7,800 IOPS) says 21.0, io1 under 500 MiB/s (26,000 IOPS) 20.7.
TPCC_KIB_PER_IO = 20.85
TPCC_KIB_SPREAD = 0.015


@dataclass(frozen=True)
class Fit:
    """`deltas` by parameter (logarithms), their `covariance` in the same order, `database` with them applied."""

    names: tuple[str, ...]
    deltas: np.ndarray
    covariance: np.ndarray
    database: dict


def fit(database: dict, engine: str, observations: list[Observation], start: np.ndarray | None = None, kib_known: bool = False) -> Fit:
    """Fits the parameters of `engine` to runs, beginning at `database`. `kib_known`: the mix of bytes is that of InnoDB under sysbench-tpcc."""
    parameters = of_engine(engine)
    names = tuple(parameter.name for parameter in parameters)
    spreads = np.array([parameter.spread for parameter in parameters])
    runs = [observation.core_run for observation in observations]
    measured = [_measured(observation) for observation in observations]

    def residuals(deltas: np.ndarray) -> np.ndarray:
        changed = applied(database, engine, dict(zip(names, deltas, strict=True)))
        parts = [deltas / spreads]
        for observation, columns, seen in zip(observations, _core.mysql_runs(changed, runs), measured, strict=True):
            parts += _compare(observation, columns, seen)
            if kib_known and not np.isfinite(observation.mib_s).any():
                last = slice(-20, None)
                kib = np.mean(columns["mib_s"][last]) * 1024 / np.mean(columns["iops"][last])
                parts.append(np.array([np.log(kib / TPCC_KIB_PER_IO) / TPCC_KIB_SPREAD]))
        return np.concatenate(parts)

    begin = np.zeros(len(names)) if start is None else start
    bounds = np.log(30.0)
    found = least_squares(residuals, np.clip(begin, -bounds + 0.01, bounds - 0.01), bounds=(-bounds, bounds), diff_step=0.01, x_scale=spreads, max_nfev=30)
    covariance = np.linalg.pinv(found.jac.T @ found.jac)
    return Fit(names, found.x, covariance, applied(database, engine, dict(zip(names, found.x, strict=True))))


def _measured(observation: Observation) -> dict[str, np.ndarray]:
    per_tx = np.maximum(observation.tps, 1e-9)
    return {
        "tps": observation.binned(observation.tps),
        "ios_per_tx": observation.binned(observation.iops / per_tx),
        "reads_per_tx": observation.binned(observation.reads_per_s / per_tx),
        "mib_per_tx": observation.binned(observation.mib_s / per_tx),
    }


def _compare(observation: Observation, columns: dict, seen: dict[str, np.ndarray]) -> list[np.ndarray]:
    tps = np.array(columns["tps"])
    per_tx = np.maximum(tps, 1e-9)
    ours = {
        "tps": tps,
        "ios_per_tx": np.array(columns["iops"]) / per_tx,
        "reads_per_tx": np.array(columns["reads_per_tx"]),
        "mib_per_tx": np.array(columns["mib_s"]) / per_tx,
    }
    parts = []
    for name, values in ours.items():
        if np.isfinite(seen[name]).any():
            binned = observation.binned(values)
            good = np.isfinite(seen[name]) & np.isfinite(binned) & (seen[name] > 0) & (binned > 0)
            parts.append(_soft(np.log(binned[good] / seen[name][good]) / BIN_SPREAD))
    return parts


def _soft(residual: np.ndarray) -> np.ndarray:
    """Grows like a root beyond one standard deviation: a stall counts, but does not decide. What was known before the run is not softened."""
    return np.sign(residual) * np.sqrt(2.0 * (np.sqrt(1.0 + residual**2) - 1.0))
