"""Mutated, signed requests over all services and protocols, against the endpoint's own code on a real lab: no 5xx, no
crash, no growth. MUTATED_REQUESTS=1000000 makes a million of them (`make soak`).
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from api_fuzz import Mischief
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from headrace.api.access.keys import KeyPair
from headrace.api.protocol.shapes import get_service
from headrace.api.server.labs import LabPool
from headrace.api.server.worker import Endpoint
from headrace.lab import Lab
from headrace.lab.http_server import Incoming

REQUESTS = int(os.environ.get("MUTATED_REQUESTS", "12000"))
KEY = Credentials("LABKAAAABBBBCCCCDDDD", "secret")
# Resident memory may grow by this over all requests after the first tenth: caches fill. A guess with room; a leak of
# a kilobyte a request would pass it in 64,000 requests, which `make soak` makes.
GROWTH_BYTES = 64 << 20


def signed(name: str, incoming: Incoming, region: str) -> Incoming:
    """Signs a request with botocore, so that the mischief is read, and not only refused for its
    signature."""
    url = f"http://127.0.0.1:9465{incoming.path}" + (f"?{incoming.query}" if incoming.query else "")
    request = AWSRequest(incoming.method, url, data=incoming.body, headers=incoming.headers)
    SigV4Auth(KEY, get_service(name).signing_name, region).add_auth(request)
    headers = {key.lower(): value for key, value in request.headers.items()} | {"host": "127.0.0.1:9465"}
    return Incoming(incoming.method, incoming.path, incoming.query, headers, incoming.body)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_mutated_requests_never_get_a_5xx(aws_lab):
    volume = aws_lab.lab.create(volume_type="gp3", size_gib=1, tags={"Name": "data"})
    status = aws_lab.lab.status()
    endpoint = Endpoint(
        LabPool(lambda: Lab(aws_lab.folder)),
        {KEY.access_key: KeyPair(KEY.access_key, KEY.secret_key)},
        status["region"],
    )
    # Attaching takes seconds each time; that is for other tests.
    mischief = Mischief(2, [volume["id"], status["instance_id"]], frozenset({"AttachVolume"}))
    seen: dict[int, int] = {}
    begun = 0
    for number in range(REQUESTS):
        name, incoming = mischief.next()
        answer = endpoint(signed(name, incoming, status["region"]))
        seen[answer.status] = seen.get(answer.status, 0) + 1
        assert answer.status < 500, (name, incoming, answer)
        if number == REQUESTS // 10:
            begun = resident()
    assert resident() - begun < GROWTH_BYTES, seen
    # It reached handlers that did something, and refusals.
    assert seen[200] > REQUESTS / 100 and seen[400] > REQUESTS / 10, seen
    aws_lab.lab.status()
