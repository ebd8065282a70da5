"""The statements of replication, by flavor and version.

    MariaDB 10.5 and later    CHANGE MASTER, SHOW ALL SLAVES STATUS; names of channels are literals
    MySQL 8.0.22 and later    CHANGE REPLICATION SOURCE, SHOW REPLICA STATUS; SHOW MASTER STATUS and
                              RESET MASTER got other names in 8.2 and 8.4

Older servers are only watched: `query_replica_status` has their statement, and for starting and
stopping threads statements are advised, not run.

Everything here is pure: text in, text out. Statements with a password must not be logged; servers
replace the password in their own logs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from headrace.base.checks import check_choice
from headrace.errors import Refusals
from headrace.mysql.address import Secret
from headrace.mysql.gtid import GtidSet

refuse = Refusals("docs/guide/replicas.md")
CHANNEL = re.compile(r"[A-Za-z0-9_]{0,64}", re.ASCII)  # both flavors take more; nobody needs it
FILTER_VALUE = re.compile(r"[^\s,`'\"\\()]{1,129}")
LOG_NAME = re.compile(r"[A-Za-z0-9_./-]{1,512}", re.ASCII)
# Kinds of filters and whether they name databases (else tables, as db.table).
FILTERS = {
    "replicate-do-db": True,
    "replicate-ignore-db": True,
    "replicate-do-table": False,
    "replicate-ignore-table": False,
    "replicate-wild-do-table": False,
    "replicate-wild-ignore-table": False,
}
# Seconds after which a source without writes shows that it lives, and seconds without a sign after
# which the replica gives the connection up: 60 s as shipped (slave_net_timeout), too long to watch
# lag by.
HEARTBEAT_S = 1.0
NET_TIMEOUT_S = 4
CONNECT_RETRY_S = 1
# MySQL gives up after 10 tries since 8.4.0 (SOURCE_RETRY_COUNT); a network may be away for a day.
RETRIES = 86_400

# State of a worker of MySQL that waits for an event; and of an applier without workers, by today's
# name and the one before 8.0.26 (MySQL manual, "Replication SQL Thread States"; seen on 9.7).
WAITS_FOR_MORE = (
    "Waiting for an event from Coordinator",
    "Replica has read all relay log; waiting for more updates",
    "Slave has read all relay log; waiting for more updates",
)


@dataclass(frozen=True)
class SourceOf:
    """Address, account and position with which a channel connects to its source. `position`:
    "gtid", or binary log file and offset. `ssl_ca`: a PEM file that the replica's server can read;
    None: TLS without a check of the certificate, or with `keeps_ca` by the authority that the
    channel has."""

    host: str
    port: int
    user: str
    password: Secret = field(repr=False)
    ssl_ca: str | None = None
    position: str | tuple[str, int] = "gtid"
    channel: str = ""
    delay_s: int = 0
    keeps_ca: bool = False


def quote_literal(text: str) -> str:
    """Returns a literal for sessions without NO_BACKSLASH_ESCAPES. Raises InputError."""
    if not text.isprintable():
        raise refuse.input(repr(text[:60]), "must be printable characters")
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def check_channel(channel: str) -> str:
    """Returns a channel's name if it is valid, "" for the default channel. Raises InputError."""
    if not CHANNEL.fullmatch(channel):
        rule = "a channel's name has at most 64 of A-Z, a-z, 0-9 and _"
        raise refuse.input(channel[:70], rule, "For example --channel orders.")
    return channel


def check_filters(filters: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Returns the filters if they are valid, by the names of FILTERS. Raises InputError."""
    for kind, values in filters.items():
        check_choice("filter", kind, FILTERS, refuse)
        for value in values:
            if not FILTER_VALUE.fullmatch(value) or ("." in value) == FILTERS[kind]:
                rule = "names a database" if FILTERS[kind] else "names a table as DATABASE.TABLE"
                raise refuse.input(f"{kind}={value[:70]!r}", f"{rule}, without spaces, commas and quotes")
    return filters


@dataclass(frozen=True)
class Dialect:
    """The statements that a server accepts. `version` as (10, 11, 19)."""

    flavor: str
    version: tuple[int, ...]

    @property
    def is_mariadb(self) -> bool:
        return self.flavor == "mariadb"

    # --- channels ---------------------------------------------------------------------------------

    def _make_replica_statement(self, verb: str, threads: str, channel: str) -> str:
        """Returns a statement that starts or stops (`verb`) the `threads` of a channel, "" for
        both."""
        check_channel(channel)
        if self.is_mariadb:
            return f"{verb} SLAVE {quote_literal(channel)}{' ' + threads if threads else ''}"
        return f"{verb} {self._replica_keyword}{' ' + threads if threads else ''} FOR CHANNEL {quote_literal(channel)}"

    @property
    def _replica_keyword(self) -> str:
        """The word for a replica in the statements of MySQL."""
        return "REPLICA" if self.version >= (8, 0, 22) else "SLAVE"

    def start(self, channel: str = "") -> tuple[str, ...]:
        """Returns statements that start both threads."""
        return (self._make_replica_statement("START", "", channel),)

    def stop(self, channel: str = "") -> tuple[str, ...]:
        """Returns statements that end both threads. MariaDB with GTID deletes its relay log at the
        next start (MDEV-4698): never use them on a candidate for promotion with unapplied
        transactions."""
        return (self._make_replica_statement("STOP", "", channel),)

    def start_receive(self, channel: str = "") -> tuple[str, ...]:
        """Returns statements that start the receive thread."""
        return (self._make_replica_statement("START", "IO_THREAD", channel),)

    def stop_receive(self, channel: str = "") -> tuple[str, ...]:
        """Returns statements that end the receive thread."""
        return (self._make_replica_statement("STOP", "IO_THREAD", channel),)

    def query_receiver(self, channel: str = "") -> str:
        """Returns a query for the receive thread's id; MariaDB does not distinguish channels."""
        if self.is_mariadb:
            return "SELECT id FROM information_schema.processlist WHERE command = 'Slave_IO'"
        return (
            "SELECT processlist_id FROM performance_schema.replication_connection_status JOIN performance_schema.threads"
            f" USING (thread_id) WHERE channel_name = {quote_literal(check_channel(channel))}"
        )

    def query_beats(self) -> tuple[str, str]:
        """Returns queries for the period of a source's heartbeats, s, and for the number of
        heartbeats that a replica has received."""
        if self.is_mariadb:
            name = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = "
            return f"{name}'slave_heartbeat_period'", f"{name}'slave_received_heartbeats'"
        place = "performance_schema.replication_connection"
        return (
            f"SELECT MAX(heartbeat_interval) FROM {place}_configuration",
            f"SELECT SUM(count_received_heartbeats) FROM {place}_status",
        )

    def query_busy_appliers(self, channel: str = "") -> str:
        """Returns MySQL's query for appliers within a transaction: the thread's id, the GTID, and 1
        if the thread waits for further events."""
        return (
            f"SELECT processlist_id, applying_transaction, processlist_state IN ({', '.join(map(quote_literal, WAITS_FOR_MORE))})"
            " FROM performance_schema.replication_applier_status_by_worker JOIN performance_schema.threads USING (thread_id)"
            f" WHERE channel_name = {quote_literal(check_channel(channel))} AND applying_transaction <> ''"
        )

    def query_coordinator(self, channel: str = "") -> str:
        """Returns a query of MySQL for the coordinator of a channel's workers, while it runs."""
        return (
            "SELECT 1 FROM performance_schema.replication_applier_status_by_coordinator"
            f" WHERE channel_name = {quote_literal(check_channel(channel))} AND service_state = 'ON'"
        )

    def forget_received(self, channel: str = "") -> tuple[str, ...]:
        """Returns statements that delete a channel's relay log and last errors (MySQL)."""
        return (f"RESET REPLICA FOR CHANNEL {quote_literal(check_channel(channel))}",)

    def start_apply(self, channel: str = "") -> tuple[str, ...]:
        """Returns statements that start the applier thread."""
        return (self._make_replica_statement("START", "SQL_THREAD", channel),)

    def stop_apply(self, channel: str = "") -> tuple[str, ...]:
        """Returns statements that end the applier thread."""
        return (self._make_replica_statement("STOP", "SQL_THREAD", channel),)

    def point_at(self, source: SourceOf) -> tuple[str, ...]:
        """Returns statements that create a channel to `source`, over TLS, or change a stopped one.
        The first takes NO_BACKSLASH_ESCAPES out of the session's sql_mode. Raises InputError for a
        channel or position that is not valid."""
        prefix = "MASTER" if self.is_mariadb else "SOURCE"
        values: dict[str, str | int | float] = {
            f"{prefix}_HOST": quote_literal(source.host),
            f"{prefix}_PORT": int(source.port),
            f"{prefix}_USER": quote_literal(source.user),
            f"{prefix}_PASSWORD": quote_literal(source.password.reveal()),
            f"{prefix}_SSL": 1,
            f"{prefix}_CONNECT_RETRY": CONNECT_RETRY_S,
            f"{prefix}_HEARTBEAT_PERIOD": HEARTBEAT_S,
            f"{prefix}_DELAY": int(source.delay_s),
        }
        if not source.keeps_ca:
            # A channel keeps options that are not named: the former source's authority would refuse
            # this source. MariaDB checks the host name if the second option is 1; certificates of
            # the lab name 127.0.0.1 only, and 0 still checks the authority if there is one.
            values[f"{prefix}_SSL_CA"] = quote_literal(source.ssl_ca or "")
            values[f"{prefix}_SSL_VERIFY_SERVER_CERT"] = 0
        if not self.is_mariadb:
            values["SOURCE_RETRY_COUNT"] = RETRIES
        values |= self._make_position_options(source.position, prefix)
        text = ", ".join(f"{name} = {value}" for name, value in values.items())
        name = quote_literal(check_channel(source.channel))
        if self.is_mariadb:
            return (*self.begin_session(), f"CHANGE MASTER {name} TO {text}")
        return (*self.begin_session(), f"CHANGE REPLICATION SOURCE TO {text} FOR CHANNEL {name}")

    def _make_position_options(self, position: str | tuple[str, int], prefix: str) -> dict[str, str | int]:
        """Returns the options of a channel's start: by GTID ("gtid"), or at file and offset (bytes)
        in the source's binary log. `prefix`: of their names, MASTER or SOURCE. Raises
        InputError."""
        if position == "gtid":
            return {"MASTER_USE_GTID": "slave_pos"} if self.is_mariadb else {"SOURCE_AUTO_POSITION": 1}
        file, offset = position
        if not isinstance(offset, int) or offset < 4 or not LOG_NAME.fullmatch(file):
            raise refuse.input(f"{file[:60]}:{offset}", "is FILE:OFFSET of a binary log, from offset 4")
        off = {"MASTER_USE_GTID": "no"} if self.is_mariadb else {"SOURCE_AUTO_POSITION": 0}
        return {f"{prefix}_LOG_FILE": quote_literal(file), f"{prefix}_LOG_POS": offset, **off}

    def begin_session(self) -> tuple[str, ...]:
        """Returns a new session's statements, which make it read literals of `quote_literal`."""
        return ("SET SESSION sql_mode = REPLACE(@@SESSION.sql_mode, 'NO_BACKSLASH_ESCAPES', '')",)

    def forget(self, channel: str = "") -> tuple[str, ...]:
        """Returns statements that remove a channel and its relay log."""
        if self.is_mariadb:
            return (f"RESET SLAVE {quote_literal(check_channel(channel))} ALL",)
        return (f"RESET REPLICA ALL FOR CHANNEL {quote_literal(check_channel(channel))}",)

    def set_filters(self, filters: dict[str, tuple[str, ...]], channel: str = "") -> tuple[str, ...]:
        """Returns statements that set replication filters until the server's next start; the option
        file must have them as well. Raises InputError for a filter that is not valid."""
        statements = []
        for kind, values in check_filters(filters).items():
            name = kind.replace("-", "_")
            if self.is_mariadb:
                statements += [f"SET SESSION default_master_connection = {quote_literal(check_channel(channel))}"]
                statements += [f"SET GLOBAL {name} = {quote_literal(','.join(values))}"]
            else:
                quoted = [
                    quote_literal(value) if "wild" in kind else ".".join(f"`{part}`" for part in value.split(".", 1))
                    for value in values
                ]
                where = f" FOR CHANNEL {quote_literal(check_channel(channel))}"
                statements += [f"CHANGE REPLICATION FILTER {name.upper()} = ({', '.join(quoted)}){where}"]
        return tuple(statements)

    def query_replica_status(self) -> str:
        """Returns a query with a row for each channel."""
        if self.is_mariadb:
            return "SHOW ALL SLAVES STATUS"
        return f"SHOW {self._replica_keyword} STATUS"

    def query_replica_hosts(self) -> str:
        """Returns a query with a row for each connected replica."""
        return "SHOW SLAVE HOSTS" if self.is_mariadb else "SHOW REPLICAS"

    # --- GTIDs and the binary log -----------------------------------------------------------------

    def query_executed(self) -> str:
        """Returns a query for the executed GTIDs in a single row: MySQL's set, or MariaDB's
        positions that it applied as a replica and that of its binary log."""
        both = "SELECT @@GLOBAL.gtid_slave_pos, @@GLOBAL.gtid_binlog_pos"
        return both if self.is_mariadb else "SELECT @@GLOBAL.gtid_executed"

    def begin_at(self, gtids: GtidSet) -> tuple[str, ...]:
        """Returns statements that let a replica begin behind the transactions of this set, with an
        empty binary log. Raises InputError for a set that is not a position of MariaDB."""
        if self.is_mariadb:
            if not gtids.is_position:
                raise refuse.input(str(gtids)[:60], "is not a position, so MariaDB cannot begin there")
            return ("RESET MASTER", f"SET GLOBAL gtid_slave_pos = {quote_literal(str(gtids))}")
        reset = "RESET BINARY LOGS AND GTIDS" if self.version >= (8, 2) else "RESET MASTER"
        return (reset, f"SET GLOBAL gtid_purged = {quote_literal(str(gtids))}")

    def wait_for(self, gtids: GtidSet, timeout_s: float) -> str:
        """Returns a query that waits for the set to be applied, then answers 0, or times out."""
        if self.is_mariadb:
            return f"SELECT MASTER_GTID_WAIT({quote_literal(str(gtids))}, {timeout_s:.3f})"
        return f"SELECT WAIT_FOR_EXECUTED_GTID_SET({quote_literal(str(gtids))}, {timeout_s:.3f})"

    def query_binary_log_position(self) -> str:
        """Returns a query for file and offset, its first columns; no row without a binary log."""
        renamed = not self.is_mariadb and self.version >= (8, 2)
        return "SHOW BINARY LOG STATUS" if renamed else "SHOW MASTER STATUS"

    def flush_engines(self, flush_log: int, alone: bool = False) -> tuple[str, ...]:
        """Returns statements that write committed transactions out of the server's memory, if
        `flush_log`, its innodb_flush_log_at_trx_commit, leaves them there for up to a second. With
        0 MariaDB ignores the statement (innobase_flush_logs, 10.11), so it is changed
        temporarily.

        `alone`: the engines recover without the binary log. With 1, and a binary log, MariaDB
        leaves the end of a commit in memory and takes it from the binary log (group commit)."""
        if flush_log == 1 and not alone:
            return ()
        flush = "FLUSH LOCAL ENGINE LOGS"
        if self.flavor != "mariadb" or flush_log != 0:
            return (flush,)
        setting = "SET GLOBAL innodb_flush_log_at_trx_commit"
        return f"{setting} = 1", flush, f"{setting} = {flush_log}"

    # --- read-only --------------------------------------------------------------------------------

    def switch_read_only(self, on: bool) -> tuple[str, ...]:
        """Returns statements that switch read-only. MySQL's blocks everyone; MariaDB's 10.11 lets
        accounts with READ ONLY ADMIN or SUPER write."""
        if self.is_mariadb:
            return (f"SET GLOBAL read_only = {int(on)}",)
        if on:
            return ("SET GLOBAL super_read_only = 1",)
        return ("SET GLOBAL super_read_only = 0", "SET GLOBAL read_only = 0")

    def make_read_only_settings(self, on: bool) -> dict[str, str]:
        """Returns the settings with which a server is read-only, or takes writes, after a start."""
        names = ("read_only",) if self.is_mariadb else ("read_only", "super_read_only")
        return dict.fromkeys(names, "ON" if on else "OFF")

    def query_bypassing_accounts(self) -> str:
        """Returns a query for accounts, 'USER'@'HOST', that may write on a read-only server."""
        if not self.is_mariadb:
            return "SELECT 1 FROM DUAL WHERE FALSE"  # super_read_only stops all of them
        return (
            "SELECT DISTINCT grantee FROM information_schema.user_privileges"
            " WHERE privilege_type IN ('READ ONLY ADMIN', 'SUPER')"
        )

    # --- semi-synchronous replication -------------------------------------------------------------

    def name_semi_sync_variable(self, side: str, name: str) -> str:
        """Returns the full name of a semi-sync variable. `side`: source or replica; `name`:
        enabled, timeout, wait_point, wait_count or wait_no_replica."""
        if self.is_mariadb or self.version < (8, 0, 26):
            side = {"source": "master", "replica": "slave"}[side]
        if name == "wait_count":
            name = f"wait_for_{'replica' if side == 'source' else 'slave'}_count"
        elif name == "wait_no_replica":
            name = f"wait_no_{'replica' if side == 'source' else 'slave'}"
        return f"rpl_semi_sync_{side}_{name}"

    def make_semi_sync_settings(
        self, side: str, on: bool, timeout_ms: int | None = None, count: int | None = None
    ) -> dict[str, str]:
        """Returns the variables that switch one side (source or replica), with their values, the
        switch last. A source waits for the whole timeout, also with fewer replicas than it waits
        for. `count`: replicas whose answer a commit waits for; None for this or `timeout_ms` leaves
        the variable as it is. On a replica, the receive thread must be started anew to take part.

        Before 8.0.26 and on MariaDB there is no count.
        """
        settings: dict[str, str] = {}
        if side == "source" and on:
            if count is not None and not self.is_mariadb:
                settings[self.name_semi_sync_variable(side, "wait_count")] = str(int(count))
            if timeout_ms is not None:
                settings[self.name_semi_sync_variable(side, "timeout")] = str(int(timeout_ms))
            settings[self.name_semi_sync_variable(side, "wait_point")] = "AFTER_SYNC"
            settings[self.name_semi_sync_variable(side, "wait_no_replica")] = "ON"
        return settings | {self.name_semi_sync_variable(side, "enabled"): "ON" if on else "OFF"}

    def switch_semi_sync(
        self, side: str, on: bool, timeout_ms: int | None = None, count: int | None = None
    ) -> tuple[str, ...]:
        """Returns statements that switch one side, as `make_semi_sync_settings`."""
        settings = self.make_semi_sync_settings(side, on, timeout_ms, count)
        # Servers refuse a number in quotes.
        values = {name: value if value.isdigit() else quote_literal(value) for name, value in settings.items()}
        return tuple(f"SET GLOBAL {name} = {value}" for name, value in values.items())

    def list_semi_sync_plugins(self) -> tuple[str, ...]:
        """Returns the plugin files for semi-sync (plugin-load-add); MariaDB has it built in."""
        if self.is_mariadb:
            return ()
        sides = ("source", "replica") if self.version >= (8, 0, 26) else ("master", "slave")
        return tuple(f"semisync_{side}.so" for side in sides)

    # --- accounts ---------------------------------------------------------------------------------

    def create_replication_account(self, user: str, host: str, password: Secret) -> tuple[str, ...]:
        """Returns statements that create an account which may only read the binary log over TLS.
        They can be repeated.

        They are not written to the binary log: each source has its own account.
        """
        account = f"{quote_literal(user)}@{quote_literal(host)}"
        identified = f"IDENTIFIED BY {quote_literal(password.reveal())} REQUIRE SSL"
        return (
            *self.begin_session(),
            "SET SESSION sql_log_bin = 0",
            f"CREATE USER IF NOT EXISTS {account} {identified}",
            f"ALTER USER {account} {identified}",
            f"GRANT REPLICATION SLAVE ON *.* TO {account}",
            "SET SESSION sql_log_bin = 1",
        )
