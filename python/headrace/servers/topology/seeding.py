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
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.base import processes
from headrace.base.machine import ends_with_us
from headrace.base.processes import Command, run_checked
from headrace.base.signals import undisturbed
from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.mysql.dialect import GUIDE, Dialect
from headrace.mysql.gtid import GtidSet
from headrace.mysql.option_files import quoted, read_client
from headrace.mysql.state import ServerState, dialect_of, executed_of, observe
from headrace.mysql.statements import ask_row, run
from headrace.servers import access, datadir, running, volumes
from headrace.servers import record as records
from headrace.servers.access import service_user
from headrace.servers.flavors import ServerProgram
from headrace.servers.record import Record, ServerPaths
from headrace.servers.topology import accounts
from headrace.servers.topology.checks import check_pair, check_reachable

if TYPE_CHECKING:
    import pymysql

    from headrace.servers.server import Server

SEEDS = ("binlog", "copy", "snapshot", "clone", "mariabackup")
DEFAULT_SEED = {"mariadb": "mariabackup", "mysql": "clone"}
# Guesses: a copy of a large server at a small volume's speed.
COPY_S = 24 * 3600.0
# s. Seconds a lock is waited for: longer, and everything behind it waits too.
LOCK_S = 10
# s. Until the receive thread is connected; a wrong password or certificate shows at once.
CONNECT_S = 30.0
LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class Position:
    """The begin of a replica: GTIDs of its data, and file and offset of the source's binary log."""

    gtids: GtidSet
    file: str = ""
    offset: int = 0


@dataclass
class Follower:
    """The common part of every seeding: the new replica's options, and where it begins."""

    source: Server
    name: str
    position: str | tuple[str, int] = "gtid"
    channel: str = ""
    delay_s: int = 0
    read_only: bool = True
    begins: Position | None = field(default=None, init=False)

    def snapshots(self, lab: Lab) -> Mapping[str, str]:
        return {}

    def fill(self, where: ServerPaths, record: Record, program: ServerProgram) -> None:
        datadir.folders(where, service_user(), record.log_storage is not None)
        datadir.make(program, where.config, service_user())

    def finish(self, lab: Lab, where: ServerPaths, record: Record) -> Record:
        with _socket(where) as connection:
            self.follow(where, record, connection)
        return self.made_read_only(where, record)

    def follow(self, where: ServerPaths, record: Record, connection: pymysql.Connection) -> None:
        """Removes copied channels of the source's own replication, and follows the source."""
        state = observe(connection, self.name)
        dialect = state.dialect
        for channel in state.channels:
            run(connection, (*dialect.stop(channel.name), *dialect.forget(channel.name)))
        with accounts.connected(self.source) as source:
            theirs, purged = observe(source, self.source.name), purged_of(source)
        check_pair(theirs, state, self.position == "gtid")
        if self.begins is not None:
            run(connection, dialect.begin_at(self.begins.gtids))
        elif self.position == "gtid":
            check_reachable(self.name, purged, state.executed, self.source.name)
        accounts.create_account(where, connection, dialect, record.host)
        if any(SEMI_SYNC.search(name) for name in record.settings):
            # MySQL's plugin is loaded permanently: a clone has replaced the table of plugins.
            load_semi_sync(connection, dialect, self.name)
            run(connection, dialect.semi_sync("replica", True))
        self._point(where, connection, dialect)

    def follow_too(self, where: ServerPaths, record: Record, connection: pymysql.Connection) -> None:
        """Adds a source to a server that has data, from that source's first binary log on or from a
        file position."""
        state = observe(connection, self.name)
        with accounts.connected(self.source) as source:
            theirs, purged = observe(source, self.source.name), purged_of(source)
        check_pair(theirs, state, self.position == "gtid")
        if self.position == "gtid":
            check_reachable(self.name, purged, state.executed, self.source.name)
        self._point(where, connection, state.dialect)

    def _point(self, where: ServerPaths, connection: pymysql.Connection, dialect: Dialect) -> None:
        position = self.position
        if position == "file":
            if self.begins is None or not self.begins.file:
                raise InputError(self.name, "has no file position to begin at", GUIDE, "--position FILE:OFFSET")
            position = (self.begins.file, self.begins.offset)
        source_options = accounts.follow(where, self.source, position, self.channel, self.delay_s)
        run(connection, (*dialect.point_at(source_options), *dialect.start(self.channel)))
        wait_connected(connection, self.name, self.channel)

    def made_read_only(self, where: ServerPaths, record: Record) -> Record:
        """Makes a server read-only, now and after later starts."""
        if not self.read_only:
            return record
        with _socket(where) as connection:
            run(connection, dialect_of(connection).read_only(True))
        on = {"read-only": "ON"} | ({"super-read-only": "ON"} if record.flavor == "mysql" else {})
        record = record.with_(settings=record.settings_with(on))
        running.write_config(where, record, running.program_of(record), service_user())
        return record


def wait_connected(connection: pymysql.Connection, name: str, channel: str) -> ServerState:
    """Waits until a channel receives. Raises CouldNotRun with the server's error."""
    deadline = time.monotonic() + CONNECT_S
    while True:
        state = observe(connection, name)
        observed = state.channel(channel)
        if observed is not None and observed.receive == "on" and not observed.receive_error:
            return state
        receive_error = "there is no such channel" if observed is None else observed.receive_error
        # A source that is just starting refuses the first try.
        if time.monotonic() > deadline or (observed is not None and observed.receive == "off" and receive_error):
            rule = f"does not receive from its source: {receive_error or 'it is still connecting'}"
            raise CouldNotRun(name, rule, GUIDE, "See headrace mysql log, and the source's.")
        time.sleep(LOOK_EVERY_S)


def purged_of(source: pymysql.Connection) -> GtidSet:
    """Returns the transactions that a source has purged from its binary logs."""
    dialect = dialect_of(source)
    if not dialect.is_mariadb:
        return GtidSet.parse(str(ask_row(source, "SELECT @@GLOBAL.gtid_purged")[0]), "mysql")
    first = ask_row(source, dialect.binary_logs())
    if not first:
        return GtidSet("mariadb")
    # MariaDB: the position at the beginning of the first file, before its first transaction.
    row = ask_row(source, f"SELECT BINLOG_GTID_POS('{first[0]}', 4)")
    return GtidSet.parse(str(row[0] or ""), "mariadb")


@contextmanager
def _socket(where: ServerPaths):
    from headrace.mysql import connect

    with connect(access.address(where, None), accounts.ASK_S) as connection:
        yield connection


# --- copied files ---------------------------------------------------------------------------------

# Identity, persisted settings and channels of the server the files are of: MySQL's auto.cnf and
# mysqld-auto.cnf, MariaDB's master.info and relay-log.info.
NOT_KEPT = ("auto.cnf", "mysqld-auto.cnf", "*master*.info", "*relay*.info")


def _forget_identity(data: Path) -> None:
    for pattern in NOT_KEPT:
        for path in data.glob(pattern):
            path.unlink()


STREAMS = 4  # a guess: files that are copied at once, so that a volume always has requests
BLOCK, AHEAD, FLUSH_EVERY = 1 << 20, 8 << 20, 64 << 20  # bytes; an I/O of EBS is at most 256 KiB


def copy_contents(of: Path, to: Path) -> None:
    """Copies the bytes of all files below a folder into existing, empty files below another. A
    single stream would wait for each of its reads: several, with read-ahead, use a volume's
    throughput. Raises CouldNotRun."""
    ended = threading.Event()

    def copied(path: Path) -> None:
        with open(path, "rb", buffering=0) as source, open(to / path.relative_to(of), "r+b", buffering=0) as target:
            at = flushed = 0
            while not ended.is_set() and (block := source.read(BLOCK)):
                at += len(block)
                os.posix_fadvise(source.fileno(), at, AHEAD, os.POSIX_FADV_WILLNEED)
                while block:
                    block = block[target.write(block) :]
                if at - flushed >= FLUSH_EVERY:
                    os.fdatasync(target.fileno())
                    flushed = at
            os.fdatasync(target.fileno())

    # The largest first: they take longest.
    files = sorted(
        (path for path in of.rglob("*") if path.is_file() and not path.is_symlink()), key=_size, reverse=True
    )
    with ThreadPoolExecutor(STREAMS) as pool:
        try:
            for done in [pool.submit(copied, path) for path in files]:
                done.result()
        except OSError as error:
            rule = f"cannot be copied: {error.strerror}"
            raise CouldNotRun(str(error.filename or of), rule, GUIDE, "Is there room? Is a volume paused?") from None
        finally:
            ended.set()
            pool.shutdown(cancel_futures=True)


def _size(path: Path) -> int:
    return path.stat().st_size


def _log_folder(where: ServerPaths, record: Record) -> Path:
    return (where.log_mount if record.log_storage is not None else where.data_mount) / "log"


@dataclass
class CopySeed(Follower):
    """Copies the files of the source while it is down, and starts it again whatever happens."""

    def fill(self, where: ServerPaths, record: Record, program: ServerProgram) -> None:
        source, lab = self.source, self.source.lab
        theirs = source.paths
        with records.locked(theirs):
            source_record = records.required(theirs)
            running.stop(lab, theirs, source_record, kill=False)
            try:
                if not records.required(theirs).clean:
                    raise CouldNotRun(
                        source.name, "did not shut down cleanly", str(theirs.log), "Start it, and try again."
                    )
                volumes.bring_back(lab, theirs, source_record)
                self._copy(theirs, where, source_record, record)
            finally:
                with undisturbed():
                    volumes.quietly_unmount(theirs)
                    started = running.start(lab, theirs, records.required(theirs))
                    records.save(theirs, started)

    def _copy(self, theirs: ServerPaths, where: ServerPaths, source_record: Record, record: Record) -> None:
        datadir.folders(where, service_user(), record.log_storage is not None)
        pairs = [
            (theirs.data_mount / "data", where.data_mount / "data"),
            (_log_folder(theirs, source_record), _log_folder(where, record)),
        ]
        for of, to in pairs:
            command = Command(("cp", "--archive", "--attributes-only", f"{of}/.", str(to)), what=f"copying {of}")
            run_checked(command, COPY_S, "Is there room? Is a volume paused?")
            copy_contents(of, to)
        _forget_identity(where.data_mount / "data")
        log = _log_folder(where, record)
        for path in log.glob("relay*"):
            path.unlink()
        last = sorted(log.glob("binlog.[0-9]*"))
        # The index names the files by the path they had.
        (log / "binlog.index").write_text("".join(f"{path}\n" for path in last))
        datadir.give(log, service_user())
        if last:
            self._file, self._offset = last[-1].name, last[-1].stat().st_size

    def finish(self, lab: Lab, where: ServerPaths, record: Record) -> Record:
        with _socket(where) as connection:
            state = observe(connection, self.name)
        file, offset = getattr(self, "_file", ""), getattr(self, "_offset", 0)
        self.begins = Position(state.executed, file, offset)
        return super().finish(lab, where, record)


@dataclass
class SnapshotSeed(Follower):
    """Takes snapshots of all volumes of the source at one instant. The lock fixes the position:
    everything up to it is on the volumes, and nothing after it."""

    held_s: float = field(default=0.0, init=False)
    taken: dict[str, str] = field(default_factory=dict, init=False)

    def snapshots(self, lab: Lab) -> Mapping[str, str]:
        roles = ("data", "log") if self.source.log_volume else ("data",)
        ids = [volume for volume in (self.source.data_volume, self.source.log_volume) if volume]
        with accounts.connected(self.source) as connection:
            state = observe(connection, self.source.name)
            try:
                run(connection, (f"SET SESSION lock_wait_timeout = {LOCK_S}", "FLUSH TABLES WITH READ LOCK"))
                began = time.monotonic()
                run(connection, ("FLUSH LOCAL ENGINE LOGS",))
                self.begins = position_now(connection)
                self._sync()
                snapshots = lab.create_snapshots(ids, f"seed of {self.name}", {volumes.SEED_TAG: self.name})
            finally:
                with contextlib.suppress(Exception):
                    run(connection, ("UNLOCK TABLES",))
            self.held_s = time.monotonic() - began
        if not state.log_bin:
            raise InputError(self.source.name, "writes no binary log", GUIDE, "--prepare-source")
        self.taken = dict(zip(roles, (snapshot["id"] for snapshot in snapshots), strict=True))
        self._wait(lab)
        return self.taken

    def _sync(self) -> None:
        for _, place in volumes.mounts_of(self.source.paths, records.required(self.source.paths)):
            run_checked(Command(("sync", "--file-system", str(place)), what=f"sync of {place}"), COPY_S)

    def _wait(self, lab: Lab) -> None:
        def is_stored() -> bool:
            return all(lab.describe_snapshot(snapshot)["state"] != "pending" for snapshot in self.taken.values())

        if not wait_until(is_stored, COPY_S, LOOK_EVERY_S):
            raise CouldNotRun(", ".join(self.taken.values()), "is still pending", GUIDE, "Is the lab busy?")

    def fill(self, where: ServerPaths, record: Record, program: ServerProgram) -> None:
        _forget_identity(where.data_mount / "data")
        log = _log_folder(where, record)
        # No transaction was between its engine and its binary log under the lock, so the log is not
        # needed for recovery.
        for pattern in ("binlog.*", "relay*"):
            for path in log.glob(pattern):
                path.unlink()
        shutil.rmtree(where.data_mount / "tmp", ignore_errors=True)
        datadir.folders(where, service_user(), record.log_storage is not None)

    def finish(self, lab: Lab, where: ServerPaths, record: Record) -> Record:
        record = super().finish(lab, where, record)
        for snapshot in self.taken.values():
            with contextlib.suppress(HeadraceError):
                lab.delete_snapshot(snapshot)
        return record


def position_now(connection: pymysql.Connection) -> Position:
    """Reads the position of a locked server."""
    dialect = dialect_of(connection)
    row = ask_row(connection, dialect.binary_log_position())
    gtids, *_ = executed_of(connection, dialect)
    return Position(gtids, str(row[0]), int(row[1])) if row else Position(gtids)


# --- by the servers' own means --------------------------------------------------------------------

SEMI_SYNC = re.compile(r"semi-sync-(replica|slave)-enabled")


def load_semi_sync(connection: pymysql.Connection, dialect: Dialect, server: str) -> None:
    """Loads MySQL's two plugins permanently; MariaDB has them built in."""
    names = ("rpl_semi_sync_source", "rpl_semi_sync_replica")
    for name, file in zip(names, dialect.semi_sync_plugins(), strict=False):
        load_plugin(connection, name, file, server)


CLONE_DONE = 3707  # ER_CLONE_... the server wants to be started again and nobody watches over it


@dataclass
class CloneSeed(Follower):
    """MySQL's clone plugin: the replica asks, the source sends, the replica is started again."""

    def finish(self, lab: Lab, where: ServerPaths, record: Record) -> Record:
        source = self.source
        with accounts.connected(source) as donor:
            load_plugin(donor, "clone", "mysql_clone.so", source.name)
        secret = source.address(tcp=True).password
        assert secret is not None  # of a server of the lab
        with _socket(where) as connection:
            load_plugin(connection, "clone", "mysql_clone.so", self.name)
            dialect, at = dialect_of(connection), f"{source.host}:{source.port}"
            source_options = accounts.follow(where, source)
            user, host = _literal(access.ACCOUNT), _literal(source.host)
            statements = (
                *dialect.session(),
                f"SET GLOBAL clone_valid_donor_list = {_literal(at)}",
                f"SET GLOBAL clone_ssl_ca = {_literal(source_options.ssl_ca or '')}",
            )
            run(connection, statements)
        with _long_socket(where) as connection:
            clone = (
                f"CLONE INSTANCE FROM {user}@{host}:{source.port} IDENTIFIED BY {_literal(secret.reveal())} REQUIRE SSL"
            )
            with contextlib.suppress(_Ended):
                _clone(connection, (*dialect.session(), clone), self.name)
        if record.process is not None and not processes.wait_gone(record.process, CONNECT_S):
            raise CouldNotRun(self.name, "did not end after CLONE", str(where.log), "See headrace mysql log.")
        with access.init_file(where, record.flavor, service_user(), record.host) as init_file:
            program = running.program_of(record)
            skip = running.not_following(program)
            record = running.launch(where, record, program, init_file, running.quiet, running.READY_S, skip)
        with _socket(where) as connection:
            row = ask_row(
                connection,
                "SELECT STATE, ERROR_MESSAGE, BINLOG_FILE, BINLOG_POSITION FROM performance_schema.clone_status",
            )
            if not row or row[0] != "Completed":
                raise CouldNotRun(
                    self.name, f"CLONE did not complete: {row[1] if row else 'no status'}", str(where.log), ""
                )
            gtids = GtidSet.parse(str(ask_row(connection, "SELECT @@GLOBAL.gtid_executed")[0]), "mysql")
            self.begins = Position(gtids, str(row[2]), int(row[3]))
        return super().finish(lab, where, record)


class _Ended(Exception):
    """Raised when the server has ended, as it does after CLONE."""


def _clone(connection: pymysql.Connection, statements: tuple[str, ...], name: str) -> None:
    try:
        run(connection, statements)
    except CouldNotRun as error:
        # 3707: cannot start itself again; 2006 and 2013: gone while it answered.
        if any(f"error {code} " in error.source for code in (CLONE_DONE, 2006, 2013)):
            raise _Ended from None
        raise CouldNotRun(
            name, f"CLONE failed: {error.rule}", error.source, "See headrace mysql log of both."
        ) from None


@contextmanager
def _long_socket(where: ServerPaths):
    from headrace.mysql import connect

    with connect(access.address(where, None), COPY_S) as connection:
        yield connection


def _literal(text: str) -> str:
    from headrace.mysql.dialect import literal

    return literal(text)


def load_plugin(connection: pymysql.Connection, name: str, file: str, server: str) -> None:
    """Loads a plugin permanently, unless it is loaded. Raises CouldNotRun."""
    row = ask_row(connection, f"SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = '{name}'")
    if row and row[0] == "ACTIVE":
        return
    try:
        run(connection, (f"INSTALL PLUGIN {name} SONAME '{file}'",))
    except CouldNotRun as error:
        hint = "Start it once with --set plugin-load-add=" + file
        raise CouldNotRun(server, f"cannot load {file}: {error.rule}", error.source, hint) from None


INFO = re.compile(r"(?P<file>\S+)\s+(?P<offset>\d+)(?:\s+(?P<gtid>[0-9,-]+))?", re.ASCII)


@dataclass
class BackupSeed(Follower):
    """Runs mariabackup, straight onto the new volume; it ends when this process ends."""

    def fill(self, where: ServerPaths, record: Record, program: ServerProgram) -> None:
        tool = program.companion("mariadb-backup", "mariabackup")
        if tool is None:
            rule = "is not installed: it copies a running MariaDB"
            raise CouldNotRun("mariabackup", rule, GUIDE, "apt-get install mariadb-backup, or --seed snapshot.")
        datadir.folders(where, service_user(), record.log_storage is not None)
        target = where.data_mount / "data"
        file = self._option_file(where)
        try:
            words = [f"--defaults-file={file}", "--backup", f"--parallel={STREAMS}", f"--target-dir={target}"]
            _to_end(tool, words, "the backup")
            _to_end(tool, ["--prepare", f"--target-dir={target}"], "its preparation")
        finally:
            file.unlink(missing_ok=True)
        self.begins = _backup_position(target)
        for redo in target.glob("ib_logfile*"):
            shutil.move(redo, _log_folder(where, record) / redo.name)
        for info_file in (
            *target.glob("xtrabackup_*"),
            *target.glob("mariadb_backup_*"),
            *target.glob("*backup-my.cnf"),
        ):
            info_file.unlink()
        _forget_identity(target)
        datadir.give(target, service_user())
        datadir.give(_log_folder(where, record), service_user())

    def _option_file(self, where: ServerPaths) -> Path:
        """Writes an option file for mariabackup with the source's account and paths."""
        source = self.source
        source_record = records.required(source.paths)
        secret = read_client(source.paths.client).get("password", "")
        lines = ["[mariabackup]", f"user={quoted(access.ACCOUNT)}", f"password={quoted(secret)}"]
        lines += [f"socket={quoted(str(source.paths.socket))}", f"datadir={quoted(str(source.datadir))}"]
        lines += [f"innodb-log-group-home-dir={quoted(str(_log_folder(source.paths, source_record)))}"]
        path = where.state / "backup.cnf"
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as opened:
            opened.write("\n".join(lines) + "\n")
        return path


def _to_end(tool: Path, words: list[str], what: str) -> None:
    run_checked(Command(ends_with_us(str(tool), *words), what=f"mariabackup, {what}"), COPY_S, "Is there room?")


def _backup_position(target: Path) -> Position:
    for name in ("xtrabackup_binlog_info", "mariadb_backup_binlog_info"):
        path = target / name
        if path.is_file():
            match = INFO.match(path.read_text())
            if match:
                return Position(GtidSet.parse(match["gtid"] or "", "mariadb"), match["file"], int(match["offset"]))
    raise CouldNotRun(str(target), "mariabackup told no position", GUIDE, "Does the source write a binary log?")


KINDS: dict[str, Callable[..., Any]] = {
    "binlog": Follower, "copy": CopySeed, "snapshot": SnapshotSeed, "clone": CloneSeed, "mariabackup": BackupSeed
}  # fmt: skip
