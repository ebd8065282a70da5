"""Taking a backup: a copy is made by the server's own tool, packed, encrypted, written in files of
one size with their checksums, and last of all the manifest.

    logical    mariadb-dump, mysqldump: statements; any server that can be reached
    physical   mariabackup (MariaDB), CLONE (MySQL): files; a server of the lab
    snapshot   the volumes of a server of the lab, at one instant under a lock

A copy that is interrupted leaves files without a manifest, which nobody takes for a backup; the
next run removes them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headrace.base.files import reason_of, write_back
from headrace.base.units import MIB
from headrace.connect.option_files import quoted
from headrace.errors import CouldNotRun, InputError
from headrace.servers.access import service_user
from headrace.servers.backup import manifest as documents
from headrace.servers.backup import source as sources
from headrace.servers.backup.manifest import BinlogPosition, Manifest, Part, folder_of, new_id, write_manifest
from headrace.servers.backup.pipeline import Flow, Pumped, Stage, best_pack, cipher, packer
from headrace.servers.backup.source import BackupSource, rows
from headrace.servers.backup.targets.target import DOC, BackupTarget, TargetWriter
from headrace.servers.running import Progress, quiet
from headrace.servers.server import Server

# A file of a copy: at least 64 MiB, and about 1,000 of them for a large one (guesses: a file that
# is sent again after an error is small, and lists stay short).
PART_BYTES, MOST_PARTS = 64 * MIB, 1_000
# How much of a dump is searched for its position: the file and offset stand before the first table,
# the GTID there or (mariadb-dump 10.11.19) behind the last one.
HEAD_BYTES, TAIL_BYTES = 4 * MIB, MIB
# What was begun by another machine is left alone for this long.
SWEEP_S = 24 * 3600.0
# How long a lock for a snapshot may wait for the server's statements, s: a long SELECT would let
# everything behind it wait (a guess, as in the runbooks of FLUSH TABLES WITH READ LOCK).
LOCK_WAIT_S = 10
LOOK_EVERY_S = 0.1
# The largest max_allowed_packet of both flavors, bytes (MySQL and MariaDB manuals).
MOST_PACKET = 1 << 30


class Pace(Protocol):
    """How fast a copy may go; `pacing.Pacer` is one."""

    def spent(self, count: int) -> None:
        """Called after `count` bytes were read: waits as long as it must."""
        ...

    def free(self) -> None:
        """From now on it does not wait: the server is held up."""
        ...


class Unpaced:
    """Nothing slows the copy."""

    def spent(self, count: int) -> None:
        """Goes on at once."""

    def free(self) -> None:
        """Nothing to free."""


@dataclass(frozen=True)
class Wanted:
    """How a backup is taken. `pack`: zstd, none, or None for the best there is."""

    method: str = "physical"
    pack: str | None = None
    key: bytes | None = field(default=None, repr=False)
    pace: Pace = field(default_factory=Unpaced)
    staging: Path | None = None
    progress: Progress = quiet


def run(source: BackupSource, target: BackupTarget, wanted: Wanted) -> Manifest:
    """Takes a backup. Raises InputError, CouldNotRun; then there is none, and nothing is left."""
    sources.refuse_method(source, wanted.method)
    pack = wanted.pack or best_pack()
    clear_unfinished(target)
    backup = new_id(source.name)
    makers: dict[str, Callable[[], Manifest]] = {
        "logical": lambda: _logical(source, target, wanted, backup, pack),
        "physical": lambda: (_mariabackup if source.flavor == "mariadb" else _clone)(
            source, target, wanted, backup, pack
        ),
        "snapshot": lambda: _snapshot(source, wanted, backup),
    }
    if wanted.method not in makers:
        raise InputError(wanted.method[:40], f"a method is one of {', '.join(makers)}", DOC, "")
    try:
        made = makers[wanted.method]()
        if wanted.method != "snapshot" and not made.parts:
            raise CouldNotRun(source.name, "the copy is empty", DOC, "See the server's error log.")
        write_manifest(target, made, wanted.key)
        return made
    except BaseException:
        _forget(target, backup)
        raise


def _forget(target: BackupTarget, backup: str) -> None:
    """Removes what was written of a backup, as far as the target is still there."""
    try:
        target.sweep(folder_of(backup), 0.0)
        for one in target.list(folder_of(backup) + "/"):
            target.remove(one.name)
    except (CouldNotRun, InputError, OSError):
        return  # without a manifest it is not a backup; the next run removes it


def clear_unfinished(target: BackupTarget, older_s: float = SWEEP_S) -> list[str]:
    """Removes what killed runs have left: files of backups without a manifest. Their ids.

    A run of another process may still be writing: its id is young, and it holds a file open.
    """
    target.sweep("backups/", older_s)
    names = [one.name for one in target.list("backups/")]
    whole = {name.split("/")[1] for name in names if name.endswith(f"/{documents.MANIFEST}")}
    found = []
    for backup in sorted({name.split("/")[1] for name in names} - whole):
        if not documents.ID.fullmatch(backup) or _runs(target, backup):
            continue
        for name in (name for name in names if name.startswith(f"{folder_of(backup)}/")):
            target.remove(name)
        found.append(backup)
    return found


def _runs(target: BackupTarget, backup: str) -> bool:
    """Whether the process that writes a backup is alive, by the mark it left. A mark of another
    machine counts for a day."""
    try:
        mark = json.loads(target.document(f"{folder_of(backup)}/running"))
        host, pid, began = str(mark["host"]), int(mark["pid"]), float(mark["began_unix"])
    except (InputError, ValueError, KeyError, TypeError):
        return False
    if host == _host():
        from headrace.base.processes import look_up

        found = look_up(pid)
        return found is not None and found.started == mark.get("started")
    return time.time() - began < SWEEP_S


def _host() -> str:
    from headrace.base.processes import BOOT_ID

    return BOOT_ID.read_text().strip()


def _mark(target: BackupTarget, backup: str) -> None:
    """Says that this process writes a backup."""
    from headrace.base.processes import look_up

    own = look_up(os.getpid())
    mark = {"host": _host(), "pid": os.getpid(), "started": own and own.started, "began_unix": time.time()}
    target.put_new(f"{folder_of(backup)}/running", json.dumps(mark).encode())


class PartsWriter:
    """Writes a stream as files of one size. `done`: those that are whole."""

    def __init__(self, target: BackupTarget, backup: str, expected_bytes: int) -> None:
        self.target, self.folder = target, folder_of(backup)
        self.each = max(PART_BYTES, expected_bytes // MOST_PARTS)
        self.done: list[Part] = []
        self.expected = expected_bytes
        self._writer: TargetWriter | None = None

    def write(self, data: bytes) -> None:
        """Adds to the stream."""
        view = memoryview(data)
        while view:
            if self._writer is None:
                name = f"{self.folder}/data.{len(self.done) + 1:05d}"
                self._writer = self.target.create(name, min(self.each, self.expected))
            taken = view[: self.each - self._writer.size]
            self._writer.write(bytes(taken))
            view = view[len(taken) :]
            if self._writer.size >= self.each:
                self.close()

    def close(self) -> None:
        """Ends the last file."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            name = f"{self.folder}/data.{len(self.done) + 1:05d}"
            writer.close()
            self.done.append(Part(name.rpartition("/")[2], writer.size, writer.sha256))

    def abort(self) -> None:
        """Drops the file that is not whole."""
        if self._writer is not None:
            self._writer.abort()
            self._writer = None


def _stream(target: BackupTarget, backup: str, flow: Flow, expected: int, wanted: Wanted) -> list[Part]:
    """Writes what the programs make."""
    _mark(target, backup)
    parts, written = PartsWriter(target, backup, expected), 0
    try:
        with flow:
            for piece in flow.pieces():
                parts.write(piece)
                written += len(piece)
                wanted.progress(min(0.95, written / max(1, expected)), "copying")
        parts.close()
    except BaseException:
        parts.abort()
        raise
    target.remove(f"{folder_of(backup)}/running")
    return parts.done


def _made(
    source: BackupSource,
    wanted: Wanted,
    backup: str,
    began: float,
    position: BinlogPosition,
    form: str,
    pack: str,
    size: int,
    parts: list[Part],
    **more: object,
) -> Manifest:
    return Manifest(
        id=backup,
        method=wanted.method,
        flavor=source.flavor,
        version=source.version_text,
        engine=",".join(source.engines),
        source=source.name,
        source_id=source.id,
        began_unix=began,
        ended_unix=time.time(),
        position=position,
        form=form,
        packed=pack,
        encrypted=wanted.key is not None,
        data_bytes=size,
        parts=tuple(parts),
        facts=dict(more.pop("facts", {})),  # type: ignore[call-overload]
        **more,  # type: ignore[arg-type]
    )


# --- logical --------------------------------------------------------------------------------------

# As the tools write them, at the head of a dump.
CHANGE = re.compile(rb"(?m)^-- CHANGE [^\n']*(?:MASTER|SOURCE)_LOG_FILE='([^']+)', (?:MASTER|SOURCE)_LOG_POS=(\d+)")
MARIADB_GTID = re.compile(rb"(?m)^-- SET GLOBAL gtid_slave_pos='([^']*)'")
MYSQL_GTID = re.compile(rb"GTID_PURGED=(?:/\*![^*]*\*/ *)?'\+?([^']*)'", re.DOTALL)


def _logical(source: BackupSource, target: BackupTarget, wanted: Wanted, backup: str, pack: str) -> Manifest:
    """A dump in one transaction. Its position must stand in it: tools have ended well without."""
    began = time.time()
    with source.connect() as connection:
        names, size = sources.databases(connection), sources.data_bytes(connection)
    if not names:
        raise InputError(source.name, "has no databases to dump", DOC, "Take --method physical for the server itself.")
    both = ["--single-transaction", "--quick", "--routines", "--events", "--triggers", "--hex-blob"]
    # The tools take 16 or 24 MiB by themselves; a row may be as large as a packet can be.
    both += ["--default-character-set=utf8mb4", f"--max-allowed-packet={MOST_PACKET}"]
    if source.flavor == "mariadb":
        words = [*both, *(("--master-data=2", "--gtid") if source.log_bin else ())]
        tool = source.tool("mariadb-dump", "mysqldump")
    else:
        words = [*both, "--column-statistics=0", "--no-tablespaces"]
        words += ["--source-data=2", "--set-gtid-purged=COMMENTED"] if source.log_bin else ["--set-gtid-purged=OFF"]
        tool = source.tool("mysqldump")
    head, tail = bytearray(), bytearray()

    def look(piece: bytes) -> None:
        if len(head) < HEAD_BYTES:
            head.extend(piece[: HEAD_BYTES - len(head)])
        tail.extend(piece)
        del tail[:-TAIL_BYTES]
        wanted.pace.spent(len(piece))

    with source.client_file() as file:
        dump = Stage((*tool, f"--defaults-extra-file={file}", *words, "--databases", "--", *names), tool[-1])
        flow = Pumped(Flow([dump]), packer(pack) + cipher(wanted.key), look)
        parts = _stream(target, backup, flow, size, wanted)
    position = dump_position(bytes(head), bytes(tail), source.flavor, source.log_bin)
    made = _made(source, wanted, backup, began, position, "sql", pack, flow.plain_bytes, parts, databases=tuple(names))
    return made.with_(facts=made.facts | {"accounts": "not in a logical copy"})


def dump_position(head: bytes, tail: bytes, flavor: str, log_bin: bool) -> BinlogPosition:
    """The position in a dump, by its first and last bytes. Raises CouldNotRun where the tool left
    it out."""
    if not log_bin:
        return BinlogPosition()
    place = CHANGE.search(head)
    if flavor == "mariadb":
        # The text of a row has no line of its own; that of a routine may, but stands before it.
        gtid = next(reversed([*MARIADB_GTID.finditer(tail)]), None) or MARIADB_GTID.search(head)
    else:
        gtid = MYSQL_GTID.search(head)
    if place is None or (flavor == "mariadb" and gtid is None):
        rule = "wrote no binary log position into the dump, so nothing could be replayed on top of it"
        raise CouldNotRun(
            "the dump", rule, DOC, "Does the account have REPLICATION CLIENT (BINLOG MONITOR) and RELOAD?"
        )
    text = "".join(gtid[1].decode().split()) if gtid else ""
    return BinlogPosition(text, place[1].decode(), int(place[2]))


# --- physical -------------------------------------------------------------------------------------

# What mariabackup writes at its end, on its standard error.
POSITION = re.compile(r"MySQL binlog position: filename '([^']*)', position '(\d+)', GTID of the last change '([^']*)'")
# While it holds back commits a pace would hold them back longer.
LOCKED = re.compile(r"BACKUP STAGE BLOCK_(?:DDL|COMMIT)|Waiting for log copy thread|FLUSH TABLES WITH READ LOCK")


def _mariabackup(source: BackupSource, target: BackupTarget, wanted: Wanted, backup: str, pack: str) -> Manifest:
    server = source.server
    assert server is not None
    began, size, found = time.time(), sources.physical_bytes(server), []

    def heard(line: str) -> None:
        if LOCKED.search(line):
            wanted.pace.free()
        if seen := POSITION.search(line):
            found.append(BinlogPosition(seen[3], seen[1], int(seen[2])))

    import tempfile

    tool = source.tool("mariabackup", "mariadb-backup")
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder, source.client_file() as account:
        # Of two option files mariabackup reads one, so this one has both: where the server's files
        # are, and as whom to log in.
        both = Path(folder) / "mariabackup.cnf"
        both.touch(mode=0o600)
        text = (
            f"!include {server.config_file}\n{account.read_text()}[mariabackup]\nsocket={quoted(str(server.socket))}\n"
        )
        both.write_text(text)
        words = (*tool, f"--defaults-file={both}", "--backup", "--stream=mbstream", f"--target-dir={folder}")
        copy = Flow([Stage(words, "mariabackup")], heard)
        flow = Pumped(copy, packer(pack) + cipher(wanted.key), lambda piece: wanted.pace.spent(len(piece)))
        parts = _stream(target, backup, flow, size, wanted)
    if source.log_bin and not found:
        rule = "told no binary log position, so nothing could be replayed on top of the copy"
        raise CouldNotRun("mariabackup", rule, DOC, "Does the account have BINLOG MONITOR?")
    position = found[-1] if found else BinlogPosition()
    return _made(source, wanted, backup, began, position, "mbstream", pack, size, parts)


def _clone(source: BackupSource, target: BackupTarget, wanted: Wanted, backup: str, pack: str) -> Manifest:
    """MySQL clones into a folder of its own machine; that is sent as one tar stream."""
    server = source.server
    assert server is not None
    began, size, user = time.time(), sources.physical_bytes(server), service_user()
    staging = Path(wanted.staging or server.datadir.parent / "tmp") / f"headrace-{backup}"
    if not staging.parent.is_dir():
        raise InputError(str(staging.parent), "is not a folder", DOC, "Name one that the user mysql may write to.")
    with source.connect(3600.0) as connection, owned(staging):
        _need_clone(connection)
        before = sources.position(connection, source)
        try:
            rows(connection, f"CLONE LOCAL DATA DIRECTORY = '{_plain(staging)}'")
            after = sources.position(connection, source)
            expected = sum(one.stat().st_size for one in staging.rglob("*") if one.is_file())
            words = (shutil.which("tar") or "tar", "--create", "--sparse", "--directory", str(staging), ".")
            tar = Flow([Stage(words, "tar", user=user)])
            flow = Pumped(tar, packer(pack) + cipher(wanted.key), lambda piece: wanted.pace.spent(len(piece)))
            parts = _stream(target, backup, flow, expected, wanted)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    # CLONE tells its position to a server that is started on it alone: it lies between these two.
    facts = {"position": "of the begin; the copy itself knows its own", "gtid_at_most": after.gtid}
    return _made(source, wanted, backup, began, before, "tar", pack, size, parts, facts=facts)


@contextlib.contextmanager
def owned(staging: Path) -> Iterator[None]:
    """Marks a staging folder as used, and removes those of runs that were killed: each is a whole
    copy of the data. A lock ends with its process, however that ends."""
    for mark in staging.parent.glob("headrace-*.lock"):
        if not documents.ID.fullmatch(mark.name.removeprefix("headrace-").removesuffix(".lock")):
            continue
        with contextlib.suppress(OSError):
            handle = os.open(mark, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(mark.with_suffix(""), ignore_errors=True)
                mark.unlink()
            finally:
                os.close(handle)
    mark = staging.with_name(f"{staging.name}.lock")
    handle = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        mark.unlink(missing_ok=True)
        os.close(handle)


def _need_clone(connection) -> None:
    state = rows(connection, "SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = 'clone'")
    if not state:
        rows(connection, "INSTALL PLUGIN clone SONAME 'mysql_clone.so'")


def _plain(path: Path) -> str:
    """A path as it may stand in a statement. Raises InputError."""
    if not re.fullmatch(r"[A-Za-z0-9/._-]+", str(path)):
        rule = "CLONE is given paths of letters, digits, / . _ - alone"
        raise InputError(repr(str(path))[:120], rule, DOC, "Name another --staging folder.")
    return str(path)


# --- snapshot -------------------------------------------------------------------------------------


def _snapshot(source: BackupSource, wanted: Wanted, backup: str) -> Manifest:
    """All volumes of a server at one instant, while its commits are held back for the moment of the
    call, so that the position is theirs."""
    server = source.server
    assert server is not None
    began = time.time()
    volumes = [one for one in (server.data_volume, server.log_volume) if one]
    tags = {"headrace:backup": backup}
    made: list[dict] = []
    try:
        with source.connect(60.0) as connection:
            size = sources.data_bytes(connection)
            lock = ["BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT"]
            if source.flavor == "mysql":
                lock = ["LOCK INSTANCE FOR BACKUP", "FLUSH TABLES WITH READ LOCK"]
            rows(connection, f"SET SESSION lock_wait_timeout = {LOCK_WAIT_S}")
            for statement in lock:
                rows(connection, statement)
            # The end of the connection releases the locks, whatever happens here.
            position = sources.position(connection, source)
            held = time.monotonic()
            _written_back(connection, source, server)
            made = [dict(one) for one in server.lab.create_snapshots(volumes, f"headrace backup {backup}", tags)]
            held = time.monotonic() - held
        ids = {str(one["volume"]): str(one["id"]) for one in made}
        if set(ids) != set(volumes):
            rule = f"answered with snapshots of {sorted(ids)}, and {sorted(volumes)} were asked for"
            raise CouldNotRun("the lab", rule, DOC, "See headrace snapshot list.")
        _completed(server, list(ids.values()))
    except BaseException:
        for one in made:
            with contextlib.suppress(CouldNotRun, InputError):
                server.lab.delete_snapshot(str(one["id"]))
        raise
    roles = {"data": server.data_volume} | ({"log": server.log_volume} if server.log_volume else {})
    facts = {"commits_held_ms": round(1000 * held, 1), "roles": roles}
    if server.log_volume:
        facts["log_storage"] = server.log_storage
    return _made(source, wanted, backup, began, position, "snapshot", "none", size, [], snapshots=ids, facts=facts)


def _written_back(connection, source: BackupSource, server: Server) -> None:
    """What was committed up to the position is on the volumes: with the fast settings of
    innodb_flush_log_at_trx_commit and sync_binlog it may be in memory only."""
    setting = rows(connection, "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit")[0][0]
    for statement in source.dialect.flush_engines(int(setting)):
        rows(connection, statement)
    for place in filter(None, (server.paths.data_mount, server.log_volume and server.paths.log_mount)):
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            write_back(handle)
        except OSError as error:
            raise CouldNotRun(str(place), f"could not be written back: {reason_of(error)}", "syncfs(2)") from None
        finally:
            os.close(handle)


def _completed(server: Server, snapshots: list[str]) -> None:
    """Waits until the snapshots are in the store: a pending one is not a backup yet."""
    waiting = set(snapshots)
    while waiting:
        for one in sorted(waiting):
            state = server.lab.describe_snapshot(one)["state"]
            if state == "completed":
                waiting.discard(one)
            elif state != "pending":
                raise CouldNotRun(one, f"is {state}: it is not a backup", DOC, "See headrace snapshot show.")
        time.sleep(LOOK_EVERY_S)
