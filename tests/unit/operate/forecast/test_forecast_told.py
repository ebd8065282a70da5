"""Forecasts: odd days in a history, and pages whose charts say what their sentences say."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

from headrace.operate.forecast.answer import forecast
from headrace.operate.forecast.growth import forecast_limits
from headrace.operate.forecast.history import build_history
from headrace.operate.forecast.space import SpaceHistory
from headrace.operate.forecast.trend import find_last_step, fit_trend
from headrace.report.operate.forecast import build_document, describe_forecast
from headrace.report.operate.forecast_charts import draw_charts
from headrace.workload import OpenWorkload, save
from headrace.workload.points import make_points

MONDAY = datetime(2026, 3, 2)
HISTORIES = int(os.environ.get("FORECASTS", "12"))  # as in test_forecast.py


def recording(iops: np.ndarray, dated: bool = True) -> OpenWorkload:
    """Slots of five minutes."""
    count = len(iops)
    points = make_points(
        np.arange(count) * 300.0,
        np.full(count, 300.0),
        iops,
        np.zeros(count),
        np.full(count, 16.0),
        np.full(count, 16.0),
    )
    source = {"clock_start": MONDAY.isoformat() if dated else "00:00:00"}
    return OpenWorkload(name="shop", kind="recorded", points=points, source=source)


# --- odd days -------------------------------------------------------------------------------------


@pytest.mark.parametrize("days", [14, 30])
@pytest.mark.parametrize("share", [0.0, 0.04])
@pytest.mark.parametrize("from_end", [1, 4, 11])
def test_a_day_that_was_nearly_idle_changes_no_growth(days, share, from_end):
    """A day more than the trend needs, so that 14 are left. 1 % more each day; without noise the
    slope is that to the last digit."""
    levels = 1_000 * 1.01 ** np.arange(days + 1)
    levels[-from_end] *= share
    forecasts = forecast_limits(build_history(recording(np.repeat(levels, 288))), "gp3:100")
    iops = next(forecast for forecast in forecasts if forecast.cap == "volume-iops")
    assert iops.trend.claimed and iops.trend.per_day == pytest.approx(np.log(1.01)) and iops.trend.cut is None
    assert iops.share_now == pytest.approx(1_000 * 1.01**days / 3_000)


@pytest.mark.parametrize(("grown", "more", "gone"), [(40, 1.02, 14), (25, 1.01, 7), (60, 1.01, 20)])
def test_a_load_that_went_away_fills_nothing(grown, more, gone):
    """Many idle days in a row are no odd days: the growth before them is over."""
    levels = np.concatenate([1_000 * more ** np.arange(grown), np.full(gone, 40.0)])
    forecasts = forecast_limits(build_history(recording(np.repeat(levels, 288))), "gp3:100")
    iops = next((forecast for forecast in forecasts if forecast.cap == "volume-iops"), None)
    assert iops is None or not iops.trend.claimed or iops.trend.per_day <= 0.0


def test_random_odd_days_are_no_step_and_lasting_ones_are():
    """Noisy histories have a day or two far off anywhere, and a level that changes for good at
    least a week before the end."""
    draw = np.random.default_rng(5)
    for _ in range(3 * HISTORIES):
        count = int(draw.integers(20, 60))
        values = 7.0 + 0.01 * np.arange(count) + 0.02 * draw.standard_normal(count)
        odd = values.copy()
        width = int(draw.integers(1, 3))
        first = int(draw.integers(2, count - 2 * width))  # as many days around it: else nobody knows
        odd[first : first + width] += draw.choice([-4.0, -1.0, 1.0])
        assert find_last_step(odd) is None, (count, first)
        assert fit_trend(odd, 1).cut is None
        stepped = values.copy()
        at = int(draw.integers(7, count - 6))
        stepped[at:] += draw.choice([-1.0, 1.0])
        assert find_last_step(stepped) == at


# --- pages ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forecast_of_days():
    """Days alike of 21: quiet, and 3,000 IOPS from 8 to 12 o'clock on a gp2:500 (1,500 IOPS). The
    5.4 million credits are gone after 5.4e6 / 1,500 s = 1 h, at 09:00. The queue at noon, 3 h x
    1,500 IOPS, is done at 15:12 with the 1,400 IOPS that are free, and the credits are full an hour
    later: nothing waits at midnight. Space grows 5 GiB a day from 100 GiB: 500 GiB after 80 days,
    60 days after the 21st."""
    hour = np.arange(288) // 12
    load = recording(np.tile(np.where((hour >= 8) & (hour < 12), 3_000.0, 100.0), 21), dated=False)
    space = SpaceHistory(MONDAY, 100.0 + 5.0 * np.arange(21))
    return forecast(load, "gp2:500", hours=48, runs=3, space=space)


def test_the_curve_of_the_credits_is_empty_when_the_sentence_says_so(forecast_of_days):
    """Hourly points were joined: still 4 % at the time at which the words had them gone."""
    fan = forecast_of_days.credits.fan
    empty = forecast_of_days.credits.empty_after_h[1]
    assert empty == pytest.approx(9.0, abs=0.1) and fan.height == 48 * 12
    after = fan.filter((fan["hours"] >= empty + 1 / 12) & (fan["hours"] < 15))
    before = fan.filter(fan["hours"] < empty - 1 / 12)
    assert after["middle"].to_numpy().max() < 1.0 < before["middle"].to_numpy().min()
    match = re.search(r": (\d\d:\d\d), in", " ".join(describe_forecast(forecast_of_days)))
    credits = json.dumps(draw_charts(forecast_of_days)[0].to_dict())
    assert match and f"{match[1]}: empty, in the median" in credits and "time" in credits
    # Programs get hours, as before.
    assert build_document(forecast_of_days)["credits"]["balance"]["hours"].to_list() == list(range(1, 49))


def test_space_and_growth_are_drawn_too(forecast_of_days):
    """Each axis has its title, each limit its name and figure."""
    _, space, growth = (json.dumps(chart.to_dict()) for chart in draw_charts(forecast_of_days))
    assert "full: 500 GiB" in space and '"title": "GiB"' in space and '"title": "day"' in space
    assert "the volume's IOPS: 3,000 IOPS" in growth and "the volume's throughput: 250 MiB/s" in growth
    assert '"title": "days from the end of the recording"' in growth
    trend = forecast_of_days.space.trend
    assert trend.claimed and forecast_of_days.space.days[1] == pytest.approx(60, abs=1)


def test_a_date_is_in_the_sentence_if_the_interval_has_one(forecast_of_days):
    """The median never comes, but in a tenth of the futures the volume is full after ten days."""
    space = replace(forecast_of_days.space, days=(10.0, math.inf, math.inf))
    text = " ".join(describe_forecast(replace(forecast_of_days, space=space)))
    day = f"{space.last + timedelta(days=10):%Y-%m-%d}"
    assert f"full not in sight (80 % interval: {day} to not in sight)." in text


def test_what_is_drawn_where_there_are_no_credits(call, tmp_path):
    """A chart was refused then; the page had none."""
    days = np.repeat(1_000 * 1.01 ** np.arange(16), 288)
    save(recording(days), tmp_path / "shop.toml")
    page = tmp_path / "page.html"
    given = ("forecast", str(tmp_path / "shop.toml"), "--storage", "gp3:500", "--no-keep", "--report")
    assert call(*given, str(page))[0] in (0, 1) and page.read_text().count("<figure role") == 1
    assert call(*given, str(tmp_path / "chart.svg"))[0] in (0, 1)
    assert "Busiest five minutes of each day" in (tmp_path / "chart.svg").read_text()
