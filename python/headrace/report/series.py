"""A time line as a table: what its chart shows, to be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from headrace.report.charts.rows import clock_step_s
from headrace.report.view import Fold, Table, columns
from headrace.report.words import number, row_labels, span, start_of

if TYPE_CHECKING:
    from headrace.report.charts.builders import Part


def fold_of(title: str, rows: pl.DataFrame, panels: Sequence[tuple[str, Sequence[Part]]], start: object = None) -> Fold:
    """Returns the panels of a chart as a folded table of at most 24 rows, each the means of a
    stretch on the clock. `rows`: `t_s` and the columns that `panels` names; columns without a
    figure are left out. `start`: the clock at 0 s, None without a clock."""
    parts = [
        (name, words if words.startswith(label) else f"{label}, {words}")
        for words, panel in panels
        for name, label, _ in panel
        if name in rows.columns and rows[name].is_not_null().any()
    ]
    moment = start_of(start)
    midnight = moment and moment.replace(hour=0, minute=0, second=0, microsecond=0)
    since_s = 0.0 if moment is None or midnight is None else (moment - midnight).total_seconds()
    step_s = clock_step_s(since_s + float(rows["t_s"][0]), since_s + float(rows["t_s"][-1]))
    short = rows.group_by(((pl.col("t_s") + since_s) / step_s).floor().alias("row"), maintain_order=True).agg(
        pl.col("t_s").first(), pl.col([name for name, _ in parts]).cast(pl.Float64).mean()
    )
    labels = row_labels([float(t_s) for t_s in short["t_s"]], start)
    cells = [
        (next(labels), *("-" if row[name] is None else number(row[name], 4) for name, _ in parts))
        for row in short.iter_rows(named=True)
    ]
    titles = ("time", *(words for _, words in parts))
    when = f"{'Time of day' if start else 'Time since the start'}. Each row: the mean of {span(step_s)}."
    return Fold(title, [Table(columns(titles, number=titles), cells, when)])
