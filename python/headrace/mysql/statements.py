"""Statements to a server. No other module runs any.

ask            the rows of an answer
ask_row        its first row
ask_value      the first column of its first row
ask_named      its rows by the names of their columns
ask_pairs      names and values, as SHOW VARIABLES answers
parse_numbers  names and numbers of rows, as SHOW STATUS answers
send           a statement without an answer, for many rows at once
run            statements that change something; an error repeats nothing of them
load_plugin    a plugin of a server

Errors are the driver's (pymysql.err.MySQLError) unless a function says otherwise: callers translate
them for the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from headrace.errors import CouldNotRun

# Row of a server's answer: the types of its columns depend on the statement.
Row = tuple[Any, ...]
NamedRow = dict[str, Any]


class SqlConnection(Protocol):
    """A connection to a server, as the driver gives it."""

    def cursor(self) -> Any: ...
    def ping(self, reconnect: bool = True) -> None: ...
    def thread_id(self) -> int: ...
    def get_server_info(self) -> str: ...
    def close(self) -> None: ...
    def __enter__(self) -> SqlConnection: ...
    def __exit__(self, *exc_info: object) -> None: ...


def ask(connection: SqlConnection, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
    """Returns the rows of a statement's answer; none for a statement that has no answer."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return list(cursor.fetchall())


def ask_row(connection: SqlConnection, statement: str, parameters: Sequence[object] = ()) -> Row:
    """Returns the first row of an answer, empty if it has none."""
    return next(iter(ask(connection, statement, parameters)), ())


def ask_value(connection: SqlConnection, statement: str, parameters: Sequence[object] = ()) -> Any:
    """Returns the first column of the first row of an answer, None if it has none."""
    return next(iter(ask_row(connection, statement, parameters)), None)


def ask_named(connection: SqlConnection, statement: str, parameters: Sequence[object] = ()) -> list[NamedRow]:
    """Returns the rows of an answer, each by the names of its columns as the server writes them."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def ask_pairs(connection: SqlConnection, statement: str) -> dict[str, str]:
    """Returns an answer of two columns as values by name; names are in lower case."""
    return {str(name).lower(): str(value) for name, value in ask(connection, statement)}


def parse_numbers(rows: Iterable[Row]) -> dict[str, float]:
    """Returns the values of rows of two columns that are numbers, by their names in lower case."""
    numbers = {str(name).lower(): parse_number(text) for name, text in rows}
    return {name: number for name, number in numbers.items() if number is not None}


def parse_number(text: object) -> float | None:
    """Returns the value of a variable as a number; None for a word, a list or a time."""
    text = str(text)
    # float() would take 1_000, nan and infinity.
    if not text or not (text[-1].isdigit() and (text[0].isdigit() or text[0] == "-")) or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def send(connection: SqlConnection, statement: str, rows: Sequence[Row]) -> None:
    """Runs a statement for each of the rows of parameters, an INSERT with many rows at a time."""
    with connection.cursor() as cursor:
        cursor.executemany(statement, rows)


def run(connection: SqlConnection, statements: Iterable[str]) -> None:
    """Runs statements. Raises CouldNotRun, which repeats the first three words alone."""
    for statement in statements:
        try:
            ask(connection, statement)
        except Exception as error:
            raise translate_error(statement, error) from None


def ask_named_safely(connection: SqlConnection, statement: str) -> list[NamedRow]:
    """Returns rows as `ask_named`. Raises CouldNotRun as `run`."""
    try:
        return ask_named(connection, statement)
    except Exception as error:
        raise translate_error(statement, error) from None


def load_plugin(connection: SqlConnection, name: str, file: str, server: str) -> None:
    """Installs the plugin `name` from its `file` permanently, unless it is active. `server`: the
    server's name in the error. Raises CouldNotRun."""
    query = f"SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = '{name}'"
    if ask_value(connection, query) == "ACTIVE":
        return
    try:
        run(connection, (f"INSTALL PLUGIN {name} SONAME '{file}'",))
    except CouldNotRun as error:
        hint = f"Start it once with --set plugin-load-add={file}"
        raise CouldNotRun(server, f"cannot load {file}: {error.rule}", error.source, hint) from None


def get_error_number(error: Exception) -> int:
    """Returns the number of a server's error, 0 for an error without a number."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def get_error_words(error: Exception, most: int = 200) -> str:
    """Returns the words of a server's error, printable and at most `most` characters long."""
    text = str(error.args[-1] if error.args else error)
    return "".join(character if character.isprintable() else "?" for character in text[:most])


def translate_error(statement: str, error: Exception) -> CouldNotRun:
    """Returns the error of a statement: its first three words, and the server's message."""
    number = error.args[0] if error.args else ""
    message = str(error.args[-1] if error.args else error)
    if " near '" in message:  # a syntax error repeats the statement, perhaps with its password
        message = "the server does not take this statement"
    return CouldNotRun(" ".join(statement.split()[:3]), message[:300], f"error {number} of the server", "")
