"""Accounts for replication between servers of a lab: an account of its own on each server, its
password in a file that only root may read, and the servers' certificate authorities.

The account may read the binary log over TLS and nothing else. It is not replicated: each server has
its own, so a replica can become a source without a change of accounts.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import shutil
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from headrace.base.files import explain_unwritable
from headrace.mysql import connect
from headrace.mysql.address import Address, Secret, write_client_file
from headrace.mysql.dialect import Dialect, SourceOf, refuse
from headrace.mysql.option_files import read_client
from headrace.mysql.statements import SqlConnection, run
from headrace.servers import access
from headrace.servers.record import ServerPaths

if TYPE_CHECKING:
    from headrace.servers.server import Server

ACCOUNT = "headrace_repl"
FILE = "replication.cnf"
ASK_S = 30.0  # a guess: a statement that takes longer meets a volume that is paused, or a lock


def create_account(where: ServerPaths, connection: SqlConnection, dialect: Dialect, host: str) -> None:
    """Creates the account for replicas on a server, and stores its password, if it has none yet, in
    a file. `host`: the server's address; replicas are on this machine or in the lab's network."""
    path = where.state / FILE
    if path.exists():
        password = Secret(read_client(path).get("password", ""))
    else:
        password = Secret(secrets.token_urlsafe(access.PASSWORD_BYTES))
        write_client_file(Address(ACCOUNT, host, 1, password=password), path)
    pattern = host if ipaddress.ip_address(host).is_loopback else f"{host.rpartition('.')[0]}.%"
    run(connection, dialect.create_replication_account(ACCOUNT, pattern, password))


def make_source_options(
    replica: ServerPaths, source: Server, position: str | tuple[str, int] = "gtid", channel: str = "", delay_s: int = 0
) -> SourceOf:
    """Returns the options with which a server follows another server of the lab, and copies the
    source's certificate authority to where the replica reads it. `position`: gtid, or a file and
    offset. Raises InputError for a source without a port or account."""
    if source.port is None:
        hint = f"headrace replica up ... --of {source.name} --prepare-source gives it one, with a restart."
        raise refuse.input(source.name, "has no port, so no replica can reach it", hint)
    file = source.paths.state / FILE
    if not file.exists():
        rule = "has no account for replicas yet"
        raise refuse.input(source.name, rule, f"headrace replica up ... --of {source.name} makes it.")
    authority = replica.tls / access.AUTHORITY.format(name=source.name)
    with explain_unwritable(authority, "Is there room?", refuse.source):
        replica.tls.mkdir(mode=0o700, exist_ok=True)
        shutil.copyfile(source.paths.tls / "ca.pem", authority)
        copy = replica.keys / authority.name
        if replica.keys.is_dir():
            shutil.copyfile(authority, copy)
            os.chown(copy, 0, access.find_service_user().gid)
            os.chmod(copy, 0o640)
    password = Secret(read_client(file).get("password", ""))
    return SourceOf(
        source.host, source.port, ACCOUNT, password, str(replica.keys / authority.name), position, channel, delay_s
    )


def is_ours(authority: str) -> bool:
    """Returns whether `make_source_options` placed the file of an authority for a single source."""
    return PurePosixPath(authority).match(access.AUTHORITY.format(name="*"))


def open_connection(server: Server, timeout_s: float = ASK_S) -> SqlConnection:
    """Returns a new connection by a server's socket, which needs no network."""
    return connect(server.make_address(), timeout_s)
