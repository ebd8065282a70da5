"""A real lab for each test that asks for one: a daemon in a folder of its own. Needs root,
/dev/fuse, loop devices, xfsprogs and fio; never skipped.

headraced is $HEADRACED, else beside this Python, else what cargo built.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lab_folders import CommandHere, Labs

from headrace.errors import HeadraceError
from headrace.lab import doctor
from headrace.lab.launch import find_headraced

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def machine():
    """Says in words what is missing."""
    try:
        find_headraced()
    except HeadraceError:
        built = ROOT / "target/release/headraced"
        if built.exists():
            os.environ["HEADRACED"] = str(built)
    # The programs are notes to a user and needed here.
    lacking = [
        check
        for check in doctor.examine()
        if check.state == "missing" or (check.what in ("fio", "mkfs.xfs") and check.state != "ok")
    ]
    if lacking:
        pytest.fail(
            "tests of the lab need: " + "; ".join(f"{check.what}: {check.finding}. {check.do}" for check in lacking),
            pytrace=False,
        )


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
