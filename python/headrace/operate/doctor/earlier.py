"""Finds stretches that would have had a verdict before the window that is judged: CloudWatch is
asked for 14 days, but a verdict is of the newest two minutes. Each earlier stretch is judged alike,
and named with its clock times. Stretches without a sign of trouble are passed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl

from headrace.base import caps
from headrace.base.caps import OVER
from headrace.base.units import DAY_S, MINUTE_S
from headrace.observe.evidence.model import Evidence
from headrace.operate.doctor.judging import judge_signals
from headrace.operate.doctor.model import Finding
from headrace.operate.doctor.signals import compute_signals, compute_stretch_s
from headrace.operate.doctor.thresholds import Thresholds

# Verdicts that are reported of the time before; "will bind" is said of now alone.
REPORTED = ("binds", "touched", "degraded")
# Balances at or below which credits may bind, percent: a minute's mean of spent credits is not
# always 0. A guess on the safe side: such a stretch is judged.
LOW_BALANCE = 10.0
BALANCES = ("balance_percent", "instance_io_balance_percent", "instance_byte_balance_percent")
# Episodes that are listed, the latest first: nobody reads more. Ours.
MOST_EPISODES = 20
# Stretches without the finding that do not end its episode: a check of CloudWatch is 0 for a minute
# in which requests waited for less than about half of it (docs/guide/doctor.md).
BRIDGED = 1


def find_earlier_episodes(evidence: Evidence, thresholds: Thresholds) -> tuple[Finding, ...]:
    """Returns episodes before the newest window, the latest first: headlines of storage that were
    the same in stretches that follow each other. `from_unix` and `to_unix` are their clock
    times."""
    episodes: list[tuple[Finding, float, float, int]] = []
    for number, (begins, ends, finding) in enumerate(_judge_stretches(evidence, thresholds)):
        if finding is None:
            continue
        same = [at for at, (episode, *_) in enumerate(episodes) if _get_key(episode) == _get_key(finding)]
        if same and number - episodes[same[-1]][3] <= 1 + BRIDGED:
            before, _, last, _ = episodes[same[-1]]
            # The worst stretch speaks for all of them.
            worst = finding if finding.weight > before.weight else before
            episodes[same[-1]] = (worst, begins, last, number)
        else:
            episodes.append((finding, begins, ends, number))
    return tuple(_as_episode(finding, begins, ends) for finding, begins, ends, _ in episodes[:MOST_EPISODES])


def _judge_stretches(evidence: Evidence, thresholds: Thresholds) -> Iterator[tuple[float, float, Finding | None]]:
    """Yields begin and end (Unix seconds) and the headline of each stretch, from the newest window
    back; None for a stretch without a verdict to report."""
    begin, end = evidence.begins_unix, evidence.ends_unix
    if begin is None or end is None:
        return
    stretch_s = compute_stretch_s(evidence, thresholds.window_s)
    sign_times = _find_signs(evidence, thresholds, end - stretch_s)
    day, from_unix = evidence, math.inf
    back = 0
    while end - (back + 1) * stretch_s > begin:
        back += 1
        first, last = end - (back + 1) * stretch_s, end - back * stretch_s
        if last < from_unix:  # a day of it at a time: all of it would be searched for each stretch
            from_unix = first - DAY_S
            day = evidence.select_span(from_unix, last)
        headline = None
        # A microsecond less, as the newest window has it: times are sums of fractions.
        at, behind = np.searchsorted(sign_times, (first - 1e-6, last - 1e-6))
        if behind > at:
            part = day.select_span(first - 1e-6, last - 1e-6)
            if part.span_s >= stretch_s / 2:  # else too little is known of it
                head = judge_signals(compute_signals(part, thresholds, whole=True), thresholds)[0]
                headline = head if head.verdict in REPORTED and head.volume is not None else None
        yield first, last, headline


def _find_signs(evidence: Evidence, thresholds: Thresholds, newest_unix: float) -> np.ndarray:
    """Returns the Unix times, s, of rows with a sign that each verdict on storage needs, in order:
    time over a limit, a low balance, or a latency of three times the model's median (threshold
    inferred_latency_factor)."""
    signals = compute_signals(evidence.select_span(newest_unix - 1e-6, math.inf), thresholds, whole=True)
    models = {volume.facts.name: volume.model for volume in signals.volumes}
    times = [np.empty(0)]
    for volume in evidence.volumes:
        names, model = volume.rows.columns, models.get(volume.facts.name)
        if model is None or not {"read_ms", "write_ms"} & set(names):
            times.append(volume.rows["t_unix"].to_numpy())
            continue
        factor = thresholds.inferred_latency_factor
        slow = {"read_ms": factor * model.read_p50, "write_ms": factor * model.write_p50}
        signs = [pl.col(name) >= most for name, most in slow.items() if name in names]
        signs += [pl.col(name) > 0 for name in (*OVER.values(), "stalled") if name in names]
        signs += [pl.col(name) <= LOW_BALANCE for name in BALANCES if name in names]
        rows = volume.rows.filter(pl.any_horizontal([sign.fill_null(False) for sign in signs]))
        times.append(rows["t_unix"].to_numpy())
    return np.sort(np.concatenate(times))


def _get_key(finding: Finding) -> tuple[str, str, str | None]:
    return finding.verdict, finding.subject, finding.volume


def _as_episode(finding: Finding, begins: float, ends: float) -> Finding:
    subject = caps.label_cap(finding.subject)
    words = f"{_format_span(begins, ends)} UTC: {finding.volume}: {finding.verdict}, {subject}"
    return replace(finding, words=words, from_unix=begins, to_unix=ends, remedies=(), gain=None)


def _format_span(begins: float, ends: float) -> str:
    """Returns a span of Unix seconds as clock times in UTC, without seconds from two minutes on.
    The end has a date if it lies on another day or a day later."""
    first, last = (datetime.fromtimestamp(moment, UTC) for moment in (begins, ends))
    # In two minutes and more the seconds say nothing.
    time = "%H:%M" if ends - begins >= 2 * MINUTE_S else "%H:%M:%S"
    day = "%Y-%m-%d " if ends - begins >= DAY_S or first.date() != last.date() else ""
    return f"{first:%Y-%m-%d} {first.strftime(time)} to {last.strftime(day + time)}"
