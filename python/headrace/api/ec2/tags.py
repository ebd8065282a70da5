"""Serves tags of any resource, and reads the TagSpecifications of calls that make a resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headrace.api import paging
from headrace.api.ec2.filters import filter_items
from headrace.api.ec2.permissions import KINDS, collect_request_tags, collect_resource_tags
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, Permission, serves
from headrace.errors import HeadraceError

# Resources of one CreateTags or DeleteTags (EC2 API reference: up to 1,000).
MAX_RESOURCES = 1000
# The page of DescribeTags (EC2 API reference: 5 to 1,000).
PAGE = (5, 1000)


def read_tags(specifications: Sequence[Members] | None, kind: str) -> dict[str, str]:
    """Returns the tags that a request gives to a new resource. Raises AwsError."""
    tags: dict[str, str] = {}
    for specification in specifications or ():
        named = specification.get("ResourceType")
        if named != kind:
            raise AwsError(
                "InvalidParameterValue", f"'{named}' is not a valid taggable resource type for this operation."
            )
        # EC2 was seen to refuse it so (tests of moto 5.2).
        if not specification.get("Tags"):
            raise AwsError("InvalidParameterValue", "Tag specification must have at least one tag")
        tags |= _read_pairs(specification.get("Tags"), tags)
    return tags


def _read_pairs(tags: Sequence[Mapping[str, str]] | None, before: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns tags by key. `before`: tags given elsewhere in the request. Raises AwsError for an
    empty key or one that is there twice."""
    pairs: dict[str, str] = {}
    for tag in tags or ():
        key = tag.get("Key")
        if not key:
            raise AwsError("InvalidParameterValue", "Tag keys cannot be empty")
        if key in pairs or key in (before or {}):
            raise AwsError("InvalidParameterValue", f"Duplicate tag key '{key[:200]}' specified.")
        pairs[key] = tag.get("Value", "")
    return pairs


def _list_resources(request: ApiRequest) -> list[str]:
    """Returns the ids of a request, each once. Raises AwsError for none, too many, or an id of no
    kind that has tags."""
    ids = request.params["Resources"]
    if not ids:
        raise AwsError("MissingParameter", "The request must contain the parameter resourceIdSet")
    if len(ids) > MAX_RESOURCES:
        raise AwsError("InvalidParameterValue", f"A request has at most {MAX_RESOURCES} resources.")
    for resource_id in ids:
        if resource_id.partition("-")[0] not in KINDS or "-" not in resource_id:
            raise AwsError("InvalidID", f"The ID '{resource_id[:100]}' is not valid")
    return list(dict.fromkeys(ids))


def list_tagged(request: ApiRequest) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yields every resource that has tags: id, kind, and tags."""
    for volume in request.cache.volumes.fetch_table(request.lab).rows.values():
        yield volume["id"], "volume", volume["tags"]
    for snapshot in request.cache.snapshots.fetch_table(request.lab).rows.values():
        if snapshot["bin"] is None:
            yield snapshot["id"], "snapshot", snapshot["tags"]
    status = request.lab.status()
    yield status["instance_id"], "instance", status.get("instance_tags") or {}


def _list_permissions(request: ApiRequest) -> Iterator[Permission]:
    """Yields the permission that changing tags needs for each resource; its tags are unknown where
    the lab does not answer."""
    given = request.params.get("Tags") or ()
    set_tags = collect_request_tags({tag["Key"]: tag.get("Value", "") for tag in given if tag.get("Key")})
    try:
        tags_of = {name: tags for name, _, tags in list_tagged(request)}
    except HeadraceError:
        tags_of = {}
    for resource_id in request.params["Resources"]:
        kind = KINDS.get(resource_id.partition("-")[0], "*")
        context = {**set_tags, **collect_resource_tags(tags_of.get(resource_id, {}))}
        yield Permission(f"ec2:{request.operation}", request.make_arn(kind, resource_id), context)


@serves("ec2", "CreateTags", needs=_list_permissions)
def create_tags(request: ApiRequest) -> Members:
    """Adds or overwrites tags: of all resources, or of none."""
    tags = _read_pairs(request.params["Tags"])
    if not tags:
        raise AwsError("MissingParameter", "The request must contain the parameter Tag")
    request.change("resource.tag", resources=_list_resources(request), set=tags)
    return {}


@serves("ec2", "DeleteTags", needs=_list_permissions)
def delete_tags(request: ApiRequest) -> Members:
    """Removes tags: by key; by key and value; all of them where none is named."""
    ids, tags = _list_resources(request), request.params.get("Tags")
    _read_pairs(tags)
    if tags:
        keys = [tag["Key"] for tag in tags if "Value" not in tag]
        request.change(
            "resource.tag",
            resources=ids,
            remove=keys,
            remove_equal={tag["Key"]: tag["Value"] for tag in tags if "Value" in tag},
        )
        return {}
    keys = {key for name, _, tags in list_tagged(request) if name in ids for key in tags}
    request.change("resource.tag", resources=ids, remove=sorted(keys))
    return {}


@serves("ec2", "DescribeTags")
def describe_tags(request: ApiRequest) -> Members:
    """Lists every tag of every resource."""
    rows = [
        {"ResourceId": name, "ResourceType": kind, "Key": key, "Value": value}
        for name, kind, tags in list_tagged(request)
        for key, value in tags.items()
    ]
    value_readers = {
        "key": lambda row: row["Key"],
        "value": lambda row: row["Value"],
        "resource-id": lambda row: row["ResourceId"],
        "resource-type": lambda row: row["ResourceType"],
    }
    matching = filter_items(request, rows, value_readers, lambda row: {row["Key"]: row["Value"]})
    matching.sort(key=_make_sort_key)
    page, token = paging.cut_request_page(request, matching, _make_sort_key, paging.read_size(request.params, *PAGE))
    return {"Tags": page, "NextToken": token}


def _make_sort_key(row: Mapping[str, str]) -> str:
    return f"{row['ResourceId']}\n{row['Key']}"
