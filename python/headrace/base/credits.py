"""How long credits last at the present rate: of a volume, or of an instance's burst bucket.

t = balance / (mean rate - refill), by the core's own rule. The mean is that of the last minute, or
of the time since the load changed; the interval is that of the lowest and the highest minute of
the last 15 at the same load. The rate is what went from the balance, measured; where only I/Os are
known, the caller says what was taken.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.base import core
from headrace.base.units import DAY_S, span_in_words

# The rate is the mean of this long, s (operate_page 1.4: the last 60 s).
WINDOW_S = 60.0
# A load that stays another for longer than this has changed, s: bursts of checkpoints and of
# batches are shorter, and belong to the mean. Ours.
CHANGE_S = 20.0
# What the newest seconds are compared by, s: one alone may be a burst. Ours.
NEWEST_S = 3.0
# Another load: the balance falls faster or slower by more than this share of the faster, and by
# more than this share of the refill, which is noise. Ours.
CHANGED_SHARE, STEADY_SHARE = 0.5, 0.02
# The interval is that of one-minute means over this many minutes (operate_page 1.4).
MINUTES = 15
# Of the capacity: 540 of gp2's 5.4 million credits, a fifth of a second of its burst.
EMPTY_SHARE = 1e-4
# More than any load takes in a second (gp2: 3,000 of 5.4 million; st1: 500 MiB of 125 GiB at
# least): the balance was set by a call.
JUMP_SHARE = 0.05


@dataclass(frozen=True)
class CreditsLeft:
    """`seconds` until the balance is empty: 0 when it is, infinity while it does not fall.
    `soonest` and `latest` at the highest and the lowest minute of late, None before two are known.
    `asked`: what is taken a second, mean of the last `window_s`.
    """

    seconds: float
    soonest: float | None
    latest: float | None
    asked: float
    window_s: float


class Emptying:
    """Follows one balance, reading by reading. Without a `refill` a second, what is asked is what
    the balance loses."""

    def __init__(self, capacity: float, refill: float = 0.0) -> None:
        self.capacity, self.refill = float(capacity), float(refill)
        self._last: tuple[float, float] | None = None
        # Seconds of a step between two readings, and by how much a second the balance fell in it.
        self._steps: deque[tuple[float, float]] = deque()
        self._kept_s = 0.0
        self._minutes: deque[float] = deque(maxlen=MINUTES)
        self._minute_s = self._minute_taken = 0.0

    def add(self, at_s: float, level: float, taken: float | None = None) -> None:
        """A reading at a time, on a clock that does not jump; `taken`: tokens since the reading
        before, where they are counted."""
        before, self._last = self._last, (at_s, level)
        if before is None:
            return
        step_s = at_s - before[0]
        if step_s <= 0:
            self._last = before
            return
        fell = before[1] - level
        if abs(fell) > JUMP_SHARE * self.capacity * max(1.0, step_s):
            self.forget()
            self._last = (at_s, level)
            return
        # A full balance does not show what was taken below the refill.
        drain = fell / step_s if taken is None else taken / step_s - self.refill
        self._steps.append((step_s, drain))
        self._kept_s += step_s
        while len(self._steps) > 1 and self._kept_s - self._steps[0][0] >= WINDOW_S + CHANGE_S:
            self._kept_s -= self._steps.popleft()[0]
        self._minute_s += step_s
        self._minute_taken += step_s * drain
        if self._minute_s >= 60.0:
            self._minutes.append(self._minute_taken / self._minute_s)
            self._minute_s = self._minute_taken = 0.0

    def forget(self) -> None:
        """What was before says nothing any more: the volume was detached, or became another."""
        self._last = None
        self._steps.clear()
        self._minutes.clear()
        self._kept_s = self._minute_s = self._minute_taken = 0.0

    def left(self) -> CreditsLeft | None:
        """What the readings say; None before there are two, unless the balance is empty."""
        if self._last is None:
            return None
        level = self._last[1]
        if not self._steps:
            return CreditsLeft(0.0, None, None, self.refill, 0.0) if self._is_empty(level) else None
        many, changed = _since_the_change(self._steps, STEADY_SHARE * self.refill)
        steps = list(self._steps)[-many:]
        window_s = sum(step_s for step_s, _ in steps)
        if changed:
            self._minutes.clear()
            self._minute_s = self._minute_taken = 0.0
        asked = self.refill + sum(step_s * drain for step_s, drain in steps) / window_s
        if self._is_empty(level):
            return CreditsLeft(0.0, None, None, asked, window_s)
        soonest = latest = None
        if len(self._minutes) > 1:
            ends = [core.seconds_to_empty(level, self.refill + drain, self.refill) for drain in self._minutes]
            ends.append(core.seconds_to_empty(level, asked, self.refill))
            soonest, latest = min(ends), max(ends)
        return CreditsLeft(core.seconds_to_empty(level, asked, self.refill), soonest, latest, asked, window_s)

    def _is_empty(self, level: float) -> bool:
        return level <= EMPTY_SHARE * self.capacity


def _since_the_change(steps: Sequence[tuple[float, float]], noise: float) -> tuple[int, bool]:
    """How many of the newest steps are of the present load, and whether another was before them."""
    newest = list(reversed(steps))
    # The middle one: a burst of one second is not the load, and the newest of two is.
    few = [drain for _, drain in newest[: max(1, round(NEWEST_S / newest[0][0]))]]
    usual = sorted(few)[len(few) // 2] if len(few) > 2 else few[0]
    many, span_s, odd_s = 0, 0.0, 0.0
    for nth, (step_s, drain) in enumerate(newest, start=1):
        span_s += step_s
        if abs(drain - usual) > CHANGED_SHARE * max(abs(drain), abs(usual)) + noise:
            odd_s += step_s
            if odd_s >= CHANGE_S:
                break
            continue
        many, odd_s = nth, 0.0
        if span_s >= WINDOW_S:
            return nth, False
    # The step in which it changed is of both loads.
    return (max(1, many - 1), odd_s >= CHANGE_S) if odd_s else (len(newest), False)


def first_to_empty(left: Sequence[CreditsLeft | None]) -> CreditsLeft | None:
    """That of several balances which is empty first."""
    return min((one for one in left if one is not None), key=lambda one: one.seconds, default=None)


def never(left: CreditsLeft | None) -> bool:
    """Whether the balance does not fall."""
    return left is not None and math.isinf(left.seconds)


def left_words(left: CreditsLeft) -> str:
    """`never`, `empty`, or the span: `42 s`, `31 min`, `5 h 10 m`, `9 d`."""
    if math.isinf(left.seconds):
        return "never"
    if left.seconds <= 0:
        return "empty"
    if left.seconds >= 2 * DAY_S:
        return f"{round(left.seconds / DAY_S)} d"
    text = span_in_words(max(1, round(left.seconds)))
    return text.replace(" min", " m") if " h " in text else text


def empty_words(left: CreditsLeft, brief: bool = False) -> str:
    """The same in a sentence, with its interval where the minutes differ; `brief` without."""
    text = left_words(left)
    if text == "never":
        return "credits do not fall"
    if text == "empty":
        return "credits are gone"
    if brief or left.soonest is None or left.latest is None or left.latest <= 1.05 * left.soonest:
        return f"empty in {text}"
    ends = (left_words(CreditsLeft(end, None, None, 0.0, 0.0)) for end in (left.soonest, left.latest))
    return f"empty in {text} ({' to '.join(ends)})"
