"""Signatures against botocore's signer: what it signs is accepted, and anything changed afterwards is not."""

from __future__ import annotations

import copy
import dataclasses
import os
import random
import string
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from headrace.api.access import signature
from headrace.api.access.signature import BadSignature, read_claim, verify
from headrace.lab.http_server import Incoming

KEY, SECRET = "LABKAAAABBBBCCCCDDDD", "s3cr3t/with+signs=and~more"
HOST = "127.0.0.1:9465"
# Tampered requests, and how many of each signed one.
TAMPERED, EACH = int(os.environ.get("TAMPERED", "10000")), 25
UNRESERVED = string.ascii_letters + string.digits + "-._~"


def random_text(chance: random.Random, letters: str, most: int) -> str:
    return "".join(chance.choice(letters) for _ in range(chance.randint(0, most)))


def signed(chance: random.Random, service: str = "ec2", presigned: bool = False) -> Incoming:
    """A request that botocore signed now, with an odd path, query, headers and body."""
    odd = UNRESERVED + ' +/%&=?#"<>é日\t'
    path = "/" + "/".join(quote(random_text(chance, odd, 8), safe="") for _ in range(chance.randint(0, 3)))
    if chance.random() < 0.2:
        path += chance.choice(["/", "//", "/./a", "/../b", "/a/../c/"])
    pairs = [
        (quote(random_text(chance, odd, 6), safe=""), quote(random_text(chance, odd, 6), safe=""))
        for _ in range(chance.randint(0, 4))
    ]
    query = "&".join(f"{name}={value}" for name, value in pairs if name)
    method = "GET" if presigned else chance.choice(["GET", "POST", "PUT"])
    body = b"" if method == "GET" else chance.randbytes(chance.randint(0, 300))
    headers = {"Content-Type": chance.choice(["application/x-www-form-urlencoded", "application/x-amz-json-1.0"])}
    for number in range(chance.randint(0, 3)):
        headers[f"X-Amz-Odd{number}"] = "a" + random_text(chance, string.ascii_letters + "  ,;=", 12) + "z"
    if presigned:
        headers = {}
    url = f"http://{HOST}{path}" + (f"?{query}" if query else "")
    request = AWSRequest(method, url, data=body, headers=headers)
    kind = SigV4QueryAuth if presigned else SigV4Auth
    kind(Credentials(KEY, SECRET), service, "eu-west-1").add_auth(request)
    parts = urlsplit(request.url)
    hosts = {name.lower(): value for name, value in request.headers.items()}
    hosts["host"] = HOST
    return Incoming(method, parts.path, parts.query, hosts, body)


def secret_of(key: str) -> str | None:
    return SECRET if key == KEY else None


def accepted(incoming: Incoming, now: datetime | None = None, unsigned_body: bool = False) -> bool:
    try:
        verify(read_claim(incoming), incoming, secret_of, now or datetime.now(UTC), unsigned_body)
    except BadSignature:
        return False
    return True


@pytest.mark.parametrize("presigned", [False, True])
def test_what_botocore_signs_is_accepted(presigned):
    chance = random.Random(1)
    for _ in range(200):
        incoming = signed(chance, presigned=presigned)
        assert accepted(incoming), incoming


def flipped(text: str, chance: random.Random) -> str:
    """One character replaced by another."""
    at = chance.randrange(len(text))
    letters = [letter for letter in UNRESERVED if letter.lower() != text[at].lower()]
    return text[:at] + chance.choice(letters) + text[at + 1 :]


def tampered(good: Incoming, chance: random.Random) -> Incoming:
    """The request with one thing changed that means something."""
    result = copy.deepcopy(good)
    changes = ["method", "path", "query", "body", "header", "new header", "authorization", "host", "gone"]
    match chance.choice(changes):
        case "method":
            result.method = chance.choice([entry for entry in ("GET", "POST", "PUT", "DELETE") if entry != good.method])
        case "path":
            result.path = good.path + chance.choice("abc") if chance.random() < 0.5 else "/x" + good.path
        case "query":
            result.query = (
                f"{good.query}&more=1" if chance.random() < 0.5 or not good.query else flipped(good.query, chance)
            )
        case "body":
            at = chance.randint(0, len(good.body))
            result.body = good.body[:at] + chance.randbytes(1) + good.body[at:]
        case "header":
            name = chance.choice([header for header in good.headers if header not in ("authorization",)])
            result.headers[name] = flipped(good.headers[name], chance)
        case "new header":
            result.headers[f"x-amz-{random_text(chance, string.ascii_lowercase, 5)}new"] = "1"
        case "authorization":
            if "authorization" in good.headers:
                result.headers["authorization"] = flipped(good.headers["authorization"], chance)
            else:
                result.query = flipped(good.query, chance)
        case "host":
            result.headers["host"] = "127.0.0.1:9466"
        case "gone":
            del result.headers[chance.choice(list(result.headers))]
    return result


def meant(incoming: Incoming) -> tuple:
    """Returns the parts of a request that the signature covers: two requests with the same parts
    are the same request."""
    claim = None
    try:
        claim = read_claim(incoming)
    except BadSignature:
        return (id(incoming),)
    names = {name: incoming.headers.get(name) for name in claim.signed}
    return incoming.method, signature._normalise_path(incoming.path), incoming.query, incoming.body, names, claim


def test_tampered_requests_are_refused():
    chance = random.Random(2)
    seen = 0
    while seen < TAMPERED:
        good = signed(chance, presigned=chance.random() < 0.3)
        assert accepted(good)
        for _ in range(EACH):
            bad = tampered(good, chance)
            # Content-Type of GET and the like may be unsigned; nothing that is covered was changed then.
            if meant(bad) == meant(good):
                continue
            assert not accepted(bad), (good, bad)
            seen += 1


def refusal(incoming: Incoming, now: datetime | None = None) -> BadSignature:
    with pytest.raises(BadSignature) as raised:
        verify(read_claim(incoming), incoming, secret_of, now or datetime.now(UTC))
    return raised.value


@pytest.mark.parametrize(
    ("ahead", "which"),
    [
        (timedelta(minutes=16), signature.EXPIRED),
        (timedelta(minutes=-16), signature.EXPIRED),
        (timedelta(days=400), signature.EXPIRED),
    ],
)
def test_a_request_is_good_for_fifteen_minutes(ahead, which):
    good = signed(random.Random(3))
    now = datetime.now(UTC)
    assert accepted(good, now + timedelta(minutes=14)) and accepted(good, now - timedelta(minutes=14))
    assert refusal(good, now + ahead).which == which


def test_a_presigned_request_is_good_for_as_long_as_it_says():
    good = signed(random.Random(4), presigned=True)
    now = datetime.now(UTC)
    assert accepted(good, now + timedelta(minutes=59))  # botocore's default is an hour
    assert refusal(good, now + timedelta(minutes=61)).which == signature.EXPIRED
    longer = dataclasses.replace(good, query=good.query.replace("X-Amz-Expires=3600", "X-Amz-Expires=700000"))
    assert refusal(longer).which == signature.MALFORMED


def with_header(good: Incoming, **headers: str | None) -> Incoming:
    result = dataclasses.replace(good, headers=dict(good.headers))
    for name, value in headers.items():
        if value is None:
            del result.headers[name.replace("_", "-")]
        else:
            result.headers[name.replace("_", "-")] = value
    return result


def test_what_is_wrong_is_told_apart():
    good = signed(random.Random(5))
    authorization = good.headers["authorization"]
    assert refusal(with_header(good, authorization=None)).which == signature.MISSING
    assert refusal(with_header(good, authorization="Basic abc")).which == signature.MALFORMED
    assert refusal(with_header(good, authorization=authorization.replace(KEY, "LABKZZZZ"))).which == signature.UNKNOWN
    assert refusal(with_header(good, authorization=f"{authorization}, {authorization}")).which == signature.MALFORMED
    assert refusal(with_header(good, x_amz_date="yesterday")).which == signature.MALFORMED
    assert refusal(with_header(good, x_amz_security_token="t")).which == signature.UNKNOWN
    assert refusal(with_header(good, x_amz_content_sha256="UNSIGNED-PAYLOAD")).which == signature.WRONG
    other_day = authorization.replace(good.headers["x-amz-date"][:8], "20200101")
    assert refusal(with_header(good, authorization=other_day)).which == signature.WRONG
    for changed in (
        authorization.replace("aws4_request", "aws4"),
        authorization.replace("/ec2/", "//"),
        authorization.replace("host;", "host;host;"),
    ):
        assert refusal(with_header(good, authorization=changed)).which == signature.MALFORMED


def test_a_body_may_be_left_out_of_the_signature_only_where_the_operation_says_so():
    body = b"block"
    request = AWSRequest("PUT", f"https://{HOST}/snapshots/snap-0/blocks/0", data=body)
    request.context["payload_signing_enabled"] = False
    request.headers["x-amz-content-sha256"] = "UNSIGNED-PAYLOAD"
    SigV4Auth(Credentials(KEY, SECRET), "ebs", "eu-west-1").add_auth(request)
    headers = {name.lower(): value for name, value in request.headers.items()} | {"host": HOST}
    incoming = Incoming("PUT", "/snapshots/snap-0/blocks/0", "", headers, body)
    assert accepted(incoming, unsigned_body=True)
    assert not accepted(incoming)


@pytest.mark.parametrize(
    ("service", "which", "code", "status"),
    [
        ("ec2", signature.MISSING, "MissingAuthenticationToken", 403),
        ("ec2", signature.UNKNOWN, "AuthFailure", 401),
        ("ec2", signature.WRONG, "SignatureDoesNotMatch", 403),
        ("ec2", signature.EXPIRED, "RequestExpired", 400),
        ("sts", signature.UNKNOWN, "InvalidClientTokenId", 403),
        ("cloudwatch", signature.WRONG, "SignatureDoesNotMatch", 403),
        ("kms", signature.UNKNOWN, "UnrecognizedClientException", 400),
        ("ebs", signature.WRONG, "InvalidSignatureException", 400),
    ],
)
def test_each_service_says_it_in_its_own_words(service, which, code, status):
    error = BadSignature(which, "said").as_aws(service)
    assert (error.code, error.status, error.message) == (code, status, "said")
