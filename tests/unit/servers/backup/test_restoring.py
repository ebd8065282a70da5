"""Restores onto a name that another command takes while the copy is being unpacked: what is there stays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from made_histories import base_of

from headrace.errors import CouldNotRun, InputError
from headrace.lab import Lab
from headrace.servers import access, server
from headrace.servers import record as records
from headrace.servers.backup import manifest as documents
from headrace.servers.backup import restore
from headrace.servers.backup.restore import RestoreRequest
from headrace.servers.backup.targets import open_target
from headrace.servers.backup.targets.folder import FolderTarget
from headrace.servers.backup.targets.target import refuse
from headrace.servers.flavors import ServerProgram

NAME, STORAGE = "back", "gp3:4"
PROGRAM = ServerProgram(
    "mariadb", (10, 11, 19), "10.11.19-MariaDB", ("/usr/sbin/mariadbd",), Path("/usr"), None, None, ("innodb",)
)


@pytest.fixture
def lab(tmp_path) -> Lab:
    place = SimpleNamespace(data_dir=tmp_path / "lab", socket=None)
    return cast(Lab, SimpleNamespace(place=place, status=lambda: {}))


@pytest.fixture
def target(tmp_path) -> FolderTarget:
    result = open_target(tmp_path / "t")
    assert isinstance(result, FolderTarget)
    return result


@pytest.fixture
def destroyed(monkeypatch) -> list[str]:
    """Names of the servers that a restore destroys."""
    names: list[str] = []
    monkeypatch.setattr(restore, "check_fit", lambda manifest, path: PROGRAM)
    monkeypatch.setattr(server, "find", lambda lab, name: SimpleNamespace(name=name))
    monkeypatch.setattr(server, "destroy", lambda gone: names.append(gone.name))
    monkeypatch.setattr(restore.volumes, "explain_full_disk", lambda lab: "")
    monkeypatch.setattr(restore.volumes, "list_full", lambda *parts: [])
    return names


def write_backup(target: FolderTarget, method: str) -> str:
    """A backup without bytes; returns its id."""
    more = {"snapshots": {"vol-1": "snap-1"}} if method == "snapshot" else {}
    backup = base_of("a", "server-7", "mariadb", "0-7-1").with_(method=method, **more)
    documents.write_manifest(target, backup, None)
    return backup.id


def save_record(lab: Lab, created: bool = True) -> bytes:
    """Saves the record of a server of that name, and returns its bytes."""
    where = records.make_server_paths(records.find_data_dir(lab), NAME)
    where.state.mkdir(parents=True, exist_ok=True)
    record = records.Record(
        name=NAME, flavor="mariadb", version_text="10.11.19", engine="innodb", storage=STORAGE, log_storage=None,
        server_path=None, config="default", options={}, settings={}, memory_gib=None, port=None, created=created,
    )  # fmt: skip
    records.save(where, record)
    return where.record.read_bytes()


@pytest.mark.parametrize("method", ["logical", "snapshot"])
def test_a_server_that_came_into_being_meanwhile_is_neither_loaded_nor_destroyed(
    lab, target, destroyed, monkeypatch, method
):
    """Another command has made it when the copy is ready: `bring_up` itself refuses it, under the server's lock."""
    backup, was = write_backup(target, method), []

    def check_root() -> None:  # the first step of `bring_up`
        was.append(save_record(lab))

    monkeypatch.setattr(access, "check_root", check_root)
    monkeypatch.setattr(server, "_start_existing", lambda *parts: pytest.fail("started"))
    monkeypatch.setattr(restore, "_load", lambda *parts: pytest.fail("loaded"))
    with pytest.raises(InputError, match="is there already"):
        restore.restore(lab, target, RestoreRequest(backup, NAME, STORAGE))
    where = records.make_server_paths(records.find_data_dir(lab), NAME)
    assert [where.record.read_bytes()] == was and destroyed == []


def test_a_server_of_this_restore_is_removed_after_an_error(lab, target, destroyed, monkeypatch):
    backup = write_backup(target, "logical")

    def bring_up(lab: Lab, **options: object) -> SimpleNamespace:
        save_record(lab)
        return SimpleNamespace(name=options["name"])

    def load(*parts: object) -> None:
        raise CouldNotRun("the client", "ended with 1")

    monkeypatch.setattr(server, "bring_up", bring_up)
    monkeypatch.setattr(restore, "_load", load)
    with pytest.raises(CouldNotRun, match="ended with 1"):
        restore.restore(lab, target, RestoreRequest(backup, NAME, STORAGE))
    assert destroyed == [NAME]


def test_a_server_that_could_not_be_made_is_not_looked_for(lab, target, destroyed, monkeypatch):
    """A server of that name then belongs to the command that holds its lock."""
    backup = write_backup(target, "snapshot")

    def bring_up(lab: Lab, **options: object) -> None:
        save_record(lab, created=False)
        raise refuse.run(NAME, "another headrace is at work on this server")

    monkeypatch.setattr(server, "bring_up", bring_up)
    with pytest.raises(CouldNotRun, match="at work"):
        restore.restore(lab, target, RestoreRequest(backup, NAME, STORAGE))
    assert destroyed == []
