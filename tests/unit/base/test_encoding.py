"""The conversion of results to what JSON can hold."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from headrace.base.encoding import Document, Text, to_document, to_plain


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
class Whole(Document):
    part: Part
    figures: tuple[float, ...]


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


def test_a_schema_stands_before_the_fields_of_the_result_itself_only():
    part = Part(Bound(20.0), pl.DataFrame({"x": [1]}))
    fields = {"bound": "p99_ms<=20", "frame": [{"x": 1}]}
    assert list(part.to_dict().items()) == [("schema", "part/1"), *fields.items()]
    assert Whole(part, (0.5,)).to_dict() == {"part": fields, "figures": [0.5]}
    json.dumps(Whole(part, (0.5,)).to_dict(), allow_nan=False)


def test_a_result_in_an_answer_has_its_schema():
    part = Part(Bound(20.0), pl.DataFrame({"x": [1]}))
    assert to_document({"parts": (part,)}) == {"parts": [part.to_dict()]}
    assert to_document(part) == part.to_dict() and to_document(Bound(1.0)) == "p99_ms<=1"
