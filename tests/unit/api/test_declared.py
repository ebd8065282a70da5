"""The tables of calls against the daemon's calls: each argument is one of its call, each fact one of its answer."""

from __future__ import annotations

import ast
from functools import cache
from typing import is_typeddict

import pytest
from places import ROOT

from headrace.api import declared, handling
from headrace.base.packaged import read_rows
from headrace.lab import calls

API = ROOT / "python/headrace/api"
ARGUMENTS, ANSWERS = handling.read_entries("arguments.csv"), handling.read_entries("answers.csv")


@cache
def arguments_by_call() -> dict[str, set[str]]:
    """The names of the arguments of each call of the daemon: those of its method in the generated client."""
    tree = ast.parse((ROOT / "python/headrace/lab/calls.py").read_text())
    return {
        str(ast.literal_eval(node.args[0])): {part.arg for part in (*method.args.args, *method.args.kwonlyargs)}
        for method in ast.walk(tree)
        if isinstance(method, ast.FunctionDef)
        for node in ast.walk(method)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "self.call" and node.args
    }


def calls_of_handlers() -> dict[tuple[str, str], str]:
    """The call that each handler hands the arguments of the table to."""
    used = {(row["service"], row["operation"]): row["call"] for row in read_rows("headrace.api", "models", "calls.csv")}
    for path in API.rglob("*.py"):
        for function in ast.parse(path.read_text()).body:
            if not isinstance(function, ast.FunctionDef):
                continue
            served = [
                (ast.literal_eval(mark.args[0]), ast.literal_eval(mark.args[1]))
                for mark in function.decorator_list
                if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "serves"
            ]
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and any(
                    "arguments(request)" in ast.unparse(part.value) or "_creation(request)" in ast.unparse(part.value)
                    for part in node.keywords
                    if part.arg is None
                ):
                    texts = [part.value for part in node.args if isinstance(part, ast.Constant)]
                    used |= {key: next(text for text in texts if isinstance(text, str)) for key in served}
    return used


USED = calls_of_handlers()


@pytest.mark.parametrize("operation", sorted(ARGUMENTS))
def test_each_argument_is_one_of_its_call(operation):
    assert {entry.name for entry in ARGUMENTS[operation]} <= arguments_by_call()[USED[operation]]


@pytest.mark.parametrize("operation", sorted(ARGUMENTS))
def test_each_parameter_is_one_of_its_operation(operation):
    members = set(handling.load()[operation].operation.input.members)
    assert {entry.source for entry in ARGUMENTS[operation]} - {""} <= members


def test_each_fact_is_one_of_an_answer_of_the_daemon():
    kinds = [set(kind.__annotations__) for kind in vars(calls).values() if is_typeddict(kind)]
    # A snapshot in the recycle bin is shown with its stay there.
    kinds.append(set(calls.Snapshot.__annotations__) | set(calls.Bin.__annotations__))
    for name, entries in ANSWERS.items():
        facts = {entry.source for entry in entries} - {""}
        assert any(facts <= kind for kind in kinds), name


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("volume", None, "vol-ffffffff"),
        ("volume", "vol-1", "vol-1"),
        ("percent", 40, "40%"),
        ("json", None, None),
        ("json", '{"a": 1}', {"a": 1}),
        ("all tags", {}, []),
        ("tags", {}, None),
        ("blob", "aGk=", b"hi"),
    ],
)
def test_a_form_converts_what_the_daemon_says(form, value, expected):
    assert declared.FROM_LAB[form](value) == expected


def test_a_member_that_a_handler_computes_must_be_given():
    with pytest.raises(KeyError):
        declared.convert_answer("lock", {"state": "governance"})
