"""Waiting for what takes its time."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.lab.answers import Modification
from headrace.lab.client import Lab

LOOK_EVERY_S = 0.25


def wait_for_modification(lab: Lab, volume: str, modification: str, progress: Callable[[float], None] = lambda share: None) -> Modification:
    """Returns the modification of that id once it is completed or failed. `progress` is told its share, 0 to 1. Raises as Lab.modifications."""
    while True:
        now = next(one for one in reversed(lab.modifications(volume)) if one["id"] == modification)
        if now["state"] in ("completed", "failed"):
            return now
        progress(now["progress_percent"] / 100)
        time.sleep(LOOK_EVERY_S)
