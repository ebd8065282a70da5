"""`headrace fleet`: right-size many volumes at once, each first predicted as it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.checks import check_number
from headrace.base.files import check_output
from headrace.base.options import AsOfText, Region, Seed
from headrace.base.units import DAY_S
from headrace.cli.inputs import RecordingOptions
from headrace.cli.lazy import lazily
from headrace.cli.operate.fleet_report import FleetPriceOptions, fleet_prices, report
from headrace.cli.options import CommandGroup, ForceOption, Output, choice, listed, option
from headrace.cli.output import data, print_json, progress, say, show
from headrace.cli.writing import WRITES_FILE
from headrace.report.output import as_csv

if TYPE_CHECKING:
    import polars as pl

    from headrace.operate.fleet.answer import FleetSettings
    from headrace.operate.fleet.inventory import FleetInventory

with lazily():
    import polars as pl

    from headrace.operate.fleet import answer, importing, on_ray, planning
    from headrace.operate.fleet import inventory as inventory_module
    from headrace.operate.fleet import recordings as fleet_recordings
    from headrace.planner import candidates
    from headrace.report.fleet import words

PlanOutput = Literal[Output, "jsonl"]

EPILOG = """\b
Examples:
  aws ec2 describe-volumes > volumes.json; aws ec2 describe-instances > instances.json
  headrace fleet import metrics-*.json.gz --to points.parquet
  headrace fleet plan points.parquet --inventory volumes.json --inventory instances.json --to answers.parquet

Points are what CloudWatch kept: get-metric-data pages, CSV, or a metric stream (JSON, OpenTelemetry or Parquet), best two weeks of
them. Each volume is first simulated as it is; where that disagrees with what was recorded, no advice is given.
docs/guide/fleet.md."""

app = CommandGroup(
    "Right-size a fleet of volumes: import its metrics, plan, report.", EPILOG, shares=(FleetPriceOptions,)
)
ENDINGS = (".parquet",)  # of what `import` and `plan` write


FILES = (
    "get-metric-data pages, CSV, or a metric stream (JSON lines, OpenTelemetry, Parquet), with or without gzip; a host's "
    "recording (iostat, sar, Prometheus); - is standard input; or aws:vol-..., aws:db-NAME, prometheus:URL."
)
IMPORT_EPILOG = """\b
Examples:
  headrace fleet import page-*.json --to points.parquet               pages of get-metric-data, every one of them
  headrace fleet import 2026/11/*/*.gz --to points.parquet --period 300    a metric stream of minutes as 5 minutes
  headrace fleet import aws:vol-0123456789abcdef0,vol-0123456789abcdef1 --to points.parquet    their last 14 days
  headrace fleet import prometheus:http://prom:9090 --to points.parquet    all hosts of it, by their disks' serial numbers
  headrace fleet import db1.txt --device nvme1n1=vol-0123456789abcdef0 --to points.parquet     what iostat -xt wrote"""
PLAN_EPILOG = """\b
Examples:
  headrace fleet plan points.parquet --inventory volumes.json --inventory instances.json --to answers.parquet
  headrace fleet plan points.parquet --inventory volumes.json --to answers.parquet --p99-ms 2 --output csv > answers.csv
  headrace fleet plan points.parquet --inventory volumes.json --to answers.parquet --output jsonl | grep grow
  headrace fleet plan points.parquet --inventory volumes.json --to answers.parquet --cost cur-2026-10.parquet"""
REPORT_EPILOG = """\b
Examples:
  headrace fleet report answers.parquet --report fleet.html
  headrace fleet report answers.parquet --inventory volumes.json --cost cur.parquet --patch changes/"""


@app.command("import", epilog=IMPORT_EPILOG)
def import_metrics(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help=FILES)],
    to: Annotated[Path, option("FILE", "Parquet file to write.", "--to", "-o"), WRITES_FILE],
    recorded: RecordingOptions,
    period: Annotated[
        float | None, option("S", "Sums and means over this many seconds, 60 to 86,400. Default: as they are.")
    ] = None,
    device: Annotated[
        list[str] | None,
        option("NAME=VOLUME", "The volume behind a device of a host's recording; no other is imported. Repeatable."),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Put the points of many volumes into one Parquet file."""
    if period is not None:
        check_number("--period", period, 60, DAY_S, "s")
    check_output("--to", to, [Path(file) for file in files], endings=ENDINGS, force=force)
    recorded.check_any(files)
    span, volumes_of = recorded.span(), fleet_recordings.parse_devices(device or [])
    recordings = fleet_recordings.RecordingHints(recorded.interval, recorded.clock_start, span, volumes_of)
    with progress("importing") as tick:
        volumes, rows, notes = importing.import_points(files, to, period_s=period, hints=recordings, progress=tick)
    say(f"{rows:,} points of {volumes:,} volumes written to {to}")
    for note in notes:
        say(f"note: {note}")


@app.command("plan", epilog=PLAN_EPILOG)
def plan(
    *,
    points: Annotated[Path, typer.Argument(metavar="POINTS", help="File of `headrace fleet import`.")],
    inventory: Annotated[
        list[Path],
        option(
            "FILE", "JSON of aws ec2 describe-volumes, describe-instances, describe-volumes-modifications. Repeatable."
        ),
    ],
    to: Annotated[Path, option("FILE", "Parquet file to write: an answer for each volume.", "--to", "-o"), WRITES_FILE],
    prices: FleetPriceOptions,
    p99_ms: Annotated[
        float, option("MS", "No advice whose I/O p99 is above this and above today's.", "--p99-ms")
    ] = 5.0,
    headroom: Annotated[float, option("PERCENT", "Spare capacity, because means of minutes hide bursts.")] = 30.0,
    least_days: Annotated[float, option("DAYS", "Volumes with fewer days of points get no advice.")] = 7.0,
    exclude: Annotated[list[str] | None, option("LIST", "Volume types not to advise: st1,sc1.")] = None,
    fortnights: Annotated[int, option("N", "Fortnights that are drawn for the risk; 0: none.")] = 10,
    region: Region = "us-east-1",
    as_of: AsOfText = None,
    seed: Seed = 1,
    ray: Annotated[
        str | None,
        option("CLUSTER", "Answer on this Ray cluster: auto, HOST:6379 or ray://HOST:10001 (headrace[ray])."),
    ] = None,
    output: Annotated[
        PlanOutput, choice("Form of the answer on stdout; jsonl: a line an answer, each as soon as it is there.")
    ] = "table",
    force: ForceOption = False,
) -> None:
    """Answer each volume: unused, change, grow, keep, or no advice, with savings and risk.
    Continues a run that was stopped."""
    check_output("--to", to, (points, *inventory, *prices.files), endings=ENDINGS, force=force)
    settings = answer.FleetSettings(
        p99_ms=p99_ms,
        headroom_percent=headroom,
        region=region,
        as_of=as_of,
        exclude=("standard", *sorted(candidates.check_exclude(listed(exclude) or []) - {"standard"})),
        least_days=least_days,
        fortnights=fortnights,
        seed=seed,
    ).checked()
    fleet_inventory = inventory_module.read_inventory([str(file) for file in inventory])
    notes = list(fleet_inventory.notes)
    settings = _set_prices(settings, fleet_inventory, prices, notes)
    runner = None
    if ray is not None:
        runner = on_ray.ray_runner(ray)
    at_once = _print_lines if output == "jsonl" else None
    try:
        with progress("planning") as tick:
            answers = planning.plan_fleet(
                fleet_inventory, points, settings, to, runner=runner, progress=tick, note=notes.append, answered=at_once
            )
    except KeyboardInterrupt:
        _tell_how_to_go_on(to)
        raise
    if output != "jsonl":
        _show(answers, to, output, settings.prices)
    for text in notes:
        say(f"note: {text}")


def _print_lines(answers: pl.DataFrame) -> None:
    """Prints a line of JSON for each answer, at once."""
    import msgspec

    data("".join(f"{msgspec.json.encode(row).decode()}\n" for row in answers.to_dicts()))
    sys.stdout.flush()


def _set_prices(
    settings: FleetSettings, inventory: FleetInventory, options: FleetPriceOptions, notes: list[str]
) -> FleetSettings:
    """Returns the settings with the prices that the options name; remarks are added to `notes`."""
    import msgspec

    if options == FleetPriceOptions():
        return settings
    prices, more = fleet_prices(options, inventory, settings.as_of, settings.region)
    tables = prices.tables((volume.region or settings.region, volume.account) for volume in inventory.volumes)
    notes += more
    return msgspec.structs.replace(settings, tables=tables, prices=prices.source)


def _tell_how_to_go_on(to: Path) -> None:
    """Says which batches an interrupted run has answered, and how to continue."""
    if batch_count := planning.kept_batches(to):
        batches = "1 batch of volumes is" if batch_count == 1 else f"{batch_count:,} batches of volumes are"
        say(f"{batches} answered and kept in {to}.parts: the same command goes on from there.")
    else:
        say("No batch of volumes was answered yet: the same command begins anew.")


def _show(answers: list, to: Path, output: Output, prices: str) -> None:
    """Prints all answers as JSON or CSV, or the sums and the outstanding ones as tables."""
    best = answer.ranked(answers)
    if output == "json":
        return print_json(answer.answers_frame(best).to_dicts())
    if output == "csv":
        return data(as_csv(answer.answers_frame(best).with_columns(pl.col("volumes").list.join(" "))))
    show(
        f"{words.summary(best)} Prices: {prices}.",
        *(part for table in words.tables(best) for part in ("", table)),
        f"All answers: {to}",
    )


app.command("report", epilog=REPORT_EPILOG)(report)
