"""Watches a source and its replicas, keeps the proof that semi-sync works, and fails over once.

The source counts as dead when it does not answer *and* no replica receives from it; it counts as
useless when it takes connections and no write for some seconds. A source that waits for missing
replicas, or for somebody's lock, is left alone: no other server would do better.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headrace.errors import CouldNotRun
from headrace.servers.failover.executor import Executor, Say, discard_message
from headrace.servers.failover.lease import LeaseTaken
from headrace.servers.failover.planning.election import (
    collect_gtids,
    find_channel,
    list_followers,
    list_heads,
    list_strangers,
)
from headrace.servers.failover.planning.guarantee import carry_proof
from headrace.servers.failover.planning.members import (
    NAMED,
    ONE_CLUSTER,
    AckProof,
    FailoverWish,
    Members,
    Outcome,
    ScheduledEvent,
    refuse,
)
from headrace.servers.failover.planning.progress import Detected, HandedOver
from headrace.servers.failover.planning.semisync import Trap, list_traps
from headrace.servers.failover.surroundings import Stop

# Between two looks, s. Each takes some 30 ms; a trap is named within 2 s.
EVERY_S = 0.5
# Looks in a row without an answer, with no replica receiving: one may be chance (a guess).
SILENT_LOOKS = 2
# Time for which writes may fail while the server answers, s, counted from the first write without
# an answer (a guess: a volume that fails over inside AWS pauses for seconds, and a longer wait is a
# longer outage). Two writes have to fail.
STALLED_S = 2.5
# The least deadline of a write, s (a guess: a write that works on a busy machine).
LEAST_WRITE_S = 0.5
# Between two looks while something speaks for a failover, s.
SUSPECT_EVERY_S = 0.1
# One automatic failover in this time, s, as orchestrator has it (RecoveryPeriodBlockSeconds): what
# fails twice in an hour is for a person to look at.
FLAP_S = 3_600.0
PAUSE_LOOK_S = 5.0  # between two looks whether that time is over, or was ended by a person, a guess
STILL_S = 60.0  # after which a state that goes on is said again, a guess


def format_clock(unix_s: float) -> str:
    """Returns a moment as this machine's clock shows it."""
    return time.strftime("%H:%M:%S", time.localtime(unix_s))


def check_alone(seen: Members, source: str) -> None:
    """Raises InputError if another server takes writes and follows nobody, as the source does: it
    is of another cluster, and a failover would be refused."""
    heads = list_heads(seen)
    if source in heads and (others := [name for name in heads if name != source]):
        verb = "takes" if len(others) == 1 else "take"
        raise refuse.input(", ".join(others), f"{verb} writes next to {source}, and follows nobody", ONE_CLUSTER)


def check_followed(seen: Members, source: str) -> None:
    """Raises InputError if replicas follow by an address that no named server has: they would not
    count as the source's, and it would never be failed over."""
    if strange := list_strangers(seen, source):
        where = f"{seen[source].host}:{seen[source].port}"
        rule = f"is {where}, and not all follow an address of a server that was named: {', '.join(strange)}"
        raise refuse.input(source, rule, NAMED)


@dataclass
class Suspicion:
    """The observations so far that speak for a failover. `silent`: observations in a row without an
    answer of the source; `unheard`: those in which no replica receives from it either, more for
    missed heartbeats; `stalled`: those in which it answers, and a write does not end.
    `stalled_since`: when the first such write began, monotonic time, s; None for none. `stalled_s`:
    how long writes may stall."""

    stalled_s: float = STALLED_S
    silent: int = 0
    unheard: int = 0
    stalled: int = 0
    stalled_since: float | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing speaks for a failover."""
        return not self.silent and self.stalled_since is None

    def compute_write_s(self, now_s: float) -> float | None:
        """Returns the deadline of the next write, s: the rest of the time for which writes may
        fail, but not so short that a working write would miss it."""
        if self.stalled_since is None:
            return None
        return max(LEAST_WRITE_S, self.stalled_since + self.stalled_s - now_s)

    def add_observation(self, seen: Members, source: str, now_s: float) -> str:
        """Adds an observation; returns the reason to fail over now, "" for none."""
        member = seen[source]
        if member.state is None and member.write != "stalled":
            self.stalled_since, self.stalled = None, 0
            replicas = list_followers(seen, member)
            below = [(each, channel) for each in replicas if (channel := find_channel(each, member)) is not None]
            receiving = [each.name for each, channel in below if channel.receive == "on" and not each.deaf]
            # A receive thread that was stopped by hand says nothing about the source.
            without = [each for each, channel in below if each.deaf or channel.receive == "connecting"]
            without += [each for each, channel in below if channel.receive == "off" and channel.receive_error]
            if not without and not receiving:
                self.silent = self.unheard = 0
                return ""
            self.silent += 1
            # A replica that missed its heartbeats has been silent for longer than two observations.
            missed = all(each.deaf for each in without)
            self.unheard = 0 if receiving else self.unheard + (SILENT_LOOKS if missed else 1)
            if min(self.silent, self.unheard) < SILENT_LOOKS:
                return ""
            return f"{source} does not answer ({member.error}), and no replica receives from it"
        self.silent = self.unheard = 0
        # If writes hang, clients open more connections, until none is left for the probe.
        if member.write in ("stalled", "refused") or (member.write == "full" and self.stalled_since is not None):
            self.stalled += 1
            if self.stalled_since is None:
                self.stalled_since = now_s - member.waited_s
            if self.stalled >= SILENT_LOOKS and now_s - self.stalled_since >= self.stalled_s:
                return f"{source} answers and takes no writes: {member.error}"
            return ""
        self.stalled_since, self.stalled = None, 0
        return ""


@dataclass
class Watcher:
    """Observes the servers every `every_s` seconds. `wish`: the choices for a failover (accept a
    loss, rescue). `acts`: it fails over; else it only reports. `report`: called with each
    observation. `proof`, `events`: the last ones of the source."""

    executor: Executor
    wish: FailoverWish
    every_s: float = EVERY_S
    say: Say = discard_message
    report: Callable[[Members, list[Trap], AckProof | None], None] | None = None
    proof: AckProof | None = None
    events: tuple[ScheduledEvent, ...] | None = None
    source: str = ""
    acts: bool = True
    _suspicion: Suspicion = field(default_factory=Suspicion)
    _reported_traps: set[tuple[str, str]] = field(default_factory=set)
    _took_write: bool = False  # the source took a write while this watched
    _slow_fence_reported: bool = False
    _written_s: float | None = None  # when it last did, on the monotonic clock
    _repeated: tuple[str, float] | None = None  # a state that goes on: its kind, and when it was last said
    _pause_until: float | None = None  # Unix seconds
    _pause_looked_s: float = 0.0

    def _read_now_s(self) -> float:
        return self.executor.surroundings.read_now_s()

    def watch(self, stop: Stop, failovers: int = 1) -> list[Outcome]:
        """Watches until `stop` is set, or it has failed over `failovers` times, and returns the
        outcomes. Raises InputError for a source that is not followed, CouldNotRun for a refusal."""
        done: list[Outcome] = []
        self.source = self.source or self.wish.source
        before: Members | None = None
        while not stop.is_set() and len(done) < failovers:
            began = self._read_now_s()
            if self.acts:
                self._report_pause()
            seen, why = self.look()
            if before is None:
                check_followed(seen, self.source)
                if self.acts and not done:
                    check_alone(seen, self.source)
            if seen[self.source].write == "ok":
                self._written_s = self._read_now_s()
                if self.acts and not self._took_write:
                    self._took_write = True
                    self.executor.give_up(self.source)
            self._report_slow_fence()
            current_traps = self._report_traps(seen, before)
            if self.report is not None:
                self.report(seen, current_traps, self.proof)
            if why and self.acts:
                outcome = self._fail_over(why, seen)
                if outcome is None:
                    stop.wait(self.every_s)
                    continue
                done.append(outcome)
                self.source, self.proof, self.events = outcome.elected or self.source, None, None
                self._suspicion, self._took_write, self._written_s = Suspicion(), False, None
                self._pause_looked_s = 0.0
                before = None
                continue
            self._report_reason(why, seen)
            before = seen
            every_s = self.every_s if self._suspicion.is_empty else SUSPECT_EVERY_S
            stop.wait(max(0.0, every_s - (self._read_now_s() - began)))
        return done

    def _fail_over(self, why: str, seen: Members) -> Outcome | None:
        """Fails over and returns the outcome; None if another watcher acts."""
        try:
            if self._repeated is None:
                self.say(why)
            outcome = self.act(why, seen)
        except LeaseTaken as error:
            self._report_state(f"left to another: {error.rule}")
            return None
        self._repeated = None
        return outcome

    def _report_reason(self, why: str, seen: Members) -> None:
        """Reports why a failover is due (`why`), now and then, if the watcher does not act, and
        when the source answers again. The proof is handed over first."""
        if why:
            if self._repeated is None:
                self._hand_over(seen)
            self._report_state(why)
        elif self._repeated is not None and self._suspicion.is_empty:
            self._repeated = None
            self.say(f"{self.source} answers again")

    def _report_state(self, text: str) -> None:
        """Reports a lasting state when it changes, and again after STILL_S seconds."""
        kind, now = re.split(r"[(:]", text)[0], self._read_now_s()
        if self._repeated is None or self._repeated[0] != kind:
            self.say(text)
        elif now - self._repeated[1] >= STILL_S:
            self.say(f"still: {text}")
        else:
            return
        self._repeated = (kind, now)

    def _report_pause(self) -> None:
        """Reports the begin and the end of the pause after a failover, in which it does not act."""
        now_s = self._read_now_s()
        if self._pause_looked_s and (self._pause_until is None or now_s - self._pause_looked_s < PAUSE_LOOK_S):
            return
        self._pause_looked_s = now_s
        until = self._find_pause_end()
        if until is not None and self._pause_until is None:
            last = format_clock(until - FLAP_S)
            self.say(
                f"no failover before {format_clock(until)}: the last was at {last}, and one in {FLAP_S:g} s is enough. When you"
                " have looked at it, headrace failover status --acknowledge ends the pause"
            )
        elif until is None and self._pause_until is not None:
            self.say("the pause is over: it fails over again")
        self._pause_until = until

    def _find_pause_end(self) -> float | None:
        """Returns until when it does not act by itself, Unix seconds; None if it does. An
        unfinished failover is resumed all the same."""
        history = self.executor.journal.read()
        last, now = history.failed_over_at, self.executor.surroundings.read_unix_s()
        if last is None or now - last >= FLAP_S or history.progress is not None:
            return None
        return last + FLAP_S

    def _hand_over(self, seen: Members) -> None:
        """Writes the proof that semi-sync worked into the journal, for a failover by hand."""
        if self.proof is None:
            return
        replicas = {name: member for name, member in seen.items() if name != self.source}
        received = {name: str(collect_gtids(member)) for name, member in replicas.items() if member.state is not None}
        with contextlib.suppress(CouldNotRun), self.executor.journal.lock():
            boot = self.executor.surroundings.read_boot()
            self.executor.journal.write(HandedOver(self.source, self.proof, self.events, received, boot))

    def look(self) -> tuple[Members, str]:
        """Observes once; returns the members, and the reason to fail over, "" for none."""
        write_s = self._suspicion.compute_write_s(self._read_now_s())
        if not self._suspicion.is_empty and self.acts:
            self.executor.warm(self.source)
        seen, proof = self.executor.observer.probe_source(self.source, write_s, not self._suspicion.is_empty)
        self.events = seen[self.source].events if seen[self.source].events is not None else self.events
        if proof is not None:
            self.proof = proof
        elif self.proof is not None:
            self.proof = carry_proof(self.proof, seen)
        why = self._suspicion.add_observation(seen, self.source, self._read_now_s())
        if why and seen[self.source].write == "full":
            seen = {**seen, self.source: replace(seen[self.source], write="stalled")}
        return seen, why

    def act(self, why: str, seen: Members | None = None) -> Outcome:
        """Fails over because of `why`, and returns the outcome. `seen`: the observation that gave
        the reason. Raises CouldNotRun during the pause after an earlier failover."""
        if (until := self._find_pause_end()) is not None:
            self._hand_over(seen or {})
            ago = self.executor.surroundings.read_unix_s() - (until - FLAP_S)
            rule = f"failed over by itself {ago:,.0f} s ago, and once in {FLAP_S:g} s is enough: {why}"
            hint = (
                f"Look at it, then: headrace failover run --from {self.source}, which knows what this watch saw; or "
                "headrace failover status --acknowledge, and watch again."
            )
            raise refuse.run(self.source, rule, hint)
        with self.executor.journal.lock():
            self.executor.journal.write(Detected(why))
        wish = replace(self.wish, source=self.source)
        return self.executor.run(wish, "watch", seen, self.proof, self.events, self._written_s)

    def _report_slow_fence(self) -> None:
        """Reports once if a fence takes longer than the source waits: it would be refused."""
        takes_s = self.executor.hosts[self.source].fence_s
        proof, wish = self.proof, self.wish
        if proof is None or proof.timeout_s > takes_s or wish.accept_loss or wish.rescue or self._slow_fence_reported:
            return
        self._slow_fence_reported = True
        self.say(
            f"{self.source} acknowledges alone after {proof.timeout_s:g} s without replicas (semi-sync timeout), and "
            f"its fence takes some {takes_s:g} s: a failover would be refused. Raise the timeout, or add --rescue "
            "or --accept-loss"
        )

    def _report_traps(self, seen: Members, before: Members | None) -> list[Trap]:
        """Reports each trap when it appears and when it has gone, and returns the present ones.
        While a server, or the source, does not answer, its traps count as present."""
        current_traps = list_traps(seen, seen[self.source], before)
        keys = {(trap.server, trap.name) for trap in current_traps}
        silent = {name for name, member in seen.items() if member.state is None}
        keys |= {key for key in self._reported_traps if self.source in silent or key[0] in silent}
        for trap in current_traps:
            if (trap.server, trap.name) not in self._reported_traps:
                self.say(f"{trap.kind}: {trap.server}: {trap.what}. {trap.do}")
        for server, name in sorted(self._reported_traps - keys):
            self.say(f"over: {server}: {name}")
        self._reported_traps = keys
        return current_traps
