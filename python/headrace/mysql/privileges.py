"""The rights of an account to databases and tables, as SHOW GRANTS lists them: with roles,
wildcards and MySQL's partial revokes. Pure: text in, values out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

# Databases of the servers themselves.
SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")
# Parts that a dump leaves out if the account lacks the right (MySQL manual, mysqldump; MariaDB
# knowledge base, mariadb-dump). Routines need SELECT everywhere, or one of ROUTINES.
NEEDED = {"SELECT": "rows", "SHOW VIEW": "views", "TRIGGER": "triggers", "EVENT": "events"}
ROUTINES = ("SHOW_ROUTINE", "SHOW CREATE ROUTINE")  # MySQL 8.0.20; MariaDB 11.3
ALL = "ALL PRIVILEGES"
QUOTES = "`'\""


@dataclass(frozen=True)
class Grant:
    """A line of SHOW GRANTS. `database`, `table`: "*" for all; `whole`: rights to whole tables;
    `some`: rights to some columns. `taken`: whether it is a partial revoke of MySQL."""

    whole: frozenset[str]
    some: frozenset[str]
    database: str
    table: str
    grantee: str
    taken: bool = False


@dataclass(frozen=True)
class Rights:
    """The rights of an account. `patterns`: whether % and _ in a database's name are wildcards.
    `everything`: whether the account may do all, without its grants being read."""

    grants: tuple[Grant, ...] = field(repr=False)
    patterns: bool = True
    everything: bool = False

    def may(self, right: str, database: str) -> bool:
        """True when the account has a right to a whole database; that to a table does not count."""
        if self.everything:
            return True
        if self.may_everywhere(right):
            taken = [grant.whole for grant in self.grants if grant.taken and grant.database == database]
            return not any({right, ALL} & rights for rights in taken)
        return any(right in grant.whole or ALL in grant.whole for grant in self._list_grants(database))

    def may_everywhere(self, right: str) -> bool:
        """True when the account has a right to *.*, apart from partial revokes."""
        if self.everything:
            return True
        wide = [grant for grant in self.grants if grant.database == grant.table == "*" and not grant.taken]
        return any(right in grant.whole or ALL in grant.whole for grant in wide)

    def list_missing(self, database: str) -> list[str]:
        """Returns the rights to a database that the account lacks and without which a dump leaves
        something out; `routines` where only their text cannot be read."""
        missing = [right for right in NEEDED if not self.may(right, database)]
        if not missing and not self._sees_routines(database):
            missing.append("routines")
        return missing

    def list_revoked(self) -> list[str]:
        """Lists the users' databases that partial revokes hide wholly or partly."""
        hidden = [grant.database for grant in self.grants if grant.taken and grant.whole & {*NEEDED, ALL}]
        return sorted({database for database in hidden if database.lower() not in SYSTEM})

    def list_readable(self) -> list[str]:
        """Returns the users' tables that the account may read, named as in SHOW GRANTS."""
        names = set()
        for grant in self.grants:
            if grant.taken or grant.database == "*" or grant.database.lower() in SYSTEM:
                continue
            if {"SELECT", ALL} & grant.whole:
                names.add(f"{grant.database}.{grant.table}")
            elif "SELECT" in grant.some:
                names.add(f"some columns of {grant.database}.{grant.table}")
        return sorted(names)

    def _sees_routines(self, database: str) -> bool:
        """Returns whether the account may read the text of a database's routines."""
        if self.may_everywhere("SELECT") or any(self.may(right, database) for right in ROUTINES):
            return True
        proc = [each for each in self.grants if each.database == "mysql" and each.table in ("*", "proc")]
        return any({"SELECT", ALL} & grant.whole for grant in proc if not grant.taken)

    def _list_grants(self, database: str) -> Iterator[Grant]:
        """Yields the grants on a database. If several patterns match, the server takes the most
        specific pattern of each account or role."""
        by_grantee: dict[str, list[Grant]] = {}
        for grant in self.grants:
            of_database = grant.table == "*" and grant.database != "*" and not grant.taken
            if of_database and self._fits(grant.database, database):
                by_grantee.setdefault(grant.grantee, []).append(grant)
        for grants in by_grantee.values():
            most = max(_count_literal(grant.database) for grant in grants)
            yield from (grant for grant in grants if _count_literal(grant.database) == most)

    def _fits(self, pattern: str, database: str) -> bool:
        """Returns whether a grant's database means this one: it is a pattern with % and _, unless
        `patterns` is False."""
        if not self.patterns:
            return pattern == database
        parts = re.findall(r"\\.|.", pattern, re.DOTALL)
        words = {"%": ".*", "_": "."}
        text = "".join(words[part] if part in words else re.escape(part[-1]) for part in parts)
        return re.fullmatch(text, database, re.DOTALL) is not None


def _count_literal(pattern: str) -> int:
    """Returns the length of a pattern up to its first wildcard; without one, its length plus 1."""
    plain = re.match(r"(?:\\.|[^%_\\])*", pattern, re.DOTALL)
    return len(pattern) + 1 if plain is None or plain.end() == len(pattern) else plain.end()


# --- reading --------------------------------------------------------------------------------------


def parse_grants(lines: Iterable[str]) -> list[Grant]:
    """Returns the grants on databases and tables, not those of roles, routines and proxies."""
    return [grant for line in lines if (grant := _parse_grant(line)) is not None]


def _parse_grant(line: str) -> Grant | None:
    """Parses a line of SHOW GRANTS; None for a role, a routine or a proxy."""
    verb, _, rest = line.partition(" ")
    on = _find_outside(rest, " ON ")
    if verb not in ("GRANT", "REVOKE") or on < 0:
        return None
    rights, behind = rest[:on], rest[on + 4 :]
    end = _find_outside(behind, " TO " if verb == "GRANT" else " FROM ")
    if end < 0:
        return None
    place, grantee = behind[:end], behind[end:].split(" ", 2)[2]
    if re.match(r"(?:FUNCTION|PROCEDURE|PACKAGE(?: BODY)?) ", place):
        return None
    names = _parse_names(place.removeprefix("TABLE "))
    if names is None:
        return None
    whole, some = set(), set()
    for right in _split(rights):
        name, bracket, _ = right.partition("(")
        (some if bracket else whole).add(name.strip().upper())
    if "ALL" in whole:
        whole.add(ALL)
    grantee = grantee[:end] if (end := _find_outside(grantee, " ")) > 0 else grantee
    return Grant(frozenset(whole), frozenset(some), *names, grantee, verb == "REVOKE")


def _find_outside(text: str, word: str) -> int:
    """Returns the index of a word outside of quotes and brackets, -1 if it is not there."""
    quote, depth = "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in QUOTES:
            quote = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif depth == 0 and text.startswith(word, place):
            return place
    return -1


def _split(text: str) -> list[str]:
    """Splits a list at its commas, but not inside of quotes and brackets."""
    parts = []
    while (place := _find_outside(text, ",")) >= 0:
        parts.append(text[:place].strip())
        text = text[place + 1 :]
    return [*parts, text.strip()]


def _parse_names(place: str) -> tuple[str, str] | None:
    """Returns database and table of `a`.`b`, `a`.* or *.*; None for another text."""
    dot = _find_outside(place, ".")
    if dot < 0:
        return None
    return _unquote_name(place[:dot]), _unquote_name(place[dot + 1 :])


def _unquote_name(name: str) -> str:
    """Returns a name without its quotes. A wildcard's backslash stays."""
    name = name.strip()
    if len(name) >= 2 and name[0] in QUOTES and name[-1] == name[0]:
        return name[1:-1].replace(name[0] * 2, name[0])
    return name
