"""What must hold before one server follows another: rules on two states, without any I/O."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import InputError
from headrace.servers.flavors import NAMES
from headrace.servers.topology.dialect import GUIDE
from headrace.servers.topology.gtid import GtidSet
from headrace.servers.topology.state import Channel, ServerState

PREPARE = "--prepare-source restarts it with what it needs"
# What a source is restarted with. As shipped a crash of MariaDB's machine loses what was not yet
# written of its binary log (sync_binlog 0), and replicas then have transactions that it has not.
SOURCE_SETTINGS: dict[str, dict[str, str | None]] = {
    "mariadb": {
        "log-bin": "ON",
        "log-slave-updates": "ON",
        "gtid-strict-mode": "ON",
        "binlog-format": "ROW",
        "sync-binlog": "1",
    },
    "mysql": {"log-bin": "ON", "log-replica-updates": "ON", "gtid-mode": "ON", "enforce-gtid-consistency": "ON"},
}


def lacking(source: ServerState, gtid: bool) -> list[str]:
    """In words, what a server lacks to be a source."""
    found = []
    if not source.log_bin:
        found.append("writes no binary log (log_bin)")
    if source.server_id == 0:
        found.append("has server_id 0")
    if gtid and not source.gtid_on:
        found.append("has gtid_mode OFF")
    if source.channels and not source.log_replica_updates:
        found.append("does not write what it applies into its binary log (log_slave_updates is OFF)")
    return found


def check_source(source: ServerState, gtid: bool = True) -> None:
    """Raises InputError for a server that cannot be a source as it is."""
    found = lacking(source, gtid)
    if found:
        hint = f"{PREPARE}; or --position file where only GTIDs are missing."
        raise InputError(source.name, f"cannot be a source: it {', and it '.join(found)}", GUIDE, hint)


def check_pair(source: ServerState, replica: ServerState, gtid: bool = True) -> None:
    """Raises InputError where this replica cannot follow this source."""
    check_source(source, gtid)
    if source.flavor != replica.flavor:
        rule = f"is {NAMES[replica.flavor]}, and {source.name} is {NAMES[source.flavor]}: their GTIDs and binary logs differ"
        raise InputError(replica.name, rule, GUIDE, f"Make it with --flavor {source.flavor}.")
    if replica.version[:2] < source.version[:2]:
        rule = f"is older ({_version(replica)}) than its source ({_version(source)}), whose events it may not know"
        raise InputError(replica.name, rule, "MySQL manual, Replication Compatibility", "Upgrade replicas first.")
    if replica.server_id == source.server_id:
        rule = f"has server_id {replica.server_id}, as {source.name} has: its own events would be skipped"
        raise InputError(replica.name, rule, GUIDE, "Give each server its own: --set server_id=N.")
    if replica.server_id == 0:
        raise InputError(replica.name, "has server_id 0: it may not replicate", GUIDE, "--set server_id=N.")
    if source.uuid and source.uuid == replica.uuid:
        rule = f"has the server_uuid of {source.name}: it is a copy with its auto.cnf"
        raise InputError(replica.name, rule, GUIDE, "Remove auto.cnf from its data directory and start it again.")
    if gtid and not replica.gtid_on:
        hint = "--set gtid_mode=ON --set enforce_gtid_consistency=ON, or --position file."
        raise InputError(replica.name, "has gtid_mode OFF, and its source ON", GUIDE, hint)


def check_ring(name: str, sources_of: dict[str, tuple[str, ...]], wanted: str) -> None:
    """Raises InputError when following `wanted` would lead back to `name`. `sources_of`: whom each
    server follows now."""
    if name == wanted:
        raise InputError(name, "cannot follow itself", GUIDE, "Name another server with --of.")
    seen, left = set[str](), [(wanted, wanted)]
    while left:
        at, path = left.pop()
        if at == name:
            rule = f"would follow itself, by {path}: writes would go round"
            raise InputError(
                name, rule, GUIDE, "A ring is not made. End one of the others first: headrace replica down."
            )
        if at not in seen:
            seen.add(at)
            left += [(one, f"{path} < {one}") for one in sources_of.get(at, ())]


def check_reachable(name: str, purged: GtidSet, has: GtidSet, source: str) -> None:
    """Raises InputError when the source has removed what the replica still needs."""
    gone = purged.minus(has)
    if not gone.is_empty:
        rule = f"needs {gone.count():,} transactions that {source} has purged from its binary log: {str(gone)[:120]}"
        raise InputError(name, rule, GUIDE, "Seed it anew: --seed copy, clone, mariabackup or snapshot.")


def errant(replica: ServerState, source: ServerState) -> GtidSet:
    """What only the replica has. Read the replica first: what the source gains meanwhile does not
    matter."""
    return replica.executed.minus(source.executed)


def problems(state: ServerState) -> Iterator[str]:
    """In words, what is wrong with a server's replication, and what would be at its promotion."""
    for channel in state.channels:
        name = f"channel {channel.name}: " if channel.name else ""
        yield from (f"{name}{words}" for words in _of_channel(channel))
        if not channel.uses_gtid and state.flavor == "mariadb":
            yield f"{name}follows file positions, which a crash may leave behind the data (relay-log.info is a file)"
        if channel.source_server_id and channel.source_server_id == state.server_id:
            yield f"{name}its source has the same server_id {state.server_id}"
    if state.channels:
        yield from _as_candidate(state)
    yield from _semi_sync(state)


def _of_channel(channel: Channel) -> Iterator[str]:
    where = f"{channel.source_host}:{channel.source_port}"
    if channel.receive == "off":
        yield f"receives nothing from {where}: {channel.receive_error or 'stopped'}"
    elif channel.receive == "connecting":
        yield f"cannot connect to {where}: {channel.receive_error or 'no answer yet'}"
    if channel.apply == "off":
        yield f"applies nothing: {channel.apply_error or 'stopped'}"


def _as_candidate(state: ServerState) -> Iterator[str]:
    if not state.log_bin:
        yield "cannot be promoted: it writes no binary log"
    elif not state.log_replica_updates:
        yield "cannot be promoted: log_slave_updates is OFF, so its binary log lacks what it applied"
    if not state.read_only and not state.group:
        yield "is not read-only: a write here is one that its source never has"
    if state.flavor == "mariadb" and not state.gtid_strict:
        yield "gtid_strict_mode is OFF: a write here would be numbered into its source's history unnoticed"
    for channel in state.channels:
        if channel.filters:
            named = ", ".join(f"{kind}={value}" for kind, value in channel.filters)
            yield f"cannot be promoted: it is filtered ({named}), so it has not all data while its GTIDs say so"
        if channel.delay_s:
            yield f"is delayed by {channel.delay_s} s on purpose: promote another, or wait"


def _semi_sync(state: ServerState) -> Iterator[str]:
    found = state.semi_sync
    if state.channels and found.source_enabled:
        yield "semi-sync's source side is ON on a replica: its own commits may wait for an answer that nobody gives"
    if found.source_enabled and not state.channels and not found.source_status:
        yield f"semi-sync is enabled and OFF now: commits wait for no replica ({found.clients} connected, {found.wait_count} wanted)"
    if found.source_enabled and found.wait_point == "AFTER_COMMIT":
        yield "semi-sync waits AFTER_COMMIT: others see a commit before a replica has it"
    if found.source_enabled and found.clients and found.clients < found.wait_count:
        yield f"semi-sync wants {found.wait_count} answers and {found.clients} replicas are connected"
    if any(one.receive == "on" for one in state.channels) and found.replica_enabled and not found.replica_status:
        yield "semi-sync is enabled and not used: its receive thread was started before, or the source has it off"


def _version(state: ServerState) -> str:
    return ".".join(map(str, state.version))
