"""Waits until something is so, for a limited time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(look: Callable[[], T], within_s: float, every_s: float) -> T:
    """Looks every `every_s` seconds, at once for the first time, and returns what it saw as soon as
    that is true (not 0, empty or None). After `within_s` seconds it returns the last it saw."""
    deadline = time.monotonic() + within_s
    while not (seen := look()) and time.monotonic() < deadline:
        time.sleep(every_s)
    return seen
