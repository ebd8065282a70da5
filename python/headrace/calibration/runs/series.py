"""Finds stalls, outliers and warming caches in the series of a run, and describes the run in
sentences.
"""

from __future__ import annotations

import math

import polars as pl

from headrace.base.units import format_percent
from headrace.calibration.runs.description import Description
from headrace.calibration.runs.model import LogRates, Run
from headrace.observe.run_files.status import looks_cold
from headrace.observe.series import RunFinding
from headrace.workload.server import FULL_SHARE

WINDOW_ROWS = 61  # a minute of seconds around each row
STALL_SHARE = 0.10  # a tenth of the usual; a guess
# 6 robust standard deviations: one in 500 million of normal noise, so in an hour of seconds none by
# chance.
OUTLIER_SIGMAS = 6.0
SIGMA_OF_MAD = 1.4826  # of a normal distribution
# Least standard deviation for bins whose deviations nearly vanish: counting noise (variance = mean)
# and 2 % of the level.
LEAST_SIGMA_SHARE = 0.02
MAX_PLACES = 5  # places named in a sentence
# Less than this of the run's median is not a slow start: a cold buffer pool's first second does 2
# %.
STANDSTILL_SHARE = 0.005
# Published sysbench-tpcc runs (Percona, EBS 2018): 28 to 83 % fewer in cold ones, within 2 % in
# warm ones (RDS 2020).
WARMING = 0.15
FEWEST_ROWS = 16  # two in each eighth of the run
FEWEST_SECONDS = 60.0  # a guess
PAGE_BYTES = 16_384  # InnoDB's default page
# More I/Os than a cold transaction of these benchmarks can cause (sysbench-tpcc: about 60): the
# volumes were not at their cap.
MOST_IOS_PER_TRANSACTION = 100.0


def mark_rows(series: pl.DataFrame) -> pl.DataFrame:
    """Returns the frame with `stall`, and the working columns `_median`, `_away`, `_sigma` and
    `_outlier`, which `finish_rows` reads and drops."""
    median = pl.col("tps").rolling_median(WINDOW_ROWS, center=True, min_samples=1)
    series = series.with_columns(median.alias("_median")).with_columns(
        (pl.col("tps") - pl.col("_median")).abs().alias("_away")
    )
    mad = pl.col("_away").rolling_median(WINDOW_ROWS, center=True, min_samples=1) * SIGMA_OF_MAD
    noise = (pl.col("_median") / pl.col("duration_s")).sqrt()
    series = series.with_columns(pl.max_horizontal(mad, noise, LEAST_SIGMA_SHARE * pl.col("_median")).alias("_sigma"))
    # During a stall longer than half the window the median itself is 0, so the rate is compared
    # with that of the whole run too.
    usual = pl.col("tps").filter(~pl.col("suspect")).median()
    still = (pl.col("tps") < STALL_SHARE * pl.col("_median")) | (pl.col("tps") < STANDSTILL_SHARE * usual)
    stall = still & ~pl.col("suspect")  # clients that left do not stall
    series = series.with_columns(stall.alias("stall"))
    outlier = (pl.col("_away") > OUTLIER_SIGMAS * pl.col("_sigma")) & ~pl.col("stall") & ~pl.col("suspect")
    return series.with_columns(outlier.alias("_outlier"))


def finish_rows(series: pl.DataFrame, findings: list[RunFinding]) -> pl.DataFrame:
    """Adds findings on the stalls and outliers of `mark_rows`; returns the frame with outliers in
    `suspect`, without the working columns."""
    _add_stall_finding(series, findings)
    outliers = series.filter(pl.col("_outlier"))
    if outliers.height:
        worst = outliers.sort(pl.col("_away") / pl.col("_sigma"), descending=True, maintain_order=True)
        places = ", ".join(
            f"{t:g} s ({tps:,.0f} tps, usually {usual:,.0f})"
            for t, tps, usual in worst.select("t_s", "tps", "_median").head(MAX_PLACES).rows()
        )
        text = (
            f"{outliers.height} of {series.height} rows lie over {OUTLIER_SIGMAS:g} "
            "robust standard deviations from the median of the minute around them"
        )
        findings.append(RunFinding("outlier", f"{text}: {places}. Marked suspect, not dropped.", worst["t_s"][0]))
    suspect = (pl.col("suspect") | pl.col("_outlier")).alias("suspect")
    return series.with_columns(suspect).drop("_median", "_away", "_sigma", "_outlier")


def find_stalls(series: pl.DataFrame) -> list[tuple[float, float]]:
    """Returns start and length, in seconds, of each stretch of consecutive stalled rows."""
    runs: list[tuple[float, float]] = []
    for t_s, duration in series.filter(pl.col("stall")).select("t_s", "duration_s").rows():
        if runs and abs(runs[-1][0] + runs[-1][1] - t_s) < 0.5 * duration:
            runs[-1] = (runs[-1][0], runs[-1][1] + duration)
        else:
            runs.append((t_s, duration))
    return runs


def _add_stall_finding(series: pl.DataFrame, findings: list[RunFinding]) -> None:
    """Adds a finding on the stalls, if there are any: their number, seconds, and the longest."""
    runs = find_stalls(series)
    if not runs:
        return
    longest = max(runs, key=lambda run: run[1])
    places = ", ".join(
        f"{length:g} s at {start:g} s" for start, length in sorted(runs, key=lambda run: -run[1])[:MAX_PLACES]
    )
    text = (
        f"{len(runs)} stalls, {sum(length for _, length in runs):,.0f} s in "
        f"all, below {format_percent(STALL_SHARE)} of the median of the minute around them"
    )
    findings.append(RunFinding("stall", f"{text}; the longest: {places}.", longest[0]))


# --- cold or warm ---------------------------------------------------------------------------------


def check_start(
    series: pl.DataFrame, described: Description, first_free_share: float | None, findings: list[RunFinding]
) -> None:
    """Adds a finding if the run contradicts its described start, or does not show it: by the free
    share of InnoDB's pool at the first sample if it is known, else by the I/Os a transaction, which
    fall by over 15 % in a cold run, and not in a warm one."""
    if described.engine == "innodb" and first_free_share is not None:
        data_gib = described.benchmark.data_gib
        _check_free_pages(
            described.start, first_free_share, None if data_gib is None else data_gib / described.cache_gib, findings
        )
        return
    good = series.filter(~pl.col("stall") & ~pl.col("suspect"))
    length_s = float(good["duration_s"].sum())
    if good.height < FEWEST_ROWS or length_s < FEWEST_SECONDS:
        findings.append(RunFinding("start", f"{length_s:,.0f} s are too short to tell a cold start from a warm one."))
        return
    fall, how = _measure_fall(good, described, length_s)
    if fall is None:
        findings.append(RunFinding("start", f"A {described.start} start cannot be confirmed: {how}"))
    elif described.start == "cold" and fall < WARMING:
        text = f'start = "cold", but {how} {_describe_change(fall)}: it was warm, or its cache filled in the first moments.'
        findings.append(RunFinding("start", text, 0.0))
    elif described.start == "warm" and fall > WARMING:
        text = f'start = "warm", but {how} {_describe_change(fall)}: the caches were still filling.'
        findings.append(RunFinding("start", text, 0.0))


def _describe_change(fall: float) -> str:
    return (
        f"fell by {format_percent(fall)} over the run" if fall >= 0 else f"rose by {format_percent(-fall)} over the run"
    )


def _check_free_pages(start: str, share: float, data_share: float | None, findings: list[RunFinding]) -> None:
    """Adds a finding if the free share of the pool at the first sample contradicts the start;
    `data_share` is data over cache."""
    if (start == "cold") != looks_cold(share, data_share):
        only = "only " if start == "cold" else ""
        findings.append(
            RunFinding(
                "start",
                f'start = "{start}", but {only}{format_percent(share)} of the buffer pool was free at the first sample.',
                0.0,
            )
        )


def compute_window_s(described: Description, length_s: float) -> float:
    """Returns the length of the beginning that is compared with the end, s: a quarter of the time
    in which the cache fills at the cap, from a sixtieth to an eighth of the run."""
    fill_s = (
        described.cache_gib * 2**30 / PAGE_BYTES / described.caps.iops
        if math.isfinite(described.caps.iops)
        else length_s
    )
    return min(max(fill_s / 4, length_s / 60, 10.0), length_s / 8)


def _measure_fall(good: pl.DataFrame, described: Description, length_s: float) -> tuple[float | None, str]:
    """Returns the share by which the I/Os a transaction fell from the beginning to the last eighth
    of the run, and the name of the figure that shows it; or None and the reason why none does."""
    first_t, last_t = good["t_s"][0], good["t_s"][-1] + good["duration_s"][-1]
    head = good.filter(pl.col("t_s") < first_t + compute_window_s(described, length_s))
    tail = good.filter(pl.col("t_s") >= last_t - (last_t - first_t) / 8)
    for column, words in (
        ("read_iops", "reads a transaction (iostat)"),
        ("read_mib_s", "MiB read a transaction (vmstat)"),
    ):
        before, after = _divide_by_transactions(head, column), _divide_by_transactions(tail, column)
        if before and after is not None:
            return 1 - after / before, words
    before, after = _average(head, "tps"), _average(tail, "tps")
    if not before or not after:
        return None, "transactions are missing at the beginning or the end."
    fall = 1 - before / after
    caps = described.caps
    if caps.iops_burst > 1.01 * caps.iops:
        return None, "disk figures are missing, and the volumes have burst credits, so the cap changes during the run."
    if not math.isfinite(caps.iops) or caps.iops / after > MOST_IOS_PER_TRANSACTION:
        return None, f"disk figures are missing, and at {after:,.0f} tps the volumes need not be at their cap."
    return fall, f"cap over tps (disk figures are missing; {caps.iops:,.0f} IOPS)"


def _divide_by_transactions(rows: pl.DataFrame, column: str) -> float | None:
    """Returns the total of a rate over the transactions of the rows that have it; None if these are
    less than half of the time."""
    both = rows.drop_nulls(column)
    transactions, amount = (float((both[name] * both["duration_s"]).sum()) for name in ("tps", column))
    covered = float(both["duration_s"].sum()) >= 0.5 * float(rows["duration_s"].sum())
    return amount / transactions if transactions and covered else None


# --- a run in sentences ---------------------------------------------------------------------------


def describe(run: Run) -> list[str]:
    """Describes a run in a list of sentences: set-up, length, speed (means weighted by time),
    disks, processors, measured figures, and findings."""
    return [
        *_describe_set_up(run),
        *_describe_speed(run),
        *_describe_disk(run),
        *_describe_processors(run),
        *_describe_measured(run),
        *_list_doubts(run),
    ]


def _describe_set_up(run: Run) -> list[str]:
    """Returns two sentences: on engine, benchmark, clients and cache, and on the storage with its
    limits."""
    engine = {"innodb": "InnoDB", "myrocks": "MyRocks"}[run.engine]
    version = f" ({run.flavor or 'version'} {run.engine_version})" if run.engine_version else ""
    where = f" on {run.instance}" if run.instance else ""
    log = f", redo and binlog on {run.log_storage}" if run.log_storage else ""
    data = f" over {_format_gib(run.benchmark.data_gib)} GiB of data" if run.benchmark.data_gib else ""
    script = f" {run.benchmark.script} ({run.benchmark.distribution})" if run.benchmark.script else ""
    first = (
        f"{run.name}: {engine}{version}, {run.benchmark.name}{script}{data}, {run.threads} "
        f"threads, {run.start} start with {_format_gib(run.cache_gib)} GiB of cache{where}."
    )
    if math.isfinite(run.caps.iops):
        burst = f" (with burst credits {run.caps.iops_burst:,.0f})" if run.caps.iops_burst > run.caps.iops else ""
        limits = f"{run.caps.iops:,.0f} IOPS{burst} and {run.caps.mib_s_burst:,.0f} MiB/s on {run.as_of}"
        if run.caps.reads_iops:
            limits = f"reads {run.caps.reads_iops:,.0f} IOPS and {run.caps.reads_mib_s:,.0f} MiB/s, writes {limits}"
    else:
        limits = "limits the catalog does not know"
    return [first, f"Storage {run.storage}: {limits}{log}."]


def _describe_speed(run: Run) -> list[str]:
    """Returns sentences on length and tps: mean, quantiles, means by quarter, and p95 in ms."""
    series = run.series
    rows = "second" if run.interval_s == 1 else f"{run.interval_s:g} s"
    mean = run.transactions / float(series["duration_s"].sum())
    p5, p50, p95 = (series["tps"].quantile(q, "nearest") for q in (0.05, 0.5, 0.95))
    sentences = [
        f"{_format_length(run.span_s)}, a row each {rows}: {run.transactions:,.0f} transactions, {mean:,.1f} tps on average; "
        f"5 % of the rows are below {p5:,.0f}, half below {p50:,.0f}, 95 % below {p95:,.0f} tps."
    ]
    quarters = [_average(part, "tps") for part in _split_quarters(run)]
    sentences.append(
        "Mean tps by quarter: " + ", ".join("none" if value is None else f"{value:,.0f}" for value in quarters) + "."
    )
    latency = series["p95_ms"].median()
    if latency is not None:
        sentences.append(f"The median of the rows' p95 is {latency:,.1f} ms.")
    return sentences


def _describe_disk(run: Run) -> list[str]:
    """Returns sentences on the mean reads, writes and MiB a second of the devices; empty if they
    were not recorded."""
    read, write = _average(run.series, "read_mib_s"), _average(run.series, "write_mib_s")
    if read is None or write is None:
        return []
    reads, writes = _average(run.series, "read_iops"), _average(run.series, "write_iops")
    if reads is None or writes is None:
        return [
            f"The host read {read:,.1f} and wrote {write:,.1f} MiB/s on average (all its disks; I/Os were not counted)."
        ]
    each = [_divide_by_transactions(run.series, column) for column in ("read_iops", "write_iops")]
    per = "" if None in each else f", {sum(filter(None, each)):,.1f} I/Os a transaction"
    device = "device" if run.log_rates is None else "data volume"
    sentences = [
        f"The {device} did {reads:,.0f} reads and {writes:,.0f} writes a second, {read:,.1f} and {write:,.1f} MiB/s on average{per}."
    ]
    if run.log_rates is not None:
        sentences.append(_describe_log_disk(run, run.log_rates))
    return sentences


def _describe_log_disk(run: Run, log: LogRates) -> str:
    """Returns a sentence on the mean writes and MiB a second of the log volume."""
    tps = run.transactions / max(float(run.series["duration_s"].sum()), 1e-9)
    per = f", {log.write_iops / tps:,.1f} a transaction" if tps > 0 else ""
    return f"The log volume did {log.write_iops:,.0f} writes a second, {log.write_mib_s:,.1f} MiB/s on average{per}."


def _describe_processors(run: Run) -> list[str]:
    """Returns a sentence on the busy share of the processors, and one more if they were full; empty
    if it was not recorded."""
    share = run.busy_share
    if share is None:
        return []
    of = "" if run.vcpus is None else f" of {run.vcpus:,}"
    text = f"The processors{of} were {format_percent(share)} busy on average"
    if share < FULL_SHARE:
        return [f"{text}."]
    return [
        f"{text}: its rate is theirs, and says of the storage only that it was enough. Predictions are wider for it."
    ]


def _describe_measured(run: Run) -> list[str]:
    """Returns a sentence with the names of the measured figures."""
    names = ["transactions a second"]
    names += [
        words
        for column, words in (
            ("qps", "queries"),
            ("p95_ms", "p95"),
            ("read_iops", "I/Os"),
            ("read_mib_s", "bytes of the disks"),
        )
        if run.series[column].count()
    ]
    if run.status is not None:
        names.append(f"{len(run.status.columns) - 2} counters of the server")
    return [f"Measured: {', '.join(names)}."]


def _list_doubts(run: Run) -> list[str]:
    """Returns a sentence on stalls and suspect rows, and the texts of all other findings."""
    stalls, suspect = find_stalls(run.series), int(run.series["suspect"].sum())
    first = f"{len(stalls)} stalls ({sum(length for _, length in stalls):,.0f} s), {suspect} suspect rows of {run.series.height}."
    return [first, *(finding.text for finding in run.findings if finding.kind not in ("stall", "outlier"))]


def _split_quarters(run: Run) -> list[pl.DataFrame]:
    """Splits the rows into four frames by time."""
    start, quarter = run.series["t_s"][0], run.span_s / 4
    at = ((pl.col("t_s") - start) / quarter).floor()
    return [run.series.filter(at.clip(0, 3) == index) for index in range(4)]


def _average(rows: pl.DataFrame, column: str) -> float | None:
    """Averages a column by time over the rows that have it; None where none has."""
    measured_rows = rows.drop_nulls(column)
    length = float(measured_rows["duration_s"].sum())
    return float((measured_rows[column] * measured_rows["duration_s"]).sum()) / length if length else None


def _format_gib(size: float) -> str:
    return f"{size:,.1f}" if size >= 1 else f"{size:.3g}"


def _format_length(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 60:,.1f} min"
