"""Reads from a recording what the doctor needs besides the device that it judges: each member of an
array, and the host's processors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.base.storage import Storage
from headrace.errors import InputError
from headrace.observe.evidence.limits import HoldingLimits, get_holding_limits
from headrace.observe.evidence.model import Row, SeenVolume
from headrace.observe.formats import ImportOptions, LoadedRecording
from headrace.observe.formats.processors import ProcessorShares, read_processors
from headrace.workload import OpenWorkload

ARRAYS = ("md", "dm-")  # devices that are made of others (Linux, devices.txt)
# The members of an md device do what it does, and nothing else does as much: within this share of
# its I/Os, counted in a file of all devices. Ours.
SAME_LOAD = 0.1
LEAST_SHARE = 0.02  # of the array's I/Os, below which a device is not a member; ours
MOST_MEMBERS = 32  # devices that are looked at


@dataclass(frozen=True)
class MembersAndHost:
    """`members`: the facts of each member, and its rows by the number of the point. `host`: rows of
    busy processors by the number of the point (shares where `vcpus`, their number, is None)."""

    members: tuple[tuple[SeenVolume, Mapping[int, Row]], ...] = ()
    host: Mapping[int, Row] = field(default_factory=dict)
    vcpus: int | None = None


def collect_members_and_host(
    loaded: LoadedRecording,
    options: ImportOptions,
    workload: OpenWorkload,
    storage: tuple[str | None, str | None, str | None],
    make_row: Callable[[Mapping[str, Any], HoldingLimits | None], Row],
) -> MembersAndHost:
    """Returns the members of the device that is judged, whose demand is `workload`, and the host's
    processors. `storage`: of the device, with its instance and the day of the limits. `make_row`:
    makes a point into a row."""
    name = str(workload.source.get("device") or workload.name)
    vcpus, host = _collect_processors(loaded, workload)
    names = (
        name.split("+") if "+" in name else _list_members(loaded, options, workload) if name.startswith(ARRAYS) else []
    )
    members = []
    for member, text in zip(names, _list_storages(storage[0], len(names)), strict=True):
        try:
            demand = loaded.build_workload(replace(options, device=member))
        except InputError:
            continue
        limits = None if text is None else get_holding_limits(text, storage[1], storage[2])
        rows = {number: make_row(row, limits) for number, row in enumerate(demand.points.iter_rows(named=True))}
        members.append((SeenVolume(f"{name}/{member}", text, None, limits, role="member"), rows))
    return MembersAndHost(tuple(members) if len(members) > 1 else (), host, vcpus)


def _list_storages(storage: str | None, count: int) -> list[str | None]:
    """Returns the storage of each of `count` members; None if `storage` has another number."""
    if storage is None:
        return [None] * count
    volumes = Storage.parse(storage).members
    return [str(Storage.of([volume])) for volume in volumes] if len(volumes) == count else [None] * count


def _list_members(loaded: LoadedRecording, options: ImportOptions, array: OpenWorkload) -> list[str]:
    """Returns the devices whose I/Os add up to those of an md or dm device; empty if none do."""
    whole = _compute_mean_iops(array)
    rates = {
        name: _compute_mean_iops(demand)
        for name, demand in loaded.build_workloads(MOST_MEMBERS, options).items()
        if demand is not None and not name.startswith(ARRAYS)
    }
    members = [name for name, rate in rates.items() if rate >= LEAST_SHARE * whole]
    same = whole > 0 and abs(sum(rates[name] for name in members) / whole - 1.0) <= SAME_LOAD
    return sorted(members) if same and len(members) > 1 else []


def _compute_mean_iops(workload: OpenWorkload) -> float:
    """Returns the mean I/Os a second of all points."""
    points = workload.points
    return float((points["reads_per_s"] + points["writes_per_s"]).mean() or 0.0)  # type: ignore[arg-type]


def _collect_processors(loaded: LoadedRecording, workload: OpenWorkload) -> tuple[int | None, dict[int, Row]]:
    """Returns the number of processors (None: not known), and rows of them by point number."""
    readings = loaded.readings
    if any(report.processors for report in readings.reports):
        return _collect_counted_processors(loaded, workload)
    recorded = read_processors(loaded.recording, readings.tool, len(readings.reports))
    if recorded is None:
        return None, {}
    stamps = [report.stamp for report in readings.reports]
    interval = float(workload.source.get("period_s") or 0.0)
    rows = {}
    for index, shares in enumerate(recorded.reports):
        stamp, first = stamps[index], stamps[0]
        timed = stamp is not None and first is not None and interval > 0
        number = round((stamp.epoch_s - first.epoch_s) / interval) if timed else index  # type: ignore[union-attr]
        rows[number] = _make_row(shares, recorded.count)
    return recorded.count, rows


def _collect_counted_processors(loaded: LoadedRecording, workload: OpenWorkload) -> tuple[int | None, dict[int, Row]]:
    """Returns them from the counted time of each mode (Prometheus, RDS)."""
    interval = float(workload.source.get("period_s") or 0.0)
    host = str(workload.source.get("device")).partition("+")[0].rpartition("/")[0]
    first = next((report.stamp for report in loaded.readings.reports if report.stamp is not None), None)
    rows, most = {}, 0.0
    for report in loaded.readings.reports:
        modes = report.processors.get(host) or report.processors.get("") or {}
        if not modes and len(report.processors) == 1:
            modes = next(iter(report.processors.values()))
        if not modes or report.stamp is None or first is None or interval <= 0:
            continue
        most = max(most, sum(modes.values()))
        nice = modes.get("nice", 0.0)
        rows[round((report.stamp.epoch_s - first.epoch_s) / interval)] = {
            "user_cpus": modes.get("user", 0.0) + nice,
            "nice_cpus": nice,
            # The kernel's interrupts are its work too, as in `observe.live.host`.
            "system_cpus": sum(modes.get(name, 0.0) for name in ("system", "irq", "softirq")),
            "iowait_cpus": modes.get("iowait", 0.0),
            "steal_cpus": modes.get("steal", 0.0),
            "idle_cpus": modes.get("idle", 0.0),
        }
    return round(most) or None, rows


def _make_row(shares: ProcessorShares, count: int | None) -> Row:
    """Returns the number of processors in each mode; with `count` None, the share (0 to 1) of all
    of them."""
    worth = (count or 1) / 100.0
    return {
        "user_cpus": (shares.user + shares.nice) * worth,
        "nice_cpus": shares.nice * worth,
        "system_cpus": shares.system * worth,
        "iowait_cpus": shares.iowait * worth,
        "steal_cpus": shares.steal * worth,
        "idle_cpus": shares.idle * worth,
    }
