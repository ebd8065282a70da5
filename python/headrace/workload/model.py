"""What a database asks of its storage.

Two kinds of load. An *open* one arrives whether or not the volume keeps up: a series of points, each with a rate of
reads and writes and their mean sizes. A *closed* one keeps a fixed number of I/Os in flight and so goes as fast as the
volume lets it: fio's terms. Both are plain values; reading, writing, making and importing them is done in other files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import polars as pl

from headrace.base.checks import check_choice, check_name, check_number, check_whole, shown
from headrace.base.clocks import span_in_words
from headrace.base.shown import Shown
from headrace.errors import InputError

if TYPE_CHECKING:
    from headrace.workload.censored import Censoring
    from headrace.workload.observed import CensoredWindow

POINT_COLUMNS = ("t_s", "duration_s", "reads_per_s", "writes_per_s", "read_kib", "write_kib")
# Beside the rates, where the recording has them; null in a point where it has not.
OBSERVED_COLUMNS = ("read_await_ms", "write_await_ms", "await_ms", "queue", "util_percent", "balance_percent")

# Limits. They are ours, wide enough for any EBS volume: the fastest does 256,000 IOPS, and Linux splits I/Os at a few MiB.
MAX_POINTS = 3_000_000
MAX_OPS_PER_S = 10_000_000.0
MIN_IO_KIB = 0.5
MAX_IO_KIB = 64.0 * 1024
MIN_POINT_S = 1.0
MAX_POINT_S = 86_400.0
MAX_RECORDED_POINT_S = 3_600.0
MAX_SPAN_S = 3_660 * 86_400.0
MAX_SIZE_GIB = 1_048_576.0
MAX_GROWTH = 1_000.0
MAX_OBSERVED = 1e9  # of latencies in ms and queues: 12 days, more than a host's memory of requests
# A point longer than this hides bursts that empty a bucket; CloudWatch's basic period is exactly this long.
COARSE_POINT_S = 300.0

LIMITS_SOURCE = "docs/reference/workload-file.md, Limits"
CONTIGUOUS_SLACK_S = 1e-6  # times are kept as f64 seconds; ten years of them still resolve to 0.1 us

Kind = Literal["constant", "daily", "recorded"]
Arrivals = Literal["even", "poisson"]
KINDS = ("constant", "daily", "recorded")
ARRIVALS = ("even", "poisson")
LOCAL_ZONE = "local, not stated"
CLOCK_ZONE = re.compile(r"UTC(?:[+-]\d{2}:\d{2})?", re.ASCII)
RW_KINDS = ("read", "write", "randread", "randwrite", "rw", "randrw")


@dataclass(frozen=True, eq=False, repr=False)
class OpenWorkload(Shown):
    """Demand that arrives whether or not it is served.

    `points`: one row per point, all f64, contiguous, sorted, first `t_s` 0:
    `t_s` and `duration_s` in seconds, `reads_per_s` and `writes_per_s` in I/Os a second, `read_kib` and `write_kib` the mean
    size of one I/O in KiB; and, where the recording has them, `read_await_ms` and `write_await_ms` or `await_ms` (mean time of
    an I/O), `queue` (mean outstanding), `util_percent`, `balance_percent` (burst credits), null in points without.
    `size_gib`: data the volume must hold, None when not known. `sequential_*_share`: share (0..1) of those I/Os that follow on
    from the one before. `growth_per_year`: 0.3 means 30 % more a year; it is not yet in the points (`growth_over`). `source`:
    where the figures come from (tool, file, sha256, period_s, device, clock_start). `clock_zone` of `clock_start`: "UTC",
    "UTC+01:00", or "local, not stated". `caveats`: what the reader must know before trusting them; `notes()` has those that
    follow from the points too.

    Raises InputError when a limit (docs/reference/workload-file.md) is broken.
    """

    name: str
    kind: Kind
    points: pl.DataFrame
    size_gib: float | None = None
    sequential_read_share: float = 0.0
    sequential_write_share: float = 0.0
    arrivals: Arrivals = "poisson"
    growth_per_year: float = 0.0
    source: dict = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    clock_zone: str = LOCAL_ZONE

    def __post_init__(self) -> None:
        check_name(self.name)
        check_choice("kind", self.kind, KINDS)
        check_clock_zone(self.clock_zone)
        check_clock_start(self.source.get("clock_start"))
        for factor in ("scaled_by", "uncensored_by"):
            if factor in self.source:
                check_number(f"source.{factor}", self.source[factor], 1e-9, 1e9)
        check_choice("arrivals", self.arrivals, ARRIVALS)
        for share in ("sequential_read_share", "sequential_write_share"):
            _set(self, share, check_number(share, getattr(self, share), 0.0, 1.0))
        _set(self, "growth_per_year", check_number("growth_per_year", self.growth_per_year, -0.9, MAX_GROWTH))
        _set(self, "size_gib", check_size(self.size_gib))
        _set(self, "caveats", tuple(self.caveats))
        _set(self, "points", check_points(self.points, self.kind))
        coarse = coarse_caveat(self.points) if self.kind == "recorded" else None
        if coarse and coarse not in self.caveats:
            _set(self, "caveats", (*self.caveats, coarse))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpenWorkload):
            return NotImplemented
        mine, theirs = _fields_but_points(self), _fields_but_points(other)
        return mine == theirs and self.points.equals(other.points)

    __hash__ = None  # a frame cannot be hashed

    def in_short(self) -> str:
        """Name, kind and length; see `Shown`."""
        return f"{self.name}: {self.kind}, {self.points.height:,} points over {span_in_words(round(self.span_s))}"

    @property
    def span_s(self) -> float:
        """From the start of the first point to the end of the last, in seconds."""
        return self.points["t_s"][-1] + self.points["duration_s"][-1]

    def scaled(self, growth: float, *, data_growth: float | None = None) -> OpenWorkload:
        """The same shape with `growth` times the rates and `data_growth` times the data (None: as the rates).

        Factors (1.5 is half as much again), above 0 to 1000. Sizes of I/Os and times stay, and so do recorded latencies and
        queues: they belong to the rates as recorded. Raises InputError.
        """
        factor, data_factor = _factor("growth", growth), _factor("data_growth", growth if data_growth is None else data_growth)
        if factor == 1.0:
            return self if data_factor == 1.0 or self.size_gib is None else replace(self, size_gib=self.size_gib * data_factor)
        points = self.points.with_columns(pl.col("reads_per_s") * factor, pl.col("writes_per_s") * factor)
        # The answers a daily workload was made from no longer give these points.
        source = {key: value for key, value in self.source.items() if key != "answers"}
        source["scaled_by"] = float(source.get("scaled_by", 1.0)) * factor
        size_gib = None if self.size_gib is None else self.size_gib * data_factor
        return replace(self, points=points, size_gib=size_gib, source=source)

    def growth_over(self, months: float) -> float:
        """The factor by which demand grows in `months` at `growth_per_year`: 0.3 a year is 1.3 after 12 months."""
        return (1.0 + self.growth_per_year) ** (check_number("months", months, 0.0, 1_200.0) / 12.0)

    @cached_property
    def censoring(self) -> Censoring:
        """Windows at a limit and the least demand of each point, found once: see `headrace.workload.censored.find`."""
        from headrace.workload.censored import find

        return find(self)

    @property
    def censored(self) -> tuple[CensoredWindow, ...]:
        """Stretches of a recording in which the volume was at a limit: what it gave there is less than what was asked."""
        return self.censoring.windows

    def uncensored(self, margin: float = 1.25) -> OpenWorkload:
        """The demand to plan for: censored points raised to the least that was asked, times `margin` (1 to 100).

        The default is a guess, on the side of enough: nothing recorded on a volume at its limit tells how much more was wanted.
        Without censored points the workload itself. Raises InputError.
        """
        from headrace.workload.observed import uncensored

        return uncensored(self, margin)

    def recorded_latency(self) -> pl.DataFrame | None:
        """`t_s` and `mean_ms` of each point as recorded (null where nothing was), or None: to set beside a model's."""
        from headrace.workload.observed import recorded_latency

        return recorded_latency(self)

    def notes(self) -> tuple[str, ...]:
        """The caveats, and what follows from the points: limits met, a short recording, the zone of its clock."""
        from headrace.workload.observed import notes

        return self.caveats + tuple(note for note in notes(self) if note not in self.caveats)

    def summary(self) -> dict:
        """Figures of the whole: see `headrace.workload.describe.summarise`."""
        from headrace.workload.describe import summarise

        return summarise(self)

    def describe(self) -> str:
        """What this asks of a volume, in words."""
        from headrace.workload.describe import in_words

        return in_words(self)


@dataclass(frozen=True)
class ClosedWorkload:
    """A fixed number of I/Os in flight, in fio's terms (fio HOWTO: rw, bs, iodepth, numjobs, rwmixread).

    `bs_kib`: size of one I/O in KiB. `iodepth`: in flight per job. `numjobs`: jobs beside each other; the depth the volume
    sees is iodepth x numjobs. `rwmixread`: per cent of reads, for rw and randrw only. `size_gib`: data it runs over, or
    None. Raises InputError when a limit is broken.
    """

    name: str
    rw: str
    bs_kib: float
    iodepth: int
    numjobs: int
    rwmixread: int = 50
    size_gib: float | None = None
    caveats: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        check_choice("rw", self.rw, RW_KINDS)
        _set(self, "bs_kib", check_number("bs_kib", self.bs_kib, MIN_IO_KIB, MAX_IO_KIB, "KiB"))
        _set(self, "iodepth", check_whole("iodepth", self.iodepth, 1, 65_536))
        _set(self, "numjobs", check_whole("numjobs", self.numjobs, 1, 4_096))
        _set(self, "rwmixread", check_whole("rwmixread", self.rwmixread, 0, 100))
        _set(self, "size_gib", check_size(self.size_gib))
        _set(self, "caveats", tuple(self.caveats))

    @property
    def read_share(self) -> float:
        """Share of reads among the I/Os, 0..1."""
        if self.rw in ("read", "randread"):
            return 1.0
        return 0.0 if self.rw in ("write", "randwrite") else self.rwmixread / 100.0

    @property
    def sequential(self) -> bool:
        """True when each job's I/Os follow on from each other."""
        return not self.rw.startswith("rand")

    def scaled(self, growth: float) -> ClosedWorkload:
        """A closed load has no demand to grow: only 1.0 is taken, anything else is an InputError."""
        if check_number("growth", growth, 0.0, MAX_GROWTH) != 1.0:
            raise InputError(
                f"growth = {shown(growth)}",
                "a closed workload asks for all the volume gives, so it cannot grow",
                "docs/reference/workload-file.md, Closed",
                "Raise iodepth or numjobs, or describe the demand as an open workload.",
            )
        return self

    def notes(self) -> tuple[str, ...]:
        """The caveats, as `OpenWorkload.notes`."""
        return self.caveats

    def summary(self) -> dict:
        """The settings and the total depth, as a flat dict."""
        return {
            "name": self.name,
            "model": "closed",
            "rw": self.rw,
            "bs_kib": self.bs_kib,
            "iodepth": self.iodepth,
            "numjobs": self.numjobs,
            "queue_depth": self.iodepth * self.numjobs,
            "read_share": self.read_share,
            "size_gib": self.size_gib,
        }

    def describe(self) -> str:
        """What this asks of a volume, in words."""
        from headrace.workload.describe import closed_in_words

        return closed_in_words(self)


Workload = OpenWorkload | ClosedWorkload


def make_points(t_s, duration_s, reads_per_s, writes_per_s, read_kib, write_kib) -> pl.DataFrame:
    """Six equally long sequences of numbers as the frame `OpenWorkload` wants. Sizes where nothing happens become 0."""
    frame = pl.DataFrame(
        {
            "t_s": pl.Series(t_s, dtype=pl.Float64),
            "duration_s": pl.Series(duration_s, dtype=pl.Float64),
            "reads_per_s": pl.Series(reads_per_s, dtype=pl.Float64),
            "writes_per_s": pl.Series(writes_per_s, dtype=pl.Float64),
            "read_kib": pl.Series(read_kib, dtype=pl.Float64),
            "write_kib": pl.Series(write_kib, dtype=pl.Float64),
        }
    )
    return frame.with_columns(
        pl.when(pl.col("reads_per_s") == 0).then(0.0).otherwise(pl.col("read_kib")).alias("read_kib"),
        pl.when(pl.col("writes_per_s") == 0).then(0.0).otherwise(pl.col("write_kib")).alias("write_kib"),
    )


# --- checks -----------------------------------------------------------------------------------------------------------


def check_points(points: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The frame with its columns in order and as f64, or an InputError naming the first row that breaks a limit."""
    if not isinstance(points, pl.DataFrame):
        raise InputError(f"points is {type(points).__name__}", "must be a polars DataFrame", "OpenWorkload")
    if sorted(set(points.columns) - set(OBSERVED_COLUMNS)) != sorted(POINT_COLUMNS):
        rule = f"must be {', '.join(POINT_COLUMNS)}, and may be {', '.join(OBSERVED_COLUMNS)}"
        raise InputError(f"columns {points.columns}", rule, "OpenWorkload")
    if not all(points[column].dtype.is_numeric() or points[column].dtype == pl.Null for column in points.columns):
        raise InputError("points", "every column must hold numbers", "OpenWorkload")
    observed = [column for column in OBSERVED_COLUMNS if column in points.columns]
    points = points.select(pl.col(POINT_COLUMNS).cast(pl.Float64), pl.col(observed).cast(pl.Float64).fill_nan(None))
    points = points.drop([column for column in observed if points[column].is_null().all() and points.height])
    if points.height == 0:
        raise InputError("0 points", "a workload has at least one point", LIMITS_SOURCE)
    if points.height > MAX_POINTS:
        raise InputError(
            f"{points.height:,} points",
            f"at most {MAX_POINTS:,} are taken",
            LIMITS_SOURCE,
            "Cut the recording or take means over a longer interval.",
        )
    for column in POINT_COLUMNS:
        _refuse(points, ~pl.col(column).is_finite().fill_null(False), column, "must be a finite number")
    longest = MAX_RECORDED_POINT_S if kind == "recorded" else MAX_POINT_S
    duration = pl.col("duration_s")
    _refuse(
        points,
        (duration < MIN_POINT_S) | (duration > longest),
        "duration_s",
        f"a point of a {kind} workload lasts {MIN_POINT_S:g} to {longest:g} s",
    )
    for rate in ("reads_per_s", "writes_per_s"):
        _refuse(points, pl.col(rate) < 0, rate, "a rate cannot be negative")
        _refuse(points, pl.col(rate) > MAX_OPS_PER_S, rate, f"at most {MAX_OPS_PER_S:,.0f} I/Os a second are believed")
    for size, rate in (("read_kib", "reads_per_s"), ("write_kib", "writes_per_s")):
        outside = (pl.col(size) < MIN_IO_KIB) | (pl.col(size) > MAX_IO_KIB)
        wrong = outside & ~((pl.col(rate) == 0) & (pl.col(size) == 0))
        _refuse(points, wrong, size, f"an I/O is {MIN_IO_KIB:g} to {MAX_IO_KIB:g} KiB (0 only where the rate is 0)")
    for column in points.columns[len(POINT_COLUMNS) :]:
        most = 100.0 if column.endswith("_percent") else MAX_OBSERVED
        outside = (~pl.col(column).is_finite() | (pl.col(column) < 0) | (pl.col(column) > most)).fill_null(False)
        _refuse(points, outside, column, f"what was recorded is 0 to {most:,.0f}, or left out")
    _check_contiguous(points)
    return points


def check_clock_zone(zone: object) -> None:
    """The zone of a clock: UTC, an offset from it, or not stated."""
    if zone != LOCAL_ZONE and not (isinstance(zone, str) and CLOCK_ZONE.fullmatch(zone)):
        raise InputError(f"clock_zone = {shown(zone)}", f'must be "UTC", "UTC+01:00" or the like, or "{LOCAL_ZONE}"', LIMITS_SOURCE)


def check_clock_start(start: object) -> None:
    """When a recording began: None, a time of day, or a date and time that leaves room for the longest span."""
    if start is None:
        return
    rule = "must be a time of day like 10:00:00, or a date and time like 2025-11-21T10:00:00 of the years 1990 to 2100, in quotes"
    try:
        moment = datetime.fromisoformat(start if len(start) > 8 else f"2000-01-01T{start}") if isinstance(start, str) else None
    except ValueError:
        moment = None
    if moment is None or not 1990 <= moment.year <= 2100:
        raise InputError(f"clock_start = {shown(start)}", rule, LIMITS_SOURCE, "Leave it out when it is not known.")


def _factor(what: str, value: object) -> float:
    factor = check_number(what, value, 0.0, MAX_GROWTH)
    if factor == 0.0:
        raise InputError(f"{what} = 0", "must be above 0", LIMITS_SOURCE, "1.5 means half as much again.")
    return factor


def _check_contiguous(points: pl.DataFrame) -> None:
    if points["t_s"][0] != 0.0:
        raise InputError(f"t_s[0] = {points['t_s'][0]:g}", "the first point starts at 0", LIMITS_SOURCE)
    expected = (pl.col("t_s") + pl.col("duration_s")).shift(1)
    apart = (pl.col("t_s") - expected).abs().fill_null(0.0) > CONTIGUOUS_SLACK_S
    _refuse(points, apart, "t_s", "each point starts where the one before ends")
    span_s = points["t_s"][-1] + points["duration_s"][-1]
    if span_s > MAX_SPAN_S:
        raise InputError(f"{span_s / 86_400:,.0f} days", f"at most {MAX_SPAN_S / 86_400:,.0f} days are taken", LIMITS_SOURCE)


def _refuse(points: pl.DataFrame, wrong: pl.Expr, column: str, rule: str) -> None:
    mask = points.select(wrong.fill_null(True).alias("wrong"))["wrong"]
    if mask.any():
        row = mask.arg_true()[0]
        raise InputError(f"{column}[{row}] = {points[column][row]}", rule, LIMITS_SOURCE)


def coarse_caveat(points: pl.DataFrame) -> str | None:
    """What to say of points so long that what happens inside them cannot be seen."""
    longest_s = points["duration_s"].max()
    if longest_s <= COARSE_POINT_S:
        return None
    return (
        f"Points last up to {longest_s:g} s: bursts shorter than that are not in the figures, and short bursts are what "
        "empties a burst bucket or fills a queue. Record at one minute or less before you trust a narrow margin."
    )


def check_size(size_gib: object) -> float | None:
    """Data a volume must hold in GiB, or None."""
    if size_gib is None:
        return None
    size = check_number("size_gib", size_gib, 0.0, MAX_SIZE_GIB, "GiB")
    if size == 0.0:
        raise InputError("size_gib = 0", "must be above 0 GiB", LIMITS_SOURCE, "Leave it out when it is not known.")
    return size


def _set(frozen: object, name: str, value: object) -> None:
    object.__setattr__(frozen, name, value)


def _fields_but_points(workload: OpenWorkload) -> tuple:
    return tuple(getattr(workload, name) for name in workload.__dataclass_fields__ if name != "points")
