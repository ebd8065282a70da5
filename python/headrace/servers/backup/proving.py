"""Proving a backup: it is restored onto volumes of the lab, replayed, and compared with its source
table by table at one and the same GTID. What was never restored is called unproved.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.servers import server as running_servers
from headrace.servers.backup import source as sources
from headrace.servers.backup.history import archive
from headrace.servers.backup.history.moments import RestoreGoal
from headrace.servers.backup.manifest import RestoreProof, read_manifest, write_proof
from headrace.servers.backup.restore import RestoreRequest, checked_fit, restore
from headrace.servers.backup.source import BackupSource, rows, source_of
from headrace.servers.backup.targets.target import BROKEN, DAMAGED, DOC, BackupTarget
from headrace.servers.running import Progress, quiet
from headrace.servers.topology.gtid import GtidSet

# How long the lock for the moment of comparison may wait, and the stream take to bring it, s.
LOCK_WAIT_S, ARCHIVE_S = 10, 60.0
LOOK_EVERY_S = 0.5
# CHECKSUM TABLE reads every row of a table.
CHECKSUM_S = 6 * 3600.0


@dataclass(frozen=True)
class TableSums:
    """Checksums of all tables of users, by name, at one moment of a server's history."""

    at: GtidSet
    by_table: dict[str, int | None]


def table_sums(source: BackupSource) -> TableSums:
    """Checksums in one consistent read; the server's writes wait for an instant, while it begins.
    Raises CouldNotRun where the lock is not had in time."""
    with source.connect(CHECKSUM_S) as connection:
        rows(connection, f"SET SESSION lock_wait_timeout = {LOCK_WAIT_S}")
        rows(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        rows(connection, "FLUSH TABLES WITH READ LOCK")
        rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        at = sources.executed(connection, source)
        rows(connection, "UNLOCK TABLES")
        found: dict[str, int | None] = {}
        for database, table in rows(
            connection,
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
            "AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1, 2",
        ):
            name = f"`{str(database).replace('`', '``')}`.`{str(table).replace('`', '``')}`"
            value = rows(connection, f"CHECKSUM TABLE {name}")[0][1]
            found[name] = None if value is None else int(value)
    return TableSums(at, found)


def prove(
    lab: Lab,
    target: BackupTarget,
    backup: str,
    storage: str,
    source: BackupSource | None = None,
    key: bytes | None = None,
    work: Path | None = None,
    server_path: str | None = None,
    unpaced: bool = False,
    progress: Progress = quiet,
) -> RestoreProof:
    """Restores a backup, compares, removes the server again, and keeps what was found.

    With `source` up to now, and compared with it; else as far as the archive goes, without. A
    backup that is damaged, or leads elsewhere, is a proof that failed. What says nothing about the
    backup is raised, and the proof before it stays: InputError for a wrong `storage` or key,
    CouldNotRun for a machine that cannot.
    """
    began, manifest = time.monotonic(), read_manifest(target, backup, key)
    truth = table_sums(source) if source is not None else None
    if truth is not None and (broken := unreadable(truth)):
        raise CouldNotRun(source.name if source else "", broken, DOC, "Repair it there first: CHECK TABLE.")
    checked_fit(manifest, server_path)  # a server program that does not fit proves nothing
    if work is not None and not work.is_dir():
        raise InputError(str(work), "is not a folder", DOC, "Name one with room for the data: --work.")
    histories = archive.timelines(target, key)
    goal = _goal(target, manifest.flavor, manifest.source_id, histories, truth, key)
    name = f"proof-{os.urandom(3).hex()}"
    wanted = RestoreRequest(
        backup, name, storage, goal, server_path=server_path, unpaced=unpaced, work=work, read_only=True
    )
    said, sums, reached = "", None, ""
    try:
        done = restore(lab, target, wanted, key, progress)
        reached = str(done.executed)
        with contextlib.ExitStack() as leaving:
            leaving.callback(running_servers.destroy, done.server)
            sums = table_sums(source_of(done.server.address(), name, done.server))
        said = unreadable(sums) or compared(truth, sums)
    except HeadraceError as error:
        if error.kind not in (DAMAGED, BROKEN):
            raise
        said = f"{error.value}: {error.rule}"
    proof = RestoreProof(
        at_unix=time.time(),
        seconds=round(time.monotonic() - began, 3),
        restored_gtid=reached,
        tables=len(sums.by_table) if sums is not None else 0,
        against=source.name if source is not None and goal is not None else "",
        binlogs_to=str(truth.at) if truth is not None and goal is not None else "",
        ok=not said,
        said=said,
    )
    write_proof(target, backup, proof, key)
    return proof


def unreadable(sums: TableSums) -> str:
    """In words, which tables have no checksum; "" where all have one. CHECKSUM TABLE gives NULL for
    a table that cannot be opened or read."""
    broken = sorted(name for name, value in sums.by_table.items() if value is None)
    return f"{len(broken)} tables cannot be read: {', '.join(broken[:5])}" if broken else ""


def compared(truth: TableSums | None, found: TableSums) -> str:
    """In words, what differs; "" where nothing does or nothing could be asked."""
    if truth is None or not (truth.at.contains(found.at) and found.at.contains(truth.at)):
        return ""
    other = sorted(
        name
        for name in truth.by_table.keys() | found.by_table.keys()
        if truth.by_table.get(name, -1) != found.by_table.get(name, -2)
    )
    return f"{len(other)} tables differ from the source: {', '.join(other[:5])}" if other else ""


def _goal(
    target: BackupTarget,
    flavor: str,
    source_id: str,
    histories: list[archive.Timeline],
    truth: TableSums | None,
    key: bytes | None,
) -> RestoreGoal | None:
    """Up to the moment of comparison, once the archive has it; else all there is, or nothing."""
    mine = [one for one in histories if one.flavor == flavor and one.source_id == source_id and one.files]
    if not mine:
        return None
    if truth is None:
        return RestoreGoal()
    until = time.monotonic() + ARCHIVE_S
    while not any(one.ends.contains(truth.at) for one in mine):
        if time.monotonic() >= until:
            rule = f"has not brought {truth.at} within {ARCHIVE_S:g} s: is the stream running?"
            raise CouldNotRun(target.label, rule, DOC, "headrace backup stream SERVER --to TARGET")
        time.sleep(LOOK_EVERY_S)
        mine = [one for one in archive.timelines(target, key) if one.source_id == source_id and one.files]
    return RestoreGoal(gtid=truth.at)
