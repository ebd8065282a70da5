"""REPLICA.toml: a measured run of a replica that was behind, and the files it names.

Two outputs of SHOW GLOBAL STATUS, at its begin and its end, have the counters; a file of the
source's binary log has the events and what may be applied at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from headrace.base.documents import DocumentKind, DocumentTable, annotate_range, annotate_rule, convert, parse_toml
from headrace.base.files import read_bytes
from headrace.base.storage import Storage
from headrace.calibration.replica import ReplicaRun, refuse
from headrace.observe.formats.binary_log import BinaryLogSample, read_binary_log
from headrace.observe.recording import open_recording
from headrace.observe.run_files.status import read_sample
from headrace.simulation.replica import MODES, Replica
from headrace.workload import TransactionWorkload, load

FORMAT, VERSION = "headrace-replica-run", 1
MOST_BYTES = 1 << 20  # of a description; ours
KIND = DocumentKind(
    "a replica's run",
    FORMAT,
    VERSION,
    refuse.source,
    begin=f'Such a file begins with format = "{FORMAT}" and version = {VERSION}.',
    other="Write a description that names the files under [files].",
)
READS, COMMITS, GROUPS = "innodb_buffer_pool_reads", "binlog_commits", "binlog_group_commits"
UPTIME = "uptime"

_Text = Annotated[str, annotate_rule("must be text", least=1, most=400, pattern=r"\S")]
_Path = Annotated[
    str, annotate_rule("must be the path of a file, relative to the description", most=4_000, pattern=r"\S")
]


class _Files(DocumentTable):
    status_before: _Path | None = None
    status_after: _Path | None = None
    binary_log: _Path | None = None


class _Document(DocumentTable, kw_only=True):
    """Keys as in `simulation.replica.Replica`; `server`: flavor and version, as mariadb-10.11."""

    format: str
    version: int
    server: Annotated[
        str,
        annotate_rule("must be a flavor and a version, as mariadb-10.11", pattern=r"\A(mariadb|mysql)-\d+(\.\d+)*\Z"),
    ]
    storage: _Text
    log_storage: _Text | None = None
    instance: _Text | None = None
    as_of: object = None
    cache_gib: Annotated[float, annotate_range(0.001, 24_576.0, "GiB")]
    mode: Literal[MODES] | None = None  # pyright: ignore[reportInvalidTypeForm]
    workers: Annotated[int, annotate_range(0, 1024)] | None = None
    preserve_order: bool | None = None
    log_bin: bool | None = None
    flush_log_at_trx_commit: Annotated[int, annotate_range(0, 3)] | None = None
    sync_binlog: Annotated[int, annotate_range(0, 4_294_967_295)] | None = None
    seconds: Annotated[float, annotate_range(1.0, 86_400.0, "s")]
    transactions: Annotated[int, annotate_range(1, 10**12)]
    cpu_s: Annotated[float, annotate_range(0.0, 1e9, "s")] | None = None
    files: _Files = msgspec.field(default_factory=_Files)


def load_replica_run(path: str | Path) -> tuple[ReplicaRun, BinaryLogSample | None]:
    """Loads the run in a REPLICA.toml, and the sample of the binary log that it names (None: it
    names none). Raises InputError, and CouldNotRun if a file cannot be read."""
    path = Path(path)
    document = convert(
        parse_toml(path.name, read_bytes(path, MOST_BYTES), KIND),
        _Document,
        source=refuse.source,
        where="a replica's run",
    )
    Storage.parse(document.storage)
    before, after = (
        read_sample(open_recording(path.parent / name)) if name else None
        for name in (document.files.status_before, document.files.status_after)
    )
    if (before is None) != (after is None):
        rule = "status_before and status_after belong together: the counters are their difference"
        raise refuse.input(f"{path.name}: files", rule, "Name both, or none.")
    counts = _subtract_counters(path.name, before or {}, after or {})
    replica = Replica(
        document.storage,
        log_storage=document.log_storage,
        instance=document.instance,
        cache_gib=document.cache_gib,
        version=document.server,
        mode=document.mode,
        workers=document.workers,
        preserve_order=document.preserve_order,
        log_bin=document.log_bin,
        flush_log_at_trx_commit=document.flush_log_at_trx_commit,
        sync_binlog=document.sync_binlog,
    )
    transactions = document.transactions
    run = ReplicaRun(
        name=path.stem,
        replica=replica,
        seconds=document.seconds,
        tps=transactions / document.seconds,
        as_of=None if document.as_of is None else str(document.as_of),
        reads=counts[READS] / transactions if READS in counts else None,
        group=counts[COMMITS] / counts[GROUPS] if counts.get(GROUPS) else None,
        cpu_ms=None if document.cpu_s is None else 1e3 * document.cpu_s / transactions,
    )
    log = document.files.binary_log
    return run, None if log is None else read_binary_log(path.parent / log)


def load_replica_runs(
    paths: Sequence[Path], binary_log: Path | None = None
) -> tuple[list[ReplicaRun], BinaryLogSample | None]:
    """Loads the runs in files, and the sample of the source's binary log that one of them or
    `binary_log` names. Raises InputError if several are named, and CouldNotRun if a file cannot be
    read."""
    measured = [load_replica_run(path) for path in paths]
    samples = [sample for _, sample in measured if sample is not None]
    if binary_log is not None:
        samples.append(read_binary_log(binary_log))
    if len(samples) > 1:
        rule = "is one file: the source's, of the same load"
        raise refuse.input(f"{len(samples)} binary logs", rule, "Leave the others out.")
    return [run for run, _ in measured], samples[0] if samples else None


def load_database(path: Path) -> TransactionWorkload:
    """Loads the database in transactions in a workload file. Raises InputError for other
    workloads, which have no replica."""
    workload = load(path)
    if not isinstance(workload, TransactionWorkload):
        rule = "is not a database in transactions, so it has no replica"
        raise refuse.input(str(path), rule, "Calibrate one: headrace calibrate run.toml --to shop.toml.")
    return workload


def _subtract_counters(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Returns by how much each counter grew between two samples, without those that fell. Raises
    InputError if the server was restarted between them; `name` is that of the description."""
    if before and after[UPTIME] < before[UPTIME]:
        rule = "was restarted between the two: status_after has the smaller Uptime"
        raise refuse.input(f"{name}: the server", rule, "Are the files exchanged?")
    return {key: after[key] - before[key] for key in before if key in after and after[key] >= before[key]}
