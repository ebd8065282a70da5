"""Prepares the data of a benchmark on a target, runs it with samples, and stores the run."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from headrace.base.checks import check_choice, check_whole
from headrace.base.processes import Ended, run_lines
from headrace.base.signals import Interrupts
from headrace.base.units import DAY_S
from headrace.bench.drivers.benchmark import Benchmark, IntervalReport, RunLoad, Say, ToolOutcome, stay_silent
from headrace.bench.running import environment, run_files, summary, timeline
from headrace.bench.server import create_database, measure_data_gib
from headrace.bench.store.store import PERCENTILES_FILE, SERIES_FILE, RunRecord, Store, write_now, write_parquet
from headrace.bench.target import DOC, Target, refuse
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.mysql import connect
from headrace.observe.live.profile import Latencies, read_latencies, summarize_latencies
from headrace.observe.live.sampler import Sampler, Samples
from headrace.observe.live.samples import LabRows

# Seconds beyond those asked for (a guess): connecting, finishing transactions (sysbench waits 30 s
# for those), summing up.
MORE_S = 90.0
# Seconds for two samples before the first row and two after the last (sources are read at whole
# seconds), so that counters without the load are known at its edges.
BEFORE_S, AFTER_S = 1.2, 2.3
# Guesses: a week, and more clients than a server has connections.
MAX_SECONDS, MAX_THREADS = 7 * DAY_S, 100_000
FEWEST_SECONDS = 2  # a mean needs two
# Prefix of folders for accounts and the tool's own files, which are removed at the end.
TEMPORARY = "headrace-bench-"
# Most tries to remove half a data set, and s between two of them: guesses; a purge of some thousand
# rows takes a second.
UNDO_TRIES, UNDO_PAUSE_S = 15, 1.0


class InterruptedRun(KeyboardInterrupt):
    """Ctrl-C (or SIGTERM) during a run; `record` is the stored run until then."""

    def __init__(self, record: RunRecord) -> None:
        super().__init__(record.id)
        self.record = record


class BrokenRun(CouldNotRun):
    """The early end of the tool or the server; `record` is the stored run until then. Exit code
    3."""

    def __init__(self, record: RunRecord, value: str, rule: str, source: str = "", hint: str = "") -> None:
        super().__init__(value, rule, source, hint)
        self.record = record

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.record, self.value, self.rule, self.source, self.hint))


@dataclass(frozen=True)
class Second:
    """A report of the tool during a run, which ended at `t_s`. `phase`: warmup or measure; `done`:
    share of the whole run, 0..1."""

    t_s: float
    phase: str
    tps: float | None
    qps: float | None
    p95_ms: float | None
    done: float


def run(
    benchmark: Benchmark,
    target: Target,
    *,
    seconds: int = 60,
    warmup_s: int = 0,
    threads: int = 16,
    seed: int = 1,
    store: Store | str | os.PathLike | None = None,
    name: str | None = None,
    start: str | None = None,
    progress: Callable[[float, str], None] | None = None,
    on_second: Callable[[Second], None] | None = None,
) -> RunRecord:
    """Runs a benchmark whose data are prepared, and keeps it in the store; the record is complete.

    `threads` clients for `warmup_s` that do not count and `seconds` that do. `name`: of the run, in
    RUN.toml. `start`: cold or warm, None: as the server's cache is. `progress` gets the share done
    and the current step; `on_second` every report. Raises InputError for what cannot be run,
    CouldNotRun when nothing could be measured, and with what was measured until then in `.record`:
    BrokenRun when the tool or the server ended early, InterruptedRun (a KeyboardInterrupt) after
    Ctrl-C.
    """
    load = check_load(seconds, warmup_s, threads, seed)
    if start is not None:
        check_choice("start", start, ("cold", "warm"), refuse)
    benchmark.check_target(target)
    _check_connections(target, threads)
    tool = benchmark.get_tool()
    if not benchmark.is_prepared(target, threads):
        hint = "Prepare them first: --prepare, or benchmark.prepare()."
        raise InputError(f"{benchmark.name} on {target.label}", "has no data yet", f"{DOC}, Preparing", hint)
    run_store = store if isinstance(store, Store) else Store(store)
    tell = progress or (lambda share, what: None)
    tell(0.0, "looking at the machine")
    document = {
        "began_at": write_now(),
        "benchmark": {"name": benchmark.name, "unit": benchmark.unit, "options": benchmark.list_options()},
        "load": {"threads": load.threads, "warmup_s": load.warmup_s, "seconds": load.seconds, "seed": load.seed},
        "target": target.to_dict() | {"data_gib": None if target.address is None else measure_data_gib(target)},
        "tool": {"name": tool.name, "path": tool.path, "version": tool.version},
        "config": dict(sorted(target.config.items())),
        "environment": environment.capture()
        | {"devices": environment.read_device_facts(target.devices), "before": environment.load_before()},
        "start": start,
    } | ({"name": name} if name else {})
    run_id, folder = run_store.begin(name or benchmark.name)
    try:
        with tempfile.TemporaryDirectory(prefix=TEMPORARY) as private, Interrupts() as signals:
            measurement = _Run(benchmark, target, load, document, folder, Path(private))
            measurement.measure(tell, on_second, signals)
            record = measurement.keep(run_store, run_id)
            if signals.pending:
                raise InterruptedRun(record)
            return record
    except BaseException:
        if folder.exists() and not (folder / SERIES_FILE).exists():
            run_store.drop(folder)
        raise


def check_load(seconds: int, warmup_s: int, threads: int, seed: int) -> RunLoad:
    """Returns the load of a run. Raises InputError for a number out of its bounds."""
    check_whole("seconds", seconds, FEWEST_SECONDS, MAX_SECONDS, refuse)
    check_whole("warmup_s", warmup_s, 0, MAX_SECONDS, refuse)
    check_whole("threads", threads, 1, MAX_THREADS, refuse)
    check_whole("seed", seed, 1, 2**31 - 1, refuse)
    return RunLoad(threads, warmup_s, seconds, seed)


def _check_connections(target: Target, threads: int) -> None:
    """Raises InputError if the server allows fewer connections than one for each client and one for
    the samples."""
    most = target.config.get("max_connections", "")
    if target.address is not None and most.isdigit() and threads + 1 > int(most):
        rule = f"the server takes {most} connections (max_connections), and one is for the samples"
        hint = "Use fewer, or SET GLOBAL max_connections."
        raise InputError(f"{threads} threads", rule, f"{DOC}, When something fails", hint)


@dataclass
class _Run:
    """A run and its measurements so far. `folder`: that of the run in the store; `private`: a
    folder that is removed at the end."""

    benchmark: Benchmark
    target: Target
    load: RunLoad
    document: dict
    folder: Path
    private: Path
    reports: list[IntervalReport] = field(default_factory=list)
    # Unix time at which the tool's time was 0, by each of its lines.
    began: list[float] = field(default_factory=list)
    ended: Ended | None = None
    began_unix: float = 0.0
    seconds: float = 0.0
    interrupted: bool = False
    statements: dict[str, float] = field(default_factory=dict)  # of performance_schema
    samples: Samples = field(init=False)

    def measure(self, tell: Callable, on_second: Callable[[Second], None] | None, signals: Interrupts) -> None:
        """Runs the tool with samples of server, devices, machine and lab, into the fields of this
        object; an interrupt ends it and sets `interrupted`. `tell` gets share done and step."""
        benchmark, target, all_s = self.benchmark, self.target, self.load.all_s
        command = benchmark.build_command(target, self.load, self.private)

        def on_line(at: float, text: str) -> None:
            report = benchmark.parse_line(text)
            if report is None:
                return
            self.reports.append(report)
            self.began.append(at - report.end_s)
            if on_second is not None:
                phase, done = "measure" if report.end_s > self.load.warmup_s else "warmup", report.end_s / all_s
                on_second(Second(report.end_s, phase, report.tps, report.qps, report.p95_ms, min(1.0, done)))

        def on_tick(elapsed_s: float) -> None:
            tell(min(1.0, elapsed_s / all_s), benchmark.name)

        server = None if target.address is None else target.address.with_database(None)
        lab = None
        if target.lab is not None and target.volumes:
            lab = LabRows(Lab(target.lab.data_dir, target.lab.socket), target.volumes)
        with Sampler(server, target.devices, lab=lab) as sampler:
            time.sleep(math.ceil(time.time()) + BEFORE_S - time.time())
            before = _read_latencies(target)
            self.began_unix = time.time()
            try:
                signals.listen()
                limit_s = all_s + (0.0 if benchmark.ended_by_time else MORE_S)
                self.ended = run_lines(command, self.folder / "raw" / "output.txt", limit_s, on_line, on_tick)
            except KeyboardInterrupt:
                self.interrupted = True
            finally:
                signals.ignore()
                self.seconds = time.time() - self.began_unix
            self.statements = _subtract_latencies(before, _read_latencies(target))
            time.sleep(AFTER_S)
            self.samples = sampler.stop()
        if self.began:
            # A line is printed at the end of its interval and comes a little later: the least delay
            # is nearest to none.
            self.began_unix = min(self.began)

    def keep(self, store: Store, run_id: str) -> RunRecord:
        """Stores the run and returns its record. Raises InterruptedRun or BrokenRun, with the
        record, if it ended early; without enough rows nothing is stored."""
        benchmark, document, target = self.benchmark, self.document, self.target
        for name in benchmark.kept_files:
            if (self.private / name).exists():
                shutil.copyfile(self.private / name, self.folder / "raw" / name)
        outcome, failure = self._read_outcome()
        frame = self._collect_rows(outcome)
        # A tool that ran its time may not have printed its last line.
        if frame.height < (FEWEST_SECONDS if self.interrupted or failure else 1):
            store.drop(self.folder)
            if self.interrupted:
                raise KeyboardInterrupt
            too_short = refuse.run(benchmark.name, "ended before a second was measured", "Run it for longer.")
            raise failure or too_short
        series = benchmark.complete_series(timeline.join_samples(frame, self.samples))
        self._write_frames(series, outcome)
        start = document["start"] or summary.classify_start(self.samples, target, document["target"]["data_gib"])
        state = "interrupted" if self.interrupted else "broken" if failure else "complete"
        document |= {"ended_at": write_now(), "state": state, "start": start}
        findings = [*outcome.notes, *summary.list_findings(document, series, self.samples, failure, self.interrupted)]
        if state == "complete" and target.address is not None:
            findings += _verify(benchmark, target)
        lacks = run_files.write(self.folder, benchmark, target, document, series, self.samples, findings)
        if lacks and benchmark.make_benchmark_table() is not None:
            findings.append(f"There is no RUN.toml: {lacks}.")
        figures = summary.compute_figures(series, outcome) | self.statements
        document |= {"summary": figures, "findings": findings, "notes": self.samples.notes}
        record = store.finish(run_id, self.folder, document)
        if self.interrupted:
            raise InterruptedRun(record)
        if failure is not None:
            hint = f"{failure.hint} The measured values are kept: run {record.id}.".strip()
            raise BrokenRun(record, failure.value, failure.rule, failure.source, hint)
        return record

    def _read_outcome(self) -> tuple[ToolOutcome, HeadraceError | None]:
        """Reads the tool's report, and the failure if any; an interrupted run has none."""
        benchmark, load, private, ended = self.benchmark, self.load, self.private, self.ended
        output = self.folder / "raw" / "output.txt"
        raw = output.read_text(errors="replace") if output.exists() else ""
        if self.interrupted or ended is None:
            return benchmark.read_partial_outcome(raw, load, private), None
        if benchmark.ended_by_time and ended.late:
            return benchmark.read_outcome(raw, load, private), None
        if ended.late or ended.code or benchmark.ended_by_time:
            what = f"did not end {MORE_S:g} s after its time" if ended.late else benchmark.explain_failure(raw, ended)
            value, hint = f"{benchmark.name} on {self.target.label}", "Does the server still run? See its error log."
            failure = CouldNotRun(value, what, f"{DOC}, When something fails", hint)
            return benchmark.read_partial_outcome(raw, load, private), failure
        try:
            return benchmark.read_outcome(raw, load, private), None
        except (InputError, CouldNotRun) as error:
            failure = CouldNotRun(error.value, error.rule, error.source, error.hint)
            return benchmark.read_partial_outcome(raw, load, private), failure

    def _collect_rows(self, outcome: ToolOutcome) -> pl.DataFrame:
        """Returns the intervals that the tool reported as rows, or empty rows a second long where
        it reports none."""
        reports = list(outcome.reports) or self.reports
        if self.benchmark.unit_from_status or (self.benchmark.reports_in_files and not reports):
            return timeline.make_empty_rows(min(self.seconds, self.load.all_s), self.began_unix, self.load.warmup_s)
        return timeline.make_rows(reports, outcome.began_unix or self.began_unix, self.load.warmup_s)

    def _write_frames(self, series: pl.DataFrame, outcome: ToolOutcome) -> None:
        """Writes the time line, the histogram if any, and every sampled series with rows, as
        Parquet into the run's folder."""
        write_parquet(series, self.folder / SERIES_FILE)
        if outcome.histogram is not None:
            schema = {"value_ms": pl.Float64, "count": pl.Int64, "share": pl.Float64}
            buckets = pl.DataFrame(list(outcome.histogram.list_rows()), schema=schema, orient="row")
            write_parquet(buckets, self.folder / PERCENTILES_FILE)
        samples = self.samples
        sampled = {"status": samples.status, "disk": samples.disk, "host": samples.host}
        for kind, frame in (sampled | {f"lab-{volume}": rows for volume, rows in samples.lab.items()}).items():
            if frame.height:
                write_parquet(frame, self.folder / f"{kind}.parquet")


def _read_latencies(target: Target) -> Latencies | None:
    """Reads the latencies of performance_schema; None without a server or counts."""
    if target.address is None:
        return None
    try:
        with connect(target.address.with_database(None)) as connection:
            return read_latencies(connection, dict(target.config), target.address.user)
    except HeadraceError:
        return None


def _subtract_latencies(before: Latencies | None, after: Latencies | None) -> dict[str, float]:
    deltas = summarize_latencies(before, after) if before is not None and after is not None else {}
    return {name: value for name, value in deltas.items() if name.startswith("statement")}


def _verify(benchmark: Benchmark, target: Target) -> list[str]:
    """Returns a sentence for each fault of the data after the run, or for a check that could not be
    made."""
    try:
        return [f"After the run {wrong}." for wrong in benchmark.verify(target)]
    except HeadraceError as error:
        return [f"The data could not be checked after the run: {error.rule}."]


def prepare(
    benchmark: Benchmark,
    target: Target,
    *,
    threads: int = 8,
    seed: int = 1,
    fresh: bool = False,
    say: Say = stay_silent,
) -> bool:
    """Makes the database and the data of a benchmark for a run of `threads` clients, unless they
    are complete; returns whether data were made. With `fresh` existing data are dropped first.
    Raises InputError for other data in their place, and CouldNotRun if they cannot be made;
    incomplete data are then removed."""
    benchmark.check_target(target)
    benchmark.get_tool()
    if target.address is not None:
        create_database(target)
    if fresh:
        clean_up(benchmark, target)
    elif benchmark.is_prepared(target, threads):
        return False
    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as folder:
        try:
            benchmark.prepare(target, Path(folder), threads, seed, say)
            is_complete = benchmark.is_prepared(target, threads)
        except BaseException:
            _undo(benchmark, target, Path(folder), say)
            raise
    if not is_complete:
        rule = "was prepared, but the data are not there"
        raise InputError(f"{benchmark.name} on {target.label}", rule, "", "Is something else dropping them?")
    return True


def _undo(benchmark: Benchmark, target: Target, folder: Path, say: Say) -> None:
    """Removes an incomplete data set, in up to UNDO_TRIES attempts: on a full volume InnoDB drops a
    table only after it has purged the undo log. A final failure is passed to `say`."""
    for tries_remaining in range(UNDO_TRIES - 1, -1, -1):
        try:
            return benchmark.remove_data(target, folder)
        except Exception as error:  # what went wrong first is what the user must hear in the end
            if not tries_remaining:
                say(f"half of the data could not be removed: {error}")
                return None
        time.sleep(UNDO_PAUSE_S)
    return None


def clean_up(benchmark: Benchmark, target: Target) -> None:
    """Removes the data of a benchmark from a target. Raises CouldNotRun, InputError."""
    benchmark.check_target(target)
    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as folder:
        benchmark.remove_data(target, Path(folder))
