"""Cloud Custodian itself (c7n of PyPI, in an environment of its own) runs its policies for volumes and snapshots
against a lab: what people clean and modify their accounts with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_labs import PACE, AwsLab, until
from lab_folders import Labs

CUSTODIAN = Path(__file__).parents[2] / ".venv/clients/custodian/bin/custodian"

pytestmark = pytest.mark.skipif(not CUSTODIAN.exists(), reason="Cloud Custodian cannot be installed here (make test)")


@pytest.fixture(scope="module")
def shared():
    labs = Labs()
    try:
        yield AwsLab(labs)
    finally:
        labs.close()


@pytest.fixture
def volume(shared: AwsLab):
    """A gp2 volume of 1 GiB with a tag, attached to nothing; deleted afterwards, where a policy has not."""
    ec2 = shared.client("ec2")
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "owner", "Value": "ann"}]}]
    volume_id = ec2.create_volume(AvailabilityZone=shared.zone, Size=1, VolumeType="gp2", TagSpecifications=tags)[
        "VolumeId"
    ]
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume_id], WaiterConfig=PACE)
    yield volume_id
    for described in ec2.describe_volumes()["Volumes"]:
        if described["VolumeId"] == volume_id:
            if described["Attachments"]:
                ec2.detach_volume(VolumeId=volume_id)
                ec2.get_waiter("volume_available").wait(VolumeIds=[volume_id], WaiterConfig=PACE)
            ec2.delete_volume(VolumeId=volume_id)


def run_policy(lab: AwsLab, folder: Path, **policy: Any) -> list[dict]:
    """Runs one policy and returns the resources that it matched. JSON is YAML."""
    path = folder / "policy.yml"
    path.write_text(json.dumps({"policies": [{"name": "policy", **policy}]}))
    output = folder / "output"
    lab.run(
        str(CUSTODIAN),
        "run",
        "--output-dir",
        str(output),
        "--cache-period",
        "0",
        "--region",
        lab.region,
        str(path),
        cwd=folder,
    )
    return json.loads((output / "policy" / "resources.json").read_text())


def with_id(volume_id: str) -> dict:
    return {"VolumeId": volume_id}


def describe(lab: AwsLab, volume_id: str) -> dict:
    [described] = lab.client("ec2").describe_volumes(VolumeIds=[volume_id])["Volumes"]
    return described


def test_a_gp2_volume_in_use_becomes_gp3(shared: AwsLab, volume: str, tmp_path: Path):
    """The best known policy: `modifyable` reads the instance's type, `modify` asks for the change."""
    ec2 = shared.client("ec2")
    ec2.attach_volume(VolumeId=volume, InstanceId=shared.instance, Device="/dev/sdf")
    ec2.get_waiter("volume_in_use").wait(VolumeIds=[volume], WaiterConfig=PACE)
    matched = run_policy(
        shared, tmp_path, resource="aws.ebs", filters=[with_id(volume), {"VolumeType": "gp2"}, "modifyable"],
        actions=[{"type": "modify", "volume-type": "gp3"}],
    )  # fmt: skip
    assert [entry["VolumeId"] for entry in matched] == [volume]
    until(lambda: describe(shared, volume)["VolumeType"], lambda kind: kind == "gp3")


def test_an_unattached_volume_is_deleted(shared: AwsLab, volume: str, tmp_path: Path):
    matched = run_policy(
        shared,
        tmp_path,
        resource="aws.ebs",
        filters=[with_id(volume), {"Attachments": []}, {"Encrypted": False}],
        actions=["delete"],
    )
    assert [entry["VolumeId"] for entry in matched] == [volume]
    volumes = shared.client("ec2").describe_volumes
    until(volumes, lambda answer: volume not in {entry["VolumeId"] for entry in answer["Volumes"]})


def test_volumes_are_tagged_marked_and_untagged(shared: AwsLab, volume: str, tmp_path: Path):
    actions = [
        {"type": "tag", "tags": {"cost-center": "42"}},
        {"type": "remove-tag", "tags": ["owner"]},
        {"type": "mark-for-op", "op": "delete", "days": 4},
    ]
    run_policy(shared, tmp_path, resource="aws.ebs", filters=[with_id(volume), {"tag:owner": "ann"}], actions=actions)
    tags = {tag["Key"]: tag["Value"] for tag in describe(shared, volume)["Tags"]}
    assert (
        tags["cost-center"] == "42"
        and "owner" not in tags
        and tags["maid_status"].startswith("Resource does not meet policy: delete@")
    )
    marked = run_policy(
        shared,
        tmp_path,
        resource="aws.ebs",
        filters=[with_id(volume), {"type": "marked-for-op", "op": "delete", "skew": 5}],
    )
    assert [entry["VolumeId"] for entry in marked] == [volume]


def test_a_metric_selects_volumes_without_reads(shared: AwsLab, volume: str, tmp_path: Path):
    """CloudWatch has no points of a volume that was never attached; the policy says that they count as 0."""
    idle = {
        "type": "metrics",
        "name": "VolumeReadOps",
        "op": "lt",
        "value": 1,
        "days": 1,
        "statistics": "Sum",
        "missing-value": 0,
    }
    matched = run_policy(shared, tmp_path, resource="aws.ebs", filters=[with_id(volume), idle])
    assert [entry["VolumeId"] for entry in matched] == [volume]


@pytest.mark.parametrize("skip_images", [True, False])
def test_snapshots_are_taken_and_cleaned(shared: AwsLab, volume: str, tmp_path: Path, skip_images: bool):
    """`snapshot` copies the tags it is asked to; `delete` looks at the images that use a snapshot first."""
    ec2 = shared.client("ec2")
    taking = {"type": "snapshot", "copy-tags": ["owner"], "description": "by policy"}
    run_policy(shared, tmp_path, resource="aws.ebs", filters=[with_id(volume)], actions=[taking])
    mine = [{"Name": "volume-id", "Values": [volume]}]
    [snapshot] = ec2.describe_snapshots(OwnerIds=["self"], Filters=mine)["Snapshots"]
    assert {"Key": "owner", "Value": "ann"} in snapshot["Tags"]
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot["SnapshotId"]], WaiterConfig=PACE)
    # The lab's clock runs ahead of the policy's, so a snapshot is younger than a day at any time.
    age = {"type": "age", "days": 1, "op": "lt"}
    deleting = {"type": "delete", "skip-ami-snapshots": skip_images}
    matched = run_policy(
        shared, tmp_path, resource="aws.ebs-snapshot", filters=[with_id(volume), age], actions=[deleting]
    )
    assert [entry["SnapshotId"] for entry in matched] == [snapshot["SnapshotId"]]
    assert not ec2.describe_snapshots(OwnerIds=["self"], Filters=mine)["Snapshots"]
