"""The one conversion of results to what JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from typing import ClassVar


def to_plain(value: object) -> object:
    """Converts a value to what JSON can hold: documents and other dataclasses become dicts, frames
    lists of dicts, NaN and infinities null, dates ISO 8601, and all else its text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None  # -0.0 becomes 0.0
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Document):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, (Text, type)):
        return {member.name: to_plain(getattr(value, member.name)) for member in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    # A frame of polars, which this room does not import.
    if to_dicts := getattr(value, "to_dicts", None):
        return to_plain(to_dicts())
    return [to_plain(item) for item in value] if isinstance(value, (list, tuple, set, frozenset)) else str(value)


def pick_fields(value: object, *names: str) -> dict[str, object]:
    """Returns the attributes of a value that have these names, by name."""
    return {name: getattr(value, name) for name in names}


class Text:
    """A value that stands in JSON as its text."""


class Document:
    """Base class of dataclasses that are written as JSON: the name of the `schema`, if there is
    one, then the fields by name without those in `omitted`, then the properties in `computed`:
    `class Replay(Document, schema="headrace-replay/1", computed=("name",))`."""

    _schema: ClassVar[str] = ""
    _computed: ClassVar[tuple[str, ...]] = ()
    _omitted: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, schema: str = "", computed: tuple[str, ...] = (), omitted: tuple[str, ...] = ()) -> None:
        super().__init_subclass__()
        cls._schema, cls._computed, cls._omitted = schema, computed, omitted

    def list_entries(self) -> dict[str, object]:
        """Returns the fields and computed properties by name, not yet converted for JSON."""
        names = [member.name for member in fields(self) if member.name not in self._omitted]  # pyright: ignore[reportArgumentType]
        return pick_fields(self, *names, *self._computed)

    def to_dict(self) -> dict[str, object]:
        """Returns the document as `--output json` prints it: values that JSON can hold, by name."""
        schema: dict[str, object] = {"schema": self._schema} if self._schema else {}
        return schema | {name: to_plain(value) for name, value in self.list_entries().items()}
