"""Defers imports: a file names at its top the modules that it needs, and each is loaded at its
first use, so that `--help` of a command loads little.

    with defer_imports():
        from headrace import planner
        from headrace.report import plan as plan_report

Each name stands for a module that is imported when one of its own names is first used. So modules
are imported in the block, not names out of them: `planner.plan(...)`.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

Names = Mapping[str, object] | None
# All threads share the function that imports: one block at a time replaces it.
_block_lock = threading.Lock()


class _DeferredModule:
    """Stands for a module, which is imported when a name of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self._name), name)


class _DeferredPackage:
    """Stands for a package in `from PACKAGE import MODULE`: each name of it is a deferred
    module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _DeferredModule:
        return _DeferredModule(f"{self._name}.{name}")


@contextmanager
def defer_imports() -> Iterator[None]:
    """Defers the imports of a block, in which nothing else may stand, to the first use of each
    module. Imports of other threads meanwhile work as usual."""
    own_thread = threading.get_ident()

    def defer(
        name: str, names: Names = None, values: Names = None, parts: Sequence[str] | None = None, level: int = 0
    ) -> Any:
        """Replaces `__import__` in the block: returns a deferred module or package; imports of
        other threads work as usual."""
        if threading.get_ident() != own_thread:
            return original(name, names, values, parts or (), level)
        return _DeferredPackage(name) if parts else _DeferredModule(name)

    with _block_lock:
        original = builtins.__import__
        builtins.__import__ = defer
        try:
            yield
        finally:
            builtins.__import__ = original
