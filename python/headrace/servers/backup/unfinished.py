"""Runs that were killed: what they left is found, and removed where no run can go on with it.

    backups/ID/running      who writes this backup; the first file of it, and the last to go
    backups/ID/begun.json   of snapshots: its manifest, while they are being stored

A run goes on with a copy that needs its server no more: one that lies whole in a folder of this
machine (`--spool`), or snapshots that were made. Everything else starts anew, for the moment that
it shows has passed: `ANEW` says why.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headrace.base.processes import look_up, where_numbers_hold
from headrace.errors import HeadraceError, InputError
from headrace.lab import Lab
from headrace.lab.calls import Snapshot
from headrace.servers.backup import manifest as documents
from headrace.servers.backup.manifest import BEGUN, MANIFEST, RUNNING, Manifest, folder_of, read_manifest
from headrace.servers.backup.source import BackupSource
from headrace.servers.backup.targets.target import BackupTarget

# What was begun by another machine is left alone for this long, and what is older is not gone on
# with: who asks for a backup wants the data of today. A guess.
SWEEP_S = 24 * 3600.0
# How often a run says that it still writes, s: a guess, a small part of that day.
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
    """Who writes a backup. `lab`: the lab that has its snapshots, "" for none. `seen_unix`: when it
    was last known to write."""

    host: str
    pid: int
    started: float | None
    began_unix: float
    source: str = ""
    lab: str = ""
    seen_unix: float = 0.0

    @property
    def here(self) -> bool:
        """Whether it is of this machine, and of this container of it."""
        return self.host == where_numbers_hold()

    @property
    def alive(self) -> bool:
        """Whether that process runs. One of another machine, or container, counts as running for a
        day after it was last seen."""
        if not self.here:
            return time.time() - max(self.began_unix, self.seen_unix) < SWEEP_S
        found = look_up(self.pid)
        return found is not None and found.started == self.started


def _place_of(lab: Lab) -> str:
    return str((lab.place.data_dir or lab.place.socket).resolve())


def mark(target: BackupTarget, backup: str, source: str, lab: Lab | None) -> None:
    """Says that this process writes a backup, and which lab has its snapshots."""
    write_mark(target, _mark_name(backup), own_mark(source, lab))


def _mark_name(backup: str) -> str:
    return f"{folder_of(backup)}/{RUNNING}"


def own_mark(source: str, lab: Lab | None) -> RunMark:
    """The mark of this process."""
    own = look_up(os.getpid())
    place = _place_of(lab) if lab is not None else ""
    return RunMark(where_numbers_hold(), os.getpid(), own and own.started, time.time(), source, place)


def write_mark(target: BackupTarget, name: str, made: RunMark) -> None:
    """Writes a mark, over an older one."""
    target.replace(name, json.dumps(asdict(made)).encode())


@contextlib.contextmanager
def marked(
    target: BackupTarget, backup: str, source: str, lab: Lab | None, every_s: float = SEEN_EVERY_S
) -> Iterator[None]:
    """While it lasts, a mark that is renewed: a copy may take days. The mark itself stays."""
    made, ended = own_mark(source, lab), threading.Event()
    write_mark(target, _mark_name(backup), made)

    def renew() -> None:
        while not ended.wait(every_s):
            with contextlib.suppress(HeadraceError, OSError):  # the copy itself meets it too, and says so
                write_mark(target, _mark_name(backup), replace(made, seen_unix=time.time()))

    renewing = threading.Thread(target=renew, name="backup-mark", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()


def unmark(target: BackupTarget, backup: str) -> None:
    """The backup is whole, or nobody writes it any more."""
    for name in (BEGUN, RUNNING):
        target.remove(f"{folder_of(backup)}/{name}")


def mark_of_run(target: BackupTarget, backup: str) -> RunMark | None:
    """Who writes a backup, as far as that was said."""
    return mark_of(target, _mark_name(backup))


def mark_of(target: BackupTarget, name: str) -> RunMark | None:
    """Who has set a mark, as far as it can be read."""
    try:
        found = RunMark(**json.loads(target.document(name)))
        return found if isinstance(found.pid, int) and isinstance(found.began_unix, float) else None
    except (InputError, ValueError, TypeError):
        return None


# --- removing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leftover:
    """What a killed run left. `words`: what was done about it."""

    source: str
    words: str


def clear(
    target: BackupTarget, lab: Callable[[], Lab] | None, keep: str = "", older_s: float = SWEEP_S
) -> list[Leftover]:
    """Removes what killed runs have left: files of backups without a manifest, and snapshots of
    the lab that are tagged with one. `keep`: the backup that is gone on with."""
    target.sweep("backups/", older_s)
    names = [one.name for one in target.list("backups/")]
    by_id: dict[str, set[str]] = {}
    for name in names:
        by_id.setdefault(name.split("/")[1], set()).add(name.rpartition("/")[2])
    found = []
    for backup, files in sorted(by_id.items()):
        if backup == keep or not documents.ID.fullmatch(backup) or (MANIFEST in files and RUNNING not in files):
            continue
        left = mark_of_run(target, backup)
        if left is not None and left.alive:
            continue
        if MANIFEST in files:  # killed behind its last step
            unmark(target, backup)
            continue
        source = left.source if left is not None else ""
        snapshots = 0
        if left is not None and left.lab:
            try:
                mine = lab() if lab is not None else None
                snapshots = drop_snapshots(mine, backup) if mine is not None and _place_of(mine) == left.lab else -1
            except HeadraceError:
                snapshots = -1
            if snapshots < 0:
                rule = f"was killed and stays as it is: its snapshots are in the lab at {left.lab}"
                found.append(Leftover(source, f"{backup} {rule}, which is another one or does not answer"))
                continue
        forget(target, backup)
        words = f"{backup} was killed: removed its {len(files - {RUNNING, BEGUN})} files and {snapshots} snapshots"
        found.append(Leftover(source, words))
    return found


def forget(target: BackupTarget, backup: str) -> None:
    """Removes what was written of a backup: its manifest first, its mark last."""
    folder = folder_of(backup)
    target.sweep(f"{folder}/", 0.0)
    order = {MANIFEST: 0, RUNNING: 2}
    for one in sorted(target.list(f"{folder}/"), key=lambda one: order.get(one.name.rpartition("/")[2], 1)):
        target.remove(one.name)


def forget_quietly(target: BackupTarget, backup: str, lab: Lab | None = None) -> None:
    """Removes what was written of a backup, as far as the target is still there: without a manifest
    it is none, and the next run removes it."""
    with contextlib.suppress(HeadraceError, OSError):
        if lab is not None:
            drop_snapshots(lab, backup)
        forget(target, backup)


def _snapshots(lab: Lab, backup: str, known: Collection[str]) -> Iterator[Snapshot]:
    after = None
    while True:
        page = lab.snapshots(after=after)
        yield from (one for one in page["snapshots"] if one["tags"].get(TAG) == backup or one["id"] in known)
        after = page["next"]
        if after is None:
            return


def snapshots_of(lab: Lab, backup: str, known: Collection[str] = ()) -> list[str]:
    """The snapshots that are tagged with a backup, and those `known` that are there."""
    return [str(one["id"]) for one in _snapshots(lab, backup, known)]


def lock_on(lab: Lab, backup: str, known: Collection[str] = ()) -> str:
    """Which of them is locked against deletion, in words; "" for none. Without its manifest the
    backup would be forgotten, and that snapshot would stay."""
    for one in _snapshots(lab, backup, known):
        lock = one["lock"]
        if lock is not None and lock["state"] != "expired":
            return f"its snapshot {one['id']} is locked until {lock['expires_at']} ({lock['state']})"
    return ""


def drop_snapshots(lab: Lab, backup: str, known: Collection[str] = ()) -> int:
    """Deletes them. How many."""
    found = snapshots_of(lab, backup, known)
    for one in found:
        lab.delete_snapshot(one)
    return len(found)


# --- going on -------------------------------------------------------------------------------------


def spooled(spool: BackupTarget, source: BackupSource, key: bytes | None) -> list[Manifest]:
    """Whole copies of a server that no living run is sending, the newest first."""
    found = [one.manifest for one in documents.backups(spool, key)[0]]
    mine = [one for one in found if (one.source, one.source_id) == (source.name, source.id)]
    left = [(one, mark_of_run(spool, one.id)) for one in mine]
    return [one for one, by in reversed(left) if by is None or not by.alive]


def stored_snapshots(target: BackupTarget, source: BackupSource, lab: Lab, key: bytes | None) -> list[Manifest]:
    """Copies whose snapshots a killed run has made, and the lab has. The newest first."""
    found = []
    for name in reversed([one.name for one in target.list("backups/")]):
        _, backup, file = name.split("/", 2)
        if file != BEGUN or not documents.ID.fullmatch(backup):
            continue
        left = mark_of_run(target, backup)
        if left is None or left.alive or left.lab != _place_of(lab):
            continue
        with contextlib.suppress(InputError):
            made = read_manifest(target, backup, key, BEGUN)
            if (made.source, made.source_id) == (source.name, source.id) and sorted(made.snapshots.values()) == sorted(
                snapshots_of(lab, backup)
            ):
                found.append(made)
    return found


# --- folders of this machine ----------------------------------------------------------------------


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Marks a folder of a run as used, and removes those of runs that were killed: each may be a
    whole copy of the data. A lock ends with its process, however that ends."""
    for lock in folder.parent.glob("headrace-*.lock"):
        if documents.ID.fullmatch(lock.name.removeprefix("headrace-").removesuffix(".lock")) and is_free(lock):
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)
    lock = folder.with_name(f"{folder.name}.lock")
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.unlink(missing_ok=True)
        os.close(handle)


def is_free(lock: Path) -> bool:
    """Whether the run that made a lock is gone."""
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
