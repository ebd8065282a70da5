"""Workload files of databases: `model = "mysql"`, written by `headrace calibrate`, see
docs/reference/workload-file.md.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Annotated, Any, Literal

import msgspec

from headrace.base import core
from headrace.base.checks import check_choice, check_name, quote_value
from headrace.base.core import translate_core_errors
from headrace.base.documents import FINITE, DocumentTable, annotate_range, annotate_rule, convert, to_toml
from headrace.base.encoding import pick_fields
from headrace.workload.parameters import list_parameters
from headrace.workload.points import check_size
from headrace.workload.replica import ReplicaParameters
from headrace.workload.server import SourceServer
from headrace.workload.transactions import (
    LEAST_CACHE_GIB,
    MOST_CACHE_GIB,
    MOST_COUNT,
    Covered,
    TransactionWorkload,
    refuse,
)

# Covariances are written with all their digits; half of a millionth is rounding, more is
# an error.
ROUNDING = 1e-6
MOST_IOPS = 1e9  # ours, beyond any server of today

HEAD = ("format", "version", "model")  # keys of every workload file, checked before

# Values of keys that a database may lack: those that MyRocks has only if something is written, and
# those that older files do not have.
DEFAULTS = {
    "compaction": None,
    "commits_per_tx": None,
    "serial_share": 0.0,
    "core_speed": None,
    "threads_per_core": None,
    "handover_share": 0.0,
    "background_share": 0.0,
    "io_ms": 0.0,
    "redo_capacity_bytes": None,
    "dirtying": None,
    "revisit_tx": None,
    "undo_pages": 0.0,
    "cleaner": None,
    "checkpoint": None,
    "wait_share": 0.0,
    "last_orders": None,
    "local_disk": None,
    "local_disk_reads": None,
    "local_disk_read_ms": None,
    "hot_rows": msgspec.UNSET,
    "response": msgspec.UNSET,
    "burst_pages": msgspec.UNSET,
    "statements_p95": msgspec.UNSET,
    "wake_ms": msgspec.UNSET,
    "io_device_ms": msgspec.UNSET,
    "alone_faster": msgspec.UNSET,
}

# Tables of MyRocks alone, and why InnoDB's files have none.
OF_MYROCKS = {
    "compaction": "MyRocks has compaction, InnoDB has not",
    "last_orders": "the reads of the last orders are known for MyRocks only",
}

_Number = Annotated[float, FINITE]
_LeastAndMost = Annotated[list[_Number], annotate_rule("must be the least and the most", least=2, most=2)]
_Positive = Annotated[float, annotate_range(1e-9, 1e9, "tps")]
_Deviation = Annotated[float, msgspec.Meta(ge=0.0, le=1e300, extra={"rule": "must be a finite number, not negative"})]


class _Parameter(DocumentTable):
    """A parameter as a calibration identified it, and the runs that it came from."""

    name: str
    words: str
    value: _Number
    spread: _Deviation
    before: _Deviation
    origin: str = msgspec.field(name="from")


class _Run(msgspec.Struct):
    """Keys of a run that are checked; other keys are kept unchanged."""

    name: str
    storage: str
    cache_gib: _Positive
    threads: _Positive
    start: str
    seconds: _Number
    transactions: _Number
    instance: str | None = None
    as_of: str | None = None
    measured_tps: _Positive | None = None
    predicted_tps: _Deviation = 0.0
    noise: _Deviation = 0.0
    limit: str = ""
    cause: str = ""


class _Covered(DocumentTable):
    """Ranges that the runs cover, each the least and the most."""

    cache_gib: _LeastAndMost | None = None
    threads: _LeastAndMost | None = None
    iops: _LeastAndMost | None = None
    vcpus: _LeastAndMost | None = None
    transactions: _Number = 0.0


class _DatabaseFile(DocumentTable, kw_only=True):
    """The file after its head: format, version and model, which `files.parse` has read."""

    name: object
    engine: Literal["innodb", "myrocks"]
    benchmark: str = "own"
    cache_gib: Annotated[float, annotate_range(LEAST_CACHE_GIB, MOST_CACHE_GIB, "GiB")]
    threads: Annotated[int, annotate_range(1, MOST_COUNT)]
    size_gib: object = None
    instance: str | None = None
    storage: str | None = None
    log_storage: str | None = None
    start: Literal["cold", "warm"] | None = None
    as_of: object = None
    caveats: list[str] = []
    database: dict
    parameters: list[_Parameter] = []
    covariance: list[list[_Number]] = []
    covered: _Covered = msgspec.field(default_factory=_Covered)
    runs: list[dict] = []
    replica: object = None
    server: object = None


def write_workload(workload: TransactionWorkload, head: dict) -> str:
    """Returns the file's text; `head` holds format, version and model."""
    names = [name for name in _DatabaseFile.__struct_fields__ if name not in ("covered", "server", "replica")]
    document = head | pick_fields(workload, *names) | {"cache_gib": float(workload.cache_gib)}
    document["covered"] = pick_fields(workload.covered, *_Covered.__struct_fields__)
    document["server"] = workload.server.to_document() or None
    document["replica"] = workload.replica and workload.replica.to_document()
    return to_toml(document)


def from_document(document: dict) -> TransactionWorkload:
    """Reads the workload in a parsed file. Raises InputError."""
    rest = {key: value for key, value in document.items() if key not in HEAD}
    read = convert(rest, _DatabaseFile, source=refuse.source, where="a mysql workload")
    for index, run in enumerate(read.runs):
        convert(run, _Run, source=refuse.source, at=f"runs[{index}]")
        with translate_core_errors():
            core.parse_storage(run["storage"])
    name, database = check_name(read.name), _read_database(read.database, read.engine)
    _check_parameters(read, database)
    return TransactionWorkload(
        name=name,
        engine=read.engine,
        database=database,
        cache_gib=read.cache_gib,
        threads=read.threads,
        size_gib=check_size(read.size_gib),
        benchmark=read.benchmark,
        as_of=_read_day(read.as_of),
        parameters=tuple(msgspec.to_builtins(read.parameters)),
        covariance=_read_covariance(read.covariance, len(read.parameters)),
        covered=_read_covered(read.covered),
        runs=tuple(read.runs),
        caveats=tuple(read.caveats),
        replica=ReplicaParameters.from_document(read.replica),
        server=SourceServer.from_document(read.server),
        instance=read.instance,
        storage=read.storage,
        log_storage=read.log_storage,
        start=read.start,
    )


def _read_database(table: dict, engine: str) -> dict:
    """Returns the core's database from [database]. Raises InputError for missing or unknown keys
    and values of another type; the core checks the ranges."""
    if table.get("engine") != engine:
        raise refuse.input(f"database.engine = {quote_value(table.get('engine'))}", f"must be {engine}, as engine says")
    for name, rule in OF_MYROCKS.items():
        if engine == "innodb" and name in table:
            raise refuse.input(f"database.{name} = {quote_value(table[name])}", rule)
    shape = {"filling": [[0.0]], "full": [[0.0]], "response": [[0.0]], "burst_pages": 0.0, "statements_p95": 0.0}
    example = core.mysql_tpcc(engine, 1.0) | {"shape": shape}
    if engine == "innodb":
        example |= {
            "dirtying": {"changed": [0.0], "window_tx": 0.0, "flush_per_tx": 0.0, "revisit_tx": 0.0, "undo_pages": 0.0}
        }
        example |= {"cleaner": core.page_cleaner("mysql", "8.4")}
        example |= {"hot_rows": [{"rows": 0.0, "at_work": 0.0, "at_commit": 0.0}]}
        example |= {"checkpoint": {"ceiling_share": 0.0, "limit_share": 0.0, "wait_share": 0.0, "stop_s": 0.0}}
    return msgspec.to_builtins(convert(table, _infer_type(example, "database"), source=refuse.source, at="database"))


def _infer_type(value: object, name: str) -> Any:
    """Returns the type of an example value of the core: a struct with the keys of a table, some of
    them with DEFAULTS, a list of its first item's type, or a finite float."""
    if isinstance(value, dict):
        fields = [
            (key, _infer_type(item, key) | None | msgspec.UnsetType, DEFAULTS[key])
            if key in DEFAULTS
            else (key, _infer_type(item, key))
            for key, item in value.items()
        ]
        return msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True)
    if isinstance(value, (list, tuple)):
        return list[_infer_type(value[0], name)]
    return type(value) if isinstance(value, (bool, str)) else Annotated[float, FINITE]


def _check_parameters(read: _DatabaseFile, database: dict) -> None:
    """Raises InputError for a parameter that the database does not have, or that is named twice."""
    allowed = tuple(parameter.name for parameter in list_parameters(read.engine, database))
    names = [parameter.name for parameter in read.parameters]
    for index, name in enumerate(names):
        check_choice("parameters.name", name, allowed)
        if name in names[:index]:
            raise refuse.input(f"parameters.name = {name}", "stands there twice")


def _read_covariance(rows: list[list[float]], count: int) -> tuple[tuple[float, ...], ...]:
    """Returns the covariance of `count` parameters as tuples. Raises InputError if it is not
    square, symmetric and positive definite (within ROUNDING)."""
    if len(rows) != count or any(len(row) != count for row in rows):
        rule = f"must be square, one row for each of the {count} parameters"
        raise refuse.input(f"covariance of {len(rows)} rows", rule)
    cells = tuple(tuple(row) for row in rows)
    # Cholesky's factor of the correlations: it exists for a covariance only.
    factor = [[0.0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i + 1):
            scale = math.sqrt(max(cells[i][i], 0.0)) * math.sqrt(max(cells[j][j], 0.0))
            symmetric = abs(cells[i][j] - cells[j][i]) <= ROUNDING * scale
            correlation = cells[i][j] / scale if scale > 0 else math.inf if cells[i][j] else float(i == j)
            remainder = correlation - sum(factor[i][k] * factor[j][k] for k in range(j)) + ROUNDING * (i == j)
            if not symmetric or not math.isfinite(remainder) or (i == j and remainder <= 0):
                rule = "no covariance: it is symmetric, and no combination of parameters has a negative variance"
                raise refuse.input(f"covariance[{i}][{j}] = {cells[i][j]:g}", rule)
            factor[i][j] = math.sqrt(remainder) if i == j else remainder / factor[j][j]
    return cells


def _read_day(value: object) -> str | None:
    """Returns a day as YYYY-MM-DD, or None. Raises InputError for another text."""
    if value is None:
        return None
    try:
        return date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise refuse.input(f"as_of = {quote_value(value)}", "must be a date, YYYY-MM-DD") from None


def _read_covered(read: _Covered) -> Covered:
    """Returns the ranges that the runs cover. Raises InputError for a range that is upside down or
    beyond its limits."""

    def read_pair(key: str, least: float, most: float) -> tuple | None:
        """Returns the range of a key, None without one. Raises InputError if it is not within
        `least` and `most`."""
        bounds = getattr(read, key)
        if bounds is not None and not least <= bounds[0] <= bounds[1] <= most:
            rule = f"must be the least and the most, from {least:,.10g} to {most:,.10g}"
            raise refuse.input(f"covered.{key} = {quote_value(bounds)}", rule)
        return bounds and tuple(type(least)(figure) for figure in bounds)

    return Covered(
        read_pair("cache_gib", LEAST_CACHE_GIB, MOST_CACHE_GIB),
        read_pair("threads", 1, MOST_COUNT),
        read_pair("iops", 1e-3, MOST_IOPS),
        read.transactions,
        read_pair("vcpus", 1, MOST_COUNT),
    )
