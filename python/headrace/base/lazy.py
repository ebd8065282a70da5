"""Imports that wait: a file names at its top what it needs, and loads it when it is used: a command
its planner (`--help` loads little), a report its charts.

    with lazily():
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


class _Waiting:
    """A module that is imported when a name of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self._name), name)


class _Package:
    """Package whose names `from` may take before it is imported: each of them is a module that
    waits."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _Waiting:
        return _Waiting(f"{self._name}.{name}")


@contextmanager
def defer_imports() -> Iterator[None]:
    """Lets the imports of a block wait. Nothing but imports may stand in it. Imports of other
    threads meanwhile work as usual."""
    own_thread = threading.get_ident()

    def wait(
        name: str, names: Names = None, values: Names = None, parts: Sequence[str] | None = None, level: int = 0
    ) -> Any:
        """Replaces `__import__` in the block: returns a module that waits; imports of other threads
        work as usual."""
        if threading.get_ident() != own_thread:
            return usual(name, names, values, parts or (), level)
        return _Package(name) if parts else _Waiting(name)

    with _block_lock:
        usual = builtins.__import__
        builtins.__import__ = wait
        try:
            yield
        finally:
            builtins.__import__ = usual
