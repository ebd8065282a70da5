"""`headrace bench`: run benchmarks, look at what was measured, compare, export."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.bench import run as bench_run
from headrace.cli.bench.common import RUN_HELP, StorePlace, complete_run, show_run
from headrace.cli.lazy import lazily
from headrace.cli.options import (
    CommandGroup,
    Output,
    OutputOption,
    PageOrChartOption,
    ReportOption,
    YesOption,
    choice,
    flag,
    option,
    storage_option,
)
from headrace.cli.output import confirm, print_answer, print_csv, print_frame, say, table
from headrace.cli.writing import WRITES_FILE
from headrace.errors import InputError
from headrace.report.output import PAGE_FORMATS, check_chart_path

if TYPE_CHECKING:
    from headrace.bench import RunRecord

with lazily():
    from headrace import bench
    from headrace.bench.store import query
    from headrace.report import benchmarks, view

EPILOG = """\b
Examples:
  headrace bench run sysbench-oltp --server db --rows 1000000 --threads 32 --seconds 600
  headrace bench list
  headrace bench list latest --report run.html
  headrace bench compare latest~1 latest --report difference.html
  headrace bench export --what series --to series.parquet
  headrace bench export --sql "SELECT storage, avg(tps) FROM runs GROUP BY storage"

Exit codes: 0 fine, 2 bad input or runs that are not alike, 3 could not run or broke off, 130 interrupted."""

app = CommandGroup("Run standard benchmarks; list, compare and export what was measured.", EPILOG, shares=(StorePlace,))
app.add_typer(bench_run.app, name="run", short_help="Run a benchmark and keep what was measured.")

LIST_CSV = (
    "run", "state", "benchmark", "threads", "storage", "seconds", "tps", "qps", "p50_ms", "p95_ms", "p99_ms", "read_iops", "write_iops",
    "read_mib_s", "write_mib_s"
)  # fmt: skip


@app.command("list")
def list_all(
    *,
    place: StorePlace,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help=f"One run: what was measured, on what. {RUN_HELP}", autocompletion=complete_run
        ),
    ] = None,
    benchmark: Annotated[str | None, option("NAME", "Only runs of this benchmark.")] = None,
    storage: Annotated[str | None, storage_option("Only runs on this storage.")] = None,
    last: Annotated[int | None, option("N", "Only the last N runs.", min=1)] = None,
    report: PageOrChartOption = None,
    output: OutputOption = "table",
) -> None:
    """List the runs, the newest last, or show one; csv of one is its time line."""
    if run is not None:
        return _show(place, run, report, output)
    if report is not None:
        raise InputError("--report", "draws one run", "headrace bench list --help", "Name it, for example latest.")
    run_store = place.open_store()
    records = run_store.runs()
    for name in sorted(set(run_store.ids()) - {record.id for record in records}):
        say(f"note: {name} is damaged and left out: see {run_store.folder / name}")
    for folder in run_store.unfinished():
        say(f"note: {folder} is a run that is being made, or was killed")
    records = [
        record
        for record in records
        if benchmark in (None, record.document["benchmark"]["name"])
        and storage in (None, record.document["target"].get("storage"))
    ][-(last or 0) :]
    rows = [_csv(record) for record in records]
    answer = [record.document | {"folder": record.folder} for record in records]
    print_answer(
        answer,
        output,
        rows,
        LIST_CSV,
        lambda: (view.Table(benchmarks.LIST_COLUMNS, [benchmarks.list_row(record) for record in records]),),
    )


def _csv(record: RunRecord) -> dict[str, object]:
    """Returns a run as a row of LIST_CSV."""
    document = record.document
    of_load = {"benchmark": document["benchmark"]["name"], "threads": document["load"]["threads"]}
    cells = {"run": record.id, "state": record.state, **of_load, "storage": document["target"].get("storage")}
    return {**cells, **record.summary}


def _show(place: StorePlace, run: str, report: Path | None, output: Output) -> None:
    """Prints a run, or its time line (csv), and writes its page."""
    check_chart_path(report)
    record = place.open_store().open(run)
    if output == "csv":
        return print_frame(record.series(), output)
    show_run(record, output, report)


@app.command()
def compare(
    *,
    place: StorePlace,
    first: Annotated[
        str,
        typer.Argument(
            metavar="FIRST", help="A run, or several with commas between: the reference.", autocompletion=complete_run
        ),
    ],
    second: Annotated[
        str,
        typer.Argument(
            metavar="SECOND", help="A run, or several: compared with the first.", autocompletion=complete_run
        ),
    ],
    unlike: Annotated[bool, flag("--unlike", "Compare even when load, tool, machine or data are not alike.")] = False,
    report: ReportOption = None,
    output: OutputOption = "table",
) -> None:
    """Compare two runs, or two groups of repetitions, with 95 % intervals."""
    check_chart_path(report, PAGE_FORMATS)
    run_store = place.open_store()
    sides = [[run_store.open(name.strip()) for name in text.split(",") if name.strip()] for text in (first, second)]
    comparison = bench.compare(*sides, allow_unlike=unlike)
    if report is not None:
        benchmarks.write_comparison(report, comparison)
        say(f"report written to {report}")
    rows = [asdict(difference) for difference in comparison.differences]
    ids = {"first": [record.id for record in comparison.a], "second": [record.id for record in comparison.b]}
    answer = ids | {
        "differences": rows,
        "differs": comparison.differs,
        "unlike": comparison.unlike,
        "notes": comparison.notes,
    }
    names = [
        f"{side}: {benchmarks.group_name(group)}"
        for side, group in (("first ", comparison.a), ("second", comparison.b))
    ]

    def parts() -> tuple[object, ...]:
        differences = view.Table(benchmarks.COMPARE_COLUMNS, benchmarks.compare_rows(comparison))
        return (*names, "", *benchmarks.compare_words(comparison), "", differences)

    print_answer(answer, output, rows, tuple(bench.Difference.__dataclass_fields__), parts)
    for note in comparison.notes:
        say(f"note: {note}")


@app.command()
def export(
    *,
    place: StorePlace,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Only these runs. Default: all.", autocompletion=complete_run),
    ] = None,
    what: Annotated[
        Literal["runs", "series", "percentiles"],
        choice("Table to export: a row a run, a row a second, or the latency histograms."),
    ] = "runs",
    sql: Annotated[
        str | None,
        option("SELECT", "A query over the tables runs, series and percentiles (DuckDB), instead of --what."),
    ] = None,
    to: Annotated[
        Path | None,
        option("FILE", "File to write: .parquet, .csv or .json. Default: stdout, as --output says.", "--to", "-o"),
        WRITES_FILE,
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Export the measurements, or query them in SQL."""
    run_store = place.open_store()
    chosen = None if not runs else [run_store.open(name) for name in runs]
    if sql is not None and what != "runs":
        raise InputError(
            "--sql and --what", "say what to export twice", "headrace bench export --help", "Give one of them."
        )
    if to is not None:
        rows = query.export(run_store, to, what=what, sql=sql, runs=chosen)
        return say(f"{rows:,} rows written to {to}")
    answer = query.query(run_store, sql or f"FROM {what}", chosen)
    if output == "csv":
        return print_csv(answer.to_dicts(), answer.columns)
    print_answer(answer.to_dicts(), output, [], (), lambda: (table(answer.columns, answer.rows()),))


@app.command()
def remove(
    *,
    place: StorePlace,
    run: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Runs to remove from the store.", autocompletion=complete_run)
    ],
    yes: YesOption = False,
) -> None:
    """Remove runs from the store."""
    run_store = place.open_store()
    # A run that is named twice is one.
    names = list(dict.fromkeys(run_store.resolve(text) for text in run))
    confirm(yes, f"Remove {', '.join(names)}?", ", ".join(names), "would be removed for good")
    for name in names:
        run_store.delete(name)
        say(f"removed {name}")
