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
from headrace.api.protocol.reading import Where, make_check
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


def parse_tree(text: bytes) -> Tree:
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


def capitalise(name: str) -> str:
    """Returns a name with its first letter in upper case, as in ec2's requests: `VolumeId`."""
    return name[:1].upper() + name[1:]


def get_request_name(member: ShapeMember, ec2: bool) -> str:
    """Returns the name of a member in a request of ec2 (`ec2`) or of query."""
    facts = member.facts
    if ec2:
        return facts.get("queryName") or capitalise(facts.get("locationName", "")) or member.name
    return facts.get("locationName", member.name)


@cache
def make_reader(shape: ModelShape, service: str) -> Read:
    """Returns a function that reads a value of this shape; it raises AwsError. Shapes may contain
    themselves, so the readers of parts are made when they are first used."""
    if shape.kind == "structure":
        return make_structure_reader(shape, service)
    if shape.kind == "list":
        return _make_list_reader(shape, service)
    if shape.kind == "map":
        return _make_map_reader(shape, service)
    return _make_scalar_reader(shape, service)


@cache
def make_structure_reader(shape: ModelShape, service: str) -> Callable[[object, Where], Members]:
    """Returns a function that reads a structure of this shape; it raises AwsError."""
    ec2 = service == "ec2"
    by_name = {get_request_name(member, ec2): member for member in shape.members.values()}
    union = bool(shape.facts.get("union"))
    required = [(name, get_request_name(shape.members[name], ec2)) for name in shape.required]

    def read(node: object, place: Where) -> Members:
        if not isinstance(node, dict):
            # `TagSpecification.1=` names nothing in it.
            raise place.refuse_malformed(node, "a structure")
        members: Members = {}
        for key, below in node.items():
            member = by_name.get(key)
            if member is None:
                raise (place / key).refuse_unknown()
            members[member.name] = make_reader(member.shape, service)(below, place / key)
        for name, called in required:
            if name not in members:
                raise (place / called).refuse_missing()
        if union and len(members) != 1:
            raise place.refuse_malformed(", ".join(members), "exactly one of its members")
        return members

    return read


def _list_elements(node: object, place: Where) -> list[tuple[str, object]]:
    """Returns the elements of a list in the order of their numbers."""
    if node == "":
        return []
    if not isinstance(node, dict):
        raise place.refuse_malformed(node, "a list: a number follows its name")
    for key in node:
        if not (key.isascii() and key.isdigit() and len(key) <= MAX_INDEX_DIGITS):
            raise (place / key).refuse_unknown()
    elements = sorted(node.items(), key=lambda pair: int(pair[0]))
    if len({int(key) for key in node}) < len(node):
        raise place.refuse_malformed("", "a list whose numbers differ")
    return elements


def _make_list_reader(shape: ModelShape, service: str) -> Read:
    """Returns the reader of a list of this shape, whose elements have numbers for names."""
    item = shape.item
    inner = "" if service == "ec2" or shape.facts.get("flattened") else item.facts.get("locationName", "member")
    check = make_check(shape, service)

    def read(node: object, place: Where) -> list[object]:
        if inner and isinstance(node, dict):
            for key in node:
                if key != inner:
                    raise (place / key).refuse_unknown()
            node, place = node[inner], place / inner
        read_item = make_reader(item.shape, service)
        items = [read_item(below, place / key) for key, below in _list_elements(node, place)]
        if check is not None:
            check(items, place)
        return items

    return read


def _make_map_reader(shape: ModelShape, service: str) -> Read:
    """Returns the reader of a map of this shape, whose entries are numbered pairs of key and
    value."""
    inner = "" if shape.facts.get("flattened") else "entry"
    key_name, value_name = shape.key.facts.get("locationName", "key"), shape.value.facts.get("locationName", "value")

    def read(node: object, place: Where) -> Members:
        if inner and isinstance(node, dict):
            for key in node:
                if key != inner:
                    raise (place / key).refuse_unknown()
            node, place = node[inner], place / inner
        pairs: Members = {}
        for index, pair in _list_elements(node, place):
            here = place / index
            if not isinstance(pair, dict) or set(pair) != {key_name, value_name}:
                raise here.refuse_malformed(pair, f"an entry with {key_name} and {value_name}")
            key = make_reader(shape.key.shape, service)(pair[key_name], here / key_name)
            pairs[str(key)] = make_reader(shape.value.shape, service)(pair[value_name], here / value_name)
        return pairs

    return read


def _read_blob(value: str, place: Where) -> bytes:
    """Returns the bytes of a text in base64. Raises AwsError."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise place.refuse_malformed(value, "base64") from None


def _make_scalar_reader(shape: ModelShape, service: str) -> Read:
    """Returns the reader of a value that has no parts, which also checks the bounds of the
    shape."""
    kind, check = shape.kind, make_check(shape, service)
    convert: Callable[[str, Where], object] = {
        "string": reading.check_text,
        "boolean": reading.read_truth,
        "integer": lambda value, place: reading.read_whole(value, "integer", place),
        "long": lambda value, place: reading.read_whole(value, "long", place),
        "float": reading.read_number,
        "double": reading.read_number,
        "timestamp": reading.read_moment,
        "blob": _read_blob,
    }[kind]

    def read(node: object, place: Where) -> object:
        if isinstance(node, dict):
            raise place.refuse_malformed(next(iter(node)), f"a value and not a structure: {kind}")
        value = convert(str(node), place)
        if check is not None:
            check(value, place)
        return value

    return read
