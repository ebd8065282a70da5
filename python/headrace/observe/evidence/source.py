"""Sources of ticks: one interface to live servers, to services that keep metrics, and to recordings
(decision 0018)."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from headrace.errors import HeadraceError
from headrace.observe.evidence.model import Evidence, SourceFacts, Tick
from headrace.observe.live.nvme import NvmePage

# Requests that may fail in a row before the source ends: at one a minute, what passes by itself has
# passed. A guess.
MOST_FAILURES = 5


class TickSource(ABC):
    """Base class of sources of ticks, oldest first. `facts` and `notes` are those of the newest
    tick. A reading that fails becomes a note, and is tried again; a source that cannot be opened,
    or fails for long, raises InputError or CouldNotRun. `follows`: whether further ticks will
    come."""

    follows = True

    @property
    @abstractmethod
    def facts(self) -> SourceFacts:
        """Returns the facts of the source as they are now."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Returns the notes so far."""

    @abstractmethod
    def stream_ticks(self) -> Iterator[Tick]:
        """Waits for ticks and yields them, each `facts.grain_s` seconds after the one before."""

    def read_history(self) -> list[Tick]:
        """Returns the ticks from before the source was opened, if it has such ticks apart."""
        return []

    def read_pages(self) -> dict[str, NvmePage]:
        """Returns the statistics pages of the volumes that have one. Raises CouldNotRun."""
        return {}

    def close(self) -> None:  # noqa: B027
        """Ends its connections; most sources have none."""


class KeptSource(TickSource):
    """A source of evidence that a file or a service keeps. `ask`: asks the service for its newest
    evidence, every `every_s` seconds until `within_s` have passed; None for a file."""

    def __init__(
        self,
        evidence: Evidence,
        ask: Callable[[], Evidence] | None = None,
        every_s: float = math.inf,
        within_s: float | None = None,
    ) -> None:
        self._evidence, self._ask, self._every_s = evidence, ask, every_s
        self._within_s = math.inf if within_s is None else within_s
        self._failure = ""
        self.follows = ask is not None

    @property
    def facts(self) -> SourceFacts:
        return self._evidence.facts

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns the notes of the newest answer, and the last request that failed."""
        return (*self._evidence.notes, self._failure) if self._failure else self._evidence.notes

    def stream_ticks(self) -> Iterator[Tick]:
        """Yields the ticks of the evidence, then waits for each new answer and yields its later
        ones, until `within_s` seconds have passed. A request that fails becomes a note, and is
        repeated at the next turn. Raises InputError, CouldNotRun: that of the last of MOST_FAILURES
        in a row."""
        last, until, failures = -math.inf, time.monotonic() + self._within_s, 0
        while True:
            for tick in self._evidence.list_ticks():
                if tick.t_unix > last:
                    last = tick.t_unix
                    yield tick
            if self._ask is None:
                return
            if time.monotonic() + self._every_s > until:
                time.sleep(max(0.0, until - time.monotonic()))
                return
            time.sleep(self._every_s)
            try:
                self._evidence, failures = self._ask(), 0
            except HeadraceError as error:
                failures += 1
                self._failure = f"a request failed: {error.rule}"
                if failures >= MOST_FAILURES:
                    raise
