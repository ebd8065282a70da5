"""Restoring a backup onto a new server of the lab, to any moment.

1. the backup's manifest, its fit to the server, and every binary log that is needed: tested first
   (a restore that fails because of the backup is kept as a proof that failed)
2. a new server from the copy; it is read-only and runs no events, so it writes no GTID of its own
3. replay as relay logs, by parallel workers
4. the GTIDs it has executed must be exactly those that were meant

A name that has data already is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.base.machine import cores
from headrace.base.processes import Command, run_checked
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.servers import record as records
from headrace.servers import server as running_servers
from headrace.servers import volumes
from headrace.servers.access import service_user
from headrace.servers.backup.history import archive, moments
from headrace.servers.backup.history.moments import ReplayPlan, RestoreGoal
from headrace.servers.backup.manifest import (
    Manifest,
    Part,
    RestoreProof,
    folder_of,
    new_id,
    read_manifest,
    sealed,
    write_proof,
)
from headrace.servers.backup.pipeline import EXITED, Flow, Stage, cipher, unpacker
from headrace.servers.backup.settings import OtherSetting, as_options, others
from headrace.servers.backup.source import ANSWER_S, BackupSource, executed, rows, source_of
from headrace.servers.backup.targets.target import BROKEN, DAMAGED, DOC, MISSING, BackupTarget
from headrace.servers.backup.unfinished import owned
from headrace.servers.datadir import FORMAT as SAVED_FORMAT
from headrace.servers.datadir import SAVED
from headrace.servers.flavors import ServerProgram, find_program
from headrace.servers.running import READY_S, Progress, quiet
from headrace.servers.server import Server
from headrace.servers.topology.gtid import GtidSet
from headrace.servers.topology.threads import stop_applying

# --prepare applies the redo of the time the copy took: minutes for a large one (a guess).
PREPARE_S = 3_600.0
# How often the replay is looked at, and how long it may stand still, s (guesses: one transaction
# can be an ALTER TABLE of hours, so only a stopped applier ends the wait).
LOOK_EVERY_S = 0.2
# The largest max_allowed_packet of both flavors, bytes (MySQL and MariaDB manuals).
MOST_PACKET = 1 << 30
# While it is restored: nothing writes but the replay. Taken out of its record afterwards.
HELD = {"read_only": "ON", "event_scheduler": "OFF"}
# Set by the restore itself where the new server has a binary log: not compared.
RESTORE_OWN = ("server_id",)


@dataclass(frozen=True)
class RestoreRequest:
    """What is restored, where to. `workers`: of the replay, None: twice the processors."""

    backup: str
    name: str
    storage: str
    goal: RestoreGoal | None = None
    timeline: str | None = None
    log_storage: str | None = None
    memory_gib: float | None = None
    settings: Mapping[str, str | None] = field(default_factory=dict)
    server_path: str | None = None
    unpaced: bool = False
    workers: int | None = None
    work: Path | None = None
    read_only: bool = False


@dataclass(frozen=True)
class Restored:
    """A restored server. `copy_s`, `replay_s`: what they took. `otherwise`: its settings that are
    not those of its source."""

    server: Server
    manifest: Manifest
    replay: ReplayPlan | None
    executed: GtidSet
    copy_s: float
    replay_s: float
    otherwise: tuple[OtherSetting, ...] = ()


def restore(
    lab: Lab, target: BackupTarget, wanted: RestoreRequest, key: bytes | None = None, progress: Progress = quiet
) -> Restored:
    """Restores. Raises InputError, CouldNotRun; then nothing is left of the new server. Where the
    backup itself is at fault that is kept as its proof: no older one counts any more."""
    try:
        return _restore(lab, target, wanted, key, progress)
    except HeadraceError as error:
        if error.kind in (DAMAGED, BROKEN):
            with contextlib.suppress(HeadraceError, OSError):
                manifest = read_manifest(target, wanted.backup, key)
                said = f"restore: {error.value}: {error.rule}"
                failed = RestoreProof(time.time(), 0.0, "", 0, "", "", False, said, manifest.part)
                write_proof(target, wanted.backup, failed, key)
        raise


def _restore(lab: Lab, target: BackupTarget, wanted: RestoreRequest, key: bytes | None, progress: Progress) -> Restored:
    manifest = read_manifest(target, wanted.backup, key)
    if manifest.only and wanted.goal is not None:
        rule = f"is a part of its server ({manifest.part}), and the binary log changes what it has not"
        raise InputError(manifest.id, rule, DOC, "Restore it as it is: without --to-gtid, --to-time and --latest.")
    program = checked_fit(manifest, wanted.server_path)
    check_sizes(target, manifest)
    where = records.server_paths(records.data_dir_of(lab), wanted.name)
    if records.load(where) is not None or where.data_mount.exists() and any(where.data_mount.iterdir()):
        rule = "is there already: a restore never writes over data"
        raise InputError(wanted.name, rule, DOC, "Name a new server: --as NAME.")
    with _work(wanted.work, manifest) as work:
        replay = None
        if wanted.goal is not None:
            replay = _collected(target, manifest, wanted, key, work, progress)
            if _position_is_own(manifest):
                # Tested from where the copy began; made again once the copy has told its place.
                replay = None
                shutil.rmtree(work / "relay")
        began = time.monotonic()
        try:
            server = _base(lab, target, manifest, program, wanted, key, work, progress)
            copied = time.monotonic()
            source = source_of(server.address(), wanted.name, server)
            base = _begun(source, manifest)
            if wanted.goal is not None and replay is None:
                replay = _collected(target, manifest, wanted, key, work, progress, base)
            if replay is not None:
                play(source, replay, wanted.workers, progress)
            with source.connect() as connection:
                found = executed(connection, source)
                otherwise = tuple(others(connection, manifest.settings, (*wanted.settings, *RESTORE_OWN)))
            _check_exact(manifest, replay, base, found)
            released = _released(lab, source, wanted)
            return Restored(released, manifest, replay, found, copied - began, time.monotonic() - copied, otherwise)
        except BaseException as error:
            no_room = ""
            with contextlib.suppress(HeadraceError):
                if (known := records.load(where)) is not None:
                    no_room = volumes.no_room_below(lab) or "; ".join(volumes.full(lab, where, known))
                    running_servers.destroy(running_servers.find(lab, wanted.name))
            if no_room and isinstance(error, CouldNotRun) and error.kind != DAMAGED:
                # That says nothing about the backup.
                raise CouldNotRun(error.value, error.rule, error.source, no_room) from error
            raise


def checked_fit(manifest: Manifest, server_path: str | None = None) -> ServerProgram:
    """The server program for a backup. Raises InputError where it is of another version."""
    program = find_program(manifest.flavor, server_path)
    if program.flavor != manifest.flavor:
        raise InputError(manifest.id, f"is of {manifest.flavor}, and {program.path} is not", DOC, "")
    ours, theirs = program.version[:2], manifest.series
    if manifest.method != "logical" and ours != theirs:
        rule = f"holds files of {manifest.flavor} {manifest.version}, and this server is {program.label}"
        hint = "Files are tied to the series: restore with that one (--server-path), or take a logical backup."
        raise InputError(manifest.id, rule, DOC, hint)
    if ours < theirs:
        rule = f"is of {manifest.flavor} {manifest.version}, newer than this server, {program.label}"
        raise InputError(manifest.id, rule, DOC, "Restore with that version or a newer one: --server-path.")
    return program


def _position_is_own(manifest: Manifest) -> bool:
    """Whether only the copy itself, started, knows its position (CLONE)."""
    return "gtid_at_most" in manifest.facts


def _collected(
    target: BackupTarget,
    manifest: Manifest,
    wanted: RestoreRequest,
    key: bytes | None,
    work: Path,
    progress: Progress,
    base: GtidSet | None = None,
) -> ReplayPlan:
    """All that is to be replayed, tested and on the disk."""
    assert wanted.goal is not None
    moment = wanted.goal.moment_us
    # A dump stands where it began, and no copy stands before that.
    if moment is not None and moment < manifest.began_unix * moments.SECOND_US:
        raise moments.before_base(moment, "its own time")
    at = base or GtidSet.parse(manifest.position.gtid, manifest.flavor)
    chosen = moments.choose(archive.timelines(target, key), manifest, at, wanted.timeline, wanted.goal)
    folder = work / "relay"
    folder.mkdir()
    told = lambda share: progress(0.1 * share, "testing the binary logs")  # noqa: E731
    return moments.collect(target, chosen, at, wanted.goal, folder, key, told)


@contextmanager
def _work(folder: Path | None, manifest: Manifest) -> Iterator[Path]:
    """A folder for what is unpacked, removed afterwards. Raises CouldNotRun without room."""
    if folder is not None and not folder.is_dir():
        raise InputError(str(folder), "is not a folder", DOC, "Name one with room for the data: --work.")
    made = (folder or Path(tempfile.gettempdir())) / f"headrace-{new_id(manifest.source)}"
    with owned(made):
        made.mkdir(mode=0o700)
        free = shutil.disk_usage(made).free
        if manifest.method == "physical" and manifest.data_bytes > free:
            rule = (
                f"has {free / 2**30:,.1f} GiB free, and the copy takes {manifest.data_bytes / 2**30:,.1f} GiB unpacked"
            )
            raise CouldNotRun(str(made.parent), rule, DOC, "Name another folder: --work.")
        yield made


# --- the copy -------------------------------------------------------------------------------------


def check_sizes(target: BackupTarget, manifest: Manifest) -> None:
    """Raises InputError for a file of a copy that is missing or cut, without reading any."""
    sizes = {one.name: one.size for one in target.list(f"{folder_of(manifest.id)}/")}
    for part in manifest.parts:
        name = f"{folder_of(manifest.id)}/{part.name}"
        if name not in sizes:
            raise _damaged(target, name, "it is not there")
        if sizes[name] != part.size:
            raise _damaged(target, name, f"it has {sizes[name]:,} bytes and should have {part.size:,}")


class CopyReader:
    """The bytes of a copy, file by file, each against its checksum. Raises InputError, once a file
    is read, where it is not as it was written. `tell`: told how many bytes were read."""

    def __init__(
        self, target: BackupTarget, manifest: Manifest, tell: Callable[[int], None] = lambda count: None
    ) -> None:
        self.target, self.manifest, self.tell = target, manifest, tell
        self._rest: Iterator[bytes] = iter(())

    def __iter__(self) -> Iterator[bytes]:
        for part in self.manifest.parts:
            self._rest = self._file(part)
            # No `yield from`: a reader that leaves would close the file, which `finish_file` reads.
            for piece in self._rest:  # noqa: UP028
                yield piece

    def finish_file(self) -> None:
        """Reads the file that it is at to its end. Raises InputError for a damaged one: then that
        is why a program that was given its bytes has failed."""
        for _ in self._rest:
            pass

    def _file(self, part: Part) -> Iterator[bytes]:
        name, counted, size = f"{folder_of(self.manifest.id)}/{part.name}", hashlib.sha256(), 0
        try:
            for piece in self.target.read(name):
                counted.update(piece)
                size += len(piece)
                self.tell(len(piece))
                yield piece
        except InputError as error:
            if error.kind != MISSING:
                raise
            raise _damaged(self.target, name, "it is not there") from None
        if size != part.size:
            raise _damaged(self.target, name, f"it has {size:,} bytes and should have {part.size:,}")
        if counted.hexdigest() != part.sha256:
            raise _damaged(self.target, name, "its checksum is another")


def _damaged(target: BackupTarget, name: str, what: str) -> InputError:
    hint = "Copy the file back from another copy of the target, or take another backup; `headrace backup verify` "
    return InputError(f"{target.label}/{name}", f"is damaged: {what}", DOC, f"{hint}names all damage.", kind=DAMAGED)


def parts_of(target: BackupTarget, manifest: Manifest, tell=lambda count: None) -> Iterator[bytes]:
    """The bytes of a copy. Raises InputError at the first file that is not as it was written."""
    return iter(CopyReader(target, manifest, tell))


def _base(
    lab: Lab,
    target: BackupTarget,
    manifest: Manifest,
    program: ServerProgram,
    wanted: RestoreRequest,
    key: bytes | None,
    work: Path,
    progress: Progress,
) -> Server:
    settings = _settings(manifest, program, wanted)
    new = {
        "name": wanted.name,
        "flavor": manifest.flavor,
        "storage": wanted.storage,
        "log_storage": wanted.log_storage,
        "memory_gib": wanted.memory_gib,
        "settings": settings,
        "server_path": wanted.server_path,
        "unpaced": wanted.unpaced,
        "progress": progress,
    }
    back = cipher(key if manifest.encrypted else None, back=True) + unpacker(manifest.packed)
    told = _Told(progress, manifest.stored_bytes)
    if manifest.method == "snapshot":
        return running_servers.up(lab, **{**new, **seeds(manifest, wanted)})
    if manifest.method == "logical":
        server = running_servers.up(lab, **new)
        _load(server, manifest, CopyReader(target, manifest, told), back)
        return server
    seed = work / "seed"
    (seed / "data").mkdir(parents=True)
    (seed / "log").mkdir()
    unpack = ("mbstream", "-x", "-C", str(seed / "data"))
    if manifest.form == "tar":
        unpack = (shutil.which("tar") or "tar", "--extract", "--sparse", "--directory", str(seed / "data"))
    copy = CopyReader(target, manifest, told)
    try:
        with Flow([*back, Stage(unpack, unpack[0])]) as flow:
            flow.feed(copy, broken=copy.finish_file)
    except CouldNotRun as error:
        if error.kind == EXITED:  # every byte is as it was written, and it cannot be unpacked
            error.kind = BROKEN
        raise
    progress(0.5, "preparing the copy")
    _prepare(seed, manifest, program)
    try:
        return running_servers.up(lab, seed_from=seed, **new)
    finally:
        shutil.rmtree(seed, ignore_errors=True)


def seeds(manifest: Manifest, wanted: RestoreRequest) -> dict[str, Any]:
    """From which snapshots the volumes of a new server are made. Raises InputError where it cannot
    be known, or the new server has no place for the log."""
    roles = manifest.facts.get("roles")
    if len(manifest.snapshots) == 1:
        return {"seed_from": next(iter(manifest.snapshots.values()))}
    if not isinstance(roles, dict) or set(roles.values()) != set(manifest.snapshots) or set(roles) != {"data", "log"}:
        rule = f"is of {len(manifest.snapshots)} volumes, and does not say which has the data"
        raise InputError(manifest.id, rule, DOC, "Restore the volumes: headrace snapshot. Newer backups say it.")
    log_storage = wanted.log_storage or manifest.facts.get("log_storage")
    if not log_storage:
        rule = "has its logs on a volume of their own"
        raise InputError(manifest.id, rule, DOC, "Name one for the new server: --log-storage.")
    return {
        "seed_from": manifest.snapshots[roles["data"]],
        "log_seed_from": manifest.snapshots[roles["log"]],
        "log_storage": str(log_storage),
    }


class _Told:
    """Progress by bytes."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.done = progress, max(1, total), 0

    def __call__(self, count: int) -> None:
        self.done += count
        self.progress(0.1 + 0.4 * self.done / self.total, "unpacking the copy")


def _settings(manifest: Manifest, program: ServerProgram, wanted: RestoreRequest) -> dict[str, str | None]:
    """The source's settings, the user's, and those of the restore: a server id of its own (events
    of the same id would be passed over), GTIDs on, nothing that writes."""
    settings = as_options(program, manifest.settings, wanted.settings)
    given = {str(name).replace("-", "_") for name in wanted.settings}
    if "server_id" not in given:
        settings["server_id"] = str(random.SystemRandom().randrange(1 << 24, 1 << 31))
    if manifest.position.file:
        if manifest.flavor == "mysql":
            settings |= {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
        elif not given & {"log_bin", "skip_log_bin"}:
            settings |= {"log_bin": "ON"}
    return {**settings, **wanted.settings, **HELD}


def _prepare(seed: Path, manifest: Manifest, program: ServerProgram) -> None:
    """Makes files of a copy what a server that was shut down leaves, as `seed_from` wants it."""
    data, log = seed / "data", seed / "log"
    if manifest.form == "mbstream":
        tool = program.tool("mariabackup", "mariadb-backup")
        if tool is None:
            raise CouldNotRun("mariabackup", "is not installed", DOC, "apt-get install mariadb-backup")
        command = Command((*tool, "--prepare", f"--target-dir={data}"), what="mariabackup --prepare")
        run_checked(command, PREPARE_S, "Is there room?")
        for left in [*data.glob("xtrabackup_*"), *data.glob("mariadb_backup_*"), *data.glob("backup-my.cnf")]:
            left.unlink()
        moved = list(data.glob("ib_logfile*"))
    else:
        moved = [one for one in (data / "#innodb_redo",) if one.exists()]
    for one in moved:
        os.rename(one, log / one.name)
    about = {"flavor": manifest.flavor, "version": list(program.version), "engine": "innodb"}
    (seed / SAVED).write_bytes(sealed({"format": SAVED_FORMAT} | about))


def _load(server: Server, manifest: Manifest, copy: CopyReader, back: list[Stage]) -> None:
    """Gives a dump to the server's client; none of it goes to the binary log."""
    more = ("--binary-mode", f"--max-allowed-packet={MOST_PACKET}", "--init-command=SET SESSION sql_log_bin=0")
    words = running_servers.client_command(server, more)
    with source_of(server.address(), server.name, server).connect() as connection:
        # A row of a dump is text, in hexadecimal twice as long as what the source took in a packet.
        before = rows(connection, "SELECT @@GLOBAL.max_allowed_packet")[0][0]
        rows(connection, f"SET GLOBAL max_allowed_packet = {MOST_PACKET}")
        try:
            with Flow([*back, Stage(tuple(words), "the client")]) as flow:
                flow.feed(copy, broken=copy.finish_file)
        finally:
            with contextlib.suppress(CouldNotRun):
                rows(connection, f"SET GLOBAL max_allowed_packet = {before}")


def _begun(source: BackupSource, manifest: Manifest) -> GtidSet:
    """Tells the server its place in the history; what it has executed. Raises CouldNotRun where its
    data say otherwise than the manifest."""
    wanted = GtidSet.parse(manifest.position.gtid, manifest.flavor)
    with source.connect(READY_S) as connection:
        if manifest.flavor == "mariadb" or manifest.method == "logical":
            if manifest.position.file:
                for statement in source.dialect.begin_at(wanted):
                    rows(connection, statement)
            return wanted
        found = executed(connection, source)
    most = GtidSet.parse(str(manifest.facts.get("gtid_at_most", manifest.position.gtid)), manifest.flavor)
    if not found.contains(wanted) or not most.contains(found):
        rule = f"the restored server has executed {found}, and the copy should have {wanted}"
        raise CouldNotRun(manifest.id, rule, DOC, "Use another backup.", kind=BROKEN)
    return found


# --- replay ---------------------------------------------------------------------------------------


def play(source: BackupSource, replay: ReplayPlan, workers: int | None, progress: Progress = quiet) -> None:
    """Replays relay logs with parallel workers. Raises CouldNotRun with the applier's words."""
    server = source.server
    assert server is not None
    if not replay.logs:
        return
    count = workers if workers is not None else 2 * cores()
    with source.connect(READY_S) as connection:
        (own,), *_ = rows(connection, "SELECT @@server_id")
        if own in replay.server_ids:
            rule = f"is also the id of a server in the binary log: its events would be passed over (server_id {own})"
            raise InputError(server.name, rule, DOC, "Restore with --set server_id=N, another one.")
        before = _hurry(connection, source, count)
        try:
            first = _placed(connection, source, replay)
            _start(connection, source, first)
            _wait(connection, source, replay, progress)
        finally:
            with contextlib.suppress(HeadraceError):
                _forget(connection, source)
                for name, value in before.items():
                    rows(connection, f"SET GLOBAL {name} = {value}")


def _hurry(connection, source: BackupSource, workers: int) -> dict[str, str]:
    """Sets workers and, while nobody relies on it, fewer flushes; what it was before."""
    wanted = {"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2"}
    if source.flavor == "mariadb":
        # Optimistic finds parallel work where the source had none, and rolls back on conflict.
        wanted |= {"slave_parallel_threads": str(workers), "slave_parallel_mode": "'optimistic'"}
    else:
        wanted |= {"replica_parallel_workers": str(max(1, workers)), "replica_preserve_commit_order": "1"}
    before = {}
    for name, value in wanted.items():
        old = rows(connection, f"SELECT @@GLOBAL.{name}")[0][0]
        before[name] = f"'{old}'" if isinstance(old, str) else str(old)
        rows(connection, f"SET GLOBAL {name} = {value}")
    return before


def _change(source: BackupSource, more: str = "") -> str:
    host = "'replay.invalid'"  # RFC 2606: never a host; the receiver is never started
    if source.flavor == "mariadb":
        return f"CHANGE MASTER TO MASTER_HOST = {host}, MASTER_USE_GTID = no{more}"
    return f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = {host}, SOURCE_AUTO_POSITION = 0{more}"


def _placed(connection, source: BackupSource, replay: ReplayPlan) -> str:
    """Puts the relay logs where the server looks for its own; the name of the first."""
    server, user = source.server, service_user()
    assert server is not None
    # Where they are called what is the server's to say: its option, else what it makes by itself.
    rows(connection, _change(source))
    index = rows(connection, "SELECT @@GLOBAL.relay_log_index")[0][0]
    found = [Path(index)] if index else sorted(server.datadir.glob("*relay-bin.index"))
    if len(found) != 1:
        raise CouldNotRun(str(server.datadir), "has no one index of relay logs", DOC, "")
    base = found[0].with_suffix("")
    _forget(connection, source)
    room = os.statvfs(base.parent)
    size = sum(one.stat().st_size for one in replay.logs)
    if size > room.f_bavail * room.f_frsize:
        rule = f"has too little room for {size / 2**30:,.2f} GiB of binary log to be replayed"
        raise CouldNotRun(server.name, rule, DOC, "Restore onto a larger volume: --storage.")
    names = []
    for number, log in enumerate(replay.logs, start=1):
        place = base.with_name(f"{base.name}.{number:06d}")
        shutil.copyfile(log, place)
        os.chmod(place, 0o640)
        os.chown(place, user.uid, user.gid)
        names.append(str(place))
    found[0].write_text("".join(f"{name}\n" for name in names))
    os.chmod(found[0], 0o640)
    os.chown(found[0], user.uid, user.gid)
    return f"{base.name}.000001"  # the server puts its folder in front


def _start(connection, source: BackupSource, first: str) -> None:
    kind = "RELAY_LOG_FILE"
    rows(connection, _change(source, f", {kind} = '{first}', RELAY_LOG_POS = 4"))
    for statement in source.dialect.start_apply():
        rows(connection, statement)


def _forget(connection, source: BackupSource) -> None:
    with contextlib.suppress(CouldNotRun):
        stop_applying(connection, source.dialect)
    for statement in (*source.dialect.stop(), *source.dialect.forget()):
        with contextlib.suppress(CouldNotRun):
            rows(connection, statement)


def _wait(connection, source: BackupSource, replay: ReplayPlan, progress: Progress) -> None:
    """Until all is applied. Raises CouldNotRun when the applier stops."""
    import pymysql

    goal = replay.executed
    while True:
        with connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(source.dialect.replica_status())
            status = cursor.fetchone() or {}
        now = executed(connection, source)
        if now.contains(goal):
            return
        applies = status.get("Slave_SQL_Running", status.get("Replica_SQL_Running"))
        if applies != "Yes":
            said = status.get("Last_SQL_Error") or "it stopped without a word"
            rule = f"the replay stopped: {said}"
            raise CouldNotRun(source.name, rule, DOC, "See headrace mysql log.", kind=BROKEN)
        left = goal.minus(now).count()
        progress(0.6 + 0.4 * (1 - left / max(1, replay.transactions)), "replaying")
        time.sleep(LOOK_EVERY_S)


def _check_exact(manifest: Manifest, replay: ReplayPlan | None, base: GtidSet, found: GtidSet) -> None:
    """Raises CouldNotRun where the server has executed less, or anything else."""
    wanted = replay.executed if replay is not None else base
    if not manifest.position.file:
        return
    if wanted.contains(found) and found.contains(wanted):
        return
    lost, more = wanted.minus(found), found.minus(wanted)
    rule = f"the restored server has not {str(lost) or 'nothing'} and has {str(more) or 'nothing'} too much"
    hint = "Tell us: this is a defect of Headrace. The backup is untouched."
    raise CouldNotRun(manifest.id, rule, DOC, hint, kind=BROKEN)


def _released(lab: Lab, source: BackupSource, wanted: RestoreRequest) -> Server:
    """Lets clients write, unless that was not wanted, and forgets the settings of the restore."""
    assert source.server is not None
    where = source.server.paths
    with records.locked(where):
        known = records.required(where)
        kept = {
            name: value
            for name, value in known.settings.items()
            if name.replace("-", "_") not in HELD or (wanted.read_only and name.replace("-", "_") == "read_only")
        }
        records.save(where, known.with_(settings=kept))
    if not wanted.read_only:
        with source.connect(ANSWER_S) as connection:
            for statement in source.dialect.read_only(False):
                rows(connection, statement)
    return running_servers.find(lab, wanted.name)
