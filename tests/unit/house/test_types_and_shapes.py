"""Signatures say all that a reader must know of a function: types of all parameters, and names in
calls of many.

Ratchets: the numbers go down only. Somebody who brings a count down lowers its number with it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from places import ROOT

PACKAGE = ROOT / "python/headrace"
POSITIONAL = 7  # more of them are mixed up in a call
FIELDS = 20  # a value with more has parts

# Functions with a parameter without a type.
MOST_UNTYPED = 0
# Uses of `Any` as a type.
MOST_ANY = 100
# Functions with more than POSITIONAL parameters that may be given without their names.
MOST_POSITIONAL = 0
# Values with more than FIELDS fields, and why each is no smaller. No other may be as wide.
WIDE = {
    "Choice": "a result that users read by the names of its fields",
    "LabStatus": "an answer of the lab's protocol, generated",
    "LabVolume": "an answer of the lab's protocol, generated",
    "PlanSettings": "the options of `headrace plan`, a field each",
    "VolumeAnswer": "columns of the Parquet file of a fleet's answers",
}


def untyped(node: ast.FunctionDef | ast.AsyncFunctionDef, method: bool) -> list[str]:
    """The parameters without a type; `self` and `cls` need none."""
    given = node.args
    named = [*given.posonlyargs, *given.args]
    rest = [*given.kwonlyargs, *(argument for argument in (given.vararg, given.kwarg) if argument is not None)]
    return [argument.arg for argument in [*named[int(method) :], *rest] if argument.annotation is None]


def is_method(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.AST) -> bool:
    """Returns whether a function's first parameter is the object or the class."""
    static = any(isinstance(entry, ast.Name) and entry.id == "staticmethod" for entry in node.decorator_list)
    return isinstance(owner, ast.ClassDef) and not static


def faults(source: str) -> Iterator[tuple[str, str]]:
    """Yields kind and name of each thing that is counted."""
    for owner in ast.walk(ast.parse(source)):
        for node in ast.iter_child_nodes(owner):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                method = is_method(node, owner)
                if untyped(node, method):
                    yield "untyped", node.name
                if len(node.args.posonlyargs) + len(node.args.args) - int(method) > POSITIONAL:
                    yield "positional", node.name
            elif isinstance(node, ast.ClassDef):
                if sum(isinstance(entry, ast.AnnAssign) for entry in node.body) > FIELDS:
                    yield "wide", node.name
            elif isinstance(node, ast.Name) and node.id == "Any":
                yield "Any", "Any"


@cache
def all_faults() -> tuple[tuple[str, str], ...]:
    return tuple(fault for path in PACKAGE.rglob("*.py") for fault in faults(path.read_text()))


@cache
def counted() -> Counter[str]:
    return Counter(kind for kind, _ in all_faults())


@pytest.mark.parametrize(
    ("kind", "most"),
    [("untyped", MOST_UNTYPED), ("Any", MOST_ANY), ("positional", MOST_POSITIONAL)],
)
def test_there_are_no_more_than_before(kind, most):
    assert counted()[kind] <= most, f"{counted()[kind]} {kind}, {most} are allowed: see what this file counts"


def test_a_wide_value_has_a_reason():
    names = sorted(name for kind, name in all_faults() if kind == "wide")
    assert names == sorted(WIDE), "split a new value by ideas; take one that became smaller out of the table"


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("def f(a: int, *b: int, c: int, **d: int): pass", []),
        ("def f(a: int, *b: int, c: int, **d): pass", ["untyped"]),
        ("def f(a, b: int): pass", ["untyped"]),
        ("class A:\n    def f(self, a: int): pass", []),
        ("class A:\n    def f(self, a): pass", ["untyped"]),
        ("class A:\n    @staticmethod\n    def f(a): pass", ["untyped"]),
        ("class A:\n    def f(self, a: int, b: int, c: int, d: int, e: int, f: int, g: int): pass", []),
        ("def f(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int): pass", ["positional"]),
        ("def f(a: int, b: int, c: int, d: int, *, e: int, f: int, g: int, h: int): pass", []),
        ("def f(a: Any) -> list[Any]: pass", ["Any", "Any"]),
        ("class A:\n" + "".join(f"    a{i}: int\n" for i in range(20)), []),
        ("class A:\n" + "".join(f"    a{i}: int\n" for i in range(21)), ["wide"]),
    ],
)
def test_what_is_counted(source, kinds):
    assert sorted(kind for kind, _ in faults(source)) == sorted(kinds)
