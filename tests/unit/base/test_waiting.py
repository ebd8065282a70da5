"""Waiting for a limited time: what was seen last is the answer."""

from __future__ import annotations

import math

from headrace.base.waiting import wait_until


def test_the_first_true_answer_ends_the_wait():
    answers = iter([0, "", None, "ready", "late"])
    assert wait_until(lambda: next(answers), math.inf, 0.0) == "ready" and next(answers) == "late"


def test_without_time_it_looks_once():
    answers = iter([[], [1]])
    assert wait_until(lambda: next(answers), 0.0, 60.0) == [] and next(answers) == [1]


def test_the_last_false_answer_is_returned_after_the_time():
    looks = []
    assert wait_until(lambda: looks.append(1), 0.01, 0.001) is None and len(looks) > 1
