"""Settings that a restored server takes from its source: durability, the binary log, and how data
are written and read. Settings of speed and memory depend on the new machine, and are not taken.

A backup records them. A restored server is started with those that its program knows, and the
remaining differences are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.base.packaged import read_rows
from headrace.mysql.statements import SqlConnection
from headrace.servers.copies.source import fetch_rows
from headrace.servers.flavors import ServerProgram, replace_underscores

# Variables by what they are about; where one server has no such variable, it is left out. `option`:
# of the variable, where it has another name; `newer`: the name that counts where a server has both.
# Those "named alone" are recorded and only named where they differ: they need keys or replicas that
# a new server has not, start what a copy must not run by itself, or are Headrace's own to set.
# MySQL 9.7 and MariaDB 10.11 manuals, "Server System Variables", "Binary Logging Options", "InnoDB
# Startup Options".
_ROWS = read_rows("headrace.servers.backup", "settings.csv")
RECORDED = tuple(row["name"] for row in _ROWS)
TAKEN = {row["name"] for row in _ROWS if row["part"] != "named alone"}
OPTIONS = {row["name"]: row["option"] for row in _ROWS if row["option"]}
OLDER = {row["newer"]: row["name"] for row in _ROWS if row["newer"]}
# Zones that need no tables of zones, which a new server has not loaded.
PLAIN_ZONE = re.compile(r"SYSTEM|[+-]\d\d?:\d\d", re.ASCII)


@dataclass(frozen=True)
class OtherSetting:
    """A setting of a restored server that differs from its source's. `source`: the source's value;
    `here`: the restored server's, None if it has no such setting."""

    name: str
    source: str
    here: str | None

    @property
    def words(self) -> str:
        """The difference in words, for the user."""
        here = "no such setting here" if self.here is None else f"{self.here or 'nothing'} here"
        return f"{self.name}: {self.source or 'nothing'} in the source, {here}"


def read_settings(connection: SqlConnection) -> dict[str, str]:
    """Returns a server's values of the settings that a backup records, by variable; where it has
    two names of one setting, the newer. Raises CouldNotRun."""
    names = ", ".join(f"'{name}'" for name in RECORDED)
    rows = fetch_rows(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    values = {str(name): str(value) for name, value in rows}
    doubled = {OLDER[name] for name in values.keys() & OLDER.keys()}
    return {name: value for name, value in values.items() if name not in doubled}


def as_options(program: ServerProgram, settings: Mapping[str, str], given: Iterable[str]) -> dict[str, str | None]:
    """Returns the options that start a server with the settings of its source, without those that
    its program does not know or has as defaults, and without the user's own (`given`)."""
    own = {str(name).replace("-", "_") for name in given}
    options: dict[str, str | None] = {}
    for name, value in settings.items():
        option = OPTIONS.get(name, name)
        if name not in TAKEN or {name, option} & own or not value.isprintable():
            continue
        if not program.knows(option) or _is_alike(program.defaults[replace_underscores(option)], value):
            continue
        if name == "time_zone" and not PLAIN_ZONE.fullmatch(value):
            continue
        options[option] = value
    return options


def _is_alike(default: str | None, value: str) -> bool:
    """True if a program's default, as --help prints it, equals a value of SHOW VARIABLES."""
    return {"TRUE": "ON", "FALSE": "OFF"}.get(default or "", default or "") == value


def list_differences(
    connection: SqlConnection, settings: Mapping[str, str], given: Iterable[str]
) -> list[OtherSetting]:
    """Lists the settings of a restored server that differ from `settings`, its source's, without
    the user's own (`given`). Raises CouldNotRun."""
    own = {str(name).replace("-", "_") for name in given}
    here = read_settings(connection)
    return [
        OtherSetting(name, value, here.get(name))
        for name, value in sorted(settings.items())
        if here.get(name) != value and not {name, OPTIONS.get(name, name)} & own
    ]
