"""Holding back the commits of a server for a moment, and reading its position meanwhile.

MariaDB 10.4 and later: BACKUP STAGE START and BLOCK_COMMIT: reads and statements go on, commits
wait. MySQL 8.0 and later: LOCK INSTANCE FOR BACKUP holds back changes of files, not commits, and
performance_schema.log_status names one instant of binary log and engines; FLUSH TABLES WITH READ
LOCK is added only where tables of MyISAM and the like have rows. Older servers: FLUSH TABLES WITH
READ LOCK.

The server lets go by itself: a lock that does not come within its time is given up, and the session
that holds it ends when it was not used for longer than it may be held, also when this process hangs
or the network is cut.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from dataclasses import dataclass

from headrace.errors import CouldNotRun, HeadraceError, InputError, Refusals
from headrace.mysql import Address, connect
from headrace.mysql.connection import cut
from headrace.mysql.dialect import Dialect
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import parse_version
from headrace.mysql.statements import NamedRow, SqlConnection, ask_named, get_error_number, get_error_words
from headrace.servers.copies.position import BinlogPosition

refuse = Refusals("docs/guide/consistent-snapshots.md")
# The first versions with them: MariaDB Server documentation, "BACKUP STAGE"; MySQL 8.0 reference
# manual, "LOCK INSTANCE FOR BACKUP" and "The log_status Table" (8.0.11).
BACKUP_STAGE, INSTANCE_LOCK = (10, 4), (8, 0, 11)
# Error numbers: lock wait timeout; access denied, in four forms; the session was killed or timed
# out (MySQL 8.4 "Server Error Message Reference"; the same in MariaDB).
NO_LOCK, DENIED, INTERRUPTED = 1205, (1044, 1142, 1227, 1095), (1317, 1927, 3024)
# Engines whose files a crash leaves consistent, or that have none that hold data of their own.
SAFE_ENGINES = ("InnoDB", "ROCKSDB", "MEMORY", "BLACKHOLE", "PERFORMANCE_SCHEMA", "SEQUENCE", "FEDERATED", "SPIDER")
SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")
# Beyond the time a lock may take, for the answer to arrive, s: a guess.
ANSWER_S = 5.0


@dataclass(frozen=True)
class ServerPosition:
    """The position of a server when its commits were held back. Every commit up to it is in the
    snapshot. `gtid`: everything it had executed; "" without GTIDs. `file`, `offset`: its binary
    log; "" and 0 without one. `replica_gtid`: what a MariaDB replica had applied. `lsn`: of MySQL's
    InnoDB. `exact`: no commit came between position and freeze, so nothing later is in the
    snapshot."""

    gtid: str = ""
    file: str = ""
    offset: int = 0
    replica_gtid: str = ""
    lsn: int | None = None
    exact: bool = False

    @property
    def text(self) -> str:
        """FILE:OFFSET, or ""."""
        return f"{self.file}:{self.offset}" if self.file else ""

    def make_binlog_position(self, flavor: str) -> BinlogPosition:
        """Returns the position from which this server's binary log goes on: all that is in its
        data is executed, written there or applied."""
        executed = GtidSet.parse(self.gtid, flavor).union(GtidSet.parse(self.replica_gtid, flavor))
        return BinlogPosition(str(executed), self.file, self.offset)


@dataclass(frozen=True)
class ServerFacts:
    """Facts of a server, read before it is locked. `numbers`: the version, as (8, 4, 3). `folders`:
    those of its files. `unsafe_tables`: some with rows that a crash may leave torn."""

    flavor: str
    version: str
    numbers: tuple[int, ...]
    hostname: str
    uuid: str
    server_id: int
    pid_file: str
    datadir: str
    folders: tuple[str, ...]
    unsafe_tables: tuple[str, ...]


class ServerLock:
    """A lock that holds back the commits of a server. It is a context: entering it connects, `take`
    locks, and leaving it ends the connection with its locks."""

    def __init__(
        self,
        address: Address,
        wait_s: float,
        hold_s: float,
        *,
        answer_s: float = ANSWER_S,
        exact: bool = False,
        options: bool = True,
    ) -> None:
        """Takes the server's address and the times of the lock, s. `wait_s`: longest wait for the
        lock. `hold_s`: the server ends an unused session after this. `answer_s`: longest wait for
        an answer beyond `wait_s`. `exact`: no commit comes after the position, and engines recover
        to it without the binary log. `options`: the user's command has --wait-lock and --hold."""
        self.address, self.wait_s, self.hold_s = address, wait_s, hold_s
        self.answer_s, self.exact, self.options = answer_s, exact, options
        self.facts: ServerFacts | None = None
        self.waited_ms = self.held_ms = 0.0
        self._connection: SqlConnection | None = None
        self._began = 0.0
        self._unlock = ""  # the statement that releases the lock
        self._instance_locked = False

    def __enter__(self) -> ServerLock:
        """Connects to the server and asks for its facts; nothing is locked yet. Raises InputError,
        CouldNotRun."""
        # One answer may wait for every lock that is taken before it comes.
        self._connection = connect(self.address, self.wait_s + self.answer_s)
        try:
            self.facts = self._ask_facts()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the connection, and with it every lock that it holds."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # Without a word: the server ends the session with its locks, even if it waits for them.
            cut(connection)

    def ask_rows(self, statement: str, *values: object) -> list[NamedRow]:
        """Returns the rows of a statement, by column name. Raises InputError for missing rights."""
        import pymysql

        if self._connection is None:
            raise refuse.run(self.address.label, "the connection is closed")
        try:
            return ask_named(self._connection, statement, values)
        except pymysql.err.MySQLError as error:
            raise self._translate_refusal(statement, error) from None

    def take(self) -> ServerPosition:
        """Holds back the server's commits, flushes its engines, and returns the position. Raises
        InputError, CouldNotRun; then the end of the context releases what is locked."""
        facts = self.facts
        assert facts is not None
        began = time.monotonic()
        wait, hold = max(1, math.ceil(self.wait_s)), max(1, math.ceil(self.hold_s))
        self.ask_rows(f"SET SESSION lock_wait_timeout = {wait}, SESSION wait_timeout = {hold}")
        self._began = time.monotonic()
        if facts.flavor == "mariadb" and facts.numbers >= BACKUP_STAGE:
            self.ask_rows("BACKUP STAGE START")
            self.ask_rows("BACKUP STAGE BLOCK_COMMIT")
            self._unlock, exact = "BACKUP STAGE END", True
        else:
            has_instance_lock = facts.flavor == "mysql" and facts.numbers >= INSTANCE_LOCK
            exact = self.exact or not has_instance_lock or bool(facts.unsafe_tables)
            if has_instance_lock:
                self.ask_rows("LOCK INSTANCE FOR BACKUP")
                self._instance_locked = True
            if exact:
                self.ask_rows("FLUSH TABLES WITH READ LOCK")
            self._unlock = "UNLOCK TABLES"
        self.waited_ms = (time.monotonic() - began) * 1e3
        position = self._read_position(facts, exact)
        # Commits up to the position may be in the server's memory alone, which no sync writes.
        setting = self.ask_rows("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit AS n")[0]["n"]
        for statement in Dialect(facts.flavor, facts.numbers).flush_engines(int(setting), self.exact):
            self.ask_rows(statement)
        return position

    def release(self) -> None:
        """Releases the lock, and sets `held_ms`. Raises CouldNotRun where the lock was not held
        until now."""
        try:
            self.ask_rows(self._unlock)
            if self._instance_locked:
                self.ask_rows("UNLOCK INSTANCE")
        except HeadraceError as error:
            rule = f"the lock was lost before the snapshot was complete: {error.rule}"
            hint = "Allow it more time: --hold." if self.options else "Is a volume paused, or far too slow?"
            raise refuse.run(self.address.label, rule, hint) from None
        finally:
            self.held_ms = (time.monotonic() - self._began) * 1e3

    # --- queries ----------------------------------------------------------------------------------

    def _ask_facts(self) -> ServerFacts:
        """Asks for the server's version, identity, folders and tables. Raises InputError,
        CouldNotRun."""
        names = ("version", "version_comment", "hostname", "server_id", "pid_file", "datadir", "server_uuid", *FOLDERS, *FILES)  # fmt: skip
        rows = self.ask_rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({_quote_texts(names)})")
        variables = {row["Variable_name"].lower(): row["Value"] or "" for row in rows}
        flavor, numbers = parse_version(variables["version"], variables.get("version_comment", ""))
        datadir = variables["datadir"]
        return ServerFacts(
            flavor=flavor,
            version=variables["version"],
            numbers=numbers,
            hostname=variables.get("hostname", ""),
            uuid=variables.get("server_uuid", ""),
            server_id=int(variables.get("server_id") or 0),
            pid_file=_make_absolute(variables.get("pid_file", ""), datadir),
            datadir=datadir,
            folders=tuple(dict.fromkeys([*_list_folders(variables, datadir), *self._list_outside_folders(datadir)])),
            unsafe_tables=self._list_unsafe_tables(flavor),
        )

    def _list_unsafe_tables(self, flavor: str) -> tuple[str, ...]:
        """Returns up to five tables with rows that a crash may leave torn."""
        if flavor == "mysql":
            # The statistics are cached for a day otherwise (MySQL 8.0 manual).
            with contextlib.suppress(CouldNotRun):
                self.ask_rows("SET SESSION information_schema_stats_expiry = 0")
        rows = self.ask_rows(
            "SELECT table_schema AS a, table_name AS b FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
            f" AND engine NOT IN ({_quote_texts(SAFE_ENGINES)}) AND table_schema NOT IN ({_quote_texts(SYSTEM)})"
            " AND (table_rows > 0 OR table_rows IS NULL) LIMIT 5"
        )
        return tuple(f"{row['a']}.{row['b']}" for row in rows)

    def _list_outside_folders(self, datadir: str) -> list[str]:
        """Returns the folders of tablespaces outside of `datadir`, created with DATA DIRECTORY;
        none if the account may not ask."""
        # MariaDB has the second, which says the same, from 10.6 on; MySQL before 8.0 the third.
        tables = (("path", "innodb_datafiles"), ("filename", "innodb_sys_tablespaces"), ("path", "innodb_sys_datafiles"))  # fmt: skip
        for column, table in tables:
            with contextlib.suppress(HeadraceError):
                rows = self.ask_rows(f"SELECT {column} AS p FROM information_schema.{table} WHERE {column} LIKE '/%'")
                return [row["p"].rpartition("/")[0] for row in rows if not row["p"].startswith(datadir)]
        return []

    def _read_position(self, facts: ServerFacts, exact: bool) -> ServerPosition:
        """Reads the position of the locked server. `exact`: no commit comes behind it. Raises
        InputError for rights that are missing, CouldNotRun."""
        if facts.flavor == "mysql" and facts.numbers >= INSTANCE_LOCK:
            row = self.ask_rows("SELECT local, storage_engines FROM performance_schema.log_status")[0]
            local, engines = json.loads(row["local"]), json.loads(row["storage_engines"])
            return ServerPosition(
                gtid=_normalise_gtids(local.get("gtid_executed") or "", "mysql"),
                file=local.get("binary_log_file") or "",
                offset=int(local.get("binary_log_position") or 0),
                lsn=(engines.get("InnoDB") or {}).get("LSN"),
                exact=exact,
            )
        # MySQL renamed it in 8.2, and has log_status by then.
        logs = self.ask_rows("SHOW MASTER STATUS")
        log = logs[0] if logs else {}
        if facts.flavor == "mysql":
            gtid, applied = log.get("Executed_Gtid_Set") or "", ""
        else:
            columns = "@@gtid_binlog_pos AS log, @@gtid_current_pos AS now, @@gtid_slave_pos AS applied"
            row = self.ask_rows(f"SELECT {columns}")[0]
            gtid, applied = (row["log"] if logs else row["now"]) or "", row["applied"] or ""
        return ServerPosition(
            gtid=_normalise_gtids(gtid, facts.flavor),
            file=log.get("File") or "",
            offset=int(log.get("Position") or 0),
            replica_gtid=_normalise_gtids(applied, facts.flavor),
            exact=exact,
        )

    def _translate_refusal(self, statement: str, error: Exception) -> HeadraceError:
        """Returns Headrace's error for a refused statement: InputError for missing rights."""
        code, label = get_error_number(error), self.address.label
        if code == NO_LOCK:
            rule = f"{statement} did not get its lock within {self.wait_s:g} s, and was given up; nothing is locked"
            hint = "A long statement, an ALTER or another backup holds it: see SHOW PROCESSLIST."
            hint += " Wait longer: --wait-lock." if self.options else ""
            return CouldNotRun(label, rule, "lock_wait_timeout", hint)
        if code in DENIED:
            user = self.address.user
            hint = f"GRANT RELOAD, REPLICATION CLIENT ON *.* TO {user}; on MySQL 8 also BACKUP_ADMIN, and SELECT ON performance_schema.log_status."
            rule = f"{user} may not {statement.split(' WHERE')[0][:60]}: {get_error_words(error, 160)}"
            return refuse.input(label, rule, hint)
        rule = f"{statement[:60]}: {get_error_words(error)}"
        return CouldNotRun(label, rule, f"error {code} of the server", "See its error log.")


# Variables that name folders, and variables that name files in a folder of interest.
FOLDERS = (
    "innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory", "innodb_doublewrite_dir",
    "innodb_directories", "aria_log_dir_path", "rocksdb_datadir", "rocksdb_wal_dir", "wsrep_data_home_dir",
)  # fmt: skip
FILES = ("log_bin_basename", "relay_log_basename")


def _list_folders(variables: dict[str, str], datadir: str) -> list[str]:
    """Lists the data directory, and the folders that a server's variables name, in full."""
    listed = [datadir]
    for name in FOLDERS:
        # innodb_directories is a list, with semicolons.
        listed += [_make_absolute(each.strip(), datadir) for each in variables.get(name, "").split(";") if each.strip()]
    listed += [_make_absolute(variables[name], datadir).rpartition("/")[0] for name in FILES if variables.get(name)]
    return listed


def _make_absolute(path: str, datadir: str) -> str:
    """Returns a path of the server in full: relative ones begin in its data directory."""
    return path if path.startswith("/") or not path else f"{datadir.rstrip('/')}/{path}"


def _normalise_gtids(gtids: str, flavor: str) -> str:
    """Returns a set of GTIDs in the form of GtidSet, or as the server wrote it if that cannot be
    parsed: no snapshot fails for it."""
    try:
        return str(GtidSet.parse(gtids, flavor))
    except InputError:
        return "".join(gtids.split())


def _quote_texts(texts: tuple[str, ...]) -> str:
    """Returns plain texts as SQL literals, with commas between."""
    return ", ".join(f"'{text}'" for text in texts)
