"""Ends and starts a replica's threads, where their statements alone would wait for a dead source or
delete what was received."""

from __future__ import annotations

import contextlib
import time

from headrace.base.waiting import wait_until
from headrace.mysql.dialect import Dialect
from headrace.mysql.state import ServerState
from headrace.mysql.statements import Row, SqlConnection, ask, run

# A transaction in work for this time without a new event of it is stuck, s: a guess; events of one
# that is received follow each other in milliseconds.
STUCK_S = 0.2
APPLIES_S = 15.0  # s, for one that is applied, before it is told to stop: a guess
KILLED_S = 0.3  # how long one that was killed may take to go before it is stopped, a guess


def stop_receiving(connection: SqlConnection, state: ServerState, channel: str) -> None:
    """Kills and stops a channel's receive thread: STOP alone waits 2 s for one of a dead host."""
    if len(state.channels) == 1:
        with contextlib.suppress(Exception):
            receiver = state.dialect.query_receiver(channel)
            for number, *_ in filter(all, ask(connection, receiver)):
                ask(connection, f"KILL {int(number)}")
            wait_until(lambda: not any(map(all, ask(connection, receiver))), KILLED_S, KILLED_S / 10)
    run(connection, state.dialect.stop_receive(channel))


def stop_applying(connection: SqlConnection, dialect: Dialect, channel: str = "") -> None:
    """Stops a channel's applier. MySQL's STOP waits a minute for the rest of a transaction that was
    received in part (SLAVE_WAIT_GROUP_DONE), which a dead source never sends; until then nobody
    else can commit it. So the worker that waits is killed first, and rolls it back."""
    if not dialect.is_mariadb:
        with contextlib.suppress(Exception):
            _end_waiting_appliers(connection, dialect.query_busy_appliers(channel), dialect.query_coordinator(channel))
    run(connection, dialect.stop_apply(channel))


def _end_waiting_appliers(connection: SqlConnection, appliers: str, coordinates: str) -> None:
    """Kills the appliers that wait for more of the same transaction in two queries, and waits until
    the coordinator has ended: a STOP before that would take its minute. Before, it waits for
    transactions that are being applied, as STOP would, at most APPLIES_S seconds."""
    before: dict[Row, object] = {}
    until = time.monotonic() + APPLIES_S
    while time.monotonic() < until:
        busy = {row[:2]: row[2] for row in ask(connection, appliers)}
        still = busy.keys() & before.keys()
        if not busy or (before and not still):
            return
        if waiting := [applier for applier in still if busy[applier] and before[applier]]:
            for number, _ in waiting:
                ask(connection, f"KILL {int(number)}")
            wait_until(lambda: not ask(connection, coordinates), until - time.monotonic(), STUCK_S / 4)
            return
        before = busy
        time.sleep(STUCK_S)


def leave_source(connection: SqlConnection, dialect: Dialect, channel: str = "") -> None:
    """Stops and removes a channel, with its relay log."""
    stop_applying(connection, dialect, channel)
    run(connection, (*dialect.stop(channel), *dialect.forget(channel)))


def make_start_statements(state: ServerState, appliers: bool = True) -> tuple[list[str], list[str]]:
    """Returns statements that start stopped receive threads, and with `appliers` stopped appliers,
    if nothing is lost by it; and the names of channels that stay stopped. With both threads stopped
    MariaDB deletes its relay log when the first one starts (MDEV-4698): then they are started only
    if all of it is applied."""
    dialect, statements, stopped = state.dialect, [], []
    for channel in state.channels:
        receives, applies = channel.receive != "off", channel.apply != "off"
        if dialect.is_mariadb and not receives and not applies and not state.executed.contains(channel.received):
            stopped.append(channel.name)
            continue
        statements += dialect.start_apply(channel.name) if appliers and not applies else ()
        statements += dialect.start_receive(channel.name) if not receives else ()
    return statements, stopped
