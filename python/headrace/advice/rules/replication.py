"""Binlog contents, GTIDs, and how replicas apply."""

from __future__ import annotations

from headrace.advice.situation import Rule, RuleValue, Situation
from headrace.base.units import MIB

WORKERS = (4, 16)  # 4 were enough in the published test (mts-2016); 16 is a guess
# Mean of one fdatasync, ms: gp2 and gp3 in use, 2021 (parameters.toml, fdatasync-2021). gp3's is
# taken for types that were not measured.
FDATASYNC_MS = {"gp2": 1.16, "gp3": 1.7}
SYNCS_OF_A_COMMIT = 2.0  # the applier's: redo and binlog


def get_fdatasync_ms(s: Situation) -> float:
    """Returns the mean time of an fdatasync on the volume that the logs are on, ms."""
    kind = (s.log_storage or s.storage).types[0]
    return FDATASYNC_MS.get(kind, FDATASYNC_MS["gp3"])


def advise_workers(s: Situation) -> RuleValue:
    """Advises the number of threads that apply, by the virtual CPUs; the effect is the commits a
    second of a single one."""
    count = WORKERS[0] if s.vcpus is None else min(max(s.vcpus, WORKERS[0]), WORKERS[1])
    alone = 1_000.0 / (SYNCS_OF_A_COMMIT * get_fdatasync_ms(s))
    why = f"{s.vcpus_words}; 4 kept a replica of a heavy load within 10 s, 8 were hardly better"
    rate = f"at most about {alone:,.0f} commits a second here (two syncs each)"
    return RuleValue(str(count), why, effect=f"one worker applies {rate}; more workers share syncs")


def advise_parallel_mode(s: Situation) -> RuleValue:
    """Advises how MariaDB's replica applies in parallel: conservative with MyRocks, else
    optimistic."""
    if s.engine == "myrocks":
        return RuleValue("conservative", "MyRocks does not tell the applier of lock waits")
    why = "a conflict is rolled back and tried again, so more is parallel than the source's group commit"
    return RuleValue("optimistic", why)


def make_unsynced_rule(what: str) -> Rule:
    """Returns the rule that leaves sync_*_info and sync_relay_log at the server's default."""

    def advise(s: Situation) -> RuleValue:
        """Advises 10000; the effect is the transactions a second that 1 would allow at most."""
        sync = f"a sync of about {get_fdatasync_ms(s):.2g} ms to every transaction"
        effect = f"1 would add {sync}, so at most {1_000.0 / get_fdatasync_ms(s):,.0f} a second"
        why = f"{what}; the 1 of servers with battery-backed controllers gains nothing here"
        return RuleValue("10000", why, effect=effect)

    return advise


def advise_relay_log_info(s: Situation) -> RuleValue | None:
    """Advises how often the applier's position is flushed: by the server's default."""
    if s.server.flavor == "mariadb":
        return make_unsynced_rule("replicate with GTID; without it set 1")(s)
    return make_unsynced_rule("the position is kept in a table, within the transaction")(s)


def advise_log_updates(s: Situation) -> RuleValue:
    """Advises a replica's own binlog; the effect is its MiB/s."""
    effect = None
    if s.demand is not None:
        effect = f"{s.demand.binlog_bytes_s / MIB:,.3g} MiB/s of binlog at {s.demand.tps:,.4g} tps"
    why = "a replica without its own binlog cannot be promoted or feed others; OFF saves these writes"
    return RuleValue("ON", why, effect=effect)


def advise_isolation(s: Situation) -> RuleValue:
    """Advises the isolation level: READ-COMMITTED where it is set, else the default."""
    current = (s.current.get("transaction_isolation") or "").upper()
    if current == "READ-COMMITTED":
        return RuleValue(current, "as it is; MyRocks knows it")
    return RuleValue("REPEATABLE-READ", "the default; SERIALIZABLE is refused by MyRocks")


REPLICATION: dict[str, Rule] = {
    "log_replica_updates": advise_log_updates,
    "replica_parallel_workers": advise_workers,
    "replica_parallel_mode": advise_parallel_mode,
    "sync_source_info": make_unsynced_rule("with relay_log_recovery the receiver starts where the applier was"),
    "sync_relay_log": make_unsynced_rule("relay_log_recovery fetches again what a crash took"),
    "sync_relay_log_info": advise_relay_log_info,
    "transaction_isolation": advise_isolation,
}
