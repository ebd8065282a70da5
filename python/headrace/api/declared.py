"""Calls of AWS as tables declare them: the arguments of the daemon's call, and the members of the
answer.

    models/arguments.csv   operation by operation: the argument, the parameter that it is, its form
    models/answers.csv     answer by answer: the member, the daemon's fact that it is, its form
    models/calls.csv       operations that need nothing else: the call, whether it changes something,
                           its answer, and the sentence about it

A form converts the value; a form that begins with "=" is the value itself. A member of the form
"given" comes from the handler.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.api.ec2.conversion import NO_VOLUME, convert_tags, parse_moment
from headrace.api.handling import ApiRequest, DeclaredName, Handler, Members, read_entries, serves
from headrace.base.packaged import read_rows

Convert = Callable[[Any], object]
TO_LAB: dict[str, Convert] = {
    "": lambda value: value,
    "or none": lambda value: value or None,
    "seconds": lambda value: None if value is None else value.timestamp(),
    "iso": lambda value: None if value is None else value.astimezone(UTC).isoformat(),
    "blob": lambda value: None if value is None else base64.b64encode(value).decode("ascii"),
    "tags": lambda value: {tag["Key"]: tag["Value"] for tag in value or ()},
    "key tags": lambda value: {tag["TagKey"]: tag["TagValue"] for tag in value or ()} or None,
    "true": lambda value: True,
    "false": lambda value: False,
}
FROM_LAB: dict[str, Convert] = {
    "": lambda value: value,
    "time": lambda value: None if value is None else datetime.fromisoformat(value),
    "second": parse_moment,
    "unix": lambda value: datetime.fromtimestamp(value, UTC),
    "unix times": lambda value: [datetime.fromtimestamp(each, UTC) for each in value],
    "blob": lambda value: base64.b64decode(value),
    "json": lambda value: json.loads(value) if value else None,
    "percent": lambda value: f"{value}%",
    "tags": convert_tags,
    "all tags": lambda value: convert_tags(value) or [],
    "volume": lambda value: value or NO_VOLUME,
    "false": lambda value: False,
}


def _convert(entry: DeclaredName, values: Mapping[str, object], forms: Mapping[str, Convert]) -> object:
    """Returns the value of a declared name: a constant of the table, or the value of its source
    that its form converts."""
    if entry.form.startswith("="):
        return entry.form[1:]
    return forms[entry.form](values.get(entry.source))


def collect_arguments(request: ApiRequest) -> Members:
    """Returns the arguments of the daemon's call, converted from the parameters of a request as
    arguments.csv declares them."""
    entries = read_entries("arguments.csv").get((request.service, request.operation), [])
    return {entry.name: _convert(entry, request.params, TO_LAB) for entry in entries}


def convert_answer(answer: str, facts: Mapping[str, object], **given: object) -> Members:
    """Returns facts of the daemon in AWS's form. `answer`: the name of the form in answers.csv;
    `given`: the members that the handler computes."""
    entries = read_entries("answers.csv")[answer,]
    return {
        entry.name: given[entry.name] if entry.form == "given" else _convert(entry, facts, FROM_LAB)
        for entry in entries
    }


def _declare(row: Mapping[str, str]) -> Handler:
    """Returns the handler of a row: it calls the daemon with the declared arguments, and answers
    with the declared members."""

    def handle(request: ApiRequest) -> Members:
        call = request.change if row["changes"] == "yes" else request.lab.call
        facts = call(row["call"], **collect_arguments(request))
        return convert_answer(row["answer"], facts) if row["answer"] else {}

    handle.__doc__ = row["does"]
    return handle


for _row in read_rows("headrace.api", "models", "calls.csv"):
    serves(_row["service"], _row["operation"])(_declare(_row))
