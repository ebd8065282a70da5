"""Verdicts on volumes: each limit seen or inferred, spent credits, degraded volumes and members,
what is loaded or optimized, what will bind; and settings of the server that look like storage."""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.base import caps
from headrace.base.units import GIB, MIB, describe_span, format_percent
from headrace.operate.doctor.channels import judge_channels
from headrace.operate.doctor.innocence import is_busy
from headrace.operate.doctor.model import Basis, Finding, FindingFigure
from headrace.operate.doctor.signals import (
    ServerSignals,
    Signals,
    VolumeSignals,
    add_waits,
    count_page_writes,
    count_syncs,
)
from headrace.operate.doctor.slowness import rules_out_bursts
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.doctor.verdicts import describe_client_waits, read_verdicts

# Units of rates, as figures show them.
BYTES_S, IOS_S = "bytes/s", "I/Os/s"
LOG_BUFFER = 64 * MIB  # bytes, innodb_log_buffer_size: the default of MySQL 8.4
# The redo log holds as much as an hour writes, the usual advice, and more than any default.
HOUR_S, LEAST_REDO = 3_600.0, 4 * GIB
MOST_REDO = 128 * GIB  # bytes, the most that MySQL takes (innodb_redo_log_capacity)
MEMBER_FACTOR = 3.0  # a member this many times as slow as the fastest is the odd one (a guess)


def judge_volumes(signals: Signals, t: Thresholds) -> list[Finding]:
    """Returns the findings on the volumes, worst first."""
    findings: list[Finding] = []
    for volume in signals.volumes:
        limits = _judge_limits(volume, signals, t)
        findings += limits
        findings += _judge_members(volume, signals, t)
        if not limits:
            findings += _judge_slowness(volume, signals, t)
        findings += _forecast_credits(volume, t)
    return findings


def _compute_felt_share(volume: VolumeSignals, signals: Signals) -> float | None:
    """Returns the share of clients' time in waits for this volume, 0 to 1; None where it is not
    known."""
    server = signals.server
    return None if server is None else _select_waits(volume, signals, server.felt_read, server.felt_commit, 1.0)


def _compute_late_clients(volume: VolumeSignals, signals: Signals) -> float | None:
    """Returns how many clients wait, on average, because this volume answers late; None where it is
    not known."""
    server = signals.server
    if server is None:
        return None
    return _select_waits(volume, signals, server.late_read_clients, server.late_commit_clients, math.inf)


def _select_waits(
    volume: VolumeSignals, signals: Signals, reads: float | None, commits: float | None, most: float
) -> float | None:
    """Returns the waits for this volume: those of commits on a log volume, those of reads on a data
    volume next to a log volume, else both (`add_waits`)."""
    if volume.facts.role == "log":
        return commits
    several = any(other.facts.role == "log" for other in signals.volumes)
    return reads if several else add_waits(reads, commits, most)


def _compute_lag_s(signals: Signals) -> float:
    """Returns how far a replica is behind, s; a delay that was asked for does not count."""
    return (signals.replica.get("lag_s") or 0.0) - (signals.replica.get("delay_s") or 0.0)


def _may_hide_waits(signals: Signals, t: Thresholds) -> bool:
    """Returns whether more may wait than is known: appliers of a late replica, or its clients."""
    server = signals.server
    if server is None or not server.commits_unknown:
        return False
    return _compute_lag_s(signals) >= t.replica_lag_s or server.running >= t.little_running


def _judge_limits(volume: VolumeSignals, signals: Signals, t: Thresholds) -> list[Finding]:
    """Returns findings on limits that are met now: seen where time over them is counted, else
    inferred."""
    if not is_busy(volume, t):
        return []
    felt, findings = _compute_felt_share(volume, signals), []
    if felt is not None and felt < t.felt_share and _may_hide_waits(signals, t):
        felt = None
    for name in caps.COUNTED:
        share = volume.use.over.get(name)
        if share is None or share < t.seen_share or volume.use.ticks_over[name] < t.steady_seconds_share:
            continue
        subject = _name_limit(volume, name, t)
        findings.append(_make_limit_finding(volume, subject, share, felt, "seen", signals, t))
    if any(share is not None for share in volume.use.over.values()):
        return findings
    return [*findings, *_infer_limits(volume, felt, signals, t)]


def _name_limit(volume: VolumeSignals, name: str, t: Thresholds) -> str:
    """Returns the name of a limit, or that of the credits that are gone."""
    limits = volume.limits
    gone = t.credits_gone_percent
    if name.startswith("volume") and volume.credits.last is not None and volume.credits.last <= gone:
        kind = "volume-iops" if limits is None or limits.credit_unit == "ios" else "volume-throughput"
        return "volume-credits" if name == kind else name
    if name.startswith("instance") and volume.credits.instance is not None and volume.credits.instance <= gone:
        return "instance-credits"
    return name


def _infer_limits(volume: VolumeSignals, felt: float | None, signals: Signals, t: Thresholds) -> list[Finding]:
    """Returns findings on limits whose rate the volume has with a latency above the type's: only
    both together show a limit."""
    slow = volume.slow_times
    if slow is None or slow < t.inferred_latency_factor:
        return []
    names = [name for name, share in volume.use.ticks_near.items() if share >= t.inferred_seconds_share]
    on_baseline = _compute_baseline_use(volume, signals, t)
    if not names and on_baseline is not None and abs(on_baseline - 1.0) <= t.credits_near_baseline:
        return [_make_limit_finding(volume, "instance-credits", min(1.0, on_baseline), felt, "inferred", signals, t)]
    if "volume-credits" in names and volume.credits.last is not None and volume.credits.last > t.credits_gone_percent:
        names.remove("volume-credits")
    return [
        _make_limit_finding(volume, name, volume.use.ticks_near[name], felt, "inferred", signals, t) for name in names
    ]


def _compute_baseline_use(volume: VolumeSignals, signals: Signals, t: Thresholds) -> float | None:
    """Returns what all volumes of the instance take over what it gives without its burst, by the
    nearer of I/Os and bytes; None where that does not bind: no instance, no burst apart, or some is
    left."""
    limits, balance = volume.limits, volume.credits.instance
    if limits is None or (balance is not None and balance > t.credits_gone_percent):
        return None
    burst = (limits.instance_burst_iops, limits.instance_burst_bytes_s)
    if (limits.instance_iops, limits.instance_bytes_s) == burst:
        return None
    totals = _sum_rates(signals)
    baselines = (limits.instance_iops, limits.instance_bytes_s)
    return max((total / most for total, most in zip(totals, baselines, strict=True) if most), default=None)


def _make_limit_finding(
    volume: VolumeSignals, subject: str, share: float, felt: float | None, basis: Basis, signals: Signals, t: Thresholds
) -> Finding:
    """Returns the finding on a limit that is met: `touched` if clients hardly wait for it, else
    `binds`. `share`: of the time over it (basis `seen`), or of the ticks near it (`inferred`).
    `felt`: share of the clients' time in waits for the volume, None where it is not known."""
    late_clients = _compute_late_clients(volume, signals)
    touched = felt is not None and (
        felt < t.felt_share or (late_clients is not None and late_clients < t.little_running)
    )
    rate, allowed, unit = _compute_rate(volume, subject)
    optimizing = volume.facts.state in ("optimizing", "modifying") and subject.startswith("volume")
    name = caps.describe_cap(subject)
    how = {
        "seen": f"over it {format_percent(share)} of the time{_describe_bursts(volume, rate, allowed, t)}",
        "inferred": f"at it in {format_percent(share)} of the seconds, with latency {volume.slow_times or 0:,.1f} times the type's own",
    }[basis]
    limit = f"{name[0].upper()}{name[1:]}"
    at = "" if allowed is None else f" of {_format_amount(allowed, unit)}"
    feels = describe_client_waits(felt)
    if touched and (felt or 0.0) >= t.felt_share:
        feels = f"Hardly a client waits for that: {late_clients or 0.0:.1g} on average."
    figures = [
        FindingFigure(
            "over_share" if basis == "seen" else "near_share", share, "share", how.replace(" it ", " the limit ", 1)
        ),
        FindingFigure("rate", rate, unit, f"rate: {_format_amount(rate, unit)} (mean)"),
        FindingFigure(
            "limit", allowed, unit, f"limit: {'not known' if allowed is None else _format_amount(allowed, unit)}"
        ),
        *_make_latency_figures(volume),
    ]
    balances = (
        ("balance_percent", volume.credits.last, "credit balance"),
        ("instance_balance_percent", volume.credits.instance, "the instance's credit balance"),
    )
    figures += [
        FindingFigure(key, balance, "percent", f"{words}: {balance:.1f} %")
        for key, balance, words in balances
        if balance is not None
    ]
    if felt is not None:
        words = f"clients wait for it {format_percent(felt)} of their time"
        figures.append(FindingFigure("felt", felt, "share", words))
    row = "optimizing" if optimizing else "credits" if subject.endswith("credits") else "limit"
    finding = read_verdicts()[row].make_finding(
        volume.facts.name,
        felt,
        share * (1.0 if felt is None else felt),
        "felt" if felt is not None and not touched else basis,
        tuple(figures),
        limit=limit,
        binds=_choose_verb(name, touched),
        gives=f"{volume.facts.name} gives {_format_amount(rate, unit)}{at}",
        how=how,
        share=share,
        state=volume.facts.state,
        feels=feels,
    )
    verdict, about = "touched" if touched else "binds", "optimizing" if optimizing else subject
    return replace(finding, verdict=verdict, subject=about)


def _describe_bursts(volume: VolumeSignals, rate: float, allowed: float | None, t: Thresholds) -> str:
    """Returns words that a limit is reached in bursts, where the mean is far below it."""
    if not allowed or rate >= t.degraded_use * allowed:
        return ""
    way = "writes" if volume.write_iops >= volume.read_iops else "reads"
    return f", in bursts of {way} ({format_percent(rate / allowed)} of the limit on the mean)"


def _choose_verb(name: str, touched: bool) -> str:
    many = name.endswith("IOPS")
    return ("are touched" if many else "is touched") if touched else ("bind" if many else "binds")


def _compute_rate(volume: VolumeSignals, subject: str) -> tuple[float, float | None, str]:
    """Returns what the volume gives, what the limit allows (None: not known), and the unit of both:
    I/Os/s or bytes/s."""
    limits, in_bytes = volume.limits, subject.endswith("throughput")
    allowed = None if limits is None else limits.find_rate(subject)
    if limits is not None and subject == "volume-credits":
        in_bytes = limits.credit_unit == "bytes"
    elif limits is not None and subject == "instance-credits" and limits.instance_bytes_s and limits.instance_iops:
        # One bucket is of I/Os, the other of bytes: the one whose baseline is nearer is empty.
        in_bytes = volume.bytes_s / limits.instance_bytes_s > volume.charged_iops / limits.instance_iops
        allowed = limits.instance_bytes_s if in_bytes else allowed
    return (volume.bytes_s, allowed, BYTES_S) if in_bytes else (volume.charged_iops, allowed, IOS_S)


def _format_amount(value: float, unit: str) -> str:
    return f"{value / MIB:,.4g} MiB/s" if unit == BYTES_S else f"{value:,.0f} IOPS"


def _make_latency_figures(volume: VolumeSignals) -> tuple[FindingFigure, ...]:
    """Returns the latency of reads and of writes, ms, compared with the model's, as far as
    measured."""
    figures = []
    for way in ("read", "write"):
        seen = getattr(volume, f"{way}_ms")
        if seen is None:
            continue
        own = None if volume.model is None else getattr(volume.model, f"{way}_p50")
        comparison = "" if own is None else f", the model's without waiting {own:.2f} ms"
        figures.append(FindingFigure(f"{way}_ms", seen, "ms", f"{way}s take {seen:,.2f} ms (median){comparison}"))
    return tuple(figures)


def _judge_slowness(volume: VolumeSignals, signals: Signals, t: Thresholds) -> list[Finding]:
    """Returns the finding on a volume that is slow below its limits, if it is: it loads from a
    snapshot, bursts hide in a tick, or EBS itself is in trouble."""
    if volume.stalled:
        return [_make_degraded_finding(volume, signals, None)]
    model = volume.model
    if model is None or any(
        (use or 0.0) >= t.degraded_use for name, use in volume.use.rates.items() if name != "volume-credits"
    ):
        return []
    if any((share or 0.0) >= t.seen_share for share in volume.use.over.values()):
        return []
    if not any(share is not None for share in volume.use.over.values()) and _is_at_instance_limit(volume, signals, t):
        return []
    slow = None
    for way, rate in (("read", volume.read_iops), ("write", volume.write_iops)):
        seen, p99 = getattr(volume, f"{way}_ms"), getattr(model, f"{way}_p99")
        if way == "read" and volume.facts.state == "initializing":
            # Blocks that are loaded already answer at once: a median says nothing of the rest.
            seen = max(
                (latency_ms for latency_ms in (seen, volume.read_mean_ms) if latency_ms is not None), default=None
            )
        if seen is not None and rate >= t.degraded_least_iops and seen >= t.degraded_factor * p99:
            slow = way if slow is None or rate > getattr(volume, f"{slow}_iops") else slow
    if slow is None:
        return []
    if volume.facts.state == "initializing":
        return [_make_first_touch_finding(volume, signals)]
    if not signals.exact and _may_hide_bursts(volume, t):
        return [_make_burst_finding(volume, signals, slow)]
    if _may_be_cold(volume, t):
        return [_suspect_first_touch(volume, signals)]
    return [_make_degraded_finding(volume, signals, slow)]


def _may_be_cold(volume: VolumeSignals, t: Thresholds) -> bool:
    """Returns whether first reads of blocks from a snapshot may be why reads are slow: writes are
    not, and nobody says whether blocks are still loaded."""
    model = volume.model
    if model is None or volume.facts.loading_known or volume.read_ms is None:
        return False
    if volume.read_iops < t.degraded_least_iops or volume.read_ms < t.degraded_factor * model.read_p99:
        return False
    writes_slow = volume.write_ms is not None and volume.write_ms >= t.degraded_factor * model.write_p99
    return not (writes_slow and volume.write_iops >= t.degraded_least_iops)


def _is_at_instance_limit(volume: VolumeSignals, signals: Signals, t: Thresholds) -> bool:
    """Returns whether all volumes of the instance together are near a limit of it, where nobody
    counts the time over that: slow answers are then no fault of this volume."""
    if (_compute_baseline_use(volume, signals, t) or 0.0) >= t.degraded_use:
        return True
    limits = volume.limits
    most = (None, None) if limits is None else (limits.instance_burst_iops, limits.instance_burst_bytes_s)
    return any(total >= t.degraded_use * each for total, each in zip(_sum_rates(signals), most, strict=True) if each)


def _sum_rates(signals: Signals) -> tuple[float, float]:
    """Returns I/Os and bytes a second of all volumes of the instance."""
    volumes = [other for other in signals.volumes if other.facts.role != "member"]
    return sum(other.charged_iops for other in volumes), sum(other.bytes_s for other in volumes)


def _may_hide_bursts(volume: VolumeSignals, t: Thresholds) -> bool:
    """Returns whether bursts at a limit may be why a volume is slow below it (see `slowness`)."""
    model = volume.model
    if model is None:
        return True
    own_s = (volume.read_iops * model.read_p50 + volume.write_iops * model.write_p50) / 1e3
    use = max((each for each in volume.use.rates.values() if each is not None), default=0.0)
    return not rules_out_bursts(volume.busy_share, max(own_s, use), t)


def _make_burst_finding(volume: VolumeSignals, signals: Signals, way: str) -> Finding:
    """Returns the finding that bursts may explain slow reads or writes (`way`) below every
    limit."""
    seen, p99 = getattr(volume, f"{way}_ms"), getattr(volume.model, f"{way}_p99")
    grain_s, busy = signals.grain_s, volume.use_while_busy
    point = describe_span(round(grain_s)) if grain_s >= 1 else f"{grain_s:g} s"
    rate = f"; while there were requests it gave at least {format_percent(min(1.0, busy))} of a limit" if busy else ""
    return read_verdicts()["bursts"].make_finding(
        volume.facts.name,
        figures=_make_latency_figures(volume),
        way=way,
        seen_ms=seen,
        p99_ms=p99,
        point=point,
        rate=rate,
    )


def _suspect_first_touch(volume: VolumeSignals, signals: Signals) -> Finding:
    """Returns a finding on slow reads with quick writes, where loading of blocks is unknown."""
    felt = _compute_felt_share(volume, signals)
    writes = ""
    if volume.write_ms is not None and volume.write_iops:
        writes = f", and writes {volume.write_ms:,.1f} ms: a limit slows both alike"
    return _make_slow_finding("maybe-first-touch", volume, felt, read_ms=volume.read_ms or 0.0, writes=writes)


def _make_slow_finding(name: str, volume: VolumeSignals, felt: float | None, **values: float | str | None) -> Finding:
    """Returns a finding on a volume that is slow below its limits: its latency is the evidence."""
    weight = 1.0 if felt is None else felt
    figures, basis = _make_latency_figures(volume), "felt" if felt else "seen"
    return read_verdicts()[name].make_finding(volume.facts.name, felt, weight, basis, figures, **values)


def _make_first_touch_finding(volume: VolumeSignals, signals: Signals) -> Finding:
    return _make_slow_finding(
        "first-touch", volume, _compute_felt_share(volume, signals), read_ms=volume.read_mean_ms or 0.0
    )


def _make_degraded_finding(volume: VolumeSignals, signals: Signals, way: str | None) -> Finding:
    """Returns the finding on EBS's own trouble. `way`: read or write, which is slow; None:
    stalled."""
    felt = _compute_felt_share(volume, signals)
    if way is None:
        return _make_slow_finding("stalled", volume, felt)
    seen, p99 = getattr(volume, f"{way}_ms"), getattr(volume.model, f"{way}_p99")
    return _make_slow_finding("degraded", volume, felt, way=way, seen_ms=seen, p99_ms=p99)


def _judge_members(volume: VolumeSignals, signals: Signals, t: Thresholds) -> list[Finding]:
    """Returns findings on one member of an array that is much slower than the others, or lost."""
    felt = _compute_felt_share(volume, signals)
    lost = [f"{name} is lost or rebuilt" for name in volume.facts.members_slow]
    slow, model = [], volume.model
    if len(volume.member_ms) > 1 and model is not None:
        quick = min(volume.member_ms.values())
        for name, ms in volume.member_ms.items():
            p99 = max(model.read_p99, model.write_p99)
            if ms >= MEMBER_FACTOR * quick and ms >= t.degraded_factor * p99 and volume.iops >= t.degraded_least_iops:
                slow.append(f"{name} takes {ms:,.1f} ms, the fastest member {quick:,.2f} ms")
    if not slow and not lost:
        return []
    figures = tuple(
        FindingFigure(f"ms of {name}", ms, "ms", f"an I/O of {name} takes {ms:,.2f} ms")
        for name, ms in volume.member_ms.items()
    )
    weight, basis = 1.0 if felt is None else max(felt, 0.01), "felt" if felt else "seen"
    members = "; ".join(slow + lost)
    return [read_verdicts()["member"].make_finding(volume.facts.name, felt, weight, basis, figures, members=members)]


def _forecast_credits(volume: VolumeSignals, t: Thresholds) -> list[Finding]:
    """Returns the finding that credits will be gone soon at the present rate, if they will."""
    balance, first = volume.credits.last, volume.credits.first
    limits = volume.limits
    if balance is None or first is None or limits is None or limits.credits is None:
        return []
    # From the rates, where they are known: the balance as printed may have whole percents only.
    demand, refill, unit = _compute_rate(volume, "volume-credits")
    if refill is None or demand <= refill:
        return []
    left_s, row = balance / 100 * limits.credits / (demand - refill), read_verdicts()["coming"]
    # Fall of the balance over a whole window, percent; extrapolated if the rows cover less.
    fall = (first - balance) / min(1.0, volume.seconds / t.window_s) if volume.seconds else None
    if not row.holds(t, balance_percent=balance, fall_percent=fall, empty_in_s=left_s):
        return []
    rate = FindingFigure("rate", demand, unit, f"rate: {_format_amount(demand, unit)} are asked")
    return [
        row.make_finding(
            volume.facts.name,
            weight=1.0 / (1.0 + left_s),
            figures=(rate,),
            empty_in_s=left_s,
            balance_percent=balance,
            demand=_format_amount(demand, unit),
            refilled=_format_amount(refill, unit),
        )
    ]


# --- settings that look like storage --------------------------------------------------------------


def judge_settings(signals: Signals, t: Thresholds) -> list[Finding]:
    """Returns findings on redo log, log buffer, free pages, the applier and the channels of a
    replica."""
    server = signals.server
    if server is None:
        return []
    findings = (
        _judge_log_buffer(server, t),
        _judge_redo(server, signals, t),
        _judge_free_pages(server, t),
        _judge_applier(server, signals, t),
    )
    return [finding for finding in findings if finding is not None] + judge_channels(server, signals.replica)


def _judge_log_buffer(server: ServerSignals, t: Thresholds) -> Finding | None:
    """Returns the finding on transactions that wait for space in the log buffer, with a size that
    is at least twice today's; None if too few wait."""
    waits, row = server.get("log_waits_per_s") or 0.0, read_verdicts()["log-buffer"]
    if not row.holds(t, log_waits_per_s=waits):
        return None
    size = _format_mib(server, "innodb_log_buffer_size")
    current = server.facts.variables.get("innodb_log_buffer_size", "")
    size_bytes = max(LOG_BUFFER, 2 * int(current)) if current.isdigit() else LOG_BUFFER
    each = waits / server.tps if server.tps else 0.0
    return row.make_finding(
        felt=server.felt,
        weight=min(1.0, each),
        log_waits_per_s=waits,
        each=each,
        size_mib=f"{size_bytes >> 20}",
        size_bytes=f"{size_bytes}",
        undo=f"innodb_log_buffer_size = {size}" if size else "the value before",
    )


def _format_mib(server: ServerSignals, name: str) -> str:
    value = server.facts.variables.get(name, "")
    return f"{int(value) >> 20}M" if value.isdigit() else value


def _judge_redo(server: ServerSignals, signals: Signals, t: Thresholds) -> Finding | None:
    """Returns the finding on a redo log that is nearly full, or so small that pages are flushed all
    the time to make room, which keeps the checkpoint's age low; None for another."""
    share, age = server.get("checkpoint_share"), server.get("checkpoint_age_bytes")
    flushed = server.get("pages_flushed_per_s") or 0.0
    ios, row = sum(volume.iops for volume in signals.volumes), read_verdicts()["redo"]
    writes = _estimate_page_writes(server, signals) / ios if ios else 1.0
    if not share or age is None or not row.holds(t, page_writes_share=writes):
        return None
    seconds = age / share / max(server.get("log_bytes_per_s") or 0.0, 1.0)
    if seconds > HOUR_S or (share < t.checkpoint_share and seconds > t.redo_holds_s):
        return None  # an hour of the load is what is advised
    name = (
        "innodb_redo_log_capacity" if "innodb_redo_log_capacity" in server.facts.variables else "innodb_log_file_size"
    )
    current = _format_mib(server, name)
    size = server.facts.variables.get(name, "")
    hour = (server.get("log_bytes_per_s") or 0.0) * HOUR_S
    size_bytes = min(max(2 * int(size) if size.isdigit() else 0, math.ceil(hour / GIB) * GIB, LEAST_REDO), MOST_REDO)
    line = (
        f"SET GLOBAL innodb_redo_log_capacity = {size_bytes};"
        if name == "innodb_redo_log_capacity"
        else f"innodb_log_file_size = {size_bytes >> 20}M    # my.cnf, and a restart (MariaDB 10.9 and later: SET GLOBAL)"
    )
    return row.make_finding(
        felt=server.felt,
        weight=0.6 + 0.4 * min(1.0, share),
        checkpoint_share=share,
        pages_flushed_per_s=flushed,
        holds_s=seconds,
        ios=ios,
        line=line,
        undo=f"{name} = {current}" if current else "",
    )


def _estimate_page_writes(server: ServerSignals, signals: Signals) -> float:
    """Returns I/Os a second that write pages: all writes but those of logs. A flushed page is
    written once more to the doublewrite buffer if there is such a buffer, in MySQL most often
    alone."""
    flushed = server.get("pages_flushed_per_s") or 0.0
    logs = (server.get("log_fsyncs_per_s") or 0.0) * count_syncs(server.facts)
    written = sum(volume.write_iops for volume in signals.volumes) - logs
    return min(count_page_writes(server.facts) * flushed, max(flushed, written))


def _judge_free_pages(server: ServerSignals, t: Thresholds) -> Finding | None:
    """Returns the finding on threads that wait for a free page of the buffer pool; None if too few
    do."""
    waits, row = server.get("free_waits_per_s") or 0.0, read_verdicts()["free-pages"]
    if not row.holds(t, free_waits_per_s=waits):
        return None
    io_capacity = server.facts.variables.get("innodb_io_capacity", "")
    return row.make_finding(felt=server.felt, weight=0.1, free_waits_per_s=waits, io_capacity=io_capacity)


def _judge_applier(server: ServerSignals, signals: Signals, t: Thresholds) -> Finding | None:
    """Returns the finding on a replica that is behind and applies with one thread; None if it is
    not behind, or applies with several."""
    lag, row = signals.replica.get("lag_s"), read_verdicts()["applier"]
    if lag is None or not row.holds(t, behind_s=_compute_lag_s(signals)):
        return None
    variables = server.facts.variables
    spellings = ("replica_parallel_workers", "slave_parallel_workers", "slave_parallel_threads")
    name = next((name for name in spellings if name in variables), "")
    workers = variables.get(name, "")
    if not workers.isdigit() or int(workers) > 1:
        return None
    stop = "STOP REPLICA SQL_THREAD" if name.startswith("replica") else "STOP SLAVE SQL_THREAD"
    return row.make_finding(
        felt=server.felt,
        weight=0.95,
        lag_s=lag,
        workers=float(workers),
        setting=name,
        stop=stop,
        start=stop.replace("STOP", "START"),
    )
