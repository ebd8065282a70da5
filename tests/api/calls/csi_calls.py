"""Calls of the EBS CSI driver for a volume of Kubernetes, in the driver's order, with its retries
and its reading of error texts, and the devices that its node part looks for on the machine. If the
driver fails, this raises AssertionError or the client's error.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError
from terraform_calls import code_of, specification
from waiting import wait_until

POLL_S = 0.1
# After 90 s in `attaching` the driver detaches again and fails.
ATTACHING_S = 90.0
# IOPS with which the driver probes for the limit: the largest int32.
PROBE_IOPS = 2_147_483_647
PROBE_GIB = 4
# Ids that one DescribeVolumes of the driver's batcher asks for.
BATCH = 500
MISSING_ID = re.compile(r"vol-[0-9a-f]+")
DEVICE_NAME = re.compile(r"^/dev/[A-Za-z0-9]+$")
CSI_TAG = "CSIVolumeName"
SNAPSHOT_TAG = "CSIVolumeSnapshotName"
# Letters the driver makes its device names of, after /dev/xvd.
NAMES = [f"/dev/xvd{first}{second}" for first in "ab" for second in "abcdefghijklmnopqrstuvwxyz"]


class Driver:
    """The controller's part, for one node."""

    def __init__(self, ec2, instance: str, zone: str) -> None:
        self.ec2, self.instance, self.zone = ec2, instance, zone
        # Device names the driver believes to be taken: it learns others from errors.
        self.taken: set[str] = set()

    # Health and limits.

    def probe(self) -> None:
        """Liveness: a dry run must be answered as one."""
        try:
            self.ec2.describe_availability_zones(DryRun=True)
        except ClientError as error:
            assert code_of(error) == "DryRunOperation", error
            return
        raise AssertionError("a dry run succeeded")

    def most_iops(self, kind: str) -> int:
        """Read out of the refusal of a dry run; 0: this type has none to set."""
        try:
            self.ec2.create_volume(
                AvailabilityZone=self.zone, Size=PROBE_GIB, VolumeType=kind, Iops=PROBE_IOPS, DryRun=True
            )
        except ClientError as error:
            assert code_of(error) != "DryRunOperation", f"{kind}: no limit was checked before the dry run"
            message = error.response["Error"]["Message"]
        else:
            raise AssertionError("a dry run succeeded")
        if re.search(r"parameter iops is not supported", message, re.IGNORECASE):
            return 0
        number = re.search(r"maximum is (\d+)", message)
        if number:
            return int(number[1])
        thousands = re.search(r"(\d+)K IOPS", message)
        assert thousands, f"{kind}: no limit in {message!r}"
        return int(thousands[1]) * 1000

    # Volumes.

    def create(self, name: str, gib: int, kind: str = "gp3", **given: Any) -> str:
        """Creates a volume by name, as the driver does: a name asked for again is the same
        volume."""
        tags = {CSI_TAG: name, "ebs.csi.aws.com/cluster": "true", "kubernetes.io/created-for/pv/name": name}
        order = {"AvailabilityZone": self.zone, "Size": gib, "VolumeType": kind} | given
        order["TagSpecifications"] = specification("volume", tags)
        for attempt in range(3):
            marked = hashlib.sha256(f"{name}{attempt or ''}".encode()).hexdigest()
            try:
                volume = self.ec2.create_volume(ClientToken=marked, **order)["VolumeId"]
                break
            except ClientError as error:
                if code_of(error) != "IdempotentParameterMismatch":
                    raise
        else:
            raise AssertionError("every token is taken")
        self._until(volume, lambda result: result["State"] == "available")
        return volume

    def clone(self, name: str, source: str, gib: int, kind: str = "gp3") -> str:
        """A claim whose data source is another claim: a copy of its volume."""
        tags = {CSI_TAG: name, "ebs.csi.aws.com/cluster": "true"}
        marked = hashlib.sha256(name.encode()).hexdigest()
        order = {"SourceVolumeId": source, "Size": gib, "VolumeType": kind, "ClientToken": marked}
        (copy,) = self.ec2.copy_volumes(**order, TagSpecifications=specification("volume", tags))["Volumes"]
        self._until(copy["VolumeId"], lambda result: result["State"] == "available")
        return copy["VolumeId"]

    def by_name(self, name: str) -> str | None:
        volumes = self.ec2.describe_volumes(Filters=[{"Name": f"tag:{CSI_TAG}", "Values": [name]}])["Volumes"]
        assert len(volumes) <= 1, "more than one volume of a name"
        return volumes[0]["VolumeId"] if volumes else None

    def batch(self, ids: list[str]) -> tuple[dict[str, dict], set[str]]:
        """Volumes by id, and those that are missing, which are picked out of the error's text."""
        missing: set[str] = set()
        while ids:
            try:
                answer = self.ec2.describe_volumes(VolumeIds=ids[:BATCH])["Volumes"]
                return {volume["VolumeId"]: volume for volume in answer}, missing
            except ClientError as error:
                if code_of(error) != "InvalidVolume.NotFound":
                    raise
                named = set(MISSING_ID.findall(error.response["Error"]["Message"]))
                assert named and named <= set(ids), f"the error names {named}"
                missing |= named
                ids = [entry for entry in ids if entry not in named]
        return {}, missing

    def _until(self, volume: str, reached, patience_s: float = 60.0) -> dict:
        def look() -> dict | None:
            details = self.ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]
            return details if reached(details) else None

        return wait_until(look, f"the state of {volume}", patience_s, pause_s=POLL_S)

    def delete(self, volume: str) -> bool:
        """False: it is gone already."""
        try:
            self.ec2.delete_volume(VolumeId=volume)
        except ClientError as error:
            if code_of(error) == "InvalidVolume.NotFound":
                return False
            raise
        return True

    # Attachment.

    def attach(self, volume: str) -> str:
        """The name of its device; a name that turns out to be taken is remembered, and the next is
        tried.
        """
        while True:
            instance = self.ec2.describe_instances(InstanceIds=[self.instance])["Reservations"][0]["Instances"][0]
            for mapping in instance.get("BlockDeviceMappings", ()):
                if mapping.get("Ebs", {}).get("VolumeId") == volume:
                    return self._attached(volume, mapping["DeviceName"])
            device = next(name for name in NAMES if name not in self.taken)
            self.taken.add(device)
            try:
                self.ec2.attach_volume(Device=device, InstanceId=self.instance, VolumeId=volume)
            except ClientError as error:
                if code_of(error) == "InvalidParameterValue" and "already in use" in str(error):
                    continue
                self.taken.discard(device)
                raise
            return self._attached(volume, device)

    def _attached(self, volume: str, device: str) -> str:
        def reached(result: dict) -> bool:
            attachments = result["Attachments"]
            assert len(attachments) <= 1 or result["MultiAttachEnabled"], attachments
            if not attachments or attachments[0]["State"] != "attached":
                return False
            assert attachments[0]["Device"] == device and attachments[0]["InstanceId"] == self.instance, attachments
            return True

        self._until(volume, reached, ATTACHING_S)
        return device

    def detach(self, volume: str) -> bool:
        """False: it was not attached."""
        try:
            self.ec2.detach_volume(VolumeId=volume, InstanceId=self.instance)
        except ClientError as error:
            if code_of(error) in ("IncorrectState", "InvalidAttachment.NotFound", "InvalidVolume.NotFound"):
                return False
            raise
        self._until(volume, lambda result: not result["Attachments"])
        return True

    # Modification.

    def modify(self, volume: str, **changes: Any) -> dict:
        """Volume as it is afterwards: it must be the target as soon as the modification is done."""
        if self._modification(volume) == "modifying":
            raise AssertionError("a modification is under way")
        self.ec2.modify_volume(VolumeId=volume, **changes)
        state = wait_until(
            lambda: (now := self._modification(volume)) != "modifying" and now, "a modification", 60.0, pause_s=POLL_S
        )
        assert state in ("optimizing", "completed"), state
        now = self.ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]
        assert {key: now[key] for key in changes} == changes, now
        return now

    def _modification(self, volume: str) -> str | None:
        """State of the last one; None: it was never modified."""
        try:
            volumes_modifications = self.ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"]
        except ClientError as error:
            if code_of(error) == "InvalidVolumeModification.NotFound":
                return None
            raise
        return volumes_modifications[-1]["ModificationState"] if volumes_modifications else None

    # Snapshots.

    def snapshot(self, volume: str, name: str) -> str:
        tags = specification("snapshot", {SNAPSHOT_TAG: name, "ebs.csi.aws.com/cluster": "true"})
        marked = f"Created by AWS EBS CSI driver for volume {volume}"
        snapshot_id = self.ec2.create_snapshot(VolumeId=volume, Description=marked, TagSpecifications=tags)[
            "SnapshotId"
        ]
        wait_until(lambda: self.ready(name), "a snapshot that is completed", 60.0, pause_s=POLL_S)
        return snapshot_id

    def ready(self, name: str) -> bool:
        filters = [{"Name": f"tag:{SNAPSHOT_TAG}", "Values": [name]}]
        snapshots = self.ec2.describe_snapshots(Filters=filters)["Snapshots"]
        assert len(snapshots) == 1, snapshots
        return snapshots[0]["State"] == "completed"

    def snapshots_of(self, volume: str) -> list[str]:
        """Lists the snapshots of a volume as the driver's ListSnapshots does: first all of them, as
        it asks when its caller names no number (it sends 0 then), and then in pages of five, its
        least.
        """
        chosen = [{"Name": "volume-id", "Values": [volume]}]
        answer = self.ec2.describe_snapshots(Filters=chosen, MaxResults=0)
        assert not answer.get("NextToken")
        at_once = [snapshot["SnapshotId"] for snapshot in answer["Snapshots"]]
        given: dict[str, Any] = {"Filters": chosen, "MaxResults": 5}
        result: list[str] = []
        while True:
            answer = self.ec2.describe_snapshots(**given)
            result += [snapshot["SnapshotId"] for snapshot in answer["Snapshots"]]
            if not answer.get("NextToken"):
                assert result == at_once
                return result
            given["NextToken"] = answer["NextToken"]

    def initialized(self, volume: str) -> bool:
        """From DescribeVolumeStatus, which must have its details."""
        status = self.ec2.describe_volume_status(VolumeIds=[volume])["VolumeStatuses"][0]
        details = {detail["Name"]: detail["Status"] for detail in status["VolumeStatus"]["Details"]}
        assert details["initialization-state"] in ("initializing", "completed"), details
        return details["initialization-state"] == "completed"


class Node:
    """The part on the machine: finds the device, formats, mounts, grows."""

    @staticmethod
    def device(link: str, volume: str) -> str:
        """Returns the device that a link leads to, after a comparison with the serial number that
        lsblk shows, if it shows one."""
        path = os.path.realpath(link)
        assert DEVICE_NAME.match(path), path
        serial = _output("lsblk", "-dno", "SERIAL", path).strip()
        assert serial in ("", volume.replace("-", "")), serial
        return path

    @staticmethod
    def stage(device: str, place: Path, kind: str = "xfs") -> None:
        """Formats a device that holds nothing, and mounts it."""
        empty = subprocess.run(["blkid", "-p", device], capture_output=True).returncode == 2
        if empty:
            _output(f"mkfs.{kind}", "-q", device)
        place.mkdir(parents=True, exist_ok=True)
        _output("mount", "-t", kind, device, str(place))

    @staticmethod
    def grow(place: Path) -> None:
        _output("xfs_growfs", str(place))

    @staticmethod
    def unstage(place: Path) -> None:
        _output("umount", str(place))


def _output(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout
