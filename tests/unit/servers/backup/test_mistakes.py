"""Ordinary mistakes at the commands that read a target: refused with the reason, or named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from made_histories import base_of

from headrace.cli.main import main
from headrace.cli.servers.backup import _make_table_row, _resolve_id
from headrace.servers.backup import manifest as documents
from headrace.servers.backup.manifest import RestoreProof, get_backup_folder
from headrace.servers.backup.targets.folder import FolderTarget

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.fixture
def target(tmp_path):
    """Two backups of a server: a whole one, and a newer one of one database."""
    target = FolderTarget(tmp_path / "t")
    whole = base_of("db", SERVER, "mysql", f"{SERVER}:1-5")
    part = replace(whole, id="20261123T000000Z-db-00bb", method="logical", only=("ack",), databases=("ack",), tables=3)
    for entry in (whole, part):
        documents.write_manifest(target, entry, None)
    return target, whole, part


@pytest.mark.parametrize("words", [("list",), ("list", "--verify"), ("list", "--binlogs")])
def test_a_folder_that_is_not_there_is_not_an_empty_target(tmp_path, capsys, words):
    """It was mistyped, or its volume is not mounted."""
    assert main(["backup", *words, "--in", str(tmp_path / "mistyped")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_latest_is_the_newest_whole_backup(target):
    place, whole, part = target
    assert _resolve_id(place, "latest", None) == whole.id
    place.remove(f"{get_backup_folder(whole.id)}/manifest.json")
    assert _resolve_id(place, "latest", None) == part.id


def test_list_shows_parts_and_failed_restores(target, capsys):
    place, whole, part = target
    at = ["backup", "list", "--in", str(place.folder), "--output", "json"]
    assert main(at) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["part"], second["part"], second["tables"]) == ("", "ack", 3)
    failed = RestoreProof(1.0, 1.0, "", 0, "", "", False, "restore: data.00001: is damaged")
    documents.write_proof(place, whole.id, failed, None)
    assert main(at) == 1
    output = capsys.readouterr()
    assert json.loads(output.out)[0]["failed"] == failed.failure and not json.loads(output.out)[0]["proved"]
    assert f"problem: {whole.id}: its last restore failed: {failed.failure}" in output.err


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(0.4, "0 s"), (3_599, "60 min"), (3_600, "60 min"), (5_400, "90 min"), (86_399, "24 h"), (216_000, "2 days 12 h")],
)
def test_an_age_does_not_change_its_unit_by_rounding(target, seconds, age):
    """A second less than an hour was `60 min`, an hour `1 h`, and one and a half hours were `2 h`."""
    backup = documents.Backup(target[1], None)
    cells = _make_table_row(backup, backup.manifest.ended_unix + seconds)
    assert age in cells and f"unproved, {age} old" in cells


def test_an_option_and_an_id_that_cannot_be(target, capsys):
    place, _, _ = target
    at = ["--in", str(place.folder)]
    for words, says in (
        (["list", "../../etc", "--verify", *at], "is not the id of a backup"),
        (["list", "20200101T000000Z-db-00aa", "--verify", *at], "is not there"),
        (["prune", *at], "names neither a count nor an age"),
        (["prune", *at, "--keep", "0"], "--keep"),
    ):
        main(["backup", *words])
        output = capsys.readouterr()
        assert says in output.err + output.out, words
