"""Reads and writes requests and answers that are one document: awsJson, the bodies of rest-json,
and CBOR."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, NoReturn

import cbor2
import msgspec

from headrace.api.errors import AwsError
from headrace.api.protocol import reading
from headrace.api.protocol.reading import Where, make_check
from headrace.api.protocol.shapes import Members, ModelShape

# Nesting of a CBOR document: the deepest of the served models has 8 levels. A guess with room.
MAX_DEPTH = 32
# Tags of CBOR that cbor2 would make objects of (bignums, regular expressions, shared references and
# the like): a request has times (tag 1) and no others. From cbor2's list of semantic decoders.
_OBJECT_TAGS = (
    *range(2, 6), 25, *range(28, 31), *range(35, 38), 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799,
)  # fmt: skip

Read = Callable[[object, Where], object]


def _refuse_objects(*_: object) -> NoReturn:
    raise ValueError("a tag other than that of times")


_TAGS = {0: _refuse_objects} | dict.fromkeys(_OBJECT_TAGS, _refuse_objects)


def parse_json(body: bytes) -> Members:
    """Returns the object of a JSON body; nothing is an empty one. Raises AwsError."""
    return _parse_object(body, msgspec.json.decode)


def parse_cbor(body: bytes) -> Members:
    """Returns the map of a CBOR body; nothing is an empty one. Raises AwsError."""
    return _parse_object(body, _decode_cbor)


def _decode_cbor(body: bytes) -> object:
    return cbor2.loads(body, tag_hook=_refuse_objects, semantic_decoders=_TAGS, max_depth=MAX_DEPTH)


def _parse_object(body: bytes, decode: Callable[[bytes], object]) -> Members:
    """Returns the object that `decode` reads from a body; nothing is an empty one. Raises AwsError
    for anything else."""
    if not body:
        return {}
    try:
        document = decode(body)
    except (ValueError, TypeError, RecursionError, OverflowError, cbor2.CBORError, msgspec.DecodeError):
        raise AwsError("SerializationException", "The body of the request is not a document of this protocol") from None
    if not isinstance(document, dict):
        raise AwsError("SerializationException", "The body of the request is not an object")
    return document


@cache
def make_reader(shape: ModelShape, service: str, binary: bool) -> Read:
    """Returns a function that reads a value of this shape out of JSON, or out of CBOR (`binary`);
    it raises AwsError."""
    if shape.kind == "structure":
        return make_structure_reader(shape, service, binary)
    if shape.kind == "list":
        return _make_list_reader(shape, service, binary)
    if shape.kind == "map":
        return _make_map_reader(shape, service, binary)
    return _make_scalar_reader(shape, service, binary)


@cache
def make_structure_reader(shape: ModelShape, service: str, binary: bool) -> Callable[[object, Where], Members]:
    """Returns a function that reads a structure of this shape out of JSON, or out of CBOR
    (`binary`); it raises AwsError."""
    union = bool(shape.facts.get("union"))
    by_name = {member.wire_name: member for member in shape.members.values()}

    def read(node: object, place: Where) -> Members:
        if not isinstance(node, dict):
            raise place.refuse_malformed(node, "an object")
        members: Members = {}
        for key, below in node.items():
            member = by_name.get(key) if isinstance(key, str) else None
            if member is None:
                raise (place / key).refuse_unknown()
            if below is not None:
                members[member.name] = make_reader(member.shape, service, binary)(below, place / key)
        for name in shape.required:
            if name not in members and not shape.members[name].location:
                raise (place / shape.members[name].wire_name).refuse_missing()
        if union and len(members) != 1:
            raise place.refuse_malformed(", ".join(members), "exactly one of its members")
        return members

    return read


def _make_list_reader(shape: ModelShape, service: str, binary: bool) -> Read:
    """Returns the reader of a list of this shape."""
    check = make_check(shape, service)

    def read(node: object, place: Where) -> list[object]:
        if not isinstance(node, list):
            raise place.refuse_malformed(node, "a list")
        read_item = make_reader(shape.item.shape, service, binary)
        items = [read_item(below, place / index) for index, below in enumerate(node, 1)]
        if check is not None:
            check(items, place)
        return items

    return read


def _make_map_reader(shape: ModelShape, service: str, binary: bool) -> Read:
    """Returns the reader of a map of this shape; keys become texts."""
    check = make_check(shape, service)

    def read(node: object, place: Where) -> Members:
        if not isinstance(node, dict):
            raise place.refuse_malformed(node, "an object")
        read_key = make_reader(shape.key.shape, service, binary)
        read_value = make_reader(shape.value.shape, service, binary)
        pairs: Members = {
            str(read_key(key, place / "key")): read_value(value, place / key) for key, value in node.items()
        }
        if check is not None:
            check(pairs, place)
        return pairs

    return read


def _read_text(node: object, place: Where) -> str:
    if not isinstance(node, str):
        raise place.refuse_malformed(node, "text")
    return reading.check_text(node, place)


def _read_truth(node: object, place: Where) -> bool:
    if not isinstance(node, bool):
        raise place.refuse_malformed(node, "true or false")
    return node


def _read_number(node: object, place: Where) -> float:
    """Returns a finite number. Raises AwsError for anything else, true and false too."""
    if isinstance(node, bool) or not isinstance(node, int | float):
        raise place.refuse_malformed(node, "a number")
    try:
        number = float(node)
    except OverflowError:
        raise place.refuse_malformed("a large number", "a finite number") from None
    if number != number or number in (float("inf"), float("-inf")):
        raise place.refuse_malformed(node, "a finite number")
    return number


def _read_json_blob(node: object, place: Where) -> bytes:
    """Returns the bytes of a text in base64. Raises AwsError."""
    if not isinstance(node, str):
        raise place.refuse_malformed(node, "base64")
    try:
        return base64.b64decode(node, validate=True)
    except (binascii.Error, ValueError):
        raise place.refuse_malformed("a text", "base64") from None


def _read_cbor_blob(node: object, place: Where) -> bytes:
    if not isinstance(node, bytes):
        raise place.refuse_malformed(node, "bytes")
    return node


def _make_scalar_reader(shape: ModelShape, service: str, binary: bool) -> Read:
    """Returns the reader of a value that has no parts, which also checks the bounds of the
    shape."""
    kind, check = shape.kind, make_check(shape, service)
    convert: Read = {
        "string": _read_text,
        "boolean": _read_truth,
        "integer": lambda node, place: reading.check_whole(node, "integer", place),
        "long": lambda node, place: reading.check_whole(node, "long", place),
        "float": _read_number,
        "double": _read_number,
        "timestamp": reading.read_moment,
        "blob": _read_cbor_blob if binary else _read_json_blob,
    }[kind]
    if check is None:
        return convert
    checked = check

    def read(node: object, place: Where) -> object:
        value = convert(node, place)
        checked(value, place)
        return value

    return read


def encode_value(shape: ModelShape, value: Any, binary: bool) -> Any:
    """Returns a value of this shape for a JSON document, or for CBOR (`binary`), with the model's
    names on the wire; members that are None are left out."""
    kind = shape.kind
    if kind == "structure":
        members = shape.members
        return {
            members[name].wire_name: encode_value(members[name].shape, below, binary)
            for name, below in value.items()
            if below is not None
        }
    if kind == "list":
        item = shape.item.shape
        return [encode_value(item, below, binary) for below in value]
    if kind == "map":
        return {key: encode_value(shape.value.shape, below, binary) for key, below in value.items()}
    if kind == "timestamp":
        return value if binary else _count_seconds(value)
    if kind == "blob":
        return value if binary else base64.b64encode(value).decode("ascii")
    return float(value) if kind in ("double", "float") else value


def _count_seconds(moment: datetime) -> float | int:
    """Returns the seconds since 1970, to the millisecond."""
    rounded = round(moment.timestamp(), 3)
    return int(rounded) if rounded == int(rounded) else rounded


def write_json(shape: ModelShape, value: Members) -> bytes:
    """Returns an answer of this shape in JSON."""
    return msgspec.json.encode(encode_value(shape, value, False))


def write_cbor(shape: ModelShape, value: Members) -> bytes:
    """Returns an answer of this shape in CBOR; times have tag 1."""
    return cbor2.dumps(encode_value(shape, value, True), datetime_as_timestamp=True)
