"""`headrace workload capture`: watch a live server and write what the planner takes."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.base.lazy import defer_imports
from headrace.base.options import AsOfText
from headrace.base.signals import ends_as_interrupts
from headrace.cli import INTERRUPTED
from headrace.cli.options import (
    Engine,
    ForceOption,
    NameOption,
    PasswordOptions,
    TableOrJson,
    TableOrJsonOption,
    make_choice,
    make_instance_option,
    make_option,
    make_storage_option,
)
from headrace.cli.output import print_json, say, show, show_progress
from headrace.cli.sharing import read_epilog
from headrace.cli.workloads.calibrate import end_where_missed, keep
from headrace.cli.writing import WRITES_FILE
from headrace.errors import CouldNotRun, HeadraceError, InputError

if TYPE_CHECKING:
    from headrace.observe.live.record import Captured

with defer_imports():
    from headrace.calibration import calibrate as calibration_calibrate
    from headrace.calibration import from_runs, runs
    from headrace.observe.live import host, record

EPILOG = read_epilog("capture")

ADDRESS = "mysql://USER@HOST[:PORT]/ or mysql://USER@/?socket=PATH; also ?ssl-mode=..&ssl-ca=.."
DEVICE = "Block device of those volumes on this machine; repeat it for each. Default: that of the data directory."


def capture(
    *,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help=ADDRESS)],
    to: Annotated[Path, make_option("FOLDER", "Folder to write: RUN.toml, status.csv, disk.csv.", "--to", "-o")],
    password: PasswordOptions,
    storage: Annotated[str | None, make_storage_option("The server's data volumes, like gp3:500:6000.")] = None,
    seconds: Annotated[float, make_option("S", "Seconds to watch: 10 s to 7 days.")] = 600.0,
    device: Annotated[list[str] | None, make_option("D", DEVICE)] = None,
    log_storage: Annotated[str | None, make_storage_option("Separate volume for redo log and binary log.")] = None,
    instance: Annotated[str | None, make_instance_option("EC2 instance type of the server.")] = None,
    as_of: AsOfText = None,
    workload: Annotated[
        Path | None, make_option("FILE", "Calibrate at once, and write the workload here."), WRITES_FILE
    ] = None,
    engine: Annotated[Engine | None, make_choice("Engine to calibrate. Default: the busier one.")] = None,
    size_gib: Annotated[
        float | None, make_option("GIB", "Size of the tables on disk. Default: as the server says.")
    ] = None,
    threads: Annotated[int | None, make_option("N", "Clients that wait. Default: the mean of Threads_running.")] = None,
    interval: Annotated[float, make_option("S", "Seconds between samples, 1 to 60.")] = 1.0,
    name: NameOption = None,
    force: ForceOption = False,
    output: TableOrJsonOption = "table",
) -> None:
    """Watch a live server, read only, and write a run that `headrace calibrate` takes."""
    storage = check_storage_given(storage, device)
    day = read_day(as_of)
    request = record.CaptureRequest(
        password.read_address(address),
        seconds,
        storage,
        tuple(device or ()),
        log_storage=log_storage,
        instance=instance,
        engine=engine,
        data_gib=size_gib,
        threads=threads,
        name=name,
        interval_s=interval,
        as_of=day,
    )
    check_workload(workload, seconds)
    # `systemctl stop` and `timeout` keep what was sampled, as Ctrl-C does.
    with ends_as_interrupts(), show_progress("watching the server") as tick:
        captured = record.capture(request, to, force=force, progress=tick)
    report(captured, output, workload, name, force)
    if captured.state != "whole":
        interrupted = captured.state == "interrupted"
        why = "was interrupted" if interrupted else "lost the server"
        hint = f"The samples are in {captured.description.parent}."
        raise CouldNotRun(
            "the capture", f"{why} after {captured.seconds:,.0f} s", "", hint, INTERRUPTED if interrupted else None
        )


def report(
    captured: Captured, output: TableOrJson, workload: Path | None, name: str | None, force: bool = False
) -> None:
    """Reads the capture back as `calibrate` will, prints its content, and calibrates where that was
    asked (`force`: keeps a workload that misses the run)."""
    try:
        run = runs.load_run(captured.description)
    except HeadraceError as error:
        hint = f"{error.hint} The samples are in {captured.description.parent}.".strip()
        raise error.amend(hint=hint) from None
    if output == "json":
        measured = {"transactions": run.transactions, "engine": run.engine, "start": run.start}
        sizes = {"cache_gib": run.cache_gib, "data_gib": run.benchmark.data_gib}
        findings = {"findings": [finding.text for finding in run.findings]}
        print_json(captured.to_dict() | measured | sizes | findings)
    else:
        show(*runs.describe(run), *[f"Note: {note}." for note in captured.notes])
    if workload is None:
        say(f"written to {captured.description}; next: headrace calibrate {captured.description} --to shop.toml")
        return

    with show_progress("calibrating") as tick:
        calibrated = from_runs.calibrate([run], name=name, progress=tick)
    keep(calibrated, workload, force)
    end_where_missed(calibrated, force)
    say(f"written to {captured.description} and {workload}; next: headrace plan {workload}")


def check_storage_given(storage: str | None, devices: list[str] | None) -> str:
    """Returns the storage that was given. Raises InputError where there is none, with the ids of
    the devices' volumes where this machine runs on EC2."""
    if storage is not None:
        return storage
    volumes = [volume for volume in map(host.find_volume_id, host.resolve_device_names(devices or ())) if volume]
    ask = f" aws ec2 describe-volumes --volume-ids {' '.join(volumes)} tells." if volumes else ""
    rule, hint = "what the volumes can give is part of a measurement", f"For example --storage gp3:500:6000:250.{ask}"
    raise InputError("--storage is missing", rule, "headrace workload capture --help", hint)


def check_workload(workload: Path | None, seconds: float) -> None:
    """Raises InputError for a capture that would be too short for the calibration behind it."""
    if workload is None:
        return
    if seconds < calibration_calibrate.LEAST_SECONDS:
        rule = f"too short to calibrate: at least {calibration_calibrate.LEAST_SECONDS:g} s"
        hint = "Watch longer, or leave --workload out."
        raise InputError(f"--seconds {seconds:g}", rule, "docs/reference/run-description.md", hint)


def read_day(text: str | None) -> date | None:
    """Returns the day of --as-of, None where it was not given. Raises InputError."""
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--as-of {text or ''}"[:50], "must be a day like 2024-05-31", "ISO 8601", "") from None
