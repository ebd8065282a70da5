"""Waits for a condition, for a limited time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(check: Callable[[], T], within_s: float, every_s: float) -> T:
    """Calls `check` at once and then every `every_s` seconds until its answer is true (not 0, empty
    or None), or `within_s` seconds have passed; returns the last answer."""
    deadline = time.monotonic() + within_s
    while not (answer := check()) and time.monotonic() < deadline:
        time.sleep(every_s)
    return answer
