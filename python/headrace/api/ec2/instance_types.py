"""Shows the catalog's facts of instance types in EC2's form."""

from __future__ import annotations

from functools import cache

from headrace.api import paging
from headrace.api.ec2.filters import filtered
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, serves
from headrace.base import core

# The page of DescribeInstanceTypes (EC2 API reference: 5 to 100), and types of one request.
PAGE = (5, 100)


def _ebs(facts: core.Instance) -> Members:
    """Returns EBS's limits of a type: EC2 counts MB/s in millions of bytes, and Mbps in millions of
    bits."""
    info: Members = {
        "EbsOptimizedSupport": "default",
        "EncryptionSupport": "supported",
        "NvmeSupport": "required" if facts["nitro"] else "unsupported",
        "MaximumEbsAttachments": facts["max_ebs_attachments"],
        "AttachmentLimitType": "shared" if facts["attachments_shared"] else "dedicated",
    }
    if facts["baseline_bytes_s"] and facts["max_bytes_s"]:
        info["EbsOptimizedInfo"] = {
            "BaselineBandwidthInMbps": facts["baseline_bytes_s"] * 8 // 10**6,
            "BaselineThroughputInMBps": facts["baseline_bytes_s"] / 10**6,
            "BaselineIops": facts["baseline_iops"],
            "MaximumBandwidthInMbps": facts["max_bytes_s"] * 8 // 10**6,
            "MaximumThroughputInMBps": facts["max_bytes_s"] / 10**6,
            "MaximumIops": facts["max_iops"],
        }
    return info


def _shown(facts: core.Instance) -> Members:
    stored = facts["instance_store_gb"] or 0
    return {
        "InstanceType": facts["instance_type"],
        "CurrentGeneration": facts["current_generation"],
        "BareMetal": ".metal" in facts["instance_type"],
        "Hypervisor": "nitro" if facts["nitro"] else "xen",
        "ProcessorInfo": {"SupportedArchitectures": [facts["arch"]] if facts["arch"] else []},
        "VCpuInfo": {"DefaultVCpus": facts["vcpus"]},
        "MemoryInfo": {"SizeInMiB": facts["memory_mib"]},
        "InstanceStorageSupported": stored > 0,
        "InstanceStorageInfo": {"TotalSizeInGB": stored} if stored else None,
        "EbsInfo": _ebs(facts),
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
    }


@cache
def _types(as_of: str) -> dict[str, Members]:
    """Returns all types of a day, by name."""
    return {facts["instance_type"]: _shown(facts) for facts in core.instances(as_of)}


@cache
def widest_type(as_of: str) -> str:
    """Returns the x86 instance type of the Nitro System with the highest EBS limits of a day: IOPS,
    then bytes a second, then the first by name. Bare metal is left out. A day before the Nitro
    System gives a type of any kind.
    """
    every = core.instances(as_of)
    usual = [
        candidate
        for candidate in every
        if candidate["nitro"] and candidate["arch"] == "x86_64" and ".metal" not in candidate["instance_type"]
    ]
    limited = [
        candidate for candidate in usual if candidate["baseline_iops"] and candidate["baseline_bytes_s"]
    ] or every
    return min(
        limited,
        key=lambda candidate: (
            -(candidate["baseline_iops"] or 0),
            -(candidate["baseline_bytes_s"] or 0),
            candidate["instance_type"],
        ),
    )["instance_type"]


@serves(
    "ec2",
    "DescribeInstanceTypes",
    handled="DryRun InstanceTypes Filters MaxResults NextToken",
    refused={"IncludeUnsupportedInRegion": "the catalog does not tell regions apart"},
)
def describe_instance_types(request: ApiRequest) -> Members:
    """Lists instance types of the day whose limits the lab has."""
    names, size = request.params.get("InstanceTypes"), paging.size(request.params, *PAGE)
    if names and size is not None:
        raise AwsError(
            "InvalidParameterCombination", "The parameter instanceTypes cannot be used with the parameter maxResults"
        )
    types = _types(request.lab.status()["as_of"])
    unknown = [name for name in names or () if name not in types]
    if unknown:
        raise AwsError(
            "InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(unknown)[:500]}]"
        )
    rows = [types[name] for name in sorted(set(names) if names else types)]
    matching = filtered(request, rows)
    shown, token = paging.page_for(request, matching, lambda row: row["InstanceType"], size or PAGE[1])
    return {"InstanceTypes": shown, "NextToken": token}
