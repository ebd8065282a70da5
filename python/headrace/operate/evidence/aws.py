"""Evidence of EBS volumes from AWS: describe-volumes for what they are, CloudWatch for what they
did, a minute a point. Needs boto3 (the extra `aws`); works against the lab's endpoint alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from headrace.base.units import MIB, MINUTE_S
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.operate.evidence.limits import HoldingLimits, holding
from headrace.operate.evidence.model import OVER, Evidence, Row, SeenVolume, SourceFacts, Tick, gathered

DOC = "docs/guide/doctor.md"
CONNECT_S, ANSWER_S = 5.0, 20.0  # guesses: a page of CloudWatch takes a second
# data/managed and the EBS user guide, "Amazon CloudWatch metrics for Amazon EBS".
OF_VOLUME = {
    "VolumeReadOps": "Sum", "VolumeWriteOps": "Sum", "VolumeReadBytes": "Sum", "VolumeWriteBytes": "Sum",
    "VolumeTotalReadTime": "Sum", "VolumeTotalWriteTime": "Sum", "VolumeQueueLength": "Average", "VolumeIdleTime": "Sum",
    "BurstBalance": "Average", "VolumeIOPSExceededCheck": "Maximum", "VolumeThroughputExceededCheck": "Maximum",
    "VolumeStalledIOCheck": "Maximum",
}  # fmt: skip
# A count that is missing for more minutes than this is not late: it does not come. A guess.
MOST_LATE = 5
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
MOST_QUERIES = 500  # API_GetMetricData
# Points of a minute are kept for 15 days, and a request that begins earlier gets none at all
# (API_GetMetricStatistics, Period). Ten minutes less: the clock of AWS is not ours.
MOST_MINUTES = 15 * 24 * 60 - 10


def evidence_of_aws(
    volumes: Sequence[str], minutes: int, clients: Callable[[str], Any] | None = None, as_of: str | None = None
) -> Evidence:
    """The last `minutes` of these volumes (vol-...), of the 15 days that are kept. `clients`: makes
    a client of a service by its name. Raises InputError, CouldNotRun."""
    clients, minutes = clients or client, min(minutes, MOST_MINUTES)
    described = _described(clients("ec2"), volumes)
    instance_ids = list(dict.fromkeys(one["instance"] for one in described.values() if one["instance"]))
    types = _instance_types(clients("ec2"), instance_ids)
    end = int(time.time()) // MINUTE_S * MINUTE_S
    queries, meaning = _queries(volumes, instance_ids)
    found = _points(clients("cloudwatch"), queries, end - minutes * MINUTE_S, end)
    facts = tuple(_facts(name, described[name], types, as_of) for name in volumes)
    by_time: dict[float, dict[str, dict[str, float]]] = {}
    for key, points in found.items():
        owner, metric = meaning[key]
        for at, value in points.items():
            by_time.setdefault(at, {}).setdefault(owner, {})[metric] = value
    for name in volumes:
        _drop_unfinished(by_time, name)
    ticks, seen = [], set()
    for at, owners in sorted(by_time.items()):
        rows = {}
        for one in facts:
            values = owners.get(one.name, {}) | owners.get(described[one.name]["instance"] or "", {})
            if owners.get(one.name):
                rows[one.name] = row_of_minute(values, one.limits)
                if one.name not in seen:
                    # It may have been attached within this minute: then not idle for a part of it.
                    rows[one.name]["idle_share"] = None
                seen.add(one.name)
        if rows:
            ticks.append(Tick(at, float(MINUTE_S), rows))
    missing = ["the server: CloudWatch knows nothing of MySQL", "latency percentiles: CloudWatch has means of a minute"]
    missing.append("time over each limit: CloudWatch says yes or no for a minute, blind below about half of it")
    if not ticks:
        hint = "Volumes publish while they are attached and used; a detached one has no points. Ask for more minutes."
        raise CouldNotRun(
            ", ".join(volumes), f"CloudWatch has no point of the last {minutes} minutes", "CloudWatch", hint
        )
    instance = next(iter(types.values()), None)
    source = SourceFacts(
        "aws:" + ",".join(volumes),
        "cloudwatch",
        float(MINUTE_S),
        "UTC, CloudWatch",
        facts,
        None,
        None,
        instance,
        as_of,
        False,
        tuple(missing),
    )
    return gathered(source, ticks, [note for one in described.values() for note in one["notes"]])


def _drop_unfinished(by_time: dict[float, dict[str, dict[str, float]]], volume: str) -> None:
    """Takes away the newest minutes of a volume in which counts that came before are missing:
    metrics of a minute arrive one by one, and what has not arrived is not zero."""
    mine = [(at, owners[volume]) for at, owners in sorted(by_time.items()) if volume in owners]
    expected = [metric for metric in COUNTS if any(metric in values for _, values in mine)]
    late = list(takewhile(lambda one: any(metric not in one[1] for metric in expected), reversed(mine)))
    if len(late) <= MOST_LATE:
        for at, _ in late:
            del by_time[at][volume]


def row_of_minute(values: Mapping[str, float], limits: HoldingLimits | None, seconds: float = float(MINUTE_S)) -> Row:
    """Metrics of a period as figures of a volume. A check is 1 or 0; the published points of a
    check say "more than about half of the minute"."""
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


def client(service: str) -> Any:
    """A client of boto3. Raises CouldNotRun without boto3, InputError without credentials or
    region."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError:
        rule = "is not installed, and AWS is reached with it"
        raise CouldNotRun("boto3", rule, DOC, "pip install 'headrace[aws]'") from None
    try:
        session = boto3.Session()
        if session.get_credentials() is None:
            hint = "Give the instance a role, or set AWS_PROFILE."
            raise InputError("AWS", "no credentials were found", "AWS SDKs, credential providers", hint)
        return session.client(service, config=Config(connect_timeout=CONNECT_S, read_timeout=ANSWER_S))
    except BotoCoreError as error:
        raise InputError("AWS", str(error)[:300], DOC, "Set AWS_REGION.") from None


def _call(what: str, call: Callable[..., Any], **arguments: Any) -> Any:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call(**arguments)
    except ClientError as error:
        told = error.response.get("Error", {})
        raise InputError(
            what,
            f"AWS refuses: {told.get('Message', '')[:200]}",
            f"AWS, {told.get('Code', '')}",
            "Is it of this account and region?",
        ) from None
    except BotoCoreError as error:
        raise CouldNotRun(
            what, f"AWS cannot be reached: {str(error)[:200]}", DOC, "Check AWS_ENDPOINT_URL and the network."
        ) from None


def _described(ec2: Any, volumes: Sequence[str]) -> dict[str, dict[str, Any]]:
    answer = _call(", ".join(volumes), ec2.describe_volumes, VolumeIds=list(volumes))
    found: dict[str, dict[str, Any]] = {}
    for one in answer["Volumes"]:
        attached = [each for each in one.get("Attachments", ()) if each.get("State") == "attached"]
        parts = [one["VolumeType"], str(one["Size"])]
        if one["VolumeType"] in ("gp3", "io1", "io2") and one.get("Iops"):
            parts += [str(one["Iops"])] + ([str(one["Throughput"])] if one.get("Throughput") else [])
        several = [each["InstanceId"] for each in attached]
        found[one["VolumeId"]] = {
            "notes": [_shared(one["VolumeId"], several)] if len(several) > 1 else [],
            "storage": ":".join(parts),
            "instance": attached[0]["InstanceId"] if attached else None,
            "device": attached[0].get("Device") if attached else None,
            "state": _modification(ec2, one["VolumeId"]),
        }
    missing = [name for name in volumes if name not in found]
    if missing:
        raise InputError(
            missing[0], "is not a volume of this account and region", "describe-volumes", "Check AWS_REGION."
        )
    return found


def _shared(volume: str, instances: Sequence[str]) -> str:
    return (
        f"{volume} is attached to {', '.join(instances)} (Multi-Attach): its figures are those of all of them together; "
        f"of the instances, only the limits of {instances[0]} are judged"
    )


def _modification(ec2: Any, volume: str) -> str:
    """`modifying`, `optimizing` or nothing."""
    try:
        answer = _call(volume, ec2.describe_volumes_modifications, VolumeIds=[volume])
    except HeadraceError:  # a volume that never was modified
        return ""
    states = [one.get("ModificationState") for one in answer.get("VolumesModifications", ())]
    return next((state for state in states if state in ("modifying", "optimizing")), "")


def _instance_types(ec2: Any, ids: Sequence[str]) -> dict[str, str]:
    if not ids:
        return {}
    try:
        answer = _call("instances", ec2.describe_instances, InstanceIds=list(ids))
    except HeadraceError:
        return {}
    return {one["InstanceId"]: one["InstanceType"] for each in answer["Reservations"] for one in each["Instances"]}


def _facts(name: str, described: Mapping[str, Any], types: Mapping[str, str], as_of: str | None) -> SeenVolume:
    instance = types.get(described["instance"] or "")
    try:
        limits = holding(described["storage"], instance, as_of)
    except InputError:
        limits = None
    return SeenVolume(name, described["storage"], described["device"], limits, described["state"])


def _queries(volumes: Sequence[str], instances: Sequence[str]) -> tuple[list[dict], dict[str, tuple[str, str]]]:
    queries, meaning = [], {}
    wanted = [(name, "AWS/EBS", "VolumeId", OF_VOLUME) for name in volumes]
    wanted += [(name, "AWS/EC2", "InstanceId", OF_INSTANCE) for name in instances]
    for owner, namespace, dimension, metrics in wanted:
        for metric, statistic in metrics.items():
            key = f"q{len(queries)}"
            meaning[key] = (owner, metric)
            stat = {
                "Metric": {
                    "Namespace": namespace,
                    "MetricName": metric,
                    "Dimensions": [{"Name": dimension, "Value": owner}],
                },
                "Period": MINUTE_S,
                "Stat": statistic,
            }
            queries.append({"Id": key, "MetricStat": stat})
    return queries, meaning


def _points(cloudwatch: Any, queries: list[dict], start: float, end: float) -> dict[str, dict[float, float]]:
    """By query: value by time. Every page is fetched."""
    found: dict[str, dict[float, float]] = {}
    for at in range(0, len(queries), MOST_QUERIES):
        arguments: dict[str, Any] = {
            "MetricDataQueries": queries[at : at + MOST_QUERIES],
            "StartTime": datetime.fromtimestamp(start, UTC),
            "EndTime": datetime.fromtimestamp(end, UTC),
        }
        while True:
            answer = _call("CloudWatch", cloudwatch.get_metric_data, **arguments)
            for one in answer["MetricDataResults"]:
                points = found.setdefault(one["Id"], {})
                for moment, value in zip(one["Timestamps"], one["Values"], strict=True):
                    points[moment.timestamp()] = float(value)
            if not answer.get("NextToken"):
                break
            arguments["NextToken"] = answer["NextToken"]
    return found
