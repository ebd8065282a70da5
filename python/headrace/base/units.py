"""Units as factors, and functions that write days, moments and spans of time in words.

size_gib * GIB            bytes
throughput_mib_s * MIB    bytes a second
usd_hour * HOURS_PER_MONTH
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from headrace.base.checks import quote_value
from headrace.errors import InputError

# IEC 80000-13.
KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Seconds.
MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S
SPAN_UNITS = {"s": 1, "m": MINUTE_S, "min": MINUTE_S, "h": HOUR_S, "d": DAY_S, "w": 7 * DAY_S}

# AWS quotes and bills months of 365 x 24 / 12 hours (AWS Pricing Calculator).
HOURS_PER_MONTH = 730.0

# Milliseconds and microseconds.
US_PER_S = 1e6
US_PER_MS = 1e3


# A day in the public functions: ISO text or a date; None is the newest that the catalog has.
Day = str | date | None

# A normal variable lies within this many standard deviations of its mean with 80 %.
Z80 = 1.2816


def normalise_day(as_of: object) -> str | None:
    """Returns a day as ISO text, from a date or a datetime; text and None (the newest day) stay as
    they are, and the core checks them. Raises InputError for anything else."""
    if isinstance(as_of, date):
        return as_of.strftime("%Y-%m-%d")
    if as_of is None or isinstance(as_of, str):
        return as_of
    raise InputError(
        f"as_of = {quote_value(as_of)}", "must be a day", "docs/reference/python.md", "For example 2018-08-15."
    )


def read_span(text: str, what: str, source: str = "", least_s: float = 1.0) -> float:
    """Returns a span of time such as `90s`, `1.5h` or `14d` in seconds. `what`, `source`: the
    option and its documentation, for errors. Raises InputError, also for less than `least_s`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|m|min|h|d|w)", text.strip(), re.ASCII)
    seconds = -1.0 if match is None else float(match[1]) * SPAN_UNITS[match[2]]
    if seconds < least_s:
        rule = "must be a number with its unit: s, m, h, d or w"
        raise InputError(f"{what} {text[:40]}", rule, source, "For example 90m, 36h or 14d.")
    return seconds


def describe_days(first: str, last: str) -> str:
    """Returns `on` and the day, or `between` and both days where they differ."""
    return f"on {first}" if first == last else f"between {first} and {last}"


def write_clock(clock_start: str | None, t_s: float, dated: bool = True, seconds: bool = False) -> str | None:
    """Returns the moment `t_s` seconds after `clock_start` (a time of day, or an ISO date and time)
    as HH:MM[:SS], with its date if `clock_start` has one and `dated` is on; None without a
    `clock_start`."""
    if clock_start is None:
        return None
    has_date = len(clock_start) > 8
    moment = datetime.fromisoformat(clock_start if has_date else f"2000-01-01T{clock_start}") + timedelta(seconds=t_s)
    time = "%H:%M:%S" if seconds else "%H:%M"
    return moment.strftime(f"%Y-%m-%d {time}" if has_date and dated else time)


def describe_span(seconds: float) -> str:
    """Returns `45 s`, `20 min`, `6 h 30 min`, or `2 days`: below 2 min with the fractions of a
    second that are given, then in whole minutes, from 2 days in whole hours."""
    if seconds < 120:
        return f"{seconds:g} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} days {hours} h" if hours else f"{days} days"


def describe_repeats(count: int) -> str:
    """Returns how often something was repeated, in words: `once more`, `7 times more`."""
    return "once more" if count == 1 else f"{count} times more"


def format_percent(share: float, digits: int = 0, sign: str = "") -> str:
    """Returns a share as text, `0.95` as `95 %`; `sign="+"` puts a plus before a positive share."""
    return f"{share:{sign}.{digits}%}".replace("%", " %")
