"""Lag by each clock with what explains it, on one line of time."""

from __future__ import annotations

import altair as alt
import polars as pl

from headrace.report.charts import style
from headrace.report.charts.builders import Part, TimeAxis, linear, lines, shade, stacked, thinned

# Column, label, colour.
CLOCKS: tuple[Part, ...] = (
    ("gtid_s", "GTID age", style.MEASURED),
    ("heartbeat_s", "heartbeat", style.SECOND),
    ("server_s", "server says", style.QUIET),
    ("commit_s", "commit timestamps", style.THIRD),
)
PANELS: tuple[tuple[str, tuple[Part, ...]], ...] = (
    ("lag (s)", CLOCKS),
    ("transactions", (("backlog", "backlog", style.MEASURED), ("unapplied", "received, not applied", style.SECOND))),
    ("a second", (("source_tps", "source", style.QUIET), ("applied_tps", "applied", style.MEASURED))),
    ("cores", (("cpu_cores", "CPU of the replica's server", style.MEASURED),)),
    ("IOPS", (("read_iops", "reads", style.MEASURED), ("write_iops", "writes", style.SECOND))),
    ("I/O p50 (ms)", (("read_ms", "reads", style.MEASURED), ("write_ms", "writes", style.SECOND))),
    ("credits (%)", (("balance_percent", "balance", style.MEASURED),)),
)
HEIGHT = 84  # px: seven panels fit a printed page


def time_line(rows: pl.DataFrame, title: str) -> alt.VConcatChart:
    """Returns panels of one channel; where it was broken is shaded. `rows` as
    `servers.topology.lag.record` has them."""
    rows = rows.with_columns((pl.col("t_s").shift(-1) - pl.col("t_s")).fill_null(0.5).alias("duration_s"))
    axis = TimeAxis(None, float(rows["t_s"][-1] + rows["duration_s"][-1]))
    frame = axis.add(thinned(rows, (pl.col("problem") != "").any().alias("broken")))
    broken = frame.filter(pl.col("broken")).select("at", "until")
    shown = [(y_title, [part for part in parts if frame[part[0]].is_not_null().any()]) for y_title, parts in PANELS]
    shown = [panel for panel in shown if panel[1]]
    drawn = []
    for index, (y_title, parts) in enumerate(shown):
        x = axis.x(index == len(shown) - 1)
        y = linear(y_title, 0, 106) if y_title == "credits (%)" else None
        panel = lines(frame, x, y_title, parts, y, HEIGHT)
        drawn.append(alt.layer(shade(broken, x, HEIGHT), panel) if broken.height else panel)
    return stacked(drawn, title, "Shaded: it received or applied nothing." if broken.height else "")
