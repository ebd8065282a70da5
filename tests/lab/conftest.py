"""A real lab for each test that asks for one: a daemon in a folder of its own. Needs root,
/dev/fuse, loop devices, xfsprogs and fio; never skipped.

headraced is $HEADRACED, else beside this Python, else what cargo built.
"""

from __future__ import annotations

import pytest
from lab_folders import CommandHere, Labs, find_lacking


@pytest.fixture(scope="session", autouse=True)
def machine():
    """Says in words what is missing."""
    lacking = find_lacking(("fio", "mkfs.xfs"))
    if lacking:
        pytest.fail("tests of the lab need: " + "; ".join(lacking), pytrace=False)


@pytest.fixture
def labs():
    labs = Labs()
    try:
        yield labs
    finally:
        labs.close()


@pytest.fixture
def lab(labs):
    """A lab that is up, whose modifications take no time."""
    with labs.up(time_scale=1_000_000) as result:
        yield result


@pytest.fixture
def headrace(lab):
    """headrace("volume", "list"): the finished process, of the exit code that is expected."""
    return CommandHere(lab.place.data_dir)
