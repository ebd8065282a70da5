"""Reads evidence from the folder of a capture, and from the recording of a tool or service."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.base.files import read_bytes
from headrace.base.storage import Storage
from headrace.base.units import GIB
from headrace.errors import InputError
from headrace.observe.clock import parse_iso
from headrace.observe.evidence.counters import explain_new_server, make_status_row
from headrace.observe.evidence.limits import HoldingLimits, get_holding_limits
from headrace.observe.evidence.model import Evidence, Row, SeenServer, SeenVolume, SourceFacts, Tick, collect_evidence
from headrace.observe.evidence.recorded_beside import ARRAYS, collect_members_and_host
from headrace.observe.evidence.volumes import make_device_row
from headrace.observe.formats import ImportOptions, LoadedRecording
from headrace.observe.live import host
from headrace.observe.live.record import DESCRIPTION
from headrace.observe.series import RunFinding, open_text, read_csv_rows
from headrace.workload import OpenWorkload
from headrace.workload.points import LOCAL_ZONE

MAX_TOML_BYTES = 1 << 20  # as a run description takes
KIB_IN_MIB = 1024.0
# A sample that comes later than this many intervals after the one before is behind a gap.
GAP_INTERVALS = 3.0
# Devices of a recording that are looked at besides the one that is judged, and per cent of the time
# in use, on the mean, from which a device is noted where requests wait in line. Ours.
MOST_OTHERS, BUSY_PERCENT = 12, 90.0
# Threads_running in a capture, or as mysqld_exporter counts them, has the reader's own thread.
READER_THREADS = 1


def build_recording_evidence(
    loaded: LoadedRecording, options: ImportOptions, storage: str | None, instance: str | None, as_of: str | None
) -> Evidence:
    """Returns the evidence in a recording of one device, with its demand. If `options` name no
    device, it is that with the most I/Os, or one that waits where that one does not. Raises
    InputError."""
    workload = loaded.build_workload(options)
    workload, choice_notes = (workload, []) if options.device is not None else _choose_device(loaded, options, workload)
    limits = None if storage is None else get_holding_limits(storage, instance, as_of)
    source = workload.source
    begin = _find_begin(workload)
    name = str(source.get("device") or workload.name)
    rest = collect_members_and_host(loaded, options, workload, (storage, instance, as_of), _make_point_row)
    notes: list[str] = []
    server = _make_server_rows(loaded, workload, notes)
    ticks = []
    for number, row in enumerate(workload.points.iter_rows(named=True)):
        volumes = {name: _make_point_row(row, limits)}
        volumes |= {facts.name: rows[number] for facts, rows in rest.members if number in rows}
        rows_beside = {"server": server.get(number, {}), "host": rest.host.get(number, {})}
        ticks.append(Tick(begin + row["t_s"], row["duration_s"], volumes, **rows_beside))
    tool = str(source.get("tool", "recording"))
    grain = float(max(row["duration_s"] for row in workload.points.iter_rows(named=True)))
    clock = workload.clock_zone if source.get("clock_start") else "none: seconds from the start"
    missing = () if server else ("the server: no counters of MySQL in this file",)
    missing += ("time over each limit: the file has rates and latency only",)
    facts = SourceFacts(
        loaded.recording.name,
        tool,
        grain,
        clock,
        (SeenVolume(name, storage, None, limits), *[facts for facts, _ in rest.members]),
        SeenServer("mysqld_exporter") if server else None,
        rest.vcpus,
        instance,
        as_of,
        False,
        missing,
    )
    notes = [*choice_notes, *notes, *_note_rds_storage(tool, storage, loaded), *workload.list_notes()]
    return replace(collect_evidence(facts, ticks, notes), demand=workload)


def _make_server_rows(loaded: LoadedRecording, workload: OpenWorkload, notes: list[str]) -> dict[int, Row]:
    """Returns the rows of the server on a recorded host, by the number of the point; empty where
    the recording has no counters of it. Appends to `notes` where counters began over."""
    samples, first = loaded.readings.server, loaded.readings.reports[0].stamp
    interval_s = float(workload.source.get("period_s") or 0.0)
    begin = _find_begin(workload)
    if len(samples) < 2 or first is None or interval_s <= 0:
        return {}
    begin += first.epoch_s % 1.0  # clock_start has whole seconds
    rows = {}
    for before, after in zip(samples, samples[1:], strict=False):
        took = after.t_unix - before.t_unix
        if took > GAP_INTERVALS * interval_s:
            continue
        if reason := explain_new_server(before.values, after.values, took):
            notes.append(reason)
            continue
        number = round((before.t_unix - begin) / interval_s)
        rows[number] = make_status_row(before.values, after.values, took, {}, READER_THREADS, notes.append)
    return rows


def _choose_device(
    loaded: LoadedRecording, options: ImportOptions, busiest: OpenWorkload
) -> tuple[OpenWorkload, list[str]]:
    """Returns the demand of the device to judge where none was named, and notes on the others. It
    is the `busiest`, unless that does not wait and another does: a slow device may do few I/Os."""
    first = str(busiest.source.get("device"))
    if first.startswith(ARRAYS):
        return busiest, []  # the others may be its members, which have limits of their own
    demands = loaded.build_workloads(MOST_OTHERS, options)
    names = [name for name in demands if name != first]
    slow = {name: demand for name in names if (demand := demands[name]) is not None and _waits(demand)}
    chosen, notes = busiest, []
    if slow and not _waits(busiest):
        name, chosen = next(iter(slow.items()))
        notes.append(f"{name} was judged: it was at a limit or always busy, unlike {first}, which did most of the I/O")
    judged = chosen.source.get("device")
    others = [name for name in slow if name != judged]
    notes += [f"{name} was at a limit or always busy too, and was not judged: add --device {name}" for name in others]
    unjudged = [name for name in (first, *names) if name != judged and name not in slow]
    if unjudged:
        notes.append(f"not judged: {', '.join(unjudged[:MOST_OTHERS])} (--device NAME judges one of them)")
    return chosen, notes


def _waits(workload: OpenWorkload) -> bool:
    """Returns True when a device was at a limit for some time, or mostly busy with requests in
    line."""
    if workload.censored:
        return True
    points = workload.points
    if "util_percent" not in points.columns or "queue" not in points.columns:
        return False
    measured = points.select("util_percent", "queue").drop_nulls()
    if not measured.height:
        return False
    util, queue = measured.to_numpy().mean(axis=0)
    return bool(util >= BUSY_PERCENT and queue >= 1.0)


def _note_rds_storage(tool: str, storage: str | None, loaded: LoadedRecording) -> list[str]:
    """Returns a note where storage in notation, which is of EBS, was given for RDS, whose limits
    differ for the same words; none where RDS described the storage itself."""
    if not tool.endswith("RDS") or storage is None or len(Storage.parse(storage).members) > 1:
        return []
    if loaded.readings.described:
        return []
    return [
        f"these are metrics of RDS, and {storage} was judged as one volume of EBS: from 400 GiB on RDS lays storage over four "
        "volumes (data/managed/rds_storage.csv); name such storage as 4xTYPE:SIZE/4, for example 4xgp3:125 for 500 GiB"
    ]


def _find_begin(workload: OpenWorkload) -> float:
    """Returns the begin of a recording in seconds since 1970; as if its times were of UTC where it
    states no zone, and 0 where it has no date."""
    start = workload.source.get("clock_start")
    # "UTC" or "UTC+01:00": what follows is the offset as ISO 8601 has it.
    offset = "" if workload.clock_zone == LOCAL_ZONE else workload.clock_zone.removeprefix("UTC")
    stamp = parse_iso(start + offset) if start and len(start) > 8 else None
    return 0.0 if stamp is None else stamp.epoch_s


def _make_point_row(row: Mapping[str, Any], limits: HoldingLimits | None) -> Row:
    """Returns the row of a volume in one point of a workload: I/Os a second, MiB/s, mean requests
    outstanding, latencies in ms, shares 0 to 1; None where the recording has no such figure."""
    reads, writes = row["reads_per_s"], row["writes_per_s"]
    read_mib_s, write_mib_s = reads * row["read_kib"] / KIB_IN_MIB, writes * row["write_kib"] / KIB_IN_MIB
    charged = limits.compute_charged_rates(reads, writes, read_mib_s, write_mib_s)[0] if limits else reads + writes
    await_ms, read_ms, write_ms = (row.get(name) for name in ("await_ms", "read_await_ms", "write_await_ms"))
    queue = row.get("queue")
    if await_ms is None and read_ms is None and write_ms is None and queue and reads + writes:
        await_ms = queue / (reads + writes) * 1_000.0  # Little's law
    util = row.get("util_percent")
    return {
        "read_iops": reads,
        "write_iops": writes,
        "charged_iops": charged,
        "read_mib_s": read_mib_s,
        "write_mib_s": write_mib_s,
        "queue": queue,
        "idle_share": None if util is None else max(0.0, 1.0 - util / 100.0),  # iostat shows 100.1 % too
        "read_ms": await_ms if read_ms is None else read_ms,
        "write_ms": await_ms if write_ms is None else write_ms,
        "balance_percent": row.get("balance_percent"),
    }


# --- a captured folder ----------------------------------------------------------------------------


def read_capture_evidence(folder: Path, storage: str | None, instance: str | None, as_of: str | None) -> Evidence:
    """Returns the evidence in a folder that `headrace workload capture` wrote; arguments that are
    None come from its RUN.toml. Raises InputError, CouldNotRun."""
    try:
        description = tomllib.loads(read_bytes(folder / DESCRIPTION, MAX_TOML_BYTES).decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{folder.name}/{DESCRIPTION}", f"is no TOML: {str(error)[:100]}", "toml.io, v1.0") from None
    storage = storage or description.get("storage")
    instance = instance or description.get("instance")
    day = as_of or (str(description["as_of"]) if "as_of" in description else None)
    limits = None if storage is None else get_holding_limits(str(storage), instance, day)
    files = description.get("files", {})
    if not isinstance(files, Mapping) or "status" not in files:
        rule = "its RUN.toml names no samples of the server (files.status)"
        raise InputError(str(folder), rule, "docs/reference/capture.md", "Capture with headrace workload capture.")
    findings: list[RunFinding] = []
    missing = [
        "time over each limit: a capture has the kernel's counters only",
        "the host's processors: not in a capture",
    ]
    variables = _get_variables(description)
    server = _read_status_ticks(folder / str(files["status"]), variables, findings)
    disks = _read_disk_ticks(folder / str(files["disk"]), limits, findings) if "disk" in files else []
    if not disks:
        missing.append("the disks: the capture has no counters of them (--device)")
    names = list(dict.fromkeys(name for tick in disks for name in tick.volumes))
    volumes = tuple(SeenVolume(name, str(storage) if storage else None, f"/dev/{name}", limits) for name in names)
    ticks = _join_ticks(server, disks)
    if not ticks:
        rule = "has no two samples that follow each other"
        raise InputError(str(folder), rule, "docs/reference/capture.md", "Capture longer.")
    facts = SourceFacts(
        str(folder),
        "capture",
        max(1.0, min(tick.duration_s for tick in ticks)),
        "UTC, clock of the machine that captured",
        volumes,
        SeenServer(
            str(description.get("name", folder.name)),
            str(description.get("engine_version", "")),
            str(description.get("flavor", "")),
            variables,
        ),
        None,
        instance,
        day,
        False,
        tuple(missing),
    )
    return collect_evidence(facts, ticks, [finding.text for finding in findings])


def _get_variables(description: dict) -> dict[str, str]:
    """Returns the global variables of the server that a RUN.toml states, by name."""
    settings = description.get("settings", {})
    variables = {}
    if "redo_gib" in settings:
        variables["innodb_redo_log_capacity"] = str(int(settings["redo_gib"] * GIB))
    if "cache_gib" in description:
        variables["innodb_buffer_pool_size"] = str(int(description["cache_gib"] * GIB))
    for key, name in (
        ("sync_binlog", "sync_binlog"),
        ("flush_log_at_trx_commit", "innodb_flush_log_at_trx_commit"),
        ("io_capacity", "innodb_io_capacity"),
    ):
        if key in settings:
            variables[name] = str(settings[key])
    if "binlog" in settings:
        variables["log_bin"] = "ON" if settings["binlog"] else "OFF"
    return variables


def _read_status_ticks(path: Path, variables: Mapping[str, str], findings: list[RunFinding]) -> list[Tick]:
    """Returns a tick for each two consecutive samples of the server's status. A restart of the
    server adds a finding to `findings` instead. Raises InputError if times go back."""
    notes: list[str] = []
    samples = [(at, values) for at, _, values in _read_samples(path, findings)]
    ticks = []
    for (before_s, before), (after_s, after) in zip(samples, samples[1:], strict=False):
        took = after_s - before_s
        if took <= 0:
            rule = f"a sample lies {-took:g} s before the one above it"
            raise InputError(path.name, rule, "docs/reference/capture.md", "The clock was set: cut the file there.")
        if reason := explain_new_server(before, after, took):
            notes.append(reason)
            continue
        row = make_status_row(before, after, took, variables, READER_THREADS, notes.append)
        ticks.append(Tick(before_s, took, server=row))
    findings += [RunFinding("restart", text) for text in dict.fromkeys(notes)]
    return ticks


def _read_disk_ticks(path: Path, limits: HoldingLimits | None, findings: list[RunFinding]) -> list[Tick]:
    """Returns a tick for each two consecutive samples of a device's counters. Counters that fell
    add a finding to `findings` instead."""
    ticks = []
    last: dict[str, tuple[float, dict[str, float]]] = {}
    for at, device, counters in _read_samples(path, findings):
        before = last.get(device)
        last[device] = (at, counters)
        if before is None or at <= before[0]:
            continue
        took = at - before[0]
        change = host.compute_change(before[1], counters)
        if change is None:
            findings.append(
                RunFinding("restart", f"counters of {device} went back: attached again; that second is left out")
            )
            continue
        ticks.append(Tick(before[0], took, {device: make_device_row(device, change, took, limits)}))
    return ticks


def _read_samples(path: Path, findings: list[RunFinding]) -> list[tuple[float, str, dict[str, float]]]:
    """Returns (seconds since 1970, device or "", values by column) of a CSV of samples. Raises
    InputError for a row without a time."""
    recording = open_text(path)
    header: list[str] = []
    samples = []
    for number, cells in read_csv_rows(recording, findings):
        if not header:
            header = [cell.strip().lower() for cell in cells]
            if "time" not in header:
                raise recording.make_error(number, "no column time", "samples have their time", "Capture again.")
            continue
        row = dict(zip(header, cells, strict=True))
        stamp = parse_iso(row.pop("time"))
        if stamp is None:
            raise recording.make_error(number, "time", "must be ISO 8601 or seconds since 1970")
        device = row.pop("device", "")
        values = {name: recording.parse_number(number, name, text) for name, text in row.items() if text.strip()}
        samples.append((stamp.epoch_s, device, values))
    return samples


def _join_ticks(server: list[Tick], disks: list[Tick]) -> list[Tick]:
    """Returns the ticks of server and disks, joined where they begin in the same second."""
    by_second: dict[int, Tick] = {round(tick.t_unix): tick for tick in server}
    for tick in disks:
        key = round(tick.t_unix)
        earlier = by_second.get(key, Tick(tick.t_unix, tick.duration_s))
        by_second[key] = replace(earlier, volumes={**earlier.volumes, **tick.volumes})
    return [by_second[key] for key in sorted(by_second)]
