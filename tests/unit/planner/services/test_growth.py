"""Storage of RDS that fills, against a reference written another way: event by event in exact fractions."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from headrace import InputError
from headrace.planner.market.answer import simulate_storage_growth


def reference(
    size: Fraction, used: Fraction, a_day: Fraction, days: int
) -> tuple[list[tuple[int, Fraction]], int | None]:
    """(minute, GiB) of each step, and the minute RDS stops: AWS's words, from one event to the next."""
    a_minute, now, cooled, steps, end = a_day / 1440, 0, 0, [], days * 1440

    def first_at_or_below(free: Fraction) -> int:
        """First minute from which free space is at or below this."""
        rest = size - used - free
        if rest <= 0:
            return 0
        return end + 1 if a_minute == 0 else -((-rest) // a_minute)

    while True:
        mib = size * 1024
        least = Fraction(200) if mib < 20_000 else Fraction(1_024) if mib > 102_400 else mib / 100
        stop = max(now + 1, first_at_or_below(least / 1024))
        # Low for five minutes in a row, counted from the first minute after the last step.
        low = max(now + 1, first_at_or_below(size / 10)) + 4
        step = max(low, cooled)
        if min(stop, step) > end:
            return steps, None
        if stop <= step:
            return steps, stop
        size += max(Fraction(10), size / 10, a_day / 24 * 7)
        now, cooled = step, step + 360
        steps.append((step, size))


def test_random_growth_is_that_of_the_reference():
    chance = random.Random(8)
    for _ in range(150):
        size = chance.randint(20, 4_000)
        used = chance.randint(0, size * 19 // 20)
        a_day = chance.choice([0, 1, chance.randint(1, 50), chance.randint(50, 4_000)])
        growth = simulate_storage_growth(size, used, a_day, days=3)
        steps, stop = reference(Fraction(size), Fraction(used), Fraction(a_day), 3)
        assert [round(hour * 60) for hour, _ in growth.steps] == [minute for minute, _ in steps], (size, used, a_day)
        for (_, own), (_, expected) in zip(growth.steps, steps, strict=True):
            assert own == pytest.approx(float(expected), rel=1e-9)
        assert (growth.stopped_h and round(growth.stopped_h * 60)) == stop, (size, used, a_day)


def test_more_than_a_tenth_in_six_hours_fills_it():
    """400 GiB with 300 in use and 240 GiB a day: 60 GiB free after 4 h; autoscaling adds 70 GiB (7 h) after 6 h of data.

    40 GiB are free at 60 / 10 = 6 h; five minutes later 70 GiB are added, and six hours later again: 60 GiB came meanwhile. It holds.
    At 1,200 GiB a day 40 GiB are free after 72 min, 350 GiB are added: 50 an hour, 300 in six hours. It holds too.
    Without autoscaling it is full (1 GiB free) after 99 / 10 h.
    """
    assert simulate_storage_growth(400, 300, 240).stopped_h is None
    assert simulate_storage_growth(400, 300, 240, autoscaling=False).stopped_h == pytest.approx(9.9, abs=0.02)
    # A limit to autoscaling of 1.1 x, the least that AWS takes, is soon reached.
    capped = simulate_storage_growth(400, 300, 240, most_gib=440)
    assert len(capped.steps) == 1 and capped.stopped_h == pytest.approx(13.9, abs=0.02)
    assert "RDS stops the server" in capped.describe()
    # A burst that fills what is free within five minutes: nothing can help.
    assert simulate_storage_growth(100, 88, 24 * 60 * 5).stopped_h is not None


@pytest.mark.parametrize(("day", "most_gib"), [("2017-11-01", 6_144), (None, 65_536)])
def test_autoscaling_ends_at_the_largest_storage_of_the_day(day, most_gib):
    """The 6 TB of 2017 are 6,144 GiB and not 6e12 bytes: botocore 1.5.50 has "from 5 to 6144".
    A step is a tenth at least, so that the first one from 95 % of it would pass it."""
    size = 0.95 * most_gib
    growth = simulate_storage_growth(size, 0.95 * size, 1.0, days=0.1, as_of=day)
    assert [gib for _, gib in growth.steps] == [most_gib]


def test_bad_input_is_refused():
    for wrong in ((4, 1, 1), (100, 200, 1), (100, 50, -1), (100, 50, float("nan"))):
        with pytest.raises(InputError):
            simulate_storage_growth(*wrong)


def test_growth_past_400_gib_is_a_copy_of_all_data():
    """350 GiB with 300 used, 24 GiB a day: 35 GiB are free after 15 h, and 10 % steps of 35, 38.5 GiB come: the
    second is past 400. 600 GiB are past it already."""
    in_words = simulate_storage_growth(350.0, 300.0, 24.0, days=10).describe()
    assert "passes 400 GiB, where RDS copies all data to four volumes" in in_words
    steps = simulate_storage_growth(350.0, 300.0, 24.0, days=10).steps
    assert [round(size, 1) for _, size in steps[:2]] == [385.0, 423.5] and in_words.count("copies all data") == 1
    for allocated, used in ((600.0, 500.0), (100.0, 50.0)):
        assert "400 GiB," not in simulate_storage_growth(allocated, used, 5.0, days=10).describe()
