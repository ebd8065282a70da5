"""The time whose recording is fetched from a service: a span up to a moment."""

from __future__ import annotations

import time
from dataclasses import dataclass

from headrace.base.units import DAY_S, read_span
from headrace.errors import InputError, Refusals
from headrace.observe.clock import parse_iso

refuse = Refusals("docs/reference/import-formats.md")
# Fourteen days: two weekends, and CloudWatch keeps points of a minute for fifteen
# (API_GetMetricStatistics, Period).
DEFAULT_S = 14.0 * DAY_S
LEAST_S, MOST_S = 120.0, 455.0 * DAY_S  # two points of a minute; CloudWatch keeps points of an hour for 455 days


@dataclass(frozen=True)
class TimeSpan:
    """`last_s` seconds up to `until` (seconds since 1970; None: now)."""

    last_s: float = DEFAULT_S
    until: float | None = None

    def ends(self) -> tuple[float, float]:
        """Returns beginning and end in seconds since 1970."""
        until = time.time() if self.until is None else self.until
        return until - self.last_s, until


def parse_span(last: str | None, until: str | None) -> TimeSpan:
    """Returns the time of --last (`14d`) and --until (ISO 8601; None: now). Raises InputError."""
    seconds = DEFAULT_S
    if last is not None:
        seconds = read_span(last, "--last", refuse.source, least_s=0.0)
        if not LEAST_S <= seconds <= MOST_S:
            rule = f"must be {LEAST_S:g} s to {MOST_S / DAY_S:g} days"
            raise refuse.input(f"--last {last[:40]}", rule, "For example 14d.")
    if until is None:
        return TimeSpan(seconds)
    stamp = parse_iso(until)
    if stamp is None:
        hint = "For example 2026-11-24T08:00:00Z."
        raise InputError(f"--until {until[:40]}", "must be a date and time", "ISO 8601", hint)
    return TimeSpan(seconds, stamp.epoch_s)
