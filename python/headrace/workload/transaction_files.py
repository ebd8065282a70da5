"""Workload files of databases: `model = "mysql"`, written by `headrace calibrate`, see docs/reference/workload-file.md."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import tomli_w

from headrace.base import core
from headrace.base.checks import check_choice, check_name, check_number, check_whole, shown
from headrace.errors import InputError
from headrace.workload.parameters import of_engine
from headrace.workload.points import check_size
from headrace.workload.transactions import DOC, ENGINES, Covered, TransactionWorkload

KEYS = ("format", "version", "model", "name", "engine", "benchmark", "cache_gib", "threads", "size_gib", "instance", "storage", "log_storage", "start", "as_of",
        "caveats")  # fmt: skip
TABLES = ("database", "parameters", "covariance", "covered", "runs")
COVERED_KEYS = ("cache_gib", "threads", "iops", "vcpus", "transactions")
# What every report says of a run.
RUN_KEYS = {"name": str, "storage": str, "threads": float, "start": str, "seconds": float, "transactions": float}
# Covariances are written with all their digits; half of a millionth is rounding, more is no covariance.
ROUNDED = 1e-6
PARAMETER_KEYS = {"name": str, "words": str, "value": float, "spread": float, "before": float, "from": str}


def to_toml(workload: TransactionWorkload, head: dict) -> str:
    """The file's text; `head` holds format, version and model."""
    covered = workload.covered
    document: dict[str, Any] = head | {
        "name": workload.name,
        "engine": workload.engine,
        "benchmark": workload.benchmark,
        "cache_gib": float(workload.cache_gib),
        "threads": workload.threads,
        "size_gib": workload.size_gib,
        "instance": workload.instance,
        "storage": workload.storage,
        "log_storage": workload.log_storage,
        "start": workload.start,
        "as_of": workload.as_of,
        "caveats": list(workload.caveats),
        "covariance": [list(row) for row in workload.covariance],
        "covered": {
            "cache_gib": covered.cache_gib and list(covered.cache_gib),
            "threads": covered.threads and list(covered.threads),
            "iops": covered.iops and list(covered.iops),
            "vcpus": covered.vcpus and list(covered.vcpus),
            "transactions": covered.transactions,
        },
        "database": workload.database,
        "parameters": list(workload.parameters),
        "runs": list(workload.runs),
    }
    return tomli_w.dumps(_without_none(document))


def from_document(document: dict) -> TransactionWorkload:
    """The workload in a parsed file. Raises InputError."""
    for key in document:
        if key not in KEYS + TABLES:
            raise InputError(f"{key} = {shown(document[key])}", f"is not a key of a mysql workload: {', '.join(KEYS[3:] + TABLES)}", DOC)
    for key in ("name", "engine", "cache_gib", "threads", "database"):
        if key not in document:
            raise InputError(f"{key} is missing", "a mysql workload needs it", DOC, "`headrace calibrate` writes the whole file.")
    engine = check_choice("engine", document["engine"], ENGINES)
    parameters = _parameters(document, engine)
    runs = tuple(_run(item) for item in _list(document, "runs"))
    where = _measured_on(document, runs)
    return TransactionWorkload(
        name=check_name(document["name"]),
        engine=engine,
        database=_database(document["database"], engine),
        cache_gib=check_number("cache_gib", document["cache_gib"], 1e-3, 65_536.0, "GiB"),
        threads=check_whole("threads", document["threads"], 1, 65_536),
        size_gib=check_size(document.get("size_gib")),
        benchmark=_text("benchmark", document.get("benchmark", "own")),
        instance=where["instance"],
        storage=where["storage"],
        log_storage=where["log_storage"],
        start=None if where["start"] is None else check_choice("start", where["start"], ("cold", "warm")),
        as_of=_day(document.get("as_of")),
        parameters=parameters,
        covariance=_covariance(document, len(parameters)),
        covered=_covered(document.get("covered", {}), where["instance"], document.get("as_of")),
        runs=runs,
        caveats=tuple(_text("caveats", item) for item in _list(document, "caveats")),
    )


def _measured_on(document: dict, runs: tuple[dict, ...]) -> dict[str, str | None]:
    """Where and how it was measured, as the file says; of one from before it was kept, by its longest run."""
    longest = max(runs, key=lambda run: float(run["transactions"]), default={})
    found = {name: document.get(name, longest.get(name)) for name in ("instance", "storage", "log_storage", "start")}
    return {name: None if value is None else _text(name, value) for name, value in found.items()}


def _vcpus_of(instance: str | None, as_of: Any) -> tuple[int, int] | None:
    """Virtual CPUs of a file from before they were kept: its instance's, None where the catalog does not know it."""
    if instance is None:
        return None
    try:
        count = core.instance(instance, _day(as_of))["vcpus"]
    except core.CoreError:
        return None
    return (count, count) if count else None


def _database(table: Any, engine: str) -> dict:
    """The core's table; its ranges are the core's to check, here only that everything is there and of its kind."""
    like = core.mysql_tpcc(engine, 1.0) | {"shape": {"filling": [[0.0]], "full": [[0.0]]}}
    if not isinstance(table, dict):
        raise InputError(f"database = {shown(table)}", "must be a table", DOC)
    if table.get("engine") != engine:
        raise InputError(f"database.engine = {shown(table.get('engine'))}", f"must be {engine}, as engine says", DOC)
    given = dict(table)
    given.setdefault("compaction", None)
    if isinstance(given.get("log"), dict):  # files from before it was kept
        given["log"] = given["log"] | {"commits_per_tx": given["log"].get("commits_per_tx")}
    return _like(given, like, "database")


def _like(value: Any, like: Any, key: str) -> Any:
    """`value`, if it has the keys and kinds of `like`; whole numbers as floats."""
    if value is None:  # compaction: left out in InnoDB, and in MyRocks where nothing is written
        return None
    if like is None:
        raise InputError(f"{key} = {shown(value)}", "MyRocks has compaction, InnoDB has not", DOC)
    if isinstance(like, dict):
        if not isinstance(value, dict):
            raise InputError(f"{key} = {shown(value)}", "must be a table", DOC)
        for name in [*value, *like]:
            if name not in like or name not in value:
                raise InputError(
                    f"{key}.{shown(name)[1:-1]}", f"{'is missing' if name in like else 'is not known'}: {key} has {', '.join(like)}", DOC
                )
        return {name: _like(item, like[name], f"{key}.{name}") for name, item in value.items()}
    if isinstance(like, list):
        if not isinstance(value, list):
            raise InputError(f"{key} = {shown(value)}", "must be a list", DOC)
        return [_like(item, like[0], key) for item in value]
    if isinstance(like, (bool, str)):
        if type(value) is not type(like):
            raise InputError(f"{key} = {shown(value)}", "must be true or false" if isinstance(like, bool) else "must be a text", DOC)
        return value
    return _number(key, value)


def _parameters(document: dict, engine: str) -> tuple[dict, ...]:
    known = [parameter.name for parameter in of_engine(engine)]
    parameters = tuple(_item("parameters", item, PARAMETER_KEYS) for item in _list(document, "parameters"))
    if any(len(item) != len(PARAMETER_KEYS) for item in document.get("parameters", [])):
        raise InputError("parameters", f"each has {', '.join(PARAMETER_KEYS)}, and nothing else", DOC)
    for index, parameter in enumerate(parameters):
        check_choice("parameters.name", parameter["name"], tuple(known))
        if parameter["name"] in [other["name"] for other in parameters[:index]]:
            raise InputError(f"parameters.name = {parameter['name']}", "stands there twice", DOC)
        if parameter["spread"] < 0 or parameter["before"] < 0:
            raise InputError(f"parameters.spread = {parameter['spread']:g}", "a standard deviation is not negative", DOC)
    return parameters


def _covariance(document: dict, count: int) -> tuple[tuple[float, ...], ...]:
    rows = _list(document, "covariance")
    if len(rows) != count or any(not isinstance(row, list) or len(row) != count for row in rows):
        raise InputError(f"covariance of {len(rows)} rows", f"must be square, one row for each of the {count} parameters", DOC)
    cells = tuple(tuple(_number("covariance", cell) for cell in row) for row in rows)
    # Cholesky's factor of the correlations: it exists for a covariance only.
    factor = [[0.0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i + 1):
            scale = math.sqrt(max(cells[i][i], 0.0)) * math.sqrt(max(cells[j][j], 0.0))
            symmetric = abs(cells[i][j] - cells[j][i]) <= ROUNDED * scale
            given = cells[i][j] / scale if scale > 0 else math.inf if cells[i][j] else float(i == j)
            left = given - sum(factor[i][k] * factor[j][k] for k in range(j)) + ROUNDED * (i == j)
            if not symmetric or not math.isfinite(left) or (i == j and left <= 0):
                raise InputError(
                    f"covariance[{i}][{j}] = {cells[i][j]:g}",
                    "no covariance: it is symmetric, and no combination of parameters has a negative variance",
                    DOC,
                )
            factor[i][j] = math.sqrt(left) if i == j else left / factor[j][j]
    return cells


def _item(what: str, item: Any, keys: dict[str, type]) -> dict:
    if not isinstance(item, dict) or not set(keys) <= set(item):
        raise InputError(f"{what}: {shown(item)}", f"each has {', '.join(keys)}", DOC)
    return {key: _number(f"{what}.{key}", item[key]) if kind is float else _text(f"{what}.{key}", item[key]) for key, kind in keys.items()}


def _run(item: Any) -> dict:
    _item("runs", item, RUN_KEYS)
    return item


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{key} = {shown(value)}", "must be a text", DOC)
    return value


def _day(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise InputError(f"as_of = {shown(value)}", "must be a date, YYYY-MM-DD", DOC) from None


def _covered(table: Any, instance: str | None, as_of: Any) -> Covered:
    if not isinstance(table, dict):
        raise InputError(f"covered = {shown(table)}", "must be a table", DOC)
    for key in table:
        check_choice("covered", key, COVERED_KEYS)

    def pair(key: str, least: float, most: float) -> tuple | None:
        value = table.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 2:
            raise InputError(f"covered.{key} = {shown(value)}", "must be the least and the most", DOC)
        low, high = (_number(f"covered.{key}", item) for item in value)
        if not least <= low <= high <= most:
            raise InputError(f"covered.{key} = {shown(value)}", f"must be the least and the most, from {least:g} to {most:g}", DOC)
        return low, high

    threads, vcpus = pair("threads", 1, 65_536), pair("vcpus", 1, 65_536)
    return Covered(
        pair("cache_gib", 1e-3, 65_536.0),
        threads and (int(threads[0]), int(threads[1])),
        pair("iops", 1e-3, 1e9),
        _number("covered.transactions", table.get("transactions", 0.0)),
        (int(vcpus[0]), int(vcpus[1])) if vcpus else _vcpus_of(instance, as_of) if table.get("cache_gib") else None,
    )


def _list(document: dict, key: str) -> list:
    value = document.get(key, [])
    if not isinstance(value, list):
        raise InputError(f"{key} = {shown(value)}", "must be a list", DOC)
    return value


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InputError(f"{key} = {shown(value)}", "must be a finite number", DOC)
    return float(value)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(item) for item in value]
    return value
