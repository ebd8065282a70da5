"""The comparison of fleet rules (benchmarks/fleet_rules.py): what is counted is what was changed."""

from __future__ import annotations

import pytest

from fleet_rules import compare, fails, violates
from seeded_fleet import seeded_fleet


def test_rules_are_scored_on_the_fortnight_they_did_not_see():
    fleet = seeded_fleet(12, seed=4, days=28)
    scores, bill = compare(fleet)
    result = {score.rule: score for score in scores}
    assert set(result) == {"today", "maxima", "average", "gp2 to gp3", "headrace"}
    assert result["today"].changed == 0 and result["headrace"].fail <= result["today"].fail
    # gp2 costs 0.10 and gp3 0.08 a GiB-month in us-east-1 (data/prices_volumes.csv).
    gp2 = [volume.size_gib for volume in fleet.inventory.volumes if volume.type == "gp2"]
    assert result["gp2 to gp3"].changed == len(gp2)
    assert result["gp2 to gp3"].saves_usd == pytest.approx(0.02 * sum(gp2))
    # The average is never above the largest rate, so its rule never pays more.
    saved = {name: entry.saves_usd - entry.costs_usd for name, entry in result.items()}
    assert saved["average"] >= saved["maxima"] > 0 and result["average"].violations >= result["maxima"].violations
    assert 0 < result["headrace"].saves_usd < bill


def test_what_stays_as_bad_as_it_was_fails_and_is_no_violation():
    assert fails((900.0, 1.0)) and fails((0.0, 5.1)) and not fails((0.0, 5.0))
    assert not violates((900.0, 1.0), (900.0, 1.0))


def test_worse_than_today_and_beyond_the_goal_is_a_violation():
    fine, slow, throttled = (0.0, 1.0), (0.0, 9.0), (900.0, 1.0)
    assert violates(fine, slow) and violates(fine, throttled)
    assert not any(
        (violates(slow, slow), violates(throttled, throttled), violates(slow, fine), violates(fine, (0.0, 4.9)))
    )
