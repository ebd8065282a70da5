"""The account Headrace has on a server of its own: `headrace`, with a random password in a file only root may read.

The server gets it by --init-file at its first start, before it lets anyone in; that file is gone once the server is ready.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.connect.address import Address, Secret, write_client_file
from headrace.connect.option_file import read_client
from headrace.errors import CouldNotRun
from headrace.servers.places import Places
from headrace.servers.process import User

ACCOUNT = "headrace"
PASSWORD_BYTES = 24


def create(where: Places) -> None:
    """A new password, in the client's option file. Raises CouldNotRun."""
    # URL-safe Base64: nothing in it needs quotes, in SQL or in an option file.
    password = Secret(secrets.token_urlsafe(PASSWORD_BYTES))
    write_client_file(Address(ACCOUNT, socket=str(where.socket), password=password), where.client)


def address(where: Places, port: int | None, database: str | None = None) -> Address:
    """How to reach the server: by its socket, or at `port` over TLS. Raises CouldNotRun, InputError."""
    password = Secret(read_client(where.client).get("password", ""))
    if port is None:
        found = Address(ACCOUNT, socket=str(where.socket), password=password)
    else:
        found = Address(ACCOUNT, host="127.0.0.1", port=port, password=password, ssl_mode="VERIFY_CA", ssl_ca=str(where.tls / "ca.pem"))
    return found if database is None else found.with_database(database)


def statements(password: str, flavor: str) -> str:
    """One statement a line, as --init-file wants them; done again they change nothing but the password. Not in the binary log: it holds what replicas do."""
    lines = ["SET SESSION sql_log_bin=0;"]
    for host, tls in (("localhost", ""), ("127.0.0.1", " REQUIRE SSL")):
        account = f"'{ACCOUNT}'@'{host}'"
        lines += [
            f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{password}'{tls};",
            f"ALTER USER {account} IDENTIFIED BY '{password}'{tls};",
            f"GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION;",
        ]
    if flavor == "mysql":
        # --initialize-insecure leaves root without a password. MariaDB's root is that of the system (unix_socket).
        lines.append("ALTER USER IF EXISTS 'root'@'localhost' ACCOUNT LOCK;")
    return "\n".join(lines) + "\n"


@contextmanager
def init_file(where: Places, flavor: str, user: User) -> Iterator[Path]:
    """The statements in a file only the server may read, for as long as it starts."""
    path = where.socket.with_name("init.sql")
    text = statements(read_client(where.client)["password"], flavor)
    try:
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400), "w") as file:
            os.fchown(file.fileno(), user.uid, user.gid)
            file.write(text)
    except OSError as error:
        raise CouldNotRun(str(path), f"cannot be written: {error.strerror}", "", "Is there room in /run?") from None
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
