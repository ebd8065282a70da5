"""A forecast in words and as a page, and how earlier ones turned out. Takes results; runs
nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

from headrace.base import caps
from headrace.base.encoding import pick_fields
from headrace.report.operate import forecast_charts as charts
from headrace.report.output import sanitize_text
from headrace.report.view import Block, Card, Fold, Heading, Items, Table, View, make_columns, make_drawn_chart
from headrace.report.words import format_number, format_percent, format_span

if TYPE_CHECKING:
    from headrace.operate.forecast.answer import Forecast
    from headrace.operate.forecast.credits import CreditForecast
    from headrace.operate.forecast.growth import GrowthForecast
    from headrace.operate.forecast.ledger import Score
    from headrace.operate.forecast.space import SpaceForecast
    from headrace.operate.forecast.trend import Trend

NEVER = "not in sight"
# A row of the hours in which requests wait names those with at least this many minutes of waiting.
NAMED_MIN = 1.0
# A balance recorded within these seconds of the end is called today's: CloudWatch publishes
# BurstBalance each five minutes (EBS guide, CloudWatch metrics).
FRESH_S = 300.0
SCHEMA = "headrace-forecast/1"


def describe_forecast(forecast: Forecast) -> list[str]:
    """Returns sentences on a forecast: credits, growth, space, and what is not forecast."""
    where = f"{forecast.storage} on {forecast.instance}" if forecast.instance else forecast.storage
    lines = [f"{forecast.of} on {where}, from the end of the recording, {_format_moment(forecast, timedelta())}."]
    if forecast.credits is not None:
        lines += _describe_credits(forecast, forecast.credits)
    lines += [_describe_growth(forecast, growth) for growth in forecast.growth]
    if forecast.space is not None:
        lines.append(_describe_space(forecast.space))
    return lines + [f"Not forecast: {text}." for text in forecast.missing]


def _format_moment(forecast: Forecast, ahead: timedelta) -> str:
    at = forecast.made_at + ahead
    return at.strftime("%a %Y-%m-%d %H:%M" if forecast.dated else "%H:%M")


def _describe_credits(forecast: Forecast, ahead: CreditForecast) -> list[str]:
    """Returns sentences on when credits run out in the simulated futures, for how long, and at
    which hours requests wait."""
    begin = f"Credits: {format_number(ahead.balance_percent)} % now ({_describe_source(ahead)})"
    if ahead.instance_percent is not None:
        begin += f", {format_number(ahead.instance_percent)} % of the instance's (simulated)"
    futures = f"{ahead.runs} futures made of {ahead.drawn_from} recorded days"
    if ahead.share_empty == 0:
        lines = [f"{begin}; in the next {ahead.hours} h they do not run out in any of {futures}."]
    else:
        early, middle, late = (_describe_event_time(forecast, hours, ahead.hours) for hours in ahead.empty_after_h)
        text = f"{begin}; in the next {ahead.hours} h they run out in {format_percent(ahead.share_empty)} of {futures}"
        when = f": median {middle} (80 % interval: {early} to {late})" if math.isfinite(ahead.empty_after_h[0]) else ""
        lines = [f"{text}{when}."]
    if ahead.outage_h is not None:
        low, middle, high = (format_span(3_600 * value) for value in ahead.outage_h)
        lines.append(f"Once they run out, they are gone for {middle} in all (80 % interval: {low} to {high}).")
    worst = [hour for hour, minutes in enumerate(ahead.throttled_by_hour) if minutes >= NAMED_MIN]
    if worst:
        hour = max(range(24), key=ahead.throttled_by_hour.__getitem__)
        minutes = format_number(ahead.throttled_by_hour[hour], 2)
        lines.append(
            f"Requests wait mostly from {hour:02d}:00 to {(hour + 1) % 24:02d}:00 ({minutes} min of that hour)."
        )
    if math.isfinite(ahead.soon.seconds):
        doubt = ""
        if ahead.soon.earliest is not None and ahead.soon.latest is not None:
            earliest, latest = (_format_span(value) for value in (ahead.soon.earliest, ahead.soon.latest))
            doubt = f" (80 % interval: {earliest} to {latest})"
        lines.append(
            f"If demand stays as in the last minute, they are gone in {format_span(ahead.soon.seconds)}{doubt}."
        )
    return lines


def _describe_source(ahead: CreditForecast) -> str:
    if ahead.balance_age_s <= FRESH_S:
        return ahead.balance_source
    return f"{ahead.balance_source} {format_span(ahead.balance_age_s)} before the end, simulated since"


def _format_span(seconds: float) -> str:
    """Returns a number of seconds as text, infinity as "never"."""
    return format_span(seconds) if math.isfinite(seconds) else "never"


def _describe_event_time(forecast: Forecast, hours: float, horizon: int) -> str:
    """Returns the moment `hours` after the recording's end, in words; infinite: not within
    horizon."""
    if not math.isfinite(hours):
        return f"not within {horizon} h"
    return f"{_format_moment(forecast, timedelta(hours=hours))}, in {format_span(3_600 * hours)}"


def _describe_growth(forecast: Forecast, growth: GrowthForecast) -> str:
    """Returns a sentence on how demand grows in 30 days, and on when it meets 90 % of a limit."""
    cap = caps.describe_cap(growth.cap)
    now = f"the busiest five minutes of a day take {format_percent(growth.share_now)} of {cap} ({format_number(growth.limit)} {growth.unit})"
    now += ": it is at the limit now" if growth.at_limit else ""
    if not growth.trend.claimed:
        return f"Growth: {now}; {_explain_no_trend(growth.trend, forecast.made_at - timedelta(days=1) if forecast.dated else None)}."
    low, middle, high = (format_percent(value) for value in growth.growth_per_month)
    text = f"Growth: {now}; {middle} in 30 days (80 % interval: {low} to {high}), from {growth.trend.days} recorded days{_describe_bend(growth.trend)}"
    if growth.trend.per_day <= 0 or growth.at_limit:
        return f"{text}."
    return f"{text}; 90 % of the limit is met {_describe_date(forecast.made_at, growth.days)}."


def _describe_space(full: SpaceForecast) -> str:
    """Returns a sentence on the used space (GiB), its growth, and when the volume is full."""
    limit = f"{format_number(full.limit_gib, 4)} GiB"
    when = "" if full.used_on == full.last else f" (on {full.used_on:%Y-%m-%d})"
    now = f"Space: {format_number(full.used_gib, 4)} GiB used at most{when}, full at {limit}"
    if full.full:
        share = format_percent(full.used_gib / full.limit_gib)
        now = f"Space: the volume is full: {format_number(full.used_gib, 4)} GiB used{when}, {share} of {limit}"
    if not full.trend.claimed:
        return f"{now}; {_explain_no_trend(full.trend, full.last)}."
    month = f"{format_number(30 * full.trend.per_day)} GiB more in 30 days, from {full.trend.days} recorded days{_describe_bend(full.trend)}"
    cut = "" if full.trend.cut is None else " (what was before a sudden change is left out)"
    text = f"{now}; {month}{cut}"
    return f"{text}." if full.full else f"{text}: full {_describe_date(full.last, full.days)}."


def _describe_bend(trend: Trend) -> str:
    """Returns the words on a growth that is not linear; "" for a linear one."""
    if not trend.curved:
        return ""
    by_factor = trend.kinds[0] == "factor"
    return " (at today's rate; it grows by a factor)" if by_factor else " (at today's rate, which changes)"


def _explain_no_trend(trend: Trend, last: datetime | None) -> str:
    """Returns why there is no trend. `last`: the day of the last point, None without dates."""
    if trend.enough:
        return f"no trend in {trend.days} days"
    if trend.cut is None:
        return f"no trend: {trend.days} days are too few, 14 are needed"
    at = f"on {last + timedelta(days=trend.since):%Y-%m-%d}" if last is not None else f"{-trend.since:.0f} days ago"
    return f"no trend: it changed suddenly {at}, and {trend.days} days behind that are too few (14 are needed)"


def _describe_date(today: datetime, days: Sequence[float]) -> str:
    """Returns the date of an event with its 80 % interval, in words. `days`: 10th, 50th and 90th
    percentile of the days from `today`, infinite for never."""
    early, middle, late = (
        (today + timedelta(days=day)).strftime("%Y-%m-%d") if math.isfinite(day) else NEVER for day in days
    )
    when = middle if middle == NEVER else f"on {middle}"
    return NEVER if early == NEVER else f"{when} (80 % interval: {early} to {late})"


def build_view(forecast: Forecast) -> View:
    """Returns a forecast with its charts as a view."""
    lines = describe_forecast(forecast)
    blocks: list[Block] = [make_drawn_chart(chart, " ".join(lines)) for chart in charts.draw_charts(forecast)]
    if rows := _list_rows(forecast):
        blocks.append(Table(ENDS, rows))
    blocks += [Heading("In words"), Items(lines[1:])]
    if forecast.notes:
        blocks.append(Fold("Caveats", [Items(forecast.notes)]))
    figures = list(_build_cards(forecast))
    soon = [card for card in figures if card.mark == "warn"]
    title = f"{forecast.of}: nothing runs out soon"
    if soon:
        when = soon[0].figure if soon[0].figure.startswith(("in ", "now", "not ")) else f"on {soon[0].figure}"
        title = f"{forecast.of}: {soon[0].label[0].lower()}{soon[0].label[1:]} {when}"
    where = f"{forecast.storage} on {forecast.instance}" if forecast.instance else forecast.storage
    return View(title, f"{where}, from {_format_moment(forecast, timedelta())}; simulated", figures[:3], blocks)


ENDS = make_columns(("what", "now", "limit", "earliest", "in the median", "latest"), number=("now", "limit"))


def _list_rows(forecast: Forecast) -> list[tuple[str, ...]]:
    """Returns a row of ENDS for credits, space and each limit."""
    rows = []
    if (ahead := forecast.credits) is not None:
        ends = (_describe_event_time(forecast, hours, ahead.hours) for hours in ahead.empty_after_h)
        rows.append(("credits", f"{format_number(ahead.balance_percent)} %", "0 %", *ends))
    if (full := forecast.space) is not None:
        used, limit = (f"{format_number(gib, 4)} GiB" for gib in (full.used_gib, full.limit_gib))
        rows.append(("space", used, limit, *_list_dates(full.last, full.days, full.trend.claimed)))
    for growth in forecast.growth:
        limit = f"{format_number(growth.limit)} {growth.unit}"
        ends = _list_dates(forecast.made_at, growth.days, growth.trend.claimed)
        rows.append((caps.describe_cap(growth.cap), format_percent(growth.share_now), f"90 % of {limit}", *ends))
    return rows


def _list_dates(today: datetime, days: Sequence[float], claimed: bool) -> list[str]:
    """Returns the dates `days` after `today`, or "no trend" for each where none is claimed."""
    if not claimed:
        return ["no trend"] * 3
    return [(today + timedelta(days=day)).strftime("%Y-%m-%d") if math.isfinite(day) else NEVER for day in days]


def _build_cards(forecast: Forecast) -> Iterator[Card]:
    """Yields cards with when credits run out, the volume is full, and the nearest limit is met;
    marked as a warning where that is likely soon."""
    if (ahead := forecast.credits) is not None:
        soon, middle = forecast.is_empty_soon(), ahead.empty_after_h[1]
        figure = f"in {format_span(3_600 * middle)}" if math.isfinite(middle) else f"not within {ahead.hours} h"
        figure = "now" if ahead.balance_percent <= 0 else figure
        share = f"In {format_percent(ahead.share_empty)} of {ahead.runs} futures; {format_number(ahead.balance_percent)} % now."
        yield Card("Credits run out", figure, share, "warn" if soon else "good")
    if (full := forecast.space) is not None:
        near = forecast.is_full_soon()
        when = "now" if full.full else _list_dates(full.last, full.days, full.trend.claimed)[1]
        used = f"{format_number(full.used_gib, 4)} of {format_number(full.limit_gib, 4)} GiB are used."
        yield Card("The volume is full", when, used, "warn" if near else "good")
    for growth in sorted(forecast.growth, key=lambda growth: (not growth.at_limit, growth.days[1]))[:1]:
        near = forecast.is_met_soon(growth)
        when = "now" if growth.at_limit else _list_dates(forecast.made_at, growth.days, growth.trend.claimed)[1]
        now = f"The busiest five minutes of a day take {format_percent(growth.share_now)} of it now."
        yield Card(f"90 % of {caps.describe_cap(growth.cap)} is met", when, now, "warn" if near else "good")


def build_document(forecast: Forecast) -> dict:
    """Returns the forecast for programs; what is infinite is null in JSON."""
    credits, space = forecast.credits, forecast.space
    shares = ("balance_percent", "balance_source", "balance_age_s", "share_empty")
    return {
        "schema": SCHEMA,
        **pick_fields(forecast, "of", "storage", "instance", "dated", "notes"),
        "made": forecast.made_at,
        "credits": credits
        and {
            **pick_fields(credits, "hours", "runs", *shares, "empty_after_h", "outage_h"),
            "drawn_from_days": credits.drawn_from,
            "instance_balance_percent": credits.instance_percent,
            "throttled_min_by_hour": credits.throttled_by_hour,
            "empty_in_s_at_this_rate": credits.soon.seconds,
            "balance": credits.fan.filter(pl.col("hours") % 1 == 0),
        },
        "growth": [
            {
                **pick_fields(growth, "cap", "unit", "limit", "share_now"),
                "at_limit_now": growth.at_limit,
                "trend": growth.trend.claimed,
                "growth_per_30_days": growth.growth_per_month if growth.trend.claimed else None,
                "days_until_90_percent": growth.days,
                "from_days": growth.trend.days,
            }
            for growth in forecast.growth
        ],
        "space": space
        and {
            **pick_fields(space, "limit_gib", "used_gib"),
            "used_on": space.used_on.date(),
            "full_now": space.full,
            "trend": space.trend.claimed,
            "gib_per_day": [space.trend.low, space.trend.per_day, space.trend.high] if space.trend.claimed else None,
            "days_until_full": space.days,
            "from_days": space.trend.days,
        },
        "not_said": [sanitize_text(text) for text in forecast.missing],
    }


SCORE_COLUMNS = ("quantity", "ahead", "forecasts", "held", "median error")


def list_score_rows(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    """Returns the cells of SCORE_COLUMNS: for each quantity and distance, the number of earlier
    forecasts, the share of those whose interval held, and the median error."""
    return [
        (
            score.quantity,
            format_span(score.ahead.total_seconds()),
            str(score.count),
            format_percent(score.hits / score.count),
            format_number(score.median_error),
        )
        for score in scores
    ]
