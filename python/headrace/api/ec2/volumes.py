"""Serves volumes: creates, deletes, attaches, detaches, modifies and describes them; their status
and attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headrace.api import paging
from headrace.api.declared import collect_arguments
from headrace.api.ec2.conversion import (
    Volume,
    check_volume_id,
    convert_attachment,
    convert_modification,
    convert_once,
    convert_volume,
    get_device_name,
    parse_moment,
)
from headrace.api.ec2.filters import filter_items
from headrace.api.ec2.permissions import (
    collect_present,
    collect_request_tags,
    collect_resource_tags,
    format_truth,
    list_attach_permissions,
    list_tag_permissions,
    list_volume_permissions,
    make_volume_permission,
)
from headrace.api.ec2.tags import read_tags
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, Permission, serves
from headrace.errors import HeadraceError
from headrace.lab.calls import LONG_CALL_S, Attachment, AttachmentFacts, LabVolume, Modification

# The page of DescribeVolumes and DescribeVolumeStatus (EC2 API reference: 5 to 1,000).
PAGE = (5, 1000)

_FILTERS = {
    "attachment.attach-time": lambda volume: _read_attachment(volume, lambda attachment: parse_moment(attachment["attached_at"])),
    "attachment.delete-on-termination": lambda volume: _read_attachment(volume, lambda attachment: attachment["delete_on_termination"]),
    "attachment.device": lambda volume: _read_attachment(volume, get_device_name),
    "attachment.instance-id": lambda volume: _read_attachment(volume, lambda attachment: attachment["instance"]),
    "attachment.status": lambda volume: _read_attachment(volume, lambda attachment: attachment["state"]),
    "availability-zone": lambda volume: volume["zone"],
    "availability-zone-id": lambda volume: volume["zone_id"],
    "create-time": lambda volume: parse_moment(volume["created_at"]),
    "encrypted": lambda volume: bool(volume.get("kms_key") or volume.get("encrypted")),
    "fast-restored": lambda volume: volume.get("fast_restored"),
    "multi-attach-enabled": lambda volume: False,
    "operator.managed": lambda volume: False,
    "size": lambda volume: volume["size_gib"],
    "snapshot-id": lambda volume: volume.get("snapshot") or "",
    "source-volume-id": lambda volume: volume.get("source_volume"),
    "status": lambda volume: volume["state"],
    "volume-id": lambda volume: volume["id"],
    "volume-type": lambda volume: volume["type"],
}  # fmt: skip


def _read_attachment(volume: Volume, look: Callable[[Attachment | AttachmentFacts], object]) -> object:
    attachment = volume["attachment"]
    return None if attachment is None else look(attachment)


def _read_named(request: ApiRequest, ids: Sequence[str] | None) -> Sequence[Volume]:
    """Returns the volumes of these ids, None: all; from the cache where it knows them, else from
    the daemon."""
    if ids is None:
        return list(request.cache.volumes.fetch_table(request.lab).rows.values())
    rows = request.cache.volumes.find_rows(request.lab, ids)
    return request.lab.volumes(list(ids)) if rows is None else rows


def select_volumes(request: ApiRequest, bounds: tuple[int, int] = PAGE) -> tuple[Sequence[Volume], str | None]:
    """Returns the page of volumes that VolumeIds, Filters, MaxResults and NextToken of a request
    select, in the order of their ids, and the token of the next page. `bounds`: least and most
    items of a page. Raises AwsError.
    """
    ids = request.params.get("VolumeIds")
    size = paging.read_size_unless_named(request, ids, "volumeSet", bounds)
    checked_ids = [check_volume_id(text, "volumes") for text in dict.fromkeys(ids)] if ids else None
    if checked_ids is None and not request.params.get("Filters"):
        return paging.cut_table_page(request, request.cache.volumes.fetch_table(request.lab), size)
    volumes = _read_named(request, checked_ids)
    matching = filter_items(request, volumes, _FILTERS, lambda volume: volume["tags"])
    matching.sort(key=lambda volume: volume["id"])
    return paging.cut_request_page(request, matching, lambda volume: volume["id"], size)


@serves("ec2", "DescribeVolumes")
def describe_volumes(request: ApiRequest) -> Members:
    """Describes all volumes, those named, or those that filters match."""
    volumes, token = select_volumes(request)
    return {"Volumes": [convert_once(volume, convert_volume) for volume in volumes], "NextToken": token}


def _list_create_permissions(request: ApiRequest) -> Iterator[Permission]:
    """Yields the permissions that CreateVolume needs: on the new volume, on its snapshot if any,
    and for its tags."""
    params = request.params
    tags = read_tags(params.get("TagSpecifications"), "volume")
    resource, parent = request.make_arn("volume", "*"), _find_parent(request)
    encrypted = params.get("Encrypted") or parent.get("encrypted") or _encrypts_by_default(request)
    context = {
        **collect_present(
            VolumeType=params.get("VolumeType", "gp2"),
            VolumeSize=params.get("Size") or parent.get("size_gib"),
            VolumeIops=params.get("Iops"),
            VolumeThroughput=params.get("Throughput"),
            AvailabilityZone=params.get("AvailabilityZone"),
            KmsKeyId=params.get("KmsKeyId"),
            ParentSnapshot=request.make_arn("snapshot", params["SnapshotId"]) if params.get("SnapshotId") else None,
        ),
        "ec2:Encrypted": format_truth(encrypted),
        **collect_request_tags(tags),
    }
    yield Permission("ec2:CreateVolume", resource, context)
    if params.get("SnapshotId"):
        about = {
            "ec2:Encrypted": format_truth(parent.get("encrypted")),
            **collect_resource_tags(parent.get("tags") or {}),
        }
        yield Permission("ec2:CreateVolume", request.make_arn("snapshot", params["SnapshotId"]), about)
    yield from list_tag_permissions(request, resource, tags)


def _find_parent(request: ApiRequest) -> Members:
    """Returns the snapshot that a new volume is made from; an empty mapping if it does not
    exist."""
    if not request.params.get("SnapshotId"):
        return {}
    try:
        return request.lab.call("snapshot.describe", snapshot=request.params["SnapshotId"])
    except HeadraceError:
        return {}


def _encrypts_by_default(request: ApiRequest) -> bool:
    """Returns whether the lab encrypts new volumes that do not ask for it."""
    return request.lab.call("encryption.defaults")["by_default"]


def _collect_creation(request: ApiRequest) -> Members:
    return collect_arguments(request) | {"tags": read_tags(request.params.get("TagSpecifications"), "volume") or None}


@serves("ec2", "CreateVolume", needs=_list_create_permissions)
def create_volume(request: ApiRequest) -> Members:
    """Makes a volume, empty or from a snapshot."""
    params = request.params
    if not params.get("AvailabilityZone") and not params.get("AvailabilityZoneId"):
        raise AwsError(
            "MissingParameter", "The request must contain the parameter AvailabilityZone or AvailabilityZoneId"
        )
    return convert_volume(request.change("volume.create", **_collect_creation(request)))


def _list_copy_permissions(request: ApiRequest) -> Iterator[Permission]:
    """Yields the permissions that CopyVolumes needs: on the source, on the new volume, and for its
    tags."""
    params = request.params
    tags = read_tags(params.get("TagSpecifications"), "volume")
    resource = request.make_arn("volume", "*")
    source = make_volume_permission(request, params["SourceVolumeId"], "ec2:CopyVolumes")
    encrypted = (
        params.get("Encrypted") or source.context.get("ec2:Encrypted") == "true" or _encrypts_by_default(request)
    )
    context = {
        **collect_present(
            VolumeType=params.get("VolumeType", "gp2"),
            VolumeSize=params.get("Size") or source.context.get("ec2:VolumeSize"),
            VolumeIops=params.get("Iops"),
            VolumeThroughput=params.get("Throughput"),
            KmsKeyId=params.get("KmsKeyId"),
        ),
        "ec2:Encrypted": format_truth(encrypted),
        **collect_request_tags(tags),
    }
    yield source
    yield Permission("ec2:CopyVolumes", resource, context)
    yield from list_tag_permissions(request, resource, tags)


@serves("ec2", "CopyVolumes", needs=_list_copy_permissions)
def copy_volumes(request: ApiRequest) -> Members:
    """Makes a copy of a volume as it is now."""
    source = check_volume_id(request.params["SourceVolumeId"], "sourceVolumeId")
    return {"Volumes": [convert_volume(request.change("volume.copy", volume=source, **_collect_creation(request)))]}


@serves("ec2", "DeleteVolume", needs=list_volume_permissions)
def delete_volume(request: ApiRequest) -> Members:
    """Deletes an available volume."""
    request.change("volume.delete", LONG_CALL_S, volume=check_volume_id(request.params["VolumeId"]))
    return {}


@serves("ec2", "AttachVolume", needs=list_attach_permissions)
def attach_volume(request: ApiRequest) -> Members:
    """Makes a block device of a volume."""
    params = request.params
    if params.get("EbsCardIndex"):
        raise AwsError("InvalidParameterValue", "The EBS card index is 0: this lab's instance has one card.")
    volume = request.change(
        "volume.attach",
        LONG_CALL_S,
        volume=check_volume_id(params["VolumeId"]),
        device_name=params["Device"],
        instance=params["InstanceId"],
    )
    # It is attached already, and was attaching when EC2 would have answered.
    return {**convert_attachment(volume, volume["attachment"]), "State": "attaching"}


@serves("ec2", "DetachVolume", needs=list_attach_permissions)
def detach_volume(request: ApiRequest) -> Members:
    """Takes the device away; `busy` while it is mounted."""
    params = request.params
    name = check_volume_id(params["VolumeId"])
    before = request.lab.describe(name)["attachment"]
    volume = request.change(
        "volume.detach",
        LONG_CALL_S,
        volume=name,
        force=params.get("Force"),
        instance=params.get("InstanceId"),
        name=params.get("Device"),
        waits=True,
    )
    after = volume["attachment"]
    if after is not None:
        return convert_attachment(volume, after)
    # It is gone already, and was detaching when EC2 would have answered.
    return {} if before is None else {**convert_attachment(volume, before), "State": "detaching"}


# Types whose performance EBS checks (EC2 user guide, "EBS volume status checks").
CHECKED = ("io1", "io2", "gp3")


def _judge_performance(volume: LabVolume) -> str:
    """Returns EBS's name for the performance of a volume: degraded where a member is slow or
    missing."""
    if volume["type"] not in CHECKED:
        return "not-applicable"
    if volume["attachment"] is None:
        return "insufficient-data"
    return "normal" if all(member["state"] == "ok" for member in volume["members"]) else "degraded"


def convert_status(volume: LabVolume) -> Members:
    """Returns the status of a volume in EC2's form."""
    broken = volume["state"] == "error" or any(member["state"] == "failed" for member in volume["members"])
    performance = _judge_performance(volume)
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


@serves("ec2", "DescribeVolumeStatus")
def describe_volume_status(request: ApiRequest) -> Members:
    """Tells whether volumes work, and how far they are initialized."""
    ids = request.params.get("VolumeIds")
    size = paging.read_size_unless_named(request, ids, "volumeSet", PAGE)
    checked_ids = [check_volume_id(text, "volumes") for text in dict.fromkeys(ids)] if ids else None
    after = limit = None
    if size is not None and not request.params.get("Filters"):
        # No more than the page, and one to see whether another follows.
        token, limit = request.params.get("NextToken"), size + 1
        after = paging.read_token(request.operation, token) if token else None
    volumes = sorted(request.lab.volumes(checked_ids, after=after, limit=limit), key=lambda volume: volume["id"])
    matching = filter_items(request, map(convert_status, volumes))
    statuses, token = paging.cut_request_page(request, matching, lambda row: row["VolumeId"], size)
    return {"VolumeStatuses": statuses, "NextToken": token}


@serves("ec2", "DescribeVolumeAttribute", needs=list_volume_permissions)
def describe_volume_attribute(request: ApiRequest) -> Members:
    """Returns one attribute of a volume."""
    volume = request.lab.describe(check_volume_id(request.params["VolumeId"]))
    if request.params["Attribute"] == "autoEnableIO":
        return {"VolumeId": volume["id"], "AutoEnableIO": {"Value": volume["auto_enable_io"]}}
    return {"VolumeId": volume["id"], "ProductCodes": []}


@serves("ec2", "ModifyVolumeAttribute", needs=list_volume_permissions)
def modify_volume_attribute(request: ApiRequest) -> Members:
    """Sets AutoEnableIO."""
    enabled = (request.params.get("AutoEnableIO") or {}).get("Value")
    if enabled is None:
        raise AwsError("MissingParameter", "The request must contain the parameter AutoEnableIO.Value")
    request.change("volume.attributes", volume=check_volume_id(request.params["VolumeId"]), auto_enable_io=enabled)
    return {}


@serves("ec2", "EnableVolumeIO", needs=list_volume_permissions)
def enable_volume_io(request: ApiRequest) -> Members:
    """Lets I/O go on after a check that failed. The lab never stops it by itself."""
    request.lab.describe(check_volume_id(request.params["VolumeId"]))
    return {}


# The page of DescribeVolumesModifications (EC2 API reference: up to 500).
MODIFICATIONS_PAGE = (1, 500)


@serves("ec2", "ModifyVolume", needs=list_volume_permissions)
def modify_volume(request: ApiRequest) -> Members:
    """Changes a volume, in use or not."""
    params = request.params
    if params.get("MultiAttachEnabled"):
        raise AwsError("UnsupportedOperation", "Multi-Attach is not supported: this lab has one instance.")
    changed = request.change(
        "volume.modify", volume=check_volume_id(request.params["VolumeId"]), **collect_arguments(request)
    )
    return {"VolumeModification": convert_modification(changed)}


@serves("ec2", "DescribeVolumesModifications")
def describe_volumes_modifications(request: ApiRequest) -> Members:
    """Describes the last modification of each volume."""
    ids, size = request.params.get("VolumeIds"), paging.read_size(request.params, *MODIFICATIONS_PAGE)
    checked_ids = {check_volume_id(text, "volumes") for text in ids} if ids else None
    if checked_ids:
        # Volumes that do not exist are refused first.
        request.lab.volumes(sorted(checked_ids))
    latest: dict[str, Modification] = {}
    for modification in request.lab.modifications():
        before = latest.get(modification["volume"])
        if before is None or before["start"] <= modification["start"]:
            latest[modification["volume"]] = modification
    if checked_ids and (never := sorted(checked_ids - set(latest))):
        raise AwsError(
            "InvalidVolumeModification.NotFound", f"Modification for volume '{', '.join(never)}' does not exist."
        )
    rows = [
        convert_modification(modification)
        for name, modification in sorted(latest.items())
        if checked_ids is None or name in checked_ids
    ]
    matching = filter_items(request, rows)
    modifications, token = paging.cut_request_page(request, matching, lambda row: row["VolumeId"], size)
    return {"VolumesModifications": modifications, "NextToken": token}
