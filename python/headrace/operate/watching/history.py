"""The last hour of moments, packed: an hour of eight volumes takes some four megabytes."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import deque
from dataclasses import replace

import msgspec

from headrace.operate.watching.moment import Moment

# Time span that the arrows cover, s.
REACH_S = 3_600.0


class History:
    """Moments of the last hour, oldest first."""

    def __init__(self) -> None:
        self._packed: deque[tuple[float, bytes]] = deque()
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Moment)

    def __len__(self) -> int:
        return len(self._packed)

    def add(self, moment: Moment) -> None:
        """Adds a moment after all others; a moment from before them (the clock was set back) clears
        the history."""
        if self._packed and moment.t_unix <= self._packed[-1][0]:
            self._packed.clear()
        bare = replace(moment, volumes=tuple(replace(volume, page=None) for volume in moment.volumes))
        # Level 1: what more costs in time is not worth the space (measured: 9 % at level 6).
        self._packed.append((moment.t_unix, zlib.compress(self._encoder.encode(bare), 1)))
        while self._packed[0][0] < moment.t_unix - REACH_S:
            self._packed.popleft()

    @property
    def reaches_s(self) -> float:
        """The seconds that it reaches back."""
        return self._packed[-1][0] - self._packed[0][0] if self._packed else 0.0

    def at(self, t_unix: float) -> Moment | None:
        """Returns the moment nearest to a time; None where nothing is known."""
        if not self._packed:
            return None
        place = bisect_left(self._packed, t_unix, key=lambda entry: entry[0])
        near = [index for index in (place - 1, place) if 0 <= index < len(self._packed)]
        best = min(near, key=lambda index: abs(self._packed[index][0] - t_unix))
        return self._decoder.decode(zlib.decompress(self._packed[best][1]))
