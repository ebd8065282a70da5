"""Reads rest-json: finds the operation of a method and a path, and reads members from path, query,
headers and body."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from urllib.parse import parse_qsl, unquote

from headrace.api.errors import AwsError
from headrace.api.protocol import documents, query
from headrace.api.protocol.reading import Where
from headrace.api.protocol.shapes import Members, ModelShape, Operation, ServiceModel, ShapeMember

# Parameters of a rest-json request's query: the served operations have five. A guess with room.
MAX_PARAMETERS = 50


@dataclass(frozen=True)
class Route:
    """An operation by its method and path."""

    operation: Operation
    pattern: re.Pattern[str]


@cache
def list_routes(service: ServiceModel) -> tuple[Route, ...]:
    """Returns the served operations of a rest-json service."""
    all_routes = []
    for operation in service.operations.values():
        parts = re.split(r"\{(\w+)\}", operation.path)
        text = "".join(f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
        all_routes.append(Route(operation, re.compile(text)))
    return tuple(all_routes)


def find_route(service: ServiceModel, method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
    """Returns the operation of a method and path, and the values of the path's labels; None where
    there is none."""
    for candidate in list_routes(service):
        if candidate.operation.method == method and (match := candidate.pattern.fullmatch(path)):
            return candidate.operation, match.groupdict()
    return None


def read(
    service: ServiceModel,
    operation: Operation,
    labels: dict[str, str],
    query_text: str,
    headers: dict[str, str],
    body: bytes,
) -> Members:
    """Returns the parameters of a request. Raises AwsError."""
    shape, root = operation.input, Where(service.name)
    arguments = _parse_query(query_text)
    parameters: Members = {}
    for member in shape.members.values():
        given = None
        if member.location == "uri":
            given = unquote(labels[member.wire_name])
        elif member.location == "querystring":
            given = arguments.pop(member.wire_name, None)
        elif member.location == "header":
            given = headers.get(member.wire_name.lower())
        if given is not None:
            parameters[member.name] = query.make_reader(member.shape, service.name)(given, root / member.wire_name)
    for name in arguments:
        raise (root / name).refuse_unknown()
    payload = shape.facts.get("payload")
    if payload:
        parameters[payload] = body
    elif any(not member.location for member in shape.members.values()):
        parameters |= documents.make_structure_reader(_make_body_shape(shape), service.name, False)(
            documents.parse_json(body), root
        )
    elif body:
        raise AwsError("ValidationException", f"{operation.name} has no body")
    for name in shape.required:
        if name not in parameters:
            raise (root / shape.members[name].wire_name).refuse_missing()
    return parameters


@cache
def _make_body_shape(shape: ModelShape) -> ModelShape:
    """Returns the structure of the members in the body."""
    members = {name: member.facts for name, member in shape.members.items() if not member.location}
    required = [name for name in shape.required if name in members]
    return ModelShape(shape._service, f"{shape.name}Body", {**shape.facts, "members": members, "required": required})


def _parse_query(text: str) -> dict[str, str]:
    """Returns the parameters of a query string, without the signature's. Raises AwsError for a
    malformed one or a repeated name."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except (UnicodeDecodeError, ValueError):
        raise AwsError("ValidationException", "The query string is malformed") from None
    # The signature's fields of a presigned request are not parameters.
    pairs = [pair for pair in pairs if not pair[0].startswith("X-Amz-")]
    if len({name for name, _ in pairs}) < len(pairs):
        raise AwsError("ValidationException", "A parameter is there twice")
    return dict(pairs)


def answer(operation: Operation, result: Members) -> tuple[list[tuple[str, str]], bytes]:
    """Returns headers and body of a success."""
    shape = operation.output
    headers, rest = [], {}
    payload = shape.facts.get("payload")
    for name, value in result.items():
        member = shape.members[name]
        if value is None:
            continue
        if member.location == "header":
            headers.append((member.wire_name, _format_header(member, value)))
        elif name != payload:
            rest[name] = value
    if payload:
        headers.append(("Content-Type", "application/octet-stream"))
        return headers, bytes(result.get(payload, b""))
    headers.append(("Content-Type", "application/json"))
    return headers, documents.write_json(shape, rest)


def _format_header(member: ShapeMember, value: object) -> str:
    """Returns a member's value as a header has it."""
    if member.shape.kind == "boolean":
        return "true" if value else "false"
    return str(value)
