"""When the volume is full: a trend of the daily maxima of used space.

The maximum of a day, because a volume is full at its highest moment: temporary tables and binary
logs that are purged later count. InnoDB's files do not shrink when rows are deleted; what is free
inside them is used first (information_schema.tables, data_free), so it can be taken off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from headrace.base.units import GIB
from headrace.observe.recording import Recording
from headrace.observe.recording import refuse as refuse_recording
from headrace.observe.series import open_text, read_csv_rows
from headrace.operate.forecast.history import refuse
from headrace.operate.forecast.trend import Trend, fit_trend

# The specification of this forecast: a week, so that a weekly purge is in the most that was used; a
# trend needs two (`trend.LEAST_DAYS`).
LEAST_DAYS = 7
# Share of the limit from which a volume is called full: a temporary table takes the rest. A guess.
FULL_AT = 0.98
# Days in which the most is looked for: five weeks hold a purge each month, and each week; ours.
MOST_DAYS_BACK = 35
MARKS_DAYS = (7, 30)  # days ahead at which the figure is kept, to be scored later
TIME_COLUMNS = ("time", "timestamp", "date")
# A column of used space and how many bytes one of its units has.
UNITS = {"used_gib": float(GIB), "used_bytes": 1.0, "used_kib": 1024.0, "used_mib": 1024.0**2}


@dataclass(frozen=True)
class SpaceForecast:
    """`trend` of the daily maxima in GiB a day. `limit_gib`: where it is full. `days`: the 10th,
    50th and 90th percentile of days until then, infinite where it is not in sight. `last`: the last
    day of the history; `used_gib`: the most of the last five weeks, on the day `used_on`, of which
    `free_inside_gib` is free in files. `history`: what it rests on."""

    trend: Trend
    limit_gib: float
    days: tuple[float, float, float]
    last: datetime
    used_gib: float
    used_on: datetime
    free_inside_gib: float = 0.0
    history: SpaceHistory | None = field(default=None, repr=False, compare=False)

    @property
    def full(self) -> bool:
        """True when it is full, or was lately: to 98 %, or to the last byte if files have room."""
        taken = self.used_gib - self.free_inside_gib
        return taken >= FULL_AT * self.limit_gib or self.used_gib >= self.limit_gib


@dataclass(frozen=True)
class SpaceHistory:
    """The highest used space of each day, GiB, without holes; `first` is the first day. `recorded`:
    which of the days were recorded, where the others were laid between them; None: all."""

    first: datetime
    used_gib: np.ndarray
    recorded: np.ndarray | None = None

    @property
    def last(self) -> datetime:
        return datetime.fromordinal(self.first.toordinal() + len(self.used_gib) - 1)


def read_space(path: Path) -> SpaceHistory:
    """Reads a CSV with a time and used_gib, used_mib, used_kib or used_bytes (`df -B1
    --output=used`).

    Days without a line are laid on the straight line between their neighbours; the trend does not
    rest on them. Raises InputError for another header, a time that is not ISO 8601, a zone in some
    lines only, or fewer than seven days with a line.
    """
    recording = open_text(path)
    rows = read_csv_rows(recording, [])
    number, header = next(rows)
    names = [name.strip().lower() for name in header]
    at = next((names.index(name) for name in TIME_COLUMNS if name in names), None)
    used = next((name for name in UNITS if name in names), None)
    if at is None or used is None:
        rule = f"the header must name {' or '.join(TIME_COLUMNS)}, and {', '.join(UNITS)}"
        raise recording.make_error(number, ",".join(header), rule, "For example time,used_bytes.", refuse.source)
    highest: dict[int, float] = {}
    zoned: bool | None = None
    for line, cells in rows:
        moment = _parse_moment(recording, line, cells[at])
        zoned = moment.tzinfo is not None if zoned is None else zoned
        if zoned != (moment.tzinfo is not None):
            raise recording.make_error(
                line, cells[at], "has a zone where other lines have none, or the reverse", "", refuse.source
            )
        gib = recording.parse_number(line, used, cells[names.index(used)]) * UNITS[used] / GIB
        day = moment.toordinal()
        highest[day] = max(gib, highest.get(day, 0.0))
    return _make_history(recording.name, highest)


def convert_free_space(name: str, free_bytes: Mapping[float, float], size_gib: float) -> SpaceHistory | None:
    """Returns the history for free space by time (seconds since 1970, UTC days) on a volume of that
    size, as RDS publishes it; None where fewer than seven days were recorded. Raises InputError."""
    highest: dict[int, float] = {}
    for at, free in free_bytes.items():
        day = datetime.fromtimestamp(at, UTC).toordinal()
        highest[day] = max(size_gib - free / GIB, highest.get(day, 0.0))
    return None if len(highest) < LEAST_DAYS else _make_history(name, highest)


def _make_history(name: str, highest: dict[int, float]) -> SpaceHistory:
    """Returns the history of the highest used GiB of days by their ordinals. Raises InputError for
    fewer than seven."""
    ordinals = sorted(highest)
    if len(ordinals) < LEAST_DAYS:
        rule = f"a forecast of space needs at least {LEAST_DAYS} days that were recorded"
        raise refuse.input(f"{name}: {len(ordinals)} days with a line", rule, "Record longer, each day.")
    days = np.arange(ordinals[0], ordinals[-1] + 1)
    used_gib = np.interp(days, ordinals, [highest[day] for day in ordinals])
    return SpaceHistory(datetime.fromordinal(ordinals[0]), used_gib, np.isin(days, ordinals))


def _parse_moment(recording: Recording, line: int, text: str) -> datetime:
    """Reads an ISO 8601 time, with a zone or without. Raises InputError that names the line."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        rule = "must be an ISO 8601 time, such as 2026-03-01T00:00:00Z"
        raise recording.make_error(line, text, rule, "", refuse_recording.source) from None


def forecast_space(
    history: SpaceHistory, limit_gib: float, *, free_inside_gib: float = 0.0, seed: int = 1
) -> SpaceForecast:
    """Forecasts when the daily maximum reaches `limit_gib`; `free_inside_gib`, room in the files
    that is used first, delays that."""
    count = len(history.used_gib)
    recorded = np.arange(count) if history.recorded is None else np.flatnonzero(history.recorded)
    trend = fit_trend(history.used_gib[recorded], seed, recorded - (count - 1))
    days = trend.forecast_days(limit_gib + free_inside_gib)
    used_gib, used_at = _find_most(history.used_gib, trend)
    used_on = datetime.fromordinal(history.last.toordinal() + used_at)
    return SpaceForecast(trend, limit_gib, days, history.last, used_gib, used_on, free_inside_gib, history)


def _find_most(used_gib: np.ndarray, trend: Trend) -> tuple[float, int]:
    """Returns the most used in the last weeks, GiB, and the place of that day (0: the last, earlier
    ones negative): what is purged each week or month comes again. Days before a sudden change do
    not count; a claimed shrinkage is taken off earlier days."""
    days = np.arange(1 - len(used_gib), 1)
    seen = days >= max(1 - MOST_DAYS_BACK, trend.since if trend.cut is not None else -np.inf)
    shrinks = min(0.0, trend.per_day) if trend.claimed else 0.0
    levels = np.where(seen, used_gib - shrinks * days, -np.inf)
    at = len(levels) - 1 - int(np.argmax(levels[::-1]))  # the last of equal ones
    return float(levels[at]), int(days[at])
