"""Serves snapshots: described, made, shared, and kept (locks, the recycle bin, tiers)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from headrace.api import paging
from headrace.api.declared import collect_arguments, convert_answer
from headrace.api.ec2.conversion import (
    NO_VOLUME,
    check_snapshot_id,
    check_volume_id,
    convert_once,
    convert_tags,
    parse_moment,
)
from headrace.api.ec2.filters import filter_items
from headrace.api.ec2.permissions import (
    collect_present,
    collect_request_tags,
    collect_resource_tags,
    format_truth,
    list_tag_permissions,
    make_volume_permission,
)
from headrace.api.ec2.tags import read_tags
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, Permission, serves
from headrace.errors import HeadraceError
from headrace.lab.calls import FastRestore, Lock, Snapshot

# The page of DescribeSnapshots (EC2 API reference: 5 to 1,000).
PAGE = (5, 1000)
# Snapshots that the daemon is asked for at once.
BATCH = 1000
# Names that stand for accounts, and the number of one (EC2 API reference, DescribeSnapshots).
OWNERS = ("self", "amazon", "aws-marketplace", "aws-backup-vault")
USERS = ("self", "all")
ACCOUNT = re.compile(r"\d{12}", re.ASCII)

_FILTERS = {
    "description": lambda snapshot: snapshot["description"],
    "encrypted": lambda snapshot: snapshot["encrypted"],
    "progress": lambda snapshot: format_progress(snapshot),
    "snapshot-id": lambda snapshot: snapshot["id"],
    "start-time": lambda snapshot: parse_moment(snapshot["started_at"]),
    "status": lambda snapshot: snapshot["state"],
    "storage-tier": lambda snapshot: "standard",
    "volume-id": lambda snapshot: snapshot["volume"] or NO_VOLUME,
    "volume-size": lambda snapshot: snapshot["size_gib"],
}


def format_progress(snapshot: Snapshot) -> str:
    """Returns the share that is stored as EC2 writes it: `40%`."""
    return f"{snapshot['progress_percent']}%"


def convert_snapshot(request: ApiRequest, snapshot: Snapshot) -> Members:
    """Returns a snapshot in EC2's form."""
    return {
        "SnapshotId": snapshot["id"],
        "VolumeId": snapshot["volume"] or NO_VOLUME,
        "VolumeSize": snapshot["size_gib"],
        "State": snapshot["state"],
        "StateMessage": snapshot["error"],
        "Progress": format_progress(snapshot),
        "StartTime": parse_moment(snapshot["started_at"]),
        "CompletionTime": parse_moment(snapshot["completed_at"]),
        "OwnerId": request.account,
        "Description": snapshot["description"],
        "Encrypted": snapshot["encrypted"],
        "KmsKeyId": snapshot["kms_key"],
        "StorageTier": "standard",
        "FullSnapshotSizeInBytes": snapshot["blocks"]["full_bytes"] if snapshot["state"] == "completed" else None,
        "Tags": convert_tags(snapshot["tags"]),
    }


def read_snapshots(request: ApiRequest, after: str | None = None, **args: object) -> Iterator[Snapshot]:
    """Yields snapshots by id; they are read in batches as they are needed."""
    arguments: Members = {"limit": BATCH} | args
    while True:
        answer = request.lab.call("snapshot.list", after=after, **arguments)
        yield from answer["snapshots"]
        after = answer["next"]
        if after is None:
            return


def select_snapshots(request: ApiRequest, size: int | None) -> tuple[list[Snapshot], str | None]:
    """Returns the snapshots that the Filters of a request match and its page asks for, and the
    token of the next page.
    """
    token = request.params.get("NextToken")
    after = paging.read_token(request.operation, token) if token else None
    matching: list[Snapshot] = []
    batch: list[Snapshot] = []
    for snapshot in read_snapshots(request, after, **_narrow_filters(request)):
        batch.append(snapshot)
        if len(batch) == BATCH:
            matching += _apply_filters(request, batch)
            batch = []
            if size is not None and len(matching) > size:
                break
    matching += _apply_filters(request, batch)
    if size is None or len(matching) <= size:
        return matching, None
    return matching[:size], paging.make_token(request.operation, matching[size - 1]["id"])


def _narrow_filters(request: ApiRequest) -> Members:
    """Returns the filters of a request that the daemon's call has arguments for; they reduce the
    rows to which all filters are applied here."""
    arguments: Members = {}
    for condition in request.params.get("Filters") or ():
        values = condition.get("Values") or []
        if len(values) == 1 and not any(sign in values[0] for sign in "*?\\"):
            if condition.get("Name") == "volume-id" and values[0] != NO_VOLUME:
                arguments["volume"] = values[0]
            elif condition.get("Name") == "status":
                arguments["state"] = values[0]
    return arguments


def _includes_own(request: ApiRequest) -> bool:
    """Returns whether the owners and users that a request names include the lab's account. Raises
    AwsError for a value that is neither an account nor the name of accounts."""
    own = ("self", request.account)
    owners = request.params.get("OwnerIds")
    users = request.params.get("RestorableByUserIds")
    for named, names in ((owners, OWNERS), (users, USERS)):
        for account in named or ():
            if account not in names and not ACCOUNT.fullmatch(account):
                raise AwsError("InvalidUserID.Malformed", f'Invalid user id: "{account[:100]}"')
    return (not owners or any(account in own for account in owners)) and (
        not users or any(account in own for account in users)
    )


@serves("ec2", "DescribeSnapshots")
def describe_snapshots(request: ApiRequest) -> Members:
    """Describes all snapshots, those named, or those that filters match. The recycle bin is left
    out."""
    # The EBS CSI driver sends 0 where its caller names no number, and AWS answers it: its
    # ListSnapshots works there. No client is known to send 0 with the other calls.
    ids = request.params.get("SnapshotIds")
    size = paging.read_size_unless_named(request, ids, "snapshotSet", PAGE, zero_is_all=True)
    owned = _includes_own(request)
    if ids:
        named = _read_named(request, [check_snapshot_id(text) for text in dict.fromkeys(ids)])
        snapshots, token = _apply_filters(request, named), None
    elif not request.params.get("Filters"):
        table = request.cache.snapshots.fetch_table(request.lab)
        snapshots, token = paging.cut_table_page(request, table, size, _is_outside_bin)
    elif request.cache.snapshots.is_filled:
        rows = filter(_is_outside_bin, request.cache.snapshots.fetch_table(request.lab).rows.values())
        matching = sorted(_apply_filters(request, rows), key=lambda snapshot: snapshot["id"])
        snapshots, token = paging.cut_request_page(request, matching, lambda snapshot: snapshot["id"], size)
    else:
        snapshots, token = select_snapshots(request, size)
    if not owned:
        snapshots, token = [], None
    show = partial(convert_snapshot, request)
    return {"Snapshots": [convert_once(snapshot, show) for snapshot in snapshots], "NextToken": token}


def _is_outside_bin(snapshot: Snapshot) -> bool:
    return snapshot["bin"] is None


def _read_named(request: ApiRequest, ids: list[str]) -> Sequence[Snapshot]:
    """Returns the snapshots of these ids, from the cache where it knows them all, else from the
    daemon."""
    rows = request.cache.snapshots.find_rows(request.lab, ids)
    if rows is not None and all(map(_is_outside_bin, rows)):
        return rows
    return request.lab.call("snapshot.list", snapshots=ids)["snapshots"]


def _apply_filters(request: ApiRequest, rows: Iterable[Snapshot]) -> list[Snapshot]:
    value_readers = _FILTERS | {"owner-id": lambda _: request.account}
    return filter_items(request, rows, value_readers, lambda snapshot: snapshot["tags"])


def build_snapshot_context(snapshot: Snapshot) -> dict[str, str | list[str]]:
    """Returns the values that conditions may ask of an existing snapshot."""
    return {
        **collect_present(
            SnapshotID=snapshot["id"],
            VolumeSize=snapshot["size_gib"],
            ParentVolume=snapshot["volume"],
            SnapshotTime=snapshot["started_at"],
        ),
        "ec2:Encrypted": format_truth(snapshot["encrypted"]),
        **collect_resource_tags(snapshot["tags"]),
    }


def make_snapshot_permission(request: ApiRequest, snapshot: str) -> Permission:
    """Returns the permission of a request for a snapshot. A snapshot that does not exist has no
    tags."""
    try:
        context = build_snapshot_context(request.lab.call("snapshot.describe", snapshot=snapshot))
    except HeadraceError:
        context = {}
    return Permission(f"ec2:{request.operation}", request.make_arn("snapshot", snapshot), context)


def list_snapshot_permissions(request: ApiRequest) -> Iterator[Permission]:
    """Yields the permission for the one snapshot that a request names."""
    yield make_snapshot_permission(request, request.params["SnapshotId"])


# --- made and deleted -----------------------------------------------------------------------------


LOCAL = "the lab has no Local Zones"


def _list_new_permissions(request: ApiRequest) -> Iterator[Permission]:
    """Yields the permissions for a new snapshot: to make it, and to tag it as it is made."""
    tags = read_tags(request.params.get("TagSpecifications"), "snapshot")
    resource = request.make_arn("snapshot", "*")
    yield Permission(f"ec2:{request.operation}", resource, collect_request_tags(tags))
    yield from list_tag_permissions(request, resource, tags)


def _list_create_permissions(request: ApiRequest) -> Iterator[Permission]:
    yield make_volume_permission(request, request.params["VolumeId"], "ec2:CreateSnapshot")
    yield from _list_new_permissions(request)


@serves("ec2", "CreateSnapshot", needs=_list_create_permissions)
def create_snapshot(request: ApiRequest) -> Members:
    """Takes a snapshot of a volume as it is now."""
    _check_location(request)
    params = request.params
    snapshot = request.change(
        "snapshot.create",
        volume=check_volume_id(params["VolumeId"]),
        description=params.get("Description"),
        tags=read_tags(params.get("TagSpecifications"), "snapshot") or None,
    )
    return convert_snapshot(request, snapshot)


def _check_location(request: ApiRequest) -> None:
    if request.params.get("Location", "regional") != "regional":
        raise AwsError("UnsupportedOperation", f"The parameter Location is not supported: {LOCAL}")


@serves("ec2", "CreateSnapshots", needs=_list_new_permissions)
def create_snapshots(request: ApiRequest) -> Members:
    """Takes snapshots of the volumes that are attached to the instance, all of one instant."""
    _check_location(request)
    params, chosen = request.params, request.params["InstanceSpecification"]
    instance = request.lab.status()["instance_id"]
    if chosen["InstanceId"] != instance:
        raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{chosen['InstanceId']}' does not exist")
    volumes = request.cache.volumes.fetch_table(request.lab).rows.values()
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
        tags=read_tags(params.get("TagSpecifications"), "snapshot") or None,
        copy_tags=params.get("CopyTagsFromSource") == "volume",
    )
    names = ("Description", "Tags", "Encrypted", "VolumeId", "State", "VolumeSize", "StartTime", "Progress", "OwnerId", "SnapshotId")  # fmt: skip
    snapshots = [convert_snapshot(request, snapshot) for snapshot in answer["snapshots"]]
    return {"Snapshots": [{name: snapshot[name] for name in names} for snapshot in snapshots]}


@serves("ec2", "DeleteSnapshot", needs=list_snapshot_permissions)
def delete_snapshot(request: ApiRequest) -> Members:
    """Deletes a snapshot, or moves it to the recycle bin."""
    request.change("snapshot.delete", snapshot=check_snapshot_id(request.params["SnapshotId"]))
    return {}


def _list_copy_permissions(request: ApiRequest) -> Iterator[Permission]:
    yield make_snapshot_permission(request, request.params["SourceSnapshotId"])
    yield from _list_new_permissions(request)


@serves("ec2", "CopySnapshot", needs=_list_copy_permissions)
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
        snapshot=check_snapshot_id(params["SourceSnapshotId"]),
        region=params["SourceRegion"],
        description=params.get("Description"),
        tags=read_tags(params.get("TagSpecifications"), "snapshot") or None,
        **_collect_encryption(request),
    )
    return {"SnapshotId": copy["id"], "Tags": convert_tags(copy["tags"])}


def _collect_encryption(request: ApiRequest) -> Members:
    """Returns the daemon's arguments about encryption, without those not given. Raises AwsError for
    a key without encryption."""
    encrypted, key = request.params.get("Encrypted"), request.params.get("KmsKeyId")
    if key and encrypted is False:
        raise AwsError(
            "InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set."
        )
    named = {"encrypted": encrypted, "kms_key": key}
    return {name: value for name, value in named.items() if value is not None}


# --- shared ---------------------------------------------------------------------------------------


ARCHIVE = "the lab has one storage tier, standard"
PERMISSION = "createVolumePermission"


def _read_attribute(request: ApiRequest) -> str:
    """Returns the attribute that a request names, by default the permission to make volumes. Raises
    AwsError for an unknown one."""
    attribute = request.params.get("Attribute", PERMISSION)
    if attribute not in (PERMISSION, "productCodes"):
        raise AwsError("InvalidParameterValue", f"Value ({attribute}) for parameter attribute is invalid.")
    return attribute


@serves("ec2", "DescribeSnapshotAttribute", needs=list_snapshot_permissions)
def describe_snapshot_attribute(request: ApiRequest) -> Members:
    """Lists the accounts that may make volumes from a snapshot. A lab has no product codes."""
    snapshot = request.lab.call("snapshot.describe", snapshot=check_snapshot_id(request.params["SnapshotId"]))
    if _read_attribute(request) == "productCodes":
        return {"SnapshotId": snapshot["id"], "ProductCodes": []}
    return {
        "SnapshotId": snapshot["id"],
        "CreateVolumePermissions": [{"UserId": account} for account in snapshot["shared_with"]],
    }


def _list_accounts(given: list[dict[str, str]] | None) -> list[str]:
    """Returns the accounts of a list of permissions. Raises AwsError for a group: everybody."""
    accounts = []
    for permission in given or ():
        if permission.get("Group"):
            raise AwsError("UnsupportedOperation", "A snapshot of the lab cannot be public: the lab has one account.")
        accounts.append(permission.get("UserId", ""))
    return accounts


@serves("ec2", "ModifySnapshotAttribute", needs=list_snapshot_permissions)
def modify_snapshot_attribute(request: ApiRequest) -> Members:
    """Adds and removes accounts that may make volumes from a snapshot."""
    params = request.params
    if _read_attribute(request) != PERMISSION:
        raise AwsError("InvalidParameterValue", "The attribute productCodes cannot be modified.")
    permission = params.get("CreateVolumePermission") or {}
    add, remove = _list_accounts(permission.get("Add")), _list_accounts(permission.get("Remove"))
    if params.get("UserIds"):
        operation = params.get("OperationType")
        if operation not in ("add", "remove"):
            raise AwsError("MissingParameter", "The request must contain the parameter operationType: add or remove")
        (add if operation == "add" else remove).extend(params["UserIds"])
    if not add and not remove:
        raise AwsError("MissingParameter", "The request must contain the parameter createVolumePermission or userId")
    request.change("snapshot.share", snapshot=check_snapshot_id(params["SnapshotId"]), add=add, remove=remove)
    return {}


@serves("ec2", "ResetSnapshotAttribute", needs=list_snapshot_permissions)
def reset_snapshot_attribute(request: ApiRequest) -> Members:
    """Leaves a snapshot to its own account again."""
    if _read_attribute(request) != PERMISSION:
        raise AwsError("InvalidParameterValue", "The attribute productCodes cannot be reset.")
    named = check_snapshot_id(request.params["SnapshotId"])
    shared = request.lab.call("snapshot.describe", snapshot=named)["shared_with"]
    request.change("snapshot.share", snapshot=named, remove=shared)
    return {}


@serves("ec2", "DescribeSnapshotTierStatus")
def describe_snapshot_tier_status(request: ApiRequest) -> Members:
    """Describes the tier of every snapshot: standard."""
    rows = [convert_answer("snapshot tier", snapshot, OwnerId=request.account) for snapshot in read_snapshots(request)]
    value_readers = {
        "snapshot-id": lambda row: row["SnapshotId"],
        "volume-id": lambda row: row["VolumeId"],
    }
    matching = filter_items(request, rows, value_readers)
    size = paging.read_size(request.params, *PAGE)
    page, token = paging.cut_request_page(request, matching, lambda row: row["SnapshotId"], size)
    return {"SnapshotTierStatuses": page, "NextToken": token}


@serves("ec2", "ModifySnapshotTier", needs=list_snapshot_permissions)
def modify_snapshot_tier(request: ApiRequest) -> Members:
    """Refuses the call: a lab has no archive."""
    request.lab.call("snapshot.describe", snapshot=check_snapshot_id(request.params["SnapshotId"]))
    raise AwsError("UnsupportedOperation", f"Snapshots cannot be archived: {ARCHIVE}.")


@serves("ec2", "RestoreSnapshotTier", needs=list_snapshot_permissions)
def restore_snapshot_tier(request: ApiRequest) -> Members:
    """Refuses the call: no snapshot is in an archive."""
    named = check_snapshot_id(request.params["SnapshotId"])
    request.lab.call("snapshot.describe", snapshot=named)
    raise AwsError("UnsupportedOperation", f"Snapshot {named} is not archived: {ARCHIVE}.")


# --- locked, kept in the recycle bin --------------------------------------------------------------


def _convert_lock(snapshot: Snapshot, lock: Lock) -> Members:
    return convert_answer("lock", lock, SnapshotId=snapshot["id"])


@serves("ec2", "LockSnapshot", needs=list_snapshot_permissions)
def lock_snapshot(request: ApiRequest) -> Members:
    """Locks a snapshot against deletion, or changes its lock."""
    named = check_snapshot_id(request.params["SnapshotId"])
    locked = request.change("snapshot.lock", snapshot=named, **collect_arguments(request))
    return _convert_lock(locked, locked["lock"])


@serves("ec2", "UnlockSnapshot", needs=list_snapshot_permissions)
def unlock_snapshot(request: ApiRequest) -> Members:
    """Removes the lock of a snapshot."""
    unlocked = request.change("snapshot.unlock", snapshot=check_snapshot_id(request.params["SnapshotId"]))
    return {"SnapshotId": unlocked["id"]}


@serves("ec2", "DescribeLockedSnapshots")
def describe_locked_snapshots(request: ApiRequest) -> Members:
    """Describes snapshots that are locked, or were."""
    ids = request.params.get("SnapshotIds")
    if ids:
        snapshots = request.lab.call("snapshot.list", snapshots=[check_snapshot_id(text) for text in ids])["snapshots"]
    else:
        snapshots = read_snapshots(request)
    locked = [(snapshot, lock) for snapshot in snapshots if (lock := snapshot["lock"]) is not None]
    rows = [{**_convert_lock(snapshot, lock), "OwnerId": request.account} for snapshot, lock in locked]
    matching = filter_items(request, rows, {"lock-state": lambda row: row["LockState"]})
    page, token = _cut_page(request, matching, lambda row: row["SnapshotId"])
    return {"Snapshots": page, "NextToken": token}


def _cut_page(
    request: ApiRequest, rows: list[Members], key: Callable[[Members], str]
) -> tuple[list[Members], str | None]:
    size = paging.read_size(request.params, *PAGE)
    return paging.cut_request_page(request, sorted(rows, key=key), key, size)


@serves("ec2", "ListSnapshotsInRecycleBin")
def list_snapshots_in_recycle_bin(request: ApiRequest) -> Members:
    """Lists deleted snapshots that a retention rule keeps."""
    ids = request.params.get("SnapshotIds")
    checked_ids = {check_snapshot_id(text) for text in ids} if ids else None
    rows = [
        convert_answer("binned snapshot", {**snapshot, **stay})
        for snapshot in read_snapshots(request, bin=True)
        if (stay := snapshot["bin"]) is not None and (checked_ids is None or snapshot["id"] in checked_ids)
    ]
    page, token = _cut_page(request, rows, lambda row: row["SnapshotId"])
    return {"Snapshots": page, "NextToken": token}


@serves("ec2", "RestoreSnapshotFromRecycleBin", needs=list_snapshot_permissions)
def restore_snapshot_from_recycle_bin(request: ApiRequest) -> Members:
    """Takes a snapshot out of the recycle bin."""
    snapshot = request.change("snapshot.recover", snapshot=check_snapshot_id(request.params["SnapshotId"]))
    return convert_answer("recovered snapshot", snapshot, OwnerId=request.account)


def _convert_restore(request: ApiRequest, restore: FastRestore) -> Members:
    """Returns a fast snapshot restore as EC2 describes it, with the reason of its last change."""
    # EC2's words for the two reasons that a lab has.
    by_user = restore["state"] in ("enabling", "disabling", "disabled")
    return convert_answer(
        "fast restore",
        restore,
        AvailabilityZoneId=request.lab.status()["zone_id"],
        StateTransitionReason="Client.UserInitiated" + ("" if by_user else " - Lifecycle state transition"),
        OwnerId=request.account,
    )


def _list_source_permissions(request: ApiRequest) -> Iterator[Permission]:
    for snapshot in request.params["SourceSnapshotIds"]:
        yield make_snapshot_permission(request, snapshot)


def _list_zones(request: ApiRequest) -> list[str]:
    """Returns the zones that a request names. The lab resolves only the id of its own zone; the
    daemon refuses others."""
    zones, ids = request.params.get("AvailabilityZones"), request.params.get("AvailabilityZoneIds")
    if zones and ids:
        raise AwsError(
            "InvalidParameterCombination",
            "The parameter AvailabilityZones cannot be used with the parameter AvailabilityZoneIds",
        )
    if not zones and not ids:
        raise AwsError("MissingParameter", "The request must contain the parameter AvailabilityZones")
    own = request.lab.status()["zone_id"]
    return list(zones or [request.zone if zone_id == own else zone_id for zone_id in ids or ()])


def _switch_restores(request: ApiRequest, enable: bool) -> Members:
    """Switches fast snapshot restore on or off for the snapshots and zones of a request, and
    returns EC2's answer: what was switched, and what failed by snapshot."""
    snapshots = [check_snapshot_id(text) for text in request.params["SourceSnapshotIds"]]
    answer = request.change("snapshot.set_fast_restore", snapshots=snapshots, zones=_list_zones(request), enable=enable)
    failed: dict[str, list[Members]] = {}
    for failure in answer["failures"]:
        error = {"Code": failure["code"], "Message": failure["message"]}
        failed.setdefault(failure["snapshot"], []).append({"AvailabilityZone": failure["zone"], "Error": error})
    return {
        "Successful": [_convert_restore(request, restore) for restore in answer["fast_restores"]],
        "Unsuccessful": [
            {"SnapshotId": snapshot, "FastSnapshotRestoreStateErrors": errors} for snapshot, errors in failed.items()
        ],
    }


@serves("ec2", "EnableFastSnapshotRestores", needs=_list_source_permissions)
def enable_fast_snapshot_restores(request: ApiRequest) -> Members:
    """Lets volumes be made of snapshots without first touch. The answer lists failures."""
    return _switch_restores(request, True)


@serves("ec2", "DisableFastSnapshotRestores", needs=_list_source_permissions)
def disable_fast_snapshot_restores(request: ApiRequest) -> Members:
    """Ends fast snapshot restore. The answer lists failures."""
    return _switch_restores(request, False)


@serves("ec2", "DescribeFastSnapshotRestores")
def describe_fast_snapshot_restores(request: ApiRequest) -> Members:
    """Describes fast snapshot restores that are on, or were."""
    rows = [
        _convert_restore(request, restore) for restore in request.lab.call("snapshot.fast_restores")["fast_restores"]
    ]
    matching = filter_items(request, rows)
    page, token = _cut_page(request, matching, lambda row: f"{row['SnapshotId']}\n{row['AvailabilityZone']}")
    return {"FastSnapshotRestores": page, "NextToken": token}
