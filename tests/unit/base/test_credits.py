"""Time to empty: constant loads to the core's rule, changes of the load, bursts, and what is not a load."""

from __future__ import annotations

import math
import random

import pytest

from headrace.base import core
from headrace.base.credits import Emptying, lasts_forever

# gp2:100 of the catalog: 5.4 million credits, 300 a second back.
CAPACITY, REFILL = 5_400_000.0, 300.0


def run(rates: list[float], level: float = CAPACITY, capacity: float = CAPACITY, refill: float = REFILL) -> list:
    """Runs a load on a bucket, and returns the estimate and the true level after each second."""
    emptying, message = Emptying(capacity, refill), []
    emptying.add(0.0, level)
    for second, rate in enumerate(rates, start=1):
        level = min(capacity, max(0.0, level + refill - rate))
        emptying.add(float(second), level)
        message.append((emptying.estimate(), level))
    return message


@pytest.mark.parametrize("storage", ["gp2:100", "gp2:900", "st1:500", "sc1:1000"])
def test_a_constant_load_is_the_cores_rule(storage):
    bucket = core.credit_buckets(storage)["members"][0]
    assert bucket is not None
    draw = random.Random(storage)
    for _ in range(20):
        rate = bucket["refill"] * draw.uniform(1.02, 10)
        result = run([rate] * 90, bucket["capacity"] * draw.uniform(0.5, 1), bucket["capacity"], bucket["refill"])
        for rest, level in result:
            assert rest.seconds == pytest.approx(level / (rate - bucket["refill"]), rel=1e-6)
            assert rest.taken_per_s == pytest.approx(rate, rel=1e-6)


def test_an_instance_bucket_counts_alike():
    bucket = core.credit_buckets("gp3:100", None, "m5.large")["instance_bytes"]
    assert bucket is not None
    # m5.large: 650 Mbit/s for good, 4,750 for 30 minutes: 1,800 s x 512.5 MB/s.
    assert bucket["capacity"] == (593_750_000 - 81_250_000) * 1_800
    rest, level = run([593_750_000] * 10, bucket["capacity"], bucket["capacity"], bucket["refill"])[-1]
    assert rest.seconds == pytest.approx(level / 512_500_000)


@pytest.mark.parametrize("idle", [0, 5, 30, 300])
@pytest.mark.parametrize("before", [0.0, 2_500.0])
def test_a_load_that_began_is_known_within_three_seconds(idle, before):
    """After a change the old load has no part in the mean: nor has the second in which it changed,
    which is of both, nor a rested volume's saved second."""
    for first in (1_500.0, 3_000.0, 6_000.0):
        rest, level = run([before] * idle + [first, 1_000.0, 1_000.0, 1_000.0], 4e6)[-1]
        exact = level / 700
        if before == 0.0 or idle == 300:
            assert rest.seconds == pytest.approx(exact, rel=0.01) or idle in (0, 5), (idle, before, first)
        # A load that ran for seconds only cannot be told from a burst.
        assert rest.seconds <= level / 699 * 1.01 or math.isinf(rest.seconds)


def test_a_load_that_ended_is_known_within_three_seconds():
    rest, _ = run([3_000.0] * 120 + [0.0] * 4)[-1]
    assert lasts_forever(rest)


def test_bursts_belong_to_the_mean():
    """10 s on and 10 s off, after a minute: never one or the other, always the mean."""
    result = run(([3_000.0] * 10 + [0.0] * 10) * 12)
    for rest, level in result[80:]:
        # The window is a minute to a minute and 20 s: half of it is on, within one part of ten seconds.
        assert rest.taken_per_s == pytest.approx(1_500, rel=0.2)
        assert rest.seconds == pytest.approx(level / 1_200, rel=0.3)


def test_the_interval_is_that_of_the_minutes():
    rates = [2_000.0 if minute % 2 else 1_600.0 for minute in range(12) for _ in range(60)]
    rest, level = run(rates)[-1]
    assert rest.soonest == pytest.approx(level / 1_700) and rest.latest == pytest.approx(level / 1_300)
    assert rest.soonest <= rest.seconds <= rest.latest
    assert run([2_000.0] * 30)[-1][0].soonest is None, "half a minute has no minutes"


def test_empty_full_and_filling():
    assert lasts_forever(run([100.0] * 70)[-1][0]), "a full balance that is not used up"
    assert lasts_forever(run([0.0] * 10, 1e6)[-1][0])
    rest, level = run([3_000.0] * 30, 30_000.0)[-1]
    assert level == 0 and rest.seconds == 0.0
    assert Emptying(1e6, 100).estimate() is None


def test_a_balance_that_was_set_is_no_load():
    emptying = Emptying(CAPACITY, REFILL)
    for second in range(30):
        emptying.add(second, 5_000_000 - 1_000 * second)
    assert emptying.estimate().seconds == pytest.approx((5_000_000 - 29_000) / 1_000)
    emptying.add(30, 1_000_000)
    assert emptying.estimate() is None
    emptying.add(31, 998_000)
    assert emptying.estimate().seconds == pytest.approx(998_000 / 2_000)
    emptying.forget()
    assert emptying.estimate() is None


def test_a_clock_that_stands_or_goes_back_changes_nothing():
    emptying = Emptying(CAPACITY, REFILL)
    for at, level in ((0, 5e6), (1, 4.999e6), (1, 4.5e6), (0.5, 4.4e6), (2, 4.998e6)):
        emptying.add(at, level)
    assert emptying.estimate().seconds == pytest.approx(4_998)


def test_minutes_of_cloudwatch():
    """A point a minute: the newest decides, two give an interval."""
    emptying = Emptying(CAPACITY, REFILL)
    for minute in range(6):
        emptying.add(60.0 * minute, CAPACITY - 60.0 * 500 * minute)
    rest = emptying.estimate()
    assert rest.seconds == pytest.approx((CAPACITY - 300 * 500) / 500)
    assert rest.soonest == pytest.approx(rest.seconds) == rest.latest


def test_counted_tokens_go_before_the_slope():
    emptying = Emptying(CAPACITY, REFILL)
    emptying.add(0, 1e6, 0)
    emptying.add(1, 1e6 - 50, 1_300)  # a percentage that is rounded
    assert emptying.estimate().seconds == pytest.approx((1e6 - 50) / 1_000)
