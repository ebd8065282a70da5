"""Plans a failover from observations: a pure function, called again after every stage.

    failover     1 revoke and fence   the old source cannot acknowledge any more
                 2 drain              the replica with the most received applies it
                 3 promote            semi-sync's source role, then writable, then the clients
                 4 repoint            the others follow it
    switchover   1 stop the writes on a source that works   2-4 the same

The servers themselves show what has been done, so a plan that was cut off anywhere resumes there:
steps whose goal is reached already are left out. The journal adds what the servers do not show (the
fence, and the elected server).
"""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import InputError
from headrace.mysql.gtid import GtidSet
from headrace.servers.failover.planning import election, switchover
from headrace.servers.failover.planning.election import (
    collect_gtids,
    compute_usable,
    explain_unfit,
    find_channel,
    list_strangers,
    require_state,
)
from headrace.servers.failover.planning.guarantee import is_intact, judge_guarantee
from headrace.servers.failover.planning.members import (
    NAMED,
    NEVER_S,
    ONE_CLUSTER,
    AckProof,
    FailoverPlan,
    FailoverStep,
    Members,
    Seen,
)
from headrace.servers.failover.planning.progress import Progress


def plan(members: Members, progress: Progress, now_s: float = 0.0) -> FailoverPlan:
    """Returns the steps of the next stages, or a refusal. `now_s`: monotonic time, s."""
    refused = _refuse_topology(members, progress)
    source = members.get(progress.source)
    if source is None:
        return FailoverPlan(refusal=f"{progress.source} is not one of {', '.join(sorted(members))}")
    guarantee = judge_guarantee(members, source)
    if progress.elected is None and (wrong := _explain_wrong_target(members, progress)):
        return FailoverPlan(refusal=wrong, hint="Name a replica with --to, or leave it out.", guarantee=guarantee)
    if progress.elected is None and (above := _follows_somebody(members, source)):
        rule = f"{source.name} is a replica of {above}, not the source"
        hint = "Leave out --from, or name the source."
        return FailoverPlan(refusal=rule, hint=hint, guarantee=guarantee)
    elected = members.get(progress.elected) if progress.elected else None
    if progress.elected and (elected is None or elected.state is None):
        rule = f"{progress.elected} was elected, does not answer now, and may take writes already"
        hint = f"Bring it back, or make sure that it is dead and begin a new failover (--from {progress.elected})."
        refused = FailoverPlan(refusal=rule, hint=hint, elected=progress.elected)
    if refused:
        return replace(refused, guarantee=guarantee)
    if progress.kind == "switchover":
        return replace(switchover.plan(members, source, progress), guarantee=guarantee)
    return replace(_plan_failover(members, source, progress, now_s), guarantee=guarantee)


def _explain_wrong_target(members: Members, progress: Progress) -> str:
    """Returns why the candidate of a change cannot take over; "" if it can, or for none."""
    if progress.candidate is None:
        return ""
    if progress.candidate == progress.source:
        return f"{progress.candidate} is the source already, so it cannot take over"
    if progress.candidate not in members:
        return f"{progress.candidate} is not one of {', '.join(sorted(members))}"
    return ""


def _follows_somebody(members: Members, source: Seen) -> str:
    """Returns the servers that a read-only source follows, in words; "" for none. A source that
    takes writes may have an old channel, which is stopped."""
    if source.state is None or not source.state.read_only:
        return ""
    names = {member.place: member.name for member in members.values()}
    return " and ".join(names.get(channel.place, channel.where) for channel in source.state.channels)


def _refuse_topology(members: Members, progress: Progress) -> FailoverPlan | None:
    """Returns the refusal of a topology that is not a source with its replicas; None for none."""
    answering = [member for member in members.values() if member.state is not None]
    if len({require_state(member).flavor for member in answering}) > 1:
        return FailoverPlan(refusal="the servers are not all of one flavor", hint="Name those of one cluster.")
    ids: dict[int, str] = {}
    for member in answering:
        other = ids.setdefault(require_state(member).server_id, member.name)
        if other != member.name:
            rule = f"{other} and {member.name} both have server_id {require_state(member).server_id}"
            return FailoverPlan(refusal=rule, hint="Give every server its own.")
    uuids: dict[str, str] = {}
    for member in answering:
        other = uuids.setdefault(require_state(member).uuid or member.name, member.name)
        if other != member.name:
            rule = f"{other} and {member.name} both have the server_uuid {require_state(member).uuid}: one is a copy of the other with its auto.cnf"
            return FailoverPlan(refusal=rule, hint="Remove auto.cnf from the copy's data directory and start it again.")
    strange = list_strangers(members, progress.source) if progress.elected is None else []
    if strange:
        return FailoverPlan(refusal=f"{', '.join(strange)}, which is none of the servers named", hint=NAMED)
    circle = _find_circle(members)
    if circle:
        rule = f"{' and '.join(circle)} follow each other: co-masters and rings are not failed over"
        return FailoverPlan(refusal=rule, hint="Make one of them a plain replica first.")
    others = [member for member in answering if member.name not in (progress.source, progress.elected)]
    writable = [member for member in others if not require_state(member).read_only]
    lawful = [member for member in writable if _is_promoted(member)]
    source = members.get(progress.source)
    closed = source is None or source.state is None or source.state.read_only
    if progress.elected is not None or (progress.kind == "switchover" and not closed):
        # The server that may be writable is known: any other is outdated or unexpected.
        lawful = []
    if len(lawful) > 1 or len(lawful) < len(writable):
        rule = f"{', '.join(sorted(member.name for member in writable))}: writable next to {progress.elected or progress.source}"
        hint = f"{ONE_CLUSTER} Find out who writes there, and SET GLOBAL read_only = ON where nobody should."
        if progress.elected is not None:
            rule += ", who was elected by a failover that did not end"
            hint += " If that one is of another time, begin a new one from today's source: --from NAME."
        return FailoverPlan(refusal=rule, hint=hint)
    return None


def _is_promoted(seen: Seen) -> bool:
    """Returns whether a writable server may have been promoted: it follows nobody."""
    return not require_state(seen).channels


def _find_circle(members: Members) -> list[str]:
    """Lists the names of servers that follow each other; empty for none."""
    for start in sorted(members):
        path, at = [start], members[start]
        while True:
            above = [each for each in members.values() if each.name != at.name and find_channel(at, each) is not None]
            if not above:
                break
            at = above[0]
            if at.name == start:
                return path
            if at.name in path:
                break
            path.append(at.name)
    return []


# --- failover -------------------------------------------------------------------------------------


def _plan_failover(members: Members, source: Seen, progress: Progress, now_s: float) -> FailoverPlan:
    """Returns the next stage of a failover from `source`, or a refusal. `now_s`: monotonic time,
    s."""
    fenced = progress.is_fenced
    elected = _find_elected(members, progress)
    if elected is None and (strangers := _list_writable(members, progress)):
        names = ", ".join(stranger.name for stranger in strangers)
        rule = f"{names} takes writes, and lacks transactions that the replicas of {source.name} have: it has not taken over"
        hint = f"Name the servers without {names}, or bring it back as a replica (headrace failover rejoin)."
        return FailoverPlan(refusal=rule, hint=hint)
    alive = source.state is not None and not source.state.read_only and source.fence != "done"
    if fenced and elected is None and alive:
        if source.write == "ok" or source.fence != "possible":
            does = "takes writes" if source.write == "ok" else "answers, and is not read-only"
            hint = (
                f"Stop it and make sure that it stays down; or use: headrace failover switchover --from {source.name}."
            )
            return FailoverPlan(refusal=f"{source.name} was said to be dead, and it {does}", hint=hint)
        # Somebody has started it since, so it is fenced again.
        fenced, progress = False, replace(progress, fenced_s=None, wish=replace(progress.wish, by_hand=False))
    if source.state is not None and not fenced and elected is None:
        if source.write == "ok":
            hint = f"Use: headrace failover switchover --from {source.name}."
            rule = f"{source.name} is alive and takes writes: there is nothing to fail over"
            return FailoverPlan(refusal=rule, hint=hint)
        if source.write == "blocked":
            rule = f"{source.name} takes no writes, but no other server would either: {source.error}"
            return FailoverPlan(refusal=rule, hint="Bring its replicas back, or release the lock.")
    if elected is not None and not require_state(elected).read_only:
        return _plan_rest(members, source, elected, progress, now_s)
    replicas = election.list_followers(members, source)
    if not replicas and elected is None:
        return FailoverPlan(refusal=f"no server that answers follows {source.name}", hint="Bring a replica back.")
    first = _revoke(source, replicas, fenced)
    if any(step.action != "fence" for step in first) or (first and not _count_quorum(replicas, progress.proof)[0]):
        return replace(_decide(members, source, progress, now_s, foreseen=True), steps=first)
    decided = _decide(members, source, progress, now_s)
    if decided.refusal or not first:
        return decided
    return replace(decided, steps=(*first, *decided.steps))


def _find_elected(members: Members, progress: Progress) -> Seen | None:
    """Returns the server that was elected already: by the journal, or promoted and writable."""
    if progress.elected is not None:
        elected = members.get(progress.elected)
        return elected if elected is not None and elected.state is not None else None
    writable = _list_writable(members, progress)
    return next((each for each in writable if has_taken_over(members, each, progress.source)), None)


def _list_writable(members: Members, progress: Progress) -> list[Seen]:
    """Lists the servers except the source that follow nobody and take writes."""
    others = [member for member in members.values() if member.name != progress.source and member.state is not None]
    return [member for member in others if not require_state(member).read_only and _is_promoted(member)]


def has_taken_over(members: Members, candidate: Seen, source: str) -> bool:
    """Returns whether a writable server may have taken over: those that still follow the old source
    have no transactions that it lacks, or replicas follow it and it has transactions in common with
    those. Replicas alone prove nothing: it may be the source of another cluster."""
    below = election.list_followers(members, members[source])
    followed = any(each.name != source for each in election.list_followers(members, candidate))
    if followed and any(election.has_common_history(each, candidate) for each in below):
        return True
    return not any(election.find_extra(each, candidate) for each in below)


def _revoke(source: Seen, replicas: list[Seen], fenced: bool) -> tuple[FailoverStep, ...]:
    """Returns steps that end the old source's ability to acknowledge: its process and volume, and
    its replicas. The fence comes first if the source has one: what a dead source sent is still in
    the sockets, and the replicas may receive it until they are stopped."""
    steps = []
    if not fenced and source.fence == "possible":
        steps.append(FailoverStep(1, "fence", source.name, why="the old source must not come back by itself"))
    for replica in replicas:
        channel = find_channel(replica, source)
        if channel is None or channel.receive == "off":
            continue
        if channel.apply == "off" and not channel.apply_error:
            why = "started before receiving stops: a MariaDB whose threads have both stopped throws its relay log away"
            steps.append(FailoverStep(1, "start-apply", replica.name, why=why))
        steps.append(FailoverStep(1, "stop-receive", replica.name, why="it acknowledges no more"))
    return tuple(steps)


def _count_quorum(replicas: list[Seen], proof: AckProof | None) -> tuple[bool, int, int]:
    """Returns whether enough of the replicas acknowledge by the proof, their number, and the number
    needed; False, 0 and 0 without a proof."""
    if proof is None:
        return False, 0, 0
    reached = sum(1 for replica in replicas if replica.name in proof.ackers)
    return reached >= proof.needed, reached, proof.needed


def _decide(members: Members, source: Seen, progress: Progress, now_s: float, foreseen: bool = False) -> FailoverPlan:
    """Returns the plan of the election and the later steps, or a refusal; `foreseen`: as if the
    replicas had stopped receiving. `now_s`: monotonic time, s."""
    replicas = election.list_followers(members, source)
    elected = _find_elected(members, progress)
    # A run that was cut off may have moved replicas below the elected server already.
    below = [elected, *election.list_followers(members, elected)] if elected is not None else []
    pool = list({member.name: member for member in (*replicas, *below) if member.name != source.name}.values())
    silent = _can_still_acknowledge(pool, progress, source, elected)
    if silent and not foreseen:
        return FailoverPlan(refusal=silent[0], hint=silent[1])
    uncertain = tuple(_list_doubts(pool, progress, now_s))
    # A binary log is complete only if each commit was flushed to it before it was answered.
    rescues = progress.rescued is not None or (progress.wish.rescue and source.volume)
    if uncertain and rescues and not source.log_flushed:
        uncertain += (f"{source.name} is not known to have flushed its binary log with each commit (sync_binlog = 1)",)
    complete = rescues and source.log_flushed
    lossless = not uncertain or (progress.rescued is not None and complete)
    errant = election.find_errant(members, source)
    if errant and progress.wish.errant == "refuse" and progress.elected is None:
        rule = f"transactions of their own: {'; '.join(f'{name}: {text}' for name, text in sorted(errant.items()))}"
        hint = "--errant inject gives every server empty transactions in their place; --errant leave keeps them where they are."
        return FailoverPlan(refusal=rule, hint=hint, errant=errant, uncertain=uncertain, lossless=lossless)
    chosen, left_out = _choose_server(pool, progress, elected, errant)
    if isinstance(chosen, FailoverPlan):
        return replace(chosen, uncertain=uncertain, lossless=False, errant=errant, left_out=left_out)
    # If no later observation can bring certainty, that is refused before anything is changed:
    # without a proof, and if the semi-sync timeout is over before a fence can be complete.
    late = progress.proof is not None and progress.fenced_s is None and _has_fallen_back(progress.proof, now_s)
    decidable = not foreseen or progress.proof is None or late
    accepted = lossless or progress.wish.accept_loss or progress.wish.rescue
    if decidable and not accepted and progress.elected is None:
        hint = "--rescue reads the rest from the old source's volume; --accept-loss goes on without it."
        rule = f"acknowledged commits may be missing on {chosen.name}: {'; '.join(uncertain)}"
        return FailoverPlan(refusal=rule, hint=hint, elected=chosen.name, uncertain=uncertain, errant=errant)
    since = _describe_received(pool, chosen, progress)
    if since and not progress.wish.accept_loss:
        rule = f"{chosen.name} was elected, and {since}: {source.name} was alive, and may have acknowledged them"
        hint = f"Make sure that {source.name} is dead and stays so; --accept-loss goes on without them."
        return FailoverPlan(refusal=rule, hint=hint, elected=chosen.name, missing=since, errant=errant)
    steps, refusal = _list_steps(members, source, chosen, pool, progress, errant)
    missing = _find_missing(pool, chosen, _list_replaced(progress, errant))
    lossless = (lossless and not missing) or complete
    lossless, uncertain = progress.sure or (lossless, uncertain)
    if since:
        lossless, uncertain = False, (since,)
    failover_plan = FailoverPlan(
        steps=steps,
        elected=chosen.name,
        lossless=lossless,
        uncertain=uncertain,
        errant=errant,
        left_out=left_out,
        missing=missing,
        gives_up=switchover.describe_given_up(chosen, _list_siblings(chosen, pool, progress, errant), progress),
    )
    return replace(failover_plan, steps=(), refusal=refusal[0], hint=refusal[1]) if refusal else failover_plan


def _can_still_acknowledge(
    pool: list[Seen], progress: Progress, source: Seen, elected: Seen | None
) -> tuple[str, str] | None:
    """Returns rule and hint if the old source might acknowledge a commit after the promotion.
    `pool`: servers that answer and do not receive from it; an elected server, and those that
    follow that one, have left it for good. Servers that received something after the `elected` one
    had left have acknowledged that: so fewer others are needed for it, unless they are as many as
    the source waits for, and it was acknowledged before."""
    if progress.is_fenced or source.fence == "done":
        return None
    ahead = []
    if elected is not None:
        ahead = [member for member in pool if not collect_gtids(member).minus(compute_usable(elected)).is_empty]
    if progress.proof is not None and len(ahead) >= progress.proof.wait_count:
        ahead = []
    enough, reached, needed = _count_quorum([member for member in pool if member not in ahead], progress.proof)
    hint = f"Make sure that {progress.source} is dead and stays so, then add --fenced."
    if progress.proof is None:
        return f"{progress.source} could not be fenced, and without semi-sync it needs no replica to acknowledge", hint
    if not enough:
        rule = f"{progress.source} could not be fenced, and only {reached} of its acknowledging replicas were stopped; it takes {needed} to be sure"
        return rule, hint
    if progress.proof.timeout_s < NEVER_S:
        rule = f"{progress.source} could not be fenced, and after {progress.proof.timeout_s:g} s without replicas it acknowledges alone (semi-sync timeout)"
        return rule, hint
    return None


def _describe_received(pool: list[Seen], chosen: Seen, progress: Progress) -> str:
    """Returns, in words, what replicas received that had been stopped before the election of a
    change that was cut off then: they were started again; "" for nothing."""
    if progress.sure is None or not progress.sure[0]:
        return ""
    stopped = [member for member in pool if member.name in progress.stopped - {chosen.name}]
    beyond = {member.name: collect_gtids(member).minus(compute_usable(chosen)) for member in stopped}
    return "; ".join(f"{name} received {gtids} since then" for name, gtids in beyond.items() if not gtids.is_empty)


def _has_fallen_back(proof: AckProof, at_s: float) -> bool:
    """Returns whether the source may acknowledge alone: its semi-sync timeout is over."""
    return proof.timeout_s < NEVER_S and at_s > proof.at_s + proof.timeout_s


def _list_doubts(pool: list[Seen], progress: Progress, now_s: float) -> list[str]:
    """Lists, in words, why an acknowledged commit may be on none of the servers in `pool`."""
    proof = progress.proof
    if proof is None:
        return ["semi-sync was not seen at work, so commits were acknowledged by the source alone"]
    reasons = []
    if proof.timeout_s < NEVER_S:
        until = proof.at_s + proof.timeout_s
        if progress.fenced_s is None or _has_fallen_back(proof, progress.fenced_s):
            late = (now_s if progress.fenced_s is None else progress.fenced_s) - until
            reasons.append(
                f"the source may have fallen back to asynchronous: it was not fenced within its semi-sync timeout of {proof.timeout_s:g} s ({max(late, 0):.1f} s late)"
            )
    here = [member for member in pool if member.name in proof.ackers]
    intact = [member for member in here if is_intact(proof, member)]
    if len(intact) < proof.needed:
        renewed = [member.name for member in here if member not in intact]
        text = f"{len(intact)} acknowledging replicas are here with all they received, {proof.needed} are needed"
        if renewed:
            text += f" ({', '.join(renewed)} started anew since, and may have lost a relay log)"
        reasons.append(text)
    return reasons


def _choose_server(
    pool: list[Seen], progress: Progress, elected: Seen | None, errant: dict[str, str]
) -> tuple[Seen | FailoverPlan, dict[str, str]]:
    """Returns the server to promote, or a refusal; and the reason by name of each server that
    cannot be promoted."""
    reasons = {member.name: explain_unfit(member, progress.wish.allow_delayed) for member in pool}
    left_out = {name: reason for name, reason in reasons.items() if reason}
    if elected is not None:
        return elected, left_out
    able = [member for member in pool if not reasons[member.name]]
    if progress.wish.errant == "leave":
        able = [member for member in able if member.name not in errant]
        left_out |= {name: f"has transactions of its own: {text}" for name, text in errant.items()}
    replaced = _list_replaced(progress, errant)
    if not able:
        what = "; ".join(f"{name} {reason}" for name, reason in sorted(left_out.items()))
        return FailoverPlan(refusal=f"no replica can be promoted: {what}", hint="Correct one of them first."), left_out
    chosen = None
    if progress.wish.errant == "inject" and (clean := [member for member in able if member.name not in errant]):
        # A server with errant transactions would pass them on instead of empty ones; but it is
        # promoted if it alone received transactions.
        chosen = election.choose_best(clean, progress.candidate, replaced)
        if chosen is not None and _find_missing(pool, chosen, replaced):
            chosen = None
    chosen = chosen or election.choose_best(able, progress.candidate, replaced)
    if chosen is None:
        names = ", ".join(member.name for member in able)
        return FailoverPlan(refusal=f"{names}: none has all that the others received"), left_out
    beyond = _find_missing(pool, chosen, replaced)
    if beyond and not progress.wish.accept_loss:
        hint = "Correct that replica and promote it, or go on without them: --accept-loss."
        rule = f"{chosen.name} would lack transactions that another replica received: {beyond}"
        return FailoverPlan(refusal=rule, hint=hint, missing=beyond), left_out
    if progress.candidate is not None and chosen.name != progress.candidate:
        own = "it has transactions of its own" if progress.candidate in errant else f"{chosen.name} has received more"
        rule = f"{progress.candidate} is not the one to promote: {left_out.get(progress.candidate) or own}"
        return FailoverPlan(refusal=rule, hint="Leave out --to."), left_out
    return chosen, left_out


def _list_replaced(progress: Progress, errant: dict[str, str]) -> GtidSet | None:
    """Returns MySQL's errant transactions that empty ones replace, or that stay; None for none."""
    if progress.wish.errant == "refuse" or not errant:
        return None
    try:
        return GtidSet.parse(",".join(errant.values()), "mysql")
    except InputError:  # MariaDB's: a domain is a single sequence of numbers
        return None


def _find_missing(pool: list[Seen], chosen: Seen, replaced: GtidSet | None = None) -> str:
    """Returns the transactions that the chosen server will lack, but `replaced`; "" for none."""
    will = compute_usable(chosen)
    if replaced is not None:
        will = will.union(replaced)
    beyond = [collect_gtids(member).minus(will) for member in pool if member.name != chosen.name]
    texts = [str(gtids) for gtids in beyond if not gtids.is_empty]
    # The part of its own relay log that the chosen server cannot apply is lost too.
    own = collect_gtids(chosen).minus(will)
    return "; ".join(dict.fromkeys([*texts, *([] if own.is_empty else [str(own)])]))


def _list_siblings(chosen: Seen, pool: list[Seen], progress: Progress, errant: dict[str, str]) -> list[Seen]:
    """Lists the servers that will follow the chosen one."""
    follow = switchover.list_siblings(pool, chosen)
    return follow if progress.wish.errant == "inject" else [each for each in follow if each.name not in errant]


def _list_steps(
    members: Members, source: Seen, chosen: Seen, pool: list[Seen], progress: Progress, errant: dict[str, str]
) -> tuple[tuple[FailoverStep, ...], tuple[str, str] | None]:
    """Returns the remaining steps of drain, rescue, promotion and re-pointing, and None; or steps
    that do not count, with rule and hint of a refusal."""
    siblings = _list_siblings(chosen, pool, progress, errant)
    steps = []
    channel, will = chosen.channel, compute_usable(chosen)
    if channel is not None and not require_state(chosen).executed.contains(will):
        steps += switchover.plan_release(chosen, stage=2)
        if channel.apply == "off":
            steps.append(FailoverStep(2, "start-apply", chosen.name))
        why = "what it received is what was acknowledged"
        steps.append(FailoverStep(2, "wait-applied", chosen.name, gtid=will, why=why))
    if progress.wish.rescue and progress.rescued is None:
        if not source.volume:
            rule = f"there is no volume of {source.name} to read the rest from"
            return (), (rule, "--accept-loss goes on without it.")
        why = "the rest of the old source's binary log"
        steps.append(FailoverStep(2, "rescue", chosen.name, gtid=will, to=source.name, why=why))
    if progress.wish.errant == "inject" and errant:
        if require_state(chosen).flavor == "mariadb":
            rule = "MariaDB cannot be given empty transactions in place of those another server wrote"
            return (), (rule, "Use --errant leave, and seed the replica anew afterwards.")
        for name in sorted(errant.keys() - {chosen.name}):
            gtid, why = collect_gtids(members[name]).minus(collect_gtids(chosen)), "empty, so that histories agree"
            steps.append(FailoverStep(2, "inject", chosen.name, gtid=gtid, to=name, why=why))
    promote, refusal = switchover.plan_promotion(chosen, siblings, progress, stage=3)
    return (*steps, *promote), refusal


def _plan_rest(members: Members, source: Seen, elected: Seen, progress: Progress, now_s: float) -> FailoverPlan:
    """Returns the plan of the steps that remain when the elected server takes writes."""
    steps, left_out = switchover.plan_rest(members, source, elected, progress, stage=4)
    doubts = tuple(_list_doubts([elected], progress, now_s))
    lossless, uncertain = progress.sure or (not doubts, doubts)
    return FailoverPlan(steps, elected.name, lossless=lossless, uncertain=uncertain, left_out=left_out)
