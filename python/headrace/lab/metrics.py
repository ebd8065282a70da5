"""Turns rows of metrics into frames and rates, and estimates how long credits last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.base.units import DAY_S, MIB, US_PER_MS, US_PER_S, span_in_words
from headrace.errors import InputError
from headrace.lab.calls import MetricsRows

if TYPE_CHECKING:
    import polars as pl

SECONDS_OF = {"second": 1, "minute": 60}
# Rows that the daemon keeps: an hour of seconds, 15 days of minutes.
KEPT_ROWS = {"second": 3_600, "minute": 21_600}
# A minute of seconds, or an hour of minutes.
DEFAULT_ROWS = 60


def frame(answer: MetricsRows) -> pl.DataFrame:
    """Returns the answer of `Lab.metrics` as a frame with its columns: sums and means of a second
    or minute, units in the names.
    """
    # 25 MB of memory, which following a volume does not need.
    import polars as pl

    columns = answer["columns"]
    return pl.DataFrame(answer["rows"], schema=list(columns), orient="row", infer_schema_length=None)


def stretch(seconds: int | None, minutes: int | None, resolution: str | None) -> tuple[str, int]:
    """Returns the resolution and the number of rows for the last `seconds` or `minutes`; without
    either, 60 rows. Raises InputError.
    """
    if seconds is not None and minutes is not None:
        raise InputError(
            "--seconds and --minutes", "say the same twice", "headrace volume metrics --help", "Give one of them."
        )
    resolution = resolution or ("minute" if minutes is not None else "second")
    asked_s = seconds if minutes is None else 60 * minutes
    if asked_s is None:
        return resolution, DEFAULT_ROWS
    if asked_s < 1:
        raise InputError(f"{asked_s} s", "must be a second or more", "", "For example --seconds 60.")
    rows = -(-asked_s // SECONDS_OF[resolution])
    if rows > KEPT_ROWS[resolution]:
        rule = "seconds are kept for an hour" if resolution == "second" else "minutes are kept for 15 days"
        raise InputError(
            f"{rows:,} rows",
            rule,
            "docs/reference/lab-protocol.md, volume.metrics",
            "Ask for less, or for --resolution minute.",
        )
    return resolution, rows


@dataclass(frozen=True)
class Rates:
    """A row of metrics as rates. Latencies are percentiles of the histogram of the row in ms, None
    without I/O of that kind.
    """

    t_s: int
    read_iops: float
    write_iops: float
    read_mib_s: float
    write_mib_s: float
    queue: float
    read_p50_ms: float | None
    read_p99_ms: float | None
    write_p50_ms: float | None
    write_p99_ms: float | None
    balance_percent: float | None
    exceeded_percent: float

    @property
    def iops(self) -> float:
        """I/Os a second, reads and writes."""
        return self.read_iops + self.write_iops

    @property
    def mib_s(self) -> float:
        """Throughput of reads and writes, MiB/s."""
        return self.read_mib_s + self.write_mib_s


EXCEEDED = (
    "volume_iops_exceeded_us",
    "volume_throughput_exceeded_us",
    "instance_iops_exceeded_us",
    "instance_throughput_exceeded_us",
)


def rates(columns: Sequence[str], row: Sequence, seconds: int = 1) -> Rates:
    """Returns the rates of a row of `seconds`. `exceeded_percent`: share of the time in which more
    was asked than the tightest limit gives.
    """
    named = dict(zip(columns, row, strict=True))

    def per_second(name: str, unit: int = 1) -> float:
        return (named.get(name) or 0) / unit / seconds

    def in_ms(name: str) -> float | None:
        value = named.get(name)
        return None if value is None else value / US_PER_MS

    idle_of = {"read": not named.get("reads"), "write": not named.get("writes")}
    latencies = {
        f"{op}_{percentile}_ms": None if idle_of[op] else in_ms(f"{op}_{percentile}_us")
        for op in ("read", "write")
        for percentile in ("p50", "p99")
    }
    exceeded_us = max(named.get(name) or 0 for name in EXCEEDED)
    return Rates(
        t_s=int(named["t_s"]),
        read_iops=per_second("reads"),
        write_iops=per_second("writes"),
        read_mib_s=per_second("read_bytes", MIB),
        write_mib_s=per_second("write_bytes", MIB),
        queue=named.get("queue_mean") or 0.0,
        balance_percent=named.get("balance_percent"),
        exceeded_percent=min(100.0, 100 * exceeded_us / (seconds * US_PER_S)),
        **latencies,
    )


def time_text(seconds: float | None) -> str:
    """Returns `-`, `empty`, or the span in words: `42 s`, `5 h 10 min`, `9 d`."""
    if seconds is None:
        return "-"
    if seconds <= 0:
        return "empty"
    if round(seconds / 60) >= 48 * 60:  # whole days: the column of a table
        return f"{round(seconds / DAY_S)} d"
    return span_in_words(max(1, round(seconds)))
