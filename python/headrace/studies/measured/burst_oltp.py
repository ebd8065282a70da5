"""gp2 running dry under OLTP: throughput, latency, queue and balance of one run on one time
axis."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

import polars as pl

from headrace.bench import SysbenchOltp
from headrace.experiment.cell import SERVER_CELL_S, Cell, DataSet, OnServer
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SimulatedCell
from headrace.studies import base
from headrace.studies import gp2_burst as model
from headrace.studies.measured.session import (
    COLD_POOL,
    Judgement,
    LabOptions,
    Session,
    compute_rows_gib,
    estimate_loading_s,
)

STUDY, WORDS = model.STUDY, "burst_oltp"
SOURCE = STUDY.sources[1]
DAY = model.AS_OF
ENGINES = ("innodb",)

GIB_OF_VOLUME = 100  # 300 IOPS: a tenth of the burst
STORAGE = f"gp2:{GIB_OF_VOLUME}"
# No size is published for OLTP; the database need only miss its pool: 12 million rows in a pool a
# twelfth of them, cut by `scale`.
ROWS, TABLES, POOL_MIB, REDO_MIB = 12_000_000, 4, 256, 256
AUTO_SCALE, LEAST_POOL_MIB, LEAST_REDO_MIB = 1 / 12, 16, 32  # guesses; the server takes no less
THREADS = 16  # enough to take 3,000 IOPS
CREDITS = model.FIGURES["credits"].value
# Share of the run at full speed; the rest is long enough to see the baseline.
BURST_SHARE = 0.4
SECONDS = (60, 600)  # least and most (guesses)
# Around the moment itself rows are of both kinds, and the first ones fill the pool.
EDGE_S, FIRST_S = 5, 10
# The balance is known to a millionth; whole seconds are what a row knows.
ROW_S = 1.0
SAVED_S = 1.2  # a rested volume's second of tokens, and a fifth
# Guesses: a ratio that is clear, and what seconds scatter by.
CLEAR, SCATTER = 1.5, 1.15
MOSTLY_DRY = 1e-3  # of the balance at the start


def compute_sizes(options: LabOptions) -> tuple[int, int, int]:
    """Returns the rows of each table, pool MiB, and redo MiB."""
    scale = options.choose_scale(AUTO_SCALE)
    return (
        max(1_000, round(ROWS * scale / TABLES)),
        max(LEAST_POOL_MIB, round(POOL_MIB * scale)),
        max(LEAST_REDO_MIB, round(REDO_MIB * scale)),
    )


def data_gib(options: LabOptions) -> float:
    """Returns the size of the tables, GiB."""
    return compute_rows_gib(TABLES * compute_sizes(options)[0])


def cells(options: LabOptions) -> list[Cell]:
    """Returns one run, from a bucket that holds as much as `BURST_SHARE` of the run takes."""
    rows, pool, redo = compute_sizes(options)
    load = SysbenchOltp(tables=TABLES, rows=rows, distribution="uniform")
    most = 240.0 if options.minutes is None and not options.quick else 1e9
    seconds = int(
        max(SECONDS[0], min(SECONDS[1], most, options.time_s - estimate_loading_s(data_gib(options)) - SERVER_CELL_S))
    )
    of = model.get_gp2_limits(GIB_OF_VOLUME)
    spent = (model.get_bucket(GIB_OF_VOLUME)["iops"] - of["iops"]) * BURST_SHARE * seconds
    settings = {
        "innodb_buffer_pool_size": f"{pool}M",
        "innodb_log_file_size": f"{redo}M",
    } | COLD_POOL
    place = OnServer(
        DataSet("sbtest", load, data_gib(options)), STORAGE, settings, balance_percent=round(100.0 * spent / CREDITS, 4)
    )
    return [
        Cell(
            ("dry",),
            f"oltp_read_write on {STORAGE} with {spent:,.0f} credits, {THREADS} threads",
            place,
            load,
            THREADS,
            0,
            seconds,
            options.seed,
        )
    ]


def find_dry_s(rows: pl.DataFrame) -> float | None:
    """Returns when the balance first was practically empty, s."""
    if "balance_percent" not in rows.columns or not rows["balance_percent"].drop_nulls().len():
        return None
    least = MOSTLY_DRY * max(rows["balance_percent"].drop_nulls())
    empty = rows.filter(pl.col("balance_percent") <= least)["t_s"]
    return float(empty[0]) if empty.len() else None


@dataclass(frozen=True)
class Phase:
    """The burst, or the time after it: means, and the p95 of the median second. `queue`: not
    simulated."""

    seconds: int
    tps: float
    p95_ms: float
    iops: float
    queue: float | None


def split_phases(rows: pl.DataFrame, dry: float | None) -> tuple[Phase | None, Phase | None]:
    """Returns the burst and the baseline, without the edges; None for a phase without rows."""
    if dry is None:
        return _average_phase(rows), None
    before = (pl.col("t_s") >= FIRST_S) & (pl.col("t_s") < dry - 1)
    return _average_phase(rows.filter(before)), _average_phase(rows.filter(pl.col("t_s") >= dry + EDGE_S))


def _average_phase(part: pl.DataFrame) -> Phase | None:
    """Averages a phase: tps, p95 in ms (median of the seconds), IOPS and queue; None where it has
    no rows."""
    if not part.height:
        return None
    queue = statistics.fmean(part["queue"].drop_nulls()) if "queue" in part.columns else None
    p95_ms = float(statistics.median(part["p95_ms"].drop_nulls().to_list()))
    return Phase(
        part.height,
        statistics.fmean(part["tps"].drop_nulls()),
        p95_ms,
        statistics.fmean(_get_iops(part).drop_nulls()),
        queue,
    )


def _get_iops(part: pl.DataFrame) -> pl.Series:
    return part["iops"] if "iops" in part.columns else part["read_iops"] + part["write_iops"]


def judge(session: Session, measured: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> Judgement:
    """Judges when the volume ran dry and what remained of throughput, latency and IOPS, and draws
    the four curves."""
    measurement, prediction = measured["dry",], simulated["dry",]
    series = measurement.select_measured()
    dry, simulated_dry = find_dry_s(series), find_dry_s(prediction.rows)
    rows, pool, redo = compute_sizes(session.options)
    values = {
        "storage": STORAGE,
        "iops": model.get_gp2_limits(GIB_OF_VOLUME)["iops"],
        "all_credits": round(CREDITS),
        "credits": _compute_credits(measurement),
        "threads": THREADS,
        "tables": TABLES,
        "rows": rows,
        "pool_mib": pool,
        "redo_mib": redo,
        "scale": session.options.choose_scale(AUTO_SCALE),
    }
    parts = split_phases(series, dry), split_phases(prediction.rows, simulated_dry)
    burst, after = parts[0]
    if dry is None or burst is None or after is None or burst.seconds < 2 or after.seconds < 2:
        verdicts = [_judge_never_dry(series, dry)]
    else:
        verdicts = [_judge_when_dry(measurement, series, dry, simulated_dry), *_judge_falls(burst, after, *parts[1])]
    charts = [_draw_chart(measurement, series, prediction)]
    return Judgement(verdicts, charts, values, [_tabulate_phases(*parts)])


def _compute_credits(measurement: MeasuredCell) -> float:
    return CREDITS * (measurement.cell.place.balance_percent or 0.0) / 100.0


def _compute_formula_s(measurement: MeasuredCell) -> float:
    return _compute_credits(measurement) / (
        model.get_bucket(GIB_OF_VOLUME)["iops"] - model.get_gp2_limits(GIB_OF_VOLUME)["iops"]
    )


def _judge_never_dry(series: pl.DataFrame, dry: float | None) -> base.Verdict:
    """Returns the failed verdict of a run that has no rows before or no rows after its credits end.
    `dry`: when they end, s; None: never."""
    answer = "no row without credits"
    if dry is not None:
        answer = f"dry at {dry:.0f} s of {series['t_s'][-1]:.0f}: too little on one side"
    note = "the load took too few I/Os, or too many: give it other --minutes"
    return base.judge_answers("the volume runs dry in the run", "it does", answer, SOURCE, False, note)


def _judge_when_dry(
    measurement: MeasuredCell, series: pl.DataFrame, dry: float, simulated_dry: float | None
) -> base.Verdict:
    """Judges the moment at which the balance is empty. A load that takes less than 3,000 IOPS lasts
    longer; only the saved second makes it shorter."""
    spent = statistics.fmean(_get_iops(series.filter(pl.col("t_s") < dry)).drop_nulls())
    formula = _compute_formula_s(measurement)
    latest = _compute_credits(measurement) / max(1.0, spent - model.get_gp2_limits(GIB_OF_VOLUME)["iops"])
    low, high = formula - SAVED_S - ROW_S, max(formula, 1.05 * latest) + 2 * ROW_S
    note = f"allowed {low:.0f} to {high:.0f}: the formula less the saved second, to what {spent:,.0f} IOPS measured until then take"
    return base.judge(
        "the balance is gone after", formula, dry, "s", low <= dry <= high, SOURCE, note, simulated=simulated_dry
    )


def _judge_falls(burst: Phase, after: Phase, sim_burst: Phase | None, sim_after: Phase | None) -> list[base.Verdict]:
    """Judges what remains of throughput, IOPS and latency without credits."""
    of = model.get_gp2_limits(GIB_OF_VOLUME)
    caps = model.get_bucket(GIB_OF_VOLUME)["iops"] / of["iops"]
    fall, sim_fall, sim_baseline, sim_slower = burst.tps / after.tps, None, None, None
    if sim_burst is not None and sim_after is not None:
        sim_fall, sim_baseline = sim_burst.tps / sim_after.tps, sim_after.iops
        sim_slower = sim_after.p95_ms / sim_burst.p95_ms
    # A database that writes pages back whatever its load falls further than its IOPS; the
    # simulation knows by how much.
    deepest = SCATTER * max(caps, sim_fall or 0.0)
    why = f"the ratio of the caps or what is simulated, and 15 % for the seconds' scatter at {after.tps:.0f} tps"
    merging = "the lab holds its cap to 0.5 %; requests that merge on the way count once there and more often here"
    baseline = base.compare(
        "IOPS without credits", base.Figure(float(of["iops"]), "IOPS", SOURCE), after.iops, 10.0, merging
    )
    slower = after.p95_ms / burst.p95_ms
    return [
        base.judge(
            "throughput in the burst over that without credits",
            caps,
            fall,
            "times",
            CLEAR <= fall <= deepest,
            SOURCE,
            f"allowed {CLEAR:g} to {deepest:.1f}: {why}",
            simulated=sim_fall,
        ),
        replace(baseline, simulated=sim_baseline),
        base.judge(
            "p95 of a transaction without credits over that in the burst",
            "higher",
            slower,
            "times",
            slower > CLEAR,
            SOURCE,
            "median over seconds",
            simulated=sim_slower,
        ),
        base.judge_answers(
            "the queue of the volume grows",
            "requests wait",
            f"{burst.queue or 0.0:.1f} in the burst, {after.queue or 0.0:.1f} after",
            SOURCE,
            None,
            f"never more than {THREADS} clients and the server's own writers make",
        ),
    ]


def _tabulate_phases(*both: tuple[Phase | None, Phase | None]) -> base.StudyTable:
    """Tabulates burst and baseline, measured and then simulated; a phase that is None has no
    row."""
    rows = [
        (
            name,
            words,
            part.seconds,
            round(part.tps, 1),
            round(part.p95_ms, 1),
            round(part.iops),
            part.queue and round(part.queue, 1),
        )
        for name, parts in zip(("measured", "simulated"), both, strict=True)
        for words, part in zip(("burst", "no credits"), parts, strict=True)
        if part is not None
    ]
    return base.tabulate("Before and after", " | phase | n (s) | tps | p95 ms (median second) | IOPS | queue", rows)


def _draw_chart(measurement: MeasuredCell, series: pl.DataFrame, prediction: SimulatedCell) -> base.ChartData:
    """Draws tps, p95 in ms, queue and burst balance in percent over the seconds of the run."""
    x, sx = tuple(series["t_s"]), tuple(prediction.rows["t_s"])
    start, formula = measurement.cell.place.balance_percent or 0.0, _compute_formula_s(measurement)

    def draw_panel(
        title: str, unit: str, measured: str, simulated: str | None, more: tuple[base.ChartSeries, ...] = ()
    ) -> base.ChartData:
        lines = [*more]
        if simulated is not None:
            lines.append(base.ChartSeries("simulated", "simulated", sx, tuple(prediction.rows[simulated])))
        if measured in series.columns:
            lines.append(base.ChartSeries("measured", "measured", x, tuple(series[measured])))
        return base.ChartData(title, "line", "", unit, tuple(lines))

    expected = base.ChartSeries("published", "published", (0.0, formula, max(x)), (start, 0.0, 0.0))
    panels = (
        draw_panel("Throughput", "tps", "tps", "tps"),
        draw_panel("Latency: 95 % of transactions", "ms", "p95_ms", "p95_ms"),
        draw_panel("Queue of the volume", "requests", "queue", None),
        draw_panel(
            "Burst balance", f"% of {CREDITS / 1e6:g} million", "balance_percent", "balance_percent", (expected,)
        ),
    )
    return base.ChartData(f"{STORAGE} runs dry under OLTP", "panels", "time since the start (s)", "", (), panels)
