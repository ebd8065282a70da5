"""From measured runs to a database: the whole of a calibration."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.base import core
from headrace.base.units import format_percent
from headrace.calibration import cycle, popularity, scatter
from headrace.calibration.fit import Fit, Objective, fit
from headrace.calibration.misfit import measure_misfits
from headrace.calibration.observations import Observation, observe
from headrace.calibration.pool_start import find_pool_starts
from headrace.calibration.prior import build_prior
from headrace.calibration.processor_time import ProcessorTime, has_foreign_load, measure_processor_time
from headrace.calibration.response import derive_burst, derive_response_curve
from headrace.calibration.runs import Run
from headrace.calibration.runs.model import LEAST_SECONDS
from headrace.calibration.starts import find_lowest, list_directions
from headrace.calibration.stops import list_stopping_starts
from headrace.errors import Refusals
from headrace.workload.misfit import Misfit
from headrace.workload.parameters import OF_CLIENTS, get_value, list_parameters
from headrace.workload.server import FULL_SHARE
from headrace.workload.unexplained import classify_limit, is_volume

refuse = Refusals("docs/reference/run-description.md")
LEAST_TRANSACTIONS = 2_000.0  # a guess
# Keys in which all runs of one workload must agree.
SHARED_KEYS = ("engine", "benchmark", "data", "script", "distribution")
# Rounds of fit and shape: the third moves no figure by more than 0.2 %.
ROUNDS = 3
# Screened starts of the first round that are followed to their end.
FINISHED = 2
# The runs identify a parameter if they narrow its spread to less than the first of these shares;
# the runs and the standard benchmark together if to less than the second.
NARROWED_BY_RUNS, NARROWED_BY_BOTH = 0.5, 0.85
# A parameter further from the standard benchmark than this, in standard deviations of its spread
# before the runs, more likely makes up for a wrong description: one in 370 lies there by chance.
MAX_DEVIATIONS = 3.0
# Least squares end where the machine's linear algebra rounds them to: they differ by 1e-8 of a
# value between OpenBLAS's kernels for Haswell, Sandybridge, Nehalem and Prescott (the example run).
# Stated figures are therefore rounded: values to five significant digits (none is known
# to better than 1 %), covariances, in units of the spreads before, to five decimals.
# A number then differs between machines only where it lies within that 1e-8 of an edge; of all
# numbers of the example, one does in one calibration of 100.
STATED_DIGITS, COVARIANCE_DECIMALS = 5, 5


@dataclass(frozen=True)
class Calibrated:
    """A calibrated database: `database` for the core, `fit` with the covariance of its parameters,
    the compaction `cycle` if the runs show one, `notes` for the reader, and for each run its
    observation and the error of the calibration on it (`misfits`, None: not measurable)."""

    engine: str
    database: dict
    fit: Fit
    cycle: cycle.CompactionCycle | None
    notes: tuple[str, ...]
    observations: tuple[Observation, ...]
    misfits: tuple[Misfit | None, ...]
    processors: ProcessorTime | None = None


def calibrate(
    runs: list[Run], progress: Callable[[float], None] = lambda done: None, least_seconds: float = LEAST_SECONDS
) -> Calibrated:
    """Fits one database to runs of the same benchmark, data and engine. `progress` is called with
    the share that is done (0 to 1). Raises InputError if the runs are of several workloads, or one
    is shorter than `least_seconds`."""
    _check_runs(runs, least_seconds)
    first = runs[0]
    engine = first.engine
    begin = build_prior(first)
    observations, pool_notes = find_pool_starts(begin, [observe(run) for run in runs])
    # A script that only reads does not compact, in MyRocks either.
    if begin["compaction"] is not None:
        _scale_expected_cycle(begin, first)
    busy = measure_processor_time(runs)
    # If clients bind in a run, the volume's latency blurs the I/Os that the fit infers from the
    # run. Near the standard benchmark the model shows that, so such bins weigh less; a fit that
    # does not describe its runs may owe that to these weights, so it is replaced by the best from
    # many starts, with every bin at equal weight.
    attempts = [_FitOptions(True), _FitOptions(False)]
    if _are_storage_bound(begin, observations):
        # Volumes of one type differ by some percent. Free parameters of the clients would explain
        # such a difference between runs, and by far too much: no run here constrains them.
        fixed = {parameter.name for parameter in OF_CLIENTS if busy is None or parameter.name != "cpu_ms"}
        attempts.insert(0, _FitOptions(True, frozenset(fixed)))

    def fit_by(options: _FitOptions) -> tuple[_RoundsResult, list[Misfit | None]]:
        rounds = _fit_in_rounds(first, begin, observations, busy, options, progress)
        return rounds, measure_misfits(rounds.database, observations)

    rounds, run_misfits = fit_by(attempts[0])
    for options in attempts[1:]:
        if not any(each is not None and each.misses for each in run_misfits):
            break
        rounds, run_misfits = fit_by(options)
    notes = [each.describe(run.name) for run, each in zip(runs, run_misfits, strict=True) if each and each.misses]
    notes += _warn_of_unlikely_parameters(engine, rounds.database, rounds.fitted)
    notes += [*pool_notes, *_collect_notes(runs, observations, rounds.database, rounds.fitted, busy)]
    return Calibrated(
        engine, rounds.database, rounds.fitted, rounds.ring, tuple(notes), tuple(observations), tuple(run_misfits), busy
    )


@dataclass(frozen=True)
class _FitOptions:
    """Options of a fit: `lenient` as of an `Objective`, and the parameters that stay `fixed`."""

    lenient: bool
    fixed: frozenset[str] = frozenset()


def _are_storage_bound(database: dict, observations: list[Observation]) -> bool:
    """Returns whether there are several runs, all on volumes, and a cap of the volume binds in each
    of them in the model of `database`, the one before the runs: clients then hardly matter."""
    if len(observations) < 2 or not all(is_volume(each.run.storage) for each in observations):
        return False
    misfits = measure_misfits(database, observations)
    return all(each is not None and classify_limit(each.limit) == "storage" for each in misfits)


@dataclass(frozen=True)
class _RoundsResult:
    """Result of the rounds: the database, the fit, and the compaction cycle (None: none found)."""

    database: dict
    fitted: Fit
    ring: cycle.CompactionCycle | None


def _fit_in_rounds(
    first: Run,
    begin: dict,
    observations: list[Observation],
    busy: ProcessorTime | None,
    options: _FitOptions,
    progress: Callable[[float], None],
) -> _RoundsResult:
    """Fits the parameters and the shape (I/Os along the life of the cache) in turn, ROUNDS times,
    from the database `begin`; then estimates scatter, response times and bursts, and rounds."""
    engine, compacts = first.engine, begin["compaction"] is not None
    # Measured with doublewrite, pages of 16 KiB, and one log that is synced once a commit: each
    # further sync is a small I/O, the more of them the fewer clients share one.
    usual = begin["writes"]["doublewrite"] and first.settings.get("page_kib", 16) == 16
    one_log = begin["log"]["binlog_bytes_per_tx"] == 0 and begin["log"]["syncs_per_commit"] <= 1.0
    kib_known = engine == "innodb" and first.benchmark.name == "sysbench-tpcc" and usual and one_log
    base, shape, compaction_cycle, fitted = begin, popularity.NO_SHAPE, None, None
    for turn in range(ROUNDS):
        objective = Objective(base | {"shape": shape}, engine, observations, kib_known, busy, options.lenient)
        standard_start = np.zeros(len(objective.names))
        if fitted is None:
            fitted = fit(objective, _list_first_starts(objective), FINISHED, options.fixed)
        elif options.lenient:
            fitted = fit(objective, [fitted.deltas], fixed=options.fixed)
        else:
            # The shape may have absorbed effects of the parameters, so the fit starts again from
            # the standard benchmark too.
            fitted = fit(objective, [fitted.deltas, standard_start])
        progress((turn + 0.5) / ROUNDS)
        if compacts:
            compaction_cycle = cycle.find(
                fitted.database | {"compaction": {**fitted.database["compaction"], "profile": [1.0]}},
                observations,
                begin["compaction"]["period_tx"],
            )
            if compaction_cycle is not None:
                base = base | {"compaction": base["compaction"] | compaction_cycle.as_core()}
        period = base["compaction"]["period_tx"] if compacts else None
        scale = popularity.derive_popularity_scale(fitted.database, observations, period)
        shape = popularity.multiply_shapes(shape, scale)
        progress((turn + 1.0) / ROUNDS)
    assert fitted is not None  # ROUNDS is at least one
    database = copy.deepcopy(fitted.database) | {"shape": shape}
    if compaction_cycle is not None:
        database["compaction"] |= compaction_cycle.as_core()
    database["noise"] = scatter.estimate_scatter(database, observations)
    clients = database["clients"]
    clients["p95_over_mean"] = scatter.estimate_p95_over_mean(observations, clients["p95_over_mean"])
    if burst := derive_burst(database, observations):
        database["shape"] = shape | burst
    elif response := derive_response_curve(database, observations):
        database["shape"] = shape | response
    database = _round_stated(database, begin)
    units = np.outer(fitted.spreads, fitted.spreads)
    covariance = np.round(fitted.covariance / units, COVARIANCE_DECIMALS) * units
    return _RoundsResult(database, replace(fitted, covariance=covariance), compaction_cycle)


def _list_first_starts(objective: Objective) -> list[np.ndarray]:
    """Lists the starts of the first round, each an array of logarithms with a value per parameter:
    the standard benchmark; starts with stops if runs had them; without `lenient` the fixed
    directions and those in which clients bind; and of several runs the fit of each alone, so that
    another run does not end the fit in a worse place."""
    starts = [np.zeros(len(objective.names))]
    starts += list_stopping_starts(objective.names, objective.database, objective.observations)
    if not objective.lenient:
        starts = [*starts, *list_directions(objective.names)[1:], *_list_client_bound_starts(objective)]
    if len(objective.observations) == 1:
        return starts
    singles = [
        find_lowest(objective.restrict_to(each), objective.spreads, starts).deltas for each in objective.observations
    ]
    return [*starts, *singles]


def _list_client_bound_starts(objective: Objective) -> list[np.ndarray]:
    """Lists starts in which clients limit the rate, each an array of logarithms with a value per
    parameter: without I/O a transaction takes as long as was measured, or half as long, and it
    touches as many pages as before, or half as many."""
    measured_ms = [1e3 * each.run.threads / float(np.median(each.tps[each.tps > 0])) for each in objective.observations]
    base = np.log(float(np.mean(measured_ms)) / objective.database["clients"]["base_ms"])
    starts = []
    for share, touched_share in ((1.0, 1.0), (0.5, 1.0), (0.5, 0.5)):
        deltas = {"base_ms": base + np.log(share), "pages_touched": np.log(touched_share)}
        starts.append(np.array([deltas.get(name, 0.0) for name in objective.names]))
    return starts


def _round_stated(after: Any, before: Any) -> Any:
    """Returns the fitted table `after` with its numbers rounded to STATED_DIGITS; those that equal
    the ones in `before` (sizes, limits, settings) are not rounded."""
    if isinstance(after, dict):
        return {
            key: _round_stated(item, before.get(key) if isinstance(before, dict) else None)
            for key, item in after.items()
        }
    if isinstance(after, (list, tuple)):
        earlier = before if isinstance(before, (list, tuple)) and len(before) == len(after) else [None] * len(after)
        return [_round_stated(item, old) for item, old in zip(after, earlier, strict=True)]
    return float(f"{after:.{STATED_DIGITS}g}") if isinstance(after, float) and after != before else after


def tabulate_parameters(result: Calibrated) -> list[dict]:
    """Returns one row per parameter: `name`, `words`, `value`, `spread` (relative, one standard
    deviation), `before` (the same with no run), `from` (what it was identified from)."""
    rows = []
    for index, parameter in enumerate(list_parameters(result.engine, result.database)):
        before = float(result.fit.spreads[index])
        spread = math.sqrt(max(0.0, float(result.fit.covariance[index, index])))
        narrowed = _compute_narrowing(result.fit, parameter.name)
        origin = (
            "the runs"
            if narrowed < NARROWED_BY_RUNS
            else "the runs and the prior"
            if narrowed < NARROWED_BY_BOTH
            else "prior; these runs do not constrain it"
        )
        if parameter.name == "cpu_ms" and result.processors is not None:
            origin = f"processors at work during {', '.join(result.processors.runs)}"
        rows.append(
            {
                "name": parameter.name,
                "words": parameter.words,
                "value": get_value(result.database, parameter),
                "spread": min(spread, before),
                "before": before,
                "from": origin,
            }
        )
    return rows


def _describe_workload(run: Run) -> tuple:
    """Returns what runs of one workload share, in the order of SAME."""
    benchmark = run.benchmark
    size = benchmark.data_gib if benchmark.name == "own" else f"{benchmark.tables} x {benchmark.scale:,}"
    return run.engine, benchmark.name, size, benchmark.script, benchmark.distribution


def _check_runs(runs: list[Run], least_seconds: float) -> None:
    """Refuses runs of several workloads, and runs that are too short. Raises InputError."""
    if not runs:
        raise refuse.input("no run", "a calibration needs at least one", "Name a RUN.toml.")
    first = runs[0]
    # A shorter run that was asked for may hold as many fewer.
    least_tx = LEAST_TRANSACTIONS * min(1.0, least_seconds / LEAST_SECONDS)
    for run in runs:
        for what, here, there in zip(SHARED_KEYS, _describe_workload(run), _describe_workload(first), strict=True):
            if here != there:
                rule = f"must be {there}, as in {first.name}: one workload has one"
                raise refuse.input(f"{run.name}: {what} = {here}", rule, "Calibrate them apart.")
        if run.span_s < least_seconds or run.transactions < least_tx:
            missing = max(least_seconds - run.span_s, (least_tx / max(run.transactions, 1e-9) - 1.0) * run.span_s)
            rule = f"too short to identify anything: at least {least_seconds:.0f} s and {least_tx:,.0f} transactions"
            hint = (
                f"Measure about {missing:,.0f} s longer."
                if math.isfinite(missing) and missing < 1e7
                else "The run holds no transactions: check the file."
            )
            raise refuse.input(f"{run.name}: {run.span_s:,.0f} s, {run.transactions:,.0f} transactions", rule, hint)


def _scale_expected_cycle(database: dict, run: Run) -> None:
    """Scales the expected period of compaction (transactions) in `database` by the memtable size
    and the compaction trigger of the run; `database` is changed."""
    memtable_mib = run.settings.get("memtable_mib", 256.0)
    trigger = run.settings.get("l0_trigger", 4)
    factor = memtable_mib / 256.0 * trigger / 4.0
    database["compaction"] = {
        **database["compaction"],
        "period_tx": database["compaction"]["period_tx"] * factor,
        "first_tx": database["compaction"]["first_tx"] * factor,
    }


def _compute_narrowing(fitted: Fit, name: str) -> float:
    """Returns the spread of a parameter after the fit over that before it."""
    index = fitted.names.index(name)
    after = math.sqrt(max(0.0, float(fitted.covariance[index, index])))
    return after / float(fitted.spreads[index])


def _warn_of_unlikely_parameters(engine: str, database: dict, fitted: Fit) -> list[str]:
    """Returns a warning for each parameter that the fit moved by more than MAX_DEVIATIONS of its
    spread before the runs."""
    words = {parameter.name: parameter.words for parameter in list_parameters(engine, database)}
    deviations = zip(fitted.names, fitted.deltas, fitted.spreads, strict=True)
    hint = "Check storage, cache, data and benchmark of the descriptions."
    return [
        f"{words[name]}: {math.exp(delta):.2g} times the standard benchmark's, which is known to {format_percent(spread)}. "
        f"More likely a run is not what its description says. {hint}"
        for name, delta, spread in deviations
        if abs(delta) > MAX_DEVIATIONS * spread
    ]


def _collect_notes(
    runs: list[Run], observations: list[Observation], database: dict, fitted: Fit, busy: ProcessorTime | None
) -> list[str]:
    """Returns sentences on what the runs do not show, and on what would show it."""
    notes = []
    if busy is None:
        ms = database["clients"]["cpu_ms"]
        before = float(fitted.spreads[fitted.names.index("cpu_ms")])
        others = next(
            (run.machine.busy_before for run in runs if run.busy_share is not None and has_foreign_load(run)), None
        )
        why = (
            "The busy share of the processors is not known"
            if others is None
            else f"{format_percent(others)} of the processors were busy before the run, so what it took of them is not known"
        )
        notes.append(
            f"{why}: {ms:.3g} ms of a virtual CPU "
            f"a transaction are the standard benchmark's, known to {format_percent(before)}; "
            "vmstat or iostat during a run on a known instance would tell."
        )
    for run in runs:
        if (share := run.busy_share) is not None and share >= FULL_SHARE:
            notes.append(
                f"{run.name}: the processors were {format_percent(share)} busy: its rate is theirs, not the storage's, and "
                "predictions are wider for it; a run with fewer clients, or on more processors, would narrow them."
            )
    for run, observation in zip(runs, observations, strict=True):
        curve = core.mysql_warm_up(database, observation.core_run["cache_bytes"])
        done, full = float(observation.tx[-1]), curve["full_at_tx"]
        rate = float(np.mean(observation.tps[-max(1, len(observation.tps) // 4) :]))
        if run.start == "cold" and full and done < 1.2 * full:
            more = (3.0 * full - done) / max(rate, 1e-9)
            notes.append(
                f"{run.name}: ends after {done:,.0f} transactions, the cache is full at about "
                f"{full:,.0f}: the steady state was not seen and is the standard benchmark's; "
                f"about {more / 60:,.0f} minutes more would show it."
            )
        if run.start == "warm":
            notes.append(
                f"{run.name}: a warm run shows the end of the warm-up only; its beginning is the standard benchmark's."
            )
        if not np.isfinite(observation.iops).any():
            notes.append(
                f"{run.name}: no disk figures with the transactions: I/Os per transaction "
                "follow from the cap, their parts from the standard benchmark."
            )
    if len({run.threads for run in runs}) == 1 and _compute_narrowing(fitted, "base_ms") >= NARROWED_BY_RUNS:
        notes.append(
            "All runs have the same number of clients: the response time without I/O is "
            "the standard benchmark's; a run with a quarter of the clients would tell."
        )
    return notes
