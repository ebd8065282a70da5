"""`headrace workload capture`: watch a live server and write what the planner takes."""

from __future__ import annotations

import signal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import AsOfOption, TableOrJson, complete_instance, complete_storage, data, progress, say
from headrace.cli.transactions import LogStorageOption

EPILOG = """\b
Examples:
  headrace workload capture mysql://headrace@db.example/ --seconds 3600 --storage gp3:500:6000 -o monday
  headrace workload capture 'mysql://headrace@/?socket=/run/mysqld/mysqld.sock' --seconds 600 --storage gp2:1000 \\
      --device nvme1n1 -o monday --workload shop.toml

\b
The account needs: GRANT PROCESS ON *.* (size of the data; or give --data) and, for response times, GRANT SELECT ON performance_schema.*
Its password comes from HEADRACE_MYSQL_PASSWORD, [client] of --defaults-file, or --ask-password; never from the address.
One connection, SHOW GLOBAL STATUS once a second. Ctrl-C keeps what was sampled. See docs/reference/capture.md."""


class Engine(StrEnum):
    """Engines that are modelled."""

    innodb = "innodb"
    myrocks = "myrocks"


AddressArgument = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="mysql://USER@HOST[:PORT]/ or mysql://USER@/?socket=PATH; also ?ssl-mode=..&ssl-ca=..")
]
DefaultsFileOption = Annotated[
    Path | None,
    typer.Option("--defaults-file", metavar="FILE", help="Option file whose [client] has the password (only its owner may read it)."),
]
AskPasswordOption = Annotated[bool, typer.Option("--ask-password", "-p", help="Ask for the password on the terminal.")]


def capture(
    address: AddressArgument,
    to: Annotated[Path, typer.Option("-o", "--to", metavar="FOLDER", help="Folder to write: RUN.toml, status.csv, disk.csv.")],
    storage: Annotated[
        str | None,
        typer.Option("--storage", metavar="SPEC", help="The server's data volumes, like gp3:500:6000.", autocompletion=complete_storage),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", metavar="N", help="How long: 10 s to 7 days.")] = 600.0,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device", metavar="D", help="Their block device on this machine; again for each. Default: that of the data directory."
        ),
    ] = None,
    log_storage: LogStorageOption = None,
    instance: Annotated[
        str | None, typer.Option("--instance", metavar="TYPE", help="EC2 instance type of the server.", autocompletion=complete_instance)
    ] = None,
    as_of: AsOfOption = None,
    workload: Annotated[
        Path | None, typer.Option("--workload", metavar="FILE", help="Calibrate at once, and write the workload for the planner here.")
    ] = None,
    engine: Annotated[Engine | None, typer.Option("--engine", help="Default: the one that does more.")] = None,
    data_gib: Annotated[
        float | None, typer.Option("--data", metavar="GIB", help="What the tables take on disk. Default: as the server says.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", help="Clients of the closed loop. Default: the mean of Threads_running.")
    ] = None,
    interval: Annotated[float, typer.Option("--interval", metavar="S", help="Seconds between samples, 1 to 60.")] = 1.0,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the run and the workload.")] = None,
    defaults_file: DefaultsFileOption = None,
    ask_password: AskPasswordOption = False,
    force: Annotated[bool, typer.Option("--force", "--yes", "-y", help="Write over an earlier capture in the folder.")] = False,
    output: Annotated[TableOrJson, typer.Option("--output", help="What to print on stdout.")] = TableOrJson.table,
) -> None:
    """Watch a live server, read only, and write a run that `headrace calibrate` takes."""
    from headrace.errors import CouldNotRun
    from headrace.observe.live.record import CaptureRequest
    from headrace.observe.live.record import capture as capture_run

    request = CaptureRequest(
        read_address(address, defaults_file, ask_password), seconds, check_storage_given(storage, device), tuple(device or ()), log_storage, instance,
        read_day(as_of), None if engine is None else str(engine), data_gib, threads, name, interval,
    )  # fmt: skip
    check_workload(workload, seconds)
    # `systemctl stop` and `timeout` keep what was sampled, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress("watching the server") as tick:
        found = capture_run(request, to, force=force, progress=tick)
    report(found, output, workload, name)
    if found.state != "whole":
        why = "was interrupted" if found.state == "interrupted" else "lost the server"
        raise CouldNotRun("the capture", f"{why} after {found.seconds:,.0f} s", "", f"What was sampled is in {found.description.parent}.",
                          130 if found.state == "interrupted" else None)  # fmt: skip


def report(found, output: TableOrJson, workload: Path | None, name: str | None) -> None:
    """Reads the capture back as `calibrate` will, says what is in it, and calibrates where that was asked."""
    from headrace.calibration.runs import describe, load_run
    from headrace.errors import HeadraceError
    from headrace.report.output import as_json

    try:
        run = load_run(found.description)
    except HeadraceError as error:
        kept = f"{error.hint} What was sampled is in {found.description.parent}.".strip()
        raise type(error)(error.value, error.rule, error.source, kept, error.exit_code) from None
    if output is TableOrJson.json:
        data(as_json({"schema": "headrace-capture/1", "description": str(found.description), "state": found.state, "seconds": found.seconds,
                      "threads": found.threads, "transactions": run.transactions, "engine": run.engine, "start": run.start, "cache_gib": run.cache_gib,
                      "data_gib": run.benchmark.data_gib, "latencies": found.latencies, "notes": list(found.notes),
                      "findings": [finding.text for finding in run.findings]}))  # fmt: skip
    else:
        from headrace.report.tables import show

        show(*describe(run), *[f"Note: {note}." for note in found.notes])
    if workload is None:
        say(f"written to {found.description}; next: headrace calibrate {found.description} -o shop.toml")
        return
    from headrace.calibration.from_runs import calibrate
    from headrace.workload import save

    with progress("calibrating") as tick:
        made = calibrate([run], name=name, progress=tick)
    save(made, workload)
    say(f"written to {found.description} and {workload}; next: headrace plan {workload}")


def read_address(text: str, defaults_file: Path | None, ask_password: bool):
    """The address, with the password from where it may come. Raises InputError."""
    from headrace.connect import Secret, parse_address

    address = parse_address(text, defaults_file=defaults_file)
    if ask_password:
        address = address.with_password(
            Secret(typer.prompt(f"Password of {address.user}", hide_input=True, err=True, default="", show_default=False))
        )
    return address


def check_storage_given(storage: str | None, devices: list[str] | None) -> str:
    """Refuses a capture that could not be calibrated, naming the volumes where this is EC2. Raises InputError."""
    from headrace.errors import InputError
    from headrace.observe.live.host import device_names, volume_id

    if storage is not None:
        return storage
    volumes = [found for found in map(volume_id, device_names(devices or ())) if found]
    ask = f" aws ec2 describe-volumes --volume-ids {' '.join(volumes)} tells." if volumes else ""
    raise InputError(
        "--storage is missing",
        "what the volumes can give is part of a measurement",
        "headrace workload capture --help",
        f"For example --storage gp3:500:6000:250.{ask}",
    )


def check_workload(workload: Path | None, seconds: float) -> None:
    """Refuses at once what calibration would refuse after the capture. Raises InputError."""
    from headrace.calibration.calibrate import LEAST_SECONDS
    from headrace.errors import InputError

    if workload is None:
        return
    if not workload.absolute().parent.is_dir():
        raise InputError(str(workload), "the folder does not exist", "", "Make it, or name another.")
    if seconds < LEAST_SECONDS:
        raise InputError(
            f"--seconds {seconds:g}",
            f"too short to calibrate: at least {LEAST_SECONDS:g} s",
            "docs/reference/run-description.md",
            "Watch longer, or leave --workload out.",
        )


def read_day(text: str | None):
    """A day of --as-of, None where it was not given. Raises InputError."""
    from datetime import date

    from headrace.errors import InputError

    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--as-of {text[:40]}", "must be a day like 2024-05-31", "ISO 8601", "") from None
