"""A recording of a device alone: why was it slow, and when. Windows with clock times, the limit,
recorded latency and the model's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import polars as pl

from headrace.base.units import MIB, clock_text, in_percent, span_in_words
from headrace.errors import HeadraceError
from headrace.operate.doctor.advising.gains import Counsel, why
from headrace.operate.doctor.advising.remedies import change_of_volume
from headrace.operate.doctor.diagnosis import assembled
from headrace.operate.doctor.judging import grain_words
from headrace.operate.doctor.model import Diagnosis, Finding, FindingFigure, Window
from headrace.operate.doctor.signals import signals_of
from headrace.operate.doctor.storage_verdicts import bursts_hide, bursts_words
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.evidence.limits import HoldingLimits
from headrace.operate.evidence.model import Evidence
from headrace.simulation.demand import Simulation, simulate
from headrace.workload import ClosedWorkload, OpenWorkload
from headrace.workload.observed import CensoredWindow

NAMES = {"iops": "volume-iops", "mib_s": "volume-throughput", "credits": "volume-credits"}
# A level this near to a limit of the storage named is that limit (operate_page 1.4: within 5 % of
# the baseline).
SAME_SHARE = 0.05
WORDS = {
    "volume-iops": "the volume's IOPS",
    "volume-throughput": "the volume's throughput",
    "volume-credits": "spent burst credits",
    "instance-iops": "the instance's EBS IOPS",
    "instance-throughput": "the instance's EBS throughput",
}
MODELLED_S = 10.0  # of a window, by the model: long enough for a mean


def diagnose_recording(
    evidence: Evidence, workload: OpenWorkload, counsel: Counsel, thresholds: Thresholds | None = None
) -> Diagnosis:
    """Windows at a limit in the whole recording, the longest first; `fine` without any."""
    t = thresholds or Thresholds()
    facts = evidence.volumes[0].facts
    windows = tuple(
        one for one in workload.censored if facts.limits is None or _level_of(one, facts.limits) is not None
    )
    told = tuple(_window(one, workload, facts.limits, evidence) for one in windows)
    told = tuple(sorted(told, key=lambda one: one.from_s - one.to_s))
    grain = grain_words(evidence.facts.grain_s, False)
    if not told:
        slow = _degraded(workload, evidence, t)
        if slow is None or slow.verdict != "degraded":
            slow = _unexplained(workload, evidence, t) or slow
        return assembled(evidence, [replace(slow or _calm(workload, facts.name), grain=grain)])
    findings = [
        _finding(name, [one for one in told if one.limit == name], workload, facts.name)
        for name in dict.fromkeys(one.limit for one in told)
    ]
    findings.sort(key=lambda one: -one.weight)
    findings = [replace(_advised(one, evidence, windows, counsel, t), grain=grain) for one in findings]
    return assembled(evidence, findings, windows=told)


def _calm(workload: OpenWorkload, device: str) -> Finding:
    known = workload.recorded_latency()
    if known is None:
        words = f"No window in which {device} was at a limit was found, but the recording has no latency: a limit that is met for a short time does not show."
        return Finding("cannot tell", "latency", words, device)
    worst = known.filter(pl.col("mean_ms").is_not_null()).sort("mean_ms", descending=True).head(1)
    at = ""
    if worst.height:
        moment = clock_text(workload.source.get("clock_start"), float(worst["t_s"][0]), True, True)
        at = (
            f" The slowest point is {worst['mean_ms'][0]:,.2f} ms"
            + (f" at {moment}" if moment else f", {span_in_words(round(float(worst['t_s'][0])))} after the start")
            + "."
        )
    return Finding("fine", "fine", f"No window at a limit in this recording of {device}.{at}", device)


def _unexplained(workload: OpenWorkload, evidence: Evidence, t: Thresholds) -> Finding | None:
    """The longest stretch that was flat and slow at a rate that no limit of the storage has."""
    flat = [
        one
        for one in workload.censored
        if one.to_s - one.from_s >= t.window_s
        and (one.latency_ms or 0.0) >= t.inferred_latency_factor * (one.usual_latency_ms or math.inf)
    ]
    if not flat:
        return None
    facts = evidence.volumes[0].facts
    one = max(flat, key=lambda window: window.to_s - window.from_s)
    limits, instance = facts.limits, evidence.facts.instance
    assert limits is not None  # else every window counts
    at = _clock_of(workload)
    slow = f", and an I/O took {one.latency_ms:,.1f} ms (usually {one.usual_latency_ms:,.2f} ms)"
    allowed = [limits.iops, limits.burst_iops, limits.instance_iops, limits.instance_burst_iops]
    if one.unit == "MiB/s":
        allowed = [limits.bytes_s, limits.burst_bytes_s, limits.instance_bytes_s, limits.instance_burst_bytes_s]
    scale = MIB if one.unit == "MiB/s" else 1
    known = ", ".join(f"{value / scale:,.0f}" for value in dict.fromkeys(allowed) if value)
    beside = "" if instance else " Say with --instance what it is attached to: that may be the limit."
    words = (
        f"From {at(one.from_s)} to {at(one.to_s)} {facts.name} was at a flat {one.recorded:,.4g} {one.unit}{slow}: as at a "
        f"limit, but {facts.storage}{f' on {instance}' if instance else ''} has none there (it has {known} {one.unit}). "
        f"Is that the storage it was recorded on?{beside}"
    )
    figures = (
        FindingFigure("rate", one.recorded, one.unit, f"rate: a flat {one.recorded:,.4g} {one.unit}"),
        FindingFigure(
            "seconds", one.to_s - one.from_s, "s", f"it lasted {span_in_words(round(one.to_s - one.from_s))}"
        ),
    )
    return Finding(
        "cannot tell", "storage", words, facts.name, "inferred", figures=figures, from_unix=one.from_s, to_unix=one.to_s
    )


def _clock_of(workload: OpenWorkload) -> Callable[[float], str]:
    """From seconds of the recording to words: the time of day where it is known."""
    start = workload.source.get("clock_start")
    return lambda t_s: clock_text(start, t_s, True, True) or f"{span_in_words(round(t_s))} after the start"


def _modelled(workload: OpenWorkload, one: CensoredWindow, evidence: Evidence) -> Simulation | None:
    """As many requests outstanding as were recorded, of the same size and mix, on the storage that
    is named: by the model. Credits are gone where they were."""
    facts = evidence.volumes[0].facts
    if facts.storage is None or one.queue is None:
        return None
    points = workload.points.filter((pl.col("t_s") >= one.from_s - 1e-6) & (pl.col("t_s") < one.to_s - 1e-6))
    reads, writes = float(points["reads_per_s"].sum()), float(points["writes_per_s"].sum())
    kib = float((points["reads_per_s"] * points["read_kib"] + points["writes_per_s"] * points["write_kib"]).sum())
    if reads + writes <= 0:
        return None
    sequential = max(workload.sequential_read_share, workload.sequential_write_share) > 0.5
    try:
        load = ClosedWorkload(
            name="window",
            rw="rw" if sequential else "randrw",
            bs_kib=kib / (reads + writes),
            iodepth=max(1, round(one.queue)),
            numjobs=1,
            rwmixread=round(100 * reads / (reads + writes)),
        )
        spent = _limit_of(one, facts.limits) == "volume-credits"
        balance = 0.0 if spent else one.balance_percent
        settings = {"instance": evidence.facts.instance, "as_of": evidence.facts.as_of, "start_balance": balance}
        return simulate(load, facts.storage, seconds=MODELLED_S, **settings)
    except HeadraceError:
        return None


def _window(one: CensoredWindow, workload: OpenWorkload, limits: HoldingLimits | None, evidence: Evidence) -> Window:
    at = _clock_of(workload)
    run = _modelled(workload, one, evidence)
    model_ms = None if run is None else run.summary["mean_ms"]
    p99 = None if run is None else run.summary["p99_ms"]
    return Window(
        begins=at(one.from_s),
        ends=at(one.to_s),
        from_s=one.from_s,
        to_s=one.to_s,
        limit=_limit_of(one, limits),
        rate=one.recorded,
        unit=one.unit,
        recorded_ms=one.latency_ms,
        usual_ms=one.usual_latency_ms,
        model_ms=model_ms,
        model_p99_ms=p99,
        at_least_iops=one.at_least_iops,
    )


def _limit_of(one: CensoredWindow, limits: HoldingLimits | None) -> str:
    """The limit whose figure the level is; without a storage, what the recording says by itself."""
    return (None if limits is None else _level_of(one, limits)) or NAMES[one.limit]


def _level_of(one: CensoredWindow, limits: HoldingLimits) -> str | None:
    """The limit of this storage that the level is; None where it is none of them."""
    level = one.recorded * (MIB if one.unit == "MiB/s" else 1)
    kinds = ("volume-throughput", "instance-throughput") if one.unit == "MiB/s" else ("volume-iops", "instance-iops")
    if limits.credits is not None:
        kinds = (*kinds, "volume-credits")
    near = {name: abs(level / allowed - 1) for name in kinds if (allowed := limits.rate_of(name))}
    best = min(near, key=lambda name: near[name], default=None)
    return best if best is not None and near[best] <= SAME_SHARE else None


def _degraded(workload: OpenWorkload, evidence: Evidence, t: Thresholds) -> Finding | None:
    """The longest stretch that is slow without any limit: a minute at least."""
    one, at = evidence.volumes[0], _clock_of(workload)
    rows = one.rows
    signals = signals_of(evidence, t, whole=True)
    volume = signals.volumes[0] if signals.volumes else None
    if volume is None or volume.model is None or volume.limits is None:
        return None
    p99 = max(volume.model.read_p99, volume.model.write_p99)
    slowest = pl.max_horizontal(
        [pl.col(name) for name in ("read_ms", "write_ms") if name in rows.columns] or [pl.lit(None)]
    )
    busy = pl.col("charged_iops")
    limits = volume.limits
    sizes = [pl.col(name).fill_null(0.0) for name in ("read_mib_s", "write_mib_s") if name in rows.columns]
    most = min(limits.bytes_s, limits.instance_bytes_s or limits.bytes_s)
    idle_of_limits = busy < t.degraded_use * min(limits.iops, limits.instance_iops or limits.iops)
    idle_of_limits &= pl.sum_horizontal(sizes or [pl.lit(0.0)]) * MIB < t.degraded_use * most
    slow = rows.select(
        ((slowest >= t.degraded_factor * p99) & idle_of_limits & (busy >= t.degraded_least_iops))
        .fill_null(False)
        .alias("slow")
    )["slow"]
    best = first = 0
    longest: tuple[int, int] | None = None
    for index, is_slow in enumerate([*slow.to_list(), False]):
        if is_slow:
            continue
        if index - first > best:
            best, longest = index - first, (first, index)
        first = index + 1
    if longest is None:
        return None
    part = rows[longest[0] : longest[1]]
    span_s = float(part["duration_s"].sum())
    if span_s < t.window_s:
        return None
    begin = float(part["t_unix"][0]) - float(rows["t_unix"][0])
    ms = float(part.select(slowest.alias("ms"))["ms"].median() or 0.0)  # type: ignore[arg-type]
    words = (
        f"From {at(begin)} to {at(begin + span_s)} {one.facts.name} was degraded: an I/O took {ms:,.1f} ms (the type's p99 is "
        f"{p99:,.1f} ms) far below every limit. It is EBS's fault, and minutes long as a rule: open a case, do not resize."
    )
    figures = (
        FindingFigure("recorded_ms", ms, "ms", f"an I/O took {ms:,.2f} ms (recorded)"),
        FindingFigure("seconds", span_s, "s", f"it lasted {span_in_words(round(span_s))}"),
    )
    verdict, subject = "degraded", "degraded"
    stretch = replace(evidence, volumes=(replace(one, rows=part),))
    busy = signals_of(stretch, t, whole=True).volumes[0].use_while_busy
    if bursts_hide(busy, evidence.facts.grain_s, t):
        verdict, subject = "cannot tell", "bursts"
        told = f"an I/O took {ms:,.1f} ms from {at(begin)} to {at(begin + span_s)} (the type's p99 is {p99:,.1f} ms)"
        words = f"{bursts_words(one.facts.name, told, busy, evidence.facts.grain_s)}."
    return Finding(
        verdict,
        subject,
        words,
        one.facts.name,
        "inferred",
        None,
        span_s,
        figures,
        from_unix=begin,
        to_unix=begin + span_s,
    )


def _finding(name: str, windows: list[Window], workload: OpenWorkload, volume: str) -> Finding:
    first = windows[0]
    total_s = sum(one.to_s - one.from_s for one in windows)
    span_s = workload.span_s
    latency = ""
    if first.recorded_ms is not None:
        latency = f"; an I/O took {first.recorded_ms:,.1f} ms"
        if first.usual_ms:
            latency += f", usually {first.usual_ms:,.2f} ms"
        if first.model_ms is not None:
            latency += f" (the model says {first.model_ms:,.1f} ms there)"
    more = "" if len(windows) == 1 else f", and {len(windows) - 1} times more ({span_in_words(round(total_s))} in all)"
    words = (
        f"From {first.begins} to {first.ends} {WORDS.get(name, name)} bound {volume}: a flat {first.rate:,.4g} {first.unit}{more}{latency}. "
        f"That is why it was slow then."
    )
    figures = (
        FindingFigure(
            "share", total_s / span_s, "share", f"time at the limit: {in_percent(total_s / span_s, 1)} of the recording"
        ),
        FindingFigure("rate", first.rate, first.unit, f"rate: a flat {first.rate:,.4g} {first.unit}"),
        FindingFigure(
            "recorded_ms",
            first.recorded_ms,
            "ms",
            "latency not recorded"
            if first.recorded_ms is None
            else f"an I/O took {first.recorded_ms:,.2f} ms (recorded)",
        ),
        FindingFigure(
            "model_ms",
            first.model_ms,
            "ms",
            "storage not named: no model"
            if first.model_ms is None
            else f"an I/O takes {first.model_ms:,.2f} ms there by the model",
        ),
        FindingFigure(
            "at_least_iops", first.at_least_iops, "I/Os/s", f"at least {first.at_least_iops:,.0f} IOPS were asked"
        ),
    )
    return Finding(
        "binds", name, words, volume, "inferred", None, total_s, figures, from_unix=first.from_s, to_unix=first.to_s
    )


def _advised(
    one: Finding, evidence: Evidence, windows: tuple[CensoredWindow, ...], counsel: Counsel, t: Thresholds
) -> Finding:
    """With what to do, where the storage is named."""
    limits = evidence.volumes[0].facts.limits
    if limits is None or one.subject.startswith("instance"):
        return one
    at = min(windows, key=lambda window: abs(window.from_s - (one.from_unix or 0.0)))
    begin = float(evidence.volumes[0].rows["t_unix"][0])
    part = signals_of(evidence.between(begin + at.from_s - 1e-6, begin + at.to_s - 1e-6), t, whole=True)
    if not part.volumes:
        return one
    try:
        change = change_of_volume(
            part.volumes[0],
            one.subject,
            t.spare_rate * at.at_least_iops / max(part.volumes[0].iops, 1.0),
            counsel.region,
            counsel.as_of,
        )
    except HeadraceError as error:
        return replace(one, words=f"{one.words} What to change is not known: {why(error)}.")
    return one if change is None else replace(one, remedies=(change.remedy,))
