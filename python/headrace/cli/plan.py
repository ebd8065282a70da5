"""`headrace plan`: the cheapest storage that meets the goals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import (
    AsOfOption,
    GrowthOption,
    Output,
    OutputOption,
    RegionOption,
    WorkloadArgument,
    complete_instance,
    complete_storage,
    complete_type,
    data,
    progress,
    read_workload,
    say,
)
from headrace.cli.plan_transactions import check_settings, plan_database
from headrace.errors import InputError

EPILOG = """\b
Examples:
  headrace plan mysql.toml --goal 'p99_ms<=20' --goal 'throttled_min<=0' --report plan.html
  headrace plan mysql.toml --growth 1.5 --compare gp2:1200 --region eu-west-1
  headrace plan mysql.toml --instances 'r6i.*,m6i.xlarge' --explain
  headrace plan mysql.toml --as-of 2018-08-15 --exclude st1,sc1 --output json
  headrace plan shop.toml --goal 'tps>=300' --goal 'p95_ms<=50' --compare m5.2xlarge+gp2:1200
  headrace plan innodb.toml --against myrocks.toml --goal 'tps>=300' --instances 'r6i.*'
  headrace plan shop.toml --arrivals-tps 250 --goal 'backlog_s<=1' --exclude instance-store

Of a database (a workload that `headrace calibrate` wrote, or sysbench-tpcc:...) the goals are tps, p95_ms, tps_p5 (5th percentile of one-second tps), backlog_s and
usd_month, each held with a probability. What is sustained counts: the worst hour of a warm day, burst credits gone.

Otherwise goals are METRIC<=NUMBER or METRIC>=NUMBER, such as p99_ms, p50_ms, throttled_min, longest_wait_s, lowest_balance_percent,
credits_empty_min, instance_empty_min, unserved_percent, cost_usd_month, headroom_percent, durability_afr_percent. An unknown one lists them all.

Exit code 1 when nothing meets the goals: then the closest are shown, with what they miss."""


def plan(
    workload: WorkloadArgument,
    goal: Annotated[
        list[str] | None,
        typer.Option("--goal", metavar="GOAL", help="Repeatable. Default: p99_ms<=20 and throttled_min<=0; of a database at least one."),
    ] = None,
    size_gib: Annotated[
        float | None, typer.Option("--size-gib", metavar="GIB", help="Data to hold. Default: the workload's, times the growth.")
    ] = None,
    region: RegionOption = "us-east-1",
    as_of: AsOfOption = None,
    growth: GrowthOption = 1.0,
    instances: Annotated[
        list[str] | None,
        typer.Option(
            "--instances",
            metavar="LIST",
            help="Combine with these, by name or pattern: 'm6i.*,r6i.xlarge'. Default: volumes alone; for a database current families m, r, c, i ('none': volumes alone).",
            autocompletion=complete_instance,
        ),
    ] = None,
    max_volumes: Annotated[int, typer.Option("--max-volumes", metavar="N", help="Most members of an array.")] = 8,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="LIST", help="Volume types not to use: st1,sc1.", autocompletion=complete_type)
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="CURRENT",
            help="Today's storage, set beside the answer; for a database INSTANCE+STORAGE[+LOG_STORAGE].",
            autocompletion=complete_storage,
        ),
    ] = None,
    start_balance: Annotated[
        float | None, typer.Option("--start-balance", metavar="PERCENT", help="Credits at the start. Default: as AWS starts them.")
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", metavar="N", help="Database: clients. Default: the workload's.")] = None,
    arrivals_tps: Annotated[
        float | None,
        typer.Option(
            "--arrivals-tps", metavar="TPS", help="Database: this many transactions arrive a second, instead of clients that wait."
        ),
    ] = None,
    start: Annotated[str | None, typer.Option("--start", metavar="cold|warm", help="Database: cache at the start. Default: warm.")] = None,
    hours: Annotated[
        float | None, typer.Option("--hours", metavar="H", help="Database: length looked at; its worst hour counts. Default: 24.")
    ] = None,
    cache_share: Annotated[
        float | None,
        typer.Option(
            "--cache-share",
            metavar="SHARE",
            help="Database: share of an instance's memory for the cache. Default: 0.75, at least 2 GiB left.",
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option("--confidence", metavar="SHARE", help="Database: probability from which a goal counts as met. Default: 0.8."),
    ] = None,
    draws: Annotated[
        int | None, typer.Option("--draws", metavar="N", help="Database: databases drawn from the calibration. Default: 32.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="SEED", help="Database: of those draws. Default: 1.")] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="WORKLOAD", help="Another database under the same goals: InnoDB against MyRocks.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the arithmetic.")] = False,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, max=100, help="How many choices to show.")] = 10,
    output: OutputOption = Output.table,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts (.html).")] = None,
) -> None:
    """Find the cheapest storage that meets every goal, and say why the others lost."""
    from headrace.report.output import check_chart_path
    from headrace.workload import TransactionWorkload

    check_chart_path(report, (".html",))
    load = read_workload(workload)
    own = {"threads": threads, "arrivals_tps": arrivals_tps, "start": start, "hours": hours, "cache_share": cache_share, "confidence": confidence,
           "draws": draws, "seed": seed}  # fmt: skip
    own = check_settings(load, own, against)
    common = {
        "goals": list(goal or ()), "size_gib": size_gib, "region": region, "as_of": as_of, "growth": growth, "instances": listed(instances),
        "max_volumes": max_volumes, "exclude": listed(exclude) or (), "compare": compare, "start_balance": start_balance, "top": top,
    }  # fmt: skip
    if isinstance(load, TransactionWorkload):
        return plan_database(load, None if against is None else read_database(against), common | own, output, explain, report)
    made = make_plan(load, **common)
    if report is not None:
        write_report(report, made, load, start_balance)
    show_plan(made, load, output, explain)
    if not made.winners:
        raise typer.Exit(1)


def read_database(text: str):
    """The workload of --against. Raises InputError where it is no database."""
    from headrace.workload import TransactionWorkload

    load = read_workload(text)
    if not isinstance(load, TransactionWorkload):
        raise InputError(
            f"--against {text}",
            "is no database",
            "headrace plan --help",
            "Give a workload that `headrace calibrate` wrote, or sysbench-tpcc:...",
        )
    return load


def listed(values: list[str] | None) -> list[str] | None:
    """`a,b` and repeated options as one list; None when nothing was given."""
    parts = [part.strip() for value in values or () for part in value.split(",") if part.strip()]
    return parts or None


def make_plan(load, **settings):
    """`headrace.plan` with a progress bar; no goals means its own."""
    from headrace.planner import plan as make

    if not settings["goals"]:
        settings.pop("goals")
    with progress("planning") as tick:
        return make(load, **settings, progress=tick)


DRAWN = 3  # choices whose balance over the day is drawn


def write_report(path: Path, made, load, start_balance: float | None = None) -> None:
    """Simulates the choices worth drawing and writes the page."""
    from headrace.report.pages import write_plan
    from headrace.report.plan import name_of
    from headrace.simulation import simulate

    wanted = (made.winners or made.closest)[:DRAWN]
    credits = [choice for choice in [*made.winners, *made.closest] if choice.volume_type in ("gp2", "st1", "sc1")][:1]
    chosen = {name_of(choice): choice for choice in [*wanted, *credits, *([made.compared] if made.compared else [])]}
    settings = {"as_of": made.as_of, "form": "interval", "growth": made.growth, "start_balance": start_balance}
    runs = [
        (name, simulate(load, choice.storage, instance=choice.instance, **settings)) for name, choice in chosen.items()
    ]  # fmt: skip
    write_plan(path, made, load.scaled(made.growth), runs)
    say(f"report written to {path}")


def show_plan(made, load, output: Output, explain: bool) -> None:
    """Prints a plan in the form asked for."""
    from headrace.report.output import as_csv, as_json
    from headrace.report.plan import CHOICE_RIGHT, choice_table, found, frame_of, verdict_rows

    if output is Output.json:
        return data(as_json({"schema": "headrace-plan/1"} | made.to_dict()))
    if output is Output.csv:
        return data(as_csv(frame_of(made)))
    from headrace.report.tables import show, table

    columns, rows = choice_table(made)
    goals = " and ".join(map(str, made.goals))
    title = f"{load.name}: {goals}, {made.size_gib:g} GiB, demand x {made.growth:g}, {made.region}, {made.as_of}"
    parts = [*(line for line, _ in found(made)), "", table(columns, rows, title=title, right=CHOICE_RIGHT), ""]
    lost = [row for row in verdict_rows(made) if row[1] != "wins"]
    if lost:
        parts += [
            table(("family", "outcome", "best candidate", "USD/month", "why"), lost, title="Why the others lost", right=("USD/month",)),
            "",
        ]
    if explain:
        parts += ["The arithmetic", *(f"  {line}" for line in made.explain), ""]
    parts += [f"note: {name} was left out: {why}" for name, why in made.skipped_instances]
    show(*parts, *(f"note: {note}" for note in made.caveats))
