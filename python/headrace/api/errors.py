"""Defines AWS's errors, and turns the lab's refusals into them."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.lab.wire import LabRefused, LabUnavailable

# KMS's code for a key that cannot be reached, which the daemon names.
KEY_UNAVAILABLE = "KeyUnavailableException"
# HTTP status of codes that are not 400 (EC2's "Error codes for the Amazon EC2 API", and KMS's API
# reference).
STATUS = {
    "AuthFailure": 401,
    "DryRunOperation": 412,
    "UnauthorizedOperation": 403,
    "AccessDenied": 403,
    "AccessDeniedException": 400,
    "MissingAuthenticationToken": 403,
    "InvalidClientTokenId": 403,
    "SignatureDoesNotMatch": 403,
    "RequestExpired": 400,
    "ServiceUnavailable": 503,
    "InternalError": 500,
    KEY_UNAVAILABLE: 500,
}
DRY_RUN = "Request would have succeeded, but DryRun flag is set."


class AwsError(Exception):
    """An error as AWS answers it.

    `code` and `message` as AWS has them; `status` is the HTTP status (None: the model's for this
    code, else 400); `members` are further members of the error's shape.
    """

    def __init__(self, code: str, message: str, status: int | None = None, **members: object) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.status = status
        self.members = members

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def make_dry_run_error(service: str) -> AwsError:
    """Returns the error that answers a request with DryRun which would have succeeded. `service`:
    "ec2", "kms"."""
    return AwsError("DryRunOperationException" if service == "kms" else "DryRunOperation", DRY_RUN, 412)


def from_lab(error: HeadraceError, service: str) -> AwsError:
    """Returns a refusal of the lab as this service shapes it.

    A status of 5xx, at which the SDKs try again, says that the request is not to blame: the daemon
    is down, does not answer or ends, the machine could not do it, or a key cannot be reached.
    """
    code = getattr(error, "code", "")
    message = getattr(error, "message", "") or _describe_error(error)
    if error.kind == "dry-run":
        return make_dry_run_error(service)
    if isinstance(error, LabUnavailable) and not (service == "kms" and code == KEY_UNAVAILABLE):
        return AwsError("ServiceUnavailable", f"The lab could not do it: {_describe_error(error)}", 503)
    if not isinstance(error, LabRefused) and not error.kind:
        return AwsError("ServiceUnavailable", f"The lab does not answer: {message}", 503)
    return AwsError(code or "InvalidParameterValue", message, STATUS.get(code))


def _describe_error(error: HeadraceError) -> str:
    return f"{error.value}: {error.rule}." + (f" {error.hint}" if error.hint else "")
