"""Snapshots of servers on EC2, without a cloud: volumes by the device names of their attachments,
names of servers, and calls that AWS throttles."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest

from headrace.cli.lab import snapshot as snapshot_commands
from headrace.errors import CouldNotRun, InputError
from headrace.mysql import Address
from headrace.mysql.address import parse_address
from headrace.operate.snapshots import ec2
from headrace.operate.snapshots.ec2 import Ec2Service
from headrace.operate.snapshots.freezing.filesystems import DeviceStack
from headrace.operate.snapshots.services import MemberVolume, VolumeService
from headrace.operate.snapshots.sets import StoredSnapshot
from headrace.operate.snapshots.take import CreateCall, SnapshotRequest, SnapshotScope, TakenSet, _run_steps
from headrace.operate.snapshots.targets import make_ec2_request
from headrace.servers.copies.locks import ServerFacts

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
    monkeypatch.setattr(ec2, "_open_clients", lambda *_: (account, account))
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
        name, below = f"vol-0a{letter}", DeviceStack((f"xvd{letter}",), ())
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
        service.find_members(DeviceStack(("xvdb",), ()))


@pytest.mark.parametrize("address", ["root@127.0.0.1", "root@localhost:3307", "root@/?socket=/run/mysqld/mysqld.sock"])
def test_a_server_without_a_name_has_that_of_its_machine(monkeypatch, tmp_path, address):
    """By their addresses the servers of all instances would be one server to `prune`."""
    service = open_service(monkeypatch, tmp_path, Account({}), HERE)
    server = parse_address(f"mysql://{address}")
    assert make_ec2_request(server, service, None).name == os.uname().nodename
    assert make_ec2_request(server, service, "shop").name == "shop"


ERROR = (
    "<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Later.</Message></Error></Errors></Response>"
)
SNAPSHOT = """<item><snapshotId>snap-{0}</snapshotId><volumeId>vol-{0}</volumeId><volumeSize>1</volumeSize>
<state>pending</state><startTime>2026-11-22T12:00:00.000Z</startTime></item>"""


class ThrottledEc2(ThreadingHTTPServer):
    """EC2's API over HTTP, which takes snapshots of vol-0 and vol-1. It refuses each of the actions
    `throttled` once before it answers them."""

    def __init__(self, throttled: set[str]) -> None:
        self.throttled, self.actions = throttled, list[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                content = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
                code, text = self.answer(parse_qs(content)["Action"][0])
                handler.send_response(code)
                handler.send_header("Content-Length", str(len(text)))
                handler.end_headers()
                handler.wfile.write(text.encode())

            def log_message(handler, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    def answer(self, action: str) -> tuple[int, str]:
        self.actions.append(action)
        if action in self.throttled:
            self.throttled.remove(action)
            return 503, ERROR
        content = "".join(SNAPSHOT.format(number) for number in range(2))
        return 200, f"<{action}Response><snapshotSet>{content}</snapshotSet></{action}Response>"


@pytest.fixture
def throttle(monkeypatch, tmp_path) -> Iterator[Callable[[set[str]], tuple[ThrottledEc2, Ec2Service]]]:
    """Returns a function that starts an EC2 which throttles some actions, and its service."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
    files = {f"AWS_{name}_FILE": str(tmp_path / "none") for name in ("CONFIG", "SHARED_CREDENTIALS")}
    with ExitStack() as stack:

        def start(actions: set[str]) -> tuple[ThrottledEc2, Ec2Service]:
            server = stack.enter_context(ThrottledEc2(actions))
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            for name, value in (keys | files | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}).items():
                monkeypatch.setenv(name, value)
            service = Ec2Service()
            service._chosen["vol-0", "vol-1"] = {"InstanceId": HERE}  # as a rehearsal leaves it
            return server, service

        yield start


def take_set(service: VolumeService) -> TakenSet:
    """Takes a set of vol-0 and vol-1, without a server: no lock and no freeze."""
    request = SnapshotRequest("db", Address("u", "db.example"), service, lock=False, freeze=False)
    facts = ServerFacts("mysql", "9.7.0", (9, 7, 0), "db.example", "a-b", 1, "", "/data", ("/data",), ())
    members = tuple((MemberVolume(name, "gp3:1"), {"place": "/data"}) for name in ("vol-0", "vol-1"))
    lock: Any = SimpleNamespace(held_ms=0.0, waited_ms=0.0)
    return _run_steps(request, SnapshotScope(facts, (), members), lock, CreateCall("set-a"), lambda step: None)


def test_a_set_that_was_taken_is_tagged_though_aws_throttles(throttle):
    server, service = throttle({"CreateTags", "DeleteSnapshot"})
    assert take_set(service).snapshot_set.whole
    # Both snapshots, the tag that the set is finished, and the call that was refused.
    assert server.actions == ["CreateSnapshots", *["CreateTags"] * 4]
    service.delete("snap-0")
    assert server.actions[5:] == ["DeleteSnapshot"] * 2


def test_a_call_for_which_writes_wait_is_sent_once(throttle):
    server, service = throttle({"CreateSnapshots"})
    with pytest.raises(CouldNotRun, match="RequestLimitExceeded"):
        take_set(service)
    assert server.actions == ["CreateSnapshots"]


def test_snapshots_that_are_being_stored_are_looked_at_in_aws_own_pace(throttle, monkeypatch):
    _, service = throttle(set())
    chosen, pauses = take_set(service).snapshot_set, list[float]()
    states = iter(("pending", "pending", "pending", "completed"))

    def list_stored() -> list[StoredSnapshot]:
        state = next(states)
        return [replace(snapshot, state=state) for snapshot in chosen.snapshots]

    monkeypatch.setattr(service, "list_stored", list_stored)
    monkeypatch.setattr(snapshot_commands, "time", SimpleNamespace(sleep=pauses.append))
    snapshot_commands.wait_for_set(service, chosen, lambda share: None)
    assert pauses == [service._client.get_waiter("snapshot_completed").config.delay] * 2
