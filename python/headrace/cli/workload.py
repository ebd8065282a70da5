"""`headrace workload`: make, import, capture and show what a database asks of its storage."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import capture
from headrace.cli.common import GrowthOption, Output, OutputOption, TableOrJson, WorkloadArgument, data, read_workload, say

EPILOG = """\b
Examples:
  headrace workload new --reads-per-s 900 --writes-per-s 400 --size-gib 300 --to shop.toml
  headrace workload new                                  (asks, on a terminal)
  iostat -xt 60 > iostat.txt;  headrace workload import iostat.txt --to shop.toml
  ssh db1 cat iostat.txt | headrace workload import - --device /dev/nvme1n1 --to shop.toml
  headrace workload capture mysql://headrace@db.example/ --seconds 3600 --storage gp3:500 -o monday
  headrace workload show shop.toml --plot shop.svg

Files are TOML: docs/reference/workload-file.md."""

app = typer.Typer(
    no_args_is_help=True, help="What a database asks of its storage: make it, import it, capture it, look at it.",
    epilog=EPILOG,
)  # fmt: skip
app.command("capture", epilog=capture.EPILOG)(capture.capture)

ToOption = Annotated[Path | None, typer.Option("--to", metavar="FILE", help="File to write. Default: the workload's name and .toml, here.")]
ForceOption = Annotated[bool, typer.Option("--force", "--yes", "-y", help="Overwrite the file when it exists.")]


class Format(StrEnum):
    """Tools whose recordings are read."""

    auto = "auto"
    iostat = "iostat"
    vmstat = "vmstat"
    sar = "sar"
    cloudwatch = "cloudwatch"


class Gaps(StrEnum):
    """What to do where a recording has holes."""

    refuse = "refuse"
    hold = "hold"
    zero = "zero"


class Arrivals(StrEnum):
    """How I/Os are spread inside a point."""

    poisson = "poisson"
    even = "even"


def _flag(name: str, metavar: str, help: str):
    return typer.Option(f"--{name}", metavar=metavar, help=help)


@app.command()
def new(
    name: Annotated[str | None, _flag("name", "NAME", "A name for the workload.")] = None,
    reads_per_s: Annotated[str | None, _flag("reads-per-s", "N", "Reads a second in the busy hour (iostat -x: r/s).")] = None,
    writes_per_s: Annotated[str | None, _flag("writes-per-s", "N", "Writes a second in the busy hour (iostat -x: w/s).")] = None,
    read_kib: Annotated[str | None, _flag("read-kib", "KIB", "Mean size of a read. Default 16.")] = None,
    write_kib: Annotated[str | None, _flag("write-kib", "KIB", "Mean size of a write. Default 22.")] = None,
    shape: Annotated[
        str | None, _flag("shape", "SHAPE", "flat, office, evening, two-peaks, or 24 numbers from midnight. Default office.")
    ] = None,
    night_floor: Annotated[
        str | None, _flag("night-floor", "SHARE", "The quietest hour as a share of the busiest, 0-1. Default 0.1.")
    ] = None,
    backup_start_hour: Annotated[
        str | None, _flag("backup-start-hour", "HOUR", "When the nightly backup starts, 0-24. Default: none.")
    ] = None,
    backup_minutes: Annotated[str | None, _flag("backup-minutes", "N", "How long it runs. Default 60.")] = None,
    backup_mib_s: Annotated[str | None, _flag("backup-mib-s", "MIB_S", "How fast it reads. Default 50.")] = None,
    size_gib: Annotated[str | None, _flag("size-gib", "GIB", "Data the volume must hold.")] = None,
    growth_per_year: Annotated[str | None, _flag("growth-per-year", "SHARE", "0.3 is 30 % more a year; plan --months uses it.")] = None,
    days: Annotated[int, _flag("days", "N", "Repeat the day so often.")] = 1,
    constant: Annotated[int | None, _flag("constant", "SECONDS", "The same rate all the time, for so long, instead of a day.")] = None,
    sequential_read_share: Annotated[
        float, _flag("sequential-read-share", "SHARE", "Share of reads that follow the one before, 0-1.")
    ] = 0.0,
    sequential_write_share: Annotated[float, _flag("sequential-write-share", "SHARE", "The same for writes.")] = 0.0,
    arrivals: Annotated[Arrivals, typer.Option("--arrivals", help="How I/Os arrive inside a point.")] = Arrivals.poisson,
    to: ToOption = None,
    force: ForceOption = False,
    output: Annotated[TableOrJson, typer.Option("--output", help="What to print on stdout.")] = TableOrJson.table,
) -> None:
    """Make a workload from what you know of the busy hour; asks for what is missing on a terminal."""
    from headrace import workload

    typed = {
        "name": name, "reads_per_s": reads_per_s, "writes_per_s": writes_per_s, "read_kib": read_kib, "write_kib": write_kib,
        "shape": shape,
        "night_floor": night_floor, "backup_start_hour": backup_start_hour, "backup_minutes": backup_minutes, "backup_mib_s": backup_mib_s,
        "size_gib": size_gib, "growth_per_year": growth_per_year,
    }  # fmt: skip
    asking = sys.stdin.isatty() and sys.stderr.isatty() and (reads_per_s is None or writes_per_s is None)
    answers = _answers(workload.questions(), typed, asking, constant is not None)
    answers |= {"sequential_read_share": sequential_read_share, "sequential_write_share": sequential_write_share, "arrivals": str(arrivals)}
    if constant is None:
        made = workload.from_answers(answers | {"days": days})
    else:
        made = workload.from_constant_answers(answers | {"seconds": constant})
    keep(made, to, force, output)


DAY_ONLY = ("shape", "night_floor", "backup_start_hour", "backup_minutes", "backup_mib_s")


def _answers(questions, typed: dict[str, str | None], asking: bool, constant: bool) -> dict:
    """What was typed, checked by its question; the rest asked for on a terminal."""
    from headrace.errors import InputError

    answers: dict = {}
    for question in questions:
        text = typed[question.name]
        if constant and question.name in DAY_ONLY:
            if text is not None:
                raise InputError(
                    f"--{question.name.replace('_', '-')}", "describes a day, and --constant has none", "", "Leave one of them out."
                )
            continue
        skipped = question.only_if is not None and answers.get(question.only_if) is None
        if text is not None and skipped:
            raise InputError(
                f"--{question.name.replace('_', '-')} {text[:40]}", f"needs --{question.only_if.replace('_', '-')}", "", "Give both."
            )
        if text is not None:
            answers[question.name] = question.validator(text)
        elif question.required and not asking:
            raise InputError(f"--{question.name.replace('_', '-')} is missing", "the busy hour needs reads and writes a second",
                             "headrace workload new --help",
                             "Give it, or run this on a terminal to be asked.")  # fmt: skip
        elif asking and not skipped:
            value = _ask(question)
            if value is not None:
                answers[question.name] = value
    return answers


def _ask(question) -> object:
    """Asks until the answer passes. Empty takes the default, or leaves the question out."""
    from headrace.errors import HeadraceError

    unit = f" [{question.unit}]" if question.unit else ""
    while True:
        shown = None if question.required else ("" if question.default is None else str(question.default))
        text = typer.prompt(f"{question.prompt}{unit}", default=shown, show_default=bool(shown), err=True).strip()
        if not text and not question.required:
            return None
        try:
            return question.validator(text)
        except HeadraceError as error:
            say(f"{error}")


@app.command("import")
def import_recording(
    recording: Annotated[
        Path,
        typer.Argument(metavar="RECORDING", help="Output of iostat -x, vmstat, sar -d, or a CloudWatch export; - reads standard input."),
    ],
    format: Annotated[Format, typer.Option("--format", help="The tool it comes from.")] = Format.auto,
    device: Annotated[
        str | None, _flag("device", "NAME", "Device in the recording, several joined by +. Default: the one that clearly does most.")
    ] = None,
    interval: Annotated[float | None, _flag("interval", "S", "Seconds between reports, where the file has no times.")] = None,
    start: Annotated[str | None, _flag("start", "TIME", "When the recording began (ISO 8601), where the file does not say.")] = None,
    gaps: Annotated[Gaps, typer.Option("--gaps", help="Where reports are missing: refuse, hold the one before, or zero.")] = Gaps.refuse,
    name: Annotated[str | None, _flag("name", "NAME", "A name for the workload.")] = None,
    read_kib: Annotated[float | None, _flag("read-kib", "KIB", "Size assumed of a read (vmstat only, it counts no I/Os).")] = None,
    write_kib: Annotated[float | None, _flag("write-kib", "KIB", "Size assumed of a write (vmstat only).")] = None,
    any_unit: Annotated[bool, typer.Option("--any-unit", help="Believe vmstat's bi and bo to be KiB though -S looks to be used.")] = False,
    size_gib: Annotated[float | None, _flag("size-gib", "GIB", "Data the volume must hold; a plan needs it.")] = None,
    to: ToOption = None,
    force: ForceOption = False,
    output: Annotated[TableOrJson, typer.Option("--output", help="What to print on stdout.")] = TableOrJson.table,
) -> None:
    """Import what iostat, vmstat, sar or CloudWatch recorded."""
    from dataclasses import replace

    from headrace.observe.formats import import_file

    made = import_file(
        recording,
        str(format),
        device,
        interval,
        start,
        gaps=str(gaps),
        name=name,
        read_kib=read_kib,
        write_kib=write_kib,
        any_unit=any_unit,
    )
    keep(made if size_gib is None else replace(made, size_gib=size_gib), to, force, output)


def keep(made, to: Path | None, force: bool, output: TableOrJson) -> None:
    """Writes a workload file, whole or not at all and never over another without leave, and says what is in it."""
    from headrace import workload
    from headrace.errors import InputError

    path = to or Path(re.sub(r"[^\w.-]+", "-", made.name).strip("-.")[:80] or "workload").with_suffix(".toml")
    if path.exists() and not force:
        raise InputError(str(path), "exists already", "", "Name another with --to, or overwrite it with --force.")
    workload.save(made, path)
    say(f"written to {path}")
    _show(made, Output(str(output)))


@app.command()
def show(
    workload: WorkloadArgument,
    growth: GrowthOption = 1.0,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Write a chart: .html, .svg or .png.")] = None,
    output: OutputOption = Output.table,
) -> None:
    """Say in words and a chart what a workload asks. csv prints its points."""
    from headrace.report.output import check_chart_path
    from headrace.workload import TransactionWorkload

    check_chart_path(plot)
    load = read_workload(workload)
    if isinstance(load, TransactionWorkload):
        return _show_database(load, growth, plot, output)
    load = load.scaled(growth)
    if plot is not None:
        from headrace.report.pages import write_workload

        write_workload(plot, load)
        say(f"chart written to {plot}")
    _show(load, output)


def _show_database(load, growth: float, plot: Path | None, output: Output) -> None:
    """A database in transactions: what stands behind it, and its parameters."""
    from headrace.base.checks import check_number
    from headrace.errors import InputError
    from headrace.report import databases
    from headrace.report.output import as_csv, as_json
    from headrace.report.tables import show as print_parts

    if plot is not None:
        raise InputError(
            "--plot",
            "a database in transactions has no demand over time to draw",
            "headrace workload show --help",
            "headrace simulate draws it on a storage.",
        )
    if growth != 1.0:
        load = load.grown(check_number("--growth", growth, 0.001, 1_000.0))
    if output is Output.json:
        data(as_json({"name": load.name, "engine": load.engine, "in_words": databases.workload_in_words(load), "parameters": list(load.parameters),
                      "caveats": list(load.caveats)}))  # fmt: skip
    elif output is Output.csv:
        import polars as pl

        data(as_csv(pl.DataFrame(list(load.parameters))))
    else:
        print_parts(*databases.workload_in_words(load), "", databases.parameter_table(load))


def _show(load, output: Output) -> None:
    from headrace.errors import InputError
    from headrace.report.output import as_csv, as_json
    from headrace.report.workload import open_parts, spark_lines
    from headrace.workload import ClosedWorkload

    closed = isinstance(load, ClosedWorkload)
    if output is Output.json:
        more = {} if closed else open_parts(load)
        return data(as_json(load.summary() | {"in_words": load.describe().splitlines(), "caveats": list(load.notes())} | more))
    if output is Output.csv:
        if closed:
            raise InputError(
                load.name, "a closed load has no points", "docs/reference/workload-file.md, Closed workloads", "Use --output json."
            )
        return data(as_csv(load.points))
    from headrace.report.tables import show as print_parts

    print_parts(load.describe(), *([] if closed else ["", *spark_lines(load)]))


@app.command()
def demo(
    hour: Annotated[bool, typer.Option("--hour", help="The recorded hour itself instead of the day laid out from it.")] = False,
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Write it to a file as well.")] = None,
    force: ForceOption = False,
    output: Annotated[TableOrJson, typer.Option("--output", help="What to print on stdout.")] = TableOrJson.table,
) -> None:
    """The recorded example: an InnoDB server under TPC-C, as an hour or laid into a day."""
    from headrace import workload

    made = workload.recorded_hour() if hour else workload.demo_day()
    if to is not None:
        return keep(made, to, force, output)
    _show(made, Output(str(output)))
