"""Records a failover or switchover: the events of its journal, and their fold.

    JournalEvent   a fact, written to the journal when it becomes one
    Progress       all that is known of a change that began: the fold of its events
    JournalHistory the fold of a whole journal: the unfinished change, and what outlives changes

There is no other memory: a run that was cut off anywhere is resumed by reading the journal.
Moments (`*_s`) are on the monotonic clock of one boot of the machine; `boot` says of which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from headrace.mysql.gtid import GtidSet
from headrace.servers.failover.planning.members import (
    AckProof,
    Action,
    FailoverStep,
    FailoverWish,
    Members,
    Outcome,
    ScheduledEvent,
)

# A failover that elected nobody and was left alone for so long, s, is not resumed: what it saw and
# fenced may have been started since. A guess.
STALE_S = 600.0

Scheduled = tuple[ScheduledEvent, ...]


class JournalEvent(msgspec.Struct, frozen=True, tag=True, tag_field="event", omit_defaults=True):
    """A fact about a change. The name of its class is its tag in the journal."""


class Detected(JournalEvent, frozen=True):
    """A watch has seen a reason to fail over."""

    why: str


class HandedOver(JournalEvent, frozen=True):
    """The observations of a watch before its source died, for a failover by hand. `received`: what
    each replica had received then, as text: if one has more by now, the source was alive
    afterwards."""

    source: str
    proof: AckProof
    events: Scheduled | None
    received: dict[str, str]
    boot: str


class Acknowledged(JournalEvent, frozen=True):
    """A person has looked at the last failover."""


class Began(JournalEvent, frozen=True):
    """A change began, or was resumed. `proof`, `events`, `written_s`: as the caller saw them.
    `stopped`: replicas whose receiving an outdated change has stopped."""

    wish: FailoverWish
    by: str
    boot: str
    proof: AckProof | None = None
    events: Scheduled | None = None
    written_s: float | None = None
    stopped: frozenset[str] = frozenset()


class Proved(JournalEvent, frozen=True):
    """The proof of semi-sync, with the replicas that have kept what they received; None: the source
    was seen with its semi-sync at rest since."""

    proof: AckProof | None


class SawEvents(JournalEvent, frozen=True):
    """The events that the old source's scheduler ran."""

    events: Scheduled


class StepBegan(JournalEvent, frozen=True):
    """A step begins; on the servers it may have been done from now on."""

    step: FailoverStep


class StepDone(JournalEvent, frozen=True):
    """A step was carried out, within `seconds`."""

    step: FailoverStep
    seconds: float


class StepFailed(JournalEvent, frozen=True):
    """A step failed. `subject`: the server, file or setting that `error` speaks of."""

    step: FailoverStep
    subject: str
    error: str


class Fenced(JournalEvent, frozen=True):
    """The old source was ended. `how`: in words."""

    server: str
    how: str
    at_s: float


class WritesClosing(JournalEvent, frozen=True):
    """The writes of a switchover's source are about to be stopped, for `target` to take over.
    `silenced`: its event scheduler is switched off for that."""

    server: str
    target: str
    silenced: bool


class WritesClosed(JournalEvent, frozen=True):
    """A switchover's source stopped its writes at `at_s` with `gtids` executed, in `seconds`."""

    gtids: GtidSet
    at_s: float
    seconds: float


class Published(JournalEvent, frozen=True):
    """Clients were told of the new source, `seconds` after the writes had stopped."""

    seconds: float


class Reopened(JournalEvent, frozen=True):
    """The source of a switchover takes writes again, or is the source no more."""


class Elected(JournalEvent, frozen=True):
    """A server was elected; nobody else may be chosen. `had`: its GTIDs, if acknowledged commits
    may be missing there, else None."""

    server: str
    had: GtidSet | None
    lossless: bool
    uncertain: tuple[str, ...] = ()
    missing: str = ""
    gives_up: str = ""
    left_out: dict[str, str] = {}


class Rescued(JournalEvent, frozen=True):
    """The rest of the old source's binary log was applied."""

    transactions: int


class Listed(JournalEvent, frozen=True):
    """The transactions that the new source lacks were written to a file."""

    count: int
    ranges: str
    path: str


class Hurried(JournalEvent, frozen=True):
    """A replica flushes less until it has applied. `settings`: what it had before."""

    server: str
    settings: dict[str, int]


class Unhurried(JournalEvent, frozen=True):
    """A hurried server has its settings of before again, and has flushed everything."""

    server: str


class SettingsPostponed(JournalEvent, frozen=True):
    """Settings for a server's later starts, which are stored when clients wait no more. It is
    written before the server is changed."""

    server: str
    settings: dict[str, str]


class SettingsStored(JournalEvent, frozen=True):
    """All postponed settings are stored."""


class Noted(JournalEvent, frozen=True):
    """A count for people who read the journal: transactions that a server lacks, and the time that
    it needs for them, s."""

    what: str
    server: str
    count: int
    seconds: float | None = None


class PlanRefused(JournalEvent, frozen=True):
    """The planner refused to go on; `rule`: why."""

    rule: str


class GivenUp(JournalEvent, frozen=True):
    """A change ended without a new source."""


class Finished(JournalEvent, frozen=True):
    """A change ended."""

    outcome: Outcome


AnyEvent = (
    Detected
    | HandedOver
    | Acknowledged
    | Began
    | Proved
    | SawEvents
    | StepBegan
    | StepDone
    | StepFailed
    | Fenced
    | WritesClosing
    | WritesClosed
    | Published
    | Reopened
    | Elected
    | Rescued
    | Listed
    | Hurried
    | Unhurried
    | SettingsPostponed
    | SettingsStored
    | Noted
    | PlanRefused
    | GivenUp
    | Finished
)


@dataclass(frozen=True)
class Preparation:
    """A switchover before its election. `chosen`: the server that is to take over; `moved`:
    replicas that may follow it already, `stay`: those that could not; `roles`: servers that got the
    source's role of semi-sync."""

    chosen: str | None = None
    moved: tuple[str, ...] = ()
    stay: tuple[str, ...] = ()
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class WritesPause:
    """The time in which a switchover keeps writes out. `closed`: the source was made read-only, or
    is about to be; `silenced`: its event scheduler was switched off for that. `target`, `at_s`:
    what it had executed then, and when that was. `seconds`: until clients were told of the new
    source, None before; `parts`: of that time, s, by step."""

    closed: bool = False
    silenced: bool = False
    target: GtidSet | None = None
    at_s: float | None = None
    seconds: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """A change that began: what the user asks (`wish`), and what has become of it. `written_s`:
    when the old source was last seen to take a write; `fenced_s`: when it was fenced. `decision`:
    the election. `failed`: in this run, steps that a change goes on without, with the reasons.
    `stopped`: replicas whose receiving was stopped before the election; `rescuing`: those whose
    appliers a rescue may have stopped. `prepared`, `pause`: of a switchover. `postponed`: settings
    of servers that are not stored yet."""

    wish: FailoverWish
    by: str = ""
    boot: str = ""
    proof: AckProof | None = None
    events: Scheduled | None = None
    written_s: float | None = None
    fenced_s: float | None = None
    decision: Elected | None = None
    rescued: int | None = None
    lost: Listed | None = None
    enabled: int | None = None
    clients_updated: bool = False
    failed: Mapping[str, str] = field(default_factory=dict)
    stopped: frozenset[str] = frozenset()
    rescuing: frozenset[str] = frozenset()
    prepared: Preparation = Preparation()
    pause: WritesPause = WritesPause()
    postponed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The old source."""
        return self.wish.source

    @property
    def kind(self) -> str:
        """failover or switchover."""
        return self.wish.kind

    @property
    def elected(self) -> str | None:
        """The server that takes over; None before the election."""
        return None if self.decision is None else self.decision.server

    @property
    def had(self) -> GtidSet | None:
        """The transactions of the elected server, if acknowledged commits may be missing there,
        else None."""
        return None if self.decision is None else self.decision.had

    @property
    def sure(self) -> tuple[bool, tuple[str, ...]] | None:
        """True if the elected server had all acknowledged commits, and the reasons for a doubt;
        None before the election."""
        return None if self.decision is None else (self.decision.lossless, self.decision.uncertain)

    @property
    def is_fenced(self) -> bool:
        """True if the old source was ended, by this change or, as the user asserts, by hand."""
        return self.fenced_s is not None or self.wish.by_hand

    def is_settled(self, action: Action) -> bool:
        """Returns whether a step after the promotion was carried out, or failed in this run."""
        done = {"clients": self.clients_updated, "events": self.enabled is not None, "list-lost": self.lost is not None}
        return done[action] or action in self.failed

    @property
    def candidate(self) -> str | None:
        """The server that is to take over, by the user or by what was prepared; None for any."""
        return self.prepared.chosen or self.wish.target

    def is_same(self, wish: FailoverWish) -> bool:
        """Returns whether a call resumes this change: the same change of the same source."""
        return (self.source, self.kind) == (wish.source, wish.kind)

    def is_outdated(self, wish: FailoverWish, seen: Members | None, age_s: float) -> bool:
        """Returns whether a failover that elected nobody is outdated, and with it fence and proof:
        its last event is older than STALE_S (`age_s`), or its source takes writes."""
        if self.kind != "failover" or self.source != wish.source or self.decision is not None:
            return False
        source = seen.get(wish.source) if seen is not None else None
        return age_s > STALE_S or (source is not None and source.write == "ok")

    def adapt_to_boot(self, boot: str) -> Progress:
        """Returns the progress for a boot of the machine: without moments of another's clock."""
        if boot == self.boot:
            return self
        return replace(self, boot=boot, proof=None, written_s=None, fenced_s=None, pause=replace(self.pause, at_s=None))

    def add_event(self, event: AnyEvent) -> Progress:
        """Returns the progress with the facts of an event."""
        match event:
            case Began():
                return self._resume(event)
            case Proved():
                return self._add_proof(event.proof)
            case SawEvents():
                return replace(self, events=event.events)
            case StepBegan():
                return self._add_begun_step(event.step)
            case StepDone():
                return self._add_finished_step(event.step, event.seconds)
            case StepFailed(step=FailoverStep(action="repoint-early")):
                stay = _add_name(self.prepared.stay, event.step.server)
                return replace(self, prepared=replace(self.prepared, stay=stay))
            case StepFailed():
                return replace(self, failed={**self.failed, event.step.action: event.error})
            case Fenced():
                return replace(self, fenced_s=event.at_s)
            case WritesClosing():
                # Others may follow the chosen server from now on, so it is chosen again.
                silenced = self.pause.silenced or event.silenced
                pause = replace(self.pause, closed=True, silenced=silenced)
                return replace(self, pause=pause, prepared=replace(self.prepared, chosen=event.target))
            case WritesClosed():
                parts = {"read-only": event.seconds}
                return replace(self, pause=replace(self.pause, target=event.gtids, at_s=event.at_s, parts=parts))
            case Published():
                parts = self.pause.parts
                parts = {**parts, "between": max(0.0, event.seconds - sum(parts.values()))}
                return replace(self, pause=replace(self.pause, seconds=event.seconds, parts=parts))
            case Reopened():
                pause = replace(self.pause, closed=False, silenced=False, target=None)
                return replace(self, pause=pause, prepared=replace(self.prepared, roles=frozenset()), postponed={})
            case SettingsPostponed():
                settings = {**self.postponed.get(event.server, {}), **event.settings}
                return replace(self, postponed={**self.postponed, event.server: settings})
            case SettingsStored():
                return replace(self, postponed={})
            case Elected():
                return replace(self, decision=event)
            case Rescued():
                return replace(self, rescued=event.transactions)
            case Listed():
                return replace(self, lost=event)
        return self

    def _resume(self, event: Began) -> Progress:
        """Returns the progress with the begin, or a resumption, of its change: the wish of that
        call counts, and steps that failed are tried again."""
        earlier, prepared = self.adapt_to_boot(event.boot), self.prepared
        after = replace(
            earlier,
            wish=event.wish,
            by=event.by,
            events=earlier.events if earlier.events is not None else event.events,
            written_s=event.written_s if event.written_s is not None else earlier.written_s,
            failed={},
            stopped=earlier.stopped | event.stopped,
            prepared=replace(prepared, stay=(), chosen=None if event.wish.target else prepared.chosen),
        )
        return after if event.proof is None else after._add_proof(event.proof)

    def _add_proof(self, proof: AckProof | None) -> Progress:
        """Returns the progress with a proof, None for one that ended. A fence before the proof does
        not count any more, as the source was seen at work after it."""
        undone = proof is not None and self.fenced_s is not None and self.fenced_s < proof.at_s
        undone = undone and self.decision is None
        return replace(self, proof=proof, fenced_s=None if undone else self.fenced_s)

    def _add_begun_step(self, step: FailoverStep) -> Progress:
        """Returns the progress with a begun step. It notes the servers whose threads, role or
        source the step may have changed, for a run that resumes or undoes it."""
        prepared = self.prepared
        match step.action:
            case "rescue":
                return replace(self, rescuing=self.rescuing | {step.server})
            case "stop-receive" if self.decision is None:
                return replace(self, stopped=self.stopped | {step.server})
            case "semi-sync-source-on" if self.decision is None:
                return replace(self, prepared=replace(prepared, roles=prepared.roles | {step.server}))
            case "repoint-early":
                moved = _add_name(prepared.moved, step.server)
                return replace(self, prepared=replace(prepared, moved=moved, chosen=step.to))
            case "repoint" if self.kind == "switchover" and self.decision is None:
                return replace(self, prepared=replace(prepared, moved=_add_name(prepared.moved, step.server)))
        return self

    def _add_finished_step(self, step: FailoverStep, seconds: float) -> Progress:
        """Returns the progress with a finished step, which took `seconds`. While the writes are
        closed they are a part of the pause; of a step on several servers the longest counts."""
        after = self
        if self.pause.target is not None and not self.clients_updated and step.action != "read-only":
            longest = max(self.pause.parts.get(step.action, 0.0), seconds)  # servers do it side by side
            after = replace(self, pause=replace(self.pause, parts={**self.pause.parts, step.action: longest}))
        match step.action:
            case "clients":
                return replace(after, clients_updated=True)
            case "events":
                return replace(after, enabled=step.count)
        return after


def _add_name(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)


@dataclass(frozen=True)
class JournalHistory:
    """The fold of a journal; moments are Unix seconds. `progress`: of the change that began and did
    not end; `last_at`: when its last event happened. `failed_over_at`: when a watch last failed
    over, up to an election; None after a person has acknowledged that. `handed`: by source, what a
    watch handed over, and when; it ends at an election or a sign of life. `hurried`: settings of
    servers that flush less for now. `ended`: by source, when the last failover from it ended, and
    whether no acknowledged commit is missing since."""

    progress: Progress | None = None
    last_at: float = 0.0
    began_at: float = 0.0
    failed_over_at: float | None = None
    handed: Mapping[str, tuple[float, HandedOver]] = field(default_factory=dict)
    hurried: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ended: Mapping[str, tuple[float, bool]] = field(default_factory=dict)

    def add_event(self, at: float, event: AnyEvent) -> JournalHistory:
        """Returns the history after an event. `at`: when it happened, Unix time, s."""
        match event:
            case Detected():
                return self  # written in a new run, before an unfinished change is looked for
            case Acknowledged():
                return replace(self, failed_over_at=None)
            case HandedOver():
                return replace(self, handed={**self.handed, event.source: (at, event)})
            case Began():
                return replace(self, last_at=at, began_at=at, progress=self._add_begun_change(event))
            case Elected():
                by_watch = self.progress is not None and self.progress.by == "watch"
                failed_over_at = self.began_at if by_watch else self.failed_over_at
                history = replace(self, handed={}, failed_over_at=failed_over_at)
            case Finished():
                ended = self.ended
                if self.progress is not None and self.progress.kind == "failover":
                    ended = {**ended, self.progress.source: (at, event.outcome.lossless)}
                return replace(self, progress=None, ended=ended)
            case GivenUp():
                return replace(self, progress=None, handed={})
            case Hurried():
                history = replace(self, hurried={**self.hurried, event.server: event.settings})
            case Unhurried():
                hurried = {key: each for key, each in self.hurried.items() if key != event.server}
                history = replace(self, hurried=hurried)
            case _:
                history = self
        progress = None if self.progress is None else self.progress.add_event(event)
        return replace(history, last_at=at, progress=progress)

    def _add_begun_change(self, event: Began) -> Progress:
        """Returns the progress with a change that begins, or is resumed."""
        earlier = self.progress
        if earlier is None or not earlier.is_same(event.wish):
            earlier = Progress(event.wish, boot=event.boot)
        return earlier.add_event(event)

    def find_handed_over(self, source: str, at: float, boot: str) -> HandedOver | None:
        """Returns what a watch of this source handed over at most STALE_S seconds before `at` (Unix
        time, s) on this boot; None for nothing."""
        handed_at, event = self.handed.get(source, (0.0, None))
        valid = event is not None and event.boot == boot and at - handed_at <= STALE_S
        return event if valid else None
