"""Restores a set of snapshots: to a new server of the lab, or to volumes."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace import servers
from headrace.base.signals import ends_as_interrupts, ignore_interrupts
from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.lab.waiting import wait_for_snapshot
from headrace.mysql.state import parse_version
from headrace.operate.snapshots.services import VolumeService
from headrace.operate.snapshots.sets import SnapshotSet, StoredSnapshot, check_whole, refuse
from headrace.servers import Server
from headrace.servers.volumes import mount_options

# Server ids have 32 bits (both manuals, server_id); small ones are those that people choose.
SMALL_ID, MOST_ID = 1 << 16, (1 << 32) - 1
# MySQL renamed it in 8.0.26 and dropped the old name in 8.4 (MySQL 8.4 manual, "What Is New").
RENAMED = (8, 0, 26)

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class RestoredVolume:
    """A volume that was made from a snapshot. `place`: where its filesystem was mounted; `kind`:
    xfs, ext4 or the like, "" if the snapshot does not have it."""

    volume: str
    snapshot: str
    place: str
    spec: str
    layout: tuple[Mapping[str, str], ...]
    kind: str = ""


def restore_server(
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
    """Makes a new server of the lab from a set of snapshots of another server of a lab. Blocks are
    loaded when they are first used.

    It has an identity of its own (server_id, and MySQL's server_uuid), and does not replicate by
    itself: a copy of a replica would take the replica's place at its source.

    `storage`, `log_storage`: notation (None: as of the snapshots). `memory_gib`, `settings`: None:
    as the snapshots' server had. `progress` is called with the share that is done, 0 to 1, and
    with what is done.

    Raises InputError for a set that is not whole or was not taken of a server of a lab,
    CouldNotRun. When it fails nothing is left of the new server.
    """
    check_whole(chosen)
    roles = chosen.about.get("roles")
    if not isinstance(roles, dict) or "data" not in roles:
        rule = "is not of a server of the lab, so only its volumes can be made"
        raise refuse.input(chosen.id, rule, "Add --volumes.")
    for server in servers.list_servers(lab):
        if server.name == name:
            raise refuse.input(name, "is a server of this lab already", "Name another: --name. Or destroy it first.")
    snapshots = {role: _get_snapshot(chosen, volume) for role, volume in roles.items()}
    for snapshot in snapshots.values():
        progress(0.0, f"waiting for {snapshot.id} to be stored")
        wait_for_snapshot(lab, snapshot.id)
    log = snapshots.get("log")
    return servers.bring_up(
        lab,
        name=name,
        flavor=chosen.flavor,
        engine=chosen.about.get("engine"),
        storage=storage or _get_spec(snapshots["data"]),
        log_storage=(log_storage or _get_spec(log)) if log is not None else None,
        memory_gib=memory_gib or chosen.about.get("memory_gib"),
        port=port,
        seed_from=snapshots["data"].id,
        log_seed_from=None if log is None else log.id,
        settings=_make_settings(chosen) | dict(settings or {}),
        progress=progress,
    )


def _get_snapshot(chosen: SnapshotSet, volume: str) -> StoredSnapshot:
    """Returns the snapshot of a volume in a set. Raises InputError where the set has none."""
    for snapshot in chosen.snapshots:
        if snapshot.volume == volume:
            return snapshot
    raise refuse.input(chosen.id, f"has no snapshot of {volume}")


def _get_spec(snapshot: StoredSnapshot) -> str:
    return str(snapshot.member.get("spec") or f"gp3:{snapshot.size_gib}")


def _make_settings(chosen: SnapshotSet) -> dict[str, str | None]:
    """Returns the settings of the set's server, with another server_id and without replication at
    its start."""
    settings: dict[str, str | None] = {}
    given = chosen.about.get("settings")
    for name, value in (given if isinstance(given, dict) else {}).items():
        if isinstance(name, str) and (value is None or isinstance(value, str)):
            settings[name.replace("_", "-")] = value
    settings["server-id"] = str(random.SystemRandom().randrange(SMALL_ID, MOST_ID))
    _, numbers = parse_version(chosen.version)
    renamed = chosen.flavor == "mysql" and numbers >= RENAMED
    settings["skip-replica-start" if renamed else "skip-slave-start"] = "ON"
    return settings


def restore_volumes(
    service: VolumeService, chosen: SnapshotSet, prefix: str, spec: str | None = None
) -> list[RestoredVolume]:
    """Makes a volume from each snapshot of a set, all or none. `spec`: another storage for each,
    not smaller. Raises InputError for a set that is not whole, CouldNotRun."""
    check_whole(chosen)
    pending = [snapshot.id for snapshot in chosen.snapshots if snapshot.state != "completed"]
    if pending:
        rule = f"is not stored yet: {', '.join(pending)}"
        raise refuse.run(chosen.id, rule, "Wait: headrace snapshot sets shows it.")
    volumes: list[RestoredVolume] = []
    with ends_as_interrupts():
        try:
            for number, snapshot in enumerate(chosen.snapshots):
                use = snapshot.member
                layout = tuple(layer for layer in use.get("layout") or () if isinstance(layer, dict))
                tags = {"headrace:restored-from": chosen.id}
                volume = service.create_volume(snapshot, spec or _get_spec(snapshot), f"{prefix}-{number}", tags)
                place, kind = str(use.get("place", "")), str(use.get("kind", ""))
                volumes.append(RestoredVolume(volume, snapshot.id, place, spec or _get_spec(snapshot), layout, kind))
        except BaseException as error:
            remaining = []
            with ignore_interrupts():
                for restored in volumes:
                    try:
                        service.delete_volume(restored.volume)
                    except HeadraceError as failure:
                        remaining.append(f"{restored.volume}: {failure.rule}")
            if remaining and isinstance(error, HeadraceError):
                raise error.amend(hint=f"{error.hint} Not deleted: {'; '.join(remaining)}.".strip()) from error
            raise
    return volumes


def list_next_steps(volumes: list[RestoredVolume]) -> list[str]:
    """Returns what to do on the machine once the volumes are attached, as lines to paste."""
    layouts = [layer for volume in volumes for layer in volume.layout]
    lines = []
    arrays = {layer["md"]: layer for layer in layouts if "md" in layer}
    for layer in arrays.values():
        by = f"--uuid={layer['uuid']} " if layer.get("uuid") else "--scan "
        lines.append(f"mdadm --assemble {by}/dev/{layer['md']}".replace("--scan /dev/" + layer["md"], "--scan"))
    if any("dm" in layer for layer in layouts):
        lines.append("vgchange --activate y")
    for place, kind in {volume.place: volume.kind for volume in volumes if volume.place}.items():
        lines.append(f"mount -o {mount_options(kind)} DEVICE {_quote_text(place)}")
    return lines


def _quote_text(text: str) -> str:
    return shlex.quote("".join(letter if letter.isprintable() else "?" for letter in text))
