"""The volumes of a server: made, attached, mounted as xfs, and repaired after a fault."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from headrace.base.machine import require_program
from headrace.base.mounts import read_mount_table
from headrace.base.processes import Command, run_checked
from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab import Lab, LabRefused
from headrace.lab.calls import LabVolume
from headrace.lab.client import list_all_snapshots
from headrace.servers.record import Record, ServerPaths, find_data_dir

TAG = "headrace:server"
ROLE_TAG = "headrace:role"
# Tag of a snapshot that is to seed a new server; its value is that server.
SEED_TAG = "headrace:seed-of"
# With less a server cannot extend its files (a guess): InnoDB grows a tablespace by 4 MiB at a time
# (MySQL manual, "File Space Management"), rotates binary logs, writes temporary files.
FULL_BYTES = 16 << 20


def create(lab: Lab, record: Record, role: str, spec: str, snapshot: str | None = None) -> str:
    """Creates a tagged volume NAME-ROLE, empty or from a snapshot, and returns its id."""
    tags = {TAG: record.name, ROLE_TAG: role}
    encrypted = record.volumes.encrypted or None  # None: the lab's default for new volumes
    volume = lab.create(spec, name=f"{record.name}-{role}", tags=tags, snapshot=snapshot, encrypted=encrypted)
    return volume["id"]


def list_tagged(lab: Lab, name: str) -> list[str]:
    """Lists the ids of all volumes with this server's tag."""
    return [volume["id"] for volume in lab.volumes() if (volume.get("tags") or {}).get(TAG) == name]


def drop_seeds(lab: Lab, name: str) -> None:
    """Deletes the snapshots that were taken to create a server, which a killed command has left."""
    for snapshot in list_all_snapshots(lab):
        if (snapshot.get("tags") or {}).get(SEED_TAG) == name:
            lab.delete_snapshot(snapshot["id"])


def list_own_mounts(where: ServerPaths, record: Record) -> list[tuple[str, Path]]:
    """Lists the ids of a server's volumes, data first, each with its mount point."""
    return list(zip(record.volumes.ids, (where.data_mount, where.log_mount), strict=False))


def list_devices(lab: Lab, record: Record) -> tuple[str, ...]:
    """Returns the present block devices of a server's attached volumes, data first."""
    paths = []
    for volume in record.volumes.ids:
        attachment = lab.describe(volume).get("attachment") or {}
        if attachment.get("state") == "attached" and attachment.get("device"):
            paths.append(attachment["device"])
    return tuple(paths)


def attach_fresh(lab: Lab, volume: str, unpaced: bool = False) -> str:
    """Attaches a volume, after detaching it if it is attached, and returns its block device."""
    if lab.describe(volume).get("attachment"):
        lab.detach(volume, force=True)
    return get_device(lab.attach(volume, unpaced=unpaced, probe=not unpaced))


def get_device(described: LabVolume) -> str:
    """Returns the block device of an attached volume. Raises CouldNotRun if it has none."""
    device = (described.get("attachment") or {}).get("device")
    if not device:
        raise CouldNotRun(described["id"], "has no device", "", "Look at it: headrace volume list.")
    return device


def explain_unusable(lab: Lab, volume: str, unpaced: bool) -> str | None:
    """Returns, in words, why a volume must be attached anew before it is used; None if it need not.
    `unpaced`: it is to have no limits."""
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
    # A power cut that is still to come stays: the user who asked for it is to see it.
    if any(fault["kind"] == "power-cut" and fault["id"] == "power" for fault in lab.faults(volume)):
        return "had its power cut"
    return None


def bring_back(lab: Lab, where: ServerPaths, record: Record) -> None:
    """Mounts every volume of a server that does not run, and attaches it first where its device
    cannot be used; grows the filesystems."""
    for volume, place in list_own_mounts(where, record):
        # A filesystem that met errors, or lost its device, gives errors until it is mounted anew.
        unmount(place, lazily=True)
        if explain_unusable(lab, volume, record.volumes.unpaced) is not None:
            attach_fresh(lab, volume, record.volumes.unpaced)
        mount(get_device(lab.describe(volume)), place)
    grow(where, record)


def grow(where: ServerPaths, record: Record) -> None:
    """Grows the filesystems to their volumes' sizes, which `headrace volume modify` changes."""
    for _, place in list_own_mounts(where, record):
        _run([require_program("xfs_growfs", "xfsprogs"), "-d", str(place)], f"growing the filesystem on {place}")


def remove(lab: Lab, volume: str) -> None:
    """Detaches and deletes a volume with its data, if it is still there."""
    try:
        attached = lab.describe(volume).get("attachment")
        if attached:
            lab.detach(volume, force=True)
        lab.delete(volume)
    except LabRefused as refused:
        if refused.kind != "not-found":
            raise


def list_obstacles(lab: Lab, where: ServerPaths, record: Record, running: bool) -> list[str]:
    """Lists, in words, why a server cannot use its volumes as they are. `running`: it runs."""
    reasons = []
    for volume, place in list_own_mounts(where, record):
        label = volume
        try:
            described = lab.describe(volume)
            label = described.get("name") or volume
            why = explain_unusable(lab, volume, record.volumes.unpaced)
            if why is None and running:
                why = _explain_not_mounted(get_device(described), place)
        except LabRefused as refused:
            why = refused.rule
        if why is not None:
            reasons.append(f"volume {label} {why}")
    return reasons


def _explain_not_mounted(device: str, place: Path) -> str | None:
    """Returns in words why a volume cannot be used at its mount point, None if it can."""
    mounted = find_mounted_device(place)
    if mounted is None:
        return "is not mounted"
    if mounted != device:
        return f"is {device} now, and mounted as {mounted}"
    try:
        count_free_bytes(place)
    except OSError as error:
        return f"gives errors: {error.strerror}"
    return None


def list_full(lab: Lab, where: ServerPaths, record: Record, unmounted: bool = False) -> list[str]:
    """Lists, in words, the full volumes of a server. `unmounted`: volumes that are not mounted are
    read too, which takes some I/Os."""
    reasons = []
    for volume, place in list_own_mounts(where, record):
        with contextlib.suppress(OSError, HeadraceError):
            if find_mounted_device(place) is not None:
                free = count_free_bytes(place)
            elif unmounted and not any(fault["kind"] == "pause" for fault in lab.faults(volume)):
                free = read_free_bytes(get_device(lab.describe(volume)))
            else:
                continue
            if free < FULL_BYTES:
                label = lab.describe(volume).get("name") or volume
                hint = suggest_more_room(label, record.name)
                reasons.append(f"volume {label} is full: {free >> 20} MiB left; {hint}")
    return reasons


def explain_full_disk(lab: Lab) -> str:
    """Returns a hint if the disk under a lab's volumes is full, which answer with I/O errors then;
    "" if it has room, or that cannot be read."""
    with contextlib.suppress(OSError, HeadraceError):
        folder = find_data_dir(lab)
        if (free := count_free_bytes(folder)) < FULL_BYTES:
            return (
                f"The disk of the lab's folder {folder} is full ({free >> 20} MiB free), so its volumes answer with I/O "
                "errors: free space there, then give the same command again."
            )
    return ""


def suggest_more_room(label: str, server: str) -> str:
    """Returns a hint, in words, for a full volume of an existing server."""
    return (
        f"delete what is not needed (headrace mysql down {server} --mount shows where), or make it larger: "
        f"headrace volume modify {label} --size-gib N --wait, then headrace mysql up {server}"
    )


def unmount_quietly(where: ServerPaths) -> None:
    """Unmounts the volumes of a server and ignores those that cannot be unmounted."""
    for place in (where.data_mount, where.log_mount):
        with contextlib.suppress(CouldNotRun):
            unmount(place, lazily=True)


# ENOSPC in the messages of MariaDB, InnoDB and the kernel.
NO_ROOM = re.compile(r"[Ee]rror (?:number )?28\b|Errcode: 28\b|errno: 28\b|No space left")


def explain_full_volume(text: str, server: str = "") -> str:
    """Returns a hint if an error text says that a volume is full, else "". `server`: the name of an
    existing server, whose data are to be kept."""
    if not NO_ROOM.search(text):
        return ""
    if not server:
        return "The server's volume is full: take a larger one, smaller logs, or (headrace volume modify) make this one larger."
    return (
        f"The server's volume is full: delete what is not needed (headrace mysql down {server} --mount shows where), or make it larger "
        f"(headrace volume modify {server}-data, or -log, --size-gib N --wait); then give the same command again."
    )


# --- xfs ------------------------------------------------------------------------------------------

KIND = "xfs"
# Guesses: a volume of 100 IOPS takes a while to write its log back, a paused one much longer.
TIMEOUT_S = 300.0
BUSY_S = 20.0
LOOK_EVERY_S = 0.02


def make_filesystem(device: str) -> None:
    """Makes an empty filesystem. `-K`: a new volume is empty, so nothing needs to be discarded."""
    _run([require_program("mkfs.xfs", "xfsprogs"), "-q", "-f", "-K", device], f"mkfs.xfs on {device}")


def mount_options(kind: str, *more: str) -> str:
    """Returns the options to mount a volume that may be from a snapshot, with `more` of them.
    noatime: access times would be writes. nouuid: such a volume has the UUID of its origin, which
    may be mounted; xfs alone refuses that, and alone knows the option (xfs(5))."""
    return ",".join([*more, "noatime", *(["nouuid"] if kind == KIND else [])])


def mount(device: str, place: Path) -> None:
    """Mounts a device by `mount_options`. xfs first replays the log."""
    place.mkdir(parents=True, exist_ok=True)
    options = ["-t", KIND, "-o", mount_options(KIND)]
    _run([require_program("mount", "mount"), *options, device, str(place)], f"mounting {device} on {place}")


def mount_to_read(device: str, place: Path) -> None:
    """Mounts a volume that Headrace did not format, with xfs or ext4. A filesystem's log is
    replayed (a crash left its last writes there), and no file is changed. Raises CouldNotRun."""
    arguments = (require_program("blkid", "util-linux"), "-o", "value", "-s", "TYPE", device)
    kind = run_checked(Command(arguments, what=f"looking at {device}"), TIMEOUT_S).strip()
    if kind not in (KIND, "ext4"):
        hint = "Assemble an array or a volume group, mount it, and read its binary log by hand."
        raise CouldNotRun(device, f"holds {kind or 'no filesystem'}, and only xfs and ext4 are read", "", hint)
    options = mount_options(kind, "ro", "nodev", "nosuid", "noexec")
    _run([require_program("mount", "mount"), "-o", options, device, str(place)], f"mounting {device} on {place}")


def unmount(place: Path, lazily: bool = False) -> None:
    """Unmounts every filesystem at a place. `lazily`: also one that stays busy, or is broken. A
    process that has ended may hold files a moment longer: the kernel closes those of io_uring after
    its end."""
    until = time.monotonic() + BUSY_S
    while (device := find_mounted_device(place)) is not None:
        try:
            hint = f"See who uses it: fuser -vm {place}"
            _run([require_program("umount", "mount"), str(place)], f"unmounting {place}", hint)
        except CouldNotRun as error:
            if "busy" in error.rule and time.monotonic() < until:
                time.sleep(LOOK_EVERY_S)
                continue
            if not lazily:
                raise
            _run([require_program("umount", "mount"), "-l", str(place)], f"unmounting {place}")
        # Until the kernel has released the filesystem, the same one on another device (its volume,
        # attached again) is refused as a duplicate.
        alive = Path("/sys/fs/xfs") / Path(device).name
        wait_until(lambda alive=alive: not alive.exists(), BUSY_S, LOOK_EVERY_S)


def find_mounted_device(place: Path) -> str | None:
    """Returns the device that is mounted at a place, the uppermost if there are several. It is read
    from the kernel's list: asking the folder itself could wait for a broken device."""
    devices = [entry.source for entry in read_mount_table() if entry.place == str(place)]
    return devices[-1] if devices else None


def count_free_bytes(place: Path) -> int:
    """Returns the free bytes for files of the filesystem at a place. Raises OSError."""
    room = os.statvfs(place)
    return room.f_bavail * room.f_frsize


# Room that xfs holds back on a mounted filesystem for its own changes, and statfs leaves out: a
# twentieth of the blocks, 8,192 at most (xfs_mount.c, xfs_default_resblks); and blocks for the
# largest trees of reference counts and of free inodes that its groups may come to need, in blocks
# that are half full: a record of 12 bytes a block, and one of 16 a chunk of inodes, which has 8
# blocks (Linux, xfs_refcount_btree.c and xfs_ialloc_btree.c, calc_reserves). The figures are for
# blocks of 4,096 bytes, which mkfs.xfs makes. Measured 2026-11-24 on full volumes of 1 and 40 GiB:
# within 0.5 % of that.
HELD_BACK_SHARE, HELD_BACK_BLOCKS = 20, 8_192
TREES_SHARE = 1 / 168 + 1 / (8 * 126)
SUPERBLOCK_S = 20.0  # to read it: some I/Os of a volume whose credits may be used up, a guess


def read_free_bytes(device: str) -> int:
    """Returns the room for files, bytes, on a filesystem that is not mounted, by its superblock as
    of its last unmount. Raises CouldNotRun."""
    query = ("-r", "-c", "sb 0", "-c", "p blocksize dblocks fdblocks", device)
    command = (require_program("xfs_db", "xfsprogs"), *query)
    answer = run_checked(Command(command, what=f"reading the superblock of {device}"), SUPERBLOCK_S)
    sizes = {name.strip(): int(value) for name, _, value in (line.partition("=") for line in answer.splitlines())}
    reserved_blocks = min(sizes["dblocks"] // HELD_BACK_SHARE, HELD_BACK_BLOCKS) + int(sizes["dblocks"] * TREES_SHARE)
    return max(0, sizes["fdblocks"] - reserved_blocks) * sizes["blocksize"]


def _run(arguments: list[str], what: str, hint: str = "") -> None:
    """Runs a command to its end. `what`: its name in errors. Raises CouldNotRun with a hint."""
    hint = hint or "Look at the volume: headrace volume list, headrace volume fault."
    run_checked(Command(tuple(arguments), what=what), TIMEOUT_S, hint)
