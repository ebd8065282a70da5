"""Four sysbench loads, seven numbers of threads, 900 against 3,000 IOPS of gp2: the 56 cells of an
article's table, and the same in the per-I/O form.

Four cells are used up by calibration (`USED`); what was identified from each stands in the study's
tables. Everything else is the standard sysbench database: rows' popularity, pages, statements,
group commit. Facts that the article does not give (run length, warm-up, order of the runs) are
assumed and said.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import GIB, format_percent
from headrace.studies import base

STUDY = base.read_study("iops_900_3000")
ARTICLE = STUDY.sources[0]

DAY = "2020-07-13"
INSTANCE = "m5.2xlarge"
# The article's tables with the rows of each, and its innodb_buffer_pool_size.
TABLES, ROWS, POOL_GIB = 20, 10_000_000, 24.0
# 2 GiB of redo-log-file-size in two files, the default number of 8.0.15.
REDO_GIB = 4.0
# gp2 gives 3 IOPS per GiB: 1,000 GiB have 3,000 and no burst, 300 GiB have 900 once their credits
# are spent.
VOLUMES = {3_000: "gp2:1000", 900: "gp2:300"}
LOADS = {
    "oltp": "oltp_read_write",
    "index": "oltp_update_index",
    "non-index": "oltp_update_non_index",
    "select": "oltp_point_select",
}
THREADS = (1, 2, 4, 8, 16, 32, 64)  # the article's
# Time of a select of one thread (5,365 a second were published) in which a core does not work: 1 /
# 5,365 s less 0.685 x 8 / 50,733 s (both of the table), of which four clients a processor take 3 %
# more, ms.
ROUND_TRIP_MS = 0.08152
# log_bin and sync_binlog=1 are defaults of 8.0.
SETTINGS = {
    # Not stated; no statement on the server's own host takes 0.19 ms.
    "client_host": "network",
    "round_trip_ms": ROUND_TRIP_MS,
    "tables": TABLES,
    "table_size": ROWS,
    "redo_gib": REDO_GIB,
    "cache_gib": POOL_GIB,
    "log_bin": True,
    "sync_binlog": 1,
    "flush_log_at_trx_commit": 1,
}
# Not stated: a minute a cell. The table of run lengths shows what others would give.
SECONDS = 60
OTHER_SECONDS = (30, 90)  # guesses
# Clients all begin at once; the first seconds are theirs.
SETTLING_S = 5
# Cells that calibrate: load, IOPS, threads, and what is identified from them. The first two made
# what a statement takes over a network (crates/sim/src/mysql/costs.rs); the other two are searched
# when the study runs.
USED = {
    ("select", 3_000, 1): "round trip of a statement without its processor time",
    ("select", 3_000, 32): "processor time of a round trip over a network",
    ("index", 3_000, 1): "log writes of a commit nobody shares",
    ("select", 900, 8): "pages in the pool when the selects at 900 IOPS began",
}
# These cells bound what was measured of writing statements from above: their processor time may
# not exceed 8 vCPUs / qps.
BOUNDS = (("oltp", 3_000, 64), ("index", 3_000, 64), ("non-index", 3_000, 64))
BAR_PERCENT = 15.0  # this project's

Cell = tuple[str, int, int]


@cache
def read_table() -> dict[Cell, float]:
    """Returns the published cells: statements a second; for `oltp`, transactions a second (see the
    notes)."""
    return {
        (row["load"], int(row["iops"]), int(row["threads"])): float(row["qps"])
        for row in base.read_published("iops_900_3000")
    }


@cache
def make_database(load: str) -> core.Database:
    """Returns the standard database of a load. It contains no figure of this table except the two
    of a round trip."""
    with translate_core_errors():
        return core.mysql_sysbench(SETTINGS | {"script": LOADS[load]})["database"]


def with_log_writes(load: str, log_writes: float) -> core.Database:
    """Returns the database with `log_writes` consecutive log writes at a commit that is not shared;
    unchanged for selects."""
    changed = deepcopy(make_database(load))
    if changed["log"]["syncs_per_commit"] > 0:
        changed["log"]["syncs_per_commit"] = log_writes
    return changed


def simulate_cell(
    of: Mapping[str, Any], iops: int, threads: int, start: str | float = "warm", seconds: int = SECONDS
) -> tuple[float, float]:
    """Simulates every I/O of one cell, and returns its transactions a second and the page reads of
    a transaction."""
    run = {
        "storage": VOLUMES[iops],
        "instance": INSTANCE,
        "as_of": DAY,
        "cache_bytes": POOL_GIB * GIB,
        "clients": threads,
        "start": start,
        "seconds": seconds,
        "step_s": 1.0,
        "seed": 1,
        "start_balance_percent": 0.0 if iops == 900 else None,
    }
    with translate_core_errors():
        rows = core.mysql_clients(of, run)
    settled = min(SETTLING_S, seconds // 4)
    return statistics.fmean(rows["tps"][settled:]), statistics.fmean(rows["reads_per_tx"][settled:])


def search(off: Callable[[float], float], low: float, high: float) -> float:
    """Returns where a falling function is 0, by bisection of the logarithm to 0.5 %, which is less
    than two seeds differ by."""
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if off(middle) > 0 else (low, middle)
    return math.sqrt(low * high)


@cache
def find_log_writes() -> float:
    """Returns the log writes in a row at a commit, from one thread of index updates at 3,000 IOPS:
    what remains of its 4.9 ms after statement and reads."""
    cell = ("index", 3_000, 1)
    return search(
        lambda count: simulate_cell(with_log_writes("index", count), 3_000, 1)[0] - read_table()[cell], 2.0, 16.0
    )


def simulate_selects_at_900(
    start: float, seconds: int = SECONDS, last: int = THREADS[-1]
) -> dict[int, tuple[float, float]]:
    """Returns the selects a second at 900 IOPS, and page reads of each, by threads up to `last`,
    one after the other on a pool that goes on filling. `start`: selects since it was empty."""
    done, rates = start, {}
    for threads in THREADS[: THREADS.index(last) + 1]:
        rates[threads] = simulate_cell(make_database("select"), 900, threads, done, seconds)
        done += rates[threads][0] * seconds
    return rates


@cache
def find_selects_before(seconds: int = SECONDS) -> float:
    """Returns the selects since the pool was empty when that series began, so that 8 threads do
    what is published."""
    published_tps = read_table()["select", 900, 8]
    return search(lambda start: published_tps - simulate_selects_at_900(start, seconds, 8)[8][0], 1e5, 1e7)


def simulate_cells(steps: base.StepProgress) -> dict[Cell, tuple[float, float]]:
    """Simulates all 56 cells, and returns transactions a second and page reads of a transaction of
    each."""
    rates: dict[Cell, tuple[float, float]] = {}
    for load in LOADS:
        of = with_log_writes(load, find_log_writes())
        for iops in VOLUMES:
            if (load, iops) == ("select", 900):
                rates |= {
                    ("select", 900, threads): cell
                    for threads, cell in simulate_selects_at_900(find_selects_before()).items()
                }
            else:
                rates |= {(load, iops, threads): simulate_cell(of, iops, threads) for threads in THREADS}
            steps.step()
    return rates


def list_tested_cells(load: str | None = None, iops: int | None = None) -> list[Cell]:
    """Returns the cells that nothing was calibrated on, of a load and a volume or of all."""
    return [cell for cell in read_table() if cell not in USED and load in (None, cell[0]) and iops in (None, cell[1])]


def compute_errors(rates: dict[Cell, tuple[float, float]], cells: Iterable[Cell]) -> list[float]:
    """Returns the absolute error of cells, percent."""
    return [abs(base.compute_error_percent(rates[cell][0], read_table()[cell])) for cell in cells]


def _judge_cells(rates: dict[Cell, tuple[float, float]]) -> list[base.Verdict]:
    """Judges the error of the cells that nothing was fitted to, in percent, and the gain from 900
    to 3,000 IOPS by load. `rates`: tps and page reads by cell."""
    tested = compute_errors(rates, list_tested_cells())
    rest = compute_errors(rates, (cell for cell in list_tested_cells() if cell not in BOUNDS))
    answer = (
        f"{statistics.median(tested):.1f} % of {len(tested)} cells not used ({statistics.median(rest):.1f} % "
        f"without the {len(BOUNDS)} held below)"
    )
    verdicts = [
        base.judge_answers(
            "median error of a cell",
            f"at most {BAR_PERCENT:g} % (this project's bar)",
            answer,
            ARTICLE,
            statistics.median(tested) <= BAR_PERCENT,
            (
                f"calibrated on {len(USED)} cells; 90 % of the others within {statistics.quantiles(tested, n=10)[-1]:.0f} %"
            ),
        )
    ]
    for load in LOADS:
        theirs = [read_table()[load, 3_000, n] / read_table()[load, 900, n] for n in THREADS]
        ours = [rates[load, 3_000, n][0] / rates[load, 900, n][0] for n in THREADS]
        figure = base.Figure(statistics.geometric_mean(theirs), "times", ARTICLE)
        verdicts.append(
            base.compare(
                f"{load}: 3,000 over 900 IOPS, all thread counts",
                figure,
                statistics.geometric_mean(ours),
                None,
                "geometric mean of seven",
            )
        )
    less = all(rates[load, 900, n][0] < rates[load, 3_000, n][0] for load in LOADS for n in THREADS)
    verdicts.append(
        base.judge_answers("every cell is less with 900 IOPS", "yes", "yes" if less else "no", ARTICLE, less)
    )
    for load in LOADS:
        for iops in VOLUMES:
            off = compute_errors(rates, list_tested_cells(load, iops))
            answer = f"{statistics.median(off):.1f} % of {len(off)} cells, worst {max(off):.0f} %"
            verdicts.append(
                base.judge_answers(
                    f"{load}, {iops:,} IOPS: median error",
                    "the table",
                    answer,
                    ARTICLE,
                    None,
                    base.find_reason("iops_900_3000", f"{load} {iops}"),
                )
            )
    return verdicts


def _list_identified() -> base.StudyTable:
    """Lists what was identified from the cells that calibrate: ms, log writes of a commit, pages in
    the pool."""
    start = find_selects_before()
    with translate_core_errors():
        curve = core.mysql_warm_up(make_database("select"), POOL_GIB * GIB)
    cached_share = next(
        (share for tx, share in zip(curve["tx"], curve["cached_share"], strict=True) if tx >= start), 1.0
    )
    clients = make_database("select")["clients"]
    values = (
        f"{ROUND_TRIP_MS:.4f} ms",
        f"{clients['cpu_ms']:.4f} ms of one vCPU",
        f"{find_log_writes():.1f} in a row (a redo write and a grown binlog with its filesystem's journal would be "
        "3; with the default flush method the redo file's "
        "times and both journals' commit records come on top)",
        f"{start:,.0f} selects since it was empty; {format_percent(cached_share)} of it in use",
    )
    rows = [
        (f"{load}, {iops:,} IOPS, {threads} threads", words, value)
        for ((load, iops, threads), words), value in zip(USED.items(), values, strict=True)
    ]
    return base.tabulate("Identified", "cell | what | value", rows)


def _tabulate_cells(rates: dict[Cell, tuple[float, float]]) -> base.StudyTable:
    """Tabulates all cells: published and simulated statements a second, error in percent, page
    reads of a transaction."""
    rows = []
    for load in LOADS:
        for threads in THREADS:
            row: list = [load, threads]
            for iops in VOLUMES:
                cell = (load, iops, threads)
                ours, reads = rates[cell]
                row += [
                    read_table()[cell],
                    round(ours),
                    round(base.compute_error_percent(ours, read_table()[cell]), 1),
                    round(reads, 3),
                    "calibrates" if cell in USED else "",
                ]
            rows.append(tuple(row))
    figures = ("published", "ours", "error %", "reads/tx", "use")
    names = " | ".join(f"{iops:,}: {what}" for iops in VOLUMES for what in figures)
    return base.tabulate("The table", f"load | threads | {names}", rows)


def _tabulate_lengths(rates: dict[Cell, tuple[float, float]], steps: base.StepProgress) -> base.StudyTable:
    """Tabulates how the errors would be if a cell ran for another number of seconds."""
    rows = []
    for seconds in sorted((*OTHER_SECONDS, SECONDS)):
        series = simulate_selects_at_900(find_selects_before(seconds), seconds)
        of = rates | {("select", 900, threads): cell for threads, cell in series.items()}
        all_cells, selects = (
            compute_errors(of, list_tested_cells()),
            compute_errors(of, list_tested_cells("select", 900)),
        )
        rows.append((seconds, round(statistics.median(all_cells), 1), round(statistics.median(selects), 1)))
        steps.step()
    title = "If a cell of the selects at 900 IOPS ran for another time"
    return base.tabulate(title, "s a cell | median error % of all | of selects at 900 IOPS", rows)


def _draw_charts(rates: dict[Cell, tuple[float, float]]) -> tuple[base.ChartData, ...]:
    """Draws a chart of each load by threads, and the error of every cell in percent."""
    charts = []
    for load in LOADS:
        series = []
        for iops in VOLUMES:
            published = [read_table()[load, iops, n] for n in THREADS]
            simulated = [rates[load, iops, n][0] for n in THREADS]
            series += base.make_role_series(
                THREADS, f"{{role}}, {iops:,} IOPS", published=published, simulated=simulated
            )
        unit = "transactions/s" if load == "oltp" else "statements/s"
        charts.append(base.ChartData(f"{load}: {LOADS[load]}", "line", "threads", unit, tuple(series)))
    off = tuple(
        base.ChartSeries(
            f"{load}, {iops:,} IOPS",
            "simulated",
            THREADS,
            tuple(base.compute_error_percent(rates[load, iops, n][0], read_table()[load, iops, n]) for n in THREADS),
        )
        for load in LOADS
        for iops in VOLUMES
    )
    return (*charts, base.ChartData("Error of every cell", "scatter", "threads", "ours over published (%)", off))


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Identifies parameters from four cells, then simulates all 56, I/O by I/O."""
    steps = base.StepProgress(len(LOADS) * len(VOLUMES) + len(OTHER_SECONDS) + 1, progress)
    rates = simulate_cells(steps)
    tables = (_tabulate_cells(rates), _list_identified(), _tabulate_lengths(rates, steps))
    with translate_core_errors():
        size = core.mysql_sysbench(SETTINGS | {"script": LOADS["select"]})["size_gib"]
    worst = max(rates[("select", 900, n)][1] for n in THREADS)
    notes = base.read_notes(
        "iops_900_3000",
        size_gib=size,
        least_reads=900 / read_table()["select", 900, 64],
        most_reads=900 / read_table()["select", 900, 8],
        worst_reads=worst,
        bounds=len(BOUNDS),
    )
    return base.StudyResult(STUDY, tuple(_judge_cells(rates)), tables, _draw_charts(rates), notes)
