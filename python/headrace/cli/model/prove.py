"""`headrace prove`: a plan, predicted, built on the lab, measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.base.lazy import defer_imports
from headrace.cli.inputs import read_database
from headrace.cli.options import Output, OutputOption, ReportOption, make_choice, make_option, make_storage_option
from headrace.cli.output import exit_if, print_data, print_json, say, show, show_progress, write_report
from headrace.cli.sharing import read_epilog
from headrace.errors import Refusals
from headrace.report.output import PAGE_FORMATS, as_csv, check_chart_path

if TYPE_CHECKING:
    from headrace.experiment import Proof, Request

with defer_imports():
    from headrace import experiment
    from headrace.planner import planning
    from headrace.report import proof as proof_report

EPILOG = read_epilog("prove")

refuse = Refusals("headrace prove --help")


def prove(
    *,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[PLAN|WORKLOAD]",
            help="A plan (`headrace plan WORKLOAD --output json`): its winner, its runner-up and today's storage are proved. "
            "Or a workload with --storage.",
        ),
    ] = None,
    storage: Annotated[
        list[str] | None, make_storage_option("Prove a workload on this storage. Repeatable.", metavar="DATA[,log=LOG]")
    ] = None,
    compare: Annotated[
        str | None, make_storage_option("Today's storage: calibrate on it.", metavar="DATA[,log=LOG]")
    ] = None,
    workload: Annotated[
        str | None, make_option("WORKLOAD", "Workload of the plan, for the skew of its accesses.")
    ] = None,
    minutes: Annotated[float, make_option("M", "Approximate minutes for the whole proof.")] = 10.0,
    scale: Annotated[
        str, make_option("auto|F", "Factor on data, cache, IOPS and clients. auto: the largest this machine holds.")
    ] = "auto",
    flavor: Annotated[Literal["mariadb", "mysql"], make_choice("Server to run.")] = "mariadb",
    seed: Annotated[int, make_option("N", "Seed for the load and the predictions.", min=1, max=2**31 - 1)] = 1,
    store: Annotated[
        Path | None,
        make_option("DIR", "Folder of the proofs. Default: $HEADRACE_PROOFS, else ~/.local/share/headrace/proofs."),
    ] = None,
    show: Annotated[Path | None, make_option("DIR", "Show the proof in this folder instead of running one.")] = None,
    report: ReportOption = None,
    output: OutputOption = "table",
) -> None:
    """Run a plan's winner and runner-up on the lab, and compare what is measured with what was
    predicted."""
    check_chart_path(report, PAGE_FORMATS)
    if (show is None) == (source is None):
        hint = "headrace plan WORKLOAD --output json makes a plan."
        raise refuse.input("PLAN or WORKLOAD", "one of them is needed, or --show with a proof", hint)
    settings = {
        "minutes": minutes,
        "scale": experiment.read_scale(scale),
        "flavor": flavor,
        "seed": seed,
        "folder": store,
    }
    if source is None:
        proof = experiment.read(Path(str(show)))
    else:
        request = read_request(source, storage or [], compare, workload)
        proof = carry_out(request, report, settings)
    present(proof, output, report)
    exit_if(proof.holds is False)


def read_request(source: str, storages: list[str], current: str | None, workload: str | None) -> Request:
    """Returns the request of a proof. Raises InputError, CouldNotRun."""
    plan = planning.read_plan(source)
    if plan is None:
        if workload is not None:
            raise refuse.input("--workload", f"belongs to a plan, and {source} is none")
        request = experiment.from_workload(read_database(source), storages, source)
    else:
        if storages:
            raise refuse.input(
                "--storage", "belongs to a workload: a plan names its own", "Give the workload in its place."
            )
        request = experiment.from_plan(plan, source, None if workload is None else read_database(workload))
    return request if current is None else request.with_current(current)


def carry_out(request: Request, report: Path | None, settings: dict[str, Any]) -> Proof:
    """Runs a proof with a progress bar and returns it. For a proof that is cut short, the place of
    the measured values is printed and the page written before the error is raised."""
    last = {"what": ""}
    with show_progress("proving") as tick:

        def follow(share: float, what: str) -> None:
            if what != last["what"] and not tick.on_terminal:
                say(what)
            last["what"] = what
            tick(share)

        try:
            return experiment.prove(request, progress=follow, **settings)
        except (experiment.InterruptedProof, experiment.BrokenProof) as stopped:
            tick.stop()
            proof = stopped.proof
            say(f"The measured values are kept: headrace prove --show {proof.folder}")
            write_report(report, lambda: proof_report.build_view(proof))
            raise


def present(proof: Proof, output: Output, report: Path | None) -> None:
    """Prints a proof in the form asked for, and writes its page."""
    write_report(report, lambda: proof_report.build_view(proof))
    if output == "json":
        return print_json(proof.to_dict())
    if output == "csv":
        return print_data(as_csv(proof_report.build_frame(proof)))

    show(
        proof.verdict,
        "",
        proof_report.build_table(proof, proof_report.make_title(proof)),
        "",
        *proof_report.describe_setup(proof),
        *(f"note: {note}" for note in proof_report.list_notes(proof)),
    )
