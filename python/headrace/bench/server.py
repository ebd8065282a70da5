"""Questions of drivers to a server: does the database exist, which tables are in it, how large are
they."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.base.units import GIB
from headrace.bench.target import DOC, Target
from headrace.connect import connect
from headrace.errors import CouldNotRun, InputError

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

# Names that may stand in a statement between backquotes.
NAME = re.compile(r"[A-Za-z0-9_$-]{1,64}\Z", re.ASCII)
SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
# Counting the rows of a large table waits for the disk.
ANSWER_S = 600.0


@contextmanager
def cursor_on(target: Target, database: bool = True):
    """Opens a cursor; errors of statements become CouldNotRun with the server's own words."""
    import pymysql

    address = target.server if database else target.server.with_database(None)
    connection = connect(address, ANSWER_S)
    try:
        with connection, connection.cursor() as cursor:
            yield cursor
    except pymysql.err.MySQLError as error:
        words = "".join(
            character if character.isprintable() else "?"
            for character in str(error.args[-1] if error.args else error)[:200]
        )
        raise CouldNotRun(
            target.label, f"the server refused: {words}", f"error {error.args[0] if error.args else ''}", ""
        ) from None


def first_value(cursor: Cursor) -> Any:
    """Returns the first column of the first row of the answer; None where there is no row."""
    row = cursor.fetchone()
    return None if row is None else row[0]


def require_database(name: str, target: Target) -> None:
    """Raises InputError when the target is not a server, or its address does not name a database
    fit for test tables."""
    if target.address is None:
        raise InputError(target.label, f"{name} needs a server", DOC, "Give an address: mysql://USER@HOST/DATABASE.")
    database = target.address.database
    if not database:
        raise InputError(
            target.label,
            f"{name} needs a database for its tables",
            DOC,
            "Name it in the address: mysql://USER@HOST/DATABASE.",
        )
    if not NAME.match(database) or database.lower() in SYSTEM:
        raise InputError(
            f"database {database[:70]}",
            "is not one for test tables",
            DOC,
            "Letters, digits, _ and -; not one of the server's own.",
        )


def create_database(target: Target) -> bool:
    """Makes the database when it is missing; whether it was made."""
    with cursor_on(target, database=False) as cursor:
        cursor.execute("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (target.database,))
        if cursor.fetchone():
            return False
        cursor.execute(f"CREATE DATABASE `{target.database}`")
    return True


def tables_of(target: Target, pattern: str) -> dict[str, str]:
    """Returns tables of the database whose whole name matches: name to engine."""
    with cursor_on(target, database=False) as cursor:
        cursor.execute(
            (
                "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'"
            ),
            (target.database,),
        )
        return {str(name): str(engine) for name, engine in cursor.fetchall() if re.fullmatch(pattern, str(name))}


def table_rows(target: Target, table: str, exact: bool = False) -> int:
    """Returns the highest id of a table (0: none), or its rows counted one by one."""
    with cursor_on(target) as cursor:
        cursor.execute(f"SELECT {'COUNT(*)' if exact else 'MAX(id)'} FROM `{table}`")
        return int(first_value(cursor) or 0)


# File sizes, then what the statistics say: the first the account may read. MariaDB and MySQL 8 name
# the first table differently.
SIZES: dict[str | None, tuple[str, ...]] = {
    "innodb": (
        "SELECT SUM(file_size) FROM information_schema.innodb_tablespaces WHERE name LIKE %s",
        "SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE %s",
    ),
    # Column families are shared: this is all of the server's.
    "myrocks": ("SELECT SUM(data_block_size) FROM information_schema.rocksdb_sst_props WHERE %s <> ''",),
}


def data_gib(target: Target) -> float | None:
    """Returns the size of the database on disk, GiB: that of its files where the server tells them,
    else the server's own estimate; None when it has neither."""
    import pymysql

    database = target.database
    connection = connect(target.server.with_database(None), ANSWER_S)
    with connection, connection.cursor() as cursor:
        for query in SIZES[target.engine]:
            try:
                # Not LIKE's wildcards: every _ in a name would match any letter.
                cursor.execute(query, (re.sub(r"([%_\\])", r"\\\1", database) + "/%",))
                if size := first_value(cursor):
                    return float(size) / GIB
            except pymysql.err.MySQLError:
                continue
        cursor.execute(
            "SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = %s", (database,)
        )
        size = first_value(cursor)
    return None if not size else float(size) / GIB
