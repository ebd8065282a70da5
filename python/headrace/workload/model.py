"""Demand of a database on its storage.

Two kinds of load. An *open* one arrives whether or not the volume keeps up: a series of points,
each with a rate of reads and writes and their mean sizes. A *closed* one keeps a fixed number of
I/Os in flight and so goes as fast as the volume lets it: fio's terms. Both are plain values;
reading, writing, making and importing them is done in other files.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import polars as pl

from headrace.base.checks import Shown, check_choice, check_name, check_number, check_whole, quote_value
from headrace.base.encoding import pick_fields
from headrace.base.units import GIB, KIB, describe_span
from headrace.errors import InputError
from headrace.workload import describe
from headrace.workload.observed import compute_recorded_latency, describe_limits_met, note_length, note_zone
from headrace.workload.points import (
    ARRIVALS,
    KINDS,
    LOCAL_ZONE,
    MAX_GROWTH,
    MAX_IO_KIB,
    MAX_OPS_PER_S,
    MIN_IO_KIB,
    RW_KINDS,
    check_clock_start,
    check_clock_zone,
    check_points,
    check_size,
    compute_figures,
    describe_coarse_caveat,
    refuse,
)

if TYPE_CHECKING:
    from headrace.workload.censored import Censoring
    from headrace.workload.observed import CensoredWindow

Kind = Literal["constant", "daily", "recorded"]
Arrivals = Literal["even", "poisson"]
# Largest factor by which `uncensor` raises the least demand. A guess, beyond any volume that is
# worth buying.
MAX_MARGIN = 100.0
# Requests the event simulation lets wait before it stops taking more: a guess, above the queues of
# Linux (1,023 on NVMe).
MAX_OUTSTANDING = 1024


@dataclass(frozen=True, eq=False, repr=False)
class OpenWorkload(Shown):
    """Demand that arrives whether or not it is served.

    `points`: one row per point, all f64, contiguous, sorted, first `t_s` 0: `t_s` and `duration_s`
    in seconds, `reads_per_s` and `writes_per_s` in I/Os a second, `read_kib` and `write_kib` the
    mean size of one I/O in KiB; and, where the recording has them, `read_await_ms` and
    `write_await_ms` or `await_ms` (mean time of an I/O), `queue` (mean outstanding),
    `util_percent`, `balance_percent` (burst credits), null in points without. `size_gib`: data the
    volume must hold, None when not known. `sequential_*_share`: share (0..1) of those I/Os that
    follow on from the one before. `growth_per_year`: 0.3 means 30 % more a year; it is not yet in
    the points (`compute_growth`). `source`: where the figures come from (tool, file, sha256,
    period_s, device, clock_start). `clock_zone` of `clock_start`: "UTC", "UTC+01:00", or "local,
    not stated". `caveats`: what the reader must know before trusting them; `list_notes()` has those
    that follow from the points too.

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
        """Checks every field, and notes points that are too coarse as a caveat. Raises InputError
        for a value out of range."""
        check_name(self.name)
        check_choice("kind", self.kind, KINDS)
        check_clock_zone(self.clock_zone)
        check_clock_start(self.source.get("clock_start"))
        for factor in ("scaled_by", "uncensored_by"):
            if factor in self.source:
                check_number(f"source.{factor}", self.source[factor], 1e-9, 1e9)
        check_choice("arrivals", self.arrivals, ARRIVALS)
        for share in ("sequential_read_share", "sequential_write_share"):
            _set_field(self, share, check_number(share, getattr(self, share), 0.0, 1.0))
        _set_field(self, "growth_per_year", check_number("growth_per_year", self.growth_per_year, -0.9, MAX_GROWTH))
        _set_field(self, "size_gib", check_size(self.size_gib))
        _set_field(self, "caveats", tuple(self.caveats))
        _set_field(self, "points", check_points(self.points, self.kind))
        coarse = describe_coarse_caveat(self.points) if self.kind == "recorded" else None
        if coarse and coarse not in self.caveats:
            _set_field(self, "caveats", (*self.caveats, coarse))

    def __eq__(self, other: object) -> bool:
        """Compares all fields, points by their values."""
        if not isinstance(other, OpenWorkload):
            return NotImplemented
        own_fields, other_fields = _get_fields_without_points(self), _get_fields_without_points(other)
        return own_fields == other_fields and self.points.equals(other.points)

    __hash__ = None  # type: ignore[assignment]  # a frame cannot be hashed

    def describe_briefly(self) -> str:
        """Returns the name, kind and length; see `Shown`."""
        return f"{self.name}: {self.kind}, {self.points.height:,} points over {describe_span(round(self.span_s))}"

    @property
    def span_s(self) -> float:
        """Returns the seconds from the start of the first point to the end of the last."""
        return self.points["t_s"][-1] + self.points["duration_s"][-1]

    def to_core(self) -> dict:
        """Returns the demand as the core takes it: bytes instead of KiB, points as columns."""
        points = self.points
        return {
            "kind": "open",
            "duration_s": points["duration_s"].to_list(),
            "reads_per_s": points["reads_per_s"].to_list(),
            "writes_per_s": points["writes_per_s"].to_list(),
            "read_bytes": (points["read_kib"] * KIB).to_list(),
            "write_bytes": (points["write_kib"] * KIB).to_list(),
            **pick_fields(self, "sequential_read_share", "sequential_write_share", "arrivals"),
            "max_outstanding": MAX_OUTSTANDING,
            "span_bytes": int((self.size_gib or 0) * GIB),
        }

    def scale(self, growth: float, *, data_growth: float | None = None) -> OpenWorkload:
        """Returns the workload with `growth` times the rates and `data_growth` times the data
        (None: as the rates); both are factors above 0, up to 1000. Sizes of I/Os, times, recorded
        latencies and queues are unchanged. Raises InputError."""
        factor, data_factor = (
            _check_factor("growth", growth),
            _check_factor("data_growth", growth if data_growth is None else data_growth),
        )
        if factor == 1.0:
            return (
                self
                if data_factor == 1.0 or self.size_gib is None
                else replace(self, size_gib=self.size_gib * data_factor)
            )
        points = self.points.with_columns(pl.col("reads_per_s") * factor, pl.col("writes_per_s") * factor)
        # The answers a daily workload was made from no longer give these points.
        source = {key: value for key, value in self.source.items() if key != "answers"}
        source["scaled_by"] = float(source.get("scaled_by", 1.0)) * factor
        size_gib = None if self.size_gib is None else self.size_gib * data_factor
        return replace(self, points=points, size_gib=size_gib, source=source)

    def compute_growth(self, months: float) -> float:
        """Returns the factor by which demand grows in `months` at `growth_per_year`: 0.3 a year is
        1.3 after 12 months."""
        return (1.0 + self.growth_per_year) ** (check_number("months", months, 0.0, 1_200.0) / 12.0)

    @cached_property
    def censoring(self) -> Censoring:
        """Returns the windows at a limit of the volume and the least demand of each point, computed
        once. Constant and daily workloads, and those raised by `uncensor`, have none."""
        from headrace.workload.censored import Censoring, find_censored  # numpy: a tenth of a second

        if self.kind != "recorded" or "uncensored_by" in self.source:
            return Censoring(())
        return find_censored(self.points, self.source)

    @property
    def censored(self) -> tuple[CensoredWindow, ...]:
        """Returns the windows of a recording in which the volume was at a limit, so that demand was
        at least the recorded rate."""
        return self.censoring.windows

    def uncensor(self, margin: float = 1.25) -> OpenWorkload:
        """Returns the demand to plan for: censored points raised to their least demand, times
        `margin` (1 to 100; the default is a guess, since a volume at its limit does not show the
        demand). Without censored points the workload itself. Raises InputError."""
        margin = check_number("margin", margin, 1.0, MAX_MARGIN)
        censoring = self.censoring
        if censoring.at_least_factor is None or censoring.censored is None:
            return self
        factor = censoring.at_least_factor * pl.select(pl.when(censoring.censored).then(margin).otherwise(1.0))[:, 0]
        rates = [
            (pl.col(name) * factor).clip(upper_bound=MAX_OPS_PER_S).alias(name)
            for name in ("reads_per_s", "writes_per_s")
        ]
        points = self.points.with_columns(rates)
        latency = self.find_recorded_latency()
        if latency is not None and not {"await_ms", "read_await_ms"} & set(points.columns):
            # From the queue alone latency follows with the rates as recorded: keep it before they
            # are raised.
            points = points.with_columns(latency["mean_ms"].alias("await_ms"))
        return replace(self, points=points, source=self.source | {"uncensored_by": margin})

    def find_recorded_latency(self) -> pl.DataFrame | None:
        """Returns `t_s` and the recorded latency `mean_ms` of each point (null: none recorded);
        None if no point has one."""
        return compute_recorded_latency(self.points, float(self.source.get("scaled_by", 1.0)))

    def describe_limits(self) -> tuple[str, ...]:
        """Returns a sentence for each limit that the recorded volume was at."""
        return describe_limits_met(self.censored, self.source.get("clock_start"))

    def list_notes(self) -> tuple[str, ...]:
        """Returns the caveats, and what follows from the points: limits met, a short recording, the
        zone of its clock."""
        if self.kind != "recorded":
            return self.caveats
        notes = list(self.describe_limits())
        if "uncensored_by" in self.source:
            margin = self.source["uncensored_by"]
            notes.append(
                f"Points at a limit of the recorded volume were raised to their least demand times {margin:g}, which is a guess."
            )
        start = self.source.get("clock_start")
        # A time of day without a date was laid out by hand, as the demonstration's day is.
        if start is None or len(start) > 8 or self.clock_zone != LOCAL_ZONE:
            short = note_length(self.span_s)
            notes += [*([short] if short else []), *([] if start is None else [note_zone(self.clock_zone)])]
        return self.caveats + tuple(note for note in notes if note not in self.caveats)

    def summarize(self) -> dict:
        """Returns the figures of the whole.

        Rates in I/Os a second (`*_iops`) and MiB/s (`*_mib_s`), sizes in KiB, times in seconds.
        `read_share` is of I/Os, `read_bytes_share` of bytes; both None when nothing is asked.
        `busiest_hour_start_s` is where the hour with the highest mean rate starts,
        `busiest_hour_iops`/`_mib_s` its means (the whole span when it is shorter than an hour).
        """
        figures = compute_figures(self.points, self.source.get("clock_start"))
        own = {"size_gib": self.size_gib, "growth_per_year": self.growth_per_year}
        return {"name": self.name, "model": "open", "kind": self.kind} | figures | own

    def describe(self) -> str:
        """Describes the workload in lines of text."""
        pattern = describe.describe_pattern(self.sequential_read_share, self.sequential_write_share, self.arrivals)
        return describe.describe_open(self.summarize(), pattern, self.source, self.list_notes())


@dataclass(frozen=True)
class ClosedWorkload:
    """A fixed number of I/Os in flight, in fio's terms (fio HOWTO: rw, bs, iodepth, numjobs,
    rwmixread).

    `bs_kib`: size of one I/O in KiB. `iodepth`: in flight per job. `numjobs`: jobs in
    parallel; the depth the volume sees is iodepth x numjobs. `rwmixread`: per cent of reads, for rw
    and randrw only. `size_gib`: data it runs over, or None. Raises InputError when a limit is
    broken.
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
        """Checks every field. Raises InputError for a value out of range."""
        check_name(self.name)
        check_choice("rw", self.rw, RW_KINDS)
        _set_field(self, "bs_kib", check_number("bs_kib", self.bs_kib, MIN_IO_KIB, MAX_IO_KIB, "KiB"))
        _set_field(self, "iodepth", check_whole("iodepth", self.iodepth, 1, 65_536))
        _set_field(self, "numjobs", check_whole("numjobs", self.numjobs, 1, 4_096))
        _set_field(self, "rwmixread", check_whole("rwmixread", self.rwmixread, 0, 100))
        _set_field(self, "size_gib", check_size(self.size_gib))
        _set_field(self, "caveats", tuple(self.caveats))

    @property
    def read_share(self) -> float:
        """Returns the share of reads among the I/Os, 0 to 1."""
        if self.rw in ("read", "randread"):
            return 1.0
        return 0.0 if self.rw in ("write", "randwrite") else self.rwmixread / 100.0

    @property
    def sequential(self) -> bool:
        """Returns True when each job's I/Os follow on from each other."""
        return not self.rw.startswith("rand")

    def to_core(self) -> dict:
        """Returns the load as the core takes it: bytes instead of KiB."""
        sizes = {"block_bytes": int(self.bs_kib * KIB), "span_bytes": int((self.size_gib or 0) * GIB)}
        return {"kind": "closed"} | pick_fields(self, "rw", "iodepth", "numjobs", "rwmixread") | sizes

    def scale(self, growth: float) -> ClosedWorkload:
        """Returns the workload itself: a closed load has no demand to grow, so anything but 1.0 is
        an InputError."""
        if check_number("growth", growth, 0.0, MAX_GROWTH) != 1.0:
            rule = "a closed workload asks for all the volume gives, so it cannot grow"
            hint = "Raise iodepth or numjobs, or describe the demand as an open workload."
            raise InputError(f"growth = {quote_value(growth)}", rule, "docs/reference/workload-file.md, Closed", hint)
        return self

    def list_notes(self) -> tuple[str, ...]:
        """Returns the caveats, as `OpenWorkload.list_notes`."""
        return self.caveats

    def summarize(self) -> dict:
        """Returns the settings and the total depth, as a flat dict."""
        head = {"name": self.name, "model": "closed", "queue_depth": self.iodepth * self.numjobs}
        return head | pick_fields(self, "rw", "bs_kib", "iodepth", "numjobs", "read_share", "size_gib")

    def describe(self) -> str:
        """Describes the workload in lines of text."""
        return describe.describe_closed(self.summarize(), self.sequential, self.caveats)


Workload = OpenWorkload | ClosedWorkload


def _check_factor(what: str, value: object) -> float:
    """Returns a factor above 0 and up to `MAX_GROWTH`. Raises InputError for any other."""
    factor = check_number(what, value, 0.0, MAX_GROWTH)
    if factor == 0.0:
        raise refuse.input(f"{what} = 0", "must be above 0", "1.5 means half as much again.")
    return factor


def _set_field(frozen: object, name: str, value: object) -> None:
    object.__setattr__(frozen, name, value)


def _get_fields_without_points(workload: OpenWorkload) -> tuple:
    return tuple(getattr(workload, name) for name in workload.__dataclass_fields__ if name != "points")
