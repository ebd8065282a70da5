"""`headrace fleet`: the volumes of many servers right-sized, and the advice applied."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.checks import check_number
from headrace.base.files import check_output
from headrace.base.lazy import defer_imports
from headrace.base.options import AsOfText, Region, Seed
from headrace.base.units import DAY_S
from headrace.cli.inputs import RecordingOptions
from headrace.cli.options import (
    CommandGroup,
    ForceOption,
    Output,
    OutputOption,
    PageOrChartOption,
    make_choice,
    make_flag,
    make_option,
    split_list,
)
from headrace.cli.output import print_csv, print_data, print_json, say, say_each, show, show_progress, write_report
from headrace.cli.sharing import read_epilog
from headrace.cli.writing import WRITES_FILE
from headrace.errors import Refusals
from headrace.operate.fleet import MOST_RISK_PERCENT
from headrace.report.output import as_csv, check_chart_path, write_text

if TYPE_CHECKING:
    import polars as pl

    from headrace.operate.fleet.advised import AdvisedChanges
    from headrace.operate.fleet.answer import FleetSettings, VolumeAnswer
    from headrace.operate.fleet.inventory import FleetInventory

with defer_imports():
    import polars as pl

    from headrace.catalog import facts
    from headrace.operate.fleet import advised as fleet_advised
    from headrace.operate.fleet import answer, importing, on_ray, planning
    from headrace.operate.fleet import cost as fleet_cost
    from headrace.operate.fleet import inventory as inventory_module
    from headrace.operate.fleet import recordings as fleet_recordings
    from headrace.operate.fleet.applying import scripts as applying_scripts
    from headrace.operate.fleet.applying import terraform as applying_terraform
    from headrace.planner import candidates
    from headrace.report.fleet import page as fleet_page
    from headrace.report.fleet import words


# --- reports --------------------------------------------------------------------------------------


refuse = Refusals("headrace fleet report --help")
MOST_LISTED = 5  # pairs of account and region whose rates are noted one by one; a fleet may have hundreds


@dataclass(frozen=True, kw_only=True)
class FleetPriceOptions:
    """Options about prices of volumes."""

    cost: Annotated[
        list[Path] | None,
        make_option("FILE", "Cost and Usage Report (CUR 2.0), Parquet or CSV: prices are what was paid. Repeatable."),
    ] = None
    discount_percent: Annotated[float, make_option("PERCENT", "Discount on list prices, percent.")] = 0.0
    price_file: Annotated[Path | None, make_option("FILE", "File with your own rates (docs/reference/prices.md).")] = (
        None
    )

    @property
    def files(self) -> list[Path]:
        """The files that these options name."""
        return [*(self.cost or []), *([self.price_file] if self.price_file else [])]


@dataclass(frozen=True, kw_only=True)
class FleetPatchOptions:
    """Options about scripts and diffs to apply."""

    patch: Annotated[
        Path | None, make_option("DIR", "Write patch.sh and rollback.sh there, and terraform.diff if there is a state.")
    ] = None
    max_per_hour: Annotated[int, make_option("N", "Changes that patch.sh begins in an hour.", min=1)] = 30
    max_risk_percent: Annotated[
        float, make_option("PERCENT", "Leave out changes of more risk than this.", min=0, max=100)
    ] = MOST_RISK_PERCENT
    with_growth: Annotated[bool, make_flag("--with-growth", "Patch what needs more too, not only what saves.")] = False
    lower_durability: Annotated[
        bool, make_flag("--lower-durability", "Patch changes too that lower the durability: io2 to another type.")
    ] = False
    terraform_state: Annotated[Path | None, make_option("FILE", "Output of terraform show -json.")] = None
    terraform_dir: Annotated[Path | None, make_option("DIR", "The root module's folder. Default: the state's.")] = None


def report(
    *,
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="File of `headrace fleet plan`.")],
    prices: FleetPriceOptions,
    patching: FleetPatchOptions,
    inventory: Annotated[
        list[Path] | None,
        make_option("FILE", "The inventory that the plan was made with; --cost and --patch need it. Repeatable."),
    ] = None,
    as_of: AsOfText = None,
    page: PageOrChartOption = None,
    output: OutputOption = "table",
    force: ForceOption = False,
) -> None:
    """Show the answers for a fleet, and write a page or the changes: an AWS CLI script with its
    rollback, a diff of Terraform files. Changes nothing itself."""
    check_chart_path(page)
    as_of = facts.check_day(as_of)
    state = [patching.terraform_state] if patching.terraform_state else []
    inputs = [answers, *(inventory or []), *prices.files, *state]
    fleet_answers = fleet_advised.read_answers(answers)
    fleet_inventory = inventory_module.read_inventory([str(file) for file in inventory]) if inventory else None
    notes = list(fleet_inventory.notes) if fleet_inventory else []
    price_words = words.describe_prices(fleet_answers)
    if prices != FleetPriceOptions():
        new_prices, more = read_fleet_prices(prices, fleet_inventory, as_of)
        fleet_answers, searched = fleet_advised.reprice(fleet_answers, new_prices), price_words
        price_words = words.describe_prices(fleet_answers)
        notes += more
        if searched != price_words:
            notes.append(
                f"The advice was searched at {searched}: give the same options to fleet plan to search at these."
            )
    write_report(page, lambda: fleet_page.build_view(fleet_answers, price_words, notes))
    if patching.patch is not None:
        if fleet_inventory is None:
            raise refuse.input("--patch", "needs the inventory, to know what is there", "Give --inventory.")
        _write_changes(fleet_answers, fleet_inventory, patching, patching.patch, as_of, force, inputs)
    elif patching.terraform_state is not None:
        raise refuse.input("--terraform-state", "is of --patch", "Add --patch DIR.")
    if output == "json":
        print_json(words.build_document(fleet_answers, price_words))
    elif output == "csv":
        print_csv(words.list_csv_rows(fleet_answers), words.CSV)
    else:
        show(words.build_view(fleet_answers, price_words))
    say_each("note", notes)


def read_fleet_prices(
    prices: FleetPriceOptions, inventory: FleetInventory | None, as_of: str | None, region: str = ""
) -> tuple[fleet_cost.FleetPrices, list[str]]:
    """Returns the prices that the options name, and notes about them. `region`: of volumes whose
    inventory has none. Raises InputError for a cost report without an inventory."""
    if not prices.cost:
        return fleet_cost.FleetPrices(as_of, prices.discount_percent, prices.price_file), []
    if inventory is None:
        raise refuse.input("--cost", "needs the inventory, to know the volumes' regions", "Give --inventory.")
    regions = {volume.id: volume.region or region for volume in inventory.volumes}
    accounts = {volume.id: volume.account for volume in inventory.volumes if volume.account}
    paid = fleet_cost.read_cost_report(prices.cost, regions, accounts)
    own_prices = fleet_cost.FleetPrices(as_of, prices.discount_percent, prices.price_file, paid)
    rate_words = [
        table.words
        for table in own_prices.list_tables((regions[volume.id], volume.account) for volume in inventory.volumes)
    ]
    notes = [f"Prices in {text}." for text in rate_words[:MOST_LISTED]]
    if len(rate_words) > MOST_LISTED:
        notes.append(f"{len(rate_words) - MOST_LISTED:,} more pairs of region and account have their own rates too.")
    return own_prices, [*notes, *paid.notes]


def _write_changes(
    answers: Sequence[VolumeAnswer],
    inventory: FleetInventory,
    options: FleetPatchOptions,
    folder: Path,
    as_of: str | None,
    force: bool,
    inputs: Sequence[Path],
) -> None:
    """Writes the scripts and the Terraform diff of the advised changes into a folder, and says
    which changes are not in them. Raises InputError."""
    advised = fleet_advised.list_advised_changes(
        answers,
        inventory,
        most_risk=options.max_risk_percent / 100,
        grow=options.with_growth,
        lower_durability=options.lower_durability,
        as_of=as_of,
    )
    files: dict[str, str] = {}
    scripts = applying_scripts.build_patch_scripts(advised.changes, as_of, options.max_per_hour)
    for script in scripts:
        ending = f"-{script.account or 'unknown'}" if len(scripts) > 1 else ""
        files |= {f"patch{ending}.sh": script.patch, f"rollback{ending}.sh": script.rollback}
    if options.terraform_state is not None:
        root = options.terraform_dir or options.terraform_state.parent
        terraform = applying_terraform.build_terraform_patch(options.terraform_state, root, advised.changes)
        files |= {"terraform.diff": terraform.diff} if terraform.diff else {}
        for note in terraform.notes:
            say(f"terraform: {note.address + ': ' if note.address else ''}{note.what}")
    _write_files(folder, files, force, inputs)
    _say_changes(advised, folder, files)


def _write_files(folder: Path, files: dict[str, str], force: bool, inputs: Sequence[Path]) -> None:
    """Writes the files of a change into a folder, which is made if needed; scripts may be run.
    Raises InputError before anything is overwritten unasked."""
    if not folder.is_dir():
        if folder.exists():
            rule = "is a file, and a folder is needed"
            raise refuse.input(f"--patch {folder}", rule, "Name another folder; it is made if it is not there.")
        check_output("--patch", folder)  # the folder it is in must be there
        folder.mkdir()
    for name in files:
        check_output("--patch", folder / name, inputs, force=force)
    for name, text in files.items():
        write_text(folder / name, text)
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)


def _say_changes(advised: AdvisedChanges, folder: Path, files: dict[str, str]) -> None:
    """Says on stderr which files were written, and which changes are in them."""
    for name in files:
        say(f"written: {folder / name}")
    for line in advised.describe():
        say(line)


# --- commands -------------------------------------------------------------------------------------


PlanOutput = Literal[Output, "jsonl"]

EPILOG = read_epilog("fleet")

app = CommandGroup(
    "Right-size a fleet of volumes: import its metrics, plan, report.", EPILOG, shares=(FleetPriceOptions,)
)
ENDINGS = (".parquet",)  # of what `import` and `plan` write


FILES = (
    "get-metric-data pages, CSV, or a metric stream (JSON lines, OpenTelemetry, Parquet), with or without gzip; a host's "
    "recording (iostat, sar, Prometheus); - is standard input; or aws:vol-..., aws:db-NAME, prometheus:URL."
)
IMPORT_EPILOG = read_epilog("fleet-import")
PLAN_EPILOG = read_epilog("fleet-plan")
REPORT_EPILOG = read_epilog("fleet-report")


@app.command("import", epilog=IMPORT_EPILOG)
def import_metrics(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help=FILES)],
    to: Annotated[Path, make_option("FILE", "Parquet file to write.", "--to", "-o"), WRITES_FILE],
    recorded: RecordingOptions,
    period: Annotated[
        float | None,
        make_option(
            "S",
            "Period of the written points, 60 to 86,400 s, and of points that state none, unless --interval "
            "gives it. Default: the period of the points.",
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        make_option(
            "NAME=VOLUME", "The volume behind a device of a host's recording; no other is imported. Repeatable."
        ),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Put the points of many volumes into one Parquet file."""
    if period is not None:
        check_number("--period", period, 60, DAY_S, "s")
    check_output("--to", to, [Path(file) for file in files], endings=ENDINGS, force=force)
    recorded.check_any(files)
    span, volumes_of = recorded.read_span(), fleet_recordings.parse_devices(device or [])
    recordings = fleet_recordings.RecordingHints(recorded.interval, recorded.clock_start, span, volumes_of)
    with show_progress("importing") as tick:
        volumes, rows, notes = importing.import_points(files, to, period_s=period, hints=recordings, progress=tick)
    say(f"{rows:,} points of {volumes:,} volumes written to {to}")
    say_each("note", notes)


@app.command("plan", epilog=PLAN_EPILOG)
def plan(
    *,
    points: Annotated[Path, typer.Argument(metavar="POINTS", help="File of `headrace fleet import`.")],
    inventory: Annotated[
        list[Path],
        make_option(
            "FILE", "JSON of aws ec2 describe-volumes, describe-instances, describe-volumes-modifications. Repeatable."
        ),
    ],
    to: Annotated[
        Path, make_option("FILE", "Parquet file to write: an answer for each volume.", "--to", "-o"), WRITES_FILE
    ],
    prices: FleetPriceOptions,
    p99_ms: Annotated[
        float, make_option("MS", "Highest I/O p99 of advised storage, or today's if that is higher.", "--p99-ms")
    ] = 5.0,
    headroom: Annotated[
        float, make_option("PERCENT", "Additional demand that advised storage must serve, because means hide bursts.")
    ] = 30.0,
    least_days: Annotated[float, make_option("DAYS", "Volumes with fewer days of points get no advice.")] = 7.0,
    exclude: Annotated[list[str] | None, make_option("LIST", "Volume types not to advise: st1,sc1.")] = None,
    fortnights: Annotated[int, make_option("N", "Fortnights that are drawn for the risk; 0: none.")] = 10,
    region: Region = "us-east-1",
    as_of: AsOfText = None,
    seed: Seed = 1,
    ray: Annotated[
        str | None,
        make_option("CLUSTER", "Answer on this Ray cluster: auto, HOST:6379 or ray://HOST:10001 (headrace[ray])."),
    ] = None,
    output: Annotated[
        PlanOutput, make_choice("Form of the answer on stdout; jsonl: a line an answer, each as soon as it is there.")
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
        exclude=("standard", *sorted(candidates.check_exclude(split_list(exclude) or []) - {"standard"})),
        least_days=least_days,
        fortnights=fortnights,
        seed=seed,
    ).validate()
    fleet_inventory = inventory_module.read_inventory([str(file) for file in inventory])
    notes = list(fleet_inventory.notes)
    settings = _set_prices(settings, fleet_inventory, prices, notes)
    runner = None
    if ray is not None:
        runner = on_ray.make_ray_runner(ray)
    at_once = _print_lines if output == "jsonl" else None
    try:
        with show_progress("planning") as tick:
            answers = planning.plan_fleet(
                fleet_inventory, points, settings, to, runner=runner, progress=tick, note=notes.append, answered=at_once
            )
    except KeyboardInterrupt:
        _explain_continuation(to)
        raise
    if output != "jsonl":
        _show_answers(answers, to, output, settings.prices)
    say_each("note", notes)


def _print_lines(answers: pl.DataFrame) -> None:
    """Prints answers as JSON, one object a line."""
    import msgspec

    print_data("".join(f"{msgspec.json.encode(row).decode()}\n" for row in answers.to_dicts()))
    sys.stdout.flush()


def _set_prices(
    settings: FleetSettings, inventory: FleetInventory, options: FleetPriceOptions, notes: list[str]
) -> FleetSettings:
    """Returns the settings with the prices that the options name; appends to `notes`."""
    import msgspec

    if options == FleetPriceOptions():
        return settings
    prices, more = read_fleet_prices(options, inventory, settings.as_of, settings.region)
    tables = prices.list_tables((volume.region or settings.region, volume.account) for volume in inventory.volumes)
    notes += more
    return msgspec.structs.replace(settings, tables=tables, prices=prices.source)


def _explain_continuation(to: Path) -> None:
    """Says how many batches of volumes an interrupted run has answered, and how to continue."""
    if batch_count := planning.count_answered_batches(to):
        batches = "1 batch of volumes is" if batch_count == 1 else f"{batch_count:,} batches of volumes are"
        say(f"{batches} answered and kept in {to}.parts: the same command goes on from there.")
    else:
        say("No batch of volumes was answered yet: the same command begins anew.")


def _show_answers(answers: list, to: Path, output: Output, prices: str) -> None:
    """Prints all answers as JSON or CSV, or their sums and those worth most as tables."""
    best = answer.rank_answers(answers)
    if output == "json":
        return print_json(answer.build_answers_frame(best).to_dicts())
    if output == "csv":
        return print_data(as_csv(answer.build_answers_frame(best).with_columns(pl.col("volumes").list.join(" "))))
    show(
        f"{words.summarise_answers(best)} Prices: {prices}.",
        *(part for table in words.build_tables(best) for part in ("", table)),
        f"All answers: {to}",
    )


app.command("report", epilog=REPORT_EPILOG)(report)
