"""The address of a server, and the account on it.

An address is text that may stand in a command line, a log and a report, so it never holds a
password. Those come from HEADRACE_MYSQL_PASSWORD, from an option file only its owner may read, or
from a prompt.
"""

from __future__ import annotations

import hmac
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from headrace.base import settings
from headrace.base.checks import check_choice, suggest_nearest
from headrace.base.files import explain_unwritable, replace_file
from headrace.errors import InputError, Refusals
from headrace.mysql.option_files import quote_value, read_client

refuse = Refusals("docs/reference/capture.md")
FORM = "mysql://USER@HOST[:PORT][/DATABASE] or mysql://USER@/[DATABASE]?socket=PATH"
PASSWORD_VARIABLE = "HEADRACE_MYSQL_PASSWORD"
DEFAULT_PORT = 3306  # IANA, service mysql
# MySQL 8.4 reference manual, "Command Options for Encrypted Connections", --ssl-mode.
refuse_ssl = Refusals("MySQL manual, --ssl-mode")
SSL_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
PARAMETERS = ("socket", "ssl-mode", "ssl-ca")
# Characters of a user name (MariaDB; MySQL 32) and of a database; of a host name (RFC 1035); bytes
# of sun_path less its zero (unix(7)).
MAX_USER, MAX_DATABASE, MAX_HOST, MAX_SOCKET_BYTES = 128, 64, 255, 107
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?\Z|[0-9A-Fa-f:.]+(%[A-Za-z0-9]+)?\Z", re.ASCII)
# MySQL's clients read this file of logins behind every option file, and the last value wins.
TOOL_ENVIRONMENT = {"MYSQL_TEST_LOGIN_FILE": os.devnull}


class Secret:
    """Wraps a password: `repr` and `str` are `***`, and it is not pickled or turned into JSON by
    accident. `reveal()` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Returns the password itself, for the moment of its use only."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __format__(self, form: str) -> str:
        return format("***", form)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict) -> Secret:
        return self

    def __reduce__(self):
        raise TypeError("a password is not pickled")


@dataclass(frozen=True)
class Address:
    """A server and an account on it.

    `host` and `port`, or `socket`; `database` None: none is chosen; `password` None: none is sent.
    """

    user: str
    host: str | None = None
    port: int | None = None
    socket: str | None = None
    database: str | None = None
    password: Secret | None = None
    ssl_mode: str = "PREFERRED"
    ssl_ca: str | None = None

    @property
    def label(self) -> str:
        """The address as text, without any secret: for logs and results.

        `parse_address` reads it back.
        """
        user, database = quote(self.user, safe=""), quote(self.database or "", safe="")
        if self.socket is not None:
            return f"mysql://{user}@/{database}?socket={quote(self.socket, safe='/')}"
        host = f"[{self.host}]" if ":" in (self.host or "") else self.host
        return f"mysql://{user}@{host}:{self.port or DEFAULT_PORT}" + (f"/{database}" if database else "")

    def with_database(self, name: str | None) -> Address:
        """Returns the address with another database, None for none. Raises InputError."""
        return replace(self, database=None if name is None else _check_database(name))

    def with_password(self, password: Secret | None) -> Address:
        """Returns the address with another password."""
        return replace(self, password=password)


def parse_address(text: str, *, defaults_file: str | os.PathLike | None = None) -> Address:
    """Parses an address, `mysql://USER@HOST[:PORT][/DB][?ssl-mode=..&ssl-ca=..]` or
    `mysql://USER@/DB?socket=PATH`.

    Parts that the text leaves out come from [client] of `defaults_file`. The password is that of
    `defaults_file`, else HEADRACE_MYSQL_PASSWORD. Raises InputError, also for a password in the
    text (process lists show it), and CouldNotRun for a file that cannot be read.
    """
    parts = _parse_parts(text)
    client = read_client(defaults_file) if defaults_file is not None else {}
    if any(parts[key] is not None for key in ("host", "socket")):
        client = {key: value for key, value in client.items() if key not in ("host", "port", "socket")}
    elif "socket" in client and client.get("host") in (None, "localhost"):
        client.pop("host", None)  # as the MySQL clients do: the socket of this machine
        client.pop("port", None)
    else:
        client.pop("socket", None)
    merged = {key: value if value is not None else client.get(key) for key, value in parts.items()}
    password = client.get("password") if "password" in client else settings.find_value(PASSWORD_VARIABLE)
    return _check_address(hide_password(text), merged, None if password is None else Secret(password))


def hide_password(text: str) -> str:
    """Returns an address for an error message, with *** in the place of what may be a password."""
    text = "".join(character if character.isprintable() else "?" for character in text[:300])
    scheme, slashes, rest = text.partition("://")
    if not slashes:
        return scheme if "@" not in scheme and ":" not in scheme else "the address"
    account, at, place = rest.rpartition("@")
    user, colon, _ = account.partition(":")
    place = re.sub(r"(?i)(passw\w*|pwd)=[^&]*", r"\1=***", place)
    return f"{scheme}://{user}{':***' if colon else ''}{at}{place}"


def _parse_parts(text: str) -> dict:
    """Parses an address into its parts, None for those that it leaves out. Raises InputError, also
    for a password in the text."""
    rule = f"an address is {FORM}"
    brackets = "IPv6 addresses stand in brackets: mysql://watcher@[::1]:3306/"
    try:
        parts = urlsplit(text)
    except ValueError:
        raise refuse.input(hide_password(text), rule, brackets) from None
    try:
        port = parts.port
    except ValueError:
        raise refuse.input(hide_password(text), "the port must be a number from 1 to 65,535", brackets) from None
    if parts.scheme not in ("mysql", "mariadb") or not text.partition(":")[2].startswith("//") or parts.fragment:
        raise refuse.input(hide_password(text), rule, "For example mysql://watcher@db.example:3306/shop")
    if parts.password is not None:
        rule = "holds a password, which every user of this machine could read in the list of processes"
        hint = f"Give it in {PASSWORD_VARIABLE}, in an option file (--defaults-file), or at the prompt; and change this one."
        raise refuse.input(hide_password(text), rule, hint)
    query = _parse_query(text, parts.query)
    if port == 0:
        raise refuse.input(hide_password(text), "the port must be a number from 1 to 65,535")
    path = unquote(parts.path.removeprefix("/"))
    if "/" in path:
        raise refuse.input(
            hide_password(text), f"the database is one name: {FORM}", "A socket is named by ?socket=PATH."
        )
    return {
        "user": unquote(parts.username) if parts.username else None,
        "host": unquote(parts.hostname) if parts.hostname else None,
        "port": port,
        "socket": query.get("socket"),
        "database": path or None,
        "ssl-mode": query.get("ssl-mode"),
        "ssl-ca": query.get("ssl-ca"),
    }


def _parse_query(text: str, query: str) -> dict[str, str]:
    """Parses the part behind ? into values by the names of PARAMETERS. `text`: the whole address,
    for errors. Raises InputError."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise refuse.input(hide_password(text), "what stands behind ? is not KEY=VALUE&KEY=VALUE") from None
    values: dict[str, str] = {}
    for key, value in pairs:
        name = key.lower().replace("_", "-")
        if name not in PARAMETERS:
            if name.startswith("pass") or name == "pwd":
                hint = f"Give it in {PASSWORD_VARIABLE} or an option file; and change this one."
                raise refuse.input(hide_password(text), "holds a password", hint)
            what, rule = f"?{key[:40]}= in {hide_password(text)}", f"must be one of {', '.join(PARAMETERS)}"
            raise refuse.input(what, rule, suggest_nearest(name, PARAMETERS))
        if name in values or not value:
            raise refuse.input(f"?{name}= in {hide_password(text)}", "needs one value")
        values[name] = value
    return values


def _check_address(text: str, values: dict, password: Secret | None) -> Address:
    """Returns the address with these values, once all are valid. `text`: the address as typed,
    without a password, for errors. Raises InputError."""
    user, host, port, socket = values["user"], values["host"], values["port"], values["socket"]
    if not user:
        raise refuse.input(text, "names no user", f"{FORM}; or user= under [client] of the option file.")
    if len(user) > MAX_USER or not user.isprintable():
        raise refuse.input(text, f"the user is 1 to {MAX_USER} printable characters")
    if socket is None and host is None:
        raise refuse.input(text, "names neither a host nor a socket", "A local server: ?socket=/run/mysqld/mysqld.sock")
    if socket is not None and host is not None:
        raise refuse.input(text, "names a host and a socket", f"One of them: {FORM}")
    if host is not None and (len(host) > MAX_HOST or not HOST.match(host)):
        raise InputError(text, "the host is a name or an IP address", "RFC 1123")
    if socket is not None and (
        not socket.startswith("/") or len(os.fsencode(socket)) > MAX_SOCKET_BYTES or "\0" in socket
    ):
        raise InputError(socket[:200], f"a socket is an absolute path of at most {MAX_SOCKET_BYTES} bytes", "unix(7)")
    database = values["database"]
    mode, authority = _check_ssl(text, values["ssl-mode"], values["ssl-ca"])
    port = None if host is None else int(port or DEFAULT_PORT)
    return Address(
        user, host, port, socket, None if database is None else _check_database(database), password, mode, authority
    )


def _check_database(name: str) -> str:
    """Returns the name of a database. Raises InputError for an empty, too long or impossible
    one."""
    if not name or len(name) > MAX_DATABASE or "\0" in name:
        raise refuse.input(f"database {name[:70]!r}", f"a database's name has 1 to {MAX_DATABASE} characters")
    return name


def _check_ssl(text: str, mode: str | None, authority: str | None) -> tuple[str, str | None]:
    """Returns the TLS mode, and the CA's file in full or None. Raises InputError if the mode is
    unknown, or mode and CA do not fit together."""
    mode = (mode or ("VERIFY_CA" if authority else "PREFERRED")).upper().replace("-", "_")
    check_choice("ssl-mode", mode, SSL_MODES, refuse_ssl)
    if authority is None:
        if mode == "VERIFY_CA":
            rule = "ssl-mode=VERIFY_CA needs the CA that signed the server's certificate"
            raise refuse_ssl.input(text, rule, "Add ssl-ca=FILE.pem.")
        return mode, None
    if mode not in ("VERIFY_CA", "VERIFY_IDENTITY"):
        raise refuse_ssl.input(text, f"ssl-ca is not used with ssl-mode={mode}", "Use VERIFY_CA or VERIFY_IDENTITY.")
    if not os.path.isfile(authority):
        raise refuse.input(authority, "ssl-ca names no file", "Name the PEM file of the CA.")
    return mode, os.path.abspath(authority)


def build_client_text(address: Address) -> str:
    """Returns an option file with address and password, which tools read alone
    (--defaults-file)."""
    lines = ["[client]", f"user={quote_value(address.user)}"]
    if address.password is not None:
        lines.append(f"password={quote_value(address.password.reveal())}")
    if address.socket is not None:
        lines.append(f"socket={quote_value(address.socket)}")
    else:
        lines += [f"host={quote_value(address.host or '')}", f"port={address.port or DEFAULT_PORT}", "protocol=tcp"]
    lines += _make_ssl_options(address)
    # Only the interactive client knows `database`; the others refuse an unknown option in [client].
    lines += [] if address.database is None else ["[mysql]", f"database={quote_value(address.database)}"]
    return "\n".join(lines) + "\n"


def write_client_file(address: Address, path: str | os.PathLike) -> Path:
    """Writes the text of `build_client_text` to the file `path` (mode 0600) and returns the path.

    Raises CouldNotRun if it cannot be written.
    """
    path = Path(path)
    with explain_unwritable(path, "Choose a folder of your own."):
        replace_file(path, build_client_text(address).encode())
    return path


def _make_ssl_options(address: Address) -> list[str]:
    """Returns the lines of an option file with the TLS options of an address: MariaDB's clients
    lack ssl-mode, MySQL's ssl-verify-server-cert."""
    if address.ssl_mode == "PREFERRED" and address.socket is not None:
        return []
    if address.ssl_mode == "PREFERRED":
        # MySQL's clients prefer TLS by themselves. MariaDB's before 11.4 use it only if they are
        # told to, later ones refuse a server without a certificate that they can check.
        return ["[client-mariadb]", "ssl", "skip-ssl-verify-server-cert"]
    lines = [f"loose-ssl-mode={address.ssl_mode}"]
    if address.ssl_ca is not None:
        lines.append(f"ssl-ca={quote_value(address.ssl_ca)}")
    if address.ssl_mode == "DISABLED":
        return [*lines, "[client-mariadb]", "skip-ssl"]
    verify = ["ssl-verify-server-cert"] if address.ssl_mode == "VERIFY_IDENTITY" else []
    return [*lines, "[client-mariadb]", "ssl", *verify]
