"""benchmarks/unseen_runs.py calls further runs worse by comparison with the nearest of them alone."""

from __future__ import annotations

import random

from unseen_runs import REPEATS, Score, compare_first_half, find_worsened, lines, summary


def score_of(error: float, *sources: str, run: str = "r", spread: float = 0.1) -> Score:
    return Score("family", run, sources, error, spread=spread, first_error=-2.0 * error)


def test_the_nearest_alone_is_what_further_runs_are_held_against():
    near, far = score_of(3.0, "a", spread=0.05), score_of(1.0, "b", spread=0.3)
    for error, worse in ((4.9, False), (5.2, True), (-4.7, False), (-5.2, True), (1.0, False)):
        together = score_of(error, "a", "b")
        assert find_worsened([near, far, together]) == ([together] if worse else [])
    # Scores of another run, or without a calibration on the nearest, count nothing as worse.
    assert not find_worsened([score_of(3.0, "a", run="q"), score_of(20.0, "a", "b")])
    refused = Score("family", "r", ("a",), None, refusal="no")
    assert find_worsened([refused, far, score_of(9.0, "a", "b")])


def test_the_count_stands_in_the_summary():
    chance = random.Random(3)
    for _ in range(50):
        scores, worse = [], 0
        for run in "pqrs":
            alone = [score_of(chance.uniform(-20, 20), name, run=run, spread=chance.random()) for name in "ab"]
            together = score_of(chance.uniform(-20, 20), "a", "b", run=run)
            nearest = min(alone, key=lambda each: each.spread)
            low, high = (abs(1.0 + each.error / 100.0) for each in (nearest, together))
            worse += max(high, 1 / high) > max(low, 1 / low) * 2.718281828459045**REPEATS
            scores += [*alone, together]
        rows = {row["way"]: row for row in summary(scores)}
        assert rows["from the others"]["worsened"] == worse and rows["from one"]["worsened"] is None
        # Sizes of both halves' errors are twice apart, to the last digit.
        assert all(row["first_p90"] == 2.0 * row["p90"] for row in rows.values())
        assert f"first half: median {2.0 * rows['from one']['median']:.1f} %" in lines([rows["from one"]])[0]
        single = [score.error or 0.0 for score in scores if len(score.calibrated_on) == 1]
        assert abs(rows["from one"]["bias"] * len(single) - sum(single)) < 1e-9  # roundings of 8 additions
        assert f"further runs made worse {worse}" in lines([rows["from the others"]])[0]


def test_the_first_half_is_the_first_two_quarters():
    """By hand: (30 + 90) / (40 + 60) is 20 % too much; the second half's quarters count nothing."""
    figures = [
        {"what": f"mean tps, quarter {index + 1}", "measured": measured, "predicted": predicted}
        for index, (measured, predicted) in enumerate([(40.0, 30.0), (60.0, 90.0), (1.0, 7.0), (1.0, 7.0)])
    ]
    assert abs(compare_first_half(figures) - 20.0) < 1e-9  # roundings of five operations
