"""Least squares from several starts: the lowest valley is found, and another run does not end a fit in a worse place."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from calibration_runs import LONG, recorded, truth

from headrace.calibration.calibrate import _list_first_starts as begins_of
from headrace.calibration.calibrate import calibrate
from headrace.calibration.fit import Objective, fit
from headrace.calibration.observations import observe
from headrace.calibration.prior import build_prior
from headrace.calibration.starts import BOUND, DIRECTIONS, LOWER, find_lowest, list_directions
from headrace.workload.parameters import list_parameters

PAIRS = int(os.environ.get("HEADRACE_PAIRS", "2"))
STORAGES = (LONG, "io1:1024:5000", "io1:1024:10000", "gp2:2000")


def make_valleys(centre: np.ndarray, other: np.ndarray):
    """Makes residuals with a minimum of 0 at `centre` and one that is higher at `other`."""

    def residuals(x: np.ndarray) -> np.ndarray:
        near, far = np.sum((x - centre) ** 2), np.sum((x - other) ** 2)
        return np.array([np.sqrt(near * (far + 0.3) + 1e-12), 0.0])

    return residuals


@pytest.mark.parametrize("seed", range(8))
def test_the_lowest_valley_of_a_grid_is_found(seed):
    """A grid of starts as the naive reference: what is found is no higher than its lowest point."""
    chance = np.random.default_rng(seed)
    centre, other = chance.uniform(-2, 2, (2, 2))
    residuals = make_valleys(centre, other)
    ticks = np.linspace(-3, 3, 41)
    grid = min(0.5 * float(np.sum(residuals(np.array([x, y])) ** 2)) for x in ticks for y in ticks)
    begins = [np.zeros(2), *(np.array(place) for place in ((-2.0, -2.0), (-2.0, 2.0), (2.0, -2.0), (2.0, 2.0)))]
    end = find_lowest(residuals, np.ones(2), begins, 2)
    assert end.cost <= grid
    assert np.all(np.abs(end.deltas) <= BOUND)


def test_the_first_of_equal_minima_is_taken():
    """Machines that round otherwise must not take another one."""
    ends = [find_lowest(lambda x: x**2 - 1.0, np.ones(1), [np.array([start])]) for start in (0.5, -0.5)]
    both = find_lowest(lambda x: x**2 - 1.0, np.ones(1), [np.array([0.5]), np.array([-0.5])])
    assert abs(ends[0].cost - ends[1].cost) <= LOWER and both.deltas[0] == ends[0].deltas[0] > 0


@pytest.mark.parametrize("engine", ["innodb", "myrocks"])
def test_directions_are_of_parameters_that_exist(engine):
    names = [parameter.name for parameter in list_parameters(engine)]
    assert {name for factors in DIRECTIONS for name in factors} <= set(names)
    fixed = list_directions(names)
    assert not fixed[0].any() and len({tuple(start) for start in fixed}) == len(fixed)


@pytest.mark.parametrize("seed", range(PAIRS))
def test_another_run_ends_no_fit_in_a_worse_place(tmp_path, seed):
    """Two random runs of a database together are fitted at least as well as by what either asks for
    alone, and both are described."""
    chance = random.Random(seed)
    engine = ("innodb", "myrocks")[seed % 2]
    runs = [
        recorded(
            tmp_path / str(place),
            truth(engine),
            chance.choice(STORAGES),
            seconds=900,
            seed=10 * seed + place,
            threads=chance.choice((8, 16, 72)),
            cache_gib=chance.choice((20, 50)),
            name=str(place),
        )
        for place in range(2)
    ]
    observations = [observe(run) for run in runs]
    objective = Objective(build_prior(runs[0]), engine, observations)
    together = fit(objective, begins_of(objective))
    for observation in observations:
        alone = find_lowest(objective.restrict_to(observation), objective.spreads, list_directions(objective.names))
        assert together.cost <= 0.5 * float(np.sum(objective(alone.deltas) ** 2)) * (1.0 + LOWER), seed
    assert not [misfit for misfit in calibrate(runs).misfits if misfit is None or misfit.misses], seed
