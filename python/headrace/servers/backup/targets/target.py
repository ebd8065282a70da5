"""Where backups lie: a folder, or a bucket behind the S3 API.

A target knows files by names with slashes. What is begun is not seen until it is closed, and what
is there is never overwritten: a second file of one name is refused. Only small documents that are
meant to change (a proof, the mark of a target) are replaced, whole.

>>> checked_name("backups/20261122T215000Z-shop/data.00001")
'backups/20261122T215000Z-shop/data.00001'
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from headrace.base.files import hint_of, reason_of, short_name, write_whole
from headrace.base.units import MIB
from headrace.errors import CouldNotRun, InputError

DOC = "docs/guide/backups.md"
FORM = "file:///FOLDER, a path, or s3://BUCKET[/PREFIX][?region=R&endpoint=URL]"
# st1 and sc1 count a request of up to 1 MiB as one I/O, and a smaller one as much
# (docs: Amazon EBS volume types, "Throughput Optimized HDD"): nothing smaller is written.
WRITE_BYTES = MIB
# Written data are flushed this often, so that the kernel holds few unwritten pages (and a pace that
# was asked for is that of the device, not of the page cache) and a full disk shows early: a guess.
FLUSH_BYTES = 32 * MIB
# A part of a name: what every filesystem and S3 take, and no path can be made of.
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", re.ASCII)
# What is begun lies under such a name until it is whole.
BEGUN = re.compile(r"\.(?P<name>.+)\.(?P<pid>[0-9]{1,10})\.(?P<random>[0-9a-f]{8})\.begun", re.ASCII)
MOST_DOCUMENT_BYTES = 64 * MIB


def checked_name(name: str) -> str:
    """A file's name in a target. Raises InputError for what could lead out of it."""
    if not all(PART.fullmatch(part) for part in name.split("/")):
        rule = "is not a name of a file in a backup: letters, digits, . _ - between slashes, and no part begins with ."
        raise InputError(repr(name)[:80], rule, DOC, "Was this written by something else?")
    return name


@dataclass(frozen=True)
class Stored:
    """A file in a target."""

    name: str
    size: int


class TargetWriter(ABC):
    """A file that is being written. `sha256` holds from `close` on. Without `close` it is as if it
    had never been begun."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        """Adds bytes. Raises CouldNotRun."""
        self._hash.update(data)
        self.size += len(data)
        self._write(data)

    @abstractmethod
    def _write(self, data: bytes) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Makes it durable and seen. Raises CouldNotRun; InputError where the name is taken."""

    @abstractmethod
    def abort(self) -> None:
        """Leaves nothing of it, as far as the target can still be reached."""

    def __enter__(self) -> TargetWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class BackupTarget(ABC):
    """A place for backups. `label` names it without secrets."""

    label: str

    @abstractmethod
    def list(self, prefix: str = "") -> list[Stored]:
        """Its files whose name begins so, by name. Raises CouldNotRun."""

    @abstractmethod
    def create(self, name: str, expected_bytes: int = 0) -> TargetWriter:
        """A new file. Raises InputError where there is one of this name, CouldNotRun."""

    @abstractmethod
    def read(self, name: str, offset: int = 0) -> Iterator[bytes]:
        """The bytes of a file from `offset` on. Raises InputError where there is none."""

    @abstractmethod
    def replace(self, name: str, content: bytes) -> None:
        """Writes a small document, over an older one of the name, whole."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""

    @abstractmethod
    def sweep(self, prefix: str, older_s: float) -> int:
        """Removes what was begun under `prefix` and never closed, by processes that are gone or
        longer than `older_s` ago. How many."""

    def put_new(self, name: str, content: bytes) -> None:
        """A new file of these bytes."""
        with self.create(name, len(content)) as writer:
            writer.write(content)

    def document(self, name: str) -> bytes:
        """A small file. Raises InputError where there is none or it is too large."""
        found = bytearray()
        for part in self.read(name):
            found += part
            if len(found) > MOST_DOCUMENT_BYTES:
                rule = f"is larger than {MOST_DOCUMENT_BYTES >> 20} MiB, no such document is"
                raise InputError(f"{self.label}: {name}", rule, DOC, "Was it written by something else?")
        return bytes(found)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return any(one.name == name for one in self.list(name))

    def missing(self, name: str) -> InputError:
        """The error for a file that is not there."""
        return InputError(f"{self.label}: {name}", "is not there", DOC, "See headrace backup list.")

    def taken(self, name: str) -> InputError:
        """The error for a name that is taken."""
        rule = "is there already, and a backup is never overwritten"
        return InputError(f"{self.label}: {name}", rule, DOC, "Does another headrace write to this target?")


def open_target(text: str | os.PathLike) -> BackupTarget:
    """The target that a text names. Raises InputError for what cannot be one, CouldNotRun for a
    folder that cannot be used or S3 without boto3."""
    text = os.fspath(text)
    if not isinstance(text, str) or not text or "\0" in text or "\n" in text or "\r" in text:
        raise InputError(repr(text)[:80], f"a target is {FORM}", DOC, "For example --to file:///backup/mysql.")
    scheme, colon, rest = text.partition("://")
    if colon and scheme == "s3":
        from headrace.servers.backup.targets.s3 import S3Target

        return S3Target(rest)
    if colon and scheme == "file":
        if not rest.startswith("/"):
            raise InputError(text[:120], "file:// is followed by an absolute path", DOC, "For example file:///backup.")
        return FolderTarget(Path(unquote(rest)))
    if colon:
        raise InputError(text[:120], f"a target is {FORM}", DOC, "For example --to file:///backup/mysql.")
    return FolderTarget(Path(os.path.abspath(text)))


# --- a folder -------------------------------------------------------------------------------------


class FolderTarget(BackupTarget):
    """A folder of this machine: a disk, a volume of the lab, or a mounted share."""

    def __init__(self, folder: Path) -> None:
        if ".." in folder.parts:
            raise InputError(short_name(folder), "a target's path has no ..", DOC, "Name the folder itself.")
        self.folder, self.label = folder, f"file://{folder}"
        if folder.exists() and not folder.is_dir():
            raise InputError(str(folder), "is not a folder", DOC, "Name a folder, or one that can be made.")

    def list(self, prefix: str = "") -> list[Stored]:
        found = []
        try:
            for top, folders, files in os.walk(self.folder, onerror=_raise):
                folders.sort()
                for file in files:
                    name = os.path.relpath(os.path.join(top, file), self.folder)
                    if not file.startswith(".") and name.startswith(prefix):
                        found.append(Stored(name, os.stat(os.path.join(top, file)).st_size))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._failed("", error, "read") from None
        return sorted(found, key=lambda one: one.name)

    def create(self, name: str, expected_bytes: int = 0) -> TargetWriter:
        path = self._path(name)
        if path.exists():
            raise self.taken(name)
        room = self._room()
        if room is not None and expected_bytes > room:
            rule = f"has {room / 2**30:,.2f} GiB left, and {expected_bytes / 2**30:,.2f} GiB are to be written"
            raise CouldNotRun(self.label, rule, DOC, "Free some room (headrace backup prune), or use another target.")
        return _FolderWriter(self, name, path)

    def read(self, name: str, offset: int = 0) -> Iterator[bytes]:
        path = self._path(name)
        try:
            with open(path, "rb", buffering=0) as file:
                file.seek(offset)
                while part := file.read(WRITE_BYTES):
                    yield part
        except (FileNotFoundError, NotADirectoryError):
            raise self.missing(name) from None
        except OSError as error:
            raise self._failed(name, error, "read") from None

    def replace(self, name: str, content: bytes) -> None:
        path = self._path(name)
        self._make(path.parent, name)
        write_whole(path, content)
        path.chmod(0o600)

    def remove(self, name: str) -> None:
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty yet
                path.parent.rmdir()
        except OSError as error:
            raise self._failed(name, error, "removed") from None

    def sweep(self, prefix: str, older_s: float) -> int:
        removed, now = 0, time.time()
        for top, _, files in os.walk(self.folder):
            for file in files:
                begun, path = BEGUN.fullmatch(file), Path(top, file)
                if begun is None or not os.path.relpath(path, self.folder).startswith(prefix):
                    continue
                gone = not Path(f"/proc/{begun['pid']}").exists()
                with contextlib.suppress(OSError):
                    if gone or now - path.stat().st_mtime > older_s:
                        path.unlink()
                        removed += 1
                        path.parent.rmdir()
        return removed

    def _path(self, name: str) -> Path:
        return self.folder / checked_name(name)

    def _make(self, folder: Path, name: str) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._failed(name, error, "written") from None

    def _room(self) -> int | None:
        there = next((one for one in (self.folder, *self.folder.parents) if one.exists()), None)
        try:
            room = None if there is None else os.statvfs(there)
        except OSError as error:
            raise self._failed("", error, "written") from None
        return None if room is None else room.f_bavail * room.f_frsize

    def _failed(self, name: str, error: OSError, what: str) -> CouldNotRun:
        """What the operating system refused, in words: full, read-only, gone."""
        place = f"{self.label}/{name}" if name else self.label
        told = {
            errno.ENOSPC: "the target is full",
            errno.EDQUOT: "the target's quota is used up",
            errno.EROFS: "the target is read-only",
            errno.EIO: "the target's device gives errors: is it gone?",
            errno.ENODEV: "the target's device is gone",
            errno.ENXIO: "the target's device is gone",
            errno.ESTALE: "the target's share is gone",
        }.get(error.errno or 0, reason_of(error))
        hint = hint_of(error, "Look at the folder, its permissions and its device.")
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "Free some room (headrace backup prune), or use another target. Nothing half-written counts."
        return CouldNotRun(short_name(place), f"cannot be {what}: {told}", "operating system", hint)


def _raise(error: OSError) -> None:
    raise error


class _FolderWriter(TargetWriter):
    """Writes in pieces of 1 MiB to a hidden name, and links it to its own at the end: `link`
    refuses a name that is taken, where a rename would replace it."""

    def __init__(self, target: FolderTarget, name: str, path: Path) -> None:
        super().__init__()
        self.target, self.name, self.path = target, name, path
        self._waiting, self._unflushed = bytearray(), 0
        target._make(path.parent, name)
        self._begun = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.begun")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self._begun, flags, 0o600)
        except OSError as error:
            raise target._failed(name, error, "written") from None

    def _write(self, data: bytes) -> None:
        self._waiting += data
        whole = len(self._waiting) // WRITE_BYTES * WRITE_BYTES
        if whole:
            self._put(self._waiting[:whole])
            del self._waiting[:whole]

    def _put(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view[:WRITE_BYTES]) :]
            self._unflushed += len(data)
            if self._unflushed >= FLUSH_BYTES:
                os.fdatasync(self._file)
                self._unflushed = 0
        except OSError as error:
            raise self.target._failed(self.name, error, "written") from None

    def close(self) -> None:
        try:
            self._put(self._waiting)
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1
            os.link(self._begun, self.path)
            os.unlink(self._begun)
            _flush_folder(self.path.parent)
        except FileExistsError:
            self.abort()
            raise self.target.taken(self.name) from None
        except OSError as error:
            self.abort()
            raise self.target._failed(self.name, error, "written") from None
        except CouldNotRun:
            self.abort()
            raise

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
        with contextlib.suppress(OSError):
            self._begun.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._begun.parent.rmdir()


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
