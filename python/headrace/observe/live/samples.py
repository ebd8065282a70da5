"""Samples of a server: cumulative counters and levels, and their differences as one frame of
per-second figures.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from headrace.base.files import explain_unwritable, hold_draft
from headrace.base.units import MIB
from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.lab.metrics import build_frame
from headrace.observe.live import host

if TYPE_CHECKING:
    from collections.abc import Callable


# Status variables that are levels, not counters (MySQL 9 and MariaDB 11 manuals, "Server Status
# Variables"; InnoDB and RocksDB alike).
LEVELS = re.compile(
    r"threads_(running|connected|cached)|max_used_connections"
    r"|open_(files|streams|tables|table_definitions)|slave_open_temp_tables"
    r"|replica_open_temp_tables|slow_launch_time|prepared_stmt_count|memory_used(_initial)?"
    r"|max_memory_used|connection_memory.*|global_connection_memory"
    r"|innodb_buffer_pool_pages_(data|dirty|free|misc|total|old|latched|made_not_young_rate)"
    r"|innodb_buffer_pool_bytes_(data|dirty)|innodb_page_size"
    r"|innodb_(data_pending|os_log_pending|row_lock_current_waits|row_lock_time_(avg|max))\w*"
    r"|innodb_(history_list_length|max_trx_id|num_open_files|checkpoint_(age|max_age|target_age))\w*"
    r"|innodb_mem_\w+|innodb_ibuf_(size|free_list|segment_size)|innodb_available_undo_logs"
    r"|innodb_undo_tablespaces_\w+|innodb_redo_log_(capacity_resized|logical_size|physical_size)"
    r"|innodb_(background_log_sync|master_thread)_(?!.*loops)\w*|innodb_bp_\w*|key_blocks_\w+"
    r"|qcache_(free_blocks|free_memory|queries_in_cache|total_blocks)|aria_pagecache_blocks_\w+"
    r"|rocksdb_(memtable_(total|unflushed)|.*_size|.*pending.*|.*running.*|num_\w+|estimate\w*|live_\w+)"
    r"|wsrep_.*|tc_log_(max_pages_used|page_size)|performance_schema_\w+_lost"
    r"|ssl_(ctx_verify_depth|ctx_verify_mode|session_cache_size|default_timeout|verify_mode)"
    r"|ssl_(verify_depth|session_cache_timeout)|last_query_cost|.*_(hit|fill)_(rate|ratio)"
)


def is_level(variable: str) -> bool:
    """Returns whether a status variable is a level, which rises and falls; a name that is not in
    LEVELS is taken for a counter."""
    return LEVELS.fullmatch(variable) is not None


@dataclass
class Samples:
    """The samples of a capture, source by source, in order of time.

    `t_unix`: seconds since 1970, the middle of the reading.

    `status`: a column per numeric status variable, lower case, as the server has it (cumulative
    counters and levels). `disk`: t_unix, device, and the counters of /proc/diskstats (`*_bytes`
    bytes, `*_ms` milliseconds, `in_flight` a level). `host`: seconds of all processors together,
    load1, bytes. `lab`: rows of a second of the lab's volumes, by name. `notes`: for the user. A
    source that was not sampled, or never answered, is an empty frame.
    """

    status: pl.DataFrame
    disk: pl.DataFrame
    host: pl.DataFrame
    interval_s: float = 1.0
    notes: list[str] = field(default_factory=list)
    lab: dict[str, pl.DataFrame] = field(default_factory=dict)

    def compute_rates(self) -> pl.DataFrame:
        """Returns a row for each interval between two samples, all sources together; null where a
        sample is missing, or a counter started over.

        `t_s` (start of the row, from the first sample of any source), `t_unix`, `duration_s`
        (nominal). For the server `NAME_per_s` for counters and `NAME` (end of the row) for levels.
        For the disks, all together, and with several also each (`read_iops:loop3`): read_iops,
        write_iops (as a volume counts them: run_files/counters.py), flush_iops, read_mib_s,
        write_mib_s, queue (mean requests under way), busy (share of the time), read_wait_ms,
        write_wait_ms (mean of requests). For the host user_cpus, system_cpus, iowait_cpus,
        idle_cpus, steal_cpus (processors' worth), load1, memory_available_bytes.
        """
        step = self.interval_s
        parts = [
            _compute_differences(self.status, step, is_level),
            _compute_differences(self.host, step, lambda name: not name.endswith("_s")),
        ]
        parts[1] = parts[1].rename(
            {name: name.replace("_s_per_s", "_cpus") for name in parts[1].columns if name.endswith("_s_per_s")}
        )
        names = sorted(self.disk["device"].unique().to_list()) if self.disk.height else []
        rates = {
            name: _compute_disk_rates(name, self.disk.filter(pl.col("device") == name).drop("device"), step)
            for name in names
        }
        if rates:
            parts.append(_combine_disks(list(rates.values())))
        if len(rates) > 1:
            parts += [
                frame.rename({column: f"{column}:{name}" for column in frame.columns if column != "tick"})
                for name, frame in rates.items()
            ]
        series = [frame["tick"] for frame in parts if frame.height]
        if not series:
            return pl.DataFrame(schema={"t_s": pl.Float64, "t_unix": pl.Float64, "duration_s": pl.Float64})
        ticks = pl.concat(series).to_list()
        first = min(ticks)
        rows = pl.DataFrame({"tick": pl.int_range(first, max(ticks) + 1, eager=True)})
        for part in parts:
            rows = rows.join(part, on="tick", how="left", maintain_order="left")
        head = [
            ((pl.col("tick") - first) * step).cast(pl.Float64).alias("t_s"),
            (pl.col("tick") * step).cast(pl.Float64).alias("t_unix"),
            pl.lit(step).alias("duration_s"),
        ]
        return rows.select(*head, pl.exclude("tick"))


def write_status_csv(samples: Samples, path: str | Path) -> None:
    """Writes the samples of the server as RUN.toml's files.status takes them: a column per
    variable, and `time`. Raises CouldNotRun."""
    write_csv(samples.status.rename({"t_unix": "time"}), path)


def write_disk_csv(samples: Samples, path: str | Path) -> None:
    """Writes the counters of the disks as RUN.toml's files.disk takes them: `time`, `device`,
    counters. Raises CouldNotRun."""
    write_csv(samples.disk.rename({"t_unix": "time"}), path)


def _compute_differences(frame: pl.DataFrame, step: float, level: Callable[[str], bool]) -> pl.DataFrame:
    """Returns a row per interval between neighbours of the grid, `tick` its beginning in steps of
    `step` seconds: counters as `_per_s`, levels as they are; null where a counter went back."""
    if frame.height < 2:
        return pl.DataFrame(schema={"tick": pl.Int64})
    frame = frame.with_columns((pl.col("t_unix") / step).round().cast(pl.Int64).alias("tick")).unique(
        "tick", keep="first", maintain_order=True
    )
    took = pl.col("t_unix").diff()
    neighbours = pl.col("tick").diff() == 1
    columns = []
    for name in frame.columns:
        if name in ("tick", "t_unix"):
            continue
        if level(name):
            columns.append(pl.col(name))
            continue
        change = pl.col(name).diff()
        if name in host.WRAPPING:
            change = pl.when(change < 0).then(change + host.WRAP).otherwise(change)
        columns.append(pl.when(neighbours & (change >= 0)).then(change / took).alias(f"{name}_per_s"))
    return frame.select((pl.col("tick") - 1).alias("tick"), *columns).slice(1)


def _compute_disk_rates(name: str, frame: pl.DataFrame, step: float) -> pl.DataFrame:
    """Returns I/Os a second, MiB/s, mean requests outstanding, the share of time busy (0 to 1) and
    waits in ms of a device, a row a tick of `step` seconds."""
    changes = _compute_differences(frame, step, lambda column: column == host.LEVEL)
    if not changes.height:
        return changes
    per = {column: pl.col(f"{column}_per_s") for column in host.FIELDS}
    counts = {column: per[column].fill_null(0.0) for column in ("reads_merged", "writes_merged", "flushes")}
    reads, writes = host.count_volume_requests(name, per | counts)
    return changes.select(
        "tick",
        reads.alias("read_iops"),
        writes.alias("write_iops"),
        per["flushes"].alias("flush_iops"),
        (per["read_bytes"] / MIB).alias("read_mib_s"),
        (per["write_bytes"] / MIB).alias("write_mib_s"),
        (per["weighted_ms"] / 1e3).alias("queue"),
        (per["io_ms"] / 1e3).clip(0, 1).alias("busy"),
        pl.when(per["reads"] > 0).then(per["read_ms"] / per["reads"]).alias("read_wait_ms"),
        pl.when(per["writes"] > 0).then(per["write_ms"] / per["writes"]).alias("write_wait_ms"),
    )


def _combine_disks(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Returns the rates of all devices together: sums, `busy` of the busiest, waits weighted by
    I/Os. A tick that one of the devices lacks is left out.
    """
    if len(frames) == 1 or not all(frame.height for frame in frames):
        return frames[0] if len(frames) == 1 else pl.DataFrame(schema={"tick": pl.Int64})
    weighted = [
        frame.with_columns(pl.col(f"{way}_wait_ms").fill_null(0.0) * pl.col(f"{way}_iops") for way in ("read", "write"))
        for frame in frames
    ]
    total = (
        pl.concat(weighted)
        .group_by("tick")
        .agg(pl.exclude("busy").sum(), pl.col("busy").max(), pl.len().alias("devices"))
    )
    total = total.filter(pl.col("devices") == len(frames)).sort("tick").drop("devices")
    waits = [
        pl.when(pl.col(f"{way}_iops") > 0)
        .then(pl.col(f"{way}_wait_ms") / pl.col(f"{way}_iops"))
        .alias(f"{way}_wait_ms")
        for way in ("read", "write")
    ]
    return total.with_columns(waits)


# --- samples that grow ----------------------------------------------------------------------------


# 600 columns for half an hour of seconds: 9 MB.
PART_ROWS = 1_800


class SampleStore:
    """Collects samples of one source, in memory and in Parquet files. A column is null in the
    samples that do not have it. One thread alone may use it.
    """

    def __init__(self, name: str, folder: Spill) -> None:
        self.name, self._folder = name, folder
        self._columns: dict[str, array] = {}
        self._rows, self._parts = 0, []

    def add(self, row: dict[str, float]) -> None:
        """Adds a sample: its time, `t_unix`, and its values by column."""
        for name, value in row.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = array("d", [math.nan]) * self._rows
            column.append(value)
        self._rows += 1
        if len(row) < len(self._columns):
            for column in self._columns.values():
                if len(column) < self._rows:
                    column.append(math.nan)
        if self._rows >= PART_ROWS:
            self._spill()

    def _spill(self) -> None:
        """Moves the rows from memory into a Parquet file of the spill folder."""
        path = self._folder.make_folder() / f"{self.name}-{len(self._parts):06}.parquet"
        self._build_frame().write_parquet(path, compression="zstd")
        self._parts.append(path)
        self._columns, self._rows = {}, 0

    def _build_frame(self) -> pl.DataFrame:
        return pl.DataFrame({name: pl.Series(name, column, dtype=pl.Float64) for name, column in self._columns.items()})

    def collect_frame(self) -> pl.DataFrame:
        """Returns all samples in order, with null for NaN."""
        parts = [pl.read_parquet(path) for path in self._parts] + ([self._build_frame()] if self._rows else [])
        if not parts:
            return pl.DataFrame(schema={"t_unix": pl.Float64})
        return pl.concat(parts, how="diagonal").fill_nan(None)


class Spill:
    """A temporary folder for Parquet files, made when the first one is written."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def make_folder(self) -> Path:
        """Returns the folder, which the first call makes. Raises OSError when it cannot be made."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="headrace-samples-"))
        return self._path

    def remove(self) -> None:
        """Removes the folder with all files."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def write_csv(frame: pl.DataFrame, path: str | os.PathLike) -> None:
    """Writes a frame as CSV: columns of whole numbers without a point, others with six decimals
    (microseconds in `time`), null as nothing. Raises CouldNotRun."""
    path = Path(path)
    whole = [
        name
        for name, kind in frame.schema.items()
        if kind == pl.Float64
        and name != "time"
        and frame[name].drop_nulls().is_between(-(2.0**63), 2.0**63 - 1024).all()
        and (frame[name].drop_nulls() == frame[name].drop_nulls().floor()).all()
    ]
    frame = frame.with_columns(pl.col(whole).cast(pl.Int64))
    with explain_unwritable(path, "Choose another folder."), hold_draft(path) as draft:
        frame.write_csv(draft, float_precision=6, float_scientific=False)


# --- rows of the lab ------------------------------------------------------------------------------
# The lab's own rows of volumes, a second each, kept up while they are sampled: the daemon
# remembers an hour.


# Well within the hour the daemon keeps.
EVERY_S = 600.0


class LabRows:
    """Collects the lab's rows of volumes from now on, until they cannot be read, with a note."""

    def __init__(self, lab: Lab, volumes: Sequence[str]) -> None:
        """Raises NoLab and LabRefused where a volume is not there."""
        for name in volumes:
            lab.describe(name)
        self._lab = lab
        self._since = dict.fromkeys(volumes, int(time.time()) - 2)
        self._rows: dict[str, list[pl.DataFrame]] = {name: [] for name in volumes}
        self.notes: list[str] = []

    def read(self) -> None:
        """Fetches the rows since the last call, of which the daemon has an hour."""
        for name, since in list(self._since.items()):
            try:
                rows = build_frame(self._lab.metrics(name, resolution="second", since=since))
            except HeadraceError as error:
                self.notes.append(f"lab volume {name}: no figures from {since} (Unix time) on: {error.rule}")
                del self._since[name]
                continue
            if rows.height:
                self._rows[name].append(rows)
                self._since[name] = int(rows["t_s"][-1]) + 1

    def close(self) -> dict[str, pl.DataFrame]:
        """Fetches the last rows and ends the connection. Returns the rows of each volume, a second
        each, oldest first, with the columns of `Lab.metrics`."""
        self.read()
        self._lab.close()
        return {
            name: pl.concat(parts, how="vertical_relaxed").unique("t_s", keep="last").sort("t_s")
            for name, parts in self._rows.items()
            if parts
        }
