"""A snapshot set back: to a new server of the lab, or to volumes."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace import servers
from headrace.base.processes import ends_as_interrupts, undisturbed
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.lab.watching import stored
from headrace.operate.snapshots.services import VolumeService
from headrace.operate.snapshots.sets import DOC, SnapshotSet, StoredSnapshot, check_whole
from headrace.servers import Server

# Server ids have 32 bits (both manuals, server_id); small ones are those that people choose.
SMALL_ID, MOST_ID = 1 << 16, (1 << 32) - 1
# MySQL renamed it in 8.0.26 and dropped the old name in 8.4 (MySQL 8.4 manual, "What Is New").
RENAMED = (8, 0, 26)

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class RestoredVolume:
    """A volume that was made. `place`: where its filesystem was mounted."""

    volume: str
    snapshot: str
    place: str
    spec: str
    layout: tuple[Mapping[str, str], ...]


def to_server(
    lab: Lab,
    chosen: SnapshotSet,
    name: str,
    *,
    storage: str | None = None,
    log_storage: str | None = None,
    memory_gib: float | None = None,
    port: int | None = None,
    settings: Mapping[str, str | None] | None = None,
    progress: Progress = lambda share, what: None,
) -> Server:
    """A new server of the lab from a set of one. Its blocks are loaded when they are first used.

    It has an identity of its own (server_id, and MySQL's server_uuid), and does not replicate by
    itself: a copy of a replica would take the replica's place at its source.

    Raises InputError for a set that is not whole or is of no server of a lab, CouldNotRun. When it
    fails nothing is left of it.
    """
    check_whole(chosen)
    roles = chosen.about.get("roles")
    if not isinstance(roles, dict) or "data" not in roles:
        rule = "is not of a server of the lab, so only its volumes can be made"
        raise InputError(chosen.id, rule, DOC, "Add --volumes.")
    for server in servers.servers(lab):
        if server.name == name:
            raise InputError(name, "is a server of this lab already", DOC, "Name another: --name. Or destroy it first.")
    found = {role: _snapshot(chosen, volume) for role, volume in roles.items()}
    for one in found.values():
        progress(0.0, f"waiting for {one.id} to be stored")
        stored(lab, one.id)
    log = found.get("log")
    return servers.up(
        lab,
        name=name,
        flavor=chosen.flavor,
        engine=chosen.about.get("engine"),
        storage=storage or _spec(found["data"]),
        log_storage=(log_storage or _spec(log)) if log is not None else None,
        memory_gib=memory_gib or chosen.about.get("memory_gib"),
        port=port,
        seed_from=found["data"].id,
        log_seed_from=None if log is None else log.id,
        settings=_settings(chosen) | dict(settings or {}),
        progress=progress,
    )


def _snapshot(chosen: SnapshotSet, volume: str) -> StoredSnapshot:
    for one in chosen.snapshots:
        if one.volume == volume:
            return one
    raise InputError(chosen.id, f"has no snapshot of {volume}", DOC)


def _spec(snapshot: StoredSnapshot) -> str:
    return str(snapshot.member.get("spec") or f"gp3:{snapshot.size_gib}")


def _settings(chosen: SnapshotSet) -> dict[str, str | None]:
    """Those of the server, with an identity of its own."""
    found: dict[str, Any] = {}
    given = chosen.about.get("settings")
    for name, value in (given if isinstance(given, dict) else {}).items():
        if isinstance(name, str) and (value is None or isinstance(value, str)):
            found[name.replace("_", "-")] = value
    found["server-id"] = str(random.SystemRandom().randrange(SMALL_ID, MOST_ID))
    numbers = tuple(int(part) for part in chosen.version.split("-")[0].split(".") if part.isdigit())
    renamed = chosen.flavor == "mysql" and numbers >= RENAMED
    found["skip-replica-start" if renamed else "skip-slave-start"] = "ON"
    return found


def to_volumes(
    service: VolumeService, chosen: SnapshotSet, prefix: str, spec: str | None = None
) -> list[RestoredVolume]:
    """A volume from each snapshot of a set, all or none. `spec`: another storage for each, not
    smaller. Raises InputError for a set that is not whole, CouldNotRun."""
    check_whole(chosen)
    pending = [one.id for one in chosen.snapshots if one.state != "completed"]
    if pending:
        rule = f"is not stored yet: {', '.join(pending)}"
        raise CouldNotRun(chosen.id, rule, DOC, "Wait: headrace snapshot sets shows it.")
    made: list[RestoredVolume] = []
    with ends_as_interrupts():
        try:
            for number, one in enumerate(chosen.snapshots):
                use = one.member
                layout = tuple(item for item in use.get("layout") or () if isinstance(item, dict))
                tags = {"headrace:restored-from": chosen.id}
                volume = service.create_volume(one, spec or _spec(one), f"{prefix}-{number}", tags)
                made.append(RestoredVolume(volume, one.id, str(use.get("place", "")), spec or _spec(one), layout))
        except BaseException as error:
            kept = []
            with undisturbed():
                for one in made:
                    try:
                        service.delete_volume(one.volume)
                    except HeadraceError as left:
                        kept.append(f"{one.volume}: {left.rule}")
            if kept and isinstance(error, HeadraceError):
                raise error.but(hint=f"{error.hint} Not deleted: {'; '.join(kept)}.".strip()) from error
            raise
    return made


def next_steps(made: list[RestoredVolume]) -> list[str]:
    """What to do on the machine with the volumes, as lines to paste once they are attached."""
    layouts = [item for one in made for item in one.layout]
    lines = []
    arrays = {item["md"]: item for item in layouts if "md" in item}
    for item in arrays.values():
        by = f"--uuid={item['uuid']} " if item.get("uuid") else "--scan "
        lines.append(f"mdadm --assemble {by}/dev/{item['md']}".replace("--scan /dev/" + item["md"], "--scan"))
    if any("dm" in item for item in layouts):
        lines.append("vgchange --activate y")
    for place in dict.fromkeys(one.place for one in made if one.place):
        lines.append(f"mount -o noatime,nouuid DEVICE {_quoted(place)}")
    return lines


def _quoted(text: str) -> str:
    return shlex.quote("".join(letter if letter.isprintable() else "?" for letter in text))
