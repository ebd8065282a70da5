"""Carries out failovers and switchovers: begins or resumes them by the journal, one at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace.base.signals import ignore_interrupts
from headrace.errors import CouldNotRun
from headrace.mysql.gtid import GtidSet
from headrace.servers.failover.changes import receive_again
from headrace.servers.failover.hosts import AddressHost, ConnectionPool, translate_errors
from headrace.servers.failover.interruption import describe_change
from headrace.servers.failover.journal import Journal
from headrace.servers.failover.lease import Lease
from headrace.servers.failover.observer import Observer
from headrace.servers.failover.planning.dry_run import DryRun, build_dry_run
from headrace.servers.failover.planning.election import collect_gtids
from headrace.servers.failover.planning.guarantee import carry_proof
from headrace.servers.failover.planning.members import AckProof, FailoverWish, Members, Outcome, make_refusal_error
from headrace.servers.failover.planning.progress import Began, GivenUp, HandedOver, Progress, Scheduled
from headrace.servers.failover.run import ChangeRun, find_excluded
from headrace.servers.failover.surroundings import Surroundings

# Longest wait for a replica to apply what it received, s: an hour of backlog. It is told meanwhile.
DRAIN_S = 3_600.0
# Longest time that the source of a switchover stays read-only until the replica has the rest, s (a
# guess: clients wait that long, and a replica that was near needs a fraction of a second).
MAX_WAIT_S = 10.0

Say = Callable[[str], None]


def discard_message(text: str) -> None:
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
    say: Say = discard_message
    drain_s: float = DRAIN_S
    max_wait_s: float = MAX_WAIT_S

    def __post_init__(self) -> None:
        self.pool = ConnectionPool(self.surroundings)

    @property
    def hosts(self) -> Mapping[str, AddressHost]:
        return self.observer.hosts

    @property
    def surroundings(self) -> Surroundings:
        return self.observer.surroundings

    def close(self) -> None:
        """Closes its connections."""
        self.lease.release()
        self.pool.close()
        self.observer.close()
        self.journal.close()

    def warm(self, source: str) -> None:
        """Connects to the replicas in advance of a failover."""
        others = [host for name, host in self.hosts.items() if name != source]
        self.pool.warm(others)
        self.lease.warm(others)

    def preview_run(self, wish: FailoverWish) -> DryRun:
        """Returns every step that `run` would take, and the servers after them. It changes nothing
        but a row of Headrace's own table, which shows whether the source takes writes."""
        history = self.journal.read()
        if wish.kind == "failover":
            seen, _ = self.observer.probe_source(wish.source)
        else:
            seen = self.observer.look()
        if self._is_outdated(wish, seen):
            history = history.add_event(self.surroundings.read_unix_s(), GivenUp())
        began = self._make_beginning(wish, "user", seen)
        progress = history.add_event(self.surroundings.read_unix_s(), began).progress
        assert progress is not None
        return build_dry_run(seen, progress, self.surroundings.read_now_s())

    def check_foreseen(self, wish: FailoverWish, foreseen: DryRun) -> None:
        """Raises CouldNotRun if a dry run ends in a refusal. If the source is alive, an unfinished
        failover from it is given up first: its replicas receive again."""
        if foreseen.plan.refusal:
            source = foreseen.members.get(wish.source)
            if wish.kind == "failover" and source is not None and source.write in ("ok", "blocked"):
                self.give_up(wish.source)
            raise make_refusal_error(foreseen.plan, wish.source)

    def run(
        self,
        wish: FailoverWish,
        by: str = "user",
        seen: Members | None = None,
        proof: AckProof | None = None,
        events: Scheduled | None = None,
        written_s: float | None = None,
    ) -> Outcome:
        """Carries out the change, or raises an error with the reason; the journal has what was
        done, and the same command resumes it. `seen`: servers that were observed just now; `proof`,
        `events`: the source's semi-sync and events as they were seen before; `written_s`: when it
        was last seen to take a write, on the monotonic clock. Raises CouldNotRun, InputError."""
        with self.journal.lock():
            unfinished, stopped = self.journal.history.progress, frozenset[str]()
            outdated = self._is_outdated(wish, seen)
            if unfinished is not None and unfinished.is_same(wish) and not outdated:
                self.say(f"going on with the {wish.kind} that {unfinished.by} began")
            self.lease.take(find_excluded(Progress(wish)))
            try:
                if unfinished is not None and outdated:
                    # Replicas that it stopped are this run's, which may elect nobody.
                    stopped = unfinished.stopped
                    self.journal.write(GivenUp())
                began = self._make_beginning(wish, by, seen, proof, events, written_s)
                self.journal.write(msgspec.structs.replace(began, stopped=stopped))
                with translate_errors(wish.source):
                    return ChangeRun(self).carry_out(seen)
            finally:
                self.lease.release()

    def _is_outdated(self, wish: FailoverWish, seen: Members | None) -> bool:
        """Returns whether the unfinished change of the journal is outdated."""
        history = self.journal.history
        age_s = max(0.0, self.surroundings.read_unix_s() - history.last_at)
        return history.progress is not None and history.progress.is_outdated(wish, seen, age_s)

    def _make_beginning(
        self,
        wish: FailoverWish,
        by: str,
        seen: Members | None,
        proof: AckProof | None = None,
        events: Scheduled | None = None,
        written_s: float | None = None,
    ) -> Began:
        """Returns the event with which a change begins, or is resumed; it is not written. The proof
        that a watch has handed over is added, if it is still valid."""
        boot, progress = self.surroundings.read_boot(), self.journal.history.progress
        resumed = None if progress is None or not progress.is_same(wish) else progress.adapt_to_boot(boot)
        fresh = resumed is None or (resumed.proof is None and resumed.decision is None)
        handed = self.journal.history.find_handed_over(wish.source, self.surroundings.read_unix_s(), boot)
        if handed is not None and wish.kind == "failover" and proof is None and fresh:
            members = seen or self.observer.look()
            if self._is_still_valid(handed, members):
                proof, events = carry_proof(handed.proof, members), events or handed.events
        return Began(wish, by, boot, proof, events, written_s)

    def _is_still_valid(self, handed: HandedOver, seen: Members) -> bool:
        """Returns whether no replica has received more since a watch handed over its
        observations."""
        for name, text in handed.received.items():
            member = seen.get(name)
            if member is None or member.state is None:
                continue
            if not GtidSet.parse(text, member.state.flavor).contains(collect_gtids(member)):
                source = handed.source
                self.say(f"{name} has received more since {source} was watched: what was seen then does not count")
                return False
        self.say(f"a watch saw semi-sync at work until {handed.source} died: that counts")
        return True

    def describe_interruption(self, wish: FailoverWish) -> str:
        """Returns the state after an interrupted run, in words, by the servers and the journal."""
        with ignore_interrupts():
            earlier = self.journal.read_unfinished()
            unfinished = earlier is not None and earlier.is_same(wish)
            return describe_change(self.observer.look(), wish.source, unfinished)

    def give_up(self, source: str) -> None:
        """Ends an unfinished failover without election in the journal, as its source takes writes
        again, and lets its replicas receive again."""
        progress = self.journal.read().progress
        if progress is None or not progress.is_same(FailoverWish(source)) or progress.decision is not None:
            return
        with contextlib.suppress(CouldNotRun), self.journal.lock():
            receive_again(self.pool, self.hosts, progress.stopped, self.say, progress.rescuing)
            self.journal.write(GivenUp())
