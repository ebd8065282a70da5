"""Checks the settings and the version of the server in a run description."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

import msgspec

from headrace.base.checks import check_choice, check_text, quote_value, suggest_nearest
from headrace.base.documents import convert
from headrace.base.packaged import read_rows
from headrace.errors import InputError, Refusals
from headrace.observe.series import DOC

ENGINES = ("innodb", "myrocks")
FLAVORS = ("mysql", "percona", "mariadb")

KINDS: dict[str, type] = {"whole": int, "number": float, "switch": bool}


class RunSetting(NamedTuple):
    """A setting of a run description: the engine that has it (None: both), its meaning, type and
    range, and the server's variable with its value ("": there is none), of which `unit` are one of
    the setting."""

    engine: str | None
    meaning: str
    kind: type
    least: float
    most: float
    variable: str = ""
    unit: int = 1


def _parse_figure(text: str) -> float:
    return int(text) if text.isdigit() else float(text)


# Settings of the machine, by name, as fields of RunSetting.
OF_MACHINE: dict[str, tuple[str | None, str, type, float, float]] = {
    "threads_per_core": (None, "virtual CPUs that share a core, where no instance says it", int, 1, 2),
    "vcpus": (None, "virtual CPUs the server may use", int, 1, 2_048),
    "io_cpu_us": ("innodb", "processor time of an I/O, microseconds", float, 0, 1e4),
}
# Processor time of an I/O on the lab, microseconds: 30 on the way through loop device, FUSE and
# daemon (66,000 a second on two processors, a trial of the lab in 2026), the rest in the server.
# Three runs of MariaDB 10.11 took 4.9 to 5.8 ms a transaction of 33 I/Os (166 to 181 a second, 2
# processors, 2026-11-28), and 1.8 are the standard's in memory: 90 to 120 for each.
LAB_IO_CPU_US = 100.0

PAGES_KIB = (4, 8, 16, 32, 64)  # MySQL manual, innodb_page_size
VERSION_TEXT = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.\d{1,5})?(?:[-+~. ][\x20-\x7e]{0,80})?\Z", re.ASCII)
refuse_settings = Refusals(f"{DOC}, Settings")
refuse_versions = Refusals(f"{DOC}, Versions")


# All settings, by name. Ranges: MySQL 9 and MariaDB 12 manuals, and RocksDB's own.
SETTINGS = {
    row["name"]: RunSetting(
        row["engine"] or None,
        row["meaning"],
        KINDS[row["kind"]],
        _parse_figure(row["least"]),
        _parse_figure(row["most"]),
        row["variable"],
        int(row["unit_of_variable"] or 1),
    )
    for row in read_rows("headrace.observe", "settings.csv")
} | {name: RunSetting(*row) for name, row in OF_MACHINE.items()}


def check_settings(table: dict, engine: str) -> dict[str, float | int | bool]:
    """Returns the [settings] table once each name, type and range is checked. Raises InputError."""
    checked = {}
    for key, value in table.items():
        if key not in SETTINGS:
            near = suggest_nearest(key.removeprefix("innodb_").removeprefix("rocksdb_"), SETTINGS)
            rule = "is not a setting known here"
            raise refuse_settings.input(f"settings.{key[:60]}", rule, near or f"Known: {', '.join(SETTINGS)}.")
        owner, meaning, kind, low, high, *_ = SETTINGS[key]
        if owner not in (None, engine):
            hint = "Take it out."
            raise refuse_settings.input(
                f"settings.{key}", f"is a setting of {owner}, and this run is of {engine}", hint
            )
        span = (
            "true or false"
            if kind is bool
            else f"{'a whole number from ' if kind is int else ''}{low:,.10g} to {high:,.10g}"
        )
        rule = msgspec.Meta(extra={"rule": f"must be {span} ({meaning})"})
        checked[key] = convert(value, Annotated[kind, rule], source=refuse_settings.source, at=f"settings.{key}")
        if not low <= checked[key] <= high:
            raise refuse_settings.input(f"settings.{key} = {quote_value(value, 40)}", f"must be {span} ({meaning})")
    if checked.get("io_capacity_max", 2**64) < checked.get("io_capacity", 0):
        rule = f"cannot be below io_capacity = {checked['io_capacity']}"
        value = f"settings.io_capacity_max = {checked['io_capacity_max']}"
        raise InputError(value, rule, "MySQL manual, innodb_io_capacity_max", "Are the two swapped?")
    if engine == "myrocks" and checked.get("flush_log_at_trx_commit") == 3:
        hint = "3 is InnoDB's in MariaDB."
        raise refuse_settings.input(
            "settings.flush_log_at_trx_commit = 3", "rocksdb_flush_log_at_trx_commit is 0, 1 or 2", hint
        )
    if checked.get("page_kib", 16) not in PAGES_KIB:
        raise InputError(
            f"settings.page_kib = {checked['page_kib']}", "must be 4, 8, 16, 32 or 64", "MySQL manual, innodb_page_size"
        )
    return checked


def check_version(version: object, flavor: object, engine: str) -> tuple[str | None, str | None]:
    """Returns (engine_version, flavor) as given; the flavor is filled in where the version names
    MariaDB.

    Raises InputError.
    """
    flavor = None if flavor is None else check_choice("flavor", flavor, FLAVORS, refuse_versions)
    if flavor == "mysql" and engine == "myrocks":
        hint = "It is in percona and mariadb; leave flavor out for another build."
        raise refuse_versions.input('flavor = "mysql" with engine = "myrocks"', "Oracle's MySQL has no MyRocks", hint)
    if version is None:
        return None, flavor
    version = check_text("engine_version", version, 'Put it in quotes: "5.7.22".', refuse_versions)
    what = f"engine_version = {quote_value(version)}"
    if "aurora" in version.lower():
        hint = "It cannot be calibrated here."
        raise refuse_versions.input(what, "Aurora keeps its data in storage of its own, not on EBS volumes", hint)
    match = VERSION_TEXT.match(version)
    if not match:
        hint = 'Write it as SELECT VERSION() does, for example "8.0.36".'
        raise refuse_versions.input(what, "is not a version number", hint)
    major, minor = int(match[1]), int(match[2])
    server = flavor or ("mariadb" if "mariadb" in version.lower() or 10 <= major <= 12 else None)
    if server == "mariadb":
        _check_mariadb_version(what, major, minor, engine)
    else:
        _check_mysql_version(what, major, minor, engine)
    return version, server


def _check_mysql_version(what: str, major: int, minor: int, engine: str) -> None:
    """Raises InputError for a version of MySQL or Percona Server that is not supported, or lacks
    MyRocks."""
    supported = (major == 5 and minor in (5, 6, 7)) or (major == 8 and minor <= 4) or major == 9
    if not supported:
        rule = f"MySQL and Percona Server {major}.{minor} is not known here; known are 5.5 to 5.7, 8.0 to 8.4 and 9"
        raise refuse_versions.input(what, rule, 'Check the number; for MariaDB (10 to 12) say flavor = "mariadb".')
    if engine == "myrocks" and (major, minor) == (5, 5):
        raise refuse_versions.input(what, "there is no MyRocks for 5.5", "Check engine and engine_version.")


def _check_mariadb_version(what: str, major: int, minor: int, engine: str) -> None:
    """Raises InputError for a version of MariaDB that is not supported, or lacks MyRocks."""
    if not 10 <= major <= 12:
        rule = f"MariaDB {major}.{minor} is not known here; known are 10 to 12"
        raise refuse_versions.input(what, rule, "Check engine_version and flavor.")
    if engine == "myrocks" and (major, minor) < (10, 2):
        raise refuse_versions.input(what, "MariaDB has MyRocks since 10.2", "Check engine and engine_version.")


# sysbench 1.0: its OLTP scripts, its --rand-type, and the defaults of the options that shape it
# (sysbench --help).
_SCRIPTS = """
oltp_read_write oltp_read_only oltp_write_only oltp_point_select oltp_update_index
oltp_update_non_index oltp_insert oltp_delete select_random_points select_random_ranges bulk_insert
"""
SCRIPTS = tuple(_SCRIPTS.split())
# parameter: (default, lowest, highest)
DISTRIBUTIONS: dict[str, dict[str, tuple[float, float, float]]] = {
    "uniform": {},
    "gaussian": {},
    "special": {"rand_spec_pct": (1.0, 0.0, 100.0), "rand_spec_res": (75.0, 0.0, 100.0)},
    "pareto": {"rand_pareto_h": (0.2, 1e-6, 1.0)},
    "zipfian": {"rand_zipfian_exp": (0.8, 0.0, 10.0)},
}
