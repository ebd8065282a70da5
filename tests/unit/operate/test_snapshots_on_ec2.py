"""Snapshots of servers on EC2, without a cloud: volumes by the device names of their attachments, names of servers."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from headrace.errors import InputError
from headrace.mysql.address import parse_address
from headrace.operate.snapshots import ec2
from headrace.operate.snapshots.ec2 import Ec2Service
from headrace.operate.snapshots.freezing.filesystems import Below
from headrace.operate.snapshots.targets import make_ec2_request

HERE, OTHERS = "i-0aaaaaaaaaaaaaaaa", ("i-0bbbbbbbbbbbbbbbb", "i-0cccccccccccccccc")
LETTERS = "bcdefgh"


class Account:
    """EC2 with volumes, each by its id with an instance and a device name. It filters as EC2 does."""

    def __init__(self, attached: dict[str, tuple[str, str]]) -> None:
        self.attached = attached

    def describe_volumes(self, Filters: tuple = (), VolumeIds: tuple = ()) -> dict:
        filters = {each["Name"]: each["Values"] for each in Filters}
        assert filters.keys() <= {"attachment.status", "attachment.instance-id"}
        instances = filters.get("attachment.instance-id", (HERE, *OTHERS))
        return {
            "Volumes": [
                {
                    "VolumeId": name,
                    "VolumeType": "gp2",
                    "Size": 100,
                    "Attachments": [{"InstanceId": instance, "Device": device, "State": "attached"}],
                }
                for name, (instance, device) in self.attached.items()
                if instance in instances and (not VolumeIds or name in VolumeIds)
            ]
        }


def open_service(monkeypatch: pytest.MonkeyPatch, root: Path, account: Account, instance: str) -> Ec2Service:
    """Returns the service of a machine with disks without serial numbers, whose firmware names `instance`."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(ec2, "_open_client", lambda *_: account)
    for letter in LETTERS:
        (root / f"sys/class/block/xvd{letter}").mkdir(parents=True)
    firmware = root / "sys/devices/virtual/dmi/id/board_asset_tag"
    firmware.parent.mkdir(parents=True)
    firmware.write_text(f"{instance}\n")
    return Ec2Service(root=root)


@pytest.mark.parametrize("seed", range(20))
def test_a_disk_without_serial_number_is_a_volume_of_this_instance(monkeypatch, tmp_path, seed):
    """Instances at random, each with volumes at some of the same device names."""
    chance = random.Random(seed)
    attached = {}
    for instance in (HERE, *OTHERS):
        for letter in LETTERS:
            if chance.random() < 0.5:
                attached[f"vol-{instance[2:4]}{letter}"] = (instance, f"/dev/{chance.choice(('sd', 'xvd'))}{letter}")
    service = open_service(monkeypatch, tmp_path, Account(attached), HERE)
    for letter in LETTERS:
        name, below = f"vol-0a{letter}", Below((f"xvd{letter}",), ())
        if name in attached:
            assert [member.id for member in service.find_members(below)] == [name]
        else:  # instance store, whatever others have by this name
            with pytest.raises(InputError, match="no EBS volume is known for it"):
                service.find_members(below)


def test_a_machine_that_is_no_instance_has_no_volume(monkeypatch, tmp_path):
    """Such as a guest of KVM with AWS keys: a volume by this name is that of somebody else."""
    account = Account({"vol-0b": (OTHERS[0], "/dev/xvdb")})
    service = open_service(monkeypatch, tmp_path, account, "Not Specified")
    with pytest.raises(InputError, match="does not say which EC2 instance it is"):
        service.find_members(Below(("xvdb",), ()))


@pytest.mark.parametrize("address", ["root@127.0.0.1", "root@localhost:3307", "root@/?socket=/run/mysqld/mysqld.sock"])
def test_a_server_without_a_name_has_that_of_its_machine(monkeypatch, tmp_path, address):
    """By their addresses the servers of all instances would be one server to `prune`."""
    service = open_service(monkeypatch, tmp_path, Account({}), HERE)
    server = parse_address(f"mysql://{address}")
    assert make_ec2_request(server, service, None).name == os.uname().nodename
    assert make_ec2_request(server, service, "shop").name == "shop"
