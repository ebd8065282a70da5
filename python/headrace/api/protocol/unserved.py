"""Answers requests for AWS services that a lab does not have, in the protocols of those services,
so that their clients can read the answer."""

from __future__ import annotations

from xml.sax.saxutils import escape

import cbor2
import msgspec

from headrace.api.protocol.shapes import SERVICES, get_service
from headrace.api.protocol.wire import FORM
from headrace.lab.http_server import Answer, Incoming

# Never 5xx: clients would try again.
STATUS = 400
CODE = "UnsupportedOperation"
# Services whose protocol is rest-xml, by the names in signatures (models of botocore 1.44). The
# others that a header or a form does not identify use rest-json.
REST_XML = frozenset({"s3", "s3express", "s3-object-lambda", "s3-outposts", "route53", "cloudfront"})
XML = [("Content-Type", "text/xml;charset=UTF-8")]
# Names of services in signatures, and their usual names.
ALSO_CALLED = {"monitoring": "monitoring (CloudWatch)", "ebs": "ebs (EBS direct)"}


def is_served(signing_name: str) -> bool:
    """Returns whether a lab has the service that a signature names."""
    return any(get_service(name).signing_name == signing_name for name in SERVICES)


def explain_unserved(signing_name: str) -> str:
    """Returns the message for a client of another service."""
    names = [get_service(name).signing_name for name in SERVICES]
    served = [ALSO_CALLED.get(name, name) for name in names]
    return (
        f"The lab serves {', '.join(served[:-1])} and {served[-1]}, not {signing_name}. "
        "Send its requests elsewhere: take this profile or AWS_ENDPOINT_URL away from that client, "
        "or set AWS_ENDPOINT_URL_EC2 and the like for the lab's services alone."
    )


def refuse_unserved(incoming: Incoming, signing_name: str, request_id: str) -> Answer:
    """Refuses a request for a service that the lab does not serve. The signature is not checked:
    nothing is done, and the answer has no secret."""
    words = explain_unserved(signing_name)
    kind = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    json = msgspec.json.encode({"__type": CODE, "message": words, "Message": words})
    if kind.startswith("application/x-amz-json-1."):
        return Answer(STATUS, json, [("Content-Type", kind)])
    if incoming.headers.get("smithy-protocol") == "rpc-v2-cbor":
        body = cbor2.dumps({"__type": CODE, "message": words})
        return Answer(STATUS, body, [("Content-Type", "application/cbor"), ("smithy-protocol", "rpc-v2-cbor")])
    error = f"<Code>{CODE}</Code><Message>{escape(words)}</Message>"
    if kind == FORM or "Action=" in incoming.query:
        body = (
            f"<ErrorResponse><Error><Type>Sender</Type>{error}</Error><RequestId>{request_id}</RequestId>"
            "</ErrorResponse>"
        )
        return Answer(STATUS, body.encode(), list(XML))
    if signing_name in REST_XML:
        head = '<?xml version="1.0" encoding="UTF-8"?>\n'
        return Answer(STATUS, f"{head}<Error>{error}<RequestId>{request_id}</RequestId></Error>".encode(), list(XML))
    return Answer(STATUS, json, [("Content-Type", "application/json"), ("x-amzn-ErrorType", CODE)])
