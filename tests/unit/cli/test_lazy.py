"""Imports that wait: `headrace.cli.lazy`."""

from __future__ import annotations

import builtins
import threading
from types import ModuleType

import pytest

from headrace.cli.lazy import lazily


def test_a_module_is_imported_when_a_name_of_it_is_used():
    with lazily():
        from email import charset
    assert not isinstance(charset, ModuleType)
    assert charset.QP == 1


def test_other_threads_import_as_usual_meanwhile():
    imported: list[object] = []

    def import_one() -> None:
        import colorsys

        imported.append(colorsys)

    with lazily():
        thread = threading.Thread(target=import_one)
        thread.start()
        thread.join()
    assert isinstance(imported[0], ModuleType)


def test_imports_are_as_before_behind_a_block_that_fails():
    usual = builtins.__import__
    with pytest.raises(ZeroDivisionError), lazily():
        raise ZeroDivisionError
    assert builtins.__import__ is usual
