"""Making commands of `headrace bench run`: a benchmark's own options, those of what it is run on, and those of every run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.bench_common import ReportOption, StoreOption, show_run
from headrace.cli.common import Output, OutputOption, Ticker, complete_instance, complete_storage, say
from headrace.cli.lab_common import DataDirOption, SocketOption
from headrace.errors import CouldNotRun, InputError

DEFAULT_DATABASE = "headrace_bench"


class Engine(StrEnum):
    """What stores the tables."""

    innodb = "innodb"
    myrocks = "myrocks"


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


FolderOption = Annotated[
    Path,
    typer.Option("--folder", metavar="PATH", readable=False, help="A folder on the volume that is measured; for fio also a block device."),
]


@dataclass(frozen=True)
class Plan:
    """Everything about a run but the benchmark and the target."""

    threads: ThreadsOption = 16
    seconds: SecondsOption = 60
    warmup: WarmupOption = 0
    seed: SeedOption = 1
    name: NameOption = None
    store: StoreOption = None
    fresh: FreshOption = False
    cleanup: CleanupOption = False
    prepare_only: OnlyOption = False
    report: ReportOption = None
    output: OutputOption = Output.table


def measured(place: Callable, threads: int = 16) -> Callable:
    """Makes a command of a function that gives a benchmark. `place`: `server` or `files`, which give what it is run on; `threads`: the default."""

    def decorate(function: Callable) -> Callable:
        parts = [inspect.signature(part, eval_str=True).parameters for part in (place, function, Plan)]
        parts[2] = {**parts[2], "threads": parts[2]["threads"].replace(default=threads)}
        every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in parts for one in part.values()]

        @functools.wraps(function)
        def command(**given):
            target, benchmark, plan = ({name: given[name] for name in part} for part in parts)
            made = function(**benchmark)
            carry_out(made, place(**target), Plan(**plan))

        command.__signature__ = inspect.Signature(every, return_annotation=None)
        command.__annotations__ = {one.name: one.annotation for one in every}
        return command

    return decorate


def server(
    address: AddressArgument = None, name_in_lab: ServerOption = None, storage: StorageOption = None, log_storage: LogStorageOption = None, device: DeviceOption = None,
    volume: VolumeOption = None, instance: InstanceOption = None, engine: EngineOption = None, defaults_file: DefaultsFileOption = None, ask_password: AskPasswordOption = False,
    data_dir: DataDirOption = None, socket: SocketOption = None,
):  # fmt: skip
    """The server that is meant, by its name in the lab or by its address. Raises InputError."""
    from headrace.bench.target import server_target
    from headrace.lab import Lab

    if (address is None) == (name_in_lab is None):
        raise InputError("address and --server" if address else "no server", "name one: an address, or a server of the lab", "headrace bench run --help",
                         "For example mysql://root@/sbtest?socket=/run/mysqld/mysqld.sock, or --server db.")  # fmt: skip
    wanted = None if engine is None else str(engine)
    if address is not None:
        lab = Lab(data_dir, socket).place if volume else None
        found = read_address(address, defaults_file, ask_password)
        return server_target(
            found if found.database else found.with_database(DEFAULT_DATABASE), storage=storage, log_storage=log_storage, devices=device or (), lab=lab, volumes=volume or (),
            instance=instance, engine=wanted,
        )  # fmt: skip
    from headrace import servers as mysql

    with Lab(data_dir, socket) as lab:
        known = mysql.find(lab, name_in_lab)
        status = lab.status()
        place = lab.place
    if known.state != "running":
        raise CouldNotRun(f"server {name_in_lab}", f"is {known.state}", "", f"Start it: headrace mysql up {name_in_lab}{place.flags()}")
    return server_target(
        known.address(DEFAULT_DATABASE), storage=storage or known.storage, log_storage=log_storage or known.log_storage, devices=device or known.devices, lab=place,
        volumes=volume or tuple(volume for volume in (known.data_volume, known.log_volume) if volume), instance=instance or status.get("instance_type"), as_of=status.get("as_of"), engine=wanted or known.engine,
    )  # fmt: skip


def read_address(text: str, defaults_file: Path | None, ask_password: bool):
    """The address, with the password from where it may come. Raises InputError."""
    from headrace.connect import Secret, parse_address

    address = parse_address(text, defaults_file=defaults_file)
    if ask_password:
        secret = typer.prompt(f"Password of {address.user}", hide_input=True, err=True, default="", show_default=False)
        address = address.with_password(Secret(secret))
    return address


def files(
    folder: FolderOption, storage: StorageOption = None, device: DeviceOption = None, volume: VolumeOption = None, instance: InstanceOption = None, data_dir: DataDirOption = None,
    socket: SocketOption = None,
):  # fmt: skip
    """A folder or a device that is meant. Raises InputError."""
    from headrace.bench.target import file_target
    from headrace.lab import Lab

    lab = Lab(data_dir, socket).place if volume else None
    return file_target(folder, storage=storage, devices=device or (), lab=lab, volumes=volume or (), instance=instance)


@contextmanager
def watched() -> Iterator[Ticker]:
    """A bar with what the last second did and the time left."""
    ticker = Ticker("")
    try:
        yield ticker
    finally:
        ticker.stop()


def carry_out(benchmark, target, plan: Plan) -> None:
    """Prepares, runs, shows and cleans up. Raises as `bench.run`; what was measured until then is shown first."""
    from headrace.base.processes import ends_as_interrupts
    from headrace.report.output import check_chart_path

    check_chart_path(plan.report)
    # `timeout` and `systemctl stop` end it as Ctrl-C does: nothing is left half made or running.
    with ends_as_interrupts():
        _carry_out(benchmark, target, plan)


def _carry_out(benchmark, target, plan: Plan) -> None:
    from headrace import bench

    made = bench.prepare(benchmark, target, threads=plan.threads, seed=plan.seed, fresh=plan.fresh, say=say)
    if plan.prepare_only:
        say("prepared" if made else "was prepared before")
        return
    try:
        try:
            with watched() as bar:
                record = bench.run(
                    benchmark, target, seconds=plan.seconds, warmup_s=plan.warmup, threads=plan.threads, seed=plan.seed, store=plan.store, name=plan.name,
                    progress=lambda share, what: bar(share), on_second=lambda second: _tell(bar, second),
                )  # fmt: skip
        except bench.BrokenRun as broken:
            show_run(broken.record, plan.output, plan.report)
            raise
        except bench.InterruptedRun as stopped:
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
