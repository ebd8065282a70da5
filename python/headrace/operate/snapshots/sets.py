"""Snapshot sets: the snapshots of a server's volumes of one moment, known by their tags alone.

Tags whose values are known before the snapshots go into the one call that makes them; the tag
`headrace:finished` comes last, when the freeze and the lock are known to have held. So a set whose
maker was killed before is known to be unfinished.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headrace.base.encoding import Document, pick_fields
from headrace.errors import Refusals

refuse = Refusals("docs/guide/consistent-snapshots.md")
SET, SERVER, FLAVOR, VERSION = "headrace:set", "headrace:server", "headrace:flavor", "headrace:version"
VOLUMES, GTID, REPLICA_GTID, POSITION = (
    "headrace:volumes",
    "headrace:gtid",
    "headrace:replica-gtid",
    "headrace:position",
)
STEPS, FROZEN, FINISHED = "headrace:steps", "headrace:frozen-ms", "headrace:finished"
MEMBER, ABOUT = "headrace:member", "headrace:about"
# Amazon EC2 User Guide, "Tag your Amazon EC2 resources": 256 characters a value, 50 tags.
VALUE_CHARACTERS = 256
# Out of those 50, other tags of ours take some 15, those of the user some 10. A guess.
LONG_TAGS = 20
# Snapshots of one call carry one time; those of separate calls do not. EC2's times have ms. A guess
# at how far clocks of its parts may be apart.
SAME_TIME_S = 1.0

# JSON of a tag: any release may have written it, and anybody may have changed it.
TagDocument = dict[str, Any]


@dataclass(frozen=True)
class StoredSnapshot(Document):
    """A snapshot as the lab or EC2 shows it. `volume`: "" where it is not known any more. `copy`:
    it was made of another snapshot, and does not say which volume that was taken of."""

    id: str
    volume: str
    size_gib: int
    state: str
    started_at: str
    tags: Mapping[str, str] = field(default_factory=dict)
    copy: bool = False

    @property
    def member(self) -> TagDocument:
        """The use of the volume: `place`, `kind`, `layout`, `spec`, `role`."""
        return _parse_document(_join_tags(self.tags, MEMBER))

    def list_entries(self) -> dict[str, object]:
        """Returns the use of the volume, and the snapshot's own facts."""
        return self.member | {"snapshot": self.id} | pick_fields(self, "volume", "size_gib", "state")


@dataclass(frozen=True)
class SnapshotSet(Document, computed=("whole",), omitted=("about",)):
    """A set. `problems`: in words, why it must not be restored; empty for a good one."""

    id: str
    server: str
    flavor: str
    version: str
    taken_at: str
    snapshots: tuple[StoredSnapshot, ...]
    gtid: str
    replica_gtid: str
    position: str
    steps: tuple[str, ...]
    frozen_ms: float | None
    about: TagDocument
    problems: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """True when nothing is wrong with the set."""
        return not self.problems

    @property
    def copied(self) -> bool:
        """True when it is made of copies: they do not say which volumes they are of."""
        return all(snapshot.copy for snapshot in self.snapshots)

    @property
    def stored(self) -> bool:
        """True when all its blocks are in the object store."""
        return all(snapshot.state == "completed" for snapshot in self.snapshots)

    @property
    def identity(self) -> tuple[str, ...]:
        """The server's name; of an instance's server also where its volumes were mounted, since two
        servers of one instance have its name if they were given none."""
        places = {str(snapshot.member.get("place", "")) for snapshot in self.snapshots}
        return (self.server, *sorted(places)) if self.about.get("ec2") else (self.server,)

    @property
    def size_gib(self) -> int:
        """The size of its volumes together, GiB."""
        return sum(snapshot.size_gib for snapshot in self.snapshots)

    def list_entries(self) -> dict[str, object]:
        """Returns what JSON and CSV have of the set."""
        return super().list_entries() | {"steps": list(self.steps) or ["crash-consistent"]}


def make_id() -> str:
    """Returns set- and 17 hexadecimal digits, as EC2 names things."""
    return f"set-{secrets.token_hex(9)[:17]}"


def make_long_tags(key: str, text: str) -> dict[str, str]:
    """Returns a text as the value of one tag, or of several: KEY.0, KEY.1, ... Raises InputError
    for one that no number of tags would hold."""
    if len(text) <= VALUE_CHARACTERS:
        return {key: text} if text else {}
    parts = [text[at : at + VALUE_CHARACTERS] for at in range(0, len(text), VALUE_CHARACTERS)]
    if len(parts) > LONG_TAGS:
        raise refuse.input(key, f"has {len(text):,} characters, and tags hold {LONG_TAGS * VALUE_CHARACTERS:,}")
    return {f"{key}.{number}": part for number, part in enumerate(parts)}


def fits(text: str) -> bool:
    """Returns whether tags can hold the text."""
    return len(text) <= LONG_TAGS * VALUE_CHARACTERS


def _join_tags(tags: Mapping[str, str], key: str) -> str:
    """Returns the text that `make_long_tags` spread over tags; "" without any."""
    if key in tags:
        return tags[key]
    parts = []
    while (part := tags.get(f"{key}.{len(parts)}")) is not None:
        parts.append(part)
    return "".join(parts)


def as_json(value: object) -> str:
    """Returns a value as one line of JSON in ASCII, which a tag can hold."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _parse_document(text: str) -> TagDocument:
    """Returns the JSON object in a tag; an empty one for anything else."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def build_sets(snapshots: Iterable[StoredSnapshot]) -> list[SnapshotSet]:
    """Returns the sets that these snapshots form, the oldest first."""
    grouped: dict[str, list[StoredSnapshot]] = defaultdict(list)
    for snapshot in snapshots:
        if snapshot.tags.get(SET):
            grouped[snapshot.tags[SET]].append(snapshot)
    return sorted(
        (_make_set(name, group) for name, group in grouped.items()),
        key=lambda snapshot_set: (snapshot_set.taken_at, snapshot_set.id),
    )


def _make_set(name: str, snapshots: list[StoredSnapshot]) -> SnapshotSet:
    """Returns the set that these snapshots form, with what is wrong with it. The first volume's
    tags speak for the set. Copies that have the tags of their sources do not count, unless the
    set has nothing else."""
    snapshots = [snapshot for snapshot in snapshots if not snapshot.copy] or snapshots
    snapshots.sort(key=lambda snapshot: (snapshot.volume, snapshot.started_at, snapshot.id))
    tags = snapshots[0].tags
    frozen = tags.get(FROZEN)
    return SnapshotSet(
        id=name,
        server=tags.get(SERVER, ""),
        flavor=tags.get(FLAVOR, ""),
        version=tags.get(VERSION, ""),
        taken_at=min(snapshot.started_at for snapshot in snapshots),
        snapshots=tuple(snapshots),
        gtid=_join_tags(tags, GTID),
        replica_gtid=_join_tags(tags, REPLICA_GTID),
        position=tags.get(POSITION, ""),
        steps=tuple(tags.get(STEPS, "").split()),
        frozen_ms=_parse_number(frozen),
        about=_parse_document(_join_tags(tags, ABOUT)),
        problems=tuple(_list_problems(snapshots)),
    )


def _parse_number(text: str | None) -> float | None:
    """Returns the number in a tag; None without one."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _list_problems(snapshots: list[StoredSnapshot]) -> list[str]:
    """Returns in words why these snapshots are not those of all volumes of one moment."""
    members = [volume for volume in _join_tags(snapshots[0].tags, VOLUMES).split(",") if volume]
    have = [snapshot.volume for snapshot in snapshots]
    problems = [f"no snapshot of {volume}" for volume in members if volume not in have]
    foreign = [snapshot for snapshot in snapshots if snapshot.volume not in members]
    problems += [
        f"{snapshot.id} is of {snapshot.volume or 'an unknown volume'}, which is not a member" for snapshot in foreign
    ]
    problems += [f"more than one snapshot of {volume}" for volume in members if have.count(volume) > 1]
    if not members:
        problems = ["its tags do not say which volumes it is of"]
    times = [parse_moment(snapshot.started_at) for snapshot in snapshots]
    apart = (max(times) - min(times)).total_seconds()
    if apart > SAME_TIME_S:
        problems.append(f"its snapshots are {apart:,.1f} s apart: they are not of one moment")
    problems += [f"{snapshot.id} is in state error" for snapshot in snapshots if snapshot.state == "error"]
    unfinished = "was not finished: its maker ended before the freeze was known to have held"
    problems += [f"{snapshot.id} {unfinished}" for snapshot in snapshots if FINISHED not in snapshot.tags]
    common_tags = {
        (_join_tags(snapshot.tags, VOLUMES), _join_tags(snapshot.tags, GTID), snapshot.tags.get(POSITION))
        for snapshot in snapshots
    }
    if len(common_tags) > 1:
        problems.append("its snapshots have tags that contradict each other")
    return problems


def parse_moment(text: str) -> datetime:
    """Reads a time as the lab and EC2 write it (ISO 8601). Raises ValueError for other text."""
    return datetime.fromisoformat(text)


def choose_set(sets: list[SnapshotSet], name: str) -> SnapshotSet:
    """Returns a set by id, `latest` or `latest:SERVER`: the newest whole one. Raises InputError,
    also for a name that two servers of one instance share."""
    kind, _, server = name.partition(":")
    if kind == "latest":
        sets = [snapshot_set for snapshot_set in sets if not server or snapshot_set.server == server]
        whole = [snapshot_set for snapshot_set in sets if snapshot_set.whole]
        identities = {snapshot_set.identity for snapshot_set in whole}
        if server and len(identities) > 1:
            places = "; ".join(sorted(", ".join(identity[1:]) for identity in identities))
            rule = f"is the name of {len(identities)} servers, whose volumes have different mount points: {places}"
            hint = "Name the set by its id (headrace snapshot sets), and give each server a --name when you take sets."
            raise refuse.input(server[:80], rule, hint)
        if whole:
            return whole[-1]
        rule = f"there is no whole set{f' of {server[:60]}' if server else ''}; {len(sets)} are not whole"
        raise refuse.input(name[:80], rule, "See headrace snapshot sets.")
    for snapshot_set in sets:
        if snapshot_set.id == name:
            return snapshot_set
    raise refuse.input(name[:80], "is not a snapshot set here", "See headrace snapshot sets.")


def check_whole(snapshot_set: SnapshotSet) -> None:
    """Raises InputError for a set that must not be restored, with all reasons."""
    if snapshot_set.problems:
        raise refuse.input(snapshot_set.id, "; ".join(snapshot_set.problems), "Choose another: headrace snapshot sets.")
