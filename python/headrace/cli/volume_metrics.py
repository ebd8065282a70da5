"""`headrace volume balance | metrics | watch | record`: what a volume has left and what it does."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import Output, OutputOption, data, say
from headrace.cli.lab_common import DataDirOption, MemberOption, SocketOption, VolumeArgument, number, percent, percent_cell, print_answer


class Resolution(StrEnum):
    """Rows of a second (an hour is kept) or of a minute (15 days)."""

    second = "second"
    minute = "minute"


class Do(StrEnum):
    """Begin or end."""

    start = "start"
    stop = "stop"


def balance(
    volume: VolumeArgument,
    set_to: Annotated[str | None, typer.Option("--set", metavar="PERCENT", help="Set it, like 5%.")] = None,
    member: MemberOption = None,
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Write the balances to a file.")] = None,
    load: Annotated[Path | None, typer.Option("--load", metavar="FILE", help="Set them to what was saved.")] = None,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Show, set, save or bring back credit balances."""
    from headrace.errors import InputError
    from headrace.lab import Lab, balances

    wanted = percent(set_to, "--set")
    if sum(given is not None for given in (set_to, save, load)) > 1:
        raise InputError("--set, --save, --load", "only one of them", "headrace volume balance --help", "Run the command twice.")
    if member is not None and set_to is None:
        raise InputError("--member", "belongs to --set", "headrace volume balance --help", "Every member is shown anyway.")
    saved = None if load is None else balances.load(load)
    with Lab(data_dir, socket) as lab:
        if wanted is not None:
            lab.set_balance(volume, wanted, member)
        if saved is not None:
            lab.restore_balance(volume, saved)
        now = lab.balance(volume)
    if save is not None:
        balances.save(now, save)
        say(f"{volume}: balances saved in {save}")
    rows = [{"member": index} | (one or {}) for index, one in enumerate(now["members"])]
    print_answer(now, output, rows, ("member", "credits", "capacity", "percent"), lambda: _balance_parts(now))


def _balance_parts(answer: dict) -> list:
    from headrace.report.tables import table

    rows = []
    for index, one in enumerate(answer["members"]):
        cells = (
            ("-", "-", "no credits")
            if one is None
            else (number(float(one["credits"]), 0), number(float(one["capacity"]), 0), percent_cell(one["percent"]))
        )
        rows.append((index, *cells))
    parts: list = [table(("member", "credits", "of", "balance"), rows, right=("credits", "of", "balance"))]
    instance = answer.get("instance")
    if instance:
        parts += ["", f"instance: IOPS {percent_cell(instance['iops_percent'])}, bytes {percent_cell(instance['bytes_percent'])}"]
    return parts


def metrics(
    volume: VolumeArgument,
    minutes: Annotated[int | None, typer.Option("--minutes", metavar="N", min=1, help="The last N minutes, a row each.")] = None,
    seconds: Annotated[
        int | None, typer.Option("--seconds", metavar="N", min=1, help="The last N seconds, a row each. Default: 60.")
    ] = None,
    resolution: Annotated[Resolution | None, typer.Option("--resolution", help="Rows of seconds or of minutes.")] = None,
    member: MemberOption = None,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Print what a volume did: csv and json have every column, the table what a person reads."""
    from headrace.lab import Lab
    from headrace.lab.metrics import SECONDS_OF, frame, rates, stretch
    from headrace.report.output import as_csv, as_json
    from headrace.report.tables import show, table

    unit, rows = stretch(seconds, minutes, resolution)
    with Lab(data_dir, socket) as lab:
        answer = lab.metrics(volume, unit, last=rows, member=member)
    if output is Output.table:
        cells = [rate_cells(rates(answer["columns"], row, SECONDS_OF[unit])) for row in answer["rows"]]
        show(table(RATE_COLUMNS, cells, right=RATE_COLUMNS[1:]))
    else:
        rows_of = frame(answer)
        data(as_csv(rows_of) if output is Output.csv else as_json(rows_of))


RATE_COLUMNS = (
    "time (UTC)",
    "read IOPS",
    "write IOPS",
    "read MiB/s",
    "write MiB/s",
    "queue",
    "read p50 ms",
    "p99",
    "write p50 ms",
    "p99 ",
    "at limit",
    "balance",
)


def rate_cells(rate) -> list[str]:
    """The cells of RATE_COLUMNS."""
    counts = [number(round(value)) for value in (rate.read_iops, rate.write_iops)]
    sizes = [f"{value:,.1f}" for value in (rate.read_mib_s, rate.write_mib_s, rate.queue)]
    latencies = [
        "-" if value is None else f"{value:,.2f}" for value in (rate.read_p50_ms, rate.read_p99_ms, rate.write_p50_ms, rate.write_p99_ms)
    ]
    at = datetime.fromtimestamp(rate.t_s, UTC)
    return [f"{at:%m-%d %H:%M:%S}", *counts, *sizes, *latencies, f"{rate.exceeded_percent:.0f} %", percent_cell(rate.balance_percent)]


def watch(
    volume: VolumeArgument,
    seconds: Annotated[int | None, typer.Option("--seconds", metavar="N", min=1, help="End after so many. Default: Ctrl-C.")] = None,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Watch a volume, a row a second: IOPS, MiB/s, queue, latency, balance, time to empty. Ctrl-C ends it."""
    import sys

    from headrace.cli.watching import live, plain_lines
    from headrace.errors import InputError
    from headrace.lab import Lab
    from headrace.lab.watching import readings

    with Lab(data_dir, socket) as lab:
        found = lab.describe(volume)
        if not found["attachment"]:
            raise InputError(volume, "is not attached, so nothing happens on it", "", f"Attach it: headrace volume attach {volume}")
        (live if sys.stdout.isatty() else plain_lines)(found, readings(lab, volume, seconds))


def record(
    volume: VolumeArgument,
    do: Annotated[Do, typer.Argument(metavar="start|stop", help="Begin or end.")],
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="start: where to write. Default: in the lab's directory.")] = None,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Write every decision of the model to a file, for headrace simulate --replay."""
    from headrace.errors import InputError
    from headrace.lab import Lab

    if do is Do.stop and to is not None:
        raise InputError("--to", "belongs to start", "headrace volume record --help", "Leave it out: stop says where it was written.")
    with Lab(data_dir, socket) as lab:
        answer = lab.record(volume, None if to is None else to.absolute()) if do is Do.start else lab.record_stop(volume)
    requests = "" if do is Do.start else f", {answer['requests']:,} requests"
    text = f"{'recording to' if do is Do.start else 'recorded in'} {answer['path']}{requests}"
    print_answer(answer, output, [answer], ("path", "requests"), lambda: (text,))
