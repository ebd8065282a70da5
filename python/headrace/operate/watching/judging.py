"""The verdict of the last minute, for the first line of the screen: the limits that EBS or the lab
says were exceeded, whether clients feel them, and credits that run out. Doctor says more, and looks
at locks, processors and the network first.
"""

from __future__ import annotations

import math
from collections import deque

from headrace.base import caps
from headrace.base.credits import empty_words
from headrace.base.units import in_percent
from headrace.operate.watching.moment import Finding, Moment, VolumeNow

# The window of a live verdict, s; from this share of it on a limit binds; below this share of the
# clients' time it is touched, not felt (operate_page 1.4).
WINDOW_S, BINDS_SHARE, FELT_SHARE = 60.0, 0.05, 0.1
# Credits that end within an hour at this rate will bind. Ours.
SOON_S = 3_600.0
# Shares of time need so many seconds, so that a single I/O does not make a verdict. Ours.
LEAST_S = 3.0


class Judge:
    """Keeps the last minute of shares, and names the worst."""

    UNKNOWN = Finding("cannot tell", None, "", "there is nothing to judge yet")

    def __init__(self) -> None:
        # Of each volume and limit: (seconds, share), and the sum of seconds x share.
        self._minute: dict[tuple[str, str], deque[tuple[float, float]]] = {}
        self._felt: deque[tuple[float, float]] = deque()

    def see(self, moment: Moment) -> Finding:
        """The verdict with this moment."""
        if moment.server is not None and moment.server.io_wait is not None:
            _push(self._felt, moment.grain_s, moment.server.io_wait)
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
        if worst is not None and worst[0] >= BINDS_SHARE:
            return self._binding(*worst, moment)
        soon = moment.empty_first
        if soon is not None and soon[1].seconds <= SOON_S:
            limit = "instance-credits" if soon[0].startswith("instance") else "volume-credits"
            gone = soon[1].seconds <= 0
            return Finding("touched" if gone else "will bind", limit, soon[0], f"{soon[0]}: {empty_words(soon[1])}")
        if not exact:
            return Finding(
                "cannot tell", None, "", "nothing here says how long limits were exceeded; see headrace doctor"
            )
        rooms = [(volume.headroom, volume.label) for volume in moment.volumes if volume.headroom is not None]
        least = min(rooms, default=None)
        room = "" if least is None else f"; {least[1]} has {in_percent(least[0])} head-room"
        return Finding("fine", None, "", f"no limit binds{room}")

    def _binding(self, share: float, volume: VolumeNow, limit: str, moment: Moment) -> Finding:
        gone = volume.left is not None and volume.left.seconds <= 0
        of_volume = limit.startswith("volume")
        name = "volume-credits" if gone and of_volume else limit
        felt = _mean(self._felt)
        where = volume.label
        words = f"{where}, {caps.short(name)}: {in_percent(share)} of the last minute"
        if felt is None:
            return Finding("binds", name, where, words)
        if felt < FELT_SHARE:
            return Finding("touched", name, where, f"{words}; clients wait for I/O {in_percent(felt)}: not felt")
        return Finding("binds", name, where, f"{words}; clients wait for I/O {in_percent(felt)}")


def _push(kept: deque[tuple[float, float]], seconds: float, share: float) -> None:
    kept.append((seconds, share if math.isfinite(share) else 0.0))
    while len(kept) > 1 and sum(one for one, _ in kept) - kept[0][0] >= WINDOW_S:
        kept.popleft()


def _mean(kept: deque[tuple[float, float]]) -> float | None:
    seconds = sum(one for one, _ in kept)
    return sum(one * share for one, share in kept) / seconds if seconds >= LEAST_S else None
