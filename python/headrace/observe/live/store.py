"""Samples that grow: columns of floats in memory, parts on disk when they are long; and samples as
CSV files.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from array import array
from pathlib import Path

import polars as pl

from headrace.base.files import drafted, explain_unwritable

# 600 columns for half an hour of seconds: 9 MB.
PART_ROWS = 1_800


class SampleStore:
    """One series of samples.

    A column that appears later, or fails to, is null where it was not there. Not for several
    threads.
    """

    def __init__(self, name: str, folder: Spill) -> None:
        self.name, self._folder = name, folder
        self._columns: dict[str, array] = {}
        self._rows, self._parts = 0, []

    def add(self, row: dict[str, float]) -> None:
        """Adds a sample."""
        for name, value in row.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = array("d", [math.nan]) * self._rows
            column.append(value)
        self._rows += 1
        if len(row) < len(self._columns):
            for column in self._columns.values():
                if len(column) < self._rows:
                    column.append(math.nan)
        if self._rows >= PART_ROWS:
            self._spill()

    def _spill(self) -> None:
        path = self._folder.path() / f"{self.name}-{len(self._parts):06}.parquet"
        self._frame().write_parquet(path, compression="zstd")
        self._parts.append(path)
        self._columns, self._rows = {}, 0

    def _frame(self) -> pl.DataFrame:
        return pl.DataFrame({name: pl.Series(name, column, dtype=pl.Float64) for name, column in self._columns.items()})

    def frame(self) -> pl.DataFrame:
        """Returns all samples in order, with null for NaN."""
        parts = [pl.read_parquet(path) for path in self._parts] + ([self._frame()] if self._rows else [])
        if not parts:
            return pl.DataFrame(schema={"t_unix": pl.Float64})
        return pl.concat(parts, how="diagonal").fill_nan(None)


class Spill:
    """A folder for parts, made when the first one is written."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def path(self) -> Path:
        """Returns the folder. Raises OSError when none can be made."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="headrace-samples-"))
        return self._path

    def remove(self) -> None:
        """Takes it away with all parts."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def write_csv(frame: pl.DataFrame, path: str | os.PathLike) -> None:
    """Writes whole numbers without a point, others with six decimals (microseconds in `time`), and
    null as nothing. Raises CouldNotRun."""
    path = Path(path)
    whole = [
        name
        for name, kind in frame.schema.items()
        if kind == pl.Float64
        and name != "time"
        and frame[name].drop_nulls().is_between(-(2.0**63), 2.0**63 - 1024).all()
        and (frame[name].drop_nulls() == frame[name].drop_nulls().floor()).all()
    ]
    frame = frame.with_columns(pl.col(whole).cast(pl.Int64))
    with explain_unwritable(path, "Choose another folder."), drafted(path) as draft:
        frame.write_csv(draft, float_precision=6, float_scientific=False)
