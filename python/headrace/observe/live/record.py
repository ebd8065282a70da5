"""Captures a live server: samples it for some time, and writes a run description with its files for
`headrace calibrate`.
"""

from __future__ import annotations

import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

from headrace.base.checks import check_choice, check_name, check_whole
from headrace.base.documents import to_toml
from headrace.base.encoding import Document, pick_fields
from headrace.base.files import explain_unwritable, write_whole
from headrace.errors import CouldNotRun, HeadraceError, InputError, Refusals
from headrace.mysql import Address, connect
from headrace.mysql.statements import SqlConnection
from headrace.observe.live import host, profile
from headrace.observe.live.profile import Latencies, read_latencies, summarize_latencies
from headrace.observe.live.sampler import Sampler
from headrace.observe.live.samples import Samples, write_disk_csv, write_status_csv
from headrace.observe.run_files.status import WANTED, looks_cold
from headrace.observe.run_storage import check_storage
from headrace.observe.settings import ENGINES

refuse = Refusals("docs/reference/capture.md")
LEAST_S, MOST_S = 10.0, 7 * 86_400.0  # ours: ten samples, a week
DESCRIPTION, STATUS, DISK = "RUN.toml", "status.csv", "disk.csv"
# Counters of rows by engine: the engine whose counters grow most does the work.
ROWS = {
    "innodb": ("innodb_rows_read", "innodb_rows_inserted", "innodb_rows_updated", "innodb_rows_deleted"),
    "myrocks": ("rocksdb_rows_read", "rocksdb_rows_inserted", "rocksdb_rows_updated", "rocksdb_rows_deleted"),
}
# Further counters that `headrace doctor FOLDER` reads.
DOCTORED = (
    "innodb_row_lock_time", "innodb_row_lock_current_waits", "innodb_log_waits", "innodb_buffer_pool_wait_free",
    "innodb_buffer_pool_read_requests", "innodb_buffer_pool_pages_flushed", "innodb_checkpoint_max_age",
    "innodb_data_read", "innodb_data_reads", "innodb_data_writes", "innodb_data_fsyncs", "innodb_os_log_fsyncs",
    "innodb_data_pending_reads", "innodb_data_pending_writes", "innodb_data_pending_fsyncs",
    "innodb_redo_log_capacity_resized", "bytes_sent", "binlog_bytes_written",
)  # fmt: skip
VARIABLES = (*WANTED, "threads_connected", *ROWS["innodb"], *ROWS["myrocks"], *DOCTORED)
POLL_S = 0.25  # how soon Ctrl-C and a lost server are noticed


@dataclass(frozen=True)
class CaptureRequest:
    """The settings of a capture.

    `storage`, `log_storage`: the server's volumes in storage notation; `devices`: the same as block
    devices of this machine.

    `threads` None: the mean of Threads_running, less the capture's own. `data_gib` None: as the
    server says (needs PROCESS). `engine` None: that which handles more rows.
    """

    address: Address
    seconds: float
    storage: str
    devices: Sequence[str] = ()
    log_storage: str | None = None
    instance: str | None = None
    as_of: date | None = None
    engine: str | None = None
    data_gib: float | None = None
    threads: int | None = None
    name: str | None = None
    interval_s: float = 1.0


@dataclass(frozen=True)
class Captured(Document, schema="headrace-capture/1"):
    """A finished capture. `description`: the path of its RUN.toml. `state`: whole, interrupted
    (Ctrl-C) or broken (the server was lost). `latencies` as `summarize_latencies` returns them.
    """

    description: Path
    state: str
    seconds: float
    threads: int
    latencies: dict[str, float]
    notes: tuple[str, ...] = field(default_factory=tuple)


def capture(
    request: CaptureRequest,
    folder: str | os.PathLike,
    *,
    force: bool = False,
    progress: Callable[[float], None] = lambda done: None,
) -> Captured:
    """Samples the server for `request.seconds`, and writes RUN.toml, status.csv and (with devices)
    disk.csv into `folder`, or into a temporary folder where that fails.

    It uses one connection, read only, and SHOW GLOBAL STATUS once an interval. After Ctrl-C and a
    lost server it writes what was sampled. `force`: over an earlier capture. Raises InputError
    (address, account, privileges, storage, a folder that is not empty) and CouldNotRun (no server,
    nothing sampled).
    """
    folder = Path(folder)
    _check_request(request, folder, force)
    server, sizes_gib, before = _read_server(request)
    devices, notes = _choose_devices(request, server)
    notes += server.notes
    with Sampler(request.address, devices, request.interval_s, variables=VARIABLES) as sampler:
        state = _wait_for_samples(sampler, request, progress)
        samples = sampler.stop()
    if samples.status.height < 3:
        hint = "; ".join(samples.notes) or "Capture longer."
        raise CouldNotRun(request.address.label, f"gave {samples.status.height} samples", "", hint)
    engine = request.engine or _find_busier_engine(server, samples)
    after = Latencies() if state == "broken" else _read_latencies_at_end(request.address, server)
    notes += [*samples.notes, *before.notes, *(note for note in after.notes if note not in before.notes)]
    latencies = summarize_latencies(before, after)
    if before.transactions and after.transactions and "transactions" not in latencies:
        notes.append(
            "performance_schema times no transactions here: its instrument `transaction` is off, or its consumers are"
        )
    description = _build_description(request, server, engine, sizes_gib.get(engine), samples, latencies, notes)
    folder = _write_or_rescue(folder, description, samples)
    return Captured(
        folder / DESCRIPTION, state, _measure_span(samples), description["threads"], latencies, tuple(notes)
    )


def _check_request(request: CaptureRequest, folder: Path, force: bool) -> None:
    """Raises InputError for a request that cannot be carried out, and CouldNotRun for a folder that
    may not be written, before anything is measured."""
    if not 1.0 <= request.interval_s <= 60.0 or request.interval_s != int(request.interval_s):
        raise refuse.input(f"interval = {request.interval_s:g} s", "must be 1 to 60 whole seconds")
    if not LEAST_S <= request.seconds <= MOST_S:
        rule = f"a capture takes {LEAST_S:g} s to {MOST_S / 86_400:g} days"
        raise refuse.input(f"{request.seconds:g} s", rule, "An hour of usual load is good.")
    if request.engine is not None:
        check_choice("engine", request.engine, ENGINES)
    if request.threads is not None:
        check_whole("threads", request.threads, 1, 100_000, refuse)
    day = request.as_of or datetime.now(UTC).date()
    check_storage("storage", request.storage, day, request.instance)
    if request.log_storage is not None:
        check_storage("log_storage", request.log_storage, day, request.instance)
    host.resolve_device_names(request.devices)
    if folder.exists() and not folder.is_dir():
        raise InputError(str(folder), "is not a folder", "", "Name a folder, or one that can be made.")
    if not folder.exists() and not folder.absolute().parent.is_dir():
        raise InputError(str(folder), "its parent folder does not exist", "", "Make it, or name another.")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        hint = "Name another, or add --force to write over an earlier capture."
        raise InputError(str(folder), "is not empty", "", hint)
    # Refused now, not after an hour of sampling; a file system may be read only, too.
    if not os.access(folder if folder.exists() else folder.absolute().parent, os.W_OK | os.X_OK):
        raise CouldNotRun(str(folder), "may not be written", "access(2)", "Choose another folder.")
    if request.name is not None:
        check_name(request.name)


def _read_server(request: CaptureRequest) -> tuple[profile.Profile, dict[str, float], Latencies]:
    """Returns the server's profile, GiB of data by engine, and its latencies before the capture."""

    def read(connection: SqlConnection):
        server = profile.read_profile(connection, request.address)
        account = profile.ask_account(connection)
        if request.engine is not None and request.engine not in server.engines:
            hint = f"It has {', '.join(server.engines) or 'neither'}."
            raise InputError(f"engine = {request.engine}", "is not loaded in this server", "SHOW ENGINES", hint)
        # A missing privilege is reported now, not after an hour of sampling, when the server may be
        # gone, too.
        sizes = {
            engine: profile.ask_data_gib(connection, engine, account) if request.data_gib is None else request.data_gib
            for engine in server.engines
        }
        sized = {engine: size for engine, size in sizes.items() if size is not None}
        return server, sized, read_latencies(connection, server.variables, account)

    return _with_connection(request.address, read)


def _with_connection(address: Address, work: Callable):
    """Connects, calls `work` with the connection, closes that and returns the answer. Raises
    CouldNotRun if the server refuses a statement."""
    import pymysql

    connection = connect(address)
    try:
        return work(connection)
    except pymysql.err.MySQLError as error:
        code, text = error.args[0] if error.args else 0, str(error.args[-1] if error.args else error)[:200]
        hint = "See the server's error log."
        raise CouldNotRun(address.label, f"refused a request: {text}", f"error {code} of the server", hint) from None
    finally:
        with suppress(Exception):
            connection.close()


def _read_latencies_at_end(address: Address, server: profile.Profile) -> Latencies:
    """Returns the latencies at the end; empty, with a note, if the server does not answer."""
    try:
        return _with_connection(
            address, lambda connection: read_latencies(connection, server.variables, profile.ask_account(connection))
        )
    except HeadraceError as error:
        return Latencies(notes=[f"response times could not be had at the end: {error.rule}"])


def _choose_devices(request: CaptureRequest, server: profile.Profile) -> tuple[list[str], list[str]]:
    """Returns the devices to sample (empty: none known), and notes on which they are."""
    machine = socket.gethostname()
    is_local = server.hostname == machine
    if request.devices:
        doubt = f"the server says it runs on {server.hostname}; the devices are of this machine, {machine}"
        return list(request.devices), [] if is_local else [doubt]
    device = host.find_device(server.variables.get("datadir", "")) if is_local else None
    if device is None:
        return [], [
            "no disk counters: I/Os per transaction follow from the volume's cap alone. Run on the server, with --device"
        ]
    return [device], [f"disk counters are of {device}, on which the data directory lies"]


def _wait_for_samples(sampler: Sampler, request: CaptureRequest, progress: Callable[[float], None]) -> str:
    """Waits until the last sample was taken. Returns "whole", "interrupted" (Ctrl-C), or "broken"
    if the server was lost."""
    began = time.monotonic()
    # Samples stand on whole intervals: one more at the beginning, one at the end.
    length = request.seconds + 1.2 * request.interval_s
    try:
        while (elapsed_s := time.monotonic() - began) < length:
            if "status" in sampler.ended:
                return "broken"
            progress(min(1.0, elapsed_s / length))
            time.sleep(min(POLL_S, length - elapsed_s))
    except KeyboardInterrupt:
        return "interrupted"
    return "broken" if "status" in sampler.ended else "whole"


def _find_busier_engine(server: profile.Profile, samples: Samples) -> str:
    """Returns the engine that handled more rows during the capture. Raises InputError if the server
    has neither."""
    if not server.engines:
        hint = "Other engines are not modelled."
        raise InputError(server.version, "has neither InnoDB nor MyRocks", "SHOW ENGINES", hint)
    rows = {engine: sum(_measure_growth(samples, name) for name in ROWS[engine]) for engine in server.engines}
    return max(server.engines, key=lambda engine: rows[engine])


def _measure_growth(samples: Samples, name: str) -> float:
    """Returns how much a counter of the status grew during the capture; 0 if it was never read."""
    if name not in samples.status.columns:
        return 0.0
    column = samples.status[name].drop_nulls()
    return float(column[-1] - column[0]) if column.len() else 0.0


def _measure_span(samples: Samples) -> float:
    """Returns the seconds from the first sample of the status to the last."""
    return float(samples.status["t_unix"][-1] - samples.status["t_unix"][0])


def _build_description(
    request: CaptureRequest,
    server: profile.Profile,
    engine: str,
    data_gib: float | None,
    samples: Samples,
    latencies: dict,
    notes: list[str],
) -> dict:
    """Returns the content of RUN.toml for a capture. `data_gib` None: not known, to be added by
    hand. Estimates and what is missing are appended to `notes`, which become its caveats."""
    running = (
        samples.status["threads_running"].drop_nulls().to_list() if "threads_running" in samples.status.columns else []
    )
    mean = max(0.0, (statistics.fmean(running) if running else 0.0) - server.idle_threads)
    threads = request.threads or max(1, round(mean))
    if request.threads is None:
        notes.append(
            f"threads is the mean of Threads_running, {mean:.1f} clients with a statement under way: an estimate of the closed loop"
        )
    first = samples.status.row(0, named=True)
    free, total = first.get("innodb_buffer_pool_pages_free"), first.get("innodb_buffer_pool_pages_total")
    cold = (
        engine == "innodb"
        and free is not None
        and total
        and looks_cold(free / total, data_gib and data_gib / server.get_cache_gib(engine))
    )
    began = datetime.fromtimestamp(samples.status["t_unix"][0], UTC)
    document: dict = {
        "format": "headrace-run",
        "version": 1,
        "name": request.name or f"capture of {server.hostname or request.address.label}, {began:%Y-%m-%d %H:%M} UTC",
        "engine": engine,
        "engine_version": server.version,
        "flavor": server.flavor,
        **pick_fields(request, "storage", "log_storage", "instance"),
        "as_of": request.as_of or began.date(),
        "cache_gib": server.get_cache_gib(engine),
        "threads": threads,
        "start": "cold" if cold else "warm",
    }
    if "statement_p95_ms" in latencies and _is_autocommit(samples):
        document["p95_ms"] = latencies["statement_p95_ms"]
    if data_gib is None:
        notes.append("the size of the data could not be had: add data_gib to [benchmark] before calibrating")
    document["caveats"] = [*notes, *_describe_latencies(latencies)]
    document |= {
        "benchmark": {"name": "own"} | ({} if data_gib is None else {"data_gib": data_gib}),
        "settings": server.make_settings(engine),
        "files": {"status": STATUS},
    }
    if samples.disk.height:
        document["files"]["disk"] = DISK
    return document


def _is_autocommit(samples: Samples) -> bool:
    """Returns True when nearly every statement is a transaction of its own: then the histogram of
    statements is that of transactions."""
    return _measure_growth(samples, "com_commit") < 0.01 * _measure_growth(samples, "questions")


def _describe_latencies(latencies: dict[str, float]) -> list[str]:
    """Returns sentences on the number of transactions and statements that performance_schema
    counted, and on their latencies in ms."""
    sentences = []
    if "transactions" in latencies:
        sentences.append(
            f"performance_schema counted {latencies['transactions']:,.0f} transactions "
            f"of {latencies['transaction_mean_ms']:.2f} ms each on average, "
            "from begin to commit with what the client did in between"
        )
    if "statements" in latencies:
        figures = ", ".join(
            f"{key.removeprefix('statement_').removesuffix('_ms')} {value:.2f} ms"
            for key, value in latencies.items()
            if key.startswith("statement_p")
        )
        sentences.append(f"statements took {figures} (upper ends of performance_schema's buckets)")
    return sentences


def _write_or_rescue(folder: Path, document: dict, samples: Samples) -> Path:
    """Writes the capture into the folder, or where that fails (a full disk) into a temporary one,
    with a caveat, so that the samples are not lost. Returns the folder."""
    try:
        _write(folder, document, samples)
        return folder
    except CouldNotRun as error:
        place = Path(tempfile.mkdtemp(prefix="headrace-capture-"))
        document["caveats"].append(f"{folder} {error.rule}")
        _write(place, document, samples)
        return place


def _write(folder: Path, document: dict, samples: Samples) -> None:
    """Writes the capture over an earlier one, RUN.toml last: a folder with it is complete."""
    with explain_unwritable(folder, "Choose another folder."):
        folder.mkdir(exist_ok=True)
        for name in (DESCRIPTION, STATUS, DISK):
            (folder / name).unlink(missing_ok=True)
    write_status_csv(samples, folder / STATUS)
    if samples.disk.height:
        write_disk_csv(samples, folder / DISK)
    write_whole(folder / DESCRIPTION, to_toml(document).encode())
