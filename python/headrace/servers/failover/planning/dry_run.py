"""Predicts the course of a plan: every step that a real run would take if nothing happened in
between, and the end state of the servers. Dry runs show it.

A plan is made stage by stage, because the servers are observed again after each. Here each step's
effect is applied to the observation, and the same planner plans the next stage from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import Channel, ServerState
from headrace.servers.failover.planning.election import required
from headrace.servers.failover.planning.members import FailoverPlan, FailoverStep, FailoverWish, Members, Seen
from headrace.servers.failover.planning.planner import plan

MOST_STAGES = 24  # as the executor has it; a plan has four, and more is a plan that never ends


@dataclass(frozen=True)
class DryRun:
    """A predicted run. `plan`: with the steps of all stages; `members`: the servers at the end."""

    plan: FailoverPlan
    members: Members

    def end_state(self) -> list[str]:
        """Lists, in words, which servers take writes at the end, who follows whom, and who is
        down."""
        writers = [
            member.name for member in self.members.values() if member.state is not None and not member.state.read_only
        ]
        places = {(member.host, member.port): member.name for member in self.members.values()}
        sentences = [f"{', '.join(sorted(writers))} takes writes"] if writers else ["nobody takes writes"]
        for name in sorted(self.members):
            member = self.members[name]
            if name in writers:
                continue
            if member.state is None:
                sentences.append(f"{name} is down")
                continue
            above = [
                places.get((each.source_host, each.source_port), f"{each.source_host}:{each.source_port}")
                for each in member.state.channels
            ]
            sentences.append(f"{name} follows {' and '.join(above) or 'nobody'}")
        return sentences


def dry_run(members: Members, wish: FailoverWish) -> DryRun:
    """Returns what a run would do from here on. If a later stage is refused, the plan has the steps
    until then and the refusal, as the run would."""
    seen, steps = dict(members), list[FailoverStep]()
    decided = FailoverPlan()
    for stage in range(1, MOST_STAGES + 1):
        old = seen.get(wish.source)
        if wish.events is None and old is not None and old.events is not None:
            wish = replace(wish, events=old.events)
        stage_plan = plan(seen, wish)
        if stage_plan.refusal:
            return DryRun(replace(stage_plan, steps=tuple(steps)), seen)
        if not stage_plan.steps:
            last = decided if decided.elected else stage_plan
            return DryRun(replace(last, steps=tuple(steps), left_out={**last.left_out, **stage_plan.left_out}), seen)
        if any(step.action == "writable" for step in stage_plan.stage):
            decided = stage_plan
        for step in stage_plan.stage:
            steps.append(replace(step, stage=stage))
            wish = _wish_after(step, wish, stage_plan, seen)
            seen = _seen_after(step, wish, seen)
    return DryRun(replace(decided, steps=tuple(steps)), seen)


def _wish_after(step: FailoverStep, wish: FailoverWish, stage_plan: FailoverPlan, seen: Members) -> FailoverWish:
    """Returns the wish with what the journal would add after a step."""
    if wish.elected is None and step.action in ("leave-source", "writable"):
        state = seen[stage_plan.elected].state if stage_plan.elected else None
        had = None if stage_plan.lossless or wish.rescued or state is None else state.executed
        wish = replace(wish, elected=stage_plan.elected, had=had, sure=(stage_plan.lossless, stage_plan.uncertain))
    match step.action:
        case "fence":
            return replace(wish, fenced_s=wish.now_s)
        case "rescue":
            return replace(wish, rescued=True)
        case "clients":
            return replace(wish, clients_updated=True)
        case "events":
            return replace(wish, scheduled=True)
        case "list-lost":
            return replace(wish, listed=True)
        case "repoint-early":
            return replace(wish, moved=(*wish.moved, step.server), target=step.to)
    return wish


def _seen_after(step: FailoverStep, wish: FailoverWish, seen: Mapping[str, Seen]) -> dict[str, Seen]:
    """Returns the members after a step."""
    member = seen[step.server]
    if step.action == "fence":
        return {**seen, step.server: replace(member, state=None, error="it is fenced", fence="done", write="untried")}
    if member.state is None:
        return dict(seen)
    source = seen.get(wish.source)
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
            member = replace(member, state=replace(required(member), channels=()))
        case "repoint" | "repoint-early":
            member = _following(member, seen[step.to])
        case "semi-sync-source-on" | "semi-sync-source-off" | "semi-sync-replica-on" | "semi-sync-replica-off":
            member = replace(member, state=_with_semi_sync(member.state, step))
    return {**seen, step.server: member}


def _with_executed(member: Seen, gtids: GtidSet) -> Seen:
    """Returns a member that has applied these transactions too."""
    state = required(member)
    channels = tuple(replace(each, executed=each.executed.union(gtids)) for each in state.channels)
    executed = state.executed.union(gtids)
    wrote = dict(member.wrote)
    for domain, writer in gtids.writers:
        key = (int(domain), writer)
        wrote[key] = max(wrote.get(key, 0), gtids.last(domain))
    applied = state.applied.union(gtids)
    after = replace(state, executed=executed, binlog=executed, applied=applied, channels=channels)
    return replace(member, state=after, wrote=wrote)


def _with_log_of(member: Seen, other: Seen) -> Seen:
    """Returns a member whose binary log also has the transactions of another's (MariaDB)."""
    wrote = dict(member.wrote)
    for key, last in other.wrote.items():
        wrote[key] = max(wrote.get(key, 0), last)
    return replace(member, wrote=wrote)


def _following(member: Seen, to: Seen) -> Seen:
    """Returns a member that follows another and has all of its transactions."""
    state, above = required(member), required(to)
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
    if state.channels:
        channel = replace(state.channels[0], **common)
    else:
        channel = Channel(
            name="",
            read_file="",
            read_pos=0,
            applied_file="",
            applied_pos=0,
            seconds_behind=0,
            delay_s=0,
            filters=(),
            workers=0,
            **common,
        )
    executed = state.executed.union(above.executed)
    state = replace(state, channels=(channel,), executed=executed, binlog=executed, read_only=True)
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
