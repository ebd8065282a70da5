"""An encrypted io1 volume and a plain one under the same load, as the paper compares them."""

from __future__ import annotations

from headrace.base.units import format_percent
from headrace.bench import SysbenchOltp
from headrace.experiment.cell import SERVER_CELL_S, Cell, DataSet, OnServer, compute_seconds_each
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SimulatedCell
from headrace.studies import base
from headrace.studies import whitepaper_2017 as model
from headrace.studies.measured import tables, verdicts
from headrace.studies.measured.session import (
    DIRECT_COLD_POOL,
    Judgement,
    LabOptions,
    Session,
    compute_rows_gib,
    estimate_loading_s,
)

# Encryption of a volume costs the model nothing, so this one runs on the lab alone.
WORDS = "encryption"
STUDY = base.read_study(WORDS)
DAY = model.DAY
ENGINES = ("innodb",)

STORAGE = "io1:500:5000"
AUTO_SCALE = 1 / 20  # of one of the paper's tables; a guess
THREADS = 32  # a guess: enough to keep two processors busy
SECONDS, WARMUP_S = (10, 90), 5  # guesses
# Half of the table fits: pages are decrypted when they are read and encrypted when they are
# written, so both are part of it.
POOL_SHARE = 0.5
# "No discernable difference" of two runs an hour long; a twentieth is what a reader of the paper's
# bars could not tell.
ALIKE = 0.05
SETTINGS = DIRECT_COLD_POOL | {"innodb_log_file_size": "128M"}
KINDS = ("plain", "encrypted")
# Each twice at least, turn and turn about: what a machine does over minutes must not be taken for
# encryption.
TURNS = {"quick": ("plain", "encrypted"), "usual": ("plain", "encrypted", "encrypted", "plain", "plain", "encrypted")}


def count_rows(options: LabOptions) -> int:
    """Returns the rows of the single table."""
    return max(10_000, round(model.ROWS * options.choose_scale(AUTO_SCALE)))


def data_gib(options: LabOptions) -> float:
    """Returns the size of the table, GiB."""
    return compute_rows_gib(count_rows(options))


def cells(options: LabOptions) -> list[Cell]:
    """Returns plain and encrypted runs by turns."""
    turns = TURNS["quick" if options.quick else "usual"]
    rows = count_rows(options)
    load = SysbenchOltp(tables=1, rows=rows, distribution="uniform")
    pool = max(8, round(POOL_SHARE * data_gib(options) * 1024))
    seconds = compute_seconds_each(
        options.time_s, estimate_loading_s(data_gib(options)), len(turns), SERVER_CELL_S + WARMUP_S, *SECONDS
    )
    all_cells = []
    for turn, kind in enumerate(turns):
        data = DataSet("sbtest", load, data_gib(options))
        place = OnServer(
            data, STORAGE, SETTINGS | {"innodb_buffer_pool_size": f"{pool}M"}, encrypted=kind == "encrypted"
        )
        number = turns[: turn + 1].count(kind)
        words, seed = f"{kind}, turn {number}", options.seed + number - 1
        all_cells.append(Cell((kind, number), words, place, load, THREADS, WARMUP_S, seconds, seed))
    return all_cells


def judge(session: Session, measured: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> Judgement:
    """Compares the means of the turns."""
    plain, hidden = ([measurement for key, measurement in measured.items() if key[0] == kind] for kind in KINDS)
    means = {
        kind: sum(measurement.tps for measurement in runs) / len(runs)
        for kind, runs in (("plain", plain), ("encrypted", hidden))
    }
    ratio = means["encrypted"] / means["plain"]
    doubt = verdicts.compute_doubt(*measured.values()) / len(plain) ** 0.5
    apart = f"{format_percent(ratio - 1.0, 1, sign='+')} (doubt {format_percent(doubt, 1)})"
    all_verdicts = [
        base.judge_answers(
            "an encrypted io1 volume against a plain one",
            "no discernable difference",
            apart,
            model.PAPER,
            abs(ratio - 1.0) <= ALIKE + doubt,
            f"alike within {format_percent(ALIKE)} and doubt; the lab encrypts on this machine's processors, EBS outside the instance",
        )
    ]
    what = "the simulation (which knows no encryption) against what was measured"
    all_verdicts.append(verdicts.compare_with_model(simulated, measured, model.PAPER, what=what))
    rows = []
    for measurement in measured.values():
        idle = (measurement.record.summary.get(name) for name in ("p95_ms", "idle_cpus"))
        rows.append((measurement.cell.words, round(measurement.tps, 1), round(100 * measurement.relative, 1), *idle))
    repeats = base.tabulate("Turn and turn about", "turn | tps | ± % (1 s.e.) | p95 ms | idle processors", rows)
    values = {
        "published_rows": model.ROWS,
        "rows": count_rows(session.options),
        "scale": count_rows(session.options) / model.ROWS,
        "pool": next(iter(measured.values())).cell.server.settings["innodb_buffer_pool_size"],
        "storage": STORAGE,
        "threads": THREADS,
    }
    notes = []
    if len(plain) > 1:
        notes.append(
            f"Repetitions on the plain volume differ by {format_percent(_compute_spread(plain), 1)}, on the encrypted one by "
            f"{format_percent(_compute_spread(hidden), 1)} (largest over smallest)."
        )
    return Judgement(all_verdicts, _draw_charts(measured, simulated), values, [repeats], notes)


def _compute_spread(runs: list[MeasuredCell]) -> float:
    return max(run.tps for run in runs) / min(run.tps for run in runs) - 1.0


def _draw_charts(measured: dict, simulated: dict) -> list[base.ChartData]:
    """Draws tps of the plain and the encrypted volume: published, by turn, and second by second."""
    names = ("io1, plain", "io1, encrypted")
    published = base.make_role_series(names, published=(model.ALIKE_TPS, model.ALIKE_TPS))
    turns = tuple(measurement.cell.words for measurement in measured.values())
    series = tables.make_tps_series(turns, measured, measured, simulated)
    seconds = [
        base.ChartSeries(kind, "measured", tuple(part["t_s"] - part["t_s"][0]), tuple(part["tps"]))
        for kind in KINDS
        if (kind, 1) in measured
        for part in (measured[kind, 1].select_measured(),)
    ]
    return [
        base.ChartData("The paper's volumes: about the same", "bar", "", "tps", published),
        base.ChartData(f"{STORAGE}, encrypted and not, turn and turn about", "bar", "", "tps", series),
        base.ChartData("Second by second, first turns", "curves", "time (s)", "tps", tuple(seconds)),
    ]
