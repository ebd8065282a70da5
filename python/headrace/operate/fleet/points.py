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

import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from headrace.base.files import explain_unwritable, move_over, refuse_folder
from headrace.errors import InputError, Refusals

refuse = Refusals("docs/guide/fleet.md")
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


def index_volumes(path: Path) -> dict[str, tuple[int, int]]:
    """Returns the first row and the number of rows of each volume, in the order of the file. Raises
    InputError for a file that is not one of points, or whose rows of a volume lie apart."""
    places: dict[str, tuple[int, int]] = {}
    last = None
    for volume, first, rows in _find_runs(path):
        if volume == last:  # it goes on in the next slice
            first, rows = places[volume][0], places[volume][1] + rows
        elif volume in places:
            raise refuse.input(str(path), "has the rows of a volume in several places", "Import it again.")
        places[volume], last = (first, rows), volume
    return places


def _find_runs(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yields each run of rows of one volume: the volume, its first row, the number of rows. A
    volume that lies across two slices comes twice in a row."""
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
    """Writes parts to a Parquet file in the order given, whole or not at all, and returns the
    number of rows. Raises CouldNotRun, and InputError, about the name `read`, without any row."""
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
            raise refuse.input(read or path.name, "has no points of a volume", hint)
        whole = Path(folder) / "whole.parquet"
        pl.concat([pl.scan_parquet(place) for place in written]).sink_parquet(
            whole, row_group_size=ROWS_OF_A_GROUP, maintain_order=True
        )
        move_over(whole, path)
    return rows


def _scan(path: Path) -> pl.LazyFrame:
    return scan_table(path, COLUMNS, "headrace fleet import")


def scan_table(path: Path, columns: Sequence[str], command: str) -> pl.LazyFrame:
    """Returns these columns of a Parquet file that `command` wrote, not yet read. Raises
    InputError."""
    refuse_folder(path)
    hint = f"Make it with {command}."
    try:
        lazy = pl.scan_parquet(path)
        names = lazy.collect_schema().names()
    except FileNotFoundError:
        raise InputError(str(path), "no such file", "", "Check the name and the folder you are in.") from None
    except Exception as error:  # polars has an error of its own for each thing a file may not be
        raise refuse.input(str(path), f"is not a Parquet file: {str(error)[:100]}", hint) from None
    if lacking := [name for name in columns if name not in names]:
        raise refuse.input(str(path), f"lacks {', '.join(lacking)}", hint)
    return lazy.select(columns)


# --- periods --------------------------------------------------------------------------------------
# Points of volumes as rows of one period, a column for each metric.
#
# Each point has its period: as its form states it, or as it was given for points that state none.
# Points of a volume that are of different periods are made to one (`--period`) or refused.


SUMMED = [metric for metric, (column, _) in METRICS.items() if column in SUMS]
MOST_KEYS = 1 << 62  # of volumes, times and periods: what a signed number of 64 bits holds
STEP_SLACK_S = 1.0  # times are printed in whole seconds
# The share of a longer period that its points must cover; a guess. Their rate is taken for all
# of it. A volume whose points in a file cover less of their time is noted.
LEAST_COVERED = 0.5


def state_periods(
    rows: pl.DataFrame, stated_s: float | None, files: Sequence[str], sparse: dict[str, str]
) -> pl.DataFrame:
    """Returns points that all have a period, seconds: those whose file says none (null) have
    `stated_s`. `files`: names by the numbers in the column `file`; `sparse` gets volumes whose
    points cover little of their time. Raises InputError where `stated_s` is None and needed, and
    where the points of a volume in a file lie no multiples of it apart."""
    rows = rows.with_columns(pl.when(pl.col("period_s") > 0).then("period_s"))
    open_points = rows.filter(pl.col("period_s").is_null(), pl.col("metric").is_in(SUMMED))
    if not open_points.height:
        return rows
    if stated_s is None:
        rule = "state no period: this form of file has none"
        place, step = _find_shortest_step(_list_steps(open_points), open_points, files)
        raise refuse.input(place, rule, f"Say which period CloudWatch was asked for: --period {step or 300:g}.")
    since = pl.col("t_unix") - pl.col("t_unix").min().over("file", "volume")
    if open_points.filter(_is_no_multiple(since, stated_s)).height:
        steps = _list_steps(open_points)
        uneven = steps.filter(_is_no_multiple(pl.col("step"), stated_s))
        place, step = _find_shortest_step(uneven if uneven.height else steps, open_points, files)
        hint = (
            f"If that is their period, add --interval {step:g}. If the file has points of two periods, "
            "import those of each period alone, then join the imports with --period."
        )
        raise refuse.input(place, f"must lie multiples of the period apart, which is given as {stated_s:g} s", hint)
    at = pl.col("t_unix")
    spans = open_points.group_by("file", "volume").agg(
        at.n_unique().alias("points"), ((at.max() - at.min()) / stated_s).alias("periods")
    )
    thin = spans.filter(pl.col("points") - 1 < LEAST_COVERED * pl.col("periods")).sort("file", "volume")
    for volume, points, periods in thin.select("volume", "points", "periods").rows():
        sparse[volume] = f"in {points:,} of {periods + 1:,.0f} periods of {stated_s:g} s"
    return rows.with_columns(pl.col("period_s").fill_null(stated_s))


def _is_no_multiple(time_s: pl.Expr, period_s: float) -> pl.Expr:
    """Returns the expression of times, seconds, that are not a multiple of a period, give or take
    STEP_SLACK_S."""
    return (time_s + STEP_SLACK_S) % period_s > 2 * STEP_SLACK_S


def _list_steps(points: pl.DataFrame) -> pl.DataFrame:
    """Returns the steps between the points of each volume in a file, seconds, the shortest
    first."""
    series = ["file", "volume"]
    times = points.select(*series, "t_unix").unique().sort(*series, "t_unix")
    step = pl.col("t_unix").diff().over(series).alias("step")
    return times.select(*series, step).drop_nulls("step").sort("step", *series)


def _find_shortest_step(steps: pl.DataFrame, points: pl.DataFrame, files: Sequence[str]) -> tuple[str, float | None]:
    """Returns the shortest step, seconds, with its place in words; None where no volume has two
    points."""
    first = (steps if steps.height else points).row(0, named=True)
    step = first.get("step")
    apart = "points" if step is None else f"points {step:g} s apart"
    return f"{files[first['file']]}, {first['volume']}: {apart}", step


def make_rows(part: pl.DataFrame, period_s: float | None, lacking: dict[str, list[str]]) -> pl.DataFrame:
    """Returns points as rows of SCHEMA, volume by volume in the order of time, of periods of
    `period_s` seconds, None: as they are. `lacking` gets the volumes of which one of the four
    metrics is not there at all. Raises InputError for periods that cannot become one."""
    part = _add_account(_number_names(part))
    sums = part.filter(pl.col("metric").is_in(SUMMED))
    _check_periods(sums, period_s)
    wide = _pivot_rows(sums, ["volume", "t_unix", "period_s", "account"])
    # All others are joined by their time alone: CloudWatch has some of it every five minutes only.
    states = _pivot_rows(part.filter(~pl.col("metric").is_in(SUMMED)), ["volume", "t_unix"])
    wide = wide.join(states, on=["volume", "t_unix"], how="left", maintain_order="left")
    wide = wide.with_columns(
        pl.lit(None, dtype=kind).alias(name) for name, kind in SCHEMA.items() if name not in wide.columns
    )
    whole = pl.all_horizontal(pl.col(SUMS).is_not_null())
    if wide.filter(~whole).height:
        wide = wide.filter(_find_complete_rows(wide, lacking))
    if period_s is not None and not _are_periods_of(wide, period_s):
        wide = _coarsen_points(wide, period_s)
    return wide.with_columns(pl.col(pl.Float64).fill_null(float("nan")), pl.col("volume").cast(pl.String)).select(
        COLUMNS
    )


def _number_names(part: pl.DataFrame) -> pl.DataFrame:
    """Returns the points with volumes and metrics as enumerations, which are sorted, joined and
    compared as numbers, in the order of their names."""
    volumes = pl.Enum(part["volume"].unique().sort())
    return part.with_columns(pl.col("volume").cast(volumes), pl.col("metric").cast(pl.Enum(list(METRICS))))


def _find_complete_rows(wide: pl.DataFrame, lacking: dict[str, list[str]]) -> pl.Expr:
    """Returns the expression of the rows that stay: those with all four metrics, since without one
    a period tells no demand. A volume that never had one of them keeps its rows and is added, with
    the missing metrics, to `lacking`."""
    metrics_of_volumes = wide.group_by("volume", maintain_order=True).agg(pl.col(SUMS).is_not_null().any())
    metrics = {column: metric for metric, (column, _) in METRICS.items()}
    never = {
        row["volume"]: [metrics[name] for name in SUMS if not row[name]]
        for row in metrics_of_volumes.iter_rows(named=True)
        if not all(row[name] for name in SUMS)
    }
    lacking |= never
    incomplete = pl.col("volume").cast(pl.String).is_in(list(never))
    return incomplete | pl.all_horizontal(pl.col(SUMS).is_not_null())


def _add_account(part: pl.DataFrame) -> pl.DataFrame:
    """Returns the points with the account of their volume, "" where no file tells it. Raises
    InputError for a volume in two accounts."""
    if part["account"].n_unique() == 1:
        return part
    accounts = part.group_by("volume").agg(pl.col("account").filter(pl.col("account") != "").unique().sort())
    twice = accounts.filter(pl.col("account").list.len() > 1).sort("volume")
    if twice.height:
        first = twice.row(0, named=True)
        value = f"{first['volume']} in accounts {', '.join(first['account'])}"
        raise refuse.input(value, "a volume belongs to one account", "Import the accounts into files of their own.")
    account_of = accounts.select("volume", pl.col("account").list.first().fill_null(""))
    return part.drop("account").join(account_of, on="volume", maintain_order="left")


def _pivot_rows(rows: pl.DataFrame, index: list[str]) -> pl.DataFrame:
    """Returns a row for each of `index`, with a column for each metric, in the order of volume and
    time; of points that come twice the last one read."""
    keys = _compute_keys(rows, index)
    if keys is None:
        # Sorted before the pivot: the last one read stays, and the order does not hang on threads.
        last = rows.unique([*index, "metric"], keep="last", maintain_order=True)
        wide = last.sort("volume", "t_unix", maintain_order=True).pivot(
            "metric", index=index, values="value", maintain_order=True
        )
        return wide.rename({metric: column for metric, (column, _) in METRICS.items() if metric in wide.columns})
    whole = np.unique(keys)
    places = np.searchsorted(whole, keys)
    # Row of the index of each place; several rows of a place have equal values, so any will do.
    row_of = np.empty(len(whole), dtype=np.int64)
    row_of[places] = np.arange(len(keys))
    values, metrics = rows["value"].to_numpy(), rows["metric"].to_physical().to_numpy()
    columns = []
    for number, (column, _) in enumerate(METRICS.values()):
        own = np.flatnonzero(metrics == number)
        if len(own):
            figures = np.full(len(whole), np.nan)
            figures[places[own]] = values[own]  # where a place comes twice, numpy keeps the last
            columns.append(pl.Series(column, figures, nan_to_null=True))
    return rows.select(index)[row_of].with_columns(columns)


def _compute_keys(rows: pl.DataFrame, index: list[str]) -> np.ndarray | None:
    """Returns volume, time and period of each row as one number that sorts as they do; None where
    their range is too large for it, or a time is not a whole second."""
    at = rows["t_unix"].to_numpy()
    if not len(at) or (at != np.floor(at)).any():
        return None
    periods = np.zeros(len(at), dtype=np.int64)
    count = 1
    if "period_s" in index:
        lengths = rows["period_s"].unique().sort().to_numpy()
        count = len(lengths)
        if count > 1:
            periods = np.searchsorted(lengths, rows["period_s"].to_numpy())
    first, span = int(at.min()), int(at.max() - at.min()) + 1
    volumes = rows["volume"].to_physical().to_numpy().astype(np.int64)
    if (int(volumes.max()) + 1) * span * count >= MOST_KEYS:
        return None
    return (volumes * span + (at.astype(np.int64) - first)) * count + periods


def _check_periods(sums: pl.DataFrame, period_s: float | None) -> None:
    """Raises InputError where a volume has points of periods that cannot become one."""
    periods = sums.select("volume", "period_s").unique().sort("volume", "period_s")
    if period_s is None:
        of_volume = periods.group_by("volume", maintain_order=True).agg("period_s")
        several = of_volume.filter(pl.col("period_s").list.len() > 1)
        if several.height:
            volume, lengths = several.row(0)
            value = f"{volume}: points of {' and of '.join(f'{length:g} s' for length in lengths)}"
            hint = f"Add --period {_compute_common_period(lengths):g}, or leave the files of the other periods out."
            raise refuse.input(value, "the points of one volume must be of one period", hint)
        return
    for volume, period in periods.rows():
        if period > period_s:
            value = f"{volume}: points of {period:g} s"
            raise refuse.input(value, f"cannot be made finer: {period_s:g} s", "Leave --period out.")
        if period_s % period:
            value = f"{volume}: points of {period:g} s"
            rule = f"cannot become points of {period_s:g} s, which is not a multiple of it"
            raise refuse.input(value, rule, f"Give --period {math.ceil(period_s / period) * period:g}.")


def _compute_common_period(periods: Sequence[float]) -> float:
    """Returns the shortest period, seconds, that all of them divide."""
    return math.lcm(*(math.ceil(period) for period in periods))


def _are_periods_of(wide: pl.DataFrame, period_s: float) -> bool:
    """Returns whether all rows are periods of that length, seconds, and begin at multiples of
    it."""
    return not wide.filter((pl.col("period_s") != period_s) | (pl.col("t_unix") % period_s != 0)).height


def _coarsen_points(wide: pl.DataFrame, period_s: float) -> pl.DataFrame:
    """Returns rows with sums and means over periods of `period_s` seconds. Points that overlap, of
    one period or of several, count by their lengths: the sum is that of the mean rate."""
    slot = (pl.col("t_unix") / period_s).floor() * period_s
    lasted = pl.col("period_s")
    covered = lasted.sum()
    means = [
        (pl.col(name) * lasted).sum() / lasted.filter(pl.col(name).is_not_null()).sum()
        for name in ("queue", "balance_percent")
    ]
    return (
        wide.group_by("volume", slot.alias("t_unix"), maintain_order=True)
        .agg(
            pl.col("account").first(),
            covered.alias("covered"),
            pl.lit(period_s).alias("period_s"),
            # A metric that was never there stays so: the sum of nothing would be 0.
            pl.when(pl.col(SUMS).is_not_null().any()).then(pl.col(SUMS).sum() * (period_s / covered)),
            *means,
            pl.col("iops_exceeded", "throughput_exceeded").max(),
        )
        .filter(pl.col("covered") >= LEAST_COVERED * period_s)
        .sort("volume", "t_unix")
    )
