"""Measures one applying thread against several: a source writes its load, then replica after
replica applies it. Lag follows from both rates: a load of T at rate l leaves a replica that applies
at m behind by T (1 - m / l).

The article's replica was not durable and was limited by one of sixteen processors. A lab has few
processors, and the source needs all of them: its rate is below what one such thread applies. So
here each commit of the replica is flushed, which limits one thread in the same way: it does one
thing at a time.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from headrace.bench import SysbenchOltp
from headrace.bench.drivers.benchmark import Say, stay_silent
from headrace.experiment import machine
from headrace.experiment.cell import DataSet, Progress
from headrace.experiment.data import ExperimentLab
from headrace.experiment.replication.cell import ReplicaCell, ReplicaLoad
from headrace.experiment.replication.run import Drained, ReplicationLab
from headrace.studies.base import ChartData, ChartSeries, StudyResult, Verdict, judge_answers, read_notes, tabulate
from headrace.studies.measured import tables
from headrace.studies.measured.session import LabOptions, compute_rows_gib, refuse
from headrace.studies.replication import replication_2016 as model

STUDY = model.STUDY
STORAGE = "gp3:100:3000"
ROWS = 200_000  # a guess: 50 MB, in every cache, as the article's table was in its caches
CACHE_MIB = 256
WORKERS = 4
CLIENTS = (4, 16)  # guesses for two processors: fewer and more than they need to be busy
WRITE_S, APPLY_S, WARMUP_S = (6, 30), (6.0, 20.0), 2.0  # shortest and longest; guesses
# Starting two servers, and receiving: s of each replica.
START_S = 12.0
# Faster by less than this could be scatter: the rates of repeated drains differ by 5 % (a guess).
CLEAR = 1.1


@dataclass(frozen=True)
class LoadRates:
    """The rates under one load: the source's, and each replica's by its workers."""

    clients: int
    source_tps: float
    applied: dict[int, Drained]

    def compute_lag_s(self, workers: int, load_s: float = model.SECONDS) -> float:
        """Returns the lag after a load of that length, s."""
        return load_s * max(0.0, 1.0 - self.applied[workers].tps / self.source_tps)


def make_data_set() -> DataSet:
    """Returns the data set of one table, as in the article."""
    return DataSet("sbtest", SysbenchOltp(tables=1, rows=ROWS), compute_rows_gib(ROWS))


def cells(options: LabOptions) -> list[ReplicaCell]:
    """Returns two loads with one thread each, and several workers for the load with more clients.
    Quick: that load alone."""
    loads = CLIENTS[-1:] if options.quick else CLIENTS
    count = len(loads) + 1
    each = max(0.0, options.time_s - 30.0) / count - START_S
    apply_s = min(max(0.5 * each, APPLY_S[0]), APPLY_S[1])
    write_s = round(min(max(0.5 * each, WRITE_S[0]), WRITE_S[1]))
    all_cells = []
    for clients in loads:
        script = SysbenchOltp("oltp_write_only", tables=1, rows=ROWS)
        load = ReplicaLoad(f"{clients} clients", make_data_set(), script, clients, write_s, options.seed)
        single_thread = ReplicaCell(
            f"{clients} clients, one thread",
            load,
            STORAGE,
            CACHE_MIB,
            warmup_s=WARMUP_S,
            seconds=apply_s,
        )
        all_cells.append(single_thread)
        if clients == CLIENTS[-1]:
            words = f"{clients} clients, {WORKERS} workers"
            all_cells.append(single_thread.with_(words=words, workers=WORKERS, mode="conservative"))
    return all_cells


def run(options: LabOptions, progress: Progress = stay_silent, say: Say = stay_silent) -> StudyResult:
    """Runs the study on the lab. Raises CouldNotRun when the machine lacks something."""
    began = time.monotonic()
    gib = 4 * make_data_set().gib
    lacks = machine.list_missing("mariadb", ("innodb",), folder=options.work, gib=gib)
    machine.require(f"study {STUDY.name} on the lab", refuse.source, lacks)
    todo = cells(options)
    rates: dict[int, LoadRates] = {}
    in_memory = options.work is None
    with (
        ExperimentLab(options.work, data_gib=gib, in_memory=in_memory, say=say) as lab,
        ReplicationLab(lab, say) as runs,
    ):
        for done, cell in enumerate(todo):
            progress(done / len(todo), cell.words)
            drained = runs.drain(cell)
            source = runs.get_source(cell.load)
            pair = rates.setdefault(cell.load.clients, LoadRates(cell.load.clients, source.tps, {}))
            pair.applied[cell.workers] = drained
        progress(1.0, "stopping the lab")
    return build_result(tuple(rates.values()), todo, time.monotonic() - began)


def build_result(pairs: tuple[LoadRates, ...], todo: list[ReplicaCell], seconds: float) -> StudyResult:
    """Compares the article's statements with the measurement and with the model of the article's
    own servers."""
    facts = machine.collect_machine_facts("mariadb")
    busiest = pairs[-1]
    busiest_source = model.simulate_source(model.BUSIEST)
    applier = {
        workers: model.predict_article_replica(busiest_source, workers).summary["applier_tps"]
        for workers in (0, WORKERS)
    }
    verdicts = [_judge_falling_behind(pairs, busiest_source.tps, applier[0]), _judge_workers(busiest, applier)]
    if len(pairs) > 1:
        verdicts.append(_judge_load(pairs))
    rows = [
        (
            pair.clients,
            workers or 1,
            round(pair.source_tps),
            round(drained.tps),
            round(pair.compute_lag_s(workers)),
            round(max(drained.load_average), 1),
        )
        for pair in pairs
        for workers, drained in pair.applied.items()
    ]
    names = "clients | threads that apply | source tps | applied tps | lag after 30 min (s) | load average"
    lag_table = tabulate("Measured on the lab", names, rows)
    cell = todo[0]
    scaled = tables.tabulate_scale(
        "replication_2016",
        rows=ROWS,
        clients=", ".join(str(pair.clients) for pair in pairs),
        storage=STORAGE,
        seconds=cell.load.seconds,
    )
    notes = [
        "Measured on Headrace's lab with real servers; the source rests while its load is applied, and the lag of "
        "30 minutes follows from both rates: 30 min x (1 - applied / written).",
        f"This machine has {os.cpu_count()} processors, which the servers share with all else that runs here.",
        *read_notes("replication_2016", exponent=model.compute_fall_exponent())[-1:],
        *(f"{name}: {value}" for name, value in facts.items()),
    ]
    return StudyResult(STUDY, tuple(verdicts), (scaled, lag_table), (_draw_chart(pairs),), tuple(notes), seconds, "lab")


def _judge_falling_behind(pairs: tuple[LoadRates, ...], source_tps: float, applier_tps: float) -> Verdict:
    """Judges whether one thread falls behind its source. `source_tps`, `applier_tps`: of the model,
    for the article's servers."""
    slower = [pair for pair in pairs if pair.applied[0].tps < pair.source_tps]
    shares = ", ".join(
        f"{100 * pair.applied[0].tps / pair.source_tps:.0f} % with {pair.clients} clients" for pair in pairs
    )
    note = f"the model, for the article's servers: {100 * applier_tps / source_tps:.0f} %"
    same = pairs[-1] in slower
    return judge_answers(
        "one thread falls behind all the time",
        "lag grows throughout",
        f"applies {shares} of what is written",
        model.ARTICLE,
        same,
        note,
    )


def _judge_workers(pair: LoadRates, applier: dict[int, float]) -> Verdict:
    """Judges whether several workers apply faster than one thread by CLEAR or more. `applier`: tps
    of the model by workers."""
    ratio = pair.applied[WORKERS].tps / pair.applied[0].tps
    answer = f"{ratio:.2f} times one thread's rate, lag after 30 min {pair.compute_lag_s(WORKERS):,.0f} s instead of {pair.compute_lag_s(0):,.0f}"
    note = (
        f"the model, for the article's servers: {applier[WORKERS] / applier[0]:.2f} times; faster: by {CLEAR:g} or more"
    )
    return judge_answers(f"{WORKERS} workers bound the lag", "6 to 10 s", answer, model.ARTICLE, ratio >= CLEAR, note)


def _judge_load(pairs: tuple[LoadRates, ...]) -> Verdict:
    """Judges whether the replica of the faster source lags more after 30 minutes of load."""
    by_rate = sorted(pairs, key=lambda pair: pair.source_tps)
    same = by_rate[-1].compute_lag_s(0) >= by_rate[0].compute_lag_s(0)
    answer = "; ".join(
        f"{pair.clients} clients write {pair.source_tps:,.0f} a second: {pair.compute_lag_s(0):,.0f} s"
        for pair in pairs
    )
    return judge_answers(
        "the faster source's replica lags more", "1,024 clients more than 2,048", answer, model.ARTICLE, same
    )


def _draw_chart(pairs: tuple[LoadRates, ...]) -> ChartData:
    """Draws the transactions applied over seconds, by clients and by threads that apply."""
    series = tuple(
        ChartSeries(
            f"{pair.clients} clients, {workers or 1} applying",
            "measured",
            tuple(at for at, _ in drained.samples),
            tuple(done for _, done in drained.samples),
        )
        for pair in pairs
        for workers, drained in pair.applied.items()
    )
    return ChartData(
        "Transactions applied by replicas", "curves", "seconds since it began to apply", "transactions applied", series
    )
