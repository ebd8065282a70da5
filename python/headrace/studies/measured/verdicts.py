"""Directions held against the published ones: who wins, is the order the same, is a ratio within
what device and data allow.

What is called alike. Two means differ when their ratio leaves 1 by more than `doubt`: two standard
errors of each (95 %), their squares added, and `REPEAT` for what one repetition of a run on a lab
differs from the next beyond the seconds inside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from headrace.base.units import in_percent
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SimulatedCell
from headrace.studies.base import Source, Verdict, error_percent

# Guess: two standard deviations of what repetitions of a cell from the same copy differ by.
# `encrypted-vs-not` shows those of its own turns.
REPEAT = 0.03
DEVIATIONS = 2.0  # 95 % of a normal variable
UNCALIBRATED = (
    "the standard database with this machine's processor time; `headrace prove` calibrates first and promises a figure"
)


@dataclass(frozen=True)
class Pair:
    """One comparison: `better` over `worse` as published (ratio; None: only a direction), simulated
    and measured. `doubt`: relative, of the measured ratio."""

    words: str
    published: float | None
    simulated: float
    measured: float
    doubt: float

    @property
    def clear(self) -> bool:
        """The one said to be better is, by more than doubt."""
        return self.measured > 1.0 + self.doubt

    @property
    def against(self) -> bool:
        """It is worse, by more than doubt."""
        return self.measured < 1.0 - self.doubt


def doubt(*runs: MeasuredCell) -> float:
    """Relative doubt of a ratio of the means of runs."""
    return math.hypot(REPEAT, *(DEVIATIONS * run.relative for run in runs))


def pair(
    words: str,
    found: Mapping[tuple, MeasuredCell],
    simulated: Mapping[tuple, SimulatedCell],
    better: tuple,
    worse: tuple,
    published: float | None = None,
) -> Pair:
    """The cell with the key `better` over the one with the key `worse`."""
    one, other = found[better], found[worse]
    measured = one.tps / other.tps if other.tps else math.inf
    return Pair(words, published, simulated[better].tps / simulated[worse].tps, measured, doubt(one, other))


def wins(what: str, published: str, pairs: Sequence[Pair], source: Source, note: str = "") -> Verdict:
    """Who wins: held when none of the pairs goes the other way and one at least is clear."""
    clear, against = [one for one in pairs if one.clear], [one for one in pairs if one.against]
    alike = len(pairs) - len(clear) - len(against)
    said = (
        f"{len(clear)} of {len(pairs)}"
        + (f", {alike} alike" if alike else "")
        + (f", {len(against)} the other way: " + ", ".join(one.words for one in against) if against else "")
    )
    ours = f"{sum(one.simulated > 1.0 for one in pairs)} of {len(pairs)}" if pairs else None
    most = max((one.doubt for one in pairs), default=0.0)
    told = f"alike: within {in_percent(most, 1)} at most (two standard errors of each run, {in_percent(REPEAT)} between repetitions)"
    return Verdict(
        what,
        published,
        said,
        "",
        None,
        bool(clear) and not against,
        None,
        source,
        f"{note}; {told}" if note else told,
        ours,
    )


def ratio(what: str, found: Pair, low: float, high: float, source: Source, why: str) -> Verdict:
    """A ratio within what device and data allow (`low` to `high`, before doubt; `why`: where the
    bounds come from)."""
    held = low * (1.0 - found.doubt) <= found.measured <= high * (1.0 + found.doubt)
    note = f"allowed {low:.2f} to {high:.2f}, doubt {in_percent(found.doubt, 1)}: {why}"
    if found.published is None:
        return Verdict(what, "", found.measured, "times", None, held, None, source, note, found.simulated)
    error = error_percent(found.measured, found.published)
    return Verdict(what, found.published, found.measured, "times", error, held, None, source, note, found.simulated)


def order(
    what: str,
    published: Mapping[tuple, float],
    simulated: Mapping[tuple, float] | None,
    measured: Mapping[tuple, MeasuredCell],
    source: Source,
    least: float,
    why: str,
) -> Verdict:
    """Is the order the same: the share of pairs of cells that stand to each other as published, of
    those that doubt lets one tell. Held from `least` on."""
    same, told = concordant(
        published, {key: run.tps for key, run in measured.items()}, lambda a, b: doubt(measured[a], measured[b])
    )
    ours = None
    if simulated is not None:
        agree, of = concordant(published, simulated, lambda a, b: 0.0)
        ours = f"{agree} of {of} pairs ({in_percent(agree / of)})" if of else "no pairs"
    said = f"{same} of {told} pairs ({in_percent(same / told)})" if told else "no pairs"
    return Verdict(
        what,
        "the same order",
        said,
        "",
        None,
        told > 0 and same / told >= least,
        None,
        source,
        f"at least {in_percent(least)} asked: {why}",
        ours,
    )


def concordant(published: Mapping[Any, float], ours: Mapping[Any, float], apart) -> tuple[int, int]:
    """(pairs of keys in the published order, pairs that can be told apart in both). `apart(a, b)`:
    by what share two of ours must differ."""
    same = told = 0
    for a, b in combinations([key for key in published if key in ours], 2):
        if published[a] == published[b] or not min(ours[a], ours[b]) > 0:
            continue
        ratio_ours = ours[a] / ours[b]
        if abs(math.log(ratio_ours)) <= math.log1p(apart(a, b)):
            continue
        told += 1
        same += (ratio_ours > 1.0) == (published[a] > published[b])
    return same, told


def against_model(
    what: str,
    simulated: Mapping[tuple, SimulatedCell],
    measured: Mapping[tuple, MeasuredCell],
    source: Source,
    why: str = UNCALIBRATED,
) -> Verdict:
    """How far the simulation was from what was then measured; nothing is promised of a database
    that was not calibrated."""
    off = sorted(
        abs(error_percent(one.tps, measured[key].tps))
        for key, one in simulated.items()
        if key in measured and measured[key].tps
    )
    said = f"median {off[len(off) // 2]:.0f} %, worst {off[-1]:.0f} %" if off else "nothing measured"
    return Verdict(what, "", "measured", "", None, None, None, source, f"nothing is promised: {why}", said)
