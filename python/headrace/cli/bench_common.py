"""What the commands of `headrace bench` share: where runs are kept, what is measured, how long, and the bar that shows it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import Output, Ticker, complete_instance, complete_storage, data, say
from headrace.errors import CouldNotRun, HeadraceError, InputError

DEFAULT_DATABASE = "headrace_bench"


class Engine(StrEnum):
    """What stores the tables."""

    innodb = "innodb"
    myrocks = "myrocks"


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of runs for the shell."""
    from headrace.bench.store import Store

    try:
        return [name for name in ["latest", *reversed(Store(context.params.get("store")).ids())] if name.startswith(incomplete)]
    except (HeadraceError, OSError):
        return []


StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store", metavar="DIR", readable=False, help="Where runs are kept. Default: $HEADRACE_RUNS, else ~/.local/share/headrace/runs."
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="An id, a part of it that no other has, `latest`, or `latest~1` (the one before).", autocompletion=complete_run
    ),
]
AddressArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[ADDRESS]",
        help="mysql://USER@HOST[:PORT]/DATABASE or mysql://USER@/DATABASE?socket=PATH. Its tables are made in that database.",
    ),
]
ServerOption = Annotated[
    str | None, typer.Option("--server", metavar="NAME", help="A server of `headrace mysql up`, instead of an address.")
]
StorageOption = Annotated[
    str | None,
    typer.Option(
        "--storage", metavar="SPEC", help="What it is on, like gp3:500:6000; of a lab server it is known.", autocompletion=complete_storage
    ),
]
LogStorageOption = Annotated[
    str | None,
    typer.Option(
        "--log-storage",
        metavar="SPEC",
        help="The same of redo and binary log, when on a volume of their own.",
        autocompletion=complete_storage,
    ),
]
DeviceOption = Annotated[
    list[str] | None,
    typer.Option("--device", metavar="D", help="Block device whose counters are recorded; again for each. Default: that of the data."),
]
VolumeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--volume", metavar="VOL", help="Lab volume whose own figures are recorded too; again for each. Of a lab server it is known."
    ),
]
InstanceOption = Annotated[
    str | None, typer.Option("--instance", metavar="TYPE", help="EC2 instance type of the server.", autocompletion=complete_instance)
]
DefaultsFileOption = Annotated[
    Path | None,
    typer.Option("--defaults-file", metavar="FILE", help="Option file whose [client] has the password (only its owner may read it)."),
]
AskPasswordOption = Annotated[bool, typer.Option("--ask-password", "-p", help="Ask for the password on the terminal.")]
EngineOption = Annotated[Engine | None, typer.Option("--engine", help="Of the test tables. Default: the server's default engine.")]
ThreadsOption = Annotated[
    int, typer.Option("--threads", metavar="N", min=1, help="Clients, each with one transaction (or --iodepth requests) under way.")
]
SecondsOption = Annotated[int, typer.Option("--seconds", metavar="N", min=2, help="How long it is measured.")]
WarmupOption = Annotated[int, typer.Option("--warmup", metavar="N", min=0, help="Seconds before that which do not count.")]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", min=1, help="Of the random numbers.")]
NameOption = Annotated[str | None, typer.Option("--name", metavar="NAME", help="A name for the run.")]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Drop the test data that are there and make them anew.")]
CleanupOption = Annotated[bool, typer.Option("--cleanup", help="Remove the test data afterwards.")]
OnlyOption = Annotated[bool, typer.Option("--prepare-only", help="Make the data, and run nothing.")]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts (.html), or the time line alone (.svg, .png).")
]


@dataclass(frozen=True)
class Plan:
    """Everything about a run but the benchmark and the target."""

    threads: int
    seconds: int
    warmup: int
    seed: int
    name: str | None
    store: Path | None
    fresh: bool
    cleanup: bool
    prepare_only: bool
    report: Path | None
    output: Output


def server(
    address: str | None, name: str | None, storage: str | None, log_storage: str | None, devices: list[str] | None, volumes: list[str] | None, instance: str | None, engine: Engine | None,
    defaults_file: Path | None, ask_password: bool, data_dir: Path | None, socket: Path | None,
):  # fmt: skip
    """The server that is meant, by its name in the lab or by its address. Raises InputError."""
    from headrace.bench.target import server_target
    from headrace.lab import Lab

    if (address is None) == (name is None):
        raise InputError("address and --server" if address else "no server", "name one: an address, or a server of the lab", "headrace bench run --help",
                         "For example mysql://root@/sbtest?socket=/run/mysqld/mysqld.sock, or --server db.")  # fmt: skip
    wanted = None if engine is None else str(engine)
    if address is not None:
        lab = Lab(data_dir, socket).place if volumes else None
        found = read_address(address, defaults_file, ask_password)
        return server_target(
            found if found.database else found.with_database(DEFAULT_DATABASE), storage=storage, log_storage=log_storage, devices=devices or (), lab=lab, volumes=volumes or (),
            instance=instance, engine=wanted,
        )  # fmt: skip
    from headrace import mysql

    with Lab(data_dir, socket) as lab:
        known = mysql.find(lab, name)
        status = lab.status()
        place = lab.place
    if known.state != "running":
        raise CouldNotRun(f"server {name}", f"is {known.state}", "", f"Start it: headrace mysql up {name}{place.flags()}")
    return server_target(
        known.address(DEFAULT_DATABASE), storage=storage or known.storage, log_storage=log_storage or known.log_storage, devices=devices or known.devices, lab=place,
        volumes=volumes or tuple(volume for volume in (known.data_volume, known.log_volume) if volume), instance=instance or status.get("instance_type"), as_of=status.get("as_of"), engine=wanted or known.engine,
    )  # fmt: skip


def read_address(text: str, defaults_file: Path | None, ask_password: bool):
    """The address, with the password from where it may come. Raises InputError."""
    from headrace.workload.capture import Secret, parse_address

    address = parse_address(text, defaults_file=defaults_file)
    if ask_password:
        secret = typer.prompt(f"Password of {address.user}", hide_input=True, err=True, default="", show_default=False)
        address = address.with_password(Secret(secret))
    return address


def files(
    folder: Path,
    storage: str | None,
    devices: list[str] | None,
    volumes: list[str] | None,
    instance: str | None,
    data_dir: Path | None,
    socket: Path | None,
):
    """A folder or a device that is meant. Raises InputError."""
    from headrace.bench.target import file_target
    from headrace.lab import Lab

    lab = Lab(data_dir, socket).place if volumes else None
    return file_target(folder, storage=storage, devices=devices or (), lab=lab, volumes=volumes or (), instance=instance)


@contextmanager
def watched(load_s: int) -> Iterator[Ticker]:
    """A bar with what the last second did and the time left."""
    ticker = Ticker("")
    try:
        yield ticker
    finally:
        ticker.stop()


def carry_out(benchmark, target, plan: Plan) -> None:
    """Prepares, runs, shows and cleans up. Raises as `bench.run`; what was measured until then is shown first."""
    from headrace import bench
    from headrace.report.output import check_chart_path

    check_chart_path(plan.report)
    # `timeout` and `systemctl stop` end it as Ctrl-C does: nothing is left half made or running.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    made = bench.prepare(benchmark, target, threads=plan.threads, seed=plan.seed, fresh=plan.fresh, say=say)
    if plan.prepare_only:
        say("prepared" if made else "was prepared before")
        return
    try:
        try:
            with watched(plan.warmup + plan.seconds) as bar:
                record = bench.run(
                    benchmark, target, seconds=plan.seconds, warmup_s=plan.warmup, threads=plan.threads, seed=plan.seed, store=plan.store, name=plan.name,
                    progress=lambda share, what: bar(share), on_second=lambda second: _tell(bar, second),
                )  # fmt: skip
        except bench.BrokenRun as broken:
            show_run(broken.record, plan.output, plan.report)
            raise
        except bench.Interrupted as stopped:
            show_run(stopped.record, plan.output, plan.report)
            raise CouldNotRun("the run", "was interrupted", "", f"What was measured is kept: run {stopped.record.id}.", 130) from None
        show_run(record, plan.output, plan.report)
    finally:
        if plan.cleanup:
            bench.cleanup(benchmark, target)


def _tell(bar: Ticker, second) -> None:
    """The last second beside the bar."""
    if bar.bar is None:
        return
    parts = ["warming up" if second.phase == "warmup" else "measuring"]
    parts += [f"{second.tps:,.0f}/s"] if second.tps is not None else []
    parts += [f"p95 {second.p95_ms:,.1f} ms"] if second.p95_ms is not None else []
    bar.bar.update(bar.task, description=", ".join(parts))


def show_run(record, output: Output, report: Path | None = None) -> None:
    """A run on stdout, and as a page where one is wanted."""
    from headrace.cli.lab_common import as_csv, pairs
    from headrace.report import benchmarks
    from headrace.report.output import as_json
    from headrace.report.tables import show

    if report is not None:
        benchmarks.write_run(report, record)
        say(f"report written to {report}")
    if output is Output.json:
        return data(as_json(record.document | {"folder": record.folder, "run_toml": record.run_toml}))
    if output is Output.csv:
        row = {"run": record.id, "state": record.state, **record.summary}
        return data(as_csv([row], tuple(row)))
    show(pairs(benchmarks.setup_rows(record)), "", pairs(benchmarks.figure_rows(record)), "")
    for text in record.findings:
        say(f"note: {text}")
    say(
        f"kept as {record.id} in {record.folder.parent}"
        + (f"; calibrate from it: headrace calibrate {record.run_toml}" if record.run_toml else "")
    )
