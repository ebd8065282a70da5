"""Compares a run with its prediction, and scores calibrations on runs they were not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.calibration.from_runs import calibrate, check_distinct
from headrace.calibration.runs import Run
from headrace.errors import InputError
from headrace.simulation.database import Prediction, predict, summarise
from headrace.workload.server import SourceServer
from headrace.workload.transactions import TransactionWorkload


@dataclass(frozen=True)
class ComparedRun:
    """A run and its prediction.

    `figures`: rows of `what`, `unit`, `measured`, `predicted`, `error_percent` (None for seconds of
    stalls and missing figures). `measured`: the run's summary. `predicted_rows`: the prediction in
    the run's intervals (`t_s`, `tps`, `p95_ms`), of which the "one-second" figures are.
    """

    run: Run
    prediction: Prediction
    measured: dict
    figures: tuple[dict, ...]
    predicted_rows: pl.DataFrame

    def get_error_percent(self, what: str) -> float:
        """Returns the error of one figure, by its name."""
        return next(row["error_percent"] for row in self.figures if row["what"] == what)

    def to_document(self, workload: TransactionWorkload) -> dict:
        """Returns what `headrace compare-run --output json` prints, with the name of the workload
        that made the prediction."""
        named = {"run": self.run.name, "workload": workload.name}
        answer = {"figures": list(self.figures), "warnings": list(self.prediction.warnings)}
        return {"schema": "headrace-comparison/1"} | named | answer


def compare_run(run: Run, workload: TransactionWorkload, *, seed: int = 1, draws: int = 24) -> ComparedRun:
    """Returns a run with the prediction of `workload` on the run's storage, cache, clients and
    start, in `draws` draws from `seed`. Raises InputError for a run of another engine."""
    if run.engine != workload.engine:
        hint = "Compare runs of one engine."
        raise InputError(f"{run.name}: engine = {run.engine}", f"the workload is of {workload.engine}", "", hint)
    prediction = predict(
        workload,
        run.storage,
        log_storage=run.log_storage,
        instance=run.instance,
        vcpus=run.settings.get("vcpus"),  # pyright: ignore[reportArgumentType]
        cache_gib=run.cache_gib,
        threads=run.threads,
        as_of=run.as_of.isoformat(),
        seconds=max(4, int(run.span_s)),
        start=run.start,
        seed=seed,
        draws=draws,
        start_balance_percent=run.start_balance_percent,
        release=SourceServer(run.flavor, run.engine_version).release,
    )
    measured_rows = run.series.select("t_s", "tps", "p95_ms")
    measured = summarise(measured_rows)
    # The scatter of means over a longer interval is smaller; the prediction is put into the same
    # intervals.
    rows = _average_in_intervals(prediction.rows, run.interval_s)
    predicted = summarise(rows)
    pairs = [("mean tps, second half", "tps", measured["tps"], predicted["tps"])]
    pairs += [
        (f"mean tps, quarter {i + 1}", "tps", measured["quarters"][i], predicted["quarters"][i]) for i in range(4)
    ]
    pairs += [
        (f"one-second tps, {name}", "tps", measured[key], predicted[key])
        for name, key in (("p5", "tps_p5"), ("p50", "tps_p50"), ("p95", "tps_p95"))
    ]
    if run.p95_ms is None:
        pairs.append(("p95 response, median", "ms", measured.get("p95_ms"), predicted.get("p95_ms")))
    else:
        pairs.append(("p95 response, run", "ms", run.p95_ms, _average_p95_ms(rows)))
    pairs += [("stalled", "s", measured["stalls_s"], predicted["stalls_s"])]
    return ComparedRun(run, prediction, measured, tuple(_build_figure(*pair) for pair in pairs), rows)


def _average_p95_ms(rows: pl.DataFrame) -> float | None:
    """Returns the mean p95 of the rows, ms, weighted by transactions; None without transactions."""
    done = float(rows["tps"].sum())
    return float((rows["p95_ms"] * rows["tps"]).sum()) / done if done else None


def _average_in_intervals(rows: pl.DataFrame, interval_s: float) -> pl.DataFrame:
    """Returns rows of `interval_s` from rows of a second: mean tps and median p95; unchanged for
    intervals up to a second."""
    if interval_s <= 1.0:
        return rows
    group = (pl.col("t_s") / interval_s).floor()
    return rows.group_by(group.alias("interval"), maintain_order=True).agg(
        pl.col("t_s").first(), pl.col("tps").mean(), pl.col("p95_ms").median()
    )


def _build_figure(what: str, unit: str, measured: float | None, predicted: float | None) -> dict:
    """Returns a row of `figures`, its error None for seconds and if a figure is missing."""
    error = None
    if measured is not None and predicted is not None and measured > 0 and unit != "s":
        error = 100.0 * (predicted / measured - 1.0)
    return {"what": what, "unit": unit, "measured": measured, "predicted": predicted, "error_percent": error}


def leave_out(
    runs: Sequence[Run], *, from_one: bool = False, progress: Callable[[float], None] = lambda done: None
) -> list[dict]:
    """Scores calibrations on runs they were not fitted to: predicts every run from all others, or
    with `from_one` every run from each single other.

    Returns a row per prediction: `predicted`, `from` (names of runs), and the errors of tps in
    percent `mean`, `quarter_1` .. `quarter_4`, `p5`, `p95`. `progress` is called with the share
    done. Raises InputError with fewer than two runs, or with a run that is named twice.
    """
    if len(runs) < 2:
        hint = "Name more runs of the same benchmark."
        raise InputError(f"{len(runs)} run", "leaving runs out needs at least two", "headrace calibrate --help", hint)
    check_distinct(runs)
    sets = [[run] for run in runs] if from_one else [[other for other in runs if other is not run] for run in runs]
    rows = []
    for index, sources in enumerate(sets):
        workload = calibrate(sources)
        for run in runs if from_one else [runs[index]]:
            if run not in sources:
                rows.append(_make_score_row(compare_run(run, workload, draws=0), sources))
        progress((index + 1) / len(sets))
    return rows


def _make_score_row(comparison: ComparedRun, sources: Sequence[Run]) -> dict:
    """Returns a row of `leave_out`: a compared run, and the names of the runs of its
    calibration."""
    error = comparison.get_error_percent
    return {
        "predicted": comparison.run.name,
        "from": ", ".join(run.name for run in sources),
        "mean": error("mean tps, second half"),
        **{f"quarter_{i}": error(f"mean tps, quarter {i}") for i in (1, 2, 3, 4)},
        "p5": error("one-second tps, p5"),
        "p95": error("one-second tps, p95"),
    }
