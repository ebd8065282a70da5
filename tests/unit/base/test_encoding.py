"""The conversion of results to what JSON can hold."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from headrace.base.encoding import Document, Text, to_plain


@dataclass(frozen=True)
class Bound(Text):
    limit: float

    def __str__(self) -> str:
        return f"p99_ms<={self.limit:g}"


@dataclass(frozen=True)
class Part(Document, schema="part/1"):
    bound: Bound
    frame: pl.DataFrame


@dataclass(frozen=True)
class Whole(Document, computed=("total",), omitted=("figures",)):
    part: Part
    figures: tuple[float, ...]

    @property
    def total(self) -> float:
        return sum(self.figures)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (math.nan, None),
        (-math.inf, None),
        (True, True),
        (None, None),
        ("text", "text"),
        (Path("/a/b"), "/a/b"),
        ({1: (2, 3)}, {"1": [2, 3]}),
        ({"day": date(2026, 11, 28)}, {"day": "2026-11-28"}),
        ({4}, [4]),
        (pl.DataFrame({"x": [1.0, math.nan]}), [{"x": 1.0}, {"x": None}]),
    ],
)
def test_values_become_what_json_can_hold(value, plain):
    assert to_plain(value) == plain


def test_minus_zero_becomes_zero():
    assert math.copysign(1.0, to_plain(-0.0)) == 1.0


def test_a_document_has_its_schema_and_what_is_computed_wherever_it_stands():
    part = Part(Bound(20.0), pl.DataFrame({"x": [1]}))
    entries = {"schema": "part/1", "bound": "p99_ms<=20", "frame": [{"x": 1}]}
    assert list(part.to_dict().items()) == list(entries.items())
    assert Whole(part, (0.5,)).to_dict() == {"part": entries, "total": 0.5}
    assert to_plain({"parts": (part,)}) == {"parts": [entries]} and to_plain(Bound(1.0)) == "p99_ms<=1"
    json.dumps(Whole(part, (0.5,)).to_dict(), allow_nan=False)
