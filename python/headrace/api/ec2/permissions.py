"""Lists the permissions of requests about volumes: actions, resources and condition keys (Service
Authorization Reference, "Actions, resources, and condition keys for Amazon EC2")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.api.handling import ApiRequest, Context, Permission
from headrace.errors import HeadraceError
from headrace.lab.calls import LabVolume

# Ids by their beginnings: the kind of resource in an ARN.
KINDS = {"vol": "volume", "snap": "snapshot", "i": "instance", "key": "key"}


def collect_request_tags(tags: Mapping[str, str]) -> dict[str, str | list[str]]:
    """Returns the condition keys of tags that a request sets."""
    if not tags:
        return {}
    return {"aws:TagKeys": list(tags)} | {f"aws:RequestTag/{key}": value for key, value in tags.items()}


def collect_resource_tags(tags: Mapping[str, str]) -> dict[str, str | list[str]]:
    """Returns the condition keys of tags that a resource has."""
    keys: dict[str, str | list[str]] = {}
    for key, value in tags.items():
        keys[f"aws:ResourceTag/{key}"] = keys[f"ec2:ResourceTag/{key}"] = value
    return keys


def format_truth(value: object) -> str:
    """Returns `true` or `false`."""
    return "true" if value else "false"


def collect_present(**values: object) -> dict[str, str]:
    """Returns the condition keys of EC2 by their names, for those that have a value."""
    return {f"ec2:{key}": str(value) for key, value in values.items() if value is not None}


def build_volume_context(volume: LabVolume) -> Context:
    """Returns the values that conditions may ask of an existing volume."""
    return {
        **collect_present(
            VolumeType=volume["type"],
            VolumeSize=volume["size_gib"],
            VolumeIops=volume["iops"],
            VolumeThroughput=volume["throughput_mib_s"],
            VolumeID=volume["id"],
            AvailabilityZone=volume["zone"],
            ParentSnapshot=volume["snapshot"],
        ),
        "ec2:Encrypted": format_truth(volume["kms_key"] or volume["encrypted"]),
        **collect_resource_tags(volume["tags"]),
    }


def make_volume_permission(request: ApiRequest, volume: str, action: str, **more: str) -> Permission:
    """Returns a permission for a volume. A volume that does not exist has no tags."""
    try:
        context = build_volume_context(request.lab.describe(volume))
    except HeadraceError:
        context = {}
    return Permission(action, request.make_arn("volume", volume), {**context, **more})


def list_volume_permissions(request: ApiRequest) -> Iterator[Permission]:
    """Yields the permission for the one volume that a request names."""
    yield make_volume_permission(request, request.params["VolumeId"], f"ec2:{request.operation}")


def list_attach_permissions(request: ApiRequest) -> Iterator[Permission]:
    """Yields the permissions for attaching and detaching: the volume and the instance."""
    yield from list_volume_permissions(request)
    status = request.lab.status()
    instance = request.params.get("InstanceId") or status["instance_id"]
    context = collect_present(
        InstanceType=status["instance_type"], InstanceID=instance, AvailabilityZone=status["zone"]
    )
    yield Permission(f"ec2:{request.operation}", request.make_arn("instance", instance), context)


def list_tag_permissions(request: ApiRequest, resource: str, tags: Mapping[str, str]) -> Iterator[Permission]:
    """Yields the permission for tags that are set as something is made: `ec2:CreateTags` with
    `ec2:CreateAction`.
    """
    if tags:
        context = {**collect_request_tags(tags), "ec2:CreateAction": request.operation}
        yield Permission("ec2:CreateTags", resource, context)
