"""Binlog contents, GTIDs, and how replicas apply."""

from __future__ import annotations

from headrace.advice.model import SAFE
from headrace.advice.rules.answer import Answer, Rule, fixed
from headrace.advice.situation import MIB, Situation

WORKERS = (4, 16)
# Mean of one fdatasync, ms: gp2 and gp3 in use, 2021 (parameters.toml, fdatasync-2021). gp3's is also taken for what nobody measured.
FDATASYNC_MS = {"gp2": 1.16, "gp3": 1.7}
SYNCS_OF_A_COMMIT = 2.0  # the applier's: redo and binlog


def fdatasync_ms(s: Situation) -> float:
    """Of the volume the logs are on."""
    kind = (s.log_storage or s.storage).types[0]
    return FDATASYNC_MS.get(kind, FDATASYNC_MS["gp3"])


def workers(s: Situation) -> Answer:
    count = WORKERS[0] if s.vcpus is None else min(max(s.vcpus, WORKERS[0]), WORKERS[1])
    alone = 1_000.0 / (SYNCS_OF_A_COMMIT * fdatasync_ms(s))
    known = "virtual CPUs not given" if s.vcpus is None else f"{s.vcpus} virtual CPUs"
    effect = f"one worker applies at most about {alone:,.0f} commits a second here (two syncs each); more workers share syncs"
    return Answer(str(count), f"{known}; 4 kept a replica of a heavy load within 10 s, 8 hardly better", effect=effect)


def parallel_mode(s: Situation) -> Answer:
    if s.engine == "myrocks":
        return Answer("conservative", "MyRocks does not tell the applier of lock waits")
    return Answer("optimistic", "what conflicts is rolled back and tried again: parallel beyond the source's group commit")


def unsynced(what: str) -> Rule:
    """sync_*_info and sync_relay_log: left at the server's default."""

    def rule(s: Situation) -> Answer:
        cost = f"1 would add a sync of about {fdatasync_ms(s):.2g} ms to every transaction, so at most {1_000.0 / fdatasync_ms(s):,.0f} a second"
        return Answer("10000", f"{what}; the 1 of servers with battery-backed controllers gains nothing here", effect=cost)

    return rule


def relay_log_info(s: Situation) -> Answer:
    note = (
        "replicate with GTID; without it set 1"
        if s.server.flavor == "mariadb"
        else "the position is kept in a table, within the transaction"
    )
    return unsynced(note)(s)


def log_updates(s: Situation) -> Answer:
    effect = None
    if s.demand is not None:
        effect = f"{s.demand.binlog_bytes_s / MIB:,.3g} MiB/s of binlog at {s.demand.tps:,.4g} tps"
    return Answer("ON", "a replica without its own binlog cannot be promoted or feed others; OFF saves these writes", effect=effect)


def gtid(value: str, why: str) -> Rule:
    """Not by an edit of one file."""
    return lambda s: Answer(value, why, settable=False)


def isolation(s: Situation) -> Answer:
    now = (s.current.get("transaction_isolation") or "").upper()
    if now == "READ-COMMITTED":
        return Answer(now, "as it is; MyRocks knows it")
    return Answer("REPEATABLE-READ", "the default; SERIALIZABLE is refused by MyRocks")


def semi_sync(s: Situation) -> Answer:
    return Answer("ON", "where a lost primary must lose no commit; each waits for the network and a replica's sync", settable=False)


def write_set(s: Situation) -> Answer:
    return Answer("WRITESET", "replicas apply transactions on different rows side by side", SAFE)


REPLICATION: dict[str, Rule] = {
    "binlog_format": fixed("ROW", "the same rows everywhere; parallel replicas and MyRocks need it"),
    "binlog_row_image": fixed("FULL", "what every reader of the binlog understands"),
    "binlog_transaction_dependency_tracking": write_set,
    "transaction_write_set_extraction": fixed("XXHASH64", "WRITESET needs it"),
    "gtid_mode": gtid("ON", "positions that hold on every server; by a rollout: OFF_PERMISSIVE, ON_PERMISSIVE, ON"),
    "enforce_gtid_consistency": gtid("ON", "before gtid_mode; WARN shows first what it would refuse"),
    "gtid_strict_mode": gtid("ON", "a replica that was written to stops instead of drifting: check before"),
    "rpl_semi_sync": semi_sync,
    "log_replica_updates": log_updates,
    "replica_parallel_workers": workers,
    "replica_parallel_type": fixed("LOGICAL_CLOCK", "what was committed together is applied together, in one database too"),
    "replica_parallel_mode": parallel_mode,
    "replica_preserve_commit_order": fixed("ON", "readers of a replica see no gap"),
    "relay_log_recovery": fixed("ON", "after a crash relay logs are fetched anew: they need no sync"),
    "sync_source_info": unsynced("with relay_log_recovery the receiver starts where the applier was"),
    "sync_relay_log": unsynced("relay_log_recovery fetches again what a crash took"),
    "sync_relay_log_info": relay_log_info,
    "master_info_repository": fixed("TABLE", "crash-safe without a sync of a file"),
    "relay_log_info_repository": fixed("TABLE", "written in the transaction that is applied"),
    "gtid_pos_auto_engines": fixed("rocksdb", "the position commits in the transaction's own engine"),
    "transaction_isolation": isolation,
}
