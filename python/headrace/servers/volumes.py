"""The volumes of a server: made, attached, mounted, and brought back after whatever happened to them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from headrace.errors import CouldNotRun
from headrace.lab import Lab, LabRefused
from headrace.servers import filesystem
from headrace.servers.places import Places
from headrace.servers.record import Record

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


def needs_attaching(lab: Lab, volume: str, unpaced: bool) -> str | None:
    """Why its device cannot be used as it is; None when it can."""
    described = lab.describe(volume)
    attachment = described.get("attachment")
    if described["state"] == "error":
        return f"is in error: {described.get('error')}"
    if not attachment:
        return "is not attached"
    if attachment["state"] != "attached":
        return f"is {attachment['state']}"
    if bool(attachment.get("unpaced")) != unpaced:
        return "is attached with its limits" if unpaced else "is attached without its limits"
    # A cut that is to come stays: whoever asked for it is to see it.
    if any(fault["kind"] == "power-cut" and fault["id"] == "power" for fault in lab.faults(volume)):
        return "had its power cut"
    return None


def bring_back(lab: Lab, where: Places, record: Record) -> None:
    """Has every volume attached with its limits and freshly mounted. Nothing may be running on them. Raises as Lab, CouldNotRun."""
    for volume, place in mounts_of(where, record):
        # A filesystem that met errors, or whose device went away, answers nothing any more until it is mounted anew.
        release(place)
        if needs_attaching(lab, volume, record.unpaced) is not None:
            attach_fresh(lab, volume, record.unpaced)
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


def broken(lab: Lab, where: Places, record: Record, running: bool) -> list[str]:
    """Why a server cannot go on with its volumes as they are, in words: not attached, power gone, mounted from a device that is gone. Raises NoLab, CouldNotRun."""
    found = []
    for volume, place in mounts_of(where, record):
        label = volume
        try:
            described = lab.describe(volume)
            label = described.get("name") or volume
            why = needs_attaching(lab, volume, record.unpaced)
            if why is None and running:
                why = _not_mounted(described["attachment"]["device"], place)
        except LabRefused as refused:
            why = refused.rule
        if why is not None:
            found.append(f"volume {label} {why}")
    return found


def _not_mounted(device: str, place: Path) -> str | None:
    mounted = filesystem.mounted_device(place)
    if mounted is None:
        return "is not mounted"
    if mounted != device:
        return f"is {device} now, and mounted as {mounted}"
    try:
        filesystem.free_bytes(place)
    except OSError as error:
        return f"gives errors: {error.strerror}"
    return None


def full(lab: Lab, where: Places, record: Record) -> list[str]:
    """Which volumes of a running server have no room left, in words. Raises NoLab, CouldNotRun."""
    found = []
    for volume, place in mounts_of(where, record):
        with contextlib.suppress(OSError, LabRefused):
            left = filesystem.free_bytes(place)
            if left < FULL_BYTES:
                label = lab.describe(volume).get("name") or volume
                more = f"headrace volume modify {label} --size-gib N --wait, then headrace mysql up {record.name}, makes it larger"
                found.append(f"volume {label} is full: {left >> 20} MiB left; {more}")
    return found


def quietly_unmount(where: Places) -> None:
    """As far as it goes."""
    for place in (where.data_mount, where.log_mount):
        with contextlib.suppress(CouldNotRun):
            release(place)
