"""Documents as structs: every refusal names the key with its value, the rule, the source and, where
one is near, the word meant.
"""

from typing import Annotated, Literal

import pytest

from headrace.base.documents import DocumentKind, DocumentTable, annotate_range, annotate_rule, convert, parse_toml
from headrace.errors import InputError

KIND = DocumentKind("a test file", "headrace-test", 2, "docs", begin="Make one.", other="Import it.")


class Inner(DocumentTable):
    path: Annotated[str, annotate_rule("must be the path of a file", least=1)]
    columns: dict[str, str] = {}


class Outer(DocumentTable):
    threads: Annotated[int, annotate_range(1, 64)]
    wait: Annotated[float, annotate_range(0.0, 10.0, "ms")] = 0.0
    start: Literal["cold", "warm"] = "cold"
    on: bool = False
    sizes: list[Annotated[float, annotate_range(0.0, 1e9)]] | None = None
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("document", "value", "rule", "hint"),
    [
        ({}, "threads is missing", "this key is needed", ""),
        ({"threds": 1}, "threds", "is not a key of a test", "Did you mean threads?"),
        ({"threads": True}, "threads = True", "must be a whole number", ""),
        ({"threads": 2.0}, "threads = 2.0", "must be a whole number", ""),
        ({"threads": 65}, "threads = 65", "must be a whole number 1 to 64", ""),
        ({"threads": 1, "wait": "x"}, "wait = 'x'", "must be a number", ""),
        ({"threads": 1, "wait": float("nan")}, "wait = nan ms", "must be 0 to 10 ms", ""),
        ({"threads": 1, "wait": 10**400}, "wait = 1000", "must be 0 to 10 ms", ""),
        ({"threads": 1, "start": "wram"}, "start = 'wram'", "must be one of cold, warm", "Did you mean warm?"),
        ({"threads": 1, "on": 1}, "on = 1", "must be true or false", ""),
        ({"threads": 1, "sizes": 5}, "sizes = 5", "must be a list", ""),
        ({"threads": 1, "sizes": [1, -1]}, "sizes[1] = -1", "must be 0 to 1,000,000,000", ""),
        ({"threads": 1, "inner": 5}, "inner = 5", "must be a table", ""),
        ({"threads": 1, "inner": {}}, "inner.path is missing", "this key is needed", ""),
        ({"threads": 1, "inner": {"path": ""}}, "inner.path = ''", "must be the path of a file", ""),
        ({"threads": 1, "inner": {"path": "a", "columns": {"b": 1}}}, "inner.columns.b = 1", "must be text", ""),
    ],
)
def test_what_is_wrong_is_named(document, value, rule, hint):
    with pytest.raises(InputError) as caught:
        convert(document, Outer, source="docs", where="a test")
    error = caught.value
    assert error.value.startswith(value) and error.rule == rule and error.source == "docs"
    assert error.hint == hint or not hint


def test_what_is_right_is_taken():
    result = convert({"threads": 1, "wait": 2, "inner": {"path": "a"}}, Outer, source="docs")
    assert result.wait == 2.0 and result.inner.path == "a" and result.sizes is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b" \n", "the file is empty.*Make one"),
        (b"\xff\xfe", "UTF-8.*Import it"),
        (b"a =", "not valid TOML.*Correct the line"),
        (b"[ 1s ] thds: 16 tps: 147.71 qps: 4995.07\n", "looks like sysbench and is not .*Import it"),
        (b'format = "other"', 'must begin with format = "headrace-test"'),
        (b'format = "headrace-test"\nversion = true', "whole number from 1 to 2"),
        (b'format = "headrace-test"\nversion = 3', "newer Headrace"),
    ],
)
def test_what_is_no_such_document(content, words):
    with pytest.raises(InputError, match=words):
        parse_toml("t.toml", content, KIND)
    assert parse_toml("t.toml", b'format = "headrace-test"\nversion = 2', KIND) == {
        "format": "headrace-test",
        "version": 2,
    }
