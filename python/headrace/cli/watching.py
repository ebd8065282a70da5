"""How `headrace volume watch` shows its readings: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime

COLUMNS = ("time", "IOPS", "read", "write", "MiB/s", "queue", "read p50", "p99 ms", "write p50", "p99 ms", "balance", "empty in")
WIDTHS = (8, 8, 8, 8, 8, 7, 9, 8, 9, 8, 9, 10)
ROWS = 20


def cells(reading) -> list[str]:
    """The cells of COLUMNS; the time is local."""
    from headrace.cli.lab_common import percent_cell
    from headrace.lab.metrics import time_text

    rate = reading.rates
    counts = [f"{value:,.0f}" for value in (rate.iops, rate.read_iops, rate.write_iops)]
    latencies = [
        "-" if value is None else f"{value:,.2f}" for value in (rate.read_p50_ms, rate.read_p99_ms, rate.write_p50_ms, rate.write_p99_ms)
    ]
    at = datetime.fromtimestamp(rate.t_s).strftime("%H:%M:%S")
    return [
        at,
        *counts,
        f"{rate.mib_s:,.1f}",
        f"{rate.queue:,.1f}",
        *latencies,
        percent_cell(reading.percent),
        time_text(reading.empty_in_s),
    ]


def title(volume: dict) -> str:
    """What is watched."""
    device = (volume.get("attachment") or {}).get("device") or "not attached"
    return f"{volume.get('name') or volume['id']}  {volume['spec']}  {device}"


def plain_lines(volume: dict, readings: Iterator) -> None:
    """A line a second, each written at once so that a reader sees it."""
    import sys

    from headrace.report.output import plain

    def line(texts) -> str:
        return " ".join(text.rjust(width) for text, width in zip(texts, WIDTHS, strict=True))

    print(plain(title(volume)))
    print(line(COLUMNS), flush=True)
    for reading in readings:
        print(line(cells(reading)))
        sys.stdout.flush()


def live(volume: dict, readings: Iterator) -> None:
    """A table that moves, with the last seconds and the course of IOPS and balance."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from headrace.report.output import plain
    from headrace.report.tables import console, sparkline, table

    kept: deque = deque(maxlen=120)
    with Live(Text(plain(title(volume))), console=console(), auto_refresh=False) as screen:
        for reading in readings:
            kept.append(reading)
            rows = [cells(one) for one in list(kept)[-ROWS:]]
            parts = [
                table(COLUMNS, rows, title=title(volume), right=COLUMNS[1:]),
                Text(""),
                Text(f"IOPS    {sparkline([one.rates.iops for one in kept])}"),
            ]
            if reading.percent is not None:
                parts.append(Text(f"balance {sparkline([one.percent or 0.0 for one in kept])}"))
            screen.update(Group(*parts), refresh=True)
