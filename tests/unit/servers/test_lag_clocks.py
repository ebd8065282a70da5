"""The age of what a replica lacks, against a source and a replica of which everything is known."""

from __future__ import annotations

import bisect
import random

import pytest

from headrace.mysql.gtid import GtidSet
from headrace.servers.topology.lag.clocks import STALE_S, Trace, compute_age, compute_rate, count_backlog

SAMPLE_S = 0.1


def up_to(number: int) -> GtidSet:
    return GtidSet.parse(f"0-1-{number}" if number else "", "mariadb")


class Made:
    """Commits at known moments; a replica that applies each `late_s` later, or stands still."""

    def __init__(self, commits: list[float]) -> None:
        self.commits = commits

    def source_has(self, at_s: float) -> int:
        return bisect.bisect_right(self.commits, at_s)

    def truth(self, has: int, at_s: float) -> float:
        """Age of the first commit that a replica with `has` of them lacks."""
        return max(0.0, at_s - self.commits[has]) if has < self.source_has(at_s) else 0.0


def sampled(chance: random.Random, until_s: float) -> list[float]:
    moments, at = [], chance.random() * SAMPLE_S
    while at < until_s:
        moments.append(at)
        at += SAMPLE_S * chance.uniform(0.9, 1.3)
    return moments


@pytest.mark.parametrize("tps", [50, 200, 2_000])
def test_within_the_distance_of_commits_of_the_truth(tps):
    """Random arrivals, a replica that lags by up to 3 s and catches up. Between two samples commits are taken to be
    spread evenly; n arrivals at random in 0.1 s are off by 0.1 * sqrt(k (n - k) / n^3) s at most in one standard
    deviation, 22 ms with n = 5 and 3.5 ms with n = 200. Half a second decides nothing: 4 deviations are 90 and 14 ms."""
    chance = random.Random(tps)
    result, at = Made([]), 0.0
    while at < 20:
        at += chance.expovariate(tps)
        result.commits.append(at)
    late = [(0, 0.0), (5, 3.0), (10, 1.0), (14, 0.02), (20, 0.02)]

    def replica_has(moment: float) -> int:
        before = max((entry for entry in late if entry[0] <= moment), default=late[0])
        after = min((entry for entry in late if entry[0] > moment), default=late[-1])
        share = (moment - before[0]) / ((after[0] - before[0]) or 1)
        return result.source_has(moment - (before[1] + share * (after[1] - before[1])))

    source, replica, errors = Trace(), Trace(), []
    events = sorted(
        [(moment, "s") for moment in sampled(chance, 20)] + [(moment, "r") for moment in sampled(chance, 20)]
    )
    for moment, who in events:
        if who == "s":
            source.add(moment, up_to(result.source_has(moment)))
        else:
            replica.add(moment, up_to(replica_has(moment)))
        checkpoint = compute_age(source, replica, moment)
        if checkpoint is None or moment < 1:
            continue
        assert checkpoint.exact
        # The age is that of a moment at most one sample of each server ago.
        assert moment - checkpoint.at_s <= 2 * 1.3 * SAMPLE_S
        errors.append(abs(checkpoint.seconds - result.truth(replica_has(checkpoint.at_s), checkpoint.at_s)))
    errors.sort()
    assert len(errors) > 300
    assert errors[len(errors) // 2] < {50: 0.022, 200: 0.011, 2_000: 0.0035}[tps]
    assert errors[int(0.99 * len(errors))] < {50: 0.090, 200: 0.045, 2_000: 0.014}[tps]


def test_idle_is_a_true_zero_however_long():
    source, replica = Trace(), Trace()
    for second in range(1_000):
        source.add(second, up_to(7))
        replica.add(second + 0.5, up_to(7))
    checkpoint = compute_age(source, replica, 999.6)
    assert checkpoint is not None and checkpoint.seconds == 0 and checkpoint.exact
    assert count_backlog(source, replica) == 0 and compute_rate(replica, 10) == 0


def test_a_burst_after_a_long_silence_is_young():
    """It is not as old as the silence: the source was asked all the time."""
    source, replica = Trace(), Trace()
    for tenth in range(100):
        source.add(tenth / 10, up_to(7))
        replica.add(tenth / 10, up_to(7))
    source.add(10.0, up_to(107))
    replica.add(10.05, up_to(7))
    source.add(10.1, up_to(107))
    checkpoint = compute_age(source, replica, 10.1)
    assert checkpoint is not None and 0.05 <= checkpoint.seconds <= 0.15 and checkpoint.exact


def test_it_grows_while_the_replica_stands_still():
    source, replica = Trace(), Trace()
    for tenth in range(1, 200):
        source.add(tenth / 10, up_to(10 * tenth))
        replica.add(tenth / 10, up_to(min(10 * tenth, 500)))
    checkpoint = compute_age(source, replica, 19.9)
    # It has the 500 commits up to 5.0 s; the next came within the 0.1 s after it.
    assert checkpoint is not None and checkpoint.seconds == pytest.approx(19.9 - 5.0, abs=0.1) and checkpoint.exact
    assert count_backlog(source, replica) == 1_990 - 500


def test_what_is_not_seen_grows_and_says_so():
    source, replica = Trace(), Trace()
    source.add(1.0, up_to(5))
    replica.add(1.0, up_to(5))
    assert compute_age(Trace(), replica, 1.0) is None and compute_age(source, Trace(), 1.0) is None
    for now in (10.0, 20.0):  # neither answers any longer
        checkpoint = compute_age(source, replica, now)
        assert checkpoint is not None and checkpoint.seconds == now - 1.0 and not checkpoint.exact
    replica.add(30.0, up_to(5))  # the source alone is gone
    checkpoint = compute_age(source, replica, 30.0)
    assert checkpoint is not None and checkpoint.seconds == 29.0 and not checkpoint.exact
    assert STALE_S < 9


def test_a_watch_that_begins_late_says_at_least():
    source, replica = Trace(), Trace()
    for tenth in range(20):
        source.add(tenth / 10, up_to(1_000 + tenth))
        replica.add(tenth / 10, up_to(10 + tenth))
    checkpoint = compute_age(source, replica, 1.9)
    assert checkpoint is not None and checkpoint.seconds == pytest.approx(1.9) and not checkpoint.exact


def test_a_server_made_anew_begins_a_new_trace():
    trace = Trace()
    trace.add(1.0, up_to(100))
    trace.add(2.0, up_to(5))
    assert len(trace.stretches) == 1 and trace.find_stretch(1.5) is None


def test_thinning_keeps_the_answer_within_its_scale():
    chance = random.Random(9)
    whole, thin = Trace(most=10_000), Trace(most=64)
    for tenth in range(4_000):
        number = 3 * tenth + chance.randrange(3)
        whole.add(tenth / 10, up_to(number))
        thin.add(tenth / 10, up_to(number))
    assert len(thin.stretches) <= 64
    for _ in range(200):
        has = up_to(chance.randrange(11_000))
        exact, coarse = whole.find_commit_time(has), thin.find_commit_time(has)
        assert exact is not None and coarse is not None
        # Evenly written, so even a coarse stretch is right within its own ragged ends: one sample each.
        assert coarse.seconds == pytest.approx(exact.seconds, abs=0.3) or not coarse.exact
