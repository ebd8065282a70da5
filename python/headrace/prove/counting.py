"""A run's I/Os as the lab's volumes counted them, for its calibration.

`/proc/diskstats` counts a flush among the writes where it is empty, and not where a filesystem's journal rides on it: beside the lab's own count it was 1 % off under InnoDB, and 80 % too low in
writes under MyRocks (MariaDB 10.11 on xfs, Linux 6.18, 2026-11-21). The volumes themselves know.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import polars as pl
import tomli_w

from headrace.base.files import write_whole
from headrace.bench import RunRecord
from headrace.errors import CouldNotRun
from headrace.prove.configuration import DOC

DESCRIPTION, COUNTERS = "LAB.toml", "lab.csv"
COLUMNS = ("reads", "read_bytes", "writes", "write_bytes")


def described(record: RunRecord) -> Path:
    """Beside RUN.toml, a description of the same run whose disk figures are the lab's. Raises CouldNotRun where it has none."""
    if record.run_toml is None:
        raise CouldNotRun(record.id, "has no RUN.toml to calibrate from", DOC, "; ".join(record.findings))
    frames = [_counters(path) for path in sorted(record.folder.glob("lab-*.parquet"))]
    if not frames:
        raise CouldNotRun(record.id, "has no figures of the lab's volumes", DOC, "Was the lab ended during the run?")
    # Volumes are asked one after the other: what one has a second more of is left out.
    first, last = max(frame["time"][0] for frame in frames), min(frame["time"][-1] for frame in frames)
    together = pl.concat([frame.filter(pl.col("time").is_between(first, last)) for frame in frames]).sort("time", "device")
    write_whole(record.folder / COUNTERS, together.write_csv().encode())
    document = tomllib.loads(record.run_toml.read_text())
    document["files"] = {key: name for key, name in document["files"].items() if key != "device"} | {"disk": COUNTERS}
    path = record.folder / DESCRIPTION
    write_whole(path, tomli_w.dumps(document).encode())
    return path


def _counters(path: Path) -> pl.DataFrame:
    """Sums since the first second of a volume; a row is stamped with the end of its second."""
    rows = pl.read_parquet(path)
    return rows.select(
        (pl.col("t_s") + 1.0).cast(pl.Float64).alias("time"), pl.lit(path.stem.removeprefix("lab-")).alias("device"),
        *(pl.col(name).cum_sum() for name in COLUMNS),
    )  # fmt: skip
