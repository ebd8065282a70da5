"""`headrace fleet`: right-size many volumes at once, each first predicted as it is."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.operate.fleet_report import report
from headrace.cli.options import (
    AsOfOption,
    CommandGroup,
    ForceOption,
    Output,
    RegionOption,
    SeedOption,
    choice,
    option,
)
from headrace.cli.output import data, print_json, progress, say, show, table
from headrace.errors import InputError

if TYPE_CHECKING:
    import polars as pl

PlanOutput = Literal[Output, "jsonl"]

EPILOG = """\b
Examples:
  aws ec2 describe-volumes > volumes.json; aws ec2 describe-instances > instances.json
  headrace fleet import metrics-*.json.gz --to points.parquet
  headrace fleet plan points.parquet --inventory volumes.json --inventory instances.json --to answers.parquet

Points are what CloudWatch kept: get-metric-data pages, CSV, or a metric stream (JSON, OpenTelemetry or Parquet), best two weeks of
them. Each volume is first simulated as it is; where that disagrees with what was recorded, no advice is given.
docs/guide/fleet.md."""

app = CommandGroup("Right-size a fleet of volumes: import its metrics, plan, report.", EPILOG)
SHOWN = 20  # rows of a table of thousands


FILES = "get-metric-data pages, CSV, or a metric stream: JSON lines, OpenTelemetry or Parquet, with or without gzip."
IMPORT_EPILOG = """\b
Examples:
  headrace fleet import page-*.json --to points.parquet               pages of get-metric-data, every one of them
  headrace fleet import 2026/11/*/*.gz --to points.parquet --period 300    a metric stream of minutes as 5 minutes"""
PLAN_EPILOG = """\b
Examples:
  headrace fleet plan points.parquet --inventory volumes.json --inventory instances.json --to answers.parquet
  headrace fleet plan points.parquet --inventory volumes.json --to answers.parquet --p99-ms 2 --output csv > answers.csv
  headrace fleet plan points.parquet --inventory volumes.json --to answers.parquet --output jsonl | grep grow"""
REPORT_EPILOG = """\b
Examples:
  headrace fleet report answers.parquet --report fleet.html
  headrace fleet report answers.parquet --inventory volumes.json --cost cur.parquet --patch changes/"""


@app.command("import", epilog=IMPORT_EPILOG)
def import_metrics(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help=FILES)],
    to: Annotated[Path, option("FILE", "Parquet file to write.", "--to", "-o")],
    period: Annotated[
        float | None, option("S", "Sums and means over this many seconds, 60 to 86,400. Default: as they are.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Put the points of many volumes into one Parquet file."""
    from headrace.base.checks import check_number
    from headrace.base.units import DAY_S
    from headrace.operate.fleet.importing import import_points

    if period is not None:
        check_number("--period", period, 60, DAY_S, "s")
    _not_there(to, force)
    with progress("importing") as tick:
        volumes, rows, notes = import_points(files, to, period_s=period, progress=tick)
    say(f"{rows:,} points of {volumes:,} volumes written to {to}")
    for note in notes:
        say(f"note: {note}")


@app.command("plan", epilog=PLAN_EPILOG)
def plan(
    points: Annotated[Path, typer.Argument(metavar="POINTS", help="What `headrace fleet import` wrote.")],
    inventory: Annotated[
        list[Path],
        option(
            "FILE", "JSON of aws ec2 describe-volumes, describe-instances, describe-volumes-modifications. Repeatable."
        ),
    ],
    to: Annotated[Path, option("FILE", "Parquet file to write: an answer for each volume.", "--to", "-o")],
    p99_ms: Annotated[
        float, option("MS", "No advice whose I/O p99 is above this and above today's.", "--p99-ms")
    ] = 5.0,
    headroom: Annotated[
        float, option("PERCENT", "Growth that is carried without throttling: what means of minutes hide.")
    ] = 30.0,
    least_days: Annotated[float, option("DAYS", "Volumes with fewer days of points get no advice.")] = 7.0,
    exclude: Annotated[list[str] | None, option("LIST", "Volume types not to advise: st1,sc1.")] = None,
    fortnights: Annotated[int, option("N", "Fortnights that are drawn for the risk; 0: none.")] = 10,
    region: RegionOption = "us-east-1",
    as_of: AsOfOption = None,
    seed: SeedOption = 1,
    ray: Annotated[
        str | None,
        option("CLUSTER", "Answer on this Ray cluster: auto, HOST:6379 or ray://HOST:10001 (headrace[ray])."),
    ] = None,
    output: Annotated[
        PlanOutput, choice("What to print on stdout; jsonl: a line an answer, each as soon as it is there.")
    ] = "table",
    force: ForceOption = False,
) -> None:
    """Answer each volume: change, grow, keep, or no advice, with savings and risk. Continues a run
    that was stopped."""
    from headrace.cli.model.plan import listed
    from headrace.operate.fleet.answer import FleetSettings
    from headrace.operate.fleet.inventory import read_inventory
    from headrace.operate.fleet.planning import plan_fleet
    from headrace.planner.candidates import check_exclude

    _not_there(to, force)
    settings = FleetSettings(
        p99_ms=p99_ms,
        headroom_percent=headroom,
        region=region,
        as_of=as_of,
        exclude=("standard", *sorted(check_exclude(listed(exclude) or []) - {"standard"})),
        least_days=least_days,
        fortnights=fortnights,
        seed=seed,
    )
    found = read_inventory([str(file) for file in inventory])
    runner = None
    if ray is not None:
        from headrace.operate.fleet.on_ray import ray_runner

        runner = ray_runner(ray)
    with progress("planning") as tick:
        notes = list(found.notes)
        at_once = _print_lines if output == "jsonl" else None
        answers = plan_fleet(
            found, points, settings, to, runner=runner, progress=tick, note=notes.append, answered=at_once
        )
    if output != "jsonl":
        _show(answers, to, output)
    for text in notes:
        say(f"note: {text}")


def _print_lines(answers: pl.DataFrame) -> None:
    """Prints a line of JSON for each answer, at once."""
    import msgspec

    data("".join(f"{msgspec.json.encode(row).decode()}\n" for row in answers.to_dicts()))
    sys.stdout.flush()


def _not_there(to: Path, force: bool) -> None:
    if to.exists() and not force:
        raise InputError(str(to), "is there already", "", "Give --force to overwrite it.")


def _show(answers: list, to: Path, output: Output) -> None:
    """Prints all answers as JSON or CSV, or what saves most as a table."""
    from headrace.operate.fleet.answer import answers_frame, ranked
    from headrace.report.output import as_csv
    from headrace.report.words import percent, usd

    best = ranked(answers)
    if output == "json":
        return print_json(answers_frame(best).to_dicts())
    if output == "csv":
        import polars as pl

        return data(as_csv(answers_frame(best).with_columns(pl.col("volumes").list.join(" "))))
    counts = Counter(one.verdict for one in answers)
    saved = sum(one.saves_usd for one in answers if one.verdict == "change")
    more = -sum(one.saves_usd for one in answers if one.verdict == "grow")
    lines = [
        f"{len(answers):,} volumes: {counts['change']:,} to change, saving {usd(saved)} a month at list prices; {counts['grow']:,} too "
        f"small, {usd(more)} more a month; {counts['keep']:,} right as they are; {counts['withheld']:,} without advice.",
        "",
    ]
    rows = [
        (one.key, one.today, one.wanted, usd(one.saves_usd), "-" if one.risk is None else percent(one.risk), one.why)
        for one in best[:SHOWN]
        if one.wanted
    ]
    withheld = Counter(
        one.why.partition(":")[0] if one.why.startswith("not modelled") else one.why
        for one in answers
        if one.verdict == "withheld"
    )
    tail = [f"Without advice, {count:,}: {why}." for why, count in withheld.most_common(5)]
    show(*lines, table(("volume", "today", "advised", "saves/month", "risk", "why"), rows), *tail, f"All answers: {to}")


app.command("report", epilog=REPORT_EPILOG)(report)
