"""Metrics of EBS volumes and RDS instances from CloudWatch, with their descriptions by EC2 and RDS.
Needs boto3 (the extra `aws`); works against the lab's endpoint alike.

    aws:vol-0123456789abcdef0       a volume, several with commas between them
    aws:db-NAME                     the RDS instance NAME

The points are then read as those of an export (`observe.formats.cloudwatch`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from statistics import fmean

from headrace.aws.client import AwsAnswer, AwsClient, CallLimits, call, make_client
from headrace.aws.instances import find_instance_types
from headrace.aws.metrics import MetricOwner, fetch_points
from headrace.aws.volumes import AwsVolume, describe_volumes, write_notation
from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import DAY_S, HOUR_S, MINUTE_S
from headrace.errors import CouldNotRun, InputError, Refusals
from headrace.observe.formats.cloudwatch import CHECKS, EBS, OPTIONAL_METRICS, RDS, STATISTICS, build_readings
from headrace.observe.formats.devices import Readings, VolumeDescription
from headrace.observe.recording import Recording, clip
from headrace.observe.remote.span import TimeSpan

PREFIX = "aws:"
refuse = Refusals("docs/reference/import-formats.md, CloudWatch")
EXAMPLE = "aws:vol-0123456789abcdef0 or aws:db-NAME"
LIMITS = CallLimits(connect_s=5.0, answer_s=20.0)  # guesses: a page of CloudWatch takes a second
# Age up to which CloudWatch keeps points, s, by period: points of a minute 15 days, of five minutes
# 63, of an hour 455 (API_GetMetricStatistics, Period). A request that begins earlier gets no points
# at all, and AWS's clock may differ from this machine's: ten minutes less.
CLOCK_S = 600
RETENTION_S = tuple(
    (period, days * DAY_S - CLOCK_S) for period, days in ((MINUTE_S, 15), (5 * MINUTE_S, 63), (HOUR_S, 455))
)
# A count that is missing for more periods than this is not late: it will not come. A volume whose
# newest point is this many minutes older than that of another publishes no longer. A guess.
MOST_LATE = 5
# So few points may lie on whole five minutes by chance: one in five does. Ours.
LEAST_POINTS = 4
# Statistics of CloudWatch, as it joins the points of shorter periods.
JOINED: dict[str, Callable[[list[float]], float]] = {"Sum": sum, "Average": fmean, "Maximum": max}
# Storage types of RDS that EBS has by the same names; magnetic disks of old are not among them.
RDS_TYPES = {"gp2", "gp3", "io1", "io2"}
# Metrics of RDS besides those of the format: percent of all virtual CPUs at work, bytes.
RDS_HOST_METRICS = ("CPUUtilization", "FreeStorageSpace")
_VOLUME = re.compile(r"vol-[0-9a-z]{1,40}\Z", re.ASCII)
_DATABASE = re.compile(r"db-(?P<name>[A-Za-z0-9-]{1,63})\Z", re.ASCII)
_RESOURCE = re.compile(r"db-[A-Z0-9]{20,40}\Z", re.ASCII)  # DbiResourceId

Clients = Callable[[str], AwsClient]
Points = dict[str, dict[float, float]]  # by metric: value by the beginning of its period
# Metrics of a volume: those that the formats read, and CloudWatch's checks of the volume.
VOLUME_METRICS = (*EBS.needed, *(name for name in OPTIONAL_METRICS if name.startswith(("Volume", "Burst"))), *CHECKS)


@dataclass(frozen=True)
class Fetched:
    """Points fetched from CloudWatch. `points`: by volume ("" of an RDS instance) and metric.
    `described`: the facts of the volumes, by the device's name in the readings. `gaps`: how a
    missing period is filled, one of GAPS. `name`: of the target. `others`: points of
    RDS_HOST_METRICS."""

    name: str
    points: dict[tuple[str, str], dict[float, float]]
    period_s: float
    described: dict[str, VolumeDescription]
    gaps: str
    notes: tuple[str, ...] = ()
    others: Points = field(default_factory=dict)

    def make_readings(self) -> tuple[Recording, Readings]:
        """Returns the points as those of an imported file. Raises InputError."""
        text = json.dumps([[*key, list(values.items())] for key, values in self.points.items()])
        recording = Recording(clip(f"{PREFIX}{self.name}", 80), "", hashlib.sha256(text.encode()).hexdigest())
        recording.title, recording.notes = clip(self.name, 60), list(self.notes)
        readings = build_readings(recording, self.points, self.period_s)
        cpus = None
        for description in self.described.values():
            if description.instance is not None:
                with translate_core_errors():
                    cpus = core.instance(description.instance)["vcpus"]
        cpu_percent = self.others.get("CPUUtilization", {})
        for report in readings.reports:
            percent = None if report.stamp is None else cpu_percent.get(report.stamp.epoch_s)
            if percent is not None and cpus is not None:
                report.processors[""] = {"user": percent / 100 * cpus, "idle": (1 - percent / 100) * cpus}
        free = self.others.get("FreeStorageSpace", {})
        return recording, replace(readings, described=self.described, gaps=self.gaps, free_bytes=free)


def open_client(service: str) -> AwsClient:
    """Returns a client of a service. Raises as `make_client`."""
    return make_client(service, LIMITS)


def parse_names(target: str) -> list[str]:
    """Returns the volumes, or the RDS instance, that `aws:...` names. Raises InputError."""
    names = [name.strip() for name in target.removeprefix(PREFIX).split(",") if name.strip()]
    if not names or len(set(names)) != len(names):
        raise refuse.input(clip(target), "names no volume, or names a volume twice", f"For example {EXAMPLE}.")
    for name in names:
        if not _VOLUME.match(name) and not _DATABASE.match(name):
            raise refuse.input(clip(name), "is neither vol-... nor db-...", f"For example {EXAMPLE}.")
    if len(names) > 1 and any(_DATABASE.match(name) for name in names):
        raise refuse.input(clip(target), "one RDS instance is read at a time, alone", "Run the command once for each.")
    return names


def is_database(target: str) -> bool:
    """Returns True when `aws:...` names an RDS instance."""
    return target.startswith(f"{PREFIX}db-")


def fetch(target: str, span: TimeSpan, clients: Clients | None = None) -> Fetched:
    """Returns the metrics of what `aws:...` names in that time. Raises InputError, CouldNotRun."""
    names, clients = parse_names(target), clients or open_client
    return _fetch_database(names[0], span, clients) if is_database(target) else _fetch_volumes(names, span, clients)


def compute_bounds(span: TimeSpan) -> tuple[float, float, int]:
    """Returns beginning and end of the time to ask for, on whole periods, and the period: the
    shortest whose points CloudWatch keeps for all of that time, but for ten minutes at its
    beginning."""
    now = TimeSpan().ends()[1]
    begin, end = span.ends()
    period, retention_s = next((pair for pair in RETENTION_S if now - begin <= pair[1] + CLOCK_S), RETENTION_S[-1])
    begin, end = max(begin, now - retention_s), min(end, now)
    return -(-begin // period) * period, end // period * period, period


def detect_period(times: Collection[float], period: int) -> int:
    """Returns the period at which a volume publishes, by the times of points that were fetched with
    `period`: five minutes where all of them lie on whole five minutes (basic monitoring)."""
    five = 5 * MINUTE_S
    sparse = period < five and len(times) >= LEAST_POINTS and all(at % five == 0 for at in times)
    return five if sparse else period


# --- volumes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VolumePoints:
    """Points of EBS volumes. `described`: the volumes, `types`: of their instances, by id;
    `points`: by volume or instance, and metric; `period_s`: of them all, the longest at which one
    of the volumes publishes."""

    described: Mapping[str, AwsVolume]
    types: Mapping[str, str]
    points: Mapping[str, Points]
    period_s: float

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns the notes of all volumes."""
        return tuple(note for volume in self.described.values() for note in volume.notes)


def fetch_volumes(
    names: Sequence[str],
    span: TimeSpan,
    clients: Clients,
    statistics: Mapping[str, str],
    of_instance: Mapping[str, str] | None = None,
) -> VolumePoints:
    """Returns metrics of volumes, and of the instances that they are attached to, each with its
    statistic. The newest periods are left out until all volumes that still publish have them whole.
    Raises InputError, CouldNotRun; also where no volume has a point."""
    described = describe_volumes(clients("ec2"), names)
    instances = list(dict.fromkeys(volume.instance for volume in described.values() if volume.instance))
    types = find_instance_types(clients("ec2"), instances)
    begin = compute_bounds(span)[0]
    # An hour at least: a few points do not show the period at which a volume publishes.
    earliest, end, period = compute_bounds(replace(span, last_s=max(span.last_s, HOUR_S)))
    owners = [MetricOwner(name, "AWS/EBS", "VolumeId", name, statistics) for name in names]
    if of_instance:
        owners += [MetricOwner(name, "AWS/EC2", "InstanceId", name, of_instance) for name in instances]
    points: dict[str, Points] = {owner.name: {} for owner in owners}
    for (owner, metric), values in fetch_points(clients("cloudwatch"), owners, earliest, end, period).items():
        if values:
            points[owner][metric] = values
    for name in names:
        points[name] = _drop_incomplete(points[name])
    periods = {owner: detect_period(list_times(own), period) for owner, own in points.items()}
    longest, all_statistics = max(periods[name] for name in names), {**statistics, **(of_instance or {})}
    for owner, own in points.items():
        joined = _join_periods(own, all_statistics, periods[owner], longest)
        points[owner] = _select_points(joined, lambda at: at >= begin) if earliest < begin else joined
    lasts = [times[-1] for name in names if (times := list_times(points[name]))]
    if not lasts:
        raise _make_empty_error(", ".join(names), begin, end)
    # All end together, so that each period has the points of all volumes when it is returned.
    last = min(at for at in lasts if at >= max(lasts) - max(longest, MOST_LATE * MINUTE_S))
    for name in names:
        points[name] = _select_points(points[name], lambda at: at <= last)
    return VolumePoints(described, types, points, float(longest))


def list_times(points: Points) -> list[float]:
    """Returns the beginnings of the periods that have a point, in order."""
    return sorted({at for values in points.values() for at in values})


def _select_points(points: Points, belongs: Callable[[float], bool]) -> Points:
    """Returns the points of the periods for whose beginning `belongs` is true."""
    return {metric: {at: value for at, value in values.items() if belongs(at)} for metric, values in points.items()}


def _join_periods(points: Points, statistics: Mapping[str, str], period: int, longest: int) -> Points:
    """Returns the points of periods of `longest` seconds, each joined of shorter ones by its
    statistic as CloudWatch does; the first and the last are left out where a part of them is
    missing."""
    times = list_times(points)
    if period >= longest or not times:
        return points
    begin, end = times[0], times[-1] + period
    joined: Points = {}
    for metric, values in points.items():
        parts: dict[float, list[float]] = {}
        for at, value in values.items():
            parts.setdefault(at // longest * longest, []).append(value)
        join = JOINED[statistics[metric]]
        joined[metric] = {at: join(part) for at, part in parts.items() if begin <= at and at + longest <= end}
    return joined


def _drop_incomplete(points: Points) -> Points:
    """Returns the points of a volume without the newest periods that lack a count which earlier
    ones have: the metrics of a period arrive one by one, and a late one is not zero."""
    times = list_times(points)
    expected = [metric for metric in EBS.needed if points.get(metric)]
    late = list(takewhile(lambda at: any(at not in points[metric] for metric in expected), reversed(times)))
    unfinished = set(late) if len(late) <= MOST_LATE else set()
    return _select_points(points, lambda at: at not in unfinished)


def _fetch_volumes(names: Sequence[str], span: TimeSpan, clients: Clients) -> Fetched:
    """Returns the metrics and descriptions of EBS volumes; periods without a figure count as 0."""
    fetched = fetch_volumes(names, span, clients, choose_statistics(VOLUME_METRICS))
    points = {(name, metric): values for name in names for metric, values in _with_zeros(fetched.points[name]).items()}
    descriptions = {
        name: VolumeDescription(name, volume.storage, fetched.types.get(volume.instance or ""))
        for name, volume in fetched.described.items()
    }
    return Fetched(",".join(names), points, fetched.period_s, descriptions, "zero", fetched.notes)


def _with_zeros(points: Points) -> Points:
    """Returns points with all four counts in every period that has any point: a volume on Xen
    publishes no count that is 0."""
    times = list_times(points)
    counts = {metric: {at: points.get(metric, {}).get(at, 0.0) for at in times} for metric in EBS.needed}
    return {**points, **counts} if times else {}


# --- an RDS instance ------------------------------------------------------------------------------


def _fetch_database(name: str, span: TimeSpan, clients: Clients) -> Fetched:
    """Returns the metrics of an RDS instance and of its storage; a period without a figure repeats
    the one before. Raises CouldNotRun if it has none in that time."""
    instance = _describe_database(clients("rds"), name)
    identifier = instance["DBInstanceIdentifier"]
    begin, end, period = compute_bounds(span)
    metrics = [
        *RDS.needed,
        *(metric for metric in OPTIONAL_METRICS if not metric.startswith("Volume")),
        *RDS_HOST_METRICS,
    ]
    owner = MetricOwner("rds", "AWS/RDS", "DBInstanceIdentifier", identifier, choose_statistics(metrics))
    fetched = fetch_points(clients("cloudwatch"), [owner], begin, end, period)
    points = {metric: values for (_, metric), values in fetched.items() if values}
    if not any(points.get(metric) for metric in RDS.needed):
        raise _make_empty_error(f"db-{identifier}", begin, end)
    notes: list[str] = []
    description = _describe_storage(instance, notes)
    others = {metric: points.pop(metric) for metric in RDS_HOST_METRICS if metric in points}
    of_storage = {("", metric): values for metric, values in points.items()}
    described = {RDS.only_device: description}
    return Fetched(f"db-{identifier}", of_storage, float(period), described, "hold", tuple(notes), others)


def _describe_database(rds: AwsClient, name: str) -> AwsAnswer:
    """Returns RDS's description of the instance that `db-NAME` means: the first that exists of the
    instance with this resource id, NAME, and db-NAME. Raises InputError."""
    match = _DATABASE.match(name)
    assert match is not None  # `parse_names` has checked it
    attempts: list[AwsAnswer] = [{"DBInstanceIdentifier": match["name"]}, {"DBInstanceIdentifier": name}]
    if _RESOURCE.match(name):
        attempts.insert(0, {"Filters": [{"Name": "dbi-resource-id", "Values": [name]}]})
    for arguments in attempts:
        try:
            instances = call(name, "rds:DescribeDBInstances", rds.describe_db_instances, **arguments)["DBInstances"]
        except InputError as error:
            if error.kind not in ("DBInstanceNotFound", "DBInstanceNotFoundFault"):
                raise
            continue
        if len(instances) == 1:
            return instances[0]
    rule = f"no RDS instance {match['name']} is in this account and region"
    raise InputError(name, rule, "describe-db-instances", "Check AWS_REGION: aws rds describe-db-instances lists them.")


def _describe_storage(instance: AwsAnswer, notes: list[str]) -> VolumeDescription:
    """Returns the storage of an RDS instance in the catalog's notation, as the array that RDS makes
    of it, and the instance type of its class. Appends to `notes` what is not known."""
    kind, size = instance.get("StorageType", ""), int(instance.get("AllocatedStorage") or 0)
    engine = instance.get("Engine", "")
    name = f"db-{instance['DBInstanceIdentifier']}"
    service = str(instance.get("DBInstanceClass", "")).removeprefix("db.")
    instance_type = None
    try:
        with translate_core_errors():
            core.instance(service)
        instance_type = service
    except InputError:
        notes.append(f"db.{service} is of no instance type that is known here: only the storage's limits are judged.")
    if engine.startswith("aurora"):
        notes.append("Aurora's storage has no limits of volumes: only the instance's are judged.")
        return VolumeDescription(name, None, instance_type)
    if kind not in RDS_TYPES or size <= 0:
        notes.append(f"Storage of type {kind or 'unknown'} has no limits that are known here.")
        return VolumeDescription(name, None, instance_type)
    text = write_notation(kind, size, instance.get("Iops"), instance.get("StorageThroughput"))
    try:
        with translate_core_errors():
            storage = core.rds_storage(text)["array"]
    except InputError as error:
        notes.append(f"The storage {text} of the instance is not known here: {error.rule}")
        return VolumeDescription(name, None, instance_type)
    if instance.get("MultiAZ"):
        notes.append(
            "It is Multi-AZ: every write waits for the standby too, so its latency has a part that no volume makes."
        )
    return VolumeDescription(name, storage, instance_type)


def choose_statistics(metrics: Iterable[str]) -> dict[str, str]:
    """Returns the statistic that each of these metrics is read with."""
    others = {metric: "Maximum" if metric.endswith("Check") else "Average" for metric in metrics}
    return others | {metric: STATISTICS[metric] for metric in others if metric in STATISTICS}


def _make_empty_error(what: str, begin: float, end: float) -> CouldNotRun:
    """Returns the error for a time, in seconds since 1970, of which CloudWatch has no points."""
    times = " to ".join(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in (begin, end))
    hint = "A volume publishes while it is attached and used, an instance while it runs. Ask for more (--last) or another region."
    return CouldNotRun(what, f"CloudWatch has no point of {times} UTC", "CloudWatch", hint)
