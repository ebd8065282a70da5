"""A connection, and what PyMySQL says when there is none, in words a user can act on."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, cast

from headrace.base.extras import import_optional
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.mysql.address import DEFAULT_PORT, DOC, PASSWORD_VARIABLE, Address

if TYPE_CHECKING:
    import pymysql


class NoRoom(CouldNotRun):
    """All connections of a server, or of an account, are taken."""


# Error numbers: MySQL 8.4 "Server Error Message Reference" and "Client Error Message Reference";
# the same in MariaDB unless said.
# The kind of an error where no server answered; else one did, and refused this client.
UNREACHABLE = "unreachable"
DENIED = (1045, 1698)  # 1698: the account takes no password (unix_socket, auth_socket)
DENIED_DATABASE, UNKNOWN_DATABASE = 1044, 1049  # ER_DBACCESS_DENIED_ERROR, ER_BAD_DB_ERROR
# all connections taken; the account's are; the account's share of an hour is
FULL = (1040, 1203, 1226)
BLOCKED, NOT_ALLOWED = 1129, 1130  # ER_HOST_IS_BLOCKED, ER_HOST_NOT_PRIVILEGED
EXPIRED = (1820, 1862)  # ER_MUST_CHANGE_PASSWORD, and at connecting
PLUGIN = (1251, 2059, 2061)  # ER_NOT_SUPPORTED_AUTH_MODE, CR_AUTH_PLUGIN_*
SHUTTING_DOWN = (1053, 1077)  # ER_SERVER_SHUTDOWN, ER_NORMAL_SHUTDOWN
INSECURE_REFUSED = 3159  # ER_SECURE_TRANSPORT_REQUIRED of MySQL; MariaDB denies access instead
# of the client: no connection, lost, no TLS
CONNECT, LOST, SSL = (2002, 2003, 2005), (2006, 2012, 2013), 2026


# Parts of PyMySQL that are used beyond its public interface; tests/unit/mysql names them, so that a
# release without them shows.
CLOSE_SOCKET, ANSWER_TIME = "_force_close", "_read_timeout"
PRIVATE = ("_secure", "_auth_plugin_name", "_read_packet", CLOSE_SOCKET, ANSWER_TIME)


def connect(address: Address, timeout_s: float = 10.0) -> pymysql.Connection:
    """Opens a PyMySQL connection that commits by itself.

    `timeout_s`: for connecting, and for every answer.

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
            **_ssl_arguments(address),
        )
    except HeadraceError:
        raise
    except pymysql.err.MySQLError as error:
        raise _refusal(address, error, timeout_s) from None
    except RuntimeError:  # PyMySQL without `cryptography` under sha256 passwords
        rule = "the account's password cannot be sent safely: neither TLS nor a socket, nor the package cryptography"
        raise InputError(address.label, rule, DOC, "Add ?ssl-mode=REQUIRED, or pip install cryptography.") from None
    except (AssertionError, IndexError, ValueError, OSError, TypeError, AttributeError) as error:
        raise _no_mysql(address, type(error).__name__) from None
    except struct.error:
        raise _no_mysql(address, "its greeting cannot be read") from None


def cut(connection: pymysql.Connection) -> None:
    """Closes the socket without a word to the server: a query that still hangs in another thread
    ends."""
    getattr(connection, CLOSE_SOCKET)()


@contextlib.contextmanager
def answers_within(connection: pymysql.Connection, seconds: float) -> Iterator[None]:
    """Bounds the time of each answer in a block, s; a later one raises
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
    """For authentication plugins that ask for the password in clear: it is sent over TLS or a local
    socket only."""

    def __init__(self, connection: pymysql.Connection) -> None:
        self.connection = cast("_Login", connection)

    def authenticate(self, packet: object) -> _Packet:
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


def _ssl_arguments(address: Address) -> dict:
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


def _refusal(address: Address, error: Exception, timeout_s: float) -> HeadraceError:
    """Translates a refused connection by the number of its error."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    label, user, source = address.label, address.user, f"error {code} of the server"
    if code in CONNECT:
        return _no_server(address, getattr(error, "original_exception", None), timeout_s)
    # PyMySQL's own errors have no number: the packets were not MySQL's
    if code in LOST or code == 0:
        return _no_mysql(address, _words(error))
    if code in DENIED:
        used = "with the password given" if address.password else "without a password"
        hint = f"Set {PASSWORD_VARIABLE} or --defaults-file; is the account allowed from this host (SELECT user, host FROM mysql.user)?"
        if (
            address.socket is None and address.ssl_mode == "DISABLED"
        ):  # MariaDB says no more than this under require_secure_transport
            hint += " The server or the account may want TLS: ?ssl-mode=REQUIRED."
        return InputError(label, f"access denied for {user} {used}", source, hint)
    if code == DENIED_DATABASE:
        hint = "Leave the database out, or GRANT it."
        return InputError(label, f"{user} may not use database {address.database}", source, hint)
    if code == UNKNOWN_DATABASE:
        return InputError(label, f"the server has no database {address.database}", source, "See SHOW DATABASES.")
    if code in FULL:
        hint = "Try again when clients have left, or raise max_connections (the account's MAX_USER_CONNECTIONS)."
        return NoRoom(label, "takes no more connections", source, hint)
    if code == BLOCKED:
        return CouldNotRun(label, "blocks this host after failed connections", source, "FLUSH HOSTS on the server.")
    if code == NOT_ALLOWED:
        return InputError(label, "does not let this host in", source, "CREATE USER for this host.")
    if code in EXPIRED:
        return InputError(label, f"the password of {user} has expired", source, "Set a new one with the mysql client.")
    if code in PLUGIN:
        rule = f"requires an authentication plugin this client does not support: {_words(error)}"
        return InputError(label, rule, source, "Use an account with a password.")
    if code == INSECURE_REFUSED:
        hint = "Add ?ssl-mode=REQUIRED."
        return InputError(label, "takes connections with TLS only", "require_secure_transport", hint)
    if code == SSL:
        hint = "Set up TLS on the server, or use its socket."
        return InputError(label, "offers no TLS", f"ssl-mode={address.ssl_mode}", hint)
    if code in SHUTTING_DOWN:
        return CouldNotRun(label, "is shutting down", source, "Start it again.", kind=UNREACHABLE)
    return CouldNotRun(label, f"refused the connection: {_words(error)}", source, "See the server's error log.")


def _words(error: Exception) -> str:
    """Returns the server's words, short and printable."""
    text = str(error.args[1] if len(error.args) > 1 else error)
    return "".join(character if character.isprintable() else "?" for character in text[:200])


def _no_server(address: Address, cause: BaseException | None, timeout_s: float) -> HeadraceError:
    label = address.label
    if isinstance(cause, ssl.SSLCertVerificationError):
        hint = "Name the right ssl-ca, and the host as the certificate has it."
        rule = f"its certificate is not accepted: {cause.verify_message}"
        return InputError(label, rule, f"ssl-mode={address.ssl_mode}", hint)
    if isinstance(cause, ssl.SSLError):
        hint = "Does the server speak TLS 1.2 or newer?"
        return InputError(label, f"TLS failed: {cause.reason or cause}", f"ssl-mode={address.ssl_mode}", hint)
    if isinstance(cause, socket.gaierror):
        return InputError(label, f"the host {address.host} is not known", "getaddrinfo(3)", "Is the name right?")
    if isinstance(cause, TimeoutError):
        hint = "Is the host up, and the port open in firewall and security group?"
        return CouldNotRun(label, f"did not answer within {timeout_s:g} s", "", hint, kind=UNREACHABLE)
    if isinstance(cause, PermissionError):
        return CouldNotRun(label, "this user may not open the socket", "unix(7)", "Run as a user that may.")
    if isinstance(cause, FileNotFoundError):
        hint = "Is the server running? SELECT @@socket tells its path."
        return CouldNotRun(label, "there is no such socket", "unix(7)", hint, kind=UNREACHABLE)
    if isinstance(cause, ConnectionRefusedError):
        hint = "Is it running, with this port or socket?"
        return CouldNotRun(label, "no server listens there", "", hint, kind=UNREACHABLE)
    rule = f"cannot be reached: {cause or 'no connection'}"
    return CouldNotRun(label, rule, "", "Is the server running?", kind=UNREACHABLE)


def _no_mysql(address: Address, what: str) -> CouldNotRun:
    hint = "Is this the port of the server (3306; 33060 is the X protocol, which is another)? Did the server just end?"
    rule = f"does not answer like a MySQL server: {what}"
    return CouldNotRun(address.label, rule, "MySQL client/server protocol", hint, kind=UNREACHABLE)
