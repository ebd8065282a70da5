"""The time line of a run, a row a second: the benchmark's reports, device counters, server status,
the host, and the lab's own figures.

A row is the interval of a report of the tool; its Unix time follows from when its lines came, the
least delay of which is taken for none. Counters were sampled at whole seconds, so their value at
the edges of a row is interpolated, and a rate is the difference over the row's length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from headrace.base import caps
from headrace.base.units import MIB, US_PER_S
from headrace.bench.drivers.benchmark import IntervalReport
from headrace.observe.live.host import LEVEL, WRAP, WRAPPING, count_volume_requests
from headrace.observe.live.samples import Samples

# Counters of SHOW GLOBAL STATUS that become rates, if the server has them. All variables are in
# status.parquet.
_STATUS_RATES = """
questions com_commit com_rollback com_select com_insert com_update com_delete
innodb_buffer_pool_read_requests innodb_buffer_pool_reads innodb_pages_read innodb_pages_written
innodb_pages_created innodb_data_fsyncs innodb_os_log_written innodb_os_log_fsyncs
innodb_dblwr_writes innodb_dblwr_pages_written innodb_buffer_pool_wait_free innodb_log_waits
innodb_row_lock_waits rocksdb_flush_write_bytes rocksdb_compact_read_bytes
rocksdb_compact_write_bytes rocksdb_wal_bytes rocksdb_stall_micros
"""
STATUS_RATES = tuple(_STATUS_RATES.split())
_STATUS_LEVELS = """
threads_running innodb_buffer_pool_pages_data innodb_buffer_pool_pages_dirty
innodb_buffer_pool_pages_free innodb_checkpoint_age innodb_history_list_length
innodb_row_lock_current_waits
"""
STATUS_LEVELS = tuple(_STATUS_LEVELS.split())
HOST_TIMES = ("user_s", "system_s", "iowait_s", "idle_s", "steal_s")
LAB_PERCENTILES = ("read_p50_us", "read_p99_us", "write_p50_us", "write_p99_us", "late_p99_us")
# Longest gap between samples that is interpolated: a sample or two may be late.
LONGEST_GAP_S = 3.5
# Time beyond the first and last sample that is tolerated: it changes a rate over a second by 5 % at
# most.
END_SLACK_S = 0.05


def make_rows(
    reports: Sequence[IntervalReport], began_unix: float, warmup_s: float, interval_s: float = 1.0
) -> pl.DataFrame:
    """Returns the reports as a frame: `t_s` (start of the row since the tool's clock began),
    `duration_s`, `t_unix`, `phase` (warmup, measure), threads, tps, qps, p95_ms, errors_per_s, and
    what else a tool tells."""
    starts = [0.0, *(report.end_s for report in reports)][: len(reports)]
    ends = [report.end_s for report in reports]
    # A lost line: the report is of its own interval only.
    starts = [max(start, end - interval_s) for start, end in zip(starts, ends, strict=True)]
    more = sorted({name for report in reports for name in report.more})
    frame = pl.DataFrame(
        {
            "t_s": pl.Series(starts, dtype=pl.Float64),
            "duration_s": pl.Series([end - start for start, end in zip(starts, ends, strict=True)], dtype=pl.Float64),
            "t_unix": pl.Series([began_unix + start for start in starts], dtype=pl.Float64),
            "phase": pl.Series(
                ["measure" if start >= warmup_s - 0.5 * interval_s else "warmup" for start in starts], dtype=pl.String
            ),
            "threads": pl.Series([report.threads for report in reports], dtype=pl.Int64),
            **{
                name: pl.Series([getattr(report, name) for report in reports], dtype=pl.Float64)
                for name in ("tps", "qps", "p95_ms", "errors_per_s")
            },
            **{name: pl.Series([report.more.get(name) for report in reports], dtype=pl.Float64) for name in more},
        }
    )
    return frame


def make_empty_rows(seconds: float, began_unix: float, warmup_s: float) -> pl.DataFrame:
    """Returns empty rows a second long, for a tool that reports nothing on its way. `began_unix`:
    seconds since 1970."""
    return make_rows([IntervalReport(float(end)) for end in range(1, int(seconds) + 1)], began_unix, warmup_s)


def join_samples(frame: pl.DataFrame, samples: Samples) -> pl.DataFrame:
    """Returns the rows with figures of all samples, null in rows that a source does not cover."""
    edges = _compute_edges(frame)
    columns: dict[str, np.ndarray] = {}
    columns |= _compute_disk_figures(samples.disk, edges)
    columns |= _compute_status_figures(samples.status, edges)
    columns |= _compute_host_figures(samples.host, edges)
    columns |= _compute_lab_figures(samples.lab, edges)
    return frame.with_columns(
        pl.Series(name, values, dtype=pl.Float64).fill_nan(None) for name, values in columns.items()
    )


def _compute_edges(frame: pl.DataFrame) -> np.ndarray:
    """Returns an array (rows, 2): beginning and end of each row, seconds since 1970."""
    begin = frame["t_unix"].to_numpy()
    return np.stack([begin, begin + frame["duration_s"].to_numpy()], axis=1)


def _interpolate(times: np.ndarray, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Returns the values at the edges, interpolated; NaN beyond the samples and in long gaps."""
    valid = np.isfinite(values)
    if valid.sum() < 2:
        return np.full(edges.shape, np.nan)
    times, values = times[valid], values[valid]
    result = np.interp(edges, times, values)
    result[(edges < times[0] - END_SLACK_S) | (edges > times[-1] + END_SLACK_S)] = np.nan
    # Inside a gap nothing is known either.
    after = np.clip(np.searchsorted(times, edges), 1, len(times) - 1)
    result[(times[after] - times[after - 1] > LONGEST_GAP_S) & (edges != times[after])] = np.nan
    return result


def _add_load_edges(times: np.ndarray, values: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the samples of a counter with one added at the start and one at the end of the load,
    extrapolated from outside of it: a load begins between two samples, and a line between them
    would spread its first second over the time before. Unchanged if the counter was reset."""
    if not len(edges) or not np.isfinite(values).all() or (np.diff(values) < 0).any():
        return times, values
    begin, finish = edges[0, 0], edges[-1, 1]
    before, after = times < begin, times > finish
    for nearest_two, edge_s in ((np.flatnonzero(before)[-2:], begin), (np.flatnonzero(after)[:2], finish)):
        if len(nearest_two) == 2:
            (t1, t2), (v1, v2) = times[nearest_two], values[nearest_two]
            nearest = (t2, v2) if edge_s == begin else (t1, v1)
            index = int(np.searchsorted(times, edge_s))
            # Earlier work may end at the same time: the value stays between both samples.
            value = float(
                np.clip(nearest[1] + (v2 - v1) / (t2 - t1) * (edge_s - nearest[0]), values[index - 1], values[index])
            )
            times, values = np.insert(times, index, edge_s), np.insert(values, index, value)
    return times, values


def _compute_rate(times: np.ndarray, values: np.ndarray, edges: np.ndarray, wraps: bool = False) -> np.ndarray:
    """Returns the rate a second of a cumulative counter in each row; NaN if it was reset in the
    row. With `wraps` it has 32 bits and overflows."""
    values = values.astype(float)
    steps = np.diff(values)
    if wraps:
        values = values + WRAP * np.concatenate([[0.0], np.cumsum(np.where(steps < -WRAP / 2, 1.0, 0.0))])
    ends = _interpolate(*_add_load_edges(times, values, edges), edges)
    rate = (ends[:, 1] - ends[:, 0]) / (edges[:, 1] - edges[:, 0])
    # A restart between the edges: the counter fell.
    for place in np.flatnonzero(np.diff(values) < 0):
        rate[(edges[:, 1] > times[place]) & (edges[:, 0] < times[place + 1])] = np.nan
    return rate


def _compute_disk_figures(disk: pl.DataFrame, edges: np.ndarray) -> dict[str, np.ndarray]:
    """Returns figures of all devices together: sums, waits (ms) weighted by requests, the busy
    share (0..1) of the busiest; and each device where there are several."""
    names = disk["device"].unique(maintain_order=True).to_list() if disk.height else []
    each = {name: _compute_device_figures(disk.filter(pl.col("device") == name), edges) for name in names}
    if not each:
        return {}
    totals: dict[str, np.ndarray] = {}
    for column in ("read_iops", "write_iops", "flush_iops", "read_mib_s", "write_mib_s", "queue"):
        totals[column] = np.sum([columns[column] for columns in each.values()], axis=0)
    totals["busy"] = np.max([columns["busy"] for columns in each.values()], axis=0)
    for way in ("read", "write"):
        waited = np.sum(
            [np.nan_to_num(columns[f"{way}_wait_ms"]) * columns[f"{way}_iops"] for columns in each.values()], axis=0
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            totals[f"{way}_wait_ms"] = np.where(totals[f"{way}_iops"] > 0, waited / totals[f"{way}_iops"], np.nan)
    if len(each) > 1:
        totals |= {f"{column}:{name}": values for name, columns in each.items() for column, values in columns.items()}
    return totals


def _compute_device_figures(disk: pl.DataFrame, edges: np.ndarray) -> dict[str, np.ndarray]:
    """Returns figures of a device a row: IOPS, MiB/s, requests in the queue, busy (share 0..1),
    waits in ms; NaN where unknown."""
    times = disk["t_unix"].to_numpy()
    rate = {
        name: _compute_rate(times, disk[name].cast(pl.Float64).to_numpy(), edges, name in WRAPPING)
        for name in disk.columns
        if name not in ("t_unix", "device", LEVEL)
    }
    with np.errstate(invalid="ignore", divide="ignore"):
        waits = {
            f"{way}_wait_ms": np.where(rate[f"{way}s"] > 0, rate[f"{way}_ms"] / rate[f"{way}s"], np.nan)
            for way in ("read", "write")
        }
    reads, writes = count_volume_requests(disk["device"][0], rate | {"flushes": np.nan_to_num(rate["flushes"])})
    return {
        "read_iops": reads,
        "write_iops": writes,
        "flush_iops": rate["flushes"],
        "read_mib_s": rate["read_bytes"] / MIB,
        "write_mib_s": rate["write_bytes"] / MIB,
        "queue": rate["weighted_ms"] / 1e3,
        "busy": np.clip(rate["io_ms"] / 1e3, 0, 1),
        **waits,
    }


def _compute_status_figures(status: pl.DataFrame, edges: np.ndarray) -> dict[str, np.ndarray]:
    """Returns figures of the server a row: counters as rates a second, levels at the row's end;
    none with fewer than two samples."""
    if status.height < 2:
        return {}
    times = status["t_unix"].to_numpy()
    rates = {
        f"{name}_per_s": _compute_rate(times, status[name].to_numpy(), edges)
        for name in STATUS_RATES
        if name in status.columns
    }
    return rates | {
        name: _interpolate(times, status[name].to_numpy(), edges)[:, 1]
        for name in STATUS_LEVELS
        if name in status.columns
    }


def _compute_host_figures(host: pl.DataFrame, edges: np.ndarray) -> dict[str, np.ndarray]:
    """Returns figures of the machine a row: processor time in processors, load, free memory in
    bytes; none with fewer than two samples."""
    if host.height < 2:
        return {}
    times = host["t_unix"].to_numpy()
    # Idle time of a processor can go back by a tick.
    rates = {
        name.removesuffix("_s") + "_cpus": np.clip(
            _compute_rate(times, np.maximum.accumulate(host[name].to_numpy()), edges), 0, None
        )
        for name in HOST_TIMES
        if name in host.columns
    }
    return rates | {
        name: _interpolate(times, host[name].to_numpy(), edges)[:, 1]
        for name in ("load1", "memory_available_bytes")
        if name in host.columns
    }


def _compute_lab_figures(volumes: Mapping[str, pl.DataFrame], edges: np.ndarray) -> dict[str, np.ndarray]:
    """Returns figures of the lab's volumes together: the share (0..1) of the row in which requests
    waited for each cap (of several volumes: the longest wait), the lowest balance in percent,
    latencies in ms of the slowest."""
    parts: dict[str, list[np.ndarray]] = {}
    for frame in volumes.values():
        if frame.height < 2:
            continue
        # Row by row a sum over [t_s, t_s + 1): added up, a counter at t_s + 1.
        times = frame["t_s"].cast(pl.Float64).to_numpy() + 1.0
        for cap in caps.COUNTED:
            counter = f"{cap.replace('-', '_')}_exceeded_us"
            if counter in frame.columns:
                summed = np.cumsum(frame[counter].cast(pl.Float64).fill_null(0.0).to_numpy())
                parts.setdefault(caps.name_column(cap), []).append(
                    np.clip(_compute_rate(times, summed, edges) / US_PER_S, 0, 1)
                )
        for name in ("balance_percent", "instance_ios_balance_percent", "instance_bytes_balance_percent"):
            if name in frame.columns and frame[name].is_not_null().any():
                values = frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
                parts.setdefault(name, []).append(_interpolate(times, values, edges)[:, 1])
        for name in LAB_PERCENTILES:
            if name in frame.columns:
                parts.setdefault(f"lab_{name.removesuffix('_us')}_ms", []).append(
                    _pick_nearest(times, frame[name], edges) / 1e3
                )
    low = ("balance_percent", "instance_ios_balance_percent", "instance_bytes_balance_percent")
    with np.errstate(all="ignore"):
        return {name: (np.fmin if name in low else np.fmax).reduce(each) for name, each in parts.items()}


def _pick_nearest(times: np.ndarray, column: pl.Series, edges: np.ndarray) -> np.ndarray:
    """Returns the figure of the second that has most of a row: percentiles are not interpolated."""
    values = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    middle = edges.mean(axis=1)
    place = np.clip(np.searchsorted(times, middle, side="right"), 0, len(values) - 1)
    inside = (times[place] > middle) & (times[place] - 1.0 <= middle)
    return np.where(inside, values[place], np.nan)
