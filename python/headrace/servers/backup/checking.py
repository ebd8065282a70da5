"""Testing what lies in a target, without a server: every byte of every file against its checksum,
and whether anything is there that no backup knows, or is missing that one needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.errors import InputError
from headrace.servers.backup import manifest as documents
from headrace.servers.backup import restore
from headrace.servers.backup.history import archive
from headrace.servers.backup.history import events as binlog
from headrace.servers.backup.manifest import Backup, Manifest, folder_of
from headrace.servers.backup.retention import chain_whole
from headrace.servers.backup.targets.target import BackupTarget


@dataclass(frozen=True)
class Checked:
    """What was looked at, and what is wrong with it, in words."""

    what: str
    files: int
    size: int
    problems: tuple[str, ...]


def check_backup(
    target: BackupTarget, backup: str, key: bytes | None = None, tell: Callable[[int], None] = lambda count: None
) -> Checked:
    """Reads every file of a backup. Raises CouldNotRun where the target cannot be read."""
    problems: list[str] = []
    size = 0
    try:
        manifest = documents.read_manifest(target, backup, key)
    except InputError as error:
        return Checked(backup, 1, 0, (f"{error.value}: {error.rule}",))
    for part in manifest.parts:
        alone = manifest.with_(parts=(part,))
        try:
            for piece in restore.parts_of(target, alone, tell):
                size += len(piece)
        except InputError as error:
            problems.append(f"{error.value}: {error.rule}")
    try:
        documents.read_proof(target, backup, key)
    except InputError as error:
        problems.append(f"{error.value}: {error.rule}")
    problems += [f"{name} is of no backup" for name in _strangers(target, manifest)]
    return Checked(backup, len(manifest.parts) + 1, size, tuple(problems))


def _strangers(target: BackupTarget, manifest: Manifest) -> list[str]:
    known = {part.name for part in manifest.parts} | {documents.MANIFEST, documents.PROOF}
    known |= {documents.RUNNING, documents.BEGUN}  # killed behind its last step
    folder = folder_of(manifest.id)
    return [one.name for one in target.list(f"{folder}/") if one.name.removeprefix(f"{folder}/") not in known]


def check_timeline(
    target: BackupTarget,
    timeline: archive.Timeline,
    key: bytes | None = None,
    tell: Callable[[int], None] = lambda count: None,
) -> Checked:
    """Reads every byte of a timeline: checksums, events, and that what is in a piece is what its
    index says."""
    problems, size, count = list(timeline.problems), 0, 0
    for file in timeline.files:
        reader, following = binlog.Reader(file.name), binlog.Transactions(file.name)
        found = 0
        try:
            for name, piece in zip(file.names, file.pieces, strict=True):
                count += 1
                for data in archive.piece_bytes(target, name, piece, key):
                    size += len(data)
                    tell(len(data))
                    found += sum(following.see(event) is not None for event in reader.feed(data))
            if found != sum(entry.transactions for entry in file.entries):
                problems.append(f"{file.name} has {found:,} transactions, and its index says otherwise")
        except InputError as error:
            problems.append(f"{error.value}: {error.rule}")
    return Checked(timeline.id, count, size, tuple(problems))


def broken_chains(found: Sequence[Backup], histories: Sequence[archive.Timeline]) -> list[str]:
    """In words, which backups cannot be replayed up to the end of their source's archive."""
    streamed = {one.source_id for one in histories if one.files}
    return [
        f"{one.id}: the binary log from its position to the archive's end is not whole"
        for one in found
        if one.manifest.source_id in streamed
        and one.manifest.position.file
        and not one.manifest.only
        and not chain_whole(one, histories)
    ]
