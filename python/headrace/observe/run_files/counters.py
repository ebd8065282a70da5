"""Headrace's own samples of /proc/diskstats: a CSV with `time`, `device` and cumulative counters,
as `headrace workload capture` writes. Requests are those that a volume counts
(`observe/live/host.py`, count_volume_requests)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from headrace.base.units import MIB, format_percent
from headrace.observe.clock import parse_iso
from headrace.observe.formats.devices import MAX_MISSING_SHARE
from headrace.observe.live.host import count_volume_requests
from headrace.observe.recording import Recording, clip
from headrace.observe.series import DOC, RunFinding, TimeSeries, find_wide_intervals, open_text, read_csv_rows, refuse

NEEDED = ("reads", "read_bytes", "writes", "write_bytes")
# Counters that say how many of these reached the volume as a request.
OPTIONAL = ("reads_merged", "writes_merged", "flushes")
MAX_SAMPLES = 3_000_000  # a month of seconds; ours
# A device has the samples of the others at the same moment, but for what a thread is late.
SAME_MOMENT_S = 0.05


def read_counters(path: Path, device: str | None, findings: list[RunFinding]) -> TimeSeries:
    """Returns the devices of a file together as rates between samples. `device`: their names,
    joined by +; None: all. Raises InputError."""
    recording = open_text(path)
    by_device = _read_samples(recording, findings)
    names = _choose_devices(recording, by_device, device)
    return _sum_devices(recording, {name: by_device[name] for name in names})


def _read_samples(recording: Recording, findings: list[RunFinding]) -> dict[str, list[tuple[float, ...]]]:
    """Returns by device (seconds since 1970, counters of NEEDED and OPTIONAL), in order of time."""
    by_device: dict[str, list[tuple[float, ...]]] = {}
    header: list[str] = []
    for number, cells in read_csv_rows(recording, findings):
        if not header:
            header = _read_header(recording, number, cells)
            continue
        if number > MAX_SAMPLES:
            raise recording.make_error(
                number, f"more than {MAX_SAMPLES:,} samples", "is too many", "Cut the file.", DOC
            )
        _add_sample(recording, number, dict(zip(header, cells, strict=True)), by_device)
    return by_device


def _read_header(recording: Recording, number: int, cells: list[str]) -> list[str]:
    """Returns the names of the columns, in lower case. Raises InputError if a needed one is
    missing, or is there twice."""
    header = [cell.strip().lower() for cell in cells]
    missing = [name for name in ("time", "device", *NEEDED) if name not in header]
    if missing or len(set(header)) != len(header):
        what = f"no column {missing[0]}" if missing else "a column is there twice"
        hint = "`headrace workload capture` writes such a file; iostat's goes under files.iostat."
        raise recording.make_error(
            number, what, f"files.disk has the columns time, device, {', '.join(NEEDED)}", hint, DOC
        )
    return header


def _add_sample(
    recording: Recording, number: int, row: dict[str, str], by_device: dict[str, list[tuple[float, ...]]]
) -> None:
    """Adds a sample, seconds since 1970 and counters, to its device. Raises InputError for a
    damaged row or a time that goes back."""
    stamp = parse_iso(row["time"])
    if stamp is None:
        rule = "must be ISO 8601 or seconds since 1970"
        raise recording.make_error(number, f"time = {clip(row['time'], 40)}", rule, "", DOC)
    device = row["device"].strip()
    if not device or not device.isprintable() or len(device) > 100:
        raise recording.make_error(number, f"device = {clip(device, 40)}", "must be the name of a device", "", DOC)
    values = [recording.parse_number(number, name, row[name]) for name in NEEDED]
    values += [
        recording.parse_number(number, name, row[name]) if row.get(name, "").strip() else 0.0 for name in OPTIONAL
    ]
    samples = by_device.setdefault(device, [])
    if samples and stamp.epoch_s <= samples[-1][0]:
        rule = "samples of a device follow each other"
        hint = "The clock was set: cut the file there."
        raise recording.make_error(number, f"{samples[-1][0] - stamp.epoch_s:g} s back in time", rule, hint, DOC)
    samples.append((stamp.epoch_s, *values))


def _choose_devices(recording: Recording, by_device: dict, device: str | None) -> list[str]:
    """Returns the devices to read: those that `device` names, joined by +, or all with None. Raises
    InputError for a name that is not in the file."""
    if not by_device:
        hint = "Was the recording stopped before its first sample?"
        raise recording.make_error("", "no sample", "is in the file", hint, DOC)
    if device is None:
        return list(by_device)
    names = [name.strip().removeprefix("/dev/") for name in device.split("+")]
    for name in names:
        if name not in by_device:
            hint = f"There are: {', '.join(list(by_device)[:20])}."
            raise recording.make_error("", f"files.device = {clip(device, 60)}", "is not in the file", hint, DOC)
    if len(set(names)) != len(names):
        raise recording.make_error(
            "", f"files.device = {clip(device, 60)}", "names a device twice", "Name each once.", DOC
        )
    return names


def _sum_devices(recording: Recording, by_device: dict[str, list[tuple[float, ...]]]) -> TimeSeries:
    """Returns sums of the devices, IOPS and MiB/s, between moments at which all were sampled.
    Raises InputError if they were not sampled together, or only once."""
    names = list(by_device)
    if len({len(samples) for samples in by_device.values()}) > 1 or any(
        abs(row[0] - first[0]) > SAME_MOMENT_S
        for samples in by_device.values()
        for row, first in zip(samples, by_device[names[0]], strict=True)
    ):
        counts = ", ".join(f"{name} {len(samples)}" for name, samples in by_device.items())
        hint = "Name the devices of this run in files.device."
        raise recording.make_error(
            "", f"samples of {counts}", "of an array all devices are sampled together", hint, DOC
        )
    if len(by_device[names[0]]) < 2:
        raise recording.make_error("", "one sample", "rates need two", "Record longer.", DOC)
    times = [row[0] for row in by_device[names[0]]]
    starts, durations = [at - times[0] for at in times[:-1]], [b - a for a, b in pairwise(times)]
    rates: dict[str, list[float | None]] = {
        name: [] for name in ("read_iops", "read_mib_s", "write_iops", "write_mib_s")
    }
    restarts = set()
    for index, duration in enumerate(durations):
        changes = [_count_requests(name, by_device[name][index], by_device[name][index + 1]) for name in names]
        if None in changes:
            restarts.add(index)
        for name, scale, parts in zip(
            rates, (1.0, MIB, 1.0, MIB), zip(*(change or (0.0,) * 4 for change in changes), strict=True), strict=True
        ):
            rates[name].append(None if None in changes else sum(parts) / scale / duration)
    gaps = _find_gaps(recording, starts, durations, restarts)
    return TimeSeries(recording.name, recording.sha256, starts, durations, rates, times[0], times[0], gaps)


def _count_requests(
    device: str, before: tuple[float, ...], after: tuple[float, ...]
) -> tuple[float, float, float, float] | None:
    """Returns reads, bytes read, writes and bytes written between two samples, as requests of the
    volume; None where a counter fell."""
    changes = [b - a for a, b in zip(before[1:], after[1:], strict=True)]
    if any(change < 0 for change in changes):
        return None
    change: dict[str, float] = dict(zip((*NEEDED, *OPTIONAL), changes, strict=True))
    reads, writes = count_volume_requests(device, change)
    return reads, change["read_bytes"], writes, change["write_bytes"]


def _find_gaps(
    recording: Recording, starts: list[float], durations: list[float], restarts: set[int]
) -> list[RunFinding]:
    """Returns findings on missing samples and on counters that started over; times are in seconds.
    Raises InputError if too large a share of the time is missing."""
    findings = []
    usual = sorted(durations)[len(durations) // 2]
    wide = find_wide_intervals(durations, usual, SAME_MOMENT_S)
    missing = sum(durations[index] - usual for index in wide)
    total = starts[-1] + durations[-1]
    if missing > MAX_MISSING_SHARE * total:
        rule = f"at most {format_percent(MAX_MISSING_SHARE)} may be missing"
        hint = "The recording was stopped: cut the file there."
        raise refuse.input(f"{recording.name}: {missing:,.0f} of {total:,.0f} s have no samples", rule, hint)
    if wide:
        text = f"{recording.name}: {len(wide)} gaps between samples, {missing:,.0f} s in all; figures there are means over the gap."
        findings.append(RunFinding("gap", text, starts[wide[0]]))
    if restarts:
        text = (
            f"{recording.name}: a counter starts over {len(restarts)} times: the device was attached again. Null there."
        )
        findings.append(RunFinding("restart", text, starts[min(restarts)]))
    return findings
