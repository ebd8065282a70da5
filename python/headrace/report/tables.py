"""Tables on stdout. Wide enough not to cut anything when stdout is a file or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.report.output import plain

PIPE_WIDTH = 240  # characters; without a terminal there is nothing to wrap for


def console() -> Console:
    """stdout as rich sees it: no markup is read out of data, no colours without a terminal."""
    width = None
    if not sys.stdout.isatty():
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdigit() and int(columns) > 20 else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "", right: Sequence[str] = ()) -> Table:
    """A table of text; the columns named in `right` are set to the right."""
    made = Table(title=Text(plain(title)) if title else None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(Text(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text("" if cell is None else plain(cell)) for cell in row))
    return made


def show(*parts: object) -> None:
    """Prints tables and lines of text to stdout, in order."""
    out = console()
    for part in parts:
        out.print(Text(plain(part)) if isinstance(part, str) else part)


SPARKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 72) -> str:
    """The values as blocks, each the highest of its stretch; the tallest block is the highest of all."""
    if not values:
        return ""
    count = min(width, len(values))
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    peaks = [max(values[edges[i] : edges[i + 1]]) for i in range(count)]
    top = max(peaks) or 1.0
    return "".join(SPARKS[min(7, int(8 * max(0.0, peak) / top))] for peak in peaks)
