"""900 against 3,000 IOPS of gp2 over threads, four loads of sysbench: measured on a scaled
database."""

from __future__ import annotations

from headrace.bench import SysbenchOltp
from headrace.experiment.cell import SERVER_CELL_S, Cell, DataSet, OnServer, compute_seconds_each
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SimulatedCell
from headrace.studies import iops_900_3000 as model
from headrace.studies.base import ChartData, make_role_series
from headrace.studies.measured import tables, verdicts
from headrace.studies.measured.session import (
    COLD_POOL,
    Judgement,
    LabOptions,
    Session,
    compute_rows_gib,
    estimate_loading_s,
)

STUDY, WORDS = model.STUDY, "iops_threads"
DAY = model.DAY
ENGINES = ("innodb",)

# Published: 48 GiB, half of it in the pool. At a hundredth, sysbench's default draws touch some
# 15,000 pages: 17 s of reads at 900 IOPS, 5 s at 3,000. So a cell of ten seconds from an empty pool
# is on its way as one of the article's minutes was.
AUTO_SCALE = 1 / 100
LEAST_ROWS, LEAST_POOL_MIB = 1_000, 8  # a guess; what the server takes
# Redo is written around in the time of a run at full scale and at this one alike; the server takes
# no less.
LEAST_REDO_MIB = 16
THREADS = {"quick": (1, 16), "usual": (1, 8, 64), "long": model.THREADS}
LOADS = {"quick": ("oltp", "select"), "usual": tuple(model.LOADS), "long": tuple(model.LOADS)}
LONG_S = 1_500.0  # from here on all thread counts fit (a guess)
SECONDS, WARMUP_S = (8, 60), 2  # guesses
# Share of cell pairs in the published order. Two random orders agree in half of them; published
# repetitions do not exist, so a fifth is left to the CPU tops of another machine.
ORDER = 0.8
CAPS = max(model.VOLUMES) / min(model.VOLUMES)


def compute_sizes(scale: float) -> tuple[int, int, int]:
    """Returns the rows of each table, pool MiB, and redo MiB."""
    return (
        max(LEAST_ROWS, round(model.ROWS * scale)),
        max(LEAST_POOL_MIB, round(model.POOL_GIB * 1024 * scale)),
        max(LEAST_REDO_MIB, round(model.REDO_GIB * 1024 * scale)),
    )


def data_gib(options: LabOptions) -> float:
    """Returns the size of all data, GiB."""
    return compute_rows_gib(model.TABLES * compute_sizes(options.choose_scale(AUTO_SCALE))[0])


def cells(options: LabOptions) -> list[Cell]:
    """Returns the cells of loads by IOPS by threads."""
    size = "quick" if options.quick else "long" if options.time_s >= LONG_S else "usual"
    loads, threads = LOADS[size], THREADS[size]
    rows, pool, redo = compute_sizes(options.choose_scale(AUTO_SCALE))
    data = DataSet("sbtest", SysbenchOltp(tables=model.TABLES, rows=rows), data_gib(options))
    count = len(loads) * len(threads) * len(model.VOLUMES)
    seconds = compute_seconds_each(
        options.time_s, estimate_loading_s(data.gib), count, SERVER_CELL_S + WARMUP_S, *SECONDS
    )
    settings = COLD_POOL | {"innodb_buffer_pool_size": f"{pool}M", "innodb_log_file_size": f"{redo}M"}
    all_cells = []
    for load in loads:
        for iops, storage in model.VOLUMES.items():
            # The bucket of a 300 GiB volume is empty, as after hours of load: 900 is all it has.
            place = OnServer(data, storage, settings, balance_percent=0.0 if iops == min(model.VOLUMES) else None)
            script = SysbenchOltp(model.LOADS[load], tables=model.TABLES, rows=rows)
            for n in threads:
                words = f"{load}, {iops:,} IOPS, {n} threads"
                all_cells.append(Cell((load, iops, n), words, place, script, n, WARMUP_S, seconds, options.seed))
    return all_cells


def judge(session: Session, measured: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> Judgement:
    """Judges directions, ratios and the order of all cells; draws a chart for each load."""
    loads = tuple(dict.fromkeys(key[0] for key in measured))
    threads = tuple(dict.fromkeys(key[2] for key in measured))
    low, high = min(model.VOLUMES), max(model.VOLUMES)
    article = model.read_table()
    all_verdicts = []
    for load in loads:
        pairs = [
            verdicts.compare_cells(
                f"{n} threads",
                measured,
                simulated,
                (load, high, n),
                (load, low, n),
                article[load, high, n] / article[load, low, n],
            )
            for n in threads
        ]
        what, all_of = f"{load}: {high:,} IOPS beat {low:,}", f"{len(model.THREADS)} of {len(model.THREADS)}"
        all_verdicts.append(verdicts.judge_winner(what, all_of, pairs, model.ARTICLE, f"at {_join(threads)} threads"))
        # A pool that still fills gives the faster volume twice: it reads more now, and has more in
        # memory for what comes next.
        most = max(CAPS, pairs[-1].simulated)
        why = (
            f"at least alike; at most the ratio of the caps, {high:,} / {low:,}, or what is simulated of a "
            "pool that still fills"
        )
        what = f"{load}: {high:,} over {low:,} IOPS, {threads[-1]} threads"
        all_verdicts.append(verdicts.judge_ratio(what, pairs[-1], 1.0, most, model.ARTICLE, why))
    published = {key: article[key] for key in measured}
    simulated_tps = {key: cell.tps for key, cell in simulated.items()}
    what, why = "all cells in the published order", "the published machine has 8 vCPUs, so its loads top out elsewhere"
    all_verdicts.append(verdicts.judge_order(what, published, simulated_tps, measured, model.ARTICLE, ORDER, why))
    all_verdicts.append(verdicts.compare_with_model(simulated, measured, model.ARTICLE))
    scale = session.options.choose_scale(AUTO_SCALE)
    rows, pool, redo = compute_sizes(scale)
    values = {
        "published_rows": model.ROWS,
        "rows": rows,
        "scale": scale,
        "published_pool_gib": model.POOL_GIB,
        "pool_mib": pool,
        "published_redo_gib": model.REDO_GIB,
        "redo_mib": redo,
        "published_threads": _join(model.THREADS),
        "threads": _join(threads),
        "warmup_s": WARMUP_S,
    }
    return Judgement(all_verdicts, _draw_charts(measured, simulated, loads, threads), values)


def _join(values: tuple) -> str:
    return ", ".join(map(str, values))


def _draw_charts(measured: dict, simulated: dict, loads: tuple, threads: tuple) -> list[ChartData]:
    """Draws the rate of each load by threads at both IOPS: published, simulated, measured."""
    charts = []
    for load in loads:
        series = []
        for iops in model.VOLUMES:
            keys = [(load, iops, n) for n in threads]
            label = f"{{role}}, {iops:,} IOPS"
            series += make_role_series(threads, label, published=[model.read_table()[key] for key in keys])
            series += tables.make_tps_series(threads, keys, measured, simulated, label)
        unit = "transactions/s" if load == "oltp" else "statements/s"
        scales = "published on 8 vCPUs and full size, simulated and measured at the scale of this machine"
        charts.append(ChartData(f"{load} ({model.LOADS[load]}): {scales}", "line", "threads", unit, tuple(series)))
    return charts
