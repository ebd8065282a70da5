"""An option is declared once, beside the field that it sets; everything else reads it there."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields

import pytest
from places import ROOT
from typer.core import TyperOption

import headrace
from headrace.base.options import complete, describe, list_settings
from headrace.cli.app import list_commands, walk_commands
from headrace.cli.sharing import list_own_options
from headrace.errors import InputError
from headrace.planner.question import PlanQuestion
from headrace.planner.settings import PlanSettings
from headrace.simulation.settings import PredictionSettings, SimulationSettings

PACKAGE = ROOT / "python/headrace"
# Functions that take settings by their names, with the command and the dataclass that say what they are.
SETTINGS = {"plan": PlanSettings, "simulate": SimulationSettings, "predict": PredictionSettings}
# Files in which an option of a command could be declared a second time: the command's, and those between it and the engine.
PLACES = {
    "plan": ("cli/model/plan.py", "cli/model/replica.py", "planner/*.py"),
    "simulate": ("cli/model/simulate.py", "simulation/demand.py", "simulation/settings.py"),
    "predict": ("cli/model/predict.py", "simulation/database.py", "simulation/settings.py"),
}
# Classes that take over what a user gives. A result may have a field of the same name: it says for what it holds.
OF_OPTIONS = ("Settings", "Options", "Arguments", "Goal")
# Values that a question has under the name of a setting: goals, parsed.
DERIVED = {"goals"}
# Ratchets: commands with their groups, and options. An option that a group declares counts once, however many commands below
# it have it. Both only go down; a new command or option takes the place of another, or joins a group's.
MOST_COMMANDS, MOST_OPTIONS = 110, 666


def declarations(source: str, others: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yields the names that a file declares as options: fields of a class of options, parameters with an option in their
    annotation, and keyword parameters of `plan` and its like. `others`: classes that are the settings of other functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and node.name.endswith(OF_OPTIONS) and node.name not in others:
            yield from (ast.unparse(field.target) for field in node.body if isinstance(field, ast.AnnAssign))
        if isinstance(node, ast.FunctionDef):
            yield from (
                part.arg for part in node.args.args if part.annotation and "Annotated" in ast.unparse(part.annotation)
            )
            yield from (part.arg for part in node.args.kwonlyargs if node.name in SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_option_is_declared_once(name):
    others = frozenset(group.__name__ for other, group in SETTINGS.items() if other != name)
    counts = Counter(
        option
        for place in PLACES[name]
        for path in PACKAGE.glob(place)
        for option in declarations(path.read_text(), others)
    )
    assert {setting.name: counts[setting.name] for setting in list_settings(SETTINGS[name])} == {
        setting.name: 1 for setting in list_settings(SETTINGS[name])
    }


def test_a_question_repeats_no_setting():
    names = {setting.name for setting in list_settings(PlanSettings)}
    assert {field.name for field in fields(PlanQuestion)} & names == DERIVED


def test_what_counts_as_a_declaration():
    source = "class PlanSettings:\n    top: int = 3\ndef plan(*, seed): ...\ndef show(a: Annotated[int, option('N')], b: int): ..."
    assert list(declarations(source)) == ["top", "seed", "a"]


def parameters_of(name: str) -> dict[str, TyperOption]:
    """The options of a command by their spelling."""
    command = dict(list_commands())[f"headrace {name}"]
    options = [parameter for parameter in command.params if isinstance(parameter, TyperOption)]
    return {spelled: parameter for parameter in options for spelled in parameter.opts}


@pytest.mark.parametrize("name", SETTINGS)
def test_command_and_docstring_have_every_setting(name):
    parameters, text = parameters_of(name), " ".join((getattr(headrace, name).__doc__ or "").split())
    for setting in list_settings(SETTINGS[name]):
        parameter = parameters[setting.flag]
        assert setting.help in parameter.help and setting.help in text
        if setting.is_number:
            assert (parameter.min, parameter.max) == (setting.option.least, setting.option.most)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_page_can_be_built_from_the_description(name):
    rows = json.loads(json.dumps(describe(SETTINGS[name])))
    assert [row["name"] for row in rows] == [setting.name for setting in list_settings(SETTINGS[name])]
    assert all(row["help"].endswith(".") and row["help"][0].isupper() for row in rows)
    assert all(row["choices"] for row in rows if row["kind"] == "choice")


@pytest.mark.parametrize("name", SETTINGS)
def test_every_number_has_a_range_and_the_range_is_checked(name):
    """At both ends of its range a value is taken, beyond them it is refused by name."""
    group = SETTINGS[name]
    numbers = [setting for setting in list_settings(group) if setting.is_number and setting.option.most is not None]
    assert numbers
    for setting in numbers:
        low, high = setting.option.least, setting.option.most
        for value in (low, high):
            taken = int(value) if setting.kind == "whole" else value
            assert getattr(complete(group(**{setting.name: taken})), setting.name) == value
        for value in (low - 1, high * 2):
            with pytest.raises(InputError, match=setting.name):
                complete(group(**{setting.name: int(value) if setting.kind == "whole" else value}))


def test_a_value_holds_where_none_is_given():
    filled = complete(PlanSettings(hours=2))
    assert (filled.hours, filled.draws, filled.start, filled.confidence) == (2.0, 32, "warm", 0.8)
    assert isinstance(filled.hours, float)


def test_names_are_spelled_as_options():
    flags = {setting.name: setting.flag for setting in list_settings(PlanSettings)}
    assert flags["goals"] == "--goal" and flags["free_percent"] == "--free-percent"


def test_commands_and_options_become_fewer():
    entries = list(walk_commands())
    options = sum(len(list_own_options(command, above)) for _, command, above in entries)
    counts = len(entries) - 1, options  # `headrace` itself is no command
    assert counts <= (MOST_COMMANDS, MOST_OPTIONS) and options <= MOST_OPTIONS, "share an option, or merge a command"
    assert counts == (MOST_COMMANDS, MOST_OPTIONS), "write the lower count into this file"
