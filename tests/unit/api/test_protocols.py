"""Every protocol, both ways, against botocore's own serializers and parsers: random values of every served operation."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from api_values import bare, botocore_model, every_operation, values
from botocore.awsrequest import HeadersDict, prepare_request_dict
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.api.errors import AwsError
from headrace.api.protocol import wire
from headrace.api.protocol.shapes import get_service

EVERY = every_operation()
# A few values of each: there are 125 pairs of operation and protocol. `make soak` draws more by its profile.
FEW = settings(
    max_examples=max(5, settings().max_examples // 25),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def incoming(name: str, operation: str, protocol: str, params: dict[str, Any]) -> wire.Incoming:
    """The request that botocore sends for these parameters."""
    model = botocore_model(name)
    request = create_serializer(protocol, False).serialize_to_request(params, model.operation_model(operation))
    prepare_request_dict(request, "http://127.0.0.1:9465")
    body = request["body"]
    if isinstance(body, dict):
        body = urlencode(body)
    raw = body.encode() if isinstance(body, str) else bytes(body)
    parts = urlsplit(request["url"])
    headers = {key.lower(): value for key, value in request["headers"].items()}
    if protocol in ("ec2", "query"):
        headers["content-type"] = wire.FORM
    return wire.Incoming(request["method"], parts.path, parts.query, headers, raw)


def read(name: str, came: wire.Incoming) -> tuple[wire.Format, dict[str, Any]]:
    result = wire.identify(came, get_service(name).signing_name)
    return result, result.read(result.get_operation())


def same(entry: Any, other: Any) -> bool:
    """Equal; numbers with a fraction as equal as the text of the wire lets them be."""
    if isinstance(entry, dict) and isinstance(other, dict):
        return entry.keys() == other.keys() and all(same(entry[key], other[key]) for key in entry)
    if isinstance(entry, list) and isinstance(other, list):
        return len(entry) == len(other) and all(map(same, entry, other))
    if isinstance(entry, float) and not isinstance(other, bool):
        return entry == other
    if isinstance(entry, datetime) and isinstance(other, datetime):
        return abs(entry.timestamp() - other.timestamp()) < 1.0  # forms and headers have whole seconds
    return type(entry) is type(other) and entry == other


@pytest.mark.parametrize(("name", "operation", "protocol"), EVERY)
def test_a_request_of_botocore_is_read_as_it_was_meant(name, operation, protocol):
    shape = get_service(name).operations[operation].input

    @FEW
    @given(values(shape, protocol in ("ec2", "query")))
    def check(params):
        result, got = read(name, incoming(name, operation, protocol, params))
        assert (result.service.name, result.action) == (name, operation)
        assert same(bare(got), bare(params)), (got, params)

    check()


@pytest.mark.parametrize(("name", "operation", "protocol"), EVERY)
def test_an_answer_is_read_by_botocore_as_it_was_meant(name, operation, protocol):
    reference = get_service(name).operations[operation]
    model = botocore_model(name).operation_model(operation)
    parser = create_parser(protocol)
    spoken = _format(name, operation, protocol)

    @FEW
    @given(values(reference.output))
    def check(result):
        answer = spoken.answer(reference, result, "id-1")
        headers, body = HeadersDict(answer.headers), answer.body
        body = io.BytesIO(body) if model.has_streaming_output else body
        got = parser.parse({"status_code": answer.status, "headers": headers, "body": body}, model.output_shape)
        got.pop("ResponseMetadata", None)
        payload = reference.output.facts.get("payload")
        if payload and hasattr(got.get(payload), "read"):
            got[payload] = got[payload].read() or None
            result = {key: value or None if key == payload else value for key, value in result.items()}
        assert same(bare(got), bare(result)), (got, result)

    check()


def _format(name: str, operation: str, protocol: str) -> wire.Format:
    of = get_service(name)
    if protocol in ("ec2", "query"):
        return wire.QueryFormat(of, {"Action": operation, "Version": of.version})
    if protocol == "json":
        return wire.JsonFormat(of, operation, b"", "application/x-amz-json-1.1")
    if protocol == "smithy-rpc-v2-cbor":
        return wire.CborFormat(of, operation, b"")
    return wire.RestFormat(of, wire.Incoming("GET", "/snapshots", "", {}, b""))


@pytest.mark.parametrize(("name", "operation", "protocol"), EVERY)
@settings(max_examples=5)
@given(text=st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), min_size=1))
def test_an_error_is_read_by_botocore(name, operation, protocol, text):
    """An error keeps its code, its sentence and its status; for the newer protocols of CloudWatch
    it has the code that query answers have."""
    model = botocore_model(name).operation_model(operation)
    spoken = _format(name, operation, protocol)
    codes = ["SomethingElse", *get_service(name).errors]
    for code in codes:
        answer = spoken.answer_error(AwsError(code, text), "id-1")
        headers = {key.lower(): value for key, value in answer.headers}
        got = create_parser(protocol).parse(
            {"status_code": answer.status, "headers": headers, "body": answer.body}, model.output_shape
        )
        shape = get_service(name).errors.get(code)
        expected = code
        if shape is not None:
            query_code = shape.facts.get("error", {}).get("code", shape.name)
            expected = query_code if protocol == "query" or get_service(name).query_compatible else shape.name
        assert got["Error"]["Code"] == expected
        assert got["Error"]["Message"] == text
        # Modelled errors have statuses of their own, some of them 5xx; all others are the caller's.
        assert got["ResponseMetadata"]["HTTPStatusCode"] == answer.status >= 400
        assert shape is not None or answer.status == 400


def form(text: str) -> wire.Incoming:
    return wire.Incoming("POST", "/", "", {"content-type": wire.FORM}, text.encode())


EC2 = "Version=2016-11-15&Action="


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (EC2 + "DescribeVolumes&Nothing=1", "UnknownParameter", "The parameter Nothing is not recognized"),
        (EC2 + "DescribeVolumes&Filter.1.Nome=x", "UnknownParameter", "The parameter Filter.1.Nome"),
        (EC2 + "DescribeVolumes&Filter.x.Name=x", "UnknownParameter", "The parameter Filter.x"),
        (EC2 + "DeleteVolume", "MissingParameter", "The request must contain the parameter VolumeId"),
        (EC2 + "CreateVolume&Size=five", "InvalidParameterValue", "Invalid value 'five' for Size"),
        (EC2 + "CreateVolume&Size=99999999999", "InvalidParameterValue", "from -2147483648 to 2147483647"),
        (EC2 + "CreateVolume&Encrypted=yes", "InvalidParameterValue", "true or false"),
        (EC2 + "CreateVolume&Size.1=5", "InvalidParameterValue", "Size"),
        (EC2 + "CreateVolume&TagSpecification.1.ResourceType=nothing", "InvalidParameterValue", "enum value set"),
        (EC2 + "DescribeVolumes&VolumeId.1=a&VolumeId.01=b", "InvalidParameterValue", "numbers differ"),
        (EC2 + "DescribeVolumes&VolumeId.9999999=a", "UnknownParameter", "VolumeId.9999999"),
        (EC2 + "DescribeVolumes&MaxResults=5&MaxResults=6", "MalformedQueryString", "MaxResults is there twice"),
        (EC2 + "DescribeVolumes&VolumeId=%ff", "MalformedQueryString", "malformed"),
        (EC2 + "DescribeVolumes&Filter.1.Name=a%01", "InvalidParameterValue", "control characters"),
        (EC2 + "DescribeVolumes&" + ".".join("a" * 30) + "=1", "UnknownParameter", "a.a.a"),
        (EC2 + "NoSuchCall", "InvalidAction", "The action NoSuchCall is not valid"),
        ("Version=2016-11-15", "InvalidAction", "(none)"),
        (EC2 + "DescribeVpcs", "UnsupportedOperation", "DescribeVpcs is not supported"),
        (EC2 + "RunInstances&ImageId=x", "UnsupportedOperation", "starts no others"),
        ("Version=2014-01-01&Action=DescribeVolumes", "NoSuchVersion", "2014-01-01"),
    ],
)
def test_what_is_wrong_with_a_request_of_ec2_is_said(body, code, message):
    with pytest.raises(AwsError) as raised:
        read("ec2", form(body))
    assert raised.value.code == code and message in raised.value.message
    assert raised.value.status is None or raised.value.status < 500


def json_request(target: str, body: bytes, kind: str = "application/x-amz-json-1.1") -> wire.Incoming:
    return wire.Incoming("POST", "/", "", {"content-type": kind, "x-amz-target": target}, body)


@pytest.mark.parametrize(
    ("name", "came", "code"),
    [
        ("kms", json_request("TrentService.DescribeKey", b"{}"), "ValidationException"),
        ("kms", json_request("TrentService.DescribeKey", b'{"KeyId": 5}'), "SerializationException"),
        ("kms", json_request("TrentService.DescribeKey", b'{"KeyId": ""}'), "ValidationException"),
        ("kms", json_request("TrentService.DescribeKey", b'{"KeyId": "a", "More": 1}'), "ValidationException"),
        ("kms", json_request("TrentService.DescribeKey", b"[1]"), "SerializationException"),
        ("kms", json_request("TrentService.DescribeKey", b'{"KeyId": '), "SerializationException"),
        ("kms", json_request("TrentService.DescribeKey", b"[" * 100_000), "SerializationException"),
        ("kms", json_request("TrentService.NoSuchCall", b"{}"), "UnknownOperationException"),
        ("kms", json_request("TrentService.ImportKeyMaterial", b"{}"), "UnsupportedOperationException"),
        ("kms", json_request("", b"{}"), "UnknownOperationException"),
        ("cloudwatch", json_request("GraniteServiceVersion20100801.PutDashboard", b"{}"), "UnsupportedOperation"),
        (
            "cloudwatch",
            json_request("GraniteServiceVersion20100801.ListMetrics", b'{"Namespace": ""}'),
            "ValidationError",
        ),
    ],
)
def test_what_is_wrong_with_a_request_of_json_is_said(name, came, code):
    with pytest.raises(AwsError) as raised:
        read(name, came)
    assert raised.value.code == code


def cbor_request(body: bytes, operation: str = "ListMetrics") -> wire.Incoming:
    path = f"/service/GraniteServiceVersion20100801/operation/{operation}"
    return wire.Incoming("POST", path, "", {"smithy-protocol": "rpc-v2-cbor"}, body)


@pytest.mark.parametrize(
    "body",
    [
        b"\xa1",  # a map that ends before its key
        b"\x81\x01",  # a list
        b"\xa1\x69Namespace\xc2\x42\x01\x00",  # a bignum
        b"\xa1\x69Namespace\xd8\x23\x61a",  # a regular expression
        b"\xd8\x1c\xa1\x69Namespace\xd8\x1d\x00",  # a shared reference to itself
        b"\xa1\x69Namespace" + b"\x81" * 5_000 + b"\x01",  # nested too deeply
        b"\xa1\x69Namespace\xfb\x7f\xf0\x00\x00\x00\x00\x00\x00",  # infinite
        b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",  # a map that says it is as long as memory
        b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff",  # bytes that say so
    ],
)
def test_cbor_that_is_not_plain_is_refused(body):
    with pytest.raises(AwsError) as raised:
        read("cloudwatch", cbor_request(body))
    assert raised.value.code in ("SerializationException", "InvalidParameterValue")


def test_a_service_of_cbor_that_is_not_here_is_refused():
    came = wire.Incoming("POST", "/service/Other/operation/Do", "", {"smithy-protocol": "rpc-v2-cbor"}, b"")
    with pytest.raises(AwsError) as raised:
        read("cloudwatch", came)
    assert raised.value.code == "UnknownOperationException"


@pytest.mark.parametrize(
    ("method", "path", "query", "code"),
    [
        ("GET", "/snapshots/snap-0/blocks", "maxResults=x", "SerializationException"),
        ("GET", "/snapshots/snap-0/blocks", "more=1", "ValidationException"),
        ("GET", "/snapshots/snap-01234567/blocks/0", "", "ValidationException"),
        ("GET", "/snapshots", "", "UnknownOperationException"),
        ("DELETE", "/snapshots/snap-0/blocks", "", "UnknownOperationException"),
        ("GET", "/snapshots/a/b/blocks", "", "UnknownOperationException"),
    ],
)
def test_what_is_wrong_with_a_request_of_rest_json_is_said(method, path, query, code):
    with pytest.raises(AwsError) as raised:
        read("ebs", wire.Incoming(method, path, query, {}, b""))
    assert raised.value.code == code
