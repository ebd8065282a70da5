"""CLONE statements of MySQL: how long one may take, and those that nobody waits for any more."""

from __future__ import annotations

import contextlib
import random
import re
from pathlib import Path
from typing import cast

import pytest

from headrace.errors import CouldNotRun
from headrace.mysql import Address
from headrace.mysql.statements import SqlConnection
from headrace.servers.copies import clone
from headrace.servers.copies.copy import COPY_S, Destination
from headrace.servers.copies.folders import hold_folder
from headrace.servers.copies.position import BinlogPosition
from headrace.servers.copies.source import CopySource

SOURCE = CopySource(Address("u", socket="/s"), "shop", "mysql", "9.7.4", (9, 7, 4), "uuid", True, ())
FIRST, SECOND = "headrace-20261122T000001Z-shop-00aa", "headrace-20261122T000002Z-shop-00bb"


class Server:
    """Goes on cloning without its client until it is told to end, and accepts no second CLONE."""

    def __init__(self, monkeypatch) -> None:
        self.cloning: dict[int, str] = {}  # statements by connection
        self.timeouts: list[float] = []
        self.connections = 0
        self.fails: BaseException | None = None
        monkeypatch.setattr(CopySource, "connect", lambda source, timeout_s=60.0: self.connect(timeout_s))
        monkeypatch.setattr(clone, "find_service_user", lambda: None)
        monkeypatch.setattr(clone, "get_server", lambda source: None)
        monkeypatch.setattr(clone, "count_physical_bytes", lambda server: 1)
        monkeypatch.setattr(clone, "load_plugin", lambda *parts: None)
        monkeypatch.setattr(clone, "read_position", lambda connection, source: BinlogPosition())
        monkeypatch.setattr(clone, "fetch_rows", self.answer)

    def connect(self, timeout_s: float = 60.0) -> contextlib.AbstractContextManager[int]:
        self.timeouts.append(timeout_s)
        self.connections += 1
        return contextlib.nullcontext(self.connections)

    def answer(self, connection: int, statement: str) -> tuple[tuple[object, ...], ...]:
        if statement.startswith("CLONE"):
            assert not self.cloning, "a second CLONE"
            self.cloning[connection] = statement
            if self.fails is not None:
                raise self.fails
            del self.cloning[connection]
        if statement == "SELECT CONNECTION_ID()":
            return ((connection,),)
        if match := re.fullmatch(r"KILL (\d+)", statement):
            self.cloning.pop(int(match[1]))
        return tuple(self.cloning.items()) if "processlist" in statement else ()


@pytest.fixture
def server(monkeypatch) -> Server:
    return Server(monkeypatch)


class Stream:
    def write(self, flow: object, size: int) -> int:
        return size


def take(folder: Path) -> None:
    clone.CloneCopy().take(SOURCE, Destination(folder, stream=cast(None, Stream())))


def test_a_clone_may_take_as_long_as_a_copy(server, tmp_path):
    take(tmp_path / FIRST)
    assert server.timeouts == [COPY_S]


@pytest.mark.parametrize(
    "error", [CouldNotRun("CLONE", "lost connection"), KeyboardInterrupt()], ids=["lost", "ctrl-c"]
)
def test_a_clone_that_is_waited_for_no_longer_is_ended_before_its_folder_goes(server, tmp_path, monkeypatch, error):
    server.fails = error
    killed = []
    real = server.answer

    def answer(connection: int, statement: str) -> tuple[tuple[object, ...], ...]:
        if statement.startswith("KILL"):
            killed.append((tmp_path / f"{FIRST}.lock").exists())
        return real(connection, statement)

    monkeypatch.setattr(clone, "fetch_rows", answer)
    with pytest.raises(type(error)):
        take(tmp_path / FIRST)
    assert killed == [True] and not server.cloning
    server.fails = None
    take(tmp_path / SECOND)


def test_clones_of_runs_that_ended_are_ended_and_those_of_others_are_not(server, tmp_path):
    """A killed run's lock is free, or went with its folder; another run may use another folder."""
    chance, connection = random.Random(15), cast(SqlConnection, 1)
    for _ in range(20):
        place, is_alive = tmp_path / chance.choice("ab"), chance.random() < 0.5
        place.mkdir(exist_ok=True)
        server.cloning[7] = f"CLONE LOCAL DATA DIRECTORY = '{place / FIRST}'"
        with hold_folder(place / FIRST) if is_alive else contextlib.nullcontext():
            if not is_alive and chance.random() < 0.5:
                (place / f"{FIRST}.lock").touch()
            if is_alive:
                running_before = dict(server.cloning)
                clone._end_clones(connection)
                assert server.cloning == running_before
                server.cloning.clear()
            else:
                clone._end_clones(connection)
                assert not server.cloning
