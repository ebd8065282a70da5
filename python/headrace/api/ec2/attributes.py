"""Serves the status and the attributes of volumes."""

from __future__ import annotations

from headrace.api import paging
from headrace.api.ec2.filters import filtered
from headrace.api.ec2.permissions import volume_named
from headrace.api.ec2.shown import MANAGED, volume_id
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, serves
from headrace.lab.calls import LabVolume

# The page of DescribeVolumeStatus (EC2 API reference: 5 to 1,000).
PAGE = (5, 1000)
# Types whose performance EBS checks (EC2 user guide, "EBS volume status checks").
CHECKED = ("io1", "io2", "gp3")


def _performance(volume: LabVolume) -> str:
    """Returns EBS's name for the performance: a volume with slow or missing members has theirs."""
    if volume["type"] not in CHECKED:
        return "not-applicable"
    if volume["attachment"] is None:
        return "insufficient-data"
    return "normal" if all(member["state"] == "ok" for member in volume["members"]) else "degraded"


def status_of(volume: LabVolume) -> Members:
    """Returns the status of a volume."""
    broken = volume["state"] == "error" or any(member["state"] == "failed" for member in volume["members"])
    performance = _performance(volume)
    init = volume["initialization"]
    done = 100 if init is None else init["progress_percent"]
    details = [
        {"Name": "io-enabled", "Status": "failed" if broken else "passed"},
        {"Name": "io-performance", "Status": performance},
        {"Name": "initialization-state", "Status": "completed" if done >= 100 else "initializing"},
    ]
    attachment = volume["attachment"]
    row: Members = {
        "VolumeId": volume["id"],
        "AvailabilityZone": volume["zone"],
        "AvailabilityZoneId": volume["zone_id"],
        "VolumeStatus": {
            "Status": "impaired" if broken else "warning" if performance == "degraded" else "ok",
            "Details": details,
        },
        "Actions": [],
        "Events": [],
        "AttachmentStatuses": []
        if attachment is None
        else [{"InstanceId": attachment["instance"], "IoPerformance": performance}],
    }
    if init is not None:
        row["InitializationStatusDetails"] = {
            "InitializationType": init["type"],
            "Progress": int(done),
            "EstimatedTimeToCompleteInSeconds": init["remaining_s"],
        }
    return row


@serves(
    "ec2",
    "DescribeVolumeStatus",
    handled="MaxResults NextToken VolumeIds DryRun Filters",
    without_effect={"IncludeManagedResources": MANAGED},
)
def describe_volume_status(request: ApiRequest) -> Members:
    """Tells whether volumes work, and how far they are initialized."""
    ids = request.params.get("VolumeIds")
    size = paging.size_unless_named(request, ids, "volumeSet", PAGE)
    checked_ids = [volume_id(text, "volumes") for text in dict.fromkeys(ids)] if ids else None
    after = limit = None
    if size is not None and not request.params.get("Filters"):
        # No more than the page, and one to see whether another follows.
        token, limit = request.params.get("NextToken"), size + 1
        after = paging.key_of(request.operation, token) if token else None
    volumes = sorted(request.lab.volumes(checked_ids, after=after, limit=limit), key=lambda volume: volume["id"])
    matching = filtered(request, map(status_of, volumes))
    shown, token = paging.page_for(request, matching, lambda row: row["VolumeId"], size)
    return {"VolumeStatuses": shown, "NextToken": token}


@serves("ec2", "DescribeVolumeAttribute", handled="Attribute VolumeId DryRun", needs=volume_named)
def describe_volume_attribute(request: ApiRequest) -> Members:
    """Returns one attribute of a volume."""
    volume = request.lab.describe(volume_id(request.params["VolumeId"]))
    if request.params["Attribute"] == "autoEnableIO":
        return {"VolumeId": volume["id"], "AutoEnableIO": {"Value": volume["auto_enable_io"]}}
    return {"VolumeId": volume["id"], "ProductCodes": []}


@serves("ec2", "ModifyVolumeAttribute", handled="AutoEnableIO VolumeId DryRun", needs=volume_named)
def modify_volume_attribute(request: ApiRequest) -> Members:
    """Sets AutoEnableIO."""
    enabled = (request.params.get("AutoEnableIO") or {}).get("Value")
    if enabled is None:
        raise AwsError("MissingParameter", "The request must contain the parameter AutoEnableIO.Value")
    request.change("volume.attributes", volume=volume_id(request.params["VolumeId"]), auto_enable_io=enabled)
    return {}


@serves("ec2", "EnableVolumeIO", handled="DryRun VolumeId", needs=volume_named)
def enable_volume_io(request: ApiRequest) -> Members:
    """Lets I/O go on after a check that failed. The lab never stops it by itself."""
    request.lab.describe(volume_id(request.params["VolumeId"]))
    return {}
