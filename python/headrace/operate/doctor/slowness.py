"""Why a volume is slow below its limits: a burst within a point, first reads of blocks from a
snapshot, one member of an array, or EBS's own trouble.

EBS is blamed last, when nothing else can explain it:

- A burst at a limit makes requests wait while the mean of a point is far below the limit. In a
  point of which a share `b` is such a burst, the rate is at least `b` times the limit, and the
  device is busy for at most `b` and the time that the other requests take without it. A device
  that was busy for longer than that had no such burst (see `rules_out_bursts`).
- The first read of a block that still lies in a snapshot is slow, and writes are not. If a tool
  has one latency for both, the latency falls, as unread blocks become fewer. A burst at a limit
  slows the writes that come while it lasts: writes that wait less than half as long as reads let
  expect were in no burst (see `_has_quick_writes`).
- A slow member of an array is known by the others, which have the same load and are quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from headrace.observe.evidence.limits import HoldingLimits
from headrace.operate.doctor.levels import compute_bytes_per_s
from headrace.operate.doctor.signals import ModelLatency, median
from headrace.operate.doctor.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import Callable

Cause = Literal["bursts", "first-touch", "degraded"]
WAYS = ("read", "write")
# Calm points before a slow stretch that show what was usual, and their load compared with that of
# the stretch: a volume that was just attached had none. A guess.
CALM_POINTS, CALM_LOAD = 2, 0.3
LITTLE_READING = 0.05  # share of I/Os that are reads, below which cold blocks explain nothing; a guess
# Signs of a device that has stalled: the least queue (requests), and the most requests
# answered a second, far below any limit of a volume.
STALLED_QUEUE, STALLED_IOPS = 1.0, 0.01
SHORT_STRETCH = 4  # points, below which a fall of latency does not show
# Bursts of reads make writes wait. QUICK_WRITES: share of the expected wait below which writes did
# not wait; a margin, for fewer writes may come while reads burst. SEEN_WAIT: the wait shows only if
# it is at least this share of a write's usual latency. Guesses.
QUICK_WRITES, SEEN_WAIT = 0.5, 0.5


@dataclass(frozen=True)
class Slowness:
    """The possible causes of a slow stretch. `cause`: the first that is not ruled out.
    `reads_only`: writes are as quick as ever. `apart`: whether the latency of reads and writes is
    known apart. `long_busy`: whether the device was busy for longer than bursts explain. `busy`:
    share of the time with a request under way, None where nobody counted. `use`: the rate over the
    nearest limit. `falls`: whether the latency falls along the stretch."""

    cause: Cause
    reads_only: bool
    apart: bool
    long_busy: bool
    busy: float | None
    use: float
    falls: bool

    @property
    def may_be_cold(self) -> bool:
        """True when first reads of blocks would look like that too."""
        return self.cause == "first-touch" or self.reads_only or not self.apart


def find_slow_points(rows: pl.DataFrame, model: ModelLatency, t: Thresholds) -> pl.Series:
    """Returns which rows are slow: the latency of reads or writes is far above the type's p99."""
    p99 = max(model.read_p99, model.write_p99)
    # The mean of a long point is that of thousands: less of it says that some of them waited.
    factor = pl.when(pl.col("duration_s") >= t.window_s).then(t.slow_mean_factor).otherwise(t.degraded_factor)
    return _find_slow_rows(rows, t, lambda way: pl.col(f"{way}_ms") >= factor * p99)


def find_clearly_slow_points(rows: pl.DataFrame, model: ModelLatency, t: Thresholds) -> pl.Series:
    """Returns which rows are as slow as a degraded volume."""
    p99 = max(model.read_p99, model.write_p99)
    return _find_slow_rows(rows, t, lambda way: pl.col(f"{way}_ms") >= t.degraded_factor * p99)


def _find_slow_rows(rows: pl.DataFrame, t: Thresholds, is_slow: Callable[[str], pl.Expr]) -> pl.Series:
    """Returns which rows are slow in reads or writes, as `is_slow` says of each. A way counts only
    with `degraded_least_iops` I/Os a second; where a tool has one latency for both, all I/Os
    count."""
    combined = not has_separate_latencies(rows)
    parts = [
        is_slow(way) & ((pl.col("charged_iops") if combined else pl.col(f"{way}_iops")) >= t.degraded_least_iops)
        for way in WAYS
        if f"{way}_ms" in rows.columns and f"{way}_iops" in rows.columns
    ]
    slow = pl.any_horizontal(part.fill_null(False) for part in parts) if parts else pl.lit(False)
    return rows.select(slow.alias("slow"))["slow"] if parts else pl.Series("slow", [False] * rows.height)


def find_stalled_points(rows: pl.DataFrame) -> pl.Series:
    """Returns in which rows requests waited and none was answered, so that there is no latency.

    Some kernels lose count of the requests under way, and then show as many on an idle device for
    ever: a queue that is never shorter while requests are answered says nothing."""
    if not {"queue", "read_iops", "write_iops"} <= set(rows.columns):
        return pl.Series("stalled", [False] * rows.height)
    answered = pl.col("read_iops").fill_null(0.0) + pl.col("write_iops").fill_null(0.0)
    shortest = pl.col("queue").filter(answered > STALLED_IOPS).min()
    waiting = (pl.col("queue") >= STALLED_QUEUE) & (pl.col("queue") > shortest)
    stalled = (waiting & (answered <= STALLED_IOPS)).fill_null(False)
    return rows.select(stalled.alias("stalled"))["stalled"]


def has_separate_latencies(rows: pl.DataFrame) -> bool:
    """Returns whether the latency of reads and that of writes (ms) are two figures: a tool that has
    one figure for both gives the same for each. True where no row has both: then each figure is of
    its own way."""
    if not {"read_ms", "write_ms"} <= set(rows.columns):
        return True
    both = rows.select("read_ms", "write_ms").drop_nulls()
    return both.height == 0 or bool((both["read_ms"] != both["write_ms"]).any())


def find_stretches(mask: pl.Series) -> list[tuple[int, int]]:
    """Returns (first, one behind the last), indexes of points that follow each other and are True
    in `mask`, the longest first."""
    parts, first = [], None
    for index, slow in enumerate([*mask.to_list(), False]):
        if slow and first is None:
            first = index
        elif not slow and first is not None:
            parts.append((first, index))
            first = None
    return sorted(parts, key=lambda part: part[0] - part[1])


def find_cause(
    part: pl.DataFrame,
    calm: pl.DataFrame,
    before: pl.DataFrame,
    limits: HoldingLimits | None,
    model: ModelLatency,
    t: Thresholds,
    others_are_quick: bool = False,
) -> Slowness:
    """Returns what explains the slow rows of `part`. `calm`: rows of the same recording that are
    not slow, `before` those of them that come just before. `others_are_quick`: other members of the
    array have the same load, and no burst."""
    apart = has_separate_latencies(part)
    reads_only = apart and _has_slow_reads_only(part, model, t)
    busy, explained = _compute_busy_share(part), _compute_explained_share(part, calm, limits, model)
    use = float(_compute_use(part, limits).median() or 0.0)  # type: ignore[arg-type]
    falls = _is_falling(part, t)
    below_limits = use < t.degraded_use
    long_busy = below_limits and rules_out_bursts(busy, explained, t)
    quick_writes = reads_only and below_limits and _has_quick_writes(part, calm, limits, model)
    no_burst = others_are_quick or long_busy or quick_writes
    cold = reads_only or (not (apart and _has_slow_writes(part, model, t)) and _may_be_cold(part, before, falls))
    if others_are_quick and not reads_only:
        cold = False
    if no_burst:
        cause: Cause = "first-touch" if cold else "degraded"
    else:
        # Nobody counted how long it was busy: a latency that falls for a long time is not a burst.
        cause = "first-touch" if busy is None and cold and falls else "bursts"
    return Slowness(cause, reads_only, apart, others_are_quick or long_busy, busy, use, falls)


def rules_out_bursts(busy: float | None, explained: float, t: Thresholds) -> bool:
    """Returns whether a device was busy for longer than any bursts at a limit explain: `busy`,
    share of the time, None where nobody counted; `explained`, the most that they explain."""
    return busy is not None and busy >= t.busy_least and busy >= t.busy_margin * explained


def _has_quick_writes(
    part: pl.DataFrame, calm: pl.DataFrame, limits: HoldingLimits | None, model: ModelLatency
) -> bool:
    """Returns whether writes waited for less than a burst at a limit would have made them wait, if
    they come all the time.

    A burst for the share `b` of a point takes in `b * limit` reads at most. If the reads wait for
    `w` on average, those in the burst wait for `w * reads / (b * limit)` at least, and so do the
    writes that come meanwhile, `b` of all: on average `w * reads / limit`, whatever `b` is.
    """
    reads_alone = part.with_columns(pl.col("read_iops").alias("charged_iops"), pl.lit(0.0).alias("write_mib_s"))
    share = float(_compute_use(reads_alone, limits).median() or 0.0)  # type: ignore[arg-type]
    wait_ms = share * ((median(part, "read_ms") or 0.0) - model.read_p50)
    usual_ms = max(median(calm, "write_ms") or 0.0, model.write_p50)
    waited_ms = (median(part, "write_ms") or 0.0) - usual_ms
    return wait_ms >= SEEN_WAIT * usual_ms and waited_ms < QUICK_WRITES * wait_ms


def _is_way_slow(rows: pl.DataFrame, way: str, model: ModelLatency, t: Thresholds) -> bool | None:
    """Returns whether most points of a way are slow; None where it has hardly an I/O."""
    rate, ms = median(rows, f"{way}_iops"), median(rows, f"{way}_ms")
    if ms is None or (rate or 0.0) < t.degraded_least_iops:
        return None
    return ms >= t.degraded_factor * getattr(model, f"{way}_p99")


def _has_slow_reads_only(rows: pl.DataFrame, model: ModelLatency, t: Thresholds) -> bool:
    """Returns whether reads are slow and writes are as ever."""
    reads = _is_way_slow(rows, "read", model, t)
    return bool(reads) and _is_way_slow(rows, "write", model, t) is False


def _has_slow_writes(rows: pl.DataFrame, model: ModelLatency, t: Thresholds) -> bool:
    return bool(_is_way_slow(rows, "write", model, t))


def _collect_slowest_ms(rows: pl.DataFrame) -> pl.Series:
    """Returns the latency of the slower way, reads or writes, of each point that has any, ms."""
    ways = [pl.col(f"{way}_ms") for way in WAYS if f"{way}_ms" in rows.columns]
    return rows.select(pl.max_horizontal(ways or [pl.lit(None, pl.Float64)]).alias("ms"))["ms"].drop_nulls()


def compute_mean_ms(rows: pl.DataFrame) -> pl.Expr:
    """Returns the latency of a row over all of its I/Os, ms."""
    total, weighted = pl.lit(0.0), pl.lit(0.0)
    for way in WAYS:
        if {f"{way}_ms", f"{way}_iops"} <= set(rows.columns):
            ios = pl.when(pl.col(f"{way}_ms").is_not_null()).then(pl.col(f"{way}_iops").fill_null(0.0)).otherwise(0.0)
            total, weighted = total + ios, weighted + ios * pl.col(f"{way}_ms").fill_null(0.0)
    return pl.when(total > 0).then(weighted / total)


def compute_slowest_ms(rows: pl.DataFrame) -> float:
    """Returns the median latency of the slower way, ms; 0 where no latency is known."""
    latencies = _collect_slowest_ms(rows)
    return float(latencies.median()) if latencies.len() else 0.0  # type: ignore[arg-type]


def compute_worst_ms(rows: pl.DataFrame) -> float:
    """Returns the latency of the slowest point, ms; 0 where no latency is known."""
    latencies = _collect_slowest_ms(rows)
    return float(latencies.max()) if latencies.len() else 0.0  # type: ignore[arg-type]


def _is_falling(rows: pl.DataFrame, t: Thresholds) -> bool:
    """Returns whether the latency falls along the slow points: the median of their last third is
    below `steady_latency_share` of that of the first. The last point is not counted: it may be
    slow for a part of its time only."""
    ms = _collect_slowest_ms(rows)
    if ms.len() < SHORT_STRETCH:
        return False
    third = max(1, ms.len() // 3)
    first, last = float(ms[:third].median() or 0.0), float(ms[-1 - third : -1].median() or 0.0)  # type: ignore[arg-type]
    return last < t.steady_latency_share * first


def _may_be_cold(rows: pl.DataFrame, before: pl.DataFrame, falls: bool) -> bool:
    """Returns whether a latency that is known of reads alone, or of both together, may be that of
    cold blocks: unless it rose at once on a volume that served the same load quickly, and stays."""
    reads = median(rows, "read_iops") or 0.0
    ios = reads + (median(rows, "write_iops") or 0.0)
    if ios and reads / ios < LITTLE_READING:
        return False
    usual = before[-CALM_POINTS:]
    load = median(usual, "read_iops") or 0.0
    steps_up = usual.height >= CALM_POINTS and load >= CALM_LOAD * reads
    return falls or not steps_up


def _compute_use(rows: pl.DataFrame, limits: HoldingLimits | None) -> pl.Series:
    """Returns the rate of each row over the limit that is nearest. Credits and the burst of an
    instance count as spent where the rate is below the baseline: nobody knows how many remain."""
    demand = {False: pl.col("charged_iops").fill_null(0.0), True: compute_bytes_per_s(rows)}
    has_credits = "balance_percent" in rows.columns
    shares = []
    for name, allowed, in_bytes in limits.list_levels() if limits else ():
        share = demand[in_bytes] / allowed
        if name == "volume-credits" and has_credits:
            continue  # spent credits are a window of their own (`windows`)
        if name.endswith("credits"):
            # A rate above the baseline means that credits remain, so credits do not bind.
            share = pl.when(share <= 1.05).then(share).otherwise(0.0)
        shares.append(share)
    return rows.select(pl.max_horizontal(shares or [pl.lit(0.0)]).alias("use"))["use"]


def _compute_busy_share(rows: pl.DataFrame) -> float | None:
    """Returns the share of the time, 0 to 1, with a request under way: the median of the
    volume's points. None where fewer than half of the points have that figure."""
    if "idle_share" not in rows.columns or rows["idle_share"].drop_nulls().len() < rows.height / 2:
        return None
    return 1.0 - (median(rows, "idle_share") or 0.0)


def _compute_explained_share(
    part: pl.DataFrame, calm: pl.DataFrame, limits: HoldingLimits | None, model: ModelLatency
) -> float:
    """Returns the most of the time that a device can be busy with the rate of `part`, if a share of
    it is a burst at a limit and the rest takes as long as usual: all of it in the burst, or
    none."""
    ios = median(part, "charged_iops") or 0.0
    alone = ios * _estimate_io_busy_s(part, calm, model)
    if (seen := _find_busy_share(calm, ios)) is not None:
        # Requests overlap, many at once keep it busy for less than their sum.
        alone = min(alone, seen)
    return max(alone, float(_compute_use(part, limits).median() or 0.0))  # type: ignore[arg-type]


# The least calm points with as many I/Os that show how busy these keep the device, and the quantile
# of their busy shares that is taken. Guesses.
LEAST_ALIKE, MOST_ALIKE = 3, 0.9


def _find_busy_share(calm: pl.DataFrame, ios: float) -> float | None:
    """Returns the share of the time that the device was busy in calm points with as many I/Os a
    second or more; None where fewer than LEAST_ALIKE show it."""
    if "idle_share" not in calm.columns:
        return None
    alike = calm.filter(pl.col("charged_iops") >= ios)["idle_share"].drop_nulls()
    return 1.0 - float(alike.quantile(1.0 - MOST_ALIKE) or 0.0) if alike.len() >= LEAST_ALIKE else None


def _estimate_io_busy_s(part: pl.DataFrame, calm: pl.DataFrame, model: ModelLatency) -> float:
    """Returns how long an I/O keeps the device busy while nothing waits, s: the most of what calm
    points show and the model's median."""
    reads, writes = median(part, "read_iops") or 0.0, median(part, "write_iops") or 0.0
    both = max(reads + writes, 1e-9)
    own_s = (reads * model.read_p50 + writes * model.write_p50) / both / 1e3
    if "idle_share" not in calm.columns or not calm.height:
        return own_s
    each = calm.filter(pl.col("charged_iops") > 0).select(
        ((1.0 - pl.col("idle_share")) / pl.col("charged_iops")).alias("s")
    )
    seen = each["s"].drop_nulls().median() if each.height else None
    return max(own_s, float(seen or 0.0))  # type: ignore[arg-type]
