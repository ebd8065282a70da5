"""Plugins of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import CouldNotRun
from headrace.mysql.statements import ask_row, run

if TYPE_CHECKING:
    import pymysql


def load_plugin(connection: pymysql.Connection, name: str, file: str, server: str) -> None:
    """Loads a plugin permanently, unless it is loaded. Raises CouldNotRun."""
    row = ask_row(connection, f"SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = '{name}'")
    if row and row[0] == "ACTIVE":
        return
    try:
        run(connection, (f"INSTALL PLUGIN {name} SONAME '{file}'",))
    except CouldNotRun as error:
        hint = "Start it once with --set plugin-load-add=" + file
        raise CouldNotRun(server, f"cannot load {file}: {error.rule}", error.source, hint) from None
