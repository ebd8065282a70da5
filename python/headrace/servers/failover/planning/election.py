"""Finds who can take over: what each replica has and can still apply, and its errant transactions.

A replica counts by what it *received*: what it acknowledged lies in its relay log, applied or not.
But a relay log counts only if it will be applied. MariaDB with GTID deletes it when both threads of
a replica have stopped and one is started again (MDEV-4698).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import Channel, ServerState
from headrace.servers.failover.planning.members import Members, Seen


def find_channel(seen: Seen, source: Seen) -> Channel | None:
    """Returns the channel by which a server follows another, None if it does not."""
    for channel in seen.state.channels if seen.state else ():
        if channel.place == source.place:
            return channel
    return None


def list_followers(members: Members, source: Seen) -> list[Seen]:
    """Lists the servers that answer and follow `source` directly, by name."""
    ordered = (members[name] for name in sorted(members))
    return [member for member in ordered if member.name != source.name and find_channel(member, source) is not None]


def list_writers(members: Members) -> list[str]:
    """Lists the names of servers that take writes."""
    return sorted(name for name, member in members.items() if member.state is not None and not member.state.read_only)


def list_heads(members: Members) -> list[str]:
    """Lists the names of servers that take writes and follow nobody."""
    return [name for name in list_writers(members) if not require_state(members[name]).channels]


def list_strangers(members: Members, source: str) -> list[str]:
    """Lists, in words, servers that follow none of the named servers, perhaps the source under
    another name: they would be left without a source. Servers that certainly follow another are
    skipped."""
    named = {member.place for member in members.values()}
    descriptions = []
    for name, member in sorted(members.items()):
        channels = member.state.channels if member.state is not None and name != source else ()
        another = any(_is_another(member, channel, members[source]) for channel in channels)
        if channels and not another and not named & {channel.place for channel in channels}:
            descriptions.append(f"{name} follows {' and '.join(channel.where for channel in channels)}")
    return descriptions


def _is_another(seen: Seen, channel: Channel, source: Seen) -> bool:
    """Returns whether a channel's source is certainly not this one: it has another server_id, or
    sends while this one is dead."""
    if source.state is not None:
        return channel.source_server_id not in (0, source.state.server_id)
    return channel.receive == "on" and not seen.deaf


def collect_gtids(seen: Seen) -> GtidSet:
    """Returns the GTIDs that a server has executed, or received and not yet applied."""
    state = require_state(seen)
    gtids = state.executed
    for channel in state.channels:
        gtids = gtids.union(channel.received).union(channel.executed)
    return gtids


def keeps_relay_log(state: ServerState) -> bool:
    """Returns whether a relay log survives a start of both threads."""
    return not (state.flavor == "mariadb" and state.gtid_on)


def is_received_known(state: ServerState) -> bool:
    """Returns whether a server knows what it received: MariaDB does not by file positions."""
    return state.flavor != "mariadb" or all(channel.uses_gtid for channel in state.channels)


def compute_usable(seen: Seen) -> GtidSet:
    """Returns what a server will have executed when its applier has finished its relay log."""
    state = require_state(seen)
    gtids = state.executed
    for channel in state.channels:
        gtids = gtids.union(channel.executed)
        running = channel.apply == "on"
        # While a thread receives, MariaDB keeps the relay log when the applier is started.
        startable = channel.receive != "off" or keeps_relay_log(state)
        if not channel.apply_error and (running or startable):
            gtids = gtids.union(channel.received)
    return gtids


def explain_unfit(seen: Seen, allow_delayed: bool = False) -> str:
    """Returns why a server cannot be promoted; "" if it can."""
    state, channel = require_state(seen), seen.channel
    if len(state.channels) > 1:
        return f"follows {len(state.channels)} sources"
    if not state.binary_log.on:
        return "has no binary log, so nobody could follow it"
    if not state.binary_log.replica_updates:
        return "does not log what it applies (log_replica_updates, log_slave_updates), so its binary log has gaps"
    if not state.gtid_on:
        return "does not replicate by GTID"
    if channel is None:
        return ""
    if not is_received_known(state):
        return "follows by file positions (MASTER_USE_GTID = no), so what it received is not known"
    if channel.apply_error:
        return f"cannot apply: {channel.apply_error[:200]}"
    if any(channel.filters):
        return "has replication filters, so it lacks a part of the data"
    if channel.delay_s and not allow_delayed:
        return f"is delayed on purpose by {channel.delay_s} s"
    return ""


def find_errant(members: Members, source: Seen) -> dict[str, str]:
    """Returns the transactions that followers wrote themselves, by name, as text. MySQL: those of
    its own UUID that it did not receive. MariaDB: those of its own server id in its binary log,
    which are legitimate only after a promotion."""
    texts = {}
    for follower in list_followers(members, source):
        own = find_own_writes(follower)
        others = [other for other in members.values() if other.state is not None and other.name != follower.name]
        text = _find_unique(follower, own, others)
        if text:
            texts[follower.name] = text
    return texts


def find_own_writes(seen: Seen) -> GtidSet | dict[tuple[int, int], int]:
    """Returns the transactions of a server's binary log that it wrote itself: for MariaDB the last
    number of each (domain, server)."""
    state = require_state(seen)
    if state.flavor == "mariadb":
        return {key: last for key, last in seen.wrote.items() if key[1] == state.server_id}
    own = GtidSet("mysql")
    for key, _ in state.executed.ranges:
        if key.partition(":")[0] == state.uuid.lower():
            own = own.union(state.executed.select_key(key))
    return own


def _find_unique(seen: Seen, own: GtidSet | dict[tuple[int, int], int], others: list[Seen]) -> str:
    """Returns the transactions of `own`, written by a server, that no other server has, as text."""
    if isinstance(own, dict):
        # The position contains own transactions that came back from a later source.
        everywhere = _find_highest([*(other.wrote for other in others), _find_positions(seen)])
        highest = {key: everywhere.get(key, 0) for key in own}
        own = _find_unsettled(own, seen, everywhere)
        return describe_ranges({key: (highest[key] + 1, last) for key, last in own.items() if last > highest[key]})
    # The received set of its channel does not help: MySQL lists there what the server executed, own
    # writes included. Without another server to compare, they may be from a time as the source.
    remaining = own
    for other in others:
        remaining = remaining.minus(collect_gtids(other))
    return str(remaining) if others else ""


def _find_highest(logs: Iterable[Mapping[tuple[int, int], int]]) -> dict[tuple[int, int], int]:
    """Returns the last number of each (domain, server) in any of these logs."""
    highest: dict[tuple[int, int], int] = {}
    for log in logs:
        for key, last in log.items():
            highest[key] = max(last, highest.get(key, 0))
    return highest


def _find_positions(seen: Seen) -> dict[tuple[int, int], int]:
    """Returns the last number of each (domain, server) that a server of MariaDB has applied as a
    replica, by its present channels and by its position."""
    state = require_state(seen)
    positions = (state.applied, *(channel.executed for channel in state.channels))
    return _find_highest(map(_list_numbers, positions))


def _list_numbers(position: GtidSet) -> dict[tuple[int, int], int]:
    """Returns the last number of each (domain, server) of a position of MariaDB."""
    return {(int(domain), writer): position.get_last_number(domain) for domain, writer in position.writers}


def _find_unsettled(
    log: Mapping[tuple[int, int], int], seen: Seen, highest: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], int]:
    """Returns the part of a binary log behind the last common transaction of each domain. With
    strict GTIDs a domain is a single sequence: servers that share a transaction share all before
    it, even if one binary log was emptied since (RESET MASTER) and does not list them."""
    if not require_state(seen).gtid_strict:
        return dict(log)
    common: dict[int, int] = {}
    for (domain, server), last in seen.wrote.items():
        common[domain] = max(common.get(domain, 0), min(last, highest.get((domain, server), 0)))
    return {key: last for key, last in log.items() if last > common.get(key[0], 0)}


def describe_ranges(transactions: dict[tuple[int, int], tuple[int, int]]) -> str:
    """Returns MariaDB's numbers by (domain, server) as text, DOMAIN-SERVER-FIRST..LAST."""
    return ", ".join(
        f"{domain}-{server}-{first}..{last}" for (domain, server), (first, last) in sorted(transactions.items())
    )


def find_last_numbers(seen: Seen) -> dict[tuple[int, int], int]:
    """Returns the last number of each (domain, server) that a server of MariaDB is known to have,
    by its binary log and by the positions that it has applied. The binary log of a server that was
    made from a copy begins after the copy, whose end is known by its applied position alone."""
    return _find_highest([seen.wrote, _find_positions(seen), _list_numbers(require_state(seen).executed)])


def has_common_history(first: Seen, second: Seen) -> bool:
    """Returns whether two servers have a transaction in common: those of two clusters have none."""
    if require_state(first).flavor == "mariadb":
        return not find_last_numbers(first).keys().isdisjoint(find_last_numbers(second))
    return collect_gtids(first).minus(collect_gtids(second)) != collect_gtids(first)


def find_extra(old: Seen, new: Seen) -> str:
    """Returns the transactions of `old` that `new` lacks, as text; "" if there are none. MariaDB's
    positions do not show them: 0-1-105 is below 0-2-110, and yet 0-1-101..105 may be only in its
    own history. So the last number of each server in both is compared."""
    if require_state(old).flavor != "mariadb":
        return str(collect_gtids(old).minus(collect_gtids(new)))
    highest = find_last_numbers(new)
    wrote = _find_unsettled(old.wrote, old, highest)
    beyond = {key: last for key, last in wrote.items() if last > highest.get(key, 0)}
    return describe_ranges({key: (highest.get(key, 0) + 1, last) for key, last in beyond.items()})


def find_out_of_reach(seen: Seen, source: Seen) -> GtidSet:
    """Returns the transactions that a server has not executed and `source` has purged, as far as
    that is known: the server can follow it only once it has them."""
    state = require_state(seen)
    return GtidSet(state.flavor) if source.purged is None else source.purged.minus(state.executed)


def choose_best(candidates: list[Seen], target: str | None, replaced: GtidSet | None = None) -> Seen | None:
    """Returns the candidate whose usable GTIDs contain those of every other, apart from `replaced`,
    errant transactions that empty ones will replace; None if there is no such candidate. Among
    several it is `target`, else the one that has applied most."""
    sets = [compute_usable(each) if replaced is None else compute_usable(each).minus(replaced) for each in candidates]
    pairs = zip(candidates, sets, strict=True)
    able = [each for each, gtids in pairs if all(gtids.contains(other) for other in sets)]
    named = [each for each in able if each.name == target]
    # Among equals the candidate that has applied most is ready soonest; then by name, so that two
    # watchers make the same choice.
    able.sort(key=lambda each: (compute_usable(each).minus(require_state(each).executed).count(), each.name))
    return (named or able or [None])[0]


def require_state(seen: Seen) -> ServerState:
    """Returns the state of a server that is known to have answered."""
    assert seen.state is not None, seen.name
    return seen.state
