"""A view of each report that a command writes, of results that are quickly made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
from bench_runs import keep, series, store_in
from places import ROOT
from test_prove import proof, step

import headrace
from headrace import planner
from headrace.bench import compare as compare_runs
from headrace.calibration.runs.load import load_run
from headrace.calibration.score import compare_run
from headrace.operate.doctor.advising.gains import Counsel
from headrace.operate.doctor.diagnosis import diagnose
from headrace.operate.fleet.answer import VolumeAnswer
from headrace.operate.forecast.answer import forecast
from headrace.operate.targets import SourceOptions, read_evidence
from headrace.report import benchmarks, databases, plan, simulation, study
from headrace.report import proof as proof_report
from headrace.report import services as services_words
from headrace.report.fleet import page as fleet_page
from headrace.report.operate import doctor as doctor_report
from headrace.report.operate import forecast as forecast_report
from headrace.report.replication import measured, replicas
from headrace.report.view import View
from headrace.servers.topology.lag.record import SCHEMA as LAG_COLUMNS
from headrace.simulation.services import compare as compare_services

DATABASE = headrace.sysbench_tpcc(warehouses=200, cache_gib=4, threads=8)
DAY = headrace.demo_day()


def plan_of_demand(folder: Path) -> View:
    answer = planner.plan(DAY, compare="gp2:1200", max_volumes=2)
    return plan.build_plan_view(answer, DAY, planner.simulate_choices(answer, DAY, None))


def run_of_demand(folder: Path) -> View:
    return simulation.build_view(headrace.simulate(DAY, "gp2:500", instance="m5.large"), DAY, ["A note."])


def prediction(folder: Path) -> View:
    run = headrace.predict(DATABASE, "gp2:300", seconds=60, start="warm", draws=4)
    return databases.build_view(run.with_warnings(["It is far from its runs."]), DATABASE)


def replica(folder: Path) -> View:
    run = headrace.predict_replica(DATABASE, "gp3:500:6000", headrace.Replica("gp3:100"), seconds=60, draws=2)
    return replicas.build_view(run)


def compared_run(folder: Path) -> View:
    run = load_run(ROOT / "examples/tpcc-run.toml")
    return databases.build_comparison_view(compare_run(run, DATABASE, draws=0), DATABASE)


def services(folder: Path) -> View:
    return services_words.build_view(compare_services(DATABASE, "gp3:500", instance="r6g.xlarge", seconds=60, draws=4))


def doctor(folder: Path) -> View:
    evidence = read_evidence(
        str(ROOT / "examples/doctor/two-disks.txt"), SourceOptions(storage="gp2:100", members=True)
    )
    return doctor_report.build_view(
        diagnose(evidence, Counsel()), [tick.to_document() for tick in evidence.list_ticks()]
    )


def forecast_of_days(folder: Path) -> View:
    days = headrace.new_constant(900, 600, size_gib=200, seconds=4 * 86_400)
    answer = forecast(days, "gp2:300", hours=24, runs=20)
    return forecast_report.build_view(answer)


def fleet(folder: Path) -> View:
    facts = {"account": "1", "region": "us-east-1", "instance": "", "why": "it fits", "prices": "list prices"}
    answers = [
        VolumeAnswer(key=f"vol-{number:017d}", volumes=(f"vol-{number:017d}",), verdict=verdict, today="gp2:1000",
                     proposed="gp3:1000", usd_today=100.0, usd_proposed=usd, risk=0.02, proposed_p99_ms=1.5, **facts)
        for number, (verdict, usd) in enumerate((("change", 80.0), ("grow", 120.0), ("unused", None)))
    ]  # fmt: skip
    return fleet_page.build_view(answers, "list prices")


def bench_run(folder: Path) -> View:
    return benchmarks.build_view(keep(store_in(folder), findings=["The machine was busy."]))


def bench_comparison(folder: Path) -> View:
    store = store_in(folder)
    first, second = keep(store), keep(store, series(tps=700.0, seed=2))
    return benchmarks.build_comparison_view(compare_runs([first], [second]))


def conformance(folder: Path) -> View:
    case = {
        "spec": "gp3:500",
        "load": "reads, depth 1",
        "unit": "ms",
        "note": "",
        "allowed_percent": 10.0,
        "within": True,
    }
    figures = {"specified": None, "published": 0.6, "model": 0.55, "measured": 0.57, "error_percent": 3.6}
    return benchmarks.build_conformance_view([SimpleNamespace(**case, **figures, what=what) for what in ("p50", "p99")])  # pyright: ignore[reportArgumentType]


def study_of_queues(folder: Path) -> View:
    return study.build_view(headrace.run_study("queue-rule"))


def proof_of_two(folder: Path) -> View:
    return proof_report.build_view(proof(step("a", 100.0, 98.0), step("b", 200.0, 240.0)))


def lag(folder: Path) -> View:
    seconds = [0.5 * at for at in range(60)]
    words = {"replica": "r1", "channel": "", "problem": ""}
    rows = {
        name: [words.get(name, 1.0 if kind == pl.Float64 else None)] * len(seconds)
        for name, kind in LAG_COLUMNS.items()
    }
    frame = pl.DataFrame(rows | {"t_s": seconds, "at_unix": [1.8e9 + t_s for t_s in seconds]}, schema=LAG_COLUMNS)
    return measured.build_view(frame)


def demand(folder: Path) -> View:
    return simulation.build_demand_view(DAY)


VIEWS: dict[str, Callable[[Path], View]] = {
    function.__name__: function
    for function in (
        plan_of_demand, run_of_demand, prediction, replica, compared_run, services, doctor, forecast_of_days, fleet,
        bench_run, bench_comparison, conformance, study_of_queues, proof_of_two, lag, demand,
    )
}  # fmt: skip
