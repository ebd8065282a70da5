"""The server that is copied: its identity, its position, and its tools."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import CouldNotRun, Refusals
from headrace.mysql import Address, build_client_text, connect
from headrace.mysql.dialect import Dialect
from headrace.mysql.gtid import GtidSet
from headrace.mysql.privileges import SYSTEM
from headrace.mysql.state import parse_version
from headrace.mysql.statements import Row, SqlConnection, ask, get_error_number, get_error_words
from headrace.servers.copies.position import BinlogPosition
from headrace.servers.flavors import ServerProgram, find_program

if TYPE_CHECKING:
    from headrace.servers.server import Server

refuse = Refusals("docs/guide/backups.md")
# An answer of a busy server, s: a guess. Statements that wait for locks have their own deadlines.
ANSWER_S = 60.0


@dataclass(frozen=True)
class CopySource:
    """A server to be copied. `id`: its UUID (MySQL) or `server-` and its server_id (MariaDB).
    `engines`: of the users' tables. `server`: the lab's server, None for a server elsewhere."""

    address: Address
    name: str
    flavor: str
    version_text: str
    version: tuple[int, ...]
    id: str
    log_bin: bool
    engines: tuple[str, ...]
    server: Server | None = None

    @property
    def dialect(self) -> Dialect:
        """The statements of its flavor and version."""
        return Dialect(self.flavor, self.version)

    def connect(self, timeout_s: float = ANSWER_S) -> SqlConnection:
        """Returns a new connection. `timeout_s`: longest wait for each answer."""
        return connect(self.address, timeout_s)

    def find_server_program(self) -> ServerProgram:
        """Returns the program of its flavor, whose tools can copy it. Raises CouldNotRun."""
        return find_program(self.flavor, self.server.server_path if self.server else None)

    def find_tool(self, *names: str) -> tuple[str, ...]:
        """Returns a tool's command, by its first name that is installed. Raises CouldNotRun."""
        return self.find_server_program().find_tool(*names)


@contextmanager
def make_client_file(address: Address, before: str = "", behind: str = "") -> Iterator[Path]:
    """Writes an option file for tools, with the account of an address between the texts `before`
    and `behind`, and yields its path. It is in memory, and this user's alone."""
    handle = os.memfd_create("client.cnf", os.MFD_CLOEXEC)
    try:
        os.fchmod(handle, 0o600)
        os.write(handle, f"{before}{build_client_text(address.with_database(None))}{behind}".encode())
        yield Path(f"/proc/{os.getpid()}/fd/{handle}")
    finally:
        os.close(handle)


def read_source(address: Address, name: str, server: Server | None = None) -> CopySource:
    """Connects to a server, and returns it as a source with its flavor, version, identity and
    engines. Raises InputError, CouldNotRun."""
    with connect(address, ANSWER_S) as connection:
        (version_text, log_bin, server_id), *_ = fetch_rows(connection, "SELECT @@version, @@log_bin, @@server_id")
        flavor, numbers = parse_version(version_text)
        identity = f"server-{server_id}"
        if flavor == "mysql":
            identity = str(fetch_rows(connection, "SELECT @@server_uuid")[0][0]).lower()
        engines = fetch_rows(
            connection,
            "SELECT DISTINCT engine FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
            "AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')",
        )
    kinds = tuple(sorted(str(row[0]) for row in engines if row[0]))
    return CopySource(address, name, flavor, version_text, numbers, identity, bool(log_bin), kinds, server)


def fetch_rows(connection: SqlConnection, statement: str) -> list[Row]:
    """Runs a statement and returns its rows. Raises CouldNotRun with the server's error."""
    import pymysql

    try:
        return ask(connection, statement)
    except pymysql.err.MySQLError as error:
        value = statement if len(statement) < 80 else f"{statement[:77]}..."
        rule, source = f"the server refused it: {get_error_words(error)}", f"error {get_error_number(error)}"
        raise CouldNotRun(value, rule, source, f"See the grants: {refuse.source}") from None


def read_executed(connection: SqlConnection, source: CopySource) -> GtidSet:
    """Returns the GTIDs that a server has executed, of MariaDB those applied and its own."""
    gtids = GtidSet(source.flavor)
    for value in fetch_rows(connection, source.dialect.query_executed())[0]:
        gtids = gtids.union(GtidSet.parse(str(value or ""), source.flavor))
    return gtids


def read_position(connection: SqlConnection, source: CopySource) -> BinlogPosition:
    """Returns the present position of a server; it is exact only while nothing is written."""
    gtids = str(read_executed(connection, source))
    if not source.log_bin:
        return BinlogPosition(gtids)
    positions = fetch_rows(connection, source.dialect.query_binary_log_position())
    return BinlogPosition(gtids, str(positions[0][0]), int(positions[0][1])) if positions else BinlogPosition(gtids)


def list_databases(connection: SqlConnection) -> list[str]:
    """Lists the databases that the account sees, without those of the system."""
    return [str(row[0]) for row in fetch_rows(connection, "SHOW DATABASES") if str(row[0]).lower() not in SYSTEM]


def estimate_data_bytes(connection: SqlConnection, names: Sequence[str] | None = None) -> int:
    """Estimates the bytes of the data, or of databases `names`, by the server's statistics."""
    text = "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables"
    text += f" WHERE table_schema IN ({_quote_texts(names)})" if names else ""
    return int(fetch_rows(connection, text)[0][0])


def count_tables(connection: SqlConnection, names: Sequence[str]) -> int:
    """Counts the tables of databases, without views."""
    if not names:
        return 0
    text = "SELECT COUNT(*) FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
    return int(fetch_rows(connection, f"{text} AND table_schema IN ({_quote_texts(names)})")[0][0])


def _quote_texts(names: Sequence[str]) -> str:
    """Returns names as SQL literals in hexadecimal, so that no quote in a name ends the literal."""
    return ", ".join(f"CONVERT(X'{name.encode().hex()}' USING utf8mb4)" for name in names)


def count_physical_bytes(server: Server) -> int:
    """Returns the bytes that the files of a server's data directory take on its volume."""
    total = 0
    for top, _, files in os.walk(server.paths.datadir):
        for file in files:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(top, file)).st_blocks * 512
    return total
