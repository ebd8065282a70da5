"""Applies EC2's Filters: each has a name and values, one of which has to match. `*` and `?` are
wildcards. filters.csv says which members of an answer they are held against, by operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest
from headrace.api.protocol.shapes import Members, get_service
from headrace.api.protocol.xml import format_time
from headrace.api.wildcards import compile_wildcards
from headrace.base.packaged import read_rows

# Values of all filters of a request together (EC2 user guide, "List and filter": 200).
MAX_VALUES = 200
# Patterns that are kept compiled. A guess with room.
PATTERNS = 1024

Item = TypeVar("Item")
# Returns the values of an item that a filter is compared with.
Values = Callable[[Any], object]


@lru_cache(maxsize=PATTERNS)
def _compile_pattern(text: str) -> re.Pattern[str]:
    """Returns the compiled pattern: `*` is any text, `?` any character, and a backslash makes them
    literal."""
    between = [""]
    for part in re.findall(r"\\[*?\\]|\*+|\?|[^*?\\]+|\\", text):
        if part[0] == "*":
            between.append("")
        elif part == "?":
            between[-1] += "."
        else:
            between[-1] += re.escape(part[1:] if len(part) == 2 and part[0] == "\\" and part[1] in "*?\\" else part)
    return compile_wildcards(between)


def _make_matcher(texts: Sequence[str]) -> Callable[[str], bool]:
    """Returns a function that says whether a text matches one of a filter's values, which may have
    `*` and `?`."""
    plain = {text for text in texts if not any(sign in text for sign in "*?\\")}
    patterns = [_compile_pattern(text) for text in texts if text not in plain]
    return lambda value: value in plain or any(pattern.fullmatch(value) for pattern in patterns)


def format_value(value: object) -> str:
    """Returns a value as text, as filters write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_time(value) if isinstance(value, datetime) else str(value)


def _format_values(value: object) -> Iterable[str]:
    """Returns the texts of a value, of each element of a list or set; none for None."""
    if value is None:
        return ()
    if isinstance(value, list | tuple | set):
        return (format_value(element) for element in value if element is not None)
    return (format_value(value),)


@cache
def read_filters() -> dict[str, dict[str, tuple[str, ...]]]:
    """Returns filters.csv: the path of the member that a filter is compared with, by operation and
    filter; cached."""
    table: dict[str, dict[str, tuple[str, ...]]] = {}
    for row in read_rows("headrace.api.ec2", "filters.csv"):
        table.setdefault(row["operation"], {})[row["filter"]] = tuple(row["member"].split("."))
    return table


def read_member(value: object, steps: Sequence[str]) -> object:
    """Returns the member at the end of a path, of lists that of each element; None where there is
    none."""
    if isinstance(value, list):
        return [read_member(element, steps) for element in value]
    if not steps or not isinstance(value, Mapping):
        return value
    return read_member(value.get(steps[0]), steps[1:])


def filter_items(
    request: ApiRequest,
    items: Iterable[Item],
    value_readers: Mapping[str, Values] | None = None,
    tags: Callable[[Item], Mapping[str, str]] | None = None,
) -> list[Item]:
    """Returns the items that all filters of the request match.

    `value_readers`: functions that return the values of an item, by filter; None: filters.csv names
    the members. `tags`: returns the tags of an item, None: it has none. Filters of EC2 that the lab
    does not model match nothing. Raises AwsError for a filter that EC2 does not have.
    """
    matching = list(items)
    if value_readers is None:
        members = read_filters()[request.operation]
        value_readers = {name: partial(read_member, steps=steps) for name, steps in members.items()}
    given = request.params.get("Filters") or []
    if sum(len(condition.get("Values") or ()) for condition in given) > MAX_VALUES:
        raise AwsError("FilterLimitExceeded", f"The maximum number of filter values is {MAX_VALUES} for a request.")
    filter_names = get_service("ec2").operations[request.operation].filters
    for condition in given:
        values_of = _make_value_reader(condition, filter_names, value_readers, tags)
        matches = _make_matcher(condition["Values"])
        matching = [item for item in matching if any(map(matches, values_of(item)))]
    return matching


def _make_value_reader(
    given: Members,
    filter_names: frozenset[str],
    value_readers: Mapping[str, Values],
    tags: Callable[[Item], Mapping[str, str]] | None,
) -> Callable[[Item], Iterable[str]]:
    """Returns a function that gives the values of an item that a filter compares. `tags`: reads an
    item's tags, None: it has none. Raises AwsError for an unknown filter."""
    name = given.get("Name")
    if not name:
        raise AwsError("MissingParameter", "The request must contain the parameter Filter.Name")
    if not given.get("Values"):
        raise AwsError("InvalidParameterValue", f"The filter '{name[:100]}' must have at least one value")
    if tags is not None and name == "tag-key":
        return lambda item: tags(item)
    if tags is not None and name.startswith("tag:"):
        key = name[len("tag:") :]
        return lambda item: [tags(item)[key]] if key in tags(item) else ()
    if name in value_readers:
        read = value_readers[name]
        return lambda item: _format_values(read(item))
    if name in filter_names:
        return lambda _: ()
    raise AwsError("InvalidParameterValue", f"The filter '{name[:100]}' is invalid")
