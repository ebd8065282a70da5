"""A load of calls and I/O that keeps account of what was acknowledged, so that it can be held against
what is there after a crash.

`Stream`: numbered blocks written to a device, a group at a time, each group flushed. What a device
or a restored snapshot holds must be the state at one instant: every group before it whole, nothing
of the groups after it. `Caller`: a client of the AWS endpoint with volumes of its own, of which it
knows what each must look like; a call that got no answer may have been done or not, and is asked
about afterwards.
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

BLOCKS = 1_500  # 6 MB, twelve blocks of a snapshot; a guess, what can be checked often
WRITER = Path(__file__).parents[1] / "lab/flushing_writer.py"
# What a client meets when the endpoint, or the daemon behind it, is not there.
GONE = (NoConnection, HTTPClientError)


def read_numbers(device: str | Path) -> list[int | None]:
    """Numbers of the blocks of a device, past the cache of the kernel."""
    descriptor = os.open(device, os.O_RDONLY)
    try:
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

    def check(self, found: list[int | None], asked_ns: int, answered_ns: int) -> int:
        """What a snapshot that was asked for and answered at these moments holds; its highest
        number. `answered_ns` of the writer's end stands for a device after a crash.
        """
        assert None not in found, f"blocks {[at for at, one in enumerate(found) if one is None]} are damaged"
        numbers = [number for number in found if number is not None]
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
            wanted = whole if whole > self.start else self.base[slot]
            in_group = before < number <= after and number % BLOCKS == slot
            assert number == wanted or in_group, f"block {slot} has {number}, not {wanted} nor one of {before}..{after}"
        return highest


class Caller:
    """A client in a thread of its own. `volumes`: id -> tags, all of which were acknowledged."""

    def __init__(self, make_client: Callable, zone: str, name: str, seed: int) -> None:
        self.make_client, self.zone, self.name = make_client, zone, name
        self.chance = random.Random(seed)
        self.volumes: dict[str, dict[str, str]] = {}
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
                # A daemon that is not there is a 503: not done, or done and not answered.
                if status == 503:
                    self.unanswered += 1
                    time.sleep(0.05)
                    continue
                if not self._done_before(self._open, error):
                    self.faults.append(f"{self._open}: {error}")
                    self._open = None
                    return
            self._note(self._open)
            self._open = None

    def _draw(self) -> dict:
        """The next call: a new volume, tags, or a deletion."""
        self._number += 1
        kinds = ["create"] if len(self.volumes) < 3 else ["create", "tag", "tag", "untag", "delete"]
        kind = self.chance.choice(kinds)
        if kind == "create":
            return {"kind": kind, "token": f"{self.name}-{self._number}", "tags": {"caller": self.name}}
        volume = self.chance.choice(sorted(self.volumes))
        if kind == "tag":
            return {"kind": kind, "volume": volume, "key": f"k{self.chance.randrange(4)}", "value": str(self._number)}
        return {"kind": kind, "volume": volume, "key": f"k{self.chance.randrange(4)}"}

    def _do(self, ec2, call: dict) -> None:
        if call["kind"] == "create":
            marked = [{"ResourceType": "volume", "Tags": [{"Key": "caller", "Value": self.name}]}]
            answer = ec2.create_volume(
                AvailabilityZone=self.zone, Size=1, ClientToken=call["token"], TagSpecifications=marked
            )
            call["volume"] = answer["VolumeId"]
        elif call["kind"] == "tag":
            ec2.create_tags(Resources=[call["volume"]], Tags=[{"Key": call["key"], "Value": call["value"]}])
        elif call["kind"] == "untag":
            ec2.delete_tags(Resources=[call["volume"]], Tags=[{"Key": call["key"]}])
        else:
            call["tried"] = call.get("tried", 0) + 1
            ec2.delete_volume(VolumeId=call["volume"])

    @staticmethod
    def _done_before(call: dict, error: ClientError) -> bool:
        """A deletion whose answer was lost finds nothing the next time."""
        gone = error.response["Error"]["Code"] in ("InvalidVolume.NotFound", "IncorrectState")
        return call["kind"] == "delete" and call["tried"] > 1 and gone

    def _note(self, call: dict) -> None:
        self.acknowledged += 1
        volume = call["volume"]
        if call["kind"] == "create":
            assert volume not in self.volumes
            self.volumes[volume] = dict(call["tags"])
        elif call["kind"] == "tag":
            self.volumes[volume][call["key"]] = call["value"]
        elif call["kind"] == "untag":
            self.volumes[volume].pop(call["key"], None)
        else:
            del self.volumes[volume]
            self.deleted.add(volume)

    def check(self, ec2) -> None:
        """Holds what was acknowledged against the lab. The caller must be stopped."""
        assert not self.faults, self.faults
        pages = ec2.get_paginator("describe_volumes").paginate(Filters=[{"Name": "tag:caller", "Values": [self.name]}])
        listed = [volume for page in pages for volume in page["Volumes"] if volume["State"] != "deleting"]
        found = {one["VolumeId"]: {tag["Key"]: tag["Value"] for tag in one["Tags"]} for one in listed}
        for volume, tags in self.volumes.items():
            if self._doubtful(volume):
                continue
            assert found.get(volume) == tags, f"{volume}: acknowledged {tags}, found {found.get(volume)}"
        extra = set(found) - set(self.volumes)
        # A creation that was not answered yet may be there, once; it is asked for again with its token.
        allowed = 1 if self._open is not None and self._open["kind"] == "create" else 0
        assert len(extra) <= allowed, f"{extra} were never acknowledged"
        assert not extra & self.deleted, f"{extra & self.deleted} were deleted"

    def _doubtful(self, volume: str) -> bool:
        return self._open is not None and self._open.get("volume") == volume
