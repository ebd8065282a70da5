"""`headrace workload`: make, import, capture and show what a database demands of its storage."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.checks import check_number
from headrace.base.files import check_output
from headrace.base.lazy import defer_imports
from headrace.base.options import Growth, spell_flag
from headrace.cli.inputs import RecordingOptions, read_workload
from headrace.cli.options import (
    CommandGroup,
    ForceOption,
    NameOption,
    Output,
    OutputOption,
    PageOrChartOption,
    TableOrJsonOption,
    WorkloadArgument,
    make_choice,
    make_flag,
    make_option,
)
from headrace.cli.output import print_data, print_json, say, show, show_progress, write_report
from headrace.cli.sharing import read_epilog
from headrace.cli.workloads import capture
from headrace.cli.writing import WRITES_FILE
from headrace.errors import HeadraceError, InputError
from headrace.report.output import as_csv, check_chart_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.workload import TransactionWorkload, Workload
    from headrace.workload.daily import Question

with defer_imports():
    import polars as pl

    from headrace import workload as workloads
    from headrace.observe import formats
    from headrace.report import databases, simulation

EPILOG = read_epilog("workload")

app = CommandGroup("Make, import, capture and show what a database demands of its storage.", EPILOG)
app.command("capture", epilog=capture.EPILOG)(capture.capture)

ToOption = Annotated[
    Path | None,
    make_option("FILE", "File to write. Default: the workload's name and .toml, in this folder.", "--to", "-o"),
    WRITES_FILE,
]
DataSizeOption = Annotated[float | None, make_option("GIB", "Data the volume must hold; a plan needs it.")]
# Questions about a day, which a constant load does not have.
DAY_ONLY = ("shape", "night_floor", "backup_start_hour", "backup_minutes", "backup_mib_s")


@dataclass(frozen=True, kw_only=True)
class DayOptions:
    """Answers to the questions about a day, as they are typed."""

    name: NameOption = None
    reads_per_s: Annotated[str | None, make_option("N", "Reads a second in the busy hour (iostat -x: r/s).")] = None
    writes_per_s: Annotated[str | None, make_option("N", "Writes a second in the busy hour (iostat -x: w/s).")] = None
    read_kib: Annotated[str | None, make_option("KIB", "Mean size of a read. Default: 16.")] = None
    write_kib: Annotated[str | None, make_option("KIB", "Mean size of a write. Default: 22.")] = None
    shape: Annotated[
        str | None,
        make_option("SHAPE", "flat, office, evening, two-peaks, or 24 numbers from midnight. Default: office."),
    ] = None
    night_floor: Annotated[
        str | None, make_option("SHARE", "The quietest hour as a share of the busiest, 0-1. Default: 0.1.")
    ] = None
    backup_start_hour: Annotated[
        str | None, make_option("HOUR", "Hour at which the nightly backup starts, 0-24. Default: none.")
    ] = None
    backup_minutes: Annotated[str | None, make_option("N", "Minutes that the backup runs. Default: 60.")] = None
    backup_mib_s: Annotated[str | None, make_option("MIB_S", "Rate at which the backup reads. Default: 50.")] = None
    size_gib: Annotated[str | None, make_option("GIB", "Data the volume must hold; a plan needs it.")] = None
    growth_per_year: Annotated[
        str | None, make_option("SHARE", "Growth a year, which plan --months uses: 0.3 is 30 %.")
    ] = None


@app.command()
def new(
    *,
    day: DayOptions,
    days: Annotated[int, make_option("N", "Number of days: the day is repeated.")] = 1,
    constant: Annotated[
        int | None, make_option("S", "Make a constant load of this many seconds instead of a day.")
    ] = None,
    sequential_read_share: Annotated[
        float, make_option("SHARE", "Share of reads that follow the one before, 0-1.")
    ] = 0.0,
    sequential_write_share: Annotated[
        float, make_option("SHARE", "Share of writes that follow the one before, 0-1.")
    ] = 0.0,
    arrivals: Annotated[
        Literal["poisson", "even"], make_choice("Distribution of the I/Os over the time of a point.")
    ] = "poisson",
    to: ToOption = None,
    force: ForceOption = False,
    output: TableOrJsonOption = "table",
) -> None:
    """Make a workload from what you know of the busy hour; asks for what is missing on a
    terminal."""
    asking = sys.stdin.isatty() and sys.stderr.isatty() and (day.reads_per_s is None or day.writes_per_s is None)
    answers = _collect_answers(workloads.list_questions(), vars(day), asking, constant is not None)
    answers["sequential_read_share"], answers["sequential_write_share"] = sequential_read_share, sequential_write_share
    answers["arrivals"] = arrivals
    if constant is None:
        demand = workloads.from_answers(answers | {"days": days})
    else:
        demand = workloads.from_constant_answers(answers | {"seconds": constant})
    keep(demand, to, force, output)


def _collect_answers(
    questions: Sequence[Question], typed: dict[str, str | None], asking: bool, constant: bool
) -> dict[str, object]:
    """Returns the answers to questions by name: those that were typed, checked, and with `asking`
    the others from the terminal. `constant`: without the questions about a day. Raises
    InputError."""
    answers: dict[str, object] = {}
    for question in questions:
        text, flag_name = typed[question.name], spell_flag(question.name)
        if constant and question.name in DAY_ONLY:
            if text is not None:
                raise InputError(flag_name, "describes a day, and --constant has none", "", "Leave one of them out.")
            continue
        needs = question.only_if or ""
        skipped = bool(needs) and answers.get(needs) is None
        if text is not None and skipped:
            raise InputError(f"{flag_name} {text[:40]}", f"needs {spell_flag(needs)}", "", "Give both.")
        if text is not None:
            answers[question.name] = question.validator(text)
        elif question.required and not asking:
            rule, hint = "the busy hour needs reads and writes a second", "Give it, or run this on a terminal."
            raise InputError(f"{flag_name} is missing", rule, "headrace workload new --help", hint)
        elif asking and not skipped:
            value = _ask(question)
            if value is not None:
                answers[question.name] = value
    return answers


def _ask(question: Question) -> object:
    """Asks on the terminal until an answer is valid, and returns its value; None for an empty
    answer to a question that has no default and is not required."""
    unit = f" [{question.unit}]" if question.unit else ""
    while True:
        default = None if question.required else ("" if question.default is None else str(question.default))
        text = typer.prompt(f"{question.prompt}{unit}", default=default, show_default=bool(default), err=True).strip()
        if not text and not question.required:
            return None
        try:
            return question.validator(text)
        except HeadraceError as error:
            say(f"{error}")


@app.command("import")
def import_recording(
    *,
    recording: Annotated[
        str,
        typer.Argument(
            metavar="RECORDING",
            help="Output of iostat -x, vmstat or sar -d, an export of CloudWatch or Prometheus, - for standard input; or "
            "prometheus:URL, aws:vol-..., aws:db-NAME.",
        ),
    ],
    recorded: RecordingOptions,
    format: Annotated[
        Literal["auto", "iostat", "vmstat", "sar", "cloudwatch", "prometheus"],
        make_choice("The tool that made the recording."),
    ] = "auto",
    device: Annotated[
        str | None,
        make_option("NAME", "Device in the recording, several joined by +. Default: the one that clearly does most."),
    ] = None,
    gaps: Annotated[
        Literal["refuse", "hold", "zero"] | None,
        make_choice(
            "Treatment of missing reports: refuse the file, repeat the report before, or zero. Default: refuse; zero for aws:vol-..."
        ),
    ] = None,
    name: NameOption = None,
    read_kib: Annotated[
        float | None, make_option("KIB", "Size assumed of a read (vmstat only, it counts no I/Os).")
    ] = None,
    write_kib: Annotated[float | None, make_option("KIB", "Size assumed of a write (vmstat only).")] = None,
    any_unit: Annotated[
        bool, make_flag("--any-unit", "Read vmstat's bi and bo as KiB, even if -S seems to have been used.")
    ] = False,
    size_gib: DataSizeOption = None,
    to: ToOption = None,
    force: ForceOption = False,
    output: TableOrJsonOption = "table",
) -> None:
    """Import what iostat, vmstat, sar, CloudWatch or Prometheus recorded."""
    of_service = formats.is_service(recording)
    recorded.check(recording)
    with show_progress("reading") as tick:
        read = formats.ReadOptions(
            format,
            read_kib,
            write_kib,
            any_unit,
            span=recorded.read_span(),
            step_s=recorded.interval if of_service else None,
            device=device,
            progress=tick,
        )
        loaded = formats.load_recording(recording, read)
    interval = None if of_service else recorded.interval
    options = formats.ImportOptions(
        device=device, interval_s=interval, start=recorded.clock_start, gaps=gaps, name=name
    )
    demand = loaded.build_workload(options)
    keep(demand if size_gib is None else replace(demand, size_gib=size_gib), to, force, output)


def keep(demand: Workload, to: Path | None, force: bool, output: Output) -> None:
    """Writes a workload file, to its name in this folder where `to` is None, and prints the
    workload. Raises InputError for a file that exists, unless forced."""
    path = to or Path(re.sub(r"[^\w.-]+", "-", demand.name).strip("-.")[:80] or "workload").with_suffix(".toml")
    check_output("--to", path, force=force)
    workloads.save(demand, path)
    say(f"written to {path}")
    _show_demand(demand, output)


@app.command("show")
def show_workload(
    workload: WorkloadArgument,
    growth: Growth = 1.0,
    to: Annotated[
        Path | None,
        make_option("FILE", "Write the workload to a file as well, with its growth.", "--to", "-o"),
        WRITES_FILE,
    ] = None,
    report: PageOrChartOption = None,
    output: OutputOption = "table",
) -> None:
    """Describe in words and a chart what a workload demands; csv prints its points."""
    check_chart_path(report)
    load = read_workload(workload)
    if isinstance(load, workloads.TransactionWorkload):
        return _show_database(load, growth, to, report, output)
    load = load.scale(growth)
    if to is not None:
        workloads.save(load, to)
        say(f"written to {to}")
    write_report(report, lambda: simulation.build_demand_view(load))
    _show_demand(load, output)


def _show_database(
    load: TransactionWorkload, growth: float, to: Path | None, report: Path | None, output: Output
) -> None:
    """Prints a database in transactions, and writes it where a file is named: the source of its
    figures, and its parameters."""
    if report is not None:
        rule = "a database in transactions has no demand over time to draw"
        hint = "headrace predict draws it on a storage."
        raise InputError("--report", rule, "headrace workload show --help", hint)
    if growth != 1.0:
        load = load.scale_data(check_number("--growth", growth, 0.001, 1_000.0))
    if to is not None:
        workloads.save(load, to)
        say(f"written to {to}")
    words = databases.describe_database(load)
    if output == "json":
        parts = {"parameters": list(load.parameters), "caveats": list(load.caveats)}
        print_json({"name": load.name, "engine": load.engine, "in_words": words} | parts)
    elif output == "csv":
        print_data(as_csv(pl.DataFrame(list(load.parameters))))
    else:
        show(*words, "", databases.build_parameter_table(load))


def _show_demand(load: Workload, output: Output) -> None:
    """Prints a workload in words, as JSON, or the points of a demand as CSV. Raises InputError for
    a closed load as CSV."""
    closed = isinstance(load, workloads.ClosedWorkload)
    if output == "json":
        more = {} if closed else simulation.pick_open_parts(load)
        print_json(
            load.summarize() | {"in_words": load.describe().splitlines(), "caveats": list(load.list_notes())} | more
        )
    elif output == "table":
        show(load.describe(), *([] if closed else ["", *simulation.draw_spark_lines(load)]))
    elif isinstance(load, workloads.ClosedWorkload):
        source = "docs/reference/workload-file.md, Closed workloads"
        raise InputError(load.name, "a closed load has no points", source, "Use --output json.")
    else:
        print_data(as_csv(load.points))
