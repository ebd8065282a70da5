"""A plan that `headrace plan --output json` wrote, as the value that it was."""

from __future__ import annotations

from typing import get_type_hints

import msgspec
import polars as pl

from headrace.base.checks import shown
from headrace.errors import InputError
from headrace.planner.goals import SUBJECTS, Goal
from headrace.planner.result import Plan

DOC = "docs/guide/planning.md"
FAMILY, VERSION = "headrace-plan/", 2  # of the schema that Plan writes
AGAIN = "Write it again with: headrace plan WORKLOAD --output json > plan.json"


def restore_plan(document: object, name: str) -> Plan:
    """Returns the plan in parsed JSON. `name`: of its file, for errors. Raises InputError, also for
    a damaged plan and for one of another version."""
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith(FAMILY):
        raise InputError(name, "is not a plan", DOC, AGAIN)
    _check_version(str(document["schema"]), name)
    subject = document.get("subject")
    if subject not in SUBJECTS:
        raise InputError(name, f"is damaged: subject = {shown(subject)}", DOC, AGAIN)
    hints = get_type_hints(Plan)
    fields: dict[str, object] = {}
    for key in Plan.__dataclass_fields__:
        if key not in document:
            raise InputError(name, f"is damaged: {key} is missing", DOC, AGAIN)
        fields[key] = _restore_field(name, key, document[key], hints[key], subject)
    return Plan(**fields)  # pyright: ignore[reportArgumentType]


def _check_version(schema: str, name: str) -> None:
    version = schema.removeprefix(FAMILY)
    if version == str(VERSION):
        return
    if version.isdecimal() and int(version) > VERSION:
        hint = "Update Headrace, or write the plan with this one."
        raise InputError(
            name, f"was written by a newer Headrace ({shown(schema)}, this one reads {VERSION})", DOC, hint
        )
    raise InputError(name, f"is a plan of another form ({shown(schema)}, this Headrace reads {VERSION})", DOC, AGAIN)


def _restore_field(name: str, key: str, value: object, kind: object, subject: str) -> object:
    try:
        if kind is pl.DataFrame:
            return pl.DataFrame(
                msgspec.convert(value, list[dict[str, str | float | bool | None]]), infer_schema_length=None
            )
        if key == "goals":
            texts = msgspec.convert(value, list[str])
            return tuple(Goal.parse(text, subject) for text in texts)  # pyright: ignore[reportArgumentType]
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, pl.exceptions.PolarsError) as error:
        raise InputError(name, f"is damaged: {key}: {' '.join(str(error).split())[:200]}", DOC, AGAIN) from None
