"""Settings of the server whose effect the model knows, as `--set NAME=VALUE` takes them, and a
database under them.

>>> import headrace
>>> shop = headrace.sysbench_oltp(cache_gib=4, threads=8, tables=8, table_size=10_000_000)
>>> headrace.with_settings(shop, ["innodb_doublewrite=OFF"]).database["writes"]["doublewrite"]
False
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.base import core
from headrace.base.checks import check_whole, quote_value, suggest_nearest
from headrace.base.core import translate_core_errors
from headrace.base.options import FALSE, TRUE, as_bytes
from headrace.base.packaged import read_rows
from headrace.errors import InputError, Refusals
from headrace.workload.transactions import TransactionWorkload

refuse = Refusals("docs/reference/workload-file.md, Settings of the server")


@dataclass(frozen=True)
class ServerSetting:
    """A setting of the server that the model has: its names in the server, in a run description
    (`short`) and in the core, its engine (None: both), the function that reads its value (None for
    a wrong one), its largest value if it is a count, and an example."""

    name: str
    short: str
    core: str
    engine: str | None
    read: Callable[[str], float | int | bool | None]
    most: int | None
    example: str


def _parse_count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _parse_percent(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,2}(\.\d{1,6})?", text) else None


def _parse_switch(text: str) -> bool | None:
    word = text.lower()
    return True if word in TRUE else False if word in FALSE else None


REDO_FILE_SIZE = "innodb_log_file_size"
# innodb_log_files_in_group: 2 by default in MySQL up to 8.0.29; MariaDB has one file from 10.5 on.
REDO_FILES = 2

READERS: dict[str, Callable[[str], float | int | bool | None]] = {
    "bytes": as_bytes,
    "count": _parse_count,
    "percent": _parse_percent,
    "switch": _parse_switch,
}
SETTINGS = [
    ServerSetting(
        row["name"],
        row["short"],
        row["core"],
        row["engine"] or None,
        READERS[row["kind"]],
        int(row["most"]) if row["most"] else None,
        row["example"],
    )
    for row in read_rows("headrace.workload", "server_settings.csv")
]


def with_settings(workload: TransactionWorkload, settings: Sequence[str]) -> TransactionWorkload:
    """Returns the workload on a server with other settings, each `NAME=VALUE` as in an option file;
    the others stay as measured. Raises InputError for a setting whose effect the model does not
    know."""
    if isinstance(settings, str):
        hint = 'For example ["sync_binlog=1"].'
        raise refuse.input(f"settings = {quote_value(settings)}", "must be a list of NAME=VALUE", hint)
    given: dict[str, float | int | bool] = {}
    for text in settings:
        setting, value = read_setting(text, workload.engine)
        if setting.core in given:
            raise refuse.input(quote_value(text), f"{setting.name} was given before", "Give it once.")
        given[setting.core] = value * _get_redo_file_count(workload) if setting.name == REDO_FILE_SIZE else value
    if "redo_bytes" in given and workload.database["log"].get("redo_capacity_bytes") is None:
        rule = "has no effect that could be told: the redo log that this workload was measured with is not known"
        hint = "Write redo_gib into [settings] of the run description and calibrate again."
        raise refuse.input("innodb_redo_log_capacity or innodb_log_file_size", rule, hint)
    background = workload.database["writes"]["background_per_s"] or workload.database.get("cleaner")
    if "io_capacity" in given and workload.database.get("dirtying") is not None and not background:
        rule = "has no effect that could be told: this workload's pages are followed, and one that is written early is not written later"
        raise refuse.input("innodb_io_capacity", rule, "Leave it out.")
    _check_order(given)
    _check_commit(given, workload.server.flavor)
    return replace(workload, database=apply_server_settings(workload.database, given)) if given else workload


def _get_redo_file_count(workload: TransactionWorkload) -> int:
    return 1 if workload.server.flavor == "mariadb" else REDO_FILES


def read_setting(text: str, engine: str) -> tuple[ServerSetting, float | int | bool]:
    """Returns the setting that a `NAME=VALUE` names, and its value. Raises InputError."""
    name, equals, value = (part.strip() for part in str(text).partition("="))
    word = name.lower().replace("-", "_")
    of_engine = [setting for setting in SETTINGS if setting.engine in (None, engine)]
    setting = next((setting for setting in of_engine if word in (setting.name, setting.short)), None)
    if setting is None or not equals:
        names = [setting.name for setting in of_engine]
        listed = f"The model knows {', '.join(names)}."
        rule = f"is not a setting of {engine} whose effect the model knows" if equals else "must be NAME=VALUE"
        raise refuse.input(quote_value(name if equals else text), rule, suggest_nearest(word, names) or listed)
    read = setting.read(value)
    if read is None:
        raise refuse.input(f"{name}={value[:40]}", f"must be a value such as {setting.example}")
    return setting, read if setting.most is None else check_whole(name, read, 0, setting.most, refuse)


def apply_server_settings(database: Mapping[str, object], settings: Mapping[str, object]) -> dict[str, Any]:
    """Returns a core database under settings by their core names; a setting of None is left as it
    is. Raises InputError."""
    with translate_core_errors():
        return dict(core.database_under(database, settings))


def _check_commit(given: Mapping[str, Any], flavor: str | None) -> None:
    """Raises InputError for innodb_flush_log_at_trx_commit = 3, a value of MariaDB alone, on a
    MySQL server."""
    if flavor in ("mysql", "percona") and given.get("flush_log_at_trx_commit") == 3:
        value, rule = "innodb_flush_log_at_trx_commit=3", "is a value of MariaDB alone: MySQL takes 0, 1 or 2"
        raise InputError(value, rule, "MySQL manual, innodb_flush_log_at_trx_commit", "Take 1 for the same safety.")


def _check_order(given: Mapping[str, Any]) -> None:
    """Raises InputError if innodb_io_capacity_max is below innodb_io_capacity."""
    most, least = given.get("io_capacity_max"), given.get("io_capacity", 0)
    if most is not None and most < least:
        rule = f"cannot be below innodb_io_capacity = {least}"
        hint = "Are the two swapped?"
        raise InputError(f"innodb_io_capacity_max={most}", rule, "MySQL manual, innodb_io_capacity_max", hint)
