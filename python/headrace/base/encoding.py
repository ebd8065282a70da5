"""The one conversion of results to what JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from typing import ClassVar


def to_plain(value: object) -> object:
    """Converts a value to what JSON can hold: dataclasses become dicts, frames lists of dicts,
    NaN and infinities null, dates ISO 8601, and all else its text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None  # -0.0 becomes 0.0
    if isinstance(value, date):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, (Text, type)):
        return {member.name: to_plain(getattr(value, member.name)) for member in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    # A frame of polars, which this room does not import.
    if to_dicts := getattr(value, "to_dicts", None):
        return to_plain(to_dicts())
    return [to_plain(item) for item in value] if isinstance(value, (list, tuple, set, frozenset)) else str(value)


def to_document(value: object) -> object:
    """Converts an answer as `to_plain` does, with results in it as by their `to_dict`."""
    if isinstance(value, Mapping):
        return {str(key): to_document(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_document(item) for item in value]
    to_dict = None if hasattr(value, "to_dicts") else getattr(value, "to_dict", None)
    return to_plain(value if to_dict is None else to_dict())


class Text:
    """A value that stands in JSON as its text."""


class Document:
    """A value that JSON can hold: its fields by name, behind the name of its schema if it has one:
    `class Replay(Document, schema="headrace-replay/1")`."""

    _schema: ClassVar[str] = ""

    def __init_subclass__(cls, schema: str = "") -> None:
        super().__init_subclass__()
        cls._schema = schema

    def to_dict(self) -> dict[str, object]:
        """Returns what JSON can hold, and `--output json` prints."""
        document = to_plain(self)
        assert isinstance(document, dict)
        return {"schema": self._schema, **document} if self._schema else document
