"""Reads the settings that a browser sends by their options, and writes the equal command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.base.checks import quote_value, suggest_nearest
from headrace.base.options import OptionField, list_settings
from headrace.errors import InputError, Refusals

refuse = Refusals("docs/guide/page.md")


def read_settings(group: type, given: Mapping[str, object]) -> dict[str, object]:
    """Returns settings of a dataclass of options by name, as its function takes them. `given`: as
    JSON has them; null leaves one at its default. A file is never named by a browser. Raises
    InputError."""
    settings = {setting.name: setting for setting in list_settings(group) if setting.kind != "file"}
    values: dict[str, object] = {}
    for name, value in given.items():
        if name not in settings:
            raise refuse.input(quote_value(name), "is not a setting of this view", suggest_nearest(name, settings))
        if value is not None:
            values[name] = read_value(settings[name], value)
    return values


def read_value(setting: OptionField, value: object) -> object:
    """Returns a value of JSON in the type of its setting. Raises InputError."""
    if setting.many:
        if not isinstance(value, list):
            raise _refuse(setting, value, "a list")
        return [read_value(replace(setting, many=False), item) for item in value]
    if setting.is_number:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _refuse(setting, value, "a number")
        if setting.kind == "whole" and value != int(value):
            raise _refuse(setting, value, "a whole number")
        return int(value) if setting.kind == "whole" else float(value)
    if setting.kind == "switch":
        if not isinstance(value, bool):
            raise _refuse(setting, value, "true or false")
        return value
    if not isinstance(value, str):
        raise _refuse(setting, value, "text")
    return value


def _refuse(setting: OptionField, value: object, kind: str) -> InputError:
    return refuse.input(f"{setting.name} = {quote_value(value)}", f"must be {kind}")


def spell_settings(group: type, values: Mapping[str, object]) -> list[str]:
    """Returns the options of a command line with these settings, without those at their default."""
    arguments: list[str] = []
    for setting in list_settings(group):
        value = values.get(setting.name)
        if value is None or value == setting.default:
            continue
        if isinstance(value, bool):
            arguments.append(setting.flag if value else f"--no-{setting.flag.removeprefix('--')}")
        elif isinstance(value, list):
            texts = [str(item) for item in value]
            for text in [",".join(texts)] if setting.option.commas and texts else texts:
                arguments += [setting.flag, text]
        else:
            arguments += [setting.flag, _spell_number(value)]
    return arguments


def _spell_number(value: object) -> str:
    """Writes the shortest text that reads back as the same value: 20 and not 20.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def spell_command(arguments: Sequence[str]) -> str:
    """Returns the `headrace` command with these arguments, quoted for a shell."""
    return shlex.join(["headrace", *arguments])
