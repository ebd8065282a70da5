"""Decides whether a caller may do what a request asks for.

Policies are evaluated by AWS's rules (IAM guide, "Policy evaluation logic"): an explicit deny wins,
then an allow, and an action that nothing allows is denied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import Enum

from headrace.api.access.keys import KeyPair
from headrace.api.access.policies import Context, Policy, Statement, escape_wildcards, matches_arn, matches_pattern
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Permission, Served

_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class IamVerdict(Enum):
    """The verdict of policies on an action on a resource."""

    ALLOWED = "allowed"
    DENIED = "denied by a statement"
    NOT_ALLOWED = "not allowed by any statement"


def lower_names(context: Context) -> Context:
    """Returns a context by lower-case names: names of condition keys are not case-sensitive."""
    return {name.lower(): value for name, value in context.items()}


def _make_filler(context: Context, allowed: bool) -> Callable[[str], str | None]:
    """Returns a function that replaces the variables `${...}` of a text by values of the context;
    it returns None if one has no value. `allowed`: whether the policy has variables at all."""

    def fill(text: str) -> str | None:
        if not allowed or "${" not in text:
            return text
        missing = False

        def replace_variable(match: re.Match[str]) -> str:
            nonlocal missing
            name, comma, default = match[1].partition(",")
            # These stand for themselves (IAM guide, "Policy variables").
            if name in ("*", "?", "$"):
                return escape_wildcards(name)
            value = context.get(name.strip().lower())
            if isinstance(value, str):
                return escape_wildcards(value)
            if comma:
                return escape_wildcards(default.strip().strip("'"))
            missing = True
            return ""

        filled = _VARIABLE.sub(replace_variable, text)
        return None if missing else filled

    return fill


def _is_about(statement: Statement, action: str, resource: str, fill: Callable[[str], str | None]) -> bool:
    """Returns whether a statement covers an action on a resource; a pattern with a variable that
    has no value covers nothing."""
    named = any(matches_pattern(pattern, action, ignore_case=True) for pattern in statement.actions)
    if named == statement.not_actions:
        return False
    filled = [pattern for pattern in map(fill, statement.resources) if pattern is not None]
    met = any(pattern == "*" or matches_arn(pattern, resource) for pattern in filled)
    # A request about nothing in particular has the resource "*", which only "*" covers.
    return met != statement.not_resources


def evaluate(policies: Iterable[Policy], action: str, resource: str, context: Context) -> IamVerdict:
    """Returns the verdict of the policies on an action. `context` as `lower_names` makes it."""
    allowed = False
    for policy in policies:
        fill = _make_filler(context, policy.variables)
        for statement in policy.statements:
            if allowed and statement.allow:
                continue
            if not _is_about(statement, action, resource, fill):
                continue
            if all(condition.is_met(context, fill) for condition in statement.conditions):
                if not statement.allow:
                    return IamVerdict.DENIED
                allowed = True
    return IamVerdict.ALLOWED if allowed else IamVerdict.NOT_ALLOWED


# Calls that need no permission, as on AWS.
WITHOUT_PERMISSION = {("sts", "GetCallerIdentity")}


def authorise(served: Served, request: ApiRequest, pair: KeyPair) -> None:
    """Raises AwsError unless the caller's policies allow the request on everything it is about."""
    if pair.policies is None or (request.service, request.operation) in WITHOUT_PERMISSION:
        return
    action = f"{request.service}:{request.operation}"
    needed = list(served.needs(request)) if served.needs is not None else [Permission(action, "*")]
    common = _collect_common_keys(request, pair)
    for permission in needed:
        context = lower_names({**common, **permission.context})
        verdict = evaluate(pair.policies, permission.action, permission.resource, context)
        if verdict is not IamVerdict.ALLOWED:
            raise refuse_request(request, permission, verdict)


def _collect_common_keys(request: ApiRequest, pair: KeyPair) -> Context:
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


def refuse_request(request: ApiRequest, permission: Permission, verdict: IamVerdict) -> AwsError:
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
