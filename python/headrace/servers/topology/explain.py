"""Explains what a replica's durability settings cost and what they can lose, at a server's values.

docs/guide/replicas.md says how the figures were measured. They are for orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.mysql.state import ServerState

# Origin of the figures: MariaDB 10.11 and MySQL 9.7 on two cores of a shared machine.
LAB = "gp3 of a lab, 2026-11"


@dataclass(frozen=True)
class Explained:
    """A setting with its value, its cost and its possible loss, in words."""

    setting: str
    value: str
    costs: str
    can_lose: str


def explained(state: ServerState) -> list[Explained]:
    """Returns the settings that decide, with this server's values."""
    return [*_explain_commits(state), *_explain_relay_log(state), *_explain_position(state), *_explain_semi_sync(state)]


def _explain_commits(state: ServerState) -> Iterator[Explained]:
    """Explains redo flushes and the binary log."""
    durability = state.durability
    if durability.flush_log == 1:
        cost = f"a flush of the redo log a commit, shared by commits of one moment; some 2.1 ms ({LAB})"
        yield Explained("innodb_flush_log_at_trx_commit", "1", cost, "nothing")
    else:
        lost = "the last second of commits when the machine or its volume goes" if durability.flush_log == 2 else ""
        lost = lost or "the last second of commits when the server or its machine goes"
        yield Explained("innodb_flush_log_at_trx_commit", str(durability.flush_log), "no flush", lost)
    if not state.binary_log.on:
        yield Explained("log_bin", "OFF", "nothing: one flush a commit less", "it cannot be promoted or followed")
        return
    if durability.sync_binlog == 1:
        cost = f"a second flush a commit, in series: some 2.1 ms ({LAB})"
        yield Explained("sync_binlog", "1", cost, "nothing")
    else:
        lost = "after a power cut its binary log ends before its data: its own replicas lack the rest for good"
        yield Explained("sync_binlog", str(durability.sync_binlog), "no flush of the binary log", lost)
    value = "ON" if state.binary_log.replica_updates else "OFF"
    cost = "what it applies is written twice" if state.binary_log.replica_updates else "nothing"
    lost = (
        "nothing" if state.binary_log.replica_updates else "it cannot be promoted: its binary log lacks what it applied"
    )
    yield Explained("log_slave_updates", value, cost, lost)


def _explain_relay_log(state: ServerState) -> Iterator[Explained]:
    durability = state.durability
    if durability.sync_relay_log == 1:
        cost = f"a flush for each event received, not shared: 77 transactions a second instead of 1,260 ({LAB})"
        yield Explained("sync_relay_log", "1", cost, "nothing that was acknowledged by semi-sync")
    else:
        lost = "in a power cut what was received and not applied, also what semi-sync acknowledged; it is fetched again if the source lives"
        yield Explained("sync_relay_log", str(durability.sync_relay_log), "next to nothing", lost)
    if durability.relay_log_recovery or state.flavor == "mariadb":
        what = "ON" if durability.relay_log_recovery else "by GTID"
        lost = "what was received and not applied, at every start of its threads: never stop a candidate before it has applied it"
        if state.flavor == "mysql":
            lost = "after a crash what was received and not applied; it is fetched again if the source lives"
        yield Explained("relay_log_recovery", what, "it receives again what it had not applied", lost)
    else:
        lost = "a relay log that a crash cut short stops the replica"
        yield Explained("relay_log_recovery", "OFF", "nothing", lost)


def _explain_position(state: ServerState) -> Iterator[Explained]:
    if state.flavor == "mysql":
        yield Explained(
            "relay_log_info_repository",
            state.durability.info_repository,
            "a row in each transaction",
            "nothing: it commits with the data",
        )
        return
    for channel in state.channels:
        name = f"MASTER_USE_GTID{f' ({channel.name})' if channel.name else ''}"
        if channel.uses_gtid:
            cost = "a row of mysql.gtid_slave_pos in each transaction"
            yield Explained(name, "slave_pos", cost, "nothing: it commits with the data")
        else:
            lost = "relay-log.info is a file: after a crash it may repeat or skip transactions (sync_relay_log_info does not help)"
            yield Explained(name, "no", "nothing", lost)


def _explain_semi_sync(state: ServerState) -> Iterator[Explained]:
    semi_sync = state.semi_sync
    if not semi_sync.source_enabled:
        return
    value = f"ON, {'works' if semi_sync.source_status else 'is OFF now'}, {semi_sync.wait_point}, {semi_sync.timeout_ms / 1000:g} s"
    lost = f"after {semi_sync.timeout_ms / 1000:g} s without an answer it goes on alone, and says so only in its status"
    yield Explained(
        "rpl_semi_sync_source_enabled", value, "a round trip and the replica's receiving, each commit", lost
    )
