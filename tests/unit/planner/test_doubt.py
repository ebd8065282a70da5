"""Confidence of a plan for a database: probability against a direct Monte Carlo, regret against a
double loop, and the use of both."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from planner_cases import only, shop

from headrace.base import core
from headrace.catalog.price_list import PriceList
from headrace.planner import parse_goals, plan
from headrace.planner.candidates import list_hosts
from headrace.planner.database import (
    QUANTILES,
    Conditions,
    DatabaseJudge,
    Doubt,
    Scenarios,
    compute_normal_middles,
    compute_regrets,
)
from headrace.workload.transactions import Covered

DAY = "2024-06-01"
HOSTS = ["r6i.large", "r6i.xlarge", "r6i.2xlarge"]
STANDARD_ERRORS = 4.0  # one false alarm in 16,000


def calibrated(covered: tuple[float, float] | None = None):
    """The shop; `covered`: as if calibrated on runs with caches of so many GiB."""
    return (
        shop()
        if covered is None
        else dataclasses.replace(shop(), covered=Covered(covered, (16, 16), (3_000, 3_000), 1e7))
    )


def worlds_of(workload, goals, draws: int, seed: int = 1, arrivals_tps: float | None = None) -> Scenarios:
    about = Conditions(None if arrivals_tps else 16, arrivals_tps, "warm", 24.0, None)
    prices = PriceList("us-east-1", DAY)
    hosts, _ = list_hosts(HOSTS, prices, 0.25)
    parsed = parse_goals(goals, "database", defaults=False, arrivals=arrivals_tps is not None)
    return DatabaseJudge(
        workload, parsed, prices, hosts, about, least_tps=0.0, confidence=0.8, draws=draws, seed=seed
    ).scenarios


def drawn(
    workload, worlds: Scenarios, candidate, count: int, factors: np.ndarray | None = None, seed: int = 99
) -> list[dict]:
    """Figures of a candidate in draws from the calibration: fresh ones, or with seed 1 the plan's
    own."""
    cores = [core.TransactionCandidates(database) for database in workload.draw_databases(count, seed)]
    by = [1.0] * count if factors is None else (1.0 / factors).tolist()
    return [
        {name: column[0] for name, column in columns.items()} for columns in worlds.judge.run_in(cores, by, [candidate])
    ]


def shares(worlds: Scenarios, figures: list[dict], factors: np.ndarray) -> np.ndarray:
    """Returns for each database the share of factors with which every goal holds."""
    met = np.ones_like(factors, dtype=bool)
    for goal in worlds.judge.goals:
        value = np.array([row[goal.metric] for row in figures])[:, None]
        met &= value * factors >= goal.limit if goal.sign == ">=" else value / factors <= goal.limit
    return met.mean(axis=1)


def width_of(judge, candidate) -> float:
    """The standard deviation of the factor (test_widths.py holds it)."""
    judge.scenarios.widths.run([candidate])
    return judge.scenarios.widths.compute_width(candidate)


@pytest.mark.parametrize("covered", [None, (8.0, 8.0), (2.0, 2.5)])
@pytest.mark.parametrize("goals", [["tps>=350"], ["p95_ms<=130"], ["tps>=300", "p95_ms<=120", "tps_p5>=290"]])
def test_probability_is_that_of_a_direct_monte_carlo(goals, covered):
    """A database of the calibration, a lognormal factor on all its rates, and whether every goal
    holds."""
    workload = calibrated(covered=covered)
    worlds = worlds_of(workload, goals, 64)
    count, chance = 96, np.random.default_rng(7)
    for candidate in [("gp3:100", None, 1), ("gp2:600", None, 2), ("gp3:9:4000", "gp3:81", 0)]:
        doubt = worlds.compute_doubts([candidate])[0]
        width = width_of(worlds.judge, candidate)
        factors = np.exp(width * chance.standard_normal((count, 400)))
        figures = drawn(workload, worlds, candidate, count)
        by_database = shares(worlds, figures, factors)
        # In the plan's own databases only the factors are drawn: 64 x 2,000 of them.
        own = shares(
            worlds, drawn(workload, worlds, candidate, 64, seed=1), np.exp(width * chance.standard_normal((64, 2_000)))
        ).mean()
        assert abs(doubt.probability - own) <= STANDARD_ERRORS * math.sqrt(0.25 / 128_000), (
            candidate,
            doubt.probability,
            own,
        )
        # Both average over databases drawn by themselves; the factors add their share to the Monte
        # Carlo's.
        spread = by_database.std()
        tolerance = STANDARD_ERRORS * math.sqrt(spread**2 * (1 / 64 + 1 / count) + 0.25 / factors.size)
        assert abs(doubt.probability - by_database.mean()) <= tolerance, (
            candidate,
            doubt.probability,
            by_database.mean(),
            tolerance,
        )
        assert (
            doubt.probability <= min(doubt.compute_goal_probability(str(goal)) for goal in worlds.judge.goals) + 1e-12
        )
        # The 80 % interval's width: databases and factor together. The standard error of a standard
        # deviation is it over sqrt(2 n); twice for tails heavier than normal.
        logs = np.log(np.array([row["tps"] for row in figures])[:, None] * factors)
        assert doubt.spread == pytest.approx(logs.std(), rel=2 * STANDARD_ERRORS / math.sqrt(2 * 64))


def test_an_open_load_s_probability_is_that_of_a_direct_monte_carlo():
    """A database faster by a factor serves what arrives as it would serve less."""
    workload, count = calibrated(covered=(4.0, 4.0)), 200
    worlds = worlds_of(workload, ["backlog_s<=1"], count, arrivals_tps=330)
    for candidate in [("gp3:100", None, 0), ("gp2:600", None, 1)]:
        width = width_of(worlds.judge, candidate)
        factors = np.exp(width * np.random.default_rng(3).standard_normal(count))
        figures = drawn(workload, worlds, candidate, count, factors)
        met = np.mean([row["backlog_s"] / factor <= 1.0 for row, factor in zip(figures, factors, strict=True)])
        probability = worlds.compute_doubts([candidate])[0].probability
        tolerance = STANDARD_ERRORS * math.sqrt(2 * max(met * (1 - met), 0.02) / count)
        assert abs(probability - met) <= tolerance, (candidate, probability, met, tolerance)


def test_doubt_grows_with_the_distance_from_the_runs():
    goals, candidate = ["tps>=1"], ("gp3:100", None, 2)
    near, far = (
        worlds_of(calibrated(covered=covered), goals, 16).compute_doubts([candidate])[0].spread
        for covered in ((16.0, 16.0), (1.0, 1.0))
    )
    assert far > near
    # A candidate that never runs has no chance.
    worlds = worlds_of(calibrated(), goals, 4)
    assert worlds.compute_doubts([("gp3:100:100000", None, 0)])[0].probability == 0.0


def test_without_draws_only_the_factor_is_in_doubt():
    workload = calibrated()
    worlds = worlds_of(workload, ["tps>=380"], 0)
    candidate = ("gp3:100", None, 0)
    tps = worlds.judge.run([candidate])["tps"][0]
    width = width_of(worlds.judge, candidate)
    erfc = 0.5 * math.erfc(math.log(380 / tps) / width / math.sqrt(2))
    assert worlds.compute_doubts([candidate])[0].probability == pytest.approx(erfc, abs=1e-12)


def naive_regret(costs, needs):
    """State by state, choice by choice. needs: choices x databases, in standard deviations of the
    factor."""
    result, possible, states = [[] for _ in costs], 0, 0
    for world in range(needs.shape[1]):
        for factor in compute_normal_middles(QUANTILES):
            states += 1
            fine = [usd for usd, need in zip(costs, needs[:, world], strict=True) if need <= factor]
            if not fine:
                continue
            possible += 1
            for i, usd in enumerate(costs):
                spent = usd
                # Bought for nothing, then the next dearer one that does, else the best there is.
                if needs[i, world] > factor:
                    spent += min((other for other in fine if other > usd), default=min(fine))
                result[i].append(spent - min(fine))
    return result, 1 - possible / states


@pytest.mark.parametrize("seed", range(6))
def test_regret_is_that_of_a_double_loop(seed):
    dice = np.random.default_rng(seed)
    count, databases = int(dice.integers(1, 12)), int(dice.integers(1, 9))
    costs = dice.permutation(np.linspace(50.0, 900.0, count))
    needs = dice.normal(0.0, 1.2, (count, databases)) - (costs[:, None] - 300.0) / 400.0
    needs[dice.random(needs.shape) < 0.1] = np.inf
    doubts = [Doubt(row, {}, np.ones(databases), 0.02) for row in needs]
    expected, undecided = naive_regret(costs, needs)
    result, share = compute_regrets(costs, doubts)
    assert share == pytest.approx(undecided, abs=1e-12)
    for entry, rows in zip(result, expected, strict=True):
        if rows:
            assert entry.expected == pytest.approx(np.mean(rows), abs=1e-9) and entry.worst == pytest.approx(
                max(rows), abs=1e-9
            ), f"seed {seed}"
        else:
            assert math.isnan(entry.expected)


def test_regret_worked_out_by_hand():
    # One database, factors at -1.28, -0.52, 0, 0.52, 1.28 deviations: 10 % parts' middles at 0.1,
    # 0.3, 0.5, 0.7, 0.9.
    cheap, dear = Doubt(np.array([0.2]), {}, np.ones(1), 0.1), Doubt(np.array([-1.0]), {}, np.ones(1), 0.1)
    result, undecided = compute_regrets(np.array([100.0, 150.0]), [cheap, dear])
    # At -1.28 neither; at -0.52 and 0 the cheap one is bought for nothing; at 0.52 and 1.28 the
    # dear one costs 50 too much.
    assert undecided == pytest.approx(0.2)
    assert (result[0].expected, result[0].worst) == pytest.approx((2 / 4 * 100.0, 100.0))
    assert (result[1].expected, result[1].worst) == pytest.approx((2 / 4 * 50.0, 50.0))


def planned(**settings):
    usual = {
        "goals": ["tps>=300", "headroom_percent>=0"],
        "as_of": DAY,
        "instances": HOSTS,
        "exclude": only("gp3"),
        "draws": 16,
        "free_percent": 0,
    }
    return plan(calibrated(), **usual | settings)


def test_the_least_regretted_is_least_regretted():
    answer = planned()
    least = answer.choices.least_regret
    assert all(least.regret_expected_usd <= choice.regret_expected_usd + 1e-9 for choice in answer.choices.winners)
    for choice in [least, *answer.choices.winners]:
        assert 0.0 <= choice.regret_expected_usd <= choice.regret_worst_usd
        assert 0.0 <= choice.probability <= min(choice.goal_probabilities.values()) + 1e-12
    assert 0.0 <= answer.doubts.undecided < 1.0


def test_confidence_buys_what_it_asks():
    for confidence in (0.5, 0.7, 0.9):
        answer = planned(confidence=confidence)
        assert answer.doubts.confidence == confidence
        assert all(choice.probability >= confidence for choice in answer.choices.winners)
    # A miss for want of confidence alone is told as one.
    answer = planned(confidence=0.99, instances=["r6i.large"], goals=["tps>=330", "headroom_percent>=0"])
    assert answer.winner is None
    assert any("tps>=330 holds with" in miss and "99 % required" in miss for miss in answer.choices.closest[0].misses)
