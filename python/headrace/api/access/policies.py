"""Reads IAM policy documents, and names their faults with line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.api.access import conditions
from headrace.api.access.conditions import Condition
from headrace.api.access.positions import Misplaced, Node, parse
from headrace.errors import InputError

SOURCE = "IAM guide, IAM JSON policy elements reference"
# Characters of a policy: IAM's limit for a managed policy (IAM guide, IAM and AWS STS quotas).
MAX_CHARACTERS = 6144
VERSIONS = ("2012-10-17", "2008-10-17")
_ACTION = re.compile(r"\*|[A-Za-z0-9-]{1,60}:[A-Za-z0-9*?]{1,128}", re.ASCII)
_ARN = re.compile(r"\*|arn:[^:]{1,40}:[^:]{0,60}:[^:]{0,60}:[^:]{0,60}:.{1,2048}", re.DOTALL)
_KEY = re.compile(r"[a-zA-Z0-9-]{1,40}:[^\s].{0,200}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement. `actions` and `resources` are patterns; `not_actions` and `not_resources` say
    that they are those it is not about.
    """

    allow: bool
    actions: tuple[str, ...]
    not_actions: bool
    resources: tuple[str, ...]
    not_resources: bool
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy document. `variables`: whether `${aws:username}` stands for something in it."""

    name: str
    statements: tuple[Statement, ...]
    variables: bool


def read_policy(text: str, name: str) -> Policy:
    """Reads a policy document. Raises InputError, which names `name`, the line and the column."""
    try:
        if len(text) > MAX_CHARACTERS:
            raise Misplaced(1, 1, f"a policy has at most {MAX_CHARACTERS:,} characters; this one has {len(text):,}")
        return _policy(parse(text), name)
    except Misplaced as error:
        hint = "See examples/policies for policies that work."
        raise InputError(f"{name}:{error.line}:{error.column}", error.rule, SOURCE, hint) from None


def _wrong(node: Node, rule: str) -> Misplaced:
    return Misplaced(node.line, node.column, rule)


def _object(node: Node, what: str, names: tuple[str, ...]) -> dict[str, Node]:
    if not node.is_object:
        raise _wrong(node, f"{what} is an object")
    members: dict[str, Node] = {}
    for key, value in node.value:
        if names and key.value not in names:
            raise _wrong(key, f"{what} has no {str(key.value)[:40]!r}; it has {', '.join(names)}")
        if key.value in members:
            raise _wrong(key, f"{key.value[:40]!r} is there twice")
        members[key.value] = value
    return members


def _policy(node: Node, name: str) -> Policy:
    parts = _object(node, "a policy", ("Version", "Id", "Statement"))
    version = parts.get("Version")
    if version is not None and version.value not in VERSIONS:
        raise _wrong(version, f"Version is {' or '.join(VERSIONS)}")
    if "Id" in parts and not isinstance(parts["Id"].value, str):
        raise _wrong(parts["Id"], "Id is a text")
    if "Statement" not in parts:
        raise _wrong(node, "a policy has a Statement")
    given = parts["Statement"]
    nodes = [given] if given.is_object else given.value
    if not isinstance(nodes, list) or not nodes:
        raise _wrong(given, "Statement is an object or a list of objects")
    variables = version is not None and version.value == VERSIONS[0]
    return Policy(name, tuple(_statement(statement_node) for statement_node in nodes), variables)


_STATEMENT = ("Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition")


def _statement(node: Node) -> Statement:
    parts = _object(node, "a statement", _STATEMENT)
    sid = parts.get("Sid")
    if sid is not None and not (isinstance(sid.value, str) and re.fullmatch(r"[A-Za-z0-9]*", sid.value, re.ASCII)):
        raise _wrong(sid, "Sid is letters and digits")
    effect = parts.get("Effect")
    if effect is None or effect.value not in ("Allow", "Deny"):
        raise _wrong(effect or node, "a statement has an Effect, which is Allow or Deny")
    actions, not_actions = _one_of(node, parts, "Action", _ACTION, "SERVICE:ACTION like ec2:CreateVolume, or *")
    resources, not_resources = _one_of(node, parts, "Resource", _ARN, "an ARN like arn:aws:ec2:*:*:volume/*, or *")
    block = parts.get("Condition")
    parsed_conditions = tuple(_conditions(block)) if block is not None else ()
    return Statement(effect.value == "Allow", actions, not_actions, resources, not_resources, parsed_conditions)


def _one_of(
    node: Node, parts: dict[str, Node], name: str, form: re.Pattern[str], rule: str
) -> tuple[tuple[str, ...], bool]:
    given = [key for key in (name, f"Not{name}") if key in parts]
    if len(given) != 1:
        at = parts[given[1]] if given else node
        raise _wrong(at, f"a statement has either {name} or Not{name}")
    return tuple(_texts(parts[given[0]], given[0], form, rule)), given[0] != name


def _texts(node: Node, name: str, form: re.Pattern[str], rule: str) -> Iterator[str]:
    nodes = node.value if isinstance(node.value, list) else [node]
    if not nodes:
        raise _wrong(node, f"{name} has at least one value")
    for value_node in nodes:
        if not isinstance(value_node.value, str) or not form.fullmatch(value_node.value):
            raise _wrong(value_node, f"{name} is {rule}")
        yield value_node.value


def _conditions(block: Node) -> Iterator[Condition]:
    for operator_node, keys in _pairs(block, "Condition"):
        text = operator_node.value
        over, colon, rest = text.partition(":")
        operator = (rest if colon else text).removesuffix("IfExists")
        is_operator = operator in conditions.POSITIVE or operator in conditions.NEGATIVE or operator == conditions.NULL
        if not is_operator or (colon and over not in (conditions.FOR_ALL, conditions.FOR_ANY)):
            raise _wrong(operator_node, f"{text[:60]!r} is not an operator of conditions, like StringEquals")
        if operator == conditions.NULL and (colon or text.endswith("IfExists")):
            raise _wrong(operator_node, "Null has neither ForAllValues, ForAnyValue nor IfExists")
        for key, values in _pairs(keys, text):
            if not _KEY.fullmatch(key.value):
                raise _wrong(key, f"{key.value[:60]!r} is not a condition key, like aws:RequestTag/owner")
            texts = tuple(_value(value_node, operator) for value_node in _listed(values))
            yield Condition(operator, key.value, texts, over if colon else "", text.endswith("IfExists"))


def _pairs(node: Node, what: str) -> list[tuple[Node, Node]]:
    _object(node, what[:60], ())
    if not node.value:
        raise _wrong(node, f"{what[:60]} is empty")
    return node.value


def _listed(node: Node) -> list[Node]:
    nodes = node.value if isinstance(node.value, list) else [node]
    if not nodes:
        raise _wrong(node, "a condition has at least one value")
    return nodes


def _value(node: Node, operator: str) -> str:
    value = node.value
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise _wrong(node, "a value of a condition is text, a number, true or false")
    if operator in ("Bool", conditions.NULL) and value.lower() not in ("true", "false") and "${" not in value:
        raise _wrong(node, f"a value of {operator} is true or false")
    for prefix, read in conditions.READABLE.items():
        if operator.startswith(prefix) and "${" not in value and read(value) is None:
            raise _wrong(node, f"a value of {operator} is a {'number' if prefix == 'Numeric' else 'date'}")
    return value
