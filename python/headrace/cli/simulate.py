"""`headrace simulate`: one load on one storage."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import (
    AsOfOption,
    GrowthOption,
    Output,
    OutputOption,
    WorkloadArgument,
    complete_instance,
    complete_storage,
    data,
    progress,
    read_workload,
    say,
)
from headrace.cli.inline import canonical
from headrace.cli.transactions import LogStorageOption, simulate_transactions
from headrace.workload import TransactionWorkload

EPILOG = """\b
Examples:
  headrace simulate fio:rw=randread,bs=16k,iodepth=10 --storage gp2:500 --seconds 3600 --output csv
  headrace simulate mysql.toml --storage gp2:500 --instance m5.large --plot day.html
  headrace simulate demo:day --storage raid10:4xgp3:200 --degrade 0:36000:600:50:20
  headrace simulate shop.toml --storage io1:1024:5000 --cache-gib 27 --threads 32 --seconds 3600 --output csv
  headrace simulate demo:day --storage gp3:200 --modify gp3:200:6000@30..7200

A row per interval: asked, delivered IOPS and MiB/s, queue, balances, the limit waited for, latency. The table shows them shortened; csv and
json have every row. Times are seconds from the start of the workload. Limits waited for: volume-iops, volume-throughput, volume-credits (gone),
instance-iops, instance-throughput, instance-credits (gone), first-touch, degraded, clients."""


class Form(StrEnum):
    """auto chooses by the number of requests; events simulates each; interval is the closed form."""

    auto = "auto"
    events = "events"
    interval = "interval"


class Cycle(StrEnum):
    """The first cycle with the balances of a new volume, or the one that repeats."""

    first = "first"
    settled = "settled"


class Start(StrEnum):
    """Empty, or as full and settled as the cache gets."""

    cold = "cold"
    warm = "warm"


MYSQL = "Databases in transactions"
MODEL = "What the model does"
EVENTS = "What happens to the volumes"


def simulate(
    workload: WorkloadArgument = None,
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage", metavar="SPEC", help="gp2:500, 2xgp3:500:6000:250, raid10:4xio1:100:3000", autocompletion=complete_storage
        ),
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option(
            "--instance",
            metavar="TYPE",
            help="EC2 type whose EBS limits apply. Default: the volumes alone.",
            autocompletion=complete_instance,
        ),
    ] = None,
    as_of: AsOfOption = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="N", help="Length of a closed load (default 60), or where to cut a demand.")
    ] = None,
    interval: Annotated[float | None, typer.Option("--interval", metavar="S", help="Length of a row in seconds.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Same seed, same answer.")] = 1,
    start_balance: Annotated[
        float | None,
        typer.Option("--start-balance", metavar="PERCENT", help="Credits and burst buckets at the start. Default: as AWS starts them."),
    ] = None,
    growth: GrowthOption = 1.0,
    form: Annotated[
        Form, typer.Option("--form", help="Simulate every request (events) or whole intervals.", rich_help_panel=MODEL)
    ] = Form.auto,
    cycle: Annotated[
        Cycle | None,
        typer.Option(
            "--cycle",
            help="first: from the balances at the start. settled: repeated until balances end where they began. Default: first.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    no_merge: Annotated[bool, typer.Option("--no-merge", help="Do not merge sequential I/Os.", rich_help_panel=MODEL)] = False,
    no_saved_second: Annotated[
        bool, typer.Option("--no-saved-second", help="A rested volume has not saved a second of its IOPS.", rich_help_panel=MODEL)
    ] = False,
    no_holds: Annotated[bool, typer.Option("--no-holds", help="No stalls of single I/Os in the latency.", rich_help_panel=MODEL)] = False,
    xen: Annotated[
        bool,
        typer.Option(
            "--xen", help="Deliver 2.5 % over the nominal rate, as volumes on Xen instances were measured to.", rich_help_panel=MODEL
        ),
    ] = False,
    snapshot_gib: Annotated[
        float | None,
        typer.Option(
            "--snapshot-gib", metavar="GIB", help="The volume was made from a snapshot of this much data.", rich_help_panel=EVENTS
        ),
    ] = None,
    init_rate: Annotated[
        float | None,
        typer.Option("--init-rate", metavar="MIB_S", help="Bought initialization rate, with --snapshot-gib.", rich_help_panel=EVENTS),
    ] = None,
    degrade: Annotated[
        list[str] | None,
        typer.Option(
            "--degrade",
            metavar="MEMBER:START_S:LENGTH_S:CAPS_PERCENT[:EXTRA_MS]",
            help="A volume delivers less for a while. Repeatable; members count from 0.",
            rich_help_panel=EVENTS,
        ),
    ] = None,
    modify: Annotated[
        str | None,
        typer.Option(
            "--modify",
            metavar="SPEC@START..END",
            rich_help_panel=EVENTS,
            help="ModifyVolume to SPEC: 'modifying' ends at START, 'optimizing' at END (s).",
        ),
    ] = None,
    lose_member: Annotated[
        list[str] | None,
        typer.Option("--lose-member", metavar="N", help="This member of the array is gone. Repeatable.", rich_help_panel=EVENTS),
    ] = None,
    log_storage: LogStorageOption = None,
    cache_gib: Annotated[
        float | None,
        typer.Option("--cache-gib", metavar="GIB", help="Buffer pool or block cache. Default: as measured.", rich_help_panel=MYSQL),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", help="Clients. Default: as measured.", rich_help_panel=MYSQL)
    ] = None,
    arrivals_tps: Annotated[
        float | None,
        typer.Option(
            "--arrivals-tps", metavar="TPS", help="Transactions that arrive, instead of clients that wait.", rich_help_panel=MYSQL
        ),
    ] = None,
    start: Annotated[Start | None, typer.Option("--start", help="Cache at the start. Default: cold.", rich_help_panel=MYSQL)] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            metavar="FILE",
            help="Instead: repeat what `headrace volume record` wrote and compare every decision. Exit code 1 where they differ.",
        ),
    ] = None,
    output: OutputOption = Output.table,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Write a chart: .html (a page), .svg or .png.")] = None,
) -> None:
    """Run a load on a storage: what is delivered, what waits, when credits run dry. A database (from `headrace calibrate`): transactions a second."""
    from headrace.report.output import check_chart_path

    check_chart_path(plot)
    if replay is not None:
        refuse_options({"WORKLOAD": workload, "--storage": storage, "--plot": plot}, "is for simulations; a record has its own")
        return replay_record(replay, output)
    load = read_workload(needed("WORKLOAD", workload))
    storage = canonical(needed("--storage", storage))
    of_databases = {
        "--log-storage": log_storage,
        "--cache-gib": cache_gib,
        "--threads": threads,
        "--arrivals-tps": arrivals_tps,
        "--start": start,
    }
    of_demand = {"--interval": interval, "--cycle": cycle, "--no-merge": no_merge, "--no-saved-second": no_saved_second, "--no-holds": no_holds, "--xen": xen,
                 "--snapshot-gib": snapshot_gib, "--init-rate": init_rate, "--degrade": degrade, "--modify": modify, "--lose-member": lose_member}  # fmt: skip
    if isinstance(load, TransactionWorkload):
        refuse_options(of_demand, "is for demands on disks; this workload is a database in transactions")
        if arrivals_tps is not None:
            refuse_options({"--threads": threads}, "is for clients that wait; with --arrivals-tps nobody does")
        simulate_transactions(
            load, storage, output, plot, log_storage=log_storage, instance=instance, cache_gib=cache_gib, threads=threads, arrivals_tps=arrivals_tps,
            as_of=as_of, seconds=whole_seconds(seconds, 60 if form is Form.events else DATABASE_SECONDS), start=str(start or Start.cold), start_balance_percent=start_balance, growth=growth, seed=seed,
            form="events" if form is Form.events else "interval",
        )  # fmt: skip
        return
    refuse_options(of_databases, "is for databases in transactions; this workload is a demand on disks")
    switches = {"merge": no_merge, "saved_second": no_saved_second, "holds": no_holds}
    options = _options(storage, snapshot_gib, init_rate, degrade or [], modify, lose_member or [])
    options |= {name: False for name, off in switches.items() if off} | ({"rate_per_mille": XEN_RATE_PER_MILLE} if xen else {})
    check_rows(load, seconds, interval)
    if not hasattr(load, "points") and lose_member:
        check_survivors(storage, options["failed_members"])
    # Which requests meet a lost member is known per I/O only.
    chosen = "events" if lose_member and form is Form.auto else str(form)
    from headrace.simulation.demand import simulate as run_simulation

    with progress("simulating") as tick:
        run = run_simulation(
            load, storage, instance=instance, as_of=as_of, seconds=seconds, interval_s=interval, seed=seed,
            start_balance=start_balance, form=chosen, growth=growth, options=options, progress=tick,
            **({} if cycle is None else {"cycle": str(cycle)}),
        )  # fmt: skip
    show_run(run, load, output, plot, saved_second=not no_saved_second)


MOST_ROWS = 1_000_000
DATABASE_SECONDS = 3_600


def needed(name: str, value: str | None) -> str:
    """An argument that only --replay can do without. Raises InputError."""
    from headrace.errors import InputError

    if value is None:
        raise InputError(name, "is missing", "headrace simulate --help", "For example: headrace simulate demo:day --storage gp2:500")
    return value


def replay_record(path: Path, output: Output) -> None:
    """Replays a record and prints what came of it."""
    from headrace.report.output import as_json
    from headrace.report.replay import words_of
    from headrace.report.tables import show
    from headrace.simulation.demand import replay

    with progress("replaying") as tick:
        found = replay(path, progress=tick)
    if output is Output.csv:
        from headrace.errors import InputError

        raise InputError("--output csv", "a replay has no rows", "headrace simulate --help", "Use table or json.")
    if output is Output.json:
        data(as_json({"schema": "headrace-replay/1"} | found))
    else:
        show(*words_of(found))
    if found["equal"] != found["requests"]:
        raise typer.Exit(1)


def whole_seconds(seconds: float | None, otherwise: int) -> int:
    """Length of a prediction: a row a second. Raises InputError."""
    from headrace.errors import InputError

    if seconds is None:
        return otherwise
    if not 1 <= seconds <= MOST_ROWS or seconds != int(seconds):
        raise InputError(
            f"seconds = {seconds:,.10g}", f"must be a whole number from 1 to {MOST_ROWS:,}: a row is a second", "headrace simulate --help"
        )
    return int(seconds)


def refuse_options(given: dict[str, object], rule: str) -> None:
    """Refuses options that say nothing about this kind of workload. Raises InputError."""
    from headrace.errors import InputError

    for name, value in given.items():
        if value is not None and value is not False and value != []:  # 0 was given
            raise InputError(name, rule, "headrace simulate --help", "Leave it out.")


def check_survivors(storage: str, lost: list[int]) -> None:
    """Refuses a closed load on a lost array. Raises InputError."""
    from headrace.base import core
    from headrace.cli.inline import check_lost

    spec = core.parse_storage(storage)
    check_lost(lost, spec["raid"], len(spec["members"]))


def check_rows(load, seconds: float | None, interval: float | None) -> None:
    """Refuses more rows than anybody reads, before they fill the memory. Raises InputError."""
    from headrace.errors import InputError

    length = seconds or getattr(load, "span_s", 60.0)
    if interval and interval > 0 and length / interval > MOST_ROWS:
        raise InputError(f"{length / interval:,.0f} rows", f"at most {MOST_ROWS:,} are made", "headrace simulate --help",
                         "Raise --interval, or cut the run with --seconds.")  # fmt: skip


# fio on a gp2 volume of a Xen instance: 3,061 to 3,075 IOPS where 3,000 are nominal (published run of 2018).
XEN_RATE_PER_MILLE = 1_025


def _options(storage, snapshot_gib, init_rate, degrade, modify, lose_member) -> dict:
    from headrace.base import core
    from headrace.base.checks import check_number
    from headrace.base.core import core_errors
    from headrace.base.units import GIB, MIB
    from headrace.cli import inline
    from headrace.errors import InputError
    from headrace.workload.points import MAX_SIZE_GIB

    with core_errors():
        members = core.parse_storage(storage)["members"]
        options: dict = {}
        if modify is not None:
            options["modify"] = inline.modification(modify)
            target = core.parse_storage(options["modify"]["storage"])["members"]
            inline.check_modification(members, target, modify)
    if init_rate is not None and snapshot_gib is None:
        raise InputError(
            f"--init-rate {init_rate:,.10g}", "needs --snapshot-gib", "headrace simulate --help", "Say how much data the snapshot holds."
        )
    if snapshot_gib is not None:
        usable = core.parse_storage(storage)["usable_gib"]
        if snapshot_gib > usable:
            raise InputError(f"--snapshot-gib {snapshot_gib:,.10g}", f"is more than {storage} holds: {usable:,} GiB",
                             "Amazon EC2 API, CreateVolume: a volume is at least as large as its snapshot", "Take a larger volume, or less data.")  # fmt: skip
        rate = None if init_rate is None else int(check_number("--init-rate", init_rate, 0.001, 100_000, "MiB/s") * MIB)
        written = int(check_number("--snapshot-gib", snapshot_gib, 0.0, MAX_SIZE_GIB, "GiB") * GIB)
        options["snapshot"] = {"written_bytes": written, "initialization_bytes_s": rate}
    if degrade:
        options["degradations"] = [inline.degradation(text, len(members)) for text in degrade]
    if lose_member:
        options["failed_members"] = [inline.member(text, len(members)) for text in lose_member]
    return options


def show_run(run, load, output: Output, plot: Path | None, saved_second: bool = True) -> None:
    """Prints a run in the form asked for and writes its chart."""
    from headrace.catalog import facts as catalog
    from headrace.report import simulation
    from headrace.report.output import as_csv, as_json

    notes = catalog.caveats(run.storage, run.instance, run.as_of) + catalog.latency_caveats(run.storage, run.as_of) + list(load.notes())
    if plot is not None:
        from headrace.report.pages import write_simulation

        write_simulation(plot, run, load, notes)
        say(f"chart written to {plot}")
    if output is Output.json:
        data(as_json(simulation.document(run, load, notes, saved_second)))
    elif output is Output.csv:
        data(as_csv(simulation.with_clock(run, load)))
    else:
        from headrace.report.tables import show

        lines = simulation.in_words(run, load, saved_second)
        show(*lines, "", simulation.table_of(run, load), *([""] if notes else []), *(f"note: {note}" for note in notes))
