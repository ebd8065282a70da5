"""First touch: a database on a volume that was made from a snapshot, cold and initialized."""

from __future__ import annotations

import statistics

import polars as pl

from headrace.base.units import GIB
from headrace.bench import SysbenchOltp
from headrace.experiment.cell import SERVER_CELL_S, Cell, DataSet, OnServer, seconds_each
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SimulatedCell
from headrace.studies import base
from headrace.studies.base import ChartData, ChartSeries, StudyResult, Verdict, agree, figures, judge, study
from headrace.studies.measured import tables
from headrace.studies.measured.session import LabOptions, Session

STUDY = study("restored_volume")
PAPER = STUDY.sources[0]
# The newest limits: the question is of today's volumes.
DAY = None
ENGINES = ("innodb",)
FILES_ONLY = False

STORAGE = "gp3:100"
ROWS, AUTO_SCALE = 40_000_000, 1 / 20  # guesses: 10 GB, and what loads within a run
POOL_MIB = 32  # a guess: next to nothing fits
THREADS = 8  # a guess
SECONDS = (20, 120)  # guesses: blocks load at up to 100 MiB/s, so half a GiB is there in some 10 s
FIRST_S = 3  # the seconds in which nearly every read is a first touch (a guess)
LAST_SHARE = 1 / 3  # of the run, in which everything is there
CLEAR = 1.5  # a guess: a ratio nobody takes for scatter
ALIKE = 0.15  # a guess: what single seconds scatter by
SETTINGS = {"innodb_flush_method": "O_DIRECT", "innodb_buffer_pool_load_at_startup": "OFF"}
KINDS = ("cold", "initialized")


def rows_of(options: LabOptions) -> int:
    """Returns the rows of the single table."""
    return max(20_000, round(ROWS * options.scale_or(AUTO_SCALE)))


def data_gib(options: LabOptions) -> float:
    """Returns the size of the table, GiB."""
    return rows_of(options) * 250 / GIB


def cells(options: LabOptions) -> list[Cell]:
    """Returns the same load on a volume that is cold, and on one whose blocks were all loaded."""
    rows = rows_of(options)
    load = SysbenchOltp("oltp_read_only", tables=1, rows=rows, distribution="uniform")
    data = DataSet("sbtest", load, data_gib(options))
    settings = SETTINGS | {"innodb_buffer_pool_size": f"{POOL_MIB}M"}
    fixed_s = 40.0 + 60.0 * data_gib(options)
    seconds = seconds_each(options.time_s, fixed_s, len(KINDS), 2 * SERVER_CELL_S, *SECONDS)
    return [
        Cell(
            (kind,),
            f"{kind} volume",
            OnServer(data, STORAGE, settings, restored=kind),
            load,
            THREADS,
            0,
            seconds,
            options.seed,
        )
        for kind in KINDS
    ]


def first_and_last(rows: pl.DataFrame) -> tuple[float, float]:
    """Returns the mean transactions a second of the first seconds, and of the last third."""
    tps = [value or 0.0 for value in rows["tps"].to_list()]
    last = tps[-max(1, round(len(tps) * LAST_SHARE)) :]
    return statistics.fmean(tps[:FIRST_S]), statistics.fmean(last)


def result(session: Session, runs: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> StudyResult:
    """Judges how far throughput falls at first, and whether it comes back."""
    measured = {kind: first_and_last(runs[kind,].measured()) for kind in KINDS}
    simulated_ends = {kind: first_and_last(simulated[kind,].rows) for kind in KINDS}
    rows = rows_of(session.options)
    scale = tables.scale(
        "restored_volume",
        rows=rows,
        gib=data_gib(session.options),
        scale=rows / ROWS,
        pool=f"{POOL_MIB} MiB",
        storage=STORAGE,
        threads=THREADS,
    )
    result_tables = [scale, tables.runs(runs, simulated)]
    charts = [_draw_chart(runs, simulated)]
    return session.result(
        STUDY, _judge_phases(measured, simulated_ends), result_tables, charts, [*base.texts("restored_volume")], runs
    )


def _judge_phases(
    measured: dict[str, tuple[float, float]], simulated_ends: dict[str, tuple[float, float]]
) -> list[Verdict]:
    """Judges the restored volume against the initialized one. Both mappings: tps of the first
    seconds and of the last third, by kind of volume."""
    slower, simulated = (_ratio(of["initialized"][0], of["cold"][0]) for of in (measured, simulated_ends))
    back, back_simulated = (_ratio(of["cold"][1], of["initialized"][1]) for of in (measured, simulated_ends))
    touch = figures("restored_volume")["first_touch_ms"]
    return [
        agree(
            "the database answers before its volume has been loaded",
            "it can be used right away",
            f"{measured['cold'][0]:.1f} tps in the first {FIRST_S} s",
            PAPER,
            measured["cold"][0] > 0.0,
        ),
        judge(
            f"throughput of the initialized volume over the cold one, first {FIRST_S} s",
            "higher",
            slower,
            "times",
            slower > CLEAR,
            PAPER,
            f"a first touch takes some {touch.value:g} ms ({touch.source}), a later read less than 1 ms",
            simulated=simulated,
        ),
        judge(
            "cold over initialized, last third of the run",
            1.0,
            back,
            "times",
            back > 1.0 - ALIKE,
            PAPER,
            "by then every block was touched",
            simulated=back_simulated,
        ),
    ]


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / max(denominator, 1e-9)


def _draw_chart(runs: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> ChartData:
    """Draws tps and p95 in ms of each kind of volume over seconds, measured and simulated."""

    def panel(title: str, unit: str, column: str) -> ChartData:
        lines = []
        for kind in KINDS:
            rows, simulated_rows = runs[kind,].measured(), simulated[kind,].rows
            lines.append(
                ChartSeries(
                    f"{kind}, simulated", "simulated", tuple(simulated_rows["t_s"]), tuple(simulated_rows[column])
                )
            )
            lines.append(
                ChartSeries(f"{kind}, measured", "measured", tuple(rows["t_s"] - rows["t_s"][0]), tuple(rows[column]))
            )
        return ChartData(title, "line", "", unit, tuple(lines))

    panels = (panel("Throughput", "tps", "tps"), panel("Latency: 95 % of transactions", "ms", "p95_ms"))
    return ChartData(f"{STORAGE} restored from a snapshot", "panels", "time since the start (s)", "", (), panels)
