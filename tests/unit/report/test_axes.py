"""Axes of time show the times of the data: no date that nobody gave, no zone of the machine that draws."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys

import polars as pl
import pytest

from headrace.report.charts import builders, drawing, style

DAY = 86_400


def texts_of(drawn: str) -> list[str]:
    return [html.unescape(re.sub("<[^>]+>", "", text)) for text in re.findall(r"<text[^>]*>.*?</text>", drawn)]


def drawn_of(start: str | None, span_s: float) -> str:
    axis, count = builders.TimeAxis(start, span_s), 20
    rows = {"t_s": [span_s * at / count for at in range(count)], "duration_s": [span_s / count] * count}
    frame = axis.add(pl.DataFrame(rows).with_columns(pl.lit(1.0).alias("v")))
    chart = builders.draw_lines(frame, axis.make_axis(True), "v", [("v", "v", style.SIMULATED)])
    return drawing.render_svg(style.configure_chart(chart))


@pytest.mark.parametrize(
    ("start", "span_s", "title", "among"),
    [
        ("09:10:00", 3 * DAY, "day and time of day (h:min)", "day 2 00:00"),
        ("2026-03-02T09:10:00", 3 * DAY, "day and time (h:min)", "3 Mar 00:00"),
        (None, 3 * DAY, "time since the start (days and h:min)", "1 d 06:00"),
        # 30 hours since a start are not six o'clock.
        (None, 110_000, "time since the start (days and h:min)", "1 d 06:00"),
        (None, DAY, "time since the start (h:min)", "09:00"),
        ("09:10:00", DAY, "time of day (h:min)", "12:00"),
        ("09:10:00", 300, "time of day (h:min:s)", "09:12:00"),
        (None, 300, "time since the start (min:s)", "02:00"),
    ],
)
def test_labels_are_times_of_the_data(start, span_s, title, among):
    texts = texts_of(drawn_of(start, span_s))
    assert title in texts and among in texts
    dated = start is not None and "T" in start and span_s > DAY
    assert any(re.search(r"\d (Jan|Feb|Mar)", text) for text in texts) == dated


def test_the_zone_of_the_machine_shifts_nothing():
    """A chart is equal on a machine in UTC and on one in New York, which is five hours behind in
    winter."""
    code = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_axes; "
        "print(test_axes.drawn_of('09:10:00', 86400))"
    )
    drawn = [
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"TZ": zone}, capture_output=True, text=True, check=True
        ).stdout
        for zone in ("UTC", "America/New_York")
    ]
    assert drawn[0] == drawn[1] and "12:00" in drawn[0]
