"""Reads every block of a volume that is still in its snapshot, with several threads: what AWS's
guide does with dd or fio, without the blocks that were never written.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterator

from headrace.base.checks import check_whole
from headrace.base.threads import work_through
from headrace.errors import InputError
from headrace.lab.client import Lab

# Bytes of a block, of which snapshots are made.
BLOCK_BYTES = 512 * 1024
# Blocks that are asked for at once.
BATCH = 10_000
# More threads than any volume serves at once. A guess.
MAX_THREADS = 256


def initialize(lab: Lab, volume: str, threads: int, tick: Callable[[float], None] = lambda share: None) -> int:
    """Reads all blocks of a volume that are not loaded from its snapshot, through its device, with
    this number of threads; returns the number of blocks. `tick` is called with the share done, 0 to
    1. Raises InputError if the volume is not attached, and OSError."""
    check_whole("--threads", threads, 1, MAX_THREADS)
    attachment = lab.describe(volume)["attachment"]
    path = attachment["device"] if attachment else None
    if path is None:
        raise InputError(volume, "is not attached", "", f"Run `headrace volume attach {volume}` first.")
    total = lab.cold_blocks(volume, limit=1)["remaining"]
    if not total:
        return 0
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    done, lock = 0, threading.Lock()
    end = os.lseek(file, 0, os.SEEK_END)

    def read(block: int, _: threading.Event) -> None:
        nonlocal done
        at = block * BLOCK_BYTES
        if at >= end:
            return
        with mmap.mmap(-1, min(BLOCK_BYTES, end - at)) as into:
            os.preadv(file, [into], at)
        with lock:
            done += 1
            tick(min(1.0, done / total))

    try:
        for batch in _list_cold_blocks(lab, volume):
            work_through(batch, read, threads)
    finally:
        os.close(file)
    return done


def _list_cold_blocks(lab: Lab, volume: str) -> Iterator[list[int]]:
    """Yields the numbers of blocks that still lie in a snapshot, up to BATCH at a time."""
    start: int | None = 0
    while start is not None:
        page = lab.cold_blocks(volume, start=start, limit=BATCH)
        yield page["blocks"]
        start = page["next"]
