"""Words for a recording: windows in which the volume was at a limit (found in `censored`), its
length and clock; and its latency.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from headrace.base.units import DAY_S, describe_repeats, describe_span, write_clock

Unit = Literal["IOPS", "MiB/s"]

# Reports are lost at both ends (the first, since boot; the last, cut off): a day short of 1 % is
# still called a day.
WHOLE_SHARE = 0.99


@dataclass(frozen=True)
class CensoredWindow:
    """A window in which the volume was at a limit: demand was at least the recorded rate.

    `from_s`, `to_s`: seconds from the start. `limit`: "iops", "mib_s", or "credits" where the
    volume gave more at other times. `recorded`: the flat rate, in `unit` ("IOPS" or "MiB/s").
    `usual_latency_ms` (None: not recorded, or nothing to compare with), `latency_ms`, `queue` (mean
    outstanding), `util_percent`, `balance_percent`: means of the window, None where not recorded.
    `at_least_iops`: what was recorded and, by Little's law, what was still waiting at the end of
    the point with the longest queue. `at_most_iops`: as many outstanding, served at the usual
    latency: an upper figure to show, not to plan by. All are figures of the recording: `scale`
    does not change them.
    """

    from_s: float
    to_s: float
    limit: Literal["iops", "mib_s", "credits"]
    recorded: float
    unit: Unit
    usual_latency_ms: float | None
    latency_ms: float | None
    queue: float | None
    at_least_iops: float
    at_most_iops: float | None
    util_percent: float | None = None
    balance_percent: float | None = None

    def describe_window(self, clock_start: str | None = None) -> str:
        """Returns one or two sentences on this window, with times of day if `clock_start` is that
        of a workload's source."""
        return describe_windows((self,), clock_start)


def describe_windows(windows: tuple[CensoredWindow, ...], clock_start: str | None = None) -> str:
    """Returns sentences on windows at the same limit and rate: the three longest, evidence from the
    longest, its meaning, and advice."""
    first = max(windows, key=lambda window: window.to_s - window.from_s)
    shown = sorted(
        sorted(windows, key=lambda window: window.from_s - window.to_s)[:3], key=lambda window: window.from_s
    )
    dated = windows[-1].to_s >= DAY_S

    seconds = first.to_s - first.from_s < 120.0

    def describe_moment(t_s: float) -> str:
        to_the_minute = 0.0 if seconds else 30.0  # the nearest: reports come a second early or late
        since = f"{describe_span(round(t_s))} after the start" if t_s else "the start"
        return write_clock(clock_start, t_s + to_the_minute, dated, seconds) or since

    when = ", ".join(f"from {describe_moment(window.from_s)} to {describe_moment(window.to_s)}" for window in shown)
    if len(windows) > len(shown):
        total_s = sum(window.to_s - window.from_s for window in windows)
        when += f" and {describe_repeats(len(windows) - len(shown))} ({describe_span(total_s)} in all)"
    signs = [f"{when[0].upper()}{when[1:]} the device was at a flat {_describe_rate(first.recorded)} {first.unit}"]
    if first.util_percent is not None:
        signs.append(f"utilised {first.util_percent:.0f} %")
    if first.balance_percent is not None and first.balance_percent < 5.0:
        signs.append(f"burst balance {first.balance_percent:.0f} %")
    if first.latency_ms is not None:
        signs.append(f"latency {_describe_latency(first.latency_ms, first.usual_latency_ms)}")
    reason = "with its credits gone this" if first.limit == "credits" else "this"
    least = (
        f"at least {first.at_least_iops:,.0f} IOPS"
        if first.at_least_iops > 1.02 * _get_iops(first)
        else "at least that"
    )
    return (
        f"{', '.join(signs)}: {reason} is what the volume gave, not what was asked. Demand was {least}; "
        "plan with --demand-growth 1.5 to 3, or record on a larger volume."
    )


def _describe_latency(latency_ms: float, usual_ms: float | None) -> str:
    """Returns a latency as a multiple of the usual one, or in ms if that is not known."""
    if not usual_ms:
        return f"{latency_ms:.3g} ms"
    times = latency_ms / usual_ms
    return f"{times:,.0f} times the usual" if times >= 10.0 else f"{times:.2g} times the usual"


def _describe_rate(value: float) -> str:
    """Returns a rate, IOPS or MiB/s, with four digits and no power of ten."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:,.4g}"


def _get_iops(window: CensoredWindow) -> float:
    return window.recorded if window.unit == "IOPS" else window.at_least_iops


# --- latency --------------------------------------------------------------------------------------


def compute_recorded_latency(points: pl.DataFrame, scaled_by: float) -> pl.DataFrame | None:
    """Returns `t_s` and the recorded latency `mean_ms` of each point (null: none), or None if no
    point has one: the mean over reads and writes if both were recorded, else that of all I/Os, else
    queue over rate (Little's law). `scaled_by` is the factor by which the rates were multiplied
    since they were recorded."""
    rate = pl.col("reads_per_s") + pl.col("writes_per_s")
    expressions = []
    if "read_await_ms" in points.columns and "write_await_ms" in points.columns:
        parts = [
            pl.when(pl.col(f"{what}s_per_s") > 0)
            .then(pl.col(f"{what}s_per_s") * pl.col(f"{what}_await_ms"))
            .otherwise(0.0)
            for what in ("read", "write")
        ]
        expressions.append((parts[0] + parts[1]) / rate)
    if "await_ms" in points.columns:
        expressions.append(pl.col("await_ms"))
    if "queue" in points.columns:
        expressions.append(pl.col("queue") * scaled_by / rate * 1_000.0)
    if not expressions:
        return None
    latency = points.select("t_s", pl.when(rate > 0).then(pl.coalesce(expressions)).alias("mean_ms"))
    return latency if latency["mean_ms"].is_not_null().any() else None


# --- notes ----------------------------------------------------------------------------------------


def describe_limits_met(windows: tuple[CensoredWindow, ...], clock_start: str | None) -> tuple[str, ...]:
    """Returns a text for each limit that the recorded volume was at, the longest time first."""
    return tuple(describe_windows(alike, clock_start) for alike in _group_by_limit(windows))


def _group_by_limit(windows: tuple[CensoredWindow, ...]) -> list[tuple[CensoredWindow, ...]]:
    """Groups windows at the same limit whose recorded rates are within 2 %, the longest time
    first."""
    groups: list[list[CensoredWindow]] = []
    for window in windows:
        for group in groups:
            first = group[0]
            if (
                first.unit == window.unit
                and first.limit == window.limit
                and abs(first.recorded - window.recorded) <= 0.02 * first.recorded
            ):
                group.append(window)
                break
        else:
            groups.append([window])
    groups.sort(key=lambda group: -sum(window.to_s - window.from_s for window in group))
    return [tuple(group) for group in groups]


def note_length(span_s: float) -> str | None:
    """Returns a sentence on what a recording of `span_s` seconds cannot show, where it is shorter
    than a day or a week; None for a longer one."""
    if span_s < WHOLE_SHARE * DAY_S:
        return f"The recording is {describe_span(span_s)} long: a day with its backup is needed, better a week, before a plan can be trusted."
    if span_s < WHOLE_SHARE * 7 * DAY_S:
        return f"The recording covers {describe_span(span_s)}: a weekend, a month end or a weekly backup may be missing from it."
    return None


def note_zone(clock_zone: str) -> str:
    """Returns a sentence on the clock that gives the times of day: the one of `clock_zone`, "UTC"
    or "UTC+01:00", or for any other text one that is not stated."""
    if clock_zone.startswith("UTC"):
        return f"Times of day are {clock_zone}."
    return "Times of day are local to the recording host; which zone that is, the recording does not say."
