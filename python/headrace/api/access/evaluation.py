"""Evaluates policies by AWS's rules (IAM guide, "Policy evaluation logic"): an explicit deny wins,
then an allow, and an action that nothing allows is denied."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum

from headrace.api.access.conditions import Context, arn_like, like, literal
from headrace.api.access.policies import Policy, Statement

_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class IamVerdict(Enum):
    """The verdict of policies on an action on a resource."""

    ALLOWED = "allowed"
    DENIED = "denied by a statement"
    NOT_ALLOWED = "not allowed by any statement"


def lowered(context: Context) -> Context:
    """Returns a context by lower-case names: names of condition keys are not case-sensitive."""
    return {name.lower(): value for name, value in context.items()}


def _variables(context: Context, allowed: bool) -> Callable[[str], str | None]:
    """Returns a function that replaces variables in a text; it returns None if a variable has no
    value."""

    def fill(text: str) -> str | None:
        if not allowed or "${" not in text:
            return text
        missing = False

        def put(match: re.Match[str]) -> str:
            nonlocal missing
            name, comma, default = match[1].partition(",")
            # These stand for themselves (IAM guide, "Policy variables").
            if name in ("*", "?", "$"):
                return literal(name)
            value = context.get(name.strip().lower())
            if isinstance(value, str):
                return literal(value)
            if comma:
                return literal(default.strip().strip("'"))
            missing = True
            return ""

        filled = _VARIABLE.sub(put, text)
        return None if missing else filled

    return fill


def _about(statement: Statement, action: str, resource: str, fill: Callable[[str], str | None]) -> bool:
    named = any(like(pattern, action, ignore_case=True) for pattern in statement.actions)
    if named == statement.not_actions:
        return False
    filled = [pattern for pattern in map(fill, statement.resources) if pattern is not None]
    met = any(pattern == "*" or arn_like(pattern, resource) for pattern in filled)
    # A request about nothing in particular has the resource "*", which only "*" covers.
    return met != statement.not_resources


def evaluate(policies: Iterable[Policy], action: str, resource: str, context: Context) -> IamVerdict:
    """Returns the verdict of the policies. `context` as `lowered` makes it."""
    allowed = False
    for policy in policies:
        fill = _variables(context, policy.variables)
        for statement in policy.statements:
            if allowed and statement.allow:
                continue
            if not _about(statement, action, resource, fill):
                continue
            if all(condition.met(context, fill) for condition in statement.conditions):
                if not statement.allow:
                    return IamVerdict.DENIED
                allowed = True
    return IamVerdict.ALLOWED if allowed else IamVerdict.NOT_ALLOWED
