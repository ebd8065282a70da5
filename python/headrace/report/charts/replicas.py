"""A replica over time: lag, backlog, transactions of source and replica, I/Os."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from headrace.report.charts import style
from headrace.report.charts.builders import Drawing, TimeAxis, lines, shade, stacked, thinned

if TYPE_CHECKING:
    from headrace.simulation.replica import ReplicaOutcome, ReplicaPrediction

HEIGHT = 100  # px
SOURCE_COLOUR, REPLICA_COLOUR = style.QUIET, style.SIMULATED


def lag(run: ReplicaPrediction, title: str) -> alt.VConcatChart:
    """Draws lag, backlog, rates and I/Os on one time line; the time after the load is shaded, the
    most lag is marked."""
    rows = run.rows
    length = rows["t_s"][1] - rows["t_s"][0] if rows.height > 1 else 1.0
    time = TimeAxis(None, rows["t_s"][-1] + length)
    frame = time.add(thinned(rows.with_columns(pl.lit(length).alias("duration_s"))))
    summary = run.summary
    panels = [
        ("lag (s)", [("lag_s", "lag", REPLICA_COLOUR)]),
        ("transactions waiting", [("backlog", "backlog", REPLICA_COLOUR)]),
        (
            "transactions a second",
            [("source_tps", "source", SOURCE_COLOUR), ("applied_tps", "applied", REPLICA_COLOUR)],
        ),
        ("replica's I/Os a second", [("iops", "I/Os", REPLICA_COLOUR)]),
    ]
    if rows["balance_percent"].is_not_null().any():
        panels.append(("credits (%)", [("balance_percent", "balance", REPLICA_COLOUR)]))
    moments = time.add(
        pl.DataFrame(
            {
                "t_s": [summary["load_s"], summary["peak_at_s"]],
                "duration_s": [0.0, 0.0],
                "lag_s": [0.0, summary["peak_lag_s"]],
            }
        )
    )
    end = frame["until"].to_list()[-1]
    drained = moments[:1].select("at", pl.lit(end).alias("until"))
    shaded = rows["t_s"][-1] > summary["load_s"]
    drawn: list[Drawing] = []
    for index, (name, parts) in enumerate(panels):
        x = time.x(index == len(panels) - 1)
        layers: list = [lines(frame, x, name, parts, height=HEIGHT)]
        if shaded:
            layers.insert(0, shade(drained, x, HEIGHT))
        if index == 0:
            peak = alt.Chart(moments[1:].with_columns(pl.lit(_peak(summary)).alias("text")))
            at = {"x": x, "y": alt.Y("lag_s:Q")}
            layers.append(peak.mark_point(color=style.WARN, filled=True, size=60).encode(**at))
            # At the bottom, since above stand the names of the lines.
            late = summary["peak_at_s"] > rows["t_s"][-1] / 2
            text = peak.mark_text(align="right" if late else "left", dx=-8 if late else 8, baseline="bottom")
            layers.append(text.encode(text="text", x=x, y=alt.value(HEIGHT - 6)))
        drawn.append(alt.layer(*layers))
    return stacked(drawn, title, "Shaded: after the load has stopped." if shaded else "")


def _peak(summary: ReplicaOutcome) -> str:
    after = " after the load has stopped" if summary["peak_at_s"] > summary["load_s"] else ""
    return f"most: {summary['peak_lag_s']:,.3g} s{after}"
