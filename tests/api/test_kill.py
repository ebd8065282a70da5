"""kill -9 of the endpoint and of the daemon at random under calls and I/O: nothing that was
acknowledged is lost, and every snapshot is the device at one instant.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from aws_labs import AwsLab, until
from botocore.exceptions import ClientError
from failing_s3 import FailingS3
from flushing_writer import BLOCK, number_of
from lab_folders import kill, loops_of
from mixed_load import BLOCKS, GONE, Caller, Stream, read_numbers
from waiting import wait_until

# CRASHES=100 for the soak; each at another random moment, printed with its seed.
CRASHES = int(os.environ.get("CRASHES", "3"))
# After everything that may have been written: a device that is read after a crash.
END_NS = 1 << 62


@pytest.fixture
def written():
    """A stream that wrote into a file in memory, and what the file holds."""
    descriptor = os.memfd_create("stream")
    os.truncate(descriptor, BLOCKS * BLOCK)
    stream = Stream(f"/proc/{os.getpid()}/fd/{descriptor}", [0] * BLOCKS, 0, seed=1)
    wait_until(lambda: len(stream.ends) >= 200, "200 writes")
    stream.stop()
    data = os.pread(descriptor, BLOCKS * BLOCK, 0)
    os.close(descriptor)
    return stream, [number_of(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]


def test_the_check_of_an_instant_sees_what_is_wrong(written):
    """The check that the crash test stands on: a block that is older than its group allows, one from
    the future, a damaged one and a state before what was flushed are all seen.
    """
    stream, result = written
    moment, answered = stream.moments[-1], stream.moments[-1] + 1
    assert stream.check(result, moment, answered) >= stream.ends[-1]

    def broken(slot: int, number: int | None) -> list[int | None]:
        return [number if at == slot else entry for at, entry in enumerate(result)]

    flushed = stream.ends[-3]
    slot = flushed % BLOCKS
    with pytest.raises(AssertionError, match=f"block {slot} has"):
        stream.check(broken(slot, max(0, flushed - BLOCKS)), moment, answered)
    with pytest.raises(AssertionError, match="damaged"):
        stream.check(broken(slot, None), moment, answered)
    later = stream.last() + BLOCKS
    with pytest.raises(AssertionError, match="at the answer it was"):
        stream.check(broken(later % BLOCKS, later), moment, answered)
    with pytest.raises(AssertionError, match="was flushed before"):
        stream.check([0] * BLOCKS, moment, answered)


@dataclass
class Taken:
    """A snapshot that was acknowledged, and the stream it was taken of."""

    id: str
    stream: Stream
    asked_ns: int
    answered_ns: int


class Load:
    """A volume that is written, snapshots of it, and two callers."""

    def __init__(self, aws: AwsLab, seed: int) -> None:
        self.aws, self.chance = aws, random.Random(seed)
        self.ec2 = aws.client("ec2")
        self.instance = aws.instance
        self.data = self.ec2.create_volume(AvailabilityZone=aws.zone, Size=1, VolumeType="gp3")["VolumeId"]
        self.attach(self.data, "/dev/sdf")
        self.base, self.start = [0] * BLOCKS, 0
        self.taken: list[Taken] = []
        self.callers = [
            Caller(lambda: aws.client("ec2"), self.instance, aws.zone, letter, self.chance.randrange(2**32))
            for letter in "bc"
        ]

    def attach(self, volume: str, device: str) -> None:
        until(lambda: self.state(volume), lambda state: state == "available")
        self.ec2.attach_volume(VolumeId=volume, InstanceId=self.instance, Device=device)
        until(lambda: self.state(volume), lambda state: state == "in-use")
        until(lambda: self.aws.lab.describe(volume)["attachment"]["state"], lambda state: state == "attached")

    def state(self, volume: str) -> str:
        [details] = self.ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
        return details["State"]

    def snapshot(self, stream: Stream) -> None:
        """One that is answered is to be there; one that is not may be."""
        begun_ns = time.monotonic_ns()
        snapshot_id = self.ec2.create_snapshot(VolumeId=self.data)["SnapshotId"]
        self.taken.append(Taken(snapshot_id, stream, begun_ns, time.monotonic_ns()))

    def run_until_killed(self, victim: str) -> Stream:
        """Calls and I/O, a snapshot, and an end in the middle of them."""
        stream = Stream(self.aws.device(self.data), self.base, self.start, self.chance.randrange(2**32))
        for caller in self.callers:
            caller.start()
        time.sleep(self.chance.uniform(0.3, 1.5))
        self.snapshot(stream)
        time.sleep(self.chance.choice((0.0, self.chance.uniform(0.0, 0.8))))
        if victim == "daemon":
            self.aws.lab.close()
            kill(self.aws.folder)
        else:
            os.kill(worker_of(self.aws), signal.SIGKILL)
            time.sleep(self.chance.uniform(0.0, 0.5))
        return stream

    def recover(self, victim: str, stream: Stream) -> None:
        """Starts what was killed, and holds everything against what was acknowledged."""
        if victim == "daemon":
            self.aws.up()
        until(self.answers, bool, "the endpoint")
        for caller in self.callers:
            caller.stop()
        stream.stop()
        # Not by boto3's kept connections, which the crash has cut.
        self.ec2 = self.aws.client("ec2")
        attached = [volume for caller in self.callers for volume in caller.check(self.ec2)]
        devices = {self.aws.device(volume) for volume in [self.data, *attached]}
        assert set(loops_of(self.aws.folder)) == devices, "a device has no volume, or a volume no device"
        numbers = read_numbers(self.aws.device(self.data))
        stream.check(numbers, stream.moments[-1] if stream.moments else 0, END_NS)
        self.base, self.start = [number or 0 for number in numbers], stream.last()

    def answers(self) -> bool:
        try:
            self.aws.client("ec2").describe_availability_zones()
        except (*GONE, ClientError):
            return False
        return True

    def check_snapshots(self) -> None:
        """Each is completed, and restores to its instant; then it is deleted."""
        for taken in self.taken:
            result = until(lambda taken=taken: self.snapshot_state(taken.id), lambda state: state != "pending")
            assert result == "completed", (taken.id, result)
            restored = self.ec2.create_volume(AvailabilityZone=self.aws.zone, SnapshotId=taken.id)["VolumeId"]
            self.attach(restored, "/dev/sdg")
            taken.stream.check(read_numbers(self.aws.device(restored)), taken.asked_ns, taken.answered_ns)
            self.ec2.detach_volume(VolumeId=restored)
            until(lambda restored=restored: self.state(restored), lambda state: state == "available")
            self.ec2.delete_volume(VolumeId=restored)
            self.ec2.delete_snapshot(SnapshotId=taken.id)
        self.taken = []

    def snapshot_state(self, snapshot: str) -> str:
        [details] = self.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"]
        return details["State"]


def worker_of(aws: AwsLab) -> int:
    """Process id of the endpoint's worker: the child of its supervisor."""
    supervisor = json.loads((aws.folder / "api.json").read_text())["pid"]
    children = until(
        lambda: Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split(), bool, "the worker"
    )
    return int(children[0])


def test_nothing_acknowledged_is_lost_however_often_it_is_killed(labs):
    seed = int(os.environ.get("SEED", "1"))
    load = Load(AwsLab(labs), seed)
    for crash in range(CRASHES):
        # The first three have both kinds, however few there are.
        victim = ("daemon", "api", "daemon")[crash] if crash < 3 else load.chance.choice(("daemon", "api"))
        print(f"crash {crash}: seed {seed}, {victim}")
        load.recover(victim, load.run_until_killed(victim))
        # Not after each: some lie in a chain over several crashes.
        if crash % 3 == 2 or crash == CRASHES - 1:
            load.check_snapshots()
    assert min(caller.acknowledged for caller in load.callers) > 0
    print(f"acknowledged: {[caller.acknowledged for caller in load.callers]}")


class FailingLoad(Load):
    """Load that goes on while the object store of the snapshots fails. A snapshot may end in an
    error then; one that is completed restores to its instant.
    """

    def __init__(self, aws: AwsLab, store: FailingS3, seed: int) -> None:
        super().__init__(aws, seed)
        self.store = store
        self.completed = self.failed = self.unread = 0

    def check_snapshots(self) -> None:
        for taken in self.taken:
            result = until(
                lambda taken=taken: self.snapshot_state(taken.id), lambda state: state != "pending", taken.id
            )
            if result == "completed":
                self.check_restored(taken)
                self.completed += 1
            else:
                self.check_failed(taken.id)
                self.failed += 1
            self.ec2.delete_snapshot(SnapshotId=taken.id)
        self.taken = []

    def check_restored(self, taken: Taken) -> None:
        """Reads while the store fails end in an error or in the right bytes, and all of them in the
        right bytes once it is back.
        """
        self.store.failing = False
        restored = self.ec2.create_volume(AvailabilityZone=self.aws.zone, SnapshotId=taken.id)["VolumeId"]
        self.attach(restored, "/dev/sdg")
        self.store.failing = True
        for failing in (True, False):
            self.store.failing = failing
            try:
                numbers = read_numbers(self.aws.device(restored))
            except OSError:
                assert failing, "the store is back"
                self.unread += 1
                continue
            taken.stream.check(numbers, taken.asked_ns, taken.answered_ns)
        self.ec2.detach_volume(VolumeId=restored)
        until(lambda: self.state(restored), lambda state: state == "available")
        self.ec2.delete_volume(VolumeId=restored)
        self.store.failing = True

    def check_failed(self, snapshot: str) -> None:
        """It says why, and nothing can be made of it."""
        [details] = self.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"]
        assert details["State"] == "error", details
        assert "s3://" in details["StateMessage"] or "ake the snapshot again" in details["StateMessage"], details
        before = self.volumes()
        with pytest.raises(ClientError) as refused:
            self.ec2.create_volume(AvailabilityZone=self.aws.zone, SnapshotId=snapshot)
        assert refused.value.response["Error"]["Code"] == "IncorrectState", refused.value.response
        assert self.volumes() == before

    def volumes(self) -> set[str]:
        pages = self.ec2.get_paginator("describe_volumes").paginate()
        return {volume["VolumeId"] for page in pages for volume in page["Volumes"] if volume["State"] != "deleting"}

    def check_lying(self) -> None:
        """A store that keeps half of what it says it has: the snapshot ends in an error."""
        self.store.failing, self.store.lying = False, True
        snapshot_id = self.ec2.create_snapshot(VolumeId=self.data)["SnapshotId"]
        assert until(lambda: self.snapshot_state(snapshot_id), lambda state: state != "pending", snapshot_id) == "error"
        self.store.lying = False
        self.check_failed(snapshot_id)
        self.ec2.delete_snapshot(SnapshotId=snapshot_id)

    def check_away(self) -> None:
        """A store that is not there: a volume is not made by half, and is made when it is back, by
        the same call.
        """
        self.store.failing = False
        good = self.ec2.create_snapshot(VolumeId=self.data)["SnapshotId"]
        assert until(lambda: self.snapshot_state(good), lambda state: state != "pending", good) == "completed"
        self.store.away = True
        before = self.volumes()
        expected = {"AvailabilityZone": self.aws.zone, "SnapshotId": good, "ClientToken": "again"}
        with pytest.raises(ClientError) as refused:
            self.ec2.create_volume(**expected)
        assert "s3://" in str(refused.value), refused.value
        assert self.volumes() == before
        self.store.away = False
        volume_id = self.ec2.create_volume(**expected)["VolumeId"]
        assert until(lambda: self.state(volume_id), lambda state: state != "creating") == "available"
        self.ec2.delete_volume(VolumeId=volume_id)
        self.ec2.delete_snapshot(SnapshotId=good)


def test_an_object_store_that_fails_while_everything_is_killed(labs, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-looked-at")
    seed = int(os.environ.get("SEED", "1"))
    store = FailingS3(seed)
    try:
        load = FailingLoad(AwsLab(labs, store=store.url), store, seed)
        for crash in range(CRASHES):
            victim = ("daemon", "api", "daemon")[crash] if crash < 3 else load.chance.choice(("daemon", "api"))
            print(f"crash {crash}: seed {seed}, {victim}")
            store.failing = True
            load.recover(victim, load.run_until_killed(victim))
            if crash % 3 == 2 or crash == CRASHES - 1:
                load.check_snapshots()
        load.check_lying()
        load.check_away()
        # A snapshot that was deleted, failed or was killed leaves nothing in the store.
        until(lambda: sorted(store.objects), lambda names: not names, "objects")
        print(f"{load.completed} completed, {load.failed} failed, {load.unread} could not be read; faults {store.seen}")
        assert load.completed > 0
        assert sum(store.seen.values()) > 0
    finally:
        store.close()
