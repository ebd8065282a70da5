"""`headrace prove`: a plan, predicted, built on the lab, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import Output, OutputOption, complete_storage, data, progress, read_workload, say
from headrace.errors import InputError

EPILOG = """\b
Examples:
  headrace plan shop.toml --goal 'tps>=300' --compare gp2:1200 --output json > plan.json
  headrace prove plan.json --workload shop.toml --minutes 15 --report proof.html
  headrace prove shop.toml --storage gp3:500:6000 --storage io1:500:3000 --current gp2:1200
  headrace prove --show PROOF_FOLDER --report proof.html

Needs root, /dev/fuse, MariaDB and sysbench: `headrace lab doctor` and `headrace mysql status` tell what is missing. Data set, cache, IOPS, MiB/s and clients are scaled to what the
machine holds. Predictions are stored before anything but the calibration is run. Ctrl-C keeps what was measured (exit code 130).

Exit code 1 when a configuration is not as predicted."""


def prove(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[PLAN|WORKLOAD]",
            help="A plan (`headrace plan WORKLOAD --output json`): its winner, runner-up and today's. Or a workload with --storage.",
        ),
    ] = None,
    storage: Annotated[
        list[str] | None,
        typer.Option(
            "--storage", metavar="DATA[,log=LOG]", help="Of a workload: prove it on this. Repeatable.", autocompletion=complete_storage
        ),
    ] = None,
    current: Annotated[
        str | None,
        typer.Option("--current", metavar="DATA[,log=LOG]", help="Today's storage: calibrate on it.", autocompletion=complete_storage),
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", metavar="WORKLOAD", help="Of a plan: the workload it was made for, for its skew.")
    ] = None,
    minutes: Annotated[float, typer.Option("--minutes", metavar="M", help="About how long it may take.")] = 10.0,
    scale: Annotated[
        str, typer.Option("--scale", metavar="auto|F", help="Of data, cache, IOPS and clients. auto: the largest this machine holds.")
    ] = "auto",
    flavor: Annotated[str, typer.Option("--flavor", metavar="NAME", help="mariadb or mysql.")] = "mariadb",
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=1, max=2**31 - 1, help="Of the load and the predictions.")] = 1,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", metavar="DIR", help="Where proofs are kept. Default: $HEADRACE_PROOFS, else ~/.local/share/headrace/proofs."
        ),
    ] = None,
    show: Annotated[Path | None, typer.Option("--show", metavar="DIR", help="Show a proof that was made, instead of making one.")] = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts (.html).")] = None,
    output: OutputOption = Output.table,
) -> None:
    """Run a plan's winner and runner-up on the lab, beside what was predicted of them."""
    from headrace.experiment import read, read_scale
    from headrace.report.output import check_chart_path

    check_chart_path(report, (".html",))
    if (show is None) == (source is None):
        raise InputError(
            "PLAN or WORKLOAD",
            "one of it is needed, or --show with a proof",
            "headrace prove --help",
            "headrace plan WORKLOAD --output json makes a plan.",
        )
    factor = read_scale(scale)
    made = (
        read(show)
        if show is not None
        else carry_out(requested(source, storage or [], current, workload), minutes, factor, flavor, seed, folder, report)
    )
    present(made, output, report)
    if made.holds is False:
        raise typer.Exit(1)


def requested(source: str, storages: list[str], current: str | None, workload: str | None):
    """What is to be proved. Raises InputError, CouldNotRun."""
    from headrace.experiment import from_plan, from_workload, read_plan

    plan = read_plan(source)
    if plan is None:
        if workload is not None:
            raise InputError("--workload", f"belongs to a plan, and {source} is none", "headrace prove --help")
        made = from_workload(database(source), storages, source)
    else:
        if storages:
            raise InputError(
                "--storage", "belongs to a workload: a plan names its own", "headrace prove --help", "Give the workload in its place."
            )
        made = from_plan(plan, source, None if workload is None else database(workload))
    return made if current is None else made.with_current(current)


def database(text: str):
    """A workload in transactions. Raises InputError."""
    from headrace.workload import TransactionWorkload

    found = read_workload(text)
    if not isinstance(found, TransactionWorkload):
        raise InputError(
            text, "is no database", "headrace prove --help", "Give a workload that `headrace calibrate` wrote, or sysbench-tpcc:..."
        )
    return found


def carry_out(request, minutes: float, factor: float | None, flavor: str, seed: int, folder: Path | None, report: Path | None):
    """The proof with a bar; one cut short is shown before it ends the command."""
    from headrace.experiment import BrokenProof, InterruptedProof, prove

    told = {"what": ""}
    with progress("proving") as tick:

        def follow(share: float, what: str) -> None:
            if what != told["what"] and not tick.wanted:
                say(what)
            told["what"] = what
            tick(share)

        try:
            return prove(request, minutes=minutes, scale=factor, flavor=flavor, seed=seed, folder=folder, progress=follow)
        except (InterruptedProof, BrokenProof) as stopped:
            tick.stop()
            say(f"What was measured is kept: headrace prove --show {stopped.proof.folder}")
            if report is not None:
                from headrace.report.proof import write_proof

                write_proof(report, stopped.proof)
            raise


def present(proof, output: Output, report: Path | None) -> None:
    """Prints a proof in the form asked for, and writes its page."""
    from headrace.report import proof as words
    from headrace.report.output import as_csv, as_json

    if report is not None:
        words.write_proof(report, proof)
        say(f"report written to {report}")
    if output is Output.json:
        return data(as_json(proof.to_dict()))
    if output is Output.csv:
        return data(as_csv(words.frame_of(proof)))
    from headrace.report.tables import show, table

    show(proof.verdict, "", table(words.COLUMNS, words.rows(proof), title=words.title(proof), right=words.RIGHT), "", *words.setup_lines(proof),
         *(f"note: {note}" for note in words.notes(proof)))  # fmt: skip
