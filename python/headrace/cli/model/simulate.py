"""`headrace simulate`: a demand of I/Os on a storage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from headrace.base.checks import check_number
from headrace.base.lazy import defer_imports
from headrace.base.options import InitializationRate, StorageText
from headrace.base.units import GIB, MIB, normalise_day
from headrace.cli.inputs import read_demand
from headrace.cli.options import DemandArgument, Output, OutputOption, PageOrChartOption, make_flag, make_option
from headrace.cli.output import print_data, print_json, show, show_progress, write_report
from headrace.cli.sharing import read_epilog
from headrace.errors import InputError
from headrace.report.output import as_csv, check_chart_path
from headrace.simulation.settings import SimulationSettings

if TYPE_CHECKING:
    from headrace.simulation.demand import Simulation
    from headrace.workload import Workload

with defer_imports():
    from headrace.base import storage as base_storage
    from headrace.catalog import facts
    from headrace.report import simulation
    from headrace.simulation import database, demand, notation
    from headrace.workload import points

EPILOG = read_epilog("simulate")

# fio on a gp2 volume of a Xen instance gave 3,061 to 3,075 IOPS where 3,000 are nominal (published
# run of 2018): 2.5 % more, in thousandths.
XEN_RATE_PER_MILLE = 1_025
DEGRADE = "MEMBER:START_S:LENGTH_S:CAPS_PERCENT[:EXTRA_MS]"


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Parts that the model leaves out, and events of the volumes."""

    no_merge: Annotated[bool, make_flag("--no-merge", "Do not merge sequential I/Os.")] = False
    no_saved_second: Annotated[
        bool,
        make_flag("--no-saved-second", "Start with an empty one-second bucket of IOPS; a rested volume has it full."),
    ] = False
    no_holds: Annotated[bool, make_flag("--no-holds", "Ignore stalls of single I/Os in the latency.")] = False
    xen: Annotated[bool, make_flag("--xen", "Deliver 2.5 % over the nominal rate, as measured on Xen instances.")] = (
        False
    )
    snapshot_gib: Annotated[
        float | None, make_option("GIB", "The volume was made from a snapshot of this much data.")
    ] = None
    init_rate: InitializationRate = None
    degrade: Annotated[
        list[str] | None,
        make_option(DEGRADE, "A volume delivers less for a while. Repeatable, not overlapping; members count from 0."),
    ] = None
    modify: Annotated[
        str | None,
        make_option("SPEC@START..END", "ModifyVolume to SPEC: 'modifying' ends at START, 'optimizing' at END (s)."),
    ] = None
    lose_member: Annotated[
        list[str] | None, make_option("N", "Remove this member of the array, counted from 0. Repeatable.")
    ] = None

    def make_options(self) -> dict[str, object]:
        """Returns the `options` of `headrace.simulate`. Raises InputError."""
        switches = {"merge": self.no_merge, "saved_second": self.no_saved_second, "holds": self.no_holds}
        options: dict[str, object] = {name: False for name, off in switches.items() if off}
        options |= {"rate_per_mille": XEN_RATE_PER_MILLE} if self.xen else {}
        return options | self._make_event_options()

    def _make_event_options(self) -> dict[str, object]:
        """Returns the `options` about modification, snapshot (bytes, bytes a second), degradations
        and failed members. Raises InputError."""
        options: dict[str, object] = {}
        if self.modify is not None:
            options["modify"] = notation.parse_modification(self.modify)
        if self.init_rate is not None and self.snapshot_gib is None:
            rule, hint = "needs --snapshot-gib", "Say how much data the snapshot holds."
            raise InputError(f"--init-rate {self.init_rate:,}", rule, "headrace simulate --help", hint)
        if self.snapshot_gib is not None:
            rate = None if self.init_rate is None else self.init_rate * MIB
            written = int(check_number("--snapshot-gib", self.snapshot_gib, 0.0, points.MAX_SIZE_GIB, "GiB") * GIB)
            options["snapshot"] = {"written_bytes": written, "initialization_bytes_s": rate}
        if self.degrade:
            options["degradations"] = [notation.parse_degradation(text) for text in self.degrade]
        if self.lose_member:
            options["failed_members"] = [notation.parse_whole("MEMBER", text.strip()) for text in self.lose_member]
        return options


def simulate(
    *,
    workload: DemandArgument,
    storage: StorageText,
    settings: SimulationSettings,
    model: ModelOptions,
    output: OutputOption = "table",
    report: PageOrChartOption = None,
) -> None:
    """Run a demand of I/Os on a storage: what is delivered, what waits, when credits run dry."""
    check_chart_path(report)
    load, storage = read_demand(workload), base_storage.Storage.parse(storage).text
    options = model.make_options()
    _check_xen(settings, model)
    with show_progress("simulating") as tick:
        run = demand.simulate(load, storage, **vars(replace(settings, options=options, progress=tick)))
    show_run(run, load, output, report, not model.no_saved_second)


def _check_xen(settings: SimulationSettings, model: ModelOptions) -> None:
    """Raises InputError where the rate of Xen contradicts the instance."""
    if not model.xen or settings.instance is None:
        return
    host = database.find_host(settings.instance, normalise_day(settings.as_of))
    if host is not None and host["nitro"]:
        rule = f"{host['instance_type']} is a Nitro instance: the 2.5 % were measured on Xen"
        raise InputError("--xen", rule, "data/instances.csv", "Leave it out, or name a Xen instance like m4.large.")


def show_run(run: Simulation, load: Workload, output: Output, report: Path | None, saved_second: bool) -> None:
    """Prints a run in the form asked for and writes its page or chart."""
    notes = (
        facts.list_caveats(run.storage, run.instance, run.as_of)
        + facts.list_latency_caveats(run.storage, run.as_of)
        + list(load.list_notes())
    )
    write_report(report, lambda: simulation.build_view(run, load, notes))
    if output == "json":
        print_json(simulation.build_document(run, load, notes, saved_second))
    elif output == "csv":
        print_data(as_csv(simulation.with_clock(run, load)))
    else:
        lines = simulation.describe_run(run, load, saved_second)
        show(
            *lines,
            "",
            simulation.build_table(run, load),
            *([""] if notes else []),
            *(f"note: {note}" for note in notes),
        )
