"""Retention of snapshot sets, and runs on a schedule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.base.encoding import Document, pick_fields
from headrace.base.packaged import read_text
from headrace.errors import InputError
from headrace.operate.snapshots.services import VolumeService, delete_all
from headrace.operate.snapshots.sets import SnapshotSet, parse_moment, refuse
from headrace.servers.copies.retention import CopyRetention

# A set that is not finished may be one that is being taken: locks, freeze and one call take a
# minute at most. A guess with room, s.
BEING_TAKEN_S = 900.0


@dataclass(frozen=True)
class RetentionVerdict(Document, omitted=("chosen",)):
    """The fate of a set, and why."""

    chosen: SnapshotSet
    goes: bool
    why: str

    def list_entries(self) -> dict[str, object]:
        """Returns what JSON and CSV have of the verdict."""
        return pick_fields(self.chosen, "id", "server", "taken_at") | super().list_entries()


def judge(
    sets: Sequence[SnapshotSet], now: datetime, keep: int | None, keep_for_s: float | None
) -> list[RetentionVerdict]:
    """Returns each set of one server with its verdict, the newest first.

    A whole set goes when it is neither among the newest `keep` nor younger than `keep_for_s`, one
    of which may be None. The newest whole and stored set never goes. A set that is not whole goes
    once it cannot be one that is being taken, unless it is made of copies: these may be all that
    remains elsewhere. Raises InputError where both are None.
    """
    if keep is None and keep_for_s is None:
        raise refuse.input("what to keep", "was not said", "Add --keep N, --keep-for TIME, or both.")
    newest = sorted(sets, key=lambda chosen: (parse_moment(chosen.taken_at), chosen.id), reverse=True)
    ages_s = {chosen.id: (now - parse_moment(chosen.taken_at)).total_seconds() for chosen in newest}
    whole = [chosen for chosen in newest if chosen.whole]
    last = next((chosen for chosen in whole if chosen.stored), None)
    judged = CopyRetention(keep, keep_for_s).judge(whole, last, lambda _: True, lambda chosen: ages_s[chosen.id])
    verdicts, pending = [], True
    for chosen in newest:
        age = ages_s[chosen.id]
        if not chosen.whole:
            young = age < BEING_TAKEN_S
            why = "may be being taken" if young else f"is not whole: {chosen.problems[0]}"
            why = "is made of copies, which are not pruned" if chosen.copied else why
            verdicts.append(RetentionVerdict(chosen, not young and not chosen.copied, why))
            continue
        _, reason, newer = next(judged)
        pending, old = pending and chosen is not last, timedelta(seconds=int(max(age, 0)))
        words = {
            "last": "the newest whole one",
            "pending": "is still being stored",  # should that fail, an older one is the newest whole one
            "count": f"number {newer + 1} of the {keep} newest",
            "age": f"is {old} old",
            "": f"number {newer + 1}, {old} old",
        }
        reason = "last" if chosen is last else "pending" if pending else reason
        verdicts.append(RetentionVerdict(chosen, not reason, words[reason]))
    return verdicts


def judge_servers(
    sets: Sequence[SnapshotSet], now: datetime, keep: int | None, keep_for_s: float | None
) -> list[RetentionVerdict]:
    """Returns the verdicts of `judge` on the sets of several servers, one server after the other.
    Raises InputError where both rules are None."""
    by_server: dict[tuple[str, ...], list[SnapshotSet]] = {}
    for chosen in sorted(sets, key=lambda chosen: chosen.identity):
        by_server.setdefault(chosen.identity, []).append(chosen)
    # Without a set the rules are checked all the same.
    return [verdict for own in by_server.values() or [[]] for verdict in judge(own, now, keep, keep_for_s)]


def prune(service: VolumeService, verdicts: Sequence[RetentionVerdict]) -> dict[str, str]:
    """Deletes the sets that go, of each server the oldest first; returns the reasons why sets could
    not be deleted, in words, by the set's id.

    Raises CouldNotRun, before it deletes anything, where no whole set of a server would stay that
    was there.
    """
    whole = [verdict for verdict in verdicts if verdict.chosen.whole]
    staying = {verdict.chosen.identity for verdict in whole if not verdict.goes}
    if any(verdict.chosen.identity not in staying for verdict in whole):
        raise refuse.run("prune", "would delete the last whole set", "Keep one: --keep 1.")
    failures: dict[str, str] = {}
    for verdict in reversed(verdicts):
        for snapshot in verdict.chosen.snapshots if verdict.goes else ():
            failed = delete_all(service, [snapshot.id])
            if failed:
                failures[verdict.chosen.id] = failed[0]  # locked, perhaps: the rest of the set stays as well
                break
    return failures


# --- on a schedule --------------------------------------------------------------------------------

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,60}", re.ASCII)
# Runs more often than this do not end before the next begins. A guess, s.
LEAST_EVERY_S = 60


def build_units(
    name: str, program: Sequence[str], take: Sequence[str], prune_arguments: Sequence[str] | None, every_s: int
) -> dict[str, str]:
    """Returns a systemd service and its timer, as file names and texts (systemd.service(5),
    systemd.timer(5)).

    `program`: the command `headrace`; `take`, `prune_arguments`: its arguments. Raises InputError.
    """
    if not NAME.fullmatch(name):
        raise refuse.input(name[:60], "a schedule's name has 1 to 61 of letters, digits, _, . and -")
    if every_s < LEAST_EVERY_S:
        raise refuse.input(f"{every_s} s", f"a schedule runs every {LEAST_EVERY_S} s at most")
    commands = [take] if prune_arguments is None else [take, prune_arguments]
    values = {
        "name": name,
        "every_s": every_s,
        "commands": "\n".join(f"ExecStart={_quote_arguments([*program, *arguments])}" for arguments in commands),
    }
    return {
        f"headrace-snapshot-{name}.{kind}": read_text("headrace.operate.snapshots", f"schedule.{kind}").format(**values)
        for kind in ("service", "timer")
    }


# Nothing in it means anything to systemd.
PLAIN = re.compile(r"[A-Za-z0-9_./:=,@+-]+", re.ASCII)


def _quote_arguments(arguments: Sequence[str]) -> str:
    """Returns a command line of systemd: quoted as C does, with % and $ doubled
    (systemd.service(5), "Command lines")."""
    for argument in arguments:
        if not argument.isprintable():
            raise InputError(ascii(argument)[:60], "cannot stand in a unit of systemd", "systemd.service(5)")
    return " ".join(argument if PLAIN.fullmatch(argument) else _escape_argument(argument) for argument in arguments)


def _escape_argument(argument: str) -> str:
    text = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"'
