"""From a target to its moments: live ones for ever, of a file those that are in it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain

from headrace.errors import HeadraceError
from headrace.observe.evidence.source import TickSource
from headrace.observe.live.nvme import NvmePage
from headrace.operate.targets import SourceOptions, open_source
from headrace.operate.watching.following import TickFollower
from headrace.operate.watching.moment import Moment

# A row of the lab comes this late at most where the machine is busy, s; ours.
LATE_S = 20.0


@dataclass
class OpenTarget:
    """A target that is open. `moments`: those of the past where they are known, then new ones;
    `live`: whether new ones come."""

    target: str
    moments: Iterator[Moment]
    live: bool = True


@contextmanager
def open_target(
    target: str,
    options: SourceOptions,
    *,
    pages_every_s: float | None = None,
    past: bool = True,
    seconds: float | None = None,
) -> Iterator[OpenTarget]:
    """Opens a target. `pages_every_s`: with the statistics page of each volume, read as often; for
    exports. `seconds`: CloudWatch is not waited for longer than that. Raises InputError,
    CouldNotRun.
    """
    with closing(open_source(target, options, past, seconds)) as source:
        yield OpenTarget(target, _read_moments(source, pages_every_s, past), source.follows)


def _read_moments(source: TickSource, pages_every_s: float | None, past: bool) -> Iterator[Moment]:
    """Yields a moment for each tick, passing over ticks of a time that was yielded already.
    `pages_every_s`: seconds between readings of the statistics pages; None: without."""
    follower, last = TickFollower(), -math.inf
    pages = {} if pages_every_s is None else _read_pages(source)
    read_at = time.time()
    for tick in chain(source.read_history() if past else (), source.stream_ticks()):
        if last - LATE_S < tick.t_unix <= last:
            # A row that came late. A clock that was set back by more begins anew.
            continue
        last = tick.t_unix
        if pages_every_s is not None and tick.t_unix - read_at >= pages_every_s:
            read_at, pages = tick.t_unix, _read_pages(source)
        yield follower.see(source.facts, tick, source.notes, pages)


def _read_pages(source: TickSource) -> dict[str, NvmePage]:
    """Returns the statistics page of each volume by name; none where they cannot be read."""
    with suppress(HeadraceError):
        return source.read_pages()
    return {}
