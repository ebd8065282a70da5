"""Serves calls about things that a lab does not have, and about its whole account."""

from __future__ import annotations

import re

from headrace.api import paging
from headrace.api.ec2.filters import filtered
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, serves

# The page of DescribeImages (EC2 API reference: 1 to 1,000).
IMAGES_PAGE = (1, 1000)
_NO_IMAGES = "the lab has no images"


@serves(
    "ec2",
    "DescribeImages",
    handled="ImageIds MaxResults NextToken DryRun Filters",
    without_effect={
        "ExecutableUsers": _NO_IMAGES,
        "Owners": _NO_IMAGES,
        "IncludeDeprecated": _NO_IMAGES,
        "IncludeDisabled": _NO_IMAGES,
    },
)
def describe_images(request: ApiRequest) -> Members:
    """Lists no image: the lab's instance is this machine, and no snapshot belongs to an AMI."""
    ids = list(dict.fromkeys(request.params.get("ImageIds") or ()))
    for image_id in ids:
        if not re.fullmatch(r"ami-[0-9a-f]{8}([0-9a-f]{9})?", image_id, re.ASCII):
            raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image_id[:100]}" (expecting "ami-...")')
    if ids:
        plural, verb = ("s", "do") if len(ids) > 1 else ("", "does")
        raise AwsError("InvalidAMIID.NotFound", f"The image id{plural} '[{', '.join(ids)}]' {verb} not exist")
    size = paging.size(request.params, *IMAGES_PAGE)
    none: list[Members] = filtered(request, [], {}, lambda image: image["Tags"])
    images, token = paging.page_for(request, none, lambda image: image["ImageId"], size)
    return {"Images": images, "NextToken": token}


# Attributes of an account (EC2 API reference, DescribeAccountAttributes), as they are of a lab: one
# instance, and no network of its own.
_ATTRIBUTES = {
    "default-vpc": "none",
    "max-elastic-ips": "0",
    "max-instances": "1",
    "supported-platforms": "VPC",
    "vpc-max-elastic-ips": "0",
    "vpc-max-security-groups-per-interface": "0",
}


@serves("ec2", "DescribeAccountAttributes", handled="DryRun AttributeNames")
def describe_account_attributes(request: ApiRequest) -> Members:
    """Lists the limits of the lab's account."""
    # The model has two names that can be asked for.
    names = request.params.get("AttributeNames") or list(_ATTRIBUTES)
    return {
        "AccountAttributes": [
            {"AttributeName": name, "AttributeValues": [{"AttributeValue": _ATTRIBUTES[name]}]}
            for name in dict.fromkeys(names)
        ]
    }


@serves("ec2", "GetSnapshotBlockPublicAccessState", handled="DryRun")
def get_snapshot_block_public_access_state(request: ApiRequest) -> Members:
    """Answers that public sharing is blocked: the lab refuses to make a snapshot public."""
    return {"State": "block-all-sharing", "ManagedBy": "account"}


@serves("ec2", "GetEbsEncryptionByDefault", handled="DryRun")
def get_ebs_encryption_by_default(request: ApiRequest) -> Members:
    """Tells whether new volumes are encrypted by default."""
    on = request.lab.encryption_defaults()["by_default"]
    return {"EbsEncryptionByDefault": on, "SseType": "sse-kms" if on else "none"}
