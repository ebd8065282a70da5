"""Proves a backup: restores it onto volumes of the lab, replays the binary log, and compares it
with its source table by table at the same GTID. A backup that was never restored is called
unproved.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.base.waiting import wait_until
from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.mysql.gtid import GtidSet
from headrace.servers import server as running_servers
from headrace.servers.backup.history import archive
from headrace.servers.backup.history.moments import RestoreGoal, is_lost, is_own
from headrace.servers.backup.manifest import Manifest, RestoreProof, read_manifest, write_proof
from headrace.servers.backup.restore import RestoreRequest, check_fit, restore
from headrace.servers.backup.targets.target import BROKEN, DAMAGED, BackupTarget, refuse
from headrace.servers.copies import source as sources
from headrace.servers.copies.grants import read_rights, refuse_blind_reader
from headrace.servers.copies.source import CopySource, fetch_rows, read_source
from headrace.servers.running import Progress, discard_progress

# Longest waits for the lock at a comparison, and for the stream to store its moment, s.
LOCK_WAIT_S, ARCHIVE_S = 10, 60.0
LOOK_EVERY_S = 0.5
# CHECKSUM TABLE reads every row of a table.
CHECKSUM_S = 6 * 3600.0


@dataclass(frozen=True)
class TableSums:
    """The checksums of all tables by name, None for an unreadable one, with GTIDs `at` executed."""

    at: GtidSet
    by_table: dict[str, int | None]


def read_table_sums(source: CopySource) -> TableSums:
    """Reads the checksums of all tables in one consistent read; the server's writes wait for an
    instant, while it begins. Raises CouldNotRun if that lock takes longer than LOCK_WAIT_S."""
    with source.connect(CHECKSUM_S) as connection:
        fetch_rows(connection, f"SET SESSION lock_wait_timeout = {LOCK_WAIT_S}")
        fetch_rows(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        fetch_rows(connection, "FLUSH TABLES WITH READ LOCK")
        fetch_rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        at = sources.read_executed(connection, source)
        fetch_rows(connection, "UNLOCK TABLES")
        by_table: dict[str, int | None] = {}
        for database, table in fetch_rows(
            connection,
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
            "AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1, 2",
        ):
            name = f"`{str(database).replace('`', '``')}`.`{str(table).replace('`', '``')}`"
            value = fetch_rows(connection, f"CHECKSUM TABLE {name}")[0][1]
            by_table[name] = None if value is None else int(value)
    return TableSums(at, by_table)


def make_name() -> str:
    """Returns a new name for the server of a proof."""
    return f"proof-{os.urandom(3).hex()}"


def prove(
    lab: Lab,
    target: BackupTarget,
    backup: str,
    storage: str,
    source: CopySource | None = None,
    key: bytes | None = None,
    *,
    work: Path | None = None,
    server_path: str | None = None,
    unpaced: bool = False,
    progress: Progress = discard_progress,
    name: str = "",
) -> RestoreProof:
    """Restores a backup onto a new server called `name`, compares it, removes the server again, and
    writes and returns the proof. With `source`, the backup is replayed up to now and compared with
    that; else it is replayed up to the end of the archive. A part of a server is restored as it is.
    A backup that is damaged, or differs, gives a failed proof. Errors that do not concern the
    backup are raised, and the older proof stays: InputError for a wrong `storage` or key,
    CouldNotRun for a machine that cannot restore it."""
    began, manifest = time.monotonic(), read_manifest(target, backup, key)
    if manifest.only and source is not None:
        rule = f"is a part of its server ({manifest.part}): no binary log brings it up to now, to be compared"
        raise refuse.input(backup, rule, "Prove it without --against.")
    if source is not None:
        with source.connect() as connection:
            refuse_blind_reader(source, read_rights(connection, source))
    truth = read_table_sums(source) if source is not None else None
    if source is not None and truth is not None:
        _refuse_other(manifest, source, truth)
    if truth is not None and (broken := describe_unreadable(truth)):
        raise refuse.run(source.name if source else "", broken, "Repair it there first: CHECK TABLE.")
    check_fit(manifest, server_path)  # a server program that does not fit proves nothing
    if work is not None and not work.is_dir():
        raise refuse.input(str(work), "is not a folder", "Name one with room for the data: --work.")
    goal = None if manifest.only else _find_goal(target, manifest, truth, key)
    name = name or make_name()
    request = RestoreRequest(
        backup, name, storage, goal, server_path=server_path, unpaced=unpaced, work=work, read_only=True
    )
    failure, sums, reached = "", None, ""
    try:
        done = restore(lab, target, request, key, progress)
        reached = str(done.executed)
        with contextlib.ExitStack() as leaving:
            leaving.callback(running_servers.destroy, done.server)
            sums = read_table_sums(read_source(done.server.make_address(), name, done.server))
        failure = describe_unreadable(sums) or describe_differences(truth, sums)
    except HeadraceError as error:
        if error.kind not in (DAMAGED, BROKEN):
            raise
        failure = f"{error.value}: {error.rule}"
    proof = RestoreProof(
        at_unix=time.time(),
        seconds=round(time.monotonic() - began, 3),
        restored_gtid=reached,
        tables=len(sums.by_table) if sums is not None else 0,
        against=source.name if source is not None and goal is not None else "",
        binlogs_to=str(truth.at) if truth is not None and goal is not None else "",
        ok=not failure,
        failure=failure,
        part=manifest.part,
    )
    write_proof(target, backup, proof, key)
    return proof


def _refuse_other(manifest: Manifest, source: CopySource, truth: TableSums) -> None:
    """Raises InputError if a server, with the checksums `truth`, lacks transactions of the backup,
    or is of another flavor: it never was the source of its history."""
    hint = "Name its source, or the server that was promoted after it: --against SERVER."
    if source.flavor != manifest.flavor:
        rule = f"is {source.flavor}, and the backup is of {manifest.source}, {manifest.flavor}"
        raise refuse.input(f"--against {source.name}", rule, hint)
    without = GtidSet.parse(manifest.position.gtid, manifest.flavor).minus(truth.at)
    if not without.is_empty:
        rule = f"has not executed {without.count():,} transactions that the backup of {manifest.source} has"
        raise refuse.input(f"--against {source.name}", f"{rule} ({str(without)[:80]})", hint)


def describe_unreadable(sums: TableSums) -> str:
    """Returns, in words, the tables without a checksum; "" if all have one. CHECKSUM TABLE gives
    NULL for a table that cannot be opened or read."""
    broken = sorted(name for name, value in sums.by_table.items() if value is None)
    return f"{len(broken)} tables cannot be read: {', '.join(broken[:5])}" if broken else ""


def describe_differences(truth: TableSums | None, restored: TableSums) -> str:
    """Returns, in words, the tables that differ between the source (`truth`) and the restored
    server; "" for none, and if their GTIDs differ, so that nothing can be compared."""
    if truth is None or not (truth.at.contains(restored.at) and restored.at.contains(truth.at)):
        return ""
    source_sums, restored_sums = truth.by_table, restored.by_table
    both = source_sums.keys() & restored_sums.keys()
    kinds = (
        ("missing in the backup", sorted(source_sums.keys() - restored_sums.keys())),
        ("in the backup and not in the source", sorted(restored_sums.keys() - source_sums.keys())),
        ("different from the source", sorted(name for name in both if source_sums[name] != restored_sums[name])),
    )
    return "; ".join(
        f"{len(names)} table{'s are' if len(names) > 1 else ' is'} {words}: {', '.join(names[:5])}"
        for words, names in kinds
        if names
    )


def _find_goal(
    target: BackupTarget, manifest: Manifest, truth: TableSums | None, key: bytes | None
) -> RestoreGoal | None:
    """Returns the goal of the replay: the GTIDs of `truth`, after a wait of up to ARCHIVE_S seconds
    until the archive has them; without `truth` the end of the archive; None without an archive.
    Raises CouldNotRun if the archive does not get them."""

    def read_histories() -> list[archive.Timeline]:
        histories = archive.read_timelines(target, key)
        own = [each for each in histories if each.flavor == manifest.flavor and is_own(each, manifest)]
        return [each for each in histories if is_lost(each, manifest) or (each in own and each.files)]

    histories = read_histories()
    if not histories:
        return None
    if truth is None or not any(timeline.files for timeline in histories):
        return RestoreGoal(to_gap=True)
    has = truth.at
    if not wait_until(
        lambda: any(each.files and each.reach.contains(has) for each in read_histories()), ARCHIVE_S, LOOK_EVERY_S
    ):
        rule = f"has not brought {truth.at} within {ARCHIVE_S:g} s: is the stream running?"
        raise refuse.run(target.label, rule, "headrace backup stream SERVER --to TARGET")
    return RestoreGoal(gtid=truth.at)
