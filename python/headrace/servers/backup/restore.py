"""Restores a backup onto a new server of the lab, to any moment.

1. test the manifest, its fit to the server, and every binary log that is needed
   (if the backup is at fault, a failed proof is written)
2. create a server from the copy; it is read-only and runs no events, so it writes no own GTID
3. replay the binary log as relay logs, by parallel workers
4. check that it has executed exactly the GTIDs of the goal

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
from typing import TypedDict

from headrace.base.machine import count_cores
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import observe
from headrace.mysql.statements import SqlConnection, ask_named
from headrace.servers import record as records
from headrace.servers import server as running_servers
from headrace.servers import volumes
from headrace.servers.access import find_service_user
from headrace.servers.backup import manifest as documents
from headrace.servers.backup.history import archive, moments
from headrace.servers.backup.history.moments import ReplayPlan, RestoreGoal
from headrace.servers.backup.manifest import Manifest
from headrace.servers.backup.settings import OtherSetting, as_options, list_differences
from headrace.servers.backup.targets.target import BROKEN, DAMAGED, MISSING, BackupTarget, refuse
from headrace.servers.copies.dump import MOST_PACKET
from headrace.servers.copies.folders import hold_folder, make_id
from headrace.servers.copies.methods import BY_FORM
from headrace.servers.copies.pipeline import EXITED, Flow, Stage, make_cipher, make_unpacker
from headrace.servers.copies.source import ANSWER_S, CopySource, fetch_rows, read_executed, read_source
from headrace.servers.datadir import FORMAT as SAVED_FORMAT
from headrace.servers.datadir import SAVED
from headrace.servers.flavors import ServerProgram, find_program
from headrace.servers.running import READY_S, Progress, discard_progress
from headrace.servers.server import Server
from headrace.servers.topology.threads import stop_applying

# Seconds between two looks at the replay. It may stand still for any time: one transaction can be
# an ALTER TABLE of hours, so only a stopped applier ends the wait.
LOOK_EVERY_S = 0.2
# Settings of a server while it is restored: only the replay writes. They are removed afterwards.
RESTORE_SETTINGS = {"read_only": "ON", "event_scheduler": "OFF"}
# The copy of a replica knows its source, and would follow it at once. This is removed as well.
NO_REPLICATION = {"mariadb": {"skip_slave_start": "ON"}, "mysql": {"skip_replica_start": "ON"}}
# Settings that the restore itself chooses, so they are not compared with the source's.
RESTORE_OWN = ("server_id",)


@dataclass(frozen=True)
class RestoreRequest:
    """A backup to restore, and the server to create from it. `goal`: None for the backup as it is.
    `workers`: threads of the replay, None for twice the processors. `work`: the folder for unpacked
    files, None for the temporary one. `read_only`: it stays so afterwards."""

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
    """A restored server, with the GTIDs `executed`. `replay`: what was replayed, None for nothing.
    `copy_s`, `replay_s`: durations, s. `otherwise`: its settings that differ from the source's."""

    server: Server
    manifest: Manifest
    replay: ReplayPlan | None
    executed: GtidSet
    copy_s: float
    replay_s: float
    otherwise: tuple[OtherSetting, ...] = ()


def restore(
    lab: Lab,
    target: BackupTarget,
    request: RestoreRequest,
    key: bytes | None = None,
    progress: Progress = discard_progress,
) -> Restored:
    """Restores a backup onto a new server, and returns that. Raises InputError, CouldNotRun; then
    the new server is removed. If the backup itself is at fault, a failed proof is written to the
    target, which replaces an older one."""
    try:
        return _restore(lab, target, request, key, progress)
    except HeadraceError as error:
        if error.kind in (DAMAGED, BROKEN):
            with contextlib.suppress(HeadraceError, OSError):
                manifest = documents.read_manifest(target, request.backup, key)
                reason = f"restore: {error.value}: {error.rule}"
                failed = documents.RestoreProof(time.time(), 0.0, "", 0, "", "", False, reason, manifest.part)
                documents.write_proof(target, request.backup, failed, key)
        raise


def _restore(
    lab: Lab, target: BackupTarget, request: RestoreRequest, key: bytes | None, progress: Progress
) -> Restored:
    """Restores a backup as `restore` does, without the failed proof. After an error the new server
    is removed, and a full volume of the lab is named in the error."""
    manifest = documents.read_manifest(target, request.backup, key)
    if manifest.only and request.goal is not None:
        rule = f"is a part of its server ({manifest.part}), and the binary log changes what it has not"
        raise refuse.input(manifest.id, rule, "Restore it as it is: without --to-gtid, --to-time and --latest.")
    program = check_fit(manifest, request.server_path)
    check_sizes(target, manifest)
    where = records.make_server_paths(records.find_data_dir(lab), request.name)
    if records.load(where) is not None or where.data_mount.exists() and any(where.data_mount.iterdir()):
        rule = "is there already: a restore never writes over data"
        raise refuse.input(request.name, rule, "Name a new server: --as NAME.")
    with _make_work_folder(request.work, manifest) as work:
        replay = None
        if request.goal is not None:
            replay = _collect(target, manifest, request, key, work, progress)
            if "gtid_at_most" in manifest.facts:
                # Only a server that is started on the copy knows its position (CLONE): tested from
                # where the copy began, collected again once the position is known.
                replay = None
                shutil.rmtree(work / "relay")
        began = time.monotonic()
        created: list[Server] = []  # a server that another command made meanwhile is not removed
        try:
            bring_up = _make_creator(lab, manifest, program, request, created, progress)
            server = _restore_copy(target, manifest, request, program, bring_up, key=key, work=work, progress=progress)
            copied = time.monotonic()
            source = read_source(server.make_address(), request.name, server)
            _forget_channels(source)
            base = _set_position(source, manifest)
            if request.goal is not None and replay is None:
                replay = _collect(target, manifest, request, key, work, progress, base)
            if replay is not None:
                play(source, replay, request.workers, progress)
            with source.connect() as connection:
                gtids = read_executed(connection, source)
                otherwise = tuple(list_differences(connection, manifest.settings, (*request.settings, *RESTORE_OWN)))
            _check_exact(manifest, replay, base, gtids)
            released = _remove_restore_settings(lab, source, request)
            return Restored(released, manifest, replay, gtids, copied - began, time.monotonic() - copied, otherwise)
        except BaseException as error:
            no_room = ""
            with contextlib.suppress(HeadraceError):
                if created and (record := records.load(where)) is not None:
                    no_room = volumes.explain_full_disk(lab) or "; ".join(volumes.list_full(lab, where, record))
                    running_servers.destroy(running_servers.find(lab, request.name))
            if no_room and isinstance(error, CouldNotRun) and error.kind != DAMAGED:
                # A full disk says nothing about the backup.
                raise CouldNotRun(error.value, error.rule, error.source, no_room) from error
            raise


def check_fit(manifest: Manifest, server_path: str | None = None) -> ServerProgram:
    """Returns the server program for a backup: the newest installed, or that at `server_path`.
    Raises InputError if its flavor or version does not fit, CouldNotRun."""
    program = find_program(manifest.flavor, server_path)
    if program.flavor != manifest.flavor:
        raise refuse.input(manifest.id, f"is of {manifest.flavor}, and {program.path} is not")
    program_series, backup_series = program.version[:2], manifest.series
    if manifest.method != "logical" and program_series != backup_series:
        rule = f"holds files of {manifest.flavor} {manifest.version}, and this server is {program.label}"
        hint = "Files are tied to the series: restore with that one (--server-path), or take a logical backup."
        raise refuse.input(manifest.id, rule, hint)
    if program_series < backup_series:
        rule = f"is of {manifest.flavor} {manifest.version}, newer than this server, {program.label}"
        raise refuse.input(manifest.id, rule, "Restore with that version or a newer one: --server-path.")
    return program


def _collect(
    target: BackupTarget,
    manifest: Manifest,
    request: RestoreRequest,
    key: bytes | None,
    work: Path,
    progress: Progress,
    base: GtidSet | None = None,
) -> ReplayPlan:
    """Tests the binary logs up to the goal of the request, writes them as relay logs into the new
    folder `work`/relay, and returns what a replay of these does. `base`: the GTIDs of the copy,
    None for those of the manifest. Raises InputError for a goal that cannot be reached."""
    assert request.goal is not None
    moment = request.goal.moment_us
    # A dump has the data of its begin, and no copy has older data.
    if moment is not None and moment < manifest.began_unix * moments.SECOND_US:
        raise moments.make_before_base_error(moment, "its own time")
    at = base or GtidSet.parse(manifest.position.gtid, manifest.flavor)
    chosen = moments.choose(archive.read_timelines(target, key), manifest, at, request.timeline, request.goal)
    folder = work / "relay"
    folder.mkdir()
    report = lambda share: progress(0.1 * share, "testing the binary logs")  # noqa: E731
    replay = moments.collect(target, chosen, at, request.goal, folder, key, report)
    # Any other copy has the data of its end, which may be later than the moment unless a binary log
    # says when the last of them were committed.
    within = moment is not None and moment < manifest.ended_unix * moments.SECOND_US
    if moment is not None and within and manifest.method != "logical" and not replay.base_us:
        raise moments.make_before_base_error(moment, "its own time")
    return replay


@contextmanager
def _make_work_folder(folder: Path | None, manifest: Manifest) -> Iterator[Path]:
    """Creates and yields a folder for unpacked files, below `folder` or the temporary one, and
    removes it after the block. Raises InputError for no folder, CouldNotRun for too little room."""
    if folder is not None and not folder.is_dir():
        raise refuse.input(str(folder), "is not a folder", "Name one with room for the data: --work.")
    scratch = (folder or Path(tempfile.gettempdir())) / f"headrace-{make_id(manifest.source)}"
    with hold_folder(scratch):
        scratch.mkdir(mode=0o700)
        free = shutil.disk_usage(scratch).free
        if manifest.method == "physical" and manifest.data_bytes > free:
            takes_gib = manifest.data_bytes / 2**30
            rule = f"has {free / 2**30:,.1f} GiB free, and the copy takes {takes_gib:,.1f} GiB unpacked"
            raise refuse.run(str(scratch.parent), rule, "Name another folder: --work.")
        yield scratch


# --- the copy -------------------------------------------------------------------------------------


def check_sizes(target: BackupTarget, manifest: Manifest) -> None:
    """Raises InputError for a missing or cut off file of a copy, without reading the files."""
    folder = documents.get_backup_folder(manifest.id)
    sizes = {file.name: file.size for file in target.list(f"{folder}/")}
    for part in manifest.parts:
        name = f"{folder}/{part.name}"
        if name not in sizes:
            raise _make_damage_error(target, name, "it is not there")
        if sizes[name] != part.size:
            raise _make_damage_error(target, name, f"it has {sizes[name]:,} bytes and should have {part.size:,}")


class CopyReader:
    """Reads the bytes of a copy, file by file, each against its checksum. Raises InputError at the
    end of a file that was changed. `tell`: called with the number of bytes of each piece."""

    def __init__(
        self, target: BackupTarget, manifest: Manifest, tell: Callable[[int], None] = lambda count: None
    ) -> None:
        self.target, self.manifest, self.tell = target, manifest, tell
        self._rest: Iterator[bytes] = iter(())

    def __iter__(self) -> Iterator[bytes]:
        """Yields the bytes of all files of the copy, in the order of the manifest."""
        for part in self.manifest.parts:
            self._rest = self._read_file(part)
            # No `yield from`: a reader that stops would close the file, which `finish_file` reads.
            for piece in self._rest:  # noqa: UP028
                yield piece

    def finish_file(self) -> None:
        """Reads the current file to its end. Raises InputError if it is damaged, which explains the
        failure of a program that read its bytes."""
        for _ in self._rest:
            pass

    def _read_file(self, part: documents.Part) -> Iterator[bytes]:
        """Yields the bytes of one file. Raises InputError if it is missing, or has another size or
        checksum than the manifest says."""
        name, counted, size = f"{documents.get_backup_folder(self.manifest.id)}/{part.name}", hashlib.sha256(), 0
        try:
            for piece in self.target.read(name):
                counted.update(piece)
                size += len(piece)
                self.tell(len(piece))
                yield piece
        except InputError as error:
            if error.kind != MISSING:
                raise
            raise _make_damage_error(self.target, name, "it is not there") from None
        if size != part.size:
            raise _make_damage_error(self.target, name, f"it has {size:,} bytes and should have {part.size:,}")
        if counted.hexdigest() != part.sha256:
            raise _make_damage_error(self.target, name, "its checksum is another")


def _make_damage_error(target: BackupTarget, name: str, what: str) -> InputError:
    """Returns the error for a damaged file of a copy; `what` says what is wrong with it."""
    hint = (
        "Copy the file back from another copy of the target, or take another backup; `headrace backup list --verify` "
    )
    return refuse.input(f"{target.label}/{name}", f"is damaged: {what}", f"{hint}names all damage.", kind=DAMAGED)


def read_parts(
    target: BackupTarget, manifest: Manifest, tell: Callable[[int], None] = lambda count: None
) -> Iterator[bytes]:
    """Yields the bytes of a copy, and calls `tell` with the number of bytes of each piece. Raises
    InputError at the end of the first file that was changed."""
    return iter(CopyReader(target, manifest, tell))


class Seeds(TypedDict, total=False):
    """Options of `bring_up` that name the folder or the snapshots from which the volumes of a new
    server are made, and the storage for its log."""

    seed_from: str | Path
    log_seed_from: str
    log_storage: str


def _make_creator(
    lab: Lab,
    manifest: Manifest,
    program: ServerProgram,
    request: RestoreRequest,
    created: list[Server],
    progress: Progress,
) -> Callable[[Seeds], Server]:
    """Returns the function that creates the new server from seeds, adds it to `created`, and
    returns it. It raises InputError if there is a server of that name by then."""
    new = {
        "name": request.name,
        "flavor": manifest.flavor,
        "storage": request.storage,
        "log_storage": request.log_storage,
        "memory_gib": request.memory_gib,
        "settings": _make_settings(manifest, program, request),
        "server_path": request.server_path,
        "unpaced": request.unpaced,
        "only_new": True,
        "progress": progress,
    }

    def bring_up(seeds: Seeds) -> Server:
        created.append(running_servers.bring_up(lab, **{**new, **seeds}))
        return created[-1]

    return bring_up


def _restore_copy(
    target: BackupTarget,
    manifest: Manifest,
    request: RestoreRequest,
    program: ServerProgram,
    bring_up: Callable[[Seeds], Server],
    *,
    key: bytes | None,
    work: Path,
    progress: Progress,
) -> Server:
    """Creates the server with `bring_up` by the method of the copy: from snapshots, by loading a
    dump, or from files that are unpacked and prepared in `work`. `key`: of an encrypted copy, else
    None. Raises InputError, CouldNotRun."""
    packing = manifest.packing
    unpackers = make_cipher(key if packing.encrypted else None, back=True) + make_unpacker(packing.packed)
    meter = moments.ByteMeter(manifest.stored_bytes, lambda share: progress(0.1 + 0.4 * share, "unpacking the copy"))
    if manifest.method == "snapshot":
        return bring_up(make_seeds(manifest, request))
    if manifest.method == "logical":
        server = bring_up({})
        _load(server, CopyReader(target, manifest, meter), unpackers)
        return server
    seed = work / "seed"
    (seed / "data").mkdir(parents=True)
    (seed / "log").mkdir()
    method = BY_FORM[packing.form]
    copy = CopyReader(target, manifest, meter)
    try:
        with Flow([*unpackers, method.unpack(seed / "data")]) as flow:
            flow.feed(copy, on_failure=copy.finish_file)
    except CouldNotRun as error:
        if error.kind == EXITED:  # all checksums are right, and it still cannot be unpacked
            error.kind = BROKEN
        raise
    progress(0.5, "preparing the copy")
    method.prepare(seed / "data", seed / "log", program)
    about = {"flavor": manifest.flavor, "version": list(program.version), "engine": "innodb"}
    (seed / SAVED).write_bytes(documents.seal_document({"format": SAVED_FORMAT} | about))
    try:
        return bring_up({"seed_from": seed})
    finally:
        shutil.rmtree(seed, ignore_errors=True)


def make_seeds(manifest: Manifest, request: RestoreRequest) -> Seeds:
    """Returns the options that make a new server's volumes from snapshots. Raises InputError if the
    manifest does not say which is which, or the new server has no volume for the log."""
    roles = manifest.facts.get("roles")
    if len(manifest.snapshots) == 1:
        return {"seed_from": next(iter(manifest.snapshots.values()))}
    if not isinstance(roles, dict) or set(roles.values()) != set(manifest.snapshots) or set(roles) != {"data", "log"}:
        rule = f"is of {len(manifest.snapshots)} volumes, and does not say which has the data"
        raise refuse.input(manifest.id, rule, "Restore the volumes: headrace snapshot. Newer backups say it.")
    log_storage = request.log_storage or manifest.facts.get("log_storage")
    if not log_storage:
        rule = "has its logs on a volume of their own"
        raise refuse.input(manifest.id, rule, "Name one for the new server: --log-storage.")
    return {
        "seed_from": manifest.snapshots[roles["data"]],
        "log_seed_from": manifest.snapshots[roles["log"]],
        "log_storage": str(log_storage),
    }


def _make_settings(manifest: Manifest, program: ServerProgram, request: RestoreRequest) -> dict[str, str | None]:
    """Returns the settings of the new server: the source's, the user's, and those of the restore, a
    drawn server_id (events of the same id would be skipped), GTIDs on, and nothing that writes."""
    settings = as_options(program, manifest.settings, request.settings)
    given = {str(name).replace("-", "_") for name in request.settings}
    if "server_id" not in given:
        settings["server_id"] = str(random.SystemRandom().randrange(1 << 24, 1 << 31))
    if manifest.position.file:
        if manifest.flavor == "mysql":
            settings |= {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
        elif not given & {"log_bin", "skip_log_bin"}:
            settings |= {"log_bin": "ON"}
    return {**settings, **NO_REPLICATION[manifest.flavor], **request.settings, **RESTORE_SETTINGS}


def _load(server: Server, copy: CopyReader, unpackers: list[Stage]) -> None:
    """Loads a dump with the server's client, through the programs that decrypt and unpack it. It is
    not written to the binary log. Raises InputError for a damaged copy, CouldNotRun."""
    more = ("--binary-mode", f"--max-allowed-packet={MOST_PACKET}", "--init-command=SET SESSION sql_log_bin=0")
    command = running_servers.build_client_command(server, more)
    with read_source(server.make_address(), server.name, server).connect() as connection:
        # A row of a dump is text, in hexadecimal twice as long as it was in a packet of the source.
        before = fetch_rows(connection, "SELECT @@GLOBAL.max_allowed_packet")[0][0]
        fetch_rows(connection, f"SET GLOBAL max_allowed_packet = {MOST_PACKET}")
        try:
            with Flow([*unpackers, Stage(tuple(command), "the client")]) as flow:
                flow.feed(copy, on_failure=copy.finish_file)
        finally:
            with contextlib.suppress(CouldNotRun):
                fetch_rows(connection, f"SET GLOBAL max_allowed_packet = {before}")


def _forget_channels(source: CopySource) -> None:
    """Removes all channels of a restored server, which was copied while it was a replica: it
    follows nobody, and needs no relay logs."""
    with source.connect(READY_S) as connection:
        for channel in observe(connection, source.name).channels:
            for statement in (*source.dialect.stop(channel.name), *source.dialect.forget(channel.name)):
                fetch_rows(connection, statement)


def _set_position(source: CopySource, manifest: Manifest) -> GtidSet:
    """Sets the restored server's GTID position to that of the backup where its files do not have
    it, and returns the GTIDs that it has executed. Raises CouldNotRun for others."""
    position = GtidSet.parse(manifest.position.gtid, manifest.flavor)
    with source.connect(READY_S) as connection:
        if manifest.flavor == "mariadb" or manifest.method == "logical":
            if manifest.position.file:
                for statement in source.dialect.begin_at(position):
                    fetch_rows(connection, statement)
            return position
        gtids = read_executed(connection, source)
    most = GtidSet.parse(str(manifest.facts.get("gtid_at_most", manifest.position.gtid)), manifest.flavor)
    if not gtids.contains(position) or not most.contains(gtids):
        rule = f"the restored server has executed {gtids}, and the copy should have {position}"
        raise refuse.run(manifest.id, rule, "Use another backup.", kind=BROKEN)
    return gtids


# --- replay ---------------------------------------------------------------------------------------


def play(source: CopySource, replay: ReplayPlan, workers: int | None, progress: Progress = discard_progress) -> None:
    """Replays relay logs, and waits until they are applied, which may take hours. `workers`: number
    of parallel ones, None for twice the processors. Raises CouldNotRun with the applier's error,
    InputError if a server in the logs has this one's server_id."""
    server = source.server
    assert server is not None
    if not replay.logs:
        return
    count = workers if workers is not None else 2 * count_cores()
    with source.connect(READY_S) as connection:
        (own,), *_ = fetch_rows(connection, "SELECT @@server_id")
        if own in replay.server_ids:
            rule = f"is also the id of a server in the binary log: its events would be passed over (server_id {own})"
            raise refuse.input(server.name, rule, "Restore with --set server_id=N, another one.")
        before = _speed_up_replay(connection, source, count)
        try:
            first = _place_logs(connection, source, replay)
            fetch_rows(connection, _make_change_statement(source, f", RELAY_LOG_FILE = '{first}', RELAY_LOG_POS = 4"))
            for statement in source.dialect.start_apply():
                fetch_rows(connection, statement)
            _wait_replayed(connection, source, replay, progress)
        finally:
            with contextlib.suppress(HeadraceError):
                _end_replay(connection, source)
                for name, value in before.items():
                    fetch_rows(connection, f"SET GLOBAL {name} = {value}")


def _speed_up_replay(connection: SqlConnection, source: CopySource, workers: int) -> dict[str, str]:
    """Sets the number of workers and, while nobody relies on the data, fewer flushes. Returns the
    values of before as SQL, by variable."""
    variables = {"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2"}
    if source.flavor == "mariadb":
        # Optimistic: in parallel also where the source was not, and rolled back on conflict.
        variables |= {"slave_parallel_threads": str(workers), "slave_parallel_mode": "'optimistic'"}
    else:
        variables |= {"replica_parallel_workers": str(max(1, workers)), "replica_preserve_commit_order": "1"}
    before = {}
    for name, value in variables.items():
        old = fetch_rows(connection, f"SELECT @@GLOBAL.{name}")[0][0]
        before[name] = f"'{old}'" if isinstance(old, str) else str(old)
        fetch_rows(connection, f"SET GLOBAL {name} = {value}")
    return before


def _make_change_statement(source: CopySource, more: str = "") -> str:
    """Returns the statement that names a source which is never contacted, and the options `more`. A
    server applies relay logs only if it has a source."""
    host = "'replay.invalid'"  # RFC 2606: never a host; the receiver is never started
    if source.flavor == "mariadb":
        return f"CHANGE MASTER TO MASTER_HOST = {host}, MASTER_USE_GTID = no{more}"
    return f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = {host}, SOURCE_AUTO_POSITION = 0{more}"


def _place_logs(connection: SqlConnection, source: CopySource, replay: ReplayPlan) -> str:
    """Copies the relay logs into the folder of the server's own, in place of these, and returns the
    name of the first. Raises CouldNotRun if the volume has too little room."""
    server, user = source.server, find_service_user()
    assert server is not None
    # The place and name are the server's: its option, else its default.
    fetch_rows(connection, _make_change_statement(source))
    index = fetch_rows(connection, "SELECT @@GLOBAL.relay_log_index")[0][0]
    indexes = [Path(index)] if index else sorted(server.paths.datadir.glob("*relay-bin.index"))
    if len(indexes) != 1:
        raise refuse.run(str(server.paths.datadir), "has no one index of relay logs")
    base = indexes[0].with_suffix("")
    _end_replay(connection, source)
    size = sum(path.stat().st_size for path in replay.logs)
    if size > volumes.count_free_bytes(base.parent):
        rule = f"has too little room for {size / 2**30:,.2f} GiB of binary log to be replayed"
        raise refuse.run(server.name, rule, "Restore onto a larger volume: --storage.")
    names = []
    for number, log in enumerate(replay.logs, start=1):
        place = base.with_name(f"{base.name}.{number:06d}")
        shutil.copyfile(log, place)
        os.chmod(place, 0o640)
        os.chown(place, user.uid, user.gid)
        names.append(str(place))
    indexes[0].write_text("".join(f"{name}\n" for name in names))
    os.chmod(indexes[0], 0o640)
    os.chown(indexes[0], user.uid, user.gid)
    return f"{base.name}.000001"  # the server puts its folder in front


def _end_replay(connection: SqlConnection, source: CopySource) -> None:
    """Stops the applier, and removes source and relay logs from the server; ignores errors."""
    with contextlib.suppress(CouldNotRun):
        stop_applying(connection, source.dialect)
    for statement in (*source.dialect.stop(), *source.dialect.forget()):
        with contextlib.suppress(CouldNotRun):
            fetch_rows(connection, statement)


def _wait_replayed(connection: SqlConnection, source: CopySource, replay: ReplayPlan, progress: Progress) -> None:
    """Waits until the GTIDs of the replay are executed, and reports the share of transactions as
    progress. Raises CouldNotRun if the applier stops."""
    goal = replay.executed
    while True:
        status = next(iter(ask_named(connection, source.dialect.query_replica_status())), {})
        executed = read_executed(connection, source)
        if executed.contains(goal):
            return
        applies = status.get("Slave_SQL_Running", status.get("Replica_SQL_Running"))
        if applies != "Yes":
            reason = status.get("Last_SQL_Error") or "it stopped without a word"
            raise refuse.run(source.name, f"the replay stopped: {reason}", "See headrace mysql log.", kind=BROKEN)
        missing = goal.minus(executed).count()
        progress(0.6 + 0.4 * (1 - missing / max(1, replay.transactions)), "replaying")
        time.sleep(LOOK_EVERY_S)


def _check_exact(manifest: Manifest, replay: ReplayPlan | None, base: GtidSet, gtids: GtidSet) -> None:
    """Raises CouldNotRun if a restored server has executed other transactions, `gtids`, than those
    of the replay, or without one those of the copy (`base`)."""
    goal = replay.executed if replay is not None else base
    if not manifest.position.file or (goal.contains(gtids) and gtids.contains(goal)):
        return
    lost, more = goal.minus(gtids), gtids.minus(goal)
    rule = f"the restored server lacks transactions {str(lost) or '(none)'} and has extra transactions {str(more) or '(none)'}"
    raise refuse.run(manifest.id, rule, "Tell us: this is a defect of Headrace. The backup is untouched.", kind=BROKEN)


def _remove_restore_settings(lab: Lab, source: CopySource, request: RestoreRequest) -> Server:
    """Removes the settings of the restore from the server's record, lets clients write unless the
    request is read-only, and returns the server."""
    assert source.server is not None
    where = source.server.paths
    with records.lock_server(where):
        record = records.require_record(where)
        lasting = {name.replace("-", "_") for name in request.settings} - RESTORE_SETTINGS.keys()
        lasting |= {"read_only"} if request.read_only else set()
        own = (RESTORE_SETTINGS.keys() | NO_REPLICATION[source.flavor].keys()) - lasting
        settings = {name: value for name, value in record.settings.items() if name.replace("-", "_") not in own}
        records.save(where, record.with_(settings=settings))
    if not request.read_only:
        with source.connect(ANSWER_S) as connection:
            for statement in source.dialect.switch_read_only(False):
                fetch_rows(connection, statement)
    return running_servers.find(lab, request.name)
