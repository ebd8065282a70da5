"""Backups that are kept stay usable, a proof is one, and a run that goes well is not undone."""

from __future__ import annotations

import contextlib
import os
import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.stub import Stubber
from made_histories import LogFile, base_of, keep
from waiting import wait_until

from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup import manifest as documents
from headrace.servers.backup import proving, unfinished
from headrace.servers.backup.checking import list_broken_chains
from headrace.servers.backup.history import archive
from headrace.servers.backup.manifest import (
    MANIFEST,
    PROOF,
    Backup,
    RestoreProof,
    get_backup_folder,
    list_unreadable,
    read_backups,
)
from headrace.servers.backup.proving import TableSums, describe_unreadable, prove
from headrace.servers.backup.retention import RetentionPlan, carry_out, is_chain_whole, list_unneeded, plan, remove
from headrace.servers.backup.targets import folder as folders
from headrace.servers.backup.targets.folder import FolderTarget
from headrace.servers.backup.targets.s3 import S3Target, _S3Writer
from headrace.servers.backup.targets.target import BROKEN, DAMAGED

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
    return archive.read_timelines(target, None)


def test_binary_logs_of_a_promoted_server_stay_for_the_backup_of_the_one_before(tmp_path):
    """db's backup at 5 is kept and r1's first is at 30: what r1 wrote from 6 on leads from one to the other."""
    timelines = histories(FolderTarget(tmp_path))
    mine = Backup(base_of("db", OLD, "mysql", f"{OLD}:1-5"), None)
    promoted = Backup(base_of("r1", NEW, "mysql", f"{OLD}:1-30"), None)
    assert not [name for name in list_unneeded([mine, promoted], timelines) if "/r1-1/" in name]
    assert [name for name in list_unneeded([promoted], timelines) if "/r1-1/" in name], "else nothing would ever go"


def log_of(numbers: range, step: int) -> list[LogFile]:
    """Binary logs of a MariaDB with server_id 1, `step` transactions in each."""
    files, before = [], numbers.start - 1
    for first in range(numbers.start, numbers.stop, step):
        file = LogFile("mariadb", f"0-1-{before}" if before else "")
        for number in range(first, min(first + step, numbers.stop)):
            file.commit(f"0-1-{number}")
            before = number
        if before + 1 < numbers.stop:
            file.rotate(f"binlog.{len(files) + 2:06d}")
        files.append(file)
    return files


def test_two_servers_of_one_id_are_two(tmp_path):
    """Most servers of MariaDB have server_id 1, and their numbers fit each other by chance: the backups of one keep no
    binary log of the other, free none of it, and do not go on in it."""
    target, chance = FolderTarget(tmp_path), random.Random(15)
    keep(target, "a-server-1-1", "a", "server-1", log_of(range(1, 101), 20), chance)
    keep(target, "b-server-1-1", "b", "server-1", log_of(range(1, 301), 50), chance)
    timelines = archive.read_timelines(target)
    of_a, of_b, quiet_b = (
        Backup(base_of(name, "server-1", "mariadb", f"0-1-{number}"), None)
        for name, number in (("a", 90), ("b", 240), ("b", 5))
    )

    def unneeded(*backups: Backup) -> set[str]:
        return {"/".join(name.split("/")[1:3]) for name in list_unneeded(backups, timelines)}

    files_a, files_b = ({f"{name}-server-1-1/binlog.{n:06d}" for n in range(1, 5)} for name in "ab")
    assert unneeded(of_b) == files_b, "what a wrote may be all there is"
    assert unneeded(of_a) == files_a, "what b wrote may be all there is"
    assert unneeded(of_a, of_b) == files_a | files_b
    assert unneeded(of_a, quiet_b) == files_a, "a backup of b that lies behind does not keep the logs of a"
    # The log of a is damaged behind its backup, and that of b goes on by number.
    assert is_chain_whole(of_a, timelines) and not list_broken_chains([of_a, of_b], timelines)
    for entry in target.list("binlogs/a-server-1-1/binlog.000005/"):
        (tmp_path / entry.name).write_bytes(b"damaged")
    damaged = archive.read_timelines(target)
    assert not is_chain_whole(of_a, damaged) and is_chain_whole(of_b, damaged)
    assert [words.split(":")[0] for words in list_broken_chains([of_a, of_b], damaged)] == [of_a.id]
    # A third that is not streamed at all has no broken chain, and its proof has no replay.
    of_c = Backup(base_of("c", "server-1", "mariadb", "0-1-400"), None)
    assert not list_broken_chains([of_c], timelines)
    assert proving._find_goal(target, of_c.manifest, None, None) is None
    assert proving._find_goal(target, of_b.manifest, None, None) is not None


def test_an_archive_that_was_pruned_is_whole_and_one_whose_first_file_is_gone_is_not(tmp_path):
    target = FolderTarget(tmp_path)
    timelines = histories(target)
    newest = Backup(base_of("db", OLD, "mysql", f"{OLD}:1-25"), None)
    answer = plan([newest], timelines, time.time(), 1, None)
    assert {name.split("/")[2] for name in answer.files} == {"binlog.000001", "binlog.000002"}
    carry_out(target, answer, timelines, None)
    for timeline in archive.read_timelines(target):
        assert not timeline.problems and [file.name for file in timeline.files] == ["binlog.000003"]
    for entry in archive.read_timelines(target):
        target.remove(f"binlogs/{entry.id}/{archive.PRUNED}")
        (problem,) = (
            archive.read_timelines(target)[0].problems
            if entry.id == "db-1"
            else archive.read_timelines(target)[1].problems
        )
        assert "all of binlog.000001 is missing" in problem


def stored(target, backup: Backup) -> None:
    documents.write_manifest(target, backup.manifest, None)


def test_a_damaged_proof_costs_the_proof_and_not_the_backup(tmp_path):
    target = FolderTarget(tmp_path)
    mine = Backup(base_of("db", OLD, "mysql", f"{OLD}:1-5"), None)
    stored(target, mine)
    documents.write_proof(target, mine.id, RestoreProof(1.0, 1.0, "", 1, "", "", True), None)
    assert read_backups(target)[0][0].proof is not None
    proof = tmp_path / get_backup_folder(mine.id) / PROOF
    raw = bytearray(proof.read_bytes())
    raw[len(raw) // 2] ^= 1
    proof.write_bytes(raw)
    result, problems = read_backups(target)
    assert [entry.id for entry in result] == [mine.id] and result[0].proof is None and "prove it again" in problems[0]
    assert list_unreadable(target, result) == []


def test_no_binary_log_goes_while_a_manifest_cannot_be_read(tmp_path):
    target = FolderTarget(tmp_path)
    timelines = histories(target)
    newest = Backup(replace(base_of("db", OLD, "mysql", f"{OLD}:1-30"), began_unix=time.time()), None)
    assert plan([newest], timelines, time.time(), 1, None).files
    stored(target, newest)
    manifest = tmp_path / get_backup_folder(newest.id) / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-3])
    result, problems = read_backups(target)
    assert not result and problems and list_unreadable(target, result) == [newest.id]
    assert not plan([newest], timelines, time.time(), 1, None, list_unreadable(target, result)).files


class Snapshots:
    """A lab that has snapshots, and for a while does not delete any."""

    def __init__(self, folder: Path, tags: dict[str, dict[str, str]]) -> None:
        self.tags, self.down, self.place = tags, False, SimpleNamespace(data_dir=folder, socket=None)
        self.locks: dict[str, dict[str, str]] = {}

    def snapshots(self, **_):
        result = [{"id": name, "tags": tags, "lock": self.locks.get(name)} for name, tags in self.tags.items()]
        return {"snapshots": result, "next": None}

    def delete_snapshot(self, snapshot: str) -> None:
        if self.down:
            raise CouldNotRun(snapshot, "the lab is down", "")
        del self.tags[snapshot]


def test_a_removal_that_is_cut_off_is_ended_by_the_next_run(tmp_path, monkeypatch):
    """The lab fails behind the manifest: no backup any more, and its snapshots are still asked for."""
    target = FolderTarget(tmp_path)
    backup = Backup(replace(base_of("db", OLD, "mysql", ""), snapshots={"data": "snap-1", "log": "snap-2"}), None)
    stored(target, backup)
    lab: Any = Snapshots(tmp_path, {"snap-1": {unfinished.TAG: backup.id}, "snap-2": {}, "snap-3": {}})
    lab.down = True
    with pytest.raises(CouldNotRun):
        remove(target, backup, lab)
    assert read_backups(target)[0] == []
    lab.down = False
    assert not unfinished.clear(target, lambda: lab), "while the one that removes it runs"
    monkeypatch.setattr(unfinished, "look_up", lambda pid: None)
    assert "1 snapshots" in unfinished.clear(target, lambda: lab)[0].words
    assert "snap-1" not in lab.tags and target.list() == []


def test_a_backup_whose_snapshot_is_locked_stays_whole(tmp_path):
    target = FolderTarget(tmp_path)
    result = Backup(replace(base_of("db", OLD, "mysql", ""), snapshots={"data": "snap-1", "log": "snap-2"}), None)
    stored(target, result)
    lab: Any = Snapshots(tmp_path, {"snap-1": {unfinished.TAG: result.id}, "snap-2": {}})
    lab.locks["snap-2"] = {"state": "compliance", "expires_at": "2027-01-01T00:00:00Z"}
    with pytest.raises(CouldNotRun, match=r"snap-2 is locked until 2027-01-01T00:00:00Z \(compliance\)"):
        remove(target, result, lab)
    assert [backup.id for backup in read_backups(target)[0]] == [result.id] and set(lab.tags) == {"snap-1", "snap-2"}
    lab.locks["snap-2"]["state"] = "expired"
    remove(target, result, lab)
    assert not lab.tags and target.list() == []


def test_what_is_locked_is_kept_and_the_others_go(tmp_path):
    target = FolderTarget(tmp_path)
    both = [
        Backup(replace(base_of(name, OLD, "mysql", ""), snapshots={"data": f"snap-{name}"}), None)
        for name in ("a", "b")
    ]
    for entry in both:
        stored(target, entry)
    lab: Any = Snapshots(tmp_path, {f"snap-{name}": {} for name in ("a", "b")})
    lab.locks["snap-a"] = {"state": "governance", "expires_at": "2027-01-01T00:00:00Z"}
    plan = RetentionPlan((), tuple((member, "old") for member in both), ())
    [why] = carry_out(target, plan, [], lab)
    assert "snap-a is locked" in why and set(lab.tags) == {"snap-a"}
    assert [backup.id for backup in read_backups(target)[0]] == [both[0].id]


def test_a_removal_leaves_no_snapshot_whose_tag_was_taken_off_or_that_is_gone(tmp_path):
    target = FolderTarget(tmp_path)
    backup = Backup(replace(base_of("db", OLD, "mysql", ""), snapshots={"data": "snap-1", "log": "snap-2"}), None)
    stored(target, backup)
    lab: Any = Snapshots(tmp_path, {"snap-2": {}, "snap-3": {}})
    remove(target, backup, lab)
    assert set(lab.tags) == {"snap-3"} and target.list() == []


def test_a_run_elsewhere_that_was_seen_today_is_alive():
    day = unfinished.SWEEP_S
    mark = unfinished.RunMark("another machine", 1, None, time.time() - 3 * day)
    assert not mark.alive
    assert replace(mark, seen_unix=time.time() - day / 2).alive


def test_a_mark_is_renewed_while_a_run_lasts_and_not_behind_it(tmp_path):
    target, backup = FolderTarget(tmp_path), base_of("db", OLD, "mysql", "").id

    def seen() -> float:
        mark = unfinished.read_backup_mark(target, backup)
        assert mark is not None
        return mark.seen_unix

    with unfinished.renew_mark(target, backup, "db", None, every_s=0.01):
        wait_until(seen, "a mark that was seen")
    last = seen()
    time.sleep(0.05)
    assert seen() == last


# --- proofs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        InputError("gp3:1", "is too small", "Amazon EBS"),
        InputError("log_bin", "is not a setting", ""),
        InputError("s3://b", "does not know the keys: expired", "S3 error ExpiredToken"),
        CouldNotRun("the lab", "is full", ""),
        CouldNotRun("replay", "has too little room for 3 GiB of binary log to be replayed", ""),
    ],
    ids=lambda error: error.value,
)
def test_what_says_nothing_about_a_backup_leaves_its_proof(tmp_path, monkeypatch, error):
    target, result = proved(tmp_path)

    def fails(*_):
        raise error

    monkeypatch.setattr(proving, "restore", fails)
    monkeypatch.setattr(proving, "check_fit", lambda *_: None)
    lab: Any = None
    with pytest.raises(type(error)):
        prove(lab, target, result.id, "gp3:100")
    with pytest.raises(InputError, match="is not a folder"):
        prove(lab, target, result.id, "gp3:100", work=tmp_path / "mistyped")
    proof = documents.read_proof(target, result.id)
    assert proof is not None and proof.ok and proof.at_unix == 1.0


@pytest.mark.parametrize("kind", [DAMAGED, BROKEN])
def test_a_backup_that_cannot_be_restored_has_a_proof_that_failed(tmp_path, monkeypatch, kind):
    target, result = proved(tmp_path)

    def fails(*_):
        raise InputError("data.00001", "is damaged: its checksum is another", "", kind=kind)

    monkeypatch.setattr(proving, "restore", fails)
    monkeypatch.setattr(proving, "check_fit", lambda *_: None)
    lab: Any = None
    assert not prove(lab, target, result.id, "gp3:100").ok
    proof = documents.read_proof(target, result.id)
    assert proof is not None and not proof.ok and "data.00001" in proof.failure


def proved(folder: Path) -> tuple[FolderTarget, Backup]:
    target, backup = FolderTarget(folder), Backup(base_of("db", OLD, "mysql", f"{OLD}:1-5"), None)
    stored(target, backup)
    documents.write_proof(target, backup.id, RestoreProof(1.0, 1.0, "", 1, "", "", True), None)
    return target, backup


def test_a_proof_of_another_version_is_said_to_be_one(tmp_path):
    target, result = proved(tmp_path)
    target.replace(f"{get_backup_folder(result.id)}/{PROOF}", documents.seal_document({"at_unix": 1.0}))
    with pytest.raises(InputError, match="another version"):
        documents.read_proof(target, result.id)


def test_a_table_without_a_checksum_is_no_proof():
    sums = TableSums(GtidSet.parse("", "mysql"), {"`a`.`b`": 7, "`a`.`c`": None})
    assert "`a`.`c`" in describe_unreadable(sums) and not describe_unreadable(replace(sums, by_table={"`a`.`b`": 7}))


def test_a_comparison_says_what_is_missing_and_what_is_different():
    at = GtidSet.parse("", "mysql")
    source = TableSums(at, {"`a`.`b`": 7, "`a`.`c`": 8, "`o`.`t`": 1})
    backup = TableSums(at, {"`a`.`b`": 7, "`a`.`c`": 9, "`x`.`y`": 1})
    assert proving.describe_differences(source, backup) == (
        "1 table is missing in the backup: `o`.`t`; 1 table is in the backup and not in the source: `x`.`y`; "
        "1 table is different from the source: `a`.`c`"
    )
    assert proving.describe_differences(source, source) == "" == proving.describe_differences(None, backup)


def test_what_another_machine_has_begun_stays(tmp_path, monkeypatch):
    """A shared folder: the number of a process says nothing on another machine; its age does."""
    target = FolderTarget(tmp_path)
    monkeypatch.setattr(folders, "_make_machine_name", lambda: "0" * 8)
    reference = target.create("backups/one")
    gone = Path(tmp_path / "backups" / f".two.{2**22 + 1}.h{'1' * 8}.{'a' * 8}.begun")
    monkeypatch.undo()
    monkeypatch.setattr(folders, "_make_machine_name", lambda: "1" * 8)
    gone.touch()
    monkeypatch.setattr(os, "getpid", lambda: 2**22 + 1)  # no process has such a number
    assert target.sweep("", 3_600.0) == 1 and not gone.exists(), "of a process that was here"
    reference.write(b"whole")
    reference.close()
    assert b"".join(target.read("backups/one")) == b"whole"


def test_abandoned_uploads_of_every_page_are_ended():
    """S3 lists at most 1,000 uploads a page: here a page has two, and one upload is too young."""
    target = S3Target("bucket/p?region=eu-west-1&endpoint=http://127.0.0.1:9")
    begun = datetime(2020, 1, 1, tzinfo=UTC)
    uploads = [{"Key": f"p/{number}", "UploadId": str(number), "Initiated": begun} for number in range(5)]
    uploads[3]["Initiated"] = datetime.now(UTC) + timedelta(days=1)
    with Stubber(target._client) as server:
        marker = {}
        for first in (0, 2, 4):
            page = uploads[first : first + 2]
            last = {"KeyMarker": page[-1]["Key"], "UploadIdMarker": page[-1]["UploadId"]}
            following = {f"Next{name}": value for name, value in last.items()} if first < 4 else {}
            answer = {"Uploads": page, "IsTruncated": first < 4, **following}
            server.add_response("list_multipart_uploads", answer, {"Bucket": "bucket", "Prefix": "p/", **marker})
            marker = last
        for number in ("0", "1", "2", "4"):
            server.add_response(
                "abort_multipart_upload", {}, {"Bucket": "bucket", "Key": f"p/{number}", "UploadId": number}
            )
        assert target.sweep("", 3_600.0) == 4
        server.assert_no_pending_responses()
        server.add_client_error("list_multipart_uploads", "NotImplemented")
        assert target.sweep("", 3_600.0) == 0


class Store:
    """An S3 server that stores an object and loses the answer; the client's second try meets it."""

    def __init__(self, there: bytes | None = None) -> None:
        self.there, self.label, self.prefix, self.bucket = there, "s3://b", "", "b"
        self._client, self.parts = self, []

    def put_object(self, Body, **_):
        self._store(Body)

    def create_multipart_upload(self, **_):
        return {"UploadId": "1"}

    def upload_part(self, Body, **_):
        self.parts.append(Body)
        return {"ETag": ""}

    def complete_multipart_upload(self, **_):
        self._store(b"".join(self.parts))

    def abort_multipart_upload(self, **_): ...

    def _store(self, body: bytes) -> None:
        if self.there is None:
            self.there = body
        raise InputError("manifest.json", "is there already", "")

    @contextlib.contextmanager
    def _translate_errors(self, name):
        yield

    def read(self, name):
        yield self.there

    def _read_size(self, name):
        return len(self.there or b"")


@pytest.mark.parametrize("part", [4, 100], ids=["in parts", "in one"])
def test_an_object_whose_answer_was_lost_is_written(part):
    def write(store: Any) -> None:
        with _S3Writer(store, "manifest.json", part) as writer:
            writer.write(b"mine")

    write(Store())
    with pytest.raises(HeadraceError, match="is there already"):
        write(Store(b"hers"))
