"""Creates, copies and deletes snapshots."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.api.ec2.permissions import of_volume, request_tags, tagging
from headrace.api.ec2.shown import tag_list, volume_id
from headrace.api.ec2.snapshots.describing import of_snapshot, snapshot_id, snapshot_named, snapshot_of
from headrace.api.ec2.tags import tags_of
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, Permission, serves

OUTPOST = "the lab has no Outposts"
LOCAL = "the lab has no Local Zones"


def _new(request: ApiRequest) -> Iterator[Permission]:
    """Yields the permissions for a new snapshot: to make it, and to tag it as it is made."""
    tags = tags_of(request.params.get("TagSpecifications"), "snapshot")
    resource = request.arn("snapshot", "*")
    yield Permission(f"ec2:{request.operation}", resource, request_tags(tags))
    yield from tagging(request, resource, tags)


def _creating(request: ApiRequest) -> Iterator[Permission]:
    yield of_volume(request, request.params["VolumeId"], "ec2:CreateSnapshot")
    yield from _new(request)


@serves(
    "ec2",
    "CreateSnapshot",
    handled="Description VolumeId TagSpecifications DryRun Location",
    refused={"OutpostArn": OUTPOST},
    needs=_creating,
)
def create_snapshot(request: ApiRequest) -> Members:
    """Takes a snapshot of a volume as it is now."""
    _check_location(request)
    params = request.params
    snapshot = request.change(
        "snapshot.create",
        volume=volume_id(params["VolumeId"]),
        description=params.get("Description"),
        tags=tags_of(params.get("TagSpecifications"), "snapshot") or None,
    )
    return snapshot_of(request, snapshot)


def _check_location(request: ApiRequest) -> None:
    if request.params.get("Location", "regional") != "regional":
        raise AwsError("UnsupportedOperation", f"The parameter Location is not supported: {LOCAL}")


@serves(
    "ec2",
    "CreateSnapshots",
    handled="Description InstanceSpecification InstanceSpecification.InstanceId "
    "InstanceSpecification.ExcludeDataVolumeIds TagSpecifications DryRun CopyTagsFromSource Location",
    without_effect={"InstanceSpecification.ExcludeBootVolume": "the lab's instance has no boot volume"},
    refused={"OutpostArn": OUTPOST},
    needs=_new,
)
def create_snapshots(request: ApiRequest) -> Members:
    """Takes snapshots of the volumes that are attached to the instance, all of one instant."""
    _check_location(request)
    params, chosen = request.params, request.params["InstanceSpecification"]
    instance = request.lab.status()["instance_id"]
    if chosen["InstanceId"] != instance:
        raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{chosen['InstanceId']}' does not exist")
    volumes = request.cache.volumes.now(request.lab).rows.values()
    attached = sorted(
        (volume for volume in volumes if volume["attachment"] is not None), key=lambda volume: volume["id"]
    )
    left_out = set(chosen.get("ExcludeDataVolumeIds") or ())
    unknown = left_out - {volume["id"] for volume in attached}
    if unknown:
        raise AwsError(
            "InvalidParameterValue",
            f"The volume {sorted(unknown)[0]} in ExcludeDataVolumeIds is not attached to {instance}.",
        )
    named = [volume["id"] for volume in attached if volume["id"] not in left_out]
    if not named:
        raise AwsError("InvalidParameterValue", f"No volume of instance {instance} is left to take a snapshot of.")
    answer = request.change(
        "snapshot.create_many",
        volumes=named,
        description=params.get("Description"),
        tags=tags_of(params.get("TagSpecifications"), "snapshot") or None,
        copy_tags=params.get("CopyTagsFromSource") == "volume",
    )
    shown = []
    for snapshot in answer["snapshots"]:
        full = snapshot_of(request, snapshot)
        names = ("Description", "Tags", "Encrypted", "VolumeId", "State", "VolumeSize", "StartTime", "Progress", "OwnerId", "SnapshotId")  # fmt: skip
        shown.append({name: full[name] for name in names})
    return {"Snapshots": shown}


@serves("ec2", "DeleteSnapshot", handled="SnapshotId DryRun", needs=snapshot_named)
def delete_snapshot(request: ApiRequest) -> Members:
    """Deletes a snapshot, or moves it to the recycle bin."""
    request.change("snapshot.delete", snapshot=snapshot_id(request.params["SnapshotId"]))
    return {}


def _copying(request: ApiRequest) -> Iterator[Permission]:
    yield of_snapshot(request, request.params["SourceSnapshotId"])
    yield from _new(request)


@serves(
    "ec2",
    "CopySnapshot",
    handled="Description DestinationRegion Encrypted KmsKeyId SourceRegion SourceSnapshotId TagSpecifications DryRun",
    without_effect={
        "PresignedUrl": "the lab reads the other's object store itself",
        "CompletionDurationMinutes": "a copy takes as long as its bytes",
    },
    refused={"DestinationOutpostArn": OUTPOST, "DestinationAvailabilityZone": LOCAL},
    needs=_copying,
)
def copy_snapshot(request: ApiRequest) -> Members:
    """Copies a snapshot, of this lab or of one whose object store is named for its region. The
    presigned URL is not needed: the lab reads the other's object store. A duration has no effect: a
    copy takes as long as its bytes."""
    params = request.params
    target = params.get("DestinationRegion", request.region)
    if target != request.region:
        raise AwsError(
            "InvalidParameterValue", f"Invalid value '{target}' for destinationRegion: it is {request.region}."
        )
    copy = request.change(
        "snapshot.copy",
        snapshot=snapshot_id(params["SourceSnapshotId"]),
        region=params["SourceRegion"],
        description=params.get("Description"),
        tags=tags_of(params.get("TagSpecifications"), "snapshot") or None,
        **_encryption(request),
    )
    return {"SnapshotId": copy["id"], "Tags": tag_list(copy["tags"])}


def _encryption(request: ApiRequest) -> Members:
    """Returns the encryption of a copy, if the request sets it."""
    encrypted, key = request.params.get("Encrypted"), request.params.get("KmsKeyId")
    if key and encrypted is False:
        raise AwsError(
            "InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set."
        )
    named = {"encrypted": encrypted, "kms_key": key}
    return {name: value for name, value in named.items() if value is not None}
