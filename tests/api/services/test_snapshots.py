"""Snapshots by boto3: create, describe, copy, lock, recycle bin, fast snapshot restore, blocks."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from aws_labs import PACE, PATIENCE_S
from botocore.exceptions import ClientError
from waiting import wait_until

BLOCK = 512 * 1024


def refused(act: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        act()
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def until(look: Callable[[], bool]) -> None:
    wait_until(look, "the state of a snapshot", PATIENCE_S)


@pytest.fixture
def ec2(aws_lab):
    return aws_lab.client("ec2")


def volume(ec2, size: int = 1, **more) -> str:
    zone = ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    return ec2.create_volume(AvailabilityZone=zone, Size=size, VolumeType="gp3", **more)["VolumeId"]


def tagged(**tags: str) -> list[dict]:
    return [{"ResourceType": "snapshot", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]


def snapshot(ec2, of: str, **more) -> str:
    snapshot = ec2.create_snapshot(VolumeId=of, **more)
    assert snapshot["VolumeId"] == of
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot["SnapshotId"]], WaiterConfig=PACE)
    return snapshot["SnapshotId"]


def test_create_describe_page_and_delete(ec2):
    of = volume(ec2, size=3)
    first = snapshot(ec2, of, Description="the first", TagSpecifications=tagged(owner="dba"))
    ids = sorted([first, *(snapshot(ec2, of) for _ in range(6))])
    entry = ec2.describe_snapshots(SnapshotIds=[first])["Snapshots"][0]
    assert (entry["State"], entry["Progress"], entry["VolumeSize"], entry["Description"]) == (
        "completed",
        "100%",
        3,
        "the first",
    )
    assert entry["Tags"] == [{"Key": "owner", "Value": "dba"}]
    assert entry["Encrypted"] is False

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
    taken = snapshot(ec2, volume(ec2, size=2))
    new_volume = volume(ec2, size=4, SnapshotId=taken, VolumeInitializationRate=200)
    description = ec2.describe_volumes(VolumeIds=[new_volume])["Volumes"][0]
    assert (description["SnapshotId"], description["VolumeInitializationRate"], description["Size"]) == (taken, 200, 4)
    status = ec2.describe_volume_status(VolumeIds=[new_volume])["VolumeStatuses"][0]
    details = {row["Name"]: row["Status"] for row in status["VolumeStatus"]["Details"]}
    # Nothing was written before the snapshot: there is nothing to load.
    assert details["initialization-state"] == "completed"
    assert status["InitializationStatusDetails"]["InitializationType"] == "provisioned-rate"
    code, message = refused(lambda: volume(ec2, size=1, SnapshotId=taken))
    assert code == "InvalidParameterValue"
    assert taken in message
    assert (
        refused(lambda: volume(ec2, size=4, SnapshotId=taken, VolumeInitializationRate=99))[0]
        == "InvalidParameterValue"
    )
    assert refused(lambda: volume(ec2, SnapshotId="snap-0123456789abcdef0"))[0] == "InvalidSnapshot.NotFound"


def test_locks_and_the_recycle_bin(ec2, aws_lab):
    of = volume(ec2)
    retained, other = snapshot(ec2, of, TagSpecifications=tagged(keep="yes")), snapshot(ec2, of)

    # Lab time runs 1,000,000 times as fast as the wall here: a day is 86 ms, 36,500 days an hour.
    locked = ec2.lock_snapshot(SnapshotId=retained, LockMode="governance", LockDuration=36_500)
    assert (locked["LockState"], locked["LockDuration"]) == ("governance", 36_500)
    assert [row["SnapshotId"] for row in ec2.describe_locked_snapshots()["Snapshots"]] == [retained]
    assert refused(lambda: ec2.delete_snapshot(SnapshotId=retained))[0] == "SnapshotLocked"
    assert refused(lambda: ec2.lock_snapshot(SnapshotId=retained, LockMode="governance"))[0] == "InvalidParameterCombination"  # fmt: skip
    assert ec2.unlock_snapshot(SnapshotId=retained)["SnapshotId"] == retained
    end = datetime.now(UTC) + timedelta(days=365_000)
    assert ec2.lock_snapshot(SnapshotId=other, LockMode="compliance", ExpirationDate=end)["LockState"] == "compliance"
    assert refused(lambda: ec2.unlock_snapshot(SnapshotId=other))[0] == "OperationNotPermitted"

    # A year is half a minute.
    aws_lab.lab.call("snapshot.set_rule", name="kept", days=365, tags={"keep": "yes"})
    ec2.delete_snapshot(SnapshotId=retained)
    [binned] = ec2.list_snapshots_in_recycle_bin()["Snapshots"]
    assert binned["SnapshotId"] == retained
    assert binned["RecycleBinExitTime"] - binned["RecycleBinEnterTime"] == timedelta(days=365)
    assert [row["SnapshotId"] for row in ec2.describe_snapshots()["Snapshots"]] == [other]
    assert ec2.restore_snapshot_from_recycle_bin(SnapshotId=retained)["State"] == "completed"
    aws_lab.lab.call("snapshot.set_rule", name="kept", days=1, tags={"keep": "yes"})
    ec2.delete_snapshot(SnapshotId=retained)
    until(lambda: not ec2.list_snapshots_in_recycle_bin()["Snapshots"])
    assert refused(lambda: ec2.restore_snapshot_from_recycle_bin(SnapshotId=retained))[0] == "InvalidSnapshot.NotFound"


def test_fast_restore(ec2):
    taken = snapshot(ec2, volume(ec2))
    zone = ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    missing = "snap-0123456789abcdef0"
    answer = ec2.enable_fast_snapshot_restores(AvailabilityZones=[zone], SourceSnapshotIds=[taken, missing])
    assert [row["SnapshotId"] for row in answer["Successful"]] == [taken]
    assert [row["SnapshotId"] for row in answer["Unsuccessful"]] == [missing]
    assert answer["Unsuccessful"][0]["FastSnapshotRestoreStateErrors"][0]["Error"]["Code"] == "InvalidSnapshot.NotFound"
    state = lambda: ec2.describe_fast_snapshot_restores()["FastSnapshotRestores"][0]["State"]  # noqa: E731
    until(lambda: state() == "enabled")
    new_volume = volume(ec2, SnapshotId=taken)
    assert ec2.describe_volumes(VolumeIds=[new_volume])["Volumes"][0]["FastRestored"] is True
    ec2.disable_fast_snapshot_restores(AvailabilityZones=[zone], SourceSnapshotIds=[taken])
    until(lambda: state() == "disabled")
    new_volume = volume(ec2, SnapshotId=taken)
    assert ec2.describe_volumes(VolumeIds=[new_volume])["Volumes"][0]["FastRestored"] is False


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


def test_blocks_by_pages_and_what_blocks_are_refused(ec2, aws_lab):
    ebs = aws_lab.client("ebs")
    snapshot_id = ebs.start_snapshot(VolumeSize=1, ClientToken="the-same", Tags=[{"Key": "by", "Value": "put"}])[
        "SnapshotId"
    ]
    assert (
        ebs.start_snapshot(VolumeSize=1, ClientToken="the-same", Tags=[{"Key": "by", "Value": "put"}])["SnapshotId"]
        == snapshot_id
    )
    sums = []
    # More than the least page, which has 100 blocks (EBS direct API, ListSnapshotBlocks).
    for block in range(103):
        data = bytes([block]) * BLOCK
        sums.append(hashlib.sha256(data).digest())
        ebs.put_snapshot_block(
            SnapshotId=snapshot_id, BlockIndex=2 * block, BlockData=data, DataLength=BLOCK,
            Checksum=base64.b64encode(sums[-1]).decode(), ChecksumAlgorithm="SHA256",
        )  # fmt: skip
    whole = base64.b64encode(hashlib.sha256(b"".join(sums)).digest()).decode()
    done = {"SnapshotId": snapshot_id, "ChangedBlocksCount": 103, "ChecksumAlgorithm": "SHA256"}
    wrong = base64.b64encode(sums[0]).decode()
    linear = "LINEAR"
    assert refused(lambda: ebs.complete_snapshot(**done, Checksum=wrong, ChecksumAggregationMethod=linear))[0] == "ValidationException"  # fmt: skip
    ebs.complete_snapshot(**done, Checksum=whole, ChecksumAggregationMethod=linear)
    tags = ec2.describe_snapshots(SnapshotIds=[snapshot_id])["Snapshots"][0]["Tags"]
    assert tags == [{"Key": "by", "Value": "put"}]

    def of(answer: dict, name: str) -> list[int]:
        return [row["BlockIndex"] for row in answer[name]]

    page = ebs.list_snapshot_blocks(SnapshotId=snapshot_id, MaxResults=100, StartingBlockIndex=3)
    rest = ebs.list_snapshot_blocks(SnapshotId=snapshot_id, MaxResults=100, NextToken=page["NextToken"])
    assert of(page, "Blocks") + of(rest, "Blocks") == list(range(4, 206, 2)) and "NextToken" not in rest
    page = ebs.list_changed_blocks(SecondSnapshotId=snapshot_id, MaxResults=100, StartingBlockIndex=1)
    rest = ebs.list_changed_blocks(SecondSnapshotId=snapshot_id, MaxResults=100, NextToken=page["NextToken"])
    assert of(page, "ChangedBlocks") + of(rest, "ChangedBlocks") == list(range(2, 206, 2)) and "NextToken" not in rest
    assert refused(lambda: ebs.list_changed_blocks(SecondSnapshotId="snap-0123456789abcdef0"))[0] == "ResourceNotFoundException"  # fmt: skip
    short = {"SnapshotId": snapshot_id, "BlockIndex": 1, "BlockData": b"x", "DataLength": 2, "Checksum": wrong}
    assert refused(lambda: ebs.put_snapshot_block(**short, ChecksumAlgorithm="SHA256"))[0] == "ValidationException"


def test_snapshots_that_are_put_are_encrypted_as_asked(ec2, aws_lab):
    """StartSnapshot with every combination of parent, Encrypted, KmsKeyArn and encryption by default:
    what is made, or that it is refused and nothing is begun.
    """
    ebs, kms = aws_lab.client("ebs"), aws_lab.client("kms")
    key = kms.create_key()["KeyMetadata"]["Arn"]
    plain, sealed = snapshot(ec2, volume(ec2)), snapshot(ec2, volume(ec2, Encrypted=True, KmsKeyId=key))
    # The key that EBS makes for itself when it is first needed.
    own = ec2.describe_volumes(VolumeIds=[volume(ec2, Encrypted=True)])["Volumes"][0]["KmsKeyId"]

    def start(**more) -> str | None:
        """The key of what is begun; "plain" for none, None where it is refused."""
        before = len(ec2.describe_snapshots()["Snapshots"])
        try:
            snapshot = ebs.start_snapshot(VolumeSize=1, **more)
        except ClientError as error:
            assert error.response["Error"]["Code"] == "ValidationException"
            assert len(ec2.describe_snapshots()["Snapshots"]) == before
            return None
        (details,) = ec2.describe_snapshots(SnapshotIds=[snapshot["SnapshotId"]])["Snapshots"]
        assert details.get("KmsKeyId") == snapshot.get("KmsKeyArn")
        assert snapshot["SseType"] == ("sse-kms" if details["Encrypted"] else "none")
        return snapshot.get("KmsKeyArn", "plain")

    both = {"Encrypted": True, "KmsKeyArn": key}
    for by_default, outcomes in (
        (False, {"none": "plain", "encrypted": own, "both": key, "key": None, "plain": "plain", "sealed": key}),
        (True, {"none": own, "encrypted": own, "both": key, "key": key, "plain": None, "sealed": key}),
    ):
        if by_default:
            ec2.enable_ebs_encryption_by_default()
        result = {
            "none": start(),
            "encrypted": start(Encrypted=True),
            "both": start(**both),
            "key": start(KmsKeyArn=key),
            "plain": start(ParentSnapshotId=plain),
            "sealed": start(ParentSnapshotId=sealed),
        }
        assert result == outcomes
        for parent in (plain, sealed):
            for more in ({"Encrypted": True}, {"Encrypted": False}, {"KmsKeyArn": key}):
                assert start(ParentSnapshotId=parent, **more) is None
    kms.disable_key(KeyId=key)
    assert start(ParentSnapshotId=sealed) is None and start(**both) is None


def test_an_increment_on_an_encrypted_snapshot_reads_as_it_was_put(ec2, aws_lab):
    ebs = aws_lab.client("ebs")
    parent = ebs.start_snapshot(VolumeSize=1, Encrypted=True)["SnapshotId"]
    blocks = {0: b"a" * BLOCK, 7: b"b" * BLOCK}

    def put(into: str, index: int, data: bytes) -> None:
        checksum = base64.b64encode(hashlib.sha256(data).digest()).decode()
        more = {"DataLength": BLOCK, "Checksum": checksum, "ChecksumAlgorithm": "SHA256"}
        ebs.put_snapshot_block(SnapshotId=into, BlockIndex=index, BlockData=data, **more)

    for index, data in blocks.items():
        put(parent, index, data)
    ebs.complete_snapshot(SnapshotId=parent, ChangedBlocksCount=2)
    child = ebs.start_snapshot(VolumeSize=1, ParentSnapshotId=parent)["SnapshotId"]
    put(child, 7, b"c" * BLOCK)
    ebs.complete_snapshot(SnapshotId=child, ChangedBlocksCount=1)
    stored = aws_lab.folder / "snapshots"
    assert not any(b"a" * 4096 in path.read_bytes() for path in stored.rglob("*") if path.is_file())
    new_volume = volume(ec2, SnapshotId=child)
    (details,) = ec2.describe_volumes(VolumeIds=[new_volume])["Volumes"]
    assert details["Encrypted"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[new_volume], WaiterConfig=PACE)
    ec2.attach_volume(VolumeId=new_volume, InstanceId=aws_lab.instance, Device="/dev/sdf")
    with open(aws_lab.device(new_volume), "rb", buffering=0) as device:
        assert device.read(BLOCK) == blocks[0]
        device.seek(7 * BLOCK)
        assert device.read(BLOCK) == b"c" * BLOCK


def test_snapshots_of_all_volumes_of_the_instance(ec2, aws_lab):
    """CreateSnapshots: of one instant, with the tags of the volumes where asked for."""
    lab_instance = aws_lab.instance
    volumes = [volume(ec2, TagSpecifications=[{"ResourceType": "volume", "Tags": [{"Key": "n", "Value": str(n)}]}]) for n in range(3)]  # fmt: skip
    for letter, snapshot in zip("fgh", volumes, strict=True):
        ec2.attach_volume(VolumeId=snapshot, InstanceId=lab_instance, Device=f"/dev/sd{letter}")
    chosen = {"InstanceId": lab_instance, "ExcludeBootVolume": True, "ExcludeDataVolumeIds": volumes[2:]}
    request = {"InstanceSpecification": chosen, "Description": "both", "TagSpecifications": tagged(kind="nightly")}
    assert refused(lambda: ec2.create_snapshots(**request, DryRun=True))[0] == "DryRunOperation"
    snapshots = ec2.create_snapshots(**request, CopyTagsFromSource="volume", Location="regional")["Snapshots"]
    assert sorted(volume["VolumeId"] for volume in snapshots) == sorted(volumes[:2])
    assert len({row["StartTime"] for row in snapshots}) == 1 and {row["Description"] for row in snapshots} == {"both"}
    for snapshot in snapshots:
        tags = {tag["Key"]: tag["Value"] for tag in snapshot["Tags"]}
        assert tags == {"kind": "nightly", "n": str(volumes.index(snapshot["VolumeId"]))}
    other = {"InstanceId": "i-0123456789abcdef0"}
    assert refused(lambda: ec2.create_snapshots(InstanceSpecification=other))[0] == "InvalidInstanceID.NotFound"
    none = chosen | {"ExcludeDataVolumeIds": volumes}
    assert refused(lambda: ec2.create_snapshots(InstanceSpecification=none))[0] == "InvalidParameterValue"
    local = {"VolumeId": volumes[0], "Location": "local"}
    assert refused(lambda: ec2.create_snapshot(**local))[0] == "UnsupportedOperation"


def test_copies_may_be_encrypted_and_tagged(ec2, aws_lab):
    taken = snapshot(ec2, volume(ec2))
    key = aws_lab.client("kms").create_key()["KeyMetadata"]["Arn"]
    here = {"SourceSnapshotId": taken, "SourceRegion": aws_lab.region, "DestinationRegion": aws_lab.region}
    assert refused(lambda: ec2.copy_snapshot(**here, DryRun=True))[0] == "DryRunOperation"
    copy = ec2.copy_snapshot(**here, Encrypted=True, KmsKeyId=key, TagSpecifications=tagged(of=taken))
    assert copy["Tags"] == [{"Key": "of", "Value": taken}]
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[copy["SnapshotId"]], WaiterConfig=PACE)
    (details,) = ec2.describe_snapshots(SnapshotIds=[copy["SnapshotId"]])["Snapshots"]
    assert (details["Encrypted"], details["KmsKeyId"], details["Tags"]) == (True, key, copy["Tags"])
    wrong = here | {"Encrypted": False, "KmsKeyId": key}
    assert refused(lambda: ec2.copy_snapshot(**wrong))[0] == "InvalidParameterDependency"
    assert refused(lambda: ec2.copy_snapshot(**here, Encrypted=False))[0] == "InvalidParameterValue"


def test_a_copy_gets_the_default_key_and_not_that_of_its_source(ec2, aws_lab):
    """EC2 API reference, CopySnapshot: without KmsKeyId, the key for EBS is used."""
    key = aws_lab.client("kms").create_key()["KeyMetadata"]["Arn"]
    source = snapshot(ec2, volume(ec2, Encrypted=True, KmsKeyId=key))
    own = ec2.describe_volumes(VolumeIds=[volume(ec2, Encrypted=True)])["Volumes"][0]["KmsKeyId"]
    here = {"SourceSnapshotId": source, "SourceRegion": aws_lab.region}

    def key_of(**more) -> str:
        snapshot_id = ec2.copy_snapshot(**here, **more)["SnapshotId"]
        ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot_id], WaiterConfig=PACE)
        return ec2.describe_snapshots(SnapshotIds=[snapshot_id])["Snapshots"][0]["KmsKeyId"]

    assert (key_of(), key_of(Encrypted=True), key_of(KmsKeyId=key)) == (own, own, key)
    other = aws_lab.client("kms").create_key()["KeyMetadata"]["Arn"]
    ec2.modify_ebs_default_kms_key_id(KmsKeyId=other)
    assert key_of() == other
    assert refused(lambda: ec2.copy_snapshot(**here, Encrypted=False))[0] == "InvalidParameterValue"


def test_what_a_pending_snapshot_waits_for_is_said(ec2, aws_lab):
    kms = aws_lab.client("kms")
    key = kms.create_key()["KeyMetadata"]["Arn"]
    of = volume(ec2, Encrypted=True, KmsKeyId=key)
    kms.disable_key(KeyId=key)
    snapshot_id = ec2.create_snapshot(VolumeId=of)["SnapshotId"]

    def describe() -> dict:
        return ec2.describe_snapshots(SnapshotIds=[snapshot_id])["Snapshots"][0]

    until(lambda: "disabled" in describe().get("StateMessage", ""))
    assert describe()["State"] == "pending"
    assert "disabled" in aws_lab.headrace("snapshot", "list", snapshot_id).stdout
    kms.enable_key(KeyId=key)
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot_id], WaiterConfig=PACE)
    assert "StateMessage" not in describe() or not describe()["StateMessage"]


def test_owners_that_are_no_accounts_are_refused(ec2):
    for named in ({"OwnerIds": ["banana"]}, {"RestorableByUserIds": ["self", "banana"]}, {"OwnerIds": ["12345678901"]}):
        assert refused(lambda named=named: ec2.describe_snapshots(**named))[0] == "InvalidUserID.Malformed"
    assert ec2.describe_snapshots(OwnerIds=["amazon", "111122223333"])["Snapshots"] == []
    assert ec2.describe_snapshots(OwnerIds=["self"], RestorableByUserIds=["all", "self"])["Snapshots"] == []
    assert ec2.describe_snapshots(MaxResults=0)["Snapshots"] == []
    assert refused(lambda: ec2.describe_snapshots(MaxResults=4))[0] == "InvalidParameterValue"
    assert ec2.get_snapshot_block_public_access_state()["State"] == "block-all-sharing"
    assert refused(lambda: ec2.get_snapshot_block_public_access_state(DryRun=True))[0] == "DryRunOperation"


def by_pages(call, items: str, **more) -> list[str]:
    """The ids of all, five on a page, which is the least (EC2 API reference)."""
    result, answer = [], call(MaxResults=5, **more)
    while True:
        assert len(answer[items]) <= 5
        result += [snapshot["SnapshotId"] for snapshot in answer[items]]
        if not answer.get("NextToken"):
            return result
        answer = call(MaxResults=5, NextToken=answer["NextToken"], **more)


def test_lists_of_snapshots_by_pages_and_filters(ec2, aws_lab):
    of = volume(ec2)
    ids = sorted(snapshot(ec2, of) for _ in range(7))
    zone = {"AvailabilityZoneIds": [ec2.describe_availability_zones()["AvailabilityZones"][0]["ZoneId"]]}
    for row in ids:
        ec2.lock_snapshot(SnapshotId=row, LockMode="governance", LockDuration=36_500)
    # At most five in a region (EBS endpoints and quotas).
    refusals = ec2.enable_fast_snapshot_restores(**zone, SourceSnapshotIds=ids)["Unsuccessful"]
    assert [refusal["SnapshotId"] for refusal in refusals] == ids[5:]
    codes = {error["Error"]["Code"] for refusal in refusals for error in refusal["FastSnapshotRestoreStateErrors"]}
    assert codes == {"FastSnapshotRestoreLimitExceeded"}
    assert by_pages(ec2.describe_locked_snapshots, "Snapshots") == ids
    locked = [{"Name": "lock-state", "Values": ["gov*"]}]
    assert [snapshot["SnapshotId"] for snapshot in ec2.describe_locked_snapshots(Filters=locked, SnapshotIds=ids[:2])["Snapshots"]] == ids[:2]  # fmt: skip
    assert by_pages(ec2.describe_fast_snapshot_restores, "FastSnapshotRestores") == ids[:5]
    two = [{"Name": "snapshot-id", "Values": ids[3:5]}]
    fast = ec2.describe_fast_snapshot_restores(Filters=two)["FastSnapshotRestores"]
    assert [snapshot["SnapshotId"] for snapshot in fast] == ids[3:5]
    assert by_pages(ec2.describe_snapshot_tier_status, "SnapshotTierStatuses") == ids
    tiers = ec2.describe_snapshot_tier_status(Filters=two)["SnapshotTierStatuses"]
    assert {(tier["SnapshotId"], tier["StorageTier"]) for tier in tiers} == {(entry, "standard") for entry in ids[3:5]}
    assert len(ec2.describe_snapshots(RestorableByUserIds=["self"])["Snapshots"]) == 7
    assert ec2.describe_snapshots(RestorableByUserIds=["111122223333"])["Snapshots"] == []
    for row in ids:
        ec2.unlock_snapshot(SnapshotId=row)
    ec2.disable_fast_snapshot_restores(**zone, SourceSnapshotIds=ids[:5])
    # Longer than this test: a year of lab time is half a minute.
    aws_lab.lab.call("snapshot.set_rule", name="all", days=365, tags={})
    for row in ids:
        ec2.delete_snapshot(SnapshotId=row)
    assert by_pages(ec2.list_snapshots_in_recycle_bin, "Snapshots") == ids
    assert [
        snapshot["SnapshotId"] for snapshot in ec2.list_snapshots_in_recycle_bin(SnapshotIds=ids[:1])["Snapshots"]
    ] == ids[:1]


def test_who_may_restore_and_the_one_tier(ec2):
    taken = snapshot(ec2, volume(ec2))
    named = {"SnapshotId": taken, "Attribute": "createVolumePermission"}

    def users() -> list[str]:
        create_volume_permissions = ec2.describe_snapshot_attribute(**named)["CreateVolumePermissions"]
        return sorted(row["UserId"] for row in create_volume_permissions)

    ann, bob = "111122223333", "444455556666"
    ec2.modify_snapshot_attribute(**named, OperationType="add", UserIds=[ann])
    ec2.modify_snapshot_attribute(
        **named, CreateVolumePermission={"Add": [{"UserId": bob}], "Remove": [{"UserId": ann}]}
    )
    assert users() == [bob]
    ec2.reset_snapshot_attribute(**named)
    assert users() == []
    everybody = {"Add": [{"Group": "all"}]}
    assert refused(lambda: ec2.modify_snapshot_attribute(**named, CreateVolumePermission=everybody))[0] == "UnsupportedOperation"  # fmt: skip
    assert refused(lambda: ec2.modify_snapshot_attribute(**named))[0] == "MissingParameter"
    assert (
        refused(lambda: ec2.modify_snapshot_tier(SnapshotId=taken, StorageTier="archive"))[0] == "UnsupportedOperation"
    )
    assert refused(lambda: ec2.restore_snapshot_tier(SnapshotId=taken))[0] == "UnsupportedOperation"


def test_a_lock_with_a_time_to_think(ec2):
    taken = snapshot(ec2, volume(ec2))
    locked = ec2.lock_snapshot(SnapshotId=taken, LockMode="compliance", CoolOffPeriod=72, LockDuration=36_500)
    assert (locked["LockState"], locked["CoolOffPeriod"]) == ("compliance-cooloff", 72)
    ends = locked["CoolOffPeriodExpiresOn"] - locked["LockCreatedOn"]
    assert ends == timedelta(hours=72)


def test_encryption_by_default_and_its_key(ec2, aws_lab):
    assert not ec2.get_ebs_encryption_by_default()["EbsEncryptionByDefault"]
    own = ec2.get_ebs_default_kms_key_id()["KmsKeyId"]
    key = aws_lab.client("kms").create_key()["KeyMetadata"]["Arn"]
    assert ec2.modify_ebs_default_kms_key_id(KmsKeyId=key)["KmsKeyId"] == key
    assert ec2.enable_ebs_encryption_by_default()["EbsEncryptionByDefault"]
    (details,) = ec2.describe_volumes(VolumeIds=[volume(ec2)])["Volumes"]
    assert (details["Encrypted"], details["KmsKeyId"]) == (True, key)
    assert ec2.reset_ebs_default_kms_key_id()["KmsKeyId"] == own
    assert not ec2.disable_ebs_encryption_by_default()["EbsEncryptionByDefault"]
    (details,) = ec2.describe_volumes(VolumeIds=[volume(ec2)])["Volumes"]
    assert details["Encrypted"] is False
    missing = "arn:aws:kms:us-east-1:000000000000:key/00000000-0000-0000-0000-000000000000"
    refused(lambda: ec2.modify_ebs_default_kms_key_id(KmsKeyId=missing))


def test_dry_runs_of_snapshots_and_encryption(ec2, aws_lab):
    """DryRun: decided, and not done."""
    taken = snapshot(ec2, volume(ec2))
    key = aws_lab.client("kms").create_key()["KeyMetadata"]["Arn"]
    zone = {"AvailabilityZones": [aws_lab.zone], "SourceSnapshotIds": [taken]}
    permission = {"SnapshotId": taken, "Attribute": "createVolumePermission"}
    for act in (
        lambda: ec2.describe_fast_snapshot_restores(DryRun=True),
        lambda: ec2.describe_locked_snapshots(DryRun=True),
        lambda: ec2.describe_snapshot_tier_status(DryRun=True),
        lambda: ec2.describe_snapshot_attribute(**permission, DryRun=True),
        lambda: ec2.list_snapshots_in_recycle_bin(DryRun=True),
        lambda: ec2.enable_fast_snapshot_restores(**zone, DryRun=True),
        lambda: ec2.disable_fast_snapshot_restores(**zone, DryRun=True),
        lambda: ec2.lock_snapshot(SnapshotId=taken, LockMode="governance", LockDuration=1, DryRun=True),
        lambda: ec2.modify_snapshot_attribute(**permission, OperationType="add", UserIds=["111122223333"], DryRun=True),
        lambda: ec2.reset_snapshot_attribute(**permission, DryRun=True),
        lambda: ec2.get_ebs_encryption_by_default(DryRun=True),
        lambda: ec2.enable_ebs_encryption_by_default(DryRun=True),
        lambda: ec2.disable_ebs_encryption_by_default(DryRun=True),
        lambda: ec2.get_ebs_default_kms_key_id(DryRun=True),
        lambda: ec2.modify_ebs_default_kms_key_id(KmsKeyId=key, DryRun=True),
        lambda: ec2.reset_ebs_default_kms_key_id(DryRun=True),
    ):
        assert refused(act)[0] == "DryRunOperation"
    # A request that would be refused is refused, dry or not.
    assert refused(lambda: ec2.modify_snapshot_tier(SnapshotId=taken, StorageTier="archive", DryRun=True))[0] == "UnsupportedOperation"  # fmt: skip
    assert refused(lambda: ec2.restore_snapshot_tier(SnapshotId=taken, DryRun=True))[0] == "UnsupportedOperation"
    assert ec2.describe_locked_snapshots()["Snapshots"] == []
    assert not ec2.get_ebs_encryption_by_default()["EbsEncryptionByDefault"]
    ec2.lock_snapshot(SnapshotId=taken, LockMode="governance", LockDuration=36_500)
    assert refused(lambda: ec2.unlock_snapshot(SnapshotId=taken, DryRun=True))[0] == "DryRunOperation"
    assert len(ec2.describe_locked_snapshots()["Snapshots"]) == 1
    ec2.unlock_snapshot(SnapshotId=taken)
    aws_lab.lab.call("snapshot.set_rule", name="all", days=365, tags={})
    ec2.delete_snapshot(SnapshotId=taken)
    assert refused(lambda: ec2.restore_snapshot_from_recycle_bin(SnapshotId=taken, DryRun=True))[0] == "DryRunOperation"
    assert len(ec2.list_snapshots_in_recycle_bin()["Snapshots"]) == 1


def test_copies_of_volumes(ec2, aws_lab):
    of = volume(ec2, size=2)
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "owner", "Value": "dba"}]}]
    order = {
        "SourceVolumeId": of, "Size": 8, "VolumeType": "gp3", "Iops": 4000, "Throughput": 250, "TagSpecifications": tags,
        "ClientToken": "copy-1", "Encrypted": False, "MultiAttachEnabled": False,
    }  # fmt: skip
    (result,) = ec2.copy_volumes(**order)["Volumes"]
    copy = result["VolumeId"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[copy], WaiterConfig=PACE)
    assert [again["VolumeId"] for again in ec2.copy_volumes(**order)["Volumes"]] == [copy]
    assert refused(lambda: ec2.copy_volumes(**order | {"Size": 9}))[0] == "IdempotentParameterMismatch"
    (description,) = ec2.describe_volumes(Filters=[{"Name": "source-volume-id", "Values": [of]}])["Volumes"]
    assert (description["VolumeId"], description["SourceVolumeId"], description["SnapshotId"]) == (copy, of, "")
    assert (description["Size"], description["VolumeType"], description["Iops"], description["Throughput"]) == (
        8,
        "gp3",
        4000,
        250,
    )
    assert description["Tags"] == tags[0]["Tags"] and not description["Encrypted"]
    details = ec2.describe_volume_status(VolumeIds=[copy])["VolumeStatuses"][0]["VolumeStatus"]["Details"]
    assert {"Name": "initialization-state", "Status": "completed"} in details

    # Defaults of a copy: size of the source, gp2, encryption by the lab's default.
    (plain,) = ec2.copy_volumes(SourceVolumeId=of)["Volumes"]
    assert (plain["Size"], plain["VolumeType"], plain["Encrypted"]) == (2, "gp2", False)
    key = aws_lab.lab.create_key(description="copies")["arn"]
    (sealed,) = ec2.copy_volumes(SourceVolumeId=of, Encrypted=True, KmsKeyId=key)["Volumes"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[plain["VolumeId"], sealed["VolumeId"]], WaiterConfig=PACE)
    (again,) = ec2.copy_volumes(SourceVolumeId=sealed["VolumeId"])["Volumes"]
    assert again["Encrypted"] and again["KmsKeyId"] == sealed["KmsKeyId"]
    assert ec2.describe_snapshots()["Snapshots"] == []


def test_copies_of_volumes_that_are_refused(ec2, aws_lab):
    of = volume(ec2, size=2)

    def copy_volumes(**order) -> str:
        return refused(lambda: ec2.copy_volumes(**{"SourceVolumeId": of} | order))[0]

    assert copy_volumes(SourceVolumeId="vol-0123456789abcdef0") == "InvalidVolume.NotFound"
    assert copy_volumes(SourceVolumeId="db") == "InvalidParameterValue"
    assert copy_volumes(Size=1) == "InvalidParameterValue"
    assert copy_volumes(VolumeType="xx9") == "UnknownVolumeType"
    assert copy_volumes(VolumeType="io1", Size=4) == "InvalidParameterCombination"
    assert copy_volumes(KmsKeyId="alias/none") == "InvalidParameterDependency"
    assert copy_volumes(VolumeType="io1", Size=4, Iops=100, MultiAttachEnabled=True) == "UnsupportedOperation"
    assert copy_volumes(DryRun=True) == "DryRunOperation"
    assert copy_volumes(DryRun=True, Size=1) == "InvalidParameterValue"
    assert [volume["VolumeId"] for volume in ec2.describe_volumes()["Volumes"]] == [of]
    # A source that has failed has no bytes to copy.
    aws_lab.down()
    (aws_lab.folder / "volumes" / of / "data").unlink()
    aws_lab.up()
    assert copy_volumes() == "IncorrectState"
