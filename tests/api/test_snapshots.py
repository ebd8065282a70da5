"""Snapshots by boto3: create, describe, copy, lock, recycle bin, fast snapshot restore, blocks."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from aws_labs import PACE, PATIENCE_S
from botocore.exceptions import ClientError

BLOCK = 512 * 1024


def refused(act: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        act()
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def until(look: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < end, "it never became so"
        time.sleep(0.05)


@pytest.fixture
def ec2(aws_lab):
    return aws_lab.client("ec2")


def volume(ec2, size: int = 1, **more) -> str:
    zone = ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    return ec2.create_volume(AvailabilityZone=zone, Size=size, VolumeType="gp3", **more)["VolumeId"]


def tagged(**tags: str) -> list[dict]:
    return [{"ResourceType": "snapshot", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]


def snapshot(ec2, of: str, **more) -> str:
    made = ec2.create_snapshot(VolumeId=of, **more)
    assert made["VolumeId"] == of
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[made["SnapshotId"]], WaiterConfig=PACE)
    return made["SnapshotId"]


def test_create_describe_page_and_delete(ec2):
    of = volume(ec2, size=3)
    first = snapshot(ec2, of, Description="the first", TagSpecifications=tagged(owner="dba"))
    ids = sorted([first, *(snapshot(ec2, of) for _ in range(6))])
    one = ec2.describe_snapshots(SnapshotIds=[first])["Snapshots"][0]
    assert (one["State"], one["Progress"], one["VolumeSize"], one["Description"]) == (
        "completed",
        "100%",
        3,
        "the first",
    )
    assert one["Tags"] == [{"Key": "owner", "Value": "dba"}]
    assert one["Encrypted"] is False

    pages = list(ec2.get_paginator("describe_snapshots").paginate(PaginationConfig={"PageSize": 5}))
    assert [len(page["Snapshots"]) for page in pages] == [5, 2]
    assert [row["SnapshotId"] for page in pages for row in page["Snapshots"]] == ids
    by = lambda name, *values: [row["SnapshotId"] for row in ec2.describe_snapshots(Filters=[{"Name": name, "Values": list(values)}])["Snapshots"]]  # noqa: E731  # fmt: skip
    assert by("tag:owner", "d*") == [first]
    assert by("description", "the ?irst") == [first]
    assert by("volume-id", of) == ids
    assert by("status", "pending") == []
    assert ec2.describe_snapshots(OwnerIds=["amazon"])["Snapshots"] == []
    assert len(ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]) == len(ids)

    # A page token outlives the snapshot that it names.
    page = ec2.describe_snapshots(MaxResults=5)
    ec2.delete_snapshot(SnapshotId=ids[4])
    rest = ec2.describe_snapshots(MaxResults=5, NextToken=page["NextToken"])["Snapshots"]
    assert [row["SnapshotId"] for row in rest] == ids[5:]
    code, message = refused(lambda: ec2.describe_snapshots(SnapshotIds=[ids[4]]))
    assert code == "InvalidSnapshot.NotFound"
    assert ids[4] in message
    assert refused(lambda: ec2.create_snapshot(VolumeId=of, DryRun=True))[0] == "DryRunOperation"
    assert len(ec2.describe_snapshots()["Snapshots"]) == len(ids) - 1


def test_volumes_from_snapshots(ec2):
    one = snapshot(ec2, volume(ec2, size=2))
    made = volume(ec2, size=4, SnapshotId=one, VolumeInitializationRate=200)
    shown = ec2.describe_volumes(VolumeIds=[made])["Volumes"][0]
    assert (shown["SnapshotId"], shown["VolumeInitializationRate"], shown["Size"]) == (one, 200, 4)
    status = ec2.describe_volume_status(VolumeIds=[made])["VolumeStatuses"][0]
    details = {row["Name"]: row["Status"] for row in status["VolumeStatus"]["Details"]}
    # Nothing was written before the snapshot: there is nothing to load.
    assert details["initialization-state"] == "completed"
    assert status["InitializationStatusDetails"]["InitializationType"] == "provisioned-rate"
    code, message = refused(lambda: volume(ec2, size=1, SnapshotId=one))
    assert code == "InvalidParameterValue"
    assert one in message
    assert (
        refused(lambda: volume(ec2, size=4, SnapshotId=one, VolumeInitializationRate=99))[0] == "InvalidParameterValue"
    )
    assert refused(lambda: volume(ec2, SnapshotId="snap-0123456789abcdef0"))[0] == "InvalidSnapshot.NotFound"


def test_locks_and_the_recycle_bin(ec2, aws_lab):
    of = volume(ec2)
    kept, other = snapshot(ec2, of, TagSpecifications=tagged(keep="yes")), snapshot(ec2, of)

    # Lab time runs 1,000,000 times as fast as the wall here: a day is 86 ms, 36,500 days an hour.
    locked = ec2.lock_snapshot(SnapshotId=kept, LockMode="governance", LockDuration=36_500)
    assert (locked["LockState"], locked["LockDuration"]) == ("governance", 36_500)
    assert [row["SnapshotId"] for row in ec2.describe_locked_snapshots()["Snapshots"]] == [kept]
    assert refused(lambda: ec2.delete_snapshot(SnapshotId=kept))[0] == "SnapshotLocked"
    assert refused(lambda: ec2.lock_snapshot(SnapshotId=kept, LockMode="governance"))[0] == "InvalidParameterCombination"  # fmt: skip
    assert ec2.unlock_snapshot(SnapshotId=kept)["SnapshotId"] == kept
    end = datetime.now(UTC) + timedelta(days=365_000)
    assert ec2.lock_snapshot(SnapshotId=other, LockMode="compliance", ExpirationDate=end)["LockState"] == "compliance"
    assert refused(lambda: ec2.unlock_snapshot(SnapshotId=other))[0] == "OperationNotPermitted"

    # A year is half a minute.
    aws_lab.lab.call("snapshot.set_rule", name="kept", days=365, tags={"keep": "yes"})
    ec2.delete_snapshot(SnapshotId=kept)
    [binned] = ec2.list_snapshots_in_recycle_bin()["Snapshots"]
    assert binned["SnapshotId"] == kept
    assert binned["RecycleBinExitTime"] - binned["RecycleBinEnterTime"] == timedelta(days=365)
    assert [row["SnapshotId"] for row in ec2.describe_snapshots()["Snapshots"]] == [other]
    assert ec2.restore_snapshot_from_recycle_bin(SnapshotId=kept)["State"] == "completed"
    aws_lab.lab.call("snapshot.set_rule", name="kept", days=1, tags={"keep": "yes"})
    ec2.delete_snapshot(SnapshotId=kept)
    until(lambda: not ec2.list_snapshots_in_recycle_bin()["Snapshots"])
    assert refused(lambda: ec2.restore_snapshot_from_recycle_bin(SnapshotId=kept))[0] == "InvalidSnapshot.NotFound"


def test_fast_restore(ec2):
    one = snapshot(ec2, volume(ec2))
    zone = ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    missing = "snap-0123456789abcdef0"
    answer = ec2.enable_fast_snapshot_restores(AvailabilityZones=[zone], SourceSnapshotIds=[one, missing])
    assert [row["SnapshotId"] for row in answer["Successful"]] == [one]
    assert [row["SnapshotId"] for row in answer["Unsuccessful"]] == [missing]
    assert answer["Unsuccessful"][0]["FastSnapshotRestoreStateErrors"][0]["Error"]["Code"] == "InvalidSnapshot.NotFound"
    state = lambda: ec2.describe_fast_snapshot_restores()["FastSnapshotRestores"][0]["State"]  # noqa: E731
    until(lambda: state() == "enabled")
    made = volume(ec2, SnapshotId=one)
    assert ec2.describe_volumes(VolumeIds=[made])["Volumes"][0]["FastRestored"] is True
    ec2.disable_fast_snapshot_restores(AvailabilityZones=[zone], SourceSnapshotIds=[one])
    until(lambda: state() == "disabled")
    made = volume(ec2, SnapshotId=one)
    assert ec2.describe_volumes(VolumeIds=[made])["Volumes"][0]["FastRestored"] is False


def test_blocks(ec2, aws_lab):
    ebs = aws_lab.client("ebs")
    checksum = lambda data: base64.b64encode(hashlib.sha256(data).digest()).decode()  # noqa: E731

    def put(snapshot: str, block: int, data: bytes) -> None:
        ebs.put_snapshot_block(
            SnapshotId=snapshot,
            BlockIndex=block,
            BlockData=data,
            DataLength=len(data),
            Checksum=checksum(data),
            ChecksumAlgorithm="SHA256",
        )

    blocks = {0: b"a" * BLOCK, 5: b"b" * BLOCK, 2047: b"c" * BLOCK}
    first = ebs.start_snapshot(VolumeSize=1, Description="put")["SnapshotId"]
    for block, data in blocks.items():
        put(first, block, data)
    assert refused(lambda: put(first, 2048, b"d" * BLOCK))[0] == "ValidationException"
    assert refused(lambda: ebs.complete_snapshot(SnapshotId=first, ChangedBlocksCount=2))[0] == "ValidationException"
    ebs.complete_snapshot(SnapshotId=first, ChangedBlocksCount=3)
    second = ebs.start_snapshot(VolumeSize=1, ParentSnapshotId=first)["SnapshotId"]
    put(second, 5, b"B" * BLOCK)
    put(second, 6, b"e" * BLOCK)
    ebs.complete_snapshot(SnapshotId=second, ChangedBlocksCount=2)

    listed = ebs.list_snapshot_blocks(SnapshotId=second)["Blocks"]
    assert [row["BlockIndex"] for row in listed] == [0, 5, 6, 2047]
    for row, data in zip(listed, (b"a", b"B", b"e", b"c"), strict=True):
        got = ebs.get_snapshot_block(SnapshotId=second, BlockIndex=row["BlockIndex"], BlockToken=row["BlockToken"])
        bytes_ = got["BlockData"].read()
        assert bytes_ == data * BLOCK
        assert got["Checksum"] == checksum(bytes_)
    forged = listed[0]["BlockToken"]
    assert refused(lambda: ebs.get_snapshot_block(SnapshotId=second, BlockIndex=5, BlockToken=forged))[0] == "ValidationException"  # fmt: skip
    changed = ebs.list_changed_blocks(FirstSnapshotId=first, SecondSnapshotId=second)["ChangedBlocks"]
    assert [(row["BlockIndex"], "FirstBlockToken" in row) for row in changed] == [(5, True), (6, False)]
    assert refused(lambda: ebs.list_snapshot_blocks(SnapshotId="snap-0123456789abcdef0"))[0] == "ResourceNotFoundException"  # fmt: skip
