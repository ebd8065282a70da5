"""Where volumes and snapshots are: the lab's daemon, or EC2."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from headrace.errors import HeadraceError, InputError
from headrace.lab import Lab, LabRefused
from headrace.operate.snapshots.freezing.filesystems import Below
from headrace.operate.snapshots.sets import DOC, SET, StoredSnapshot, moment


@dataclass(frozen=True)
class MemberVolume:
    """A volume that a server's files are on. `spec`: storage notation of the lab, or EC2's words as
    `gp3:100:3000:125`. `zone`: availability zone, of EC2."""

    id: str
    spec: str
    zone: str = ""


class VolumeService(Protocol):
    """What is needed of the lab or of EC2. Every method raises InputError or CouldNotRun."""

    def members(self, found: Below) -> list[MemberVolume]:
        """The volumes of these disks, in their order."""
        ...

    def rehearse(self, volumes: Sequence[str], tags: Mapping[str, str]) -> None:
        """Asks whether the call would be allowed, and leaves the way there warm."""
        ...

    def create(
        self, volumes: Sequence[str], tags: Mapping[str, str], description: str, token: str
    ) -> list[StoredSnapshot]:
        """One call for all of them: one moment, all or none."""
        ...

    def tag(self, snapshots: Sequence[str], tags: Mapping[str, str]) -> None:
        """Adds tags."""
        ...

    def delete(self, snapshot: str) -> None:
        """Deletes it; one that is gone is fine."""
        ...

    def stored(self) -> list[StoredSnapshot]:
        """All snapshots that belong to a set."""
        ...

    def now(self) -> datetime:
        """The time that its snapshots are of: lab time, or the wall's."""
        ...

    def create_volume(self, snapshot: StoredSnapshot, spec: str, name: str, tags: Mapping[str, str]) -> str:
        """A volume made from a snapshot; its id."""
        ...

    def delete_volume(self, volume: str) -> None:
        """Deletes one that is not attached; one that is gone is fine."""
        ...


class LabService:
    """The lab. An array is one device and one volume there, so its members are always of one
    moment."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def members(self, found: Below) -> list[MemberVolume]:
        """By the block device that a volume is attached as."""
        devices = {}
        for volume in self.lab.volumes():
            attachment = volume.get("attachment") or {}
            if attachment.get("device"):
                devices[str(attachment["device"]).removeprefix("/dev/")] = MemberVolume(volume["id"], volume["spec"])
        missing = [disk for disk in found.disks if disk not in devices]
        if missing:
            rule = "is not the device of a volume of this lab"
            raise InputError(f"/dev/{missing[0]}", rule, DOC, "On EC2, name the place: --on ec2.")
        return [devices[disk] for disk in found.disks]

    def rehearse(self, volumes: Sequence[str], tags: Mapping[str, str]) -> None:
        """A dry run of the call."""
        try:
            self.lab.call("snapshot.create_many", dry_run=True, volumes=list(volumes), tags=dict(tags))
        except LabRefused as refused:
            if refused.kind != "dry-run":
                raise

    def create(
        self, volumes: Sequence[str], tags: Mapping[str, str], description: str, token: str
    ) -> list[StoredSnapshot]:
        """snapshot.create_many, once however often it is sent."""
        made = self.lab.call(
            "snapshot.create_many", token=token, volumes=list(volumes), tags=dict(tags), description=description
        )
        return [_of_lab(one) for one in made["snapshots"]]

    def tag(self, snapshots: Sequence[str], tags: Mapping[str, str]) -> None:
        """All of them, or none."""
        self.lab.tag_resources(list(snapshots), set=dict(tags))

    def delete(self, snapshot: str) -> None:
        """To the recycle bin, where a rule keeps it."""
        try:
            self.lab.delete_snapshot(snapshot)
        except LabRefused as refused:
            if refused.kind != "not-found":
                raise

    def stored(self) -> list[StoredSnapshot]:
        """Page by page."""
        found: list[StoredSnapshot] = []
        after = None
        while True:
            page = self.lab.snapshots(after=after)
            found += [_of_lab(one) for one in page["snapshots"] if SET in (one["tags"] or {})]
            after = page["next"]
            if after is None:
                return found

    def now(self) -> datetime:
        """Lab time."""
        return moment(self.lab.status()["lab_time"])

    def create_volume(self, snapshot: StoredSnapshot, spec: str, name: str, tags: Mapping[str, str]) -> str:
        """Usable at once; blocks are loaded when they are first used."""
        return self.lab.create(spec or None, name=name, tags=dict(tags), snapshot=snapshot.id)["id"]

    def delete_volume(self, volume: str) -> None:
        """Detached first."""
        with contextlib.suppress(LabRefused):
            self.lab.detach(volume, force=True)
        try:
            self.lab.delete(volume)
        except LabRefused as refused:
            if refused.kind != "not-found":
                raise


def _of_lab(one: Mapping[str, Any]) -> StoredSnapshot:
    return StoredSnapshot(
        id=one["id"],
        volume=one["volume"] or "",
        size_gib=one["size_gib"],
        state=one["state"],
        started_at=one["started_at"],
        tags=one["tags"] or {},
        copy=bool(one["copy_of"]),
    )


def delete_all(service: VolumeService, snapshots: Sequence[str]) -> list[str]:
    """Deletes them; in words, what could not be."""
    kept = []
    for snapshot in snapshots:
        try:
            service.delete(snapshot)
        except HeadraceError as error:
            kept.append(f"{snapshot}: {error.rule}")
    return kept
