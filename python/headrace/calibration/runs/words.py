"""A run in sentences, as a DBA would read it back."""

from __future__ import annotations

import math

import polars as pl

from headrace.calibration.runs.model import Run
from headrace.calibration.runs.series import stall_runs


def describe(run: Run) -> list[str]:
    """What was run, for how long, how fast (means weighted by time), and what was measured and found."""
    return [*_set_up(run), *_speed(run), *_disk(run), *_measured(run), *_doubts(run)]


def _set_up(run: Run) -> list[str]:
    engine = {"innodb": "InnoDB", "myrocks": "MyRocks"}[run.engine]
    version = f" ({run.flavor or 'version'} {run.engine_version})" if run.engine_version else ""
    where = f" on {run.instance}" if run.instance else ""
    log = f", redo and binlog on {run.log_storage}" if run.log_storage else ""
    data = f" over {_gib(run.benchmark.data_gib)} GiB of data" if run.benchmark.data_gib else ""
    script = f" {run.benchmark.script} ({run.benchmark.distribution})" if run.benchmark.script else ""
    first = f"{run.name}: {engine}{version}, {run.benchmark.name}{script}{data}, {run.threads} threads, {run.start} start with {_gib(run.cache_gib)} GiB of cache{where}."
    if math.isfinite(run.caps.iops):
        burst = f" (with burst credits {run.caps.iops_burst:,.0f})" if run.caps.iops_burst > run.caps.iops else ""
        limits = f"{run.caps.iops:,.0f} IOPS{burst} and {run.caps.mib_s_burst:,.0f} MiB/s on {run.as_of}"
    else:
        limits = "limits the catalog does not know"
    return [first, f"Storage {run.storage}: {limits}{log}."]


def _speed(run: Run) -> list[str]:
    series = run.series
    rows = "second" if run.interval_s == 1 else f"{run.interval_s:g} s"
    mean = run.transactions / float(series["duration_s"].sum())
    p5, p50, p95 = (series["tps"].quantile(q, "nearest") for q in (0.05, 0.5, 0.95))
    sentences = [
        f"{_length(run.span_s)}, a row each {rows}: {run.transactions:,.0f} transactions, {mean:,.1f} tps on average; "
        f"5 % of the rows are below {p5:,.0f}, half below {p50:,.0f}, 95 % below {p95:,.0f} tps."
    ]
    quarters = [_mean(part, "tps") for part in _quarters(run)]
    sentences.append("Mean tps by quarter: " + ", ".join("none" if value is None else f"{value:,.0f}" for value in quarters) + ".")
    latency = series["p95_ms"].median()
    if latency is not None:
        sentences.append(f"The median of the rows' p95 is {latency:,.1f} ms.")
    return sentences


def _disk(run: Run) -> list[str]:
    read, write = _mean(run.series, "read_mib_s"), _mean(run.series, "write_mib_s")
    if read is None or write is None:
        return []
    reads, writes = _mean(run.series, "read_iops"), _mean(run.series, "write_iops")
    if reads is None or writes is None:
        return [f"The host read {read:,.1f} and wrote {write:,.1f} MiB/s on average (all its disks; I/Os were not counted)."]
    covered = run.series.drop_nulls("read_iops")
    done = (covered["tps"] * covered["duration_s"]).sum()
    each = ((covered["read_iops"] + covered["write_iops"]) * covered["duration_s"]).sum()
    per = f", {each / done:,.1f} I/Os a transaction" if done else ""
    return [f"The device did {reads:,.0f} reads and {writes:,.0f} writes a second, {read:,.1f} and {write:,.1f} MiB/s on average{per}."]


def _measured(run: Run) -> list[str]:
    names = ["transactions a second"]
    names += [
        words
        for column, words in (("qps", "queries"), ("p95_ms", "p95"), ("read_iops", "I/Os"), ("read_mib_s", "bytes of the disks"))
        if run.series[column].count()
    ]
    if run.status is not None:
        names.append(f"{len(run.status.columns) - 2} counters of the server")
    return [f"Measured: {', '.join(names)}."]


def _doubts(run: Run) -> list[str]:
    stalls, suspect = stall_runs(run.series), int(run.series["suspect"].sum())
    first = f"{len(stalls)} stalls ({sum(length for _, length in stalls):,.0f} s), {suspect} suspect rows of {run.series.height}."
    return [first, *(finding.text for finding in run.findings if finding.kind not in ("stall", "outlier"))]


def _quarters(run: Run) -> list[pl.DataFrame]:
    start, quarter = run.series["t_s"][0], run.span_s / 4
    at = ((pl.col("t_s") - start) / quarter).floor()
    return [run.series.filter(at.clip(0, 3) == index) for index in range(4)]


def _mean(rows: pl.DataFrame, column: str) -> float | None:
    kept = rows.drop_nulls(column)
    length = kept["duration_s"].sum()
    return float((kept[column] * kept["duration_s"]).sum() / length) if length else None


def _gib(size: float) -> str:
    return f"{size:,.1f}" if size >= 1 else f"{size:.3g}"


def _length(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 60:,.1f} min"
