"""Estimates how long the credits of a volume, or of an instance's burst bucket, last at the present
rate.

t = balance / (mean rate - refill), by the core's own rule. The mean is that of the last minute, or
of the time since the load changed; the interval is that of the lowest and the highest minute of
the last 15 at the same load. The rate is measured from the balance; where only I/Os are counted,
the caller gives the tokens that they took.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.base import core
from headrace.base.units import DAY_S, describe_span

# The rate is the mean of this long, s; a rule of Headrace.
WINDOW_S = 60.0
# A load that differs for longer than this has changed, s: bursts of checkpoints and of batches are
# shorter, and belong to the mean. A guess of ours.
CHANGE_S = 20.0
# Length of the newest part of the load that older steps are compared with, s: one second alone may
# be a burst. A guess of ours.
NEWEST_S = 3.0
# The load is another if the balance falls faster or slower by more than the first share of the
# faster rate, and by more than the second share of the refill, which is noise. Guesses of ours.
CHANGED_SHARE, STEADY_SHARE = 0.5, 0.02
# The interval is that of one-minute means over this many minutes.
MINUTES = 15
# Share of the capacity below which a balance is empty: 540 of gp2's 5.4 million credits, a fifth of
# a second of its burst.
EMPTY_SHARE = 1e-4
# Share of the capacity that no load takes in a second (gp2: 3,000 of 5.4 million; st1: 500 MiB of
# 125 GiB at least): the balance was set by a call.
JUMP_SHARE = 0.05


@dataclass(frozen=True)
class CreditsLeft:
    """Estimate of how long a balance lasts. `seconds` until it is empty: 0 when it is, infinity
    while it does not fall. `soonest` and `latest`: the same at the highest and the lowest rate of
    the newest minutes, None before two minutes have passed. `taken_per_s`: tokens taken a second,
    mean of the last `window_s` seconds.
    """

    seconds: float
    soonest: float | None
    latest: float | None
    taken_per_s: float
    window_s: float


class Emptying:
    """Estimates from successive readings of one credit balance when it is empty. Without a `refill`
    a second, the tokens taken are what the balance loses."""

    def __init__(self, capacity: float, refill: float = 0.0) -> None:
        """Starts without a reading. `capacity`: tokens of the full balance; `refill`: tokens a
        second."""
        self.capacity, self.refill = float(capacity), float(refill)
        self._last: tuple[float, float] | None = None
        # Seconds of a step between two readings, and by how much a second the balance fell in it.
        self._steps: deque[tuple[float, float]] = deque()
        self._steps_s = 0.0
        self._minutes: deque[float] = deque(maxlen=MINUTES)
        self._minute_s = self._minute_taken = 0.0

    def add(self, at_s: float, level: float, taken: float | None = None) -> None:
        """Adds a reading: `level` tokens at `at_s` of a monotonic clock, `taken` since the last
        reading, if they are counted. A jump of the balance, which a call made, drops earlier
        readings."""
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
        self._steps_s += step_s
        while len(self._steps) > 1 and self._steps_s - self._steps[0][0] >= WINDOW_S + CHANGE_S:
            self._steps_s -= self._steps.popleft()[0]
        self._minute_s += step_s
        self._minute_taken += step_s * drain
        if self._minute_s >= 60.0:
            self._minutes.append(self._minute_taken / self._minute_s)
            self._minute_s = self._minute_taken = 0.0

    def forget(self) -> None:
        """Drops all readings: the volume was detached, or became another."""
        self._last = None
        self._steps.clear()
        self._minutes.clear()
        self._steps_s = self._minute_s = self._minute_taken = 0.0

    def estimate(self) -> CreditsLeft | None:
        """Returns when the balance is empty; None before two readings, unless it is empty already.
        A change of the load drops the minutes before it."""
        if self._last is None:
            return None
        level = self._last[1]
        if not self._steps:
            return CreditsLeft(0.0, None, None, self.refill, 0.0) if self._is_empty(level) else None
        count, changed = _count_since_change(self._steps, STEADY_SHARE * self.refill)
        steps = list(self._steps)[-count:]
        window_s = sum(step_s for step_s, _ in steps)
        if changed:
            self._minutes.clear()
            self._minute_s = self._minute_taken = 0.0
        demand = self.refill + sum(step_s * drain for step_s, drain in steps) / window_s
        if self._is_empty(level):
            return CreditsLeft(0.0, None, None, demand, window_s)
        soonest = latest = None
        if len(self._minutes) > 1:
            ends = [core.seconds_to_empty(level, self.refill + drain, self.refill) for drain in self._minutes]
            ends.append(core.seconds_to_empty(level, demand, self.refill))
            soonest, latest = min(ends), max(ends)
        return CreditsLeft(core.seconds_to_empty(level, demand, self.refill), soonest, latest, demand, window_s)

    def _is_empty(self, level: float) -> bool:
        return level <= EMPTY_SHARE * self.capacity


def _count_since_change(steps: Sequence[tuple[float, float]], noise: float) -> tuple[int, bool]:
    """Returns how many of the newest steps (s, fall of the balance a second) are of the present
    load, and whether another load was before. `noise`: tokens a second that make no difference."""
    newest = list(reversed(steps))
    # The median: a burst of one second is not the load; of two seconds the newer counts.
    latest = [drain for _, drain in newest[: max(1, round(NEWEST_S / newest[0][0]))]]
    usual = sorted(latest)[len(latest) // 2] if len(latest) > 2 else latest[0]
    count, span_s, odd_s = 0, 0.0, 0.0
    for nth, (step_s, drain) in enumerate(newest, start=1):
        span_s += step_s
        if abs(drain - usual) > CHANGED_SHARE * max(abs(drain), abs(usual)) + noise:
            odd_s += step_s
            if odd_s >= CHANGE_S:
                break
            continue
        count, odd_s = nth, 0.0
        if span_s >= WINDOW_S:
            return nth, False
    # The step in which the load changed belongs to both loads.
    return (max(1, count - 1), odd_s >= CHANGE_S) if odd_s else (len(newest), False)


def lasts_forever(estimate: CreditsLeft | None) -> bool:
    """Returns whether the balance does not fall; False without an estimate."""
    return estimate is not None and math.isinf(estimate.seconds)


def describe_remaining(estimate: CreditsLeft) -> str:
    """Returns how long the balance lasts, as `42 s`, `5 h 10 m`, `9 d`, `empty` or `never`
    (empty)."""
    if math.isinf(estimate.seconds):
        return "never"
    if estimate.seconds <= 0:
        return "empty"
    if estimate.seconds >= 2 * DAY_S:
        return f"{round(estimate.seconds / DAY_S)} d"
    text = describe_span(max(1, round(estimate.seconds)))
    return text.replace(" min", " m") if " h " in text else text


def describe_emptying(estimate: CreditsLeft, brief: bool = False) -> str:
    """Returns when the balance is empty as a clause, `empty in 31 min (28 min to 35 min)`: with the
    interval if the newest minutes differ and `brief` is off."""
    text = describe_remaining(estimate)
    if text == "never":
        return "credits do not fall"
    if text == "empty":
        return "credits are gone"
    if brief or estimate.soonest is None or estimate.latest is None or estimate.latest <= 1.05 * estimate.soonest:
        return f"empty in {text}"
    ends = (describe_remaining(CreditsLeft(end, None, None, 0.0, 0.0)) for end in (estimate.soonest, estimate.latest))
    return f"empty in {text} ({' to '.join(ends)})"
