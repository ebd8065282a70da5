"""Predicts the course of a plan: every step that a real run would take if nothing happened in
between, and the end state of the servers. Dry runs show it.

A plan is made stage by stage, because the servers are observed again after each. Here each step's
effect is applied to the observation, and the same planner plans the next stage from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import Channel, ServerState
from headrace.servers.failover.planning import progress as events
from headrace.servers.failover.planning.election import require_state
from headrace.servers.failover.planning.guarantee import carry_proof
from headrace.servers.failover.planning.members import FailoverPlan, FailoverStep, Members, ScheduledEvent, Seen
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.planning.progress import Progress

# A plan has four stages; servers that come and go may add some. More is a plan that never ends.
MOST_STAGES = 24


@dataclass(frozen=True)
class DryRun:
    """A predicted run. `plan`: with the steps of all stages; `members`: the servers at the end."""

    plan: FailoverPlan
    members: Members

    def describe_end_state(self) -> list[str]:
        """Lists, in words, who takes writes at the end, who follows whom, and who is down."""
        writers = [each.name for each in self.members.values() if each.state is not None and not each.state.read_only]
        places = {member.place: member.name for member in self.members.values()}
        sentences = [f"{', '.join(sorted(writers))} takes writes"] if writers else ["nobody takes writes"]
        for name in sorted(self.members):
            member = self.members[name]
            if name in writers:
                continue
            if member.state is None:
                sentences.append(f"{name} is down")
                continue
            above = [places.get(channel.place, channel.where) for channel in member.state.channels]
            sentences.append(f"{name} follows {' and '.join(above) or 'nobody'}")
        return sentences


def build_dry_run(members: Members, progress: Progress, now_s: float = 0.0) -> DryRun:
    """Returns the course of a run from these observations on. If a stage is refused, the plan has
    the steps before it and the refusal. `now_s`: monotonic time, s."""
    seen, steps = dict(members), list[FailoverStep]()
    decided = FailoverPlan()
    for stage in range(1, MOST_STAGES + 1):
        if (proved := renew_proof(seen, progress)) is not None:
            progress = progress.add_event(proved)
        if (scheduled := find_events(seen, progress)) is not None:
            progress = progress.add_event(events.SawEvents(scheduled))
        stage_plan = plan(seen, progress, now_s)
        if stage_plan.refusal:
            return DryRun(replace(stage_plan, steps=tuple(steps)), seen)
        if not stage_plan.steps:
            last = decided if decided.elected else stage_plan
            return DryRun(replace(last, steps=tuple(steps), left_out={**last.left_out, **stage_plan.left_out}), seen)
        if any(step.action == "writable" for step in stage_plan.stage):
            decided = stage_plan
        for step in stage_plan.stage:
            steps.append(replace(step, stage=stage))
            progress = _advance_progress(step, progress, stage_plan, seen, now_s)
            seen = _advance_members(step, progress, seen)
    return DryRun(replace(decided, steps=tuple(steps)), seen)


def renew_proof(seen: Members, progress: Progress) -> events.Proved | None:
    """Returns the proof of semi-sync as these observations leave it, its end before an election
    included; None if there is none."""
    if progress.proof is None:
        return None
    carried = carry_proof(progress.proof, seen)
    return None if carried is None and progress.decision is not None else events.Proved(carried)


def find_events(seen: Members, progress: Progress) -> tuple[ScheduledEvent, ...] | None:
    """Returns the events of the old source's scheduler; None if it does not show them, or they are
    recorded already."""
    old = seen.get(progress.source)
    return old.events if progress.events is None and old is not None else None


def elects(step: FailoverStep, progress: Progress) -> bool:
    """Returns whether a step makes the election final: nobody else may be chosen from it on."""
    return progress.decision is None and step.action in ("leave-source", "writable")


def make_election(stage_plan: FailoverPlan, progress: Progress, seen: Members) -> events.Elected:
    """Returns the election of a plan as an event, before the step that makes it final."""
    server = stage_plan.elected or ""
    state = seen[server].state
    had = None if stage_plan.lossless or progress.rescued is not None or state is None else state.executed
    return events.Elected(
        server,
        had,
        stage_plan.lossless,
        stage_plan.uncertain,
        stage_plan.missing,
        stage_plan.gives_up,
        dict(stage_plan.left_out),
    )


def doubt_election(stage_plan: FailoverPlan, progress: Progress) -> events.Elected | None:
    """Returns the earlier election as lossy, with the doubts of a plan, if it counted as lossless
    and this plan, of a run that resumes it, does not; else None."""
    decision = progress.decision
    if decision is None or not decision.lossless or stage_plan.lossless:
        return None
    return msgspec.structs.replace(decision, lossless=False, uncertain=stage_plan.uncertain)


def _advance_progress(
    step: FailoverStep, progress: Progress, stage_plan: FailoverPlan, seen: Members, now_s: float
) -> Progress:
    """Returns the progress after a successful step, by the events that it would log."""
    if elects(step, progress):
        progress = progress.add_event(make_election(stage_plan, progress, seen))
    progress = progress.add_event(events.StepBegan(step))
    match step.action:
        case "fence":
            progress = progress.add_event(events.Fenced(step.server, "", now_s))
        case "rescue":
            progress = progress.add_event(events.Rescued(0))
        case "list-lost":
            progress = progress.add_event(events.Listed(0, "", ""))
    return progress.add_event(events.StepDone(step, 0.0))


def _advance_members(step: FailoverStep, progress: Progress, seen: Mapping[str, Seen]) -> dict[str, Seen]:
    """Returns the members with the effect of a successful step."""
    member = seen[step.server]
    if step.action == "fence":
        return {**seen, step.server: replace(member, state=None, error="it is fenced", fence="done", write="untried")}
    if member.state is None:
        return dict(seen)
    source = seen.get(progress.source)
    match step.action:
        case "start-apply" | "stop-receive":
            changed = {"apply": "on"} if step.action == "start-apply" else {"receive": "off"}
            channels = tuple(replace(each, **changed) for each in member.state.channels)
            member = replace(member, state=replace(member.state, channels=channels))
        case "read-only" | "writable":
            closed = step.action == "read-only"
            member = replace(member, state=replace(member.state, read_only=closed, super_read_only=closed))
        case "wait-applied":
            gtids = step.gtid
            if gtids is None and source is not None and source.state is not None:
                gtids, member = source.state.executed, _with_log_of(member, source)
            member = member if gtids is None else _with_executed(member, gtids)
        case "inject" if step.gtid is not None:
            member = _with_executed(member, step.gtid)
        case "leave-source":
            member = replace(member, state=replace(require_state(member), channels=()))
        case "repoint" | "repoint-early":
            member = _make_follower(member, seen[step.to])
        case "semi-sync-source-on" | "semi-sync-source-off" | "semi-sync-replica-on" | "semi-sync-replica-off":
            member = replace(member, state=_with_semi_sync(member.state, step))
    return {**seen, step.server: member}


def _with_executed(member: Seen, gtids: GtidSet) -> Seen:
    """Returns a member that has applied these transactions too."""
    state = require_state(member)
    channels = tuple(replace(each, executed=each.executed.union(gtids)) for each in state.channels)
    executed = state.executed.union(gtids)
    wrote = dict(member.wrote)
    for domain, writer in gtids.writers:
        key = (int(domain), writer)
        wrote[key] = max(wrote.get(key, 0), gtids.get_last_number(domain))
    applied = state.applied.union(gtids)
    after = replace(state, executed=executed, applied=applied, channels=channels)
    return replace(member, state=after, wrote=wrote)


def _with_log_of(member: Seen, other: Seen) -> Seen:
    """Returns a member whose binary log also has the transactions of another's (MariaDB)."""
    wrote = dict(member.wrote)
    for key, last in other.wrote.items():
        wrote[key] = max(wrote.get(key, 0), last)
    return replace(member, wrote=wrote)


def _make_follower(member: Seen, to: Seen) -> Seen:
    """Returns a member that follows another and has all of its transactions."""
    state, above = require_state(member), require_state(to)
    common = {
        "source_host": to.host,
        "source_port": to.port,
        "source_server_id": above.server_id,
        "receive": "on",
        "apply": "on",
        "received": above.executed,
        "executed": above.executed,
        "receive_error": "",
        "apply_error": "",
    }
    follows = bool(state.channels)
    channel = replace(state.channels[0], **common) if follows else Channel(name="", seconds_behind=0, **common)
    executed = state.executed.union(above.executed)
    state = replace(state, channels=(channel,), executed=executed, read_only=True)
    return _with_log_of(replace(member, state=state), to)


def _with_semi_sync(state: ServerState, step: FailoverStep) -> ServerState:
    """Returns the state of a server with one side of semi-sync switched."""
    on = step.action.endswith("on")
    if "replica" in step.action:
        semi = replace(state.semi_sync, replica_enabled=on, replica_status=on)
    else:
        semi = replace(state.semi_sync, source_enabled=on, source_status=on)
        semi = replace(semi, wait_count=step.count) if on and step.count else semi
    return replace(state, semi_sync=semi)
