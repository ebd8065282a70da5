"""Compares directions with the published ones: who wins, whether the order is the same, whether a
ratio is within what device and data allow.

Two means differ when their ratio leaves 1 by more than `doubt`: two standard errors of each (95 %),
their squares added, and `REPEAT` for what one repetition of a run on a lab differs from the next
beyond the seconds inside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

from headrace.base.units import format_percent
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SimulatedCell
from headrace.studies.base import Source, Verdict, compute_error_percent

if TYPE_CHECKING:
    from collections.abc import Callable

# Guess: two standard deviations of what repetitions of a cell from the same copy differ by.
# `encrypted-vs-not` shows those of its own turns.
REPEAT = 0.03
DEVIATIONS = 2.0  # 95 % of a normal variable
UNCALIBRATED = (
    "the standard database with this machine's processor time; `headrace prove` calibrates first and promises a figure"
)


@dataclass(frozen=True)
class Pair:
    """A comparison of `better` to `worse`: the ratio as published (None: only a direction),
    simulated and measured. `doubt`: relative, of the measured ratio."""

    words: str
    published: float | None
    simulated: float
    measured: float
    doubt: float

    @property
    def clear(self) -> bool:
        """True when the published winner wins by more than doubt."""
        return self.measured > 1.0 + self.doubt

    @property
    def against(self) -> bool:
        """True when the published winner loses by more than doubt."""
        return self.measured < 1.0 - self.doubt


def compute_doubt(*runs: MeasuredCell) -> float:
    """Returns the relative doubt of a ratio of the means of runs."""
    return math.hypot(REPEAT, *(DEVIATIONS * run.relative for run in runs))


def compare_cells(
    words: str,
    cells: Mapping[tuple, MeasuredCell],
    simulated: Mapping[tuple, SimulatedCell],
    better: tuple,
    worse: tuple,
    published: float | None = None,
) -> Pair:
    """Returns the comparison of the cell with the key `better` to the cell with the key `worse`."""
    better_cell, worse_cell = cells[better], cells[worse]
    measured = better_cell.tps / worse_cell.tps if worse_cell.tps else math.inf
    return Pair(
        words, published, simulated[better].tps / simulated[worse].tps, measured, compute_doubt(better_cell, worse_cell)
    )


def judge_winner(what: str, published: str, pairs: Sequence[Pair], source: Source, note: str = "") -> Verdict:
    """Judges who wins: the verdict holds when no pair goes the other way and at least one is
    clear."""
    clear, against = (
        [comparison for comparison in pairs if comparison.clear],
        [comparison for comparison in pairs if comparison.against],
    )
    alike = len(pairs) - len(clear) - len(against)
    answer = (
        f"{len(clear)} of {len(pairs)}"
        + (f", {alike} alike" if alike else "")
        + (
            f", {len(against)} the other way: " + ", ".join(comparison.words for comparison in against)
            if against
            else ""
        )
    )
    agreeing = f"{sum(comparison.simulated > 1.0 for comparison in pairs)} of {len(pairs)}" if pairs else None
    most = max((comparison.doubt for comparison in pairs), default=0.0)
    doubt_note = f"alike: within {format_percent(most, 1)} at most (two standard errors of each run, {format_percent(REPEAT)} between repetitions)"
    return Verdict(
        what,
        published,
        answer,
        "",
        None,
        bool(clear) and not against,
        None,
        source,
        f"{note}; {doubt_note}" if note else doubt_note,
        agreeing,
    )


def judge_ratio(what: str, pair: Pair, low: float, high: float, source: Source, why: str) -> Verdict:
    """Judges a ratio within what device and data allow (`low` to `high`, before doubt; `why`: the
    origin of the bounds)."""
    within = low * (1.0 - pair.doubt) <= pair.measured <= high * (1.0 + pair.doubt)
    note = f"allowed {low:.2f} to {high:.2f}, doubt {format_percent(pair.doubt, 1)}: {why}"
    if pair.published is None:
        return Verdict(what, "", pair.measured, "times", None, within, None, source, note, pair.simulated)
    error = compute_error_percent(pair.measured, pair.published)
    return Verdict(what, pair.published, pair.measured, "times", error, within, None, source, note, pair.simulated)


def judge_order(
    what: str,
    published: Mapping[tuple, float],
    simulated: Mapping[tuple, float] | None,
    measured: Mapping[tuple, MeasuredCell],
    source: Source,
    least: float,
    why: str,
) -> Verdict:
    """Judges whether the order is the same: the share of the pairs of cells, among those that doubt
    lets one distinguish, that are ordered as published. It holds from `least` on."""
    same, comparable = count_concordant(
        published, {key: run.tps for key, run in measured.items()}, lambda a, b: compute_doubt(measured[a], measured[b])
    )
    agreeing = None
    if simulated is not None:
        agree, of = count_concordant(published, simulated, lambda a, b: 0.0)
        agreeing = f"{agree} of {of} pairs ({format_percent(agree / of)})" if of else "no pairs"
    answer = f"{same} of {comparable} pairs ({format_percent(same / comparable)})" if comparable else "no pairs"
    return Verdict(
        what,
        "the same order",
        answer,
        "",
        None,
        comparable > 0 and same / comparable >= least,
        None,
        source,
        f"at least {format_percent(least)} asked: {why}",
        agreeing,
    )


Key = TypeVar("Key")


def count_concordant(
    published: Mapping[Key, float], tps_by_key: Mapping[Key, float], apart: Callable[[Key, Key], float]
) -> tuple[int, int]:
    """Counts the pairs of keys in the published order, and the pairs that are distinguishable in
    both. `apart(a, b)`: the share by which two of ours must differ."""
    same = comparable = 0
    for a, b in combinations([key for key in published if key in tps_by_key], 2):
        if published[a] == published[b] or not min(tps_by_key[a], tps_by_key[b]) > 0:
            continue
        ratio_ours = tps_by_key[a] / tps_by_key[b]
        if abs(math.log(ratio_ours)) <= math.log1p(apart(a, b)):
            continue
        comparable += 1
        same += (ratio_ours > 1.0) == (published[a] > published[b])
    return same, comparable


def compare_with_model(
    simulated: Mapping[tuple, SimulatedCell],
    measured: Mapping[tuple, MeasuredCell],
    source: Source,
    why: str = UNCALIBRATED,
    what: str = "the simulation against what was measured",
) -> Verdict:
    """Compares the simulation with the measurement; nothing is promised for a database that was not
    calibrated."""
    off = sorted(
        abs(compute_error_percent(cell.tps, measured[key].tps))
        for key, cell in simulated.items()
        if key in measured and measured[key].tps
    )
    answer = f"median {off[len(off) // 2]:.0f} %, worst {off[-1]:.0f} %" if off else "nothing measured"
    return Verdict(what, "", "measured", "", None, None, None, source, f"nothing is promised: {why}", answer)
