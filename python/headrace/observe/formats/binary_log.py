"""A sample of a server's binary log: events, bytes and dependencies of its transactions.

Only the headers of events and the body of GTID events are read, never a row. MySQL's GTID event:
flags (1), UUID (16), number (8), kind of clock (1), last_committed (8), sequence_number (8)
(libbinlogevents, control_events.h); with a tag it has numbered fields. MariaDB's:
number (8), domain (4), flags (1), and the id of the group it was committed in (8) where flags have
2 (mariadb.com/kb, "Gtid_event").
"""

from __future__ import annotations

import heapq
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from headrace.errors import CouldNotRun, Refusals
from headrace.mysql.binary_events import (
    CONTROL,
    HEADER,
    MAGIC,
    MARIADB_ENCRYPTION,
    MARIADB_GTID,
    MOST_EVENT_BYTES,
    MYSQL_TAGGED,
    STARTS,
    XID,
    parse_tagged,
)

refuse = Refusals("docs/guide/calibrate-a-replica.md")
MYSQL_BODY = struct.Struct("<B16sqBqq")
MARIADB_BODY = struct.Struct("<QIB")
COMMIT_ID = struct.Struct("<Q")
# Bytes read of a GTID event's body: the largest, MySQL's with a tag, takes some 160 (16 of its UUID
# in up to 2 each, a tag of 32 letters, numbers of up to 9).
GTID_BYTES = 256
# A flag of MariaDB's GTID event, and the kind of clock of MySQL's: see above.
FL_GROUP_COMMIT_ID, LOGICAL_CLOCK = 2, 2
# Enough for a mean to 1 %; ours.
MOST_TRANSACTIONS = 200_000


@dataclass(frozen=True)
class LoggedTransaction:
    """A transaction of a binary log: the number of its events, and their bytes, GTID event
    included. `number`, `begins_after`: sequence_number and last_committed of MySQL's logical clock;
    `group`: MariaDB's id of the group commit, None if it was committed alone."""

    events: int
    bytes: int
    number: int | None = None
    begins_after: int | None = None
    group: int | None = None


@dataclass(frozen=True)
class BinaryLogSample:
    """The transactions of one file, in order."""

    flavor: Literal["mariadb", "mysql"]
    transactions: tuple[LoggedTransaction, ...]

    @property
    def events(self) -> float:
        """Returns the mean number of events of a transaction."""
        return sum(transaction.events for transaction in self.transactions) / len(self.transactions)

    @property
    def bytes(self) -> float:
        """Returns the mean bytes of a transaction."""
        return sum(transaction.bytes for transaction in self.transactions) / len(self.transactions)

    @property
    def group(self) -> float | None:
        """Returns the mean number of transactions in a group commit of the source; None for MySQL,
        whose log does not have it."""
        if self.flavor != "mariadb":
            return None
        alone = sum(transaction.group is None for transaction in self.transactions)
        groups = len({transaction.group for transaction in self.transactions if transaction.group is not None})
        return len(self.transactions) / (alone + groups)

    def compute_parallelism(self, workers: int) -> float:
        """Returns how many of `workers` can be busy on average by what the log allows, if all
        transactions take as long and commits take no time: 1 to `workers`.

        MySQL: a transaction begins when all up to its last_committed have ended; workers get them
        in order. MariaDB (conservative): a transaction begins when those of earlier groups have
        ended.
        """
        if self.flavor == "mysql":
            clock = [(transaction.number, transaction.begins_after) for transaction in self.transactions]
            return _compute_busy_workers(clock, workers)
        return _compute_busy_workers(list(enumerate(self._find_group_starts(), start=1)), workers)

    def _find_group_starts(self) -> list[int]:
        """Returns for each transaction the index of the first one of its group commit, its own if
        it was alone."""
        starts, last, start = [], None, 0
        for index, transaction in enumerate(self.transactions):
            if transaction.group is None or transaction.group != last:
                start, last = index, transaction.group
            starts.append(start)
        return starts


def _compute_busy_workers(clock: Sequence[tuple[int | None, int | None]], workers: int) -> float:
    """Returns the mean number of busy workers if each transaction takes one round and begins as
    early as its order allows. `clock`: of each transaction its number, and that of the last
    transaction which must have ended before it."""
    running: list[tuple[int, int]] = []  # (end, number)
    now, last_end = 0, 0
    ended_up_to = 0  # all transactions up to this number have ended
    ended: set[int] = set()
    for index, (number, after) in enumerate(clock, start=1):
        number, after = number or index, after if after is not None else index - 1
        while len(running) >= workers or (running and ended_up_to < after):
            now, other = heapq.heappop(running)
            ended.add(other)
            while ended_up_to + 1 in ended:
                ended_up_to += 1
                ended.discard(ended_up_to)
        heapq.heappush(running, (now + 1, number))
        last_end = max(last_end, now + 1)
    return len(clock) / last_end if last_end else 1.0


def read_binary_log(path: str | Path, most: int = MOST_TRANSACTIONS) -> BinaryLogSample:
    """Returns the first `most` whole transactions of a file. A transaction that is cut off at the
    end of the file is left out.

    Raises InputError for a file that is not a binary log, is encrypted or has no transactions with
    GTIDs, CouldNotRun for what cannot be read.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            if file.read(4) != MAGIC:
                rule = "is not a binary log: it does not begin with fe 62 69 6e"
                raise refuse.input(str(path), rule, "A server's binlog.000001, not the output of mysqlbinlog.")
            flavor, transactions = _read_transactions(file, path, most)
    except FileNotFoundError:
        raise refuse.input(str(path), "is not there", "See SHOW BINARY LOGS and @@log_bin_basename.") from None
    except OSError as error:
        raise CouldNotRun(str(path), f"cannot be read: {error.strerror}", "", "Is it yours to read?") from None
    if not transactions:
        rule = "has no transaction with a GTID event (MariaDB, or MySQL 5.7 and later)"
        raise refuse.input(str(path), rule, "Take a file that is full, from the source.")
    return BinaryLogSample(flavor, tuple(transactions))


def _read_transactions(
    file: BinaryIO, path: Path, most: int
) -> tuple[Literal["mariadb", "mysql"], list[LoggedTransaction]]:
    """Returns the flavor of the server and at most `most` transactions from the file's start, up to
    an event that is cut off. Raises InputError for a damaged or encrypted file."""
    transactions: list[LoggedTransaction] = []
    flavor: Literal["mariadb", "mysql"] = "mysql"
    transaction: dict | None = None
    whole = os.fstat(file.fileno()).st_size
    while len(transactions) < most:
        head = file.read(HEADER.size)
        if len(head) < HEADER.size:
            break
        _, kind, _, size, _, _ = HEADER.unpack(head)
        if not HEADER.size <= size <= MOST_EVENT_BYTES:
            rule = f"has an event of {size:,} bytes at {file.tell() - HEADER.size:,}, which none can have"
            raise refuse.input(str(path), rule, "Is the file damaged?")
        if kind == MARIADB_ENCRYPTION:
            raise refuse.input(str(path), "is encrypted", "Take a sample with encrypt_binlog off, or without it.")
        body_bytes = min(size - HEADER.size, GTID_BYTES) if kind in STARTS else 0
        body, rest = file.read(body_bytes), size - HEADER.size - body_bytes
        if len(body) < body_bytes or file.tell() + rest > whole:
            break
        file.seek(rest, 1)
        if kind in CONTROL:
            continue
        if kind in STARTS:
            if transaction is not None:
                transactions.append(LoggedTransaction(**transaction))
            if kind == MARIADB_GTID:
                flavor = "mariadb"
            transaction = {"events": 1, "bytes": size} | _read_logical_clock(kind, body)
        elif transaction is not None:
            transaction["events"] += 1
            transaction["bytes"] += size
            if kind == XID:
                transactions.append(LoggedTransaction(**transaction))
                transaction = None
    return flavor, transactions


def _read_logical_clock(kind: int, body: bytes) -> dict:
    """Returns `number` and `begins_after`, or `group`, that a GTID event has."""
    if kind == MARIADB_GTID:
        return _read_mariadb_group(body)
    if kind == MYSQL_TAGGED:
        gtid = parse_tagged(body)
        return {"begins_after": gtid.last_committed, "number": gtid.sequence}
    if len(body) < MYSQL_BODY.size:
        return {}
    _, _, _, clock, after, number = MYSQL_BODY.unpack_from(body)
    return {"begins_after": after, "number": number} if clock == LOGICAL_CLOCK else {}


def _read_mariadb_group(body: bytes) -> dict:
    """Returns the group commit in the body of a MariaDB GTID event; empty where the transaction was
    committed alone."""
    _, _, flags = MARIADB_BODY.unpack_from(body)
    if flags & FL_GROUP_COMMIT_ID:
        return {"group": COMMIT_ID.unpack_from(body, MARIADB_BODY.size)[0]}
    return {}
