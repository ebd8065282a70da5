"""Finds traps of semi-sync, by status and never by setting.

Each was observed on real servers; docs/guide/failover.md explains their causes. A trap is `loss`
(acknowledged commits can be lost now), `stall` (writes wait, or will), or `note`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headrace.base.packaged import read_rows
from headrace.mysql.state import ServerState
from headrace.servers.failover.planning.election import (
    collect_gtids,
    find_channel,
    keeps_relay_log,
    list_followers,
    require_state,
)
from headrace.servers.failover.planning.guarantee import list_acking
from headrace.servers.failover.planning.members import NEVER_S, Members, Seen
from headrace.servers.failover.planning.progress import Progress

# Transactions that an acknowledging replica may lack while it keeps up (a guess: 8 clients commit
# some thousand a second, and a look takes some milliseconds).
FAR_BEHIND = 1_000
MOST_TIMEOUT_MS = 2**32 - 1  # of semi-sync in MySQL (MySQL manual, rpl_semi_sync_source_timeout)


TrapKind = Literal["loss", "stall", "note"]
KINDS: dict[str, TrapKind] = {"loss": "loss", "stall": "stall", "note": "note"}  # the gravest first
TEXTS = {row["name"]: row for row in read_rows("headrace.servers.failover.planning", "traps.csv")}


@dataclass(frozen=True)
class Trap:
    """A trap on a server: `what` is wrong, and what to `do`, in words."""

    name: str
    server: str
    kind: TrapKind
    what: str
    do: str


def list_traps(members: Members, source: Seen, before: Members | None = None) -> list[Trap]:
    """Lists the traps of semi-sync on all servers, the gravest first. `before`: an earlier
    observation, with which counters are compared."""
    trap_list = []
    if source.state is not None:
        trap_list += _list_source_traps(members, source, before or {})
    for member in members.values():
        if member.name != source.name and member.state is not None:
            trap_list += _list_replica_traps(member, source)
    return sorted(trap_list, key=lambda trap: (list(KINDS).index(trap.kind), trap.server, trap.name))


def _make_trap(name: str, server: str, **values: object) -> Trap:
    """Returns a trap on a server with the texts of traps.csv, whose fields are `values`."""
    row = TEXTS[name]
    what, do = (row[column].format(server=server, **values) for column in ("what", "do"))
    return Trap(name, server, KINDS[row["kind"]], what, do)


def _list_source_traps(members: Members, source: Seen, before: Members) -> Iterator[Trap]:
    """Yields what is wrong with semi-sync on the source, and with relay logs of replicas that
    acknowledge. `before`: an earlier observation, empty for none; commits since are counted."""
    state, name = require_state(source), source.name
    semi, timeout_s = state.semi_sync, state.semi_sync.timeout_ms / 1000
    able = [replica for replica in list_followers(members, source) if require_state(replica).semi_sync.replica_enabled]
    if not semi.source_enabled:
        if able:
            yield _make_trap("source-off", name)
        return
    if not semi.source_status:
        yield _make_trap("fell-back", name, commits=semi.no_tx)
    earlier = before.get(name)
    if earlier is not None and earlier.state is not None and semi.no_tx > earlier.state.semi_sync.no_tx:
        yield _make_trap("unacknowledged", name, commits=semi.no_tx - earlier.state.semi_sync.no_tx)
    if semi.wait_count > len(able):
        yield _make_trap("too-many-asked", name, wait_count=semi.wait_count, able=len(able), timeout_s=timeout_s)
    elif semi.clients < semi.wait_count:
        yield _make_trap(
            "too-few-connected", name, clients=semi.clients, wait_count=semi.wait_count, timeout_s=timeout_s
        )
    if not semi.waits_alone:
        variable = state.dialect.name_semi_sync_variable("source", "wait_no_replica")
        yield _make_trap("goes-on-alone", name, variable=variable, wait_count=semi.wait_count)
    if timeout_s < NEVER_S:
        yield _make_trap("short-timeout", name, timeout_s=timeout_s)
    if semi.wait_point.upper() == "AFTER_COMMIT":
        yield _make_trap("after-commit", name)
    if state.durability.sync_binlog != 1:
        yield _make_trap("binlog-not-flushed", name, sync_binlog=state.durability.sync_binlog)
    for replica in list_acking(members, source):
        if require_state(replica).durability.sync_relay_log != 1:
            yield _make_trap("relay-log-not-flushed", replica.name)


def _list_replica_traps(member: Seen, source: Seen) -> Iterator[Trap]:
    """Yields what is wrong with semi-sync on a server that is not the source."""
    state = require_state(member)
    semi, name = state.semi_sync, member.name
    channel = find_channel(member, source)
    if state.channels and semi.source_enabled:
        yield _make_trap("source-role-on-replica", name)
    if channel is None or not semi.replica_enabled:
        return
    if channel.receive == "on" and not semi.replica_status:
        yield _make_trap("receive-not-restarted", name)
    if channel.receive == "off":
        yield _make_trap("not-receiving", name, why=channel.receive_error or "stopped")
    if channel.receive == "on" and source.state is not None:
        lacks = source.state.executed.minus(collect_gtids(member)).count()
        if lacks > FAR_BEHIND:
            yield _make_trap("receive-behind", name, transactions=lacks)
    if channel.receive != "off" and channel.apply == "off":
        loss = "" if keeps_relay_log(state) else ", and a restart loses what it received"
        yield _make_trap("acknowledges-only", name, why=channel.apply_error or "its applier is stopped", loss=loss)


def choose_timeout_ms(progress: Progress, state: ServerState, seen: Members) -> int:
    """Returns a new source's semi-sync timeout, ms: the old source's, else this server's."""
    old = seen.get(progress.source)
    if progress.proof is not None:
        return int(min(progress.proof.timeout_s * 1000, MOST_TIMEOUT_MS))
    if old is not None and old.state is not None and old.state.semi_sync.source_enabled:
        return min(old.state.semi_sync.timeout_ms, MOST_TIMEOUT_MS)
    return state.semi_sync.timeout_ms or int(NEVER_S * 1000)
