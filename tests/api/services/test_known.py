"""The endpoint's memory of volumes and snapshots never shows: its answers are those of an endpoint
that was just started, at any moment, and what was acknowledged before a request is in its answer.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from typing import Any
from urllib.parse import urlencode

import pytest
from aws_labs import AwsLab, until
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from headrace.api.access.keys import KeyPair
from headrace.api.server.labs import LabPool
from headrace.api.server.worker import Endpoint
from headrace.lab import Lab
from headrace.lab.http_server import Incoming

KEY = Credentials("LABKAAAABBBBCCCCDDDD", "secret")
# The seed of the random operations; printed by pytest where one fails.
SEED = int(os.environ.get("KNOWN_SEED", "4"))
STEPS = int(os.environ.get("KNOWN_STEPS", "60"))
HOST = "127.0.0.1:9465"


class Asked:
    """An endpoint in this process, on a real lab."""

    def __init__(self, aws: AwsLab, make: Any = Lab) -> None:
        self.region = aws.region
        pair = KeyPair(KEY.access_key, KEY.secret_key)
        self.endpoint = Endpoint(LabPool(lambda: make(aws.folder)), {KEY.access_key: pair}, self.region)

    def ask(self, action: str, **params: object) -> str:
        """An answer without the id of its request."""
        body = urlencode({"Action": action, "Version": "2016-11-15"} | params).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        request = AWSRequest("POST", f"http://{HOST}/", data=body, headers=headers)
        SigV4Auth(KEY, "ec2", self.region).add_auth(request)
        given = {name.lower(): value for name, value in request.headers.items()} | {"host": HOST}
        answer = self.endpoint(Incoming("POST", "/", "", given, body))
        return re.sub(r"<request(Id|ID)>[^<]*</request\1>", "", answer.body.decode(), flags=re.IGNORECASE)

    def pages(self, action: str, tag: str, **params: object) -> list[str]:
        """The ids of all pages, and every page's answer after them."""
        result, token, answers = [], "", []
        while True:
            answer = self.ask(action, MaxResults=5, **params, **({"NextToken": token} if token else {}))
            answers.append(answer)
            result += ids(answer, tag)
            token = (re.findall(r"<nextToken>([^<]+)</nextToken>", answer) or [""])[0]
            if not token:
                return result + answers


def ids(answer: str, tag: str = "volumeId") -> list[str]:
    """Returns the ids of the items themselves: an attachment names its volume, too."""
    return re.findall(rf"<item><{tag}>([^<]+)</{tag}>", re.sub(r"<attachmentSet>.*?</attachmentSet>", "", answer))


@pytest.fixture
def slow_lab(labs) -> AwsLab:
    """Lab time runs as the wall's: nothing changes between two answers by itself."""
    return AwsLab(labs, time_scale=1)


class Changes:
    """Random changes of a lab."""

    def __init__(self, aws: AwsLab, chance: random.Random) -> None:
        self.aws, self.chance = aws, chance
        self.volumes: list[str] = []
        self.snapshots: list[str] = []
        self.attached: set[str] = set()

    @property
    def lab(self) -> Lab:
        return self.aws.lab

    def step(self) -> str:
        kinds = [self.create] * 4 + [self.delete, self.tag, self.tag, self.modify, self.snapshot, self.forget]
        kinds += [self.tag_snapshot, self.attach, self.restart]
        kind = self.chance.choice(kinds)
        kind()
        return kind.__name__

    def create(self) -> None:
        size, kind = self.chance.randrange(1, 9), self.chance.choice(["gp2", "gp3"])
        tags = {"n": str(self.chance.randrange(3))} if self.chance.random() < 0.5 else None
        self.volumes.append(self.lab.create(volume_type=kind, size_gib=size, tags=tags)["id"])

    def delete(self) -> None:
        free = [volume for volume in self.volumes if volume not in self.attached]
        if free:
            gone = self.chance.choice(free)
            self.volumes.remove(gone)
            self.lab.delete(gone)

    def tag(self) -> None:
        if self.volumes:
            candidate = self.chance.choice(self.volumes)
            self.lab.tag(candidate, set={"n": str(self.chance.randrange(3)), "<&>": "\u00e9"}, remove=["m"])

    def modify(self) -> None:
        if self.volumes:
            candidate = self.chance.choice(self.volumes)
            if self.lab.describe(candidate)["modification"] is None:
                self.lab.modify(candidate, size_gib=self.lab.describe(candidate)["size_gib"] + 1)

    def is_modifying(self, volume: str) -> bool:
        modification = self.lab.describe(volume)["modification"]
        return modification is not None and modification["state"] == "modifying"

    def read_modification_states(self) -> dict[str, str]:
        return {modification["id"]: modification["state"] for modification in self.lab.modifications()}

    def attach(self) -> None:
        # EC2 attaches no volume that is `modifying`.
        free = [volume for volume in self.volumes if volume not in self.attached and not self.is_modifying(volume)]
        if free and len(self.attached) < 2:
            candidate = self.chance.choice(free)
            self.lab.attach(candidate, probe=False)
            self.attached.add(candidate)
        elif self.attached:
            self.lab.detach(self.attached.pop())

    def snapshot(self) -> None:
        if self.volumes:
            snapshot_id = self.lab.create_snapshot(self.chance.choice(self.volumes))["id"]
            until(lambda: self.lab.describe_snapshot(snapshot_id)["state"], lambda state: state == "completed")
            self.snapshots.append(snapshot_id)

    def tag_snapshot(self) -> None:
        if self.snapshots:
            self.lab.tag_resources([self.chance.choice(self.snapshots)], set={"n": str(self.chance.randrange(3))})

    def forget(self) -> None:
        if self.snapshots:
            self.lab.delete_snapshot(self.snapshots.pop(self.chance.randrange(len(self.snapshots))))

    def restart(self) -> None:
        """A daemon that was started again knows no version of before."""
        if self.chance.random() < 0.3:
            self.aws.down()
            self.aws.up()


def everything(request: Asked, changes: Changes, chance: random.Random) -> dict[str, object]:
    """Answers of many kinds. `chance` is the same for both endpoints."""
    some = chance.sample(changes.volumes, min(3, len(changes.volumes)))
    taken = chance.sample(changes.snapshots, min(2, len(changes.snapshots)))
    tagged = {"Filter.1.Name": "tag:n", "Filter.1.Value.1": "1"}
    return {
        "all": request.ask("DescribeVolumes"),
        "named": request.ask("DescribeVolumes", **{f"VolumeId.{at}": entry for at, entry in enumerate(some, 1)}),
        "tagged": request.ask("DescribeVolumes", **tagged),
        "large": request.ask("DescribeVolumes", **{"Filter.1.Name": "size", "Filter.1.Value.1": "8"}),
        "pages": request.pages("DescribeVolumes", "volumeId"),
        "tagged pages": request.pages("DescribeVolumes", "volumeId", **tagged),
        "gone": request.ask("DescribeVolumes", **{"VolumeId.1": "vol-0123456789abcdef0"}),
        "snapshots": request.ask("DescribeSnapshots"),
        "taken": request.ask("DescribeSnapshots", **{f"SnapshotId.{at}": entry for at, entry in enumerate(taken, 1)}),
        "tagged snapshots": request.ask("DescribeSnapshots", **tagged),
        "of a volume": request.ask(
            "DescribeSnapshots", **{"Filter.1.Name": "volume-id", "Filter.1.Value.1": (some or ["vol-x"])[0]}
        ),
        "snapshot pages": request.pages("DescribeSnapshots", "snapshotId"),
        "no snapshot": request.ask("DescribeSnapshots", **{"SnapshotId.1": "snap-0123456789abcdef0"}),
        "tags": request.ask("DescribeTags"),
        "volume status": [sorted(ids(request.ask("DescribeVolumeStatus"))), ids(request.ask("DescribeVolumeStatus"))],
        "status pages": request.pages("DescribeVolumeStatus", "volumeId"),
        "status": request.ask("DescribeInstanceStatus"),
    }


def read_both(retained: Asked, new: Asked, changes: Changes, seed: int) -> tuple[dict, dict]:
    """Returns the answers of two endpoints, between which no modification went on by itself."""
    while True:
        states = changes.read_modification_states()
        answers = [everything(endpoint, changes, random.Random(seed)) for endpoint in (retained, new)]
        if changes.read_modification_states() == states:
            return answers[0], answers[1]


def test_answers_are_those_of_an_endpoint_that_knows_nothing(slow_lab):
    chance = random.Random(SEED)
    changes, retained = Changes(slow_lab, chance), Asked(slow_lab)
    done: list[str] = []
    for number in range(STEPS):
        for _ in range(chance.randrange(1, 4)):
            done.append(changes.step())
        result, fresh = read_both(retained, Asked(slow_lab), changes, number)
        for question in fresh:
            assert result[question] == fresh[question], (question, SEED, done)
        assert ids(str(fresh["all"])) == sorted(changes.volumes), (SEED, done)
        listed, status = fresh["volume status"], fresh["status pages"]
        assert listed == [sorted(changes.volumes)] * 2 and status[: len(changes.volumes)] == listed[0], (SEED, done)
        assert ids(str(fresh["snapshots"]), "snapshotId") == sorted(changes.snapshots), (SEED, done)
    assert retained.endpoint._cache.volumes.is_filled and retained.endpoint._cache.snapshots.is_filled
    assert {"create", "delete", "modify", "attach", "snapshot", "forget", "restart"} <= set(done)


def test_a_list_of_several_pages_is_of_one_moment(slow_lab):
    """While the pages of a list are read, volumes of pages that were read come, go and change."""
    lab = slow_lab.lab
    volumes = {lab.create(volume_type="gp3", size_gib=1)["id"] for _ in range(510)}
    meddled: list[str] = []

    class Meddling(Lab):
        def call(self, name: str, timeout_s: float | None = None, /, **args: Any) -> Any:
            answer = super().call(name, timeout_s, **args)
            if name == "volume.changes" and answer["next"] is not None and len(meddled) < 3:
                first = min(volumes)
                lab.delete(first)
                volumes.remove(first)
                volumes.add(lab.create(volume_type="gp3", size_gib=1)["id"])
                lab.tag(min(volumes), set={"meddled": "yes"})
                meddled.append(first)
            return answer

    request = Asked(slow_lab, Meddling)
    answer = request.ask("DescribeVolumes")
    assert meddled and ids(answer) == sorted(volumes)
    assert answer == Asked(slow_lab).ask("DescribeVolumes")
    # More changes than are told at once: all anew.
    for volume in sorted(volumes):
        lab.tag(volume, set={"again": "yes"})
    assert request.ask("DescribeVolumes") == Asked(slow_lab).ask("DescribeVolumes")


def test_what_was_acknowledged_before_a_request_is_in_its_answer(slow_lab):
    """Four readers share an endpoint while volumes come and go."""
    request, lab = Asked(slow_lab), slow_lab.lab
    there: set[str] = set()
    going: set[str] = set()
    gone: set[str] = set()
    wrong: list[tuple] = []
    until_s = time.monotonic() + 4.0

    def read() -> None:
        while time.monotonic() < until_s:
            must, must_not = set(there), set(gone)
            result = set(ids(request.ask("DescribeVolumes")))
            # A volume that was deleted during the request may be in the answer or not.
            missing, stale = must - result - going, must_not & result
            if missing or stale:
                wrong.append((missing, stale))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    while time.monotonic() < until_s:
        sample = lab.create(volume_type="gp3", size_gib=1)["id"]
        there.add(sample)
        if len(there) > 20:
            old = random.choice(sorted(there))
            going.add(old)
            there.discard(old)
            lab.delete(old)
            gone.add(old)
    for reader in readers:
        reader.join()
    assert not wrong and gone
