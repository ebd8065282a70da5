"""A run without a benchmark's reports: transactions as the server counts them, one row per interval
between two samples.
"""

from __future__ import annotations

import math
import statistics

from headrace.calibration.runs.description import Files
from headrace.observe.recording import Recording
from headrace.observe.run_files.status import COMMITS, READS, WRITES, Status
from headrace.observe.run_files.sysbench import Rows, add_gap_finding
from headrace.observe.series import DOC, RunFinding
from headrace.workload.points import MAX_RECORDED_POINT_S, MIN_POINT_S

# Commits are the transactions unless they are next to nothing compared with statements that commit
# by themselves: then one of those is one.
LEAST_COMMITS_PER_WRITE, LEAST_COMMITS_PER_READ = 0.1, 0.01
# Samples a second apart come some milliseconds early or late.
JITTER = 0.02


def build_rows(recording: Recording, status: Status, files: Files) -> Rows:
    """Returns rows like those of a benchmark's report, one per interval between samples: `t_s` is
    the end of each, threads and p95 are nan. Intervals over missed samples are left out as gaps.
    Raises InputError with fewer than two rows, or without transactions."""
    counters, findings = _choose_counters(recording, status, files.transactions)
    rows = Rows(findings=findings, interval_s=_choose_interval(recording, status))
    rows.clock_at_zero_s = status.series.begin_s
    columns = status.series.columns
    counted = [columns[f"{name}_per_s"] for name in counters]
    query_rates = columns.get("questions_per_s") or [None] * len(status.where)
    last_index = -1
    for index, (start, duration) in enumerate(zip(status.series.start_s, status.series.duration_s, strict=True)):
        row_index = round(start / rows.interval_s)
        rates = [rate for column in counted if (rate := column[index]) is not None]
        # A step over missed samples is a gap; so is one in which the server was started again.
        if row_index <= last_index or duration > 1.5 * rows.interval_s or len(rates) < len(counted):
            continue
        last_index = row_index
        tps, queries = sum(rates), query_rates[index]
        rows.where.append(status.where[index])
        rows.t_s.append((row_index + 1) * rows.interval_s)
        rows.threads.append(math.nan)
        rows.tps.append(tps)
        # Questions do not count statements inside procedures and events, which tps may.
        rows.qps.append(math.nan if queries is None or queries < tps else queries)
        rows.p95_ms.append(math.nan)
    if len(rows.t_s) < 2:
        raise recording.make_error("", f"{len(rows.t_s)} intervals", "at least two are needed", "Record longer.", DOC)
    if not any(rows.tps):
        hint = "The server did nothing: record it under its load."
        raise recording.make_error("", f"no {' or '.join(counters)}", "grows in the whole file", hint, DOC)
    add_gap_finding(recording, rows)
    return rows


def _choose_interval(recording: Recording, status: Status) -> float:
    """Returns the median interval between samples, s, rounded to whole seconds if it is within
    JITTER of them. Raises InputError if it is too short or too long."""
    usual = statistics.median(status.series.duration_s)
    whole = round(usual)
    interval = float(whole) if whole and abs(usual - whole) <= JITTER * whole else usual
    if not MIN_POINT_S * (1 - JITTER) <= interval <= MAX_RECORDED_POINT_S:
        rule = f"{MIN_POINT_S:g} to {MAX_RECORDED_POINT_S:g} s are taken"
        raise recording.make_error("", f"samples {interval:g} s apart", rule, "Record with -i1.", DOC)
    return interval


def _choose_counters(
    recording: Recording, status: Status, counter_names: tuple[str, ...] | None
) -> tuple[tuple[str, ...], list[RunFinding]]:
    """Returns the counters whose sum is the number of transactions, and a finding with the reason:
    those described (`counter_names`), else commits, else statements. Raises InputError."""
    totals = {
        name: _sum_counter(status, name)
        for name in (*COMMITS, *WRITES, *READS)
        if f"{name}_per_s" in status.series.columns
    }
    if counter_names is not None:
        missing = [name for name in counter_names if name not in totals]
        if missing:
            hint = f"There are: {', '.join(totals) or 'none'}."
            raise recording.make_error("", f"no column {missing[0]}", "files.transactions names it", hint, DOC)
        return counter_names, [
            RunFinding(
                "transactions", f"{recording.name}: a transaction is one of {', '.join(counter_names)}, as described."
            )
        ]
    if not totals:
        rule = f"is in the file: {', '.join((*COMMITS, *WRITES, *READS))}"
        raise recording.make_error(
            "", "none of the counters of transactions", rule, "Record SHOW GLOBAL STATUS whole.", DOC
        )
    commits, writes, reads = (sum(totals.get(name, 0.0) for name in names) for names in (COMMITS, WRITES, READS))
    if commits and commits >= LEAST_COMMITS_PER_WRITE * writes and commits >= LEAST_COMMITS_PER_READ * reads:
        chosen, explanation = (
            COMMITS,
            f"a transaction is a commit ({commits:,.0f}, compared with {writes:,.0f} statements that write and {reads:,.0f} that read)",
        )
    else:
        chosen, explanation = (
            (*WRITES, *READS),
            f"a transaction is a statement that reads or writes ({reads:,.0f} and {writes:,.0f}), since there are {commits:,.0f} commits",
        )
    return tuple(name for name in chosen if name in totals), [
        RunFinding("transactions", f"{recording.name}: {explanation}.")
    ]


def _sum_counter(status: Status, name: str) -> float:
    """Returns how much a counter grew in all samples."""
    pairs = zip(status.series.columns[f"{name}_per_s"], status.series.duration_s, strict=True)
    return sum(rate * duration for rate, duration in pairs if rate is not None)
