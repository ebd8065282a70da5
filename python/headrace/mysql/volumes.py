"""The volumes of a server: made, attached, mounted, and brought back after whatever happened to them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from headrace.errors import CouldNotRun
from headrace.lab import Lab, LabRefused
from headrace.mysql import filesystem
from headrace.mysql.places import Places
from headrace.mysql.record import Record

TAG = "headrace:server"
ROLE_TAG = "headrace:role"
# Below this a server cannot extend its files: InnoDB grows a tablespace by up to 4 MiB at a time, rotates binary logs, and writes temporary files.
FULL_BYTES = 16 << 20


def create(lab: Lab, name: str, role: str, spec: str) -> str:
    """A tagged volume NAME-ROLE; its id. Raises as Lab.create."""
    return lab.create(spec, name=f"{name}-{role}", tags={TAG: name, ROLE_TAG: role})["id"]


def left_by(lab: Lab, name: str) -> list[str]:
    """Ids of all volumes tagged as this server's."""
    return [volume["id"] for volume in lab.volumes() if (volume.get("tags") or {}).get(TAG) == name]


def mounts_of(where: Places, record: Record) -> list[tuple[str, Path]]:
    """Volume ids and where they are mounted, data first."""
    return list(zip(record.volumes, (where.data_mount, where.log_mount), strict=False))


def devices(lab: Lab, record: Record) -> tuple[str, ...]:
    """Block devices of its volumes as they are now, data first; what is not attached is left out."""
    found = []
    for volume in record.volumes:
        attachment = lab.describe(volume).get("attachment") or {}
        if attachment.get("state") == "attached" and attachment.get("device"):
            found.append(attachment["device"])
    return tuple(found)


def attach_fresh(lab: Lab, volume: str, unpaced: bool = False) -> str:
    """The device of a volume that was attached just now: whatever it was before, it is detached first. Raises as Lab."""
    if lab.describe(volume).get("attachment"):
        lab.detach(volume, force=True)
    return lab.attach(volume, unpaced=unpaced, probe=not unpaced)["attachment"]["device"]


def needs_attaching(lab: Lab, volume: str) -> str | None:
    """Why its device cannot be used as it is; None when it can."""
    attachment = lab.describe(volume).get("attachment")
    if not attachment:
        return "is not attached"
    if attachment["state"] != "attached":
        return f"is {attachment['state']}"
    if attachment.get("unpaced"):
        return "is attached without its limits"
    # A cut that is to come stays: whoever asked for it is to see it.
    if any(fault["kind"] == "power-cut" and fault["id"] == "power" for fault in lab.faults(volume)):
        return "had its power cut"
    return None


def bring_back(lab: Lab, where: Places, record: Record) -> None:
    """Has every volume attached with its limits and freshly mounted. Nothing may be running on them. Raises as Lab, CouldNotRun."""
    for volume, place in mounts_of(where, record):
        # A filesystem that met errors, or whose device went away, answers nothing any more until it is mounted anew.
        release(place)
        if needs_attaching(lab, volume) is not None:
            attach_fresh(lab, volume)
        filesystem.mount(lab.describe(volume)["attachment"]["device"], place)
    grow(where, record)


def grow(where: Places, record: Record) -> None:
    """Filesystems as large as their volumes: `headrace volume modify` may have made those larger. Raises CouldNotRun."""
    for _, place in mounts_of(where, record):
        filesystem.grow(place)


def release(place: Path) -> None:
    """Takes down what is mounted there, also what is broken. Raises CouldNotRun."""
    filesystem.unmount(place, lazily=True)


def remove(lab: Lab, volume: str) -> None:
    """Detaches and deletes a volume with its data; one that is gone is fine. Raises as Lab."""
    try:
        attached = lab.describe(volume).get("attachment")
        if attached:
            lab.detach(volume, force=True)
        lab.delete(volume)
    except LabRefused as refused:
        if refused.kind != "not-found":
            raise


def problems(lab: Lab, where: Places, record: Record, running: bool) -> list[str]:
    """What is wrong with its volumes, in words: not attached, power gone, mounted from a device that is gone."""
    found = []
    for volume, place in mounts_of(where, record):
        label, described = volume, None
        try:
            described = lab.describe(volume)
            label = described.get("name") or volume
            if described["state"] == "error":
                found.append(f"volume {label}: {described.get('error') or 'is in error'}")
                continue
            why = needs_attaching(lab, volume)
        except LabRefused as refused:
            found.append(f"volume {label}: {refused.rule}")
            continue
        if why is not None:
            found.append(f"volume {label} {why}")
        elif running:
            device = described["attachment"]["device"]
            mounted = filesystem.mounted_device(place)
            if mounted is None:
                found.append(f"volume {label} is not mounted")
            elif mounted != device:
                found.append(f"volume {label} is {device} now, and mounted as {mounted}")
            elif filesystem.free_bytes(place) < FULL_BYTES:
                grow = f"headrace volume modify {label} --size-gib N --wait, then headrace mysql up, makes it larger"
                found.append(f"volume {label} is full: {filesystem.free_bytes(place) >> 20} MiB left; {grow}")
    return found


def quietly_unmount(where: Places) -> None:
    """As far as it goes."""
    for place in (where.data_mount, where.log_mount):
        with contextlib.suppress(CouldNotRun):
            release(place)
