"""Windows of a recording in which a device is at a limit: those that its own levels show
(workload/censored.py), and those whose rate is that of a limit of the storage that is named."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from headrace.base.units import MIB
from headrace.observe.evidence.limits import HoldingLimits
from headrace.observe.evidence.model import VolumeEvidence
from headrace.operate.doctor.levels import (
    GP2_BURST_IOPS,
    LEAST_POINTS,
    LONG_POINT_S,
    Level,
    LimitLevel,
    average_blocks,
    compute_bytes_per_s,
    compute_level,
    find_instances,
    find_limit,
)
from headrace.operate.doctor.signals import ModelLatency, find_rows_latency
from headrace.operate.doctor.slowness import compute_mean_ms, find_stretches
from headrace.operate.doctor.thresholds import Thresholds
from headrace.workload import OpenWorkload
from headrace.workload.censored import KNOWN_IOPS, KNOWN_MIB_S
from headrace.workload.observed import CensoredWindow

NAMES = {"iops": "volume-iops", "mib_s": "volume-throughput", "credits": "volume-credits"}
# Most idle time, percent, of a point at the limit of a window without a named storage: a device
# that was idle for longer is not at a limit (a guess).
NEVER_IDLE_PERCENT = 90.0
EDGES = 5  # points of a window from which on its first and last are left out: they may be half of it
LEAST_RUN = 3  # points at the rate of a limit: two alike may be chance (workload/censored.py)


@dataclass(frozen=True)
class BoundWindow:
    """A window of the recording and the limit that it is at."""

    window: CensoredWindow
    limit: LimitLevel


def find_bound_windows(
    workload: OpenWorkload, volume: VolumeEvidence, as_of: str | None, t: Thresholds
) -> list[BoundWindow]:
    """Returns the windows whose rate is a limit of the storage and instance that are named; without
    these, the windows that the recording alone shows to be at a limit (`_infer_limit`)."""
    limits = volume.facts.limits
    bound = []
    for window in workload.censored:
        rows = _select_rows(volume.rows, window)
        if not rows.height:
            continue
        level = compute_level(rows[1:-1] if rows.height >= EDGES else rows)
        limit = find_limit(level, limits) if limits else _infer_limit(window, level, volume, as_of, t)
        if limit is not None:
            bound.append(BoundWindow(window, limit))
    return bound + (_find_runs(volume, limits, bound, as_of, t) if limits else [])


def _find_runs(
    volume: VolumeEvidence, limits: HoldingLimits, bound: list[BoundWindow], as_of: str | None, t: Thresholds
) -> list[BoundWindow]:
    """Returns windows of LEAST_RUN points or more at the rate of a limit and with a latency several
    times the type's own; `bound` are passed over."""
    rows = remove_bound_rows(volume.rows, bound)
    model = find_rows_latency(volume.facts, rows, as_of)
    if model is None:
        return []
    slow = _find_waits(rows, model, t)
    every = compute_level(rows)
    runs: list[BoundWindow] = []
    for _, allowed, in_bytes in limits.list_levels():
        rate = compute_bytes_per_s(rows) if in_bytes else pl.col("charged_iops")
        near = rows.select(((rate / allowed - 1.0).abs() <= every.tolerance).fill_null(False).alias("near"))["near"]
        for first, behind in find_stretches(near & slow):
            run = rows[first:behind]
            if behind - first < LEAST_RUN or _touches(run, volume.rows, runs):
                continue
            limit = find_limit(compute_level(run), limits)
            if limit is not None:
                runs.append(BoundWindow(_as_window(run, volume.rows, rows.filter(~slow), limit), limit))
    return runs


def _find_waits(rows: pl.DataFrame, model: ModelLatency, t: Thresholds) -> pl.Series:
    """Returns which rows have several times the type's median latency while the device is hardly
    idle (NEVER_IDLE_PERCENT)."""
    own = (
        pl.col("read_iops").fill_null(0.0) * model.read_p50 + pl.col("write_iops").fill_null(0.0) * model.write_p50
    ) / (pl.col("read_iops").fill_null(0.0) + pl.col("write_iops").fill_null(0.0))
    waits = compute_mean_ms(rows) >= t.inferred_latency_factor * own
    if "idle_share" in rows.columns:
        waits &= pl.col("idle_share").fill_null(0.0) <= 1.0 - NEVER_IDLE_PERCENT / 100.0
    return rows.select(waits.fill_null(False).alias("waits"))["waits"]


def _touches(run: pl.DataFrame, rows: pl.DataFrame, runs: list[BoundWindow]) -> bool:
    first = float(rows["t_unix"][0])
    begins, ends = float(run["t_unix"][0]) - first, float(run["t_unix"][-1]) - first
    return any(begins < entry.window.to_s and ends >= entry.window.from_s for entry in runs)


def _as_window(run: pl.DataFrame, rows: pl.DataFrame, calm: pl.DataFrame, limit: LimitLevel) -> CensoredWindow:
    """Returns a run of rows at a limit as a window: times in seconds of the recording, the rate in
    IOPS or MiB/s, latencies in ms (the usual one is that of the `calm` rows)."""
    first = float(rows["t_unix"][0])

    def mean(frame: pl.DataFrame, what: pl.Expr) -> float | None:
        value = frame.select(what.mean().alias("mean"))["mean"][0] if frame.height else None
        return None if value is None else float(value)

    iops = mean(run, pl.col("charged_iops")) or 0.0
    in_bytes = limit.unit == "bytes/s"
    usual = calm.select(compute_mean_ms(calm).median().alias("ms"))["ms"][0] if calm.height else None
    return CensoredWindow(
        from_s=float(run["t_unix"][0]) - first,
        to_s=float(run["t_unix"][-1] + run["duration_s"][-1]) - first,
        limit="credits" if limit.name.endswith("credits") else "mib_s" if in_bytes else "iops",
        recorded=limit.rate / MIB if in_bytes else limit.rate,
        unit="MiB/s" if in_bytes else "IOPS",
        usual_latency_ms=None if usual is None else float(usual),
        latency_ms=mean(run, compute_mean_ms(run)),
        queue=mean(run, pl.col("queue")) if "queue" in run.columns else None,
        at_least_iops=iops,
        at_most_iops=None,
    )


def _select_rows(rows: pl.DataFrame, window: CensoredWindow) -> pl.DataFrame:
    first = float(rows["t_unix"][0]) if rows.height else 0.0
    at = pl.col("t_unix") - first
    return rows.filter((at >= window.from_s - 1e-6) & (at < window.to_s - 1e-6))


def remove_bound_rows(rows: pl.DataFrame, bound: list[BoundWindow]) -> pl.DataFrame:
    """Returns the rows outside of all windows at a limit and not next to one: a neighbour may be
    half in it."""
    if not bound:
        return rows
    first = float(rows["t_unix"][0])
    in_window = pl.lit(False)
    for entry in bound:
        at, ends = pl.col("t_unix") - first, pl.col("t_unix") - first + pl.col("duration_s")
        in_window = in_window | ((ends >= entry.window.from_s - 1e-6) & (at <= entry.window.to_s + 1e-6))
    return rows.filter(~in_window)


def _infer_limit(
    window: CensoredWindow, level: Level, volume: VolumeEvidence, as_of: str | None, t: Thresholds
) -> LimitLevel | None:
    """Infers the limit of a window from the recording alone, where the storage is not known: a
    limit that volumes are sold with, credits that are gone, or a rate that it never exceeds. None
    where an instance's baseline explains it (the finding asks for --instance), or where the device
    was idle in between, which makes it bursts."""
    members = volume.facts.name.count("+") + 1
    for name, limits, in_bytes in (("volume-throughput", KNOWN_MIB_S, True), ("volume-iops", KNOWN_IOPS, False)):
        rate = level.bytes_s / MIB if in_bytes else level.iops
        near = any(
            abs(rate - limit * count) <= level.tolerance * limit * count for limit in limits for count in {1, members}
        )
        if near and level.is_flat(in_bytes) and window.limit != "credits":
            return LimitLevel(name, level.bytes_s if in_bytes else level.iops, "bytes/s" if in_bytes else "I/Os/s")
    if window.util_percent is None and level.point_s >= t.window_s and window.limit != "credits":
        return None  # a top that nobody counted the idle time of may be bursts
    if window.util_percent is not None and window.util_percent < NEVER_IDLE_PERCENT:
        return None
    rows = average_blocks(_select_rows(volume.rows, window)[1:-1], LONG_POINT_S)
    if rows.height >= LEAST_POINTS and not compute_level(rows).is_held:
        return None  # as flat as clients that wait for answers: a volume in trouble has that too
    most = float(volume.rows["charged_iops"].max() or 0.0)  # type: ignore[arg-type]
    # No gp2 bursts further, so it is the instance's burst that was spent.
    beyond_gp2 = most > 1.05 * GP2_BURST_IOPS * members
    if (window.limit != "credits" or beyond_gp2) and find_instances(level, as_of) is not None:
        return None
    in_bytes = window.unit == "MiB/s"
    rate = level.bytes_s if in_bytes else level.iops
    return LimitLevel(NAMES[window.limit], rate, "bytes/s" if in_bytes else "I/Os/s")
