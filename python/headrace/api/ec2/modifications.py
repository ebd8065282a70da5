"""Serves ModifyVolume, and the state of modifications."""

from __future__ import annotations

from headrace.api import paging
from headrace.api.declared import arguments
from headrace.api.ec2.filters import filtered
from headrace.api.ec2.permissions import volume_named
from headrace.api.ec2.shown import MANAGED, modification_of, volume_id
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, serves
from headrace.lab.calls import Modification

# The page of DescribeVolumesModifications (EC2 API reference: up to 500).
PAGE = (1, 500)


@serves("ec2", "ModifyVolume", handled="VolumeId MultiAttachEnabled DryRun", needs=volume_named)
def modify_volume(request: ApiRequest) -> Members:
    """Changes a volume, in use or not."""
    params = request.params
    if params.get("MultiAttachEnabled"):
        raise AwsError("UnsupportedOperation", "Multi-Attach is not supported: this lab has one instance.")
    changed = request.change("volume.modify", volume=volume_id(request.params["VolumeId"]), **arguments(request))
    return {"VolumeModification": modification_of(changed)}


@serves(
    "ec2",
    "DescribeVolumesModifications",
    handled="DryRun VolumeIds Filters NextToken MaxResults",
    without_effect={"IncludeManagedResources": MANAGED},
)
def describe_volumes_modifications(request: ApiRequest) -> Members:
    """Describes the last modification of each volume."""
    ids, size = request.params.get("VolumeIds"), paging.size(request.params, *PAGE)
    checked_ids = {volume_id(text, "volumes") for text in ids} if ids else None
    if checked_ids:
        # Volumes that do not exist are refused first.
        request.lab.volumes(sorted(checked_ids))
    latest: dict[str, Modification] = {}
    for modification in request.lab.modifications():
        before = latest.get(modification["volume"])
        if before is None or before["start"] <= modification["start"]:
            latest[modification["volume"]] = modification
    if checked_ids and (never := sorted(checked_ids - set(latest))):
        raise AwsError(
            "InvalidVolumeModification.NotFound", f"Modification for volume '{', '.join(never)}' does not exist."
        )
    rows = [
        modification_of(modification)
        for name, modification in sorted(latest.items())
        if checked_ids is None or name in checked_ids
    ]
    matching = filtered(request, rows)
    shown, token = paging.page_for(request, matching, lambda row: row["VolumeId"], size)
    return {"VolumesModifications": shown, "NextToken": token}
