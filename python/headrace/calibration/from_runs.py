"""Makes a workload from measured runs, as `headrace calibrate` does, or of a standard benchmark
without a run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from headrace.base.checks import check_choice, check_name
from headrace.base.core import translate_core_errors
from headrace.base.encoding import pick_fields
from headrace.base.units import GIB
from headrace.calibration.runs import Run, load_run
from headrace.errors import InputError, Refusals
from headrace.workload.parameters import estimate_pages_spread, get_value, list_parameters
from headrace.workload.points import check_size
from headrace.workload.replica import ReplicaParameters
from headrace.workload.server import SourceServer
from headrace.workload.transactions import Covered, TransactionWorkload


def calibrate(
    runs: Sequence[Run | str | os.PathLike],
    *,
    name: str | None = None,
    progress: Callable[[float], None] = lambda done: None,
    least_seconds: float | None = None,
) -> TransactionWorkload:
    """Makes one workload from measured runs (paths of RUN.toml, or runs of `load_run`), with the
    cache, clients and storage of the one with most transactions. A run shorter than `least_seconds`
    (None: 120 s) is refused. Raises InputError or CouldNotRun.
    """
    from headrace.calibration.calibrate import calibrate as fit_runs
    from headrace.calibration.calibrate import tabulate_parameters

    if name is not None:
        check_name(name)
    loaded = [run if isinstance(run, Run) else load_run(run) for run in runs]
    check_distinct(loaded)
    with translate_core_errors():
        calibrated = fit_runs(loaded, progress) if least_seconds is None else fit_runs(loaded, progress, least_seconds)
    longest = max(loaded, key=lambda run: run.transactions)
    iops, vcpus = [run.caps.iops for run in loaded], [run.vcpus for run in loaded]
    return TransactionWorkload(
        name=name or longest.name,
        engine=calibrated.engine,
        database=calibrated.database,
        cache_gib=longest.cache_gib,
        threads=longest.threads,
        size_gib=longest.benchmark.data_gib,
        benchmark=longest.benchmark.name,
        instance=longest.instance,
        as_of=longest.as_of.isoformat(),
        parameters=tuple(tabulate_parameters(calibrated)),
        covariance=tuple(tuple(float(cell) for cell in row) for row in calibrated.fit.covariance),
        covered=Covered(
            _find_range([run.cache_gib for run in loaded]),
            _find_range([run.threads for run in loaded]),
            # A disk without a figure in the catalog covers no range of IOPS.
            _find_range(iops) if all(map(math.isfinite, iops)) else None,
            max(run.transactions for run in loaded),
            None if None in vcpus else _find_range(vcpus),
        ),
        runs=tuple(
            _describe_run(run) | (misfit.to_document() if misfit else {})
            for run, misfit in zip(loaded, calibrated.misfits, strict=True)
        ),
        caveats=calibrated.notes,
        storage=longest.storage,
        log_storage=longest.log_storage,
        start=longest.start,
        server=find_server(loaded),
    )


def find_server(runs: Sequence[Run]) -> SourceServer:
    """Returns the server of the run with most transactions, with the busy share of the processors
    in the run in which it was highest."""
    longest = max(runs, key=lambda run: run.transactions)
    shares = [(share, run) for run in runs if (share := run.busy_share) is not None]
    share, busiest = max(shares, key=lambda pair: pair[0], default=(None, None))
    log_bin = longest.settings.get("binlog")
    return SourceServer(
        flavor=longest.flavor,
        version=longest.engine_version,
        log_bin=None if log_bin is None else bool(log_bin),
        vcpus=longest.vcpus,
        # Four digits are enough: it only decides whether the processors were full.
        busy_share=None if share is None else round(min(share, 1.0), 4),
        busy_s=None if busiest is None else busiest.span_s,
    )


def check_distinct(runs: Sequence[Run]) -> None:
    """Raises InputError if two runs have the same benchmark file: a run would count twice, and be
    scored on itself."""
    for index, run in enumerate(runs):
        for other in runs[:index]:
            if identify_measurement(run) == identify_measurement(other):
                rule = "are the same benchmark file: a run counts once"
                raise InputError(f"{run.name} and {other.name}", rule, "headrace calibrate --help", "Name it once.")


def identify_measurement(run: Run) -> str:
    """Returns the SHA-256 of the file with the run's transactions: the benchmark's, else the
    server's."""
    return (run.files.get("sysbench") or run.files["status"])[1]


def sysbench_tpcc(
    *, warehouses: float, engine: str = "innodb", cache_gib: float, threads: int, size_gib: float | None = None
) -> TransactionWorkload:
    """Returns the workload of sysbench-tpcc without a run; `warehouses` is tables x scale. Without
    `size_gib` the data take 94 MB a warehouse in InnoDB, 20 MB in MyRocks (LZ4). Raises
    InputError."""
    from headrace.calibration.prior import TPCC_BYTES, build_tpcc

    check_choice("engine", engine, TPCC_BYTES, Refusals("headrace.sysbench_tpcc"))
    size = check_size(size_gib) or warehouses * TPCC_BYTES[engine] / GIB
    return _build_standard(
        f"sysbench-tpcc, {warehouses:g} warehouses",
        engine,
        build_tpcc(engine, warehouses),
        cache_gib,
        threads,
        size,
        "sysbench-tpcc",
    )


def hammerdb_tprocc(
    *,
    warehouses: float,
    cache_gib: float,
    threads: int,
    size_gib: float | None = None,
    redo_gib: float | None = None,
    flush_log_at_trx_commit: int = 1,
    sync_binlog: int = 1,
    log_bin: bool = True,
    doublewrite: bool = True,
    flavor: str = "mysql",
    client_host: str = "same",
) -> TransactionWorkload:
    """Returns the workload of HammerDB's TPROC-C (InnoDB, all warehouses alike) without a run.
    Without `size_gib` the data take 100 MB a warehouse; without `redo_gib` the redo log has
    100 MiB. `flavor` is mysql or mariadb, `client_host` same, network or region. Raises
    InputError."""
    from headrace.calibration.prior import TPROCC_BYTES, build_tprocc

    options = {
        "warehouses": float(warehouses),
        "cache_gib": cache_gib,
        "redo_gib": redo_gib,
        "flush_log_at_trx_commit": flush_log_at_trx_commit,
        "sync_binlog": sync_binlog,
        "log_bin": log_bin,
        "doublewrite": doublewrite,
        "flavor": flavor,
        "client_host": client_host,
    }
    standard = build_tprocc(options)
    size = check_size(size_gib) or warehouses * TPROCC_BYTES / GIB
    name = f"hammerdb-tprocc, {warehouses:g} warehouses"
    workload = _build_standard(name, "innodb", dict(standard["database"]), cache_gib, threads, size, "hammerdb-tprocc")
    return replace(workload, replica=ReplicaParameters(written=tuple(standard["changed"])))


def sysbench_oltp(*, cache_gib: float, threads: int, **options: object) -> TransactionWorkload:
    """Returns the workload of a sysbench OLTP script without a run.

    `options`: `script` (oltp_read_write, ...), `tables`, `table_size`, `distribution` ({"type":
    "special"}, ...), `engine`, and those of the server: docs/reference/workload-file.md, Standard
    benchmarks. Raises InputError.
    """
    from headrace.calibration.prior import build_oltp

    standard = build_oltp({"threads": threads, "cache_gib": cache_gib} | options)
    database = dict(standard["database"])
    name = f"sysbench {options.get('script', 'oltp_read_write')}, {options.get('tables', 1)} x {options.get('table_size', 10_000):,} rows"
    workload = _build_standard(
        name, str(database["engine"]), database, cache_gib, threads, standard["size_gib"], "sysbench-oltp"
    )
    return replace(workload, replica=ReplicaParameters(written=tuple(standard["changed"])))


def build_standard(run: Run) -> TransactionWorkload:
    """Returns the workload of the standard benchmark that a run names, under the run's settings and
    with none of its measurements, to predict the run before it is measured. Raises InputError."""
    from headrace.calibration.prior import build_prior, find_own_spreads

    database = build_prior(run)
    spreads = find_own_spreads(run, database)
    size, benchmark = run.benchmark.data_gib, run.benchmark.name
    if pages := estimate_pages_spread(run.engine, database, benchmark, run.cache_gib * GIB):
        spreads["pages_touched"] = pages
    return _build_standard(run.name, run.engine, database, run.cache_gib, run.threads, size, benchmark, spreads=spreads)


def _build_standard(
    name: str,
    engine: str,
    database: dict,
    cache_gib: float,
    threads: int,
    size_gib: float | None,
    benchmark: str,
    *,
    spreads: Mapping[str, float] = MappingProxyType({}),
) -> TransactionWorkload:
    """Returns the workload of a standard database. The spreads of its parameters are those before
    any run, or those of `spreads` if it has them."""
    rows = [
        {
            "name": parameter.name,
            "words": parameter.words,
            "value": get_value(database, parameter),
            "spread": spreads.get(parameter.name, parameter.spread),
            "before": spreads.get(parameter.name, parameter.spread),
            "from": "prior; no run",
        }
        for parameter in list_parameters(engine, database, benchmark)
    ]
    covariance = tuple(
        tuple(row["spread"] ** 2 if i == j else 0.0 for j in range(len(rows))) for i, row in enumerate(rows)
    )
    return TransactionWorkload(
        name, engine, database, cache_gib, threads, size_gib, benchmark, parameters=tuple(rows), covariance=covariance
    )


def _find_range(values: list) -> tuple:
    """Returns the lowest and the highest value."""
    return (min(values), max(values))


def _describe_run(run: Run) -> dict:
    """Returns the row of a run in a workload file."""
    row = pick_fields(
        run, "name", "storage", "log_storage", "instance", "cache_gib", "threads", "start", "transactions"
    )
    files = {key: f"{name}, sha256 {digest}" for key, (name, digest) in run.files.items()}
    return row | {"as_of": run.as_of.isoformat(), "seconds": run.span_s, "files": files}


# The database of the demonstration: all rows are accessed alike and the buffer pool holds a quarter
# of them, so that the storage limits the rate, as on a server with too little memory.
DEMO_TABLES, DEMO_ROWS, DEMO_CACHE_GIB, DEMO_THREADS = 64, 5_000_000, 18.0, 16


def build_demo_database() -> TransactionWorkload:
    """Returns the database of `headrace demo`: sysbench over 72 GiB of InnoDB, 16 clients."""
    return sysbench_oltp(
        cache_gib=DEMO_CACHE_GIB,
        threads=DEMO_THREADS,
        tables=DEMO_TABLES,
        table_size=DEMO_ROWS,
        distribution={"type": "uniform"},
    )
