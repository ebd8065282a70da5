"""Shows snapshots in EC2's form, and serves DescribeSnapshots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from headrace.api import paging
from headrace.api.ec2.filters import filtered
from headrace.api.ec2.permissions import present, resource_tags, truth
from headrace.api.ec2.shown import NO_VOLUME, moment, shown_once, tag_list
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, Permission, serves
from headrace.errors import HeadraceError
from headrace.lab.calls import Snapshot

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
    "progress": lambda snapshot: progress(snapshot),
    "snapshot-id": lambda snapshot: snapshot["id"],
    "start-time": lambda snapshot: moment(snapshot["started_at"]),
    "status": lambda snapshot: snapshot["state"],
    "storage-tier": lambda snapshot: "standard",
    "volume-id": lambda snapshot: snapshot["volume"] or NO_VOLUME,
    "volume-size": lambda snapshot: snapshot["size_gib"],
}


def progress(snapshot: Snapshot) -> str:
    """Returns the share that is stored as EC2 writes it: `40%`."""
    return f"{snapshot['progress_percent']}%"


def snapshot_of(request: ApiRequest, snapshot: Snapshot) -> Members:
    """Returns a snapshot in EC2's form."""
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
        "FullSnapshotSizeInBytes": snapshot["blocks"]["full_bytes"] if snapshot["state"] == "completed" else None,
        "Tags": tag_list(snapshot["tags"]),
    }


def snapshot_id(text: str) -> str:
    """Checks and returns a snapshot's id. Raises AwsError."""
    if not text.startswith("snap-"):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({text[:100]}) for parameter snapshotId is invalid. Expected: 'snap-...'.",
        )
    return text


def every(request: ApiRequest, after: str | None = None, **args: object) -> Iterator[Snapshot]:
    """Yields snapshots by id; they are read in batches as they are needed."""
    arguments: Members = {"limit": BATCH} | args
    while True:
        answer = request.lab.call("snapshot.list", after=after, **arguments)
        yield from answer["snapshots"]
        after = answer["next"]
        if after is None:
            return


def batches(request: ApiRequest, size: int | None) -> tuple[list[Snapshot], str | None]:
    """Returns the snapshots that the Filters of a request match and its page asks for, and the
    token of the next page.
    """
    token = request.params.get("NextToken")
    after = paging.key_of(request.operation, token) if token else None
    matching: list[Snapshot] = []
    batch: list[Snapshot] = []
    for snapshot in every(request, after, **_narrow_filters(request)):
        batch.append(snapshot)
        if len(batch) == BATCH:
            matching += _apply_filters(request, batch)
            batch = []
            if size is not None and len(matching) > size:
                break
    matching += _apply_filters(request, batch)
    if size is None or len(matching) <= size:
        return matching, None
    return matching[:size], paging.token_after(request.operation, matching[size - 1]["id"])


def _narrow_filters(request: ApiRequest) -> Members:
    """Returns the filters that the daemon can apply by itself; they only reduce the rows that are
    filtered here."""
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
    """True when the owners and users that a request names include the lab's account. Raises
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


@serves(
    "ec2",
    "DescribeSnapshots",
    handled="MaxResults NextToken OwnerIds RestorableByUserIds SnapshotIds DryRun Filters",
)
def describe_snapshots(request: ApiRequest) -> Members:
    """Describes all snapshots, those named, or those that filters match. The recycle bin is left
    out."""
    # The EBS CSI driver sends 0 where its caller names no number, and AWS answers it: its
    # ListSnapshots works there. No client is known to send 0 with the other calls.
    ids = request.params.get("SnapshotIds")
    size = paging.size_unless_named(request, ids, "snapshotSet", PAGE, zero_is_all=True)
    owned = _includes_own(request)
    if ids:
        snapshots, token = (
            _apply_filters(request, _read_named(request, [snapshot_id(text) for text in dict.fromkeys(ids)])),
            None,
        )
    elif not request.params.get("Filters"):
        table = request.cache.snapshots.now(request.lab)
        snapshots, token = paging.page_of_table(request, table, size, _is_outside_bin)
    elif request.cache.snapshots.is_filled:
        rows = filter(_is_outside_bin, request.cache.snapshots.now(request.lab).rows.values())
        matching = sorted(_apply_filters(request, rows), key=lambda snapshot: snapshot["id"])
        snapshots, token = paging.page_for(request, matching, lambda snapshot: snapshot["id"], size)
    else:
        snapshots, token = batches(request, size)
    if not owned:
        snapshots, token = [], None
    show = partial(snapshot_of, request)
    return {"Snapshots": [shown_once(snapshot, show) for snapshot in snapshots], "NextToken": token}


def _is_outside_bin(snapshot: Snapshot) -> bool:
    """True when the snapshot is not in the recycle bin."""
    return snapshot["bin"] is None


def _read_named(request: ApiRequest, ids: list[str]) -> Sequence[Snapshot]:
    rows = request.cache.snapshots.named(request.lab, ids)
    if rows is not None and all(map(_is_outside_bin, rows)):
        return rows
    return request.lab.call("snapshot.list", snapshots=ids)["snapshots"]


def _apply_filters(request: ApiRequest, rows: Iterable[Snapshot]) -> list[Snapshot]:
    owned = _FILTERS | {"owner-id": lambda _: request.account}
    return filtered(request, rows, owned, lambda snapshot: snapshot["tags"])


def snapshot_context(snapshot: Snapshot) -> dict[str, str | list[str]]:
    """Returns the values that conditions may ask of an existing snapshot."""
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
    """Returns the permission of a request for a snapshot. A snapshot that does not exist has no
    tags."""
    try:
        context = snapshot_context(request.lab.call("snapshot.describe", snapshot=snapshot))
    except HeadraceError:
        context = {}
    return Permission(f"ec2:{request.operation}", request.arn("snapshot", snapshot), context)


def snapshot_named(request: ApiRequest) -> Iterator[Permission]:
    """Yields the permission for the one snapshot that a request names."""
    yield of_snapshot(request, request.params["SnapshotId"])
