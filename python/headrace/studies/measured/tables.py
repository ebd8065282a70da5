"""Makes the tables and notes at the end of every study on the lab: every run with its id, the
scale, the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.base import caps
from headrace.base.units import format_percent
from headrace.bench.running.summary import LEAST_IDLE_SHARE, compute_idle_share
from headrace.experiment import machine
from headrace.experiment.cell import OnServer
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import ProcessorSpeed, SimulatedCell
from headrace.studies.base import ChartSeries, StudyTable, make_role_series, read_scale_rows, tabulate


def tabulate_runs(
    cells: Mapping[tuple, MeasuredCell], simulated: Mapping[tuple, SimulatedCell] | None = None, unit: str = "tps"
) -> StudyTable:
    """Returns the table of every cell: simulated, measured, its doubt, the limit that bound, the
    run's id."""
    rows = []
    for key, measurement in cells.items():
        cell, simulation = measurement.cell, (simulated or {}).get(key)
        error = None if simulation is None or not measurement.tps else 100.0 * (simulation.tps / measurement.tps - 1.0)
        summary = measurement.record.summary
        measured = (
            None if simulation is None else simulation.tps,
            measurement.tps,
            100 * measurement.relative,
            error,
            summary.get("p95_ms"),
        )
        rates = (summary.get("read_iops"), summary.get("write_iops"))
        figures = (*(_round_figure(value, 1) for value in measured), *(_round_figure(value, 0) for value in rates))
        run = measurement.record.id + (" (earlier)" if measurement.reused else "")
        rows.append(
            (
                cell.words,
                _describe_storage(measurement),
                cell.threads,
                *figures,
                binds(measurement),
                measurement.select_measured().height,
                cell.seed,
                run,
            )
        )
    names = (
        f"cell | storage | threads | simulated {unit} | measured {unit} | ± % (1 s.e.) | simulated over measured % | "
        "p95 ms | reads/s | writes/s | bound by | n (s) | seed | run"
    )
    return tabulate("Every cell: run ids are those of `headrace bench list`", names, rows)


def _round_figure(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _describe_storage(measurement: MeasuredCell) -> str:
    place = measurement.cell.place
    return place.storage + (f", log {place.log_storage}" if isinstance(place, OnServer) and place.log_storage else "")


BOUND_SHARE = 0.2  # of the time (a guess)
PROCESSORS = "processors"


def binds(measurement: MeasuredCell) -> str:
    """Returns the cap that requests waited for in more than a fifth of the time; processors if they
    were busy; else latency."""
    summary = measurement.record.summary
    shares = {caps.label_cap(cap): summary.get(caps.name_column(cap)) or 0.0 for cap in caps.COUNTED}
    words, share = max(shares.items(), key=lambda item: item[1])
    if share > BOUND_SHARE:
        return f"{words} ({format_percent(share)} of the time)"
    environment = measurement.record.document["environment"]
    idle = compute_idle_share(environment, summary.get("idle_cpus"), summary.get("iowait_cpus"))
    if idle is not None and idle < LEAST_IDLE_SHARE:
        return PROCESSORS
    return "latency"


def make_tps_series(
    x: tuple,
    keys: Iterable[tuple],
    measured: Mapping[tuple, MeasuredCell],
    simulated: Mapping[tuple, SimulatedCell],
    label: str = "{role}",
) -> tuple[ChartSeries, ...]:
    """Returns tps of these cells over x, simulated and measured."""
    keys = list(keys)
    return make_role_series(
        x, label, simulated=[simulated[key].tps for key in keys], measured=[measured[key].tps for key in keys]
    )


def tabulate_scale(name: str, **values: object) -> StudyTable:
    """Returns the table of what is scaled and what is not."""
    return tabulate("The scale", "what | published | here | scaled?", read_scale_rows(name, **values))


def describe_processors(here: ProcessorSpeed) -> str:
    """Returns a note on the processors of this machine."""
    ids = " and ".join(run.record.id for run in here.runs)
    return (
        f"A point select takes {here.cpu_ms:.3f} ms of a processor here (sysbench and the lab included) and "
        f"{here.trip_ms:.3f} ms of round trip (runs {ids}); the simulation runs on {here.vcpus} such processors."
    )


def describe_machine(facts: Mapping[str, object], cells: Mapping[tuple, MeasuredCell]) -> list[str]:
    """Returns notes on the machine, on repetition, and on the findings of the runs."""
    notes = [
        f"Machine: {machine.describe_host(dict(facts))}. Clients, server and the lab's daemon share its processors."
    ]
    counts: dict[str, int] = {}
    for measurement in cells.values():
        for words in measurement.record.findings:
            kind = words.split(":")[0]
            counts[kind] = counts.get(kind, 0) + 1
    notes += [
        f"In {count} of {len(cells)} runs: {kind.rstrip('.')}."
        for kind, count in sorted(counts.items(), key=lambda item: -item[1])[:6]
    ]
    if any(measurement.reused for measurement in cells.values()):
        notes.append(
            f"{sum(measurement.reused for measurement in cells.values())} of {len(cells)} cells were measured in an earlier "
            "session and taken from the run store (--resume)."
        )
    return notes
