"""Shares snapshots with accounts, and serves storage tiers, of which a lab has one."""

from __future__ import annotations

from headrace.api import paging
from headrace.api.declared import answer_of
from headrace.api.ec2.filters import filtered
from headrace.api.ec2.snapshots.describing import PAGE, every, snapshot_id, snapshot_named
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, serves

ARCHIVE = "the lab has one storage tier, standard"
PERMISSION = "createVolumePermission"


def _attribute(request: ApiRequest) -> str:
    attribute = request.params.get("Attribute", PERMISSION)
    if attribute not in (PERMISSION, "productCodes"):
        raise AwsError("InvalidParameterValue", f"Value ({attribute}) for parameter attribute is invalid.")
    return attribute


@serves("ec2", "DescribeSnapshotAttribute", handled="Attribute SnapshotId DryRun", needs=snapshot_named)
def describe_snapshot_attribute(request: ApiRequest) -> Members:
    """Lists the accounts that may make volumes from a snapshot. A lab has no product codes."""
    snapshot = request.lab.call("snapshot.describe", snapshot=snapshot_id(request.params["SnapshotId"]))
    if _attribute(request) == "productCodes":
        return {"SnapshotId": snapshot["id"], "ProductCodes": []}
    return {
        "SnapshotId": snapshot["id"],
        "CreateVolumePermissions": [{"UserId": account} for account in snapshot["shared_with"]],
    }


def _users(given: list[dict[str, str]] | None) -> list[str]:
    """Returns the accounts of a list of permissions. Raises AwsError for a group: everybody."""
    accounts = []
    for permission in given or ():
        if permission.get("Group"):
            raise AwsError("UnsupportedOperation", "A snapshot of the lab cannot be public: the lab has one account.")
        accounts.append(permission.get("UserId", ""))
    return accounts


@serves(
    "ec2",
    "ModifySnapshotAttribute",
    handled="Attribute CreateVolumePermission CreateVolumePermission.Add CreateVolumePermission.Add.UserId "
    "CreateVolumePermission.Add.Group CreateVolumePermission.Remove CreateVolumePermission.Remove.UserId "
    "CreateVolumePermission.Remove.Group OperationType SnapshotId UserIds DryRun",
    refused={"GroupNames": "a snapshot of the lab cannot be public: the lab has one account"},
    needs=snapshot_named,
)
def modify_snapshot_attribute(request: ApiRequest) -> Members:
    """Adds and removes accounts that may make volumes from a snapshot."""
    params = request.params
    if _attribute(request) != PERMISSION:
        raise AwsError("InvalidParameterValue", "The attribute productCodes cannot be modified.")
    permission = params.get("CreateVolumePermission") or {}
    add, remove = _users(permission.get("Add")), _users(permission.get("Remove"))
    if params.get("UserIds"):
        operation = params.get("OperationType")
        if operation not in ("add", "remove"):
            raise AwsError("MissingParameter", "The request must contain the parameter operationType: add or remove")
        (add if operation == "add" else remove).extend(params["UserIds"])
    if not add and not remove:
        raise AwsError("MissingParameter", "The request must contain the parameter createVolumePermission or userId")
    request.change("snapshot.share", snapshot=snapshot_id(params["SnapshotId"]), add=add, remove=remove)
    return {}


@serves("ec2", "ResetSnapshotAttribute", handled="Attribute SnapshotId DryRun", needs=snapshot_named)
def reset_snapshot_attribute(request: ApiRequest) -> Members:
    """Leaves a snapshot to its own account again."""
    if _attribute(request) != PERMISSION:
        raise AwsError("InvalidParameterValue", "The attribute productCodes cannot be reset.")
    named = snapshot_id(request.params["SnapshotId"])
    shared = request.lab.call("snapshot.describe", snapshot=named)["shared_with"]
    request.change("snapshot.share", snapshot=named, remove=shared)
    return {}


@serves("ec2", "DescribeSnapshotTierStatus", handled="Filters DryRun NextToken MaxResults")
def describe_snapshot_tier_status(request: ApiRequest) -> Members:
    """Describes the tier of every snapshot: standard."""
    rows = [answer_of("snapshot tier", snapshot, OwnerId=request.account) for snapshot in every(request)]
    looks_at = {
        "snapshot-id": lambda row: row["SnapshotId"],
        "volume-id": lambda row: row["VolumeId"],
    }
    matching = filtered(request, rows, looks_at)
    size = paging.size(request.params, *PAGE)
    shown, token = paging.page_for(request, matching, lambda row: row["SnapshotId"], size)
    return {"SnapshotTierStatuses": shown, "NextToken": token}


@serves("ec2", "ModifySnapshotTier", handled="SnapshotId StorageTier DryRun", needs=snapshot_named)
def modify_snapshot_tier(request: ApiRequest) -> Members:
    """Refuses the call: a lab has no archive."""
    request.lab.call("snapshot.describe", snapshot=snapshot_id(request.params["SnapshotId"]))
    raise AwsError("UnsupportedOperation", f"Snapshots cannot be archived: {ARCHIVE}.")


@serves(
    "ec2",
    "RestoreSnapshotTier",
    handled="SnapshotId DryRun",
    without_effect={
        "TemporaryRestoreDays": "no snapshot is in an archive: the call is always refused",
        "PermanentRestore": "no snapshot is in an archive: the call is always refused",
    },
    needs=snapshot_named,
)
def restore_snapshot_tier(request: ApiRequest) -> Members:
    """Refuses the call: no snapshot is in an archive."""
    named = snapshot_id(request.params["SnapshotId"])
    request.lab.call("snapshot.describe", snapshot=named)
    raise AwsError("UnsupportedOperation", f"Snapshot {named} is not archived: {ARCHIVE}.")
