"""Flavor and version, as every command takes them."""

from __future__ import annotations

import pytest

import headrace
from headrace.base.releases import split_release
from headrace.simulation.replica import Replica

# Releases as users write them, with flavor and number.
WRITTEN = [
    ("mariadb-10.11", "mariadb", "10.11"),
    ("MariaDB 10.11.19", "mariadb", "10.11.19"),
    ("10.11.19-MariaDB-log", "mariadb", "10.11.19"),
    ("10.11", "mariadb", "10.11"),
    ("mysql-8.0.36", "mysql", "8.0.36"),
    ("8.4", "mysql", "8.4"),
    ("8.0.36-28-log", "mysql", "8.0.36"),
]


@pytest.mark.parametrize(("text", "flavor", "number"), WRITTEN)
def test_versions_mean_the_same_to_advice_and_to_replicas(text, flavor, number):
    advice = headrace.advise("gp3:500", memory_gib=16, version=text)
    assert (advice.server.flavor, advice.server.number) == (flavor, number)
    same = Replica("gp3:8", version=f"{flavor}-{number}").make_settings()
    assert Replica("gp3:8", version=text).make_settings() == same


def test_percona_server_is_named_too():
    assert headrace.advise("gp3:500", memory_gib=16, version="percona-8.0.36").server.flavor == "percona"
    assert Replica("gp3:8", version="percona-8.0.36").release == "mysql-8.0.36"


def test_two_flavors_are_refused():
    with pytest.raises(headrace.InputError, match="another server"):
        headrace.advise("gp3:500", memory_gib=16, flavor="mysql", version="mariadb-10.11")


def test_only_a_flavor_before_a_number_is_split_off():
    assert split_release("mysql") == (None, "mysql") and split_release("mariadb-x") == (None, "mariadb-x")
