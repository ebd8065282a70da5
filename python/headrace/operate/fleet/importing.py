"""CloudWatch's points of many volumes, from what AWS writes, into one Parquet file.

get-metric-data pages (JSON) and CSV exports are read by the readers of `workload import`; metric
streams (JSON, a line a point, or OpenTelemetry; plain or gzip) point by point; Parquet of streams
or of an earlier import by its columns. What is read is spilled into parts by volume, so that memory
holds one part, not the fleet. Points that come twice count once; the last one read counts."""

from __future__ import annotations

import gzip
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import msgspec
import polars as pl

from headrace.errors import InputError
from headrace.observe.formats import cloudwatch
from headrace.observe.formats.metric_stream import StreamPoint, open_telemetry_points
from headrace.observe.recording import clip, open_recording
from headrace.operate.fleet.points import COLUMNS, DOC, METRICS, SCHEMA, write_points

NAMESPACE = "AWS/EBS"
STREAMS = "CloudWatch guide, Metric streams, JSON format"
PARTS = 64  # of volumes, by their ids: a part of 10,000 volumes over 14 days of five minutes is 0.6 million rows
POINTS_AT_ONCE = 1_000_000  # before they are spilled: some 100 MB
MOST_VALUE = 1e15  # no sum of a period comes near it; keeps sums finite
MS_PER_S = 1_000.0
# As CloudWatch and OpenTelemetry (UCUM) name bytes; without a unit it is CloudWatch's own.
BYTES = {"Bytes", "By", "None", ""}
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
SPILLED = {
    "volume": pl.String(),
    "metric": pl.String(),
    "t_unix": pl.Float64(),
    "value": pl.Float64(),
    "account": pl.String(),
}


def import_points(
    files: Sequence[Path],
    to: Path,
    *,
    period_s: float | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[int, int, list[str]]:
    """Writes the points of `files` to `to`; volumes, rows, and notes. `period_s`: means and sums
    over so long a period; None: as they are. Raises InputError (file, place, value, rule) or
    CouldNotRun; then nothing is written."""
    notes: list[str] = []
    with tempfile.TemporaryDirectory(
        prefix=".headrace-import.", dir=to.parent if to.parent.is_dir() else None
    ) as folder:
        spill = _Spill(Path(folder))
        for done, file in enumerate(files):
            _read(file, spill, notes)
            progress(0.8 * (done + 1) / len(files))
        spill.flush()
        volumes = [0]

        def parts() -> Iterator[pl.DataFrame]:
            for number in range(PARTS):
                part = spill.part(number)
                if part is not None:
                    wide = _wide(part, period_s)
                    volumes[0] += wide["volume"].n_unique()
                    if wide.height:
                        yield wide
                progress(0.8 + 0.2 * (number + 1) / PARTS)

        rows = write_points(to, parts())
    return volumes[0], rows, list(dict.fromkeys(notes))


class _Spill:
    """Points on their way into parts by volume."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.written = folder, 0
        self.columns: dict[str, list] = {name: [] for name in SPILLED}
        self.known: dict[str, int] = {}

    def add(self, volume: str, metric: str, t_unix: float, value: float, account: str = "") -> None:
        for name, one in zip(SPILLED, (volume, metric, t_unix, value, account), strict=True):
            self.columns[name].append(one)
        if len(self.columns["volume"]) >= POINTS_AT_ONCE:
            self.flush()

    def add_frame(self, frame: pl.DataFrame) -> None:
        """Rows of SPILLED."""
        numbers = {volume: self._number(volume) for volume in frame["volume"].unique()}
        for (number,), part in (
            frame.with_columns(pl.col("volume").replace_strict(numbers, return_dtype=pl.Int64).alias("part"))
            .partition_by("part", as_dict=True, include_key=False)
            .items()
        ):
            part.select(list(SPILLED)).write_parquet(self.folder / f"{number:03d}-{self.written:06d}.parquet")
            self.written += 1

    def _number(self, volume: str) -> int:
        if volume not in self.known:
            self.known[volume] = zlib.crc32(volume.encode()) % PARTS
        return self.known[volume]

    def flush(self) -> None:
        if self.columns["volume"]:
            frame = pl.DataFrame(self.columns, schema=SPILLED)
            self.columns = {name: [] for name in SPILLED}
            self.add_frame(frame)

    def part(self, number: int) -> pl.DataFrame | None:
        found = sorted(self.folder.glob(f"{number:03d}-*.parquet"))
        return pl.concat([pl.read_parquet(file) for file in found]) if found else None


def _read(file: Path, spill: _Spill, notes: list[str]) -> None:
    try:
        with file.open("rb") as opened:
            head = opened.read(4_096)
    except OSError as error:
        raise InputError(
            str(file), f"cannot be read: {error.strerror}", "", "Check the name and the permissions."
        ) from None
    if head.startswith(PARQUET):
        return _read_parquet(file, spill)
    if head.startswith(GZIP):
        with gzip.open(file) as opened:
            return _read_member(file, opened, spill, notes)
    if b'"metric_stream_name"' in head or b'"metric_name"' in head:
        with file.open("rb") as opened:
            return _read_stream(file, opened, spill, notes)
    if b"\0" in head:
        with file.open("rb") as opened:
            return _read_open_telemetry(file, opened, spill, notes)
    _read_export(file, spill, notes)


def _read_export(file: Path, spill: _Spill, notes: list[str]) -> None:
    recording = open_recording(file)
    series, _ = cloudwatch.read_metrics(recording)
    for (volume, metric), points in series.items():
        if metric not in METRICS:
            continue
        if not volume:
            hint = "Let the label say it: aws cloudwatch get-metric-data with Label 'vol-... VolumeReadOps'."
            raise recording.bad("", metric, "does not say of which volume it is", hint)
        for at, (_, _, value) in points.items():
            spill.add(volume, metric, at, value)
    notes += recording.notes


def _read_member(file: Path, opened: gzip.GzipFile, spill: _Spill, notes: list[str]) -> None:
    """JSON begins with a brace or an empty line; anything else is OpenTelemetry."""
    try:
        json_lines = opened.peek(1)[:1] in (b"{", b"\n", b"\r", b" ", b"")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(f"{file.name}, start", error) from None
    if json_lines:
        _read_stream(file, opened, spill, notes)
    else:
        _read_open_telemetry(file, cast("IO[bytes]", opened), spill, notes)


def _damaged(place: str, error: Exception) -> InputError:
    return InputError(place, f"is cut off or damaged: {error}", "RFC 1952", "Fetch the object again.")


def _read_open_telemetry(file: Path, opened: IO[bytes], spill: _Spill, notes: list[str]) -> None:
    number = 0
    try:
        for number, point in open_telemetry_points(file.name, opened, notes):
            _take(file, "record", number, point, spill)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(f"{file.name}, record {number + 1}", error) from None


def _read_stream(file: Path, lines: Iterable[bytes], spill: _Spill, notes: list[str]) -> None:
    decode = msgspec.json.Decoder(StreamPoint).decode
    number, bad = 0, None
    try:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            if bad is not None:
                raise bad
            try:
                point = decode(line)
            except msgspec.DecodeError as error:
                rule = f"is not a point of a metric stream: {error}"
                bad = InputError(f"{file.name}, line {number}: {clip(line.decode(errors='replace'))}", rule, STREAMS)
                continue  # a last line may be cut off; refused when another follows
            _take(file, "line", number, point, spill)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(f"{file.name}, line {number}", error) from None
    if bad is not None:
        notes.append(f"{file.name}: the last line is cut off and was left out.")


def _take(file: Path, unit: str, number: int, point: StreamPoint, spill: _Spill) -> None:
    volume = point.dimensions.get("VolumeId")
    if point.namespace != NAMESPACE or point.metric_name not in METRICS or volume is None:
        return
    statistic = METRICS[point.metric_name][1]
    if point.metric_name.endswith("Bytes") and point.unit not in BYTES:
        value = f"{file.name}, {unit} {number}: {point.metric_name} in {clip(point.unit)}"
        raise InputError(value, "EBS publishes it in bytes", STREAMS, "Import what CloudWatch wrote.")
    value = point.value
    if value.count <= 0:
        raise InputError(f"{file.name}, {unit} {number}: count {value.count:g}", "must be above 0", STREAMS)
    found = {"Sum": value.sum, "Average": value.sum / value.count, "Maximum": value.max}[statistic]
    if not 0 <= found <= MOST_VALUE:
        rule = "must be 0 or more, and finite"
        raise InputError(f"{file.name}, {unit} {number}: {point.metric_name} = {found:g}", rule, STREAMS)
    spill.add(volume, point.metric_name, point.timestamp / MS_PER_S, found, point.account_id)


def _read_parquet(file: Path, spill: _Spill) -> None:
    lazy = pl.scan_parquet(file)
    names = lazy.collect_schema()
    if set(COLUMNS) <= set(names):
        return _again(lazy, spill)
    wanted = {"namespace", "metric_name", "dimensions", "timestamp", "value"}
    if not wanted <= set(names):
        rule = f"lacks {', '.join(sorted(wanted - set(names)))}: it is neither of an import nor of a metric stream"
        raise InputError(str(file), rule, STREAMS)
    kind = names["timestamp"]
    time = pl.col("timestamp")
    if isinstance(kind, pl.Datetime):
        seconds = time.dt.epoch("us") / 1e6
    elif kind.is_integer():
        seconds = time / MS_PER_S
    else:
        raise InputError(f"{file.name}: timestamp is {kind}", "must be a timestamp, or milliseconds", STREAMS)
    count, total = pl.col("value").struct.field("count"), pl.col("value").struct.field("sum")
    by_metric = pl.col("metric_name")
    averaged = [name for name, (_, statistic) in METRICS.items() if statistic == "Average"]
    largest = [name for name, (_, statistic) in METRICS.items() if statistic == "Maximum"]
    value = (
        pl.when(by_metric.is_in(averaged))
        .then(total / count)
        .when(by_metric.is_in(largest))
        .then(pl.col("value").struct.field("max"))
        .otherwise(total)
    )
    account = pl.col("account_id").cast(pl.String) if "account_id" in names else pl.lit("")
    rows = lazy.filter(pl.col("namespace") == NAMESPACE, by_metric.is_in(list(METRICS))).select(
        pl.col("dimensions").struct.field("VolumeId").alias("volume"),
        by_metric.alias("metric"),
        seconds.alias("t_unix"),
        value.cast(pl.Float64).alias("value"),
        account.alias("account"),
    )
    frame = rows.drop_nulls(["volume"]).collect()
    wrong = frame.filter(~pl.col("value").is_finite() | (pl.col("value") < 0) | (pl.col("value") > MOST_VALUE))
    if wrong.height:
        first = wrong.row(0, named=True)
        value = f"{file.name}: {first['metric']} of {first['volume']} = {first['value']}"
        raise InputError(value, "must be 0 or more, and finite", STREAMS)
    spill.add_frame(frame)


def _again(lazy: pl.LazyFrame, spill: _Spill) -> None:
    """Points of an earlier import."""
    columns = {column: metric for metric, (column, _) in METRICS.items()}
    long = lazy.collect().unpivot(on=list(columns), index=["volume", "t_unix", "account"], variable_name="metric")
    kept = long.filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
    spill.add_frame(kept.with_columns(pl.col("metric").replace_strict(columns)).select(list(SPILLED)))


def _wide(part: pl.DataFrame, period_s: float | None) -> pl.DataFrame:
    """Rows of the file, volume by volume in the order of time."""
    accounts = part.group_by("volume").agg(pl.col("account").unique().sort())
    twice = accounts.filter(pl.col("account").list.len() > 1)
    if twice.height:
        first = twice.row(0, named=True)
        value = f"{first['volume']} in accounts {', '.join(first['account'])}"
        raise InputError(value, "a volume belongs to one account", DOC, "Import the accounts into files of their own.")
    # Sorted before the pivot: the last one read stays, and the order does not hang on threads.
    last = part.unique(["volume", "metric", "t_unix"], keep="last", maintain_order=True).sort("volume", "t_unix")
    wide = last.pivot("metric", index=["volume", "t_unix", "account"], values="value", maintain_order=True)
    names = {metric: column for metric, (column, _) in METRICS.items()}
    wide = wide.rename({name: names[name] for name in wide.columns if name in names})
    wide = wide.with_columns(pl.lit(None, dtype=pl.Float64).alias(name) for name in SCHEMA if name not in wide.columns)
    sums = ("read_ops", "write_ops", "read_bytes", "write_bytes")
    # A period without one of the four tells no demand; CloudWatch publishes them together.
    wide = wide.filter(pl.all_horizontal(pl.col(sums).is_not_null())).sort("volume", "t_unix")
    step = pl.col("t_unix").diff().over("volume")
    period = wide.with_columns(step.alias("step")).group_by("volume").agg(pl.col("step").drop_nulls().mode().min())
    wide = wide.drop("period_s").join(period, on="volume", maintain_order="left").rename({"step": "period_s"})
    wide = wide.filter(pl.col("period_s") > 0)
    if period_s is not None:
        wide = _coarser(wide, period_s)
    return wide.with_columns(pl.col(pl.Float64).fill_null(float("nan"))).select(COLUMNS)


def _coarser(wide: pl.DataFrame, period_s: float) -> pl.DataFrame:
    finer = wide.filter(pl.col("period_s") > period_s)
    if finer.height:
        value = f"{finer['volume'][0]}: points of {finer['period_s'][0]:g} s"
        raise InputError(value, f"cannot be made finer: {period_s:g} s", DOC, "Leave --period out.")
    slot = (pl.col("t_unix") / period_s).floor() * period_s
    return (
        wide.group_by("volume", slot.alias("t_unix"), maintain_order=True)
        .agg(
            pl.col("account").first(),
            pl.lit(period_s).alias("period_s"),
            pl.col("read_ops", "write_ops", "read_bytes", "write_bytes").sum(),
            pl.col("queue", "balance_percent").mean(),
            pl.col("iops_exceeded", "throughput_exceeded").max(),
        )
        .sort("volume", "t_unix")
    )
