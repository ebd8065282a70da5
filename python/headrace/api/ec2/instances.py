"""This machine as an instance, and where it is: zones and regions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from headrace.api import paging
from headrace.api.ec2.filters import filtered
from headrace.api.ec2.instance_types import widest_type
from headrace.api.ec2.shown import MANAGED, device_name, moment, tag_list
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, serves

# The page of DescribeInstances and DescribeInstanceStatus (EC2 API reference: 5 to 1,000).
PAGE = (5, 1000)
# EC2's code of the state (EC2 API reference, InstanceState).
RUNNING = {"Code": 16, "Name": "running"}
# Where EC2 has the root volume of an instance; the lab takes it for the machine's own disk.
ROOT_DEVICE = "/dev/xvda"


@cache
def _booted() -> datetime:
    """When this machine was started."""
    found = re.search(r"^btime (\d+)$", Path("/proc/stat").read_text(), re.MULTILINE)
    return datetime.fromtimestamp(int(found[1]) if found else 0, UTC)


def _mappings(request: ApiRequest) -> list[dict[str, Any]]:
    """The attached volumes, by their device names."""
    found = []
    for volume in request.known.volumes.now(request.lab).rows.values():
        attachment = volume["attachment"]
        if attachment is not None:
            found.append(
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
    return sorted(found, key=lambda one: one["DeviceName"])


def instance(request: ApiRequest) -> dict[str, Any]:
    """The lab's one instance."""
    status: Mapping[str, Any] = request.lab.status()
    return {
        "InstanceId": status["instance_id"],
        # Every instance has a type, and clients rely on it. A lab that imposes no instance's
        # limits shows the one whose limits bind least.
        "InstanceType": status["instance_type"] or widest_type(status["as_of"]),
        "State": RUNNING,
        "LaunchTime": _booted(),
        "Placement": {
            "AvailabilityZone": status["zone"],
            "AvailabilityZoneId": status["zone_id"],
            "Tenancy": "default",
        },
        "RootDeviceName": ROOT_DEVICE,
        "RootDeviceType": "ebs",
        "VirtualizationType": "hvm",
        "EbsOptimized": True,
        "BlockDeviceMappings": _mappings(request),
        "PrivateIpAddress": "127.0.0.1",
        "Tags": tag_list(status.get("instance_tags") or {}),
    }


_FILTERS = {
    "availability-zone": lambda one: one["Placement"]["AvailabilityZone"],
    "availability-zone-id": lambda one: one["Placement"]["AvailabilityZoneId"],
    "block-device-mapping.attach-time": lambda one: [row["Ebs"]["AttachTime"] for row in one["BlockDeviceMappings"]],
    "block-device-mapping.delete-on-termination": lambda one: [
        row["Ebs"]["DeleteOnTermination"] for row in one["BlockDeviceMappings"]
    ],
    "block-device-mapping.device-name": lambda one: [row["DeviceName"] for row in one["BlockDeviceMappings"]],
    "block-device-mapping.status": lambda one: [row["Ebs"]["Status"] for row in one["BlockDeviceMappings"]],
    "block-device-mapping.volume-id": lambda one: [row["Ebs"]["VolumeId"] for row in one["BlockDeviceMappings"]],
    "ebs-optimized": lambda one: one["EbsOptimized"],
    "instance-id": lambda one: one["InstanceId"],
    "instance-state-code": lambda one: one["State"]["Code"],
    "instance-state-name": lambda one: one["State"]["Name"],
    "instance-type": lambda one: one["InstanceType"],
    "launch-time": lambda one: one["LaunchTime"],
    "private-ip-address": lambda one: one["PrivateIpAddress"],
    "root-device-name": lambda one: one["RootDeviceName"],
    "root-device-type": lambda one: one["RootDeviceType"],
    "tenancy": lambda one: one["Placement"]["Tenancy"],
    "virtualization-type": lambda one: one["VirtualizationType"],
}


def known(request: ApiRequest, ids: list[str] | None) -> list[dict[str, Any]]:
    """The instances of these ids, or all. Raises AwsError for one that is not there."""
    found = instance(request)
    for one in ids or ():
        if not re.fullmatch(r"i-[0-9a-f]{8}([0-9a-f]{9})?", one, re.ASCII):
            raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{one[:100]}"')
    missing = [one for one in ids or () if one != found["InstanceId"]]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        verb = "do" if plural else "does"
        raise AwsError("InvalidInstanceID.NotFound", f"The instance ID{plural} '{', '.join(missing)}' {verb} not exist")
    return [found]


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
def describe_instances(request: ApiRequest) -> dict[str, Any]:
    """This machine, where ids and filters mean it."""
    size = _refuse_paged_ids(request)
    rows = known(request, request.params.get("InstanceIds"))
    kept = filtered(request, rows, _FILTERS, lambda one: {tag["Key"]: tag["Value"] for tag in one["Tags"] or ()})
    shown, token = paging.page(
        request.operation, kept, lambda one: one["InstanceId"], size, request.params.get("NextToken")
    )
    reservations = [
        {
            "ReservationId": one["InstanceId"].replace("i-", "r-"),
            "OwnerId": request.account,
            "Groups": [],
            "Instances": [one],
        }
        for one in shown
    ]
    return {"Reservations": reservations, "NextToken": token}


_STATUS_FILTERS = {
    "availability-zone": lambda one: one["AvailabilityZone"],
    "availability-zone-id": lambda one: one["AvailabilityZoneId"],
    "instance-state-code": lambda one: one["InstanceState"]["Code"],
    "instance-state-name": lambda one: one["InstanceState"]["Name"],
    "instance-status.status": lambda one: one["InstanceStatus"]["Status"],
    "instance-status.reachability": lambda one: "passed",
    "system-status.status": lambda one: one["SystemStatus"]["Status"],
    "system-status.reachability": lambda one: "passed",
    "attached-ebs-status.status": lambda one: one["AttachedEbsStatus"]["Status"],
}


@serves(
    "ec2",
    "DescribeInstanceStatus",
    handled="InstanceIds MaxResults NextToken DryRun Filters",
    without_effect={"IncludeManagedResources": MANAGED, "IncludeAllInstances": "the one instance is always running"},
)
def describe_instance_status(request: ApiRequest) -> dict[str, Any]:
    """That this machine runs, and whether its volumes can be reached."""
    size = _refuse_paged_ids(request)
    volumes = request.known.volumes.now(request.lab).rows.values()
    broken = any(volume["state"] == "error" for volume in volumes if volume["attachment"])
    good = {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
    bad = {"Status": "impaired", "Details": [{"Name": "reachability", "Status": "failed"}]}
    rows = [
        {
            "InstanceId": one["InstanceId"],
            "AvailabilityZone": one["Placement"]["AvailabilityZone"],
            "AvailabilityZoneId": one["Placement"]["AvailabilityZoneId"],
            "InstanceState": RUNNING,
            "InstanceStatus": good,
            "SystemStatus": good,
            "AttachedEbsStatus": bad if broken else good,
            "Events": [],
        }
        for one in known(request, request.params.get("InstanceIds"))
    ]
    kept = filtered(request, rows, _STATUS_FILTERS)
    shown, token = paging.page(
        request.operation, kept, lambda one: one["InstanceId"], size, request.params.get("NextToken")
    )
    return {"InstanceStatuses": shown, "NextToken": token}


# Attributes that the lab's instance has: (member of the answer, its value).
_ATTRIBUTES = {
    "instanceType": lambda one: ("InstanceType", {"Value": one["InstanceType"]}),
    "rootDeviceName": lambda one: ("RootDeviceName", {"Value": one["RootDeviceName"]}),
    "blockDeviceMapping": lambda one: ("BlockDeviceMappings", one["BlockDeviceMappings"]),
    "ebsOptimized": lambda one: ("EbsOptimized", {"Value": True}),
    "disableApiTermination": lambda one: ("DisableApiTermination", {"Value": True}),
    "instanceInitiatedShutdownBehavior": lambda one: ("InstanceInitiatedShutdownBehavior", {"Value": "stop"}),
    "productCodes": lambda one: ("ProductCodes", []),
}


@serves("ec2", "DescribeInstanceAttribute", handled="DryRun InstanceId Attribute")
def describe_instance_attribute(request: ApiRequest) -> dict[str, Any]:
    """One attribute of this machine as an instance."""
    (one,) = known(request, [request.params["InstanceId"]])
    wanted = request.params["Attribute"]
    if wanted not in _ATTRIBUTES:
        raise AwsError(
            "UnsupportedOperation", f"The attribute {wanted} is not supported: this lab's instance has none."
        )
    name, value = _ATTRIBUTES[wanted](one)
    return {"InstanceId": one["InstanceId"], name: value}


_ZONE_FILTERS = {
    "group-name": lambda zone: zone["GroupName"],
    "opt-in-status": lambda zone: zone["OptInStatus"],
    "region-name": lambda zone: zone["RegionName"],
    "state": lambda zone: zone["State"],
    "zone-id": lambda zone: zone["ZoneId"],
    "zone-name": lambda zone: zone["ZoneName"],
    "zone-type": lambda zone: zone["ZoneType"],
}


@serves(
    "ec2",
    "DescribeAvailabilityZones",
    handled="ZoneNames ZoneIds DryRun Filters",
    without_effect={"AllAvailabilityZones": "the lab has one zone"},
)
def describe_availability_zones(request: ApiRequest) -> dict[str, Any]:
    """The lab's one zone."""
    status: Mapping[str, Any] = request.lab.status()
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
        for one in request.params.get(parameter) or ():
            if one != zone[member]:
                raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{one[:100]}]")
    return {"AvailabilityZones": filtered(request, [zone], _ZONE_FILTERS)}


_REGION_FILTERS = {
    "endpoint": lambda region: region["Endpoint"],
    "opt-in-status": lambda region: region["OptInStatus"],
    "region-name": lambda region: region["RegionName"],
}


@serves(
    "ec2",
    "DescribeRegions",
    handled="RegionNames DryRun Filters",
    without_effect={"AllRegions": "the lab has one region"},
)
def describe_regions(request: ApiRequest) -> dict[str, Any]:
    """The lab's one region."""
    region = {
        "RegionName": request.region,
        "Endpoint": f"ec2.{request.region}.amazonaws.com",
        "OptInStatus": "opt-in-not-required",
    }
    for one in request.params.get("RegionNames") or ():
        if one != request.region:
            raise AwsError("InvalidParameterValue", f"Invalid region name: {one[:100]}")
    return {"Regions": filtered(request, [region], _REGION_FILTERS)}
