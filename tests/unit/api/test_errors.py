"""The services of AWS answer in their own codes where the lab could not do what was asked."""

from __future__ import annotations

import json
import pickle

import pytest

from headrace.api.errors import from_lab
from headrace.api.protocol import wire
from headrace.api.protocol.shapes import get_service
from headrace.errors import HeadraceError
from headrace.lab.wire import LabUnavailable, _make_refusal


def make_problem(code: str, kind: str = "unavailable") -> HeadraceError:
    """Returns an error as the daemon writes it, with AWS's code."""
    return _make_refusal(
        {"kind": kind, "value": "lab.status", "rule": "is going down", "source": "", "hint": "Wait.", "code": code}
    )


@pytest.mark.parametrize("service", ["ec2", "ebs", "kms", "cloudwatch", "sts"])
def test_sdks_try_again_what_the_machine_could_not_do(service):
    error = from_lab(make_problem("Unavailable"), service)
    assert (error.code, error.status) == ("ServiceUnavailable", 503)
    assert "lab.status: is going down. Wait." in error.message
    refused = from_lab(make_problem("IncorrectState", "incorrect-state"), service)
    assert (refused.code, refused.status) == ("IncorrectState", None)


def test_a_key_that_cannot_be_reached_has_the_code_of_kms():
    problem = make_problem("KeyUnavailableException")
    answer = wire.JsonFormat(get_service("kms"), "Decrypt", b"", "application/x-amz-json-1.1").answer_error(
        from_lab(problem, "kms"), "id-1"
    )
    assert answer.status == 500 and json.loads(answer.body)["__type"] == "KeyUnavailableException"
    # The other services have no such code.
    assert from_lab(problem, "ec2").code == from_lab(problem, "ebs").code == "ServiceUnavailable"
    again = pickle.loads(pickle.dumps(problem))
    assert isinstance(again, LabUnavailable) and again.code == "KeyUnavailableException"
    assert (again.exit_code, again.kind) == (3, "unavailable")
