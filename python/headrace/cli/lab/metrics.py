"""`headrace volume balance | metrics | record`: what a volume has left and what it does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from headrace.base import caps
from headrace.base.checks import read_percent
from headrace.base.units import in_percent
from headrace.cli.lab.common import number, percent_cell
from headrace.cli.lazy import lazily
from headrace.cli.options import LabPlace, MemberOption, Output, OutputOption, VolumeArgument, choice, flag, option
from headrace.cli.output import print_answer, print_frame, say, show, table
from headrace.cli.writing import WRITES_FILE
from headrace.errors import InputError

with lazily():
    from headrace.lab import balances
    from headrace.lab import metrics as lab_metrics
    from headrace.observe.live import nvme


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
    target_percent = read_percent(set_to, "--set")
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
    *,
    volume: VolumeArgument,
    place: LabPlace,
    minutes: Annotated[int | None, option("N", "The last N minutes, a row each.", min=1)] = None,
    seconds: Annotated[int | None, option("N", "The last N seconds, a row each. Default: 60.", min=1)] = None,
    resolution: Annotated[
        Literal["second", "minute"] | None, choice("Rows of seconds (an hour is kept) or of minutes (15 days).")
    ] = None,
    member: MemberOption = None,
    nvme_page: Annotated[
        bool, flag("--nvme", "The NVMe statistics page of the attached device instead: counters, latencies in bins.")
    ] = False,
    binary: Annotated[bool, flag("--binary", "With --nvme: write the 4,096 bytes of the page to stdout.")] = False,
    output: OutputOption = "table",
) -> None:
    """Print what a volume did: csv and json have every column, the table what a person reads."""
    if nvme_page or binary:
        if not nvme_page or (minutes, seconds, resolution) != (None, None, None):
            rule = "counts from the attachment on, and --binary is a form of it"
            raise InputError("--nvme", rule, "headrace volume metrics --help", "Give --nvme without a time.")
        return _print_nvme(place, volume, member, binary, output)
    unit, rows = lab_metrics.stretch(seconds, minutes, resolution)
    with place.open() as lab:
        answer = lab.metrics(volume, unit, last=rows, member=member)
    if output == "table":
        cells = [rate_cells(t_s, row) for t_s, row in lab_metrics.volume_rows(answer).items()]
        show(table(RATE_COLUMNS, cells, right=RATE_COLUMNS[1:]))
    else:
        print_frame(lab_metrics.frame(answer), output)


def _print_nvme(place: LabPlace, volume: str, member: int | None, binary: bool, output: Output) -> None:
    """Prints the NVMe statistics page of an attached volume. Raises InputError for bytes on a
    terminal."""
    if binary and sys.stdout.isatty():
        hint = "Write `> page.bin` behind it, or a pipe."
        raise InputError("--binary", "does not write to a terminal", "headrace volume metrics --help", hint)
    with place.open() as lab:
        page = bytes.fromhex(lab.nvme_statistics(volume, member)["page_hex"])
    if binary:
        sys.stdout.buffer.write(page)
        return
    statistics = nvme.read_page(page)
    columns = ("field", "from_us", "until_us", "value")
    listed = statistics.rows()
    cells = [
        [value if isinstance(value, str) else "" if value is None else number(value, 0) for value in row.values()]
        for row in listed
    ]
    print_answer(statistics.to_document(), output, listed, columns, lambda: [table(columns, cells, right=columns[1:])])


RATE_COLUMNS = (
    "time (UTC)", "read IOPS", "write IOPS", "read MiB/s", "write MiB/s", "queue", "read p50 ms", "p99 ms", "write p50 ms", "p99 ms ",
    "at limit", "balance"
)  # fmt: skip


def rate_cells(t_s: int, row: Mapping[str, float | None]) -> list[str]:
    """Returns the cells of RATE_COLUMNS: of a row that begins at `t_s` (s since 1970), I/O p50 and
    p99 in ms, and the share of the time in which more was asked than the tightest limit gives."""
    at = datetime.fromtimestamp(t_s, UTC)
    counts = [number(round(row[name] or 0.0)) for name in ("read_iops", "write_iops")]
    sizes = [f"{row[name] or 0.0:,.1f}" for name in ("read_mib_s", "write_mib_s", "queue")]
    latencies = [row[f"{way}_{share}_ms"] for way in ("read", "write") for share in ("p50", "p99")]
    waits = ["-" if value is None else f"{value:,.2f}" for value in latencies]
    shares = [in_percent(max(row[name] or 0.0 for name in caps.OVER.values())), percent_cell(row["balance_percent"])]
    return [f"{at:%m-%d %H:%M:%S}", *counts, *sizes, *waits, *shares]


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
