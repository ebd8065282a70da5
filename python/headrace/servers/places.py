"""Where the files of a server are.

    DATA/servers/NAME/        root alone: record, error log, passwords, keys (DATA: the lab's data directory)
    /run/headrace/mysql/LAB/NAME/
        my.cnf                for the server to read
        data/  log/           where its volumes are mounted
        sock/                 socket and pid file, the server's own

The lab's data directory may be looked into by its owner alone, and a server is not its owner: so what a server reads is in /run.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import InputError
from headrace.lab import Lab

RUN = Path("/run/headrace/mysql")
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)


@dataclass(frozen=True)
class Places:
    """The folders of one server: `state` for its keeper, `run` for itself."""

    state: Path
    run: Path

    @property
    def record(self) -> Path:
        return self.state / "server.json"

    @property
    def log(self) -> Path:
        return self.state / "error.log"

    @property
    def client(self) -> Path:
        return self.state / "client.cnf"

    @property
    def tls(self) -> Path:
        return self.state / "tls"

    @property
    def lock(self) -> Path:
        return self.state.with_name(f".{self.state.name}.lock")

    @property
    def config(self) -> Path:
        return self.run / "my.cnf"

    @property
    def keys(self) -> Path:
        return self.run / "tls"

    @property
    def data_mount(self) -> Path:
        return self.run / "data"

    @property
    def log_mount(self) -> Path:
        return self.run / "log"

    @property
    def socket(self) -> Path:
        return self.run / "sock" / "mysql.sock"


def checked_name(name: str) -> str:
    """A server's name. Raises InputError."""
    if not NAME.fullmatch(name):
        rule = "a server's name has 1 to 32 of a-z, 0-9, - and _, and does not begin with - or _"
        raise InputError(name[:60] or "''", rule, "docs/guide/mysql-on-the-lab.md", "For example db.")
    return name


def data_dir_of(lab: Lab) -> Path:
    """The lab's data directory; one that is named by its socket alone is asked. Raises as Lab."""
    return lab.place.data_dir or Path(lab.status()["data_dir"])


def servers_of(data_dir: Path) -> Path:
    """The folder with a folder for each server."""
    return data_dir / "servers"


def places(data_dir: Path, name: str) -> Places:
    """Where a server's files are. Raises InputError for a name that is none."""
    # Short: the path of a socket has at most 107 bytes.
    lab = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    return Places(servers_of(data_dir) / checked_name(name), RUN / lab / name)
