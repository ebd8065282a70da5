"""The `[replica]` table of a workload file."""

from __future__ import annotations

import pytest

import headrace
from headrace.base import core
from headrace.workload.replica import (
    ReplicaParameters,
    add_measured_replica,
    get_parameter_spreads,
    get_replica_spread,
    make_applier,
)


@pytest.fixture
def database():
    return headrace.sysbench_tpcc(warehouses=10, engine="innodb", cache_gib=1, threads=4)


def test_what_was_measured_is_kept_and_the_rest_derived(database, tmp_path):
    classes = len(database.database["popularity"])
    workload = add_measured_replica(
        database,
        {"cpu_ms": 1.25, "flush_factor": 1.9},
        spread={"cpu_ms": 0.05},
        origin="run a",
        written=(0.5,) * classes,
    )
    headrace.save(workload, tmp_path / "made.toml")
    read = headrace.load_database(tmp_path / "made.toml")
    assert read.replica == workload.replica
    applier = make_applier(read)
    derived = core.replica_applier(database.database)["applier"]
    assert (applier["cpu_ms"], applier["flush_factor"], applier["written"]) == (1.25, 1.9, [0.5] * classes)
    assert applier["events_per_tx"] == derived["events_per_tx"]
    # A fifth of the client's processor time where nothing is known.
    assert derived["cpu_ms"] == pytest.approx(0.2 * database.database["clients"]["cpu_ms"])
    spread = get_replica_spread(read)
    assert (spread["cpu_ms"], spread["flush_factor"]) == (0.05, 0.0) and spread["group_share"] > 0
    again = add_measured_replica(read, {"spin_ms": 0.2}, origin="run b")
    assert again.replica.values["cpu_ms"] == 1.25 and again.replica.origin["spin_ms"] == "run b"


def test_a_file_without_a_replica_stays_as_it_was(database, tmp_path):
    headrace.save(database, tmp_path / "plain.toml")
    assert "replica" not in (tmp_path / "plain.toml").read_text()
    assert headrace.load_database(tmp_path / "plain.toml").replica is None
    assert set(get_parameter_spreads()) == set(make_applier(database)) - {"written"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("replica = 3", "must be a table"),
        ("[replica]\ncpu_ms = -1", "cpu_ms"),
        ("[replica]\ncpu_ms = 'much'", "must be a number"),
        ("[replica]\ncpu = 1.0", "replica parameter"),
        ("[replica]\nwritten = [2.0]", "written"),
        ("[replica]\nwritten = 0.5", "must be a list"),
        ("[replica.spread]\ncpu_ms = 0.1", "replica.spread"),
        ("[replica]\ngroup_share = 7.0", "group_share"),
    ],
)
def test_bad_tables_are_refused(database, tmp_path, text, says):
    path = tmp_path / "bad.toml"
    headrace.save(database, path)
    # A top-level key has to stand before the tables.
    whole = f"{text}\n{path.read_text()}" if text.startswith("replica =") else f"{path.read_text()}\n{text}\n"
    path.write_text(whole)
    with pytest.raises(headrace.InputError, match=says):
        headrace.load(path)


def test_draws_stay_within_what_the_core_takes(database):
    far = make_applier(database, {"group_share": 9.0, "cpu_ms": -9.0, "commit_order_width": 1.0})
    assert far["group_share"] == 1.0 and far["cpu_ms"] > 0 and far["commit_order_width"] is None
    with pytest.raises(headrace.InputError, match="page classes"):
        short = add_measured_replica(database, {}, written=(0.5,))
        headrace.predict_replica(short, "gp3:100", headrace.Replica("gp3:100"), seconds=2, draws=0)


def test_parameters_are_checked_when_they_are_made():
    with pytest.raises(headrace.InputError, match="schemas"):
        ReplicaParameters({"schemas": 0.0})
