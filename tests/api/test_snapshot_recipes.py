"""Recipes for snapshots, followed on the lab: by Terraform's and the CSI driver's calls, on a
schedule with retention, to a second lab, and after the first one is gone. Bytes are compared,
always.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from aws_labs import PACE, AwsLab, free_port, mounted, until
from csi_calls import Driver, Node
from terraform_calls import Snapshot, Volume

MIB = 1 << 20
DEVICE, OTHER = "/dev/sdf", "/dev/sdg"


def digest(device: str, size: int) -> str:
    """SHA-256 of the first bytes of a device."""
    with open(device, "rb", buffering=0) as file:
        digest = hashlib.sha256()
        for _ in range(0, size, MIB):
            digest.update(file.read(MIB))
    return digest.hexdigest()


def filled(aws: AwsLab, size: int = 1, device: str = DEVICE) -> str:
    """A volume that is attached and has 8 MiB of random bytes in it."""
    ec2 = aws.client("ec2")
    volume = ec2.create_volume(AvailabilityZone=aws.zone, Size=size, VolumeType="gp3")["VolumeId"]
    attach(aws, volume, device)
    with open(aws.device(volume), "wb", buffering=0) as file:
        file.write(os.urandom(8 * MIB))
        os.fsync(file.fileno())
    return volume


def attach(aws: AwsLab, volume: str, device: str) -> str:
    ec2 = aws.client("ec2")
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig=PACE)
    ec2.attach_volume(VolumeId=volume, InstanceId=aws.instance, Device=device)
    ec2.get_waiter("volume_in_use").wait(VolumeIds=[volume], WaiterConfig=PACE)
    return aws.device(volume)


def taken(aws: AwsLab, volume: str, **more) -> str:
    """A completed snapshot."""
    ec2 = aws.client("ec2")
    snapshot_id = ec2.create_snapshot(VolumeId=volume, **more)["SnapshotId"]
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot_id], WaiterConfig=PACE)
    return snapshot_id


def restored(aws: AwsLab, snapshot: str, device: str = OTHER, **more) -> str:
    """The device of a volume made from a snapshot."""
    volume_id = aws.client("ec2").create_volume(AvailabilityZone=aws.zone, SnapshotId=snapshot, **more)["VolumeId"]
    return attach(aws, volume_id, device)


def test_terraform_snapshot(aws_lab):
    """aws_ebs_snapshot, a volume from it with a plan without a difference, and a final snapshot."""
    ec2 = aws_lab.client("ec2")
    source = filled(aws_lab)
    snapshot = Snapshot(ec2)
    record = snapshot.create(source, {"Name": "nightly"}, "by terraform")
    assert (record["VolumeId"], record["VolumeSize"], record["Description"]) == (source, 1, "by terraform")
    volume = Volume(ec2)
    expected = {"availability_zone": aws_lab.zone, "snapshot_id": snapshot.id, "type": "gp3", "size": 2}
    volume.create({}, **expected)
    assert volume.plan(**expected) == {}
    device = attach(aws_lab, volume.id, OTHER)
    assert digest(device, 8 * MIB) == digest(aws_lab.device(source), 8 * MIB)
    ec2.detach_volume(VolumeId=volume.id)
    last = volume.delete(final_snapshot=True)
    # A snapshot outlives its volume.
    [details] = ec2.describe_snapshots(SnapshotIds=[last])["Snapshots"]
    assert (details["VolumeId"], details["State"]) == (volume.id, "completed")
    snapshot.delete()
    assert snapshot.read() is None


def test_csi_snapshot_is_restored_to_another_claim(aws_lab, tmp_path):
    driver = Driver(aws_lab.client("ec2"), aws_lab.instance, aws_lab.zone)
    volume = driver.create("pv-1", 1)
    driver.attach(volume)
    Node.stage(Node.device(aws_lab.device(volume), volume), tmp_path / "m")
    (tmp_path / "m/file").write_bytes(content := os.urandom(3 * MIB))
    Node.unstage(tmp_path / "m")
    snapshots = [driver.snapshot(volume, f"snap-{number}") for number in range(6)]
    assert sorted(driver.snapshots_of(volume)) == sorted(snapshots)
    other = driver.create("pv-2", 1, SnapshotId=snapshots[0])
    driver.attach(other)
    device = Node.device(aws_lab.device(other), other)
    # The driver does not format what has a file system.
    Node.stage(device, tmp_path / "other")
    try:
        assert (tmp_path / "other/file").read_bytes() == content
    finally:
        Node.unstage(tmp_path / "other")
    # Reading all of it loads it: what EBS calls initialising a volume.
    subprocess.run(["dd", f"if={device}", "of=/dev/null", "bs=1M"], check=True, capture_output=True, timeout=60)
    until(lambda: driver.initialized(other), bool, "initialised")
    assert driver.detach(other) and driver.delete(other) and driver.detach(volume) and driver.delete(volume)


def test_csi_claim_is_cloned(aws_lab, tmp_path):
    driver = Driver(aws_lab.client("ec2"), aws_lab.instance, aws_lab.zone)
    volume = driver.create("pv-1", 1)
    driver.attach(volume)
    Node.stage(Node.device(aws_lab.device(volume), volume), tmp_path / "m")
    (tmp_path / "m/file").write_bytes(content := os.urandom(3 * MIB))
    Node.unstage(tmp_path / "m")
    clone = driver.clone("pv-2", volume, 2)
    assert driver.clone("pv-2", volume, 2) == clone == driver.by_name("pv-2")
    assert driver.initialized(clone)
    driver.attach(clone)
    Node.stage(Node.device(aws_lab.device(clone), clone), tmp_path / "clone")
    try:
        assert (tmp_path / "clone/file").read_bytes() == content
        Node.grow(tmp_path / "clone")
    finally:
        Node.unstage(tmp_path / "clone")
    assert driver.detach(clone) and driver.delete(clone) and driver.detach(volume) and driver.delete(volume)


def test_a_database_like_file_system_is_restored_as_it_was(aws_lab, tmp_path):
    """xfs, frozen for the moment of the call alone, goes on being written while the snapshot is stored."""
    ec2 = aws_lab.client("ec2")
    volume = ec2.create_volume(AvailabilityZone=aws_lab.zone, Size=1, VolumeType="gp3")["VolumeId"]
    device = attach(aws_lab, volume, DEVICE)
    subprocess.run(["mkfs.xfs", "-q", device], check=True, timeout=60)
    with mounted(device, tmp_path / "m") as place:
        (place / "table").write_bytes(before := os.urandom(16 * MIB))
        subprocess.run(["fsfreeze", "--freeze", str(place)], check=True, timeout=60)
        try:
            snapshot_id = ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", str(place)], check=True, timeout=60)
        (place / "table").write_bytes(os.urandom(16 * MIB))
        os.sync()
        ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot_id], WaiterConfig=PACE)
        copy = restored(aws_lab, snapshot_id)
        # Both file systems have one id.
        with mounted(copy, tmp_path / "copy", "nouuid") as other:
            assert (other / "table").read_bytes() == before
            assert (place / "table").read_bytes() != before
        # After the mount, which plays back the log that a frozen xfs keeps.
        assert subprocess.run(["xfs_repair", "-n", copy], capture_output=True, timeout=60).returncode == 0


def test_a_schedule_keeps_the_last_three(aws_lab):
    """A snapshot an hour of what has a tag; older ones than the last three go, those by hand stay."""
    ec2 = aws_lab.client("ec2")
    volume, other = (ec2.create_volume(AvailabilityZone=aws_lab.zone, Size=1)["VolumeId"] for _ in range(2))
    ec2.create_tags(Resources=[volume], Tags=[{"Key": "backup", "Value": "hourly"}])
    byhand = taken(aws_lab, volume)
    # An hour of lab time is milliseconds in this lab, so many more runs are due than are kept.
    aws_lab.lab.call("snapshot.set_schedule", name="hourly", target_tags={"backup": "hourly"}, interval_s=3600, keep=3)
    seen: set[str] = set()

    def of_schedule() -> list[dict]:
        every = ec2.describe_snapshots(Filters=[{"Name": "volume-id", "Values": [volume]}])["Snapshots"]
        result = [snapshot for snapshot in every if snapshot["SnapshotId"] != byhand]
        seen.update(snapshot["SnapshotId"] for snapshot in result)
        return result

    until(lambda: (of_schedule(), len(seen))[1], lambda count: count >= 6, "snapshots of the schedule")
    aws_lab.lab.call("snapshot.delete_schedule", name="hourly")
    until(lambda: {row["State"] for row in of_schedule()}, lambda states: states == {"completed"})
    retained = of_schedule()
    # Three, and one that was being taken when the schedule ended.
    assert 3 <= len(retained) <= 4
    assert max(row["StartTime"] for row in retained) > min(row["StartTime"] for row in retained)
    assert ec2.describe_snapshots(Filters=[{"Name": "volume-id", "Values": [other]}])["Snapshots"] == []
    assert ec2.describe_snapshots(SnapshotIds=[byhand])["Snapshots"][0]["State"] == "completed"


def copied(source: Path, snapshot: str, target: AwsLab, region: str) -> str:
    """Copies a snapshot from the object store of another lab, which this one knows as a region."""
    target.lab.call("snapshot.set_region", region=region, store=f"file://{source}")
    ec2 = target.client("ec2")
    snapshot_id = ec2.copy_snapshot(SourceRegion=region, SourceSnapshotId=snapshot, Description="copied")["SnapshotId"]
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot_id], WaiterConfig=PACE)
    return snapshot_id


def test_a_copy_in_a_second_lab(labs, aws_lab):
    """The other region has its own blocks: it restores when the first lab's store is gone."""
    volume = filled(aws_lab)
    text = digest(aws_lab.device(volume), 8 * MIB)
    snapshot = taken(aws_lab, volume)
    second = AwsLab(labs)
    copy = copied(aws_lab.folder / "snapshots", snapshot, second, "eu-west-1")
    aws_lab.down()
    shutil.rmtree(aws_lab.folder / "snapshots")
    assert digest(restored(second, copy), 8 * MIB) == text


def test_an_encrypted_copy_in_a_second_lab(labs, aws_lab):
    """The other region's key opens it, a key of this one seals it; without the first it fails as on
    AWS (EC2 API, DescribeSnapshots, StateMessage).
    """
    there = aws_lab.client("kms").create_key()["KeyMetadata"]["KeyId"]
    source = aws_lab.client("ec2")
    volume = source.create_volume(AvailabilityZone=aws_lab.zone, Size=1, Encrypted=True, KmsKeyId=there)["VolumeId"]
    aws_lab.lab.attach(volume, unpaced=True, probe=False)
    with open(aws_lab.device(volume), "r+b", buffering=0) as file:
        file.write(written := os.urandom(MIB))
        os.fsync(file.fileno())
    snapshot = taken(aws_lab, volume)
    second = AwsLab(labs)
    second.lab.call("snapshot.set_region", region="eu-west-1", store=f"lab://{aws_lab.folder}")
    ec2, here = second.client("ec2"), second.client("kms").create_key()["KeyMetadata"]["Arn"]

    def copy() -> str:
        result = ec2.copy_snapshot(SourceRegion="eu-west-1", SourceSnapshotId=snapshot, Encrypted=True, KmsKeyId=here)
        return result["SnapshotId"]

    aws_lab.client("kms").disable_key(KeyId=there)
    failed = ec2.describe_snapshots(SnapshotIds=[copy()])["Snapshots"][0]
    assert failed["State"] == "error" and failed["StateMessage"].startswith("Given key ID is not accessible")
    aws_lab.client("kms").enable_key(KeyId=there)
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[sample := copy()], WaiterConfig=PACE)
    assert ec2.describe_snapshots(SnapshotIds=[sample])["Snapshots"][0]["KmsKeyId"] == here
    aws_lab.down()
    with open(restored(second, sample), "rb", buffering=0) as file:
        assert file.read(MIB) == written


def test_the_drill_a_lab_is_lost_and_comes_back(labs, aws_lab, tmp_path):
    """Everything is gone but the object store: a new lab restores the last snapshot, and what was
    written after it is what the backup costs.
    """
    volume = filled(aws_lab)
    subprocess.run(["mkfs.xfs", "-q", "-f", aws_lab.device(volume)], check=True, timeout=60)
    with mounted(aws_lab.device(volume), tmp_path / "m") as place:
        (place / "orders").write_bytes(orders := os.urandom(MIB))
        os.sync()
        snapshot = taken(aws_lab, volume)
        (place / "late").write_bytes(b"after the last snapshot")
        os.sync()
    aws_lab.down()
    path = Path(shutil.move(aws_lab.folder / "snapshots", tmp_path / "kept"))
    # The endpoint takes away its file at its end.
    until(lambda: (aws_lab.folder / "api.json").exists(), lambda there: not there, "the endpoint's end")
    shutil.rmtree(aws_lab.folder)
    begun = time.monotonic()
    fresh = AwsLab(labs)
    assert fresh.client("ec2").describe_snapshots()["Snapshots"] == []
    device = restored(fresh, copied(path, snapshot, fresh, "eu-west-1"))
    with mounted(device, tmp_path / "back") as place:
        assert (place / "orders").read_bytes() == orders
        assert not (place / "late").exists()
    print(f"recovery took {time.monotonic() - begun:.1f} s")


def test_any_member_of_a_chain_can_be_deleted(aws_lab):
    """Five snapshots in a row: the first, one in the middle and the last go, the others restore."""
    ec2 = aws_lab.client("ec2")
    volume = filled(aws_lab)
    chain, texts = [], []
    for number in range(5):
        with open(aws_lab.device(volume), "r+b", buffering=0) as file:
            file.seek(number * MIB)
            file.write(os.urandom(MIB))
            os.fsync(file.fileno())
        chain.append(taken(aws_lab, volume))
        texts.append(digest(aws_lab.device(volume), 8 * MIB))
    for victim in (0, 2, 4):
        ec2.delete_snapshot(SnapshotId=chain[victim])
    for number in (1, 3):
        assert digest(restored(aws_lab, chain[number], f"/dev/sd{'ghij'[number]}"), 8 * MIB) == texts[number]


S3RVER = Path(__file__).parents[2] / ".venv/clients/node_modules/.bin/s3rver"


def test_snapshots_lie_in_a_bucket_of_another_server(labs, tmp_path, monkeypatch):
    """s3rver, an S3-compatible server from npm, which checks signatures."""
    if not S3RVER.exists() or shutil.which("node") is None:
        pytest.skip("s3rver: needs Node.js and npm ci in .venv/clients")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "S3RVER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3RVER")
    port = free_port()
    words = [str(S3RVER), "-d", str(tmp_path), "-a", "127.0.0.1", "-p", str(port), "-s", "--configure-bucket", "lab"]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: answers(port), bool, "s3rver")
        aws = AwsLab(labs, store=f"s3://lab/x?endpoint=http://127.0.0.1:{port}")
        volume = filled(aws)
        text = digest(aws.device(volume), 8 * MIB)
        first = taken(aws, volume)
        assert any(path.is_file() for path in (tmp_path / "lab").rglob("*")), "nothing is in the bucket"
        assert digest(restored(aws, first), 8 * MIB) == text
        aws.down()
    finally:
        server.kill()
        server.wait(30)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
