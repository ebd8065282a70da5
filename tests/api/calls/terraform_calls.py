"""Calls of Terraform's AWS provider for volumes, attachments and snapshots, in the provider's
order, with its retries and its reading of error texts: a replay of aws_ebs_volume,
aws_volume_attachment and aws_ebs_snapshot. If the provider gives up, this raises AssertionError or
the client's error.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from waiting import wait_until

# The provider asks every 10 to 30 s; a lab takes fractions of a second.
POLL_S = 0.1
# The provider's limits are 5 to 10 minutes. A guess for a lab on a busy machine.
PATIENCE_S = 60.0
RATE = "The maximum per volume CreateSnapshot request rate has been exceeded"


def code_of(error: ClientError) -> str:
    return error.response["Error"]["Code"]


def wait_for(look: Callable[[], str | None], pending: set[str], target: set[str | None]) -> None:
    """Any state that is neither pending nor the target fails, as in the provider."""

    def reached() -> bool:
        state = look()
        assert state in target or state in pending, f"unexpected state {state!r}, wanted {target}"
        return state in target

    wait_until(reached, f"a state of {target}", PATIENCE_S, pause_s=POLL_S)


def retry(call: Callable[[], Any], again: Callable[[ClientError], bool]) -> Any:
    def answer() -> tuple[Any] | None:
        try:
            return (call(),)
        except ClientError as error:
            if not again(error):
                raise
            return None

    return wait_until(answer, "a call that is not refused", PATIENCE_S, pause_s=POLL_S)[0]


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def specification(kind: str, tags: dict[str, str]) -> list[dict]:
    return [{"ResourceType": kind, "Tags": tag_list(tags)}] if tags else []


def token() -> str:
    return f"terraform-{time.time_ns():020d}{uuid.uuid4().hex[:8]}"


class Volume:
    """aws_ebs_volume."""

    # Arguments of the resource and the members that are read back for them.
    MEMBERS = {
        "availability_zone": "AvailabilityZone",
        "size": "Size",
        "type": "VolumeType",
        "iops": "Iops",
        "throughput": "Throughput",
        "encrypted": "Encrypted",
        "kms_key_id": "KmsKeyId",
        "snapshot_id": "SnapshotId",
        "multi_attach_enabled": "MultiAttachEnabled",
        "volume_initialization_rate": "VolumeInitializationRate",
    }

    def __init__(self, ec2) -> None:
        self.ec2 = ec2
        self.id = ""

    def _found(self) -> dict | None:
        try:
            pages = self.ec2.get_paginator("describe_volumes").paginate(VolumeIds=[self.id])
            volumes = [volume for page in pages for volume in page["Volumes"]]
        except ClientError as error:
            if code_of(error) == "InvalidVolume.NotFound":
                return None
            raise
        assert len(volumes) <= 1, "too many results"
        return volumes[0] if volumes and volumes[0]["State"] != "deleted" else None

    def _state(self) -> str | None:
        result = self._found()
        return None if result is None else result["State"]

    def create(self, tags: dict[str, str], **arguments) -> dict | None:
        given = {self.MEMBERS[name]: value for name, value in arguments.items()}
        given |= {"ClientToken": token(), "TagSpecifications": specification("volume", tags)}
        self.id = self.ec2.create_volume(**given)["VolumeId"]
        wait_for(self._state, {"creating"}, {"available"})
        return self.read()

    def read(self) -> dict | None:
        """The attributes of the state file; None: gone, it would be made again."""
        result = self._found()
        if result is None:
            return None
        attributes = {name: result.get(member) for name, member in self.MEMBERS.items()}
        tags = {tag["Key"]: tag["Value"] for tag in result.get("Tags", ())}
        return attributes | {"tags": tags, "create_time": result["CreateTime"]}

    def plan(self, **arguments) -> dict:
        """Returns the arguments that differ from the configuration: none may differ after an
        apply."""
        now = self.read()
        assert now is not None, "the volume is gone"
        return {name: (now[name], value) for name, value in arguments.items() if now[name] != value}

    def update(self, **changes) -> dict | None:
        self.ec2.modify_volume(VolumeId=self.id, **{self.MEMBERS[name]: value for name, value in changes.items()})
        wait_for(self._modification, {"modifying"}, {"optimizing", "completed"})
        wait_for(self._state, {"creating", "modifying"}, {"available", "in-use"})
        # The new size must be seen as soon as the modification is no longer `modifying`.
        assert not (rest := self.plan(**changes)), rest
        return self.read()

    def _modification(self) -> str | None:
        answer = self.ec2.describe_volumes_modifications(VolumeIds=[self.id])["VolumesModifications"]
        assert len(answer) == 1
        return answer[0]["ModificationState"]

    def tag(self, new: dict[str, str], gone: list[str]) -> None:
        if gone:
            self.ec2.delete_tags(Resources=[self.id], Tags=[{"Key": key} for key in gone])
        if new:
            self.ec2.create_tags(Resources=[self.id], Tags=tag_list(new))

    def delete(self, final_snapshot: bool = False) -> str | None:
        """Gives the id of the final snapshot, if one was wanted."""
        last = None
        if final_snapshot:
            last = Snapshot(self.ec2)
            last.create(self.id, {})
        try:
            retry(lambda: self.ec2.delete_volume(VolumeId=self.id), lambda error: code_of(error) == "VolumeInUse")
        except ClientError as error:
            if code_of(error) != "InvalidVolume.NotFound":
                raise
        wait_for(self._state, {"available", "deleting"}, {None})
        return last and last.id


class Attachment:
    """aws_volume_attachment."""

    def __init__(self, ec2, volume: str, instance: str, device: str) -> None:
        self.ec2, self.volume, self.instance, self.device = ec2, volume, instance, device

    def _state(self) -> str | None:
        """Filters and an id together; an empty list is "not attached"."""
        filters = [
            {"Name": "attachment.device", "Values": [self.device]},
            {"Name": "attachment.instance-id", "Values": [self.instance]},
        ]
        try:
            volumes = self.ec2.describe_volumes(VolumeIds=[self.volume], Filters=filters)["Volumes"]
        except ClientError as error:
            if code_of(error) == "InvalidVolume.NotFound":
                return None
            raise
        for volume in volumes:
            for attachment in volume["Attachments"]:
                if attachment["Device"] == self.device and attachment["InstanceId"] == self.instance:
                    return attachment["State"]
        return None

    def create(self) -> None:
        if self._state() is None:
            reservations = self.ec2.describe_instances(InstanceIds=[self.instance])["Reservations"]
            states = [
                instance["State"]["Name"] for reservation in reservations for instance in reservation["Instances"]
            ]
            assert states in (["running"], ["stopped"]), states
            self.ec2.attach_volume(Device=self.device, InstanceId=self.instance, VolumeId=self.volume)
        wait_for(self._state, {"attaching", None}, {"attached"})

    def read(self) -> str | None:
        return self._state()

    def delete(self, force: bool = False) -> None:
        try:
            self.ec2.detach_volume(Device=self.device, Force=force, InstanceId=self.instance, VolumeId=self.volume)
        except ClientError as error:
            if code_of(error) == "IncorrectState" and "available" in error.response["Error"]["Message"]:
                return
            raise
        wait_for(self._state, {"busy", "detaching", "attached"}, {None, "detached"})


class Snapshot:
    """aws_ebs_snapshot."""

    def __init__(self, ec2) -> None:
        self.ec2 = ec2
        self.id = ""
        self.retried = 0

    def _found(self) -> dict | None:
        try:
            snapshots = self.ec2.describe_snapshots(SnapshotIds=[self.id])["Snapshots"]
        except ClientError as error:
            if code_of(error) == "InvalidSnapshot.NotFound":
                return None
            raise
        return snapshots[0] if snapshots else None

    def create(self, volume: str, tags: dict[str, str], description: str | None = None) -> dict | None:
        given: dict[str, Any] = {"VolumeId": volume, "TagSpecifications": specification("snapshot", tags)}
        if description is not None:
            given["Description"] = description
        self.id = retry(lambda: self.ec2.create_snapshot(**given), self._too_often)["SnapshotId"]
        wait_for(lambda: (self._found() or {}).get("State"), {"pending"}, {"completed"})
        return self._found()

    def _too_often(self, error: ClientError) -> bool:
        message = error.response["Error"]["Message"]
        limited = code_of(error) == "SnapshotCreationPerVolumeRateExceeded" and RATE in message
        self.retried += limited
        return limited

    def read(self) -> dict | None:
        return self._found()

    def delete(self) -> None:
        retry(
            lambda: self.ec2.delete_snapshot(SnapshotId=self.id),
            lambda error: code_of(error) == "InvalidSnapshot.InUse",
        )
        wait_for(lambda: (self._found() or {}).get("State"), {"completed", "pending"}, {None})
