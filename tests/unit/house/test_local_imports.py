"""Imports of a file stand at its top: imports inside functions are for optional packages and for
what must start quickly."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest
from places import ROOT

from headrace.base.lazy import defer_imports

PACKAGE = ROOT / "python/headrace"
MOST = 104  # imports inside functions, a ratchet: it goes down only


def local_imports(source: str) -> Iterator[int]:
    """Yields the line of each import inside a function."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    yield from {
        node.lineno
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }


def test_few_imports_stand_inside_functions():
    count = sum(len(list(local_imports(path.read_text()))) for path in PACKAGE.rglob("*.py"))
    assert count <= MOST, f"{count} imports inside functions, at most {MOST}: a command's file has `lazily` for them"


def test_what_is_counted():
    assert list(local_imports("import a\ndef f():\n    import b\n    def g(): from c import d\n")) == [3, 4]


def test_a_module_waits_until_one_of_its_names_is_used():
    name = "wave"  # of the standard library, which nothing here needs
    sys.modules.pop(name, None)
    with defer_imports():
        import wave
        from xml.sax import handler  # a module of a package
    assert name not in sys.modules
    assert wave.open is not None and name in sys.modules
    assert handler.ContentHandler.__name__ == "ContentHandler"
    with pytest.raises(AttributeError):
        _ = wave.nothing_of_the_kind  # pyright: ignore[reportAttributeAccessIssue] - it must fail


def test_what_stands_behind_the_block_is_imported_at_once():
    with pytest.raises(ZeroDivisionError), defer_imports():
        _ = 1 / 0
    import colorsys

    assert type(colorsys) is type(sys)
