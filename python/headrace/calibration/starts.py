"""Least squares from several starts.

Pages touched, response time without I/O and processor time can each explain the same rate at one
storage, so that a fit from the standard benchmark alone may end in the wrong one of several
minima. The lowest minimum that any start leads to is taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from headrace.base.extras import import_optional

# Bounds of a parameter's logarithm.
BOUND = float(np.log(30.0))
# Step of a finite difference, of a logarithm: 1 %, some ten times what the steps of a run (a bucket
# that runs empty a window earlier) jump by.
STEP = 0.01
# Evaluations of the objective (each with a Jacobian) with which starts are screened, and with which
# the best of them are finished at most. Chosen: three steps leave the slopes around a start, and a
# calibration has some seconds.
SCREEN, FINISH = 3, 20
# A fit has ended when a step changes the objective or the parameters by less than this share: of an
# objective of 1 to 100, a parameter is then a hundredth of its spread from the end at most.
ENDED = 1e-4
# One minimum is lower than another when it is by more than this share: less is how far it was
# followed.
LOWER = 1e-3
# Factors on parameters that trade against each other. Three times is as far as hardware and data
# sets of the field differ.
DIRECTIONS: tuple[dict[str, float], ...] = (
    {"base_ms": 0.3},
    {"base_ms": 3.0},
    {"pages_touched": 0.5},
    {"pages_touched": 2.0},
    {"base_ms": 0.3, "cpu_ms": 0.3},
)

Residuals = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Minimum:
    """Result of a least-squares search: `deltas` (logarithms), `cost` (half the sum of squares) and
    the Jacobian `jac` there."""

    deltas: np.ndarray
    cost: float
    jac: np.ndarray


def list_directions(names: Sequence[str]) -> list[np.ndarray]:
    """Returns the fixed starts for parameters of these names, each an array of logarithms: the
    standard benchmark first, then DIRECTIONS."""
    starts = [np.zeros(len(names))]
    for factors in DIRECTIONS:
        starts.append(np.array([np.log(factors.get(name, 1.0)) for name in names]))
    return starts


def find_lowest(residuals: Residuals, spreads: np.ndarray, starts: Sequence[np.ndarray], finalists: int = 1) -> Minimum:
    """Returns the lowest minimum that is reached from any of `starts` (logarithms): all are
    screened in a few evaluations, and the best `finalists` of them followed to their end."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        search = _Search(residuals, spreads, pool)
        best = list(starts)
        if len(best) > finalists:
            screened = [search.descend(begin, SCREEN) for begin in starts]
            best = [each.deltas for each in _sort_by_cost(screened)[:finalists]]
        return _sort_by_cost([search.descend(begin, FINISH) for begin in best])[0]


def _sort_by_cost(minima: Sequence[Minimum]) -> list[Minimum]:
    """Returns the minima by cost; two that differ by less than LOWER stay in their order."""
    ordered: list[Minimum] = []
    for each in minima:
        place = next((i for i, other in enumerate(ordered) if each.cost < other.cost * (1.0 - LOWER)), len(ordered))
        ordered.insert(place, each)
    return ordered


class _Search:
    """Least squares on one objective, with the columns of the Jacobian computed in parallel."""

    def __init__(self, residuals: Residuals, spreads: np.ndarray, pool: ThreadPoolExecutor) -> None:
        self.residuals = residuals
        self.spreads = spreads
        self.pool = pool

    def compute_jacobian(self, deltas: np.ndarray, *_: object) -> np.ndarray:
        """Returns the Jacobian by forward differences (backward at the upper bound): a row per
        residual, a column per parameter."""
        steps = np.where(deltas + STEP < BOUND, STEP, -STEP)
        places = [deltas, *(deltas + step * unit for step, unit in zip(steps, np.eye(len(deltas)), strict=True))]
        here, *moved = self.pool.map(self.residuals, places)
        return np.stack([(there - here) / step for there, step in zip(moved, steps, strict=True)], axis=1)

    def descend(self, begin: np.ndarray, evaluations: int) -> Minimum:
        """Returns the minimum that least squares reach from `begin` in at most `evaluations`."""
        with import_optional():
            from scipy.optimize import least_squares

        end = least_squares(
            self.residuals,
            np.clip(begin, -BOUND + STEP, BOUND - STEP),
            jac=self.compute_jacobian,  # pyright: ignore[reportArgumentType]
            bounds=(-BOUND, BOUND),
            x_scale=self.spreads,
            max_nfev=evaluations,
            ftol=ENDED,
            xtol=ENDED,
        )
        return Minimum(end.x, float(end.cost), np.asarray(end.jac))
