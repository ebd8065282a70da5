"""What was wrong before the window that is judged: CloudWatch is asked for an hour, and a verdict
is of the newest two minutes. Each stretch before is judged alike, and named with its clock times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from headrace.base import caps
from headrace.base.units import DAY_S, MINUTE_S
from headrace.operate.doctor.judging import judged
from headrace.operate.doctor.model import Finding
from headrace.operate.doctor.signals import signals_of, wide_enough
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.evidence.model import Evidence

# What is told of the time before; what will bind is told of now alone.
TOLD = ("binds", "touched", "degraded")
# The newest stretches that are looked at: a day of them, of two minutes each. A guess.
MOST_STRETCHES = 720
# A stretch without it between two with it does not end an episode: a check of CloudWatch says no
# for a minute in which less than about half was over (docs/guide/doctor.md).
BRIDGED = 1


def earlier(evidence: Evidence, thresholds: Thresholds) -> tuple[Finding, ...]:
    """Episodes before the newest window, the latest first: headlines of storage that were the same
    in stretches that follow each other. `from_unix` and `to_unix` are their clock times."""
    episodes: list[tuple[Finding, float, float, int]] = []
    for number, (begins, ends, found) in enumerate(_stretches(evidence, thresholds)):
        if found is None:
            continue
        same = [at for at, (one, *_) in enumerate(episodes) if _key(one) == _key(found)]
        if same and number - episodes[same[-1]][3] <= 1 + BRIDGED:
            one, _, last, _ = episodes[same[-1]]
            # The worst stretch speaks for all of them.
            worst = found if found.weight > one.weight else one
            episodes[same[-1]] = (worst, begins, last, number)
        else:
            episodes.append((found, begins, ends, number))
    return tuple(_told(one, begins, ends) for one, begins, ends, _ in episodes)


def _stretches(evidence: Evidence, thresholds: Thresholds) -> Iterator[tuple[float, float, Finding | None]]:
    """Begin, end and headline of each stretch, from the newest window back."""
    begin, end = evidence.begins_unix, evidence.ends_unix
    if begin is None or end is None:
        return
    wide = wide_enough(evidence, thresholds.window_s)
    for back in range(1, MOST_STRETCHES + 1):
        first, last = end - (back + 1) * wide, end - back * wide
        if last <= begin:
            return
        told = None
        # A microsecond less, as the newest window has it: times are sums of fractions.
        part = evidence.between(first - 1e-6, last - 1e-6)
        if part.span_s >= wide / 2:  # else too little is known of it
            head = judged(signals_of(part, thresholds, whole=True), thresholds)[0]
            told = head if head.verdict in TOLD and head.volume is not None else None
        yield first, last, told


def _key(one: Finding) -> tuple[str, str, str | None]:
    return one.verdict, one.subject, one.volume


def _told(one: Finding, begins: float, ends: float) -> Finding:
    subject = caps.short(one.subject)
    words = f"{_clock(begins, ends)} UTC: {one.volume}: {one.verdict}, {subject}"
    return replace(one, words=words, from_unix=begins, to_unix=ends, remedies=(), gain=None)


def _clock(begins: float, ends: float) -> str:
    first, last = (datetime.fromtimestamp(one, UTC) for one in (begins, ends))
    # Of two minutes and more the seconds say nothing.
    time = "%H:%M" if ends - begins >= 2 * MINUTE_S else "%H:%M:%S"
    day = "%Y-%m-%d " if ends - begins >= DAY_S or first.date() != last.date() else ""
    return f"{first:%Y-%m-%d} {first.strftime(time)} to {last.strftime(day + time)}"
