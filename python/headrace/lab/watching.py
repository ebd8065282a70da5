"""A reading a second of a volume: its newest row of metrics and its credits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.lab.client import Lab
from headrace.lab.metrics import Emptying, Rates, rates

# Rows asked for at once: what a stall of a few seconds left out comes after it.
LAST_ROWS = 10


@dataclass(frozen=True)
class Reading:
    """A second. `credits` and `capacity` of the member with the least left, None without credits; `empty_in_s` at the present rate."""

    rates: Rates
    percent: float | None
    credits: float | None
    empty_in_s: float | None


def readings(lab: Lab, volume: str, seconds: int | None = None) -> Iterator[Reading]:
    """One for each second that has ended, the first as soon as there is one; ends after `seconds` of wall time, or never. Raises as Lab."""
    emptying, seen = Emptying(), None
    began = time.monotonic()
    while True:
        balance = lab.balance(volume)
        emptying.add(time.monotonic(), balance)
        lowest = min((member for member in balance["members"] if member), key=lambda member: member["percent"], default=None)
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
