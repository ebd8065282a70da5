"""ModifyVolume, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.api import paging
from headrace.api.ec2.filters import filtered
from headrace.api.ec2.permissions import volume_named
from headrace.api.ec2.shown import MANAGED, modification_of, volume_id
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, serves

# The page of DescribeVolumesModifications (EC2 API reference: up to 500).
PAGE = (1, 500)

_FILTERS = {
    "modification-state": lambda found: found["ModificationState"],
    "original-iops": lambda found: found["OriginalIops"],
    "original-size": lambda found: found["OriginalSize"],
    "original-volume-type": lambda found: found["OriginalVolumeType"],
    "originalMultiAttachEnabled": lambda found: found["OriginalMultiAttachEnabled"],
    "start-time": lambda found: found["StartTime"],
    "target-iops": lambda found: found["TargetIops"],
    "target-size": lambda found: found["TargetSize"],
    "target-volume-type": lambda found: found["TargetVolumeType"],
    "targetMultiAttachEnabled": lambda found: found["TargetMultiAttachEnabled"],
    "volume-id": lambda found: found["VolumeId"],
}


@serves(
    "ec2",
    "ModifyVolume",
    handled="VolumeId Size VolumeType Iops Throughput MultiAttachEnabled DryRun",
    needs=volume_named,
)
def modify_volume(request: ApiRequest) -> dict[str, Any]:
    """Changes a volume, in use or not."""
    params = request.params
    if params.get("MultiAttachEnabled"):
        raise AwsError("UnsupportedOperation", "Multi-Attach is not supported: this lab has one instance.")
    changed = request.change(
        "volume.modify",
        volume=volume_id(params["VolumeId"]),
        size_gib=params.get("Size"),
        volume_type=params.get("VolumeType"),
        iops=params.get("Iops"),
        throughput_mib_s=params.get("Throughput"),
    )
    return {"VolumeModification": modification_of(changed)}


@serves(
    "ec2",
    "DescribeVolumesModifications",
    handled="DryRun VolumeIds Filters NextToken MaxResults",
    without_effect={"IncludeManagedResources": MANAGED},
)
def describe_volumes_modifications(request: ApiRequest) -> dict[str, Any]:
    """The last modification of each volume."""
    ids, size = request.params.get("VolumeIds"), paging.size(request.params, *PAGE)
    wanted = {volume_id(one, "volumes") for one in ids} if ids else None
    if wanted:
        # Volumes that are not there are said first.
        request.lab.volumes(sorted(wanted))
    latest: dict[str, Mapping[str, Any]] = {}
    for one in request.lab.modifications():
        before = latest.get(one["volume"])
        if before is None or before["start"] <= one["start"]:
            latest[one["volume"]] = one
    if wanted and (never := sorted(wanted - set(latest))):
        raise AwsError(
            "InvalidVolumeModification.NotFound", f"Modification for volume '{', '.join(never)}' does not exist."
        )
    rows = [modification_of(one) for name, one in sorted(latest.items()) if wanted is None or name in wanted]
    kept = filtered(request, rows, _FILTERS)
    shown, token = paging.page(
        request.operation, kept, lambda row: row["VolumeId"], size, request.params.get("NextToken")
    )
    return {"VolumesModifications": shown, "NextToken": token}
