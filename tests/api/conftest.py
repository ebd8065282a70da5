"""Labs with an AWS endpoint, for real clients. Needs what tests/lab needs: root, /dev/fuse, loop
devices, xfsprogs and fio; never skipped for them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from aws_labs import AwsLab
from lab_folders import Labs

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
    lacking = [check for check in doctor.examine() if check.state == "missing"]
    if lacking:
        words = "; ".join(f"{check.what}: {check.finding}. {check.do}" for check in lacking)
        pytest.fail(f"tests of the endpoint need: {words}", pytrace=False)


@pytest.fixture
def labs():
    labs = Labs()
    try:
        yield labs
    finally:
        labs.close()


@pytest.fixture
def aws_lab(labs) -> AwsLab:
    """A lab that is up, with an endpoint and a profile."""
    return AwsLab(labs)
