"""RAID over magnetic volumes: sysbench fileio in five modes on one volume and five arrays, measured
on the lab's."""

from __future__ import annotations

import polars as pl

from headrace.bench.drivers.sysbench_fileio import SysbenchFileio
from headrace.experiment.cell import FILES_CELL_S, Cell, OnFiles, Parts, compute_seconds_each
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SIMULATE_S, SimulatedCell
from headrace.studies import base
from headrace.studies import raid_2009 as model
from headrace.studies.base import ChartData, Source, Verdict, read_published
from headrace.studies.measured import tables, verdicts
from headrace.studies.measured.session import Judgement, LabOptions, Session

STUDY, WORDS = model.STUDY, "raid_arrays"
DAY = model.AS_OF
ENGINES: tuple[str, ...] = ()

# 16 GB in 128 files published. Requests must not meet: a hundredth has 10,000 places for 16 of
# them.
AUTO_SCALE, LEAST_GIB = 1 / 100, 0.0625
FILES = 16  # sysbench's default is 128 for 16 GB
MOST_THREADS, ONE = max(model.THREADS), min(model.THREADS)
# Cells that the claims name with one thread.
WITH_ONE = {("single", "rndrw"), ("raid0x2", "rndrw")}
SECONDS, WARMUP_S = (4, 60), 1  # guesses
QUICK_MODES = ("seqwr", "rndrd", "rndwr")
# sysbench's seqwr prepares nothing and writes anew; seqrewr writes sequentially over files that are
# there, as on a volume in use.
MODES = {mode: "seqrewr" if mode == "seqwr" else mode for mode in model.MODES}


def compute_size_gib(options: LabOptions) -> float:
    """Returns the size of the files, GiB."""
    return max(LEAST_GIB, model.FILE_GIB * options.choose_scale(AUTO_SCALE))


def data_gib(options: LabOptions) -> float:
    """Returns the GiB written at most: twice the files on a mirror."""
    return 2.0 * compute_size_gib(options)


def cells(options: LabOptions) -> list[Cell]:
    """Returns the cells of storages by modes, at 16 threads and, if a claim asks, at one."""
    cells = [
        (array, mode, threads)
        for array in model.ARRAYS
        for mode in (QUICK_MODES if options.quick else model.MODES)
        for threads in ((MOST_THREADS, ONE) if (array, mode) in WITH_ONE else (MOST_THREADS,))
    ]
    seconds = compute_seconds_each(options.time_s, 10.0, len(cells), FILES_CELL_S + WARMUP_S, *SECONDS)
    all_cells = []
    for array, mode, threads in cells:
        load = SysbenchFileio(MODES[mode], size_gib=compute_size_gib(options), files=FILES, rw_ratio=1.5)
        words = f"{array} ({model.ARRAYS[array]}), {mode}, {threads} threads"
        all_cells.append(
            Cell(
                (array, mode, threads),
                words,
                OnFiles(model.ARRAYS[array]),
                load,
                threads,
                WARMUP_S,
                seconds,
                options.seed,
            )
        )
    return all_cells


def simulate(session: Session, cells: list[Cell], parts: Parts) -> dict[tuple, SimulatedCell]:
    """Simulates the same cells in the per-I/O form, without the saved second: the warm-up spends
    it."""
    simulated = {}
    for cell in cells:
        size, seconds = compute_size_gib(session.options), float(cell.seconds)
        with parts.begin_part(SIMULATE_S, f"simulating {cell.words}"):
            run = model.simulate_fileio(*cell.key, seconds=seconds, size_gib=size, instance=None, seed=cell.seed)
        simulated[cell.key] = SimulatedCell(run.requests_per_s, run.p95_ms, pl.DataFrame())
    return simulated


def judge(session: Session, measured: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> Judgement:
    """Compares every published direction with both simulation and measurement."""
    modes = tuple(dict.fromkeys(key[1] for key in measured))
    all_verdicts = [
        verdict
        for row in read_published("raid_2009")
        if (verdict := _judge_direction(row, measured, simulated, modes)) is not None
    ]
    why = "the lab's volumes are the model's: what differs is the machine"
    all_verdicts.append(verdicts.compare_with_model(simulated, measured, model.STUDY.sources[0], why))
    values = {
        "file_gib": model.FILE_GIB,
        "size_mib": compute_size_gib(session.options) * 1024,
        "files": FILES,
        "scale": compute_size_gib(session.options) / model.FILE_GIB,
        "threads": ", ".join(map(str, model.THREADS)),
        "most_threads": MOST_THREADS,
        "fewest_threads": ONE,
        "seconds": next(iter(measured.values())).cell.seconds,
        "warmup_s": WARMUP_S,
    }
    return Judgement(all_verdicts, _draw_charts(measured, simulated, modes), values, unit="requests/s")


def _judge_direction(
    row: dict[str, str],
    measured: dict[tuple, MeasuredCell],
    simulated: dict[tuple, SimulatedCell],
    modes: tuple[str, ...],
) -> Verdict | None:
    """Judges a claim: it holds when it does, within doubt, in every measured mode that it names;
    None if none of them was measured."""
    pairs = {
        mode: [model.read_point(row[which], mode) for which in ("better", "worse")]
        for mode in row["modes"].split()
        if mode in modes
    }
    pairs = {mode: keys for mode, keys in pairs.items() if all(key in measured for key in keys)}
    if not pairs:
        return None
    least = model.LEAST[row["strength"]]
    ratios, ratio_words, failing, excused = [], [], [], []
    for mode, keys in pairs.items():
        a, b = (measured[key] for key in keys)
        c, d = (simulated[key] for key in keys)
        ratio, doubt = a.tps / b.tps, verdicts.compute_doubt(a, b)
        ratios.append(f"{mode} {ratio:.2f} x")
        ratio_words.append(f"{mode} {c.tps / d.tps:.2f} x")
        # "Worse" is more than alike; the others have their margin in `least`, and doubt is added to
        # it.
        if ratio < 1.0 + doubt if row["strength"] == "worse" else ratio * (1.0 + doubt) < least:
            (excused if c.tps / d.tps < least else failing).append(mode)
    note = f"requests/s of {row['better']} over {row['worse']}, at least {least:.2f} x asked"
    if excused:
        note += f"; does not come out for {', '.join(excused)}, on the model neither: {base.find_reason('raid_2009', row['claim']) or 'not explained'}"
    if failing:
        note += f"; does not come out for {', '.join(failing)}, where the model has it"
    source = Source(row["source"], row["date"])
    # A claim that a device without a disk arm cannot show is reported, and nothing is promised.
    within = False if failing else None if excused else True
    return Verdict(
        row["claim"],
        row["strength"].replace("-", " "),
        ", ".join(ratios),
        "",
        None,
        within,
        None,
        source,
        note,
        ", ".join(ratio_words),
    )


def _draw_charts(
    measured: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell], modes: tuple[str, ...]
) -> list[ChartData]:
    """Draws the requests a second of each array at the most threads, one chart a mode."""
    charts = []
    for mode in modes:
        arrays = tuple(array for array in model.ARRAYS if (array, mode, MOST_THREADS) in measured)
        title = f"{mode}, {MOST_THREADS} threads (published: directions only, in the table)"
        series = tables.make_tps_series(arrays, [(array, mode, MOST_THREADS) for array in arrays], measured, simulated)
        charts.append(ChartData(title, "bar", "array", "requests/s", series))
    return charts
