"""Converts rows of the lab's metrics into frames, and into figures of ticks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.base.caps import OVER
from headrace.base.units import DAY_S, MIB, US_PER_MS, US_PER_S, describe_span
from headrace.errors import InputError
from headrace.lab.calls import MetricsRows

if TYPE_CHECKING:
    import polars as pl

SECONDS_OF = {"second": 1, "minute": 60}
# Rows that the daemon keeps: an hour of seconds, 15 days of minutes.
KEPT_ROWS = {"second": 3_600, "minute": 21_600}
# A minute of seconds, or an hour of minutes.
DEFAULT_ROWS = 60


def build_frame(answer: MetricsRows) -> pl.DataFrame:
    """Returns the answer of `Lab.metrics` as a frame with its columns: sums and means of a second
    or minute, units in the names."""
    # 25 MB of memory, which following a volume does not need.
    import polars as pl

    columns = answer["columns"]
    return pl.DataFrame(answer["rows"], schema=list(columns), orient="row", infer_schema_length=None)


def choose_stretch(seconds: int | None, minutes: int | None, resolution: str | None) -> tuple[str, int]:
    """Returns the resolution and the number of rows of the last `seconds` or `minutes`; without
    either, DEFAULT_ROWS rows. Raises InputError."""
    if seconds is not None and minutes is not None:
        rule = "say the same twice"
        raise InputError("--seconds and --minutes", rule, "headrace volume metrics --help", "Give one of them.")
    resolution = resolution or ("minute" if minutes is not None else "second")
    span_s = seconds if minutes is None else 60 * minutes
    if span_s is None:
        return resolution, DEFAULT_ROWS
    if span_s < 1:
        raise InputError(f"{span_s} s", "must be a second or more", "", "For example --seconds 60.")
    rows = -(-span_s // SECONDS_OF[resolution])
    if rows > KEPT_ROWS[resolution]:
        rule = "seconds are kept for an hour" if resolution == "second" else "minutes are kept for 15 days"
        hint = "Ask for less, or for --resolution minute."
        raise InputError(f"{rows:,} rows", rule, "docs/reference/lab-protocol.md, volume.metrics", hint)
    return resolution, rows


def convert_volume_rows(answer: MetricsRows) -> dict[int, dict[str, float | None]]:
    """Returns the answer of `Lab.metrics` as ticks have it, by the second since 1970 in which each
    row begins (`convert_volume_row`)."""
    rows = (dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"])
    return {int(row["t_s"]): convert_volume_row(row) for row in rows}


def convert_volume_row(row: Mapping[str, float | None]) -> dict[str, float | None]:
    """Returns a row of metrics as figures of a tick (`VOLUME_COLUMNS` of observe/evidence/model.py
    has their units). Rates are over the time that the row is about; latencies are None without I/O
    of their kind."""
    seconds = (row.get("span_us") or US_PER_S) / US_PER_S
    counts = {way: row.get(f"{way}s") or 0.0 for way in ("read", "write")}

    def compute_per_second(name: str, unit: float = 1.0) -> float:
        return (row.get(name) or 0.0) / unit / seconds

    def scale_figure(name: str, factor: float) -> float | None:
        return None if (value := row.get(name)) is None else value * factor

    figures: dict[str, float | None] = {
        "charged_iops": compute_per_second("consumed_ops"),
        "queue": row.get("queue_mean"),
        "queue_max": row.get("queue_max"),
        "idle_share": scale_figure("idle_percent", 0.01),
        "balance_percent": row.get("balance_percent"),
        "instance_io_balance_percent": row.get("instance_ios_balance_percent"),
        "instance_byte_balance_percent": row.get("instance_bytes_balance_percent"),
        "flush_iops": compute_per_second("flushes"),
        "errors_per_s": compute_per_second("errors"),
    }
    for way, count in counts.items():
        figures[f"{way}_iops"] = count / seconds
        figures[f"{way}_mib_s"] = compute_per_second(f"{way}_bytes", MIB)
        figures[f"{way}_ms"] = compute_per_second(f"{way}_time_us", US_PER_MS) * seconds / count if count else None
        for share in ("p50", "p99"):
            figures[f"{way}_{share}_ms"] = scale_figure(f"{way}_{share}_us", 1 / US_PER_MS) if count else None
    for name, column in OVER.items():
        exceeded_us = row.get(name.replace("-", "_") + "_exceeded_us")
        figures[column] = None if exceeded_us is None else min(1.0, exceeded_us / US_PER_S / seconds)
    return figures


def describe_time(seconds: float | None) -> str:
    """Returns the time until credits are empty as text: `-` for None, `empty`, or a span such as
    `42 s`, `5 h 10 min`, `9 d`."""
    if seconds is None:
        return "-"
    if seconds <= 0:
        return "empty"
    if round(seconds / 60) >= 48 * 60:  # whole days: the column of a table
        return f"{round(seconds / DAY_S)} d"
    return describe_span(max(1, round(seconds)))
