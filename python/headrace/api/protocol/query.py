"""Reads requests of the protocols ec2 and query: `Filter.1.Name=size&Filter.1.Value.1=500`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import cache
from typing import TypeAlias
from urllib.parse import parse_qsl

from headrace.api.errors import AwsError
from headrace.api.protocol import reading
from headrace.api.protocol.reading import Where, check_of
from headrace.api.protocol.shapes import Members, ModelShape, ShapeMember

# Parameters of a request. CSI drivers ask for up to 500 volumes by id, and a PutMetricData has at
# most 1,000 metrics of some ten parameters and 150 values each; a body of 1 MiB ends before this.
MAX_PARAMETERS = 200_000
# Parts of a name: the deepest of the served models (alarms over metrics with dimensions) has 12.
MAX_DEPTH = 20
# The last of a list, so that `Filter.999999999.Name` is not taken for one.
MAX_INDEX_DIGITS = 6

Tree: TypeAlias = "dict[str, str | Tree]"
Read = Callable[[object, Where], object]


def tree_of(text: bytes) -> Tree:
    """Returns the parameters of a form, nested by the dots of their names. Raises AwsError."""
    if not text:
        return {}
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except (UnicodeDecodeError, ValueError):
        raise AwsError("MalformedQueryString", "The query string is malformed.") from None
    root: Tree = {}
    for name, value in pairs:
        node, steps = root, name.split(".")
        if len(steps) > MAX_DEPTH:
            raise AwsError("UnknownParameter", f"The parameter {name[: reading.SHOWN]} is not recognized")
        for step in steps[:-1]:
            below = node.setdefault(step, {})
            # `Filter=` is how query writes an empty list; with elements after it, it is not one.
            if not isinstance(below, dict):
                raise AwsError("MalformedQueryString", f"{name[: reading.SHOWN]} is below a value.")
            node = below
        if steps[-1] in node:
            raise AwsError("MalformedQueryString", f"{name[: reading.SHOWN]} is there twice.")
        node[steps[-1]] = value
    return root


def capitalised(name: str) -> str:
    """Returns the name of `volumeId` in ec2's requests: `VolumeId`."""
    return name[:1].upper() + name[1:]


def request_name(member: ShapeMember, ec2: bool) -> str:
    """Returns the name of a member in a request."""
    facts = member.facts
    if ec2:
        return facts.get("queryName") or capitalised(facts.get("locationName", "")) or member.name
    return facts.get("locationName", member.name)


@cache
def reader(shape: ModelShape, service: str) -> Read:
    """Returns a function that reads a value of this shape; it raises AwsError. Shapes may contain
    themselves, so parts are made when met."""
    if shape.kind == "structure":
        return structure_reader(shape, service)
    if shape.kind == "list":
        return _list(shape, service)
    if shape.kind == "map":
        return _map(shape, service)
    return _scalar(shape, service)


@cache
def structure_reader(shape: ModelShape, service: str) -> Callable[[object, Where], Members]:
    """Returns a function that reads a structure of this shape; it raises AwsError."""
    ec2 = service == "ec2"
    by_name = {request_name(member, ec2): member for member in shape.members.values()}
    union = bool(shape.facts.get("union"))
    required = [(name, request_name(shape.members[name], ec2)) for name in shape.required]

    def read(node: object, place: Where) -> Members:
        if not isinstance(node, dict):
            # `TagSpecification.1=` names nothing in it.
            raise place.malformed(node, "a structure")
        members: Members = {}
        for key, below in node.items():
            member = by_name.get(key)
            if member is None:
                raise (place / key).unknown()
            members[member.name] = reader(member.shape, service)(below, place / key)
        for name, called in required:
            if name not in members:
                raise (place / called).missing()
        if union and len(members) != 1:
            raise place.malformed(", ".join(members), "exactly one of its members")
        return members

    return read


def _indexed(node: object, place: Where) -> list[tuple[str, object]]:
    """Returns the elements of a list in the order of their numbers."""
    if node == "":
        return []
    if not isinstance(node, dict):
        raise place.malformed(node, "a list: a number follows its name")
    for key in node:
        if not (key.isascii() and key.isdigit() and len(key) <= MAX_INDEX_DIGITS):
            raise (place / key).unknown()
    elements = sorted(node.items(), key=lambda pair: int(pair[0]))
    if len({int(key) for key in node}) < len(node):
        raise place.malformed("", "a list whose numbers differ")
    return elements


def _list(shape: ModelShape, service: str) -> Read:
    """Returns the reader of a list of this shape, whose elements have numbers for names."""
    item = shape.item
    inner = "" if service == "ec2" or shape.facts.get("flattened") else item.facts.get("locationName", "member")
    check = check_of(shape, service)

    def read(node: object, place: Where) -> list[object]:
        if inner and isinstance(node, dict):
            for key in node:
                if key != inner:
                    raise (place / key).unknown()
            node, place = node[inner], place / inner
        read_item = reader(item.shape, service)
        items = [read_item(below, place / key) for key, below in _indexed(node, place)]
        if check is not None:
            check(items, place)
        return items

    return read


def _map(shape: ModelShape, service: str) -> Read:
    """Returns the reader of a map of this shape, whose entries are numbered pairs of key and
    value."""
    inner = "" if shape.facts.get("flattened") else "entry"
    key_name, value_name = shape.key.facts.get("locationName", "key"), shape.value.facts.get("locationName", "value")

    def read(node: object, place: Where) -> Members:
        if inner and isinstance(node, dict):
            for key in node:
                if key != inner:
                    raise (place / key).unknown()
            node, place = node[inner], place / inner
        pairs: Members = {}
        for index, pair in _indexed(node, place):
            here = place / index
            if not isinstance(pair, dict) or set(pair) != {key_name, value_name}:
                raise here.malformed(pair, f"an entry with {key_name} and {value_name}")
            key = reader(shape.key.shape, service)(pair[key_name], here / key_name)
            pairs[str(key)] = reader(shape.value.shape, service)(pair[value_name], here / value_name)
        return pairs

    return read


def _blob(value: str, place: Where) -> bytes:
    """Returns the bytes of a text in base64. Raises AwsError."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise place.malformed(value, "base64") from None


def _scalar(shape: ModelShape, service: str) -> Read:
    """Returns the reader of a value that has no parts, which also checks the bounds of the
    shape."""
    kind, check = shape.kind, check_of(shape, service)
    convert: Callable[[str, Where], object] = {
        "string": reading.text,
        "boolean": reading.truth_of_text,
        "integer": lambda value, place: reading.whole_of_text(value, "integer", place),
        "long": lambda value, place: reading.whole_of_text(value, "long", place),
        "float": reading.number_of_text,
        "double": reading.number_of_text,
        "timestamp": reading.moment,
        "blob": _blob,
    }[kind]

    def read(node: object, place: Where) -> object:
        if isinstance(node, dict):
            raise place.malformed(next(iter(node)), f"a value and not a structure: {kind}")
        value = convert(str(node), place)
        if check is not None:
            check(value, place)
        return value

    return read
