"""Goals: what is taken, what is refused and how. Hypothesis prints the failing example."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InputError
from headrace.planner import DEFAULT_GOALS, METRICS, Goal, parse_goals


def test_no_goals_are_the_default_ones():
    assert [str(goal) for goal in parse_goals([])] == list(DEFAULT_GOALS)


def test_repeated_goals_count_once_and_keep_their_order():
    assert [str(goal) for goal in parse_goals(["p95_ms <= 5", "p95_ms<=5.0", "throttled_min≤0"])] == ["p95_ms<=5", "throttled_min<=0"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("p99_mss<=20", "Did you mean p99_ms"),
        ("p99_ms>=20", "better the less"),
        ("headroom_percent<=20", "better the more"),
        ("p99_ms<20", "only <= and >="),
        ("p99_ms=20", "only <= and >="),
        ("p99_ms<=20ms", "not a number"),
        ("p99_ms<=nan", "0 or more"),
        ("p99_ms<=inf", "0 or more"),
        ("p99_ms<=-1", "0 or more"),
        ("headroom_percent>=401", "up to 400"),
        ("p99_ms", "METRIC<=NUMBER"),
        ("", "METRIC<=NUMBER"),
        ("<=20", "METRIC<=NUMBER"),
        (None, "METRIC<=NUMBER"),
        (20, "METRIC<=NUMBER"),
        ("p99_ms<=20" * 100, "METRIC<=NUMBER"),
    ],
)
def test_a_bad_goal_is_refused_in_words(text, word):
    with pytest.raises(InputError, match="(?s).*" + word.replace("<", r"\<")) as refused:
        Goal.parse(text)
    assert refused.value.hint


@given(metric=st.sampled_from(sorted(METRICS)), limit=st.floats(0, 400), spaces=st.text(" \t", max_size=3))
def test_what_is_written_is_read_back(metric, limit, spaces):
    goal = Goal.parse(f"{spaces}{metric}{spaces}{METRICS[metric].sign}{spaces}{limit!r}{spaces}")
    assert goal == Goal(metric, METRICS[metric].sign, limit)
    # 15 digits are printed, so the limit comes back to a relative 1e-14.
    assert math.isclose(Goal.parse(str(goal)).limit, limit, rel_tol=1e-14)


@given(st.one_of(st.text(max_size=60), st.from_regex(r"[a-z_0-9]{1,12}[<>=!]{1,2}[-+0-9.eE]{1,8}", fullmatch=True)))
def test_any_text_is_a_goal_or_an_input_error(text):
    try:
        assert Goal.parse(text).metric in METRICS
    except InputError as error:
        assert error.exit_code == 2


@given(metric=st.sampled_from(sorted(METRICS)), limit=st.floats(0, 400), value=st.floats(0, 1e12))
def test_distance_is_zero_exactly_when_met(metric, limit, value):
    goal = Goal(metric, METRICS[metric].sign, limit)
    assert (goal.distance(value) == 0.0) == goal.met_by(value)
    assert goal.distance(None) > 0 and not goal.met_by(None) and not goal.met_by(math.nan)
