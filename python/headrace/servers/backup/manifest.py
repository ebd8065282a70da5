"""What a backup is: a document that is written last, so that a backup without one is none.

    backups/ID/data.00001 ...     the copy, in files of one size, each with its checksum
    backups/ID/manifest.json      what it is, of which server, at which position; the checksums
    backups/ID/proof.json         when it was last restored, and what was found (may be missing)

The documents are sealed: the text has one form only, and holds the checksum of itself, with a key
its HMAC. So a changed bit is found wherever it is, and with a key nobody else can make one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import stat
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.errors import CouldNotRun, InputError
from headrace.servers.backup.targets.target import DAMAGED, DOC, MISSING, BackupTarget

FORMAT = "headrace-backup/1"
METHODS = ("logical", "physical", "snapshot")
ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[a-z0-9][a-z0-9_-]{0,31}-[0-9a-f]{4}", re.ASCII)
MANIFEST, PROOF = "manifest.json", "proof.json"
# Of a backup that is being written: see `unfinished`.
RUNNING, BEGUN = "running", "begun.json"
# A key of 256 bits, as AES-256 takes; shorter ones could be guessed.
KEY_BYTES = 32


@dataclass(frozen=True)
class Part:
    """A file of the copy, as it lies in the target."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class BinlogPosition:
    """Where a copy stands in its source's history: `gtid` executed, `file` and `offset` next.

    `gtid`: "" where the source has none or keeps no binary log; then `file` is "" too.
    """

    gtid: str = ""
    file: str = ""
    offset: int = 0


@dataclass(frozen=True)
class Manifest:
    """A backup. `form`: how the parts are read (mbstream, tar, sql, snapshot), `packed`: zstd or
    none. `source_id`: the source's UUID (MySQL) or `server_id` (MariaDB). Times: s, Unix.
    `databases`, `tables`: those of users in it, tables by their number when it began. `only`: the
    databases that were asked for, where it is a part. `settings`: of the source, for a restore."""

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
    form: str
    packed: str
    encrypted: bool
    data_bytes: int
    parts: tuple[Part, ...]
    databases: tuple[str, ...] = ()
    tables: int = 0
    only: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    snapshots: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def stored_bytes(self) -> int:
        """What it takes in the target."""
        return sum(part.size for part in self.parts)

    @property
    def part(self) -> str:
        """The databases of a backup that is a part of its server; "" for a whole one."""
        return ", ".join(self.only)

    @property
    def series(self) -> tuple[int, ...]:
        """The release series, which physical copies are tied to: (10, 11), (9, 7)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])

    def with_(self, **changes: Any) -> Manifest:
        """The same with other values."""
        return replace(self, **changes)


@dataclass(frozen=True)
class RestoreProof:
    """A restore of a backup. `tables`: how many had equal checksums; `against`: what they were
    compared with (source, or "" where the source could not be asked). `binlogs_to`: replayed up to.
    `part`: the databases of a backup that is a part of its server, "" for all."""

    at_unix: float
    seconds: float
    restored_gtid: str
    tables: int
    against: str
    binlogs_to: str
    ok: bool
    said: str = ""
    part: str = ""


@dataclass(frozen=True)
class Backup:
    """A backup as it lies in a target, with its last proof."""

    manifest: Manifest
    proof: RestoreProof | None

    @property
    def id(self) -> str:
        return self.manifest.id

    @property
    def proved(self) -> bool:
        """Whether its last proof or restore went well."""
        return self.proof is not None and self.proof.ok

    @property
    def failed(self) -> bool:
        """Whether its last proof or restore failed: then no older one counts."""
        return self.proof is not None and not self.proof.ok

    def age_s(self, now: float) -> float:
        """How old the data are."""
        return now - self.manifest.ended_unix


def new_id(name: str, now: float | None = None) -> str:
    """An id that sorts by time: 20261122T215000Z-shop-3fa2."""
    stamp = datetime.fromtimestamp(time.time() if now is None else now, UTC).strftime("%Y%m%dT%H%M%SZ")
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:32] or "mysql"
    return f"{stamp}-{plain}-{os.urandom(2).hex()}"


def folder_of(backup: str) -> str:
    """The folder of a backup in its target. Raises InputError for what is not an id."""
    if not ID.fullmatch(backup):
        raise InputError(repr(backup)[:80], "is not the id of a backup", DOC, "See headrace backup list.")
    return f"backups/{backup}"


# --- sealed documents -----------------------------------------------------------------------------


def sealed(content: dict[str, Any], key: bytes | None = None) -> bytes:
    """A document with its checksum, or with a key its HMAC-SHA256."""
    return _text({**content, "seal": _seal(content, key)})


def opened(raw: bytes, what: str, key: bytes | None = None) -> dict[str, Any]:
    """The content of a sealed document. Raises InputError when any bit of it is not as written."""
    try:
        found = json.loads(raw)
        seal = found.pop("seal")
        # One form only: a changed blank is a changed document.
        whole = isinstance(seal, str) and _text({**found, "seal": seal}) == raw
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole, found, seal = False, {}, ""
    if not whole:
        hint = "Use another backup, or another copy."
        raise InputError(what, "is damaged: it is not as it was written", DOC, hint, kind=DAMAGED)
    if hmac.compare_digest(seal, _seal(found, key)):
        return found
    if seal.startswith("hmac-") and key is None:
        raise InputError(what, "was sealed with a key", DOC, "Name the key: --key-file FILE.")
    if seal.startswith("hmac-"):
        rule = "is damaged, or was sealed with another key"
    elif key is not None and hmac.compare_digest(seal, _seal(found, None)):
        rule = "was not sealed with a key, so anybody may have written it"
        raise InputError(what, rule, DOC, "Leave out --key-file to trust it all the same.")
    else:
        rule = "is damaged: its checksum is another"
    raise InputError(what, rule, DOC, "Use another backup, or the right key.", kind=DAMAGED)


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode()


def _seal(content: dict[str, Any], key: bytes | None) -> str:
    text = _text({name: value for name, value in content.items() if name != "seal"})
    if key is None:
        return f"sha256:{hashlib.sha256(text).hexdigest()}"
    return f"hmac-sha256:{hmac.new(key, b'headrace seal' + text, hashlib.sha256).hexdigest()}"


def read_key(path: str | os.PathLike | None) -> bytes | None:
    """The key in a file that only its owner may read. Raises InputError, CouldNotRun."""
    if path is None:
        return None
    where = Path(path)
    try:
        status = where.stat()
        content = where.read_bytes()[:4096].strip()
    except FileNotFoundError:
        hint = f"Make one: (umask 077; openssl rand -hex {KEY_BYTES} > FILE). Without it nothing can be restored: keep a copy."
        raise InputError(str(where), "there is no such key", DOC, hint) from None
    except OSError as error:
        raise CouldNotRun(str(where), f"cannot be read: {error.strerror}", "", "Is it yours to read?") from None
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        rule = f"holds a key and others may read it (mode {stat.S_IMODE(status.st_mode):04o})"
        raise InputError(str(where), rule, DOC, f"chmod 600 {where}")
    if not re.fullmatch(rb"[0-9a-fA-F]{64}", content):
        rule = f"a key is {KEY_BYTES} bytes as {2 * KEY_BYTES} hexadecimal digits"
        raise InputError(str(where), rule, DOC, f"Make one: openssl rand -hex {KEY_BYTES} > FILE")
    return bytes.fromhex(content.decode())


# --- in a target ----------------------------------------------------------------------------------


def write_manifest(target: BackupTarget, manifest: Manifest, key: bytes | None, name: str = MANIFEST) -> None:
    """The last file of a backup: from now on there is one."""
    content = {"format": FORMAT, **asdict(manifest)}
    target.put_new(f"{folder_of(manifest.id)}/{name}", sealed(content, key))


def read_manifest(target: BackupTarget, backup: str, key: bytes | None = None, name: str = MANIFEST) -> Manifest:
    """The manifest of a backup. Raises InputError where there is none, or a damaged one."""
    name = f"{folder_of(backup)}/{name}"
    found = opened(target.document(name), f"{target.label}/{name}", key)
    if found.pop("format", None) != FORMAT:
        hint = "Use the Headrace that wrote it, or a newer one."
        raise InputError(f"{target.label}/{name}", f"is of another format than {FORMAT}", DOC, hint)
    try:
        found["position"] = BinlogPosition(**found["position"])
        found["parts"] = tuple(Part(**part) for part in found["parts"])
        found["databases"], found["only"] = tuple(found["databases"]), tuple(found["only"])
        manifest = Manifest(**{one.name: found[one.name] for one in fields(Manifest)})
    except (KeyError, TypeError):
        raise InputError(f"{target.label}/{name}", f"is not {FORMAT}", DOC, "Use a newer Headrace.") from None
    if manifest.id != backup:
        raise InputError(f"{target.label}/{name}", f"is the manifest of {manifest.id}", DOC, "Was it copied by hand?")
    return manifest


def read_proof(target: BackupTarget, backup: str, key: bytes | None = None) -> RestoreProof | None:
    """When it was last restored; None: never. Raises InputError where its proof cannot be read."""
    name = f"{folder_of(backup)}/{PROOF}"
    try:
        raw = target.document(name)
    except InputError as error:
        if error.kind == MISSING:
            return None
        raise
    found = opened(raw, f"{target.label}/{name}", key)
    try:
        return RestoreProof(**{one.name: found[one.name] for one in fields(RestoreProof)})
    except KeyError:
        rule = "was written by another version of Headrace"
        raise InputError(f"{target.label}/{name}", rule, DOC, "Prove it again: headrace backup prove.") from None


def write_proof(target: BackupTarget, backup: str, proof: RestoreProof, key: bytes | None) -> None:
    """Keeps the last restore of a backup."""
    target.replace(f"{folder_of(backup)}/{PROOF}", sealed(asdict(proof), key))


def backups(target: BackupTarget, key: bytes | None = None) -> tuple[list[Backup], list[str]]:
    """All whole backups, oldest first; in words, what is damaged or was never finished."""
    found, problems = [], []
    names = {one.name for one in target.list("backups/")}
    for backup in sorted({name.split("/")[1] for name in names if name.count("/") == 2}):
        if not ID.fullmatch(backup):
            problems.append(f"{backup[:80]!r} under backups/ is not a backup of Headrace")
            continue
        if f"{folder_of(backup)}/{MANIFEST}" not in names:
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
        found.append(Backup(manifest, proof))
    return found, problems


def unread(target: BackupTarget, found: Sequence[Backup]) -> list[str]:
    """Ids of backups with a manifest that are not among those found: damaged, or of another key."""
    known = {one.id for one in found}
    parts = [one.name.split("/") for one in target.list("backups/")]
    return sorted(one[1] for one in parts if len(one) == 3 and one[2] == MANIFEST and one[1] not in known)
