"""Taking a backup: a copy is made by the server's own tool, packed, encrypted, written in files of
one size with their checksums, and last of all the manifest.

    logical    mariadb-dump, mysqldump: statements; any server that can be reached
    physical   mariabackup (MariaDB), CLONE (MySQL): files; a server of the lab
    snapshot   the volumes of a server of the lab, at one instant under a lock

With `spool` the first two are finished in a folder of this machine, and sent from there. A run that
was killed leaves files without a manifest, which nobody takes for a backup: `unfinished` says what
the next run goes on with, and removes the rest.
"""

from __future__ import annotations

import contextlib
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
from headrace.connect.option_files import quoted
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
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
    """How fast a copy may go; `pacing.Pacer` is one. `gentle`: the load counts more than it."""

    gentle: bool

    def spent(self, count: int) -> None:
        """Called after `count` bytes were read: waits as long as it must."""
        ...

    def free(self) -> None:
        """From now on it does not wait: the server is held up."""
        ...


class Unpaced:
    """Nothing slows the copy."""

    gentle = False

    def spent(self, count: int) -> None:
        """Goes on at once."""

    def free(self) -> None:
        """Nothing to free."""


@dataclass(frozen=True)
class Wanted:
    """How a backup is taken. `pack`: zstd, none, or None for the best there is. `staging`: where
    CLONE copies to. `spool`: a folder where the copy is finished before it is sent. `anew`: goes on
    with no run that was killed. `only`: the databases of a logical copy of a part of its server."""

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


def run(source: BackupSource, target: BackupTarget, wanted: Wanted) -> Manifest:
    """Takes a backup, or goes on with that of a run that was killed. Raises InputError,
    CouldNotRun; then there is none, and nothing is left but a whole copy in `spool`."""
    _refuse(source, target, wanted)
    spool = FolderTarget(wanted.spool) if wanted.spool is not None else None
    lab = source.server.lab if source.server is not None else None
    held = None if wanted.anew else _held(source, target, spool, lab, wanted)
    _clear(source, target, spool, lab, wanted, held)
    backup = held.id if held is not None else new_id(source.name)
    tagged = lab if wanted.method == "snapshot" else None
    places = [target] if spool is None else [target, spool]
    try:
        with contextlib.ExitStack() as marks:
            for place in places:
                marks.enter_context(unfinished.marked(place, backup, source.name, tagged))
            made = held if held is not None else _taken(source, places[-1], wanted, backup)
            if spool is not None:
                if held is None:
                    write_manifest(spool, made, wanted.key)
                _send(spool, target, made, wanted)
            if made.snapshots and lab is not None:
                _completed(lab, list(made.snapshots.values()))
            write_manifest(target, made, wanted.key)
    except BaseException as error:
        damaged = isinstance(error, InputError) and error.kind == DAMAGED
        if spool is not None and not damaged and spool.exists(f"{folder_of(backup)}/{documents.MANIFEST}"):
            wanted.note(f"the copy {backup} is whole in {spool.folder}: run it again to go on with sending it")
            with contextlib.suppress(HeadraceError, OSError):
                for place in reversed(places):
                    unfinished.unmark(place, backup)
        else:
            for place in reversed(places):
                unfinished.forget_quietly(place, backup, tagged)
        raise
    # From here on there is a backup, whatever happens: what is left over the next run removes.
    with contextlib.suppress(HeadraceError, OSError):
        unfinished.unmark(target, backup)
        if spool is not None:
            unfinished.forget(spool, backup)
    return made


def _refuse(source: BackupSource, target: BackupTarget, wanted: Wanted) -> None:
    """Raises InputError for what cannot be taken."""
    if wanted.method not in documents.METHODS:
        raise InputError(wanted.method[:40], f"a method is one of {', '.join(documents.METHODS)}", DOC, "")
    sources.refuse_method(source, wanted.method)
    if wanted.only and wanted.method != "logical":
        rule = f"is for logical copies: a {wanted.method} copy has the whole server"
        raise InputError(f"--only {wanted.only[0][:64]}", rule, DOC, "Take --method logical, or leave it out.")
    if wanted.method == "snapshot" and wanted.spool is not None:
        rule = "is for copies that are sent, and snapshots stay in the store of the lab"
        raise InputError(f"--spool {wanted.spool}", rule, DOC, "Leave it out.")
    if isinstance(target, FolderTarget) and wanted.spool == target.folder:
        raise InputError(f"--spool {wanted.spool}", "is the target itself", DOC, "Leave it out.")


def _taken(source: BackupSource, place: BackupTarget, wanted: Wanted, backup: str) -> Manifest:
    """The copy, whole in `place` but for its manifest."""
    if wanted.method == "snapshot":
        return _snapshot(source, place, wanted, backup)
    pack = wanted.pack or best_pack()
    physical = _mariabackup if source.flavor == "mariadb" else _clone
    made = (_logical if wanted.method == "logical" else physical)(source, place, wanted, backup, pack)
    if not made.parts:
        raise CouldNotRun(source.name, "the copy is empty", DOC, "See the server's error log.")
    return made


# --- runs that were killed ------------------------------------------------------------------------


def _held(
    source: BackupSource, target: BackupTarget, spool: BackupTarget | None, lab: Lab | None, wanted: Wanted
) -> Manifest | None:
    """The copy of a killed run that this one goes on with: of today, as it would take it now."""
    found: list[Manifest] = []
    if spool is not None:
        found = unfinished.spooled(spool, source, wanted.key)
    elif wanted.method == "snapshot" and lab is not None:
        found = unfinished.stored_snapshots(target, source, lab, wanted.key)
    for one in found:
        alike = one.method == wanted.method and wanted.pack in (None, one.packed)
        alike = alike and one.encrypted == (wanted.key is not None) and one.only == wanted.only
        young = time.time() - one.began_unix < unfinished.SWEEP_S
        if alike and young and not target.exists(f"{folder_of(one.id)}/{documents.MANIFEST}"):
            began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.began_unix))
            wanted.note(f"goes on with {one.id}, a run that was cut off: it has the data of {began}")
            return one
    return None


def _clear(
    source: BackupSource,
    target: BackupTarget,
    spool: BackupTarget | None,
    lab: Lab | None,
    wanted: Wanted,
    held: Manifest | None,
) -> None:
    """Removes what killed runs left, says so, and why this run starts anew."""
    keep = held.id if held is not None else ""
    opened = (lambda: lab) if lab is not None else None
    left = unfinished.clear(target, opened, keep)
    if spool is not None:
        left += unfinished.clear(spool, opened, keep)
        for one in unfinished.spooled(spool, source, wanted.key):
            if one.id != keep:
                unfinished.forget(spool, one.id)
                left.append(Leftover(source.name, f"{one.id} in {spool.label} is not gone on with: removed it"))
    for one in left:
        wanted.note(one.words)
    if held is None and not wanted.anew and any(one.source == source.name for one in left):
        wanted.note(f"starts anew: {unfinished.ANEW[wanted.method]}")


def _send(spool: BackupTarget, target: BackupTarget, made: Manifest, wanted: Wanted) -> None:
    """Copies the files of a whole copy into the target. What a killed run has sent is read back and
    compared, and not sent again. Raises InputError, CouldNotRun."""
    folder, kept, sent = folder_of(made.id), 0, 0
    there = {one.name for one in target.list(f"{folder}/")}
    for part in made.parts:
        name, alone = f"{folder}/{part.name}", made.with_(parts=(part,))
        if name in there and _is_whole(target, alone):
            kept += 1
        else:
            target.remove(name)
            with target.create(name, part.size) as writer:
                for piece in parts_of(spool, alone):
                    writer.write(piece)
        sent += part.size
        wanted.progress(sent / max(1, made.stored_bytes), "sending")
    if kept:
        wanted.note(f"{kept} of its {len(made.parts)} files were in the target already, whole")


def _is_whole(target: BackupTarget, made: Manifest) -> bool:
    """Whether the files of a copy are as they were written."""
    try:
        return all(True for _ in parts_of(target, made))
    except InputError:
        return False


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
    parts, written = PartsWriter(target, backup, expected), 0
    try:
        with flow, contextlib.closing(ahead(flow.pieces())) as pieces:
            for piece in pieces:
                parts.write(piece)
                written += len(piece)
                wanted.progress(min(0.95, written / max(1, expected)), "copying")
        parts.close()
    except BaseException:
        parts.abort()
        raise
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


def _about(connection: pymysql.Connection, names: list[str] | None = None) -> dict[str, Any]:
    """Asks what a manifest says of its server: databases, tables, settings."""
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


def _logical(source: BackupSource, target: BackupTarget, wanted: Wanted, backup: str, pack: str) -> Manifest:
    """A dump in one transaction. Its position must stand in it: tools have ended well without."""
    began = time.time()
    with source.connect() as connection:
        there = sources.databases(connection)
        refuse_blind(source, read_rights(connection, source), there, wanted.only)
        names = list(wanted.only) or there
        size, about = sources.data_bytes(connection, names), _about(connection, names)
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
    made = _made(source, wanted, backup, began, position, "sql", pack, flow.plain_bytes, parts)
    made = made.with_(**about, only=wanted.only)
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
    with source.connect() as connection:
        about = _about(connection)

    def heard(line: str) -> None:
        if LOCKED.search(line):
            wanted.pace.free()
        if seen := POSITION.search(line):
            found.append(BinlogPosition(seen[3], seen[1], int(seen[2])))

    tool = source.tool("mariabackup", "mariadb-backup")
    folder = Path(tempfile.gettempdir()) / f"headrace-{backup}"
    # Of two option files mariabackup reads one, so this one has both: where the server's files are,
    # and as whom to log in.
    more = f"[mariabackup]\nsocket={quoted(str(server.socket))}\n"
    # It reads 10 MiB at once (10.11.19, seen by strace): 80 ms of a gp3 of 125 MiB/s, in which the
    # load waits. Through the page cache it reads in steps of the kernel's read-ahead.
    if wanted.pace.gentle:
        more += "innodb_flush_method=fsync\n"
    with (
        unfinished.owned(folder),
        source.client_file(f"!include {server.config_file}\n", more) as options,
        small_steps(server) if wanted.pace.gentle else contextlib.nullcontext(),
    ):
        folder.mkdir(mode=0o700)
        words = (*tool, f"--defaults-file={options}", "--backup", "--stream=mbstream", f"--target-dir={folder}")
        # While one thread writes what it has read, the other one reads.
        words += () if wanted.pace.gentle else ("--parallel=2",)
        copy = Flow([Stage(words, "mariabackup")], heard)
        flow = Pumped(copy, packer(pack) + cipher(wanted.key), lambda piece: wanted.pace.spent(len(piece)))
        parts = _stream(target, backup, flow, size, wanted)
    if source.log_bin and not found:
        rule = "told no binary log position, so nothing could be replayed on top of the copy"
        raise CouldNotRun("mariabackup", rule, DOC, "Does the account have BINLOG MONITOR?")
    position = found[-1] if found else BinlogPosition()
    return _made(source, wanted, backup, began, position, "mbstream", pack, size, parts).with_(**about)


@contextlib.contextmanager
def small_steps(server: Server) -> Iterator[None]:
    """The kernel reads ahead on the data volume by no more than the volume has ready for others to
    wait behind: two steps, doubled for a file read in order, take 1/128 s of its throughput."""
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


def _clone(source: BackupSource, target: BackupTarget, wanted: Wanted, backup: str, pack: str) -> Manifest:
    """MySQL clones into a folder of its own machine; that is sent as one tar stream."""
    server = source.server
    assert server is not None
    began, size, user = time.time(), sources.physical_bytes(server), service_user()
    staging = Path(wanted.staging or server.datadir.parent / "tmp") / f"headrace-{backup}"
    if not staging.parent.is_dir():
        raise InputError(str(staging.parent), "is not a folder", DOC, "Name one that the user mysql may write to.")
    with source.connect(3600.0) as connection:
        _need_clone(connection)
        _end_clones(connection, staging.parent)
        about = _about(connection)
        with unfinished.owned(staging):
            before = sources.position(connection, source)
            rows(connection, f"CLONE LOCAL DATA DIRECTORY = '{_plain(staging)}'")
            after = sources.position(connection, source)
            expected = sum(one.stat().st_size for one in staging.rglob("*") if one.is_file())
            words = (shutil.which("tar") or "tar", "--create", "--sparse", "--directory", str(staging), ".")
            tar = Flow([Stage(words, "tar", user=user)])
            flow = Pumped(tar, packer(pack) + cipher(wanted.key), lambda piece: wanted.pace.spent(len(piece)))
            parts = _stream(target, backup, flow, expected, wanted)
    # CLONE tells its position to a server that is started on it alone: it lies between these two.
    facts = {"position": "of the begin; the copy itself knows its own", "gtid_at_most": after.gtid}
    return _made(source, wanted, backup, began, before, "tar", pack, size, parts, facts=facts).with_(**about)


def _need_clone(connection) -> None:
    state = rows(connection, "SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = 'clone'")
    if not state:
        rows(connection, "INSTALL PLUGIN clone SONAME 'mysql_clone.so'")


def _end_clones(connection, folder: Path) -> None:
    """Ends the CLONE statements of runs that were killed: the server goes on with them, and takes
    no other one meanwhile."""
    text = "SELECT id, info FROM performance_schema.processlist WHERE info LIKE 'CLONE LOCAL DATA DIRECTORY%'"
    until = time.monotonic() + CLONE_END_S
    while time.monotonic() < until:
        running = [(one, CLONING.fullmatch(str(info))) for one, info in rows(connection, text)]
        dead = [one for one, found in running if found and unfinished.is_free(folder / f"{found[1]}.lock")]
        if not dead:
            return
        for one in dead:
            with contextlib.suppress(CouldNotRun):  # it may have ended by itself
                rows(connection, f"KILL {int(one)}")
        time.sleep(LOOK_EVERY_S)


def _plain(path: Path) -> str:
    """A path as it may stand in a statement. Raises InputError."""
    if not re.fullmatch(r"[A-Za-z0-9/._-]+", str(path)):
        rule = "CLONE is given paths of letters, digits, / . _ - alone"
        raise InputError(repr(str(path))[:120], rule, DOC, "Name another --staging folder.")
    return str(path)


# --- snapshot -------------------------------------------------------------------------------------


def _snapshot(source: BackupSource, target: BackupTarget, wanted: Wanted, backup: str) -> Manifest:
    """All volumes of a server at one instant, while its commits are held back for the moment of the
    call, so that the position is theirs."""
    server = source.server
    assert server is not None
    began = time.time()
    volumes = [one for one in (server.data_volume, server.log_volume) if one]
    with source.connect(60.0) as connection:
        size, about = sources.data_bytes(connection), _about(connection)
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
        made = server.lab.create_snapshots(volumes, f"headrace backup {backup}", {unfinished.TAG: backup})
        held = time.monotonic() - held
    ids = {str(one["volume"]): str(one["id"]) for one in made}
    if set(ids) != set(volumes):
        rule = f"answered with snapshots of {sorted(ids)}, and {sorted(volumes)} were asked for"
        raise CouldNotRun("the lab", rule, DOC, "See headrace snapshot list.")
    roles = {"data": server.data_volume} | ({"log": server.log_volume} if server.log_volume else {})
    facts = {"commits_held_ms": round(1000 * held, 1), "roles": roles}
    if server.log_volume:
        facts["log_storage"] = server.log_storage
    found = _made(source, wanted, backup, began, position, "snapshot", "none", size, [], snapshots=ids, facts=facts)
    found = found.with_(**about)
    # While they are stored this run may be killed: then the next one goes on with them.
    write_manifest(target, found, wanted.key, documents.BEGUN)
    return found


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


def _completed(lab: Lab, snapshots: list[str]) -> None:
    """Waits until the snapshots are in the store: a pending one is not a backup yet."""
    waiting = set(snapshots)
    while waiting:
        for one in sorted(waiting):
            state = lab.describe_snapshot(one)["state"]
            if state == "completed":
                waiting.discard(one)
            elif state != "pending":
                raise CouldNotRun(one, f"is {state}: it is not a backup", DOC, "See headrace snapshot show.")
        time.sleep(LOOK_EVERY_S)
