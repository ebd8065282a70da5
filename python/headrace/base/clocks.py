"""Moments and spans of time in words."""

from __future__ import annotations

from datetime import datetime, timedelta


def clock_text(clock_start: str | None, t_s: float, dated: bool = True, seconds: bool = False) -> str | None:
    """`t_s` seconds after a `clock_start` as HH:MM[:SS], with its date where that is known and `dated`; None without a clock."""
    if clock_start is None:
        return None
    known = len(clock_start) > 8
    moment = datetime.fromisoformat(clock_start if known else f"2000-01-01T{clock_start}") + timedelta(seconds=t_s)
    time = "%H:%M:%S" if seconds else "%H:%M"
    return moment.strftime(f"%Y-%m-%d {time}" if known and dated else time)


def span_in_words(seconds: float) -> str:
    """`45 s`, `20 min`, `6 h 30 min`, `2 days`."""
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
