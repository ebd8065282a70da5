"""GTID sets against sets of integers."""

from __future__ import annotations

import random

import pytest

from headrace.errors import InputError
from headrace.mysql.gtid import GtidSet

SERVERS = [f"{digit * 8}-1111-2222-3333-{digit * 12}" for digit in "ab"]
KEYS = [SERVERS[0], f"{SERVERS[0]}:blue", SERVERS[1], f"{SERVERS[1]}:_x9"]


def random_mysql(chance: random.Random) -> tuple[str, set[tuple[str, int]]]:
    """A set as text, with intervals that overlap and stand in any order, and its members."""
    parts, members = [], set()
    for _ in range(chance.randrange(6)):
        key, intervals = chance.choice(KEYS), []
        for _ in range(chance.randrange(1, 4)):
            first = chance.randrange(1, 30)
            last = first + chance.choice((0, 0, 1, 5, 12))
            members |= {(key, number) for number in range(first, last + 1)}
            intervals.append(str(first) if first == last else f"{first}-{last}")
        parts.append(
            chance.choice(("", " ", "\n")) + f"{key.upper() if chance.random() < 0.2 else key}:{':'.join(intervals)}"
        )
    return ",".join(parts), members


def members_of(gtids: GtidSet) -> set[tuple[str, int]]:
    return {
        (key, number) for key, ranges in gtids.ranges for first, last in ranges for number in range(first, last + 1)
    }


def test_mysql_as_sets_of_integers():
    chance = random.Random(1)
    for _ in range(2_000):
        (text_a, a), (text_b, b) = random_mysql(chance), random_mysql(chance)
        first, second = GtidSet.parse(text_a, "mysql"), GtidSet.parse(text_b, "mysql")
        assert members_of(first) == a and first.count() == len(a) and first.is_empty == (not a)
        assert members_of(first.union(second)) == a | b
        assert members_of(first.minus(second)) == a - b
        assert first.contains(second) == (b <= a)
        # One text for one set: neighbors are joined.
        assert GtidSet.parse(str(first), "mysql") == first
        assert (first == second) == (a == b)
        assert len(list(first.list_transactions())) == len(a)


def random_position(chance: random.Random) -> tuple[str, dict[str, tuple[int, int]]]:
    positions = {
        str(domain): (chance.choice((1, 2)), chance.randrange(1, 8)) for domain in range(12) if chance.random() < 0.3
    }
    return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in positions.items()), positions


def test_mariadb_as_sets_of_integers():
    """A transaction is (domain, number, writer), where only the last one's writer is known: so the last is another one
    when the writers differ."""
    chance = random.Random(2)
    for _ in range(2_000):
        (text_a, a), (text_b, b) = random_position(chance), random_position(chance)
        first, second = GtidSet.parse(text_a, "mariadb"), GtidSet.parse(text_b, "mariadb")
        all_a = {(domain, number) for domain, (_, last) in a.items() for number in range(1, last + 1)}
        all_b = {(domain, number) for domain, (_, last) in b.items() for number in range(1, last + 1)}
        other = {domain for domain in a.keys() & b.keys() if a[domain][1] == b[domain][1] and a[domain] != b[domain]}
        assert set(first.list_diverged(second)) == other
        assert members_of(first) == all_a and first.is_position
        assert members_of(first.minus(second)) == (all_a - all_b) | {(domain, a[domain][1]) for domain in other}
        assert first.contains(second) == (all_b <= all_a and not other)
        joined = first.union(second)
        assert members_of(joined) == all_a | all_b
        assert dict(joined.writers) == {
            domain: (a if domain not in b or (domain in a and a[domain][1] >= b[domain][1]) else b)[domain][0]
            for domain in a | b
        }
        assert GtidSet.parse(str(first), "mariadb") == first


def test_what_is_written():
    assert str(GtidSet.parse("0-1-100,10-2-7,2-2-5", "mariadb")) == "0-1-100,2-2-5,10-2-7"
    here, there = GtidSet.parse("0-1-50", "mariadb"), GtidSet.parse("0-1-100", "mariadb")
    assert str(there.minus(here)) == "0:51-100"
    assert str(GtidSet.parse(f"{SERVERS[0]}:3-4:1-2:9", "mysql")) == f"{SERVERS[0]}:1-4:9"
    assert GtidSet.parse(f"{SERVERS[0]}:1-4:blue:2", "mysql").get_last_number(f"{SERVERS[0]}:blue") == 2
    assert str(GtidSet.parse("", "mysql")) == "" and GtidSet.parse(" \n", "mariadb").is_empty


@pytest.mark.parametrize(
    ("text", "flavor"),
    [
        ("0-1", "mariadb"),
        ("0-1-1,0-2-1", "mariadb"),
        ("0-1-18446744073709551616", "mariadb"),
        ("4294967296-1-1", "mariadb"),
        ("0-1--1", "mariadb"),
        (f"{SERVERS[0]}:1-4", "mariadb"),
        ("0-1-1", "mysql"),
        (SERVERS[0], "mysql"),
        (f"{SERVERS[0]}:0", "mysql"),
        (f"{SERVERS[0]}:5-3", "mysql"),
        (f"{SERVERS[0]}:9223372036854775807", "mysql"),
        (f"{SERVERS[0]}:١", "mysql"),
        (f"{SERVERS[0]}'; DROP TABLE x:1", "mysql"),
        (f"{SERVERS[0]}:" + "a" * 33, "mysql"),
    ],
)
def test_what_is_no_set(text, flavor):
    with pytest.raises(InputError):
        GtidSet.parse(text, flavor)


def test_flavors_do_not_mix():
    with pytest.raises(InputError):
        GtidSet.parse("0-1-1", "mariadb").minus(GtidSet.parse("", "mysql"))
