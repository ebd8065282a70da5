"""A database on a storage, and a run and its prediction: in words, as tables and pages. Takes
results; runs nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from headrace.base import caps, core
from headrace.base.core import describe_day
from headrace.base.encoding import pick_fields
from headrace.base.lazy import defer_imports
from headrace.base.units import GIB
from headrace.report.charts.rows import TABLE_ROWS, group_by_clock
from headrace.report.view import Block, Card, Chart, Fold, Items, Sentence, Table, View, make_columns
from headrace.report.words import describe_storage, format_number, format_percent, format_span, list_row_labels
from headrace.workload.transactions import RESPONSES

with defer_imports():
    from headrace.report.charts import predictions

if TYPE_CHECKING:
    from headrace.calibration.score import ComparedRun
    from headrace.simulation.database import Prediction
    from headrace.workload import TransactionWorkload

SCHEMA = "headrace-prediction/1"
# The figures of the headline: throughput, its worst seconds, response time.
COMPARED_FIRST = (
    ("mean tps", "second half"), ("one-second tps", "p5"), ("p95 response", "median"), ("p95 response", "run"),
)  # fmt: skip
COMPARED = make_columns(("figure", "unit", "measured", "predicted", "error"), number=("measured", "predicted", "error"))
# Significant digits of a fitted value: two even where it is hardly known, four where a file says it
# is known exactly.
LEAST_DIGITS, MOST_DIGITS = 2, 4


def describe_run(run: Prediction, workload: TransactionWorkload) -> list[str]:
    """Returns sentences on a prediction: setup, warnings, rate, response times, limits, stalls."""
    summary = run.summary
    where = (
        f"{run.storage} on {run.instance}"
        if run.instance
        else f"{run.storage} (no instance limits, no processor limit)"
    )
    log = f", redo and binlog on {run.log_storage}" if run.log_storage else ""
    load = format_clients(run.threads) if run.threads else "open load"
    scatter = f"seed {run.seed}" if run.seed is not None else "means only"
    server = f"{workload.engine}, cache {format_number(run.cache_gib)} GiB, {load}"
    lines = [f"{where}{log}, limits of {describe_day(run.as_of)}; {server}; {format_span(run.rows.height)}, {scatter}."]
    lines += [f"WARNING: {text}" for text in run.warnings]
    tps, low, high, p5, p95 = (
        format_number(summary[name], 4) for name in ("tps", "tps_low", "tps_high", "tps_p5", "tps_p95")
    )
    interval = "" if summary["tps_low"] is None else f" (80 % interval of the mean {low} to {high})"
    lines.append(f"Second half: {tps} tps{interval}; one second in twenty below {p5}, one above {p95}.")
    times = ", ".join(f"{name[:3]} {format_number(summary[name])} ms" for name in RESPONSES)
    without = "There are no response times: no transaction ends in the second half."
    lines.append(f"Response times {times} (medians of the second half's seconds)." if summary["tps"] > 0 else without)
    lines.append(f"Storage: {format_number(summary['iops'], 4)} IOPS, {format_number(summary['mib_s'])} MiB/s.")
    if summary["response_ms"] and summary["tps"] > 0:
        mean, p50, p95, p99 = (format_number(summary["response_ms"][name]) for name in ("mean", "p50", "p95", "p99"))
        lines.append(f"Every I/O simulated: response times mean {mean} ms, p50 {p50} ms, p95 {p95} ms, p99 {p99} ms.")
    lines.append(
        "Quarters of the run: " + ", ".join(format_number(value, 4) for value in summary["quarters"]) + " tps."
    )
    shares = ", ".join(
        f"{caps.describe_cap(cap)} {format_percent(share)} of the time" for cap, share in summary["caps"].items()
    )
    lines.append(f"Limited by: {shares}.")
    if summary["lowest_balance_percent"] is not None and summary["lowest_balance_percent"] < 100.0:
        lines.append(f"Lowest credit balance {summary['lowest_balance_percent']:.0f} %.")
    if summary["stalls_s"]:
        share = format_percent(summary["stalled_share"])
        lines.append(
            f"Seconds below a tenth of the median: {summary['stalls_s']}, {share} of all.{_explain_stalls(run)}"
        )
    return lines


def _explain_stalls(run: Prediction) -> str:
    """Says what a full redo log has to do with stalled seconds; nothing where it has not."""
    waiting = run.rows["stopped_share"].to_numpy().mean().item()
    if not waiting:
        return ""
    return f" For {format_percent(waiting)} of the time clients wait until a full redo log has been flushed."


def format_clients(count: int) -> str:
    """Counts clients: "1 client", "48 clients"."""
    return "1 client" if count == 1 else f"{count:,} clients"


def list_log_warnings(run: Prediction, workload: TransactionWorkload) -> list[str]:
    """Returns a warning if the log volume cannot hold the binlog that the run writes, with the time
    after which it would be full; else an empty list."""
    if run.log_storage is None:
        return []
    per_transaction = workload.database["log"]["binlog_bytes_per_tx"]
    written = run.rows["tps"].sum() * per_transaction
    room = core.parse_storage(run.log_storage)["usable_gib"] * GIB
    if written <= room:
        return []
    full = format_span(run.rows.height * room / written)
    holds = f"{run.log_storage} holds {format_number(room / GIB)} GiB and would be full after {full}"
    return [
        f"This run writes {format_number(written / GIB)} GiB of binlog; {holds}, "
        "without counting the redo log: it needs a larger volume, or binlogs purged sooner than that."
    ]


def build_table(run: Prediction, most: int = TABLE_ROWS) -> Table:
    """Returns a run as a table of at most `most` rows, each the means of a stretch on the clock."""
    # A row of a prediction is a second.
    parted, step_s = group_by_clock(run.rows, run.rows["t_s"][-1] + 1.0, most=most)
    short = parted.group_by("group", maintain_order=True).agg(
        pl.col("t_s").first(),
        pl.col("tps", "iops", "mib_s", "dirty_share", "cached_share").mean(),
        # A second without transactions has no response time.
        pl.col("p95_ms").filter(pl.col("tps") > 0).median(),
        pl.col("balance_percent").min(),
        pl.col("cap").mode().sort().first(),  # sorted: modes come in no order
    )
    labels = list_row_labels(short["t_s"].to_list())
    cells = []
    for row in short.iter_rows(named=True):
        figures = (
            format_number(row["tps"], 4),
            format_number(row["p95_ms"]),
            format_number(row["iops"], 4),
            format_number(row["mib_s"]),
        )
        balance = "" if row["balance_percent"] is None else f"{row['balance_percent']:.0f} %"
        shares = (format_percent(row["cached_share"]), format_percent(row["dirty_share"]))
        cells.append((next(labels), *figures, balance, *shares, caps.label_cap(row["cap"])))
    titles = ("time", "tps", "p95 ms", "IOPS", "MiB/s", "balance", "cached", "dirty", "limited by")
    when = f"Time since the start. Each row: {format_span(step_s)}."
    heads = make_columns(titles, number=titles[:-1], key=titles[-1:], drop=("dirty", "cached", "MiB/s"))
    return Table(heads, cells, when)


def build_document(run: Prediction, workload: TransactionWorkload) -> dict:
    """Returns settings, summary, warnings, caveats and every row, for JSON."""
    head = {"schema": SCHEMA, "workload": workload.name, "engine": workload.engine}
    settings = pick_fields(run, "storage", "log_storage", "instance", "as_of", "cache_gib", "threads", "seed")
    return head | {"caveats": workload.caveats} | settings | pick_fields(run, "summary", "warnings", "rows")


def describe_database(workload: TransactionWorkload) -> list[str]:
    """Returns sentences on a database: engine, data, runs that it is fitted to, caveats."""
    size = f", {format_number(workload.size_gib)} GiB of data" if workload.size_gib else ""
    server = f"cache {format_number(workload.cache_gib)} GiB, {format_clients(workload.threads)}"
    lines = [f"{workload.name}: {workload.engine}, {workload.benchmark}{size}; {server}."]
    for run in workload.runs:
        load = f"{format_clients(run['threads'])}, {run['start']} start, {format_span(run['seconds'])}"
        lines.append(f"Measured: {run['name']} on {run['storage']}, {load}, {run['transactions']:,.0f} transactions.")
    if not workload.runs:
        lines.append("No run stands behind it: a standard benchmark, with wide intervals.")
    return lines + list(workload.caveats)


def format_fitted(value: float, spread: float) -> str:
    """Returns a fitted value to the digits its relative spread (one standard deviation) leaves:
    14,700,000 when known to 2 %.

    The last digit counts a unit of at most half a standard deviation. Rounding so adds unit /
    sqrt(12) to the deviation, in squares, and makes it 1 % larger at most.
    """
    if value == 0 or not math.isfinite(value):
        return format_number(value)
    leading = math.floor(math.log10(abs(value)))
    digits = leading - math.floor(math.log10(abs(value) * spread / 2.0)) + 1 if spread > 0 else MOST_DIGITS
    digits = min(max(digits, LEAST_DIGITS), MOST_DIGITS)
    rounded = float(f"{value:.{digits}g}")
    # Rounding may carry to a digit more: 9.96 to two digits is 10.
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


SPREADS = (
    "The uncertainty is one standard deviation in % of the value; before the runs it is that of the standard benchmark."
)


PARAMETERS = make_columns(
    ("parameter", "value", "uncertainty", "before", "identified from"), number=("value", "uncertainty", "before")
)


def list_parameter_rows(workload: TransactionWorkload) -> list[tuple[str, ...]]:
    """Returns the cells of PARAMETERS: value, uncertainty in % after and before the calibration,
    and what each was identified from."""
    cells = []
    for row in workload.parameters:
        # A parameter of zero has no relative deviation: the server does none of that work.
        spreads = (f"± {100 * row[name]:.0f} %" if row["value"] else "-" for name in ("spread", "before"))
        value = format_fitted(row["value"], row["spread"])
        # The other words say what is counted; a share counts nothing.
        words = row["words"] + (", ms" if row["name"].endswith("_ms") else "")
        cells.append((words, value, *spreads, row["from"]))
    return cells


def build_parameter_table(workload: TransactionWorkload) -> Table:
    """Returns the parameters as a table."""
    return Table(PARAMETERS, list_parameter_rows(workload), SPREADS)


def list_comparison_rows(comparison: ComparedRun) -> list[tuple[str, ...]]:
    """Returns the cells of COMPARED: measured and predicted in the unit of their row, and the error
    in %."""
    cells = []
    for row in comparison.figures:
        figures = ("" if row[name] is None else format_number(row[name], 4) for name in ("measured", "predicted"))
        error = "" if row["error_percent"] is None else f"{row['error_percent']:+.1f} %"
        cells.append((row["what"], row["unit"], *figures, error))
    return cells


def build_comparison_table(comparison: ComparedRun) -> Table:
    """Returns measured and predicted as a table."""
    return Table(COMPARED, list_comparison_rows(comparison))


def build_score_table(rows: list[dict]) -> Table:
    """Returns the errors with which a calibration predicts other runs, as a table."""
    names = ("mean", "quarter_1", "quarter_2", "quarter_3", "quarter_4", "p5", "p95")
    cells = [
        (row["predicted"], row["from"], *("" if row[name] is None else f"{row[name]:+.1f}" for name in names))
        for row in rows
    ]
    titles = ("predicted", "from", "2nd half %", "q1 %", "q2 %", "q3 %", "q4 %", "p5 %", "p95 %")
    return Table(make_columns(titles, number=titles[2:]), cells)


def describe_scores(rows: list[dict]) -> list[str]:
    """Returns sentences with median, 90th percentile and worst of the errors in %."""

    def describe_deviations(what: str, values: list[float | None]) -> str:
        """Returns that of some errors; None, of a run that stood still, is not counted."""
        sizes = sorted(abs(value) for value in values if value is not None)
        if not sizes:
            return f"{what}: nothing to score, the runs stood still."
        high = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
        return f"{what}: median {sizes[len(sizes) // 2]:.1f} %, 90th percentile {high:.1f} %, worst {sizes[-1]:.1f} % of {len(sizes)}."

    quarters = [row[f"quarter_{i}"] for row in rows for i in (1, 2, 3, 4)]
    return [
        describe_deviations("Mean of the second half", [row["mean"] for row in rows]),
        describe_deviations("Means per quarter", quarters),
        describe_deviations(
            "5th and 95th percentile of one-second tps", [row[name] for row in rows for name in ("p5", "p95")]
        ),
    ]


# The headline and the cards of a prediction, filled in below and, while a slider of the page moves,
# in the browser (ui/static/database.js).
HEADLINE = "{name} does {tps} transactions a second on {storage}"
RATE = Card("Second half of the run", "{rate} tps", "80 % interval {low} to {high}")
RESPONSE = Card("Response time p95", "{p95} ms", "p50 {p50} ms, p99 {p99} ms")
LIMIT = Card("Limited by", "{cap}", "{share} of the time")


def build_view(run: Prediction, workload: TransactionWorkload) -> View:
    """Returns a prediction as a view."""
    title = f"{workload.name} on {run.storage}"
    described = f"{title} over time: transactions, I/Os, bytes, cache"
    blocks: list[Block] = [Sentence(text, "warn") for text in run.warnings]
    lines = [line for line in describe_run(run, workload) if not line.startswith("WARNING: ")]
    blocks.append(Chart(lambda: predictions.draw_prediction(run, title), described))
    blocks.append(Fold("The run as a table", [build_table(run)]))
    blocks.append(Fold("The run in words", [Items(lines)]))
    blocks.append(Fold("Basis of the prediction", [Items(describe_database(workload))]))
    headline = HEADLINE.format(
        name=workload.name, tps=format_number(run.summary["tps"]), storage=describe_storage(run.storage)
    )
    return View(headline, f"Limits of {describe_day(run.as_of)}", build_cards(run), blocks)


def build_cards(run: Prediction) -> list[Card]:
    """Returns cards with transactions a second, response time and main limit."""
    summary = run.summary
    cap, share = max(summary["caps"].items(), key=lambda pair: pair[1], default=("none", 1.0))
    figures = {
        "rate": format_number(summary["tps"], 4),
        "share": format_percent(share),
        "cap": caps.describe_cap(cap).removeprefix("the "),
    }
    figures |= {end: format_number(summary[f"tps_{end}"], 4) for end in ("low", "high")}
    figures |= {name: format_number(summary[f"{name}_ms"]) for name in ("p50", "p95", "p99")}
    rate = RATE if summary["tps_low"] is not None else replace(RATE, meaning="")
    return [card.fill(figures) for card in (rate, RESPONSE, LIMIT)]


def build_comparison_view(comparison: ComparedRun, workload: TransactionWorkload) -> View:
    """Returns a run and its prediction as a view."""
    described = "One-second throughput, measured and simulated, over time and as densities of the second half"
    behind = [*comparison.prediction.warnings, *describe_database(workload)]
    blocks = [
        Chart(lambda: predictions.draw_comparison(comparison), described),
        build_comparison_table(comparison),
        Fold("Basis of the prediction", [Items(behind)]),
    ]
    figures = [
        Card(f"{row['what'][:1].upper()}{row['what'][1:]}", f"{row['error_percent']:+.1f} %", _describe_both(row))
        for row in comparison.figures
        if row["error_percent"] is not None and row["what"].partition(", ")[::2] in COMPARED_FIRST
    ]
    error = next((f" by {card.figure.lstrip('+-')}" for card in figures), "")
    miss = "differs from" if not error else "is above" if figures[0].figure.startswith("+") else "is below"
    title = f"The prediction of {comparison.run.name} {miss} what was measured{error}"
    return View(title, f"Predicted with {workload.name}", figures, blocks)


def _describe_both(row: dict) -> str:
    measured, predicted = (format_number(row[name], 4) for name in ("measured", "predicted"))
    return f"Predicted {predicted} {row['unit']}, measured {measured}."
