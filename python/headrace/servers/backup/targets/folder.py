"""A folder as a target: a disk, a volume of the lab, or a mounted share."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.base.files import get_hint, get_reason, move_over, shorten_name
from headrace.base.processes import identify_pid_space
from headrace.base.units import MIB
from headrace.errors import CouldNotRun
from headrace.servers.backup.targets.target import (
    WRITE_BYTES,
    BackupTarget,
    StoredFile,
    TargetWriter,
    check_name,
    format_size,
    refuse,
)
from headrace.servers.volumes import count_free_bytes

# Written data are flushed this often, so that the kernel holds few unwritten pages (and a pace that
# was asked for is that of the device, not of the page cache) and a full disk shows early: a guess.
FLUSH_BYTES = 32 * MIB
# Most times that the folder is listed because files were removed meanwhile. A guess: a stream joins
# pieces a few times a minute, and a list is read in less.
MOST_LISTS = 5
# Name of a file or folder that was begun, until it is whole.
BEGUN = re.compile(
    r"\.(?P<name>.+)\.(?P<pid>[0-9]{1,10})(?:\.h(?P<here>[0-9a-f]{8}))?\.(?P<random>[0-9a-f]{8})\.begun", re.ASCII
)


def _make_machine_name() -> str:
    """Returns eight hexadecimal digits for this machine and container, the scope of process ids."""
    return hashlib.sha256(identify_pid_space().encode()).hexdigest()[:8]


def find_nearest(folder: Path) -> Path | None:
    """Returns the folder, or its nearest parent that exists."""
    return next((ancestor for ancestor in (folder, *folder.parents) if ancestor.exists()), None)


class FolderTarget(BackupTarget):
    """A folder of this machine: a disk, a volume of the lab, or a mounted share."""

    def __init__(self, folder: Path) -> None:
        """Takes the folder, which may be made later. Raises InputError for a path with .. and for a
        file."""
        if ".." in folder.parts:
            raise refuse.input(shorten_name(folder), "a target's path has no ..", "Name the folder itself.")
        self.folder, self.label = folder, f"file://{folder}"
        if folder.exists() and not folder.is_dir():
            raise refuse.input(str(folder), "is not a folder", "Name a folder, or one that can be made.")
        self._filesystem = self._find_device()

    def list(self, prefix: str = "") -> list[StoredFile]:
        """Lists its files whose name begins with `prefix`, by name, without hidden ones, which are
        unfinished. A file that is removed meanwhile is left out, and the folder is listed again, up
        to MOST_LISTS times in all: a joined piece may have taken its place. Raises CouldNotRun."""
        self._check_place()
        stored: list[StoredFile] = []
        try:
            for _ in range(MOST_LISTS):
                stored, changed = _list_files(self.folder, prefix)
                if not changed:
                    break
        except OSError as error:
            raise self._translate_error("", error, "read") from None
        return sorted(stored, key=lambda file: file.name)

    def create(self, name: str, expected_bytes: int = 0) -> TargetWriter:
        """Begins a new file. Raises InputError if the name exists, CouldNotRun if `expected_bytes`
        do not fit on the filesystem."""
        path = self._make_path(name)
        if path.exists():
            raise self.make_taken_error(name)
        room = self._measure_room()
        if room is not None and expected_bytes > room:
            rule = "is full" if room < MIB else "has too little room"
            rule += f": {format_size(expected_bytes)} needed, {format_size(room)} left"
            raise refuse.run(self.label, rule, "Free some room (headrace backup prune), or use another target.")
        return _FolderWriter(self, name, path)

    def read(self, name: str, offset: int = 0) -> Iterator[bytes]:
        """Yields the bytes of a file from byte `offset` on, in pieces of up to WRITE_BYTES. Raises
        InputError if it is missing, CouldNotRun."""
        path = self._make_path(name)
        try:
            with open(path, "rb", buffering=0) as file:
                file.seek(offset)
                while part := file.read(WRITE_BYTES):
                    yield part
        except (FileNotFoundError, NotADirectoryError):
            raise self.make_missing_error(name) from None
        except OSError as error:
            raise self._translate_error(name, error, "read") from None

    def replace(self, name: str, content: bytes) -> None:
        """Writes a document, and replaces an older one of the name at once. Raises CouldNotRun."""
        with _FolderWriter(self, name, self._make_path(name), over=True) as writer:
            writer.write(content)

    def remove(self, name: str) -> None:
        """Removes a file if it exists, and its folder once that is empty. Raises CouldNotRun."""
        path = self._make_path(name)
        try:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty yet
                path.parent.rmdir()
        except OSError as error:
            raise self._translate_error(name, error, "removed") from None

    def sweep(self, prefix: str, older_s: float) -> int:
        """Removes unfinished files whose names begin with `prefix`, if their process on this
        machine has ended or they are older than `older_s` seconds; returns their number."""
        removed, now = 0, time.time()
        for top, _, files in os.walk(self.folder):
            for file in files:
                begun, path = BEGUN.fullmatch(file), Path(top, file)
                if begun is None or not os.path.relpath(path, self.folder).startswith(prefix):
                    continue
                gone = begun["here"] == _make_machine_name() and not Path(f"/proc/{begun['pid']}").exists()
                with contextlib.suppress(OSError):
                    if gone or now - path.stat().st_mtime > older_s:
                        path.unlink()
                        removed += 1
                        path.parent.rmdir()
        return removed

    def _make_path(self, name: str) -> Path:
        """Returns the path of a file. Raises InputError, CouldNotRun."""
        self._check_place()
        return self.folder / check_name(name)

    def _find_device(self) -> int | None:
        """Returns the number of the filesystem's device that the folder is on, or will be on; None
        if it cannot be read."""
        existing = find_nearest(self.folder)
        try:
            return None if existing is None else os.stat(existing).st_dev
        except OSError:
            return None

    def _check_place(self) -> None:
        """Raises CouldNotRun if the folder is on another filesystem now: an unmounted volume leaves
        its empty mount point, and files written there fill the machine's own disk."""
        if self._find_device() != self._filesystem:
            rule = "is on another filesystem than at the begin: was its volume unmounted, or mounted over it?"
            raise refuse.run(shorten_name(self.label), rule, "Mount it again. Nothing half-written counts.")

    def _measure_room(self) -> int | None:
        """Returns the free bytes of the folder's filesystem, None if it is unknown. Raises
        CouldNotRun."""
        existing = find_nearest(self.folder)
        try:
            return None if existing is None else count_free_bytes(existing)
        except OSError as error:
            raise self._translate_error("", error, "written") from None

    def _translate_error(self, name: str, error: OSError, what: str) -> CouldNotRun:
        """Returns the error for a refusal of the operating system, in words (full, read-only,
        gone). `name`: the file, "" for the folder; `what`: read or written."""
        place = f"{self.label}/{name}" if name else self.label
        reason = {
            errno.ENOSPC: "the target is full",
            errno.EDQUOT: "the target's quota is used up",
            errno.EROFS: "the target is read-only",
            errno.EIO: "the target's device gives errors: is it gone?",
            errno.ENODEV: "the target's device is gone",
            errno.ENXIO: "the target's device is gone",
            errno.ESTALE: "the target's share is gone",
        }.get(error.errno or 0, get_reason(error))
        hint = get_hint(error, "Look at the folder, its permissions and its device.")
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "Free some room (headrace backup prune), or use another target. Nothing half-written counts."
        return CouldNotRun(shorten_name(place), f"cannot be {what}: {reason}", "operating system", hint)


def _list_files(folder: Path, prefix: str) -> tuple[list[StoredFile], bool]:
    """Returns the files under a folder whose name begins with `prefix`, and whether files were
    removed meanwhile, which is so for a missing folder. Raises OSError."""
    stored: list[StoredFile] = []
    removed: list[OSError] = []

    def note_removed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error
        removed.append(error)

    for top, _, files in os.walk(folder, onerror=note_removed):
        for file in files:
            path = os.path.join(top, file)
            name = os.path.relpath(path, folder)
            if file.startswith(".") or not name.startswith(prefix):
                continue
            try:
                stored.append(StoredFile(name, os.stat(path).st_size))
            except FileNotFoundError as error:
                removed.append(error)
    return stored, bool(removed)


class _FolderWriter(TargetWriter):
    """Writes a file in pieces of 1 MiB under a hidden name, and gives it its own name when it is
    closed: by a link, which refuses a name that exists, or a rename (`over`)."""

    def __init__(self, target: FolderTarget, name: str, path: Path, over: bool = False) -> None:
        """Makes the hidden file, and its folder if needed. `over`: an existing file is replaced at
        the end. Raises CouldNotRun."""
        super().__init__()
        self.target, self.name, self.path, self.over = target, name, path, over
        self._waiting, self._unflushed = bytearray(), 0
        self._begun = path.with_name(f".{path.name}.{os.getpid()}.h{_make_machine_name()}.{os.urandom(4).hex()}.begun")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self._begun, flags, 0o600)
        except OSError as error:
            raise target._translate_error(name, error, "written") from None

    def _write(self, data: bytes) -> None:
        """Appends bytes, and writes those that fill whole pieces of WRITE_BYTES."""
        self._waiting += data
        whole = len(self._waiting) // WRITE_BYTES * WRITE_BYTES
        if whole:
            self._put(self._waiting[:whole])
            del self._waiting[:whole]

    def _put(self, data: bytes | bytearray) -> None:
        """Writes bytes to the hidden file, and flushes it each FLUSH_BYTES. Raises CouldNotRun."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view[:WRITE_BYTES]) :]
            self._unflushed += len(data)
            if self._unflushed >= FLUSH_BYTES:
                os.fdatasync(self._file)
                self._unflushed = 0
        except OSError as error:
            raise self.target._translate_error(self.name, error, "written") from None

    def close(self) -> None:
        """Flushes the file and gives it its name. Raises InputError if the name exists, CouldNotRun
        if the folder's filesystem was unmounted or refuses; then the hidden file is removed."""
        try:
            self._put(self._waiting)
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1
            self.target._check_place()
            if self.over:
                move_over(self._begun, self.path)
            else:
                os.link(self._begun, self.path)
                os.unlink(self._begun)
            _flush_folder(self.path.parent)
        except FileExistsError:
            self.abort()
            raise self.target.make_taken_error(self.name) from None
        except OSError as error:
            self.abort()
            raise self.target._translate_error(self.name, error, "written") from None
        except CouldNotRun:
            self.abort()
            raise

    def abort(self) -> None:
        """Removes the hidden file, and its folder if that is empty; errors are ignored."""
        with contextlib.suppress(OSError):
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
        with contextlib.suppress(OSError):
            self._begun.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._begun.parent.rmdir()


def _flush_folder(folder: Path) -> None:
    """Makes the names of new files in a folder durable (fsync). Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
