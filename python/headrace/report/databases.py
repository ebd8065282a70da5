"""A database on a storage, and a run beside its prediction: in words, as tables. Takes results; runs nothing."""

from __future__ import annotations

import math

import polars as pl

from headrace.base import caps, core
from headrace.base.units import GIB
from headrace.report.simulation import clock_step_s, row_labels
from headrace.report.tables import table
from headrace.report.words import number, percent, span

SCHEMA = "headrace-prediction/1"
# Significant digits of a fitted value: two even where it is hardly known, four where a file says it is known exactly.
LEAST_DIGITS, MOST_DIGITS = 2, 4


def in_words(run, workload) -> list[str]:
    """What happened, a sentence a line."""
    summary = run.summary
    where = f"{run.storage} on {run.instance}" if run.instance else f"{run.storage} (no instance limits, no processor limit)"
    log = f", redo and binlog on {run.log_storage}" if run.log_storage else ""
    asks = clients(run.threads) if run.threads else "open load"
    scatter = f"seed {run.seed}" if run.seed is not None else "means only"
    lines = [
        f"{where}{log}, limits of {run.as_of}; {workload.engine}, cache {number(run.cache_gib)} GiB, {asks}; {span(run.rows.height)}, {scatter}."
    ]
    lines += [f"WARNING: {text}" for text in run.warnings]
    interval = (
        f" (80 % interval of the mean {number(summary['tps_low'], 4)} to {number(summary['tps_high'], 4)})"
        if summary["tps_low"] is not None
        else ""
    )
    lines.append(
        f"Second half: {number(summary['tps'], 4)} tps{interval}; one second in twenty below {number(summary['tps_p5'], 4)}, one above {number(summary['tps_p95'], 4)}."
    )
    lines.append(
        f"95th percentile of response times {number(summary['p95_ms'])} ms (median of the second half); {number(summary['iops'], 4)} IOPS, {number(summary['mib_s'])} MiB/s."
    )
    if summary["response_ms"]:
        shown = summary["response_ms"]
        lines.append(
            f"Every I/O simulated: response times mean {number(shown['mean'])} ms, p50 {number(shown['p50'])}, p95 {number(shown['p95'])}, p99 {number(shown['p99'])}."
        )
    lines.append("Quarters of the run: " + ", ".join(number(value, 4) for value in summary["quarters"]) + " tps.")
    lines.append(
        "What binds: " + ", ".join(f"{caps.long(cap)} {percent(share)} of the time" for cap, share in summary["caps"].items()) + "."
    )
    if summary["lowest_balance_percent"] is not None and summary["lowest_balance_percent"] < 100.0:
        lines.append(f"Lowest credit balance {summary['lowest_balance_percent']:.0f} %.")
    if summary["stalls_s"]:
        lines.append(f"Seconds below a tenth of the median: {summary['stalls_s']}.")
    return lines


def clients(count: int) -> str:
    """ "1 client", "48 clients"."""
    return "1 client" if count == 1 else f"{count:,} clients"


def log_warnings(run, workload) -> list[str]:
    """Whether the volume of redo and binlog holds the binlog that the run writes; how long it would last."""
    if run.log_storage is None:
        return []
    per_transaction = workload.database["log"]["binlog_bytes_per_tx"]
    written = run.rows["tps"].sum() * per_transaction
    room = core.parse_storage(run.log_storage)["usable_gib"] * GIB
    if written <= room:
        return []
    full = span(run.rows.height * room / written)
    return [f"This run writes {number(written / GIB)} GiB of binlog; {run.log_storage} holds {number(room / GIB)} GiB and would be full after {full}, "
            "without counting the redo log: it needs a larger volume, or binlogs purged sooner than that."]  # fmt: skip


def table_of(run, most: int = 24):
    """The rows, as means of so many stretches."""
    rows = run.rows
    step_s = clock_step_s(rows["t_s"][0], rows["t_s"][-1] + 1.0, most)  # a row of a prediction is a second
    short = rows.group_by((pl.col("t_s") / step_s).floor().alias("row"), maintain_order=True).agg(
        pl.col("t_s").first(), pl.col("tps", "iops", "mib_s", "dirty_share", "cached_share").mean(), pl.col("p95_ms").median(), pl.col("balance_percent").min(),
        pl.col("cap").mode().first(),
    )  # fmt: skip
    told = row_labels(short["t_s"].to_list())
    cells = [
        (next(told), number(row["tps"], 4), number(row["p95_ms"]), number(row["iops"], 4), number(row["mib_s"]),
         "" if row["balance_percent"] is None else f"{row['balance_percent']:.0f} %", percent(row["cached_share"]), percent(row["dirty_share"]), caps.short(row["cap"]))
        for row in short.iter_rows(named=True)
    ]  # fmt: skip
    columns = ("time", "tps", "p95 ms", "IOPS", "MiB/s", "balance", "cached", "dirty", "binds")
    return table(
        columns,
        cells,
        title=f"Time since the start. Each row: {span(step_s)}.",
        right=columns[:-1],
        keep=columns,
        drop=("dirty", "cached", "MiB/s"),
    )


def document(run, workload) -> dict:
    """Everything, for JSON."""
    return {
        "schema": SCHEMA,
        "workload": workload.name,
        "engine": workload.engine,
        "storage": run.storage,
        "log_storage": run.log_storage,
        "instance": run.instance,
        "as_of": run.as_of,
        "cache_gib": run.cache_gib,
        "threads": run.threads,
        "seed": run.seed,
        "summary": run.summary,
        "warnings": list(run.warnings),
        "caveats": list(workload.caveats),
        "rows": run.rows,
    }


def workload_in_words(workload) -> list[str]:
    """What the workload is and what stands behind it."""
    size = f", {number(workload.size_gib)} GiB of data" if workload.size_gib else ""
    lines = [
        f"{workload.name}: {workload.engine}, {workload.benchmark}{size}; cache {number(workload.cache_gib)} GiB, {clients(workload.threads)}."
    ]
    for run in workload.runs:
        lines.append(
            f"Measured: {run['name']} on {run['storage']}, {clients(run['threads'])}, {run['start']} start, {span(run['seconds'])}, {run['transactions']:,.0f} transactions."
        )
    if not workload.runs:
        lines.append("No run stands behind it: a standard benchmark, with wide intervals.")
    return lines + list(workload.caveats)


def fitted(value: float, spread: float) -> str:
    """A fitted value to the digits its relative spread (one standard deviation) leaves: 14,700,000 when known to 2 %.

    The last digit counts a unit of at most half a standard deviation. Rounding so adds unit / sqrt(12) to the deviation, in squares, and makes it 1 % larger at most.
    """
    if value == 0 or not math.isfinite(value):
        return number(value)
    leading = math.floor(math.log10(abs(value)))
    digits = leading - math.floor(math.log10(abs(value) * spread / 2.0)) + 1 if spread > 0 else MOST_DIGITS
    digits = min(max(digits, LEAST_DIGITS), MOST_DIGITS)
    rounded = float(f"{value:.{digits}g}")
    # Rounding may carry to a digit more: 9.96 to two digits is 10.
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


PARAMETER_COLUMNS = (
    "known to: one standard deviation of the value with these runs; before: the same without any run. "
    "A value whose two figures are equal was not measured by these runs."
)


def parameter_table(workload):
    """What each parameter was identified from, and how well."""
    cells = [
        (row["words"], fitted(row["value"], row["spread"]), f"± {100 * row['spread']:.0f} %", f"± {100 * row['before']:.0f} %", row["from"])
        for row in workload.parameters
    ]
    return table(("parameter", "value", "known to", "before", "identified from"), cells, right=("value", "known to", "before"))


def comparison_table(comparison):
    """Measured beside predicted."""
    cells = [
        (row["what"], row["unit"], "" if row["measured"] is None else number(row["measured"], 4), "" if row["predicted"] is None else number(row["predicted"], 4),
         "" if row["error_percent"] is None else f"{row['error_percent']:+.1f} %")
        for row in comparison.figures
    ]  # fmt: skip
    return table(("figure", "unit", "measured", "predicted", "error"), cells, right=("measured", "predicted", "error"))


def score_table(rows: list[dict]):
    """A calibration scored on runs it has not seen."""
    names = ("mean", "quarter_1", "quarter_2", "quarter_3", "quarter_4", "p5", "p95")
    cells = [(row["predicted"], row["from"], *("" if row[name] is None else f"{row[name]:+.1f}" for name in names)) for row in rows]
    titles = ("predicted", "from", "2nd half %", "q1 %", "q2 %", "q3 %", "q4 %", "p5 %", "p95 %")
    return table(titles, cells, right=titles[2:])


def score_words(rows: list[dict]) -> list[str]:
    """Median and 90th percentile of the errors; a run that stood still has none to score."""

    def line(what: str, values: list[float | None]) -> str:
        sizes = sorted(abs(value) for value in values if value is not None)
        if not sizes:
            return f"{what}: nothing to score, the runs stood still."
        high = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
        return f"{what}: median {sizes[len(sizes) // 2]:.1f} %, 90th percentile {high:.1f} %, worst {sizes[-1]:.1f} % of {len(sizes)}."

    quarters = [row[f"quarter_{i}"] for row in rows for i in (1, 2, 3, 4)]
    return [line("Mean of the second half", [row["mean"] for row in rows]), line("Means per quarter", quarters),
            line("5th and 95th percentile of one-second tps", [row[name] for row in rows for name in ("p5", "p95")])]  # fmt: skip
