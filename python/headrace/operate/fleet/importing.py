"""CloudWatch's points of many volumes, from what AWS writes, into one Parquet file.

get-metric-data pages (JSON) and CSV exports are read by the readers of `workload import`; metric
streams (JSON, a line a point, or OpenTelemetry; plain or gzip) point by point; Parquet of streams
or of an earlier import by its columns. What is read is spilled into parts by volume, so that memory
holds one part, not the fleet. Points that come twice count once; the last one read counts.

Each point has its period: as the format tells it (an earlier import, OpenTelemetry, CSV), as the
points of its volume in its page lie apart, or else as all of its volume without a period do. Points
of a volume that are of different periods are made to one (`--period`) or refused."""

from __future__ import annotations

import gzip
import math
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

from headrace.base.files import detect, refuse_folder
from headrace.errors import InputError
from headrace.observe.formats import cloudwatch, is_service, parse_recording
from headrace.observe.formats.metric_pages import MetricSeries, read_pages
from headrace.observe.formats.metric_stream import StreamPoint, open_telemetry_points
from headrace.observe.recording import MAX_BYTES, STDIN, clip, recording_of
from headrace.operate.fleet.points import COLUMNS, DOC, METRICS, SCHEMA, SUMS, write_points
from headrace.operate.fleet.recordings import RecordingHints, points_of_recording, points_of_service

NAMESPACE = "AWS/EBS"
OF_HOSTS = ("iostat", "sar", "vmstat", "prometheus")  # forms of recordings that have devices and no volumes
NO_HINTS = RecordingHints()
STREAMS = "CloudWatch guide, Metric streams, JSON format"
PARTS = 64  # of volumes, by their ids: a part of 10,000 volumes over 14 days of five minutes is 0.6 million rows
POINTS_AT_ONCE = 1_000_000  # before they are spilled: some 100 MB
# Small parts are put in order together, up to this many points: each call costs some ms; ours.
ROWS_TOGETHER = 1_000_000
MOST_VALUE = 1e15  # no sum of a period comes near it; keeps sums finite
MS_PER_S = 1_000.0
# Seconds since 1970 of 2006-01-01, the year in which EC2 began, and of 2100-01-01, ours: what lies
# outside is in another unit.
EARLIEST_S, LATEST_S = 1_136_073_600.0, 4_102_444_800.0
# As CloudWatch and OpenTelemetry (UCUM) name bytes; without a unit it is CloudWatch's own.
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
SUMMED = [metric for metric, (column, _) in METRICS.items() if column in SUMS]
# Steps between points that must be seen before they tell a period; ours: one hole misleads two.
LEAST_STEPS = 3
# So many shorter steps in a row than most are points of another period: nothing else makes steps
# shorter; a guess.
SHORTER_IN_A_ROW = 3
# So many longer ones of one length may be so too, and are told; or nothing was asked of the volume
# in between, which CloudWatch leaves out on Xen (EBS user guide, metrics for Amazon EBS); a guess.
LONGER_IN_A_ROW = 12
# The sum of the points within a longer one, against its figure: counts are whole; ours.
SUM_SLACK = 0.01
MOST_KEYS = 1 << 62  # of volumes, times and periods: what a signed number of 64 bits holds
STEP_SLACK_S = 1.0  # times are printed in whole seconds
# The share of a longer period that its points must cover; a guess. Their rate is taken for all
# of it.
LEAST_COVERED = 0.5


def import_points(
    files: Sequence[str | Path],
    to: Path,
    *,
    period_s: float | None = None,
    hints: RecordingHints = NO_HINTS,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[int, int, list[str]]:
    """Writes the points of `files` to `to` and returns volumes, rows, and notes. A file may be `-`
    (standard input) or a service that keeps recordings (`prometheus:...`, `aws:...`). `period_s`:
    means and sums over so long a period; None: as they are. `hints`: what recordings of hosts do
    not say. Raises InputError (file, place, value, rule) or CouldNotRun; then nothing is
    written."""
    notes: list[str] = []
    with tempfile.TemporaryDirectory(
        prefix=".headrace-import.", dir=to.parent if to.parent.is_dir() else None
    ) as folder:
        spill = _Spill(Path(folder))
        for done, file in enumerate(files):
            _read_any(str(file), spill, notes, hints)
            progress(0.6 * (done + 1) / len(files))
        spill.flush()
        volumes, lacking = [0], {}

        def parts() -> Iterator[pl.DataFrame]:
            for done, part in spill.parts():
                wide = _wide(part, period_s, spill.sparse, lacking)
                volumes[0] += wide["volume"].n_unique()
                if wide.height:
                    yield wide
                progress(0.6 + 0.4 * done / PARTS)

        more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
        rows = write_points(to, parts(), f"{clip(_name_of(files[0]), 80)}{more}")
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
            f"{volume} has points {spill.sparse[volume]}{others}: taken as holes. "
            "Points of two periods in one file would look the same: give each period files of its own."
        )
    return volumes[0], rows, list(dict.fromkeys(notes))


class _Spill:
    """Points on their way into parts by volume."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.written = folder, 0
        self.rows: dict[str, int] = {}  # of each file
        self.columns: dict[str, list] = {name: [] for name in SPILLED}
        self.part_numbers: dict[str, int] = {}
        self.origins: dict[str, str] = {}  # the file that a device of a host's recording came from
        # Volumes whose points lie further apart for a while: holes, or another period in one file.
        self.sparse: dict[str, str] = {}

    def add(
        self, volume: str, metric: str, t_unix: float, value: float, account: str = "", period_s: float | None = None
    ) -> None:
        for name, figure in zip(SPILLED, (volume, metric, t_unix, value, account, period_s), strict=True):
            self.columns[name].append(figure)
        if len(self.columns["volume"]) >= POINTS_AT_ONCE:
            self.flush()

    def add_frame(self, frame: pl.DataFrame) -> None:
        """Adds rows of SPILLED, behind all that were added before."""
        self.flush()
        self._write(frame)

    def _write(self, frame: pl.DataFrame) -> None:
        numbers = {volume: self.part_of(volume) for volume in frame["volume"].unique()}
        for (number,), part in (
            frame.with_columns(pl.col("volume").replace_strict(numbers, return_dtype=pl.Int64).alias("part"))
            .partition_by("part", as_dict=True, include_key=False)
            .items()
        ):
            self.write(int(number), part)

    def write(self, number: int, rows: pl.DataFrame) -> None:
        """Writes rows of SPILLED, all of volumes of that part; `flush` comes before them."""
        name = f"{number:03d}-{self.written:06d}.parquet"
        rows.select(list(SPILLED)).write_parquet(self.folder / name, compression="lz4")
        self.rows[name] = rows.height
        self.written += 1

    def part_of(self, volume: str) -> int:
        """Returns the number of the part of a volume."""
        if volume not in self.part_numbers:
            self.part_numbers[volume] = zlib.crc32(volume.encode()) % PARTS
        return self.part_numbers[volume]

    def flush(self) -> None:
        if self.columns["volume"]:
            frame = pl.DataFrame(self.columns, schema=SPILLED)
            self.columns = {name: [] for name in SPILLED}
            self._write(frame)

    def parts(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yields all points of some volumes after the other, in the order in which they were read;
        and how many parts are done. Small parts come together."""
        files: list[Path] = []
        rows = 0
        for number in range(PARTS):
            part_files = sorted(self.folder.glob(f"{number:03d}-*.parquet"))
            files += part_files
            rows += sum(self.rows[file.name] for file in part_files)
            if files and (rows >= ROWS_TOGETHER or number == PARTS - 1):
                yield number + 1, pl.concat([pl.read_parquet(file) for file in files])
                files, rows = [], 0


def _name_of(file: str | Path) -> str:
    """Returns how a file is called: its name without the folder; a service as it was named."""
    return str(file) if is_service(str(file)) else Path(file).name


def _read_any(target: str, spill: _Spill, notes: list[str], hints: RecordingHints) -> None:
    """Takes in a file, standard input, or what a service keeps."""
    if is_service(target):
        for rows in points_of_service(target, hints, notes):
            spill.add_frame(rows.select(list(SPILLED)))
        return
    file = Path(target)
    if target == STDIN:
        # Its first bytes say what it is, and some forms are read in parts: it is put into a file.
        file = spill.folder / "standard input"
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
    _read(file, spill, notes, hints)


def _read(file: Path, spill: _Spill, notes: list[str], hints: RecordingHints) -> None:
    refuse_folder(file)
    try:
        with file.open("rb") as opened:
            head = opened.read(HEAD)
    except OSError as error:
        raise InputError(
            str(file), f"cannot be read: {error.strerror}", "", "Check the name and the permissions."
        ) from None
    if head.startswith(PARQUET):
        return _read_parquet(file, spill)
    if not head.startswith(GZIP):
        with file.open("rb") as opened:
            return _read_plain(file, head, opened, spill, notes, hints)
    with gzip.open(file) as opened:
        try:
            head = opened.read(HEAD)
            opened.seek(0)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _damaged(f"{file.name}, start", error) from None
        if head:
            _read_plain(file, head, cast("IO[bytes]", opened), spill, notes, hints)


def _read_plain(
    file: Path, head: bytes, opened: IO[bytes], spill: _Spill, notes: list[str], hints: RecordingHints
) -> None:
    """Reads what is not Parquet, after unpacking; its first bytes say what it is."""
    if b'"metric_stream_name"' in head or b'"metric_name"' in head:
        _read_stream(file, opened, spill, notes)
    elif b"\0" in head and not head.startswith(UTF_16):
        if not _may_be_open_telemetry(head):
            rule = "is of no form that is read here: pages of get-metric-data, CSV, metric streams, an earlier import"
            raise InputError(clip(file.name, 80), rule, f"{DOC}, Points", "Is it the file you meant, and whole?")
        _read_open_telemetry(file, opened, spill, notes)
    else:
        _read_export(file, opened, spill, notes, hints)


def _may_be_open_telemetry(head: bytes) -> bool:
    """True when a file begins as a record in OpenTelemetry format does: its length, seven bits a
    byte, then the tag of its first field."""
    last = next((at for at, byte in enumerate(head) if byte < 0x80), len(head))
    return int.from_bytes(head[: last + 1], "big") > 0 and head[last + 1 : last + 2] == FIRST_FIELD


def _read_export(file: Path, opened: IO[bytes], spill: _Spill, notes: list[str], hints: RecordingHints) -> None:
    try:
        content = opened.read(MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(file.name, error) from None
    if len(content) > MAX_BYTES:
        rule = f"is larger than {MAX_BYTES / 2**20:,.0f} MiB, unpacked"
        raise InputError(file.name, rule, DOC, "Ask for the metrics in several files, of some volumes each.")
    pages = read_pages(content)
    if pages is not None and _take_pages(file, pages[0], spill):
        notes += pages[1]
        return
    recording = recording_of(clip(file.name, 80), content)
    if detect(recording.text)[0] in OF_HOSTS:
        for rows in points_of_recording(parse_recording(recording), hints, notes):
            _check_times(recording.name, rows)
            _check_origin(recording.name, str(rows["volume"][0]), str(file), spill)
            spill.add_frame(rows.select(list(SPILLED)))
        return
    series, stated = cloudwatch.read_metrics(recording)
    same = stated[0] if len(set(stated)) == 1 else None
    periods = {} if stated else _periods_of_page(file, series, spill)
    for (volume, metric), points in series.items():
        if metric not in METRICS:
            continue
        if not volume:
            hint = "Let the label say it: aws cloudwatch get-metric-data with Label 'vol-... VolumeReadOps'."
            raise recording.bad("", metric, "does not say of which volume it is", hint)
        for at, (where, _, value) in points.items():
            if not EARLIEST_S <= at <= LATEST_S:
                place = f"line {where}" if isinstance(where, int) else where
                raise _of_no_time(f"{recording.name}, {place}: {metric}", at)
            spill.add(volume, metric, at, value, period_s=periods.get(volume, same))
    notes += recording.notes


def _check_origin(name: str, volume: str, file: str, spill: _Spill) -> None:
    """Raises InputError for a device that another recording of the same name has too: nothing says
    which host is which."""
    if "/" in volume and spill.origins.setdefault(volume, file) != file:
        rule = f"is in {clip(spill.origins[volume])} too: two recordings of one name"
        hint = "Rename one after its host, or say which volume it is: --device NAME=VOLUME."
        raise InputError(f"{name}: {volume}", rule, DOC, hint)


def _take_pages(file: Path, series: Sequence[MetricSeries], spill: _Spill) -> bool:
    """Takes the series of pages in; False where one is of no volume or of no time, which the slow
    reader says better."""
    ours = [metric_series for metric_series in series if metric_series.metric in METRICS]
    if any(
        not metric_series.volume or metric_series.t_unix.min() < EARLIEST_S or metric_series.t_unix.max() > LATEST_S
        for metric_series in ours
    ):
        return False
    if not ours:
        return True
    periods = _periods_of_series(
        file, [metric_series for metric_series in ours if metric_series.metric in SUMMED], spill
    )
    spill.flush()
    columns: dict[str, Callable[[MetricSeries], object]] = {
        "volume": lambda metric_series: metric_series.volume,
        "metric": lambda metric_series: metric_series.metric,
        "account": lambda metric_series: "",
        "period_s": lambda metric_series: periods.get(metric_series.volume),
    }
    of_part: dict[int, list[MetricSeries]] = {}
    for metric_series in ours:
        of_part.setdefault(spill.part_of(metric_series.volume), []).append(metric_series)
    for number, own in of_part.items():
        values = np.concatenate([metric_series.values for metric_series in own])
        spill.write(number, _repeated(own, columns).with_columns(value=values))
    return True


def _periods_of_series(file: Path, series: Sequence[MetricSeries], spill: _Spill) -> dict[str, float]:
    """Returns the period of each volume, where its points tell it. Series share their times as a
    rule, and so the array of them: what is alike is looked at once."""
    of_volume: dict[str, dict[int, MetricSeries]] = {}
    for metric_series in series:
        of_volume.setdefault(metric_series.volume, {})[id(metric_series.t_unix)] = metric_series
    alike: dict[frozenset[int], list[str]] = {}
    for volume, own in of_volume.items():
        alike.setdefault(frozenset(own), []).append(volume)
    if not alike:
        return {}
    first = [metric_series for volumes in alike.values() for metric_series in of_volume[volumes[0]].values()]
    sparse: dict[str, str] = {}
    periods = _periods_of(file, _repeated(first, {"volume": lambda metric_series: metric_series.volume}), sparse)
    for volumes in alike.values():
        if (period := periods.get(volumes[0])) is not None:
            periods |= dict.fromkeys(volumes, period)
        if (holes := sparse.get(volumes[0])) is not None:
            sparse |= dict.fromkeys(volumes, holes)
    spill.sparse |= sparse
    return periods


def _repeated(series: Iterable[MetricSeries], columns: dict[str, Callable[[MetricSeries], object]]) -> pl.DataFrame:
    """Returns a row a point: its time, and what `columns` say of its series."""
    series = list(series)
    places = np.repeat(np.arange(len(series), dtype=np.uint32), [len(metric_series.t_unix) for metric_series in series])
    of_series = pl.DataFrame(
        {name: [value(metric_series) for metric_series in series] for name, value in columns.items()},
        schema={name: SPILLED[name] for name in columns},
    )
    return of_series[places].with_columns(t_unix=np.concatenate([metric_series.t_unix for metric_series in series]))


def _periods_of_page(file: Path, series: cloudwatch.Metrics, spill: _Spill) -> dict[str, float]:
    """Returns the period of each volume in a page, where its points tell it."""
    rows = [(volume, at) for (volume, metric), points in series.items() if metric in SUMMED for at in points]
    schema = {name: SPILLED[name] for name in ("volume", "t_unix")}
    return _periods_of(file, pl.DataFrame(rows, schema=schema, orient="row"), spill.sparse) if rows else {}


def _periods_of(file: Path, times: pl.DataFrame, sparse: dict[str, str]) -> dict[str, float]:
    """Returns the period of each volume by the times of its points; volumes that lack some go to
    `sparse`."""
    spacing = _spacing_of(times, f"{clip(file.name, 80)}, ")
    _note_sparse(spacing, sparse)
    # Holes alone can make most steps longer; then all points of the volume decide.
    sure = spacing.filter(pl.col("steps") >= LEAST_STEPS, pl.col("shortest") >= pl.col("period_s") - STEP_SLACK_S)
    return dict(sure.select("volume", "period_s").rows())


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
                bad = InputError(f"{file.name}, line {number}: {clip(line.decode(errors='replace'))}", rule, STREAMS)
                continue  # a last line may be cut off; refused when another follows
            taken += 1
            _take(file, "line", number, point, spill)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(f"{file.name}, line {number}", error) from None
    if bad is not None:
        if not taken:  # a file of one line is not cut off: it is something else
            raise bad
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
    figure = {"Sum": value.sum, "Average": value.sum / value.count, "Maximum": value.max}[statistic]
    if not 0 <= figure <= MOST_VALUE:
        rule = "must be 0 or more, and finite"
        raise InputError(f"{file.name}, {unit} {number}: {point.metric_name} = {figure:g}", rule, STREAMS)
    if not EARLIEST_S <= point.timestamp / MS_PER_S <= LATEST_S:
        raise _of_no_time(f"{file.name}, {unit} {number}: {point.metric_name}", point.timestamp / MS_PER_S)
    spill.add(volume, point.metric_name, point.timestamp / MS_PER_S, figure, point.account_id, point.period_s)


def _read_parquet(file: Path, spill: _Spill) -> None:
    name = clip(file.name, 80)
    with _parquet(name):
        lazy = pl.scan_parquet(file)
        names = lazy.collect_schema()
    if set(COLUMNS) <= set(names):
        columns = {column: metric for metric, (column, _) in METRICS.items()}
        index = ["volume", "t_unix", "account", "period_s"]
        for rows in _slices(name, lazy.select(COLUMNS), POINTS_AT_ONCE // len(columns)):
            long = rows.unpivot(on=list(columns), index=index, variable_name="metric")
            measured = long.filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
            measured = measured.with_columns(pl.col("metric").replace_strict(columns)).select(list(SPILLED))
            _check_times(name, measured)
            spill.add_frame(measured)
        return
    columns = _stream_columns(name, names)
    ours = (pl.col("namespace") == NAMESPACE) & pl.col("metric_name").is_in(list(METRICS))
    for rows in _slices(name, lazy, POINTS_AT_ONCE):
        frame = rows.filter(ours).select(**columns).select(list(SPILLED)).drop_nulls(["volume"])
        wrong = frame.filter(~pl.col("value").is_finite() | (pl.col("value") < 0) | (pl.col("value") > MOST_VALUE))
        if wrong.height:
            first = wrong.row(0, named=True)
            value = f"{name}: {first['metric']} of {first['volume']} = {first['value']}"
            raise InputError(value, "must be 0 or more, and finite", STREAMS)
        _check_times(name, frame)
        spill.add_frame(frame)


@contextmanager
def _parquet(name: str) -> Iterator[None]:
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        rule = f"is cut off or damaged: {clip(str(error))}"
        raise InputError(name, rule, "Apache Parquet", "Fetch the object or make the file again.") from None


def _slices(name: str, lazy: pl.LazyFrame, rows: int) -> Iterator[pl.DataFrame]:
    """Yields the rows of a file in parts of that many: a fleet does not fit into memory."""
    with _parquet(name):
        height = lazy.select(pl.len()).collect().item()
    for begin in range(0, height, rows):
        with _parquet(name):
            part = lazy.slice(begin, rows).collect()
        yield part


def _stream_columns(name: str, names: pl.Schema) -> dict[str, pl.Expr]:
    """Returns what makes SPILLED's columns of those of a metric stream. Raises InputError for
    others."""
    needed = {"namespace", "metric_name", "dimensions", "timestamp", "value"}
    if not needed <= set(names):
        rule = f"lacks {', '.join(sorted(needed - set(names)))}: it is neither of an import nor of a metric stream"
        raise InputError(name, rule, STREAMS)
    time = pl.col("timestamp")
    if isinstance(names["timestamp"], pl.Datetime):
        seconds = time.dt.epoch("us") / 1e6
    elif names["timestamp"].is_integer():
        seconds = time / MS_PER_S
    else:
        raise _of_kind(name, names, "timestamp", "must be a timestamp, or milliseconds")
    value = names["value"]
    if not isinstance(value, pl.Struct) or not {"count", "sum", "max"} <= {part.name for part in value.fields}:
        raise _of_kind(name, names, "value", "must be a struct with count, sum and max")
    count, total, largest = (pl.col("value").struct.field(part) for part in ("count", "sum", "max"))
    statistic = pl.col("metric_name").replace_strict({metric: stat for metric, (_, stat) in METRICS.items()})
    figure = pl.when(statistic == "Average").then(total / count).when(statistic == "Maximum").then(largest)
    return {
        "volume": _volume_column(name, names),
        "metric": pl.col("metric_name"),
        "t_unix": seconds.cast(pl.Float64),
        "value": figure.otherwise(total).cast(pl.Float64),
        "account": pl.col("account_id").cast(pl.String).fill_null("") if "account_id" in names else pl.lit(""),
        "period_s": pl.lit(None, dtype=pl.Float64),
    }


def _volume_column(name: str, names: pl.Schema) -> pl.Expr:
    """Returns the VolumeId in the dimensions: a struct, or a map (to Parquet a list of key and
    value)."""
    kind, dimensions = names["dimensions"], pl.col("dimensions")
    inner = kind.inner if isinstance(kind, pl.List) else None
    if isinstance(inner, pl.Struct) and {"key", "value"} <= {part.name for part in inner.fields}:
        key, value = pl.element().struct.field("key"), pl.element().struct.field("value")
        return dimensions.list.eval(value.filter(key == "VolumeId")).list.first().cast(pl.String)
    if isinstance(kind, pl.Struct) and "VolumeId" in {part.name for part in kind.fields}:
        return dimensions.struct.field("VolumeId").cast(pl.String)
    raise _of_kind(name, names, "dimensions", "must be a struct with VolumeId, or a map")


def _of_kind(name: str, names: pl.Schema, column: str, rule: str) -> InputError:
    hint = "Let Firehose convert the stream as the guide of metric streams says, or import its JSON."
    return InputError(f"{name}: {column} is {clip(str(names[column]))}", rule, STREAMS, hint)


def _check_times(name: str, points: pl.DataFrame) -> None:
    wrong = points.filter(~pl.col("t_unix").is_between(EARLIEST_S, LATEST_S).fill_null(False))
    if wrong.height:
        first = wrong.row(0, named=True)
        raise _of_no_time(f"{name}: {first['metric']} of {first['volume']}", first["t_unix"])


def _of_no_time(place: str, t_unix: float | None) -> InputError:
    value = f"{place} at {'no time' if t_unix is None else f'{t_unix:.6g} s since 1970'}"
    hint = "Are its times in another unit? They must be timestamps, or milliseconds since 1970."
    return InputError(value, "must be between 2006, when EC2 began, and 2100", STREAMS, hint)


def _wide(
    part: pl.DataFrame, period_s: float | None, sparse: dict[str, str], lacking: dict[str, list[str]]
) -> pl.DataFrame:
    """Returns the rows of the file, volume by volume in the order of time. `lacking` gets the
    volumes of which one of the four metrics is not there at all."""
    part = _of_one_account(_numbered(part)).with_columns(pl.when(pl.col("period_s") > 0).then("period_s"))
    sums = part.filter(pl.col("metric").is_in(SUMMED))
    _check_one_period_at_a_time(sums.filter(pl.col("period_s").is_null()))
    sums = _with_periods(sums, sparse)
    _check_periods(sums, period_s)
    wide = _pivoted(sums, ["volume", "t_unix", "period_s", "account"])
    # All others are joined by their time alone: CloudWatch has some of it every five minutes only.
    states = _pivoted(part.filter(~pl.col("metric").is_in(SUMMED)), ["volume", "t_unix"])
    wide = wide.join(states, on=["volume", "t_unix"], how="left", maintain_order="left")
    wide = wide.with_columns(
        pl.lit(None, dtype=kind).alias(name) for name, kind in SCHEMA.items() if name not in wide.columns
    )
    whole = pl.all_horizontal(pl.col(SUMS).is_not_null())
    if wide.filter(~whole).height:
        wide = wide.filter(_in_order(wide, lacking))
    if period_s is not None:
        wide = _coarser(wide, period_s)
    return wide.with_columns(pl.col(pl.Float64).fill_null(float("nan")), pl.col("volume").cast(pl.String)).select(
        COLUMNS
    )


def _numbered(part: pl.DataFrame) -> pl.DataFrame:
    """Turns volumes and metrics into numbers with names: sorted, joined and compared as numbers, in
    the order of their names."""
    volumes = pl.Enum(part["volume"].unique().sort())
    return part.with_columns(pl.col("volume").cast(volumes), pl.col("metric").cast(pl.Enum(list(METRICS))))


def _in_order(wide: pl.DataFrame, lacking: dict[str, list[str]]) -> pl.Expr:
    """Returns which rows stay: a period without one of the four tells no demand, since CloudWatch
    publishes them together. A volume of which one was never there keeps its rows without it, so
    that it can be said what is missing."""
    there = wide.group_by("volume", maintain_order=True).agg(pl.col(SUMS).is_not_null().any())
    metrics = {column: metric for metric, (column, _) in METRICS.items()}
    never = {
        row["volume"]: [metrics[name] for name in SUMS if not row[name]]
        for row in there.iter_rows(named=True)
        if not all(row[name] for name in SUMS)
    }
    lacking |= never
    incomplete = pl.col("volume").cast(pl.String).is_in(list(never))
    return incomplete | pl.all_horizontal(pl.col(SUMS).is_not_null())


def _of_one_account(part: pl.DataFrame) -> pl.DataFrame:
    """Returns the points with the account of their volume; pages tell none. Raises InputError for
    two."""
    if part["account"].n_unique() == 1:
        return part
    accounts = part.group_by("volume").agg(pl.col("account").filter(pl.col("account") != "").unique().sort())
    twice = accounts.filter(pl.col("account").list.len() > 1).sort("volume")
    if twice.height:
        first = twice.row(0, named=True)
        value = f"{first['volume']} in accounts {', '.join(first['account'])}"
        raise InputError(value, "a volume belongs to one account", DOC, "Import the accounts into files of their own.")
    account_of = accounts.select("volume", pl.col("account").list.first().fill_null(""))
    return part.drop("account").join(account_of, on="volume", maintain_order="left")


def _pivoted(rows: pl.DataFrame, index: list[str]) -> pl.DataFrame:
    """Returns a row for each of `index`, with a column for each metric, in the order of volume and
    time; of points that come twice the last one read."""
    keys = _keys(rows, index)
    if keys is None:
        # Sorted before the pivot: the last one read stays, and the order does not hang on threads.
        last = rows.unique([*index, "metric"], keep="last", maintain_order=True)
        wide = last.sort("volume", "t_unix", maintain_order=True).pivot(
            "metric", index=index, values="value", maintain_order=True
        )
        return wide.rename({metric: column for metric, (column, _) in METRICS.items() if metric in wide.columns})
    whole = np.unique(keys)
    places = np.searchsorted(whole, keys)
    # Which row tells the index of each place: all that do tell the same.
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


def _keys(rows: pl.DataFrame, index: list[str]) -> np.ndarray | None:
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


def _spacing_of(times: pl.DataFrame, where: str = "") -> pl.DataFrame:
    """Returns the most frequent step between the points of each volume (`period_s`; the shorter of
    two), the `shortest`, how many there are, and a `longer` one that comes many times in a row.
    Raises InputError where they are of two periods."""
    steps = times.select("volume", "t_unix").unique().sort("volume", "t_unix")
    steps = steps.with_columns(pl.col("t_unix").diff().over("volume").alias("step")).drop_nulls("step")
    step = pl.col("step")
    spacing = steps.group_by("volume").agg(
        step.mode().min().alias("period_s"), step.min().alias("shortest"), pl.len().alias("steps")
    )
    run = pl.struct("volume", "step").rle_id().alias("run")
    runs = steps.group_by("volume", run, maintain_order=True).agg(step.first(), pl.len().alias("long"))
    runs = runs.join(spacing, on="volume", maintain_order="left")
    other = runs.filter(step < pl.col("period_s") - STEP_SLACK_S, pl.col("long") >= SHORTER_IN_A_ROW)
    if other.height:
        first = other.row(0, named=True)
        value = f"{where}{first['volume']}: points {first['step']:g} s and {first['period_s']:g} s apart"
        rule = "are of two periods, and do not say which is of which"
        longest = _common([first["step"], first["period_s"]])
        hint = f"Import the files of each period alone, then join both imports with --period {longest:g}."
        raise InputError(value, rule, DOC, hint)
    longer = runs.filter(step > pl.col("period_s") + STEP_SLACK_S, pl.col("long") >= LONGER_IN_A_ROW)
    return spacing.join(longer.group_by("volume").agg(step.first().alias("longer")), on="volume", how="left")


def _check_one_period_at_a_time(points: pl.DataFrame) -> None:
    """Raises InputError where a volume has points of two periods at the same times. Points that
    come twice with other figures are corrections, and the last counts, unless they recur at a fixed
    interval and equal the sum of the following points: then they are points of a longer period."""
    figures = points.group_by("volume", "metric", "t_unix").agg(
        pl.col("value").min().alias("least"), pl.col("value").max().alias("most")
    )
    twice = figures.filter(pl.col("most") > pl.col("least"))
    for (volume,), corrected in sorted(twice.group_by("volume")):
        of_volume = figures.filter(pl.col("volume") == volume).sort("t_unix")
        times = of_volume["t_unix"].unique().sort()
        apart = float(times.diff().drop_nulls().mode().min() or 0.0)  # pyright: ignore[reportArgumentType]
        steps = corrected["t_unix"].unique().sort().diff().drop_nulls()
        longer = float(steps.mode().min() or 0.0) if len(steps) else 0.0  # pyright: ignore[reportArgumentType]
        if apart <= 0.0 or longer < 2 * apart - STEP_SLACK_S:
            continue
        sums, alike = 0, 0
        for (metric,), own in corrected.group_by("metric"):
            series = of_volume.filter(pl.col("metric") == metric)
            at, least = series["t_unix"].to_numpy(), np.cumsum(np.append(0.0, series["least"].to_numpy()))
            begins = own["t_unix"].to_numpy()
            added = least[np.searchsorted(at, begins + longer)] - least[np.searchsorted(at, begins)]
            sums += own.height
            alike += int((np.abs(own["most"].to_numpy() - added) <= SUM_SLACK * added).sum())
        if sums >= LEAST_STEPS and alike >= sums / 2:
            value = f"{volume}: points of {apart:g} s and of {longer:g} s at the same times"
            rule = "are of two periods, and do not say which is of which"
            hint = f"Import the files of each period alone, or leave those of {longer:g} s out: the others have it all."
            raise InputError(value, rule, DOC, hint)


def _with_periods(sums: pl.DataFrame, sparse: dict[str, str]) -> pl.DataFrame:
    """Returns points that all have a period; those whose period nothing tells are left out."""
    open_ones = sums.filter(pl.col("period_s").is_null())
    if not open_ones.height:
        return sums
    spacing = _spacing_of(open_ones)
    _note_sparse(spacing, sparse)
    stated = sums.group_by("volume").agg(pl.col("period_s").drop_nulls().unique().alias("known"))
    only = stated.filter(pl.col("known").list.len() == 1).select("volume", pl.col("known").list.first())
    sums = sums.join(
        spacing.select("volume", pl.col("period_s").alias("told")), on="volume", how="left", maintain_order="left"
    )
    sums = sums.join(only, on="volume", how="left", maintain_order="left")
    return sums.with_columns(pl.coalesce("period_s", "told", "known")).drop_nulls("period_s")


def _note_sparse(spacing: pl.DataFrame, sparse: dict[str, str]) -> None:
    for volume, period, longer in spacing.drop_nulls("longer").select("volume", "period_s", "longer").rows():
        sparse[volume] = f"{longer:g} s apart for a while, and {period:g} s as a rule"


def _check_periods(sums: pl.DataFrame, period_s: float | None) -> None:
    """Raises InputError where a volume has points of periods that cannot become one."""
    periods = sums.select("volume", "period_s").unique().sort("volume", "period_s")
    if period_s is None:
        of_volume = periods.group_by("volume", maintain_order=True).agg("period_s")
        several = of_volume.filter(pl.col("period_s").list.len() > 1)
        if several.height:
            volume, lengths = several.row(0)
            value = f"{volume}: points of {' and of '.join(f'{length:g} s' for length in lengths)}"
            hint = f"Add --period {_common(lengths):g}, or leave the files of the other periods out."
            raise InputError(value, "the points of one volume must be of one period", DOC, hint)
        return
    for volume, period in periods.rows():
        if period > period_s:
            value = f"{volume}: points of {period:g} s"
            raise InputError(value, f"cannot be made finer: {period_s:g} s", DOC, "Leave --period out.")
        if period_s % period:
            value = f"{volume}: points of {period:g} s"
            rule = f"cannot become points of {period_s:g} s, which is not a multiple of it"
            raise InputError(value, rule, DOC, f"Give --period {math.ceil(period_s / period) * period:g}.")


def _common(periods: Sequence[float]) -> float:
    """Returns the shortest period that all of them divide."""
    return math.lcm(*(math.ceil(period) for period in periods))


def _coarser(wide: pl.DataFrame, period_s: float) -> pl.DataFrame:
    """Returns sums and means over longer periods. Points that overlap, of one period or of several,
    count by their lengths: the sum is that of the mean rate."""
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
