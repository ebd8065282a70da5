"""Statements of a backup about itself hold: parts are called parts, a proof that failed counts,
settings come along, and a full target is told once."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from backup_chains import Load, gone_after, rows_of
from lab_folders import fill, small_disk
from lab_servers import ServerLabs, left_of
from waiting import wait_until

from headrace import servers
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab.client import list_all_snapshots
from headrace.mysql import Secret, connect
from headrace.servers import record
from headrace.servers.backup import checking, copying, manifest, proving, restore
from headrace.servers.backup.history import archive, joining
from headrace.servers.backup.history.moments import RestoreGoal
from headrace.servers.backup.history.stream import Stream
from headrace.servers.backup.restore import RestoreRequest
from headrace.servers.backup.targets import open_target
from headrace.servers.copies import grants
from headrace.servers.copies import snapshot as snapshotting
from headrace.servers.copies.source import list_databases, read_source

# Unlike what each server has by itself; the last ones only a new data directory can have.
SETTINGS = {
    "mariadb": {
        "log_bin": "ON", "gtid_strict_mode": "ON", "sync_binlog": "1", "innodb_flush_log_at_trx_commit": "2",
        "binlog_format": "ROW", "innodb_default_row_format": "compact", "character_set_server": "latin1",
        "sql_mode": "ANSI_QUOTES", "event_scheduler": "ON", "innodb_page_size": "8K", "lower_case_table_names": "1",
    },
    "mysql": {
        "gtid_mode": "ON", "enforce_gtid_consistency": "ON", "sync_binlog": "7", "innodb_flush_log_at_trx_commit": "2",
        "binlog_row_image": "minimal", "innodb_default_row_format": "compact", "character_set_server": "latin1",
        "sql_mode": "NO_ZERO_DATE", "partial_revokes": "ON", "innodb_page_size": "8K", "lower_case_table_names": "1",
    },
}  # fmt: skip
SMALL = {"innodb_buffer_pool_size": "64M"}


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def shop(request, lab, machine):
    """A server of each flavor with two databases."""
    flavor = request.param
    if flavor == "mysql":
        request.getfixturevalue("mysql_program")
    server = servers.bring_up(
        lab, name=f"p-{flavor}", flavor=flavor, storage="gp3:4", settings=SETTINGS[flavor] | SMALL
    )
    run(server, "CREATE DATABASE ack", "CREATE DATABASE other", "CREATE TABLE ack.t (n INT PRIMARY KEY, b INT)",
        "CREATE TABLE other.t (n INT PRIMARY KEY)", "INSERT INTO ack.t VALUES (1, 1)")  # fmt: skip
    yield read_source(server.make_address(), server.name, server)
    servers.destroy(server)


def run(server, *statements: str):
    with connect(server.make_address()) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


def headrace(lab, *words: str) -> subprocess.CompletedProcess[str]:
    words = (*words, "--lab", str(lab.place.data_dir)) if words[1] in ("prune", "stream", "restore") else words
    return subprocess.run([sys.executable, "-m", "headrace", *words], capture_output=True, text=True, timeout=120)


# --- what an account may see ----------------------------------------------------------------------

WHOLE = "SELECT, SHOW VIEW, TRIGGER, EVENT"
TOOLS = "RELOAD, PROCESS, REPLICATION CLIENT"  # for the position; BINLOG MONITOR on MariaDB
# Grants of an account, the --only that is asked for, and the words of the refusal; "" for none.
ACCOUNTS = {
    "all": ([f"GRANT {WHOLE}, {TOOLS} ON *.* TO {{who}}"], (), ""),
    "usage": ([], (), f"lacks {WHOLE} on"),
    "no triggers": ([f"GRANT SELECT, SHOW VIEW, EVENT, {TOOLS} ON *.* TO {{who}}"], (), "lacks TRIGGER on .*leaves out triggers"),
    "one database": ([f"GRANT {WHOLE} ON ack.* TO {{who}}", f"GRANT {TOOLS} ON *.* TO {{who}}"], (), "it may read ack"),
    "a part": ([f"GRANT {WHOLE} ON ack.* TO {{who}}", f"GRANT {TOOLS} ON *.* TO {{who}}", "{routines}"], ("ack",), ""),
    "no routines": ([f"GRANT {WHOLE} ON ack.* TO {{who}}", f"GRANT {TOOLS} ON *.* TO {{who}}"], ("ack",), "routines of ack"),
    "another part": ([f"GRANT {WHOLE} ON ack.* TO {{who}}"], ("other",), "not a database of .* may see; it sees ack"),
    "a table": (["GRANT SELECT ON ack.t TO {who}"], ("ack",), "it may read ack.t"),
    "a column": (["GRANT SELECT (n) ON ack.t TO {who}"], ("ack",), "some columns of ack.t"),
    "a role": ([f"GRANT {WHOLE} ON *.* TO seer", "GRANT seer TO {who}", f"GRANT {TOOLS} ON *.* TO {{who}}", "{active}"], (), ""),
    "a role that is not active": ([f"GRANT {WHOLE} ON *.* TO seer", "GRANT seer TO {who}"], (), "lacks SELECT"),
}  # fmt: skip
# MySQL alone has them: what is taken back of system databases hides nothing of users.
REVOKES = {
    "a revoke": ([f"GRANT {WHOLE}, {TOOLS} ON *.* TO {{who}}", "REVOKE SELECT ON other.* FROM {who}"], (), "all of other"),
    "a revoke elsewhere": ([f"GRANT {WHOLE}, {TOOLS} ON *.* TO {{who}}", "REVOKE SELECT ON mysql.* FROM {who}"], (), ""),
    "a part beside a revoke": ([f"GRANT {WHOLE}, {TOOLS} ON *.* TO {{who}}", "REVOKE SELECT ON other.* FROM {who}"], ("ack",), ""),
}  # fmt: skip


@contextlib.contextmanager
def account(shop, statements: list[str]):
    """The server as an account with these grants sees it."""
    mysql = shop.flavor == "mysql"
    words = {
        "who": "seeing@localhost",
        "routines": "GRANT SHOW_ROUTINE ON *.* TO seeing@localhost" if mysql else "GRANT SELECT ON mysql.proc TO seeing@localhost",
        "active": "SET DEFAULT ROLE seer TO seeing@localhost" if mysql else "SET DEFAULT ROLE seer FOR seeing@localhost",
    }  # fmt: skip
    run(shop.server, "CREATE ROLE seer", "CREATE USER seeing@localhost IDENTIFIED BY 'seeing-1'")
    try:
        run(shop.server, *(statement.format(**words) for statement in statements), "SELECT 1")
        address = replace(shop.address, user="seeing", password=Secret("seeing-1"))
        yield replace(shop, address=address, server=None, name="outside")
    finally:
        run(shop.server, "DROP USER seeing@localhost", "DROP ROLE seer")


def test_what_an_account_may_not_see_is_known_before_a_dump(shop):
    """For each account the rights that SHOW GRANTS tells, against what it was given."""
    for name, (statements, only, words) in (ACCOUNTS | (REVOKES if shop.flavor == "mysql" else {})).items():
        with account(shop, statements) as seen, seen.connect() as connection:
            rights, there = grants.read_rights(connection, seen), list_databases(connection)
            if not words:
                grants.refuse_blind(seen, rights, there, only)
                continue
            with pytest.raises(InputError, match=words) as refusal:
                grants.refuse_blind(seen, rights, there, only)
            assert refusal.value.hint, name


def test_a_part_is_called_one_everywhere(lab, shop, tmp_path):
    target = open_target(tmp_path / "t")
    statements, only, _ = ACCOUNTS["a part"]
    with account(shop, ACCOUNTS["one database"][0]) as seen, pytest.raises(InputError, match="lacks SELECT"):
        copying.run(seen, target, copying.BackupRequest(method="logical"))
    assert not target.list("backups/")
    with account(shop, statements) as seen:
        result = copying.run(seen, target, copying.BackupRequest(method="logical", only=only))
    assert result.databases == result.only == ("ack",) and result.tables == 1
    proof = proving.prove(lab, target, result.id, "gp3:4", unpaced=True)
    assert proof.ok and proof.part == "ack" and proof.tables == 1
    with pytest.raises(InputError, match="is a part of its server"):
        restore.restore(lab, target, RestoreRequest(result.id, "never", "gp3:4", RestoreGoal()))
    with pytest.raises(InputError, match="is a part of its server"):
        proving.prove(lab, target, result.id, "gp3:4", shop)
    details = headrace(lab, "backup", "list", "--in", str(tmp_path / "t"), "--output", "json")
    (document,) = json.loads(details.stdout)
    assert (document["part"], document["databases"], document["tables"]) == (
        "ack",
        "ack",
        1,
    ) and details.returncode == 0
    with pytest.raises(InputError, match="is for logical copies"):
        copying.run(shop, target, copying.BackupRequest(method="physical", only=("ack",)))


# Tests that do not depend on the server's flavor run on one of them.
ONE = pytest.mark.parametrize("shop", ["mariadb"], indirect=True)


# --- settings, and proofs that fail ---------------------------------------------------------------


def test_a_restored_server_has_the_settings_of_its_source(lab, shop, tmp_path):
    """A restore of a copy of files and of a dump has the settings; those that differ are named."""
    target = open_target(tmp_path / "t")
    for method in ("physical", "logical"):
        result = copying.run(shop, target, copying.BackupRequest(method=method))
        request = RestoreRequest(
            result.id, f"settled-{shop.flavor}", "gp3:4", unpaced=True, settings={"max_binlog_size": "8M"}
        )
        done = restore.restore(lab, target, request)
        with gone_after(done.server):
            for name, value in SETTINGS[shop.flavor].items():
                if name not in ("event_scheduler", "partial_revokes", "innodb_page_size"):
                    details = run(done.server, f"SELECT @@GLOBAL.{name}")[0][0]
                    assert str(details).upper() in (value.upper(), {"ON": "1"}.get(value)), (method, name)
            assert run(done.server, "SELECT @@GLOBAL.innodb_page_size, @@GLOBAL.max_binlog_size") == ((8192, 8 << 20),)
            assert [entry.name for entry in done.otherwise] == ["event_scheduler"], [
                entry.words for entry in done.otherwise
            ]
            assert "sync-binlog" in record.require_record(done.server.paths).settings, "for its next start too"


def test_a_snapshot_whose_lock_was_lost_is_no_backup(lab, shop, tmp_path, monkeypatch):
    """The server ends a session that is silent for longer than the lock may be held, here 1 s: commits may have come before
    the snapshots, which are deleted."""
    target, write_back, calls = open_target(tmp_path / "t"), snapshotting.write_back_all, []

    def write_slowly(places) -> None:
        write_back(places)
        calls.append(places)
        time.sleep(2.5 if len(calls) == 2 else 0.0)  # the second is under the lock

    monkeypatch.setattr(snapshotting, "HOLD_S", 1.0)
    monkeypatch.setattr(snapshotting, "write_back_all", write_slowly)
    before = [snapshot["id"] for snapshot in list_all_snapshots(lab)]
    with pytest.raises(CouldNotRun, match="lock was lost before the snapshot was complete"):
        copying.run(shop, target, copying.BackupRequest(method="snapshot"))
    assert len(calls) == 2 and manifest.read_backups(target) == ([], [])
    assert [snapshot["id"] for snapshot in list_all_snapshots(lab)] == before
    run(shop.server, "INSERT INTO other.t VALUES (77)", "DELETE FROM other.t WHERE n = 77")  # nothing is locked


@ONE
def test_a_restore_that_fails_undoes_the_proof(lab, shop, tmp_path):
    """One byte of a proved copy: the file is named, the proof is none any more, and prune keeps the
    good copy beside it."""
    target, at = open_target(tmp_path / "t"), ("--in", str(tmp_path / "t"))
    bad = copying.run(shop, target, copying.BackupRequest(pack="none"))
    assert proving.prove(lab, target, bad.id, "gp3:4", unpaced=True).ok
    good = copying.run(shop, target, copying.BackupRequest(method="snapshot"))
    path = tmp_path / "t" / manifest.get_backup_folder(bad.id) / "data.00001"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 1
    path.write_bytes(raw)
    for attempt in range(2):
        with pytest.raises(InputError, match="is damaged: its checksum is another") as refusal:
            restore.restore(lab, target, RestoreRequest(bad.id, "never", "gp3:4", unpaced=True))
        assert "data.00001" in refusal.value.value and "another copy of the target" in refusal.value.hint, attempt
    result = headrace(lab, "backup", "list", *at)
    assert result.returncode == 1 and "FAILED" in result.stdout and "data.00001" in result.stderr
    for keep in ("1", "2"):
        plan = headrace(lab, "backup", "prune", *at, "--keep", keep, "--dry-run", "--output", "json")
        fates = {load["what"]: load["fate"] for load in json.loads(plan.stdout)}
        assert fates[good.id] == "keep" and (keep == "2" or fates[bad.id] == "delete"), fates
    warned = headrace(lab, "backup", "restore", bad.id, *at, "--as", "never", "--storage", "gp3:4", "--unpaced")
    assert warned.returncode == 2 and f"warning: the last restore of {bad.id} failed" in warned.stderr
    assert not proving.prove(lab, target, bad.id, "gp3:4", unpaced=True).ok
    raw[len(raw) // 3] ^= 1
    path.write_bytes(raw)
    assert proving.prove(lab, target, bad.id, "gp3:4", unpaced=True).ok, "it is good again, and so is its proof"
    assert headrace(lab, "backup", "list", *at).returncode == 0
    path.unlink()
    with pytest.raises(InputError, match="data.00001: is damaged: it is not there"):
        restore.restore(lab, target, RestoreRequest(bad.id, "never", "gp3:4", unpaced=True))
    for snapshot in good.snapshots.values():
        lab.delete_snapshot(snapshot)


# --- streams --------------------------------------------------------------------------------------


@ONE
def test_a_stream_to_a_full_target_says_so_once_and_ends_in_time(lab, shop, tmp_path):
    with small_disk(tmp_path / "t", 1):
        with contextlib.suppress(OSError), open(tmp_path / "t/fill", "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        ended = headrace(lab, "backup", "stream", shop.name, "--to", str(tmp_path / "t"), "--for-s", "2")
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.count("is full: ") == 1, ended.stderr
    assert "error:" in ended.stderr and "Free some room" in ended.stderr


@ONE
def test_pieces_do_not_pile_up_while_a_binary_log_is_open(lab, shop, tmp_path):
    """Stored twelve times as often as by default: few files, all bytes, and a restore of all."""
    target = open_target(tmp_path / "t")
    base = copying.run(shop, target, copying.BackupRequest())
    streaming = Stream(shop, target, every_s=0.02)
    thread = threading.Thread(target=streaming.run)
    thread.start()
    most = 0
    try:
        run(shop.server, "DROP DATABASE IF EXISTS kept")
        with Load(shop.server) as load:

            def are_joined() -> bool:
                nonlocal most
                most = max(most, len(target.list("binlogs/")))
                return streaming.state.pieces >= 4 * joining.JOIN_AFTER

            wait_until(are_joined, "pieces enough to be joined", 60, pause_s=0.05)
    finally:
        time.sleep(0.5)
        streaming.stop.set()
        thread.join()
    pieces = streaming.state.pieces
    assert pieces >= 4 * joining.JOIN_AFTER
    # Live ones until they are joined, those that come meanwhile, and one joined for each doubling.
    count = len(target.list("binlogs/"))
    print(f"{pieces} pieces were stored; at most {most} files, {count} in the end")
    assert count < pieces / 2
    (line,) = archive.read_timelines(target)
    assert not line.problems and not checking.check_timeline(target, line).problems
    assert line.reach == line.ends
    done = restore.restore(lab, target, RestoreRequest(base.id, "joined", "gp3:4", RestoreGoal(), unpaced=True))
    with gone_after(done.server):
        assert rows_of(done.server)[: len(load.commits)] == [commit.row for commit in load.commits]


@ONE
def test_a_server_that_the_backup_is_not_of_is_refused(lab, shop, server, tmp_path):
    target = open_target(tmp_path / "t")
    result = copying.run(shop, target, copying.BackupRequest(method="logical"))
    other = read_source(server.make_address(), server.name, server)
    run(server, "RESET MASTER")
    with pytest.raises(InputError, match="has not executed .* transactions that the backup of"):
        proving.prove(lab, target, result.id, "gp3:4", other)
    assert os.listdir(tmp_path / "t/backups") == [result.id]


@ONE
def test_of_two_streams_of_one_server_one_goes_on(lab, shop, tmp_path):
    """Given twice: on this machine the second is refused; elsewhere the one that is behind ends. The
    other one goes on, and the archive is whole."""
    target, ended = open_target(tmp_path / "t"), {}

    def stream(streaming: Stream) -> None:
        try:
            streaming.run()
        except HeadraceError as error:
            ended[streaming] = error

    both = [Stream(shop, target, every_s=every_s) for every_s in (0.05, 0.07)]
    threads = [threading.Thread(target=stream, args=(entry,)) for entry in both]
    run(shop.server, "DROP DATABASE IF EXISTS kept")
    try:
        with Load(shop.server):
            threads[0].start()
            wait_until(lambda: both[0].state.pieces >= 3, "three pieces")
            second = headrace(lab, "backup", "stream", shop.name, "--to", str(tmp_path / "t"), "--for-s", "1")
            threads[1].start()  # in this very process, as if it were on another machine
            wait_until(lambda: ended, "the end of a stream")
            time.sleep(2.0)
        (executed,) = run(shop.server, "SELECT @@gtid_binlog_pos")[0]
        wait_until(
            lambda: str(executed) in [entry.state.last_gtid for entry in both], "the last transaction in the stream"
        )
    finally:
        for streaming in both:
            streaming.stop.set()
        for thread in threads:
            thread.join()
    assert second.returncode == 2 and f"is being streamed by process {os.getpid()}" in second.stderr
    assert len(ended) == 1, [str(entry) for entry in ended.values()]
    assert "another stream" in str(next(iter(ended.values())))
    (line,) = archive.read_timelines(target)
    assert not line.problems and not checking.check_timeline(target, line).problems
    assert str(line.ends) == executed


# --- Ctrl-C ---------------------------------------------------------------------------------------

# Place at which Ctrl-C comes in each command, the command, and its message then.
INTERRUPTS = {
    "run": ("copying.PartsWriter.write", ["run", "{shop}", "--to", "{target}"], "No backup was made, and what was copied is removed"),
    "run behind its end": ("unfinished.unmark", ["run", "{shop}", "--to", "{target}"], "The backup .* is whole"),
    "run that sends": ("copying._send", ["run", "{shop}", "--to", "{target}", "--spool", "{spool}"], "give the same command again to send"),
    "restore": ("restore._set_position", ["restore", "latest", "--in", "{target}", "--as", "cut", "--storage", "gp3:4"], "nothing is left of the new server"),
    "prove": ("proving.describe_unreadable", ["prove", "latest", "--in", "{target}", "--storage", "gp3:4"], "The proof before it counts.*nothing is left"),
    "prune": ("unfinished.forget", ["prune", "--in", "{target}", "--keep", "1", "--yes"], r"1 of \d+ backups are deleted"),
}  # fmt: skip


@ONE
def test_an_interrupt_says_what_stands_and_what_finishes_it(lab, shop, tmp_path):
    """Ctrl-C at a step of each command: its words, exit code 130, and what there is afterwards."""
    target = open_target(tmp_path / "t")
    last = [copying.run(shop, target, copying.BackupRequest(method="logical")) for _ in range(3)][-1]
    proved = proving.prove(lab, target, last.id, "gp3:4", unpaced=True)
    places = {"shop": shop.name, "target": str(tmp_path / "t"), "spool": str(tmp_path / "spool")}
    for name, (step, words, says) in INTERRUPTS.items():
        before = {backup.id for backup in manifest.read_backups(target)[0]}
        module, _, function = step.partition(".")
        dying = f"import os, runpy, time; from headrace.servers.backup import {module};"
        dying += f"{module}.{function} = lambda *_, **__: (os.kill(os.getpid(), 2), time.sleep(30));"
        dying += "runpy.run_module('headrace', run_name='__main__')"
        command = ["backup", *(word.format(**places) for word in words), "--lab", str(lab.place.data_dir)]
        ended = subprocess.run([sys.executable, "-c", dying, *command], capture_output=True, text=True, timeout=120)
        assert ended.returncode == 130, (name, ended.stderr)
        assert re.search(f"Interrupted. .*{says}", ended.stderr), (name, ended.stderr)
        after = {entry.id for entry in manifest.read_backups(target)[0]}
        assert len(after) - len(before) == {"run behind its end": 1, "prune": -1}.get(name, 0), name
        assert not [
            text for text in record.list_names(record.find_data_dir(lab)) if text == "cut" or text.startswith("proof-")
        ], name
        assert name != "prove" or manifest.read_proof(target, last.id) == proved


def test_a_restore_without_room_leaves_nothing(shop, tmp_path):
    """No room where the copy is unpacked is said before; a disk of the lab that runs full ends the
    restore with nothing left of it, and the same command works once there is room."""
    target = open_target(tmp_path / "t")
    method = "logical" if shop.flavor == "mysql" else "physical"
    copying.run(shop, target, copying.BackupRequest(method=method))
    words = ("backup", "restore", "latest", "--in", str(tmp_path / "t"), "--as", "new", "--storage", "gp3:2")
    with small_disk(tmp_path / "d", 1200) as place, contextlib.closing(ServerLabs()) as labs:
        lab = labs.up(labs.clean_later(place / "lab"), time_scale=1_000_000)
        if method == "physical":
            with small_disk(tmp_path / "w", 4) as work:
                done = headrace(lab, *words, "--work", str(work))
                assert done.returncode == 3 and "GiB free, and the copy takes" in done.stderr, done.stderr
                assert list(work.iterdir()) == []
        filler = fill(place, free_bytes=32 << 20)
        done = headrace(lab, *words, "--unpaced")
        assert done.returncode == 3 and f"disk of the lab's folder {place}/lab is full" in done.stderr, done.stderr
        assert left_of(lab, "new") == []
        assert "FAILED" not in headrace(lab, "backup", "list", "--in", str(tmp_path / "t")).stdout, (
            "it is not the backup's fault"
        )
        filler.unlink()
        done = headrace(lab, *words, "--unpaced")
        assert done.returncode == 0 and run(servers.find(lab, "new"), "SELECT * FROM ack.t") == ((1, 1),), done.stderr
