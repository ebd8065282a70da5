"""A source that is written to while replicas are made of it, and the tables compared."""

from __future__ import annotations

import itertools
import threading
from contextlib import closing

from lab_servers import sql
from waiting import wait_until

from headrace import servers
from headrace.lab import Lab
from headrace.mysql import connect
from headrace.mysql.dialect import Dialect
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import ServerState, observe
from headrace.servers.server import Server

SMALL: dict[str, str | None] = {"innodb_buffer_pool_size": "64M"}
# s. Longer than a replica of a few thousand small transactions takes on a busy machine.
CATCH_UP_S = 120.0


# Each client of each writer has rows of its own.
CLIENTS = itertools.count(1)


class Writer:
    """Clients that change, insert and delete rows of shop.t and logs.t, until they are stopped."""

    def __init__(self, server: Server, clients: int = 2) -> None:
        self.server, self.clients = server, clients
        self.done = 0
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(next(CLIENTS),), daemon=True) for _ in range(clients)
        ]
        self._error: BaseException | None = None

    def __enter__(self) -> Writer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def _write(self, client: int) -> None:
        number = 0
        try:
            with closing(connect(self.server.make_address(), 60.0)) as connection, connection.cursor() as cursor:
                while not self._end.wait(0.002):
                    number += 1
                    cursor.execute("BEGIN")
                    cursor.execute(
                        "INSERT INTO shop.t (client, n, v) VALUES (%s, %s, REPEAT('x', 100))", (client, number)
                    )
                    cursor.execute("UPDATE shop.t SET v = UUID() WHERE client = %s AND n = %s", (client, number // 2))
                    cursor.execute("INSERT INTO logs.t (client, n, v) VALUES (%s, %s, '')", (client, number))
                    if number % 7 == 0:
                        cursor.execute("DELETE FROM shop.t WHERE client = %s AND n = %s", (client, number // 3))
                    cursor.execute("COMMIT")
                    self.done += 1
        except BaseException as error:  # shown where the test ends
            self._error = error


def new_source(lab: Lab, name: str, flavor: str, **more) -> Server:
    """A server with two databases, ready to be followed once it was restarted for that."""
    server = servers.bring_up(lab, name=name, flavor=flavor, storage="gp3:4", settings=SMALL, unpaced=True, **more)
    sql(server, *tables("shop"), *tables("logs"))
    return server


def tables(database: str) -> list[str]:
    create = "(client INT, n INT, v VARCHAR(200), PRIMARY KEY (client, n)) ENGINE=InnoDB"
    return [f"CREATE DATABASE IF NOT EXISTS {database}", f"CREATE TABLE IF NOT EXISTS {database}.t {create}"]


def state_of(server: Server) -> ServerState:
    with closing(connect(server.make_address(), 30.0)) as connection:
        return observe(connection, server.name)


def wait_for(server: Server, gtids: GtidSet) -> None:
    """Until a server has applied all of it."""
    dialect = Dialect(server.flavor, (10, 11, 0) if server.flavor == "mariadb" else (9, 7, 0))
    ((answer,),) = sql(server, dialect.wait_for(gtids, CATCH_UP_S), timeout_s=CATCH_UP_S + 30)
    assert answer == 0, state_of(server).channels


def checksums(server: Server, *databases: str) -> tuple:
    return sql(server, "CHECKSUM TABLE " + ", ".join(f"{database}.t" for database in databases or ("shop", "logs")))


def same_data(source: Server, *replicas: Server, databases: tuple[str, ...] = ("shop", "logs")) -> None:
    """Replicas catch up, and have every row as the source has it. Nobody may write meanwhile."""
    executed, expected = state_of(source).executed, checksums(source, *databases)
    assert all(result for _, result in expected), "the source has no rows to compare"
    for replica in replicas:
        wait_for(replica, executed)
        assert checksums(replica, *databases) == expected, (replica.name, state_of(replica).channels)


def until(holds, what: str, timeout_s: float = CATCH_UP_S) -> None:
    wait_until(holds, what, timeout_s)
