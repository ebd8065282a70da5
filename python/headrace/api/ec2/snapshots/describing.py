"""Snapshots as EC2 shows them, and DescribeSnapshots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from headrace.api import paging
from headrace.api.ec2.filters import filtered
from headrace.api.ec2.permissions import present, resource_tags, truth
from headrace.api.ec2.shown import moment, shown_once, tag_list
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Permission, serves
from headrace.errors import HeadraceError

# The page of DescribeSnapshots (EC2 API reference: 5 to 1,000).
PAGE = (5, 1000)
# Snapshots that the daemon is asked for at once.
BATCH = 1000
# Names that stand for accounts, and the number of one (EC2 API reference, DescribeSnapshots).
OWNERS = ("self", "amazon", "aws-marketplace", "aws-backup-vault")
USERS = ("self", "all")
ACCOUNT = re.compile(r"\d{12}", re.ASCII)
# What EC2 names as the volume of a copy and of a snapshot that was put block by block.
NO_VOLUME = "vol-ffffffff"

_FILTERS = {
    "description": lambda snapshot: snapshot["description"],
    "encrypted": lambda snapshot: snapshot["encrypted"],
    "progress": lambda snapshot: progress(snapshot),
    "snapshot-id": lambda snapshot: snapshot["id"],
    "start-time": lambda snapshot: moment(snapshot["started_at"]),
    "status": lambda snapshot: snapshot["state"],
    "storage-tier": lambda snapshot: "standard",
    "volume-id": lambda snapshot: snapshot["volume"] or NO_VOLUME,
    "volume-size": lambda snapshot: snapshot["size_gib"],
}


def progress(snapshot: Mapping[str, Any]) -> str:
    """How much is stored, as EC2 writes it: `40%`."""
    return f"{snapshot['progress_percent']}%"


def snapshot_of(request: ApiRequest, snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """A snapshot."""
    return {
        "SnapshotId": snapshot["id"],
        "VolumeId": snapshot["volume"] or NO_VOLUME,
        "VolumeSize": snapshot["size_gib"],
        "State": snapshot["state"],
        "StateMessage": snapshot["error"],
        "Progress": progress(snapshot),
        "StartTime": moment(snapshot["started_at"]),
        "CompletionTime": moment(snapshot["completed_at"]),
        "OwnerId": request.account,
        "Description": snapshot["description"],
        "Encrypted": snapshot["encrypted"],
        "KmsKeyId": snapshot["kms_key"],
        "StorageTier": "standard",
        "FullSnapshotSizeInBytes": snapshot["full_bytes"] if snapshot["state"] == "completed" else None,
        "Tags": tag_list(snapshot["tags"]),
    }


def snapshot_id(text: str) -> str:
    """A snapshot's id. Raises AwsError."""
    if not text.startswith("snap-"):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({text[:100]}) for parameter snapshotId is invalid. Expected: 'snap-...'.",
        )
    return text


def every(request: ApiRequest, after: str | None = None, **args: Any) -> Iterator[dict[str, Any]]:
    """Snapshots by id, batch by batch as they are asked for."""
    wanted: dict[str, Any] = {"limit": BATCH} | args
    while True:
        answer = request.lab.call("snapshot.list", after=after, **wanted)
        yield from answer["snapshots"]
        after = answer["next"]
        if after is None:
            return


def batches(request: ApiRequest, size: int | None) -> tuple[list[Mapping[str, Any]], str | None]:
    """The snapshots that the Filters of a request match and its page asks for, and the token of the
    next page.
    """
    token = request.params.get("NextToken")
    after = paging.key_of(request.operation, token) if token else None
    kept: list[Mapping[str, Any]] = []
    batch: list[Mapping[str, Any]] = []
    for one in every(request, after, **_narrowed(request)):
        batch.append(one)
        if len(batch) == BATCH:
            kept += _filtered(request, batch)
            batch = []
            if size is not None and len(kept) > size:
                break
    kept += _filtered(request, batch)
    if size is None or len(kept) <= size:
        return kept, None
    return kept[:size], paging.token_after(request.operation, kept[size - 1]["id"])


def _narrowed(request: ApiRequest) -> dict[str, Any]:
    """Filters that the daemon can look at by itself: they only narrow what is looked at here."""
    found: dict[str, Any] = {}
    for one in request.params.get("Filters") or ():
        values = one.get("Values") or []
        if len(values) == 1 and not any(sign in values[0] for sign in "*?\\"):
            if one.get("Name") == "volume-id" and values[0] != NO_VOLUME:
                found["volume"] = values[0]
            elif one.get("Name") == "status":
                found["state"] = values[0]
    return found


def _owned(request: ApiRequest) -> bool:
    """Whether the owners and users that a request names include the lab's account. Raises AwsError
    for what is neither an account nor a name of one.
    """
    own = ("self", request.account)
    owners = request.params.get("OwnerIds")
    users = request.params.get("RestorableByUserIds")
    for named, names in ((owners, OWNERS), (users, USERS)):
        for one in named or ():
            if one not in names and not ACCOUNT.fullmatch(one):
                raise AwsError("InvalidUserID.Malformed", f'Invalid user id: "{one[:100]}"')
    return (not owners or any(one in own for one in owners)) and (not users or any(one in own for one in users))


@serves(
    "ec2",
    "DescribeSnapshots",
    handled="MaxResults NextToken OwnerIds RestorableByUserIds SnapshotIds DryRun Filters",
)
def describe_snapshots(request: ApiRequest) -> dict[str, Any]:
    """All snapshots, those named, or those that filters match. The recycle bin is left out."""
    # The EBS CSI driver sends 0 where its caller names no number, and AWS answers it: its
    # ListSnapshots works there. Of the other calls nobody is known who sends 0.
    ids, size = request.params.get("SnapshotIds"), paging.size(request.params, *PAGE, zero_is_all=True)
    if ids and (size is not None or request.params.get("NextToken")):
        raise AwsError(
            "InvalidParameterCombination", "The parameter snapshotSet cannot be used with the parameter maxResults"
        )
    owned = _owned(request)
    if ids:
        found, token = _filtered(request, _named(request, [snapshot_id(one) for one in dict.fromkeys(ids)])), None
    elif not request.params.get("Filters"):
        every_one = request.known.snapshots.now(request.lab)
        found, token = paging.page_of_table(request.operation, every_one, size, request.params.get("NextToken"), _kept)
    elif request.known.snapshots.is_filled:
        rows = filter(_kept, request.known.snapshots.now(request.lab).rows.values())
        matching = sorted(_filtered(request, rows), key=lambda one: one["id"])
        found, token = paging.page(
            request.operation, matching, lambda one: one["id"], size, request.params.get("NextToken")
        )
    else:
        found, token = batches(request, size)
    if not owned:
        found, token = [], None
    show = partial(snapshot_of, request)
    return {"Snapshots": [shown_once(one, show) for one in found], "NextToken": token}


def _kept(snapshot: Mapping[str, Any]) -> bool:
    """Whether it is not in the recycle bin."""
    return snapshot["bin"] is None


def _named(request: ApiRequest, wanted: list[str]) -> Sequence[Mapping[str, Any]]:
    found = request.known.snapshots.named(request.lab, wanted)
    if found is not None and all(map(_kept, found)):
        return found
    return request.lab.call("snapshot.list", snapshots=wanted)["snapshots"]


def _filtered(request: ApiRequest, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    owned = _FILTERS | {"owner-id": lambda _: request.account}
    return filtered(request, rows, owned, lambda snapshot: snapshot["tags"])


def snapshot_context(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """What conditions may ask of a snapshot that is there."""
    return {
        **present(
            SnapshotID=snapshot["id"],
            VolumeSize=snapshot["size_gib"],
            ParentVolume=snapshot["volume"],
            SnapshotTime=snapshot["started_at"],
        ),
        "ec2:Encrypted": truth(snapshot["encrypted"]),
        **resource_tags(snapshot["tags"]),
    }


def of_snapshot(request: ApiRequest, snapshot: str) -> Permission:
    """The permission of a request for a snapshot. One that is not there has no tags."""
    try:
        context = snapshot_context(request.lab.call("snapshot.describe", snapshot=snapshot))
    except HeadraceError:
        context = {}
    return Permission(f"ec2:{request.operation}", request.arn("snapshot", snapshot), context)


def snapshot_named(request: ApiRequest) -> Iterator[Permission]:
    """The permission for the one snapshot that a request names."""
    yield of_snapshot(request, request.params["SnapshotId"])
