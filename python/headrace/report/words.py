"""Times, sizes and limits as people write them. Units: seconds, milliseconds, GiB, MiB/s, USD."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.base import core
from headrace.base.units import describe_span

if TYPE_CHECKING:
    from headrace.planner.goals import Goal

# The blank between a number and its unit: a line must not be broken there.
UNIT = re.compile(r"(?<=\d) (?=(?:[KMGT]i?B(?:/s)?|IOPS|[mµu]?s|min|h|days?|months?|years?|%|USD|tps|vCPUs?)(?![\w/]))")


def glue_units(text: str, glue: str = "\u00a0") -> str:
    """Returns a text with `glue` in the place of the blank between a number and its unit."""
    return UNIT.sub(glue, text)


def format_number(value: float | None, digits: int = 3) -> str:
    """Returns a number with `digits` significant figures, or more if its whole part has more: 3,439
    and 0.0123. None and NaN are a dash."""
    if value is None or isinstance(value, float) and math.isnan(value):
        return "-"
    if math.isinf(value):
        return "endless" if value > 0 else "-endless"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_percent(share: float | None) -> str:
    """Returns a share (0 to 1) in percent. A share just below 1 is not rounded to 100 %, nor one
    just above 0 to 0 %."""
    if share is None or math.isnan(share):
        return "-"
    value = 100 * share
    if 99.5 <= value < 100:
        return f"{math.floor(value * 100) / 100:.2f} %"
    if 0 < value < 0.01:
        return "< 0.01 %"
    if 0 < value < 1:
        return f"{value:.2g} %"
    return f"{value:.0f} %"


def format_span(seconds: float | None) -> str:
    """Returns a length of time: `120 ms`, `4.2 s`, `20 min`, `6 h 30 min`."""
    if seconds is None or math.isnan(seconds):
        return "-"
    if math.isinf(seconds):
        return format_number(seconds)
    if seconds == 0:
        return "0 s"
    if seconds < 0.995:
        return f"{format_number(seconds * 1e3, 2)} ms"
    if seconds < 60:
        return f"{format_number(seconds, 2)} s"
    return describe_span(round(seconds))


def format_latency(ms: float | None) -> str:
    """Returns a latency in ms with three significant figures, from 1 s on in seconds, and from a
    minute on as `format_span`."""
    if ms is None or math.isnan(ms):
        return "-"
    if ms < 1_000:
        return f"{format_number(ms, 3)} ms"
    return f"{format_number(ms / 1e3, 3)} s" if ms < 60_000 else format_span(ms / 1e3)


def format_usd(amount: float | None) -> str:
    """Returns US dollars with cents; a dash when the price is not known."""
    return "-" if amount is None or math.isnan(amount) else f"{amount:,.2f}"


def describe_goal(goal: Goal) -> str:
    """Returns a goal in a reader's words: `head-room at least 20 %`, `never throttled`."""
    if goal.metric == "throttled_min" and goal.limit == 0:
        return "never throttled"
    about = goal.about
    words, bound = about.words or about.meaning, "at most" if about.sign == "<=" else "at least"
    return f"{words} {bound} {format_number(goal.limit, 6)}{f' {about.unit}' if about.unit != words else ''}"


def parse_clock_start(clock_start: object) -> datetime | None:
    """Returns a workload's `clock_start` (`HH:MM:SS` or an ISO time) as a moment, or None."""
    if not isinstance(clock_start, str):
        return None
    try:
        moment = datetime.fromisoformat(clock_start if len(clock_start) > 8 else f"2000-01-01T{clock_start}")
    except ValueError:
        return None
    return moment.replace(tzinfo=None)


def format_moment(text: str) -> str:
    """Returns an ISO time to the minute, such as `2026-11-28 10:00`; other text as it is."""
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return text


def format_clock(t_s: float | None, clock_start: object = None, seconds: bool = False) -> str:
    """Returns the time of day `t_s` seconds after `clock_start`, as `HH:MM` or `HH:MM:SS`, with
    `+1d` on later days; without a clock, the time since the start."""
    if t_s is None or not math.isfinite(t_s):
        return "-"
    moment = parse_clock_start(clock_start)
    if moment is None:
        whole = int(t_s)
        days, rest = divmod(whole, 86_400)
        text = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}" + (f":{rest % 60:02d}" if seconds else "")
    else:
        then = moment + timedelta(seconds=t_s)
        days = (then.date() - moment.date()).days
        text = then.strftime("%H:%M:%S" if seconds else "%H:%M")
    return f"{text} +{days}d" if days else text


def list_row_labels(starts_s: list[float], start: object = None) -> Iterator[str]:
    """Yields the start of each row as a clock time: in minutes where all are whole minutes, else in
    seconds or milliseconds."""
    if all(abs(t - round(t / 60) * 60) < 5e-4 for t in starts_s[1:] or starts_s):
        yield from (format_clock(t, start) for t in starts_s)
    elif all(abs(t - round(t)) < 5e-4 for t in starts_s):
        yield from (format_clock(round(t), start, seconds=True) for t in starts_s)
    else:
        for t in starts_s:
            whole, _, part = f"{t:.3f}".partition(".")
            yield f"{format_clock(int(whole), start, seconds=True)}.{part}"


def describe_storage(storage: str, brief: bool = False) -> str:
    """Returns a storage in a reader's words: `gp3 of 155 GiB with 4,423 IOPS`, `RAID 0 of 5 x gp3
    of 31 GiB`; `brief`: without IOPS and MiB/s."""
    layout = core.parse_storage(storage)
    members = []
    for member in layout["members"]:
        extra = [f"{format_number(member['iops'], 6)} IOPS"] if member["iops"] else []
        extra += [f"{format_number(member['throughput_mib_s'], 6)} MiB/s"] if member["throughput_mib_s"] else []
        size = f"{member['volume_type']} of {format_number(member['size_gib'], 6)} GiB"
        members.append(f"{size} with {' and '.join(extra)}" if extra and not brief else size)
    if layout["raid"] is None:
        return members[0]
    alike = list(dict.fromkeys(members))
    words = f"{len(members)} x {alike[0]}" if len(alike) == 1 else " and ".join(members)
    return f"RAID {layout['raid'].removeprefix('raid')} of {words}"
