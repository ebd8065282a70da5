"""Changes of one server that take more than a statement: its writes stopped, its receive thread
ended, another source followed."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.errors import CouldNotRun
from headrace.servers.failover import scheduler
from headrace.servers.failover.hosts import CHANGE_S, AddressHost, change
from headrace.servers.topology import accounts
from headrace.servers.topology.dialect import NET_TIMEOUT_S, SourceOf
from headrace.servers.topology.gtid import GtidSet
from headrace.servers.topology.state import ServerState, dialect_of, observe

if TYPE_CHECKING:
    import pymysql

# How long the writes of a switchover may take to stop, s. A transaction that runs longer is in the
# way: the switchover is given up and the source takes writes again.
QUIET_S = 10.0
KILLED_S = 0.3  # how long one that was killed may take to go before it is stopped, a guess
# Commands that stay connected when a source turns read-only.
KEEP = {"Binlog Dump", "Binlog Dump GTID", "Daemon", "Slave_IO", "Slave_SQL", "Slave_worker", "Connect"}


def stop_writes(host: AddressHost, state: ServerState) -> None:
    """Read-only, and everybody's connections but ours and those of replication ended. An account
    with READ ONLY ADMIN (MariaDB) would still write: the plan says so."""
    dialect = state.dialect
    with contextlib.closing(host.connected(QUIET_S)) as connection:
        if state.event_scheduler == "ON":
            # MariaDB's run on as their definers, who may write while it is read-only.
            scheduler.switch(host, connection, state, False)
        try:
            accounts.run(connection, (f"SET SESSION lock_wait_timeout = {int(QUIET_S / 2)}", *dialect.read_only(True)))
        except Exception:
            with contextlib.suppress(Exception):
                change(host, *dialect.read_only(False))
            if state.event_scheduler == "ON":
                with contextlib.suppress(Exception):
                    scheduler.switch(host, connection, state, True)
            raise
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT id, command FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user NOT IN ('system user', 'event_scheduler')"
            )
            for number, command in cursor.fetchall():
                if command not in KEEP:
                    with contextlib.suppress(Exception):
                        cursor.execute(f"KILL CONNECTION {int(number)}")
    host.remember(**{"read_only": "ON"} | ({} if dialect.is_mariadb else {"super_read_only": "ON"}))


def stop_receiving(connection: pymysql.Connection, state: ServerState, channel: str) -> None:
    """The thread is ended first: STOP waits two seconds for one that reads from a dead host."""
    if len(state.channels) == 1:
        with contextlib.suppress(Exception), connection.cursor() as cursor:
            ask = state.dialect.receiver(channel)
            for number, *_ in filter(all, _rows(cursor, ask)):
                cursor.execute(f"KILL {int(number)}")
            until = time.monotonic() + KILLED_S
            while any(map(all, _rows(cursor, ask))) and time.monotonic() < until:
                time.sleep(KILLED_S / 10)
    accounts.run(connection, state.dialect.stop_receive(channel))


def _rows(cursor: Any, statement: str) -> list[tuple[Any, ...]]:
    cursor.execute(statement)
    return list(cursor.fetchall())


def source_of(source: AddressHost, follower: AddressHost, above: pymysql.Connection) -> SourceOf:
    """How `follower` is to follow `source`, with an account there. `above`: a connection to it."""
    return source.source_for(follower, above, dialect_of(above))


def follow(
    host: AddressHost, connection: pymysql.Connection, source: AddressHost, known: SourceOf | None = None
) -> None:
    """Makes a server a read-only replica of another, by GTID. What it received of an earlier source
    and has not applied is thrown away: the new source has it, or it is in the plan's list."""
    if known is None:
        with contextlib.closing(source.connected(CHANGE_S)) as above:
            known = source_of(source, host, above)
    state = observe(connection, host.name, position=False)
    dialect = state.dialect
    accounts.run(connection, dialect.read_only(True))
    if state.event_scheduler == "ON" and not state.channels:
        scheduler.switch(host, connection, state, False)
    for channel in state.channels:
        with contextlib.suppress(CouldNotRun):
            stop_receiving(connection, state, channel.name)
        accounts.run(connection, dialect.stop(channel.name))
    statements: tuple[str, ...] = ()
    if dialect.is_mariadb and not state.channels:
        # It begins where its own binary log ends, not where it once ceased to be a replica.
        statements = (f"SET GLOBAL gtid_slave_pos = '{state.executed}'",)
    delay = state.channels[0].delay_s if state.channels else 0
    name = state.channels[0].name if state.channels else ""
    known = replace(known, channel=name, delay_s=delay)
    # A dead source is known by its silence: the servers' own 60 s are too long to wait for it.
    timeout = "slave_net_timeout" if dialect.is_mariadb else "replica_net_timeout"
    statements += (f"SET GLOBAL {timeout} = {NET_TIMEOUT_S}",)
    accounts.run(connection, (*statements, *dialect.point_at(known), *dialect.start(name)))
    kept = {timeout: str(NET_TIMEOUT_S), "read_only": "ON"} | ({} if dialect.is_mariadb else {"super_read_only": "ON"})
    host.remember(**kept)


def empties(gtids: GtidSet) -> list[str]:
    """MySQL: an empty transaction for each GTID."""
    found = ["SET GLOBAL super_read_only = 0", "SET GLOBAL read_only = 1"]
    for gtid in gtids.transactions():
        found += [f"SET SESSION gtid_next = '{gtid}'", "BEGIN", "COMMIT"]
    return [*found, "SET SESSION gtid_next = 'AUTOMATIC'"]
