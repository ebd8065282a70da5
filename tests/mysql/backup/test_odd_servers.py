"""Servers whose data or settings are not the usual ones: logs on a volume of their own, fast commits,
rows near the largest packet, one large transaction, engines without transactions.

BACKUP_LARGE_MIB: the one transaction (`make soak`: 512; an 8 GB one takes the same steps).
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from backup_chains import gone_after
from waiting import wait_until

from headrace import servers
from headrace.errors import CouldNotRun, InputError
from headrace.mysql import connect
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup import copying, restore, retention
from headrace.servers.backup.history import archive, joining, moments, stream
from headrace.servers.backup.history.moments import RestoreGoal
from headrace.servers.backup.manifest import read_backups
from headrace.servers.backup.restore import RestoreRequest
from headrace.servers.backup.targets import open_target
from headrace.servers.copies.source import read_source
from headrace.servers.topology.topology import Following, bring_up_replica

LARGE_MIB = int(os.environ.get("BACKUP_LARGE_MIB", "24"))
# Commits are in the server's memory for up to a second, and the binary log in the page cache.
FAST = {
    "log_bin": "ON", "gtid_strict_mode": "ON", "innodb_buffer_pool_size": "64M", "binlog_format": "ROW",
    "innodb_flush_log_at_trx_commit": "0", "sync_binlog": "0", "max_allowed_packet": "16M",
}  # fmt: skip


@pytest.fixture(scope="module")
def odd(lab, machine):
    server = servers.bring_up(lab, name="odd", storage="gp3:2", log_storage="gp3:2", settings=FAST)
    run(server, "CREATE DATABASE d", "CREATE TABLE d.t (n INT PRIMARY KEY, v LONGBLOB)")
    yield server
    servers.destroy(server)


@pytest.fixture(autouse=True)
def empty(odd):
    """Each test begins with an empty table."""
    run(odd, "TRUNCATE TABLE d.t")


def run(server, *statements: str):
    with connect(server.make_address()) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


def test_a_snapshot_of_two_volumes_with_commits_in_memory(lab, odd, tmp_path):
    """Every acknowledged commit is in the backup, and each volume is made of its own snapshot."""
    target, source = open_target(tmp_path / "t"), read_source(odd.make_address(), odd.name, odd)
    with connect(odd.make_address()) as connection, connection.cursor() as cursor:
        for number in range(200):
            cursor.execute("INSERT INTO d.t VALUES (%s, 'x')", (number,))
    result = copying.run(source, target, copying.BackupRequest(method="snapshot"))
    assert len(result.snapshots) == 2
    done = restore.restore(lab, target, RestoreRequest(result.id, "odd-back", "gp3:2", unpaced=True))
    with gone_after(done.server):
        assert run(done.server, "SELECT COUNT(*) FROM d.t") == ((200,),)
        assert done.server.volumes.log and done.server.volumes.log != done.server.volumes.data
    [locked, _], [backup] = result.snapshots.values(), read_backups(target)[0]
    lab.lock_snapshot(locked, "governance", duration_days=1)
    with pytest.raises(CouldNotRun, match=f"its snapshot {locked} is locked until"):
        retention.remove(target, backup, lab)
    assert read_backups(target)[0] == [backup]
    lab.unlock_snapshot(locked)
    retention.remove(target, backup, lab)
    # Other tests' snapshots may be in this lab, which all of one process share.
    snapshot_ids = {snapshot["id"] for snapshot in lab.snapshots()["snapshots"]}
    assert read_backups(target)[0] == [] and not snapshot_ids & set(result.snapshots.values())


def test_a_row_that_is_twice_as_large_in_a_dump(lab, odd, tmp_path):
    """12 MiB were taken in a packet of 16 MiB; in hexadecimal they are 24 MiB."""
    run(odd, "INSERT INTO d.t VALUES (1, REPEAT('\\0', 12 << 20))")
    target, source = open_target(tmp_path / "t"), read_source(odd.make_address(), odd.name, odd)
    result = copying.run(source, target, copying.BackupRequest(method="logical"))
    assert result.position.gtid == run(odd, "SELECT @@gtid_binlog_pos")[0][0], "behind the tables of a dump"
    request = RestoreRequest(result.id, "odd-dump", "gp3:2", unpaced=True, settings={"max_allowed_packet": "16M"})
    done = restore.restore(lab, target, request)
    with gone_after(done.server):
        assert run(done.server, "SELECT LENGTH(v), @@GLOBAL.max_allowed_packet FROM d.t") == ((12 << 20, 16 << 20),)


def test_one_large_transaction_is_streamed_in_pieces(odd, tmp_path, monkeypatch):
    """Larger than a piece and than what may wait on this machine: it comes through, whole."""
    monkeypatch.setattr(stream, "LIVE_BYTES", 1 << 20)
    monkeypatch.setattr(stream, "SPOOL_BYTES", 4 << 20)
    target, source = open_target(tmp_path / "t"), read_source(odd.make_address(), odd.name, odd)
    run(odd, "FLUSH BINARY LOGS")
    file, begin = (
        run(odd, "SHOW BINARY LOGS")[-1][0],
        GtidSet.parse(run(odd, "SELECT @@gtid_binlog_pos")[0][0], "mariadb"),
    )
    streaming = stream.Stream(source, target)
    thread = threading.Thread(target=streaming.run, args=(file,))
    thread.start()
    try:
        rows = [f"INSERT INTO d.t VALUES ({number}, REPEAT('y', 1 << 20))" for number in range(LARGE_MIB)]
        run(odd, "BEGIN", *rows, "COMMIT", "INSERT INTO d.t VALUES (-1, 'behind')", "FLUSH BINARY LOGS")
        end = GtidSet.parse(run(odd, "SELECT @@gtid_binlog_pos")[0][0], "mariadb")
        while thread.is_alive() and not streaming.archived.contains(end):
            time.sleep(0.05)
        time.sleep(0.5)  # the file that has ended is put together
    finally:
        streaming.stop.set()
        thread.join()
    (line,) = archive.read_timelines(target)
    assert (
        not line.problems and max(piece.length for file in line.files for piece in file.pieces) <= joining.WHOLE_BYTES
    )
    folder = tmp_path / "relay"
    folder.mkdir()
    chain = moments.ReplayChain((line,))
    plan = moments.collect(target, chain, begin, RestoreGoal(), folder)
    assert plan.transactions == 2 and str(plan.executed) == str(end)
    assert plan.logs[0].stat().st_size > LARGE_MIB << 20
    shutil.rmtree(folder)


def test_tables_without_transactions_are_not_dumped_without_locks(odd, tmp_path):
    run(odd, "CREATE TABLE d.m (n INT) ENGINE=MyISAM")
    try:
        source = read_source(odd.make_address(), odd.name, odd)
        with pytest.raises(InputError, match="has tables of MyISAM"):
            copying.run(source, open_target(tmp_path / "t"), copying.BackupRequest(method="logical"))
        assert not (tmp_path / "t").exists()
    finally:
        run(odd, "DROP TABLE d.m")


@pytest.mark.parametrize(("flavor", "method"), [("mariadb", "snapshot"), ("mysql", "snapshot"), ("mysql", "physical")])
def test_a_backup_of_a_replica_follows_nobody(request, lab, tmp_path, flavor, method):
    """The copy knows the replica's source, which writes on: the restored server is of the copy's moment."""
    if flavor == "mysql":
        request.getfixturevalue("mysql_program")
    settings = {"innodb_buffer_pool_size": "64M"}
    above = servers.bring_up(lab, name=f"above-{flavor}", flavor=flavor, storage="gp3:2", settings=settings)
    with gone_after(above):
        replica = bring_up_replica(lab, f"below-{flavor}", above.name, Following(prepare_source=True)).server
        with gone_after(replica):
            above = servers.find(lab, above.name)
            run(above, "CREATE DATABASE d2", "CREATE TABLE d2.t (n INT PRIMARY KEY)", "INSERT INTO d2.t VALUES (1)")
            wait_until(lambda: run(replica, "SHOW TABLES FROM d2 LIKE 't'"), "the table on the replica")
            wait_until(lambda: run(replica, "SELECT COUNT(*) FROM d2.t") == ((1,),), "the row on the replica")
            target, source = open_target(tmp_path / "t"), read_source(replica.make_address(), replica.name, replica)
            result = copying.run(source, target, copying.BackupRequest(method=method))
            run(above, "INSERT INTO d2.t VALUES (2)")
            done = restore.restore(lab, target, RestoreRequest(result.id, f"alone-{flavor}", "gp3:4", unpaced=True))
            with gone_after(done.server):
                again = servers.start(servers.stop(done.server))
                for server in (done.server, again):
                    assert run(server, "SELECT n FROM d2.t") == ((1,),)
                    assert run(server, "SHOW ALL SLAVES STATUS" if flavor == "mariadb" else "SHOW REPLICA STATUS") == ()
                assert not any("start" in name for name in again.settings), again.settings
