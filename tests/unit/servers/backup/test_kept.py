"""What is kept stays usable, a proof is one, and a run that goes well is not undone."""

from __future__ import annotations

import contextlib
import os
import random
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_histories import LogFile, base_of, keep

from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.servers.backup import manifest as documents
from headrace.servers.backup.history import archive
from headrace.servers.backup.manifest import MANIFEST, PROOF, Backup, RestoreProof, backups, folder_of, unread
from headrace.servers.backup.proving import TableSums, unreadable
from headrace.servers.backup.retention import plan, remove, unneeded
from headrace.servers.backup.targets import folder as folders
from headrace.servers.backup.targets.folder import FolderTarget
from headrace.servers.backup.targets.s3 import _S3Writer
from headrace.servers.topology.gtid import GtidSet

OLD, NEW = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "5e11fa47-71ca-11e1-9e33-c80aa9429563"


def histories(target) -> list[archive.Timeline]:
    """The old source wrote 1 to 30; the promoted replica's own log has 1 to 30 of the old, and goes on."""
    old, before = [], ""
    for number in range(3):
        file = LogFile("mysql", before)
        for place in range(10):
            file.commit(f"{OLD}:{10 * number + place + 1}")
        before = f"{OLD}:1-{10 * number + 10}"
        old.append(file)
    keep(target, "db-1", "db", OLD, old, random.Random(1))
    keep(target, "r1-1", "r1", NEW, old, random.Random(2))
    return archive.timelines(target, None)


def test_binary_logs_of_a_promoted_server_stay_for_the_backup_of_the_one_before(tmp_path):
    """db's backup at 5 is kept and r1's first is at 30: what r1 wrote from 6 on leads from one to the other."""
    known = histories(FolderTarget(tmp_path))
    mine = Backup(base_of("db", OLD, "mysql", f"{OLD}:1-5"), None)
    promoted = Backup(base_of("r1", NEW, "mysql", f"{OLD}:1-30"), None)
    assert not [name for name in unneeded([mine, promoted], known) if "/r1-1/" in name]
    assert [name for name in unneeded([promoted], known) if "/r1-1/" in name], "else nothing would ever go"


def stored(target, backup: Backup) -> None:
    documents.write_manifest(target, backup.manifest, None)


def test_a_damaged_proof_costs_the_proof_and_not_the_backup(tmp_path):
    target = FolderTarget(tmp_path)
    mine = Backup(base_of("db", OLD, "mysql", f"{OLD}:1-5"), None)
    stored(target, mine)
    documents.write_proof(target, mine.id, RestoreProof(1.0, 1.0, "", 1, "", "", True), None)
    assert backups(target)[0][0].proof is not None
    proof = tmp_path / folder_of(mine.id) / PROOF
    raw = bytearray(proof.read_bytes())
    raw[len(raw) // 2] ^= 1
    proof.write_bytes(raw)
    found, problems = backups(target)
    assert [one.id for one in found] == [mine.id] and found[0].proof is None and "prove it again" in problems[0]
    assert unread(target, found) == []


def test_no_binary_log_goes_while_a_manifest_cannot_be_read(tmp_path):
    target = FolderTarget(tmp_path)
    known = histories(target)
    newest = Backup(replace(base_of("db", OLD, "mysql", f"{OLD}:1-30"), began_unix=time.time()), None)
    assert plan([newest], known, time.time(), 1, None).files
    stored(target, newest)
    manifest = tmp_path / folder_of(newest.id) / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-3])
    found, problems = backups(target)
    assert not found and problems and unread(target, found) == [newest.id]
    assert not plan([newest], known, time.time(), 1, None, unread(target, found)).files


def test_a_backup_whose_removal_is_cut_off_is_no_backup(tmp_path):
    target = FolderTarget(tmp_path)
    made = Backup(replace(base_of("db", OLD, "mysql", ""), snapshots={"data": "snap-1"}), None)
    stored(target, made)

    def drop(snapshot: str) -> None:
        raise CouldNotRun(snapshot, "the lab is down", "")

    with pytest.raises(CouldNotRun):
        remove(target, made, drop)
    assert backups(target)[0] == []


def test_a_table_without_a_checksum_is_no_proof():
    sums = TableSums(GtidSet.parse("", "mysql"), {"`a`.`b`": 7, "`a`.`c`": None})
    assert "`a`.`c`" in unreadable(sums) and not unreadable(replace(sums, by_table={"`a`.`b`": 7}))


def test_what_another_machine_has_begun_stays(tmp_path, monkeypatch):
    """A shared folder: the number of a process says nothing on another machine; its age does."""
    target = FolderTarget(tmp_path)
    monkeypatch.setattr(folders, "_here", lambda: "0" * 8)
    theirs = target.create("backups/one")
    gone = Path(tmp_path / "backups" / f".two.{2**22 + 1}.h{'1' * 8}.{'a' * 8}.begun")
    monkeypatch.undo()
    monkeypatch.setattr(folders, "_here", lambda: "1" * 8)
    gone.touch()
    monkeypatch.setattr(os, "getpid", lambda: 2**22 + 1)  # no process has such a number
    assert target.sweep("", 3_600.0) == 1 and not gone.exists(), "of a process that was here"
    theirs.write(b"whole")
    theirs.close()
    assert b"".join(target.read("backups/one")) == b"whole"


class Store:
    """An S3 server that stores an object and loses the answer; the client's second try meets it."""

    def __init__(self, there: bytes | None = None) -> None:
        self.there, self.label = there, "s3://b"
        self._client = self

    def put_object(self, Body, **_):
        if self.there is None:
            self.there = Body
        raise InputError("manifest.json", "is there already", "")

    @contextlib.contextmanager
    def _told(self, name):
        yield

    def read(self, name):
        yield self.there

    def _size(self, name):
        return len(self.there or b"")


def written(store: Store, data: bytes) -> None:
    writer = SimpleNamespace(
        target=store, name="manifest.json", size=len(data), _upload=None, _waiting=bytearray(data), _where={},
        _check=lambda *_: None, abort=lambda: None,
    )  # fmt: skip
    writer._is_stored = lambda data: _S3Writer._is_stored(writer, data)  # pyright: ignore[reportArgumentType]
    _S3Writer.close(writer)  # pyright: ignore[reportArgumentType]


def test_an_object_whose_answer_was_lost_is_written():
    written(Store(), b"mine")
    with pytest.raises(HeadraceError, match="is there already"):
        written(Store(b"somebody else's"), b"mine")
