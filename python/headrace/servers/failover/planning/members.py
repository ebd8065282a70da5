"""The values of failover planning: observations, wishes, and steps.

    Seen      the observation of a server, or the fact that it did not answer
    AckProof     the last moment at which semi-sync was seen to work
    FailoverWish      what the user (or the watcher) asks
    FailoverStep      an action on a server; FailoverPlan: all steps, or a refusal
    Guarantee the current guarantee
    Outcome   the result of a run

All are plain values: a plan can be made, tested and printed without a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.base.encoding import Document
from headrace.base.packaged import read_rows
from headrace.errors import CouldNotRun, Refusals
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import Channel, ServerState

refuse = Refusals("docs/guide/failover.md")
NAMED = "Name each server by the address that its replicas have for it, and leave out those that follow another."
ONE_CLUSTER = "Name the servers of one cluster alone."

# A fallback to async that comes after this is taken to come never, s. MySQL's largest timeout is
# 2^32 ms, 49 days; MariaDB's 2^64 ms. A day is longer than anybody leaves a dead source alone.
NEVER_S = 86_400.0

Write = Literal["ok", "stalled", "refused", "blocked", "full", "untried"]
Fence = Literal["none", "possible", "done"]
ChangeKind = Literal["failover", "switchover"]


# The uptime of a server is in whole seconds, and an answer takes a moment (a guess).
START_JITTER_S = 3.0
# The answers of an observation take up to this long on a busy machine (a guess).
LONGEST_ANSWERS_S = 30.0


@dataclass(frozen=True)
class ThreadRun:
    """The threads of a replica, which show whether its relay log can have been deleted since.
    `start_s`: when the server started, on the watcher's monotonic clock, late by the time that its
    answers took. `uptime_s`: how long it had run when it was observed. `receiver`, `applier`: ids
    of the threads, 0 for a thread that does not run."""

    start_s: float = 0.0
    uptime_s: float = 0.0
    receiver: int = 0
    applier: int = 0

    @property
    def is_settled(self) -> bool:
        """True if a later start differs from this one: it had run for twice the jitter."""
        return self.uptime_s >= 2 * START_JITTER_S

    def is_unbroken(self, since: ThreadRun, keeps_relay_log: bool) -> bool:
        """Returns whether everything that was received at `since` still exists. A MariaDB with GTID
        loses its relay log when one of its threads is started while none runs: a thread with the
        same number has run all the time."""
        # The observation `since` ended at its `start_s` + `uptime_s`, and a restart comes after it.
        # A start that was before that is the same start, which slow answers make look later.
        latest = min(LONGEST_ANSWERS_S, since.uptime_s - START_JITTER_S)
        if not since.is_settled or not -LONGEST_ANSWERS_S <= self.start_s - since.start_s <= latest:
            return False
        same = (self.receiver and self.receiver == since.receiver) or (self.applier and self.applier == since.applier)
        return keeps_relay_log or bool(same)


@dataclass(frozen=True)
class ScheduledEvent:
    """An event that runs on a source. A replica has it as SLAVESIDE_DISABLED, whether it is enabled
    on the source or not, so the source's events are noted beforehand."""

    schema: str
    name: str
    definer: str


@dataclass(frozen=True)
class Seen:
    """The observation of a server. `host`, `port`: as the other servers reach it. `state`: None, it
    did not answer, and `error` says why. `write`: result of the write probe (ok; stalled: no answer
    within the deadline; refused: an error; blocked: it waits for replicas or for a lock, which
    failover does not fix; full: no connection is left for the probe; untried). `run`: shows whether
    a relay log can have been deleted. `wrote`: MariaDB alone, the last sequence number of each
    (domain, server) in its binary log: two positions do not show whether two histories have
    diverged. `fence`: whether its process or volume can be taken away from here. `volume`: its
    volume can be read elsewhere; `log_flushed`: its binary log there has every commit that it
    acknowledged, as it flushed each (sync_binlog = 1) when it answered last, or by the settings of
    its start. `deaf`: its receive thread runs and has had no sign of life of its source for some
    heartbeats. `waited_s`: how long the write probe went without an answer. `events`: of a source,
    those that its scheduler runs; None: not asked. `purged`: executed, and cannot be sent to a
    replica; None: not known, as on MariaDB, where the question takes a lock that commits hold."""

    name: str
    host: str = ""
    port: int = 0
    state: ServerState | None = None
    error: str = ""
    write: Write = "untried"
    run: ThreadRun = ThreadRun()
    wrote: Mapping[tuple[int, int], int] = field(default_factory=dict)
    fence: Fence = "none"
    volume: bool = False
    log_flushed: bool = False
    deaf: bool = False
    waited_s: float = 0.0
    events: tuple[ScheduledEvent, ...] | None = None
    purged: GtidSet | None = None

    @property
    def place(self) -> tuple[str, int]:
        """Host and port, as the channels of the other servers have them."""
        return self.host, self.port

    @property
    def channel(self) -> Channel | None:
        """Channel of a replica with one; None if it has none or several."""
        channels = self.state.channels if self.state else ()
        return channels[0] if len(channels) == 1 else None


Members = Mapping[str, Seen]


@dataclass(frozen=True)
class AckProof:
    """The last moment at which the source's semi-sync was seen to work. A write that began at
    `at_s` (a monotonic clock) was acknowledged while the status was ON. So every commit
    acknowledged before has been received by `wait_count` replicas, and the source cannot have given
    up waiting before `at_s + timeout_s`. `ackers`: replicas that can acknowledge, whether they took
    part then or not; `clients`: how many the source counted; `runs`: of each replica, carried on
    while no relay log can have been thrown away."""

    source: str
    at_s: float
    timeout_s: float
    wait_count: int
    ackers: frozenset[str]
    clients: int
    runs: Mapping[str, ThreadRun]

    @property
    def needed(self) -> int:
        """The number of ackers that must be reached, so that every set of `wait_count` includes one
        of them; the same number keeps the source from a further acknowledgement."""
        return max(len(self.ackers), self.clients) - self.wait_count + 1


@dataclass(frozen=True)
class FailoverWish:
    """Settings of a change, as the user asks for it. `target`: who is to take over. `by_hand`: the
    user says that the old source is dead and stays so. `accept_loss`: promote although acknowledged
    commits may be missing. `errant`: what becomes of transactions that one replica alone wrote.
    `rescue`: read the rest from the dead source's volume. `alone`: what to do when no replica is
    left to acknowledge."""

    source: str
    kind: ChangeKind = "failover"
    target: str | None = None
    by_hand: bool = False
    accept_loss: bool = False
    allow_delayed: bool = False
    errant: Literal["refuse", "inject", "leave"] = "refuse"
    rescue: bool = False
    alone: Literal["serve", "refuse"] = "serve"


Action = Literal[
    "fence",
    "start-apply",
    "stop-receive",
    "wait-near",
    "read-only",
    "wait-applied",
    "rescue",
    "inject",
    "leave-source",
    "semi-sync-replica-off",
    "semi-sync-source-off",
    "semi-sync-source-on",
    "semi-sync-replica-on",
    "writable",
    "keep-role",
    "clients",
    "events",
    "list-lost",
    "repoint",
    "repoint-early",
]


# Descriptions of the steps for people: by action, with its server and the other one.
STEP_WORDS = {row["action"]: row["words"] for row in read_rows("headrace.servers.failover.planning", "steps.csv")}


@dataclass(frozen=True)
class FailoverStep(Document):
    """An action on a server. Every step may be repeated: it asks for a state, not for a change.
    `stage`: the executor looks at all servers again before it begins the next one. `gtid`: what to
    wait for, inject or read from, or all that a server to repoint may have; `to`: the other server;
    `count`: acknowledgements to wait for."""

    stage: int
    action: Action
    server: str
    gtid: GtidSet | None = None
    to: str = ""
    count: int = 0
    why: str = ""

    @property
    def words(self) -> str:
        """The step in words."""
        return STEP_WORDS[self.action].format(server=self.server, to=self.to or "its source")


@dataclass(frozen=True)
class Guarantee(Document):
    """The consequence of a loss of the source. `level`: kept, no acknowledged commit is lost as
    long as the `conditions` hold; async, commits may be lost; none, there is no replica to go on
    with. `reasons`: why it is not more."""

    level: Literal["kept", "async", "none"]
    reasons: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()


class KeptDocument(Document):
    """A value whose `lossless` is called `kept` in JSON."""

    def list_entries(self) -> dict[str, object]:
        """Returns its fields by name, `lossless` as `kept`."""
        return {"kept" if name == "lossless" else name: value for name, value in super().list_entries().items()}


@dataclass(frozen=True)
class FailoverPlan(KeptDocument):
    """The steps of a failover, or its refusal. `lossless`: no acknowledged commit can be missing on
    the promoted server. `uncertain`: why one may be. `missing`: observed transactions that will not
    be on it. `left_out`: servers that do not follow, each with the reason. `refusal`: rule and
    hint. `gives_up`: the guarantee that the new source lacks."""

    steps: tuple[FailoverStep, ...] = ()
    elected: str | None = None
    lossless: bool = False
    uncertain: tuple[str, ...] = ()
    missing: str = ""
    errant: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    refusal: str = ""
    hint: str = ""
    guarantee: Guarantee = Guarantee("none")
    gives_up: str = ""

    @property
    def stage(self) -> tuple[FailoverStep, ...]:
        """The steps to do before the servers are looked at again."""
        return tuple(step for step in self.steps if step.stage == self.steps[0].stage)


def make_refusal_error(failover_plan: FailoverPlan, source: str) -> CouldNotRun:
    """Returns the refusal of a plan as an error, with the source's name once."""
    return refuse.run(source, failover_plan.refusal.removeprefix(f"{source} "), failover_plan.hint)


@dataclass
class Outcome(KeptDocument):
    """The result of a failover or switchover. `seconds`: how long the run took, s. `closed_s`: how
    long no server took writes at a switchover, from the statement that stops them to the address
    file; `closed`: its parts, each in s, by step; "between": journal, lease, and what is left.
    `outage_s`: what a client saw, from the last write that the old source took to the first commit
    of a new connection to the new source; None where nobody watched the source when it died, or
    where no commit was answered in time. `gives_up`: which guarantee the new source has not any
    more, "" for none.

    `rescued`: how many transactions were applied from the dead source's volume, None without a
    rescue. `lost`: how many transactions of the dead source's binary log the new source has not;
    None, where none is missing or where nobody can tell. `lost_file` has the GTID of each,
    `lost_gtids` the ranges. `events`: how many the new source runs; `events_left`: those that are
    disabled there, as nobody knows whether the old source ran them. `clients`: why the clients'
    file could not be written, "" where it was.
    """

    elected: str | None
    lossless: bool
    uncertain: tuple[str, ...]
    missing: str
    left_out: Mapping[str, str]
    seconds: float
    outage_s: float | None = None
    closed_s: float | None = None
    closed: Mapping[str, float] = field(default_factory=dict)
    rescued: int | None = None
    lost: int | None = None
    lost_gtids: str = ""
    lost_file: str = ""
    events: int | None = None
    events_left: tuple[str, ...] = ()
    gives_up: str = ""
    clients: str = ""

    def list_entries(self) -> dict[str, object]:
        """Returns its fields by name, with times of milliseconds."""
        times = {"seconds": self.seconds, "outage_s": self.outage_s, "closed_s": self.closed_s}
        rounded = {name: seconds if seconds is None else round(seconds, 3) for name, seconds in times.items()}
        closed = {"closed": {name: round(took, 4) for name, took in self.closed.items()}}
        return super().list_entries() | rounded | closed
