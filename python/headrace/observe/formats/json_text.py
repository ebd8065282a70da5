"""JSON of a recording: parsed, or refused with the line it ends or breaks at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from headrace.errors import InputError
from headrace.observe.recording import Recording, describe_cut

CUT_RULE = "the JSON ends too early"
# Strings (they may hold brackets) and brackets decide where an element ends.
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_HALF_A_VALUE = re.compile(r"\s*[-+.0-9a-zA-Z]{0,20}\s*\Z")
_DECODER = json.JSONDecoder()
_CLOSE = {"{": "}", "[": "]"}


def load_json(recording: Recording, element_of: str | None = None) -> dict:
    """Returns the only object of a file; `element_of` as in `load_all_json`. Raises InputError."""
    documents = load_all_json(recording, element_of)
    if len(documents) > 1:
        raise recording.make_error("", f"{len(documents)} JSON documents", "one is expected", "Import them one by one.")
    return documents[0]


def load_all_json(recording: Recording, element_of: str | None = None) -> list[dict]:
    """Returns the objects that stand one after the other in a file, as after `cat a.json b.json`.
    With `element_of`, a last object that ends too early is read up to the last whole element of its
    array of that name, with a note. Raises InputError.
    """
    text, documents, at = recording.text, [], _skip_whitespace(recording.text, 0)
    while at < len(text):
        try:
            document, at = _decode_value(recording, text, at)
        except InputError as error:
            whole = _close_after_last_element(text[at:], element_of) if element_of and error.rule == CUT_RULE else None
            if whole is None:
                raise
            recording.notes.append(describe_cut(error))
            document, at = _decode_value(recording, whole, 0)[0], len(text)
        if not isinstance(document, dict):
            hint = "Is it the whole output of the tool?"
            raise recording.make_error("", f"a JSON {type(document).__name__}", "an object is expected", hint)
        documents.append(document)
        at = _skip_whitespace(text, at)
    return documents


def _decode_value(recording: Recording, text: str, at: int) -> tuple[object, int]:
    """Returns the JSON value that starts at `at`, and where it ends."""
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        # The decoder stops at the end of the text when the text stops too early.
        # Half a number or half of `null` may be left.
        rest = text[error.pos : error.pos + 40]
        cut = _HALF_A_VALUE.fullmatch(rest) is not None or error.msg.startswith("Unterminated string")
        rule = CUT_RULE if cut else "this is not JSON"
        hint = (
            "The tool was stopped or the copy cut off: record again, or close the brackets by hand."
            if cut
            else "The file is damaged: copy it again."
        )
        raise recording.make_error(error.lineno, error.msg, rule, hint, "RFC 8259") from None
    except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
        hint = "The file is damaged."
        raise recording.make_error("", "nesting or numbers", "beyond what any tool writes", hint, "RFC 8259") from None


def as_table(recording: Recording, where: str, value: object) -> dict:
    """Returns the value when it is an object. Raises InputError for anything else."""
    if isinstance(value, dict):
        return value
    raise recording.make_error(
        where, _name_kind(value), "an object is expected", "The file is damaged or of another version."
    )


def as_list(recording: Recording, where: str, value: object) -> list:
    """Returns the value when it is an array. Raises InputError for anything else."""
    if isinstance(value, list):
        return value
    raise recording.make_error(
        where, _name_kind(value), "an array is expected", "The file is damaged or of another version."
    )


def get_sysstat_host(recording: Recording) -> dict:
    """Returns the only host in JSON of sysstat (iostat -o JSON, sadf -j). Raises InputError."""
    document = as_table(recording, "sysstat", load_json(recording, element_of="statistics").get("sysstat"))
    hosts = as_list(recording, "sysstat.hosts", document.get("hosts"))
    if len(hosts) != 1:
        raise recording.make_error(
            "sysstat.hosts", f"{len(hosts)} hosts", "one is taken", "Import the hosts one by one."
        )
    return as_table(recording, "sysstat.hosts[0]", hosts[0])


def yield_tables(recording: Recording, where: str, value: object) -> Iterator[tuple[str, dict]]:
    """Yields (place, object) of each object in an array. Raises InputError for another element."""
    for index, item in enumerate(as_list(recording, where, value)):
        yield f"{where}[{index}]", as_table(recording, f"{where}[{index}]", item)


def _close_after_last_element(text: str, array: str) -> str | None:
    """Returns the text up to the last whole element of the array of that name, its brackets closed;
    None when there is no such element."""
    open_brackets: list[str] = []
    depth, end, closing, name = None, None, "", ""
    for match in _STRUCTURE.finditer(text):
        token = match[0]
        if token in "{[":
            open_brackets.append(token)
            if token == "[" and depth is None and name == f'"{array}"':
                depth = len(open_brackets)
        elif token in "}]":
            if not open_brackets or _CLOSE[open_brackets.pop()] != token:
                return None
            if len(open_brackets) == depth:
                end, closing = match.end(), "".join(_CLOSE[bracket] for bracket in reversed(open_brackets))
        else:
            name = token
    return text[:end] + closing if end is not None else None


def _name_kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


def _skip_whitespace(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at
