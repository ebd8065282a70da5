"""The volumes of a server: made, attached, mounted as xfs, and brought back after whatever happened to them."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from headrace.base.processes import Command, required, run_checked
from headrace.errors import CouldNotRun
from headrace.lab import Lab, LabRefused
from headrace.lab.doctor import Machine, mounts
from headrace.servers.record import Record, ServerPaths

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


def mounts_of(where: ServerPaths, record: Record) -> list[tuple[str, Path]]:
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


def bring_back(lab: Lab, where: ServerPaths, record: Record) -> None:
    """Has every volume attached with its limits and freshly mounted. Nothing may be running on them. Raises as Lab, CouldNotRun."""
    for volume, place in mounts_of(where, record):
        # A filesystem that met errors, or whose device went away, answers nothing any more until it is mounted anew.
        release(place)
        if needs_attaching(lab, volume, record.unpaced) is not None:
            attach_fresh(lab, volume, record.unpaced)
        mount(lab.describe(volume)["attachment"]["device"], place)
    grow(where, record)


def grow(where: ServerPaths, record: Record) -> None:
    """Filesystems as large as their volumes: `headrace volume modify` may have made those larger. Raises CouldNotRun."""
    for _, place in mounts_of(where, record):
        grow_filesystem(place)


def release(place: Path) -> None:
    """Takes down what is mounted there, also what is broken. Raises CouldNotRun."""
    unmount(place, lazily=True)


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


def broken(lab: Lab, where: ServerPaths, record: Record, running: bool) -> list[str]:
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
    mounted = mounted_device(place)
    if mounted is None:
        return "is not mounted"
    if mounted != device:
        return f"is {device} now, and mounted as {mounted}"
    try:
        free_bytes(place)
    except OSError as error:
        return f"gives errors: {error.strerror}"
    return None


def full(lab: Lab, where: ServerPaths, record: Record) -> list[str]:
    """Which volumes of a running server have no room left, in words. Raises NoLab, CouldNotRun."""
    found = []
    for volume, place in mounts_of(where, record):
        with contextlib.suppress(OSError, LabRefused):
            left = free_bytes(place)
            if left < FULL_BYTES:
                label = lab.describe(volume).get("name") or volume
                more = f"headrace volume modify {label} --size-gib N --wait, then headrace mysql up {record.name}, makes it larger"
                found.append(f"volume {label} is full: {left >> 20} MiB left; {more}")
    return found


def quietly_unmount(where: ServerPaths) -> None:
    """As far as it goes."""
    for place in (where.data_mount, where.log_mount):
        with contextlib.suppress(CouldNotRun):
            release(place)


# ENOSPC as MariaDB, InnoDB and the kernel say it.
NO_ROOM = re.compile(r"[Ee]rror (?:number )?28\b|Errcode: 28\b|errno: 28\b|No space left")


def no_room_hint(text: str) -> str:
    """What to do about a volume that is full; "" where that is not what the text says."""
    advice = "take a larger one, smaller logs, or (headrace volume modify) make this one larger."
    return f"Its volume is full: {advice}" if NO_ROOM.search(text) else ""


# --- xfs -------------------------------------------------------------------------------------------

KIND = "xfs"
# A volume of 100 IOPS that writes its log back takes a while; a paused one much longer.
TIMEOUT_S = 300.0
BUSY_S = 20.0
LOOK_EVERY_S = 0.02


def make_filesystem(device: str) -> None:
    """An empty filesystem. `-K`: a fresh volume is empty, so nothing need be discarded."""
    _run([required("mkfs.xfs", "xfsprogs"), "-q", "-f", "-K", device], f"mkfs.xfs on {device}")


def mount(device: str, place: Path) -> None:
    """Mounts it, without access times: they would be writes of their own. A log left by a crash is played back first. Raises CouldNotRun."""
    place.mkdir(parents=True, exist_ok=True)
    _run([required("mount", "mount"), "-t", KIND, "-o", "noatime", device, str(place)], f"mounting {device} on {place}")


def grow_filesystem(place: Path) -> None:
    """As large as its volume is by now; one that is so already stays. Raises CouldNotRun."""
    _run([required("xfs_growfs", "xfsprogs"), "-d", str(place)], f"growing the filesystem on {place}")


def unmount(place: Path, lazily: bool = False) -> None:
    """Takes down what is mounted there, all of it, nothing being fine. `lazily`: also what stays busy. Raises CouldNotRun.

    A process that has ended may hold files a moment longer: the kernel closes those of io_uring behind it.
    """
    until = time.monotonic() + BUSY_S
    while (device := mounted_device(place)) is not None:
        try:
            _run([required("umount", "mount"), str(place)], f"unmounting {place}", f"See who uses it: fuser -vm {place}")
        except CouldNotRun as error:
            if "busy" in error.rule and time.monotonic() < until:
                time.sleep(LOOK_EVERY_S)
                continue
            if not lazily:
                raise
            _run([required("umount", "mount"), "-l", str(place)], f"unmounting {place}")
        _wait_gone(device)


def _wait_gone(device: str) -> None:
    """Until the kernel has let the filesystem go: while it lives, another device with it (that of the same volume, attached anew) is refused as a duplicate."""
    alive = Path("/sys/fs/xfs") / Path(device).name
    until = time.monotonic() + BUSY_S
    while alive.exists() and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)


def mounted_device(place: Path) -> str | None:
    """The device that is mounted there, the uppermost, by the kernel's list: looking at the place itself could wait for a broken device."""
    found = [entry.source for entry in mounts(Machine()) if entry.place == str(place)]
    return found[-1] if found else None


def free_bytes(place: Path) -> int:
    """Room for files there."""
    room = os.statvfs(place)
    return room.f_bavail * room.f_frsize


def _run(words: list[str], what: str, hint: str = "Look at the volume: headrace volume show, headrace volume faults.") -> None:
    run_checked(Command(tuple(words), what=what), TIMEOUT_S, hint)
