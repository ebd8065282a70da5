"""Serves the EBS direct API: snapshots block by block."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from headrace.api import paging
from headrace.api.declared import collect_arguments, convert_answer
from headrace.api.errors import AwsError, from_lab
from headrace.api.handling import ApiRequest, Members, Permission, serves
from headrace.errors import HeadraceError

# Bytes of a block, of which snapshots are made (EBS direct API reference).
BLOCK_BYTES = 512 * 1024
# Blocks of a page (EBS direct API reference: 100 to 10,000) and of one that names no number.
FEWEST_BLOCKS, MOST_BLOCKS = 100, 10_000
SHA256 = "SHA256"


def _list_permissions(request: ApiRequest, *names: str) -> Iterator[Permission]:
    """Yields the permissions that a request needs on the snapshots that these parameters name."""
    for name in names:
        resource = request.make_arn("snapshot", request.params[name])
        yield Permission(f"ebs:{request.operation}", resource)


def _list_snapshot_permissions(request: ApiRequest) -> Iterator[Permission]:
    return _list_permissions(request, "SnapshotId")


def _call(request: ApiRequest, name: str, changes: bool, **args: Any) -> Members:
    """Calls the daemon and returns its answer. `changes`: the call changes something. Raises
    AwsError with a code of this service for a refusal, HeadraceError where the lab fails."""
    try:
        return request.change(name, **args) if changes else request.lab.call(name, **args)
    except HeadraceError as error:
        refusal = from_lab(error, "ebs")
        if refusal.status is not None and refusal.status >= 500:
            raise
        codes = {"InvalidSnapshot.NotFound": "ResourceNotFoundException", "IncorrectState": "ConflictException"}
        is_own_code = refusal.code.endswith("Exception")
        code = refusal.code if is_own_code else codes.get(refusal.code, "ValidationException")
        raise AwsError(code, refusal.message) from error


def _check_algorithm(request: ApiRequest) -> None:
    """Raises AwsError for another checksum than SHA256."""
    algorithm = request.params.get("ChecksumAlgorithm", SHA256)
    if algorithm != SHA256:
        raise AwsError("ValidationException", f"The checksum algorithm {algorithm[:50]} is not supported: use SHA256.")


def _read_page(request: ApiRequest, snapshot: str, since: str | None) -> tuple[Members, str | None]:
    """Returns a page of a snapshot's blocks as the daemon gives it, and the token of the next page
    (None: there is none). `since`: only blocks that differ from this snapshot."""
    max_results = request.params.get("MaxResults", MOST_BLOCKS)
    size = min(max(max_results, FEWEST_BLOCKS), MOST_BLOCKS)
    token = request.params.get("NextToken")
    start = request.params.get("StartingBlockIndex", 0)
    if token:
        start = int(paging.read_token(request.operation, token, "ValidationException"))
    answer = _call(request, "snapshot.blocks", False, snapshot=snapshot, since=since, start=start, limit=size)
    following = None if answer["next"] is None else paging.make_token(request.operation, str(answer["next"]))
    return answer, following


def _build_common_members(answer: Members, following: str | None) -> Members:
    """Returns the members that all lists of blocks have: time of expiry, size in GiB, block size in
    bytes, token of the next page."""
    return {
        "ExpiryTime": datetime.fromtimestamp(answer["tokens_until_s"], UTC),
        "VolumeSize": answer["size_gib"],
        "BlockSize": BLOCK_BYTES,
        "NextToken": following,
    }


@serves("ebs", "ListSnapshotBlocks", needs=_list_snapshot_permissions)
def list_snapshot_blocks(request: ApiRequest) -> Members:
    """Lists every block of a snapshot, with its token."""
    answer, following = _read_page(request, request.params["SnapshotId"], None)
    blocks = [{"BlockIndex": block["block"], "BlockToken": block["token"]} for block in answer["blocks"]]
    return {"Blocks": blocks, **_build_common_members(answer, following)}


@serves("ebs", "ListChangedBlocks", needs=lambda request: _list_permissions(request, "SecondSnapshotId"))
def list_changed_blocks(request: ApiRequest) -> Members:
    """Lists the blocks that differ between two snapshots; without a first snapshot, all blocks of
    the second."""
    first, second = request.params.get("FirstSnapshotId"), request.params["SecondSnapshotId"]
    answer, following = _read_page(request, second, first)
    blocks = [
        {"BlockIndex": block["block"], "FirstBlockToken": block["since_token"], "SecondBlockToken": block["token"]}
        for block in answer["blocks"]
    ]
    return {"ChangedBlocks": blocks, **_build_common_members(answer, following)}


@serves("ebs", "GetSnapshotBlock", needs=_list_snapshot_permissions)
def get_snapshot_block(request: ApiRequest) -> Members:
    """Returns the bytes of a block."""
    answer = _call(request, "snapshot.get_block", False, **collect_arguments(request))
    data = base64.b64decode(answer["data"])
    return {
        "DataLength": len(data),
        "BlockData": data,
        "Checksum": answer["checksum"],
        "ChecksumAlgorithm": SHA256,
    }


@serves(
    "ebs",
    "StartSnapshot",
    needs=lambda request: iter([Permission("ebs:StartSnapshot", request.make_arn("snapshot", "*"))]),
)
def start_snapshot(request: ApiRequest) -> Members:
    """Begins a snapshot whose blocks are put one by one. It is encrypted as its parent is, else as
    a new volume would be. The lab waits for its blocks without a time limit, and ignores the
    timeout, with which AWS frees forgotten snapshots."""
    params = request.params
    if not all(tag.get("Key") for tag in params.get("Tags") or ()):
        raise AwsError("ValidationException", "A tag has a Key")
    tags = {tag["Key"]: tag.get("Value", "") for tag in params.get("Tags") or ()}
    snapshot = _call(request, "snapshot.start", True, **collect_arguments(request), tags=tags or None)
    return convert_answer(
        "started snapshot",
        snapshot,
        OwnerId=request.account,
        BlockSize=BLOCK_BYTES,
        Tags=params.get("Tags"),
        ParentSnapshotId=params.get("ParentSnapshotId"),
        SseType="sse-kms" if snapshot["encrypted"] else "none",
    )


@serves("ebs", "PutSnapshotBlock", needs=_list_snapshot_permissions)
def put_snapshot_block(request: ApiRequest) -> Members:
    """Puts a block of a snapshot that was begun with StartSnapshot. The checksum is that of its
    bytes."""
    params = request.params
    _check_algorithm(request)
    data = params["BlockData"]
    if params["DataLength"] != len(data):
        raise AwsError("ValidationException", f"The data length is {len(data)}, and {params['DataLength']} is named.")
    _call(request, "snapshot.put_block", False, **collect_arguments(request))
    return {"Checksum": params["Checksum"], "ChecksumAlgorithm": SHA256}


@serves("ebs", "CompleteSnapshot", needs=_list_snapshot_permissions)
def complete_snapshot(request: ApiRequest) -> Members:
    """Completes a snapshot whose blocks are all put."""
    params = request.params
    _check_algorithm(request)
    if params.get("ChecksumAggregationMethod", "LINEAR") != "LINEAR":
        raise AwsError("ValidationException", "The checksums are aggregated by the method LINEAR alone.")
    done = _call(request, "snapshot.finish", True, **collect_arguments(request))
    return {"Status": done["state"]}
