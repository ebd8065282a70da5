"""Samples as CSV files, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import CouldNotRun

if TYPE_CHECKING:
    import polars as pl


def write_csv(frame: pl.DataFrame, path: str | os.PathLike) -> None:
    """Whole numbers without a point, others with six decimals (microseconds in `time`); null is empty. Raises CouldNotRun."""
    import polars as pl

    path = Path(path)
    whole = [
        name
        for name, kind in frame.schema.items()
        if kind == pl.Float64 and name != "time" and frame[name].drop_nulls().is_between(-(2.0**63), 2.0**63 - 1024).all()
        and (frame[name].drop_nulls() == frame[name].drop_nulls().floor()).all()
    ]  # fmt: skip
    frame = frame.with_columns(pl.col(whole).cast(pl.Int64))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        frame.write_csv(temporary, float_precision=6, float_scientific=False)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CouldNotRun(str(path), f"cannot be written: {error.strerror or error}", "", "Choose another folder.") from None
