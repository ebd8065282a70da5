"""Evidence of EBS volumes from AWS: describe-volumes for what they are, CloudWatch for what they
did, a point for each period. Needs boto3 (the extra `aws`); works against the lab's endpoint alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile

from headrace.aws.instances import instance_types
from headrace.aws.metrics import MetricOwner, fetch_points
from headrace.aws.volumes import AwsVolume, describe_volumes
from headrace.base.units import MIB, MINUTE_S, span_in_words
from headrace.errors import CouldNotRun, InputError
from headrace.observe.remote.aws import (
    MOST_LATE,
    Clients,
    bounds,
    open_client,
    published_every,
)
from headrace.observe.remote.span import TimeSpan
from headrace.observe.evidence.limits import HoldingLimits, holding
from headrace.base.caps import OVER
from headrace.observe.evidence.model import Evidence, Row, SeenVolume, SourceFacts, Tick, gathered

# data/managed and the EBS user guide, "Amazon CloudWatch metrics for Amazon EBS".
OF_VOLUME = {
    "VolumeReadOps": "Sum", "VolumeWriteOps": "Sum", "VolumeReadBytes": "Sum", "VolumeWriteBytes": "Sum",
    "VolumeTotalReadTime": "Sum", "VolumeTotalWriteTime": "Sum", "VolumeQueueLength": "Average", "VolumeIdleTime": "Sum",
    "BurstBalance": "Average", "VolumeIOPSExceededCheck": "Maximum", "VolumeThroughputExceededCheck": "Maximum",
    "VolumeStalledIOCheck": "Maximum",
}  # fmt: skip
COUNTS = ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes")
OF_INSTANCE = {
    "InstanceEBSIOPSExceededCheck": "Maximum", "InstanceEBSThroughputExceededCheck": "Maximum",
    "EBSIOBalance%": "Average", "EBSByteBalance%": "Average",
}  # fmt: skip
CHECKS = {
    "VolumeIOPSExceededCheck": "volume-iops",
    "VolumeThroughputExceededCheck": "volume-throughput",
    "InstanceEBSIOPSExceededCheck": "instance-iops",
    "InstanceEBSThroughputExceededCheck": "instance-throughput",
}


def evidence_of_aws(
    volumes: Sequence[str], span: TimeSpan, clients: Clients | None = None, as_of: str | None = None
) -> Evidence:
    """Returns what these volumes (vol-...) did in that time. `clients`: makes a client of a service
    by its name. Raises InputError, CouldNotRun."""
    clients = clients or open_client
    begin, end, period = bounds(span)
    described = describe_volumes(clients("ec2"), volumes)
    instance_ids = list(dict.fromkeys(volume.instance for volume in described.values() if volume.instance))
    types = instance_types(clients("ec2"), instance_ids)
    owners = [MetricOwner(name, "AWS/EBS", "VolumeId", name, OF_VOLUME) for name in volumes]
    owners += [MetricOwner(name, "AWS/EC2", "InstanceId", name, OF_INSTANCE) for name in instance_ids]
    fetched = fetch_points(clients("cloudwatch"), owners, begin, end, period)
    facts = tuple(_facts(name, described[name], types, as_of) for name in volumes)
    by_time: dict[float, dict[str, dict[str, float]]] = {}
    for (owner, metric), points in fetched.items():
        for at, value in points.items():
            by_time.setdefault(at, {}).setdefault(owner, {})[metric] = value
    for name in volumes:
        _drop_unfinished(by_time, name)
    period = published_every([at for at, figures in by_time.items() if set(figures) & set(volumes)], period)
    ticks, seen = [], set()
    for at, figures in sorted(by_time.items()):
        rows = {}
        for volume in facts:
            values = figures.get(volume.name, {}) | figures.get(described[volume.name].instance or "", {})
            if figures.get(volume.name):
                rows[volume.name] = row_of_minute(values, volume.limits, float(period))
                if volume.name not in seen:
                    # It may have been attached within this minute: then not idle for a part of it.
                    rows[volume.name]["idle_share"] = None
                seen.add(volume.name)
        if rows:
            ticks.append(Tick(at, float(period), rows))
    missing = ["the server: CloudWatch knows nothing of MySQL", "latency percentiles: CloudWatch has means of a minute"]
    missing.append("time over each limit: CloudWatch says yes or no for a minute, blind below about half of it")
    if not ticks:
        hint = "Volumes publish while they are attached and used; a detached one has no points. Ask for more: --last."
        until = datetime.fromtimestamp(end, UTC)
        rule = f"CloudWatch has no point of the {span_in_words(end - begin)} before {until:%Y-%m-%d %H:%M} UTC"
        raise CouldNotRun(", ".join(volumes), rule, "CloudWatch", hint)
    instance = next(iter(types.values()), None)
    source = SourceFacts(
        "aws:" + ",".join(volumes),
        "cloudwatch",
        float(period),
        "UTC, CloudWatch",
        facts,
        None,
        None,
        instance,
        as_of,
        False,
        tuple(missing),
    )
    return gathered(source, ticks, [note for volume in described.values() for note in volume.notes])


def _drop_unfinished(by_time: dict[float, dict[str, dict[str, float]]], volume: str) -> None:
    """Takes away the newest minutes of a volume in which counts that came before are missing:
    metrics of a minute arrive one by one, and what has not arrived is not zero."""
    mine = [(at, owners[volume]) for at, owners in sorted(by_time.items()) if volume in owners]
    expected = [metric for metric in COUNTS if any(metric in values for _, values in mine)]
    late = list(takewhile(lambda pair: any(metric not in pair[1] for metric in expected), reversed(mine)))
    if len(late) <= MOST_LATE:
        for at, _ in late:
            del by_time[at][volume]


def row_of_minute(values: Mapping[str, float], limits: HoldingLimits | None, seconds: float = float(MINUTE_S)) -> Row:
    """Returns the metrics of a period as figures of a volume. A check is 1 or 0; the published
    points of a check say "more than about half of the minute"."""
    reads, writes = values.get("VolumeReadOps"), values.get("VolumeWriteOps")
    read_iops, write_iops = ((0.0 if count is None else count) / seconds for count in (reads, writes))
    read_mib_s, write_mib_s = (values.get(f"Volume{way}Bytes", 0.0) / MIB / seconds for way in ("Read", "Write"))
    idle = values.get("VolumeIdleTime")
    row: Row = {
        "read_iops": read_iops,
        "write_iops": write_iops,
        "charged_iops": limits.charged(read_iops, write_iops, read_mib_s, write_mib_s)[0]
        if limits
        else read_iops + write_iops,
        "read_mib_s": read_mib_s,
        "write_mib_s": write_mib_s,
        "queue": values.get("VolumeQueueLength"),
        "idle_share": None if idle is None else min(1.0, idle / seconds),
        # Without I/O there is no latency, not one of zero.
        "read_ms": values["VolumeTotalReadTime"] / reads * 1e3 if reads and "VolumeTotalReadTime" in values else None,
        "write_ms": values["VolumeTotalWriteTime"] / writes * 1e3
        if writes and "VolumeTotalWriteTime" in values
        else None,
        "balance_percent": values.get("BurstBalance"),
        "instance_io_balance_percent": values.get("EBSIOBalance%"),
        "instance_byte_balance_percent": values.get("EBSByteBalance%"),
        "stalled": values.get("VolumeStalledIOCheck"),
    }
    return row | {OVER[limit]: values[metric] for metric, limit in CHECKS.items() if metric in values}


def _facts(name: str, described: AwsVolume, types: Mapping[str, str], as_of: str | None) -> SeenVolume:
    instance = types.get(described.instance or "")
    try:
        limits = holding(described.storage, instance, as_of)
    except InputError:
        limits = None
    return SeenVolume(name, described.storage, described.device, limits, described.state)
