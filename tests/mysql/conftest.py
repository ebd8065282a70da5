"""Real servers on real labs. Needs what tests/lab needs, and MariaDB with MyRocks; tests of MySQL
are skipped, by name, where it is not installed.

One lab and one MariaDB serve all tests that do no harm to them (`lab`, `server`); `labs` makes
others.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from lab_folders import find_lacking
from lab_servers import SPEC, ServerLabs

from headrace import servers
from headrace.errors import HeadraceError
from headrace.lab import doctor


@pytest.fixture(scope="session", autouse=True)
def machine():
    """Says in words what is missing."""
    lacking = find_lacking()
    lacking += [
        f"{name}: not found. apt-get install {name}"
        for name in ("sysbench", "openssl")
        if not doctor.Machine().locate_program(name)
    ]
    try:
        if "myrocks" not in servers.find_program("mariadb").engines:
            lacking.append("MyRocks: not found. headrace mysql install mariadb")
    except HeadraceError as error:
        lacking.append(str(error))
    if lacking:
        pytest.fail("tests with servers need: " + "; ".join(lacking), pytrace=False)


@pytest.fixture
def labs():
    labs = ServerLabs()
    try:
        yield labs
    finally:
        labs.close()


@pytest.fixture(scope="session")
def shared_labs(machine):
    labs = ServerLabs()
    try:
        yield labs
    finally:
        labs.close()


@pytest.fixture(scope="session")
def lab(shared_labs):
    """A lab for all tests that leave it as it is."""
    with shared_labs.up(time_scale=1_000_000) as result:
        yield result


@pytest.fixture(scope="session")
def server(lab):
    """A MariaDB with InnoDB, 64 MiB of cache and a binary log, for all tests that leave it as it
    is."""
    return servers.bring_up(
        lab, name="shared", storage=SPEC, settings={"innodb_buffer_pool_size": "64M", "log_bin": "ON"}
    )


@pytest.fixture(scope="session")
def mysql_program(machine):
    """MySQL, unpacked in a folder of its own."""
    try:
        return servers.find_program("mysql")
    except HeadraceError as error:
        pytest.skip(f"MySQL: {error.rule}. {error.hint}")
