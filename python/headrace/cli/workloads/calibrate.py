"""`headrace calibrate`: from measured runs to a database in transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.base.lazy import defer_imports
from headrace.cli.options import NameOption, TableOrJsonOption, make_flag, make_option
from headrace.cli.output import print_json, say, show, show_progress
from headrace.cli.sharing import read_epilog
from headrace.cli.writing import Writes
from headrace.errors import Refusals

if TYPE_CHECKING:
    from headrace.calibration.runs import Run
    from headrace.workload.transactions import TransactionWorkload

with defer_imports():
    from headrace import workload as workloads
    from headrace.calibration import from_runs, score
    from headrace.calibration import replica as calibration_replica
    from headrace.calibration import runs as calibration_runs
    from headrace.calibration.runs import replica as runs_replica
    from headrace.report import databases
    from headrace.report.replication import replicas as calibrated

EPILOG = read_epilog("calibrate")

refuse = Refusals("headrace calibrate --help")
FORCE = "Overwrite a file that exists, and write a workload that misses its own runs."


@dataclass(frozen=True, kw_only=True)
class ReplicaRuns:
    """Measured stretches of a replica, and the database whose replica it is."""

    of: Annotated[Path | None, make_option("WORKLOAD", "With --replica: the database, instead of runs.", "--of")] = None
    replica: Annotated[
        list[Path] | None,
        make_option("REPLICA.toml", "A measured stretch of a replica that was behind. Repeatable.", "--replica"),
    ] = None
    binary_log: Annotated[
        Path | None,
        make_option("FILE", "A file of the source's binary log, for its events and their parallelism.", "--binary-log"),
    ] = None

    @property
    def are_given(self) -> bool:
        """True if a replica's applier is to be calibrated."""
        return bool(self.replica) or self.binary_log is not None

    def check(self, runs: list[Path], check: bool) -> None:
        """Raises InputError for sources that do not go together, and where there are none."""
        if self.are_given and check:
            raise refuse.input("--check", "scores runs of a source, not of a replica", "Leave out --replica.")
        if self.of is not None and not self.are_given:
            raise refuse.input(f"--of {self.of}", "belongs to --replica or --binary-log", "Add one of them.")
        if not runs and self.of is None:
            rule = "missing argument: descriptions of runs, or with --replica the workload of the database (--of)"
            raise refuse.input("RUN.toml", rule, "headrace calibrate run.toml --to shop.toml")
        if runs and self.of is not None:
            rule = "either the runs of a database, or with --replica its workload (--of), and not both"
            raise refuse.input("RUN.toml", rule, "headrace calibrate run.toml --to shop.toml")


@dataclass(frozen=True, kw_only=True)
class KeepOptions:
    """The name, file and form of a calibrated workload."""

    to: Annotated[
        Path | None,
        make_option("FILE", "Write the workload here. It may be that of --of.", "--to", "-o"),
        Writes(updates="of"),
    ] = None
    name: NameOption = None
    force: Annotated[bool, make_flag("--force", FORCE)] = False
    output: TableOrJsonOption = "table"


def calibrate(
    *,
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN.toml...", help="Descriptions of measured runs.")
    ] = None,
    replicas: ReplicaRuns,
    keeping: KeepOptions,
    check: Annotated[bool, make_flag("--check", "Cross-validate instead: predict each run from the others.")] = False,
    from_one: Annotated[
        bool, make_flag("--from-one", "With --check: predict every run from each other one alone.")
    ] = False,
) -> None:
    """Fit a database model to measured runs: the demand of its transactions on any storage, with
    its uncertainty."""
    if from_one and not check:
        raise refuse.input("--from-one", "belongs to --check", "Add --check.")
    if check and (keeping.to is not None or keeping.name is not None):
        given = "--to" if keeping.to is not None else "--name"
        raise refuse.input(given, "--check scores and makes no workload", "Leave one of them out.")
    if keeping.to is None and not check and keeping.output == "table":
        say("nothing is written: name a file with --to to keep the workload")
    replicas.check(runs or [], check)
    loaded = [calibration_runs.load_run(path) for path in runs or []]
    for run in loaded:
        for line in calibration_runs.describe(run):
            say(line)
    if check:
        print_scores(loaded, from_one, keeping.output)
    elif replicas.are_given:
        fit_replica(loaded, replicas, keeping)
    else:
        fit_and_keep(loaded, keeping)


def fit_replica(runs: list[Run], replicas: ReplicaRuns, keeping: KeepOptions) -> None:
    """Calibrates the applier of a replica, prints the database with it, and writes both where a
    file is named."""
    measured, sample = runs_replica.load_replica_runs(replicas.replica or [], replicas.binary_log)
    workload = runs_replica.load_database(replicas.of) if replicas.of is not None else fit(runs, keeping.name)
    fitted = calibration_replica.calibrate_replica(workload, measured, sample)
    # The file that --of names was written before: it is written again even if the runs miss it.
    keeping = replace(keeping, force=keeping.force or replicas.of is not None)
    keep_and_show(
        fitted, keeping, lambda: (calibrated.build_applier_table(fitted),), "--storage gp3:500 --replica gp3:500"
    )


def fit_and_keep(runs: list[Run], keeping: KeepOptions) -> None:
    """Calibrates a database by runs, prints it, and writes it where a file is named."""
    workload = fit(runs, keeping.name)

    def list_parts() -> tuple[object, ...]:
        return (*databases.describe_database(workload), "", databases.build_parameter_table(workload))

    keep_and_show(workload, keeping, list_parts, "--storage gp3:500 --seconds 3600")


def fit(runs: list[Run], name: str | None) -> TransactionWorkload:
    """Returns the database that is calibrated by runs; shows a progress bar."""
    with show_progress("calibrating") as tick:
        return from_runs.calibrate(runs, name=name, progress=tick)


def keep_and_show(
    workload: TransactionWorkload, keeping: KeepOptions, parts: Callable[[], tuple[object, ...]], next_options: str
) -> None:
    """Writes a workload where a file is named, and prints it, `parts()` for a person; ends with
    exit code 1 where it misses its own runs, unless forced. `next_options`: of the `headrace
    predict` that is proposed next."""
    keep(workload, keeping.to, keeping.force)
    if keeping.output == "json":
        print_json(workload.to_document())
    else:
        show(*parts())
    end_where_missed(workload, keeping.force)
    if keeping.to is not None:
        say(f"workload written to {keeping.to}; next: headrace predict {keeping.to} {next_options}")


def print_scores(runs: list[Run], from_one: bool, output: str) -> None:
    """Cross-validates runs and prints the errors of the predictions. `from_one`: from each other
    run alone, not from all others."""
    with show_progress("scoring") as tick:
        rows = score.leave_out(runs, from_one=from_one, progress=tick)
    if output == "json":
        print_json({"schema": "headrace-calibration-check/1", "rows": rows})
    else:
        show(databases.build_score_table(rows), "", *databases.describe_scores(rows))


def keep(workload: TransactionWorkload, to: Path | None, force: bool) -> None:
    """Writes a calibrated workload, where a file is named; one that misses its own runs only with
    --force."""
    if to is not None and (force or not workload.missed):
        workloads.save(workload, to)


def end_where_missed(workload: TransactionWorkload, force: bool) -> None:
    """Names the runs of its own that a workload misses, and ends the command with exit code 1
    unless --force was given."""
    for missed in workload.missed:
        say(f"Misses its own run: {missed}")
    if workload.missed and not force:
        say("nothing is written: predictions from it would be off by as much; --force writes it all the same")
        raise typer.Exit(1)
