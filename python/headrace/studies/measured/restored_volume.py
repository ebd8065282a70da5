"""First touch: a database on a volume that was made from a snapshot, cold and initialized."""

from __future__ import annotations

import statistics

import polars as pl

from headrace.bench import SysbenchOltp
from headrace.experiment.cell import SERVER_CELL_S, Cell, DataSet, OnServer, compute_seconds_each
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SimulatedCell
from headrace.studies import base
from headrace.studies.base import ChartData, ChartSeries, Verdict
from headrace.studies.measured.session import (
    DIRECT_COLD_POOL,
    Judgement,
    LabOptions,
    Session,
    compute_rows_gib,
    estimate_loading_s,
)

WORDS = "restored_volume"
STUDY = base.read_study(WORDS)
PAPER = STUDY.sources[0]
# The newest limits: the question is of today's volumes.
DAY = None
ENGINES = ("innodb",)

STORAGE = "gp3:100"
ROWS, AUTO_SCALE = 40_000_000, 1 / 20  # guesses: 10 GB, and what loads within a run
POOL_MIB = 32  # a guess: next to nothing fits
THREADS = 8  # a guess
SECONDS = (20, 120)  # guesses: blocks load at up to 100 MiB/s, so half a GiB is there in some 10 s
FIRST_S = 3  # the seconds in which nearly every read is a first touch (a guess)
LAST_SHARE = 1 / 3  # of the run, in which everything is there
CLEAR = 1.5  # a guess: a ratio nobody takes for scatter
ALIKE = 0.15  # a guess: what single seconds scatter by
KINDS = ("cold", "initialized")


def count_rows(options: LabOptions) -> int:
    """Returns the rows of the single table."""
    return max(20_000, round(ROWS * options.choose_scale(AUTO_SCALE)))


def data_gib(options: LabOptions) -> float:
    """Returns the size of the table, GiB."""
    return compute_rows_gib(count_rows(options))


def cells(options: LabOptions) -> list[Cell]:
    """Returns the same load on a volume that is cold, and on one whose blocks were all loaded."""
    rows = count_rows(options)
    load = SysbenchOltp("oltp_read_only", tables=1, rows=rows, distribution="uniform")
    data = DataSet("sbtest", load, data_gib(options))
    settings = DIRECT_COLD_POOL | {"innodb_buffer_pool_size": f"{POOL_MIB}M"}
    seconds = compute_seconds_each(
        options.time_s, estimate_loading_s(data_gib(options)), len(KINDS), 2 * SERVER_CELL_S, *SECONDS
    )
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


def average_first_and_last(rows: pl.DataFrame) -> tuple[float, float]:
    """Returns the mean transactions a second of the first seconds, and of the last third."""
    tps = [value or 0.0 for value in rows["tps"].to_list()]
    last = tps[-max(1, round(len(tps) * LAST_SHARE)) :]
    return statistics.fmean(tps[:FIRST_S]), statistics.fmean(last)


def judge(session: Session, runs: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> Judgement:
    """Judges how far throughput falls at first, and whether it comes back."""
    measured = {kind: average_first_and_last(runs[kind,].select_measured()) for kind in KINDS}
    simulated_ends = {kind: average_first_and_last(simulated[kind,].rows) for kind in KINDS}
    rows = count_rows(session.options)
    values = {
        "rows": rows,
        "gib": data_gib(session.options),
        "scale": rows / ROWS,
        "pool": f"{POOL_MIB} MiB",
        "storage": STORAGE,
        "threads": THREADS,
    }
    return Judgement(_judge_phases(measured, simulated_ends), [_draw_chart(runs, simulated)], values)


def _judge_phases(
    measured: dict[str, tuple[float, float]], simulated_ends: dict[str, tuple[float, float]]
) -> list[Verdict]:
    """Judges the restored volume against the initialized one. Both mappings: tps of the first
    seconds and of the last third, by kind of volume."""
    slower, simulated = (_compute_ratio(of["initialized"][0], of["cold"][0]) for of in (measured, simulated_ends))
    back, back_simulated = (_compute_ratio(of["cold"][1], of["initialized"][1]) for of in (measured, simulated_ends))
    touch = base.read_figures("restored_volume")["first_touch_ms"]
    return [
        base.judge_answers(
            "the database answers before its volume has been loaded",
            "it can be used right away",
            f"{measured['cold'][0]:.1f} tps in the first {FIRST_S} s",
            PAPER,
            measured["cold"][0] > 0.0,
        ),
        base.judge(
            f"throughput of the initialized volume over the cold one, first {FIRST_S} s",
            "higher",
            slower,
            "times",
            slower > CLEAR,
            PAPER,
            f"a first touch takes some {touch.value:g} ms ({touch.source}), a later read less than 1 ms",
            simulated=simulated,
        ),
        base.judge(
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


def _compute_ratio(numerator: float, denominator: float) -> float:
    return numerator / max(denominator, 1e-9)


def _draw_chart(runs: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> ChartData:
    """Draws tps and p95 in ms of each kind of volume over seconds, measured and simulated."""

    def draw_panel(title: str, unit: str, column: str) -> ChartData:
        lines = []
        for kind in KINDS:
            rows, simulated_rows = runs[kind,].select_measured(), simulated[kind,].rows
            lines.append(
                ChartSeries(
                    f"{kind}, simulated", "simulated", tuple(simulated_rows["t_s"]), tuple(simulated_rows[column])
                )
            )
            lines.append(
                ChartSeries(f"{kind}, measured", "measured", tuple(rows["t_s"] - rows["t_s"][0]), tuple(rows[column]))
            )
        return ChartData(title, "line", "", unit, tuple(lines))

    panels = (draw_panel("Throughput", "tps", "tps"), draw_panel("Latency: 95 % of transactions", "ms", "p95_ms"))
    return ChartData(f"{STORAGE} restored from a snapshot", "panels", "time since the start (s)", "", (), panels)
