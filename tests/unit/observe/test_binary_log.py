"""Samples of binary logs: written here event by event, as the servers' sources lay them out."""

from __future__ import annotations

import contextlib
import random
import struct
from pathlib import Path

import pytest

from headrace.errors import HeadraceError, InputError
from headrace.mysql.binary_events import (
    MAGIC,
    MARIADB_ENCRYPTION,
    MARIADB_GTID,
    MYSQL_GTID,
    MYSQL_TAGGED,
    QUERY,
    XID,
    parse_tagged,
)
from headrace.observe.formats.binary_log import BinaryLogSample, LoggedTransaction, read_binary_log

DESCRIPTION, ROW = 15, 30


def event(kind: int, body: bytes) -> bytes:
    """An event with its head of 19 bytes."""
    return struct.pack("<IBIIIH", 0, kind, 1, 19 + len(body), 0, 0) + body


def mysql(number: int, after: int) -> bytes:
    """GTID event of MySQL, and what it has behind the clock since 8.0.1."""
    gtid = struct.pack("<B16sqBqq", 0, b"u" * 16, number, 2, after, number) + b"\0" * 20
    return event(MYSQL_GTID, gtid) + event(QUERY, b"BEGIN") + event(ROW, b"r" * 81) + event(XID, b"x" * 12)


def mariadb(number: int, group: int | None) -> bytes:
    body = struct.pack("<QIB", number, 0, 0 if group is None else 2) + (
        b"" if group is None else struct.pack("<Q", group)
    )
    return event(MARIADB_GTID, body + b"\0" * 6) + event(ROW, b"r" * 81) + event(XID, b"x" * 12)


def file_of(folder: Path, *parts: bytes) -> Path:
    path = folder / "binlog.000001"
    path.write_bytes(MAGIC + event(DESCRIPTION, b"d" * 100) + b"".join(parts))
    return path


def test_events_and_bytes_of_a_mysql_transaction(tmp_path):
    sample = read_binary_log(file_of(tmp_path, *(mysql(number, number - 1) for number in range(1, 11))))
    assert (sample.flavor, len(sample.transactions), sample.events) == ("mysql", 10, 4.0)
    # Heads: 4 x 19; bodies: 42 + 20, 5, 81, 12.
    assert sample.bytes == 4 * 19 + 62 + 5 + 81 + 12
    assert sample.group is None


def test_the_group_commits_of_mariadb(tmp_path):
    groups = [7, 7, 7, None, 8, 8, 9, 9]  # one of 3, one alone, two of 2
    sample = read_binary_log(file_of(tmp_path, *(mariadb(at + 1, group) for at, group in enumerate(groups))))
    assert sample.flavor == "mariadb"
    assert sample.group == pytest.approx(8 / 4)
    # Rounds with workers enough: 3, 1, 2, 2 at once.
    assert sample.compute_parallelism(16) == pytest.approx(8 / 4)
    assert sample.compute_parallelism(1) == 1.0
    assert sample.compute_parallelism(2) == pytest.approx(8 / 5)


def test_what_writesets_allow():
    chain = tuple(LoggedTransaction(4, 100, number, number - 1) for number in range(1, 101))
    assert BinaryLogSample("mysql", chain).compute_parallelism(16) == 1.0
    free = tuple(LoggedTransaction(4, 100, number, 0) for number in range(1, 101))
    assert BinaryLogSample("mysql", free).compute_parallelism(4) == 4.0
    assert BinaryLogSample("mysql", free).compute_parallelism(1000) == 100.0


@pytest.mark.parametrize("seed", range(20))
def test_parallelism_is_that_of_a_naive_schedule(seed):
    chance = random.Random(seed)
    after = [chance.randint(max(0, number - 1 - chance.randint(0, 12)), number - 1) for number in range(1, 81)]
    workers = chance.choice([1, 2, 3, 4, 8, 16])
    sample = BinaryLogSample("mysql", tuple(LoggedTransaction(4, 1, at + 1, mark) for at, mark in enumerate(after)))
    assert sample.compute_parallelism(workers) == pytest.approx(80 / naive(after, workers))


def naive(after: list[int], workers: int) -> int:
    """Rounds, with all transactions looked at in each: given out in order, as many as workers are
    free, while those that the next one waits for have ended."""
    ended, given, round_ = 0, 0, 0
    while given < len(after):
        begun = 0
        # All that began in earlier rounds have ended, since each takes one.
        ended = given
        while given < len(after) and begun < workers and after[given] <= ended:
            given, begun = given + 1, begun + 1
        round_ += 1
    return round_


def test_a_cut_file_has_its_whole_transactions(tmp_path):
    whole = b"".join(mysql(number, 0) for number in range(1, 4))
    for cut in range(1, len(mysql(3, 0))):
        sample = read_binary_log(file_of(tmp_path, whole[:-cut]))
        assert len(sample.transactions) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a binary log"),
        (b"# at 4\n#221122 BEGIN", "is not a binary log"),
        (MAGIC, "no transaction"),
        (MAGIC + event(QUERY, b"BEGIN") + event(XID, b"x"), "no transaction"),
        (MAGIC + struct.pack("<IBIIIH", 0, QUERY, 1, 3, 0, 0), "an event of 3 bytes"),
        (MAGIC + event(MARIADB_ENCRYPTION, b"k"), "is encrypted"),
    ],
)
def test_what_is_no_binary_log(tmp_path, content, words):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_binary_log(path)


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(InputError, match="is not there"):
        read_binary_log(tmp_path / "none")
    with pytest.raises(HeadraceError):
        read_binary_log(tmp_path)


@pytest.mark.parametrize("seed", range(50))
def test_damage_is_an_error_or_a_sample(tmp_path, seed):
    chance = random.Random(seed)
    content = bytearray(MAGIC + b"".join(mysql(number, 0) for number in range(1, 20)))
    for _ in range(8):
        content[chance.randrange(4, len(content))] = chance.randrange(256)
    path = tmp_path / "file"
    path.write_bytes(content)
    with contextlib.suppress(HeadraceError):
        assert read_binary_log(path).transactions


def packed(value: int) -> bytes:
    """A number as mysql::serialization writes it: the low ones of the first byte say how many bytes
    follow."""
    more = next(count for count in range(9) if count == 8 or value < 1 << 7 * (count + 1))
    if more == 8:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << (more + 1) | (1 << more) - 1).to_bytes(more + 1, "little")


def zigzag(value: int) -> bytes:
    return packed(value << 1 if value >= 0 else (-value << 1) - 1)


def with_tag(number: int, after: int, rows: int, length: int = 0) -> bytes:
    """MySQL's event for a GTID with a tag: the fields, each behind its number."""
    server = b"".join(packed(octet) for octet in b"\xf5u" * 8)
    fields = [packed(0) + packed(1), packed(1) + server, packed(2) + zigzag(number), packed(3) + packed(4) + b"shop"]
    fields += [packed(4) + zigzag(after), packed(5) + zigzag(number), packed(6) + packed(1_795_384_788_250_000)]
    fields += [packed(8) + packed(length or 500), packed(9) + packed(90704)]
    body = packed(1) + packed(sum(map(len, fields)) + 3) + packed(12) + b"".join(fields)
    return event(MYSQL_TAGGED, body) + event(ROW, b"r" * rows) + event(XID, b"x" * 12)


def test_gtids_with_a_tag_begin_transactions_too(tmp_path):
    """Type 42, MySQL 8.3 and later: they were taken for a part of the transaction before. Numbers
    of every length, and files where both kinds take turns."""
    rng = random.Random(14)
    for _ in range(200):
        number, after, length = (rng.randrange(1 << rng.randrange(1, 62)) for _ in range(3))
        answer = parse_tagged(with_tag(number, after, 1, length)[19 : -(19 + 1 + 19 + 12)])
        assert (answer.gtid.rpartition(":")[2], answer.last_committed, answer.sequence) == (str(number), after, number)
        assert answer.committed_us == 1_795_384_788_250_000 and answer.length == (length or 500)
        assert answer.gtid.startswith("f575f575-f575-f575-f575-f575f575f575:shop:")
    for _ in range(50):
        kinds = [rng.random() < 0.5 for _ in range(rng.randrange(1, 20))]
        parts = [with_tag(at, at - 1, 81) if tag else mysql(at, at - 1) for at, tag in enumerate(kinds, start=1)]
        sample = read_binary_log(file_of(tmp_path, *parts))
        assert [(transaction.number, transaction.begins_after) for transaction in sample.transactions] == [
            (at, at - 1) for at in range(1, len(kinds) + 1)
        ]
        assert [transaction.events for transaction in sample.transactions] == [3 if tag else 4 for tag in kinds]
        assert sample.bytes == sum(map(len, parts)) / len(parts)
