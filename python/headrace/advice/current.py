"""Today's settings, of a live server or of its option file, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from headrace.advice.model import ConfigFinding, ServerVersion, parse_server, refuse
from headrace.advice.table import index_names, sources
from headrace.advice.values import as_bytes, as_number, is_on
from headrace.base.checks import suggest_nearest
from headrace.base.packaged import read_rows, read_text
from headrace.base.releases import NEWEST_PATCH, describe_newest, detect_flavor, split_release
from headrace.base.units import MIB
from headrace.mysql import Address, connect
from headrace.mysql.option_files import OptionFile, Setting, list_server_groups, read_option_file
from headrace.mysql.option_files import refuse as refuse_option_files
from headrace.mysql.statements import ask_pairs, ask_row

ANSWER_S = 10.0  # a guess: a server that is alive answers within milliseconds
# Taken where nobody says which server: the long-term releases of 2026.
ASSUMED = {"mysql": "8.4", "mariadb": "11.8", "percona": "8.4"}
# From 8.0.30 on MySQL derives the redo capacity from these, as long as innodb_redo_log_capacity is
# not set itself (manual, "Redo Log").
OLD_REDO = ("innodb_log_file_size", "innodb_log_files_in_group")
TREATMENTS = {  # what a server does with a setting, by `then` of gone.csv
    "refused": "does not know it and does not start",
    "ignored": "ignores it",
    "deprecated": "still takes it, but a later release will not",
}


def describe_since(row: Mapping[str, str]) -> str:
    """Returns since when a row of gone.csv holds, in words: "since 8.0.35", "after 10.11"."""
    series, _, patch = row["last"].rpartition(".")
    return f"since {series}.{int(patch) + 1}" if series.count(".") == 1 else f"after {row['last']}"


@dataclass(frozen=True)
class CurrentSettings:
    """The settings of a server today.

    `values`: by variable name (underscores, lower case); of an option file only those that it sets.
    `label`: for people, without secrets.
    """

    server: ServerVersion
    values: dict[str, str] = field(repr=False)
    label: str
    file: OptionFile | None = field(default=None, repr=False)


def read_current(
    address: Address | None, config: str | os.PathLike | None, flavor: str | None, version: str | None
) -> tuple[CurrentSettings, list[str], bool]:
    """Returns the settings with their server, notes on what was assumed of it, and whether any
    settings were read.

    A live server names its own version; `config` is then only the file that a diff changes. Without
    a live server the version is `flavor` and `version`, else what the groups of the option file
    suggest.
    """
    if address is not None:
        if flavor is not None or version is not None:
            what, rule = "--flavor, --server-version", "are what the server says itself"
            raise refuse.input(what, rule, "Leave them out, or the address.")
        live = read_server(address)
        return (live if config is None else replace(live, file=read_file(config, live.server).file)), [], True
    notes = []
    if version is not None:
        of_version, version = split_release(version)
        if of_version is not None and flavor not in (None, of_version):
            rule = f"names another server than --flavor {flavor}"
            raise refuse.input(f"--server-version {of_version}-{version}", rule, "Leave one of them out.")
        flavor = of_version or flavor
    if flavor is None:
        flavor = "mariadb" if _looks_like_mariadb(config, version) else "mysql"
    if version is None:
        version = ASSUMED.get(flavor, "")
        notes.append(
            f"no --server-version: names and defaults are those of {parse_server(flavor, version or '8.4').label}"
        )
    server = parse_server(flavor, version)
    if not server.patch_known and version not in ASSUMED.values():
        notes.append(describe_newest(version))
    if config is None:
        return CurrentSettings(server, {}, server.label), notes, False
    return read_file(config, server), notes, True


def _looks_like_mariadb(config: str | os.PathLike | None, version: str | None) -> bool:
    """Returns whether a version is one of MariaDB; without a version, whether the option file has
    sections of MariaDB."""
    if version:
        return detect_flavor(version) == "mariadb"
    series = [*(f"10.{minor}" for minor in range(2, 12)), *(f"11.{minor}" for minor in range(10))]
    groups = [
        f"{name}{suffix}" for name in ("mariadb", "mariadbd") for suffix in ("", *(f"-{release}" for release in series))
    ]
    return config is not None and bool(read_option_file(config, groups).settings)


def read_server(address: Address) -> CurrentSettings:
    """Reads version and global variables of a live server; any account may ask for both. Raises
    InputError for Aurora, CouldNotRun without an answer."""
    import pymysql

    connection = connect(address, timeout_s=ANSWER_S)
    try:
        row = ask_row(connection, "SELECT VERSION(), @@GLOBAL.version_comment")
        version, comment = (str(part) for part in row or ("", ""))
        values = ask_pairs(connection, "SHOW GLOBAL VARIABLES")
    except (pymysql.err.MySQLError, OSError) as error:
        rule = f"the server did not answer: {str(error.args[-1] if error.args else error)[:200]}"
        raise refuse.run(address.label, rule, "Does it still run? See its error log.") from None
    finally:
        connection.close()
    version_text = f"{version} {comment}".lower()
    if "aurora" in version_text:
        rule = "Aurora keeps its data in storage of its own, not on EBS volumes"
        raise refuse.input(version, rule, "Settings of this version are not covered here.")
    flavor = "mariadb" if "mariadb" in version_text else "percona" if "percona" in version_text else "mysql"
    return CurrentSettings(parse_server(flavor, version), values, f"{address.label}, {version}")


def read_file(path: str | os.PathLike, server: ServerVersion) -> CurrentSettings:
    """Reads the settings of an option file; those that the server refuses are left out."""
    option_file = read_option_file(path, list_server_groups(server.flavor, server.version))
    values = {
        setting.name: setting.text
        for setting in option_file.settings
        if (find_gone(setting.name, server) or {}).get("then") != "refused"
    }
    return CurrentSettings(server, values, str(path), option_file)


# --- settings that servers no longer know, or never knew ------------------------------------------


@cache
def _read_gone() -> dict[str, list[dict[str, str]]]:
    """Reads gone.csv: the rows about settings that servers have dropped or never had, by name."""
    rows: dict[str, list[dict[str, str]]] = {}
    for row in read_rows("headrace.advice", "gone.csv"):
        rows.setdefault(row["name"], []).append(row)
    return rows


def _list_gone(name: str, server: ServerVersion) -> list[dict[str, str]]:
    """Returns the rows of gone.csv about a name of that flavor; Percona Server has MySQL's."""
    flavor = "mysql" if server.flavor == "percona" else server.flavor
    return [row for row in _read_gone().get(name, []) if row["flavor"] == flavor]


def find_gone(name: str, server: ServerVersion) -> dict[str, str] | None:
    """Returns the row of gone.csv about a setting that this server refuses, ignores or deprecates
    (`then`), with its successor (`instead`) and the `last` version that had it; None without."""
    past = [row for row in _list_gone(name, server) if row["last"] == "" or not server.lies_between("0", row["last"])]

    def parse_last(row: dict[str, str]) -> list[int]:
        """Returns the last version that had the setting, as numbers: "5.7" is all of 5.7."""
        parts = [int(part) for part in (row["last"] or "0").split(".")]
        return [*parts, NEWEST_PATCH] if len(parts) == 2 else parts

    return max(past, key=parse_last, default=None)


def is_doomed(name: str, server: ServerVersion) -> bool:
    """Returns whether a later release refuses the setting."""
    return any(row["then"] == "refused" for row in _list_gone(name, server))


def find_standing(setting: Setting, current: CurrentSettings) -> dict[str, str] | None:
    """Returns the row of `find_gone` about a line of the option file. The old sizes of the redo log
    are deprecated there, and not ignored, while nothing replaces them."""
    row = find_gone(setting.name, current.server)
    counts = setting.name in OLD_REDO and "innodb_redo_log_capacity" not in current.values
    return row | {"then": "deprecated"} if row is not None and row["then"] == "ignored" and counts else row


@cache
def _read_options() -> frozenset[str]:
    """Returns names of options of MySQL and MariaDB, of all versions.

    They are those of real servers (MariaDB 10.2 to 11.8, MySQL 9.7), those of the manuals' pages as
    the project mariadb-mysql-kbs 1.3.0 collects them, and those of the tables of the advice.
    """
    listed = read_text("headrace.advice", "options.txt").split()
    return frozenset((*listed, *_read_gone(), *index_names()))


def is_unknown(setting: Setting) -> bool:
    """Returns whether no server in these tables has such an option.

    Loose options, those of components and named caches (with a point), and beginnings of names,
    which servers complete, are never unknown.
    """
    name = setting.name
    return not (setting.loose or "." in name or any(option.startswith(name) for option in _read_options()))


# --- what is wrong today --------------------------------------------------------------------------


def list_findings(current: CurrentSettings) -> list[ConfigFinding]:
    """Returns settings that the server refuses or ignores, those that cost the storage, and those
    that can lose data."""
    settings = current.file.settings if current.file else ()
    line_findings = [finding for setting in settings if (finding := _judge_line(setting, current)) is not None]
    return (
        line_findings
        + list(_find_lossy(current.values, current.server))
        + list(_find_costly(current.values, current.server))
    )


def _judge_line(setting: Setting, current: CurrentSettings) -> ConfigFinding | None:
    """Returns the fault of a line of the option file, if it has a fault."""
    row, label, place = find_standing(setting, current), current.server.label, f"({setting.file}, line {setting.line})"
    if row is None:
        if not is_unknown(setting):
            return None
        rule = f"{label} does not start with an option it does not know"
        text = f"is not an option of MySQL or MariaDB known here: {rule} {place}. {suggest_nearest(setting.name, _read_options())}"
        return ConfigFinding(setting.name, text.removesuffix(". "), refuse_option_files.source)
    if setting.loose and row["then"] == "refused":
        return None  # passed over, as its writer wanted
    instead = f"; its successor is {row['instead']}" if row["instead"] else ""
    long_known = row["then"] == "deprecated" and row["last"]
    treatment = f"{label} {TREATMENTS[row['then']]}" + (f" (deprecated {describe_since(row)})" if long_known else "")
    fails = row["then"] != "deprecated" or setting.name in OLD_REDO
    return ConfigFinding(setting.name, f"{treatment}{instead} {place}", sources()[row["source"]], fails)


# Below this share of dirty pages (innodb_max_dirty_pages_pct; 90 by default) the page cleaner
# writes pages that would have been changed again (a guess: a third of what MySQL starts with).
LEAST_DIRTY_PERCENT = 30.0
# innodb_page_size of which the model and the rules are, bytes.
USUAL_PAGE = 16_384.0


def _find_costly(values: dict[str, str], server: ServerVersion) -> Iterator[ConfigFinding]:
    """Yields findings on settings that cost the storage throughput, or fill it."""
    source = sources()["mariadb-kb" if server.flavor == "mariadb" else "mysql-manual"]
    adaptive = values.get("innodb_adaptive_flushing")
    if adaptive is not None and not is_on(adaptive):
        text = f"is {adaptive}: pages are flushed when the redo log is nearly full, in bursts that stall every write"
        yield ConfigFinding("innodb_adaptive_flushing", f"{text}; ON spreads them", source, False)
    dirty = as_number(values.get("innodb_max_dirty_pages_pct"))
    if dirty is not None and dirty < LEAST_DIRTY_PERCENT:
        text = f"is {dirty:g}: pages are written back long before the redo log asks for it, and those changed often many times"
        yield ConfigFinding("innodb_max_dirty_pages_pct", f"{text}; the default is 90", source, False)
    yield from _find_unlimited_logs(values, source)
    page = as_bytes(values.get("innodb_page_size"))
    if page is not None and page != USUAL_PAGE:
        text = (
            f"is {page / 1024:g} KiB: sizes and I/O counts here are those of 16 KiB pages. It is fixed when the data "
            "directory is made; another one needs a dump and a reload"
        )
        yield ConfigFinding("innodb_page_size", text, source, False)
    size, kind = as_bytes(values.get("query_cache_size")), values.get("query_cache_type", "")
    if size and kind.strip().lower() not in ("", "0", "off"):
        text = f"is {kind} with {size / MIB:,.4g} MiB: one lock for all statements, taken at every read and every write"
        yield ConfigFinding("query_cache_type", f"{text}; OFF and query_cache_size = 0 take it away", source, False)


def _find_unlimited_logs(values: dict[str, str], source: str) -> Iterator[ConfigFinding]:
    """Yields the finding that nothing removes binary logs, if it holds."""
    if values.get("log_bin", "1").strip().lower() in ("0", "off"):
        return
    by_name = {name: as_number(values.get(name)) for name in ("binlog_expire_logs_seconds", "expire_logs_days")}
    limits = {name: value for name, value in by_name.items() if value is not None}
    # Either of them that is above zero removes logs.
    if limits and not any(limits.values()):
        names = " and ".join(limits)
        text = "is 0: binary logs stay until somebody purges them, and fill the volume"
        yield ConfigFinding(names, f"{text}; keep as many days as replicas and restores need", source, False)


def _find_lossy(values: dict[str, str], server: ServerVersion) -> Iterator[ConfigFinding]:
    """Yields findings on settings that can lose data."""
    manual = sources()["mysql-manual"]
    for name in ("innodb_flush_log_at_trx_commit", "rocksdb_flush_log_at_trx_commit"):
        at_commit = as_number(values.get(name))
        # At 3 InnoDB of MariaDB syncs at each step of a group commit; other servers take 3 as 2.
        safe_at_three = server.flavor == "mariadb" and name.startswith("innodb")
        if at_commit in (0.0, 2.0) or (at_commit == 3.0 and not safe_at_three):
            # Measured: at 2 MyRocks keeps its log in the server's own memory too
            # (docs/reference/durability.md).
            who = "of the server or the machine" if at_commit == 0.0 or name.startswith("rocksdb") else "of the machine"
            yield ConfigFinding(name, f"is {values[name]}: a crash {who} loses up to about a second of commits", manual)
    synced = as_number(values.get("sync_binlog"))
    logs = values.get("log_bin", "1").strip().lower() not in ("0", "off")
    if synced is not None and synced != 1.0 and logs:
        groups = f"up to {synced:,.0f} commit groups of the binlog"
        lost = "what the kernel had not written of the binlog" if synced == 0.0 else groups
        text = f"is {values['sync_binlog']}: a crash of the machine loses {lost}"
        yield ConfigFinding("sync_binlog", text, manual)
    doublewrite = values.get("innodb_doublewrite")
    if doublewrite is not None and not is_on(doublewrite):
        yield ConfigFinding(
            "innodb_doublewrite", f"is {doublewrite}: a page torn by a crash cannot be repaired", manual
        )
