"""Lag of replicas as a page with charts on one line of time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from headrace.report import html
from headrace.report.replication.chart import CLOCKS, time_line

FIGURES = ("median", "p95", "most", "at the end")


def write_lag(path: Path, rows: pl.DataFrame) -> None:
    """Writes the page. `rows`: of `servers.topology.lag.record.LagRecord`."""
    page = html.Page("Lag of replicas")
    if rows.height == 0:
        page.paragraph("Nothing was watched: no replica answered.")
        html.write_page(path, page)
        return
    began = datetime.fromtimestamp(rows["at_unix"][0], UTC)
    page.paragraph(f"Watched from {began:%Y-%m-%d %H:%M:%S} UTC for {rows['t_s'].max():.0f} s.")
    for (replica, channel), part in rows.group_by("replica", "channel", maintain_order=True):
        title = f"{replica}" + (f", channel {channel}" if channel else "")
        page.heading(title)
        page.chart(time_line(part, title), f"Lag of {title} by each clock, its backlog, applier, CPU and device.")
        figures = [(label, *_figures(part[name])) for name, label, _ in CLOCKS if part[name].is_not_null().any()]
        figures.append(("backlog (transactions)", *_figures(part["backlog"])))
        page.table(("clock", *FIGURES), figures, right=FIGURES)
        broken = part.filter(pl.col("problem") != "")
        if broken.height:
            page.paragraph(f"Broken in {broken.height} of {part.height} rows, last: {broken['problem'][-1]}")
    html.write_page(path, page)


def _figures(values: pl.Series) -> tuple[str, ...]:
    figures = (
        values.median(),
        values.quantile(0.95),
        values.max(),
        values.drop_nulls()[-1] if values.count() else None,
    )
    return tuple("-" if figure is None else f"{float(str(figure)):,.2f}" for figure in figures)
