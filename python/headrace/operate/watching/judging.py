"""The verdicts of the last minute, the worst for the first line of the screen: the limits that EBS
or the lab says were exceeded, whether clients feel them, credits that run out, and row locks.
Doctor says more, and looks at processors and the network too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from headrace.base import caps
from headrace.base.credits import describe_emptying
from headrace.base.units import format_percent
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.watching.moment import LiveVerdict, Moment, VolumeNow

# Seconds from which on a mean is a verdict: a single I/O is none. Ours.
LEAST_S = 3.0
# The doctor's own: window, shares, and when credits count as coming to an end.
THRESHOLDS = Thresholds()


class Judge:
    """Keeps the last minute of shares, and judges each moment by their means."""

    UNKNOWN = LiveVerdict("cannot tell", None, "", "there is nothing to judge yet")

    def __init__(self) -> None:
        # By volume and limit: (seconds, share), and the sum of seconds x share.
        self._minute: dict[tuple[str, str], deque[tuple[float, float]]] = {}
        self._felt: deque[tuple[float, float]] = deque()
        self._locked: deque[tuple[float, float]] = deque()

    def see(self, moment: Moment) -> tuple[LiveVerdict, ...]:
        """Takes the next moment, and returns the verdicts, the most severe first: at least one."""
        if moment.server is not None and moment.server.io_wait is not None:
            _push(self._felt, moment.grain_s, moment.server.io_wait)
            _push(self._locked, moment.grain_s, moment.server.waits.get("row locks", 0.0))
        exceeded = self._find_exceeded(moment)
        locked = _mean(self._locked) or 0.0
        if locked >= THRESHOLDS.lock_share and locked > (_mean(self._felt) or 0.0):
            words = f"clients wait for row locks {format_percent(locked)} of their time"
            return (LiveVerdict("not storage", None, "", words),)
        verdicts = [
            self._judge_limit(share, volume, limit)
            for share, volume, limit in exceeded
            if share >= THRESHOLDS.seen_share
        ]
        named = {(verdict.where, verdict.limit) for verdict in verdicts}
        exact = any(volume.exceeded for volume in moment.volumes)
        verdicts += [
            verdict for verdict in self._judge_credits(moment, exact) if (verdict.where, verdict.limit) not in named
        ]
        if verdicts:
            return tuple(verdicts)
        if not exact:
            words = "nothing here says how long limits were exceeded; see headrace doctor"
            return (LiveVerdict("cannot tell", None, "", words),)
        rooms = [(volume.headroom, volume.label) for volume in moment.volumes if volume.headroom is not None]
        least = min(rooms, default=None)
        room = "" if least is None else f"; {least[1]} has {format_percent(least[0])} head-room"
        return (LiveVerdict("fine", None, "", f"no limit binds{room}"),)

    def _find_exceeded(self, moment: Moment) -> list[tuple[float, VolumeNow, str]]:
        """Returns (share of the last minute over it, volume, limit), the largest share first."""
        shares = []
        for volume in moment.volumes:
            for limit, share in volume.exceeded.items():
                minute = self._minute.setdefault((volume.id, limit), deque())
                _push(minute, moment.grain_s, share)
                if (mean := _mean(minute)) is not None:
                    shares.append((mean, volume, limit))
        return sorted(shares, key=lambda entry: -entry[0])

    def _judge_credits(self, moment: Moment, exact: bool) -> Iterator[LiveVerdict]:
        """Yields verdicts on balances that are empty or soon will be, the first of them first."""
        felt = _mean(self._felt)
        # Empty credits only touch if waits are counted or too short to be felt; else they bind.
        gone = "touched" if exact or (felt is not None and felt < THRESHOLDS.felt_share) else "binds"
        for where, time_to_empty in moment.emptying:
            if time_to_empty.seconds <= THRESHOLDS.coming_s:
                limit = "instance-credits" if where.startswith("instance") else "volume-credits"
                word = gone if time_to_empty.seconds <= 0 else "will bind"
                yield LiveVerdict(word, limit, where, f"{where}: {describe_emptying(time_to_empty)}")

    def _judge_limit(self, share: float, volume: VolumeNow, limit: str) -> LiveVerdict:
        """Returns the verdict on a limit that was exceeded for `share` of the last minute:
        `touched` if clients are known to hardly wait for I/O, else `binds`."""
        gone = volume.time_to_empty is not None and volume.time_to_empty.seconds <= 0
        of_volume = limit.startswith("volume")
        name = "volume-credits" if gone and of_volume else limit
        felt = _mean(self._felt)
        where = volume.label
        words = f"{where}, {caps.label_cap(name)}: {format_percent(share)} of the last minute"
        brief = f"{where}, {caps.label_cap(name)} {format_percent(share)}"
        if felt is None:
            return LiveVerdict("binds", name, where, words, brief)
        words += f"; clients wait for I/O {format_percent(felt)}"
        brief += f", clients in I/O {format_percent(felt)}"
        if felt < THRESHOLDS.felt_share:
            return LiveVerdict("touched", name, where, f"{words}: not felt", brief)
        return LiveVerdict("binds", name, where, words, brief)


def _push(minute: deque[tuple[float, float]], seconds: float, share: float) -> None:
    """Adds a share (0 to 1) that lasted `seconds`, and drops what is older than the window."""
    minute.append((seconds, share if math.isfinite(share) else 0.0))
    while len(minute) > 1 and sum(span_s for span_s, _ in minute) - minute[0][0] >= THRESHOLDS.window_s:
        minute.popleft()


def _mean(minute: deque[tuple[float, float]]) -> float | None:
    """Returns the mean share, weighted by time; None for less than LEAST_S seconds."""
    seconds = sum(span_s for span_s, _ in minute)
    return sum(span_s * share for span_s, share in minute) / seconds if seconds >= LEAST_S else None
