"""A binary log is found on a volume of EC2, and the volume is handed back, without a cloud and a
mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.aws import instances
from headrace.aws.instances import read_own_instance
from headrace.errors import CouldNotRun, InputError
from headrace.mysql.address import Address
from headrace.mysql.binary_events import MAGIC as LOG_MAGIC
from headrace.servers import volumes
from headrace.servers.failover.hosts import Ec2Host, find_logs

VOLUME, DEAD, HERE = "vol-0123456789abcdef0", "i-0aaaaaaaaaaaaaaaa", "i-0bbbbbbbbbbbbbbbb"


def logs(folder: Path, base: str, count: int = 2, magic: bytes = LOG_MAGIC) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{base}.{number:06}" for number in range(1, count + 1)]
    for path in files:
        path.write_bytes(magic + b"rest")
    (folder / f"{base}.index").write_text("".join(f"/var/lib/mysql/{path.name}\n" for path in files))
    return files


def test_the_binary_log_is_found_wherever_it_is(tmp_path):
    data, log = tmp_path / "data", tmp_path / "log"
    (data / "lib/mysql/shop").mkdir(parents=True)
    (data / "lib/mysql/shop/t.ibd").write_bytes(b"")
    paths = logs(log / "mysql/binlogs", "db1-bin")
    logs(log / "mysql/binlogs", "db1-relay-bin")
    logs(data / "lib/mysql", "notes", magic=b"text")
    assert find_logs([data, log]) == paths
    assert find_logs([data]) == []
    logs(data / "other", "binlog")
    with pytest.raises(CouldNotRun, match="several binary logs"):
        find_logs([data, log])


class Client:
    """An EC2 with one volume; a refused call is an error of its own."""

    def __init__(self, refuse: str = "") -> None:
        self.calls: list[str] = []
        self.at, self.refuse = DEAD, refuse

    def describe_volumes(self, VolumeIds):
        at = [{"InstanceId": self.at, "State": "attached"}] if self.at else []
        return {"Volumes": [{"Attachments": at}]}

    def describe_instances(self, InstanceIds):
        used = [{"DeviceName": "/dev/sdf"}]
        return {"Reservations": [{"Instances": [{"BlockDeviceMappings": used}]}]}

    def detach_volume(self, VolumeId, InstanceId, Force=False):
        self.calls.append(f"detach {InstanceId}{' by force' if Force else ''}")
        self.at = ""

    def attach_volume(self, VolumeId, InstanceId, Device):
        if self.refuse:
            raise RuntimeError(self.refuse)
        self.calls.append(f"attach {InstanceId} {Device}")
        self.at = InstanceId

    def get_waiter(self, name):
        calls = self.calls

        class Waiter:
            def wait(self, **_):
                calls.append(name)

        return Waiter()


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Mounting is a link to a folder with binary logs."""
    content, by_id = tmp_path / "content", tmp_path / "by-id"
    logs(content, "binlog")
    by_id.mkdir()
    (tmp_path / "device").write_bytes(b"")
    (by_id / f"nvme-Amazon_Elastic_Block_Store_{VOLUME.replace('-', '')}").symlink_to(tmp_path / "device")
    mounted = []

    def mount(device, place):
        assert device == str(tmp_path / "device")
        mounted.append(place)
        for path in content.iterdir():
            (place / path.name).write_bytes(path.read_bytes())

    monkeypatch.setattr(volumes, "mount_to_read", mount)

    def unmount(place, lazily=False):
        for path in place.iterdir():
            path.unlink()
        mounted.remove(place)

    monkeypatch.setattr(volumes, "unmount", unmount)
    dead = Ec2Host("db1", Address("u", "db1", 1), instance=DEAD, volumes=(VOLUME,), rescuer=HERE, links=(by_id,))
    return dead, mounted


def test_a_volume_comes_and_goes(host, monkeypatch):
    dead, mounted = host
    client = Client()
    monkeypatch.setattr(Ec2Host, "make_ec2_client", lambda self: client)
    with dead.open_binary_logs() as files:
        [place] = mounted
        assert [path.name for path in files] == ["binlog.000001", "binlog.000002"] and mounted
    taken = [f"detach {DEAD} by force", "volume_available", f"attach {HERE} /dev/sdg", "volume_in_use"]
    assert client.calls == [*taken, f"detach {HERE}"] and not mounted and not place.exists()
    # An error while reading has the same end.
    client = Client()
    with pytest.raises(ZeroDivisionError), dead.open_binary_logs():
        raise ZeroDivisionError
    assert client.calls[-1] == f"detach {HERE}" and not mounted


def test_a_volume_that_cannot_come_is_said(host, monkeypatch):
    dead, mounted = host
    monkeypatch.setattr(Ec2Host, "make_ec2_client", lambda self: Client("InvalidVolume.ZoneMismatch"))
    with pytest.raises(CouldNotRun, match=f"{VOLUME} cannot be attached to {HERE}: InvalidVolume.ZoneMismatch"):
        dead.open_binary_logs().__enter__()
    assert not mounted


def test_a_volume_without_a_device_is_said(host, monkeypatch):
    dead, _ = host
    monkeypatch.setattr(instances, "DEVICE_S", 0.01)
    monkeypatch.setattr(Ec2Host, "make_ec2_client", lambda self: Client())
    elsewhere = Ec2Host("db1", dead.address, instance=DEAD, volumes=(VOLUME,), rescuer=HERE, links=(Path("/none"),))
    with pytest.raises(
        CouldNotRun, match="is attached, and nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0 appears"
    ):
        elsewhere.open_binary_logs().__enter__()


def test_an_instance_knows_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(instances, "ASSET_TAG", tmp_path / "tag")
    with pytest.raises(InputError, match="--rescue-on INSTANCE"):
        read_own_instance()
    (tmp_path / "tag").write_text(f"{HERE}\n")
    assert read_own_instance() == HERE
