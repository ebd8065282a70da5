"""Points of a fleet from recordings of single hosts (iostat, sar, vmstat, Prometheus), and from
services that keep them (`prometheus:URL`, `aws:vol-...`, `aws:db-NAME`).

CloudWatch's own exports have the ids of volumes in them; a host's recording has its devices. A
device is the volume that `--device NAME=VOLUME` says, or that its serial number tells
(node_exporter on Nitro), or else it is called RECORDING/DEVICE: such points are kept, and an
inventory of AWS does not know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from headrace.observe.formats import LoadedRecording, ReadOptions, load_recording
from headrace.observe.formats.devices import build_device_series, determine_begin, rank_devices
from headrace.observe.recording import clip
from headrace.observe.remote import aws
from headrace.observe.remote.prometheus import PREFIX, list_hosts, parse_target
from headrace.observe.remote.span import TimeSpan
from headrace.operate.fleet.points import METRICS, refuse

# Rates of a device, a second, by the metric whose sum over the period they make.
RATES = {
    "VolumeReadOps": ("reads_per_s", 1.0),
    "VolumeWriteOps": ("writes_per_s", 1.0),
    "VolumeReadBytes": ("read_kib_s", 1_024.0),
    "VolumeWriteBytes": ("write_kib_s", 1_024.0),
}
STATES = {"VolumeQueueLength": "queue", "BurstBalance": "balance_percent"}
# RDS's names of the same, of which those of rates are a second's (observe.formats.cloudwatch.RDS).
OF_RDS = {
    "ReadIOPS": ("VolumeReadOps", True),
    "WriteIOPS": ("VolumeWriteOps", True),
    "ReadThroughput": ("VolumeReadBytes", True),
    "WriteThroughput": ("VolumeWriteBytes", True),
    "DiskQueueDepth": ("VolumeQueueLength", False),
    "BurstBalance": ("BurstBalance", False),
}
ARRAYS = ("md", "dm-")  # devices that show the I/O of others again (Linux, devices.txt)


@dataclass(frozen=True)
class RecordingHints:
    """Facts given besides the recordings. `interval_s`, `clock_start`: of those without times.
    `span`: the time that services are asked for. `volumes`: by device ("nvme1n1", or "db1/nvme1n1"
    of one recording among several), the id of the volume; where any is named, no other is
    imported."""

    interval_s: float | None = None
    clock_start: str | None = None
    span: TimeSpan | None = None
    volumes: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[float], None] = lambda share: None


def parse_devices(given: list[str]) -> dict[str, str]:
    """Parses the volumes of devices from NAME=VOLUME. Raises InputError."""
    volumes: dict[str, str] = {}
    for text in given:
        device, _, volume = text.partition("=")
        device, volume = device.strip().removeprefix("/dev/"), volume.strip()
        if not device or not volume:
            rule = "must be the name of a device and the id of its volume"
            raise refuse.input(f"--device {clip(text)}", rule, "For example --device nvme1n1=vol-0123456789abcdef0.")
        if device in volumes or volume in volumes.values():
            rule = "names a device or a volume that another --device names"
            raise refuse.input(f"--device {clip(text)}", rule, "Name each of them once.")
        volumes[device] = volume
    return volumes


def read_service_points(target: str, hints: RecordingHints, notes: list[str]) -> Iterator[pl.DataFrame]:
    """Yields rows (volume, metric, t_unix, value, account, period_s) of what a service keeps, of
    Prometheus those of all hosts that the target selects. Adds to `notes` what a reader should know
    of them. Raises InputError, CouldNotRun."""
    span = hints.span or TimeSpan()
    if target.startswith(PREFIX):
        for host_target in list_hosts(target, span):
            options = ReadOptions(span=span, step_s=hints.interval_s, progress=hints.progress)
            loaded = load_recording(host_target, options)
            # With its port: hosts may differ by it alone.
            loaded.recording.title = parse_target(host_target).labels[0][1]
            yield from read_recording_points(loaded, replace(hints, interval_s=None), notes)
        return
    if hints.interval_s is not None:
        rule = "is for recordings without times, and CloudWatch's points have their own period"
        raise refuse.input(f"--interval {hints.interval_s:g}", rule, "Leave it out, or give --period.")
    fetched = aws.fetch(target, span)
    notes += fetched.notes
    for (volume, metric), values in fetched.points.items():
        name, sum_of_rate = OF_RDS.get(metric, ("", False)) if not volume else (metric, False)
        if name not in METRICS or not values:
            continue
        factor = fetched.period_s if sum_of_rate else 1.0
        figures = [value * factor for value in values.values()]
        yield _make_rows(volume or fetched.name, name, list(values), figures, fetched.period_s)


def read_recording_points(loaded: LoadedRecording, hints: RecordingHints, notes: list[str]) -> Iterator[pl.DataFrame]:
    """Yields rows of a host's recording as `read_service_points` does. Raises InputError."""
    recording, readings = loaded.recording, loaded.readings
    title = recording.title or recording.name.rsplit(".", 1)[0]
    devices = rank_devices(readings)
    volumes = {
        device: volume for device in devices if (volume := _find_volume(device, title, loaded, hints)) is not None
    }
    if not volumes:
        choices = ", ".join(devices[:12]) or "none"
        value = f"{recording.name}: {', '.join(f'--device {name}' for name in hints.volumes) or 'no devices'}"
        raise refuse.input(value, "has no device that is to be imported", f"There are: {choices}.")
    without_zone = False
    for device, volume in volumes.items():
        copy, apart = loaded.copy_parts()
        _, interval_s, series = build_device_series(copy, apart, device, hints.interval_s)
        notes += copy.notes
        begin = determine_begin(copy, apart, interval_s, hints.clock_start)
        if begin is None:
            hint = "Say when it began: --clock-start 2026-11-21T10:00:00."
            raise recording.make_error("", "no times", "points of a fleet have their times", hint)
        without_zone = begin.zone is None and apart.reports[0].stamp is not None
        times = [begin.epoch_s + start for start in series.start_s]
        for metric, (column, factor) in RATES.items():
            sums = [(value or 0.0) * factor * interval_s for value in series.columns[column]]
            yield _make_rows(volume, metric, times, sums, interval_s)
        for metric, column in STATES.items():
            published = [
                (at, value) for at, value in zip(times, series.columns[column], strict=True) if value is not None
            ]
            if published:
                yield _make_rows(
                    volume, metric, [at for at, _ in published], [value for _, value in published], interval_s
                )
    unknown = [volume for volume in volumes.values() if "/" in volume]
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        notes.append(
            f"{unknown[0]}{more}: which volume that is, the recording does not say; an inventory has ids. "
            f"Say it: --device {unknown[0].rpartition('/')[2]}=vol-..."
        )
    if without_zone:
        notes.append(f"{recording.name}: its times are of the host's own clock, without a zone, and are taken for UTC.")


def _find_volume(device: str, title: str, loaded: LoadedRecording, hints: RecordingHints) -> str | None:
    """Returns the id of the volume behind a device, or HOST/DEVICE where it is not known; None for
    a device that is not imported."""
    plain = device.rpartition("/")[2]
    host = device.rpartition("/")[0] or title
    named = hints.volumes.get(f"{host}/{plain}") or hints.volumes.get(plain)
    if hints.volumes or named:
        return named
    if plain.startswith(ARRAYS):
        return None
    described = loaded.readings.described.get(device)
    return described.id if described is not None else f"{host}/{plain}"


def _make_rows(volume: str, metric: str, times: list[float], values: list[float], period_s: float) -> pl.DataFrame:
    """Returns rows (see `read_service_points`) of the points of one metric of a volume. `times`:
    Unix seconds."""
    return pl.DataFrame(
        {"t_unix": times, "value": values}, schema={"t_unix": pl.Float64, "value": pl.Float64}
    ).with_columns(
        volume=pl.lit(volume), metric=pl.lit(metric), account=pl.lit(""), period_s=pl.lit(period_s, dtype=pl.Float64)
    )
