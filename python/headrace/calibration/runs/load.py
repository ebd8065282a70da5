"""From the path of a RUN.toml to a checked Run."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields, replace
from statistics import fmean

import polars as pl

from headrace.base.documents import parse_toml
from headrace.base.files import make_path, read_bytes
from headrace.base.units import format_percent
from headrace.calibration.runs import server
from headrace.calibration.runs.checks import (
    check_caps,
    check_commits,
    check_length,
    check_pool,
    check_rates,
    check_threads,
)
from headrace.calibration.runs.description import KIND, MAX_TOML_BYTES, Description, check_description
from headrace.calibration.runs.model import SERIES_COLUMNS, LogRates, Run, RunFacts
from headrace.calibration.runs.series import check_start, finish_rows, mark_rows
from headrace.errors import HeadraceError
from headrace.observe.recording import Recording, clip
from headrace.observe.run_files import align, status, sysbench
from headrace.observe.run_files.counters import read_counters
from headrace.observe.run_files.disk import read_disk
from headrace.observe.run_storage import note_late_day
from headrace.observe.series import RunFinding, TimeSeries, open_text, refuse

# Kinds of disk files; if a run has several, the first of this order gives the figures.
DISK_KEYS = ("disk", "iostat", "vmstat")
DISK_COLUMNS = ("read_iops", "write_iops", "read_mib_s", "write_mib_s")
# vmstat sees all disks: with less than this share of iostat's bytes the two are not of one run.
LEAST_HOST_SHARE = 0.8


def load_run(path: str | os.PathLike) -> Run:
    """Loads the run described in a TOML file, with the files it names. Raises InputError (exit code
    2) or CouldNotRun (3)."""
    path = make_path(path)
    content = read_bytes(path, MAX_TOML_BYTES)
    try:
        described = check_description(parse_toml(path.name, content, KIND), path.parent)
        return _load(described)
    except HeadraceError as error:
        # Every rule names its key or its file; the user also needs to know whose.
        value = error.value if error.value.startswith(path.name) else f"{clip(path.name, 80)}: {error.value}"
        raise error.amend(value=value) from None


def _load(described: Description) -> Run:
    """Reads the files of a described run, aligns and checks them. Raises InputError, and
    CouldNotRun where a file cannot be read."""
    findings = _list_description_findings(described)
    transactions = (
        _read_benchmark(described) if "sysbench" in described.files.paths else _read_server_samples(described, findings)
    )
    recording, rows, files = (
        transactions.recording,
        transactions.rows,
        {transactions.key: (transactions.recording.name, transactions.recording.sha256)},
    )
    recording.text = ""  # releases memory: its columns are in `rows`
    ending = check_threads(recording, rows, described.threads)
    check_length(recording, rows, described.seconds)
    series = _build_frame(rows, ending, described.threads)
    clock_s = described.files.clock_start.epoch_s if described.files.clock_start else rows.clock_at_zero_s
    findings += rows.findings
    disks = _read_disks(described, series, rows.interval_s, findings)
    files |= {key: (disk.name, disk.sha256) for key, disk in disks.items()}
    series = _add_disks(series, disks, clock_s, findings)
    series = mark_rows(series)
    check_rates(recording, series, described, findings)
    for key in [key for key in DISK_KEYS if key in disks][:1]:
        check_caps(disks[key].name, key, series, described, findings)
    if transactions.status is None:
        frame, first_free_share = _read_status(described, series, rows.interval_s, clock_s, files, findings)
    else:
        frame, first_free_share = (
            status.build_frame(transactions.status.series, 0.0),
            transactions.status.first_free_share,
        )
    check_start(series.with_columns(pl.col("suspect") | pl.col("_outlier")), described, first_free_share, findings)
    series = finish_rows(series, findings).select(pl.col(name).cast(kind) for name, kind in SERIES_COLUMNS.items())
    if described.p95_ms is None:
        described = replace(described, p95_ms=rows.whole_p95_ms)
    log_rates = _read_log_rates(described, series, clock_s)
    return _build_run(described, files, rows.interval_s, series, frame, findings, log_rates)


def _list_description_findings(described: Description) -> list[RunFinding]:
    """Returns findings on the description alone: a day after the catalog's, data that fit into the
    cache."""
    findings: list[RunFinding] = []
    later = note_late_day(described.as_of)
    if later:
        findings.append(RunFinding("as_of", later))
    if described.benchmark.data_gib is not None and described.benchmark.data_gib <= described.cache_gib:
        findings.append(
            RunFinding(
                "cache",
                f"All {described.benchmark.data_gib:g} GiB of data fit into the cache of {described.cache_gib:g} GiB.",
            )
        )
    return findings


@dataclass
class _Transactions:
    """The transactions of a run: the `key` of their file in [files], its content and rows, and the
    server's samples if the rows were made from those."""

    key: str
    recording: Recording
    rows: sysbench.Rows
    status: status.Status | None = None


def _read_benchmark(described: Description) -> _Transactions:
    """Reads the transactions from the benchmark's reports."""
    recording = open_text(described.files.paths["sysbench"])
    return _Transactions(
        "sysbench",
        recording,
        sysbench.parse(recording, described.files.columns, described.files.intervals.get("sysbench")),
    )


def _read_server_samples(described: Description, findings: list[RunFinding]) -> _Transactions:
    """Reads the transactions from samples of the server, adding to `findings`. Raises
    InputError."""
    files = described.files
    for key, given in (("columns", files.columns), ("interval_s", files.intervals.get("sysbench"))):
        if given:
            raise refuse.input(f"files.{key}", "belongs to files.sysbench, and there is none", "Take it out.")
    recording = open_text(files.paths["status"])
    samples = status.parse(recording, files.status_relative, files.intervals.get("status"), None, 1.0, findings)
    status.check_engine(samples, described.engine, recording.name)
    check_pool(recording.name, samples, described)
    return _Transactions("status", recording, server.build_rows(recording, samples, files), samples)


def _build_run(
    described: Description,
    files: dict,
    interval_s: float,
    series: pl.DataFrame,
    frame: pl.DataFrame | None,
    findings: list[RunFinding],
    log_rates: LogRates | None,
) -> Run:
    """Returns the run of a description and its measurements. `interval_s` is the length of a row;
    `frame` has the server's counters, None without a status file."""
    given = {fact.name: getattr(described, fact.name) for fact in fields(RunFacts)}
    read = {"files": files, "interval_s": interval_s, "series": series, "status": frame, "log_rates": log_rates}
    return Run(**given, **read, findings=tuple(findings))


def _read_log_rates(described: Description, series: pl.DataFrame, clock_s: float | None) -> LogRates | None:
    """Returns the mean rates of the log's own volume during the run; None if no device of it is
    described. Raises InputError."""
    device = described.files.log_device
    if device is None:
        return None
    # Gaps and alignment are those of the data's devices, which `_add_disks` has noted.
    read = read_counters(described.files.paths["disk"], device, [])
    offset = align.find_offset(read, "write_iops", series, clock_s, [])
    rows = align.resample_series(read, offset, series["t_s"].to_list(), series["duration_s"].to_list())
    means = [
        fmean(figures) if (figures := [value for value in rows[name] if value is not None]) else 0.0
        for name in ("write_iops", "write_mib_s")
    ]
    return LogRates(*means)


def _build_frame(rows: sysbench.Rows, ending: list[bool], threads: int) -> pl.DataFrame:
    """Returns a frame with a row per report, its columns as in SERIES_COLUMNS but
    `stall` and those of disks."""
    interval, count = rows.interval_s, len(rows.t_s)
    series = pl.DataFrame(
        {
            # printed is the end of the interval
            "t_s": pl.Series(rows.t_s, dtype=pl.Float64) - interval,
            "duration_s": pl.Series([interval] * count, dtype=pl.Float64),
            "threads": pl.Series(
                [threads if math.isnan(value) else int(value) for value in rows.threads], dtype=pl.Int64
            ),
            "tps": pl.Series(rows.tps, dtype=pl.Float64),
            "qps": pl.Series(rows.qps, dtype=pl.Float64),
            "p95_ms": pl.Series(rows.p95_ms, dtype=pl.Float64),
            "busy_share": pl.Series(rows.busy_share or [math.nan] * count, dtype=pl.Float64),
            "pages_written_per_s": pl.Series(rows.pages_written_per_s or [math.nan] * count, dtype=pl.Float64),
            "suspect": pl.Series(ending, dtype=pl.Boolean),
        }
    )
    return series.with_columns(pl.col("qps", "p95_ms", "busy_share", "pages_written_per_s").fill_nan(None))


def _read_disks(
    described: Description, series: pl.DataFrame, row_s: float, findings: list[RunFinding]
) -> dict[str, TimeSeries]:
    """Returns the series of each disk file by key, each on its own time axis; `row_s` is the length
    of a row of the run. Adds to `findings`."""
    span_s = series["t_s"][-1] + row_s - series["t_s"][0]
    disks = {}
    if "disk" in described.files.paths:
        disks["disk"] = read_counters(described.files.paths["disk"], described.files.device, findings)
    for key in ("iostat", "vmstat"):
        if key in described.files.paths:
            device = described.files.device if key == "iostat" and "disk" not in disks else None
            disks[key] = read_disk(
                key, described.files.paths[key], device, described.files.intervals.get(key), span_s, row_s, findings
            )
    return disks


def _add_disks(
    series: pl.DataFrame, disks: dict[str, TimeSeries], clock_s: float | None, findings: list[RunFinding]
) -> pl.DataFrame:
    """Returns the series with the figures of the first disk file, null in rows that it does not
    cover, and the busy share of the processors if a file has it and the series has not. Adds gaps,
    alignments and contradictions to `findings`; raises InputError if a file is of another time."""
    starts, durations = series["t_s"].to_list(), series["duration_s"].to_list()
    measured = {}
    for key, disk in disks.items():
        reference = "read_mib_s" if key == "vmstat" else "read_iops"
        offset = align.find_offset(disk, reference, series, clock_s, findings)
        findings += [gap.shift_clock(offset) for gap in disk.gaps]
        measured[key] = align.resample_series(disk, offset, starts, durations)
        if all(value is None for value in measured[key]["read_mib_s"]):
            rule = "files of one run lie in the same time"
            raise refuse.input(f"{disk.name}: no report lies within the run", rule, "Name the file of this run.")
    used = [key for key in DISK_KEYS if key in measured]
    taken = measured[used[0]] if used else {}
    series = series.with_columns(
        pl.Series(name, taken.get(name, [None] * series.height), dtype=pl.Float64) for name in DISK_COLUMNS
    )
    # Every disk file but counters of devices has the processors: the first one counts.
    busy = next((columns["busy_share"] for columns in measured.values() if "busy_share" in columns), None)
    if busy is not None and not series["busy_share"].count():
        series = series.with_columns(pl.Series("busy_share", busy, dtype=pl.Float64))
    if len(used) > 1:
        _compare_disks(used, measured, findings)
    for key in DISK_KEYS:
        missing = sum(value is None for value in measured.get(key, {}).get("read_mib_s", ()))
        if missing:
            findings.append(
                RunFinding(
                    "gap",
                    f"{disks[key].name}: {missing} of {series.height} rows of the run are not covered: null there.",
                )
            )
    return series


def _compare_disks(used: list[str], measured: dict[str, dict], findings: list[RunFinding]) -> None:
    """Adds a finding that says which of several disk files gives the figures, and whether vmstat's
    bytes contradict them."""
    total = {
        key: sum(value or 0.0 for name in ("read_mib_s", "write_mib_s") for value in columns[name])
        for key, columns in measured.items()
    }
    first = used[0]
    text = f"{', '.join(used[:-1])} and {used[-1]} are {'both' if len(used) == 2 else 'all'} there: the disk figures are {first}'s."
    if "vmstat" in total and total["vmstat"] < LEAST_HOST_SHARE * total[first]:
        text += (
            f" vmstat has only {format_percent(total['vmstat'] / total[first])} of its bytes, "
            "though it counts all disks: they are not of one host and run."
        )
    findings.append(RunFinding("disk", text))


def _read_status(
    described: Description,
    series: pl.DataFrame,
    row_s: float,
    clock_s: float | None,
    files: dict,
    findings: list[RunFinding],
) -> tuple[pl.DataFrame | None, float | None]:
    """Returns the server's counters on the run's time axis, and the free share of the pool at the
    start; None for each that is missing. Adds the file to `files` and doubts to `findings`."""
    if "status" not in described.files.paths:
        return None, None
    recording = open_text(described.files.paths["status"])
    span_s = series["t_s"][-1] + row_s - series["t_s"][0]
    intervals, count_before = described.files.intervals, len(findings)
    samples = status.parse(recording, described.files.status_relative, intervals.get("status"), span_s, row_s, findings)
    files["status"] = (recording.name, recording.sha256)
    status.check_engine(samples, described.engine, recording.name)
    check_pool(recording.name, samples, described)
    reference = next(
        (name for name in ("com_commit_per_s", *samples.series.columns) if name in samples.series.columns), None
    )
    if reference is None:
        hint = "Record SHOW GLOBAL STATUS whole."
        raise refuse.input(f"{recording.name}: no counter with a rate or a level", "is left of it", hint)
    offset = align.find_offset(samples.series, reference, series, clock_s, findings)
    # Places found in the file's own time move to the run's.
    findings[count_before:] = [finding.shift_clock(offset) for finding in findings[count_before:]]
    frame = status.build_frame(samples.series, offset)
    check_commits(recording.name, frame, series, findings)
    # A sample of another time does not show the pool at the start.
    return frame, samples.first_free_share if abs(offset) <= align.MAX_LAG_S else None
