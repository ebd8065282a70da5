"""The points of a fleet in one Parquet file: a row per volume and period, volume by volume.

    volume, t_unix, period_s                              which volume, from when (seconds), how long (s)
    read_ops, write_ops, read_bytes, write_bytes          sums of the period, of what was delivered
    queue, balance_percent                                averages
    iops_exceeded, throughput_exceeded                    0 or 1
    account                                               of a metric stream, else ""

Points that were not published are NaN. Rows of a volume lie together, so that a fleet larger than
the memory is read part by part.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from headrace.base.files import explain_unwritable, move_over, refuse_folder
from headrace.errors import InputError

DOC = "docs/guide/fleet.md"
SUMS = ("read_ops", "write_ops", "read_bytes", "write_bytes")
STATES = ("queue", "balance_percent", "iops_exceeded", "throughput_exceeded")
SCHEMA = pl.Schema(
    {"volume": pl.String(), "t_unix": pl.Float64(), "period_s": pl.Float64()}
    | dict.fromkeys(SUMS + STATES, pl.Float64())
    | {"account": pl.String()}
)
COLUMNS = tuple(SCHEMA)
# CloudWatch's names, and the statistic that says it.
METRICS = {
    "VolumeReadOps": ("read_ops", "Sum"),
    "VolumeWriteOps": ("write_ops", "Sum"),
    "VolumeReadBytes": ("read_bytes", "Sum"),
    "VolumeWriteBytes": ("write_bytes", "Sum"),
    "VolumeQueueLength": ("queue", "Average"),
    "BurstBalance": ("balance_percent", "Average"),
    "VolumeIOPSExceededCheck": ("iops_exceeded", "Maximum"),
    "VolumeThroughputExceededCheck": ("throughput_exceeded", "Maximum"),
}
# Volumes read at once: 14 days of five minutes are 31 KiB a volume and column in memory.
VOLUMES_AT_ONCE = 125
# Some 8 volumes of a fortnight at five minutes: volumes of an instance, which are answered
# together, lie anywhere in the file, and a group is read whole.
ROWS_OF_A_GROUP = 32_768
# Rows whose volume is read at once to find where each begins: 16 bytes each in memory.
ROWS_AT_ONCE = 64 * ROWS_OF_A_GROUP


def volumes_of(path: Path) -> dict[str, tuple[int, int]]:
    """Returns the first row and the number of rows of each volume, in the order of the file. Raises
    InputError for a file that is not one of points, or whose rows of a volume lie apart."""
    places: dict[str, tuple[int, int]] = {}
    last = None
    for volume, first, rows in _runs(path):
        if volume == last:  # it goes on in the next slice
            first, rows = places[volume][0], places[volume][1] + rows
        elif volume in places:
            raise InputError(str(path), "has the rows of a volume in several places", DOC, "Import it again.")
        places[volume], last = (first, rows), volume
    return places


def _runs(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yields rows of one volume after another: the volume, the first of them, how many. A volume
    that lies across two slices comes twice in a row."""
    column = _scan(path).select("volume")
    height = column.select(pl.len()).collect().item()
    for begin in range(0, height, ROWS_AT_ONCE):
        runs = column.slice(begin, ROWS_AT_ONCE).collect()["volume"].rle().struct.unnest()
        starts = begin + runs["len"].cum_sum() - runs["len"]
        yield from zip(runs["value"].to_list(), starts.to_list(), runs["len"].to_list(), strict=True)


def read_points(path: Path, places: dict[str, tuple[int, int]], volumes: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Reads the rows of these volumes, as far as the file has them. Reads no more than the groups
    of rows that they lie in."""
    present = sorted((name for name in volumes if name in places), key=lambda name: places[name])
    spans: list[list[str]] = []  # volumes that lie next to each other
    for name in present:
        if spans and places[name][0] == sum(places[spans[-1][-1]]):
            spans[-1].append(name)
        else:
            spans.append([name])
    lazy = _scan(path)
    parts = pl.collect_all(
        [lazy.slice(places[span[0]][0], sum(places[span[-1]]) - places[span[0]][0]) for span in spans]
    )
    return {
        name: rows.slice(places[name][0] - places[span[0]][0], places[name][1])
        for span, rows in zip(spans, parts, strict=True)
        for name in span
    }


def write_points(path: Path, parts: Iterable[pl.DataFrame], read: str = "") -> int:
    """Writes parts in the order given, whole or not at all, and returns the number of rows. Raises
    CouldNotRun, and InputError, which names what was `read`, where there is nothing to write."""
    rows = 0
    with (
        explain_unwritable(path, "", "operating system"),
        tempfile.TemporaryDirectory(prefix=f".{path.name[:80]}.", dir=path.parent) as folder,
    ):
        written = []
        for number, part in enumerate(parts):
            place = Path(folder) / f"{number:06d}.parquet"
            part.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items()).write_parquet(place)
            written.append(place)
            rows += part.height
        if not rows:
            hint = "Import VolumeReadOps, VolumeWriteOps and their bytes, of namespace AWS/EBS."
            raise InputError(read or path.name, "has no points of a volume", DOC, hint)
        whole = Path(folder) / "whole.parquet"
        pl.concat([pl.scan_parquet(place) for place in written]).sink_parquet(
            whole, row_group_size=ROWS_OF_A_GROUP, maintain_order=True
        )
        move_over(whole, path)
    return rows


def _scan(path: Path) -> pl.LazyFrame:
    refuse_folder(path)
    try:
        lazy = pl.scan_parquet(path)
        names = lazy.collect_schema().names()
    except FileNotFoundError:
        raise InputError(str(path), "no such file", "", "Check the name and the folder you are in.") from None
    except Exception as error:  # polars has an error of its own for each thing a file may not be
        rule = f"is not a Parquet file: {str(error)[:100]}"
        raise InputError(str(path), rule, DOC, "Make one with headrace fleet import.") from None
    lacking = [name for name in COLUMNS if name not in names]
    if lacking:
        rule = f"lacks {', '.join(lacking)}"
        raise InputError(str(path), rule, DOC, "Make one with headrace fleet import.")
    return lazy.select(COLUMNS)
