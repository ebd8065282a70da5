"""`headrace plan`: the storage that meets the goals, for demand in I/Os and for databases in
transactions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.inputs import read_database, read_workload
from headrace.cli.model.replica import ReplicaGoal, plan_for_replica
from headrace.cli.options import (
    AsOfOption,
    Output,
    OutputOption,
    RegionOption,
    ReportOption,
    SetOption,
    StartBalanceOption,
    WorkloadArgument,
    complete_instance,
    complete_type,
    flag,
    option,
    storage_option,
)
from headrace.cli.output import data, print_json, progress, say, show
from headrace.errors import InputError
from headrace.report.output import as_csv, check_chart_path

if TYPE_CHECKING:
    from headrace.planner import Plan
    from headrace.planner.result import EngineComparison
    from headrace.workload import TransactionWorkload

EPILOG = """\b
Examples:
  headrace plan mysql.toml                                      p99 <= 20 ms, nothing throttled, 20 % head-room, 25 % free space
  headrace plan mysql.toml --compare gp2:1200 --report plan.html
  headrace plan mysql.toml --goal 'p99_ms<=10' --months 12 --free-percent 30 --region eu-west-1
  headrace plan mysql.toml --instances 'r6i.*,m6i.xlarge' --compare r6i.2xlarge/gp3:500:6000
  headrace plan mysql.toml --as-of 2018-08-15 --exclude st1,sc1 --output json
  headrace plan shop.toml --goal 'tps>=300' --goal 'p95_ms<=50' --compare m5.2xlarge/gp2:1200,log=gp3:20
  headrace plan innodb.toml --against myrocks.toml --goal 'tps>=300' --instances 'r6i.*'
  headrace plan shop.toml --goal 'tps>=300' --on ec2,rds,aurora      your own server, RDS and Aurora side by side
  headrace plan shop.toml --replica-lag-s 1 --compare r6i.xlarge/gp3:500:6000        the cheapest replica that keeps up

Goals are METRIC<=NUMBER or METRIC>=NUMBER. Metrics of a demand: p99_ms (I/O p99 of the worst five minutes),
overall_p99_ms (I/O p99 of the whole recording), throttled_min, headroom_percent, longest_wait_s,
lowest_balance_percent, durability_afr_percent, cost_usd_month and others; an unknown one lists them all. The defaults
p99_ms<=20, throttled_min<=0 and headroom_percent>=20 stay unless their own metric is given. Metrics of a database
(a workload that `headrace calibrate` wrote, or sysbench-tpcc:...): tps, p50_ms, p95_ms and p99_ms (response times),
tps_p5, backlog_s and others. Each goal of a database is met with a probability; what counts is the worst hour of a warm day.

Recommended is what a DBA would sign: durable volumes, the instance family of today, one volume unless more save at
least 20 % and 20 USD a month. The cheapest that meets every goal is shown too, with the reason for the difference.
Credits are judged in the settled day: the recording repeated until they come back.

--on compares services. A class of RDS and Aurora is db. and the instance's name. RDS lays out its volumes itself and
sells gp3 in two steps: the search finds which side of 400 GiB is cheaper. Aurora is billed at the rate the goals ask for.
What has no price in the tables is left out and named. Services are ranked by their bill alone, whatever a failover
takes and a lost zone costs: --goal zone-loss (nothing is lost with a zone) and --goal failover_s<=120 ask for it.

Storage is written TYPE:SIZE_GIB[:IOPS[:MIB_S]], on an instance INSTANCE/STORAGE, with a log volume
STORAGE,log=STORAGE; + joins unlike members of one array.

Exit code 1 when nothing meets the goals: then the closest are shown, with what they miss."""

INSTANCES = (
    "Combine with these, by name or pattern: 'm6i.*,r6i.xlarge'. Default: volumes alone; for a database "
    "current families m, r, c, i and today's ('none': volumes alone)."
)


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The settings of `headrace.plan`."""

    goals: Annotated[
        list[str] | None, option("GOAL", "A goal. Repeatable. A database needs at least one on performance.", "--goal")
    ] = None
    default_goals: Annotated[
        bool, flag("--default-goals/--no-default-goals", "Keep the default goals whose metric is not given.")
    ] = True
    size_gib: Annotated[float | None, option("GIB", "Data to hold. Default: the workload's, times the growth.")] = None
    free_percent: Annotated[
        float, option("PERCENT", "Share of the volumes that stays free: binlogs, temporary tables, ALTER.")
    ] = 25.0
    on: Annotated[
        str,
        option("SERVICES", "Plan on services: ec2, rds, aurora, or one deployment such as rds:multi-az."),
    ] = "ec2"
    readers: Annotated[int, option("N", "With --on: readers of an Aurora cluster, its writer not counted.")] = 1
    busy_percent: Annotated[
        float, option("PERCENT", "With --on: how much of the month the load runs, for what is billed by use.")
    ] = 100.0
    gib_per_day: Annotated[
        float, option("GIB_PER_DAY", "With --on: data that come in a day; says what RDS's autoscaling makes of it.")
    ] = 0.0
    region: RegionOption = "us-east-1"
    as_of: AsOfOption = None
    growth: Annotated[float, option("FACTOR", "Multiply demand and data: 1.5 is half as much again.")] = 1.0
    demand_growth: Annotated[float | None, option("FACTOR", "Multiply the demand alone.")] = None
    data_growth: Annotated[float | None, option("FACTOR", "Multiply the data alone.")] = None
    months: Annotated[float, option("N", "Plan for N months of the workload's growth a year.")] = 0.0
    instances: Annotated[list[str] | None, option("LIST", INSTANCES, autocompletion=complete_instance)] = None
    max_volumes: Annotated[int, option("N", "Most volumes of an array; 1: no arrays.")] = 8
    allow_instance_store: Annotated[
        bool, flag("--allow-instance-store", "Consider local disks too: all data are gone when the instance stops.")
    ] = False
    exclude: Annotated[
        list[str] | None,
        option("LIST", "Volume types or layouts not to use: st1,sc1,raid10.", autocompletion=complete_type),
    ] = None
    compare: Annotated[
        str | None,
        storage_option("Today's storage, compared with the answer.", metavar="[INSTANCE/]STORAGE[,log=STORAGE]"),
    ] = None
    cycle: Annotated[
        str | None, option("settled|first", "Credits of the repeated recording, or of its first day. Default: settled.")
    ] = None
    start_balance: StartBalanceOption = None
    discount_percent: Annotated[float, option("PERCENT", "Discount on all list prices.")] = 0.0
    price_file: Annotated[Path | None, option("FILE", "Prices of your own: docs/reference/prices.md.")] = None
    commitment: Annotated[
        str, option("KIND", "Instances: on-demand, reserved-1y, reserved-3y, savings-1y or savings-3y.")
    ] = "on-demand"
    nodes: Annotated[int, option("N", "Servers that are paid for: 2 for a pair.")] = 1
    snapshot_days: Annotated[int, option("N", "Daily snapshots kept, on the bill.")] = 0
    daily_change_percent: Annotated[float, option("PERCENT", "Share of the data that changes a day (snapshots).")] = 5.0
    threads: Annotated[int | None, option("N", "Database: clients. Default: the workload's.")] = None
    arrivals_tps: Annotated[
        float | None, option("TPS", "Database: this many transactions arrive a second, instead of clients that wait.")
    ] = None
    start: Annotated[str | None, option("cold|warm", "Database: the cache at the start. Default: warm.")] = None
    hours: Annotated[float | None, option("H", "Database: length looked at; its worst hour counts. Default: 24.")] = (
        None
    )
    binlog_days: Annotated[
        float | None, option("DAYS", "Database: how long binary logs are kept on the server. Default: 1.")
    ] = None
    cache_share: Annotated[
        float | None,
        option("SHARE", "Database: share of an instance's memory for the cache. Default: what `headrace advise` sets."),
    ] = None
    confidence: Annotated[
        float | None, option("SHARE", "Database: probability from which a goal counts as met. Default: 0.8.")
    ] = None
    draws: Annotated[
        int | None, option("N", "Database: random draws from the calibration, at least 1. Default: 32.")
    ] = None
    seed: Annotated[int | None, option("N", "Database: seed for the random draws. Default: 1.")] = None
    top: Annotated[int, option("N", "How many choices to show.", min=1, max=100)] = 10

    def settings(self) -> dict[str, Any]:
        """As `headrace.plan` takes them: lists of what was given with commas or several times."""
        lists = {"goals": self.goals or [], "instances": listed(self.instances), "exclude": listed(self.exclude) or ()}
        return vars(self) | lists


def plan(
    *,
    workload: WorkloadArgument,
    options: PlanOptions,
    replica: ReplicaGoal,
    against: Annotated[
        str | None, option("WORKLOAD", "Database: another database under the same goals: InnoDB against MyRocks.")
    ] = None,
    server: SetOption = None,
    families: Annotated[bool, flag("--families", "Say why every family lost, those far off too.")] = False,
    explain: Annotated[bool, flag("--explain", "Show the arithmetic.")] = False,
    output: OutputOption = "table",
    report: ReportOption = None,
) -> None:
    """Find the storage that meets every goal: what to buy, what it costs, why the others lost, and
    what to do next."""

    check_chart_path(report, (".html",))
    refuse_readers_alone(options)
    if replica.replica_lag_s is not None:
        refuse_set(server)
        if options.on.strip().lower() != "ec2":
            rule = "is not planned together with --replica-lag-s: replicas are planned on EC2"
            hint = "RDS replicas apply the binary log as those on EC2 do: leave --on out, and take the same class and storage."
            raise InputError(f"--on {options.on}", rule, "headrace plan --help", hint)
        usual = PlanOptions().settings()
        if not plan_for_replica(read_database(workload), replica, options.settings(), usual, output, report):
            raise typer.Exit(1)
        return
    replica.check()
    load, other = (
        (read_workload(workload), None) if against is None else (read_database(workload), read_database(against))
    )
    load, other = (on_server(each, server) for each in (load, other))
    made = make_plan(load, other, options.settings())
    if report is not None:
        write_report(report, made, load, options.start_balance)
    show_plan(made, output, explain=explain, families=families)
    if not any(each.recommended for each in plans_of(made)):
        raise typer.Exit(1)


def refuse_set(server: list[str] | None) -> None:
    """Raises InputError: settings of a source, where a replica is planned."""
    if server:
        hint = "Write the settings of the replica with its own options, or leave it out."
        raise InputError(f"--set {server[0]}", "is not for plans of a replica", "headrace plan --help", hint)


def on_server(load: Any, server: list[str] | None) -> Any:
    """The database on a server with these settings. Raises InputError for a demand in I/Os."""
    from headrace.workload import TransactionWorkload
    from headrace.workload.server_settings import with_settings

    if not server or load is None:
        return load
    if not isinstance(load, TransactionWorkload):
        hint = "Give a database: a workload that `headrace calibrate` wrote, or sysbench-tpcc:..."
        rule = "is for databases; this workload is a demand in I/Os"
        raise InputError(f"--set {server[0]}", rule, "headrace plan --help", hint)
    return with_settings(load, server)


def refuse_readers_alone(options: PlanOptions) -> None:
    """Raises InputError: options that mean something on services alone."""
    plain = PlanOptions()
    for name in ("readers", "busy_percent", "gib_per_day"):
        if options.on.strip().lower() == "ec2" and getattr(options, name) != getattr(plain, name):
            hint = "Add --on ec2,rds,aurora, or leave it out."
            raise InputError(f"--{name.replace('_', '-')}", "is an option of --on", "headrace plan --help", hint)


def listed(values: list[str] | None) -> list[str] | None:
    """`a,b` and repeated options as one list; None when nothing was given."""
    parts = [part.strip() for value in values or () for part in value.split(",") if part.strip()]
    return parts or None


def make_plan(load: Any, other: TransactionWorkload | None, settings: dict[str, Any]) -> Plan | EngineComparison:
    """`headrace.plan`, or a comparison of two databases, with a progress bar."""
    from headrace.planner import plan as make
    from headrace.planner import plan_against

    with progress("planning") as tick:
        return (
            make(load, **settings, progress=tick)
            if other is None
            else plan_against(load, other, **settings, progress=tick)
        )


def plans_of(made: Plan | EngineComparison) -> tuple[Plan, ...]:
    """The one plan, or the two of a comparison."""
    from headrace.planner import Plan

    return (made,) if isinstance(made, Plan) else made.plans


def write_report(path: Path, made: Plan | EngineComparison, load: Any, start_balance: float | None = None) -> None:
    """Writes the page, with the balances of the choices worth drawing where they are simulated."""
    from headrace.planner import simulations_of
    from headrace.report.plan import write_plans

    plans = plans_of(made)
    if plans[0].subject == "database":
        write_plans(path, plans, getattr(made, "words", None))
    else:
        demand = load.uncensored().scaled(plans[0].demand_growth)
        write_plans(path, plans, None, demand, simulations_of(plans[0], demand, start_balance))
    say(f"report written to {path}")


def show_plan(made: Plan | EngineComparison, output: Output, *, explain: bool = False, families: bool = False) -> None:
    """Prints a plan, or two, in the form asked for."""
    from headrace.report.plan import frame_of, text_parts

    if output == "json":
        return print_json(made.to_dict())
    plans, words = plans_of(made), getattr(made, "words", None)
    if output == "csv":
        import polars as pl

        frames = [frame_of(plan) for plan in plans]
        if words is not None:
            frames = [
                frame.select(pl.lit(plan.engine).alias("engine"), pl.all())
                for frame, plan in zip(frames, plans, strict=True)
            ]
        return data(as_csv(pl.concat(frames, how="vertical_relaxed")))

    parts: list[object] = [words, ""] if words else []
    for plan in plans:
        parts += [*text_parts(plan, explain=explain, families=families), ""]
    show(*parts[:-1])
