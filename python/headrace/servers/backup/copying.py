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
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.base.checks import check_choice
from headrace.base.units import MIB
from headrace.errors import HeadraceError, InputError
from headrace.lab import Lab
from headrace.lab.waiting import wait_stored
from headrace.servers.backup import manifest as documents
from headrace.servers.backup import unfinished
from headrace.servers.backup.manifest import Manifest, Packing, Part, get_backup_folder, write_manifest
from headrace.servers.backup.restore import read_parts
from headrace.servers.backup.settings import read_settings
from headrace.servers.backup.targets.folder import FolderTarget
from headrace.servers.backup.targets.target import DAMAGED, BackupTarget, TargetWriter, refuse
from headrace.servers.backup.unfinished import Leftover
from headrace.servers.copies import source as sources
from headrace.servers.copies.copy import Destination, Pace
from headrace.servers.copies.folders import make_id
from headrace.servers.copies.methods import METHODS, PHYSICAL
from headrace.servers.copies.pipeline import ChainedFlow, Flow, choose_pack, make_cipher, make_packer, read_ahead
from headrace.servers.copies.source import CopySource
from headrace.servers.running import Progress, discard_progress

# A file of a copy: at least 64 MiB, and about 1,000 of them for a large one (guesses: a file that
# is sent again after an error is small, and lists stay short).
PART_BYTES, MOST_PARTS = 64 * MIB, 1_000


@dataclass(frozen=True)
class BackupRequest:
    """Choices of the user for a backup. `pack`: zstd, none, or None for the best available.
    `staging`: the folder that CLONE copies to. `spool`: a folder where the copy is finished before
    it is sent. `anew`: does not resume an interrupted run. `only`: the databases of a logical copy
    of a part of its server. `report_spooled` gets the id of a copy that a run which failed has left
    whole in `spool`."""

    method: str = "physical"
    pack: str | None = None
    key: bytes | None = field(default=None, repr=False)
    pace: Pace = field(default_factory=Pace)
    staging: Path | None = None
    spool: Path | None = None
    anew: bool = False
    only: tuple[str, ...] = ()
    progress: Progress = discard_progress
    note: Callable[[str], None] = lambda text: None
    report_spooled: Callable[[str], None] = lambda backup: None


def run(source: CopySource, target: BackupTarget, request: BackupRequest) -> Manifest:
    """Takes a backup, or resumes that of a killed run. Raises InputError, CouldNotRun; then nothing
    remains but, if the copy was complete, the copy in `spool`."""
    _check_request(source, target, request)
    spool = FolderTarget(request.spool) if request.spool is not None else None
    lab = source.server.lab if source.server is not None else None
    previous = None if request.anew else _find_previous(source, target, spool, lab, request)
    _clear_killed_runs(source, target, spool, lab, request, previous)
    backup = previous.id if previous is not None else make_id(source.name)
    tagged = lab if request.method == "snapshot" else None
    places = [target] if spool is None else [target, spool]
    try:
        with contextlib.ExitStack() as marks:
            for place in places:
                marks.enter_context(unfinished.renew_mark(place, backup, source.name, tagged))
            manifest = previous if previous is not None else _take_copy(source, places[-1], request, backup)
            if spool is not None:
                if previous is None:
                    write_manifest(spool, manifest, request.key)
                _send(spool, target, manifest, request)
            if manifest.snapshots and lab is not None:
                wait_stored(lab, list(manifest.snapshots.values()))
            write_manifest(target, manifest, request.key)
    except BaseException as error:
        damaged = isinstance(error, InputError) and error.kind == DAMAGED
        if spool is not None and not damaged and spool.exists(f"{get_backup_folder(backup)}/{documents.MANIFEST}"):
            request.report_spooled(backup)
            request.note(f"the copy {backup} is whole in {spool.folder}: run it again to go on with sending it")
            with contextlib.suppress(HeadraceError, OSError):
                for place in reversed(places):
                    unfinished.unmark(place, backup)
        else:
            for place in reversed(places):
                unfinished.forget_quietly(place, backup, tagged)
        raise
    # From here on there is a backup, whatever happens: the next run removes what remains of it.
    with contextlib.suppress(HeadraceError, OSError):
        unfinished.unmark(target, backup)
        if spool is not None:
            unfinished.forget(spool, backup)
    return manifest


def _check_request(source: CopySource, target: BackupTarget, request: BackupRequest) -> None:
    """Raises InputError for a method that cannot copy this server, or contradictory options."""
    check_choice("method", request.method, documents.METHODS, refuse)
    refuse_method(source, request.method)
    if request.only and request.method != "logical":
        rule = f"is for logical copies: a {request.method} copy has the whole server"
        raise refuse.input(f"--only {request.only[0][:64]}", rule, "Take --method logical, or leave it out.")
    if request.method == "snapshot" and request.spool is not None:
        rule = "is for copies that are sent, and snapshots stay in the store of the lab"
        raise refuse.input(f"--spool {request.spool}", rule, "Leave it out.")
    if isinstance(target, FolderTarget) and request.spool == target.folder:
        raise refuse.input(f"--spool {request.spool}", "is the target itself", "Leave it out.")


def _take_copy(source: CopySource, place: BackupTarget, request: BackupRequest, backup: str) -> Manifest:
    """Writes a copy of the server into `place`, and returns its manifest, which is not written yet.
    A copy in snapshots gets the document BEGUN, so that the next run can resume with them."""
    began, stream = time.time(), PartsWriter(place, backup, request)
    with source.connect() as connection:
        databases = request.only or tuple(sources.list_databases(connection))
        tables, settings = sources.count_tables(connection, databases), read_settings(connection)
    into = Destination(
        _choose_folder(source, request, backup),
        stream=stream,
        pace=request.pace,
        only=request.only,
        label=f"headrace backup {backup}",
        tags={unfinished.TAG: backup},
    )
    method = METHODS[{"logical": "dump", "physical": PHYSICAL[source.flavor]}.get(request.method, request.method)]
    copied = method.take(source, into)
    manifest = Manifest(
        id=backup,
        method=request.method,
        flavor=source.flavor,
        version=source.version_text,
        engine=",".join(source.engines),
        source=source.name,
        source_id=source.id,
        began_unix=began,
        ended_unix=time.time(),
        position=copied.position,
        packing=Packing(method.form, "none" if copied.snapshots else stream.pack, request.key is not None),
        data_bytes=copied.data_bytes,
        parts=tuple(stream.parts),
        databases=databases,
        tables=tables,
        only=request.only,
        settings=settings,
        snapshots=dict(copied.snapshots),
        facts=dict(copied.facts),
    )
    if manifest.snapshots:
        write_manifest(place, manifest, request.key, documents.BEGUN)
    elif not manifest.parts:
        raise refuse.run(source.name, "the copy is empty", "See the server's error log.")
    return manifest


# --- runs that were killed ------------------------------------------------------------------------


def _find_previous(
    source: CopySource, target: BackupTarget, spool: BackupTarget | None, lab: Lab | None, request: BackupRequest
) -> Manifest | None:
    """Returns the copy of a killed run that this run resumes, and notes that; None for none. Such a
    copy is not older than a day, and was taken with the same options."""
    candidates: list[Manifest] = []
    if spool is not None:
        candidates = unfinished.list_spooled(spool, source, request.key)
    elif request.method == "snapshot" and lab is not None:
        candidates = unfinished.list_stored_snapshots(target, source, lab, request.key)
    for candidate in candidates:
        packing = candidate.packing
        alike = candidate.method == request.method and request.pack in (None, packing.packed)
        alike = alike and packing.encrypted == (request.key is not None) and candidate.only == request.only
        young = time.time() - candidate.began_unix < unfinished.SWEEP_S
        if alike and young and not target.exists(f"{get_backup_folder(candidate.id)}/{documents.MANIFEST}"):
            began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(candidate.began_unix))
            request.note(f"goes on with {candidate.id}, a run that was cut off: it has the data of {began}")
            return candidate
    return None


def _clear_killed_runs(
    source: CopySource,
    target: BackupTarget,
    spool: BackupTarget | None,
    lab: Lab | None,
    request: BackupRequest,
    previous: Manifest | None,
) -> None:
    """Removes the files of killed runs, except those of `previous`, the copy that is resumed. Calls
    `request.note` for each, and with the reason if a new copy is taken instead."""
    keep = previous.id if previous is not None else ""
    opened = (lambda: lab) if lab is not None else None
    leftovers = unfinished.clear(target, opened, keep)
    if spool is not None:
        leftovers += unfinished.clear(spool, opened, keep)
        for manifest in unfinished.list_spooled(spool, source, request.key):
            if manifest.id != keep:
                unfinished.forget(spool, manifest.id)
                leftovers.append(
                    Leftover(source.name, f"{manifest.id} in {spool.label} cannot be resumed, and was removed")
                )
    for leftover in leftovers:
        request.note(leftover.words)
    if previous is None and not request.anew and any(leftover.source == source.name for leftover in leftovers):
        request.note(f"starts anew: {unfinished.ANEW[request.method]}")


def _send(spool: BackupTarget, target: BackupTarget, manifest: Manifest, request: BackupRequest) -> None:
    """Copies the files of a complete copy into the target. Files that a killed run has sent are
    read back and compared, and not sent again. Raises InputError, CouldNotRun."""
    folder, present_files, sent = get_backup_folder(manifest.id), 0, 0
    names = {file.name for file in target.list(f"{folder}/")}
    for part in manifest.parts:
        name, single = f"{folder}/{part.name}", manifest.with_(parts=(part,))
        if name in names and _is_whole(target, single):
            present_files += 1
        else:
            target.remove(name)
            with target.create(name, part.size) as writer:
                for piece in read_parts(spool, single):
                    writer.write(piece)
        sent += part.size
        request.progress(sent / max(1, manifest.stored_bytes), "sending")
    if present_files:
        request.note(f"{present_files} of its {len(manifest.parts)} files were in the target already, whole")


def _is_whole(target: BackupTarget, manifest: Manifest) -> bool:
    """True when the files of a copy match their checksums."""
    try:
        return all(True for _ in read_parts(target, manifest))
    except InputError:
        return False


class PartsWriter:
    """Packs, encrypts and writes the bytes of a copy as files of equal size. `parts`: the complete
    files, each with its checksum."""

    def __init__(self, target: BackupTarget, backup: str, request: BackupRequest) -> None:
        self.target, self.folder, self.request = target, get_backup_folder(backup), request
        self.pack, self.parts = request.pack or choose_pack(), list[Part]()
        self._file: TargetWriter | None = None

    def write(self, copy: Flow, expected_bytes: int, look: Callable[[bytes], None] = lambda piece: None) -> int:
        """Writes the output of the programs of a copy, as fast as the pace allows, and returns its
        number of bytes before packing. `look`: called with each piece."""

        def see(piece: bytes) -> None:
            look(piece)
            self.request.pace.keep_pace(len(piece))

        flow, written = ChainedFlow(copy, make_packer(self.pack) + make_cipher(self.request.key), see), 0
        try:
            with flow, contextlib.closing(read_ahead(flow.read_pieces())) as pieces:
                for piece in pieces:
                    self.append(piece, expected_bytes)
                    written += len(piece)
                    self.request.progress(min(0.95, written / max(1, expected_bytes)), "copying")
            self.close()
        except BaseException:
            if self._file is not None:
                self._file.abort()
            raise
        return flow.plain_bytes

    def append(self, data: bytes, expected_bytes: int) -> None:
        """Appends bytes to the current file, and begins the next file when it is full. A file has
        1/MOST_PARTS of `expected_bytes`, at least PART_BYTES."""
        view, part_bytes = memoryview(data), max(PART_BYTES, expected_bytes // MOST_PARTS)
        while view:
            if self._file is None:
                name = f"{self.folder}/data.{len(self.parts) + 1:05d}"
                self._file = self.target.create(name, min(part_bytes, expected_bytes))
            taken = view[: part_bytes - self._file.size]
            self._file.write(bytes(taken))
            view = view[len(taken) :]
            if self._file.size >= part_bytes:
                self.close()

    def close(self) -> None:
        """Closes the current file, if any, and adds it to `parts`."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
            self.parts.append(Part(f"data.{len(self.parts) + 1:05d}", file.size, file.sha256))


def _choose_folder(source: CopySource, request: BackupRequest, backup: str) -> Path:
    """Returns the folder that the tools of a method use; CLONE copies into it."""
    folder = Path(tempfile.gettempdir())
    if request.method == "physical" and source.flavor == "mysql" and source.server is not None:
        folder = Path(request.staging or source.server.paths.datadir.parent / "tmp")
    return folder / f"headrace-{backup}"


def refuse_method(source: CopySource, method: str) -> None:
    """Raises InputError if a method cannot copy this server."""
    if method in ("physical", "snapshot") and source.server is None:
        rule = f"a {method} copy needs the server's files, and this address is not a server of the lab"
        raise refuse.input(source.address.label, rule, "Take --method logical.")
    if method == "physical" and "ROCKSDB" in (engine.upper() for engine in source.engines):
        rule = "has tables of MyRocks, which this physical copy does not take"
        raise refuse.input(source.name, rule, "Take --method logical or snapshot.")
    odd = [engine for engine in source.engines if engine.upper() not in ("INNODB", "ROCKSDB")]
    if method == "logical" and odd:
        rule = f"has tables of {', '.join(odd)}: a logical copy without locks is not consistent for them"
        raise refuse.input(source.name, rule, "Take --method physical, or ALTER TABLE ... ENGINE=InnoDB.")
