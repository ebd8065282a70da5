"""Wildcards of filters and policies against a naive matcher, and patterns that would take others days."""

from __future__ import annotations

import random
from functools import cache

from headrace.api.access.policies import matches_pattern
from headrace.api.ec2.filters import _make_matcher


def naive(pattern: str, text: str) -> bool:
    @cache
    def at(i: int, j: int) -> bool:
        if i == len(pattern):
            return j == len(text)
        if pattern[i] == "*":
            return at(i + 1, j) or (j < len(text) and at(i, j + 1))
        return j < len(text) and pattern[i] in ("?", text[j]) and at(i + 1, j + 1)

    return at(0, 0)


def test_random_patterns_match_as_a_naive_matcher_says():
    chance, matched = random.Random(4), 0
    for _ in range(5000):
        pattern = "".join(chance.choice("ab**?.") for _ in range(chance.randrange(8)))
        text = "".join(chance.choice("ab.\n") for _ in range(chance.randrange(10)))
        expected = naive(pattern, text)
        matched += expected
        assert matches_pattern(pattern, text) == expected, (pattern, text)
        assert _make_matcher([pattern])(text) == expected, (pattern, text)
    assert 500 < matched < 4500, "both answers must be tried"


def test_a_pattern_of_many_stars_is_answered_at_once():
    """Backtracking would try some 255 over 60 ways: this test would not end."""
    pattern, text = "*a" * 60 + "*b", "a" * 255
    assert not matches_pattern(pattern, text) and not _make_matcher([pattern])(text)
    assert matches_pattern(pattern, text + "b") and _make_matcher([pattern])(text + "b")
