"""A server with a base backup in the middle of a load and its binary log streamed, as tests of
restores need it; the acknowledgements are kept outside, by this process."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace import servers
from headrace.lab import Lab
from headrace.mysql import connect
from headrace.servers.backup import copying
from headrace.servers.backup.history import stream
from headrace.servers.backup.manifest import Manifest
from headrace.servers.backup.targets import open_target
from headrace.servers.backup.targets.target import BackupTarget
from headrace.servers.copies.source import CopySource, read_source
from headrace.servers.server import Server

SETTINGS = {
    "mariadb": {"log_bin": "ON", "gtid_strict_mode": "ON", "innodb_buffer_pool_size": "64M"},
    "mysql": {"gtid_mode": "ON", "enforce_gtid_consistency": "ON", "innodb_buffer_pool_size": "64M"},
}


@dataclass
class Commit:
    """An acknowledged commit: its row, its GTID, and the times around it, s."""

    row: int
    gtid: str
    before: float
    after: float


@dataclass
class Load:
    """One client that inserts rows 0, 1, 2, ... and keeps what was acknowledged."""

    server: Server
    commits: list[Commit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        with connect(self.server.make_address()) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS kept")
            cursor.execute("CREATE TABLE IF NOT EXISTS kept.row_of (n INT PRIMARY KEY, v VARCHAR(200))")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        mariadb = self.server.flavor == "mariadb"
        with connect(self.server.make_address()) as connection, connection.cursor() as cursor:
            row = 0
            while not self._stop.is_set():
                before = time.time()
                cursor.execute("INSERT INTO kept.row_of VALUES (%s, REPEAT('x', 150))", (row,))
                after = time.time()
                gtid = ""
                if mariadb:
                    cursor.execute("SELECT @@last_gtid")
                    gtid = str((cursor.fetchone() or ("",))[0])
                self.commits.append(Commit(row, gtid, before, after))
                row += 1


@dataclass
class Chain:
    """`commits`: by one client, so in the order of the binary log."""

    server: Server
    source: CopySource
    target: BackupTarget
    base: Manifest
    commits: list[Commit]
    state: stream.StreamState
    arrived: list[tuple[float, str]]
    key: bytes | None

    def gtid_of(self, commit: Commit) -> str:
        """MySQL's: numbers follow each other, and the last one is that of the last commit."""
        if commit.gtid:
            return commit.gtid
        last = self.commits[-1].row
        return f"{self.source.id}:{self.state_last - (last - commit.row)}"

    @property
    def state_last(self) -> int:
        return int(self.state.last_gtid.rpartition(":")[2])

    def behind_base(self) -> list[Commit]:
        """Commits that are surely not in the base."""
        return [commit for commit in self.commits if commit.before > self.base.ended_unix]


def build(lab: Lab, flavor: str, folder: Path, key: bytes | None = None, seconds: float = 1.5) -> Chain:
    """Load, stream, base, two files of binary log."""
    settings = SETTINGS[flavor]
    server = servers.bring_up(lab, name=f"src-{flavor}", flavor=flavor, storage="gp3:4", settings=settings)
    source, target = read_source(server.make_address(), server.name, server), open_target(folder)
    arrived: list[tuple[float, str]] = []
    streaming = stream.Stream(source, target, key, tell=lambda state: arrived.append((time.time(), state.last_gtid)))
    running = threading.Thread(target=streaming.run)
    running.start()
    try:
        with Load(server) as load:
            time.sleep(seconds)
            base = copying.run(source, target, copying.BackupRequest(key=key))
            time.sleep(seconds)
            with connect(server.make_address()) as connection, connection.cursor() as cursor:
                cursor.execute("FLUSH BINARY LOGS")
            time.sleep(seconds)
    finally:
        time.sleep(0.6)
        streaming.stop.set()
        running.join()
    return Chain(server, source, target, base, load.commits, streaming.state, arrived, key)


def rows_of(server: Server) -> list[int]:
    """Rows that are there."""
    with connect(server.make_address()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT n FROM kept.row_of ORDER BY n")
        return [int(row[0]) for row in cursor.fetchall()]


@contextlib.contextmanager
def gone_after(server: Server):
    """Destroys a server at the end."""
    try:
        yield server
    finally:
        servers.destroy(server)
