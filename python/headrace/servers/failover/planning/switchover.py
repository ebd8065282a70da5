"""Plans a switchover, whose source works and cooperates; and the steps that it shares with a
failover: the promotion, and how the others follow."""

from __future__ import annotations

from dataclasses import replace

from headrace.mysql.gtid import GtidSet
from headrace.servers.failover.planning import election
from headrace.servers.failover.planning.election import (
    collect_gtids,
    explain_unfit,
    find_channel,
    find_extra,
    find_out_of_reach,
    require_state,
)
from headrace.servers.failover.planning.members import FailoverPlan, FailoverStep, Members, Seen
from headrace.servers.failover.planning.progress import Progress

ROLE_OF_REPLICA = "a replica with the source's role waits for acknowledgements of what it applies"


def plan(members: Members, source: Seen, progress: Progress) -> FailoverPlan:
    """Plans to stop the writes on a working source, to wait until a replica has them all, to
    promote it, and to let the old source follow it."""
    if source.state is None:
        hint = "Use: headrace failover run."
        rule = f"{source.name} does not answer, so its writes cannot be stopped: {source.error}"
        return FailoverPlan(refusal=rule, hint=hint)
    replicas = election.list_followers(members, source)
    elected = members.get(progress.elected) if progress.elected else None
    if elected is not None and elected.state is not None and not elected.state.read_only:
        steps, left_out = plan_rest(members, source, elected, progress, stage=4)
        return FailoverPlan(steps=steps, elected=elected.name, lossless=True, left_out=left_out)
    errant = election.find_errant(members, source)
    able, left_out = _list_able(replicas, progress, errant, source)
    if elected is None and not able:
        what = "; ".join(f"{name} {reason}" for name, reason in sorted(left_out.items())) or "nobody follows it"
        rule = f"no replica can take over from {source.name}: {what}"
        return FailoverPlan(refusal=rule, errant=errant, left_out=left_out)
    names = [candidate.name for candidate in able]
    if elected is None and progress.candidate is not None and progress.candidate not in names:
        reason = left_out.get(progress.candidate, "does not follow it, or does not answer")
        rule = f"{progress.candidate} cannot take over: it {reason}"
        return FailoverPlan(refusal=rule, errant=errant, left_out=left_out)
    chosen = elected or next((candidate for candidate in able if candidate.name == progress.candidate), able[0])
    # Replicas that a cut-off switchover, or the stage before, has moved to the chosen one already.
    below = [follower for follower in election.list_followers(members, chosen) if follower.name != source.name]
    others = [replica for replica in (*replicas, *below) if replica.name != chosen.name and replica.name not in errant]
    promote, refusal = plan_promotion(chosen, [*others, source], progress, stage=2)
    if refusal:
        return FailoverPlan(refusal=refusal[0], hint=refusal[1], elected=chosen.name, left_out=left_out)
    steps = plan_release(chosen, stage=1)
    if not source.state.read_only:
        why = "writes go on until it is; what is left then is applied in a moment"
        near = FailoverStep(1, "wait-near", chosen.name, to=source.name, why=why)
        early = _plan_early_moves(replicas, chosen, source, others, progress, promote)
        if early:
            steps += [near, *early]
        steps += [
            replace(near, stage=2),
            FailoverStep(2, "read-only", source.name, why="its last transaction is known then"),
            FailoverStep(2, "wait-applied", chosen.name, to=source.name, why="all that the old source has"),
        ]
    else:
        target = require_state(source).executed
        if not require_state(chosen).executed.contains(target):
            why = "all that the old source has"
            steps.append(FailoverStep(2, "wait-applied", chosen.name, gtid=target, to=source.name, why=why))
    gives_up = describe_given_up(chosen, [*others, source], progress)
    steps = (*steps, *promote)
    return FailoverPlan(steps, chosen.name, lossless=True, errant=errant, left_out=left_out, gives_up=gives_up)


def _plan_early_moves(
    replicas: list[Seen],
    chosen: Seen,
    source: Seen,
    others: list[Seen],
    progress: Progress,
    promote: tuple[FailoverStep, ...],
) -> list[FailoverStep]:
    """Returns steps that move replicas to the chosen one while the writes go on, so that its first
    commit is acknowledged: as many as it waits for, as long as the old source keeps as many as *it*
    waits for. Without semi-sync nobody waits for them, and they are moved afterwards."""
    count = max((step.count for step in promote if step.action == "semi-sync-source-on"), default=0)
    below = [each for each in others if find_channel(each, chosen) is not None]
    ready = [each for each in below if require_state(each).semi_sync.replica_enabled]
    semi = require_state(source).semi_sync
    acking = [replica for replica in replicas if require_state(replica).semi_sync.replica_enabled]
    spare = len(acking) - (semi.wait_count if semi.source_enabled else 0)
    steps = []
    for replica in replicas:
        channel = replica.channel
        if replica.name in (chosen.name, *progress.prepared.stay) or replica not in others or replica not in acking:
            continue
        if channel is None or channel.is_broken or channel.delay_s or channel.apply_error or replica.deaf:
            continue
        if len(steps) < min(count - len(ready), spare):
            why = "the first commit of the new source finds it there; it applies all it received before"
            steps.append(FailoverStep(1, "repoint-early", replica.name, to=chosen.name, why=why))
    return steps


def _list_able(
    replicas: list[Seen], progress: Progress, errant: dict[str, str], source: Seen
) -> tuple[list[Seen], dict[str, str]]:
    """Lists replicas that can take over, the most applied first; and why others cannot."""
    left_out = {}
    for replica in replicas:
        channel = find_channel(replica, source)
        reason = explain_unfit(replica, progress.wish.allow_delayed)
        if not reason and channel is not None and channel.receive != "on":
            reason = f"does not receive: {channel.receive_error or channel.receive}"
        if not reason and channel is not None and channel.apply != "on":
            reason = "does not apply: its SQL thread is stopped"
        if not reason and replica.name in errant:
            reason = f"has transactions of its own: {errant[replica.name]}"
        if reason:
            left_out[replica.name] = reason
    able = [replica for replica in replicas if replica.name not in left_out]
    able.sort(key=lambda replica: (collect_gtids(source).minus(require_state(replica).executed).count(), replica.name))
    return able, left_out


def list_siblings(pool: list[Seen], chosen: Seen) -> list[Seen]:
    """Lists servers that can follow the chosen one: those without transactions that it lacks."""
    return [member for member in pool if member.name != chosen.name and not find_extra(member, chosen)]


def _find_ackers(chosen: Seen, followers: list[Seen], progress: Progress) -> tuple[bool, list[Seen], int, int]:
    """Returns whether the new source's commits must wait for replicas, the replicas that could
    acknowledge, the number of acknowledgements to wait for, and the number that is possible."""
    semi = require_state(chosen).semi_sync
    # At a switchover the old source is among the followers: it shows whether commits waited for
    # replicas, and a successor that did not acknowledge itself has to wait as well.
    old = next((require_state(follower).semi_sync for follower in followers if follower.name == progress.source), None)
    waited = old is not None and old.source_enabled
    must_wait = progress.proof is not None or semi.replica_enabled or waited
    ackers = [
        each for each in followers if require_state(each).semi_sync.replica_enabled or each.name == progress.source
    ]
    waits_for = old.wait_count if old is not None and waited else semi.wait_count
    needed = progress.proof.wait_count if progress.proof else max(waits_for, 1)
    # One that can never follow acknowledges nothing.
    able = [each for each in ackers if election.compute_usable(each).contains(find_out_of_reach(each, chosen))]
    return must_wait, ackers, needed, min(needed, len(able))


def describe_given_up(chosen: Seen, followers: list[Seen], progress: Progress) -> str:
    """Returns the guarantee that this promotion gives up, in words; "" for none."""
    must_wait, _, needed, count = _find_ackers(chosen, followers, progress)
    if not must_wait or count == needed:
        return ""
    if count:
        return (
            f"{chosen.name} will wait for {count} of the {needed} acknowledgements that commits waited for: what it"
            f" acknowledges outlives its loss with {count - 1} of them, not with {needed - 1}."
            " Bring replicas back, and ask for as many as before."
        )
    return (
        f"{chosen.name} will acknowledge commits alone (--alone serve), as no replica is left to wait for: from then on"
        " the loss of its volume loses commits that it acknowledged. What was acknowledged before is not affected."
        " To end this: bring a replica back that acknowledges (headrace replica up NAME --of"
        f" {chosen.name} --semi-sync), and see headrace failover status. To stay down instead: --alone refuse."
    )


def plan_promotion(
    chosen: Seen, followers: list[Seen], progress: Progress, stage: int
) -> tuple[tuple[FailoverStep, ...], tuple[str, str] | None]:
    """Returns the steps of this stage that make a drained server the source; or rule and hint of a
    refusal."""
    state = require_state(chosen)
    steps, leaving = [], []
    if state.channels:
        most = collect_gtids(chosen) if progress.kind == "failover" and not progress.is_fenced else None
        leaving.append(FailoverStep(stage, "leave-source", chosen.name, gtid=most, why="it follows nobody any more"))
    semi = state.semi_sync
    if semi.replica_enabled:
        leaving.append(FailoverStep(stage, "semi-sync-replica-off", chosen.name, why="it follows nobody any more"))
    if progress.kind == "failover":
        steps += leaving
    must_wait, ackers, _, count = _find_ackers(chosen, followers, progress)
    if must_wait and count == 0 and progress.wish.alone == "refuse":
        rule = f"no replica would be left to acknowledge what {chosen.name} commits"
        return (), (rule, "Bring one back, or accept it for now: --alone serve.")
    if must_wait and count:
        # A role that is on may be of a run that was cut off: with another count, not stored.
        why = "before it is writable, so that no commit is acknowledged by it alone"
        steps.append(FailoverStep(stage, "semi-sync-source-on", chosen.name, count=count, why=why))
    if progress.kind == "switchover" and must_wait:
        # Everything they have is on the old source too, which is alive. So they may follow before
        # clients write, whose commits would wait for them.
        for follower in followers:
            here = find_channel(follower, chosen) is not None
            if (
                follower.name != progress.source
                and follower in ackers
                and not here
                and not find_extra(follower, chosen)
                and find_out_of_reach(follower, chosen).is_empty
            ):
                steps.append(FailoverStep(stage, "repoint", follower.name, to=chosen.name))
    elif progress.kind == "failover" and not progress.is_fenced:
        why = "before anybody may write: started again, it would acknowledge what the old source commits"
        steps += [
            FailoverStep(stage, "repoint", follower.name, gtid=collect_gtids(follower), to=chosen.name, why=why)
            for follower in ackers
            if find_channel(follower, chosen) is None
        ]
    steps.append(FailoverStep(stage, "writable", chosen.name))
    steps.append(FailoverStep(stage, "clients", chosen.name, why="applications read the address from there"))
    if progress.kind == "switchover":
        # The old source is read-only, so the channel brings nothing more: nobody waits for its end.
        steps += leaving
    return tuple(steps), None


def plan_release(member: Seen, stage: int) -> list[FailoverStep]:
    """Returns the step that switches off the source's role of semi-sync on a replica, perhaps left
    by a run that was cut off, so that it does not wait for acknowledgements that nobody sends."""
    state = require_state(member)
    if not (state.channels and state.semi_sync.source_status and not state.semi_sync.clients):
        return []
    return [FailoverStep(stage, "semi-sync-source-off", member.name, why=ROLE_OF_REPLICA)]


def plan_rest(
    members: Members, source: Seen, elected: Seen, progress: Progress, stage: int
) -> tuple[tuple[FailoverStep, ...], dict[str, str]]:
    """Returns the remaining steps when the new source takes writes: the others follow it, its
    events run, and lost transactions are listed; and the servers left out, each with the reason."""
    steps, late, left_out = [], list[FailoverStep](), {}
    if progress.elected is None and not progress.is_settled("clients"):
        # The run that promoted it, with its journal elsewhere, may have been killed before this.
        why = "the run that promoted it may have been killed before it did so"
        steps.append(FailoverStep(stage, "keep-role", elected.name, why=why))
        steps.append(FailoverStep(stage, "clients", elected.name, why=why))
    if progress.elected == elected.name:
        if not progress.is_settled("clients"):
            steps.append(FailoverStep(stage, "clients", elected.name, why="applications read the address from there"))
        state, why = require_state(elected), "it follows nobody any more"
        if progress.kind == "switchover" and state.channels:
            steps.append(FailoverStep(stage, "leave-source", elected.name, why=why))
        if progress.kind == "switchover" and state.semi_sync.replica_enabled:
            steps.append(FailoverStep(stage, "semi-sync-replica-off", elected.name, why=why))
    for name in sorted(members):
        member = members[name]
        old = name == source.name
        if old and progress.kind == "failover":
            continue  # it is rejoined by hand: never twice by itself
        if member.state is None:
            # It may have been told to stop receiving, and receives again where it is started anew.
            after = f"let it follow {elected.name} before it receives from {source.name} again"
            left_out[name] = f"does not answer ({member.error or 'no connection'}): {after}"
            continue
        if name == elected.name:
            continue
        if (channel := find_channel(member, elected)) is not None:
            steps += plan_release(member, stage)
            if channel.receive == "off" and channel.receive_error:
                left_out[name] = f"does not receive from {elected.name}: {channel.receive_error}"
            continue
        if not old and find_channel(member, source) is None and name not in progress.prepared.moved:
            if not member.state.channels:
                left_out[name] = f"follows nobody: let it follow {elected.name} (headrace failover rejoin {name})"
            continue  # a replica of another server is left where it is
        apart = find_extra(member, elected)
        if apart:
            left_out[name] = f"has transactions that {elected.name} has not: {apart}"
            continue
        if not (gap := find_out_of_reach(member, elected)).is_empty:
            # They are in its relay log alone, which ends when it follows another.
            late += _plan_catch_up(member, gap, stage + 1)
            if not late or late[-1].server != name:
                words = f"needs {gap.count():,} transactions that {elected.name} cannot send any more"
                left_out[name] = f"{words}: seed it anew, or let it apply them first"
            continue
        if member.state.semi_sync.source_enabled:
            steps.append(FailoverStep(stage, "semi-sync-source-off", name, why=ROLE_OF_REPLICA))
        if old and require_state(elected).semi_sync.source_enabled and not member.state.semi_sync.replica_enabled:
            steps.append(FailoverStep(stage, "semi-sync-replica-on", name, why="it acknowledges now"))
        steps.append(FailoverStep(stage, "repoint", name, to=elected.name))
    # After the others follow: an event is enabled by a commit, which waits for an acknowledgement.
    if progress.events and not progress.is_settled("events"):
        why = "the old source ran them, and a replica has them disabled"
        steps.append(FailoverStep(stage, "events", elected.name, count=len(progress.events), why=why))
    can_list = progress.kind == "failover" and source.volume and not progress.is_settled("list-lost")
    if can_list and progress.had is not None:
        why = "what the dead source's binary log has beyond this"
        late.append(FailoverStep(stage + 1, "list-lost", elected.name, gtid=progress.had, to=source.name, why=why))
    return (*steps, *late), left_out


def _plan_catch_up(member: Seen, gtids: GtidSet, stage: int) -> list[FailoverStep]:
    """Returns steps after which a server has applied transactions of its relay log; none if they
    are not there, or it applies them late on purpose."""
    channel = member.channel
    if channel is None or channel.delay_s or not election.compute_usable(member).contains(gtids):
        return []
    why = "the new source cannot send them any more"
    steps = [FailoverStep(stage, "wait-applied", member.name, gtid=gtids, why=why)]
    if channel.apply == "off":
        steps.insert(0, FailoverStep(stage, "start-apply", member.name))
    return steps
