"""Killed runs: finds their files, and removes those that no later run can use.

    backups/ID/running      the process that writes this backup; its first file, and the last to go
    backups/ID/begun.json   the manifest of snapshots while they are being stored

A run resumes with a copy that does not need its server any more: a complete copy in a folder of
this machine (`--spool`), or snapshots. Everything else starts anew, because its moment has
passed: `ANEW` has the reasons.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import msgspec

from headrace.base.processes import identify_pid_space, look_up
from headrace.errors import HeadraceError, InputError
from headrace.lab import Lab
from headrace.lab.calls import Snapshot
from headrace.lab.client import list_all_snapshots
from headrace.servers.backup import manifest as documents
from headrace.servers.backup.manifest import BEGUN, MANIFEST, RUNNING, Manifest, get_backup_folder, read_manifest
from headrace.servers.backup.targets.target import BackupTarget
from headrace.servers.copies.folders import ID
from headrace.servers.copies.source import CopySource

# Age up to which a run of another machine is left alone, and from which a run is not resumed, s: a
# user who asks for a backup wants the data of today. A guess.
SWEEP_S = 24 * 3600.0
# Seconds after which a run says again that it still writes: a guess, a small part of that day.
SEEN_EVERY_S = 3600.0
# The tag of a backup's snapshots.
TAG = "headrace:backup"
ANEW = {
    "logical": "a dump shows one moment, and the server has forgotten it with the dump's connection",
    "physical": "the copy was still being made: it shows one moment, and the server cannot go back to it",
    "snapshot": "the killed run had not said yet of which moment its snapshots are",
}


@dataclass(frozen=True)
class RunMark:
    """The mark of the process that writes a backup or streams a timeline. `host`: its machine and
    container; `started`: its start, as `look_up` gives it. `began_unix`: when the mark was written,
    `seen_unix`: when it was renewed, s, Unix. `lab`: of the snapshots, "" for none."""

    host: str
    pid: int
    started: float | None
    began_unix: float
    source: str = ""
    lab: str = ""
    seen_unix: float = 0.0

    @property
    def here(self) -> bool:
        """True if the process is of this machine and this container."""
        return self.host == identify_pid_space()

    @property
    def alive(self) -> bool:
        """True if the process runs. A process of another machine, or container, counts as running
        for SWEEP_S seconds after its mark was last renewed."""
        if not self.here:
            return time.time() - max(self.began_unix, self.seen_unix) < SWEEP_S
        process = look_up(self.pid)
        return process is not None and process.started == self.started


def _find_place(lab: Lab) -> str:
    """Returns the path by which marks name a lab: its data directory, else its socket."""
    return str((lab.place.data_dir or lab.place.socket).resolve())


def mark(target: BackupTarget, backup: str, source: str, lab: Lab | None) -> None:
    """Writes the mark of this process for a backup of `source`. `lab`: of its snapshots, if any."""
    write_mark(target, _make_mark_name(backup), make_own_mark(source, lab))


def _make_mark_name(backup: str) -> str:
    """Returns the name of the mark of a backup in its target."""
    return f"{get_backup_folder(backup)}/{RUNNING}"


def make_own_mark(source: str, lab: Lab | None) -> RunMark:
    """Returns a new mark of this process, for the server `source` and the lab of its snapshots."""
    own = look_up(os.getpid())
    place = _find_place(lab) if lab is not None else ""
    return RunMark(identify_pid_space(), os.getpid(), own and own.started, time.time(), source, place)


def write_mark(target: BackupTarget, name: str, run_mark: RunMark) -> None:
    """Writes a mark, over an older one."""
    target.replace(name, msgspec.json.encode(run_mark))


@contextlib.contextmanager
def renew_mark(
    target: BackupTarget, backup: str, source: str, lab: Lab | None, every_s: float = SEEN_EVERY_S
) -> Iterator[None]:
    """Writes the mark of a backup, and renews it every `every_s` seconds during the block, since a
    copy may take days. The mark stays after the block."""
    run_mark, ended = make_own_mark(source, lab), threading.Event()
    write_mark(target, _make_mark_name(backup), run_mark)

    def renew() -> None:
        while not ended.wait(every_s):
            with contextlib.suppress(HeadraceError, OSError):  # the copy itself reports the same error
                write_mark(target, _make_mark_name(backup), replace(run_mark, seen_unix=time.time()))

    renewing = threading.Thread(target=renew, name="backup-mark", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()


def unmark(target: BackupTarget, backup: str) -> None:
    """Removes from a target the mark of a backup, and the manifest of its snapshots (BEGUN): it is
    complete, or nobody writes it any more."""
    for name in (BEGUN, RUNNING):
        target.remove(f"{get_backup_folder(backup)}/{name}")


def read_backup_mark(target: BackupTarget, backup: str) -> RunMark | None:
    """Reads the mark of a backup; None if it has none."""
    return read_mark(target, _make_mark_name(backup))


def read_mark(target: BackupTarget, name: str) -> RunMark | None:
    """Reads the mark `name` of a target; None if it is missing or cannot be read."""
    try:
        return msgspec.json.decode(target.read_document(name), type=RunMark)
    except (InputError, ValueError):  # msgspec's errors are ValueErrors
        return None


# --- removing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leftover:
    """Files of a killed run. `words`: what was done about them."""

    source: str
    words: str


def clear(
    target: BackupTarget, lab: Callable[[], Lab] | None, keep: str = "", older_s: float = SWEEP_S
) -> list[Leftover]:
    """Removes the files of killed runs: backups without a manifest, the snapshots of `lab` with
    their tag, and files that were begun and not closed, by a process that ended or more than
    `older_s` seconds ago. Returns what was done. `keep`: the id of the backup that is resumed."""
    target.sweep("backups/", older_s)
    target.sweep("binlogs/", older_s)  # of streams that were killed
    by_id: dict[str, set[str]] = {}
    for file in target.list("backups/"):
        by_id.setdefault(file.name.split("/")[1], set()).add(file.name.rpartition("/")[2])
    leftovers = []
    for backup, files in sorted(by_id.items()):
        if backup == keep or not ID.fullmatch(backup) or (MANIFEST in files and RUNNING not in files):
            continue
        run_mark = read_backup_mark(target, backup)
        if run_mark is not None and run_mark.alive:
            continue
        # Killed behind its last step; or it has become whole since the files were listed: a run
        # writes its manifest before its mark goes.
        if MANIFEST in files or target.exists(f"{get_backup_folder(backup)}/{MANIFEST}"):
            unmark(target, backup)
            continue
        source = run_mark.source if run_mark is not None else ""
        snapshots = 0
        if run_mark is not None and run_mark.lab:
            snapshots = -1
            with contextlib.suppress(HeadraceError):
                opened = lab() if lab is not None else None
                if opened is not None and _find_place(opened) == run_mark.lab:
                    snapshots = drop_snapshots(opened, backup)
            if snapshots < 0:
                rule = f"was killed and stays as it is: its snapshots are in the lab at {run_mark.lab}"
                leftovers.append(Leftover(source, f"{backup} {rule}, which is another one or does not answer"))
                continue
        forget(target, backup)
        words = f"{backup} was killed: removed its {len(files - {RUNNING, BEGUN})} files and {snapshots} snapshots"
        leftovers.append(Leftover(source, words))
    return leftovers


def forget(target: BackupTarget, backup: str) -> None:
    """Removes all files of a backup from a target: its manifest first, its mark last."""
    folder = get_backup_folder(backup)
    target.sweep(f"{folder}/", 0.0)
    order = {MANIFEST: 0, RUNNING: 2}
    for file in sorted(target.list(f"{folder}/"), key=lambda file: order.get(file.name.rpartition("/")[2], 1)):
        target.remove(file.name)


def forget_quietly(target: BackupTarget, backup: str, lab: Lab | None = None) -> None:
    """Removes all files of a backup from a target, and its snapshots from `lab`. Errors are
    ignored: without a manifest the files do not count, and the next run removes them."""
    with contextlib.suppress(HeadraceError, OSError):
        if lab is not None:
            drop_snapshots(lab, backup)
        forget(target, backup)


def _list_snapshots(lab: Lab, backup: str, listed: Collection[str]) -> list[Snapshot]:
    """Lists the lab's snapshots with a backup's tag, and those with an id in `listed`."""
    snapshots = list_all_snapshots(lab)
    return [snapshot for snapshot in snapshots if snapshot["tags"].get(TAG) == backup or snapshot["id"] in listed]


def list_snapshot_ids(lab: Lab, backup: str, listed: Collection[str] = ()) -> list[str]:
    """Lists ids of the lab's snapshots with a backup's tag, and those of `listed` that exist."""
    return [str(snapshot["id"]) for snapshot in _list_snapshots(lab, backup, listed)]


def describe_lock(lab: Lab, backup: str, listed: Collection[str] = ()) -> str:
    """Returns, in words, which snapshot of a backup is locked against deletion; "" for none.
    Without its manifest the backup would be forgotten, and that snapshot would stay."""
    for snapshot in _list_snapshots(lab, backup, listed):
        lock = snapshot["lock"]
        if lock is not None and lock["state"] != "expired":
            return f"its snapshot {snapshot['id']} is locked until {lock['expires_at']} ({lock['state']})"
    return ""


def drop_snapshots(lab: Lab, backup: str, listed: Collection[str] = ()) -> int:
    """Deletes the snapshots of a backup, and returns their number."""
    snapshots = list_snapshot_ids(lab, backup, listed)
    for snapshot in snapshots:
        lab.delete_snapshot(snapshot)
    return len(snapshots)


# --- going on -------------------------------------------------------------------------------------


def list_spooled(spool: BackupTarget, source: CopySource, key: bytes | None) -> list[Manifest]:
    """Lists a server's complete copies in a spool that no process sends, the newest first."""
    manifests = [backup.manifest for backup in documents.read_backups(spool, key)[0]]
    mine = [manifest for manifest in manifests if (manifest.source, manifest.source_id) == (source.name, source.id)]
    marks = [(manifest, read_backup_mark(spool, manifest.id)) for manifest in mine]
    return [manifest for manifest, by in reversed(marks) if by is None or not by.alive]


def list_stored_snapshots(target: BackupTarget, source: CopySource, lab: Lab, key: bytes | None) -> list[Manifest]:
    """Lists a server's copies of killed runs whose snapshots the lab has, the newest first."""
    manifests = []
    for name in reversed([entry.name for entry in target.list("backups/")]):
        _, backup, file = name.split("/", 2)
        if file != BEGUN or not ID.fullmatch(backup):
            continue
        run_mark = read_backup_mark(target, backup)
        if run_mark is None or run_mark.alive or run_mark.lab != _find_place(lab):
            continue
        with contextlib.suppress(InputError):
            manifest = read_manifest(target, backup, key, BEGUN)
            own = (manifest.source, manifest.source_id) == (source.name, source.id)
            if own and sorted(manifest.snapshots.values()) == sorted(list_snapshot_ids(lab, backup)):
                manifests.append(manifest)
    return manifests
