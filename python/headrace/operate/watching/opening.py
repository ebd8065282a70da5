"""From a target to its moments: live ones for ever, of a file those that are in it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.observe.live.nvme import NvmePage
from headrace.observe.evidence.live import LiveSource
from headrace.observe.evidence.model import Evidence
from headrace.operate.targets import SourceOptions, evidence_of, is_live, open_live
from headrace.observe.evidence.model import Tick
from headrace.operate.watching.following import TickFollower
from headrace.operate.watching.history import REACH_S
from headrace.operate.watching.moment import Moment

# What is asked of the lab at the start: seconds for rates and credits at once, minutes for the
# hour before them.
PAST_S, PAST_MINUTES_S = 90, int(REACH_S)
# A row of the lab comes this late at most where the machine is busy, s; ours.
LATE_S = 20.0
# CloudWatch has a point a minute, and is asked as often; what came late is asked for again, s.
AWS_EVERY_S, AWS_AGAIN_S = 60.0, 600.0


@dataclass
class Watched:
    """A target that is open. `moments`: of the past where it is known, then as they come."""

    target: str
    moments: Iterator[Moment]
    source: LiveSource | None = None
    live: bool = True


@contextmanager
def opened(
    target: str,
    options: SourceOptions,
    *,
    pages_every_s: float | None = None,
    past: bool = True,
    seconds: float | None = None,
) -> Iterator[Watched]:
    """Opens a target. `pages_every_s`: with the statistics page of each volume, read as often; for
    exports. `seconds`: CloudWatch is not waited for longer than that. Raises InputError,
    CouldNotRun.
    """
    if is_live(target):
        with open_live(target, options) as source:
            yield Watched(target, _live(source, pages_every_s, past), source)
    elif target.startswith("aws:"):
        first, _ = evidence_of(target, options, REACH_S if past else AWS_AGAIN_S)
        yield Watched(target, _polled(target, options, first, seconds))
    else:
        evidence, _ = evidence_of(target, options)
        yield Watched(target, _recorded(evidence, TickFollower(), evidence.ticks()), live=False)


def _live(source: LiveSource, pages_every_s: float | None, past: bool) -> Iterator[Moment]:
    follower, last = TickFollower(), 0.0
    pages = {} if pages_every_s is None else _pages(source)
    read_at = time.time()
    for tick in _past(source) if past else ():
        last = tick.t_unix
        yield follower.see(source.facts, tick, pages=pages)
    for tick in source.ticks():
        if last - LATE_S < tick.t_unix <= last:
            # A second that was told already, or a row that came late. A clock that was set back by
            # more begins anew.
            continue
        last = tick.t_unix
        if pages_every_s is not None and tick.t_unix - read_at >= pages_every_s:
            read_at, pages = tick.t_unix, _pages(source)
        yield follower.see(source.facts, tick, source.notes, pages)


def _pages(source: LiveSource) -> dict[str, NvmePage]:
    with suppress(HeadraceError):
        return source.pages()
    return {}


def _past(source: LiveSource) -> list[Tick]:
    """Returns minutes, then seconds; nothing where volumes keep none or the lab is not there."""
    with suppress(HeadraceError):
        seconds = source.past(PAST_S, "second")
        begins = seconds[0].t_unix if seconds else time.time()
        minutes = source.past(PAST_MINUTES_S, "minute")
        return [tick for tick in minutes if tick.t_unix + tick.duration_s <= begins] + seconds
    return []


def _recorded(evidence: Evidence, follower: TickFollower, ticks: list[Tick]) -> Iterator[Moment]:
    for tick in ticks:
        yield follower.see(evidence.facts, tick, evidence.notes)


def _polled(target: str, options: SourceOptions, evidence: Evidence, seconds: float | None = None) -> Iterator[Moment]:
    """Yields CloudWatch, minute by minute; a request that fails is tried again in the next minute.
    Ends after `seconds`."""
    follower, last = TickFollower(), 0.0
    until = math.inf if seconds is None else time.monotonic() + seconds
    while True:
        fresh = [tick for tick in evidence.ticks() if tick.t_unix > last]
        yield from _recorded(evidence, follower, fresh)
        last = max([last, *(tick.t_unix for tick in fresh)])
        if time.monotonic() + AWS_EVERY_S > until:
            time.sleep(max(0.0, until - time.monotonic()))
            return
        time.sleep(AWS_EVERY_S)
        with suppress(HeadraceError):
            evidence, _ = evidence_of(target, options, AWS_AGAIN_S)
