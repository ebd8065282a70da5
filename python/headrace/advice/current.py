"""Today's settings: of a live server, or of the option file it is started with; and what is wrong with them."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

from headrace.advice.model import DOC, Finding, Server, server_of
from headrace.advice.table import ids_by_name, sources
from headrace.advice.values import as_number, is_on
from headrace.base.checks import did_you_mean
from headrace.connect import Address, connect
from headrace.connect.option_files import SOURCE, OptionFile, Setting, read_option_file, server_groups
from headrace.errors import CouldNotRun, InputError

ANSWER_S = 10.0


@dataclass(frozen=True)
class Current:
    """`values`: what the server has, by variable name (underscores, lower case); of an option file only what it sets. `label`: for people, without secrets."""

    server: Server
    values: dict[str, str] = field(repr=False)
    label: str
    file: OptionFile | None = field(default=None, repr=False)


def read_server(address: Address) -> Current:
    """Version and global variables of a live server; any account may ask for both. Raises InputError, CouldNotRun."""
    import pymysql

    connection = connect(address, timeout_s=ANSWER_S)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT VERSION(), @@GLOBAL.version_comment")
            version, comment = (str(part) for part in cursor.fetchone())
            cursor.execute("SHOW GLOBAL VARIABLES")
            values = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
    except (pymysql.err.MySQLError, OSError) as error:
        said = str(error.args[-1] if error.args else error)[:200]
        raise CouldNotRun(address.label, f"the server did not answer: {said}", DOC, "Does it still run? See its error log.") from None
    finally:
        connection.close()
    return Current(server_of(flavor_of(version, comment), version), values, f"{address.label}, {version}")


def flavor_of(version: str, comment: str) -> str:
    """The flavor of a server by what it says of itself. Raises InputError for Aurora, whose storage is no EBS volume."""
    said = f"{version} {comment}".lower()
    if "aurora" in said:
        raise InputError(version, "Aurora keeps its data in storage of its own, not on EBS volumes", DOC, "Its settings are not for here.")
    return "mariadb" if "mariadb" in said else "percona" if "percona" in said else "mysql"


def read_file(path: str | os.PathLike, server: Server) -> Current:
    """What an option file sets for a server. Raises InputError, CouldNotRun."""
    found = read_option_file(path, server_groups(server.flavor, server.version))
    values = {setting.name: setting.text for setting in found.settings if (gone(setting.name, server) or {}).get("then") != "refused"}
    return Current(server, values, str(path), found)


# Taken where nobody says which server: the long-term releases of 2026.
ASSUMED = {"mysql": "8.4", "mariadb": "11.8", "percona": "8.4"}


def todays(
    address: Address | None, config: str | os.PathLike | None, flavor: str | None, version: str | None
) -> tuple[Current, list[str], bool]:
    """The server advised for, with what must be said of the choice, and whether its settings of today are known.

    A live server says itself what it is; `config` beside it is then only what a diff changes. Without one, `flavor` and `version`, else what the groups of the option file
    let guess. Raises InputError, CouldNotRun.
    """
    if address is not None:
        if flavor is not None or version is not None:
            raise InputError("--flavor, --server-version", "are what the server says itself", DOC, "Leave them out, or the address.")
        live = read_server(address)
        return (live if config is None else replace(live, file=read_file(config, live.server).file)), [], True
    notes = []
    if flavor is None:
        flavor = (
            "mariadb"
            if version and _is_mariadb(version) or (not version and config is not None and _has_mariadb_groups(config))
            else "mysql"
        )
    if version is None:
        version = ASSUMED.get(flavor, "")
        server_of(flavor, version or "8.4")
        notes.append(f"no --server-version: names and defaults are those of {server_of(flavor, version).label}")
    server = server_of(flavor, version)
    if not server.patch_known and version not in ASSUMED.values():
        notes.append(f"{version} without a patch number: the newest of that series is meant")
    if config is None:
        return Current(server, {}, server.label), notes, False
    return read_file(config, server), notes, True


def _is_mariadb(version: str) -> bool:
    return "mariadb" in version.lower() or version.split(".")[0] in ("10", "11")


def _has_mariadb_groups(config: str | os.PathLike) -> bool:
    return any(
        setting.group.startswith("mariadb") for setting in read_option_file(config, ("mariadb", "mariadbd", *_mariadb_series())).settings
    )


def _mariadb_series() -> list[str]:
    return [
        f"{name}-{series}"
        for name in ("mariadb", "mariadbd")
        for series in (*(f"10.{minor}" for minor in range(2, 12)), *(f"11.{minor}" for minor in range(10)))
    ]


@cache
def _gone() -> dict[str, list[dict]]:
    rows: dict[str, list[dict]] = {}
    for row in csv.DictReader((files(__package__) / "gone.csv").read_text(encoding="utf-8").splitlines()):
        rows.setdefault(row["name"], []).append(row)
    return rows


def gone(name: str, server: Server) -> dict | None:
    """What became of a setting this server no longer (or never) knew: `then` (refused, ignored, deprecated), `instead`, `last`, `source`. None: nothing is known against it."""
    flavor = "mysql" if server.flavor == "percona" else server.flavor
    past = [row for row in _gone().get(name, []) if row["flavor"] == flavor and (row["last"] == "" or not server.between("0", row["last"]))]
    return max(past, key=lambda row: tuple(int(part) for part in row["last"].split(".")) if row["last"] else (0,), default=None)


# MySQL from 8.0.30 on makes the redo capacity of these, as long as innodb_redo_log_capacity is not set itself (manual, "Redo Log").
OLD_REDO = ("innodb_log_file_size", "innodb_log_files_in_group")


def standing(setting: Setting, current: Current) -> dict | None:
    """What the server of an option file does with one of its settings, as `gone` says of names: the old sizes of the redo log still count where nothing takes their place."""
    row = gone(setting.name, current.server)
    if row is not None and row["then"] == "ignored" and setting.name in OLD_REDO and "innodb_redo_log_capacity" not in current.values:
        return row | {"then": "deprecated"}
    return row


@cache
def _options() -> frozenset[str]:
    """Names of options of MySQL and MariaDB, all versions together: of real servers (tests/unit/data/server_options.csv: MariaDB 10.2 to 11.8, MySQL 9.7) and of the manuals'
    pages of variables, as the project mariadb-mysql-kbs 1.3.0 collects them; and of the tables of the advice."""
    listed = (files(__package__) / "options.txt").read_text(encoding="utf-8").split()
    return frozenset((*listed, *_gone(), *ids_by_name()))


def unknown(setting: Setting) -> bool:
    """Whether no server known here has such an option. Left alone: loose ones, those of components and named caches (with a point), and beginnings of names, which servers
    complete."""
    name = setting.name
    return not (setting.loose or "." in name or any(known.startswith(name) for known in _options()))


def doomed(name: str, server: Server) -> bool:
    """Whether a later release of the flavor refuses a setting: one that says the default had better be left out."""
    flavor = "mysql" if server.flavor == "percona" else server.flavor
    return any(row["flavor"] == flavor and row["then"] == "refused" for row in _gone().get(name, []))


def findings(current: Current) -> list[Finding]:
    """Settings of an option file the server refuses or ignores, and settings of today that can lose data."""
    found = []
    for setting in current.file.settings if current.file else ():
        row = standing(setting, current)
        if row is None and unknown(setting):
            found.append(_not_known(setting, current.server))
        if row is None or (setting.loose and row["then"] == "refused"):
            continue  # loose: passed over, as its writer wanted
        instead = f"; its successor is {row['instead']}" if row["instead"] else ""
        does = {"refused": "does not know it and does not start", "ignored": "ignores it", "deprecated": "still takes it, but will not"}[
            row["then"]
        ]
        found.append(
            Finding(setting.name, f"{current.server.label} {does}{instead} ({setting.file}, line {setting.line})", sources()[row["source"]])
        )
    return found + _lossy(current.values)


def _not_known(setting: Setting, server: Server) -> Finding:
    hint = did_you_mean(setting.name, _options())
    text = f"is no option of MySQL or MariaDB known here: {server.label} does not start with an option it does not know ({setting.file}, line {setting.line})"
    return Finding(setting.name, f"{text}. {hint}" if hint else text, SOURCE)


def _lossy(values: dict[str, str]) -> list[Finding]:
    """What today's settings can lose."""
    manual, found = sources()["mysql-manual"], []
    for name in ("innodb_flush_log_at_trx_commit", "rocksdb_flush_log_at_trx_commit"):
        at_commit = as_number(values.get(name))
        if at_commit in (0.0, 2.0, 3.0):
            # MyRocks keeps its log in the server's own memory at 2 as well (measured: docs/reference/durability.md).
            who = "of the server or the machine" if at_commit == 0.0 or name.startswith("rocksdb") else "of the machine"
            found.append(Finding(name, f"is {values[name]}: a crash {who} loses up to about a second of commits", manual))
    synced = as_number(values.get("sync_binlog"))
    logs = values.get("log_bin", "1").strip().lower() not in ("0", "off")
    if synced is not None and synced != 1.0 and logs:
        lost = "what the kernel had not written of the binlog" if synced == 0.0 else f"up to {synced:,.0f} commit groups of the binlog"
        found.append(Finding("sync_binlog", f"is {values['sync_binlog']}: a crash of the machine loses {lost}", manual))
    doublewrite = values.get("innodb_doublewrite")
    if doublewrite is not None and not is_on(doublewrite):
        found.append(Finding("innodb_doublewrite", f"is {doublewrite}: a page torn by a crash cannot be mended", manual))
    return found
