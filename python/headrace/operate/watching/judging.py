"""The verdict of the last minute, for the first line of the screen: the limits that EBS or the lab
says were exceeded, whether clients feel them, credits that run out, and row locks. Doctor says
more, and looks at processors and the network too.
"""

from __future__ import annotations

import math
from collections import deque

from headrace.base import caps
from headrace.base.credits import empty_words
from headrace.base.units import in_percent
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.watching.moment import LiveVerdict, Moment, VolumeNow

# Seconds from which on a mean is a verdict: a single I/O is none. Ours.
LEAST_S = 3.0
# The doctor's own: window, shares, and when credits count as coming to an end.
KNOWN = Thresholds()


class Judge:
    """Keeps the last minute of shares, and names the worst."""

    UNKNOWN = LiveVerdict("cannot tell", None, "", "there is nothing to judge yet")

    def __init__(self) -> None:
        # Of each volume and limit: (seconds, share), and the sum of seconds x share.
        self._minute: dict[tuple[str, str], deque[tuple[float, float]]] = {}
        self._felt: deque[tuple[float, float]] = deque()
        self._locked: deque[tuple[float, float]] = deque()

    def see(self, moment: Moment) -> LiveVerdict:
        """The verdict with this moment."""
        if moment.server is not None and moment.server.io_wait is not None:
            _push(self._felt, moment.grain_s, moment.server.io_wait)
            _push(self._locked, moment.grain_s, moment.server.waits.get("row locks", 0.0))
        worst: tuple[float, VolumeNow, str] | None = None
        exact = False
        for volume in moment.volumes:
            for limit, share in volume.exceeded.items():
                exact = True
                kept = self._minute.setdefault((volume.id, limit), deque())
                _push(kept, moment.grain_s, share)
                mean = _mean(kept)
                if mean is not None and (worst is None or mean > worst[0]):
                    worst = (mean, volume, limit)
        locked = _mean(self._locked) or 0.0
        if locked >= KNOWN.lock_share and locked > (_mean(self._felt) or 0.0):
            return LiveVerdict(
                "not storage", None, "", f"clients wait for row locks {in_percent(locked)} of their time"
            )
        if worst is not None and worst[0] >= KNOWN.seen_share:
            return self._binding(*worst, moment)
        soon = moment.empty_first
        if soon is not None and soon[1].seconds <= KNOWN.coming_s:
            limit = "instance-credits" if soon[0].startswith("instance") else "volume-credits"
            gone = soon[1].seconds <= 0
            felt = _mean(self._felt)
            # Where nobody counts how long requests waited, credits that are gone bind.
            now = "touched" if exact or (felt is not None and felt < KNOWN.felt_share) else "binds"
            return LiveVerdict(now if gone else "will bind", limit, soon[0], f"{soon[0]}: {empty_words(soon[1])}")
        if not exact:
            return LiveVerdict(
                "cannot tell", None, "", "nothing here says how long limits were exceeded; see headrace doctor"
            )
        rooms = [(volume.headroom, volume.label) for volume in moment.volumes if volume.headroom is not None]
        least = min(rooms, default=None)
        room = "" if least is None else f"; {least[1]} has {in_percent(least[0])} head-room"
        return LiveVerdict("fine", None, "", f"no limit binds{room}")

    def _binding(self, share: float, volume: VolumeNow, limit: str, moment: Moment) -> LiveVerdict:
        gone = volume.left is not None and volume.left.seconds <= 0
        of_volume = limit.startswith("volume")
        name = "volume-credits" if gone and of_volume else limit
        felt = _mean(self._felt)
        where = volume.label
        words = f"{where}, {caps.short(name)}: {in_percent(share)} of the last minute"
        brief = f"{where}, {caps.short(name)} {in_percent(share)}"
        if felt is None:
            return LiveVerdict("binds", name, where, words, brief)
        words, brief = (
            f"{words}; clients wait for I/O {in_percent(felt)}",
            f"{brief}, clients in I/O {in_percent(felt)}",
        )
        if felt < KNOWN.felt_share:
            return LiveVerdict("touched", name, where, f"{words}: not felt", brief)
        return LiveVerdict("binds", name, where, words, brief)


def _push(kept: deque[tuple[float, float]], seconds: float, share: float) -> None:
    kept.append((seconds, share if math.isfinite(share) else 0.0))
    while len(kept) > 1 and sum(one for one, _ in kept) - kept[0][0] >= KNOWN.window_s:
        kept.popleft()


def _mean(kept: deque[tuple[float, float]]) -> float | None:
    seconds = sum(one for one, _ in kept)
    return sum(one * share for one, share in kept) / seconds if seconds >= LEAST_S else None
