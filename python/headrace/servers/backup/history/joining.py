"""Joins many small pieces of a binary log into few large ones, also while the file is still
written.

A thread of its own joins them, so that the stream goes on storing new pieces. The large piece is
stored before the small ones are removed, and readers take the longest that begins at a place: so
no byte is missing at any moment, and a stream that is killed here leaves pieces twice at most.

Pieces of about one size are joined, as in a binary counter: a byte is written again some
log2(WHOLE_BYTES / first join) times at most, and the number of pieces grows with the logarithm of
the file's size, and by one for each WHOLE_BYTES.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from headrace.base.units import MIB
from headrace.errors import HeadraceError, InputError
from headrace.servers.backup.history import archive
from headrace.servers.backup.history.archive import Entry, Piece, encode_set, make_piece_name, parse_extent
from headrace.servers.backup.targets.target import BackupTarget

# So many live pieces are joined at a time: 16 s of a stream that stores four a second. A guess: few
# enough for a list to stay short, and many enough for little to be written twice.
JOIN_AFTER = 64
WHOLE_BYTES = 64 * MIB  # a guess: what is held in memory, and few objects
# Bytes of a joined piece whose times and checksum the index has together. A guess: it finds the
# place of a damage well enough, and takes a 5,000th of the bytes.
STRETCH_BYTES = MIB

T = TypeVar("T", Piece, Entry)


class FilePieces:
    """The pieces of one binary log in the archive, in order, under a lock: the stream's thread adds
    pieces, and the joiner's replaces them."""

    def __init__(self, pieces: Sequence[Piece] = ()) -> None:
        self._lock, self._pieces = threading.Lock(), list(pieces)
        self._live_at_failure = 0

    def add(self, piece: Piece) -> None:
        """Adds the next piece."""
        with self._lock:
            self._pieces.append(piece)

    def put(self, joined: Piece) -> None:
        """Replaces the pieces that a joined piece contains by it."""
        with self._lock:
            begin, end = joined.offset, joined.ends
            others = [each for each in self._pieces if not each.length or each.offset < begin or end < each.ends]
            self._pieces = sorted([*others, joined], key=lambda piece: (piece.offset, piece.ends))
            self._live_at_failure = 0

    def postpone(self) -> None:
        """Notes that the live pieces could not be joined: they are due after JOIN_AFTER more."""
        self._live_at_failure = self.live

    @property
    def all(self) -> list[Piece]:
        """The pieces now, in order."""
        with self._lock:
            return list(self._pieces)

    @property
    def entries(self) -> list[Entry]:
        """The entries of all pieces, in order."""
        return [entry for piece in self.all for entry in piece.entries]

    @property
    def live(self) -> int:
        """The number of pieces that were not joined yet."""
        return sum(piece.kind == "live" for piece in self.all)

    @property
    def due(self) -> bool:
        """True if JOIN_AFTER live pieces have come since the last join, or the last failed one."""
        return self.live - self._live_at_failure >= JOIN_AFTER


class Joiner:
    """Joins pieces of a target, one file after another, in a thread of its own. Pieces that could
    not be joined stay as they are until the next try: a target that was full or away for an hour
    must not leave small pieces for months. `note`: called with the first error since a join."""

    def __init__(
        self, target: BackupTarget, key: bytes | None, pack: str, note: Callable[[str], None] = lambda text: None
    ) -> None:
        """Takes the target, the key of encrypted pieces (None for plain ones), and the program that
        packs joined pieces (zstd or none)."""
        self.target, self.key, self.pack, self._note = target, key, pack, note
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="binlog-joiner")
        self._last: Future[None] | None = None
        self._failed = False

    @property
    def busy(self) -> bool:
        """True while the last work given to `begin` is not done."""
        return self._last is not None and not self._last.done()

    def begin(self, path: Path, pieces: FilePieces, ended: bool) -> None:
        """Lets the joiner's thread join pieces of the binary log at `path`, and does not wait. The
        file may be removed at once; without it nothing is joined. `ended`: it is complete."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        self._last = self._worker.submit(self._work, handle, pieces, ended)

    def close(self) -> None:
        """Waits until the joiner's thread has done all its work, and ends it."""
        self._worker.shutdown(wait=True)

    def _work(self, handle: int, pieces: FilePieces, ended: bool) -> None:
        """Joins the pieces of a file in the worker's thread, and closes `handle`, the file with
        their bytes. `ended`: the file is complete, so pieces of killed streams are removed as
        well."""
        try:
            for group in group_pieces(pieces.all, ended):
                self._join(handle, pieces, group)
                self._failed = False
            if ended:
                self._clean(pieces.all)
        except (HeadraceError, OSError) as error:
            if not self._failed:
                self._note(f"small pieces of the binary log are not joined yet, and are tried again: {error}")
            self._failed = True
            pieces.postpone()
        finally:
            os.close(handle)

    def _join(self, handle: int, pieces: FilePieces, group: list[Piece]) -> None:
        """Stores the pieces of a group as one piece and removes them. `handle`: the file with their
        bytes. Raises InputError if the file has other bytes than were stored."""
        first, last = group[0], group[-1]
        data = os.pread(handle, last.ends - first.offset, first.offset)
        joined = join(group, data, self.pack)
        try:
            archive.write_piece(self.target, joined, data, self.key)
        except InputError:  # it exists: a stream was killed here
            archive.read_piece(self.target, make_piece_name(joined), self.key)
        pieces.put(joined)
        for piece in group:
            self.target.remove(make_piece_name(piece))

    def _clean(self, pieces: list[Piece]) -> None:
        """Removes pieces of killed streams that a joined piece contains."""
        if not pieces:
            return
        names = {make_piece_name(piece) for piece in pieces}
        folder = f"binlogs/{pieces[0].timeline}/{pieces[0].file}/"
        strays = [file.name for file in self.target.list(folder) if file.name not in names]
        for name in strays:
            begin, end = parse_extent(name) or (0, 0)
            holder = next((piece for piece in pieces if piece.offset <= begin < piece.ends and end <= piece.ends), None)
            if holder is not None:
                at = make_piece_name(holder)
                for _ in archive.read_piece_bytes(
                    self.target, at, archive.read_piece(self.target, at, self.key), self.key
                ):
                    pass  # its checksums match, so the others are not needed
                self.target.remove(name)


def group_pieces(pieces: Sequence[Piece], ended: bool) -> list[list[Piece]]:
    """Groups neighbours that become a joined piece each, of up to WHOLE_BYTES. While the file is
    written (`ended` False): only the live pieces at its end, and before them pieces that are not
    larger than those that follow together."""
    run = [piece for piece in pieces if piece.length]
    if not ended:
        start = len(run)
        while start and run[start - 1].kind == "live":
            start -= 1
        size = sum(piece.length for piece in run[start:])
        while start and run[start - 1].length <= size and size + run[start - 1].length <= WHOLE_BYTES:
            start -= 1
            size += run[start].length
        run = run[start:]
    return [group for group in _group_by_size(run, WHOLE_BYTES) if len(group) > 1]


def _group_by_size(members: Sequence[T], most_bytes: int) -> list[list[T]]:
    """Groups neighbours, in order, so that a group of several has at most `most_bytes` together."""
    groups: list[list[T]] = []
    for member in members:
        if not groups or sum(each.length for each in groups[-1]) + member.length > most_bytes:
            groups.append([])
        groups[-1].append(member)
    return groups


def join(group: list[Piece], data: bytes, pack: str) -> Piece:
    """Returns the joined piece of neighbours with the bytes `data`, without its checksum `stored`,
    which `write_piece` adds. Raises InputError if the bytes are not those that were stored."""
    first, last = group[0], group[-1]
    for piece in group:
        for entry in piece.entries:
            start = entry.offset - first.offset
            if hashlib.sha256(data[start : start + entry.length]).hexdigest() != entry.sha256:
                raise InputError(make_piece_name(piece), "is not the file of this server any more", "", "")
    gtids = first.set
    for later in group[1:]:
        gtids = gtids.union(later.set)
    entries = _merge_entries([entry for piece in group for entry in piece.entries], data, first.offset)
    return replace(
        first,
        kind="joined",
        length=last.ends - first.offset,
        gtids=encode_set(gtids),
        ended=last.ended,
        packed=pack,
        stored="",
        entries=tuple(entries),
    )


def _merge_entries(entries: list[Entry], data: bytes, offset: int) -> list[Entry]:
    """Returns the entries of an index with neighbours merged, up to STRETCH_BYTES each. `data`: the
    bytes of the binary log from byte `offset` on."""
    groups = _group_by_size(entries, STRETCH_BYTES)
    return [_merge_group(group, data, offset) if len(group) > 1 else group[0] for group in groups]


def _merge_group(group: list[Entry], data: bytes, offset: int) -> Entry:
    """Returns one entry for several neighbours. `data`: the binary log from byte `offset` on."""
    begin, length = group[0].offset, sum(entry.length for entry in group)
    filled = [entry for entry in group if entry.transactions]
    return Entry(
        begin,
        length,
        hashlib.sha256(data[begin - offset : begin - offset + length]).hexdigest(),
        sum(entry.transactions for entry in group),
        filled[0].first_gtid if filled else "",
        filled[-1].last_gtid if filled else "",
        filled[0].first_us if filled else 0,
        filled[-1].last_us if filled else 0,
    )
