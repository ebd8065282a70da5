"""Checks the files in a target, without a server: every byte of every file against its checksum,
files that belong to no backup, and files that a backup lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.errors import InputError
from headrace.servers.backup import manifest as documents
from headrace.servers.backup import restore
from headrace.servers.backup.history import archive
from headrace.servers.backup.history import events as binlog
from headrace.servers.backup.history.moments import is_own
from headrace.servers.backup.manifest import Backup, get_backup_folder
from headrace.servers.backup.retention import is_chain_whole
from headrace.servers.backup.targets.target import BackupTarget


@dataclass(frozen=True)
class CheckResult:
    """The result of a check. `what`: id of the backup or timeline. `files`: number of its files,
    `size`: bytes that were read, `problems`: what is wrong with it, in words."""

    what: str
    files: int
    size: int
    problems: tuple[str, ...]


def check_backup(
    target: BackupTarget, backup: str, key: bytes | None = None, tell: Callable[[int], None] = lambda count: None
) -> CheckResult:
    """Reads every file of a backup, and returns what is wrong with it. `tell`: called with the
    number of bytes of each piece read. Raises CouldNotRun if the target cannot be read."""
    problems: list[str] = []
    size = 0
    try:
        manifest = documents.read_manifest(target, backup, key)
    except InputError as error:
        return CheckResult(backup, 1, 0, (f"{error.value}: {error.rule}",))
    for part in manifest.parts:
        try:
            for piece in restore.read_parts(target, manifest.with_(parts=(part,)), tell):
                size += len(piece)
        except InputError as error:
            problems.append(f"{error.value}: {error.rule}")
    try:
        documents.read_proof(target, backup, key)
    except InputError as error:
        problems.append(f"{error.value}: {error.rule}")
    folder, expected = f"{get_backup_folder(backup)}/", {part.name for part in manifest.parts}
    # The last two are those of a run that was killed behind its last step.
    expected |= {documents.MANIFEST, documents.PROOF, documents.RUNNING, documents.BEGUN}
    names = [file.name for file in target.list(folder) if file.name.removeprefix(folder) not in expected]
    problems += [f"{name} is of no backup" for name in names]
    return CheckResult(backup, len(manifest.parts) + 1, size, tuple(problems))


def check_timeline(
    target: BackupTarget,
    timeline: archive.Timeline,
    key: bytes | None = None,
    tell: Callable[[int], None] = lambda count: None,
) -> CheckResult:
    """Reads every byte of a timeline, and returns what is wrong with its checksums, its events, and
    the number of transactions by its index. `tell`: called with the bytes of each piece read."""
    problems, size, count = list(timeline.problems), 0, 0
    for file in timeline.files:
        reader, parser = binlog.Reader(file.name), binlog.TransactionParser(file.name)
        transactions = 0
        try:
            for name, piece in zip(file.names, file.pieces, strict=True):
                count += 1
                for data in archive.read_piece_bytes(target, name, piece, key):
                    size += len(data)
                    tell(len(data))
                    transactions += sum(parser.see(event) is not None for event in reader.feed(data))
            if transactions != sum(entry.transactions for entry in file.entries):
                problems.append(f"{file.name} has {transactions:,} transactions, and its index says otherwise")
        except InputError as error:
            problems.append(f"{error.value}: {error.rule}")
    return CheckResult(timeline.id, count, size, tuple(problems))


def list_broken_chains(backups: Sequence[Backup], histories: Sequence[archive.Timeline]) -> list[str]:
    """Lists, in words, backups that cannot be replayed to the end of their source's archive."""
    streamed = [timeline for timeline in histories if timeline.files]
    return [
        f"{backup.id}: the binary log from its position to the archive's end is not whole"
        for backup in backups
        if any(is_own(timeline, backup.manifest) for timeline in streamed)
        and backup.manifest.position.file
        and not backup.manifest.only
        and not is_chain_whole(backup, histories)
    ]
