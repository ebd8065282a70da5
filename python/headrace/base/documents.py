"""Reads TOML documents into msgspec structs, explains what is wrong with a document by an
InputError, and writes them.

A document is described by structs, one for each table; the types carry the ranges and the words:

    class Benchmark(DocumentTable):                             # unknown keys are refused
        name: Literal["sysbench-tpcc", "sysbench-oltp", "own"]  # one of several words
        tables: Annotated[int, annotate_range(1, 1_000_000)] | None = None
        wait: Annotated[float, annotate_range(0.0, 1e7, "ms")] = 0.0  # finite, from 0 to 1e7
        path: Annotated[str, annotate_rule("must be the path of a file")] | None = None

    RUN_FILE = DocumentKind("a run description", "headrace-run", 1, DOC, begin="...", other="...")
    document = parse_toml(path.name, content, RUN_FILE)         # a dict, its head checked
    benchmark = convert(document["benchmark"], Benchmark, source=DOC, at="benchmark")

The InputError of `convert` has the key and its value, the rule, the source and a hint ("Did you
mean tables?"). msgspec checks the document; only where it refuses one are its fields tried one by
one, to find the first that is wrong. Rules about several keys are the caller's, after `convert`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, overload

import msgspec
import tomli_w

from headrace.base.checks import quote_value, suggest_nearest
from headrace.base.files import OWN_FILE, guess
from headrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection

T = TypeVar("T")

LONGEST_KEY = 60  # characters of an unknown key that an error repeats
LONGEST_COMPLAINT = 120  # characters of the TOML reader's own message that an error repeats


# For Annotated: a number that is neither NaN nor infinite (1e300: no figure comes near it).
FINITE = msgspec.Meta(ge=-1e300, le=1e300, extra={"rule": "must be a finite number"})


class DocumentTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A table of a document. Subclass it; keys that are not its fields are refused.

    A subclass with required keys after optional ones needs `kw_only=True` too.
    """


def annotate_range(low: float, high: float, unit: str = "") -> msgspec.Meta:
    """Returns the annotation of a number from `low` to `high`. NaN and infinity are refused too."""
    return msgspec.Meta(ge=low, le=high, extra={"unit": f" {unit}" if unit else ""})


def annotate_rule(
    rule: str, hint: str = "", *, least: int | None = None, most: int | None = None, pattern: str | None = None
) -> msgspec.Meta:
    """Returns the annotation of a text with `least` to `most` characters that matches `pattern`;
    `rule` and `hint` are those of the error."""
    return msgspec.Meta(min_length=least, max_length=most, pattern=pattern, extra={"rule": rule, "hint": hint})


@dataclass(frozen=True)
class DocumentKind:
    """A kind of file: its name in errors, its format and newest version, and the page that
    describes it.

    `begin`: the hint for an empty file, how to get one. `other`: what to do with another tool's
    output, given in place of such a file. `again`: what to do about a damaged file.
    """

    name: str
    format: str
    version: int
    source: str
    begin: str
    other: str
    again: str = "Correct the line that is named."


def parse_toml(name: str, content: bytes, kind: DocumentKind) -> dict:
    """Returns the TOML document in `content` as a dict, once its format and version are those of
    `kind`. `name`: the file's, for errors. Raises InputError."""
    if not content.strip():
        raise InputError(name, "the file is empty", kind.source, kind.begin)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: byte {error.start}", f"{kind.name} is UTF-8 text", kind.source, kind.other) from None
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        tool = guess(text)
        if tool and tool != OWN_FILE:
            raise InputError(name, f"looks like {tool} and is not {kind.name}", kind.source, kind.other) from None
        message = " ".join(str(error)[:LONGEST_COMPLAINT].split())
        raise InputError(name, f"is not valid TOML: {message}", "toml.io, v1.0", kind.again) from None
    file_format, version = document.get("format"), document.get("version")
    if file_format != kind.format:
        rule = f'the file must begin with format = "{kind.format}"'
        raise InputError(f"format = {quote_value(file_format)}", rule, kind.source, kind.begin)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(
            f"version = {quote_value(version)}", f"must be a whole number from 1 to {kind.version}", kind.source
        )
    if version > kind.version:
        rule = f"was written by a newer Headrace; this one reads up to version {kind.version}"
        hint = "Use a newer Headrace, or make the file again with this one."
        raise InputError(f"version = {quote_value(version)}", rule, kind.source, hint)
    return document


def to_toml(document: Mapping[str, object]) -> str:
    """Returns a document as TOML, without entries that are None: TOML has no null."""
    return tomli_w.dumps({str(key): _without_null(value) for key, value in document.items() if value is not None})


def _without_null(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, (list, tuple)) else value


@overload
def convert(value: object, kind: type[T], *, source: str, at: str = "", where: str = "") -> T: ...


@overload
def convert(value: object, kind: object, *, source: str, at: str = "", where: str = "") -> Any: ...


def convert(value: object, kind: object, *, source: str, at: str = "", where: str = "") -> Any:
    """Returns `value` as a `kind`: a DocumentTable, or any type of msgspec. Raises InputError for
    the first part that does not fit. `at`: the key in the document; "" for the document as a whole,
    which `where` then names. `source`: the page that describes it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        _refuse(value, kind, at, where or f"[{at}]", source)
        raise


def refuse_unknown_keys(table: dict, known_names: Collection[str], where: str, source: str, at: str = "") -> None:
    """Raises InputError for a key that is not a known name, with the nearest name as the hint."""
    for key in table:
        if key not in known_names:
            hint = suggest_nearest(key, known_names) or f"Known: {', '.join(known_names)}."
            raise InputError(f"{_join_keys(at, key)}", f"is not a key of {where}", source, hint)


def require_keys(table: dict, needed: tuple[str, ...], source: str, at: str = "", hint: str = "") -> None:
    """Raises InputError for a table that lacks one of the `needed` keys."""
    for key in needed:
        if key not in table:
            raise InputError(f"{_join_keys(at, key)} is missing", "this key is needed", source, hint)


def _join_keys(at: str, key: str) -> str:
    return f"{at}.{key[:LONGEST_KEY]}" if at else key[:LONGEST_KEY]


def _refuse(value: object, kind: object, at: str, where: str, source: str) -> None:
    """Raises InputError for the first part of `value` that breaks `kind`, if any does."""
    try:
        msgspec.convert(value, kind)
        return
    except msgspec.ValidationError:
        base, constraints = _strip_annotations(kind)
    args = get_args(base)
    if get_origin(base) in (Union, UnionType):  # a number or a list of numbers: which was meant
        listed = [member for member in args if get_origin(member) is list]
        _refuse(value, listed[0] if listed and isinstance(value, list) else args[0], at, where, source)
    if isinstance(base, type) and issubclass(base, msgspec.Struct) and isinstance(value, dict):
        fields = msgspec.structs.fields(base)
        refuse_unknown_keys(value, [field.encode_name for field in fields], where, source, at)
        require_keys(value, tuple(field.encode_name for field in fields if field.required), source, at)
        for field in fields:
            if field.encode_name in value:
                below = _join_keys(at, field.encode_name)
                _refuse(value[field.encode_name], field.type, below, f"[{below}]", source)
    elif get_origin(base) in (list, tuple) and isinstance(value, list) and "rule" not in constraints:
        for index, item in enumerate(value):
            _refuse(item, args[0], f"{at}[{index}]", where, source)
    elif get_origin(base) is dict and isinstance(value, dict) and "rule" not in constraints:
        for key, item in value.items():
            _refuse(item, args[1], _join_keys(at, key), f"[{_join_keys(at, key)}]", source)
    rule, hint = _describe_rule(value, base, constraints)
    unit = constraints.get("unit", "") if isinstance(value, (int, float)) and not isinstance(value, bool) else ""
    raise InputError(f"{at} = {quote_value(value)}{unit}", rule, source, constraints.get("hint") or hint)


def _strip_annotations(kind: object) -> tuple[object, dict]:
    """Returns a type without None and without its annotations, and the constraints of these."""
    constraints: dict = {}
    while True:
        if get_origin(kind) is Annotated:
            kind, *metas = get_args(kind)
            for meta in metas:
                constraints |= {"ge": meta.ge, "le": meta.le, **(meta.extra or {})}
        elif get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind):
            kind = Union[tuple(member for member in get_args(kind) if member is not NoneType)]  # noqa: UP007
        else:
            return kind, constraints


def _describe_rule(value: object, kind: object, constraints: dict) -> tuple[str, str]:
    """Returns the rule that a value breaks, and a hint."""
    if get_origin(kind) is Literal:
        words = get_args(kind)
        return constraints.get("rule") or f"must be one of {', '.join(words)}", suggest_nearest(value, words)
    if "rule" in constraints:
        return constraints["rule"], ""
    if kind in (int, float):
        number = "a whole number" if kind is int else "a number"
        wrong_type = (
            isinstance(value, bool) or not isinstance(value, (int, float)) or (kind is int and isinstance(value, float))
        )
        if wrong_type or constraints.get("ge") is None:
            return f"must be {number}", ""
        span = f"{constraints['ge']:,.10g} to {constraints['le']:,.10g}{constraints.get('unit', '')}"
        return f"must be {'a whole number ' if kind is int else ''}{span}", ""
    words = {str: "text", bool: "true or false", date: "a day like 2018-08-15"}
    origin = get_origin(kind) or kind
    if origin in (list, tuple):
        return "must be a list", ""
    return f"must be {words.get(kind, 'a table')}", ""
