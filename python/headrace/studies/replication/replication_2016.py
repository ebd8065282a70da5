"""Replica lag of MySQL 5.7 with one and with several threads against Aurora's readers (a blog
article of 2016), with the other figures that were published about Aurora."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import cache

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import GIB
from headrace.calibration.from_runs import sysbench_oltp, sysbench_tpcc
from headrace.simulation.replica import Replica, ReplicaPrediction, predict_replica
from headrace.studies import base
from headrace.workload.transactions import TransactionWorkload

STUDY = base.read_study("replication_2016")
ARTICLE, PAPER, PERCONA = STUDY.sources

# The article: RDS MySQL 5.7.10 on db.r3.4xlarge, 2 TB of 20,000 provisioned IOPS; sysbench 0.5,
# write only, one table of 10 million rows, for 30 minutes.
DAY = "2016-03-13"
INSTANCE, VCPUS = "r3.4xlarge", 16
STORAGE = "io1:2048:20000"
CACHE_GIB = 88.0  # three quarters of 122 GB, less 4 %: all of the table fits
ROWS, THREADS, WORKERS = 10_000_000, (128, 1_024, 2_048), (0, 4, 8)
SECONDS = 1_800
BUSIEST = 1_024  # clients of the runs with several workers
# The article's lag with 4 workers: "under 10 s".
BOUNDED_S = 10.0
IDLE = "bounded, as published; the 6 to 10 s seen there are not explained: 4 workers have room to spare here"
# The other study: db.r5.xlarge, sysbench-tpcc, 24 GiB of cache (three quarters of 32 GiB).
STUDY_2020_DAY, STUDY_2020_INSTANCE, STUDY_2020_CACHE_GIB = "2020-05-15", "r5.xlarge", 24.0
LAYOUTS = {"tpcc-10x100": 1_000, "tpcc-5x100": 500}
FITTED, HELD_OUT = "tpcc-10x100", "tpcc-5x100"
# RDS of that study: storage not stated. Taken: 900 GiB of gp2, in four volumes; with one client it
# hardly matters.
RDS_2020 = "gp2:900"
AIM_PERCENT = 20.0  # median error of figures that were not fitted
LAG_PERCENT = 25.0  # of table 4
LAG_FITTED = (1_000, 10_000)  # writes a second of table 4 that the lag was fitted on
REDO_OF_A_WRITE = 450.0  # bytes; sysbench write-only, 1,800 bytes for 4 writes (crates/sim, sysbench)
# Processor shares: nothing fitted them, and both are small; a factor of two is the right size.
SIZE = 2.0
STEPS = 14  # of the progress, about


@dataclass(frozen=True)
class Source2016:
    """The article's source with `threads` clients: `tps` as simulated, and with the published fall
    of MySQL's rate with its clients."""

    threads: int
    alone_tps: float
    tps: float
    p95_ms: float


@cache
def select_rows(family: str, service: str, metric: str) -> tuple[core.PublishedRun, ...]:
    """Returns the published figures, as the catalog has them."""
    key = (family, service, metric)
    published = core.published_services()
    return tuple(row for row in published if (row["family"], row["service"], row["metric"]) == key)


def compute_fall_exponent() -> float:
    """Returns x of table 3: beyond 500 connections, MySQL's writes a second go with (clients /
    500)^-x."""
    writes_s = {row["clients"]: row["value"] for row in select_rows("sigmod-table-3", "mysql", "writes_s")}
    return math.log(writes_s[500] / writes_s[5_000]) / math.log(5_000 / 500)


def make_workload(threads: int) -> TransactionWorkload:
    """Returns sysbench write-only of the article, whose clients reach RDS over the network."""
    load = {"script": "oltp_write_only", "tables": 1, "table_size": ROWS, "client_host": "network"}
    return sysbench_oltp(cache_gib=CACHE_GIB, threads=threads, redo_gib=0.25, **load)


def simulate_last_second(
    database: dict, deployment: str, instance: str, day: str, cache_gib: float, clients: int | None, storage: str
) -> dict:
    """Returns the figures of the last second of ten warm minutes."""
    run = {
        "deployment": deployment,
        "storage": core.rds_storage(storage, day)["array"] if deployment.startswith("rds") else None,
        "instance": instance,
        "as_of": day,
        "cache_bytes": cache_gib * GIB,
        "clients": clients,
        "arrivals": None,
        "start": "warm",
        "seconds": 600,
        "step_s": 10.0,
        "seed": None,
        "aurora": None,
    }
    with translate_core_errors():
        series = core.service_runs(database, [run])[0]
    return {name: series[name][-1] for name in ("tps", "p95_ms", "reads_per_tx", "cap")}  # pyright: ignore[reportTypedDictNotRequiredAccess]


def simulate_source(threads: int) -> Source2016:
    """Returns the source: RDS Multi-AZ, both logs durable."""
    last = simulate_last_second(
        make_workload(threads).database, "rds:multi-az", INSTANCE, DAY, CACHE_GIB, threads, STORAGE
    )
    fallen = (max(threads, 500) / 500) ** -compute_fall_exponent()
    return Source2016(threads, last["tps"], last["tps"] * fallen, last["p95_ms"])


def predict_article_replica(of: Source2016, workers: int) -> ReplicaPrediction:
    """Predicts the article's replica: no binary log, flush_log 0; transactions that shared a group
    commit are applied at once."""
    volumes = core.rds_storage(STORAGE, DAY)["array"]
    return predict_replica(
        make_workload(of.threads),
        volumes,
        Replica(
            volumes,
            instance=INSTANCE,
            version="mysql-5.7",
            mode="logical-clock" if workers else "single",
            workers=workers,
            preserve_order=False,
            log_bin=False,
            flush_log_at_trx_commit=0,
        ),
        instance=INSTANCE,
        as_of=DAY,
        threads=of.threads,
        seconds=SECONDS,
        source_tps=[of.tps] * SECONDS,
        draws=0,
        drain_s=0,
    )


def _make_figure(row: core.PublishedRun, of: base.Source) -> base.Figure:
    return base.Figure(row["value"], row["unit"], of)


def _judge_mysql(steps: base.StepProgress) -> tuple[list[base.Verdict], list[base.StudyTable], list[base.ChartData]]:
    """Judges the article's three statements about MySQL."""
    sources = {threads: simulate_source(threads) for threads in THREADS}
    steps.step()
    single = {threads: predict_article_replica(of, 0) for threads, of in sources.items()}
    steps.step()
    many = {workers: predict_article_replica(sources[BUSIEST], workers) for workers in WORKERS[1:]}
    steps.step()
    ends = {threads: run.summary["lag_at_load_end_s"] for threads, run in single.items()}
    grows = all(_grows(run) for run in single.values())
    four = many[4].summary["lag_at_load_end_s"]
    cpu = core.replica_applier(make_workload(BUSIEST).database, None)["applier"]["cpu_ms"]
    cores = min(sources[BUSIEST].tps, many[4].summary["applier_tps"]) * cpu / 1e3
    busy = select_rows("replication-2016", "rds", "cpu_percent")[0]
    answer = ", ".join(f"{ends[threads]:,.0f} s at {threads:,}" for threads in THREADS)
    verdicts = [
        base.judge_answers(
            "one thread falls behind all the time", "lag grows throughout", f"after 30 min {answer}", ARTICLE, grows
        ),
        base.judge("lag with 4 workers, 1,024 clients", "under 10 s", four, "s", four <= BOUNDED_S, ARTICLE, IDLE),
        base.judge_answers(
            "1,024 clients lag more than 2,048",
            "more",
            "more" if ends[1_024] > ends[2_048] else "less",
            ARTICLE,
            ends[1_024] > ends[2_048],
            "by the fall of the source's rate that table 3 of the SIGMOD paper shows",
        ),
        _judge_size("processors of the replica, 4 workers", _make_figure(busy, ARTICLE), 100 * cores / VCPUS),
    ]
    rows = []
    for threads, of in sources.items():
        for workers in WORKERS if threads == BUSIEST else WORKERS[:1]:
            run = single[threads] if workers == 0 else many[workers]
            figures = (round(of.alone_tps), round(of.tps), round(run.summary["applier_tps"]))
            rows.append(
                (threads, workers or 1, *figures, round(run.summary["lag_at_load_end_s"], 1), run.summary["binding"])
            )
    title = "MySQL 5.7: source, applier, and lag after 30 minutes (simulated)"
    names = "clients | threads that apply | source tps, no contention | source tps | applier tps | lag s | applier held back by"
    return verdicts, [base.tabulate(title, names, rows)], [_draw_lag(single, many)]


def _grows(run: ReplicaPrediction) -> bool:
    """Returns whether a replica's lag never falls after the first minute, and more than doubles."""
    lag = run.rows["lag_s"].to_list()[60:]  # the first minute fills queues
    return all(later >= earlier for earlier, later in zip(lag, lag[1:], strict=False)) and lag[-1] > 2 * lag[0]


def _draw_lag(single: dict[int, ReplicaPrediction], many: dict[int, ReplicaPrediction]) -> base.ChartData:
    """Draws the lag of replicas in seconds over the minutes of load. `single`: one thread, by
    clients; `many`: by workers."""
    named = [(f"one thread, {threads:,} clients", run) for threads, run in single.items()]
    named.append((f"4 workers, {BUSIEST:,} clients", many[4]))
    series = []
    for name, run in named:
        rows = run.rows.gather_every(30)
        series.append(base.ChartSeries(name, "simulated", tuple(t / 60 for t in rows["t_s"]), tuple(rows["lag_s"])))
    return base.ChartData("Lag of a MySQL 5.7 replica", "curves", "minutes of load", "lag (s)", tuple(series))


def _judge_size(what: str, figure: base.Figure, simulated: float) -> base.Verdict:
    """Judges a figure that nothing was fitted to: it holds within a factor of two."""
    within = 1 / SIZE <= simulated / figure.value <= SIZE
    return base.judge(
        what, figure.value, simulated, figure.unit, within, figure.source, "within a factor of 2: nothing was fitted"
    )


def _judge_aurora(steps: base.StepProgress) -> tuple[list[base.Verdict], list[base.StudyTable], list[base.ChartData]]:
    """Judges the lag (ms) and processors of Aurora's reader against article and paper; returns
    verdicts, tables and charts."""
    shop = make_workload(BUSIEST)
    last = simulate_last_second(shop.database, "aurora:standard", INSTANCE, DAY, CACHE_GIB, BUSIEST, "")
    reader = core.aurora_reader(shop.database["log"]["redo_bytes_per_tx"] * last["tps"], 1.0, VCPUS)
    steps.step()
    most, busy = (select_rows("replication-2016", "aurora", metric)[0] for metric in ("lag_ms", "cpu_percent"))
    highest = reader["highest_ms"] or math.inf
    verdicts = [
        base.judge(
            "Aurora's lag, 1,024 clients",
            "never past 35 ms",
            highest,
            "ms",
            highest <= most["value"],
            ARTICLE,
            "99.9th percentile",
        ),
        _judge_size("processors of Aurora's reader", _make_figure(busy, ARTICLE), 100 * reader["cpu_share"]),
    ]
    rates, published, simulated = [], [], []
    for row in core.published_services():
        if row["family"] != "sigmod-table-4" or row["service"] != "aurora":
            continue
        rate = int(str(row["metric"]).split()[2])
        mine = core.aurora_reader(rate * REDO_OF_A_WRITE, 1.0, 32)["mean_ms"] or math.inf
        fitted = rate in LAG_FITTED
        what = f"Aurora's lag at {rate:,} writes/s"
        note = "fitted" if fitted else "not fitted"
        verdicts.append(base.compare(what, _make_figure(row, PAPER), mine, None if fitted else LAG_PERCENT, note))
        rates.append(rate)
        published.append(row["value"])
        simulated.append(mine)
    table1 = {
        metric: select_rows("sigmod-table-1", "aurora", metric)[0] for metric in ("transactions", "ios_per_transaction")
    }
    per_tx = core.aurora_billed(shop.database, 0.0, table1["transactions"]["value"] / SECONDS)["writes"]
    rows = (
        ("I/Os of a transaction, six copies counted", table1["ios_per_transaction"]["value"], "fitted (batches)"),
        ("writes of 4 KiB billed for it", None, round(per_tx, 2)),
    )
    table = base.tabulate("Aurora's log writes, table 1", "what | published | ours", rows)
    chart = base.ChartData(
        "Lag of an Aurora reader",
        "line",
        "writes a second",
        "lag (ms)",
        base.make_role_series(tuple(rates), published=published, simulated=simulated),
    )
    return verdicts, [table], [chart]


def make_tpcc_database(warehouses: int) -> dict:
    """Returns sysbench-tpcc of 2020: its time without I/O is that of the study's RDS run with one
    client."""
    single_client = next(row for row in select_rows(HELD_OUT, "rds", "tps") if row["clients"] == 1)
    plain = sysbench_tpcc(warehouses=500, engine="innodb", cache_gib=STUDY_2020_CACHE_GIB, threads=1).database
    place = (STUDY_2020_INSTANCE, STUDY_2020_DAY, STUDY_2020_CACHE_GIB)
    alone = simulate_last_second(plain, "rds:single-az", *place, 1, RDS_2020)["tps"]
    base_ms = plain["clients"]["base_ms"] + 1e3 / single_client["value"] - 1e3 / alone
    database = dict(
        sysbench_tpcc(warehouses=warehouses, engine="innodb", cache_gib=STUDY_2020_CACHE_GIB, threads=1).database
    )
    return database | {"clients": {**database["clients"], "base_ms": base_ms}}


def _judge_2020(steps: base.StepProgress) -> tuple[list[base.Verdict], list[base.StudyTable], list[base.ChartData]]:
    """Judges sysbench-tpcc on Aurora: one layout was fitted, the other was not."""
    verdicts: list[base.Verdict] = []
    rows, charts, errors = [], [], {}
    place = (STUDY_2020_INSTANCE, STUDY_2020_DAY, STUDY_2020_CACHE_GIB)
    for family, warehouses in LAYOUTS.items():
        database = make_tpcc_database(warehouses)
        pairs = []
        for row in select_rows(family, "aurora", "tps"):
            last = simulate_last_second(database, "aurora:standard", *place, row["clients"], "")
            pairs.append((row["clients"], row["value"], last["tps"]))
            rows.append(
                (
                    family,
                    row["clients"],
                    row["value"],
                    round(last["tps"]),
                    f"{base.compute_error_percent(last['tps'], row['value']):+.0f} %",
                    last["cap"],
                )
            )
            steps.step()
        errors[family] = statistics.median(
            abs(base.compute_error_percent(simulated, published)) for _, published, simulated in pairs
        )
        x, published, simulated = zip(*pairs, strict=True)
        title = f"Aurora, sysbench-tpcc, {family.removeprefix('tpcc-')} warehouses, {'fitted' if family == FITTED else 'not fitted'}"
        charts.append(
            base.ChartData(
                title,
                "line",
                "clients",
                "transactions a second",
                base.make_role_series(x, published=published, simulated=simulated),
            )
        )
    what = "median error of Aurora's tps, 5 tables (not fitted)"
    note = f"n = 3; fitted, 10 tables, n = 9: {errors[FITTED]:.0f} %"
    verdicts.append(
        base.judge(
            what, f"at most {AIM_PERCENT:g} %", errors[HELD_OUT], "%", errors[HELD_OUT] <= AIM_PERCENT, PERCONA, note
        )
    )
    names = "layout | clients | published tps | ours | error | limited by"
    return verdicts, [base.tabulate("Aurora, sysbench-tpcc on db.r5.xlarge (2020)", names, rows)], charts


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Runs all of it in some seconds."""
    steps = base.StepProgress(STEPS, progress)
    parts = [_judge_mysql(steps), _judge_aurora(steps), _judge_2020(steps)]
    verdicts, tables, charts = (tuple(item for part in parts for item in part[index]) for index in range(3))
    notes = base.read_notes("replication_2016", exponent=compute_fall_exponent())
    return base.StudyResult(STUDY, verdicts, tables, charts, notes)  # pyright: ignore[reportArgumentType]
