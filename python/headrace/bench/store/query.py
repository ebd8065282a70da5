"""SQL over the run store by DuckDB, on its files: tables `runs`, `series`, `percentiles`.

runs         a row a run: what was run on what, and every figure of the summary
series       the time lines of all runs, with a column `run`
percentiles  the latency histograms, with a column `run`
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from headrace.base.checks import check_choice
from headrace.base.extras import import_optional
from headrace.base.files import hold_draft
from headrace.base.packaged import read_rows
from headrace.bench.store.store import PERCENTILES_FILE, RUN_FILE, SERIES_FILE, RunRecord, Store
from headrace.bench.target import refuse
from headrace.errors import CouldNotRun, InputError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FORMATS = {
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
    ".csv": "FORMAT csv, HEADER",
    ".json": "FORMAT json, ARRAY true",
}
TABLES = ("runs", "series", "percentiles")
# Columns of `runs` before the figures: name, path in run.json, type.
COLUMNS = [(row["name"], row["path"], row["type"]) for row in read_rows("headrace.bench.store", "columns.csv")]


def connect(store: Store, runs: Sequence[RunRecord] | None = None):
    """Returns a DuckDB connection in memory with the three tables of these runs (None: all whole
    ones). It can read the store and nothing else."""
    with import_optional():
        import duckdb

    records = store.list_runs() if runs is None else list(runs)
    offline: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    connection = duckdb.connect(":memory:", config=offline)
    connection.execute(_build_runs_view(records))
    for table, file in (("series", SERIES_FILE), ("percentiles", PERCENTILES_FILE)):
        connection.execute(f"CREATE VIEW {table} AS {_build_parquet_query(records, file)}")
    connection.execute(f"SET allowed_directories = [{_quote_text(store.folder)}]")
    return connection


def lock(connection: DuckDBPyConnection) -> None:
    """Forbids statements of the connection to open files outside the allowed folders, or to change
    its settings."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _build_runs_view(records: Sequence[RunRecord]) -> str:
    """Returns the statement that makes the view `runs`: a row a run, with a column for each figure
    of any summary."""
    figures = sorted({name for record in records for name in record.summary} - {name for name, _, _ in COLUMNS})
    columns = [f"CAST(json_extract_string(document, '{path}') AS {kind}) AS {name}" for name, path, kind in COLUMNS]
    columns += [
        f"CAST(json_extract_string(document, {_quote_text('$.summary.' + json.dumps(name))}) AS DOUBLE) AS {_quote_name(name)}"
        for name in figures
    ]
    columns.append("CAST(json_extract_string(document, '$.findings') AS VARCHAR) AS findings")
    if not records:
        return f"CREATE VIEW runs AS SELECT {', '.join(columns)} FROM (SELECT NULL::JSON AS document) WHERE false"
    paths = ", ".join(_quote_text(record.folder / RUN_FILE) for record in records)
    return f"CREATE VIEW runs AS SELECT {', '.join(columns)} FROM (SELECT content::JSON AS document FROM read_text([{paths}]))"


def _build_parquet_query(records: Sequence[RunRecord], file: str) -> str:
    """Returns a query over one file of every run that has it, with the run's id as a column; of no
    rows without any."""
    paths = [record.folder / file for record in records if _is_whole(record.folder / file)]
    if not paths:
        return "SELECT NULL::VARCHAR AS run WHERE false"
    listed = ", ".join(_quote_text(path) for path in paths)
    run = "regexp_extract(filename, '([^/]+)/[^/]+$', 1) AS run"
    return f"SELECT {run}, * EXCLUDE (filename) FROM read_parquet([{listed}], union_by_name = true, filename = true)"


def _is_whole(path: Path) -> bool:
    """Returns whether a Parquet file begins and ends as one (its last four bytes are PAR1): one
    damaged run must not hide the others."""
    try:
        with open(path, "rb") as file:
            first = file.read(4)
            file.seek(-4, os.SEEK_END)
            return first == b"PAR1" == file.read(4)
    except OSError:
        return False


def _quote_text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _quote_name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def query(store: Store, sql: str, runs: Sequence[RunRecord] | None = None) -> pl.DataFrame:
    """Returns the answer of a SELECT over `runs`, `series` and `percentiles`. Raises InputError for
    SQL that is wrong or reaches beyond the store."""
    with import_optional():
        import duckdb

    with connect(store, runs) as connection:
        lock(connection)
        try:
            cursor = connection.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchall()
        except duckdb.Error as error:
            raise _make_sql_error(sql, error) from None
    return pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None) if names else pl.DataFrame()


def export(
    store: Store,
    path: str | os.PathLike,
    *,
    what: str = "runs",
    sql: str | None = None,
    runs: Sequence[RunRecord] | None = None,
) -> int:
    """Writes a table (runs, series, percentiles), or the answer of `sql`, to a .parquet, .csv or
    .json file, whole or not at all; returns the number of rows. Raises InputError, CouldNotRun."""
    with import_optional():
        import duckdb

    path = Path(path)
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise refuse.input(str(path), f"runs are exported as {', '.join(FORMATS)}", "The ending of the name decides.")
    check_choice("what", what, TABLES, refuse)
    if not path.parent.is_dir():
        raise InputError(str(path), "the folder does not exist", "", "Make it, or name another.")
    if path.exists() and not path.is_file():
        raise InputError(str(path), "is not a file", "", "Name a file.")
    with (
        hold_draft(path) as draft,
        connect(store, runs) as connection,
    ):
        connection.execute(f"SET allowed_directories = [{_quote_text(store.folder)}, {_quote_text(draft.parent)}]")
        lock(connection)
        try:
            connection.execute(
                f"CREATE TEMP TABLE answer AS {sql.rstrip().rstrip(';')}"
                if sql
                else f"CREATE TEMP TABLE answer AS FROM {what}"
            )
            (rows,) = connection.execute("SELECT COUNT(*) FROM answer").fetchall()[0]
            connection.execute(f"COPY answer TO {_quote_text(draft)} ({form})")
        except duckdb.IOException as error:
            raise CouldNotRun(
                str(path), f"cannot be written: {_get_first_line(error)}", "", "Is the disk full?"
            ) from None
        except duckdb.Error as error:
            raise _make_sql_error(sql or what, error) from None
    return rows


def _make_sql_error(sql: str, error: Exception) -> InputError:
    hint = "Tables: runs, series, percentiles; `headrace bench export --to runs.csv` shows their columns."
    return InputError(" ".join(sql.split())[:80], _get_first_line(error), "DuckDB SQL", hint)


def _get_first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__
