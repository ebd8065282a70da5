"""Compares a run description with the contents of its files: contradictions are refused, doubts are
noted as findings.
"""

from __future__ import annotations

import math
import statistics

import polars as pl

from headrace.calibration.runs.description import Description
from headrace.errors import InputError
from headrace.observe.recording import Recording
from headrace.observe.run_files.status import Status
from headrace.observe.run_files.sysbench import Rows
from headrace.observe.series import DOC, RunFinding

RULES = f"{DOC}, Contradictions"
# Clients that finish first leave reports of fewer threads at the very end; a few report intervals
# at most.
MAX_ENDING_ROWS = 30
LENGTH_SLACK_S = 10.0  # sysbench stops late under load; a guess
LENGTH_SLACK_SHARE = 0.02  # the same of long runs; a guess
# Markov: at most one in 20 can be above 20 times the mean, so p95 <= 20 x mean, whatever the
# distribution.
P95_OVER_MEAN = 20.0
# mean <= 0.95 p95 + 0.05 tail: for a mean of 3 x p95 the slowest twentieth would have to take over
# 40 times p95.
MEAN_OVER_P95 = 3.0
# iostat counts before EBS merges neighbours, so the log's appends can stand above the cap; half as
# much again is not merging.
FAR_ABOVE_IOPS = 1.5
FAR_ABOVE_MIB_S = 1.25  # nothing merges bytes
ABOVE = 1.1  # rounding of reports; a guess
# vmstat adds up all disks of the host, the root volume too.
FAR_ABOVE_HOST = 2.0
# The server rounds the pool up to whole chunks (up to 1 GiB at 8 instances).
POOL_SLACK_SHARE, POOL_SLACK_GIB = 0.10, 1.0
# Queries per transaction of the OLTP scripts with their default options (sysbench 1.0,
# oltp_common.lua, BEGIN and COMMIT counted).
QUERIES = {
    "oltp_read_write": 20, "oltp_read_only": 16, "oltp_write_only": 6, "oltp_point_select": 1,
    "oltp_update_index": 1, "oltp_update_non_index": 1, "oltp_insert": 1, "oltp_delete": 1,
}  # fmt: skip
TPCC_QUERIES = (15, 60)  # sysbench-tpcc in published runs: 28 to 37
# Commits over transactions beyond which other clients were at work: a guess, wide enough for clocks
# and rounding.
LEAST_COMMITS, MOST_COMMITS = 0.5, 1.5
# Below one query per transaction (less rounding) the columns are swapped.
LEAST_QUERIES = 0.98


def check_threads(recording: Recording, rows: Rows, described: int) -> list[bool]:
    """Returns a list with a value per row, true for the rows at the end in which clients had
    already left, and adds a finding on them to `rows`. Raises InputError if the number of threads
    differs from the described one in another row."""
    threads, count = rows.threads, len(rows.threads)
    for where, value in zip(rows.where, threads, strict=True):
        if not math.isnan(value) and value != int(value):
            hint = "The line is damaged: take it out."
            raise recording.make_error(where, f"threads = {value:g}", "must be a whole number", hint, DOC)
    end = count
    while end > 0 and count - end < MAX_ENDING_ROWS and threads[end - 1] < described:
        end -= 1
    for where, value in zip(rows.where[: max(end, 1)], threads, strict=False):
        if not math.isnan(value) and value != described:
            hint = "Correct it, or name the file of that run."
            raise recording.make_error(
                where, f"{value:g} threads", f"the description says threads = {described}", hint, RULES
            )
    ending = [index >= end for index in range(count)]
    if any(ending):
        text = f"In the last {count - end} rows clients had already left ({threads[count - 1]:g} of {described} at the end): marked suspect."
        rows.findings.append(RunFinding("ending", text, rows.t_s[end] - rows.interval_s))
    return ending


def check_length(recording: Recording, rows: Rows, seconds: float | None) -> None:
    """Raises InputError if the last row of a file does not end near `seconds`, the described
    length (None: not checked)."""
    last = rows.t_s[-1]
    if (
        seconds is not None
        and abs(last - seconds) > max(LENGTH_SLACK_S, LENGTH_SLACK_SHARE * seconds) + rows.interval_s
    ):
        way = "the run was stopped early or the file is cut off" if last < seconds else "the file is longer"
        rule = f"the description says seconds = {seconds:g}: {way}"
        hint = "Correct seconds, leave it out, or copy the file again."
        raise recording.make_error("", f"it ends at {last:,.0f} s", rule, hint, RULES)


def check_rates(recording: Recording, series: pl.DataFrame, described: Description, findings: list[RunFinding]) -> None:
    """Raises InputError if the medians of tps, qps and p95 (ms) contradict each other: a closed
    load keeps `threads` transactions in flight (Little's law). Adds a finding to `findings` if the
    queries of a transaction are unusual for the benchmark."""
    busy = series.filter((pl.col("tps") > 0) & ~pl.col("stall") & ~pl.col("suspect"))
    tps, qps, p95 = (compute_median(busy[name]) for name in ("tps", "qps", "p95_ms"))
    if tps is None:
        return
    mean_ms = 1_000.0 * described.threads / tps
    figures = f"{described.threads} threads at {tps:,.4g} tps take {mean_ms:,.4g} ms each on average"
    if p95 is not None and p95 > P95_OVER_MEAN * mean_ms:
        rule = f"{figures}: p95 cannot be above 20 times that (Markov)"
        hint = "Is tps per second, p95 in ms, and threads the number of clients?"
        raise recording.make_error("", f"p95 is {p95:,.4g} ms", rule, hint, RULES)
    if p95 is not None and mean_ms > MEAN_OVER_P95 * p95:
        rule = f"{figures}, over {MEAN_OVER_P95:g} times p95: the clients waited for something else"
        hint = "Is there a --rate or think time (not a closed run), or is tps not per second?"
        raise recording.make_error("", f"p95 is {p95:,.4g} ms", rule, hint, RULES)
    if qps is not None and qps < LEAST_QUERIES * tps:
        rule = "a transaction is at least one query"
        raise recording.make_error("", f"qps is {qps:,.4g} and tps {tps:,.4g}", rule, "Are the columns swapped?", RULES)
    if qps is not None:
        _check_queries(qps / tps, described, findings)


def _check_queries(queries: float, described: Description, findings: list[RunFinding]) -> None:
    """Adds a finding if the described benchmark does not make this number of queries a
    transaction."""
    benchmark = described.benchmark
    usual = QUERIES.get(benchmark.script or "")
    if usual and not 0.8 * usual <= queries <= 1.25 * usual:
        text = f"{queries:.1f} queries a transaction; {benchmark.script} makes {usual} with its default options."
    elif benchmark.name == "sysbench-tpcc" and not TPCC_QUERIES[0] <= queries <= TPCC_QUERIES[1]:
        text = f"{queries:.1f} queries a transaction; sysbench-tpcc makes about 28 to 37."
    else:
        return
    findings.append(RunFinding("benchmark", text + " Was the benchmark another one, or run with other options?"))


def check_caps(name: str, tool: str, series: pl.DataFrame, described: Description, findings: list[RunFinding]) -> None:
    """Compares the medians of I/Os and MiB a second with what the storage gave on the day of the
    run on its instance (with the log's volumes, if the figures can be of both). Adds a finding to
    `findings` if they are above it; raises InputError if they are far above."""
    caps, log = described.caps, described.log_caps
    host_wide = tool == "vmstat"
    if not (host_wide or tool == "disk" or "+" in (described.files.device or "")):
        log = None
    iops = compute_median(series["read_iops"] + series["write_iops"])
    mib_s = compute_median(series["read_mib_s"] + series["write_mib_s"])
    volumes = [caps, log] if log else [caps]
    most_iops = sum(volume.iops_burst + volume.reads_iops for volume in volumes)
    most_mib_s = sum(volume.mib_s_burst + volume.reads_mib_s for volume in volumes)
    for value, most, refused_ratio, unit in (
        (iops, most_iops, FAR_ABOVE_IOPS, "IOPS"),
        (mib_s, most_mib_s, FAR_ABOVE_HOST if host_wide else FAR_ABOVE_MIB_S, "MiB/s"),
    ):
        if value is None or value <= ABOVE * most:
            continue
        on = f" on {described.instance}" if described.instance else ""
        if value > refused_ratio * most:
            rule = f"storage {described.storage}{on} gives at most {most:,.0f} {unit} on {described.as_of}"
            hint = "Check storage, as_of, instance, the device, and whether it is the same run."
            raise InputError(
                f"{name}: {value:,.0f} {unit} half of the time", rule, "the catalog (headrace catalog volumes)", hint
            )
        text = (
            f"{name}: {value:,.0f} {unit} half of the time, and {described.storage}{on} "
            f"gives {most:,.0f}: merging, other disks, or a wrong description."
        )
        findings.append(RunFinding("storage", text))


def compute_median(values: pl.Series) -> float | None:
    """Returns the median of the values that are not null; None if all are."""
    figures = values.drop_nulls().to_list()
    return float(statistics.median(figures)) if figures else None


def check_pool(name: str, status: Status, described: Description) -> None:
    """Raises InputError if InnoDB's count of pages in its pool differs from the described
    `cache_gib`."""
    if described.engine != "innodb" or not status.pages_total:
        return
    pool_gib = status.pages_total * status.page_bytes / 2**30
    if abs(pool_gib - described.cache_gib) > max(POOL_SLACK_SHARE * described.cache_gib, POOL_SLACK_GIB):
        rule = f"{name} counts {status.pages_total:,.0f} pages, {pool_gib:,.4g} GiB of buffer pool"
        hint = "Correct cache_gib, or name the file of that run."
        raise InputError(f"cache_gib = {described.cache_gib:g}", rule, RULES, hint)


def check_commits(name: str, status: pl.DataFrame, series: pl.DataFrame, findings: list[RunFinding]) -> None:
    """Adds a finding if the server's commits a second differ from the benchmark's tps, as with
    other clients at work."""
    if "com_commit_per_s" not in status.columns:
        return
    commits, tps = (rates.drop_nulls().to_numpy() for rates in (status["com_commit_per_s"], series["tps"]))
    commits, tps = (float(rates.mean()) if rates.size else 0.0 for rates in (commits, tps))
    if commits and not LEAST_COMMITS * tps <= commits <= MOST_COMMITS * tps:
        text = f"{name}: {commits:,.0f} commits a second against {tps:,.0f} tps: other clients, or another run."
        findings.append(RunFinding("status", text))
