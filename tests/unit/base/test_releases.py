"""Flavor and version, as every command takes them."""

from __future__ import annotations

import pytest

import headrace
from headrace.base.releases import split_release
from headrace.simulation.replica import Replica
from headrace.workload.server import SourceServer

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


@pytest.mark.parametrize(
    ("series", "newest", "first"),
    [("mysql-8.0", "mysql-8.0.40", "mysql-8.0.2"), ("mariadb-10.5", "mariadb-10.5.20", "mariadb-10.5.0")],
)
def test_a_series_is_its_newest_release_to_a_replica_and_says_so(series, newest, first):
    replica = Replica("gp3:8", version=series)
    assert replica.make_settings() == Replica("gp3:8", version=newest).make_settings()
    assert replica.make_settings() != Replica("gp3:8", version=first).make_settings()
    shop = headrace.sysbench_oltp(
        script="oltp_write_only", tables=1, table_size=100_000, cache_gib=1, threads=4, engine="innodb"
    )

    def list_warnings(version: str) -> list[str]:
        answer = headrace.predict_replica(shop, "gp3:100", Replica("gp3:100", version=version), seconds=2, draws=0)
        return [text for text in answer.warnings if "without a patch number" in text]

    assert list_warnings(series) == [f"{series} without a patch number: the newest of that series is meant."]
    assert not list_warnings(newest)


@pytest.mark.parametrize(
    "text", ["mysql-8", "mysql-8,4", "mysql-8.4-lts", "mysql", "mariadb-10", "mysql-8.0.x", "8.4 or so"]
)
def test_what_is_no_version_is_refused(text):
    with pytest.raises(headrace.InputError, match="is not a version number"):
        Replica("gp3:8", version=text).make_settings()


@pytest.mark.parametrize("version", ["8", "8,4", "8.4-lts"])
def test_advice_refuses_them_too(version):
    with pytest.raises(headrace.InputError, match="is not a version number"):
        headrace.advise("gp3:500", memory_gib=16, flavor="mysql", version=version)


@pytest.mark.parametrize("text", ["mysql-99.99", "mysql-8.5", "mysql-7.0", "mariadb-99.1", "mariadb-10.12"])
def test_a_series_that_there_is_not_is_refused(text):
    with pytest.raises(headrace.InputError, match="is not known here"):
        Replica("gp3:8", version=text).make_settings()


@pytest.mark.parametrize("version", ["13.0.1-MariaDB", "99.1.0", "own build"])
def test_a_source_of_an_unknown_series_says_nothing_of_its_replica(version):
    server = SourceServer(version=version)
    assert server.release is not None and server.known_release is None
    assert SourceServer(version="10.11.19-MariaDB").known_release == "mariadb-10.11.19"


def test_percona_server_is_named_too():
    assert headrace.advise("gp3:500", memory_gib=16, version="percona-8.0.36").server.flavor == "percona"
    assert Replica("gp3:8", version="percona-8.0.36").release == "mysql-8.0.36"


def test_two_flavors_are_refused():
    with pytest.raises(headrace.InputError, match="another server"):
        headrace.advise("gp3:500", memory_gib=16, flavor="mysql", version="mariadb-10.11")


def test_only_a_flavor_before_a_number_is_split_off():
    assert split_release("mysql") == (None, "mysql") and split_release("mariadb-x") == (None, "mariadb-x")
