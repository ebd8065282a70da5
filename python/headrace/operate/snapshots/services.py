"""Services that have volumes and snapshots: the lab's daemon, and EC2 (`ec2`)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.lab import Lab, LabRefused
from headrace.lab.calls import Snapshot
from headrace.lab.client import list_all_snapshots
from headrace.operate.snapshots.freezing.filesystems import DeviceStack
from headrace.operate.snapshots.sets import SET, StoredSnapshot, parse_moment, refuse

# Between two looks at snapshots that are not listed yet, and at what the lab stores, s. A guess.
LOOK_EVERY_S = 1.0


@dataclass(frozen=True)
class MemberVolume:
    """A volume that a server's files are on. `spec`: storage notation of the lab, or EC2's words as
    `gp3:100:3000:125`. `zone`: availability zone, of EC2."""

    id: str
    spec: str
    zone: str = ""


class VolumeService(Protocol):
    """The calls that the lab or EC2 must answer. Every method raises InputError for a refusal, or
    CouldNotRun. `listed_within_s`: longest time until it lists snapshots that it has begun.
    `look_every_s`: between two looks at what is being stored."""

    listed_within_s: float
    look_every_s: float

    def find_members(self, device: DeviceStack) -> list[MemberVolume]:
        """Returns the volumes of these disks, in their order."""
        ...

    def rehearse(self, volumes: Sequence[str], tags: Mapping[str, str]) -> None:
        """Makes a dry run of `create`, which also prepares the connection for it."""
        ...

    def create(
        self, volumes: Sequence[str], tags: Mapping[str, str], description: str, token: str
    ) -> list[StoredSnapshot]:
        """Takes snapshots of all of them with one call: one moment, all or none."""
        ...

    def tag(self, snapshots: Sequence[str], tags: Mapping[str, str]) -> None:
        """Adds tags."""
        ...

    def delete(self, snapshot: str) -> None:
        """Deletes a snapshot; one that is gone is fine."""
        ...

    def list_stored(self) -> list[StoredSnapshot]:
        """Returns all snapshots that belong to a set."""
        ...

    def get_time(self) -> datetime:
        """Returns the time that its snapshots are of: lab time, or the wall clock's."""
        ...

    def create_volume(self, snapshot: StoredSnapshot, spec: str, name: str, tags: Mapping[str, str]) -> str:
        """Makes a volume from a snapshot and returns its id."""
        ...

    def delete_volume(self, volume: str) -> None:
        """Deletes a volume that is not attached; one that is gone is fine."""
        ...


class LabService:
    """The lab. An array is one device and one volume there, so its members share a moment."""

    listed_within_s = 0.0  # the daemon lists what it has written to its journal
    look_every_s = LOOK_EVERY_S

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def find_members(self, device: DeviceStack) -> list[MemberVolume]:
        """Returns the volumes by the block device that they are attached as."""
        devices = {}
        for volume in self.lab.volumes():
            attachment = volume.get("attachment") or {}
            if attachment.get("device"):
                devices[str(attachment["device"]).removeprefix("/dev/")] = MemberVolume(volume["id"], volume["spec"])
        missing = [disk for disk in device.disks if disk not in devices]
        if missing:
            rule = "is not the device of a volume of this lab"
            raise refuse.input(f"/dev/{missing[0]}", rule, "On EC2, name the place: --on ec2.")
        return [devices[disk] for disk in device.disks]

    def rehearse(self, volumes: Sequence[str], tags: Mapping[str, str]) -> None:
        """Makes a dry run of the call."""
        try:
            self.lab.call("snapshot.create_many", dry_run=True, volumes=list(volumes), tags=dict(tags))
        except LabRefused as refused:
            if refused.kind != "dry-run":
                raise

    def create(
        self, volumes: Sequence[str], tags: Mapping[str, str], description: str, token: str
    ) -> list[StoredSnapshot]:
        """Calls snapshot.create_many, which runs once however often it is sent."""
        answer = self.lab.call(
            "snapshot.create_many", token=token, volumes=list(volumes), tags=dict(tags), description=description
        )
        return [_parse_snapshot(snapshot) for snapshot in answer["snapshots"]]

    def tag(self, snapshots: Sequence[str], tags: Mapping[str, str]) -> None:
        """Tags all of them, or none."""
        self.lab.tag_resources(list(snapshots), set=dict(tags))

    def delete(self, snapshot: str) -> None:
        """Deletes a snapshot, to the recycle bin where a rule keeps it."""
        try:
            self.lab.delete_snapshot(snapshot)
        except LabRefused as refused:
            if refused.kind != "not-found":
                raise

    def list_stored(self) -> list[StoredSnapshot]:
        """Returns all snapshots that belong to a set, page by page."""
        return [
            _parse_snapshot(snapshot) for snapshot in list_all_snapshots(self.lab) if SET in (snapshot["tags"] or {})
        ]

    def get_time(self) -> datetime:
        """Returns lab time."""
        return parse_moment(self.lab.status()["lab_time"])

    def create_volume(self, snapshot: StoredSnapshot, spec: str, name: str, tags: Mapping[str, str]) -> str:
        """Makes a volume that is usable at once; blocks are loaded when they are first used."""
        return self.lab.create(spec or None, name=name, tags=dict(tags), snapshot=snapshot.id)["id"]

    def delete_volume(self, volume: str) -> None:
        """Detaches a volume and deletes it."""
        with contextlib.suppress(LabRefused):
            self.lab.detach(volume, force=True)
        try:
            self.lab.delete(volume)
        except LabRefused as refused:
            if refused.kind != "not-found":
                raise


def _parse_snapshot(described: Snapshot) -> StoredSnapshot:
    """Returns a snapshot as the daemon describes it; its start is lab time."""
    return StoredSnapshot(
        id=described["id"],
        volume=described["volume"] or "",
        size_gib=described["size_gib"],
        state=described["state"],
        started_at=described["started_at"],
        tags=described["tags"] or {},
        copy=described["source"] != "volume",
    )


def delete_all(service: VolumeService, snapshots: Sequence[str]) -> list[str]:
    """Deletes the snapshots and returns in words what could not be deleted."""
    failures = []
    for snapshot in snapshots:
        try:
            service.delete(snapshot)
        except HeadraceError as error:
            failures.append(f"{snapshot}: {error.rule}")
    return failures
