"""Takes a backup: the server's own tool makes a copy, which is packed, encrypted and written in
files of equal size with their checksums; the manifest is written last.

    logical    mariadb-dump, mysqldump: statements; any server that can be reached
    physical   mariabackup (MariaDB), CLONE (MySQL): files; a server of the lab
    snapshot   the volumes of a server of the lab, at one instant under a lock

With `spool` the first two are finished in a folder of this machine, and sent from there. A run that
was killed leaves files without a manifest, which do not count as a backup: `unfinished` says which
of them the next run resumes with, and removes the rest.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headrace.base.files import reason_of, write_back
from headrace.base.units import MIB
from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.mysql.option_files import quoted
from headrace.servers.access import service_user
from headrace.servers.backup import manifest as documents
from headrace.servers.backup import source as sources
from headrace.servers.backup import unfinished
from headrace.servers.backup.grants import read_rights, refuse_blind
from headrace.servers.backup.manifest import BinlogPosition, Manifest, Part, folder_of, new_id, write_manifest
from headrace.servers.backup.pipeline import Flow, Pumped, Stage, ahead, best_pack, cipher, packer
from headrace.servers.backup.restore import parts_of
from headrace.servers.backup.settings import read_settings
from headrace.servers.backup.source import BackupSource, rows
from headrace.servers.backup.targets.folder import FolderTarget
from headrace.servers.backup.targets.target import DAMAGED, DOC, BackupTarget, TargetWriter
from headrace.servers.backup.unfinished import Leftover
from headrace.servers.running import Progress, quiet
from headrace.servers.server import Server

if TYPE_CHECKING:
    import pymysql

# A file of a copy: at least 64 MiB, and about 1,000 of them for a large one (guesses: a file that
# is sent again after an error is small, and lists stay short).
PART_BYTES, MOST_PARTS = 64 * MIB, 1_000
# How much of a dump is searched for its position: the file and offset stand before the first table,
# the GTID there or (mariadb-dump 10.11.19) behind the last one.
HEAD_BYTES, TAIL_BYTES = 4 * MIB, MIB
# How long a lock for a snapshot may wait for the server's statements, s: a long SELECT would let
# everything behind it wait (a guess, as in the runbooks of FLUSH TABLES WITH READ LOCK).
LOCK_WAIT_S = 10
LOOK_EVERY_S = 0.1
# The kernel's own read-ahead (include/linux/pagemap.h: VM_READAHEAD_PAGES), KiB: never less.
LEAST_STEP_KIB = 128
# A CLONE statement of ours, and how long one that is killed may take to end, s (a guess).
CLONING = re.compile(r"CLONE LOCAL DATA DIRECTORY = '[^']*/(headrace-[0-9A-Za-z_-]+)'")
CLONE_END_S = 30.0
# The largest max_allowed_packet of both flavors, bytes (MySQL and MariaDB manuals).
MOST_PACKET = 1 << 30


class Pace(Protocol):
    """How fast a copy may go; `pacing.Pacer` is an example. `gentle`: the load has priority over
    it."""

    gentle: bool

    def spent(self, count: int) -> None:
        """Waits as long as the pace demands, after `count` bytes were read."""
        ...

    def free(self) -> None:
        """Ends the waiting, because the server's commits are blocked meanwhile."""
        ...


class Unpaced:
    """Nothing slows the copy."""

    gentle = False

    def spent(self, count: int) -> None:
        """Returns at once."""

    def free(self) -> None:
        """Does nothing."""


@dataclass(frozen=True)
class BackupRequest:
    """How a backup is taken. `pack`: zstd, none, or None for the best available. `staging`: the
    folder that CLONE copies to. `spool`: a folder where the copy is finished before it is sent.
    `anew`: does not resume an interrupted run. `only`: the databases of a logical copy of a part of
    its server."""

    method: str = "physical"
    pack: str | None = None
    key: bytes | None = field(default=None, repr=False)
    pace: Pace = field(default_factory=Unpaced)
    staging: Path | None = None
    spool: Path | None = None
    anew: bool = False
    only: tuple[str, ...] = ()
    progress: Progress = quiet
    note: Callable[[str], None] = lambda text: None


def run(source: BackupSource, target: BackupTarget, request: BackupRequest) -> Manifest:
    """Takes a backup, or resumes that of a killed run. Raises InputError, CouldNotRun; then nothing
    remains but, if the copy was complete, the copy in `spool`."""
    _refuse(source, target, request)
    spool = FolderTarget(request.spool) if request.spool is not None else None
    lab = source.server.lab if source.server is not None else None
    previous = None if request.anew else _find_previous(source, target, spool, lab, request)
    _clear(source, target, spool, lab, request, previous)
    backup = previous.id if previous is not None else new_id(source.name)
    tagged = lab if request.method == "snapshot" else None
    places = [target] if spool is None else [target, spool]
    try:
        with contextlib.ExitStack() as marks:
            for place in places:
                marks.enter_context(unfinished.marked(place, backup, source.name, tagged))
            manifest = previous if previous is not None else _take_copy(source, places[-1], request, backup)
            if spool is not None:
                if previous is None:
                    write_manifest(spool, manifest, request.key)
                _send(spool, target, manifest, request)
            if manifest.snapshots and lab is not None:
                _wait_completed(lab, list(manifest.snapshots.values()))
            write_manifest(target, manifest, request.key)
    except BaseException as error:
        damaged = isinstance(error, InputError) and error.kind == DAMAGED
        if spool is not None and not damaged and spool.exists(f"{folder_of(backup)}/{documents.MANIFEST}"):
            request.note(f"the copy {backup} is whole in {spool.folder}: run it again to go on with sending it")
            with contextlib.suppress(HeadraceError, OSError):
                for place in reversed(places):
                    unfinished.unmark(place, backup)
        else:
            for place in reversed(places):
                unfinished.forget_quietly(place, backup, tagged)
        raise
    # From here on there is a backup, whatever happens: the next run removes what remains of this
    # one.
    with contextlib.suppress(HeadraceError, OSError):
        unfinished.unmark(target, backup)
        if spool is not None:
            unfinished.forget(spool, backup)
    return manifest


def _refuse(source: BackupSource, target: BackupTarget, request: BackupRequest) -> None:
    """Raises InputError for a request that cannot be met."""
    if request.method not in documents.METHODS:
        raise InputError(request.method[:40], f"a method is one of {', '.join(documents.METHODS)}", DOC, "")
    sources.refuse_method(source, request.method)
    if request.only and request.method != "logical":
        rule = f"is for logical copies: a {request.method} copy has the whole server"
        raise InputError(f"--only {request.only[0][:64]}", rule, DOC, "Take --method logical, or leave it out.")
    if request.method == "snapshot" and request.spool is not None:
        rule = "is for copies that are sent, and snapshots stay in the store of the lab"
        raise InputError(f"--spool {request.spool}", rule, DOC, "Leave it out.")
    if isinstance(target, FolderTarget) and request.spool == target.folder:
        raise InputError(f"--spool {request.spool}", "is the target itself", DOC, "Leave it out.")


def _take_copy(source: BackupSource, place: BackupTarget, request: BackupRequest, backup: str) -> Manifest:
    """Writes the copy into `place`, without its manifest, which is returned."""
    if request.method == "snapshot":
        return _snapshot(source, place, request, backup)
    pack = request.pack or best_pack()
    physical = _mariabackup if source.flavor == "mariadb" else _clone
    manifest = (_logical if request.method == "logical" else physical)(source, place, request, backup, pack)
    if not manifest.parts:
        raise CouldNotRun(source.name, "the copy is empty", DOC, "See the server's error log.")
    return manifest


# --- runs that were killed ------------------------------------------------------------------------


def _find_previous(
    source: BackupSource, target: BackupTarget, spool: BackupTarget | None, lab: Lab | None, request: BackupRequest
) -> Manifest | None:
    """Returns the copy of a killed run that this run resumes: not older than a day, and taken with
    the same options."""
    candidates: list[Manifest] = []
    if spool is not None:
        candidates = unfinished.spooled(spool, source, request.key)
    elif request.method == "snapshot" and lab is not None:
        candidates = unfinished.stored_snapshots(target, source, lab, request.key)
    for candidate in candidates:
        alike = candidate.method == request.method and request.pack in (None, candidate.packed)
        alike = alike and candidate.encrypted == (request.key is not None) and candidate.only == request.only
        young = time.time() - candidate.began_unix < unfinished.SWEEP_S
        if alike and young and not target.exists(f"{folder_of(candidate.id)}/{documents.MANIFEST}"):
            began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(candidate.began_unix))
            request.note(f"goes on with {candidate.id}, a run that was cut off: it has the data of {began}")
            return candidate
    return None


def _clear(
    source: BackupSource,
    target: BackupTarget,
    spool: BackupTarget | None,
    lab: Lab | None,
    request: BackupRequest,
    previous: Manifest | None,
) -> None:
    """Removes the files of killed runs, and notes that, and why this run starts anew."""
    keep = previous.id if previous is not None else ""
    opened = (lambda: lab) if lab is not None else None
    leftovers = unfinished.clear(target, opened, keep)
    if spool is not None:
        leftovers += unfinished.clear(spool, opened, keep)
        for manifest in unfinished.spooled(spool, source, request.key):
            if manifest.id != keep:
                unfinished.forget(spool, manifest.id)
                leftovers.append(
                    Leftover(source.name, f"{manifest.id} in {spool.label} is not gone on with: removed it")
                )
    for leftover in leftovers:
        request.note(leftover.words)
    if previous is None and not request.anew and any(leftover.source == source.name for leftover in leftovers):
        request.note(f"starts anew: {unfinished.ANEW[request.method]}")


def _send(spool: BackupTarget, target: BackupTarget, manifest: Manifest, request: BackupRequest) -> None:
    """Copies the files of a complete copy into the target. Files that a killed run has sent are
    read back and compared, and not sent again. Raises InputError, CouldNotRun."""
    folder, present_files, sent = folder_of(manifest.id), 0, 0
    there = {file.name for file in target.list(f"{folder}/")}
    for part in manifest.parts:
        name, alone = f"{folder}/{part.name}", manifest.with_(parts=(part,))
        if name in there and _is_whole(target, alone):
            present_files += 1
        else:
            target.remove(name)
            with target.create(name, part.size) as writer:
                for piece in parts_of(spool, alone):
                    writer.write(piece)
        sent += part.size
        request.progress(sent / max(1, manifest.stored_bytes), "sending")
    if present_files:
        request.note(f"{present_files} of its {len(manifest.parts)} files were in the target already, whole")


def _is_whole(target: BackupTarget, manifest: Manifest) -> bool:
    """True when the files of a copy match their checksums."""
    try:
        return all(True for _ in parts_of(target, manifest))
    except InputError:
        return False


class PartsWriter:
    """Writes a stream as files of equal size. `done`: the complete ones."""

    def __init__(self, target: BackupTarget, backup: str, expected_bytes: int) -> None:
        self.target, self.folder = target, folder_of(backup)
        self.each = max(PART_BYTES, expected_bytes // MOST_PARTS)
        self.done: list[Part] = []
        self.expected = expected_bytes
        self._writer: TargetWriter | None = None

    def write(self, data: bytes) -> None:
        """Appends to the stream."""
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
        """Removes the incomplete file."""
        if self._writer is not None:
            self._writer.abort()
            self._writer = None


def _write_stream(target: BackupTarget, backup: str, flow: Flow, expected: int, request: BackupRequest) -> list[Part]:
    """Writes the output of the programs and returns its files."""
    parts, written = PartsWriter(target, backup, expected), 0
    try:
        with flow, contextlib.closing(ahead(flow.pieces())) as pieces:
            for piece in pieces:
                parts.write(piece)
                written += len(piece)
                request.progress(min(0.95, written / max(1, expected)), "copying")
        parts.close()
    except BaseException:
        parts.abort()
        raise
    return parts.done


def _build_manifest(
    source: BackupSource,
    request: BackupRequest,
    backup: str,
    began: float,
    position: BinlogPosition,
    *,
    form: str,
    pack: str,
    size: int,
    parts: list[Part],
    **more: object,
) -> Manifest:
    return Manifest(
        id=backup,
        method=request.method,
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
        encrypted=request.key is not None,
        data_bytes=size,
        parts=tuple(parts),
        facts=dict(more.pop("facts", {})),  # type: ignore[call-overload]
        **more,  # type: ignore[arg-type]
    )


def _describe_server(connection: pymysql.Connection, names: list[str] | None = None) -> dict[str, Any]:
    """Reads the databases, tables and settings that a manifest lists."""
    names = sources.databases(connection) if names is None else names
    return {
        "databases": tuple(names),
        "tables": sources.count_tables(connection, names),
        "settings": read_settings(connection),
    }


# --- logical --------------------------------------------------------------------------------------

# As the tools write them, at the head of a dump.
CHANGE = re.compile(rb"(?m)^-- CHANGE [^\n']*(?:MASTER|SOURCE)_LOG_FILE='([^']+)', (?:MASTER|SOURCE)_LOG_POS=(\d+)")
MARIADB_GTID = re.compile(rb"(?m)^-- SET GLOBAL gtid_slave_pos='([^']*)'")
MYSQL_GTID = re.compile(rb"GTID_PURGED=(?:/\*![^*]*\*/ *)?'\+?([^']*)'", re.DOTALL)


def _logical(source: BackupSource, target: BackupTarget, request: BackupRequest, backup: str, pack: str) -> Manifest:
    """Takes a dump in one transaction. The position must stand in it: tools have ended with exit
    code 0 without."""
    began = time.time()
    with source.connect() as connection:
        there = sources.databases(connection)
        refuse_blind(source, read_rights(connection, source), there, request.only)
        names = list(request.only) or there
        size, about = sources.data_bytes(connection, names), _describe_server(connection, names)
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
        request.pace.spent(len(piece))

    with source.client_file() as file:
        dump = Stage((*tool, f"--defaults-extra-file={file}", *words, "--databases", "--", *names), tool[-1])
        flow = Pumped(Flow([dump]), packer(pack) + cipher(request.key), look)
        parts = _write_stream(target, backup, flow, size, request)
    position = dump_position(bytes(head), bytes(tail), source.flavor, source.log_bin)
    manifest = _build_manifest(
        source, request, backup, began, position, form="sql", pack=pack, size=flow.plain_bytes, parts=parts
    )
    manifest = manifest.with_(**about, only=request.only)
    return manifest.with_(facts=manifest.facts | {"accounts": "not in a logical copy"})


def dump_position(head: bytes, tail: bytes, flavor: str, log_bin: bool) -> BinlogPosition:
    """Reads the position in a dump's first and last bytes. Raises CouldNotRun if it is missing."""
    if not log_bin:
        return BinlogPosition()
    place = CHANGE.search(head)
    if flavor == "mariadb":
        # The text of a row is never on a line of its own; that of a routine may be, but stands
        # before.
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


def _mariabackup(
    source: BackupSource, target: BackupTarget, request: BackupRequest, backup: str, pack: str
) -> Manifest:
    server = source.server
    assert server is not None
    began, size, positions = time.time(), sources.physical_bytes(server), []
    with source.connect() as connection:
        about = _describe_server(connection)

    def watch_log(line: str) -> None:
        if LOCKED.search(line):
            request.pace.free()
        if seen := POSITION.search(line):
            positions.append(BinlogPosition(seen[3], seen[1], int(seen[2])))

    tool = source.tool("mariabackup", "mariadb-backup")
    folder = Path(tempfile.gettempdir()) / f"headrace-{backup}"
    # mariabackup reads only one option file, so this file has both: the places of the server's
    # files, and the account.
    more = f"[mariabackup]\nsocket={quoted(str(server.socket))}\n"
    # It reads 10 MiB at once (10.11.19, seen by strace): 80 ms of a gp3 of 125 MiB/s, in which the
    # load waits. Through the page cache it reads in steps of the kernel's read-ahead.
    if request.pace.gentle:
        more += "innodb_flush_method=fsync\n"
    with (
        unfinished.owned(folder),
        source.client_file(f"!include {server.config_file}\n", more) as options,
        small_steps(server) if request.pace.gentle else contextlib.nullcontext(),
    ):
        folder.mkdir(mode=0o700)
        words = (*tool, f"--defaults-file={options}", "--backup", "--stream=mbstream", f"--target-dir={folder}")
        # One thread writes what it has read while the other reads.
        words += () if request.pace.gentle else ("--parallel=2",)
        copy = Flow([Stage(words, "mariabackup")], watch_log)
        flow = Pumped(copy, packer(pack) + cipher(request.key), lambda piece: request.pace.spent(len(piece)))
        parts = _write_stream(target, backup, flow, size, request)
    if source.log_bin and not positions:
        rule = "told no binary log position, so nothing could be replayed on top of the copy"
        raise CouldNotRun("mariabackup", rule, DOC, "Does the account have BINLOG MONITOR?")
    position = positions[-1] if positions else BinlogPosition()
    return _build_manifest(
        source, request, backup, began, position, form="mbstream", pack=pack, size=size, parts=parts
    ).with_(**about)


@contextlib.contextmanager
def small_steps(server: Server) -> Iterator[None]:
    """Limits the kernel's read-ahead on the data volume, so that other reads wait shortly behind
    it: two steps, doubled for a file read in order, take 1/128 s of the volume's throughput."""
    assert server.data_volume is not None
    volume = server.lab.describe(server.data_volume)
    device = Path(str((volume["attachment"] or {}).get("device", ""))).resolve().name
    knob, step_kib = Path(f"/sys/block/{device}/queue/read_ahead_kb"), int(volume["throughput_mib_s"] * 1024 / 512)
    before = ""
    with contextlib.suppress(OSError):
        before = knob.read_text()
        knob.write_text(str(max(LEAST_STEP_KIB, step_kib)))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            knob.write_text(before)


def _clone(source: BackupSource, target: BackupTarget, request: BackupRequest, backup: str, pack: str) -> Manifest:
    """Lets MySQL clone into a folder of its own machine, and sends that as a tar stream."""
    server = source.server
    assert server is not None
    began, size, user = time.time(), sources.physical_bytes(server), service_user()
    staging = Path(request.staging or server.datadir.parent / "tmp") / f"headrace-{backup}"
    if not staging.parent.is_dir():
        raise InputError(str(staging.parent), "is not a folder", DOC, "Name one that the user mysql may write to.")
    with source.connect(3600.0) as connection:
        _need_clone(connection)
        _end_clones(connection, staging.parent)
        about = _describe_server(connection)
        with unfinished.owned(staging):
            before = sources.position(connection, source)
            rows(connection, f"CLONE LOCAL DATA DIRECTORY = '{_plain(staging)}'")
            after = sources.position(connection, source)
            expected = sum(file.stat().st_size for file in staging.rglob("*") if file.is_file())
            words = (shutil.which("tar") or "tar", "--create", "--sparse", "--directory", str(staging), ".")
            tar = Flow([Stage(words, "tar", user=user)])
            flow = Pumped(tar, packer(pack) + cipher(request.key), lambda piece: request.pace.spent(len(piece)))
            parts = _write_stream(target, backup, flow, expected, request)
    # Only a server that is started on the clone can tell its position: it lies between these two.
    facts = {"position": "of the begin; the copy itself knows its own", "gtid_at_most": after.gtid}
    return _build_manifest(
        source, request, backup, began, before, form="tar", pack=pack, size=size, parts=parts, facts=facts
    ).with_(**about)


def _need_clone(connection: pymysql.Connection) -> None:
    state = rows(connection, "SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = 'clone'")
    if not state:
        rows(connection, "INSTALL PLUGIN clone SONAME 'mysql_clone.so'")


def _end_clones(connection: pymysql.Connection, folder: Path) -> None:
    """Ends the CLONE statements of killed runs: the server continues them, and accepts no other
    meanwhile."""
    text = "SELECT id, info FROM performance_schema.processlist WHERE info LIKE 'CLONE LOCAL DATA DIRECTORY%'"

    def have_ended() -> bool:
        running = [(connection_id, CLONING.fullmatch(str(info))) for connection_id, info in rows(connection, text)]
        dead = [
            connection_id
            for connection_id, match in running
            if match and unfinished.is_free(folder / f"{match[1]}.lock")
        ]
        for connection_id in dead:
            with contextlib.suppress(CouldNotRun):  # it may have ended by itself
                rows(connection, f"KILL {int(connection_id)}")
        return not dead

    wait_until(have_ended, CLONE_END_S, LOOK_EVERY_S)


def _plain(path: Path) -> str:
    """Returns a path as text for an SQL statement. Raises InputError if it needs quoting."""
    if not re.fullmatch(r"[A-Za-z0-9/._-]+", str(path)):
        rule = "CLONE is given paths of letters, digits, / . _ - alone"
        raise InputError(repr(str(path))[:120], rule, DOC, "Name another --staging folder.")
    return str(path)


# --- snapshot -------------------------------------------------------------------------------------


def _snapshot(source: BackupSource, target: BackupTarget, request: BackupRequest, backup: str) -> Manifest:
    """Takes snapshots of all volumes of a server at one instant. Its commits are blocked during the
    call, so that the position belongs to the snapshots."""
    server = source.server
    assert server is not None
    began = time.time()
    volumes = [volume for volume in (server.data_volume, server.log_volume) if volume]
    with source.connect(60.0) as connection:
        size, about = sources.data_bytes(connection), _describe_server(connection)
        lock = ["BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT"]
        if source.flavor == "mysql":
            lock = ["LOCK INSTANCE FOR BACKUP", "FLUSH TABLES WITH READ LOCK"]
        rows(connection, f"SET SESSION lock_wait_timeout = {LOCK_WAIT_S}")
        for statement in lock:
            rows(connection, statement)
        # The end of the connection releases the locks, whatever happens here.
        position = sources.position(connection, source)
        locked_at = time.monotonic()
        _write_back(connection, source, server)
        snapshots = server.lab.create_snapshots(volumes, f"headrace backup {backup}", {unfinished.TAG: backup})
        hold_s = time.monotonic() - locked_at
    ids = {str(snapshot["volume"]): str(snapshot["id"]) for snapshot in snapshots}
    if set(ids) != set(volumes):
        rule = f"answered with snapshots of {sorted(ids)}, and {sorted(volumes)} were asked for"
        raise CouldNotRun("the lab", rule, DOC, "See headrace snapshot list.")
    roles = {"data": server.data_volume} | ({"log": server.log_volume} if server.log_volume else {})
    facts = {"commits_held_ms": round(1000 * hold_s, 1), "roles": roles}
    if server.log_volume:
        facts["log_storage"] = server.log_storage
    manifest = _build_manifest(
        source,
        request,
        backup,
        began,
        position,
        form="snapshot",
        pack="none",
        size=size,
        parts=[],
        snapshots=ids,
        facts=facts,
    )
    manifest = manifest.with_(**about)
    # If this run is killed while the snapshots are stored, the next run resumes with them.
    write_manifest(target, manifest, request.key, documents.BEGUN)
    return manifest


def _write_back(connection: pymysql.Connection, source: BackupSource, server: Server) -> None:
    """Flushes everything that was committed up to the position to the volumes: with the fast
    settings of innodb_flush_log_at_trx_commit and sync_binlog it may be in memory only."""
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


def _wait_completed(lab: Lab, snapshots: list[str]) -> None:
    """Waits until the snapshots are in the store: a pending one is not a backup yet."""

    def is_completed(snapshot: str) -> bool:
        state = lab.describe_snapshot(snapshot)["state"]
        if state not in ("pending", "completed"):
            raise CouldNotRun(snapshot, f"is {state}: it is not a backup", DOC, "See headrace snapshot list.")
        return state == "completed"

    # Each look asks for all: one that has failed is seen while others are pending.
    wait_until(lambda: all([is_completed(snapshot) for snapshot in snapshots]), math.inf, LOOK_EVERY_S)
