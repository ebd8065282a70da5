"""Reads IAM policy documents and names their faults with line and column; implements the operators
of a policy's Condition by AWS's rules (IAM guide, "IAM JSON policy elements: Condition
operators")."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from json import JSONDecodeError
from json.decoder import scanstring  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

from headrace.api.wildcards import compile_wildcards
from headrace.errors import Refusals

# Nesting of a document: a policy has seven levels. A guess with room.
MAX_DEPTH = 32
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,30})(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a JSON document and where it begins. An object is a tuple of pairs of key and
    value, so that a repeated key is seen.
    """

    value: Any
    line: int
    column: int

    @property
    def is_object(self) -> bool:
        """True when the value is an object."""
        return isinstance(self.value, tuple)


class PolicyFault(Exception):
    """A fault of a policy document, with its line and column."""

    def __init__(self, line: int, column: int, rule: str) -> None:
        super().__init__(rule)
        self.line, self.column, self.rule = line, column, rule


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def make_fault(self, rule: str, at: int | None = None) -> PolicyFault:
        """Returns a fault with its line and column. `at`: index of a character, None: where the
        scanner is."""
        where = self.at if at is None else at
        before = self.text[:where]
        return PolicyFault(before.count("\n") + 1, where - (before.rfind("\n") + 1) + 1, rule)

    def skip(self) -> str:
        """Skips white space, and returns the character behind it; "" at the end."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def read_string(self) -> str:
        """Reads a text in quotes, and returns it without them. Raises PolicyFault."""
        start = self.at
        try:
            string, self.at = scanstring(self.text, start + 1, True)
        except JSONDecodeError as error:
            raise self.make_fault(f"this is not a JSON text: {error.msg}", error.pos) from None
        return string

    def read_node(self, depth: int = 0) -> Node:
        """Reads the next value with all below it. `depth`: objects and lists around it. Raises
        PolicyFault."""
        first, start = self.skip(), self.at
        if depth > MAX_DEPTH:
            raise self.make_fault(f"a document has at most {MAX_DEPTH} levels")
        place = self.make_fault("")
        if first == '"':
            value: object = self.read_string()
        elif first == "{":
            value = tuple(self.read_pairs(depth))
        elif first == "[":
            value = self.read_items(depth)
        else:
            value = self.read_word(start)
        return Node(value, place.line, place.column)

    def read_word(self, start: int) -> str | float | None:
        """Reads true, false, null or a number at `start`. Raises PolicyFault."""
        for word, value in _WORDS.items():
            if self.text.startswith(word, start):
                self.at = start + len(word)
                return value
        match = _NUMBER.match(self.text, start)
        if match is None:
            raise self.make_fault("a value is expected here: text, a number, true, false, null, a list or an object")
        self.at = match.end()
        text = match[0]
        return int(text) if text.lstrip("-").isdigit() else float(text)

    def read_items(self, depth: int) -> list[Node]:
        """Reads the elements of a list up to its bracket. Raises PolicyFault."""
        nodes: list[Node] = []
        self.at += 1
        if self.skip() == "]":
            self.at += 1
            return nodes
        while True:
            nodes.append(self.read_node(depth + 1))
            if self.follows("]"):
                return nodes

    def read_pairs(self, depth: int) -> list[tuple[Node, Node]]:
        """Reads the pairs of an object, repeated keys too, up to its brace. Raises PolicyFault."""
        members: list[tuple[Node, Node]] = []
        self.at += 1
        if self.skip() == "}":
            self.at += 1
            return members
        while True:
            if self.skip() != '"':
                raise self.make_fault('a name in double quotes is expected here, like "Effect"')
            key = self.read_node(depth + 1)
            if self.skip() != ":":
                raise self.make_fault("a colon is expected here")
            self.at += 1
            members.append((key, self.read_node(depth + 1)))
            if self.follows("}"):
                return members

    def follows(self, end: str) -> bool:
        """Reads a comma or the `end` sign, and returns whether it was the end. Raises
        PolicyFault."""
        sign = self.skip()
        if sign not in (",", end) or not sign:
            raise self.make_fault(f"a comma or {end} is expected here")
        self.at += 1
        return sign == end


def parse(text: str) -> Node:
    """Returns the single value of a JSON document. Raises PolicyFault."""
    scanner = _Scanner(text)
    root = scanner.read_node()
    if scanner.skip():
        raise scanner.make_fault("the document ends before this")
    return root


# --- conditions -----------------------------------------------------------------------------------


# Patterns that are kept compiled. A guess with room: a policy has some ten.
PATTERNS = 1024
FOR_ALL, FOR_ANY = "ForAllValues", "ForAnyValue"

Holds = Callable[[str, str], bool]
# Values that conditions are compared with, by the names of their keys.
Context = Mapping[str, str | list[str]]

# The value of a variable is literal, even if it has wildcards: they are written as characters
# that no text has (halves of surrogate pairs) until the pattern is read.
_LITERAL = {"*": "\udc2a", "?": "\udc3f", ":": "\udc3a"}
_MARKED = str.maketrans(_LITERAL)
_PLAIN = str.maketrans({mark: character for character, mark in _LITERAL.items()})


def escape_wildcards(text: str) -> str:
    """Returns a text in which no character is special in a pattern."""
    return text.translate(_MARKED)


@lru_cache(maxsize=PATTERNS)
def _compile_pattern(text: str, ignore_case: bool) -> re.Pattern[str]:
    """Returns a compiled pattern, in which `*` is any text and `?` one character."""

    def escape_part(between: str) -> str:
        return ".".join(re.escape(piece.translate(_PLAIN)) for piece in between.split("?"))

    return compile_wildcards([escape_part(between) for between in text.split("*")], ignore_case)


def matches_pattern(pattern: str, value: str, ignore_case: bool = False) -> bool:
    """Returns whether a value matches a pattern with `*` and `?`."""
    return _compile_pattern(pattern, ignore_case).fullmatch(value) is not None


def matches_arn(pattern: str, value: str) -> bool:
    """Returns whether an ARN matches a pattern: each of its six parts, with wildcards that match
    within their part alone."""
    expected, given = pattern.split(":", 5), value.split(":", 5)
    return len(expected) == len(given) == 6 and all(
        matches_pattern(*pair) for pair in zip(expected, given, strict=True)
    )


def _parse_number(text: str) -> float | None:
    """Returns the number that a text is; None for any other text, NaN too."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number == number else None


def _parse_date(text: str) -> float | None:
    """Returns a moment in seconds since 1970, from ISO 8601 (UTC without a zone) or a number; None
    for any other text."""
    if re.fullmatch(r"-?\d{1,12}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _compare_by(read: Callable[[str], float | None], compare: Callable[[float, float], bool]) -> Holds:
    """Returns a function that compares two texts by the numbers that `read` returns for them; it
    returns False where either is None."""

    def holds(expected: str, given: str) -> bool:
        given_value, expected_value = read(given), read(expected)
        return given_value is not None and expected_value is not None and compare(given_value, expected_value)

    return holds


def _is_within(network: str, given: str) -> bool:
    """Returns whether an address is in a network; False where either cannot be read."""
    try:
        return ipaddress.ip_address(given) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _make_comparisons(name: str, read: Callable[[str], float | None]) -> dict[str, Holds]:
    """Returns the five comparisons of numbers or dates by the operator's name, such as
    NumericLessThan."""
    return {
        f"{name}Equals": _compare_by(read, lambda a, b: a == b),
        f"{name}LessThan": _compare_by(read, lambda a, b: a < b),
        f"{name}LessThanEquals": _compare_by(read, lambda a, b: a <= b),
        f"{name}GreaterThan": _compare_by(read, lambda a, b: a > b),
        f"{name}GreaterThanEquals": _compare_by(read, lambda a, b: a >= b),
    }


# operator -> whether a value that is given meets a value of the policy: holds(expected, given).
POSITIVE: dict[str, Holds] = {
    "StringEquals": lambda expected, given: expected == given,
    "StringEqualsIgnoreCase": lambda expected, given: expected.casefold() == given.casefold(),
    "StringLike": matches_pattern,
    **_make_comparisons("Numeric", _parse_number),
    **_make_comparisons("Date", _parse_date),
    "Bool": lambda expected, given: expected.lower() == given.lower(),
    "BinaryEquals": lambda expected, given: expected == given,
    "IpAddress": _is_within,
    "ArnEquals": matches_arn,
    "ArnLike": matches_arn,
}
# operator -> the one that it is the opposite of.
NEGATIVE = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "NumericNotEquals": "NumericEquals",
    "DateNotEquals": "DateEquals",
    "NotIpAddress": "IpAddress",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
}
NULL = "Null"
# Operators whose values are patterns.
PATTERNED = ("StringLike", "ArnEquals", "ArnLike")
# Readers of values that must have a form: prefix of the operator -> reader.
READABLE: dict[str, Callable[[str], object]] = {"Numeric": _parse_number, "Date": _parse_date}


@dataclass(frozen=True, slots=True)
class Condition:
    """`OPERATOR: {KEY: VALUES}` of a Condition block. The parts of OPERATOR are `quantifier`
    (ForAllValues, ForAnyValue or ""), `operator`, and `if_exists` for the suffix IfExists."""

    operator: str
    key: str
    values: tuple[str, ...]
    quantifier: str = ""
    if_exists: bool = False

    def is_met(self, context: Context, variables: Callable[[str], str | None]) -> bool:
        """Returns whether the condition holds. Names of the context are lower case; `variables`
        replaces the variables of a policy, and returns None if a variable has no value."""
        given = context.get(self.key.lower())
        if self.operator == NULL:
            return any((given is None) == (value.lower() == "true") for value in self.values)
        if given is None and self.if_exists:
            return True
        values = tuple(filled for value in self.values if (filled := variables(value)) is not None)
        negative = self.operator in NEGATIVE
        operator = NEGATIVE.get(self.operator, self.operator)
        holds = POSITIVE[operator]
        if operator not in PATTERNED:
            values = tuple(value.translate(_PLAIN) for value in values)

        def is_met_by(value: str) -> bool:
            return negative != any(holds(expected, value) for expected in values)

        if self.quantifier:
            many: Sequence[str] = () if given is None else [given] if isinstance(given, str) else given
            return all(map(is_met_by, many)) if self.quantifier == FOR_ALL else any(map(is_met_by, many))
        if given is None:
            return negative
        if isinstance(given, str):
            return is_met_by(given)
        # A key with several values and no ForAllValues or ForAnyValue: one of them is enough for a
        # match, and a negated operator wants that none does.
        return all(map(is_met_by, given)) if negative else any(map(is_met_by, given))


# --- policies -------------------------------------------------------------------------------------


refuse = Refusals("IAM guide, IAM JSON policy elements reference")
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
            raise PolicyFault(1, 1, f"a policy has at most {MAX_CHARACTERS:,} characters; this one has {len(text):,}")
        return _build_policy(parse(text), name)
    except PolicyFault as error:
        hint = "See examples/policies for policies that work."
        raise refuse.input(f"{name}:{error.line}:{error.column}", error.rule, hint) from None


def _make_fault(node: Node, rule: str) -> PolicyFault:
    return PolicyFault(node.line, node.column, rule)


def _read_members(node: Node, what: str, names: tuple[str, ...]) -> dict[str, Node]:
    """Returns the members of an object by name. `names`: the allowed ones, () for any. Raises
    PolicyFault for another value, an unknown or a repeated name."""
    if not node.is_object:
        raise _make_fault(node, f"{what} is an object")
    members: dict[str, Node] = {}
    for key, value in node.value:
        if names and key.value not in names:
            raise _make_fault(key, f"{what} has no {str(key.value)[:40]!r}; it has {', '.join(names)}")
        if key.value in members:
            raise _make_fault(key, f"{key.value[:40]!r} is there twice")
        members[key.value] = value
    return members


def _build_policy(node: Node, name: str) -> Policy:
    """Returns the policy in a document's root. Raises PolicyFault."""
    parts = _read_members(node, "a policy", ("Version", "Id", "Statement"))
    version = parts.get("Version")
    if version is not None and version.value not in VERSIONS:
        raise _make_fault(version, f"Version is {' or '.join(VERSIONS)}")
    if "Id" in parts and not isinstance(parts["Id"].value, str):
        raise _make_fault(parts["Id"], "Id is a text")
    if "Statement" not in parts:
        raise _make_fault(node, "a policy has a Statement")
    given = parts["Statement"]
    nodes = [given] if given.is_object else given.value
    if not isinstance(nodes, list) or not nodes:
        raise _make_fault(given, "Statement is an object or a list of objects")
    variables = version is not None and version.value == VERSIONS[0]
    return Policy(name, tuple(_build_statement(statement_node) for statement_node in nodes), variables)


_STATEMENT = ("Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition")


def _build_statement(node: Node) -> Statement:
    """Returns one statement of a policy. Raises PolicyFault."""
    parts = _read_members(node, "a statement", _STATEMENT)
    sid = parts.get("Sid")
    if sid is not None and not (isinstance(sid.value, str) and re.fullmatch(r"[A-Za-z0-9]*", sid.value, re.ASCII)):
        raise _make_fault(sid, "Sid is letters and digits")
    effect = parts.get("Effect")
    if effect is None or effect.value not in ("Allow", "Deny"):
        raise _make_fault(effect or node, "a statement has an Effect, which is Allow or Deny")
    actions, not_actions = _read_alternative(
        node, parts, "Action", _ACTION, "SERVICE:ACTION like ec2:CreateVolume, or *"
    )
    resources, not_resources = _read_alternative(
        node, parts, "Resource", _ARN, "an ARN like arn:aws:ec2:*:*:volume/*, or *"
    )
    block = parts.get("Condition")
    parsed_conditions = tuple(_build_conditions(block)) if block is not None else ()
    return Statement(effect.value == "Allow", actions, not_actions, resources, not_resources, parsed_conditions)


def _read_alternative(
    node: Node, parts: dict[str, Node], name: str, form: re.Pattern[str], rule: str
) -> tuple[tuple[str, ...], bool]:
    """Returns the values of `name` or `NotName`, and whether it was the second. Raises PolicyFault
    unless the statement has exactly one of them."""
    given = [key for key in (name, f"Not{name}") if key in parts]
    if len(given) != 1:
        at = parts[given[1]] if given else node
        raise _make_fault(at, f"a statement has either {name} or Not{name}")
    return tuple(_read_texts(parts[given[0]], given[0], form, rule)), given[0] != name


def _read_texts(node: Node, name: str, form: re.Pattern[str], rule: str) -> Iterator[str]:
    """Yields the values of a text or a list of texts; `form`: what each must match, `rule`: that in
    words. Raises PolicyFault."""
    for value_node in _list_elements(node, name):
        if not isinstance(value_node.value, str) or not form.fullmatch(value_node.value):
            raise _make_fault(value_node, f"{name} is {rule}")
        yield value_node.value


def _build_conditions(block: Node) -> Iterator[Condition]:
    """Yields the conditions of a Condition block, one for each operator and key. Raises
    PolicyFault."""
    for operator_node, keys in _list_pairs(block, "Condition"):
        text = operator_node.value
        quantifier, colon, rest = text.partition(":")
        operator = (rest if colon else text).removesuffix("IfExists")
        is_operator = operator in POSITIVE or operator in NEGATIVE or operator == NULL
        if not is_operator or (colon and quantifier not in (FOR_ALL, FOR_ANY)):
            raise _make_fault(operator_node, f"{text[:60]!r} is not an operator of conditions, like StringEquals")
        if operator == NULL and (colon or text.endswith("IfExists")):
            raise _make_fault(operator_node, "Null has neither ForAllValues, ForAnyValue nor IfExists")
        for key, values in _list_pairs(keys, text):
            if not _KEY.fullmatch(key.value):
                raise _make_fault(key, f"{key.value[:60]!r} is not a condition key, like aws:RequestTag/owner")
            texts = tuple(_read_value(value_node, operator) for value_node in _list_elements(values, "a condition"))
            yield Condition(operator, key.value, texts, quantifier if colon else "", text.endswith("IfExists"))


def _list_pairs(node: Node, what: str) -> list[tuple[Node, Node]]:
    """Returns the pairs of an object that is not empty. Raises PolicyFault."""
    _read_members(node, what[:60], ())
    if not node.value:
        raise _make_fault(node, f"{what[:60]} is empty")
    return node.value


def _list_elements(node: Node, what: str) -> list[Node]:
    """Returns the elements of a list, or a single value as a list of one. Raises PolicyFault for an
    empty list, which the fault calls `what`."""
    nodes = node.value if isinstance(node.value, list) else [node]
    if not nodes:
        raise _make_fault(node, f"{what} has at least one value")
    return nodes


def _read_value(node: Node, operator: str) -> str:
    """Returns a value of a condition as text. Raises PolicyFault for one that its operator cannot
    read; variables are not read yet."""
    value = node.value
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise _make_fault(node, "a value of a condition is text, a number, true or false")
    if operator in ("Bool", NULL) and value.lower() not in ("true", "false") and "${" not in value:
        raise _make_fault(node, f"a value of {operator} is true or false")
    for prefix, read in READABLE.items():
        if operator.startswith(prefix) and "${" not in value and read(value) is None:
            raise _make_fault(node, f"a value of {operator} is a {'number' if prefix == 'Numeric' else 'date'}")
    return value
