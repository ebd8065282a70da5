"""The manifest of a backup. It is written last, so files without a manifest are not a backup.

    backups/ID/data.00001 ...     the copy, in files of one size, each with its checksum
    backups/ID/manifest.json      method, server, position, and the checksums of the parts
    backups/ID/proof.json         result of its last restore (may be missing)

The documents are sealed: the text has a single valid form, and contains its own checksum, or with a
key its HMAC. So a changed bit is noticed anywhere, and with a key nobody else can write one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from headrace.errors import CouldNotRun, InputError
from headrace.servers.backup.targets.target import DAMAGED, MISSING, BackupTarget, refuse
from headrace.servers.copies.folders import ID
from headrace.servers.copies.position import BinlogPosition

FORMAT = "headrace-backup/1"
METHODS = ("logical", "physical", "snapshot")
MANIFEST, PROOF = "manifest.json", "proof.json"
# Folder and document of a backup that is being written: see `unfinished`.
RUNNING, BEGUN = "running", "begun.json"
# A key of 256 bits, as AES-256 takes; shorter ones could be guessed.
KEY_BYTES = 32


@dataclass(frozen=True)
class Part:
    """A file of a copy in the target: its name, its size in bytes, and its SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Packing:
    """The format of a backup's files. `form`: of the copy itself (mbstream, tar, sql or snapshot);
    `packed`: by zstd or none; `encrypted`: with the key of the backup."""

    form: str
    packed: str
    encrypted: bool


@dataclass(frozen=True)
class Manifest:
    """A backup, as its manifest describes it. `source_id`: the source's UUID (MySQL) or `server_id`
    (MariaDB). `began_unix`, `ended_unix`: s, Unix. `data_bytes`: size of the data at the source.
    `databases`: the users' databases in it, `tables`: the number of their tables when it began;
    `only`: the databases of a backup of a part of its server. `settings`: those of the source.
    `snapshots`: ids by volume; `facts`: of the method."""

    id: str
    method: str
    flavor: str
    version: str
    engine: str
    source: str
    source_id: str
    began_unix: float
    ended_unix: float
    position: BinlogPosition
    packing: Packing
    data_bytes: int
    parts: tuple[Part, ...]
    databases: tuple[str, ...] = ()
    tables: int = 0
    only: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    snapshots: dict[str, str] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def stored_bytes(self) -> int:
        """The size of its files in the target, bytes."""
        return sum(part.size for part in self.parts)

    @property
    def part(self) -> str:
        """The databases of a backup of a part of its server, as text; "" for the whole server."""
        return ", ".join(self.only)

    @property
    def series(self) -> tuple[int, ...]:
        """The release series, to which physical copies are tied: (10, 11), (9, 7)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])

    def with_(self, **changes: object) -> Manifest:
        """Returns a copy of the manifest with other values."""
        return replace(self, **changes)


@dataclass(frozen=True)
class RestoreProof:
    """The result of a restore, which took `seconds`. `tables`: number of compared tables;
    `against`: the source that they were compared with, "" for none. `binlogs_to`: the GTIDs up to
    which it was to be replayed, "" for none. `failure`: why it failed, in words. `part`: the
    databases of a backup of a part of its server, "" for all."""

    at_unix: float
    seconds: float
    restored_gtid: str
    tables: int
    against: str
    binlogs_to: str
    ok: bool
    failure: str = ""
    part: str = ""


@dataclass(frozen=True)
class Backup:
    """A backup in a target, with its last proof."""

    manifest: Manifest
    proof: RestoreProof | None

    @property
    def id(self) -> str:
        """The id of the backup."""
        return self.manifest.id

    @property
    def proved(self) -> bool:
        """True if its last proof or restore succeeded."""
        return self.proof is not None and self.proof.ok

    @property
    def failed(self) -> bool:
        """True if its last proof or restore failed: then no older one counts."""
        return self.proof is not None and not self.proof.ok

    def compute_age_s(self, now: float) -> float:
        """Returns the age of the data, s. `now`: Unix time, s."""
        return now - self.manifest.ended_unix


def get_backup_folder(backup: str) -> str:
    """Returns the folder of a backup in a target. Raises InputError for no id."""
    if not ID.fullmatch(backup):
        raise refuse.input(repr(backup)[:80], "is not the id of a backup", "See headrace backup list.")
    return f"backups/{backup}"


# --- sealed documents -----------------------------------------------------------------------------


def seal_document(content: Mapping[str, object], key: bytes | None = None) -> bytes:
    """Returns the text of a document with its seal: a SHA-256, or with a key an HMAC-SHA256."""
    return _encode({**content, "seal": _compute_seal(content, key)})


def open_document(raw: bytes, what: str, key: bytes | None = None) -> dict[str, Any]:
    """Returns the content of a sealed document, which errors call `what`. Raises InputError if any
    bit of it was changed, or it was sealed with another key, or with or without one."""
    try:
        content = json.loads(raw)
        seal = content.pop("seal")
        # The text has a single valid form: a changed blank is a changed document.
        whole = isinstance(seal, str) and _encode({**content, "seal": seal}) == raw
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole, content, seal = False, {}, ""
    if not whole:
        hint = "Use another backup, or another copy."
        raise refuse.input(what, "is damaged: it is not as it was written", hint, kind=DAMAGED)
    if hmac.compare_digest(seal, _compute_seal(content, key)):
        return content
    if seal.startswith("hmac-") and key is None:
        raise refuse.input(what, "was sealed with a key", "Name the key: --key-file FILE.")
    if seal.startswith("hmac-"):
        rule = "is damaged, or was sealed with another key"
    elif key is not None and hmac.compare_digest(seal, _compute_seal(content, None)):
        rule = "was not sealed with a key, so anybody may have written it"
        raise refuse.input(what, rule, "Leave out --key-file to trust it all the same.")
    else:
        rule = "is damaged: its checksum is another"
    raise refuse.input(what, rule, "Use another backup, or the right key.", kind=DAMAGED)


def _encode(content: Mapping[str, object]) -> bytes:
    """Returns the only valid text of a document."""
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode()


def _compute_seal(content: Mapping[str, object], key: bytes | None) -> str:
    """Returns the seal of a document: the SHA-256 of its text, or with a key an HMAC."""
    text = _encode({name: value for name, value in content.items() if name != "seal"})
    if key is None:
        return f"sha256:{hashlib.sha256(text).hexdigest()}"
    return f"hmac-sha256:{hmac.new(key, b'headrace seal' + text, hashlib.sha256).hexdigest()}"


def read_key(path: str | os.PathLike | None) -> bytes | None:
    """Reads the key from a file that only its owner may read; None without a file. Raises
    InputError, CouldNotRun."""
    if path is None:
        return None
    where = Path(path)
    try:
        status = where.stat()
        content = where.read_bytes()[:4096].strip()
    except FileNotFoundError:
        hint = f"Make one: (umask 077; openssl rand -hex {KEY_BYTES} > FILE). Without it nothing can be restored: keep a copy."
        raise refuse.input(str(where), "there is no such key", hint) from None
    except OSError as error:
        raise CouldNotRun(str(where), f"cannot be read: {error.strerror}", "", "Is it yours to read?") from None
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        rule = f"holds a key and others may read it (mode {stat.S_IMODE(status.st_mode):04o})"
        raise refuse.input(str(where), rule, f"chmod 600 {where}")
    if not re.fullmatch(rb"[0-9a-fA-F]{64}", content):
        rule = f"a key is {KEY_BYTES} bytes as {2 * KEY_BYTES} hexadecimal digits"
        raise refuse.input(str(where), rule, f"Make one: openssl rand -hex {KEY_BYTES} > FILE")
    return bytes.fromhex(content.decode())


# --- in a target ----------------------------------------------------------------------------------


def write_manifest(target: BackupTarget, manifest: Manifest, key: bytes | None, name: str = MANIFEST) -> None:
    """Writes the manifest of a backup, which completes it; under another `name` it does not."""
    content = {"format": FORMAT, **asdict(manifest)}
    target.put_new(f"{get_backup_folder(manifest.id)}/{name}", seal_document(content, key))


def read_manifest(target: BackupTarget, backup: str, key: bytes | None = None, name: str = MANIFEST) -> Manifest:
    """Reads the manifest of a backup. Raises InputError if it is missing or damaged."""
    name = f"{get_backup_folder(backup)}/{name}"
    content = open_document(target.read_document(name), f"{target.label}/{name}", key)
    if content.pop("format", None) != FORMAT:
        hint = "Use the Headrace that wrote it, or a newer one."
        raise refuse.input(f"{target.label}/{name}", f"is of another format than {FORMAT}", hint)
    try:
        manifest = msgspec.convert(content, Manifest)
    except msgspec.ValidationError:
        raise refuse.input(f"{target.label}/{name}", f"is not {FORMAT}", "Use a newer Headrace.") from None
    if manifest.id != backup:
        raise refuse.input(f"{target.label}/{name}", f"is the manifest of {manifest.id}", "Was it copied by hand?")
    return manifest


def read_proof(target: BackupTarget, backup: str, key: bytes | None = None) -> RestoreProof | None:
    """Reads the last proof of a backup, None for none. Raises InputError for a damaged one."""
    name = f"{get_backup_folder(backup)}/{PROOF}"
    try:
        raw = target.read_document(name)
    except InputError as error:
        if error.kind == MISSING:
            return None
        raise
    content = open_document(raw, f"{target.label}/{name}", key)
    try:
        return msgspec.convert(content, RestoreProof)
    except msgspec.ValidationError:
        rule = "was written by another version of Headrace"
        raise refuse.input(f"{target.label}/{name}", rule, "Prove it again: headrace backup prove.") from None


def write_proof(target: BackupTarget, backup: str, proof: RestoreProof, key: bytes | None) -> None:
    """Writes the result of a backup's last restore, over an earlier one."""
    target.replace(f"{get_backup_folder(backup)}/{PROOF}", seal_document(asdict(proof), key))


def read_backups(target: BackupTarget, key: bytes | None = None) -> tuple[list[Backup], list[str]]:
    """Returns the complete backups, oldest first, and in words what is damaged or unfinished."""
    whole_backups, problems = [], []
    names = {file.name for file in target.list("backups/")}
    for backup in sorted({name.split("/")[1] for name in names if name.count("/") == 2}):
        if not ID.fullmatch(backup):
            problems.append(f"{backup[:80]!r} under backups/ is not a backup of Headrace")
            continue
        if f"{get_backup_folder(backup)}/{MANIFEST}" not in names:
            rule = "is not finished, so it is not a backup: a run is writing it, or was killed"
            problems.append(f"{backup} {rule}; then the next run or prune sees to it")
            continue
        try:
            manifest = read_manifest(target, backup, key)
        except InputError as error:
            problems.append(f"{backup}: {error.rule}")
            continue
        proof = None
        try:
            proof = read_proof(target, backup, key)
        except InputError as error:  # the backup itself may be whole, and counts
            problems.append(f"the proof of {backup}: {error.rule}; prove it again")
        whole_backups.append(Backup(manifest, proof))
    return whole_backups, problems


def list_unreadable(target: BackupTarget, readable: Sequence[Backup]) -> list[str]:
    """Lists ids of backups with an unreadable manifest: damaged, or sealed with another key."""
    readable_ids = {backup.id for backup in readable}
    parts = [file.name.split("/") for file in target.list("backups/")]
    return sorted(path[1] for path in parts if len(path) == 3 and path[2] == MANIFEST and path[1] not in readable_ids)
