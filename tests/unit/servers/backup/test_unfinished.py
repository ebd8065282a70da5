"""Runs that are killed at any step, against a naive reference: the bytes that were to be kept.

The server is a stand-in that writes random bytes; targets, marks, manifests and the processes that
die are real.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cli.servers.backup import _describe_after_run
from headrace.errors import CouldNotRun, InputError
from headrace.mysql import Address
from headrace.servers.backup import checking, copying, manifest, unfinished
from headrace.servers.backup.manifest import get_backup_folder
from headrace.servers.backup.restore import read_parts
from headrace.servers.backup.targets.folder import FolderTarget, _FolderWriter
from headrace.servers.copies import source as sources
from headrace.servers.copies.copy import CopyMethod, CopyResult
from headrace.servers.copies.folders import make_id
from headrace.servers.copies.methods import METHODS
from headrace.servers.copies.position import BinlogPosition
from headrace.servers.copies.source import CopySource

SOURCE = CopySource(Address("u", "db.example"), "shop", "mariadb", "10.11.19", (10, 11, 19), "server-7", True, ())
ROUNDS = int(os.environ.get("UNFINISHED_ROUNDS", "25"))


@pytest.fixture(autouse=True)
def server(monkeypatch):
    """A copy is the same 600 KiB for one server and day: six files of 100 KiB."""
    monkeypatch.setattr(copying, "PART_BYTES", 100 << 10)

    class Random(CopyMethod):
        form = "sql"

        def take(self, source, into):
            assert isinstance(into.stream, copying.PartsWriter)
            for piece in data():
                into.stream.append(piece, 0)
            into.stream.close()
            size = sum(part.size for part in into.stream.parts)
            return CopyResult(BinlogPosition("0-7-1", "b.1", 4), size)

    monkeypatch.setitem(METHODS, "dump", Random())
    monkeypatch.setattr(CopySource, "connect", lambda source: contextlib.nullcontext())
    monkeypatch.setattr(sources, "list_databases", lambda connection: [])
    monkeypatch.setattr(copying, "read_settings", lambda connection: {})


def data():
    chance = random.Random(7)
    for _ in range(12):
        yield chance.randbytes(50 << 10)


WHOLE = hashlib.sha256(b"".join(data())).hexdigest()


def make_request(spool: Path | None, texts: list[str], anew: bool = False) -> copying.BackupRequest:
    return copying.BackupRequest("logical", "none", spool=spool, anew=anew, note=texts.append)


def killed(target: FolderTarget, spool: Path | None, at: int) -> bool:
    """Returns whether a run in a process of its own died before its step `at`."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    steps = 0

    def dying(real):
        def step(*args, **more):
            nonlocal steps
            steps += 1
            if steps > at:
                os._exit(9)
            return real(*args, **more)

        return step

    try:
        for owner, name in ((_FolderWriter, "_write"), (_FolderWriter, "close"), (FolderTarget, "remove"), (os, "link"), (os, "unlink")):  # fmt: skip
            setattr(owner, name, dying(getattr(owner, name)))
        copying.run(SOURCE, target, make_request(spool, []))
        os._exit(0)
    finally:
        os._exit(1)


def check_whole(target: FolderTarget) -> int:
    """Returns the number of backups that count, each of which has all its bytes."""
    backups, _ = manifest.read_backups(target)
    for backup in backups:
        assert not checking.check_backup(target, backup.id).problems
        assert hashlib.sha256(b"".join(read_parts(target, backup.manifest))).hexdigest() == WHOLE
    return len(backups)


@pytest.mark.parametrize("spooled", [False, True])
def test_killed_at_any_step(tmp_path, spooled):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    target, spool = FolderTarget(tmp_path / "t"), tmp_path / "spool" if spooled else None
    died = 0
    for _ in range(ROUNDS):
        died += killed(target, spool, chance.randrange(60))
        check_whole(target)
    assert died > ROUNDS // 4
    result = copying.run(SOURCE, target, make_request(spool, []))
    backups, problems = manifest.read_backups(target)
    assert result.id in [backup.id for backup in backups] and not problems
    check_whole(target)
    assert not list(tmp_path.rglob("*.begun")) and not list(tmp_path.rglob("running"))
    assert spool is None or not [path for path in spool.rglob("*") if path.is_file()]


def test_what_was_sent_is_not_sent_again(tmp_path, monkeypatch):
    """A target that takes three files and then is away: the next run sends the other three."""
    target, spool, message = FolderTarget(tmp_path / "t"), tmp_path / "spool", []
    sent, spooled, real = [], [], FolderTarget.create

    def create(self, name, expected_bytes=0):
        if self.folder == target.folder and "/data." in name:
            if len(sent) == 3 and not message:
                raise CouldNotRun("the target", "is away")
            sent.append(name)
        return real(self, name, expected_bytes)

    monkeypatch.setattr(FolderTarget, "create", create)
    with pytest.raises(CouldNotRun, match="is away"):
        copying.run(SOURCE, target, replace(make_request(spool, message), report_spooled=spooled.append))
    assert "is whole in" in message[0] and spooled == [
        entry.id for entry in unfinished.list_spooled(FolderTarget(spool), SOURCE, None)
    ]
    assert "whole in the spool" in _describe_after_run(target, set(), spooled)
    assert "removed" in _describe_after_run(target, set(), [])
    assert check_whole(target) == 0
    # A file that was altered meanwhile is sent again.
    (altered,) = (tmp_path / "t").rglob("data.00002")
    altered.write_bytes(bytes(100 << 10))
    result = copying.run(SOURCE, target, make_request(spool, message))
    assert [name.rpartition(".")[2] for name in sent] == ["00001", "00002", "00003", "00002", "00004", "00005", "00006"]
    assert message[1].startswith(f"goes on with {result.id}") and "2 of its 6 files" in message[2]
    assert check_whole(target) == 1


def test_a_copy_of_another_day_or_that_is_damaged_is_not_sent(tmp_path, monkeypatch):
    target, spool, message = FolderTarget(tmp_path / "t"), tmp_path / "spool", []
    assert killed(target, spool, 40), "while it is sent"
    (state,) = unfinished.list_spooled(FolderTarget(spool), SOURCE, None)
    monkeypatch.setattr(unfinished, "SWEEP_S", -1.0)
    result = copying.run(SOURCE, target, make_request(spool, message))
    assert result.id != state.id and any("starts anew" in entry for entry in message), message
    monkeypatch.undo()
    monkeypatch.setattr(copying, "PART_BYTES", 100 << 10)
    local = FolderTarget(spool)
    local.put_new(f"{get_backup_folder(state.id)}/data.00001", b"altered")
    manifest.write_manifest(local, state, None)
    with pytest.raises(InputError, match="is damaged"):
        copying.run(SOURCE, target, make_request(spool, message))
    assert not unfinished.list_spooled(local, SOURCE, None), "the next run starts anew"
    assert check_whole(target) == 1


def test_unfinished_files_of_a_killed_stream_are_removed(tmp_path):
    """Up to 64 MiB each, or an upload that is billed: no list shows them, and no backup is theirs."""
    target, name = FolderTarget(tmp_path / "t"), "binlogs/shop-server-7-1/binlog.000001"
    target.put_new(f"{name}/live-00000000000000000000", b"whole")
    child = os.fork()
    if not child:
        target.create(f"{name}/joined-00000000000000000000").write(b"x")
        os._exit(9)
    os.waitpid(child, 0)
    living = target.create(f"{name}/live-00000000000000000005")
    living.write(b"y")
    assert len(list(tmp_path.rglob("*.begun"))) == 2
    unfinished.clear(target, None)
    assert len(list(tmp_path.rglob("*.begun"))) == 1
    living.close()
    assert len(target.list(f"{name}/")) == 2


def test_a_living_run_is_left_alone(tmp_path):
    target = FolderTarget(tmp_path / "t")
    backup = make_id("shop")
    unfinished.mark(target, backup, "shop", None)
    target.put_new(f"{get_backup_folder(backup)}/data.00001", b"x")
    assert not unfinished.clear(target, None)
    assert target.exists(f"{get_backup_folder(backup)}/data.00001")
    with pytest.raises(InputError, match="is the target itself"):
        copying.run(SOURCE, target, make_request(target.folder, []))


def test_a_backup_that_becomes_whole_meanwhile_is_not_cleared(tmp_path, monkeypatch):
    """Another run ends between the list of files that a clean-up goes by, and its look at that run."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    target, whole = FolderTarget(tmp_path / "t"), []

    class Meanwhile(FolderTarget):
        """Lists the files as they were before some steps of the other run were taken."""

        def list(self, prefix: str = ""):
            listed = super().list(prefix)
            for step in steps:
                step()
            steps.clear()
            return listed

    for _ in range(ROUNDS):
        manifests, steps = [], []
        with monkeypatch.context() as patch:  # everything of a run but its last two steps
            patch.setattr(copying, "write_manifest", lambda place, entry, key, entries=manifests: entries.append(entry))
            patch.setattr(unfinished, "unmark", lambda place, backup: None)
            running = copying.run(SOURCE, target, make_request(None, [])).id
        unmark_too = chance.random() < 0.7
        steps.append(lambda entry=manifests[0]: manifest.write_manifest(target, entry, None))
        if unmark_too:
            steps.append(lambda running=running: unfinished.unmark(target, running))
        whole.append(running)
        assert not unfinished.clear(Meanwhile(target.folder), None)
        assert [entry.id for entry in manifest.read_backups(target)[0]] == sorted(whole)
    assert check_whole(target) == ROUNDS


@pytest.mark.parametrize("size", [0, 1, (100 << 10) - 1])
def test_a_truncated_file_of_a_copy_is_found(tmp_path, size):
    target = FolderTarget(tmp_path / "t")
    result = copying.run(SOURCE, target, make_request(None, []))
    os.truncate(tmp_path / "t" / get_backup_folder(result.id) / "data.00004", size)
    (problem,) = checking.check_backup(target, result.id).problems
    assert f"has {size:,} bytes and should have 102,400" in problem
    with pytest.raises(InputError, match="is damaged"):
        list(read_parts(target, result))


@pytest.mark.parametrize("spooled", [False, True])
def test_a_whole_backup_stays_where_the_last_steps_fail(tmp_path, monkeypatch, spooled):
    """The target goes away once the manifest is written."""
    target, spool, message = FolderTarget(tmp_path / "t"), tmp_path / "spool" if spooled else None, []

    def away(self, name):
        raise CouldNotRun("the target", "is away")

    with monkeypatch.context() as patch:
        patch.setattr(FolderTarget, "remove", away if not spooled else FolderTarget.remove)
        patch.setattr(unfinished, "unmark", lambda place, backup: away(place, backup))
        result = copying.run(SOURCE, target, make_request(spool, message))
    assert check_whole(target) == 1 and not manifest.read_backups(target)[1]
    monkeypatch.setattr(unfinished, "look_up", lambda pid: None)  # as if that process had ended
    later = copying.run(SOURCE, target, make_request(spool, message))
    assert later.id != result.id and check_whole(target) == 2
    assert not list(tmp_path.rglob("running"))
