"""`headrace bench`: run benchmarks, look at what was measured, compare, export."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import bench_run
from headrace.cli.bench_common import ReportOption, RunArgument, StoreOption, complete_run, show_run
from headrace.cli.common import Output, OutputOption, data, say
from headrace.cli.lab_common import as_csv, print_answer
from headrace.errors import InputError

EPILOG = """\b
Examples:
  headrace bench run sysbench-oltp --server db --rows 1000000 --threads 32 --seconds 600
  headrace bench list
  headrace bench show latest --report run.html
  headrace bench compare latest~1 latest --report difference.html
  headrace bench export --what series --to series.parquet
  headrace bench export --sql "SELECT storage, avg(tps) FROM runs GROUP BY storage"

Exit codes: 0 fine, 2 bad input or runs that are not alike, 3 could not run or broke off, 130 interrupted."""

app = typer.Typer(no_args_is_help=True, help="Standard benchmarks, measured and kept: run, list, show, compare, export.", epilog=EPILOG)
app.add_typer(bench_run.app, name="run", short_help="Run a benchmark and keep what was measured.")


class Table(StrEnum):
    """Tables over all runs."""

    runs = "runs"
    series = "series"
    percentiles = "percentiles"


@app.command("list")
def list_all(
    benchmark: Annotated[str | None, typer.Option("--benchmark", metavar="NAME", help="Only of this benchmark.")] = None,
    storage: Annotated[str | None, typer.Option("--on", metavar="SPEC", help="Only on this storage.")] = None,
    last: Annotated[int | None, typer.Option("--last", metavar="N", min=1, help="The last N.")] = None,
    store: StoreOption = None,
    output: OutputOption = Output.table,
) -> None:
    """List the runs, the newest last."""
    from headrace.bench.store.store import Store
    from headrace.report.benchmarks import LIST_COLUMNS, LIST_RIGHT, list_row
    from headrace.report.tables import table

    kept = Store(store)
    found = kept.runs()
    for name in sorted(set(kept.ids()) - {record.id for record in found}):
        say(f"note: {name} is damaged and left out: see {kept.folder / name}")
    for folder in kept.unfinished():
        say(f"note: {folder} is a run that is being made, or was killed")
    found = [
        record
        for record in found
        if benchmark in (None, record.document["benchmark"]["name"]) and storage in (None, record.document["target"].get("storage"))
    ][-(last or 0) :]
    rows = [
        {"run": record.id, "state": record.state, "benchmark": record.document["benchmark"]["name"], "threads": record.document["load"]["threads"],
         "storage": record.document["target"].get("storage"), **record.summary} for record in found
    ]  # fmt: skip
    columns = (
        "run",
        "state",
        "benchmark",
        "threads",
        "storage",
        "seconds",
        "tps",
        "qps",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "read_iops",
        "write_iops",
        "read_mib_s",
        "write_mib_s",
    )
    answer = [record.document | {"folder": record.folder} for record in found]
    print_answer(answer, output, rows, columns, lambda: (table(LIST_COLUMNS, [list_row(record) for record in found], right=LIST_RIGHT),))


@app.command()
def show(
    run: RunArgument = "latest",
    report: ReportOption = None,
    store: StoreOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Show a run: what was measured, on what; csv is its time line."""
    from headrace.bench.store.store import Store
    from headrace.report.output import as_csv as frame_csv
    from headrace.report.output import check_chart_path

    check_chart_path(report)
    record = Store(store).open(run)
    if output is Output.csv:
        return data(frame_csv(record.series()))
    show_run(record, output, report)


@app.command()
def compare(
    first: Annotated[
        str, typer.Argument(metavar="FIRST", help="A run, or several with commas between: the ground.", autocompletion=complete_run)
    ],
    second: Annotated[
        str, typer.Argument(metavar="SECOND", help="A run, or several: what is seen against it.", autocompletion=complete_run)
    ],
    unlike: Annotated[bool, typer.Option("--unlike", help="Also when load, tool, machine or data are not alike.")] = False,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts (.html).")] = None,
    store: StoreOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Compare two runs, or two groups of repetitions, with 95 % intervals."""
    from dataclasses import asdict

    from headrace.bench.comparison.compare import Difference
    from headrace.bench.comparison.compare import compare as measure
    from headrace.bench.store.store import Store
    from headrace.report import benchmarks
    from headrace.report.output import check_chart_path
    from headrace.report.tables import table

    check_chart_path(report, (".html",))
    kept = Store(store)
    sides = [[kept.open(name.strip()) for name in text.split(",") if name.strip()] for text in (first, second)]
    found = measure(*sides, allow_unlike=unlike)
    if report is not None:
        benchmarks.write_comparison(report, found)
        say(f"report written to {report}")
    rows = [asdict(one) for one in found.differences]
    answer = {
        "first": [record.id for record in found.a], "second": [record.id for record in found.b], "differences": rows, "differs": found.differs, "unlike": found.unlike,
        "notes": found.notes,
    }  # fmt: skip
    names = (benchmarks.group_name(found.a), benchmarks.group_name(found.b))
    print_answer(
        answer, output, rows, tuple(Difference.__dataclass_fields__),
        lambda: (f"first:  {names[0]}", f"second: {names[1]}", "", *benchmarks.compare_words(found), "",
                 table(benchmarks.COMPARE_COLUMNS, benchmarks.compare_rows(found), right=benchmarks.COMPARE_RIGHT)),
    )  # fmt: skip
    for note in found.notes:
        say(f"note: {note}")


@app.command()
def export(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Only these. Default: all.", autocompletion=complete_run)
    ] = None,
    what: Annotated[Table, typer.Option("--what", help="A row a run, a row a second, or the latency histograms.")] = Table.runs,
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="SELECT", help="A query over the tables runs, series and percentiles (DuckDB), instead of --what."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write .parquet, .csv or .json. Default: to stdout as --output says.")
    ] = None,
    store: StoreOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Export what was measured, or ask it in SQL."""
    from headrace.bench.store import query
    from headrace.bench.store.store import Store
    from headrace.report.tables import table

    kept = Store(store)
    chosen = None if not runs else [kept.open(name) for name in runs]
    if sql is not None and what is not Table.runs:
        raise InputError("--sql and --what", "say what to export twice", "headrace bench export --help", "Give one of them.")
    if to is not None:
        rows = query.export(kept, to, what=str(what), sql=sql, runs=chosen)
        return say(f"{rows:,} rows written to {to}")
    found = query.query(kept, sql or f"FROM {what}", chosen)
    if output is Output.csv:
        return data(as_csv(found.to_dicts(), tuple(found.columns)))
    print_answer(found.to_dicts(), output, [], (), lambda: (table(found.columns, found.rows()),))


@app.command()
def remove(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs to remove from the store.", autocompletion=complete_run)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: StoreOption = None,
) -> None:
    """Remove runs from the store."""
    import sys

    from headrace.bench.store.store import Store

    kept = Store(store)
    names = [kept.resolve(text) for text in run]
    if not yes:
        if not sys.stdin.isatty():
            raise InputError(", ".join(names), "is removed for good", "", "Say --yes.")
        typer.confirm(f"Remove {', '.join(names)}?", abort=True, err=True)
    for name in names:
        kept.delete(name)
        say(f"removed {name}")


@app.command()
def tools(output: OutputOption = Output.table) -> None:
    """Show which programs are there, and how to get the others; exit code 1 when one is missing."""
    from headrace.base import processes
    from headrace.report.tables import table

    rows = [one.__dict__ for one in processes.tools()]
    columns = tuple(rows[0])
    print_answer(rows, output, rows, columns, lambda: (table(columns, [tuple(row.values()) for row in rows]),))
    if any(row["state"] != "fine" for row in rows):
        raise typer.Exit(1)
