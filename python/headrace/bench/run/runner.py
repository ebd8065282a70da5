"""A run from its beginning to its place in the store."""

from __future__ import annotations

import math
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from headrace.bench.drivers.benchmark import Benchmark, Load, Outcome, Report
from headrace.bench.drivers.tool import Tool
from headrace.bench.run import environment, process, run_files, summary, timeline
from headrace.bench.run.lab_metrics import LabMetrics
from headrace.bench.server import data_gib
from headrace.bench.store.store import PERCENTILES_FILE, SERIES_FILE, RunRecord, Store, now_text, write_parquet
from headrace.bench.target import DOC, Target
from headrace.connect import connect
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.observe.live.latency import Latencies, between, read_latencies
from headrace.observe.live.sampler import Sampler
from headrace.observe.live.samples import Samples

# Beyond the time asked for: connecting, finishing transactions (sysbench waits 30 s for those), summing up.
MORE_S = 90.0
# Two samples before the first row and two after the last (sources are read at whole seconds): what goes on without the load is known at its edges.
BEFORE_S = 1.2
AFTER_S = 2.3
MAX_SECONDS, MAX_THREADS = 7 * 86_400, 100_000
FEWEST_SECONDS = 2


class Interrupted(KeyboardInterrupt):
    """Ctrl-C (or SIGTERM) during a run: `record` is what was measured until then."""

    def __init__(self, record: RunRecord) -> None:
        super().__init__(record.id)
        self.record = record


class BrokenRun(CouldNotRun):
    """The tool or the server ended before its time: `record` is what was measured until then. Exit code 3."""

    def __init__(self, record: RunRecord, value: str, rule: str, source: str = "", hint: str = "") -> None:
        super().__init__(value, rule, source, hint)
        self.record = record

    def __reduce__(self):
        return (type(self), (self.record, self.value, self.rule, self.source, self.hint))


@dataclass(frozen=True)
class Second:
    """A report as it comes. `done`: share of the whole run, 0..1; `phase`: warmup or measure."""

    t_s: float
    phase: str
    tps: float | None
    qps: float | None
    p95_ms: float | None
    done: float


@dataclass
class _Measured:
    """What a run has collected so far."""

    reports: list[Report] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)  # clock at which the tool's time was 0, by each line
    ended: process.Ended | None = None
    began_unix: float = 0.0
    seconds: float = 0.0
    interrupted: bool = False
    statements: dict[str, float] = field(default_factory=dict)  # of performance_schema


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
    """Runs a benchmark whose data are prepared, and keeps it in the store; the record returned is complete.

    `threads` clients for `warmup_s` that do not count and `seconds` that do. `name`: of the run, in RUN.toml. `start`: cold or warm, None: as the server's cache was found.
    `progress` gets the share done and what is done; `on_second` every report. Raises InputError for what cannot be run, CouldNotRun when nothing could be measured, and with what
    was measured until then in `.record`: BrokenRun when the tool or the server ended early, Interrupted (a KeyboardInterrupt) after Ctrl-C.
    """
    load = checked(seconds, warmup_s, threads, seed)
    if start not in (None, "cold", "warm"):
        raise InputError(f"start = {start}", "must be cold or warm", DOC)
    benchmark.check_target(target)
    _check_connections(target, threads)
    tool = benchmark.tool()
    if not benchmark.prepared(target, threads):
        raise InputError(
            f"{benchmark.name} on {target.label}",
            "has no data yet",
            f"{DOC}, Preparing",
            "Prepare them first: --prepare, or benchmark.prepare().",
        )
    kept = store if isinstance(store, Store) else Store(store)
    tell = progress or (lambda share, what: None)
    tell(0.0, "looking at the machine")
    document = _before(benchmark, target, load, tool, start)
    run_id, folder = kept.begin(name or benchmark.name)
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as private, _Signals() as signals:
            measured, samples, lab = _measure(benchmark, target, load, folder, Path(private), tell, on_second, signals)
            record = _kept(kept, run_id, folder, name, benchmark, target, load, document, measured, samples, lab, Path(private))
            if signals.asked:
                raise Interrupted(record)
            return record
    except BaseException:
        if folder.exists() and not (folder / SERIES_FILE).exists():
            kept.drop(folder)
        raise


def checked(seconds: int, warmup_s: int, threads: int, seed: int) -> Load:
    """The load, with every number within its bounds. Raises InputError."""
    for what, value, low, high in (
        ("seconds", seconds, FEWEST_SECONDS, MAX_SECONDS), ("warmup_s", warmup_s, 0, MAX_SECONDS), ("threads", threads, 1, MAX_THREADS), ("seed", seed, 1, 2**31 - 1),
    ):  # fmt: skip
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InputError(f"{what} = {value}", f"must be a whole number from {low:,} to {high:,}", DOC)
    return Load(threads, warmup_s, seconds, seed)


def _check_connections(target: Target, threads: int) -> None:
    """One for each client and one for the samples. Raises InputError."""
    most = target.config.get("max_connections", "")
    if target.address is not None and most.isdigit() and threads + 1 > int(most):
        raise InputError(f"{threads} threads", f"the server takes {most} connections (max_connections), and one is for the samples", f"{DOC}, When something fails",
                         "Use fewer, or SET GLOBAL max_connections.")  # fmt: skip


def _before(benchmark: Benchmark, target: Target, load: Load, tool: Tool, start: str | None) -> dict:
    """What is known before the run."""
    size = data_gib(target) if target.address is not None else None
    return {
        "began_at": now_text(),
        "benchmark": {"name": benchmark.name, "unit": benchmark.unit, "options": benchmark.options()},
        "load": {"threads": load.threads, "warmup_s": load.warmup_s, "seconds": load.seconds, "seed": load.seed},
        "target": target.record() | {"data_gib": size},
        "tool": {"name": tool.name, "path": tool.path, "version": tool.version},
        "config": dict(sorted(target.config.items())),
        "environment": environment.capture() | {"devices": environment.device_facts(target.devices), "before": environment.load_before()},
        "start": start,
    }


def _measure(
    benchmark: Benchmark,
    target: Target,
    load: Load,
    folder: Path,
    private: Path,
    tell: Callable,
    on_second: Callable | None,
    signals: _Signals,
) -> tuple[_Measured, Samples, dict[str, pl.DataFrame]]:
    found = _Measured()
    command = benchmark.command(target, load, private)

    def on_line(at: float, text: str) -> None:
        report = benchmark.line(text)
        if report is None:
            return
        found.reports.append(report)
        found.delays.append(at - report.end_s)
        if on_second is not None:
            phase = "measure" if report.end_s > load.warmup_s else "warmup"
            on_second(Second(report.end_s, phase, report.tps, report.qps, report.p95_ms, min(1.0, report.end_s / load.all_s)))

    def on_tick(gone: float) -> None:
        lab.keep_up()
        tell(min(1.0, gone / load.all_s), benchmark.name)

    server = None if target.address is None else target.address.with_database(None)
    with Sampler(server, target.devices) as sampler, LabMetrics(target) as lab:
        time.sleep(math.ceil(time.time()) + BEFORE_S - time.time())
        before = _latencies(target)
        found.began_unix = time.time()
        try:
            signals.listen()
            limit_s = load.all_s + (0.0 if benchmark.ended_by_time else MORE_S)
            found.ended = process.run(command, folder / "raw" / "output.txt", limit_s, on_line, on_tick)
        except KeyboardInterrupt:
            found.interrupted = True
        finally:
            signals.listening = False
            found.seconds = time.time() - found.began_unix
        found.statements = _between(before, _latencies(target))
        time.sleep(AFTER_S)
        samples = sampler.stop()
        frames = lab.stop()
        samples.notes += lab.notes
    if found.delays:
        # A line is printed at the end of its interval and comes a little later: the least delay is nearest to none.
        found.began_unix = min(found.delays)
    return found, samples, frames


def _latencies(target: Target) -> Latencies | None:
    """What performance_schema knows now; None where no server answers or it knows nothing."""
    if target.address is None:
        return None
    try:
        with connect(target.address.with_database(None)) as connection:
            return read_latencies(connection, dict(target.config), target.address.user)
    except HeadraceError:
        return None


def _between(before: Latencies | None, after: Latencies | None) -> dict[str, float]:
    found = between(before, after) if before is not None and after is not None else {}
    return {name: value for name, value in found.items() if name.startswith("statement")}


def _kept(
    store: Store, run_id: str, folder: Path, name: str | None, benchmark: Benchmark, target: Target, load: Load, document: dict, measured: _Measured, samples: Samples,
    lab: dict[str, pl.DataFrame], private: Path,
) -> RunRecord:  # fmt: skip
    """Puts what was measured into the store, and raises what ended it early."""
    for kept in benchmark.kept_files:
        if (private / kept).exists():
            shutil.copyfile(private / kept, folder / "raw" / kept)
    outcome, failure = _outcome(benchmark, target, load, folder, private, measured)
    reports = list(outcome.reports) or measured.reports
    if benchmark.unit_from_status or (benchmark.reports_in_files and not reports):
        frame = timeline.grid(min(measured.seconds, load.all_s), measured.began_unix, load.warmup_s)
    else:
        frame = timeline.rows(reports, outcome.began_unix or measured.began_unix, load.warmup_s)
    # A tool that ran its time may not have printed its last line.
    if frame.height < (FEWEST_SECONDS if measured.interrupted or failure else 1):
        store.drop(folder)
        if measured.interrupted:
            raise KeyboardInterrupt
        raise failure or CouldNotRun(benchmark.name, "ended before a second was measured", DOC, "Run it for longer.")
    series = benchmark.completed(timeline.joined(frame, samples, lab))
    state = "interrupted" if measured.interrupted else "broken" if failure else "complete"
    write_parquet(series, folder / SERIES_FILE)
    if outcome.histogram is not None:
        write_parquet(
            pl.DataFrame(
                list(outcome.histogram.rows()), schema={"value_ms": pl.Float64, "count": pl.Int64, "share": pl.Float64}, orient="row"
            ),
            folder / PERCENTILES_FILE,
        )
    for kind, frame in (
        ("status", samples.status),
        ("disk", samples.disk),
        ("host", samples.host),
        *((f"lab-{volume}", rows) for volume, rows in lab.items()),
    ):
        if frame.height:
            write_parquet(frame, folder / f"{kind}.parquet")
    document |= {
        "ended_at": now_text(),
        "state": state,
        "start": document["start"] or summary.start_of(samples, target, document["target"]["data_gib"]),
    }
    findings = [*outcome.notes, *summary.findings(document, series, samples, failure, measured.interrupted)]
    if state == "complete" and target.address is not None:
        findings += _verified(benchmark, target)
    lacks = run_files.write(
        folder, benchmark, target, load, series, samples, name=name or f"{benchmark.name}, {target.storage or target.label}", start=document["start"],
        data_gib=document["target"]["data_gib"], vcpus=document["environment"]["cpus_usable"], caveats=findings,
    )  # fmt: skip
    if lacks and benchmark.described() is not None:
        findings.append(f"There is no RUN.toml: {lacks}.")
    document |= {"summary": summary.figures(series, outcome, benchmark) | measured.statements, "findings": findings, "notes": samples.notes}
    if name:
        document["name"] = name
    record = store.finish(run_id, folder, document)
    if measured.interrupted:
        raise Interrupted(record)
    if failure is not None:
        raise BrokenRun(
            record, failure.value, failure.rule, failure.source, f"{failure.hint} What was measured is kept: run {record.id}.".strip()
        )
    return record


def _outcome(
    benchmark: Benchmark, target: Target, load: Load, folder: Path, private: Path, measured: _Measured
) -> tuple[Outcome, HeadraceError | None]:
    """What the tool said, and what went wrong. An interrupted run has neither."""
    output = folder / "raw" / "output.txt"
    raw = output.read_text(errors="replace") if output.exists() else ""
    ended = measured.ended
    if measured.interrupted or ended is None:
        return benchmark.partial(raw, load, private), None
    if benchmark.ended_by_time and ended.late:
        return benchmark.outcome(raw, load, private), None
    if ended.late or ended.code or benchmark.ended_by_time:
        what = f"did not end {MORE_S:g} s after its time" if ended.late else benchmark.why(raw, ended)
        return benchmark.partial(raw, load, private), CouldNotRun(
            f"{benchmark.name} on {target.label}", what, f"{DOC}, When something fails", "Does the server still run? See its error log."
        )
    try:
        return benchmark.outcome(raw, load, private), None
    except InputError as error:
        return benchmark.partial(raw, load, private), CouldNotRun(error.value, error.rule, error.source, error.hint)


def _verified(benchmark: Benchmark, target: Target) -> list[str]:
    try:
        return [f"After the run {wrong}." for wrong in benchmark.verify(target)]
    except HeadraceError as error:
        return [f"The data could not be checked after the run: {error.rule}."]


class _Signals:
    """Ctrl-C and SIGTERM: while `listening` they end what is running; else they are remembered (`asked`), since what was measured is being written."""

    def __init__(self) -> None:
        self.listening, self.asked = False, False
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Signals:
        # Only the main thread may; elsewhere the caller decides when to end.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def listen(self) -> None:
        """From here on they end what is running; at once when one came before."""
        self.listening = True
        if self.asked:
            self.asked = self.listening = False
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: object) -> None:
        if not self.listening:
            self.asked = True
            return
        self.listening = False
        raise KeyboardInterrupt
