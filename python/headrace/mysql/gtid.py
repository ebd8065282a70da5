"""Sets of global transaction identifiers (GTIDs).

    MySQL     uuid[:tag]:1-5:7, uuid...   any set of numbers for each server (and tag)
    MariaDB   0-1-100, 1-2-5              a position: in each domain all up to a sequence number,
                                          with the server that wrote the last transaction

The difference of two MariaDB positions is not a position; it is written as `0:51-100`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.base.encoding import Text
from headrace.errors import InputError, Refusals

refuse_mysql = Refusals("MySQL manual, GTID Sets")
refuse_mariadb = Refusals("MariaDB documentation, Global Transaction ID")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.ASCII)  # MySQL 8.3 and later
INTERVAL = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?", re.ASCII)
POSITION = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})", re.ASCII)
MOST_MYSQL = 2**63 - 2  # the largest GNO of MySQL (rpl_gtid.h, GNO_END - 1)
MOST_MARIADB = 2**64 - 1  # sequence numbers of MariaDB have 64 bits, domains and servers 32
MOST_ID = 2**32 - 1
# A guess, far above any real set: some hundred servers with some thousand gaps take a megabyte.
MAX_TEXT = 16 << 20

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class GtidSet(Text):
    """A set of transactions. `ranges`: by server (`uuid` or `uuid:tag`) or MariaDB's domain, sorted
    and disjoint; `writers`: by MariaDB's domain, the server that wrote the last transaction."""

    flavor: str
    ranges: tuple[tuple[str, Ranges], ...] = ()
    writers: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, text: str, flavor: str) -> GtidSet:
        """Parses a set in the servers' notation. Raises InputError."""
        if len(text) > MAX_TEXT:
            raise InputError(text[:60], f"a GTID set has at most {MAX_TEXT:,} characters", _get_source(flavor), "")
        compact = "".join(text.split())
        return _parse_mariadb(compact) if flavor == "mariadb" else _parse_mysql(compact)

    def contains(self, other: GtidSet) -> bool:
        """Returns whether this set has every transaction of the other."""
        return other.minus(self).is_empty

    def union(self, other: GtidSet) -> GtidSet:
        """Returns the union. If two MariaDB positions end at the same number of different servers,
        this set's writer is taken: see `list_diverged`."""
        self._check_flavor(other)
        if not other.ranges or other == self:
            return self
        own_ranges, other_ranges = dict(self.ranges), dict(other.ranges)
        joined = {
            key: merge_ranges([*own_ranges.get(key, ()), *other_ranges.get(key, ())])
            for key in own_ranges | other_ranges
        }
        writers = dict(self.writers)
        for key, writer in other.writers:
            if key not in writers or other_ranges[key][-1][1] > own_ranges[key][-1][1]:
                writers[key] = writer
        return _build_set(self.flavor, joined, writers)

    def minus(self, other: GtidSet) -> GtidSet:
        """Returns the transactions of this set that the other lacks.

        A MariaDB transaction with the same number from another server is another transaction.
        """
        self._check_flavor(other)
        if not self.ranges or other == self:
            return GtidSet(self.flavor)
        other_ranges = dict(other.ranges)
        remaining = {key: _subtract_ranges(ranges, other_ranges.get(key, ())) for key, ranges in self.ranges}
        for key in self.list_diverged(other):
            last = dict(self.ranges)[key][-1][1]
            remaining[key] = merge_ranges([*remaining[key], (last, last)])
        return _build_set(self.flavor, remaining, dict(self.writers))

    def list_diverged(self, other: GtidSet) -> list[str]:
        """Returns MariaDB's domains in which both end at one number, of different servers."""
        self._check_flavor(other)
        other_ranges, writers = dict(other.ranges), dict(other.writers)
        return [
            key
            for key, ranges in self.ranges
            if key in writers
            and ranges[-1][1] == other_ranges[key][-1][1]
            and writers[key] != dict(self.writers).get(key)
        ]

    @property
    def is_empty(self) -> bool:
        return not self.ranges

    @property
    def is_position(self) -> bool:
        """True when MariaDB can begin to replicate at this set."""
        return all(len(ranges) == 1 and ranges[0][0] == 1 for _, ranges in self.ranges)

    def count(self) -> int:
        """Returns the number of transactions."""
        return sum(last - first + 1 for _, ranges in self.ranges for first, last in ranges)

    def list_transactions(self) -> Iterator[str]:
        """Yields each GTID in order, as SERVER[:TAG]:NUMBER, or DOMAIN:NUMBER of MariaDB."""
        for key, ranges in self.ranges:
            for first, last in ranges:
                for number in range(first, last + 1):
                    yield f"{key}:{number}"

    def select_key(self, key: str) -> GtidSet:
        """Returns the part of the set that is of one server (`uuid` or `uuid:tag`) or domain."""
        ranges = {name: ranges for name, ranges in self.ranges if name == key}
        return _build_set(self.flavor, ranges, dict(self.writers))

    def get_last_number(self, key: str) -> int:
        """Returns the highest number of a server or domain, 0 if it has none."""
        return next((ranges[-1][1] for name, ranges in self.ranges if name == key), 0)

    def __str__(self) -> str:
        """Returns the server's notation; `0:51-100` for a set that is not a MariaDB position."""
        if self.flavor == "mariadb" and self.is_position:
            writers = dict(self.writers)
            return ",".join(f"{key}-{writers.get(key, 0)}-{ranges[0][1]}" for key, ranges in self.ranges)
        return ",".join(f"{key}:{_format_ranges(ranges)}" for key, ranges in self.ranges)

    def _check_flavor(self, other: GtidSet) -> None:
        """Raises InputError for a set of the other flavor."""
        if self.flavor != other.flavor:
            rule = "GTIDs of MariaDB and of MySQL have nothing in common"
            raise InputError(f"{str(self)[:40]} and {str(other)[:40]}", rule, _get_source(self.flavor), "")


def _get_source(flavor: str) -> str:
    return refuse_mariadb.source if flavor == "mariadb" else refuse_mysql.source


def _build_set(flavor: str, ranges: dict[str, Ranges], writers: dict[str, int]) -> GtidSet:
    """Returns the set of these ranges, in order; a domain without numbers has no writer either."""
    order = (lambda key: (int(key), key)) if flavor == "mariadb" else (lambda key: (0, key))
    ordered = tuple((key, ranges[key]) for key in sorted(ranges, key=order) if ranges[key])
    return GtidSet(flavor, ordered, tuple((key, writers[key]) for key, _ in ordered if key in writers))


def _parse_mariadb(text: str) -> GtidSet:
    """Parses a position of MariaDB, written without spaces: in each domain all up to a number.
    Raises InputError."""
    ranges_by_domain: dict[str, Ranges] = {}
    writers: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        match = POSITION.fullmatch(part)
        numbers = [int(word) for word in match.groups()] if match else []
        if not numbers or max(numbers[:2]) > MOST_ID or numbers[2] > MOST_MARIADB:
            raise refuse_mariadb.input(part[:60], "a GTID of MariaDB is DOMAIN-SERVER-NUMBER", "Write it like 0-1-100.")
        domain, server, number = numbers
        if str(domain) in ranges_by_domain:
            raise refuse_mariadb.input(part[:60], f"domain {domain} stands twice in one position")
        if number:
            ranges_by_domain[str(domain)], writers[str(domain)] = ((1, number),), server
    return _build_set("mariadb", ranges_by_domain, writers)


def _parse_mysql(text: str) -> GtidSet:
    """Parses a set of MySQL, written without spaces. Raises InputError."""
    intervals: dict[str, list[tuple[int, int]]] = {}
    for part in filter(None, text.lower().split(",")):
        uuid, *words = part.split(":")
        if not UUID.fullmatch(uuid) or not words:
            raise refuse_mysql.input(part[:60], "a GTID set is UUID:FIRST-LAST, ...")
        key = uuid
        for word in words:
            if TAG.fullmatch(word):
                key = f"{uuid}:{word}"
                continue
            match = INTERVAL.fullmatch(word)
            first = int(match[1]) if match else 0
            last = int(match[2] or first) if match else 0
            if not 1 <= first <= last <= MOST_MYSQL:
                raise refuse_mysql.input(part[:60], f"{word[:40]!r} is not an interval FIRST-LAST")
            intervals.setdefault(key, []).append((first, last))
    return _build_set("mysql", {key: merge_ranges(ranges) for key, ranges in intervals.items()}, {})


def _format_ranges(ranges: Ranges) -> str:
    return ":".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Returns ranges sorted, those that overlap or adjoin joined."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return tuple(out)


def _subtract_ranges(ranges: Ranges, others: Ranges) -> Ranges:
    """Returns `ranges` without the numbers in `others`; both must be sorted and disjoint."""
    out: list[tuple[int, int]] = []
    index = 0
    for first, last in ranges:
        while index < len(others) and others[index][1] < first:
            index += 1
        at = index
        while at < len(others) and others[at][0] <= last:
            if others[at][0] > first:
                out.append((first, others[at][0] - 1))
            first = others[at][1] + 1
            at += 1
        if first <= last:
            out.append((first, last))
    return tuple(out)
