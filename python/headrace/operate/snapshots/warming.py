"""First touch in order of need.

A volume from a snapshot loads a block when it is first used, which takes some 30 ms. A server that
was just restored waits for that in the order in which its clients ask. Reading ahead in the order
of need ends most of the waiting early: logs, undo and system tables first, then the pages that were
in the server's cache, then the rest of the tables.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.base.threads import work_through
from headrace.servers import Server

# Bytes that EBS loads at a time (EBS direct API: blocks of a snapshot have 512 KiB).
BLOCK_BYTES = 512 << 10
# Concurrent reads that a gp3 volume takes before they queue up: a guess.
THREADS = 16
# InnoDB's bytes of a page unless the server says otherwise, and the offset of the tablespace's
# number in a page (MySQL "InnoDB Row Format", FIL_PAGE_ARCH_LOG_NO_OR_SPACE_ID at byte 34 of each
# page).
PAGE_BYTES, SPACE_AT = 16 << 10, 34
# The list of cached pages of a server with a large cache: 8 million pages of some 15 characters.
MAX_DUMP_BYTES = 128 << 20
FIRST = ("#innodb_redo/", "ib_logfile", "ibdata", "undo", "mysql.ibd", "mysql/", "aria_log", "performance_schema/")
SKIPPED = ("tmp/",)


@dataclass(frozen=True)
class FilePart:
    """A part of a file: offset and bytes."""

    path: Path
    offset: int
    length: int


def order_parts(folders: Iterable[Path], dump: str, page_bytes: int = PAGE_BYTES) -> Iterator[FilePart]:
    """Yields parts of all files below these folders, each once, in order of need. `dump`: the
    server's list of cached pages (`ib_buffer_pool`), lines of SPACE,PAGE."""
    sizes = {path: size for folder in folders for path, size in sorted(_list_files(folder))}
    done: set[tuple[Path, int]] = set()

    def make_blocks(path: Path, first: int, last: int) -> Iterator[FilePart]:
        for block in range(first, last + 1):
            offset = block * BLOCK_BYTES
            if offset < sizes[path] and (path, block) not in done:
                done.add((path, block))
                yield FilePart(path, offset, min(BLOCK_BYTES, sizes[path] - offset))

    whole = [path for path in sizes if _is_first(path, folders)]
    for path in whole:
        yield from make_blocks(path, 0, sizes[path] // BLOCK_BYTES)
    spaces = {space: path for path in sizes if path.suffix == ".ibd" and (space := _read_space(path)) is not None}
    for line in dump.splitlines():
        space, comma, page = line.partition(",")
        if comma and space.isdigit() and page.isdigit() and (path := spaces.get(int(space))) is not None:
            at = int(page) * page_bytes // BLOCK_BYTES
            yield from make_blocks(path, at, at)
    for path, size in sizes.items():
        yield from make_blocks(path, 0, size // BLOCK_BYTES)


def _list_files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yields the files below a folder with their sizes, bytes, without links and those of
    SKIPPED."""
    for top, _, names in os.walk(folder):
        for name in names:
            path = Path(top, name)
            relative = str(path.relative_to(folder))
            if path.is_file() and not path.is_symlink() and not relative.startswith(SKIPPED):
                yield path, path.stat().st_size


def _is_first(path: Path, folders: Iterable[Path]) -> bool:
    """Returns whether a file is loaded before all tables: a log, undo or system table."""
    for folder in folders:
        if path.is_relative_to(folder):
            parts = path.relative_to(folder).parts
            # `data` and `log` are the lab's own folders on its volumes.
            inside = "/".join(parts[1:] if parts[0] in ("data", "log") else parts)
            return inside.startswith(FIRST)
    return False


def _read_space(path: Path) -> int | None:
    """Returns the number of a tablespace, which its first page has; None for a file that is too
    short or cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(SPACE_AT + 4)
    except OSError:
        return None
    return int.from_bytes(head[SPACE_AT:], "big") if len(head) == SPACE_AT + 4 else None


def warm(parts: Iterable[FilePart], total: int, progress: Callable[[float], None] = lambda share: None) -> int:
    """Reads the parts, some at once, in their order, and returns the number of bytes. `total`:
    bytes of all parts; `progress` gets the share that is read, 0 to 1. A file that is gone
    meanwhile is left out. An interrupt ends it within a read."""
    lock, done = threading.Lock(), 0

    def read(part: FilePart, _: threading.Event) -> None:
        nonlocal done
        try:
            handle = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            # All of it: where the file lies in pieces, it is on more blocks of the volume than one.
            # And not from memory.
            os.posix_fadvise(handle, part.offset, part.length, os.POSIX_FADV_DONTNEED)
            os.pread(handle, part.length, part.offset)
            os.posix_fadvise(handle, part.offset, part.length, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
        with lock:
            done += part.length
            progress(min(1.0, done / max(1, total)))

    work_through(parts, read, THREADS)
    return done


def warm_server(server: Server, progress: Callable[[float, str], None] = lambda share, what: None) -> int:
    """Loads the files of a server of the lab, in order of need, and returns the number of bytes.
    `progress` gets the share that is loaded, 0 to 1, and what is done."""
    folders = [server.paths.data_mount] + ([server.paths.log_mount] if server.volumes.log else [])
    total = sum(size for folder in folders for _, size in _list_files(folder))
    dump = server.paths.datadir / "ib_buffer_pool"
    text = ""
    if dump.is_file() and dump.stat().st_size <= MAX_DUMP_BYTES:
        text = dump.read_text(errors="replace")
    return warm(order_parts(folders, text), total, lambda share: progress(share, "loading"))
