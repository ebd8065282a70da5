"""The format of events in the binary log, for samples and for archives of one.

The head of an event is 19 bytes, little-endian: time (4), type (1), server (4), size (4), end (4),
flags (2) (MySQL internals, "Binary Log Event"; the same in MariaDB).
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass

MAGIC = b"\xfebin"
ENCRYPTED_MAGIC = b"\xfdbin"
HEADER = struct.Struct("<IBIIIH")  # time, type, server id, size, end position, flags
HEADER_BYTES = HEADER.size
# An event larger than this is none: max_allowed_packet and binlog_row_event_max_size end at 1 GiB.
MOST_EVENT_BYTES = (1 << 30) + (1 << 20)

# Types of events (binlog_event.h of MySQL, log_event.h of MariaDB).
QUERY, STOP, ROTATE, FORMAT, XID = 2, 3, 4, 15, 16
HEARTBEAT, HEARTBEAT_2 = 27, 41
MYSQL_GTID, MYSQL_ANONYMOUS, PREVIOUS_GTIDS, XA_PREPARE, MYSQL_TAGGED = 33, 34, 35, 38, 42
MARIADB_CHECKPOINT, MARIADB_GTID, MARIADB_LIST, MARIADB_ENCRYPTION = 161, 162, 163, 164
QUERY_COMPRESSED = 165
CONTROL = frozenset([STOP, ROTATE, FORMAT, HEARTBEAT, HEARTBEAT_2, PREVIOUS_GTIDS, MARIADB_CHECKPOINT, MARIADB_LIST])
STARTS = frozenset([MYSQL_GTID, MYSQL_ANONYMOUS, MYSQL_TAGGED, MARIADB_GTID])
# MySQL's event for a GTID with a tag, 8.3 and later, has numbered fields (control_events.h):
SERVER, NUMBER, TAG, LAST_COMMITTED, SEQUENCE, COMMITTED_US, LENGTH = 1, 2, 3, 4, 5, 6, 8
SIGNED = frozenset([NUMBER, LAST_COMMITTED, SEQUENCE])


@dataclass(frozen=True)
class TaggedGtid:
    """MySQL's GTID with a tag, and its transaction: its place in the logical clock
    (`last_committed`, `sequence`), when it was committed (µs since 1970), and its length in bytes
    with this event."""

    gtid: str
    last_committed: int
    sequence: int
    committed_us: int
    length: int


def parse_tagged(body: bytes) -> TaggedGtid:
    """Returns the GTID in the body of an event of type MYSQL_TAGGED (mysql::serialization)."""
    at = 0
    for _ in range(3):  # version of the format, size of the message, last field not to be ignored
        _, at = read_number(body, at)
    server, tag = "", ""
    values: dict[int, int] = {LAST_COMMITTED: 0, SEQUENCE: 0, COMMITTED_US: 0}
    while at < len(body) and LENGTH not in values:
        kind, at = read_number(body, at)
        if kind == SERVER:
            octets = bytearray()
            for _ in range(16):
                octet, at = read_number(body, at)
                octets.append(octet)
            server = str(uuid.UUID(bytes=bytes(octets)))
        elif kind == TAG:
            size, at = read_number(body, at)
            tag, at = body[at : at + size].decode("ascii"), at + size
        else:
            value, at = read_number(body, at)
            # Signed numbers are written as zigzag: 0, -1, 1, -2, ...
            values[kind] = (value >> 1) ^ -(value & 1) if kind in SIGNED else value
    return TaggedGtid(
        f"{server}:{tag}:{values[NUMBER]}",
        values[LAST_COMMITTED],
        values[SEQUENCE],
        values[COMMITTED_US],
        values[LENGTH],
    )


def read_number(body: bytes, at: int) -> tuple[int, int]:
    """Returns the number of 1 to 9 bytes at offset `at`, and the offset behind it. The low bits of
    its first byte are 1 for each byte that follows."""
    more = 0
    while more < 8 and body[at] >> more & 1:
        more += 1
    raw = int.from_bytes(body[at : at + more + 1], "little")
    return (raw >> (more + 1) if more < 8 else raw >> 8), at + more + 1
