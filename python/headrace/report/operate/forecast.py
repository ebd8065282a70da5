"""A forecast in words and as a page, and how earlier ones turned out. Takes results; runs
nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from headrace.base import caps
from headrace.errors import InputError
from headrace.report.html import Page, write_chart
from headrace.report.operate import forecast_charts as charts
from headrace.report.output import plain
from headrace.report.words import number, percent, span

NEVER = "not in sight"
# A row of the hours in which requests wait names those with at least this many minutes of waiting.
NAMED_MIN = 1.0
# A balance recorded within these seconds of the end is called today's: CloudWatch publishes
# BurstBalance each five minutes (EBS guide, CloudWatch metrics).
FRESH_S = 300.0
SCHEMA = "headrace-forecast/1"


def in_words(made) -> list[str]:
    """A forecast, a sentence or two a line."""
    where = f"{made.storage} on {made.instance}" if made.instance else made.storage
    lines = [f"{made.of} on {where}, from the end of the recording, {_moment(made, timedelta())}."]
    if made.credits is not None:
        lines += _credits(made, made.credits)
    lines += [_growth(made, one) for one in made.growth]
    if made.space is not None:
        lines.append(_space(made.space))
    return lines + [f"Not forecast: {one}." for one in made.missing]


def _moment(made, ahead: timedelta) -> str:
    at = made.made_at + ahead
    return at.strftime("%a %Y-%m-%d %H:%M" if made.dated else "%H:%M")


def _credits(made, ahead) -> list[str]:
    begin = f"Credits: {number(ahead.balance_percent)} % now ({_source(ahead)})"
    if ahead.instance_percent is not None:
        begin += f", {number(ahead.instance_percent)} % of the instance's (simulated)"
    futures = f"{ahead.runs} futures made of {ahead.drawn_from} recorded days"
    if ahead.share_empty == 0:
        lines = [f"{begin}; in the next {ahead.hours} h they do not run out in any of {futures}."]
    else:
        early, middle, late = (_after(made, hours, ahead.hours) for hours in ahead.empty_after_h)
        text = f"{begin}; in the next {ahead.hours} h they run out in {percent(ahead.share_empty)} of {futures}"
        when = f": {middle} (80 %: {early} to {late})" if math.isfinite(ahead.empty_after_h[0]) else ""
        lines = [f"{text}{when}."]
    if ahead.outage_h is not None:
        low, middle, high = (span(3_600 * value) for value in ahead.outage_h)
        lines.append(f"Once they run out, they are gone for {middle} in all (80 %: {low} to {high}).")
    worst = [hour for hour, minutes in enumerate(ahead.throttled_by_hour) if minutes >= NAMED_MIN]
    if worst:
        hour = max(range(24), key=ahead.throttled_by_hour.__getitem__)
        minutes = number(ahead.throttled_by_hour[hour], 2)
        lines.append(
            f"Requests wait mostly from {hour:02d}:00 to {(hour + 1) % 24:02d}:00 ({minutes} min of that hour)."
        )
    if math.isfinite(ahead.soon.seconds):
        doubt = ""
        if ahead.soon.earliest is not None and ahead.soon.latest is not None:
            earliest, latest = (_span(value) for value in (ahead.soon.earliest, ahead.soon.latest))
            doubt = f" (80 %: {earliest} to {latest})"
        lines.append(f"If demand stays as in the last minute, they are gone in {span(ahead.soon.seconds)}{doubt}.")
    return lines


def _source(ahead) -> str:
    if ahead.balance_age_s <= FRESH_S:
        return ahead.balance_source
    return f"{ahead.balance_source} {span(ahead.balance_age_s)} before the end, simulated since"


def _span(seconds: float) -> str:
    return span(seconds) if math.isfinite(seconds) else "never"


def _after(made, hours: float, horizon: int) -> str:
    if not math.isfinite(hours):
        return f"not within {horizon} h"
    return f"{_moment(made, timedelta(hours=hours))}, in {span(3_600 * hours)}"


def _growth(made, one) -> str:
    cap = caps.long(one.cap)
    now = f"the busiest five minutes of a day take {percent(one.share_now)} of {cap} ({number(one.limit)} {one.unit})"
    now += ": it is at the limit now" if one.at_limit else ""
    if not one.trend.claimed:
        return f"Growth: {now}; {_no_trend(one.trend, made.made_at - timedelta(days=1) if made.dated else None)}."
    low, middle, high = (percent(value) for value in one.growth_per_month)
    text = f"Growth: {now}; {middle} in 30 days (80 %: {low} to {high}), from {one.trend.days} days{_bent(one.trend)}"
    if one.trend.per_day <= 0 or one.at_limit:
        return f"{text}."
    return f"{text}; 90 % of the limit is met {_on(made.made_at, one.days)}."


def _space(full) -> str:
    limit = f"{number(full.limit_gib, 4)} GiB"
    when = "" if full.used_on == full.last else f" (on {full.used_on:%Y-%m-%d})"
    now = f"Space: {number(full.used_gib, 4)} GiB used at the most{when}, full at {limit}"
    if full.full:
        share = percent(full.used_gib / full.limit_gib)
        now = f"Space: the volume is full: {number(full.used_gib, 4)} GiB used{when}, {share} of {limit}"
    if not full.trend.claimed:
        return f"{now}; {_no_trend(full.trend, full.last)}."
    month = f"{number(30 * full.trend.per_day)} GiB in 30 days, from {full.trend.days} days{_bent(full.trend)}"
    cut = "" if full.trend.cut is None else " (what was before a sudden change is left out)"
    text = f"{now}; {month}{cut}"
    return f"{text}." if full.full else f"{text}: full {_on(full.last, full.days)}."


def _bent(trend) -> str:
    """How growth changes, where it is not a straight line."""
    if not trend.curved:
        return ""
    return (
        " (at today's rate, which changes)"
        if trend.kinds[0] != "factor"
        else " (at today's rate; it grows by a factor)"
    )


def _no_trend(trend, last: datetime | None) -> str:
    """Why nothing is said of the days to come."""
    if trend.enough:
        return f"no trend in {trend.days} days"
    if trend.cut is None:
        return f"no trend: {trend.days} days are too few, 14 are needed"
    at = f"on {last + timedelta(days=trend.since):%Y-%m-%d}" if last is not None else f"{-trend.since:.0f} days ago"
    return f"no trend: it changed suddenly {at}, and {trend.days} days behind that are too few (14 are needed)"


def _on(today: datetime, days: Sequence[float]) -> str:
    early, middle, late = (
        (today + timedelta(days=one)).strftime("%Y-%m-%d") if math.isfinite(one) else NEVER for one in days
    )
    return middle if middle == NEVER else f"on {middle} (80 %: {early} to {late})"


def write_forecast(path: Path, made) -> None:
    """The page (.html) or the first chart alone (.svg, .png): of credits, else of space, else of
    growth. Raises InputError where there is none, CouldNotRun."""
    drawn = charts.charts_of(made)
    if not drawn and path.suffix.lower() != ".html":
        hint = "Write a page (.html) instead."
        raise InputError(str(path), "nothing is forecast here that a chart shows", "headrace forecast --help", hint)

    def page() -> Page:
        made_page = Page(f"Forecast of {made.of}", f"{made.storage}, from {_moment(made, timedelta())}")
        made_page.items(in_words(made))
        for chart in drawn:
            made_page.chart(chart, " ".join(in_words(made)))
        made_page.items(f"note: {note}" for note in made.notes)
        return made_page

    write_chart(path, drawn[0] if drawn else None, page)


def document(made) -> dict:
    """The forecast for programs; infinite is null."""
    credits = made.credits
    return {
        "schema": SCHEMA,
        "of": made.of,
        "storage": made.storage,
        "instance": made.instance,
        "made": made.made_at.isoformat(),
        "dated": made.dated,
        "credits": None
        if credits is None
        else {
            "hours": credits.hours,
            "runs": credits.runs,
            "drawn_from_days": credits.drawn_from,
            "balance_percent": credits.balance_percent,
            "balance_source": credits.balance_source,
            "balance_age_s": credits.balance_age_s,
            "instance_balance_percent": credits.instance_percent,
            "share_empty": credits.share_empty,
            "empty_after_h": _finite(credits.empty_after_h),
            "outage_h": credits.outage_h,
            "throttled_min_by_hour": credits.throttled_by_hour,
            "empty_in_s_at_this_rate": _finite((credits.soon.seconds,))[0],
            "balance": credits.fan.filter(pl.col("hours") % 1 == 0).to_dicts(),
        },
        "growth": [
            {
                "cap": one.cap,
                "unit": one.unit,
                "limit": one.limit,
                "share_now": one.share_now,
                "at_limit_now": one.at_limit,
                "trend": one.trend.claimed,
                "growth_per_30_days": one.growth_per_month if one.trend.claimed else None,
                "days_until_90_percent": _finite(one.days),
                "from_days": one.trend.days,
            }
            for one in made.growth
        ],
        "space": None
        if made.space is None
        else {
            "limit_gib": made.space.limit_gib,
            "used_gib": made.space.used_gib,
            "used_on": made.space.used_on.date().isoformat(),
            "full_now": made.space.full,
            "trend": made.space.trend.claimed,
            "gib_per_day": [made.space.trend.low, made.space.trend.per_day, made.space.trend.high]
            if made.space.trend.claimed
            else None,
            "days_until_full": _finite(made.space.days),
            "from_days": made.space.trend.days,
        },
        "not_said": [plain(one) for one in made.missing],
        "notes": list(made.notes),
    }


def _finite(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]


SCORE_COLUMNS = ("quantity", "ahead", "forecasts", "held", "median error")


def score_rows(scores) -> list[tuple[str, ...]]:
    """How earlier forecasts turned out, a row per quantity and distance."""
    return [
        (
            one.quantity,
            span(one.ahead.total_seconds()),
            str(one.count),
            percent(one.hits / one.count),
            number(one.median_error),
        )
        for one in scores
    ]
