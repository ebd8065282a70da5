"""A recording above every limit of the storage that is named: it was recorded on other storage, and
nothing can be judged by those limits."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from headrace.base.units import KIB, describe_span
from headrace.observe.evidence.limits import LEAST_MEAN_S, MOST_OVER, HoldingLimits
from headrace.observe.evidence.model import Evidence, VolumeEvidence
from headrace.operate.doctor.levels import average_blocks, compute_bytes_per_s, describe_rate
from headrace.operate.doctor.model import Finding, FindingFigure
from headrace.operate.doctor.slow_findings import SlowPart
from headrace.operate.doctor.slowness import find_stretches
from headrace.operate.doctor.verdicts import read_verdicts
from headrace.workload import OpenWorkload

# I/O sizes, KiB, up to which a request counts once, of volumes that live on merging: st1, sc1.
MERGING_KIB = 1_024.0


def judge_excess(part: SlowPart, workload: OpenWorkload) -> Finding | None:
    """Returns the finding that the storage or instance that is named cannot have given what was
    recorded; None where it can, or where none is named."""
    limits = part.limits
    if limits is None:
        return None
    rows = _compute_rates(part.volume, limits, workload)
    if not rows.height:
        return None
    nearest = limits.find_nearest_limit(float(rows["iops"].max()), float(rows["bytes_s"].max()))  # type: ignore[arg-type]
    if not nearest.is_exceeded:
        return None
    rates = rows["bytes_s" if nearest.in_bytes else "iops"]
    first, behind = find_stretches(rates > MOST_OVER * nearest.allowed)[0]
    stretch = rows[first:behind]
    begins, ends = part.compute_span(stretch)
    unit = "bytes/s" if nearest.in_bytes else "I/Os/s"
    rate = float(rates[first:behind].mean())  # type: ignore[arg-type]
    seconds = float(stretch["duration_s"].sum())
    of_instance = nearest.name.startswith("instance")
    recorded_rate, allowed_rate = describe_rate(rate, unit), describe_rate(nearest.allowed, unit)
    figures = (
        FindingFigure("rate", rate, unit, f"rate: {recorded_rate} (recorded, mean)"),
        FindingFigure("limit", nearest.allowed, unit, f"limit: {allowed_rate}, with full credits"),
        FindingFigure("seconds", seconds, "s", f"it lasted {describe_span(round(seconds))}"),
    )
    finding = read_verdicts()["recorded-beyond"].make_finding(
        part.name,
        weight=seconds,
        figures=figures,
        when=f"From {part.at(begins)} to {part.at(ends)}",
        rate=recorded_rate,
        allowed=allowed_rate,
        what=_name_target(part.evidence, of_instance),
        option="--instance" if of_instance else "--storage",
        merged="" if nearest.in_bytes else " (Or EBS merged requests that follow each other, which count as one.)",
    )
    return replace(finding, from_unix=begins, to_unix=ends)


def _compute_rates(volume: VolumeEvidence, limits: HoldingLimits, workload: OpenWorkload) -> pl.DataFrame:
    """Returns the least I/Os that EBS may count, and the bytes a second, of points that are long
    enough to be compared with a limit. Requests that follow each other may be merged."""
    rows = average_blocks(volume.rows, LEAST_MEAN_S)
    if not rows.height:
        return rows
    rows = rows.filter(pl.col("duration_s") >= 0.99 * LEAST_MEAN_S)  # a tool's clock is a little off
    merged = limits.io_kib >= MERGING_KIB
    merged |= max(workload.sequential_read_share, workload.sequential_write_share) > 0.5
    bytes_s = compute_bytes_per_s(rows)
    iops = bytes_s / (limits.io_kib * KIB) if merged else pl.col("charged_iops").fill_null(0.0)
    return rows.select("t_unix", "duration_s", iops=iops, bytes_s=bytes_s)


def _name_target(evidence: Evidence, of_instance: bool) -> str:
    """Returns the instance type, or the storage, whose limit the recording exceeds."""
    storage = next(entry.facts.storage for entry in evidence.volumes if entry.facts.role != "member")
    return str(evidence.facts.instance if of_instance else storage)
