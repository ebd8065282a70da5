"""The cache of the daemon's answers: which of two versions is kept."""

from __future__ import annotations

import pytest

from headrace.api.cache import _is_at_least_as_new


@pytest.mark.parametrize(
    ("version", "expected"),
    [("a-9", True), ("a-8", False), ("a-10", True), ("b-1", True)],
    ids=["equal", "older", "newer, by its number", "of another run"],
)
def test_a_version_is_at_least_as_new(version, expected):
    assert _is_at_least_as_new(version, "a-9") == expected
