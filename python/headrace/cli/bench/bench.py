"""`headrace bench`: standard benchmarks run, kept, compared and exported."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.encoding import pick_fields
from headrace.base.lazy import defer_imports
from headrace.base.signals import ends_as_interrupts
from headrace.cli import INTERRUPTED
from headrace.cli.options import (
    CommandGroup,
    Engine,
    LabPlace,
    NameOption,
    Output,
    OutputOption,
    PageOrChartOption,
    PasswordOptions,
    ReportOption,
    YesOption,
    make_choice,
    make_flag,
    make_instance_option,
    make_option,
    make_storage_option,
)
from headrace.cli.output import (
    Ticker,
    confirm,
    format_pairs,
    make_table,
    print_answer,
    print_csv,
    print_frame,
    print_json,
    say,
    say_each,
    show,
    show_progress,
    write_report,
)
from headrace.cli.sharing import read_epilog
from headrace.cli.writing import WRITES_FILE
from headrace.errors import CouldNotRun, InputError, Refusals
from headrace.report.output import PAGE_FORMATS, check_chart_path

if TYPE_CHECKING:
    from headrace.bench import Benchmark, RunRecord, Second, Store, Target

with defer_imports():
    from headrace import bench, servers
    from headrace.base import settings
    from headrace.bench.store import query
    from headrace.calibration.runs import model
    from headrace.report import benchmarks, view


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Returns ids of runs for the shell, the newest first: the names of their folders, because the
    store itself takes half a second to import."""
    try:
        ids = sorted(os.listdir(context.params.get("store") or settings.get_folder("HEADRACE_RUNS")), reverse=True)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        ids = []
    return [name for name in ["latest", *ids] if name.startswith(incomplete) and not name.startswith(".")]


@dataclass(frozen=True, kw_only=True)
class StorePlace:
    """The store of the runs that a command uses."""

    store: Annotated[
        Path | None,
        make_option(
            "DIR", "Store of the runs. Default: $HEADRACE_RUNS, else ~/.local/share/headrace/runs.", readable=False
        ),
    ] = None

    def open_store(self) -> Store:
        """Returns the store. Raises InputError."""
        return bench.Store(self.store)


RUN_HELP = "An id, a part of it that no other has, `latest`, or `latest~1` (the one before)."


def show_run(record: RunRecord, output: Output, report: Path | None = None) -> None:
    """Prints a run in the form asked for, and writes its page where a file is named."""
    write_report(report, lambda: benchmarks.build_view(record))
    if output == "json":
        return print_json(record.document | {"folder": record.folder, "run_toml": record.run_toml})
    if output == "csv":
        row = {"run": record.id, "state": record.state, **record.summary}
        return print_csv([row], tuple(row))
    show(format_pairs(benchmarks.list_setup_rows(record)), "", format_pairs(benchmarks.list_figure_rows(record)), "")
    say_each("note", record.findings)
    long_enough = record.document["load"]["warmup_s"] + record.document["load"]["seconds"] >= model.LEAST_SECONDS
    usable = record.run_toml is not None and long_enough and record.document["state"] == "complete"
    more = f"; calibrate from it: headrace calibrate {record.run_toml}" if usable else ""
    say(f"kept as {record.id} in {record.folder.parent}{more}")


# --- headrace bench run ---------------------------------------------------------------------------


RUN_EPILOG = read_epilog("bench-run")

DEFAULT_DATABASE = "headrace_bench"
ADDRESS = (
    "mysql://USER@HOST[:PORT]/DATABASE or mysql://USER@/DATABASE?socket=PATH. The tables are made in that database."
)
VOLUME = "Lab volume whose own figures are recorded too. Repeatable. Those of a lab server are added."
refuse = Refusals("docs/reference/bench.md, sysbench-oltp")


@dataclass(frozen=True, kw_only=True)
class MeasuredOptions:
    """Facts of the measured storage that cannot be read from the machine."""

    storage: Annotated[
        str | None,
        make_storage_option("Storage of the server, like gp3:500:6000; that of a lab server is read from the lab."),
    ] = None
    device: Annotated[
        list[str] | None,
        make_option("D", "Block device whose counters are recorded. Repeatable. Default: that of the data."),
    ] = None
    volume: Annotated[list[str] | None, make_option("VOL", VOLUME)] = None
    instance: Annotated[str | None, make_instance_option("EC2 instance type of the server.")] = None

    def list_facts(self) -> dict:
        """Returns the options by their names in a target."""
        more = {"devices": self.device or (), "volumes": self.volume or ()}
        return {"storage": self.storage, "instance": self.instance, **more}


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The server of a benchmark, and its engine."""

    address: Annotated[str | None, typer.Argument(metavar="[ADDRESS]", help=ADDRESS)] = None
    server: Annotated[str | None, make_option("NAME", "A server of `headrace mysql up`, instead of an address.")] = None
    log_storage: Annotated[
        str | None, make_storage_option("Storage of redo and binary log, where they have their own.")
    ] = None
    engine: Annotated[
        Engine | None, make_choice("Engine of the test tables. Default: the server's default engine.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunOptions(StorePlace):
    """Options of every run."""

    threads: Annotated[int, make_option("N", "Clients, each with one transaction or request under way.", min=1)] = 16
    seconds: Annotated[int, make_option("S", "Seconds to measure.", min=2)] = 60
    warmup: Annotated[int, make_option("S", "Seconds before that, which do not count.", min=0)] = 0
    seed: Annotated[int, make_option("N", "Seed for the random numbers.", min=1)] = 1
    name: NameOption = None
    fresh: Annotated[bool, make_flag("--fresh", "Drop existing test data and make them anew.")] = False
    cleanup: Annotated[bool, make_flag("--cleanup", "Remove the test data afterwards.")] = False
    prepare_only: Annotated[bool, make_flag("--prepare-only", "Make the data, and run nothing.")] = False
    report: PageOrChartOption = None
    output: OutputOption = "table"

    def carry_out(self, benchmark: Benchmark, target: Target) -> None:
        """Prepares the data and runs the benchmark, prints the run, and removes the data if asked
        to. Raises as `bench.run`; a run that ended early is printed first."""
        check_chart_path(self.report)
        # `timeout` and `systemctl stop` end it as Ctrl-C does: nothing is left running.
        with ends_as_interrupts():
            self._carry_out(benchmark, target)

    def _carry_out(self, benchmark: Benchmark, target: Target) -> None:
        """Does what `carry_out` does, without its handling of signals."""
        is_new = bench.prepare(benchmark, target, threads=self.threads, seed=self.seed, fresh=self.fresh, say=say)
        if self.prepare_only:
            say("prepared" if is_new else "was prepared before")
            return
        if warning := explain_short_run(benchmark, self.warmup + self.seconds):
            say(f"note: {warning}")
        given = {"seconds": self.seconds, "warmup_s": self.warmup, "threads": self.threads, "seed": self.seed}
        destination = {"store": self.store, "name": self.name}
        try:
            try:
                with show_progress("") as bar:
                    hooks = {"progress": bar, "on_second": lambda second: _show_second(bar, second)}
                    record = bench.run(benchmark, target, **given, **destination, **hooks)
            except bench.BrokenRun as broken:
                show_run(broken.record, self.output, self.report)
                raise
            except bench.InterruptedRun as stopped:
                show_run(stopped.record, self.output, self.report)
                hint = f"The measured values are kept: run {stopped.record.id}."
                raise CouldNotRun("the run", "was interrupted", "", hint, INTERRUPTED) from None
            show_run(record, self.output, self.report)
        finally:
            if self.cleanup:
                bench.clean_up(benchmark, target)


def explain_short_run(benchmark: Benchmark, all_s: float) -> str | None:
    """Returns the warning for a run that is too short to be calibrated; None where it is long
    enough, or where nothing is calibrated from this benchmark."""
    if all_s >= model.LEAST_SECONDS or benchmark.make_benchmark_table() is None:
        return None
    return f"{all_s:,.0f} s are too short for headrace calibrate, which takes {model.LEAST_SECONDS:.0f} s or more (--seconds)"


FolderOption = Annotated[
    Path, make_option("PATH", "A folder on the volume that is measured; for fio also a block device.", readable=False)
]


run_app = CommandGroup(
    "Run a benchmark and keep what was measured.", RUN_EPILOG, shares=(RunOptions, MeasuredOptions, ServerOptions)
)


# Fields of a dataclass stand in the order of its bases, the last one first.
@dataclass(frozen=True, kw_only=True)
class FileRun(LabPlace, RunOptions, MeasuredOptions):
    """A run on files, or on a device."""

    def run(self, benchmark: Benchmark, folder: Path) -> None:
        """Runs a benchmark on a folder or block device, as `carry_out` does."""
        lab = self.open().place if self.volume else None
        self.carry_out(benchmark, bench.make_file_target(folder, lab=lab, **self.list_facts()))


@dataclass(frozen=True, kw_only=True)
class FioRun(FileRun):
    """A run of fio, whose clients have requests of their own under way."""

    threads: Annotated[int, make_option("N", "Clients, each with --iodepth requests under way.", min=1)] = 1


@dataclass(frozen=True, kw_only=True)
class ServerRun(LabPlace, PasswordOptions, RunOptions, MeasuredOptions, ServerOptions):
    """A run on a server."""

    def run(self, benchmark: Benchmark) -> None:
        """Runs a benchmark on the server, as `carry_out` does. Raises InputError where neither or
        both of address and server are named."""
        if (self.address is None) == (self.server is None):
            rule = "name one: an address, or a server of the lab"
            hint = "For example mysql://root@/sbtest?socket=/run/mysqld/mysqld.sock, or --server db."
            raise InputError(
                "address and --server" if self.address else "no server", rule, "headrace bench run --help", hint
            )
        self.carry_out(benchmark, self._make_address_target() if self.address else self._find_lab_target())

    def _make_address_target(self) -> Target:
        """Returns the server at the address as a target; an address without a database gets
        DEFAULT_DATABASE."""
        address = self.read_address(str(self.address))
        address = address if address.database else address.with_database(DEFAULT_DATABASE)
        lab = self.open().place if self.volume else None
        return bench.make_server_target(
            address, lab=lab, log_storage=self.log_storage, engine=self.engine, **self.list_facts()
        )

    def _find_lab_target(self) -> Target:
        """Returns a server of the lab as a target, with its storage, volumes and instance unless
        options say otherwise. Raises CouldNotRun where it does not run."""
        with self.open() as lab:
            server = servers.find(lab, str(self.server))
            status, place = lab.status(), lab.place
        if server.state != "running":
            hint = f"Start it: headrace mysql up {self.server}{place.build_flags()}"
            raise CouldNotRun(f"server {self.server}", f"is {server.state}", "", hint)
        return bench.make_server_target(
            server.make_address(DEFAULT_DATABASE),
            storage=self.storage or server.storage,
            log_storage=self.log_storage or server.log_storage,
            devices=self.device or server.volumes.devices,
            lab=place,
            volumes=self.volume or server.volumes.ids,
            instance=self.instance or status.get("instance_type"),
            as_of=status.get("as_of"),
            engine=self.engine or server.engine,
        )


def _show_second(bar: Ticker, second: Second) -> None:
    """Shows phase, rate and p95 of the last second next to the progress bar."""
    parts = ["warming up" if second.phase == "warmup" else "measuring"]
    parts += [f"{second.tps:,.0f}/s"] if second.tps is not None else []
    parts += [f"p95 {second.p95_ms:,.1f} ms"] if second.p95_ms is not None else []
    bar.describe(", ".join(parts))


def _parse_pairs(texts: list[str] | None) -> dict[str, str]:
    """Reads KEY=VALUE each. Raises InputError."""
    pairs: dict[str, str] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(
                text[:60],
                "must be KEY=VALUE",
                "headrace bench run sysbench-oltp --help",
                "For example point_selects=5.",
            )
        pairs[key.strip().replace("-", "_")] = value.strip()
    return pairs


def _parse_script_options(texts: list[str] | None) -> dict[str, int | bool]:
    """Reads options of sysbench's scripts: on and off, or whole numbers. Raises InputError."""
    options: dict[str, int | bool] = {}
    for key, value in _parse_pairs(texts).items():
        if value in ("on", "off"):
            options[key] = value == "on"
        elif value.isascii() and value.isdigit() and len(value) < 12:
            options[key] = int(value)
        else:
            raise refuse.input(f"{key}={value[:40]}", "must be on, off or a whole number")
    return options


def _parse_numbers(texts: list[str] | None) -> dict[str, float]:
    """Reads KEY=VALUE each, values as numbers. Raises InputError."""
    numbers: dict[str, float] = {}
    for key, value in _parse_pairs(texts).items():
        try:
            numbers[key] = float(value)
        except ValueError:
            raise refuse.input(f"{key}={value[:40]}", "must be a number") from None
    return numbers


@run_app.command("sysbench-oltp")
def sysbench_oltp(
    on: ServerRun,
    script: Annotated[
        str, make_option("NAME", "oltp_read_write, oltp_read_only, ... : any script of sysbench 1.0.")
    ] = "oltp_read_write",
    tables: Annotated[int, make_option("N", "Number of tables.", min=1)] = 8,
    rows: Annotated[
        int, make_option("N", "Rows of each table; a million take some 0.24 GiB in InnoDB.", min=1)
    ] = 100_000,
    distribution: Annotated[
        Literal["uniform", "gaussian", "special", "pareto", "zipfian"], make_choice("Distribution of the picked rows.")
    ] = "special",
    parameter: Annotated[
        list[str] | None,
        make_option("K=V", "A parameter of the distribution: rand_pareto_h=0.2, rand_zipfian_exp=0.9, ... Repeatable."),
    ] = None,
    option_: Annotated[
        list[str] | None,
        make_option("K=V", "An option of the script: point_selects=5, skip_trx=on, ... Repeatable.", "--option"),
    ] = None,
) -> None:
    """Run sysbench's OLTP scripts on a server."""
    on.run(
        bench.SysbenchOltp(
            script, tables, rows, distribution, _parse_numbers(parameter), _parse_script_options(option_)
        )
    )


@run_app.command()
def tpcc(
    on: ServerRun,
    warehouses: Annotated[int, make_option("N", "Warehouses, some 0.1 GiB each in InnoDB.", min=1)] = 10,
    items: Annotated[int, make_option("N", "Items. Fewer make a trial, not TPC-C.")] = 100_000,
    customers: Annotated[int, make_option("N", "Customers of a district. Fewer make a trial, not TPC-C.")] = 3_000,
) -> None:
    """Run TPC-C on a server: five transactions, nine tables, the standard's consistency checked
    afterwards. There are no keying and think times."""
    on.run(bench.Tpcc(warehouses, items, customers))


@run_app.command()
def mysqlslap(
    on: ServerRun,
    load: Annotated[str, make_option("KIND", "mixed, read (scans), key, update or write.")] = "mixed",
    rows: Annotated[int, make_option("N", "Rows of the table, some 160 bytes each.")] = 100_000,
) -> None:
    """Run mysqlslap on a server: many clients with the same statements, without latencies."""
    on.run(bench.Mysqlslap(load, rows))


@run_app.command("sysbench-fileio")
def sysbench_fileio(
    *,
    on: FileRun,
    folder: FolderOption,
    mode: Annotated[str, make_option("MODE", "seqwr, seqrewr, seqrd, rndrd, rndwr or rndrw.")] = "rndrw",
    size_gib: Annotated[float, make_option("GIB", "Size of all files together.")] = 1.0,
    files: Annotated[int, make_option("N", "Number of files.")] = 16,
    block_kib: Annotated[int, make_option("KIB", "Size of a request.")] = 16,
    io_mode: Annotated[str, make_option("MODE", "sync, async or mmap.")] = "sync",
    flags: Annotated[str, make_option("F,F", "Flags of open: direct, dsync, sync; `none`.")] = "direct",
    fsync_every: Annotated[int, make_option("N", "fsync after every N requests; 0: never.")] = 0,
    fsync_all: Annotated[bool, make_flag("--fsync-all", "fsync after each write.")] = False,
) -> None:
    """Run sysbench's reads and writes of files in a folder."""
    chosen = () if flags in ("", "none") else tuple(flag.strip() for flag in flags.split(","))
    on.run(bench.SysbenchFileio(mode, size_gib, files, block_kib, io_mode, chosen, fsync_every, fsync_all), folder)


@run_app.command()
def fio(
    *,
    on: FioRun,
    folder: FolderOption,
    rw: Annotated[str, make_option("PATTERN", "read, write, randread, randwrite, rw or randrw.")] = "randread",
    block_kib: Annotated[int, make_option("KIB", "Size of a request.")] = 16,
    iodepth: Annotated[int, make_option("N", "Requests under way of each client.")] = 1,
    size_gib: Annotated[float, make_option("GIB", "Size of the file, or of the part of the device.")] = 1.0,
    read_percent: Annotated[int, make_option("PERCENT", "Share of reads in mixed patterns.")] = 50,
    ioengine: Annotated[str, make_option("NAME", "libaio, io_uring, psync or sync.")] = "libaio",
    direct: Annotated[bool, make_flag("--direct/--buffered", "Bypass the page cache, or use it.")] = True,
    fdatasync: Annotated[int, make_option("N", "fdatasync after every N writes; 0: never.")] = 0,
    overwrite: Annotated[bool, make_flag("--overwrite", "Write to a block device: what is on it is lost.")] = False,
) -> None:
    """Run fio on a file in a folder, or on a block device."""
    on.run(bench.FioJob(rw, block_kib, iodepth, size_gib, read_percent, ioengine, direct, fdatasync, overwrite), folder)


# --- headrace bench -------------------------------------------------------------------------------


EPILOG = read_epilog("bench")

app = CommandGroup("Run standard benchmarks; list, compare and export what was measured.", EPILOG, shares=(StorePlace,))
app.add_typer(run_app, name="run", short_help="Run a benchmark and keep what was measured.")

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
    benchmark: Annotated[str | None, make_option("NAME", "Only runs of this benchmark.")] = None,
    storage: Annotated[str | None, make_storage_option("Only runs on this storage.")] = None,
    last: Annotated[int | None, make_option("N", "Only the last N runs.", min=1)] = None,
    report: PageOrChartOption = None,
    output: OutputOption = "table",
) -> None:
    """List the runs, the newest last, or show one; csv of one is its time line."""
    if run is not None:
        return _show_stored_run(place, run, report, output)
    if report is not None:
        raise InputError("--report", "draws one run", "headrace bench list --help", "Name it, for example latest.")
    run_store = place.open_store()
    records = run_store.list_runs()
    for name in sorted(set(run_store.list_ids()) - {record.id for record in records}):
        say(f"note: {name} is damaged and left out: see {run_store.folder / name}")
    for folder in run_store.list_unfinished():
        say(f"note: {folder} is a run that is being made, or was killed")
    records = [
        record
        for record in records
        if benchmark in (None, record.document["benchmark"]["name"])
        and storage in (None, record.document["target"].get("storage"))
    ][-(last or 0) :]
    rows = [_make_csv_row(record) for record in records]
    answer = [record.document | {"folder": record.folder} for record in records]
    print_answer(
        answer,
        output,
        rows,
        LIST_CSV,
        lambda: (view.Table(benchmarks.LIST_COLUMNS, [benchmarks.make_list_row(record) for record in records]),),
    )


def _make_csv_row(record: RunRecord) -> dict[str, object]:
    """Returns a run as a row of LIST_CSV."""
    document = record.document
    of_load = {"benchmark": document["benchmark"]["name"], "threads": document["load"]["threads"]}
    cells = {"run": record.id, "state": record.state, **of_load, "storage": document["target"].get("storage")}
    return {**cells, **record.summary}


def _show_stored_run(place: StorePlace, run: str, report: Path | None, output: Output) -> None:
    """Prints a run, or its time line (csv), and writes its page."""
    check_chart_path(report)
    record = place.open_store().open(run)
    if output == "csv":
        return print_frame(record.read_series(), output)
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
    unlike: Annotated[
        bool, make_flag("--unlike", "Compare even when load, tool, machine or data are not alike.")
    ] = False,
    report: ReportOption = None,
    output: OutputOption = "table",
) -> None:
    """Compare two runs, or two groups of repetitions, with 95 % intervals."""
    check_chart_path(report, PAGE_FORMATS)
    run_store = place.open_store()
    sides = [[run_store.open(name.strip()) for name in text.split(",") if name.strip()] for text in (first, second)]
    comparison = bench.compare(*sides, allow_unlike=unlike)
    write_report(report, lambda: benchmarks.build_comparison_view(comparison))
    rows = [asdict(difference) for difference in comparison.differences]
    ids = {"first": [record.id for record in comparison.a], "second": [record.id for record in comparison.b]}
    answer = ids | pick_fields(comparison, "differences", "differs", "unlike", "notes")
    names = [
        f"{side}: {benchmarks.describe_group(group)}"
        for side, group in (("first ", comparison.a), ("second", comparison.b))
    ]

    def list_parts() -> tuple[object, ...]:
        differences = view.Table(benchmarks.COMPARE_COLUMNS, benchmarks.list_difference_rows(comparison))
        return (*names, "", *benchmarks.list_difference_sentences(comparison), "", differences)

    print_answer(answer, output, rows, tuple(bench.Difference.__dataclass_fields__), list_parts)
    say_each("note", comparison.notes)


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
        make_choice("Table to export: a row a run, a row a second, or the latency histograms."),
    ] = "runs",
    sql: Annotated[
        str | None,
        make_option("SELECT", "A query over the tables runs, series and percentiles (DuckDB), instead of --what."),
    ] = None,
    to: Annotated[
        Path | None,
        make_option("FILE", "File to write: .parquet, .csv or .json. Default: stdout, as --output says.", "--to", "-o"),
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
    print_answer(answer.to_dicts(), output, [], (), lambda: (make_table(answer.columns, answer.rows()),))


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
