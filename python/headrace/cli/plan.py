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

EPILOG = """\b
Examples:
  headrace plan mysql.toml --goal 'p99_ms<=20' --goal 'throttled_min<=0' --report plan.html
  headrace plan mysql.toml --growth 1.5 --compare gp2:1200 --region eu-west-1
  headrace plan mysql.toml --instances 'r6i.*,m6i.xlarge' --explain
  headrace plan mysql.toml --as-of 2018-08-15 --exclude st1,sc1 --output json

Goals are METRIC<=NUMBER or METRIC>=NUMBER, such as p99_ms, p50_ms, throttled_min, longest_wait_s, lowest_balance_percent,
credits_empty_min, instance_empty_min, unserved_percent, cost_usd_month, headroom_percent, durability_afr_percent. An unknown one lists them all.

Exit code 1 when nothing meets the goals: then the closest are shown, with what they miss."""


def plan(
    workload: WorkloadArgument,
    goal: Annotated[
        list[str] | None, typer.Option("--goal", metavar="GOAL", help="Repeatable. Default: p99_ms<=20 and throttled_min<=0.")
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
            help="Combine with these, by name or pattern: 'm6i.*,r6i.xlarge'. Default: volumes alone.",
            autocompletion=complete_instance,
        ),
    ] = None,
    max_volumes: Annotated[int, typer.Option("--max-volumes", metavar="N", help="Most members of an array.")] = 8,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="LIST", help="Volume types not to use: st1,sc1.", autocompletion=complete_type)
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="CURRENT", help="Today's storage, set beside the answer.", autocompletion=complete_storage),
    ] = None,
    start_balance: Annotated[
        float | None, typer.Option("--start-balance", metavar="PERCENT", help="Credits at the start. Default: as AWS starts them.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the arithmetic.")] = False,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, max=100, help="How many choices to show.")] = 10,
    output: OutputOption = Output.table,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts (.html).")] = None,
) -> None:
    """Find the cheapest storage that meets every goal, and say why the others lost."""
    from headrace.report.output import check_chart_path

    check_chart_path(report, (".html",))
    load = read_workload(workload)
    made = make_plan(
        load, goals=list(goal or ()), size_gib=size_gib, region=region, as_of=as_of, growth=growth, instances=listed(instances),
        max_volumes=max_volumes,
        exclude=listed(exclude) or (), compare=compare, start_balance=start_balance, top=top,
    )  # fmt: skip
    if report is not None:
        write_report(report, made, load, start_balance)
    show_plan(made, load, output, explain)
    if not made.winners:
        raise typer.Exit(1)


def listed(values: list[str] | None) -> list[str] | None:
    """`a,b` and repeated options as one list; None when nothing was given."""
    parts = [part.strip() for value in values or () for part in value.split(",") if part.strip()]
    return parts or None


def make_plan(load, **settings):
    """`headrace.plan` with a progress bar; no goals means its own."""
    from headrace.plan import plan as make

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
