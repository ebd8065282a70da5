"""Lag of replicas as a page, with charts on one line of time: lag by each clock, and its causes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import altair as alt
import polars as pl

from headrace.report.charts import style
from headrace.report.charts.builders import (
    PERCENT,
    Panel,
    Part,
    TimeAxis,
    draw_panels,
    make_linear_axes,
    stack_panels,
    thin_rows,
    with_figures,
)
from headrace.report.tables import fold_of
from headrace.report.view import Block, Card, Chart, Heading, Sentence, Table, View, make_columns

# Column, label, colour.
CLOCKS: tuple[Part, ...] = (
    ("gtid_s", "GTID age", style.MEASURED),
    ("heartbeat_s", "heartbeat", style.SECOND),
    ("server_s", "server says", style.QUIET),
    ("commit_s", "commit timestamps", style.THIRD),
)
PANELS: tuple[Panel, ...] = (
    ("lag (s)", CLOCKS),
    ("transactions", (("backlog", "backlog", style.MEASURED), ("unapplied", "received, not applied", style.SECOND))),
    ("a second", (("source_tps", "source", style.QUIET), ("applied_tps", "applied", style.MEASURED))),
    ("cores", (("cpu_cores", "CPU of the replica's server", style.MEASURED),)),
    ("IOPS", (("read_iops", "reads", style.MEASURED), ("write_iops", "writes", style.SECOND))),
    ("I/O p50 (ms)", (("read_ms", "reads", style.MEASURED), ("write_ms", "writes", style.SECOND))),
    ("credits (%)", (("balance_percent", "balance", style.MEASURED),)),
)
HEIGHT = 84  # px: seven panels fit a printed page


def draw_time_line(rows: pl.DataFrame, title: str) -> alt.VConcatChart:
    """Returns the chart of one channel over time; the time in which it was broken is shaded. `rows`
    as `servers.topology.lag.record` has them."""
    rows = rows.with_columns((pl.col("t_s").shift(-1) - pl.col("t_s")).fill_null(0.5).alias("duration_s"))
    axis = TimeAxis(None, float(rows["t_s"][-1] + rows["duration_s"][-1]))
    frame = axis.add(thin_rows(rows, (pl.col("problem") != "").any().alias("broken")))
    broken = frame.filter(pl.col("broken")).select("at", "until")
    axes = {"credits (%)": make_linear_axes("credits (%)", *PERCENT)}
    drawn = draw_panels(frame, axis, with_figures(PANELS, frame), HEIGHT, axes, shaded=broken)
    return stack_panels(drawn, title, "Shaded: it received or applied nothing." if broken.height else "")


FIGURES = ("median", "p95", "most", "at the end")


def build_view(rows: pl.DataFrame) -> View:
    """Returns the lag of the watched replicas as a view."""
    if rows.height == 0:
        return View("Lag of replicas", blocks=[Sentence("Nothing was watched: no replica answered.")])
    began = datetime.fromtimestamp(rows["at_unix"][0], UTC)
    blocks: list[Block] = []
    figures: list[Card] = []
    for (replica, channel), part in rows.group_by("replica", "channel", maintain_order=True):
        title = f"{replica}" + (f", channel {channel}" if channel else "")
        blocks += _build_channel(title, part)
        figures += _build_lag_cards(title, part)
    watched = f"Watched from {began:%Y-%m-%d %H:%M:%S} UTC for {rows['t_s'].max():.0f} s."
    return View("Lag of the replicas, and its causes", watched, figures[:3], blocks)


def _build_lag_cards(title: str, part: pl.DataFrame) -> Iterator[Card]:
    """Yields a card with the most lag of a channel, by the first clock that has figures."""
    for name, label, _ in CLOCKS:
        _, _, most, last = _list_figures(part[name])
        if most != "-":
            broken = part.filter(pl.col("problem") != "").height
            yield Card(f"Most lag of {title}", f"{most} s", f"{label}; {last} s at the end.", "warn" if broken else "")
            return


def _build_channel(title: str, part: pl.DataFrame) -> list[Block]:
    """Returns the blocks of one replication channel: chart, figures of its lag in seconds, and all
    rows."""
    figures = [(label, *_list_figures(part[name])) for name, label, _ in CLOCKS if part[name].is_not_null().any()]
    figures.append(("backlog (transactions)", *_list_figures(part["backlog"])))
    described = f"Lag of {title} by each clock, its backlog, applier, CPU and device."
    blocks: list[Block] = [
        Heading(title),
        Chart(lambda: draw_time_line(part, title), described),
        Table(make_columns(("clock (s)", *FIGURES), number=FIGURES), figures),
        fold_of(f"{title} as a table", part, PANELS),
    ]
    broken = part.filter(pl.col("problem") != "")
    if broken.height:
        words = f"Broken in {broken.height} of {part.height} rows, last: {broken['problem'][-1]}"
        blocks.append(Sentence(words, "warn"))
    return blocks


def _list_figures(values: pl.Series) -> tuple[str, ...]:
    """Returns median, 95th percentile, maximum and last value as text, "-" where there is none."""
    figures = (
        values.median(),
        values.quantile(0.95),
        values.max(),
        values.drop_nulls()[-1] if values.count() else None,
    )
    return tuple("-" if figure is None else f"{float(str(figure)):,.2f}" for figure in figures)
