"""Copying a data directory: every byte and attribute, whatever the sizes; and a target that is full."""

from __future__ import annotations

import filecmp
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from headrace.errors import CouldNotRun
from headrace.lab import Lab
from headrace.servers import record as records
from headrace.servers import running, volumes
from headrace.servers.copies import files
from headrace.servers.copies.copy import Destination
from headrace.servers.copies.source import CopySource


def tree(folder, chance: random.Random) -> None:
    sizes = [0, 1, files.BLOCK - 1, files.BLOCK, files.BLOCK + 1, 3 * files.BLOCK + 7]
    for number in range(20):
        place = folder / chance.choice(["", "shop", "shop/deep", "logs"]) / f"t{number}.ibd"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(chance.randbytes(chance.choice(sizes)))
        place.chmod(chance.choice([0o600, 0o640]))
    (folder / "link").symlink_to("t0.ibd")


@pytest.mark.parametrize("flush_every", [1, 64 << 20])
def test_a_copy_is_the_same(tmp_path, monkeypatch, flush_every):
    monkeypatch.setattr(files, "FLUSH_EVERY", flush_every)
    of, to = tmp_path / "of", tmp_path / "to"
    of.mkdir()
    to.mkdir()
    tree(of, random.Random(flush_every))
    subprocess.run(["cp", "--archive", "--attributes-only", f"{of}/.", str(to)], check=True)
    files.copy_contents(of, to)
    copies = [path.relative_to(of) for path in of.rglob("*") if path.is_file()]
    assert copies and sorted(copies) == sorted(path.relative_to(to) for path in to.rglob("*") if path.is_file())
    for copy in copies:
        assert filecmp.cmp(of / copy, to / copy, shallow=False), copy
        assert (of / copy).stat().st_mode == (to / copy).stat().st_mode
    assert os.readlink(to / "link") == "t0.ibd"


def test_what_is_missing_is_said(tmp_path):
    of, to = tmp_path / "of", tmp_path / "to"
    of.mkdir()
    to.mkdir()
    (of / "t.ibd").write_bytes(b"x")
    with pytest.raises(CouldNotRun, match="cannot be copied: No such file"):
        files.copy_contents(of, to)


# --- the source is up again -----------------------------------------------------------------------


class Machine:
    """A server that is shut down, is interrupted at some step, and ends after some more looks."""

    def __init__(self, monkeypatch, place: Path) -> None:
        self.steps: list[str] = []
        self.up, self.ending, self.should_run, self.clean = True, False, True, True
        self.interrupt_at, self.ends_at = 0, 1  # the stop that is interrupted, that sees its end; 0: none
        self.stops = 0
        self.source = cast(CopySource, SimpleNamespace(name="shop"))

        @contextmanager
        def lock(where: object) -> Iterator[None]:
            yield

        where = SimpleNamespace(data_mount=place / "data", log_mount=place / "log", log=place / "error.log")
        monkeypatch.setattr(files, "get_server", lambda source: SimpleNamespace(paths=where, lab=cast(Lab, None)))
        monkeypatch.setattr(records, "lock_server", lock)
        monkeypatch.setattr(records, "require_record", lambda where: self.record())
        monkeypatch.setattr(records, "save", lambda where, record: None)
        monkeypatch.setattr(running, "find_process", lambda where, record: object() if self.up else None)
        monkeypatch.setattr(running, "stop", self.stop)
        monkeypatch.setattr(running, "start", self.start)
        monkeypatch.setattr(volumes, "bring_back", lambda lab, where, record: None)
        monkeypatch.setattr(volumes, "unmount_quietly", self.unmount)
        monkeypatch.setattr(files, "run_checked", lambda command, longest_s, hint: None)
        monkeypatch.setattr(files, "copy_contents", self.copy)

    def record(self) -> SimpleNamespace:
        return SimpleNamespace(name="shop", should_run=self.should_run, clean=self.clean, log_storage=None)

    def stop(self, where: object, record: object, kill: bool) -> None:
        self.steps.append("stop")
        self.stops += 1
        if self.stops == self.interrupt_at == -self.ends_at:
            raise KeyboardInterrupt  # before it was asked to end
        self.should_run = False
        if self.stops == self.interrupt_at:
            raise KeyboardInterrupt
        if self.stops < self.ends_at:
            raise CouldNotRun("shop", "has not ended after 1800 s", "", "Wait and try again, or kill it")
        self.up = False

    def start(self, lab: object, where: object, record: object) -> SimpleNamespace:
        assert not self.up, "a server that is shutting down would end after it"
        self.steps.append("start")
        self.up = self.should_run = True
        return self.record()

    def unmount(self, where: object) -> None:
        assert not self.up, "its files are in use"

    def copy(self, of: Path, to: Path) -> None:
        assert not self.up
        self.steps.append("copy")

    def take(self, place: Path) -> None:
        files.FileCopy().take(self.source, Destination(place / "to", log=place / "to-log"))


@pytest.fixture
def machine(monkeypatch, tmp_path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def test_a_source_is_up_again_whatever_happens_to_its_copy(machine, tmp_path, monkeypatch):
    machine.take(tmp_path)
    assert machine.steps == ["stop", "copy", "copy", "start"] and machine.up
    machine.steps.clear()

    def fail(of: Path, to: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "copy_contents", fail)
    with pytest.raises(KeyboardInterrupt):
        machine.take(tmp_path)
    assert machine.steps == ["stop", "start"] and machine.up


def test_a_source_whose_shutdown_is_interrupted_is_started_when_it_has_ended(machine, tmp_path):
    machine.interrupt_at = 1
    with pytest.raises(KeyboardInterrupt):
        machine.take(tmp_path)
    assert machine.steps == ["stop", "stop", "start"] and machine.up


def test_a_source_that_takes_longer_to_end_is_waited_for_and_then_named(machine, tmp_path):
    machine.ends_at = 2
    with pytest.raises(CouldNotRun, match="has not ended"):
        machine.take(tmp_path)
    assert machine.steps == ["stop", "stop", "start"] and machine.up
    machine.steps.clear()
    machine.stops, machine.ends_at = 0, 3
    with pytest.raises(CouldNotRun, match="has not ended") as refusal:
        machine.take(tmp_path)
    assert machine.steps == ["stop", "stop"] and "headrace mysql up shop" in refusal.value.hint


def test_a_source_that_was_not_asked_to_end_runs_on(machine, tmp_path):
    machine.interrupt_at, machine.ends_at = 1, -1
    with pytest.raises(KeyboardInterrupt):
        machine.take(tmp_path)
    assert machine.steps == ["stop"] and machine.up
