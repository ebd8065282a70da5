"""`tests/mistakes.csv`: every command that changes, stops, replaces or deletes something has a row for
each ordinary mistake, with what must happen and the test that proves it.

The rows of the live tables are run by their own tests: `tests/lab/test_mistakes.py` and
`tests/mysql/failover/test_ordinary_mistakes.py`.
"""

from __future__ import annotations

import ast
import csv
from functools import cache

import pytest
from places import ROOT

from headrace.cli.app import list_commands

TABLE = ROOT / "tests/mistakes.csv"
KINDS = (
    "a name that exists",
    "the wrong role",
    "the wrong server",
    "a missing privilege",
    "a damaged or partial input",
    "a full target",
    "the wrong order",
    "twice",
    "Ctrl-C",
)
# Outcomes that a mistake must have. `nothing happens`: repeated, it is harmless and says so. `goes
# on`: after Ctrl-C, a kill or a failure, nothing is half-made and the same command finishes.
# `open`: no test proves it yet.
PROVED = ("refused", "asked", "nothing happens", "goes on")
UNPROVED = ("does not apply", "open")
# Rows that no test proves yet. The number may only fall: a new command comes with its tests.
MOST_OPEN = 0
# Commands that change nothing but a page or chart that --report names, for which
# test_writing.py::test_a_file_of_something_else_is_never_overwritten holds. A new command is here
# or in the table. Changes of `page --allow-changes` are those of other commands, which have their
# rows.
UNCHANGING = """
    plan, simulate, predict, replay, compare-run, catalog volumes, catalog instances, catalog prices, catalog sources,
    lab events, lab status, lab doctor, lab key list, volume list, volume metrics, snapshot sets, snapshot list,
    mysql status, mysql cli, mysql log, backup list, replica status, replica lag, watch,
    export prometheus, export otlp, doctor, forecast, advise, bench list, bench compare, page
"""
READ_ONLY = frozenset(" ".join(name.split()) for name in UNCHANGING.split(","))


@cache
def rows() -> list[dict[str, str]]:
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def definitions(path: str) -> dict[str, ast.AST]:
    """Functions and tables of a test file by name."""
    nodes: dict[str, ast.AST] = {}
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            nodes[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            nodes[node.targets[0].id] = node.value
    return nodes


def text_of(path: str, name: str) -> str:
    """The source of a test function with its decorators."""
    function = definitions(path)[name]
    assert isinstance(function, ast.FunctionDef)
    first = min(node.lineno for node in (function, *function.decorator_list))
    return "\n".join((ROOT / path).read_text().splitlines()[first - 1 : function.end_lineno])


def live_rows(path: str, table: str) -> list[tuple[str, ...]]:
    """Rows of a live table: the command, then what else the row has. A row of one word is its command."""
    value = ast.literal_eval(definitions(path)[table])  # type: ignore[arg-type]
    return [(row,) if isinstance(row, str) else row for row in value]


@cache
def list_leaves() -> frozenset[str]:
    """The commands that have none below them."""
    return frozenset(
        name.removeprefix("headrace ") for name, entry in list_commands() if not getattr(entry, "commands", None)
    )


def split_form(form: str) -> tuple[str, list[str]]:
    """The command of a row, and the words that tell its form from others: `mysql down --save`."""
    words = form.split()
    for count in range(len(words), 0, -1):
        if (command := " ".join(words[:count])) in list_leaves():
            return command, words[count:]
    return form, []


def test_every_command_has_every_mistake_or_changes_nothing():
    leaves = list_leaves()
    listed = [(row["command"], row["mistake"]) for row in rows()]
    forms = {command for command, _ in listed}
    named = {split_form(form)[0] for form in forms}
    assert sorted(leaves - named - READ_ONLY) == [], "neither in tests/mistakes.csv nor in READ_ONLY"
    assert sorted((named | READ_ONLY) - leaves) == [], "no such command"
    assert not named & READ_ONLY
    assert len(listed) == len(set(listed))
    missing = {(command, kind) for command in forms for kind in KINDS} - set(listed)
    assert not missing and {kind for _, kind in listed} == set(KINDS), sorted(missing)


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['command']}: {row['mistake']}")
def test_a_row_is_proved_or_has_a_reason(row):
    assert row["must"] in (*PROVED, *UNPROVED)
    if row["must"] in UNPROVED:
        assert not row["test"]
        assert len(row["words"].split()) >= 2 or row["must"] == "open", "a reason in words"
        return
    path, _, name = row["test"].partition("::")
    assert row["words"] and name in definitions(path), row["test"]
    if name.startswith("test_"):
        # Words of an answer stand in the test of it; what `goes on` leaves behind is in our words.
        assert row["must"] == "goes on" or row["words"] in text_of(path, name), row["words"]
        return
    command, form = split_form(row["command"])
    of_command = [
        text
        for text in live_rows(path, name)
        if f"{text[0]} ".startswith(f"{command} ") and all(word in text[0] for word in form)
    ]
    assert of_command, f"no row of {row['test']} begins with {row['command']}"
    # A list of commands alone has the words in its test.
    assert len(of_command[0]) == 1 or any(row["words"] in entry[-1] for entry in of_command), row["words"]


def test_no_more_is_open_than_was():
    unproved = [f"{row['command']}: {row['mistake']}" for row in rows() if row["must"] == "open"]
    assert len(unproved) == MOST_OPEN, unproved
