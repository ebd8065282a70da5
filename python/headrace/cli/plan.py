"""`headrace plan`: the storage that meets the goals, for demand in I/Os and for databases in transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import (
    AsOfOption,
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
from headrace.errors import InputError

EPILOG = """\b
Examples:
  headrace plan mysql.toml                                      p99 <= 20 ms, nothing throttled, 20 % head-room, 25 % free space
  headrace plan mysql.toml --compare gp2:1200 --report plan.html
  headrace plan mysql.toml --goal 'p99_ms<=10' --months 12 --free-percent 30 --region eu-west-1
  headrace plan mysql.toml --instances 'r6i.*,m6i.xlarge' --compare r6i.2xlarge/gp3:500:6000
  headrace plan mysql.toml --as-of 2018-08-15 --exclude st1,sc1 --output json
  headrace plan shop.toml --goal 'tps>=300' --goal 'p95_ms<=50' --compare m5.2xlarge/gp2:1200,log=gp3:20
  headrace plan innodb.toml --against myrocks.toml --goal 'tps>=300' --instances 'r6i.*'

Goals are METRIC<=NUMBER or METRIC>=NUMBER. Of a demand: p99_ms (I/O latency of the worst five minutes), overall_p99_ms (of the whole recording), throttled_min, headroom_percent,
longest_wait_s, lowest_balance_percent, durability_afr_percent, cost_usd_month and others; an unknown one lists them all. The defaults p99_ms<=20, throttled_min<=0 and
headroom_percent>=20 stay unless their own metric is given. Of a database (a workload that `headrace calibrate` wrote, or sysbench-tpcc:...): tps, p95_ms (response time), tps_p5,
backlog_s and the others, each held with a probability; what is sustained is the worst hour of a warm day.

Recommended is what a DBA would sign: durable volumes, the instance family of today, one volume unless more save at least 20 % and 20 USD a month. The cheapest that meets every goal
stands beside it, with the reason for the difference. Credits are judged in the settled day: the recording repeated until they come back.

Storage is written TYPE:SIZE_GIB[:IOPS[:MIB_S]], on an instance INSTANCE/STORAGE, with a log volume STORAGE,log=STORAGE; + joins unlike members of one array.

Exit code 1 when nothing meets the goals: then the closest are shown, with what they miss."""

Goals = Annotated[list[str] | None, typer.Option("--goal", metavar="GOAL", help="Repeatable. Of a database at least one on performance.")]


def plan(
    workload: WorkloadArgument,
    goal: Goals = None,
    default_goals: Annotated[
        bool, typer.Option("--default-goals/--no-default-goals", help="Keep the default goals whose metric is not given.")
    ] = True,
    size_gib: Annotated[
        float | None, typer.Option("--size-gib", metavar="GIB", help="Data to hold. Default: the workload's, times the growth.")
    ] = None,
    free_percent: Annotated[
        float, typer.Option("--free-percent", metavar="PERCENT", help="Of the volumes that stays free: binlogs, temporary tables, ALTER.")
    ] = 25.0,
    region: RegionOption = "us-east-1",
    as_of: AsOfOption = None,
    growth: Annotated[float, typer.Option("--growth", metavar="FACTOR", help="Multiply demand and data: 1.5 is half as much again.")] = 1.0,
    demand_growth: Annotated[float | None, typer.Option("--demand-growth", metavar="FACTOR", help="Multiply the demand alone.")] = None,
    data_growth: Annotated[float | None, typer.Option("--data-growth", metavar="FACTOR", help="Multiply the data alone.")] = None,
    months: Annotated[float, typer.Option("--months", metavar="N", help="Plan for so many months of the workload's growth a year.")] = 0.0,
    instances: Annotated[
        list[str] | None,
        typer.Option(
            "--instances",
            metavar="LIST",
            help="Combine with these, by name or pattern: 'm6i.*,r6i.xlarge'. Default: volumes alone; of a database current families m, r, c, i "
            "and today's ('none': volumes alone).",
            autocompletion=complete_instance,
        ),
    ] = None,
    max_volumes: Annotated[int, typer.Option("--max-volumes", metavar="N", help="Most volumes of an array; 1: no arrays.")] = 8,
    allow_instance_store: Annotated[
        bool, typer.Option("--allow-instance-store", help="Local disks too: all data are gone when the instance stops.")
    ] = False,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="LIST", help="Volume types or layouts not to use: st1,sc1,raid10.", autocompletion=complete_type),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="TODAY",
            help="Today's [INSTANCE/]STORAGE[,log=STORAGE], set beside the answer.",
            autocompletion=complete_storage,
        ),
    ] = None,
    cycle: Annotated[
        str | None,
        typer.Option("--cycle", metavar="settled|first", help="Credits of the repeated recording, or of its first day. Default: settled."),
    ] = None,
    start_balance: Annotated[
        float | None,
        typer.Option("--start-balance", metavar="PERCENT", help="Credits at the start of the first day. Default: as AWS starts them."),
    ] = None,
    discount: Annotated[float, typer.Option("--discount", metavar="PERCENT", help="Off all list prices.")] = 0.0,
    price_file: Annotated[Path | None, typer.Option("--price-file", metavar="FILE", help="Own prices: docs/reference/prices.md.")] = None,
    commitment: Annotated[
        str, typer.Option("--commitment", metavar="KIND", help="Instances: on-demand, reserved-1y, reserved-3y, savings-1y or savings-3y.")
    ] = "on-demand",
    nodes: Annotated[int, typer.Option("--nodes", metavar="N", help="Servers that are paid for: 2 for a pair.")] = 1,
    snapshot_days: Annotated[int, typer.Option("--snapshot-days", metavar="N", help="Daily snapshots kept, on the bill.")] = 0,
    daily_change_percent: Annotated[
        float, typer.Option("--daily-change", metavar="PERCENT", help="Of the data that changes a day, for the snapshots.")
    ] = 5.0,
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
            help="Database: share of an instance's memory for the cache. Default: what `headrace advise` sets.",
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
    families: Annotated[bool, typer.Option("--families", help="Say why every family lost, those far off too.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the arithmetic.")] = False,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, max=100, help="How many choices to show.")] = 10,
    output: OutputOption = Output.table,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts (.html).")] = None,
) -> None:
    """Find the storage that meets every goal: what to buy, what it costs, why the others lost, and what to do next."""
    from headrace.report.output import check_chart_path

    check_chart_path(report, (".html",))
    load, other = read_workload(workload), None if against is None else read_database(workload, against)
    settings = {
        "goals": list(goal or ()), "default_goals": default_goals, "size_gib": size_gib, "free_percent": free_percent, "region": region, "as_of": as_of,
        "growth": growth, "demand_growth": demand_growth, "data_growth": data_growth, "months": months, "instances": listed(instances),
        "max_volumes": max_volumes, "allow_instance_store": allow_instance_store, "exclude": listed(exclude) or (), "compare": compare, "cycle": cycle,
        "start_balance": start_balance, "discount_percent": discount, "price_file": price_file, "commitment": commitment, "nodes": nodes,
        "snapshot_days": snapshot_days, "daily_change_percent": daily_change_percent, "threads": threads, "arrivals_tps": arrivals_tps, "start": start,
        "hours": hours, "cache_share": cache_share, "confidence": confidence, "draws": draws, "seed": seed, "top": top,
    }  # fmt: skip
    made = make_plan(load, other, settings)
    if report is not None:
        write_report(report, made, load, settings["start_balance"])
    show_plan(made, output, explain=explain, families=families)
    if not any(each.recommended for each in plans_of(made)):
        raise typer.Exit(1)


def read_database(workload: str, against: str):
    """The workload of --against; both must be databases. Raises InputError."""
    from headrace.workload import TransactionWorkload

    for name, text in (("WORKLOAD", workload), ("--against", against)):
        load = read_workload(text)
        if not isinstance(load, TransactionWorkload):
            hint = "Give a workload that `headrace calibrate` wrote, or sysbench-tpcc:..."
            raise InputError(f"{name} {text}", "is no database; --against compares two", "headrace plan --help", hint)
    return load


def listed(values: list[str] | None) -> list[str] | None:
    """`a,b` and repeated options as one list; None when nothing was given."""
    parts = [part.strip() for value in values or () for part in value.split(",") if part.strip()]
    return parts or None


def make_plan(load, other, settings: dict):
    """`headrace.plan`, or a comparison of two databases, with a progress bar."""
    from headrace.planner import plan as make
    from headrace.planner import plan_against

    with progress("planning") as tick:
        return make(load, **settings, progress=tick) if other is None else plan_against(load, other, **settings, progress=tick)


def plans_of(made) -> tuple:
    """The one plan, or the two of a comparison."""
    return getattr(made, "plans", (made,))


DRAWN = 3  # choices whose balance over the day is drawn


def write_report(path: Path, made, load, start_balance: float | None = None) -> None:
    """Simulates the choices worth drawing and writes the page."""
    from headrace.report.plan import write_plans

    first = plans_of(made)[0]
    if first.subject == "database":
        write_plans(path, plans_of(made), getattr(made, "words", None))
    else:
        asked = load.uncensored().scaled(first.demand_growth)
        write_plans(path, [first], None, asked, simulated(first, asked, start_balance))
    say(f"report written to {path}")


def simulated(made, asked, start_balance: float | None) -> list[tuple[str, object]]:
    """Names and simulations of the choices whose balance is drawn."""
    from headrace.simulation.demand import simulate

    shown = [made.recommended, *made.winners, *made.closest]
    known = [choice for choice in shown if choice is not None]
    credits = [choice for choice in known if choice.volume_type in ("gp2", "st1", "sc1")][:1]
    wanted = [*known[:DRAWN], *credits, *([made.compared] if made.compared else [])]
    chosen = {f"{choice.storage} on {choice.instance}" if choice.instance else choice.storage: choice for choice in wanted}
    settings = {"as_of": made.as_of, "form": "interval", "start_balance": start_balance, "cycle": made.cycle}
    return [(name, simulate(asked, choice.storage, instance=choice.instance, **settings)) for name, choice in chosen.items()]


def show_plan(made, output: Output, *, explain: bool = False, families: bool = False) -> None:
    """Prints a plan, or two, in the form asked for."""
    from headrace.report.output import as_csv, as_json
    from headrace.report.plan import frame_of, text_parts

    if output is Output.json:
        return data(as_json(made.to_dict()))
    plans, words = plans_of(made), getattr(made, "words", None)
    if output is Output.csv:
        import polars as pl

        frames = [frame_of(plan) for plan in plans]
        if words is not None:
            frames = [frame.select(pl.lit(plan.engine).alias("engine"), pl.all()) for frame, plan in zip(frames, plans, strict=True)]
        return data(as_csv(pl.concat(frames, how="vertical_relaxed")))
    from headrace.report.tables import show

    parts = [words, ""] if words else []
    for plan in plans:
        parts += [*text_parts(plan, explain=explain, families=families), ""]
    show(*parts[:-1])
