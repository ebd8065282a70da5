"""Serves this machine as an instance, and its zone and region."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from headrace.api import paging
from headrace.api.ec2.filters import filtered
from headrace.api.ec2.instance_types import widest_type
from headrace.api.ec2.shown import MANAGED, device_name, moment, tag_list
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, serves

# The page of DescribeInstances and DescribeInstanceStatus (EC2 API reference: 5 to 1,000).
PAGE = (5, 1000)
# EC2's code of the state (EC2 API reference, InstanceState).
RUNNING = {"Code": 16, "Name": "running"}
# Device of the root volume of an instance on EC2; the lab takes it for the machine's own disk.
ROOT_DEVICE = "/dev/xvda"


@cache
def _read_boot_time() -> datetime:
    """Returns when this machine was started."""
    match = re.search(r"^btime (\d+)$", Path("/proc/stat").read_text(), re.MULTILINE)
    return datetime.fromtimestamp(int(match[1]) if match else 0, UTC)


def _list_mappings(request: ApiRequest) -> list[Members]:
    """Returns the attached volumes, by their device names."""
    mappings = []
    for volume in request.cache.volumes.now(request.lab).rows.values():
        attachment = volume["attachment"]
        if attachment is not None:
            mappings.append(
                {
                    "DeviceName": device_name(attachment),
                    "Ebs": {
                        "VolumeId": volume["id"],
                        "Status": attachment["state"] if attachment["state"] != "busy" else "detaching",
                        "AttachTime": moment(attachment["attached_at"]),
                        "DeleteOnTermination": attachment["delete_on_termination"],
                    },
                }
            )
    return sorted(mappings, key=lambda mapping: mapping["DeviceName"])


def instance(request: ApiRequest) -> Members:
    """Returns the lab's one instance."""
    status = request.lab.status()
    return {
        "InstanceId": status["instance_id"],
        # Every instance has a type, and clients rely on it. A lab without an instance's limits
        # shows the type whose limits bind least.
        "InstanceType": status["instance_type"] or widest_type(status["as_of"]),
        "State": RUNNING,
        "LaunchTime": _read_boot_time(),
        "Placement": {
            "AvailabilityZone": status["zone"],
            "AvailabilityZoneId": status["zone_id"],
            "Tenancy": "default",
        },
        "RootDeviceName": ROOT_DEVICE,
        "RootDeviceType": "ebs",
        "VirtualizationType": "hvm",
        "EbsOptimized": True,
        "BlockDeviceMappings": _list_mappings(request),
        "PrivateIpAddress": "127.0.0.1",
        "Tags": tag_list(status.get("instance_tags") or {}),
    }


def find_instances(request: ApiRequest, ids: list[str] | None) -> list[Members]:
    """Returns the instances of these ids, or all. Raises AwsError for an id that does not exist."""
    own = instance(request)
    for instance_id in ids or ():
        if not re.fullmatch(r"i-[0-9a-f]{8}([0-9a-f]{9})?", instance_id, re.ASCII):
            raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id[:100]}"')
    missing = [instance_id for instance_id in ids or () if instance_id != own["InstanceId"]]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        verb = "do" if plural else "does"
        raise AwsError("InvalidInstanceID.NotFound", f"The instance ID{plural} '{', '.join(missing)}' {verb} not exist")
    return [own]


def _refuse_paged_ids(request: ApiRequest) -> int | None:
    size = paging.size(request.params, *PAGE)
    if request.params.get("InstanceIds") and size is not None:
        raise AwsError(
            "InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults"
        )
    return size


@serves(
    "ec2",
    "DescribeInstances",
    handled="InstanceIds DryRun Filters NextToken MaxResults",
    without_effect={"IncludeManagedResources": MANAGED},
)
def describe_instances(request: ApiRequest) -> Members:
    """Describes this machine, if ids and filters include it."""
    size = _refuse_paged_ids(request)
    rows = find_instances(request, request.params.get("InstanceIds"))
    matching = filtered(request, rows, tags=lambda machine: {tag["Key"]: tag["Value"] for tag in machine["Tags"] or ()})
    shown, token = paging.page_for(request, matching, lambda machine: machine["InstanceId"], size)
    reservations = [
        {
            "ReservationId": machine["InstanceId"].replace("i-", "r-"),
            "OwnerId": request.account,
            "Groups": [],
            "Instances": [machine],
        }
        for machine in shown
    ]
    return {"Reservations": reservations, "NextToken": token}


@serves(
    "ec2",
    "DescribeInstanceStatus",
    handled="InstanceIds MaxResults NextToken DryRun Filters",
    without_effect={"IncludeManagedResources": MANAGED, "IncludeAllInstances": "the one instance is always running"},
)
def describe_instance_status(request: ApiRequest) -> Members:
    """Tells that this machine runs, and whether its volumes can be reached."""
    size = _refuse_paged_ids(request)
    volumes = request.cache.volumes.now(request.lab).rows.values()
    broken = any(volume["state"] == "error" for volume in volumes if volume["attachment"])
    good = {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
    bad = {"Status": "impaired", "Details": [{"Name": "reachability", "Status": "failed"}]}
    rows = [
        {
            "InstanceId": machine["InstanceId"],
            "AvailabilityZone": machine["Placement"]["AvailabilityZone"],
            "AvailabilityZoneId": machine["Placement"]["AvailabilityZoneId"],
            "InstanceState": RUNNING,
            "InstanceStatus": good,
            "SystemStatus": good,
            "AttachedEbsStatus": bad if broken else good,
            "Events": [],
        }
        for machine in find_instances(request, request.params.get("InstanceIds"))
    ]
    matching = filtered(request, rows)
    shown, token = paging.page_for(request, matching, lambda row: row["InstanceId"], size)
    return {"InstanceStatuses": shown, "NextToken": token}


# Attributes that the lab's instance has: (member of the answer, its value).
_ATTRIBUTES = {
    "instanceType": lambda machine: ("InstanceType", {"Value": machine["InstanceType"]}),
    "rootDeviceName": lambda machine: ("RootDeviceName", {"Value": machine["RootDeviceName"]}),
    "blockDeviceMapping": lambda machine: ("BlockDeviceMappings", machine["BlockDeviceMappings"]),
    "ebsOptimized": lambda machine: ("EbsOptimized", {"Value": True}),
    "disableApiTermination": lambda machine: ("DisableApiTermination", {"Value": True}),
    "instanceInitiatedShutdownBehavior": lambda machine: ("InstanceInitiatedShutdownBehavior", {"Value": "stop"}),
    "productCodes": lambda machine: ("ProductCodes", []),
}


@serves("ec2", "DescribeInstanceAttribute", handled="DryRun InstanceId Attribute")
def describe_instance_attribute(request: ApiRequest) -> Members:
    """Returns one attribute of this machine as an instance."""
    (machine,) = find_instances(request, [request.params["InstanceId"]])
    attribute = request.params["Attribute"]
    if attribute not in _ATTRIBUTES:
        raise AwsError(
            "UnsupportedOperation", f"The attribute {attribute} is not supported: this lab's instance has none."
        )
    name, value = _ATTRIBUTES[attribute](machine)
    return {"InstanceId": machine["InstanceId"], name: value}


@serves(
    "ec2",
    "DescribeAvailabilityZones",
    handled="ZoneNames ZoneIds DryRun Filters",
    without_effect={"AllAvailabilityZones": "the lab has one zone"},
)
def describe_availability_zones(request: ApiRequest) -> Members:
    """Describes the lab's one zone."""
    status = request.lab.status()
    zone = {
        "ZoneName": status["zone"],
        "ZoneId": status["zone_id"],
        "RegionName": request.region,
        "GroupName": f"{request.region}-zg-1",
        "NetworkBorderGroup": request.region,
        "State": "available",
        "OptInStatus": "opt-in-not-required",
        "ZoneType": "availability-zone",
        "Messages": [],
    }
    for parameter, member in (("ZoneNames", "ZoneName"), ("ZoneIds", "ZoneId")):
        for name in request.params.get(parameter) or ():
            if name != zone[member]:
                raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{name[:100]}]")
    return {"AvailabilityZones": filtered(request, [zone])}


@serves(
    "ec2",
    "DescribeRegions",
    handled="RegionNames DryRun Filters",
    without_effect={"AllRegions": "the lab has one region"},
)
def describe_regions(request: ApiRequest) -> Members:
    """Describes the lab's one region."""
    region = {
        "RegionName": request.region,
        "Endpoint": f"ec2.{request.region}.amazonaws.com",
        "OptInStatus": "opt-in-not-required",
    }
    for name in request.params.get("RegionNames") or ():
        if name != request.region:
            raise AwsError("InvalidParameterValue", f"Invalid region name: {name[:100]}")
    return {"Regions": filtered(request, [region])}
