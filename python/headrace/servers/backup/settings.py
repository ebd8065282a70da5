"""Settings that a restored server takes from its source: durability, the binary log, and how data
are written and read. Settings of speed and memory depend on the new machine, and are not taken.

A backup records them. A restored server is started with those that its program knows, and the
remaining differences are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.servers.copies.source import rows
from headrace.servers.flavors import ServerProgram, dashed

if TYPE_CHECKING:
    import pymysql

# Names of variables; where one server has no such variable, it is left out. MySQL 9.7 and MariaDB
# 10.11 manuals, "Server System Variables", "Binary Logging Options", "InnoDB Startup Options".
DURABLE = (
    "sync_binlog",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_log_at_timeout",
    "innodb_doublewrite",
    "innodb_flush_method",
    "rocksdb_flush_log_at_trx_commit",
    "sync_relay_log",
    "sync_relay_log_info",
    "sync_master_info",
    "sync_source_info",
)
LOGGED = (
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "binlog_checksum",
    "binlog_transaction_compression",
    "log_bin_compress",
    "log_bin_trust_function_creators",
    "log_slave_updates",
    "log_replica_updates",
    "binlog_expire_logs_seconds",
    "expire_logs_days",
    "max_binlog_size",
    "gtid_strict_mode",
    "gtid_domain_id",
)
FORMATS = (
    "character_set_server",
    "collation_server",
    "sql_mode",
    "old_mode",
    "lower_case_table_names",
    "innodb_page_size",
    "innodb_data_file_path",
    "innodb_default_row_format",
    "innodb_checksum_algorithm",
    "innodb_file_per_table",
    "innodb_strict_mode",
    "innodb_autoinc_lock_mode",
    "auto_increment_increment",
    "auto_increment_offset",
    "explicit_defaults_for_timestamp",
    "max_allowed_packet",
    "transaction_isolation",
    "tx_isolation",
    "time_zone",
)
TAKEN = (*DURABLE, *LOGGED, *FORMATS)
# Recorded and only named where they differ: they need keys or replicas that a new server has not,
# start what a copy must not run by itself, or are Headrace's own to set.
NAMED = (
    "event_scheduler",
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_source_enabled",
    "default_storage_engine",
    "innodb_encrypt_tables",
    "innodb_encrypt_log",
    "encrypt_binlog",
    "binlog_encryption",
    "innodb_redo_log_encrypt",
    "innodb_undo_log_encrypt",
    "default_table_encryption",
    "innodb_compression_algorithm",
)
# The option of a variable, where it has another name.
OPTIONS = {"time_zone": "default_time_zone", "tx_isolation": "transaction_isolation"}
# The older name of a variable, where a server has both.
OLDER = {
    "log_replica_updates": "log_slave_updates",
    "sync_source_info": "sync_master_info",
    "transaction_isolation": "tx_isolation",
    "binlog_expire_logs_seconds": "expire_logs_days",
}
# Zones that need no tables of zones, which a new server has not loaded.
PLAIN_ZONE = re.compile(r"SYSTEM|[+-]\d\d?:\d\d", re.ASCII)


@dataclass(frozen=True)
class OtherSetting:
    """A setting of a restored server that differs from its source's; `here`: its value, or None."""

    name: str
    source: str
    here: str | None

    @property
    def words(self) -> str:
        """The difference in words, for the user."""
        here = "no such setting here" if self.here is None else f"{self.here or 'nothing'} here"
        return f"{self.name}: {self.source or 'nothing'} in the source, {here}"


def read_settings(connection: pymysql.Connection) -> dict[str, str]:
    """Reads the settings that a backup records, by variable. Raises CouldNotRun."""
    names = ", ".join(f"'{name}'" for name in (*TAKEN, *NAMED))
    shown = rows(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    values = {str(name): str(value) for name, value in shown}
    doubled = {OLDER[name] for name in values.keys() & OLDER.keys()}
    return {name: value for name, value in values.items() if name not in doubled}


def as_options(program: ServerProgram, settings: Mapping[str, str], given: Iterable[str]) -> dict[str, str | None]:
    """Returns the options that start a server with these settings, without those that its program
    does not know, has as defaults, or that were given."""
    other = {str(name).replace("-", "_") for name in given}
    options: dict[str, str | None] = {}
    for name, value in settings.items():
        option = OPTIONS.get(name, name)
        if name not in TAKEN or {name, option} & other or not value.isprintable():
            continue
        if not program.knows(option) or _alike(program.defaults[dashed(option)], value):
            continue
        if name == "time_zone" and not PLAIN_ZONE.fullmatch(value):
            continue
        options[option] = value
    return options


def _alike(default: str | None, value: str) -> bool:
    """True when a program's default, as it prints it, equals a value, as a server prints it."""
    return {"TRUE": "ON", "FALSE": "OFF"}.get(default or "", default or "") == value


def others(connection: pymysql.Connection, settings: Mapping[str, str], given: Iterable[str]) -> list[OtherSetting]:
    """Lists the settings that differ between a restored server and its source, without those
    given."""
    wished = {str(name).replace("-", "_") for name in given}
    here = read_settings(connection)
    return [
        OtherSetting(name, value, here.get(name))
        for name, value in sorted(settings.items())
        if here.get(name) != value and not {name, OPTIONS.get(name, name)} & wished
    ]
