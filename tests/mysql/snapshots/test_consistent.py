"""Snapshots of servers under load: what they hold when they are set back. And the control, members
one by one without a freeze, which must fail.

SNAPSHOTS: how many with all steps (`make soak`: 50).
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

import pytest
from lab_servers import left_of, sql
from waiting import wait_until

from consistent_snapshots import SMALL, Variant, Writers, composed, examine, percentile, prepare, run_round
from headrace import servers
from headrace.errors import CouldNotRun, InputError
from headrace.operate.snapshots import restore, sets, warming
from headrace.operate.snapshots.services import LabService
from headrace.operate.snapshots.take import take
from headrace.operate.snapshots.targets import make_lab_request

SNAPSHOTS = int(os.environ.get("SNAPSHOTS", "1"))
RAID = "4xgp3:1"
# Fewer rows and a smaller cache than the benchmark's: pages are written as often, and are made
# sooner.
ROWS, CACHE = 6_000, {"innodb_buffer_pool_size": "8M"}


@pytest.fixture(scope="module")
def striped(lab):
    """A MariaDB on RAID 0 of four members, with tables for the load."""
    server = servers.bring_up(lab, name="striped", storage=RAID, settings=SMALL | CACHE)
    prepare(server, rows=ROWS)
    yield server
    servers.destroy(server)


def test_all_steps_hold_every_commit(lab, striped):
    before = {entry.id for entry in sets.build_sets(LabService(lab).list_stored())}
    rounds = [run_round(lab, striped, Variant("all steps"), number, 4, torn=False) for number in range(SNAPSHOTS)]
    frozen = [entry.frozen_ms for entry in rounds]
    print(f"{len(rounds)} snapshots: frozen p50 {percentile(frozen, 0.5):.0f} ms, p95 {percentile(frozen, 0.95):.0f} ms")  # fmt: skip
    assert [entry.findings for entry in rounds if not entry.findings.good] == []
    # Commits were held back until the snapshot was taken: nothing is in it after the tag.
    assert [entry.findings.beyond for entry in rounds] == [0] * len(rounds)
    assert {entry.id for entry in sets.build_sets(LabService(lab).list_stored())} == before, (
        "each round deletes its set"
    )


def test_the_control_fails(lab, striped):
    """Members one after the other, while pages and log are written: the pages of one member are
    newer than the log on another. It may open by chance; of three at least one must not be good."""
    variant = Variant("control", lock=False, freeze=False, members=True)
    for number in range(3):
        result = run_round(lab, striped, variant, 1000 + number, 4, torn=False)
        if not result.findings.good:
            return
    raise AssertionError("three snapshots of members at different times were all good")


@pytest.mark.skipif(SNAPSHOTS < 2, reason="SNAPSHOTS=1: the control's own check is part of `make soak`")
def test_members_of_one_instant_are_put_together_unchanged(lab, striped):
    """The control's tool itself: from four times the same snapshot it makes a good server."""
    with Writers(striped) as writers:
        time.sleep(0.3)
        expected = writers.by(time.monotonic())
        snapshot_id = lab.create_snapshot(striped.volumes.data)["id"]
    whole = composed(lab, RAID, [snapshot_id] * 4, "same")
    looked = servers.bring_up(lab, name="same", storage=RAID, seed_from=whole, settings=SMALL)
    try:
        assert examine(looked, expected, "").good
    finally:
        servers.destroy(looked)


@pytest.fixture(scope="module")
def mysql(lab, mysql_program):
    """MySQL with its logs on a volume of their own."""
    server = servers.bring_up(lab, name="two", flavor="mysql", storage="gp3:2", log_storage="gp3:1", settings=SMALL)
    prepare(server, rows=500)
    yield server
    servers.destroy(server)


def test_mysql_on_two_volumes(lab, mysql):
    """One set of both volumes, taken while it is written to; the new server has an identity of its
    own and its own list of binary logs."""
    with Writers(mysql, 2) as writers:
        time.sleep(0.5)
        moments = {}
        got = take(make_lab_request(lab, "two"), lambda step: moments.setdefault(step, time.monotonic()))
        expected = writers.by(moments["locked"])
        time.sleep(0.3)
    assert not writers.errors
    snapshot_set = got.snapshot_set
    assert snapshot_set.whole and len(snapshot_set.snapshots) == 2 and snapshot_set.steps == ("lock", "freeze")
    assert snapshot_set.gtid.count(":") >= 1 and snapshot_set.position.startswith("binlog.")
    try:
        again = restore.restore_server(lab, snapshot_set, "two-again")
        assert examine(again, expected, snapshot_set.gtid).good
        assert sql(again, "SELECT @@server_uuid") != sql(mysql, "SELECT @@server_uuid")
        assert sql(again, "SELECT @@server_id") != sql(mysql, "SELECT @@server_id")
        index = (again.paths.log_mount / "log/binlog.index").read_text()
        assert str(mysql.paths.log_mount) not in index and str(again.paths.log_mount) in index
    finally:
        servers.destroy(servers.find(lab, "two-again"))
        assert left_of(lab, "two-again") == []


def test_loading_in_order_of_need(lab, striped):
    """Afterwards nearly nothing is left to load: what belongs to no file, such as the filesystem's
    own log."""
    got = take(make_lab_request(lab, "striped"))
    again = restore.restore_server(lab, got.snapshot_set, "warm")
    try:
        before = lab.cold_blocks(again.volumes.data, limit=1)["remaining"]
        assert warming.warm_server(again) > 0
        assert lab.cold_blocks(again.volumes.data, limit=1)["remaining"] < 0.2 * max(before, 10)
    finally:
        servers.destroy(again)


def test_volumes_alone(lab, mysql):
    got = take(make_lab_request(lab, "two"))
    service = LabService(lab)

    def stored_set():
        chosen = sets.choose_set(sets.build_sets(service.list_stored()), got.snapshot_set.id)
        return chosen if chosen.stored else None

    now = wait_until(stored_set, "a set that is stored", 60)
    volumes = restore.restore_volumes(service, now, "alone")
    try:
        assert {volume.place for volume in volumes} == {str(mysql.paths.data_mount), str(mysql.paths.log_mount)}
        assert restore.list_next_steps(volumes) == [
            f"mount -o noatime,nouuid DEVICE {volume.place}" for volume in volumes
        ]
    finally:
        for entry in volumes:
            service.delete_volume(entry.volume)


def test_a_set_that_is_not_whole_is_refused(lab, mysql):
    got = take(make_lab_request(lab, "two"))
    service = LabService(lab)

    def now() -> sets.SnapshotSet:
        return sets.choose_set(sets.build_sets(service.list_stored()), got.snapshot_set.id)

    first, second = (snapshot.id for snapshot in got.snapshot_set.snapshots)
    # A snapshot of another time: a later one of the same volume with the tags of the set.
    time.sleep(0.01)
    later = lab.create_snapshot(got.snapshot_set.snapshots[1].volume, tags=dict(got.snapshot_set.snapshots[1].tags))[
        "id"
    ]
    lab.delete_snapshot(second)
    with pytest.raises(InputError, match="not of one moment"):
        restore.restore_server(lab, now(), "refused")
    # A member missing.
    lab.delete_snapshot(later)
    with pytest.raises(InputError, match="no snapshot of vol-"):
        restore.restore_volumes(service, now(), "refused")
    with pytest.raises(InputError, match="no snapshot of vol-"):
        restore.restore_server(lab, now(), "refused")
    assert left_of(lab, "refused") == []
    lab.delete_snapshot(first)


def test_a_name_that_is_taken(lab, mysql):
    got = take(make_lab_request(lab, "two"))
    with pytest.raises(InputError, match="is a server of this lab already"):
        restore.restore_server(lab, got.snapshot_set, "two")


def test_a_server_that_is_down(lab, mysql):
    servers.stop(servers.find(lab, "two"))
    try:
        with pytest.raises(CouldNotRun, match="is stopped"):
            make_lab_request(lab, "two")
    finally:
        servers.bring_up(lab, name="two")


def test_the_tags_of_a_request_with_odd_names(lab, mysql):
    """Quotes and newlines in the user's words do not break the set."""
    request = replace(make_lab_request(lab, "two"), name='a "b"\nc', tags={"team's": "x, y"})
    snapshot_set = take(request).snapshot_set
    assert snapshot_set.whole and snapshot_set.server == r"a \"b\"\nc"
    assert snapshot_set.snapshots[0].tags["team's"] == "x, y"


def test_a_long_select(lab, mysql):
    """With a table of MyISAM that has rows FLUSH TABLES WITH READ LOCK would wait for a long SELECT,
    and everybody for it. It is given up in time. Without such a table, nothing waits."""

    def long_select(table: str) -> threading.Thread:
        thread = threading.Thread(target=lambda: sql(mysql, f"SELECT SLEEP(3) FROM {table}", timeout_s=60))
        thread.start()
        time.sleep(0.3)
        return thread

    sql(mysql, "CREATE DATABASE d", "CREATE TABLE d.i (n INT)", "INSERT INTO d.i VALUES (1)")
    thread = long_select("d.i")
    taken = take(make_lab_request(lab, "two"))
    assert taken.snapshot_set.whole and not any("FLUSH TABLES" in note for note in taken.notes)
    thread.join()
    sql(mysql, "CREATE TABLE d.m (n INT) ENGINE=MyISAM", "INSERT INTO d.m VALUES (1)")
    thread = long_select("d.m")
    with pytest.raises(CouldNotRun, match="FLUSH TABLES WITH READ LOCK did not get its lock within 1 s"):
        take(replace(make_lab_request(lab, "two"), wait_lock_s=1))
    sql(mysql, "INSERT INTO d.i VALUES (2)", timeout_s=20)  # others are let in again
    thread.join()
    taken = take(make_lab_request(lab, "two"))
    assert any("FLUSH TABLES WITH READ LOCK was needed" in note for note in taken.notes)
    sql(mysql, "DROP DATABASE d")
