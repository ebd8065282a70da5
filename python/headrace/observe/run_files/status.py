"""Samples of SHOW GLOBAL STATUS as rates and levels.

Read are the tables of `mysqladmin extended-status -i1` (with `-r`, too: differences are added up
again), tab-separated batches (`mysql -B -e 'SHOW GLOBAL STATUS'` in a loop, with or without a line
of time before each), and CSV with a column per variable.
"""

from __future__ import annotations

import math
import re
import statistics
from array import array
from dataclasses import dataclass, field
from itertools import pairwise

import polars as pl

from headrace.base.files import guess
from headrace.base.packaged import read_rows
from headrace.observe.clock import Stamp, parse_iso
from headrace.observe.recording import Recording, clip
from headrace.observe.run_files.align import infer_interval
from headrace.observe.run_files.sysbench import MAX_ROWS
from headrace.observe.series import (
    DOC,
    RunFinding,
    TimeSeries,
    find_wide_intervals,
    make_cut_finding,
    read_csv_rows,
    refuse,
)

# Counters of which each may count transactions (MySQL 9 and MariaDB 12 manuals, Server Status
# Variables).
COUNTER_ROWS = read_rows("headrace.observe.run_files", "status.csv")
COMMITS, WRITES, READS = (
    tuple(row["counter"] for row in COUNTER_ROWS if row["counts"] == what) for what in ("commit", "write", "read")
)
# Rates: counters that only grow, over the time between samples; bytes where the name says so.
# Levels: pages, bytes of redo since the last checkpoint, and clients with a statement under way.
RATES, LEVELS = (
    tuple(row["counter"] for row in COUNTER_ROWS if row["kind"] == counter_kind) for counter_kind in ("rate", "level")
)
# Both ends of the checkpoint's age, for servers without a counter of the age itself: MySQL from
# 8.0.30, MariaDB from 10.5.
CHECKPOINT_ENDS = (
    ("innodb_redo_log_current_lsn", "innodb_redo_log_checkpoint_lsn"),
    ("innodb_lsn_current", "innodb_lsn_last_checkpoint"),
)
# A replica's: commits of its binary log, and the groups they were in (MariaDB).
GROUPS = ("binlog_commits", "binlog_group_commits")
HELPERS = ("uptime", "innodb_page_size", *GROUPS, *(name for pair in CHECKPOINT_ENDS for name in pair))
WANTED = (*RATES, *LEVELS, *HELPERS)
NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,9})?\Z", re.ASCII)
MOST = 2.0**64  # counters are unsigned 64-bit numbers
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{1,120}\Z", re.ASCII)
BORDER = re.compile(r"\+[-+]+\+?\Z")
# of 2>&1
WARNING = re.compile(r"(mysql(admin)?|mariadb(-admin)?): \[?(Warning|Note)|Warning: ", re.IGNORECASE)
TABLE_ROW = re.compile(r"\|\s*(\S+)\s*\|\s?(.*?)\s*\|\Z")
LONGEST_DIFFERENCE_S = 600.0  # a guess: samples are taken more often than this
UPTIME_SLACK_S = 1.5  # Uptime is in whole seconds


@dataclass
class StatusSamples:
    """Samples of the variables in WANTED (NaN: absent), and the lines that they begin at."""

    where: list[int] = field(default_factory=list)
    stamps: list[Stamp | None] = field(default_factory=list)
    t_s: list[float] = field(default_factory=list)  # CSV with a column t_s only
    values: dict[str, array] = field(default_factory=lambda: {name: array("d") for name in WANTED})
    engines: set[str] = field(default_factory=set)

    def add(self, recording: Recording, where: int, stamp: Stamp | None, sample: dict[str, float]) -> None:
        """Adds a sample, its line in the file and its time (None: not known). Raises InputError
        beyond `MAX_ROWS`."""
        if len(self.where) >= MAX_ROWS:
            raise recording.make_error(where, f"more than {MAX_ROWS:,} samples", "is too many", "Cut the file.", DOC)
        self.where.append(where)
        self.stamps.append(stamp)
        for name, column in self.values.items():
            column.append(sample.get(name, math.nan))


@dataclass
class Status:
    """The status of a server over a run. `series`: a value per interval between samples, columns as
    in `Run.status`. `engines`: those that have counters. `pages_total`, `first_free_share`: of the
    buffer pool in the first sample, None when not known.
    """

    series: TimeSeries
    where: list[int]  # line at which each interval ends
    engines: set[str]
    page_bytes: float
    pages_total: float | None
    first_free_share: float | None


def parse(
    recording: Recording,
    relative: bool | None,
    interval_s: float | None,
    span_s: float | None,
    row_s: float,
    findings: list[RunFinding],
) -> Status:
    """Returns the status in the samples of a file. `relative`: whether they are differences (None:
    as they look). `span_s`, `row_s`: of the benchmark's rows (None: there are none), for files
    without times. Adds to `findings`. Raises InputError.
    """
    head = recording.text[:200_000]
    first = next((line for line in head.split("\n") if line.strip()), "")
    if first.count(",") and any(cell.strip().strip('"').lower() in RATES + LEVELS for cell in first.split(",")):
        samples = _read_csv(recording, findings)
    else:
        samples = _read_batches(recording, findings)
    if len(samples.where) < 2:
        hint = "Record with mysqladmin extended-status -i1."
        raise recording.make_error("", f"{len(samples.where)} samples", "rates need at least two", hint, DOC)
    if all(all(math.isnan(value) for value in samples.values[name]) for name in RATES + LEVELS):
        rule = f"is in the file: {', '.join(RATES + LEVELS)}"
        raise recording.make_error("", "none of the counters wanted", rule, "Record SHOW GLOBAL STATUS whole.", DOC)
    if relative is None:
        relative = _looks_relative(samples)
        if relative:
            findings.append(
                RunFinding(
                    "status", f"{recording.name}: the figures are differences (mysqladmin -r) and were added up."
                )
            )
    levels_known = _accumulate(samples) if relative else True
    _check_cumulative(recording, samples)
    starts, durations, begin = _compute_times(recording, samples, relative, interval_s, span_s, row_s, findings)
    _fill_checkpoint_age(samples)
    series = _build_series(recording, samples, starts, durations, begin, levels_known, findings)
    return _make_status(samples, series, durations, levels_known)


def read_sample(recording: Recording) -> dict[str, float]:
    """Returns the counters in one output of SHOW GLOBAL STATUS by name. Raises InputError."""
    samples = _read_batches(recording, [])
    if len(samples.where) != 1:
        hint = "Save SHOW GLOBAL STATUS once, whole."
        raise recording.make_error("", f"{len(samples.where)} samples", "one is needed", hint, DOC)
    counters = {name: column[0] for name, column in samples.values.items() if not math.isnan(column[0])}
    if "uptime" not in counters:
        rule = "is not the output of SHOW GLOBAL STATUS: it has no Uptime"
        raise recording.make_error("", "no Uptime", rule, "Save it whole.", DOC)
    return counters


# --- reading --------------------------------------------------------------------------------------


def _parse_number(recording: Recording, where: int, name: str, text: str) -> float:
    """Returns the value of a status variable. Raises InputError if it is not a number, or beyond 64
    bits."""
    text = text.strip()
    if not NUMBER.match(text) or abs(float(text)) > MOST:
        hint = "The line is damaged: take its sample out."
        raise recording.make_error(
            where, f"{name} = {clip(text, 40)}", "must be a number of at most 64 bits", hint, DOC
        )
    return float(text)


def _read_batches(recording: Recording, findings: list[RunFinding]) -> StatusSamples:
    """Reads the samples of text in batches, such as mysqladmin prints: a variable that was there
    before begins the next sample. A last sample that is cut off is left out, with a finding."""
    samples, sample, names, begun, stamp, next_stamp = StatusSamples(), {}, set(), 0, None, None
    lines = recording.lines
    last = max(index for index, line in enumerate(lines) if line.strip()) + 1
    counted, sizes = 0, []
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or BORDER.match(line) or WARNING.match(line):
            continue
        pair = _parse_pair(line)
        if pair is None:
            next_stamp = _read_stamp(recording, number, line, number == last, findings) or next_stamp
            continue
        name, value = pair[0].lower(), pair[1]
        if name == "variable_name" or name in names:
            if names:
                samples.add(recording, begun, stamp, sample)
                sizes.append(len(names))
            sample, names, begun, stamp, next_stamp = {}, set(), number, next_stamp, None
            if name == "variable_name":
                continue
        if not names:
            begun = begun or number
            stamp, next_stamp = (next_stamp, None) if next_stamp else (stamp, None)
        names.add(name)
        counted += name in WANTED
        samples.engines |= {prefix for prefix in ("innodb", "rocksdb") if name.startswith(prefix + "_")}
        if name in WANTED:
            cut = number == last and not recording.text.endswith("\n")
            if not cut or NUMBER.match(value):
                sample[name] = _parse_number(recording, number, name, value)
    if not counted and not samples.where:
        _refuse_file(recording)
    if names:
        if sizes and len(names) < statistics.median(sizes):
            findings.append(make_cut_finding(recording, begun, "sample"))
        else:
            samples.add(recording, begun, stamp, sample)
    return samples


def _parse_pair(line: str) -> tuple[str, str] | None:
    """Returns (name, value) of a line of a table or of a tab-separated batch."""
    if line.startswith("|"):
        match = TABLE_ROW.match(line)
        return (match[1], match[2]) if match and NAME.match(match[1]) else None
    name, tab, value = line.partition("\t")
    if tab and NAME.match(name.strip()) and not name.startswith("TS"):
        return name.strip(), value.strip()
    # A variable with an empty value loses its tab when the line is stripped.
    return (line, "") if "_" in line and NAME.match(line) else None


def _read_stamp(
    recording: Recording, number: int, line: str, is_last: bool, findings: list[RunFinding]
) -> Stamp | None:
    """Returns the time on a line that is not a variable; None, with a finding, for a last line that
    is cut off. Raises InputError for any other line."""
    words = line.split()
    stamp = parse_iso(line) or (parse_iso(words[1]) if words[0] == "TS" and len(words) > 1 else None)
    if stamp is None and is_last:
        findings.append(make_cut_finding(recording, number))
    elif stamp is None:
        tool = guess(recording.text)
        what = f"looks like {tool}" if tool and tool != "SHOW GLOBAL STATUS" else line
        hint = "The line is damaged, or the file belongs to another key: take it out."
        raise recording.make_error(
            number, what, "is not a line of SHOW GLOBAL STATUS, nor a time in ISO 8601", hint, DOC
        )
    return stamp


def _refuse_file(recording: Recording) -> None:
    """Raises InputError, which names the tool that the file seems to be of."""
    tool = guess(recording.text)
    what = f"looks like {tool}" if tool and tool != "SHOW GLOBAL STATUS" else "no counter of SHOW GLOBAL STATUS"
    hint = "Record with mysqladmin extended-status -i1."
    raise recording.make_error("", what, "files.status names samples of SHOW GLOBAL STATUS", hint, DOC)


def _read_csv(recording: Recording, findings: list[RunFinding]) -> StatusSamples:
    """Reads the samples of a CSV file with a column per variable. Raises InputError for a damaged
    header, time or figure."""
    samples = StatusSamples()
    header: list[str] = []
    for number, cells in read_csv_rows(recording, findings):
        if not header:
            header = [cell.strip().lower() for cell in cells]
            if len(set(header)) != len(header):
                hint = "The header is damaged."
                raise recording.make_error(number, "a column is there twice", "each may be there once", hint, DOC)
            samples.engines = {
                prefix for prefix in ("innodb", "rocksdb") if any(name.startswith(prefix + "_") for name in header)
            }
            continue
        row = dict(zip(header, cells, strict=True))
        stamp = None
        if "time" in row and (stamp := parse_iso(row["time"])) is None:
            rule = "must be ISO 8601 or seconds since 1970"
            raise recording.make_error(number, f"time = {clip(row['time'], 40)}", rule, "", DOC)
        if "t_s" in row:
            samples.t_s.append(_parse_number(recording, number, "t_s", row["t_s"]))
        counters = {
            name: _parse_number(recording, number, name, row[name]) for name in WANTED if row.get(name, "").strip()
        }
        samples.add(recording, number, stamp, counters)
    return samples


# --- meaning --------------------------------------------------------------------------------------


def _looks_relative(samples: StatusSamples) -> bool:
    """Returns True for differences (mysqladmin -r): Uptime does not grow from one sample to the
    next; without Uptime, counters fall again and again."""
    uptime = [value for value in samples.values["uptime"] if not math.isnan(value)]
    if len(uptime) >= 3:
        grows = sum(b > a for a, b in zip(uptime[1:], uptime[2:], strict=False))
        # Samples faster than one a second do not move Uptime either; differences are small
        # compared with it, or small altogether.
        small = statistics.median(uptime[1:]) < 0.5 * uptime[0] or max(uptime) <= LONGEST_DIFFERENCE_S
        return grows < 0.5 * (len(uptime) - 2) and small
    if len(uptime) == 2:
        return uptime[1] < 0.5 * uptime[0]
    falls = [b < a for name in RATES for a, b in pairwise(samples.values[name])]
    return bool(falls) and sum(falls) > 0.2 * len(falls)


def _accumulate(samples: StatusSamples) -> bool:
    """Replaces the differences in `samples` by running sums. Returns False when the first sample is
    a difference too, so that levels are not known.
    """
    uptime = samples.values["uptime"]
    uptimes = [value for value in uptime if not math.isnan(value)]
    whole = len(uptimes) < 2 or uptimes[0] > 3 * statistics.median(uptimes[1:])
    for name in (*RATES, *LEVELS, *HELPERS):
        column, total = samples.values[name], 0.0
        for index, value in enumerate(column):
            if not math.isnan(value):
                total += value
                column[index] = total
    return whole


def _check_cumulative(recording: Recording, samples: StatusSamples) -> None:
    """Raises InputError if a counter is negative, as in a file of differences."""
    for name in (*RATES, *HELPERS):
        for where, value in zip(samples.where, samples.values[name], strict=True):
            if value < 0:
                hint = "For mysqladmin -r say status_relative = true; else the line is damaged."
                raise recording.make_error(where, f"{name} = {value:g}", "a counter cannot be negative", hint, DOC)


def _compute_times(
    recording: Recording,
    samples: StatusSamples,
    relative: bool,
    given_s: float | None,
    span_s: float | None,
    row_s: float,
    findings: list[RunFinding],
) -> tuple[list[float], list[float], float | None]:
    """Returns starts (from 0) and durations of the intervals between samples in s, and the begin in
    seconds since 1970 (None: not known). Raises InputError where times are missing or go back."""
    count, begin = len(samples.where), None
    uptime = [value for value in samples.values["uptime"] if not math.isnan(value)]
    stamps = [stamp for stamp in samples.stamps if stamp is not None]
    if len(stamps) == count:
        times = [stamp.epoch_s for stamp in stamps]
        begin = times[0]
    elif stamps:
        where = samples.where[samples.stamps.index(None)]
        hint = "Record each with its time, or none."
        raise recording.make_error(where, "a sample without a time", "others of this file have one", hint, DOC)
    elif len(samples.t_s) == count:
        times = samples.t_s
    elif given_s is not None:
        times = [index * given_s for index in range(count)]
    elif len(uptime) == count and all(b >= a for a, b in pairwise(uptime)) and uptime[-1] > uptime[0]:
        mean = (uptime[-1] - uptime[0]) / (count - 1)
        even = [index * mean for index in range(count)]
        fits = all(abs(value - uptime[0] - at) <= UPTIME_SLACK_S for value, at in zip(uptime, even, strict=True))
        times = even if fits else uptime
        findings.append(
            RunFinding(
                "status",
                f"{recording.name}: times are those of Uptime"
                + ("." if fits else ", whole seconds, as it was not even."),
            )
        )
    elif span_s is None:
        hint = "Say how far apart they are (files.status_interval_s)."
        raise recording.make_error("", "samples without times", "nothing else of this run has any", hint, DOC)
    else:
        step = infer_interval(recording, "status", count, span_s, row_s, findings)
        times = [index * step for index in range(count)]
    for where, before, after in zip(samples.where[1:], times, times[1:], strict=False):
        if after < before:
            hint = "The clock was set: cut the file there."
            raise recording.make_error(
                where, f"{before - after:g} s back in time", "samples follow each other", hint, DOC
            )
    first = times[0]
    return [time - first for time in times[:-1]], [b - a for a, b in pairwise(times)], begin


def _fill_checkpoint_age(samples: StatusSamples) -> None:
    """Sets the age of the checkpoint in `samples` from its ends, where it is not counted."""
    age = samples.values["innodb_checkpoint_age"]
    for current, checkpoint in CHECKPOINT_ENDS:
        for index, (end, begin) in enumerate(zip(samples.values[current], samples.values[checkpoint], strict=True)):
            if math.isnan(age[index]) and end >= begin:
                age[index] = end - begin


def _build_series(
    recording: Recording,
    samples: StatusSamples,
    starts: list[float],
    durations: list[float],
    begin: float | None,
    levels_known: bool,
    findings: list[RunFinding],
) -> TimeSeries:
    """Returns rates a second and levels of each interval between samples, null where a counter
    started over. `starts` and `durations` are in seconds from the first sample; `begin` is the time
    of that sample, seconds since 1970 or None."""
    keep = [index for index, duration in enumerate(durations) if duration > 0]
    if not keep:
        raise recording.make_error(
            "", "all samples at one time", "rates need time between them", "Record with -i1.", DOC
        )
    if len(keep) < len(durations):
        findings.append(
            RunFinding(
                "duplicate",
                f"{recording.name}: {len(durations) - len(keep)} samples at the time of the sample before were left out.",
            )
        )
    usual = statistics.median(durations[index] for index in keep)
    gaps = find_wide_intervals(durations, usual, UPTIME_SLACK_S)
    if gaps:
        longest = max(durations[index] for index in gaps)
        text = f"{recording.name}: {len(gaps)} gaps between samples, the longest {longest:,.0f} s; rates there are means over the gap."
        findings.append(RunFinding("gap", text, starts[gaps[0]]))
    columns, restarts = {}, {}
    for name in RATES:
        column = samples.values[name]
        if all(math.isnan(value) for value in column):
            continue
        rates = [_compute_rate(column[index], column[index + 1], durations[index]) for index in keep]
        columns[f"{name}_per_s"] = [None if rate is None or rate < 0 else rate for rate in rates]
        restarts |= {keep[at]: name for at, rate in enumerate(rates) if rate is not None and rate < 0}
    for name in LEVELS:
        column = samples.values[name]
        if levels_known and not all(math.isnan(value) for value in column):
            columns[name] = [None if math.isnan(column[index + 1]) else column[index + 1] for index in keep]
    if not levels_known:
        findings.append(
            RunFinding(
                "status",
                f"{recording.name}: the first sample is a difference too, so levels (pages free, dirty) are not known.",
            )
        )
    if restarts:
        index = min(restarts)
        text = (
            f"{recording.name}, line {samples.where[index + 1]}: {restarts[index]} "
            f"starts over ({len(restarts)} times in all): the server was "
            "restarted, or FLUSH STATUS was run. Rates there are null."
        )
        findings.append(RunFinding("restart", text, starts[index]))
    starts, durations = [starts[index] for index in keep], [durations[index] for index in keep]
    return TimeSeries(recording.name, recording.sha256, starts, durations, columns, begin, begin)


def _compute_rate(before: float, after: float, duration: float) -> float | None:
    """Returns how much a counter grew a second over `duration` seconds; None where a sample lacks
    it."""
    return None if math.isnan(before) or math.isnan(after) else (after - before) / duration


def _make_status(samples: StatusSamples, series: TimeSeries, durations: list[float], levels_known: bool) -> Status:
    """Returns the series with the engines, and with size, number and free share of the buffer
    pool's pages by the first sample; a page is 16 KiB where it is not known."""

    def find_first(name: str) -> float | None:
        return next((value for value in samples.values[name] if not math.isnan(value)), None) if levels_known else None

    free, total = find_first("innodb_buffer_pool_pages_free"), find_first("innodb_buffer_pool_pages_total")
    share = free / total if free is not None and total else None
    where = [line for line, duration in zip(samples.where[1:], durations, strict=True) if duration > 0]
    return Status(series, where, samples.engines, find_first("innodb_page_size") or 16_384.0, total, share)


def build_frame(series: TimeSeries, offset_s: float) -> pl.DataFrame:
    """Returns the intervals of a series as `Run.status`, `offset_s` seconds later."""
    columns = {"t_s": [start + offset_s for start in series.start_s], "duration_s": series.duration_s}
    return pl.DataFrame(
        columns | series.columns, schema_overrides={name: pl.Float64 for name in (*columns, *series.columns)}
    )


def check_engine(status: Status, engine: str, name: str) -> None:
    """Raises InputError for a status without any counter of `engine`. `name`: the file's."""
    needed = "rocksdb" if engine == "myrocks" else "innodb"
    if needed not in status.engines:
        other = " and ".join(sorted(status.engines)) or "no engine"
        hint = f"Check the engine, or record with the plugin loaded: SHOW GLOBAL STATUS LIKE '{needed}%'."
        raise refuse.input(f'engine = "{engine}"', f"{name} has counters of {other} only", hint)


def looks_cold(free_share: float, data_share: float | None) -> bool:
    """Returns whether a buffer pool with this share of free pages (0 to 1) is cold: it has less
    than half of the data that fit. `data_share`: data over pool, None: not known."""
    return 1 - free_share < 0.5 * min(1.0, 1.0 if data_share is None else data_share)
