"""A recording of a device that is slow where no limit binds: findings that explain it, or say which
recording would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from headrace.base.units import describe_span, format_percent
from headrace.observe.evidence.limits import HoldingLimits
from headrace.observe.evidence.model import Evidence, SeenVolume, VolumeEvidence
from headrace.operate.doctor.levels import (
    LONG_POINT_S,
    average_blocks,
    compute_level,
    describe_names,
    describe_rate,
    find_instances,
)
from headrace.operate.doctor.model import Finding, FindingFigure
from headrace.operate.doctor.signals import ModelLatency, find_rows_latency, median
from headrace.operate.doctor.slowness import (
    Slowness,
    compute_slowest_ms,
    compute_worst_ms,
    find_cause,
    find_clearly_slow_points,
    find_slow_points,
    find_stalled_points,
    find_stretches,
)
from headrace.operate.doctor.storage_verdicts import MEMBER_FACTOR
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.doctor.verdicts import read_verdicts

LEAST_POINTS = 2  # of a stretch that EBS is blamed for: one may be a burst
FLAT_POINTS = 4  # of a stretch whose rate may be a limit that nobody named, its ends aside


@dataclass(frozen=True)
class SlowPart:
    """The part of a recording that is looked at. `rows`: of the device, without what a limit
    explains. `at`: a time in words, from seconds of the recording."""

    evidence: Evidence
    volume: VolumeEvidence
    rows: pl.DataFrame
    at: Callable[[float], str]
    t: Thresholds

    @property
    def limits(self) -> HoldingLimits | None:
        return self.volume.facts.limits

    @property
    def name(self) -> str:
        return self.volume.facts.name

    def compute_span(self, rows: pl.DataFrame) -> tuple[float, float]:
        """Returns begin and end of rows, seconds of the recording."""
        first = float(self.volume.rows["t_unix"][0])
        return float(rows["t_unix"][0]) - first, float(rows["t_unix"][-1] + rows["duration_s"][-1]) - first

    def find_model(self, facts: SeenVolume, rows: pl.DataFrame) -> ModelLatency | None:
        """Returns the latency of the volume's type at the sizes of these rows, ms; None where it is
        not known."""
        return find_rows_latency(facts, rows, self.evidence.facts.as_of)


def judge_slow_points(part: SlowPart, beside_limits: bool = False) -> Finding | None:
    """Returns the finding that explains the slow points; None without any. `beside_limits`: limits
    explain other points, so slow points count only as a stretch of a window or longer."""
    rows, t = part.rows, part.t
    if (member := blame_slow_member(part)) is not None:
        return member
    model = part.find_model(part.volume.facts, rows) if rows.height else None
    if model is None:
        return None
    slow, clear = find_slow_points(rows, model, t), find_clearly_slow_points(rows, model, t)
    if not slow.any():
        return None
    seconds = float(rows.filter(slow)["duration_s"].sum())
    first, behind = find_stretches(clear if clear.any() else slow)[0]
    stretch = rows[first:behind]
    lasted = float(stretch["duration_s"].sum())
    if beside_limits and (lasted < t.window_s or stretch.height < FLAT_POINTS):
        return None
    if seconds < t.window_s:
        return _make_short_finding(part, rows.filter(slow), seconds)
    if lasted < t.window_s:
        return _make_burst_finding(part, rows.filter(slow), model, None)
    flat = _blame_flat_rate(part, stretch, model)
    if flat is not None:
        return flat
    slowness = find_cause(stretch, rows.filter(~slow), _select_calm_rows(rows, slow, first), part.limits, model, t)
    if slowness.cause == "first-touch":
        return _make_first_touch_finding(part, stretch, slowness, model)
    if part.limits is None:
        return _make_finding(part, "recorded-no-storage", stretch)
    if slowness.cause == "degraded" and stretch.height >= LEAST_POINTS and clear.any():
        return _make_degraded_finding(part, stretch, slowness, model)
    return _make_burst_finding(part, stretch, model, slowness)


def blame_stalled_device(part: SlowPart) -> Finding | None:
    """Blames a device that answered nothing while requests waited: limits let some through."""
    stalled = find_stalled_points(part.rows)
    if not stalled.any():
        return None
    seconds = float(part.rows.filter(stalled)["duration_s"].sum())
    first, behind = find_stretches(stalled)[0]
    stretch = part.rows[first:behind]
    waited = float(stretch["queue"].max() or 0.0)  # type: ignore[arg-type]
    in_all = "" if stretch.height == int(stalled.sum()) else f" ({describe_span(round(seconds))} in all)"
    figures = (
        FindingFigure("waiting", waited, "requests", f"{waited:,.0f} requests waited at the most"),
        FindingFigure("seconds", seconds, "s", f"it lasted {describe_span(max(1, round(seconds)))}"),
    )
    name = "recorded-stalled-short" if seconds < part.t.window_s else "recorded-stalled"
    finding = _make_finding(part, name, stretch, in_all=in_all, waiting=waited)
    return replace(finding, figures=figures, weight=seconds)


def without_stalls(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows without the stalled ones, and without the point behind each, in which what
    waited was answered."""
    stalled = find_stalled_points(rows)
    return rows.filter(~(stalled | stalled.shift(1, fill_value=False)))


def _select_calm_rows(rows: pl.DataFrame, slow: pl.Series, first: int) -> pl.DataFrame:
    """Returns the rows before the index `first` that are not slow."""
    return rows[:first].filter(~slow[:first])


def _make_figures(rows: pl.DataFrame) -> tuple[FindingFigure, ...]:
    """Returns the latency of slow rows, median and highest, ms, and their duration, s, as
    figures."""
    usual_ms, worst_ms, seconds = compute_slowest_ms(rows), compute_worst_ms(rows), float(rows["duration_s"].sum())
    return (
        FindingFigure("recorded_ms", usual_ms, "ms", f"an I/O took {usual_ms:,.2f} ms (recorded, median)"),
        FindingFigure("worst_ms", worst_ms, "ms", f"the slowest point is {worst_ms:,.2f} ms"),
        FindingFigure("seconds", seconds, "s", f"it lasted {describe_span(round(seconds))}"),
    )


def _make_finding(part: SlowPart, name: str, rows: pl.DataFrame, **values: float | str | None) -> Finding:
    """Returns the finding of the verdict `name` of verdicts.csv on these rows. `values`: of its
    texts, besides times and latencies."""
    begins, ends = part.compute_span(rows)
    values |= {"when": f"From {part.at(begins)} to {part.at(ends)}", "at": part.at(begins)}
    values |= {"seen_ms": compute_slowest_ms(rows), "worst_ms": compute_worst_ms(rows)}
    seconds = float(rows["duration_s"].sum())
    finding = read_verdicts()[name].make_finding(part.name, None, seconds, None, _make_figures(rows), **values)
    return replace(finding, from_unix=begins, to_unix=ends)


def _make_short_finding(part: SlowPart, rows: pl.DataFrame, seconds: float) -> Finding:
    whole_s = float(part.rows["duration_s"].sum())
    name = "recorded-slow-short" if whole_s < part.t.window_s else "recorded-slow-at-times"
    return _make_finding(part, name, rows, whole_s=whole_s, slow_s=seconds)


def _make_burst_finding(part: SlowPart, rows: pl.DataFrame, model: ModelLatency, slowness: Slowness | None) -> Finding:
    """Returns the finding that bursts at a limit may explain the slow rows. `slowness`: causes of a
    stretch; None: the slow points are apart, and no stretch of them was judged."""
    busy = ""
    if slowness is not None and slowness.busy and slowness.use:
        least = min(1.0, slowness.use / slowness.busy)
        busy = f"; while there were requests it gave at least {format_percent(least)} of a limit"
    others = "a burst at a limit looks like that, and so does EBS's own trouble"
    if slowness is not None and slowness.may_be_cold:
        others = "a burst at a limit looks like that, and so do first reads of a volume made from a snapshot, and EBS's own trouble"
    return _make_finding(
        part,
        "recorded-bursts-apart" if slowness is None else "recorded-bursts",
        rows,
        p99_ms=_get_p99(model),
        point_s=part.evidence.facts.grain_s,
        busy=busy,
        others=others,
        points=rows.height,
        slow_s=float(rows["duration_s"].sum()),
    )


def _get_p99(model: ModelLatency) -> float:
    return max(model.read_p99, model.write_p99)


def _blame_flat_rate(part: SlowPart, stretch: pl.DataFrame, model: ModelLatency) -> Finding | None:
    """Blames a rate that something holds, though the storage that is named has no limit there: that
    of an instance that was not named, or of other storage."""
    level = compute_level(average_blocks(stretch[1:-1], LONG_POINT_S))
    if level.points < FLAT_POINTS or not level.is_held or not (level.is_flat(False) or level.is_flat(True)):
        return None
    instances = find_instances(level, part.evidence.facts.as_of)
    storage, instance = part.volume.facts.storage, part.evidence.facts.instance
    in_bytes = instances[0].unit == "bytes/s" if instances else level.bytes_scatter < 0.9 * level.iops_scatter
    rate = describe_rate(*((level.bytes_s, "bytes/s") if in_bytes else (level.iops, "I/Os/s")))
    where = f", but {storage}{f' on {instance}' if instance else ''} has none there" if storage else ""
    ask = "" if storage else " Say with --storage what it is."
    if instances is not None:
        limit, names = instances
        bursts = limit.name == "instance-credits"
        equals = f"It equals the EBS {'baseline' if bursts else 'limit'} of {describe_names(names)}"
        spent = ", which holds once the burst is spent" if bursts else ""
        hint = f"Is {instance} what it is attached to?" if instance else "Say with --instance what it is attached to."
        values = {"rate": rate, "where": where, "equals": f"{equals}{spent}", "attached": hint, "ask": ask}
        return _make_finding(part, "recorded-other-instance", stretch, **values)
    if not storage:
        return None  # no limit is known that it could not be
    hint = "" if instance else " Say with --instance what it is attached to: that may be the limit."
    where += _describe_limits(part.limits, in_bytes)
    return _make_finding(part, "recorded-other-storage", stretch, rate=rate, where=where, attached=hint)


def _describe_limits(limits: HoldingLimits | None, in_bytes: bool) -> str:
    """Returns the limits in words, those in bytes a second (`in_bytes`) or those in I/Os."""
    if limits is None:
        return ""
    unit = "bytes/s" if in_bytes else "I/Os/s"
    rates = dict.fromkeys(
        describe_rate(rate, unit) for _, rate, bytes_too in limits.list_levels() if bytes_too is in_bytes
    )
    return f" (it has {', '.join(rates)})" if rates else ""


def _make_first_touch_finding(part: SlowPart, rows: pl.DataFrame, slowness: Slowness, model: ModelLatency) -> Finding:
    """Returns the finding that first reads of blocks of a snapshot explain a slow stretch."""
    reads = median(rows, "read_ms") or 0.0
    if slowness.reads_only:
        writes = median(rows, "write_ms") or 0.0
        seen = f"reads of {part.name} took {reads:,.1f} ms, and writes {writes:,.1f} ms: a limit slows both alike"
    elif not slowness.apart:
        seen = f"an I/O of {part.name} took {compute_slowest_ms(rows):,.1f} ms (the type's p99 is {_get_p99(model):,.1f} ms) far below every limit"
    else:
        seen = f"reads of {part.name} took {reads:,.1f} ms (the type's p99 is {_get_p99(model):,.1f} ms) far below every limit"
    falling = ", and it fell all along, as blocks that are left become fewer" if slowness.falls else ""
    doubt = "" if slowness.apart else " The tool has one latency for reads and writes: `iostat -xt 1` tells them apart."
    if slowness.reads_only and not slowness.long_busy:
        point = describe_span(round(part.evidence.facts.grain_s))
        doubt = f" Bursts of reads within {point}, while nothing is written, look alike: `iostat -xt 1` tells."
    return _make_finding(part, "recorded-first-touch", rows, seen=seen, falling=falling, blind=doubt)


def _make_degraded_finding(part: SlowPart, rows: pl.DataFrame, slowness: Slowness, model: ModelLatency) -> Finding:
    both = "reads and writes alike, " if slowness.apart and not slowness.reads_only else ""
    busy = f" with a request under way {format_percent(slowness.busy)} of the time" if slowness.busy is not None else ""
    return _make_finding(part, "recorded-degraded", rows, p99_ms=_get_p99(model), both=both, busy=busy)


# --- members of an array --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Member:
    """A member and a time in which it was slow, the longest."""

    name: str
    volume: VolumeEvidence
    model: ModelLatency
    slow: pl.Series
    rows: pl.DataFrame


def blame_slow_member(part: SlowPart) -> Finding | None:
    """Blames a member that is slow while the others, with the same load, are quick. It shows sooner
    in its own latency than in the mean of the array."""
    members = {
        volume.facts.name.rpartition("/")[2]: volume
        for volume in part.evidence.volumes
        if volume.facts.role == "member"
    }
    if len(members) < 2:
        return None
    longest = [_find_longest(part, name, volume) for name, volume in members.items()]
    worst = max(
        (entry for entry in longest if entry is not None),
        key=lambda entry: compute_slowest_ms(entry.rows),
        default=None,
    )
    if worst is None:
        return None
    at = pl.col("t_unix").is_between(worst.rows["t_unix"][0] - 1e-6, worst.rows["t_unix"][-1] + 1e-6)
    other_rows = {name: volume.rows.filter(at) for name, volume in members.items() if name != worst.name}
    ms = {worst.name: compute_slowest_ms(worst.rows)} | {
        name: compute_slowest_ms(rows) for name, rows in other_rows.items()
    }
    quick = min(ms.values())
    if ms[worst.name] < MEMBER_FACTOR * max(quick, 1e-3):
        return None
    # A burst is spread over all members, as all of the load is.
    most = max((median(rows, "charged_iops") or 0.0 for rows in other_rows.values()), default=0.0)
    spread = (median(worst.rows, "charged_iops") or 0.0) <= SPREAD * most
    calm = worst.volume.rows.filter(~worst.slow)
    before = calm.filter(pl.col("t_unix") < worst.rows["t_unix"][0])
    limits = worst.volume.facts.limits
    slowness = find_cause(worst.rows, calm, before, limits, worst.model, part.t, others_are_quick=spread)
    return _make_member_finding(part, worst, ms, slowness)


def _find_longest(part: SlowPart, name: str, volume: VolumeEvidence) -> _Member | None:
    """Returns the longest time in which a member is clearly slow: a minute at least."""
    rows = volume.rows
    model = part.find_model(volume.facts, rows) if rows.height else None
    if model is None:
        return None
    slow = find_clearly_slow_points(rows, model, part.t)
    if not slow.any():
        return None
    first, behind = find_stretches(slow)[0]
    stretch = rows[first:behind]
    long = float(stretch["duration_s"].sum()) >= part.t.window_s and stretch.height >= LEAST_POINTS
    return _Member(name, volume, model, slow, stretch) if long else None


def _make_member_finding(part: SlowPart, member: _Member, ms: dict[str, float], slowness: Slowness) -> Finding:
    """Returns the finding on a slow member of an array. `ms`: latency of each member, ms, by
    name."""
    name = {"degraded": "recorded-member", "first-touch": "recorded-member-cold"}.get(
        slowness.cause or "", "recorded-member-busy"
    )
    values = {"member_ms": ms[member.name], "quick_ms": min(ms.values())}
    finding = _make_finding(part, name, member.rows, member=member.name, **values)
    figures = tuple(
        FindingFigure(f"ms of {name}", value, "ms", f"an I/O of {name} took {value:,.2f} ms")
        for name, value in ms.items()
    )
    return replace(finding, figures=figures)


SPREAD = 1.3  # times the load of the others, up to which a member has the same; a guess
