"""Seeds a new replica with its source's data.

    binlog        from the source's first binary log on: nothing is copied
    copy          the source is shut down, its files are copied, and it is started again
    snapshot      one snapshot call for all its volumes, under a lock that is held for moments
    clone         MySQL's own: the replica fetches the data from the running source
    mariabackup   MariaDB's own: files and redo log are copied while it is written to

Each ends with the replica following the source from the exact transaction that its data end with.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.base import processes
from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab import Lab
from headrace.lab.waiting import wait_stored
from headrace.mysql import connect
from headrace.mysql.dialect import Dialect, refuse
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import ServerState, observe, read_dialect, read_gtid_purged
from headrace.mysql.statements import SqlConnection, ask_row, load_plugin, run
from headrace.servers import access, datadir, running, volumes
from headrace.servers.access import find_service_user
from headrace.servers.copies.clone import fetch, read_fetched_position
from headrace.servers.copies.copy import COPY_S, Destination
from headrace.servers.copies.files import get_log_folder
from headrace.servers.copies.methods import BY_FORM, METHODS
from headrace.servers.copies.position import BinlogPosition
from headrace.servers.copies.snapshot import list_volumes
from headrace.servers.copies.source import CopySource, read_source
from headrace.servers.flavors import ServerProgram
from headrace.servers.record import Record, ServerPaths
from headrace.servers.topology import accounts
from headrace.servers.topology.checks import check_pair, check_reachable

if TYPE_CHECKING:
    from headrace.servers.server import Server

SEEDS = ("binlog", "copy", "snapshot", "clone", "mariabackup")
DEFAULT_SEED = {"mariadb": "mariabackup", "mysql": "clone"}
# s. Until the receive thread is connected; a wrong password or certificate shows at once.
CONNECT_S = 30.0
LOOK_EVERY_S = 0.1


@dataclass
class Follower:
    """A way to seed a new replica that copies nothing, and the base of those that copy. `name`: of
    the replica; `position`, `channel`, `delay_s`: as in `Following`. `begins`: the position of the
    copied data, None without a copy."""

    source: Server
    name: str
    position: str | tuple[str, int] = "gtid"
    channel: str = ""
    delay_s: int = 0
    read_only: bool = True
    begins: BinlogPosition | None = field(default=None, init=False)

    def prepare_snapshots(self, lab: Lab) -> Mapping[str, str]:
        """Returns no snapshots: the volumes are empty."""
        return {}

    def fill(self, where: ServerPaths, record: Record, program: ServerProgram) -> None:
        """Creates folders and an empty data directory on the mounted volumes."""
        datadir.make_folders(where, find_service_user(), record.log_storage is not None)
        datadir.make(program, where.config, find_service_user())

    def finish(self, lab: Lab, where: ServerPaths, record: Record) -> Record:
        """Lets the new replica follow its source, and returns its record."""
        with _connect_socket(where) as connection:
            self.follow(where, record, connection)
        return self.make_read_only(where, record)

    def follow(self, where: ServerPaths, record: Record, connection: SqlConnection) -> None:
        """Removes the channels that were copied with the source's data, sets the GTID position,
        creates the replica's account for replicas, and lets it follow the source."""
        state = observe(connection, self.name)
        dialect = state.dialect
        for channel in state.channels:
            run(connection, (*dialect.stop(channel.name), *dialect.forget(channel.name)))
        self._check(state)
        if self.begins is not None:
            run(connection, dialect.begin_at(self.begins.parse_gtids(state.flavor)))
        accounts.create_account(where, connection, dialect, record.host)
        if any(SEMI_SYNC.search(name) for name in record.settings):
            # MySQL's plugin is loaded permanently: a clone has replaced the table of plugins.
            load_semi_sync(connection, dialect, self.name)
            run(connection, dialect.switch_semi_sync("replica", True))
        self._point(where, connection, dialect)

    def add_source(self, where: ServerPaths, record: Record, connection: SqlConnection) -> None:
        """Lets a server with data follow the source by a further channel, from the source's first
        binary log or a position in files on."""
        state = observe(connection, self.name)
        self._check(state)
        self._point(where, connection, state.dialect)

    def _check(self, state: ServerState) -> None:
        """Raises InputError for a server that cannot follow this source from where its data end."""
        gtid = self.position == "gtid"
        with accounts.open_connection(self.source) as source:
            source_state, purged = observe(source, self.source.name), read_purged(source)
        check_pair(source_state, state, gtid)
        if gtid and self.begins is None:
            check_reachable(self.name, purged, state.executed, self.source.name)

    def _point(self, where: ServerPaths, connection: SqlConnection, dialect: Dialect) -> None:
        """Lets the server follow its source, and waits until it receives. Raises InputError without
        a position in files where one is asked for, CouldNotRun."""
        position = self.position
        if position == "file":
            if self.begins is None or not self.begins.file:
                raise refuse.input(self.name, "has no file position to begin at", "--position FILE:OFFSET")
            position = (self.begins.file, self.begins.offset)
        source_options = accounts.make_source_options(where, self.source, position, self.channel, self.delay_s)
        run(connection, (*dialect.point_at(source_options), *dialect.start(self.channel)))
        wait_connected(connection, self.name, self.channel)

    def make_read_only(self, where: ServerPaths, record: Record) -> Record:
        """Makes a server read-only, now and after later starts."""
        if not self.read_only:
            return record
        with _connect_socket(where) as connection:
            run(connection, read_dialect(connection).switch_read_only(True))
        on = {"read-only": "ON"} | ({"super-read-only": "ON"} if record.flavor == "mysql" else {})
        record = record.with_(settings=record.merge_settings(on))
        running.write_config(where, record, running.find_record_program(record), find_service_user())
        return record


def wait_connected(connection: SqlConnection, name: str, channel: str) -> ServerState:
    """Waits until a channel receives, and returns the server's state. Raises CouldNotRun with the
    receive thread's error, at the latest after CONNECT_S seconds."""
    deadline = time.monotonic() + CONNECT_S
    while True:
        state = observe(connection, name)
        observed = state.find_channel(channel)
        if observed is not None and observed.receive == "on" and not observed.receive_error:
            return state
        receive_error = "there is no such channel" if observed is None else observed.receive_error
        # A source that is just starting refuses the first try.
        if time.monotonic() > deadline or (observed is not None and observed.receive == "off" and receive_error):
            rule = f"does not receive from its source: {receive_error or 'it is still connecting'}"
            raise refuse.run(name, rule, "See headrace mysql log, and the source's.")
        time.sleep(LOOK_EVERY_S)


def read_purged(source: SqlConnection) -> GtidSet:
    """Returns the transactions that a source has purged from its binary logs."""
    if not read_dialect(source).is_mariadb:
        return read_gtid_purged(source)
    first = ask_row(source, "SHOW BINARY LOGS")
    if not first:
        return GtidSet("mariadb")
    # MariaDB: the position at the beginning of the first file, before its first transaction.
    row = ask_row(source, f"SELECT BINLOG_GTID_POS('{first[0]}', 4)")
    return GtidSet.parse(str(row[0] or ""), "mariadb")


def _connect_socket(where: ServerPaths, timeout_s: float = accounts.ASK_S) -> SqlConnection:
    """Returns a new connection by a server's socket."""
    return connect(access.make_address(where, None), timeout_s)


# --- by a copy ------------------------------------------------------------------------------------

# Identity, persisted settings and channels of the server the files are of: MySQL's auto.cnf and
# mysqld-auto.cnf, MariaDB's master.info and relay-log.info.
IDENTITY_FILES = ("auto.cnf", "mysqld-auto.cnf", "*master*.info", "*relay*.info")


def _delete_matching(folder: Path, *patterns: str) -> None:
    """Deletes the files of a folder that match a pattern."""
    for path in [path for pattern in patterns for path in folder.glob(pattern)]:
        path.unlink()


@dataclass
class CopiedFollower(Follower):
    """The base of the ways to seed a new replica by a copy: it follows from where that ends."""

    def make_copy_source(self) -> CopySource:
        """Returns the source for a copy. Raises InputError for one without a binary log."""
        source = read_source(self.source.make_address(), self.source.name, self.source)
        if not source.log_bin:
            raise refuse.input(self.source.name, "writes no binary log", "--prepare-source")
        return source

    def take(self, method: str, where: ServerPaths, record: Record) -> Destination:
        """Copies the source's files to the mounted volumes by a method of METHODS, sets `begins`,
        and returns the folders of the copy."""
        datadir.make_folders(where, find_service_user(), record.log_storage is not None)
        into = Destination(where.datadir, get_log_folder(where, record))
        self.begins = METHODS[method].take(self.make_copy_source(), into).position
        return into

    def adopt_files(self, into: Destination) -> None:
        """Deletes the identity of the source from copied files, and makes mysql their owner."""
        _delete_matching(into.folder, *IDENTITY_FILES)
        for folder in (into.folder, into.log):
            datadir.give(folder, find_service_user())


@dataclass
class CopySeed(CopiedFollower):
    """Copies the files of the source while it is down."""

    def fill(self, where: ServerPaths, record: Record, program: ServerProgram) -> None:
        """Copies the source's files without relay logs, and corrects the index of binary logs."""
        into = self.take("files", where, record)
        _delete_matching(into.log, "relay*")
        # The index names the files by the path they had.
        logs = sorted(into.log.glob("binlog.[0-9]*"))
        (into.log / "binlog.index").write_text("".join(f"{path}\n" for path in logs))
        self.adopt_files(into)

    def finish(self, lab: Lab, where: ServerPaths, record: Record) -> Record:
        """Lets the server follow from the GTIDs that it has executed, and returns its record."""
        with _connect_socket(where) as connection:
            executed = observe(connection, self.name).executed
        assert self.begins is not None
        self.begins = replace(self.begins, gtid=str(executed))
        return super().finish(lab, where, record)


@dataclass
class SnapshotSeed(CopiedFollower):
    """Takes snapshots of all volumes of the source at one instant."""

    taken: dict[str, str] = field(default_factory=dict, init=False)

    def prepare_snapshots(self, lab: Lab) -> Mapping[str, str]:
        """Takes snapshots of the source's volumes, waits until they are stored, and returns their
        ids by role (data, log)."""
        into = Destination(label=f"seed of {self.name}", tags={volumes.SEED_TAG: self.name})
        copied = METHODS["snapshot"].take(self.make_copy_source(), into)
        self.begins = copied.position
        self.taken = {role: copied.snapshots[volume] for role, volume in list_volumes(self.source).items()}
        wait_stored(lab, list(self.taken.values()), COPY_S)
        return self.taken

    def fill(self, where: ServerPaths, record: Record, program: ServerProgram) -> None:
        """Removes the source's identity and logs from the volumes that were made from its
        snapshots."""
        _delete_matching(where.datadir, *IDENTITY_FILES)
        # Under the lock no transaction was between engine and binary log: recovery needs no log.
        _delete_matching(get_log_folder(where, record), "binlog.*", "relay*")
        shutil.rmtree(where.data_mount / "tmp", ignore_errors=True)
        datadir.make_folders(where, find_service_user(), record.log_storage is not None)

    def finish(self, lab: Lab, where: ServerPaths, record: Record) -> Record:
        """Lets the new replica follow its source, deletes the snapshots that its volumes were made
        from, and returns its record."""
        record = super().finish(lab, where, record)
        for snapshot in self.taken.values():
            with contextlib.suppress(HeadraceError):
                lab.delete_snapshot(snapshot)
        return record


@dataclass
class CloneSeed(CopiedFollower):
    """MySQL's clone plugin: the replica asks, the source sends, the replica is started again."""

    def finish(self, lab: Lab, where: ServerPaths, record: Record) -> Record:
        """Fetches the source's data into the running server, starts it again, and lets it follow
        from their position; returns its record. Raises CouldNotRun."""
        source = self.make_copy_source()
        with _connect_socket(where, COPY_S) as connection:
            authority = accounts.make_source_options(where, self.source).ssl_ca or ""
            fetch(connection, read_dialect(connection), source, self.name, authority)
        if record.process is not None and not processes.wait_gone(record.process, CONNECT_S):
            raise CouldNotRun(self.name, "did not end after CLONE", str(where.log), "See headrace mysql log.")
        with access.write_init_file(where, record.flavor, find_service_user(), record.host) as init_file:
            program = running.find_record_program(record)
            skip = running.make_no_replication_option(program)
            record = running.launch(where, record, program, init_file, running.discard_progress, running.READY_S, skip)
        with _connect_socket(where) as connection:
            self.begins = read_fetched_position(connection, self.name, where.log)
        return super().finish(lab, where, record)


@dataclass
class BackupSeed(CopiedFollower):
    """Runs mariabackup, straight onto the new volume; it ends when this process ends."""

    def fill(self, where: ServerPaths, record: Record, program: ServerProgram) -> None:
        """Copies the source's files, and applies their redo log."""
        into = self.take("mariabackup", where, record)
        BY_FORM["mbstream"].prepare(into.folder, into.log, program)
        self.adopt_files(into)


KINDS: dict[str, Callable[..., Follower]] = {
    "binlog": Follower, "copy": CopySeed, "snapshot": SnapshotSeed, "clone": CloneSeed, "mariabackup": BackupSeed
}  # fmt: skip

# --- semi-sync ------------------------------------------------------------------------------------

SEMI_SYNC = re.compile(r"semi-sync-(replica|slave)-enabled")


def load_semi_sync(connection: SqlConnection, dialect: Dialect, server: str) -> None:
    """Loads MySQL's two plugins permanently; MariaDB has them built in."""
    names = ("rpl_semi_sync_source", "rpl_semi_sync_replica")
    for name, file in zip(names, dialect.list_semi_sync_plugins(), strict=False):
        load_plugin(connection, name, file, server)
