"""Finds the service, operation and protocol of a request, and writes answers and errors in that
protocol."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import cache, lru_cache

import cbor2
import msgspec

from headrace.api.errors import STATUS, AwsError
from headrace.api.protocol import documents, query, rest, xml
from headrace.api.protocol.reading import Where
from headrace.api.protocol.shapes import (
    SERVICES,
    Members,
    Operation,
    ServiceModel,
    get_service,
    read_refused_operations,
)
from headrace.lab.http_server import Answer, Incoming

FORM = "application/x-www-form-urlencoded"
CBOR_PATH = re.compile(r"/service/([A-Za-z0-9]+)/operation/([A-Za-z0-9]+)")
# Begins the signature's fields in the query of a presigned request (Signature Version 4).
SIGNATURE_PREFIX = "X-Amz-"
# Names of services in signatures that are kept. A guess: clients sign for five.
SIGNING_NAMES = 64


class Format(ABC):
    """A request in a protocol: its operation, and the form of its answer."""

    protocol: str

    def __init__(self, service: ServiceModel, action: str) -> None:
        self.service = service
        self.action = action

    @property
    def no_action(self) -> str:
        """The code for an operation that does not exist."""
        return "UnknownOperationException"

    def get_operation(self) -> Operation:
        """Returns the operation of the request. Raises AwsError."""
        served = self.service.operations.get(self.action)
        if served is None:
            raise self._refuse_unserved()
        return served

    def _refuse_unserved(self) -> AwsError:
        """Returns UnsupportedOperation for a call that AWS has and the lab does not. The status is
        never 5xx: clients would try again."""
        if self.action in self.service.others:
            why = read_refused_operations().get((self.service.name, self.action), "the lab does not serve it")
            code = "UnsupportedOperationException" if self.service.name == "kms" else "UnsupportedOperation"
            return AwsError(code, f"The operation {self.action} is not supported: {why}.")
        return AwsError(
            self.no_action, f"The action {self.action[:100] or '(none)'} is not valid for this web service."
        )

    @abstractmethod
    def read(self, operation: Operation) -> Members:
        """Returns the parameters by the model's names. Raises AwsError."""

    @abstractmethod
    def answer(self, operation: Operation, result: Members, request_id: str) -> Answer:
        """Returns the answer to a success."""

    def answer_error(self, error: AwsError, request_id: str) -> Answer:
        """Returns the answer to a refusal."""
        shape = self.service.errors.get(error.code)
        given = {} if shape is None else shape.facts.get("error", {})
        status = error.status or STATUS.get(error.code) or given.get("httpStatusCode", 400)
        name = error.code if shape is None else shape.name
        message_keys = [key for key in (shape.members if shape else {}) if key.lower() == "message"]
        body = {"__type": name, (message_keys[0] if message_keys else "message"): error.message}
        if shape is not None:
            extra = {key: value for key, value in error.members.items() if key in shape.members}
            body |= documents.encode_value(shape, extra, isinstance(self, CborFormat))
        return self._build_refusal(error, status, name, given.get("code", error.code), body, request_id)

    @abstractmethod
    def _build_refusal(
        self, error: AwsError, status: int, name: str, query_code: str, body: Members, request_id: str
    ) -> Answer: ...

    def _list_query_error_headers(self, query_code: str, status: int) -> list[tuple[str, str]]:
        """Returns the header by which newer clients find the code that query answers have."""
        if not self.service.query_compatible:
            return []
        return [("x-amzn-query-error", f"{query_code};{'Sender' if status < 500 else 'Receiver'}")]


class QueryFormat(Format):
    """ec2 and query: parameters of a form."""

    protocol = "query"

    def __init__(self, service: ServiceModel, tree: query.Tree) -> None:
        action = tree.pop("Action", "")
        super().__init__(service, action if isinstance(action, str) else "")
        self._version = tree.pop("Version", "")
        self._tree = tree

    @property
    def no_action(self) -> str:
        """EC2's and query's code for an operation that does not exist."""
        return "InvalidAction"

    def get_operation(self) -> Operation:
        """Returns the operation, of the service's one version."""
        if self._version != self.service.version:
            raise AwsError(
                "NoSuchVersion",
                f"The requested version ({str(self._version)[:40]}) of service {self.service.name} does not exist; "
                f"the version is {self.service.version}",
            )
        return super().get_operation()

    def read(self, operation: Operation) -> Members:
        """Returns the parameters of the form."""
        return query.make_structure_reader(operation.input, self.service.name)(self._tree, Where(self.service.name))

    def answer(self, operation: Operation, result: Members, request_id: str) -> Answer:
        """Returns the answer as XML."""
        body = xml.answer(self.service, operation, result, request_id)
        return Answer(200, body, [("Content-Type", "text/xml;charset=UTF-8")])

    def _build_refusal(
        self, error: AwsError, status: int, name: str, query_code: str, body: Members, request_id: str
    ) -> Answer:
        text = xml.answer_error(self.service, query_code, error.message, status < 500, request_id)
        return Answer(status, text, [("Content-Type", "text/xml;charset=UTF-8")])


class JsonFormat(Format):
    """awsJson 1.0 and 1.1."""

    protocol = "json"

    def __init__(self, service: ServiceModel, action: str, body: bytes, content_type: str) -> None:
        super().__init__(service, action)
        self._body, self._type = body, content_type

    def read(self, operation: Operation) -> Members:
        """Returns the parameters of the JSON body."""
        read = documents.make_structure_reader(operation.input, self.service.name, False)
        return read(documents.parse_json(self._body), Where(self.service.name))

    def answer(self, operation: Operation, result: Members, request_id: str) -> Answer:
        """Returns the answer as JSON."""
        return Answer(200, documents.write_json(operation.output, result), [("Content-Type", self._type)])

    def _build_refusal(
        self, error: AwsError, status: int, name: str, query_code: str, body: Members, request_id: str
    ) -> Answer:
        headers = [("Content-Type", self._type), *self._list_query_error_headers(query_code, status)]
        return Answer(status, msgspec.json.encode(body), headers)


class CborFormat(Format):
    """Smithy's rpc-v2-cbor."""

    protocol = "cbor"

    def __init__(self, service: ServiceModel, action: str, body: bytes) -> None:
        super().__init__(service, action)
        self._body = body

    def read(self, operation: Operation) -> Members:
        """Returns the parameters of the CBOR body."""
        read = documents.make_structure_reader(operation.input, self.service.name, True)
        return read(documents.parse_cbor(self._body), Where(self.service.name))

    def answer(self, operation: Operation, result: Members, request_id: str) -> Answer:
        """Returns the answer as CBOR."""
        return Answer(200, documents.write_cbor(operation.output, result), self._list_headers())

    def _list_headers(self) -> list[tuple[str, str]]:
        return [("Content-Type", "application/cbor"), ("smithy-protocol", "rpc-v2-cbor")]

    def _build_refusal(
        self, error: AwsError, status: int, name: str, query_code: str, body: Members, request_id: str
    ) -> Answer:
        headers = [*self._list_headers(), *self._list_query_error_headers(query_code, status)]
        return Answer(status, cbor2.dumps(body, datetime_as_timestamp=True), headers)


class RestFormat(Format):
    """rest-json."""

    protocol = "rest-json"

    def __init__(self, service: ServiceModel, incoming: Incoming) -> None:
        match = rest.find_route(service, incoming.method, incoming.path)
        super().__init__(service, match[0].name if match else f"{incoming.method} {incoming.path}")
        self._labels = match[1] if match else {}
        self._incoming = incoming

    def read(self, operation: Operation) -> Members:
        """Returns the parameters of path, query, headers and body."""
        incoming = self._incoming
        return rest.read(self.service, operation, self._labels, incoming.query, incoming.headers, incoming.body)

    def answer(self, operation: Operation, result: Members, request_id: str) -> Answer:
        """Returns the answer as JSON or as the bytes themselves, with members in headers."""
        headers, body = rest.answer(operation, result)
        return Answer(operation.status, body, headers)

    def _build_refusal(
        self, error: AwsError, status: int, name: str, query_code: str, body: Members, request_id: str
    ) -> Answer:
        headers = [("Content-Type", "application/json"), ("x-amzn-ErrorType", name)]
        return Answer(status, msgspec.json.encode(body), headers)


def identify(incoming: Incoming, signing_name: str) -> Format:
    """Returns a request in its protocol, with service and operation; a malformed form is refused by
    `get_operation`. `signing_name`: the service that the signature names, "" for none."""
    content_type = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    target = incoming.headers.get("x-amz-target", "")
    if content_type.startswith("application/x-amz-json-1."):
        prefix, _, action = target.partition(".")
        if (service := _find_target(prefix)) is None:
            service, action = get_service(_find_service_name(signing_name) or "kms"), target
        return JsonFormat(service, action, incoming.body, content_type)
    if match := CBOR_PATH.fullmatch(incoming.path):
        service, is_cbor = _find_target(match[1]), incoming.headers.get("smithy-protocol") == "rpc-v2-cbor"
        if service is None or not service.query_compatible or not is_cbor:
            return CborFormat(get_service("cloudwatch"), f"{match[1]}.{match[2]}", b"")
        return CborFormat(service, match[2], incoming.body)
    named = _find_service_name(signing_name)
    if named == "ebs" or (not named and incoming.path.startswith("/snapshots")):
        return RestFormat(get_service("ebs"), incoming)
    return _identify_form(incoming, named, content_type)


def _identify_form(incoming: Incoming, named: str | None, content_type: str) -> Format:
    """Returns the format of a request in parameters, of query string and form together. `named`:
    the service in the signature, None: by its version."""
    text = incoming.query.encode("ascii", "replace")
    if incoming.method == "POST" and content_type == FORM:
        text = b"&".join(part for part in (text, incoming.body) if part)
    try:
        tree = query.parse_tree(text)
    except AwsError as error:
        return _Unreadable(get_service(named or "ec2"), error)
    for name in [name for name in tree if name.startswith(SIGNATURE_PREFIX)]:
        del tree[name]
    if named is None:
        version = tree.get("Version")
        named = next((candidate.name for candidate in _list_services() if candidate.version == version), "ec2")
    return QueryFormat(get_service(named), tree)


class _Unreadable(QueryFormat):
    """A malformed form: it is refused once the signature is verified."""

    def __init__(self, service: ServiceModel, error: AwsError) -> None:
        super().__init__(service, {})
        self._error = error

    def get_operation(self) -> Operation:
        raise self._error


@cache
def _list_services() -> tuple[ServiceModel, ...]:
    return tuple(get_service(name) for name in SERVICES)


def _find_target(prefix: str) -> ServiceModel | None:
    """Returns the service whose operations have this prefix in X-Amz-Target; None for "", too."""
    return next((service for service in _list_services() if prefix and service.target_prefix == prefix), None)


@lru_cache(maxsize=SIGNING_NAMES)
def _find_service_name(signing_name: str) -> str | None:
    return next((candidate.name for candidate in _list_services() if candidate.signing_name == signing_name), None)
