"""From the reports of a tool to the series of one device, and from that to a workload without gaps.

Every importer hands over the same thing: for each device, one sample a report. A report stamped T
covers the interval that ends at T (sysstat, vmstat) or begins there (CloudWatch).
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import polars as pl

from headrace.base.checks import check_choice, check_name, check_number
from headrace.base.units import HOUR_S, format_percent
from headrace.errors import InputError
from headrace.observe.clock import EPOCH, Stamp, parse_iso
from headrace.observe.recording import Recording, clip, refuse
from headrace.observe.series import TimeSeries
from headrace.workload.model import OpenWorkload
from headrace.workload.points import (
    LOCAL_ZONE,
    MAX_IO_KIB,
    MAX_OPS_PER_S,
    MAX_POINTS,
    MAX_RECORDED_POINT_S,
    MIN_IO_KIB,
    MIN_POINT_S,
    OBSERVED_COLUMNS,
    POINT_COLUMNS,
    make_points,
)

GAPS = ("refuse", "hold", "zero")
RATES = ("reads_per_s", "writes_per_s", "read_kib_s", "write_kib_s")
# Up to this share may be missing before a recording is refused: less changes the mean by less than
# the day-to-day spread.
MAX_MISSING_SHARE = 0.10
# Printed times are whole seconds, so two stamps can be off by one second together; tools also wake
# late under load.
STAMP_SLACK_S = 1.0
STAMP_SLACK_SHARE = 0.10  # of the interval; a guess
# Figures besides the rates that are left out: they are not measurements. Older kernels count
# requests in flight wrongly and print %util of thousands or queues of millions; a little above 100
# % comes from the interval being measured twice.
MOST_UTIL_PERCENT = 110.0
MOST_QUEUE = 1e6  # outstanding: Linux queues 1,023 a device
MOST_AWAIT_MS = 1e7  # almost three hours; Linux gives up after 30 s
ABSURD_NOTE = (
    "Some latencies, queues or utilisations were left out: they are "
    "beyond what a device can do (some kernels count requests in "
    "flight wrongly). The rates are not touched by that."
)
# A device is taken by default only if it does at least this many times the I/Os of the next one.
CLEARLY_BUSIEST = 2.0


class Observed(NamedTuple):
    """Figures that a tool has of a device besides its rates, in the order of OBSERVED_COLUMNS; None
    where it has none. `queue`: mean requests outstanding."""

    read_await_ms: float | None = None
    write_await_ms: float | None = None
    await_ms: float | None = None
    queue: float | None = None
    util_percent: float | None = None
    balance_percent: float | None = None


NOTHING_OBSERVED = Observed()


class Sample(NamedTuple):
    """One device in one report: rates over the interval, other figures, and where the report is in
    the file: a line number, or a path in JSON."""

    where: int | str
    reads_per_s: float
    writes_per_s: float
    read_kib_s: float
    write_kib_s: float
    observed: Observed = NOTHING_OBSERVED


@dataclass
class DeviceReport:
    """All devices at one moment.

    `stamp` None when the tool printed no time; `restarted` after a new start of the tool.
    `processors`: by host ("": the only one), processors' worth of each mode (`user`, `idle` ...).
    """

    where: int | str
    stamp: Stamp | None
    devices: dict[str, Sample] = field(default_factory=dict)
    restarted: bool = False
    processors: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, recording: Recording, where: int | str, device: object, sample: Sample) -> None:
        """Adds a device. Raises InputError for a device without a name or listed before."""
        if not isinstance(device, str) or not device:
            raise recording.make_error(where, f"device {device!r}", "each device has a name", "The file is damaged.")
        if device in self.devices:
            hint = "Two recordings were mixed: import them one by one."
            raise recording.make_error(where, device, "is listed twice in one report", hint)
        self.devices[device] = sample


@dataclass(frozen=True)
class VolumeDescription:
    """Facts that a source knows of the volume behind a device: the id of EBS or the name of an RDS
    instance, storage in the catalog's notation, the instance that it is attached to."""

    id: str
    storage: str | None = None
    instance: str | None = None


class ServerSample(NamedTuple):
    """SHOW GLOBAL STATUS at a moment: numbers by their names in lower case."""

    t_unix: float
    values: dict[str, float]


@dataclass
class Readings:
    """The reports that a parser read.

    `interval_s` when the file states it; `stamped_at` "end" or "start" of the interval.

    `zone`: of times that carry none themselves, where the tool is known to have one (CloudWatch:
    UTC). `absent_is_idle`: whether a device that a report does not list did nothing (iostat -z), or
    was not measured. `described`: what is known of the volumes behind devices. `server`: readings
    of the database server on them. `free_bytes`: free space by time, seconds since 1970. `gaps`:
    what is to be done about missing reports, one of GAPS.
    """

    tool: str
    reports: list[DeviceReport]
    stamped_at: str = "end"
    interval_s: float | None = None
    zone: str | None = None
    absent_is_idle: bool = True
    described: dict[str, VolumeDescription] = field(default_factory=dict)
    server: list[ServerSample] = field(default_factory=list)
    free_bytes: dict[float, float] = field(default_factory=dict)
    gaps: str = "refuse"


@dataclass(frozen=True)
class ImportOptions:
    """Options of the user for a workload of a recording. `gaps` None: as the readings say."""

    device: str | None = None
    interval_s: float | None = None
    start: str | datetime | None = None
    gaps: str | None = None
    name: str | None = None


def make_sample(
    recording: Recording,
    where: int | str,
    reads: float,
    writes: float,
    read_kib: float,
    write_kib: float,
    observed: Observed = NOTHING_OBSERVED,
) -> Sample:
    """Returns a sample from I/Os and KiB a second. Raises InputError for impossible figures."""
    for what, rate in (("reads", reads), ("writes", writes)):
        if rate > MAX_OPS_PER_S:
            rule = f"at most {MAX_OPS_PER_S:,.0f} are believed"
            hint = "A counter wrapped or the line is damaged: take the report out."
            raise recording.make_error(where, f"{rate:,.0f} {what} a second", rule, hint)
    reads, read_kib = _reconcile_rates(recording, where, "read", reads, read_kib)
    writes, write_kib = _reconcile_rates(recording, where, "write", writes, write_kib)
    return Sample(where, reads, writes, read_kib, write_kib, _remove_absurd_figures(recording, observed, reads, writes))


def _remove_absurd_figures(recording: Recording, observed: Observed, reads: float, writes: float) -> Observed:
    """Returns the figures besides the rates, without those that are not measurements: latencies of
    no I/O (printed as 0), and absurd figures, with a note in the recording."""
    read_await, write_await, await_ms, queue, util, balance = observed
    if util is not None and 100.0 < util <= MOST_UTIL_PERCENT:
        util = 100.0
    plausible = Observed(
        read_await if reads > 0 else None,
        write_await if writes > 0 else None,
        await_ms if reads + writes > 0 else None,
        queue,
        util,
        balance,
    )
    absurd = [
        value is not None and value > most
        for value, most in zip(
            plausible, (MOST_AWAIT_MS, MOST_AWAIT_MS, MOST_AWAIT_MS, MOST_QUEUE, 100.0, 100.0), strict=True
        )
    ]
    if not any(absurd):
        return plausible
    recording.note(ABSURD_NOTE)
    return Observed(*(None if wrong else value for value, wrong in zip(plausible, absurd, strict=True)))


def _reconcile_rates(recording: Recording, where: int | str, what: str, ops: float, kib: float) -> tuple[float, float]:
    """Returns I/Os and KiB a second that agree: both 0 where one is 0, else with a mean size that
    an I/O can have. `what`: read or write. Raises InputError where they contradict each other."""
    if ops == 0.0:
        # Below 0.005 I/Os a second sysstat prints 0.00; even then no more than this many KiB/s can
        # have moved.
        if kib > 0.005 * MAX_IO_KIB:
            hint = "The line is damaged or its units are mixed."
            raise recording.make_error(where, f"{kib:g} KiB/s but 0 {what}s", "bytes need I/Os", hint)
        return 0.0, 0.0
    if kib == 0.0:
        return 0.0, 0.0  # flushes: older kernels count them among the writes
    size = kib / ops
    # Under ten a second, two printed decimals (and flushes) can push the quotient past any limit.
    if MIN_IO_KIB <= size <= MAX_IO_KIB or (ops < 10 and kib < 10 * MAX_IO_KIB):
        return ops, min(max(size, MIN_IO_KIB), MAX_IO_KIB) * ops
    rule = f"an I/O is {MIN_IO_KIB:g} to {MAX_IO_KIB:g} KiB"
    hint = "The units are mixed, or the line is damaged."
    raise recording.make_error(where, f"{ops:g} {what}s and {kib:g} KiB a second: {size:g} KiB each", rule, hint)


def build_device_series(
    recording: Recording, readings: Readings, chosen: str | None, interval_s: float | None
) -> tuple[str, float, TimeSeries]:
    """Returns the device `chosen` (None: the busiest), the seconds between its reports, and its
    series.

    Columns: `reads_per_s`, `writes_per_s`, `read_kib_s`, `write_kib_s`, and OBSERVED_COLUMNS.
    Intervals without a report are left out. Adds notes to `recording`, and may drop reports of
    `readings`. Raises InputError.
    """
    device, samples = _choose_device(recording, readings, chosen)
    interval_s = _determine_interval(recording, readings, interval_s)
    starts = [slot * interval_s for slot in _assign_slots(recording, readings, interval_s)]
    columns: dict[str, list[float | None]] = {rate: [getattr(sample, rate) for sample in samples] for rate in RATES}
    columns |= {name: [getattr(sample.observed, name) for sample in samples] for name in OBSERVED_COLUMNS}
    first, delay_s = readings.reports[0].stamp, _compute_stamp_delay_s(readings, interval_s)
    begin_s = None if first is None else first.epoch_s - delay_s
    local_s = None if first is None else (first.local - EPOCH).total_seconds() - delay_s
    series = TimeSeries(recording.name, recording.sha256, starts, [interval_s] * len(starts), columns, begin_s, local_s)
    return device, interval_s, series


def build(recording: Recording, readings: Readings, options: ImportOptions) -> OpenWorkload:
    """Returns the workload of one device of a recording. Adds notes to `recording`, and may drop
    reports of `readings`. Raises InputError."""
    gaps = readings.gaps if options.gaps is None else check_choice("gaps", options.gaps, GAPS)
    if not readings.reports:
        raise recording.make_error(
            "", "no reports", f"{readings.tool} printed nothing that can be used", "Record for longer."
        )
    device, interval_s, series = build_device_series(recording, readings, options.device, options.interval_s)
    points = _build_points(
        series, _fill_gaps(recording, readings, series, gaps, interval_s), interval_s, gaps == "zero"
    )
    source = {
        "tool": readings.tool,
        "file": recording.name,
        "sha256": recording.sha256,
        "period_s": interval_s,
        "device": device,
    }
    begin = determine_begin(recording, readings, interval_s, options.start)
    if begin is not None:
        source["clock_start"] = begin.local.isoformat(timespec="seconds")
    name = (
        clip(recording.title or recording.name.rsplit(".", 1)[0].strip() or "recording")
        if options.name is None
        else check_name(options.name)
    )
    try:
        return OpenWorkload(
            name=name,
            kind="recorded",
            points=points,
            source=source,
            caveats=tuple(recording.notes),
            clock_zone=(begin and begin.zone) or LOCAL_ZONE,
        )
    except InputError as error:
        raise InputError(f"{recording.name}: {error.value}", error.rule, error.source, error.hint) from None


def _build_points(series: TimeSeries, rows: list[tuple[int, bool]], interval_s: float, idle: bool) -> pl.DataFrame:
    """Returns the points of a workload. `rows`: for each interval the row of the series that stands
    for it, and whether the interval was missing; such a point repeats the rates of the row, or is
    zero with `idle`."""
    indexes, filled = [row for row, _ in rows], pl.Series([missing for _, missing in rows])
    frame = pl.DataFrame({name: pl.Series(column, dtype=pl.Float64) for name, column in series.columns.items()})[
        indexes
    ]
    if idle:
        frame = frame.with_columns(pl.when(filled).then(0.0).otherwise(pl.col(rate)).alias(rate) for rate in RATES)
    # A report that is held repeats the rates; what else was observed belongs to its own
    # interval only.
    frame = frame.with_columns(
        pl.when(filled).then(None).otherwise(pl.col(name)).alias(name) for name in OBSERVED_COLUMNS
    )
    sizes = [
        (pl.col(f"{way}_kib_s") / pl.col(f"{way}s_per_s")).fill_nan(0.0).alias(f"{way}_kib")
        for way in ("read", "write")
    ]
    frame = frame.with_columns(sizes)
    points = make_points(
        [interval_s * i for i in range(len(rows))],
        [interval_s] * len(rows),
        *(frame[name] for name in POINT_COLUMNS[2:]),
    )
    return points.with_columns(frame[name] for name in OBSERVED_COLUMNS)


# --- device ---------------------------------------------------------------------------------------


def rank_devices(readings: Readings) -> list[str]:
    """Returns the devices of a recording, those with the most I/Os first."""
    return _sort_by_iops(_sum_iops(readings))


def _sum_iops(readings: Readings) -> dict[str, float]:
    """Returns the I/Os a second of each device, added up over the reports."""
    iops: dict[str, float] = {}
    for report in readings.reports:
        for device, sample in report.devices.items():
            iops[device] = iops.get(device, 0.0) + sample.reads_per_s + sample.writes_per_s
    return iops


def _sort_by_iops(iops: dict[str, float]) -> list[str]:
    return sorted(iops, key=lambda device: (-iops[device], device))


def _choose_device(recording: Recording, readings: Readings, chosen: str | None) -> tuple[str, list[Sample]]:
    """Returns the name and samples of the devices in `chosen` (joined by +); with None, of the
    device that is clearly the busiest, which a note names. Raises InputError where a name is not in
    the recording, or no device is clearly the busiest."""
    iops = _sum_iops(readings)
    if not iops:
        hint = "Record without -z, or name the device to the tool."
        raise recording.make_error("", "no devices", f"{readings.tool} listed none", hint)
    order = _sort_by_iops(iops)
    count = len(readings.reports)
    listing = ", ".join(f"{clip(device, 40)} ({iops[device] / count:,.1f} IOPS)" for device in order[:12])
    if chosen is not None:
        members = [_find_listed_name(member.strip(), iops) for member in chosen.split("+")]
        for member in members:
            if member not in iops:
                raise refuse.input(f"device {clip(member)!r}", f"is not in {recording.name}", f"There are: {listing}.")
        if len(set(members)) != len(members):
            raise refuse.input(f"device {clip(chosen)!r}", "names a device twice", f"There are: {listing}.")
        return "+".join(members), _sum_members(recording, readings, members)
    if len(order) > 1:
        if iops[order[0]] < CLEARLY_BUSIEST * iops[order[1]] or iops[order[0]] == 0.0:
            rule = "none does clearly more than the others"
            hint = f"Name one, or several with + between them: {listing}."
            raise refuse.input(f"{recording.name}: {len(order)} devices", rule, hint)
        recording.notes.append(f"{order[0]} was taken as the busiest of: {listing}.")
    return order[0], _sum_members(recording, readings, order[:1])


def _find_listed_name(member: str, listed: dict) -> str:
    """Returns the name by which the tool lists a device: nvme1n1 for /dev/nvme1n1."""
    short = [member.removeprefix(folder) for folder in ("/dev/mapper/", "/dev/") if member.startswith(folder)]
    return next((name for name in (member, *short) if name in listed), member)


def _sum_members(recording: Recording, readings: Readings, members: list[str]) -> list[Sample]:
    """Returns the samples of the members together, one for each report. A member that a report
    leaves out was idle (iostat -z), or the report is dropped from `readings` where it was not
    measured; so is a last report that was cut off."""
    whole = [all(member in report.devices for member in members) for report in readings.reports[-2:]]
    if whole == [True, False]:
        readings.reports.pop()
        recording.notes.append("The last report was left out: it ends before the device.")
    if not readings.absent_is_idle:
        readings.reports = [
            report for report in readings.reports if all(member in report.devices for member in members)
        ]
        if not readings.reports:
            rule = "were never measured at the same time"
            raise recording.make_error("", clip("+".join(members)), rule, "Name one of them.")
    samples, absent = [], 0
    for report in readings.reports:
        present = [report.devices[member] for member in members if member in report.devices]
        absent += len(present) < len(members)
        where = present[0].where if present else report.where
        samples.append(_combine_members(where, present) if present else Sample(where, 0.0, 0.0, 0.0, 0.0))
    if absent:
        recording.notes.append(
            f"{absent} of {len(samples)} reports do not list the device: taken as idle there, as iostat -z prints."
        )
    return samples


def _combine_members(where: int | str, members: list[Sample]) -> Sample:
    """Returns the members of an array as one device: rates and queues are added, latencies are
    means over the I/Os, utilisation is the highest and the balance the lowest."""
    if len(members) == 1:
        return members[0]
    rates = {name: sum(getattr(member, name) for member in members) for name in RATES}
    reads, writes = [member.reads_per_s for member in members], [member.writes_per_s for member in members]
    read_await, write_await, await_ms, queue, util, balance = zip(*(member.observed for member in members), strict=True)
    observed = Observed(
        _compute_weighted_mean(read_await, reads),
        _compute_weighted_mean(write_await, writes),
        _compute_weighted_mean(await_ms, [sum(pair) for pair in zip(reads, writes, strict=True)]),
        None if None in queue else sum(queue),
        None if None in util else max(util),
        None if None in balance else min(balance),
    )
    return Sample(where, **rates, observed=observed)


def _compute_weighted_mean(values: tuple, weights: list[float]) -> float | None:
    """Returns the mean of the values that have a weight; None where one of them is None, or none
    has a weight."""
    used = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight > 0]
    if not used or any(value is None for value, _ in used):
        return None
    return sum(value * weight for value, weight in used) / sum(weight for _, weight in used)


# --- time -----------------------------------------------------------------------------------------


def _determine_interval(recording: Recording, readings: Readings, given_s: float | None) -> float:
    """Returns the seconds between the reports, from their times or as given (None: not given).
    Raises InputError where they are not known, contradict each other or are out of range."""
    if given_s is not None:
        given_s = check_number("interval_s", given_s, MIN_POINT_S, MAX_RECORDED_POINT_S, "s")
    stamps = [report.stamp for report in readings.reports if report.stamp is not None]
    if len(stamps) < len(readings.reports):
        spacing_s = readings.interval_s
    else:
        _check_order(recording, readings, stamps)
        steps = [b.epoch_s - a.epoch_s for a, b in pairwise(stamps)]
        spacing_s = readings.interval_s or (statistics.median_low(steps) if steps else None)
    if spacing_s is None and given_s is None:
        rule = f"this {readings.tool} file does not say how many seconds lie between its reports"
        without, timed = (
            ("vmstat 10", "vmstat -t 10") if readings.tool == "vmstat" else ("iostat -x 10", "iostat -xt 10")
        )
        hint = f"Say it: --interval 10 where the command was {without}. With times in the file ({timed}) nobody has to."
        raise recording.make_error("", "no interval", rule, hint)
    if (
        spacing_s is not None
        and given_s is not None
        and abs(spacing_s - given_s) > max(STAMP_SLACK_SHARE * given_s, STAMP_SLACK_S / 2)
    ):
        hint = "Leave the interval out."
        raise recording.make_error("", f"interval {given_s:g} s", f"the file's reports are {spacing_s:g} s apart", hint)
    interval_s = given_s or spacing_s or 0.0
    if not MIN_POINT_S <= interval_s <= MAX_RECORDED_POINT_S:
        rule = f"{MIN_POINT_S:g} to {MAX_RECORDED_POINT_S:g} s are taken"
        hint = "Longer means hide every burst: record again, at a minute or less."
        raise recording.make_error("", f"interval {interval_s:g} s", rule, hint)
    return float(interval_s)


def _check_order(recording: Recording, readings: Readings, stamps: list[Stamp]) -> None:
    """Raises InputError if a report is not later than the one before."""
    for before, after, report in zip(stamps, stamps[1:], readings.reports[1:], strict=False):
        step = after.epoch_s - before.epoch_s
        if step == 0:
            hint = "Two recordings were joined, or one was copied twice: keep one."
            raise recording.make_error(report.where, str(after.local), "this time was there before", hint)
        if step < 0:
            hint = "The clock was set, or recordings were joined in the wrong order: cut the file there and import the parts."
            if abs(abs(step) - HOUR_S) <= 600:
                hint = "About an hour: the end of summer time. Record in UTC (TZ=UTC), or cut the file there."
            raise recording.make_error(
                report.where, str(after.local), f"lies {-step:g} s before the report above it", hint
            )


def _assign_slots(recording: Recording, readings: Readings, interval_s: float) -> list[int]:
    """Returns for each report the number of its interval on an even grid. Each step between reports
    is rounded, so that slow drift makes no gaps. Raises InputError where the interval changes.
    """
    reports = readings.reports
    stamps = [report.stamp for report in reports if report.stamp is not None]
    if len(stamps) < len(reports):
        for report in reports[1:]:
            if report.restarted:
                rule = "without times, the gap before it is unknown"
                hint = "Import the parts one by one, or record with times (-t)."
                raise recording.make_error(report.where, f"{readings.tool} was started again", rule, hint)
        return list(range(len(reports)))
    slots, slack = [0], max(STAMP_SLACK_S, STAMP_SLACK_SHARE * interval_s)
    for before, at, after in zip(stamps, stamps[1:], reports[1:], strict=False):
        step = at.epoch_s - before.epoch_s
        if step < interval_s - slack and not after.restarted:
            rule = f"the others are {interval_s:g} s apart"
            hint = "The interval was changed: cut the file there and import the parts."
            raise recording.make_error(after.where, f"{step:g} s after the report above", rule, hint)
        slots.append(slots[-1] + max(1, round(step / interval_s)))
    if slots[-1] >= MAX_POINTS:
        rule = f"at most {MAX_POINTS:,} are taken"
        hint = "A time is wrong, or the recording needs cutting."
        raise recording.make_error(reports[-1].where, f"{slots[-1] + 1:,} intervals", rule, hint)
    return slots


def _fill_gaps(
    recording: Recording, readings: Readings, series: TimeSeries, gaps: str, interval_s: float
) -> list[tuple[int, bool]]:
    """Returns for each interval of an even grid the index of its report, and whether that is the
    report before a gap instead. Notes gaps in the recording. Raises InputError for too many."""
    slots = [round(start / interval_s) for start in series.start_s]
    total, missing = slots[-1] + 1, slots[-1] + 1 - len(slots)
    if missing:
        longest, width_s = series.find_longest_gap()
        where = readings.reports[longest].where
        if missing > MAX_MISSING_SHARE * total and gaps == "refuse":
            value = f"a gap of {width_s:g} s, {format_percent(missing / total)} of the recording in all is missing"
            hint = "Say what to do: --gaps hold repeats the report before, --gaps zero takes it as idle. Or cut the file there."
            raise recording.make_error(where, value, f"at most {format_percent(MAX_MISSING_SHARE)} may be", hint)
        how = "taken as idle" if gaps == "zero" else "filled with the report before"
        summer = (
            " It may be the start of summer time." if abs(width_s - HOUR_S) <= interval_s and len(slots) > 1 else ""
        )
        place = f"line {where}" if isinstance(where, int) else where
        recording.notes.append(
            f"{missing} of {total} intervals are missing ({format_percent(missing / total, 1)}) and were {how}; "
            f"the longest gap, {width_s:g} s, ends at {place}.{summer}"
        )
    rows: list[tuple[int, bool]] = []
    for index, slot in enumerate(slots):
        rows += [(index - 1, True)] * (slot - len(rows))
        rows.append((index, False))
    return rows


def _compute_stamp_delay_s(readings: Readings, interval_s: float) -> float:
    """Returns the seconds from the beginning of an interval to the time that its report prints."""
    return interval_s if readings.stamped_at == "end" else 0.0


def determine_begin(
    recording: Recording, readings: Readings, interval_s: float, given: str | datetime | None
) -> Stamp | None:
    """Returns when the first interval begins: by the times of the reports, else as `given`; None
    where neither is known. The zone of `given` counts where the times have none. Raises InputError
    where `given` contradicts the times."""
    first, delay_s = readings.reports[0].stamp, _compute_stamp_delay_s(readings, interval_s)
    own = None
    if first is not None:
        local = first.local - timedelta(seconds=delay_s)
        own = Stamp(first.epoch_s - delay_s, local, first.zone or readings.zone)
    if given is None:
        return own
    text = given.isoformat() if isinstance(given, datetime) else str(given)
    stamp = parse_iso(text)
    if stamp is None:
        raise InputError(f"start = {clip(text)!r}", "must be a date and time like 2025-11-21T10:00:00", "ISO 8601")
    if own is None:
        return stamp
    zoned = own.zone is not None and stamp.zone is not None
    later_s = stamp.epoch_s - own.epoch_s if zoned else (stamp.local - own.local).total_seconds()
    # The begin of the first interval, or the time that its report prints.
    if min(abs(later_s), abs(later_s - delay_s)) > STAMP_SLACK_S:
        begin = own.local.isoformat(timespec="seconds")
        rule = f"the file's own times begin at {begin}{f' {own.zone}' if own.zone else ''}"
        hint = (
            "Leave the clock start out." if own.zone else f"Leave it out, or give {begin} with the zone of its clock."
        )
        raise recording.make_error("", f"clock start {clip(text)}", rule, hint)
    if own.zone is not None or stamp.zone is None:
        return own
    offset_s = (stamp.local - EPOCH).total_seconds() - stamp.epoch_s
    return Stamp(own.epoch_s - offset_s, own.local, stamp.zone)
