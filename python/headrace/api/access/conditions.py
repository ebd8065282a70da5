"""Implements the operators of a policy's Condition by AWS's rules (IAM guide, "IAM JSON policy
elements: Condition operators")."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from headrace.api.wildcards import compiled

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


def literal(text: str) -> str:
    """Returns a text in which no character is special in a pattern."""
    return text.translate(_MARKED)


@lru_cache(maxsize=PATTERNS)
def _pattern(text: str, ignore_case: bool) -> re.Pattern[str]:
    def part(between: str) -> str:
        return ".".join(re.escape(piece.translate(_PLAIN)) for piece in between.split("?"))

    return compiled([part(between) for between in text.split("*")], ignore_case)


def like(pattern: str, value: str, ignore_case: bool = False) -> bool:
    """True when a value matches a pattern with `*` and `?`."""
    return _pattern(pattern, ignore_case).fullmatch(value) is not None


def arn_like(pattern: str, value: str) -> bool:
    """True when an ARN matches: each of its six parts, with wildcards that stay within their
    part."""
    expected, given = pattern.split(":", 5), value.split(":", 5)
    return len(expected) == len(given) == 6 and all(like(*pair) for pair in zip(expected, given, strict=True))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number == number else None


def _date(text: str) -> float | None:
    if re.fullmatch(r"-?\d{1,12}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _compare_by(read: Callable[[str], float | None], compare: Callable[[float, float], bool]) -> Holds:
    def holds(expected: str, given: str) -> bool:
        given_value, expected_value = read(given), read(expected)
        return given_value is not None and expected_value is not None and compare(given_value, expected_value)

    return holds


def _within(network: str, given: str) -> bool:
    try:
        return ipaddress.ip_address(given) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _orders(name: str, read: Callable[[str], float | None]) -> dict[str, Holds]:
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
    "StringLike": like,
    **_orders("Numeric", _number),
    **_orders("Date", _date),
    "Bool": lambda expected, given: expected.lower() == given.lower(),
    "BinaryEquals": lambda expected, given: expected == given,
    "IpAddress": _within,
    "ArnEquals": arn_like,
    "ArnLike": arn_like,
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
READABLE: dict[str, Callable[[str], object]] = {"Numeric": _number, "Date": _date}


@dataclass(frozen=True, slots=True)
class Condition:
    """`OPERATOR: {KEY: VALUES}` of a Condition block. `operator` without its prefix and suffix."""

    operator: str
    key: str
    values: tuple[str, ...]
    over: str = ""
    if_exists: bool = False

    def met(self, context: Context, variables: Callable[[str], str | None]) -> bool:
        """True when the condition holds. Names of the context are lower case; `variables` replaces
        the variables of a policy, and returns None if a variable has no value."""
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

        def value_meets(value: str) -> bool:
            return negative != any(holds(expected, value) for expected in values)

        if self.over:
            many: Sequence[str] = () if given is None else [given] if isinstance(given, str) else given
            return all(map(value_meets, many)) if self.over == FOR_ALL else any(map(value_meets, many))
        if given is None:
            return negative
        if isinstance(given, str):
            return value_meets(given)
        # A key with several values and no ForAllValues or ForAnyValue: one of them is enough for a
        # match, and a negated operator wants that none does.
        return all(map(value_meets, given)) if negative else any(map(value_meets, given))
