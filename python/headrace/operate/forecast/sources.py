"""Demand of any target that has days behind it: a recording as its tool wrote it or a service keeps
it, a captured folder, a doctor's recording."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from headrace.base.storage import Storage
from headrace.base.units import DAY_S, describe_span
from headrace.observe.evidence.model import Evidence
from headrace.operate.forecast.history import refuse
from headrace.operate.forecast.space import SpaceHistory, convert_free_space
from headrace.operate.targets import (
    SourceOptions,
    find_description,
    is_live,
    load_target,
    make_import_options,
    read_evidence,
)
from headrace.workload import OpenWorkload
from headrace.workload.points import MAX_RECORDED_POINT_S, MIN_IO_KIB, MIN_POINT_S, make_points

KIB_PER_MIB = 1024.0  # IEC 80000-13
DEFAULT_OPTIONS = SourceOptions()


class RecordedDemand(NamedTuple):
    """The demand on a volume; its storage, instance and used space where they are known."""

    load: OpenWorkload
    storage: str | None = None
    instance: str | None = None
    space: SpaceHistory | None = None


def read_target_demand(target: str, options: SourceOptions = DEFAULT_OPTIONS) -> RecordedDemand:
    """Returns the demand on the target's volume, and what is known of the volume.
    `options.devices`: of several volumes the only one that is read.

    Raises InputError for a live target, which has no days behind it, and for a target with several
    volumes; else as `read_evidence`.
    """
    if is_live(target):
        hint = "`headrace watch` shows the time to empty now; record days with iostat -xt 60, or use aws:vol-..."
        raise refuse.input(target[:80], "is watched live: it has no recorded days", hint)
    loaded = load_target(target, options)
    if loaded is None:
        return RecordedDemand(*from_evidence(read_evidence(target, options)))
    # A volume of EBS that nobody uses publishes nothing; elsewhere a missing point is a hole.
    gaps = "zero" if loaded.readings.gaps == "zero" else "hold"
    load = loaded.build_workload(make_import_options(target, options, gaps))
    storage, instance = find_description(loaded, load)
    space = None
    if loaded.readings.free_bytes and storage is not None:
        size_gib = Storage.parse(storage).size_gib
        space = convert_free_space(loaded.recording.name, loaded.readings.free_bytes, size_gib)
    return RecordedDemand(load, storage, instance, space)


def from_evidence(evidence: Evidence) -> tuple[OpenWorkload, str | None, str | None]:
    """Returns demand, storage and instance of the only volume in the evidence. A missing point
    counts as no I/O: a volume that is idle or detached publishes nothing. Raises InputError for
    several volumes, or without I/Os."""
    if len(evidence.volumes) != 1:
        rule = f"has {len(evidence.volumes)} volumes; a forecast is about one"
        names = ", ".join(volume.facts.name for volume in evidence.volumes)
        raise refuse.input(evidence.facts.target[:80], rule, f"Name one with --device: {names}." if names else "")
    (volume,) = evidence.volumes
    rows = volume.rows
    if not rows.height or not {"read_iops", "write_iops"} <= set(rows.columns):
        raise refuse.input(evidence.facts.target[:80], "tells no I/Os of the volume")
    points: list[tuple[float, float, float, float, float, float, float | None]] = []
    begin, gaps_s = float(rows["t_unix"][0]), 0.0
    at = begin
    for row in rows.iter_rows(named=True):
        while row["t_unix"] - at >= MIN_POINT_S:
            length = min(row["t_unix"] - at, MAX_RECORDED_POINT_S)
            points.append((at - begin, length, 0.0, 0.0, 0.0, 0.0, None))
            at, gaps_s = at + length, gaps_s + length
        reads, writes = row["read_iops"] or 0.0, row["write_iops"] or 0.0
        sizes = [
            max(MIN_IO_KIB, (row.get(f"{name}_mib_s") or 0.0) * KIB_PER_MIB / rate) if rate else 0.0
            for name, rate in (("read", reads), ("write", writes))
        ]
        points.append((at - begin, row["duration_s"], reads, writes, sizes[0], sizes[1], row.get("balance_percent")))
        at += row["duration_s"]
    columns = list(zip(*points, strict=True))
    frame = make_points(*columns[:6])
    balance = np.array([np.nan if value is None else value for value in columns[6]])
    if not np.isnan(balance).all():
        frame = frame.with_columns(balance_percent=balance)
    dated = begin > DAY_S  # seconds since 1970; a source without a clock counts from its beginning
    caveats = (f"Times without points ({describe_span(gaps_s)} in all) count as no I/O.",) if gaps_s >= 1.0 else ()
    load = OpenWorkload(
        name=volume.facts.name,
        kind="recorded",
        points=frame,
        source={"clock_start": datetime.fromtimestamp(begin, UTC).replace(tzinfo=None).isoformat()} if dated else {},
        clock_zone="UTC",
        caveats=caveats,
    )
    return load, volume.facts.storage, evidence.facts.instance
