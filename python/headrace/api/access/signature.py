"""Checks Signature Version 4: who sent a request, and that nobody changed it.

The rules are those of "AWS Signature Version 4 for API requests" in the IAM guide. Path, query and
body are taken as they came over the wire.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from urllib.parse import quote, unquote

from headrace.api.errors import AwsError
from headrace.lab.http_server import Incoming

ALGORITHM = "AWS4-HMAC-SHA256"
# Most difference between a request's date and now (IAM guide: 15 minutes).
WINDOW = timedelta(minutes=15)
# The longest that a presigned request may be good for, in seconds (IAM guide: 7 days).
LONGEST_S = 604_800
UNSIGNED = "UNSIGNED-PAYLOAD"
# Derived keys that are kept: one for each key pair, day, region and service. A guess with room.
DERIVED_KEYS = 256
# Characters of a credential, and headers that are signed. Guesses with room: SDKs sign about ten.
MAX_CREDENTIAL = 256
MAX_SIGNED_HEADERS = 100

_HEADER = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=([^,\s]+)\s*,\s*SignedHeaders=([^,\s]+)\s*,\s*Signature=([0-9a-f]{64})\s*", re.ASCII
)
_SCOPE = re.compile(r"([\w-]{1,128})/(\d{8})/([a-z0-9-]{1,40})/([a-z0-9-]{1,40})/aws4_request", re.ASCII)
_DATE = re.compile(r"\d{8}T\d{6}Z", re.ASCII)

# Codes of each kind of service for a refused signature:
# (no signature, unknown key, wrong signature, out of date, malformed).
_EC2 = ("MissingAuthenticationToken", "AuthFailure", "SignatureDoesNotMatch", "RequestExpired", "AuthFailure")
_QUERY = (
    "MissingAuthenticationToken", "InvalidClientTokenId", "SignatureDoesNotMatch", "SignatureDoesNotMatch", "IncompleteSignature",
)  # fmt: skip
_JSON = (
    "MissingAuthenticationTokenException", "UnrecognizedClientException", "InvalidSignatureException", "InvalidSignatureException",
    "IncompleteSignatureException",
)  # fmt: skip
CODES = {"ec2": _EC2, "cloudwatch": _QUERY, "sts": _QUERY, "kms": _JSON, "ebs": _JSON}
MISSING, UNKNOWN, WRONG, EXPIRED, MALFORMED = range(5)
_MESSAGES = (
    "Request is missing Authentication Token",
    "The security token included in the request is invalid: the lab has no such access key",
    "The request signature we calculated does not match the signature you provided. "
    "Check your AWS Secret Access Key and signing method.",
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The signature that a request claims, before any of it is verified."""

    access_key: str
    day: str
    region: str
    service: str
    signed: tuple[str, ...]
    signature: str
    date: str
    # Seconds that a presigned request is good for; None: the signature stands in a header.
    expires_s: int | None

    @property
    def scope(self) -> str:
        """The credential's scope."""
        return f"{self.day}/{self.region}/{self.service}/aws4_request"


class BadSignature(Exception):
    """A request whose signature is refused. `which`: one of MISSING to MALFORMED."""

    def __init__(self, which: int, message: str = "") -> None:
        super().__init__(message)
        self.which = which
        self.message = message or _MESSAGES[which]

    def as_aws(self, service: str) -> AwsError:
        """Returns the error of this service."""
        code = CODES[service][self.which]
        status = 401 if code == "AuthFailure" else 400 if service in ("kms", "ebs") or code == "RequestExpired" else 403
        return AwsError(code, self.message, status)


def read_claim(incoming: Incoming) -> Claim:
    """Returns the signature that a request claims, in its Authorization header or its query. Raises
    BadSignature."""
    given = incoming.headers.get("authorization")
    if given is not None:
        # Several headers of this name are joined by a comma and do not match.
        match = _HEADER.fullmatch(given)
        if match is None:
            raise BadSignature(MALFORMED, f"The Authorization header is not one of {ALGORITHM}.")
        date = incoming.headers.get("x-amz-date", "")
        if "x-amz-security-token" in incoming.headers:
            raise BadSignature(UNKNOWN, "The lab has no temporary credentials: do not send a session token.")
        return _make_claim(match[1], match[2], match[3], date, None)
    if "X-Amz-Signature=" in incoming.query:
        return _read_presigned(incoming.query)
    raise BadSignature(MISSING)


def _read_presigned(query: str) -> Claim:
    """Reads the claim in the parameters of a presigned address. Raises BadSignature, for a lifetime
    out of bounds too."""
    parameters: dict[str, str] = {}
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if name.startswith("X-Amz-"):
            if name in parameters:
                raise BadSignature(MALFORMED, f"{name[:40]} is there twice.")
            parameters[name] = unquote(value)
    if "X-Amz-Security-Token" in parameters:
        raise BadSignature(UNKNOWN, "The lab has no temporary credentials: do not send a session token.")
    expires = parameters.get("X-Amz-Expires", "")
    if parameters.get("X-Amz-Algorithm") != ALGORITHM or not re.fullmatch(r"\d{1,6}", expires, re.ASCII):
        raise BadSignature(
            MALFORMED, f"A presigned request has X-Amz-Algorithm={ALGORITHM} and X-Amz-Expires in seconds."
        )
    if not 1 <= int(expires) <= LONGEST_S:
        raise BadSignature(MALFORMED, f"X-Amz-Expires is 1 to {LONGEST_S} seconds.")
    signature = parameters.get("X-Amz-Signature", "")
    if not re.fullmatch(r"[0-9a-f]{64}", signature, re.ASCII):
        raise BadSignature(WRONG)
    names = parameters.get("X-Amz-SignedHeaders", "")
    return _make_claim(
        parameters.get("X-Amz-Credential", ""), names, signature, parameters.get("X-Amz-Date", ""), int(expires)
    )


def _make_claim(credential: str, names: str, signature: str, date: str, expires_s: int | None) -> Claim:
    """Returns the claim of a credential KEY/DATE/REGION/SERVICE/aws4_request. `expires_s`: lifetime
    of a presigned request, None for a header. Raises BadSignature."""
    match = _SCOPE.fullmatch(credential) if len(credential) <= MAX_CREDENTIAL else None
    if match is None:
        raise BadSignature(MALFORMED, "The Credential is KEY/DATE/REGION/SERVICE/aws4_request.")
    if not _DATE.fullmatch(date):
        raise BadSignature(MALFORMED, "X-Amz-Date is the time of the request like 20260131T093000Z.")
    signed = tuple(names.split(";"))
    if len(signed) > MAX_SIGNED_HEADERS or list(signed) != sorted(set(signed)) or "" in signed:
        raise BadSignature(MALFORMED, "SignedHeaders are names in alphabetical order, each once.")
    return Claim(match[1], match[2], match[3], match[4], signed, signature, date, expires_s)


def verify(
    claim: Claim, incoming: Incoming, secret_of: Callable[[str], str | None], now: datetime, unsigned_body: bool = False
) -> None:
    """Raises BadSignature unless the signature is that of the request and in time. `secret_of`:
    returns the secret of an access key, None for an unknown one. `unsigned_body`: the operation
    may leave the body out of its signature.
    """
    _check_time(claim, now)
    for name in incoming.headers:
        if (name.startswith("x-amz-") or name == "host") and name not in claim.signed:
            raise BadSignature(WRONG, f"The header {name[:60]} must be signed.")
    if "host" not in claim.signed:
        raise BadSignature(WRONG, "The header host must be signed.")
    for name in claim.signed:
        if name not in incoming.headers:
            raise BadSignature(WRONG, f"The signed header {name[:60]} is not there.")
    body_hash = _hash_body(incoming, unsigned_body)
    secret = secret_of(claim.access_key)
    key = _derive_key(secret or "", claim.day, claim.region, claim.service)
    text = f"{ALGORITHM}\n{claim.date}\n{claim.scope}\n{_compute_sha256(build_canonical_request(claim, incoming, body_hash).encode())}"
    expected = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    # Compared even if the key does not exist, so that the time does not reveal which keys exist.
    same = hmac.compare_digest(expected, claim.signature)
    if secret is None:
        raise BadSignature(UNKNOWN)
    if not same:
        raise BadSignature(WRONG)


def _check_time(claim: Claim, now: datetime) -> None:
    """Raises BadSignature for a request from the future, or one older than its lifetime (15 minutes
    without one), or whose scope is of another day."""
    try:
        # Not strptime: it is slow, and imports a module when it is first used.
        text = claim.date
        date = datetime(
            int(text[:4]),
            int(text[4:6]),
            int(text[6:8]),
            int(text[9:11]),
            int(text[11:13]),
            int(text[13:15]),
            tzinfo=UTC,
        )
    except ValueError:
        raise BadSignature(MALFORMED, "X-Amz-Date is not a time.") from None
    if claim.day != claim.date[:8]:
        raise BadSignature(WRONG, "The date of the credential's scope is not that of X-Amz-Date.")
    if date > now + WINDOW:
        raise BadSignature(
            EXPIRED, f"Signature not yet current: {claim.date} is later than {_format_stamp(now)} + 15 min."
        )
    good_for = WINDOW if claim.expires_s is None else timedelta(seconds=claim.expires_s)
    if now > date + good_for:
        minutes = f"{good_for.total_seconds() / 60:g} min"
        raise BadSignature(
            EXPIRED, f"Request has expired: {claim.date} is earlier than {_format_stamp(now)} - {minutes}."
        )


def _format_stamp(now: datetime) -> str:
    return now.strftime("%Y%m%dT%H%M%SZ")


def _hash_body(incoming: Incoming, unsigned_body: bool) -> str:
    """Returns the SHA-256 of the body in hexadecimal, or that it is unsigned where the operation
    allows that. Raises BadSignature for another hash declared."""
    declared = incoming.headers.get("x-amz-content-sha256")
    if declared == UNSIGNED and unsigned_body:
        return UNSIGNED
    actual = _compute_sha256(incoming.body)
    if declared is not None and not hmac.compare_digest(declared.encode("utf-8", "replace"), actual.encode()):
        raise BadSignature(WRONG, "x-amz-content-sha256 is not the SHA-256 of the body.")
    return actual


def build_canonical_request(claim: Claim, incoming: Incoming, body_hash: str) -> str:
    """Returns the canonical request that is signed (Signature Version 4): the path is normalised
    and encoded once more, the query sorted."""
    pairs = [pair.partition("=") for pair in incoming.query.split("&") if pair]
    signed_pairs = sorted(
        (name, value) for name, _, value in pairs if name != "X-Amz-Signature" or claim.expires_s is None
    )
    query = "&".join(f"{name}={value}" for name, value in signed_pairs)
    headers = "".join(f"{name}:{' '.join(incoming.headers[name].split())}\n" for name in claim.signed)
    path = quote(_normalise_path(incoming.path), safe="/~")
    return f"{incoming.method}\n{path}\n{query}\n{headers}\n{';'.join(claim.signed)}\n{body_hash}"


def _normalise_path(path: str) -> str:
    """Returns the path without empty parts, `.` and `..`; a slash at its end stays."""
    if "//" not in path and "/." not in path:
        return path
    segments: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if segments:
                segments.pop()
        elif part and part != ".":
            segments.append(part)
    return "/" + "/".join(segments) + ("/" if path.endswith("/") and segments else "")


def _compute_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@lru_cache(maxsize=DERIVED_KEYS)
def _derive_key(secret: str, day: str, region: str, service: str) -> bytes:
    """Returns the key that signs requests of a day to a service in a region, derived from the
    secret."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
