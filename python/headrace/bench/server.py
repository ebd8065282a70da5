"""Queries of drivers to a server: whether the database exists, its tables, and their sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.base.units import GIB
from headrace.bench.target import Target, refuse
from headrace.errors import CouldNotRun
from headrace.mysql import connect
from headrace.mysql.privileges import SYSTEM
from headrace.mysql.statements import SqlConnection, ask, ask_value

# Names that may stand in a statement between backquotes.
NAME = re.compile(r"[A-Za-z0-9_$-]{1,64}\Z", re.ASCII)
# Counting the rows of a large table waits for the disk.
ANSWER_S = 600.0


@contextmanager
def hold_connection(target: Target, database: bool = True) -> Iterator[SqlConnection]:
    """Yields a connection to the target's database, or to its server alone without `database`.
    Raises CouldNotRun, with the server's message, for errors of statements."""
    import pymysql

    address = target.server if database else target.server.with_database(None)
    connection = connect(address, ANSWER_S)
    try:
        with connection:
            yield connection
    except pymysql.err.MySQLError as error:
        words = "".join(
            character if character.isprintable() else "?"
            for character in str(error.args[-1] if error.args else error)[:200]
        )
        rule = f"the server refused: {words}"
        raise CouldNotRun(target.label, rule, f"error {error.args[0] if error.args else ''}", "") from None


def require_database(name: str, target: Target) -> None:
    """Raises InputError for a target without a server, or without a database for test tables."""
    if target.address is None:
        raise refuse.input(target.label, f"{name} needs a server", "Give an address: mysql://USER@HOST/DATABASE.")
    database = target.address.database
    if not database:
        hint = "Name it in the address: mysql://USER@HOST/DATABASE."
        raise refuse.input(target.label, f"{name} needs a database for its tables", hint)
    if not NAME.match(database) or database.lower() in SYSTEM:
        hint = "Letters, digits, _ and -; not one of the server's own."
        raise refuse.input(f"database {database[:70]}", "is not one for test tables", hint)


def create_database(target: Target) -> bool:
    """Makes the target's database if it is missing, and returns whether it was made."""
    with hold_connection(target, database=False) as connection:
        text = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
        if ask(connection, text, (target.database,)):
            return False
        ask(connection, f"CREATE DATABASE `{target.database}`")
    return True


def find_tables(target: Target, pattern: str) -> dict[str, str]:
    """Returns the engines by name of the tables whose whole name matches `pattern`."""
    text = (
        "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'"
    )
    with hold_connection(target, database=False) as connection:
        rows = ask(connection, text, (target.database,))
    return {str(name): str(engine) for name, engine in rows if re.fullmatch(pattern, str(name))}


def count_table_rows(target: Target, table: str, exact: bool = False) -> int:
    """Returns the highest id of a table (0: no rows), or with `exact` the number of its rows."""
    with hold_connection(target) as connection:
        return int(ask_value(connection, f"SELECT {'COUNT(*)' if exact else 'MAX(id)'} FROM `{table}`") or 0)


# Queries for the size of a database's files, by engine: the first that the account may run counts.
# MySQL 8 and MariaDB have different names for the table.
SIZES: dict[str | None, tuple[str, ...]] = {
    "innodb": (
        "SELECT SUM(file_size) FROM information_schema.innodb_tablespaces WHERE name LIKE %s",
        "SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE %s",
    ),
    # Column families are shared: this is all of the server's.
    "myrocks": ("SELECT SUM(data_block_size) FROM information_schema.rocksdb_sst_props WHERE %s <> ''",),
}


def measure_data_gib(target: Target) -> float | None:
    """Returns the size of the database on disk, GiB: that of its files if the account may read it,
    else the server's estimate; None without either."""
    import pymysql

    database = target.database
    connection = connect(target.server.with_database(None), ANSWER_S)
    with connection:
        for query in SIZES[target.engine]:
            try:
                # Not LIKE's wildcards: every _ in a name would match any letter.
                pattern = re.sub(r"([%_\\])", r"\\\1", database) + "/%"
                if size := ask_value(connection, query, (pattern,)):
                    return float(size) / GIB
            except pymysql.err.MySQLError:
                continue
        text = "SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = %s"
        size = ask_value(connection, text, (database,))
    return None if not size else float(size) / GIB
