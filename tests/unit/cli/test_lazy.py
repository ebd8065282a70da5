"""Imports that wait concern the thread that asks for them, and no other."""

from __future__ import annotations

import threading
from types import ModuleType

from headrace.base.lazy import defer_imports


def test_other_threads_import_as_usual_meanwhile():
    imported: list[object] = []

    def import_now() -> None:
        import colorsys

        imported.append(colorsys)

    with defer_imports():
        thread = threading.Thread(target=import_now)
        thread.start()
        thread.join()
    assert isinstance(imported[0], ModuleType)
