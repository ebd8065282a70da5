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
    """Paces a copy: this one not at all. `gentle`: the load has priority over the copy."""

    gentle = False

    def keep_pace(self, count: int) -> None:
        """Waits as long as the pace demands, after `count` bytes were read."""

    def free(self) -> None:
        """Ends the waiting, because the server's commits are blocked meanwhile."""


class CopyStream(Protocol):
    """Takes the bytes of a copy."""

    def write(self, copy: Flow, expected_bytes: int, look: Callable[[bytes], None] = lambda piece: None) -> int:
        """Runs the programs of a copy, takes their output, and returns its bytes. `look`: called
        with each piece. Raises CouldNotRun."""
        ...


@dataclass(frozen=True)
class Destination:
    """Place that a copy goes to. `folder`: the folder that is filled, or, where a `stream` takes
    the copy, one that does not exist yet and that tools may use meanwhile. `log`: the folder for
    redo and binary logs. `only`: databases, where a part is wanted. `label`, `tags`: of
    snapshots."""

    folder: Path = Path()
    log: Path = Path()
    stream: CopyStream | None = None
    pace: Pace = field(default_factory=Pace)
    only: tuple[str, ...] = ()
    label: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CopyResult:
    """A copy that was taken. `data_bytes`: its size at the source. `snapshots`: ids by volume.
    `facts`: what else a restore should know."""

    position: BinlogPosition
    data_bytes: int = 0
    snapshots: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)


class CopyMethod(ABC):
    """A way to copy a running server. `form` of its bytes: sql, mbstream, tar, snapshot, files."""

    form: str

    @abstractmethod
    def take(self, source: CopySource, into: Destination) -> CopyResult:
        """Copies the server, which goes on. Raises InputError, CouldNotRun; then nothing of it is
        locked."""


class PhysicalCopy(CopyMethod):
    """A way to copy the files of a server as a stream, of which a server's files are made again."""

    @abstractmethod
    def unpack(self, folder: Path) -> Stage:
        """Returns the program that makes files below `folder` of the bytes of a stream."""

    @abstractmethod
    def prepare(self, data: Path, log: Path, program: ServerProgram) -> None:
        """Turns the files of a copy into those of a server that was shut down. `log`: the folder
        for its redo log. Raises CouldNotRun."""


def get_server(source: CopySource) -> Server:
    """Returns the lab's server whose files are copied. Raises InputError for another server."""
    if source.server is None:
        raise refuse.input(source.address.label, "is not a server of the lab, whose files can be copied")
    return source.server
