"""Writes answers of the protocols ec2 and query."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from headrace.api.protocol.shapes import Members, ModelShape, Operation, ServiceModel

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
# Number of cached texts in XML: the same zones, types and owners stand in every answer. A guess:
# those of some thousand volumes.
MOST_TEXTS = 8192
# Number of cached times in text: those of some thousand volumes and snapshots. A guess.
TIMES = 16_384
Put = Callable[[str], None]
Write = Callable[[Any, Put], None]
Scalar = Callable[[Any], str]

_SPECIAL = re.compile("[&<>\r\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}


@lru_cache(maxsize=MOST_TEXTS)
def escape_text(text: str) -> str:
    """Returns a text for a place between tags. Characters that XML 1.0 does not have become
    U+FFFD."""
    if _SPECIAL.search(text) is None:
        return text
    return _SPECIAL.sub(lambda match: _ESCAPED.get(match[0], "\ufffd"), text)


@lru_cache(maxsize=TIMES)
def format_time(moment: datetime) -> str:
    """Returns a time in the form of EC2 and CloudWatch: UTC with milliseconds."""
    moment = moment.astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


# Most numbers of an answer are small and come again: sizes, IOPS, MiB/s.
@lru_cache(maxsize=MOST_TEXTS)
def _write_whole(value: int) -> str:
    return str(int(value))


def _write_number(value: float) -> str:
    return repr(float(value)) if isinstance(value, float) else str(int(value))


SCALARS: dict[str, Scalar] = {
    "string": escape_text,
    "boolean": lambda value: "true" if value else "false",
    "integer": _write_whole,
    "long": _write_whole,
    "float": _write_number,
    "double": _write_number,
    "timestamp": format_time,
    "blob": lambda value: base64.b64encode(value).decode("ascii"),
}


class CachedStructure(Members):
    """A structure that stands in the same list of many answers. `text`: its XML, once it was
    written, so nobody may change its members.
    """

    __slots__ = ("text",)


class _StructureWriter:
    """Writes the members of a structure that have values. The tags and the writer of each member
    are determined when it is first written."""

    def __init__(self, shape: ModelShape, ec2: bool) -> None:
        self._shape, self._ec2 = shape, ec2
        self._table: dict[str, tuple[str, str, Scalar | None, Write | None]] = {}

    def _learn(self, name: str) -> tuple[str, str, Scalar | None, Write | None]:
        """Returns start tag, end tag and the writer of a member's value (of a value without parts,
        or of any other), and caches them."""
        member = self._shape.members[name]
        tag, shape = member.wire_name, member.shape
        scalar = SCALARS.get(shape.kind)
        write = None if scalar is not None else make_writer(shape, self._ec2)
        if shape.kind in ("list", "map") and shape.facts.get("flattened"):
            # The list's elements carry the member's name themselves.
            write = _make_flattened_writer(shape, tag, self._ec2)
            entry = ("", "", None, write)
        else:
            entry = (f"<{tag}>", f"</{tag}>", scalar, write)
        self._table[name] = entry
        return entry

    def __call__(self, value: Members, put: Put) -> None:
        """Writes each member that has a value, through `put`."""
        table = self._table
        for name, below in value.items():
            if below is None:
                continue
            start, end, scalar, write = table.get(name) or self._learn(name)
            if scalar is not None:
                put(f"{start}{scalar(below)}{end}")
            elif write is not None:
                put(start)
                write(below, put)
                put(end)


def _make_list_writer(shape: ModelShape, ec2: bool, tag: str) -> Write:
    """Returns the writer of a list whose elements stand in `tag`."""
    item = shape.item.shape
    start, end = f"<{tag}>", f"</{tag}>"
    scalar = SCALARS.get(item.kind)

    def write(values: list[Members], put: Put) -> None:
        if scalar is not None:
            for value in values:
                put(f"{start}{scalar(value)}{end}")
            return
        write_item = make_writer(item, ec2)
        for value in values:
            if type(value) is CachedStructure:
                put(render(value))
                continue
            put(start)
            write_item(value, put)
            put(end)

    def render(value: CachedStructure) -> str:
        try:
            return value.text
        except AttributeError:
            parts: list[str] = []
            make_writer(item, ec2)(value, parts.append)
            value.text = f"{start}{''.join(parts)}{end}"
            return value.text

    return write


def _make_map_writer(shape: ModelShape, ec2: bool, tag: str) -> Write:
    """Returns the writer of a map whose entries stand in `tag`."""
    key_tag, value_tag = shape.key.facts.get("locationName", "key"), shape.value.facts.get("locationName", "value")

    def write(values: Members, put: Put) -> None:
        for key, value in values.items():
            put(f"<{tag}><{key_tag}>{SCALARS[shape.key.shape.kind](key)}</{key_tag}><{value_tag}>")
            make_writer(shape.value.shape, ec2)(value, put)
            put(f"</{value_tag}></{tag}>")

    return write


def _make_flattened_writer(shape: ModelShape, tag: str, ec2: bool) -> Write:
    return _make_list_writer(shape, ec2, tag) if shape.kind == "list" else _make_map_writer(shape, ec2, tag)


@cache
def make_writer(shape: ModelShape, ec2: bool) -> Write:
    """Returns a function that writes a value of this shape."""
    if shape.kind == "structure":
        return _StructureWriter(shape, ec2)
    if shape.kind == "list":
        return _make_list_writer(shape, ec2, shape.item.facts.get("locationName", "item" if ec2 else "member"))
    if shape.kind == "map":
        return _make_map_writer(shape, ec2, "entry")
    scalar = SCALARS[shape.kind]
    return lambda value, put: put(scalar(value))


def answer(service: ServiceModel, operation: Operation, result: Members, request_id: str) -> bytes:
    """Returns the answer to a success in ec2 or query."""
    parts: list[str] = [DECLARATION]
    put, name, ec2 = parts.append, operation.name, service.name == "ec2"
    namespace = service.namespace if not ec2 else f"{service.namespace}/"
    put(f'<{name}Response xmlns="{namespace}">')
    if ec2:
        put(f"<requestId>{request_id}</requestId>")
        make_writer(operation.output, True)(result, put)
    else:
        put(f"<{name}Result>")
        make_writer(operation.output, False)(result, put)
        put(f"</{name}Result><ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>")
    put(f"</{name}Response>")
    return "".join(parts).encode()


def answer_error(service: ServiceModel, code: str, message: str, sender: bool, request_id: str) -> bytes:
    """Returns the answer to a refusal in ec2 or query."""
    code, message = escape_text(code), escape_text(message)
    if service.name == "ec2":
        text = (
            f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
            f"<RequestID>{request_id}</RequestID></Response>"
        )
    else:
        text = (
            f'<ErrorResponse xmlns="{service.namespace}"><Error><Type>{"Sender" if sender else "Receiver"}</Type>'
            f"<Code>{code}</Code><Message>{message}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
        )
    return (DECLARATION + text).encode()
