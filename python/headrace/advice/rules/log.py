"""Redo log, binlog, and what a commit waits for."""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.advice.model import LOSSY, SAFE, SLOWER
from headrace.advice.rules.answer import Answer, Rule, fixed
from headrace.advice.situation import GIB, MIB, Situation
from headrace.advice.table import parameters
from headrace.advice.values import as_bytes, size_text

HOUR_S = 3_600.0
LEAST_REDO, MOST_REDO = GIB, 128 * GIB
MOST_REDO_UNKNOWN = 16 * GIB  # innodb_dedicated_server of 8.4: (virtual CPUs / 2) GiB, at most 16
VCPUS_PER_REDO_GIB, MEMORY_PER_REDO_GIB = 2.0, 8.0
LOG_BUFFER, LEAST_LOG_BUFFER = 64 * MIB, 16 * MIB
LOG_FILES = 2
# Before MySQL 8.0.30 (5.6.3 on) all files together: below 512 GB.
MOST_FILES_BYTES = 512 * GIB
DAY_S = 86_400.0


def redo_bytes(s: Situation) -> tuple[float, str]:
    """All of the redo log in bytes, and why."""
    pool = as_bytes(s.chosen["innodb_buffer_pool_size"])
    if s.demand is not None and s.demand.redo_bytes_s > 0.0:
        hour = s.demand.redo_bytes_s * HOUR_S
        # A redo log can keep no more pages dirty than the pool has.
        size = min(max(hour, LEAST_REDO), max(pool, LEAST_REDO), MOST_REDO)
        why = f"an hour of redo at {s.demand.redo_bytes_s / MIB:,.3g} MiB/s ({s.demand.tps:,.4g} tps predicted on {s.storage.text}) is {hour / GIB:,.3g} GiB"
        why += "" if size == hour else f", held to {'the pool' if size == pool else 'the bounds of 1 and 128 GiB'}"
    else:
        units = s.memory_gib / MEMORY_PER_REDO_GIB if s.vcpus is None else s.vcpus / VCPUS_PER_REDO_GIB
        size = min(max(units * GIB, LEAST_REDO), max(pool, LEAST_REDO / 8), MOST_REDO_UNKNOWN)
        known = f"{s.memory_gib:,.4g} GiB of memory" if s.vcpus is None else f"{s.vcpus} virtual CPUs"
        why = f"by {known}, as innodb_dedicated_server would; an hour of writes needs --workload"
    size = min(size, s.storage.usable_gib * GIB / 8)
    size = max(math.floor(size / (128 * MIB)), 1) * 128 * MIB if size >= 128 * MIB else max(math.floor(size / MIB), 8) * MIB
    return (
        size,
        f"{why}; reading it back after a crash takes {size / s.storage.bytes_s:,.0f} s at {s.storage.mib_s:,.0f} MiB/s, and its pages come on top",
    )


def redo_capacity(s: Situation) -> Answer:
    size, why = redo_bytes(s)
    return Answer(size_text(size), why)


def log_file_size(s: Situation) -> Answer:
    size, why = redo_bytes(s)
    files = LOG_FILES if parameters()["innodb_log_files_in_group"].name_on(s.server) else 1
    each = math.floor(min(size, MOST_FILES_BYTES - MIB * files) / files / MIB) * MIB
    return Answer(size_text(each), why + (f"; {files} files" if files > 1 else ""))


def log_buffer(s: Situation) -> Answer:
    size = min(max(s.memory_gib * GIB / 100.0 // (16 * MIB) * 16 * MIB, LEAST_LOG_BUFFER), LOG_BUFFER)
    return Answer(size_text(size), "room for large transactions before their commit")


def at_commit(s: Situation) -> Answer:
    # MyRocks keeps its log in the server's own memory at 2 as well (measured: docs/reference/durability.md).
    if s.engine == "myrocks":
        at_two, otherwise = (
            "a crash of the server or the machine loses about a second of commits",
            "2 and 0 lose about a second with the server or the machine",
        )
    else:
        at_two = "a crash of the machine loses about a second of commits, a crash of the server none"
        otherwise = "2 loses about a second with the machine, 0 with the server too"
    if s.durability == "relaxed":
        return Answer("2", f"asked for with --durability relaxed: {at_two}", LOSSY)
    return Answer("1", f"every commit is on the volume before it is answered; {otherwise}")


def sync_binlog(s: Situation) -> Answer:
    if s.durability == "relaxed":
        return Answer("0", "asked for with --durability relaxed: a crash of the machine loses the binlog the kernel had not written (30 s by default), and commits "
                      "InnoDB had only prepared; replicas may have what the source lost", LOSSY)  # fmt: skip
    default = parameters()["sync_binlog"].name_on(s.server).default
    costs = "" if default == "1" else "; this server's default is 0, so with a binlog commits get slower"
    return Answer("1", "binlog and engine agree after every crash; the whitepaper turns it off on EBS, which loses what the kernel still held" + costs,
                  SAFE if default == "1" else SLOWER)  # fmt: skip


def folder_rule(what: str, name: str = "") -> Rule:
    """A path below --log-dir, where there is one."""

    def rule(s: Situation) -> Answer | None:
        if s.log_dir is None:
            if s.log_storage is None:
                return None
            return Answer(
                f"a folder on {s.log_storage.text}", f"{what} on a volume of their own; name the folder with --log-dir", settable=False
            )
        path = f"{s.log_dir.rstrip('/')}/{name}" if name else s.log_dir
        return Answer(
            path, f"{what} on a volume of their own: commits do not wait behind pages. Move the files that are there first", settable=True
        )

    return rule


def binlog_folder(s: Situation) -> Answer | None:
    """Only where a binlog is written: to begin with one is a decision of its own (server_id, disk space)."""
    answer = folder_rule("binlogs", "binlog")(s)
    if answer is None or not answer.settable:
        return answer
    now = s.current.get("log_bin", "ON" if s.server.flavor != "mariadb" and s.server.version >= (8, 0, 0) else "OFF")
    if now.upper() in ("OFF", "0", ""):
        return replace(answer, why="where a binlog is written: to begin with one needs server_id and room", settable=False)
    return answer


def relay_folder(s: Situation) -> Answer | None:
    answer = folder_rule("relay logs", "relay")(s)
    return (
        None
        if answer is None
        else replace(answer, why=f"{answer.why}; a replica that runs already keeps its relay logs where they are", settable=False)
    )


LOG: dict[str, Rule] = {
    "innodb_redo_log_capacity": redo_capacity,
    "innodb_log_file_size": log_file_size,
    "innodb_log_files_in_group": fixed(str(LOG_FILES), "the default; only the sum counts"),
    "innodb_log_buffer_size": log_buffer,
    "innodb_flush_log_at_trx_commit": at_commit,
    "sync_binlog": sync_binlog,
    "innodb_log_group_home_dir": folder_rule("redo logs"),
    "log_bin": binlog_folder,
    "relay_log": relay_folder,
}
