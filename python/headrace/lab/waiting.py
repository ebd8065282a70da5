"""Waits until a modification has reached a state, and until snapshots are stored."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Literal

from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun
from headrace.lab.calls import Modification, Snapshot
from headrace.lab.client import Lab

# Seconds between two questions to the lab; at a time scale of 1 a modification takes half a minute
# at least.
POLL_S = 0.25
# Snapshots that were just taken have few changed blocks, and are stored within a second.
LOOK_EVERY_S = 0.1

Until = Literal["optimizing", "completed"]


def wait_for_modification(
    lab: Lab,
    volume: str,
    modification: str,
    progress: Callable[[float], None] = lambda share: None,
    until: Until = "completed",
) -> Modification:
    """Waits until the modification of that id is in the state `until` or a later one, or has
    failed, and returns it. From `optimizing` on the volume has its new type and size; `completed`
    is hours of lab time later. `progress` gets the share of the optimizing that is done, 0 to 1.
    Raises as Lab.modifications."""
    reached = ("completed", "failed") if until == "completed" else ("optimizing", "completed", "failed")
    while True:
        current = next(
            candidate for candidate in reversed(lab.modifications(volume)) if candidate["id"] == modification
        )
        if current["state"] in reached:
            return current
        progress(current["progress_percent"] / 100)
        time.sleep(POLL_S)


def wait_for_snapshot(lab: Lab, snapshot: str, progress: Callable[[float], None] = lambda share: None) -> Snapshot:
    """Waits until all blocks of a snapshot are stored, as `wait_stored`, and returns it."""
    wait_stored(lab, [snapshot], progress=progress)
    return lab.describe_snapshot(snapshot)


def wait_stored(
    lab: Lab,
    snapshots: Sequence[str],
    limit_s: float = math.inf,
    progress: Callable[[float], None] = lambda share: None,
) -> None:
    """Waits until all blocks of these snapshots are stored. `progress` gets the share that is
    stored, 0 to 1. Raises CouldNotRun for one that failed or is not stored within `limit_s`, and as
    Lab.describe_snapshot."""

    def are_stored() -> bool:
        # Each look asks for all: one that has failed is seen while others are pending.
        descriptions = [lab.describe_snapshot(snapshot) for snapshot in snapshots]
        for description in descriptions:
            if description["state"] == "error":
                raise CouldNotRun(description["id"], f"could not be stored: {description['error']}")
        progress(min(description["progress_percent"] for description in descriptions) / 100)
        return all(description["state"] == "completed" for description in descriptions)

    if not wait_until(are_stored, limit_s, LOOK_EVERY_S):
        raise CouldNotRun(", ".join(snapshots), "is still pending", "", "Is the lab busy?")


def explain_optimizing(modification: Modification) -> str:
    """Returns what a user must know of a modification that is optimizing."""
    return (
        f"The volume has its new size and type. It is optimizing, {modification['progress_percent']} % done, until"
        f" {modification['completed_at']} (lab time); until then IOPS and MiB/s are the lower of those before and"
        f" after. The next modification is accepted from {modification['next_allowed_at']} (lab time) on."
    )
