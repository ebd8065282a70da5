"""Finds traps of semi-sync, by status and never by setting.

Each was observed on real servers; docs/guide/failover.md explains their causes. A trap is `loss`
(acknowledged commits can be lost now), `stall` (writes wait, or will), or `note`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headrace.mysql.state import ServerState
from headrace.servers.failover.planning.election import followers, follows, has, keeps_relay_log, required
from headrace.servers.failover.planning.guarantee import acking
from headrace.servers.failover.planning.members import NEVER_S, Members, Seen
from headrace.servers.failover.planning.progress import Progress

# Transactions that an acknowledging replica may lack while it keeps up (a guess: 8 clients commit
# some thousand a second, and a look takes some milliseconds).
FAR_BEHIND = 1_000
MOST_TIMEOUT_MS = 2**32 - 1  # of semi-sync in MySQL (MySQL manual, rpl_semi_sync_source_timeout)


@dataclass(frozen=True)
class Trap:
    """A finding on a server."""

    name: str
    server: str
    kind: Literal["loss", "stall", "note"]
    what: str
    do: str


def traps(members: Members, source: Seen, before: Members | None = None) -> list[Trap]:
    """Lists what is wrong with semi-sync on these servers. `before`: an earlier observation, for
    counters."""
    trap_list = []
    if source.state is not None:
        trap_list += _of_source(members, source, before or {})
    for member in members.values():
        if member.name != source.name and member.state is not None:
            trap_list += _of_replica(member, source)
    order = {"loss": 0, "stall": 1, "note": 2}
    return sorted(trap_list, key=lambda trap: (order[trap.kind], trap.server, trap.name))


def _of_source(members: Members, source: Seen, before: Members) -> Iterator[Trap]:
    semi = required(source).semi_sync
    if not semi.source_enabled:
        if any(required(replica).semi_sync.replica_enabled for replica in followers(members, source)):
            what = "replicas are ready to acknowledge and the source's side is off: commits wait for nobody"
            yield Trap("source-off", source.name, "loss", what, "Switch the source's side on.")
        return
    name = source.name
    if not semi.source_status:
        what = f"enabled, and its status is OFF: it fell back to asynchronous ({semi.no_tx:,} commits without a replica so far)"
        yield Trap(
            "fell-back", name, "loss", what, "Find out why replicas do not acknowledge; it comes back by itself."
        )
    earlier = before.get(name)
    if earlier is not None and earlier.state is not None and semi.no_tx > earlier.state.semi_sync.no_tx:
        more = semi.no_tx - earlier.state.semi_sync.no_tx
        what = f"{more:,} commits were acknowledged without a replica since the last look"
        yield Trap("unacknowledged", name, "loss", what, "They are on this server alone until a replica has caught up.")
    able = [replica for replica in followers(members, source) if required(replica).semi_sync.replica_enabled]
    if semi.wait_count > len(able):
        what = f"{semi.wait_count} acknowledgements are asked for, and {len(able)} replicas can give one: every commit waits for the timeout of {semi.timeout_ms / 1000:g} s"
        yield Trap("too-many-asked", name, "stall", what, "Ask for fewer, or switch the replica's side on.")
    elif semi.clients < semi.wait_count:
        what = f"{semi.clients} of {semi.wait_count} replicas are connected: every commit waits for the timeout of {semi.timeout_ms / 1000:g} s"
        yield Trap("too-few-connected", name, "stall", what, "Start their receive threads.")
    if semi.timeout_ms / 1000 < NEVER_S:
        what = f"after {semi.timeout_ms / 1000:g} s without an acknowledgement it goes on alone, and says so in its status only"
        yield Trap("short-timeout", name, "note", what, "A timeout of days makes it wait instead of losing.")
    if semi.wait_point.upper() == "AFTER_COMMIT":
        what = "AFTER_COMMIT: others read a commit before a replica has it, and it may be gone after a failover"
        yield Trap("after-commit", name, "note", what, "Set the wait point to AFTER_SYNC.")
    if required(source).durability.sync_binlog != 1:
        what = f"sync_binlog is {required(source).durability.sync_binlog}: after a power cut replicas may have commits that it has not"
        yield Trap("binlog-not-flushed", name, "note", what, "Set sync_binlog to 1.")
    volatile = [replica.name for replica in acking(members, source) if required(replica).durability.sync_relay_log != 1]
    for replica in volatile:
        what = "acknowledges what is not on its disk: sync_relay_log is not 1, so a power cut of both loses it"
        yield Trap(
            "relay-log-not-flushed", replica, "note", what, "Set sync_relay_log to 1; it costs a flush an event."
        )


def _of_replica(member: Seen, source: Seen) -> Iterator[Trap]:
    state = required(member)
    semi, name = state.semi_sync, member.name
    channel = follows(member, source)
    if state.channels and semi.source_enabled:
        what = "has the source's role as a replica: its applier waits for acknowledgements that nobody sends"
        yield Trap("source-role-on-replica", name, "stall", what, "Switch it off; the promotion switches it on.")
    if channel is None or not semi.replica_enabled:
        return
    if channel.receive == "on" and not semi.replica_status:
        what = "enabled, and not used: its receive thread was started before it was enabled"
        yield Trap("receive-not-restarted", name, "loss", what, "Stop and start the receive thread alone.")
    if channel.receive == "off":
        what = f"receives nothing: {channel.receive_error or 'stopped'}"
        yield Trap(
            "not-receiving", name, "loss", what, f"Start it: headrace replica up {name}, or START REPLICA there."
        )
    if channel.receive == "on" and source.state is not None:
        lacks = source.state.executed.minus(has(member)).count()
        if lacks > FAR_BEHIND:
            what = (
                f"has {lacks:,} transactions to receive: commits wait for it, up to the timeout, until it has caught up"
            )
            yield Trap(
                "receive-behind", name, "stall", what, "Let it catch up with the replica's side off, then switch it on."
            )
    if channel.receive != "off" and channel.apply == "off":
        why = channel.apply_error or "its applier is stopped"
        what = f"acknowledges and applies nothing ({why}): it cannot take over, and a restart loses what it received"
        if keeps_relay_log(state):
            what = f"acknowledges and applies nothing ({why}): it cannot take over"
        yield Trap("acknowledges-only", name, "loss", what, "Correct the applier while the receive thread runs.")


def timeout_ms(progress: Progress, state: ServerState, seen: Members) -> int:
    """Returns the semi-sync timeout of a new source, ms: that of the old source; if it is unknown,
    that of this server."""
    old = seen.get(progress.source)
    if progress.proof is not None:
        return int(min(progress.proof.timeout_s * 1000, MOST_TIMEOUT_MS))
    if old is not None and old.state is not None and old.state.semi_sync.source_enabled:
        return min(old.state.semi_sync.timeout_ms, MOST_TIMEOUT_MS)
    return state.semi_sync.timeout_ms or int(NEVER_S * 1000)
