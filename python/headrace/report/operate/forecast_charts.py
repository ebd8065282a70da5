"""A forecast as charts: the credits of the next days, used space, and the growth of the demand."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import altair as alt
import numpy as np
import polars as pl

from headrace.base import caps
from headrace.report.charts import style
from headrace.report.charts.builders import MOST_POINTS, PERCENT, Drawing, TimeAxis, find_ends, make_linear_axes

if TYPE_CHECKING:
    from headrace.operate.forecast.answer import Forecast
    from headrace.operate.forecast.credits import CreditForecast
    from headrace.operate.forecast.space import SpaceForecast, SpaceHistory
    from headrace.operate.forecast.trend import Trend

HEIGHT = 260  # px, of the credits
PANEL = 150  # px, of a limit or of space
# Days ahead that a trend is drawn over: to where it ends, within these. Ours.
LEAST_AHEAD, MOST_AHEAD = 30, 365
STEPS = 60  # of a trend that is drawn
FAR = 2.0  # times the limit: above it a trend is not drawn
ABOVE = 1.15  # how far an axis goes above the highest value: a limit has its name above it


def draw_charts(forecast: Forecast) -> list:
    """Returns the charts of a forecast: of credits, space and growth, those that it has."""
    drawings = [] if forecast.credits is None else [_draw_credits(forecast, forecast.credits)]
    if forecast.space is not None and forecast.space.history is not None:
        drawings.append(_draw_space(forecast, forecast.space, forecast.space.history))
    return drawings + ([_draw_growth(forecast)] if forecast.growth else [])


def _draw_credits(forecast: Forecast, ahead: CreditForecast) -> Drawing:
    """Draws the credit balance of the simulated futures: median, 80 % interval, and when it is
    empty in the median."""
    balances = (ahead.balance_percent, ahead.instance_percent)
    lowest = min(balance for balance in balances if balance is not None)
    now = pl.DataFrame({"hours": [0.0], **{name: [lowest] for name in ("low", "middle", "high")}})
    fan = ahead.fan.gather_every(-(-ahead.fan.height // MOST_POINTS))
    rows = pl.concat([now, fan]).with_columns((pl.col("hours") * 3_600.0).alias("t_s"), pl.lit(0.0).alias("duration_s"))
    axis = TimeAxis(
        forecast.made_at.isoformat() if forecast.dated else f"{forecast.made_at:%H:%M:%S}", ahead.hours * 3_600.0
    )
    frame = axis.add(rows)
    x, y = axis.make_axis(True), make_linear_axes("credit balance (%)", *PERCENT, ticks=5)
    band = alt.Chart(frame).mark_area(color=style.SIMULATED, opacity=0.25, clip=True)
    line = alt.Chart(frame).mark_line(color=style.SIMULATED, strokeWidth=2, clip=True)
    layers = [band.encode(x=x, y=y("low"), y2="high:Q"), line.encode(x=x, y=y("middle"))]
    empty = ahead.empty_after_h[1]
    if math.isfinite(empty):
        label = f"{forecast.made_at + timedelta(hours=empty):%H:%M}: empty, in the median"
        end = axis.add(pl.DataFrame({"t_s": [empty * 3_600.0], "duration_s": [0.0], "label": [label]}))
        mark = alt.Chart(end).mark_rule(color=style.WARN, strokeWidth=1.5, strokeDash=[5, 3])
        right = empty < ahead.hours / 2
        text = alt.Chart(end).mark_text(
            align="left" if right else "right", dx=5 if right else -5, baseline="bottom", color=style.WARN
        )
        layers += [mark.encode(x=x), text.encode(x=x, y=alt.value(-2), text="label:N")]
    title = alt.TitleParams(
        f"Credits of {forecast.of} on {forecast.storage}",
        subtitle="Simulated. Line: median of the futures; band: 80 % of them.",
        offset=20,
    )
    return style.configure_chart(alt.layer(*layers).properties(width=style.WIDTH, height=HEIGHT, title=title))


def _draw_space(forecast: Forecast, full: SpaceForecast, history: SpaceHistory) -> Drawing:
    """Draws used space day by day, its trend, and where it is full."""
    days = np.arange(1 - len(history.used_gib), 1, dtype=float)
    recorded = slice(None) if history.recorded is None else history.recorded
    past = pl.DataFrame({"day": days[recorded], "value": history.used_gib[recorded]})
    drawn = _draw_panel(full.last, past, full.trend, full.days, (full.limit_gib, "full", "GiB"), lambda figure: figure)
    return _add_title(drawn, f"Used space of {forecast.of}")


def _draw_growth(forecast: Forecast) -> alt.VConcatChart:
    """Draws the busy rate of each day against each limit, with its trend."""
    panels = []
    for growth in forecast.growth:
        past = pl.DataFrame({"day": np.arange(1 - len(growth.busy), 1, dtype=float), "value": growth.busy})
        limit = (growth.limit, caps.describe_cap(growth.cap), growth.unit)
        panels.append(
            _draw_panel(forecast.made_at if forecast.dated else None, past, growth.trend, growth.days, limit, math.exp)
        )
    title = f"Busiest five minutes of each day of {forecast.of} on {forecast.storage}"
    return _add_title(alt.vconcat(*panels, spacing=26), title)


def _add_title(drawn: style.Chart, words: str) -> style.Chart:
    """Returns the chart of a trend with its title and configuration."""
    subtitle = "Points: days of the recording. Line and band: the trend and 80 % of what days may be, simulated."
    title = alt.TitleParams(words, subtitle=subtitle, offset=20)
    return style.configure_chart(drawn.properties(title=title))


def _count_days_ahead(days: tuple[float, float, float], claimed: bool) -> int:
    """Returns how many days ahead a trend is drawn: to when the limit is met, and a fifth more."""
    end = days[1] * 1.2 if claimed and math.isfinite(days[1]) else LEAST_AHEAD
    return int(min(MOST_AHEAD, max(LEAST_AHEAD, end)))


def _draw_panel(
    last: datetime | None,
    past: pl.DataFrame,
    trend: Trend,
    days: tuple[float, float, float],
    limit: tuple[float, str, str],
    figure_of: Callable[[float], float],
) -> Drawing:
    """Draws the days of the past as points, the trend ahead if it has one, the limit with its name.

    `last`: the day of the last point, None where there are no dates. `past`: rows of `day` (0 is
    the last) and `value`. `days`: until the limit is met. `limit`: its figure, name and unit.
    `figure_of`: converts the trend's figures to the unit.
    """
    most, name, unit = limit
    ahead, x = _count_days_ahead(days, trend.claimed), _make_day_axis(last)
    highest, cone = max(most, find_ends(past, "value")[1]), None
    if trend.claimed:
        steps = np.arange(0.0, ahead + 1.0, max(1, ahead // STEPS))
        paths = [[figure_of(value) for value in trend.forecast_figure(float(step))] for step in steps]
        cone = pl.DataFrame(paths, schema=["low", "value", "high"], orient="row").with_columns(day=pl.Series(steps))
        highest = max(highest, min(FAR * most, find_ends(cone, "high")[1]))
    y, layers = make_linear_axes(unit, 0, ABOVE * highest, ticks=5), []
    if cone is not None:
        drawn = _add_dates(last, cone)
        band = alt.Chart(drawn).mark_area(color=style.SIMULATED, opacity=0.25, clip=True)
        line = alt.Chart(drawn).mark_line(color=style.SIMULATED, strokeWidth=2, clip=True)
        layers += [band.encode(x=x, y=y("low"), y2="high:Q"), line.encode(x=x, y=y("value"))]
    dots = alt.Chart(_add_dates(last, past)).mark_point(filled=True, size=22, opacity=1, color=style.MEASURED)
    first = float(past["day"][0])
    ends = pl.DataFrame({"day": [first, float(ahead)], "value": [most, most]})
    ends = _add_dates(last, ends.with_columns(pl.lit(f"{name}: {most:,.6g} {unit}").alias("label")))
    rule = alt.Chart(ends).mark_line(color=style.WARN, strokeWidth=1.5, strokeDash=[5, 3])
    text = alt.Chart(ends.head(1)).mark_text(align="left", baseline="bottom", dx=3, dy=-2, color=style.WARN)
    layers += [dots.encode(x=x, y=y("value")), rule.encode(x=x, y=y("value"))]
    layers.append(text.encode(x=x, y=y("value"), text="label:N"))
    return alt.layer(*layers).properties(width=style.WIDTH, height=PANEL)


def _add_dates(last: datetime | None, frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the frame with the moment of each day as `at`, unless `last` is None."""
    if last is None:
        return frame
    # Marked as UTC, or it would be shifted by the zone of what draws it.
    moment = pl.lit(last).dt.replace_time_zone("UTC") + pl.duration(hours=24 * pl.col("day"))
    return frame.with_columns(moment.alias("at"))


def _make_day_axis(last: datetime | None) -> alt.X:
    """Returns the axis of days: dates up to `last`, or numbers of days from the recording's end if
    it has no dates (None)."""
    if last is not None:
        axis = alt.Axis(title="day", format="%-d %b %Y", tickCount=8, labelOverlap=True)
        return alt.X("at:T", scale=alt.Scale(type="utc", nice=False), axis=axis)
    axis = alt.Axis(title="days from the end of the recording", tickCount=8, labelExpr="format(datum.value, 'd')")
    return alt.X("day:Q", scale=alt.Scale(nice=False), axis=axis)
