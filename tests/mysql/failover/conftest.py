"""Helpers stand beside the tests that use them; three servers serve all tests that leave them whole."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from under_load import FLAVORS, Trio  # noqa: E402


@pytest.fixture(scope="session")
def trios() -> dict[str, Trio]:
    """The trio of each flavor once it is there: in random order pytest sets `trio` up again at each change of flavor,
    and a second one over the same servers would not know which of them is the source."""
    return {}


@pytest.fixture(scope="session", params=FLAVORS)
def trio(shared_labs, tmp_path_factory, request, trios) -> Trio:
    """Three servers with semi-sync. The source changes from test to test."""
    if request.param not in trios:
        lab = shared_labs.up(time_scale=1_000_000)
        trios[request.param] = Trio(lab, tmp_path_factory.mktemp("trio"), request.param)
    return trios[request.param]
