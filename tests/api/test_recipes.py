"""Recipes for volumes on AWS, followed on the lab with the same programs: the aws cli, boto3, the
SDKs for Go and JavaScript, the calls of Terraform and of the CSI driver; and what they do with
databases on them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
from aws_labs import PACE, AwsLab, mounted, until
from botocore.exceptions import ClientError
from csi_calls import Driver, Node
from terraform_calls import Attachment, Volume, code_of

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / ".venv/clients"
DEVICE = "/dev/sdf"
CLI_REFUSED = 255  # exit code of aws cli 1 for an error of the service


def refused(code: str, call, **given) -> str:
    """The message of a call that must be refused with this code."""
    with pytest.raises(ClientError) as caught:
        call(**given)
    assert code_of(caught.value) == code, caught.value
    return caught.value.response["Error"]["Message"]


# Clients.


def test_the_aws_cli(aws_lab):
    """A volume's life on the command line, found by its profile alone."""
    aws = aws_lab.aws
    assert aws("sts", "get-caller-identity")["Account"] == "000000000000"
    result = aws(
        *("ec2", "create-volume", "--availability-zone", aws_lab.zone, "--size", "8", "--volume-type", "gp3"),
        *("--tag-specifications", "ResourceType=volume,Tags=[{Key=Name,Value=db},{Key=owner,Value=ann}]"),
    )
    volume = result["VolumeId"]
    assert (result["Size"], result["VolumeType"], result["Iops"]) == (8, "gp3", 3000)
    aws("ec2", "wait", "volume-available", "--volume-ids", volume)
    query = "Volumes[].[VolumeId,State,Tags[?Key=='owner']|[0].Value]"
    listed = aws("ec2", "describe-volumes", "--filters", "Name=tag:Name,Values=d*", "--query", query)
    assert listed == [[volume, "available", "ann"]]
    attached = aws(
        *("ec2", "attach-volume", "--volume-id", volume, "--instance-id", aws_lab.instance, "--device", DEVICE)
    )
    assert attached["Device"] == DEVICE
    aws("ec2", "wait", "volume-in-use", "--volume-ids", volume)
    assert Path(aws_lab.device(volume)).is_block_device()
    message = aws("ec2", "delete-volume", "--volume-id", volume, code=CLI_REFUSED)
    assert "(VolumeInUse)" in message and volume in message
    aws("ec2", "detach-volume", "--volume-id", volume)
    aws("ec2", "wait", "volume-available", "--volume-ids", volume)
    aws("ec2", "delete-volume", "--volume-id", volume)
    aws("ec2", "wait", "volume-deleted", "--volume-ids", volume)
    assert "(InvalidVolume.NotFound)" in aws("ec2", "describe-volumes", "--volume-ids", volume, code=CLI_REFUSED)
    message = aws("ec2", "run-instances", "--image-id", "ami-1", "--count", "1", code=CLI_REFUSED)
    assert "(UnsupportedOperation)" in message


def test_boto3_waiters_and_paginators(aws_lab):
    ec2 = aws_lab.client("ec2")
    volume_ids = [ec2.create_volume(AvailabilityZone=aws_lab.zone, Size=size)["VolumeId"] for size in range(1, 13)]
    ec2.get_waiter("volume_available").wait(VolumeIds=volume_ids, WaiterConfig=PACE)
    pages = list(ec2.get_paginator("describe_volumes").paginate(PaginationConfig={"PageSize": 5}))
    assert [len(page["Volumes"]) for page in pages] == [5, 5, 2]
    listed = {volume["VolumeId"]: volume["Size"] for page in pages for volume in page["Volumes"]}
    assert listed == dict(zip(volume_ids, range(1, 13), strict=True))
    # A page token goes on where it stopped, whatever is deleted meanwhile.
    first = ec2.describe_volumes(MaxResults=5)
    ec2.delete_volume(VolumeId=first["Volumes"][-1]["VolumeId"])
    rest = ec2.describe_volumes(MaxResults=500, NextToken=first["NextToken"])["Volumes"]
    assert {volume["VolumeId"] for volume in rest} == set(volume_ids) - {
        volume["VolumeId"] for volume in first["Volumes"]
    }
    for volume in volume_ids:
        if volume != first["Volumes"][-1]["VolumeId"]:
            ec2.delete_volume(VolumeId=volume)
    ec2.get_waiter("volume_deleted").wait(VolumeIds=volume_ids[:1], WaiterConfig=PACE)
    assert ec2.describe_volumes()["Volumes"] == []


def recipe(aws_lab: AwsLab, *words: str) -> dict:
    """Runs one of the programs in tests/api/clients, which check for themselves what they get."""
    document = json.loads(aws_lab.run(*words).stdout)
    assert len(set(document["volumes"])) == 6 and document["pages"] == [5, 1]
    assert document["refused"] == {
        "a volume that is not": "InvalidVolume.NotFound",
        "a dry run": "DryRunOperation",
        "a smaller size": "InvalidParameterValue",
    }
    assert aws_lab.lab.volumes() == []
    return document


def test_the_sdk_for_go(aws_lab):
    program = CLIENTS / "recipe-go"
    if not program.exists():
        pytest.skip(f"aws-sdk-go-v2: {program} is not here (make {CLIENTS.name}.ok needs Go and Debian's package)")
    recipe(aws_lab, str(program), aws_lab.endpoint, aws_lab.instance, DEVICE)


def test_the_sdk_for_javascript(aws_lab):
    if not (CLIENTS / "node_modules/@aws-sdk/client-ec2").is_dir() or shutil.which("node") is None:
        pytest.skip("the AWS SDK for JavaScript: needs Node.js 20 or newer and npm ci in .venv/clients")
    recipe(aws_lab, "node", "--no-warnings", str(CLIENTS / "recipe.mjs"), aws_lab.instance, DEVICE)


# Terraform.


def test_terraform_volume_and_attachment(aws_lab):
    """apply, plan without a difference, change, attach, destroy in the wrong order."""
    ec2 = aws_lab.client("ec2")
    assert aws_lab.client("sts").get_caller_identity()["Account"]
    volume = Volume(ec2)
    expected = {"availability_zone": aws_lab.zone, "size": 8, "type": "gp3", "iops": 4000, "throughput": 200}
    state = volume.create({"Name": "db"}, **expected)
    assert state["tags"] == {"Name": "db"} and volume.plan(**expected) == {}
    attachment = Attachment(ec2, volume.id, aws_lab.instance, DEVICE)
    attachment.create()
    assert attachment.read() == "attached"
    attachment.create()  # an apply that was cut off in the middle: there already
    expected |= {"size": 12, "iops": 5000}
    volume.update(size=12, iops=5000)
    assert volume.plan(**expected) == {}
    size = int(Path(f"/sys/block/{Path(aws_lab.device(volume.id)).name}/size").read_text())
    assert size * 512 == 12 << 30
    volume.tag({"Name": "db2", "team": "a"}, ["Name"])
    assert volume.read()["tags"] == {"Name": "db2", "team": "a"}
    # The provider deletes while the attachment is still there and asks again until it is gone.
    later = threading.Timer(1.0, attachment.delete)
    later.start()
    volume.delete()
    later.join()
    assert volume.read() is None and attachment.read() is None
    other = Volume(ec2)
    other.create({}, availability_zone=aws_lab.zone, size=1)
    Attachment(ec2, other.id, aws_lab.instance, DEVICE).delete()  # a destroy that was cut off: not attached any more
    other.delete()


# The CSI driver.


def test_csi_driver_limits_and_names(aws_lab):
    """The limits the driver reads out of refusals, and calls that it repeats."""
    driver = Driver(aws_lab.client("ec2"), aws_lab.instance, aws_lab.zone)
    driver.probe()
    # Limits of the newest facts: gp3 80,000, io1 64,000, io2 256,000.
    assert [driver.most_iops(kind) for kind in ("gp3", "io1", "io2")] == [80_000, 64_000, 256_000]
    assert [driver.most_iops(kind) for kind in ("gp2", "st1", "sc1")] == [0, 0, 0]
    first = driver.create("pv-1", 8)
    assert driver.create("pv-1", 8) == first == driver.by_name("pv-1")
    result, missing = driver.batch([first, "vol-0123456789abcdef0", "vol-0fedcba9876543210"])
    assert set(result) == {first} and missing == {"vol-0123456789abcdef0", "vol-0fedcba9876543210"}
    # A driver that starts again does not know which names are taken.
    device = driver.attach(first)
    second = driver.create("pv-2", 8)
    assert Driver(driver.ec2, driver.instance, driver.zone).attach(second) not in ("", device)
    assert driver.attach(first) == device
    assert driver.detach(first) and not driver.detach(first)
    assert driver.detach(second)
    assert driver.delete(first) and not driver.delete(first)


def test_csi_volume_is_used_and_grows(aws_lab, tmp_path):
    """A claim's life: made, attached, formatted, written, grown in use, taken away."""
    driver = Driver(aws_lab.client("ec2"), aws_lab.instance, aws_lab.zone)
    volume = driver.create("pv-1", 8)
    driver.attach(volume)
    links = aws_lab.lab.describe(volume)["attachment"]["links"]
    device = Node.device(links[0], volume)
    Node.stage(device, tmp_path / "m")
    try:
        (tmp_path / "m/file").write_bytes(os.urandom(1 << 20))
        before = shutil.disk_usage(tmp_path / "m").total
        driver.modify(volume, Size=16, Iops=4000)
        until(
            lambda: int(Path(f"/sys/block/{Path(device).name}/size").read_text()) * 512, lambda size: size == 16 << 30
        )
        Node.grow(tmp_path / "m")
        assert shutil.disk_usage(tmp_path / "m").total > before + (7 << 30)
    finally:
        Node.unstage(tmp_path / "m")
    assert driver.detach(volume) and driver.delete(volume)


# Databases and file systems.


def fio(target: Path, seconds: float, *more: str) -> subprocess.Popen:
    """Mixed reads and writes that fail at the first error."""
    words = ["fio", "--name=load", f"--directory={target}", "--size=64m", "--rw=randrw", "--bs=16k", "--iodepth=8"]
    words += [
        "--ioengine=libaio",
        "--direct=1",
        "--time_based",
        f"--runtime={seconds}",
        "--verify=crc32c",
        "--verify_state_save=0",
        *more,
    ]
    return subprocess.Popen([*words, "--output-format=json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(load: subprocess.Popen) -> dict:
    out, err = load.communicate(timeout=120)
    assert load.returncode == 0, out + err
    [job] = json.loads(out[out.index("{") :])["jobs"]
    assert job["error"] == 0
    return job


def test_grow_and_change_the_type_under_load(aws_lab, tmp_path):
    """gp2 to io2 and twice the size, while a load on xfs goes on: no error, and never silent."""
    ec2 = aws_lab.client("ec2")
    volume = ec2.create_volume(AvailabilityZone=aws_lab.zone, Size=8, VolumeType="gp2")["VolumeId"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig=PACE)
    ec2.attach_volume(VolumeId=volume, InstanceId=aws_lab.instance, Device=DEVICE)
    until(lambda: ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["State"], lambda state: state == "in-use")
    device = aws_lab.device(volume)
    subprocess.run(["mkfs.xfs", "-q", device], check=True, timeout=60)
    with mounted(device, tmp_path / "m") as place:
        load = fio(place, 6)
        time.sleep(1.5)
        ec2.modify_volume(VolumeId=volume, VolumeType="io2", Iops=2000, Size=16)
        until(
            lambda: modification(ec2, volume)["ModificationState"], lambda state: state in ("optimizing", "completed")
        )
        grown = subprocess.run(["xfs_growfs", str(place)], capture_output=True, text=True, timeout=60)
        assert grown.returncode == 0, grown.stderr
        job = finished(load)
        assert job["read"]["total_ios"] > 0 and job["write"]["total_ios"] > 0
        # 16 GiB less what xfs keeps for itself, some per cent of it.
        assert shutil.disk_usage(place).total > 15 << 30
    now = ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]
    assert (now["VolumeType"], now["Size"], now["Iops"]) == ("io2", 16, 2000)
    message = refused("InvalidParameterValue", ec2.modify_volume, VolumeId=volume, Size=8)
    assert message == "New size cannot be smaller than existing size"


def modification(ec2, volume: str) -> dict:
    return ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"][-1]


POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": ["ec2:*"], "Resource": "*"},
        {
            "Sid": "EncryptedOnly",
            "Effect": "Deny",
            "Action": "ec2:CreateVolume",
            "Resource": "*",
            "Condition": {"Bool": {"ec2:Encrypted": "false"}},
        },
        {
            "Sid": "OwnerTag",
            "Effect": "Deny",
            "Action": "ec2:CreateVolume",
            "Resource": "arn:aws:ec2:*:*:volume/*",
            "Condition": {"Null": {"aws:RequestTag/owner": "true"}},
        },
    ],
}


def test_no_volume_without_encryption_and_an_owner(aws_lab):
    """The whitepaper's policy: what is not encrypted or has no owner is not made."""
    ec2 = aws_lab.client("ec2", aws_lab.user("dba", POLICY))
    owner = [{"ResourceType": "volume", "Tags": [{"Key": "owner", "Value": "ann"}]}]
    order = {"AvailabilityZone": aws_lab.zone, "Size": 1}
    for given in (
        {},
        {"Encrypted": True},
        {"TagSpecifications": owner},
        {"Encrypted": False, "TagSpecifications": owner},
    ):
        refused("UnauthorizedOperation", ec2.create_volume, **order, **given)
    assert ec2.describe_volumes()["Volumes"] == []
    volume = ec2.create_volume(**order, Encrypted=True, TagSpecifications=owner)
    assert volume["Encrypted"] and volume["KmsKeyId"]
