"""Chooses the transactions that a restore replays: exactly those up to a GTID, or up to a moment.

Every byte that will be replayed is read and tested here, before anything is restored: checksums,
events, and that no transaction is missing. It is written as relay logs at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from headrace.errors import InputError
from headrace.mysql import binary_events as codes
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup.history import archive
from headrace.servers.backup.history import events as binlog
from headrace.servers.backup.manifest import Manifest
from headrace.servers.backup.targets.target import BROKEN, BackupTarget, refuse

SECOND_US = 1_000_000  # µs
# RFC 3339, with the time zone: a moment without one is another moment in October.
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?P<zone>Z|[+-]\d\d:\d\d)?", re.ASCII)


@dataclass(frozen=True)
class RestoreGoal:
    """The end of a restore: with the transactions `gtid` executed, or before the first one that was
    committed after `moment_us` (µs, Unix); neither means the end of the archive. `to_gap`: a gap in
    the source's history ends the replay, and is not an error."""

    gtid: GtidSet | None = None
    moment_us: int | None = None
    to_gap: bool = False


@dataclass(frozen=True)
class ReplayPlan:
    """The transactions that are replayed on top of a backup, in the relay logs `logs`. `executed`:
    exactly what the server has executed afterwards. `transactions`: their number; `last_us`: when
    the last was committed, µs, Unix; `server_ids`: the servers that wrote them. `base_us`: when the
    latest transaction of the backup in the archive was committed, µs, Unix, 0 for none. `doubt`:
    number of transactions that may have been committed before the moment and are left out, because
    MariaDB's binary log has whole seconds; `doubt_gtids`: the first and the last of them."""

    timeline: str
    executed: GtidSet
    transactions: int
    last_gtid: str
    last_us: int
    logs: tuple[Path, ...]
    server_ids: frozenset[int]
    base_us: int = 0
    doubt: int = 0
    doubt_gtids: tuple[str, str] = ("", "")


def parse_moment(text: str) -> int:
    """Returns a moment (RFC 3339) in µs, Unix. Raises InputError if it has no time zone."""
    match = MOMENT.fullmatch(text.strip())
    form = "For example 2026-11-22T21:50:00Z, or 2026-11-22T22:50:00.25+01:00."
    if match is None:
        raise InputError(repr(text)[:60], "is not a moment: DATE, T, time and time zone", "RFC 3339", form)
    if match["zone"] is None:
        rule = "has no time zone: local time is another moment on another machine, and twice the same in autumn"
        raise InputError(text[:60], rule, "RFC 3339", f"Add Z for UTC, or the offset. {form}")
    try:
        moment = datetime.fromisoformat(text.strip().replace(" ", "T"))
    except ValueError:
        raise InputError(text[:60], "is not a date and time of the calendar", "RFC 3339", form) from None
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since.days * 86_400 * SECOND_US + since.seconds * SECOND_US + since.microseconds


def format_moment(time_us: int) -> str:
    """Returns a moment (µs, Unix) as text of RFC 3339, UTC, with microseconds."""
    return datetime.fromtimestamp(time_us / SECOND_US, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# --- choosing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplayChain:
    """Timelines in the order of their replay: each but the last up to where the next begins.
    `own_end`: after a failover, the end of the backup's own source. If the promoted server has
    another transaction with one of its last numbers, the two have diverged."""

    timelines: tuple[archive.Timeline, ...]
    own_end: GtidSet | None = None


def choose(
    timelines: list[archive.Timeline],
    manifest: Manifest,
    base: GtidSet,
    named: str | None = None,
    goal: RestoreGoal | None = None,
) -> ReplayChain:
    """Returns the timelines that continue a backup with the GTIDs `base` up to the goal: that of
    its own source, and after a failover that of the promoted server, if its GTIDs contain all of
    the source's. `named`: the id of the user's timeline, None for any. Raises InputError if no
    timeline continues the backup, or several that diverge."""
    if not manifest.position.file:
        rule = "was taken of a server without a binary log, so nothing can be replayed on top of it"
        raise refuse.input(manifest.id, rule, "Restore it as it is, without --to and --to-gtid.")
    lost = [timeline for timeline in timelines if is_lost(timeline, manifest)]
    if named in [timeline.id for timeline in timelines if timeline.damages and not timeline.files]:
        raise _make_unreadable_error(lost or [timeline for timeline in timelines if timeline.id == named], manifest)
    timelines = [timeline for timeline in timelines if timeline.flavor == manifest.flavor and timeline.files]
    mine = [timeline for timeline in timelines if is_own(timeline, manifest) and joins(timeline, base)]
    if named is not None:
        chosen = next((timeline for timeline in timelines if timeline.id == named), None)
        if chosen is None:
            raise refuse.input(named[:60], "is not a timeline in this target", "See headrace backup list --binlogs.")
        if joins(chosen, base):
            return ReplayChain((chosen,))
        before = [each for each in mine if each.ends.contains(chosen.begins) and chosen.begins.contains(base)]
        if before:
            return ReplayChain((before[-1], chosen))
        raise _make_no_timeline_error([chosen], manifest, base, lost)
    _refuse_used_again(mine, [timeline for timeline in timelines if is_own(timeline, manifest)], base, goal)
    own = _pick_complete(mine, manifest)
    # A server of MariaDB is identified by its server_id, mostly 1: another name is another server.
    others = [timeline for timeline in timelines if timeline.source_id != manifest.source_id]
    if own is None:
        fit = _pick_complete([timeline for timeline in others if joins(timeline, base)], manifest)
        if fit is None:
            raise _make_no_timeline_error([each for each in timelines if is_own(each, manifest)], manifest, base, lost)
        return ReplayChain((fit,))
    if _is_within(own, goal):
        return ReplayChain((own,))
    family = [] if goal is not None and goal.to_gap else [each for each in timelines if is_own(each, manifest)]
    _refuse_short(own, family, lost, manifest)
    beyond = [each for each in others if own.ends.contains(each.begins) and not own.reach.contains(each.ends)]
    beyond = [timeline for timeline in beyond if base.contains(timeline.begins) or timeline.begins.contains(base)]
    if not beyond:
        return ReplayChain((own,))
    lacking = [timeline for timeline in beyond if not timeline.ends.contains(own.reach)]
    if lacking:
        without = own.reach.minus(lacking[0].ends)
        rule = f"goes on in {lacking[0].id}, which never had {without.count():,} transactions of it ({archive.shorten_set(without)})"
        hint = f"Say which history is meant: --timeline {own.id}, or --timeline {lacking[0].id}."
        raise refuse.input(f"timeline {own.id}", rule, hint)
    promoted = _pick_complete(beyond, manifest)
    assert promoted is not None
    chain = (promoted,) if base.contains(promoted.begins) else (own, promoted)
    return ReplayChain(chain, own.ends)


def _pick_complete(fit: list[archive.Timeline], manifest: Manifest) -> archive.Timeline | None:
    """Returns the timeline that contains all others, None for none. Raises InputError."""
    if len(fit) > 1:
        # A server that began anew has two timelines: the later one has all that the source has now.
        whole = [timeline for timeline in fit if all(timeline.ends.contains(other.ends) for other in fit)]
        fit = whole[-1:] or fit
    if len(fit) > 1:
        rule = f"is in {len(fit)} timelines, which go on differently: {', '.join(timeline.id for timeline in fit)}"
        raise refuse.input(f"the position of {manifest.id}", rule, "Say which one is meant: --timeline.")
    return fit[0] if fit else None


def _refuse_used_again(
    mine: list[archive.Timeline], own: list[archive.Timeline], base: GtidSet, goal: RestoreGoal | None
) -> None:
    """Raises InputError if a server has used GTID numbers twice, because it lost transactions or
    was reset, and the goal may lie in either history."""
    for earlier in mine:
        for later in own[own.index(earlier) + 1 :]:
            again = earlier.reach.minus(later.begins)
            either = joins(later, base) or later.begins.contains(base)
            if again.is_empty or not either or not earlier.ends.contains(later.begins):
                continue
            if joins(later, base) and _has_all_of(later, earlier):
                continue
            if not _is_before(goal, earlier, later.begins):
                rule = f"used the numbers of {again.count():,} transactions again, in {later.id} ({archive.shorten_set(again)})"
                hint = f"Say which history is meant: --timeline {earlier.id}, or --timeline {later.id}."
                if earlier.list_damage_behind(base):
                    rule = f"cannot be read to its end, and {later.id} has transactions of the same numbers"
                    hint = f"It was begun when the damage was seen. If the server was not reset: --timeline {later.id}."
                    raise refuse.input(f"timeline {earlier.id}", f"{rule} ({archive.shorten_set(again)})", hint)
                raise refuse.input(f"the server of timeline {earlier.id}", rule, hint)


def _has_all_of(later: archive.Timeline, damaged: archive.Timeline) -> bool:
    """True if timeline `later` has the binary log in which `damaged` ends, up to that end or
    beyond: then it was streamed again behind damage, and no number was used twice. Files are the
    same if all transactions that both indexes name have the same times; a server that was reset, or
    went back to an earlier state, writes another file, or a shorter one."""
    name = damaged.end.file
    ending, again = (next((file for file in each.files if file.name == name), None) for each in (damaged, later))
    if ending is None or again is None or again.ends < damaged.end.offset or ending.earlier != again.earlier:
        return False
    times, others = _read_times(ending), _read_times(again)
    both = times.keys() & others.keys()
    return bool(both) and all(times[gtid] == others[gtid] for gtid in both)


def _read_times(file: archive.ArchivedFile) -> dict[str, int]:
    """Returns the times (µs, Unix) of the transactions that a file's index names, by GTID."""
    entries = [entry for entry in file.entries if entry.transactions]
    return {each.first_gtid: each.first_us for each in entries} | {each.last_gtid: each.last_us for each in entries}


def _refuse_short(
    own: archive.Timeline, family: list[archive.Timeline], lost: list[archive.Timeline], manifest: Manifest
) -> None:
    """Raises InputError if the history of timeline `own` goes on behind a gap, in a later one of
    the same server (`family`) or in one that cannot be read (`lost`)."""
    number = archive.parse_timeline_number(own.id)
    behind = [timeline for timeline in lost if archive.parse_timeline_number(timeline.id) > number]
    if behind:
        raise _make_unreadable_error(behind, manifest)
    for later in family:
        gap = later.begins.minus(own.reach)
        if archive.parse_timeline_number(later.id) <= number or gap.is_empty:
            continue
        rule = f"goes on in {later.id}, and {gap.count():,} transactions between were never stored ({archive.shorten_set(gap)})"
        hint = f"Take a backup from behind the gap as the base, or --timeline {own.id} for what lies before it."
        raise refuse.input(f"timeline {own.id}", rule, hint)


def _is_before(goal: RestoreGoal | None, timeline: archive.Timeline, at: GtidSet) -> bool:
    """True if a goal is reached before the first transaction of a timeline that `at` lacks."""
    if goal is None or (goal.gtid is None and goal.moment_us is None):
        return False
    if goal.gtid is not None:
        return at.contains(goal.gtid)
    beyond = [
        entry.first_us
        for file in timeline.files
        for entry in file.entries
        if entry.transactions and not at.contains(archive.make_set((entry.last_gtid,), timeline.flavor))
    ]
    return goal.moment_us is not None and goal.moment_us < min(beyond, default=0)


def is_own(timeline: archive.Timeline, manifest: Manifest) -> bool:
    """Returns whether a timeline is of the backup's source: of the same id, and MariaDB's name."""
    same = timeline.source_id == manifest.source_id
    return same and (timeline.flavor == "mysql" or timeline.source in ("", manifest.source))


def is_namesake(timeline: archive.Timeline, manifest: Manifest) -> bool:
    """Returns whether a timeline is of another server with the same id: most of MariaDB have
    server_id 1. It never continues the backup, though its numbers may fit."""
    return timeline.source_id == manifest.source_id and not is_own(timeline, manifest)


def _is_within(own: archive.Timeline, goal: RestoreGoal | None) -> bool:
    """True if a goal lies in the timeline of a backup's own source, so that no other is needed."""
    if goal is None or (goal.gtid is None and goal.moment_us is None):
        return False
    if goal.gtid is not None:
        return own.ends.contains(goal.gtid)
    last = max((entry.last_us for file in own.files for entry in file.entries), default=0)
    return goal.moment_us is not None and last > goal.moment_us


def joins(timeline: archive.Timeline, base: GtidSet) -> bool:
    """Returns whether a timeline continues a copy with the GTIDs `base`, without a gap."""
    return base.contains(timeline.begins) and timeline.ends.contains(base)


def is_lost(timeline: archive.Timeline, manifest: Manifest) -> bool:
    """True if a timeline of a backup's source is damaged, and has no readable index or file."""
    stem = archive.make_stem(manifest.source, manifest.source_id)
    own = timeline.flavor == manifest.flavor and is_own(timeline, manifest)
    if not own and timeline.id.rpartition("-")[0] != stem or timeline.files and timeline.source_id:
        return False
    return any(not damage.harmless for damage in timeline.damages)


def _make_unreadable_error(lost: list[archive.Timeline], manifest: Manifest) -> InputError:
    """Returns the error for a source whose archived binary logs cannot be used."""
    words = next(damage.words for damage in lost[-1].damages if not damage.harmless)
    rule = f"is damaged, and has the binary log behind {manifest.id}: {words}"
    return refuse.input(f"timeline {lost[-1].id}", rule, NOTHING_BEHIND, kind=BROKEN)


def _make_no_timeline_error(
    same: list[archive.Timeline], manifest: Manifest, base: GtidSet, lost: list[archive.Timeline]
) -> InputError:
    """Returns the error for a backup that no timeline of the archive continues. `same`: timelines
    of its source, or the one that was named; `base`: the GTIDs it has executed; `lost`: timelines
    of its source that cannot be read."""
    if lost and not (same and joins(same[-1], base)):
        return _make_unreadable_error(lost, manifest)
    if not same:
        rule = f"no binary log of its source ({manifest.source_id}) lies in this target"
        return refuse.input(manifest.id, rule, "Stream it: headrace backup stream. Or restore the backup as it is.")
    last = same[-1]
    if behind := last.list_damage_behind(base):
        return _make_damage_error(last, behind, base)
    if not base.contains(last.begins):
        missing = last.begins.minus(base)
        rule = f"the archive begins later: {missing.count():,} transactions between are missing ({archive.shorten_set(missing)})"
        return refuse.input(manifest.id, rule, "Take a newer backup as the base.", kind=BROKEN)
    missing = base.minus(last.ends)
    rule = f"the archive ends before it: it has not {archive.shorten_set(missing)}"
    return refuse.input(manifest.id, rule, "Let the stream catch up, or restore the backup as it is.")


NOTHING_BEHIND = (
    "Copy the file back from another copy of the target. Without it nothing behind the backup can be restored: "
    "leave the goal out for the backup as it is."
)


def _make_damage_error(
    timeline: archive.Timeline, behind: tuple[archive.Damage, ...], executed: GtidSet, last_gtid: str = ""
) -> InputError:
    """Returns the error for a timeline that is damaged before the goal, by `behind`. `executed`:
    the GTIDs that can be reached; `last_gtid`: the last of them, "" for none behind the backup."""
    without, count = timeline.reach.minus(executed), ""
    if not without.is_empty:
        count = f"; {without.count():,} transactions lie behind ({archive.shorten_set(without)})"
    hint = NOTHING_BEHIND
    if last_gtid:
        hint = "Copy the file back from another copy of the target. Without it the last that can be reached is "
        hint += f"--to-gtid {last_gtid}."
    return refuse.input(f"timeline {timeline.id}", f"is damaged: {behind[0].words}{count}", hint, kind=BROKEN)


def make_before_base_error(moment_us: int, has: str) -> InputError:
    """Returns the error for a moment (µs, Unix) before a backup's position; `has`: the moment of
    the latest transaction in the backup, in words."""
    rule = f"is before the backup, which has transactions of {has} already"
    return refuse.input(f"--to-time {format_moment(moment_us)}", rule, "Take an older backup.")


# --- reading --------------------------------------------------------------------------------------


def collect(
    target: BackupTarget,
    chain: ReplayChain,
    base: GtidSet,
    goal: RestoreGoal,
    folder: Path,
    key: bytes | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> ReplayPlan:
    """Tests all bytes from the GTIDs `base` to the goal, writes their transactions as relay logs
    into `folder`, and returns what a replay of these does. `progress`: called with the share read,
    0 to 1. Raises InputError for a goal before the base, after the end, in a gap or not in this
    history, and for damaged bytes."""
    selection = _Selection(base, goal, _find_base_us(chain.timelines[0], base))
    logs: list[Path] = []
    total = sum(file.ends for timeline in chain.timelines for file in select_needed(timeline, base)) or 1
    meter = ByteMeter(total, progress)
    for timeline, behind in zip(chain.timelines, (*chain.timelines[1:], None), strict=True):
        if selection.done:
            break
        selection.begin_timeline(behind.begins if behind is not None else None, chain.own_end)
        _write_relay_logs(target, timeline, selection, folder, key, logs, meter)
        if behind is not None and not selection.done and not selection.executed.contains(behind.begins):
            if damage := timeline.list_damage_behind(selection.base):
                raise _make_damage_error(timeline, damage, selection.executed, selection.last_gtid)
            missing = behind.begins.minus(selection.executed)
            rule = f"ends before {behind.id} begins: {missing.count():,} transactions between are missing"
            raise refuse.input(timeline.id, rule, "Take a newer backup as the base.", kind=BROKEN)
    selection.finish(chain.timelines[-1])
    return ReplayPlan(
        timeline=", ".join(timeline.id for timeline in chain.timelines),
        executed=selection.executed,
        transactions=selection.count,
        last_gtid=selection.last_gtid,
        last_us=selection.last_us,
        logs=tuple(logs),
        server_ids=frozenset(selection.servers),
        base_us=selection.base_us,
        doubt=len(selection.doubtful),
        doubt_gtids=(selection.doubtful[0], selection.doubtful[-1]) if selection.doubtful else ("", ""),
    )


class ByteMeter:
    """Counts bytes, and reports after each call the share of `total` that is done, 0 to 1."""

    def __init__(self, total: int, report: Callable[[float], None]) -> None:
        self.total, self.report, self.done = max(1, total), report, 0

    def __call__(self, count: int) -> None:
        """Adds `count` bytes, and reports the share."""
        self.done += count
        self.report(min(1.0, self.done / self.total))


def select_needed(timeline: archive.Timeline, base: GtidSet) -> list[archive.ArchivedFile]:
    """Returns the binary logs of a timeline that have transactions which `base` lacks."""
    return [file for file in timeline.files if not base.contains(file.later)]


def _find_base_us(timeline: archive.Timeline, base: GtidSet) -> int:
    """Returns when the latest transaction was committed of the last binary log that `base`
    contains, µs, Unix, by its index, as that file is not read; 0 for no such file."""
    for file in reversed(timeline.files):
        times = [entry.last_us for entry in file.entries if entry.transactions]
        if times and base.contains(file.later):
            return max(times)
    return 0


def _write_relay_logs(
    target: BackupTarget,
    timeline: archive.Timeline,
    selection: _Selection,
    folder: Path,
    key: bytes | None,
    logs: list[Path],
    meter: ByteMeter,
) -> None:
    """Writes the relay logs of a timeline into `folder`, up to the goal or where the next timeline
    begins. Adds their paths to `logs`, their transactions to `selection`, and bytes to `meter`."""
    executed = selection.base
    files = select_needed(timeline, executed)
    for index, file in enumerate(files):
        _check_join(timeline, file, executed, index == 0, selection)
        path = folder / f"relay.{len(logs) + 1:06d}"
        with open(path, "wb") as out:
            for size in _write_relay_log(target, file, selection, out, key):
                meter(size)
        logs.append(path)
        if selection.done or (selection.until is not None and selection.executed.contains(selection.until)):
            return
        executed = executed.union(file.later)
        _check_end(timeline, file, files[index + 1] if index + 1 < len(files) else None, selection)


def _holds(gtids: GtidSet, key: str, number: int) -> bool:
    """Returns whether a set has the transaction `number` of a server or domain (`key`)."""
    ranges = next((ranges for name, ranges in gtids.ranges if name == key), ())
    return any(first <= number <= last for first, last in ranges)


def _list_writers(gtids: GtidSet) -> dict[tuple[str, int], int]:
    """Returns the server_id that wrote each domain's last number, by (domain, number) (MariaDB)."""
    return {(key, gtids.get_last_number(key)): writer for key, writer in gtids.writers}


class _Selection:
    """Selects the transactions of the archive that are replayed, in the order of the binary logs,
    until the goal is reached (`done`). `base`: the GTIDs at the begin of the current timeline."""

    def __init__(self, base: GtidSet, goal: RestoreGoal, base_us: int) -> None:
        """Begins with the GTIDs that the restored copy has executed (`base`). `base_us`: when the
        latest of them was committed, as far as it is known, µs, Unix, 0 for none. Raises InputError
        for a goal that cannot be reached from there."""
        self.base, self.goal, self.flavor = base, goal, base.flavor
        self.count, self.last_gtid, self.last_us, self.done = 0, "", 0, False
        self.servers: set[int] = set()
        self.doubtful: list[str] = []
        self.base_us = base_us
        self._taken: list[str] = []
        self.until: GtidSet | None = None  # where the next timeline takes over
        # MariaDB: who wrote the last transactions of the base, by domain and number. Numbers alone
        # are used again by another server after a failover that lost some.
        self._writers = _list_writers(base)
        self.unreached: dict[str, int] = {}
        self._unreached_set: GtidSet | None = None
        if goal.gtid is not None:
            self._find_unreached(goal.gtid)

    def _find_unreached(self, goal: GtidSet) -> None:
        """Sets `unreached` to the GTIDs of the goal that the base lacks; for none sets `done`.
        Raises InputError for another flavor, an empty goal, and one before the base."""
        if goal.flavor != self.flavor:
            raise refuse.input(str(goal)[:60], f"is no GTID of {self.flavor}")
        if goal.is_empty:
            raise refuse.input("--to-gtid ''", "names no transaction")
        # A single GTID of MySQL stands for the moment after it; a whole set for that set.
        unreached = goal.minus(self.base)
        if unreached.is_empty:
            if self.flavor == "mysql" and goal.count() == 1 or not goal.contains(self.base):
                rule = f"is before the backup, which has executed {archive.shorten_set(self.base)} already"
                raise refuse.input(f"--to-gtid {archive.shorten_set(goal)}", rule, "Take an older backup.")
            self.done = True
        self._unreached_set = unreached
        self.unreached = {key: ranges[-1][1] for key, ranges in unreached.ranges}

    def begin_timeline(self, until: GtidSet | None, own_end: GtidSet | None) -> None:
        """Begins the next timeline, which is read up to `until`, None for its end. `own_end`: where
        the backup's own source ends (MariaDB: a number there may not have another writer)."""
        self.base, self._taken, self.until = self.executed, [], until
        for gtids in (self.base, until, own_end):
            self._writers |= _list_writers(gtids) if gtids is not None else {}

    @property
    def executed(self) -> GtidSet:
        """The GTIDs that are executed when everything taken so far is replayed."""
        return archive.as_position(self.base.union(archive.make_set(self._taken, self.flavor)))

    def select(self, transaction: binlog.Transaction, server_id: int) -> bool:
        """Takes the next transaction, which the server `server_id` wrote, and returns whether it is
        replayed; sets `done` once the goal is reached. Raises InputError for a transaction without
        GTID, one of a history that has diverged, and a goal that this history has not."""
        if not transaction.gtid:
            rule = "a transaction has no GTID, so it cannot be followed"
            raise refuse.input(f"offset {transaction.starts:,}", rule, "", kind=BROKEN)
        key, number, writer = archive.split_gtid(transaction.gtid, self.flavor)
        expected = self._writers.get((key, number), writer)
        if expected != writer:
            rule = f"number {number} of domain {key} is of server {expected} in the other history, and here {transaction.gtid}"
            hint = "The two go on differently from there. Say which one is meant: --timeline."
            raise refuse.input(f"offset {transaction.starts:,}", rule, hint)
        if _holds(self.base, key, number):
            self.base_us = max(self.base_us, transaction.time_us)
            return False
        if self.until is not None and not _holds(self.until, key, number):
            return False
        self._check_base()
        if self.goal.moment_us is not None and not self._is_in_time(transaction):
            return False
        # A filtered replica's log skips numbers: what lies behind a skipped goal was not asked for.
        if self.flavor == "mariadb" and number > self.unreached.get(key, number):
            before = self.last_gtid or "the backup"
            rule = f"is not in this history: number {self.unreached[key]} of domain {key} is missing, {transaction.gtid} follows {before}"
            raise refuse.input(f"--to-gtid {self.goal.gtid}", rule, "Name a transaction that is there.")
        if self.flavor == "mariadb" and number == self.unreached.get(key):
            named = dict(self.goal.gtid.writers).get(key) if self.goal.gtid else None
            if named is not None and named != writer:
                rule = f"is not in this history: number {number} of domain {key} is {transaction.gtid}"
                raise refuse.input(str(self.goal.gtid), rule)
        self._taken.append(transaction.gtid)
        self.servers.add(server_id)
        self.count, self.last_gtid, self.last_us = self.count + 1, transaction.gtid, transaction.time_us
        if self._unreached_set is not None:
            self._mark_reached(key, number, transaction.gtid)
        return True

    def _mark_reached(self, key: str, number: int, gtid: str) -> None:
        """Removes a replayed transaction from `unreached`, and sets `done` behind the last."""
        if key not in self.unreached:
            return
        if self.flavor == "mariadb":
            if number == self.unreached[key]:
                del self.unreached[key]
        else:
            assert self._unreached_set is not None
            self._unreached_set = self._unreached_set.minus(GtidSet.parse(gtid, self.flavor))
            self.unreached = {name: ranges[-1][1] for name, ranges in self._unreached_set.ranges}
        self.done = not self.unreached

    def _check_base(self) -> None:
        """Raises InputError if the base has transactions later than the moment of the goal."""
        moment = self.goal.moment_us
        if moment is not None and self.base_us > moment:
            raise make_before_base_error(moment, format_moment(self.base_us))

    def _is_in_time(self, transaction: binlog.Transaction) -> bool:
        """Returns whether a transaction was committed by the moment of the goal; sets `done` at the
        first later one, since the order of the binary log counts. Transactions of MariaDB in the
        last second are added to `doubtful`, and left out."""
        moment = self.goal.moment_us
        assert moment is not None
        # MariaDB's time is cut to a whole second: the transaction is from within that second.
        latest = transaction.time_us if self.flavor == "mysql" else transaction.time_us + SECOND_US - 1
        if latest <= moment and not self.doubtful:
            return True
        if self.flavor == "mariadb" and transaction.time_us <= moment:
            self.doubtful.append(transaction.gtid)
            return False
        self.done = True
        return False

    def finish(self, timeline: archive.Timeline) -> None:
        """Checks the selection at the end of the readable files. Raises InputError if damage may
        hide transactions behind them, or the goal was not reached."""
        self._check_base()
        if self.done:
            return
        if behind := timeline.list_damage_behind(self.base):
            raise _make_damage_error(timeline, behind, self.executed, self.last_gtid)
        if self.goal.gtid is None and self.goal.moment_us is None:
            return
        last = self.last_gtid or archive.shorten_set(self.base)
        last += f" of {format_moment(self.last_us)}" if self.last_us else ""
        if self.goal.gtid is not None:
            value = f"--to-gtid {archive.shorten_set(self.goal.gtid)}"
        else:
            assert self.goal.moment_us is not None
            value = f"--to-time {format_moment(self.goal.moment_us)}"
        rule = f"is after the end of timeline {timeline.id}, whose last transaction is {last}"
        raise refuse.input(value, rule, "Let the stream catch up, or take --latest, all there is.")


def _write_relay_log(
    target: BackupTarget, file: archive.ArchivedFile, selection: _Selection, out: BinaryIO, key: bytes | None
) -> Iterator[int]:
    """Writes the relay log of a binary log to `out`, with its transactions that are selected, and
    yields the numbers of bytes read. A transaction, which may exceed the memory, is written as it
    is read, and cut off again if it is not selected."""
    reader, parser = binlog.Reader(f"{target.label}: {file.name}"), binlog.TransactionParser(file.name)
    raw, at, begun, complete_to = bytearray(), 0, False, 0

    def cut_off() -> None:
        out.seek(complete_to)
        out.truncate()

    for name, piece in zip(file.names, file.pieces, strict=True):
        for data in archive.read_piece_bytes(target, name, piece, key):
            raw += data
            for event in reader.feed(data):
                if event.kind == codes.FORMAT and not begun:
                    format_event = bytes(raw[event.offset - at : event.end - at])
                    head = binlog.build_relay_head(format_event, file.name, event.server_id, bool(reader.checksums))
                    complete_to += out.write(head)
                    begun = True
                elif event.kind == codes.PREVIOUS_GTIDS:  # MySQL requires it in every relay log
                    complete_to += out.write(raw[event.offset - at : event.end - at])
                ended = parser.see(event)
                if parser.inside or ended is not None:
                    out.write(raw[event.offset - at : event.end - at])
                if ended is not None and selection.select(ended, event.server_id):
                    complete_to = out.tell()
                elif ended is not None:
                    cut_off()
                if selection.done:
                    cut_off()
                    return
            done = reader.offset - at
            if done > 0:
                del raw[:done]
                at += done
            yield len(data)
    cut_off()  # a transaction that is incomplete at the end of the archive
    if parser.earlier is None:
        raise binlog.make_damage_error(reader.where, 0, "does not say which transactions came before it")


def _check_join(
    timeline: archive.Timeline, file: archive.ArchivedFile, executed: GtidSet, first: bool, selection: _Selection
) -> None:
    """Raises InputError if a binary log does not continue the GTIDs `executed` before it. `first`:
    it may begin before their end."""
    missing = file.earlier.minus(executed)
    if missing.is_empty and (first or executed.minus(file.earlier.union(file.own)).is_empty):
        return
    if behind := timeline.list_damage_behind(selection.base):
        raise _make_damage_error(timeline, behind, selection.executed, selection.last_gtid)
    rule = f"{missing.count():,} transactions before it are missing from the archive: {archive.shorten_set(missing)}"
    if missing.is_empty:
        rule = f"is of another history: its source has not executed {archive.shorten_set(executed.minus(file.earlier))}"
    last = (
        f"--to-gtid {selection.last_gtid} is the last that can be reached"
        if selection.last_gtid
        else "Take a newer backup"
    )
    raise refuse.input(f"{timeline.id}/{file.name}", rule, f"{last}.", kind=BROKEN)


def _check_end(
    timeline: archive.Timeline, file: archive.ArchivedFile, behind: archive.ArchivedFile | None, selection: _Selection
) -> None:
    """Raises InputError if a binary log is cut off in the archive, and `behind` follows it."""
    if behind is not None and not file.ended:
        damage = timeline.list_damage_behind(selection.base) or timeline.damages
        raise _make_damage_error(timeline, damage, selection.executed, selection.last_gtid)
