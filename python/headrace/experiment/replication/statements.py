"""The connection to a server of a replication experiment: statements of `servers.topology`, and
figures of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from pymysql.cursors import DictCursor

from headrace.connect import connect
from headrace.connect.address import Secret
from headrace.errors import CouldNotRun
from headrace.servers import Server
from headrace.servers.topology.dialect import SourceOf
from headrace.servers.topology.gtid import GtidSet
from headrace.servers.topology.state import dialect_of, observe

ACCOUNT = "headrace_repl"
HERE = "127.0.0.1"
# Statements of a replica that reads a slow volume wait for it; a guess.
ANSWER_S = 120.0


class Statements:
    """One connection to a server, as the account of Headrace. `with Statements(server) as sql:`"""

    def __init__(self, server: Server) -> None:
        self.server, self.mariadb = server, server.flavor == "mariadb"
        self.connection = connect(server.address(), ANSWER_S)
        self.dialect = dialect_of(self.connection)

    def __enter__(self) -> Statements:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def rows(self, statement: str) -> list[dict]:
        """The rows of an answer. Raises CouldNotRun with the server's words."""
        import pymysql

        try:
            with self.connection.cursor(DictCursor) as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        except pymysql.err.MySQLError as error:
            said = str(error.args[-1] if error.args else error)[:200]
            verb = " ".join(statement.split()[:2])
            raise CouldNotRun(self.server.name, f"the server refused: {said}", verb) from None

    def run(self, statements: Iterable[str]) -> None:
        """One after the other."""
        for statement in statements:
            self.rows(statement)

    def create_account(self) -> Secret:
        """An account that may read the binary log over TLS and nothing else; its password."""
        password = Secret(secrets.token_urlsafe(24))
        self.run(self.dialect.replication_account(ACCOUNT, HERE, password))
        return password

    def follow(self, port: int, password: Secret) -> None:
        """Points it at a source on this machine; nothing is received yet."""
        self.run(self.dialect.point_at(SourceOf(HERE, port, ACCOUNT, password)))

    def received(self) -> int:
        """Transactions in the relay log, or applied already. Raises CouldNotRun where a thread
        ended with an error."""
        state = observe(self.connection, self.server.name)
        for channel in state.channels:
            if said := channel.receive_error or channel.apply_error:
                raise CouldNotRun(self.server.name, f"replication ended: {said[:300]}", "")
        return sum(channel.received.count() for channel in state.channels)

    def done(self) -> int:
        """Transactions of its own binary log and those it applied."""
        row = self.rows(self.dialect.executed())[0]
        sets = [GtidSet.parse(str(value or ""), self.server.flavor) for value in row.values()]
        return max(one.count() for one in sets)
