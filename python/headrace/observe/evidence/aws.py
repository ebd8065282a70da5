"""Evidence of EBS volumes from AWS: their descriptions from describe-volumes, and a tick for each
period of CloudWatch. Needs boto3 (the extra `aws`); works against the lab's endpoint alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.aws.volumes import AwsVolume
from headrace.base.caps import OVER
from headrace.base.units import MIB, MINUTE_S
from headrace.errors import InputError
from headrace.observe.evidence.limits import HoldingLimits, get_holding_limits
from headrace.observe.evidence.model import Evidence, Row, SeenVolume, SourceFacts, Tick, collect_evidence
from headrace.observe.remote.aws import (
    VOLUME_METRICS,
    Clients,
    choose_statistics,
    fetch_volumes,
    list_times,
    open_client,
)
from headrace.observe.remote.span import TimeSpan

# data/managed and the EBS user guide, "Amazon CloudWatch metrics for Amazon EBS".
OF_VOLUME = (*VOLUME_METRICS, "VolumeStalledIOCheck")
OF_INSTANCE = ("InstanceEBSIOPSExceededCheck", "InstanceEBSThroughputExceededCheck", "EBSIOBalance%", "EBSByteBalance%")
CHECKS = {
    "VolumeIOPSExceededCheck": "volume-iops",
    "VolumeThroughputExceededCheck": "volume-throughput",
    "InstanceEBSIOPSExceededCheck": "instance-iops",
    "InstanceEBSThroughputExceededCheck": "instance-throughput",
}


def fetch_aws_evidence(
    volumes: Sequence[str], span: TimeSpan, clients: Clients | None = None, as_of: str | None = None
) -> Evidence:
    """Returns the evidence of these volumes (vol-...) in that time. `clients`: makes a client of a
    service by its name. Raises InputError, CouldNotRun."""
    metrics = (_choose_shares(OF_VOLUME), _choose_shares(OF_INSTANCE))
    fetched = fetch_volumes(volumes, span, clients or open_client, *metrics)
    facts = tuple(_make_seen_volume(name, fetched.described[name], fetched.types, as_of) for name in volumes)
    by_time: dict[float, dict[str, Row]] = {}
    for volume in facts:
        own, instance = fetched.points[volume.name], fetched.described[volume.name].instance
        host = fetched.points.get(instance or "", {})
        times = list_times(own)
        for at in times:
            figures = {metric: values[at] for part in (own, host) for metric, values in part.items() if at in values}
            row = make_minute_row(figures, volume.limits, fetched.period_s)
            # It may have been attached within the first minute: then not idle for a part of it.
            by_time.setdefault(at, {})[volume.name] = row | ({"idle_share": None} if at == times[0] else {})
    ticks = [Tick(at, fetched.period_s, rows) for at, rows in by_time.items()]
    missing = (
        "the server: CloudWatch has no metrics of MySQL",
        "latency percentiles: CloudWatch has means of a minute",
        "time over each limit: CloudWatch says yes or no for a minute, blind below about half of it",
    )
    source = SourceFacts(
        "aws:" + ",".join(volumes),
        "cloudwatch",
        fetched.period_s,
        "UTC, CloudWatch",
        facts,
        instance=next(iter(fetched.types.values()), None),
        as_of=as_of,
        missing=missing,
    )
    return collect_evidence(source, ticks, fetched.notes)


def _choose_shares(metrics: Sequence[str]) -> dict[str, str]:
    """Returns the statistic to fetch of each metric: the average for the checks (CHECKS), 1 or 0 of
    a minute, and of longer periods the share of the minutes that were over the limit."""
    return choose_statistics(metrics) | {metric: "Average" for metric in metrics if metric in CHECKS}


def make_minute_row(values: Mapping[str, float], limits: HoldingLimits | None, seconds: float = float(MINUTE_S)) -> Row:
    """Returns the row of a volume from its metrics in a period of `seconds`. A check becomes the
    share of the minutes over the limit; a point of one minute is 1 if about half of it was."""
    reads, writes = values.get("VolumeReadOps"), values.get("VolumeWriteOps")
    read_iops, write_iops = ((0.0 if count is None else count) / seconds for count in (reads, writes))
    read_mib_s, write_mib_s = (values.get(f"Volume{way}Bytes", 0.0) / MIB / seconds for way in ("Read", "Write"))
    idle = values.get("VolumeIdleTime")
    row: Row = {
        "read_iops": read_iops,
        "write_iops": write_iops,
        "charged_iops": limits.compute_charged_rates(read_iops, write_iops, read_mib_s, write_mib_s)[0]
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


def _make_seen_volume(name: str, described: AwsVolume, types: Mapping[str, str], as_of: str | None) -> SeenVolume:
    """Returns the facts of one volume of AWS; its limits are None where the catalog has none.
    `types`: the instance type by instance id."""
    instance = types.get(described.instance or "")
    try:
        limits = get_holding_limits(described.storage, instance, as_of)
    except InputError:
        limits = None
    return SeenVolume(name, described.storage, described.device, limits, described.state)
