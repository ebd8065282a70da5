"""What is known of a server between two commands: one JSON file, and the lock of those who change it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from headrace.base.files import write_whole
from headrace.errors import CouldNotRun, InputError
from headrace.lab import LabRefused
from headrace.servers.places import Places, servers_of
from headrace.servers.process import Process

FORMAT = "headrace-server/1"
MAX_BYTES = 1 << 20
GUIDE = "docs/guide/mysql-on-the-lab.md"


@dataclass(frozen=True)
class Record:
    """`made` False: it never got ready. `wanted`: should run. `clean`: its last end was an orderly one. `unpaced`: its volumes
    are without their limits. `options`: of its [mysqld], what Headrace
    places left out; `settings`: those that were asked for one by one. `log_begun`: where in
    its error log its present life begins."""

    name: str
    flavor: str
    version_text: str
    engine: str
    storage: str
    log_storage: str | None
    server_path: str | None
    config: str
    options: dict[str, str | None]
    settings: dict[str, str | None]
    memory_gib: float | None
    port: int | None
    unpaced: bool = False
    data_volume: str | None = None
    log_volume: str | None = None
    made: bool = False
    wanted: bool = False
    clean: bool = False
    process: Process | None = None
    log_begun: int = 0
    notes: list[str] = field(default_factory=list)

    def with_(self, **changes) -> Record:
        """A changed one."""
        return replace(self, **changes)

    @property
    def volumes(self) -> tuple[str, ...]:
        """Ids of those it has, data first."""
        return tuple(volume for volume in (self.data_volume, self.log_volume) if volume)


def save(where: Places, record: Record) -> None:
    """Writes it, whole or not at all. Raises CouldNotRun."""
    write_whole(where.record, (json.dumps({"format": FORMAT} | asdict(record), indent=2) + "\n").encode())


def load(where: Places) -> Record | None:
    """The record of a server, None where there is none. Raises CouldNotRun for one that cannot be read."""
    try:
        with open(where.record, "rb") as file:
            raw = file.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CouldNotRun(str(where.record), f"cannot be read: {error.strerror}", "", "Servers belong to root: run it with sudo.") from None
    try:
        found = json.loads(raw)
        if found.pop("format") != FORMAT:
            raise ValueError
        process = found.pop("process")
        known = {one.name for one in fields(Record)}
        return Record(
            **{key: value for key, value in found.items() if key in known}, process=None if process is None else Process(**process)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        hint = f"Bring it back, or take the server's volumes away (headrace volume list) and its folder {where.state}."
        raise CouldNotRun(str(where.record), f"is no record of a server ({FORMAT})", GUIDE, hint) from None


def names(data_dir: Path) -> list[str]:
    """Servers that have a folder in this lab. Raises CouldNotRun where this user may not look."""
    try:
        return sorted(entry.name for entry in os.scandir(servers_of(data_dir)) if entry.is_dir() and not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CouldNotRun(
            str(servers_of(data_dir)), f"cannot be read: {error.strerror}", "", "Servers belong to root: run it with sudo."
        ) from None


def required(where: Places) -> Record:
    """The record. Raises InputError when there is no such server."""
    found = load(where)
    if found is None:
        there = ", ".join(names(where.state.parent.parent)) or "none"
        raise InputError(where.state.name, "is no server of this lab", GUIDE, f"There are: {there}. headrace mysql up makes one.")
    return found


@contextmanager
def locked(where: Places) -> Iterator[None]:
    """While a server is changed. Raises LabRefused (busy) while somebody else does."""
    try:
        where.lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(where.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CouldNotRun(str(where.lock), f"cannot be written: {error.strerror}", "", "Is the lab's directory yours to write?") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabRefused(
                "busy", where.state.name, "another headrace is at work on this server", "", "Wait until it has ended."
            ) from None
        yield
    finally:
        os.close(handle)
