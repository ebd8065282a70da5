"""Mutated requests over all protocols: each is read or refused in AWS's words; nothing else happens."""

from __future__ import annotations

import os

from api_fuzz import Mischief

from headrace.api.errors import AwsError
from headrace.api.protocol.shapes import get_service
from headrace.api.protocol.wire import identify

REQUESTS = int(os.environ.get("MUTATED_REQUESTS", "8000"))


def test_mutated_requests_are_read_or_refused():
    mischief = Mischief(1, ["vol-0123456789abcdef0"])
    read = refused = 0
    for _ in range(REQUESTS):
        name, incoming = mischief.next()
        result = None
        try:
            result = identify(incoming, get_service(name).signing_name)
            result.read(result.get_operation())
            read += 1
        except AwsError as error:
            refused += 1
            spoken = result or identify(type(incoming)("POST", "/", "", {}, b""), get_service(name).signing_name)
            answer = spoken.answer_error(error, "id-1")
            assert 400 <= answer.status < 500, (error, incoming)
    # The mischief reaches both sides often.
    assert min(read, refused) > REQUESTS / 10
