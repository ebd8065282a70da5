"""Opens connections to a server, and translates the errors of PyMySQL into errors for the user."""

from __future__ import annotations

import contextlib
import ssl
import struct
from collections.abc import Iterator
from typing import Protocol, cast

from headrace.base.extras import import_optional
from headrace.base.packaged import read_rows
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.mysql.address import DEFAULT_PORT, Address, refuse
from headrace.mysql.statements import SqlConnection, get_error_number, get_error_words


class NoRoom(CouldNotRun):
    """All connections of a server, or of an account, are taken."""


# The kind of an error where no server answered; all others are refusals of a server.
UNREACHABLE = "unreachable"
# Refusals by what caused them. Numbers: MySQL 8.4 "Server Error Message Reference" and "Client
# Error Message Reference"; the same in MariaDB unless said. Names: exceptions of Python.
REFUSALS = {cause: row for row in read_rows("headrace.mysql", "refusals.csv") for cause in row["causes"].split()}
KINDS = {"input": InputError, "no-room": NoRoom, "could-not-run": CouldNotRun}
DENIED, DENIED_DATABASE, EXPIRED = (1045, 1698), 1044, (1820, 1862)
CONNECT, LOST = (2002, 2003, 2005), (2006, 2012, 2013)  # of the client: no connection, lost

# Parts of PyMySQL that are used beyond its public interface; tests/unit/mysql names them, so that a
# release without them shows.
CLOSE_SOCKET, ANSWER_TIME = "_force_close", "_read_timeout"
PRIVATE = ("_secure", "_auth_plugin_name", "_read_packet", CLOSE_SOCKET, ANSWER_TIME)


def connect(address: Address, timeout_s: float = 10.0) -> SqlConnection:
    """Returns a new PyMySQL connection with autocommit. `timeout_s`: for connecting, and for every
    answer.

    Raises InputError for what is wrong in the address (account, database, TLS), CouldNotRun for a
    server that is not there or accepts no connection.
    """
    with import_optional():
        import pymysql

    place = {"host": address.host, "port": address.port or DEFAULT_PORT}
    if address.socket is not None:
        place = {"unix_socket": address.socket}
    try:
        return pymysql.connect(
            user=address.user,
            # Bytes: PyMySQL would encode text as Latin-1, the MySQL clients send it as typed.
            password="" if address.password is None else address.password.reveal().encode(),
            database=address.database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=timeout_s,
            read_timeout=timeout_s,
            write_timeout=timeout_s,
            program_name="headrace",
            auth_plugin_map={"mysql_clear_password": _ClearPassword, "dialog": _ClearPassword},
            **place,
            **_make_ssl_arguments(address),
        )
    except HeadraceError:
        raise
    except pymysql.err.MySQLError as error:
        raise _translate_refusal(address, error, timeout_s) from None
    except RuntimeError:  # PyMySQL without `cryptography` under sha256 passwords
        rule = "the account's password cannot be sent safely: neither TLS nor a socket, nor the package cryptography"
        raise refuse.input(address.label, rule, "Add ?ssl-mode=REQUIRED, or pip install cryptography.") from None
    except (AssertionError, IndexError, ValueError, OSError, TypeError, AttributeError) as error:
        raise _make_no_mysql_error(address, type(error).__name__) from None
    except struct.error:
        raise _make_no_mysql_error(address, "its greeting cannot be read") from None


def cut(connection: SqlConnection) -> None:
    """Closes a connection's socket at once, so that a query in another thread ends with an
    error."""
    getattr(connection, CLOSE_SOCKET)()


@contextlib.contextmanager
def limit_answer_time(connection: SqlConnection, seconds: float) -> Iterator[None]:
    """Limits the time of each answer in a block to `seconds`; a later answer raises
    pymysql.err.OperationalError."""
    before = getattr(connection, ANSWER_TIME)
    setattr(connection, ANSWER_TIME, seconds)
    try:
        yield
    finally:
        setattr(connection, ANSWER_TIME, before)


class _Packet(Protocol):
    """An answer to a login."""

    def check_error(self) -> None: ...


class _Login(Protocol):
    """Parts of PyMySQL's connection that are used while it logs in."""

    _secure: bool
    _auth_plugin_name: str
    password: bytes

    def write_packet(self, payload: bytes) -> None: ...
    def _read_packet(self) -> _Packet: ...


class _ClearPassword:
    """Answers plugins that ask for the password in clear, over TLS or a local socket only."""

    def __init__(self, connection: SqlConnection) -> None:
        self.connection = cast("_Login", connection)

    def authenticate(self, packet: object) -> _Packet:
        """Sends the password in clear and returns the server's answer. Raises InputError without
        TLS or a socket."""
        connection = self.connection
        if not connection._secure:
            source = "MySQL manual, Client-Side Cleartext Pluggable Authentication"
            rule = "it is sent over TLS or a local socket only"
            hint = "Add ?ssl-mode=VERIFY_IDENTITY."
            raise InputError("the server asks for the password in clear", rule, source, hint)
        if connection._auth_plugin_name == "dialog":
            raise AttributeError  # PyMySQL's own dialog follows
        connection.write_packet(connection.password + b"\0")
        answer = connection._read_packet()
        answer.check_error()
        return answer


def _make_ssl_arguments(address: Address) -> dict:
    """Returns PyMySQL's arguments for the TLS mode of an address. Raises InputError for a file that
    is not a CA's certificate."""
    mode = address.ssl_mode
    if mode == "DISABLED" or (mode == "PREFERRED" and address.socket is not None):
        return {"ssl_disabled": True}  # a local socket needs none, as for the MySQL clients
    if mode == "PREFERRED":
        return {}
    try:
        context = ssl.create_default_context(cafile=address.ssl_ca)
    except (ssl.SSLError, OSError):
        hint = "Name the PEM file of the CA."
        raise InputError(str(address.ssl_ca), "is not a CA certificate in PEM", "RFC 7468", hint) from None
    # Certificates that MySQL and MariaDB make for themselves do not follow strict X.509 (RFC 5280).
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = mode == "VERIFY_IDENTITY" and address.socket is None
    context.verify_mode = ssl.CERT_NONE if mode == "REQUIRED" else ssl.CERT_REQUIRED
    return {"ssl": context}


def _translate_refusal(address: Address, error: Exception, timeout_s: float) -> HeadraceError:
    """Returns the error for a connection that failed, by the number of PyMySQL's error."""
    code, words = get_error_number(error), get_error_words(error)
    if code in CONNECT:
        cause = getattr(error, "original_exception", None)
        words = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or cause or "no connection"
        name = next(base.__name__ for base in type(cause).__mro__ if base.__name__ in REFUSALS)
        return _refuse(address, name, words=words, timeout_s=timeout_s)
    # PyMySQL's own errors have no number: the packets were not MySQL's
    if code in LOST or code == 0:
        return _make_no_mysql_error(address, words)
    how = "with the password given" if address.password else "without a password"
    refusal = _refuse(address, str(code) if str(code) in REFUSALS else "0", code=code, words=words, used=how)
    if code in DENIED and address.socket is None and address.ssl_mode == "DISABLED":
        # MariaDB says no more than this under require_secure_transport.
        return refusal.amend(hint=f"{refusal.hint} The server or the account may want TLS: ?ssl-mode=REQUIRED.")
    return refusal


def _refuse(address: Address, cause: str, **values: object) -> HeadraceError:
    """Returns the error that REFUSALS has for a cause, with `values` filled into its words."""
    row = REFUSALS[cause]
    values |= {"user": address.user, "database": address.database, "host": address.host, "mode": address.ssl_mode}
    rule, source = row["rule"].format(**values), row["source"].format(**values)
    return KINDS[row["error"]](address.label, rule, source, row["hint"], kind=row["kind"])


def _make_no_mysql_error(address: Address, what: str) -> CouldNotRun:
    """Returns the error for a server that does not answer as MySQL does; `what`: what it does."""
    hint = "Is this the port of the server (3306; 33060 is the X protocol, which is another)? Did the server just end?"
    rule = f"does not answer like a MySQL server: {what}"
    return CouldNotRun(address.label, rule, "MySQL client/server protocol", hint, kind=UNREACHABLE)
