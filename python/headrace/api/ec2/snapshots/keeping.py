"""Serves locks, the recycle bin, and fast snapshot restore."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.api import paging
from headrace.api.declared import answer_of, arguments
from headrace.api.ec2.filters import filtered
from headrace.api.ec2.snapshots.describing import (
    PAGE,
    every,
    of_snapshot,
    snapshot_id,
    snapshot_named,
)
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, Permission, serves
from headrace.lab.calls import FastRestore, Lock, Snapshot


def _lock(snapshot: Snapshot, lock: Lock) -> Members:
    return answer_of("lock", lock, SnapshotId=snapshot["id"])


@serves("ec2", "LockSnapshot", handled="SnapshotId DryRun", needs=snapshot_named)
def lock_snapshot(request: ApiRequest) -> Members:
    """Locks a snapshot against deletion, or changes its lock."""
    named = snapshot_id(request.params["SnapshotId"])
    locked = request.change("snapshot.lock", snapshot=named, **arguments(request))
    return _lock(locked, locked["lock"])


@serves("ec2", "UnlockSnapshot", handled="SnapshotId DryRun", needs=snapshot_named)
def unlock_snapshot(request: ApiRequest) -> Members:
    """Removes the lock of a snapshot."""
    unlocked = request.change("snapshot.unlock", snapshot=snapshot_id(request.params["SnapshotId"]))
    return {"SnapshotId": unlocked["id"]}


@serves("ec2", "DescribeLockedSnapshots", handled="Filters MaxResults NextToken SnapshotIds DryRun")
def describe_locked_snapshots(request: ApiRequest) -> Members:
    """Describes snapshots that are locked, or were."""
    ids = request.params.get("SnapshotIds")
    if ids:
        snapshots = request.lab.call("snapshot.list", snapshots=[snapshot_id(text) for text in ids])["snapshots"]
    else:
        snapshots = every(request)
    locked = [(snapshot, lock) for snapshot in snapshots if (lock := snapshot["lock"]) is not None]
    rows = [{**_lock(snapshot, lock), "OwnerId": request.account} for snapshot, lock in locked]
    matching = filtered(request, rows, {"lock-state": lambda row: row["LockState"]})
    shown, token = _page(request, matching, lambda row: row["SnapshotId"])
    return {"Snapshots": shown, "NextToken": token}


def _page(request: ApiRequest, rows: list[Members], key: Callable[[Members], str]) -> tuple[list[Members], str | None]:
    size = paging.size(request.params, *PAGE)
    return paging.page_for(request, sorted(rows, key=key), key, size)


@serves("ec2", "ListSnapshotsInRecycleBin", handled="MaxResults NextToken SnapshotIds DryRun")
def list_snapshots_in_recycle_bin(request: ApiRequest) -> Members:
    """Lists deleted snapshots that a retention rule keeps."""
    ids = request.params.get("SnapshotIds")
    checked_ids = {snapshot_id(text) for text in ids} if ids else None
    rows = [
        answer_of("binned snapshot", {**snapshot, **stay})
        for snapshot in every(request, bin=True)
        if (stay := snapshot["bin"]) is not None and (checked_ids is None or snapshot["id"] in checked_ids)
    ]
    shown, token = _page(request, rows, lambda row: row["SnapshotId"])
    return {"Snapshots": shown, "NextToken": token}


@serves("ec2", "RestoreSnapshotFromRecycleBin", handled="SnapshotId DryRun", needs=snapshot_named)
def restore_snapshot_from_recycle_bin(request: ApiRequest) -> Members:
    """Takes a snapshot out of the recycle bin."""
    snapshot = request.change("snapshot.recover", snapshot=snapshot_id(request.params["SnapshotId"]))
    return answer_of("recovered snapshot", snapshot, OwnerId=request.account)


def _show_restore(request: ApiRequest, restore: FastRestore) -> Members:
    # EC2's words for the two reasons that a lab has.
    by_user = restore["state"] in ("enabling", "disabling", "disabled")
    return answer_of(
        "fast restore",
        restore,
        AvailabilityZoneId=request.lab.status()["zone_id"],
        StateTransitionReason="Client.UserInitiated" + ("" if by_user else " - Lifecycle state transition"),
        OwnerId=request.account,
    )


def _sources(request: ApiRequest) -> Iterator[Permission]:
    for snapshot in request.params["SourceSnapshotIds"]:
        yield of_snapshot(request, snapshot)


def _zones(request: ApiRequest) -> list[str]:
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
    snapshots = [snapshot_id(text) for text in request.params["SourceSnapshotIds"]]
    answer = request.change("snapshot.set_fast_restore", snapshots=snapshots, zones=_zones(request), enable=enable)
    failed: dict[str, list[Members]] = {}
    for failure in answer["failures"]:
        error = {"Code": failure["code"], "Message": failure["message"]}
        failed.setdefault(failure["snapshot"], []).append({"AvailabilityZone": failure["zone"], "Error": error})
    return {
        "Successful": [_show_restore(request, restore) for restore in answer["fast_restores"]],
        "Unsuccessful": [
            {"SnapshotId": snapshot, "FastSnapshotRestoreStateErrors": errors} for snapshot, errors in failed.items()
        ],
    }


@serves(
    "ec2",
    "EnableFastSnapshotRestores",
    handled="AvailabilityZones AvailabilityZoneIds SourceSnapshotIds DryRun",
    needs=_sources,
)
def enable_fast_snapshot_restores(request: ApiRequest) -> Members:
    """Lets volumes be made of snapshots without first touch. The answer lists failures."""
    return _switch_restores(request, True)


@serves(
    "ec2",
    "DisableFastSnapshotRestores",
    handled="AvailabilityZones AvailabilityZoneIds SourceSnapshotIds DryRun",
    needs=_sources,
)
def disable_fast_snapshot_restores(request: ApiRequest) -> Members:
    """Ends fast snapshot restore. The answer lists failures."""
    return _switch_restores(request, False)


@serves("ec2", "DescribeFastSnapshotRestores", handled="Filters MaxResults NextToken DryRun")
def describe_fast_snapshot_restores(request: ApiRequest) -> Members:
    """Describes fast snapshot restores that are on, or were."""
    rows = [_show_restore(request, restore) for restore in request.lab.call("snapshot.fast_restores")["fast_restores"]]
    matching = filtered(request, rows)
    shown, token = _page(request, matching, lambda row: f"{row['SnapshotId']}\n{row['AvailabilityZone']}")
    return {"FastSnapshotRestores": shown, "NextToken": token}
