"""A copy of a running server, for any purpose: methods, destinations, results.

A backup, a new replica and a set of snapshots bring a destination, and a method takes the copy into
it. None of the methods knows what its copy is for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headrace.servers.copies.pipeline import Flow, Stage
from headrace.servers.copies.position import BinlogPosition
from headrace.servers.copies.source import CopySource, refuse
from headrace.servers.flavors import ServerProgram
from headrace.servers.server import Server

# A copy of a large server at a small volume's speed, and work on its files afterwards, s: a guess.
COPY_S = 24 * 3600.0


class Pace:
    """The pace of a copy; this one never delays it. `gentle`: the load has priority."""

    gentle = False

    def keep_pace(self, count: int) -> None:
        """Waits as long as the pace demands, after `count` bytes were read."""

    def free(self) -> None:
        """Ends the pace for good, because the copy blocks the server's commits."""


class CopyStream(Protocol):
    """The place to which the bytes of a copy are written."""

    def write(self, copy: Flow, expected_bytes: int, look: Callable[[bytes], None] = lambda piece: None) -> int:
        """Runs the programs of a copy, writes their output, and returns its number of bytes.
        `look`: called with each piece. Raises CouldNotRun."""
        ...


@dataclass(frozen=True)
class Destination:
    """The place to which a copy is written: the `stream`, or without one the folders `folder` and
    `log` (redo and binary logs). With a stream, `folder` does not exist yet and is for tools.
    `only`: the databases of a copy of a part, empty for all. `label`, `tags`: of snapshots."""

    folder: Path = Path()
    log: Path = Path()
    stream: CopyStream | None = None
    pace: Pace = field(default_factory=Pace)
    only: tuple[str, ...] = ()
    label: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CopyResult:
    """The result of a copy. `position`: in the source's history. `data_bytes`: size of the data at
    the source. `snapshots`: ids by volume. `facts`: of the method, for a restore."""

    position: BinlogPosition
    data_bytes: int = 0
    snapshots: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)


class CopyMethod(ABC):
    """A way to copy a running server. `form` of its bytes: sql, mbstream, tar, snapshot, files."""

    form: str

    @abstractmethod
    def take(self, source: CopySource, into: Destination) -> CopyResult:
        """Copies the running server into a destination. Raises InputError, CouldNotRun."""


class PhysicalCopy(CopyMethod):
    """A way to copy the files of a server as a stream, from which a server's files are restored."""

    @abstractmethod
    def unpack(self, folder: Path) -> Stage:
        """Returns the program that turns the bytes of a stream into files below `folder`."""

    @abstractmethod
    def prepare(self, data: Path, log: Path, program: ServerProgram) -> None:
        """Turns the files of a copy into those of a server that was shut down. `log`: the folder
        for its redo log. Raises CouldNotRun."""


def get_server(source: CopySource) -> Server:
    """Returns the lab's server whose files are copied. Raises InputError for another server."""
    if source.server is None:
        raise refuse.input(source.address.label, "is not a server of the lab, whose files can be copied")
    return source.server
