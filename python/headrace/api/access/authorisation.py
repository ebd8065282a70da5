"""Decides whether a caller may do what a request asks for."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.api.access.conditions import Context
from headrace.api.access.evaluation import IamVerdict, evaluate, lowered
from headrace.api.access.keys import KeyPair
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Permission, Served

# Calls that need no permission, as on AWS.
FREE = {("sts", "GetCallerIdentity")}


def authorise(served: Served, request: ApiRequest, pair: KeyPair) -> None:
    """Raises AwsError unless the caller's policies allow the request on everything it is about."""
    if pair.policies is None or (request.service, request.operation) in FREE:
        return
    action = f"{request.service}:{request.operation}"
    needed = list(served.needs(request)) if served.needs is not None else [Permission(action, "*")]
    common = _common(request, pair)
    for permission in needed:
        context = lowered({**common, **permission.context})
        verdict = evaluate(pair.policies, permission.action, permission.resource, context)
        if verdict is not IamVerdict.ALLOWED:
            raise refusal(request, permission, verdict)


def _common(request: ApiRequest, pair: KeyPair) -> Context:
    """Returns the condition keys that every request has (IAM guide, "AWS global condition context
    keys")."""
    now = datetime.now(UTC)
    return {
        "aws:username": pair.user,
        "aws:userid": pair.access_key,
        "aws:PrincipalArn": request.caller.arn,
        "aws:PrincipalAccount": request.account,
        "aws:PrincipalType": "User",
        "aws:CurrentTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "aws:EpochTime": str(int(now.timestamp())),
        "aws:RequestedRegion": request.region,
        "aws:SecureTransport": "false",
        "aws:SourceIp": "127.0.0.1",
        "ec2:Region": request.region,
    }


def refusal(request: ApiRequest, permission: Permission, verdict: IamVerdict) -> AwsError:
    """Returns the error for a caller without permission: EC2's UnauthorizedOperation, elsewhere
    AccessDenied."""
    why = (
        "with an explicit deny in an identity-based policy"
        if verdict is IamVerdict.DENIED
        else f"because no identity-based policy allows the {permission.action} action"
    )
    sentence = f"User: {request.caller.arn} is not authorized to perform: {permission.action}"
    sentence += f" on resource: {permission.resource} {why}"
    if request.service == "ec2":
        return AwsError("UnauthorizedOperation", f"You are not authorized to perform this operation. {sentence}", 403)
    if request.service in ("kms", "ebs"):
        return AwsError("AccessDeniedException", sentence, 400 if request.service == "kms" else 403)
    return AwsError("AccessDenied", sentence, 403)
