"""Determines the current guarantee, by the status of semi-sync and never by its settings."""

from __future__ import annotations

from dataclasses import replace

from headrace.mysql.state import SemiSync
from headrace.servers.failover.planning.election import (
    explain_unfit,
    is_received_known,
    keeps_relay_log,
    list_followers,
    require_state,
)
from headrace.servers.failover.planning.members import NEVER_S, AckProof, Guarantee, Members, Seen


def judge_guarantee(members: Members, source: Seen) -> Guarantee:
    """Returns what the loss of `source` at this moment would mean."""
    state = source.state
    if state is None:
        return Guarantee("none", (f"{source.name} does not answer: {source.error or 'no connection'}",))
    behind = list_followers(members, source)
    fit = [follower for follower in behind if not explain_unfit(follower)]
    if not fit:
        why = [f"{follower.name} {explain_unfit(follower)}" for follower in behind] or ["nobody follows it"]
        return Guarantee("none", tuple(f"no replica could take over: {reason}" for reason in why))
    semi = state.semi_sync
    reasons = []
    if not semi.source_enabled:
        reasons.append("semi-sync is off on the source: a commit waits for no replica")
    elif not semi.source_status:
        reasons.append("semi-sync is enabled and its status is OFF: it fell back to asynchronous")
    elif not semi.waits_alone:
        variable = state.dialect.name_semi_sync_variable("source", "wait_no_replica")
        reasons.append(f"{variable} is OFF: a source that its replicas leave acknowledges alone at once")
    elif semi.clients < semi.wait_count:
        reasons.append(f"{semi.clients} replicas acknowledge, {semi.wait_count} are asked for")
    ackers = list_acking(members, source)
    blind = [acker.name for acker in ackers if not is_received_known(require_state(acker))]
    if not reasons and len(ackers) - len(blind) < _count_needed(semi, ackers):
        reasons += [
            f"{name} acknowledges and follows by file positions: what it received is not known" for name in blind
        ]
    if reasons:
        return Guarantee("async", tuple(reasons))
    return Guarantee("kept", (), _list_conditions(source, ackers))


def _count_needed(semi: SemiSync, ackers: list[Seen]) -> int:
    """Returns the number of acknowledging replicas of which one has the last commit for certain."""
    return max(len(ackers), semi.clients) - semi.wait_count + 1


def _list_conditions(source: Seen, ackers: list[Seen]) -> tuple[str, ...]:
    """Lists in words under which conditions no acknowledged commit is lost. `ackers`: the replicas
    that acknowledge."""
    semi = require_state(source).semi_sync
    total, needed = max(len(ackers), semi.clients), _count_needed(semi, ackers)
    conditions = [f"{needed} of {total} acknowledging replicas can be reached at the failover"]
    if semi.timeout_ms / 1000 < NEVER_S:
        conditions.append(
            f"the source is fenced within {semi.timeout_ms / 1000:g} s (its semi-sync timeout) of the last good write"
        )
    volatile = [acker.name for acker in ackers if require_state(acker).durability.sync_relay_log != 1]
    if volatile:
        conditions.append(
            f"no power cut of the source and of {' or '.join(volatile)} together: sync_relay_log is not 1, so what was acknowledged may not be on disk"
        )
    thrown = [acker.name for acker in ackers if not keeps_relay_log(require_state(acker))]
    if thrown:
        conditions.append(
            f"{' and '.join(thrown)} {'applies' if len(thrown) == 1 else 'apply'} what was received before threads or servers restart (MDEV-4698: MariaDB throws the relay log away)"
        )
    if semi.wait_point.upper() == "AFTER_COMMIT":
        conditions.append("AFTER_COMMIT: others may have read a commit that is not acknowledged yet, and that is lost")
    return tuple(conditions)


def is_waiting(semi: SemiSync) -> bool:
    """Returns whether the commits of a source wait for replicas, however few are connected."""
    return semi.source_enabled and semi.source_status and semi.waits_alone


def list_acking(members: Members, source: Seen) -> list[Seen]:
    """Lists the replicas of `source` that acknowledge."""
    sides = [(follower, require_state(follower).semi_sync) for follower in list_followers(members, source)]
    return [follower for follower, semi in sides if semi.replica_enabled and semi.replica_status]


def find_proof(before: Members, after: Seen, began_s: float) -> AckProof | None:
    """Returns the proof that an acknowledged write gives; None if semi-sync does not work, or too
    few of the replicas that acknowledge have run for some seconds. `before`: the servers, observed
    before the write began at `began_s`; `after`: the source, observed when the write was
    acknowledged. If a replica loses in between what it acknowledges, its `ThreadRun` shows it
    later."""
    source = before.get(after.name)
    if source is None or source.state is None or after.state is None or after.write != "ok":
        return None
    semi = after.state.semi_sync
    # Also replicas that do not take part now: they may join at any moment, and be the only ones.
    others = [member for member in before.values() if member.name != source.name]
    able = [member for member in others if member.state is None or member.state.semi_sync.replica_enabled]
    works = is_waiting(semi) and semi.clients >= semi.wait_count >= 1
    ackers = list_acking(before, source)
    if not works or judge_guarantee(before, source).level != "kept" or not ackers:
        return None
    proof = AckProof(
        source=source.name,
        at_s=began_s,
        timeout_s=min(source.state.semi_sync.timeout_ms, semi.timeout_ms) / 1000,
        wait_count=min(source.state.semi_sync.wait_count, semi.wait_count),
        ackers=frozenset(member.name for member in able),
        clients=max(source.state.semi_sync.clients, semi.clients),
        runs={member.name: member.run for member in able if member.state is not None},
    )
    # Replicas that started just now prove nothing: another start could not be told from that.
    return proof if sum(run.is_settled for run in proof.runs.values()) >= proof.needed else None


def carry_proof(proof: AckProof, members: Members) -> AckProof | None:
    """Returns the proof with the runs of the replicas that have kept their relay logs since; None
    if the source is seen with its semi-sync at rest: it acknowledges alone from then on."""
    source = members.get(proof.source)
    if source is not None and source.state is not None and not is_waiting(source.state.semi_sync):
        return None
    runs = dict(proof.runs)
    for name in proof.ackers:
        if is_intact(proof, members.get(name)):
            runs[name] = members[name].run
    return replace(proof, runs=runs)


def is_intact(proof: AckProof, seen: Seen | None) -> bool:
    """Returns whether a replica answers and is known to have everything that it acknowledged."""
    if seen is None or seen.state is None or seen.name not in proof.runs or not is_received_known(seen.state):
        return False
    return seen.run.is_unbroken(proof.runs[seen.name], keeps_relay_log(seen.state))
