"""Times as the tools print them.

`iostat`, `sar` and `vmstat` print dates as the locale has them. Month and day are told apart by
looking at all dates of a file at once; dates that stay ambiguous are read as month/day, as sysstat
prints them without a locale, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from headrace.base.units import HOUR_S
from headrace.observe.recording import Recording

DATE = r"(?P<a>\d{4}|\d{1,2})[-/.] ?(?P<b>\d{1,2})[-/.] ?(?P<c>\d{4}|\d{1,2})"
TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})(?:[.,]\d+)?"
HALF = r"(?: ?(?P<half>[AaPp]\.?[Mm]\.?))?"
ZONE = r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2}|[A-Z]{2,5}))?"
STAMP = re.compile(rf"{DATE}\.?,?[ T]+{TIME}{HALF}{ZONE}\Z", re.ASCII)
DAY = re.compile(rf"{DATE}\.?\Z", re.ASCII)
TIME_OF_DAY = re.compile(rf"{TIME}{HALF}\Z", re.ASCII)
EPOCH = datetime(1970, 1, 1)
# A recording is from these years (a guess: no tool read here is older): anything else is a wrong
# clock.
FIRST_YEAR, LAST_YEAR = 1990, 2100


@dataclass(frozen=True)
class Stamp:
    """A moment: `epoch_s` for differences (UTC when the zone is known, else as printed), `local` as
    printed.

    `zone`: "UTC", or "UTC+01:00", when it was printed with it.
    """

    epoch_s: float
    local: datetime
    zone: str | None = None


def looks_like_stamp(text: str) -> bool:
    """Returns True when the whole text is a date and a time."""
    return STAMP.match(text) is not None


def parse_stamps(recording: Recording, texts: Sequence[tuple[int | str, str]]) -> list[Stamp]:
    """Returns the moments that `texts`, pairs of place and text, name: all those of one file, whose
    order of day and month is found together. Raises InputError."""
    matches = []
    for where, text in texts:
        match = STAMP.match(text.strip())
        if not match:
            hint = "Record with S_TIME_FORMAT=ISO, or LC_ALL=C."
            raise recording.make_error(where, text, "is not a date and time this reader knows", hint)
        matches.append((where, text, match))
    zones = {match["zone"] is not None and match["zone"][0] in "+-ZUG" for _, _, match in matches}
    if len(zones) > 1:
        hint = "Two recordings were joined: import them one by one."
        raise recording.make_error(
            matches[0][0], matches[0][1], "some times of this file have a zone, others do not", hint
        )
    order = _detect_day_order(recording, matches)
    return [_parse_stamp(recording, where, text, match, order) for where, text, match in matches]


def parse_days(recording: Recording, texts: Sequence[tuple[int | str, str]]) -> list[date]:
    """Returns the days in `texts`, pairs of place and text of one file. Raises InputError."""
    matches = [(where, text, DAY.match(text.strip())) for where, text in texts]
    for where, text, match in matches:
        if not match:
            hint = "Record with S_TIME_FORMAT=ISO, or LC_ALL=C."
            raise recording.make_error(where, text, "is not a date this reader knows", hint)
    order = _detect_day_order(recording, matches)
    return [_parse_date(recording, where, text, match, order) for where, text, match in matches if match]


def parse_time_of_day(text: str) -> int | None:
    """Returns `00:10:01` or `12:10:01 AM` as seconds after midnight, None when it is not a time."""
    match = TIME_OF_DAY.match(text)
    hour = _parse_hour(match) if match else None
    if match is None or hour is None or int(match["minute"]) > 59 or int(match["second"]) > 60:
        return None
    return hour * HOUR_S + int(match["minute"]) * 60 + int(match["second"])


def parse_iso(text: str) -> Stamp | None:
    """Returns the moment of a time in ISO 8601, or in seconds since 1970; None for another text."""
    text = text.strip()
    if re.fullmatch(r"\d{9,10}(\.\d+)?", text, re.ASCII):
        moment = EPOCH + timedelta(seconds=float(text))
        if not FIRST_YEAR <= moment.year <= LAST_YEAR:
            return None
        return Stamp(float(text), moment, "UTC")
    if not re.match(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}[ T]\d{1,2}:\d{2}", text, re.ASCII):
        return None
    text = text.replace("/", "-").replace(" UTC", "+00:00")
    try:
        moment = datetime.fromisoformat(text)
        return from_datetime(moment) if FIRST_YEAR <= moment.year <= LAST_YEAR else None
    except (ValueError, OverflowError):
        return None


def from_datetime(moment: datetime) -> Stamp:
    """Returns a datetime as a Stamp; without a zone, `epoch_s` is that of the time as printed."""
    local = moment.replace(tzinfo=None)
    utc = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else local
    zone = format_zone(round((local - utc).total_seconds())) if moment.tzinfo else None
    return Stamp((utc - EPOCH).total_seconds(), local, zone)


def format_zone(offset_s: int) -> str:
    """Returns "UTC" or "UTC+01:00" for a clock that is `offset_s` ahead of UTC."""
    hours, rest = divmod(abs(offset_s), HOUR_S)
    return f"UTC{'-' if offset_s < 0 else '+'}{hours:02d}:{rest // 60:02d}" if offset_s else "UTC"


def _detect_day_order(recording: Recording, matches: list) -> str:
    """Returns `mdy` or `dmy`, whichever fits all dates that do not begin with a year; notes it in
    the recording where both do. Raises InputError where neither does."""
    pairs = {(int(m["a"]), int(m["b"])) for _, _, m in matches if len(m["a"]) < 4}
    dotted = any("." in text.split()[0] for _, text, m in matches if len(m["a"]) < 4)
    first_over, second_over = any(a > 12 for a, _ in pairs), any(b > 12 for _, b in pairs)
    if first_over and second_over:
        where, text, _ = matches[0]
        hint = "Two recordings were joined: import them one by one."
        raise recording.make_error(where, text, "dates of this file are neither all month/day nor all day/month", hint)
    if first_over or dotted:  # a date with dots is day first wherever it is in use
        return "dmy"
    if second_over or not pairs:
        return "mdy"
    # Both readings are possible. A day that goes on to the next moves the day, seldom the month.
    if len({a for a, _ in pairs}) > len({b for _, b in pairs}):
        return "dmy"
    if all(a == b for a, b in pairs):
        return "mdy"
    note = "The dates can be read as month/day or day/month; month/day was taken. Record with S_TIME_FORMAT=ISO to be sure."
    recording.note(note)
    return "mdy"


def _parse_date(recording: Recording, where: int | str, text: str, match: re.Match[str], order: str) -> date:
    """Returns the day of a matched time; two-digit years are those of 2000 to 2099. Raises
    InputError if the calendar has no such day, or for a year that no recording is from."""
    a, b, c = int(match["a"]), int(match["b"]), int(match["c"])
    if len(match["a"]) == 4:
        year, month, day = a, b, c
    else:
        year = c if len(match["c"]) == 4 else 2000 + c
        month, day = (a, b) if order == "mdy" else (b, a)
    try:
        day_of_calendar = date(year, month, day)
    except ValueError:
        hint = "The line is damaged, or two recordings were joined."
        raise recording.make_error(where, text, "is not a day of the calendar", hint) from None
    if not FIRST_YEAR <= year <= LAST_YEAR:
        hint = "The clock of that host was wrong."
        raise recording.make_error(where, text, f"a recording is from the years {FIRST_YEAR} to {LAST_YEAR}", hint)
    return day_of_calendar


def _parse_hour(match: re.Match[str]) -> int | None:
    """Returns the hour of the day, 0 to 23, of a matched time with or without AM and PM; None where
    it is not an hour."""
    hour, half = int(match["hour"]), match["half"]
    if half:
        if not 1 <= hour <= 12:
            return None
        return hour % 12 + (12 if half[0] in "Pp" else 0)
    return hour if hour <= 23 else None


def _parse_stamp(recording: Recording, where: int | str, text: str, match: re.Match[str], order: str) -> Stamp:
    """Returns the stamp of a matched time, read in the order `order` of day and month; a time
    without a zone is taken as UTC. Raises InputError if it is not a time of day or of the
    calendar."""
    day, hour = _parse_date(recording, where, text, match, order), _parse_hour(match)
    minute, second = int(match["minute"]), int(match["second"])
    if hour is None or minute > 59 or second > 59:
        raise recording.make_error(where, text, "is not a time of day", "The line is damaged: take its report out.")
    local = datetime(day.year, day.month, day.day, hour, minute, second)
    offset, zone, name = 0, match["zone"], None
    if zone and zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        offset = (1 if zone[0] == "+" else -1) * (int(digits[:2]) * HOUR_S + int(digits[2:]) * 60)
        name = format_zone(offset)
    elif zone in ("Z", "UTC", "GMT"):
        name = "UTC"
    return Stamp((local - EPOCH).total_seconds() - offset, local, name)
