"""Chooses the backups to delete: by count and age, and never the last chain that can be proved.

A chain is a backup and the binary log from it to the archive's end without a gap. Deleting begins
with the manifest: a half-deleted backup does not count as a backup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.base.units import DAY_S
from headrace.lab import Lab
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup import unfinished
from headrace.servers.backup.history import archive
from headrace.servers.backup.history.archive import Timeline
from headrace.servers.backup.history.moments import is_namesake, is_own, joins, select_needed
from headrace.servers.backup.manifest import MANIFEST, Backup, get_backup_folder, seal_document
from headrace.servers.backup.targets.target import BackupTarget, refuse
from headrace.servers.copies.retention import CopyRetention, Reason

# Reasons to keep a last backup, by two facts: its restore failed, it is proved.
LAST_OF = {
    (False, True): "the last proved chain",
    (False, False): "the last chain, and none is proved",
    (True, False): "the last there is, and its last restore failed: take another",
}


@dataclass(frozen=True)
class RetentionPlan:
    """Backups to `keep` and to `remove`, each with the reason. `files`: binary logs that no backup
    needs any more, as names in the target."""

    keep: tuple[tuple[Backup, str], ...]
    remove: tuple[tuple[Backup, str], ...]
    files: tuple[str, ...]


def plan(
    backups: Sequence[Backup],
    histories: Sequence[Timeline],
    now: float,
    count: int | None,
    days: float | None,
    unread: Sequence[str] = (),
) -> RetentionPlan:
    """Returns which backups stay and go: for each source the newest `count` stay, those younger
    than `days`, and the newest proved chain, or if none is proved, the newest complete chain. A
    backup whose last proof or restore failed does not count: it stays in addition to the good ones.
    `now`: Unix time, s. `unread`: ids of backups whose manifest cannot be read; the binary logs
    that they need are unknown, so all stay. Raises InputError without a rule."""
    if count is None and days is None:
        raise refuse.input("no rule", "names neither a count nor an age", "Give --keep 7 or --days 30, for example.")
    if (count is not None and count < 1) or (days is not None and not 0 <= days < 1e6):
        raise refuse.input(f"--keep {count} --days {days}", "at least one backup is kept, and days are 0 to a million")
    keep: list[tuple[Backup, str]] = []
    remove: list[tuple[Backup, str]] = []
    for source in sorted({identify_server(backup) for backup in backups}):
        mine = sorted((backup for backup in backups if identify_server(backup) == source), key=lambda backup: backup.id)
        last = choose_guarded(mine, histories)
        rule = CopyRetention(count, None if days is None else days * DAY_S)
        judged = rule.judge(
            reversed(mine), last, lambda backup: not backup.failed, lambda backup: backup.compute_age_s(now)
        )
        for place, (backup, reason, _) in enumerate(judged):
            if reason:
                keep.append((backup, _explain_keeping(backup, reason, count, days)))
            else:
                failed = ", and its last restore failed" if backup.failed else ""
                remove.append((backup, f"{backup.compute_age_s(now) / DAY_S:,.1f} days old, {place} newer{failed}"))
    files = [] if unread else list_unneeded([backup for backup, _ in keep], histories)
    return RetentionPlan(tuple(keep), tuple(remove), tuple(files))


def _explain_keeping(backup: Backup, reason: Reason, count: int | None, days: float | None) -> str:
    """Returns a reason to keep a backup in words: it is the last that must stay, younger than
    `days`, among the newest `count`, or its restore failed."""
    if reason == "last":
        return LAST_OF[backup.failed, backup.proved]
    if reason == "age":
        return f"younger than {days:g} days"
    return "its last restore failed: look at it" if backup.failed else f"among the newest {count}"


def identify_server(backup: Backup) -> tuple[str, str, str]:
    """Returns the identity of a backup's series: the server's id, its name, and the databases of a
    part. MariaDB has no UUID, and most of its servers have server_id 1, so the name counts."""
    manifest = backup.manifest
    return manifest.source_id, manifest.source if manifest.flavor == "mariadb" else "", manifest.part


def choose_guarded(mine: Sequence[Backup], histories: Sequence[Timeline]) -> Backup | None:
    """Returns the backup of a server that must stay, None for no backups: the newest proved one
    whose chain is complete; else the newest proved; else the newest with a complete chain; else the
    newest. A backup whose last proof or restore failed must stay only if all have failed."""
    newest = sorted(mine, key=lambda backup: backup.id, reverse=True)
    good = [backup for backup in newest if not backup.failed]
    proved = [backup for backup in good if backup.proved]
    whole = [backup for backup in good if is_chain_whole(backup, histories)]
    both = [backup for backup in proved if backup in whole]
    return next(iter([*both, *proved, *whole, *good, *newest]), None)


def is_chain_whole(backup: Backup, histories: Sequence[Timeline]) -> bool:
    """True if a timeline continues a backup to the end of the archive without a gap."""
    manifest = backup.manifest
    at = GtidSet.parse(manifest.position.gtid, manifest.flavor)
    for timeline in histories:
        if timeline.flavor != manifest.flavor or not timeline.files or timeline.list_damage_behind(at):
            continue
        if is_namesake(timeline, manifest) or not joins(timeline, at):
            continue
        executed, needed = at, select_needed(timeline, at)
        for index, file in enumerate(needed):
            early = index + 1 < len(needed) and not file.ended
            if not file.earlier.minus(executed).is_empty or early:
                break
            executed = executed.union(file.later)
        else:
            return True
    return False


def list_unneeded(keep: Sequence[Backup], histories: Sequence[Timeline]) -> list[str]:
    """Lists the files in the target of binary logs that lie before every backup in `keep` of their
    source. Without such a backup none is unneeded: the archive may be the only copy."""
    names: list[str] = []
    for history in histories:
        bases = [
            GtidSet.parse(backup.manifest.position.gtid, history.flavor)
            for backup in keep
            if backup.manifest.flavor == history.flavor and not backup.manifest.only and _begins_before(backup, history)
        ]
        if not bases:
            continue
        for file in history.files[:-1]:
            if not all(base.contains(file.later) for base in bases):
                break
            # The last piece first, so that a half-removed file has no gap.
            names += [*file.spare, *reversed(file.names)]
    return names


def _begins_before(backup: Backup, history: Timeline) -> bool:
    """True if a restore of this backup may read this timeline: it is of the same server, or of a
    promoted server that continues the backup's history (moments.choose)."""
    if is_own(history, backup.manifest):
        return True
    if is_namesake(history, backup.manifest):
        return False
    return history.ends.contains(GtidSet.parse(backup.manifest.position.gtid, history.flavor))


def carry_out(
    target: BackupTarget,
    retention: RetentionPlan,
    histories: Sequence[Timeline],
    lab: Lab | None,
    key: bytes | None = None,
) -> list[str]:
    """Deletes the backups and binary logs of a plan, and writes where each timeline begins now.
    Returns, in words, the backups that stay because their snapshots are locked; the binary logs
    that those need stay too. Raises CouldNotRun."""
    locks = [(backup, "" if lab is None else _describe_lock(lab, backup)) for backup, _ in retention.remove]
    locked = [(backup, why) for backup, why in locks if why]
    for backup, why in locks:
        if not why:
            remove(target, backup, lab)
    stay = [backup for backup, _ in (*retention.keep, *locked)]
    needless = set(list_unneeded(stay, histories) if locked else retention.files)
    gone = [name for name in retention.files if name in needless]
    for history in histories:
        remaining = [file for file in history.files if not set(file.names) <= set(gone)]
        if len(remaining) < len(history.files):
            note = seal_document({"begins": remaining[0].name}, key)
            target.replace(f"binlogs/{history.id}/{archive.PRUNED}", note)
    for name in gone:
        target.remove(name)
    return [f"{backup.id}: {why}" for backup, why in locked]


def _describe_lock(lab: Lab, backup: Backup) -> str:
    """Returns, in words, which snapshot of a backup is locked; "" for none."""
    return unfinished.describe_lock(lab, backup.id, tuple(backup.manifest.snapshots.values()))


def remove(target: BackupTarget, backup: Backup, lab: Lab | None = None) -> int:
    """Deletes a backup, its manifest first, and returns its bytes. `lab`: the lab of its snapshots.
    Raises CouldNotRun; the remaining files are then removed as those of a killed run
    (`unfinished.clear`). If a snapshot is locked nothing is deleted."""
    if backup.manifest.snapshots and lab is None:
        raise refuse.input(backup.id, "is of snapshots of a lab, and none was named", "Name it: --lab.")
    tagged = lab if backup.manifest.snapshots else None
    if tagged is not None and (why := _describe_lock(tagged, backup)):
        hint = "Keep the backup until then, or take the lock away if its mode allows that: headrace snapshot modify SNAPSHOT --unlock."
        raise refuse.run(backup.id, f"{why}; nothing was deleted", hint)
    unfinished.mark(target, backup.id, backup.manifest.source, tagged)
    # Without its manifest it does not count as a backup any more, whatever happens next.
    target.remove(f"{get_backup_folder(backup.id)}/{MANIFEST}")
    if tagged is not None:
        unfinished.drop_snapshots(tagged, backup.id, tuple(backup.manifest.snapshots.values()))
    unfinished.forget(target, backup.id)
    return backup.manifest.stored_bytes
