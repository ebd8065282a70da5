"""Serves the account, this machine as an instance, its zone and region, and the catalog's facts of
instance types."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from headrace.api import paging
from headrace.api.ec2.conversion import convert_tags, get_device_name, parse_moment
from headrace.api.ec2.filters import filter_items
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, serves
from headrace.base import core

# The page of DescribeImages (EC2 API reference: 1 to 1,000).
IMAGES_PAGE = (1, 1000)


@serves("ec2", "DescribeImages")
def describe_images(request: ApiRequest) -> Members:
    """Lists no image: the lab's instance is this machine, and no snapshot belongs to an AMI."""
    ids = list(dict.fromkeys(request.params.get("ImageIds") or ()))
    for image_id in ids:
        if not re.fullmatch(r"ami-[0-9a-f]{8}([0-9a-f]{9})?", image_id, re.ASCII):
            raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image_id[:100]}" (expecting "ami-...")')
    if ids:
        plural, verb = ("s", "do") if len(ids) > 1 else ("", "does")
        raise AwsError("InvalidAMIID.NotFound", f"The image id{plural} '[{', '.join(ids)}]' {verb} not exist")
    size = paging.read_size(request.params, *IMAGES_PAGE)
    images: list[Members] = filter_items(request, [], {}, lambda image: image["Tags"])
    page, token = paging.cut_request_page(request, images, lambda image: image["ImageId"], size)
    return {"Images": page, "NextToken": token}


# Attributes of an account (EC2 API reference, DescribeAccountAttributes), as they are of a lab: one
# instance, and no network of its own.
_ACCOUNT_ATTRIBUTES = {
    "default-vpc": "none",
    "max-elastic-ips": "0",
    "max-instances": "1",
    "supported-platforms": "VPC",
    "vpc-max-elastic-ips": "0",
    "vpc-max-security-groups-per-interface": "0",
}


@serves("ec2", "DescribeAccountAttributes")
def describe_account_attributes(request: ApiRequest) -> Members:
    """Lists the limits of the lab's account."""
    # The model has two names that can be asked for.
    names = request.params.get("AttributeNames") or list(_ACCOUNT_ATTRIBUTES)
    return {
        "AccountAttributes": [
            {"AttributeName": name, "AttributeValues": [{"AttributeValue": _ACCOUNT_ATTRIBUTES[name]}]}
            for name in dict.fromkeys(names)
        ]
    }


@serves("ec2", "GetSnapshotBlockPublicAccessState")
def get_snapshot_block_public_access_state(request: ApiRequest) -> Members:
    """Answers that public sharing is blocked: the lab refuses to make a snapshot public."""
    return {"State": "block-all-sharing", "ManagedBy": "account"}


@serves("ec2", "GetEbsEncryptionByDefault")
def get_ebs_encryption_by_default(request: ApiRequest) -> Members:
    """Tells whether new volumes are encrypted by default."""
    on = request.lab.encryption_defaults()["by_default"]
    return {"EbsEncryptionByDefault": on, "SseType": "sse-kms" if on else "none"}


# The page of DescribeInstances and DescribeInstanceStatus (EC2 API reference: 5 to 1,000).
PAGE = (5, 1000)
# EC2's code of the state (EC2 API reference, InstanceState).
RUNNING = {"Code": 16, "Name": "running"}
# Device of the root volume of an instance on EC2; the lab takes it for the machine's own disk.
ROOT_DEVICE = "/dev/xvda"


@cache
def _read_boot_time() -> datetime:
    match = re.search(r"^btime (\d+)$", Path("/proc/stat").read_text(), re.MULTILINE)
    return datetime.fromtimestamp(int(match[1]) if match else 0, UTC)


def _list_mappings(request: ApiRequest) -> list[Members]:
    """Lists the attached volumes as block device mappings, by device name."""
    mappings = []
    for volume in request.cache.volumes.fetch_table(request.lab).rows.values():
        attachment = volume["attachment"]
        if attachment is not None:
            mappings.append(
                {
                    "DeviceName": get_device_name(attachment),
                    "Ebs": {
                        "VolumeId": volume["id"],
                        "Status": attachment["state"] if attachment["state"] != "busy" else "detaching",
                        "AttachTime": parse_moment(attachment["attached_at"]),
                        "DeleteOnTermination": attachment["delete_on_termination"],
                    },
                }
            )
    return sorted(mappings, key=lambda mapping: mapping["DeviceName"])


def convert_instance(request: ApiRequest) -> Members:
    """Returns the lab's one instance in EC2's form."""
    status = request.lab.status()
    return {
        "InstanceId": status["instance_id"],
        # Every instance has a type, and clients rely on it. A lab without an instance's limits
        # shows the type whose limits bind least.
        "InstanceType": status["instance_type"] or find_widest_type(status["as_of"]),
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
        "Tags": convert_tags(status.get("instance_tags") or {}),
    }


def find_instances(request: ApiRequest, ids: list[str] | None) -> list[Members]:
    """Returns the instances of these ids, or all. Raises AwsError for an id that does not exist."""
    own = convert_instance(request)
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
    """Returns the size of a page, None where none was given. Raises AwsError where instance ids are
    given too."""
    size = paging.read_size(request.params, *PAGE)
    if request.params.get("InstanceIds") and size is not None:
        raise AwsError(
            "InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults"
        )
    return size


@serves("ec2", "DescribeInstances")
def describe_instances(request: ApiRequest) -> Members:
    """Describes this machine, if ids and filters include it."""
    size = _refuse_paged_ids(request)
    rows = find_instances(request, request.params.get("InstanceIds"))
    matching = filter_items(
        request, rows, tags=lambda machine: {tag["Key"]: tag["Value"] for tag in machine["Tags"] or ()}
    )
    page, token = paging.cut_request_page(request, matching, lambda machine: machine["InstanceId"], size)
    reservations = [
        {
            "ReservationId": machine["InstanceId"].replace("i-", "r-"),
            "OwnerId": request.account,
            "Groups": [],
            "Instances": [machine],
        }
        for machine in page
    ]
    return {"Reservations": reservations, "NextToken": token}


@serves("ec2", "DescribeInstanceStatus")
def describe_instance_status(request: ApiRequest) -> Members:
    """Tells that this machine runs, and whether its volumes can be reached."""
    size = _refuse_paged_ids(request)
    volumes = request.cache.volumes.fetch_table(request.lab).rows.values()
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
    matching = filter_items(request, rows)
    page, token = paging.cut_request_page(request, matching, lambda row: row["InstanceId"], size)
    return {"InstanceStatuses": page, "NextToken": token}


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


@serves("ec2", "DescribeInstanceAttribute")
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


@serves("ec2", "DescribeAvailabilityZones")
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
    return {"AvailabilityZones": filter_items(request, [zone])}


@serves("ec2", "DescribeRegions")
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
    return {"Regions": filter_items(request, [region])}


# --- instance types -------------------------------------------------------------------------------


# The page of DescribeInstanceTypes (EC2 API reference: 5 to 100), and types of one request.
PAGE_OF_TYPES = (5, 100)


def _convert_ebs(facts: core.Instance) -> Members:
    """Returns EBS's limits of a type: EC2 counts MB/s in millions of bytes, and Mbps in millions of
    bits."""
    info: Members = {
        "EbsOptimizedSupport": "default",
        "EncryptionSupport": "supported",
        "NvmeSupport": "required" if facts["nitro"] else "unsupported",
        "MaximumEbsAttachments": facts["max_ebs_attachments"],
        "AttachmentLimitType": "shared" if facts["attachments_shared"] else "dedicated",
    }
    if facts["baseline_bytes_s"] and facts["max_bytes_s"]:
        info["EbsOptimizedInfo"] = {
            "BaselineBandwidthInMbps": facts["baseline_bytes_s"] * 8 // 10**6,
            "BaselineThroughputInMBps": facts["baseline_bytes_s"] / 10**6,
            "BaselineIops": facts["baseline_iops"],
            "MaximumBandwidthInMbps": facts["max_bytes_s"] * 8 // 10**6,
            "MaximumThroughputInMBps": facts["max_bytes_s"] / 10**6,
            "MaximumIops": facts["max_iops"],
        }
    return info


def _convert_type(facts: core.Instance) -> Members:
    """Returns an instance type as EC2 describes it: memory in MiB, instance store in GB."""
    stored = facts["instance_store_gb"] or 0
    return {
        "InstanceType": facts["instance_type"],
        "CurrentGeneration": facts["current_generation"],
        "BareMetal": ".metal" in facts["instance_type"],
        "Hypervisor": "nitro" if facts["nitro"] else "xen",
        "ProcessorInfo": {"SupportedArchitectures": [facts["arch"]] if facts["arch"] else []},
        "VCpuInfo": {"DefaultVCpus": facts["vcpus"]},
        "MemoryInfo": {"SizeInMiB": facts["memory_mib"]},
        "InstanceStorageSupported": stored > 0,
        "InstanceStorageInfo": {"TotalSizeInGB": stored} if stored else None,
        "EbsInfo": _convert_ebs(facts),
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
    }


@cache
def _list_types(as_of: str) -> dict[str, Members]:
    return {facts["instance_type"]: _convert_type(facts) for facts in core.instances(as_of)}


@cache
def find_widest_type(as_of: str) -> str:
    """Returns the x86 instance type of the Nitro System with the highest EBS limits of a day: IOPS,
    then bytes a second, then the first by name. Bare metal is left out. A day before the Nitro
    System gives a type of any kind.
    """
    every = core.instances(as_of)
    usual = [
        candidate
        for candidate in every
        if candidate["nitro"] and candidate["arch"] == "x86_64" and ".metal" not in candidate["instance_type"]
    ]
    limited = [
        candidate for candidate in usual if candidate["baseline_iops"] and candidate["baseline_bytes_s"]
    ] or every
    return min(
        limited,
        key=lambda candidate: (
            -(candidate["baseline_iops"] or 0),
            -(candidate["baseline_bytes_s"] or 0),
            candidate["instance_type"],
        ),
    )["instance_type"]


@serves("ec2", "DescribeInstanceTypes")
def describe_instance_types(request: ApiRequest) -> Members:
    """Lists instance types of the day whose limits the lab has."""
    names, size = request.params.get("InstanceTypes"), paging.read_size(request.params, *PAGE_OF_TYPES)
    if names and size is not None:
        raise AwsError(
            "InvalidParameterCombination", "The parameter instanceTypes cannot be used with the parameter maxResults"
        )
    types = _list_types(request.lab.status()["as_of"])
    unknown = [name for name in names or () if name not in types]
    if unknown:
        raise AwsError(
            "InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(unknown)[:500]}]"
        )
    rows = [types[name] for name in sorted(set(names) if names else types)]
    matching = filter_items(request, rows)
    page, token = paging.cut_request_page(request, matching, lambda row: row["InstanceType"], size or PAGE_OF_TYPES[1])
    return {"InstanceTypes": page, "NextToken": token}
