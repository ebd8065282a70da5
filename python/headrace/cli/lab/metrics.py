"""`headrace volume balance | metrics | watch | record`: what a volume has left and what it does."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.cli.lab.common import number, percent, percent_cell
from headrace.cli.lazy import lazily
from headrace.cli.options import LabPlace, MemberOption, OutputOption, VolumeArgument, choice, option
from headrace.cli.output import print_answer, print_frame, say, show, table
from headrace.cli.writing import WRITES_FILE
from headrace.errors import InputError
from headrace.report.output import plain

if TYPE_CHECKING:
    from headrace.lab.metrics import Rates
    from headrace.lab.watching import Reading

with lazily():
    from headrace.lab import balances, watching
    from headrace.lab import metrics as lab_metrics
    from headrace.report import tables


def balance(
    volume: VolumeArgument,
    place: LabPlace,
    set_to: Annotated[str | None, option("PERCENT", "Set it, like 5%.", "--set")] = None,
    member: MemberOption = None,
    save: Annotated[Path | None, option("FILE", "Write the balances to a file."), WRITES_FILE] = None,
    load: Annotated[Path | None, option("FILE", "Set them to what was saved.")] = None,
    output: OutputOption = "table",
) -> None:
    """Show, set, save or bring back credit balances."""
    target_percent = percent(set_to, "--set")
    if sum(given is not None for given in (set_to, save, load)) > 1:
        raise InputError(
            "--set, --save, --load", "only one of them", "headrace volume balance --help", "Run the command twice."
        )
    if member is not None and set_to is None:
        raise InputError(
            "--member", "belongs to --set", "headrace volume balance --help", "Every member is shown anyway."
        )
    saved = None if load is None else balances.load(load)
    with place.open() as lab:
        if target_percent is not None:
            lab.set_balance(volume, target_percent, member)
        if saved is not None:
            lab.restore_balance(volume, saved)
        now = lab.balance(volume)
    if save is not None:
        balances.save(now, save)
        say(f"{volume}: balances saved in {save}")
    rows = [{"member": index} | dict(credits or {}) for index, credits in enumerate(now["members"])]
    print_answer(now, output, rows, ("member", "credits", "capacity", "percent"), lambda: _balance_parts(now))


def _balance_parts(answer: Mapping[str, Any]) -> list[object]:
    rows = [
        (index, "-", "-", "no credits")
        if credits is None
        else (
            index,
            number(float(credits["credits"]), 0),
            number(float(credits["capacity"]), 0),
            percent_cell(credits["percent"]),
        )
        for index, credits in enumerate(answer["members"])
    ]
    parts: list[object] = [table(("member", "credits", "of", "balance"), rows, right=("credits", "of", "balance"))]
    instance = answer.get("instance")
    if instance:
        parts += [
            "",
            f"instance: IOPS {percent_cell(instance['iops_percent'])}, bytes {percent_cell(instance['bytes_percent'])}",
        ]
    return parts


def metrics(
    volume: VolumeArgument,
    place: LabPlace,
    minutes: Annotated[int | None, option("N", "The last N minutes, a row each.", min=1)] = None,
    seconds: Annotated[int | None, option("N", "The last N seconds, a row each. Default: 60.", min=1)] = None,
    resolution: Annotated[
        Literal["second", "minute"] | None, choice("Rows of seconds (an hour is kept) or of minutes (15 days).")
    ] = None,
    member: MemberOption = None,
    output: OutputOption = "table",
) -> None:
    """Print what a volume did: csv and json have every column, the table what a person reads."""
    unit, rows = lab_metrics.stretch(seconds, minutes, resolution)
    with place.open() as lab:
        answer = lab.metrics(volume, unit, last=rows, member=member)
    if output == "table":
        cells = [
            rate_cells(lab_metrics.rates(answer["columns"], row, lab_metrics.SECONDS_OF[unit]))
            for row in answer["rows"]
        ]
        show(table(RATE_COLUMNS, cells, right=RATE_COLUMNS[1:]))
    else:
        print_frame(lab_metrics.frame(answer), output)


RATE_COLUMNS = (
    "time (UTC)", "read IOPS", "write IOPS", "read MiB/s", "write MiB/s", "queue", "read p50 ms", "p99 ms", "write p50 ms", "p99 ms ",
    "at limit", "balance"
)  # fmt: skip


def latency_cells(rate: Rates) -> list[str]:
    """Returns I/O p50 and p99 of reads and of writes, ms."""
    shown = (rate.read_p50_ms, rate.read_p99_ms, rate.write_p50_ms, rate.write_p99_ms)
    return ["-" if value is None else f"{value:,.2f}" for value in shown]


def rate_cells(rate: Rates) -> list[str]:
    """Returns the cells of RATE_COLUMNS."""
    at = datetime.fromtimestamp(rate.t_s, UTC)
    counts = [number(round(value)) for value in (rate.read_iops, rate.write_iops)]
    sizes = [f"{value:,.1f}" for value in (rate.read_mib_s, rate.write_mib_s, rate.queue)]
    shares = [f"{rate.exceeded_percent:.0f} %", percent_cell(rate.balance_percent)]
    return [f"{at:%m-%d %H:%M:%S}", *counts, *sizes, *latency_cells(rate), *shares]


def watch(
    volume: VolumeArgument,
    place: LabPlace,
    seconds: Annotated[int | None, option("N", "End after N seconds. Default: at Ctrl-C.", min=1)] = None,
) -> None:
    """Watch a volume, a row a second: IOPS, MiB/s, queue, latency, balance, time to empty. Ctrl-C
    ends it."""
    with place.open() as lab:
        details = lab.describe(volume)
        if not details["attachment"]:
            raise InputError(
                volume, "is not attached, so nothing happens on it", "", f"Attach it: headrace volume attach {volume}"
            )
        (live if sys.stdout.isatty() else plain_lines)(details, watching.readings(lab, volume, seconds))


COLUMNS = (
    "time",
    "IOPS",
    "read",
    "write",
    "MiB/s",
    "queue",
    "read p50",
    "p99 ms",
    "write p50",
    "p99 ms",
    "balance",
    "empty in",
)
WIDTHS = (8, 8, 8, 8, 8, 7, 9, 8, 9, 8, 9, 10)  # characters, as wide as the largest figures
ROWS = 20  # seconds in the table: it fits a terminal of 25 lines
COURSE = 120  # seconds in the course of IOPS and balance: it fits 130 columns


def cells(reading: Reading) -> list[str]:
    """Returns the cells of COLUMNS; the time is local."""
    rate = reading.rates
    at = datetime.fromtimestamp(rate.t_s).strftime("%H:%M:%S")
    counts = [f"{value:,.0f}" for value in (rate.iops, rate.read_iops, rate.write_iops)]
    sizes = [f"{value:,.1f}" for value in (rate.mib_s, rate.queue)]
    return [
        at,
        *counts,
        *sizes,
        *latency_cells(rate),
        percent_cell(reading.percent),
        lab_metrics.time_text(reading.empty_in_s),
    ]


def title(volume: Mapping[str, Any]) -> str:
    """Names the volume that is watched."""
    device = (volume.get("attachment") or {}).get("device") or "not attached"
    return f"{volume.get('name') or volume['id']}  {volume['spec']}  {device}"


def plain_lines(volume: Mapping[str, Any], readings: Iterator[Reading]) -> None:
    """Prints a line a second, each written at once so that a reader sees it."""

    def line(texts: Sequence[str]) -> str:
        return " ".join(text.rjust(width) for text, width in zip(texts, WIDTHS, strict=True))

    print(plain(title(volume)))
    print(line(COLUMNS), flush=True)
    for reading in readings:
        print(line(cells(reading)))
        sys.stdout.flush()


def live(volume: Mapping[str, Any], readings: Iterator[Reading]) -> None:
    """Shows a table that moves on a terminal: the last seconds, and the course of IOPS and
    balance."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    recent: deque[Reading] = deque(maxlen=COURSE)
    with Live(Text(plain(title(volume))), console=tables.console(), auto_refresh=False) as screen:
        for reading in readings:
            recent.append(reading)
            rows = [cells(past) for past in list(recent)[-ROWS:]]
            parts: list[Any] = [
                table(COLUMNS, rows, title=title(volume), right=COLUMNS[1:]),
                Text(""),
                Text(f"IOPS    {tables.sparkline([past.rates.iops for past in recent])}"),
            ]
            if reading.percent is not None:
                parts.append(Text(f"balance {tables.sparkline([past.percent or 0.0 for past in recent])}"))
            screen.update(Group(*parts), refresh=True)


def record(
    volume: VolumeArgument,
    do: Annotated[Literal["start", "stop"], typer.Argument(metavar="start|stop", help="Begin or end the record.")],
    place: LabPlace,
    to: Annotated[
        Path | None, option("FILE", "start: the file. Default: in the lab's directory.", "--to", "-o"), WRITES_FILE
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Write every decision of the model to a file, for headrace replay."""
    if do == "stop" and to is not None:
        hint = "Leave it out: stop says where it was written."
        raise InputError("--to", "belongs to start", "headrace volume record --help", hint)
    with place.open() as lab:
        answer: Any = (
            lab.record(volume, None if to is None else to.absolute()) if do == "start" else lab.record_stop(volume)
        )
    requests = "" if do == "start" else f", {answer['requests']:,} requests"
    text = f"{'recording to' if do == 'start' else 'recorded in'} {answer['path']}{requests}"
    print_answer(answer, output, [dict(answer)], ("path", "requests"), lambda: (text,))
