"""Changes of a server that take more than a statement: stopping its writes, ending its receive
thread, following another source."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from headrace.errors import CouldNotRun
from headrace.mysql.connection import cut
from headrace.mysql.dialect import NET_TIMEOUT_S, SourceOf
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import ServerState, observe, read_dialect, read_executed_sets
from headrace.mysql.statements import SqlConnection, ask, ask_row, run
from headrace.servers.failover import scheduler
from headrace.servers.failover.hosts import CHANGE_S, AddressHost, ConnectionPool, change
from headrace.servers.failover.planning.members import refuse
from headrace.servers.failover.surroundings import REAL, Background, Surroundings
from headrace.servers.topology import accounts
from headrace.servers.topology.threads import leave_source, make_start_statements, stop_applying, stop_receiving

# Time that one attempt to stop the writes waits for statements that run, s: the least that
# lock_wait_timeout takes. Whoever wants to write waits as long, so an attempt that fails is given
# up and made again a moment later.
ATTEMPT_S = 1
ATTEMPTS, BETWEEN_S = 4, 0.5  # guesses
CLOSING_S = 30.0  # of the connection that does it, a guess
LOCK_WAIT = (1205,)  # ER_LOCK_WAIT_TIMEOUT
LONG_S = 1  # a writing statement that runs for longer is waited for while the others go on, a guess
WORDS = 60  # of a statement that is in the way, for people
# Connections of a source: id, command, user, and whether it is inside a statement or transaction.
CLIENTS = (
    "SELECT p.id, p.command, p.user, p.command = 'Query' OR t.trx_id IS NOT NULL FROM information_schema.processlist p"
    " LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id"
    " WHERE p.id <> CONNECTION_ID() AND p.user NOT IN ('system user', 'event_scheduler')"
)
LONG_WRITERS = (
    f"SELECT p.time, LEFT(p.info, {WORDS}) FROM information_schema.processlist p"
    " JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id"
    f" WHERE p.command = 'Query' AND p.time > {LONG_S} AND t.trx_rows_modified > 0"
    " AND p.user NOT IN ('system user', 'event_scheduler')"
)
# Warning for a replica that cannot be started without a loss.
STAYS = (
    "stays stopped: MariaDB would throw away what it received and has not applied (MDEV-4698); once its source is back, "
    "START SLAVE fetches that anew"
)
# Commands whose connections are not killed when a source becomes read-only.
STAY_CONNECTED = {"Binlog Dump", "Binlog Dump GTID", "Daemon", "Slave_IO", "Slave_SQL", "Slave_worker", "Connect"}


@dataclass
class Closing:
    """Stops the writes of a source, on a connection that `prepare` opens while they go on.
    Connections of accounts that read_only does not stop are killed; with READ ONLY ADMIN (MariaDB)
    they can connect and write again."""

    host: AddressHost
    state: ServerState
    connection: SqlConnection
    surroundings: Surroundings = REAL
    began_s: float = 0.0  # start of the attempt that stopped the writes, on the monotonic clock
    _bypassing: frozenset[str] = frozenset()
    _killing: Background | None = None

    @classmethod
    def prepare(cls, host: AddressHost, state: ServerState, surroundings: Surroundings = REAL) -> Closing:
        """Connects to a source, switches its event scheduler off, and stores that it is read-only
        at its next start; returns what stops its writes."""
        connection = host.open_connection(CLOSING_S)
        try:
            run(connection, (f"SET SESSION lock_wait_timeout = {ATTEMPT_S}",))
            account_rows = ask(connection, state.dialect.query_bypassing_accounts())
            bypassing = frozenset(str(row[0])[1:].rpartition("'@")[0] for row in account_rows)
            if state.event_scheduler == "ON":
                # MariaDB's events go on with their definers' rights, perhaps to write even then.
                scheduler.switch(host, connection, state, False)
            host.remember(**state.dialect.make_read_only_settings(True))
        except BaseException:
            cut(connection)
            raise
        return cls(host, state, connection, surroundings, _bypassing=bypassing)

    def list_long_writers(self) -> list[str]:
        """Lists statements that wrote and run for longer than LONG_S seconds, which block the
        stop."""
        return [f"{words} (for {age} s)" for age, words in ask(self.connection, LONG_WRITERS)]

    def stop(self, say: Callable[[str], None], own_ids: Collection[int] = ()) -> GtidSet:
        """Makes the server read-only, and returns the GTIDs it has executed. Connections with SUPER
        are not stopped by read_only: they, and clients inside a statement, are killed at once, all
        others in the background; connections with an id in `own_ids` stay. Raises CouldNotRun if
        statements are in the way ATTEMPTS times; then it takes writes again."""
        dialect = self.state.dialect
        for attempts_left in range(ATTEMPTS - 1, -1, -1):
            self.began_s = self.surroundings.read_now_s()
            try:
                for statement in dialect.switch_read_only(True):
                    ask(self.connection, statement)
                break
            except Exception as error:
                change(self.host, *dialect.switch_read_only(False))
                if not error.args or error.args[0] not in LOCK_WAIT:
                    rule = f"could not be made read-only: {error.args[-1]}"
                    raise CouldNotRun(self.host.name, rule, "", "") from None
                ways = "; ".join(self.list_long_writers()) or "LOCK TABLES, or a backup's lock, held by somebody"
                if not attempts_left:
                    rule = f"its writes cannot be stopped within {ATTEMPT_S} s, {ATTEMPTS} times: {ways}"
                    raise refuse.run(self.host.name, rule, "Wait for them, or end them.") from None
            say(f"{self.host.name} takes writes again for {BETWEEN_S:g} s: in the way is {ways}")
            self.surroundings.sleep(BETWEEN_S)
        at_once, later = [], []
        for number, command, user, busy in ask(self.connection, CLIENTS):
            if command not in STAY_CONNECTED and number not in own_ids:
                (at_once if busy or user in self._bypassing else later).append(int(number))
        _kill(self.connection, at_once)
        executed, *_ = read_executed_sets(self.connection, dialect)
        self._killing = self.surroundings.begin(lambda: _kill(self.connection, later))
        return executed

    def close(self) -> None:
        """Waits until all clients are disconnected, and closes the connection."""
        if self._killing is not None:
            self._killing.join()
        cut(self.connection)


def _kill(connection: SqlConnection, numbers: list[int]) -> None:
    for number in numbers:
        with contextlib.suppress(Exception):
            ask(connection, f"KILL CONNECTION {number}")


def reopen(host: AddressHost, connection: SqlConnection, state: ServerState, events: bool) -> None:
    """Lets a source take writes again, now and after later starts; `events`: its scheduler too."""
    run(connection, state.dialect.switch_read_only(False))
    if events:
        scheduler.switch(host, connection, state, True)
    host.remember(**state.dialect.make_read_only_settings(False))


def receive_again(
    pool: ConnectionPool,
    hosts: Mapping[str, AddressHost],
    names: Collection[str],
    say: Callable[[str], None],
    rescuing: Collection[str] = (),
) -> None:
    """Lets the replicas `names` receive again, if they answer; errors are passed to `say`. Stopped
    appliers stay so, as somebody stopped them, but for those of a cut off rescue (`rescuing`)."""
    for name in sorted(set(names) & set(hosts)):
        try:
            statements, stopped = make_start_statements(pool.query_state(hosts[name]), appliers=name in rescuing)
            pool.change(hosts[name], *statements)
        except Exception as error:
            say(f"{name} does not receive again: {error}")
        else:
            if stopped:
                say(f"{name} {STAYS}")


def move_below(
    host: AddressHost,
    connection: SqlConnection,
    to: AddressHost,
    above: SqlConnection,
    source_options: SourceOf | None,
    longest_s: float,
) -> None:
    """Lets a replica follow the replica `to` of the same source, without risking what it
    acknowledged: both have applied all that it received before its relay log is deleted. Raises
    CouldNotRun if that takes longer than `longest_s`; then it follows its source as before."""
    state = observe(connection, host.name)
    dialect, [channel] = state.dialect, state.channels
    try:
        stop_receiving(connection, state, channel.name)
        has = observe(connection, host.name)
        target = has.executed.union(has.channels[0].received)
        for session in (connection, above):
            row = ask_row(session, dialect.wait_for(target, longest_s))
            if not row or row[0] != 0:
                rule = f"has not applied within {longest_s:g} s what it received, so it follows its source for now"
                raise refuse.run(host.name, rule)
        follow(host, connection, to, source_options)
    except BaseException:
        with contextlib.suppress(Exception):
            statements, _ = make_start_statements(observe(connection, host.name))
            run(connection, tuple(statements))
        raise


def _check_received(state: ServerState, most: GtidSet) -> None:
    """Raises CouldNotRun if a server has received more since it was stopped: somebody started it
    again, and the old source is alive."""
    for received in (channel.received for channel in state.channels if not most.contains(channel.received)):
        rule = f"has received {received.minus(most)} since it was stopped: the old source is alive"
        raise refuse.run(state.name, rule, "Make sure that it is dead and stays so, and begin again.")


def leave_sources(connection: SqlConnection, state: ServerState, most: GtidSet | None = None) -> None:
    """Ends and removes all channels of a server. Raises CouldNotRun if it has received other
    transactions than `most` (None: any); then it goes on applying."""
    if most is not None:
        for channel in state.channels:
            stop_receiving(connection, state, channel.name)
        _check_received(observe(connection, state.name), most)
    for channel in state.channels:
        leave_source(connection, state.dialect, channel.name)


def follow(
    host: AddressHost,
    connection: SqlConnection,
    source: AddressHost,
    source_options: SourceOf | None = None,
    most: GtidSet | None = None,
) -> None:
    """Makes a server a read-only replica of `source`, by GTID, now and after later starts.
    Transactions that it received from an earlier source and has not applied are deleted: the new
    source has them, or the plan lists them as missing. `source_options`: None to create the account
    for it. Raises CouldNotRun if it has received other transactions than `most` (None: any)."""
    if source_options is None:
        with contextlib.closing(source.open_connection(CHANGE_S)) as above:
            source_options = source.admit_follower(host, above, read_dialect(above))
    state = observe(connection, host.name)
    dialect = state.dialect
    run(connection, dialect.switch_read_only(True))
    if state.event_scheduler == "ON" and not state.channels:
        scheduler.switch(host, connection, state, False)
    for channel in state.channels:
        with contextlib.suppress(CouldNotRun):
            stop_receiving(connection, state, channel.name)
        stop_applying(connection, dialect, channel.name)
        run(connection, dialect.stop(channel.name))
    if most is not None:
        _check_received(observe(connection, host.name), most)
    statements: tuple[str, ...] = ()
    if dialect.is_mariadb and not state.channels:
        # It begins at the end of its own binary log, not where it once ceased to be a replica.
        statements = (f"SET GLOBAL gtid_slave_pos = '{state.executed}'",)
    delay = state.channels[0].delay_s if state.channels else 0
    name = state.channels[0].name if state.channels else ""
    # An authority that a user set signs for all of their servers; Headrace's is that of one source.
    authority = state.channels[0].ssl_ca if state.channels else ""
    is_foreign = bool(authority) and source_options.ssl_ca is None and not accounts.is_ours(authority)
    source_options = replace(source_options, channel=name, delay_s=delay, keeps_ca=is_foreign)
    # A dead source is recognized by its silence: the servers' default of 60 s is too long a wait.
    timeout = "slave_net_timeout" if dialect.is_mariadb else "replica_net_timeout"
    statements += (f"SET GLOBAL {timeout} = {NET_TIMEOUT_S}",)
    run(connection, (*statements, *dialect.point_at(source_options), *dialect.start(name)))
    host.remember(**{timeout: str(NET_TIMEOUT_S)} | dialect.make_read_only_settings(True))


def follow_again(host: AddressHost, connection: SqlConnection, source: AddressHost) -> None:
    """Lets a server follow a source that it followed before. The relay log stays if the server has
    that channel and its threads can be started without deleting it; else it is fetched again."""
    state = observe(connection, host.name)
    statements, stopped = make_start_statements(state)
    still = any(channel.place == (source.host, source.port) for channel in state.channels)
    if still and not stopped:
        run(connection, tuple(statements))
    else:
        follow(host, connection, source)


def make_empty_statements(gtids: GtidSet) -> list[str]:
    """Returns statements that write an empty transaction for each GTID (MySQL)."""
    statements = ["SET GLOBAL super_read_only = 0", "SET GLOBAL read_only = 1"]
    for gtid in gtids.list_transactions():
        statements += [f"SET SESSION gtid_next = '{gtid}'", "BEGIN", "COMMIT"]
    return [*statements, "SET SESSION gtid_next = 'AUTOMATIC'"]
