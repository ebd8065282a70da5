"""Helpers stand beside the tests that use them; three servers serve all tests that leave them whole."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from under_load import FLAVORS, Trio  # noqa: E402


@pytest.fixture(scope="session", params=FLAVORS)
def trio(shared_labs, tmp_path_factory, request):
    """With semi-sync. Who the source is changes from test to test."""
    return Trio(shared_labs.up(time_scale=1_000_000), tmp_path_factory.mktemp("trio"), request.param)
