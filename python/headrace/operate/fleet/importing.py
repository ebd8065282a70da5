"""CloudWatch's points of many volumes, from what AWS writes, into one Parquet file.

get-metric-data pages (JSON) and CSV exports are read by the readers of `workload import`; metric
streams (JSON, a line a point, or OpenTelemetry; plain or gzip) point by point; Parquet of streams
or of an earlier import by its columns. Points are spilled into parts by volume, so that memory
holds one part, not the fleet. Points that come twice count once; the last one read counts.

Some forms state the period of a point: an earlier import, OpenTelemetry, the console's CSV, and
recordings of hosts. Points of the other forms have the period that is given."""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import msgspec
import numpy as np
import polars as pl

from headrace.base.checks import check_number
from headrace.base.files import detect, refuse_folder
from headrace.errors import InputError, Refusals
from headrace.observe.formats import cloudwatch, is_service, parse_recording
from headrace.observe.formats.devices import MAX_RECORDED_POINT_S, MIN_POINT_S
from headrace.observe.formats.metric_pages import MetricSeries, read_pages
from headrace.observe.formats.metric_stream import StreamPoint, yield_telemetry_points
from headrace.observe.recording import MAX_BYTES, STDIN, clip, decode_recording
from headrace.operate.fleet.points import COLUMNS, METRICS, SUMMED, make_rows, refuse, state_periods, write_points
from headrace.operate.fleet.recordings import RecordingHints, read_recording_points, read_service_points

NAMESPACE = "AWS/EBS"
OF_HOSTS = ("iostat", "sar", "vmstat", "prometheus")  # forms of recordings that have devices and no volumes
NO_HINTS = RecordingHints()
refuse_streams = Refusals("CloudWatch guide, Metric streams, JSON format")
PARTS = 64  # of volumes, by their ids: a part of 10,000 volumes over 14 days of five minutes is 0.6 million rows
POINTS_AT_ONCE = 1_000_000  # before they are spilled: some 100 MB
# Small parts are put in order together, up to this many points: each call costs some ms; ours.
ROWS_TOGETHER = 1_000_000
MOST_VALUE = 1e15  # no sum of a period comes near it; keeps sums finite
MS_PER_S = 1_000.0
# Seconds since 1970 of 2006-01-01, the year in which EC2 began, and of 2100-01-01, ours: what lies
# outside is in another unit.
EARLIEST_S, LATEST_S = 1_136_073_600.0, 4_102_444_800.0
# Units of bytes in CloudWatch and in OpenTelemetry (UCUM); a point without a unit is CloudWatch's
# own.
BYTES = {"Bytes", "By", "None", ""}
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
HEAD = 4_096  # bytes from which a file's form is seen; ours: the first point of a stream is shorter
# Field 1 of an ExportMetricsServiceRequest, resource_metrics: a message (protobuf, encoding).
FIRST_FIELD = b"\x0a"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
SPILLED = {
    "volume": pl.String(),
    "metric": pl.String(),
    "t_unix": pl.Float64(),
    "value": pl.Float64(),
    "account": pl.String(),
    "period_s": pl.Float64(),
}
SPILLED_OF_FILE = SPILLED | {"file": pl.UInt32()}


def import_points(
    files: Sequence[str | Path],
    to: Path,
    *,
    period_s: float | None = None,
    hints: RecordingHints = NO_HINTS,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[int, int, list[str]]:
    """Writes the points of `files` to `to`, and returns the numbers of volumes and of rows, and
    notes. A file may be `-` (standard input) or a service that keeps recordings (`prometheus:...`,
    `aws:...`). `period_s`: of the rows, whose points are summed and averaged; None: that of the
    points. `hints`: what recordings do not say; points of CloudWatch that do not say their period
    are of its `interval_s`, or else of `period_s`. Raises InputError (file, place, value, rule) or
    CouldNotRun; then nothing is written."""
    if hints.interval_s is not None:
        check_number("interval_s", hints.interval_s, MIN_POINT_S, MAX_RECORDED_POINT_S, "s")
    notes: list[str] = []
    with tempfile.TemporaryDirectory(
        prefix=".headrace-import.", dir=to.parent if to.parent.is_dir() else None
    ) as folder:
        spill = _Spill(Path(folder), hints.interval_s or period_s)
        for done, file in enumerate(files):
            spill.files.append(clip(_get_name(file), 80))
            _import_target(str(file), spill, notes, hints)
            progress(0.6 * (done + 1) / len(files))
        spill.flush()
        volumes, lacking = [0], {}

        def convert_parts() -> Iterator[pl.DataFrame]:
            for done, part in spill.read_parts():
                wide = make_rows(part, period_s, lacking)
                volumes[0] += wide["volume"].n_unique()
                if wide.height:
                    yield wide
                progress(0.6 + 0.4 * done / PARTS)

        more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
        rows = write_points(to, convert_parts(), f"{spill.files[0]}{more}")
    if lacking:
        volume = min(lacking)
        others = f", nor have {len(lacking) - 1:,} others all of the four that are needed" if len(lacking) > 1 else ""
        notes.append(
            f"{volume} has no {', '.join(lacking[volume])}{others}: such volumes get no advice. "
            f"Ask for {', '.join(SUMMED)} (Sum) of each."
        )
    if spill.sparse:
        volume = min(spill.sparse)
        others = f", and {len(spill.sparse) - 1:,} other volumes are like it" if len(spill.sparse) > 1 else ""
        notes.append(
            f"{volume} has points {spill.sparse[volume]}{others}: most periods were taken as holes. "
            "If the points are of a longer period, give that: --interval."
        )
    return volumes[0], rows, list(dict.fromkeys(notes))


class _Spill:
    """Collects points and writes them to parts by volume, Parquet files in a folder."""

    def __init__(self, folder: Path, stated_s: float | None) -> None:
        """Takes the folder of the parts, which must be there and empty, and the period (seconds)
        of points that do not say theirs."""
        self.folder, self.stated_s, self.written = folder, stated_s, 0
        self.files: list[str] = []  # that are read, the last one now
        self.rows: dict[str, int] = {}  # of each part
        self.columns: dict[str, list] = {name: [] for name in SPILLED_OF_FILE}
        self.part_numbers: dict[str, int] = {}
        self.origins: dict[str, str] = {}  # the file that a device of a host's recording came from
        # Volumes of which less than half of the periods have a point.
        self.sparse: dict[str, str] = {}

    def add(
        self, volume: str, metric: str, t_unix: float, value: float, account: str = "", period_s: float | None = None
    ) -> None:
        """Adds a point, in CloudWatch's unit of its metric; `period_s` None: not stated. Writes the
        points to the parts when there are POINTS_AT_ONCE."""
        figures = (volume, metric, t_unix, value, account, period_s, self.file)
        for column, figure in zip(self.columns.values(), figures, strict=True):
            column.append(figure)
        if len(self.columns["volume"]) >= POINTS_AT_ONCE:
            self.flush()

    @property
    def file(self) -> int:
        """The number of the file that is read now."""
        return len(self.files) - 1

    def add_frame(self, frame: pl.DataFrame) -> None:
        """Adds rows of SPILLED, behind all that were added before."""
        self.flush()
        self._write(frame.with_columns(file=pl.lit(self.file, pl.UInt32)))

    def _write(self, frame: pl.DataFrame) -> None:
        """Writes rows of SPILLED_OF_FILE to the parts of their volumes."""
        numbers = {volume: self.get_part(volume) for volume in frame["volume"].unique()}
        for (number,), part in (
            frame.with_columns(pl.col("volume").replace_strict(numbers, return_dtype=pl.Int64).alias("part"))
            .partition_by("part", as_dict=True, include_key=False)
            .items()
        ):
            self.write(int(number), part)

    def write(self, number: int, rows: pl.DataFrame) -> None:
        """Writes rows of SPILLED_OF_FILE, all of volumes of that part; `flush` comes before them.
        Raises InputError as `points.state_periods`."""
        name = f"{number:03d}-{self.written:06d}.parquet"
        rows = state_periods(rows, self.stated_s, self.files, self.sparse).select(list(SPILLED))
        rows.write_parquet(self.folder / name, compression="lz4")
        self.rows[name] = rows.height
        self.written += 1

    def get_part(self, volume: str) -> int:
        """Returns the number of the part of a volume."""
        if volume not in self.part_numbers:
            self.part_numbers[volume] = zlib.crc32(volume.encode()) % PARTS
        return self.part_numbers[volume]

    def flush(self) -> None:
        """Writes the points that are still in memory to their parts."""
        if self.columns["volume"]:
            frame = pl.DataFrame(self.columns, schema=SPILLED_OF_FILE)
            self.columns = {name: [] for name in SPILLED_OF_FILE}
            self._write(frame)

    def read_parts(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yields how many parts are done, and all points of some volumes after the other, in the
        order in which they were read. Small parts come together."""
        files: list[Path] = []
        rows = 0
        for number in range(PARTS):
            part_files = sorted(self.folder.glob(f"{number:03d}-*.parquet"))
            files += part_files
            rows += sum(self.rows[file.name] for file in part_files)
            if files and (rows >= ROWS_TOGETHER or number == PARTS - 1):
                yield number + 1, pl.concat([pl.read_parquet(file) for file in files])
                files, rows = [], 0


def _get_name(file: str | Path) -> str:
    """Returns the name of a file without its folder; a service's target as it is."""
    return str(file) if is_service(str(file)) else Path(file).name


def _import_target(target: str, spill: _Spill, notes: list[str], hints: RecordingHints) -> None:
    """Adds the points of a file, of standard input, or of a service to `spill`, and to `notes` what
    a reader should know of them. Raises InputError, CouldNotRun."""
    if is_service(target):
        for rows in read_service_points(target, hints, notes):
            spill.add_frame(rows.select(list(SPILLED)))
        return
    file = Path(target)
    if target == STDIN:
        # The form is seen from the first bytes, and some forms are read in parts, so the input goes
        # into a file first.
        file = spill.folder / "standard input"
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
    _import_file(file, spill, notes, hints)


def _import_file(file: Path, spill: _Spill, notes: list[str], hints: RecordingHints) -> None:
    """Adds the points of a file, unpacked where it is gzip; its first bytes tell its form. Raises
    InputError."""
    refuse_folder(file)
    try:
        with file.open("rb") as opened:
            head = opened.read(HEAD)
    except OSError as error:
        hint = "Check the name and the permissions."
        raise InputError(str(file), f"cannot be read: {error.strerror}", "", hint) from None
    if head.startswith(PARQUET):
        return _import_parquet(file, spill)
    if not head.startswith(GZIP):
        with file.open("rb") as opened:
            return _import_unpacked(file, head, opened, spill, notes, hints)
    with gzip.open(file) as opened:
        try:
            head = opened.read(HEAD)
            opened.seek(0)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _make_damage_error(f"{file.name}, start", error) from None
        if head:
            _import_unpacked(file, head, cast("IO[bytes]", opened), spill, notes, hints)


def _import_unpacked(
    file: Path, head: bytes, opened: IO[bytes], spill: _Spill, notes: list[str], hints: RecordingHints
) -> None:
    """Adds the points of an unpacked file that is not Parquet; `head`, its first bytes, tells its
    form. Raises InputError."""
    if b'"metric_stream_name"' in head or b'"metric_name"' in head:
        _import_stream(file, opened, spill, notes)
    elif b"\0" in head and not head.startswith(UTF_16):
        if not _may_be_open_telemetry(head):
            rule = "is of no form that is read here: pages of get-metric-data, CSV, metric streams, an earlier import"
            raise InputError(
                clip(file.name, 80), rule, f"{refuse.source}, Points", "Is it the file you meant, and whole?"
            )
        _import_open_telemetry(file, opened, spill, notes)
    else:
        _import_export(file, opened, spill, notes, hints)


def _may_be_open_telemetry(head: bytes) -> bool:
    """Returns whether a file begins as a record in OpenTelemetry format does: its length, seven
    bits a byte, then the tag of its first field."""
    last = next((at for at, byte in enumerate(head) if byte < 0x80), len(head))
    return int.from_bytes(head[: last + 1], "big") > 0 and head[last + 1 : last + 2] == FIRST_FIELD


def _import_export(file: Path, opened: IO[bytes], spill: _Spill, notes: list[str], hints: RecordingHints) -> None:
    """Adds the points of pages of get-metric-data, a CSV export of CloudWatch, or a host's
    recording, of MAX_BYTES at most. Raises InputError."""
    try:
        content = opened.read(MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _make_damage_error(file.name, error) from None
    if len(content) > MAX_BYTES:
        rule = f"is larger than {MAX_BYTES / 2**20:,.0f} MiB, unpacked"
        raise refuse.input(file.name, rule, "Ask for the metrics in several files, of some volumes each.")
    pages = read_pages(content)
    if pages is not None and _add_pages(pages[0], spill):
        notes += pages[1]
        return
    recording = decode_recording(clip(file.name, 80), content)
    if detect(recording.text)[0] in OF_HOSTS:
        for rows in read_recording_points(parse_recording(recording), hints, notes):
            _check_times(recording.name, rows)
            _check_origin(recording.name, str(rows["volume"][0]), str(file), spill)
            spill.add_frame(rows.select(list(SPILLED)))
        return
    series, periods = cloudwatch.read_metrics(recording)
    period_s = cloudwatch.find_stated_period(recording, periods)
    for (volume, metric), points in series.items():
        if metric not in METRICS:
            continue
        if not volume:
            hint = "Let the label say it: aws cloudwatch get-metric-data with Label 'vol-... VolumeReadOps'."
            raise recording.make_error("", metric, "does not say of which volume it is", hint)
        for at, (where, _, value) in points.items():
            if not EARLIEST_S <= at <= LATEST_S:
                place = f"line {where}" if isinstance(where, int) else where
                raise _make_time_error(f"{recording.name}, {place}: {metric}", at)
            spill.add(volume, metric, at, value, period_s=period_s)
    notes += recording.notes


def _check_origin(name: str, volume: str, file: str, spill: _Spill) -> None:
    """Raises InputError for a device that another recording of the same name has too."""
    if "/" in volume and spill.origins.setdefault(volume, file) != file:
        rule = f"is in {clip(spill.origins[volume])} too: two recordings of one name"
        hint = "Rename one after its host, or say which volume it is: --device NAME=VOLUME."
        raise refuse.input(f"{name}: {volume}", rule, hint)


def _add_pages(series: Sequence[MetricSeries], spill: _Spill) -> bool:
    """Adds the points of series from pages; returns False, and adds nothing, where one names no
    volume or has a time that cannot be: the slow reader's error names the place."""
    series = [entry for entry in series if entry.metric in METRICS]
    if any(not entry.volume or entry.t_unix.min() < EARLIEST_S or entry.t_unix.max() > LATEST_S for entry in series):
        return False
    spill.flush()
    of_part: dict[int, list[MetricSeries]] = {}
    for entry in series:
        of_part.setdefault(spill.get_part(entry.volume), []).append(entry)
    for number, own in of_part.items():
        names = pl.DataFrame({"volume": [each.volume for each in own], "metric": [each.metric for each in own]})
        points = names[np.repeat(np.arange(len(own), dtype=np.uint32), [len(each.t_unix) for each in own])]
        points = points.with_columns(
            t_unix=np.concatenate([each.t_unix for each in own]),
            value=np.concatenate([each.values for each in own]),
            account=pl.lit(""),
            period_s=pl.lit(None, pl.Float64),
            file=pl.lit(spill.file, pl.UInt32),
        )
        spill.write(number, points)
    return True


def _make_damage_error(place: str, error: Exception) -> InputError:
    return InputError(place, f"is cut off or damaged: {error}", "RFC 1952", "Fetch the object again.")


def _import_open_telemetry(file: Path, opened: IO[bytes], spill: _Spill, notes: list[str]) -> None:
    """Adds the points of a metric stream in OpenTelemetry format. Raises InputError."""
    number = 0
    try:
        for number, point in yield_telemetry_points(file.name, opened, notes):
            _add_stream_point(file, "record", number, point, spill)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _make_damage_error(f"{file.name}, record {number + 1}", error) from None


def _import_stream(file: Path, lines: Iterable[bytes], spill: _Spill, notes: list[str]) -> None:
    """Adds the points of a metric stream in JSON, a point a line. A last line that is cut off gives
    a note. Raises InputError for any other line that is not a point."""
    decode = msgspec.json.Decoder(StreamPoint).decode
    number, taken, bad = 0, 0, None
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
                bad = refuse_streams.input(f"{file.name}, line {number}: {clip(line.decode(errors='replace'))}", rule)
                continue  # a last line may be cut off; refused when another follows
            taken += 1
            _add_stream_point(file, "line", number, point, spill)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _make_damage_error(f"{file.name}, line {number}", error) from None
    if bad is not None:
        if not taken:  # a file of one line is not cut off: it is something else
            raise bad
        notes.append(f"{file.name}: the last line is cut off and was left out.")


def _add_stream_point(file: Path, unit: str, number: int, point: StreamPoint, spill: _Spill) -> None:
    """Adds a point of a metric stream by the statistic of its metric, unless it is of no EBS volume
    or of another metric. `unit`, `number`: "line" or "record" and which, for errors. Raises
    InputError for a figure, unit or time that cannot be."""
    volume = point.dimensions.get("VolumeId")
    if point.namespace != NAMESPACE or point.metric_name not in METRICS or volume is None:
        return
    statistic = METRICS[point.metric_name][1]
    if point.metric_name.endswith("Bytes") and point.unit not in BYTES:
        value = f"{file.name}, {unit} {number}: {point.metric_name} in {clip(point.unit)}"
        raise refuse_streams.input(value, "EBS publishes it in bytes", "Import what CloudWatch wrote.")
    value = point.value
    if value.count <= 0:
        raise refuse_streams.input(f"{file.name}, {unit} {number}: count {value.count:g}", "must be above 0")
    figure = {"Sum": value.sum, "Average": value.sum / value.count, "Maximum": value.max}[statistic]
    if not 0 <= figure <= MOST_VALUE:
        rule = "must be 0 or more, and finite"
        raise refuse_streams.input(f"{file.name}, {unit} {number}: {point.metric_name} = {figure:g}", rule)
    if not EARLIEST_S <= point.timestamp / MS_PER_S <= LATEST_S:
        raise _make_time_error(f"{file.name}, {unit} {number}: {point.metric_name}", point.timestamp / MS_PER_S)
    spill.add(volume, point.metric_name, point.timestamp / MS_PER_S, figure, point.account_id, point.period_s)


def _import_parquet(file: Path, spill: _Spill) -> None:
    """Adds the points of an earlier import, or of a metric stream, in Parquet. Raises
    InputError."""
    name = clip(file.name, 80)
    with _translate_parquet_errors(name):
        lazy = pl.scan_parquet(file)
        names = lazy.collect_schema()
    if set(COLUMNS) <= set(names):
        columns = {column: metric for metric, (column, _) in METRICS.items()}
        index = ["volume", "t_unix", "account", "period_s"]
        for rows in _read_slices(name, lazy.select(COLUMNS), POINTS_AT_ONCE // len(columns)):
            long = rows.unpivot(on=list(columns), index=index, variable_name="metric")
            measured = long.filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
            measured = measured.with_columns(pl.col("metric").replace_strict(columns)).select(list(SPILLED))
            _check_times(name, measured)
            spill.add_frame(measured)
        return
    columns = _build_stream_columns(name, names)
    is_volume = (pl.col("namespace") == NAMESPACE) & pl.col("metric_name").is_in(list(METRICS))
    for rows in _read_slices(name, lazy, POINTS_AT_ONCE):
        frame = rows.filter(is_volume).select(**columns).select(list(SPILLED)).drop_nulls(["volume"])
        wrong = frame.filter(~pl.col("value").is_finite() | (pl.col("value") < 0) | (pl.col("value") > MOST_VALUE))
        if wrong.height:
            first = wrong.row(0, named=True)
            value = f"{name}: {first['metric']} of {first['volume']} = {first['value']}"
            raise refuse_streams.input(value, "must be 0 or more, and finite")
        _check_times(name, frame)
        spill.add_frame(frame)


@contextmanager
def _translate_parquet_errors(name: str) -> Iterator[None]:
    """Turns errors of Polars on the file `name` into an InputError."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        rule = f"is cut off or damaged: {clip(str(error))}"
        raise InputError(name, rule, "Apache Parquet", "Fetch the object or make the file again.") from None


def _read_slices(name: str, lazy: pl.LazyFrame, rows: int) -> Iterator[pl.DataFrame]:
    """Yields the rows of a file in parts of that many: a fleet does not fit into memory."""
    with _translate_parquet_errors(name):
        height = lazy.select(pl.len()).collect().item()
    for begin in range(0, height, rows):
        with _translate_parquet_errors(name):
            part = lazy.slice(begin, rows).collect()
        yield part


def _build_stream_columns(name: str, names: pl.Schema) -> dict[str, pl.Expr]:
    """Returns the expressions of SPILLED's columns from those of a metric stream in Parquet. Raises
    InputError for a file with other columns."""
    needed = {"namespace", "metric_name", "dimensions", "timestamp", "value"}
    if not needed <= set(names):
        rule = f"lacks {', '.join(sorted(needed - set(names)))}: it is neither of an import nor of a metric stream"
        raise refuse_streams.input(name, rule)
    time = pl.col("timestamp")
    if isinstance(names["timestamp"], pl.Datetime):
        seconds = time.dt.epoch("us") / 1e6
    elif names["timestamp"].is_integer():
        seconds = time / MS_PER_S
    else:
        raise _make_kind_error(name, names, "timestamp", "must be a timestamp, or milliseconds")
    value = names["value"]
    if not isinstance(value, pl.Struct) or not {"count", "sum", "max"} <= {part.name for part in value.fields}:
        raise _make_kind_error(name, names, "value", "must be a struct with count, sum and max")
    count, total, largest = (pl.col("value").struct.field(part) for part in ("count", "sum", "max"))
    statistic = pl.col("metric_name").replace_strict({metric: stat for metric, (_, stat) in METRICS.items()})
    figure = pl.when(statistic == "Average").then(total / count).when(statistic == "Maximum").then(largest)
    return {
        "volume": _find_volume_column(name, names),
        "metric": pl.col("metric_name"),
        "t_unix": seconds.cast(pl.Float64),
        "value": figure.otherwise(total).cast(pl.Float64),
        "account": pl.col("account_id").cast(pl.String).fill_null("") if "account_id" in names else pl.lit(""),
        "period_s": pl.lit(None, dtype=pl.Float64),
    }


def _find_volume_column(name: str, names: pl.Schema) -> pl.Expr:
    """Returns the VolumeId in the dimensions: a struct, or a map (in Parquet a list of pairs)."""
    kind, dimensions = names["dimensions"], pl.col("dimensions")
    inner = kind.inner if isinstance(kind, pl.List) else None
    if isinstance(inner, pl.Struct) and {"key", "value"} <= {part.name for part in inner.fields}:
        key, value = pl.element().struct.field("key"), pl.element().struct.field("value")
        return dimensions.list.eval(value.filter(key == "VolumeId")).list.first().cast(pl.String)
    if isinstance(kind, pl.Struct) and "VolumeId" in {part.name for part in kind.fields}:
        return dimensions.struct.field("VolumeId").cast(pl.String)
    raise _make_kind_error(name, names, "dimensions", "must be a struct with VolumeId, or a map")


def _make_kind_error(name: str, names: pl.Schema, column: str, rule: str) -> InputError:
    hint = "Let Firehose convert the stream as the guide of metric streams says, or import its JSON."
    return refuse_streams.input(f"{name}: {column} is {clip(str(names[column]))}", rule, hint)


def _check_times(name: str, points: pl.DataFrame) -> None:
    """Raises InputError for rows with a time before 2006 or after 2100."""
    wrong = points.filter(~pl.col("t_unix").is_between(EARLIEST_S, LATEST_S).fill_null(False))
    if wrong.height:
        first = wrong.row(0, named=True)
        raise _make_time_error(f"{name}: {first['metric']} of {first['volume']}", first["t_unix"])


def _make_time_error(place: str, t_unix: float | None) -> InputError:
    value = f"{place} at {'no time' if t_unix is None else f'{t_unix:.6g} s since 1970'}"
    hint = "Are its times in another unit? They must be timestamps, or milliseconds since 1970."
    return refuse_streams.input(value, "must be between 2006, when EC2 began, and 2100", hint)
