"""A recording of a device alone: why was it slow, and when. Windows with clock times, the limit,
recorded latency and the model's; and where no limit binds, what else explains it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from headrace.base import caps
from headrace.base.units import MIB, describe_repeats, describe_span, format_percent, write_clock
from headrace.errors import HeadraceError
from headrace.observe.evidence.model import Evidence
from headrace.operate.doctor.advising.gains import Counsel, are_processors_spent, explain_no_gain, explain_refusal
from headrace.operate.doctor.advising.remedies import find_change
from headrace.operate.doctor.beyond import judge_excess
from headrace.operate.doctor.judging import assemble_diagnosis, describe_grain
from headrace.operate.doctor.levels import describe_rate
from headrace.operate.doctor.model import Diagnosis, Finding, FindingFigure, Window
from headrace.operate.doctor.signals import compute_most_bytes_s, compute_signals
from headrace.operate.doctor.slow_findings import SlowPart, blame_stalled_device, judge_slow_points, without_stalls
from headrace.operate.doctor.slowness import find_stretches
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.doctor.verdicts import read_verdicts
from headrace.operate.doctor.windows import BoundWindow, find_bound_windows, remove_bound_rows
from headrace.simulation.demand import Simulation, simulate
from headrace.workload import ClosedWorkload, OpenWorkload
from headrace.workload.observed import describe_limits_met

# Limits that bind by their absence, in the sentence of a recording; the others: `caps.long`.
SPENT = {"volume-credits": "spent burst credits", "instance-credits": "the spent EBS burst of the instance"}
MODELLED_S = 10.0  # of a window, by the model: long enough for a mean


def diagnose_recording(
    evidence: Evidence, workload: OpenWorkload, counsel: Counsel, thresholds: Thresholds | None = None
) -> Diagnosis:
    """Returns the diagnosis of the whole recording: windows at a limit, other slow points and spent
    processors, what lasted longest first; `fine` without any of them."""
    t = thresholds or Thresholds()
    volume = next(entry for entry in evidence.volumes if entry.facts.role != "member")
    whole = SlowPart(evidence, volume, volume.rows, _make_clock(workload), t)
    if (beyond := judge_excess(whole, workload)) is not None:
        return _conclude(evidence, workload, [beyond], [])
    bound = find_bound_windows(workload, volume, evidence.facts.as_of, t)
    windows = sorted(
        (_make_window(entry, workload, evidence) for entry in bound), key=lambda entry: entry.from_s - entry.to_s
    )
    findings = [
        _make_finding(name, [entry for entry in windows if entry.limit == name], workload, evidence)
        for name in dict.fromkeys(entry.limit for entry in windows)
    ]
    findings = [_add_advice(entry, evidence, bound, counsel, t) for entry in findings]
    part = replace(whole, rows=remove_bound_rows(volume.rows, bound))
    stalled = blame_stalled_device(part)
    findings += [stalled] if stalled else []
    slow = judge_slow_points(replace(part, rows=without_stalls(part.rows)), beside_limits=bool(bound))
    findings += [slow] if slow else []
    # Bursts that a mean hides come after the limit that is seen.
    findings.sort(key=lambda entry: (bool(bound) and entry.subject == "bursts", -entry.weight))
    processors = judge_processors(evidence, _make_clock(workload), t, storage_waits=bool(findings))
    findings += [processors] if processors else []
    if not findings:
        findings = [_make_calm_finding(workload, volume.facts.name, t)]
    return replace(_conclude(evidence, workload, findings, bound), windows=tuple(windows))


def _conclude(
    evidence: Evidence, workload: OpenWorkload, findings: list[Finding], bound: list[BoundWindow]
) -> Diagnosis:
    """Returns the diagnosis with these findings, without its windows."""
    grain = describe_grain(evidence.facts.grain_s, False)
    evidence = replace(evidence, notes=_collect_notes(evidence, workload, bound))
    return assemble_diagnosis(evidence, [replace(entry, grain=grain) for entry in findings])


def _collect_notes(evidence: Evidence, workload: OpenWorkload, bound: list[BoundWindow]) -> tuple[str, ...]:
    """Returns the recording's notes; of its flat stretches only on those that are at a limit."""
    start = workload.source.get("clock_start")
    at_limits = describe_limits_met(
        tuple(window for window in workload.censored if window in {entry.window for entry in bound}), start
    )
    of_stretches = describe_limits_met(workload.censored, start)
    return (*[note for note in evidence.notes if note not in of_stretches], *at_limits)


def _make_calm_finding(workload: OpenWorkload, device: str, t: Thresholds) -> Finding:
    """Returns the finding that nothing is wrong, or, for a recording that is short or has no
    latency, that this cannot be told."""
    if workload.span_s < t.window_s:
        return read_verdicts()["recorded-short"].make_finding(device, span_s=workload.span_s)
    latency = workload.find_recorded_latency()
    if latency is None:
        return read_verdicts()["recorded-no-latency"].make_finding(device)
    worst = latency.filter(pl.col("mean_ms").is_not_null()).sort("mean_ms", descending=True).head(1)
    at = ""
    if worst.height:
        when = _make_clock(workload)(float(worst["t_s"][0]))
        at = f" The slowest point is {worst['mean_ms'][0]:,.2f} ms{' at' if when[0].isdigit() else ','} {when}."
    return read_verdicts()["recorded-fine"].make_finding(device, slowest=at)


def _make_clock(workload: OpenWorkload) -> Callable[[float], str]:
    """Returns the function that writes a time of the recording, seconds, in words: the time of day,
    or how long after the start."""
    start = workload.source.get("clock_start")
    return lambda t_s: (
        write_clock(start, t_s, True, True) or (f"{describe_span(round(t_s))} after the start" if t_s else "the start")
    )


# --- windows at a limit ---------------------------------------------------------------------------


def _make_window(entry: BoundWindow, workload: OpenWorkload, evidence: Evidence) -> Window:
    """Returns a stretch at a limit: clock times, seconds of the recording, the rate in IOPS or
    MiB/s, and latencies in ms, recorded and by the model (None: not known)."""
    at = _make_clock(workload)
    window, limit = entry.window, entry.limit
    run = _simulate_stretch(workload, entry, evidence)
    in_bytes = limit.unit == "bytes/s"
    return Window(
        begins=at(window.from_s),
        ends=at(window.to_s),
        from_s=window.from_s,
        to_s=window.to_s,
        limit=limit.name,
        rate=limit.rate / MIB if in_bytes else limit.rate,
        unit="MiB/s" if in_bytes else "IOPS",
        recorded_ms=window.latency_ms,
        usual_ms=window.usual_latency_ms,
        model_ms=None if run is None else run.summary["mean_ms"],
        model_p99_ms=None if run is None else run.summary["p99_ms"],
        at_least_iops=window.at_least_iops,
    )


def _simulate_stretch(workload: OpenWorkload, entry: BoundWindow, evidence: Evidence) -> Simulation | None:
    """Simulates as many outstanding requests as were recorded, of the same size and mix, on the
    storage that is named. Credits are gone where they were."""
    window = entry.window
    storage = next(volume.facts.storage for volume in evidence.volumes if volume.facts.role != "member")
    if storage is None or window.queue is None:
        return None
    points = workload.points.filter((pl.col("t_s") >= window.from_s - 1e-6) & (pl.col("t_s") < window.to_s - 1e-6))
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
            iodepth=max(1, round(window.queue)),
            numjobs=1,
            rwmixread=round(100 * reads / (reads + writes)),
        )
        balance = 0.0 if entry.limit.name.endswith("credits") else window.balance_percent
        settings = {"instance": evidence.facts.instance, "as_of": evidence.facts.as_of, "start_balance": balance}
        return simulate(load, storage, seconds=MODELLED_S, **settings)
    except HeadraceError:
        return None


# --- findings -------------------------------------------------------------------------------------


def _make_finding(name: str, windows: list[Window], workload: OpenWorkload, evidence: Evidence) -> Finding:
    """Returns the finding on the limit `name`, weighted by its seconds. `windows`: the stretches at
    it, the longest first."""
    first = windows[0]
    volume = next(entry.facts.name for entry in evidence.volumes if entry.facts.role != "member")
    total_s = sum(entry.to_s - entry.from_s for entry in windows)
    rate = describe_rate(first.rate * (MIB if first.unit == "MiB/s" else 1), "bytes/s" if first.unit == "MiB/s" else "")
    latency = ""
    if first.recorded_ms is not None:
        latency = f"; an I/O took {first.recorded_ms:,.1f} ms"
        if first.usual_ms:
            latency += f", usually {first.usual_ms:,.2f} ms"
        if first.model_ms is not None:
            latency += f" (the model says {first.model_ms:,.1f} ms there)"
    more = f", and {describe_repeats(len(windows) - 1)} ({describe_span(round(total_s))} in all)" if windows[1:] else ""
    baseline = f", the baseline of {evidence.facts.instance}" if name == "instance-credits" else ""
    finding = read_verdicts()["recorded-limit"].make_finding(
        volume,
        weight=total_s,
        figures=_make_figures(first, rate, total_s / workload.span_s),
        begins=first.begins,
        ends=first.ends,
        limit=SPENT.get(name) or caps.describe_cap(name),
        rate=rate,
        baseline=baseline,
        more=more,
        latency=latency,
    )
    return replace(finding, subject=name, from_unix=first.from_s, to_unix=first.to_s)


def _make_figures(window: Window, rate: str, share: float) -> tuple[FindingFigure, ...]:
    """Returns the figures of a limit. `rate`: in words; `share`: of the recording at the limit, 0
    to 1."""
    recorded, modelled = "latency not recorded", "storage not named: no model"
    if window.recorded_ms is not None:
        recorded = f"an I/O took {window.recorded_ms:,.2f} ms (recorded)"
    if window.model_ms is not None:
        modelled = f"an I/O takes {window.model_ms:,.2f} ms there by the model"
    least = window.at_least_iops
    return (
        FindingFigure("share", share, "share", f"time at the limit: {format_percent(share, 1)} of the recording"),
        FindingFigure("rate", window.rate, window.unit, f"rate: a flat {rate}"),
        FindingFigure("recorded_ms", window.recorded_ms, "ms", recorded),
        FindingFigure("model_ms", window.model_ms, "ms", modelled),
        FindingFigure("at_least_iops", least, "I/Os/s", f"demand: at least {least:,.0f} IOPS"),
    )


def _add_advice(
    entry: Finding, evidence: Evidence, bound: list[BoundWindow], counsel: Counsel, t: Thresholds
) -> Finding:
    """Returns a finding on a limit, with the change to make where the storage is named."""
    volume = next(each for each in evidence.volumes if each.facts.role != "member")
    if volume.facts.limits is None:
        return entry
    windows = [each.window for each in bound if each.limit.name == entry.subject]
    at = min(windows, key=lambda window: abs(window.from_s - (entry.from_unix or 0.0)))
    begin = float(volume.rows["t_unix"][0])
    part = compute_signals(evidence.select_span(begin + at.from_s - 1e-6, begin + at.to_s - 1e-6), t, whole=True)
    seen = next((each for each in part.volumes if each.facts.name == volume.facts.name), None)
    if seen is None:
        return entry
    if are_processors_spent(part.host, t):
        return replace(entry, words=f"{entry.words}{explain_no_gain(part.host)}")
    seen.most_bytes_s = compute_most_bytes_s(volume.rows)
    factor = t.spare_rate * at.at_least_iops / max(seen.iops, 1.0)
    try:
        change = find_change(seen, entry.subject, factor, counsel.region, counsel.as_of)
    except HeadraceError as error:
        return replace(entry, words=f"{entry.words} The change to make is not known: {explain_refusal(error)}.")
    return entry if change is None else replace(entry, remedies=(change.remedy,))


# --- processors -----------------------------------------------------------------------------------
# The processors of a recording that has them next to the disks (iostat's avg-cpu, vmstat, sar -u):
# storage is not to blame for a host that computes all the time.


SHARES = ("user_cpus", "system_cpus", "idle_cpus", "iowait_cpus", "steal_cpus")


def judge_processors(
    evidence: Evidence, at: Callable[[float], str], t: Thresholds, storage_waits: bool
) -> Finding | None:
    """Returns a finding on processors that are nearly spent for a good part of the recording; None
    if they are not, or were not recorded. `storage_waits`: something of storage was found too, so
    that it does not keep up."""
    rows = evidence.host
    if not rows.height or not {"user_cpus", "system_cpus", "idle_cpus"} <= set(rows.columns):
        return None
    every = sum((pl.col(name).fill_null(0.0) for name in SHARES if name in rows.columns), pl.lit(0.0))
    steal = pl.col("steal_cpus").fill_null(0.0) if "steal_cpus" in rows.columns else pl.lit(0.0)
    shares = rows.select(
        "t_unix",
        "duration_s",
        ((pl.col("user_cpus") + pl.col("system_cpus")) / every).alias("busy"),
        (steal / every).alias("steal"),
    ).with_columns(spent=((pl.col("busy") >= t.processor_share) | (pl.col("steal") >= t.steal_share)).fill_null(False))
    spent = shares.filter(pl.col("spent"))
    seconds = float(spent["duration_s"].sum())
    if seconds < t.window_s or seconds < t.spent_share * float(shares["duration_s"].sum()):
        return None
    first, behind = find_stretches(shares["spent"])[0]
    part = shares[first:behind]
    begin = float(rows["t_unix"][0])
    begins = float(part["t_unix"][0]) - begin
    ends = float(part["t_unix"][-1] + part["duration_s"][-1]) - begin
    busy, steal_share = (float(part[name].mean() or 0.0) for name in ("busy", "steal"))  # type: ignore[arg-type]
    count = f" of {evidence.facts.vcpus} processors" if evidence.facts.vcpus else " of the processors"
    in_all = "" if seconds <= ends - begins else f" ({describe_span(round(seconds))} in all)"
    when = f"From {at(begins)} to {at(ends)}{in_all}"
    storage = "Storage waited as well" if storage_waits else "Storage kept up"
    name = "recorded-processors-too" if storage_waits else "recorded-processors"
    finding = read_verdicts()["recorded-steal" if steal_share >= t.steal_share else name].make_finding(
        weight=seconds, when=when, busy_share=busy, steal_share=steal_share, count=count, storage=storage
    )
    return replace(finding, from_unix=begins, to_unix=ends)
