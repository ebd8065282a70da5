"""Ids of copies, and the folders of this machine that bear them while a copy is at work."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[a-z0-9][a-z0-9_-]{0,31}-[0-9a-f]{4}", re.ASCII)


def make_id(name: str, now: float | None = None) -> str:
    """Returns a new id that sorts by time: 20261122T215000Z-shop-3fa2. `now`: Unix time, s; None
    for the present."""
    stamp = datetime.fromtimestamp(time.time() if now is None else now, UTC).strftime("%Y%m%dT%H%M%SZ")
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:32] or "mysql"
    return f"{stamp}-{plain}-{os.urandom(2).hex()}"


@contextlib.contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Holds the lock file of a run's folder (FOLDER.lock) during the block, and removes both after
    it. First removes the folders of killed runs next to it, whose locks ended with their process:
    each may have a complete copy of the data."""
    for lock in folder.parent.glob("headrace-*.lock"):
        if ID.fullmatch(lock.name.removeprefix("headrace-").removesuffix(".lock")) and is_free(lock):
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)
    lock = folder.with_name(f"{folder.name}.lock")
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.unlink(missing_ok=True)
        os.close(handle)


def is_free(lock: Path) -> bool:
    """True if no process holds the lock of a file: its run has ended."""
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
