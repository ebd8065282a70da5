"""Spans of time as they are typed: 90s, 6h, 14d."""

from __future__ import annotations

import pytest

from headrace.base.units import read_span
from headrace.errors import InputError


def test_spans_are_read_as_seconds():
    texts = ("90s", "15m", "15 min", "1.5h", "7d", "4w")
    assert [read_span(text, "--x") for text in texts] == [90, 900, 900, 5_400, 604_800, 2_419_200]
    assert read_span("0s", "--x", least_s=0.0) == 0


@pytest.mark.parametrize("text", ["", "7", "0d", "-1d", "1y", "1 d d", "9" * 40 + "d"])
def test_what_is_no_span_is_refused(text):
    with pytest.raises(InputError, match="with its unit"):
        read_span(text, "--x")
