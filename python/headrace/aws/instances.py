"""Instances of EC2: which one this is, and one that is cut off from its volumes."""

from __future__ import annotations

import contextlib
import os
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from headrace.aws.client import AwsClient, call
from headrace.base.waiting import wait_until
from headrace.errors import HeadraceError, Refusals

refuse = Refusals("docs/guide/failover.md")
# Pace of a waiter: s between two tries, and the most tries. AWS detaches a volume by force within a
# minute or two.
EC2_PACE = {"Delay": 1, "MaxAttempts": 120}
LOOK_S = 0.5  # between two questions whether EC2 has done what a call began, a guess
DEVICE_S = 30.0  # until the kernel shows an attached volume, a guess: it takes a second or two
# AWS, "Device names for volumes": /dev/sd[f-p] are recommended for EBS volumes.
DEVICE_NAMES = tuple(f"/dev/sd{letter}" for letter in "fghijklmnop")
DOWN = ("stopped", "terminated")  # states of an instance without a running machine
BY_ID = Path("/dev/disk/by-id")
# AWS, "Identify EC2 instances": the firmware of Nitro instances has the instance's id there.
ASSET_TAG = Path("/sys/devices/virtual/dmi/id/board_asset_tag")
# EC2 User Guide, "Use the Instance Metadata Service": an instance asks here about itself, and with
# a token since IMDSv2.
METADATA = "http://169.254.169.254"
METADATA_S = 1.0  # longest wait for each of its answers: as the AWS SDKs wait
TOKEN_TTL_S, MAX_METADATA_BYTES = "60", 1024  # guesses: one question follows the token at once, ids are short


@dataclass(frozen=True)
class AwsInstance:
    """An EC2 instance of a database server. `client`: of EC2's API; `name`: the server's, in
    errors; `volumes`: ids of the volumes that hold the server's files."""

    client: AwsClient
    name: str
    id: str
    volumes: tuple[str, ...]

    def fence(self) -> str:
        """Stops the instance and detaches its volumes, both by force, waits until one of them is
        complete (a database without its volumes commits nothing), and returns in words which calls
        succeeded. Raises CouldNotRun if both fail, or neither is complete in time."""
        done, failed = [], []
        for volume in self.volumes:
            try:
                self.client.detach_volume(VolumeId=volume, InstanceId=self.id, Force=True)
                done.append(f"detached {volume}")
            except Exception as error:
                failed.append(f"detach-volume {volume}: {describe_error(error)}")
        try:
            self.client.stop_instances(InstanceIds=[self.id], Force=True)
            done.append(f"stopped {self.id}")
        except Exception as error:
            failed.append(f"stop-instances {self.id}: {describe_error(error)}")
        detached = sum(action.startswith("detached") for action in done) == len(self.volumes) > 0
        if not detached and not any(action.startswith("stopped") for action in done):
            raise refuse.run(self.name, f"could not be fenced: {'; '.join(failed)}", "See to it by hand.")
        self._wait_cut_off(detached)
        return ", ".join(done)

    def _wait_cut_off(self, detached: bool) -> None:
        """Waits until the instance is down or has none of the volumes: the calls of a fence only
        begin, and meanwhile the server may answer its clients. `detached`: as of `_is_cut_off`.
        Raises CouldNotRun after the longest wait of EC2_PACE."""
        longest_s, last_error = EC2_PACE["Delay"] * EC2_PACE["MaxAttempts"], ""

        def is_cut_off() -> bool:
            nonlocal last_error
            try:
                return self._is_cut_off(detached)
            except Exception as error:
                last_error = f" ({describe_error(error)})"
                return False

        if not wait_until(is_cut_off, longest_s, LOOK_S):
            rule = f"its instance is not stopped and its volumes are not detached after {longest_s:g} s{last_error}"
            raise refuse.run(self.name, rule, "Look at it in EC2; when it is down, begin again.")

    def _is_cut_off(self, detached: bool) -> bool:
        """Returns whether the instance is down, or has none of the volumes any more. The latter
        counts only if this fence has `detached` all of them, so that the instance had them."""
        reservations = self.client.describe_instances(InstanceIds=[self.id])["Reservations"]
        instances = [instance for each in reservations for instance in each["Instances"]]
        if any(instance.get("State", {}).get("Name") in DOWN for instance in instances):
            return True
        attachments = [
            attachment
            for volume in self.volumes
            for attachment in self.client.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Attachments"]
            if attachment["InstanceId"] == self.id and attachment["State"] != "detached"
        ]
        return detached and not attachments

    def move_volume(self, volume: str, here: str) -> None:
        """Detaches a volume by force, attaches it to the instance `here` under a free device name,
        and waits until both are complete. Raises CouldNotRun."""
        try:
            for attachment in self.client.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Attachments"]:
                if attachment["State"] != "detaching":
                    self.client.detach_volume(VolumeId=volume, InstanceId=attachment["InstanceId"], Force=True)
            self.client.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig=EC2_PACE)
            target = self.client.describe_instances(InstanceIds=[here])["Reservations"][0]["Instances"][0]
            used = {mapping["DeviceName"] for mapping in target["BlockDeviceMappings"]}
            free = next(name for name in DEVICE_NAMES if name not in used)
            self.client.attach_volume(VolumeId=volume, InstanceId=here, Device=free)
            self.client.get_waiter("volume_in_use").wait(VolumeIds=[volume], WaiterConfig=EC2_PACE)
        except Exception as error:
            rule = f"{volume} cannot be attached to {here}: {describe_error(error)}"
            hint = f"Attach it there by hand, mount it, and give its binary log to {self.name}'s successor."
            raise refuse.run(self.name, rule, hint) from None

    def find_device(self, volume: str, links: tuple[Path, ...] = (BY_ID,)) -> str:
        """Waits up to DEVICE_S seconds for a volume's block device, and returns its path. On Nitro
        instances one of the folders `links` has udev's link with the volume's id. Raises
        CouldNotRun."""
        name = f"nvme-Amazon_Elastic_Block_Store_{volume.replace('-', '')}"
        places = [folder / name for folder in links]
        if device := wait_until(lambda: next(filter(Path.exists, places), None), DEVICE_S, DEVICE_S / 100):
            return str(device.resolve())
        rule = f"{volume} is attached, and {name} appears in none of {', '.join(map(str, links))}"
        raise refuse.run(self.name, rule, "Is this program running on the instance of --rescue-on?")

    def detach(self, volume: str, here: str) -> None:
        """Begins to detach a volume from the instance `here`; a failure is ignored."""
        with contextlib.suppress(Exception):
            self.client.detach_volume(VolumeId=volume, InstanceId=here)


def describe_error(error: Exception) -> str:
    """Returns an error as a line of at most 200 characters."""
    return " ".join(str(error).split())[:200]


def find_instance_types(ec2: AwsClient, ids: Sequence[str]) -> dict[str, str]:
    """Returns the types of instances by their ids; none of them where AWS refuses to say."""
    if not ids:
        return {}
    try:
        answer = call("instances", "ec2:DescribeInstances", ec2.describe_instances, InstanceIds=list(ids))
    except HeadraceError:
        return {}
    return {
        instance["InstanceId"]: instance["InstanceType"]
        for reservation in answer["Reservations"]
        for instance in reservation["Instances"]
    }


def read_own_instance() -> str:
    """Returns the id of the EC2 instance that this program runs on, from the firmware. Raises
    InputError about --rescue-on where the firmware has none."""
    tag = _read_asset_tag(Path("/"))
    if tag is None:
        rule = "is needed to read the dead source's volume: this machine does not say which instance it is"
        raise refuse.input("--rescue-on INSTANCE", rule, "Run this on an instance of the volume's zone, and name it.")
    return tag


def find_own_instance(root: Path = Path("/")) -> str | None:
    """Returns the id of the EC2 instance that this program runs on, from the firmware below `root`
    (/ but for tests) or else from the metadata service; None where neither names it."""
    return _read_asset_tag(root) or _fetch_own_instance()


def _read_asset_tag(root: Path) -> str | None:
    """Returns the id in the firmware of a Nitro instance; None on other machines."""
    try:
        tag = (root / ASSET_TAG.relative_to("/")).read_text().strip()
    except OSError:
        return None
    return tag if tag.startswith("i-") else None


def _fetch_own_instance() -> str | None:
    """Returns the instance's id from its metadata service, which Xen instances have too; None where
    it is switched off or does not answer. Both environment variables are those of the AWS SDKs."""
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or METADATA
    # A proxy would answer for the machine that it runs on itself.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def fetch(path: str, headers: Mapping[str, str], method: str = "GET") -> str:
        request = urllib.request.Request(f"{base.rstrip('/')}/latest/{path}", headers=dict(headers), method=method)
        with opener.open(request, timeout=METADATA_S) as answer:
            return answer.read(MAX_METADATA_BYTES).decode("ascii", "replace").strip()

    try:
        token = fetch("api/token", {"X-aws-ec2-metadata-token-ttl-seconds": TOKEN_TTL_S}, "PUT")
        name = fetch("meta-data/instance-id", {"X-aws-ec2-metadata-token": token})
    except (OSError, HTTPException, ValueError):  # ValueError: an endpoint that is not a URL
        return None
    return name if name.startswith("i-") else None
