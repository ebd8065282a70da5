"""Data that are made by half do not stay, and where they do it is said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.bench.running import runner
from headrace.errors import CouldNotRun


class Half:
    """A benchmark whose volume fills while its data are made, and that drops them at the last of
    `tries`."""

    def __init__(self, tries: int) -> None:
        self.tries, self.dropped = tries, False

    def check_target(self, target: object) -> None: ...

    def get_tool(self) -> None: ...

    def is_prepared(self, target: object, threads: int) -> bool:
        return False

    def prepare(self, *_: object) -> None:
        raise CouldNotRun("sysbench prepare", "the table is full", "")

    def remove_data(self, target: object, folder: object) -> None:
        self.tries -= 1
        if self.tries:
            raise CouldNotRun("sysbench cleanup", "the table is full, still", "")
        self.dropped = True


@pytest.mark.parametrize(("tries", "dropped"), [(1, True), (runner.UNDO_TRIES, True), (runner.UNDO_TRIES + 1, False)])
def test_half_of_the_data_does_not_stay(monkeypatch, tries, dropped):
    monkeypatch.setattr(runner, "UNDO_PAUSE_S", 0.0)
    messages: list[str] = []
    half: Any = Half(tries)
    target: Any = SimpleNamespace(address=None)
    with pytest.raises(CouldNotRun, match="sysbench prepare: the table is full"):
        runner.prepare(half, target, say=messages.append)
    assert half.dropped == dropped
    assert any("could not be removed" in text and "still" in text for text in messages) != dropped
