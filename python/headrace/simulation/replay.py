"""Replays the record of a real device on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.encoding import Document


@dataclass(frozen=True)
class Replay(Document, schema="headrace-replay/1"):
    """The result of `replay`.

    `equal`: requests whose decision equals the recorded one to the nanosecond. `first_difference`:
    None, or `request`, `arrival`, `recorded`, `replayed`. `lateness` of the device's answers:
    `answers`, `p50_ns`, `p90_ns`, `p99_ns`, `p99_9_ns`, `max_ns`. `span`: ns. `cut_tail`: the
    record ends inside a frame.
    """

    requests: int
    changes: int
    equal: int
    first_difference: core.Difference | None
    lateness: core.Lateness
    span: int
    cut_tail: bool

    @property
    def agrees(self) -> bool:
        """Returns whether every decision equals the recorded one."""
        return self.equal == self.requests


def replay(path: str | Path, *, progress: Callable[[float], None] | None = None) -> Replay:
    """Repeats a record of a real device (`headrace volume record`) on the virtual clock. Raises
    InputError for a file that is not a record."""
    with translate_core_errors():
        return Replay(**core.replay_record(str(path), progress))
