"""Words, charts and pages: right figures, everything escaped, one file with nothing to fetch."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_checks import checked

from headrace import demo_day, plan, report_html, simulate, workload
from headrace.base import core
from headrace.report import html, plan_words, simulation, tables, view, words
from headrace.report.charts import cost, drawing, over_time, studies, style
from headrace.report.charts.builders import TimeAxis
from headrace.report.charts.rows import TABLE_ROWS, on_clock, shorten_rows
from headrace.report.output import as_json, sanitize_text

NASTY = "<script>alert('x')</script>&\"'<img src=http://a/b onerror=x>"


@pytest.fixture(scope="module")
def day():
    load = workload.new_daily(1500, 700, name=NASTY, size_gib=50, backup_start_hour=2)
    from dataclasses import replace

    return replace(load, caveats=(NASTY,))


@pytest.fixture(scope="module")
def dry(day):
    return simulate(day, "gp2:300", instance="m5.large")


def test_numbers_spans_and_latencies():
    assert [words.format_number(value) for value in (3439.4, 0.01234, 0, 12.0, float("nan"), None)] == [
        "3,439",
        "0.0123",
        "0",
        "12",
        "-",
        "-",
    ]
    assert [words.format_span(value) for value in (0.12, 4.25, 59, 60, 3_600, 23_400)] == [
        "120 ms",
        "4.2 s",
        "59 s",
        "60 s",
        "60 min",
        "6 h 30 min",
    ]
    assert [words.format_latency(value) for value in (0.5, 999, 1_500, 3.6e6, None)] == [
        "0.5 ms",
        "999 ms",
        "1.5 s",
        "60 min",
        "-",
    ]
    assert [words.format_percent(share) for share in (1.0, 0.99999, 0.5, 0.0001, 0.0)] == [
        "100 %",
        "99.99 %",
        "50 %",
        "0.01 %",
        "0 %",
    ]


def test_clock_counts_days_from_the_first():
    assert words.format_clock(3_600 * 25 + 60, "23:00:00") == "00:01 +2d"
    assert words.format_clock(90, None, seconds=True) == "00:01:30"
    assert words.format_clock(60, "2025-11-21T10:00:00") == "10:01"
    assert words.format_clock(float("nan")) == "-"


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_number_breaks_the_words(value):
    for write in (words.format_number, words.format_latency, words.format_clock):
        assert isinstance(write(value), str)


def test_shortened_rows_keep_totals_and_extremes(dry):
    short = shorten_rows(dry.rows, 24)
    assert short.height == 24 and short["duration_s"].sum() == dry.rows["duration_s"].sum()
    for rate in ("iops", "asked_mib_s"):
        total = [(frame[rate] * frame["duration_s"]).sum() for frame in (short, dry.rows)]
        # Sums of the same floats in another order.
        assert total[0] == pytest.approx(total[1], rel=1e-9)
    assert short["queue"].max() == dry.rows["queue"].max()
    assert short["balance_percent"].min() == dry.rows["balance_percent"].min()
    assert short["throttled_s"].sum() == pytest.approx(dry.rows["throttled_s"].sum())


def test_words_of_a_run_agree_with_its_summary(dry, day):
    text = "\n".join(simulation.describe_run(dry, day))
    assert f"ran dry at {words.format_clock(dry.summary['credits_empty_at_s'], '00:00')}" in text
    assert words.format_span(dry.summary["credits_empty_s"]) in text and "does not run dry" in text


def test_a_day_that_the_catalog_does_not_reach_is_said_at_the_head(day):
    newest = core.newest_date()
    for as_of, head in (
        ("2199-01-01", f"limits of 2199-01-01 (newest known: {newest});"),
        (newest, f"limits of {newest};"),
    ):
        run = simulate(day, "gp3:300", as_of=as_of, form="interval")
        assert head in simulation.describe_run(run, day)[0]
    answer = plan(day, as_of="2199-01-01", max_volumes=1)
    assert plan_words.make_title(answer).endswith(f"2199-01-01 (newest known: {newest})")


def test_a_settled_backlog_is_carried_over_and_not_called_an_offered_load_of_1_x(day):
    # It said "it never catches up: the offered load is 1 x the delivered rate (... against ...)".
    load = workload.new_daily(3000, 1500, size_gib=50)
    run = simulate(load, "gp2:800", form="interval", cycle="settled", seconds=50_000)
    assert run.repeated["settled"] and run.summary["queue_at_end"] > simulation.MOST_CLIENTS
    text = "\n".join(simulation.describe_run(run, load))
    assert "requests still wait at the end, and with them the next cycle begins." in text
    assert "never catches up" not in text


def test_what_slowed_a_run_without_a_limit_is_the_same_in_words_and_in_the_table(day):
    cold = {"snapshot": {"written_bytes": 100 << 30, "initialization_bytes_s": None}}
    run = simulate(day, "gp3:500", form="interval", seconds=3_600, options=cold)
    slowed_s = run.rows.filter(pl.col("cap") == "first-touch")["duration_s"].sum()
    assert run.summary["throttled_s"] == 0 and slowed_s > 0
    text = "\n".join(simulation.describe_run(run, day))
    cause = f"slowed by the initialization (first touch) of blocks from a snapshot, {words.format_span(slowed_s)}."
    assert f"No request waited for a limit. I/Os were {cause}" in text
    calm = simulate(day, "gp3:500", form="interval", seconds=3_600)
    assert "slowed" not in "\n".join(simulation.describe_run(calm, day))


def test_throttled_spans_are_the_rows_that_waited(dry):
    axis = TimeAxis("00:00:00", 86_400)
    spans = over_time.find_throttled_spans(axis.add(dry.rows))
    shaded = (spans["until"] - spans["at"]).dt.total_seconds().sum()
    assert shaded == dry.rows.filter(pl.col("throttled_s") > 0)["duration_s"].sum()


def test_sparkline_shows_the_peak_whatever_the_width():
    values = [1.0] * 500 + [9.0] + [1.0] * 500
    for width in (10, 72, 2_000):
        assert tables.draw_sparkline(values, width).count("█") == 1
    assert tables.draw_sparkline([], 5) == "" and set(tables.draw_sparkline([0.0, 0.0])) == {"▁"}


def test_simulation_page_svg_and_png(tmp_path, day, dry):
    html.write_view(tmp_path / "run.html", simulation.build_view(dry, day, [NASTY]))
    text, page = checked(tmp_path / "run.html")
    assert text.count("<figure role") == 1 and "&lt;img" in text
    html.write_view(tmp_path / "run.svg", simulation.build_view(dry, day, []))
    drawn = (tmp_path / "run.svg").read_text()
    assert (
        drawn.startswith("<svg")
        and "<script" not in drawn
        and "time of day (h:min)" in drawn
        and "balance (%)" in drawn
    )
    html.write_view(tmp_path / "run.png", simulation.build_view(dry, day, []))
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("seconds", [3, 900, 86_400 * 3])
def test_charts_of_short_and_long_runs(seconds):
    load = workload.new_constant(50, 50, seconds=seconds)
    run = simulate(load, "gp2:10", form="interval")
    drawn = drawing.render_svg(over_time.draw_simulation(run.rows, "x", None))
    assert "time since the start" in drawn


def test_an_idle_load_can_be_shown_and_drawn(tmp_path):
    idle = workload.new_constant(0, 0, seconds=600)
    run = simulate(idle, "gp3:10", form="interval")
    html.write_view(tmp_path / "idle.html", simulation.build_view(run, idle, []))
    html.write_view(tmp_path / "shape.svg", simulation.build_demand_view(idle))
    assert "The demand is zero." in (tmp_path / "idle.html").read_text()


ROLES = ("published", "simulated", "measured")


@pytest.mark.parametrize("kind", ["line", "bar", "quantiles", "scatter"])
def test_roles_have_the_same_colours_in_every_study_chart(kind):
    series = [
        SimpleNamespace(label=f"{role} {n}", role=role, x=(0.5, 0.9, 0.99), y=(1.0, 2.0, 30.0 * n))
        for role in ROLES
        for n in (1, 2)
    ]
    drawn = drawing.render_svg(
        studies.draw_study(SimpleNamespace(title="t", kind=kind, x_title="x (s)", y_title="y (ms)", series=series))
    )
    for role in ROLES:
        assert style.ROLE_COLOURS[role].lower() in drawn.lower()
    assert "y (ms)" in drawn
    # From lines drawn to the legend: nothing has a colour outside the three and the ink.
    allowed = {colour.lower() for colour in (*style.ROLE_COLOURS.values(), style.INK, style.QUIET, style.GRID)}
    assert set(re.findall(r"#[0-9a-f]{6}", drawn.lower())) <= allowed


def test_balances_are_drawn_only_where_there_are_credits(dry, day):
    without = simulate(day, "gp3:50").rows
    assert over_time.draw_credit_balances([("gp3:50", without)]) is None
    drawn = drawing.render_svg(over_time.draw_credit_balances([("gp3:50", without), ("gp2:300", dry.rows)], "00:00:00"))
    assert "No credits to lose: gp3:50" in drawn and "gp2:300" in drawn


def test_frontier_names_the_winner_and_the_goal():
    point = {"instance": None, "delivered_percent": 100.0, "meets_goals": True}
    points = [
        point | {"storage": f"gp3:{n}", "family": "gp3", "cost_usd_month": 10.0 * n, "p99_ms": 40.0 / n}
        for n in range(1, 9)
    ]
    drawn = drawing.render_svg(cost.draw_frontier(points, "gp3:4", 20.0))
    assert "gp3:4" in drawn and "20 ms" in drawn and "USD a month" in drawn
    assert cost.draw_frontier([], None, None) is None


class TextParser(HTMLParser):
    """Collects the text of a document without tags."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pytest.fail("a tag came out of text")


@given(st.text())
def test_text_is_escaped_and_reads_back(value):
    parser = TextParser()
    parser.feed(f"{html.escape_html(value)}")
    parser.close()
    assert "".join(parser.texts) == sanitize_text(value)


def test_json_has_no_nan_and_terminals_get_no_escapes():
    assert json.loads(as_json({"a": float("nan"), "b": (1, float("inf")), "c": pl.DataFrame({"x": [1]})})) == {
        "a": None,
        "b": [1, None],
        "c": [{"x": 1}],
    }
    assert as_json({"a": "é"}) == '{\n  "a": "é"\n}\n'
    assert sanitize_text("a\x1b[31mb\x07") == "a?[31mb?"


def test_the_same_chart_twice_is_the_same_text(dry, day):
    first, two = (drawing.render_svg(over_time.draw_simulation(dry.rows, "t", "00:00:00")) for _ in range(2))
    assert first == two


def rows_of(throttled: list[float], each_s: float = 60.0) -> pl.DataFrame:
    """Rows of a run in which requests waited so long in each row."""
    count = len(throttled)
    columns = {
        name: [0.0] * count
        for name in (
            "asked_iops",
            "asked_mib_s",
            "iops",
            "mib_s",
            "queue",
            "mean_ms",
            "p50_ms",
            "p95_ms",
            "p99_ms",
            "p999_ms",
        )
    }
    columns |= {
        name: [None] * count
        for name in ("balance_percent", "instance_io_balance_percent", "instance_byte_balance_percent")
    }
    return pl.DataFrame(columns, schema_overrides={name: pl.Float64 for name in columns}).with_columns(
        t_s=pl.Series([index * each_s for index in range(count)], dtype=pl.Float64),
        duration_s=pl.lit(each_s),
        throttled_s=pl.Series(throttled, dtype=pl.Float64),
        cap=pl.Series(["volume-iops" if value else "none" for value in throttled]),
    )


def test_windows_are_joined_over_short_gaps_and_say_when():
    waits = [0.0] * 1_440
    for first, last in (
        (600, 640),
        (650, 660),
        (900, 901),
        (1_100, 1_130),
    ):  # minutes; ten minutes between the first two are no end of a window
        waits[first:last] = [60.0] * (last - first)
    windows = simulation.find_throttled_windows(rows_of(waits))
    assert [(window["from_s"] / 60, window["until_s"] / 60, window["throttled_s"] / 60) for window in windows] == [
        (600, 660, 50),
        (900, 901, 1),
        (1_100, 1_130, 30),
    ]
    run = SimpleNamespace(rows=rows_of(waits), summary={"seconds": 86_400.0})
    (line,) = simulation._describe_windows(run, "00:00:00")
    assert (
        line.startswith("When: 10:00-11:00 ") and "15:00-15:01" in line and "18:20-18:50" in line and "more" not in line
    )


def test_at_most_five_windows_are_told_and_the_rest_counted():
    # Fifteen windows of a minute.
    waits = [60.0 if minute % 100 == 0 else 0.0 for minute in range(1_440)]
    (line,) = simulation._describe_windows(SimpleNamespace(rows=rows_of(waits), summary={"seconds": 86_400.0}), None)
    assert line.count(";") == 5 and "and 10 more (10 min in all), counted from the start." in line
    assert (
        simulation._describe_windows(SimpleNamespace(rows=rows_of([0.0] * 9), summary={"seconds": 540.0}), None) == []
    )


@given(st.integers(0, 86_399), st.integers(1, 3_000), st.sampled_from([1.0, 60.0, 150.0, 300.0, 3_600.0]))
def test_rows_lie_on_the_clock_and_no_two_have_one_label(start_s, count, each_s):
    start = f"{start_s // 3600:02d}:{start_s // 60 % 60:02d}:{start_s % 60:02d}"
    rows = rows_of([0.0] * count, each_s)
    short, step_s = on_clock(rows, start)
    assert short.height <= TABLE_ROWS and short["duration_s"].sum() == count * each_s
    if short.height < count:
        for t_s in short["t_s"][
            1:
            # The first may begin anywhere; a row of the run that lies across a mark begins up to
            # its length after it.
        ]:
            assert (start_s + t_s) % step_s < each_s
    labels = list(words.list_row_labels(short["t_s"].to_list(), start))
    assert len(set(labels)) == len(labels)


def test_lines_at_a_cap_do_not_lie_on_the_frame(dry):
    drawn = over_time.draw_simulation(dry.rows, "t", "00:00:00").to_dict()
    domains = [scale["domain"][1] for scale in _scales(drawn) if isinstance(scale.get("domain"), list)]
    assert domains and all(high > 100 for high in domains[:1]) and 106.0 in [round(high, 6) for high in domains]


def _scales(value):
    if isinstance(value, dict):
        if "y" in value and isinstance(value["y"], dict) and "scale" in value["y"]:
            yield value["y"]["scale"]
        for item in value.values():
            yield from _scales(item)
    elif isinstance(value, list):
        for item in value:
            yield from _scales(item)


@pytest.mark.parametrize(
    ("end", "how", "blames_memory"),
    [
        ("os.abort()", "was ended by signal 6", False),
        ("os.kill(os.getpid(), 9)", "was ended by signal 9; it lacked memory, it seems", True),
        ("os._exit(137)", "ended with code 137; it lacked memory, it seems", True),
        ("os._exit(3)", "ended with code 3", False),
        ("sys.exit('first\\nno font\\n')", "ended with code 1: no font", False),
        # V8 ends so without addresses (ulimit -v 3000000; vl-convert 1.9).
        (
            "sys.stderr.write('#\\n# Fatal process out of memory: Oilpan\\n#\\n==== C stack trace ====\\n\\n /a.so(+0x3a) [0x7f]\\n');"
            " sys.stderr.flush(); os.kill(os.getpid(), 5)",
            "was ended by signal 5: Fatal process out of memory: Oilpan",
            True,
        ),
    ],
)
def test_what_cannot_be_drawn_is_said(monkeypatch, end, how, blames_memory):
    from headrace.errors import CouldNotRun

    monkeypatch.setattr(drawing, "WORKER", f"import os, sys; sys.stdin.readline(); {end}")
    monkeypatch.setattr(drawing, "_renderer", drawing._Renderer())
    with pytest.raises(CouldNotRun) as caught:
        drawing._renderer.draw("{}", "svg")
    assert caught.value.rule == f"could not be drawn: the renderer {how}"
    assert ("memory" in caught.value.hint) == blames_memory


def test_tables_of_pages_have_titles_for_narrow_screens(tmp_path):
    table = view.Table(view.make_columns([f"c{n}" for n in range(10)], number=("c1",)), [["gp3:1", *"abcdefghi"]])
    text = html.render_page(view.View("t", blocks=[table]))
    assert (
        'class="scroll broad"' in text and text.count('data-title="c') == 10 and 'class="whole" data-title="c0"' in text
    )


def test_the_row_that_a_page_sets_off_is_the_recommended_one():
    """The cheapest has rank 1; it has several volumes, and one volume is recommended."""
    planned = plan(demo_day(), goals=["p99_ms<=20"])
    best = planned.recommended
    assert best is not None and planned.winner is not None and planned.winner.key != best.key
    rows = re.findall(r'<tr class="marked">(.*?)</tr>', report_html(planned))
    # The short table, and the whole one that is folded.
    words_of_it = [words.glue_units(words.describe_storage(best.storage)), best.storage]
    assert len(rows) == 2 and all("recommended" in row and words_of_it[0] in row for row in rows)
    assert words_of_it[1] in rows[1]


def test_no_negative_zero_in_csv_or_json():
    from headrace.report.output import as_csv

    assert as_csv(pl.DataFrame({"x": [-0.0, 1.5, None], "y": ["a", "b", "c"]})) == "x,y\n0.0,a\n1.5,b\n,c\n"
    assert as_json({"x": -0.0}) == '{\n  "x": 0.0\n}\n'
