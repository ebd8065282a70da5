"""The place of backups: a folder, or a bucket behind the S3 API.

Names of files may have slashes. A file appears when it is closed, and an existing file is never
overwritten: a second file of the same name is refused. Only small documents that are meant to
change (a proof, the mark of a target) are replaced, whole.

>>> check_name("backups/20261122T215000Z-shop/data.00001")
'backups/20261122T215000Z-shop/data.00001'
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.base.units import MIB
from headrace.errors import InputError, Refusals

refuse = Refusals("docs/guide/backups.md")
# Kinds of errors: a file is not as it was written; copy and binary logs do not lead to the goal, so
# the backup cannot be restored to it; there is no such file; there is one of that name already.
DAMAGED, BROKEN, MISSING, TAKEN = "damaged", "broken", "missing", "taken"
FORM = "file:///FOLDER, a path, or s3://BUCKET[/PREFIX][?region=R&endpoint=URL]"
# st1 and sc1 count a request of up to 1 MiB as one I/O, and a smaller one as much
# (docs: Amazon EBS volume types, "Throughput Optimized HDD"): nothing smaller is written.
WRITE_BYTES = MIB
# A part of a name: what every filesystem and S3 take, and no path can be made of.
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", re.ASCII)
MOST_DOCUMENT_BYTES = 64 * MIB


def check_name(name: str) -> str:
    """Returns the name of a file in a target. Raises InputError if it could lead out of it."""
    if not all(PART.fullmatch(part) for part in name.split("/")):
        rule = "is not a name of a file in a backup: letters, digits, . _ - between slashes, and no part begins with ."
        raise refuse.input(repr(name)[:80], rule, "Was this written by something else?")
    return name


def format_size(count: int) -> str:
    """Returns a number of bytes as text in the unit that fits.

    >>> format_size(12_288), format_size(0), format_size(3 << 30)
    ('12 KiB', '0', '3.0 GiB')
    """
    for name, size in (("GiB", 1 << 30), ("MiB", MIB)):
        if count >= size:
            return f"{count / size:,.1f} {name}"
    return f"{-(-count // 1024):,} KiB" if count else "0"


@dataclass(frozen=True)
class StoredFile:
    """A file in a target, with its size in bytes."""

    name: str
    size: int


class TargetWriter(ABC):
    """A file that is being written; it appears at `close`, from which on its `sha256` is final."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes written so far, in hexadecimal."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        """Appends bytes. Raises CouldNotRun."""
        self._hash.update(data)
        self.size += len(data)
        self._write(data)

    @abstractmethod
    def _write(self, data: bytes) -> None:
        """Appends bytes to the place where the target has them. Raises CouldNotRun."""

    @abstractmethod
    def close(self) -> None:
        """Makes the file durable and visible. Raises CouldNotRun; InputError if the name exists."""

    @abstractmethod
    def abort(self) -> None:
        """Removes what was written, if the target can still be reached."""

    def __enter__(self) -> TargetWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Makes the file visible, or removes it after an error in the block."""
        if kind is None:
            self.close()
        else:
            self.abort()


class BackupTarget(ABC):
    """A place for backups. `label` names it without secrets."""

    label: str

    @abstractmethod
    def list(self, prefix: str = "") -> list[StoredFile]:
        """Lists its files whose name begins with `prefix`, by name. Raises CouldNotRun."""

    @abstractmethod
    def create(self, name: str, expected_bytes: int = 0) -> TargetWriter:
        """Begins a new file. Raises InputError if the name exists, CouldNotRun."""

    @abstractmethod
    def read(self, name: str, offset: int = 0) -> Iterator[bytes]:
        """Yields the bytes of a file from byte `offset` on. Raises InputError if it is missing."""

    @abstractmethod
    def replace(self, name: str, content: bytes) -> None:
        """Writes a small document, whole, and replaces an older document of the name."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes a file if it exists."""

    @abstractmethod
    def sweep(self, prefix: str, older_s: float) -> int:
        """Removes files under `prefix` that were begun and never closed, by processes that have
        ended or longer than `older_s` ago. Returns their number."""

    def put_new(self, name: str, content: bytes) -> None:
        """Writes a new file of these bytes. Raises InputError if the name exists, CouldNotRun."""
        with self.create(name, len(content)) as writer:
            writer.write(content)

    def read_document(self, name: str) -> bytes:
        """Reads a small file. Raises InputError if it does not exist or is too large."""
        content = bytearray()
        for part in self.read(name):
            content += part
            if len(content) > MOST_DOCUMENT_BYTES:
                rule = f"is larger than {MOST_DOCUMENT_BYTES >> 20} MiB, no such document is"
                raise refuse.input(f"{self.label}: {name}", rule, "Was it written by something else?")
        return bytes(content)

    def exists(self, name: str) -> bool:
        """Returns whether a file exists."""
        return any(file.name == name for file in self.list(name))

    def make_missing_error(self, name: str) -> InputError:
        """Returns the error for a file that does not exist."""
        return refuse.input(f"{self.label}: {name}", "is not there", "See headrace backup list.", kind=MISSING)

    def make_taken_error(self, name: str) -> InputError:
        """Returns the error for a name that exists already."""
        rule = "is there already, and a backup is never overwritten"
        hint = "Does another headrace write to this target?"
        return refuse.input(f"{self.label}: {name}", rule, hint, kind=TAKEN)
