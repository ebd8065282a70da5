"""Follows a volume: a reading a second of its metrics and credits, the end of a modification, the
end of a snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from headrace.errors import CouldNotRun
from headrace.lab.calls import Modification, Snapshot
from headrace.lab.client import Lab
from headrace.lab.metrics import MembersEmptying, Rates, rates

# How often the lab is asked; at a time scale of 1 a modification takes half a minute at least.
POLL_S = 0.25
# Rows asked for at once: what a stall of a few seconds left out comes after it.
LAST_ROWS = 10

Until = Literal["optimizing", "completed"]


@dataclass(frozen=True)
class Reading:
    """A reading of one second. `credits` and `capacity` of the member with the least left, None
    without credits; `empty_in_s` at the present rate.
    """

    rates: Rates
    percent: float | None
    credits: float | None
    empty_in_s: float | None


def readings(lab: Lab, volume: str, seconds: int | None = None) -> Iterator[Reading]:
    """Yields a reading for each second that has ended, until `seconds` of wall time have passed
    (None: for ever).

    The first comes as soon as a second has ended. Raises as Lab.
    """
    emptying, seen = MembersEmptying(), None
    began = time.monotonic()
    while True:
        balance = lab.balance(volume)
        emptying.add(time.monotonic(), balance)
        lowest = min(
            (member for member in balance["members"] if member), key=lambda member: member["percent"], default=None
        )
        answer = lab.metrics(volume, last=LAST_ROWS)
        fresh = [rates(answer["columns"], row) for row in answer["rows"]]
        # At the start the newest alone: what was before is `headrace volume metrics`.
        fresh = fresh[-1:] if seen is None else [rate for rate in fresh if rate.t_s > seen]
        for rate in fresh:
            seen = rate.t_s
            yield Reading(rate, lowest and lowest["percent"], lowest and lowest["credits"], emptying.seconds())
        passed = time.monotonic() - began
        if seconds is not None and passed >= seconds:
            return
        # Just after the next second of the wall, when the daemon has written its row.
        wait = 1.25 - time.time() % 1.0
        time.sleep(wait if seconds is None else max(0.0, min(wait, seconds - passed)))


def wait_for_modification(
    lab: Lab,
    volume: str,
    modification: str,
    progress: Callable[[float], None] = lambda share: None,
    until: Until = "completed",
) -> Modification:
    """Returns the modification of that id once it is in the state `until`, or a later one, or has
    failed.

    From `optimizing` on the volume has its new type and size; `completed` comes hours of lab time
    later. `progress` gets the share of the optimizing that is done, 0 to 1. Raises as
    Lab.modifications.
    """
    reached = ("completed", "failed") if until == "completed" else ("optimizing", "completed", "failed")
    while True:
        now = next(candidate for candidate in reversed(lab.modifications(volume)) if candidate["id"] == modification)
        if now["state"] in reached:
            return now
        progress(now["progress_percent"] / 100)
        time.sleep(POLL_S)


def stored(lab: Lab, snapshot: str, progress: Callable[[float], None] = lambda share: None) -> Snapshot:
    """Returns the snapshot of that id once all of its blocks are stored.

    `progress` gets the share that is stored, 0 to 1. Raises CouldNotRun for a snapshot that failed,
    and as Lab.describe_snapshot.
    """
    while (description := lab.describe_snapshot(snapshot))["state"] == "pending":
        progress(description["progress_percent"] / 100)
        time.sleep(POLL_S)
    if description["state"] == "error":
        raise CouldNotRun(snapshot, f"could not be stored: {description['error']}")
    return description


def optimizing_note(modification: Modification) -> str:
    """Returns what a user must know of a modification that is optimizing."""
    return (
        f"The volume has its new size and type. It is optimizing, {modification['progress_percent']} % done, until"
        f" {modification['completed_at']} (lab time); until then IOPS and MiB/s are the lower of those before and"
        f" after. The next modification is accepted from {modification['next_allowed_at']} (lab time) on."
    )
