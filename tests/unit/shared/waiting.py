"""The one way in which a test waits for something that happens by the wall clock.

A test machine may do ten other things. Time limits are therefore given for an idle machine and
stretched by the load of this one, read anew while the test waits: a load of 8 on 2 cores makes 30 s
into 120 s. A test fails only if the thing did not happen in the stretched time, and then says what
it saw last and under which load.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

# Time that most things take at the most on an idle machine of 2 cores, s: the slowest of today's device
# tests (a restart of MySQL 9.7 with crash recovery) takes some 10 s there; three times that.
USUAL_S = 30.0
# The stretch ends here: a machine that is slower than this is not one to judge by.
MOST_STRETCH = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.25


def stretch() -> float:
    """Return the factor by which this machine is slower than an idle one: runnable processes per core, from 1 to 10."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return 1.0
    cores = len(os.sched_getaffinity(0)) or 1
    return min(max(load / cores, 1.0), MOST_STRETCH)


def patience(seconds: float = USUAL_S) -> float:
    """Return a limit in seconds for calls that take one (`timeout=`): `seconds` on an idle machine, stretched by its load."""
    return seconds * stretch()


def wait_until(
    look: Callable[[], Value | None], what: str, seconds: float = USUAL_S, pause_s: float = LONGEST_PAUSE_S
) -> Value:
    """Call `look` until it returns something true, and return that; at most `pause_s` lie between two looks.

    Raises AssertionError with `what`, the last value and the load, when `seconds` (stretched by the
    load) have passed. An exception of `look` ends the wait at once.
    """
    begin, pause = time.monotonic(), min(FIRST_PAUSE_S, pause_s)
    while not (value := look()):
        waited = time.monotonic() - begin
        if waited > patience(seconds):
            raise AssertionError(
                f"{what}: not so after {waited:.0f} s at a load of {os.getloadavg()[0]:.1f}; last seen: {value!r}"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, pause_s)
    return value
