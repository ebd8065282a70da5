"""A load of calls and I/O that keeps account of what was acknowledged, so that it can be held against
what is there after a crash.

`Stream`: numbered blocks written to a device, a group at a time, each group flushed. The content of
a device or of a restored snapshot must be the state at one instant: every group before it whole,
nothing of the groups after it. `Caller`: a client of the AWS endpoint with volumes of its own, of
which it knows what each must look like; a call that got no answer may have been done or not, and is
asked about afterwards.
"""

from __future__ import annotations

import bisect
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnection
from flushing_writer import BLOCK, GROUP, number_of
from terraform_calls import code_of

BLOCKS = 1_500  # 6 MB, twelve blocks of a snapshot; a guess, what can be checked often
WRITER = Path(__file__).parents[2] / "lab/flushing_writer.py"
# Errors of a client when the endpoint, or the daemon behind it, is not there.
GONE = (NoConnection, HTTPClientError)


def read_numbers(device: str | Path) -> list[int | None]:
    """Numbers of the blocks of a device itself."""
    descriptor = os.open(device, os.O_RDONLY)
    try:
        # Blocks that a writer left in the cache of the kernel when it was killed go to the device
        # first.
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, BLOCKS * BLOCK, os.POSIX_FADV_DONTNEED)
        data = b""
        while len(data) < BLOCKS * BLOCK:
            part = os.pread(descriptor, BLOCKS * BLOCK - len(data), len(data))
            assert part, "the device is too small"
            data += part
    finally:
        os.close(descriptor)
    return [number_of(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]


class Stream:
    """Writes to a device until that fails. `base`: what it held before; `start`: the last number."""

    def __init__(self, device: str, base: list[int], start: int, seed: int) -> None:
        self.base, self.start = base, start
        self.ends: list[int] = []
        self.moments: list[int] = []
        words = [sys.executable, str(WRITER), device, str(BLOCKS), str(seed), str(start)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                # The writer was killed in the middle of it.
                break
            number, moment = line.split()
            self.ends.append(int(number))
            self.moments.append(int(moment))

    def stop(self) -> None:
        """Ends the writer, and waits for its notes."""
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def last(self) -> int:
        """The highest number that may have been written."""
        return (self.ends[-1] if self.ends else self.start) + GROUP

    def check(self, result: list[int | None], asked_ns: int, answered_ns: int) -> int:
        """Checks the content of a snapshot that was asked for and answered at two moments (ns), and
        returns its highest number. `answered_ns` of the writer's end stands for a device after a
        crash.
        """
        assert None not in result, f"blocks {[at for at, entry in enumerate(result) if entry is None]} are damaged"
        numbers = [number for number in result if number is not None]
        highest = max([self.start, *numbers])
        flushed = bisect.bisect_right(self.moments, asked_ns)
        safe = self.ends[flushed - 1] if flushed else self.start
        assert highest >= safe, f"the highest number is {highest}, {safe} was flushed before"
        # The group that was being written when the answer came may be there, those after it not.
        under_way = bisect.bisect_right(self.moments, answered_ns)
        limit = self.ends[under_way] if under_way < len(self.ends) else self.last()
        assert highest <= limit, f"the highest number is {highest}, at the answer it was {limit}"
        group = bisect.bisect_left(self.ends, highest)
        before = self.ends[group - 1] if group else self.start
        after = self.ends[group] if group < len(self.ends) else self.last()
        for slot, number in enumerate(numbers):
            whole = before - (before - slot) % BLOCKS
            expected = whole if whole > self.start else self.base[slot]
            in_group = before < number <= after and number % BLOCKS == slot
            assert number == expected or in_group, (
                f"block {slot} has {number}, not {expected} nor one of {before}..{after}"
            )
        return highest


class Caller:
    """A client in a thread of its own. `volumes`: id -> tags, `attached`: id -> device name, all of
    which were acknowledged. `letter`: of its device names, which no other client has.
    """

    def __init__(self, make_client: Callable, instance: str, zone: str, letter: str, seed: int) -> None:
        self.make_client, self.instance, self.zone, self.letter = make_client, instance, zone, letter
        self.name = f"caller-{letter}"
        self.chance = random.Random(seed)
        self.volumes: dict[str, dict[str, str]] = {}
        self.attached: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.acknowledged = 0
        self.unanswered = 0
        self.faults: list[str] = []
        self._number = 0
        self._open: dict | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        ec2 = self.make_client()
        while not self._stop.is_set():
            if self._open is None:
                self._open = self._draw()
            try:
                self._do(ec2, self._open)
            except GONE:
                self.unanswered += 1
                time.sleep(0.05)
                continue
            except ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                # A daemon that is not there: not done, or done and not answered.
                if status >= 500:
                    self.unanswered += 1
                    time.sleep(0.05)
                    continue
                self.faults.append(f"{self._open}: {error}")
                return
            self._note(self._open)
            self._open = None

    def _draw(self) -> dict:
        """The next call. A volume that is attached is detached before it is deleted."""
        self._number += 1
        kinds = ["create", "tag", "tag", "untag", "delete", "attach", "detach"]
        kind = self.chance.choice(kinds) if len(self.volumes) >= 3 else "create"
        if kind == "create":
            return {"kind": kind, "token": f"{self.name}-{self._number}"}
        free = sorted(set(self.volumes) - set(self.attached))
        if (kind in ("delete", "attach") and not free) or (kind == "attach" and len(self.attached) > 2):
            kind = "detach"
        if kind == "detach" and not self.attached:
            kind = "tag"
        among = {"detach": sorted(self.attached), "delete": free, "attach": free}.get(kind, sorted(self.volumes))
        call = {"kind": kind, "volume": self.chance.choice(among), "key": f"k{self.chance.randrange(4)}"}
        if kind == "attach":
            names = [f"/dev/xvd{self.letter}{letter}" for letter in "abcdefgh"]
            call["device"] = next(name for name in names if name not in self.attached.values())
        return call | {"value": str(self._number)}

    def _do(self, ec2, call: dict) -> None:
        """Makes a call and waits until its volume has settled. After an attempt without an answer, it
        looks first: only a creation has a token by which it may be repeated.
        """
        kind, volume = call["kind"], call.get("volume", "")
        if call.get("lost") and kind in self.AFTER and self._settled(ec2, volume) in self.AFTER[kind]:
            return
        # Set before and cleared after: whatever ends the attempt in between leaves it in doubt.
        call["lost"] = True
        if kind == "create":
            marked = [{"ResourceType": "volume", "Tags": [{"Key": "caller", "Value": self.name}]}]
            answer = ec2.create_volume(
                AvailabilityZone=self.zone, Size=1, ClientToken=call["token"], TagSpecifications=marked
            )
            call["volume"] = volume = answer["VolumeId"]
        elif kind == "tag":
            ec2.create_tags(Resources=[volume], Tags=[{"Key": call["key"], "Value": call["value"]}])
        elif kind == "untag":
            ec2.delete_tags(Resources=[volume], Tags=[{"Key": call["key"]}])
        elif kind == "attach":
            ec2.attach_volume(VolumeId=volume, InstanceId=self.instance, Device=call["device"])
        elif kind == "detach":
            ec2.detach_volume(VolumeId=volume)
        else:
            ec2.delete_volume(VolumeId=volume)
        if kind in ("create", "attach", "detach"):
            self._settled(ec2, volume)

    # States in which a call was done.
    AFTER = {"attach": ("in-use",), "detach": ("available",), "delete": (None, "deleting", "deleted")}

    def _settled(self, ec2, volume: str) -> str | None:
        """The state of a volume once it stays; None: it is gone."""
        while True:
            try:
                [details] = ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
            except ClientError as error:
                if code_of(error) == "InvalidVolume.NotFound":
                    return None
                raise
            attachments = [attachment["State"] for attachment in details["Attachments"]]
            if details["State"] != "creating" and attachments in ([], ["attached"]):
                return details["State"]
            time.sleep(0.02)

    def _note(self, call: dict) -> None:
        self.acknowledged += 1
        kind, volume = call["kind"], call["volume"]
        if kind == "create":
            assert volume not in self.volumes
            self.volumes[volume] = {"caller": self.name}
        elif kind == "tag":
            self.volumes[volume][call["key"]] = call["value"]
        elif kind == "untag":
            self.volumes[volume].pop(call["key"], None)
        elif kind == "attach":
            self.attached[volume] = call["device"]
        elif kind == "detach":
            del self.attached[volume]
        else:
            del self.volumes[volume]
            self.deleted.add(volume)

    def check(self, ec2) -> list[str]:
        """Holds what was acknowledged against the lab; the volumes that are attached. The caller must
        be stopped.
        """
        assert not self.faults, self.faults
        pages = ec2.get_paginator("describe_volumes").paginate(Filters=[{"Name": "tag:caller", "Values": [self.name]}])
        listed = {
            volume["VolumeId"]: volume for page in pages for volume in page["Volumes"] if volume["State"] != "deleting"
        }
        doubtful = (self._open or {}).get("volume")
        for volume, tags in self.volumes.items():
            if volume == doubtful:
                continue
            result = listed.get(volume)
            assert result, f"{volume} was acknowledged and is gone"
            assert {tag["Key"]: tag["Value"] for tag in result["Tags"]} == tags, (volume, tags, result["Tags"])
            devices = [attachment["Device"] for attachment in result["Attachments"]]
            assert devices == ([self.attached[volume]] if volume in self.attached else []), (volume, devices)
        extra = set(listed) - set(self.volumes)
        # A creation that was not answered yet may be there, once; it is asked for again with its token.
        allowed = 1 if self._open is not None and self._open["kind"] == "create" else 0
        assert len(extra) <= allowed, f"{extra} were never acknowledged"
        assert not extra & self.deleted, f"{extra & self.deleted} were deleted"
        return [volume for volume, facts in listed.items() if facts["Attachments"]]
