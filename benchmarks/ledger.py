"""Ledger of acknowledged commits, noted outside the server and compared with its tables after a
crash.

Every client commits transactions numbered 1, 2, 3 ..., each of which adds a row and moves the
client's counter in another table. So of each client there must be, after any crash, all rows up to
some number and a counter that says the same number: anything else is a torn transaction. A client
waits for each acknowledgement before it goes on, so at most one transaction beyond the last that
was acknowledged may be there.
"""

from __future__ import annotations

import bisect
import contextlib
import threading
import time
from dataclasses import dataclass, field

from headrace.servers import Address, connect

SCHEMA = "headrace_ledger"
ANSWER_S = 60.0  # a guess: a server that recovers takes seconds
# Long enough that commits fill redo and binary log as those of an application do.
PAYLOAD = "x" * 200


@dataclass
class Client:
    """A client's notes: `acknowledged[n - 1]` is when (Unix seconds) transaction n was."""

    number: int
    acknowledged: list[float] = field(default_factory=list)
    error: str | None = None


@dataclass(frozen=True)
class Loss:
    """Loss of all clients together, in transactions: `acknowledged` by the moment of the crash,
    `there` afterwards, `lost` of the acknowledged, `lost_s`: how long before the crash the oldest
    lost one was acknowledged (0: none was lost), `torn`: what is there and should not be, in
    words."""

    acknowledged: int
    there: int
    lost: int
    lost_s: float
    torn: tuple[str, ...]


class Ledger:
    """Clients that commit as fast as they are answered, each in a thread, from `start` until
    `stop`, or until the server is gone."""

    def __init__(self, address: Address, clients: int = 8) -> None:
        self.address = address
        self.clients = [Client(number) for number in range(1, clients + 1)]
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def create(self) -> None:
        """Creates the ledger's two tables, in a schema of their own, in the server's default
        engine. Raises InputError, CouldNotRun."""
        rows = ", ".join(f"({client.number}, 0)" for client in self.clients)
        self._do(
            f"DROP DATABASE IF EXISTS {SCHEMA}",
            f"CREATE DATABASE {SCHEMA}",
            (
                f"CREATE TABLE {SCHEMA}.entries (client INT NOT NULL, number INT NOT NULL, payload VARCHAR(255) NOT "
                "NULL, PRIMARY KEY (client, number))"
            ),
            f"CREATE TABLE {SCHEMA}.counters (client INT NOT NULL PRIMARY KEY, number INT NOT NULL)",
            f"INSERT INTO {SCHEMA}.counters VALUES {rows}",
        )

    def start(self) -> None:
        """Starts every client. A client that finds no server ends at once, and says so in
        `error`."""
        self._threads = [
            threading.Thread(target=self._commit_on, args=(client,), daemon=True) for client in self.clients
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 2 * ANSWER_S) -> None:
        """Ends every client; those whose server is gone have ended."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout_s)
        self._threads = []
        self._stop.clear()

    @property
    def acknowledged(self) -> int:
        """Commits so far."""
        return sum(len(client.acknowledged) for client in self.clients)

    def _commit_on(self, client: Client) -> None:
        number = len(client.acknowledged)
        # Errors that end a connection are the server's end (pymysql's errors), or one of headrace's
        # own about having none.
        with contextlib.suppress(Exception):
            try:
                connection = connect(self.address.with_database(SCHEMA), ANSWER_S)
                cursor = connection.cursor()
                cursor.execute("SET autocommit = 0")
                while not self._stop.is_set():
                    number += 1
                    cursor.execute("INSERT INTO entries VALUES (%s, %s, %s)", (client.number, number, PAYLOAD))
                    cursor.execute("UPDATE counters SET number = %s WHERE client = %s", (number, client.number))
                    cursor.execute("COMMIT")
                    client.acknowledged.append(time.time())
                connection.close()
            except BaseException as error:
                client.error = f"{type(error).__name__}: {error}"
                raise

    def check(self, crashed_at: float | None = None) -> Loss:
        """Holds the notes against the server.

        `crashed_at`: acknowledgements after it (Unix seconds) do not count: a machine without power
        would not have sent them.

        Raises InputError, CouldNotRun.
        """
        result = {
            client: (count, highest, counter)
            for client, count, highest, counter in self._do(
                f"SELECT c.client, COUNT(e.number), COALESCE(MAX(e.number), 0), c.number FROM {SCHEMA}.counters c "
                f"LEFT JOIN {SCHEMA}.entries e ON e.client = c.client GROUP BY c.client, c.number"
            )
        }
        acknowledged = there = lost = 0
        oldest, torn = None, []
        for client in self.clients:
            until = (
                len(client.acknowledged) if crashed_at is None else bisect.bisect_right(client.acknowledged, crashed_at)
            )
            count, highest, counter = result.get(client.number, (0, 0, 0))
            if not count == highest == counter:
                torn.append(f"client {client.number}: {count} rows, the highest {highest}, counter {counter}")
            if highest > len(client.acknowledged) + 1:
                torn.append(
                    f"client {client.number}: transaction {highest} is there, and the last that was sent was {len(client.acknowledged) + 1}"
                )
            acknowledged += until
            there += counter
            lost += max(0, until - counter)
            if counter < until:
                first = client.acknowledged[counter]
                oldest = first if oldest is None else min(oldest, first)
        end = (
            crashed_at
            if crashed_at is not None
            else max((client.acknowledged[-1] for client in self.clients if client.acknowledged), default=0.0)
        )
        return Loss(acknowledged, there, lost, 0.0 if oldest is None else max(0.0, end - oldest), tuple(torn))

    def go_on(self) -> None:
        """Takes what is there as the new beginning, after a crash that was checked. Raises
        InputError, CouldNotRun."""
        at = dict(self._do(f"SELECT client, number FROM {SCHEMA}.counters"))
        for client in self.clients:
            number = at.get(client.number, 0)
            # Times of what was before do not matter any more; the count does.
            client.acknowledged = (client.acknowledged + [0.0] * number)[:number]
            client.error = None

    def _do(self, *statements: str) -> tuple:
        with connect(self.address, ANSWER_S) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()
