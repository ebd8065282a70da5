"""The environment variables that Headrace reads, from variables.csv: name, default and meaning.

>>> from headrace.base import settings
>>> settings.get_folder("HEADRACE_SERVERS")
PosixPath('/opt/headrace/servers')
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headrace.base.packaged import read_rows

# The placeholder in a default for a folder that is looked up while running.
DATA_HOME = "$XDG_DATA_HOME"


@dataclass(frozen=True)
class Variable:
    """A variable of the environment. `default`: "" without one. `secret`: never shown."""

    name: str
    default: str
    meaning: str
    secret: bool = False


# XDG Base Directory Specification 0.8: an empty value counts as none.
VARIABLES = {
    row["name"]: Variable(row["name"], row["default"], row["meaning"], bool(row["secret"]))
    for row in read_rows("headrace.base", "variables.csv")
}


def find_value(name: str) -> str | None:
    """Returns the value of a variable in the environment; None if it is missing or empty."""
    return os.environ.get(VARIABLES[name].name) or None


def get_value(name: str) -> str:
    """Returns the value in the environment, else the default with ~ and folders filled in."""
    own_value = find_value(name)
    if own_value is not None:
        return own_value
    default = VARIABLES[name].default
    return (
        default.replace(DATA_HOME, get_value("XDG_DATA_HOME")) if DATA_HOME in default else os.path.expanduser(default)
    )


def get_folder(name: str) -> Path:
    """Returns the value of a variable, or its default, as an absolute path."""
    return Path(os.path.abspath(get_value(name)))


def describe_variables() -> list[tuple[str, str, str]]:
    """Returns name, value (of a secret: `set`) and meaning of each variable."""
    rows = []
    for variable in VARIABLES.values():
        value = "set" if variable.secret and find_value(variable.name) else get_value(variable.name)
        origin = "" if find_value(variable.name) else " (default)"
        rows.append((variable.name, f"{value}{origin}" if value else "not set", variable.meaning))
    return rows
