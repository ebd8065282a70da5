"""`headrace plan`: the storage that meets the goals, for demand in I/Os and for databases in
transactions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from headrace.base.lazy import defer_imports
from headrace.base.options import list_given
from headrace.cli.inputs import read_database, read_workload
from headrace.cli.model.replica import plan_for_replica
from headrace.cli.options import (
    Output,
    OutputOption,
    ReportOption,
    SetOption,
    WorkloadArgument,
    make_flag,
    make_option,
)
from headrace.cli.output import exit_if, print_data, print_json, show, show_progress, write_report
from headrace.cli.sharing import read_epilog
from headrace.errors import InputError
from headrace.planner.settings import PlanSettings, ReplicaGoal, refuse_without_services
from headrace.report.output import PAGE_FORMATS, as_csv, check_chart_path

if TYPE_CHECKING:
    from headrace.planner import Plan
    from headrace.planner.result import EngineComparison
    from headrace.report.view import View
    from headrace.workload import TransactionWorkload

with defer_imports():
    import polars as pl

    from headrace import planner
    from headrace import workload as workloads
    from headrace.report import live as report_live
    from headrace.report import plan as plan_report
    from headrace.workload import server_settings

EPILOG = read_epilog("plan")


def plan(
    *,
    workload: WorkloadArgument,
    settings: PlanSettings,
    replica: ReplicaGoal,
    against: Annotated[
        str | None, make_option("WORKLOAD", "Database: second database to plan for the same goals, such as MyRocks.")
    ] = None,
    server: SetOption = None,
    families: Annotated[
        bool, make_flag("--families", "Explain why each family lost, including those far from the goals.")
    ] = False,
    explain: Annotated[bool, make_flag("--explain", "Show the arithmetic.")] = False,
    output: OutputOption = "table",
    report: ReportOption = None,
    live: Annotated[
        bool, make_flag("--live", "Add sliders to the page of --report; the browser recomputes it.")
    ] = False,
) -> None:
    """Find the storage that meets every goal: what to buy, what it costs, why the others lost, and
    what to do next."""
    check_chart_path(report, PAGE_FORMATS)
    check_live(live, report, against)
    on_ec2 = [name.strip().lower() for name in settings.on] == ["ec2"]
    refuse_without_services(settings)
    if replica.replica_lag_s is not None:
        refuse_set(server)
        if not on_ec2:
            rule = "is not planned together with --replica-lag-s: replicas are planned on EC2"
            hint = "RDS replicas apply the binary log as those on EC2 do: leave --on out, and take the same class and storage."
            raise InputError(f"--on {','.join(settings.on)}", rule, "headrace plan --help", hint)
        exit_if(not plan_for_replica(read_database(workload), replica, settings, output, report))
        return
    for setting in list_given(replica):
        hint = "For example --replica-lag-s 1."
        raise InputError(setting.flag, "needs --replica-lag-s", "headrace plan --help", hint)
    read = read_workload if against is None else read_database
    load = on_server(read(workload), server)
    other = None if against is None else on_server(read_database(against), server)
    answer = make_plan(load, other, settings)
    write_plan(report, answer, load, settings, live)
    show_plan(answer, output, explain=explain, families=families)
    exit_if(not any(each.recommended for each in list_plans(answer)))


def refuse_set(server: list[str] | None) -> None:
    """Raises InputError where settings of a server are given to a plan of a replica."""
    if server:
        hint = "Write the settings of the replica with its own options, or leave it out."
        raise InputError(f"--set {server[0]}", "is not for plans of a replica", "headrace plan --help", hint)


def on_server(load: Any, server: list[str] | None) -> Any:
    """Returns the database on a server with these settings; without settings, the load itself.
    Raises InputError for settings with a demand in I/Os."""
    if not server or load is None:
        return load
    if not isinstance(load, workloads.TransactionWorkload):
        hint = "Give a database: a workload that `headrace calibrate` wrote, or sysbench-tpcc:..."
        rule = "is for databases; this workload is a demand in I/Os"
        raise InputError(f"--set {server[0]}", rule, "headrace plan --help", hint)
    return server_settings.with_settings(load, server)


def make_plan(load: Any, other: TransactionWorkload | None, settings: PlanSettings) -> Plan | EngineComparison:
    """Returns the plan, or the comparison of two databases; shows a progress bar."""
    with show_progress("planning") as tick:
        given = vars(replace(settings, progress=tick))
        return planner.plan(load, **given) if other is None else planner.plan_against(load, other, **given)


def list_plans(answer: planner.Plan | EngineComparison) -> tuple[planner.Plan, ...]:
    """Returns the plan, or the two plans of a comparison."""
    return (answer,) if isinstance(answer, planner.Plan) else answer.plans


def check_live(live: bool, report: Path | None, against: str | None) -> None:
    """Raises InputError where --live is given without an HTML page of a single plan."""
    if live and (report is None or report.suffix.lower() != ".html" or against is not None):
        rule = "needs --report with a file that ends in .html, and a plan without --against"
        raise InputError("--live", rule, "headrace plan --help", "For example --report plan.html --live.")


def write_plan(
    path: Path | None,
    answer: Plan | EngineComparison,
    load: Any,
    settings: PlanSettings,
    live: bool = False,
) -> None:
    """Writes the page where a file is named, with the balances of the choices worth drawing where
    they are simulated; `live`: the page recomputes."""

    def make_view() -> View:
        if not isinstance(answer, planner.Plan):
            return plan_report.build_engine_view(answer)
        if answer.subject == "database":
            return plan_report.build_plan_view(answer)
        demand = load.uncensor().scale(answer.load.demand_growth)
        return plan_report.build_plan_view(
            answer, demand, planner.simulate_choices(answer, demand, settings.start_balance)
        )

    question = report_live.build_what_if(answer, load, settings) if live and isinstance(answer, planner.Plan) else None
    write_report(path, make_view, question)


def show_plan(
    answer: Plan | EngineComparison, output: Output, *, explain: bool = False, families: bool = False
) -> None:
    """Prints a plan, or two, in the form asked for."""
    if output == "json":
        return print_json(answer.to_dict())
    plans, words = list_plans(answer), getattr(answer, "words", None)
    if output == "csv":
        frames = [plan_report.build_frame(plan) for plan in plans]
        if words is not None:
            frames = [
                frame.select(pl.lit(plan.engine).alias("engine"), pl.all())
                for frame, plan in zip(frames, plans, strict=True)
            ]
        return print_data(as_csv(pl.concat(frames, how="vertical_relaxed")))

    view_of = plan_report.build_plan_view if isinstance(answer, planner.Plan) else plan_report.build_engine_view
    show(view_of(answer, explain=explain, families=families, charts=False))  # pyright: ignore[reportArgumentType]
