"""Gives a service's operations and shapes from its pruned model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal, Required, TypedDict

import msgspec

from headrace.base.packaged import read_rows

# Members of a request or an answer by name: of which kinds they are says the operation's model,
# and the protocols check it.
Members = dict[str, Any]
SERVICES = ("ec2", "cloudwatch", "kms", "sts", "ebs")
MODELS = files("headrace.api") / "models"


# Types of a pruned service model, in botocore's words; `packaging/prune_models.py` writes it.
class ShapeReference(TypedDict, total=False):
    """A use of a shape: its name, and the place and the names of the value."""

    shape: Required[str]
    location: str
    locationName: str
    queryName: str


class ErrorFacts(TypedDict, total=False):
    """The code of an error in query answers, and its HTTP status."""

    code: str
    httpStatusCode: int


class ShapeFacts(TypedDict, total=False):
    """A shape: its type, its parts and its bounds."""

    type: Required[str]
    members: dict[str, ShapeReference]
    required: list[str]
    member: ShapeReference
    key: ShapeReference
    value: ShapeReference
    min: float
    max: float
    pattern: str
    enum: list[str]
    union: bool
    flattened: bool
    payload: str
    exception: bool
    error: ErrorFacts


class HttpFacts(TypedDict, total=False):
    """The HTTP request of an operation."""

    method: Required[str]
    requestUri: Required[str]
    responseCode: int


class OperationFacts(TypedDict, total=False):
    """An operation."""

    http: Required[HttpFacts]
    input: ShapeReference
    output: ShapeReference
    errors: list[ShapeReference]
    filters: list[str]
    authtype: str


class ServiceFacts(TypedDict, total=False):
    """A service."""

    endpointPrefix: Required[str]
    apiVersion: Required[str]
    protocols: Required[list[str]]
    xmlNamespace: str
    targetPrefix: str
    jsonVersion: str
    awsQueryCompatible: dict[str, object]


class ModelFile(TypedDict):
    """The whole file. `others`: names of operations that are not served."""

    metadata: ServiceFacts
    others: list[str]
    operations: dict[str, OperationFacts]
    shapes: dict[str, ShapeFacts]


@dataclass(frozen=True)
class ShapeMember:
    """A member of a structure: its name, its shape, and what the model says of its place."""

    name: str
    shape: ModelShape
    facts: ShapeReference

    @property
    def location(self) -> str:
        """The place of the member: `uri`, `querystring`, `header`, or "" for the body."""
        return self.facts.get("location", "")

    @property
    def wire_name(self) -> str:
        """The name of the member outside of ec2's requests."""
        return self.facts.get("locationName", self.name)


class ModelShape:
    """A shape of the model. Parts are looked up when they are first needed: shapes may contain
    themselves."""

    def __init__(self, service: ServiceModel, name: str, facts: ShapeFacts) -> None:
        self._service = service
        self.name = name
        self.facts = facts
        self.kind: str = facts["type"]
        self.required: tuple[str, ...] = tuple(facts.get("required", ()))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"

    @cached_property
    def members(self) -> dict[str, ShapeMember]:
        """The members of a structure."""
        given = self.facts.get("members", {})
        return {
            name: ShapeMember(name, self._service.get_shape(facts["shape"]), facts) for name, facts in given.items()
        }

    def _get_part(self, key: Literal["member", "key", "value"]) -> ShapeMember:
        facts = self.facts.get(key)
        assert facts is not None, f"{self} has no {key}"
        return ShapeMember(key, self._service.get_shape(facts["shape"]), facts)

    @cached_property
    def item(self) -> ShapeMember:
        """The member of a list."""
        return self._get_part("member")

    @cached_property
    def key(self) -> ShapeMember:
        """The keys of a map."""
        return self._get_part("key")

    @cached_property
    def value(self) -> ShapeMember:
        """The values of a map."""
        return self._get_part("value")


@dataclass(frozen=True)
class Operation:
    """A served operation. `input` and `output` are structures without members where the model has
    none.
    """

    name: str
    input: ModelShape
    output: ModelShape
    method: str
    path: str
    status: int
    # The signature does not cover the body (Signature Version 4, UNSIGNED-PAYLOAD).
    unsigned_body: bool
    # Names that its parameter Filters takes, except those of tags.
    filters: frozenset[str]
    # Names of the errors that the model has for it.
    errors: tuple[str, ...]


class ServiceModel:
    """A service by its pruned model."""

    def __init__(self, name: str, model: ModelFile) -> None:
        facts = model["metadata"]
        self.name = name
        self.signing_name: str = facts["endpointPrefix"]
        self.version: str = facts["apiVersion"]
        self.namespace: str = facts.get("xmlNamespace", "")
        self.target_prefix: str = facts.get("targetPrefix", "")
        self.json_version: str = facts.get("jsonVersion", "1.0")
        self.protocols: tuple[str, ...] = tuple(facts["protocols"])
        self.query_compatible = "awsQueryCompatible" in facts
        self.others: frozenset[str] = frozenset(model["others"])
        self._given = model["shapes"]
        self._shapes: dict[str, ModelShape] = {}
        self.operations = {key: self._build_operation(key, facts) for key, facts in model["operations"].items()}
        self.errors: dict[str, ModelShape] = {}
        for shape_name, shape in self._given.items():
            if shape.get("exception"):
                # By its name and by the code that query answers have for it.
                for code in (shape_name, shape.get("error", {}).get("code", shape_name)):
                    self.errors[code] = self.get_shape(shape_name)

    def get_shape(self, name: str) -> ModelShape:
        """Returns a shape by its name, always the same object."""
        if name not in self._shapes:
            self._shapes[name] = ModelShape(self, name, self._given[name])
        return self._shapes[name]

    def _build_operation(self, name: str, facts: OperationFacts) -> Operation:
        """Returns an operation by the model's facts; one without input or output has an empty
        structure."""
        http = facts["http"]

        def get_structure(which: Literal["input", "output"]) -> ModelShape:
            if (reference := facts.get(which)) is not None:
                return self.get_shape(reference["shape"])
            return ModelShape(self, f"{name}{which.title()}", {"type": "structure", "members": {}})

        return Operation(
            name,
            get_structure("input"),
            get_structure("output"),
            http["method"],
            http["requestUri"],
            http.get("responseCode", 200),
            facts.get("authtype") == "v4-unsigned-body",
            frozenset(facts.get("filters", ())),
            tuple(error["shape"] for error in facts.get("errors", ())),
        )


@cache
def get_service(name: str) -> ServiceModel:
    """Returns a served service by botocore's name for it; cached."""
    return ServiceModel(name, msgspec.json.decode((MODELS / f"{name}.json").read_bytes()))


@cache
def read_refused_operations() -> dict[tuple[str, str], str]:
    """Returns the reasons of operations that are refused with one, by service and operation."""
    rows = read_rows("headrace.api", "models", "operations.csv")
    return {(row["service"], row["operation"]): row["why"] for row in rows if row["answer"] == "refused"}
