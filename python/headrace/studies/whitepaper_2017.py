"""AWS's sysbench runs on r4.8xlarge: a tuned MySQL against one with defaults, and four storages
that came out alike.

Everything depends on the table that the clients used, which is not stated; the counts and rates in
the text say it was one of the hundred (`_readings`).
"""

from __future__ import annotations

import statistics
from typing import TypedDict

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import GIB, format_percent
from headrace.studies import base

STUDY = base.read_study("whitepaper_2017")
PAPER = STUDY.sources[0]

# The paper says r4.8xlarge for the servers; the copy read has no date, its limits are those of
# 2017.
INSTANCE, DAY = "r4.8xlarge", "2017-06-01"
FIGURES = base.read_figures("whitepaper_2017")
CLIENTS, ROWS = round(FIGURES["clients"].value), round(FIGURES["rows"].value)
# Buffer pool and redo (two files), bytes.
SERVERS = {name: (FIGURES[f"{name}_pool"].value, 2 * FIGURES[f"{name}_redo"].value) for name in ("default", "tuned")}
# The second experiment, and the selects of one of its transactions.
ALIKE_TPS = FIGURES["alike_tps"].value
ALIKE_SELECTS = round(FIGURES["alike_selects"].value / ALIKE_TPS)
WRITTEN_MIB_S = FIGURES["volume_writes"].value * FIGURES["write_kib"].value / 1024
# Volumes that may have run table 4, which does not state its volume: the two single ones of the
# paper.
VOLUMES = ("gp2:500", "io1:500:5000")
STORAGES = {
    "gp2": "gp2:500",
    "io1": "io1:500:5000",
    "three io1 in RAID 0": "3xio1:500:5000",
    "io1, encrypted": "io1:500:5000",
}
HOUR = 3_600  # s
# Seconds of the per-I/O runs: 20,000 writes and more each, 1 % on their rate.
SECONDS = 20
# Redo logs the second experiment may have had; it is not stated.
REDO_GIB = (0.25, 1.0, 2.0, 4.0, 8.0)
# Runs of this paper are single ones, their figures rounded ("approximately"): within a fifth they
# say the same.
TOLERANCE_PERCENT = 20.0
# Two storages closer than this are called alike ("no discernable difference").
ALIKE = 0.02


def make_database(selects: int, pool_bytes: float, redo_bytes: float, tables: int) -> core.Database:
    """Returns the paper's oltp.lua: `selects` point selects, one index update, one other update,
    one delete and insert, all rows alike; the binlog off, as in 5.7."""
    off = {"simple_ranges": 0, "sum_ranges": 0, "order_ranges": 0, "distinct_ranges": 0, "point_selects": selects}
    options = {
        "script": "oltp_read_write",
        "distribution": {"type": "uniform"},
        "statements": off,
        "tables": tables,
        "table_size": ROWS,
        "redo_gib": redo_bytes / GIB,
        "cache_gib": pool_bytes / GIB,
        "log_bin": False,
        "threads": CLIENTS,
    }
    with translate_core_errors():
        description = core.mysql_sysbench(options)["database"]
    # A window of the redo log passes in under four minutes of an hour: flushing is in its stride
    # throughout.
    description["writes"]["flush_ramp_tx"] = 0.0
    return description


def compute_data_gib(tables: int) -> float:
    """Returns the size of `tables` of the paper's tables, GiB."""
    with translate_core_errors():
        return core.mysql_sysbench({"tables": tables, "table_size": ROWS})["size_gib"]


def _make_run(storage: str, pool_bytes: float, **load: object) -> dict:
    """Returns a warm hour on a storage as the core takes it; `load` replaces its keys."""
    return {
        "storage": storage,
        "instance": INSTANCE,
        "as_of": DAY,
        "cache_bytes": pool_bytes,
        "start": "warm",
        "seconds": HOUR,
        "step_s": 1.0,
        "seed": 1,
    } | load


class Hour(TypedDict):
    """The hour of a server: transactions a second, page reads of a transaction, IOPS, and what
    binds most of the time."""

    tps: float
    reads_per_tx: float
    iops: float
    cap: str


def simulate_hour(server: str, storage: str, tables: int, selects: int) -> Hour:
    """Returns tps, reads of a transaction and IOPS of the hour of table 4, from a cold start."""
    pool, redo = SERVERS[server]
    with translate_core_errors():
        rows = core.mysql_runs(
            make_database(selects, pool, redo, tables), [_make_run(storage, pool, clients=CLIENTS, start="cold")]
        )[0]
    return {
        "tps": statistics.fmean(rows["tps"]),
        "reads_per_tx": statistics.fmean(rows["reads_per_tx"]),
        "iops": statistics.fmean(rows["iops"]),
        "cap": max(set(rows["cap"]), key=rows["cap"].count),
    }


def simulate_load(storage: str, redo_gib: float, tps: float, selects: int) -> dict[str, float]:
    """Returns the load that `tps` transactions a second put on a storage, every I/O simulated with
    a warm pool: rates a second, KiB of a write."""
    pool = SERVERS["tuned"][0]
    with translate_core_errors():
        rows = core.mysql_clients(
            make_database(selects, pool, redo_gib * GIB, 1), _make_run(storage, pool, arrivals=[tps], seconds=SECONDS)
        )
    summary = rows["summary"]
    reads = summary["page_reads"] / SECONDS
    writes = (summary["pages_written"] + summary["doublewrite_runs"] + summary["log_syncs"]) / SECONDS
    kib = (statistics.fmean(rows["mib_s"]) * 1024 - 16 * reads) / writes
    return {
        "tps": statistics.fmean(rows["tps"]),
        "reads": reads,
        "writes": writes,
        "write_kib": kib,
        "mean_ms": summary["mean_ms"],
        "log": summary["log_syncs"] / SECONDS,
    }


def compute_per_transaction(name: str) -> dict[str, float]:
    """Returns the statements of a transaction in table 4, and the clients that its rate and mean
    response time imply (Little's law)."""
    published = {figure: value.value for figure, value in FIGURES.items()}
    of = published[f"{name}_transactions"]
    return {
        "selects": published[f"{name}_read"] / of,
        "writes": published[f"{name}_write"] / of,
        "other": published[f"{name}_other"] / of,
        "clients": published[f"{name}_tps"] * published[f"{name}_mean_ms"] / 1e3,
    }


def _judge_servers(steps: base.StepProgress) -> tuple[list[base.Verdict], base.StudyTable, dict]:
    """Simulates table 4 on each volume and server; returns verdicts, table and the hours by tables
    used, storage and server."""
    selects = round(compute_per_transaction("tuned")["selects"])
    hours = {}
    for tables in (1, 100):
        for storage in VOLUMES:
            for server in SERVERS:
                hours[tables, storage, server] = simulate_hour(server, storage, tables, selects)
            steps.step()
    verdicts = []
    for storage in VOLUMES:
        default, tuned = (hours[1, storage, server]["tps"] for server in ("default", "tuned"))
        ratio, what = FIGURES["ratio"], f"tuned over default, {storage}"
        verdicts.append(base.compare(what, ratio, tuned / default, TOLERANCE_PERCENT, "one table used"))
    io1, nearer = VOLUMES[1], "the volume is not stated; this one is nearer than gp2:500"
    for server in SERVERS:
        tps = hours[1, io1, server]["tps"]
        verdicts.append(
            base.compare(f"{server} server, {io1}", FIGURES[f"{server}_tps"], tps, TOLERANCE_PERCENT, nearer)
        )
    rows = []
    for place, run in hours.items():
        published = FIGURES[f"{place[2]}_tps"].value
        error = round(base.compute_error_percent(run["tps"], published), 1)
        figures = (round(run["tps"]), error, round(run["reads_per_tx"], 2), round(run["iops"]), run["cap"])
        rows.append((*place, published, *figures))
    names = "tables used | storage | server | published tps | ours | error % | reads/tx | IOPS | binds"
    return verdicts, base.tabulate("Table 4: an hour from a cold start", names, rows), hours


def _judge_storages(redo_gib: float, steps: base.StepProgress) -> tuple[list[base.Verdict], base.StudyTable, dict]:
    """Asks 6,000 tps of four storages; returns verdicts, table and what each did. `redo_gib`: the
    redo log, GiB."""
    runs = {}
    for name, storage in STORAGES.items():
        runs[name] = simulate_load(storage, redo_gib, ALIKE_TPS, ALIKE_SELECTS)
        steps.step()
    served = [run["tps"] for run in runs.values()]
    apart = max(served) / min(served) - 1.0
    single, striped = runs["io1"], runs["three io1 in RAID 0"]
    most = ", ".join(f"{name} {run['tps']:,.0f}" for name, run in runs.items())
    selects_s = FIGURES["alike_selects"].value
    read, asked_of = (
        f"{single['reads']:.0f} of {selects_s:,.0f}",
        f"{FIGURES['volume_reads'].value:.0f} of {selects_s:,.0f} a second",
    )
    few = single["reads"] < 0.01 * selects_s
    log = f"ours syncs the log {single['log']:,.0f} times a second; published sizes leave room for some 700"
    mib_s = base.Figure(WRITTEN_MIB_S, "MiB/s", PAPER)
    ours_mib_s, chosen = single["writes"] * single["write_kib"] / 1024, "the redo log's size was chosen by this figure"
    same, answer = "no discernable difference", f"{format_percent(apart, 2)} apart: {most}"
    free = "encryption costs nothing in the model"
    verdicts = [
        base.judge_answers("four storages under 6,000 tps", same, answer, PAPER, apart < ALIKE, free),
        base.judge_answers("statements that read a volume", asked_of, read, PAPER, few, "everything is in the pool"),
        base.compare("writes on one volume", FIGURES["volume_writes"], single["writes"], None, log),
        base.compare("KiB of a write", FIGURES["write_kib"], single["write_kib"], None, "smaller for the same reason"),
        base.compare(
            "writes on each of three", FIGURES["striped_writes"], striped["writes"] / 3, None, "a third of all"
        ),
        base.compare("MiB/s written", mib_s, ours_mib_s, None, chosen),
    ]
    digits = {"tps": None, "mean_ms": 2, "reads": None, "writes": None, "write_kib": 1}
    rows = [
        (name, STORAGES[name], *(round(run[figure], places) for figure, places in digits.items()))
        for name, run in runs.items()
    ]
    names = "storage |  | tps | mean ms | reads/s | writes/s | KiB a write"
    return verdicts, base.tabulate(f"6,000 tps asked of each, redo log of {redo_gib:g} GiB", names, rows), runs


def _choose_redo(steps: base.StepProgress) -> tuple[float, base.StudyTable]:
    """Returns the size of the redo log whose written bytes come nearest to the published ones, and
    a table of the alternatives on gp2."""
    rows = []
    for redo in REDO_GIB:
        gp2 = simulate_load("gp2:500", redo, ALIKE_TPS, ALIKE_SELECTS)
        mib_s = gp2["writes"] * gp2["write_kib"] / 1024
        figures = (round(gp2["tps"]), round(gp2["writes"]), round(gp2["write_kib"], 1), round(mib_s, 1))
        rows.append((redo, *figures))
        steps.step()
    nearest = min(
        (row for row in rows if row[1] > (1 - ALIKE) * ALIKE_TPS), key=lambda row: abs(row[4] - WRITTEN_MIB_S)
    )
    names = "redo GiB | tps | writes/s | KiB a write | MiB/s written"
    return nearest[0], base.tabulate("6,000 tps asked of gp2:500, by redo log", names, rows)


def _tabulate_counts() -> base.StudyTable:
    """Tabulates the statements of a transaction and the clients that the printed totals imply."""
    rows = []
    for name in SERVERS:
        of = compute_per_transaction(name)
        counts = (round(of[kind], 2) for kind in ("selects", "writes", "other"))
        rows.append((f"table 4, {name}", *counts, round(of["clients"])))
    rows.append(("four storages", FIGURES["alike_selects"].value / ALIKE_TPS, 4.0, None, None))
    names = "experiment | selects | writes | BEGIN and COMMIT | clients, by Little's law"
    return base.tabulate("Statements of a transaction, from the printed totals", names, rows)


def _draw_charts(hours: dict, alike: dict) -> tuple[base.ChartData, ...]:
    """Draws the published and simulated tps of both servers and of the four storages."""
    names = tuple(SERVERS)
    bars = [base.ChartSeries("published", "published", names, tuple(FIGURES[f"{name}_tps"].value for name in names))]
    for storage in VOLUMES:
        rates = tuple(hours[1, storage, name]["tps"] for name in names)
        bars.append(base.ChartSeries(f"simulated, {storage}", "simulated", names, rates))
    storages = tuple(STORAGES)
    each = (
        base.ChartSeries("published (about)", "published", storages, tuple(ALIKE_TPS for _ in storages)),
        base.ChartSeries(
            "simulated, 6,000 asked", "simulated", storages, tuple(alike[name]["tps"] for name in storages)
        ),
    )
    return (
        base.ChartData("Default and tuned server", "bar", "server", "tps", tuple(bars)),
        base.ChartData("Four storages", "bar", "storage", "tps", each),
    )


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Runs table 4 on both volumes and in both readings, then the load of the second experiment on
    four storages."""
    steps = base.StepProgress(2 * len(VOLUMES) + len(REDO_GIB) + len(STORAGES), progress)
    verdicts, table, hours = _judge_servers(steps)
    redo_gib, by_redo = _choose_redo(steps)
    more, alike_table, alike = _judge_storages(redo_gib, steps)
    free = make_database(ALIKE_SELECTS, SERVERS["tuned"][0], redo_gib * GIB, 1)["clients"]["cpu_ms"]
    notes = base.read_notes(
        "whitepaper_2017",
        hundred_gib=compute_data_gib(100),
        one_gib=compute_data_gib(1),
        hundred_tps=hours[100, VOLUMES[1], "tuned"]["tps"],
        default_clients=compute_per_transaction("default")["clients"],
        tuned_clients=compute_per_transaction("tuned")["clients"],
        redo_gib=redo_gib,
        free_tps=32000.0 / free,
    )
    return base.StudyResult(
        STUDY,
        (*verdicts, *more),
        (table, _tabulate_counts(), by_redo, alike_table),
        _draw_charts(hours, alike),
        notes,
    )
