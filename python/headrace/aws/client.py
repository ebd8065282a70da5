"""Clients of AWS with time limits. boto3 is imported in this file only (the extra `aws`)."""

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
# An answer of an operation: its members by name, as AWS describes the operation.
AwsAnswer = dict[str, Any]
CREDENTIALS = "AWS SDKs, credential providers"
DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError")


@dataclass(frozen=True)
class CallLimits:
    """Limits of a client's calls: the seconds to wait for a connection and for an answer, and the
    number of tries (None: boto3's own). `mode`: boto3's mode of retries, such as "standard"; "":
    as the user has configured."""

    connect_s: float
    answer_s: float
    tries: int | None = None
    mode: str = ""


def open_session(profile: str | None = None, region: str | None = None, needs_keys: bool = True) -> AwsSession:
    """Returns a session of boto3, whose clients share its credentials. `needs_keys` False:
    credentials are looked for at the first call only. Raises CouldNotRun without boto3, InputError
    without credentials."""
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
    """Returns a client of boto3 for a service, of `session` or of a new session in `region`.
    `else_region`: the region where the session has none. `needs_keys`: as of `open_session`.
    `settings`: more arguments of botocore's Config.

    Raises CouldNotRun without boto3, InputError without credentials or region.
    """
    opened: AwsSession = open_session(region=region, needs_keys=needs_keys) if session is None else session
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
    except (BotoCoreError, ValueError) as error:  # ValueError: an endpoint that is not a URL
        raise InputError("AWS", str(error)[:300], "AWS SDKs, region and endpoint", "Set AWS_REGION.") from None


@contextmanager
def translate_errors(
    refusal: Callable[[str, str, AwsAnswer], HeadraceError], failure: Callable[[Exception], HeadraceError]
) -> Iterator[None]:
    """Turns what boto3 raises in the block into our errors. `refusal` makes the error of a call
    that AWS refused, from the code, the message and the whole answer; `failure` makes that of a
    call without an answer."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ClientError as error:
        details = error.response.get("Error", {})
        raise refusal(str(details.get("Code", "")), str(details.get("Message", "")), dict(error.response)) from None
    except (BotoCoreError, Boto3Error, HTTPError, OSError) as error:
        raise failure(error) from None


def call(what: str, action: str, method: Callable[..., AwsAnswer], **arguments: object) -> AwsAnswer:
    """Calls a method of a client and returns AWS's answer. `what`: what the call is about, for
    errors; `action`: the permission that it takes, as IAM writes it. Raises InputError, with AWS's
    code as `kind`, where AWS refuses the call, and CouldNotRun where nobody answers."""

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
