"""One run of a failover or switchover: a stage, an observation of all servers, and the next stage.

A run holds what ends with this program: connections, accounts, the client that is sent first. Facts
that have to outlive it are events of the journal, written before and after each step; so the same
command resumes a run that was cut off anywhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.base.signals import ignore_interrupts
from headrace.errors import HeadraceError
from headrace.mysql.dialect import SourceOf
from headrace.mysql.state import ServerState, observe, read_dialect
from headrace.mysql.statements import run
from headrace.servers.failover import scheduler
from headrace.servers.failover.actions import ACTIONS, EVENTS_S, PUBLISH
from headrace.servers.failover.changes import Closing, follow_again, receive_again, reopen
from headrace.servers.failover.draining import Draining
from headrace.servers.failover.hosts import AddressHost, ConnectionPool, translate_errors
from headrace.servers.failover.journal import Journal
from headrace.servers.failover.lease import Lease
from headrace.servers.failover.observer import Observer
from headrace.servers.failover.outage import FirstClient
from headrace.servers.failover.planning import progress as events
from headrace.servers.failover.planning.dry_run import (
    MOST_STAGES,
    doubt_election,
    elects,
    find_events,
    make_election,
    renew_proof,
)
from headrace.servers.failover.planning.election import find_channel, list_writers
from headrace.servers.failover.planning.members import (
    FailoverPlan,
    FailoverStep,
    Members,
    Outcome,
    Seen,
    make_refusal_error,
    refuse,
)
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.planning.progress import AnyEvent, Progress

if TYPE_CHECKING:
    from headrace.servers.failover.executor import Executor

LEASE_TAKEN_AGAIN = "the lease was lost and taken again: the servers are observed anew"
LONG_LOOK_S = 0.5  # between two looks at statements that are in the way of the end of the writes, a guess


@dataclass
class ChangeRun:
    """A run of a change. `seen`: the last observation, `plan`: made from it; `gone`: the
    observation of a dead source, which is not asked again. `closing`: stops the source's writes;
    `hurry`: is closed to end the hurry of replicas; `following`: the options with which a server
    follows another, by source and follower."""

    executor: Executor
    seen: Members = field(default_factory=dict)
    plan: FailoverPlan = FailoverPlan()
    gone: Seen | None = None
    closing: Closing | None = None
    first_client: FirstClient | None = None
    hurry: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    following: dict[tuple[str, str], SourceOf] = field(default_factory=dict)

    def __post_init__(self) -> None:
        executor = self.executor
        self.observer: Observer = executor.observer
        self.journal: Journal = executor.journal
        self.lease: Lease = executor.lease
        self.pool: ConnectionPool = executor.pool
        self.clients: Path | None = executor.clients
        self.say = executor.say
        self.hosts = executor.hosts
        self.surroundings = executor.surroundings
        self.draining = Draining(self.pool, self.log, self.say, executor.drain_s, executor.max_wait_s)

    @property
    def progress(self) -> Progress:
        """The progress of the change, by the journal."""
        progress = self.journal.history.progress
        assert progress is not None, "a run begins with an event and ends with one"
        return progress

    def log(self, event: AnyEvent) -> None:
        """Writes an event to the journal, and so to the progress. Raises CouldNotRun."""
        self.journal.write(event)

    def get_state(self, name: str) -> ServerState:
        """Returns the state of a server, by the last observation or else by its answer."""
        return self.seen[name].state or self.pool.query_state(self.hosts[name])

    def store(self, host: AddressHost, settings: dict[str, str]) -> None:
        """Stores settings for a server's later starts, before the server is changed: a run that
        sees the change done does not do it again. While clients wait for a new source they are only
        logged, and stored after the stage, or by the run that resumes this one."""
        if self.progress.is_settled("clients"):
            host.remember(**settings)
        else:
            self.log(events.SettingsPostponed(host.name, settings))

    # --- the stages -------------------------------------------------------------------------------

    def carry_out(self, seen: Members | None) -> Outcome:
        """Carries out the change and returns its outcome, or raises an error with the reason.
        `seen`: servers that were observed just now."""
        began_s = self.surroundings.read_now_s()
        if seen is not None:
            self._note_gone(seen)
        self._clear_up()
        for _ in range(MOST_STAGES):
            # The replicas are observed again: another watcher may have acted before the lease.
            self.seen = self.look()
            self._note_gone(self.seen)
            try:
                self._plan_stage()
                self._carry_out_stage()
            except (Exception, KeyboardInterrupt):
                self._undo()
                raise
            finally:
                self.finish_stage()
            if not self.plan.steps:
                return self._finish(began_s)
            self.store_postponed()
        rule = f"is not done after {MOST_STAGES} looks"
        raise refuse.run(self.progress.source, rule, "See the journal, and try again.")

    def _plan_stage(self) -> None:
        """Plans the next stage from what was observed. Raises CouldNotRun for a refusal."""
        if (proved := renew_proof(self.seen, self.progress)) is not None:
            self.log(proved)
        if (scheduled := find_events(self.seen, self.progress)) is not None:
            self.log(events.SawEvents(scheduled))
        self.plan = plan(self.seen, self.progress, self.surroundings.read_now_s())
        if self.plan.refusal:
            with contextlib.suppress(HeadraceError):  # a full disk does not hide the refusal
                self.log(events.PlanRefused(self.plan.refusal))
            self._let_receive()
            raise make_refusal_error(self.plan, self.progress.source)
        if (doubt := doubt_election(self.plan, self.progress)) is not None:
            self.log(doubt)

    def _clear_up(self) -> None:
        """Restores the settings of replicas that an interrupted run has left hurried."""
        for name, settings in self.journal.history.hurried.items():
            if name in self.hosts:
                try:
                    self.draining.end_hurry(self.hosts[name], settings)
                except HeadraceError as error:  # its next start has its own settings again
                    self.say(f"{name}: flushes less than it should until it is started again: {error.rule}")

    def look(self) -> Members:
        """Returns the observations of the servers; a dead source is not asked again. Before the
        election of a failover, a write is tried on the source."""
        source, kind = self.progress.source, self.progress.kind
        fenced = source in self.observer.fenced
        if self.gone is not None:
            # Replicas of the source are stopped, so it does not matter any more whether the source
            # comes back; and a query of a dead host takes a second.
            others = self.observer.look([name for name in self.hosts if name != source])
            seen = others | {source: replace(self.gone, fence="done") if fenced else self.gone}
        elif kind == "failover" and self.progress.decision is None and not fenced:
            seen, _ = self.observer.probe_source(source)
        else:
            seen = self.observer.look()
        if "fence" in self.progress.failed and not fenced:
            seen = seen | {source: replace(seen[source], fence="none")}
        return seen

    def _note_gone(self, seen: Members) -> None:
        """Sets `gone` to the observation of a failover's dead or useless source."""
        old = seen.get(self.progress.source)
        if self.progress.kind == "failover" and old is not None and (old.state is None or old.write == "stalled"):
            self.gone = old

    def _carry_out_stage(self) -> None:
        """Carries out the steps of the plan's next stage. Returns before a step if the lease was
        lost and taken again, as another may have changed the servers since the plan was made."""
        stage = self.plan.stage
        actions = {step.action for step in stage}
        if "writable" in actions and self.plan.gives_up:
            self.say(f"given up: {self.plan.gives_up}")
        if actions & {"writable", "repoint-early"}:
            self._prepare_accounts()
        if "read-only" in actions:
            self._prepare_closing()
        for steps in _group_parallel(stage):
            if ACTIONS[steps[0].action].leased and not self.lease.check(find_excluded(self.progress)):
                self.say(LEASE_TAKEN_AGAIN)
                return
            if len(steps) > 1:
                self._carry_out_in_parallel(steps)
            else:
                self._carry_out(steps[0])

    def _carry_out(self, step: FailoverStep) -> None:
        """Carries out a step, with its begin and end in the journal. An error of an optional step
        is logged and said; any other is raised."""
        action, history = ACTIONS[step.action], self.journal.history
        try:
            action.prepare(self, step)
            if elects(step, self.progress):
                self.log(make_election(self.plan, self.progress, self.seen))
            self.log(events.StepBegan(step))
        except BaseException:
            # Nothing was done: without the election, the source of a switchover takes writes again.
            self.journal.history = history
            raise
        began = self.surroundings.read_now_s()
        try:
            self.say(step.words)
            with translate_errors(step.server):
                action.run(self, step)
        except HeadraceError as error:
            self.log(events.StepFailed(step, str(error.value), error.rule))
            if not action.optional:
                raise
            self.say(f"{step.words}: failed: {error.rule}")
        else:
            self.log(events.StepDone(step, round(self.surroundings.read_now_s() - began, 4)))
        action.conclude(self, step)

    def _carry_out_in_parallel(self, steps: Sequence[FailoverStep]) -> None:
        """Carries out a step for several servers at once."""

        def catch_error(step: FailoverStep) -> Exception | None:
            try:
                self.say(step.words)
                ACTIONS[step.action].run(self, step)
            except Exception as error:
                return error
            return None

        began = self.surroundings.read_now_s()
        for step in steps:
            self.log(events.StepBegan(step))
        errors = self.surroundings.run_all([lambda step=step: catch_error(step) for step in steps])
        for step, error in zip(steps, errors, strict=True):
            if error is None:
                self.log(events.StepDone(step, round(self.surroundings.read_now_s() - began, 4)))
            else:
                self.log(events.StepFailed(step, step.server, " ".join(str(error).split())[:300]))
        for error in filter(None, errors):
            raise error

    def _prepare_accounts(self) -> None:
        """Creates the accounts of the new source's replicas before it takes writes: once it does,
        commits wait until a replica acknowledges. Servers that follow it already have theirs, and
        a new password would keep them from connecting again."""
        new = self.hosts[self.plan.elected or ""]
        for name, host in self.hosts.items():
            if name == new.name or (new.name, name) in self.following:
                continue
            if find_channel(self.seen[name], self.seen[new.name]) is None:
                with self.pool.hold_connection(new) as connection:
                    self.following[new.name, name] = new.admit_follower(host, connection, read_dialect(connection))

    def _prepare_closing(self) -> None:
        """Prepares the end of the writes while they go on: waits until the chosen replica is near,
        sets `closing`, and waits up to `max_wait_s` for long statements that write."""
        host, chosen = self.hosts[self.progress.source], self.hosts[self.plan.elected or ""]
        state = self.get_state(host.name)
        with contextlib.ExitStack() as hurry:
            # It may take long, and the source's events run as long.
            self.draining.wait_until_near(chosen, host, self.get_state(chosen.name), hurry)
        self.log(events.WritesClosing(host.name, chosen.name, state.event_scheduler == "ON"))
        self.closing = Closing.prepare(host, state, self.surroundings)
        until, long = self.surroundings.read_now_s() + self.executor.max_wait_s, self.closing.list_long_writers()
        while long and self.surroundings.read_now_s() < until:
            self.say(f"waiting, while writes go on, for {'; '.join(long)}")
            self.surroundings.sleep(LONG_LOOK_S)
            long = self.closing.list_long_writers()

    def finish_stage(self) -> None:
        """Ends the hurry of replicas, and closes the connection that stops the writes."""
        self.hurry.close()
        if self.closing is not None:
            self.closing.close()
            self.closing = None

    def store_postponed(self) -> None:
        """Stores the postponed settings of servers, also those of an interrupted run."""
        progress = self.journal.history.progress
        if progress is not None and progress.postponed:
            for name, settings in progress.postponed.items():
                if name in self.hosts:
                    self.hosts[name].remember(**settings)
            self.log(events.SettingsStored())

    # --- the end ----------------------------------------------------------------------------------

    def _let_receive(self) -> None:
        """Lets the stopped replicas of a failover receive again, if nobody was elected."""
        progress = self.progress
        if progress.decision is None and progress.kind == "failover":
            receive_again(self.pool, self.hosts, progress.stopped, self.say)

    def _undo(self) -> None:
        """Lets the source of a switchover without an elected server take writes again, and then
        ends the switchover in the journal; a full disk does not keep the source read-only. A
        failover stays unfinished: its fence and its proof hold for some time."""
        if self.progress.kind == "switchover" and self.progress.decision is None:
            with ignore_interrupts():  # a second Ctrl-C must not leave it closed
                self.reopen()
                with contextlib.suppress(HeadraceError):
                    self.log(events.GivenUp())

    def reopen(self) -> None:
        """Lets the source of a switchover take writes again, and its replicas follow it again. The
        source stays read-only, and the replicas as they are, if another server takes writes by now:
        an interrupted switchover may be long ago."""
        progress = self.progress
        for name in sorted(progress.prepared.roles):
            # A replica with this role would wait for acknowledgements of what it applies.
            try:
                with self.pool.hold_connection(self.hosts[name]) as connection:
                    run(connection, read_dialect(connection).switch_semi_sync("source", False))
            except Exception as error:
                self.say(f"{name} keeps the source's role of semi-sync until the next change: {error}")
        if progress.pause.closed and not self._reopen_source(progress):
            return
        source = self.hosts[progress.source]
        for name in progress.prepared.moved:
            try:
                with self.pool.hold_connection(self.hosts[name]) as connection:
                    follow_again(self.hosts[name], connection, source)
            except Exception as error:
                self.say(f"{name} does not follow {source.name} as before: {error}")
            else:
                self.say(f"{name} follows {source.name} again")

    def _reopen_source(self, progress: Progress) -> bool:
        """Lets the source take writes again, and returns True, if it is still the source: it
        follows nobody, and no other server takes writes."""
        source = self.hosts[progress.source]
        others = [name for name in list_writers(self.seen) if name != source.name]
        with self.pool.hold_connection(source) as connection:
            state = observe(connection, source.name)
            still = not state.channels and not others
            if still:
                reopen(source, connection, state, progress.pause.silenced)
        words = "takes writes again" if still else "stays read-only: it is not the source any more"
        self.say(f"{source.name} {words}")
        with contextlib.suppress(HeadraceError):
            self.log(events.Reopened())
        return still

    def _finish(self, began_s: float) -> Outcome:
        """Ends the change in the journal, and returns its outcome. `began_s`: when the run began,
        monotonic time, s."""
        self.store_postponed()
        progress, last = self.progress, self.plan
        self.observer.fenced.discard(progress.source)
        # A server that had taken over before this change began was elected by nobody here.
        decision = progress.decision or events.Elected(last.elected or "", None, last.lossless, last.uncertain)
        new = self.hosts.get(decision.server)
        outcome = Outcome(
            elected=decision.server or None,
            lossless=decision.lossless,
            uncertain=() if decision.lossless else decision.uncertain,
            missing=decision.missing,
            left_out={**decision.left_out, **last.left_out},
            seconds=self.surroundings.read_now_s() - began_s,
            closed_s=progress.pause.seconds,
            outage_s=None if self.first_client is None else self.first_client.measure_outage_s(),
            rescued=progress.rescued,
            events=progress.enabled,
            # They stay disabled, as nobody knows whether the old source ran them.
            events_left=() if new is None or progress.events is not None else scheduler.list_disabled(new, EVENTS_S),
            closed=progress.pause.parts if progress.pause.seconds is not None else {},
            gives_up=decision.gives_up,
            clients="" if new is None else self._publish_again(new),
        )
        if (lost := progress.lost) is not None:
            outcome = replace(outcome, lost=lost.count, lost_gtids=lost.ranges, lost_file=lost.path)
        self.log(events.Finished(outcome))
        return outcome

    def _publish_again(self, new: AddressHost) -> str:
        """Writes the clients' file again if that failed before. Returns why it could not be written
        now, "" where it names the new source."""
        if "clients" not in self.progress.failed:
            return ""
        try:
            PUBLISH.publish(self, new)
        except HeadraceError as error:
            self.say(f"problem: {self.clients} does not name {new.name}: {error.rule}; write it yourself")
            return error.rule
        return ""


def _group_parallel(stage: Sequence[FailoverStep]) -> list[list[FailoverStep]]:
    """Groups the steps of a stage, in order: neighbours that may run at once are together."""
    groups: list[list[FailoverStep]] = []
    for step in stage:
        if groups and step.action == groups[-1][0].action and ACTIONS[step.action].at_once:
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def find_excluded(progress: Progress) -> str | None:
    """Returns the server that the lease leaves out: a dead source, or None."""
    return progress.source if progress.kind == "failover" else None
