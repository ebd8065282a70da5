"""InnoDB and MyRocks over IOPS: TPC-C on a scaled database, with the density of one-second tps."""

from __future__ import annotations

import math
import statistics

import polars as pl

from headrace.base.units import GIB
from headrace.bench.drivers.tpcc import Tpcc
from headrace.calibration.prior import TPCC_BYTES
from headrace.studies import scaling_2018 as model
from headrace.studies.base import ChartData, Series, StudyResult, Verdict
from headrace.studies.measured import tables, verdicts
from headrace.studies.measured.cells import Found, Progress
from headrace.studies.measured.plan import SERVER_CELL_S, Cell, DataSet, OnServer, Options, seconds_each
from headrace.studies.measured.session import SIMULATE_S, Session
from headrace.studies.measured.simulated import Simulated
from headrace.studies.measured.simulated import simulate as simulate_cell
from headrace.studies.tpcc_runs import DAY as RUNS_DAY
from headrace.studies.tpcc_runs import ENGINES as NAMES
from headrace.studies.tpcc_runs import calibrated
from headrace.studies.tpcc_runs import measured as published_runs

STUDY = model.STUDY
DAY = RUNS_DAY
ENGINES = ("innodb", "myrocks")
FILES_ONLY = False

WAREHOUSES = 5_000  # 100 tables x scale 50
AUTO_SCALE = {"quick": 2 / WAREHOUSES, "usual": 4 / WAREHOUSES}
# io1 of 1 TiB; below 1,000 IOPS a data set this small would still be bound by IOPS.
IOPS = {"quick": (1_000, 5_000), "usual": (1_000, 2_000, 5_000, 10_000)}
THREADS = 16
SECONDS, WARMUP_S = (16, 180), 6
LEAST_CACHE_MIB, LEAST_REDO_MIB = 16, 16
# Redo of the calibrated database is not stated; a file that is written around in a run as at full size in an hour.
REDO_GIB = 10.0
REST = {
    "innodb": {"innodb_flush_method": "O_DIRECT", "innodb_buffer_pool_load_at_startup": "OFF"},
    # Direct I/O: the page cache of this machine would answer reads. Levels as small as the data, or nothing would ever be compacted.
    "myrocks": {
        "rocksdb_use_direct_reads": "ON", "rocksdb_use_direct_io_for_flush_and_compaction": "ON", "rocksdb_flush_log_at_trx_commit": "1", "innodb_buffer_pool_size": "16M",
        "rocksdb_max_background_jobs": "2",
        "rocksdb_default_cf_options": "write_buffer_size=8m;target_file_size_base=8m;max_bytes_for_level_base=32m;level0_file_num_compaction_trigger=4;"
        "compression=kLZ4Compression",
    },
}  # fmt: skip
CENT = 100.0


def scale_of(options: Options) -> float:
    """Warehouses and cache against the published ones."""
    return options.scale or AUTO_SCALE["quick" if options.quick else "usual"]


def warehouses(options: Options) -> int:
    """Whole ones."""
    return max(1, round(WAREHOUSES * scale_of(options)))


def data_gib(options: Options) -> float:
    """Of both engines' data."""
    return warehouses(options) * (TPCC_BYTES["innodb"] + 4 * TPCC_BYTES["myrocks"]) / GIB


def cache_mib(options: Options) -> int:
    """The calibrated runs' cache, scaled; the same for both engines, as published."""
    return max(LEAST_CACHE_MIB, round(calibrated("innodb").cache_gib * 1024 * warehouses(options) / WAREHOUSES))


def cells(options: Options) -> list[Cell]:
    """Engines by IOPS."""
    points = IOPS["quick" if options.quick else "usual"]
    load = Tpcc(warehouses=warehouses(options))
    cache, redo = cache_mib(options), max(LEAST_REDO_MIB, round(REDO_GIB * 1024 * warehouses(options) / WAREHOUSES))
    seconds = seconds_each(options.time_s, 60.0 + 60.0 * data_gib(options), len(points) * len(ENGINES), SERVER_CELL_S + WARMUP_S, *SECONDS)
    made = []
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
            place = OnServer(data, model.storage("io1", iops), REST[engine] | size)
            made.append(
                Cell((engine, iops), f"{NAMES[engine]}, io1 with {iops:,} IOPS", place, load, THREADS, WARMUP_S, seconds, options.seed)
            )
    return made


def simulate(session: Session, asked: list[Cell], progress: Progress) -> dict[tuple, Simulated]:
    """The databases calibrated on the published hours, grown down to this size, on this machine's processors."""
    found = {}
    share = warehouses(session.options) / WAREHOUSES
    for cell in asked:
        with progress.part(SIMULATE_S, f"simulating {cell.words}"):
            database = session.here.applied(calibrated(cell.key[0]).grown(share).database)
            found[cell.key] = simulate_cell(cell, database, session.here, DAY, form="interval")
    return found


def result(session: Session, found: dict[tuple, Found], simulated: dict[tuple, Simulated]) -> StudyResult:
    """What more IOPS buy each engine, who wins where, who scatters more; densities."""
    points = tuple(dict.fromkeys(iops for _, iops in found))
    made = [
        *_more(found, simulated, points),
        _growth(found, simulated, points),
        _winner(found, simulated, points),
        _wider(found, simulated, points),
    ]
    made.append(verdicts.against_model("the simulation against what was measured", simulated, found, model.ARTICLE,
                                       "databases calibrated on hours of 5,000 warehouses, shrunk; this machine's processors"))  # fmt: skip
    return session.result(
        STUDY,
        made,
        [_scale(session.options), _densities(found), tables.runs(found, simulated)],
        _charts(found, simulated, points),
        _notes(),
        found,
    )


def _more(found: dict, simulated: dict, points: tuple[int, ...]) -> list[Verdict]:
    made = []
    for engine in ENGINES:
        pairs = [
            verdicts.pair(
                f"{high:,} over {low:,}", found[engine, high], found[engine, low], None, (simulated[engine, high], simulated[engine, low])
            )
            for low, high in zip(points, points[1:], strict=False)
        ]
        made.append(verdicts.wins(f"{NAMES[engine]}: more IOPS of io1, more tps", "grows", pairs, model.ARTICLE))
    return made


def _growth(found: dict, simulated: dict, points: tuple[int, ...]) -> Verdict:
    low, high = points[0], points[-1]
    pair = verdicts.pair(
        "MyRocks", found["myrocks", high], found["myrocks", low], None, (simulated["myrocks", high], simulated["myrocks", low])
    )
    return verdicts.ratio(
        f"MyRocks: {high:,} over {low:,} IOPS",
        pair,
        1.0,
        high / low,
        model.ARTICLE,
        "the caps' ratio at most; published: an impressive growth",
    )


def _published() -> dict[tuple[str, int], float]:
    """Means of the published hours on io1, by engine and IOPS."""
    known = {}
    for run in published_runs():
        if run.storage.startswith("io1") and run.threads == calibrated(run.engine).threads:
            known[run.engine, int(run.storage.rsplit(":", 1)[1])] = run.mean
    return known


def _spreads() -> list[tuple[str, int, tuple[float, float, float]]]:
    """Engine, IOPS and percentiles of one-second tps of the published hours on io1."""
    return [
        (run.engine, int(run.storage.rsplit(":", 1)[1]), (run.p5, run.p50, run.p95))
        for run in published_runs()
        if run.storage.startswith("io1") and run.threads == calibrated(run.engine).threads
    ]


def _winner(found: dict, simulated: dict, points: tuple[int, ...]) -> Verdict:
    known = _published()
    told = {
        iops: known["myrocks", iops] / known["innodb", iops]
        for engine, iops in known
        if ("myrocks", iops) in known and ("innodb", iops) in known
    }
    said = ", ".join(f"{iops:,} IOPS: {ratio:.1f} times" for iops, ratio in sorted(told.items())) or "more tps at the same IOPS"
    pairs = [
        verdicts.pair(
            f"{iops:,} IOPS", found["myrocks", iops], found["innodb", iops], None, (simulated["myrocks", iops], simulated["innodb", iops])
        )
        for iops in points
    ]
    ratios = ", ".join(f"{pair.words} {pair.measured:.2f} times" for pair in pairs)
    return verdicts.wins(
        "MyRocks over InnoDB at the same IOPS and cache",
        said,
        pairs,
        model.ARTICLE,
        f"measured: {ratios}; its data take a fifth, so the same cache holds more of them",
    )


def width(values: pl.Series) -> float:
    """From the 5th to the 95th percentile, over the mean."""
    return float((values.quantile(0.95, "linear") - values.quantile(0.05, "linear")) / values.mean())


def _wider(found: dict, simulated: dict, points: tuple[int, ...]) -> Verdict:
    top = points[-1]
    widths = {engine: width(found[engine, top].measured()["tps"]) for engine in ENGINES}
    theirs = {engine: width(simulated[engine, top].rows["tps"]) for engine in ENGINES}

    def said(of: dict[str, float]) -> str:
        return ", ".join(f"{NAMES[engine]} {of[engine]:.0%}" for engine in ENGINES)

    # In tps, as a density plot shows it.
    spread = {engine: widths[engine] * found[engine, top].tps for engine in ENGINES}
    n = found["innodb", top].measured().height
    # The width of n seconds is known to about 1 / sqrt(n), twice that for two standard errors.
    clear = 2.0 / math.sqrt(n)
    wider = spread["myrocks"] / spread["innodb"]
    held = True if wider > 1.0 else None if wider > 1.0 - clear else False
    return Verdict(f"MyRocks varies more at {top:,} IOPS", "a lot of variance", f"{said(widths)}; {wider:.2f} times as wide in tps", "", None, held, None, model.ARTICLE,
                   f"5th to 95th percentile of {n} seconds, over the mean; known to {clear:.0%}", said(theirs))  # fmt: skip


def _scale(options: Options):
    made = warehouses(options)
    return tables.scale((
        ("warehouses", f"{WAREHOUSES:,}", f"{made}", f"by {made / WAREHOUSES:.4g}"),
        ("data, InnoDB and MyRocks", "471 and 100 GB", f"some {made * TPCC_BYTES['innodb'] / GIB * 1024:,.0f} and {made * TPCC_BYTES['myrocks'] / GIB * 1024:,.0f} MiB", "with the warehouses"),
        ("buffer pool, block cache", "54 GB (of the calibrated hours)", f"{cache_mib(options)} MiB", "with the data"),
        ("IOPS", "io1, 1,000 to 30,000", f"io1:1024, {', '.join(f'{iops:,}' for iops in IOPS['quick' if options.quick else 'usual'])}", "no"),
        ("threads", "72 and 16", f"{THREADS}", "fewer: 2 warehouses have 20 districts, and clients wait for each other's"),
        ("time", "an hour from a cold start, its second half", "each run, after its warm-up", "with the cache: it is filled as many times"),
        ("benchmark", "sysbench-tpcc", "TPC-C (docs/reference/bench.md), all five transactions counted", "transactions of the same standard"),
        ("processors", "36 vCPUs", "see Notes", "no"),
    ))  # fmt: skip


def _densities(found: dict[tuple, Found]):
    from headrace.studies.base import Table

    rows = []
    for (engine, iops), one in found.items():
        values = one.measured()["tps"]
        quantiles = [round(float(values.quantile(q, "linear")), 1) for q in (0.05, 0.5, 0.95)]
        rows.append(
            (
                NAMES[engine],
                iops,
                values.len(),
                round(float(values.mean()), 1),
                *quantiles,
                round(CENT * width(values)),
                round(CENT * statistics.stdev(values) / values.mean()),
            )
        )
    return Table(
        "One-second tps",
        ("engine", "IOPS", "n (s)", "mean", "p5", "p50", "p95", "p5 to p95, % of the mean", "sd, % of the mean"),
        tuple(rows),
    )


def _charts(found: dict, simulated: dict, points: tuple[int, ...]) -> list[ChartData]:
    series, known = [], _published()
    for engine, name in NAMES.items():
        series.append(Series(f"{name}, simulated", "simulated", points, tuple(simulated[engine, iops].tps for iops in points)))
        series.append(Series(f"{name}, measured", "measured", points, tuple(found[engine, iops].tps for iops in points)))
        # Beyond the points measured here the axis would be theirs.
        there = tuple(sorted(iops for of, iops in known if of == engine and iops <= points[-1]))
        if there:
            series.append(
                Series(f"{name}, published (5,000 warehouses, 36 vCPUs)", "published", there, tuple(known[engine, iops] for iops in there))
            )
    charts = [
        ChartData("Transactions a second over provisioned IOPS", "curves", "provisioned IOPS of the io1 volume", "tps", tuple(series))
    ]
    for engine, name in NAMES.items():
        rows = []
        for iops in points:
            rows.append(Series(f"{iops:,} IOPS, simulated", "simulated", *model.density(simulated[engine, iops].rows["tps"].to_list())))
            rows.append(Series(f"{iops:,} IOPS, measured", "measured", *model.density(found[engine, iops].measured()["tps"].to_list())))
            rows += [
                Series(f"{iops:,} IOPS, simulated", "published", quantiles, (0.0, 0.0, 0.0))
                for of, at, quantiles in _spreads()
                if (of, at) == (engine, iops)
            ]
        title = f"{name}: how one-second tps are spread; published 5th, 50th and 95th percentile (full size) where known"
        charts.append(ChartData(title, "ridge", "one-second tps", "", tuple(rows)))
    top = points[-1]
    seconds = tuple(
        Series(f"{name}, {role}", role, tuple(rows["t_s"] - rows["t_s"][0]), tuple(rows["tps"]))
        for engine, name in NAMES.items()
        for role, rows in (("simulated", simulated[engine, top].rows), ("measured", found[engine, top].measured()))
    )
    charts.append(ChartData(f"Second by second at {top:,} IOPS", "curves", "time (s)", "tps", seconds))
    return charts


def _notes() -> list[str]:
    return [
        "Both engines begin every cell from the same copy on a fresh volume with an empty cache; the first seconds fill it and do not count.",
        "The published figures are of 5,000 warehouses on 36 vCPUs: compare directions, ratios and widths.",
        "MyRocks is the one of MariaDB, with direct I/O and levels as small as the data; its compactions come every few seconds here, and hours apart at full size.",
    ]
