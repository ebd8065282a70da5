"""Computes the age of the transactions that a replica lacks, by the watcher's own clock.

The source's GTIDs are sampled some times a second. A transaction that is in a sample and not in the
previous one was committed between the two; many are assumed to be spread evenly over that time. The
lag of a replica is the age of the first transaction that it lacks. A replica that lacks none is not
behind at all, however long nothing was written: a true zero. It needs no clock of a server,
no writes, and works while a replica receives or applies nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.mysql.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Callable

# Samples that a trace keeps: twenty minutes at ten a second; older ones are thinned, so that a
# replica that is days behind still has an answer, by a coarser scale.
MOST_SAMPLES = 12_000
# s without an answer after which a server counts as not seen (a guess: 20 samples missed).
STALE_S = 2.0


@dataclass(frozen=True)
class Stretch:
    """A time from `first_s` to `last_s` in which a server had exactly these transactions."""

    first_s: float
    last_s: float
    gtids: GtidSet


@dataclass(frozen=True)
class Age:
    """A lag of `seconds` at the moment `at_s`, by the watcher's clock. `exact` False: at least
    that, because the first missing transaction is older than the trace, or a server is silent."""

    seconds: float
    exact: bool = True
    at_s: float = 0.0


class Trace:
    """The transactions of a server over time, by the watcher's clock (s, any origin)."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        self.most = most
        self.stretches: list[Stretch] = []

    @property
    def seen_s(self) -> float | None:
        """The moment of its last answer, s by the watcher's clock; None before the first."""
        return self.stretches[-1].last_s if self.stretches else None

    @property
    def latest(self) -> GtidSet | None:
        """The GTIDs of the last sample; None before the first."""
        return self.stretches[-1].gtids if self.stretches else None

    def add(self, at_s: float, gtids: GtidSet) -> None:
        """Adds a sample. A server with less than before is new: its trace begins again."""
        if self.stretches:
            last = self.stretches[-1]
            if at_s < last.last_s:
                return  # two samples that overtook each other
            if last.gtids == gtids:
                self.stretches[-1] = Stretch(last.first_s, at_s, gtids)
                return
            if not gtids.contains(last.gtids):
                self.stretches.clear()
        self.stretches.append(Stretch(at_s, at_s, gtids))
        if len(self.stretches) > self.most:
            half = self.most // 2
            # The transactions of a stretch that is dropped count as committed before the next.
            self.stretches = [*self.stretches[:half:2], *self.stretches[half:]]

    def find_stretch(self, moment_s: float) -> Stretch | None:
        """Returns the stretch of the last sample up to a moment; None before the first."""
        index = self._find_first(lambda stretch: stretch.first_s > moment_s) - 1
        return self.stretches[index] if index >= 0 else None

    def find_commit_time(self, without: GtidSet) -> Age | None:
        """Returns when the first transaction that `without` lacks was committed, as the `seconds`
        of an Age, by the watcher's clock; None if it lacks none."""
        index = self._find_first(lambda stretch: not without.contains(stretch.gtids))
        if index == len(self.stretches):
            return None
        stretch = self.stretches[index]
        if index == 0:
            return Age(stretch.first_s, exact=False)
        before = self.stretches[index - 1]
        new = stretch.gtids.minus(before.gtids)
        count = new.count()
        has = count - new.minus(without).count()
        return Age(before.last_s + (stretch.first_s - before.last_s) * min(1.0, (has + 0.5) / count))

    def _find_first(self, holds: Callable[[Stretch], bool]) -> int:
        """Returns the index of the first stretch for which `holds` is true, as for all behind it;
        the number of stretches for none."""
        low, high = 0, len(self.stretches)
        while low < high:
            middle = (low + high) // 2
            if holds(self.stretches[middle]):
                high = middle
            else:
                low = middle + 1
        return low


def compute_age(source: Trace, replica: Trace, now_s: float) -> Age | None:
    """Returns the lag of a replica; None while one of the two has never answered. Both are compared
    at the same moment, at which the replica was sampled and after which the source was: neither
    counts as ahead because it was sampled a little later."""
    if source.seen_s is None or replica.seen_s is None or replica.latest is None:
        return None
    lost = now_s - source.seen_s > STALE_S, now_s - replica.seen_s > STALE_S
    moment, has = now_s, replica.latest
    if not any(lost):
        sample = replica.find_stretch(source.seen_s)
        if sample is None:
            return None
        moment, has = min(source.seen_s, sample.last_s), sample.gtids
    missing = source.find_commit_time(has)
    if missing is not None and missing.seconds < moment:
        return Age(moment - missing.seconds, missing.exact and not any(lost), moment)
    if lost[0]:
        # No transaction is known to be missing, but the source has been silent since.
        return Age(now_s - source.seen_s, False, moment)
    return Age(now_s - replica.seen_s, False, moment) if lost[1] else Age(0.0, True, moment)


def count_backlog(source: Trace, replica: Trace) -> int | None:
    """Returns the number of transactions that the replica lacks; None while one of the two has
    never answered."""
    if source.latest is None or replica.latest is None:
        return None
    return source.latest.minus(replica.latest).count()


def estimate_age(lacks: int | None, written_tps: float | None, applied_tps: float | None) -> float | None:
    """Returns the age of a backlog of `lacks` transactions, s, if it was written at the source's
    present rate. None without a backlog or rate, and if the source writes less than the replica
    applies: then the backlog is of an earlier time."""
    if not lacks or not written_tps or written_tps < (applied_tps or 0.0):
        return None
    return lacks / written_tps


def compute_rate(trace: Trace, over_s: float) -> float | None:
    """Returns transactions per second over the last `over_s` seconds; None for a shorter trace."""
    if trace.seen_s is None or trace.latest is None:
        return None
    before = trace.find_stretch(trace.seen_s - over_s)
    return None if before is None else trace.latest.minus(before.gtids).count() / over_s
