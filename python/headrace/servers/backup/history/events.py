"""The binary log as bytes: reads its events and transactions, and finds gaps.

It reads only what positions, GTIDs, times and checksums need: the header of every event, the
format description, GTID events, lists of earlier GTIDs, and rotations (MySQL source,
libbinlogevents; MariaDB source, log_event.h; both give the layout in bytes).

    magic  format description  earlier GTIDs  [GTID event  events ...  commit]*  rotation or stop
"""

from __future__ import annotations

import contextlib
import re
import struct
import uuid
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import InputError
from headrace.mysql import binary_events as codes
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup.targets.target import DAMAGED, refuse

PIECE_BYTES = 1 << 16  # of a file, read at a time
CRC_BYTES = 4  # behind each event, where binlog_checksum is CRC32
FILE = re.compile(r"(?P<base>[A-Za-z0-9_][A-Za-z0-9_.-]{0,150})\.(?P<number>[0-9]{6,10})", re.ASCII)

STANDALONE = 1  # flags2 of MariaDB's GTID event: no commit follows
IN_USE, ARTIFICIAL = 0x1, 0x20
ENDINGS = (b"COMMIT", b"ROLLBACK")


@dataclass(frozen=True)
class Event:
    """An event of a binary log, of the type `kind`. `offset`, `end`: its place in the file, bytes;
    `time_s`: Unix time, s; `body`: its bytes without header and checksum."""

    kind: int
    time_s: int
    server_id: int
    offset: int
    end: int
    flags: int
    body: bytes


@dataclass(frozen=True)
class Transaction:
    """A complete transaction of a file. `gtid`: "" for an anonymous one. `time_us`: when it was
    committed, µs, Unix; MariaDB knows whole seconds. `starts`, `ends`: offsets in bytes."""

    gtid: str
    time_us: int
    starts: int
    ends: int


def make_damage_error(where: str, offset: int, what: str) -> InputError:
    """Returns the error for bytes that are not a binary log, at `offset` (bytes) of the file
    `where`."""
    hint = "Fetch the file again from the source, as long as it has it: headrace backup stream."
    return refuse.input(f"{where}, offset {offset:,}", what, hint, kind=DAMAGED)


class Reader:
    """Turns the bytes of a binary log into events, as they arrive, and tests every checksum.
    `offset`: the end of the last complete event, in bytes."""

    def __init__(self, where: str) -> None:
        """Begins at the first byte of a file, whose name in errors is `where`. `checksums` (whether
        events have one) is None and `server` (its version) is "" before the format description."""
        self.where, self.offset = where, 0
        self.checksums: bool | None = None
        self.server = ""
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Event]:
        """Takes the next bytes of the file, and yields the events that they complete. Raises
        InputError for bytes that are not a binary log."""
        self._rest += data
        at = 0
        if self.offset == 0:
            if len(self._rest) < len(codes.MAGIC):
                return
            if self._rest[:4] != codes.MAGIC:
                encrypted = self._rest[:4] == codes.ENCRYPTED_MAGIC
                rule = "is encrypted by its server: read it from there" if encrypted else "is not a binary log"
                raise make_damage_error(self.where, 0, rule)
            at = self.offset = len(codes.MAGIC)
        try:
            while len(self._rest) - at >= codes.HEADER_BYTES:
                size = int.from_bytes(self._rest[at + 9 : at + 13], "little")
                if not codes.HEADER_BYTES <= size <= codes.MOST_EVENT_BYTES:
                    raise make_damage_error(self.where, self.offset, f"an event of {size:,} bytes cannot be")
                if len(self._rest) - at < size:
                    break
                event = self._parse_event(bytes(self._rest[at : at + size]))
                at += size
                self.offset += size
                yield event
        finally:
            del self._rest[:at]

    @property
    def unfinished(self) -> int:
        """The bytes received of an event whose end is still missing."""
        return len(self._rest)

    def _parse_event(self, raw: bytes) -> Event:
        """Returns the event of these bytes, header and checksum included. Raises InputError for a
        wrong checksum or offset, an encrypted log, and an event before the format description."""
        time_s, kind, server, size, end, flags = codes.HEADER.unpack_from(raw)
        if kind == codes.FORMAT:
            about = raw[codes.HEADER_BYTES :]
            if len(about) < 57 + CRC_BYTES + 1 or about[:2] != b"\x04\x00":
                raise make_damage_error(self.where, self.offset, "is a binary log of a server before MySQL 5.0")
            self.server = about[2:52].rstrip(b"\0").decode("latin-1")
            self.checksums = raw[-CRC_BYTES - 1] == 1  # 1: CRC32 (binlog_checksum)
        elif self.checksums is None:
            raise make_damage_error(self.where, self.offset, "does not begin with a format description")
        checked = self.checksums or kind == codes.FORMAT
        if checked:
            # The mark of a file in use is changed later, so it does not count (MySQL source).
            counted = raw[:-CRC_BYTES]
            if kind == codes.FORMAT and flags & IN_USE:
                counted = raw[:17] + (flags & ~IN_USE).to_bytes(2, "little") + raw[19:-CRC_BYTES]
            if zlib.crc32(counted) != int.from_bytes(raw[-CRC_BYTES:], "little"):
                raise make_damage_error(self.where, self.offset, "an event's checksum is wrong: bytes were altered")
        # Files pass 4 GiB with one large transaction; the field has 32 bits.
        if end and end != (self.offset + size) & 0xFFFFFFFF:
            raise make_damage_error(
                self.where, self.offset, f"an event says it ends at {end:,}: bytes are missing before it"
            )
        if kind == codes.MARIADB_ENCRYPTION:
            raise make_damage_error(self.where, self.offset, "is encrypted by its server: read it from there")
        body = raw[codes.HEADER_BYTES : -CRC_BYTES if checked else None]
        return Event(kind, time_s, server, self.offset, self.offset + size, flags, body)


# --- transactions ---------------------------------------------------------------------------------


class TransactionParser:
    """Puts the events of a binary log together into transactions."""

    def __init__(self, where: str) -> None:
        """Begins at the first event of a file, whose name in errors is `where`."""
        self.where = where
        self.earlier: str | None = None  # GTIDs before this file, None before the event that lists them
        self.next_file: str | None = None  # its name, once the file has ended with a rotation
        self.stopped = False  # the file has ended with the shutdown of its server
        self.whole_to = len(codes.MAGIC)  # offset in bytes up to which all transactions are complete
        self._open: _OpenTransaction | None = None

    @property
    def inside(self) -> bool:
        """True when a transaction has begun and not ended."""
        return self._open is not None

    def see(self, event: Event) -> Transaction | None:
        """Takes the next event, and returns the transaction that it ends, None for none. Raises
        InputError for an event that cannot follow the events before it."""
        if event.kind in codes.STARTS:
            if self._open is not None:
                raise make_damage_error(self.where, event.offset, "a transaction begins inside of another")
            self._open = _parse_gtid_event(event)
            return None
        if self._open is None:
            self.whole_to = event.end
            if event.kind in (codes.PREVIOUS_GTIDS, codes.MARIADB_LIST):
                self.earlier = read_earlier_gtids(event)
            elif event.kind == codes.ROTATE:
                self.next_file = event.body[8:].decode("latin-1")
            elif event.kind == codes.STOP:
                self.stopped = True
            return None
        if event.kind in codes.CONTROL:
            raise make_damage_error(self.where, event.offset, "the file goes on inside of a transaction")
        begun = self._open
        if not (_ends_transaction(event, begun.alone) if begun.ends is None else event.end >= begun.ends):
            return None
        if begun.ends is not None and event.end != begun.ends:
            raise make_damage_error(self.where, event.offset, "a transaction is longer than its GTID event says")
        self._open, self.whole_to = None, event.end
        return Transaction(begun.gtid, begun.time_us, begun.offset, event.end)


@dataclass(frozen=True)
class _OpenTransaction:
    """A transaction whose end has not been seen. `ends`: its end in bytes, which MySQL announces;
    MariaDB announces only whether it is a single statement (`alone`)."""

    gtid: str
    time_us: int
    offset: int
    ends: int | None
    alone: bool = False


def _ends_transaction(event: Event, alone: bool) -> bool:
    """True when an event ends a transaction of MariaDB."""
    if event.kind in (codes.XID, codes.XA_PREPARE):
        return True
    if event.kind not in (codes.QUERY, codes.QUERY_COMPRESSED):
        return False
    return alone or (event.kind == codes.QUERY and _read_statement(event.body).upper() in ENDINGS)


def _read_statement(body: bytes) -> bytes:
    """Returns the statement of a QUERY event (binlog_event.h: 13 bytes, variables, database, 0)."""
    database, status = body[8], int.from_bytes(body[11:13], "little")
    return body[13 + status + database + 1 :].strip()


def _parse_gtid_event(event: Event) -> _OpenTransaction:
    """Returns the transaction that a GTID event begins."""
    body, time_us = event.body, event.time_s * 1_000_000
    if event.kind == codes.MARIADB_GTID:
        number, domain, flags = struct.unpack_from("<QIB", body)
        gtid, alone = f"{domain}-{event.server_id}-{number}", bool(flags & STANDALONE)
        return _OpenTransaction(gtid, time_us, event.offset, None, alone)
    if event.kind == codes.MYSQL_TAGGED:
        tagged = codes.parse_tagged(body)
        return _OpenTransaction(tagged.gtid, tagged.committed_us, event.offset, event.offset + tagged.length)
    # Flags, UUID, number, kind and two logical times; then 7 bytes of µs, a second time of them
    # where the first has its highest bit set, and the length of the transaction.
    committed = int.from_bytes(body[42:49], "little")
    at = 56 if committed >> 55 else 49
    length, _ = _read_packed(body, at)
    gtid = f"{uuid.UUID(bytes=body[1:17])}:{int.from_bytes(body[17:25], 'little')}"
    gtid = "" if event.kind == codes.MYSQL_ANONYMOUS else gtid
    return _OpenTransaction(gtid, committed & ~(1 << 55) or time_us, event.offset, event.offset + length)


def _read_packed(body: bytes, at: int) -> tuple[int, int]:
    """Returns the length-encoded integer (1, 3, 4 or 9 bytes) at `at`, and the byte behind."""
    more = {252: 2, 253: 3, 254: 8}.get(body[at], 0)
    return (int.from_bytes(body[at + 1 : at + 1 + more], "little") if more else body[at]), at + 1 + more


def read_earlier_gtids(event: Event) -> str:
    """Returns the GTIDs that were executed before a file, by the event that lists them."""
    body = event.body
    if event.kind == codes.MARIADB_LIST:
        count = int.from_bytes(body[:4], "little") & 0x0FFFFFFF
        last: dict[int, tuple[int, int]] = {}
        for index in range(count):
            domain, server, number = struct.unpack_from("<IIQ", body, 4 + 16 * index)
            # A domain has a line for each server that ever wrote to it; the last line counts.
            last[domain] = max(last.get(domain, (0, 0)), (number, server))
        return ",".join(f"{domain}-{server}-{number}" for domain, (number, server) in sorted(last.items()))
    head = int.from_bytes(body[:8], "little")
    has_tags = head >> 56 == 1
    servers, at, parts = (head & 0x00FFFFFFFFFFFFFF) >> 8 if has_tags else head, 8, []
    for _ in range(servers):
        name = str(uuid.UUID(bytes=body[at : at + 16]))
        at += 16
        if has_tags:
            size, at = codes.read_number(body, at)
            name += f":{body[at : at + size].decode('ascii')}" if size else ""
            at += size
        count = int.from_bytes(body[at : at + 8], "little")
        at += 8
        for _ in range(count):
            first, after = struct.unpack_from("<QQ", body, at)
            at += 16
            parts.append(f"{name}:{first}-{after - 1}")
    return ",".join(parts)


def select_lacking(files: Sequence[Path], has: GtidSet) -> list[Path]:
    """Returns those of `files`, binary logs, oldest first, that may hold transactions which `has`
    lacks: all from the newest on before which it lacks none; all if none lists earlier GTIDs."""
    for place in range(len(files) - 1, 0, -1):
        earlier = _read_earlier(files[place])
        if earlier is not None and has.contains(GtidSet.parse(earlier, has.flavor)):
            return list(files[place:])
    return list(files)


def _read_earlier(path: Path) -> str | None:
    """Returns the GTIDs that a file lists as executed before it; None if that is unreadable."""
    reader = Reader(path.name)
    with contextlib.suppress(OSError, InputError, struct.error), path.open("rb") as file:
        while data := file.read(PIECE_BYTES):
            for event in reader.feed(data):
                if event.kind in (codes.PREVIOUS_GTIDS, codes.MARIADB_LIST):
                    return read_earlier_gtids(event)
                if event.kind in codes.STARTS:
                    return None
    return None


def make_next_name(name: str) -> str:
    """Returns the name of the binary log behind this one: binlog.000002 for binlog.000001."""
    match = FILE.fullmatch(name)
    if match is None:
        raise refuse.input(repr(name)[:80], "is not the name of a binary log", "They end in .000001 and so on.")
    return f"{match['base']}.{int(match['number']) + 1:0{len(match['number'])}d}"


# --- relay logs -----------------------------------------------------------------------------------


def build_relay_head(format_event: bytes, file: str, server_id: int, checksums: bool) -> bytes:
    """Builds the beginning of a relay log whose events come from `file`: magic, the source's format
    description, and a rotation that names the file. Without it MariaDB's parallel applier
    crashes (compare_log_name, seen with 10.11.19)."""
    name = file.encode("latin-1")
    body = (4).to_bytes(8, "little") + name
    size = codes.HEADER_BYTES + len(body) + (CRC_BYTES if checksums else 0)
    event = codes.HEADER.pack(0, codes.ROTATE, server_id, size, 0, ARTIFICIAL) + body
    if checksums:
        event += zlib.crc32(event).to_bytes(4, "little")
    return codes.MAGIC + format_event + event
