"""Labs with an AWS endpoint, for real clients. Needs what tests/lab needs: root, /dev/fuse, loop
devices, xfsprogs and fio; never skipped for them.
"""

from __future__ import annotations

import pytest
from aws_labs import AwsLab
from lab_folders import Labs, find_lacking


@pytest.fixture(scope="session", autouse=True)
def machine():
    """Says in words what is missing."""
    lacking = find_lacking()
    if lacking:
        pytest.fail("tests of the endpoint need: " + "; ".join(lacking), pytrace=False)


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
