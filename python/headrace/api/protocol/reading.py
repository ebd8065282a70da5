"""Checks the values of a request against their shapes, and words the errors of each service."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from headrace.api.errors import AwsError
from headrace.api.protocol.shapes import ModelShape

# Shown of a value that is refused, in characters. A guess: a line of an error stays readable.
SHOWN = 200
# Values of an enumeration that an error lists: the longest that the lab uses has 60 (a guess).
SHOWN_VALUES = 100
# Smallest and largest of the model's whole numbers (Smithy: integer is 32 bits, long is 64).
RANGES = {"integer": (-(1 << 31), (1 << 31) - 1), "long": (-(1 << 63), (1 << 63) - 1)}
# EC2's values whose enumeration the model does not check: the lab has an error of its own.
NOT_ENUMERATED = {"VolumeType", "InstanceType"}
# Each kind of service has codes of its own for faults:
# (a parameter that it does not have, one that is missing, one of a wrong type, one out of bounds).
CODES = {
    "ec2": ("UnknownParameter", "MissingParameter", "InvalidParameterValue", "InvalidParameterValue"),
    "cloudwatch": ("UnknownParameter", "MissingParameter", "InvalidParameterValue", "ValidationError"),
    "sts": ("UnknownParameter", "MissingParameter", "InvalidParameterValue", "ValidationError"),
    "kms": ("ValidationException", "ValidationException", "SerializationException", "ValidationException"),
    "ebs": ("ValidationException", "ValidationException", "SerializationException", "ValidationException"),
}


class Where:
    """The place of a value in the parameters of a request; makes the errors about it in the codes
    of the service. `place / step`: the place of a part."""

    __slots__ = ("_parent", "_step", "service")

    def __init__(self, service: str, parent: Where | None = None, step: str = "") -> None:
        self.service = service
        self._parent = parent
        self._step = step

    def __truediv__(self, step: object) -> Where:
        return Where(self.service, self, str(step))

    def __str__(self) -> str:
        """Returns the place as a path with dots, such as Filter.1.Name."""
        steps = []
        place: Where | None = self
        while place is not None and place._step:
            steps.append(place._step)
            place = place._parent
        return ".".join(reversed(steps))

    def refuse_unknown(self) -> AwsError:
        """Returns the error for a parameter that this operation does not have."""
        return AwsError(CODES[self.service][0], f"The parameter {str(self)[:SHOWN]} is not recognized")

    def refuse_missing(self) -> AwsError:
        """Returns the error for a required parameter that is missing."""
        return AwsError(CODES[self.service][1], f"The request must contain the parameter {self}")

    def refuse_malformed(self, value: object, what: str) -> AwsError:
        """Returns the error for a value that cannot be read as its type."""
        text = str(value) if isinstance(value, str | int | float) else type(value).__name__
        return AwsError(
            CODES[self.service][2], f"Invalid value '{text[:SHOWN]}' for {str(self)[:SHOWN]}. It must be {what}"
        )

    def refuse_out_of_bounds(self, value: object, rule: str) -> AwsError:
        """Returns the error for a value that the model does not allow."""
        code = CODES[self.service][3]
        if self.service == "ec2":
            return AwsError(code, f"Value ({str(value)[:SHOWN]}) for parameter {self} is invalid. {rule}")
        at = f"Value '{str(value)[:SHOWN]}' at '{self}'"
        return AwsError(code, f"1 validation error detected: {at} failed to satisfy constraint: {rule}")


Check = Callable[[Any, Where], None]


@cache
def make_check(shape: ModelShape, service: str) -> Check | None:
    """Returns a function that checks a value against the bounds, pattern and enumeration of its
    shape, and raises AwsError; None where the shape has none."""
    facts = shape.facts
    low, high, pattern = facts.get("min"), facts.get("max"), facts.get("pattern")
    allowed = facts.get("enum")
    if service == "ec2" and shape.name in NOT_ENUMERATED:
        allowed = None
    if low is None and high is None and pattern is None and allowed is None:
        return None
    allowed_values = frozenset(allowed) if allowed is not None else None
    matcher = re.compile(pattern).fullmatch if pattern is not None else None
    number = shape.kind in ("integer", "long", "float", "double")

    def check(value: Any, place: Where) -> None:
        if allowed_values is not None and value not in allowed_values:
            listed = ", ".join((allowed or ())[:SHOWN_VALUES])
            raise place.refuse_out_of_bounds(value, f"Member must satisfy enum value set: [{listed}]")
        size = value if number else len(value)
        what = "have value" if number else "have length"
        if low is not None and size < low:
            raise place.refuse_out_of_bounds(value, f"Member must {what} greater than or equal to {low}")
        if high is not None and size > high:
            raise place.refuse_out_of_bounds(value, f"Member must {what} less than or equal to {high}")
        if matcher is not None and not matcher(value):
            raise place.refuse_out_of_bounds(value, f"Member must satisfy regular expression pattern: {pattern}")

    return check


# XML 1.0 cannot carry these, so no answer could show them again. Lone surrogates are not text.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def check_text(value: str, place: Where) -> str:
    """Returns the text. Raises AwsError for control characters, which no XML answer can have."""
    if _UNPRINTABLE.search(value):
        raise place.refuse_malformed(value.encode("unicode_escape").decode("ascii"), "text without control characters")
    return value


_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


def check_whole(value: object, kind: str, place: Where) -> int:
    """Returns the value, a whole number within the range of its kind. Raises AwsError."""
    low, high = RANGES[kind]
    if type(value) is not int or not low <= value <= high:
        raise place.refuse_malformed(value, f"a whole number from {low} to {high}")
    return value


def read_whole(value: str, kind: str, place: Where) -> int:
    """Returns the whole number of a text. Raises AwsError."""
    if not _WHOLE.fullmatch(value):
        low, high = RANGES[kind]
        raise place.refuse_malformed(value, f"a whole number from {low} to {high}")
    return check_whole(int(value), kind, place)


def read_number(value: str, place: Where) -> float:
    """Returns the finite number of a text. Raises AwsError."""
    if not _NUMBER.fullmatch(value) or (number := float(value)) in (float("inf"), float("-inf")):
        raise place.refuse_malformed(value, "a finite number")
    return number


def read_truth(value: str, place: Where) -> bool:
    """Returns the boolean of `true` or `false`, in upper or lower case. Raises AwsError."""
    lowered = value.lower()
    if lowered not in ("true", "false"):
        raise place.refuse_malformed(value, "true or false")
    return lowered == "true"


def read_moment(value: object, place: Where) -> datetime:
    """Returns the time, in UTC, of ISO 8601, HTTP's date, or seconds since 1970, as text or number.
    Raises AwsError."""
    try:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        if isinstance(value, bool):
            raise ValueError(value)
        if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
            return datetime.fromtimestamp(float(value), UTC)
        if isinstance(value, str) and len(value) < 64:
            return _parse_moment(value)
    except (ValueError, OverflowError, OSError, TypeError):
        pass
    raise place.refuse_malformed(value, "a time like 2026-01-31T09:30:00Z")


def _parse_moment(value: str) -> datetime:
    """Returns a time of ISO 8601 (UTC without a zone) or of HTTP's date, in UTC. Raises ValueError,
    TypeError."""
    if value[:1].isdigit():
        parsed = datetime.fromisoformat(value)
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return parsedate_to_datetime(value).astimezone(UTC)
