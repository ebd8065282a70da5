"""Frames in, Altair charts out. Axes carry units, lines are labelled where they are; the look is in `style`."""

from __future__ import annotations

import math
from datetime import datetime

import altair as alt
import polars as pl

from headrace.report import style
from headrace.report.simulation import shortened
from headrace.report.words import number, start_of, usd
from headrace.workload.points import with_totals

# Enough for every pixel of the width; more would only make the file larger.
MOST_POINTS = 720
# Each tick by itself (k, M); the built-in axis format would write 0 as "0k".
SHORT = "abs(datum.value) < 1 ? format(datum.value, '~g') : format(datum.value, '~s')"
# Latencies of a volume that keeps up and of one that never recovers are eight powers of ten apart: ticks people read.
MS_TICKS = {
    0.1: "0.1 ms",
    1: "1 ms",
    10: "10 ms",
    100: "100 ms",
    1e3: "1 s",
    1e4: "10 s",
    6e4: "1 min",
    6e5: "10 min",
    3.6e6: "1 h",
    3.6e7: "10 h",
    2.592e8: "3 days",
}
ABOVE = 1.06  # how far an axis goes above the highest value: a line at a cap must not lie on the frame
PERCENT = [0, 100 * ABOVE]
DAY_ONE = datetime(2000, 1, 1)
alt.data_transformers.disable_max_rows()


class TimeAxis:
    """Seconds of a run as moments, and the axis that shows them: clock times, or the time since the start."""

    def __init__(self, clock_start: object, span_s: float) -> None:
        known = start_of(clock_start)
        self.start = known or DAY_ONE
        days = span_s > 1.5 * 86_400
        short = span_s <= 600
        self.format = "%-d %b %H:%M" if known and days else "day %-j %H:%M" if days else "%M:%S" if short else "%H:%M"
        unit = "min:s" if short else "h:min"
        self.title = "time of day (h:min)" if known and not short else f"time since the start ({unit})" if not known else f"time ({unit})"

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with `at` and `until`, start and end of each row as moments."""
        at = pl.lit(self.start) + pl.duration(milliseconds=(pl.col("t_s") * 1e3).round())
        until = pl.lit(self.start) + pl.duration(milliseconds=((pl.col("t_s") + pl.col("duration_s")) * 1e3).round())
        return frame.with_columns(at.alias("at"), until.alias("until"))

    def x(self, title: bool, field: str = "at:T") -> alt.X:
        axis = alt.Axis(format=self.format, title=self.title if title else None, tickCount=9, labels=title, ticks=title, labelOverlap=True)
        return alt.X(field, scale=alt.Scale(type="utc", nice=False), axis=axis)


def _ms_axis(title: str, count: int = 6) -> alt.Axis:
    words = "".join(f"abs(datum.value / {value!r} - 1) < 1e-6 ? '{label}' : " for value, label in MS_TICKS.items())
    return alt.Axis(title=title, values=list(MS_TICKS), labelExpr=f"{words}''", labelOverlap="greedy", tickCount=count)


def decades(low: float, high: float) -> list[float]:
    """Ticks 1, 2, 5, 10, ... around low to high, for a log axis that can be read."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]


def _closed_at_end(frame: pl.DataFrame) -> pl.DataFrame:
    """One more row at the end of the last interval, so that a step line is drawn over it."""
    last = frame.tail(1).with_columns(pl.col("until").alias("at"))
    return pl.concat([frame, last])


def lines(
    frame: pl.DataFrame, x: alt.X, y_title: str, parts: list[tuple[str, str, str]], *, domain=None, log=False, height=style.PANEL_HEIGHT
) -> alt.LayerChart:
    """Step lines of several columns over time, each named at the top right in its own colour. `parts`: column, label, colour."""
    highest = max(frame[column].max() or 0.0 for column, _, _ in parts)
    if domain is None:
        domain = [0, ABOVE * (highest or 1.0)]
    scale = alt.Scale(type="log", domainMax=1.5 * highest) if log else alt.Scale(domain=domain, nice=False)
    drawn = _closed_at_end(frame)
    layers = []
    for column, _, colour in parts:
        data = drawn.select("at", column).filter(pl.col(column) > 0) if log else drawn.select("at", column)
        axis = _ms_axis(y_title, 5) if log else alt.Axis(title=y_title, tickCount=4, labelExpr=SHORT)
        layers.append(
            alt.Chart(data)
            .mark_line(interpolate="step-after", color=colour, strokeWidth=1.5, clip=True)
            .encode(x=x, y=alt.Y(f"{column}:Q", scale=scale, axis=axis))
        )
    offset = 0
    for _, label, colour in reversed(parts):
        layers.append(
            alt.Chart(pl.DataFrame({"label": [label]})).mark_text(align="right", baseline="bottom", fontWeight="bold", color=colour)
            .encode(text="label:N", x=alt.value(style.WIDTH - offset), y=alt.value(-4))
        )  # fmt: skip
        offset += 7 * len(label) + 14
    return alt.layer(*layers).properties(width=style.WIDTH, height=height)


def _shade(spans: pl.DataFrame, x: alt.X, height: int) -> alt.Chart:
    return alt.Chart(spans).mark_rect(color=style.WARN, opacity=0.13).encode(x=x, x2="until:T", y=alt.value(0), y2=alt.value(height))


def throttled_spans(frame: pl.DataFrame) -> pl.DataFrame:
    """`at` and `until` of the stretches in which requests waited for a limit."""
    marked = frame.with_columns((pl.col("throttled_s") > 0).alias("waits")).with_columns(pl.col("waits").rle_id().alias("stretch"))
    return marked.filter("waits").group_by("stretch", maintain_order=True).agg(pl.col("at").first(), pl.col("until").last())


def simulation(rows: pl.DataFrame, title: str, clock_start: object = None, closed: bool = False) -> alt.VConcatChart:
    """A run over time: IOPS and MiB/s asked and delivered, queue, balances, latency, on one time axis; waiting shaded."""
    span_s = rows["t_s"][-1] + rows["duration_s"][-1]
    axis = TimeAxis(clock_start, span_s)
    frame = axis.add(shortened(rows, MOST_POINTS))
    panels = _demand_panels(frame, closed) + _state_panels(frame, closed)
    spans = throttled_spans(frame)
    height = 90 if len(panels) > 4 else style.PANEL_HEIGHT
    drawn = []
    for index, (y_title, parts, options) in enumerate(panels):
        x = axis.x(index == len(panels) - 1)
        panel = lines(frame, x, y_title, parts, height=height, **options)
        drawn.append(alt.layer(_shade(spans, x, height), panel) if spans.height else panel)
    subtitle = "Shaded: requests waited for a limit." if spans.height else "No request waited for a limit."
    stacked = alt.vconcat(*drawn, spacing=26).resolve_scale(x="shared")
    return style.configured(stacked.properties(title=alt.TitleParams(title, subtitle=subtitle, offset=16)))


def _demand_panels(frame: pl.DataFrame, closed: bool) -> list[tuple]:
    delivered = style.SIMULATED
    if closed:
        return [("IOPS", [("iops", "delivered", delivered)], {}), ("MiB/s", [("mib_s", "delivered", delivered)], {})]
    return [
        ("IOPS", [("asked_iops", "asked", style.QUIET), ("iops", "delivered", delivered)], {}),
        ("MiB/s", [("asked_mib_s", "asked", style.QUIET), ("mib_s", "delivered", delivered)], {}),
    ]


def _state_panels(frame: pl.DataFrame, closed: bool) -> list[tuple]:
    panels = []
    if frame["queue"].max() and not closed:  # the queue of a closed load is its depth
        panels.append(("requests waiting", [("queue", "queue", style.WARN)], {}))
    names = (
        ("balance_percent", "volume credits", style.SIMULATED), ("instance_io_balance_percent", "instance I/Os", style.PUBLISHED),
        ("instance_byte_balance_percent", "instance bytes", style.MEASURED),
    )  # fmt: skip
    balances = [part for part in names if frame[part[0]].is_not_null().any()]
    if balances:
        panels.append(("balance (%)", balances, {"domain": PERCENT}))
    names = (("mean_ms", "mean", style.QUIET), ("p50_ms", "p50", style.SIMULATED), ("p99_ms", "p99", style.WARN))
    latencies = [part for part in names if frame[part[0]].is_not_null().any() and frame[part[0]].max() > 0]
    if latencies:
        high = max(frame[name].max() for name, _, _ in latencies)
        low = min(frame[name].filter(frame[name] > 0).min() for name, _, _ in latencies)
        panels.append(("latency (ms)", latencies, {"log": high > 20 * low}))
    return panels


def workload(load) -> alt.VConcatChart:
    """The shape of a demand: IOPS and MiB/s, reads and writes, over time."""
    points = with_totals(load.points).with_columns(
        (pl.col("reads_per_s") * pl.col("read_kib") / 1024).alias("read_mib_s"),
        (pl.col("writes_per_s") * pl.col("write_kib") / 1024).alias("write_mib_s"),
    )
    axis = TimeAxis(load.source.get("clock_start"), load.span_s)
    size = -(-points.height // MOST_POINTS)
    merged = points.with_row_index("row").group_by(pl.col("row") // size, maintain_order=True).agg(
        pl.col("t_s").first(), pl.col("duration_s").sum(),
        pl.col("reads_per_s", "writes_per_s", "ops_per_s", "read_mib_s", "write_mib_s", "mib_s").max()
    )  # fmt: skip
    frame = axis.add(merged)
    colours = (style.SIMULATED, style.WARN, style.QUIET)
    parts = [
        (
            "IOPS",
            [(c, n, k) for c, n, k in zip(("reads_per_s", "writes_per_s", "ops_per_s"), ("reads", "writes", "all"), colours, strict=True)],
        ),
        ("MiB/s", [(c, n, k) for c, n, k in zip(("read_mib_s", "write_mib_s", "mib_s"), ("reads", "writes", "all"), colours, strict=True)]),
    ]
    panels = [lines(frame, axis.x(index == 1), y_title, shown, height=150) for index, (y_title, shown) in enumerate(parts)]
    stacked = alt.vconcat(*panels, spacing=26).resolve_scale(x="shared")
    return style.configured(stacked.properties(title=alt.TitleParams(f"What {load.name} asks", offset=16)))


def balances(runs: list[tuple[str, pl.DataFrame]], clock_start: object = None) -> alt.LayerChart | None:
    """Credit balance over the day of several storages, each named in its colour; None when none of them has credits.

    `runs`: name and the rows of its simulation. Those without credits are named below the title.
    """
    having = [(name, rows) for name, rows in runs if rows["balance_percent"].is_not_null().any()]
    if not having:
        return None
    span_s = max(rows["t_s"][-1] + rows["duration_s"][-1] for _, rows in having)
    axis = TimeAxis(clock_start, span_s)
    colours = [style.SIMULATED, style.PUBLISHED, style.MEASURED, "#CC79A7", "#56B4E9"]
    layers = []
    for index, (name, rows) in enumerate(having):
        frame = axis.add(shortened(rows, MOST_POINTS))
        colour = colours[index % len(colours)]
        y = alt.Y("balance_percent:Q", scale=alt.Scale(domain=PERCENT, nice=False), axis=alt.Axis(title="credit balance (%)", tickCount=5))
        layers.append(
            alt.Chart(_closed_at_end(frame)).mark_line(interpolate="step-after", color=colour, strokeWidth=2).encode(x=axis.x(True), y=y)
        )
        text = pl.DataFrame({"label": [name]})
        layers.append(
            alt.Chart(text).mark_text(align="left", baseline="middle", fontWeight="bold", color=colour)
            .encode(text="label:N", x=alt.value(style.WIDTH - 92), y=alt.value(20 + 20 * index))
        )  # fmt: skip
    without = [name for name, rows in runs if name not in dict(having)]
    subtitle = f"No credits to lose: {', '.join(without)}" if without else ""
    title = alt.TitleParams("Lowest credit balance of the members", subtitle=subtitle, offset=10)
    return style.configured(alt.layer(*layers).properties(width=style.WIDTH - 100, height=200, title=title))


def frontier(points: list[dict], winner: str | None, goal_ms: float | None, goal_name: str = "p99") -> alt.LayerChart | None:
    """Cost against delivered performance: a point per storage, families in colours, the winner named, the latency goal as a line.

    `points`: dicts of `storage`, `instance`, `family`, `cost_usd_month`, `delivered_percent`, `p99_ms`. None when nothing can be drawn.
    """
    known = [p for p in points if p.get("cost_usd_month") and (p.get("p99_ms") or 0) > 0]
    if not known:
        return None
    labels = [f"{p['storage']} on {p['instance']}" if p.get("instance") else p["storage"] for p in known]
    frame = pl.DataFrame(
        {
            "label": labels, "type": [_volume_type(p) for p in known], "cost": [float(p["cost_usd_month"]) for p in known],
            "ms": [float(p["p99_ms"]) for p in known],
            "meets": ["meets every goal" if p.get("meets_goals") else "fails a goal" for p in known],
        }
    )  # fmt: skip
    types = [name for name in style.FAMILY_COLOURS if name in set(frame["type"])]
    # Costs or latencies over more than one power of ten need a log axis; less reads better on a linear one.
    x_scale = alt.Scale(type="log" if frame["cost"].max() > 10 * frame["cost"].min() else "linear", zero=False, nice=True, padding=16)
    y_scale = alt.Scale(type="log" if frame["ms"].max() > 10 * frame["ms"].min() else "linear", zero=False, nice=True, padding=16)
    ticks = {"values": decades(frame["cost"].min(), frame["cost"].max())} if x_scale.type == "log" else {"tickCount": 6}
    x = alt.X("cost:Q", scale=x_scale, axis=alt.Axis(title="cost (USD a month)", labelExpr=SHORT, **ticks))
    wide = frame["ms"].max() > 10 * frame["ms"].min()
    y = alt.Y(
        "ms:Q",
        scale=y_scale,
        axis=_ms_axis("p99 latency, waiting included") if wide else alt.Axis(title="p99 latency, waiting included (ms)", tickCount=6),
    )
    colour = alt.Color(
        "type:N", scale=alt.Scale(domain=types, range=[style.FAMILY_COLOURS[t] for t in types]), legend=alt.Legend(title="volume type")
    )
    shapes = alt.Shape(
        "meets:N", scale=alt.Scale(domain=["meets every goal", "fails a goal"], range=["circle", "cross"]), legend=alt.Legend(title=None)
    )
    size = alt.Size("meets:N", scale=alt.Scale(domain=["meets every goal", "fails a goal"], range=[90, 70]), legend=alt.Legend(title=None))
    layers = [alt.Chart(frame).mark_point(filled=True, opacity=0.8).encode(x=x, y=y, color=colour, shape=shapes, size=size)]
    if goal_ms is not None:
        layers += _goal_line(goal_ms, f"goal: {goal_name} ≤ {number(goal_ms)} ms")
    best = [index for index, p in enumerate(known) if _is(p, winner)]
    if best:
        named = frame[best[0]]
        layers.append(alt.Chart(named).mark_point(size=280, strokeWidth=2, color=style.INK, filled=False).encode(x="cost:Q", y="ms:Q"))
        to_left = frame["cost"][best[0]] > 0.6 * frame["cost"].max()
        layers.append(
            alt.Chart(named).mark_text(align="right" if to_left else "left", dx=-14 if to_left else 6, dy=-18, fontWeight="bold")
            .encode(x="cost:Q", y="ms:Q", text="label:N")
        )  # fmt: skip
    chart = alt.layer(*layers).properties(width=style.WIDTH - 140, height=320, title="Cost against delivered latency")
    return style.configured(chart)


def _goal_line(goal_ms: float, label: str) -> list[alt.Chart]:
    data = pl.DataFrame({"ms": [float(goal_ms)], "label": [label]})
    return [
        alt.Chart(data).mark_rule(strokeDash=[5, 4], color=style.QUIET).encode(y="ms:Q"),
        alt.Chart(data)
        .mark_text(align="left", baseline="bottom", dy=-3, color=style.QUIET)
        .encode(y="ms:Q", x=alt.value(4), text="label:N"),
    ]


def _volume_type(point: dict) -> str:
    named = str(point.get("volume_type") or point.get("family") or "").split(" ")[0]
    return named if named in style.FAMILY_COLOURS else "standard"


def _is(point: dict, winner: str | None) -> bool:
    return winner is not None and winner == (f"{point['storage']} on {point['instance']}" if point.get("instance") else point["storage"])


def cost_items(choices: list[tuple[str, list[dict]]]) -> alt.Chart:
    """The monthly bill of several choices as stacked bars. `choices`: name and its items (`item`, `usd`)."""
    rows = [{"choice": name, "item": item["item"], "usd": float(item["usd"])} for name, items in choices for item in items if item["usd"]]
    frame = pl.DataFrame(rows, schema={"choice": pl.String, "item": pl.String, "usd": pl.Float64}, orient="row")
    totals = (
        frame.group_by("choice", maintain_order=True)
        .agg(pl.col("usd").sum())
        .with_columns(pl.col("usd").map_elements(usd, return_dtype=pl.String).alias("text"))
    )
    order = [name for name, _ in choices]
    items = frame["item"].unique(maintain_order=True).to_list()
    palette = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#8C8C8C"]
    colours = [palette[index % len(palette)] for index in range(len(items))]
    y = alt.Y("choice:N", sort=order, axis=alt.Axis(title=None))
    bars = alt.Chart(frame).mark_bar().encode(
        y=y, x=alt.X("usd:Q", axis=alt.Axis(title="USD a month", tickCount=6)),
        color=alt.Color("item:N", scale=alt.Scale(domain=items, range=colours),
                        legend=alt.Legend(title=None, orient="bottom", columns=3)), order=alt.Order("item:N"),
    )  # fmt: skip
    labels = alt.Chart(totals).mark_text(align="left", dx=4).encode(y=y, x="usd:Q", text="text:N")
    return style.configured((bars + labels).properties(width=style.WIDTH - 180, height=alt.Step(24), title="The monthly bill"))
