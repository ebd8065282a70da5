"""The benchmark's own reports: raw sysbench output (0.5, 1.0, 1.1), or a CSV with a header.

sysbench prints the end of each interval in whole seconds; rows are kept with their start. Rates are
sysbench's own means over the interval.
"""

from __future__ import annotations

import math
import re
import statistics
from array import array
from dataclasses import dataclass, field
from itertools import pairwise

from headrace.base.checks import suggest_nearest
from headrace.base.files import guess
from headrace.base.units import format_percent
from headrace.observe.clock import Stamp, parse_iso, parse_stamps
from headrace.observe.formats.devices import MAX_MISSING_SHARE
from headrace.observe.recording import Recording, clip
from headrace.observe.series import DOC, RunFinding, make_cut_finding, read_csv_rows, refuse
from headrace.workload.points import MAX_RECORDED_POINT_S, MAX_SPAN_S, MIN_POINT_S

MAX_ROWS = 3_000_000  # a month of seconds; ours
# Beyond any server: each is a sign of a damaged line.
MOST = {
    "threads": 1e5,
    "tps": 1e7,
    "qps": 1e9,
    "p95_ms": 1e7,
    "t_s": MAX_SPAN_S,
    "busy_share": 1.0,
    "pages_written_per_s": 1e7,
}
NUMBER = r"(\S+)"
REPORT_1 = re.compile(
    rf"(?P<stamp>[^\[]*)\[ *(?P<t>\S+?)s *\] thds: {NUMBER} tps: {NUMBER} qps: {NUMBER}"
    rf"(?: \(r/w/o: \S+\))? lat \(ms, ?(\S+?)%\): {NUMBER} "
    r"err/s:? \S+ reconn/s: \S+\Z"
)
REPORT_05 = re.compile(
    r"(?P<stamp>[^\[]*)\[ *(?P<t>\S+?)s *\] threads: (\S+?), tps: (\S+?), reads(?:/s)?: (\S+?), writes(?:/s)?: (\S+?), "
    r"response time: (\S+?)ms \((\S+?)%\)(?:, errors(?:/s)?: \S+?, +reconnects(?:/s)?: +\S+)?\Z"
)
LOOKS_LIKE_REPORT = re.compile(r"[^\[]*\[ *\S+?s *\] (thds|threads): ")
TOTAL = re.compile(r" +transactions: +(\d+) +\(")
WHOLE_P95 = re.compile(r" +95th percentile: +([0-9.]+)\s*\Z")
START = re.compile(r"sysbench \d+\.\d")
# Beyond this the sum of the rows and sysbench's own total do not belong to the same run.
TOTAL_SLACK = 0.05


@dataclass
class Rows:
    """The figures of the file, column by column; NaN where a value is not measured.

    `t_s` as printed: the end of the interval.
    """

    where: array = field(default_factory=lambda: array("q"))
    t_s: array = field(default_factory=lambda: array("d"))
    threads: array = field(default_factory=lambda: array("d"))
    tps: array = field(default_factory=lambda: array("d"))
    qps: array = field(default_factory=lambda: array("d"))
    p95_ms: array = field(default_factory=lambda: array("d"))
    busy_share: array = field(default_factory=lambda: array("d"))  # of all virtual CPUs
    pages_written_per_s: array = field(default_factory=lambda: array("d"))  # by the server
    # (line, text), or Stamp, of the rows; empty when there are none
    stamps: list = field(default_factory=list)
    findings: list[RunFinding] = field(default_factory=list)
    interval_s: float = 0.0
    clock_at_zero_s: float | None = None  # epoch of t_s = 0, when the file has times
    whole_p95_ms: float | None = None  # of all transactions, from sysbench's summary


def parse(recording: Recording, columns: dict[str, str], interval_s: float | None) -> Rows:
    """Returns the rows of the file in order, one per interval; duplicates are dropped, with a
    finding.

    Raises InputError.
    """
    lines = recording.lines
    if any(LOOKS_LIKE_REPORT.match(line) for line in lines[:2_000]) or any(START.match(line) for line in lines[:50]):
        if columns:
            raise recording.make_error(
                "", "raw sysbench output", "has no columns to name", "Take files.columns out.", DOC
            )
        rows = _read_raw(recording, lines)
    else:
        rows = _read_csv(recording, lines, columns, interval_s)
    del lines
    if len(rows.t_s) < 2:
        hint = "Run longer, with --report-interval=1."
        raise recording.make_error("", f"{len(rows.t_s)} reports", "at least two are needed", hint, DOC)
    _set_interval(recording, rows, interval_s)
    if not any(value > 0 for value in rows.tps):
        hint = "The clients did nothing: look at the benchmark's own messages."
        raise recording.make_error("", "no transaction", "is in the whole file", hint, DOC)
    _set_clock(recording, rows)
    return rows


def _parse_value(recording: Recording, where: int, what: str, text: str) -> float:
    """Returns a figure of the column `what`. Raises InputError for one beyond MOST, too."""
    number = recording.parse_number(where, what, text)
    if number > MOST[what]:
        hint = "The line is damaged: take it out."
        raise recording.make_error(
            where, f"{what} = {clip(text, 40)}", f"at most {MOST[what]:,.0f} is believed", hint, DOC
        )
    return number


# --- raw output -----------------------------------------------------------------------------------


def _read_raw(recording: Recording, lines: list[str]) -> Rows:
    """Reads the reports of sysbench's own output. Raises InputError if there are none, one is
    damaged, or the file has several runs."""
    rows, totals, percentiles, starts = Rows(), [], set(), 0
    last = max((index for index, line in enumerate(lines) if line.strip()), default=0)
    for number, line in enumerate(lines, start=1):
        if "[" in line and LOOKS_LIKE_REPORT.match(line):
            match = REPORT_1.match(line.strip()) or REPORT_05.match(line.strip())
            if match:
                _add_raw_row(recording, rows, number, match, percentiles)
            elif number == last + 1:
                rows.findings.append(make_cut_finding(recording, number))
            else:
                hint = "The line is damaged: take it out."
                raise recording.make_error(number, line.strip(), "is not a whole report of sysbench", hint, DOC)
        elif START.match(line):
            starts += 1
            if starts > 1:
                rule = "sysbench was started again here: one run per file"
                raise recording.make_error(number, line.strip(), rule, "Cut the file there.", DOC)
        elif total := TOTAL.match(line):
            totals.append((number, float(total[1][:18])))
        elif whole := WHOLE_P95.match(line):
            rows.whole_p95_ms = _parse_value(recording, number, "p95_ms", whole[1]) or None
    if not rows.t_s:
        hint = "Run sysbench with --report-interval=1."
        raise recording.make_error("", "no report of sysbench", "is in the file", hint, DOC)
    if percentiles - {95.0}:
        percents = ", ".join(f"{value:g}" for value in sorted(percentiles))
        rows.findings.append(
            RunFinding(
                "percentile", f"{recording.name} has the {percents} % latency, not the 95 %: p95_ms is null there."
            )
        )
    _check_total(recording, rows, totals)
    return rows


def _add_raw_row(recording: Recording, rows: Rows, number: int, match: re.Match, percentiles: set[float]) -> None:
    """Adds a report of either version of sysbench to `rows`; latencies of another percentile than
    the 95th become NaN, and their percentile is added to `percentiles`."""
    if match.re is REPORT_1:
        threads, tps, qps, percent, latency = match.groups()[2:]
        queries = _parse_value(recording, number, "qps", qps)
    else:
        threads, tps, reads, writes, latency, percent = match.groups()[2:]
        queries = _parse_value(recording, number, "qps", reads) + _parse_value(recording, number, "qps", writes)
    percent = recording.parse_number(number, "the percentile", percent)
    percentiles.add(percent)
    p95 = _parse_value(recording, number, "p95_ms", latency)
    tps = _parse_value(recording, number, "tps", tps)
    _add_row(
        rows,
        number,
        _parse_value(recording, number, "t_s", match["t"]),
        threads=_parse_value(recording, number, "threads", threads),
        tps=tps,
        qps=queries,
        p95_ms=p95 if percent == 95.0 else math.nan,
    )
    stamp = match["stamp"].strip()
    if bool(stamp) != bool(rows.stamps) and len(rows.t_s) > 1:
        rule = "some reports have a time in front and others do not"
        raise recording.make_error(number, clip(stamp) or "no time", rule, "Copy the file again.", DOC)
    if stamp:
        rows.stamps.append((number, stamp))


def _add_row(
    rows: Rows,
    where: int,
    t_s: float,
    *,
    threads: float,
    tps: float,
    qps: float,
    p95_ms: float,
    busy_share: float = math.nan,
    pages_written_per_s: float = math.nan,
) -> None:
    """Adds a row; figures that were not measured are NaN. Raises InputError beyond `MAX_ROWS`."""
    if len(rows.t_s) >= MAX_ROWS:
        raise refuse.input(f"line {where}", f"at most {MAX_ROWS:,} reports are read", "Cut the file.")
    rows.where.append(where)
    rows.t_s.append(t_s)
    rows.threads.append(threads)
    rows.tps.append(tps)
    rows.qps.append(qps)
    # sysbench prints 0.00 for the percentile of nothing.
    rows.p95_ms.append(math.nan if tps == 0.0 or p95_ms == 0.0 else p95_ms)
    rows.busy_share.append(busy_share)
    rows.pages_written_per_s.append(pages_written_per_s)


def _check_total(recording: Recording, rows: Rows, totals: list[tuple[int, float]]) -> None:
    """Adds a finding if the reports do not add up to the transactions in sysbench's summary. Raises
    InputError for a second summary."""
    if len(totals) > 1:
        hint = "Cut the file there."
        raise recording.make_error(
            totals[1][0], "a second summary", "sysbench was started again: one run per file", hint, DOC
        )
    if totals and len(rows.t_s) > 1:
        step = statistics.median_low([b - a for a, b in pairwise(rows.t_s)])
        summed, total = sum(rows.tps) * step, totals[0][1]
        if step > 0 and abs(summed - total) > TOTAL_SLACK * max(total, summed):
            text = f"The reports add up to {summed:,.0f} transactions, sysbench's summary says {total:,.0f}: reports are missing or damaged."
            rows.findings.append(RunFinding("totals", text))


# --- CSV ------------------------------------------------------------------------------------------

CSV_NAMES = {
    "t_s": "t_s",
    "threads": "threads",
    "tps": "tps",
    "qps": "qps",
    "lat_p95_ms": "p95_ms",
    "busy_share": "busy_share",
    "pages_flushed_ps": "pages_written_per_s",
}


def _read_csv(recording: Recording, lines: list[str], columns: dict[str, str], interval_s: float | None) -> Rows:
    """Returns the rows of a CSV file with a row per interval. `columns`: the file's names by those
    of CSV_NAMES; `interval_s`: the length of a row where it has no times. Raises InputError where
    that is not known either, and for a damaged row."""
    delimiter = max(",;\t", key=next(line for line in lines if line.strip()).count)
    rows, place = Rows(), {}
    for number, cells in read_csv_rows(recording, rows.findings, delimiter):
        if place:
            _add_csv_row(recording, rows, number, cells, place, interval_s)
            continue
        place = _find_csv_columns(recording, number, [name.strip() for name in cells], columns)
        if "t_s" not in place and interval_s is None:
            hint = "Say how long each row is: files.interval_s."
            raise recording.make_error(number, "no column t_s", "the time of each row is needed", hint, DOC)
    if not recording.text.endswith("\n"):
        rows.findings.append(
            RunFinding("cut", f"{recording.name} has no line end at its end: the last figure may be cut off.")
        )
    return rows


def _find_csv_columns(recording: Recording, line: int, header: list[str], columns: dict[str, str]) -> dict[str, int]:
    """Returns the position of each column in CSV_NAMES, and of `time`. Raises InputError if one
    that `columns` names, or `tps`, is missing or there twice."""
    place = {}
    for name in ("time", *CSV_NAMES):
        column = columns.get(name, name)
        if header.count(column) > 1:
            raise recording.make_error(
                line, f"column {clip(column, 40)}", "is there twice", "Name each column once.", DOC
            )
        if column in header:
            place[name] = header.index(column)
        elif name in columns:
            rule = f"files.columns says {name} is called so"
            hint = suggest_nearest(column, header) or f"There are: {clip(', '.join(header), 200)}."
            raise recording.make_error(line, f"no column {clip(column, 40)}", rule, hint, DOC)
    if "tps" not in place:
        tool = guess(recording.text)
        what = f"looks like {tool}" if tool else f"no column tps in the header: {clip(', '.join(header))}"
        rule = "raw sysbench output is read, or CSV with the header t_s,threads,tps,qps,lat_p95_ms"
        hint = "Name the file under the key it belongs to." if tool else "Other names go into files.columns."
        raise recording.make_error("" if tool else line, what, rule, hint, DOC)
    return place


def _add_csv_row(
    recording: Recording, rows: Rows, number: int, cells: list[str], place: dict[str, int], interval_s: float | None
) -> None:
    """Adds a row of a CSV file to `rows`; without a time it ends `interval_s` seconds after the row
    before. Raises InputError for a damaged figure or time."""
    values = {}
    for name, what in CSV_NAMES.items():
        text = cells[place[name]].strip() if name in place else ""
        if text:
            values[what] = _parse_value(recording, number, what, text)
        elif name in place and name in ("tps", "t_s"):
            raise recording.make_error(number, f"{name} is empty", "every row needs it", "Take the row out.", DOC)
    t_s = values.get("t_s", (len(rows.t_s) + 1) * (interval_s or 0.0))
    _add_row(
        rows,
        number,
        t_s,
        threads=values.get("threads", math.nan),
        tps=values["tps"],
        qps=values.get("qps", math.nan),
        p95_ms=values.get("p95_ms", math.nan),
        busy_share=values.get("busy_share", math.nan),
        pages_written_per_s=values.get("pages_written_per_s", math.nan),
    )
    if "time" in place:
        stamp = parse_iso(cells[place["time"]])
        if stamp is None:
            rule = "must be ISO 8601 or seconds since 1970"
            raise recording.make_error(number, f"time = {clip(cells[place['time']], 40)}", rule, "", DOC)
        rows.stamps.append(stamp)


# --- one time axis --------------------------------------------------------------------------------


def _set_interval(recording: Recording, rows: Rows, given_s: float | None) -> None:
    """Sets the `interval_s` of rows to the median step of their times, drops rows that are there
    twice, and adds findings on these and on gaps. `given_s`: the interval in the run's description.
    Raises InputError for steps that are not even."""
    steps = [b - a for a, b in pairwise(rows.t_s) if b > a]
    if not steps:
        hint = "Is the right column named in files.columns?"
        raise recording.make_error("", "t_s never rises", "it counts the seconds since the start", hint, DOC)
    interval = statistics.median_low(steps)
    if given_s is not None and abs(given_s - interval) > 0.1 * given_s:
        hint = "Leave it out."
        raise recording.make_error(
            "", f"files.interval_s = {given_s:g}", f"the rows are {interval:g} s apart", hint, DOC
        )
    if not MIN_POINT_S <= interval <= MAX_RECORDED_POINT_S:
        rule = f"{MIN_POINT_S:g} to {MAX_RECORDED_POINT_S:g} s are taken"
        raise recording.make_error("", f"rows {interval:g} s apart", rule, "t_s is in seconds.", DOC)
    doubled = [index for index in range(1, len(rows.t_s)) if _check_step(recording, rows, index, interval)]
    if doubled:
        place = ", ".join(f"line {rows.where[index]}" for index in doubled[:5])
        text = f"{recording.name}: {len(doubled)} rows were there twice, word for word, and were taken once ({place})."
        rows.findings.append(RunFinding("duplicate", text, rows.t_s[doubled[0]]))
        _drop_rows(rows, set(doubled))
    rows.interval_s = float(interval)
    add_gap_finding(recording, rows)


def _check_step(recording: Recording, rows: Rows, index: int, interval_s: float) -> bool:
    """Returns whether a row repeats the row before it word for word. Raises InputError for a time
    that is not about `interval_s` or more after that of the row before."""
    now, before, where = rows.t_s[index], rows.t_s[index - 1], rows.where[index]
    step = now - before
    if step == 0:
        same = all(
            column[index] == column[index - 1] or (math.isnan(column[index]) and math.isnan(column[index - 1]))
            for column in (rows.threads, rows.tps, rows.qps, rows.p95_ms)
        )
        if same:
            return True
        hint = "Two runs were mixed: keep one."
        raise recording.make_error(where, f"t_s = {now:g}", "was there before with other figures", hint, DOC)
    if step < 0:
        if now <= rows.t_s[0] + interval_s:
            hint = "The benchmark was started again: cut the file there."
            raise recording.make_error(where, f"t_s starts over at {now:g}", "one run per file", hint, DOC)
        hint = "Lines are in disorder, or runs were mixed."
        raise recording.make_error(where, f"t_s = {now:g}", f"lies {-step:g} s before the row above it", hint, DOC)
    if step < 0.5 * interval_s and index < len(rows.t_s) - 1:
        hint = "Keep one report interval per file."
        raise recording.make_error(
            where, f"{step:g} s after the row above", f"the others are {interval_s:g} s apart", hint, DOC
        )
    return False


def _drop_rows(rows: Rows, dropped: set[int]) -> None:
    """Removes the rows at these positions from all columns."""
    for name in ("where", "t_s", "threads", "tps", "qps", "p95_ms", "busy_share", "pages_written_per_s"):
        column = getattr(rows, name)
        setattr(
            rows, name, array(column.typecode, (value for index, value in enumerate(column) if index not in dropped))
        )
    if rows.stamps:
        rows.stamps = [stamp for index, stamp in enumerate(rows.stamps) if index not in dropped]


def add_gap_finding(recording: Recording, rows: Rows) -> None:
    """Adds a finding on missing rows. Raises InputError for too many."""
    interval, gaps = rows.interval_s, []
    if rows.t_s[0] > 1.5 * interval:
        gaps.append((0.0, rows.t_s[0] - interval, rows.where[0]))
    for before, after, where in zip(rows.t_s, rows.t_s[1:], rows.where[1:], strict=False):
        if after - before > 1.5 * interval:
            gaps.append((before, after - before - interval, where))
    if not gaps:
        return
    missing, longest = sum(gap[1] for gap in gaps), max(gaps, key=lambda gap: gap[1])
    share = missing / (missing + interval * len(rows.t_s))
    if share > MAX_MISSING_SHARE:
        rule = f"{format_percent(share)} of the run is missing, at most {format_percent(MAX_MISSING_SHARE)} may be"
        hint = "Copy the file again, or cut it there."
        raise recording.make_error(longest[2], f"t_s jumps forward by {longest[1] + interval:,.0f} s", rule, hint, DOC)
    text = (
        f"{len(gaps)} gaps, {missing:,.0f} s ({format_percent(share, 1)}) in all; the longest, "
        f"{longest[1]:,.0f} s, begins at {longest[0]:,.0f} s. Nothing was filled in."
    )
    rows.findings.append(RunFinding("gap", text, longest[0]))


# Printed times are whole seconds, and a report can be written late under load.
CLOCK_SLACK_S = 3.0


def _set_clock(recording: Recording, rows: Rows) -> None:
    """Sets `clock_at_zero_s` by the times of rows, and adds a finding where that clock jumped."""
    if not rows.stamps:
        return
    stamps = rows.stamps if isinstance(rows.stamps[0], Stamp) else parse_stamps(recording, rows.stamps)
    offsets = [stamp.epoch_s - t_s for stamp, t_s in zip(stamps, rows.t_s, strict=True)]
    rows.clock_at_zero_s = statistics.median_low(offsets)
    jumps = [index for index in range(1, len(offsets)) if abs(offsets[index] - offsets[index - 1]) > CLOCK_SLACK_S]
    if jumps:
        by = offsets[jumps[0]] - offsets[jumps[0] - 1]
        way = "forward" if by > 0 else "back"
        text = f"{recording.name}: the clock was set {len(jumps)} times, first {way} by {abs(by):,.0f} s at line {rows.where[jumps[0]]}."
        rows.findings.append(RunFinding("clock", text + " t_s was believed, not the clock.", rows.t_s[jumps[0]]))
