"""Which backups may go: by count and age, and never the last chain that can be proved.

A chain is a backup and the binary log from it to the archive's end without a gap. Deleting begins
with the manifest: a backup that is half deleted is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import CouldNotRun, InputError
from headrace.lab import Lab
from headrace.servers.backup import unfinished
from headrace.servers.backup.history import archive
from headrace.servers.backup.history.archive import Timeline
from headrace.servers.backup.manifest import MANIFEST, Backup, folder_of
from headrace.servers.backup.targets.target import DOC, BackupTarget
from headrace.servers.topology.gtid import GtidSet

DAY_S = 86_400.0  # seconds of a day
# Why a last backup is kept: whether it failed, whether it is proved.
LAST_OF = {
    (False, True): "the last proved chain",
    (False, False): "the last chain, and none is proved",
    (True, False): "the last there is, and its last restore failed: take another",
}


@dataclass(frozen=True)
class RetentionPlan:
    """`keep` and `remove`: backups, each with the reason. `files`: binary logs no kept backup
    needs, as names in the target."""

    keep: tuple[tuple[Backup, str], ...]
    remove: tuple[tuple[Backup, str], ...]
    files: tuple[str, ...]


def plan(
    found: Sequence[Backup],
    histories: Sequence[Timeline],
    now: float,
    count: int | None,
    days: float | None,
    unread: Sequence[str] = (),
) -> RetentionPlan:
    """For each source: the newest `count`, those younger than `days`, and the newest chain that is
    proved, or where none is, the newest that is whole. One whose last proof or restore failed takes
    no good one's place: it is kept only in addition. `unread`: backups whose manifest cannot be
    read; which binary logs they need is not known, so all stay. Raises InputError without a
    rule."""
    if count is None and days is None:
        raise InputError("no rule", "names neither a count nor an age", DOC, "As --keep 7 or --days 30.")
    if (count is not None and count < 1) or (days is not None and not 0 <= days < 1e6):
        rule = "at least one backup is kept, and days are 0 to a million"
        raise InputError(f"--keep {count} --days {days}", rule, DOC, "")
    keep: list[tuple[Backup, str]] = []
    remove: list[tuple[Backup, str]] = []
    for source in sorted({whose(one) for one in found}):
        mine = sorted((one for one in found if whose(one) == source), key=lambda one: one.id)
        last = guarded(mine, histories)
        good = 0  # newer ones that have not failed
        for place, one in enumerate(reversed(mine)):
            age = one.age_s(now) / DAY_S
            if count is not None and good < count:
                keep.append((one, "its last restore failed: look at it" if one.failed else f"among the newest {count}"))
            elif days is not None and age < days:
                keep.append((one, f"younger than {days:g} days"))
            elif one is last:
                keep.append((one, LAST_OF[one.failed, one.proved]))
            else:
                failed = ", and its last restore failed" if one.failed else ""
                remove.append((one, f"{age:,.1f} days old, {place} newer{failed}"))
            good += not one.failed
    files = [] if unread else unneeded([one for one, _ in keep], histories)
    return RetentionPlan(tuple(keep), tuple(remove), tuple(files))


def whose(backup: Backup) -> tuple[str, str, str]:
    """The server of a backup, and which part of it. MariaDB has no UUID, and most of its servers
    have server_id 1, so there its name counts too."""
    made = backup.manifest
    return made.source_id, made.source if made.flavor == "mariadb" else "", made.part


def guarded(mine: Sequence[Backup], histories: Sequence[Timeline]) -> Backup | None:
    """The backup that must stay: the newest proved one whose chain is whole; else the newest
    proved; else the newest with a whole chain; else the newest. One whose last proof or restore
    failed only where all have."""
    newest = sorted(mine, key=lambda one: one.id, reverse=True)
    good = [one for one in newest if not one.failed]
    proved = [one for one in good if one.proved]
    whole = [one for one in good if chain_whole(one, histories)]
    both = [one for one in proved if one in whole]
    return next(iter([*both, *proved, *whole, *good, *newest]), None)


def chain_whole(backup: Backup, histories: Sequence[Timeline]) -> bool:
    """Whether the archive goes on from a backup to its end without a gap."""
    made = backup.manifest
    at = GtidSet.parse(made.position.gtid, made.flavor)
    for one in histories:
        if one.flavor != made.flavor or not one.files or not at.contains(one.begins) or not one.ends.contains(at):
            continue
        if one.damage_behind(at):
            continue
        known = at
        needed = [file for file in one.files if not at.contains(file.later)]
        for index, file in enumerate(needed):
            early = index + 1 < len(needed) and not file.ended
            if not file.earlier.minus(known).is_empty or early:
                break
            known = known.union(file.later)
        else:
            return True
    return False


def unneeded(kept: Sequence[Backup], histories: Sequence[Timeline]) -> list[str]:
    """Files of the archive that lie before every kept backup of their source. Without a backup
    nothing is unneeded: the archive may be all there is."""
    found: list[str] = []
    for one in histories:
        bases = [
            GtidSet.parse(backup.manifest.position.gtid, one.flavor)
            for backup in kept
            if backup.manifest.flavor == one.flavor and not backup.manifest.only and _begins_before(backup, one)
        ]
        if not bases:
            continue
        for file in one.files[:-1]:
            if not all(base.contains(file.later) for base in bases):
                break
            # The last piece first: a file that is half removed has no gap.
            found += [*file.spare, *reversed(file.names)]
    return found


def _begins_before(backup: Backup, history: Timeline) -> bool:
    """Whether a restore of this backup may read this history: it is of the same server, or of one
    that was promoted and goes on from what the backup holds (moments.choose)."""
    if backup.manifest.source_id == history.source_id:
        return True
    return history.ends.contains(GtidSet.parse(backup.manifest.position.gtid, history.flavor))


def refuse_only_chain(backup: Backup, found: Sequence[Backup], histories: Sequence[Timeline]) -> None:
    """Raises InputError for the one backup of a source that must stay."""
    mine = [one for one in found if whose(one) == whose(backup)]
    if guarded(mine, histories) is backup:
        rule = f"is the last provable chain of {backup.manifest.source}"
        raise InputError(backup.id, rule, DOC, "Take another and prove it first: headrace backup run, backup prove.")


def carry_out(
    target: BackupTarget,
    wanted: RetentionPlan,
    histories: Sequence[Timeline],
    lab: Lab | None,
    key: bytes | None = None,
) -> list[str]:
    """Deletes what may go; in words, what stays all the same because a snapshot of it is locked,
    with the binary logs that it needs. Raises CouldNotRun."""
    locks = [(one, "" if lab is None else _lock_on(lab, one)) for one, _ in wanted.remove]
    held = [(one, why) for one, why in locks if why]
    for one, why in locks:
        if not why:
            remove(target, one, lab)
    needless = set(unneeded([one for one, _ in (*wanted.keep, *held)], histories)) if held else wanted.files
    gone = [name for name in wanted.files if name in needless]
    for one in histories:
        left = [file for file in one.files if not set(file.names) <= set(gone)]
        if len(left) < len(one.files):
            archive.write_pruned(target, one.id, left[0].name, key)
    for name in gone:
        target.remove(name)
    return [f"{one.id}: {why}" for one, why in held]


def _lock_on(lab: Lab, backup: Backup) -> str:
    return unfinished.lock_on(lab, backup.id, tuple(backup.manifest.snapshots.values()))


def remove(target: BackupTarget, backup: Backup, lab: Lab | None = None) -> int:
    """Deletes a backup, its manifest first; how many bytes it took. `lab`: has its snapshots.
    Raises CouldNotRun; what is left then is removed as that of a killed run (`unfinished.clear`).
    Where a snapshot is locked nothing is deleted."""
    if backup.manifest.snapshots and lab is None:
        raise InputError(backup.id, "is of snapshots of a lab, and none was named", DOC, "Name it: --data-dir.")
    tagged = lab if backup.manifest.snapshots else None
    if tagged is not None and (why := _lock_on(tagged, backup)):
        hint = "Keep the backup until then, or take the lock away if its mode allows that: headrace snapshot unlock."
        raise CouldNotRun(backup.id, f"{why}; nothing was deleted", DOC, hint)
    unfinished.mark(target, backup.id, backup.manifest.source, tagged)
    # Without its manifest it is not a backup any more, whatever happens next.
    target.remove(f"{folder_of(backup.id)}/{MANIFEST}")
    if tagged is not None:
        unfinished.drop_snapshots(tagged, backup.id, tuple(backup.manifest.snapshots.values()))
    unfinished.forget(target, backup.id)
    return backup.manifest.stored_bytes
