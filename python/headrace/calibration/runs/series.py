"""What the series itself shows: stalls, outliers, and whether the caches warmed up during the run."""

from __future__ import annotations

import math

import polars as pl

from headrace.calibration.runs.description import Description
from headrace.observe.run_files.reading import Finding
from headrace.observe.run_files.status import looks_cold

WINDOW_ROWS = 61
STALL_SHARE = 0.10
# 6 robust standard deviations: one in 500 million of normal noise, so in an hour of seconds none by chance.
OUTLIER_SIGMAS = 6.0
SIGMA_OF_MAD = 1.4826  # of a normal distribution
# Where the deviations nearly vanish: counting noise (variance = mean) and 2 % of the level.
LEAST_SIGMA_SHARE = 0.02
SHOWN = 5
# Less than this of the run's median is no slow start: a cold buffer pool's first second does 2 %.
STANDSTILL_SHARE = 0.005
# Published sysbench-tpcc runs (Percona, EBS 2018): 28 to 83 % fewer in cold ones, within 2 % in warm ones (RDS 2020).
WARMING = 0.15
FEWEST_ROWS = 16
FEWEST_SECONDS = 60.0
PAGE_BYTES = 16_384
# More I/Os than a cold transaction of these benchmarks can cause (sysbench-tpcc: about 60): the volumes were not at their cap.
MOST_IOS_PER_TRANSACTION = 100.0


def marked(series: pl.DataFrame) -> pl.DataFrame:
    """The frame with `suspect` (outliers added to what is there) and `stall`."""
    median = pl.col("tps").rolling_median(WINDOW_ROWS, center=True, min_samples=1)
    series = series.with_columns(median.alias("_median")).with_columns((pl.col("tps") - pl.col("_median")).abs().alias("_away"))
    mad = pl.col("_away").rolling_median(WINDOW_ROWS, center=True, min_samples=1) * SIGMA_OF_MAD
    noise = (pl.col("_median") / pl.col("duration_s")).sqrt()
    series = series.with_columns(pl.max_horizontal(mad, noise, LEAST_SIGMA_SHARE * pl.col("_median")).alias("_sigma"))
    # Of a stall longer than half the window the median itself is 0: then next to nothing of what the whole run does.
    usual = pl.col("tps").filter(~pl.col("suspect")).median()
    still = (pl.col("tps") < STALL_SHARE * pl.col("_median")) | (pl.col("tps") < STANDSTILL_SHARE * usual)
    stall = still & ~pl.col("suspect")  # clients that left do not stall
    series = series.with_columns(stall.alias("stall"))
    outlier = (pl.col("_away") > OUTLIER_SIGMAS * pl.col("_sigma")) & ~pl.col("stall") & ~pl.col("suspect")
    return series.with_columns(outlier.alias("_outlier"))


def finished(series: pl.DataFrame, findings: list[Finding]) -> pl.DataFrame:
    """Say what `marked` found, fold outliers into `suspect`, and drop the columns of the working."""
    _say_stalls(series, findings)
    outliers = series.filter(pl.col("_outlier"))
    if outliers.height:
        worst = outliers.sort(pl.col("_away") / pl.col("_sigma"), descending=True, maintain_order=True)
        places = ", ".join(
            f"{t:g} s ({tps:,.0f} tps beside {usual:,.0f})" for t, tps, usual in worst.select("t_s", "tps", "_median").head(SHOWN).rows()
        )
        text = f"{outliers.height} of {series.height} rows lie over {OUTLIER_SIGMAS:g} robust standard deviations from the median of the minute around them"
        findings.append(Finding("outlier", f"{text}: {places}. Marked suspect, not dropped.", worst["t_s"][0]))
    suspect = (pl.col("suspect") | pl.col("_outlier")).alias("suspect")
    return series.with_columns(suspect).drop("_median", "_away", "_sigma", "_outlier")


def stall_runs(series: pl.DataFrame) -> list[tuple[float, float]]:
    """(start, length) in seconds of each run of stalled rows."""
    runs: list[tuple[float, float]] = []
    for t_s, duration in series.filter(pl.col("stall")).select("t_s", "duration_s").rows():
        if runs and abs(runs[-1][0] + runs[-1][1] - t_s) < 0.5 * duration:
            runs[-1] = (runs[-1][0], runs[-1][1] + duration)
        else:
            runs.append((t_s, duration))
    return runs


def _say_stalls(series: pl.DataFrame, findings: list[Finding]) -> None:
    runs = stall_runs(series)
    if not runs:
        return
    longest = max(runs, key=lambda run: run[1])
    places = ", ".join(f"{length:g} s at {start:g} s" for start, length in sorted(runs, key=lambda run: -run[1])[:SHOWN])
    text = f"{len(runs)} stalls, {sum(length for _, length in runs):,.0f} s in all, below {STALL_SHARE:.0%} of the median of the minute around them"
    findings.append(Finding("stall", f"{text}; the longest: {places}.", longest[0]))


# --- cold or warm -----------------------------------------------------------------------------------------------------


def check_start(series: pl.DataFrame, described: Description, first_free_share: float | None, findings: list[Finding]) -> None:
    """Whether the run begins as described: I/Os a transaction fall by over 15 % in a cold one, and not in a warm one."""
    if described.engine == "innodb" and first_free_share is not None:
        data_gib = described.benchmark.data_gib
        _by_free_pages(described.start, first_free_share, None if data_gib is None else data_gib / described.cache_gib, findings)
        return
    good = series.filter(~pl.col("stall") & ~pl.col("suspect"))
    length_s = float(good["duration_s"].sum())
    if good.height < FEWEST_ROWS or length_s < FEWEST_SECONDS:
        findings.append(Finding("start", f"{length_s:,.0f} s are too short to tell a cold start from a warm one."))
        return
    fall, how = _fall(good, described, length_s)
    if fall is None:
        findings.append(Finding("start", f"Whether the start was {described.start} cannot be told: {how}"))
    elif described.start == "cold" and fall < WARMING:
        text = f'start = "cold", but {how} {_changed(fall)}: it was warm, or its cache filled in the first moments.'
        findings.append(Finding("start", text, 0.0))
    elif described.start == "warm" and fall > WARMING:
        text = f'start = "warm", but {how} {_changed(fall)}: the caches were still filling.'
        findings.append(Finding("start", text, 0.0))


def _changed(fall: float) -> str:
    return f"fell by {fall:.0%} over the run" if fall >= 0 else f"rose by {-fall:.0%} over the run"


def _by_free_pages(start: str, share: float, data_share: float | None, findings: list[Finding]) -> None:
    if (start == "cold") != looks_cold(share, data_share):
        only = "only " if start == "cold" else ""
        findings.append(Finding("start", f'start = "{start}", but {only}{share:.0%} of the buffer pool was free at the first sample.', 0.0))


def window_s(described: Description, length_s: float) -> float:
    """How long the beginning is: a quarter of the time the cache takes to fill at the cap, from a sixtieth to an eighth of the run."""
    fill_s = described.cache_gib * 2**30 / PAGE_BYTES / described.caps.iops if math.isfinite(described.caps.iops) else length_s
    return min(max(fill_s / 4, length_s / 60, 10.0), length_s / 8)


def _fall(good: pl.DataFrame, described: Description, length_s: float) -> tuple[float | None, str]:
    """By which share the I/Os a transaction fell from the beginning to the last eighth, and of what; or (None, why not)."""
    first_t, last_t = good["t_s"][0], good["t_s"][-1] + good["duration_s"][-1]
    head = good.filter(pl.col("t_s") < first_t + window_s(described, length_s))
    tail = good.filter(pl.col("t_s") >= last_t - (last_t - first_t) / 8)
    for column, words in (("read_iops", "reads a transaction (iostat)"), ("read_mib_s", "MiB read a transaction (vmstat)")):
        before, after = _per_transaction(head, column), _per_transaction(tail, column)
        if before and after is not None:
            return 1 - after / before, words
    before, after = _mean(head), _mean(tail)
    if not before or not after:
        return None, "there are no transactions at the beginning or the end."
    fall = 1 - before / after
    caps = described.caps
    if caps.iops_burst > 1.01 * caps.iops:
        return None, "there are no disk figures, and the volumes have burst credits, so the cap changes during the run."
    if not math.isfinite(caps.iops) or caps.iops / after > MOST_IOS_PER_TRANSACTION:
        return None, f"there are no disk figures, and at {after:,.0f} tps the volumes need not be at their cap."
    return fall, f"cap over tps (there are no disk figures; {caps.iops:,.0f} IOPS)"


def _per_transaction(rows: pl.DataFrame, column: str) -> float | None:
    both = rows.drop_nulls(column)
    transactions = (both["tps"] * both["duration_s"]).sum()
    covered = both["duration_s"].sum() >= 0.5 * rows["duration_s"].sum()
    return (both[column] * both["duration_s"]).sum() / transactions if transactions and covered else None


def _mean(rows: pl.DataFrame) -> float:
    return float((rows["tps"] * rows["duration_s"]).sum() / rows["duration_s"].sum()) if rows.height else 0.0
