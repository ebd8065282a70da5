"""Where the files of a server are, and what is known of it between two commands.

    DATA/servers/NAME/        root alone: record, error log, passwords, keys
    /run/headrace/mysql/LAB/NAME/
        my.cnf                for the server to read
        data/  log/           where its volumes are mounted
        sock/                 socket and pid file, the server's own

DATA, the lab's data directory, may be read by its owner alone, and a server runs as another user:
so what a server reads is in /run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from headrace.base.files import write_whole
from headrace.base.processes import Process
from headrace.errors import CouldNotRun, InputError
from headrace.lab import Lab, LabRefused

GUIDE = "docs/guide/mysql-on-the-lab.md"
# systemd and Debian empty /run at every boot, as the mounts in it are gone then.
RUN = Path("/run/headrace/mysql")
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)


@dataclass(frozen=True)
class ServerPaths:
    """The files of one server: in `state` those of Headrace, in `run` those the server reads."""

    state: Path
    record: Path
    log: Path
    client: Path
    tls: Path
    lock: Path
    run: Path
    config: Path
    keys: Path
    data_mount: Path
    log_mount: Path
    socket: Path


def checked_name(name: str) -> str:
    """A server's name. Raises InputError."""
    if not NAME.fullmatch(name):
        rule = "a server's name has 1 to 32 of a-z, 0-9, - and _, and does not begin with - or _"
        raise InputError(name[:60] or "''", rule, GUIDE, "For example db.")
    return name


def data_dir_of(lab: Lab) -> Path:
    """The lab's data directory. A lab that is named by its socket alone is asked for it."""
    return lab.place.data_dir or Path(lab.status()["data_dir"])


def servers_of(data_dir: Path) -> Path:
    """The folder with a folder for each server."""
    return data_dir / "servers"


def server_paths(data_dir: Path, name: str) -> ServerPaths:
    """Where a server's files are. Raises InputError for a name that cannot be one."""
    # Short: the path of a socket has at most 107 bytes.
    lab = hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]
    state, run = servers_of(data_dir) / checked_name(name), RUN / lab / name
    return ServerPaths(
        state=state,
        record=state / "server.json",
        log=state / "error.log",
        client=state / "client.cnf",
        tls=state / "tls",
        lock=state.with_name(f".{name}.lock"),
        run=run,
        config=run / "my.cnf",
        keys=run / "tls",
        data_mount=run / "data",
        log_mount=run / "log",
        socket=run / "sock" / "mysql.sock",
    )


# --- the record -----------------------------------------------------------------------------------

FORMAT = "headrace-server/1"
MAX_BYTES = 1 << 20  # a record takes some kilobytes


@dataclass(frozen=True)
class Record:
    """What is known of a server.

    `made`: it got ready once. `wanted`: it should run. `clean`: it was shut down at its last end.
    `unpaced`: its volumes have no limits. `encrypted`: its volumes are. `options`: of its [mysqld],
    without those that Headrace sets. `settings`: those that were asked for one by one. `log_begun`:
    where in its error log, in bytes, its present run begins. `host`: where it listens, if it has a
    port; other than 127.0.0.1 it is in a network namespace of its own (topology/network/links).
    """

    name: str
    flavor: str
    version_text: str
    engine: str
    storage: str
    log_storage: str | None
    server_path: str | None
    config: str
    memory_gib: float | None
    port: int | None
    options: dict[str, str | None] = field(default_factory=dict)
    settings: dict[str, str | None] = field(default_factory=dict)
    unpaced: bool = False
    encrypted: bool = False
    data_volume: str | None = None
    log_volume: str | None = None
    made: bool = False
    wanted: bool = False
    clean: bool = False
    process: Process | None = None
    log_begun: int = 0
    host: str = "127.0.0.1"
    notes: list[str] = field(default_factory=list)

    def with_(self, **changes) -> Record:
        """The record with other values."""
        return replace(self, **changes)

    def settings_with(self, changed: Mapping[str, str | None]) -> dict[str, str | None]:
        """Its settings with others. A name has one value: `loose-` before it says only that a
        server without it may go on, and the last of an option file would win."""
        names = {_plain(name) for name in changed}
        return {name: value for name, value in self.settings.items() if _plain(name) not in names} | dict(changed)

    @property
    def volumes(self) -> tuple[str, ...]:
        """Ids of its volumes, data first."""
        return tuple(volume for volume in (self.data_volume, self.log_volume) if volume)


def _plain(name: str) -> str:
    return name.replace("_", "-").removeprefix("loose-")


def save(where: ServerPaths, record: Record) -> None:
    """Writes it, whole or not at all. Raises CouldNotRun."""
    write_whole(where.record, (json.dumps({"format": FORMAT} | asdict(record), indent=2) + "\n").encode())


def load(where: ServerPaths) -> Record | None:
    """The record of a server, None where there is none."""
    try:
        with open(where.record, "rb") as file:
            raw = file.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CouldNotRun(
            str(where.record), f"cannot be read: {error.strerror}", "", "Servers belong to root: run it with sudo."
        ) from None
    try:
        found = json.loads(raw)
        if found.pop("format") != FORMAT:
            raise ValueError
        process = found.pop("process")
        known = {one.name for one in fields(Record)}
        return Record(
            **{key: value for key, value in found.items() if key in known},
            process=None if process is None else Process(**process),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        hint = f"Bring it back, or remove the server's volumes (headrace volume list) and its folder {where.state}."
        raise CouldNotRun(str(where.record), f"is not a record of a server ({FORMAT})", GUIDE, hint) from None


def names(data_dir: Path) -> list[str]:
    """Names of the servers of this lab. Raises CouldNotRun where this user may not read them."""
    try:
        return sorted(
            entry.name
            for entry in os.scandir(servers_of(data_dir))
            if entry.is_dir() and not entry.name.startswith(".")
        )
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CouldNotRun(
            str(servers_of(data_dir)),
            f"cannot be read: {error.strerror}",
            "",
            "Servers belong to root: run it with sudo.",
        ) from None


def hosts(data_dir: Path) -> list[str]:
    """Where the servers of this lab listen."""
    known = [load(server_paths(data_dir, name)) for name in names(data_dir)]
    return [one.host for one in known if one is not None]


def required(where: ServerPaths) -> Record:
    """The record. Raises InputError when there is no such server."""
    found = load(where)
    if found is None:
        there = ", ".join(names(where.state.parent.parent)) or "none"
        raise InputError(
            where.state.name, "is not a server of this lab", GUIDE, f"There are: {there}. headrace mysql up makes one."
        )
    return found


@contextmanager
def locked(where: ServerPaths) -> Iterator[None]:
    """Holds the lock of a server. Raises LabRefused (busy) while another command changes it."""
    try:
        where.lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(where.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CouldNotRun(
            str(where.lock), f"cannot be written: {error.strerror}", "", "Is the lab's directory yours to write?"
        ) from None
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
