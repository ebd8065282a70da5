"""Checks of drivers that work on files: the folder or device may be used, files are complete, and
there is free space."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from headrace.base.mounts import read_mount_table
from headrace.base.units import GIB
from headrace.bench.target import DOC, Target, refuse
from headrace.errors import CouldNotRun, InputError

# A file with holes is read without the disk.
WHOLE_SHARE = 0.99
SPARE_BYTES = 64 << 20  # a guess: the file system's own needs


def check_folder(name: str, target: Target) -> None:
    """Raises InputError for a target without a folder or device, CouldNotRun if this user may not
    read and write it."""
    if target.folder is None:
        raise refuse.input(target.label, f"{name} works on files", "Name a folder on the volume: --folder /mnt/volume.")
    if not os.access(target.folder, os.R_OK | os.W_OK):
        raise CouldNotRun(str(target.folder), "may not be read and written by this user", "", "Run it as its owner.")


def check_overwrite(target: Target, allowed: bool) -> None:
    """Raises InputError for a block device that is mounted, or that the user has not `allowed` to
    be overwritten. Folders pass."""
    if not target.files.is_block_device():
        return
    real = os.path.realpath(target.files)
    places = [mount.place for mount in read_mount_table() if os.path.realpath(mount.source) == real]
    if places:
        rule = f"is mounted at {places[0]}: writing to it would destroy the file system"
        raise InputError(str(target.files), rule, "", "Name a folder on it instead.")
    if _is_claimed(target.files):
        rule = "is in use: a partition of it is mounted, or it is part of an array, a volume group or swap"
        raise InputError(str(target.files), rule, "open(2), O_EXCL", f"See lsblk {target.files}.")
    if not allowed:
        rule = "is a block device, and this load overwrites it"
        raise refuse.input(str(target.files), rule, "Say --overwrite when nothing on it is needed.")


def _is_claimed(device: Path) -> bool:
    """Returns whether the kernel refuses exclusive use of a block device (open(2), O_EXCL), also
    while a partition of it is used."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EBUSY
    return False


def is_file_whole(path: Path, size: int) -> bool:
    """Returns whether the file has this size (bytes) and no holes; False for no file. Raises
    InputError for another size."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    if status.st_size != size or status.st_blocks * 512 < WHOLE_SHARE * size:
        rule = f"is there with {status.st_size / GIB:.3g} GiB, {status.st_blocks * 512 / GIB:.3g} written, and {size / GIB:.3g} are needed"
        raise InputError(str(path), rule, f"{DOC}, Preparing", "Write it anew: --fresh.")
    return True


def require_room(folder: Path, size: int, existing: Path | None = None) -> None:
    """Raises CouldNotRun when the folder has no room for `size` bytes; what the `existing` file
    takes is counted as free."""
    free = shutil.disk_usage(folder).free + (
        existing.stat().st_blocks * 512 if existing is not None and existing.exists() else 0
    )
    if free < size + SPARE_BYTES:
        rule = f"has {free / GIB:.3g} GiB free, and {size / GIB:.3g} are needed"
        raise CouldNotRun(str(folder), rule, "", "Use a larger volume, or less data.")
