"""InnoDB and MyRocks over IOPS: TPC-C on a scaled database, with the density of one-second tps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl

from headrace.base.units import GIB, MIB, format_percent
from headrace.bench.drivers.tpcc import Tpcc
from headrace.calibration.prior import TPCC_BYTES
from headrace.experiment.cell import SERVER_CELL_S, Cell, DataSet, OnServer, Parts, compute_seconds_each
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SIMULATE_S, SimulatedCell
from headrace.experiment.simulate import simulate as simulate_cell
from headrace.studies import scaling_2018 as model
from headrace.studies.base import ChartData, ChartSeries, StudyTable, Verdict, judge_answers, tabulate
from headrace.studies.measured import tables, verdicts
from headrace.studies.measured.session import DIRECT_COLD_POOL, Judgement, LabOptions, Session
from headrace.studies.tpcc_runs import DAY as RUNS_DAY
from headrace.studies.tpcc_runs import ENGINES as NAMES
from headrace.studies.tpcc_runs import TpccRun, calibrate_engine
from headrace.studies.tpcc_runs import list_measured_runs as published_runs

STUDY, WORDS = model.STUDY, "engines"
DAY = RUNS_DAY
ENGINES = ("innodb", "myrocks")

WAREHOUSES = 5_000  # 100 tables x scale 50
AUTO_SCALE = {"quick": 2 / WAREHOUSES, "usual": 4 / WAREHOUSES}
# io1 of 1 TiB; below 1,000 IOPS a data set this small would still be bound by IOPS.
IOPS = {"quick": (1_000, 5_000), "usual": (1_000, 2_000, 5_000, 10_000)}
THREADS = 16  # the published runs' on MyRocks
SECONDS, WARMUP_S = (16, 180), 6  # guesses
LEAST_CACHE_MIB, LEAST_REDO_MIB = 16, 16  # what the servers take at least
# Redo of the calibrated database is not stated; a file that is written around in a run as at full
# size in an hour.
REDO_GIB = 10.0
REST = {
    "innodb": DIRECT_COLD_POOL,
    # Direct I/O: the page cache of this machine would answer reads. Levels as small as the data, or
    # nothing would ever be compacted.
    "myrocks": {
        "rocksdb_use_direct_reads": "ON",
        "rocksdb_use_direct_io_for_flush_and_compaction": "ON",
        "rocksdb_flush_log_at_trx_commit": "1",
        "innodb_buffer_pool_size": "16M",
        "rocksdb_max_background_jobs": "2",
        "rocksdb_default_cf_options": "write_buffer_size=8m;target_file_size_base=8m;max_bytes_for_level_base=32m;level0_file_num_compaction_trigger=4;"
        "compression=kLZ4Compression",
    },
}
CENT = 100.0  # percent
# Times their size at rest, for MyRocks' data in plans. Loading takes its time by rows
# (`session.LOAD_S_PER_GIB`), of which both engines have as many, and MyRocks' 20 MB a warehouse are
# compressed: 4 x 20 are near InnoDB's 94. A guess; the length of the published runs rests on it.
MYROCKS_UNPACKED = 4


def compute_scale(options: LabOptions) -> float:
    """Returns warehouses and cache as a share of the published ones."""
    return options.choose_scale(AUTO_SCALE["quick" if options.quick else "usual"])


def count_warehouses(options: LabOptions) -> int:
    """Returns the whole number of warehouses."""
    return max(1, round(WAREHOUSES * compute_scale(options)))


def data_gib(options: LabOptions) -> float:
    """Returns the GiB to plan for, in room and in time to load, for the data of both engines
    together; their sizes at rest are those of `judge`."""
    return count_warehouses(options) * (TPCC_BYTES["innodb"] + MYROCKS_UNPACKED * TPCC_BYTES["myrocks"]) / GIB


def compute_cache_mib(options: LabOptions) -> int:
    """Returns the calibrated runs' cache, scaled, MiB; the same for both engines, as published."""
    return max(
        LEAST_CACHE_MIB, round(calibrate_engine("innodb").cache_gib * 1024 * count_warehouses(options) / WAREHOUSES)
    )


def cells(options: LabOptions) -> list[Cell]:
    """Returns the cells of each engine by IOPS."""
    points = IOPS["quick" if options.quick else "usual"]
    load = Tpcc(warehouses=count_warehouses(options))
    cache, redo = (
        compute_cache_mib(options),
        max(LEAST_REDO_MIB, round(REDO_GIB * 1024 * count_warehouses(options) / WAREHOUSES)),
    )
    seconds = compute_seconds_each(
        options.time_s, 60.0 + 60.0 * data_gib(options), len(points) * len(ENGINES), SERVER_CELL_S + WARMUP_S, *SECONDS
    )
    all_cells = []
    for engine in ENGINES:
        data = DataSet(
            f"tpcc, {engine}",
            load,
            data_gib(options) / 2.0,
            engine,
            {k: v for k, v in REST[engine].items() if k == "rocksdb_default_cf_options"},
        )
        size = {
            "innodb": {"innodb_buffer_pool_size": f"{cache}M", "innodb_log_file_size": f"{redo}M"},
            "myrocks": {"rocksdb_block_cache_size": f"{cache}M"},
        }[engine]
        for iops in points:
            place = OnServer(data, model.write_storage("io1", iops), REST[engine] | size)
            words = f"{NAMES[engine]}, io1 with {iops:,} IOPS"
            all_cells.append(Cell((engine, iops), words, place, load, THREADS, WARMUP_S, seconds, options.seed))
    return all_cells


def simulate(session: Session, needed_cells: list[Cell], parts: Parts) -> dict[tuple, SimulatedCell]:
    """Simulates the databases calibrated on the published hours, shrunk to this size, on this
    machine's processors."""
    simulated = {}
    assert session.here is not None  # its servers' processors are measured first
    share = count_warehouses(session.options) / WAREHOUSES
    for cell in needed_cells:
        with parts.begin_part(SIMULATE_S, f"simulating {cell.words}"):
            database = session.here.apply_speed(calibrate_engine(cell.key[0]).scale_data(share).database)
            simulated[cell.key] = simulate_cell(cell, database, session.here, DAY, form="interval")
    return simulated


def judge(session: Session, measured: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> Judgement:
    """Judges what more IOPS bring each engine, which one wins where, and which one scatters more;
    draws densities."""
    points = tuple(dict.fromkeys(iops for _, iops in measured))
    all_verdicts = [
        *_judge_more_iops(measured, simulated, points),
        _judge_growth(measured, simulated, points),
        _judge_winner(measured, simulated, points),
        _judge_spread(measured, simulated, points),
    ]
    why = "databases calibrated on hours of 5,000 warehouses, shrunk; this machine's processors"
    all_verdicts.append(verdicts.compare_with_model(simulated, measured, model.ARTICLE, why))
    count = count_warehouses(session.options)
    values = {
        "published": WAREHOUSES,
        "warehouses": count,
        "scale": count / WAREHOUSES,
        "innodb_mib": count * TPCC_BYTES["innodb"] / MIB,
        "myrocks_mib": count * TPCC_BYTES["myrocks"] / MIB,
        "cache_mib": compute_cache_mib(session.options),
        "iops": ", ".join(f"{iops:,}" for iops in points),
        "threads": THREADS,
    }
    return Judgement(all_verdicts, _draw_charts(measured, simulated, points), values, [_tabulate_densities(measured)])


def _judge_more_iops(measured: dict, simulated: dict, points: tuple[int, ...]) -> list[Verdict]:
    """Judges for each engine whether more IOPS of io1 bring more tps. `points`: IOPS, rising."""
    all_verdicts = []
    for engine in ENGINES:
        pairs = [
            verdicts.compare_cells(f"{high:,} over {low:,}", measured, simulated, (engine, high), (engine, low))
            for low, high in zip(points, points[1:], strict=False)
        ]
        all_verdicts.append(
            verdicts.judge_winner(f"{NAMES[engine]}: more IOPS of io1, more tps", "grows", pairs, model.ARTICLE)
        )
    return all_verdicts


def _judge_growth(measured: dict, simulated: dict, points: tuple[int, ...]) -> Verdict:
    """Judges how far the tps of MyRocks grow from the fewest IOPS to the most."""
    low, high = points[0], points[-1]
    pair = verdicts.compare_cells("MyRocks", measured, simulated, ("myrocks", high), ("myrocks", low))
    why = "the caps' ratio at most; published: an impressive growth"
    return verdicts.judge_ratio(f"MyRocks: {high:,} over {low:,} IOPS", pair, 1.0, high / low, model.ARTICLE, why)


def _collect_published() -> dict[tuple[str, int], TpccRun]:
    """Returns the published hours on io1, by engine and IOPS."""
    return {
        (run.engine, int(run.storage.rsplit(":", 1)[1])): run
        for run in published_runs()
        if run.storage.startswith("io1") and run.threads == calibrate_engine(run.engine).threads
    }


def _judge_winner(measured: dict, simulated: dict, points: tuple[int, ...]) -> Verdict:
    """Judges whether MyRocks does more tps than InnoDB at the same IOPS and cache."""
    published_runs = _collect_published()
    both = sorted({iops for _, iops in published_runs if all((engine, iops) in published_runs for engine in ENGINES)})
    published_ratios = [
        f"{iops:,} IOPS: {published_runs['myrocks', iops].mean / published_runs['innodb', iops].mean:.1f} times"
        for iops in both
    ]
    pairs = [
        verdicts.compare_cells(f"{iops:,} IOPS", measured, simulated, ("myrocks", iops), ("innodb", iops))
        for iops in points
    ]
    ratios = ", ".join(f"{pair.words} {pair.measured:.2f} times" for pair in pairs)
    note = f"measured: {ratios}; its data take a fifth, so the same cache holds more of them"
    what, claim = (
        "MyRocks over InnoDB at the same IOPS and cache",
        ", ".join(published_ratios) or "more tps at the same IOPS",
    )
    return verdicts.judge_winner(what, claim, pairs, model.ARTICLE, note)


def compute_width(values: pl.Series) -> float:
    """Returns the span from the 5th to the 95th percentile over the mean."""
    low, high = np.quantile(values.to_numpy(), (0.05, 0.95))
    return float((high - low) / values.to_numpy().mean())


def _judge_spread(measured: dict, simulated: dict, points: tuple[int, ...]) -> Verdict:
    """Judges whether the one-second tps of MyRocks vary more, from the 5th to the 95th percentile,
    at the most IOPS."""
    top = points[-1]
    widths = {engine: compute_width(measured[engine, top].select_measured()["tps"]) for engine in ENGINES}
    simulated_widths = {engine: compute_width(simulated[engine, top].rows["tps"]) for engine in ENGINES}

    def list_widths(of: dict[str, float]) -> str:
        return ", ".join(f"{NAMES[engine]} {format_percent(of[engine])}" for engine in ENGINES)

    # In tps, as a density plot shows it.
    spread = {engine: widths[engine] * measured[engine, top].tps for engine in ENGINES}
    n = measured["innodb", top].select_measured().height
    # The width of n seconds is known to about 1 / sqrt(n), twice that for two standard errors.
    clear = 2.0 / math.sqrt(n)
    wider = spread["myrocks"] / spread["innodb"]
    within = True if wider > 1.0 else None if wider > 1.0 - clear else False
    answer = f"{list_widths(widths)}; {wider:.2f} times as wide in tps"
    note = f"5th to 95th percentile of {n} seconds, over the mean; known to {format_percent(clear)}"
    verdict = judge_answers(
        f"MyRocks varies more at {top:,} IOPS", "a lot of variance", answer, model.ARTICLE, within, note
    )
    return replace(verdict, simulated=list_widths(simulated_widths))


def _tabulate_densities(measured: dict[tuple, MeasuredCell]) -> StudyTable:
    """Tabulates mean, quantiles and spread (percent of the mean) of one-second tps by engine and
    IOPS."""
    rows = []
    for (engine, iops), measurement in measured.items():
        values = measurement.select_measured()["tps"].to_numpy()
        mean = float(values.mean())
        figures = [round(float(value), 1) for value in (mean, *np.quantile(values, (0.05, 0.5, 0.95)))]
        spread = (
            round(CENT * compute_width(measurement.select_measured()["tps"])),
            round(CENT * float(values.std(ddof=1)) / mean),
        )
        rows.append((NAMES[engine], iops, len(values), *figures, *spread))
    names = "engine | IOPS | n (s) | mean | p5 | p50 | p95 | p5 to p95, % of the mean | sd, % of the mean"
    return tabulate("One-second tps", names, rows)


def _draw_charts(measured: dict, simulated: dict, points: tuple[int, ...]) -> list[ChartData]:
    """Draws tps over IOPS, the spread of one-second tps, and tps second by second at the most
    IOPS."""
    series, charts, published_runs = [], [], _collect_published()
    for engine, name in NAMES.items():
        series += tables.make_tps_series(
            points, [(engine, iops) for iops in points], measured, simulated, f"{name}, {{role}}"
        )
        # Beyond the points measured here the axis would be theirs.
        if there := tuple(sorted(iops for of, iops in published_runs if of == engine and iops <= points[-1])):
            means = tuple(published_runs[engine, iops].mean for iops in there)
            series.append(ChartSeries(f"{name}, published (5,000 warehouses, 36 vCPUs)", "published", there, means))
        rows = []
        for iops in points:
            model_rows, lab_rows = simulated[engine, iops].rows["tps"], measured[engine, iops].select_measured()["tps"]
            rows.append(
                ChartSeries(f"{iops:,} IOPS, simulated", "simulated", *model.estimate_density(model_rows.to_list()))
            )
            rows.append(
                ChartSeries(f"{iops:,} IOPS, measured", "measured", *model.estimate_density(lab_rows.to_list()))
            )
            if run := published_runs.get((engine, iops)):
                marks = (run.p5, run.p50, run.p95)
                rows.append(ChartSeries(f"{iops:,} IOPS, simulated", "published", marks, (0.0, 0.0, 0.0)))
        spread = "how one-second tps are spread; published 5th, 50th and 95th percentile (full size) where known"
        charts.append(ChartData(f"{name}: {spread}", "ridge", "one-second tps", "", tuple(rows)))
    title, x_title = "Transactions a second over provisioned IOPS", "provisioned IOPS of the io1 volume"
    charts.insert(0, ChartData(title, "curves", x_title, "tps", tuple(series)))
    top = points[-1]
    seconds = []
    for engine, name in NAMES.items():
        model_rows, lab_rows = simulated[engine, top].rows, measured[engine, top].select_measured()
        seconds.append(
            ChartSeries(f"{name}, simulated", "simulated", tuple(model_rows["t_s"]), tuple(model_rows["tps"]))
        )
        t_s = tuple(lab_rows["t_s"] - lab_rows["t_s"][0])
        seconds.append(ChartSeries(f"{name}, measured", "measured", t_s, tuple(lab_rows["tps"])))
    charts.append(ChartData(f"Second by second at {top:,} IOPS", "curves", "time (s)", "tps", tuple(seconds)))
    return charts
