"""patch.sh and rollback.sh of a fleet on a lab, by the AWS CLI: the volumes become as planned, a second run changes
nothing, EC2's own rules stop the fifth modification, and the rollback brings back what was.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aws_labs import AwsLab, until

from headrace.base.storage import Storage
from headrace.operate.fleet.applying.changes import VolumeChange, check_changes, list_changes, rank_changes
from headrace.operate.fleet.applying.scripts import build_patch_scripts
from headrace.operate.fleet.inventory import FleetInventory, parse_inventory, read_inventory

AWS = str(Path(sys.executable).with_name("aws"))


def inventory(lab: AwsLab) -> FleetInventory:
    folder = lab.folder / "listed"
    folder.mkdir(exist_ok=True)
    for call in ("describe-volumes", "describe-instances", "describe-volumes-modifications"):
        (folder / call).write_text(json.dumps(lab.aws("ec2", call)))
    return read_inventory(sorted(folder.iterdir()))


def describe_volumes(lab: AwsLab) -> dict[str, str]:
    """Returns the volumes that exist, by boto3, which is faster than the CLI."""
    volumes = lab.client("ec2").describe_volumes()["Volumes"]
    return {
        volume.id: volume.notation for volume in parse_inventory(json.loads(json.dumps(volumes, default=str))).volumes
    }


def run(lab: AwsLab, script: str, name: str, *options: str, code: int = 0) -> str:
    path = lab.folder / name
    path.write_text(script)
    lab.environment |= {"AWS": AWS, "POLL_S": "0.2"}
    return lab.run("bash", str(path), *options, code=code).stderr


def planned(inventory: FleetInventory, expected: dict[str, tuple[str, float]]) -> list[VolumeChange]:
    devices = {device.key: device for device in inventory.list_devices()}
    return rank_changes(
        change
        for key, (text, usd) in expected.items()
        for change in list_changes(devices[key], Storage.parse(text), usd)
    )


def test_a_patch_is_made_once_and_taken_back(aws_lab):
    """The smaller saving comes second; a volume that is already on its way elsewhere, one that was changed since the plan
    and one that would shrink are left alone."""
    lab, ec2 = aws_lab, aws_lab.client("ec2")
    given: list[dict] = [
        {"VolumeType": "gp2", "Size": 8},
        {"VolumeType": "gp3", "Size": 12, "Iops": 5000, "Throughput": 300},
    ]
    small, large = (ec2.create_volume(AvailabilityZone=lab.zone, **entry)["VolumeId"] for entry in given)
    reference = inventory(lab)
    changes = planned(reference, {small: ("gp3:8", -0.16), large: ("gp3:12:3000:125", -17.0)})
    retained, refused = check_changes(changes, {volume.id: volume for volume in reference.volumes}, datetime.now(UTC))
    assert [change.volume_id for change in retained] == [large, small] and not refused
    [scripts] = build_patch_scripts(retained)
    first = run(lab, scripts.patch, "patch.sh")
    assert first.index(large) < first.index(small)
    assert "2 changed, 0 as planned already, 0 refused, of 2." in first
    assert describe_volumes(lab) == {small: "gp3:8:3000:125", large: "gp3:12:3000:125"}
    volumes_modifications = ec2.describe_volumes_modifications()["VolumesModifications"]
    assert "0 changed, 2 as planned already, 0 refused" in run(lab, scripts.patch, "patch.sh")
    assert ec2.describe_volumes_modifications()["VolumesModifications"] == volumes_modifications
    assert "2 changed" in run(lab, scripts.rollback, "rollback.sh")
    assert describe_volumes(lab) == {small: "gp2:8", large: "gp3:12:5000:300"}


def test_what_ec2_would_refuse_is_not_asked_for(aws_lab):
    """A fifth modification within 24 hours, of which the plan knew three and EC2 the last; a volume that is larger by now."""
    lab, ec2 = aws_lab, aws_lab.client("ec2")
    often, grown = (
        ec2.create_volume(AvailabilityZone=lab.zone, Size=10, VolumeType="gp3")["VolumeId"] for _ in range(2)
    )
    changes = planned(inventory(lab), {often: ("gp3:10:4000:125", 5.0), grown: ("gp3:12:3000:125", 0.16)})
    for volume, size in ((often, 11), (grown, 13)):
        ec2.modify_volume(VolumeId=volume, Size=size)
    now = datetime.now(UTC)
    recent = tuple(now - timedelta(hours=hours) for hours in (20, 10, 1))
    # The plans read as if they had come after the change; the start of the latest modification
    # comes from EC2 itself.
    changes = [
        replace(
            change,
            modification_starts=recent,
            before=replace(change.before, size_gib=11),
            after=replace(change.after, size_gib=11),
        )
        if change.volume_id == often
        else replace(change, before=replace(change.before, size_gib=13))
        for change in changes
    ]
    [scripts] = build_patch_scripts(changes)
    sample = until(
        lambda: ec2.describe_volumes_modifications()["VolumesModifications"],
        lambda result: [row["ModificationState"] for row in result] == ["completed"] * 2,
    )
    result = run(lab, scripts.patch, "patch.sh", code=1)
    assert f"{often}: REFUSED, it was modified 4 times within 24 hours" in result
    assert f"{grown}: REFUSED, a volume never shrinks, and it has 13 GiB" in result
    assert ec2.describe_volumes_modifications()["VolumesModifications"] == sample
    volumes = inventory(lab).volumes
    retained, refused = check_changes(changes, {volume.id: volume for volume in volumes}, now)
    assert not retained and sorted(entry.change.volume_id for entry in refused) == sorted([often, grown])
