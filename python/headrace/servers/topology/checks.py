"""Rules on states: conditions before a server follows another, problems while it does, and warnings
of later ones; and tables that cause trouble in replication."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.base.packaged import read_rows
from headrace.errors import InputError
from headrace.mysql.dialect import refuse
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import Channel, ServerState
from headrace.mysql.statements import SqlConnection, ask, get_error_words
from headrace.servers.flavors import NAMES

PREPARE = "--prepare-source restarts it with what it needs"
# Settings with which a source is restarted. With MariaDB's defaults a crash of the machine loses
# the unwritten end of the binary log (sync_binlog 0), and replicas then have transactions that the
# source has not.
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


def list_missing(source: ServerState, gtid: bool) -> list[str]:
    """Lists, in words, what a server lacks to be a source."""
    lacks = []
    if not source.binary_log.on:
        lacks.append("writes no binary log (log_bin)")
    if source.server_id == 0:
        lacks.append("has server_id 0")
    if gtid and not source.gtid_on:
        lacks.append("has gtid_mode OFF")
    if source.channels and not source.binary_log.replica_updates:
        lacks.append("does not write what it applies into its binary log (log_slave_updates is OFF)")
    return lacks


def check_source(source: ServerState, gtid: bool = True) -> None:
    """Raises InputError for a server that cannot be a source as it is."""
    lacks = list_missing(source, gtid)
    if lacks:
        hint = f"{PREPARE}; or --position file where only GTIDs are missing."
        raise refuse.input(source.name, f"cannot be a source: it {', and it '.join(lacks)}", hint)


def check_flavors(source: ServerState, replica: ServerState) -> None:
    """Raises InputError if one of the servers is MariaDB and the other MySQL."""
    if source.flavor != replica.flavor:
        rule = f"is {NAMES[replica.flavor]}, and {source.name} is {NAMES[source.flavor]}: their GTIDs and binary logs differ"
        raise refuse.input(replica.name, rule, f"Make it with --flavor {source.flavor}.")


def check_pair(source: ServerState, replica: ServerState, gtid: bool = True) -> None:
    """Raises InputError if this replica cannot follow this source."""
    check_source(source, gtid)
    check_flavors(source, replica)
    if replica.version[:2] < source.version[:2]:
        rule = f"is older ({_format_version(replica)}) than its source ({_format_version(source)}), whose events it may not know"
        raise InputError(replica.name, rule, "MySQL manual, Replication Compatibility", "Upgrade replicas first.")
    if replica.server_id == source.server_id:
        rule = f"has server_id {replica.server_id}, as {source.name} has: its own events would be skipped"
        raise refuse.input(replica.name, rule, "Give each server its own: --set server_id=N.")
    if replica.server_id == 0:
        raise refuse.input(replica.name, "has server_id 0: it may not replicate", "--set server_id=N.")
    if source.uuid and source.uuid == replica.uuid:
        rule = f"has the server_uuid of {source.name}: it is a copy with its auto.cnf"
        raise refuse.input(replica.name, rule, "Remove auto.cnf from its data directory and start it again.")
    if gtid and not replica.gtid_on:
        hint = "--set gtid_mode=ON --set enforce_gtid_consistency=ON, or --position file."
        raise refuse.input(replica.name, "has gtid_mode OFF, and its source ON", hint)


def check_ring(name: str, sources_of: dict[str, tuple[str, ...]], source: str) -> None:
    """Raises InputError if following `source` leads back to `name`. `sources_of`: by follower."""
    if name == source:
        raise refuse.input(name, "cannot follow itself", "Name another server with --of.")
    seen, pending = set[str](), [(source, source)]
    while pending:
        at, path = pending.pop()
        if at == name:
            rule = f"would follow itself, by {path}: writes would go round"
            raise refuse.input(name, rule, "A ring is not made. End one of the others first: headrace mysql down.")
        if at not in seen:
            seen.add(at)
            pending += [(above, f"{path} < {above}") for above in sources_of.get(at, ())]


def check_reachable(name: str, purged: GtidSet, has: GtidSet, source: str) -> None:
    """Raises InputError if `source` has purged what the server `name`, with GTIDs `has`, needs."""
    gone = purged.minus(has)
    if not gone.is_empty:
        rule = f"needs {gone.count():,} transactions that {source} has purged from its binary log: {str(gone)[:120]}"
        raise refuse.input(name, rule, "Seed it anew: --seed copy, clone, mariabackup or snapshot.")


def list_problems(state: ServerState) -> Iterator[str]:
    """Yields, in words, what is wrong with a server's replication, or would be once promoted."""
    for channel in state.channels:
        name = f"channel {channel.name}: " if channel.name else ""
        yield from (f"{name}{words}" for words in _list_channel_problems(channel))
        if channel.source_server_id and channel.source_server_id == state.server_id:
            yield f"{name}its source has the same server_id {state.server_id}"
    if state.channels:
        yield from _list_promotion_obstacles(state)
    yield from _list_semi_sync_warnings(state)


def _list_channel_problems(channel: Channel) -> Iterator[str]:
    """Yields, in words, which thread of a channel does not work, and why."""
    if channel.receive == "off":
        yield f"receives nothing from {channel.where}: {with_advice(channel.receive_error) or 'stopped'}"
    elif channel.receive == "connecting":
        yield f"cannot connect to {channel.where}: {with_advice(channel.receive_error) or 'no answer yet'}"
    if channel.apply == "off":
        yield f"applies nothing: {with_advice(channel.apply_error) or 'stopped'}"


# Advice on errors that stop a replica: texts of an error (a number with a colon is the error's),
# and the advice. Numbers and texts: MySQL Error Message Reference and MariaDB Error Codes, read
# 2026-11-23. The first row with a text in the error counts.
KNOWN_ERRORS = [
    (row["signs"].lower().split("|"), row["advice"])
    for row in read_rows("headrace.servers.topology", "known_errors.csv")
]


def with_advice(error: str) -> str:
    """Returns the text of an error of a replica's thread, with the advice of known_errors.csv."""
    for signs, advice in KNOWN_ERRORS:
        if any(sign in error.lower() for sign in signs):
            return f"{error} (what to do: {advice})"
    return error


def list_warnings(state: ServerState) -> Iterator[str]:
    """Yields, in words, what works now and will cause trouble later."""
    yield from _list_deliberate_settings(state)
    logs = state.binary_log.on and (not state.channels or state.binary_log.replica_updates)
    if logs and state.binary_log.format == "STATEMENT":
        yield (
            "binlog_format is STATEMENT: what depends on chance or order (UUID(), LIMIT without ORDER BY, triggers)"
            " gives other rows on its replicas, unnoticed (MySQL manual, Determination of Safe and Unsafe Statements);"
            " SET GLOBAL binlog_format = ROW, and connect anew"
        )
    if state.binary_log.row_image not in ("", "FULL") and state.flavor == "mariadb":
        yield f"binlog_row_image is {state.binary_log.row_image}: nothing can be taken back from its binary log (failover rejoin --diverged rewind)"


def list_pair_warnings(states: Mapping[str, ServerState]) -> Iterator[tuple[str, str]]:
    """Yields warnings that need the states of two servers, each with the name of its server."""
    for name, source in sorted(states.items()):
        ready = [
            other
            for other, state in sorted(states.items())
            if state.semi_sync.replica_enabled
            and any(each.source_server_id == source.server_id for each in state.channels)
        ]
        if ready and not source.semi_sync.source_enabled:
            yield (
                name,
                f"semi-sync is off here and on at {', '.join(ready)}: a commit waits for no replica, and is lost with"
                f" this server; {'; '.join(source.dialect.switch_semi_sync('source', True))}",
            )
    for name, state in sorted(states.items()):
        for other_name, other in sorted(states.items()):
            if name == other_name:
                continue
            if state.uuid and state.uuid == other.uuid:
                yield (
                    name,
                    f"has the server_uuid of {other_name}, {state.uuid}: a source cuts off one of two such replicas again"
                    " and again (MySQL manual, server_uuid); remove auto.cnf from the copy's data directory, and start it again",
                )
            if state.server_id == other.server_id:
                what = "a source cuts off one of two such replicas, and its own events would be skipped"
                yield name, f"has the server_id of {other_name}, {state.server_id}: {what}; SET GLOBAL server_id = N"
            follows = any(channel.source_server_id == other.server_id for channel in state.channels)
            if follows and 0 < state.apply_packet < other.max_packet:
                yield (
                    name,
                    f"takes events of at most {state.apply_packet:,} bytes, and its source {other_name} takes rows of"
                    f" {other.max_packet:,} (max_allowed_packet): the first that is larger stops it; SET GLOBAL"
                    f" {'slave' if state.flavor == 'mariadb' else 'replica'}_max_allowed_packet = 1073741824",
                )


# --- tables ---------------------------------------------------------------------------------------

MOST_NAMED = 5  # tables in one warning; more are counted
LOOK_S = 5  # longest look at all tables, a guess: a server may have a hundred thousand
SYSTEM = "('mysql', 'information_schema', 'performance_schema', 'sys')"
# Queries for tables, and the warning about what they find; `flavor`: of that one alone.
TABLE_CHECKS = read_rows("headrace.servers.topology", "table_checks.csv")


def list_table_warnings(connection: SqlConnection, state: ServerState) -> list[str]:
    """Lists, in words, tables that make replication slow or wrong. A query that takes too long is
    given up, which the list says."""
    descriptions = []
    limit = f"max_statement_time = {LOOK_S}" if state.flavor == "mariadb" else f"max_execution_time = {LOOK_S * 1000}"
    try:
        ask(connection, f"SET SESSION {limit}")
        for row in (row for row in TABLE_CHECKS if row["flavor"] in ("", state.flavor)):
            names = [f"{schema}.{table}" for schema, table in ask(connection, row["query"].format(system=SYSTEM))]
            if names:
                more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
                verb = row["verb_of_many" if len(names) > 1 else "verb"]
                descriptions.append(f"{', '.join(names[:MOST_NAMED])}{more} {verb} {row['words']}")
    except Exception as error:
        descriptions.append(f"its tables were not looked at: {get_error_words(error)}")
    return descriptions


def _list_promotion_obstacles(state: ServerState) -> Iterator[str]:
    """Yields, in words, what prevents or speaks against the promotion of a replica."""
    if not state.binary_log.on:
        yield "cannot be promoted: it writes no binary log"
    elif not state.binary_log.replica_updates:
        yield "cannot be promoted: log_slave_updates is OFF, so its binary log lacks what it applied"
    if not state.read_only and not state.group:
        yield "is not read-only: a write here is one that its source never has"
    if state.flavor == "mariadb" and not state.gtid_strict:
        yield "gtid_strict_mode is OFF: a write here would be numbered into its source's history unnoticed"


def _list_deliberate_settings(state: ServerState) -> Iterator[str]:
    """Yields, in words, deliberate settings of a replica that speak against its promotion."""
    for channel in state.channels:
        name = f"channel {channel.name}: " if channel.name else ""
        if channel.filters:
            named = ", ".join(f"{kind}={value}" for kind, value in channel.filters)
            yield f"{name}cannot be promoted: it is filtered ({named}), so it has not all data while its GTIDs say so"
        if channel.delay_s:
            yield f"{name}is delayed by {channel.delay_s} s on purpose: promote another, or wait"
        if not channel.uses_gtid and state.flavor == "mariadb":
            yield f"{name}follows file positions, which a crash may leave behind the data (relay-log.info is a file)"


def _list_semi_sync_warnings(state: ServerState) -> Iterator[str]:
    """Yields, in words, where semi-sync is on and does not protect commits."""
    semi_sync = state.semi_sync
    if state.channels and semi_sync.source_enabled:
        yield "semi-sync's source side is ON on a replica: its own commits may wait for an answer that nobody gives"
    if semi_sync.source_enabled and not state.channels and not semi_sync.source_status:
        yield f"semi-sync is enabled and OFF now: commits wait for no replica ({semi_sync.clients} connected, {semi_sync.wait_count} wanted)"
    if semi_sync.source_enabled and semi_sync.wait_point == "AFTER_COMMIT":
        yield "semi-sync waits AFTER_COMMIT: others see a commit before a replica has it"
    if semi_sync.source_enabled and semi_sync.clients and semi_sync.clients < semi_sync.wait_count:
        yield f"semi-sync wants {semi_sync.wait_count} answers and {semi_sync.clients} replicas are connected"
    receives = any(channel.receive == "on" for channel in state.channels)
    if receives and semi_sync.replica_enabled and not semi_sync.replica_status:
        yield "semi-sync is enabled and not used: its receive thread was started before, or the source has it off"


def _format_version(state: ServerState) -> str:
    """Returns a server's version as text, as 10.11.19."""
    return ".".join(map(str, state.version))
