"""Scheduled events: a source's scheduler runs them, a replica has each of them disabled.

CREATE EVENT arrives on a replica as SLAVESIDE_DISABLED (REPLICA_SIDE_DISABLED from MySQL 8.4 on),
whether it is enabled on the source or not, and stays so at a promotion (both manuals, Replication
of Invoked Features). So running events are noted while the source lives, and enabled on the new
source.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from headrace.mysql.dialect import quote_literal
from headrace.mysql.state import ServerState
from headrace.mysql.statements import SqlConnection, ask, run
from headrace.servers.failover.hosts import AddressHost
from headrace.servers.failover.planning.members import ScheduledEvent

RUNNING = "SELECT event_schema, event_name, definer FROM information_schema.events WHERE status = 'ENABLED'"
# Query for the events of a replica that its source may have run.
ASLEEP = "SELECT event_schema, event_name FROM information_schema.events WHERE status LIKE '%SIDE%DISABLED'"
DEFINER = re.compile(r"(.*)@([^@]*)", re.DOTALL)


def list_running(connection: SqlConnection, state: ServerState) -> tuple[ScheduledEvent, ...]:
    """Lists the enabled events of a server; none if its scheduler is off."""
    if state.event_scheduler != "ON":
        return ()
    return tuple(ScheduledEvent(*map(str, row)) for row in ask(connection, RUNNING))


def list_disabled(host: AddressHost, timeout_s: float) -> tuple[str, ...]:
    """Lists the names of events that a replica has disabled because its source had them; none of a
    server that does not answer."""
    with contextlib.suppress(Exception), contextlib.closing(host.open_connection(timeout_s)) as connection:
        return tuple(f"{schema}.{name}" for schema, name in ask(connection, ASLEEP))
    return ()


def enable(host: AddressHost, state: ServerState, events: Sequence[ScheduledEvent], timeout_s: float) -> None:
    """Lets a new source run the events, with their definers' rights, now and after later starts.
    Events that do not exist any more are skipped. Raises CouldNotRun."""
    with contextlib.closing(host.open_connection(timeout_s)) as connection:
        disabled = {(str(schema), str(name)) for schema, name in ask(connection, ASLEEP)}
        existing = [event for event in events if (event.schema, event.name) in disabled]
        run(connection, (*state.dialect.begin_session(), *(_make_enable_statement(event) for event in existing)))
        switch(host, connection, state, True)


def switch(host: AddressHost, connection: SqlConnection, state: ServerState, on: bool) -> None:
    """Switches a server's scheduler, now and for later starts, unless it started as DISABLED."""
    if state.event_scheduler != "DISABLED":
        run(connection, (f"SET GLOBAL event_scheduler = {'ON' if on else 'OFF'}",))
        host.remember(event_scheduler="ON" if on else "OFF")


def _make_enable_statement(event: ScheduledEvent) -> str:
    """Returns the statement that enables an event, with its definer."""
    match = DEFINER.fullmatch(event.definer)
    definer = f"DEFINER = {quote_literal(match[1])}@{quote_literal(match[2])} " if match else ""
    return f"ALTER {definer}EVENT {_quote_name(event.schema)}.{_quote_name(event.name)} ENABLE"


def _quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
