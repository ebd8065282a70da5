"""`headrace fleet report`: what the answers mean in money, as a page, and as changes to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.base.files import check_output
from headrace.base.options import AsOfText
from headrace.cli.lazy import lazily
from headrace.cli.options import ForceOption, OutputOption, PageOrChartOption, flag, option
from headrace.cli.output import print_csv, print_json, say, show
from headrace.errors import InputError
from headrace.operate.fleet import MOST_RISK_PERCENT
from headrace.report.output import check_chart_path, write_text

if TYPE_CHECKING:
    from headrace.operate.fleet.advised import AdvisedChanges
    from headrace.operate.fleet.answer import VolumeAnswer
    from headrace.operate.fleet.inventory import FleetInventory

with lazily():
    from headrace.catalog import facts
    from headrace.operate.fleet import advised as fleet_advised
    from headrace.operate.fleet import cost as fleet_cost
    from headrace.operate.fleet import inventory as inventory_module
    from headrace.operate.fleet.applying import scripts as applying_scripts
    from headrace.operate.fleet.applying import terraform as applying_terraform
    from headrace.report.fleet import page as fleet_page
    from headrace.report.fleet import words

HELP = "headrace fleet report --help"
MOST_TOLD = 5  # accounts and regions whose rates are told one by one; a fleet may have hundreds


@dataclass(frozen=True, kw_only=True)
class FleetPriceOptions:
    """Options about prices of volumes."""

    cost: Annotated[
        list[Path] | None,
        option("FILE", "Cost and Usage Report (CUR 2.0), Parquet or CSV: prices are what was paid. Repeatable."),
    ] = None
    discount_percent: Annotated[float, option("PERCENT", "Discount on list prices, percent.")] = 0.0
    price_file: Annotated[Path | None, option("FILE", "File with your own rates (docs/reference/prices.md).")] = None

    @property
    def files(self) -> list[Path]:
        """The files that these options name."""
        return [*(self.cost or []), *([self.price_file] if self.price_file else [])]


@dataclass(frozen=True, kw_only=True)
class FleetPatchOptions:
    """Options about scripts and diffs to apply."""

    patch: Annotated[
        Path | None, option("DIR", "Write patch.sh and rollback.sh there, and terraform.diff if there is a state.")
    ] = None
    max_per_hour: Annotated[int, option("N", "Changes that patch.sh begins in an hour.", min=1)] = 30
    max_risk_percent: Annotated[
        float, option("PERCENT", "Leave out changes of more risk than this.", min=0, max=100)
    ] = MOST_RISK_PERCENT
    with_growth: Annotated[bool, flag("--with-growth", "Patch what needs more too, not only what saves.")] = False
    lower_durability: Annotated[
        bool, flag("--lower-durability", "Patch changes too that lower the durability: io2 to another type.")
    ] = False
    terraform_state: Annotated[Path | None, option("FILE", "Output of terraform show -json.")] = None
    terraform_dir: Annotated[Path | None, option("DIR", "The root module's folder. Default: the state's.")] = None


def report(
    *,
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="File of `headrace fleet plan`.")],
    prices: FleetPriceOptions,
    patching: FleetPatchOptions,
    inventory: Annotated[
        list[Path] | None,
        option("FILE", "The inventory that the plan was made with; --cost and --patch need it. Repeatable."),
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
    price_words = words.prices_of(fleet_answers)
    if prices != FleetPriceOptions():
        new_prices, more = fleet_prices(prices, fleet_inventory, as_of)
        fleet_answers, searched = fleet_advised.repriced(fleet_answers, new_prices), price_words
        price_words = words.prices_of(fleet_answers)
        notes += more
        if searched != price_words:
            notes.append(
                f"The advice was searched at {searched}: give the same options to fleet plan to search at these."
            )
    if page is not None:
        fleet_page.write_fleet(page, fleet_answers, price_words, notes)
        say(f"page written to {page}")
    if patching.patch is not None:
        if fleet_inventory is None:
            raise InputError("--patch", "needs the inventory, to know what is there", HELP, "Give --inventory.")
        _write_changes(fleet_answers, fleet_inventory, patching, patching.patch, as_of, force, inputs)
    elif patching.terraform_state is not None:
        raise InputError("--terraform-state", "is of --patch", HELP, "Add --patch DIR.")
    if output == "json":
        print_json(words.document(fleet_answers, price_words))
    elif output == "csv":
        print_csv(words.csv_rows(fleet_answers), words.CSV)
    else:
        show(words.view_of(fleet_answers, price_words))
    for note in notes:
        say(f"note: {note}")


def fleet_prices(
    prices: FleetPriceOptions, inventory: FleetInventory | None, as_of: str | None, region: str = ""
) -> tuple[fleet_cost.FleetPrices, list[str]]:
    """Returns the prices that the options name, and remarks about them. `region`: of volumes that
    do not say their own."""
    if not prices.cost:
        return fleet_cost.FleetPrices(as_of, prices.discount_percent, prices.price_file), []
    if inventory is None:
        raise InputError("--cost", "needs the inventory, to know the volumes' regions", HELP, "Give --inventory.")
    regions = {volume.id: volume.region or region for volume in inventory.volumes}
    accounts = {volume.id: volume.account for volume in inventory.volumes if volume.account}
    paid = fleet_cost.read_cost_report(prices.cost, regions, accounts)
    own_prices = fleet_cost.FleetPrices(as_of, prices.discount_percent, prices.price_file, paid)
    rate_words = [
        table.words for table in own_prices.tables((regions[volume.id], volume.account) for volume in inventory.volumes)
    ]
    notes = [f"Prices in {text}." for text in rate_words[:MOST_TOLD]]
    if len(rate_words) > MOST_TOLD:
        notes.append(f"{len(rate_words) - MOST_TOLD:,} more pairs of region and account have their own rates too.")
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
    """Writes scripts and diff, and names the changes that are not in them."""
    advised = fleet_advised.advised_changes(
        answers,
        inventory,
        most_risk=options.max_risk_percent / 100,
        grow=options.with_growth,
        lower_durability=options.lower_durability,
        as_of=as_of,
    )
    files: dict[str, str] = {}
    scripts = applying_scripts.patch_scripts(advised.changes, as_of, options.max_per_hour)
    for script in scripts:
        ending = f"-{script.account or 'unknown'}" if len(scripts) > 1 else ""
        files |= {f"patch{ending}.sh": script.patch, f"rollback{ending}.sh": script.rollback}
    if options.terraform_state is not None:
        root = options.terraform_dir or options.terraform_state.parent
        terraform = applying_terraform.terraform_patch(options.terraform_state, root, advised.changes)
        files |= {"terraform.diff": terraform.diff} if terraform.diff else {}
        for note in terraform.notes:
            say(f"terraform: {note.address + ': ' if note.address else ''}{note.what}")
    _write(folder, files, force, inputs)
    _tell(advised, folder, files)


def _write(folder: Path, files: dict[str, str], force: bool, inputs: Sequence[Path]) -> None:
    if not folder.is_dir():
        if folder.exists():
            rule = "is a file, and a folder is needed"
            raise InputError(f"--patch {folder}", rule, HELP, "Name another folder; it is made if it is not there.")
        check_output("--patch", folder)  # the folder it is in must be there
        folder.mkdir()
    for name in files:
        check_output("--patch", folder / name, inputs, force=force)
    for name, text in files.items():
        write_text(folder / name, text)
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)


def _tell(advised: AdvisedChanges, folder: Path, files: dict[str, str]) -> None:
    for name in files:
        say(f"written: {folder / name}")
    for line in advised.describe():
        say(line)
