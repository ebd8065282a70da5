"""The environment variables that Headrace reads: one table with each name, its default and its
meaning.

>>> from headrace.base import settings
>>> settings.folder("HEADRACE_SERVERS")
PosixPath('/opt/headrace/servers')
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# The placeholder in a default for a folder that is looked up while running.
DATA_HOME = "$XDG_DATA_HOME"


@dataclass(frozen=True)
class Variable:
    """A variable of the environment. `default`: "" without one. `secret`: never shown."""

    name: str
    default: str
    meaning: str
    secret: bool = False


VARIABLES = {
    variable.name: variable
    for variable in (
        Variable(
            "HEADRACE_LAB", "/var/lib/headrace", "data directory of the lab, or its socket (a path that ends in .sock)"
        ),
        Variable("HEADRACED", "", "the daemon's program; else headraced in the folder of this Python, or in PATH"),
        Variable("HEADRACE_SERVERS", "/opt/headrace/servers", "where `headrace mysql install` unpacks servers"),
        Variable("HEADRACE_DEBIAN_MIRROR", "http://deb.debian.org/debian", "where MySQL's packages are fetched from"),
        Variable("HEADRACE_RUNS", f"{DATA_HOME}/headrace/runs", "where runs of benchmarks are kept"),
        Variable("HEADRACE_PROOFS", f"{DATA_HOME}/headrace/proofs", "where proofs are kept"),
        Variable("HEADRACE_FORECASTS", f"{DATA_HOME}/headrace/forecasts.jsonl", "the file of forecasts that were made"),
        Variable("HEADRACE_MYSQL_PASSWORD", "", "password of an address that has none of its own", secret=True),
        Variable(
            "HEADRACE_PROMETHEUS_TOKEN",
            "",
            "bearer token of a `prometheus:` target; a password comes from ~/.netrc",
            secret=True,
        ),
        Variable("HEADRACE_DEBUG", "", "anything: a defect of Headrace shows its traceback"),
        # XDG Base Directory Specification 0.8: an empty value counts as none.
        Variable("XDG_DATA_HOME", "~/.local/share", "what the folders and the file above stand in by default"),
    )
}


def given(name: str) -> str | None:
    """Returns the value in the environment; None if the variable is missing or empty."""
    return os.environ.get(VARIABLES[name].name) or None


def value(name: str) -> str:
    """Returns the value in the environment, else the default."""
    own_value = given(name)
    if own_value is not None:
        return own_value
    default = VARIABLES[name].default
    return default.replace(DATA_HOME, value("XDG_DATA_HOME")) if DATA_HOME in default else os.path.expanduser(default)


def folder(name: str) -> Path:
    """Returns the same as an absolute path."""
    return Path(os.path.abspath(value(name)))


def in_words() -> list[tuple[str, str, str]]:
    """Returns name, value and meaning of each variable, for `headrace lab doctor`; no secrets."""
    rows = []
    for variable in VARIABLES.values():
        shown = "set" if variable.secret and given(variable.name) else value(variable.name)
        origin = "" if given(variable.name) else " (default)"
        rows.append((variable.name, f"{shown}{origin}" if shown else "not set", variable.meaning))
    return rows
