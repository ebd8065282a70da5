"""Requests of botocore and what mischief makes of them."""

from __future__ import annotations

import random
import string
from typing import Any
from urllib.parse import quote_plus

from api_values import botocore_model, every_operation
from botocore.awsrequest import prepare_request_dict
from botocore.serialize import create_serializer

from headrace.api.protocol import wire
from headrace.api.protocol.shapes import ModelShape, get_service

ODD = [
    "",
    "0",
    "-1",
    "1e400",
    "nan",
    "true",
    "\x00",
    "'\"<&>",
    "*",
    "vol-",
    "é\U0001f600",
    "9" * 30,
    "x" * 3000,
    "a\\",
    "${a}",
]
NOISE = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b"&",
    b"=",
    b".",
    b"1",
    b"\x9f",
    b"[",
    b"{",
    b"%",
    b"%zz",
    b"\xd8\x1c",
    b"\x81" * 40,
]


def fitting(shape: ModelShape, chance: random.Random, words: list[str], depth: int = 0) -> Any:
    """A value of the shape's type, mostly one that means something."""
    facts, kind = shape.facts, shape.kind
    if kind == "structure":
        names = [name for name in shape.members if name in shape.required or chance.random() < 0.25]
        return {name: fitting(shape.members[name].shape, chance, words, depth + 1) for name in names}
    if kind == "list":
        return [fitting(shape.item.shape, chance, words, depth + 1) for _ in range(chance.randint(0, 2))]
    if kind == "map":
        return {chance.choice(words): fitting(shape.value.shape, chance, words, depth + 1)}
    if "enum" in facts and chance.random() < 0.9:
        return chance.choice(facts["enum"])
    if kind == "string":
        return chance.choice(words if chance.random() < 0.8 else ODD)
    if kind in ("integer", "long"):
        return chance.choice([0, 1, 5, 8, 100, 3000, -1, 70_000, (1 << 31) - 1])
    if kind in ("double", "float"):
        return chance.choice([0.0, 1.5, -1e300, 1e-300])
    if kind == "boolean":
        return chance.random() < 0.3
    if kind == "timestamp":
        return chance.choice(["2026-01-01T00:00:00Z", 0, 1_800_000_000])
    return chance.randbytes(chance.randint(0, 40))


def request_of(name: str, operation: str, protocol: str, params: dict[str, Any]) -> wire.Incoming:
    """The request that botocore would send, unsigned. It does not check values, and some it cannot send."""
    model = botocore_model(name)
    request = create_serializer(protocol, False).serialize_to_request(params, model.operation_model(operation))
    prepare_request_dict(request, "http://127.0.0.1:9465")
    body, headers = request["body"], {key.lower(): str(value) for key, value in request["headers"].items()}
    if isinstance(body, dict):
        body = "&".join(f"{quote_plus(str(key))}={quote_plus(str(value))}" for key, value in body.items())
    if protocol in ("ec2", "query"):
        headers["content-type"] = wire.FORM
    path, _, query = request["url"].removeprefix("http://127.0.0.1:9465").partition("?")
    return wire.Incoming(
        request["method"], path, query, headers, body.encode() if isinstance(body, str) else bytes(body)
    )


def mutated(good: wire.Incoming, chance: random.Random) -> wire.Incoming:
    """The request with some bytes of it changed."""
    request = wire.Incoming(good.method, good.path, good.query, dict(good.headers), good.body)
    for _ in range(chance.choice([0, 0, 1, 1, 2, 5])):
        what = chance.random()
        if what < 0.7:
            at, cut = chance.randint(0, len(request.body)), chance.choice([0, 0, 1, 3, 50])
            request.body = request.body[:at] + chance.choice(NOISE) + request.body[at + cut :]
        elif what < 0.8:
            request.path = chance.choice(
                [request.path + "/x", "/", "//", request.path[:-1] or "/", "/snapshots/%00/blocks", "/%ff"]
            )
        elif what < 0.9:
            more = chance.choice(
                ["Action=DeleteVolume", "a=%ff", "X-Amz-Signature=0", "maxResults=x", "&&&", "=", "a.b=1"]
            )
            request.query = f"{request.query}&{more}"
        else:
            name = chance.choice(["content-type", "x-amz-target", "smithy-protocol", "content-encoding"])
            request.headers[name] = chance.choice(
                ["", "gzip", wire.FORM, "application/x-amz-json-1.1", "TrentService.Sign", "x"]
            )
    if chance.random() < 0.02:
        request.method = chance.choice(["GET", "PUT", "DELETE", "HEAD"])
    return request


class Mischief:
    """An endless row of requests over all services, operations and protocols."""

    def __init__(self, seed: int, words: list[str], leave_out: frozenset[str] = frozenset()) -> None:
        self.chance = random.Random(seed)
        self.words = [*words, *("Name", "owner", "size", "gp3", "us-east-1a", "a*", string.ascii_letters)]
        self.every = [operation for operation in every_operation() if operation[1] not in leave_out]

    def next(self) -> tuple[str, wire.Incoming]:
        """(service, request)."""
        while True:
            name, operation, protocol = self.chance.choice(self.every)
            params = fitting(get_service(name).operations[operation].input, self.chance, self.words)
            try:
                good = request_of(name, operation, protocol, params)
            except Exception:
                continue  # botocore cannot send it: a label of a path that is empty, a time that is none
            return name, mutated(good, self.chance)
