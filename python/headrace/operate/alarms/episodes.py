"""Findings as episodes with hysteresis: raised after a minute, over after three without."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.base.encoding import Document, pick_fields
from headrace.operate.watching.moment import LiveVerdict, Moment

# An episode is raised when its finding has held for this long, and over when it has been away for
# this long, s: a specification.
ON_S, OFF_S = 60.0, 180.0
# Verdicts that raise an episode; the others are only shown.
ALARMING = ("binds", "degraded", "will bind")


@dataclass(frozen=True)
class EpisodeEvent(Document, schema="headrace-episode/1", omitted=("finding", "start_unix", "end_unix")):
    """A report on an episode: that it was `raised`, or that it is `over`. `end_unix`: None while it
    lasts.

    `client_seconds`: what clients waited for I/O in it, summed over clients; None where the server
    is not known.
    """

    event: str
    id: str
    target: str
    finding: LiveVerdict
    start_unix: float
    end_unix: float | None
    client_seconds: float | None

    def list_entries(self) -> dict[str, object]:
        """Returns the event as JSON and as the values of a command: its finding, times as text."""

        def format_time(t_unix: float | None) -> str | None:
            return None if t_unix is None else datetime.fromtimestamp(t_unix, UTC).isoformat(timespec="seconds")

        waited = None if self.client_seconds is None else round(self.client_seconds, 1)
        lasted = None if self.end_unix is None else round(self.end_unix - self.start_unix, 1)
        times = {"start": format_time(self.start_unix), "end": format_time(self.end_unix), "seconds": lasted}
        finding = pick_fields(self.finding, "word", "limit", "where", "text")
        return super().list_entries() | finding | times | {"client_seconds": waited}


@dataclass
class _Course:
    """A finding since it was first seen; an episode once it is `raised`."""

    first: LiveVerdict
    start_unix: float
    last_unix: float
    raised: bool = False
    client_seconds: float | None = None


class Episodes:
    """Finds the episodes in a target's moments."""

    def __init__(self, target: str, on_s: float = ON_S, off_s: float = OFF_S) -> None:
        self.target, self.on_s, self.off_s = target, on_s, off_s
        self._courses: dict[tuple[str, str, str | None], _Course] = {}
        self._last: float | None = None

    def see(self, moment: Moment) -> list[EpisodeEvent]:
        """Takes the next moment, and returns the events to report after it. A gap between moments
        counts neither as the finding nor as its absence."""
        now = moment.t_unix
        elapsed_s = 0.0 if self._last is None else now - self._last
        if elapsed_s < 0:
            self._shift(elapsed_s)
            elapsed_s = 0.0
        elif elapsed_s > 2 * moment.grain_s:
            # Nothing was known for a while: findings that last go on where they were.
            self._shift(elapsed_s - moment.grain_s)
            elapsed_s = moment.grain_s
        self._last = now
        present = {}
        for finding in moment.findings:
            if finding.word in ALARMING:
                present.setdefault((finding.word, finding.where, finding.limit), finding)
        events = []
        for key, finding in present.items():
            course = self._courses.setdefault(key, _Course(finding, now, now))
            course.last_unix = now
            if (cost := compute_waiting_clients(moment)) is not None and elapsed_s:
                course.client_seconds = (course.client_seconds or 0.0) + cost * elapsed_s
            if not course.raised and now - course.start_unix >= self.on_s:
                course.raised = True
                events.append(self._make_event("raised", course, None))
        for key, course in list(self._courses.items()):
            if key in present:
                continue
            if not course.raised:
                del self._courses[key]
            elif now - course.last_unix >= self.off_s:
                del self._courses[key]
                events.append(self._make_event("over", course, course.last_unix))
        return events

    def end(self) -> list[EpisodeEvent]:
        """Ends all episodes, because watching ends, and returns their events."""
        events = [
            self._make_event("over", course, course.last_unix) for course in self._courses.values() if course.raised
        ]
        self._courses.clear()
        return events

    @property
    def lasting(self) -> list[LiveVerdict]:
        """Findings of episodes that were raised and are not over."""
        return [course.first for course in self._courses.values() if course.raised]

    def _shift(self, seconds: float) -> None:
        """Moves findings that last by `seconds`: the clock was set back, or nothing was known. The
        start of an episode that was raised moves back only."""
        for course in self._courses.values():
            course.start_unix += seconds if seconds < 0 or not course.raised else 0.0
            course.last_unix += seconds

    def _make_event(self, event: str, course: _Course, end: float | None) -> EpisodeEvent:
        """Returns the event `raised` or `over` of an episode. `end`: its end in Unix seconds, None
        while it lasts."""
        first = course.first
        parts = (first.word.replace(" ", "-"), first.limit or "", first.where, str(int(course.start_unix)))
        name = ":".join(filter(None, parts))
        return EpisodeEvent(event, name, self.target, first, course.start_unix, end, course.client_seconds)


def compute_waiting_clients(moment: Moment) -> float | None:
    """Returns how many clients wait for I/O, on average of the interval; None where the server or
    its waits are not known."""
    server = moment.server
    if server is None or server.io_wait is None or server.running is None:
        return None
    return server.io_wait * server.running
