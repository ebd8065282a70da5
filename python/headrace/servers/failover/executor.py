"""Carries out a plan: a stage, an observation of all servers, and the next stage.

Every step is in the journal before and after it; every step may be repeated; so after a crash of
this program the same command goes on where it stopped. Before each step the lease is checked.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.base.files import write_whole
from headrace.base.processes import undisturbed
from headrace.errors import CouldNotRun, HeadraceError
from headrace.servers.failover import rescue, scheduler
from headrace.servers.failover.changes import (
    Closing,
    empties,
    follow,
    follow_again,
    leave_sources,
    move_below,
    receive_again,
    reopen,
    source_of,
)
from headrace.servers.failover.draining import MOMENT_S, NEAR_ENOUGH_S, Draining
from headrace.servers.failover.hosts import AddressHost, Hands
from headrace.servers.failover.interruption import words_after_change
from headrace.servers.failover.journal import Journal, Lease, events_out
from headrace.servers.failover.observer import Observer
from headrace.servers.failover.outage import FirstClient
from headrace.servers.failover.planning.dry_run import DryRun, dry_run
from headrace.servers.failover.planning.election import follows, has
from headrace.servers.failover.planning.guarantee import carried
from headrace.servers.failover.planning.members import (
    GUIDE,
    FailoverPlan,
    FailoverStep,
    FailoverWish,
    Members,
    Outcome,
    Seen,
    refused,
)
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.planning.semisync import timeout_ms
from headrace.servers.topology import accounts
from headrace.servers.topology.dialect import SourceOf
from headrace.servers.topology.gtid import GtidSet
from headrace.servers.topology.state import ServerState, dialect_of, observe
from headrace.servers.topology.threads import stop_receiving

# Longest wait for a replica to apply what it received, s: an hour of backlog. It is told meanwhile.
DRAIN_S = 3_600.0
# Longest time that the source of a switchover stays read-only until the replica has the rest, s (a
# guess: clients wait that long, and a replica that was near needs a fraction of a second).
MAX_WAIT_S = 10.0
EVENTS_S = 10.0  # of a question for events, or a change of them, a guess
# A plan has four stages; servers that come and go may add some. More is a plan that never ends.
MOST_STAGES = 24
AT_ONCE = ("stop-receive", "repoint")  # of which several servers' are done at once
LONG_LOOK_S = 0.5  # between two looks at statements that are in the way of the end of the writes, a guess
# A replica that comes no nearer for so long, s, moves when the writes have stopped (a guess).
EARLY_STANDS_S = 1.0
EARLY_S = 5.0  # how long a replica may take to have applied all it received before it moves, a guess
# Steps whose failure does not end a failover: without a fence the replicas decide.
OPTIONAL = ("fence", "events", "list-lost", "clients")
# Steps of a moment between two others that look at the lease.
UNLEASED = ("wait-applied", "semi-sync-source-on", "clients")

Say = Callable[[str], None]


def silent(text: str) -> None:
    """Discards progress messages."""


@dataclass
class Executor:
    """Carries out failovers and switchovers of these servers. `clients`: a file that applications
    read the source's address from. `drain_s`: longest wait for a relay log, and for a replica of a
    switchover to come near; `max_wait_s`: longest time that a switchover keeps writes out."""

    observer: Observer
    journal: Journal
    lease: Lease
    clients: Path | None = None
    say: Say = silent
    drain_s: float = DRAIN_S
    max_wait_s: float = MAX_WAIT_S
    _began: float = 0.0
    _closed_at: float | None = None  # when the writes of a switchover's source ended
    _closed_s: float | None = None  # how long nobody took writes
    _rescued: int | None = None
    _lost: tuple[int, str, str] | None = None
    _enabled: int | None = None
    _stopped: set[str] = field(default_factory=set)  # replicas whose receiving it stopped
    _closed: bool = False
    _silenced: bool = False  # the event scheduler of a switchover's source
    _elected: bool = False  # from then on nobody else may be chosen, and the source stays closed
    _closing: Closing | None = None
    _target: GtidSet | None = None  # what the source of a switchover had when its writes ended
    _parts: dict[str, float] = field(default_factory=dict)  # of the time without writes, s, by step
    _client: FirstClient | None = None
    _hurry: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _moved: list[str] = field(default_factory=list)  # replicas that follow the chosen one already
    _roles: list[str] = field(default_factory=list)  # those that got the source's role of semi-sync
    _later: list[tuple[AddressHost, dict[str, str]]] = field(default_factory=list)
    _unwritten: str = ""  # why the clients' file could not be written
    _gone: Seen | None = None  # the old source, as it was when the failover began
    _hands: Hands = field(default_factory=Hands)
    _following: dict[tuple[str, str], SourceOf] = field(default_factory=dict)

    @property
    def hosts(self) -> Mapping[str, AddressHost]:
        return self.observer.hosts

    @property
    def _draining(self) -> Draining:
        return Draining(self._hands, self.journal, self.say, self.drain_s, self.max_wait_s)

    def close(self) -> None:
        """Closes its connections."""
        self._finish_stage()
        self.lease.release()
        self._hands.close()
        self.observer.close()
        self.journal.close()

    def warm(self, source: str) -> None:
        """Connects to the replicas in advance of a failover."""
        others = [host for name, host in self.hosts.items() if name != source]
        self._hands.warm(others)
        self.lease.warm(others)

    def dry_run(self, wish: FailoverWish) -> DryRun:
        """Returns every step that `run` would take now, and the end state. It changes nothing,
        except that a source which answers writes a row of Headrace's own table: if it takes writes
        there is no reason to fail over."""
        seen = self._look(wish)
        unfinished = self.journal.unfinished()
        if unfinished is not None and not unfinished.is_over(wish, seen) and unfinished.is_same(wish):
            wish = unfinished.joined(wish)
        wish = self._add_handed_proof(wish, seen)
        return dry_run(seen, replace(wish, now_s=time.monotonic()))

    def run(self, wish: FailoverWish, by: str = "user", seen: Members | None = None) -> Outcome:
        """Carries out the change, or raises an error with the reason; the journal has what was
        done, and the same command resumes it. `seen`: servers that were observed just now.

        Raises CouldNotRun, InputError."""
        with self.journal.alone():
            unfinished = self.journal.unfinished()
            if unfinished is not None and unfinished.is_over(wish, seen):
                self.journal.write("given up")
                unfinished = None
            if unfinished is not None and unfinished.is_same(wish):
                self.say(f"going on with the {wish.kind} that {unfinished.by} began")
                wish = unfinished.joined(wish)
                self._stopped |= unfinished.stopped
                self._closed = self._closed or unfinished.closed
                self._silenced = self._silenced or (unfinished.closed and bool(wish.events))
            if wish.proof is None and self.journal.handed(wish.source) is not None:
                seen = seen or self._look(wish)
                wish = self._add_handed_proof(wish, seen)
            self.lease.take(_find_left_out(wish))
            self._began, self._closed_at, self._closed_s, self._parts = time.monotonic(), None, None, {}
            self._client = None
            self._elected, self._target, self._moved = wish.elected is not None, None, list(wish.moved)
            self.journal.begin(wish, by)
            try:
                return self._stages(wish, seen)
            finally:
                self.lease.release()

    def _add_handed_proof(self, wish: FailoverWish, seen: Members) -> FailoverWish:
        """Adds the proof that a watch has handed over, if this call has none and no replica has
        received anything since."""
        if wish.kind != "failover" or wish.proof is not None or wish.elected is not None:
            return wish
        handed = self.journal.handed(wish.source)
        if handed is None:
            return wish
        for name, text in handed.received.items():
            member = seen.get(name)
            if member is None or member.state is None:
                continue
            if not GtidSet.parse(text, member.state.flavor).contains(has(member)):
                self.say(f"{name} has received more since {wish.source} was watched: what was seen then does not count")
                return wish
        self.say(f"a watch saw semi-sync at work until {wish.source} died: that counts")
        return replace(wish, proof=carried(handed.proof, seen), events=wish.events or handed.events)

    def interrupted(self, wish: FailoverWish) -> str:
        """Returns the state after an interrupted run, in words, by the servers and the journal."""
        with undisturbed():
            earlier = self.journal.unfinished()
            unfinished = earlier is not None and earlier.is_same(wish)
            return words_after_change(self.observer.look(), wish.source, unfinished)

    def back(self, source: str) -> None:
        """Gives up an unfinished failover that elected nobody, because its source takes writes
        again."""
        unfinished = self.journal.unfinished()
        if (
            unfinished is None
            or unfinished.wish.kind != "failover"
            or unfinished.wish.source != source
            or unfinished.wish.elected
        ):
            return
        with contextlib.suppress(CouldNotRun), self.journal.alone():
            receive_again(self._hands, self.hosts, unfinished.stopped, self.say, unfinished.rescuing)
            self.journal.write("given up")

    def _note_gone(self, wish: FailoverWish, seen: Members) -> None:
        """Remembers the observation of a dead source, so that it is not asked again."""
        old = seen.get(wish.source)
        if wish.kind == "failover" and old is not None and (old.state is None or old.write == "stalled"):
            self._gone = old

    def _stages(self, wish: FailoverWish, seen_before: Members | None) -> Outcome:
        decided = FailoverPlan()
        self._gone = None
        if seen_before is not None:
            self._note_gone(wish, seen_before)
        for name, settings in self.journal.hurried().items():
            if name in self.hosts:
                try:
                    self._draining.unhurried(self.hosts[name], settings)
                except HeadraceError as error:  # its next start has its own settings again
                    self.say(f"{name}: flushes less than it should until it is started again: {error.rule}")
        for _ in range(MOST_STAGES):
            # The replicas are observed again: another watcher may have acted before we had the
            # lease.
            seen = self._look(wish)
            self._note_gone(wish, seen)
            old = seen.get(wish.source)
            if wish.proof is not None:
                wish = replace(wish, proof=carried(wish.proof, seen))
                assert wish.proof is not None
                self.journal.proof(wish.proof)
            if wish.events is None and old is not None and old.events is not None:
                wish = replace(wish, events=old.events)
                self.journal.write("events", events=events_out(old.events))
            wish = replace(wish, now_s=time.monotonic())
            stage_plan = plan(seen, wish)
            if stage_plan.refusal:
                self.journal.write("refused", rule=stage_plan.refusal)
                if wish.elected is None:
                    self._give_up(wish, seen)
                raise refused(stage_plan, wish.source)
            if not stage_plan.steps:
                return self._finish(decided if decided.elected else stage_plan, stage_plan, wish)
            if any(step.action == "writable" for step in stage_plan.stage):
                decided = stage_plan
                if stage_plan.gives_up:
                    self.journal.write("gives up", what=stage_plan.gives_up)
                    self.say(f"given up: {stage_plan.gives_up}")
            try:
                wish = self._stage(stage_plan, wish, seen)
            except (Exception, KeyboardInterrupt):
                if not self._elected:
                    self._undo(wish, seen)
                raise
            finally:
                self._finish_stage()
        raise CouldNotRun(
            wish.source, f"is not done after {MOST_STAGES} looks", GUIDE, "See the journal, and try again."
        )

    def _look(self, wish: FailoverWish) -> dict[str, Seen]:
        if self._gone is not None:
            # Its replicas are stopped, so it does not matter any more whether it comes back; and a
            # query of a dead host takes a second.
            seen = self.observer.look([name for name in self.hosts if name != wish.source])
            if wish.source in self.observer.fenced:
                return seen | {wish.source: replace(self._gone, fence="done")}
            # A fence that failed is not tried again.
            fence = self._gone.fence if self.hosts[wish.source].can_fence else "none"
            return seen | {wish.source: replace(self._gone, fence=fence)}
        if wish.kind == "failover" and wish.elected is None and wish.source not in self.observer.fenced:
            # A source that is back is not failed over, even if someone said that it is dead.
            seen, _ = self.observer.tick(wish.source)
            return seen
        return self.observer.look()

    def _give_up(self, wish: FailoverWish, seen: Mapping[str, Seen]) -> None:
        """Lets the stopped replicas receive again, since nobody was elected: they follow the source
        if it comes back."""
        self._undo(wish, seen)
        if wish.kind == "failover":
            receive_again(self._hands, self.hosts, self._stopped, self.say)

    def _undo(self, wish: FailoverWish, seen: Members) -> None:
        """Lets the source of a switchover take writes again, and then ends it in the journal. If
        the process dies in between, the next run resumes; a full disk does not keep the source
        read-only. A failover can be resumed for some time: its fence and its proof still hold."""
        if wish.kind == "switchover":
            with undisturbed():  # a second Ctrl-C must not leave it closed
                self._reopen(wish, seen)
                with contextlib.suppress(HeadraceError):
                    self.journal.write("given up")

    def _reopen(self, wish: FailoverWish, seen: Members) -> None:
        """Lets the source of a switchover without an elected server take writes again, and its
        replicas follow it again. It does nothing if another server takes writes by now: a
        switchover that was cut off may be long ago."""
        self._later = []
        for name in self._roles:
            # A replica with this role would wait for acknowledgements of what it applies.
            with contextlib.suppress(Exception), self._hands.on(self.hosts[name]) as connection:
                accounts.run(connection, dialect_of(connection).semi_sync("source", False))
        self._roles = []
        source = self.hosts[wish.source]
        if self._closed:
            open_now = [member.name for member in seen.values() if member.state and not member.state.read_only]
            with self._hands.on(source) as connection:
                state = observe(connection, source.name, position=False)
                if state.channels or any(name != wish.source for name in open_now):
                    self.say(f"{wish.source} stays read-only: it is not the source any more")
                    self._closed = False
                    return
                reopen(source, connection, state, self._silenced)
            self._closed = False
            self.say(f"{wish.source} takes writes again")
        for name in self._moved:
            try:
                with self._hands.on(self.hosts[name]) as connection:
                    follow_again(self.hosts[name], connection, source)
            except Exception as error:
                self.say(f"{name} does not follow {wish.source} as before: {error}")
            else:
                self.say(f"{name} follows {wish.source} again")

    def _finish_stage(self) -> None:
        """Does what a stage postponed: settings for later starts, and closing connections."""
        self._hurry.close()
        later, self._later = self._later, []
        for host, settings in later:
            host.remember(**settings)
        if self._closing is not None:
            self._closing.close()
            self._closing = None

    def _remember(self, host: AddressHost, **settings: str) -> None:
        """Stores settings for later starts, but not while clients wait."""
        if self._target is not None:
            self._later.append((host, settings))
        else:
            host.remember(**settings)

    def _stage(self, stage_plan: FailoverPlan, wish: FailoverWish, seen: Mapping[str, Seen]) -> FailoverWish:
        if any(step.action in ("writable", "repoint-early") for step in stage_plan.stage):
            self._prepare(stage_plan, seen)
        if any(step.action == "read-only" for step in stage_plan.stage):
            self._close_soon(stage_plan, wish, seen)
        for steps in _group_parallel(stage_plan.stage):
            if steps[0].action not in UNLEASED:
                self.lease.check(_find_left_out(wish))
            if len(steps) > 1:
                began = time.monotonic()
                self._do_abreast(steps, wish, seen)
                self._count_part(steps[0], time.monotonic() - began)
                continue
            [step] = steps
            if wish.elected is None and step.action in ("leave-source", "writable"):
                # From here on nobody else may be chosen.
                now = seen[stage_plan.elected].state if stage_plan.elected else None
                had = None if stage_plan.lossless or wish.rescued or now is None else now.executed
                text = None if had is None else {"gtid": str(had), "flavor": had.flavor}
                self._elected = True  # even if the journal cannot be written
                sure = (stage_plan.lossless, stage_plan.uncertain)
                self.journal.write("elected", server=stage_plan.elected, had=text, sure=sure)
                wish = replace(wish, elected=stage_plan.elected, had=had, sure=sure)
            self.journal.step(step, "doing")
            began = time.monotonic()
            try:
                self._do(step, wish, seen)
            except HeadraceError as error:
                self.journal.step(step, "failed", error=f"{error.value}: {error.rule}")
                if step.action == "repoint-early":
                    wish = replace(wish, stay=(*wish.stay, step.server))
                elif step.action not in OPTIONAL:
                    raise
                self.say(f"{step.words}: failed: {error.rule}")
                if step.action == "fence":
                    self._note_unfenced(step.server)
                if step.action == "clients":
                    # The replicas have to follow all the same; the file is tried again at the end.
                    self._unwritten, wish = error.rule, replace(wish, clients_updated=True)
                    self._send_client(step.server, wish)
                if step.action in ("fence", "repoint-early", "clients"):
                    continue
            else:
                took = time.monotonic() - began
                self.journal.step(step, "done", seconds=round(took, 3))
                self._count_part(step, took)
                if step.action == "clients":
                    self._send_client(step.server, wish)
                    self._count_closed(wish)
                    wish = replace(wish, clients_updated=True)
            if step.action == "repoint-early":
                wish = replace(wish, moved=(*wish.moved, step.server), target=step.to)
            if step.action == "list-lost":
                self.journal.write("listed", count=self._lost and self._lost[0])
                wish = replace(wish, listed=True)
            if step.action == "events":
                self.journal.write("scheduled", count=self._enabled)
                wish = replace(wish, scheduled=True)
            if step.action == "fence":
                wish = replace(wish, fenced_s=time.monotonic())
            if step.action == "rescue":
                self.journal.write("rescued", transactions=self._rescued)
                wish = replace(wish, rescued=True)
        return wish

    def _close_soon(self, stage_plan: FailoverPlan, wish: FailoverWish, seen: Mapping[str, Seen]) -> None:
        """Makes slow preparations for stopping the writes, while they go on."""
        host, state, chosen = self.hosts[wish.source], seen[wish.source].state, seen[stage_plan.elected or ""]
        assert state is not None and chosen.state is not None
        with contextlib.ExitStack() as hurry:
            # It may take long, and the source's events run as long.
            self._draining.come_near(self.hosts[chosen.name], host, chosen.state, hurry)
        self._closed, self._silenced = True, self._silenced or state.event_scheduler == "ON"
        self.journal.write("closing", server=host.name, target=chosen.name)
        self._closing = Closing.prepared(host, state)
        until, long = time.monotonic() + self.max_wait_s, self._closing.long_writers()
        while long and time.monotonic() < until:
            self.say(f"waiting, while writes go on, for {'; '.join(long)}")
            time.sleep(LONG_LOOK_S)
            long = self._closing.long_writers()

    def _count_part(self, step: FailoverStep, took_s: float) -> None:
        if self._target is not None and "clients" not in self._parts:
            if step.action == "read-only" and self._closed_at is not None:
                # Attempts before the last one let clients write in between.
                took_s = time.monotonic() - self._closed_at
            self._parts[step.action] = self._parts.get(step.action, 0.0) + took_s

    def _count_closed(self, wish: FailoverWish) -> None:
        """Records how long no server took writes, and its parts, when the new source is
        published."""
        if self._closed_at is not None and wish.kind == "switchover" and not wish.clients_updated:
            self._closed_s = time.monotonic() - self._closed_at
            self._parts["between"] = max(0.0, self._closed_s - sum(self._parts.values()))
            parts = ", ".join(f"{name} {took:.3f} s" for name, took in self._parts.items())
            self.journal.write("writes closed", sync=False, seconds=round(self._closed_s, 4), parts=self._parts)
            self.say(f"writes were closed for {self._closed_s:.3f} s: {parts}")

    def _send_client(self, name: str, wish: FailoverWish) -> None:
        """Starts a first client of the new source, when its address is published."""
        since_s = self._closed_at if wish.kind == "switchover" else wish.written_s
        if since_s is not None and self._client is None and not wish.clients_updated:
            self._client = FirstClient(self.hosts[name], since_s)
            self._client.begin()

    def _do_abreast(self, steps: Sequence[FailoverStep], wish: FailoverWish, seen: Mapping[str, Seen]) -> None:
        """Does a step for several servers at once: each of them may wait for a dead host."""
        began = time.monotonic()
        for step in steps:
            self.journal.step(step, "doing")
        with ThreadPoolExecutor(len(steps)) as pool:
            waiting = [pool.submit(self._do, step, wish, seen) for step in steps]
        errors = [future.exception() for future in waiting]
        for step, error in zip(steps, errors, strict=True):
            if error is None:
                self.journal.step(step, "done", seconds=round(time.monotonic() - began, 3))
            else:
                self.journal.step(step, "failed", error=" ".join(str(error).split())[:300])
        for error in filter(None, errors):
            raise error

    def _prepare(self, stage_plan: FailoverPlan, seen: Mapping[str, Seen]) -> None:
        """Creates the accounts of the new source's replicas before it takes writes: once it does,
        commits wait until a replica acknowledges. Servers that follow it already have theirs, and
        a new password would keep them from connecting again."""
        new = self.hosts[stage_plan.elected or ""]
        for name, host in self.hosts.items():
            if name == new.name or (new.name, name) in self._following:
                continue
            if follows(seen[name], seen[new.name]) is None:
                with self._hands.on(new) as connection:
                    self._following[new.name, name] = source_of(new, host, connection)

    def _note_unfenced(self, name: str) -> None:
        """A fence that failed is not tried again in this run: the quorum of replicas decides."""
        host = self.observer.hosts[name]
        self.observer.hosts = {**self.observer.hosts, name: replace(host, can_fence=False)}

    def _finish(self, decided: FailoverPlan, last: FailoverPlan, wish: FailoverWish) -> Outcome:
        self.observer.fenced.discard(wish.source)
        lost, events_left = self._lost or (None, "", ""), ()
        if wish.events is None and decided.elected:
            with contextlib.suppress(Exception):
                events_left = tuple(scheduler.asleep(self.hosts[decided.elected], EVENTS_S))
        if self._unwritten and decided.elected:
            try:
                self._tell_clients(self.hosts[decided.elected])
                self._unwritten = ""
            except HeadraceError as error:
                self.say(f"problem: {self.clients} does not name {decided.elected}: {error.rule}; write it yourself")
        outcome = Outcome(
            elected=decided.elected,
            lossless=decided.lossless,
            uncertain=() if decided.lossless else decided.uncertain,
            missing=decided.missing,
            left_out={**decided.left_out, **last.left_out},
            seconds=time.monotonic() - self._began,
            closed_s=self._closed_s,
            outage_s=None if self._client is None else self._client.outage_s(),
            rescued=self._rescued,
            lost=lost[0],
            lost_gtids=lost[1],
            lost_file=lost[2],
            events=self._enabled,
            events_left=events_left,
            closed=self._parts,
            gives_up=decided.gives_up,
            clients=self._unwritten,
        )
        self.journal.write("finished", outcome=outcome.as_dict())
        return outcome

    # --- the steps --------------------------------------------------------------------------------

    def _do(self, step: FailoverStep, wish: FailoverWish, seen: Mapping[str, Seen]) -> None:
        self.say(step.words)
        host = self.hosts[step.server]
        if step.action == "fence":
            self.journal.fenced(step.server, host.fence())
            self.observer.fenced.add(step.server)
            return
        if step.action == "clients":
            self._tell_clients(host)
            return
        state = seen[step.server].state or self._hands.state_of(host)
        dialect = state.dialect
        channel = state.channels[0].name if state.channels else ""
        match step.action:
            case "start-apply":
                self._hands.change(host, *dialect.start_apply(channel))
            case "stop-receive":
                with self._hands.on(host) as connection:
                    stop_receiving(connection, state, channel)
                self._stopped.add(step.server)
            case "wait-near":
                with contextlib.ExitStack() as hurry:
                    self._draining.come_near(host, self.hosts[step.to], state, hurry)
                    if step.stage > 1:
                        # It is hurried until it has everything: the flush takes less time than that
                        # saves.
                        self._hurry = hurry.pop_all()
            case "repoint-early":
                self._move(host, state, wish, self.hosts[step.to])
            case "read-only":
                assert self._closing is not None
                ours = self._hands.numbers(host.name) | self.lease.numbers(host.name)
                self._target = self._closing.stop(self.say, ours)
                self._closed_at = self._closing.began_s
            case "wait-applied":
                self._wait_applied(step, wish, seen[step.server])
            case "rescue":
                assert step.gtid is not None
                self._rescued = rescue.rescue(self.hosts[step.to], host, step.gtid, self.say)
            case "inject":
                assert step.gtid is not None
                self._hands.change(host, *empties(step.gtid))
            case "leave-source":
                with self._hands.on(host) as connection:
                    leave_sources(connection, state)
            case "semi-sync-replica-off" | "semi-sync-replica-on":
                on = step.action.endswith("on")
                self._hands.change(host, *dialect.semi_sync("replica", on))
                self._remember(host, **{dialect.semi_sync_variable("replica", "enabled"): "ON" if on else "OFF"})
            case "semi-sync-source-off":
                self._hands.change(host, *dialect.semi_sync("source", False))
                host.remember(**{dialect.semi_sync_variable("source", "enabled"): "OFF"})
            case "semi-sync-source-on":
                self._roles.append(host.name)
                self._hands.change(host, *dialect.semi_sync("source", True, timeout_ms(wish, state, seen), step.count))
                self._remember(host, **{dialect.semi_sync_variable("source", "enabled"): "ON"})
            case "writable":
                self._hands.change(host, *dialect.read_only(False))
                off = ("read_only",) if dialect.is_mariadb else ("read_only", "super_read_only")
                self._remember(host, **dict.fromkeys(off, "OFF"))
            case "events":
                scheduler.enable(host, state, wish.events or (), EVENTS_S)
                self._enabled = len(wish.events or ())
            case "list-lost":
                assert step.gtid is not None
                self._list_lost(self.hosts[step.to], step.gtid, state.flavor)
            case "repoint":
                if wish.kind == "switchover" and not self._elected:
                    self._moved.append(host.name)
                self._repoint(host, self.hosts[step.to])

    def _move(self, host: AddressHost, state: ServerState, wish: FailoverWish, to: AddressHost) -> None:
        with contextlib.ExitStack() as hurry:
            self._draining.come_near(host, self.hosts[wish.source], state, hurry, EARLY_STANDS_S)
        self._moved.append(host.name)
        with self._hands.on(host) as connection, self._hands.on(to) as above:
            move_below(host, connection, to, above, self._following.get((to.name, host.name)), EARLY_S)

    def _repoint(self, host: AddressHost, to: AddressHost) -> None:
        with self._hands.on(host) as connection:
            follow(host, connection, to, self._following.get((to.name, host.name)))

    def _wait_applied(self, step: FailoverStep, wish: FailoverWish, seen: Seen) -> None:
        host, state, target = self.hosts[step.server], seen.state, step.gtid or self._target
        assert target is not None and state is not None
        switching = wish.kind == "switchover"
        if switching:
            self.journal.write("closed", sync=False, missing=self._draining.count_missing(host, state, target))
        # A replica that is near already needs no more help.
        with self._draining.hurried(host, state, target, NEAR_ENOUGH_S if switching else MOMENT_S):
            try:
                self._draining.wait(host, state, target, self.max_wait_s if switching else self.drain_s)
            except (Exception, KeyboardInterrupt):
                if switching and self._closed:
                    # First of all, because clients wait and the replica may not answer.
                    self._reopen(wish, {})
                raise
        self._hurry.close()
        if switching:
            self._draining.nothing_of_its_own(host, seen, target)

    def _list_lost(self, old: AddressHost, had: GtidSet, flavor: str) -> None:
        """Writes a file of the transactions in the dead source's binary log that the new source
        lacked."""
        lost = rescue.tail(old, had, flavor)
        name = f"{old.name.replace('/', '_')}-lost-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.txt"
        path = self.journal.path.with_name(name)
        write_whole(path, "".join(f"{gtid}\n" for gtid in lost).encode())
        self._lost = (len(lost), rescue.in_ranges(lost, flavor), str(path))
        self.say(f"{len(lost):,} transactions of {old.name} are lost: {path}")

    def _tell_clients(self, host: AddressHost) -> None:
        if self.clients is not None:
            text = json.dumps({"host": host.host, "port": host.port, "name": host.name})
            write_whole(self.clients, (text + "\n").encode())


def _group_parallel(stage: Sequence[FailoverStep]) -> list[list[FailoverStep]]:
    """Groups the steps of a stage, in order: neighbours that may run at once are together."""
    groups: list[list[FailoverStep]] = []
    for step in stage:
        if groups and step.action == groups[-1][0].action in AT_ONCE:
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _find_left_out(wish: FailoverWish) -> str | None:
    """Returns the server that the lease leaves out: a dead source, or None."""
    return wish.source if wish.kind == "failover" else None
