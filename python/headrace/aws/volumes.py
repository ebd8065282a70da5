"""EBS volumes of AWS in the notation of storages, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from headrace.aws.client import AwsAnswer, AwsClient, call
from headrace.errors import HeadraceError, InputError


@dataclass(frozen=True)
class AwsVolume:
    """A volume as AWS describes it. `storage`: in the catalog's notation. `instance`, `device`: of
    its first attachment, None for a volume that is detached. `state`: `modifying`, `optimizing` or
    "". `notes`: what a reader of its figures has to know."""

    id: str
    storage: str
    instance: str | None
    device: str | None
    state: str
    notes: tuple[str, ...] = ()


def write_notation(kind: str, size_gib: int, iops: int | None, mib_s: int | None) -> str:
    """Returns a volume as it would be ordered: `gp3:500:6000:250`. AWS states the baseline of other
    types as IOPS, too, and that is not bought. MiB/s stand behind IOPS: without these they are left
    out."""
    bought = {"gp3": (iops, mib_s), "io1": (iops,), "io2": (iops,)}.get(kind, ())
    return ":".join([kind, str(size_gib), *map(str, takewhile(bool, bought))])


def read_notation(volume: AwsAnswer) -> str:
    """Returns the notation of a volume in an answer of DescribeVolumes."""
    return write_notation(volume["VolumeType"], volume["Size"], volume.get("Iops"), volume.get("Throughput"))


def parse_order(notation: str) -> dict[str, str | int]:
    """Returns the arguments of CreateVolume for a volume in that notation."""
    kind, size, *limits = notation.split(":")
    arguments: dict[str, str | int] = {"VolumeType": kind, "Size": int(size)}
    if limits and kind in ("gp3", "io1", "io2"):
        arguments["Iops"] = int(limits[0])
    if len(limits) > 1 and kind == "gp3":
        arguments["Throughput"] = int(limits[1])
    return arguments


def describe_volumes(ec2: AwsClient, volumes: Sequence[str]) -> dict[str, AwsVolume]:
    """Returns volumes by their ids, each with the state of its modification, which takes a call for
    each. Raises InputError for a volume that is not there, and as `call`."""
    answer = call(", ".join(volumes), "ec2:DescribeVolumes", ec2.describe_volumes, VolumeIds=list(volumes))
    by_id: dict[str, AwsVolume] = {}
    for volume in answer["Volumes"]:
        name = volume["VolumeId"]
        attached = [attachment for attachment in volume.get("Attachments", ()) if attachment.get("State") == "attached"]
        instances = [attachment["InstanceId"] for attachment in attached]
        shared: tuple[str, ...] = ()
        if len(instances) > 1:
            together = "(Multi-Attach): its figures are those of all of them together"
            judged = f"of the instances, only the limits of {instances[0]} are judged"
            shared = (f"{name} is attached to {', '.join(instances)} {together}; {judged}",)
        by_id[name] = AwsVolume(
            name,
            read_notation(volume),
            instances[0] if instances else None,
            attached[0].get("Device") if attached else None,
            _find_modification(ec2, name),
            shared,
        )
    missing = [name for name in volumes if name not in by_id]
    if missing:
        rule = "is not a volume of this account and region"
        raise InputError(missing[0], rule, "describe-volumes", "Check AWS_REGION.")
    return by_id


def _find_modification(ec2: AwsClient, volume: str) -> str:
    """Returns `modifying` or `optimizing`; "" without a modification under way."""
    action = "ec2:DescribeVolumesModifications"
    try:
        answer = call(volume, action, ec2.describe_volumes_modifications, VolumeIds=[volume])
    except HeadraceError:  # a volume that never was modified, or no permission
        return ""
    states = [modification.get("ModificationState") for modification in answer.get("VolumesModifications", ())]
    return next((state for state in states if state in ("modifying", "optimizing")), "")
