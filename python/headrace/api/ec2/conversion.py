"""Converts the daemon's facts of volumes and modifications into EC2's form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

from headrace.api.cache import Facts
from headrace.api.errors import AwsError
from headrace.api.protocol.shapes import Members
from headrace.api.protocol.xml import CachedStructure
from headrace.lab.calls import Attachment, AttachmentFacts, LabVolume, Modification, VolumeFacts

# EC2's id for the volume of a copy, and of a snapshot that was put block by block.
NO_VOLUME = "vol-ffffffff"
# Types whose IOPS and MiB/s EC2 shows (EC2 API reference, Volume: Iops, Throughput).
WITH_IOPS = ("gp2", "gp3", "io1", "io2")
WITH_THROUGHPUT = ("gp3",)
# Number of cached parsed times. A guess: those of some thousand volumes.
TIMES = 16_384

Row = TypeVar("Row")
Volume = LabVolume | VolumeFacts

_VOLUME = re.compile(r"vol-.*", re.DOTALL)


@lru_cache(maxsize=TIMES)
def parse_moment(text: str | None) -> datetime | None:
    """Returns a time of the daemon as a datetime. EC2 shows seconds: `.000Z`."""
    return None if text is None else datetime.fromisoformat(text).replace(microsecond=0)


def convert_tags(tags: Mapping[str, str]) -> list[dict[str, str]] | None:
    """Returns the list of tags in EC2's form, or None without tags: EC2 then leaves it out."""
    return [{"Key": key, "Value": value} for key, value in tags.items()] or None


def get_device_name(attachment: Attachment | AttachmentFacts) -> str:
    """Returns the attach name in EC2's form: `/dev/sdf`."""
    name = attachment["name"]
    return name if name.startswith("/dev/") else f"/dev/{name}"


def convert_attachment(volume: Volume, attachment: Attachment | AttachmentFacts) -> Members:
    """Returns an attachment in EC2's form."""
    return {
        "VolumeId": volume["id"],
        "InstanceId": attachment["instance"],
        "Device": get_device_name(attachment),
        "State": attachment["state"],
        "AttachTime": parse_moment(attachment["attached_at"]),
        "DeleteOnTermination": attachment["delete_on_termination"],
    }


def convert_once(row: Row, convert: Callable[[Row], Members]) -> Members:
    """Returns a row in EC2's form by `convert`. A cached row keeps the result, so a kind of rows
    has one `convert`."""
    if not isinstance(row, Facts):
        return convert(row)
    try:
        return row.members
    except AttributeError:
        row.members = CachedStructure(convert(row))
        return row.members


def convert_volume(volume: Volume) -> Members:
    """Returns a volume in EC2's form. Facts that the lab does not have yet are left out."""
    kind, attachment = volume["type"], volume["attachment"]
    key = volume.get("kms_key")
    return {
        "VolumeId": volume["id"],
        "Size": volume["size_gib"],
        "VolumeType": kind,
        "Iops": volume["iops"] if kind in WITH_IOPS else None,
        "Throughput": volume["throughput_mib_s"] if kind in WITH_THROUGHPUT else None,
        "State": volume["state"],
        "CreateTime": parse_moment(volume["created_at"]),
        "AvailabilityZone": volume["zone"],
        "AvailabilityZoneId": volume["zone_id"],
        "SnapshotId": volume.get("snapshot") or "",
        "SourceVolumeId": volume.get("source_volume"),
        "Encrypted": key is not None or bool(volume.get("encrypted")),
        "KmsKeyId": key,
        "MultiAttachEnabled": False,
        "FastRestored": volume.get("fast_restored"),
        "VolumeInitializationRate": volume.get("initialization_rate_mib_s"),
        "Attachments": [] if attachment is None else [convert_attachment(volume, attachment)],
        "Tags": convert_tags(volume["tags"]),
    }


def convert_modification(modification: Modification) -> Members:
    """Returns a modification in EC2's form."""
    description: Members = {
        "VolumeId": modification["volume"],
        "ModificationState": modification["state"],
        "StatusMessage": modification["reason"],
        "Progress": modification["progress_percent"],
        "StartTime": parse_moment(modification["start"]),
        "EndTime": parse_moment(modification["end"]),
    }
    for name, shape in (("Target", modification["target"]), ("Original", modification["original"])):
        kind = shape["type"]
        description |= {
            f"{name}Size": shape["size_gib"],
            f"{name}VolumeType": kind,
            f"{name}Iops": shape["iops"] if kind in WITH_IOPS else None,
            f"{name}Throughput": shape["throughput_mib_s"] if kind in WITH_THROUGHPUT else None,
            f"{name}MultiAttachEnabled": False,
        }
    return description


def check_volume_id(text: str, parameter: str = "volumeId") -> str:
    """Checks and returns a volume's id. The lab also takes volumes' names, EC2 does not: raises
    AwsError."""
    if not _VOLUME.fullmatch(text):
        raise AwsError(
            "InvalidParameterValue", f"Value ({text[:100]}) for parameter {parameter} is invalid. Expected: 'vol-...'."
        )
    return text


def check_snapshot_id(text: str) -> str:
    """Checks and returns a snapshot's id. Raises AwsError."""
    if not text.startswith("snap-"):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({text[:100]}) for parameter snapshotId is invalid. Expected: 'snap-...'.",
        )
    return text
