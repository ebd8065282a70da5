"""Redo log, binlog, and what a commit waits for."""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.advice.model import LOSSY, SAFE, SLOWER
from headrace.advice.situation import Rule, RuleValue, Situation
from headrace.advice.table import read_parameters
from headrace.advice.values import format_size
from headrace.base.units import GIB, HOUR_S, MIB

LEAST_REDO = GIB  # a guess
MOST_REDO = 128 * GIB  # the largest innodb_redo_log_capacity of MySQL 8.0.30 (manual)
# innodb_dedicated_server of MySQL 8.4: (virtual CPUs / 2) GiB, at most 16.
MOST_REDO_UNKNOWN, VCPUS_PER_REDO_GIB = 16 * GIB, 2.0
MEMORY_PER_REDO_GIB = 8.0  # a guess: the same where there are 4 GiB for each virtual CPU
LOG_BUFFER, LEAST_LOG_BUFFER = 64 * MIB, 16 * MIB  # defaults of MySQL 8.4, and of 5.7 to 8.3
LOG_FILES = 2
# Before MySQL 8.0.30 (5.6.3 on) all files together: below 512 GB.
MOST_FILES_BYTES = 512 * GIB


def choose_redo_bytes(s: Situation) -> tuple[float, str]:
    """Returns the size of the whole redo log, bytes, and why: an hour of the workload's redo, or
    without a workload by processors or memory."""
    pool = s.get_chosen_bytes("innodb_buffer_pool_size")
    if s.demand is not None and s.demand.redo_bytes_s > 0.0:
        hour = s.demand.redo_bytes_s * HOUR_S
        # A redo log can keep no more pages dirty than the pool has.
        size = min(max(hour, LEAST_REDO), max(pool, LEAST_REDO), MOST_REDO)
        rate = f"{s.demand.redo_bytes_s / MIB:,.3g} MiB/s"
        predicted = f"({s.demand.tps:,.4g} tps predicted on {s.storage.text})"
        why = f"an hour of redo at {rate} {predicted} is {hour / GIB:,.3g} GiB"
        if size != hour:
            why += f", limited to {'the pool' if size == pool else 'the bounds of 1 and 128 GiB'}"
    else:
        units = s.memory_gib / MEMORY_PER_REDO_GIB if s.vcpus is None else s.vcpus / VCPUS_PER_REDO_GIB
        size = min(max(units * GIB, LEAST_REDO), max(pool, LEAST_REDO / 8), MOST_REDO_UNKNOWN)
        machine = f"{s.memory_gib:,.4g} GiB of memory" if s.vcpus is None else f"{s.vcpus} virtual CPUs"
        why = f"by {machine}, as innodb_dedicated_server would; an hour of writes needs --workload"
    size = min(size, s.storage.usable_gib * GIB / 8)
    unit, least = (128 * MIB, 1) if size >= 128 * MIB else (MIB, 8)
    size = max(math.floor(size / unit), least) * unit
    seconds = f"{size / s.storage.bytes_s:,.0f} s at {s.storage.mib_s:,.0f} MiB/s"
    return size, f"{why}; reading it after a crash takes {seconds}, and reading its pages comes on top"


def advise_redo_capacity(s: Situation) -> RuleValue:
    """Advises the size of the whole redo log (`choose_redo_bytes`)."""
    size, why = choose_redo_bytes(s)
    return RuleValue(format_size(size), why)


def advise_log_file_size(s: Situation) -> RuleValue:
    """Advises the size of one redo file: the redo log in all over the number of files."""
    size, why = choose_redo_bytes(s)
    files = LOG_FILES if read_parameters()["innodb_log_files_in_group"].find_name(s.server) else 1
    each = math.floor(min(size, MOST_FILES_BYTES - MIB * files) / files / MIB) * MIB
    return RuleValue(format_size(each), f"{why}; {files} files" if files > 1 else why)


def advise_log_buffer(s: Situation) -> RuleValue:
    """Advises the size of the log buffer: a hundredth of the memory within bounds."""
    hundredth = s.memory_gib * GIB / 100.0 // (16 * MIB) * 16 * MIB  # a guess
    size = min(max(hundredth, LEAST_LOG_BUFFER), LOG_BUFFER)
    return RuleValue(format_size(size), "room for large transactions before their commit")


def advise_flush_at_commit(s: Situation) -> RuleValue:
    """Advises whether a commit waits for the log: 1, or 2 where relaxed durability was asked for,
    with what a crash then loses."""
    if s.engine == "myrocks":
        # Measured: at 2 MyRocks keeps its log in the server's own memory too
        # (docs/reference/durability.md).
        at_two = "a crash of the server or the machine loses about a second of commits"
        otherwise = "2 and 0 lose about a second when the server or the machine crashes"
    else:
        at_two = "a crash of the machine loses about a second of commits, a crash of the server none"
        otherwise = "2 loses about a second when the machine crashes, 0 also when the server does"
    if s.durability == "relaxed":
        return RuleValue("2", f"asked for with --durability relaxed: {at_two}", LOSSY)
    return RuleValue("1", f"every commit is on the volume before it is acknowledged; {otherwise}")


def advise_sync_binlog(s: Situation) -> RuleValue:
    """Advises a sync of the binlog at each commit, or none where relaxed durability was asked
    for."""
    if s.durability == "relaxed":
        lost = "the binlog that the kernel had not written (30 s by default), and commits InnoDB had only prepared"
        why = f"asked for with --durability relaxed: a crash of the machine loses {lost}"
        return RuleValue("0", f"{why}; replicas may have what the source lost", LOSSY)
    why = "binlog and engine agree after every crash; the whitepaper turns it off on EBS, which loses what the kernel held"
    if read_parameters()["sync_binlog"].get_default(s.server) == "1":
        return RuleValue("1", why, SAFE)
    return RuleValue("1", f"{why}; this server's default is 0, so with a binlog commits get slower", SLOWER)


def make_folder_rule(what: str, name: str = "") -> Rule:
    """Returns a rule that advises a path below --log-dir, if that is given."""

    def advise(s: Situation) -> RuleValue | None:
        return _advise_folder(s, what, name)

    return advise


def _advise_folder(s: Situation, what: str, name: str) -> RuleValue | None:
    """Advises a folder of the log volume for `what`: `name` below --log-dir, or a comment without
    that option; None without a log volume."""
    if s.log_dir is not None:
        path = f"{s.log_dir.rstrip('/')}/{name}" if name else s.log_dir
        why = f"{what} on a volume of their own: commits do not wait for pages. Move the existing files first"
        return RuleValue(path, why)
    if s.log_storage is None:
        return None
    why = f"{what} on a volume of their own; name the folder with --log-dir"
    return RuleValue(f"a folder on {s.log_storage.text}", why, settable=False)


def advise_binlog_folder(s: Situation) -> RuleValue | None:
    """Advises a folder only for an existing binlog: starting one needs server_id and space."""
    answer = _advise_folder(s, "binlogs", "binlog")
    if answer is None or not answer.settable:
        return answer
    default = "ON" if s.server.flavor != "mariadb" and s.server.version >= (8, 0, 0) else "OFF"
    if s.current.get("log_bin", default).upper() in ("OFF", "0", ""):
        return replace(answer, why="where a binlog is written: starting one takes a server_id and room", settable=False)
    return answer


def advise_relay_folder(s: Situation) -> RuleValue | None:
    """Advises a folder for relay logs, never to be set: a replica that runs keeps them where they
    are."""
    answer = _advise_folder(s, "relay logs", "relay")
    if answer is None:
        return None
    why = f"{answer.why}; a replica that runs already keeps its relay logs where they are"
    return replace(answer, why=why, settable=False)


LOG: dict[str, Rule] = {
    "innodb_redo_log_capacity": advise_redo_capacity,
    "innodb_log_file_size": advise_log_file_size,
    "innodb_log_files_in_group": lambda s: RuleValue(str(LOG_FILES), "the default; only the sum counts"),
    "innodb_log_buffer_size": advise_log_buffer,
    "innodb_flush_log_at_trx_commit": advise_flush_at_commit,
    "sync_binlog": advise_sync_binlog,
    "innodb_log_group_home_dir": make_folder_rule("redo logs"),
    "log_bin": advise_binlog_folder,
    "relay_log": advise_relay_folder,
}
