"""gp2 running dry under OLTP: throughput, latency, queue and balance of one run on one time axis."""

from __future__ import annotations

import statistics

import polars as pl

from headrace.base.units import GIB
from headrace.bench import SysbenchOltp
from headrace.experiment.cell import SERVER_CELL_S, Cell, DataSet, OnServer
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SimulatedCell
from headrace.studies import base
from headrace.studies import gp2_burst as model
from headrace.studies.base import ChartData, ChartSeries, StudyResult, StudyTable, Verdict, agree, error_percent
from headrace.studies.measured import tables
from headrace.studies.measured.session import LabOptions, Session

STUDY = model.STUDY
DAY = model.AS_OF
ENGINES = ("innodb",)
FILES_ONLY = False

GIB_OF_VOLUME = 100  # 300 IOPS: a tenth of the burst
STORAGE = f"gp2:{GIB_OF_VOLUME}"
# No size is published for OLTP; the database need only miss its pool: 12 million rows in a pool a
# twelfth of them, cut by `scale`.
ROWS, TABLES, POOL_MIB, REDO_MIB = 12_000_000, 4, 256, 256
AUTO_SCALE, LEAST_POOL_MIB, LEAST_REDO_MIB = 1 / 12, 16, 32  # guesses; the server takes no less
THREADS = 16  # enough to take 3,000 IOPS
CREDITS = 5_400_000  # AWS's
# Of the run, at full speed; the rest is long enough to see the baseline.
BURST_SHARE = 0.4
SECONDS = (60, 600)  # least and most (guesses)
# Around the moment itself rows are of both kinds, and the first ones fill the pool.
EDGE_S, FIRST_S = 5, 10
# The balance is known to a millionth; whole seconds are what a row knows.
ROW_S = 1.0
MOSTLY_DRY = 1e-3  # of the balance at the start


def scale_of(options: LabOptions) -> float:
    """Rows and pool against `ROWS`."""
    return options.scale or AUTO_SCALE


def sizes(options: LabOptions) -> tuple[int, int, int]:
    """(rows of each table, pool MiB, redo MiB)."""
    scale = scale_of(options)
    return (
        max(1_000, round(ROWS * scale / TABLES)),
        max(LEAST_POOL_MIB, round(POOL_MIB * scale)),
        max(LEAST_REDO_MIB, round(REDO_MIB * scale)),
    )


def data_gib(options: LabOptions) -> float:
    """Of the tables."""
    return TABLES * sizes(options)[0] * 250 / GIB


def cells(options: LabOptions) -> list[Cell]:
    """One run, from a bucket that holds as much as `BURST_SHARE` of it takes."""
    rows, pool, redo = sizes(options)
    load = SysbenchOltp(tables=TABLES, rows=rows, distribution="uniform")
    most = 240.0 if options.minutes is None and not options.quick else 1e9
    seconds = int(max(SECONDS[0], min(SECONDS[1], most, options.time_s - 40.0 - 60.0 * data_gib(options) - SERVER_CELL_S)))
    of = model.limits(GIB_OF_VOLUME)
    spent = (of["io_burst"]["iops"] - of["iops"]) * BURST_SHARE * seconds
    settings = {
        "innodb_buffer_pool_size": f"{pool}M",
        "innodb_log_file_size": f"{redo}M",
        "innodb_buffer_pool_load_at_startup": "OFF",
    }
    place = OnServer(DataSet("sbtest", load, data_gib(options)), STORAGE, settings, balance_percent=round(100.0 * spent / CREDITS, 4))
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


def dry_at(balances: list[float | None], times: list[float]) -> float | None:
    """When a balance (percent) first was as good as nothing, s."""
    return next(
        (
            t
            for t, balance in zip(times, balances, strict=True)
            if balance is not None and balance <= MOSTLY_DRY * max(b for b in balances if b is not None)
        ),
        None,
    )


def phases(rows: pl.DataFrame, dry: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of the burst and of the baseline, the edges left out."""
    return rows.filter((pl.col("t_s") >= FIRST_S) & (pl.col("t_s") < dry - 1)), rows.filter(pl.col("t_s") >= dry + EDGE_S)


def result(session: Session, found: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> StudyResult:
    """When it ran dry, what was left of throughput, latency and IOPS, and the four curves."""
    one, ours = found["dry",], simulated["dry",]
    series = one.measured()
    balance = series["balance_percent"].to_list() if "balance_percent" in series.columns else [None] * series.height
    dry, theirs = (
        dry_at(balance, series["t_s"].to_list()),
        dry_at(ours.rows["balance_percent"].to_list(), ours.rows["t_s"].to_list()),
    )
    made = _verdicts(one, series, ours, dry, theirs)
    rows, pool, redo = sizes(session.options)
    scale = tables.scale(
        "burst_oltp",
        storage=STORAGE,
        iops=model.limits(GIB_OF_VOLUME)["iops"],
        all_credits=CREDITS,
        credits=CREDITS * (one.cell.place.balance_percent or 0) / 100,
        threads=THREADS,
        tables=TABLES,
        rows=rows,
        pool_mib=pool,
        redo_mib=redo,
        scale=scale_of(session.options),
    )
    notes = [*base.texts("burst_oltp")]
    return session.result(
        STUDY,
        made,
        [scale, _table(series, ours, dry, theirs), tables.runs(found, simulated)],
        [_chart(one, series, ours)],
        notes,
        found,
    )


def _formula(one: MeasuredCell) -> float:
    of = model.limits(GIB_OF_VOLUME)
    return CREDITS * (one.cell.place.balance_percent or 0.0) / 100.0 / (of["io_burst"]["iops"] - of["iops"])


def _verdicts(one: MeasuredCell, series: pl.DataFrame, ours: SimulatedCell, dry: float | None, theirs: float | None) -> list[Verdict]:
    source = STUDY.sources[1]
    if dry is None or dry + EDGE_S + 2 >= series["t_s"][-1] or dry < FIRST_S + 3:
        why = "no row without credits" if dry is None else f"dry at {dry:.0f} s of {series['t_s'][-1]:.0f}: too little on one side"
        return [
            agree(
                "the volume runs dry in the run",
                "it does",
                why,
                source,
                False,
                "the load took too few I/Os, or too many: give it other --minutes",
            )
        ]
    of = model.limits(GIB_OF_VOLUME)
    burst, base = phases(series, dry)
    sim_burst, sim_base = phases(ours.rows, theirs) if theirs is not None else (None, None)
    iops = (burst["read_iops"] + burst["write_iops"]).mean()
    formula = _formula(one)
    # A load that takes less than 3,000 lasts longer, never shorter but for the second of tokens a
    # rested volume has saved.
    latest = (
        CREDITS
        * one.cell.place.balance_percent
        / 100.0
        / max(
            1.0,
            (series.filter(pl.col("t_s") < dry)["read_iops"] + series.filter(pl.col("t_s") < dry)["write_iops"]).mean() - of["iops"],
        )
    )
    low, high = formula - 1.2 - ROW_S, max(formula, 1.05 * latest) + 2 * ROW_S
    made = [
        Verdict(
            "the balance is gone after",
            formula,
            dry,
            "s",
            error_percent(dry, formula),
            low <= dry <= high,
            None,
            source,
            (f"allowed {low:.0f} to {high:.0f}: the formula less the saved second, to what {iops:,.0f} IOPS measured in the burst take"),
            theirs,
        )
    ]
    caps = of["io_burst"]["iops"] / of["iops"]
    fall, sim_fall = (
        burst["tps"].mean() / base["tps"].mean(),
        None if sim_burst is None else sim_burst["tps"].mean() / sim_base["tps"].mean(),
    )
    # A database that writes pages back whatever its load falls further than its IOPS; the
    # simulation knows by how much.
    deepest = 1.15 * max(caps, sim_fall or 0.0)
    made.append(
        Verdict(
            ("throughput in the burst over that without credits"),
            caps,
            fall,
            "times",
            error_percent(fall, caps),
            1.5 <= fall <= deepest,
            None,
            source,
            (
                f"allowed 1.5 to {deepest:.1f}: the ratio of the caps or what is simulated, and 15 % "
                f"for the seconds' scatter at {base['tps'].mean():.0f} tps"
            ),
            sim_fall,
        )
    )
    left = (base["read_iops"] + base["write_iops"]).mean()
    sim_left = None if sim_base is None else sim_base["iops"].mean()
    off = abs(error_percent(left, of["iops"]))
    made.append(
        Verdict(
            "IOPS without credits",
            float(of["iops"]),
            left,
            "IOPS",
            error_percent(left, of["iops"]),
            off <= 10.0,
            10.0,
            source,
            ("the lab holds its cap to 0.5 %; requests that merge on the way count once there and more often here"),
            sim_left,
        )
    )
    slower = _middle(base["p95_ms"]) / _middle(burst["p95_ms"])
    sim_slower = None if sim_burst is None else _middle(sim_base["p95_ms"]) / _middle(sim_burst["p95_ms"])
    made.append(
        Verdict(
            "p95 of a transaction without credits over that in the burst",
            "higher",
            slower,
            "times",
            None,
            slower > 1.5,
            None,
            source,
            "median over seconds",
            sim_slower,
        )
    )
    queues = burst["queue"].mean(), base["queue"].mean()
    made.append(
        agree(
            "the queue of the volume grows",
            "requests wait",
            f"{queues[0]:.1f} in the burst, {queues[1]:.1f} after",
            source,
            None,
            f"never more than {THREADS} clients and the server's own writers make",
        )
    )
    return made


def _middle(values: pl.Series) -> float:
    return float(statistics.median(values.drop_nulls().to_list()))


def _table(series: pl.DataFrame, ours: SimulatedCell, dry: float | None, theirs: float | None) -> StudyTable:
    rows = []
    for name, frame, at in (("measured", series, dry), ("simulated", ours.rows, theirs)):
        for phase, part in zip(("burst", "no credits"), phases(frame, at) if at is not None else (frame, frame[:0]), strict=True):
            if not part.height:
                continue
            iops = part["iops"].mean() if "iops" in part.columns else (part["read_iops"] + part["write_iops"]).mean()
            queue = round(part["queue"].mean(), 1) if "queue" in part.columns else None
            rows.append(
                (
                    name,
                    phase,
                    part.height,
                    round(part["tps"].mean(), 1),
                    round(_middle(part["p95_ms"]), 1),
                    round(iops),
                    queue,
                )
            )
    return StudyTable("Before and after", ("", "phase", "n (s)", "tps", "p95 ms (median second)", "IOPS", "queue"), tuple(rows))


def _chart(one: MeasuredCell, series: pl.DataFrame, ours: SimulatedCell) -> ChartData:
    x, sx = tuple(series["t_s"]), tuple(ours.rows["t_s"])
    start, formula = one.cell.place.balance_percent or 0.0, _formula(one)

    def panel(title: str, unit: str, measured: str, simulated: str | None, more: tuple[ChartSeries, ...] = ()) -> ChartData:
        lines = [*more]
        if simulated is not None:
            lines.append(ChartSeries("simulated", "simulated", sx, tuple(ours.rows[simulated])))
        if measured in series.columns:
            lines.append(ChartSeries("measured", "measured", x, tuple(series[measured])))
        return ChartData(title, "line", "", unit, tuple(lines))

    said = ChartSeries("published", "published", (0.0, formula, max(x)), (start, 0.0, 0.0))
    panels = (
        panel("Throughput", "tps", "tps", "tps"),
        panel("Latency: 95 % of transactions", "ms", "p95_ms", "p95_ms"),
        panel("Queue of the volume", "requests", "queue", None),
        panel("Burst balance", f"% of {CREDITS / 1e6:g} million", "balance_percent", "balance_percent", (said,)),
    )
    return ChartData(f"{STORAGE} runs dry under OLTP", "panels", "time since the start (s)", "", (), panels)
