"""The connection to a server of a replication experiment, for statements and counters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace

from headrace.errors import CouldNotRun
from headrace.mysql import connect
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import observe, read_dialect
from headrace.mysql.statements import ask_named_safely, run
from headrace.servers import Server
from headrace.servers.topology import accounts

# Statements of a replica that reads a slow volume wait for it; a guess.
ANSWER_S = 120.0


class Statements:
    """One connection to a server, as the account of Headrace. `with Statements(server) as sql:`"""

    def __init__(self, server: Server) -> None:
        self.server, self.mariadb = server, server.flavor == "mariadb"
        self.connection = connect(server.make_address(), ANSWER_S)
        self.dialect = read_dialect(self.connection)

    def __enter__(self) -> Statements:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def ask_rows(self, statement: str) -> list[dict]:
        """Runs a statement and returns its rows. Raises CouldNotRun with the server's message."""
        return ask_named_safely(self.connection, statement)

    def run(self, statements: Iterable[str]) -> None:
        """Runs statements, one after the other."""
        run(self.connection, tuple(statements))

    def create_account(self) -> None:
        """Creates an account for replicas: it may read the binary log over TLS and nothing else."""
        accounts.create_account(self.server.paths, self.connection, self.dialect, self.server.host)

    def follow(self, source: Server, port: int | None = None) -> None:
        """Points the server at a source on this machine, over TLS, without starting to receive;
        `port` is that of a relay before the source. The source's CA is left out: a replica has no
        folder for the CA of another server."""
        source_account = replace(accounts.make_source_options(self.server.paths, source), ssl_ca=None)
        self.run(self.dialect.point_at(source_account if port is None else replace(source_account, port=port)))

    def read_status(self) -> dict[str, float]:
        """Returns the counters of SHOW GLOBAL STATUS, by name in small letters."""
        counters = {}
        for row in self.ask_rows("SHOW GLOBAL STATUS"):
            with contextlib.suppress(ValueError):
                counters[row["Variable_name"].lower()] = float(row["Value"])
        return counters

    def count_received(self) -> int:
        """Returns the number of transactions in the relay log, or applied already. Raises
        CouldNotRun where a thread ended with an error."""
        state = observe(self.connection, self.server.name)
        for channel in state.channels:
            if error := channel.receive_error or channel.apply_error:
                raise CouldNotRun(self.server.name, f"replication ended: {error[:300]}", "")
        return sum(channel.received.count() for channel in state.channels)

    def count_done(self) -> int:
        """Returns the number of transactions that the server has executed, its own and applied
        ones."""
        row = self.ask_rows(self.dialect.query_executed())[0]
        sets = [GtidSet.parse(str(value or ""), self.server.flavor) for value in row.values()]
        return max(gtids.count() for gtids in sets)
