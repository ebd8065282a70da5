"""Clients of AWS, with limits of time. Only here boto3 is imported (the extra `aws`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from headrace.base.extras import import_optional
from headrace.errors import CouldNotRun, HeadraceError, InputError

# boto3 makes its clients as the program runs, from descriptions, and its sessions have no types
# either.
AwsClient = Any
AwsSession = Any
# The members of an answer by name, of kinds that the description of the operation says.
AwsAnswer = dict[str, Any]
CREDENTIALS = "AWS SDKs, credential providers"
DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError")


@dataclass(frozen=True)
class CallLimits:
    """Limits of the calls of a client: seconds to wait for a connection and for an answer, and the
    number of tries (None: boto3's own). `mode`: that of boto3's retries, such as "standard"; "" for
    the user's configuration."""

    connect_s: float
    answer_s: float
    tries: int | None = None
    mode: str = ""


def open_session(profile: str | None = None, region: str | None = None, needs_keys: bool = True) -> AwsSession:
    """Returns a session of boto3, whose clients share its credentials. `needs_keys` False: keys are
    looked for at the first call. Raises CouldNotRun without boto3, InputError without
    credentials."""
    with import_optional():
        import boto3
    with _explain_settings():
        session = boto3.Session(profile_name=profile, region_name=region)
        if needs_keys and session.get_credentials() is None:
            hint = "Give the instance a role, or set AWS_PROFILE."
            raise InputError("AWS", "no credentials were found", CREDENTIALS, hint)
        return session


def make_client(
    service: str,
    limits: CallLimits,
    *,
    session: AwsSession | None = None,
    region: str | None = None,
    else_region: str | None = None,
    endpoint: str | None = None,
    needs_keys: bool = True,
    **settings: object,
) -> AwsClient:
    """Returns a client of boto3, of a `session` or of one of its own in `region`. `else_region`:
    for a user who has configured none. `needs_keys` False: keys are looked for at the first call.
    `settings`: of botocore's Config.

    Raises CouldNotRun without boto3, InputError without credentials or region.
    """
    opened = open_session(region=region, needs_keys=needs_keys) if session is None else session
    with import_optional():
        from botocore.config import Config
    if limits.tries is not None:
        settings["retries"] = {"total_max_attempts": limits.tries} | ({"mode": limits.mode} if limits.mode else {})
    config = Config(connect_timeout=limits.connect_s, read_timeout=limits.answer_s, **settings)
    with _explain_settings():
        region_name = opened.region_name or else_region
        return opened.client(service, region_name=region_name, endpoint_url=endpoint, config=config)


@contextmanager
def _explain_settings() -> Iterator[None]:
    """Turns what boto3 raises for the user's settings into InputError."""
    from botocore.exceptions import BotoCoreError

    try:
        yield
    except (BotoCoreError, ValueError) as error:  # ValueError: an endpoint that is none
        raise InputError("AWS", str(error)[:300], "AWS SDKs, region and endpoint", "Set AWS_REGION.") from None


@contextmanager
def translate_errors(
    refusal: Callable[[str, str, AwsAnswer], HeadraceError], failure: Callable[[Exception], HeadraceError]
) -> Iterator[None]:
    """Turns what boto3 raises in the block into our errors. `refusal` makes that of a refusal by
    its code, its message and the whole answer, `failure` that of a call without an answer."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ClientError as error:
        words = error.response.get("Error", {})
        raise refusal(str(words.get("Code", "")), str(words.get("Message", "")), dict(error.response)) from None
    except (BotoCoreError, Boto3Error, HTTPError, OSError) as error:
        raise failure(error) from None


def call(what: str, action: str, method: Callable[..., AwsAnswer], **arguments: object) -> AwsAnswer:
    """Calls AWS about `what`, and returns its answer. `action`: the permission that it takes, as
    IAM writes it. Raises InputError for a refusal, whose `kind` is its code, and CouldNotRun where
    nobody answers."""

    def make_refusal(code: str, message: str, _answer: AwsAnswer) -> InputError:
        hint = "Is it of this account and region?"
        if code in DENIED:
            hint = f"Allow {action} in the IAM policy of these credentials."
        return InputError(what, f"AWS refuses: {message[:200]}", f"AWS, {code}", hint, kind=code)

    def make_failure(error: Exception) -> CouldNotRun:
        hint = "Check AWS_ENDPOINT_URL and the network."
        return CouldNotRun(what, f"AWS cannot be reached: {str(error)[:200]}", "AWS SDKs", hint)

    with translate_errors(make_refusal, make_failure):
        return method(**arguments)
