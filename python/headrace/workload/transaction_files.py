"""Workload files of databases: `model = "mysql"`, written by `headrace calibrate`, see docs/reference/workload-file.md."""

from __future__ import annotations

import math
from typing import Any

import tomli_w

from headrace.errors import InputError
from headrace.workload.model import shown
from headrace.workload.transactions import DOC, Covered, TransactionWorkload

KEYS = ("format", "version", "model", "name", "engine", "benchmark", "cache_gib", "threads", "size_gib", "instance", "as_of", "caveats")
TABLES = ("database", "parameters", "covariance", "covered", "runs")
PARAMETER_KEYS = {"name": str, "words": str, "value": float, "spread": float, "before": float, "from": str}


def to_toml(workload: TransactionWorkload, head: dict) -> str:
    """The file's text; `head` holds format, version and model."""
    covered = workload.covered
    document: dict[str, Any] = head | {
        "name": workload.name,
        "engine": workload.engine,
        "benchmark": workload.benchmark,
        "cache_gib": workload.cache_gib,
        "threads": workload.threads,
        "size_gib": workload.size_gib,
        "instance": workload.instance,
        "as_of": workload.as_of,
        "caveats": list(workload.caveats),
        "covariance": [list(row) for row in workload.covariance],
        "covered": {
            "cache_gib": covered.cache_gib and list(covered.cache_gib),
            "threads": covered.threads and list(covered.threads),
            "iops": covered.iops and list(covered.iops),
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
    parameters = tuple(_parameter(item) for item in _list(document, "parameters"))
    covariance = tuple(tuple(_number("covariance", cell) for cell in row) for row in _list(document, "covariance"))
    if len(covariance) != len(parameters) or any(len(row) != len(parameters) for row in covariance):
        raise InputError(f"covariance of {len(covariance)} rows", f"must be square, one row for each of the {len(parameters)} parameters", DOC)
    return TransactionWorkload(
        name=str(document["name"]),
        engine=document["engine"],
        database=_database(document["database"]),
        cache_gib=document["cache_gib"],
        threads=document["threads"],
        size_gib=document.get("size_gib"),
        benchmark=str(document.get("benchmark", "own")),
        instance=document.get("instance"),
        as_of=None if document.get("as_of") is None else str(document["as_of"]),
        parameters=parameters,
        covariance=covariance,
        covered=_covered(document.get("covered", {})),
        runs=tuple(_list(document, "runs")),
        caveats=tuple(document.get("caveats", ())),
    )


def _database(table: Any) -> dict:
    if not isinstance(table, dict):
        raise InputError(f"database = {shown(table)}", "must be a table", DOC)
    database = {"compaction": None, **table}

    def numbers(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: numbers(item, f"{key}.{name}") for name, item in value.items()}
        if isinstance(value, list):
            return [numbers(item, key) for item in value]
        if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{key} = {value}", "must be a finite number", DOC)
        return value

    return numbers(database, "database")


def _parameter(item: Any) -> dict:
    if not isinstance(item, dict) or set(item) != set(PARAMETER_KEYS):
        raise InputError(f"parameters: {shown(item)}", f"each has {', '.join(PARAMETER_KEYS)}", DOC)
    return {key: _number(f"parameters.{key}", item[key]) if kind is float else str(item[key]) for key, kind in PARAMETER_KEYS.items()}


def _covered(table: Any) -> Covered:
    if not isinstance(table, dict):
        raise InputError(f"covered = {shown(table)}", "must be a table", DOC)

    def pair(key: str) -> tuple | None:
        value = table.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 2:
            raise InputError(f"covered.{key} = {shown(value)}", "must be the least and the most", DOC)
        return tuple(_number(f"covered.{key}", item) for item in value)

    threads = pair("threads")
    return Covered(pair("cache_gib"), threads and (int(threads[0]), int(threads[1])), pair("iops"), _number("covered.transactions", table.get("transactions", 0.0)))


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
