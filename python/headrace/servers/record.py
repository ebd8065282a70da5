"""The paths of a server's files, and its record, which lasts from one command to the next.

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
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace.base.files import explain_unwritable, write_whole
from headrace.base.processes import Process
from headrace.errors import CouldNotRun, Refusals
from headrace.lab import Lab, LabRefused

refuse = Refusals("docs/guide/mysql-on-the-lab.md")
# systemd and Debian empty /run at every boot, as the mounts in it are gone then.
RUN = Path("/run/headrace/mysql")
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)


@dataclass(frozen=True)
class ServerPaths:
    """The files of a server: in `state` those of Headrace, in `run` those the server reads."""

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

    @property
    def datadir(self) -> Path:
        """The server's data directory, on its data volume."""
        return self.data_mount / "data"


def check_name(name: str) -> str:
    """Returns the name of a server if it is valid. Raises InputError."""
    if not NAME.fullmatch(name):
        rule = "a server's name has 1 to 32 of a-z, 0-9, - and _, and does not begin with - or _"
        raise refuse.input(name[:60] or "''", rule, "For example db.")
    return name


def find_data_dir(lab: Lab) -> Path:
    """Returns the lab's data directory; asks the lab for it if only its socket is given."""
    return lab.place.data_dir or Path(lab.status()["data_dir"])


def get_servers_folder(data_dir: Path) -> Path:
    """Returns the folder that has a folder for each server."""
    return data_dir / "servers"


def make_server_paths(data_dir: Path, name: str) -> ServerPaths:
    """Returns the paths of a server's files. Raises InputError for a name that is not valid."""
    # Short: the path of a socket has at most 107 bytes.
    lab = hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]
    state, run = get_servers_folder(data_dir) / check_name(name), RUN / lab / name
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
class ServerVolumes:
    """Volumes of a server, by id: `data` is None before it is created; `log` is None where the log
    lies with the data. `unpaced`: they have no limits. `encrypted`: they are encrypted."""

    data: str | None = None
    log: str | None = None
    unpaced: bool = False
    encrypted: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the volumes, data first."""
        return tuple(volume for volume in (self.data, self.log) if volume)


class Record(
    msgspec.Struct, frozen=True, tag_field="format", tag=FORMAT, rename={"created": "made", "should_run": "wanted"}
):
    """The lasting record of a server. `created`: it was ready once. `should_run`: it was started
    and not stopped. `clean`: its last end was a shutdown. `options`: its [mysqld], without those
    that Headrace sets. `settings`: options that were requested one by one. `log_begun`: byte of its
    error log at which its present run begins. `host`: the address it listens at, if it has a port;
    other than 127.0.0.1 it is in a network namespace of its own (topology/links)."""

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
    options: dict[str, str | None] = {}
    settings: dict[str, str | None] = {}
    volumes: ServerVolumes = ServerVolumes()
    created: bool = False
    should_run: bool = False
    clean: bool = False
    process: Process | None = None
    log_begun: int = 0
    host: str = "127.0.0.1"
    notes: list[str] = []

    def with_(self, **changes: object) -> Record:
        """Returns a copy of the record with other values."""
        return msgspec.structs.replace(self, **changes)

    def find_setting(self, name: str) -> str | None:
        """Returns the value of an option (`name`: with dashes) that the server is started with;
        None if it is not given. The last line of an option file wins."""
        given = self.options | self.settings
        return next((given[each] for each in reversed(given) if _normalise_name(each) == name), None)

    def merge_settings(self, changed: Mapping[str, str | None]) -> dict[str, str | None]:
        """Returns the settings with those of `changed` in place of its own, which may differ in a
        prefix `loose-`, with which a server without the option starts; the record stays."""
        names = {_normalise_name(name) for name in changed}
        own = {name: value for name, value in self.settings.items() if _normalise_name(name) not in names}
        return own | dict(changed)


def _normalise_name(name: str) -> str:
    """Returns the name of an option with dashes, without the prefix `loose-`."""
    return name.replace("_", "-").removeprefix("loose-")


def save(where: ServerPaths, record: Record) -> None:
    """Writes the record, whole or not at all. Raises CouldNotRun."""
    write_whole(where.record, msgspec.json.format(msgspec.json.encode(record)) + b"\n")


def load(where: ServerPaths) -> Record | None:
    """Reads the record of a server; None if it has none. Raises CouldNotRun."""
    try:
        with open(where.record, "rb") as file:
            raw = file.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        rule = f"cannot be read: {error.strerror}"
        raise CouldNotRun(str(where.record), rule, "", "Servers belong to root: run it with sudo.") from None
    try:
        return msgspec.json.decode(raw, type=Record)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        hint = f"Bring it back, or remove the server's volumes (headrace volume list) and its folder {where.state}."
        raise refuse.run(str(where.record), f"is not a record of a server ({FORMAT})", hint) from None


def list_names(data_dir: Path) -> list[str]:
    """Lists the names of the lab's servers. Raises CouldNotRun if this user may not read them."""
    folder = get_servers_folder(data_dir)
    try:
        folders = [entry.name for entry in os.scandir(folder) if entry.is_dir()]
        return sorted(name for name in folders if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        rule = f"cannot be read: {error.strerror}"
        raise CouldNotRun(str(folder), rule, "", "Servers belong to root: run it with sudo.") from None


def list_hosts(data_dir: Path) -> list[str]:
    """Lists the addresses at which the servers of this lab listen."""
    records = [load(make_server_paths(data_dir, name)) for name in list_names(data_dir)]
    return [record.host for record in records if record is not None]


def require_record(where: ServerPaths) -> Record:
    """Reads the record of a server. Raises InputError if there is no such server."""
    record = load(where)
    if record is None:
        names = ", ".join(list_names(where.state.parent.parent)) or "none"
        hint = f"There are: {names}. headrace mysql up makes one."
        raise refuse.input(where.state.name, "is not a server of this lab", hint)
    return record


@contextmanager
def lock_server(where: ServerPaths) -> Iterator[None]:
    """Holds the lock of a server during the block. Raises LabRefused (busy) at once."""
    with explain_unwritable(where.lock, "Is the lab's directory yours to write?"):
        where.lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(where.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            rule = "another headrace is at work on this server"
            raise LabRefused("busy", where.state.name, rule, "", "Wait until it has ended.") from None
        yield
    finally:
        os.close(handle)
