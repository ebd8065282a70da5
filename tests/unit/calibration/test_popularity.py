"""A run tells of I/Os a transaction beyond the physics, along the life of the cache."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.calibration import popularity


def make_windows(place: np.ndarray, factor: np.ndarray, scatter: float) -> popularity._Windows:
    return popularity._Windows(place, np.log(factor), np.full(len(place), True), scatter)


def test_a_run_too_short_for_parts_tells_one_factor():
    """Windows of a calibration of 24 s lie two turnovers apart, so that no part has two of them."""
    place, factor = np.array([3.0, 5.5, 8.0, 11.0]), np.array([1.02, 1.04, 1.05, 1.05])
    windows = make_windows(place, factor, scatter=0.02**2)
    assert popularity._list_points([windows], popularity.FULL_PARTS) == []
    ((_, single),) = popularity._average_parts([windows], popularity.FULL_PARTS)
    assert single == pytest.approx(np.exp(np.log(factor).mean()))


def test_a_scatter_that_tells_nothing_leaves_the_physics_alone():
    windows = make_windows(np.array([3.0, 5.5, 8.0]), np.array([0.7, 1.5, 1.0]), scatter=0.5**2)
    assert popularity._average_parts([windows], popularity.FULL_PARTS) == []


def test_a_long_run_is_told_by_its_parts():
    """Windows that lie close follow the run: a factor of 1.1 in the first turnover, 0.9 in the second."""
    place = np.arange(0.0, 2.0, 0.01)
    windows = make_windows(place, np.where(place < 1.0, 1.1, 0.9), scatter=0.02**2)
    points = popularity._average_parts([windows], popularity.FULL_PARTS)
    assert len(points) == 20
    for middle, value in points:
        assert value == pytest.approx(1.1 if middle < 1.0 else 0.9), middle
