"""The few statements of replication that a measurement needs, by flavor."""

from __future__ import annotations

import re
import secrets

from pymysql.cursors import DictCursor

from headrace.connect import connect
from headrace.errors import CouldNotRun
from headrace.servers import Server

ACCOUNT = "headrace_repl"
# Statements of a replica that reads a slow volume wait for it.
ANSWER_S = 120.0


class Statements:
    """One connection to a server, as the account of Headrace. `with Statements(server) as sql:`"""

    def __init__(self, server: Server) -> None:
        self.server, self.mariadb = server, server.flavor == "mariadb"
        self.connection = connect(server.address(), ANSWER_S)

    def __enter__(self) -> Statements:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def rows(self, statement: str, *values: object) -> list[dict]:
        """The rows of an answer. Raises CouldNotRun with the server's words."""
        import pymysql

        try:
            with self.connection.cursor(DictCursor) as cursor:
                cursor.execute(statement, values or None)
                return list(cursor.fetchall())
        except pymysql.err.MySQLError as error:
            said = str(error.args[-1] if error.args else error)[:200]
            raise CouldNotRun(self.server.name, f"the server refused: {said}", statement.split("\n")[0][:40]) from None

    def value(self, statement: str) -> str:
        """The first value of the answer."""
        return str(next(iter(self.rows(statement)[0].values())))

    # --- source -----------------------------------------------------------------------------------

    def create_account(self) -> str:
        """An account that may replicate and nothing else; its password."""
        password = secrets.token_urlsafe(24)
        who = f"'{ACCOUNT}'@'127.0.0.1'"
        self.rows("SET SESSION sql_log_bin = 0")
        self.rows(f"CREATE USER {who} IDENTIFIED BY %s REQUIRE SSL", password)
        self.rows(f"GRANT REPLICATION SLAVE ON *.* TO {who}")
        self.rows("SET SESSION sql_log_bin = 1")
        return password

    def written(self) -> int:
        """Transactions in the source's binary log."""
        return number_of(
            self.value("SELECT @@global.gtid_binlog_pos" if self.mariadb else "SELECT @@global.gtid_executed")
        )

    # --- replica ----------------------------------------------------------------------------------

    def follow(self, port: int, password: str) -> None:
        """Points it at a source on this machine; nothing is received yet."""
        if self.mariadb:
            text = "CHANGE MASTER TO master_host='127.0.0.1', master_port=%s, master_user=%s, master_password=%s, "
            text += "master_ssl=1, master_use_gtid=slave_pos"
        else:
            text = "CHANGE REPLICATION SOURCE TO source_host='127.0.0.1', source_port=%s, source_user=%s, "
            text += "source_password=%s, source_ssl=1, source_auto_position=1"
        self.rows(text, port, ACCOUNT, password)

    def receive(self) -> None:
        self.rows("START SLAVE IO_THREAD" if self.mariadb else "START REPLICA IO_THREAD")

    def apply(self) -> None:
        self.rows("START SLAVE SQL_THREAD" if self.mariadb else "START REPLICA SQL_THREAD")

    def stop_applying(self) -> None:
        self.rows("STOP SLAVE SQL_THREAD" if self.mariadb else "STOP REPLICA SQL_THREAD")

    def status(self) -> dict:
        """The replica's own status. Raises CouldNotRun when a thread ended with an error."""
        row = self.rows("SHOW SLAVE STATUS" if self.mariadb else "SHOW REPLICA STATUS")[0]
        for key in ("Last_IO_Error", "Last_SQL_Error"):
            if row.get(key):
                raise CouldNotRun(self.server.name, f"replication ended: {row[key][:300]}", key)
        return row

    def received(self) -> int:
        """Transactions in the relay log, or applied already."""
        row = self.status()
        return number_of(row["Gtid_IO_Pos"] if self.mariadb else row["Retrieved_Gtid_Set"])

    def applied(self) -> int:
        """Transactions applied."""
        return number_of(
            self.value("SELECT @@global.gtid_slave_pos" if self.mariadb else "SELECT @@global.gtid_executed")
        )


def number_of(position: str) -> int:
    """Transactions of a GTID position: MariaDB's 0-1-57 and MySQL's uuid:1-57 are both 57.

    Of a set with gaps (workers out of order), all of its intervals.
    """
    text = re.sub(r"\s", "", position or "")
    if not text:
        return 0
    if ":" not in text:
        return sum(int(part.rpartition("-")[2]) for part in text.split(","))
    found = 0
    for piece in re.findall(r":(\d+(?:-\d+)?)", text):
        first, _, last = piece.partition("-")
        found += int(last or first) - int(first) + 1
    return found
