"""Consistent snapshots by EC2's API, which the lab serves: volumes found from mounts, one
CreateSnapshots call without the instance's other volumes, tags, volumes from a set."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from aws_labs import AwsLab
from lab_servers import sql

from headrace import servers
from headrace.errors import CouldNotRun, InputError
from headrace.operate.snapshots import ec2, restore, sets
from headrace.operate.snapshots.ec2 import Ec2Service
from headrace.operate.snapshots.take import plan, take
from headrace.operate.snapshots.targets import make_ec2_request


@pytest.fixture(scope="module")
def aws(shared_labs):
    lab = AwsLab(shared_labs)
    yield lab
    for server in servers.list_servers(lab.lab):
        servers.destroy(server)
    lab.down()


@pytest.fixture
def service(aws, monkeypatch, tmp_path):
    """EC2 as boto3 finds it here: the lab's profile. The lab's devices have no serial number; udev's
    names for them are in the lab's folder."""
    for name, value in aws.environment.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    (tmp_path / "dev/disk").mkdir(parents=True)
    (tmp_path / "dev/disk/by-id").symlink_to(aws.folder / "dev/by-id")
    return Ec2Service(root=tmp_path)


@pytest.fixture(scope="module")
def server(aws):
    result = servers.bring_up(aws.lab, storage="gp3:1", log_storage="gp3:1", settings={"innodb_buffer_pool_size": "16M", "log_bin": "ON"})  # fmt: skip
    other = aws.lab.create("gp3:1")["id"]
    aws.lab.attach(other, unpaced=True, probe=False)
    sql(result, "CREATE DATABASE d", "CREATE TABLE d.t (n INT)", "INSERT INTO d.t VALUES (1)")
    return result


def name_instance(root, instance):
    """Writes the firmware of a Nitro instance, which names it."""
    firmware = root / "sys/devices/virtual/dmi/id/board_asset_tag"
    firmware.parent.mkdir(parents=True)
    firmware.write_text(instance)


def test_a_set(aws, server, service):
    request = make_ec2_request(server.make_address(), service, "shop")
    prepared = plan(request)
    assert set(prepared.volumes) == {server.volumes.data, server.volumes.log}
    assert service.list_stored() == []  # the plan took nothing
    snapshot_set = take(request).snapshot_set
    assert snapshot_set.whole and snapshot_set.server == "shop" and snapshot_set.gtid.startswith("0-1-")
    assert {snapshot.volume for snapshot in snapshot_set.snapshots} == {
        server.volumes.data,
        server.volumes.log,
    }  # the other is left out
    stdout = aws.headrace("snapshot", "sets", "--on", "ec2", "--output", "json").stdout
    assert json.loads(stdout)[0]["id"] == snapshot_set.id
    # The lab sees the same set, and a whole one.
    assert [entry.whole for entry in sets.build_sets(service.list_stored())] == [True]
    volumes = restore.restore_volumes(service, sets.build_sets(service.list_stored())[0], "back")
    try:
        zones = {aws.lab.describe(volume.volume)["zone"] for volume in volumes}
        assert zones == {aws.zone} and {volume.spec for volume in volumes} == {"gp3:1:3000:125"}
    finally:
        for volume in volumes:
            service.delete_volume(volume.volume)
    for snapshot in snapshot_set.snapshots:
        service.delete(snapshot.id)
        service.delete(snapshot.id)  # gone is fine


def test_rights_are_asked_for_before_anything_is_locked(aws, server, service, monkeypatch):
    """A user who may look and not take: refused by the rehearsal."""
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"}]}
    key, secret = aws.user("looker", policy)
    monkeypatch.delenv("AWS_PROFILE")
    for name, value in (("ACCESS_KEY_ID", key), ("SECRET_ACCESS_KEY", secret), ("ENDPOINT_URL", aws.endpoint), ("DEFAULT_REGION", aws.region)):  # fmt: skip
        monkeypatch.setenv(f"AWS_{name}", value)
    poor, steps = Ec2Service(root=service.root), []
    with pytest.raises(InputError, match="UnauthorizedOperation"):
        take(make_ec2_request(server.make_address(), poor, "shop"), steps.append)
    assert steps == []


def test_no_endpoint(server, service, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(ec2, "PATIENT", ec2.ONCE)
    with pytest.raises(CouldNotRun, match="could not be called"):
        take(make_ec2_request(server.make_address(), Ec2Service(root=service.root), "shop"))


def test_by_the_name_of_the_attachment(aws, server, monkeypatch, service, tmp_path):
    """Without serial numbers, as on Xen: /dev/sdf of the attachment leads to the disk."""
    root = tmp_path / "xen"
    root.mkdir()
    (root / "dev").symlink_to(aws.folder / "dev")
    (root / "sys").mkdir()
    (root / "sys/class").symlink_to("/sys/class")
    name_instance(root, aws.instance)
    prepared = plan(make_ec2_request(server.make_address(), Ec2Service(root=root), "shop"))
    assert set(prepared.volumes) == {server.volumes.data, server.volumes.log}


def test_a_disk_that_is_no_volume(aws, server, service, tmp_path):
    root = tmp_path / "empty"
    lost = replace(make_ec2_request(server.make_address(), service, "shop"), service=Ec2Service(root=root))
    with pytest.raises(InputError, match="does not say which EC2 instance it is"):
        take(lost)
    name_instance(root, aws.instance)
    with pytest.raises(InputError, match="no EBS volume is known"):
        take(lost)
