"""sysbench-tpcc of 5,000 warehouses over gp2 by size and io1 by IOPS: what more IOPS buy InnoDB and
MyRocks.

Each engine's database was calibrated on one hour at 20,000 IOPS (calibrated/); every other run
whose figures are known is a test.
"""

from __future__ import annotations

import math
import statistics

from headrace.base import core
from headrace.base.units import HOURS_PER_MONTH, format_percent
from headrace.simulation.database import Prediction
from headrace.studies import base
from headrace.studies.base import ChartSeries
from headrace.studies.tpcc_runs import (
    DAY,
    ENGINES,
    GIB_PER_GB,
    INSTANCE,
    SECONDS,
    TpccRun,
    calibrate_engine,
    list_measured_runs,
    predict_hour,
    run_again,
)

STUDY = base.read_study("scaling_2018")
ARTICLE = STUDY.sources[0]

# Sizes of the article: gp2 in steps of 100 GB (InnoDB's 500 GB do not fit below 1,000), io1 of 1 TB
# in steps of 1,000 IOPS.
GP2_GIB = {"innodb": range(1_000, 3_401, 100), "myrocks": range(500, 3_401, 100)}
IO1_IOPS = range(1_000, 30_001, 1_000)
LARGEST = {"gp2": 3_400, "io1": 30_000}
# Bars of this project for a calibration on one long run: median and 90th percentile of the error of
# means of the second half.
BARS = {"innodb": (3.0, 8.0), "myrocks": (1.5, 4.0)}
# "Does not improve": nothing a reader sees in a density plot. One-second tps spread by 5-6 %; their
# means over half an hour by 2 %.
NO_BETTER = 0.02
# The bar for a plateau is 3 %; a size read in steps of 100 GB is known to half a step, 1.9 % of
# 2,600.
KNEE_TOLERANCE_PERCENT = 4.9
# Share of variance a straight line must explain to be called linear.
LINEAR = 0.98
# From this size on a gp2 volume always has its 3,000 IOPS; smaller volumes burst for a part of the
# hour.
NO_CREDITS_GIB = 1_000
DENSITY_SIZES = {"gp2": range(1_000, 3_401, 400), "io1": (1_000, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000)}
RIDGE_POINTS = 60  # a smooth line at the size of the chart


def _predict_all(steps: base.StepProgress) -> dict[tuple[str, str], dict[int, Prediction]]:
    """Predicts every volume of the article: by engine and volume type, then by GiB or IOPS."""
    runs = {}
    for engine in ENGINES:
        for kind, points in (("gp2", GP2_GIB[engine]), ("io1", IO1_IOPS)):
            # A seed for each: two runs on one would scatter in step.
            runs[engine, kind] = {
                point: predict_hour(engine, write_storage(kind, point), seed=point + len(runs)) for point in points
            }
            steps.step()
    return runs


def write_storage(kind: str, point: int) -> str:
    """Returns gp2 of `point` GiB, or io1 of 1 TiB with `point` IOPS."""
    return f"gp2:{point}" if kind == "gp2" else f"io1:1024:{point}"


def compute_width(run: Prediction) -> float:
    """Returns the span of one-second tps from the 5th to the 95th percentile of the second half."""
    return run.summary["tps_p95"] - run.summary["tps_p5"]


def find_knee(runs: dict[int, Prediction]) -> float:
    """Returns the smallest size beyond which no larger one has more tps by `NO_BETTER`,
    interpolated between sizes."""
    sizes = list(runs)
    enough = runs[sizes[-1]].summary["tps"] / (1.0 + NO_BETTER)
    for below, above in zip(sizes, sizes[1:], strict=False):
        low, high = runs[below].summary["tps"], runs[above].summary["tps"]
        if low < enough <= high:
            return below + (above - below) * (enough - low) / (high - low)
    return float(sizes[0])


def compute_linearity(runs: dict[int, Prediction]) -> float:
    """Returns the share of the variance of tps that a straight line explains, over sizes that do
    not live on credits."""
    of = {size: run.summary["tps"] for size, run in runs.items() if size >= NO_CREDITS_GIB}
    return statistics.correlation(list(of), list(of.values())) ** 2


def _compute_relative_width(engine: str) -> float:
    """Returns the published span of one-second tps, 5th to 95th percentile, over their mean."""
    run = next(run for run in list_measured_runs() if run.engine == engine and run.calibrates)
    return (run.p95 - run.p5) / run.mean


def _judge_runs(steps: base.StepProgress) -> tuple[list[base.Verdict], base.StudyTable]:
    """Predicts the measured runs again; returns verdicts and the table of tps, errors in percent
    and quantiles."""
    verdicts, rows = [], []
    errors: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for run in list_measured_runs():
        prediction = run_again(run, draws=24)
        steps.step()
        figure = base.Figure(run.mean, "tps", run.source)
        note = f"80 % interval {prediction.summary['tps_low']:.0f} to {prediction.summary['tps_high']:.0f}"
        if run.calibrates:
            note = "the calibration itself: no test"
        if run.cache_known != "published":
            note += f"; cache {run.cache_known}"
        limit = None if run.calibrates else BARS[run.engine][1]
        verdicts.append(
            base.compare(f"mean of the second half: {run.label}", figure, prediction.summary["tps"], limit, note)
        )
        rows.append(_make_row(run, prediction))
        if not run.calibrates:
            errors[run.engine].append(abs(base.compute_error_percent(prediction.summary["tps"], run.mean)))
    for engine, values in errors.items():
        middle, limit = statistics.median(values), BARS[engine][0]
        answer = f"{middle:.1f} % of {len(values)} runs, worst {max(values):.1f} %"
        what, bar = (
            f"{ENGINES[engine]}, runs not calibrated on: median error",
            f"at most {limit:g} % (this project's bar)",
        )
        verdicts.append(base.judge_answers(what, bar, answer, ARTICLE, middle <= limit))
    names = (
        "run | use | mean | ours | error % | Q1 error % | Q2 error % | Q3 error % | Q4 error % | p5 | ours p5 | "
        "p50 | ours p50 | p95 | ours p95"
    )
    title = "Published runs and ours: tps; quarters of the hour, quantiles of one-second tps in the second half"
    return verdicts, base.tabulate(title, names, rows)


def _make_row(run: TpccRun, prediction: Prediction) -> tuple:
    """Returns the row of a measured run: tps of mean, quarters and quantiles, published and ours,
    errors in percent."""
    summary = prediction.summary
    pairs = [(summary["tps"], run.mean), *zip(summary["quarters"], run.quarters, strict=True)]
    errors = (round(base.compute_error_percent(mine, published), 1) for mine, published in pairs)
    quantiles = (run.p5, summary["tps_p5"], run.p50, summary["tps_p50"], run.p95, summary["tps_p95"])
    use = "calibration" if run.calibrates else "test"
    return (run.label, use, round(run.mean), round(summary["tps"]), *errors, *map(round, quantiles))


def _judge_article(runs: dict) -> list[base.Verdict]:
    """Judges what the article says of growth, knee and variance. `runs`: by engine and volume type,
    predictions by GiB (gp2) or IOPS (io1)."""
    published = base.read_figures("scaling_2018")
    inno, rocks = runs["innodb", "gp2"], runs["myrocks", "gp2"]
    stops = find_knee(inno)
    bound = max(inno[3_400].summary["caps"], key=inno[3_400].summary["caps"].get)
    straight, gain = compute_linearity(rocks), rocks[3_400].summary["tps"] / rocks[2_600].summary["tps"] - 1.0
    answer = (
        f"a line explains {format_percent(straight, 1)}; {format_percent(gain, 0, sign='+')} from 2,600 to 3,400 GB"
    )
    linear, smaller = straight >= LINEAR and gain > NO_BETTER, "from 1,000 GB on; smaller ones burst"
    why = f"within {format_percent(NO_BETTER)} of 3,400 GB; {bound} binds there"
    published_knee = published["innodb_gp2_knee_gib"]
    line = "MyRocks on gp2 grows along a straight line"
    verdicts = [
        base.compare("InnoDB no better from this gp2 size on", published_knee, stops, KNEE_TOLERANCE_PERCENT, why),
        base.judge_answers(line, "continues to scale linearly", answer, ARTICLE, linear, smaller),
    ]
    for kind, point in LARGEST.items():
        predictions = {engine: runs[engine, kind][point] for engine in ENGINES}
        widths = {engine: compute_width(run) for engine, run in predictions.items()}
        answer = "; ".join(
            f"{ENGINES[engine]} {widths[engine]:.0f} tps wide ({format_percent(widths[engine] / run.summary['tps'])} of the mean)"
            for engine, run in predictions.items()
        )
        wider, how = widths["myrocks"] > widths["innodb"], "5th to 95th percentile, as a density plot shows it"
        spec = write_storage(kind, point)
        verdicts.append(
            base.judge_answers(f"MyRocks varies more on {spec}", "a lot of variance", answer, ARTICLE, wider, how)
        )
    least, most = runs["myrocks", "io1"][1_000].summary["tps"], runs["myrocks", "io1"][30_000].summary["tps"]
    growth = f"{most / least:.0f} times the tps with 30 times the IOPS"
    verdicts.append(
        base.judge_answers("MyRocks on io1 grows", "an impressive growth", growth, ARTICLE, most > 10 * least)
    )
    for size, name in ((500, "gp2_500_iops"), (1_000, "gp2_1000_iops"), (3_334, "gp2_3334_iops")):
        iops = base.get_limits(f"gp2:{size}", DAY)["iops"]
        verdicts.append(base.compare(f"baseline of gp2 {size:,} GiB", published[name], iops, 0.0, "catalog"))
    return verdicts


def _tabulate_scaling(runs: dict) -> base.StudyTable:
    """Tabulates tps, bottleneck and USD a month of every volume of the article."""
    instance = core.instance_price(INSTANCE, base.REGION, DAY)
    hourly = 0.0 if instance is None else instance["usd"]
    rows = []
    for (engine, _), sweep in runs.items():
        for run in sweep.values():
            usd, summary = base.compute_monthly_usd(run.storage, DAY), run.summary
            binds = max(summary["caps"], key=summary["caps"].get)
            both = (usd + hourly * HOURS_PER_MONTH) / summary["tps"]
            rates = (round(summary[name]) for name in ("tps", "tps_p5", "tps_p95"))
            costs = (round(usd, 2), round(usd / summary["tps"], 3), round(both, 3))
            rows.append((ENGINES[engine], run.storage, *rates, binds, *costs))
    names = f"engine | storage | tps | p5 | p95 | binds | storage USD/month | USD/month per tps | with {INSTANCE}"
    return base.tabulate("Mean of the second half, and what it costs", names, rows)


def _draw_sweeps(runs: dict) -> list[base.ChartData]:
    """Draws tps by size of gp2 (GiB) and by IOPS of io1, published runs among them."""
    published_runs = list_measured_runs()
    charts = []
    for kind, x_title in (("gp2", "size of the gp2 volume (GiB)"), ("io1", "provisioned IOPS of the io1 volume")):
        series = []
        for engine, name in ENGINES.items():
            sweep = runs[engine, kind]
            tps = tuple(run.summary["tps"] for run in sweep.values())
            series.append(ChartSeries(f"{name}, simulated", "simulated", tuple(sweep), tps))
            at = {
                _parse_point(run): run.mean
                for run in published_runs
                if run.engine == engine
                and run.storage.startswith(kind)
                and run.threads == calibrate_engine(engine).threads
            }
            if at:
                series.append(ChartSeries(f"{name}, published", "published", tuple(at), tuple(at.values())))
        title = f"Transactions a second on {kind}, mean of the second half of an hour"
        charts.append(base.ChartData(title, "curves", x_title, "tps", tuple(series)))
    return charts


def _parse_point(run: TpccRun) -> int:
    return int(run.storage.rsplit(":", 1)[1])


def estimate_density(values: list[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the relative frequency of each tps, 1 at the most frequent: normal kernels of
    Silverman's width (0.9 of the standard deviation or the quartiles' / n^0.2)."""
    ordered = sorted(values)
    n = len(ordered)
    quartiles = (ordered[(3 * n) // 4] - ordered[n // 4]) / 1.34
    width = 0.9 * max(min(statistics.stdev(ordered), quartiles or math.inf), 1e-9) / n**0.2
    low, high = max(0.0, ordered[0] - 3 * width), ordered[-1] + 3 * width
    grid = [low + (high - low) * i / (RIDGE_POINTS - 1) for i in range(RIDGE_POINTS)]
    seen = [sum(math.exp(-0.5 * ((x - value) / width) ** 2) for value in ordered) for x in grid]
    most = max(seen)
    return tuple(grid), tuple(value / most for value in seen)


def _draw_densities(runs: dict) -> list[base.ChartData]:
    """Draws how one-second tps of the second half hour are spread, by engine and volume type."""
    charts = []
    for (engine, kind), sweep in runs.items():
        series = []
        for point in DENSITY_SIZES[kind]:
            label = f"{point:,} {'GiB' if kind == 'gp2' else 'IOPS'}"
            series.append(
                ChartSeries(label, "simulated", *estimate_density(sweep[point].rows["tps"][SECONDS // 2 :].to_list()))
            )
            for run in list_measured_runs():
                if (run.engine, run.storage, run.threads) == (
                    engine,
                    write_storage(kind, point),
                    calibrate_engine(engine).threads,
                ):
                    series.append(ChartSeries(label, "published", (run.p5, run.p50, run.p95), (0.0, 0.0, 0.0)))
        spread = "how one-second tps are spread; published 5th, 50th and 95th percentile where known"
        y_title = "size" if kind == "gp2" else "provisioned IOPS"
        title = f"{ENGINES[engine]} on {kind}: {spread}"
        charts.append(base.ChartData(title, "ridge", "one-second tps", y_title, tuple(series)))
    return charts


def _draw_seconds(runs: dict) -> list[base.ChartData]:
    """Draws the tps of the second half hour on the largest volumes, second by second."""
    charts = []
    for kind, point in LARGEST.items():
        seconds = range(SECONDS // 2, SECONDS)
        minutes = tuple(second / 60.0 for second in seconds)
        series = tuple(
            ChartSeries(name, "simulated", minutes, tuple(runs[engine, kind][point].rows["tps"][SECONDS // 2 :]))
            for engine, name in ENGINES.items()
        )
        title = f"Second by second on {write_storage(kind, point)}, second half hour"
        charts.append(base.ChartData(title, "curves", "time since the cold start (min)", "tps", series))
    return charts


def _draw_costs(runs: dict) -> list[base.ChartData]:
    """Draws tps by USD a month of storage, and USD a month of a transaction a second."""
    by_tps, per_tps = [], []
    for (engine, kind), sweep in runs.items():
        name = f"{ENGINES[engine]} on {kind}"
        usd = [base.compute_monthly_usd(run.storage, DAY) for run in sweep.values()]
        tps = [run.summary["tps"] for run in sweep.values()]
        by_tps.append(ChartSeries(name, "simulated", tuple(usd), tuple(tps)))
        each = tuple(cost / rate for cost, rate in zip(usd, tps, strict=True))
        per_tps.append(ChartSeries(name, "simulated", tuple(tps), each))
    title = f"Transactions for more money ({base.REGION}, prices of {DAY}, storage alone)"
    return [
        base.ChartData(title, "curves", "storage (USD a month)", "tps", tuple(by_tps)),
        base.ChartData("Cost of a transaction a second", "curves", "tps", "USD a month per tps", tuple(per_tps)),
    ]


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Repeats the known runs, then both engines on every volume of the article."""
    steps = base.StepProgress(2 * len(ENGINES) + len(list_measured_runs()), progress)
    verdicts, runs_table = _judge_runs(steps)
    runs = _predict_all(steps)
    charts = (*_draw_sweeps(runs), *_draw_densities(runs), *_draw_seconds(runs), *_draw_costs(runs))
    gp2 = next(run for run in list_measured_runs() if run.storage == "gp2:2000")
    as_assumed = predict_hour("innodb", gp2.storage).summary["tps"]
    calibration = calibrate_engine("innodb")
    notes = base.read_notes(
        "scaling_2018",
        threads=calibration.threads,
        cache_gb=gp2.cache_gb,
        assumed_gib=54 * GIB_PER_GB,
        tps=as_assumed,
        error_percent=base.compute_error_percent(as_assumed, gp2.mean),
        myrocks_width=_compute_relative_width("myrocks"),
        innodb_width=_compute_relative_width("innodb"),
    )
    return base.StudyResult(
        STUDY,
        (*verdicts, *_judge_article(runs)),
        (runs_table, _tabulate_scaling(runs)),
        charts,
        notes,
    )
